"""Losses: pairwise margins with weights kept up to date by multiplication, and all losses from row-major scores.

With margins rho_ir = F[y_i] - F[r], the weights are u_ir = exp(-rho_ir) (exponential) or 1 / (1 + exp(rho_ir))
(logistic), and the negative gradient of the loss with respect to F is a_ir = [r = y_i] sum_l u_il - u_ir
(Paisitkriangkrai, Shen and van den Hengel, eqs. 10-12).
"""

import numpy as np

from pymcboost._kernels import vtrees as _vtrees
from pymcboost._kernels import weights as _weights
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.data import layout
from pymcboost.threads import available_memory, in_words

# Added to every stored weight (their mean is about 1): far below what a sum can see, far above denormal numbers.
SMALLEST = 1e-30
BLOCK_ROWS = 4096
# Scores of more numbers than these are stored without many unused lanes.
LARGE_SCORES = 1 << 20


class PairwiseLoss:
    """State shared by both losses.

    Parameters
    ----------
    data : TrainingData
    n_threads : int

    Attributes
    ----------
    gradient : ndarray (n_blocks, m, lanes)
        Negative gradient in blocks of classes, in the scale of ``mass``.
    mass : float
        Sum of the off-diagonal weights, in the scale of ``gradient``.
    """

    def __init__(self, data, n_threads):
        self.data = data
        self.n_threads = n_threads
        self.gradient = data.gradient_buffer()
        self._starts, self._classes = _weights.chunks(data.class_start)
        K = data.n_classes
        self._rows = aligned_zeros((3, K, data.n_blocks * data.lanes), data.dtype)
        self._partial = np.zeros((len(self._classes), 2, data.n_blocks, data.lanes))
        self._total_weight = float(data.weight.sum())

    def _blocks_of_scores(self, scores):
        """Yield (slice of rows, off-diagonal -rho, own-class mask) from raw scores (m, K), or from zero scores."""
        y = self.data.y
        classes = np.arange(self.data.n_classes)
        for start in range(0, len(y), BLOCK_ROWS):
            rows = slice(start, min(start + BLOCK_ROWS, len(y)))
            own = y[rows, None] == classes
            if scores is None:
                yield rows, np.zeros(own.shape), own
            else:
                F = scores[rows]
                yield rows, F - F[own][:, None], own

    def _scatter(self, buffer, rows, values):
        lanes = self.data.lanes
        for b in range(self.data.n_blocks):
            part = values[:, b * lanes : (b + 1) * lanes]
            buffer[b, rows, : part.shape[1]] = part


class PairwiseExp(PairwiseLoss):
    """Exponential loss: sum over i and r of exp(-rho_ir).

    Stored weights are divided by exp(``log_scale``), so that they neither vanish nor overflow when all margins grow;
    the diagonal terms exp(0) are kept apart in ``diagonal``.
    """

    link = "softmax2"

    def restart(self, scores=None):
        """Weights of given raw scores (m, K), or of F = 0."""
        weight = self.data.weight[:, None]
        self.mass = self._total_weight * (self.data.n_classes - 1)
        top, total = -np.inf, 0.0
        for rows, minus_rho, own in self._blocks_of_scores(scores):
            minus_rho[own] = -np.inf
            here = minus_rho.max(initial=-np.inf)
            if here > top:
                total *= np.exp(top - here) if total else 0.0
                top = here
            total += float(np.sum(weight[rows] * np.exp(minus_rho - top)))
        log_mass = top + np.log(total)
        self.log_scale = log_mass - np.log(self.mass)
        for rows, minus_rho, own in self._blocks_of_scores(scores):
            minus_rho[own] = -np.inf
            u = weight[rows] * np.exp(minus_rho - self.log_scale)
            a = -u
            a[own] = u.sum(axis=1)
            self._scatter(self.gradient, rows, a)

    @property
    def diagonal(self):
        """Sum of the terms exp(-rho_ir) with r = y_i, in the scale of the stored weights."""
        return self._total_weight * np.exp(min(-self.log_scale, 600.0))

    def stopping_edge(self, edge):
        """Edge with the weights normalised to sum to 1, diagonal included, as in the stopping rule."""
        return edge / (self.mass + self.diagonal)

    def side_tables(self, h):
        """K x K sums of u over the rows of each class with h = +1 and with h = -1: (2, K, K)."""
        K = self.data.n_classes
        out = np.empty((2, K, K))
        _weights.side_sums(self.gradient, h, self._starts, self._classes, self._partial, out, self.n_threads)
        return out

    def tables_at(self, h, w):
        """Tables that `update` needs when w was not fitted."""
        return self.side_tables(h)

    def update(self, h, w, tables, minus=None):
        """Add h w to F (w: (K,), h: (m,) +-1; tables: those of h before the update).

        With ``minus`` (K,), that is added where h = -1 in place of -w.
        """
        factor = np.exp(w[None, :] - w[:, None])
        inverse = 1.0 / factor if minus is None else np.exp(minus[None, :] - minus[:, None])
        mass = float((tables[0] * factor).sum() + (tables[1] * inverse).sum())
        scale = self.mass / mass
        _weights.exp_update(
            self.gradient,
            h,
            self._starts,
            self._classes,
            factor * scale,
            inverse * scale,
            SMALLEST,
            self._rows,
            self.n_threads,
        )
        self.log_scale -= np.log(scale)


