"""Early exits on the command line: ``mcboost-convert --early`` and ``mcboost-predict --early``."""

import json
import re

import pytest
from cli.programs import call

from pymcboost import load_model

EVALUATED = re.compile(r"mcboost-predict: ([\d.]+)% of the learners evaluated\n")


@pytest.fixture(scope="module")
def early(files, tmp_path_factory):
    """Folder with trees, and the same with early exits: calibrated, or rejection of class 2."""
    folder = tmp_path_factory.mktemp("early")
    train = (
        "-q",
        "-n",
        60,
        "-a",
        "vector-tree",
        "--calibrate",
        "none",
        files / "train.svm",
        folder / "trees.mcb",
    )
    assert call("train", *train).returncode == 0
    calibrate = ("--early", files / "test.svm", "--rate", 0.1)
    for name, more in (("exits.mcb", ()), ("reject.mcb", ("--rate", 0.3, "--background", 2))):
        completed = call("convert", *calibrate, *more, folder / "trees.mcb", folder / name)
        assert (completed.returncode, completed.stdout) == (0, "")
        (folder / name).with_suffix(".txt").write_text(completed.stderr)
    return folder


def test_what_the_exits_do_is_said(early, files, blobs, tmp_path):
    X = blobs[0][180:]
    said = {name: (early / name).read_text().splitlines() for name in ("exits.txt", "reject.txt")}
    for name, way, n in (("exits", "calibrated", len(X)), ("reject", "rejection", None)):
        model = load_model(early / f"{name}.mcb")
        plain = model.predict(X)
        labels, learners = model.predict_early(X, way)
        counted = slice(None) if n else plain != 2
        changed = (labels != plain)[counted]
        does = "change their label and" if n else "are lost;"
        first, second, third = (
            line.removeprefix("mcboost-convert: ") for line in said[f"{name}.txt"]
        )
        assert (
            first.startswith(f"{way}: of {len(changed)} rows")
            and f", {changed.sum()} {does} " in first
        )
        assert first.endswith(
            f"; {learners.mean() / model.n_learners:.1%} of the learners are evaluated"
        )
        assert second.startswith(
            "the thresholds come from these rows; of similar rows, fewer than "
        )
        assert (
            second.endswith(", with 95% confidence") and ("10.000%" if n else "30.000%") in second
        )
        assert third.startswith("certified: no label changes; ")
    quiet = call(
        "convert",
        "-q",
        "--early",
        files / "test.svm",
        "--rate",
        0.1,
        early / "trees.mcb",
        tmp_path / "q.mcb",
    )
    assert (quiet.returncode, quiet.stderr) == (0, "")


@pytest.mark.parametrize("stream", [(), ("--stream",)])
@pytest.mark.parametrize(
    ("name", "way"), [("exits", "certified"), ("exits", "calibrated"), ("reject", "rejection")]
)
def test_predictions_are_those_of_python(early, files, blobs, tmp_path, name, way, stream):
    model = load_model(early / f"{name}.mcb")
    labels, learners = model.predict_early(blobs[0][180:], way)
    completed = call(
        "predict",
        "--early",
        way,
        *stream,
        files / "test.svm",
        early / f"{name}.mcb",
        tmp_path / "out",
    )
    assert completed.returncode == 0
    assert (tmp_path / "out").read_text().split() == [str(label) for label in labels]
    share = float(EVALUATED.fullmatch(completed.stderr)[1])
    assert share == pytest.approx(100 * learners.mean() / model.n_learners, rel=1e-3)
    plain = load_model(early / "trees.mcb")
    assert model.with_early_exit(None).to_bytes() == plain.to_bytes()
    if way == "certified":
        assert (labels == plain.predict(blobs[0][180:])).all()
    quiet = call(
        "predict", "-q", "--early", way, files / "test.svm", early / f"{name}.mcb", tmp_path / "out"
    )
    assert quiet.stderr == ""


@pytest.mark.parametrize("stream", [(), ("--stream",)])
def test_linear_machines_need_no_preparation(files, blobs, tmp_path, stream):
    saved, out = tmp_path / "linear.mcb", tmp_path / "out"
    assert (
        call("train", "-q", "-n", 1, "-a", "hingeboost", files / "train.svm", saved).returncode == 0
    )
    model = load_model(saved)
    labels, planes = model.predict_early(blobs[0][180:])
    assert (labels == model.predict(blobs[0][180:])).all()
    completed = call("predict", "--early", "certified", *stream, files / "test.svm", saved, out)
    assert completed.returncode == 0
    assert out.read_text().split() == [str(label) for label in labels]
    assert float(EVALUATED.fullmatch(completed.stderr)[1]) == pytest.approx(
        100 * planes.mean() / model.n_classes_, rel=1e-3
    )
    assert planes.mean() < model.n_classes_
    completed = call("predict", "--early", "calibrated", files / "test.svm", saved, out)
    message = "linear.mcb: this kind of model has no early exit 'calibrated'"
    assert (completed.returncode, message in completed.stderr) == (1, True)


