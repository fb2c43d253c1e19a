"""Sparse leaf vectors, which store values of a few classes; the other classes get 0, or a value shared within the leaf.

With shared values, all numbers are multiples of `GRID`, so that sums are exact in any order.
"""

import numpy as np

from pymcboost.model.arrays import finite, integers, narrow, rising

# Step of shared values and entries, and their largest magnitudes.
GRID = 2.0**-20
LARGEST = 8.0
LARGEST_BIAS = 2.0**20


def on_grid(values, largest=LARGEST):
    """Whether numbers are multiples of `GRID`, up to a largest magnitude."""
    steps = np.asarray(values, dtype=np.float64) / GRID
    return bool((steps == np.rint(steps)).all() and (np.abs(values) <= largest).all())


def rounded(values):
    """Round to multiples of `GRID`, as float32."""
    return (np.rint(np.asarray(values, dtype=np.float64) / GRID) * GRID + 0.0).astype(np.float32)


class LeafEntries:
    """Vectors of n leaves (n, K), stored as entries; they convert to an array where one is needed.

    Parameters
    ----------
    start : ndarray of int64 (n + 1,)
        The entries of leaf j are ``start[j] <= e < start[j + 1]``.
    cls : ndarray of uint16 (E,)
        Their classes, increasing in a leaf.
    value : ndarray of float32 or float16 (E,)
    n_classes : int
    shared : ndarray (n,), optional
        What a leaf adds to all classes, besides its entries.
    """

    ndim = 2

    def __init__(self, start, cls, value, n_classes, shared=None):
        self.start = start
        self.cls = cls
        self.value = value
        self.n_classes = n_classes
        self.shared = shared

    @classmethod
    def of(cls, leaf, shared=None):
        """Convert vectors (n, K) to the entries that are not 0, or that differ from the shared value of their leaf."""
        if isinstance(leaf, LeafEntries):
            return leaf
        leaf = np.asarray(leaf, dtype=np.float32)
        difference = leaf if shared is None else leaf - shared[:, None]
        row, column = np.nonzero(difference)
        start = np.searchsorted(row, np.arange(len(leaf) + 1))
        value = difference[row, column]
        return cls(start, column.astype(np.uint16), value, leaf.shape[1], shared)

    @property
    def shape(self):
        """Shape (n, K) of the vectors."""
        return len(self), self.n_classes

    @property
    def dtype(self):
        """Type of the numbers."""
        return self.value.dtype

    def __len__(self):
        return len(self.start) - 1

    def __getitem__(self, leaves):
        """Entries for a slice of the leaves; vectors for other indices."""
        if not isinstance(leaves, slice):
            return self._vectors(np.arange(len(self))[leaves])
        begin, end, _ = leaves.indices(len(self))
        end = max(begin, end)
        start = self.start[begin : end + 1]
        entries = slice(start[0], start[-1])
        shared = None if self.shared is None else self.shared[begin:end]
        return LeafEntries(
            start - start[0], self.cls[entries], self.value[entries], self.n_classes, shared
        )

    def _vectors(self, leaf):
        """Vectors of these leaves (an index or an array of indices)."""
        counts = np.diff(self.start)[leaf]
        vectors = np.zeros((np.size(leaf), self.n_classes), dtype=self.value.dtype)
        if self.shared is not None:
            vectors += np.ravel(self.shared[leaf])[:, None]
        row = np.repeat(np.arange(len(vectors)), counts)
        place_in_leaf = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        entry = np.repeat(self.start[leaf], counts) + place_in_leaf
        vectors[row, self.cls[entry]] += self.value[entry]
        return vectors.reshape(*np.shape(leaf), self.n_classes)

    def __array__(self, dtype=None, copy=None):
        dtype = self.dtype if dtype is None else dtype
        return self._vectors(np.arange(len(self))).astype(dtype, copy=False)

    def astype(self, dtype):
        """Dense vectors of this type."""
        return np.asarray(self, dtype=dtype)

    def of_type(self, dtype):
        """Convert the numbers to this type."""
        shared = None if self.shared is None else self.shared.astype(dtype) + dtype(0)
        return LeafEntries(
            self.start, self.cls, self.value.astype(dtype) + dtype(0), self.n_classes, shared
        )

    def copy(self):
        """Read-only copy."""
        return LeafEntries(
            _frozen(self.start),
            _frozen(self.cls),
            _frozen(self.value),
            self.n_classes,
            None if self.shared is None else _frozen(self.shared),
        )

    def canonical(self, n_leaves, n_classes):
        """Check the entries of a number of leaves and classes, and return them in the form that is saved."""
        n = len(self.cls)
        start = rising("entry_start", self.start, n)
        cls = integers("entry_class", self.cls, n)
        if len(start) != n_leaves + 1 or self.n_classes != n_classes:
            raise ValueError(f"there must be entries of {n_leaves} leaves and {n_classes} classes")
        if n:
            follows_in_leaf = np.ones(n, dtype=bool)
            follows_in_leaf[start[:-1][start[:-1] < n]] = False
            decreases = np.diff(cls, prepend=-1)[follows_in_leaf] < 1
            if cls.min() < 0 or cls.max() >= n_classes or decreases.any():
                raise ValueError(
                    f"classes of a leaf's entries must increase, from 0 to at most {n_classes - 1}"
                )
        value = finite("leaf", self.value, (n,))
        shared = self.shared
        if shared is not None:
            shared = finite("shared", shared, (n_leaves,))
            if not on_grid(value) or not on_grid(shared):
                raise ValueError(
                    "if leaves have shared numbers, these and the entries must be multiples "
                    "of 2^-20 with magnitude at most 8"
                )
        return LeafEntries(start, cls.astype(np.uint16), value, n_classes, shared)


