"""Leaves of which few numbers are kept: those of some classes, the other classes get nothing."""

import numpy as np

from pymcboost.model.arrays import finite, integers, narrow, rising


class LeafEntries:
    """Vectors of n leaves (n, K) as their entries; an array wherever one is asked for.

    Parameters
    ----------
    start : ndarray of int64 (n + 1,)
        The entries of leaf j are ``start[j] <= e < start[j + 1]``.
    cls : ndarray of uint16 (E,)
        Their classes, increasing in a leaf.
    value : ndarray of float32 or float16 (E,)
    n_classes : int
    """

    ndim = 2

    def __init__(self, start, cls, value, n_classes):
        self.start, self.cls, self.value, self.n_classes = start, cls, value, n_classes

    @classmethod
    def of(cls, leaf):
        """The numbers of vectors (n, K) that are not 0."""
        if isinstance(leaf, LeafEntries):
            return leaf
        leaf = np.asarray(leaf, dtype=np.float32)
        row, column = np.nonzero(leaf)
        start = np.searchsorted(row, np.arange(len(leaf) + 1))
        return cls(start, column.astype(np.uint16), leaf[row, column], leaf.shape[1])

    @property
    def shape(self):
        """(n, K), as of an array."""
        return len(self), self.n_classes

    @property
    def dtype(self):
        """Type of the numbers."""
        return self.value.dtype

    def __len__(self):
        return len(self.start) - 1

    def __getitem__(self, which):
        """Entries of a slice of the leaves; otherwise vectors."""
        if not isinstance(which, slice):
            return self._vectors(np.arange(len(self))[which])
        begin, end, _ = which.indices(len(self))
        start = self.start[begin : max(begin, end) + 1]
        part = slice(start[0], start[-1])
        return LeafEntries(start - start[0], self.cls[part], self.value[part], self.n_classes)

    def _vectors(self, leaf):
        counts = np.diff(self.start)[leaf]
        rows = np.zeros((np.size(leaf), self.n_classes), dtype=self.value.dtype)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        entry = np.arange(counts.sum()) - first + np.repeat(self.start[leaf], counts)
        rows[np.repeat(np.arange(len(rows)), counts), self.cls[entry]] = self.value[entry]
        return rows.reshape(*np.shape(leaf), self.n_classes)

    def __array__(self, dtype=None, copy=None):
        return self._vectors(np.arange(len(self))).astype(self.dtype if dtype is None else dtype, copy=False)

    def astype(self, dtype):
        """Vectors of this type."""
        return np.asarray(self, dtype=dtype)

    def of_type(self, dtype):
        """The same entries with numbers of this type."""
        return LeafEntries(self.start, self.cls, self.value.astype(dtype) + dtype(0), self.n_classes)

    def copy(self):
        """Read-only copies."""
        parts = [array.copy() for array in (self.start, self.cls, self.value)]
        for array in parts:
            array.flags.writeable = False
        return LeafEntries(*parts, self.n_classes)

    def canonical(self, n_leaves, n_classes):
        """The same entries, checked."""
        n = len(self.cls)
        start, cls = rising("entry_start", self.start, n), integers("entry_class", self.cls, n)
        if len(start) != n_leaves + 1 or self.n_classes != n_classes:
            raise ValueError(f"there must be entries of {n_leaves} leaves and {n_classes} classes")
        inside = np.ones(n, dtype=bool)
        inside[start[:-1][start[:-1] < n]] = False
        if n and (cls.min() < 0 or cls.max() >= n_classes or (np.diff(cls, prepend=-1)[inside] < 1).any()):
            raise ValueError(f"classes of a leaf's entries must increase, from 0 to at most {n_classes - 1}")
        return LeafEntries(start, cls.astype(np.uint16), finite("leaf", self.value, (n,)), n_classes)


class GrowingEntries:
    """Entries of leaves that are added behind each other, for a builder; arrays double when full."""

    def __init__(self, n_classes):
        self.n_classes = n_classes
        self._start = np.zeros(64, dtype=np.int64)
        self._cls, self._value = np.empty(64, dtype=np.uint16), np.empty(64, dtype=np.float32)

    def put(self, begin, leaf):
        """Vectors or entries of the leaves from number ``begin`` on; what was there from there on is forgotten."""
        leaf, at = LeafEntries.of(leaf), int(self._start[begin])
        end = at + len(leaf.cls)
        self._start = roomy(self._start, begin + len(leaf) + 1)
        self._cls, self._value = roomy(self._cls, end), roomy(self._value, end)
        self._start[begin : begin + len(leaf) + 1] = leaf.start + at
        self._cls[at:end], self._value[at:end] = leaf.cls, leaf.value

    def __getitem__(self, part):
        """Entries of a slice of the leaves."""
        return LeafEntries(self._start[: part.stop + 1], self._cls, self._value, self.n_classes)[part]


def checked(leaf, shape):
    """Numbers of leaves of a shape as they are saved."""
    entries = isinstance(leaf, LeafEntries) and len(shape) == 2
    return leaf.canonical(*shape) if entries else finite("leaf", leaf, shape)


def halved(leaf):
    """Numbers of leaves as float16."""
    entries = isinstance(leaf, LeafEntries)
    with np.errstate(over="ignore"):  # adding 0 turns the -0 of what was too small into +0
        half = leaf.of_type(np.float16) if entries else leaf.astype(np.float16) + np.float16(0)
    if not np.isfinite(half.value if entries else half).all():
        largest = np.abs(leaf.value if entries else leaf).max()
        raise ValueError(f"leaves='float16' cannot hold a leaf of {largest:g}: the largest number is 65504")
    return half


def leaf_sections(leaf):
    """Sections of a file with the numbers of leaves, as (tag, array)."""
    if not isinstance(leaf, LeafEntries):
        return [("LEAF", leaf)]
    return [("LEAF", leaf.value), ("LOFF", narrow(leaf.start)), ("LCLS", narrow(leaf.cls))]


def roomy(array, n):
    """The array with room for n rows, twice as long where it is too short."""
    if n <= len(array):
        return array
    new = np.empty((max(n, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    new[: len(array)] = array
    return new
