"""What scikit-learn's users expect of a classifier: leaves, paths, logarithms, routing, arrays of other libraries."""

import importlib.metadata
import pickle
import warnings
from email.message import Message

import numpy as np
import pytest
import scipy.sparse
import sklearn
from contract.variants import ALGORITHMS, as_published
from sklearn.base import is_classifier
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import DataConversionWarning
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    cross_validate,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from pymcboost import (
    Dataset,
    HingeBoostOCClassifier,
    MartClassifier,
    MCBoostClassifier,
    MultiBoostCWClassifier,
    VectorTreeBoostClassifier,
    registry,
)
from pymcboost.model import stages
from pymcboost.model.model import Model

(MartClassifier,) = as_published(MartClassifier)

X, y = load_digits(return_X_y=True)
X = X[:300].astype(np.float32)
y = y[:300]
# Missing values on either side of splits.
HOLES = X.copy()
HOLES[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
ENSEMBLES = {name: cls for name, cls in ALGORITHMS.items() if cls.booster.resumable}


@pytest.fixture(scope="module", params=ENSEMBLES)
def fitted(request):
    return ENSEMBLES[request.param](n_estimators=6).fit(HOLES, y)


def walk(tree, row):
    """Numbers of the nodes that a row passes in a tree of the dump, and which of the leaves it comes to."""
    nodes = tree["nodes"]
    at = 0
    passed = []
    while "value" not in nodes[at]:
        passed.append(at)
        node = nodes[at]
        value = row[node["feature"]]
        left = (
            node["missing"] == "left" if np.isnan(value) else value <= np.float32(node["threshold"])
        )
        at = node["left"] if left else node["right"]
    return [*passed, at], sum("value" in node for node in nodes[:at])


def test_scikit_learn_knows_probabilities_by_their_name():
    two = y[:80] % 2
    for cls in MartClassifier, HingeBoostOCClassifier:
        model = cls(n_estimators=3, calibrate="temperature", random_state=0).fit(X[:80], two)
        assert model.predict_log_proba.__name__ == "predict_log_proba"
        fixed = FixedThresholdClassifier(FrozenEstimator(model), response_method="predict_proba")
        np.testing.assert_array_equal(
            fixed.fit(X[:80], two).predict(X), model.predict_proba(X)[:, 1] > 0.5
        )


@pytest.mark.parametrize(
    "cls", [cls for cls in ALGORITHMS.values() if "learning_rate" in cls().get_params()]
)
def test_what_an_estimator_is_does_not_depend_on_wrong_parameters(cls):
    for rate in (0, None, "fast"):
        assert is_classifier(cls(learning_rate=rate))
        assert cls(learning_rate=rate)._repr_html_()


@pytest.mark.families("fitted")
def test_leaves_and_paths_are_those_of_the_dump(fitted, monkeypatch):
    trees = list(dict(fitted.model_.ensemble.dump())["trees"])
    rows = HOLES[::17]
    leaf = fitted.apply(rows)
    indicator, first = fitted.decision_path(rows)
    assert leaf.shape == (len(rows), fitted.model_.n_learners)
    assert leaf.dtype == np.int32
    np.testing.assert_array_equal(np.diff(first), [len(tree["nodes"]) for tree in trees])
    expected = np.zeros(indicator.shape)
    for i, row in enumerate(rows):
        for t, tree in enumerate(trees):
            passed, at = walk(tree, row)
            assert leaf[i, t] == at
            expected[i, first[t] + np.array(passed)] = 1
    np.testing.assert_array_equal(indicator.toarray(), expected)
    monkeypatch.setattr(stages, "BLOCK", 1)
    np.testing.assert_array_equal(fitted.apply(rows), leaf)
    np.testing.assert_array_equal(fitted.decision_path(rows)[0].toarray(), expected)


@pytest.mark.families("fitted")
def test_leaves_of_sparse_rows_and_of_a_saved_model(fitted, tmp_path):
    fitted.save(tmp_path / "m.mcb")
    saved = Model.from_bytes((tmp_path / "m.mcb").read_bytes())
    np.testing.assert_array_equal(saved.apply(X), fitted.apply(X))
    np.testing.assert_array_equal(fitted.apply(scipy.sparse.csr_array(X)), fitted.apply(X))
    np.testing.assert_array_equal(saved.apply(X.astype(np.float64)), fitted.apply(X))
    assert saved.apply(X[:0]).shape == (0, saved.n_learners)
    constant = saved.truncate(0) if saved.has_stages else saved
    assert constant.apply(X).shape == (len(X), constant.n_learners)
    assert len(constant.paths(X[:0])[0]) == 0


def test_models_that_are_merged_have_no_leaves():
    model = MultiBoostCWClassifier(n_estimators=5).fit(X, y)
    table = Model.from_bytes(model.model_.to_bytes(layout="interval"))
    for merged in (table, HingeBoostOCClassifier(n_estimators=5).fit(X, y).model_):
        with pytest.raises(ValueError, match="weak learners of this model are merged"):
            merged.apply(X)


@pytest.mark.families("fitted")
def test_log_probabilities(fitted):
    given = fitted.predict_proba(HOLES)
    logarithms = fitted.predict_log_proba(HOLES)
    np.testing.assert_allclose(np.exp(logarithms), given, rtol=1e-12, atol=1e-300)
    assert np.isfinite(logarithms).all()
    for calibrated in (
        fitted.model_.with_temperature(3.0),
        fitted.model_.reweighted(np.arange(1, 11)),
    ):
        np.testing.assert_allclose(
            np.exp(calibrated.predict_log_proba(HOLES)), calibrated.predict_proba(HOLES)
        )


def test_log_probabilities_stay_finite_where_probabilities_are_0():
    model = MartClassifier(n_estimators=3).fit(X, y).model_.with_temperature(1e-3)
    assert (model.predict_proba(X) == 0).any()
    logarithms = model.predict_log_proba(X)
    assert np.isfinite(logarithms).all()
    assert logarithms.min() < -800


@pytest.mark.families("fitted")
def test_probabilities_after_every_round(fitted):
    model = fitted.model_
    if not model.has_stages:
        with pytest.raises(ValueError, match="totally corrective"):
            fitted.staged_predict_proba(HOLES)
        return
    found = list(fitted.staged_predict_proba(HOLES))
    assert len(found) == model.n_rounds
    np.testing.assert_allclose(found[-1], fitted.predict_proba(HOLES), rtol=1e-14, atol=1e-300)
    first = model.truncate(2).with_temperature(model.temperature)
    np.testing.assert_allclose(found[1], first.predict_proba(HOLES), rtol=1e-14)
    np.testing.assert_allclose(
        list(fitted.staged_predict_proba(scipy.sparse.csr_array(X)))[0].sum(axis=1), 1
    )


def test_two_classes_have_two_columns_after_every_round():
    model = MartClassifier(n_estimators=3).fit(X, y > 4)
    *_, last = model.staged_predict_proba(X)
    np.testing.assert_allclose(last, model.predict_proba(X), rtol=1e-14)
    assert model.predict_log_proba(X).shape == (300, 2)


def test_machines_have_logarithms_once_they_are_calibrated():
    model = HingeBoostOCClassifier(n_estimators=10).fit(X, y)
    assert not hasattr(model, "predict_log_proba")
    with pytest.raises(AttributeError, match="has no predict_proba: the hinge loss has no link"):
        model.predict_log_proba(X)
    model.calibrate_on(X, y)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    with pytest.raises(ValueError, match="no link from scores"):
        HingeBoostOCClassifier(n_estimators=5).fit(X, y).model_.predict_log_proba(X)


def test_importances_are_those_of_the_fitted_machine():
    linear, kernel = (
        HingeBoostOCClassifier(n_estimators=2, kernel=kernel).fit(X, y)
        for kernel in ("linear", "rbf")
    )
    assert linear.set_params(kernel="rbf").feature_importances_.sum() == pytest.approx(1)
    with pytest.raises(AttributeError, match="a kernel machine has no feature_importances_"):
        kernel.set_params(kernel="linear").feature_importances_  # noqa: B018


# -- frames and arrays -----------------------------------------------------------------------------------------------


def test_frames_of_other_columns_are_refused_at_predict():
    pandas = pytest.importorskip("pandas")
    rows, labels = load_iris(return_X_y=True)
    frame = pandas.DataFrame(rows, columns=list("abcd"))
    model = MartClassifier(n_estimators=3).fit(frame, labels)
    assert list(model.feature_names_in_) == list("abcd")
    for method in (
        "predict",
        "predict_log_proba",
        "apply",
        "decision_path",
        "staged_predict_proba",
    ):
        with pytest.raises(ValueError, match="feature names should match"):
            getattr(model, method)(frame[["b", "a", "c", "d"]])
        with pytest.raises(ValueError, match="feature names should match"):
            getattr(model, method)(frame[["a", "b", "c"]])
    steps = make_pipeline(StandardScaler(), MartClassifier(n_estimators=3)).set_output(
        transform="pandas"
    )
    assert list(steps.fit(frame, labels)[-1].feature_names_in_) == list("abcd")


class Shared:
    """An array of which other libraries learn by DLPack alone, as the array API asks for."""

    def __init__(self, array):
        self.array = array
        self.shape = array.shape
        self.dtype = array.dtype

    def __len__(self):
        return len(self.array)

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Strict(Shared):
    """An array that has types of numbers of its own."""

    def __init__(self, array):
        super().__init__(array)
        self.dtype = f"strict.{array.dtype}"

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array, dtype=dtype)


