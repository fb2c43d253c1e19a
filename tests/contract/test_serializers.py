"""Whatever keeps Python objects keeps models and estimators: every attribute, the file's bytes, and how to go on."""

import copy
import importlib
import io
import pickle

import numpy as np
import pytest

from pymcboost import (
    AdaBoostMHClassifier,
    HingeBoostOCClassifier,
    MartClassifier,
    MCBoostClassifier,
    Model,
    ModelFormatError,
    VectorTreeBoostClassifier,
)


def with_joblib(thing):
    joblib = importlib.import_module("joblib")
    stream = io.BytesIO()
    joblib.dump(thing, stream, compress=3)
    stream.seek(0)
    return joblib.load(stream)


def with_module(name):
    def again(thing):
        module = pytest.importorskip(name)
        return module.loads(module.dumps(thing))

    return again


def with_skops(thing):
    skops = pytest.importorskip("skops.io")
    data = skops.dumps(thing)
    types = skops.get_untrusted_types(data=data)
    # What a user has to trust: the classes that were asked for, and nothing that can run code.
    assert set(types) <= {
        f"{type(thing).__module__}.{type(thing).__name__}",
        "pymcboost.model.model.Model",
    }
    return skops.loads(data, trusted=types)


SERIALIZERS = {
    **{f"pickle {p}": lambda thing, p=p: pickle.loads(pickle.dumps(thing, p)) for p in range(6)},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "joblib": with_joblib,
    "cloudpickle": with_module("cloudpickle"),
    "dill": with_module("dill"),
    "skops": with_skops,
}


def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.array(["a", "b", "c"])[(np.nan_to_num(X[:, :2]) > 0).sum(axis=1)]


def labels(y):
    return (y[:, None] == np.array(["a", "b"])).astype(int)


def fitted():
    """(name, estimator, its X and y) of several families and of what an estimator may hold besides its model."""
    X, y = rows()
    whole = np.nan_to_num(X)
    weights = {"a": 2.0, "b": 1.0, "c": 1.0}
    yield (
        "MCBoost",
        MCBoostClassifier(n_estimators=3, class_weight=weights).fit(X, y, X_val=X, y_val=y),
        X,
        y,
    )
    categories = (np.arange(120) % 5).astype(np.float32)
    X_cat = np.column_stack([X, categories])
    estimator = VectorTreeBoostClassifier(
        n_estimators=3, categorical_features=[4], random_state=np.random.RandomState(2)
    )
    yield "vector trees", estimator.fit(X_cat, y), X_cat, y
    estimator = MartClassifier(n_estimators=3, scoring="balanced_accuracy", random_state=0)
    yield "Mart", estimator.fit(X, y, X_val=X, y_val=y), X, y
    yield "labels", AdaBoostMHClassifier(n_estimators=3).fit(X, labels(y)), X, labels(y)
    yield "machine", HingeBoostOCClassifier(n_estimators=2).fit(whole, y), whole, y


FITTED = {name: rest for name, *rest in fitted()}


@pytest.mark.parametrize("serializer", SERIALIZERS)
@pytest.mark.parametrize("name", FITTED)
@pytest.mark.part(5)
def test_estimators(name, serializer):
    estimator, X, y = FITTED[name]
    again = SERIALIZERS[serializer](estimator)
    assert type(again) is type(estimator) and vars(again).keys() == vars(estimator).keys()
    assert again.model_.to_bytes() == estimator.model_.to_bytes()
    for attribute, value in vars(estimator).items():
        if isinstance(value, np.random.RandomState):
            np.testing.assert_equal(getattr(again, attribute).get_state(), value.get_state())
        elif not isinstance(value, Model):
            assert type(getattr(again, attribute)) is type(value)
            np.testing.assert_equal(getattr(again, attribute), value)
    assert again.decision_function(X).tobytes() == estimator.decision_function(X).tobytes()
    if name == "Mart":
        both = [
            copy.deepcopy(one).set_params(n_estimators=5, warm_start=True)
            for one in (again, estimator)
        ]
        new, expected = (one.fit(X, y, X_val=X, y_val=y).model_.to_bytes() for one in both)
        assert new == expected != estimator.model_.to_bytes()


@pytest.mark.parametrize("serializer", SERIALIZERS)
@pytest.mark.parametrize("name", FITTED)
def test_models(name, serializer):
    estimator, X, _ = FITTED[name]
    model = SERIALIZERS[serializer](estimator.model_)
    assert type(model) is Model and model.to_bytes() == estimator.model_.to_bytes()
    assert model.raw_scores(X).tobytes() == estimator.model_.raw_scores(X).tobytes()
    assert model.classes_.tolist() == estimator.model_.classes_.tolist()


def test_a_model_whose_bytes_were_damaged_is_refused():
    """Checked as a file is, by the checksum, before anything of it is used."""
    state = FITTED["Mart"][0].model_.__getstate__()
    data = bytearray(state["file"])
    data[len(data) // 2] ^= 1
    with pytest.raises(ModelFormatError, match="pickled by pymcboost .*checksum"):
        object.__new__(Model).__setstate__({**state, "file": bytes(data)})
