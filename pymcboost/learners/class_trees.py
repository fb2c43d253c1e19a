"""Class-wise regression trees for the softmax loss: scores, probabilities, and trees grown on their gradients."""

import numpy as np

from pymcboost._kernels import class_loss as _loss
from pymcboost._kernels import classwise_trees as _trees
from pymcboost._kernels import elementary
from pymcboost._kernels import pairwise_weights as _weights
from pymcboost._kernels.exact import PARTS, of_parts, units_in_parts
from pymcboost.data.tree_data import POOL_BYTES, Grown, Quantiser, cell_words_of
from pymcboost.learners.levels import PER_LEVEL, least_levels

# Limit of a leaf's Newton step before shrinkage. If a few misclassified rows fill a leaf, the step is 1 / p, without
# bound.
LARGEST_STEP = 50.0
# Training stops when the mean probability missing from the true classes is only rounding error.
MACHINE_ACCURACY = np.finfo(np.float64).eps
LARGEST_SCALE = 1e30
# Bounds of g and h for a row of weight 1, and of its loss in the search for a base class.
LARGEST_GRADIENT = 2.0
LARGEST_LOSS = 173.0
# When rows are divided among workers: limits of the number of trees that are grown together, and of their memory.
TOGETHER = 16
STEP_BYTES = 1 << 30


def bounds_for(data, min_samples_leaf, h_is_weight):
    """Whether histogram cells store a count besides g and h, and whether ``min_samples_leaf`` is an actual limit."""
    least_weight = min_samples_leaf * min(data.weight_unit, data.total_weight / data.total_rows)
    lightest_row, _ = data.weight_ends
    is_bounded = least_weight > lightest_row * (1 + 1e-9)
    # Where h is the weight (MART), it bounds leaves by itself.
    is_counted = data.dtype == np.float64 or data.columns.levels or (is_bounded and not h_is_weight)
    return bool(is_counted), is_bounded


def n_trees_together(data, counted, max_leaves):
    """Number of trees that workers grow together. It depends only on numbers that all workers know."""
    words = cell_words_of(counted)
    histogram_bytes = data.histogram_bytes(words)
    n_pooled = max_leaves if histogram_bytes * max_leaves <= POOL_BYTES else 1
    row_bytes = (4 + 16 * words) * data.total_rows / data.comm.size
    tree_bytes = histogram_bytes * (n_pooled + 2) + row_bytes
    return max(1, min(TOGETHER, int(STEP_BYTES / tree_bytes)))


def _scale_to(limit, sums):
    """Integer units per 1, so that ``sums`` stay below a limit."""
    return np.minimum(limit / np.maximum(sums, 1 / LARGEST_SCALE), LARGEST_SCALE)


def step_options(data, counted, max_leaves):
    """Options of the kernel's grower for rows that are divided among workers."""
    if data.comm.size == 1:
        return {}
    return {"comm": data.comm, "together": n_trees_together(data, counted, max_leaves)}


