"""Rows with any number of labels: LIBSVM text in and out, and both programs."""

import gc
import warnings

import numpy as np
import pytest
import scipy.sparse
from cli.programs import call
from sklearn import metrics
from sklearn.datasets import load_svmlight_file, make_multilabel_classification

from pymcboost import VectorTreeBoostClassifier, dump_svmlight, load_model, load_svmlight
from pymcboost.cli.lists import measures
from pymcboost.data.svmlight import SvmlightError
from pymcboost.data.svmlines import Lines
from pymcboost.data.tables import read_table
from pymcboost.registry import get_class
from pymcboost.training.labels import METRICS
from pymcboost.training.metrics import ValidationSet
from pymcboost.training.strata import stratified

NAMES = np.array([-3, 1, 4, 10, 700])
TRAIN = ["-a", "vector-tree", "--loss", "logistic", "-n", 20, "--random-state", 0]


@pytest.fixture(scope="module")
def lists(tmp_path_factory):
    """Folder with train.svm and test.svm, and their rows and indicators."""
    folder = tmp_path_factory.mktemp("lists")
    X, Y = make_multilabel_classification(300, 6, n_classes=5, random_state=0)
    X = X.astype(np.float32)
    for name, rows in (("train", slice(200)), ("test", slice(200, 300))):
        dump_svmlight(folder / f"{name}.svm", X[rows], [NAMES[row > 0].tolist() for row in Y[rows]])
    return folder, X, Y


def test_text_is_read_as_it_was_written(lists, tmp_path):
    folder, X, Y = lists
    data = load_svmlight(folder / "train.svm", multilabel=True)
    np.testing.assert_array_equal(data.X, X[:200])
    assert [list(one) for one in data.y] == [NAMES[row > 0].tolist() for row in Y[:200]]
    np.testing.assert_array_equal(data.labelled, Y[:200].any(axis=1))
    assert "5 labels (-3, 1, 4, 10, 700)" in repr(data)
    theirs = load_svmlight_file(str(folder / "train.svm"), multilabel=True)
    assert [tuple(map(int, sorted(one))) for one in theirs[1]] == list(data.y)
    for form in (Y, scipy.sparse.csr_matrix(Y), scipy.sparse.coo_array(Y)):
        dump_svmlight(tmp_path / "t.svm.gz", scipy.sparse.csr_matrix(X), form, base=0)
        again = load_svmlight(
            tmp_path / "t.svm.gz", multilabel=True, base=0, n_features=6, layout="csr"
        )
        assert [list(one) for one in again.y] == [np.flatnonzero(row).tolist() for row in Y]
        np.testing.assert_array_equal(again.X.toarray(), X)


def test_files_are_closed_without_a_warning(lists, tmp_path):
    """Lists of labels, rows one after the other, and columns with names."""
    (tmp_path / "bad.svm").write_text("1,x 1:1\n")
    (tmp_path / "t.csv").write_text("a,label\n1,2\n")
    (tmp_path / "one.svm").write_text("1 1:1\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load_svmlight(lists[0] / "train.svm", multilabel=True)
        with pytest.raises(SvmlightError, match="label 'x' is not a whole number"):
            load_svmlight(tmp_path / "bad.svm", multilabel=True)
        assert len(list(Lines(tmp_path / "one.svm", 1, 1))) == 1
        assert (
            len(read_table(tmp_path / "t.csv", "csv", lambda names: (names[:1], names[1])).X) == 1
        )
        gc.collect()
    assert not caught, caught[0].message


def test_rows_of_nothing_stay(tmp_path):
    dump_svmlight(tmp_path / "t.svm", [[0.0, 0.0], [0.0, 1.0]], np.array([[0, 0], [1, 0]]))
    assert (tmp_path / "t.svm").read_text() == " 1:0\n0 2:1\n"
    data = load_svmlight(tmp_path / "t.svm", multilabel=True)
    assert (
        data.X.shape == (2, 2)
        and list(data.y) == [(), (0,)]
        and data.labelled.tolist() == [False, True]
    )


def test_spaces_comments_and_long_files(tmp_path):
    (tmp_path / "t.svm").write_bytes(b"\xef\xbb\xbf\t2,1 qid:3 1:1 # 9,9\r\n\n# 1,1\n 1:2\n5")
    data = load_svmlight(tmp_path / "t.svm", multilabel=True)
    assert list(data.y) == [(1, 2), (), (5,)] and data.X.ravel().tolist() == [1, 2, 0]
    long = "".join(f"{i},{i + 1} 1:{i}\n" for i in range(1, 60000))
    (tmp_path / "t.svm").write_text(long)
    data = load_svmlight(tmp_path / "t.svm", multilabel=True)
    assert len(data.y) == 59999 and data.y[-1] == (59999, 60000) and data.X[-1, 0] == 59999


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1:1\n3,1,3 1:1\n", ":2:5: label 3 occurs twice in the list; list each label once"),
        ("1,,2 1:1\n", ":1:3: label '' is not a whole number"),
        (" 1,x 1:1\n", ":1:4: label 'x' is not a whole number"),
        ("1.5 1:1\n", ":1:1: label '1.5' is not a whole number"),
        (
            "1,99999999999999999 1:1\n",
            r":1:3: label '99999999999999999' is not a whole number within \+-2\^53",
        ),
        ("10,11 1:1 1:2\n", ":1:11: feature index 1 occurs twice"),
        ("1,2 1:1\n7,8 1:x\n", ":2:7: value 'x' is not a number"),
    ],
)
def test_wrong_text(tmp_path, text, message):
    (tmp_path / "t.svm").write_text(text)
    with pytest.raises(SvmlightError, match=message):
        load_svmlight(tmp_path / "t.svm", multilabel=True)


