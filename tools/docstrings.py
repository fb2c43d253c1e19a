"""Check the docstrings of all public names by numpydoc's rules; pyproject.toml lists the checks.

Usage: python tools/docstrings.py

Public are the names that docs/reference.md lists, with their public methods and properties.
"""

import importlib
import inspect
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# A name in a list of the page.
NAME = re.compile(r"^   ~(pymcboost[\w.]+)$", re.MULTILINE)
# Objects that only the package makes: their constructors have no parameters for users.
MADE_INSIDE = {"EnsembleClassifier"}
# Methods that only the package calls.
CALLED_INSIDE = {"bytes_of_best", "check_operation", "cut", "hearing", "record"}


def public_objects(page):
    """Pairs of a dotted name and its object, members of classes among them, from the text of docs/reference.md."""
    from pymcboost.callbacks import Callback

    for name in NAME.findall(page):
        module, _, attribute = name.rpartition(".")
        value = getattr(importlib.import_module(module), attribute)
        yield name, value
        # Of the parts of a model only attributes are public.
        if not inspect.isclass(value) or name.startswith("pymcboost.model."):
            continue
        for member, _ in inspect.getmembers(value):
            called_inside = member in CALLED_INSIDE or (
                value is not Callback and hasattr(Callback, member)
            )
            if not member.startswith("_") and not called_inside and is_ours(value, member):
                yield f"{name}.{member}", inspect.getattr_static(value, member)


def is_ours(cls, member):
    """Whether a member of a class is a method or property of this package."""
    owner = next((base for base in cls.__mro__ if member in vars(base)), object)
    value = vars(owner).get(member)
    value = getattr(value, "__func__", value)  # of class methods
    ours = owner.__module__.startswith("pymcboost")
    return ours and (inspect.isfunction(value) or isinstance(value, property))


def not_needed(name, value):
    """Checks of sections that a docstring can do without."""
    text = inspect.getdoc(value) or ""
    if "see `" in text.partition("\n")[0].lower():  # the class that documents all methods
        return {"PR01", "RT01"}
    if "\nYields\n" in text:  # also of functions that return an iterator
        return {"RT01"}
    fields_only = (
        inspect.isclass(value) and "\nParameters\n" not in text and "\nAttributes\n" in text
    )
    return {"PR01"} if fields_only or name.rpartition(".")[2] in MADE_INSIDE else set()


def main():
    """Print what is wrong, and end with status 1 if anything is."""
    from numpydoc.validate import validate

    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    checks = {*pyproject["tool"]["numpydoc_validation"]["checks"]}
    public = [*public_objects((ROOT / "docs" / "reference.md").read_text(encoding="utf-8"))]
    wrong = [
        f"{name}: {code} {message}"
        for name, value in public
        for code, message in validate(name)["errors"]
        if code in checks - not_needed(name, value)
    ]
    print("\n".join([*wrong, f"{len(public)} docstrings, {len(wrong)} findings"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