class PairwiseLog(PairwiseLoss):
    """Logistic loss: sum over i and r of log(1 + exp(-rho_ir)). The odds exp(-rho_ir) are stored, too."""

    link = "softmax"

    def __init__(self, data, n_threads):
        super().__init__(data, n_threads)
        self.odds = data.gradient_buffer()
        self._partial = np.zeros((len(self._classes), data.n_blocks, 4, data.lanes))

    def restart(self, scores=None):
        """Weights of given raw scores (m, K), or of F = 0."""
        weight = self.data.weight[:, None]
        self.mass = 0.0
        for rows, minus_rho, own in self._blocks_of_scores(scores):
            q = np.exp(np.clip(minus_rho, -69.0, 69.0))
            q[own] = 0.0
            u = weight[rows] * (q / (1 + q))
            a = -u
            a[own] = u.sum(axis=1)
            self.mass += float(u.sum())
            self._scatter(self.odds, rows, q)
            self._scatter(self.gradient, rows, a)

    def stopping_edge(self, edge):
        """Edge in the scale of the stopping rule: the logistic weights are not normalised."""
        return edge

    def trial_tables(self, h, w):
        """First and second derivatives per class pair and side of h at F + h w: (4, K, K), see `_kernels.weights`."""
        K = self.data.n_classes
        out = np.empty((4, K, K))
        factor = np.exp(w[None, :] - w[:, None])
        _weights.log_sums(
            self.odds, h, self.data.weight, self._starts, self._classes, factor, 1.0 / factor, self._rows,
            self._partial, out, self.n_threads,
        )  # fmt: skip
        return out

    tables_at = trial_tables

    def update(self, h, w, tables):
        """Add h w to F (w: (K,), h: (m,) +-1; tables: trial tables near the new F, for the mass)."""
        factor = np.exp(w[None, :] - w[:, None])
        _weights.log_update(
            self.odds, self.gradient, h, self.data.weight, self._starts, self._classes, factor, 1.0 / factor, SMALLEST,
            self._rows, self.n_threads,
        )  # fmt: skip
        self.mass = float(tables[0].sum() + tables[1].sum())


class ColumnSums:
    """Sums of the columns of a gradient over the rows of each class on each side of weak learners.

    Parameters
    ----------
    data : TrainingData
    n_columns : int
    n_threads : int
    """

    def __init__(self, data, n_columns, n_threads):
        lanes, blocks = layout(n_columns)
        self.starts, self.classes = _weights.chunks(data.class_start)
        self._shape, self._n_threads = (2, data.n_classes, n_columns), n_threads
        self._partial = np.zeros((len(self.classes), 2, blocks, lanes))

    def __call__(self, gradient, h):
        """(2, K, P): over the rows with h = +1, and those with h = -1; h: int8 (1, m), or one row for every column."""
        out = np.empty(self._shape)
        _weights.column_sums(gradient, h, self.starts, self.classes, self._partial, out, self._n_threads)
        return out


