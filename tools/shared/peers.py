"""Tree boosting of pymcboost and of other libraries behind one interface, for benchmarks and experiments.

`fit` takes a `Spec`, features and class codes 0..K-1, and gives a `Fitted` with ``predict(X)`` and ``staged(X)`` (codes
after every round). A library that is not installed raises `Absent`.
"""

import importlib.util
from dataclasses import dataclass, field

import numpy as np

from shared.internals import count_trees


class Absent(Exception):
    """A library is not installed."""


OURS = {
    "logitboost": "LogitBoostClassifier",
    "mart": "MartClassifier",
    "abc-logitboost": "ABCLogitBoostClassifier",
    "abc-mart": "ABCMartClassifier",
    "vector": "VectorTreeBoostClassifier",
    "mcboost": "MCBoostClassifier",
}
SPOKEN = {
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "catboost": "CatBoost",
    "sklearn": "scikit-learn's histogram gradient boosting",
}
PEERS = tuple(SPOKEN)
# As close to our trees as LightGBM allows: any leaf, no prior, as many bins. With 0 in place of 1e-6 it stops with
# "Check failed: left_count > 0" on letter, where rounding in its histograms leaves a trace of h in empty bins.
LIGHTGBM_BARE = {
    "min_data_in_leaf": 1,
    "min_sum_hessian_in_leaf": 1e-6,
    "boost_from_average": False,
    "max_bin": 255,
}
# The vector-leaf trees of the published tables, whatever their defaults are by now.
VECTOR = {
    "learning_rate": 0.2, "max_leaf_nodes": 100, "min_samples_leaf": 2, "max_features": 0.2, "subsample": 1.0,
    "l2_regularization": 0.0, "min_relative_gain": 0.0, "split_columns": None,
}  # fmt: skip
# The class-wise trees of the published tables, which draw nothing.
CLASS_TREES = {"max_leaf_nodes": 20, "max_features": 1.0, "subsample": 1.0, "calibrate": None}
# The feature sampling of the vector-leaf trees.
LIGHTGBM_SAMPLED = {"feature_fraction_bynode": 0.4, "min_child_samples": 2}


@dataclass(frozen=True)
class Spec:
    """One competitor: a name of `OURS` or `PEERS`, what both sides share, and parameters in the library's own words.

    ``leaves`` and ``learning_rate`` of None stand for what ``more`` says.
    """

    method: str
    rounds: int = 100
    leaves: int | None = 20
    learning_rate: float | None = 0.1
    threads: int = 1
    seed: int = 0
    more: dict = field(default_factory=dict)


def vector_spec(rounds, **how):
    """The vector-leaf trees of the published tables."""
    return Spec("vector", rounds, leaves=None, learning_rate=None, more=VECTOR, **how)


def ours(method):
    """The class of one of our estimators."""
    import pymcboost

    return getattr(pymcboost, OURS[method])


def require(method):
    """Raise `Absent` unless ``method`` can be fitted."""
    if method not in OURS and method not in PEERS:
        raise SystemExit(f"unknown method {method!r}; there are {', '.join([*OURS, *PEERS])}")
    if method in PEERS and importlib.util.find_spec(method) is None:
        raise Absent(method)


def available(methods):
    """Split ``methods`` into those that can be fitted and {method: reason} of the others."""
    present = []
    absent = {}
    for method in methods:
        try:
            require(method)
            present.append(method)
        except Absent as reason:
            absent[method] = str(reason)
    return present, absent


def _ours(spec, n_classes):
    given = {"max_leaf_nodes": spec.leaves, "learning_rate": spec.learning_rate}
    given = {name: value for name, value in given.items() if value is not None}
    if spec.method not in ("vector", "mcboost"):
        given = {**CLASS_TREES, "min_samples_leaf": 1, **given}  # as for the peers
    return {"n_estimators": spec.rounds, "n_jobs": spec.threads, "random_state": spec.seed, **given}


def _lightgbm(spec, n_classes):
    return {
        "objective": "multiclass",
        "num_class": n_classes,
        "num_leaves": spec.leaves,
        "learning_rate": spec.learning_rate,
        "num_threads": spec.threads,
        "seed": spec.seed,
        "verbosity": -1,
    }


def _xgboost(spec, n_classes):
    return {
        "objective": "multi:softprob",
        "num_class": n_classes,
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_leaves": spec.leaves,
        "max_depth": 0,
        "max_bin": 256,
        "min_child_weight": 0,
        "reg_lambda": 0,
        "base_score": 0.5,
        "learning_rate": spec.learning_rate,
        "nthread": spec.threads,
        "seed": spec.seed,
        "verbosity": 0,
    }


