"""What every registered algorithm must do: the habits of this library."""

import ast
import gc
import inspect
import io
import os
import pickle
import re
import signal
import subprocess
import sys
import weakref
from functools import cache

import numpy as np
import pytest
import scipy.sparse
from contract.variants import ALGORITHMS, all_rows
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pymcboost import load_model
from pymcboost.registry import ALGORITHMS as REGISTRY
from pymcboost.registry import get_class
from pymcboost.training.parameters import parameters
from pymcboost.training.validation import held_out

# Those that sum weak learners; linear and kernel machines have no weights, missing values or probabilities.
ENSEMBLES = [name for name, cls in ALGORITHMS.items() if cls.booster.resumable]
of_ensembles = pytest.mark.parametrize("algorithm", ENSEMBLES, indirect=True)


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
    return ALGORITHMS[request.param]


def some_data(K=4, m=200, d=5, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, m)
    return rng.normal(size=(m, d)) + y[:, None] * rng.normal(size=d), y


def test_every_parameter_has_a_row_and_a_docstring_entry(algorithm):
    for name in algorithm().get_params():
        assert name in parameters(algorithm)
        assert f"\n{name} : " in algorithm.__doc__


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_docstring_names_the_defaults_of_the_signature(name):
    cls = get_class(name)
    entries = re.findall(r"^([\w, ]+) : .*, default=(.+)$", parameters_section(cls), re.MULTILINE)
    named = {
        each: ast.literal_eval(value) for names, value in entries for each in names.split(", ")
    }
    assert named == {p.name: p.default for p in inspect.signature(cls).parameters.values()}


def parameters_section(cls):
    return re.search(
        r"^Parameters\n-+\n(.*?)\n\n\w+\n-+\n", inspect.getdoc(cls), re.MULTILINE | re.DOTALL
    )[1]


def test_parameters_out_of_range_are_refused_by_name(algorithm):
    X, y = some_data()
    for name in algorithm().get_params():
        row = parameters(algorithm)[name]
        bad = [] if row.none else [None]
        if row.low is not None:
            bad.append(row.low if row.open_low else row.low - 1)
        if row.high is not None:
            bad.append(row.high + 1)
        if row.choices:
            bad.append("nonsense")
        if row.kind in (int, float):
            bad += [float("nan"), float("inf"), "7"]
        for value in bad:
            with pytest.raises(ValueError, match=f"{name}=.* is not allowed; it must be"):
                algorithm(**{name: value}).fit(X, y)


@pytest.mark.families
def test_same_bytes_for_any_number_of_threads(algorithm, monkeypatch):
    monkeypatch.setattr("pymcboost.threads.SMALL_WORK", 0)
    X, y = some_data(K=12, m=600, d=12)
    models = [algorithm(n_estimators=4, n_jobs=n).fit(X, y).model_.to_bytes() for n in (1, 2, 8)]
    assert models[0] == models[1] == models[2]


@pytest.mark.part(2)
@pytest.mark.families
def test_same_bytes_for_every_form_of_X(algorithm):
    X, y = some_data(K=3)
    X = X.astype(np.float32).astype(np.float64)
    forms = [X, X.astype(np.float32), np.asfortranarray(X), X[::-1][::-1], X.tolist()]
    assert len({algorithm(n_estimators=4).fit(form, y).model_.to_bytes() for form in forms}) == 1


@pytest.mark.families
def test_sparse_and_dense_agree(algorithm):
    X, y = some_data(K=4, m=300, d=20)
    X[np.random.default_rng(0).random(X.shape) < 0.7] = 0
    dense = algorithm(n_estimators=6).fit(X, y)
    if "kernel" in dense.get_params() and dense.kernel != "linear":
        with pytest.raises(ValueError, match="kernel='rbf' needs dense X"):
            algorithm(n_estimators=6).fit(scipy.sparse.csr_matrix(X), y)
        return
    sparse = algorithm(n_estimators=6).fit(scipy.sparse.csr_matrix(X), y)
    close = {"atol": 1e-2} if not algorithm.booster.resumable else {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), **close)
    np.testing.assert_array_equal(
        sparse.decision_function(scipy.sparse.csr_array(X)), sparse.decision_function(X)
    )


@pytest.mark.families
def test_small_sparse_and_dense_data_give_the_same_bytes(algorithm):
    """But for what docs/limits.md names."""
    known = algorithm().get_params()
    if "kernel" in known:
        return
    X, y = some_data(K=4, m=300, d=8)
    X = X.astype(np.float32)
    X[np.random.default_rng(1).random(X.shape) < 0.5] = 0
    weight = np.random.default_rng(2).integers(0, 3, 300)  # rows without weight are no rows
    for share in ({}, {"subsample": 0.5}) if "subsample" in known else ({},):
        model = algorithm(n_estimators=6, **share)
        for w in (None, weight) if share else (None,):
            dense, sparse = (
                model.fit(Z, y, sample_weight=w).model_ for Z in (X, scipy.sparse.csr_array(X))
            )
            assert dense.to_bytes() == sparse.to_bytes()


@pytest.mark.parametrize(
    "labels", [np.array([3, 7, 11]), np.array(["ape", "bee", "cat"]), np.array([-1.0, 0.0, 2.0])]
)
@pytest.mark.part(3)
@pytest.mark.families
def test_labels(algorithm, labels, tmp_path):
    X, y = some_data(K=3)
    model = algorithm(n_estimators=20).fit(X, labels[y])
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.predict(X).dtype == labels.dtype
    assert (model.predict(X) == labels[y]).mean() > 0.5
    model.save(tmp_path / "m.mcb")
    loaded = load_model(tmp_path / "m.mcb")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


