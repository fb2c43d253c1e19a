"""Options for small tree models: reuse of features and thresholds, and few distinct leaf values."""

import numpy as np


class Reuse:
    """Penalizes splits on features and thresholds that the model has not used before.

    Parameters
    ----------
    columns : Columns
    feature_penalty, threshold_penalty : float
        Share of the gain that a new one costs.
    """

    def __init__(self, columns, feature_penalty, threshold_penalty):
        self._columns = columns
        # Factors of the gain for a new feature and for a new threshold.
        self._feature_factor = 1 - feature_penalty
        self._threshold_factor = 1 - threshold_penalty
        self._n_marked = 0
        self._index_of_column = {column: f for f, column in enumerate(columns.column.tolist())}
        # Factor of the gain by feature, which is 1 once it is in use, and flags of the thresholds in use.
        self._worth = np.full(len(columns.column), self._feature_factor, dtype=np.float64)
        self._used = np.zeros(len(columns.threshold), dtype=np.uint8)
        self._threshold_start = np.ascontiguousarray(columns.threshold_ptr[:-1], dtype=np.int64)

    def mark(self, feature, threshold):
        """Mark features and thresholds of all splits so far; those that do not occur in the columns are ignored."""
        if len(feature) < self._n_marked:  # rounds were removed
            self._n_marked = 0
            self._worth[:] = self._feature_factor
            self._used[:] = 0
        new = slice(self._n_marked, None)
        self._n_marked = len(feature)
        columns = self._columns
        for column, t in zip(feature[new].tolist(), threshold[new], strict=True):
            f = self._index_of_column.get(column)
            if f is None:
                continue
            self._worth[f] = 1
            begin, end = columns.threshold_ptr[f : f + 2]
            index = begin + np.searchsorted(columns.threshold[begin:end], t)
            if index < end and columns.threshold[index] == t:
                self._used[index] = 1

    def set_penalties(self, grower):
        """Pass the penalties to a kernel that grows trees."""
        grower.pay(self._worth, self._used, self._threshold_start, self._threshold_factor)


def on_grid(value, levels, learning_rate):
    """Round leaf vectors, in place, to multiples of ``2 learning_rate / (levels + 1)``, up to ``levels`` of them.

    They are then rounded to float32, as they are stored in a file.
    """
    step = 2 * learning_rate / (levels + 1)
    value[:] = (np.clip(np.rint(value / step), -levels, levels) * step + 0.0).astype(np.float32)
