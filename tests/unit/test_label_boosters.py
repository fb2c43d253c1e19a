"""Rows with any number of labels in AdaBoost.MH, and y as lists of labels."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.multioutput import MultiOutputClassifier
from sklearn.utils.estimator_checks import check_classifier_multioutput

from pymcboost import (
    AdaBoostMHClassifier,
    AdaBoostMOClassifier,
    Checkpoint,
    HingeBoostOCClassifier,
    PIBoostClassifier,
    SAMMEClassifier,
    VectorTreeBoostClassifier,
    load_model,
    load_svmlight,
)
from pymcboost.training.metrics import LABEL_METRICS

NAMES = np.array(["cat", "dog", "emu", "fox", "gnu"])


def data(m=200, K=5, d=6, seed=0):
    X, Y = make_multilabel_classification(m, d, n_classes=K, random_state=seed)
    return X.astype(np.float32), Y


def lists_of(Y, names=NAMES):
    return [tuple(names[row > 0].tolist()) for row in Y]


def splits_of(X):
    """Feature, threshold and rows on the right of every split."""
    for f in range(X.shape[1]):
        values = np.unique(X[:, f])
        for c in (values[1:] + values[:-1]) / 2:
            yield X[:, f] > c


def twin_mh(X, Y, weight, rounds):
    z = 2.0 * Y - 1
    F = np.zeros(Y.shape)
    for _ in range(rounds):
        D = weight[:, None] * np.exp(-z * F)
        D = D / D.sum()
        best = (0, None, None)
        for right in splits_of(X):
            h = np.where(right, 1.0, -1.0)
            edge = (D * z * h[:, None]).sum(axis=0)
            if np.abs(edge).sum() > best[0] * (1 + 1e-10):
                best = np.abs(edge).sum(), h, edge
        gamma, h, edge = best
        F += 0.5 * np.log((1 + gamma) / (1 - gamma)) * np.sign(edge) * h[:, None]
    return 2 * F


@pytest.mark.parametrize("weighted", [False, True])
def test_is_its_twin(weighted):
    X, Y = data(90)
    weight = np.random.default_rng(0).integers(1, 5, len(X)) / 2.0 if weighted else np.ones(len(X))
    model = AdaBoostMHClassifier(n_estimators=4).fit(
        X, Y, sample_weight=weight if weighted else None
    )
    expected = twin_mh(X, Y, weight, rounds=4)
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), 1 / (1 + np.exp(-expected)), atol=1e-6)
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X) > 0)


def test_one_label_a_row_is_learnt_as_well():
    """One column for each class and one label a row: the stumps are those of the classes."""
    X, y = load_digits(return_X_y=True)
    X, y, Y = X[:600], y[:600], np.eye(10, dtype=int)[y[:600]]
    several = AdaBoostMHClassifier(n_estimators=20).fit(X, Y)
    model = AdaBoostMHClassifier(n_estimators=20).fit(X, y)
    np.testing.assert_array_equal(several.decision_function(X), 2 * model.decision_function(X))
    assert (several.decision_function(X).argmax(axis=1) == y).mean() > 0.8


@pytest.mark.parametrize("learner", [{}, {"weak_learner": "tree", "max_leaf_nodes": 4}])
def test_whatever_else_a_training_does(learner, tmp_path):
    X, Y = data()

    def make(n=8, **options):
        return AdaBoostMHClassifier(n_estimators=n, random_state=0, **learner, **options)

    uninterrupted = make().fit(X, Y)
    for form in (scipy.sparse.csr_matrix(Y), Y.tolist(), list(Y), Y.astype(bool)):
        assert make(n_jobs=2).fit(X, form).model_.to_bytes() == uninterrupted.model_.to_bytes()
    warm = make(3, warm_start=True).fit(X, Y).set_params(n_estimators=8).fit(X, Y)
    np.testing.assert_allclose(
        warm.decision_function(X), uninterrupted.decision_function(X), rtol=1e-6, atol=1e-7
    )
    options = make(5).fit(X, Y, init_model=make(3).fit(X, Y))
    np.testing.assert_allclose(
        options.decision_function(X), uninterrupted.decision_function(X), rtol=1e-6, atol=1e-7
    )
    for wrong in (np.arange(len(X)) % 5, Y):
        other = make(3, warm_start=True).fit(X, Y if wrong.ndim == 1 else np.arange(len(X)) % 5)
        with pytest.raises(
            ValueError, match="warm_start: the existing model is for|decision_threshold"
        ):
            other.set_params(n_estimators=5).fit(X, wrong)
    uninterrupted.save(tmp_path / "m.mcb")
    file = load_model(tmp_path / "m.mcb")
    assert file.link == "sigmoid"
    np.testing.assert_array_equal(file.predict(X), uninterrupted.predict(X))
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(uninterrupted)).predict_proba(X), file.predict_proba(X)
    )
    Checkpoint(tmp_path / "c").fit(make(), X, Y)
    for scoring in (
        "log_loss",
        "hamming_loss",
        "f1_micro",
        "f1_macro",
        "precision_at_3",
        "auc_ovr",
    ):
        model = make(scoring=scoring).fit(X[:150], Y[:150], X_val=X[150:], y_val=Y[150:])
        assert len(model.history_[f"val_{scoring}"]) == 8 and scoring in LABEL_METRICS
    best = make(decision_threshold="f1").fit(X, Y)
    assert best.model_.thresholds.any() and not make().fit(X, Y).model_.thresholds.any()
    assert make("auto", cv=2).fit(X, Y).n_estimators_ > 0
    assert make(20, early_stopping=True).fit(X, Y).n_estimators_ <= 20


def test_scikit_learns_checks():
    check_classifier_multioutput("AdaBoostMHClassifier", AdaBoostMHClassifier(n_estimators=3))


def test_labels_that_no_row_or_every_row_has():
    X, Y = data()
    Y[:, 1] = 0
    Y[:, 2] = 1
    Y[:20] = 0
    Y[:, 2] = 1
    model = AdaBoostMHClassifier(n_estimators=10).fit(X, Y)
    P = model.predict_proba(X)
    assert (
        (P[:, 1] < 0.3).all()
        and (P[:, 2] > 0.7).all()
        and np.isfinite(model.decision_function(X)).all()
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there may be nothing to learn
        nothing = AdaBoostMHClassifier(n_estimators=3).fit(X, np.zeros_like(Y))
    assert not nothing.predict(X).any()


def test_groups_are_for_the_folds_of_thresholds():
    X, Y = data()
    groups = np.arange(len(X)) // 2
    params = {"n_estimators": 2, "random_state": 0}
    models = [
        AdaBoostMHClassifier(decision_threshold="f1", **params).fit(X, Y, groups=of).model_
        for of in (groups, None)
    ]
    assert len(models[0].thresholds) == Y.shape[1]
    assert (models[0].thresholds != models[1].thresholds).any()
    with pytest.raises(ValueError, match="groups are used only"):
        AdaBoostMHClassifier(**params).fit(X, Y, groups=groups)


def test_what_is_for_one_label():
    X, Y = data()
    for params, match in (
        ({"class_weight": "balanced"}, "class_weight needs one class per row"),
        ({"restore_priors": True}, "restore_priors needs one class per row"),
        (
            {"calibrate": "temperature"},
            "there is no temperature for multi-label rows; set calibrate=None",
        ),
    ):
        with pytest.raises(ValueError, match=match):
            AdaBoostMHClassifier(n_estimators=2, **params).fit(X, Y)
    with pytest.raises(ValueError, match="needs one class per row"):
        AdaBoostMHClassifier(n_estimators=2).fit(X, Y).calibrate_on(X, Y)
    with pytest.raises(ValueError, match="decision_threshold applies only to multi-label rows"):
        AdaBoostMHClassifier(n_estimators=2, decision_threshold=0.3).fit(X, Y[:, 0])


@pytest.mark.parametrize(
    "model", [VectorTreeBoostClassifier(), SAMMEClassifier(), HingeBoostOCClassifier()]
)
def test_estimators_of_one_class_a_row_name_the_others(model):
    X, Y = data()
    others = "VectorTreeBoostClassifier.loss=.logistic.. or AdaBoostMH"
    for y, what in ((Y, r"the shape \(200, 5\)"), (lists_of(Y), "lists of labels")):
        with pytest.raises(ValueError, match=f"y has {what}; .* {others}"):
            model.fit(X, y)


def test_a_linear_hingeboost_for_each_label():
    """As the guide says, a machine for each label, through scikit-learn."""
    X, Y = data(300)
    model = MultiOutputClassifier(
        HingeBoostOCClassifier(n_estimators=3, kernel="linear", random_state=0)
    ).fit(X, Y)
    assert (model.predict(X) == Y).mean() > 0.7


@pytest.mark.parametrize(
    "model", [VectorTreeBoostClassifier(loss="logistic", random_state=0), AdaBoostMHClassifier()]
)
def test_lists_of_labels(model):
    X, Y = data()
    model.set_params(n_estimators=3)
    expected = model.fit(X, Y).decision_function(X)
    as_objects = np.empty(len(X), dtype=object)
    as_objects[:] = lists_of(Y)
    for given in (
        lists_of(Y),
        as_objects,
        [set(one) for one in lists_of(Y)],
        [list(one) for one in lists_of(Y)],
    ):
        fitted = model.fit(X, given)
        np.testing.assert_array_equal(fitted.decision_function(X), expected)
        assert fitted.classes_.tolist() == NAMES.tolist() == fitted.model_.classes_.tolist()
        assert fitted.score(X, given) == fitted.score(X, Y)
    assert fitted.predict_top(X, 2)[0].dtype.kind == "U"
    numbers = [tuple(np.flatnonzero(row) * 10) for row in Y]
    assert model.fit(X, numbers).classes_.tolist() == [0, 10, 20, 30, 40]
    model.fit(X[:150], lists_of(Y[:150]), X_val=X[150:], y_val=lists_of(Y[150:]))
    assert len(model.history_["val_log_loss"]) == 3


def test_lists_of_a_file(tmp_path):
    (tmp_path / "rows.svm").write_text("3,17 1:1\n17 1:2\n 1:3\n201,3 1:4\n" * 10)
    read = load_svmlight(tmp_path / "rows.svm", multilabel=True)
    model = AdaBoostMHClassifier(n_estimators=5).fit(read.X, read.y)
    assert model.classes_.tolist() == [3, 17, 201] and model.score(read.X, read.y) > 0.5


WRONG = [
    (lambda y: [*y[:-1], ("cat", "cat")], r"y\[199\] lists the label 'cat' twice; list it once"),
    (lambda y: y[:-1], "X has 200 rows, but y has 199 lists of labels"),
    (lambda y: [("cat",)] * 200, "the lists of labels in y contain fewer than 2"),
    (lambda y: [*y[:-1], (3,)], "y has labels of the types int, str"),
    (lambda y: [(0.5,), (1.5,)] * 100, "y has the label 0.5; labels must be text or whole numbers"),
]


@pytest.mark.parametrize(("change", "match"), WRONG)
def test_wrong_lists(change, match):
    X, Y = data()
    with pytest.raises(ValueError, match=match):
        AdaBoostMHClassifier(n_estimators=2).fit(X, change(lists_of(Y)))


def test_lists_of_other_rows():
    X, Y = data()
    y = lists_of(Y)
    model = AdaBoostMHClassifier(n_estimators=2)
    with pytest.raises(ValueError, match=r"validation set 'val': y\[0\] has the label 'yak'"):
        model.fit(X, y, X_val=X, y_val=[("yak",), *y[1:]])
    with pytest.raises(ValueError, match="the training labels look like 'cat'"):
        model.fit(X, y, X_val=X, y_val=[(3,)] * len(X))


@pytest.mark.parametrize("subsample", [1.0, 0.7])
def test_labels_of_all_rows_and_of_none_are_learnt_by_trees(subsample):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)).astype("f4")
    Y = np.c_[X[:, 0] > 0, np.zeros(200), np.ones(200), X[:, 1] > 0.5].astype(int)
    trees = {
        "n_estimators": 20,
        "weak_learner": "tree",
        "max_depth": 2,
        "random_state": 0,
        "subsample": subsample,
    }
    model = AdaBoostMHClassifier(**trees, calibrate=None).fit(X, Y)
    assert model.predict(X)[:, 1:3].tolist() == [[0, 1]] * 200
    p = model.predict_proba(X)
    assert p[:, 1].max() < 0.1 and p[:, 2].min() > 0.9


@pytest.mark.parametrize("cls", [AdaBoostMHClassifier, PIBoostClassifier, AdaBoostMOClassifier])
def test_a_class_without_weight_is_never_predicted(cls):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 900)
    X = rng.normal(size=(900, 3)) + y[:, None] * [1, 0.5, -0.3]
    weight = np.where(np.arange(300) < 20, 0.0, 1.0)
    given = np.where(weight > 0, y[:300], 3)
    trees = {"n_estimators": 30, "weak_learner": "tree", "calibrate": None, "random_state": 0}
    trees |= {"code": "one-vs-all"} if cls is AdaBoostMOClassifier else {}
    model = cls(**trees).fit(X[:300], given, sample_weight=weight)
    assert not (model.predict(X[300:]) == 3).any()
