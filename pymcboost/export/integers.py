"""Packed trees with integer scores: features, thresholds and leaves as integers."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymcboost.export.forest import of_one_label
from pymcboost.model.covers import first_leaves

TYPES = ("int8", "int16", "int32")
FEATURES = ("uint8", "int8", "uint16", "int16", "int32")
LARGEST = (1 << 31) - 1
# Smaller integers are exact in float32, which the model compares.
EXACT = 1 << 24


def integer_labels(model: Any, integer: str, X: ArrayLike) -> NDArray[np.int64]:
    """Predict as the C code of `to_integer_c` does, to measure the effect of integer leaf values.

    Parameters
    ----------
    model : Model
        Model of packed trees.
    integer : {"int8", "int16", "int32"}
        Type of the leaf values.
    X : array-like of shape (m, n_features_in_)
        Rows to predict.

    Returns
    -------
    ndarray of int64 of shape (m,)
        Positions of the predicted classes in ``classes_``.

    Examples
    --------
    >>> import numpy as np
    >>> from pymcboost import Model, VectorTreeBoostClassifier
    >>> X, y = np.arange(12.0).reshape(-1, 1), np.repeat([0, 1, 2], 4)
    >>> model = VectorTreeBoostClassifier(n_estimators=20, min_samples_leaf=1).fit(X, y).model_
    >>> packed = Model.from_bytes(model.to_bytes(layout="packed", leaves="int8"))
    >>> int((integer_labels(packed, "int8", X) != y).sum())
    0
    """
    return Quantised(model, integer).labels(X)


class Quantised:
    """Packed trees in integers: the type of the features, and leaves and bias as multiples of one step.

    ``rows`` determine the type of the features; None for the bits of float32.
    """

    def __init__(self, model, integer, rows=None):
        if integer not in TYPES:
            raise ValueError(f"integer must be 'int8', 'int16' or 'int32', not {integer!r}")
        self.model = of_one_label(model)
        self.integer = integer
        if self.model.layout != "packed":
            raise ValueError(
                "integer scores need packed trees, but this model has "
                f"layout={self.model.layout!r} ({self.model.ensemble.NAME}). Save the trees "
                "with layout='packed' and leaves='int8'"
            )
        if hasattr(rows, "toarray"):
            rows = rows.toarray()
        with np.errstate(over="ignore"):
            self.rows = None if rows is None else np.asarray(rows, dtype=np.float32)
        trees = self.model.ensemble
        self.input, _ = feature_type(trees.threshold, self.rows)
        # The largest leaf just fits its type. The largest sum fits 32 bits, even after each term was rounded by up to
        # a half.
        leaf = trees.leaf.astype(np.float64)
        bias = trees.bias.astype(np.float64)
        largest_leaf = float(np.abs(trees.leaf).max(initial=0)) or 1.0
        largest_sum = float(self._magnitudes(leaf, bias).max()) or 1.0
        roundings = (len(trees) + 1) / 2
        self.scale = min(
            np.iinfo(integer).max / largest_leaf, (LARGEST - roundings - 1) / largest_sum
        )
        self.leaf = self.leaves(trees.leaf)
        self.bias = np.rint(bias * self.scale).astype(np.int32)
        magnitudes = self._magnitudes(self.leaf.astype(np.int64), self.bias.astype(np.int64))
        self.bound = int(magnitudes.max())
        if self.bound > LARGEST:
            raise ValueError(
                f"integer={integer!r}: a sum could reach {self.bound}, which does not fit 32 bits"
            )

    def leaves(self, values):
        """Convert leaf values to integers."""
        return np.rint(values.astype(np.float64) * self.scale).astype(self.integer)

    def labels(self, X):
        """Predicted class numbers of rows."""
        trees = self.model.ensemble
        leaf_of_row = self.model.apply(X)
        first = first_leaves(trees)
        scores = np.tile(self.bias.astype(np.int64), (len(leaf_of_row), 1))
        for t in range(len(trees)):
            value = self.leaf[first[t] + leaf_of_row[:, t]].astype(np.int64)
            if trees.cls is None:
                scores += value
            else:
                scores[:, trees.cls[t]] += value
        return scores.argmax(axis=1)

    def unequal(self, X):
        """Number of rows whose predicted class differs from the model's."""
        return int((self.labels(X) != self.model.predict_codes(X)).sum())

    def comment(self):
        """Yield lines about the conversion, for the file and for users."""
        features = "the bits of float32" if self.input == "uint32_t" else self.input
        yield f"Features are {features}. A score of 1 is {self.scale:.9g} here."
        yield (
            f"No sum exceeds +-{self.bound}, the largest magnitudes of the leaves of all weak "
            "learners and of a bias."
        )
        if self.rows is not None:
            n = self.unequal(self.rows)
            m = len(self.rows)
            yield (
                f"Of {m} rows, {n} ({n / max(m, 1):.3%}) get another class than with floating "
                "point."
            )

    def _magnitudes(self, leaf, bias):
        """For every class, |bias| plus the largest |leaf| of every tree: an upper bound of all partial sums."""
        trees = self.model.ensemble
        first = first_leaves(trees)
        total = np.abs(bias)
        for t in range(len(trees)):
            largest = np.abs(leaf[first[t] : first[t + 1]]).max(axis=0)
            if trees.cls is None:
                total = total + largest
            else:
                total[trees.cls[t]] += largest
        return total


def feature_type(threshold, rows):
    """Type of the features in C, and the thresholds in this type."""
    if rows is not None and rows.size and _are_exact_integers(rows):
        rounded_down = np.floor(threshold.astype(np.float64))
        low = min(rows.min(), rounded_down.min(initial=0))
        high = rows.max()
        for name in FEATURES:
            info = np.iinfo(name)
            if info.min <= low and high <= info.max:
                return f"{name}_t", np.minimum(rounded_down, info.max).astype(name)
    bits = np.abs(threshold + np.float32(0)).view(np.int32)
    return "uint32_t", np.where(threshold < 0, -bits, bits).astype(np.int32)


def _are_exact_integers(rows):
    """Whether all values are integers that float32 stores exactly, as well as their neighbours."""
    return (rows == np.rint(rows)).all() and np.abs(rows).max() < EXACT
