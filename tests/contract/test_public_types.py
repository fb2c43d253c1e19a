"""The public names: one registry, the block for type checkers that says the same, and types on all that users call."""

import ast
import inspect
from pathlib import Path

import pytest

import pymcboost
from pymcboost.registry import ALGORITHMS, PUBLIC, get_class, load
from pymcboost.training.callbacks import Callback

SOURCE = ast.parse(Path(pymcboost.__file__).read_text(encoding="utf-8"))


def typed_names():
    """(name, module) of the block for type checkers."""
    block = next(node for node in SOURCE.body if isinstance(node, ast.If))
    return {(alias.asname, node.module) for node in block.body for alias in node.names if alias.asname == alias.name}


def test_the_block_for_type_checkers_is_the_registry():
    assert typed_names() == {(entry.name, entry.module) for entry in PUBLIC}


def test_names_and_algorithms_stand_once():
    assert len({entry.name for entry in PUBLIC}) == len(PUBLIC)
    assert len(ALGORITHMS) == sum(entry.algorithm is not None for entry in PUBLIC)


@pytest.mark.parametrize("entry", PUBLIC, ids=lambda entry: entry.name)
def test_every_name_loads_and_is_defined_where_the_registry_says(entry):
    assert getattr(pymcboost, entry.name) is load(entry)
    assert load(entry).__module__ == entry.module
    assert entry.name in pymcboost.__all__
    assert entry.name in dir(pymcboost)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_algorithms_name_themselves_as_the_registry_does(name):
    assert get_class(name).algorithm == name


def test_unknown_names_are_errors():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = pymcboost.no_such_name
    with pytest.raises(ValueError, match="unknown algorithm 'none'; known: abc-logitboost"):
        get_class("none")


def public_functions():
    for entry in PUBLIC:
        value = load(entry)
        if not inspect.isclass(value):
            yield entry.name, value
            continue
        for name, member in inspect.getmembers(value):
            ours = (getattr(member, "__module__", None) or "").startswith("pymcboost")
            ours = ours and not hasattr(Callback, name)  # called by the training
            if ours and callable(member) and not name.startswith("_") and not inspect.isclass(member):
                yield f"{entry.name}.{name}", member


@pytest.mark.parametrize(("name", "function"), list(public_functions()))
def test_everything_a_user_calls_has_types(name, function):
    signature = inspect.signature(function)
    given = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    untyped = [p.name for p in given if p.annotation is p.empty]
    assert not untyped
    assert signature.return_annotation is not signature.empty
