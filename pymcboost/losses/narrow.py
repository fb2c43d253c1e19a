"""Softmax for many classes: of all arrays over rows and classes, only single-precision scores are stored."""

import numpy as np

from pymcboost._kernels import elementary
from pymcboost._kernels import float32_loss as _float32_loss
from pymcboost._kernels.exact import magic_of, refined, unit_of
from pymcboost.losses.rows import LANES, UNUSED, Directions, Integers, Rows

# Leaf entries are added one by one if at most one in this many is not 0.
FEW = 8


class NarrowRows(Rows):
    """Softmax loss on training rows, for trees whose splits are searched in random directions.

    Gradients are computed from the scores when they are needed, for a few rows at a time: for all rows when they are
    projected, and once more for the sums over the rows of the leaves. A score is a single-precision sum, in the order
    of the trees, while the model adds in double precision. They differ by about 6e-8 of the largest score per tree.

    Parameters
    ----------
    data : TreeData
    loss : Softmax
    n_threads : int

    Attributes
    ----------
    stored_scores : ndarray (m, width) float32
        Scores, without what `take` gives.
    """

    def __init__(self, loss, data, n_threads):
        Integers.__init__(self, data, n_threads, rows=0)
        self.loss = loss
        self.link = loss.link
        self.shift_invariant = loss.shift_invariant
        self.lanes = LANES
        self.curvature = None
        self.blocks = data.n_classes // LANES + 1
        self.width = LANES * self.blocks
        self.stored_scores = data.zeros((data.n_rows, self.width), np.float32)
        self._tree = (
            None,
            np.zeros(1, dtype=np.int32),
        )  # leaf vectors that are still to be added, and the leaf of every row
        self.norm = np.empty((data.n_rows, 3), dtype=np.float32)
        self.known = False
        self._weigh()

    @property
    def F(self):
        """Scores, after pending leaf vectors are added."""
        vectors, leaf = self.take()
        if vectors is not None:
            _float32_loss.add_rows(self.stored_scores, vectors, leaf, self.n_threads)
        return self.stored_scores

    def take(self):
        """Take the pending leaf vectors and leaves, for the caller to add; the vectors are None if there are none."""
        tree, self._tree = self._tree, (None, self._tree[1])
        return tree

    def start(self, scores=None):
        """See `Rows`."""
        self.stored_scores[:, : self.data.n_classes] = 0.0 if scores is None else scores
        self.stored_scores[:, self.data.n_classes :] = UNUSED
        self.take()
        self.known = False

    def add(self, value, leaf):
        """Add value[leaf] to F; value is (n_leaves, width).

        Dense vectors are added when the scores are next read, to avoid a second pass through memory.
        """
        F = self.F  # adds the previous tree
        self.known = False
        if FEW * np.count_nonzero(value) > value.size:
            self._tree = value.astype(np.float32, copy=False), leaf
            return
        row, column = np.nonzero(value)
        start = np.searchsorted(row, np.arange(len(value) + 1)).astype(np.int64)
        entries = column.astype(np.uint16), value[row, column].astype(np.float32)
        _float32_loss.add_entries(F, start, *entries, leaf, self.n_threads)

    def directions(self, n_columns):
        """See `Rows`."""
        return NarrowDirections(self, n_columns)

    def mean_square(self):
        """Mean over the rows of w |g|^2, for the gradients that were last projected."""
        return self.square / self.data.total_rows

    def variance(self):
        """See `Rows`; approximate, because gradients are not stored, and their mean is small after the first rounds."""
        return self.mean_square()

    def leaf_sums(self, rows, leaf_start):
        """See `Rows`."""
        self._know_gradients()
        return super().leaf_sums(rows, leaf_start)

    def _values_in_unit(self, rows, leaf_start, magic, step_options, kept=None):
        self._know_gradients()
        arguments = rows, leaf_start, magic, step_options, self.n_threads
        return _float32_loss.softmax_values(self.F, self.norm, self.data.y, self.weight, *arguments)

    def _know_gradients(self):
        """Make sure that the values from which gradients are computed exist; a projection computes them."""
        if not self.known:
            self.directions(1).integers(0)

    def _in_units(self, of, rows, leaf_start, magic):
        of_rows = self.F, self.norm, self.data.y
        return _float32_loss.leaf_sums(
            *of_rows, self.weight, rows, leaf_start, magic, self.n_threads
        )

    def _bounds(self, of, rows, leaf_start):
        tops = _float32_loss.leaf_bounds(
            self.F, self.norm, self.data.y, rows, leaf_start, self.n_threads
        )
        others, own_tops = np.moveaxis(self.data.comm.maximum(tops), 1, 0)
        return np.maximum(elementary.exp(others), own_tops) * self._heaviest(rows, leaf_start)


class NarrowDirections(Directions):
    """`Directions` for gradients that are not stored."""

    def integers(self, key):
        """See `Directions`."""
        loss = self.loss
        signs = self.draw(key)
        n = self.data.total_rows

        def project(*magic):
            return _float32_loss.project(
                loss.stored_scores,
                *loss.take(),
                loss.data.y,
                loss.weight,
                signs,
                self.lanes,
                np.array(magic),
                self.gradient,
                loss.norm,
                self.n_threads,
            )

        # The squared norm of a row's gradient is at most twice the square of its entry for the true class.
        units = self.unit(signs), unit_of(2.02 * loss.largest * loss.bound() ** 2, n)
        first = magic_of(units[0])
        sums, squares = project(first, magic_of(units[1]))
        loss.known = True
        loss.square, _ = refined(
            self.data.comm, lambda magic: project(first, magic)[1], n, unit=units[1], sums=squares
        )
        return loss.rounded(self, sums, units[0])
