"""Ensembles of stumps or trees: a builder that grows during training and the frozen arrays that are saved and scored.

F(x) = bias + sum over the stumps, in order, of  left  if x[feature] <= threshold, or x[feature] is NaN and nan_left
                                                 right otherwise
and likewise for trees, whose splits send x to one of many leaves.
"""

from dataclasses import dataclass, replace

import numpy as np

from pymcboost.threads import counted

# Most columns of a code whose decoder is not linear: what the scorer's stack has room for.
MOST_DECODED = 4096


@dataclass(frozen=True, eq=False)
class Stumps:
    """A frozen list of M stumps with one value per class on each side.

    Attributes
    ----------
    feature : ndarray of int64 (M,)
    threshold : ndarray of float32 (M,)
    nan_left : ndarray of bool (M,)
    right : ndarray of float32 (M, K)
        Values where ``x > threshold``.
    left : ndarray of float32 (M, K) or None
        Values where ``x <= threshold``; None means ``-right``.
    bias : ndarray of float32 (K,)
    n_features : int
    """

    feature: np.ndarray
    threshold: np.ndarray
    nan_left: np.ndarray
    right: np.ndarray
    left: np.ndarray | None
    bias: np.ndarray
    n_features: int

    def __len__(self):
        return len(self.feature)

    @property
    def n_classes(self):
        """Number of classes, K."""
        return len(self.bias)

    @property
    def n_rounds(self):
        """Number of rounds: every stump is one."""
        return len(self)

    def truncate_rounds(self, n):
        """The same as `truncate`."""
        return self.truncate(n)

    def truncate(self, n):
        """The first ``n`` stumps, as views of these arrays."""
        if not 0 <= n <= len(self):
            raise ValueError(f"cannot keep {n} of {len(self)} stumps; give a number from 0 to {len(self)}")
        left = None if self.left is None else self.left[:n]
        return Stumps(
            self.feature[:n], self.threshold[:n], self.nan_left[:n], self.right[:n], left, self.bias, self.n_features
        )

    def each(self):
        """Yield (feature, threshold, nan_left, right, left) of every stump, ``left`` always given."""
        for t in range(len(self)):
            right = self.right[t]
            left = -right if self.left is None else self.left[t]
            yield int(self.feature[t]), self.threshold[t], bool(self.nan_left[t]), right, left

    def canonical(self):
        """The same model in the one form that is saved, after checking it.

        Contiguous arrays of the documented types; no negative zeros (they change no score, as sums begin at +0 or at a
        bias); ``left`` None if it is the negative of ``right``.

        Raises
        ------
        ValueError
            If shapes disagree, a feature is out of range, or a number is not finite in float32.
        """
        bias = _bias(self.bias)
        m, k = np.size(self.feature), len(bias)
        feature, nan_left = _features(self.feature, self.nan_left, self.n_features)
        threshold = _finite("threshold", self.threshold, (m,))
        right = _finite("right", self.right, (m, k))
        left = None if self.left is None else _finite("left", self.left, (m, k))
        if left is not None and np.array_equal(left, -right):
            left = None
        return Stumps(feature, threshold, nan_left, right, left, bias, int(self.n_features))

    def merge(self):
        """The same function as a table of intervals per feature (see `Intervals`)."""
        return _merge(self.canonical())


@dataclass(frozen=True, eq=False)
class Intervals:
    """Stumps merged per feature: one binary search and one table row per feature that occurs.

    With ``begin, end = offset[i], offset[i + 1]``, feature ``feature[i]`` has the increasing thresholds
    ``threshold[begin:end]`` and the table rows from ``begin + 2 * i`` on: one for each of its ``end - begin + 1``
    intervals from low to high (upper end included), then one for NaN.

    Attributes
    ----------
    feature : ndarray of int64 (n_used,)
        Increasing.
    offset : ndarray of int64 (n_used + 1,)
    threshold : ndarray of float32 (D,)
    table : ndarray of float64 or float32 (D + 2 * n_used, K)
    bias : ndarray of float32 (K,)
    n_features : int
    """

    feature: np.ndarray
    offset: np.ndarray
    threshold: np.ndarray
    table: np.ndarray
    bias: np.ndarray
    n_features: int

    @property
    def n_classes(self):
        """Number of classes, K."""
        return len(self.bias)

    def single(self):
        """The same with a table of float32."""
        with np.errstate(over="ignore", under="ignore"):
            table = self.table.astype(np.float32) + np.float32(0)  # turns the -0 of what was too small into +0
        if not np.isfinite(table).all():
            raise ValueError(
                f"layout='interval32' cannot hold a score of {np.abs(self.table).max():g}, float32 ends at 3.4e38; "
                "use layout='interval'"
            )
        return replace(self, table=table)


