"""The same bits in Python, C, C++, Rust and WebAssembly, for every kind of model."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from bindings.models import MODELS, needed, run, written, zig
from c.build import STRICT, build
from reference.scoring import random_rows, random_trees

import pymcboost
from pymcboost.model.model import Model

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
C = Path(__file__).resolve().parents[1] / "c"


def same(command, folder):
    """Every kind of model gives the lines of Python."""
    for name in MODELS:
        model, rows, wanted = written(name, folder)
        assert run(*command, model, rows).splitlines() == wanted, name


@pytest.mark.slow
def test_c(tmp_path):
    program = build(C / "example.c", tmp_path, ["cc", "-std=c99", "-O1"])
    for name in MODELS:
        model, rows, wanted = written(name, tmp_path)
        label, *numbers = zip(*(line.split() for line in run(program, model, rows).splitlines()), strict=True)
        bits = np.vectorize(float.fromhex)(numbers).view(np.uint64).T
        assert [" ".join([a, *(f"{one:016x}" for one in b)]) for a, b in zip(label, bits, strict=True)] == wanted, name


def test_cpp(tmp_path):
    same([build(C / "bits.cpp", tmp_path, ["c++", "-std=c++11", "-O0", *STRICT])], tmp_path)


@pytest.mark.slow
def test_rust(tmp_path):
    cargo, include = needed("cargo"), {"MCB_INCLUDE": pymcboost.get_include(), "CARGO_NET_OFFLINE": "true"}
    command = [cargo, "build", "--release", "--locked", "--example", "score", "--target-dir", tmp_path / "target"]
    run(*command, cwd=EXAMPLES / "rust", env={**os.environ, **include})
    program = tmp_path / "target" / "release" / "examples" / "score"
    same([program], tmp_path)
    (tmp_path / "model.mcb").write_bytes((tmp_path / "model.mcb").read_bytes()[:-1] + b"x")
    with pytest.raises(AssertionError, match="the file is damaged .section [A-Z]{4}"):
        run(program, tmp_path / "model.mcb", tmp_path / "rows")


@pytest.mark.slow
def test_webassembly(tmp_path):
    node, folder = needed("node"), EXAMPLES / "wasm"
    flags = ["-target", "wasm32-freestanding", "-Os", "-s", "-Wall", "-Wextra", "-Werror", "-Wl,--no-entry"]
    wasm, includes = tmp_path / "mcb.wasm", [f"-I{EXAMPLES / 'freestanding'}", f"-I{pymcboost.get_include()}"]
    run(*zig(), *flags, *includes, folder / "mcb.c", "-o", wasm)
    assert wasm.stat().st_size < 100_000
    same([node, folder / "score.mjs", wasm], tmp_path)
    (tmp_path / "model.mcb").write_bytes(b"not a model" * 10)
    with pytest.raises(AssertionError, match="not a model file"):
        run(node, folder / "score.mjs", wasm, tmp_path / "model.mcb", tmp_path / "rows")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["header", "generated"])
@pytest.mark.parametrize(("target", "qemu"), [("cortex-m4", "arm"), ("cortex-m7", "arm"), ("riscv32", "riscv32")])
def test_microcontrollers(target, qemu, form, tmp_path):
    zig()
    trees, rows = random_trees(20, 9, 5, "vector"), random_rows(7, 9)
    model = Model.from_ensemble(trees, [-7, 0, 3, 9, 1 << 40], layout="packed", leaves="int8")
    model.save(tmp_path / "model.mcb")
    rows.astype("<f4").tofile(tmp_path / "rows")
    command = [sys.executable, EXAMPLES / "microcontroller" / "build.py", tmp_path / "model.mcb", tmp_path / "rows"]
    command += ["--target", target, "--form", form, "--out", tmp_path]
    flash, ram = (int(one.replace(",", "")) for one in re.findall(r"([\d,]+) bytes", run(*command)))
    assert (flash, ram) < ((12_000, 1000) if form == "generated" else (90_000, 3000))
    needed(f"qemu-system-{qemu}")
    lines = run(*command, "--run").splitlines()[1:]
    bits = model.raw_scores(rows).view(np.uint64)
    wanted = [" ".join([str(a), *(f"{one:016x}" for one in b)]) for a, b in zip(model.predict(rows), bits, strict=True)]
    assert lines[:-1] == wanted
    assert lines[-1].startswith("stack ")
    assert int(lines[-1].split()[1]) < (1000 if form == "generated" else 40_000)