@pytest.mark.parametrize("kind", [Shared, Strict])
def test_arrays_of_the_array_api_alone(kind):
    weight = 1.0 + np.arange(len(X)) % 3
    given = {"sample_weight": kind(weight), "X_val": kind(X[:50]), "y_val": kind(y[:50])}
    model = MartClassifier(n_estimators=3).fit(kind(X), kind(y), **given)
    same = MartClassifier(n_estimators=3).fit(
        X, y, sample_weight=weight, X_val=X[:50], y_val=y[:50]
    )
    assert model.model_.to_bytes() == same.model_.to_bytes()
    for scored in (model, model.model_):
        np.testing.assert_array_equal(scored.predict_proba(kind(X)), scored.predict_proba(X))


# -- routing ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


class Sees:
    """A callback that keeps what a training was given."""

    def __init__(self):
        self.seen = []

    def after_round(self, state):
        self.seen.append(
            (state.booster.data.n_rows, [held.X.shape[0] for held in state.validation.sets])
        )


ALL = dict.fromkeys(
    ("X_val", "y_val", "sample_weight_val", "validation_sets", "callbacks", "groups"), True
)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
@pytest.mark.families("name")
def test_every_argument_of_fit_can_be_asked_for(name, routing):
    """Also of subclasses, and after cloning."""
    estimator = ALGORITHMS[name]()
    weighted = {"sample_weight": True, "init_model": True} if name in ENSEMBLES else {}
    estimator = sklearn.clone(estimator.set_fit_request(**ALL, **weighted))
    assert {
        key for key, value in estimator.get_metadata_routing().fit.requests.items() if value
    } == {*ALL, *weighted}