@pytest.mark.families
def test_two_classes(algorithm):
    X, y = some_data(K=2)
    model = algorithm(n_estimators=10).fit(X, y)
    scores = model.decision_function(X)
    raw = model.model_.raw_scores(X)
    np.testing.assert_array_equal(scores, raw[:, 1] - raw[:, 0])
    np.testing.assert_array_equal(model.predict(X), (scores > 0).astype(int))


@of_ensembles
@pytest.mark.families
def test_probabilities(algorithm):
    X, y = some_data()
    p = algorithm(n_estimators=10).fit(X, y).predict_proba(X)
    assert p.shape == (len(y), 4)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)


@pytest.mark.families
def test_stages(algorithm):
    X, y = some_data()
    model = algorithm(n_estimators=12).fit(X, y)
    if not model.model_.has_stages:
        merged = not algorithm.booster.resumable
        why = "merges all rounds" if merged else "coefficients of all weak learners"
        for refused in (
            model.staged_decision_function,
            model.staged_predict,
            model.model_.staged_decision_function,
        ):
            with pytest.raises(ValueError, match=why):
                refused(X)
        with pytest.raises(
            ValueError, match="merges all rounds" if merged else "first rounds are not"
        ):
            model.model_.truncate(1)
        return
    stages = list(model.staged_decision_function(X))
    np.testing.assert_array_equal(stages[-1], model.decision_function(X))
    labels = list(model.staged_predict(X))
    assert len(labels) == len(stages)
    np.testing.assert_array_equal(labels[-1], model.predict(X))


@of_ensembles
@pytest.mark.families
def test_weights_equal_repeats_and_zero_weights_vanish(algorithm):
    rng = np.random.default_rng(1)
    X, y = some_data(m=150)
    weight = rng.integers(0, 4, len(y))
    params = {"n_estimators": 12, **all_rows(algorithm)}
    if (
        algorithm.algorithm == "vector-tree"
    ):  # splits of single rows tie, and rounding decides among them
        params["min_samples_leaf"] = 2
    weighted = algorithm(**params).fit(X, y, sample_weight=weight)
    repeated = algorithm(**params).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    if getattr(weighted, "loss", None) == "log" and algorithm.algorithm == "multiboost":
        # L-BFGS-B ends anywhere within its tolerance, which differences in the last bits lead to.
        np.testing.assert_allclose(
            weighted.history_["objective"], repeated.history_["objective"], rtol=1e-3
        )
        assert (weighted.predict(X) == repeated.predict(X)).mean() > 0.99
        return
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), rtol=1e-6
    )


@of_ensembles
@pytest.mark.families
def test_missing_values(algorithm):
    X, y = some_data(m=400)
    X[np.random.default_rng(2).random(X.shape) < 0.3] = np.nan
    model = algorithm(n_estimators=20).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.5
    only = np.where((np.arange(len(y)) % 2 == 0)[:, None], np.nan, 1.0)
    told = algorithm(n_estimators=5).fit(only, np.arange(len(y)) % 2)
    assert (told.predict(only) == np.arange(len(y)) % 2).all()


@of_ensembles
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.part(2)
@pytest.mark.families
def test_the_order_of_the_rows_does_not_matter(algorithm, weighted):
    """Sums that choose a split, a coefficient or a leaf are sums of integers; JointBoost's are rounded in order."""
    rng = np.random.default_rng(3)
    X, y = some_data(m=400)
    X[rng.random(X.shape) < 0.1] = np.nan
    weight, order = (
        rng.integers(1, 6, len(y)).astype(float) if weighted else np.ones(len(y)),
        rng.permutation(len(y)),
    )
    params = {"n_estimators": 8, **all_rows(algorithm)}
    one = algorithm(**params).fit(X, y, sample_weight=weight).model_
    other = algorithm(**params).fit(X[order], y[order], sample_weight=weight[order]).model_
    if algorithm.algorithm == "jointboost":
        np.testing.assert_array_equal(one.ensemble.feature, other.ensemble.feature)
        np.testing.assert_array_equal(one.ensemble.threshold, other.ensemble.threshold)
        np.testing.assert_allclose(one.raw_scores(X), other.raw_scores(X), rtol=1e-12, atol=1e-12)
    else:
        assert one.to_bytes() == other.to_bytes()


@pytest.mark.part(4)
@pytest.mark.families
def test_infinite_values_are_refused(algorithm):
    X, y = some_data()
    X[3, 1] = 1e39
    with pytest.raises(ValueError, match=r"X\[3, 1\] is infinite or beyond the float32 range"):
        algorithm(n_estimators=2).fit(X, y)


@pytest.mark.families
def test_warm_start(algorithm):
    X, y = some_data()
    model = algorithm(n_estimators=4, warm_start=True).fit(X, y)
    first = None if not algorithm.booster.resumable else model.model_.ensemble.threshold.copy()
    model.set_params(n_estimators=9).fit(X, y)
    assert model.n_estimators_ == 9
    if model.model_.has_stages:
        np.testing.assert_array_equal(model.model_.ensemble.threshold[: len(first)], first)
    uninterrupted = algorithm(n_estimators=9).fit(X, y)
    if not algorithm.booster.resumable:
        # SVMs are solved to a tolerance, and other bits may lead to other columns of nearly the same merit.
        np.testing.assert_allclose(
            model.history_["hinge"], uninterrupted.history_["hinge"], rtol=1e-2
        )
    else:
        np.testing.assert_allclose(
            model.decision_function(X), uninterrupted.decision_function(X), rtol=1e-4, atol=1e-5
        )
    with pytest.raises(ValueError, match="less than the 9 rounds"):
        model.set_params(n_estimators=5).fit(X, y)
    with pytest.raises(ValueError, match="same classes"):
        model.set_params(n_estimators=12).fit(X, y % 2)


