"""docs/kernels.md names every kernel and every header, and its twins and benchmarks are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "pymcboost" / "_kernels"
PAGE = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
MOST_WORDS = 1700
EXAMPLES = {"pmb_add_f_16", "pmb_cw_", "pmb_vt_"}  # the name of a variant, and prefixes


def rows():
    """The cells of each row of the table of kernels."""
    table = PAGE.split("<!-- kernels -->")[1].strip().split("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def in_column(at):
    """Names in backticks in a column of the table of kernels."""
    return sorted({name for row in rows() for name in re.findall("`([^`]+)`", row[at])})


def test_every_file_is_named():
    named = {name for part in re.findall("`([^`]+)`", PAGE) for name in re.findall(r"[\w.]+", part)}
    files = {path.name for path in [*KERNELS.glob("*.pyx"), *KERNELS.glob("*.h")]}
    assert not files - named, "give these files their row in docs/kernels.md"
    headers = {name for name in named if re.fullmatch(r"\w+\.(pyx|h)", name)}
    assert headers - {"_body.h", "mcb.h"} == files


def test_every_kernel_has_a_row():
    assert set(in_column(0)) == {path.name for path in KERNELS.glob("*.pyx")}


@pytest.mark.parametrize("name", [name for name in in_column(3) if "." in name])
def test_twins_are_there(name):
    module, _, function = name.partition(".")
    text = (ROOT / "tests" / "reference" / f"{module}.py").read_text(encoding="utf-8")
    assert re.search(rf"^(?:def|class) {function}\b", text, re.MULTILINE)


@pytest.mark.parametrize("name", in_column(4))
def test_benchmarks_are_there(name):
    files = sorted((ROOT / "tools" / "bench").glob("*.py"))
    assert any(f'@benchmark("{name}")' in path.read_text(encoding="utf-8") for path in files)


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(pmb_\w+|PMB_\w+)`", PAGE)) - EXAMPLES))
def test_functions_are_there(name):
    text = "\n".join(path.read_text(encoding="utf-8") for path in KERNELS.glob("*.h"))
    assert re.search(rf"\b{name}\b", text)


def test_the_page_stays_short():
    assert len([word for word in PAGE.split() if re.search(r"\w", word)]) <= MOST_WORDS