class CodedExp:
    """Exponential loss of coded problems: the sum over rows i and columns j of w_ij = exp(-C[y_i, j] f_j(x_i)).

    Parameters
    ----------
    data : TrainingData
    code : ndarray (K, P)
        C; rows of classes with 0 take no part in a column.
    n_threads : int
    apart : bool, default=False
        Keep the sum of the weights of every column, each on its own, rather than that of all.
    unit : ndarray (K, P), optional
        What the weights are multiplied with in ``gradient``: C, which makes it the negative gradient, if None.

    Attributes
    ----------
    gradient : ndarray (n_blocks, m, lanes)
        In columns, in blocks of lanes, in the scale of ``mass``.
    mass : ndarray (P,)
        Sums of the weights of the columns, in the same scale.
    """

    def __init__(self, data, code, n_threads, *, apart=False, unit=None):
        self.data, self.n_threads, self.apart = data, n_threads, apart
        self.code = np.ascontiguousarray(code, dtype=np.float64)
        K, P = self.code.shape
        self._refuse(P)
        self._unit = self.code if unit is None else np.asarray(unit, dtype=np.float64)
        self._inverse = np.divide(1.0, self._unit, out=np.zeros((K, P)), where=self._unit != 0)
        self.gradient = data.gradient_buffer(P)
        self._sums = ColumnSums(data, P, n_threads)
        self._rows = aligned_zeros((3, K, self.gradient.shape[0] * self.gradient.shape[2]), data.dtype)
        of_class = np.array([part.sum() for part in np.split(data.weight, data.class_start[1:-1])])
        self._start_mass = np.abs(np.sign(self.code)).T @ of_class

    def _refuse(self, P):
        """Say so before any of it is taken where the weights and the learners' outputs do not fit."""
        needed, room = self.data.n_rows * P * (self.data.dtype.itemsize + 1), available_memory()
        if room is not None and needed > room:
            raise MemoryError(
                f"the weights of {self.data.n_rows} rows in {P} binary problems need about {in_words(needed)}; "
                f"{in_words(room)} are free. Use fewer problems (class subsets, columns of the code) or rows"
            )

    def restart(self, scores=None):
        """Weights of given scores (m, P) of the columns, or of f = 0."""
        total = self._start_mass if self.apart else self._start_mass.sum()
        y, used = self.data.y, self.code != 0
        self.mass = self._start_mass.copy()
        shift = np.zeros(self.code.shape[1])
        if scores is not None:
            scores = scores[:, : self.code.shape[1]]
            mass = np.zeros(self.code.shape[1])
            there = self._start_mass > 0  # columns of classes without rows have none
            for fill in (False, True):
                if fill:
                    shift[~there] = shift[there].min()
                for start in range(0, len(y), BLOCK_ROWS):
                    rows = slice(start, min(start + BLOCK_ROWS, len(y)))
                    log_w = np.where(used[y[rows]], -self.code[y[rows]] * scores[rows], -np.inf)
                    if not fill:
                        here = log_w.max(axis=0)
                        shift = here if start == 0 else np.maximum(shift, here)
                        continue
                    mass += self.data.weight[rows] @ np.exp(log_w - shift)
            # The largest exponents become 0 first, so that nothing overflows; columns of one sum share a shift.
            if self.apart:
                shift = shift + np.log(np.divide(mass, self._start_mass, out=np.ones_like(mass), where=there))
            else:
                top = shift.max()
                shift = np.full_like(shift, top + np.log((mass * np.exp(shift - top)).sum() / total))
            self.mass = np.zeros_like(mass)
        for start in range(0, len(y), BLOCK_ROWS):
            rows = slice(start, min(start + BLOCK_ROWS, len(y)))
            unit = self._unit[y[rows]]
            if scores is None:
                value = self.data.weight[rows, None] * unit
            else:
                log_w = np.where(used[y[rows]], -self.code[y[rows]] * scores[rows] - shift, -np.inf)
                w = self.data.weight[rows, None] * np.exp(log_w)
                self.mass += w.sum(axis=0)
                value = w * unit
            self._scatter(rows, value)

    def _scatter(self, rows, values):
        lanes = self.gradient.shape[2]
        for b in range(len(self.gradient)):
            part = values[:, b * lanes : (b + 1) * lanes]
            self.gradient[b, rows, : part.shape[1]] = part

    def tables(self, h):
        """Sums of the weights over the rows of each class with h = +1 and with h = -1: (2, K, P).

        Parameters
        ----------
        h : ndarray of int8 (1, m) or (P, m)
            Shared by the columns, or one row for each.
        """
        out = self._sums(self.gradient, h)
        out *= self._inverse
        return np.maximum(out, 0.0, out=out)

    def edges(self, tables):
        """Sums over the rows of w sign(C) h for the columns: (P,)."""
        return (np.sign(self.code) * (tables[0] - tables[1])).sum(axis=0)

    def update(self, h, plus, tables, minus=None):
        """Add ``plus`` (P,) to f where h = +1 and ``minus`` (``-plus`` if None) where h = -1; tables: those of h."""
        factors = [np.exp(-self.code * plus), np.exp(-self.code * (-plus if minus is None else minus))]
        mass = (tables[0] * factors[0] + tables[1] * factors[1]).sum(axis=0)
        if self.apart:
            scale = np.divide(self._start_mass, mass, out=np.ones_like(mass), where=mass > 0)
        else:
            scale = np.full(len(mass), self._start_mass.sum() / mass.sum())
        _weights.column_update(
            self.gradient, h, self._sums.starts, self._sums.classes, factors[0] * scale, factors[1] * scale,
            SMALLEST * np.sign(self._unit), self._rows, self.n_threads,
        )  # fmt: skip
        self.mass = mass * scale