def _catboost(spec, n_classes):
    # 16 is the greatest depth that CatBoost allows; the number of leaves limits the trees long before.
    return {
        "loss_function": "MultiClass",
        "grow_policy": "Lossguide",
        "max_leaves": spec.leaves,
        "depth": 16,
        "border_count": 255,
        "min_data_in_leaf": 1,
        "l2_leaf_reg": 0,
        "bootstrap_type": "No",
        "random_strength": 0,
        "iterations": spec.rounds,
        "learning_rate": spec.learning_rate,
        "thread_count": spec.threads,
        "random_seed": spec.seed,
        "allow_writing_files": False,
        "verbose": False,
    }


def _sklearn(spec, n_classes):
    return {
        "max_iter": spec.rounds,
        "learning_rate": spec.learning_rate,
        "max_leaf_nodes": spec.leaves,
        "max_bins": 255,
        "min_samples_leaf": 1,
        "l2_regularization": 0.0,
        "early_stopping": False,
        "random_state": spec.seed,
    }


def parameters(spec, n_classes):
    """Everything that is not a library's default, in its own words."""
    words = {"lightgbm": _lightgbm, "xgboost": _xgboost, "catboost": _catboost, "sklearn": _sklearn}
    return {**words.get(spec.method, _ours)(spec, n_classes), **spec.more}


def _as_is(X):
    return X


@dataclass
class Fitted:
    """What `fit` returns.

    ``scores(X, first, last)`` are raw scores of a range of rounds, where the library gives them; ``matrix`` turns X
    into what it scores. Without them the model has ``staged_predict``, in the manner of scikit-learn.
    """

    model: object
    rounds: int
    trees: int | None
    scores: object = None
    matrix: object = _as_is

    def staged(self, X):
        """Codes after every round."""
        if self.scores is None:
            for codes in self.model.staged_predict(X):
                yield np.asarray(codes).ravel()
            return
        X = self.matrix(X)
        total = 0.0
        for t in range(self.rounds):
            total = total + self.scores(X, t, t + 1)
            yield np.argmax(total, axis=1)

    def predict(self, X, rounds=None):
        """Codes after ``rounds`` rounds, or all; a training that ended early keeps its last ones."""
        if self.scores is not None:
            return np.argmax(self.scores(self.matrix(X), 0, rounds or self.rounds), axis=1)
        if rounds is not None:
            for count, codes in enumerate(self.staged(X), 1):
                if count == rounds:
                    return codes
        return np.asarray(self.model.predict(X)).ravel()


def fit(spec, X, codes, n_classes):
    """Fit one competitor to class codes 0..n_classes-1, data preparation included."""
    require(spec.method)
    words = parameters(spec, n_classes)
    if spec.method in OURS:
        model = ours(spec.method)(**words).fit(X, codes)
        return Fitted(model, model.n_estimators_, count_trees(model))
    if spec.method == "lightgbm":
        return _fit_lightgbm(words, spec.rounds, X, codes=codes)
    if spec.method == "xgboost":
        import xgboost

        booster = xgboost.train(
            words, xgboost.QuantileDMatrix(X, label=codes, max_bin=256), spec.rounds
        )

        # Every range brings the prior again, equal for all classes, which no decision depends on.
        def scores(X, first, last):
            return booster.predict(X, output_margin=True, iteration_range=(first, last))

        return Fitted(
            booster, spec.rounds, spec.rounds * n_classes, scores=scores, matrix=xgboost.DMatrix
        )
    if spec.method == "catboost":
        import catboost

        model = catboost.CatBoostClassifier(**words).fit(X, codes)
        return Fitted(model, model.tree_count_, model.tree_count_)
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    with threadpool_limits(spec.threads):  # it takes its threads from OpenMP alone
        model = HistGradientBoostingClassifier(**words).fit(X, codes)
    return Fitted(model, model.n_iter_, model.n_iter_ * (n_classes if n_classes > 2 else 1))


def _fit_lightgbm(words, rounds, X, codes):
    import lightgbm

    booster = lightgbm.train(words, lightgbm.Dataset(X, label=codes), num_boost_round=rounds)

    def scores(X, first, last):
        return booster.predict(
            X,
            raw_score=True,
            start_iteration=first,
            num_iteration=last - first,
            num_threads=words["num_threads"],
        )

    return Fitted(booster, booster.current_iteration(), booster.num_trees(), scores=scores)


def fit_two_leaf_lightgbm(X, codes, rounds, threads=1):
    """LightGBM with two-leaf trees, data preparation included; every other parameter is its default."""
    words = {"objective": "multiclass", "num_class": int(codes.max()) + 1, "num_leaves": 2}
    return _fit_lightgbm({**words, "num_threads": threads, "verbosity": -1}, rounds, X, codes=codes)
