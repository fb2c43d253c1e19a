"""Tree boosting of pymcboost and of other libraries behind one interface, for bench.py and reproduce.py.

`fit` takes a `Spec`, features and class codes 0..K-1, and gives an object with ``predict(X)`` and ``staged(X)`` (codes
after every round), ``rounds`` and ``trees``. A library that is not installed, or an estimator that this build does not
have, raises `Absent`.
"""

import importlib.util
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np


class Absent(Exception):
    """A library or an estimator is not there."""


OURS = {
    "logitboost": "LogitBoostClassifier",
    "mart": "MartClassifier",
    "abc-logitboost": "ABCLogitBoostClassifier",
    "abc-mart": "ABCMartClassifier",
    "vector": "VectorTreeBoostClassifier",
}
PEERS = ("lightgbm", "xgboost", "catboost", "sklearn")
SPOKEN = {
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "catboost": "CatBoost",
    "sklearn": "scikit-learn's histogram gradient boosting",
}


@dataclass(frozen=True)
class Spec:
    """One competitor: a name of `OURS` or `PEERS`, what both sides share, and parameters in the library's own words."""

    method: str
    rounds: int = 100
    leaves: int | None = 20
    learning_rate: float | None = 0.1
    threads: int = 1
    seed: int = 0
    more: dict = field(default_factory=dict)


def ours(method):
    """The class of one of our estimators."""
    import pymcboost

    try:
        return getattr(pymcboost, OURS[method])
    except AttributeError:
        raise Absent(f"pymcboost.{OURS[method]} (not in this build)") from None


def require(method):
    """Raise `Absent` unless ``method`` can be fitted."""
    if method in OURS:
        ours(method)
    elif method not in PEERS:
        raise SystemExit(f"unknown method {method!r}; there are {', '.join([*OURS, *PEERS])}")
    elif importlib.util.find_spec(method) is None:
        raise Absent(method)


def available(methods):
    """Split ``methods`` into those that can be fitted and {method: reason} of the others."""
    present, absent = [], {}
    for method in methods:
        try:
            require(method)
            present.append(method)
        except Absent as reason:
            absent[method] = str(reason)
    return present, absent


def parameters(spec, n_classes):
    """Everything that is not a library's default, in its own words."""
    name = spec.method
    if name in OURS:
        found = {"n_estimators": spec.rounds, "n_jobs": spec.threads, "random_state": spec.seed}
        if spec.leaves is not None:
            found["max_leaf_nodes"] = spec.leaves
        if spec.learning_rate is not None:
            found["learning_rate"] = spec.learning_rate
        if name != "vector":
            found["min_samples_leaf"] = 1  # as for the peers
    elif name == "lightgbm":
        found = {
            "objective": "multiclass",
            "num_class": n_classes,
            "num_leaves": spec.leaves or 31,
            "learning_rate": spec.learning_rate or 0.1,
            "num_threads": spec.threads,
            "seed": spec.seed,
            "verbosity": -1,
        }
    elif name == "xgboost":
        found = {
            "objective": "multi:softprob",
            "num_class": n_classes,
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_leaves": spec.leaves or 31,
            "max_depth": 0,
            "max_bin": 256,
            "min_child_weight": 0,
            "reg_lambda": 0,
            "base_score": 0.5,
            "learning_rate": spec.learning_rate or 0.1,
            "nthread": spec.threads,
            "seed": spec.seed,
            "verbosity": 0,
        }
    elif name == "catboost":
        # 16 is the greatest depth that CatBoost allows; the number of leaves limits the trees long before.
        found = {
            "loss_function": "MultiClass",
            "grow_policy": "Lossguide",
            "max_leaves": spec.leaves or 31,
            "depth": 16,
            "border_count": 255,
            "min_data_in_leaf": 1,
            "l2_leaf_reg": 0,
            "bootstrap_type": "No",
            "random_strength": 0,
            "iterations": spec.rounds,
            "learning_rate": spec.learning_rate or 0.1,
            "thread_count": spec.threads,
            "random_seed": spec.seed,
            "allow_writing_files": False,
            "verbose": False,
        }
    else:
        found = {
            "max_iter": spec.rounds,
            "learning_rate": spec.learning_rate or 0.1,
            "max_leaf_nodes": spec.leaves or 31,
            "max_bins": 255,
            "min_samples_leaf": 1,
            "l2_regularization": 0.0,
            "early_stopping": False,
            "random_state": spec.seed,
        }
    return {**found, **spec.more}


