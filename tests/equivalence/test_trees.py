"""Trees and their boosting rounds against their twins, and the identities that the papers promise."""

import itertools
import sys
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
import scipy.special
from contract.variants import as_published
from reference import trees as twin
from reference.modelreader import File
from sklearn.datasets import load_digits

from pymcboost import (
    ABCLogitBoostClassifier,
    ABCMartClassifier,
    LogitBoostClassifier,
    MartClassifier,
    VectorTreeBoostClassifier,
)
from pymcboost._kernels import class_loss, pairwise_weights
from pymcboost._kernels import classwise_trees as kernel
from pymcboost._kernels.exact import of_parts, units_in_parts
from pymcboost.data.tree_data import Grown, Quantiser, TreeData
from pymcboost.data.tree_layouts import SKIPPING_ROWS
from pymcboost.learners.class_trees import LARGEST_STEP, ClassTrees
from pymcboost.learners.levels import least_levels
from pymcboost.training import memory

PLAIN = LogitBoostClassifier, MartClassifier = as_published(LogitBoostClassifier, MartClassifier)
BASED = ABCLogitBoostClassifier, ABCMartClassifier = as_published(
    ABCLogitBoostClassifier, ABCMartClassifier
)
# Arithmetic of small data, of large data, and of large data with a bound on the weight of leaves.
ARITHMETIC = [(np.float64, 2), (np.float32, 1), (np.float32, 2)]
KINDS = {
    "few": lambda rng, m: rng.integers(0, 3, m),
    "ties": lambda rng, m: rng.integers(0, 40, m),
    "continuous": lambda rng, m: rng.normal(size=m),
    "skewed": lambda rng, m: np.where(rng.random(m) < 0.85, 7.0, rng.integers(0, 30, m)),
    "constant": lambda rng, m: np.full(m, 3.5),
    "missing": lambda rng, m: np.where(rng.random(m) < 0.3, np.nan, rng.integers(0, 20, m)),
    "all missing": lambda rng, m: np.full(m, np.nan),
    "mostly missing": lambda rng, m: np.where(rng.random(m) < 0.9, np.nan, rng.normal(size=m)),
    "one value or missing": lambda rng, m: np.where(rng.random(m) < 0.2, np.nan, 1.0),
    "huge": lambda rng, m: rng.choice([-3.4e38, -1.0, 0.0, 3.4e38], m),
    "signed zero": lambda rng, m: rng.choice([-0.0, 0.0, 1e-45, -1e-45], m),
}


def mixture(m, rng, kinds=KINDS):
    """A column of every kind, and the third once more."""
    X = [np.asarray(KINDS[kind](rng, m), dtype=float) for kind in kinds]
    return np.column_stack([*X, X[2 % len(X)]])


def labels(m, K, rng):
    """Every class at least once, the first the most frequent."""
    others = np.minimum(rng.integers(0, K, m - K), rng.integers(0, K, m - K))
    return rng.permutation(np.concatenate([np.arange(K), others]))


COUNT_BITS = 24


def dense(X):
    return X.toarray() if scipy.sparse.issparse(X) else X


def remainders(data, rng, spread=1.5):
    """What is left to learn, S (K, m), of random scores that are nearer to the truth than not."""
    F = rng.normal(size=(data.n_classes, data.n_rows)) * spread
    F[data.y, np.arange(data.n_rows)] += 1
    return twin.remaining(scipy.special.softmax(F, axis=0), data.y)


def all_pairs(K):
    return [(k, -1) for k in range(K)] + list(itertools.permutations(range(K), 2))


def scales(data, S, jobs, counts, cell_words):
    """Units as large as the integers allow."""
    m = data.n_rows
    limit_g, limit_h, limit_n = (
        (2.0**31 - 2 * m - 4096,) * 3
        if cell_words == 1
        else (2.0**46, 2.0 ** (62 - COUNT_BITS), 2.0**COUNT_BITS - 2 * m - 4096)
    )
    result = []
    for k, b in jobs:
        g, h = (a.astype(float) for a in twin.gradients(S, data.y, k, b=b))
        n = limit_n / data.weight.sum()
        sum_h = (data.weight * h).sum()
        second = limit_h / max(sum_h, 1e-300)
        result.append((limit_g / (data.weight * abs(g)).sum(), n if counts else second, n))
    return np.array(result)


def grow(
    data,
    S,
    jobs,
    *,
    cell_words,
    scale,
    counts=False,
    max_leaves=12,
    max_depth=0,
    least=1,
    pool=True,
    n_threads=1,
    sample=(),
    active=(),
    shrinkage=1.0,
    share=1.0,
    key=0,
    level_cost=None,
    **bounds,
):
    """Trees of the kernel, as a list of dictionaries."""
    bounds |= {"count_bits": COUNT_BITS if cell_words == 2 else 0, "weight": data.whole_weight}
    grower = kernel.Grower(
        data.tiles, max_leaves, max_depth, least, cell_words, False, pool, n_threads, **bounds
    )
    jobs = np.array(jobs, dtype=np.int32).reshape(-1, 2)
    out = Grown.empty(len(jobs), max_leaves, data.n_rows, data.set_words)
    out.leaf[:] = np.iinfo(out.leaf.dtype).max
    grower.grow_softmax(
        S,
        jobs,
        data.y,
        data.class_start,
        data.weight,
        counts,
        np.asarray(scale, dtype=float),
        units_in_parts(2.1 * data.weight.max(), data.n_rows),
        np.array(sample, dtype=np.int32) if len(sample) else None,
        np.array(active, dtype=np.uint8),
        share,
        key,
        shrinkage,
        LARGEST_STEP,
        out,
        level_cost=None if level_cost is None else np.full(len(jobs), level_cost),
    )
    result = []
    for j in range(len(jobs)):
        s = out.n_splits[j]
        feature = out.feature[j, :s]
        result.append(
            {
                "column": data.column[feature].tolist(),
                "threshold": data.threshold_of(feature, out.pos[j, :s]).tolist(),
                "nan_left": out.nan_left[j, :s].astype(bool).tolist(),
                "right": out.right[j, :s].tolist(),
                "gain": out.gain[j, :s].copy(),
                "value": out.value[j, : s + 1].copy(),
                "leaf": out.leaf[j].astype(int),
                "subsets": {
                    at: tuple(its.tolist()) for at, its in out.codes(np.array([j]), data).items()
                },
            }
        )
    return result


def identical(one, two):
    """Whether two lists of trees agree to the last bit."""
    return len(one) == len(two) and all(
        np.array_equal(a[name], b[name]) for a, b in zip(one, two, strict=True) for name in a
    )


def same_tree(found, tree):
    """Structure of a tree of the kernel against the twin's."""
    for name in ("column", "nan_left", "right"):
        assert found[name] == getattr(tree, name), name
    assert found.get("subsets", {}) == tree.subsets
    np.testing.assert_array_equal(np.float32(found["threshold"]), np.float32(tree.threshold))


def check_against_twin(
    data,
    X,
    S,
    jobs,
    *,
    cell_words,
    counts=False,
    max_leaves=12,
    max_depth=0,
    least=1,
    sample=(),
    active=(),
    modes=((True, 1),),
    share=1.0,
    key=0,
    l2=0.0,
    min_hessian=0.0,
    min_gain=0.0,
    least_levels=None,
    level_cost=0.0,
):
    """The kernel's trees equal the twin's split by split, row by row, whatever the pool and the threads."""
    by_column = {int(data.column[f]): least for f, least in (least_levels or {}).items()}
    view = twin.View(data, X, by_column)
    scale = scales(data, S, jobs, counts=counts, cell_words=cell_words)
    options = {
        "cell_words": cell_words,
        "scale": scale,
        "counts": counts,
        "max_leaves": max_leaves,
        "max_depth": max_depth,
        "least": least,
        "sample": sample,
        "active": active,
        "shrinkage": 0.3,
        "share": share,
        "key": key,
        "l2": l2,
        "min_hessian": min_hessian,
        "min_gain": min_gain,
        "least_levels": least_levels,
        "level_cost": level_cost,
    }
    grown = [
        grow(data, S, jobs, pool=pool, n_threads=n_threads, **options) for pool, n_threads in modes
    ]
    columns = (
        {int(c) for c, on in zip(data.column, active, strict=True) if on} if len(active) else None
    )
    take = max(1, round(share * len(columns or view.cuts))) if share < 1 else 0
    splits = 0
    for j, (k, b) in enumerate(jobs):
        unit = scale[j, 1] / scale[j, 0] ** 2
        view.level_cost = level_cost / unit
        g, h = twin.gradients(S, data.y, k, b=b)
        of_g, of_h, of_n = scale[j]
        ints = twin.rounded(
            g, h, data.weight, counts=counts, scale=(of_g, of_h, of_n), cell_words=cell_words
        )
        tree = twin.grow(
            view,
            *ints,
            least=least,
            max_leaves=max_leaves,
            max_depth=max_depth,
            columns=columns,
            real=np.float32 if cell_words == 1 else np.float64,
            rows=sample if len(sample) else None,
            l2=0.0 if counts else l2 * scale[j, 1],
            least_h=np.ceil(min_hessian * of_h * (1 - 1e-9)),
            min_gain=min_gain / unit,
            take=take,
            key=twin.job_key(key, k, b, n_classes=data.n_classes),
        )
        value = twin.leaf_values(tree, g, h, weight=data.weight, shrinkage=0.3, l2=l2)
        leaf = tree.leaf_of(view, np.arange(data.n_rows))
        for trees in grown:
            found = trees[j]
            same_tree(found, tree)
            np.testing.assert_array_equal(found["leaf"], leaf)
            # Sums that cancel are as good as the terms. With one plane, g and h have 31 bits between all rows, and h
            # beside counts of 31 bits.
            rtol, atol = (1e-6, 1e-9) if cell_words == 2 and COUNT_BITS < 31 else (2e-4, 1e-6)
            np.testing.assert_allclose(
                found["value"], value, rtol=rtol, atol=atol * max(1, abs(value).max())
            )
            np.testing.assert_allclose(found["gain"], np.array(tree.gain) * unit, rtol=1e-12)
        splits += len(tree.column)
    return splits


