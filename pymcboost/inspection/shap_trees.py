"""Conversion of trees for the package shap.

All nodes of shap have thresholds. A set of levels is a union of intervals of codes. A split on it becomes a tree of
thresholds over these intervals, and both sides of the split are repeated in it. Each copy has its share of the rows. So
the copies of a leaf together have the probability of the leaf, with the feature and without it, and Shapley values do
not change.
"""

from typing import Any

import numpy as np

from pymcboost.inspection.subject import model_of, sum_of_learners
from pymcboost.model import covers

# Maximum number of nodes of a tree with sets of levels.
MOST_NODES = 1 << 16


def to_shap(model: Any) -> dict[str, Any]:
    """Convert a model of stumps or trees for ``shap.TreeExplainer``, with one output per class.

    Use it for the plots of the shap package and for other tools. `contributions` computes the same values faster and
    needs no other package.

    Parameters
    ----------
    model : Model or fitted estimator
        Model of stumps or trees with covers; see `Model.with_covers`.

    Returns
    -------
    dict
        Argument of ``shap.TreeExplainer``.

    Raises
    ------
    ValueError
        If the model has no covers, if a tree would have more than 65,536 nodes because of its sets of categories, or if
        `contributions` does not support the model.

    Notes
    -----
    Pass ``model.features(X)`` to shap if the model has categorical features: thresholds lie between codes. Codes that
    the model does not know must be NaN there. shap does not support sets of categories. A split on a set becomes splits
    on intervals of codes, and the subtree below is repeated for each of them. Trees become large if sets consist of
    many intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> y = np.digitize(X[:, 0], [-1, 1])
    >>> model = VectorTreeBoostClassifier(n_estimators=5, random_state=0).fit(X, y).model_.with_covers(X)
    >>> trees = to_shap(model)
    >>> import shap  # doctest: +SKIP
    >>> shap.TreeExplainer(trees).shap_values(X).shape  # doctest: +SKIP
    (300, 4, 3)
    """
    model = model_of(model)
    ensemble = sum_of_learners(model, "trees for shap")
    if ensemble.cover is None:
        raise ValueError(
            "trees for shap need the number of rows in every node; use model.with_covers(X_train)"
        )
    ends = covers.running_sums(ensemble.cover)
    trees = zip(
        range(len(ensemble)), covers.first_leaves(ensemble), ensemble.each_sets(), strict=False
    )
    return {
        "trees": [
            _expanded(ensemble, t, first, ends, sets) if sets else _tree(ensemble, t, first, ends)
            for t, first, sets in trees
        ],
        "base_offset": ensemble.bias.astype(np.float64),
        "input_dtype": np.float32,
        "internal_dtype": np.float64,
        "tree_output": "raw_value",
    }


def _tree(ensemble, t, first, ends):
    """Convert a tree: its splits in preorder, followed by its leaves."""
    offset, feature, threshold, nan_left, right = ensemble.splits()
    splits = slice(offset[t], offset[t + 1])
    s = len(feature[splits])
    begin, middle, end = covers.spans(right[splits])
    split = np.arange(s)
    left_child = np.where(middle - begin == 1, s + begin, split + 1)
    right_child = np.where(end - middle == 1, s + middle, split + right[splits])
    default_child = np.where(nan_left[splits], left_child, right_child)
    leaf_values = _values(ensemble, t, first + np.arange(s + 1))
    no_child = np.full(s + 1, -1)
    begin = np.concatenate([begin, np.arange(s + 1)])
    end = np.concatenate([end, np.arange(1, s + 2)])
    return {
        "children_left": np.concatenate([left_child, no_child]),
        "children_right": np.concatenate([right_child, no_child]),
        "children_default": np.concatenate([default_child, no_child]),
        "features": np.concatenate([feature[splits], np.full(s + 1, -1)]),
        "thresholds": np.concatenate([threshold[splits], np.zeros(s + 1)]),
        "values": np.concatenate([np.zeros((s, ensemble.n_classes)), leaf_values]),
        "node_sample_weight": (ends[first + end] - ends[first + begin]).astype(np.float64),
    }