LOSSES = {"exp": PairwiseExp, "log": PairwiseLog}

# Gradients whose sum is below this share of the weights are rounding.
SMALLEST_GRADIENT = 1e-12
# Integer sums stay below this.
INTEGER_ROOM = 2.0**31 * (1 - 2.0**-9)


def row_layout(n_classes):
    """Lanes of a block, blocks and their product, for the classes and one lane more for the weight."""
    lanes = 4 if n_classes < 4 else 8 if n_classes < 8 else 16
    blocks = n_classes // lanes + 1
    return lanes, blocks, lanes * blocks


class RowLoss:
    """A loss of the scores F (m, K), kept row by row: gradients for trees with vector leaves.

    Parameters
    ----------
    name : {"softmax", "exp", "log"}
        softmax: -log p[y], p = softmax(F); exp and log: the pairwise losses above.
    data : TrainingData
    n_threads : int

    Attributes
    ----------
    F : ndarray (m, width) or (m, K) float64
    gradient : ndarray (m, width) float32
        Negative gradients of the rows, without their weights.
    lanes, blocks, width : int
        Classes, and one lane more for the weight, go in blocks of lanes.
    """

    def __init__(self, name, data, n_threads):
        K, m = data.n_classes, data.n_rows
        self.name, self.data, self.n_threads = name, data, n_threads
        self.lanes, self.blocks, self.width = row_layout(K)
        # Large data do without unused lanes where these are many; rows of several blocks would not stay in the cache.
        compact = m * self.width > LARGE_SCORES and self.blocks == 1 and 4 * K < 3 * self.width
        self.F = aligned_zeros((m, K if compact else self.width), np.float64)
        self.gradient = aligned_zeros((m, self.width), np.float32)
        self._integers = aligned_zeros((self.blocks, m, self.lanes), np.int32)
        uniform = bool((data.weight == data.weight[0]).all())
        self._weight = data.weight[:0] if uniform else data.weight
        self._total = float(m if uniform else data.weight.sum())
        self._units = 1.0 if uniform else power_of_two((INTEGER_ROOM - m) / self._total)

    @property
    def link(self):
        """Link of `predict_proba`."""
        return ROW_LINKS[self.name]

    def least(self, weight):
        """A least weight in the units of the integers (just allowed is allowed, whatever the rounding)."""
        return max(1, int(np.ceil(min(weight * self._units * (1 - 1e-9), INTEGER_ROOM))))

    def restart(self, scores=None):
        """Gradients of given raw scores (m, K), or of F = 0."""
        K = self.data.n_classes
        self.F[:, :K] = 0.0 if scores is None else scores
        self.F[:, K:] = -1e30
        self._refresh(None, np.zeros(self.data.n_rows, dtype=np.int32))

    def add(self, value, leaf):
        """F += value[leaf], value (n_leaves, width)."""
        self._refresh(value, leaf)

    def _refresh(self, value, leaf):
        exp = self.name == "exp"
        top = _vtrees.add_leaves(self.F, value, leaf, self.data.y, self.lanes, exp, self.n_threads)
        self._sums = _vtrees.gradient(
            self.F, self.data.y, self._weight, _vtrees.LOSS_CODES[self.name], top if exp else 0.0, self.lanes,
            self.gradient, self.n_threads,
        )  # fmt: skip

    def integers(self):
        """Gradients and weights as integers (blocks, m, lanes), or None where nothing is left to learn.

        One power of two scales all gradients, so that no sum over rows leaves 32 bits.
        """
        top = float(self._sums[: self.data.n_classes].max())
        if not top > SMALLEST_GRADIENT * self._total and self.name != "exp":
            return None
        scale = power_of_two((INTEGER_ROOM - self.data.n_rows) / top)
        _vtrees.quantise(
            self.gradient, self._weight, self.data.n_classes, scale, self._units, self._integers, self.n_threads
        )
        return self._integers

    def leaf_sums(self, rows, leaf_start):
        """Sums of g and of p (1 - p) over the rows of every leaf: (n_leaves, 2, K)."""
        sums = _vtrees.leaf_sums(self.gradient, self._weight, self.lanes, rows, leaf_start, self.n_threads)
        return sums[:, :, : self.data.n_classes]

    def leaf_newton(self, rows, start, stop):
        """Gradient (K,) and Hessian (K, K) of the loss of rows[start:stop], were one vector added to their scores."""
        K, y = self.data.n_classes, self.data.y
        if self.name == "softmax":
            part = np.array([start, stop], dtype=np.int64)
            g = _vtrees.leaf_sums(self.gradient, self._weight, self.lanes, rows, part, 1)[0, 0, :K]
            H = _vtrees.leaf_hessian(self.gradient, self._weight, y, K, self.lanes, rows, start, stop)
            return g, H[:, :K]
        tables = _vtrees.leaf_pairs(self.gradient, self._weight, y, K, self.lanes, rows, start, stop)
        g = tables[:, 0, :K].copy()
        curvature = (g if self.name == "exp" else tables[:, 1, :K]).copy()
        np.fill_diagonal(curvature, 0.0)
        own = g.diagonal().copy()
        np.fill_diagonal(g, 0.0)
        S = np.abs(curvature + curvature.T)
        return own + g.sum(axis=0), np.diag(S.sum(axis=1)) - S