class GrowingEntries:
    """Entries of leaves that are added one after the other, for a builder; arrays double when full.

    With ``shared``, each leaf also has a value for all classes without an entry. It is 0 if entries are added without
    it.
    """

    def __init__(self, n_classes, shared=False):
        self.n_classes = n_classes
        self._shared = np.zeros(64, dtype=np.float32) if shared else None
        self._start = np.zeros(64, dtype=np.int64)
        self._cls = np.empty(64, dtype=np.uint16)
        self._value = np.empty(64, dtype=np.float32)

    def put(self, begin, leaf):
        """Store vectors or entries of the leaves from number ``begin`` on; earlier ones from there on are dropped."""
        leaf = LeafEntries.of(leaf)
        first_entry = int(self._start[begin])
        end = first_entry + len(leaf.cls)
        self._start = roomy(self._start, begin + len(leaf) + 1)
        self._cls = roomy(self._cls, end)
        self._value = roomy(self._value, end)
        self._start[begin : begin + len(leaf) + 1] = leaf.start + first_entry
        self._cls[first_entry:end] = leaf.cls
        self._value[first_entry:end] = leaf.value
        if self._shared is not None:
            self._shared = roomy(self._shared, begin + len(leaf))
            self._shared[begin : begin + len(leaf)] = 0 if leaf.shared is None else leaf.shared

    def __getitem__(self, leaves):
        """Entries for a slice of the leaves."""
        shared = None if self._shared is None else self._shared[: leaves.stop]
        entries = LeafEntries(
            self._start[: leaves.stop + 1], self._cls, self._value, self.n_classes, shared
        )
        return entries[leaves]


def checked(leaf, shape, bias):
    """Check the values of leaves with this shape, in the form in which they are saved."""
    if not isinstance(leaf, LeafEntries) or len(shape) != 2:
        return finite("leaf", leaf, shape)
    if leaf.shared is not None and not on_grid(bias, LARGEST_BIAS):
        raise ValueError(
            "if leaves have shared numbers, the bias must be a multiple of 2^-20 with "
            "magnitude at most 2^20"
        )
    return leaf.canonical(*shape)


def halved(leaf):
    """Convert leaf values to float16."""
    is_sparse = isinstance(leaf, LeafEntries)
    with np.errstate(over="ignore"):
        # Adding 0 turns underflowed -0 into +0.
        half = leaf.of_type(np.float16) if is_sparse else leaf.astype(np.float16) + np.float16(0)
    if not np.isfinite(half.value if is_sparse else half).all():
        largest = np.abs(leaf.value if is_sparse else leaf).max()
        raise ValueError(
            f"leaves='float16' cannot store a leaf of {largest:g}: the largest number is 65504"
        )
    return half


def leaf_sections(leaf):
    """Sections of a file for the leaf values, as (tag, array)."""
    if not isinstance(leaf, LeafEntries):
        return [("LEAF", leaf)]
    sections = [("LEAF", leaf.value), ("LOFF", narrow(leaf.start)), ("LCLS", narrow(leaf.cls))]
    return sections if leaf.shared is None else [*sections, ("LALL", leaf.shared)]


def roomy(array, n):
    """Return an array with room for n rows; if it is too short, a copy of at least twice the length."""
    if n <= len(array):
        return array
    larger = np.empty((max(n, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


def _frozen(array):
    """Read-only copy of an array."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy
