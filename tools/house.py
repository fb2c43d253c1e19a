"""Sizes of the package and of tools/, and who imports whom.

    python tools/house.py

Lines of a function are those below its signature and docstring. A macro of several lines counts as a function.
"""

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = (".py", ".pyi", ".pyx", ".pxd", ".h")
PUT_TOGETHER = ROOT / "pymcboost" / "include" / "mcb.h"
# What a subclass declares, and what Python and scikit-learn add to classes.
DECLARED = re.compile(r"__(?!sklearn_tags).*__|_sklearn.*|set_\w+_request|algorithm|booster|own_\w+")
START = re.compile(r"^(\s*)(?:cdef|cpdef|def)\b[^=]*\(")


def files(folder):
    """Files that are written by hand; of C in tools/, the .c files too."""
    more = (".c",) if folder.name == "tools" else ()
    found = (path for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES + more)
    return [path for path in found if path != PUT_TOGETHER]


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


def python_functions(path):
    """(name, lines) of the functions of a Python file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            yield node.name, node.end_lineno - body[0].lineno + 1 if body else 0


def cython_functions(path):
    """The same of Cython: what is indented below a signature."""
    lines = lines_of(path)
    for at, line in enumerate(lines):
        if not (start := START.match(line)):
            continue
        end = at
        while end < len(lines) and not re.search(r":\s*(?:#.*)?$", lines[end]):
            end += 1
        body = [end + 1]
        while body[-1] < len(lines) and re.match(rf"\s{{{len(start[1]) + 1}}}|\s*$", lines[body[-1]]):
            body.append(body[-1] + 1)
        text = "\n".join(lines[body[0] : body[-1]]).rstrip()
        text = re.sub(r'^\s*"""(?:.|\n)*?"""\n?', "", text)
        yield line.strip().partition("(")[0].split()[-1], text.count("\n") + 1


def c_functions(lines):
    """The same of C: from a brace that ends a signature to one in the first column; macros like files."""
    name, begin, macro = None, None, []
    for at, line in enumerate(lines):
        if macro or (line.startswith("#define") and line.endswith("\\")):
            macro.append(line.rstrip("\\").rstrip())
            if not line.endswith("\\"):
                inside = list(c_functions([part[4:] for part in macro[1:]]))
                yield from inside or [(re.match(r"#define\s+(\w+)", macro[0])[1], len(macro))]
                macro = []
        elif begin is not None and line.startswith("}"):
            yield name, at - begin
            begin = None
        elif begin is None:
            if found := re.match(r"[A-Za-z][^;=]*?(\w+)\(", line):
                name = found[1]
            if name and re.search(r"\)(?: \w+)* \{$", line) and not line.startswith((" *", "/", "#")):
                begin = at + 1


def functions(path):
    kinds = {".py": python_functions, ".pyx": cython_functions, ".pxd": cython_functions}
    return kinds[path.suffix](path) if path.suffix in kinds else c_functions(lines_of(path))


def overridden():
    """Names of the base of all estimators that others define again, parameters and declarations aside: with whose."""
    sys.path.insert(0, str(ROOT))
    from pymcboost.registry import ALGORITHMS, get_class
    from pymcboost.training.estimator import BoostingClassifier

    found = defaultdict(set)
    for algorithm in ALGORITHMS:
        for cls in get_class(algorithm).__mro__:
            if cls is BoostingClassifier:
                break
            for name in set(vars(cls)) - set(vars(cls).get("__annotations__", ())):
                if hasattr(BoostingClassifier, name) and not DECLARED.fullmatch(name):
                    found[name].add(cls.__name__)
    return found


def arrows():
    """Which rooms of the package import which others: Counter of (room, room)."""
    count = Counter()
    for path in (ROOT / "pymcboost").rglob("*.py"):
        room = path.relative_to(ROOT / "pymcboost").with_suffix("").parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module] if node.module != "pymcboost" else [f"pymcboost.{a.name}" for a in node.names]
            for name in names:
                package, _, rest = name.partition(".")
                if package == "pymcboost" and rest and rest.split(".")[0] != room and room != "__init__":
                    count[room, rest.split(".")[0]] += 1
    return count


def longest():
    """(what, lines, name) of the three longest files and functions."""
    found = defaultdict(list)
    for folder in ("pymcboost", "tools"):
        for path in files(ROOT / folder):
            where, python = path.relative_to(ROOT).as_posix(), path.suffix[:3] == ".py" or path.suffix == ".pxd"
            found["file"].append((len(lines_of(path)), where))
            what = "function of Python" if python else "function of C"
            found[what] += [(n, f"{where}: {name}") for name, n in functions(path)]
    for what, some in found.items():
        yield from ((what, n, name) for n, name in sorted(some, reverse=True)[:3])


def show():
    for top in ("pymcboost", "tools"):
        count = Counter()
        for path in files(ROOT / top):
            count["/".join(path.relative_to(ROOT).parts[:-1][:2])] += len(lines_of(path))
        for folder, n in sorted(count.items()):
            print(f"{n:7,}  {folder}/")
        print(f"{count.total():7,}  {top}/ in all")
    for what, n, name in longest():
        print(f"{n:7,}  {what}: {name}")
    names = overridden()
    print(f"{len(names):7,}  names of the estimator that subclasses define again")
    for name, classes in sorted(names.items()):
        print(f"         {name}: {', '.join(sorted(classes))}")
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    count = arrows()
    print(f"{len(count):7,}  arrows between {len(layers)} layers, each downwards, with the number of imports:")
    for layer in layers:
        for room in re.findall(r"\w+", layer):
            below = [f"{other} {n}" for (one, other), n in sorted(count.items()) if one == room]
            print(f"         {room}{' -> ' if below else ''}{', '.join(below)}")


def main(arguments=None):
    """Run the command line."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args(arguments)
    show()


if __name__ == "__main__":
    main()
