"""mcboost-predict --report against scikit-learn's figures."""

import numpy as np
import pytest
from cli.programs import call, write_svm
from reference.scoring import random_linear
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from pymcboost import Model, load_model, load_svmlight
from pymcboost.model.builders import EnsembleBuilder

LEAST = np.finfo(np.float64).eps


def figure(value):
    return "-" if np.isnan(value) else f"{value:.4f}"


@pytest.mark.parametrize("option", [[], ["-b", 1], ["-d", 1]])
def test_figures(files, tmp_path, option):
    model = load_model(files / "model.mcb")
    data = load_svmlight(files / "test.svm")
    completed = call(
        "predict", "--report", *option, files / "test.svm", files / "model.mcb", "out", cwd=tmp_path
    )
    assert (completed.returncode, completed.stderr) == (0, "")
    accuracy, *lines = completed.stdout.splitlines()
    plain = call("predict", *option, files / "test.svm", files / "model.mcb", "same", cwd=tmp_path)
    assert accuracy + "\n" == plain.stdout
    assert (tmp_path / "out").read_bytes() == (tmp_path / "same").read_bytes()
    predicted = model.predict(data.X)
    proba = model.predict_proba(data.X)
    loss = -np.log(np.maximum(proba[np.arange(60), np.searchsorted(model.classes_, data.y)], LEAST))
    precision, recall, _, rows = precision_recall_fscore_support(data.y, predicted)
    assert lines[0].split() == ["class", "rows", "recall", "precision", "log", "loss"]
    for k, (line, name) in enumerate(zip(lines[1:4], (-1, 2, 7), strict=True)):
        expected = [
            str(name),
            str(rows[k]),
            *map(figure, (recall[k], precision[k], loss[data.y == name].mean())),
        ]
        assert line.split() == expected
    assert lines[4] == f"Log loss = {loss.mean():.4f}"
    assert lines[5] == "Confusion matrix (a row for each label, a column for each prediction):"
    assert lines[6].split() == ["-1", "2", "7"]
    table = [list(map(int, line.split())) for line in lines[7:]]
    assert table == np.column_stack([[-1, 2, 7], confusion_matrix(data.y, predicted)]).tolist()
    streamed = call("predict", "--report", *option, files / "test.svm", files / "model.mcb", "-")
    assert streamed.stderr == completed.stdout


def test_unknown_labels_missing_labels_and_classes_without_rows(files, tmp_path):
    model = load_model(files / "model.mcb")
    data = load_svmlight(files / "test.svm")
    rows = data.X[data.y == 2][:6]
    write_svm(tmp_path / "t.svm", rows, [2, 2, 2, 99, 98, None])
    completed = call("predict", "--report", "t.svm", files / "model.mcb", "out", cwd=tmp_path)
    lines = [line.split() for line in completed.stdout.splitlines()]
    predicted = model.predict(rows)
    loss = -np.log(model.predict_proba(rows[:3])[:, 1])
    right, taken = (predicted[:3] == 2).sum(), (predicted[:5] == 2).sum()
    assert lines[2][:3] == ["-1", "0", "-"] and lines[2][4] == "-"
    assert lines[3] == ["2", "3", figure(right / 3), figure(right / taken), figure(loss.mean())]
    assert lines[5] == ["unknown", "2", "-", "-", "-"]
    assert lines[6] == ["Log", "loss", "=", figure(loss.mean())]
    assert lines[-1] == ["unknown", *(str((predicted[3:5] == name).sum()) for name in (-1, 2, 7))]
    write_svm(tmp_path / "t.svm", rows, [None] * 6)
    completed = call("predict", "--report", "t.svm", files / "model.mcb", "out", cwd=tmp_path)
    assert (
        completed.stdout,
        "no row has a label: there is nothing to report\n" in completed.stderr,
    ) == (
        "",
        True,
    )


def test_machines_have_no_log_loss(files, tmp_path):
    Model.from_ensemble(random_linear(5, 3), [-1, 2, 7]).save(tmp_path / "m.mcb")
    completed = call("predict", "--report", files / "test.svm", "m.mcb", "out", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert [line.split()[-1] for line in completed.stdout.splitlines()[2:5]] == ["-", "-", "-"]
    assert "Log loss =" not in completed.stdout


def test_many_classes_give_the_largest_confusions(tmp_path):
    builder = EnsembleBuilder(30, 1)
    for k in range(30):
        builder.add_stump(
            0,
            k - 0.5,
            False,
            right=np.where(np.arange(30) < k, 1.0, 0.0),
            left=np.where(np.arange(30) < k, 0, 1.0),
        )
    Model.from_ensemble(builder.freeze(), list(range(100, 130)), link="softmax").save(
        tmp_path / "m.mcb"
    )
    X = np.arange(60)[:, None] % 30
    predicted = load_model(tmp_path / "m.mcb").predict(X.astype(np.float32))
    y = np.where(np.arange(60) < 7, 129, np.where(np.arange(60) < 10, 128, predicted))
    write_svm(tmp_path / "t.svm", X, y)
    lines = call("predict", "--report", "t.svm", "m.mcb", "out", cwd=tmp_path).stdout.splitlines()
    begin = lines.index("Largest confusions, at most 40 (label, prediction, rows):")
    found = [tuple(map(int, line.split())) for line in lines[begin + 1 :]]
    wrong = {}
    for label, other in zip(y, predicted, strict=True):
        if label != other:
            wrong[label, other] = wrong.get((label, other), 0) + 1
    assert sorted(found) == sorted((*pair, n) for pair, n in wrong.items())
    assert [n for *_, n in found] == sorted((n for *_, n in found), reverse=True)
