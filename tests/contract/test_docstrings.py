"""The examples in the docstrings of all public names run, and print what they say."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
NAMES = [
    name for name in re.findall(r"^   ~(pymcboost[\w.]+)$", PAGE, re.M) if ".dask." not in name
]
# Names without an example: errors, parts of models, results of functions, and communicators.
WITHOUT = (
    "ModelFormatError SvmlightError WorkerError TrainingState LivePlot Contributions Interactions Curve "
    "SvmlightData Trees Stumps Intervals LinearMachine KernelMachine Categories to_text MPIWorkers "
    "CollectiveWorkers Alone"
).split()


def public(name):
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def examples(name):
    """The examples of a function, or of a class and its methods."""
    value = public(name)
    names = dict(vars(inspect.getmodule(value) or importlib.import_module("pymcboost")))
    return [
        test for test in doctest.DocTestFinder().find(value, name, globs=names) if test.examples
    ]


@pytest.mark.parametrize("name", NAMES)
def test_public_names_have_examples_that_print_what_they_say(name, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")  # no windows
    tests = examples(name)
    assert bool(tests) != (name.rpartition(".")[2] in WITHOUT)
    for test in tests:
        failures = []
        doctest.DocTestRunner().run(test, out=failures.append)
        assert not failures, "".join(failures)
