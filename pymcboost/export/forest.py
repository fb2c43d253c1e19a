"""The trees of a model, for formats with nodes and with leaves that vote for classes."""

import numpy as np

from pymcboost.inspection.subject import model_of

# Relative error of a float32 sum per term.
PRECISION = 2.0**-23
# Number of values in a block of rows.
BLOCK = 1 << 22


def of_one_label(model):
    """Return the `Model`; refuse multi-label models and splits on categories."""
    model = model_of(model)
    if model.link == "sigmoid":
        raise ValueError("exports support one label per row; this model is multi-label")
    model.ensemble.need_thresholds("exports", "; mcb.h can score it")
    return model


def forest(model, target, also=""):
    """Trees in the form of a dump, at least one, and the code or None; only sums of stumps or trees are allowed.

    ``also``: what else the target can store, for the message.
    """
    ensemble = model.ensemble
    obstacle = None
    if ensemble.KIND not in (1, 3):
        obstacle = f"kind {ensemble.KIND}: {ensemble.NAME}"
    elif ensemble.decoder != "linear":
        obstacle = f"decoder={ensemble.decoder!r}"
    if obstacle is not None:
        raise ValueError(
            f"{target} can store stumps and trees whose leaves are summed{also}; this model "
            f"has {obstacle}"
        )
    if not len(ensemble):
        return [{"class": 0, "base": None, "nodes": [{"value": 0.0}]}], None
    contents = dict(ensemble.dump())
    code = None if contents["code"] is None else np.array(contents["code"])
    return list(contents["trees"]), code


def votes(value, tree, code):
    """Votes of a leaf, as (class, value)."""
    if tree["class"] is None:
        return list(enumerate(value))
    if code is not None:
        return list(enumerate((np.float64(value) * code[tree["class"]]).tolist()))
    if tree["base"] is None:
        return [(tree["class"], value)]
    return [(tree["class"], value), (tree["base"], -value)]


def errors_of(model, X):
    """Bound, for each row, on the error of its scores if a runtime adds them in float32.

    Stumps and trees have one bound for all rows, see `error_of`. The bounds of a linear machine depend on the row x: d
    products and a bias are rounded, each at most d + 1 times, by 2^-24 of their magnitude at most, in any order. So an
    error is at most g (|w| |x| + |b|) for the weights w and the bias b of a class, with g = n / (2^24 - n). Here
    n = d + 2, one more than needed, for the rounding of `Model.raw_scores`. Products below the smallest number of
    float32 are ignored. The bound is infinite if n is 2^24 or more.

    Parameters
    ----------
    model : Model
    X : ndarray or compressed sparse rows (m, d)

    Returns
    -------
    ndarray of float64 (m,)
    """
    ensemble = model.ensemble
    m = X.shape[0]
    if ensemble.KIND != 5:
        return np.full(m, error_of(model, *forest(model, "float32")))
    weight = np.abs(ensemble.coef.astype(np.float64)).T
    bias = np.abs(ensemble.bias.astype(np.float64))
    n = len(weight) + 2
    bounds = np.full(m, np.inf)
    if n >= 2**24:
        return bounds
    n_values = len(X.data) * len(bias) if hasattr(X, "indptr") else m * len(weight)
    step = max(1, BLOCK * m // max(1, n_values))
    for begin in range(0, m, step):
        rows = slice(begin, min(m, begin + step))
        bounds[rows] = n / (2**24 - n) * (_sizes(X, rows, weight) + bias).max(axis=1)
    return bounds


def _sizes(X, rows, weight):
    """For some rows, sums of the magnitudes of their products with the weights (d, K)."""
    if not hasattr(X, "indptr"):
        return np.abs(np.asarray(X[rows], dtype=np.float64)) @ weight
    ends = X.indptr[rows.start : rows.stop + 1]
    entries = slice(ends[0], ends[-1])
    size = np.zeros((len(ends) - 1, weight.shape[1]))
    row = np.repeat(np.arange(len(size)), np.diff(ends))
    values = np.abs(X.data[entries].astype(np.float64))
    np.add.at(size, row, values[:, None] * weight[X.indices[entries]])
    return size


def error_of(model, trees, code):
    """Bound on the error of a score that is summed in float32."""
    size = np.abs(model.ensemble.bias.astype(np.float64))
    terms = np.ones(model.n_classes_)
    for tree in trees:
        largest = np.zeros(model.n_classes_)
        leaves = [node for node in tree["nodes"] if "value" in node]
        for leaf in leaves:
            for cls, value in votes(leaf["value"], tree, code):
                largest[cls] = max(largest[cls], abs(value))
        size = size + largest
        terms = terms + (largest > 0)
    return float((terms * PRECISION * size).max())
