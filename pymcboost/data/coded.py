"""Rows stored only as bins, for code that reads features."""

import numpy as np

from pymcboost.data.rows import LARGEST_THRESHOLD

# Number of values that are decoded at once.
PIECE = 1 << 22


class CodedRows:
    """Rows stored as bins of their values, which can be read like a float32 array (n, d).

    A value is the least one of its bin. A model whose thresholds lie between these bins scores it like the value that
    was given.

    Parameters
    ----------
    bins : Bins
        Bins of all rows.
    """

    dtype = np.dtype(np.float32)
    ndim = 2

    def __init__(self, bins):
        self._codes = bins.codes
        self._cuts = bins.cuts
        self._levels = bins.levels
        self._n_bins = bins.n_bins
        self._missing = bins.missing
        self._values = np.full(
            (len(bins.low), int(bins.n_bins.max(initial=0)) + 1), np.nan, dtype=np.float32
        )
        for f, low in enumerate(bins.low):
            self._values[f, : len(low)] = low

    @property
    def shape(self):
        """Numbers of rows and columns."""
        return self._codes.shape[::-1]

    def __len__(self):
        return self._codes.shape[1]

    def __getitem__(self, rows):
        codes = self._codes[:, rows]
        columns = np.arange(len(codes)).reshape((-1,) + (1,) * (codes.ndim - 1))
        return np.ascontiguousarray(self._values[columns, codes].T)

    def columns_with_missing(self, rows=None):
        """Columns with missing values in ``rows``, or in all rows: int64, ascending."""
        columns = np.flatnonzero(self._missing)
        if rows is None:
            return columns
        has_missing = [(self._codes[f, rows] == self._n_bins[f]).any() for f in columns.tolist()]
        return columns[np.array(has_missing, dtype=bool)]

    def refuse(self, ensemble, source):
        """Refuse a model that splits within bins; ``source`` names the way in which a training would add to it."""
        feature = ensemble.feature
        threshold = ensemble.threshold
        for f in np.setdiff1d(feature, list(self._levels)).tolist():
            thresholds = threshold[feature == f]
            inside = ~np.isin(thresholds, self._cuts[f]) & (thresholds < LARGEST_THRESHOLD)
            if inside.any():
                raise ValueError(
                    f"{source}: the existing model splits column {f} at {thresholds[inside][0]!s}, "
                    "which is not a bin boundary of this Dataset; a Dataset of blocks keeps "
                    "only bins, so give arrays to add rounds to this model"
                )


def is_coded(X):
    """Whether X is `CodedRows`."""
    return isinstance(X, CodedRows)


def scores_of(score, X, rows):
    """Compute ``score(X)[rows]`` as floats; for `CodedRows`, in pieces."""
    if not is_coded(X):
        return score(X)[rows]
    pieces = ScoresInPieces(score, X, rows)
    step = max(1, PIECE // max(1, X.shape[1]))
    return np.concatenate(
        [pieces[begin : begin + step] for begin in range(0, max(1, len(rows)), step)]
    )


class ScoresInPieces:
    """Scores of rows, computed for a slice of the rows on demand, because all of them may take gigabytes."""

    def __init__(self, score, X, rows):
        self._score = score
        self._X = X
        self._rows = rows

    def __getitem__(self, piece):
        part = self._X[self._rows[piece]]
        return self._score(part if hasattr(part, "tocsr") else np.ascontiguousarray(part))