class ClassTrees:
    """Scores F (K, m) of the training rows, their gradients, and regression trees grown on these.

    ``S[k]`` is the probability of class k on the rows of other classes, and 1 minus this probability on the rows of
    class k. This is the magnitude of the gradient, in full precision even if it is small.

    Parameters
    ----------
    data : TreeData
    max_leaves : int
    max_depth : int or None
    min_samples_leaf : float
        Least sum of sample weights in a leaf.
    h_is_weight : bool
        For MART: the gain divides by weights instead of second derivatives.
    n_threads : int
    max_features, l2, min_gain, min_hessian_leaf, subsample, min_samples_category : float, optional
        As in the estimators.
    """

    def __init__(
        self,
        data,
        *,
        max_leaves,
        max_depth,
        min_samples_leaf,
        h_is_weight,
        n_threads,
        max_features=1.0,
        l2=0.0,
        min_gain=0.0,
        min_hessian_leaf=0.0,
        subsample=1.0,
        min_samples_category=15.0,
    ):
        self.data = data
        self.max_leaves = max_leaves
        self.h_is_weight = h_is_weight
        self.n_threads = n_threads
        self._max_features = max_features
        counted, bounded = bounds_for(data, min_samples_leaf, h_is_weight)
        units = Quantiser(data, counted, min_samples_leaf if bounded else 0.0)
        self.units = units
        levels = least_levels(
            data,
            units.weight,
            subsample,
            units=units.per_count,
            enough=min_samples_category,
            bound_scale=data.bound_scale,
        )
        # If h is a weight, equal weights are whole units. Otherwise h has a rounding error of up to one unit.
        h_error = 0.0 if h_is_weight and units.uniform else 1.0
        self._grower = _trees.Grower(
            data.tiles,
            max_leaves,
            max_depth or 0,
            units.least,
            units.cell_words,
            False,
            data.pools(units.cell_words, max_leaves),
            n_threads,
            l2=l2,
            min_hessian=min_hessian_leaf,
            min_gain=min_gain,
            least_levels=levels,
            count_bits=units.count_bits,
            h_error=h_error,
            weight=data.whole_weight,
            **step_options(data, counted, max_leaves),
        )
        self.weight = units.weight
        heaviest = 1.0 if units.uniform else data.weight_ends[1]
        self.total = float(data.total_rows) if units.uniform else data.total_weight
        self._units = units_in_parts(1.001 * LARGEST_GRADIENT * heaviest, data.total_rows)
        self._loss_units = units_in_parts(LARGEST_LOSS * heaviest, data.total_rows)
        K = data.n_classes
        m = data.n_rows
        self.F = data.zeros((K, m), np.float64)
        self.S = data.zeros((K, m), data.dtype)
        self._starts, self._class_of_chunk = _weights.chunks(data.class_start, _loss.ROWS)
        self._sums = np.zeros((len(self._class_of_chunk), K, 2, 2), dtype=np.int64)
        self._grown = None
        self._all_pairs = None

    def restart(self, scores):
        """Set the raw scores (m, K); zeros if None."""
        self.F[...] = 0 if scores is None else scores.T
        self.refresh()

    def refresh(self):
        """Compute the remaining probabilities, and the scales of the gradients, from the scores."""
        magic = self._units[1]
        _loss.softmax(
            self.F,
            self._starts,
            self._class_of_chunk,
            self.weight,
            self.S,
            magic,
            self._sums,
            self.n_threads,
        )
        # Sums for every class, and sums for the true classes of the rows.
        sums = np.zeros((self.data.n_classes + 1, 2, 2), dtype=np.int64)
        sums[:-1] = self._sums.sum(axis=0)
        own_sums = self._sums[np.arange(len(self._class_of_chunk)), self._class_of_chunk]
        sums[-1] = own_sums.sum(axis=0)
        sums = of_parts(self.data.comm.sum(sums), self._units)
        # Each row is rounded by at most half a unit; the bound keeps the integers of a tree within their range.
        self._abs_g, self._sum_h = (sums[:-1] + self.data.total_rows * self._units[0, 1]).T
        # Probability missing from the true classes.
        self.missing = float(sums[-1, 0])

    def sums(self, leaf, n_leaves, k, b):
        """Sums of weighted gradients and second derivatives by leaf, for class k, or for the pair (k, b) if b >= 0."""
        g, h = self._derivatives(k)
        if b >= 0:
            g_b, h_b = self._derivatives(b)
            g = g - g_b
            h = h + h_b + 2.0 * self._probability(k) * self._probability(b)
        weight = self.weight if len(self.weight) else 1.0
        return np.bincount(leaf, weight * g, n_leaves), np.bincount(leaf, weight * h, n_leaves)

    def _derivatives(self, k):
        """Negative gradients and second derivatives of the rows for class k, without weights: (m,) each."""
        missing = self.S[k].astype(np.float64)
        return np.where(self.data.y == k, missing, -missing), missing * (1 - missing)

    def _probability(self, k):
        """Probabilities of class k: (m,)."""
        return np.abs((self.data.y == k) - self.S[k])

    @property
    def finished(self):
        """Whether the training loss has reached machine accuracy."""
        return self.missing <= MACHINE_ACCURACY * self.total

    def class_losses(self):
        """Sums of the weighted losses -log p of the rows, by class."""
        data = self.data
        missing = np.minimum(self.S[data.y, np.arange(data.n_rows)].astype(np.float64), 1 - 1e-16)
        sums = np.zeros((data.n_classes, PARTS), dtype=np.int64)
        odds = missing / (1 - missing)
        _loss.losses(
            odds, self._starts, self._class_of_chunk, self.weight, self._loss_units[1], sums
        )
        return of_parts(data.comm.sum(sums), self._loss_units)

    def grow(self, jobs, learning_rate, sample, active, key=0):
        """Grow trees for pairs (class, base class or -1) on the current probabilities.

        Without a base class, leaf values have the factor (K - 1) / K. ``sample``: rows to grow on, ascending, or None
        for all. ``key``: 64 bits that decide about the features drawn at the nodes.

        Returns
        -------
        Grown
            Overwritten by the next call.
        """
        jobs = np.asarray(jobs, dtype=np.int32).reshape(-1, 2)
        if self._grown is None or len(self._grown.n_splits) < len(jobs):
            self._grown = Grown.empty(
                len(jobs), self.max_leaves, self.data.n_rows, self.data.set_words, self.data.zeros
            )
        k, b = jobs.T
        has_base = b >= 0
        abs_g = np.where(has_base, self._abs_g[k] + self._abs_g[b], self._abs_g[k])
        sum_h = np.where(has_base, 2 * (self._sum_h[k] + self._sum_h[b]), self._sum_h[k])
        # Integer units of g, of h and of a count, for every tree.
        scale = np.empty((len(jobs), 3))
        scale[:, 0] = _scale_to(self.units.limit_g, abs_g)
        if self.h_is_weight:
            scale[:, 1] = self.units.per_count
        else:
            scale[:, 1] = _scale_to(self.units.limit_h, sum_h)
        scale[:, 2] = self.units.per_count
        K = self.data.n_classes
        factor = learning_rate * (1.0 if has_base.all() else (K - 1) / K)
        self._grower.grow_softmax(
            self.S,
            jobs,
            self.data.y,
            self.data.class_start,
            self.weight,
            self.h_is_weight,
            scale,
            self._units,
            sample,
            active,
            self._max_features,
            key,
            factor,
            LARGEST_STEP,
            self._grown,
            level_cost=self._level_cost(sum_h),
        )
        return self._grown

    def _level_cost(self, sum_h):
        """Additional gain that a split needs for each level in parts; ``sum_h`` is given by tree.

        By chance, a level gains the weight of a row, because H is the variance of G; or the h of a row, if gains are
        divided by weights.
        """
        if not self.data.columns.levels:
            return None
        mean_weight = self.total / self.data.total_rows
        chance_gain = sum_h / self.total if self.h_is_weight else np.ones(len(sum_h))
        return PER_LEVEL * mean_weight * chance_gain

    def add(self, tree, cls, base):
        """Add these trees of the last `grow` to the scores; the scores of base classes decrease by as much."""
        _loss.add_trees(
            self._grown.leaf,
            self._grown.value,
            np.asarray(tree, dtype=np.int32),
            np.asarray(cls, dtype=np.int32),
            np.asarray(base, dtype=np.int32),
            self.F,
            self.n_threads,
        )

    def pairs_with(self, bases):
        """Pairs (k, b), k < b, with at least one class in ``bases``: int32 (n, 2), and a table of pairs for each base.

        A table is int32 (4, K - 1): index of the pair, the other class, the base, and -1 if the tree is negated.
        """
        K = self.data.n_classes
        if len(bases) == K and self._all_pairs is not None:
            return self._all_pairs
        tried = set(np.asarray(bases).tolist())
        pairs = [(k, b) for k in range(K) for b in range(k + 1, K) if k in tried or b in tried]
        index_of_pair = {pair: j for j, pair in enumerate(pairs)}
        tables = {}
        for b in tried:
            table = [
                [index_of_pair[min(k, b), max(k, b)], k, b, 1 if k < b else -1]
                for k in range(K)
                if k != b
            ]
            tables[b] = np.array(table, dtype=np.int32).T.copy()
        pairs = np.array(pairs, dtype=np.int32)
        if len(bases) == K:
            self._all_pairs = pairs, tables
        return pairs, tables

    def base_losses(self, bases, pairs):
        """Training loss with each base class; ``pairs``: (class, base class) of the trees of the last `grow`.

        The tree of (k, b), k < b, is the negative of that of (b, k), so one tree serves for both base classes.
        """
        # Factors exp(v) and exp(-v) of the odds in every leaf.
        exp_v = elementary.exp(self._grown.value[: len(pairs)])
        factor = np.ones((2, len(pairs), max(32, self.max_leaves)), dtype=self.data.dtype)
        factor[0, :, : self.max_leaves] = exp_v
        np.divide(1, exp_v, out=factor[1, :, : self.max_leaves], casting="same_kind")
        is_tried = np.zeros(self.data.n_classes, dtype=np.uint8)
        is_tried[bases] = 1
        loss = np.empty((len(self._class_of_chunk), self.data.n_classes, PARTS), dtype=np.int64)
        _loss.try_bases(
            self.S,
            self._starts,
            self._class_of_chunk,
            self._grown.leaf,
            factor,
            np.asarray(pairs, dtype=np.int32),
            is_tried,
            self.weight,
            self._loss_units[1],
            loss,
            self.n_threads,
        )
        return of_parts(self.data.comm.sum(loss.sum(axis=0)), self._loss_units)[bases]

    def trees(self, chosen):
        """Trees of the last `grow` as arguments of `TreesBuilder.add_trees`, with the gains of their splits."""
        return self._grown.trees(chosen, self.data)

    def codes(self, chosen):
        """Codes that go left at splits on categorical features, by the index of the split in `trees`."""
        return self._grown.codes(chosen, self.data)
