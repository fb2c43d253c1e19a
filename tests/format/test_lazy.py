"""Lazy features and rows of integers in ``mcb.h``, against the slow reader of model files."""

import math
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from c.build import STRICTEST, build, c_compiler
from reference import modelreader
from reference.scoring import (
    exits_of_sets,
    finite_rows,
    random_kernel,
    random_linear,
    random_rows,
    random_sets,
    random_stumps,
    random_trees,
    raw_scores,
    with_codes,
)

from pymcboost.model.model import Model

SOURCE = Path(__file__).resolve().parents[1] / "c" / "lazy.c"
BUILDS = {
    "c": [c_compiler(), "-std=c99", "-O0"],
    "c++": ["g++", "-x", "c++", "-std=c++11", "-O1", "-DMCB_SIMD"],
}


@pytest.fixture(scope="module")
def compiled():
    """The program of a build."""
    return cache(lambda name: build(SOURCE, [*BUILDS[name], *STRICTEST]))


def run(program, folder, model, rows, *arguments):
    """The lines that the program prints."""
    model.save(folder / "m.mcb")
    rows.tofile(folder / "rows")
    command = [str(program), str(folder / "m.mcb"), str(folder / "rows"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


class Row(list):
    """A row that notes which features are asked for."""

    def __init__(self, values):
        super().__init__(values)
        self.asked = []

    def __getitem__(self, feature):
        self.asked.append(feature)
        return super().__getitem__(feature)


class File(modelreader.File):
    """A slow reader that notes how much was asked before each learner."""

    def note(self, n, F, so_far):
        super().note(n, F, so_far)
        self.before[n] = len(self.row.asked)

    def lazy(self, values, way):
        """Features asked for, each once, and class with learners; way -1 scores with all of them."""
        self.row = Row(values)
        self.before = {}
        found = self.scores(self.row) if way < 0 else self.early(self.row, way)
        n = len(self.row.asked) if way < 0 else self.before.get(found[1], len(self.row.asked))
        return list(dict.fromkeys(self.row.asked[:n])), found


def lazy_models():
    """Models of every kind, with their rows."""
    for layout in ("list", "interval"):
        stumps = random_stumps(20, 9, 5, two_sided=layout == "list", few_thresholds=True)
        yield Model.from_ensemble(stumps, range(5), layout=layout), random_rows(12, 9)
    for mode in ("scalar", "base", "vector", "code", "hamming", "exp"):
        yield Model.from_ensemble(random_trees(5, 40, 4, mode=mode), range(4)), random_rows(12, 40)
    for vector in (True, False):
        yield (
            Model.from_ensemble(random_sets(5, 9, 5, vector=vector), range(5)),
            with_codes(random_rows(12, 9)),
        )
    yield Model.from_ensemble(random_linear(9, 3), range(3)), finite_rows(12, 9)
    yield (
        Model.from_ensemble(random_kernel(3, 9, 3, kernel="rbf", scaled=True), range(3)),
        finite_rows(12, 9),
    )
    yield exits_of_sets(5), with_codes(random_rows(12, 9))
    scale = np.float32(0.7) ** np.arange(40)
    stumps = random_stumps(40, 30, 4)
    trees = random_trees(12, 60, 4, mode="vector")
    stumps = replace(stumps, right=stumps.right * scale[:, None])
    scale = np.repeat(scale[: len(trees)], np.diff(trees.offset) + 1)
    for ensemble in (stumps, replace(trees, leaf=trees.leaf * scale[:, None])):
        model = Model.from_ensemble(ensemble, range(4))
        X = random_rows(400, model.n_features_in_, seed=7)
        model = model.with_early_exit("certified").with_early_exit("calibrated", X, rate=0.2)
        yield model.with_early_exit("rejection", X, rate=0.2, background=1), X[:20]


@pytest.mark.parametrize("build", ["c", pytest.param("c++", marks=pytest.mark.slow)])
def test_features_are_asked_for_once_and_when_a_learner_needs_them(compiled, build, tmp_path):
    fewer = 0
    for model, X in lazy_models():
        file = File(model.to_bytes())
        wanted = []
        ways = [-1, *(way for way, tag in enumerate(modelreader.EXITS) if file.has(tag))]
        scores = model.raw_scores(X)
        for row, all_scores in zip(X.tolist(), scores.tolist(), strict=True):
            asked = [file.lazy(row, way) for way in ways]
            wanted += [
                (way, features, actual) for way, (features, actual) in zip(ways, asked, strict=True)
            ]
            fewer += any(len(features) < len(asked[0][0]) for features, _ in asked[1:])
            assert asked[0][1] == all_scores
        lines = run(compiled(build), tmp_path, model, rows=X)
        assert len(lines) == 2 * len(wanted)  # not prepared, and prepared
        for line, (way, features, actual) in zip(lines, 2 * wanted, strict=True):
            words, _, numbers = line.partition(" |")
            head, _, said = words.rpartition(":")
            machine = model.kind in (modelreader.LINEAR, modelreader.KERNEL)
            assert [int(word) for word in said.split()] == (list(range(9)) if machine else features)
            if way < 0:
                assert [float.fromhex(number) for number in numbers.split()] == actual
            else:
                assert [int(word) for word in head.split()] == list(actual)
    assert fewer > 5


def integer_models():
    """Models with thresholds on integers, between them, below all and above all of them."""
    thresholds = [
        -40000.0,
        -32768.0,
        -1.5,
        -0.0,
        0.0,
        0.25,
        7.0,
        126.999992,
        127.0,
        254.5,
        255.0,
        32766.998,
        1e30,
    ]
    thresholds = np.array([math.nextafter(1, 2), *thresholds, -1e-40, 1e-40, 254.99998], np.float32)
    for mode in ("scalar", "vector", "code", "exp"):
        trees = random_trees(9, 7, 4, mode=mode, splits=(0, 40))
        yield replace(trees, threshold=np.resize(thresholds, len(trees.threshold))), "list"
    for layout in ("list", "interval"):
        stumps = random_stumps(51, 7, 4, two_sided=layout == "list")
        yield replace(stumps, threshold=np.resize(thresholds, 51)), layout


def test_rows_of_integers_score_as_floats(compiled, tmp_path):
    rng = np.random.default_rng(0)
    edges = np.array([-32768, -2, -1, 0, 1, 7, 8, 126, 127, 128, 254, 255, 32767])
    for ensemble, layout in integer_models():
        model = Model.from_ensemble(ensemble, range(4), layout=layout)
        for values, dtype in ((1, np.uint8), (2, np.int16), (0, np.float32)):
            info = np.iinfo(np.int16 if values == 0 else dtype)
            numbers = rng.choice(edges[(edges >= info.min) & (edges <= info.max)], 7 * 40).astype(
                dtype
            )
            for stride in (7, 1, 11):  # rows side by side, windows that overlap, and gaps
                starts = np.arange(0, len(numbers) - 6, stride)
                X = numbers[starts[:, None] + np.arange(7)].astype(np.float32)
                lines = run(compiled("c"), tmp_path, model, numbers, values, stride)
                wanted = model.raw_scores(X)
                if layout == "list":
                    np.testing.assert_array_equal(wanted[:9], raw_scores(ensemble, X[:9]))
                said = [
                    [float.fromhex(number) for number in line.split()]
                    for line in lines
                    if line != "0"
                ]
                assert np.array(said).tobytes() == np.tile(wanted, (2, 1)).tobytes()
                assert lines.count("0") == 2


def test_machines_and_unknown_values_are_refused(compiled, tmp_path):
    model = Model.from_ensemble(random_linear(4, 3), range(3))
    rows = np.zeros(16, np.float32)
    assert run(compiled("c"), tmp_path, model, rows, 2, 4)[:1] == ["100"]
    assert run(compiled("c"), tmp_path, model, rows, 0, 4)[0] == "0"
    stumps = Model.from_ensemble(random_stumps(3, 4, 3), range(3))
    assert run(compiled("c"), tmp_path, stumps, rows, 3, 4) == ["100", "100"]
