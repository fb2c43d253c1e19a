"""Models of every kind with rows, and the tools that their programs need."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from reference.scoring import (
    finite_rows,
    random_entries,
    random_kernel,
    random_linear,
    random_rows,
    random_sets,
    random_stumps,
    random_trees,
    with_codes,
)

import pymcboost
from pymcboost.model.model import Model

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
N_ROWS = 23


def needed(program):
    """Path of a program; a skip where it is not installed."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    return path


def zig():
    """The compiler of the package ziglang; a skip without it."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("the package ziglang is not installed")
    return [sys.executable, "-m", "ziglang", "cc"]


def run(*command, **how):
    """What a command prints; it may not fail."""
    completed = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, **how
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


def compiled_wasm(folder):
    """Path of mcb.wasm, compiled into a folder."""
    flags = [
        "-target",
        "wasm32-freestanding",
        "-Os",
        "-s",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wl,--no-entry",
    ]
    includes = [f"-I{EXAMPLES / 'freestanding'}", f"-I{pymcboost.get_include()}"]
    run(*zig(), *flags, *includes, EXAMPLES / "wasm" / "mcb.c", "-o", folder / "mcb.wasm")
    return folder / "mcb.wasm"


def models():
    """(name, model, rows) of every kind and link."""
    texts = [f"klasse-ä{i}" for i in range(3)]
    yield (
        "stumps",
        Model.from_ensemble(random_stumps(60, 9, 3, two_sided=True), texts, link="softmax2"),
        random_rows(N_ROWS, 9),
    )
    model = Model.from_ensemble(random_stumps(60, 9, 3), [-7, 0, 1 << 40], layout="interval")
    yield "interval", model, random_rows(N_ROWS, 9)
    for mode in ("scalar", "vector", "code", "hamming"):
        model = Model.from_ensemble(random_trees(20, 9, 5, mode=mode), range(5), link="softmax")
        yield mode, model.with_temperature(1.7), random_rows(N_ROWS, 9)
    trees = random_trees(20, 9, 7, mode="vector")
    yield "labels", Model.from_ensemble(trees, range(7), link="sigmoid"), random_rows(N_ROWS, 9)
    model = Model.from_ensemble(trees, range(7), link="softmax", layout="packed", leaves="int8")
    yield "packed", model, random_rows(N_ROWS, 9)
    yield (
        "sets",
        Model.from_ensemble(random_sets(9, 9, 4), range(4)),
        with_codes(random_rows(N_ROWS, 9)),
    )
    yield (
        "entries",
        Model.from_ensemble(random_entries(20, 9, 12), range(12)),
        random_rows(N_ROWS, 9),
    )
    yield (
        "linear",
        Model.from_ensemble(random_linear(9, 3), range(3), link="softmax2"),
        finite_rows(N_ROWS, 9),
    )
    yield (
        "kernel",
        Model.from_ensemble(random_kernel(8, 9, 3), range(3), link="softmax"),
        finite_rows(N_ROWS, 9),
    )


MODELS = {name: (model, rows) for name, model, rows in models()}


def lines(model, rows):
    """What a program prints that scores rows: labels, and bits of scores and of probabilities."""
    numbers = [model.raw_scores(rows)]
    if model.has_probabilities:
        numbers.append(model.predict_proba(rows))
    bits = np.ascontiguousarray(np.hstack(numbers)).view(np.uint64)
    labels = model.classes_[model.predict_codes(rows)]
    return [
        " ".join([str(label), *(f"{one:016x}" for one in row)])
        for label, row in zip(labels, bits, strict=True)
    ]


def written(name, folder):
    """Files of a model and its rows, and what is to be printed of them."""
    model, rows = MODELS[name]
    model.save(folder / "model.mcb")
    rows.astype("<f4").tofile(folder / "rows")
    return folder / "model.mcb", folder / "rows", lines(model, rows)
