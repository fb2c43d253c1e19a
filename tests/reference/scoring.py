"""Slow twin of the scorer."""

import math
from dataclasses import replace

import numpy as np

from pymcboost._kernels import score
from pymcboost.model.builders import EnsembleBuilder, TreesBuilder
from pymcboost.model.categories import Categories
from pymcboost.model.entries import LeafEntries, rounded
from pymcboost.model.kernel import KernelMachine
from pymcboost.model.linear import LinearMachine
from pymcboost.model.model import Model
from pymcboost.model.scale import Scale
from pymcboost.model.trees import Trees


def raw_scores(stumps, X):
    """Scores (m, K): the bias, then one stump or tree after the other, in float64."""
    X = np.asarray(X, dtype=np.float32)
    if isinstance(stumps, Trees):
        return tree_scores(stumps, X)
    if isinstance(stumps, (LinearMachine, KernelMachine)):
        return machine_scores(stumps, X)
    F = np.tile(stumps.bias.astype(np.float64), (len(X), 1))
    left = -stumps.right if stumps.left is None else stumps.left
    for j in range(len(stumps)):
        x = X[:, stumps.feature[j]]
        goes_left = (x <= stumps.threshold[j]) | (np.isnan(x) & stumps.nan_left[j])
        F += np.where(goes_left[:, None], left[j], stumps.right[j]).astype(np.float64)
    return F


def random_stumps(n_stumps, n_features, n_classes, two_sided=False, seed=0, few_thresholds=False):
    """An ensemble of random stumps."""
    rng = np.random.default_rng(seed)
    builder = EnsembleBuilder(n_classes, n_features)
    builder.bias[:] = rng.normal(size=n_classes)
    for _ in range(n_stumps):
        threshold = rng.integers(-2, 3) / 2 if few_thresholds else rng.normal()
        left = rng.normal(size=n_classes) if two_sided else None
        builder.add_stump(
            rng.integers(n_features),
            threshold,
            rng.random() < 0.5,
            right=rng.normal(size=n_classes),
            left=left,
        )
    return builder.freeze()


def leaf_number(tree, row):
    """Number of the leaf of one tree, counted from the left, that a row falls into: the definition, step by step."""
    feature, threshold, nan_left, right = tree[:4]
    begin = 0
    end = len(feature)
    leaf = 0
    while begin < end:
        x = row[feature[begin]]
        r = int(right[begin])
        if x <= threshold[begin] or (np.isnan(x) and nan_left[begin]):
            begin, end = begin + 1, begin + r
        else:
            begin, leaf = begin + r, leaf + r
    return leaf


def tree_scores(trees, X):
    """Scores (m, K) of trees: the bias, then one tree after the other, in float64; or what a decoder makes of them."""
    if trees.decoder != "linear":
        return decoded(tree_scores(trees.columns(), X)[:, : len(trees.code)], trees)
    F = np.tile(trees.bias.astype(np.float64), (len(X), 1))
    for tree in trees.each():
        leaf, cls, base = tree[4:]
        for i, row in enumerate(X):
            value = leaf[leaf_number(tree, row)].astype(np.float64)
            if cls < 0:
                F[i] += value
            elif trees.code is not None:
                F[i] += value * trees.code[cls].astype(np.float64)
            else:
                F[i, cls] += value
                if base >= 0:
                    F[i, base] -= value
    return F


def decoded(columns, trees):
    """Scores (m, K) of the classes from those of the columns, with the exponential function and logarithm of mcb.h."""
    F = np.empty((len(columns), trees.n_classes))
    for i, f in enumerate(columns):
        for k in range(trees.n_classes):
            margin = trees.code[:, k].astype(np.float64) * f
            if trees.decoder == "hamming":
                loss = float(np.sum(margin < 0) + 0.5 * np.sum(margin == 0))
            else:
                total = 0.0
                top = max(-margin)
                for value in -margin:
                    total += score.exp(value - top)
                loss = top + score.log(total)
            F[i, k] = float(trees.bias[k]) - loss
    return F


def eight_sums(terms):
    """Sums (m,) of terms (m, d): number j goes to sum j mod 8, then the halves are added to each other."""
    sums = np.zeros((len(terms), 8))
    for j in range(terms.shape[1]):
        sums[:, j % 8] += terms[:, j]
    for half in (4, 2, 1):
        sums = sums[:, :half] + sums[:, half:]
    return sums[:, 0]


