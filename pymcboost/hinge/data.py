"""Training data of linear and kernel machines, and builders of machines, which grow by rounds."""

import numpy as np

from pymcboost._kernels import svmdual
from pymcboost.data.binning import narrowed
from pymcboost.model.linear import LinearMachine
from pymcboost.model.scale import Scale
from pymcboost.threads import available_memory, in_words


def _refuse(needed, task, remedy):
    """Refuse a task that needs more bytes of memory than are available."""
    available = available_memory()
    if available is not None and needed > available:
        raise MemoryError(
            f"{task} need about {in_words(needed)}; {in_words(available)} are free. Use {remedy}"
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
    X : ndarray or CSR matrix
        Unchanged.
    rows : ndarray of int64 (m,)
        Rows of X that are used.
    features : ndarray of float32 (m, d) or CSR matrix of float32
        The used rows. A sparse matrix with few entries has only the columns with entries.
    columns : ndarray of int64 or None
        Columns of X in ``features``; None for all.
    y : ndarray of int32 (m,)
    weight : ndarray of float64 (m,)
        All 1.
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
        self.scale = self._scale_for(features) if scale is True else scale or None
        if self.scale is not None:
            features = self._scaled(features)
        self.columns = None
        if self.sparse and features.nnz < self.n_features:
            self.columns, features = narrowed(features)
        self.features = features
        self.n_entries = self.n_rows * self.n_features

    def _refuse_infinite(self, features):
        """Refuse features that are not finite, and name the first one."""
        if self.sparse:
            coo = features.tocoo()
            first_infinite = np.flatnonzero(~np.isfinite(coo.data))[0]
            i = coo.row[first_infinite]
            j = coo.col[first_infinite]
        else:
            i, j = np.argwhere(~np.isfinite(features))[0]
        raise ValueError(f"X[{self.rows[i]}, {j}] is infinite or beyond the float32 range")

    def _scale_for(self, features):
        """The scale that maps these features to [-1, 1]."""
        if not self.sparse:
            return Scale.from_range(features.min(axis=0), features.max(axis=0))
        largest = np.abs(features).max(axis=0).toarray().ravel().astype(np.float64)
        return Scale.from_range(-largest, largest)

    def _scaled(self, features):
        """Scale the features; sparse ones in place."""
        if not self.sparse:
            return self.scale.apply(features)
        if self.scale.offset.any():
            raise ValueError(
                "the existing model was scaled for dense X; give dense X again, or "
                "train a new model"
            )
        scaled = features.data.astype(np.float64) * self.scale.factor[features.indices]
        features.data = scaled.astype(np.float32)
        return features

    def weighted_sum(self, weight):
        """Sum of the rows times their weights (m,): float64, added in the same order on every CPU."""
        total = np.zeros(self.features.shape[1])
        svmdual.Rows(np.ascontiguousarray(self.features)).add(weight, total)
        return total


class LinearBuilder:
    """Rounds of F += mu g with g(x) = w.x + b, over scaled features if there is a scale.

    With ``n_rounds``, it refuses to start if that many rounds do not fit into memory. A round stores only its nonzero
    weights if there are few. With sparse rows, there are no more of them than ``entries``, the number of all entries.
    Weights of rounds refer to ``columns``, or to all features.
    """

    def __init__(self, n_classes, n_features, scale, n_rounds=0, entries=None, columns=None):
        round_bytes = 8 * n_features
        if entries is not None:
            round_bytes = min(round_bytes, 16 * entries)
        _refuse(
            round_bytes * n_rounds,
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
        """Return the machine of the rounds from number ``start`` on."""
        return self._sum(self._rounds[start:], None)

    def freeze(self):
        """Return the machine of all rounds."""
        return self._sum(self._rounds, self._base)

    current = freeze

    def rounds(self):
        """Yield the whole machine, because rounds are merged."""
        yield self.freeze()

    def _sum(self, rounds, base):
        """Merge rounds, and a machine if there is one, into K hyperplanes."""
        n_classes, n_features = self._shape
        columns = self._columns
        coef = np.zeros((n_classes, n_features if columns is None else len(columns)))
        intercept = np.zeros(n_classes)
        for column, features, w, b in filter(None, rounds):
            for k in np.flatnonzero(column):
                coef[k, features] += column[k] * w
            intercept += column * b
        if columns is not None:
            # Rounded to float32 here, because there may be millions of columns, although few are nonzero. A scale needs
            # double precision.
            coef_of_columns = coef
            coef = np.zeros(self._shape, dtype=np.float32 if self._scale is None else np.float64)
            with np.errstate(over="ignore"):
                coef[:, columns] = coef_of_columns
        machine = LinearMachine(coef, intercept, self._scale).canonical()
        if base is None:
            return machine
        return LinearMachine(
            machine.coef.astype(np.float64) + base.coef,
            machine.intercept.astype(np.float64) + base.intercept,
        ).canonical()


class KernelBuilder(LinearBuilder):
    """Rounds of F += mu g with g(x) = sum_i beta_i K(x, x_i) + b, over a common pool of rows."""

    def __init__(self, n_classes, features, scale, new_machine):
        self._n_classes = n_classes
        self._features = features
        self._scale = scale
        self._new_machine = new_machine
        self._base = None
        self._rounds = []

    def add(self, column, solution, w):
        """Add a round; ``solution`` is for f = 2 g."""
        rows = np.flatnonzero(solution.beta)
        self._rounds.append((column, rows, solution.beta[rows] / 2, solution.bias / 2))

    def _sum(self, rounds, base):
        """Merge rounds, and a machine if there is one, into a machine over the support vectors of all."""
        coef = np.zeros((len(self._features), self._n_classes))
        intercept = np.zeros(self._n_classes)
        for column, rows, beta, b in filter(None, rounds):
            coef[rows] += beta[:, None] * column
            intercept += column * b
        support = self._features
        if base is not None:
            support, coef = _with_machine(support, coef, base)
            intercept += base.intercept
        used = coef.any(axis=1)
        return self._new_machine(
            support=support[used], coef=coef[used], intercept=intercept, scale=self._scale
        )


def _with_machine(support, coef, base):
    """Merge the support vectors and coefficients of a machine into these; equal vectors occur once."""
    rows = list(enumerate(support + np.float32(0)))
    first_index_of_row = {row.tobytes(): i for i, row in reversed(rows)}
    coef = coef.copy()
    new_vectors = []
    for i, row in enumerate(base.support):
        index = first_index_of_row.get(row.tobytes())
        if index is None:
            new_vectors.append(i)
        else:
            coef[index] += base.coef[i]
    support = np.concatenate((support, base.support[new_vectors]))
    coef = np.concatenate((coef, base.coef[new_vectors]))
    return support, coef