def _expanded(ensemble, t, first, ends, sets):
    """Convert a tree with sets of levels, given by split number; all nodes are in preorder."""
    offset, feature, threshold, nan_left, right = ensemble.splits()
    nodes = []
    leaves = []
    categories = ensemble.categories
    # Parts of the tree that are still to be converted: a subtree (its splits from i to end, and its first leaf), the
    # share of its rows, the possible codes by feature, the remaining intervals of its first split if that is on a set,
    # and the links from the parent node.
    root = (int(offset[t]), int(offset[t + 1]), int(first))
    waiting = [(root, 1.0, {}, None, None, ())]
    while waiting:
        subtree, share, codes, runs, parent, links = waiting.pop()
        i, end, leaf_index = subtree
        for link in links:
            nodes[parent][link] = len(nodes)
        if len(nodes) >= MOST_NODES:
            raise ValueError(
                f"tree {t} would need more than {MOST_NODES} nodes for shap, because splits on "
                "categories are expanded into one node per interval of codes; use "
                "contributions, or train with fewer levels or leaves"
            )
        if i == end:
            nodes.append(_node(-1, 0.0, share * (ends[leaf_index + 1] - ends[leaf_index])))
            leaves.append((len(nodes) - 1, leaf_index))
            continue
        step = int(right[i])
        j = int(feature[i])
        children = (i + 1, i + step, leaf_index), (i + step, end, leaf_index + step)
        rows = [ends[b + e - a + 1] - ends[b] for a, e, b in children]
        if runs is None and i - offset[t] in sets:
            runs = _runs(sets[i - offset[t]], codes.get(j), categories, j)
        if runs is None:  # a split on a threshold
            left_links, right_links = _links(bool(nan_left[i]))
            waiting.append((children[1], share, codes, None, len(nodes), right_links))
            waiting.append((children[0], share, codes, None, len(nodes), left_links))
            nodes.append(_node(j, float(threshold[i]), share * sum(rows)))
        elif len(runs) == 1:  # all remaining codes are on one side of the set
            side, codes_of_run, share_of_run = runs[0]
            codes = {**codes, j: codes_of_run}
            waiting.append((children[side], share * share_of_run, codes, None, parent, links))
        else:  # a threshold between the intervals
            lower = runs[: len(runs) // 2]
            upper = runs[len(runs) // 2 :]
            # Missing values go to the first interval of their side.
            missing_side = 0 if nan_left[i] else 1
            left_links, right_links = _links(any(side == missing_side for side, *_ in lower))
            waiting.append((subtree, share, codes, upper, len(nodes), right_links))
            waiting.append((subtree, share, codes, lower, len(nodes), left_links))
            weight = share * sum(share_of_run * rows[side] for side, _, share_of_run in runs)
            _, last_codes, _ = lower[-1]
            nodes.append(_node(j, last_codes[-1] + 0.5 if len(last_codes) else 0.5, weight))
    return _arrays(ensemble, t, nodes, leaves)


def _links(missing_left):
    """Names of a node's links to its left child, and to its right child."""
    left = ("children_left",)
    right = ("children_right",)
    default = ("children_default",)
    return (left + default, right) if missing_left else (left, right + default)


def _node(feature, threshold, weight):
    """A node without children yet."""
    return {
        "children_left": -1,
        "children_right": -1,
        "children_default": -1,
        "features": feature,
        "thresholds": threshold,
        "node_sample_weight": float(weight),
    }


def _runs(bits, codes, categories, j):
    """Intervals of codes at a set: (side, the codes in it, share of the side's rows).

    A side without codes, to which missing values may go, has an empty interval after all others.
    """
    if codes is None:
        codes = np.arange(categories.levels[np.searchsorted(categories.feature, j)])
    side = 1 - np.unpackbits(bits, bitorder="little")[codes].astype(np.int64)
    counts = np.bincount(side, minlength=2)
    runs = []
    if len(codes):
        ends = [*(np.flatnonzero(np.diff(side)) + 1).tolist(), len(codes)]
        begin = 0
        for end in ends:
            side_of_run = int(side[begin])
            runs.append((side_of_run, codes[begin:end], (end - begin) / counts[side_of_run]))
            begin = end
    return runs + [(empty_side, codes[:0], 1.0) for empty_side in (0, 1) if not counts[empty_side]]


def _arrays(ensemble, t, nodes, leaves):
    """Nodes as a tree for shap; leaves are given as (node, leaf number)."""
    values = np.zeros((len(nodes), ensemble.n_classes))
    node_index, leaf_number = np.array(leaves).T
    values[node_index] = _values(ensemble, t, leaf_number)
    return {
        "values": values,
        **{name: np.array([node[name] for node in nodes]) for name in nodes[0]},
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
