"""Binary classification trees h(x) in {-1, +1}, one for every column of a gradient."""

from typing import NamedTuple

import numpy as np

from pymcboost._kernels import classwise_trees as _trees
from pymcboost._kernels.exact import units_of
from pymcboost.data.rows import TIE
from pymcboost.data.tree_data import Grown, Quantiser
from pymcboost.learners.class_trees import step_options
from pymcboost.learners.levels import least_levels


def sizes_of(data, gradient, n_columns, n_threads):
    """Sums of absolute values by column of a gradient over all workers, upper bounds, and counts of nonzero rows.

    Each row is rounded to a unit that depends on the largest value of its column, so sums are exact in any order.
    """
    top = np.zeros(n_columns)
    _trees.edge_tops(gradient, top, n_threads)
    unit = units_of(data.comm.maximum(top), np.full(n_columns, data.total_rows))
    sums = np.zeros((2, n_columns), dtype=np.int64)
    _trees.edge_sizes(gradient, unit, sums, n_threads)
    size, n_nonzero = data.comm.sum(sums)
    return size * unit, (size + n_nonzero / 2) * unit, n_nonzero


class TreeFit(NamedTuple):
    """A tree with leaves +-1, as arrays for `TreesBuilder.add_tree`.

    ``sign`` holds the output of every leaf, and ``h`` (m,) the outputs on the training rows. ``gain`` holds the gains
    of the splits, and ``codes`` the codes that go left, by the number of a split on categories.
    """

    feature: np.ndarray
    threshold: np.ndarray
    nan_left: np.ndarray
    right: np.ndarray
    sign: np.ndarray
    gain: np.ndarray
    cls: int
    edge: float
    h: np.ndarray
    codes: dict

    def first_split(self):
        """Feature and threshold of the root, as Python numbers; the threshold is NaN for a split on categories."""
        return int(self.feature[0]), np.nan if 0 in self.codes else float(self.threshold[0])

    def as_tree(self):
        """Return copies of the arrays (feature, threshold, nan_left, right, sign), which the next tree reuses."""
        arrays = (self.feature, self.threshold, self.nan_left, self.right, self.sign)
        return tuple(array.copy() for array in arrays)

    def add_to(self, builder, plus, minus=None):
        """Add it to a builder, with the values (K,) of the classes where h is +1 and -1 (``-plus`` if None)."""
        leaf = np.where(self.sign[:, None] > 0, plus, -plus if minus is None else minus)
        sets = builder.packed(self.feature, self.nan_left, self.codes)
        builder.add_tree(self.feature, self.threshold, self.nan_left, self.right, leaf, sets=sets)


def counts_for(data):
    """Whether histogram cells store the weights that bounds on leaves and categories need."""
    return bool(data.dtype == np.float64 or data.least_weight > 0 or data.columns.levels)


class _EdgeTrees:
    """Binary classification trees, one for every class r against the rest, weighted by ``|a_ir|``.

    They are split by their edges, or by the Gini impurity with ``gini``. Gini is also used if no single split of the
    root has an edge for any class, because otherwise nothing could be learned. On either side of every split, the
    rows with a nonzero gradient have a sample weight of at least ``data.least_weight``, or ``drawn`` times that.
    """

    shared = False

    def __init__(
        self,
        data,
        max_leaves,
        max_depth,
        n_threads,
        n_columns=None,
        gini=False,
        min_share=0.0,
        drawn=1.0,
    ):
        self.data = data
        self.n_columns = data.n_classes if n_columns is None else n_columns
        self._units = Quantiser(data, counts_for(data), 0.0, least_weight=data.least_weight * drawn)
        self._limits = (max_leaves, max_depth or 0, n_threads, min_share)
        self.n_threads = n_threads
        self._options = self._grower_options()
        self._grower = self._new_grower(gini)
        self._by_gini = None
        self._grown = Grown.empty(
            self.n_columns, max_leaves, data.n_rows, data.set_words, data.zeros
        )
        self._edges = np.zeros(self.n_columns)
        # The initial unit of the gradients, unless weights differ too much.
        self._unit = float(max(data.weight_ends[0], 1e-9 * (data.total_weight / data.total_rows)))

    def _new_grower(self, gini):
        """Create a kernel that splits trees by their edges, or by the Gini impurity."""
        max_leaves, max_depth, n_threads, min_share = self._limits
        return _trees.Grower(
            self.data.tiles,
            max_leaves,
            max_depth,
            self._units.least,
            self._units.cell_words,
            not gini,
            self.data.pools(self._units.cell_words, max_leaves),
            n_threads,
            min_share,
            count_bits=self._units.count_bits,
            weight=self.data.whole_weight,
            **self._options,
        )

    def _grower_options(self):
        """Options of the kernel's grower that only some classes of trees use."""
        return {}

    def _sums(self, gradient):
        """Sums over the rows of all workers, for the kernel."""
        return {}

    def _grow(self, gradient):
        """Grow the trees of all columns; by the Gini impurity if no root has a split with an edge."""
        units = self._units
        arguments = (
            gradient,
            self.n_columns,
            units.weight,
            units.limit_g,
            self._unit,
            units.per_count,
            self._edges,
            self._grown,
        )
        sums = self._sums(gradient)
        self._grower.grow_edges(*arguments, **sums)
        if not self._grown.n_splits.any():
            if self._by_gini is None:
                self._by_gini = self._new_grower(True)
            self._by_gini.grow_edges(*arguments, **sums)

    def _tree(self, c, h):
        """Return the tree of class c, and write its outputs into ``h``."""
        column, threshold, nan_left, right, sign, gain = self._grown.tree(c, self.data)
        np.take(sign.astype(np.int8), self._grown.leaf[c], out=h)
        codes = self._grown.codes(np.array([c]), self.data)
        return TreeFit(
            column,
            threshold,
            nan_left,
            right=right,
            sign=sign,
            gain=gain,
            cls=c,
            edge=float(self._edges[c]),
            h=h,
            codes=codes,
        )


