"""Small LIBSVM files and a model trained from them."""

import numpy as np
import pytest
from cli.programs import STARTED, run, write_svm


@pytest.fixture(autouse=True)
def no_process_is_left():
    """Kill what a test that failed has started."""
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def blobs():
    """Three overlapping classes labelled -1, 2 and 7, five features: X float32 (240, 5), y int (240,)."""
    rng = np.random.default_rng(3)
    labels = np.array([-1, 2, 7])
    y = labels[np.arange(240) % 3]
    centres = rng.normal(size=(3, 5)) * 1.3
    X = np.round(centres[np.arange(240) % 3] + rng.normal(size=(240, 5)), 3).astype(np.float32)
    return X, y


@pytest.fixture(scope="session")
def files(tmp_path_factory, blobs):
    """Folder with train.svm (180 rows), test.svm (60 rows) and model.mcb (30 rounds, trained by mcboost-train)."""
    folder = tmp_path_factory.mktemp("cli")
    X, y = blobs
    write_svm(folder / "train.svm", X[:180], y[:180])
    write_svm(folder / "test.svm", X[180:], y[180:])
    completed = run("train", "-q", "-n", 30, "train.svm", "model.mcb", cwd=folder)
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, "", "")
    return folder
