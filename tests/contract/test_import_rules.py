"""The import contracts of pyproject.toml cover every module, and the kernels, which import-linter cannot read."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pymcboost"
TOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
CONTRACTS = {contract["id"]: contract for contract in TOOLS["importlinter"]["contracts"]}
FLOORS = [re.findall(r"\w+", layer) for layer in CONTRACTS["layers"]["layers"]]


def modules(folder):
    """Names of the modules and packages directly inside a folder."""
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return files | {path.parent.name for path in folder.glob("*/__init__.py")}


def test_every_module_has_a_floor():
    placed = {name for floor in FLOORS for name in floor}
    assert not modules(PACKAGE) - placed, (
        "give the new module its place in the layers contract of pyproject.toml"
    )


def test_island_contract_lists_every_module_of_the_island():
    heights = {name: height for height, floor in enumerate(FLOORS) for name in floor}
    island = {
        name for name in modules(PACKAGE) if heights["model"] <= heights[name] <= heights["threads"]
    }
    listed = {name.removeprefix("pymcboost.") for name in CONTRACTS["island"]["source_modules"]}
    assert listed == island | {"data.archives"}  # which text is read by, without the learners' data


def test_kernels_import_arrays_only():
    allowed = re.compile(
        r"cython\b(?!\.parallel)|cpython\b|libc\b|libcpp\b|numpy\b|pymcboost\._kernels\b|\.[^.]|\.$"
    )
    standard = {"os", "sys", "math", "importlib", "itertools", "functools"}
    paths = sorted(PACKAGE.glob("_kernels/*.p[xy]*"))
    assert paths
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            match = re.match(r"\s*(?:from\s+(\S+)\s+c?import\b|c?import\s+(\S+))", line)
            name = match and (match[1] or match[2])
            if match and not allowed.match(name):
                assert name.split(".")[0] in standard, f"{path.name}: {line.strip()}"