@pytest.mark.parametrize("name", ["multiboost", "multiboost-cw"])
def test_warm_start_does_not_mix_solvers(name):
    X, y = some_data()
    for before, after in (
        ({"max_passes": 1}, {"max_passes": 3}),
        ({"max_passes": 3}, {"max_passes": 1}),
    ):
        model = get_class(name)(n_estimators=5, warm_start=True, **before).fit(X, y)
        with pytest.raises(ValueError, match="use its solver and max_passes"):
            model.set_params(n_estimators=8, **after).fit(X, y)
        assert model.n_estimators_ == 5


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mcboost", {}),
        ("multiboost", {"max_passes": 1}),
        ("multiboost", {"max_passes": 2}),
        ("multiboost-cw", {}),
    ],
)
def test_warm_start_does_not_mix_weak_learners(name, options):
    X, y = some_data()
    for before, after in (("stump", "tree"), ("tree", "stump")):
        model = get_class(name)(
            n_estimators=5, warm_start=True, weak_learner=before, **options
        ).fit(X, y)
        with pytest.raises(ValueError, match="the existing model has weak_learner="):
            model.set_params(n_estimators=8, weak_learner=after).fit(X, y)


@pytest.mark.parametrize("name", ["mcboost", "multiboost"])
def test_warm_start_does_not_mix_losses(name):
    X, y = some_data()
    model = get_class(name)(n_estimators=5, warm_start=True, loss="exp").fit(X, y)
    with pytest.raises(ValueError, match="the existing model has loss='exp', but now it is 'log'"):
        model.set_params(n_estimators=8, loss="log").fit(X, y)


@pytest.mark.part(2)
@pytest.mark.families
def test_early_stopping(algorithm):
    X, y = some_data(m=400, seed=3)
    X_val, y_val = some_data(m=300, seed=4)
    by_error = {"early_stopping": True, "scoring": "error", "n_iter_no_change": 10}
    model = algorithm(n_estimators=400, random_state=0, **by_error).fit(X, y)
    assert model.n_estimators_ < 400
    assert len(model.history_["val_error"]) == model.n_estimators_
    assert {*model.history_} <= {
        "val_error",
        *algorithm.booster.columns,
    }  # what the docstring names
    model = algorithm(n_estimators=12, **by_error).fit(X, y, X_val=X_val, y_val=y_val)
    if model.model_.has_stages:
        errors = [np.mean(labels != y_val) for labels in model.staged_predict(X_val)]
    else:  # shorter trainings are what earlier rounds were
        shorter = [algorithm(n_estimators=t + 1).fit(X, y) for t in range(model.n_estimators_)]
        errors = [np.mean(one.predict(X_val) != y_val) for one in shorter]
        np.testing.assert_array_equal(shorter[-1].decision_function(X), model.decision_function(X))
    np.testing.assert_allclose(model.history_["val_error"], errors)
    assert int(np.argmin(errors)) == len(errors) - 1
    with pytest.raises(ValueError, match="give both"):
        model.fit(X, y, X_val=X_val)


@pytest.mark.part(2)
@pytest.mark.families
def test_metrics_of_weighted_and_named_validation_sets(algorithm):
    X, y = some_data(m=500, seed=3)
    X_val, y_val = some_data(m=300, seed=4)
    rng = np.random.default_rng(0)
    w = rng.integers(0, 4, 300).astype(float)
    weights = {"class_weight": {label: 1.0 + i for i, label in enumerate(np.unique(y))}}
    weights = weights if "class_weight" in algorithm().get_params() else {}
    factor = np.array([weights["class_weight"][label] for label in y_val]) if weights else 1.0
    link = algorithm.booster.link != "none"
    name = "log_loss" if link else "error"
    assert algorithm().scoring == name
    model = algorithm(
        n_estimators=30, early_stopping=True, n_iter_no_change=4, **weights, **all_rows(algorithm)
    )
    few = np.flatnonzero(y_val != y_val[0])[:40]
    sets = {"few": (X_val[few], y_val[few]), "again": (X_val, y_val, w)}
    model.fit(X, y, X_val=X_val, y_val=y_val, sample_weight_val=w, validation_sets=sets)
    curve = model.history_[f"val_{name}"]
    assert len(curve) == model.n_estimators_ == 1 + int(np.argmin(curve))
    np.testing.assert_array_equal(model.history_[f"again_{name}"], curve)

    def measured(X, y, w):
        if not link:
            return np.average(model.predict(X) != y, weights=w)
        return log_loss(y, model.predict_proba(X), sample_weight=w, labels=model.classes_)

    assert curve[-1] == pytest.approx(measured(X_val, y_val, w * factor), rel=1e-9)
    few_weight = np.broadcast_to(factor, 300)[few]
    assert model.history_[f"few_{name}"][-1] == pytest.approx(
        measured(X_val[few], y_val[few], few_weight), rel=1e-9
    )
    # Sets change nothing but the history.
    plain = algorithm(n_estimators=model.n_estimators_, **weights, **all_rows(algorithm)).fit(X, y)
    np.testing.assert_array_equal(plain.decision_function(X), model.decision_function(X))


@pytest.mark.part(2)
@pytest.mark.families
def test_rows_split_off_carry_their_weights(algorithm):
    X, y = some_data(m=400, seed=3)
    weight = np.random.default_rng(0).integers(1, 4, 400).astype(float)
    seen = []

    def look(estimator, X, y, sample_weight=None):
        seen.append((X, y, sample_weight))
        return 0.0

    weighted = "sample_weight" in inspect.signature(algorithm.fit).parameters
    model = algorithm(n_estimators=2, early_stopping=True, scoring=look, random_state=0)
    model.fit(X, y, **({"sample_weight": weight} if weighted else {}))
    X_held, y_held, w_held = seen[0]
    place = {row.tobytes(): i for i, row in enumerate(X)}
    rows = [place[row.tobytes()] for row in X_held]
    assert len(rows) == 40
    np.testing.assert_array_equal(y[rows], y_held)
    if weighted:
        np.testing.assert_allclose(weight[rows] / weight[rows].max(), w_held)
    else:
        assert w_held is None


@pytest.mark.part(2)
@pytest.mark.families
def test_rounds_by_cross_validation(algorithm, monkeypatch):
    X, y = some_data(m=150)
    weights = {"class_weight": "balanced"} if "class_weight" in algorithm().get_params() else {}
    weights |= {"random_state": 0, "cv": 3}
    model = algorithm(n_estimators="auto", n_iter_no_change=3, n_jobs=1, **weights).fit(X, y)
    cv_results = model.cv_results_
    best, tried, asked = (
        cv_results["best_round"],
        cv_results["rounds"][-1],
        cv_results["n_estimators"],
    )
    assert cv_results["folds"].shape == (3, len(cv_results["rounds"]))
    np.testing.assert_allclose(cv_results["mean"], cv_results["folds"].mean(axis=0))
    assert (
        best
        == cv_results["rounds"][np.argmin(cv_results["mean"])]
        <= tried
        <= max(best + 3, 1.5 * best) * 17 / 16 + 1
    )
    assert model.n_estimators_ <= asked == round(best * 1.5**0.5)
    # The model is that of a training with this number of rounds.
    fixed = algorithm(n_estimators=asked, n_jobs=1, **weights).fit(X, y)
    assert fixed.n_estimators_ == model.n_estimators_
    np.testing.assert_array_equal(fixed.decision_function(X), model.decision_function(X))
    assert model.model_.meta["params"]["n_estimators"] == "auto"
    assert not hasattr(fixed, "cv_results_")
    restored = pickle.loads(pickle.dumps(model))
    assert restored.cv_results_["best_round"] == best
    assert clone(model).get_params() == model.get_params()
    # Threads change nothing.
    for module in [
        m
        for name, m in sys.modules.items()
        if name.startswith("pymcboost") and hasattr(m, "SMALL_WORK")
    ]:
        monkeypatch.setattr(module, "SMALL_WORK", 0)
    parallel = clone(model).set_params(n_jobs=3).fit(X, y)
    assert parallel.model_.to_bytes() == model.model_.to_bytes()
    np.testing.assert_array_equal(parallel.cv_results_["folds"], cv_results["folds"])
    model.set_params(n_estimators=2).fit(X, y)
    assert not hasattr(model, "cv_results_")


@pytest.mark.parametrize(
    ("params", "given", "message"),
    [
        (
            {"early_stopping": True},
            {},
            'n_estimators="auto" finds the number of rounds itself; set early_stopping=False',
        ),
        (
            {"warm_start": True},
            {},
            'n_estimators="auto" finds the number of rounds itself; set warm_start=False',
        ),
        (
            {"n_estimators": 5, "calibrate": None},
            {"groups": np.arange(200)},
            'groups are used only with n_estimators="auto"',
        ),
        ({}, {"groups": np.arange(199)}, "for each of 200 rows, but has shape (199,)"),
        ({}, {"groups": np.ones((200, 2))}, "for each of 200 rows, but has shape (200, 2)"),
        (
            {"n_estimators": "best"},
            {},
            "n_estimators='best' is not allowed; it must be an integer >= 1 or 'auto'",
        ),
        (
            {"n_estimators": 0},
            {},
            "n_estimators=0 is not allowed; it must be an integer >= 1 or 'auto'",
        ),
        ({"cv": 1}, {}, "cv=1 is not allowed; it must be an integer >= 2"),
        ({"cv": "5"}, {}, "cv='5' is not allowed"),
        ({"cv": 2.5}, {}, "cv=2.5 is not allowed"),
        ({"cv": None}, {}, "cv=None is not allowed"),
    ],
    ids=str,
)
def test_what_does_not_go_with_cross_validation_is_refused(params, given, message):
    X, y = some_data()
    for name in "mart", "hingeboost":
        with pytest.raises(ValueError, match=re.escape(message)):
            get_class(name)(**{"n_estimators": "auto", **params}).fit(X, y, **given)


def test_validation_sets_are_followed_by_the_one_model_of_all_rows():
    X, y = some_data()
    rounds = []

    class Counts:
        def after_round(self, state):
            rounds.append(state.n_rounds)

    model = get_class("mart")(n_estimators="auto", n_iter_no_change=3)
    model.fit(X, y, X_val=X, y_val=y, callbacks=[Counts()], groups=np.arange(200) // 4)
    assert rounds == list(range(1, model.n_estimators_ + 1))
    assert len(model.history_["val_log_loss"]) == model.n_estimators_


BAD_SETS = [
    ({"X_val": 1}, "X_val is given without y_val; give both, or neither"),
    ({"y_val": 1}, "y_val is given without X_val"),
    ({"sample_weight_val": 1}, "sample_weight_val weights the rows of X_val"),
    (
        {"X_val": 1, "y_val": 1, "sample_weight_val": np.zeros(240)},
        "set 'val': all sample weights are zero",
    ),
    (
        {"X_val": 1, "y_val": 1, "sample_weight_val": -np.ones(240)},
        r"validation set 'val': sample_weight\[0\] is -1",
    ),
    (
        {"X_val": 1, "y_val": 1, "sample_weight_val": np.full(240, np.nan)},
        r"validation set 'val': .*\[0\] is nan",
    ),
    (
        {"X_val": 1, "y_val": 1, "sample_weight_val": np.ones(3)},
        r"set 'val': sample_weight has shape \(3,\)",
    ),
    ({"validation_sets": [1]}, "validation_sets must be a dict from names"),
    (
        {"validation_sets": {"val": 2}},
        "'val' is not a valid name; use a string of .* other than 'val'",
    ),
    ({"validation_sets": {3: 2}}, "'3' is not a valid name"),
    *(
        ({"validation_sets": {name: 2}}, "is not a valid name; use")
        for name in ("", "a\0b", "a\ud800", "a\nb", "n" * 201)
    ),
    (
        {"validation_sets": {"more": 1}},
        r"validation_sets\['more'\] must be \(X, y\), \(X, y, sample_weight\) or",
    ),
    ({"validation_sets": {"more": 5}}, r"validation_sets\['more'\] must be"),
    ({"validation_sets": {"more": "narrow"}}, "validation set 'more': X has 2 features, but"),
    ({"validation_sets": {"more": "none"}}, "validation set 'more': Found array with 0 sample"),
    (
        {"validation_sets": {"more": "others"}},
        "none of the labels in y of the validation set 'more' occurs in y",
    ),
    (
        {"validation_sets": {"more": "texts"}},
        r"begins with \['0', '1', '2'\] of type <U\d+, the classes .* of type int64",
    ),
    (
        {"validation_sets": {"more": "huge"}},
        "X of the validation set 'more' contains a value beyond the float32 range",
    ),
]


@pytest.mark.parametrize(("given", "message"), BAD_SETS, ids=[str(i) for i in range(len(BAD_SETS))])
@pytest.mark.parametrize("name", ["vector-tree", "hingeboost"])
def test_bad_validation_sets_are_refused_by_name(name, given, message):
    X, y = some_data(m=240)
    huge = X.copy()
    huge[3, 1] = 1e39
    words = {
        "narrow": (X[:, :2], y),
        "none": (X[:0], y[:0]),
        "others": (X, y + 100),
        "huge": (huge, y),
    }
    words["texts"] = X[:3], np.array(["0", "1", "2"])

    def part(key, value):
        if key == "validation_sets" and isinstance(value, dict):
            pairs = {1: X, 2: (X, y), 5: (X, y, None, None, None), **words}
            return {name: pairs[what] for name, what in value.items()}
        return {"X_val": X, "y_val": y}.get(key, value)

    with pytest.raises(ValueError, match=message):
        get_class(name)(n_estimators=2).fit(
            X, y, **{key: part(key, value) for key, value in given.items()}
        )


@pytest.mark.part(2)
@pytest.mark.families
def test_interrupt_keeps_the_rounds_done(algorithm, monkeypatch):
    X, y = some_data()
    rounds = []
    original = algorithm.booster.round

    def interrupted(self):
        rounds.append(1)
        if len(rounds) == 8:
            raise KeyboardInterrupt
        return original(self)

    monkeypatch.setattr(algorithm.booster, "round", interrupted)
    model = algorithm(n_estimators=50)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.n_estimators_ == 7
    assert model.predict(X).shape == y.shape


@pytest.mark.families
def test_interrupt_inside_a_round_keeps_whole_rounds(algorithm, monkeypatch):
    """What a round has added to the ensemble, the gains and the history goes again when the round is not finished."""
    X, y = some_data()
    original = algorithm.booster.round

    def interrupted(self):
        result = original(self)
        if self.n_rounds == 5:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(algorithm.booster, "round", interrupted)
    model = algorithm(n_estimators=50)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    monkeypatch.undo()
    same = algorithm(n_estimators=5).fit(X, y)
    assert model.n_estimators_ == 5
    if model.model_.has_stages:
        assert model.model_.n_rounds == 5
    np.testing.assert_array_equal(model.gain_, same.gain_)
    assert {name: len(values) for name, values in model.history_.items()} == dict.fromkeys(
        same.history_, 5
    )
    np.testing.assert_array_equal(model.model_.raw_scores(X), same.model_.raw_scores(X))


@pytest.mark.part(2)
@pytest.mark.families
def test_pickle_clone_pipeline_grid(algorithm):
    X, y = load_wine(return_X_y=True)
    model = make_pipeline(StandardScaler(), algorithm(n_estimators=6)).fit(X, y)
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.decision_function(X), model.decision_function(X))
    assert restored[-1].model_.to_bytes() == model[-1].model_.to_bytes()
    assert not hasattr(clone(model[-1]), "model_")
    search = GridSearchCV(algorithm(), {"n_estimators": [2, 12]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.8


@pytest.mark.part(4)
@pytest.mark.families
def test_pandas(algorithm):
    pandas = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    model = algorithm(n_estimators=10).fit(frame, pandas.Series(y).map({0: "x", 1: "y", 2: "z"}))
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
    assert model.model_.meta["feature_names"] == ["a", "b", "c", "d"]
    assert model.predict(frame[:1])[0] == "x"


@pytest.mark.part(2)
@pytest.mark.families
def test_feature_importances(algorithm):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    model = algorithm(n_estimators=10).fit(X, (X[:, 2] > 0).astype(int) + (X[:, 2] > 1))
    if "kernel" in model.get_params() and model.kernel != "linear":
        with pytest.raises(AttributeError, match="a kernel machine has no feature_importances_"):
            model.feature_importances_  # noqa: B018
        return
    assert model.feature_importances_.shape == (6,)
    assert model.feature_importances_.argmax() == 2
    np.testing.assert_allclose(model.feature_importances_.sum(), 1)


@of_ensembles
@pytest.mark.part(2)
@pytest.mark.families
def test_class_weight(algorithm):
    rng = np.random.default_rng(0)
    y = (rng.random(1000) < 0.05).astype(int)
    X = rng.normal(size=(1000, 2)) + 0.7 * y[:, None]
    slow = {
        name: value
        for name, value in (("learning_rate", 0.1), ("C", 100.0))
        if name in algorithm().get_params()
    }
    plain = algorithm(n_estimators=10, **slow).fit(X, y).predict(X)
    balanced = algorithm(n_estimators=10, **slow, class_weight="balanced").fit(X, y).predict(X)
    assert (balanced == 1).sum() > 1.5 * (plain == 1).sum()


@pytest.mark.part(4)
@pytest.mark.families
def test_saved_parameters_change_the_model(algorithm):
    X, y = some_data()
    one = algorithm(n_estimators=3, n_jobs=1, verbose=0).fit(X, y).model_
    assert set(one.meta["params"]).isdisjoint({"n_jobs", "verbose", "warm_start"})
    assert one.meta["params"]["n_estimators"] == 3
    assert io.BytesIO(one.to_bytes()).read(8)[1:4] == b"MCB"


@of_ensembles
@pytest.mark.families
def test_too_little_memory_is_refused_before_it_is_taken(algorithm, monkeypatch):
    X, y = some_data()
    monkeypatch.setattr("pymcboost.data.rows.available_memory", lambda: 10_000)
    with pytest.raises(MemoryError, match="200 rows, 5 features and 4 classes .* KiB.*fewer rows"):
        algorithm(n_estimators=2).fit(X, y)


@pytest.mark.part(4)
@pytest.mark.families
def test_a_failed_fit_keeps_the_old_model(algorithm, monkeypatch):
    X, y = some_data()
    model = algorithm(n_estimators=4).fit(X, y)
    before = model.model_.to_bytes()

    def broken(self):
        raise RuntimeError("no")

    monkeypatch.setattr(algorithm.booster, "round", broken)
    with pytest.raises(RuntimeError):
        model.fit(X, y)
    assert model.model_.to_bytes() == before


@pytest.mark.part(4)
@pytest.mark.families
def test_a_refused_fit_changes_nothing(algorithm):
    X, y = some_data()
    model = algorithm(n_estimators=4).fit(X, y)
    before = model.decision_function(X)
    for bad_X, bad_y, error in (
        (X[:, :3], y * 0, "at least 2 classes"),
        (X[:, :2] * np.inf, y, "infinity"),
        (X, np.array(["a", "b\0c", "d", "e"])[y], "label"),
    ):
        with pytest.raises(ValueError, match=error):
            model.fit(bad_X, bad_y)
        np.testing.assert_array_equal(model.decision_function(X), before)
        assert list(model.classes_) == [0, 1, 2, 3]


@pytest.mark.part(2)
@pytest.mark.families
def test_the_rows_go_when_a_fit_ends(algorithm):
    X, y = load_iris(return_X_y=True)
    algorithm(n_estimators=2).fit(X, y)
    rows = np.concatenate([X, X])
    held = weakref.ref(rows)
    gc.disable()
    try:
        algorithm(n_estimators=2).fit(rows[:150], y)
        del rows
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "damage", [("indices", 3, 99), ("indices", 3, -7), ("indptr", 5, 10**6), ("indptr", 5, -10)]
)
@pytest.mark.part(5)
@pytest.mark.families
def test_damaged_sparse_matrices_are_refused(algorithm, damage):
    X, y = some_data()
    sparse = scipy.sparse.csr_matrix(X)
    getattr(sparse, damage[0])[damage[1]] = damage[2]
    with pytest.raises(ValueError, match="valid CSR matrix"):
        algorithm(n_estimators=2).fit(sparse, y)


def probabilities(algorithm, m, scale=None):
    """Those of few rounds where there are many rows, which other code adds up."""
    X, y = some_data(m=m)
    weight = None if scale is None else np.full(m, scale)
    return (
        algorithm(n_estimators=15 if m < 1000 else 3)
        .fit(X, y, sample_weight=weight)
        .predict_proba(X)
    )


unweighted_probabilities = cache(probabilities)


@of_ensembles
@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e-8, 1e8, 1e30, 1e300])
@pytest.mark.parametrize("m", [200, 12000])
@pytest.mark.part(13)
@pytest.mark.families
def test_the_scale_of_the_weights_does_not_matter(algorithm, scale, m):
    np.testing.assert_allclose(
        probabilities(algorithm, m, scale), unweighted_probabilities(algorithm, m), atol=1e-4
    )


@pytest.mark.parametrize(
    "algorithm", ["vector-tree", "samme-of-trees", "mcboost", "adaboost-mh"], indirect=True
)
@pytest.mark.parametrize("sum_of_all", [1.0, 2.0, 4e-5])
def test_the_scale_of_unequal_weights_does_not_matter(algorithm, sum_of_all):
    X, y = some_data(m=200)
    weight = np.random.default_rng(0).uniform(0.5, 1.5, len(y))
    weight /= weight.mean()
    models = [
        algorithm(n_estimators=8).fit(X, y, sample_weight=w)
        for w in (weight, weight * (sum_of_all / len(y)))
    ]
    assert models[0].n_estimators_ == models[1].n_estimators_
    np.testing.assert_allclose(models[0].predict_proba(X), models[1].predict_proba(X), atol=1e-4)


@of_ensembles
@pytest.mark.part(2)
@pytest.mark.families
def test_balanced_weights_count_no_rows_of_weight_0(algorithm):
    X, y = some_data(m=160)
    weight = (np.random.default_rng(0).random(len(y)) < 0.2 + 0.2 * y).astype(float)
    assert {*y[weight > 0]} == {*y}
    params = {"n_estimators": 3, "class_weight": "balanced", "random_state": 0, "calibrate": None}
    params |= (
        {"subsample": 1.0} if "subsample" in algorithm().get_params() else {}
    )  # rows are drawn by their numbers
    models = [algorithm(**params) for _ in range(2)]
    one, other = (
        models[0].fit(X, y, sample_weight=weight),
        models[1].fit(X[weight > 0], y[weight > 0]),
    )
    np.testing.assert_allclose(
        one.decision_function(X), other.decision_function(X), rtol=1e-6, atol=1e-6
    )


