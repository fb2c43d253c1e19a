"""mcboost-predict as a program."""

import os
import shlex
import stat
import subprocess

import numpy as np
import pytest
from cli.programs import call, command, environment, run, write_svm
from reference.scoring import random_kernel, random_linear

from pymcboost import MCBoostClassifier, Model, load_model, load_svmlight
from pymcboost.cli.predict import main
from pymcboost.model.builders import EnsembleBuilder, TreesBuilder


@pytest.fixture
def scored(files):
    """Model of the files fixture, its test data, raw scores and probabilities in Python."""
    model = load_model(files / "model.mcb")
    data = load_svmlight(files / "test.svm")
    return model, data, model.raw_scores(data.X), model.predict_proba(data.X)


def table(text):
    """First line, labels and values of an output file with values."""
    first, *rest = text.splitlines()
    rows = [line.split(" ") for line in rest]
    return (
        first,
        [int(row[0]) for row in rows],
        np.array([[float(value) for value in row[1:]] for row in rows]),
    )


def test_labels_and_accuracy(files, tmp_path, scored):
    model, data, _, _ = scored
    completed = run("predict", files / "test.svm", files / "model.mcb", "out.txt", cwd=tmp_path)
    assert (completed.returncode, completed.stderr) == (0, "")
    predicted = model.predict(data.X)
    assert (tmp_path / "out.txt").read_text() == "".join(f"{label}\n" for label in predicted)
    hits = int((predicted == data.y).sum())
    assert 30 < hits < 60, "the test should see both hits and errors"
    assert completed.stdout == f"Accuracy = {100 * hits / 60:g}% ({hits}/60) (classification)\n"