class SharedTree(_EdgeTrees):
    """Binary classification trees shared by all classes: the tree of the class with the largest edge (eq. 10).

    Rows may be divided among workers, and features may be categorical.

    Parameters
    ----------
    data : TreeData
    max_leaves : int
    max_depth : int or None
    n_threads : int
    min_samples_category : float, default=15
        As in the estimators.
    """

    shared = True

    def __init__(self, data, max_leaves, max_depth, n_threads, min_samples_category=15.0):
        self._min_samples_category = min_samples_category
        super().__init__(data, max_leaves, max_depth, n_threads)
        self._h = data.zeros(data.n_rows, np.int8)

    def _grower_options(self):
        units = self._units
        levels = least_levels(
            self.data,
            units.weight,
            1.0,
            units=units.per_count,
            enough=self._min_samples_category,
            bound_scale=self.data.bound_scale,
        )
        max_leaves = self._limits[0]
        return {
            "least_levels": levels,
            **step_options(self.data, counts_for(self.data), max_leaves),
        }

    def _sums(self, gradient):
        if not self.data.exact:
            return {}
        _, size, n_nonzero = sizes_of(self.data, gradient, self.n_columns, self.n_threads)
        return {"size": size, "there": n_nonzero}

    def fit(self, gradient):
        """Find the best tree for ``gradient`` (n_blocks, m, lanes); None if no tree has a positive edge."""
        self._grow(gradient)
        edges = np.where(self._grown.n_splits > 0, self._edges, 0.0)
        best = int(np.argmax(edges >= edges.max() / TIE[self.data.dtype]))
        return self._tree(best, self._h) if self._grown.n_splits[best] else None


class EdgeTrees(_EdgeTrees):
    """Binary classification trees, one for each column.

    Parameters
    ----------
    data : TreeData
    max_leaves : int
    max_depth : int or None
    n_threads : int
    n_columns : int, optional
    gini : bool, default=False
        Split by the Gini impurity. It continues if no single split changes the number of errors; adjacent leaves with
        the same output are then merged.
    min_share : float, default=0.0
        Only nodes with more than this share of the weight are split.
    drawn : float, default=1.0
        Share of the rows with a gradient. This share of ``data.least_weight`` is the minimum weight on each side of a
        split.
    code : ndarray (n_classes, n_columns), optional
        Signs of the classes. A column in which all classes that occur have the same sign allows no split with a gain,
        so it gets a tree without splits and with this sign. Without a code, there are no such trees.
    """

    def __init__(
        self,
        data,
        max_leaves,
        max_depth,
        n_threads,
        n_columns=None,
        gini=False,
        min_share=0.0,
        drawn=1.0,
        code=None,
    ):
        super().__init__(data, max_leaves, max_depth, n_threads, n_columns, gini, min_share, drawn)
        self.outputs = data.zeros((self.n_columns, data.n_rows), np.int8)
        self.constants = [] if code is None else _of_one_sign(data, code)

    def fit(self, gradient):
        """Grow a tree for every column of ``gradient`` (n_blocks, m, lanes), in order; omit columns without a split.

        The outputs, which are also the rows of ``outputs``, are overwritten by the next call.
        """
        self._grow(gradient)
        trees = [
            self._tree(c, self.outputs[c]) for c in range(self.n_columns) if self._grown.n_splits[c]
        ]
        return self.with_constants(trees, gradient) if self.constants else trees

    def with_constants(self, trees, gradient):
        """Add constant trees for columns with a single sign, if their rows have any weight."""
        columns_with_tree = {tree.cls for tree in trees}
        lanes = gradient.shape[2]
        constant_trees = []
        for c, sign in self.constants:
            mass = float(np.abs(gradient[c // lanes, :, c % lanes]).sum(dtype=np.float64))
            if c not in columns_with_tree and mass > 0:
                constant_trees.append(constant_tree(c, sign, mass, h=self.outputs[c]))
        return sorted([*trees, *constant_trees], key=lambda tree: tree.cls)


def _of_one_sign(data, code):
    """Columns of a code in which all classes that occur have the same sign, and that sign."""
    signs = np.sign(code[np.diff(data.class_start) > 0])
    has_one_sign = (signs == signs[0]).all(axis=0) & (signs[0] != 0)
    return [(int(c), int(signs[0, c])) for c in np.flatnonzero(has_one_sign)]


def constant_tree(column, sign, edge, h):
    """Return a tree without splits, and write its outputs into ``h``."""
    h[:] = sign
    return TreeFit(
        feature=np.zeros(0, dtype=np.int64),
        threshold=np.zeros(0, dtype=np.float32),
        nan_left=np.zeros(0, dtype=bool),
        right=np.zeros(0, dtype=np.int64),
        sign=np.array([float(sign)]),
        gain=np.zeros(0),
        cls=column,
        edge=edge,
        h=h,
        codes={},
    )