@of_ensembles
@pytest.mark.families
def test_weights_that_overflow_are_refused(algorithm):
    X, y = some_data()
    with pytest.raises(ValueError, match="overflows"):
        algorithm(class_weight=dict.fromkeys(range(4), 1e308)).fit(
            X, y, sample_weight=np.full(len(y), 1e308)
        )


@of_ensembles
@pytest.mark.parametrize("value", [-1, None, float("nan"), float("inf"), "a"])
@pytest.mark.part(5)
@pytest.mark.families
def test_bad_class_weights_are_refused_by_class(algorithm, value):
    X, y = some_data()
    with pytest.raises(ValueError, match=r"class_weight\[2\]=.* is not allowed"):
        algorithm(class_weight={2: value}).fit(X, y)


@of_ensembles
@pytest.mark.part(4)
@pytest.mark.families
def test_class_weight_may_be_a_dict_says_the_message(algorithm):
    X, y = some_data()
    with pytest.raises(
        ValueError, match="class_weight='Balanced' is not allowed; .*'balanced', a dict .* or None"
    ):
        algorithm(class_weight="Balanced").fit(X, y)
    algorithm(n_estimators=2, class_weight={0: 2.0}).fit(X, y)
    with pytest.raises(
        ValueError, match=r"labels that are not in y, and none of the classes \['1', '2'\]"
    ):
        algorithm(n_estimators=2, class_weight={"0": 2.0, "9": 1}).fit(X, (y % 3).astype(str))


@pytest.mark.families
def test_unknown_arguments_of_fit_are_refused_by_the_name_of_the_class(algorithm):
    X, y = some_data()
    name = algorithm.__name__
    message = rf"^{name}\.fit\(\) got an unexpected keyword argument "
    with pytest.raises(
        TypeError, match=f"{message}'eval_set'; .* X_val and y_val, .* validation_sets"
    ):
        algorithm().fit(X, y, eval_set=[(X, y)])
    with pytest.raises(TypeError, match=message + "'zzz'$"):
        algorithm().fit(X, y, zzz=X)
    weightless = not algorithm.booster.resumable
    assert ("sample_weight" in inspect.signature(algorithm.fit).parameters) != weightless
    if weightless:
        with pytest.raises(
            TypeError,
            match=message + "'sample_weight'; the algorithm does not support sample weights$",
        ):
            algorithm().fit(X, y, sample_weight=np.ones(len(y)))


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name not in ENSEMBLES])
def test_why_there_are_no_probabilities_is_in_the_message(name):
    X, y = some_data()
    for estimator in (ALGORITHMS[name](), ALGORITHMS[name](n_estimators=2).fit(X, y)):
        assert not hasattr(estimator, "predict_proba")
        with pytest.raises(
            AttributeError, match="hinge loss has no link to probabilities.*; set calibrate="
        ):
            estimator.predict_proba(X)


@pytest.mark.part(4)
@pytest.mark.families
def test_validation_labels_of_another_kind_are_refused(algorithm):
    X, y = some_data()
    for y_val in (y.astype(str), y + 70, y + 0.5):
        with pytest.raises(
            ValueError, match="none of the labels in y_val occurs in y|Unknown label type"
        ):
            algorithm(n_estimators=2).fit(X, y, X_val=X, y_val=y_val)


@pytest.mark.part(4)
@pytest.mark.families
def test_lone_rows_stay_in_the_training_part(algorithm):
    X, y = some_data(m=60)
    y[0] = 4
    for seed in range(8):
        rows = held_out(y, np.ones(60), 0.3, random_state=seed)
        assert 0 not in rows
        assert len(set(rows.tolist())) == 18
    with pytest.raises(ValueError, match="validation_fraction=1e-09"):
        algorithm(early_stopping=True, validation_fraction=1e-9).fit(X, y)


@pytest.mark.part(4)
@pytest.mark.families
def test_constant_model_warns(algorithm):
    with pytest.warns(UserWarning, match="the model is constant"):
        algorithm().fit(np.ones((20, 3)), np.arange(20) % 2)


@pytest.mark.filterwarnings("ignore:.*the model is constant")
@pytest.mark.families
def test_constant_models_have_the_shares_of_the_classes(algorithm):
    X, y = np.ones((20, 3)), np.repeat(["a", "b", "c"], [2, 6, 12])
    model = algorithm(n_estimators=2).fit(X, y)
    assert model.predict(X[:1]) == ["c"]
    if not model.n_estimators_ and hasattr(model, "predict_proba"):
        np.testing.assert_allclose(model.predict_proba(X[:1]), [[0.1, 0.3, 0.6]], rtol=1e-6)
    X, y = some_data()  # a warm start forgets them
    first = algorithm(n_estimators=2, warm_start=True).fit(np.ones_like(X), y)
    if not first.n_estimators_:
        second = first.set_params(n_estimators=4).fit(X, y)
        assert (
            second.model_.ensemble.bias.tolist()
            == algorithm(n_estimators=4).fit(X, y).model_.ensemble.bias.tolist()
        )


