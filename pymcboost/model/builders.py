"""Ensembles that grow during training."""

from dataclasses import replace

import numpy as np

from pymcboost.model.arrays import check_rounds
from pymcboost.model.entries import GrowingEntries, LeafEntries, roomy
from pymcboost.model.stumps import Stumps
from pymcboost.model.trees import Trees


class _Builder:
    """Base of builders: weak learners so far, in arrays that double when full."""

    # Categorical features, if there are any.
    categories = None

    def __init__(self, n_classes, n_features):
        self.n_classes = int(n_classes)
        self.n_features = int(n_features)
        self.bias = np.zeros(self.n_classes, dtype=np.float32)
        self._n = 0

    def __len__(self):
        return self._n

    def _grow(self, name, n):
        """Give the array with this name room for n rows."""
        array = getattr(self, name)
        if array is not None:
            setattr(self, name, roomy(array, n))

    def packed(self, feature, nan_left, codes):
        """Bit sets of the codes that splits send left, by split number, as `add_tree` needs them."""
        if not codes:
            return {}
        return {
            j: self.categories.packed(feature[j], codes_left, nan_left[j])
            for j, codes_left in codes.items()
        }

    def freeze(self):
        """Return the model so far as read-only copies; the builder can continue to grow.

        Returns
        -------
        Stumps or Trees
        """
        model = self.tail(0)
        arrays = {
            name: array.copy()
            for name, array in vars(model).items()
            if isinstance(array, np.ndarray)
        }
        for array in arrays.values():
            array.flags.writeable = False
        if isinstance(getattr(model, "leaf", None), LeafEntries):
            arrays["leaf"] = model.leaf.copy()
        return replace(model, **arrays)

    def current(self):
        """Return the model so far as views, which the next weak learner may invalidate."""
        return self.tail(0)


class EnsembleBuilder(_Builder):
    """Stumps that are added one by one, in arrays that double when full.

    Parameters
    ----------
    n_classes, n_features : int
    """

    def __init__(self, n_classes, n_features):
        super().__init__(n_classes, n_features)
        self._feature = np.empty(16, dtype=np.int64)
        self._threshold = np.empty(16, dtype=np.float32)
        self._nan_left = np.empty(16, dtype=bool)
        self._right = np.empty((16, self.n_classes), dtype=np.float32)
        self._left = None

    def add_stump(self, feature, threshold, nan_left, right, left=None):
        """Add a stump.

        Parameters
        ----------
        feature : int
        threshold : float
        nan_left : bool
        right : array-like (K,)
            Rounded to float32.
        left : array-like (K,), optional
            ``-right`` if None.
        """
        n = self._n
        if n == len(self._feature):
            for name in ("_feature", "_threshold", "_nan_left", "_right", "_left"):
                self._grow(name, n + 1)
        self._feature[n] = feature
        self._threshold[n] = threshold
        self._nan_left[n] = nan_left
        self._right[n] = right
        if left is not None and self._left is None:
            self._left = -self._right
        if self._left is not None:
            self._left[n] = -self._right[n] if left is None else left
        self._n = n + 1

    def add_tree(self, feature, threshold, nan_left, right, leaf, cls=-1, base=-1, sets=None):
        """Add a tree with one split and one value per class in its leaves as a stump; see `TreesBuilder.add_tree`."""
        left_value, right_value = np.asarray(leaf)
        self.add_stump(
            feature[0],
            threshold[0],
            nan_left[0],
            right=right_value,
            left=None if np.array_equal(left_value, -right_value) else left_value,
        )

    def extend(self, stumps):
        """Add all stumps of a frozen list."""
        for stump in stumps.each():
            self.add_stump(*stump)

    def tail(self, start):
        """Return the stumps from ``start`` on as views, which the next call of `add_stump` may invalidate."""
        part = slice(start, self._n)
        left = None if self._left is None else self._left[part]
        return Stumps(
            self._feature[part],
            self._threshold[part],
            self._nan_left[part],
            self._right[part],
            left,
            self.bias,
            self.n_features,
        )

    def rounds(self):
        """Yield models that add up to the current one: all stumps together, since they are added one by one."""
        yield self.tail(0)

    def truncate_rounds(self, n):
        """Keep the first ``n`` stumps; each stump is a round."""
        check_rounds(n, self._n, "stump")
        self._n = n

    def end_round(self):
        """Do nothing, because each stump is a round; for compatibility with `TreesBuilder`."""


