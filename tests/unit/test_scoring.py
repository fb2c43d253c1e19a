"""Scores of saved models against a slow twin, bit for bit."""

import decimal
import math
import pickle
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from reference.scoring import random_right, random_rows, random_stumps, random_trees, raw_scores

import pymcboost
from pymcboost._kernels import score
from pymcboost.model.builders import TreesBuilder
from pymcboost.model.file import ModelFormatError
from pymcboost.model.model import Model, load_model


def same_bits(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 7, 8, 9, 10, 12, 13, 16, 17, 31, 64, 65, 130])
@pytest.mark.part(3)
def test_equals_the_twin(n_classes, two_sided):
    for n_features, n_stumps, n_rows in ((1, 3, 1), (5, 33, 21), (64, 150, 70), (600, 100, 19)):
        stumps = random_stumps(
            n_stumps, n_features, n_classes, two_sided=two_sided, few_thresholds=n_features == 5
        )
        X = random_rows(n_rows, n_features)
        model = Model.from_ensemble(stumps, range(n_classes), link="softmax")
        expected = raw_scores(stumps, X)
        assert same_bits(model.raw_scores(X), expected)
        assert same_bits(
            np.vstack([model.raw_scores(X[i : i + 1]) for i in range(n_rows)]), expected
        )
        assert (model.predict(X) == expected.argmax(axis=1)).all()
        stages = list(model.staged_decision_function(X))
        assert len(stages) == n_stumps
        assert same_bits(stages[-1], model.decision_function(X))
        assert same_bits(model.truncate(2).decision_function(X), stages[1])
        size = np.abs(stumps.right).sum() + (
            0 if stumps.left is None else np.abs(stumps.left).sum()
        )
        table = Model.from_ensemble(stumps, range(n_classes), layout="interval")
        assert table.layout == "interval"
        np.testing.assert_allclose(
            table.raw_scores(X), expected, rtol=1e-7, atol=1e-7 * size / n_classes
        )
        assert same_bits(table.raw_scores(X), np.vstack([table.raw_scores(row[None]) for row in X]))


def sets_of_trees():
    """What makes trees of every kind and size, with a number of rows to score."""
    for mode in ("scalar", "base", "vector", "code", "hamming", "exp"):
        for n_classes in (2, 3, 5, 10, 17, 26):
            for n_features, few, splits, n_rows in (
                (1, True, (0, 3), 1),
                (5, True, (0, 12), 37),
                (300, False, (0, 40), 19),
            ):
                yield (
                    partial(
                        random_trees,
                        9,
                        n_features,
                        n_classes,
                        mode=mode,
                        seed=n_classes,
                        few_thresholds=few,
                        splits=splits,
                    ),
                    n_rows,
                )
        yield (
            partial(
                random_trees, 6, 4, 3, mode=mode, seed=1, few_thresholds=False, splits=(60, 140)
            ),
            21,
        )
        yield (
            partial(
                random_trees, 2, 300, 4, mode=mode, seed=1, few_thresholds=False, splits=(200, 700)
            ),
            21,
        )
        yield (
            partial(random_trees, 5, 3, 4, mode=mode, seed=1, few_thresholds=False, splits=(0, 0)),
            3,
        )
        yield (
            partial(
                random_trees, 4, 3000, 4, mode=mode, seed=1, few_thresholds=False, splits=(0, 900)
            ),
            21,
        )  # prepared in blocks of 1024 columns
        yield (
            partial(
                random_trees,
                1,
                3000,
                4,
                mode=mode,
                seed=1,
                few_thresholds=False,
                splits=(1500, 1500),
            ),
            21,
        )  # not prepared: too many columns
        yield (
            partial(
                random_trees, 120, 9, 4, mode=mode, seed=1, few_thresholds=False, splits=(0, 25)
            ),
            21,
        )  # sorted in parts of 256 trees
        yield partial(random_trees, 0, 3, 4, mode=mode), 2


