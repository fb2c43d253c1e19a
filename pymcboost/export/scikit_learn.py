"""Forests of scikit-learn, from the fitted estimator."""

from typing import Any

import numpy as np

from pymcboost.export.foreign import LARGEST, MOST_CLASSES, Tree, floats_below, model_of, refuse
from pymcboost.model.model import Model

FORESTS = ("RandomForestClassifier", "ExtraTreesClassifier")
# What scikit-learn 1.0 to 1.9 keeps of a node. A field of a later version may change where rows go.
FIELDS = {
    "left_child", "right_child", "feature", "threshold", "impurity", "n_node_samples", "weighted_n_node_samples",
    "missing_go_to_left",
}  # fmt: skip
STATE = {"max_depth", "node_count", "nodes", "values"}


def from_sklearn(forest: Any, labels: Any = None) -> Model:
    """A forest of scikit-learn as a `Model`.

    A leaf holds the probabilities of the classes, and the score of a class is their sum over the trees. The link is
    "shares": probabilities are the scores divided by their sum, which is the mean over the trees, as
    ``forest.predict_proba`` gives it. Rows of float32 fall into the same leaves, missing values too. Leaves are rounded
    to float32: ``meta["score_error"]`` bounds what that does to a score, and classes whose scores differ by more than
    twice as much keep their order. Probabilities differ by less than 1e-6.

    A softmax would be no link of such scores, so that the model takes no temperature. Every tree is a round, and the
    first rounds are the forest of these trees.

    Parameters
    ----------
    forest : RandomForestClassifier or ExtraTreesClassifier
        Fitted, of one output.
    labels : array-like (K,), optional
        Distinct integers or strings in place of ``forest.classes_``, in that order.

    Returns
    -------
    Model

    Raises
    ------
    TypeError
        If it is no such forest.
    ValueError
        If it is not fitted, has several outputs, one class, or labels that a model file cannot hold.
    ModelFormatError
        If its trees hold what a `Model` cannot.
    """
    name = type(forest).__name__
    if name not in FORESTS or not type(forest).__module__.startswith("sklearn.ensemble."):
        raise TypeError(
            f"give a fitted {' or '.join(FORESTS)} of scikit-learn, not {type(forest).__name__}"
        )
    if not hasattr(forest, "estimators_"):
        raise ValueError(f"this {name} is not fitted; call fit first")
    if forest.n_outputs_ != 1:
        raise ValueError(f"this {name} has {forest.n_outputs_} outputs; a model has one")
    n_classes, where = len(forest.classes_), f"the {name}"
    if not 2 <= n_classes <= MOST_CLASSES:
        raise ValueError(f"this {name} has {n_classes} classes; a model has 2 to {MOST_CLASSES}")
    trees = [_tree(each.tree_, f"{where}: tree {t}") for t, each in enumerate(forest.estimators_)]
    meta = {"imported": "scikit-learn", "estimator": name, "precision": 2.0**-50}
    names = getattr(forest, "feature_names_in_", None)
    if names is not None:
        meta["feature_names"] = [str(column) for column in names]
    labels = forest.classes_ if labels is None else labels
    bias = np.zeros(n_classes)
    return model_of(
        trees, [1] * len(trees), bias, forest.n_features_in_, meta, "shares", where, labels
    )


def _tree(tree, where):
    """A tree whose leaves hold the share of every class."""
    state = tree.__getstate__()
    for known, found in ((STATE, state), (FIELDS, state["nodes"].dtype.names)):
        for key in found:
            if key not in known:
                refuse(f"{where}: it has the field {key!r}, which scikit-learn 1.9 does not have")
    nodes = state["nodes"]
    missing = "missing_go_to_left" in nodes.dtype.names
    leaf = nodes["left_child"] < 0
    value = np.asarray(state["values"], dtype=np.float64)[:, 0, :]
    total = value.sum(
        axis=1, keepdims=True
    )  # 1 from scikit-learn 1.3 on, before that the weight of the rows
    return Tree(
        nodes["left_child"].astype(np.int64),
        nodes["right_child"].astype(np.int64),
        leaf,
        np.where(leaf, 0, nodes["feature"]).astype(np.int64),
        # Infinity separates numbers from missing values.
        floats_below(np.minimum(np.where(leaf, 0.0, nodes["threshold"]), LARGEST)),
        nodes["missing_go_to_left"] > 0 if missing else np.zeros(len(nodes), dtype=bool),
        np.divide(value, total, out=np.zeros_like(value), where=total > 0),
        -1,
    )
