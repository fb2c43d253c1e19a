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
        self._new = (1 - feature_penalty, 1 - threshold_penalty)
        self._seen = 0
        self._place = {column: f for f, column in enumerate(columns.column.tolist())}
        self._worth = np.full(len(columns.column), self._new[0], dtype=np.float64)
        self._used = np.zeros(len(columns.threshold), dtype=np.uint8)
        self._used_at = np.ascontiguousarray(columns.threshold_ptr[:-1], dtype=np.int64)

    def mark(self, feature, threshold):
        """Mark features and thresholds of all splits so far; those that do not occur in the columns are ignored."""
        if len(feature) < self._seen:  # rounds were removed
            self._seen = 0
            self._worth[:] = self._new[0]
            self._used[:] = 0
        new = slice(self._seen, None)
        self._seen = len(feature)
        columns = self._columns
        for column, t in zip(feature[new].tolist(), threshold[new], strict=True):
            if (f := self._place.get(column)) is not None:
                self._worth[f] = 1
                begin, end = columns.threshold_ptr[f : f + 2]
                place = begin + np.searchsorted(columns.threshold[begin:end], t)
                if place < end and columns.threshold[place] == t:
                    self._used[place] = 1

    def set_penalties(self, grower):
        """Pass the penalties to a kernel that grows trees."""
        grower.pay(self._worth, self._used, self._used_at, self._new[1])


def on_grid(value, levels, learning_rate):
    """Round leaf vectors, in place, to multiples of ``2 learning_rate / (levels + 1)``, up to ``levels`` of them.

    They are then rounded to float32, as they are stored in a file.
    """
    step = 2 * learning_rate / (levels + 1)
    value[:] = (np.clip(np.rint(value / step), -levels, levels) * step + 0.0).astype(np.float32)
