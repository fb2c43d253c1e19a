"""mcboost-train as a program."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time

import numpy as np
import pytest
from cli.programs import call, command, environment, run, start, until_it_waits, write_svm

from pymcboost import (
    Checkpoint,
    MartClassifier,
    MCBoostClassifier,
    VectorTreeBoostClassifier,
    load_model,
    load_svmlight,
)
from pymcboost.cli import train
from pymcboost.cli.rows import Rows
from pymcboost.registry import ALGORITHMS as REGISTRY
from pymcboost.registry import get_class
from pymcboost.threads import counted


def meta(path):
    return load_model(path).meta


def test_report_on_standard_error_only(files, tmp_path):
    completed = run("train", "-n", 30, files / "train.svm", cwd=tmp_path)
    assert completed.returncode == 0
    assert completed.stdout == ""
    lines = completed.stderr.splitlines()
    assert all(line.startswith("mcboost-train: ") for line in lines)
    assert (
        "train.svm: 180 rows, 5 features (dense), 3 classes (-1: 60, 2: 60, 7: 60)\n"
        in completed.stderr
    )
    match = re.search(r"mcboost: 30 rounds in \S+ s, training error (\S+)%", completed.stderr)
    data = load_svmlight(files / "train.svm")
    model = load_model(tmp_path / "train.svm.mcb")
    assert float(match[1]) == pytest.approx(
        100 * np.mean(model.predict(data.X) != data.y), abs=0.01
    )
    size = (tmp_path / "train.svm.mcb").stat().st_size
    assert lines[-1] == f"mcboost-train: train.svm.mcb: {size:,} bytes (list)"
    assert not {"\r", "\x1b"} & set(completed.stderr), "a progress bar belongs on a terminal only"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {
            "loss": "log",
            "n_estimators": 12,
            "learning_rate": 0.3,
            "nu": 1e-4,
            "max_step": 0.7,
            "max_bins": 16,
            "random_state": 5,
            "n_jobs": 2,
        },
    ],
)
def test_same_bytes_as_python(files, tmp_path, options):
    options = {"n_estimators": 20, **options}
    seed = {"random_state": 0, **options}["random_state"]
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    assert (
        call("train", "-q", *arguments, files / "train.svm", "cli.mcb", cwd=tmp_path).returncode
        == 0
    )
    data = load_svmlight(files / "train.svm")
    MCBoostClassifier(**{**options, "random_state": seed}).fit(data.X, data.y).save(
        tmp_path / "python.mcb"
    )
    assert (tmp_path / "cli.mcb").read_bytes() == (tmp_path / "python.mcb").read_bytes()
    assert {
        name: meta(tmp_path / "cli.mcb")["params"][name] for name in options if name != "n_jobs"
    } == {name: value for name, value in options.items() if name != "n_jobs"}


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("algorithm", sorted(REGISTRY))
def test_every_algorithm_gives_the_bytes_of_python(files, tmp_path, algorithm, seed):
    given = ["-S", seed] if seed else []
    completed = call(
        "train", "-a", algorithm, "-n", 6, *given, files / "train.svm", "cli.mcb", cwd=tmp_path
    )
    assert completed.returncode == 0, completed.stderr
    assert "6 of 6 rounds" not in completed.stderr
    data = load_svmlight(files / "train.svm")
    estimator = get_class(algorithm)(n_estimators=6, random_state=seed).fit(data.X, data.y)
    estimator.save(tmp_path / "python.mcb")
    assert f"{algorithm}: {counted(estimator.n_estimators_, 'round')} in " in completed.stderr
    assert (tmp_path / "cli.mcb").read_bytes() == (tmp_path / "python.mcb").read_bytes()
    predicted = call("predict", "-q", files / "test.svm", "cli.mcb", "-", cwd=tmp_path)
    held = load_svmlight(files / "test.svm", n_features=5)
    assert [int(line) for line in predicted.stdout.split()] == estimator.predict(held.X).tolist()


def test_class_weights_match_python(files, tmp_path):
    completed = call(
        "train",
        "-n",
        20,
        "-w2",
        5,
        "-w-1",
        0.5,
        "-w99",
        3,
        files / "train.svm",
        "w.mcb",
        cwd=tmp_path,
    )
    assert completed.returncode == 0
    assert "no row has the label 99; its weight is not used" in completed.stderr
    data = load_svmlight(files / "train.svm")
    weighted = MCBoostClassifier(n_estimators=20, class_weight={-1: 0.5, 2: 5.0, 7: 1.0}).fit(
        data.X, data.y
    )
    plain = MCBoostClassifier(n_estimators=20).fit(data.X, data.y)
    scores = load_model(tmp_path / "w.mcb").decision_function(data.X)
    assert np.array_equal(scores, weighted.decision_function(data.X))
    assert not np.array_equal(scores, plain.decision_function(data.X))


def test_validation_file_and_patience(files, tmp_path):
    completed = call(
        "train",
        "-n",
        400,
        "-E",
        5,
        "-P",
        files / "test.svm",
        files / "train.svm",
        "v.mcb",
        cwd=tmp_path,
    )
    assert completed.returncode == 0, completed.stderr
    assert (
        "test.svm: 60 rows, 5 features (dense), 3 classes (-1: 20, 2: 20, 7: 20)"
        in completed.stderr
    )
    train, held = load_svmlight(files / "train.svm"), load_svmlight(files / "test.svm")
    same = MCBoostClassifier(n_estimators=400, early_stopping=True, n_iter_no_change=5)
    same.fit(train.X, train.y, X_val=held.X, y_val=held.y)
    model = load_model(tmp_path / "v.mcb")
    assert model.n_learners == same.n_estimators_ < 400
    assert np.array_equal(model.decision_function(held.X), same.decision_function(held.X))
    match = re.search(r"validation error (\S+)%", completed.stderr)
    assert float(match[1]) == pytest.approx(
        100 * np.mean(model.predict(held.X) != held.y), abs=0.01
    )
    said = re.search(r"best validation log_loss (\S+), after (\d+) rounds\n", completed.stderr)
    assert float(said[1]) == pytest.approx(same.history_["val_log_loss"].min(), rel=1e-5)
    assert int(said[2]) == same.n_estimators_


@pytest.mark.parametrize(
    ("metric", "best"),
    [("balanced_error", np.argmin), ("auc_ovr", np.argmax), ("f1_macro", np.argmax)],
)
def test_best_of_the_curve_where_all_rounds_are_kept(files, tmp_path, metric, best):
    asked = ["-n", 30, "--metric", metric, "-P", files / "test.svm"]
    completed = call("train", *asked, files / "train.svm", "v.mcb", cwd=tmp_path)
    train, held = load_svmlight(files / "train.svm"), load_svmlight(files / "test.svm")
    same = MCBoostClassifier(n_estimators=30, scoring=metric).fit(
        train.X, train.y, X_val=held.X, y_val=held.y
    )
    curve = same.history_[f"val_{metric}"]
    assert (
        f"best validation {metric} {curve[best(curve)]:.6g}, after {best(curve) + 1} round"
        in completed.stderr
    )


def test_several_metrics_are_followed_and_the_first_decides(files, tmp_path):
    asked = ["-n", 60, "-E", 3, "--verbose", 1, "-P", files / "test.svm", files / "train.svm"]
    completed = call(
        "train", "--metric", "balanced_error,auc_ovr,accuracy", *asked, "several.mcb", cwd=tmp_path
    )
    alone = call("train", "--metric", "balanced_error", *asked, "alone.mcb", cwd=tmp_path)
    train, held = load_svmlight(files / "train.svm"), load_svmlight(files / "test.svm")
    scoring = ["balanced_error", "auc_ovr", "accuracy"]
    same = MCBoostClassifier(
        n_estimators=60, early_stopping=True, n_iter_no_change=3, scoring=scoring, random_state=0
    )
    same.fit(train.X, train.y, X_val=held.X, y_val=held.y)
    for metric, best in zip(scoring, (np.argmin, np.argmax, np.argmax), strict=True):
        curve = same.history_[f"val_{metric}"]
        number = best(curve)
        assert (
            f"best validation {metric} {curve[number]:.6g}, after {number + 1} round"
            in completed.stderr
        )
    first = ", ".join(f"val_{metric} {same.history_[f'val_{metric}'][0]:.6g}" for metric in scoring)
    assert f"round 1 of at most 60, {first}, " in completed.stderr
    model = load_model(tmp_path / "several.mcb")
    assert model.n_rounds == same.n_estimators_ < 60 and model.meta["params"]["scoring"] == scoring
    np.testing.assert_array_equal(
        model.predict(held.X), load_model(tmp_path / "alone.mcb").predict(held.X)
    )
    assert "auc_ovr" not in alone.stderr


@pytest.mark.parametrize(
    ("metrics", "says"),
    [
        ("log_loss,logloss", "--scoring: 'logloss' is not one of 'log_loss', 'error'"),
        ("log_loss,", "--scoring: '' is not one of 'log_loss', 'error'"),
        (
            "error,error",
            "--scoring: scoring=['error', 'error'] has 'error' twice; give each name once",
        ),
    ],
)
def test_lists_that_name_no_metrics_are_refused(metrics, says, files, tmp_path):
    completed = call("train", "--metric", metrics, files / "train.svm", cwd=tmp_path)
    assert completed.returncode == 1 and says in completed.stderr


def test_every_metric_of_a_list_must_suit_the_algorithm(files, tmp_path):
    asked = [
        "-a",
        "hingeboost",
        "--metric",
        "error,log_loss",
        "-P",
        files / "test.svm",
        files / "train.svm",
    ]
    completed = call("train", *asked, cwd=tmp_path)
    assert completed.returncode == 1 and "--metric log_loss needs probabilities" in completed.stderr


def test_rounds_by_cross_validation(files, tmp_path):
    completed = call(
        "train",
        "-n",
        "auto",
        "--cv",
        4,
        "-r",
        0.5,
        "-a",
        "mart",
        files / "train.svm",
        "v.mcb",
        cwd=tmp_path,
    )
    assert completed.returncode == 0, completed.stderr
    train = load_svmlight(files / "train.svm")
    same = MartClassifier(n_estimators="auto", cv=4, learning_rate=0.5, random_state=0).fit(
        train.X, train.y
    )
    cv_results = same.cv_results_
    best = f"best mean log_loss {cv_results['mean'].min():.6g}"
    said = f"{best}, after {cv_results['best_round']} of {cv_results['rounds'][-1]} rounds"
    assert f"4 folds: {said}\n" in completed.stderr
    more = ["-n", "auto", "--cv", 4, "-r", 0.5, "-a", "mart", "--metric", "log_loss,error"]
    assert (
        f"4 folds: {said}\n"
        in call("train", *more, files / "train.svm", "w.mcb", cwd=tmp_path).stderr
    )
    assert load_model(tmp_path / "v.mcb").n_rounds == same.n_estimators_
    refused = call("train", "-n", "auto", "-E", 5, files / "train.svm", cwd=tmp_path)
    assert refused.returncode != 0
    assert "-n auto finds the number of rounds itself; set --no-early-stopping" in refused.stderr
    assert (
        "'many' is not an integer >= 1 or 'auto'"
        in call("train", "-n", "many", "x", cwd=tmp_path).stderr
    )


def test_unknown_metrics_are_refused_with_those_there_are(files, tmp_path):
    completed = call("train", "--metric", "logloss", files / "train.svm", cwd=tmp_path)
    assert completed.returncode == 1
    assert "--scoring: 'logloss' is not one of 'log_loss', 'error'" in completed.stderr


@pytest.mark.parametrize(
    "options", [["-a", "vector-tree"], ["-a", "hingeboost", "--init", "random"]]
)
def test_runs_without_a_seed_agree(files, tmp_path, options):
    """Also a training that went on from a checkpoint, where the algorithm keeps one, and cross-validation."""
    arguments = [*options, "-n", 20, files / "train.svm"]
    made = []
    for seed in ([], [], ["-S", 0], ["-S", 1]):
        assert call("train", "-q", *seed, *arguments, "m.mcb", cwd=tmp_path).returncode == 0
        made.append((tmp_path / "m.mcb").read_bytes())
    assert made[0] == made[1] == made[2] != made[3]
    folds = [call("train", "-q", "-v", 3, *seed, *arguments).stdout for seed in ([], [], ["-S", 0])]
    assert folds[0] == folds[1] == folds[2] != ""
    if options[1] == "vector-tree":
        data = load_svmlight(files / "train.svm")
        estimator = get_class("vector-tree")(n_estimators=5, random_state=0)
        Checkpoint(tmp_path / "part", 0).fit(estimator, data.X, data.y)
        completed = call("train", "--checkpoint", "part", *arguments, "m.mcb", cwd=tmp_path)
        assert "continuing from the 5 rounds in part" in completed.stderr
        assert (tmp_path / "m.mcb").read_bytes() == made[0]


# Options, the rounds that are left of 40, and why.
ENDINGS = [
    (
        "samme --weak-learner tree",
        1,
        "the last weak learner makes no mistakes, so there is nothing left to learn",
    ),
    (
        "adaboost-ml --weak-learner tree",
        1,
        "the last weak learner makes no mistakes, so there is nothing left to learn",
    ),
    (
        "adaboost-mh --weak-learner tree",
        1,
        "the last weak learner makes no mistakes, so there is nothing left to learn",
    ),
    ("mart -r 1 --min-samples-leaf 0", None, "the training loss has reached machine precision"),
    ("mart --min-samples-leaf 1000", 0, "no tree reduces the training loss"),
    ("mart --min-gain 1e9", 0, "no split gains more than min_gain"),
    ("vector-tree --min-samples-leaf 1000", 0, "no tree reduces the training loss"),
    ("mcboost --nu 100", 0, "no weak learner has an edge above --nu 100"),
    ("multiboost -c 1e-9", 0, "no weak learner has an edge above p/C"),
    ("multiboost -c 1e3 --tol 1", None, "a round changed the objective by no more than tol"),
    ("gradboost --l1 1000", 0, "no weak learner has a gradient above l1"),
    ("hingeboost -c 1e9", None, "no residual is above tol"),
    ("gentleboost -w1 3 --min-weight-fraction-leaf 0.5", 0, "no weak learner has a positive edge"),
    ("mart -E 2 --metric error", None, "the validation error did not improve for 2 rounds"),
    ("mart -E 39 --metric error", None, "the validation error was best after these"),
]


@pytest.mark.parametrize(("options", "rounds", "reason"), ENDINGS)
def test_training_that_ends_early_says_why(tmp_path, options, rounds, reason):
    rows = [f"{i % 2 + 1} 1:{i % 2} 2:{i * 7 % 13}\n" for i in range(40)]
    (tmp_path / "t.svm").write_text("".join(rows))
    completed = call("train", "-a", *options.split(), "-n", 40, "t.svm", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    match = re.search(r"mcboost-train: (\d+) of 40 rounds: (.*)\n", completed.stderr)
    assert match[2] == reason
    assert int(match[1]) < 40 if rounds is None else int(match[1]) == rounds
    shown = "1 round " if match[1] == "1" else f"{match[1]} rounds "
    assert f"{options.split()[0]}: {shown}in " in completed.stderr


def test_one_of_a_kind_is_no_plural(tmp_path):
    (tmp_path / "t.svm").write_text("1 1:1\n")
    completed = call("train", "t.svm", cwd=tmp_path)
    assert completed.returncode == 2
    assert "t.svm: 1 row, 1 feature (dense), 1 class (1: 1)\n" in completed.stderr
    (tmp_path / "t.svm").write_text("1 1:1\n2 1:2\n")
    options = ["-n", 1, "-a", "mart", "--min-samples-leaf", 1]
    completed = call("train", *options, "t.svm", "m.mcb", cwd=tmp_path)
    assert "mart: 1 round in " in completed.stderr
    assert (
        "-v 2: the largest class has only 1 row; "
        in call("train", "-v", 2, "t.svm", cwd=tmp_path).stderr
    )
    assert (
        repr(load_model(tmp_path / "m.mcb")) == "<Model: 1 tree in 1 round, 2 classes, 1 feature>"
    )
    assert re.search(
        r"^trees +1 in 1 round, ", call("info", "m.mcb", cwd=tmp_path).stdout, re.MULTILINE
    )
    (tmp_path / "t.svm").write_text("3 1:1\n1:1\n")
    completed = call("predict", "t.svm", "m.mcb", "out", cwd=tmp_path)
    assert "1 of 2 rows has no label" in completed.stderr
    assert "1 of 1 row has a label that the model does not know (3)" in completed.stderr


def test_standard_input_interval_layout_and_number_of_features(files, tmp_path):
    text = (files / "train.svm").read_text()
    completed = run(
        "train",
        "-n",
        30,
        "--layout",
        "interval",
        "--n-features",
        9,
        "-",
        "i.mcb",
        cwd=tmp_path,
        stdin=text,
    )
    assert completed.stderr.rstrip().endswith("bytes (interval)")
    assert completed.returncode == 0, completed.stderr
    assert "<stdin>: 180 rows, 9 features" in completed.stderr
    assert completed.stderr.rstrip().endswith("bytes (interval)")
    model, other = load_model(tmp_path / "i.mcb"), load_model(files / "model.mcb")
    assert model.kind != other.kind
    assert model.n_features_in_ == 9
    X = load_svmlight(files / "train.svm").X
    scores = model.raw_scores(np.pad(X, ((0, 0), (0, 4))))
    np.testing.assert_allclose(scores, other.raw_scores(X), rtol=1e-6, atol=1e-6)


def test_base_zero(files, tmp_path, blobs):
    X, y = blobs
    write_svm(tmp_path / "zero.svm", X[:180], y[:180], base=0)
    for base in ("auto", "0"):
        completed = call(
            "train", "-q", "-n", 30, "--base", base, "zero.svm", "zero.mcb", cwd=tmp_path
        )
        assert completed.returncode == 0, completed.stderr
        predicted = call(
            "predict", "-d", 1, "--base", "0", "zero.svm", "zero.mcb", "-", cwd=tmp_path
        )
        assert (
            predicted.stdout
            == call("predict", "-d", 1, files / "train.svm", files / "model.mcb", "-").stdout
        )
    completed = call("train", "-q", "--base", "1", "zero.svm", "zero.mcb", cwd=tmp_path)
    assert completed.returncode == 2, completed.stderr
    assert "zero.svm:1:" in completed.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2\n# a\n1:3\n", "line 3 has no label"),
        (
            "1 1:2\n\n2.0000001 1:3\n",
            "line 3 has the label 2.0000001; class labels must be integers",
        ),
        ("1 1:2\n1 1:3\n", "class"),
        ("1 1:2\n2 1:x\n", "t.svm:2:"),
        ("1 2:2 1:3\n", "t.svm:1:"),
        ("", "t.svm"),
    ],
)
def test_wrong_data_exits_2(tmp_path, text, message):
    (tmp_path / "t.svm").write_text(text)
    completed = call("train", "-q", "t.svm", cwd=tmp_path)
    assert completed.returncode == 2, completed.stderr
    assert completed.stdout == ""
    assert completed.stderr.startswith("mcboost-train: error: ")
    assert message in completed.stderr
    assert len(completed.stderr.splitlines()) == 1
    assert not (tmp_path / "t.svm.mcb").exists()


def test_integral_float_labels_become_integers(tmp_path, blobs):
    X, y = blobs
    write_svm(tmp_path / "t.svm", X[:60], [f"{label:+.1f}" for label in y[:60]])
    assert call("train", "-q", "-n", 3, "t.svm", cwd=tmp_path).returncode == 0
    assert load_model(tmp_path / "t.svm.mcb").classes_.tolist() == [-1, 2, 7]


def test_refuses_to_overwrite_what_is_not_a_model(files, tmp_path):
    (tmp_path / "notes.txt").write_text("keep me")
    completed = call("train", "-q", "-n", 3, files / "train.svm", "notes.txt", cwd=tmp_path)
    assert completed.returncode == 1
    assert (tmp_path / "notes.txt").read_text() == "keep me"
    (tmp_path / "old.mcb").write_bytes((files / "model.mcb").read_bytes())
    assert (
        call("train", "-q", "-n", 3, files / "train.svm", "old.mcb", cwd=tmp_path).returncode == 0
    )
    assert load_model(tmp_path / "old.mcb").n_learners == 3


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
@pytest.mark.parametrize(
    ("options", "shown"), [([], True), (["-q"], False), (["--verbose", "0"], False)]
)
def test_progress_bar_on_a_terminal(files, tmp_path, options, shown):
    import termios

    terminal, side = os.openpty()
    termios.tcsetwinsize(side, (24, 80))
    arguments = [*command("train"), *options, "-n", "300", str(files / "train.svm")]
    with subprocess.Popen(
        arguments, cwd=tmp_path, env=environment(), stderr=side, stdout=subprocess.PIPE
    ) as process:
        os.close(side)
        text = b""
        # Reading fails with an error, not with an empty answer, when the other side has closed the terminal.
        with contextlib.suppress(OSError):
            while piece := os.read(terminal, 4096):
                text += piece
        assert process.stdout.read() == b""
    os.close(terminal)
    assert process.returncode == 0
    assert (b"/300 [" in text) == shown
    assert (text == b"") == (options == ["-q"])


def test_lines_of_progress_are_asked_for_where_there_is_no_terminal(files, tmp_path):
    """A log gets no line for every round unless it is told to."""
    arguments = ["-n", 30, "-P", files / "test.svm", files / "train.svm", "m.mcb"]
    assert "round 10 of" not in call("train", *arguments, cwd=tmp_path).stderr
    lines = call("train", "--verbose", 10, *arguments, cwd=tmp_path).stderr.splitlines()
    lines = [line for line in lines if line.startswith("MCBoostClassifier: round ")]
    assert [line.split(" s left")[0].split(", val_log_loss ")[0] for line in lines] == [
        f"MCBoostClassifier: round {rounds} of 30" for rounds in (10, 20, 30)
    ]
    warning = "--n-iter-no-change 5 has no effect without early stopping; set --early-stopping"
    assert warning in call("train", "-E", 5, "--no-early-stopping", *arguments, cwd=tmp_path).stderr


def wait_for(process, text):
    """Read standard error until a line holds ``text``."""
    for line in process.stderr:
        if text in line:
            return


def test_interrupt_saves_the_rounds_done(files, tmp_path, blobs):
    rng = np.random.default_rng(0)
    write_svm(tmp_path / "big.svm", rng.normal(size=(3000, 40)), rng.integers(0, 5, size=3000))
    process = start("train", "--verbose", 100, "-n", 1000000, "big.svm", cwd=tmp_path)
    wait_for(process, "round 100 of")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    match = re.search(
        r"mcboost-train: interrupted; the (\d+) rounds done are saved in big.svm.mcb", err
    )
    model = load_model(tmp_path / "big.svm.mcb")
    assert model.n_learners == int(match[1]) > 0
    X, y = load_svmlight(tmp_path / "big.svm")[:2]
    same = MCBoostClassifier(n_estimators=model.n_learners).fit(X, y)
    assert np.array_equal(model.raw_scores(X), same.model_.raw_scores(X))


@pytest.mark.parametrize(
    ("rounds", "said"), [(1, "the 1 round done is saved"), (2, "the 2 rounds done are saved")]
)
def test_interrupt_says_how_many_rounds_it_saves(files, tmp_path, rounds, said, monkeypatch):
    booster = MCBoostClassifier.booster
    whole = booster.round

    def interrupted(self):
        if len(self.builder) == rounds:
            raise KeyboardInterrupt
        return whole(self)

    monkeypatch.setattr(booster, "round", interrupted)
    completed = call("train", "-n", 9, files / "train.svm", "m.mcb", cwd=tmp_path)
    assert completed.returncode == 130
    assert f"mcboost-train: interrupted; {said} in m.mcb\n" in completed.stderr
    assert load_model(tmp_path / "m.mcb").n_rounds == rounds


def test_interrupt_before_training_saves_nothing(files, tmp_path):
    process = start("train", "-", "m.mcb", cwd=tmp_path)
    process.stdin.write("1 1:2\n")
    process.stdin.flush()
    until_it_waits(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "mcboost-train: interrupted\n"
    assert list(tmp_path.iterdir()) == []


def test_info_shows_what_train_was_asked(files, tmp_path):
    completed = call(
        "train", "-q", "-n", 4, "--fixed-step", 0.01, files / "train.svm", "m.mcb", cwd=tmp_path
    )
    assert completed.returncode == 0
    facts = json.loads(call("info", "--json", "m.mcb", cwd=tmp_path).stdout)
    assert facts["meta"]["params"]["fixed_step"] == 0.01
    assert facts["n_learners"] == 4


@pytest.mark.parametrize("layout", ["list", "interval"])
def test_zero_based_training_is_remembered(tmp_path, blobs, layout):
    X, y = blobs
    X = X.copy()
    X[180:, 0] = 0  # no index 0 in the second file: it alone does not tell its base
    write_svm(tmp_path / "train.svm", X[:180], y[:180], base=0)
    write_svm(tmp_path / "test.svm", X[180:], y[180:], base=0)
    completed = call(
        "train", "-n", 30, "--layout", layout, "-P", "test.svm", "train.svm", "m.mcb", cwd=tmp_path
    )
    assert completed.returncode == 0, completed.stderr
    predicted = call("predict", "-q", "test.svm", "m.mcb", "out", cwd=tmp_path)
    hits = np.mean(load_model(tmp_path / "m.mcb").predict(X[180:]) == y[180:])
    assert predicted.stdout.startswith(f"Accuracy = {100 * hits:g}% ")
    assert f"validation error {100 - 100 * hits:.4g}%" in completed.stderr
    shifted = call("predict", "-q", "--base", 1, "test.svm", "m.mcb", "out", cwd=tmp_path)
    assert shifted.stdout != predicted.stdout


@pytest.fixture
def large(tmp_path):
    """A file that trees need some seconds for."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, size=2000)
    return write_svm(tmp_path / "big.svm", rng.normal(size=(2000, 20)) + 0.5 * y[:, None], y)