SETS_OF_TREES = list(sets_of_trees())


@pytest.mark.parametrize("number", range(len(SETS_OF_TREES)))
@pytest.mark.part(5)
def test_trees_equal_the_twin(number):
    make_trees, n_rows = SETS_OF_TREES[number]
    trees = make_trees()
    X = random_rows(n_rows, trees.n_features)
    model = Model.from_ensemble(trees, range(trees.n_classes), link="softmax")
    expected = raw_scores(trees, X)
    assert (model.kind, model.n_learners, model.n_rounds) == (3, len(trees), trees.n_rounds)
    assert same_bits(model.raw_scores(X), expected)
    assert same_bits(np.vstack([model.raw_scores(X[i : i + 1]) for i in range(n_rows)]), expected)
    assert (model.predict(X) == expected.argmax(axis=1)).all()
    stages = list(model.staged_decision_function(X))
    assert len(stages) == trees.n_rounds
    for r in {0, 1, 4, trees.n_rounds}:
        if r <= trees.n_rounds:
            cut = model.truncate(r)
            assert (cut.n_rounds, cut.n_learners) == (r, trees.rounds[r])
            assert same_bits(cut.raw_scores(X), raw_scores(trees.truncate_rounds(r), X))
            if r:
                assert same_bits(cut.decision_function(X), stages[r - 1])
    for n_jobs in (1, 2):
        assert same_bits(model.raw_scores(sp.csr_matrix(X), n_jobs=n_jobs), expected)
        assert same_bits(
            model.raw_scores(np.asfortranarray(X, dtype=np.float64), n_jobs=n_jobs), expected
        )


def test_tree_that_is_too_large_to_be_prepared():
    rng = np.random.default_rng(0)
    for s in (10_000, 10_001, 40_000):
        builder = TreesBuilder(2, 9)
        for cls in (0, 1):
            feature = rng.integers(9, size=s)
            threshold = rng.normal(size=s)
            nan_left = rng.random(s) < 0.5
            builder.add_tree(
                feature,
                threshold,
                nan_left,
                right=random_right(s, rng),
                leaf=rng.normal(size=s + 1),
                cls=cls,
            )
        X = random_rows(20, 9)
        model = Model.from_ensemble(builder.freeze(), range(2))
        assert same_bits(model.raw_scores(X), raw_scores(builder.freeze(), X))
        assert same_bits(model.raw_scores(X[:1]), raw_scores(builder.freeze(), X[:1]))


@pytest.mark.parametrize("mode", ["scalar", "base", "vector", "code", "hamming", "exp"])
def test_many_rows_through_trees(mode):
    trees = random_trees(20, 6, 5, mode=mode, few_thresholds=True)
    model = Model.from_ensemble(trees, range(5), link="softmax2")
    X = random_rows(1500, 6)
    expected = model.raw_scores(X)
    assert same_bits(expected[::100], raw_scores(trees, X[::100]))
    wide = np.zeros((1500, 13), dtype=np.float32)
    wide[:, 2:8] = X
    for form in (X.astype(np.float64), np.asfortranarray(X), wide[:, 2:8], X[::-1].copy()[::-1]):
        for n_jobs in (1, 2, 8):
            assert same_bits(model.raw_scores(form, n_jobs=n_jobs), expected)
    sparse = sp.csr_matrix(np.where(np.arange(6) % 2, X, 0))
    stages = list(model.staged_decision_function(sparse))
    assert same_bits(stages[-1], model.raw_scores(sparse))


@pytest.mark.parametrize("splits", [(0, 1), (0, 25), (300, 700)])
@pytest.mark.parametrize("n_features", [5, 300, 3000])
@pytest.mark.part(4)
def test_batches_of_coded_trees(splits, n_features):
    for n_classes in (2, 3, 11, 17):
        trees = random_trees(
            7, n_features, n_classes, mode="code", splits=splits, few_thresholds=True
        )
        for leaves in ("float32", "float16"):
            model = Model.from_ensemble(trees, range(n_classes), leaves=leaves)
            X = random_rows(65, n_features)
            expected = raw_scores(model.ensemble, X)
            for n in (1, 3, 4, 16, 17, 64, 65):
                assert same_bits(model.raw_scores(X[:n]), expected[:n])
                assert same_bits(model.raw_scores(sp.csr_matrix(X[:n])), expected[:n])