def shortened(value):
    """A number rounded to 29 bits, halves away from 0."""
    mantissa, exponent = math.frexp(value)
    if abs(value) < 2.0**-700:
        return 0.0
    return math.copysign(math.ldexp(math.floor(abs(mantissa) * 2**29 + 0.5), exponent - 29), value)


def kernel_value(machine, value):
    """Kernel of two points, from their product or squared distance."""
    if machine.kernel == "rbf":
        return shortened(score.exp(-(float(np.float32(machine.gamma)) * value)))
    if machine.kernel == "perceptron":
        return shortened(-math.sqrt(value))
    if machine.kernel == "poly":
        base = float(np.float32(machine.gamma)) * shortened(value) + float(
            np.float32(machine.coef0)
        )
        power = 1.0
        left = machine.degree
        while left:
            if left % 2:
                power *= base
            base = base * base
            left = left // 2
        return shortened(power)
    return shortened(value)


def machine_scores(machine, X):
    """Scores (m, K) of a linear or kernel machine in its canonical form."""
    machine = machine.canonical()
    F = np.tile(machine.intercept.astype(np.float64), (len(X), 1))
    if isinstance(machine, LinearMachine):
        for k in range(machine.n_classes):
            F[:, k] += eight_sums(X.astype(np.float64) * machine.coef[k].astype(np.float64))
        return F
    if machine.scale is not None:
        scale = machine.scale
        X = (
            (X.astype(np.float64) - scale.offset.astype(np.float64))
            * scale.factor.astype(np.float64)
        ).astype("f")
    for vector, coef in zip(machine.support, machine.coef, strict=True):
        if machine.kernel in ("rbf", "perceptron"):
            terms = (X - vector).astype(np.float64) ** 2
        else:
            terms = X.astype(np.float64) * vector.astype(np.float64)
        for i, value in enumerate(eight_sums(terms)):
            F[i] += coef.astype(np.float64) * kernel_value(machine, value)
    return F


def random_linear(n_features, n_classes, seed=0):
    """A random linear machine; some coefficients are 0."""
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=(n_classes, n_features)) * (rng.random((n_classes, n_features)) < 0.8)
    return LinearMachine(coef.astype(np.float32), rng.normal(size=n_classes).astype(np.float32))


def random_kernel(n_support, n_features, n_classes, kernel="rbf", scaled=False, seed=0):
    """A random kernel machine with every parameter that its kernel has."""
    rng = np.random.default_rng(seed)
    scale = None
    if scaled:
        scale = Scale.from_range(rng.uniform(-3, 0, n_features), rng.uniform(1, 4, n_features))
    return KernelMachine(
        kernel,
        0.7 / n_features,
        0.25,
        degree=5,
        support=rng.normal(size=(n_support, n_features)).astype(np.float32),
        coef=rng.normal(size=(n_support, n_classes)).astype(np.float32),
        intercept=rng.normal(size=n_classes).astype(np.float32),
        scale=scale,
    )


