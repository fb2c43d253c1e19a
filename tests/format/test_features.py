"""``mcb_features`` in a C program: the floats and scores that Python has of rows of float64."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from c.build import STRICTEST, build
from reference.scoring import random_rows, random_stumps, random_trees

from pymcboost.model.model import Model

SOURCE = Path(__file__).resolve().parents[1] / "c" / "offsets.c"
LONG = [
    ["gcc", "-std=c99", "-O2", "-march=native", "-ffp-contract=fast", "-DMCB_NO_VECTOR"],
    ["clang", "-std=c99", "-O2"],
    ["g++", "-x", "c++", "-std=c++11", "-O2"],
]
BUILDS = [["gcc", "-std=c99", "-O0"], *(pytest.param(one, marks=pytest.mark.slow) for one in LONG)]
OFFSETS = {0: 1.7e9, 3: -1e-300, 5: 2.0**60}


@pytest.mark.parametrize("command", BUILDS, ids=lambda one: " ".join(one[:1]))
def test_a_program_has_the_floats_and_scores_of_python(command, tmp_path):
    program = build(SOURCE, tmp_path, [*command, *STRICTEST])
    X = random_rows(40, 6).astype(np.float64) * np.array([1, 1e-9, 1, 1, 3, 1e9])
    X += np.array([1.7e9 + 0.25, 0, 1.7e9, 0, 0, 2.0**60])
    X[:4, 0] = np.nan, np.inf, -np.inf, 1e300
    X.tofile(tmp_path / "rows")
    for ensemble, offsets in (
        (random_stumps(20, 6, 3, few_thresholds=True), OFFSETS),
        (random_trees(20, 6, 3), OFFSETS),
        (random_trees(20, 6, 3), None),
    ):
        model = Model.from_ensemble(ensemble, range(3), offsets=offsets)
        model.save(tmp_path / "model.mcb")
        done = subprocess.run([program, tmp_path / "model.mcb", tmp_path / "rows"], capture_output=True, text=True)
        assert done.returncode == 0
        has, *lines = done.stdout.splitlines()
        found = np.array([[float.fromhex(value) for value in line.split()] for line in lines])
        assert has == str(int(offsets is not None)) and model.offsets == (offsets or {})
        wanted = np.hstack([model.features(X), model.raw_scores(X)])
        assert found.shape == wanted.shape and np.array_equal(found, wanted, equal_nan=True)
        with np.errstate(over="ignore", invalid="ignore"):
            plain = (X - [(offsets or {}).get(j, 0.0) for j in range(6)]).astype(np.float32)
        assert np.array_equal(model.features(X), plain, equal_nan=True)


def test_offsets_that_a_file_cannot_hold_are_refused():
    for offsets in ({6: 1.0}, {-1: 1.0}, {0: np.nan}, {0: np.inf}, {0: 0.0}):
        with pytest.raises(ValueError, match="offset"):
            Model.from_ensemble(random_stumps(5, 6, 3), range(3), offsets=offsets)