def test_interval_table_of_coded_stumps():
    """Also of a code whose products with the leaves are not float32 numbers."""
    for n_classes, n_features, few in ((2, 3, True), (5, 4, False), (17, 40, False)):
        trees = random_trees(
            60, n_features, n_classes, mode="code", splits=(0, 1), few_thresholds=few
        )
        code = (np.asarray(trees.code, dtype=np.float64) / 3).astype(np.float32)
        trees = type(trees)(**(vars(trees) | {"code": code}))
        X = random_rows(200, n_features)
        expected = raw_scores(trees, X)
        table = Model.from_ensemble(trees, range(n_classes), layout="interval")
        assert table.kind == 2
        size = np.abs(trees.leaf).sum() * np.abs(code).max()
        np.testing.assert_allclose(table.raw_scores(X), expected, rtol=1e-7, atol=1e-7 * size)
        assert (
            Model.from_bytes(table.to_bytes()).raw_scores(X).tobytes()
            == table.raw_scores(X).tobytes()
        )


def test_leaves_of_16_bits(tmp_path):
    trees = random_trees(8, 4, 3, mode="vector")
    leaf = trees.leaf.copy()
    leaf[0] = [
        65504,
        -(2.0**-24),
        2.0**-15 + 2.0**-24,
    ]  # the largest, the smallest, and one below the normal numbers
    leaf[1] = [1e-9, -1e-9, 1 / 3]
    trees = type(trees)(**(vars(trees) | {"leaf": leaf}))
    X = random_rows(40, 4)
    model = Model.from_ensemble(trees, range(3), leaves="float16")
    rounded = type(trees)(**(vars(trees) | {"leaf": leaf.astype(np.float16).astype(np.float32)}))
    assert same_bits(model.raw_scores(X), raw_scores(rounded, X))
    assert same_bits(model.ensemble.leaf, rounded.canonical().leaf)
    assert model.leaves == "float16"
    assert model.truncate(3).leaves == "float16"
    plain = Model.from_ensemble(trees, range(3))
    assert plain.leaves == "float32"
    assert len(plain.to_bytes()) - len(model.to_bytes()) >= 2 * leaf.size - 64
    plain.save(tmp_path / "m.mcb", leaves="float16")
    assert (tmp_path / "m.mcb").read_bytes() == model.to_bytes()
    model.save(tmp_path / "m.mcb")
    assert (tmp_path / "m.mcb").read_bytes() == model.to_bytes()
    model.save(tmp_path / "m.mcb", leaves="float32")
    assert load_model(tmp_path / "m.mcb").leaves == "float32"
    leaf[2, 0] = -65520
    with pytest.raises(ValueError, match="float16.* a leaf of 65520: .* 65504"):
        Model.from_ensemble(trees, range(3), leaves="float16")
    with pytest.raises(
        ValueError, match="leaves must be 'float32', 'float16' or 'int8', not 'half'"
    ):
        Model.from_ensemble(trees, range(3), leaves="half")
    with pytest.raises(
        ValueError, match="leaves must be 'float32', 'float16' or 'int8', not 'half'"
    ):
        model.save(tmp_path / "m.mcb", leaves="half")
    with pytest.raises(ValueError, match="leaves='float16' is for trees"):
        Model.from_ensemble(random_stumps(3, 2, 3), range(3), leaves="float16")