@pytest.mark.part(4)
@pytest.mark.families
def test_absurd_thread_counts_are_bounded(algorithm):
    X, y = some_data()
    assert (algorithm(n_estimators=2, n_jobs=10**12).fit(X, y).predict(X) >= 0).all()


@pytest.fixture(scope="module")
def forked():
    """What a process says that trains with threads, and then trains and scores in a child of fork."""
    code = """
import os, numpy as np, pymcboost.threads
from pymcboost.registry import ALGORITHMS, get_plain_class  # without scikit-learn, which takes a second to load
pymcboost.threads.SMALL_WORK = 0
X = np.random.default_rng(0).normal(size=(3000, 5)); y = np.arange(3000) % 3
for name in ALGORITHMS:
    model = get_plain_class(name)(n_estimators=2, n_jobs=2).fit(X, y)
    child = os.fork()
    if not child:
        model.fit(X, y).predict(X)
        os._exit(7)
    print(name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            return process.communicate(timeout=300)[0].decode().splitlines()
        except subprocess.TimeoutExpired as late:
            os.killpg(process.pid, signal.SIGKILL)
            return (late.stdout or b"").decode().splitlines()


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_forked_children_do_not_hang(forked, name):
    """A child of fork has none of its parent's threads, and starts its own."""
    assert f"{name} 7" in forked


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "b\0c", "d", "e"], "label"),
        (["a", "b" * 5000, "d", "e"], "label"),
        (["a", "b\ud800", "d", "e"], "label"),
        (np.array([1, 2, 3, 2**63], dtype=np.uint64), "label"),
    ],
)
@pytest.mark.part(5)
@pytest.mark.families
def test_labels_that_no_file_can_hold_are_refused_before_the_first_round(
    algorithm, labels, message, monkeypatch
):
    monkeypatch.setattr(algorithm.booster, "rows", lambda *args: pytest.fail("too late"))
    X, y = some_data()
    with pytest.raises(ValueError, match=message):
        algorithm(n_estimators=2).fit(X, np.array(labels)[y])


@pytest.mark.parametrize(
    "names", [["a", "b\ud800", "c", "d", "e"], ["a", "b" * (17 << 20), "c", "d", "e"]]
)
@pytest.mark.part(5)
@pytest.mark.families
def test_feature_names_that_no_file_can_hold_are_refused_before_the_first_round(
    algorithm, names, monkeypatch
):
    pandas = pytest.importorskip("pandas")
    monkeypatch.setattr(algorithm.booster, "rows", lambda *args: pytest.fail("too late"))
    X, y = some_data()
    with pytest.raises(ValueError, match="feature names|meta"):
        algorithm(n_estimators=2).fit(
            pandas.DataFrame(X, columns=pandas.Index(names, dtype=object)), y
        )


@pytest.mark.part(2)
@pytest.mark.families
def test_numpy_scalars_are_parameters_like_any_other(algorithm):
    X, y = some_data()
    kinds = {bool: np.bool_, int: np.int64, float: np.float32, str: np.str_}
    plain = {
        "n_estimators": 5,
        "random_state": 0,
        "early_stopping": True,
        "validation_fraction": 0.5,
        "C": 0.5,
    }
    plain |= {"scale": True, "learning_rate": 0.25, "max_features": 0.5}
    plain = {name: value for name, value in plain.items() if name in algorithm().get_params()}
    scalars = {name: kinds[type(value)](value) for name, value in plain.items()}
    one, other = algorithm(**plain).fit(X, y), algorithm(**scalars).fit(X, y)
    assert one.model_.to_bytes() == other.model_.to_bytes()


@pytest.mark.part(4)
@pytest.mark.families
def test_unfitted_estimators_say_so(algorithm):
    X, _ = some_data()
    for method in ("predict", "decision_function", "staged_predict", "staged_decision_function"):
        with pytest.raises(NotFittedError):
            getattr(algorithm(), method)(X)


@pytest.mark.part(4)
@pytest.mark.families
def test_pickles_of_other_versions_warn(algorithm):
    X, y = some_data()
    model = algorithm(n_estimators=2).fit(X, y)
    state = model.__getstate__()
    for version, words in (("0.0.1", "pickled by pymcboost 0.0.1"), (None, "an unknown version")):
        other = dict(state)
        other.pop("_pymcboost_version")
        if version:
            other["_pymcboost_version"] = version
        again = algorithm()
        with pytest.warns(UserWarning, match=words):
            again.__setstate__(other)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.part(4)
@pytest.mark.families
def test_validation_features_beyond_float32_are_refused(algorithm):
    X, y = some_data()
    X_val = X.copy()
    X_val[3, 1] = 1e39
    with pytest.raises(ValueError, match="X_val contains a value beyond the float32 range"):
        algorithm(n_estimators=2).fit(X, y, X_val=X_val, y_val=y)


@pytest.mark.part(4)
@pytest.mark.families
def test_parameters_go_by_keyword_only(algorithm):
    with pytest.raises(TypeError):
        algorithm(5)


@pytest.mark.part(4)
@pytest.mark.families
def test_callbacks_of_the_user(algorithm):
    X, y = some_data()
    seen = []

    class Stops:
        def after_round(self, state):
            seen.append((state.n_rounds, len(state.model().classes_)))
            return state.n_rounds == 3

    model = algorithm(n_estimators=10).fit(X, y, callbacks=[Stops()])
    assert seen == [(1, 4), (2, 4), (3, 4)]
    assert model.n_estimators_ == 3
    with pytest.raises(TypeError, match="has no method after_round"):
        algorithm(n_estimators=10).fit(X, y, callbacks=[print])
