"""No circle of imports in tools/, and one door to the private parts of the package."""

import ast
import graphlib
from pathlib import Path

import pytest

import pymcboost

TOOLS = Path(__file__).resolve().parents[1]
FILES = {
    ".".join(path.relative_to(TOOLS).with_suffix("").parts): path
    for path in TOOLS.rglob("*.py")
    if "tests" not in path.parts and not path.name.startswith("golden")
}
# They read the parts of files, or what the package is made of.
OTHERS = ("agree", "fuzz", "bench_guard", "other_tree")
PUBLIC = {
    *pymcboost.__all__,
    "callbacks",
    "comm",
    "dask",
    "export",
    "inspection",
}  # and what is in these modules
ALSO = ("data",)


def imported(path):
    """Names of the modules that a file imports, wherever it does so."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_circle():
    graph = {
        name: {other for other in imported(path) if other in FILES} for name, path in FILES.items()
    }
    # A thin starter has the name of its package.
    graph = {name: others - {name, "bench", "reproduce"} for name, others in graph.items()}
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) == len(FILES) > 30


@pytest.mark.parametrize("name", sorted(set(FILES) - {"shared.internals", *OTHERS}))
def test_public_names_alone(name):
    """A file other than shared/internals.py imports nothing of pymcboost that is not public."""
    for other in imported(FILES[name]):
        package, _, rest = other.partition(".")
        public = not rest or rest in ALSO or rest.partition(".")[0] in PUBLIC
        assert package != "pymcboost" or public, f"{name} imports {other}"