ROW_LINKS = {"softmax": "softmax", "exp": "softmax2", "log": "softmax"}


def power_of_two(x):
    """Largest power of two up to x."""
    return 2.0 ** np.floor(np.log2(x))


class ClassWeights:
    """What classification trees are grown on: the rows' weights, as a gradient of each row's own class.

    Parameters
    ----------
    data : TreeData
    n_threads : int

    Attributes
    ----------
    weight : ndarray (m,)
        To be set before every tree.
    """

    def __init__(self, data, n_threads):
        K, m = data.n_classes, data.n_rows
        self.data, self.n_threads, self.weight = data, n_threads, data.weight
        self.lanes, self.blocks, self.width = row_layout(K)
        self._own = aligned_zeros((m, self.width), np.float32)
        self._own[np.arange(m), data.y] = 1.0
        self._integers = aligned_zeros((self.blocks, m, self.lanes), np.int32)

    def least(self, weight):
        """No bound: a leaf needs one row."""
        return 1

    def integers(self):
        """Weights as integers (blocks, m, lanes), in the column of each row's class and in that of the sums."""
        units = power_of_two((INTEGER_ROOM - self.data.n_rows) / self.weight.sum())
        _vtrees.quantise(self._own, self.weight, self.data.n_classes, units, units, self._integers, self.n_threads)
        # Rows of weight 0 take no part: a leaf of them alone would name a class that nothing speaks for.
        lane, K = self.lanes, self.data.n_classes
        self._integers[K // lane, self.weight == 0, K % lane] = 0
        return self._integers
