"""docs/reproduction.md says what results/ gives, in its tables and in its sentences."""

import re
from difflib import unified_diff
from pathlib import Path

import pytest
from reproduce.run import written
from shared.tables import VALUE, with_values

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reproduction.md"


def test_page_says_what_the_results_give():
    page = PAGE.read_text()
    differing = unified_diff(
        page.splitlines(), written(page, ROOT / "results").splitlines(), n=0, lineterm=""
    )
    again = "python tools/reproduce.py --markdown results --into docs/reproduction.md"
    assert not list(differing), f"write the page again: {again}"


def test_values_of_the_page_are_parts_of_sentences():
    """Each has an end, and none begins a line: that would begin a block of HTML."""
    page = PAGE.read_text()
    assert not re.findall(r"^\s*<!-- value.*", page, re.MULTILINE)
    assert len(VALUE.findall(page)) == page.count("<!-- value:") > 100


def test_values_are_filled_in():
    page = "Errors of <!-- value: car.tree -->78<!-- end -->%, on\n<!-- value: car.all -->two\nof 3<!-- end --> sets."
    values = {"car.tree": "0.29", "car.all": "3 of 3"}
    filled = with_values(page, values)
    assert VALUE.sub("*", filled) == "Errors of *%, on\n* sets."
    assert "-->0.29<" in filled and "-->3 of 3<" in filled and with_values(filled, values) == filled


def test_a_value_without_results_is_an_error():
    with pytest.raises(SystemExit, match=r"'car\.tree'.* car\.all"):
        with_values("<!-- value: car.tree -->1<!-- end -->", {"car.all": "3 of 3"})
