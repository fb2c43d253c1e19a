"""The public names: one registry, the block for type checkers that says the same, and types on all that users call.

After a change of the registry, write the block again::

    PYTHONPATH=.:tests python tests/contract/test_public_types.py
"""

import inspect
import re
from pathlib import Path

import pytest

import pymcboost
from pymcboost import callbacks
from pymcboost.registry import ALGORITHMS, PUBLIC, get_class, get_plain_class, load
from pymcboost.training.callbacks import Callback

PACKAGE = Path(pymcboost.__file__)
BLOCK = re.compile(r"(?<=a test compares\n)(?:    from .*\n(?:        .*\n    \)\n)?)*")


def block():
    """The imports for type checkers, in the order and layout that ruff wants."""
    names = sorted(
        (entry.module, entry.name[0].islower(), entry.name.lower(), entry.name) for entry in PUBLIC
    )
    return "".join(imported(module, name) for module, *_, name in names)


def imported(module, name):
    """The import of a name, as one line of at most 100 characters or as three."""
    line = f"    from {module} import {name} as {name}\n"
    if len(line) <= 101:
        return line
    return f"    from {module} import (\n        {name} as {name},\n    )\n"


def test_the_block_for_type_checkers_is_the_registry():
    assert BLOCK.search(PACKAGE.read_text(encoding="utf-8"))[0] == block(), (
        "the top of this file says how to write it"
    )


def test_names_and_algorithms_stand_once():
    assert len({entry.name for entry in PUBLIC}) == len(PUBLIC)
    assert len(ALGORITHMS) == sum(entry.algorithm is not None for entry in PUBLIC)


@pytest.mark.parametrize("entry", PUBLIC, ids=lambda entry: entry.name)
def test_every_name_loads_and_is_defined_where_the_registry_says(entry):
    assert getattr(pymcboost, entry.name) is load(entry)
    assert load(entry).__module__ == ("pymcboost" if entry.algorithm else entry.module)
    assert entry.algorithm is None or issubclass(load(entry), get_plain_class(entry.algorithm))
    assert entry.name in pymcboost.__all__
    assert entry.name in dir(pymcboost)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_algorithms_name_themselves_as_the_registry_does(name):
    assert get_class(name).algorithm == name


def test_unknown_names_are_errors():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = pymcboost.no_such_name
    with pytest.raises(ValueError, match="unknown algorithm 'none'; choose one of abc-logitboost"):
        get_class("none")


def test_public_callbacks_load_and_are_documented():
    reference = (Path(__file__).parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")
    for name in callbacks.__all__:
        assert inspect.getdoc(getattr(callbacks, name))
        assert re.search(rf"^   ~pymcboost[\w.]*\.{name}\n", reference, re.MULTILINE)


def public_functions():
    given = [(entry.name, load(entry)) for entry in PUBLIC]
    for shown, value in [*given, *((name, getattr(callbacks, name)) for name in callbacks.__all__)]:
        if not inspect.isclass(value):
            yield shown, value
            continue
        if value.__init__ is not object.__init__ and (value.__module__ == callbacks.__name__):
            yield f"{shown}.__init__", value.__init__
        for name, member in inspect.getmembers(value):
            ours = (getattr(member, "__module__", None) or "").startswith("pymcboost")
            ours = ours and not hasattr(Callback, name)  # called by the training
            if (
                ours
                and callable(member)
                and not name.startswith("_")
                and not inspect.isclass(member)
            ):
                yield f"{shown}.{name}", member


def test_everything_a_user_calls_has_types():
    functions = list(public_functions())
    assert len(functions) > 300
    untyped = []
    for name, function in functions:
        signature = inspect.signature(function)
        given = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
        untyped += [f"{name}: {p.name}" for p in given if p.annotation is p.empty]
        if signature.return_annotation is signature.empty and not name.endswith("__init__"):
            untyped.append(f"{name}: what it returns")
    assert not untyped


if __name__ == "__main__":
    PACKAGE.write_text(
        BLOCK.sub(lambda _: block(), PACKAGE.read_text(encoding="utf-8")), encoding="utf-8"
    )
