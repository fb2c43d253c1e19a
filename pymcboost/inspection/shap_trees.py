"""Conversion of trees for the package shap.

Its nodes have thresholds. A set of levels is a union of intervals of codes, and a split on it a tree of thresholds
over these intervals, in which what lies on either side of the split is repeated. Each copy has its share of the rows.
So the copies of a leaf together have the leaf's chances, with the feature and without it: Shapley values stay as they
are.
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
    node_index = np.arange(s)
    leaf = np.full(s + 1, -1)
    left = np.where(middle - begin == 1, s + begin, node_index + 1)
    turned = np.where(end - middle == 1, s + middle, node_index + right[splits])
    begin = np.concatenate([begin, np.arange(s + 1)])
    end = np.concatenate([end, np.arange(1, s + 2)])
    return {
        "children_left": np.concatenate([left, leaf]),
        "children_right": np.concatenate([turned, leaf]),
        "children_default": np.concatenate([np.where(nan_left[splits], left, turned), leaf]),
        "features": np.concatenate([feature[splits], leaf]),
        "thresholds": np.concatenate([threshold[splits], np.zeros(s + 1)]),
        "values": np.concatenate(
            [np.zeros((s, ensemble.n_classes)), _values(ensemble, t, first + np.arange(s + 1))]
        ),
        "node_sample_weight": (ends[first + end] - ends[first + begin]).astype(np.float64),
    }


def _expanded(ensemble, t, first, ends, sets):
    """Convert a tree with sets of levels, given by split number; all nodes are in preorder."""
    offset, feature, threshold, nan_left, right = ensemble.splits()
    nodes = []
    leaves = []
    categories = ensemble.categories
    # A part of the tree: its splits, first leaf, share of its rows, the possible codes by feature, and the links from
    # its parent. A part of runs holds the intervals of codes of its first split, and their counts.
    parts = [((int(offset[t]), int(offset[t + 1]), int(first)), 1.0, {}, None, None, None)]
    while parts:
        (i, end, leaf_index), share, codes, runs, parent, sides = parts.pop()
        if parent is not None:
            for side in sides:
                nodes[parent][side] = len(nodes)
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
        to_left = bool(nan_left[i])
        children = (i + 1, i + step, leaf_index), (i + step, end, leaf_index + step)
        rows = [ends[b + e - a + 1] - ends[b] for a, e, b in children]
        if runs is None and i - offset[t] in sets:
            runs = _runs(sets[i - offset[t]], codes.get(j), categories, j)
        if runs is None:
            low = float(threshold[i])
            for child, side in ((1, "children_right"), (0, "children_left")):
                names = (
                    (side, "children_default") if to_left == (side == "children_left") else (side,)
                )
                parts.append((children[child], share, codes, None, len(nodes), names))
            nodes.append(_node(j, low, share * sum(rows)))
            continue
        if len(runs) == 1:
            side, mine, part = runs[0]
            part = (children[side], share * part, {**codes, j: mine}, None, parent, sides)
            parts.append(part)
            continue
        middle = len(runs) // 2
        lower = runs[:middle]
        upper = runs[middle:]
        # Missing values go to the first interval of their side.
        missing = any(side != to_left for side, *_ in lower)
        for half, side in ((upper, "children_right"), (lower, "children_left")):
            names = (side, "children_default") if missing == (side == "children_left") else (side,)
            parts.append(((i, end, leaf_index), share, codes, half, len(nodes), names))
        weight = share * sum(part * rows[side] for side, _, part in runs)
        last = lower[-1][1]
        nodes.append(_node(j, last[-1] + 0.5 if len(last) else 0.5, weight))
    return _arrays(ensemble, t, nodes, leaves)


def _node(feature, threshold, weight):
    none = {"children_left": -1, "children_right": -1, "children_default": -1}
    return {
        **none,
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
    parts = np.split(codes, np.flatnonzero(np.diff(side)) + 1) if len(codes) else []
    starts = np.concatenate([[0], np.cumsum([len(part) for part in parts], dtype=np.int64)])[
        : len(parts)
    ]
    runs = [
        (int(side[s]), part, len(part) / counts[side[s]])
        for s, part in zip(starts, parts, strict=True)
    ]
    return runs + [(empty, codes[:0], 1.0) for empty in (0, 1) if not counts[empty]]


def _arrays(ensemble, t, nodes, leaves):
    """Nodes as a tree for shap; leaves are given as (node, leaf number)."""
    values = np.zeros((len(nodes), ensemble.n_classes))
    node_index, number = (np.array(part) for part in zip(*leaves, strict=True))
    values[node_index] = _values(ensemble, t, number)
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
