"""Growing, freezing and merging ensembles."""

from dataclasses import replace

import numpy as np
import pytest
from reference.scoring import (
    leaf_number,
    random_right,
    random_rows,
    random_stumps,
    random_trees,
    raw_scores,
)

from pymcboost.model.builders import EnsembleBuilder, TreesBuilder
from pymcboost.model.model import Model
from pymcboost.model.stumps import Stumps
from pymcboost.model.trees import Trees


def test_builder_grows_truncates_and_freezes():
    builder = EnsembleBuilder(3, 5)
    rows = np.random.default_rng(0).normal(size=(100, 3))
    for j in range(100):
        builder.add_stump(j % 5, j / 7, j % 2 == 0, right=rows[j])
    frozen = builder.freeze()
    assert len(builder) == len(frozen) == 100
    assert frozen.left is None
    assert frozen.right.dtype == np.float32
    assert (frozen.right == rows.astype(np.float32)).all()
    builder.truncate_rounds(40)
    builder.add_stump(1, 0.5, True, right=[1, 2, 3], left=[4, 5, 6])
    second = builder.freeze()
    assert len(frozen) == 100
    assert len(second) == 41
    assert (second.left[:40] == -second.right[:40]).all()
    assert second.left[40].tolist() == [4, 5, 6]
    with pytest.raises(ValueError, match="read-only"):
        frozen.right[0] = 0
    with pytest.raises(ValueError, match="cannot keep 42 of 41"):
        builder.truncate_rounds(42)


def test_equal_models_give_equal_bytes():
    plain = random_stumps(10, 4, 3)
    zeros = plain.right.copy()
    zeros[2] = 0
    a = Stumps(
        plain.feature,
        plain.threshold,
        plain.nan_left,
        right=zeros,
        left=None,
        bias=plain.bias,
        n_features=4,
    )
    minus = np.where(zeros == 0, np.float32(-0.0), zeros)
    b = Stumps(
        plain.feature.astype(np.uint8),
        plain.threshold.astype(np.float64),
        plain.nan_left.astype(int),
        right=minus,
        left=-zeros,
        bias=plain.bias,
        n_features=4,
    )
    assert (
        Model.from_ensemble(a, range(3)).to_bytes() == Model.from_ensemble(b, range(3)).to_bytes()
    )
    assert Model.from_ensemble(a, range(3), layout="interval").to_bytes() == (
        Model.from_ensemble(b, range(3), layout="interval").to_bytes()
    )


def test_minus_zero_threshold():
    stumps = Stumps(
        np.array([0, 0]),
        np.array([-0.0, 0.0]),
        np.array([False, False]),
        right=np.ones((2, 2)),
        left=None,
        bias=np.zeros(2),
        n_features=1,
    )
    X = np.array([[-0.0], [0.0], [1e-45], [-1e-45]], dtype=np.float32)
    for layout in ("list", "interval"):
        assert Model.from_ensemble(stumps, range(2), layout=layout).raw_scores(X)[
            :, 0
        ].tolist() == [-2, -2, 2, -2]
    assert len(stumps.merge().threshold) == 1


@pytest.mark.parametrize(
    ("largest", "n_features", "width"),
    [
        (127, 128, 1),
        (127, 40_000, 1),
        (128, 129, 2),
        (32767, 32768, 2),
        (32768, 40_000, 4),
        (2**31 - 2, 2**31 - 1, 4),
    ],
)
def test_feature_indices_take_the_narrowest_type(largest, n_features, width):
    for nan_left in (False, True):
        stumps = Stumps(
            np.array([largest, 0]),
            np.zeros(2),
            np.array([nan_left, True]),
            right=np.ones((2, 2)),
            left=None,
            bias=np.zeros(2),
            n_features=n_features,
        )
        data = Model.from_ensemble(stumps, range(2)).to_bytes()
        assert data[64:68] == b"FEAT"
        assert data[68] == {1: 1, 2: 2, 4: 3}[width]
        again = Model.from_bytes(data).ensemble
        assert again.feature.tolist() == [largest, 0]
        assert again.nan_left.tolist() == [nan_left, True]


