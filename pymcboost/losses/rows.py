"""Losses stored row by row: scores, gradients and integers for trees with vector leaves."""

import math

import numpy as np

from pymcboost._kernels import vector_loss as _vector_loss
from pymcboost._kernels.exact import is_wide, magic_of, refined, total, unit_of, units_of

# If the sum of the gradients is below this share of the weights, they are only rounding errors.
SMALLEST_GRADIENT = 1e-12
# Limits of integer sums. 64-bit sums stay below `WIDE_ROOM`, so that rounding in double precision is far below one
# unit, and the integers of a row below `ROW_ROOM`.
INTEGER_ROOM = 2.0**31 * (1 - 2.0**-9)
WIDE_ROOM = 2.0**44
ROW_ROOM = 2.0**30
# With more scores than this, they are stored without many unused lanes.
LARGE_SCORES = 1 << 20
# Number of values that NumPy processes at once, so that they stay in the cache.
CHUNK = 1 << 15
# Size of the leaf tables that are summed at once.
TABLES = 1 << 17
# Number of rows that a thread sums at once if there is a single leaf.
PIECE = 4096
# Lanes of a block for many classes.
LANES = 16
# Score in unused lanes.
UNUSED = -1e30
# Sums of leaves use smaller units if their terms have fewer bits than this on average.
SMALL_BITS = 16
# Share of the mean curvature that is added to each class's curvature, for classes that do not occur in a leaf.
RIDGE = 0.05


def row_layout(n_classes):
    """Lanes of a block, number of blocks, and their product, for the classes and one more lane for the weight."""
    if n_classes < 4:
        lanes = 4
    else:
        lanes = 8 if n_classes < 8 else 16
    blocks = n_classes // lanes + 1
    return lanes, blocks, lanes * blocks


def scale_of(n_rows, total, largest):
    """Power of two that scales numbers to integers, given the number of rows, the total, and the largest of a row."""
    if not is_wide(n_rows):
        return power_of_two((INTEGER_ROOM - n_rows) / total)
    return power_of_two(min((WIDE_ROOM - n_rows) / total, ROW_ROOM / largest))


def _range_of(comm, array):
    """Smallest and largest number over all workers."""
    smallest = array.min(initial=np.inf)
    largest = array.max(initial=-np.inf)
    ends = comm.maximum(np.array([-smallest, largest], dtype=np.float64))
    return -float(ends[0]), float(ends[1])


def _rows_of_leaves(leaves, rows, leaf_start):
    """Rows of some of the leaves, and the start of each of these."""
    if len(leaves) == len(leaf_start) - 1:
        return rows, leaf_start
    count = np.diff(leaf_start)[leaves]
    rows_of_leaves = [rows[leaf_start[j] : leaf_start[j + 1]] for j in leaves]
    return np.concatenate(rows_of_leaves), np.concatenate(([0], np.cumsum(count)))


def power_of_two(x):
    """Largest power of two that is at most x."""
    return math.ldexp(0.5, math.frexp(x)[1])


class Integers:
    """Gradients of the rows (m, width) as integers (blocks, m, lanes), for growing trees.

    Parameters
    ----------
    data : TrainingData
    n_threads : int
    n_columns : int, optional
        Number of columns of the gradients, if it is not the number of classes.
    rows : int, optional
        Rows of ``gradient``; 0 if it is not stored.

    Attributes
    ----------
    gradient : ndarray (m, width) float32
        Negative gradients of the rows, without their weights.
    lanes, blocks, width : int
        The classes, and one more lane for the weight, are stored in blocks of lanes.
    gain_unit : float
        The gain, in squared gradients per weight, that corresponds to 1 in the latest integers.
    row_error : float
        Bound of the latest rounding error of a row's vector minus its weight times any mean of other rows.
    rows_per_weight : float
        Number of rows per unit of weight in the latest integers.
    """

    def __init__(self, data, n_threads, n_columns=None, rows=None):
        self.data = data
        self.n_threads = n_threads
        self.n_columns = n_columns or data.n_classes
        self.lanes, self.blocks, self.width = row_layout(self.n_columns)
        self.gradient = data.zeros((data.n_rows if rows is None else rows, self.width), np.float32)
        self._integers = None  # allocated when needed, because splits may be searched on others

    def _scale(self, weight, top):
        """Power of two that scales gradients to integers; ``top`` is the sum of their magnitudes."""
        n = self.data.total_rows
        return scale_of(n, top, self._largest(weight) if is_wide(n) else 0.0)

    def _quantise(self, weight, scale, units, size=1.0, total=None):
        """Convert gradients (scale per 1) and weights (units per 1) to integers; ``size`` bounds the norm of a row.

        total : sum of the weights of all rows; None if they are equal.
        """
        self.gain_unit = units / scale / scale
        # Equal rows with equal weights have equal integers.
        self.row_error = 0.0
        self.rows_per_weight = 1.0
        if total is not None:
            n = self.data.total_rows
            halves = math.sqrt(self.n_columns) + size * scale / units
            self.row_error = 0.5 * halves + 2.0**-22 * INTEGER_ROOM / n  # includes float32
            self.rows_per_weight = n / (total * units)
        if self._integers is None:
            self._integers = self.data.zeros((self.blocks, self.data.n_rows, self.lanes), np.int32)
        _vector_loss.quantise(
            self.gradient, weight, self.n_columns, scale, units, self._integers, self.n_threads
        )
        return self._integers

    def _largest(self, weight):
        """Upper bound of w |g| over the rows of all workers."""
        _, largest_weight = _range_of(self.data.comm, weight)
        if not largest_weight > 0:
            largest_weight = 1.0  # there are no weights: all are equal
        return max(map(abs, _range_of(self.data.comm, self.gradient))) * largest_weight


