"""The typed face of the package (__init__.pyi) says the same as the code."""

import ast
import inspect
from pathlib import Path

import pytest

import pymcboost
from pymcboost.registry import ALGORITHMS as REGISTRY
from pymcboost.registry import get_class

STUB = ast.parse(Path(pymcboost.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
DEFINITIONS = {node.name: node for node in STUB.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def methods(node):
    """Methods of a class of the stub, by name; those of its bases in the stub come with it."""
    found = {}
    for base in node.bases:
        found.update(methods(DEFINITIONS[base.id]))
    found.update({item.name: item for item in node.body if isinstance(item, ast.FunctionDef)})
    return found


def public_names():
    names = {name for name in DEFINITIONS if not name.startswith("_")}
    for node in STUB.body:
        if isinstance(node, ast.ImportFrom):
            names.update(alias.asname for alias in node.names if alias.asname)
        elif isinstance(node, ast.AnnAssign) and node.target.id.startswith("__"):
            names.add(node.target.id)
    return names - {"__all__"}


def stub_parameters(node):
    """(kind, name, default) of each parameter, without self and cls."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    found = [("positional", a.arg, d) for a, d in zip(positional, defaults, strict=True)]
    found += [("keyword", a.arg, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    found += [("variable", a.arg, None) for a in (arguments.vararg, arguments.kwarg) if a]
    return [
        (kind, name, "required" if default is None else repr(ast.literal_eval(default)))
        for kind, name, default in found
        if name not in ("self", "cls")
    ]


def real_parameters(function):
    kinds = {
        inspect.Parameter.POSITIONAL_ONLY: "positional",
        inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
        inspect.Parameter.KEYWORD_ONLY: "keyword",
        inspect.Parameter.VAR_POSITIONAL: "variable",
        inspect.Parameter.VAR_KEYWORD: "variable",
    }
    return [
        (kinds[p.kind], p.name, "required" if p.default is p.empty else repr(p.default))
        for p in inspect.signature(function).parameters.values()
        if p.name not in ("self", "cls")
    ]


def test_stub_lists_the_public_names():
    assert public_names() == set(pymcboost.__all__)


def test_every_algorithm_has_a_public_name():
    for name in REGISTRY:
        cls = get_class(name)
        assert getattr(pymcboost, cls.__name__) is cls


def test_every_lazy_name_loads():
    for name in pymcboost.__all__:
        assert getattr(pymcboost, name) is not None


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = pymcboost.no_such_name


@pytest.mark.parametrize("name", [name for name, node in DEFINITIONS.items() if isinstance(node, ast.FunctionDef)])
def test_functions_have_the_signature_of_the_stub(name):
    assert real_parameters(getattr(pymcboost, name)) == stub_parameters(DEFINITIONS[name])


@pytest.mark.parametrize(
    ("owner", "method"),
    [
        (name, item)
        for name, node in DEFINITIONS.items()
        if isinstance(node, ast.ClassDef) and not name.startswith("_")
        for item in methods(node).values()
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_methods_have_the_signature_of_the_stub(owner, method):
    if any(isinstance(d, ast.Name) and d.id == "property" for d in method.decorator_list):
        # Plain attributes of an instance are properties in the stub because users may not set them.
        return
    real = getattr(getattr(pymcboost, owner), method.name)
    assert real_parameters(real) == stub_parameters(method)