@pytest.mark.parametrize("vector", [False, True])
def test_trees_of_one_split_have_an_interval_table(vector):
    """As in models of class-wise stumps; with a base class, without a split, and with bias, too."""
    rng = np.random.default_rng(3)
    builder = TreesBuilder(4, 3, vector)
    builder.bias[:] = [0.5, -1, 0, 2]
    for t in range(200):
        s = int(t % 7 > 0)
        leaf = rng.normal(size=(s + 1, 4) if vector else s + 1)
        cls = -1 if vector else t % 4
        base = -1 if vector or t % 3 else (t + 1) % 4
        split = [
            rng.integers(0, 3, s),
            rng.integers(-2, 3, s) / 2,
            rng.random(s) < 0.5,
            np.ones(s, dtype=int),
        ]
        builder.add_tree(*split, leaf, cls, base)
        builder.end_round()
    trees = builder.freeze()
    X = random_rows(300, 3)
    table = Model.from_ensemble(trees, range(4), layout="interval")
    assert "interval table" in repr(table)
    np.testing.assert_allclose(
        table.raw_scores(X),
        Model.from_ensemble(trees, range(4)).raw_scores(X),
        rtol=1e-6,
        atol=1e-6,
    )


def test_trees_have_no_interval_table(tmp_path):
    model = Model.from_ensemble(random_trees(3, 2, 3), range(3))
    for call in (
        lambda: Model.from_ensemble(model.ensemble, range(3), layout="interval"),
        lambda: model.save(tmp_path / "m.mcb", layout="interval"),
    ):
        with pytest.raises(ValueError, match="an interval table is for stumps; save trees"):
            call()
    with pytest.raises(ValueError, match="cannot keep 4 of 3 rounds; give a number from 0 to 3"):
        model.truncate(4)
    assert not list(tmp_path.iterdir())
    assert "trees in 3 rounds" in repr(model)


def test_splits_are_the_importance_of_features_in_trees():
    trees = random_trees(9, 5, 3)
    counts = np.bincount(trees.feature, minlength=5)
    np.testing.assert_allclose(
        Model.from_ensemble(trees, range(3)).feature_importances(), counts / counts.sum()
    )
    none = Model.from_ensemble(random_trees(9, 5, 3, splits=(0, 0)), range(3))
    assert none.feature_importances().tolist() == [0] * 5


def test_1000_classes_and_many_features():
    for n_classes, n_features in ((1000, 9), (3, 40_000)):
        stumps = random_stumps(60, n_features, n_classes, seed=4)
        X = random_rows(20, n_features)
        for layout in ("list", "interval"):
            model = Model.from_ensemble(stumps, range(n_classes), layout=layout)
            np.testing.assert_allclose(
                model.raw_scores(X), raw_scores(stumps, X), rtol=1e-6, atol=1e-6
            )


