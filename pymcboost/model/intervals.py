"""Stumps merged into one table of intervals per feature."""

from dataclasses import dataclass, replace

import numpy as np

from pymcboost.model.arrays import narrow
from pymcboost.model.kind import Kind

MERGED = "this model is an interval table, which merges the stumps of each feature"


@dataclass(frozen=True, eq=False)
class Intervals(Kind):
    """Interval table: stumps merged by feature, scored with one binary search and one table row per feature.

    Attributes
    ----------
    feature : ndarray of int64 of shape (n_used,)
        Column numbers of the features that occur, in increasing order.
    offset : ndarray of int64 of shape (n_used + 1,)
        Position in ``threshold`` at which the thresholds of each feature start.
    threshold : ndarray of float32 of shape (D,)
        Thresholds of all features, increasing for each feature.
    table : ndarray of float64 of shape (D + 2 * n_used, K)
        Values of the classes. They are float32 values in a model that is saved or loaded.
    bias : ndarray of float32 of shape (K,)
        Initial scores of the classes.
    n_features : int
        Number of features.

    Notes
    -----
    With ``begin, end = offset[i], offset[i + 1]``, feature ``feature[i]`` has the thresholds ``threshold[begin:end]``.
    Its table rows start at ``begin + 2 * i``: one for each of the ``end - begin + 1`` intervals from low to high
    (including the upper end), and one for NaN.
    """

    KIND = 2
    NAME = "interval table"
    no_stages = f"{MERGED}, so it has no stages"
    additive = True

    feature: np.ndarray
    offset: np.ndarray
    threshold: np.ndarray
    table: np.ndarray
    bias: np.ndarray
    n_features: int

    def rows_of(self, i, values):
        """Table rows of values (float32) of used feature number i."""
        begin = int(self.offset[i])
        end = int(self.offset[i + 1])
        interval = np.searchsorted(self.threshold[begin:end], values, side="left")
        return np.where(np.isnan(values), end - begin + 1, interval) + begin + 2 * i

    def single(self):
        """Convert the table to float32."""
        with np.errstate(over="ignore", under="ignore"):
            table = self.table.astype(np.float32) + np.float32(0)  # turns underflowed -0 into +0
        if not np.isfinite(table).all():
            raise ValueError(
                f"layout='interval' cannot store a score of {np.abs(self.table).max():g}, "
                "because float32 ends at 3.4e38; save the model with layout='list'"
            )
        return replace(self, table=table)

    def laid_out(self, layout=None, leaves="float32"):
        """Convert the table to float32, the only form in which this kind is saved."""
        if layout not in (None, "interval") or leaves != "float32":
            raise ValueError(
                f"{MERGED}, so it cannot be converted to another layout; save that from the "
                "estimator or the original file"
            )
        return self.single()

    def merge(self):
        """Return the model itself."""
        return self

    def sections(self):
        return [
            ("FIDX", narrow(self.feature)),
            ("IOFF", narrow(self.offset)),
            ("THRS", self.threshold),
            ("TABL", self.table),
        ]

    def dump(self):
        yield "features", map(self._dump_of, range(len(self.feature)))

    def _dump_of(self, i):
        """Thresholds and values of used feature number i, for JSON."""
        begin = int(self.offset[i])
        end = int(self.offset[i + 1])
        return {
            "feature": int(self.feature[i]),
            "thresholds": self.threshold[begin:end].tolist(),
            "values": self.table[begin + 2 * i : end + 2 * i + 1].tolist(),
            "missing": self.table[end + 2 * i + 1].tolist(),
        }

    @classmethod
    def from_sections(cls, sections, header):
        return cls(
            sections["FIDX"].astype(np.int64),
            sections["IOFF"].astype(np.int64),
            sections["THRS"],
            sections["TABL"].reshape(-1, header.n_classes),
            sections["BIAS"],
            header.n_features,
        )

    @classmethod
    def layout_of(cls, sections):
        return "interval"

    def used_features(self):
        """Features, and the total variation of each one's intervals."""
        first_row = self.offset + 2 * np.arange(len(self.offset))
        table = self.table.astype(np.float64)
        variations = [
            np.abs(np.diff(table[begin : end - 1], axis=0)).sum()
            for begin, end in zip(first_row, first_row[1:], strict=False)
        ]
        return self.feature, np.array(variations)


def merged(stumps):
    """Merge a canonical list of stumps into intervals."""
    right = stumps.right.astype(np.float64)
    left = -right if stumps.left is None else stumps.left.astype(np.float64)
    order = np.lexsort((stumps.threshold, stumps.feature))
    features, begin_of_feature = np.unique(stumps.feature[order], return_index=True)
    begin_of_feature = np.append(begin_of_feature, len(order))
    offset = [0]
    thresholds = []
    rows = []
    for i in range(len(features)):
        stumps_of_feature = order[begin_of_feature[i] : begin_of_feature[i + 1]]
        zero = np.zeros(stumps.n_classes)
        total = (zero, zero)
        missing = (zero, zero)
        for j in stumps_of_feature:
            total = _add(*total, left[j])
            missing = _add(*missing, left[j] if stumps.nan_left[j] else right[j])
        rows.append(total[0])
        cuts, begin = np.unique(stumps.threshold[stumps_of_feature], return_index=True)
        begin = np.append(begin, len(stumps_of_feature))
        for c in range(len(cuts)):
            for j in stumps_of_feature[begin[c] : begin[c + 1]]:
                total = _add(*_add(*total, right[j]), -left[j])
            rows.append(total[0])
        rows.append(missing[0])
        thresholds.append(cuts)
        offset.append(offset[-1] + len(cuts))
    threshold = np.concatenate(thresholds) if thresholds else np.zeros(0, dtype=np.float32)
    table = np.array(rows) + 0.0 if rows else np.zeros((0, stumps.n_classes))
    return Intervals(
        features, np.array(offset, dtype=np.int64), threshold, table, stumps.bias, stumps.n_features
    )


def _add(high, low, value):
    """Add ``value`` to the unevaluated sum ``high + low``, by Knuth's two-sum.

    It has 106 bits, and the result is the same on every machine.
    """
    total = high + value
    added = total - high
    low = low + ((high - (total - added)) + (value - added))
    high = total + low
    return high, low - (high - total)