def finite_rows(n_rows, n_features, seed=1):
    """Rows of float32 without missing or infinite values; a few are 0 or tiny."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    for value in (0.0, -0.0, 1e-45, 1e-20):
        X[rng.random(X.shape) < 0.05] = value
    return X


def random_right(n_splits, rng, skew=None):
    """``right`` of a random tree; ``skew`` 0 or 1 makes it a chain to the right or to the left."""
    right = np.zeros(n_splits, dtype=np.int64)
    parts = [(0, n_splits)]
    while parts:
        begin, end = parts.pop()
        if begin == end:
            continue
        n = end - begin
        right[begin] = 1 + (rng.integers(n) if skew is None else skew * (n - 1))
        parts += [(begin + 1, begin + right[begin]), (begin + right[begin], end)]
    return right


def random_trees(
    n_rounds, n_features, n_classes, mode="scalar", seed=0, few_thresholds=False, splits=(0, 12)
):
    """Random trees: ``mode`` is "scalar", "base", "vector", "code", or the decoder of a code, "hamming" or "exp".

    Some rounds have no tree, some trees no split.
    """
    rng = np.random.default_rng(seed)
    coded = mode in ("code", "hamming", "exp")
    n_columns = 2 * n_classes - 3 if coded else n_classes
    code = np.random.default_rng(n_columns).normal(size=(n_columns, n_classes)).round(1)
    decoder = mode if mode in ("hamming", "exp") else "linear"
    builder = TreesBuilder(
        n_classes, n_features, mode == "vector", code=code if coded else None, decoder=decoder
    )
    builder.bias[:] = rng.normal(size=n_classes)
    for r in range(n_rounds):
        for _ in range(0 if r == 3 else rng.integers(1, 4)):
            s = int(rng.integers(splits[0], splits[1] + 1))
            right = random_right(s, rng, skew=[None, None, 0, 1][rng.integers(4)])
            threshold = rng.integers(-2, 3, size=s) / 2 if few_thresholds else rng.normal(size=s)
            cls = int(rng.integers(n_columns))
            base = int((cls + rng.integers(1, n_classes)) % n_classes) if rng.random() < 0.7 else -1
            builder.add_tree(
                rng.integers(n_features, size=s),
                threshold,
                rng.random(s) < 0.5,
                right=right,
                leaf=rng.normal(size=(s + 1, n_classes) if mode == "vector" else s + 1),
                cls=-1 if mode == "vector" else cls,
                base=base if mode == "base" else -1,
            )
        builder.end_round()
    return builder.freeze()


def random_entries(n_rounds, n_features, n_classes, share=0.3, shared=False, **options):
    """Random trees whose leaves keep a share of their numbers; ``shared``: of the others the classes share one."""
    trees = random_trees(n_rounds, n_features, n_classes, mode="vector", **options)
    rng = np.random.default_rng(n_classes)
    keep = rng.random(trees.leaf.shape) < share
    if not shared:
        return replace(trees, leaf=LeafEntries.of(np.where(keep, trees.leaf, 0)))
    leaf = rounded(trees.leaf)
    others = rounded(rng.normal(size=len(trees.leaf)))
    leaf = LeafEntries.of(np.where(keep, leaf, others[:, None]), others)
    return replace(trees, leaf=leaf, bias=rounded(trees.bias))


def random_sets(n_rounds, n_features, n_classes, seed=0, vector=True):
    """Random trees over features of which number 1 has 300 categories and number 3 has 11 with names.

    With ``vector`` False they are of one class each, most of them with a base class.
    """
    rng = np.random.default_rng(seed)
    names = ["", *sorted(f"level {j} \u00e9" for j in range(10))]
    categories = Categories(np.array([1, 3]), np.array([300, 11]), (None, names))
    builder = TreesBuilder(n_classes, n_features, vector, categories=categories)
    for t in range(n_rounds):
        s = int(rng.integers(0, 40))
        feature = rng.integers(n_features, size=s)
        nan_left = rng.random(s) < 0.5
        threshold = rng.normal(size=s)
        sets = {}
        for j in np.flatnonzero(np.isin(feature, [1, 3])).tolist():
            n = 300 if feature[j] == 1 else 11
            threshold[j] = 0
            sets[j] = categories.packed(
                feature[j], np.flatnonzero(rng.random(n) < 0.4), nan_left[j]
            )
        leaf = rng.normal(size=(s + 1, n_classes) if vector else s + 1)
        of = (-1, -1) if vector else (t % n_classes, -1 if t % 3 == 0 else (t + 1) % n_classes)
        builder.add_tree(feature, threshold, nan_left, random_right(s, rng), leaf, *of, sets=sets)
        builder.end_round()
    return builder.freeze()


def exits_of_sets(n_classes, n_features=9):
    """A model of such trees, which weigh less and less, with every early exit; some of its rows leave early."""
    trees = random_sets(40, n_features, n_classes)
    weight = np.repeat(0.8 ** np.arange(40), np.diff(trees.offset) + 1)[:, None]
    trees = replace(trees, leaf=(trees.leaf * weight).astype(np.float32))
    model = Model.from_ensemble(trees, range(n_classes), link="softmax")
    X = with_codes(random_rows(400, n_features, seed=7), seed=8)
    model = model.with_early_exit("certified").with_early_exit("calibrated", X, rate=0.1)
    return model.with_early_exit("rejection", X, rate=0.1, background=0)


def with_codes(X, seed=2):
    """Rows for `random_sets`: codes, and values that are none, in the categorical features."""
    rng = np.random.default_rng(seed)
    X = np.array(X)
    for j, n in ((1, 300), (3, 11)):
        codes = rng.integers(0, n + 12, len(X)).astype(np.float32)
        X[:, j] = np.where(rng.random(len(X)) < 0.8, codes, X[:, j])
    return X


def random_rows(n_rows, n_features, seed=1):
    """Rows of float32 with missing and infinite values, and ties with the thresholds of ``few_thresholds``."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    X[rng.random(X.shape) < 0.2] = 0.5
    for value in (np.nan, np.inf, -np.inf, -0.0):
        X[rng.random(X.shape) < 0.05] = value
    return X