# -- trees against the twin -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("real", "cell_words"), ARITHMETIC)
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize(("m", "K"), [(40, 2), (300, 3), (700, 5)])
@pytest.mark.part(5)
def test_mixed_columns(real, cell_words, counts, m, K):
    rng = np.random.default_rng(m)
    X = mixture(m, rng)
    data = TreeData(X, labels(m, K, rng), K, sample_weight=np.ones(m))
    if data.columns.code_bytes == 2 and cell_words == 1:
        data = TreeData(np.round(X, 1), labels(m, K, rng), K, sample_weight=np.ones(m))
        X = np.round(X, 1)
    S = remainders(data, rng).astype(real)
    jobs = all_pairs(K)[:: max(1, K // 2)]
    assert check_against_twin(
        data, X, S, jobs=jobs, cell_words=cell_words, counts=counts, modes=[(True, 1), (False, 1)]
    ) > 5 * len(jobs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("real", "cell_words"), ARITHMETIC)
@pytest.mark.part(3)
def test_each_kind_of_column(kind, real, cell_words):
    rng = np.random.default_rng(3)
    for m in (2, 17, 600):
        X = mixture(m, rng, [kind])
        X = np.round(X, 1) if kind == "continuous" else X
        data = TreeData(X, labels(m, 2, rng), 2, sample_weight=np.ones(m))
        S = remainders(data, rng).astype(real)
        splits = check_against_twin(
            data, X, S, jobs=[(1, -1), (0, 1)], cell_words=cell_words, modes=[(True, 1), (False, 1)]
        )
        assert (splits == 0) == (kind in ("constant", "all missing")) or m < 600


@pytest.mark.parametrize(("real", "cell_words"), ARITHMETIC)
def test_exact_ties_go_to_the_first(real, cell_words):
    """Every column twice, or mirrored: scores are equal to the last bit, in lanes, bundles and sparse cells."""
    rng = np.random.default_rng(0)
    for m in (60, 900):
        one = rng.integers(0, 4, (m, 3)).astype(float)
        rare = np.where(rng.random((m, 1)) < 0.2, rng.integers(1, 4, (m, 1)), 0.0)
        gone = np.where(rng.random((m, 1)) < 0.2, np.nan, one[:, :1])
        X = np.hstack(
            [-rare, one[:, ::-1], rare, gone, one, -one, -gone, 2 * rare, rare * 0, gone, rare]
        )
        for made in (X, scipy.sparse.csr_matrix(X)):
            data = TreeData(made, labels(m, 3, rng), 3, sample_weight=np.ones(m))
            S = twin.remaining(np.full((3, m), 1 / 3), data.y).astype(real)
            check_against_twin(
                data,
                X,
                S,
                jobs=[(0, -1), (2, 1)],
                cell_words=cell_words,
                modes=[(True, 1), (False, 1)],
            )


@pytest.mark.parametrize(("real", "cell_words"), ARITHMETIC)
def test_missing_values_in_part_of_the_classes(real, cell_words):
    rng = np.random.default_rng(5)
    y = labels(800, 4, rng)
    X = mixture(800, rng, ["few", "ties", "skewed", "missing"])
    X[y == 1, 1] = np.nan
    X[y != 2, 2] = np.nan
    X[:, 3] = np.where(y == 3, np.nan, 5.0)
    data = TreeData(X, y, 4, sample_weight=np.ones(800))
    S = remainders(data, rng).astype(real)
    check_against_twin(
        data, X, S, jobs=all_pairs(4), cell_words=cell_words, modes=[(True, 1), (False, 1)]
    )
    scale = scales(data, S, [(3, -1)], counts=False, cell_words=cell_words)
    found = grow(data, S, [(3, -1)], cell_words=cell_words, scale=scale, max_leaves=2)[0]
    assert found["column"] == [3]
    assert found["threshold"] == [np.finfo(np.float32).max]


@pytest.mark.parametrize(("real", "cell_words"), ARITHMETIC)
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.part(2)
def test_weights(real, cell_words, counts):
    """Weights over twelve orders of magnitude, and zero weights, whose rows are not there at all."""
    rng = np.random.default_rng(6)
    X = np.round(mixture(500, rng), 1)
    weight = 10.0 ** rng.uniform(-6, 6, 500)
    weight[rng.random(500) < 0.3] = 0
    y = labels(500, 3, rng)
    data = TreeData(X, y, 3, sample_weight=weight)
    S = remainders(data, rng).astype(real)
    check_against_twin(
        data,
        X,
        S,
        jobs=all_pairs(3),
        cell_words=cell_words,
        counts=counts,
        modes=[(True, 1), (False, 1)],
    )
    kept = weight > 0
    other = TreeData(X[kept], y[kept], 3, sample_weight=weight[kept])
    scale = scales(data, S, all_pairs(3), counts=counts, cell_words=cell_words)
    a, b = (
        grow(d, S, all_pairs(3), cell_words=cell_words, counts=counts, scale=scale)
        for d in (data, other)
    )
    assert identical(a, b)


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("bits", [15, 27, 31])
def test_counts_of_other_bits(bits, counts, monkeypatch):
    """As they are with more than 8 million rows."""
    monkeypatch.setattr(sys.modules[__name__], "COUNT_BITS", bits)
    rng = np.random.default_rng(7)
    m = 600
    X = np.hstack([mixture(m, rng), np.eye(7)[rng.integers(0, 30, m) % 7]])
    for its in (
        X,
        scipy.sparse.csr_matrix(np.where(rng.random(X.shape) < 0.8, 0.0, np.round(X, 1))),
    ):
        data, modes = (
            TreeData(its, labels(m, 3, rng), 3, sample_weight=rng.uniform(0, 5, m)),
            [(True, 1), (False, 2)],
        )
        check_against_twin(
            data,
            its,
            remainders(data, rng),
            jobs=[(0, -1), (2, 1), (1, 2), (0, 1)],
            cell_words=2,
            counts=counts,
            modes=modes,
        )


@pytest.mark.parametrize(("real", "cell_words"), ARITHMETIC)
def test_bounds_on_leaves(real, cell_words):
    rng = np.random.default_rng(7)
    X = np.round(mixture(400, rng), 1)
    data = TreeData(X, labels(400, 3, rng), 3, sample_weight=rng.integers(1, 5, 400).astype(float))
    S = remainders(data, rng).astype(real)
    jobs = [(0, -1), (2, 1)]
    unit = scales(data, S, jobs, counts=True, cell_words=cell_words)[0, 2]
    sizes = []
    for least in (1.0, 3.0, 20.0, 150.0, 1e6):
        modes = [(True, 1), (False, 1)]
        check_against_twin(
            data,
            X,
            S,
            jobs=jobs,
            cell_words=cell_words,
            counts=True,
            least=int(least * unit),
            modes=modes,
        )
        found = grow(
            data,
            S,
            jobs,
            cell_words=cell_words,
            counts=True,
            scale=scales(data, S, jobs, counts=True, cell_words=cell_words),
            least=int(least * unit),
        )
        leaf = found[0]["leaf"]
        sizes.append(np.bincount(leaf, data.weight).min())
        assert sizes[-1] >= least - 0.01 or len(found[0]["column"]) == 0
    assert len(set(sizes)) > 2
    for max_depth, max_leaves in itertools.product((1, 2, 3, 500), (2, 3, 40)):
        check_against_twin(
            data, X, S, jobs=jobs, cell_words=cell_words, max_depth=max_depth, max_leaves=max_leaves
        )


def test_many_leaves():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(300, 2))
    data = TreeData(X, labels(300, 3, rng), 3, sample_weight=np.ones(300))
    S = remainders(data, rng)
    assert (
        check_against_twin(
            data, X, S, jobs=[(1, 2)], cell_words=2, max_leaves=1000, modes=[(True, 1), (False, 1)]
        )
        == 299
    )


@pytest.mark.parametrize(("real", "cell_words"), ARITHMETIC)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.part(2)
def test_samples_of_rows_and_features(real, cell_words, sparse):
    """Rows outside the sample go down the tree as new rows would."""
    rng = np.random.default_rng(9)
    m = 900
    X = np.round(mixture(m, rng), 1)
    X = np.hstack([X, np.eye(7)[rng.integers(0, 7, m)]])
    data = TreeData(
        scipy.sparse.csr_matrix(X) if sparse else X, labels(m, 3, rng), 3, sample_weight=np.ones(m)
    )
    S = remainders(data, rng).astype(real)
    d = len(data.column)
    for share, part in ((0.5, 1.0), (1.0, 0.4), (0.02, 0.5), (1e-9, 1.0), (0.999, 0.1)):
        sample = (
            np.sort(rng.choice(m, max(1, round(share * m)), replace=False)) if share < 1 else ()
        )
        active = np.zeros(d, dtype=np.uint8) if part < 1 else ()
        if part < 1:
            active[rng.choice(d, max(1, round(part * d)), replace=False)] = 1
        options = {"cell_words": cell_words, "sample": sample, "active": active}
        check_against_twin(
            data, X, S, jobs=[(1, -1), (2, 0)], **options, modes=[(True, 1), (False, 1)]
        )


@pytest.mark.parametrize(("real", "cell_words"), ARITHMETIC)
def test_sparse_input_equals_dense_input(real, cell_words):
    rng = np.random.default_rng(10)
    m = 700
    X = np.where(rng.random((m, 12)) < 0.8, 0.0, rng.integers(-3, 4, (m, 12)))
    X[:, 3] = 0
    X[rng.random(m) < 0.1, 5] = np.nan
    X[rng.random(m) < 0.9, 6] = np.nan  # the mode is missing, or zero once the values are gone
    X[:, 7] = 2.0
    X[:, 8] = rng.integers(1, 9, m)  # no zero at all
    X[:, 9] = -X[:, 8]
    y = labels(m, 3, rng)
    data = TreeData(X, y, 3, sample_weight=np.ones(m))
    S = remainders(data, rng).astype(real)
    pairs = all_pairs(3)
    scale = scales(data, S, pairs, counts=False, cell_words=cell_words)
    expected = grow(data, S, pairs, cell_words=cell_words, scale=scale)
    for make in (scipy.sparse.csr_matrix, scipy.sparse.csc_matrix, scipy.sparse.coo_array):
        other = TreeData(make(X), y, 3, sample_weight=np.ones(m))
        assert other.columns.row_ptr is not None
        assert identical(grow(other, S, pairs, cell_words=cell_words, scale=scale), expected)
    check_against_twin(
        other, X, S, jobs=pairs, cell_words=cell_words, modes=[(True, 1), (False, 1)]
    )


@pytest.mark.parametrize(("real", "cell_words"), ARITHMETIC)
@pytest.mark.parametrize("leaves", [2, 12, 40])
@pytest.mark.part(3)
def test_few_of_many_sparse_features(real, cell_words, leaves):
    """Where nodes draw few of them, no cells but theirs are made; with more leaves or draws the cells of all are."""
    rng = np.random.default_rng(11)
    m, d = 500, 160
    X = np.where(rng.random((m, d)) < 0.9, 0.0, rng.integers(-3, 4, (m, d)))
    X[rng.random((m, d)) < 0.02] = np.nan
    X[:, ::20] = rng.integers(1, 9, (m, d // 20))  # no zero at all
    X[rng.random(m) < 0.9, 1::20] = np.nan  # the mode is missing
    data = TreeData(
        scipy.sparse.csr_matrix(X), labels(m, 3, rng), 3, sample_weight=rng.integers(1, 4, m) / 2.0
    )
    S = remainders(data, rng).astype(real)
    active = (rng.random(len(data.column)) < 0.5).astype(np.uint8)
    sample = np.sort(rng.choice(m, 300, replace=False))
    for share in (1e-9, 0.15, 0.8):
        options = {"cell_words": cell_words, "max_leaves": leaves, "share": share, "key": 7}
        modes = [(True, 1), (False, 1), (True, 3)]
        check_against_twin(data, X, S, jobs=[(0, -1), (2, 1)], **options, modes=modes)
        check_against_twin(
            data, X, S, jobs=[(0, -1)], **options, modes=modes, active=active, sample=sample
        )


REGULARISED = [
    {"l2": 1e-3}, {"l2": 3.0}, {"l2": 1e12}, {"min_hessian": 1.5}, {"min_hessian": 1e30}, {"min_gain": 10.0},
    {"share": 0.4, "key": 5}, {"share": 1e-9, "key": 2**64 - 1}, {"share": 0.9},
    {"share": 1e-9, "min_gain": 10.0, "key": 3},
    {"share": 0.6, "l2": 0.5, "min_hessian": 0.4, "min_gain": 0.1, "key": 1 << 63},
]  # fmt: skip


@pytest.mark.parametrize(("real", "cell_words"), ARITHMETIC)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("options", REGULARISED, ids=str)
@pytest.mark.part(5)
def test_regularised(real, cell_words, sparse, options):
    """Also what takes all splits away; every option changes the trees, and none depends on the pool or the threads."""
    rng = np.random.default_rng(27)
    m = 400
    X = np.hstack([np.round(mixture(m, rng), 1), blocks(m, rng, 2)])
    data = TreeData(
        scipy.sparse.csr_matrix(X) if sparse else X,
        labels(m, 3, rng),
        3,
        sample_weight=rng.integers(1, 4, m) / 2.0,
    )
    S = remainders(data, rng).astype(real)
    jobs, modes = [(0, -1), (2, 1), (1, 2)], [(True, 1), (False, 3)]
    check_against_twin(data, X, S, jobs=jobs, cell_words=cell_words, modes=modes, **options)
    active = (rng.random(len(data.column)) < 0.5).astype(np.uint8)
    sample = np.sort(rng.choice(m, 250, replace=False))
    check_against_twin(
        data,
        X,
        S,
        jobs=jobs[:1],
        cell_words=cell_words,
        modes=modes,
        active=active,
        sample=sample,
        **options,
    )
    if "min_hessian" not in options:
        check_against_twin(data, X, S, jobs=jobs[:1], cell_words=cell_words, counts=True, **options)
    scale = scales(data, S, jobs, counts=False, cell_words=cell_words)
    plain, found = (
        grow(data, S, jobs, cell_words=cell_words, scale=scale, **more) for more in ({}, options)
    )
    assert not identical(plain, found)
    assert found[1]["column"] == found[2]["column"]  # (2, 1) and (1, 2) draw the same features


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("real", "cell_words"), ARITHMETIC)
@pytest.mark.part(3)
def test_each_kind_of_column_regularised(kind, real, cell_words):
    rng = np.random.default_rng(28)
    for m in (2, 17, 300):
        X = np.round(mixture(m, rng, [kind]), 1)
        data = TreeData(X, labels(m, 2, rng), 2, sample_weight=np.ones(m))
        S = remainders(data, rng).astype(real)
        for options in REGULARISED[1::4]:
            check_against_twin(
                data,
                X,
                S,
                jobs=[(1, -1), (0, 1)],
                cell_words=cell_words,
                modes=[(True, 1), (False, 1)],
                **options,
            )


@pytest.mark.parametrize(("real", "cell_words"), ARITHMETIC)
@pytest.mark.parametrize("spread", [1e-6, 8.0])
@pytest.mark.part(2)
def test_l2_far_above_and_far_below_the_second_derivatives(real, cell_words, spread):
    """Scores neither overflow nor lose their order where l2 is 10^20 times the sum of h, or rounding beside it."""
    rng = np.random.default_rng(29)
    X = np.round(mixture(300, rng), 1)
    data = TreeData(X, labels(300, 3, rng), 3, sample_weight=np.ones(300))
    S = remainders(data, rng, spread).astype(real)
    for l2 in (1e-12, 1.0, 1e6, 1e12):
        check_against_twin(
            data, X, S * real(1e-8), jobs=[(0, -1), (2, 1)], cell_words=cell_words, l2=l2
        )
        check_against_twin(data, X, S, jobs=[(0, -1), (2, 1)], cell_words=cell_words, l2=l2)


def test_gains_with_l2():
    """The gain and the order of the scores against fractions."""
    rng = np.random.default_rng(30)
    for l2 in (0, 1, 77, 10**6):
        g, h = rng.integers(-1000, 1000, (2, 40)), rng.integers(1, 1000, (2, 40))
        parts = np.vstack([g, g.sum(axis=0)]), np.vstack([h, h.sum(axis=0)]) + l2
        exact = [
            sum(
                sign * Fraction(int(a) ** 2, int(b))
                for sign, a, b in zip((1, 1, -1), *column, strict=True)
            )
            for column in zip(*(part.T for part in parts), strict=True)
        ]
        found = twin.gain_of(np.array([g[0], h[0]]), np.array([g[1], h[1]]), float(l2))
        np.testing.assert_allclose(found, [float(value) for value in exact], rtol=1e-9)
        # The splits of one node: the scores are in the order of the gains.
        left = np.array([rng.integers(-900, 900, 40), rng.integers(1, 999, 40)])
        right = np.array([[50], [1000]]) - left
        scores, gains = (
            twin.score(left, right, np.float64, l2=float(l2)),
            twin.gain_of(left, right, float(l2)),
        )
        np.testing.assert_array_equal(
            np.argsort(scores, kind="stable"), np.argsort(gains, kind="stable")
        )


def blocks(m, rng, n=6, values=9):
    """One-hot blocks, of which some rows are in none."""
    parts = []
    for j in range(n):
        code = rng.integers(-1 - j, values, m)
        parts.append(np.where(code[:, None] == np.arange(values), rng.integers(1, 4, (m, 1)), 0.0))
    return np.hstack(parts)


@pytest.mark.parametrize(("real", "cell_words"), ARITHMETIC)
def test_bundles(real, cell_words):
    """Exclusive columns share lanes; also where the mode is not zero, or missing values are the mode."""
    rng = np.random.default_rng(11)
    m = 1500
    X = np.hstack([np.round(mixture(m, rng), 1), blocks(m, rng)])
    X[:, 20:29] = 5 - X[:, 20:29]
    X[:, 30:34] = np.where(X[:, 30:34] == 0, np.nan, X[:, 30:34])
    X[:, 40:44] = np.where(X[:, 40:44] == 2, np.nan, X[:, 40:44])
    y = labels(m, 4, rng)
    data = TreeData(X, y, 4, sample_weight=np.ones(m))
    sizes = np.diff(data.columns.lane_ptr)
    assert (sizes > 1).sum() >= 5
    assert (
        data.columns.mode[np.isin(data.columns.lane, np.flatnonzero(sizes > 1))]
        == data.columns.n_bins[np.isin(data.columns.lane, np.flatnonzero(sizes > 1))]
    ).any()
    F = (
        rng.normal(size=(4, m))
        + (X[:, 12:54] == X[:, 12:54].max(axis=0)).astype(float)[:, [3, 14, 20, 33]].T * 3
    )
    S = twin.remaining(scipy.special.softmax(F, axis=0), data.y).astype(real)
    check_against_twin(
        data,
        X,
        S,
        jobs=[(0, -1), (1, -1), (3, 2)],
        cell_words=cell_words,
        max_leaves=8,
        modes=[(True, 1), (False, 1)],
    )
    active = np.zeros(len(data.column), dtype=np.uint8)
    active[rng.choice(len(active), len(active) // 3, replace=False)] = 1
    sample = np.sort(rng.choice(m, 600, replace=False))
    check_against_twin(
        data,
        X,
        S,
        jobs=[(2, 0)],
        cell_words=cell_words,
        sample=sample,
        active=active,
        modes=[(True, 1), (False, 1)],
    )


def skewed_setting(rng, missing=True):
    """Columns that leave their modes together, and others; some tiles skip rows."""
    m = SKIPPING_ROWS + 100
    away = rng.random(m) < 0.3
    skewed = np.where(away[:, None], rng.integers(0, 60, (m, 24)), rng.integers(3, 50, 24))
    plain = rng.integers(0, 12, (m, 6)).astype(float)
    gone = np.where(away[:, None], rng.integers(0, 40, (m, 12)), np.nan)
    if missing:
        plain[rng.random((m, 6)) < 0.1] = np.nan
    X = np.hstack(
        [skewed[:, :10], plain, gone[:, : 12 if missing else 0], skewed[:, 10:], blocks(m, rng, 2)]
    )
    return X, labels(m, 3, rng)


@pytest.mark.parametrize(("real", "cell_words"), ARITHMETIC[1:])
def test_tiles_that_skip_rows(real, cell_words):
    rng = np.random.default_rng(12)
    X, y = skewed_setting(rng)
    weight = rng.integers(1, 4, len(y)).astype(float)
    data = TreeData(X, y, 3, sample_weight=weight)
    assert 0 < data.tiles.tile_skip.sum() < data.tiles.n_tiles
    assert data.tiles.counted is not None
    assert (data.tiles.tile_mode[data.tiles.tile_skip == 1] != 0).any()
    S = remainders(data, rng).astype(real)
    modes = [(True, 1), (False, 1), (True, 3)]
    check_against_twin(data, X, S, jobs=[(0, -1), (1, 2)], cell_words=cell_words, modes=modes)
    sample = np.sort(rng.choice(len(y), 2500, replace=False))
    check_against_twin(
        data, X, S, jobs=[(2, 0)], cell_words=cell_words, sample=sample, max_leaves=8, modes=modes
    )
    least = int(500 * scales(data, S, [(0, -1)], counts=True, cell_words=cell_words)[0, 2])
    check_against_twin(
        data,
        X,
        S,
        jobs=[(0, -1)],
        cell_words=cell_words,
        counts=True,
        least=least,
        max_leaves=5,
        modes=modes,
    )


@pytest.mark.parametrize("counts", [False, True])
def test_more_distinct_values_than_a_byte_holds(counts):
    rng = np.random.default_rng(13)
    m = 1200
    X = np.column_stack([rng.normal(size=(m, 3)), mixture(m, rng, ["missing", "few", "skewed"])])
    X[rng.random(m) < 0.2, 1] = np.nan
    data = TreeData(X, labels(m, 3, rng), 3, sample_weight=rng.integers(1, 3, m).astype(float))
    assert data.columns.code_bytes == 2
    assert data.columns.n_bins.max() > 1000
    S = remainders(data, rng)
    check_against_twin(
        data,
        X,
        S,
        jobs=[(0, -1), (2, 1)],
        cell_words=2,
        counts=counts,
        modes=[(True, 1), (False, 1)],
    )
    check_against_twin(data, X, S, jobs=[(1, 0)], cell_words=2, sample=np.arange(0, m, 3))


def test_a_thousand_classes():
    """One row of each of most classes; the jobs are but a few of the half million pairs."""
    rng = np.random.default_rng(14)
    K = 1000
    for m in (K, K + 30):
        X = rng.integers(0, 9, (m, 5)).astype(float)
        data = TreeData(X, labels(m, K, rng), K, sample_weight=np.ones(m))
        S = remainders(data, rng).astype(np.float32)
        jobs = [(0, -1), (999, -1), (0, 999), (500, 2)]
        check_against_twin(data, X, S, jobs=jobs, cell_words=1, modes=[(True, 1), (False, 1)])
        check_against_twin(data, X, S, jobs=jobs, cell_words=1, counts=True)


def test_a_node_that_several_threads_share():
    """Tiles in parallel within one tree, when there are more threads than trees: the same tree, bit by bit."""
    rng = np.random.default_rng(15)
    m, d = 7000, 16 * 32
    assert m * d // 16 > 200_000
    X = rng.integers(0, 6, (m, d)).astype(np.float32)
    X[:, 100:180] = np.where(rng.random((m, 1)) < 0.2, X[:, 100:180], 2)
    data = TreeData(X, labels(m, 3, rng), 3, sample_weight=np.ones(m))
    assert data.tiles.tile_skip.any()
    S = remainders(data, rng).astype(np.float32)
    scale = scales(data, S, [(1, -1)], counts=False, cell_words=1)
    one = grow(data, S, [(1, -1)], cell_words=1, scale=scale)
    for n_threads, pool in ((2, True), (8, True), (8, False)):
        assert identical(
            grow(data, S, [(1, -1)], cell_words=1, scale=scale, n_threads=n_threads, pool=pool), one
        )
    check_against_twin(data, X, S, jobs=[(1, -1)], cell_words=1, max_leaves=2)


@pytest.mark.parametrize("pool", [True, False])
def test_trees_in_parallel(pool):
    """Fewer, as many and more trees than threads."""
    rng = np.random.default_rng(16)
    X, y = skewed_setting(rng)
    data = TreeData(X, y, 3, sample_weight=np.ones(len(y)))
    S = remainders(data, rng).astype(np.float32)
    for jobs in ([(0, -1)], [(0, -1), (2, 1)], all_pairs(3)):
        scale = scales(data, S, jobs, counts=False, cell_words=1)
        one = grow(data, S, jobs, cell_words=1, scale=scale)
        for n_threads in (2, 3, 8, 64):
            assert identical(
                grow(data, S, jobs, cell_words=1, scale=scale, n_threads=n_threads, pool=pool), one
            )


# -- gradients, probabilities, losses -------------------------------------------------------------------------------


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("K", [2, 3, 11])
def test_softmax(real, K):
    rng = np.random.default_rng(K)
    m = 2 * 2048 + 700
    y = np.sort(rng.integers(0, K, m))
    starts, own = pairwise_weights.chunks(np.searchsorted(y, np.arange(K + 1)), class_loss.ROWS)
    assert len(starts) == len(own) + 1
    for spread, weight in ((1, np.ones(0)), (30, rng.exponential(size=m)), (400, np.ones(0))):
        F = rng.normal(size=(K, m)) * spread
        expected = scipy.special.softmax(F, axis=0)
        expected = twin.remaining(expected, y)
        S, sums = np.empty((K, m), dtype=real), np.empty((len(own), K, 2, 2), dtype=np.int64)
        units = units_in_parts(weight.max(initial=1), m)
        for n_threads in (1, 3):
            class_loss.softmax(
                F, starts, own, weight=weight, S=S, magic=units[1], sums=sums, n_threads=n_threads
            )
            rtol, tiny = (1e-6, 1e-30) if real is np.float32 else (1e-13, 1e-290)
            likely = expected > tiny
            # Differences of scores are rounded to float32 before the exponential: their error grows with them.
            off = (0.1 * np.ptp(F, axis=0) * np.ones((K, 1)))[likely] if real is np.float32 else 0
            assert (abs(S[likely] / expected[likely] - 1) <= rtol * (1 + off)).all()
            assert (S > 0).all()
            w = weight if len(weight) else np.ones(m)
            for c, start in enumerate(starts[:-1]):
                rows = slice(start, starts[c + 1])
                assert (y[rows] == own[c]).all()
                left = S[:, rows].astype(float)
                expected_sums = [(w[rows] * a).sum(axis=1) for a in (left, left * (1 - left))]
                np.testing.assert_allclose(
                    of_parts(sums[c], units).T, expected_sums, rtol=1e-12, atol=1e-24
                )


def state_of(data, *, counts=False, max_leaves=8, min_samples_leaf=1, max_depth=None, n_threads=1):
    return ClassTrees(
        data,
        max_leaves=max_leaves,
        max_depth=max_depth,
        min_samples_leaf=min_samples_leaf,
        h_is_weight=counts,
        n_threads=n_threads,
    )


NONE = None, np.zeros(0, dtype=np.uint8)


@pytest.mark.parametrize("counts", [False, True])
def test_gradients_are_derivatives_of_the_loss(counts):
    """Steps and gains of one and two rows, against differences of the loss along e_k or e_k - e_b."""
    rng = np.random.default_rng(17)
    m, K, e = 12, 4, 1e-4
    weight = rng.exponential(size=m) + 0.1
    data = TreeData(np.arange(m)[:, None].astype(float), np.arange(m) % K, K, sample_weight=weight)
    state = state_of(data, counts=counts, max_leaves=2, min_samples_leaf=0)
    F = rng.normal(size=(m, K))
    state.restart(F)

    def loss(i, k, b, step):
        f = F[i].astype(
            np.longdouble
        )  # differences of float64 are too coarse for rows whose gradients nearly agree
        f[k] += step
        if b >= 0:
            f[b] -= step
        return data.weight[i] * (np.log(np.exp(f).sum()) - f[data.y[i]])

    for k, b in all_pairs(K):
        g = np.array([(loss(i, k, b, -e) - loss(i, k, b, e)) / (2 * e) for i in range(m)])
        h = np.array(
            [(loss(i, k, b, e) - 2 * loss(i, k, b, 0) + loss(i, k, b, -e)) / e**2 for i in range(m)]
        )
        factor = 1 if b >= 0 else (K - 1) / K
        for i in range(m):
            grown = state.grow([(k, b)], 0.1, np.array([i], dtype=np.int32), NONE[1])
            assert grown.n_splits[0] == 0
            step = np.clip(g / h, -LARGEST_STEP, LARGEST_STEP)
            assert grown.value[0, 0] == pytest.approx(0.1 * factor * step[i], rel=1e-5)
            j = (i + 1) % m
            if data.y[i] == data.y[j]:
                continue
            rows = np.sort([i, j])
            grown = state.grow([(k, b)], 0.1, rows.astype(np.int32), NONE[1])
            d = data.weight if counts else h
            expected = (g[i] * d[j] - g[j] * d[i]) ** 2 / (d[i] * d[j] * (d[i] + d[j]))
            assert grown.n_splits[0] == 1
            assert grown.gain[0, 0] == pytest.approx(expected, rel=1e-4)
            left_first = data.X[data.rows[rows], 0].argsort()
            np.testing.assert_allclose(
                grown.value[0, :2], 0.1 * factor * step[rows[left_first]], rtol=1e-5
            )


def setting(m, d, K, seed):
    """Overlapping classes with weights that no two sums share."""
    rng = np.random.default_rng(seed)
    y = labels(m, K, rng)
    X = (rng.normal(size=(m, d)) * 2 + rng.normal(size=(K, d))[y]).round(1)
    X[rng.random((m, d)) < 0.03] = np.nan
    return X, y, rng.uniform(1, 3, m)


@pytest.mark.parametrize(
    "K, weighted, max_leaves, scale",
    [
        (3, True, 20, 1),
        (5, True, 20, 1),
        (5, False, 20, 1),
        (5, False, 32, 2),
        (4, False, 33, 1),
        (3, True, 280, 1),
    ],
)
@pytest.mark.parametrize("repeats", [1, 60])
def test_losses_with_each_base_class(K, weighted, max_leaves, scale, repeats):
    X, y, weight = setting(600 if max_leaves > 256 else 300, 4, K, seed=18)
    X, y, weight = (
        np.concatenate([a] * repeats) for a in (X, y, weight if weighted else np.ones(len(y)))
    )
    data = TreeData(X, y, K, sample_weight=weight)
    assert data.dtype == (np.float64 if repeats == 1 else np.float32)
    state = state_of(data, max_leaves=max_leaves)
    F = np.random.default_rng(1).normal(size=(len(y), K)) * scale
    state.restart(F[data.rows])
    before = twin.loss(F[data.rows].T, data.y, data.weight)
    assert state.class_losses().sum() == pytest.approx(before, rel=1e-6)
    pairs = list(itertools.combinations(range(K), 2))
    grown = state.grow(pairs, 0.5, *NONE)

    def trees_of(b):
        classes = [k for k in range(K) if k != b]
        return (
            classes,
            [pairs.index((min(k, b), max(k, b))) for k in classes],
            [1.0 if k < b else -1.0 for k in classes],
        )

    actual = state.base_losses(np.arange(K), pairs)
    np.testing.assert_array_equal(state.base_losses(np.array([2, 1]), pairs), actual[[2, 1]])
    expected = []
    for b in range(K):
        after = F[data.rows].T.copy()
        for k, j, sign in zip(*trees_of(b), strict=True):
            after[k] += sign * grown.value[j][grown.leaf[j]]
            after[b] -= sign * grown.value[j][grown.leaf[j]]
        expected.append(twin.loss(after, data.y, data.weight))
    np.testing.assert_allclose(actual, expected, rtol=1e-10 if repeats == 1 else 1e-5)


def test_a_search_that_does_not_fit_is_refused_before_it_takes_memory(monkeypatch):
    K, m, small = 40, 1000, {"n_estimators": 2, "max_leaf_nodes": 2}
    X, y, _ = setting(m, 4, K, seed=21)
    numbers = {1: 39, 2: 77, 3: 114, None: 780}  # trees of so many candidates, None for all
    size = {n: Grown.bytes_of(numbers[n], 2, m) for n in numbers}
    grown = Grown.empty(780, 2, m)
    assert (
        sum(getattr(grown, name).nbytes for name in grown.__dataclass_fields__) <= 1.01 * size[None]
    )
    for cls in BASED:
        total = {}
        for n in numbers:
            with monkeypatch.context() as context:
                counted = []
                context.setattr(
                    memory,
                    "refuse",
                    lambda booster, counted=counted: counted.append(booster.memory()),
                )
                cls(**small, n_candidates=n).fit(X, y)
            total[n] = memory.needed(counted[0])
            assert total[n] > memory.needed(counted[0][:-1]) + size[n]
        monkeypatch.setattr(memory, "available_memory", lambda total=total: total[2])
        model = cls(**small)
        words = "780 trees, .* 40 of 40 classes .* Use a smaller n_candidates"
        with pytest.raises(MemoryError, match=words):
            model.fit(X, y)
        assert not hasattr(model, "model_")
        assert cls(**small, n_candidates=2).fit(X, y).n_estimators_ == 2
        assert cls(**small, warmup_rounds=2).fit(X, y).n_estimators_ == 2
        with pytest.raises(MemoryError, match=r"are free\. Use fewer"):
            cls(**small, n_candidates=3).fit(X, y)
        monkeypatch.setattr(memory, "available_memory", lambda total=total: total[1] - 1)
        with pytest.raises(MemoryError, match=r"are free\. Use fewer"):
            cls(**small, n_candidates=1).fit(X, y)
        monkeypatch.setattr(memory, "available_memory", lambda: None)
        assert cls(n_estimators=1).fit(X, y).n_estimators_ == 1


@pytest.mark.parametrize("cls", [LogitBoostClassifier, ABCMartClassifier])
@pytest.mark.parametrize("m", [200, 1200])
def test_leaves_of_one_and_of_two_bytes(cls, m, monkeypatch):
    """Up to 256 leaves are numbered in one byte; more need two, and the scores while training stay the model's."""
    K = 3
    X, y, _ = setting(m, 6, K, seed=23)
    seen = []
    refresh = ClassTrees.refresh

    def watch(state):
        refresh(state)
        if state._grown:
            seen.append((state._grown.leaf.dtype, state.F[:, np.argsort(state.data.rows)].T.copy()))

    monkeypatch.setattr(ClassTrees, "refresh", watch)
    models = {}
    for J in (256, 257, 600):
        model = cls(n_estimators=2, max_leaf_nodes=J, min_samples_leaf=1).fit(X, y)
        dtype, F = seen[-1]
        assert dtype == (np.uint8 if J == 256 else np.uint16)
        np.testing.assert_allclose(F, model.model_.raw_scores(X), rtol=0, atol=1e-12)
        models[J] = model.model_.ensemble
    most = {J: np.diff(model.offset).max() + 1 for J, model in models.items()}
    if m == 200:
        assert most[600] <= 200
        np.testing.assert_array_equal(models[256].leaf, models[600].leaf)
    else:
        assert most[256] == 256 and most[257] == 257 and most[600] > 257


@pytest.mark.parametrize("repeats", [1, 60])
@pytest.mark.parametrize("counts", [False, True])
def test_trees_of_swapped_classes_are_negatives(counts, repeats):
    """K (K - 1) / 2 trees serve all base classes: those of (b, k) are the negatives of those of (k, b)."""
    X, y, weight = setting(250, 4, 4, seed=19)
    X, y, weight = (np.concatenate([a] * repeats) for a in (X, y, weight))
    data = TreeData(X, y, 4, sample_weight=weight)
    state = state_of(data, counts=counts)
    state.restart(np.random.default_rng(2).normal(size=(len(y), 4)))
    pairs = list(itertools.permutations(range(4), 2))
    grown = state.grow(pairs, 0.1, *NONE)
    for j, (k, b) in enumerate(pairs):
        i = pairs.index((b, k))
        s = grown.n_splits[j]
        assert s == 7
        for name in ("feature", "pos", "right", "nan_left"):
            np.testing.assert_array_equal(getattr(grown, name)[j, :s], getattr(grown, name)[i, :s])
        rtol = 0 if repeats == 1 else 1e-6  # p + q is rounded in either order where S is float32
        np.testing.assert_allclose(grown.value[j, : s + 1], -grown.value[i, : s + 1], rtol=rtol)
        np.testing.assert_array_equal(grown.leaf[j], grown.leaf[i])


# -- rounds against the twin ----------------------------------------------------------------------------------------


def same_round(found, steps, rtol=1e-5):
    """Trees of one round of a model (as `Trees.each` yields them) against the twin's."""
    assert [tree[5:] for tree in found] == [(step.cls, step.base) for step in steps]
    for (column, threshold, nan_left, right, leaf, _, _), step in zip(found, steps, strict=True):
        arrays = {"column": column.tolist(), "nan_left": nan_left.tolist(), "right": right.tolist()}
        same_tree({**arrays, "threshold": threshold}, step.tree)
        np.testing.assert_allclose(leaf, step.value, rtol=rtol, atol=1e-7)


def rounds_of(model):
    trees, rounds = list(model.model_.ensemble.each()), model.model_.ensemble.rounds
    return [trees[a:b] for a, b in itertools.pairwise(rounds)]


def boosting(model, X, y, weight, **options):
    """The twin for a fitted model."""
    K = len(model.classes_)
    data = TreeData(X, y, K, sample_weight=weight)
    return twin.Boosting(
        twin.View(data, X),
        data.y,
        data.weight,
        n_classes=K,
        counts="mart" in model.algorithm,
        shrinkage=model.learning_rate,
        max_leaves=model.max_leaf_nodes,
        least=model.min_samples_leaf * data.weight_unit,
        **options,
    )


@pytest.mark.parametrize("cls", PLAIN)
@pytest.mark.parametrize("K", [3, 5])
@pytest.mark.parametrize(
    "bounds",
    [{}, {"l2_regularization": 5.0}, {"min_gain": 3.0}, {"min_hessian_leaf": 4.0}],
    ids=str,
)
@pytest.mark.part(3)
def test_plain_rounds_equal_the_twins(cls, K, bounds):
    if "min_hessian_leaf" in bounds and cls is MartClassifier:
        pytest.skip("mart's gains divide by weights: it has no bound of second derivatives")
    X, y, weight = setting(260, 4, K, seed=20)
    options = {"n_estimators": 4, "max_leaf_nodes": 6, "learning_rate": 0.3, "min_samples_leaf": 5}
    model = cls(**options, **bounds).fit(X, y, weight)
    assert (
        not bounds or model.model_.to_bytes() != cls(**options).fit(X, y, weight).model_.to_bytes()
    )
    naive = boosting(model, X, y, weight=weight, **bounds)
    for found in rounds_of(model):
        same_round(found, naive.plain_round())
    assert (model.history_["base"] == -1).all()


@pytest.mark.parametrize("cls", BASED)
@pytest.mark.parametrize("K", [3, 5])
@pytest.mark.parametrize(
    ("gap", "s", "warmup"), [(1, None, 0), (3, None, 0), (1, 2, 0), (2, 1, 1), (4, 2, 3)]
)
@pytest.mark.part(6)
def test_adaptive_rounds_equal_the_twins(cls, K, gap, s, warmup):
    """Searches written out: each base class, K - 1 trees for each, and copies of the scores."""
    X, y, weight = setting(200, 4, K, seed=21 + gap)
    rounds = 5 if K == 3 else 4
    model = cls(
        n_estimators=rounds,
        max_leaf_nodes=6,
        learning_rate=0.3,
        gap=gap,
        n_candidates=s,
        warmup_rounds=warmup,
    )
    model.fit(X, y, weight)
    naive = boosting(model, X, y, weight=weight)
    base = None
    for t, found in enumerate(rounds_of(model)):
        if t < warmup:
            same_round(found, naive.plain_round())
            assert model.history_["base"][t] == -1
            continue
        if (t - warmup) % gap == 0:
            bases = range(K) if s is None else naive.worst(s)
            base, steps, _ = naive.base_round(bases)
        else:
            _, steps, _ = naive.base_round([base])
        same_round(found, steps)
        assert model.history_["base"][t] == base
    assert t == rounds - 1


@pytest.mark.parametrize("cls", BASED)
def test_all_candidates_are_no_restriction(cls):
    X, y, weight = setting(300, 4, 4, seed=30)
    model = cls(n_estimators=6, gap=2).fit(X, y, weight)
    for s in (4, 9):
        other = cls(n_estimators=6, gap=2, n_candidates=s).fit(X, y, weight)
        np.testing.assert_array_equal(model.model_.ensemble.leaf, other.model_.ensemble.leaf)
        np.testing.assert_array_equal(model.history_["base"], other.history_["base"])


@pytest.mark.parametrize("cls", BASED)
def test_the_base_class_stays_between_searches(cls):
    X, y, weight = setting(400, 5, 5, seed=31)
    base = (
        cls(n_estimators=23, gap=4, warmup_rounds=3, max_leaf_nodes=5)
        .fit(X, y, weight)
        .history_["base"]
    )
    assert (base[:3] == -1).all()
    runs = [base[a : a + 4] for a in range(3, 23, 4)]
    assert all((run == run[0]).all() and run[0] >= 0 for run in runs)
    assert len({run[0] for run in runs}) > 1


@pytest.mark.parametrize("cls", BASED)
@pytest.mark.parametrize("repeats", [1, 40])
def test_scores_sum_to_zero(cls, repeats):
    X, y, weight = setting(300, 4, 5, seed=32)
    X, y = np.concatenate([X] * repeats), np.concatenate([y] * repeats)
    scores = cls(n_estimators=30, gap=3, max_leaf_nodes=6).fit(X, y).model_.raw_scores(X)
    assert abs(scores).max() > 0.5
    np.testing.assert_allclose(scores.sum(axis=1), 0, atol=1e-12)


@pytest.mark.parametrize(("cls", "based"), list(zip(PLAIN, BASED, strict=True)))
def test_two_classes(cls, based):
    """With two classes the base class makes no difference: one tree a round, either way binary boosting."""
    X, y, weight = setting(300, 4, 2, seed=33)
    options = {"n_estimators": 8, "max_leaf_nodes": 6, "learning_rate": 0.3}
    model = cls(**options).fit(X, y, weight)
    for extra in ({}, {"gap": 1}, {"n_candidates": 1}, {"warmup_rounds": 3}):
        other = based(**options, **extra).fit(X, y, weight)
        np.testing.assert_array_equal(other.model_.raw_scores(X), model.model_.raw_scores(X))
    assert len(model.model_.ensemble) == 8
    plain, base0 = (
        boosting(model, X, y, weight=weight),
        boosting(model, X, y, weight=weight),
    )
    rows = TreeData(X, y, 2, sample_weight=weight).rows
    for t in range(1, 9):
        plain.plain_round()
        base0.base_round([0])
        expected = model.model_.truncate(t).raw_scores(X)[rows].T
        np.testing.assert_allclose(plain.F, expected, atol=1e-5)
        np.testing.assert_allclose(base0.F, expected, atol=1e-5)


# -- training as a whole --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", PLAIN + BASED)
@pytest.mark.parametrize("repeats", [1, 40])
@pytest.mark.parametrize("min_samples_leaf", [1, 4])
@pytest.mark.part(3)
def test_integer_weights_are_repeated_rows(cls, repeats, min_samples_leaf):
    rng = np.random.default_rng(34)
    X, y, _ = setting(300, 4, 3, seed=34)
    X, y = np.concatenate([X] * repeats), np.concatenate([y] * repeats)
    X = X + rng.normal(size=X.shape) * 0.3 if repeats > 1 else X
    times = rng.integers(1, 5, len(y))
    options = {
        "n_estimators": 6,
        "max_leaf_nodes": 8,
        "learning_rate": 0.3,
        "min_samples_leaf": min_samples_leaf,
        "max_bins": 64,
    }
    one = cls(**options).fit(X, y, times.astype(float)).model_.ensemble
    two = cls(**options).fit(np.repeat(X, times, axis=0), np.repeat(y, times)).model_.ensemble
    for name in ("offset", "feature", "threshold", "nan_left", "right", "cls", "base"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
    np.testing.assert_allclose(one.leaf, two.leaf, rtol=1e-5 if repeats == 1 else 1e-3, atol=1e-5)


@pytest.mark.parametrize("cls", PLAIN + BASED)
def test_rounding_is_no_gain_in_pure_nodes(cls):
    """With l2_regularization, where rounding parts rows of one class, integer weights are repeated rows too."""
    options = {
        "n_estimators": 5,
        "l2_regularization": 1.0,
        "max_leaf_nodes": 20,
        "subsample": 1.0,
        "max_features": 1.0,
    }
    # More rounds come to splits that tie, where weights that are moved by 1e-9 change the trees.
    for seed in range(8):
        rng = np.random.default_rng([53, seed])
        K, m = int(rng.integers(2, 5)), int(rng.integers(40, 100))
        y = np.r_[np.arange(K), rng.integers(0, K, m - K)]
        X = rng.normal(size=(m, 4)) + 0.7 * y[:, None] * rng.normal(size=4)
        times = rng.integers(1, 60, m)
        weighted = cls(**options).fit(X, y, times.astype(float)).model_.raw_scores(X)
        repeated = (
            cls(**options)
            .fit(np.repeat(X, times, axis=0), np.repeat(y, times))
            .model_.raw_scores(X)
        )
        np.testing.assert_allclose(weighted, repeated, rtol=0, atol=1e-6, err_msg=str(seed))


def leaf_weights(model, X, weight):
    """Sum of the weights in every leaf of every tree, and which leaf each row is in."""
    result = []
    for column, threshold, nan_left, right, leaf, _, _ in model.model_.ensemble.each():
        at = np.empty(len(X), dtype=int)

        def descend(rows, i, end, number, at=at, arrays=(column, threshold, nan_left, right)):
            if i == end:
                at[rows] = number
                return
            column, threshold, nan_left, right = (a[i] for a in arrays)
            values = X[rows, column].astype(np.float32)
            left = (values <= threshold) | (np.isnan(values) & nan_left)
            descend(rows[left], i + 1, i + right, number)
            descend(rows[~left], i + right, end, number + right)

        descend(np.arange(len(X)), 0, len(column), 0)
        result.append(np.bincount(at, weight, len(leaf)))
    return result


@pytest.mark.parametrize("cls", PLAIN + BASED)
@pytest.mark.parametrize("repeats", [1, 40])
@pytest.mark.part(3)
def test_leaves_weigh_enough(cls, repeats):
    """min_samples_leaf bounds sums of weights (over their mean where it is small), not of second derivatives."""
    X, y, _ = setting(300, 4, 3, seed=42)
    X, y = np.concatenate([X] * repeats), np.concatenate([y] * repeats)
    X = X + np.random.default_rng(42).normal(size=X.shape) * 0.3
    rng = np.random.default_rng(43)
    options = {"n_estimators": 3, "max_leaf_nodes": 30, "learning_rate": 1.0}
    for weight, least in (
        (np.full(len(y), 0.25), 1.0),
        (np.full(len(y), 1e-9), 3e-9),
        (rng.uniform(0.01, 1, len(y)), 1.0),
        (np.full(len(y), 3.0), 30.0),
        (rng.uniform(1, 3, len(y)), 6.0),
    ):
        weight = weight / (1 if repeats == 1 else 20)
        model = cls(min_samples_leaf=least / min(1, weight.mean()), **options).fit(X, y, weight)
        found = np.concatenate(leaf_weights(model, X, weight))
        assert found.min() >= least * (1 - 1e-4)
        assert found.min() < least * 3  # the bound is met
        free = cls(min_samples_leaf=0, **options).fit(X, y, weight)
        assert np.concatenate(leaf_weights(free, X, weight)).min() < least * (1 - 1e-4)


@pytest.mark.parametrize("cls", PLAIN + BASED)
@pytest.mark.parametrize("repeats", [1, 40])
@pytest.mark.part(3)
def test_a_bound_below_all_weights_is_none(cls, repeats):
    X, y, weight = (np.concatenate([a] * repeats) for a in setting(300, 4, 3, seed=44))
    X = X + np.random.default_rng(44).normal(size=X.shape) * 0.1
    options = {"n_estimators": 15, "max_leaf_nodes": 30, "learning_rate": 1.0}
    for w in (weight, weight * 1e-7, np.full(len(y), 1e5)):
        bounds = (0, w.min() / min(1, w.mean()) * (1 - 1e-6))
        models = [cls(min_samples_leaf=least, **options).fit(X, y, w).model_ for least in bounds]
        np.testing.assert_array_equal(models[0].ensemble.leaf, models[1].ensemble.leaf)
        np.testing.assert_array_equal(models[0].ensemble.threshold, models[1].ensemble.threshold)


@pytest.mark.parametrize("counted", [False, True])
def test_integer_weights_are_counted_exactly(counted):
    """A leaf of exactly min_samples_leaf is allowed, whatever the total."""
    rng = np.random.default_rng(45)
    for m in (50, 333, 901):
        weight = rng.integers(1, 9, m).astype(float)
        data = TreeData(rng.normal(size=(m, 1)), labels(m, 2, rng), 2, sample_weight=weight)
        for least in (1, 3, 10):
            units = Quantiser(data, counted, least)
            assert units.least == least * units.per_count
            assert (units.per_count * data.weight == np.rint(units.per_count * data.weight)).all()


@pytest.mark.parametrize("repeats", [1, 60])
@pytest.mark.parametrize("counts", [False, True])
def test_classes_that_are_all_but_certain(counts, repeats):
    """Own probabilities of 1 up to rounding must not hide the tiny ones of the other rows, which set the units."""
    rng = np.random.default_rng(46)
    X, y, _ = setting(300, 4, 3, seed=46)
    X, y = np.concatenate([X] * repeats), np.concatenate([y] * repeats)
    data = TreeData(X, y, 3, sample_weight=np.ones(len(y)))
    state = state_of(data, counts=counts)
    y = data.y
    for far in (20.0, 37.0, 60.0):
        F = np.zeros((len(y), 3))
        F[y == 0, 0] = 45
        F[y != 0, 0] = -far + rng.normal(size=(y != 0).sum())
        F[y != 0, 1:] += rng.normal(size=((y != 0).sum(), 2))
        state.restart(F)
        assert state.missing == pytest.approx(
            state.S[y, np.arange(len(y))].astype(float).sum(), rel=1e-6
        )
        jobs = [(0, -1), (1, -1), (0, 1)]
        grown = state.grow(jobs, 1.0, *NONE)
        for j, (k, b) in enumerate(jobs):
            g, h = (a.astype(float) for a in twin.gradients(state.S, y, k, b=b))
            n_leaves = grown.n_splits[j] + 1
            # Class 0 alone has g = h or g = -h in every row. A node of one sign then gains by rounding only, and so do
            # rows of the other sign where these are so small that their h has become one unit.
            only_rounding_is_left = {(False, 60, 60.0, 0, -1): 5, (False, 1, 20.0, 0, -1): 3}
            assert n_leaves == only_rounding_is_left.get((counts, repeats, far, k, b), 8)
            G, H = (np.bincount(grown.leaf[j], a, n_leaves) for a in (g, h))
            expected = np.clip(G / np.maximum(H, 1e-300), -LARGEST_STEP, LARGEST_STEP) * 2 / 3
            np.testing.assert_allclose(grown.value[j, :n_leaves], expected, rtol=1e-2, atol=1e-3)
            divisor = np.bincount(grown.leaf[j]) if counts else np.maximum(H, 1e-300)
            total = (G**2 / divisor).sum()
            gain = total - g.sum() ** 2 / divisor.sum()
            assert grown.gain[j, : n_leaves - 1].sum() == pytest.approx(
                gain, rel=1e-3, abs=1e-3 * total
            )


@pytest.mark.parametrize("cls", [MartClassifier, ABCLogitBoostClassifier])
def test_samples_are_drawn_anew_every_round(cls, monkeypatch):
    X, y, weight = setting(300, 6, 3, seed=47)
    samples = []
    grow = ClassTrees.grow
    monkeypatch.setattr(
        ClassTrees,
        "grow",
        lambda self, jobs, rate, *drawn: samples.append(drawn) or grow(self, jobs, rate, *drawn),
    )
    options = {"n_estimators": 12, "subsample": 0.4, "max_features_tree": 1 / 6}
    models = [cls(random_state=seed, **options).fit(X, y, weight) for seed in (1, 1, 2)]
    assert all(
        len(rows) == 120 and (np.diff(rows) > 0).all() and active.sum() == 1
        for rows, active, _ in samples
    )
    first, again, other = (
        [(a.tobytes(), b.tobytes(), key) for a, b, key in samples[i : i + 12]] for i in (0, 12, 24)
    )
    assert first == again != other
    assert len({rows for rows, _, _ in first}) == len({key for _, _, key in first}) == 12
    assert len({active for _, active, _ in first}) >= 4
    assert models[0].model_.to_bytes() == models[1].model_.to_bytes()
    for trees in rounds_of(models[0]):
        assert len({int(f) for tree in trees for f in tree[0]}) <= 1


VARIANTS = [
    {}, {"subsample": 0.6, "max_features_tree": 0.5}, {"max_features": 0.4, "l2_regularization": 1.0, "min_gain": 0.05},
]  # fmt: skip


@pytest.mark.parametrize("cls", PLAIN + BASED)
@pytest.mark.parametrize("extra", VARIANTS, ids=str)
@pytest.mark.parametrize("repeats", [1, 40])
@pytest.mark.part(7)
def test_warm_start_in_parts(cls, extra, repeats):
    """Cut in the middle of a gap; the bytes are those of one go."""
    X, y, weight = setting(300, 4, 4, seed=35)
    X, y, weight = (np.concatenate([a] * repeats) for a in (X, y, weight))
    options = {"max_leaf_nodes": 5, "random_state": 3, **extra}
    if cls in BASED:
        options.update(gap=10, warmup_rounds=2)
    uninterrupted = cls(n_estimators=25, **options).fit(X, y, weight)
    parts = cls(n_estimators=7, warm_start=True, **options).fit(X, y, weight)
    for n in (8, 19, 25):
        parts.set_params(n_estimators=n).fit(X, y, weight)
    assert parts.model_.to_bytes() == uninterrupted.model_.to_bytes()
    np.testing.assert_array_equal(parts.gain_, uninterrupted.gain_)
    for name, values in uninterrupted.history_.items():
        np.testing.assert_array_equal(parts.history_[name], values)


@pytest.mark.parametrize("cls", PLAIN + BASED)
@pytest.mark.parametrize("extra", VARIANTS, ids=str)
@pytest.mark.parametrize("repeats", [1, 40])
def test_training_scores_are_the_models(cls, extra, repeats):
    X, y, weight = setting(300, 4, 3, seed=36)
    X, y, weight = (np.concatenate([a] * repeats) for a in (X, y, weight))
    rounds = []

    class Compare:
        def after_round(self, state):
            trees = state.booster.trees
            np.testing.assert_array_equal(trees.F.T, state.model().raw_scores(X)[trees.data.rows])
            rounds.append(state.n_rounds)

    options = {"gap": 2} if cls in BASED else {}
    estimator = cls(n_estimators=5, max_leaf_nodes=7, random_state=0, **options, **extra)
    estimator.fit(X, y, weight, callbacks=[Compare()])
    assert rounds == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("cls", PLAIN + BASED)
@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.part(3)
def test_any_number_of_threads_gives_the_same_bytes(cls, K, monkeypatch):
    monkeypatch.setattr("pymcboost.threads.SMALL_WORK", 0)
    rng = np.random.default_rng(37)
    X, y, weight = (np.concatenate([a] * 40) for a in setting(300, 4, K, seed=37))
    X = np.hstack([X + rng.normal(size=X.shape).round(1), blocks(len(y), rng, 2)])
    options = {"max_leaf_nodes": 7, "random_state": 1, **({"gap": 2} if cls in BASED else {})}
    models = [
        cls(n_estimators=4, n_jobs=n, subsample=share, max_features=share, **options).fit(
            X, y, weight
        )
        for share in (1.0, 0.7)
        for n in ((1, 2, 8) if share == 1 else (1, 3))
    ]
    bytes_ = [model.model_.to_bytes() for model in models]
    assert bytes_[0] == bytes_[1] == bytes_[2]
    assert bytes_[3] == bytes_[4]
    assert bytes_[0] != bytes_[3]


@pytest.mark.parametrize("cls", PLAIN + BASED)
@pytest.mark.parametrize("repeats", [1, 100])
def test_stops_at_machine_accuracy(cls, repeats):
    """Separable classes: the probability that is missing falls to rounding, and training ends with it."""
    rng = np.random.default_rng(38)
    x = np.repeat(np.arange(4.0), 30)
    X = np.column_stack([x + rng.uniform(-0.4, 0.4, 120), rng.normal(size=120)])
    X, y = np.concatenate([X] * repeats), np.concatenate([x.astype(int)] * repeats)
    model = cls(n_estimators=2000, learning_rate=0.7).fit(X, y)
    assert 10 < model.n_estimators_ < 1000
    scores = model.model_.raw_scores(X)
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(scores.argmax(axis=1), y)
    missing = model.history_["missing"]
    assert (np.diff(missing) < 0).all()
    assert missing[-1] < 1e-13
    own = scipy.special.softmax(scores, axis=1)
    own[np.arange(len(y)), y] = 0
    assert own.sum(axis=1).mean() <= 2 * np.finfo(float).eps


@pytest.mark.parametrize("cls", [LogitBoostClassifier, ABCMartClassifier])
def test_early_stopping_keeps_the_best_round(cls):
    X, y, _ = setting(260, 4, 3, seed=39)
    X_val, y_val, _ = setting(200, 4, 3, seed=39)
    rng = np.random.default_rng(0)
    y_val = np.where(rng.random(200) < 0.3, rng.integers(0, 3, 200), y_val)
    X_val = X_val + rng.normal(size=X_val.shape)
    options = {
        "n_estimators": 150,
        "learning_rate": 0.3,
        "n_iter_no_change": 12,
        "scoring": "error",
    }
    model = cls(early_stopping=True, **options).fit(X, y, X_val=X_val, y_val=y_val)
    free = cls(**options).fit(X, y, X_val=X_val, y_val=y_val)
    errors = free.history_["val_error"]
    assert len(errors) == 150
    expected = [np.mean(codes != y_val) for codes in free.staged_predict(X_val)]
    np.testing.assert_allclose(errors, expected, atol=1e-12)
    n = model.n_estimators_
    # The first best round that no better one follows within the patience.
    best = 0
    while (errors[best + 1 : best + 13] < errors[best]).any():
        best += 1 + int(np.argmax(errors[best + 1 : best + 13] < errors[best]))
    assert n == best + 1 < 138
    np.testing.assert_array_equal(model.history_["val_error"], errors[:n])
    assert len(model.history_["base"]) == n
    np.testing.assert_array_equal(model.model_.raw_scores(X), free.model_.truncate(n).raw_scores(X))
    shorter = cls(**{**options, "n_estimators": n}).fit(X, y)
    np.testing.assert_array_equal(model.gain_, shorter.gain_)


# -- LightGBM -------------------------------------------------------------------------------------------------------


def lightgbms_splits(X, y, weight, K, cls):
    """The splits of LightGBM's first tree of a class in the order made: (rows left, rows right)."""
    lightgbm = pytest.importorskip("lightgbm")
    params = {
        "objective": "multiclass",
        "num_class": K,
        "num_leaves": 20,
        "min_data_in_leaf": 0,
        "min_sum_hessian_in_leaf": 1e-9,
        "boost_from_average": False,
        "learning_rate": 1.0,
        "max_bin": 255,
        "min_data_in_bin": 1,
        "feature_pre_filter": False,
        "enable_bundle": False,
        "use_missing": False,
        "verbose": -1,
        "num_threads": 1,
        "deterministic": True,
        "force_col_wise": True,
    }
    booster = lightgbm.train(params, lightgbm.Dataset(X, y, weight=weight, params=params), 1)
    splits = {}

    def visit(node, rows):
        if "split_index" not in node:
            return
        left = X[rows, node["split_feature"]] <= node["threshold"]
        splits[node["split_index"]] = rows[left], rows[~left]
        visit(node["left_child"], rows[left])
        visit(node["right_child"], rows[~left])

    visit(booster.dump_model()["tree_info"][cls]["tree_structure"], np.arange(len(y)))
    return [splits[j] for j in range(len(splits))]


def compare_with_lightgbm(X, y, weight, K, cls, tolerance=1e-5):
    """How many splits of the first tree agree before two gains are too close to call."""
    model = LogitBoostClassifier(n_estimators=1, max_leaf_nodes=20, min_samples_leaf=0).fit(
        X, y, weight
    )
    data = TreeData(X, y, K, sample_weight=weight)
    view = twin.View(data, X)
    cell_words = 2 if data.dtype == np.float64 else 1
    S = twin.remaining(np.full((K, len(y)), 1 / K), data.y).astype(data.dtype)
    scale = scales(data, S, [(cls, -1)], counts=False, cell_words=cell_words)[0]
    ints = twin.rounded(*twin.gradients(S, data.y, cls), data.weight, False, scale, cell_words)
    tree = twin.grow(view, *ints, real=data.dtype.type, h_error=1.0)
    column, threshold, nan_left, right = list(model.model_.ensemble.each())[cls][:4]
    arrays = {"column": column.tolist(), "nan_left": nan_left.tolist(), "right": right.tolist()}
    same_tree({**arrays, "threshold": threshold}, tree)
    agreed = 0
    lightgbms = lightgbms_splits(X, y, weight, K=K, cls=cls)
    n_splits = len(tree.splits)
    for (node, other_leaves), theirs in zip(tree.splits, lightgbms[:n_splits], strict=True):
        gain = node.best.gain
        if (
            max(node.best.runner_up, *other_leaves, 0) >= gain * (1 - tolerance)
            or gain < 1e-9 * tree.root.best.gain
        ):
            break
        ours = {frozenset(data.rows[child.rows].tolist()) for child in (node.left, node.right)}
        assert ours == {frozenset(rows.tolist()) for rows in theirs}
        agreed += 1
    else:  # LightGBM goes on where a gain is rounding alone
        place = np.argsort(data.rows)
        for sides in lightgbms[n_splits:]:
            left, right = (
                np.array([values[place[rows]].sum() for values in ints]) for rows in sides
            )
            assert twin.is_rounding(left, right, sum(map(len, sides)))
    return agreed


def test_first_tree_is_lightgbms():
    X, y = load_digits(return_X_y=True)
    weight = np.random.default_rng(40).integers(1, 1000, len(y)).astype(float)
    assert [compare_with_lightgbm(X, y, weight, K=10, cls=cls) for cls in (0, 3, 8)] == [14, 19, 19]


@pytest.mark.slow
@pytest.mark.needs_data
@pytest.mark.parametrize(
    ("name", "K"), [("pendigits", 10), ("letter", 26), ("satimage", 6), ("optdigits", 10)]
)
def test_first_trees_are_lightgbms_on_real_data(data_folder, name, K):
    """All classes; float32 sums, so that gains need to be further apart."""
    from pymcboost import load_svmlight

    path = data_folder / f"{name}.train.libsvm.gz"
    part = load_svmlight(path if path.exists() else data_folder / f"{name}.libsvm.gz")
    X = part.X.toarray() if scipy.sparse.issparse(part.X) else part.X
    X = np.round(X * (1 if abs(X).max() > 1 else 100))
    y = np.unique(part.y, return_inverse=True)[1]
    weight = np.random.default_rng(41).integers(1, 1000, len(y)).astype(float)
    agreed = [compare_with_lightgbm(X, y, weight, K=K, cls=cls, tolerance=1e-3) for cls in range(K)]
    assert sum(agreed) > 5 * K, agreed


# -- sets of categories ----------------------------------------------------------------------------------------------


def with_categories(m, levels, rng, weight=None, K=3):
    """Columns of categories, one with missing values, and a number; and classes that depend on them."""
    X = rng.integers(0, [levels, 2, levels, 7], (m, 4)).astype(np.float64)
    X[rng.random(X.shape) < [0.1, 0, 0, 0.3]] = np.nan
    y = (np.nan_to_num(X[:, 0], nan=3) * 7 % K + rng.integers(0, 2, m)).astype(int) % K
    return X, TreeData(
        X, y, K, sample_weight=np.ones(m) if weight is None else weight, categorical=(0, 1, 2)
    )


def levels_of(data, unit, most, share=1.0):
    uniform = (data.weight == data.weight[0]).all()
    return least_levels(
        data,
        np.ones(0) if uniform else data.weight,
        share,
        units=unit,
        enough=most,
        bound_scale=1.0,
    )


@pytest.mark.parametrize(("values", "m"), [(2, 250), (10**6, 400), (255, 400), (40, 300)])
@pytest.mark.parametrize(("words", "weighted"), [(1, False), (2, False), (2, True)])
@pytest.mark.part(3)
def test_drawn_features_alone(values, m, words, weighted):
    """Wide rows, whose drawn features are looked at one by one: ties, missing values, codes of one and of two bytes."""
    rng = np.random.default_rng(values)
    X = np.floor(rng.random((m, 40)) ** 3 * values)
    X[rng.random(X.shape) < 0.2 * (np.arange(40) % 3 == 0)] = np.nan
    X[:, 4] = np.where(X[:, 4] > np.nanmedian(X[:, 4]), np.nan, X[:, 4])
    X[:, 5] = np.where(rng.random(m) < 0.5, np.nan, 1.0)
    X[rng.random(m) < 0.9, 6] = 0
    y = (
        np.nan_to_num(X[:, 0], nan=values) + np.nan_to_num(X[:, 3]) + rng.random(m) * values
    ).astype(int) % 3
    data = TreeData(X, y, 3, sample_weight=rng.integers(1, 4, m) / 2.0 if weighted else np.ones(m))
    if words == 1 and data.columns.codes.itemsize == 2:
        pytest.skip("codes of two bytes have cells of two words")
    S = remainders(data, rng).astype(np.float64 if words == 2 else np.float32)
    ties = twin.remaining(np.full(S.shape, 1 / 3), data.y).astype(
        S.dtype
    )  # many splits gain the same
    jobs, modes = [(0, -1), (2, 1)], [(True, 1), (False, 1), (True, 3)]
    sample, active = (
        np.sort(rng.choice(m, m // 2, replace=False)),
        np.arange(len(data.column)) % 4 > 0,
    )
    shared = {"cell_words": words, "modes": modes}
    for key, options in enumerate(
        (
            {},
            {"share": 0.05, "sample": sample},
            {"share": 0.3, "active": active},
            {"share": 0.02, "sample": sample[:9]},
            {
                "share": 0.4,
                "sample": sample,
                "l2": 1.0,
                "min_hessian": 0.5,
                "min_gain": 1e-3,
                "least": 5,
            },
        )
    ):
        its = {"share": 0.1, **options, **shared}
        check_against_twin(data, X, S, jobs=jobs, key=key, **its)
        if key % 2 == 0:
            check_against_twin(data, X, ties, jobs=jobs, key=key, **its)
    if words == 2:
        assert check_against_twin(data, X, S, jobs=jobs, counts=True, key=9, share=0.2, **shared)


@pytest.mark.parametrize(("real", "words"), [(np.float64, 2), (np.float32, 2)])
@pytest.mark.parametrize("most", [0, 15, 1e9])
@pytest.mark.parametrize("levels", [2, 9, 40, 300])
@pytest.mark.part(5)
def test_sets_of_categories(real, words, most, levels):
    rng = np.random.default_rng(levels)
    weight = rng.integers(1, 4, 600) / 2.0 if levels == 40 else None
    X, data = with_categories(600, levels, rng, weight=weight)
    S = remainders(data, rng).astype(real)
    jobs, shared = (
        [(0, -1), (2, 1), (1, 2)],
        {"cell_words": words, "modes": [(True, 1), (False, 3)]},
    )
    unit = scales(data, S, jobs, counts=False, cell_words=words)[0, 2]
    least = levels_of(data, unit, most)
    for counts in (False, True):
        assert check_against_twin(
            data, X, S, jobs=jobs, counts=counts, least_levels=least, **shared
        )
    options = {"l2": 0.5, "min_hessian": 1.0, "min_gain": 1e-3}
    sample = np.sort(rng.choice(600, 350, replace=False))
    assert check_against_twin(
        data,
        X,
        S,
        jobs=jobs,
        least_levels=least,
        least=int(2 * unit),
        sample=sample,
        **options,
        **shared,
    )
    assert check_against_twin(
        data, X, S, jobs=jobs, least_levels=least, share=0.5, key=9, max_depth=3, **shared
    )
    assert check_against_twin(data, X, S, jobs=jobs, least_levels=least, level_cost=0.5, **shared)
    active = (data.column < 2).astype(np.uint8)
    check_against_twin(data, X, S, jobs=jobs, least_levels=least, active=active, **shared)
    found = grow(
        data,
        S,
        jobs,
        cell_words=words,
        scale=scales(data, S, jobs, counts=False, cell_words=words),
        least_levels=least,
    )
    assert all(any(tree["subsets"]) or levels == 2 for tree in found)


def test_nasty_categories():
    """Ties, one level, missing values alone, levels that are all rare, and codes with gaps."""
    rng = np.random.default_rng(2)
    m = 500
    y = labels(m, 3, rng)
    even = rng.integers(0, 5, m) * 200.0  # gaps
    X = np.column_stack(
        [
            even,
            even,
            np.where(rng.random(m) < 0.3, np.nan, 4.0),
            np.full(m, 7.0),
            np.arange(m) % 250,
        ]
    )
    X[y == 1, 1] = np.nan
    data = TreeData(X, y, 3, sample_weight=np.ones(m), categorical=range(5))
    for S in (
        np.full((3, m), 0.0),
        twin.remaining(np.full((3, m), 1 / 3), data.y),
        remainders(data, rng),
    ):
        for most in (0, 15, 1e9):
            jobs = [(0, -1), (2, 1), (1, 2)]
            unit = scales(data, S + 1e-9, jobs, counts=False, cell_words=2)[0, 2]
            check_against_twin(
                data, X, S + 1e-9, jobs=jobs, cell_words=2, least_levels=levels_of(data, unit, most)
            )


@pytest.mark.parametrize(("counts", "edge"), [(False, False), (True, False), (False, True)])
def test_the_best_of_all_sets(counts, edge):
    rng = np.random.default_rng(5)
    for n_levels in range(2, 11):
        X = rng.integers(0, n_levels, (400, 1)).astype(np.float64)
        X[rng.random(400) < 0.1] = np.nan if n_levels > 5 else 0.0
        data = TreeData(X, labels(400, 2, rng), 2, sample_weight=np.ones(400), categorical=(0,))
        S = remainders(data, rng)
        scale = scales(data, S, [(1, 0)], counts=counts, cell_words=2)[0]
        g, h, n = twin.rounded(*twin.gradients(S, data.y, 1, b=0), data.weight, counts, scale, 2)
        if edge:
            limit, unit = 2.0**40, 2.0**-20
            A = np.round(rng.normal(size=(1, 400, 1)) * 1000) * unit
            bounds = {"count_bits": 24, "least_levels": levels_of(data, 1.0, 0)}
            grower = kernel.Grower(data.tiles, 2, 0, 1, 2, True, True, 1, **bounds)
            out = Grown.empty(1, 2, 400, 1)
            grower.grow_edges(A, 1, np.ones(0), limit, unit, 1.0, np.zeros(1), out)
            g, h, n, found = A[0, :, 0], np.abs(A[0, :, 0]), n, float(out.gain[0, 0])
        else:
            options = {
                "cell_words": 2,
                "scale": [scale],
                "counts": counts,
                "max_leaves": 2,
                "least": 1,
            }
            found = grow(data, S, [(1, 0)], least_levels=levels_of(data, 1.0, 0), **options)[0][
                "gain"
            ][0]
            found /= scale[1] / scale[0] ** 2
        bins, best = data.columns.codes[0], 0.0
        cells = np.array(
            [[float(v[bins == b].sum()) for b in range(bins.max() + 1)] for v in (g, h)]
        )
        for bits in range(1, 1 << (len(cells[0]) - 1)):
            left = np.array([bits >> b & 1 for b in range(len(cells[0]))], dtype=bool)
            (gl, hl), (gr, hr), (gt, ht) = (
                cells[:, left].sum(1),
                cells[:, ~left].sum(1),
                cells.sum(1),
            )
            gain = abs(gl) + abs(gr) - abs(gt) if edge else gl**2 / hl + gr**2 / hr - gt**2 / ht
            best = max(best, float(gain))
        assert found == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("cls", [*PLAIN, *BASED, *as_published(VectorTreeBoostClassifier)])
@pytest.mark.part(2)
def test_most_levels_with_three_classes(cls):
    rng = np.random.default_rng(0)
    X = np.concatenate([np.arange(65535), rng.integers(0, 65535, 3000)]).astype(np.float64)[:, None]
    y = (X[:, 0] // 7 % 3).astype(int)
    options = {"n_estimators": 1, "max_leaf_nodes": 3, "n_jobs": 2, "categorical_features": [0]}
    model = cls(**options, min_samples_category=0).fit(X, y)
    assert model.score(X, y) > 0.95
    assert cls(**options).fit(X, y).model_.ensemble.subset is not None
    assert (
        model.model_.predict(np.array([[np.nan], [65535.0], [0.5]])).tolist()
        == [model.predict([[np.nan]])[0]] * 3
    )


@pytest.mark.parametrize("cls", [*PLAIN, *BASED])
@pytest.mark.part(3)
def test_trainings_with_categories(cls):
    """Any number of threads, going on, and scores of the file by the slow reader."""
    X, data = with_categories(500, 30, np.random.default_rng(1), K=4)
    y = np.empty(500, dtype=int)
    y[data.rows] = data.y
    options = {
        "random_state": 0,
        "subsample": 0.7,
        "max_features": 0.8,
        "categorical_features": [0, 2],
    }
    model = cls(n_estimators=6, n_jobs=1, **options).fit(X, y)
    assert (
        cls(n_estimators=6, n_jobs=3, **options).fit(X, y).model_.to_bytes()
        == model.model_.to_bytes()
    )
    part = (
        cls(n_estimators=3, warm_start=True, **options)
        .fit(X, y)
        .set_params(n_estimators=6)
        .fit(X, y)
    )
    assert part.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    reader = File(model.model_.to_bytes())
    rows = np.vstack(
        [X[:60], [[99.0, 1, 3.5, 0], [-1, 2, 1e9, 3], [np.nan] * 4, [29.5, 0, -0.0, 1]]]
    )
    expected = np.array([reader.scores(np.float32(row).tolist()) for row in rows])
    assert model.model_.raw_scores(rows).tobytes() == expected.tobytes()
    assert model.model_.ensemble.subset.max() > 0
    with_more = cls(n_estimators=3, **options).fit(X, y, init_model=model)
    assert with_more.model_.n_rounds == 9
    assert model.refit_leaves(X, y).model_.ensemble.subset.max() > 0
