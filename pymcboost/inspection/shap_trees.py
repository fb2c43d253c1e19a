"""Trees in the form that the package shap takes."""

from typing import Any

import numpy as np

from pymcboost.inspection.subject import model_of, sum_of_learners
from pymcboost.model import covers


def to_shap(model: Any) -> dict[str, Any]:
    """What ``shap.TreeExplainer`` takes: stumps or trees, with an output for each class.

    `contributions` has the same values, faster, and needs no other package. This is for shap's plots and other tools.
    Thresholds of columns with offsets are those of values less the offset: give shap `Model.features(X)`.

    Parameters
    ----------
    model : Model or fitted estimator
        Of stumps or trees, with covers; see `Model.with_covers`.

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        Without covers, for splits on categories, and where `contributions` refuses.

    Examples
    --------
    ``shap.TreeExplainer(to_shap(model.with_covers(X_train))).shap_values(X)`` has the shape (m, n, K).
    """
    model = model_of(model)
    ensemble = sum_of_learners(model, "trees for shap")
    ensemble.need_thresholds("trees for shap", ", or use contributions")
    if ensemble.cover is None:
        raise ValueError("trees for shap hold the rows of their nodes; give model.with_covers(X_train)")
    ends = covers.running_sums(ensemble.cover)
    return {
        "trees": [_tree(ensemble, t, first, ends) for t, first in enumerate(covers.first_leaves(ensemble)[:-1])],
        "base_offset": ensemble.bias.astype(np.float64),
        "input_dtype": np.float32,
        "internal_dtype": np.float64,
        "tree_output": "raw_value",
    }


def _tree(ensemble, t, first, ends):
    """One tree: its splits in preorder, then its leaves."""
    offset, feature, threshold, nan_left, right = ensemble.splits()
    own = slice(offset[t], offset[t + 1])
    s = len(feature[own])
    begin, middle, end = covers.spans(right[own])
    at = np.arange(s)
    leaf = np.full(s + 1, -1)
    left = np.where(middle - begin == 1, s + begin, at + 1)
    turned = np.where(end - middle == 1, s + middle, at + right[own])
    begin, end = np.concatenate([begin, np.arange(s + 1)]), np.concatenate([end, np.arange(1, s + 2)])
    return {
        "children_left": np.concatenate([left, leaf]),
        "children_right": np.concatenate([turned, leaf]),
        "children_default": np.concatenate([np.where(nan_left[own], left, turned), leaf]),
        "features": np.concatenate([feature[own], leaf]),
        "thresholds": np.concatenate([threshold[own], np.zeros(s + 1)]),
        "values": np.concatenate([np.zeros((s, ensemble.n_classes)), _values(ensemble, t, first + np.arange(s + 1))]),
        "node_sample_weight": (ends[first + end] - ends[first + begin]).astype(np.float64),
    }


def _values(ensemble, t, leaves):
    """Scores (leaves, K) that the leaves of a tree add."""
    value = ensemble.leaves()[leaves].astype(np.float64)
    if value.ndim == 2:
        return value
    if ensemble.code is not None:
        return value[:, None] * ensemble.code[ensemble.cls[t]].astype(np.float64)
    scores = np.zeros((len(leaves), ensemble.n_classes))
    scores[:, ensemble.cls[t]] = value
    if ensemble.base is not None and ensemble.base[t] >= 0:
        scores[:, ensemble.base[t]] = -value
    return scores
