"""A Dataset in place of X and y: the same models, model selection around it, and what is refused."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from divided.threads import numbered, run
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, PredefinedSplit, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pymcboost
from pymcboost import (
    Dataset,
    HingeBoostOCClassifier,
    MCBoostClassifier,
    VectorTreeBoostClassifier,
    registry,
)
from pymcboost.comm import Alone

ALL = [registry.get_class(name) for name in registry.ALGORITHMS]


def rows(m=400, seed=0):
    return make_classification(m, 6, n_informative=5, n_redundant=0, n_classes=3, random_state=seed)


def quick(cls=VectorTreeBoostClassifier, **params):
    return cls(n_estimators=4, random_state=0, **params)


def bytes_of(estimator):
    return estimator.model_.to_bytes()


def frame(m=300):
    rng = np.random.default_rng(1)
    X = pd.DataFrame(
        {
            "size": rng.normal(size=m),
            "colour": pd.Categorical(rng.choice(["red", "green", "blue"], m)),
        }
    )
    return X, np.where(X["colour"] == "red", "stop", np.where(X["size"] > 0, "go", "wait"))


# -- fits --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["dense", "sparse", "weighted"])
@pytest.mark.parametrize("cls", ALL)
@pytest.mark.part(5)
def test_models_are_those_of_arrays(cls, form):
    X, y = rows()
    X = csr_array(X * (np.abs(X) > 1)) if form == "sparse" else X
    weight = np.arange(len(y)) % 3.0 if form == "weighted" else None
    if weight is not None and cls is HingeBoostOCClassifier:
        with pytest.raises(
            ValueError, match="does not support sample weights, but the Dataset has some"
        ):
            quick(cls).fit(Dataset(X, y, weight))
        return
    with_arrays = quick(cls).fit(X, y, *([] if weight is None else [weight]))
    assert bytes_of(quick(cls).fit(Dataset(X, y, weight))) == bytes_of(with_arrays)


@pytest.mark.parametrize("cls", [VectorTreeBoostClassifier, MCBoostClassifier])
def test_one_dataset_serves_many_fits(cls):
    X, y = rows(9000)
    data = Dataset(X, y)
    for params in (
        {},
        {"class_weight": "balanced"},
        {"early_stopping": True},
        {"calibrate": "temperature"},
    ):
        assert bytes_of(quick(cls, **params).fit(data)) == bytes_of(quick(cls, **params).fit(X, y))


def test_a_frame_with_categories():
    X, y = frame()
    data = Dataset(X, y)
    estimator = quick().fit(data)
    other = quick().fit(X, y)
    assert bytes_of(estimator) == bytes_of(other)
    assert estimator.feature_names_in_.tolist() == ["size", "colour"]
    np.testing.assert_array_equal(
        estimator.predict(data.subset(slice(0, 50))), other.predict(X[:50])
    )
    named = {"categorical_features": ["colour"]}
    assert bytes_of(quick(**named).fit(data)) == bytes_of(quick(**named).fit(X, y))


def test_rows_with_any_number_of_labels():
    X, _ = rows()
    Y = (X[:, :3] > 0.5).astype(int)
    data = Dataset(X, Y)
    assert repr(data) == "Dataset(400 rows, 6 features, 3 labels)"
    for given in (Y, None):
        estimator = quick(loss="logistic").fit(data, given)
        assert bytes_of(estimator) == bytes_of(quick(loss="logistic").fit(X, Y))


def test_warm_start_and_init_model():
    X, y = rows()
    data = Dataset(X, y)
    uninterrupted = VectorTreeBoostClassifier(n_estimators=6, random_state=0, calibrate=None).fit(
        X, y
    )
    warm = quick(warm_start=True, calibrate=None).fit(data)
    assert bytes_of(warm.set_params(n_estimators=6).fit(data)) == bytes_of(uninterrupted)
    started = quick(calibrate=None).fit(data, init_model=uninterrupted)
    assert bytes_of(started) == bytes_of(quick(calibrate=None).fit(X, y, init_model=uninterrupted))


# -- subsets and model selection ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [slice(0, 50), np.arange(50), np.arange(400) < 50, list(range(50))])
def test_subsets(key):
    X, y = rows()
    part = Dataset(X, y).subset(key)
    assert len(part) == 50 and part.shape == (50, 6)
    np.testing.assert_array_equal(
        quick().fit(part).predict(part), quick().fit(part).predict(X[:50])
    )


def test_a_subset_of_small_data_is_searched_like_its_rows():
    X, y = rows()
    part = np.arange(0, 400, 2)
    params = {"subsample": 1.0, "max_features": 1.0, "calibrate": None}
    by_subset = quick(**params).fit(Dataset(X, y).subset(part))
    by_rows = quick(**params).fit(X[part], y[part])
    np.testing.assert_array_equal(by_subset.decision_function(X), by_rows.decision_function(X))


def test_a_subset_of_a_subset_and_its_order():
    X, y = rows()
    data = Dataset(X, y).subset(np.arange(399, -1, -1)).subset([0, 5, 2])
    np.testing.assert_array_equal(data._features_for(quick().fit(X, y).model_), X[[399, 394, 397]])


def test_a_subset_has_its_own_classes():
    X, y = rows()
    part = Dataset(X, y).subset(y != 1)
    estimator = quick().fit(part, y[y != 1])
    assert estimator.classes_.tolist() == [0, 2]
    assert bytes_of(quick(subsample=1.0, max_features=1.0).fit(part))


def test_the_folds_of_an_estimator_are_those_of_the_subset():
    X, y = rows()
    fold = np.arange(200) % 2
    part = Dataset(X, y).subset(slice(0, 200))
    estimator = quick(cv=PredefinedSplit(fold), calibrate="temperature").fit(part)
    alone = quick(cv=PredefinedSplit(fold), calibrate="temperature").fit(X[:200], y[:200])
    assert bytes_of(estimator) == bytes_of(alone)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_search(n_jobs):
    X, y = rows()
    grid = {"learning_rate": [0.01, 0.5]}
    how = {"cv": 3, "scoring": "neg_log_loss", "n_jobs": n_jobs, "error_score": "raise"}
    with joblib.parallel_config(
        "multiprocessing"
    ):  # whose processes start sooner than those of loky
        search = GridSearchCV(quick(calibrate=None), grid, **how).fit(Dataset(X, y), y)
    assert search.best_params_ == {"learning_rate": 0.5}
    assert bytes_of(search.best_estimator_) == bytes_of(
        quick(calibrate=None, learning_rate=0.5).fit(X, y)
    )


def test_cross_validation():
    X, y = rows(9000)
    scored = cross_validate(
        quick(), Dataset(X, y), y, cv=3, scoring=["accuracy", "neg_log_loss"], error_score="raise"
    )
    usual = cross_validate(quick(), X, y, cv=3, scoring=["accuracy", "neg_log_loss"])
    for name in ("test_accuracy", "test_neg_log_loss"):
        np.testing.assert_allclose(scored[name].mean(), usual[name].mean(), rtol=0.05)
    assert cross_val_predict(quick(), Dataset(X, y), y, cv=3, method="predict_proba").shape == (
        9000,
        3,
    )


def test_rows_of_several_workers():
    X, y = rows(9000)

    def fit(workers):
        part = slice(workers.rank, None, workers.size)
        comm = numbered(workers, np.arange(9000)[part])
        data = Dataset(X[part], y[part], comm=comm)
        both = VectorTreeBoostClassifier, MCBoostClassifier
        return [bytes_of(quick(cls, calibrate="temperature").fit(data)) for cls in both]

    assert run(2, fit) == [fit(Alone())] * 2


def test_copies():
    X, y = rows(9000)
    data = pickle.loads(pickle.dumps(Dataset(X, y)))
    assert bytes_of(clone(quick()).fit(data)) == bytes_of(quick().fit(X, y))


# -- what is refused ---------------------------------------------------------------------------------------------------

X, Y = rows()
WITH_NAN = np.where(X > 2, np.nan, X)
REFUSED = {
    "other bins": (
        lambda: quick(max_bins=64).fit(Dataset(X, Y)),
        "max_bins=64, but the Dataset has max_bins=256",
    ),
    "other labels": (
        lambda: quick().fit(Dataset(X, Y), Y[::-1]),
        "other labels than the Dataset; leave y out",
    ),
    "other categories": (
        lambda: quick(categorical_features=[1]).fit(Dataset(X, Y)),
        r"categorical_features=\[1\], but the Dataset has categories in the columns \[\]",
    ),
    "categories for a paper's algorithm": (
        lambda: quick(pymcboost.SAMMEClassifier).fit(Dataset(*frame())),
        "does not support categories",
    ),
    "missing values": (
        lambda: HingeBoostOCClassifier().fit(Dataset(WITH_NAN, Y)),
        "does not support missing values, but the Dataset has some",
    ),
    "classes for labels": (
        lambda: quick(loss="logistic").fit(Dataset(X, Y)),
        "the Dataset has one class per row; give its y as an indicator",
    ),
    "labels for classes": (
        lambda: quick().fit(Dataset(X, X[:, :3] > 0)),
        "needs one class per row here",
    ),
    "other workers": (
        lambda: quick().fit(Dataset(X, Y), comm=pymcboost.comm.Alone()),
        "comm differs from that of the Dataset; leave it out",
    ),
    "a row twice": (
        lambda: Dataset(X, Y).subset([1, 1]),
        "listed more than once; give it a larger sample_weight",
    ),
    "a pair of indices": (lambda: Dataset(X, Y)[1, 2], "indexed only by rows"),
    "too many bins": (
        lambda: Dataset(X, Y, max_bins=300),
        "max_bins=300 is not allowed; .* from 2 to 256",
    ),
    "infinite values": (lambda: Dataset(np.where(X > 2, np.inf, X), Y), "inf"),
    "other columns": (lambda: quick().fit(X[:, :3], Y).predict(Dataset(X, Y)), "6 features"),
    "other names": (
        lambda: (
            quick()
            .fit(*frame())
            .predict(Dataset(frame()[0].rename(columns={"size": "width"}), frame()[1]))
        ),
        "other names than those of the training",
    ),
    "other levels": (
        lambda: (
            quick().fit(*frame()).predict(Dataset(frame()[0][:1].reset_index(drop=True), ["stop"]))
        ),
        "at least 2 classes|the Dataset has other categories than the model",
    ),
    "another class in a warm start": (
        lambda: quick(warm_start=True).fit(X, Y).fit(Dataset(X, Y).subset(Y != 1)),
        "warm_start: y has the classes",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what):
    call, message = REFUSED[what]
    with pytest.raises((ValueError, IndexError), match=message):
        call()


TYPE_ERRORS = {
    "weights": (
        lambda: quick().fit(Dataset(X, Y), sample_weight=np.ones(400)),
        r"give sample_weight to the Dataset",
    ),
    "groups": (
        lambda: quick().fit(Dataset(X, Y), groups=np.ones(400)),
        r"give groups to the Dataset",
    ),
    "a pipeline": (
        lambda: make_pipeline(StandardScaler(), quick()).fit(Dataset(X, Y), Y),
        "arrays or data frames",
    ),
    "a validation set": (
        lambda: quick().fit(X, Y, X_val=Dataset(X, Y), y_val=Y),
        "and validation sets",
    ),
    "a loaded model": (
        lambda: quick().fit(X, Y).model_.predict(Dataset(X, Y)),
        "arrays or data frames",
    ),
}


@pytest.mark.parametrize("what", TYPE_ERRORS)
def test_refused_by_type(what):
    call, message = TYPE_ERRORS[what]
    with pytest.raises(TypeError, match=message):
        call()