# As close to our trees as LightGBM allows: any leaf, no prior, as many bins. With 0 in place of 1e-6 it stops with
# "Check failed: left_count > 0" on letter, where rounding in its histograms leaves a trace of h in empty bins.
LIGHTGBM_BARE = {
    "min_data_in_leaf": 1,
    "min_sum_hessian_in_leaf": 1e-6,
    "boost_from_average": False,
    "max_bin": 255,
}
# The feature sampling of the vector-leaf trees.
LIGHTGBM_SAMPLED = {"feature_fraction_bynode": 0.4, "min_child_samples": 2}


class Fitted:
    """What `fit` returns; subclasses say how rounds are scored."""

    def __init__(self, model, rounds, trees):
        self.model, self.rounds, self.trees = model, rounds, trees

    def staged(self, X):
        raise NotImplementedError

    def predict(self, X):
        codes = None
        for codes in self.staged(X):  # noqa: B007
            pass
        return codes


class _Estimator(Fitted):
    """Estimators in the manner of scikit-learn."""

    def staged(self, X):
        for codes in self.model.staged_predict(X):
            yield np.asarray(codes).ravel()

    def predict(self, X):
        return np.asarray(self.model.predict(X)).ravel()


class _Booster(Fitted):
    """LightGBM and XGBoost, which score any range of rounds."""

    def _scores(self, X, first, last):
        raise NotImplementedError

    def _matrix(self, X):
        return X

    def staged(self, X):
        X, total = self._matrix(X), 0.0
        for t in range(self.rounds):
            total = total + self._scores(X, t, t + 1)
            yield np.argmax(total, axis=1)

    def predict(self, X, rounds=None):
        return np.argmax(self._scores(self._matrix(X), 0, rounds or self.rounds), axis=1)


class _LightGBM(_Booster):
    def _scores(self, X, first, last):
        return self.model.predict(X, raw_score=True, start_iteration=first, num_iteration=last - first)


class _XGBoost(_Booster):
    # Every range brings the prior again, equal for all classes, which no decision depends on.
    def _matrix(self, X):
        import xgboost

        return xgboost.DMatrix(X)

    def _scores(self, X, first, last):
        return self.model.predict(X, output_margin=True, iteration_range=(first, last))


@contextmanager
def limited_threads(count):
    """Libraries that take their threads from OpenMP alone use ``count``."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(count):
        yield


def fit(spec, X, codes, n_classes):
    """Fit one competitor to class codes 0..n_classes-1, data preparation included."""
    require(spec.method)
    words = parameters(spec, n_classes)
    if spec.method in OURS:
        model = ours(spec.method)(**words).fit(X, codes)
        return _Estimator(model, model.n_estimators_, count_trees(model))
    if spec.method == "lightgbm":
        import lightgbm

        booster = lightgbm.train(words, lightgbm.Dataset(X, label=codes), num_boost_round=spec.rounds)
        return _LightGBM(booster, booster.current_iteration(), booster.num_trees())
    if spec.method == "xgboost":
        import xgboost

        booster = xgboost.train(words, xgboost.QuantileDMatrix(X, label=codes, max_bin=256), spec.rounds)
        return _XGBoost(booster, spec.rounds, spec.rounds * n_classes)
    if spec.method == "catboost":
        import catboost

        model = catboost.CatBoostClassifier(**words).fit(X, codes)
        return _Estimator(model, model.tree_count_, model.tree_count_)
    from sklearn.ensemble import HistGradientBoostingClassifier

    with limited_threads(spec.threads):
        model = HistGradientBoostingClassifier(**words).fit(X, codes)
    return _Estimator(model, model.n_iter_, model.n_iter_ * (n_classes if n_classes > 2 else 1))


def count_trees(model):
    """Trees of one of our estimators, None where the model does not say."""
    ensemble = getattr(getattr(model, "model_", None), "ensemble", None)
    offset = getattr(ensemble, "offset", None)
    return None if offset is None else len(offset) - 1


class ResumableLightGBM:
    """LightGBM as tools/longrun.py trains it: more rounds are added to the booster that is there.

    LightGBM computes the scores so far anew when it continues, so a training with stops may differ from one without in
    the last bits.
    """

    def __init__(self, spec):
        self.spec, self.n_estimators, self.booster, self.n_classes = spec, 0, None, None
        self.n_estimators_ = 0

    def set_params(self, n_estimators):
        self.n_estimators = n_estimators
        return self

    def fit(self, X, codes):
        import lightgbm

        require("lightgbm")
        self.n_classes = int(codes.max()) + 1
        data = lightgbm.Dataset(X, label=codes, free_raw_data=False)
        more = self.n_estimators - self.n_estimators_
        self.booster = lightgbm.train(parameters(self.spec, self.n_classes), data, more, init_model=self.booster)
        self.n_estimators_ = self.booster.num_trees() // self.n_classes
        return self

    def predict(self, X):
        return np.argmax(self.booster.predict(X, raw_score=True, num_threads=self.spec.threads), axis=1)
