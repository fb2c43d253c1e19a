"""Softmax for many classes: of all arrays over rows and classes, only single-precision scores are stored."""

import numpy as np

from pymcboost._kernels import elementary
from pymcboost._kernels import float32_loss as _float32_loss
from pymcboost._kernels.exact import magic_of, refined, unit_of
from pymcboost.losses.rows import LANES, UNUSED, Directions, Integers, Rows

# Leaf entries are added one by one if at most one in this many is not 0.
SPARSE = 8


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
        Scores without the pending leaf vectors, see `take`.
    norm : ndarray (m, 3) float32
        Values from which a row's gradients are computed; a projection computes them.
    has_norm : bool
        Whether ``norm`` belongs to the current scores.
    """

    def __init__(self, loss, data, n_threads):
        Integers.__init__(self, data, n_threads, rows=0)
        self.loss = loss
        self.shift_invariant = loss.shift_invariant
        self.lanes = LANES
        self.curvature = None
        self.blocks = data.n_classes // LANES + 1
        self.width = LANES * self.blocks
        self.stored_scores = data.zeros((data.n_rows, self.width), np.float32)
        # Leaf vectors that are still to be added, and the leaf of every row.
        self._pending = (None, np.zeros(1, dtype=np.int32))
        self.norm = np.empty((data.n_rows, 3), dtype=np.float32)
        self.has_norm = False
        self._set_weights()

    @property
    def F(self):
        """Scores, after pending leaf vectors are added."""
        vectors, leaf = self.take()
        if vectors is not None:
            _float32_loss.add_rows(self.stored_scores, vectors, leaf, self.n_threads)
        return self.stored_scores

    def take(self):
        """Take the pending leaf vectors and leaves, for the caller to add; the vectors are None if there are none."""
        vectors, leaf = self._pending
        self._pending = (None, leaf)
        return vectors, leaf

    def start(self, scores=None):
        """Set the raw scores (m, K); zeros if None."""
        self.stored_scores[:, : self.data.n_classes] = 0.0 if scores is None else scores
        self.stored_scores[:, self.data.n_classes :] = UNUSED
        self.take()
        self.has_norm = False

    def add(self, value, leaf):
        """Add value[leaf] to F; value is (n_leaves, width).

        Dense vectors are added when the scores are next read, to avoid a second pass through memory.
        """
        F = self.F  # adds the previous tree
        self.has_norm = False
        if SPARSE * np.count_nonzero(value) > value.size:
            self._pending = value.astype(np.float32, copy=False), leaf
            return
        row, column = np.nonzero(value)
        start = np.searchsorted(row, np.arange(len(value) + 1)).astype(np.int64)
        cls = column.astype(np.uint16)
        entries = value[row, column].astype(np.float32)
        _float32_loss.add_entries(F, start, cls, entries, leaf, self.n_threads)

    def directions(self, n_columns):
        """Gradients in ``n_columns`` random directions of the classes, used only to search splits."""
        return NarrowDirections(self, n_columns)

    def mean_square(self):
        """Mean over the rows of w |g|^2, for the gradients that were last projected."""
        return self.square / self.data.total_rows

    def variance(self):
        """Mean over the rows of w |g|^2, which is close to the variance.

        Gradients are not stored, and their mean is small after the first rounds.
        """
        return self.mean_square()

    def leaf_sums(self, rows, leaf_start):
        """Sums of g and of |g| (1 - |g|) over the rows of every leaf: (n_leaves, 2, K)."""
        self._ensure_norm()
        return super().leaf_sums(rows, leaf_start)

    def _values_in_unit(self, rows, leaf_start, magic, step_options, kept=None):
        self._ensure_norm()
        return _float32_loss.softmax_values(
            self.F,
            self.norm,
            self.data.y,
            self.weight,
            rows,
            leaf_start,
            magic,
            step_options,
            self.n_threads,
        )

    def _ensure_norm(self):
        """Make sure that the values from which gradients are computed exist."""
        if not self.has_norm:
            self.directions(1).integers(0)

    # The next two methods compute the gradients of `Rows`, so they ignore the argument.

    def _integer_sums(self, gradient, rows, leaf_start, magic):
        return _float32_loss.leaf_sums(
            self.F,
            self.norm,
            self.data.y,
            self.weight,
            rows,
            leaf_start,
            magic,
            self.n_threads,
        )

    def _bounds(self, gradient, rows, leaf_start):
        tops = _float32_loss.leaf_bounds(
            self.F, self.norm, self.data.y, rows, leaf_start, self.n_threads
        )
        log_tops, own_tops = np.moveaxis(self.data.comm.maximum(tops), 1, 0)
        return np.maximum(elementary.exp(log_tops), own_tops) * self._largest_weights(
            rows, leaf_start
        )


class NarrowDirections(Directions):
    """`Directions` for gradients that are not stored."""

    def integers(self, key):
        """Gradients in the directions of this key and weights as integers; None if nothing is left to learn."""
        loss = self.loss
        signs = self.draw(key)
        n = self.data.total_rows

        def project(magic, magic_of_squares):
            vectors, leaf = loss.take()
            return _float32_loss.project(
                loss.stored_scores,
                vectors,
                leaf,
                loss.data.y,
                loss.weight,
                signs,
                self.lanes,
                np.array([magic, magic_of_squares]),
                self.gradient,
                loss.norm,
                self.n_threads,
            )

        unit = self.unit(signs)
        magic = magic_of(unit)
        # The squared norm of a row's gradient is at most twice the square of its entry for the true class.
        unit_of_squares = unit_of(2.02 * loss.largest * loss.bound() ** 2, n)
        sums, squares = project(magic, magic_of(unit_of_squares))
        loss.has_norm = True
        loss.square, _ = refined(
            self.data.comm,
            lambda magic_of_squares: project(magic, magic_of_squares)[1],
            n,
            unit=unit_of_squares,
            sums=squares,
        )
        return loss.rounded(self, sums, unit)