class Rows(Integers):
    """A loss on the training rows.

    Parameters
    ----------
    loss : Loss
    data : TrainingData
    n_threads : int

    Attributes
    ----------
    F : ndarray (m, width) or (m, K) float64
        Scores.
    weight : ndarray (m,)
        Weights; empty if all are equal, which then count as 1.
    summed : bool
        Whether sums are taken with the gradients, for `integers`.
    curvature : ndarray (m, width) float32, or None
        Second derivatives, of losses in NumPy.
    """

    def __init__(self, loss, data, n_threads):
        super().__init__(data, n_threads)
        self.loss = loss
        self.shift_invariant = loss.shift_invariant
        self.curvature = None
        self.summed = True
        K = data.n_classes
        # Large data avoid many unused lanes. Rows of several blocks would not stay in the cache anyway.
        is_large = data.n_rows * self.width > LARGE_SCORES
        wastes_lanes = self.blocks == 1 and 4 * K < 3 * self.width and not loss.spare_lane
        width = K if is_large and wastes_lanes else self.width
        self.F = data.zeros((data.n_rows, width), np.float64)
        self._set_weights()

    def _set_weights(self):
        """Set the weights, their largest value and total over all workers, and their integer unit."""
        data = self.data
        smallest, largest = _range_of(data.comm, data.weight)
        self.bound_scale = data.bound_scale
        self.uniform = smallest == largest
        if self.uniform:
            self.weight = data.weight[:0]
            self.largest = 1.0
            self.total = float(data.total_rows)
            self.units = 1.0
        else:
            self.weight = data.weight
            self.largest = largest
            self.total = float(data.comm.sum(data.weight.sum(keepdims=True))[0])
            self.units = scale_of(data.total_rows, self.total, largest)

    def least(self, weight):
        """Convert a minimum weight to integer units, so that rounding does not refuse a weight that is just allowed."""
        limit = WIDE_ROOM if is_wide(self.data.total_rows) else INTEGER_ROOM
        return max(1, int(np.ceil(min(weight * self.units * (1 - 1e-9), limit))))

    def start(self, scores=None):
        """Set the raw scores (m, K); zeros if None."""
        K = self.data.n_classes
        self.F[:, :K] = 0.0 if scores is None else scores
        self.F[:, K:] = UNUSED
        no_leaf = np.zeros(self.data.n_rows, dtype=np.int32)
        self._gradient_sizes = self.loss.follow(self, None, no_leaf)

    def add(self, value, leaf):
        """Add value[leaf] to F; value is (n_leaves, width)."""
        self._gradient_sizes = self.loss.follow(self, value, leaf)

    def value(self):
        """Training loss: the weighted sum over the rows."""
        loss = self.loss.value(self.F[:, : self.data.n_classes], self.data.y)
        return total(loss * self.weight if len(self.weight) else loss)

    def integers(self, key=None):
        """Gradients and weights as integers (blocks, m, lanes); None if nothing is left to learn."""
        return self.rounded(self, self._gradient_sizes, self.unit())

    def unit(self, times=1.0):
        """Unit of the sums of w |g|, for gradients up to ``times`` times the bound."""
        return unit_of(1.001 * times * self.largest * self.bound(), self.data.total_rows)

    def bound(self):
        """Upper bound of the gradients."""
        bound = self.loss.bound(self.data.n_classes)
        if bound is not None:
            return bound
        return max(abs(end) for end in _range_of(self.data.comm, self.gradient))

    def parts(self, n):
        """Slices of the rows with about ``n`` numbers each."""
        m = self.data.n_rows
        step = 1 + n // self.data.n_classes
        return (slice(begin, min(begin + step, m)) for begin in range(0, m, step))

    def rounded(self, target, sums, unit):
        """Round gradients to integers; None if they are only rounding errors.

        Parameters
        ----------
        target : Integers
            Holds the gradients and takes the integers: these rows, or their `Directions`.
        sums : ndarray or None
            Sums of w |g| by lane in this unit, if they are known.
        unit : float
        """
        n_columns = target.n_columns

        def sizes(magic):
            sizes_of_lanes = _vector_loss.sizes(
                target.gradient, self.weight, target.lanes, magic, self.n_threads
            )
            return sizes_of_lanes[:n_columns].copy()

        sums = None if sums is None else sums[:n_columns].copy()
        smallest = SMALLEST_GRADIENT * self.total
        top, error = refined(self.data.comm, sizes, self.data.total_rows, unit, sums, smallest)
        if not top > smallest:
            return None
        scale = target._scale(self.weight, top + error)
        if self.uniform:
            return target._quantise(self.weight, scale, self.units)
        # The norm of a vector whose entries add up to 0 is at most sqrt(2) times the bound.
        size = math.sqrt(2 if self.shift_invariant else self.data.n_classes) * self.bound()
        return target._quantise(self.weight, scale, self.units, size, self.total)

    def directions(self, n_columns):
        """Gradients in ``n_columns`` random directions of the classes, used only to search splits."""
        self.summed = False
        return Directions(self, n_columns)

    def mean_square(self):
        """Mean over the rows of w |g|^2."""

        def squares(magic):
            return _vector_loss.sum_of_squares(
                self.gradient, self.weight, self.lanes, magic, self.n_threads
            )

        n = self.data.total_rows * self.width
        unit = unit_of(1.01 * self.largest * self.bound() ** 2, n)
        sum_of_squares, _ = refined(self.data.comm, squares, n, unit=unit)
        return sum_of_squares / self.data.total_rows

    def variance(self):
        """Mean over the rows of w |g - mean g|^2."""
        rows = np.arange(self.data.n_rows, dtype=np.int32)
        g_sum = self.leaf_sums(rows, np.array([0, len(rows)]))[0, 0]
        square_of_mean = float(g_sum @ g_sum) / self.total / self.data.total_rows
        return max(0.0, self.mean_square() - square_of_mean)

    def leaf_steps(self, rows, leaf_start, full, l2=0.0):
        """Optimal steps (n_leaves, K) for the rows of the leaves, ``rows[leaf_start[j]:leaf_start[j + 1]]``."""
        return self.loss.leaf_steps(self, rows, leaf_start, full, l2)

    def leaf_values(self, rows, leaf_start, full, l2, largest, rate, kept=None):
        """Leaf vectors (n_leaves, width) to add to scores.

        They are clipped `leaf_steps` minus their mean, times the learning rate.

        ``kept``: float32 (n_leaves, 2, width), is filled with the result of `leaf_sums`. Only for softmax without
        workers.
        """
        if not self.loss.steps_of_sums or full or self.data.comm.size > 1:
            step = self.leaf_steps(rows, leaf_start, full, l2)
            return _vector_loss.leaf_values(step, largest, rate, self.width, self.shift_invariant)
        count = leaf_start[1:] - leaf_start[:-1]
        unit = self._common_unit(self.loss.bound(self.data.n_classes), count)
        magic = np.full(self.width, magic_of(unit))
        step_options = self.data.n_classes, SMALL_BITS, l2, largest, rate
        value, small = self._values_in_unit(rows, leaf_start, magic, step_options, kept)
        if len(small):
            rows_of_small, start_of_small = _rows_of_leaves(small, rows, leaf_start)
            sums = self._sums_in_own_units(
                self.gradient, rows_of_small, start_of_small, count[small]
            )
            if kept is not None:
                kept[small, :, : sums.shape[2]] = sums
            step = self.loss.steps_of(sums, l2)
            value[small] = _vector_loss.leaf_values(
                step, largest, rate, self.width, self.shift_invariant
            )
        return value

    def _values_in_unit(self, rows, leaf_start, magic, step_options, kept=None):
        """Leaf vectors from sums in the unit of ``magic``, and the leaves whose sums have too few bits in it."""
        return _vector_loss.softmax_values(
            self.gradient,
            self.weight,
            self.lanes,
            rows,
            leaf_start,
            magic,
            step_options,
            self.n_threads,
            kept,
        )

    def leaf_curvature(self, rows, leaf_start, l2=0.0):
        """Curvatures (n_leaves, K) that divide the diagonal steps."""
        return self.loss.leaf_curvature(self, rows, leaf_start, l2)

    def leaf_sums(self, rows, leaf_start):
        """Sums of g and of |g| (1 - |g|), softmax's p (1 - p), over the rows of every leaf: (n_leaves, 2, K)."""
        return self._sums(self.gradient, rows, leaf_start)

    def curvature_sums(self, rows, leaf_start):
        """Sums of the curvature over the rows of every leaf: (n_leaves, K)."""
        return self._sums(self.curvature, rows, leaf_start)[:, 0]

    # Sums of leaves are sums of integers, so that they depend neither on the order of the rows nor on the workers. A
    # term is rounded to a unit, a power of two. The kernels get it as a "magic number", see `_kernels.exact.magic_of`.

    def _sums(self, gradient, rows, leaf_start):
        """Sums like `leaf_sums`, for these gradients, over the rows of all workers.

        The unit follows from the bound of the gradients. A leaf with small sums gets a unit of its own.
        """
        count = self.data.comm.sum(leaf_start[1:] - leaf_start[:-1])
        bound = self.loss.bound(self.data.n_classes)
        if bound is None:
            return self._sums_in_own_units(gradient, rows, leaf_start, count)
        magic = magic_of(self._common_unit(bound, count))
        sums, small = self._sums_in_unit(gradient, rows, leaf_start, magic=magic, count=count)
        if len(small):
            rows_of_small, start_of_small = _rows_of_leaves(small, rows, leaf_start)
            sums[small] = self._sums_in_own_units(
                gradient, rows_of_small, start_of_small, count[small]
            )
        return sums

    def _common_unit(self, bound, count):
        """Common unit of the sums of all leaves, for gradients up to ``bound``."""
        return unit_of(1.001 * bound * self.largest, int(count.max()))

    def _sums_in_own_units(self, gradient, rows, leaf_start, count):
        """Sums of leaves, each in units that follow from the gradients in the leaf."""
        bounds = self._bounds(gradient, rows, leaf_start)
        magic = magic_of(units_of(1.001 * bounds, count[:, None]))
        sums = self.data.comm.sum(self._integer_sums(gradient, rows, leaf_start, magic))
        return _vector_loss.in_ones(sums, magic, self.data.n_classes, count)[0]

    def _sums_in_unit(self, gradient, rows, leaf_start, magic, count):
        """Sums of all leaves in a single unit, and the leaves whose sums are small in it.

        With many classes, a few leaves are summed at a time, so that they stay in the cache.
        """
        n = len(count)
        K = self.data.n_classes
        comm = self.data.comm
        step = n if comm.size > 1 else 1 + TABLES // self.width
        if step >= n:
            magics = np.full((n, self.width), magic)
            sums = comm.sum(self._integer_sums(gradient, rows, leaf_start, magics))
            return _vector_loss.in_ones(sums, magics, K, count << SMALL_BITS)
        sums_of_leaves = np.empty((n, 2, K))
        small_leaves = []
        for begin in range(0, n, step):
            leaves = slice(begin, min(begin + step, n))
            magics = np.full((leaves.stop - begin, self.width), magic)
            starts = leaf_start[begin : leaves.stop + 1]
            sums = self._integer_sums(gradient, rows, starts, magics)
            sums_of_leaves[leaves], small = _vector_loss.in_ones(
                sums, magics, K, count[leaves] << SMALL_BITS
            )
            small_leaves.append(begin + small)
        return sums_of_leaves, np.concatenate(small_leaves)

    def _integer_sums(self, gradient, rows, leaf_start, magic):
        """Sums over this worker's rows of every leaf, as integers in the units of ``magic`` (n_leaves, width)."""
        if len(magic) > 1:
            return _vector_loss.leaf_sums(
                gradient, self.weight, self.lanes, rows, leaf_start, magic, self.n_threads
            )
        # One thread sums a leaf. A single leaf is divided into pieces, so that several threads can work; sums of
        # integers are exact.
        begin, end = leaf_start.tolist()
        start = np.append(np.arange(begin, max(begin + 1, end), PIECE), end)
        magic = np.repeat(magic, len(start) - 1, axis=0)
        sums = _vector_loss.leaf_sums(
            gradient, self.weight, self.lanes, rows, start, magic, self.n_threads
        )
        return sums.sum(axis=0, keepdims=True)

    def _bounds(self, gradient, rows, leaf_start):
        """Bounds of w |g| in every leaf, independent of how rows are divided among workers: (n_leaves, width)."""
        bounds = self.data.comm.maximum(
            _vector_loss.leaf_bounds(gradient, self.lanes, rows, leaf_start, self.n_threads)
        )
        return bounds * self._largest_weights(rows, leaf_start)

    def _largest_weights(self, rows, leaf_start):
        """Largest weight in every leaf, over the rows of all workers: (n_leaves, 1)."""
        if self.uniform:
            return np.ones((len(leaf_start) - 1, 1))
        weights = _vector_loss.leaf_weights(self.weight, rows, leaf_start)
        return self.data.comm.maximum(weights)[:, None]

    def leaf_newton(self, rows, leaf_start):
        """Yield softmax's gradient (K,) and Hessian (K, K) of every leaf, for a vector added to all of its scores."""
        comm = self.data.comm
        K = self.data.n_classes
        shape = K + 1, self.width
        step = 1 + TABLES // math.prod(shape)
        for begin in range(0, len(leaf_start) - 1, step):
            start = leaf_start[begin : begin + step + 1]
            bounds = self._bounds(self.gradient, rows, start).max(axis=1)
            units = units_of(1.001 * bounds, comm.sum(np.diff(start)))
            sums = np.zeros((len(units), *shape), dtype=np.int64)
            for j, magic in enumerate(magic_of(units)):
                _vector_loss.leaf_hessian(
                    self.gradient,
                    self.weight,
                    self.data.y,
                    self.lanes,
                    magic,
                    rows,
                    start[j],
                    start[j + 1],
                    sums[j],
                )
            for table, unit in zip(comm.sum(sums), units, strict=True):
                g_and_H = table * unit
                yield g_and_H[K, :K], g_and_H[:K, :K]

    def newton_steps(self, rows, leaf_start, l2=0.0):
        """Newton steps of the leaves with the full Hessian and a ridge; worker 0 computes them, as CPUs may differ."""
        K = self.data.n_classes
        step = np.empty((len(leaf_start) - 1, K))
        for j, (g, H) in enumerate(self.leaf_newton(rows, leaf_start)):
            H[np.diag_indices(K)] += RIDGE * np.trace(H) / K + 1e-30 + l2
            step[j] = np.linalg.solve(H, g)
        return self.data.comm.broadcast(step)


