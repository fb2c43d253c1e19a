"""Change single lines of the package, and see whether a test notices.

    python tools/mutate.py map             once: run the tests, and write down which of them run which lines
    nice -n 19 python tools/mutate.py 200  try changes until the list has so many; goes on where it stopped

Changes are drawn with a fixed seed. Each is made in a copy of the tree, in build/mutants. The tests that run the line
are run there, the shortest first, until one fails. A line that runs at import only is left to all tests of its part of
the package. tests/mutations.csv has a row for each change. A survivor that no test can see is marked by hand: outcome
"equivalent", and why in the last column. The map needs pytest-cov.
"""

import argparse
import ast
import csv
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREE = ROOT / "build" / "mutants"
LINES, TIMES = ROOT / "build" / "mutants.coverage", ROOT / "build" / "mutants.xml"
RESULTS = ROOT / "tests" / "mutations.csv"
COLUMNS = ("file", "line", "before", "after", "outcome", "seconds", "noticed by", "why")
SECONDS = (
    120  # of CPU time, and twice what the tests take; a change that makes them longer is noticed
)
# Tests of lines that run at import only, by folder of the package.
AT_IMPORT = {
    "training": "unit contract",
    "model": "unit format",
    "cli": "cli",
    "": "unit contract equivalence",
}
OPERATORS = {
    "Lt": "<,<=", "LtE": "<=,<", "Gt": ">,>=", "GtE": ">=,>", "Eq": "==,!=", "NotEq": "!=,==", "Is": "is,is not",
    "IsNot": "is not,is", "In": "in,not in", "NotIn": "not in,in", "Add": "+,-", "Sub": "-,+", "Mult": "*,/",
    "Div": "/,*", "FloorDiv": "//,*", "Mod": "%,+", "Pow": "**,*", "And": "and,or", "Or": "or,and",
}  # fmt: skip


def spots(node):
    """(line, begin, end, pattern, text): the text takes the place of the pattern in a part of a line, in bytes."""
    parts = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    operators = getattr(node, "ops", None) or [getattr(node, "op", None)] * len(parts)
    for one, operator, other in zip(parts, operators, parts[1:], strict=False):
        if one.end_lineno == other.lineno and type(operator).__name__ in OPERATORS:
            old, new = OPERATORS[type(operator).__name__].split(",")
            yield one.end_lineno, one.end_col_offset, other.col_offset, re.escape(old), new
    instead = None
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        changed = {bool: lambda x: not x, int: lambda x: x + 1, float: lambda x: 2 * x or 1.0}[
            type(node.value)
        ]
        instead = (".*", str(changed(node.value)))
    elif isinstance(node, ast.UnaryOp):
        instead = ("^(not |-)", "")
    elif isinstance(node, ast.Return):
        instead = ("^return .*", "return None")
    elif isinstance(node, ast.Name | ast.Attribute | ast.Call) and hasattr(node, "condition"):
        instead = ("^", "not ")
    if instead and node.lineno == node.end_lineno:
        yield node.lineno, node.col_offset, node.end_col_offset, *instead


def visited(node):
    """All spots below a node; not those in types, in messages and in errors."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        node.test.condition = True
    yield from spots(node)
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            plain = isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr | ast.Raise)
            if plain and name not in ("annotation", "returns", "decorator_list"):
                yield from visited(child)


def changes():
    """{(file, line before, after): (path, number, changed line)} of all that could be tried, in the seed's order."""
    change_of_key = {}
    for path in TREE.glob("pymcboost/**/*.py"):
        lines = path.read_bytes().split(b"\n")
        for number, begin, end, pattern, new in visited(ast.parse(b"\n".join(lines))):
            old = lines[number - 1]
            changed = (
                old[:begin]
                + re.sub(pattern.encode(), new.encode(), old[begin:end], count=1)
                + old[end:]
            )
            if changed != old:
                key = (
                    path.relative_to(TREE).as_posix(),
                    old.decode().strip(),
                    changed.decode().strip(),
                )
                change_of_key[key] = (path, number, changed)
    return dict(
        sorted(
            change_of_key.items(),
            key=lambda item: hashlib.sha256(repr((1, item[0])).encode()).digest(),
        )
    )


