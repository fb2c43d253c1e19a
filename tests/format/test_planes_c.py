"""Certified early exits of linear machines in C."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from c.build import SANITIZERS, STRICT, build, c_compiler

from pymcboost.model.linear import LinearMachine
from pymcboost.model.model import Model

SOURCE = Path(__file__).resolve().parents[1] / "c" / "planes.c"


@pytest.mark.parametrize("options", [["-DMCB_NO_VECTOR", *SANITIZERS], ["-DMCB_SIMD"], ["-mfma"]])
@pytest.mark.part(3)
def test_c_gives_the_classes_and_hyperplanes_of_python(tmp_path, options):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(50, 37)) * (rng.random((50, 37)) < 0.5)).astype(np.float32)
    program = build(SOURCE, [c_compiler(*options), "-std=c99", "-O0", *STRICT, *options])
    X.tofile(tmp_path / "rows")
    for rank in (3, 30):
        coef = rng.integers(-1, 2, (30, rank)) @ rng.normal(size=(rank, 37))
        model = Model.from_ensemble(LinearMachine(coef, rng.normal(size=30)), range(30))
        model.save(tmp_path / "m.mcb")
        completed = subprocess.run(
            [program, tmp_path / "m.mcb", tmp_path / "rows"], capture_output=True, text=True
        )
        assert completed.returncode == 0
        labels, planes = model.predict_early(X)
        assert [line.split() for line in completed.stdout.splitlines()] == [
            [str(label), str(n)] for label, n in zip(labels.tolist(), planes.tolist(), strict=True)
        ]
        assert (labels == model.predict(X)).all() and planes.max() <= (30 if rank == 30 else 4)
