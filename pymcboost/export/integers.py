"""Models whose scores are sums of integers: features, thresholds and leaves as such."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymcboost.export.forest import of_one_label

TYPES = ("int8", "int16", "int32")
FEATURES = ("uint8", "int8", "uint16", "int16", "int32")
LARGEST = (1 << 31) - 1
# Integers below it are exact in float32, which the model compares.
EXACT = 1 << 24
LEAVES = {1: ("right", "left"), 3: ("leaf",)}


def integer_labels(model: Any, integer: str, X: ArrayLike) -> NDArray[np.int64]:
    """Numbers of the classes that the scorer of `to_c` with ``integer`` gives rows.

    Parameters
    ----------
    model : Model or fitted estimator
    integer : {"int8", "int16", "int32"}
    X : array-like (m, n_features_in_)

    Returns
    -------
    ndarray of int64 (m,)

    Examples
    --------
    >>> import numpy as np
    >>> from pymcboost import MCBoostClassifier
    >>> X, y = np.arange(12.0).reshape(-1, 1), np.repeat([0, 1, 2], 4)
    >>> model = MCBoostClassifier(n_estimators=20).fit(X, y)
    >>> int((integer_labels(model, "int8", X) != y).sum())
    0
    """
    return Quantised(of_one_label(model), integer).labels(X)


class Quantised:
    """Stumps or trees in integers: ``ensemble`` has them in place of thresholds, leaves, code and bias."""

    def __init__(self, model, kind, rows=None):
        if kind not in TYPES:
            raise ValueError(f"integer must be 'int8', 'int16' or 'int32', not {kind!r}")
        self.model, self.kind, ensemble = model, kind, model.ensemble
        if ensemble.KIND not in (1, 3) or ensemble.decoder != "linear":
            what = f"kind {ensemble.KIND}: {ensemble.NAME}"
            what = f"decoder={ensemble.decoder!r}" if ensemble.KIND in (1, 3) else what
            raise ValueError(
                f"scores in integers are those of stumps and trees whose leaves are added up; this model has {what}"
            )
        ensemble.need_thresholds("scores in integers")
        code = ensemble.code
        if code is not None and (code != np.rint(code)).any():
            raise ValueError("scores in integers need a code of integers; that of this model has fractions")
        rows = rows.toarray() if hasattr(rows, "toarray") else rows
        with np.errstate(over="ignore"):
            self.rows = None if rows is None else np.asarray(rows, dtype=np.float32)
        self.input, threshold = features(ensemble.threshold, self.rows)
        # The largest leaf just fits its type. The largest sum fits 32 bits, after a rounding of every term by a half.
        halves = (len(ensemble) + 1) * (1 if code is None else float(np.abs(code).max(initial=1))) / 2
        parts = {name: getattr(ensemble, name) for name in LEAVES[ensemble.KIND] if getattr(ensemble, name) is not None}
        largest = float(max(np.abs(values).max(initial=0) for values in parts.values()))
        bound = float(magnitudes(ensemble, np.float64).max())
        self.scale = min(float(np.iinfo(kind).max) / (largest or 1), (LARGEST - halves - 1) / (bound or 1))
        parts = {name: self._rounded(values, kind) for name, values in parts.items()}
        parts |= {"bias": self._rounded(ensemble.bias, "int32"), "threshold": threshold}
        parts |= {} if code is None else {"code": code.astype(np.int32)}
        parts |= {"nan_left": np.zeros(len(threshold), dtype=bool)} if self.input != "uint32_t" else {}
        self.ensemble = replace(ensemble, **parts)
        self.bound = int(magnitudes(self.ensemble, np.int64).max())
        if self.bound > LARGEST:
            raise ValueError(f"integer={kind!r}: a sum could reach {self.bound}, beyond 32 bits")

    def leaves(self, values):
        """Values of leaves as integers."""
        return self._rounded(values, self.kind)

    def _rounded(self, values, kind):
        return np.rint(values.astype(np.float64) * self.scale).astype(kind)

    def labels(self, X):
        """Numbers of the classes of rows."""
        leaf, (first, values) = self.model.apply(X), leaves_of(self.ensemble)
        scores, own = np.tile(self.ensemble.bias.astype(np.int64), (len(leaf), 1)), weights(self.ensemble)
        for t in range(len(first) - 1):
            scores += values[first[t] + leaf[:, t]] * own(t)
        return scores.argmax(axis=1)

    def unequal(self, X):
        """How many of some rows have another class than with the model itself."""
        return int((self.labels(X) != self.model.predict_codes(X)).sum())

    def comment(self):
        """Yield lines about the numbers, for the file and for people."""
        kinds = {"uint32_t": "the bits of float32"}
        yield f"Features are {kinds.get(self.input, self.input)}. A score of 1 is {self.scale:.9g} here."
        yield f"No sum leaves +-{self.bound}, the largest magnitudes of the leaves of all weak learners and of a bias."
        if self.rows is not None:
            n, m = self.unequal(self.rows), len(self.rows)
            yield f"Of {m} rows, {n} ({n / max(m, 1):.3%}) have another class than with floating point."


def features(threshold, rows):
    """Type of the features in C, and the thresholds for it."""
    if rows is not None and rows.size and (rows == np.rint(rows)).all() and np.abs(rows).max() < EXACT:
        down, low, high = np.floor(threshold.astype(np.float64)), rows.min(), rows.max()
        for name in FEATURES:
            info = np.iinfo(name)
            if info.min <= min(low, down.min(initial=0)) and high <= info.max:
                return f"{name}_t", np.minimum(down, info.max).astype(name)
    bits = np.abs(threshold + np.float32(0)).view(np.int32)
    return "uint32_t", np.where(threshold < 0, -bits, bits).astype(np.int32)


def leaves_of(ensemble):
    """Where the leaves of every weak learner begin (n + 1,), and the values of all leaves, as int64 rows or float64."""
    n = len(ensemble)
    kind = np.int64 if ensemble.bias.dtype.kind == "i" else np.float64
    if ensemble.KIND == 1:
        right = ensemble.right.astype(kind)
        left = -right if ensemble.left is None else ensemble.left.astype(kind)
        return 2 * np.arange(n + 1), np.stack((left, right), axis=1).reshape(2 * n, ensemble.n_classes)
    return ensemble.offset + np.arange(n + 1), np.atleast_2d(ensemble.leaf.astype(kind).T).T


def weights(ensemble):
    """Function of a weak learner's number: what its leaves are multiplied with for every class."""
    if getattr(ensemble, "cls", None) is None:
        return lambda t: 1
    k = ensemble.n_classes
    kind = np.int64 if ensemble.bias.dtype.kind == "i" else np.float64
    table = np.eye(k, dtype=kind) if ensemble.code is None else ensemble.code.astype(kind)
    if ensemble.base is None:
        return lambda t: table[ensemble.cls[t]]
    base = np.vstack((table, np.zeros(k, dtype=kind)))
    return lambda t: table[ensemble.cls[t]] - base[ensemble.base[t]]


def magnitudes(ensemble, kind):
    """For every class |bias| and the largest |term| of every weak learner, added up: no partial sum is larger."""
    first, values = leaves_of(ensemble)
    own, total = weights(ensemble), np.abs(ensemble.bias.astype(kind))
    for t in range(len(first) - 1):
        total = total + np.abs(values[first[t] : first[t + 1]]).max(axis=0) * np.abs(own(t))
    return total