def test_merging_sums_exactly():
    stumps = random_stumps(300, 3, 4, two_sided=True, few_thresholds=True)
    table = stumps.merge()
    assert (np.diff(table.offset) <= 5).all()
    # huge values that cancel leave the small ones exact
    big = np.full((1, 4), 2.0**60, dtype=np.float32)
    right = np.concatenate([big, stumps.right, -big])
    left = np.concatenate([big, stumps.left, -big])
    feature = np.concatenate([[0], stumps.feature, [0]])
    threshold = np.concatenate([[0], stumps.threshold, [0]])
    nan_left = np.concatenate([[True], stumps.nan_left, [True]])
    merged = Stumps(
        feature, threshold, nan_left, right=right, left=left, bias=stumps.bias, n_features=3
    ).merge()
    np.testing.assert_allclose(merged.table, table.table, rtol=1e-12, atol=1e-13)
    X = random_rows(100, 3)
    np.testing.assert_allclose(
        Model.from_ensemble(stumps, range(4), layout="interval").raw_scores(X),
        raw_scores(stumps, X),
        rtol=1e-7,
        atol=1e-6,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feature": np.array([0, 5])}, "feature indices"),
        ({"feature": np.array([0, -1])}, "feature indices"),
        ({"feature": np.array([0.0, 1.0])}, "feature indices"),
        ({"threshold": np.array([0, np.inf])}, "threshold contains"),
        ({"right": np.array([[1, 2], [3, 1e39]])}, "right contains"),
        ({"right": np.ones((2, 3))}, "right has shape"),
        ({"left": np.ones((1, 2))}, "left has shape"),
        ({"bias": np.array([np.nan, 0])}, "bias contains"),
        (
            {"bias": np.zeros(1), "right": np.ones((2, 1))},
            "needs at least 2 classes, but its bias has 1",
        ),
        ({"nan_left": np.zeros(1)}, "nan_left must"),
    ],
)
def test_wrong_ensembles_are_refused(change, message):
    fields = {
        "feature": np.array([0, 1]),
        "threshold": np.zeros(2),
        "nan_left": np.zeros(2, bool),
        "right": np.ones((2, 2)),
        "left": None,
        "bias": np.zeros(2),
        "n_features": 5,
    }
    with pytest.raises(ValueError, match=message):
        Model.from_ensemble(Stumps(**(fields | change)), range(2))


def fields(trees):
    """Arrays of an ensemble in a form that can be compared."""
    return [None if value is None else np.asarray(value).tolist() for value in vars(trees).values()]


def test_trees_grow_truncate_and_freeze():
    whole = random_trees(30, 5, 4, mode="base", splits=(0, 30))
    builder = TreesBuilder(4, 5)
    builder.bias[:] = whole.bias
    builder.extend(whole.truncate_rounds(11))
    assert (builder.n_rounds, len(builder)) == (11, whole.rounds[11])
    early = builder.freeze()
    assert fields(early) == fields(whole.truncate_rounds(11).canonical())
    rest = random_trees(30, 5, 4, mode="base", splits=(0, 30))
    builder.truncate_rounds(0)
    builder.extend(rest)
    assert fields(builder.freeze()) == fields(whole)
    assert fields(early) == fields(whole.truncate_rounds(11))
    for array in vars(early).values():
        if isinstance(array, np.ndarray):
            assert not array.flags.writeable
    with pytest.raises(ValueError, match="cannot keep 31 of 30 rounds"):
        builder.truncate_rounds(31)


