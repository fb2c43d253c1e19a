"""Training data of linear and kernel machines, and builders of machines, which grow by rounds."""

import numpy as np

from pymcboost._kernels import svmdual
from pymcboost.data.binning import narrowed
from pymcboost.model.linear import LinearMachine
from pymcboost.model.scale import Scale
from pymcboost.threads import available_memory, in_words


def _refuse(needed, task, remedy):
    room = available_memory()
    if room is not None and needed > room:
        raise MemoryError(
            f"{task} need about {in_words(needed)}; {in_words(room)} are free. Use {remedy}"
        )


class MachineData:
    """Rows with positive weight as float32, optionally scaled, and their class codes.

    Parameters
    ----------
    X : ndarray (n, d) or CSR matrix
        Rounded to float32 once; values that become infinite are an error.
    y : ndarray of int (n,)
    n_classes : int
    sample_weight : ndarray of float64 (n,)
        Only used to exclude rows with weight 0.
    scale : bool or Scale
        True: scale the features of the rows used from their range to [-1, 1]; sparse features are divided by their
        largest magnitude, so that zeros stay zeros. A Scale is used unchanged.

    Attributes
    ----------
    X : as given
    rows : ndarray of int64, the rows used
    features : ndarray of float32 (m, d) or CSR matrix of float32; with few entries, only of columns that have any
    columns : ndarray of int64 or None
        Columns of X in ``features``; None for all.
    y : ndarray of int32 (m,)
    weight : ndarray of float64 (m,), all 1
    scale : Scale or None
    """

    n_blocks = 1

    def __init__(self, X, y, n_classes, sample_weight, scale=False):
        self.X = X
        self.n_classes = n_classes
        self.rows = np.flatnonzero(sample_weight > 0)
        self.n_rows = len(self.rows)
        self.n_features = X.shape[1]
        self.y = np.ascontiguousarray(y[self.rows], dtype=np.int32)
        self.weight = np.ones(self.n_rows)
        self.sparse = hasattr(X, "indptr")
        # Memory for the features, in float64 while they are scaled; bounds and weights of the features; their sums by
        # class, and the model.
        entries = X.nnz if self.sparse else self.n_rows * self.n_features
        _refuse(
            16 * entries + self.n_features * (40 + 20 * n_classes),
            f"{n_classes} hyperplanes over {self.n_features} features",
            "fewer features or rows",
        )
        with np.errstate(over="ignore"):
            features = X[self.rows].astype(np.float32)
        values = features.data if self.sparse else features
        if not np.isfinite(values).all():
            self._refuse_infinite(features)
        if self.sparse:
            features.sum_duplicates()
            features.eliminate_zeros()
        self.scale = self._scale(features) if scale is True else scale or None
        if self.scale is not None:
            if self.sparse:
                if self.scale.offset.any():
                    raise ValueError(
                        "the existing model was scaled for dense X; give dense X again, or "
                        "train a new model"
                    )
                scaled = features.data.astype(np.float64) * self.scale.factor[features.indices]
                features.data = scaled.astype(np.float32)
            else:
                features = self.scale.apply(features)
        self.columns = None
        if self.sparse and features.nnz < self.n_features:
            self.columns, features = narrowed(features)
        self.features = features
        self.n_entries = self.n_rows * self.n_features

    def _refuse_infinite(self, features):
        if self.sparse:
            coo = features.tocoo()
            first_infinite = np.flatnonzero(~np.isfinite(coo.data))[0]
            i, j = coo.row[first_infinite], coo.col[first_infinite]
        else:
            i, j = np.argwhere(~np.isfinite(features))[0]
        raise ValueError(f"X[{self.rows[i]}, {j}] is infinite or beyond the float32 range")

    def _scale(self, features):
        if not self.sparse:
            return Scale.from_range(features.min(axis=0), features.max(axis=0))
        largest = np.abs(features).max(axis=0).toarray().ravel().astype(np.float64)
        return Scale.from_range(-largest, largest)

    def weighted_sum(self, weight):
        """Sum of the rows times their weights (m,): float64, added in the same order on every CPU."""
        total = np.zeros(self.features.shape[1])
        svmdual.Rows(np.ascontiguousarray(self.features)).add(weight, total)
        return total


