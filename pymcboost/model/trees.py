"""Trees: the frozen arrays that are saved and scored.

F(x) = bias + sum over the trees, in order, of the value of the leaf that x falls into.
"""

from dataclasses import dataclass, replace

import numpy as np

from pymcboost.model import arrays
from pymcboost.model.arrays import check_rounds, finite, integers, narrow, rising, running_sums
from pymcboost.model.categories import Categories
from pymcboost.model.entries import LeafEntries, checked, halved, leaf_sections
from pymcboost.model.file import DECODERS
from pymcboost.model.intervals import merged
from pymcboost.model.kind import Kind
from pymcboost.model.stumps import Stumps
from pymcboost.threads import counted

# Maximum number of columns of a code with a nonlinear decoder, because the scorer keeps them on its stack.
MOST_DECODED = 4096
# With at least this many splits on a level, NumPy is faster than a loop.
FEW_SPLITS = 64
OUTSIDE = "a right child lies outside the part of the tree that belongs to its parent"


@dataclass(frozen=True, eq=False)
class Trees(Kind):
    """List of T trees with S splits in total, grouped into rounds.

    Attributes
    ----------
    offset : ndarray of int64 of shape (T + 1,)
        The splits of tree t have the numbers ``offset[t] <= i < offset[t + 1]``, in preorder.
    feature : ndarray of int64 of shape (S,)
        Column number of each split.
    threshold : ndarray of float32 of shape (S,)
        Threshold of each split. Rows with ``x <= threshold`` go left.
    nan_left : ndarray of bool of shape (S,)
        Whether missing values go left.
    right : ndarray of int64 of shape (S,)
        Distance from a split to its right child.
    leaf : ndarray of float32 of shape (S + T,) or (S + T, K), or LeafEntries
        Leaf values from left to right, tree after tree: one number, or one number per class.
    cls : ndarray of int64 of shape (T,) or None
        Class to whose score the leaf value of a tree is added. None if leaves have one value per class.
    base : ndarray of int64 of shape (T,) or None
        Class from whose score the leaf value of a tree is subtracted, or -1 for none.
    rounds : ndarray of int64 of shape (R + 1,)
        The trees of round r have the numbers ``rounds[r] <= t < rounds[r + 1]``.
    bias : ndarray of float32 of shape (K,)
        Initial scores of the classes.
    n_features : int
        Number of features.
    code : ndarray of float32 of shape (P, K) or None
        Output code. If given, ``cls`` is one of its P columns.
    decoder : {"linear", "hamming", "exp"}
        How the scores of the columns are decoded; see `Model.decode`. "linear" multiplies a leaf value by the row of
        its column and adds it to the scores.
    cover : ndarray of int of shape (S + T,) or None
        Number of rows in each leaf; see `Model.with_covers`.
    subset : ndarray of int64 of shape (S,) or None
        Number of the set of category codes that a split sends left, or 0 if it has a threshold. Sets are numbered from
        1 in the order of their splits.
    subset_start : ndarray of shape (n_sets + 1,) or None
        Position in ``subset_bits`` at which each set starts.
    subset_bits : ndarray of uint8 or None
        Bits of the sets.
    categories : Categories or None
        Categorical features, or None if all features are numeric.

    Notes
    -----
    Only splits are nodes. The left child of split i is i + 1, and the right child is i + right[i]. The left child is a
    leaf if the right part of the subtree starts at its number, and the right child is a leaf if the subtree ends there.
    A row starts in tree t with ``i, end, leaf_index = offset[t], offset[t + 1], offset[t] + t``. While ``i < end``, it
    goes left by ``i, end = i + 1, i + right[i]``, or right by ``i, leaf_index = i + right[i], leaf_index + right[i]``.
    Then ``leaf[leaf_index]`` is its leaf. A tree with s splits has s + 1 leaves; s may be 0.
    """

    KIND = 3
    NAME = "trees"
    share_of = "the splits"

    offset: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    nan_left: np.ndarray
    right: np.ndarray
    leaf: np.ndarray | LeafEntries
    cls: np.ndarray | None
    base: np.ndarray | None
    rounds: np.ndarray
    bias: np.ndarray
    n_features: int
    code: np.ndarray | None = None
    decoder: str = "linear"
    cover: np.ndarray | None = None
    subset: np.ndarray | None = None
    subset_start: np.ndarray | None = None
    subset_bits: np.ndarray | None = None
    categories: Categories | None = None

    def __len__(self):
        return len(self.offset) - 1

    @property
    def n_rounds(self):
        """Number of rounds, R."""
        return len(self.rounds) - 1

    def truncate_rounds(self, n):
        """The first ``n`` rounds, as views of these arrays."""
        check_rounds(n, self.n_rounds)
        n_trees = int(self.rounds[n])
        n_splits = int(self.offset[n_trees])
        n_leaves = n_splits + n_trees
        return replace(
            self,
            offset=self.offset[: n_trees + 1],
            feature=self.feature[:n_splits],
            threshold=self.threshold[:n_splits],
            nan_left=self.nan_left[:n_splits],
            right=self.right[:n_splits],
            leaf=self.leaf[:n_leaves],
            cls=None if self.cls is None else self.cls[:n_trees],
            base=None if self.base is None else self.base[:n_trees],
            rounds=self.rounds[: n + 1],
            cover=None if self.cover is None else self.cover[:n_leaves],
            **self._first_sets(n_splits),
        )

    def _first_sets(self, n_splits):
        """Fields with the sets of the first splits."""
        if self.subset is None:
            return {}
        subset = self.subset[:n_splits]
        start = self.subset_start[: int(subset.max(initial=0)) + 1]
        return {
            "subset": subset,
            "subset_start": start,
            "subset_bits": self.subset_bits[: start[-1]],
        }

    def sets(self):
        return None if self.subset is None else (self.subset, self.subset_start, self.subset_bits)

    def each_sets(self):
        if self.subset is None:
            return super().each_sets()
        return (
            self._sets_of(int(a), int(b))
            for a, b in zip(self.offset, self.offset[1:], strict=False)
        )

    def _sets_of(self, begin, end):
        """Bits of the sets of the splits from ``begin`` to ``end``, by split number in this range."""
        start = self.subset_start
        subset = self.subset[begin:end]
        sets = {}
        for j in np.flatnonzero(subset).tolist():
            number = int(subset[j])
            sets[j] = self.subset_bits[start[number - 1] : start[number]]
        return sets

    def columns(self):
        """Return the trees with a score for every column of the code instead of every class; at least two columns."""
        n = max(2, len(self.code))
        return replace(self, bias=np.zeros(n, dtype=np.float32), code=None, decoder="linear")

    def each_tree(self):
        """Yield (feature, threshold, nan_left, right, leaf, cls, base) of each tree; ``cls`` and ``base`` can be -1."""
        for t in range(len(self)):
            begin = int(self.offset[t])
            end = int(self.offset[t + 1])
            yield (
                self.feature[begin:end],
                self.threshold[begin:end],
                self.nan_left[begin:end],
                self.right[begin:end],
                self.leaf[begin + t : end + t + 1],
                -1 if self.cls is None else int(self.cls[t]),
                -1 if self.base is None else int(self.base[t]),
            )

    each = each_tree

    def splits(self):
        return self.offset, self.feature, self.threshold, self.nan_left, self.right

    def leaves(self):
        """Leaf values, as in ``leaf``."""
        return self.leaf

    def form(self):
        """Properties that two models must share to be added; also whether leaves are vectors."""
        return *super().form(), np.ndim(self.leaf)

    def round_ends(self):
        return self.rounds

    def depths(self):
        """Depth of each tree: int64 (T,).

        Raises
        ------
        ValueError
            If ``right`` does not describe trees.
        """
        depth = np.zeros(len(self), dtype=np.int64)
        begin = self.offset[:-1]
        end = self.offset[1:]
        tree = np.arange(len(self))
        level = 0
        while True:
            inner = begin < end
            begin = begin[inner]
            end = end[inner]
            tree = tree[inner]
            if len(begin) < FEW_SPLITS:
                break
            level += 1
            depth[tree] = level
            right = self.right[begin]
            if (right < 1).any() or (right > end - begin).any():
                raise ValueError(OUTSIDE)
            middle = begin + right
            begin = np.concatenate([begin + 1, middle])
            end = np.concatenate([middle, end])
            tree = np.concatenate([tree, tree])
        # Long chains have few splits on a level, so they are processed one by one.
        for subtree_begin, subtree_end, t in zip(
            begin.tolist(), end.tolist(), tree.tolist(), strict=True
        ):
            depth[t] = max(depth[t], level + self._depth(subtree_begin, subtree_end))
        return depth

    def _depth(self, begin, end):
        """Depth of the subtree with the splits from ``begin`` to ``end``."""
        right = self.right[begin:end].tolist()
        first_split = begin
        deepest = 0
        waiting = [(begin, end, 0)]
        while waiting:
            begin, end, level = waiting.pop()
            while begin < end:
                level += 1
                middle = begin + right[begin - first_split]
                if not begin < middle <= end:
                    raise ValueError(OUTSIDE)
                if middle < end:
                    waiting.append((middle, end, level))
                begin += 1
                end = middle
            deepest = max(deepest, level)
        return deepest

    def canonical(self):
        """Check the model and return it in the canonical form in which it is saved.

        Arrays are contiguous and have the documented types, without negative zeros. ``base`` is None if no tree has a
        base class.

        Raises
        ------
        ValueError
            If shapes disagree, the splits are not trees in preorder, a feature or a class is out of range, or a number
            is not finite in float32.
        """
        bias = arrays.per_class("bias", self.bias)
        k = len(bias)
        feature, nan_left = arrays.feature_columns(self.feature, self.nan_left, self.n_features)
        offset = rising("offset", self.offset, len(feature))
        s = len(feature)
        t = len(offset) - 1
        threshold = finite("threshold", self.threshold, (s,))
        right = integers("right", self.right, s)
        leaf = checked(self.leaf, (s + t, k) if self.cls is None else (s + t,), bias)
        code, cls, base = self._canonical_classes(t, k)
        subset, subset_start, subset_bits, categories = self._canonical_sets(s)
        result = Trees(
            offset,
            feature,
            threshold=threshold,
            nan_left=nan_left,
            right=right,
            leaf=leaf,
            cls=cls,
            base=base,
            rounds=rising("rounds", self.rounds, t),
            bias=bias,
            n_features=int(self.n_features),
            code=code,
            decoder=self.decoder,
            cover=arrays.covers(self.cover, s + t),
            subset=subset,
            subset_start=subset_start,
            subset_bits=subset_bits,
            categories=categories,
        )
        result.depths()  # refuses arrays that are not trees
        return result

    def _canonical_sets(self, s):
        """Check the sets of the s splits, and the categories."""
        if self.subset is None:
            return None, None, None, None
        subset = integers("subset", self.subset, s)
        numbers = subset[subset > 0]
        are_in_order = np.array_equal(numbers, np.arange(1, len(numbers) + 1))
        if not are_in_order or len(self.subset_start) != len(numbers) + 1:
            raise ValueError("subset must number the sets from 1, in the order of their splits")
        bits = np.ascontiguousarray(self.subset_bits, dtype=np.uint8)
        return subset, rising("subset_start", self.subset_start, len(bits)), bits, self.categories

    def _canonical_classes(self, t, k):
        """Check the code, classes and base classes of the t trees."""
        cls = self.cls
        base = self.base
        code = self.code
        has_vectors = cls is None
        if code is not None:
            code = finite("code", code, (len(code), k))
            if self.decoder not in DECODERS:
                raise ValueError(
                    f"decoder must be 'linear', 'hamming' or 'exp', not {self.decoder!r}"
                )
            if self.decoder != "linear" and len(code) > MOST_DECODED:
                raise ValueError(
                    f"a code with decoder={self.decoder!r} has at most {MOST_DECODED} columns, "
                    f"not {len(code)}"
                )
            if has_vectors or not len(code):
                raise ValueError("code needs at least one row, and trees with cls")
        n_columns = k if code is None else len(code)
        if not has_vectors:
            cls = integers("cls", cls, t)
            if t and (cls.min() < 0 or cls.max() >= n_columns):
                raise ValueError(f"cls must be from 0 to {n_columns - 1}")
        if base is not None:
            base = integers("base", base, t)
            if t and (base.min() < -1 or base.max() >= k):
                raise ValueError(f"base must be from 0 to {k - 1}, or -1 for none")
            if (base < 0).all():
                base = None
            elif has_vectors:
                raise ValueError("base must be None or -1 if leaves have one value per class")
            elif (base == cls).any():
                raise ValueError("base must not be the tree's own class")
            elif code is not None:
                raise ValueError("base must be None or -1 if there is a code")
        return code, cls, base

    def merge(self):
        """Convert to a table of intervals per feature (see `Intervals`), if no tree has two splits."""
        if self.subset is not None:
            raise ValueError(
                "an interval table cannot store categories; save the model with layout='list'"
            )
        if (np.diff(self.offset) > 1).any():
            raise ValueError(
                "an interval table is for stumps; save trees with more than one split with "
                "layout='list' or 'packed'"
            )
        if self.decoder != "linear":
            raise ValueError(
                f"an interval table is for summed scores; a code with decoder={self.decoder!r} "
                "needs layout='list'"
            )
        stumps = self.as_stumps()
        return merged(stumps if self.code is not None else stumps.canonical())

    def as_stumps(self):
        """Convert trees with at most one split to stumps.

        A tree without a split gets an arbitrary split, with the same value on both sides.
        """
        n = len(self)
        n_splits = np.diff(self.offset)
        has_split = n_splits > 0
        feature = np.zeros(n, dtype=np.int64)
        feature[has_split] = self.feature
        threshold = np.zeros(n, dtype=np.float32)
        threshold[has_split] = self.threshold
        nan_left = np.zeros(n, dtype=bool)
        nan_left[has_split] = self.nan_left
        first_leaf = np.arange(n) + self.offset[:-1]
        return Stumps(
            feature,
            threshold,
            nan_left,
            right=self._class_values(first_leaf + n_splits),
            left=self._class_values(first_leaf),
            bias=self.bias,
            n_features=self.n_features,
        )

    def _class_values(self, leaf_index):
        """What these leaves, one of each tree, add to the scores of all classes: (T, K)."""
        leaf = self.leaf[leaf_index]
        if self.cls is None:
            return leaf
        if self.code is not None:
            # Products of leaves and codes are exact in float64.
            return leaf.astype(np.float64)[:, None] * self.code[self.cls]
        trees = np.arange(len(self))
        values = np.zeros((len(self), self.n_classes), dtype=np.float32)
        values[trees, self.cls] = leaf
        if self.base is not None:
            with_base = trees[self.base >= 0]
            values[with_base, self.base[with_base]] = -leaf[with_base]
        return values

    def half(self):
        """Convert the leaves to float16."""
        return replace(self, leaf=halved(self.leaf))

    def dense(self):
        """Give every leaf a value for each class."""
        return replace(self, leaf=np.asarray(self.leaf))

    def sections(self):
        sections = [
            ("TSIZ", narrow(np.diff(self.offset))),
            ("FEAT", narrow(self.feature, self.nan_left)),
            ("THRS", self.threshold),
            ("RGHT", narrow(self.right)),
            *leaf_sections(self.leaf),
        ]
        if self.cls is not None:
            sections.append(("TCLS", narrow(self.cls)))
        if self.code is not None:
            sections.append(("CODE", self.code))
        if self.base is not None:
            sections.append(("TBAS", narrow(np.where(self.base < 0, self.n_classes, self.base))))
        sections.append(("RNDS", narrow(np.diff(self.rounds))))
        if self.subset is not None:
            sections += [
                ("CSET", narrow(self.subset)),
                ("COFF", narrow(self.subset_start)),
                ("CBIT", self.subset_bits),
            ]
            sections += self.categories.sections()
        return sections if self.cover is None else [*sections, ("covr", narrow(self.cover))]

    @classmethod
    def from_sections(cls, sections, header):
        def as_type(tag, dtype):
            """Section as an array of this type, without a copy if possible; None if it is not in the file."""
            return sections[tag].astype(dtype, copy=False) if tag in sections else None

        feature, nan_left = arrays.without_flags(sections["FEAT"])
        k = header.n_classes
        leaf = as_type("LEAF", np.float32)
        if "LOFF" in sections:
            leaf = LeafEntries(
                as_type("LOFF", np.int64),
                as_type("LCLS", np.uint16),
                leaf,
                n_classes=k,
                shared=as_type("LALL", np.float32),
            )
        elif "TCLS" not in sections:
            leaf = leaf.reshape(-1, k)
        base = None
        if "TBAS" in sections:
            base = sections["TBAS"].astype(np.int64)
            base[base == k] = -1
        return cls(
            running_sums(sections["TSIZ"]),
            feature,
            threshold=sections["THRS"],
            nan_left=nan_left,
            right=as_type("RGHT", np.int64),
            leaf=leaf,
            cls=as_type("TCLS", np.int64),
            base=base,
            rounds=running_sums(sections["RNDS"]),
            bias=sections["BIAS"],
            n_features=header.n_features,
            code=sections["CODE"].reshape(-1, k) if "CODE" in sections else None,
            decoder=header.decoder,
            cover=arrays.covers(sections.get("covr"), len(leaf)),
            subset=as_type("CSET", np.int64),
            subset_start=as_type("COFF", np.int64),
            subset_bits=sections.get("CBIT"),
            categories=Categories.from_sections(sections),
        )

    @classmethod
    def leaves_of(cls, sections):
        return str(sections["LEAF"].dtype.newbyteorder("="))

    def used_features(self):
        """Features, and the number of splits on each, because a file does not store gains."""
        feature, splits = np.unique(self.feature, return_counts=True)
        return feature, splits.astype(np.float64)

    def summary(self, staged):
        trees = counted(len(self), "tree")
        return f"{trees} in {counted(self.n_rounds, 'round')}" if staged else trees

    def describe(self, leaves):
        depths = self.depths()
        entries = {"entries": len(self.leaf.cls)} if isinstance(self.leaf, LeafEntries) else {}
        return {
            "trees": {
                "splits": len(self.feature),
                "leaves": len(self.leaf),
                "depth": int(depths.max(initial=0)),
                "mean_depth": float(depths.mean()) if len(depths) else 0.0,
                "leaf_values": self.n_classes if self.cls is None else 1,
                **entries,
                "leaf_type": leaves,
                "base_classes": self.base is not None,
            }
        }

    @staticmethod
    def lines(facts):
        trees = facts["trees"]
        n = facts["n_learners"]
        if facts["totally_corrective"]:
            rounds = ", totally corrective"
        else:
            rounds = f" in {counted(facts['n_rounds'], 'round')}"
        yield "trees", f"{n}{rounds}" + (f", {facts['bytes'] / n:.4g} bytes each" if n else "")
        leaves = f"{trees['leaves']}" + (f", {trees['leaves'] / n:.4g} a tree" if n else "")
        entries = f", {trees['entries']} of them kept" if "entries" in trees else ""
        yield "leaves", f"{leaves}; {trees['leaf_values']} x {trees['leaf_type']}{entries}"
        yield "depth", f"at most {trees['depth']}, mean {trees['mean_depth']:.4g}"

    @property
    def width(self):
        """Number of sums per row: one per column if scores are decoded from the columns, else one per class."""
        return self.n_classes if self.decoder == "linear" else len(self.code)

    def column_scores(self, X):
        if self.code is None:
            return self.scores(X)
        return self.columns().scores(X)[:, : len(self.code)]

    def add_scores_to(self, sums, X):
        if len(self):
            sums += self.scores(X) if self.decoder == "linear" else self.column_scores(X)

    def decode(self, sums):
        return sums if self.decoder == "linear" else self._rows().decode(sums)