@pytest.mark.parametrize("layout", ["list", "interval"])
def test_every_layout_of_rows_gives_the_same_bits(layout):
    stumps = random_stumps(80, 6, 5, few_thresholds=True)
    model = Model.from_ensemble(stumps, range(5), link="softmax2", layout=layout)
    X = random_rows(1500, 6)
    expected = model.raw_scores(X)
    probabilities = model.predict_proba(X)
    wide = np.zeros((1500, 13), dtype=np.float32)
    wide[:, 2:8] = X
    for form in (
        X.astype(np.float64),
        np.asfortranarray(X),
        wide[:, 2:8],
        X.tolist(),
        X[::-1].copy()[::-1],
    ):
        for n_jobs in (None, 1, 2, 8):
            assert same_bits(model.raw_scores(form, n_jobs=n_jobs), expected)
            assert same_bits(model.predict_proba(form, n_jobs=n_jobs), probabilities)
            assert (model.predict(form, n_jobs=n_jobs) == expected.argmax(axis=1)).all()
    X.flags.writeable = False
    assert same_bits(model.raw_scores(X), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_rows(dtype, index):
    stumps = random_stumps(80, 300, 3, seed=2)
    rng = np.random.default_rng(3)
    X = sp.random(700, 300, density=0.05, format="csr", random_state=rng, dtype=dtype)
    X.data[::7] = np.nan
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    expected = raw_scores(stumps, X.toarray())
    model = Model.from_ensemble(stumps, range(3))
    for n_jobs in (1, 3):
        assert same_bits(model.raw_scores(X, n_jobs=n_jobs), expected)
        assert (model.predict(X, n_jobs=n_jobs) == expected.argmax(axis=1)).all()
    assert same_bits(list(model.staged_decision_function(X))[-1], expected)
    assert same_bits(model.raw_scores(X.tocoo()), expected)
    X.indices[5] = 300
    with pytest.raises(ValueError, match="not a valid CSR matrix"):
        model.raw_scores(X)


@pytest.mark.parametrize("n_features", [8192, 8193, 1_048_576, 1_048_577])
@pytest.mark.parametrize("density", ["few", "many"])
@pytest.mark.part(3)
def test_sparse_rows_of_many_features(n_features, density):
    """Rows are filled with all features, by a table or by a hash; many entries are of features that no learner uses."""
    rng = np.random.default_rng(8)
    m = 100
    entries = 5000 if density == "many" else 12
    used = np.sort(rng.choice(n_features, 40, replace=False))
    used[[0, -1]] = 0, n_features - 1
    for of in (
        random_stumps(60, 40, 3, two_sided=True),
        random_trees(9, 40, 4, mode="vector"),
        random_trees(9, 40, 3, mode="code"),
    ):
        values = rng.normal(size=(m, entries)).astype(np.float32)
        values[rng.random(values.shape) < 0.05] = np.nan
        rows = [
            np.sort(rng.choice(np.append(rng.choice(n_features, 8000), used), entries))
            for _ in range(m)
        ]
        X = sp.csr_matrix(
            (values.ravel(), np.concatenate(rows), np.arange(m + 1) * entries),
            shape=(m, n_features),
        )
        X.sum_duplicates()
        few = X[:, used].toarray()
        wide = replace(of, feature=used[of.feature], n_features=n_features)
        found = Model.from_ensemble(wide, range(len(of.bias)))
        assert same_bits(
            found.raw_scores(X), Model.from_ensemble(of, range(len(of.bias))).raw_scores(few)
        )


def test_very_wide_sparse_rows():
    """Scores are those of the five columns that the stumps use."""
    width = 10_000_000
    stumps = random_stumps(5, width, 2)
    ones = np.ones(5, dtype=np.float32)
    X = sp.csr_matrix((ones, stumps.feature, [0, 2, 5]), shape=(2, width))
    used_columns = np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]])
    narrow_stumps = replace(stumps, feature=np.arange(5), n_features=5)
    scores = Model.from_ensemble(stumps, range(2)).raw_scores(X)
    assert same_bits(scores, raw_scores(narrow_stumps, used_columns))


def test_two_classes():
    stumps = random_stumps(9, 3, 2)
    model = Model.from_ensemble(stumps, ["no", "yes"], link="softmax")
    X = random_rows(40, 3)
    F = raw_scores(stumps, X)
    decision = model.decision_function(X)
    assert same_bits(decision, F[:, 1] - F[:, 0])
    assert (model.predict(X) == np.where(decision > 0, "yes", "no")).all()


def test_ties_go_to_the_lowest_class():
    stumps = random_stumps(4, 2, 6)
    stumps = type(stumps)(
        stumps.feature,
        stumps.threshold,
        stumps.nan_left,
        right=np.ones((4, 6), np.float32),
        left=None,
        bias=np.zeros(6, np.float32),
        n_features=2,
    )
    assert (Model.from_ensemble(stumps, range(10, 16)).predict(random_rows(30, 2)) == 10).all()


