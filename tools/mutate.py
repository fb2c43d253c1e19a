"""Change single lines of the package, and see whether a test notices.

    python tools/mutate.py 0               the tests must pass as long as nothing is changed
    nice -n 19 python tools/mutate.py 200  try changes until the list has so many; goes on where it stopped

Changes are drawn with a fixed seed. Each is made in a copy of the tree, in build/mutants, and the tests of its module
run there until one fails. tests/mutations.csv has a row for each. A survivor that no test can see is marked by hand:
outcome "equivalent", and why in the last column.
"""

import argparse
import ast
import csv
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREE = ROOT / "build" / "mutants"
RESULTS = ROOT / "tests" / "mutations.csv"
COLUMNS = ("file", "line", "before", "after", "outcome", "seconds", "noticed by", "why")
SECONDS = 1500  # of CPU time for one file of tests; a change that makes it longer is noticed

CLASSIC = "equivalence/test_classic unit/test_classic_extremes unit/test_small_rules"
TREES = "equivalence/test_trees equivalence/test_vector_trees"
COLUMN = "equivalence/test_mcboost equivalence/test_multiboost"
FOLDS = "unit/test_metrics unit/test_calibration unit/test_folds unit/test_temperature"
ALL = "golden contract/test_estimators contract/test_checkpoints contract/test_interrupts"
# The tests of a module are those of the longest name that begins its path. "golden" is a part of the golden table.
TESTS = {
    "training": f"unit/test_training_loop {FOLDS} unit/test_small_rules {ALL} contract/test_rough_use cli/test_options",
    "losses": f"unit/test_losses unit/test_codes {COLUMN} {CLASSIC} equivalence/test_vector_trees {ALL}",
    "learners": f"unit/test_binary_learners unit/test_losses equivalence/test_stumps {TREES} {CLASSIC} {ALL}",
    "solvers": f"{COLUMN} {CLASSIC} {ALL}",
    "data": f"unit/test_tree_data equivalence/test_stumps unit/test_svmlight unit/test_small_rules {TREES} {ALL} cli",
    "model": "unit/test_ensemble unit/test_kinds unit/test_machines unit/test_scoring unit/test_temperature format cli",
    "": "unit/test_files unit/test_small_rules contract/test_public_types contract/test_rough_use format cli",
    "export": "unit/test_export_c unit/test_export_from unit/test_export_onnx unit/test_export_treelite",
    "hinge": f"equivalence/test_hinge unit/test_small_rules {ALL}",
    "algorithms": f"{CLASSIC} {ALL}",
    "algorithms/_": f"{COLUMN} {CLASSIC} {ALL}",
    "algorithms/abcboost": f"{TREES} {ALL}",
    "algorithms/hingeboost": f"equivalence/test_hinge {ALL}",
    "algorithms/m": f"{COLUMN} {ALL}",
    "algorithms/v": f"{TREES} {ALL}",
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
        changed = {bool: lambda x: not x, int: lambda x: x + 1, float: lambda x: 2 * x or 1.0}[type(node.value)]
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
    found = {}
    for path in TREE.glob("pymcboost/**/*.py"):
        lines = path.read_bytes().split(b"\n")
        for number, begin, end, pattern, new in visited(ast.parse(b"\n".join(lines))):
            old = lines[number - 1]
            changed = old[:begin] + re.sub(pattern.encode(), new.encode(), old[begin:end], count=1) + old[end:]
            if changed != old:
                key = (path.relative_to(TREE).as_posix(), old.decode().strip(), changed.decode().strip())
                found[key] = (path, number, changed)
    return dict(sorted(found.items(), key=lambda item: hashlib.sha256(repr((1, item[0])).encode()).digest()))


def noticed(tests):
    """The test that failed first in the copy, or what else went wrong; empty where all passed."""
    environment = {**os.environ, "PYTHONPATH": str(TREE), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    for test in tests.split():
        path = f"tests/{test}" if "/" not in test else f"tests/{test}.py"
        command = f"-m pytest -x -q -p no:cacheprovider --tb=no {path}"
        command = "tools/golden.py check --subset" if test == "golden" else command
        command = f"ulimit -t {SECONDS}; exec timeout {4 * SECONDS} {sys.executable} {command}"
        done = subprocess.run(command, shell=True, cwd=TREE, env=environment, capture_output=True, text=True)
        if done.returncode < 0 or done.returncode in (130, 143):
            raise SystemExit(f"{test} was ended from outside")
        if done.returncode:
            failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
            return failed[1] if failed else f"{test}, exit code {done.returncode}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, help="how many changes the list shall have; 0 tries the tests themselves")
    count = parser.parse_args().count
    rows = list(csv.reader(RESULTS.open())) if RESULTS.exists() else [COLUMNS]
    shutil.rmtree(TREE, ignore_errors=True)
    shutil.copytree(ROOT, TREE, ignore=shutil.ignore_patterns("build", ".git", ".venv*", "_build"))
    for test in sorted({test for tests in TESTS.values() for test in tests.split()}) if count == 0 else ():
        print(test, noticed(test) or "passes", flush=True)
    tried = {(row[0], row[2], row[3]) for row in rows}
    for key, (path, number, line) in changes().items():
        if key in tried or len(rows) > count:
            continue
        lines, start = path.read_bytes().split(b"\n"), time.time()
        path.write_bytes(b"\n".join([*lines[: number - 1], line, *lines[number:]]))
        by = noticed(TESTS[max((prefix for prefix in TESTS if key[0][10:].startswith(prefix)), key=len)])
        path.write_bytes(b"\n".join(lines))
        outcome = "noticed" if by else "survived"
        rows.append((key[0], number, *key[1:], outcome, round(time.time() - start), by, ""))
        with RESULTS.open("a", newline="") as file:
            csv.writer(file).writerows(rows[-1:] if len(rows) > 2 else rows)
    print(dict(Counter(row[4] for row in rows[1:])))


if __name__ == "__main__":
    main()
