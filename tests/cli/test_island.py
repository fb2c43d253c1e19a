"""mcboost-predict, mcboost-info and mcboost-convert run where NumPy is the only package there is."""

import json
import shutil

import numpy as np
import pytest
from cli.programs import call, run, run_python, write_svm

from pymcboost.registry import ALGORITHMS

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


@pytest.fixture(scope="module")
def alone(files, tmp_path_factory):
    """A folder, and what commands print that one process has run in it with NumPy as the only package."""
    folder = tmp_path_factory.mktemp("alone")
    for name in ("test.svm", "model.mcb"):
        shutil.copy(files / name, folder)
    X = np.zeros((2000, 9000), np.float32)
    X[np.arange(2000), np.arange(2000) % 50] = np.arange(2000) % 7 - 3.0
    X[7, 8999] = 1
    write_svm(folder / "t.svm", X, np.arange(2000) % 2)
    completed = call("train", "-n", 10, "t.svm", cwd=folder)
    assert "(sparse)" in completed.stderr, "the test must see a file that is not read as dense rows"
    code = f"{BLOCKER}{ALONE}({[*PREDICTIONS, *OTHERS]!r})"
    completed = run_python(code, cwd=folder)
    assert (completed.returncode, completed.stderr) == (0, "")
    return folder, dict(zip([*PREDICTIONS, *OTHERS], json.loads(completed.stdout), strict=True))


ALONE = """
import contextlib, importlib, io, json
def ask(lines):
    said = []
    for line in lines:
        program, *arguments = line.split()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert importlib.import_module(f"pymcboost.cli.{program}").main(arguments) == 0, line
        said.append(out.getvalue())
    print(json.dumps(said))
ask"""
PREDICTIONS = [
    *(f"predict {options} test.svm model.mcb out" for options in ("", "-b 1", "-d 1", "-j 2")),
    "predict -d 1 t.svm t.svm.mcb sparse",
]
PREDICTIONS = [f"{line}-{number}" for number, line in enumerate(PREDICTIONS)]
INFO = ["info model.mcb", "info --json model.mcb"]
OTHERS = [
    *INFO,
    *(f"convert --to {form} --rounds 4 model.mcb m.{form}" for form in ("mcb", "json", "text")),
]


@pytest.mark.parametrize("line", PREDICTIONS)
def test_predict(alone, line):
    folder, said = alone
    assert said[line].startswith("Accuracy = ")
    program, *arguments, out = line.split()
    assert (folder / out).read_text() == call(program, *arguments, "-", cwd=folder).stdout != ""


def test_info(alone):
    folder, said = alone
    for line in INFO:
        assert said[line] == call(*line.split(), cwd=folder).stdout
    assert json.loads(said[line])["n_learners"] == 30


def test_convert(alone):
    folder, said = alone
    assert {said[line] for line in OTHERS[len(INFO) :]} == {""}
    printed = call("info", "--dump", "json", "m.mcb", cwd=folder).stdout
    assert printed == (folder / "m.json").read_text() != ""
    assert (folder / "m.text").read_text() == call(
        "info", "--dump", "text", "m.mcb", cwd=folder
    ).stdout


SMALL = [
    *([name] for name in sorted(ALGORITHMS) if name != "vector-tree"),
    ["vector-tree", "--calibrate", "none"],
    ["mart", "--class-weight", "balanced", "-P", "test.svm", "-E", "3"],
    ["abc-mart", "-w2", "3.5", "-w-1", "0.25", "--restore-priors", "--subsample", "0.5"],
    ["mcboost", "-P", "test.svm", "--calibrate", "temperature", "--layout", "interval"],
]


WITHOUT = """
from pymcboost.cli.train import main
for number, options in enumerate({}):
    sys.argv[1:] = ["-q", "-n", "6", "-a", *options, "train.svm", f"{{number}}.mcb"]
    print(number, main(), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def without_scikit_learn(files, tmp_path_factory):
    """A folder with models that one process has trained with NumPy only, named by number, and what it says."""
    folder = tmp_path_factory.mktemp("without")
    for name in ("train.svm", "test.svm"):
        shutil.copy(files / name, folder)
    code = blocker(["sklearn", "scipy", "joblib", "tqdm", "pandas"]) + WITHOUT.format(SMALL)
    return folder, run_python(code, cwd=folder).stderr


@pytest.mark.parametrize("options", SMALL, ids=" ".join)
def test_trainings_without_scikit_learn(without_scikit_learn, options):
    """A program of its own needs NumPy only, and gives the bytes that it gives with scikit-learn."""
    folder, said = without_scikit_learn
    number = SMALL.index(options)
    assert f"{number} 0\n" in said
    arguments = ["-n", 6, "-a", *options, "train.svm"]
    assert call("train", *arguments, f"same-{number}.mcb", cwd=folder).returncode == 0
    assert (folder / f"{number}.mcb").read_bytes() == (folder / f"same-{number}.mcb").read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        "-a vector-tree",
        "-a mart -n auto",
        "-a mart -E 4",
        "--metric f1_macro -P test.svm",
        "-a hingeboost -t 2",
    ],
)
@pytest.mark.part(3)
def test_trainings_that_load_scikit_learn_later(files, tmp_path, options):
    """What they take of it meets estimators that are made without it."""
    shutil.copy(files / "test.svm", tmp_path)
    arguments = [*options.split(), *([] if "-n" in options else ["-n", 6]), files / "train.svm"]
    alone = run("train", *arguments, "m.mcb", cwd=tmp_path)
    assert (alone.returncode, "warning" in alone.stderr) == (0, False), alone.stderr
    assert call("train", *arguments, "same.mcb", cwd=tmp_path).returncode == 0
    assert (tmp_path / "m.mcb").read_bytes() == (tmp_path / "same.mcb").read_bytes()


def test_sparse_rows_and_cross_validation_alone(tmp_path):
    lines = [
        f"{i % 3} {i % 7 + 1}:{i % 3 + 1} {i % 5 + 20}:1 {'900000:1' if i == 5 else ''}\n"
        for i in range(90)
    ]
    (tmp_path / "t.svm").write_text("".join(lines))
    assert "(sparse)" in run("train", "-n", 6, "t.svm", "m.mcb", cwd=tmp_path).stderr
    assert call("train", "-n", 6, "t.svm", "same.mcb", cwd=tmp_path).returncode == 0
    assert (tmp_path / "m.mcb").read_bytes() == (tmp_path / "same.mcb").read_bytes()
    alone, inside = (
        ask("train", "-q", "-n", 6, "-v", 3, "t.svm", cwd=tmp_path) for ask in (run, call)
    )
    assert alone.stdout == inside.stdout != ""


@pytest.mark.parametrize("program", ["train", "predict", "info", "convert"])
@pytest.mark.parametrize(
    "arguments",
    ["--help", "--version", "--nonsense", "-n", "-n 0 t", "-t 2 t", "-S 5 -l hinge t", "t a b c d"],
)
@pytest.mark.part(3)
def test_help_and_usage_errors_need_no_package_at_all(program, arguments):
    """They answer at once, as nothing is imported for them."""
    completed = blocked(
        program,
        *arguments.split(),
        blocker=blocker(["numpy", "scipy", "sklearn", "pymcboost._kernels"]),
    )
    assert "blocked" not in completed.stderr
    fine = arguments in ("--help", "--version")
    assert (completed.returncode, bool(completed.stdout)) == (0 if fine else 1, fine)
