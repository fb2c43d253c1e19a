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
# Number of values that NumPy processes at once, so that they stay in the cache; and size of the leaf tables summed at
# once.
CHUNK, TABLES = 1 << 15, 1 << 17
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
    ends = comm.maximum(
        np.array([-array.min(initial=np.inf), array.max(initial=-np.inf)], dtype=np.float64)
    )
    return -float(ends[0]), float(ends[1])


def _rows_of_leaves(leaves, rows, leaf_start):
    """Rows of these leaves, and the start of each leaf."""
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
        heaviest = _range_of(self.data.comm, weight)[1]
        return max(map(abs, _range_of(self.data.comm, self.gradient))) * (
            heaviest if heaviest > 0 else 1.0
        )


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
        self.link = loss.link
        self.shift_invariant = loss.shift_invariant
        self.curvature = None
        self.summed = True
        K = data.n_classes
        # Large data avoid many unused lanes. Rows of several blocks would not stay in the cache anyway.
        compact = (
            data.n_rows * self.width > LARGE_SCORES and self.blocks == 1 and 4 * K < 3 * self.width
        )
        compact = compact and not loss.spare_lane
        self.F = data.zeros((data.n_rows, K if compact else self.width), np.float64)
        self._weigh()

    def _weigh(self):
        data = self.data
        n = data.total_rows
        least, largest = _range_of(data.comm, data.weight)
        self.uniform = least == largest
        self.weight = data.weight[:0] if self.uniform else data.weight
        self.largest = 1.0
        self.total = float(n)
        self.units = 1.0
        self.bound_scale = data.bound_scale
        if not self.uniform:
            self.largest = largest
            self.total = float(data.comm.sum(data.weight.sum(keepdims=True))[0])
            self.units = scale_of(n, self.total, largest)

    def least(self, weight):
        """Convert a minimum weight to integer units, so that rounding does not refuse a weight that is just allowed."""
        room = WIDE_ROOM if is_wide(self.data.total_rows) else INTEGER_ROOM
        return max(1, int(np.ceil(min(weight * self.units * (1 - 1e-9), room))))

    def start(self, scores=None):
        """Set the raw scores (m, K); zeros if None."""
        K = self.data.n_classes
        self.F[:, :K] = 0.0 if scores is None else scores
        self.F[:, K:] = UNUSED
        self._sums = self.loss.follow(self, None, np.zeros(self.data.n_rows, dtype=np.int32))

    def add(self, value, leaf):
        """Add value[leaf] to F; value is (n_leaves, width)."""
        self._sums = self.loss.follow(self, value, leaf)

    def value(self):
        """Training loss: the weighted sum over the rows."""
        loss = self.loss.value(self.F[:, : self.data.n_classes], self.data.y)
        return total(loss * self.weight if len(self.weight) else loss)

    def integers(self, key=None):
        """Gradients and weights as integers (blocks, m, lanes); None if nothing is left to learn."""
        return self.rounded(self, self._sums, self.unit())

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

    def rounded(self, on, sums, unit):
        """Gradients of ``on`` as integers; None if they are only rounding errors.

        sums : sums of w |g| by lane in this unit, or None.
        """

        def sizes(magic):
            return _vector_loss.sizes(on.gradient, self.weight, on.lanes, magic, self.n_threads)[
                : on.n_columns
            ].copy()

        sums = None if sums is None else sums[: on.n_columns].copy()
        least = SMALLEST_GRADIENT * self.total
        top, error = refined(self.data.comm, sizes, self.data.total_rows, unit, sums, least)
        if not top > least:
            return None
        scale = on._scale(self.weight, top + error)
        if self.uniform:
            return on._quantise(self.weight, scale, self.units)
        # The norm of a vector whose entries add up to 0 is at most sqrt(2) times the bound.
        size = math.sqrt(2 if self.shift_invariant else self.data.n_classes) * self.bound()
        return on._quantise(self.weight, scale, self.units, size, self.total)

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
        top, _ = refined(
            self.data.comm, squares, n, unit=unit_of(1.01 * self.largest * self.bound() ** 2, n)
        )
        return top / self.data.total_rows

    def variance(self):
        """Mean over the rows of w |g - mean g|^2."""
        rows = np.arange(self.data.n_rows, dtype=np.int32)
        total = self.leaf_sums(rows, np.array([0, len(rows)]))[0, 0]
        return max(
            0.0, self.mean_square() - float(total @ total) / self.total / self.data.total_rows
        )

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
        magic = np.full(
            self.width, magic_of(self._unit_of_ones(self.loss.bound(self.data.n_classes), count))
        )
        step_options = self.data.n_classes, SMALL_BITS, l2, largest, rate
        value, again = self._values_in_unit(rows, leaf_start, magic, step_options, kept)
        if len(again):
            sums = self._in_own_units(
                self.gradient, *_rows_of_leaves(again, rows, leaf_start), count[again]
            )
            if kept is not None:
                kept[again, :, : sums.shape[2]] = sums
            step = self.loss.steps_of(sums, l2)
            value[again] = _vector_loss.leaf_values(
                step, largest, rate, self.width, self.shift_invariant
            )
        return value

    def _values_in_unit(self, rows, leaf_start, magic, step_options, kept=None):
        """Leaf vectors from sums in the unit of ``magic``, and the leaves whose sums have too few bits in it."""
        arguments = rows, leaf_start, magic, step_options, self.n_threads, kept
        return _vector_loss.softmax_values(self.gradient, self.weight, self.lanes, *arguments)

    def leaf_curvature(self, rows, leaf_start, l2=0.0):
        """Curvatures (n_leaves, K) that divide the diagonal steps."""
        return self.loss.leaf_curvature(self, rows, leaf_start, l2)

    def leaf_sums(self, rows, leaf_start):
        """Sums of g and of |g| (1 - |g|), softmax's p (1 - p), over the rows of every leaf: (n_leaves, 2, K)."""
        return self._in_ones(self.gradient, rows, leaf_start)

    def curvature_sums(self, rows, leaf_start):
        """Sums of the curvature over the rows of every leaf: (n_leaves, K)."""
        return self._in_ones(self.curvature, rows, leaf_start)[:, 0]

    def _in_ones(self, of, rows, leaf_start):
        """Sums like `leaf_sums`, for these gradients, over the rows of all workers.

        Units follow from the bound of the gradients. If sums are small in these units, the leaf gets its own unit.
        """
        count = self.data.comm.sum(leaf_start[1:] - leaf_start[:-1])
        bound = self.loss.bound(self.data.n_classes)
        sums = None
        again = np.arange(len(count))
        if bound is not None:
            sums, again = self._in_unit(
                of, rows, leaf_start, magic=magic_of(self._unit_of_ones(bound, count)), count=count
            )
        if len(again):
            sums_in_own_units = self._in_own_units(
                of, *_rows_of_leaves(again, rows, leaf_start), count[again]
            )
            if sums is None:
                return sums_in_own_units
            sums[again] = sums_in_own_units
        return sums

    def _unit_of_ones(self, bound, count):
        """Common unit of the sums of all leaves, for gradients up to ``bound``."""
        return unit_of(1.001 * bound * self.largest, int(count.max()))

    def _in_own_units(self, of, rows, leaf_start, count):
        magic = magic_of(units_of(1.001 * self._bounds(of, rows, leaf_start), count[:, None]))
        sums = self.data.comm.sum(self._in_units(of, rows, leaf_start, magic))
        return _vector_loss.in_ones(sums, magic, self.data.n_classes, count)[0]

    def _in_unit(self, of, rows, leaf_start, magic, count):
        """Sums of all leaves in a single unit, and the leaves whose sums are small in it.

        With many classes, a few leaves are summed at a time, so that they stay in the cache.
        """
        n = len(count)
        K = self.data.n_classes
        comm = self.data.comm
        step = n if comm.size > 1 else 1 + TABLES // self.width
        if step >= n:
            magic = np.full((n, self.width), magic)
            return _vector_loss.in_ones(
                comm.sum(self._in_units(of, rows, leaf_start, magic)), magic, K, count << SMALL_BITS
            )
        sums_of_leaves = np.empty((n, 2, K))
        again = []
        for begin in range(0, n, step):
            part = slice(begin, min(begin + step, n))
            magics = np.full((part.stop - begin, self.width), magic)
            sums = self._in_units(of, rows, leaf_start[begin : part.stop + 1], magic=magics)
            sums_of_leaves[part], small = _vector_loss.in_ones(
                sums, magics, K, count[part] << SMALL_BITS
            )
            again.append(begin + small)
        return sums_of_leaves, np.concatenate(again)

    def _in_units(self, of, rows, leaf_start, magic):
        if len(magic) > 1:
            return _vector_loss.leaf_sums(
                of, self.weight, self.lanes, rows, leaf_start, magic, self.n_threads
            )
        # One thread sums a leaf. A single leaf is divided into pieces, so that several threads can work; sums of
        # integers are exact.
        begin, end = leaf_start.tolist()
        start = np.append(np.arange(begin, max(begin + 1, end), PIECE), end)
        magic = np.repeat(magic, len(start) - 1, axis=0)
        sums = _vector_loss.leaf_sums(
            of, self.weight, self.lanes, rows, start, magic, self.n_threads
        )
        return sums.sum(axis=0, keepdims=True)

    def _bounds(self, of, rows, leaf_start):
        """Bounds of w |g| in every leaf, independent of how rows are divided among workers: (n_leaves, width)."""
        bounds = self.data.comm.maximum(
            _vector_loss.leaf_bounds(of, self.lanes, rows, leaf_start, self.n_threads)
        )
        return bounds * self._heaviest(rows, leaf_start)

    def _heaviest(self, rows, leaf_start):
        """Largest weight in every leaf, over the rows of all workers: (n_leaves, 1)."""
        if not self.uniform:
            return self.data.comm.maximum(_vector_loss.leaf_weights(self.weight, rows, leaf_start))[
                :, None
            ]
        return np.ones((len(leaf_start) - 1, 1))

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
                ones = table * unit
                yield ones[K, :K], ones[:K, :K]

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

    A direction has a sign for each class, + for a random half of them; the gradient of a row in it is the signed sum
    over the classes. If the gradients of a row have the sum 0, there are as many signs + as -, because a direction with
    a single sign would be empty. If the loss changes with a shift of all scores, each sign is drawn independently. See
    Iosipoi and Vakhrushev, "SketchBoost: fast gradient boosted decision tree for multioutput problems", NeurIPS 2022.

    Parameters
    ----------
    loss : Rows
    n_columns : int
    """

    def __init__(self, loss, n_columns):
        super().__init__(loss.data, loss.n_threads, n_columns)
        self.loss = loss

    def integers(self, key):
        """See `Rows.integers`; in the directions of this key."""
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
        sign = (
            signs[0, 0] if self.n_columns <= self.lanes else np.abs(signs).max()
        )  # all signs in one block have the same size
        return self.loss.unit(self.data.n_classes * abs(float(sign)))

    def draw(self, key):
        """Draw directions (K, width), 0 in unused lanes.

        With several blocks, a class has nonzero entries in only one.
        """
        K = self.data.n_classes
        n = self.n_columns
        draw = _vector_loss.half_signs if self.loss.shift_invariant else _vector_loss.any_signs
        signs = draw(key, K, n, self.width)
        if n > self.lanes:
            block = np.arange(n) // self.lanes
            size = np.sqrt(n / np.bincount(block)[block], dtype=np.float32)
            signs[:, :n] *= size * (block == _vector_loss.blocks_of(key, K, n, self.lanes)[:, None])
        return signs