@pytest.mark.parametrize("mode", ["scalar", "base", "vector", "code"])
def test_tail_of_trees(mode):
    whole = random_trees(12, 3, 3, mode=mode)
    builder = TreesBuilder(3, 3, vector=mode == "vector", code=whole.code)
    builder.extend(whole)
    X = random_rows(20, 3)
    for start in (0, 1, int(whole.rounds[5]), len(whole)):
        tail = builder.tail(start).canonical()
        assert len(tail) == len(whole) - start
        assert tail.rounds[-1] == len(tail)
        added = raw_scores(tail, X)
        head = sum(len(tree[0]) for tree in list(whole.each())[:start])
        assert len(tail.feature) == len(whole.feature) - head
        F = np.zeros((20, 3))
        for tree in list(whole.each())[start:]:
            for i, row in enumerate(X):
                value = tree[4][leaf_number(tree, row)].astype(np.float64)
                if mode == "vector":
                    F[i] += value
                elif mode == "code":
                    F[i] += value * whole.code[tree[5]].astype(np.float64)
                else:
                    F[i, tree[5]] += value
                    if tree[6] >= 0:
                        F[i, tree[6]] -= value
        np.testing.assert_allclose(added, F, rtol=1e-12, atol=1e-12)
    builder.add_tree(
        [],
        [],
        [],
        right=[],
        leaf=[[1, 2, 3]] if mode == "vector" else [1],
        cls=-1 if mode == "vector" else 2,
    )
    assert builder.n_rounds == 12
    assert (
        builder.freeze().n_rounds
        == builder.tail(2).canonical().rounds.size - 1 + int((whole.rounds[1:] <= 2).sum())
        == 13
    )
    builder.end_round()
    assert builder.freeze().n_rounds == 13
    with pytest.raises(ValueError, match="there is no tree"):
        builder.tail(len(builder) + 1)