class EnsembleBuilder:
    """Stumps that are added one at a time; the arrays behind them double when full.

    Parameters
    ----------
    n_classes, n_features : int
    """

    def __init__(self, n_classes, n_features):
        self.n_classes = int(n_classes)
        self.n_features = int(n_features)
        self.bias = np.zeros(self.n_classes, dtype=np.float32)
        self._n = 0
        self._feature = np.empty(16, dtype=np.int64)
        self._threshold = np.empty(16, dtype=np.float32)
        self._nan_left = np.empty(16, dtype=bool)
        self._right = np.empty((16, self.n_classes), dtype=np.float32)
        self._left = None

    def __len__(self):
        return self._n

    def add_stump(self, feature, threshold, nan_left, right, left=None):
        """Append a stump.

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
                old = getattr(self, name)
                if old is not None:
                    new = np.empty((2 * n, *old.shape[1:]), dtype=old.dtype)
                    new[:n] = old
                    setattr(self, name, new)
        self._feature[n] = feature
        self._threshold[n] = threshold
        self._nan_left[n] = nan_left
        self._right[n] = right
        if left is not None and self._left is None:
            self._left = -self._right
        if self._left is not None:
            self._left[n] = -self._right[n] if left is None else left
        self._n = n + 1

    def extend(self, stumps):
        """Append all stumps of a frozen list."""
        for stump in stumps.each():
            self.add_stump(*stump)

    def tail(self, start):
        """The stumps from ``start`` on, as views that the next call of `add_stump` may outdate."""
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

    def truncate(self, n):
        """Keep the first ``n`` stumps."""
        if not 0 <= n <= self._n:
            raise ValueError(f"cannot keep {n} of {self._n} stumps; give a number from 0 to {self._n}")
        self._n = n

    # A stump is a round.
    truncate_rounds = truncate

    def end_round(self):
        """Nothing, as every stump is a round: for callers that have a `TreesBuilder` at other times."""

    def freeze(self):
        """The stumps so far as read-only copies; the builder can go on growing.

        Returns
        -------
        Stumps
        """
        n = self._n
        arrays = [self._feature[:n], self._threshold[:n], self._nan_left[:n], self._right[:n], self._left, self.bias]
        if self._left is not None:
            arrays[4] = self._left[:n]
        arrays = [None if array is None else array.copy() for array in arrays]
        for array in arrays:
            if array is not None:
                array.flags.writeable = False
        return Stumps(*arrays, self.n_features)


@dataclass(frozen=True, eq=False)
class Trees:
    """A frozen list of T trees with S splits in all, in rounds.

    Only splits are nodes. Those of tree t are ``offset[t] <= i < offset[t + 1]``, in preorder: the left child of split
    i is i + 1, the right one i + right[i], and either is a leaf if the other part of the subtree begins, or the
    subtree ends, right there. With ``i, end, at = offset[t], offset[t + 1], offset[t] + t`` a row descends, while
    ``i < end``, by ``i, end, at = i + 1, i + right[i], at`` to the left and ``i + right[i], end, at + right[i]`` to
    the right; then ``leaf[at]`` is its leaf. A tree of s splits has s + 1 leaves; s may be 0.

    Attributes
    ----------
    offset : ndarray of int64 (T + 1,)
    feature : ndarray of int64 (S,)
    threshold : ndarray of float32 (S,)
        ``x <= threshold`` goes left.
    nan_left : ndarray of bool (S,)
        NaN goes left.
    right : ndarray of int64 (S,)
    leaf : ndarray of float32 (S + T,) or (S + T, K)
        Values of the leaves, from left to right, tree after tree: one number, or one for each class.
    cls : ndarray of int64 (T,) or None
        The class whose score gets the leaf's value; None if leaves have a value for each class.
    base : ndarray of int64 (T,) or None
        The class whose score loses the leaf's value, -1 for none.
    rounds : ndarray of int64 (R + 1,)
        The trees of round r are ``rounds[r] <= t < rounds[r + 1]``.
    bias : ndarray of float32 (K,)
    n_features : int
    code : ndarray of float32 (P, K) or None
        If given, ``cls`` is one of P columns.
    decoder : {"linear", "hamming", "exp"}
        How the sums of the columns' leaves become scores, see `coding.decode`. "linear": a leaf's value times the row
        of its column goes to the scores.
    """

    offset: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    nan_left: np.ndarray
    right: np.ndarray
    leaf: np.ndarray
    cls: np.ndarray | None
    base: np.ndarray | None
    rounds: np.ndarray
    bias: np.ndarray
    n_features: int
    code: np.ndarray | None = None
    decoder: str = "linear"

    def __len__(self):
        return len(self.offset) - 1

    @property
    def n_classes(self):
        """Number of classes, K."""
        return len(self.bias)

    @property
    def n_rounds(self):
        """Number of rounds, R."""
        return len(self.rounds) - 1

    def truncate_rounds(self, n):
        """The first ``n`` rounds, as views of these arrays."""
        if not 0 <= n <= self.n_rounds:
            raise ValueError(
                f"cannot keep {n} of {counted(self.n_rounds, 'round')}; give a number from 0 to {self.n_rounds}"
            )
        trees = int(self.rounds[n])
        splits = int(self.offset[trees])
        return Trees(
            self.offset[: trees + 1],
            self.feature[:splits],
            self.threshold[:splits],
            self.nan_left[:splits],
            self.right[:splits],
            self.leaf[: splits + trees],
            None if self.cls is None else self.cls[:trees],
            None if self.base is None else self.base[:trees],
            self.rounds[: n + 1],
            self.bias,
            self.n_features,
            self.code,
            self.decoder,
        )

    def columns(self):
        """The same trees with a score for every column of the code, in place of every class; at least two."""
        n = max(2, len(self.code))
        return replace(self, bias=np.zeros(n, dtype=np.float32), code=None, decoder="linear")

    def each(self):
        """Yield (feature, threshold, nan_left, right, leaf, cls, base) of each tree; ``cls``, ``base`` may be -1."""
        for t in range(len(self)):
            begin, end = int(self.offset[t]), int(self.offset[t + 1])
            yield (
                self.feature[begin:end],
                self.threshold[begin:end],
                self.nan_left[begin:end],
                self.right[begin:end],
                self.leaf[begin + t : end + t + 1],
                -1 if self.cls is None else int(self.cls[t]),
                -1 if self.base is None else int(self.base[t]),
            )

    def depths(self):
        """Splits on the longest way from the root to a leaf, for each tree: int64 (T,).

        Raises
        ------
        ValueError
            If ``right`` does not describe trees.
        """
        depth = np.zeros(len(self), dtype=np.int64)
        begin, end, tree = self.offset[:-1], self.offset[1:], np.arange(len(self))
        while True:
            inner = begin < end
            begin, end, tree = begin[inner], end[inner], tree[inner]
            if not len(begin):
                return depth
            depth[tree] += 1
            right = self.right[begin]
            if (right < 1).any() or (right > end - begin).any():
                raise ValueError("a right child lies outside the part of the tree that belongs to its parent")
            begin, end = np.concatenate([begin + 1, begin + right]), np.concatenate([begin + right, end])
            tree = np.concatenate([tree, tree])

    def canonical(self):
        """The same model in the one form that is saved, after checking it.

        Contiguous arrays of the documented types; no negative zeros; ``base`` None if it is -1 throughout.

        Raises
        ------
        ValueError
            If shapes disagree, the splits are not trees in preorder, a feature or a class is out of range, or a number
            is not finite in float32.
        """
        bias = _bias(self.bias)
        k = len(bias)
        feature, nan_left = _features(self.feature, self.nan_left, self.n_features)
        offset = _rising("offset", self.offset, len(feature))
        s, t = len(feature), len(offset) - 1
        threshold = _finite("threshold", self.threshold, (s,))
        right = _integers("right", self.right, s)
        vector = self.cls is None
        leaf = _finite("leaf", self.leaf, (s + t, k) if vector else (s + t,))
        cls, base, code = self.cls, self.base, self.code
        if code is not None:
            code = _finite("code", code, (len(code), k))
            if self.decoder not in ("linear", "hamming", "exp"):
                raise ValueError(f"decoder must be 'linear', 'hamming' or 'exp', not {self.decoder!r}")
            if self.decoder != "linear" and len(code) > MOST_DECODED:
                raise ValueError(
                    f"a code with decoder={self.decoder!r} has at most {MOST_DECODED} columns, not {len(code)}"
                )
            if vector or not len(code):
                raise ValueError("code needs a row or more, and trees with cls")
        columns = k if code is None else len(code)
        if not vector:
            cls = _integers("cls", cls, t)
            if t and (cls.min() < 0 or cls.max() >= columns):
                raise ValueError(f"cls must be from 0 to {columns - 1}")
        if base is not None:
            base = _integers("base", base, t)
            if t and (base.min() < -1 or base.max() >= k):
                raise ValueError(f"base must be from 0 to {k - 1}, or -1 for none")
            if (base < 0).all():
                base = None
            elif vector:
                raise ValueError("base must be None or -1 where leaves have a value for each class")
            elif (base == cls).any():
                raise ValueError("base must not be the tree's own class")
            elif code is not None:
                raise ValueError("base must be None or -1 where there is a code")
        rounds = _rising("rounds", self.rounds, t)
        result = Trees(
            offset, feature, threshold, nan_left, right, leaf, cls, base, rounds, bias, int(self.n_features), code,
            self.decoder,
        )  # fmt: skip
        result.depths()
        return result

    def merge(self):
        """The same function as a table of intervals per feature (see `Intervals`), where no tree has two splits."""
        splits = np.diff(self.offset)
        if (splits > 1).any():
            raise ValueError(
                "an interval table is for stumps; trees with more than one split can only be saved as a list "
                "(layout='list')"
            )
        if self.decoder != "linear":
            raise ValueError(f"an interval table is for sums; a code with decoder={self.decoder!r} has a list only")
        stumps = self._as_stumps(splits)
        return _merge(stumps if self.code is not None else stumps.canonical())

    def _as_stumps(self, splits):
        """Trees of one split or none as stumps; those of none are split anywhere, with the same value on both sides."""
        n, k = len(self), self.n_classes
        first = np.arange(n) + self.offset[:-1]
        # The products of leaves and codes are exact in float64.
        value = np.zeros((2, n, k), dtype=np.float32 if self.code is None else np.float64)
        for side, at in ((0, first), (1, first + splits)):
            if self.cls is None:
                value[side] = self.leaf[at]
                continue
            if self.code is not None:
                value[side] = self.leaf[at].astype(np.float64)[:, None] * self.code[self.cls]
                continue
            value[side, np.arange(n), self.cls] = self.leaf[at]
            based = np.flatnonzero(self.base >= 0) if self.base is not None else np.zeros(0, dtype=np.int64)
            if len(based):
                value[side, based, self.base[based]] = -self.leaf[at[based]]
        feature, threshold = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.float32)
        nan_left, split = np.zeros(n, dtype=bool), splits > 0
        for to, values in ((feature, self.feature), (threshold, self.threshold), (nan_left, self.nan_left)):
            to[split] = values
        return Stumps(feature, threshold, nan_left, value[1], value[0], self.bias, self.n_features)


class TreesBuilder:
    """Trees that are added one at a time, in rounds; the arrays behind them double when full.

    Parameters
    ----------
    n_classes, n_features : int
    vector : bool, default=False
        Leaves have a value for each class; otherwise one value for the class of the tree.
    code : ndarray (P, n_classes), optional
        Trees are of columns, see `Trees`.
    decoder : {"linear", "hamming", "exp"}, default="linear"
    """

    def __init__(self, n_classes, n_features, vector=False, code=None, decoder="linear"):
        self.decoder = decoder
        self.code = None if code is None else np.array(code, dtype=np.float32)
        self.n_classes = int(n_classes)
        self.n_features = int(n_features)
        self.vector = bool(vector)
        self.bias = np.zeros(self.n_classes, dtype=np.float32)
        self._n = 0
        self._rounds = [0]
        self._offset = np.zeros(16, dtype=np.int64)
        self._feature = np.empty(64, dtype=np.int64)
        self._threshold = np.empty(64, dtype=np.float32)
        self._nan_left = np.empty(64, dtype=bool)
        self._right = np.empty(64, dtype=np.int64)
        self._leaf = np.empty((64, self.n_classes) if vector else 64, dtype=np.float32)
        self._cls = np.empty(16, dtype=np.int64)
        self._base = np.empty(16, dtype=np.int64)

    def __len__(self):
        return self._n

    @property
    def n_rounds(self):
        """Number of rounds that have been ended."""
        return len(self._rounds) - 1

    def _room(self, name, n):
        array = getattr(self, name)
        if n > len(array):
            new = np.empty((max(n, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
            new[: len(array)] = array
            setattr(self, name, new)

    def add_tree(self, feature, threshold, nan_left, right, leaf, cls=-1, base=-1):
        """Append a tree to the round that has not been ended yet.

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
        """
        s = len(feature)
        if self.vector != (cls < 0):
            raise ValueError("a tree needs cls, unless its leaves have a value for each class")
        if np.shape(leaf) != ((s + 1, self.n_classes) if self.vector else (s + 1,)):
            raise ValueError(f"a tree of {s} splits cannot have leaves of shape {np.shape(leaf)}")
        self.add_trees([s], feature, threshold, nan_left, right, leaf, cls, base)

    def add_trees(self, n_splits, feature, threshold, nan_left, right, leaf, cls=-1, base=-1):
        """Append n trees: `add_tree` for many at once.

        Parameters
        ----------
        n_splits : array-like (n,)
        feature, threshold, nan_left, right : array-like (sum of n_splits,), or one value for all
            The splits of one tree after those of another.
        leaf : array-like (sum of n_splits + n,) or (sum of n_splits + n, K)
        cls, base : array-like (n,), or one value for all
        """
        t, n, begin = self._n, len(n_splits), int(self._offset[self._n])
        ends = begin + np.cumsum(n_splits, dtype=np.int64)
        end = int(ends[-1]) if n else begin
        if len(leaf) != end - begin + n or any(np.ndim(a) and len(a) != end - begin for a in (feature, threshold)):
            raise ValueError("the splits and leaves are not those of so many trees")
        splits = {"_feature": feature, "_threshold": threshold, "_nan_left": nan_left, "_right": right}
        for name, values in splits.items():
            self._room(name, end)
            getattr(self, name)[begin:end] = values
        self._room("_leaf", end + t + n)
        self._leaf[begin + t : end + t + n] = leaf
        for name, values in (("_cls", cls), ("_base", base)):
            self._room(name, t + n)
            getattr(self, name)[t : t + n] = values
        self._room("_offset", t + n + 1)
        self._offset[t + 1 : t + n + 1] = ends
        self._n = t + n

    def add_stump(self, feature, threshold, nan_left, right, left=None):
        """Append a stump as a tree, which must have a value for each class; see `EnsembleBuilder.add_stump`."""
        leaf = np.stack((np.negative(right) if left is None else left, right))
        self.add_tree([feature], [threshold], [nan_left], [1], leaf)

    def end_round(self):
        """The next tree begins a new round."""
        self._rounds.append(self._n)

    def extend(self, trees):
        """Append all trees of a frozen list, with their rounds; a code of theirs takes the place of this one."""
        if trees.code is not None:
            self.code = np.array(trees.code, dtype=np.float32)
        ends = iter(trees.rounds[1:].tolist())
        end = next(ends, None)
        for t, tree in enumerate([*trees.each(), None]):
            while end == t:
                self.end_round()
                end = next(ends, None)
            if tree is not None:
                self.add_tree(*tree)

    def tail(self, start):
        """The trees from number ``start`` on, as views that the next call of `add_tree` may outdate.

        Their rounds are the rest of the round that ``start`` lies in, and those after it; trees behind the last
        `end_round` count as a round.
        """
        if not 0 <= start <= self._n:
            raise ValueError(f"there is no tree number {start}; give a number from 0 to {self._n}")
        begin, end, n = int(self._offset[start]), int(self._offset[self._n]), self._n
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
            self._leaf[begin + start : end + n],
            None if self.vector else self._cls[start:n],
            None if self.vector or (base < 0).all() else base,
            np.array([0, *rounds], dtype=np.int64),
            self.bias,
            self.n_features,
            self.code,
            self.decoder,
        )

    def truncate_rounds(self, n):
        """Keep the first ``n`` rounds."""
        if not 0 <= n <= self.n_rounds:
            raise ValueError(
                f"cannot keep {n} of {counted(self.n_rounds, 'round')}; give a number from 0 to {self.n_rounds}"
            )
        del self._rounds[n + 1 :]
        self._n = self._rounds[-1]

    def freeze(self):
        """The trees so far as read-only copies; the builder can go on growing.

        Returns
        -------
        Trees
        """
        trees = self.tail(0)
        arrays = {name: array.copy() for name, array in vars(trees).items() if isinstance(array, np.ndarray)}
        for array in arrays.values():
            array.flags.writeable = False
        return replace(trees, **arrays)


def _bias(values):
    bias = _finite("bias", values, (np.size(values),))
    if len(bias) < 2:
        raise ValueError(f"an ensemble needs 2 classes or more, its bias has {len(bias)}")
    return bias


def _features(feature, nan_left, n_features):
    m = np.size(feature)
    feature = np.asarray(feature)
    if m and (feature.dtype.kind not in "iu" or feature.min() < 0 or feature.max() >= n_features):
        raise ValueError(f"feature indices must be integers from 0 to {n_features - 1}")
    feature = np.ascontiguousarray(feature, dtype=np.int64)
    nan_left = np.ascontiguousarray(nan_left, dtype=bool)
    if feature.shape != (m,) or nan_left.shape != (m,):
        raise ValueError(f"feature and nan_left must have shape ({m},)")
    return feature, nan_left


def _integers(name, values, n):
    values = np.asarray(values)
    if values.shape != (n,) or (n and values.dtype.kind not in "iu"):
        raise ValueError(f"{name} must hold {n} integers")
    return np.ascontiguousarray(values, dtype=np.int64)


def _rising(name, values, last):
    values = _integers(name, values, np.size(values))
    if not len(values) or values[0] != 0 or values[-1] != last or (values[1:] < values[:-1]).any():
        raise ValueError(f"{name} must rise from 0 to {last}")
    return values


def _finite(name, values, shape):
    values = np.asarray(values)
    if values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}, but must have {shape}")
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(values, dtype=np.float32)
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds a number that is not finite in float32 (magnitude up to 3.4e38)")
    return values + np.float32(0)  # turns -0 into +0


def _add(high, low, value):
    """Add ``value`` to the unevaluated sum ``high + low`` (Knuth's two-sum): 106 bits, the same on every machine."""
    total = high + value
    part = total - high
    low = low + ((high - (total - part)) + (value - part))
    high = total + low
    return high, low - (high - total)


def _merge(stumps):
    right = stumps.right.astype(np.float64)
    left = -right if stumps.left is None else stumps.left.astype(np.float64)
    order = np.lexsort((stumps.threshold, stumps.feature))
    features, first = np.unique(stumps.feature[order], return_index=True)
    first = np.append(first, len(order))
    offset, thresholds, rows = [0], [], []
    for i in range(len(features)):
        mine = order[first[i] : first[i + 1]]
        zero = np.zeros(stumps.n_classes)
        total, nan = (zero, zero), (zero, zero)
        for j in mine:
            total = _add(*total, left[j])
            nan = _add(*nan, left[j] if stumps.nan_left[j] else right[j])
        rows.append(total[0])
        cuts, begin = np.unique(stumps.threshold[mine], return_index=True)
        begin = np.append(begin, len(mine))
        for c in range(len(cuts)):
            for j in mine[begin[c] : begin[c + 1]]:
                total = _add(*_add(*total, right[j]), -left[j])
            rows.append(total[0])
        rows.append(nan[0])
        thresholds.append(cuts)
        offset.append(offset[-1] + len(cuts))
    threshold = np.concatenate(thresholds) if thresholds else np.zeros(0, dtype=np.float32)
    table = np.array(rows) + 0.0 if rows else np.zeros((0, stumps.n_classes))
    return Intervals(features, np.array(offset, dtype=np.int64), threshold, table, stumps.bias, stumps.n_features)
