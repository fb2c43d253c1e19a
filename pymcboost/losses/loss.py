"""What a loss must say, and what the compiled ones share."""

import numpy as np

from pymcboost._kernels import vrows as _vrows
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost._kernels.exact import magic_of
from pymcboost.losses.rows import CHUNK, UNUSED, Rows, row_layout


class Loss:
    """Base of losses of the scores F (m, K) of all classes.

    A loss of your own is a subclass with `value` and `gradient`, and `curvature` where it has one: arrays in, arrays
    out. Trees with vector leaves then grow on it; compiled losses are faster.

    Attributes
    ----------
    link : {"softmax", "softmax2"}
        How scores become probabilities: softmax(F), or softmax(2 F).
    scaled : bool
        Gradients are known up to a common factor, so that they may be as small as they like.
    shift_invariant : bool
        The loss stays the same when all scores of a row are shifted: its gradients have the sum 0.
    begins : bool
        Scores begin with numbers of the loss, see `first`.
    """

    link = "softmax"
    scaled = False
    shift_invariant = True
    begins = False
    gives_probabilities = False
    steps_of_sums = False  # whether steps follow from the sums that a kernel takes for softmax, see `Softmax.steps_of`
    spare_lane = False  # whether scores have the lane of the weights, too

    def bound(self, n_classes):
        """No entry of a gradient is larger; None: what there is, is looked at."""
        return None

    def first(self, data):
        """Where scores begin (K,), with ``begins``."""
        raise NotImplementedError

    def value(self, F, y):
        """Loss of every row (m,), without its weight."""
        raise NotImplementedError

    def gradient(self, F, y):
        """Negative gradients of the rows (m, K)."""
        raise NotImplementedError

    def curvature(self, F, y):
        """Second derivatives by each score alone (m, K); None: 1 for all, so that leaves have mean gradients."""
        return None

    def put(self, F, y, gradient, curvature):
        """Write what `gradient` and `curvature` say of rows, whose scores (m, K) may be overwritten."""
        gradient[:], h = self.gradient(F, y), self.curvature(F, y)
        curvature[:] = 1 if h is None else h

    def rows(self, data, n_threads=1):
        """The loss at work on training data, row after row."""
        return Rows(self, data, n_threads)

    def follow(self, rows, value, leaf):
        """``rows.F`` += value[leaf], where there is any, and ``rows.gradient``.

        Returns the sums of w |g| by lane in units, or None where they are to be computed when they are needed.
        """
        _vrows.add_leaves(rows.F, value, leaf, rows.data.y, rows.lanes, False, rows.n_threads)
        K = rows.data.n_classes
        if rows.curvature is None:
            rows.curvature = aligned_zeros(rows.gradient.shape, np.float32)
        for part in rows.parts(CHUNK):
            self.put(rows.F[part, :K].copy(), rows.data.y[part], rows.gradient[part, :K], rows.curvature[part, :K])

    def leaf_steps(self, rows, leaf_rows, leaf_start, full, l2=0.0):
        """Steps (n_leaves, K) along each score alone, times (K - 1) / K where K scores share the move."""
        K = rows.data.n_classes
        sums, curvature = rows.leaf_sums(leaf_rows, leaf_start), rows.curvature_sums(leaf_rows, leaf_start)
        return ((K - 1) / K if self.shift_invariant else 1.0) * sums[:, 0] / np.maximum(curvature + l2, 1e-30)

    def leaf_curvature(self, rows, leaf_rows, leaf_start, l2=0.0):
        """Curvatures (n_leaves, K) of `leaf_steps`."""
        return rows.curvature_sums(leaf_rows, leaf_start) + l2

    def row_curvatures(self, rows):
        """Second derivatives of the rows by each score, summed up (m,); of a scaled loss divided by exp(shift)."""
        found, K = np.empty(rows.data.n_rows), rows.data.n_classes
        for part in rows.parts(CHUNK):
            found[part] = rows.curvature[part, :K].astype(np.float64).sum(axis=1)
        return found


class CompiledLoss(Loss):
    """A loss with a kernel for gradients. ``kernel`` is its number there.

    Those with whole Hessians have `tables`, the shape of the sums of a leaf, `leaf_tables`, which takes them in units,
    and `newton_of`, gradient (K,) and Hessian (K, K) from them.
    """

    def gradient(self, F, y):
        """See `Loss.gradient`."""
        (m, K), y = F.shape, np.asarray(y, dtype=np.int32)
        lanes, _, width = row_layout(K)
        padded, G = aligned_zeros((m, width), np.float64), aligned_zeros((m, width), np.float32)
        padded[:, :K], padded[:, K:] = F, UNUSED
        leaf, y = np.zeros(0, dtype=np.int32), np.ascontiguousarray(y)
        _vrows.gradient(padded, None, leaf, y, np.zeros(0), self.kernel, 0.0, lanes, 1.0, G, 1)
        return G[:, :K]

    def follow(self, rows, value, leaf):
        """See `Loss.follow`. Where gradients are scaled, by the largest F_r - F_y of all rows."""
        if self.scaled:
            shift = _vrows.add_leaves(rows.F, value, leaf, rows.data.y, rows.lanes, True, rows.n_threads)
            rows.shift, value = float(rows.data.comm.maximum(np.array([shift]))[0]), None
        return _vrows.gradient(
            rows.F, value, leaf, rows.data.y, rows.weight, self.kernel, rows.shift, rows.lanes, magic_of(rows.unit()),
            rows.gradient, rows.n_threads, rows.summed,
        )  # fmt: skip

    def leaf_steps(self, rows, leaf_rows, leaf_start, full, l2=0.0):
        """See `Loss.leaf_steps`; Newton steps with the whole Hessian."""
        return rows.newton_steps(leaf_rows, leaf_start, l2)