class LinearBuilder:
    """Rounds of F += mu g with g(x) = w.x + b, over scaled features if there is a scale.

    With ``n_rounds``, it refuses to start if that many rounds do not fit into memory. A round with few nonzero
    weights stores only those: with sparse rows (``entries`` in total), no round needs more than the rows have.
    Weights of rounds refer to ``columns``, or to all features.
    """

    def __init__(self, n_classes, n_features, scale, n_rounds=0, entries=None, columns=None):
        kept = 8 * n_features if entries is None else min(8 * n_features, 16 * entries)
        _refuse(
            kept * n_rounds,
            f"{n_rounds} rounds over {n_features} features",
            "a smaller n_estimators",
        )
        self._shape = (n_classes, n_features)
        self._scale = scale
        self._columns = columns
        self._base = None
        self._rounds = []

    def __len__(self):
        return len(self._rounds)

    def extend(self, machine, n_rounds):
        """Start with a machine that merges this number of rounds."""
        self._base = machine
        self._rounds = [None] * n_rounds

    def add(self, column, solution, w):
        """Add a round; ``solution`` is for f = 2 g."""
        features = np.flatnonzero(w)
        if 2 * len(features) > len(w):
            features = slice(None)
        self._rounds.append((column, features, w[features] / 2, solution.bias / 2))

    def add_nothing(self):
        """Add a round that changes nothing."""
        self._rounds.append(None)

    def truncate_rounds(self, n):
        """Go back to the first n rounds, but not into the machine with which the builder started."""
        del self._rounds[n:]

    def tail(self, start):
        """The machine of the rounds from number ``start`` on."""
        return self._sum(self._rounds[start:], None)

    def freeze(self):
        """The machine of all rounds: K hyperplanes."""
        return self._sum(self._rounds, self._base)

    current = freeze

    def rounds(self):
        """Yield the whole machine, because rounds are merged."""
        yield self.freeze()

    def _sum(self, rounds, base):
        (n_classes, n_features), columns = self._shape, self._columns
        coef = np.zeros((n_classes, n_features if columns is None else len(columns)))
        intercept = np.zeros(n_classes)
        for column, features, w, b in filter(None, rounds):
            for k in np.flatnonzero(column):
                coef[k, features] += column[k] * w
            intercept += column * b
        if columns is not None:
            # rounded here, because few of possibly millions of columns are nonzero; a scale is applied in double
            # precision
            few = coef
            coef = np.zeros(self._shape, dtype=np.float32 if self._scale is None else np.float64)
            with np.errstate(over="ignore"):
                coef[:, columns] = few
        machine = LinearMachine(coef, intercept, self._scale).canonical()
        if base is None:
            return machine
        return LinearMachine(
            machine.coef.astype(np.float64) + base.coef,
            machine.intercept.astype(np.float64) + base.intercept,
        ).canonical()


class KernelBuilder(LinearBuilder):
    """Rounds of F += mu g with g(x) = sum_i beta_i K(x, x_i) + b, over a common pool of rows."""

    def __init__(self, n_classes, features, scale, make):
        self._n_classes = n_classes
        self._features = features
        self._scale = scale
        self._make = make
        self._base = None
        self._rounds = []

    def add(self, column, solution, w):
        """Add a round; ``solution`` is for f = 2 g."""
        rows = np.flatnonzero(solution.beta)
        self._rounds.append((column, rows, solution.beta[rows] / 2, solution.bias / 2))

    def _sum(self, rounds, base):
        coef = np.zeros((len(self._features), self._n_classes))
        intercept = np.zeros(self._n_classes)
        for column, rows, beta, b in filter(None, rounds):
            coef[rows] += beta[:, None] * column
            intercept += column * b
        support = self._features
        if base is not None:
            support, coef = _pool(support, coef, base)
            intercept += base.intercept
        used = coef.any(axis=1)
        return self._make(
            support=support[used], coef=coef[used], intercept=intercept, scale=self._scale
        )


def _pool(support, coef, base):
    """Merge the support vectors and coefficients of a machine into these; equal vectors occur once."""
    place = {row.tobytes(): i for i, row in reversed(list(enumerate(support + np.float32(0))))}
    coef = coef.copy()
    new_vectors = []
    for i, row in enumerate(base.support):
        place_in_pool = place.get(row.tobytes())
        if place_in_pool is None:
            new_vectors.append(i)
        else:
            coef[place_in_pool] += base.coef[i]
    return np.concatenate((support, base.support[new_vectors])), np.concatenate(
        (coef, base.coef[new_vectors])
    )