@pytest.mark.parametrize(
    "y", [[[1, 1]], [["a"]], [[1], [2]], [[2**53 + 1]], np.array([[2, 0]]), np.array([[0, 1]] * 2)]
)
def test_wrong_labels_to_write(tmp_path, y):
    with pytest.raises(
        ValueError,
        match="y must be an indicator matrix, or contain a list|the indicator matrix y has shape",
    ):
        dump_svmlight(tmp_path / "t.svm", [[1.0]], y)
    assert not (tmp_path / "t.svm").exists()


def test_programs_do_what_python_does(lists, tmp_path):
    folder, X, Y = lists
    more = ["--decision-threshold", 0.4, "--metric", "hamming_loss"]
    completed = call(
        "train", *TRAIN, *more, "-P", folder / "test.svm", folder / "train.svm", tmp_path / "m.mcb"
    )
    assert completed.returncode == 0, completed.stderr
    assert (
        "200 rows, 6 features, 5 labels" in completed.stderr
        and "best validation hamming_loss" in completed.stderr
    )
    model = load_model(tmp_path / "m.mcb")
    ours = VectorTreeBoostClassifier(
        loss="logistic", n_estimators=20, random_state=0, decision_threshold=0.4
    )
    ours.fit(X[:200], Y[:200])
    assert model.classes_.tolist() == NAMES.tolist() and model.link == "sigmoid"
    np.testing.assert_array_equal(model.raw_scores(X), ours.decision_function(X))
    completed = call("predict", folder / "test.svm", tmp_path / "m.mcb", tmp_path / "out")
    given = ours.predict(X[200:])
    assert (tmp_path / "out").read_text() == "".join(
        f"{','.join(map(str, NAMES[row > 0]))}\n" for row in given
    )
    facts = dict(line.split(" = ") for line in completed.stdout.splitlines())
    whole = (given == Y[200:]).all(axis=1).sum()
    assert facts["Exact match"] == f"{whole}% ({whole}/100)"
    np.testing.assert_allclose(
        float(facts["Hamming loss"]), metrics.hamming_loss(Y[200:], given), rtol=1e-5
    )
    P = ours.predict_proba(X[200:])
    loss = -np.log(np.where(Y[200:] > 0, P, 1 - P)).mean()
    np.testing.assert_allclose(float(facts["Cross-entropy"]), loss, rtol=1e-5)
    for average in ("micro", "macro"):
        value = metrics.f1_score(Y[200:], given, average=average, zero_division=0)
        np.testing.assert_allclose(float(facts[f"{average.title()} F1"]), value, rtol=1e-5)
    first = ours.decision_function(X[200:]).argmax(axis=1)
    np.testing.assert_allclose(
        float(facts["Precision at 1"]), Y[200:][np.arange(100), first].mean(), rtol=1e-5
    )
    assert [line for line in facts if line.startswith("Precision")] == [
        f"Precision at {k}" for k in (1, 3, 5)
    ]
    for option, values in (
        ("-b", ours.predict_proba(X[200:])),
        ("-d", ours.decision_function(X[200:])),
    ):
        call("predict", option, 1, folder / "test.svm", tmp_path / "m.mcb", tmp_path / "out")
        head, *rows = (tmp_path / "out").read_text().splitlines()
        assert head == "labels -3 1 4 10 700"
        found = np.array([[float(value) for value in row.split(" ")[1:]] for row in rows])
        np.testing.assert_array_equal(found, values)
    info = call("info", tmp_path / "m.mcb")
    assert "p = 1 / (1 + exp(-F)) of each label" in info.stdout


