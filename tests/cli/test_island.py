"""mcboost-predict and mcboost-info run where NumPy is the only package there is."""

import json

import numpy as np
import pytest
from cli.programs import call, run_python, write_svm

BLOCKED = (
    "sklearn",
    "scipy",
    "joblib",
    "threadpoolctl",
    "tqdm",
    "libsvm",
    "pandas",
    "pymcboost.training",
    "pymcboost.algorithms",
    "pymcboost.training.parameters",
)

def blocker(names):
    return f"""
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if any(name == blocked or name.startswith(blocked + ".") for blocked in {names!r}):
            raise ImportError(f"blocked: {{name}}")
sys.meta_path.insert(0, Blocker())
"""


BLOCKER = blocker(BLOCKED)


def blocked(program, *arguments, cwd=None, blocker=BLOCKER):
    code = f"{blocker}from pymcboost.cli.{program} import main\nsys.exit(main({[str(a) for a in arguments]!r}))"
    return run_python(code, cwd=cwd)


def test_the_blocker_blocks():
    for name in ("sklearn", "scipy.sparse", "joblib"):
        code = f"{BLOCKER}\ntry:\n    import {name}\nexcept ImportError as error:\n    print(error)"
        assert run_python(code).stdout == f"blocked: {name.split('.')[0]}\n"


@pytest.mark.parametrize("options", [[], ["-b", "1"], ["-d", "1"], ["-j", "2"]])
def test_predict(files, tmp_path, options):
    arguments = [*options, files / "test.svm", files / "model.mcb"]
    done = blocked("predict", *arguments, "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Accuracy = ")
    assert (tmp_path / "out").read_text() == call("predict", *arguments, "-").stdout


def test_predict_sparse(tmp_path):
    X = np.zeros((2000, 9000), np.float32)
    X[np.arange(2000), np.arange(2000) % 50] = np.arange(2000) % 7 - 3.0
    X[7, 8999] = 1
    write_svm(tmp_path / "t.svm", X, np.arange(2000) % 2)
    done = call("train", "-n", 10, "t.svm", cwd=tmp_path)
    assert "(sparse)" in done.stderr, "the test must see a file that is not read as dense rows"
    done = blocked("predict", "-d", 1, "t.svm", "t.svm.mcb", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_text() == call("predict", "-d", 1, "t.svm", "t.svm.mcb", "-", cwd=tmp_path).stdout


def test_info(files, tmp_path):
    for options in ([], ["--json"]):
        done = blocked("info", *options, files / "model.mcb", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout == call("info", *options, files / "model.mcb").stdout
    assert json.loads(done.stdout)["n_learners"] == 30


@pytest.mark.parametrize("program", ["train", "predict", "info"])
@pytest.mark.parametrize(
    "arguments",
    ["--help", "--version", "--nonsense", "-n", "-n 0 t", "-t 2 t", "-S 5 -l hinge t", "t a b c d"],
)
def test_help_and_usage_errors_need_no_package_at_all(program, arguments):
    """They answer at once, as nothing is imported for them."""
    done = blocked(program, *arguments.split(), blocker=blocker(["numpy", "scipy", "sklearn", "pymcboost._kernels"]))
    assert "blocked" not in done.stderr
    fine = arguments in ("--help", "--version")
    assert (done.returncode, bool(done.stdout)) == (0 if fine else 1, fine)
