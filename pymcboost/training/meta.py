"""Information on the training that is stored in a model file."""

import re
import zlib
from collections.abc import Mapping
from dataclasses import fields
from numbers import Real

import numpy as np

from pymcboost._version import __version__
from pymcboost.losses.own import shown as shown_own
from pymcboost.model.categories import Categories
from pymcboost.training.parameters import values_of

# Parameters that are not stored because they do not change the model, and parameters that are stored only if set.
NOT_IN_MODEL = {"n_jobs", "verbose", "warm_start"}
WHERE_SET = {
    "scoring",
    "min_delta",
    "cv",
    "calibrate",
    "restore_priors",
    "interaction_cst",
    "monotonic_cst",
    "decision_threshold",
    "categorical_features",
    "min_samples_category",
    "max_leaf_entries",
    "leaf_levels",
    "feature_penalty",
    "threshold_penalty",
}


def meta_of(estimator, feature_names=None):
    """Algorithm, parameters, version and feature names, if any: a dictionary that can be stored as JSON."""
    params = values_of(estimator)
    defaults = defaults_of(estimator)
    shown = {name: _plain(value) for name, value in params.items() if name not in NOT_IN_MODEL}
    if "loss" in shown:
        shown["loss"] = shown_own(params["loss"])
    if "scoring" in shown:
        shown["scoring"] = _scoring(params["scoring"])
    for name in WHERE_SET & {*shown}:
        if shown[name] == defaults[name]:
            del shown[name]
    folds = shown.get("cv")
    if isinstance(folds, list):  # the row numbers would take too much room in the file
        shown["cv"] = f"{len(folds)} folds with the checksum {zlib.crc32(repr(folds).encode()):08x}"
    meta = {"algorithm": estimator.algorithm, "params": shown, "version": __version__}
    if feature_names is not None:
        meta["feature_names"] = feature_names
    return meta


def _scoring(scoring):
    """A metric, a list of metrics, or a list of (name, metric) pairs.

    The order is kept, because the first one decides.
    """
    if isinstance(scoring, Mapping):
        return [[name, shown_own(metric)] for name, metric in scoring.items()]
    if isinstance(scoring, (list, tuple)):
        return [shown_own(metric) for metric in scoring]
    return shown_own(scoring)


def defaults_of(estimator):
    """Defaults of the parameters, in the form of `meta_of`."""
    return {field.name: _plain(field.default) for field in fields(estimator)}


def _plain(value):
    """Convert a value to a type that JSON can store."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if hasattr(value, "split"):  # a splitter, whose address differs between processes
        return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
    if isinstance(value, Categories):
        return value.feature.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Real):
        return value if isinstance(value, (int, float)) else float(value)
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [_plain(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(v) for v in value), key=repr)
    if hasattr(value, "tolist"):  # pandas and other libraries
        return _plain(value.tolist())
    return repr(type(value).__name__)