def test_adaboost_mh_reads_lists_where_it_is_told_to(lists, tmp_path):
    (folder, X, Y), algorithm = lists, "adaboost-mh"
    more = ["--multilabel", "-n", 9, "--decision-threshold", 0.4]
    completed = call("train", "-a", algorithm, *more, folder / "train.svm", tmp_path / "m.mcb")
    assert completed.returncode == 0, completed.stderr
    ours = get_class(algorithm)(n_estimators=9, decision_threshold=0.4).fit(X[:200], Y[:200])
    model = load_model(tmp_path / "m.mcb")
    assert model.classes_.tolist() == NAMES.tolist() and model.link == "sigmoid"
    np.testing.assert_array_equal(model.predict(X), ours.predict(X))
    completed = call("train", "-a", algorithm, folder / "train.svm", tmp_path / "n.mcb")
    assert completed.returncode and "lists several labels" in completed.stderr
    assert "or --multilabel and -a adaboost-mh" in completed.stderr
    completed = call(
        "train", "-a", "samme", "--multilabel", folder / "train.svm", tmp_path / "n.mcb"
    )
    assert (
        completed.returncode
        and "--multilabel works with -a adaboost-mh and -a vector-tree" in completed.stderr
    )


def test_labels_that_a_model_does_not_know(lists, tmp_path):
    folder, _, _ = lists
    (tmp_path / "new.svm").write_text("4,5,6 1:1\n 2:1\n")
    completed = call(
        "train", *TRAIN, "-P", tmp_path / "new.svm", folder / "train.svm", tmp_path / "m.mcb"
    )
    assert (
        completed.returncode == 0
        and "2 labels that the training file does not have, left out" in completed.stderr
    )
    completed = call("predict", tmp_path / "new.svm", tmp_path / "m.mcb", tmp_path / "out")
    assert "Exact match = " in completed.stdout and "(2/2)" not in completed.stdout
    assert (
        "1 of 2 rows has a label" in completed.stderr
        and "(5, 6); they count as errors" in completed.stderr
    )
    (tmp_path / "new.svm").write_text(
        "".join(f"{','.join(map(str, range(20, 60)))} 1:{i}\n" for i in range(9))
    )
    completed = call("predict", tmp_path / "new.svm", tmp_path / "m.mcb", tmp_path / "out")
    assert (
        "9 of 9 rows have a label" in completed.stderr
        and "(20, 21, 22, 23, 24, ...)" in completed.stderr
    )
    wrong = (
        sum(len(line.split(",")) for line in (tmp_path / "out").read_text().splitlines() if line)
        + 9 * 40
    )
    assert f"Hamming loss = {wrong / (9 * 45):.6g}\n" in completed.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["-w4", 2], "they do not work with -w<label>")],
)
def test_what_is_for_one_label(lists, arguments, message):
    completed = call("train", *TRAIN, *arguments, lists[0] / "train.svm", cwd=lists[0])
    assert completed.returncode and message in completed.stderr


