"""Covers: the number of rows in each leaf of a model; and blocks of rows for the kernels."""

from dataclasses import replace
from typing import Any, Self

import numpy as np

from pymcboost.model.arrays import running_sums as running_sums
from pymcboost.model.rows import check_sparse

# Limits of the rows that are copied at once: bytes and rows. Ctrl-C is handled between blocks.
BLOCK_BYTES = 1 << 25
BLOCK_ROWS = 1 << 13
# Maximum number of different features on a path, as in the kernel.
MOST_FEATURES = 64
# Larger than all codes of categories.
CODES = 1 << 16


class Covers:
    """Covers of a `Model`."""

    ensemble: Any
    layout: Any
    _changed: Any
    _kind: Any
    _rows: Any
    _sections: Any

    @property
    def has_covers(self) -> bool:
        """Whether the model stores the number of rows in each leaf; see `with_covers`."""
        return "covr" in self._sections()

    def with_covers(self, X: Any) -> Self:
        """Return the model with covers: the number of rows in each leaf.

        `contributions` without a background needs them.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (m, n_features_in_), or None
            The training rows, or rows like them; at least one. None removes the covers.

        Returns
        -------
        Model
            The new model.

        Raises
        ------
        ValueError
            If the model is an interval table or a machine, which have no leaves, or is packed.
        """
        if X is None:
            return self._changed(replace(self.ensemble, cover=None)) if self.has_covers else self
        if self._kind.no_stages is not None:
            raise ValueError(
                "covers count the rows in each leaf, but this model has no leaves "
                f"({self._kind.NAME})"
            )
        if self.layout == "packed":
            raise ValueError("a packed model cannot store covers; save it with layout='list' first")
        return self._changed(replace(self.ensemble, cover=count(self.ensemble, covering(self, X))))


def covering(model, X):
    """Check the rows whose leaves are to be counted."""
    X = model._rows.checked(X)
    if not X.shape[0]:
        raise ValueError("covers need at least one row")
    return X


def explainer(ensemble):
    """Create the `Explainer` of a compact list of stumps or trees (see `Kind.compact`)."""
    from pymcboost._kernels import contributions  # most programs only score

    k = ensemble.n_classes
    offset, feature, threshold, nan_left, right = ensemble.splits()
    feature_or_set = np.array(feature, dtype=np.int64)
    sets = ensemble.sets()
    if sets is not None:
        # Each set becomes an additional feature with values 0 and 1, see `blocks`.
        on_set = np.flatnonzero(sets[0])
        feature_or_set[on_set] = ensemble.n_features + np.arange(len(on_set))
        threshold = np.array(threshold, dtype=np.float32)
        threshold[on_set] = 0.5
    has_vectors = ensemble.cls is None
    leaves = np.ascontiguousarray(ensemble.leaves(), dtype=np.float32)
    no_class = np.full(len(ensemble), -1, dtype=np.int64)
    code = np.zeros((0, k)) if ensemble.code is None else ensemble.code
    return contributions.Explainer(
        np.ascontiguousarray(offset, dtype=np.int64),
        np.ascontiguousarray(feature, dtype=np.int64),
        np.ascontiguousarray(right, dtype=np.int64),
        feature_or_set,
        np.ascontiguousarray(threshold, dtype=np.float32),
        np.ascontiguousarray(nan_left).view(np.uint8),
        leaves.reshape(-1, k if has_vectors else 1),
        no_class if has_vectors else ensemble.cls,
        no_class if ensemble.base is None else ensemble.base,
        np.ascontiguousarray(code, dtype=np.float32),
        k,
    )


def blocks(X, used, ensemble=None):
    """Yield slices of rows, and their features ``used`` as float32 (features, rows): dense copies of a few rows each.

    With an ensemble of these features, there is an additional line for each of its sets of categories: 0 for the rows
    that go left, else 1.
    """
    if hasattr(X, "indptr"):
        check_sparse(X)
    sets = None if ensemble is None else ensemble.sets()
    n_sets = 0 if sets is None else np.count_nonzero(sets[0])
    n_lines = max(1, len(used) + n_sets)
    step = min(BLOCK_ROWS, max(64, BLOCK_BYTES // (4 * n_lines) // 64 * 64))
    for begin in range(0, X.shape[0], step):
        rows = slice(begin, min(X.shape[0], begin + step))
        features = X[rows][:, used].toarray() if hasattr(X, "indptr") else X[rows, used]
        with np.errstate(over="ignore"):
            lines = np.ascontiguousarray(features.T, dtype=np.float32)
        if sets is not None:
            lines = np.concatenate((lines, _sides(ensemble, lines)))
        yield rows, lines


def _sides(ensemble, xt):
    """Compute 0 if the codes of rows go left at a set of categories, else 1: float32 (sets, rows)."""
    subset, start, bits = ensemble.sets()
    splits_on_sets = np.flatnonzero(subset)
    sides = np.empty((len(splits_on_sets), xt.shape[1]), dtype=np.float32)
    for f in np.unique(ensemble.feature[splits_on_sets]):
        x = xt[f]
        with np.errstate(invalid="ignore"):
            is_code = (x >= 0) & (x < CODES) & (x == np.floor(x))
            code = np.where(is_code, x, CODES).astype(np.int64)
        for q in np.flatnonzero(ensemble.feature[splits_on_sets] == f):
            is_left = np.unpackbits(bits[start[q] : start[q + 1]], bitorder="little").astype(bool)
            nan_left = ensemble.nan_left[splits_on_sets[q]]
            code_left = is_left[np.minimum(code, len(is_left) - 1)]
            sides[q] = ~np.where(code < len(is_left), code_left, nan_left)
    return sides


def count(ensemble, X):
    """Count the rows of X, which must be checked, in each leaf: int64."""
    used, compact = ensemble.compact()
    trees = explainer(compact)
    cover = np.zeros(len(ensemble.feature) + len(ensemble), dtype=np.int64)
    for _, xt in blocks(X, used, compact):
        trees.count(xt, cover)
    return cover


def first_leaves(ensemble):
    """Number of the first leaf of every tree, and the total number of leaves: int64 (T + 1,)."""
    offset = ensemble.splits()[0]
    return offset + np.arange(len(offset))


def spans(right):
    """First leaf, first leaf of the right child, and end of the leaves, for every split of a tree: int64 (s,) each.

    Splits are in preorder, and ``right`` leads to their right children (see `Trees`).
    """
    s = len(right)
    begin = np.zeros(s, dtype=np.int64)
    end = np.zeros(s, dtype=np.int64)
    waiting = [(0, s, 0)]
    while waiting:
        i, stop, first_leaf = waiting.pop()
        if i == stop:
            continue
        step = int(right[i])
        begin[i] = first_leaf
        end[i] = first_leaf + stop - i + 1
        waiting.append((i + 1, i + step, first_leaf))
        waiting.append((i + step, stop, first_leaf + step))
    return begin, begin + np.asarray(right, dtype=np.int64), end