def test_probabilities():
    stumps = random_stumps(30, 3, 4)
    X = random_rows(50, 3)
    F = raw_scores(stumps, X)
    for link, factor in (("softmax", 1), ("softmax2", 2)):
        P = np.exp(factor * (F - F.max(axis=1, keepdims=True)))
        got = Model.from_ensemble(stumps, range(4), link=link).predict_proba(X)
        np.testing.assert_allclose(got, P / P.sum(axis=1, keepdims=True), rtol=1e-14)
        np.testing.assert_allclose(got.sum(axis=1), 1, rtol=1e-15)
    with pytest.raises(ValueError, match="no link"):
        Model.from_ensemble(stumps, range(4)).predict_proba(X)


def test_exp_is_as_exact_as_documented():
    decimal.getcontext().prec = 40
    rng = np.random.default_rng(0)
    points = [
        *rng.uniform(-708, 709, 3000),
        *rng.uniform(-1, 1, 1000),
        *(2.0 ** rng.uniform(-60, 0, 300)),
        *range(-20, 20),
    ]
    for x in map(float, points):
        exact = decimal.Decimal(x).exp()
        got = score.exp(x)
        assert abs(decimal.Decimal(got) - exact) <= decimal.Decimal(0.65) * decimal.Decimal(
            math.ulp(got)
        ), x
    for x in rng.uniform(-745, -708.4, 300):
        exact = decimal.Decimal(float(x)).exp()
        got = score.exp(x)
        assert abs(decimal.Decimal(got) - exact) <= decimal.Decimal(0.65) * decimal.Decimal(5e-324)
    assert [score.exp(x) for x in (0.0, -0.0, 1e-300, -800.0, -np.inf, 800.0, np.inf)] == [
        1,
        1,
        1,
        0,
        0,
        np.inf,
        np.inf,
    ]
    assert math.isnan(score.exp(math.nan))


def test_sqrt_is_correctly_rounded():
    rng = np.random.default_rng(0)
    for x in [
        *(2.0 ** rng.uniform(-1074, 1023, 5000)),
        *rng.uniform(0, 4, 1000),
        5e-324,
        0.0,
        1.0,
        4.0,
        np.inf,
        1.7e308,
    ]:
        assert score.sqrt(x) == math.sqrt(x)
    assert math.isnan(score.sqrt(-1.0))
    assert math.isnan(score.sqrt(math.nan))


def test_zero_learners_and_zero_rows():
    stumps = random_stumps(3, 2, 3)
    model = Model.from_ensemble(stumps.truncate_rounds(0), range(3), link="softmax")
    assert (model.raw_scores(np.zeros((2, 2))) == stumps.bias).all()
    assert list(model.staged_decision_function(np.zeros((2, 2)))) == []
    for layout in ("list", "interval"):
        model = Model.from_ensemble(stumps, range(3), link="softmax", layout=layout)
        assert model.raw_scores(np.zeros((0, 2))).shape == (0, 3)
        assert model.predict(np.zeros((0, 2))).shape == (0,)
        assert model.predict_proba(sp.csr_matrix((0, 2))).shape == (0, 3)
        assert Model.from_ensemble(stumps.truncate_rounds(0), range(3), layout=layout).raw_scores(
            np.ones((1, 2))
        ).shape == (
            1,
            3,
        )


def test_interval_table_of_float32_holds_finite_numbers_only():
    stumps = random_stumps(2, 1, 2)
    huge = replace(
        stumps, feature=stumps.feature * 0, right=np.full((2, 2), 3e38, dtype=np.float32)
    )
    with pytest.raises(ValueError, match="layout='interval' .* 6e\\+38.*layout='list'"):
        Model.from_ensemble(huge, range(2), layout="interval")
    tiny = replace(stumps, right=np.full((2, 2), -1e-45, dtype=np.float32))
    sections = Model.from_ensemble(tiny, range(2), layout="interval").to_bytes()
    assert Model.from_bytes(sections).layout == "interval"