def test_arguments_go_through_searches_and_pipelines(routing):
    sees = Sees()
    weight = np.arange(len(y)) % 3 + 1.0
    estimator = MartClassifier(n_estimators=3, n_iter_no_change=5, early_stopping=True)
    estimator.set_fit_request(**{**ALL, "groups": False}, sample_weight=True).set_score_request(
        sample_weight=True
    )
    steps = Pipeline([("scale", StandardScaler()), ("boost", estimator)], transform_input=["X_val"])
    steps["scale"].set_fit_request(sample_weight=False)
    rows = X[:40] * 7.0
    given = {
        "X_val": rows, "y_val": y[:40], "sample_weight_val": weight[:40], "callbacks": [sees],
        "validation_sets": {"more": (X[:30], y[:30])}, "sample_weight": weight,
    }  # fmt: skip
    scored = cross_validate(steps, X, y, cv=3, params=given, return_estimator=True)
    assert sees.seen == [(200, [40, 30])] * 9
    by_hand = []
    for fold in scored["estimator"]:
        values = fold["boost"].predict_log_proba(fold["scale"].transform(rows))[
            np.arange(40), y[:40]
        ]
        by_hand.append(-np.average(values, weights=weight[:40]))
    kept = [fold["boost"].history_["val_log_loss"][-1] for fold in scored["estimator"]]
    np.testing.assert_allclose(kept, by_hand, rtol=1e-4)
    search = GridSearchCV(steps, {"boost__max_leaf_nodes": [2, 8]}, cv=3).fit(X, y, **given)
    assert search.best_params_ == {"boost__max_leaf_nodes": 8}


def test_groups_go_to_the_splitter_and_to_the_estimator(routing):
    groups = np.arange(len(y)) // 10
    estimator = VectorTreeBoostClassifier(
        n_estimators="auto",
        cv=GroupKFold(2),
        n_iter_no_change=1,
        max_leaf_nodes=2,
        learning_rate=1.0,
    )
    estimator.set_fit_request(groups=True)
    scored = cross_validate(
        estimator, X, y, cv=GroupKFold(2), params={"groups": groups}, return_estimator=True
    )
    assert all(len(one.cv_results_["folds"]) == 2 for one in scored["estimator"])