def run(command, seconds, **options):
    """The finished command, in the copy of the tree; ends all where it was stopped from outside."""
    environment = {**os.environ, "PYTHONPATH": str(TREE), "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = (
        f"ulimit -t {round(seconds)}; exec timeout {round(4 * seconds)} {sys.executable} {command}"
    )
    completed = subprocess.run(command, shell=True, cwd=TREE, env=environment, text=True, **options)
    if completed.returncode in (-signal.SIGINT, -signal.SIGTERM, 130, 143):
        raise SystemExit(f"{command[:200]} was ended from outside")
    return completed


def mapped():
    """Run the quick tests, and write down their times and the lines that each of them runs."""
    settings = TREE / "build.coveragerc"
    settings.write_text(f"[run]\nrelative_files = true\nsource = pymcboost\ndata_file = {LINES}\n")
    cover = f"--cov=pymcboost --cov-config={settings} --cov-context=test --cov-report="
    cover += " -k 'not signals_at_random'"  # coverage never lets go of its lock where a signal comes within
    return run(
        f"-m pytest -q -n {os.cpu_count()} --dist worksteal {cover} --junitxml={TIMES} tests", 3600
    ).returncode


@cache
def contexts(file):
    """{line: names of the tests that run it} of a file of the package."""
    from coverage import CoverageData  # not among what the package needs

    data = CoverageData(str(LINES))
    data.read()
    tests_of_line = data.contexts_by_lineno(file)
    return {
        line: {name.split("|")[0] for name in names if name}
        for line, names in tests_of_line.items()
    }


@cache
def seconds():
    """{test: seconds that it took}."""
    cases = xml.etree.ElementTree.parse(TIMES).iter("testcase")
    return {
        f"{case.get('classname')}.{case.get('name')}": float(case.get("time")) for case in cases
    }


def length(test):
    """Seconds that a test took; all of them for what the map does not know."""
    path, _, name = test.partition("::")
    name = f"{path.removesuffix('.py').replace('/', '.')}.{name.replace('::', '.')}"
    return seconds().get(name, 1.0 if "::" in test else 600.0)


def tests_of(file, line):
    """The tests that run a line, the shortest first; folders of tests where it runs at import only."""
    lines = contexts(file)
    line = max((number for number in lines if number <= line), default=0)
    if not lines.get(line):
        part = file.split("/")[1]
        return [f"tests/{folder}" for folder in AT_IMPORT.get(part, AT_IMPORT[""]).split()]
    return sorted(lines[line], key=length)


def noticed(tests):
    """The test that failed first in the copy, or what else went wrong; empty where all passed."""
    chosen = TREE / "build.tests"
    chosen.write_text("\n".join(tests))
    command = f"-m pytest -x -q -p no:cacheprovider --tb=no @{chosen}"
    completed = run(command, SECONDS + 2 * sum(map(length, tests)), capture_output=True)
    if not completed.returncode:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", completed.stdout, re.MULTILINE)
    return failed[1] if failed else f"exit code {completed.returncode}"


def changed_to(path, text):
    """Write a file of the copy, and forget its compiled form, which goes by time and size alone."""
    path.write_bytes(text)
    for old in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        old.unlink()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", help="how many changes the list shall have, or: map")
    count = parser.parse_args().count
    shutil.rmtree(TREE, ignore_errors=True)
    shutil.copytree(ROOT, TREE, ignore=shutil.ignore_patterns("build", ".git", ".venv*", "_build"))
    if count == "map":
        return mapped()
    rows = list(csv.reader(RESULTS.open())) if RESULTS.exists() else [COLUMNS]
    tried = {(row[0], row[2], row[3]) for row in rows}
    for key, (path, number, line) in changes().items():
        if key in tried or len(rows) > int(count):
            continue
        before = path.read_bytes()
        start = time.time()
        lines = before.split(b"\n")
        changed_to(path, b"\n".join([*lines[: number - 1], line, *lines[number:]]))
        by = noticed(tests_of(key[0], number))
        changed_to(path, before)
        outcome = "noticed" if by else "survived"
        rows.append((key[0], number, *key[1:], outcome, round(time.time() - start), by, ""))
        with RESULTS.open("a", newline="") as file:
            csv.writer(file).writerows(rows[-1:] if len(rows) > 2 else rows)
    print(dict(Counter(row[4] for row in rows[1:])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