def test_interval_table_refuses_what_it_cannot_do():
    model = Model.from_ensemble(random_stumps(3, 2, 3), range(3), layout="interval")
    assert model.n_learners is None
    for call in (
        lambda: model.truncate(1),
        lambda: model.staged_decision_function(np.zeros((1, 2))),
        lambda: model.save("never", layout="list"),
        lambda: model.save("never", layout="packed"),
        lambda: next(model.ensemble.each_tree()),
    ):
        with pytest.raises(ValueError, match="interval table"):
            call()
    assert not model.has_stages
    assert not model.totally_corrective
    assert (
        Model.from_ensemble(model.ensemble, range(3), layout="interval").to_bytes()
        == model.to_bytes()
    )


def test_wrong_arguments_are_explained():
    stumps = random_stumps(3, 2, 3)
    model = Model.from_ensemble(stumps, range(3))
    for X, message in (
        (np.zeros((1, 3)), "X has 3 features, but the model was trained on 2"),
        (np.zeros(2), "two-dimensional"),
        (np.array([["a", "b"]]), "column 0: 'a' is text"),
        (np.zeros((1, 2), complex), "must hold numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(X)
    for arguments, message in (
        (([1, 0, 2],), "distinct and sorted"),
        (([0, 1, 1],), "distinct and sorted"),
        (([0, 1],), "2 class labels"),
        ((["b", "a", "c"],), "distinct and sorted"),
        (([0.5, 1, 2],), "integers or strings"),
        ((["a", "b", "c\0d"],), "zero character"),
        ((["a", "b", "c" * 4097],), "4096"),
        ((["a", "b", "\ud800"],), "Unicode"),
    ):
        with pytest.raises(ValueError, match=message):
            Model.from_ensemble(stumps, *arguments)
    for keywords, message in (
        ({"link": "log"}, "link must be one of"),
        ({"layout": "tree"}, "layout must be"),
        ({"meta": {"x": math.nan}}, "JSON"),
        ({"meta": {"x": "y" * (17 << 20)}}, "at most"),
    ):
        with pytest.raises(ValueError, match=message):
            Model.from_ensemble(stumps, range(3), **keywords)
    with pytest.raises(ValueError, match="cannot keep 4 of 3"):
        model.truncate(4)


@pytest.mark.parametrize("layout", ["list", "interval"])
def test_round_trip(layout, tmp_path):
    stumps = random_stumps(20, 5, 3, two_sided=True)
    meta = {
        "params": {"nu": 1e-9, "n": np.int64(3)},
        "names": ["\u00e9", "b"],
        "algorithm": "mcboost",
    }
    X = random_rows(30, 5)
    for classes in (
        [-5, 0, 7],
        ["", "a", "\U0001f600"],
        np.array([False, True, 2], dtype=object),
        np.array([1.0, 2.0, 3.0]),
    ):
        model = Model.from_ensemble(stumps, classes, link="softmax2", meta=meta, layout=layout)
        path = tmp_path / "model.mcb"
        model.save(path)
        for again in (
            load_model(path),
            Model.from_bytes(path.read_bytes()),
            pickle.loads(pickle.dumps(model)),
            load_model(str(path)),
        ):
            assert again.to_bytes() == model.to_bytes() == path.read_bytes()
            assert list(again.classes_) == [
                int(c) if not isinstance(c, str) else c for c in classes
            ]
            assert (again.link, again.n_classes_, again.n_features_in_, again.kind) == (
                "softmax2",
                3,
                5,
                model.kind,
            )
            assert again.meta == {
                "params": {"nu": 1e-9, "n": 3},
                "names": ["\u00e9", "b"],
                "algorithm": "mcboost",
            }
            assert same_bits(again.predict_proba(X), model.predict_proba(X))
    if layout == "list":
        model.save(path, layout="interval")
        assert (
            path.read_bytes()
            == Model.from_ensemble(
                stumps, classes, link="softmax2", meta=meta, layout="interval"
            ).to_bytes()
        )
        again = Model.from_ensemble(
            model.ensemble, classes, link="softmax2", meta=dict(reversed(meta.items()))
        )
        assert again.to_bytes() == model.to_bytes()


def test_pickles_say_which_version_made_them():
    model = Model.from_ensemble(random_stumps(20, 5, 3), range(3))
    pickled = pickle.dumps(model, protocol=2)
    assert pymcboost.__version__.encode() in pickled
    other = pickled.replace(pymcboost.__version__.encode(), b"9" * len(pymcboost.__version__))
    assert pickle.loads(other).to_bytes() == model.to_bytes()  # what this version can read is right
    data = model.to_bytes()
    version = pymcboost.__version__
    damaged = {"file": data[:-1] + bytes([data[-1] ^ 1]), "version": "7.0"}
    with pytest.raises(
        ModelFormatError,
        match=f"pickled by pymcboost 7.0, but this is pymcboost {version}: .*checksum",
    ):
        object.__new__(Model).__setstate__(damaged)


ISLAND = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("sklearn", "scipy", "joblib", "libsvm", "threadpoolctl", "tqdm", "pandas"):
            raise ImportError(name + " is blocked")

sys.meta_path.insert(0, Block())
import numpy as np
import pymcboost
model = pymcboost.load_model(sys.argv[1])
X = np.zeros((2, 5))
model.decision_function(X), model.predict_proba(X), list(model.staged_decision_function(X)), model.meta
model.save(sys.argv[1], layout="interval")
print(*pymcboost.load_model(sys.argv[1]).predict(X))
"""


def test_numpy_is_enough(tmp_path):
    path = tmp_path / "model.mcb"
    model = Model.from_ensemble(
        random_stumps(20, 5, 3), ["a", "b", "c"], link="softmax", meta={"x": 1}
    )
    model.save(path)
    run = subprocess.run([sys.executable, "-c", ISLAND, str(path)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == list(model.predict(np.zeros((2, 5))))
    blocked = subprocess.run(
        [sys.executable, "-c", ISLAND.replace("import numpy as np", "import sklearn")],
        capture_output=True,
        text=True,
    )
    assert "sklearn is blocked" in blocked.stderr


def test_entries_of_float64_are_added_before_they_are_rounded():
    X = np.array([[2.0**24, 0], [2.0**24 + 2, 0]] * 30, dtype=np.float32)
    model = (
        pymcboost.MCBoostClassifier(n_estimators=3, calibrate=None).fit(X, X[:, 0] > 2**24).model_
    )
    rows = sp.csr_matrix((np.array([2.0**24, 1, 1]), np.zeros(3, dtype=int), [0, 3]), shape=(1, 2))
    for given in (rows, rows.toarray()):
        assert model.predict(given).tolist() == [True]
        assert (
            list(model.staged_decision_function(given))[-1].tolist()
            == model.decision_function(given).tolist()
        )
    assert rows.nnz == 3


@pytest.mark.filterwarnings("error")
def test_numbers_beyond_float32_are_large_ones_everywhere():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = (
        pymcboost.VectorTreeBoostClassifier(n_estimators=3, calibrate=None)
        .fit(X, X[:, 0] > 0)
        .model_
    )
    far = np.full((2, 3), 1e300)
    assert (
        list(model.staged_decision_function(far))[-1].tolist()
        == model.decision_function(far).tolist()
    )
    assert model.apply(far).shape[0] == 2


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_wrong_indices_are_refused_before_scipy_reads_by_them(kind, monkeypatch):
    def asked(_):
        raise AssertionError("SciPy reads by indices that nobody has looked at")

    X = np.random.default_rng(0).normal(size=(60, 3))
    model = (
        pymcboost.VectorTreeBoostClassifier(n_estimators=3, calibrate=None)
        .fit(X, X[:, 0] > 0)
        .model_
    )
    rows = sp.csr_matrix(np.eye(3, dtype=kind))
    rows.indptr = np.array([0, 1, 2, 2**30], dtype=rows.indptr.dtype)
    monkeypatch.setattr(sp.csr_matrix, "has_canonical_format", property(asked))
    with pytest.raises(ValueError, match="X is not a valid CSR matrix"):
        model.predict(rows)