@pytest.mark.parametrize("option", ["--stream", "--report"])
def test_answers_that_are_for_one_label(lists, tmp_path, option):
    folder, _, _ = lists
    assert call("train", *TRAIN, folder / "train.svm", tmp_path / "m.mcb").returncode == 0
    completed = call("predict", option, folder / "test.svm", tmp_path / "m.mcb", "-")
    assert completed.returncode and f"{option} is for one label" in completed.stderr
    (tmp_path / "one.svm").write_text("1 1:1\n2 1:2\n")
    completed = call("train", "-a", "vector-tree", folder / "train.svm", tmp_path / "n.mcb")
    assert completed.returncode and "lists several labels" in completed.stderr
    completed = call("train", *TRAIN, "-v", 0, tmp_path / "one.svm", tmp_path / "n.mcb")
    assert completed.returncode


def folds(X, Y, n, **params):
    """Exact match of all rows; of the folds Hamming loss, cross-entropy, micro and macro F1, precision at 1, 3, 5."""
    n_exact = 0
    metrics_of_folds = []
    for train, held_out in stratified(np.zeros(len(Y)), n, 0):
        model = VectorTreeBoostClassifier(loss="logistic", random_state=0, **params).fit(
            X[train], Y[train]
        )
        predicted = model.predict(X[held_out])
        P = model.predict_proba(X[held_out])
        n_exact += (predicted == Y[held_out]).all(axis=1).sum()
        loss = -np.log(np.where(Y[held_out] > 0, P, 1 - P)).mean()
        f1 = [
            metrics.f1_score(Y[held_out], predicted, average=average, zero_division=0)
            for average in ("micro", "macro")
        ]
        first = np.argsort(-P, axis=1, kind="stable")
        precision_at = [
            np.take_along_axis(Y[held_out], first[:, :k], axis=1).mean() for k in (1, 3, 5)
        ]
        metrics_of_folds.append(((predicted != Y[held_out]).mean(), loss, *f1, *precision_at))
    return n_exact / len(Y), np.array(metrics_of_folds)


def test_cross_validation(lists):
    folder, X, Y = lists
    completed = call("train", *TRAIN, "-v", 4, "--curve", folder / "train.svm", cwd=folder)
    assert completed.returncode == 0, completed.stderr
    whole, fold_measures = folds(X[:200], Y[:200], 4, n_estimators=20)
    text = completed.stdout.splitlines()
    assert text[0] == f"Cross Validation Exact Match = {100 * whole:g}%"
    assert text[1].startswith(
        f"Cross Validation Hamming Loss = {fold_measures[:, 0].mean():.4g} +- "
    )
    assert text[2].startswith(
        f"Cross Validation Cross-entropy = {fold_measures[:, 1].mean():.4g} +- "
    )
    names = ("Micro F1", "Macro F1", "Precision at 1", "Precision at 3", "Precision at 5")
    for line, name, values in zip(text[3:8], names, fold_measures.T[2:], strict=True):
        assert line.startswith(
            f"Cross Validation {name} = {values.mean():.4g} +- {values.std(ddof=1):.3g} ("
        )
    assert text[8] == "rounds hamming_loss deviation cross_entropy deviation" and len(text) == 29
    last = [float(word) for word in text[-1].split()]
    np.testing.assert_allclose(last[1::2], fold_measures.mean(axis=0)[:2], rtol=1e-5)
    completed = call("train", *TRAIN, "-v", 201, folder / "train.svm", cwd=folder)
    assert completed.returncode and "there are only 200 rows" in completed.stderr


def test_a_search(lists, tmp_path):
    folder, X, Y = lists
    options = ["-a", "vector-tree", "--loss", "logistic", "-v", 3, "-p", 1, "-q"]
    more = ["-n", "3,20", "--best-by", "log_loss"]
    completed = call(
        "tune",
        *options,
        *more,
        "--results",
        tmp_path / "r.csv",
        folder / "train.svm",
        tmp_path / "m.mcb",
    )
    assert completed.returncode == 0, completed.stderr
    best, other = (line.split() for line in completed.stdout.splitlines()[1:3])
    for line, n in ((best, 20), (other, 3)):
        fold_measures = folds(X[:200], Y[:200], 3, n_estimators=n)[1].mean(axis=0)
        np.testing.assert_allclose(
            [float(word) for word in line[0:8:2]], fold_measures[:4], rtol=1e-3
        )
    assert completed.stdout.splitlines()[-1] == "Best: --n-estimators 20"
    assert (
        call(
            "train", *options[:4], "-q", "-n", 20, folder / "train.svm", tmp_path / "same.mcb"
        ).returncode
        == 0
    )
    assert (tmp_path / "m.mcb").read_bytes() == (tmp_path / "same.mcb").read_bytes()


