"""The same bits in Python, C, C++ and WebAssembly, for every kind of model."""

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from bindings.models import EXAMPLES, MODELS, compiled_wasm, lines, needed, run, written, zig
from c.build import STRICT, build, c_compiler, cpp_compiler
from reference.scoring import random_rows, random_stumps, random_trees

import pymcboost
from pymcboost.export import integer_labels
from pymcboost.model.model import Model

DATA = EXAMPLES.parent / "data"
C = Path(__file__).resolve().parents[1] / "c"


def same(command, folder):
    """Every kind of model gives the lines of Python."""
    for name in MODELS:
        model, rows, wanted = written(name, folder)
        assert run(*command, model, rows).splitlines() == wanted, name


@pytest.mark.slow
def test_c(tmp_path):
    program = build(C / "example.c", ["cc", "-std=c99", "-O1"])
    for name in MODELS:
        model, rows, wanted = written(name, tmp_path)
        label, *numbers = zip(
            *(line.split() for line in run(program, model, rows).splitlines()), strict=True
        )
        bits = np.vectorize(float.fromhex)(numbers).view(np.uint64).T
        assert [
            " ".join([a, *(f"{one:016x}" for one in b)]) for a, b in zip(label, bits, strict=True)
        ] == wanted, name


@pytest.mark.slow
def test_cpp(tmp_path):
    same([build(C / "bits.cpp", [cpp_compiler(), "-std=c++11", "-O0", *STRICT])], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiler", "source"),
    [(f"{c_compiler()} -std=c99", "score.c"), (f"{cpp_compiler()} -std=c++11", "score.cpp")],
)
def test_examples_score_a_row(compiler, source, tmp_path):
    program = build(EXAMPLES / source, [*compiler.split(), "-O0", *STRICT])
    row = np.where(np.arange(64) == 42, 9, 0)[None]
    model = Model.from_ensemble(random_stumps(70, 64, 10), range(10))
    model.save(tmp_path / "model.mcb")
    assert model.predict(row) != model.predict(0 * row)
    assert run(program, tmp_path / "model.mcb") == f"class {model.predict(row)[0]}\n"


@pytest.mark.slow
def test_webassembly(tmp_path):
    node, folder, wasm = needed("node"), EXAMPLES / "wasm", compiled_wasm(tmp_path)
    assert wasm.stat().st_size < 100_000
    same([node, folder / "score.mjs", wasm], tmp_path)
    (tmp_path / "model.mcb").write_bytes(b"not a model" * 10)
    with pytest.raises(AssertionError, match="not a model file"):
        run(node, folder / "score.mjs", wasm, tmp_path / "model.mcb", tmp_path / "rows")
    with pytest.raises(AssertionError, match="usage: node score.mjs mcb.wasm MODEL.mcb ROWS"):
        run(node, folder / "score.mjs", wasm)


@pytest.mark.slow
def test_webassembly_with_wrong_classes_and_little_memory(tmp_path):
    node, wasm, scripts = needed("node"), compiled_wasm(tmp_path), EXAMPLES / "wasm"
    model, rows = (
        Model.from_ensemble(random_trees(2000, 9, 5, mode="vector"), range(5)),
        random_rows(3, 9),
    )
    model.save(tmp_path / "model.mcb")
    rows.tofile(tmp_path / "rows")
    asked = [
        node,
        Path(__file__).with_name("labels.mjs"),
        scripts / "mcb.js",
        wasm,
        tmp_path / "model.mcb",
    ]
    pages, *said = run(*asked, 4, 5, -1, 0.5).splitlines()
    assert said == ["4", *(f"a class is an integer from 0 to 4, not {k}" for k in (5, -1, 0.5))]
    # Room for the file and a row, and none for what mcb_prepare takes, which it can do without.
    most = int(pages) + len(model.to_bytes()) // 65536 + 2
    command = [
        node,
        f"--wasm-max-mem-pages={most}",
        scripts / "score.mjs",
        wasm,
        tmp_path / "model.mcb",
    ]
    assert run(*command, tmp_path / "rows").splitlines() == lines(model, rows)


def microcontroller(folder, model, rows, *options):
    """What the example prints of a model and rows: flash, RAM, more sizes, and what QEMU says where it is installed."""
    zig()
    model.save(folder / "model.mcb")
    rows.astype("<f4").tofile(folder / "rows")
    command = [
        sys.executable,
        EXAMPLES / "microcontroller" / "build.py",
        folder / "model.mcb",
        folder / "rows",
    ]
    command += [*options, "--out", folder]
    text = run(*command)
    sizes = [
        int(one.replace(",", "")) for one in re.findall(r"([\d,]+)(?: bytes| of tables)", text)
    ]
    emulator = f"qemu-system-{'riscv32' if 'riscv32' in options else 'arm'}"
    lines = run(*command, "--run").splitlines() if shutil.which(emulator) else None
    return text, sizes, lines and lines[len(text.splitlines()) :]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m4", "cortex-m7", "riscv32"])
def test_microcontrollers(target, tmp_path):
    trees, rows = random_trees(20, 9, 5, mode="vector"), random_rows(7, 9)
    model = Model.from_ensemble(trees, [-7, 0, 3, 9, 1 << 40], layout="packed", leaves="int8")
    _, (flash, ram, *_), lines = microcontroller(tmp_path, model, rows, "--target", target)
    assert (flash, ram) < (90_000, 3000)
    bits = model.raw_scores(rows).view(np.uint64)
    wanted = [
        " ".join([str(a), *(f"{one:016x}" for one in b)])
        for a, b in zip(model.predict(rows), bits, strict=True)
    ]
    if lines is None:
        pytest.skip("QEMU is not installed")
    assert lines[:-1] == wanted
    assert lines[-1].startswith("stack ")
    assert int(lines[-1].split()[1]) < 2000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kilobytes", "rounds", "leaves", "accuracy"), [(4, 40, 8, 0.95), (8, 70, 16, 0.975)]
)
def test_digits_without_floating_point(kilobytes, rounds, leaves, accuracy, tmp_path):
    """Model, scorer and program fit in flash of so many kilobytes; nothing of the compiler's library is called."""
    files = [DATA / f"digits.{part}.libsvm" for part in ("train", "test")]
    data = [pymcboost.load_svmlight(file, n_features=64, base=1) for file in files]
    train, test = ((np.asarray(part.X, dtype=np.float32), part.y) for part in data)
    fixed = {
        "learning_rate": 0.5,
        "leaf_levels": 1,
        "threshold_penalty": 0.1,
        "split_columns": None,
    }
    fixed |= {"min_relative_gain": 0, "calibrate": None, "random_state": 0}
    params = {"n_estimators": rounds, "max_leaf_nodes": leaves, **fixed}
    model = pymcboost.VectorTreeBoostClassifier(**params).fit(*train).model_.with_meta({})
    model = Model.from_bytes(model.to_bytes("packed"))
    options = ("--target", "cortex-m0", "--integer", "int8")
    text, (flash, ram, code, tables), lines = microcontroller(
        tmp_path, model, test[0][:5], *options
    )
    assert flash < 1000 * kilobytes and len(model.to_bytes()) < 1000 * kilobytes
    assert code < 500 and tables < 1000 * kilobytes and "it calls nothing" in text
    labels = integer_labels(model, "int8", test[0])
    assert (labels == model.predict_codes(test[0])).all()
    assert (labels == test[1]).mean() >= accuracy
    if lines is None:
        pytest.skip("QEMU is not installed")
    assert [int(line.split()[0]) for line in lines[:-1]] == labels[:5].tolist()
    assert ram + int(lines[-1].split()[1]) < 1000
