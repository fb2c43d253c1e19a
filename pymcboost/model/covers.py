"""Covers: how many rows fall into each leaf of a list of stumps or of trees; and their rows as kernels read them."""

from dataclasses import replace
from typing import Any, Self

import numpy as np

from pymcboost.model.arrays import running_sums as running_sums
from pymcboost.model.rows import check_sparse

# Bytes of the features of rows that are copied at once, and most rows: Ctrl-C is heard in between.
BLOCK, MOST_ROWS = 1 << 25, 1 << 13
# Different features that a path may ask about, as the kernel has it.
MOST_FEATURES = 64


class Covers:
    """What a `Model` can do about covers."""

    ensemble: Any
    _changed: Any
    _kind: Any
    _rows: Any
    _sections: Any

    @property
    def has_covers(self) -> bool:
        """Whether the model holds how many rows fall into each leaf, see `with_covers`."""
        return "covr" in self._sections()

    def with_covers(self, X: Any) -> Self:
        """The same model with the number of these rows that fall into each leaf, as `contributions` needs them.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix (m, n_features_in_)
            One row or more; the training rows, or rows like them. None takes the covers away.

        Returns
        -------
        Model

        Raises
        ------
        ValueError
            For interval tables and machines, which have no leaves.
        """
        if X is None:
            return self._changed(replace(self.ensemble, cover=None)) if self.has_covers else self
        if self._kind.no_stages is not None:
            raise ValueError(f"covers are rows of leaves; this model has none ({self._kind.NAME})")
        X = self._rows.checked(X)
        if not X.shape[0]:
            raise ValueError("covers need a row or more")
        return self._changed(replace(self.ensemble, cover=count(self.ensemble, X)))


def explainer(ensemble):
    """`Explainer` of a compact list of stumps, or of trees (see `Kind.compact`)."""
    from pymcboost._kernels import contributions  # most programs only score

    n, k, cls, base, code = len(ensemble), ensemble.n_classes, ensemble.cls, ensemble.base, ensemble.code
    offset, feature, threshold, nan_left, right = ensemble.splits()
    none = np.full(n, -1, dtype=np.int64)
    return contributions.Explainer(
        np.ascontiguousarray(offset, dtype=np.int64),
        np.ascontiguousarray(feature, dtype=np.int64),
        np.ascontiguousarray(right, dtype=np.int64),
        np.ascontiguousarray(threshold, dtype=np.float32),
        np.ascontiguousarray(nan_left).view(np.uint8),
        np.ascontiguousarray(ensemble.leaves(), dtype=np.float32).reshape(-1, k if cls is None else 1),
        none if cls is None else cls,
        none if base is None else base,
        np.zeros((0, k), dtype=np.float32) if code is None else np.ascontiguousarray(code, dtype=np.float32),
        k,
        *_sets(ensemble),
    )


def _sets(ensemble):
    """The sets of the splits as the kernel takes them."""
    found = ensemble.sets()
    if found is None:
        return ()
    types = np.int64, np.int64, np.uint8
    return tuple(np.ascontiguousarray(part, dtype=one) for part, one in zip(found, types, strict=True))


def blocks(X, used):
    """Yield slices of rows and their features ``used`` as float32 (features, rows): dense copies of a few rows each."""
    if hasattr(X, "indptr"):
        check_sparse(X)
    step = min(MOST_ROWS, max(64, BLOCK // (4 * max(1, len(used))) // 64 * 64))
    for begin in range(0, X.shape[0], step):
        rows = slice(begin, min(X.shape[0], begin + step))
        part = X[rows][:, used].toarray() if hasattr(X, "indptr") else X[rows, used]
        with np.errstate(over="ignore"):
            yield rows, np.ascontiguousarray(part.T, dtype=np.float32)


def count(ensemble, X):
    """Rows of X (checked) in each leaf, int64."""
    used, compact = ensemble.compact()
    trees = explainer(compact)
    cover = np.zeros(len(ensemble.feature) + len(ensemble), dtype=np.int64)
    for _, xt in blocks(X, used):
        trees.count(xt, cover)
    return cover


def first_leaves(ensemble):
    """Number of the first leaf of every tree, and of all leaves: int64 (T + 1,)."""
    offset = ensemble.splits()[0]
    return offset + np.arange(len(offset))


def spans(right):
    """First leaf, first leaf of the right child and end of the leaves of every split of a tree: int64 (s,) each.

    The splits are in preorder, ``right`` leads to their right children (see `Trees`).
    """
    s = len(right)
    begin, end, parts = np.zeros(s, dtype=np.int64), np.zeros(s, dtype=np.int64), [(0, s, 0)]
    while parts:
        i, stop, at = parts.pop()
        if i == stop:
            continue
        step = int(right[i])
        begin[i], end[i] = at, at + stop - i + 1
        parts += [(i + 1, i + step, at), (i + step, stop, at + step)]
    return begin, begin + np.asarray(right, dtype=np.int64), end