def test_accuracy_in_libsvms_six_digits(capsys, files, tmp_path, scored):
    model, data, _, _ = scored
    predicted = model.predict(data.X)
    labels = [*predicted[:44], 2 if predicted[44] != 2 else 7]
    write_svm(tmp_path / "t.svm", data.X[:45], labels)
    assert main([str(tmp_path / "t.svm"), str(files / "model.mcb"), str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == "Accuracy = 97.7778% (44/45) (classification)\n"


@pytest.mark.parametrize(
    ("option", "which"), [("-d", 2), ("--decision-values", 2), ("-b", 3), ("--probability", 3)]
)
def test_values_equal_python_to_the_last_bit(files, tmp_path, scored, option, which):
    completed = call(
        "predict", option, 1, files / "test.svm", files / "model.mcb", "out.txt", cwd=tmp_path
    )
    assert completed.returncode == 0, completed.stderr
    first, labels, values = table((tmp_path / "out.txt").read_text())
    assert first == "labels -1 2 7"
    assert labels == scored[0].predict(scored[1].X).tolist()
    assert np.array_equal(values, scored[which])


def test_estimator_equals_command_line(files, tmp_path):
    train, test = load_svmlight(files / "train.svm"), load_svmlight(files / "test.svm")
    estimator = MCBoostClassifier(n_estimators=30).fit(train.X, train.y)
    out = call("predict", "-d", 1, files / "test.svm", files / "model.mcb", "-").stdout
    assert np.array_equal(table(out)[2], estimator.decision_function(test.X))


@pytest.mark.parametrize(
    "option", ["-b 0", "-d 0", "-j 2", "--n-jobs=-1", "--base 1", "-q", "--quiet"]
)
def test_options_that_leave_the_labels_alone(files, tmp_path, option):
    plain = call("predict", files / "test.svm", files / "model.mcb", "-").stdout
    assert (
        call("predict", *option.split(), files / "test.svm", files / "model.mcb", "-").stdout
        == plain
    )


def test_standard_streams(files, tmp_path, scored):
    text = (files / "test.svm").read_text()
    completed = run("predict", "-", files / "model.mcb", "-", cwd=tmp_path, stdin=text)
    assert completed.returncode == 0
    assert completed.stdout == "".join(f"{label}\n" for label in scored[0].predict(scored[1].X))
    assert completed.stderr.startswith("Accuracy = "), "the accuracy must not mix with predictions"
    assert list(tmp_path.iterdir()) == []


def test_two_classes(files, tmp_path, blobs):
    X, y = blobs
    X, y = X[y != 2], y[y != 2]
    write_svm(tmp_path / "t.svm", X, y)
    assert call("train", "-q", "-n", 10, "t.svm", cwd=tmp_path).returncode == 0
    first, _, values = table(
        call("predict", "-d", 1, "t.svm", "t.svm.mcb", "-", cwd=tmp_path).stdout
    )
    assert first == "labels -1 7"
    assert np.array_equal(
        values[:, 1] - values[:, 0], load_model(tmp_path / "t.svm.mcb").decision_function(X)
    )


def test_unknown_labels_count_as_errors(files, tmp_path, scored):
    model, data, _, _ = scored
    labels = [40, 41, *model.predict(data.X[2:10])]
    write_svm(tmp_path / "t.svm", data.X[:10], labels)
    completed = call("predict", "t.svm", files / "model.mcb", "out", cwd=tmp_path)
    assert completed.returncode == 0
    assert completed.stdout == "Accuracy = 80% (8/10) (classification)\n"
    message = (
        "2 of 10 rows have a label that the model does not know (40, 41); they count as errors"
    )
    assert f"mcboost-predict: {message}\n" in completed.stderr
    quiet = call("predict", "-q", "t.svm", files / "model.mcb", "out", cwd=tmp_path)
    assert (quiet.stdout, quiet.stderr) == (completed.stdout, "")


def test_unlabelled_rows_are_predicted(files, tmp_path, scored):
    model, data, _, _ = scored
    predicted = model.predict(data.X)
    write_svm(tmp_path / "some.svm", data.X[:10], [None, None, *predicted[2:10]])
    completed = call("predict", "some.svm", files / "model.mcb", "out", cwd=tmp_path)
    assert completed.returncode == 0
    assert completed.stdout == "Accuracy = 100% (8/8) (classification)\n"
    assert "2 of 10 rows have no label" in completed.stderr
    assert (tmp_path / "out").read_text().split() == [str(label) for label in predicted[:10]]
    write_svm(tmp_path / "none.svm", data.X[:10], [None] * 10)
    completed = call("predict", "none.svm", files / "model.mcb", "out", cwd=tmp_path)
    assert (completed.returncode, completed.stdout) == (0, "")
    assert (tmp_path / "out").read_text().split() == [str(label) for label in predicted[:10]]


def test_more_and_fewer_features_than_the_model(files, tmp_path, scored):
    model, data, scores, _ = scored
    write_svm(tmp_path / "more.svm", np.pad(data.X, ((0, 0), (0, 3)), constant_values=9), data.y)
    completed = call("predict", "-d", 1, "more.svm", files / "model.mcb", "out", cwd=tmp_path)
    assert completed.returncode == 0
    assert "features beyond" in completed.stderr
    assert np.array_equal(table((tmp_path / "out").read_text())[2], scores)
    write_svm(tmp_path / "fewer.svm", data.X[:, :3], data.y)
    completed = call("predict", "-d", 1, "fewer.svm", files / "model.mcb", "out", cwd=tmp_path)
    message = "fewer.svm: the file has only the features 1 to 3, but the model expects 5; the missing ones count as 0"
    assert (completed.returncode, completed.stderr) == (0, f"mcboost-predict: {message}\n")
    zeroed = data.X.copy()
    zeroed[:, 3:] = 0
    assert np.array_equal(table((tmp_path / "out").read_text())[2], model.raw_scores(zeroed))


@pytest.mark.parametrize("base", [0, 1])
def test_missing_features_are_a_notice_where_the_model_needs_them(tmp_path, base):
    """Once, and not for features that no weak learner looks at."""
    builder = EnsembleBuilder(2, 9)
    builder.add_stump(4, 0.5, False, right=[1.0, -1.0])
    meta = {"index_base": base}
    Model.from_ensemble(builder.freeze(), [1, 2], link="softmax", meta=meta).save(
        tmp_path / "m.mcb"
    )
    for d, words in [
        (0, "no features"),
        (1, f"only the features {base} to {base}"),
        (4, "only"),
        (5, ""),
        (9, ""),
    ]:
        # A last value of 0 is in the file, too.
        pairs = "".join(f" {j + base}:{j < d - 1:d}" for j in range(d))
        (tmp_path / "t.svm").write_text(f"1{pairs}\n2\n")
        completed = call("predict", "t.svm", "m.mcb", "out", cwd=tmp_path)
        assert completed.returncode == 0
        notice = f"mcboost-predict: t.svm: the file has {words}, but the model expects 9; the missing ones count as 0\n"
        assert completed.stderr == notice.replace(
            "has only,", f"has only the features {base} to {3 + base},"
        ) * bool(words)
        assert call("predict", "-q", "t.svm", "m.mcb", "out", cwd=tmp_path).stderr == ""


def test_sparse_rows_score_like_dense_ones(tmp_path):
    rng = np.random.default_rng(1)
    X = np.where(rng.random((2000, 6000)) < 0.002, rng.integers(1, 9, size=(2000, 6000)), 0).astype(
        np.float32
    )
    y = (X[:, 0] + 1 > X[:, 1:400].sum(axis=1)).astype(int)
    write_svm(tmp_path / "t.svm", X, y)
    completed = call("train", "-n", 10, "t.svm", cwd=tmp_path)
    assert "(sparse)" in completed.stderr, completed.stderr
    out = call("predict", "-d", 1, "t.svm", "t.svm.mcb", "-", cwd=tmp_path).stdout
    model = load_model(tmp_path / "t.svm.mcb")
    assert np.array_equal(
        table(out)[2], model.raw_scores(np.pad(X, ((0, 0), (0, model.n_features_in_ - 6000))))
    )


def test_base_zero(files, tmp_path, scored):
    _, data, scores, _ = scored
    write_svm(tmp_path / "zero.svm", data.X, data.y, base=0)
    for base in ("0", "auto"):
        completed = call(
            "predict", "-d", 1, "--base", base, "zero.svm", files / "model.mcb", "-", cwd=tmp_path
        )
        assert np.array_equal(table(completed.stdout)[2], scores)
    completed = call("predict", "--base", 1, "zero.svm", files / "model.mcb", "out", cwd=tmp_path)
    assert completed.returncode == 2
    assert "zero.svm:1:" in completed.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["stumps", "trees"])
def test_rounds(files, tmp_path, scored, kind):
    model, data, _, _ = scored
    if kind == "trees":
        builder = TreesBuilder(3, 5)
        for r in range(4):
            for cls in range(3):
                builder.add_tree(
                    [r], [0.1 * cls], [False], right=[1], leaf=[r, -cls - 1.0], cls=cls
                )
            builder.end_round()
        model = Model.from_ensemble(builder.freeze(), model.classes_, link="softmax")
    model.save(tmp_path / "m.mcb")
    stages = list(model.staged_decision_function(data.X))
    for rounds in (1, 3, model.n_rounds):
        completed = call(
            "predict", "-d", 1, "--rounds", rounds, files / "test.svm", "m.mcb", "-", cwd=tmp_path
        )
        assert completed.returncode == 0, completed.stderr
        assert np.array_equal(table(completed.stdout)[2], stages[rounds - 1])
    completed = call(
        "predict", "-d", 1, "--rounds", 0, files / "test.svm", "m.mcb", "-", cwd=tmp_path
    )
    assert (table(completed.stdout)[2] == model.ensemble.bias).all()
    completed = call(
        "predict", "--rounds", model.n_rounds + 1, files / "test.svm", "m.mcb", "out", cwd=tmp_path
    )
    assert completed.returncode == 1
    assert (
        f"--rounds must be from 0 to {model.n_rounds}, the number of rounds in m.mcb"
        in completed.stderr
    )
    assert not (tmp_path / "out").exists()


def test_rounds_of_an_interval_table(files, tmp_path):
    load_model(files / "model.mcb").save(tmp_path / "m.mcb", layout="interval")
    completed = call("predict", "--rounds", 2, files / "test.svm", "m.mcb", "out", cwd=tmp_path)
    assert completed.returncode == 1
    assert (
        "m.mcb, an interval table" in completed.stderr
        and "--rounds does not work" in completed.stderr
    )


@pytest.mark.parametrize("algorithm", ["multiboost", "multiboost-cw"])
def test_rounds_of_a_totally_corrective_model(files, tmp_path, algorithm):
    train = files / "train.svm"
    assert (
        call("train", "-q", "-a", algorithm, "-n", 5, train, "m.mcb", cwd=tmp_path).returncode == 0
    )
    completed = call("predict", "--rounds", 2, files / "test.svm", "m.mcb", "out", cwd=tmp_path)
    assert completed.returncode == 1
    assert (
        "the model is totally corrective" in completed.stderr
        and "--rounds does not work" in completed.stderr
    )
    assert call("predict", files / "test.svm", "m.mcb", "out", cwd=tmp_path).returncode == 0
    assert "totally corrective" in call("info", "m.mcb", cwd=tmp_path).stdout
    assert (
        call(
            "train", "-q", "-a", algorithm, "-n", 5, "--max-passes", 1, train, "m.mcb", cwd=tmp_path
        ).returncode
        == 0
    )
    assert (
        call("predict", "--rounds", 2, files / "test.svm", "m.mcb", "out", cwd=tmp_path).returncode
        == 0
    )


@pytest.mark.parametrize("kind", ["linear", "kernel"])
def test_machines(files, tmp_path, scored, kind):
    _, data, _, _ = scored
    machine = (
        random_linear(5, 3)
        if kind == "linear"
        else random_kernel(30, 5, 3, kernel="rbf", scaled=True)
    )
    model = Model.from_ensemble(machine, [-1, 2, 7])
    model.save(tmp_path / "m.mcb")
    completed = call("predict", "-d", 1, files / "test.svm", "m.mcb", "-", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert np.array_equal(table(completed.stdout)[2], model.raw_scores(data.X))
    completed = call("predict", "--rounds", 2, files / "test.svm", "m.mcb", "out", cwd=tmp_path)
    assert completed.returncode == 1
    assert (
        "m.mcb, a linear or kernel machine" in completed.stderr
        and "--rounds does not work" in completed.stderr
    )
    completed = call("predict", "-b", 1, files / "test.svm", "m.mcb", "out", cwd=tmp_path)
    assert completed.returncode == 1
    assert "m.mcb: this model gives no probabilities" in completed.stderr
    (tmp_path / "nan.svm").write_text("2 1:0.5\n7 2:nan\n")
    completed = call("predict", tmp_path / "nan.svm", "m.mcb", "out", cwd=tmp_path)
    assert completed.returncode == 2
    assert "line 2 has nan for the feature 2" in completed.stderr
    assert "Traceback" not in completed.stderr
    assert not (tmp_path / "out").exists()


def test_string_classes(files, tmp_path, blobs):
    X, y = blobs
    names = np.array(["sea bass", "2", "trout"])[np.searchsorted([-1, 2, 7], y)]
    MCBoostClassifier(n_estimators=30).fit(X[:180], names[:180]).save(tmp_path / "fish.mcb")
    completed = call("predict", "-b", 1, files / "test.svm", "fish.mcb", "out", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines[0] == 'labels 2 "sea bass" trout'
    assert {line.rsplit(" ", 3)[0] for line in lines[1:]} == {"2", '"sea bass"', "trout"}
    assert "40 of 60 rows have a label" in completed.stderr and "(-1, 7)" in completed.stderr


def test_model_without_probabilities(files, tmp_path):
    model = load_model(files / "model.mcb")
    Model.from_ensemble(model.ensemble, model.classes_, link="none").save(tmp_path / "m.mcb")
    completed = call("predict", "-b", 1, files / "test.svm", "m.mcb", "out", cwd=tmp_path)
    assert completed.returncode == 1
    assert (
        "m.mcb: this model gives no probabilities" in completed.stderr
        and "use -d 1 for its scores" in completed.stderr
    )
    assert (
        call("predict", "-d", 1, files / "test.svm", "m.mcb", "out", cwd=tmp_path).returncode == 0
    )


@pytest.mark.posix
def test_output_is_replaced_whole_with_the_usual_permissions(files, tmp_path):
    out = tmp_path / "out"
    mask = os.umask(0)
    os.umask(mask)
    assert call("predict", files / "test.svm", files / "model.mcb", out).returncode == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o666 & ~mask
    text = out.read_text()
    out.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to("out")
    assert call("predict", "-b", 1, files / "test.svm", files / "model.mcb", link).returncode == 0
    assert link.is_symlink()
    assert out.read_text().startswith("labels ")
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert text.split() == [line.split()[0] for line in out.read_text().splitlines()[1:]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "out"]


@pytest.mark.parametrize(
    "path", [pytest.param("/dev/stdout", marks=pytest.mark.slow), "/dev/fd/1", "-"]
)
def test_names_of_standard_output(files, tmp_path, scored, path):
    """Into a pipe and into a file, to whose end the output goes; the accuracy goes to standard error."""
    predicted = "".join(f"{label}\n" for label in scored[0].predict(scored[1].X))
    completed = run("predict", files / "test.svm", files / "model.mcb", path)
    assert (completed.returncode, completed.stdout) == (0, predicted), completed.stderr
    assert completed.stderr.startswith("Accuracy = ")
    (tmp_path / "out").write_text("before\n")
    with open(tmp_path / "out", "a") as out:
        assert (
            run("predict", files / "test.svm", files / "model.mcb", path, stdout=out).returncode
            == 0
        )
    assert (tmp_path / "out").read_text() == "before\n" + predicted


def test_output_to_another_descriptor(files, scored):
    line = shlex.join(
        [*command("predict"), str(files / "test.svm"), str(files / "model.mcb"), "/dev/stderr"]
    )
    completed = subprocess.run(
        ["sh", "-c", line], env=environment(), capture_output=True, text=True
    )
    assert completed.stderr == "".join(f"{label}\n" for label in scored[0].predict(scored[1].X))
    assert completed.stdout.startswith("Accuracy = ")
    completed = subprocess.run(
        ["sh", "-c", line.replace("stderr", "fd/77")], env=environment(), capture_output=True
    )
    assert (completed.returncode, b"Bad file descriptor" in completed.stderr) == (4, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the following arguments are required: test_file, model_file, output_file"),
        ("a b", "the following arguments are required: output_file"),
        ("a b c d", "unrecognized arguments: d"),
        (
            "-b 2 a b c",
            "argument -b/--probability: '2' is not 0 or 1: -b needs one of them after it, as in -b 1\n",
        ),
        (
            "-b iris.libsvm b c",
            "argument -b/--probability: 'iris.libsvm' is not 0 or 1: -b needs one of them after it",
        ),
        (
            "-d 2 a b c",
            "argument -d/--decision-values: '2' is not 0 or 1: -d needs one of them after it, as in -d 1\n",
        ),
        ("-b 1 -d 1 a b c", "-b 1 and -d 1 cannot be used together"),
        (
            "--stream a.csv b c",
            "--stream and --base are for LIBSVM text; CSV and Parquet files have named columns",
        ),
        (
            "--label y a b c",
            "--label names a column of a CSV or Parquet file; in LIBSVM text",
        ),
        (
            "--report --stream a b c",
            "--report needs all rows, and --stream does not keep them; leave one of them out",
        ),
        ("-j 0 a b c", "argument -j/--n-jobs: '0' is not a number of threads"),
        ("--rounds -1 a b c", "argument --rounds: '-1' is not a number of rounds: 0 or more"),
        ("--rounds x a b c", "argument --rounds: 'x' is not a number of rounds"),
        ("-j x a b c", "argument -j/--n-jobs: 'x' is not a number of threads"),
        ("--base one a b c", "argument --base: invalid choice: 'one'"),
        ("--prob 1 a b c", "unrecognized arguments: --prob"),
        ("-n 5 a b c", "unrecognized arguments: -n"),
    ],
)
def test_bad_usage_exits_1(capsys, text, message):
    assert main(text.split()) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"mcboost-predict: error: {message}")


def test_swapped_files_are_told_their_order(capsys, tmp_path):
    (tmp_path / "rows").write_text("1 1:2\n" * 20)
    assert main([str(tmp_path / "rows"), str(tmp_path / "rows"), str(tmp_path / "out")]) == 3
    assert "signature" in (err := capsys.readouterr().err)
    assert err.endswith("; the order of arguments is test_file model_file output_file\n")


def test_missing_values_for_a_machine_have_file_row_and_feature(files, tmp_path):
    completed = call(
        "train", "-q", "-a", "hingeboost", "-n", 2, files / "train.svm", tmp_path / "m.mcb"
    )
    assert completed.returncode == 0, completed.stderr
    (tmp_path / "t.svm").write_text("1 1:1\n1 1:2 2:nan\n")
    completed = call("predict", tmp_path / "t.svm", tmp_path / "m.mcb", "-")
    assert (
        completed.returncode == 2 and "t.svm: line 2 has nan for the feature 2" in completed.stderr
    )
