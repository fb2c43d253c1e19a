"""Import of scikit-learn forests from fitted estimators."""

from typing import Any

import numpy as np

from pymcboost.export.foreign import LARGEST, MOST_CLASSES, Tree, floats_below, model_of, refuse
from pymcboost.model.model import Model

FORESTS = ("RandomForestClassifier", "ExtraTreesClassifier")
# Fields of a node in scikit-learn 1.0 to 1.9. A field of a later version may change where rows go.
FIELDS = {
    "left_child",
    "right_child",
    "feature",
    "threshold",
    "impurity",
    "n_node_samples",
    "weighted_n_node_samples",
    "missing_go_to_left",
}
STATE = {"max_depth", "node_count", "nodes", "values"}


def from_sklearn(forest: Any, labels: Any = None) -> Model:
    """Import a forest of scikit-learn.

    Parameters
    ----------
    forest : RandomForestClassifier or ExtraTreesClassifier
        Fitted forest with one output.
    labels : array-like of shape (K,), default=None
        Distinct labels, integers or strings, that replace ``forest.classes_`` in the same order.

    Returns
    -------
    Model
        The imported model. Each tree is a round, and the first rounds are the forest of these trees.

    Raises
    ------
    TypeError
        If the argument is not such a forest.
    ValueError
        If the forest is not fitted, or has several outputs, only one class, or labels that a model file cannot store.
    ModelFormatError
        If the trees contain something that a `Model` cannot represent.

    Notes
    -----
    A leaf holds the probabilities of the classes, and the score of a class is their sum over the trees. The link is
    "shares": the probabilities are the scores divided by their sum, which is the mean over the trees, as in
    ``forest.predict_proba``. They differ by less than 1e-6. Since the link is not a softmax, the model cannot have a
    temperature.

    Float32 rows reach the same leaves, including rows with missing values. Leaf values are rounded to float32.
    ``meta["score_error"]`` bounds the resulting error of a score. Classes whose scores differ by more than twice this
    bound keep their order.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(n_estimators=10, random_state=0).fit(X, y)
    >>> bool((from_sklearn(forest).predict(X) == forest.predict(X)).all())
    True
    """
    name = type(forest).__name__
    if name not in FORESTS or not type(forest).__module__.startswith("sklearn.ensemble."):
        raise TypeError(
            f"give a fitted {' or '.join(FORESTS)} of scikit-learn, not {type(forest).__name__}"
        )
    if not hasattr(forest, "estimators_"):
        raise ValueError(f"this {name} is not fitted; call fit first")
    if forest.n_outputs_ != 1:
        raise ValueError(
            f"this {name} has {forest.n_outputs_} outputs; only forests with one output can be "
            "converted"
        )
    n_classes = len(forest.classes_)
    where = f"the {name}"
    if not 2 <= n_classes <= MOST_CLASSES:
        raise ValueError(
            f"this {name} has {n_classes} classes; a model supports 2 to {MOST_CLASSES}"
        )
    trees = [
        _tree(estimator.tree_, f"{where}: tree {t}")
        for t, estimator in enumerate(forest.estimators_)
    ]
    meta = {"imported": "scikit-learn", "estimator": name, "precision": 2.0**-50}
    names = getattr(forest, "feature_names_in_", None)
    if names is not None:
        meta["feature_names"] = [str(column) for column in names]
    return model_of(
        trees,
        rounds=[1] * len(trees),
        bias=np.zeros(n_classes),
        n_features=forest.n_features_in_,
        meta=meta,
        link="shares",
        where=where,
        labels=forest.classes_ if labels is None else labels,
    )


def _tree(tree, where):
    """Convert a tree whose leaves hold the share of every class."""
    state = tree.__getstate__()
    nodes = state["nodes"]
    unknown = [key for key in state if key not in STATE]
    unknown += [key for key in nodes.dtype.names if key not in FIELDS]
    if unknown:
        refuse(
            f"{where}: it has the unknown field {unknown[0]!r}, which scikit-learn 1.9 does not have"
        )
    is_leaf = nodes["left_child"] < 0
    # An infinite threshold separates numbers from missing values.
    threshold = np.minimum(np.where(is_leaf, 0.0, nodes["threshold"]), LARGEST)
    missing_left = np.zeros(len(nodes), dtype=bool)
    if "missing_go_to_left" in nodes.dtype.names:
        missing_left = nodes["missing_go_to_left"] > 0
    value = np.asarray(state["values"], dtype=np.float64)[:, 0, :]
    # 1 from scikit-learn 1.3 on; before, the weight of the rows.
    total = value.sum(axis=1, keepdims=True)
    return Tree(
        left=nodes["left_child"].astype(np.int64),
        right=nodes["right_child"].astype(np.int64),
        leaf=is_leaf,
        feature=np.where(is_leaf, 0, nodes["feature"]).astype(np.int64),
        threshold=floats_below(threshold),
        missing_left=missing_left,
        value=np.divide(value, total, out=np.zeros_like(value), where=total > 0),
        cls=-1,
    )