class Directions(Integers):
    """Gradients of a loss in a few random directions of the classes, drawn again for every tree.

    A direction has a sign for each class; the gradient of a row in it is the signed sum over the classes. If the
    gradients of a row have the sum 0, there are as many signs + as -, because a direction with a single sign would be
    empty. If the loss changes with a shift of all scores, each sign is drawn independently. See Iosipoi and Vakhrushev,
    "SketchBoost: fast gradient boosted decision tree for multioutput problems", NeurIPS 2022.

    Parameters
    ----------
    loss : Rows
    n_columns : int
    """

    def __init__(self, loss, n_columns):
        super().__init__(loss.data, loss.n_threads, n_columns)
        self.loss = loss

    def integers(self, key):
        """Gradients in the directions of this key and weights as integers; None if nothing is left to learn."""
        loss = self.loss
        signs = self.draw(key)
        unit = self.unit(signs)
        sums = _vector_loss.project(
            loss.gradient,
            signs,
            loss.weight,
            self.lanes,
            magic_of(unit),
            self.gradient,
            self.n_threads,
        )
        return loss.rounded(self, sums, unit)

    def unit(self, signs):
        """Unit of the sums of w |g| in these directions."""
        # All signs in one block have the same size.
        sign = signs[0, 0] if self.n_columns <= self.lanes else np.abs(signs).max()
        return self.loss.unit(self.data.n_classes * abs(float(sign)))

    def draw(self, key):
        """Draw directions (K, width), 0 in unused lanes.

        With several blocks, a class has nonzero entries in only one.
        """
        K = self.data.n_classes
        n = self.n_columns
        draw_signs = (
            _vector_loss.half_signs if self.loss.shift_invariant else _vector_loss.any_signs
        )
        signs = draw_signs(key, K, n, self.width)
        if n > self.lanes:
            block = np.arange(n) // self.lanes
            size = np.sqrt(n / np.bincount(block)[block], dtype=np.float32)
            block_of_class = _vector_loss.blocks_of(key, K, n, self.lanes)
            signs[:, :n] *= size * (block == block_of_class[:, None])
        return signs
