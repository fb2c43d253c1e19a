"""Classifiers of this and other libraries with probabilities, as scikit-learn's users make them: one thread, a seed.

`CLASSIFIERS` names a function of parameters for each; `SPACES` what a random search may choose for it.
"""

import importlib.util
import pickle

import numpy as np

from shared.peers import Absent

CATBOOST_ROUNDS = 500


def _ours(name, **fixed):
    def make(**params):
        import pymcboost

        return getattr(pymcboost, name)(**{"n_jobs": 1, "random_state": 0, **fixed, **params})

    return make


def _lightgbm(**params):
    import lightgbm

    return lightgbm.LGBMClassifier(**{"n_jobs": 1, "random_state": 0, "verbose": -1, **params})


def _lightgbm_bounded(**params):
    return _lightgbm(min_child_weight=1.0, **params)


def _xgboost(**params):
    import xgboost

    return xgboost.XGBClassifier(**{"n_jobs": 1, "random_state": 0, **params})


def _xgboost_vector(**params):
    return _xgboost(multi_strategy="multi_output_tree", tree_method="hist", **params)


def _catboost(**params):
    import catboost

    fixed = {"thread_count": 1, "random_seed": 0, "verbose": False, "allow_writing_files": False}
    return catboost.CatBoostClassifier(**{**fixed, **params})


def _histogram(**params):
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(**{"random_state": 0, **params})


def _logistic(C=1.0):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    return make_pipeline(MaxAbsScaler(), LogisticRegression(C=C, max_iter=300))


def _svm(C=1.0, gamma="scale"):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler
    from sklearn.svm import SVC

    machine = SVC(C=C, gamma=gamma, cache_size=500, random_state=0)
    return make_pipeline(MaxAbsScaler(), CalibratedClassifierCV(machine, ensemble=False, cv=3))


CLASSIFIERS = {
    "vector": _ours("VectorTreeBoostClassifier"),
    "vector-raw": _ours("VectorTreeBoostClassifier", calibrate=None),
    "vector-auto": _ours("VectorTreeBoostClassifier", n_estimators="auto"),
    "abc-logitboost": _ours("ABCLogitBoostClassifier"),
    "logitboost": _ours("LogitBoostClassifier"),
    "mcboost": _ours("MCBoostClassifier"),
    "lightgbm": _lightgbm,
    "lightgbm-bounded": _lightgbm_bounded,
    "xgboost": _xgboost,
    "xgboost-vector": _xgboost_vector,
    "catboost": _catboost,
    "histogram": _histogram,
    "logistic": _logistic,
    "svm": _svm,
}
MODULES = {
    "lightgbm": "lightgbm", "lightgbm-bounded": "lightgbm", "xgboost": "xgboost", "xgboost-vector": "xgboost",
    "catboost": "catboost",
}  # fmt: skip


def between(low, high):
    """A number drawn evenly on a logarithmic scale."""
    return lambda rng: float(np.exp(rng.uniform(np.log(low), np.log(high))))


def whole(low, high):
    """The same, rounded."""
    return lambda rng: round(between(low, high)(rng))


def one_of(*values):
    """One of the values."""
    return lambda rng: values[rng.integers(len(values))]


def even(low, high):
    """A number drawn evenly."""
    return lambda rng: float(rng.uniform(low, high))


SPACES = {
    "vector": {
        "n_estimators": whole(50, 500), "learning_rate": between(0.02, 0.3), "max_leaf_nodes": whole(8, 200),
        "min_samples_leaf": whole(1, 20), "max_features": between(0.05, 1), "subsample": even(0.3, 1),
        "l2_regularization": between(1e-4, 1e-1), "min_relative_gain": between(0.03, 1),
    },
    "lightgbm": {
        "n_estimators": whole(50, 500), "learning_rate": between(0.02, 0.3), "num_leaves": whole(8, 200),
        "min_child_samples": whole(1, 40), "colsample_bytree": even(0.3, 1), "subsample": even(0.5, 1),
        "subsample_freq": one_of(1), "reg_lambda": between(1e-3, 10), "min_child_weight": between(1e-3, 1),
    },
    "xgboost": {
        "n_estimators": whole(50, 500), "learning_rate": between(0.02, 0.3), "max_depth": whole(3, 10),
        "min_child_weight": between(0.1, 10), "colsample_bytree": even(0.3, 1), "subsample": even(0.5, 1),
        "reg_lambda": between(1e-2, 10),
    },
    "catboost": {
        "iterations": whole(50, CATBOOST_ROUNDS), "learning_rate": between(0.02, 0.3), "depth": whole(3, 10),
        "l2_leaf_reg": between(0.3, 10), "random_strength": between(0.1, 10), "bagging_temperature": even(0, 1),
    },
    "histogram": {
        "max_iter": whole(50, 500), "learning_rate": between(0.02, 0.3), "max_leaf_nodes": whole(8, 200),
        "min_samples_leaf": whole(1, 40), "l2_regularization": between(1e-3, 10), "max_features": even(0.3, 1),
    },
    "logistic": {"C": between(1e-3, 1e3)},
    "svm": {"C": between(1e-1, 1e3), "gamma": between(1e-3, 1e1)},
}  # fmt: skip
SPACES["xgboost-vector"] = SPACES["xgboost"]


def drawn(method, seed):
    """Configuration number ``seed`` of a method's space."""
    rng = np.random.default_rng([seed, sum(map(ord, method))])
    return {name: draw(rng) for name, draw in SPACES[method].items()}


def make(method, **params):
    """A classifier that has not been fitted."""
    module = MODULES.get(method)
    if module and importlib.util.find_spec(module) is None:
        raise Absent(module)
    return CLASSIFIERS[method](**params)


def size_of(model):
    """Bytes of the model in its library's own file, or of its pickle."""
    if hasattr(model, "model_"):
        return len(model.model_.to_bytes())
    if hasattr(model, "booster_"):
        return len(model.booster_.model_to_string().encode())
    if hasattr(model, "get_booster"):
        return len(model.get_booster().save_raw("ubj"))
    if hasattr(model, "_serialize_model"):
        return len(model._serialize_model())
    return len(pickle.dumps(model))