class TreesBuilder(_Builder):
    """Trees that are added one by one, in rounds; arrays double when full.

    Parameters
    ----------
    n_classes, n_features : int
    vector : bool, default=False
        Whether leaves have a value for each class; otherwise they have one value for the class of the tree.
    code : ndarray (P, n_classes), optional
        Output code; trees then belong to its columns, see `Trees`.
    decoder : {"linear", "hamming", "exp"}, default="linear"
    categories : Categories, optional
    entries : bool, default=False
        Whether leaves store only class values that are not 0, see `LeafEntries`.
    shared : bool, default=False
        Whether leaves also store a number for all classes without an entry.
    """

    def __init__(
        self,
        n_classes,
        n_features,
        vector=False,
        code=None,
        decoder="linear",
        categories=None,
        entries=False,
        shared=False,
    ):
        super().__init__(n_classes, n_features)
        self.decoder = decoder
        self.code = None if code is None else np.array(code, dtype=np.float32)
        self.vector = bool(vector)
        self._rounds = [0]
        self._offset = np.zeros(16, dtype=np.int64)
        self._feature = np.empty(64, dtype=np.int64)
        self._threshold = np.empty(64, dtype=np.float32)
        self._nan_left = np.empty(64, dtype=bool)
        self._right = np.empty(64, dtype=np.int64)
        self._cls = np.empty(16, dtype=np.int64)
        self._base = np.empty(16, dtype=np.int64)
        # Leaf values: numbers or vectors, or entries in place of vectors.
        self._entries = GrowingEntries(self.n_classes, shared) if entries else None
        if not vector:
            self._leaf = np.empty(64, dtype=np.float32)
        elif entries:
            self._leaf = np.empty((64, 0), dtype=np.float32)
        else:
            self._leaf = np.empty((64, self.n_classes), dtype=np.float32)
        # Number of each split's set of categories, the bits of every set, and the number of sets before each tree.
        self.categories = categories
        self._subset = None if categories is None else np.empty(64, dtype=np.int64)
        self._sets = []
        self._first_set = [0]

    @property
    def n_rounds(self):
        """Number of finished rounds."""
        return len(self._rounds) - 1

    @property
    def n_splits(self):
        """Total number of splits."""
        return int(self._offset[self._n])

    def reserve(self, n_leaves):
        """Reserve room for the values of ``n_leaves`` leaves, so that the array need not be copied as it grows."""
        if self._entries is None:
            self._grow("_leaf", n_leaves)

    def add_tree(self, feature, threshold, nan_left, right, leaf, cls=-1, base=-1, sets=None):
        """Add a tree to the current round.

        Parameters
        ----------
        feature, threshold, nan_left, right : array-like (s,)
            Its splits in preorder, see `Trees`.
        leaf : array-like (s + 1,) or (s + 1, K)
            Rounded to float32.
        cls : int
            Class whose score gets the leaf's value; needed unless leaves have a value for each class.
        base : int
            Class whose score loses it, -1 for none.
        sets : dict of int to ndarray of uint8, optional
            Bits of the codes that splits send left, by the number of the split.
        """
        s = len(feature)
        if self.vector != (cls < 0):
            raise ValueError("a tree needs cls, unless its leaves have one value per class")
        if np.shape(leaf) != ((s + 1, self.n_classes) if self.vector else (s + 1,)):
            raise ValueError(f"a tree of {s} splits cannot have leaves of shape {np.shape(leaf)}")
        end = int(self._offset[self._n]) + s
        self._append(1, end, end, feature, threshold, nan_left, right, leaf, cls, base)
        self._add_numbered(sets, [s])

    def _add_numbered(self, sets, n_splits):
        """Add the sets of the latest trees, keyed by the number of the split among all their splits."""
        if self._subset is None:
            return
        splits_on_sets = np.array(sorted(sets), dtype=np.int64)
        set_of_split = np.zeros(int(np.sum(n_splits)), dtype=np.int64)
        set_of_split[splits_on_sets] = np.arange(1, len(splits_on_sets) + 1)
        ends_of_trees = np.searchsorted(splits_on_sets, np.cumsum(n_splits))
        self._add_sets(
            set_of_split,
            [sets[j] for j in splits_on_sets.tolist()],
            np.diff(ends_of_trees, prepend=0),
        )

    def _add_sets(self, set_of_split, sets, counts):
        """Add the sets of the latest trees: ``set_of_split`` has the set's number per split; ``counts`` is by tree."""
        del self._sets[self._first_set[-1] :]
        end = int(self._offset[self._n])
        self._grow("_subset", end)
        self._subset[end - len(set_of_split) : end] = np.where(
            set_of_split > 0, set_of_split + len(self._sets), 0
        )
        self._sets += sets
        self._first_set += (self._first_set[-1] + np.cumsum(counts)).tolist()

    def add_trees(
        self, n_splits, feature, threshold, nan_left, right, leaf, cls=-1, base=-1, sets=None
    ):
        """Add n trees: a vectorized `add_tree`.

        Parameters
        ----------
        n_splits : array-like (n,)
        feature, threshold, nan_left, right : array-like (sum of n_splits,), or one value for all
            The splits of all trees, one tree after the other.
        leaf : array-like (sum of n_splits + n,) or (sum of n_splits + n, K)
        cls, base : array-like (n,), or one value for all
        sets : dict of int to ndarray of uint8, optional
            As in `add_tree`, by the number of the split among all of them.
        """
        n = len(n_splits)
        begin = int(self._offset[self._n])
        ends = begin + np.cumsum(n_splits, dtype=np.int64)
        end = int(ends[-1]) if n else begin
        if len(leaf) != end - begin + n or any(
            np.ndim(a) and len(a) != end - begin for a in (feature, threshold)
        ):
            raise ValueError("the splits and leaves do not match the number of trees")
        self._append(n, end, ends, feature, threshold, nan_left, right, leaf, cls, base)
        if sets is not None:
            self._add_numbered(sets, n_splits)

    def _append(self, n, end, ends, feature, threshold, nan_left, right, leaf, cls, base):
        """Append n trees; ``ends`` are the ends of their splits, and ``end`` is the last one."""
        t = self._n
        begin = int(self._offset[self._n])
        # A single test, because usually there is room: eight calls would take a tenth of a small round.
        if end > len(self._feature) or end + t + n > len(self._leaf) or t + n >= len(self._cls):
            for name in ("_feature", "_threshold", "_nan_left", "_right"):
                self._grow(name, end)
            self._grow("_leaf", end + t + n)
            for name in ("_cls", "_base", "_offset"):
                self._grow(name, t + n + 1)
        splits = slice(begin, end)
        trees = slice(t, t + n)
        self._feature[splits] = feature
        self._threshold[splits] = threshold
        self._nan_left[splits] = nan_left
        self._right[splits] = right
        if self._entries is None:
            self._leaf[begin + t : end + t + n] = leaf
        else:
            self._entries.put(begin + t, leaf)
        self._cls[trees] = cls
        self._base[trees] = base
        self._offset[t + 1 : t + n + 1] = ends
        self._n = t + n

    def add_stump(self, feature, threshold, nan_left, right, left=None):
        """Add a stump as a tree with one value per class in its leaves; see `EnsembleBuilder.add_stump`."""
        leaf = np.stack((np.negative(right) if left is None else left, right))
        self.add_tree([feature], [threshold], [nan_left], right=[1], leaf=leaf)

    def end_round(self):
        """End the round, so that the next tree starts a new one."""
        self._rounds.append(self._n)

    def extend(self, trees):
        """Add all trees of a frozen list with their rounds; their code, if any, replaces the current one."""
        if trees.code is not None:
            self.code = np.array(trees.code, dtype=np.float32)
        n_before = self._n
        if (trees.subset is None) != (self._subset is None):
            raise ValueError(
                "the existing rounds and the new ones disagree on which features are "
                "categories; train a new model"
            )
        self.add_trees(
            np.diff(trees.offset),
            trees.feature,
            trees.threshold,
            trees.nan_left,
            trees.right,
            trees.leaf,
            -1 if trees.cls is None else trees.cls,
            -1 if trees.base is None else trees.base,
        )
        if self._subset is not None:
            start = trees.subset_start
            sets = [trees.subset_bits[a:b] for a, b in zip(start, start[1:], strict=False)]
            sets_before_split = np.concatenate(([0], np.cumsum(trees.subset > 0)))
            counts = np.diff(sets_before_split[trees.offset])
            self._add_sets(trees.subset, sets, counts)
        self._rounds += (n_before + trees.rounds[1:]).tolist()

    def tail(self, start):
        """Return the trees from number ``start`` on as views, which the next call of `add_tree` may invalidate.

        Their rounds are the rest of the round that contains ``start``, and all later ones; trees after the last
        `end_round` count as a round. The bias is that of the first part.
        """
        if not 0 <= start <= self._n:
            raise ValueError(f"there is no tree {start}; tree numbers go from 0 to {self._n}")
        begin = int(self._offset[start])
        end = int(self._offset[self._n])
        n = self._n
        rounds = [r - start for r in self._rounds[1:] if r > start or start == 0]
        if n - start > (rounds[-1] if rounds else 0):
            rounds.append(n - start)
        base = self._base[start:n]
        return Trees(
            self._offset[start : n + 1] - begin,
            self._feature[begin:end],
            self._threshold[begin:end],
            self._nan_left[begin:end],
            self._right[begin:end],
            (self._leaf if self._entries is None else self._entries)[begin + start : end + n],
            None if self.vector else self._cls[start:n],
            None if self.vector or (base < 0).all() else base,
            np.array([0, *rounds], dtype=np.int64),
            self.bias if start == 0 else np.zeros_like(self.bias),
            self.n_features,
            self.code,
            self.decoder,
            None,
            *self._tail_sets(start, begin, end),
        )

    def _tail_sets(self, start, begin, end):
        """Sets of the trees from number ``start`` on, whose splits are ``begin`` to ``end``."""
        if self._subset is None:
            return None, None, None, None
        first_set = self._first_set[start]
        sets = self._sets[first_set : self._first_set[self._n]]
        set_of_split = self._subset[begin:end]
        subset = np.where(set_of_split > 0, set_of_split - first_set, 0)
        starts = np.concatenate(([0], np.cumsum([len(bits) for bits in sets]))).astype(np.int64)
        bits = np.concatenate([np.zeros(0, dtype=np.uint8), *sets])
        return subset, starts, bits, self.categories

    def rounds(self):
        """Yield models that add up to the current one: its rounds that have trees."""
        ends = self.tail(0).rounds.tolist()
        for begin, end in zip(ends, ends[1:], strict=False):
            if begin < end:
                part = self.tail(begin)
                yield part.truncate_rounds(int(np.searchsorted(part.rounds, end - begin)))

    def truncate_rounds(self, n):
        """Keep the first ``n`` rounds."""
        check_rounds(n, self.n_rounds)
        del self._rounds[n + 1 :]
        self._n = self._rounds[-1]
        del self._first_set[self._n + 1 :]
