"""Trainings of several processes, with mpiexec."""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pymcboost import ABCLogitBoostClassifier, MCBoostClassifier, VectorTreeBoostClassifier, load_model, load_svmlight
from pymcboost.comm import Alone

MPIEXEC = Path(sys.executable).with_name("mpiexec")
PROGRAM = Path(__file__).parents[1] / "divided" / "mpi_fit.py"
pytest.importorskip("mpi4py")
if not MPIEXEC.exists():
    pytest.skip("no mpiexec beside Python: pip install mpich", allow_module_level=True)


def mpiexec(n, *command, seconds=60):
    return subprocess.run(
        [str(MPIEXEC), "-n", str(n), sys.executable, *command],
        capture_output=True, text=True, timeout=seconds, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_three_processes_have_the_models_of_one():
    from divided.mpi_fit import rows

    X, y = rows()
    all_three = VectorTreeBoostClassifier, ABCLogitBoostClassifier, MCBoostClassifier
    params = {"n_estimators": 20, "random_state": 0, "calibrate": None}
    models = [cls(**params).fit(X, y, comm=Alone()).model_.to_bytes() for cls in all_three]
    want = hashlib.sha256(b"".join(models)).hexdigest()
    done = mpiexec(3, str(PROGRAM), "none", *(cls.__name__ for cls in all_three))
    assert sorted(done.stdout.splitlines()) == [f"worker {r}: {want}" for r in range(3)], done.stderr


@pytest.mark.part(2)
@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        ("raise", "ValueError: column 2: inf is infinite"),
        ("late", "ZeroDivisionError: after five rounds"),
        ("interrupt", "KeyboardInterrupt"),
    ],
)
def test_error_in_one_process_is_an_error_in_all(trouble, told):
    done = mpiexec(2, str(PROGRAM), trouble)
    lines = sorted(done.stdout.splitlines())
    assert lines[0].startswith(f"worker 0: WorkerError: worker 1 of 2 has failed: {told}"), done.stderr
    assert lines[1].startswith(f"worker 1: {told}")


@pytest.mark.part(2)
@pytest.mark.parametrize("trouble", ["stop", "kill"])
def test_process_that_stops_ends_all(trouble):
    start = time.monotonic()
    done = mpiexec(2, str(PROGRAM), trouble)
    assert done.returncode != 0
    assert time.monotonic() - start < 30
    assert "worker 1" not in done.stdout
    if trouble == "stop":
        assert "worker 0 of 2 has waited 5 s for the others" in done.stderr


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (VectorTreeBoostClassifier, ["--split-columns", "auto"]),
        (ABCLogitBoostClassifier, ["--gap", "10"]),
        (MCBoostClassifier, ["--loss", "exp"]),
    ],
)
def test_command_line_trains_on_parts(cls, options, tmp_path):
    rng = np.random.default_rng(1)
    lines = []
    for _ in range(600):
        x = rng.normal(size=4)
        label = int(x[0] > 0) + 2 * int(x[1] > 0.3)
        lines.append(f"{label} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in enumerate(x) if j < 3 or x[0] < 1))
    for r, part in enumerate((lines[:100], lines[100:])):
        (tmp_path / f"part-{r}.svm").write_text("\n".join(part) + "\n")
    (tmp_path / "all.svm").write_text("\n".join(lines) + "\n")
    options = ["-a", cls.algorithm, "--calibrate", "none", "-n", "20", "-S", "1", *options]
    where = str(tmp_path / "parts.mcb")
    done = mpiexec(2, "-m", "pymcboost.cli.train", *options, "--mpi", str(tmp_path / "part-%r.svm"), where)
    assert done.returncode == 0, done.stderr
    data = load_svmlight(tmp_path / "all.svm")
    X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
    whole = cls(n_estimators=20, random_state=1, calibrate=None).fit(X, data.y, comm=Alone())
    assert np.array_equal(load_model(where).decision_function(X), whole.decision_function(X))


@pytest.mark.slow
def test_command_line_names_the_missing_file(tmp_path):
    (tmp_path / "part-0.svm").write_text("0 1:1\n1 1:2\n")
    done = mpiexec(
        2, "-m", "pymcboost.cli.train", "-a", "vector-tree", "--mpi", str(tmp_path / "part-%r.svm"),
        str(tmp_path / "model.mcb"),
    )  # fmt: skip
    assert done.returncode != 0
    assert "part-1.svm: No such file" in done.stderr
    assert "worker 1 of 2 has failed" in done.stderr
    assert not (tmp_path / "model.mcb").exists()