def test_what_cannot_be_had_is_refused(early, files, tmp_path):
    trees = early / "trees.mcb"
    exits = early / "exits.mcb"
    rows = files / "test.svm"
    out = tmp_path / "out"
    for program, arguments, status, message in (
        (
            "predict",
            ("--early", "certified", rows, trees, out),
            1,
            "trees.mcb has no early exit certified",
        ),
        (
            "predict",
            ("--early", "rejection", rows, exits, out),
            1,
            "mcboost-convert --early file --background label",
        ),
        (
            "predict",
            ("--early", "certified", "--rounds", 9, rows, exits, out),
            1,
            "cut by --rounds",
        ),
        (
            "predict",
            ("--early", "certified", "-b", 1, rows, exits, out),
            1,
            "need the scores of all learners",
        ),
        ("predict", ("--early", "fast", rows, exits, out), 1, "invalid choice: 'fast'"),
        ("convert", ("--early", rows, trees, out), 2, "--rate 0.001 needs at least 3000 rows in"),
        ("convert", ("--early", rows, exits, out), 2, "--rate 0.001 needs at least 3000 rows in"),
        (
            "convert",
            ("--early", rows, "--rate", 1e-320, trees, out),
            2,
            "needs at least 1e+18 rows in",
        ),
        (
            "convert",
            ("--early", rows, "--rate", 0.1, "--background", 5, trees, out),
            2,
            "background must be a class",
        ),
        ("convert", ("--early", rows, "--rate", 1, trees, out), 1, "a number above 0 and below 1"),
        (
            "convert",
            ("--early", rows, "--to", "json", trees, out),
            1,
            "--early needs --to mcb or --to c",
        ),
        (
            "convert",
            ("--early", "-", "--rows", "-", "--leaves", "float16", trees, out),
            1,
            "cannot both be standard input",
        ),
        (
            "convert",
            ("--early", rows, "--layout", "packed", "--leaves", "int8", trees, out),
            2,
            "with --layout list",
        ),
        ("convert", ("--rate", 0.1, trees, out), 1, "--rate and --background need --early"),
        ("convert", ("--early", trees, trees, trees), 1, "would overwrite it"),
    ):
        completed = call(program, *arguments)
        assert (completed.returncode, completed.stdout) == (status, ""), completed.stderr
        assert message in completed.stderr, completed.stderr
        assert not out.exists()


def test_models_that_cannot_have_exits_are_named(early, files, tmp_path):
    packed = tmp_path / "packed.mcb"
    kernel = tmp_path / "kernel.mcb"
    out = tmp_path / "out"
    assert (
        call(
            "convert", "--layout", "packed", "--leaves", "int8", early / "trees.mcb", packed
        ).returncode
        == 0
    )
    train = ("-q", "-a", "hingeboost", "--kernel", "rbf", "-n", 1)
    assert call("train", *train, files / "train.svm", kernel).returncode == 0
    for model, message in (
        (packed, "packed.mcb: a packed model has no early exits; save it with --layout list first"),
        (kernel, "kernel.mcb: an early exit skips weak learners, but this model has none"),
    ):
        completed = call("predict", "--early", "certified", files / "test.svm", model, out)
        assert (completed.returncode, message in completed.stderr) == (1, True), completed.stderr
        assert not out.exists()


def test_bounds_that_have_no_room_are_said(early, files, tmp_path, monkeypatch):
    monkeypatch.setattr("pymcboost.model.early.SHARE", 0.0)
    arguments = (
        "--early",
        files / "test.svm",
        "--rate",
        0.1,
        early / "trees.mcb",
        tmp_path / "out.mcb",
    )
    completed = call("convert", *arguments)
    assert completed.returncode == 0
    assert completed.stderr.startswith(
        "mcboost-convert: no certified exit: the bounds of 6 pairs of classes take"
    )
    assert load_model(tmp_path / "out.mcb").early_exits == ("calibrated",)
    assert call("convert", "-q", *arguments).stderr == ""


def test_info_shows_the_exits(early):
    shown = {
        name: call("info", early / name).stdout for name in ("trees.mcb", "exits.mcb", "reject.mcb")
    }
    exits = {
        name: re.findall(r"^early exit    (.*)$", text, re.MULTILINE)
        for name, text in shown.items()
    }
    assert exits["trees.mcb"] == []
    certified, calibrated = exits["exits.mcb"]
    assert re.fullmatch(r"certified \(checkpoints \d+\)", certified)
    assert re.fullmatch(
        r"calibrated \(checkpoints \d+, rate 0\.1, rows \d+, changed \d+\)", calibrated
    )
    assert re.fullmatch(
        r"rejection \(checkpoints \d+, rate 0\.3, rows \d+, background 2\)", exits["reject.mcb"][-1]
    )
    facts = json.loads(call("info", "--json", early / "reject.mcb").stdout)["early_exits"]
    assert facts[-1]["way"] == "rejection" and facts[-1]["background"] == 2