def test_scorers_and_tags():
    model = MartClassifier(n_estimators=3, scoring=make_scorer(accuracy_score)).fit(
        X, y, X_val=X, y_val=y
    )
    assert model.history_["val_score"][-1] == pytest.approx(model.score(X, y))
    tags = sklearn.utils.get_tags(model)
    assert (tags.estimator_type, tags.input_tags.sparse, tags.input_tags.allow_nan) == (
        "classifier",
        True,
        True,
    )
    assert not sklearn.utils.get_tags(HingeBoostOCClassifier(kernel="rbf")).input_tags.sparse
    pickle.loads(pickle.dumps(model)).apply(X)


@pytest.mark.parametrize("entry", registry.ALGORITHMS.values(), ids=lambda entry: entry.name)
@pytest.mark.part(7)
def test_html_links_to_the_reference(monkeypatch, entry):
    """Where the package's metadata name a site, and nowhere else."""
    known = Message()
    cls = registry.load(entry)
    monkeypatch.setattr(importlib.metadata, "metadata", lambda package: known)
    known["Project-URL"] = "Source, https://source.test/pymcboost"
    assert "/api/" not in cls()._repr_html_()
    known["Project-URL"] = "Documentation, https://docs.test/pymcboost/"
    page = f'href="https://docs.test/pymcboost/api/pymcboost.{entry.name}.html"'
    assert page in make_pipeline(StandardScaler(), cls())._repr_html_()


def test_html_has_no_link_without_an_installed_package(monkeypatch):
    def missing(package):
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "metadata", missing)
    shown = MartClassifier()._repr_html_()
    assert "MartClassifier" in shown and "/api/" not in shown


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("cls", [MartClassifier, MCBoostClassifier, VectorTreeBoostClassifier])
def test_masked_values_are_missing_values(cls, integers):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = rng.integers(0, 3, 60)
    mask = rng.random((60, 3)) < 0.2
    X = (9 * X).astype(int) if integers else X
    masked = np.ma.masked_array(X, mask)
    with_nan = np.where(mask, np.nan, X)
    how = {"n_estimators": 3, "random_state": 0}
    one, other = (
        cls(**how).fit(masked, y, X_val=masked, y_val=y),
        cls(**how).fit(with_nan, y, X_val=with_nan, y_val=y),
    )
    assert one.model_.to_bytes() == other.model_.to_bytes()
    assert np.array_equal(one.predict_proba(masked), other.predict_proba(with_nan))
    assert np.array_equal(one.model_.predict_proba(masked), other.model_.predict_proba(with_nan))
    with pytest.raises(ValueError, match="NaN|no label"):
        cls(**how).fit(X, np.ma.masked_array(y, mask[:, 0]))


@pytest.mark.parametrize("label", [2**64, -(2**63) - 1, 10**400])
def test_integers_beyond_64_bits_are_no_labels(label):
    with pytest.raises(ValueError, match=r"y\[1\] is .*\[-2\^63, 2\^63 - 1\].*str\(label\)"):
        MCBoostClassifier().fit(np.arange(4.0)[:, None], [0, label, 0, label])


@pytest.mark.parametrize("kind", ["Int64", "UInt64", "int64[pyarrow]", "boolean"])
def test_labels_in_integers_of_pandas_own(kind):
    """They are NumPy's, where float64 would not tell them apart."""
    pandas = pytest.importorskip("pandas")
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
    rows = X[:60]
    labels = y[:60] == 3 if kind == "boolean" else 2**53 + y[:60] % 3
    given = pandas.Series(labels).astype(kind)
    how = {"n_estimators": 3, "random_state": 0, "calibrate": None, "scoring": "error"}
    expected = VectorTreeBoostClassifier(**how).fit(rows, labels, X_val=rows, y_val=labels)
    blocks = Dataset.from_blocks([(rows[:30], given[:30]), (rows[30:], given[30:])])
    for of in (rows, given), (rows, given.array), (rows, given.to_frame()), (blocks,):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataConversionWarning)  # of the frame
            model = VectorTreeBoostClassifier(**how).fit(*of, X_val=rows, y_val=given)
        assert model.model_.to_bytes() == expected.model_.to_bytes()
        assert model.predict(rows).dtype.kind == given.dtype.kind
        assert model.history_["val_error"].tolist() == expected.history_["val_error"].tolist()
    assert model.score(rows, given) == expected.score(rows, labels) > 0.5
    for one, its in (model, given), (expected, labels):
        one.calibrate_on(rows, its).refit_leaves(rows, its, decay=0.5)
    assert model.model_.to_bytes() == expected.model_.to_bytes()
    given[7] = pandas.NA
    with pytest.raises(
        ValueError, match="^y has no label in row 7; leave out rows without a label"
    ):
        model.fit(rows, given)