def trees(large, rounds, *more):
    return ["-a", "mart", "-n", rounds, "-S", 5, "--subsample", 0.7, *more, large.name]


def wait_until(condition, process):
    end = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def test_killed_training_goes_on_to_the_same_bytes(large, tmp_path):
    arguments = trees(large, 60, "--checkpoint", "part", "--checkpoint-every", 0)
    part = tmp_path / "part"
    rounds = 0
    for more in (5, 10):
        process = start("train", *arguments, "m.mcb", cwd=tmp_path)
        wait_until(
            lambda least=rounds + more: part.exists() and load_model(part).n_rounds >= least,
            process,
        )
        process.kill()
        process.communicate(timeout=60)
        rounds = load_model(part).n_rounds
    assert not (tmp_path / "m.mcb").exists()
    # What was done until then is a model like any other.
    assert call("predict", "-q", "big.svm", "part", "out", cwd=tmp_path).returncode == 0
    completed = call("train", *arguments, "m.mcb", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert f"mcboost-train: continuing from the {rounds} rounds in part\n" in completed.stderr
    assert call("train", *trees(large, 60), "whole.mcb", cwd=tmp_path).returncode == 0
    assert (tmp_path / "m.mcb").read_bytes() == (tmp_path / "whole.mcb").read_bytes()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["big.svm", "m.mcb", "out", "whole.mcb"]


def test_interrupt_writes_a_last_checkpoint(large, tmp_path):
    process = start(
        "train",
        "--verbose",
        3,
        *trees(large, 100_000, "--checkpoint", "part"),
        "m.mcb",
        cwd=tmp_path,
    )
    wait_for(process, "round 3 of")
    time.sleep(0.2)  # the checkpoint learns of a round after the line is written
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    rounds = load_model(tmp_path / "m.mcb").n_rounds
    assert f"interrupted; the {rounds} rounds done are saved in m.mcb" in err
    assert "run the same command again to continue from the checkpoint part" in err
    kept = load_model(tmp_path / "part").n_rounds
    assert rounds - 1 <= kept <= rounds  # it may not have learnt of the last one
    completed = call(
        "train", *trees(large, rounds + 5, "--checkpoint", "part"), "m.mcb", cwd=tmp_path
    )
    assert f"continuing from the {kept} rounds" in completed.stderr
    assert not (tmp_path / "part").exists()
    call("train", *trees(large, rounds + 5), "whole.mcb", cwd=tmp_path)
    assert (tmp_path / "m.mcb").read_bytes() == (tmp_path / "whole.mcb").read_bytes()


def test_interrupted_mcboost_keeps_the_last_rebuilding(large, tmp_path):
    """Its checkpoints lie on multiples of 512 rounds, the model of Ctrl-C does not."""
    process = start(
        "train",
        "-n",
        1_000_000,
        "--checkpoint",
        "part",
        "--checkpoint-every",
        0,
        "big.svm",
        "m.mcb",
        cwd=tmp_path,
    )
    wait_until((tmp_path / "part").exists, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    rounds = load_model(tmp_path / "part").n_rounds
    assert rounds % 512 == 0 < rounds <= load_model(tmp_path / "m.mcb").n_rounds < rounds + 512
    completed = call(
        "train", "-n", rounds + 99, "--checkpoint", "part", "big.svm", "m.mcb", cwd=tmp_path
    )
    assert f"continuing from the {rounds} rounds" in completed.stderr
    call("train", "-n", rounds + 99, "big.svm", "whole.mcb", cwd=tmp_path)
    assert (tmp_path / "m.mcb").read_bytes() == (tmp_path / "whole.mcb").read_bytes()


@pytest.mark.parametrize(
    ("options", "said"), [("-n 5", True), ("-n 512", False), ("-a vector-tree -n 5", False)]
)
def test_checkpoints_that_are_never_written_are_announced(files, tmp_path, options, said):
    arguments = [*options.split(), "--checkpoint", "part", files / "train.svm", "m.mcb"]
    completed = call("train", *arguments, cwd=tmp_path)
    notice = (
        "mcboost-train: mcboost writes a checkpoint only every 512 rounds, and this training has "
        "5: nothing is saved before its end, unless Ctrl-C ends it\n"
    )
    assert (notice in completed.stderr) is said
    assert completed.returncode == 0


@pytest.mark.parametrize(
    ("algorithm", "layout"), [("mcboost", "list"), ("mcboost", "interval"), ("hingeboost", "list")]
)
def test_calibrated_models(files, tmp_path, algorithm, layout):
    """The temperature is kept in other layouts and of files that begin at 0; its probabilities are those of Python."""
    text = (files / "train.svm").read_text()
    moved = re.sub(r" (\d+):", lambda match: f" {int(match[1]) - 1}:", text)
    (tmp_path / "t.svm").write_text(moved)
    options = ["-a", algorithm, "-n", 9, "--calibrate", "temperature", "--layout", layout]
    completed = call("train", *options, "t.svm", "cli.mcb", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    data = load_svmlight(tmp_path / "t.svm")
    expected = get_class(algorithm)(n_estimators=9, calibrate="temperature", random_state=0).fit(
        data.X, data.y
    )
    model = load_model(tmp_path / "cli.mcb")
    assert f"mcboost-train: temperature {model.temperature:.4g}\n" in completed.stderr
    assert (model.temperature, model.index_base) == (expected.model_.temperature, 0)
    assert call("predict", "-q", "-b", 1, "t.svm", "cli.mcb", "out", cwd=tmp_path).returncode == 0
    lines = [line.split()[1:] for line in (tmp_path / "out").read_text().splitlines()[1:]]
    said = np.array(lines, dtype=float)
    assert said.tobytes() == model.predict_proba(data.X).tobytes()
    np.testing.assert_allclose(
        said, expected.predict_proba(data.X), rtol=1e-6 if layout == "interval" else 1e-9
    )
    shown = call("info", "cli.mcb", cwd=tmp_path).stdout
    assert f"temperature   {model.temperature:.4g}, by which F is divided\n" in shown


def test_interrupt_of_the_calibration_saves_all_rounds_without_it(files, tmp_path, monkeypatch):
    def interrupt(*args, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("pymcboost.training.calibration.held_scores", interrupt)
    options = ["-n", 9, "--calibrate", "temperature", "--checkpoint", "part"]
    completed = call("train", *options, "-a", "mart", files / "train.svm", "m.mcb", cwd=tmp_path)
    assert completed.returncode == 130
    assert "interrupted; the 9 rounds done are saved in m.mcb" in completed.stderr
    assert (
        load_model(tmp_path / "m.mcb").n_rounds,
        load_model(tmp_path / "m.mcb").temperature,
    ) == (9, None)
    monkeypatch.undo()
    completed = call("train", *options, "-a", "mart", files / "train.svm", "m.mcb", cwd=tmp_path)
    assert "continuing from the 9 rounds in part" in completed.stderr
    assert load_model(tmp_path / "m.mcb").temperature > 0
    assert [path.name for path in tmp_path.iterdir()] == ["m.mcb"]


def test_priors_that_weights_have_shifted(files, tmp_path):
    options = ["-n", 20, "-w2", 9, "--restore-priors", files / "train.svm", "cli.mcb"]
    assert call("train", "-q", *options, cwd=tmp_path).returncode == 0
    data = load_svmlight(files / "train.svm")
    weight = {-1: 1.0, 2: 9.0, 7: 1.0}
    fitted = MCBoostClassifier(n_estimators=20, class_weight=weight, random_state=0).fit(
        data.X, data.y
    )
    expected = fitted.predict_proba(data.X) / [1, 9, 1]
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        load_model(tmp_path / "cli.mcb").predict_proba(data.X), expected, rtol=1e-5
    )


def test_checkpoints_say_what_model_files_say_of_columns(tmp_path):
    """Which predictions need: where features begin, and the names of columns."""
    rows = Rows(None, None, base=0)
    assert train.columns_meta(rows) == {"index_base": 0}
    rows = rows._replace(names=["a", "b"], label="kind")
    assert train.columns_meta(rows._replace(header=False)) == {"label_column": "kind"}
    checkpoint = Checkpoint(tmp_path / "part", every=0)
    checkpoint.more = train.columns_meta(rows)
    X = np.random.default_rng(0).normal(size=(60, 2))
    estimator = VectorTreeBoostClassifier(n_estimators=3, calibrate=None)
    for n in (3, 5):
        checkpoint.fit(estimator.set_params(n_estimators=n), X, X[:, 0] > 0)
        meta = load_model(tmp_path / "part").meta
        assert (meta["feature_names"], meta["label_column"]) == (["a", "b"], "kind")
    assert checkpoint.resumed == 3
