"""README.md and docs/ say what results/ gives, in their tables and in their sentences."""

import re
from difflib import unified_diff

import pytest
from reproduce.run import blocks, pages, values, written
from reproduce.timings import Figures, machine, words
from shared.measure import ROOT
from shared.tables import VALUE, with_blocks, with_values

PAGES = [str(page.relative_to(ROOT)) for page in pages()]
AGAIN = "python tools/reproduce.py --markdown results --into"


@pytest.fixture(scope="module")
def results():
    return blocks(ROOT / "results"), values(ROOT / "results")


@pytest.mark.parametrize("name", PAGES)
def test_page_says_what_the_results_give(name, results):
    page = (ROOT / name).read_text()
    again = written(page, *results)
    differing = list(unified_diff(page.splitlines(), again.splitlines(), n=0, lineterm=""))
    assert not differing, f"write the pages again: {AGAIN}"


@pytest.mark.parametrize("name", PAGES)
def test_values_of_a_page_are_parts_of_sentences(name):
    """Each has an end, and none begins a line: that would begin a block of HTML."""
    page = (ROOT / name).read_text()
    assert not re.findall(r"^\s*<!-- value.*", page, re.MULTILINE)
    assert len(VALUE.findall(page)) == page.count("<!-- value:")


def test_values_are_filled_in():
    page = "Errors of <!-- value: car.tree -->78<!-- end -->%, on\n<!-- value: car.all -->two\nof 3<!-- end --> sets."
    values = {"car.tree": "0.29", "car.all": "3 of 3"}
    filled = with_values(page, values)
    assert VALUE.sub("*", filled) == "Errors of *%, on\n* sets."
    assert "-->0.29<" in filled and "-->3 of 3<" in filled and with_values(filled, values) == filled


def test_a_value_without_results_is_an_error():
    with pytest.raises(SystemExit, match=r"'car\.tree'.* car\.all"):
        with_values("<!-- value: car.tree -->1<!-- end -->", {"car.all": "3 of 3"})


def test_tables_are_filled_in():
    page = "A\n\n<!-- begin car -->\nold\n<!-- end car -->\n\nB"
    filled = with_blocks(page, {"car": lambda: "| new |\n"})
    assert filled == "A\n\n<!-- begin car -->\n| new |\n<!-- end car -->\n\nB"
    with pytest.raises(SystemExit, match="'car'.* iris"):
        with_blocks(page, {"iris": str})


def test_figures_of_benchmarks():
    figures = Figures(
        {"a.machine": "M"}, {"a.ours.cpu": 0.1234, "a.other.cpu": 0.5, "a.rows": 5000}
    )
    page = "<!-- value: a.ours.cpu -->-<!-- end --> <!-- value: a.other.cpu/a.ours.cpu -->-<!-- end -->"
    assert VALUE.findall(with_values(page, figures)) == ["a.ours.cpu", "a.other.cpu/a.ours.cpu"]
    assert figures["a.ours.cpu"] == "0.12" and figures["a.other.cpu/a.ours.cpu"] == "4.1"
    assert figures["a.rows"] == "5,000" and figures["a.machine"] == "M"
    assert "a.ours.cpu/b" not in figures and "b" not in figures
    assert words(12345.6) == "12,300" and words(3.0) == "3.0" and words(2.834, "x.error") == "2.83"


def test_a_machine_says_what_load_it_had():
    environment = {"cpu": "Xeon(R)", "date": "2026-11-29", "load_before": 0.91, "cpus": 2}
    assert machine(environment) == "Xeon, 2 CPUs, load 0.9, 2026-11-29"