@pytest.mark.parametrize("by", ["hamming_loss", "f1_micro", "f1_macro"])
def test_a_search_by_metrics_of_labels(lists, tmp_path, by):
    folder, X, Y = lists
    options = [
        "-a",
        "vector-tree",
        "--loss",
        "logistic",
        "-v",
        3,
        "-p",
        1,
        "-q",
        "--decision-threshold",
        "0.35,0.6",
    ]
    completed = call(
        "tune", *options, "-n", 10, "--best-by", by, folder / "train.svm", "m.mcb", cwd=tmp_path
    )
    assert completed.returncode == 0, completed.stderr
    head, best, other = (line.split() for line in completed.stdout.splitlines()[:3])
    index = head.index(by)
    assert (
        float(best[index]) < float(other[index])
        if by == "hamming_loss"
        else float(best[index]) > float(other[index])
    )
    params = {"n_estimators": 10, "decision_threshold": float(best[-1])}
    expected = folds(X[:200], Y[:200], 3, **params)[1].mean(axis=0)[:4]
    np.testing.assert_allclose([float(word) for word in best[0:8:2]], expected, rtol=1e-3)


def test_metrics_of_labels_are_for_lists(tmp_path):
    (tmp_path / "one.svm").write_text("1 1:1\n2 1:2\n" * 4)
    files = tmp_path / "one.svm", tmp_path / "m.mcb"
    completed = call("tune", "-a", "vector-tree", "-n", "2,3", "--best-by", "f1_micro", *files)
    assert (
        completed.returncode
        and "f1_micro does not work with single-label rows; use one of error, log_loss"
        in completed.stderr
    )


def test_a_search_of_other_algorithms(lists, tmp_path):
    folder = lists[0]
    outputs = ["--results", tmp_path / "r.csv", folder / "train.svm", tmp_path / "m.mcb"]
    options = ["-v", 3, "-p", 1, "-q", "-n", "2,4", *outputs]
    completed = call("tune", "-a", "adaboost-mh", "--multilabel", *options)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.splitlines()[-1].startswith("Best: --n-estimators ")
    completed = call("tune", "-a", "samme", "--multilabel", *options)
    assert completed.returncode and "--multilabel works with -a adaboost-mh" in completed.stderr
    completed = call("tune", "-a", "vector-tree", "--loss", "softmax,logistic", *options)
    assert completed.returncode and "search them separately" in completed.stderr
    completed = call("tune", "-a", "vector-tree", *options)
    assert completed.returncode and "lists several labels" in completed.stderr


def test_measures_are_the_metrics_of_the_history():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(40, 7))
    has = (rng.random((40, 7)) < 0.3).astype(np.uint8)
    has[:, 2] = 0
    has[5] = 0
    measured = measures(scores, np.zeros(7), has)
    held = ValidationSet("", None, None, codes=has, weight=None)
    assert set(measured) == set(METRICS) - {"error"}
    for name, value in measured.items():
        assert value == pytest.approx(METRICS[name](scores, held, None), rel=1e-12), name


def test_rows_whose_labels_change_are_counted(lists, tmp_path):
    folder = lists[0]
    train = ["train", "-q", "-n", 30, "-a", "vector-tree", "--loss", "logistic"]
    assert call(*train, folder / "train.svm", "m.mcb", cwd=tmp_path).returncode == 0
    how = ["--leaves", "int8", "--layout", "packed", "--rows", folder / "train.svm"]
    told = call("convert", *how, "m.mcb", "small.mcb", cwd=tmp_path).stderr
    for name in ("m", "small"):
        assert (
            call(
                "predict", "-q", folder / "train.svm", f"{name}.mcb", f"{name}.txt", cwd=tmp_path
            ).returncode
            == 0
        )
    now, before = ((tmp_path / f"{m}.txt").read_text().splitlines() for m in ("small", "m"))
    changed = sum(a != b for a, b in zip(now, before, strict=True))
    assert (
        f"of {len(now)} rows, {changed} " in told
        and "get other labels than with the original leaves" in told
    )