def test_tree_needs_a_class_or_vectors():
    for vector, arguments, message in (
        (False, ([], [], [], [], [1.0]), "needs cls"),
        (True, ([], [], [], [], [[1.0, 2.0, 3.0]], 1), "needs cls"),
        (
            False,
            ([0], [0.5], [False], [1], [1.0], 0),
            "a tree of 1 splits cannot have leaves of shape",
        ),
        (
            True,
            ([0], [0.5], [False], [1], [1.0, 2.0]),
            "a tree of 1 splits cannot have leaves of shape",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            TreesBuilder(3, 2, vector=vector).add_tree(*arguments)


def test_depths():
    rng = np.random.default_rng(0)
    builder = TreesBuilder(2, 1)
    for right in (
        [],
        [1],
        [2, 1],
        [1, 1, 1],
        [4, 2, 1, 1, 1],
        random_right(50, rng, 0),
        random_right(50, rng, 1),
    ):
        s = len(right)
        builder.add_tree([0] * s, [0.0] * s, [False] * s, right=right, leaf=[1.0] * (s + 1), cls=0)
    assert builder.freeze().depths().tolist() == [0, 1, 2, 3, 3, 50, 50]
    # Many trees, of which a few are far deeper than the rest: levels at once first, then split by split.
    rights = [random_right(int(s), rng) for s in rng.integers(0, 60, size=300)] + [
        [1] * 500,
        random_right(400, rng, 1),
    ]
    builder = TreesBuilder(2, 1)
    for right in rights:
        s = len(right)
        builder.add_tree([0] * s, [0.0] * s, [False] * s, right=right, leaf=[1.0] * (s + 1), cls=0)
    assert builder.freeze().depths().tolist() == [depth_of(list(right)) for right in rights]
    broken = builder.freeze()
    for split, wrong in ((0, 0), (len(broken.right) - 900 + 250, 400), (len(broken.right) - 1, 2)):
        right = broken.right.copy()
        right[split] = wrong
        with pytest.raises(ValueError, match="right child lies outside"):
            replace(broken, right=right).depths()


def depth_of(right):
    """By the definition."""
    if not right:
        return 0
    return 1 + max(depth_of(right[1 : right[0]]), depth_of(right[right[0] :]))


def test_depth_of_a_chain_takes_no_pass_over_the_arrays_for_every_level(monkeypatch):
    s = 100_000
    passes = []
    builder = TreesBuilder(2, 1)
    builder.add_tree(
        np.zeros(s, int),
        np.zeros(s),
        np.zeros(s, bool),
        right=np.arange(s, 0, -1),
        leaf=np.zeros(s + 1),
        cls=0,
    )
    trees = builder.freeze()
    concatenate = np.concatenate
    monkeypatch.setattr(
        np, "concatenate", lambda *arguments: passes.append(1) or concatenate(*arguments)
    )
    assert trees.depths().tolist() == [s]
    assert len(passes) < 100


def test_equal_trees_give_equal_bytes():
    a = random_trees(6, 4, 3, mode="base")
    leaf = a.leaf.copy()
    leaf[2] = 0
    a = Trees(**(vars(a) | {"leaf": leaf, "base": np.full(len(a), -1)}))
    b = Trees(
        a.offset.astype(np.int32),
        a.feature.astype(np.uint8),
        a.threshold.astype(np.float64),
        a.nan_left.astype(int),
        a.right.astype(np.int16),
        np.where(leaf == 0, np.float32(-0.0), leaf),
        a.cls.tolist(),
        None,
        a.rounds.tolist(),
        a.bias,
        4,
    )
    first = Model.from_ensemble(a, range(3)).to_bytes()
    assert first == Model.from_ensemble(b, range(3)).to_bytes()
    assert Model.from_ensemble(Model.from_bytes(first).ensemble, range(3)).to_bytes() == first


@pytest.mark.parametrize("mode", ["scalar", "base", "vector", "code"])
def test_trees_come_back_from_their_bytes(mode):
    for n_features, splits in ((3, (0, 9)), (128, (0, 9)), (129, (0, 300)), (40_000, (0, 9))):
        trees = random_trees(5, n_features, 4, mode=mode, splits=splits)
        assert fields(Model.from_ensemble(trees, range(4)).ensemble) == fields(trees)


@pytest.mark.parametrize("P", [1, 2, 9])
def test_coded_trees(P):
    """Cut, extended, by columns and in one form, with fewer and with more columns than classes."""
    rng = np.random.default_rng(P)
    code = rng.normal(size=(P, 4)).astype(np.float32)
    builder = TreesBuilder(4, 5, code=code)
    for t in range(30):
        s = t % 4
        builder.add_tree(
            rng.integers(5, size=s),
            rng.normal(size=s),
            rng.random(s) < 0.5,
            right=random_right(s, rng),
            leaf=rng.normal(size=s + 1),
            cls=t % P,
        )
        if t % 3 == 2:
            builder.end_round()
    whole = builder.freeze()
    assert not whole.code.flags.writeable
    X = random_rows(50, 5)
    model = Model.from_ensemble(whole, range(4))
    by_column = raw_scores(whole.columns(), X)
    assert by_column.shape == (50, max(2, P))
    np.testing.assert_array_equal(by_column[:, P:], 0)
    np.testing.assert_allclose(
        raw_scores(whole, X), by_column[:, :P] @ code.astype(float), rtol=1e-12, atol=1e-12
    )
    np.testing.assert_array_equal(
        Model.from_ensemble(whole.columns(), range(max(2, P))).raw_scores(X), by_column
    )
    for n in (0, 1, 7, 10):
        part = whole.truncate_rounds(n)
        again = TreesBuilder(4, 5, code=np.zeros((3, 4)))
        again.extend(part)  # with the code of what it takes over
        assert fields(again.freeze()) == fields(part)
        np.testing.assert_array_equal(model.truncate(n).raw_scores(X), raw_scores(part, X))
    stages = list(model.staged_decision_function(X))
    assert len(stages) == 10
    for n, stage in enumerate(stages, 1):
        np.testing.assert_array_equal(stage, raw_scores(whole.truncate_rounds(n), X))
    minus = Trees(**(vars(whole) | {"code": np.where(code < 0, code, -0.0)}))
    plus = Trees(**(vars(whole) | {"code": np.where(code < 0, code, 0.0).astype(np.float64)}))
    assert (
        Model.from_ensemble(minus, range(4)).to_bytes()
        == Model.from_ensemble(plus, range(4)).to_bytes()
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"code": np.ones((2, 3))}, "code has shape"),
        ({"code": np.ones((0, 2))}, "code needs at least one row"),
        ({"code": np.ones((1, 2))}, "cls must be from 0 to 0"),
        ({"code": np.ones((3, 2)), "cls": np.array([0, 3])}, "cls must be from 0 to 2"),
        ({"code": np.array([[1, 2], [3, np.nan]])}, "code contains"),
        ({"code": np.array([[1, 2], [3, 1e39]])}, "code contains"),
        (
            {"code": np.ones((2, 2)), "cls": None, "leaf": np.ones((5, 2))},
            "code needs at least one row, and trees with",
        ),
        (
            {"code": np.ones((2, 2)), "base": np.array([1, -1])},
            "base must be None or -1 if there is a code",
        ),
        ({"feature": np.array([0, 5, 0])}, "feature indices"),
        ({"threshold": np.array([0, np.inf, 0])}, "threshold contains"),
        ({"threshold": np.zeros(2)}, "threshold has shape"),
        ({"right": np.array([1, 1])}, "right must hold 3 integers"),
        ({"right": np.ones(3)}, "right must hold 3 integers"),
        ({"right": np.array([0, 1, 1])}, "right child lies outside"),
        ({"right": np.array([3, 1, 1])}, "right child lies outside"),
        ({"offset": np.array([0, 3, 3]), "right": np.array([2, 2, 1])}, "right child lies outside"),
        ({"offset": np.array([0, 2])}, "offset must increase from 0 to 3"),
        ({"offset": np.array([0, 4, 3])}, "offset must increase from 0 to 3"),
        ({"offset": np.zeros(0, dtype=int)}, "offset must increase from 0 to 3"),
        ({"rounds": np.array([0, 1])}, "rounds must increase from 0 to 2"),
        ({"rounds": np.array([0, 3, 2])}, "rounds must increase from 0 to 2"),
        ({"leaf": np.array([1, 2, 3, 4, 1e39])}, "leaf contains"),
        ({"leaf": np.ones(4)}, "leaf has shape"),
        ({"cls": None}, "leaf has shape"),
        ({"cls": np.array([0, 2])}, "cls must be from 0 to 1"),
        ({"cls": np.array([0, -1])}, "cls must be from 0 to 1"),
        ({"base": np.array([1, 2])}, "base must be from 0 to 1, or -1"),
        ({"base": np.array([1, -2])}, "base must be from 0 to 1, or -1"),
        ({"base": np.array([1, 1])}, "base must not be the tree's own class"),
        (
            {"cls": None, "leaf": np.ones((5, 2)), "base": np.array([0, -1])},
            "base must be None or -1",
        ),
        ({"bias": np.zeros(1)}, "needs at least 2 classes, but its bias has 1"),
        ({"nan_left": np.zeros(1)}, "nan_left must"),
    ],
)
def test_wrong_trees_are_refused(change, message):
    good = {
        "offset": np.array([0, 2, 3]),
        "feature": np.array([0, 1, 4]),
        "threshold": np.zeros(3),
        "nan_left": np.zeros(3, bool),
        "right": np.array([2, 1, 1]),
        "leaf": np.ones(5),
        "cls": np.array([0, 1]),
        "base": None,
        "rounds": np.array([0, 1, 2]),
        "bias": np.zeros(2),
        "n_features": 5,
    }
    Model.from_ensemble(Trees(**good), range(2))
    with pytest.raises(ValueError, match=message):
        Model.from_ensemble(Trees(**(good | change)), range(2))
