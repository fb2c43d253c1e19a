"""Constraints of vector trees: features that meet on paths, and scores that rise or fall."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import log_loss

from pymcboost import VectorTreeBoostClassifier, load_model
from pymcboost.learners.constraints import MOST_GROUPS, Ordered
from pymcboost.registry import ALGORITHMS, get_class

PLAIN = {"n_estimators": 12, "random_state": 0, "calibrate": None}


def data(K, d=5, m=900, seed=1, missing=False):
    """Classes that follow the features both ways: constraints have much to hold back."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d)).astype(np.float32)
    score = np.column_stack(
        [np.sin(2 * X[:, k % d] + k) + X[:, (k + 1) % d] * X[:, (k + 2) % d] for k in range(K)]
    )
    y = (score + rng.gumbel(size=score.shape) * 0.5).argmax(axis=1)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


def paths(model):
    """Sets of columns on the paths to all leaves."""
    trees = model.ensemble
    split_paths = []
    for t in range(len(trees.offset) - 1):
        begin = int(trees.offset[t])
        end = int(trees.offset[t + 1])
        feature, right = trees.feature[begin:end], trees.right[begin:end]
        waiting = [(0, end - begin, frozenset())]
        while waiting:
            first, last, above = waiting.pop()
            if first == last:
                split_paths.append(above)
                continue
            here = above | {int(feature[first])}
            middle = first + int(right[first])
            waiting += [(first + 1, middle, here), (middle, last, here)]
    return split_paths


@pytest.mark.parametrize("kind", ["dense", "sparse", "drawn"])
def test_columns_of_a_path_are_in_one_group(kind):
    X, y = data(6, d=8)
    X = np.round(X) if kind == "sparse" else X
    options = (
        {"max_features": 0.4, "max_features_tree": 0.8}
        if kind == "drawn"
        else {"max_features": 1.0}
    )
    model = VectorTreeBoostClassifier(**{**PLAIN, "n_estimators": 40}, **options, max_leaf_nodes=20)
    X = sparse.csr_matrix(X) if kind == "sparse" else X
    groups = [[0, 1], [1, 2, 3], [4]]
    allowed = [*map(set, groups), {5, 6, 7}]
    free = paths(model.fit(X, y).model_)
    assert not all(any(path <= group for group in allowed) for path in free)
    bound = paths(clone(model).set_params(interaction_cst=groups).fit(X, y).model_)
    assert all(any(path <= group for group in allowed) for path in bound)
    assert {1, 2, 3} in bound or {1, 2} in bound
    assert max(map(len, bound)) > 1 and set().union(*bound) > {0, 1, 4}


def test_one_group_of_all_is_no_constraint_and_threads_do_not_matter():
    X, y = data(4)
    plain = VectorTreeBoostClassifier(**PLAIN).fit(X, y)
    same = VectorTreeBoostClassifier(**PLAIN, interaction_cst=[[0, 1, 2, 3, 4]]).fit(X, y)
    assert np.array_equal(plain.decision_function(X), same.decision_function(X))
    both = {"interaction_cst": [[0, 1]], "monotonic_cst": {0: (1, 1)}}
    bound = [VectorTreeBoostClassifier(**PLAIN, **both, n_jobs=n) for n in (1, 3)]
    assert bound[0].fit(X, y).model_.to_bytes() == bound[1].fit(X, y).model_.to_bytes()


def raw(model, X):
    return model.model_.raw_scores(X)


def differences(scores, k):
    return scores[:, [k]] - scores


def pairs(X, column, rng):
    """Rows, and the same rows with a larger value in one column; missing values stay out of it."""
    low = X[rng.integers(len(X), size=4000)].copy()
    high = low.copy()
    values = rng.normal(size=(len(low), 2)).astype(np.float32) * 1.5
    low[:, column], high[:, column] = values.min(axis=1), values.max(axis=1)
    return low, high


@pytest.mark.parametrize(
    ("K", "signs"),
    [
        (2, {0: 1}),
        (2, {0: (0, 1), 1: (1, 1)}),
        (3, {0: (2, -1)}),
        (5, {0: (1, 1), 1: (1, -1), 2: (1, 1)}),
        (5, {0: (1, 1), 1: (3, -1), 3: (0, 1)}),
        (20, {1: (4, 1), 2: (7, -1)}),
    ],
)
def test_scores_of_random_pairs_are_in_order(K, signs):
    X, y = data(K, missing=K == 3)
    model = VectorTreeBoostClassifier(**PLAIN, learning_rate=0.3, max_leaf_nodes=25)
    free = clone(model).fit(X, y)
    bound = clone(model).set_params(monotonic_cst=signs).fit(X, y)
    rng = np.random.default_rng(0)
    broken = 0
    for column, one in signs.items():
        k, sign = one if isinstance(one, tuple) else (1, one)
        low, high = pairs(X, column, rng)
        broken += (
            sign * (differences(raw(free, high), k) - differences(raw(free, low), k))
        ).min() < -1e-6
        rise = sign * (differences(raw(bound, high), k) - differences(raw(bound, low), k))
        assert rise.min() >= -1e-12 and rise.max() > 0.05
        p = [sign * bound.predict_proba(part)[:, k] for part in (low, high)]
        assert (p[1] - p[0]).min() >= -1e-12
    assert broken, "the test must see a model that breaks the constraint without it"
    assert bound.score(X, y) > np.bincount(y).max() / len(y) + 0.05


def test_every_tree_keeps_the_order_exactly():
    """Also in float32, as the file has it: differences of its numbers are exact."""
    X, y = data(4)
    model = (
        VectorTreeBoostClassifier(**PLAIN, monotonic_cst={0: (1, 1), 2: (3, -1)}).fit(X, y).model_
    )
    rng = np.random.default_rng(0)
    for n in range(1, model.n_rounds + 1):
        for column, k, sign in ((0, 1, 1), (2, 3, -1)):
            scores = []
            for part in pairs(X, column, rng):
                scores.append(
                    model.truncate(n).raw_scores(part) - model.truncate(n - 1).raw_scores(part)
                )
            low, high = (
                np.round(score * 2.0**60) for score in scores
            )  # what adding up has rounded is far below
            assert (sign * (differences(high, k) - differences(low, k))).min() >= -(2.0**15)
    leaves = model.ensemble.leaf.astype(np.float64)
    assert np.array_equal(leaves * 2.0**40, np.rint(leaves * 2.0**40))


@pytest.mark.parametrize("K", [2, 5])
def test_a_constraint_that_is_true_does_not_cost(K):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 5)).astype(np.float32)
    score = np.column_stack([np.sin(2 * X[:, 2 + k % 3] + k) for k in range(K)])
    score[:, 1] = 1.5 * np.tanh(X[:, 0])
    y = (score + 0.7 * rng.gumbel(size=score.shape)).argmax(axis=1)
    model = VectorTreeBoostClassifier(n_estimators=60, random_state=0, calibrate=None)
    losses = []
    for signs in (None, {0: (1, 1)}):
        fitted = clone(model).set_params(monotonic_cst=signs).fit(X[:1000], y[:1000])
        losses.append(log_loss(y[1000:], fitted.predict_proba(X[1000:])))
    assert losses[1] < losses[0]


def squared(y, scores):
    return scores - np.eye(scores.shape[1])[y], np.ones_like(scores)


def test_each_label_is_bounded_by_its_own_score():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)).astype(np.float32)
    up, other = (1 / (1 + np.exp(-3 * X))).T
    y = (rng.random((400, 3)) < np.column_stack((up, 1 - other, 4 * other * (1 - other)))).astype(
        int
    )
    model = VectorTreeBoostClassifier(**{**PLAIN, "n_estimators": 40, "loss": "logistic"})
    losses = []
    low, high = pairs(X, 0, rng)
    for signs in (None, {0: (0, 1), 1: (1, -1)}):
        model.set_params(monotonic_cst=signs).fit(X[:200], y[:200])
        losses.append(log_loss(y[200:].ravel(), model.predict_proba(X[200:]).ravel()))
    assert losses[1] < losses[0]
    rise = model.predict_proba(high)[:, 0] - model.predict_proba(low)[:, 0]
    assert rise.min() >= 0 and rise.max() > 0.5
    low, high = pairs(X, 1, rng)
    assert (raw(model, high)[:, 1] <= raw(model, low)[:, 1]).all()
    assert 0 < (raw(model, high)[:, 2] > raw(model, low)[:, 2]).mean() < 1, "other labels are free"


def test_a_loss_of_ones_own_that_a_shift_changes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3)).astype(np.float32)
    y = (
        np.column_stack((2 * X[:, 0], 0 * X[:, 0], np.sin(2 * X[:, 1]))) + rng.gumbel(size=X.shape)
    ).argmax(axis=1)
    model = VectorTreeBoostClassifier(**{**PLAIN, "n_estimators": 80}, loss=squared)
    losses = []
    for signs in (None, {0: (0, 1)}):
        scores = (
            model.set_params(monotonic_cst=signs).fit(X[:400], y[:400]).decision_function(X[400:])
        )
        losses.append(((scores - np.eye(3)[y[400:]]) ** 2).mean())
    assert losses[1] < losses[0]
    assert model.decision_function(X).sum(axis=1).mean() == pytest.approx(1, abs=0.05)
    low, high = pairs(X, 0, rng)
    rise = differences(raw(model, high), 0) - differences(raw(model, low), 0)
    assert rise.min() >= -1e-12 and rise.max() > 0.5


def test_without_splits_on_the_columns_leaves_stay_as_they_are():
    value = np.array([[0.1, -0.1], [-0.3, 0.3]])
    tree = np.array([4]), np.array([1]), np.array([3, 5])
    assert Ordered({0: (1, 1)})(value, *tree) is value
    moved = Ordered({4: (1, -1)})(value, *tree)
    assert np.ptp(moved[:, 1] - moved[:, 0]) == 0
    assert moved[0] == pytest.approx([-0.1, 0.1], abs=1e-6)  # the middle between both sides
    kept = Ordered({4: (1, 1)})(value, *tree)
    assert kept == pytest.approx(value, abs=1e-6) and np.array_equal(kept, kept.astype(np.float32))


def test_models_without_constraints_do_not_name_them_and_files_keep_them(tmp_path):
    X, y = data(3)
    plain = VectorTreeBoostClassifier(**PLAIN).fit(X, y)
    assert not {"monotonic_cst", "interaction_cst"} & set(plain.model_.meta["params"])
    bound = VectorTreeBoostClassifier(
        **PLAIN, monotonic_cst={1: (2, 1)}, interaction_cst=[[0, 1]]
    ).fit(X, y)
    bound.save(tmp_path / "m.mcb")
    saved = load_model(tmp_path / "m.mcb")
    assert saved.meta["params"]["monotonic_cst"] == {"1": [2, 1]}
    assert saved.meta["params"]["interaction_cst"] == [[0, 1]]
    assert np.array_equal(saved.predict_proba(X), bound.predict_proba(X))
    with pytest.raises(
        ValueError, match="refit_leaves does not support monotonic_cst; train a new model"
    ):
        bound.refit_leaves(X, y)


def test_labels_that_are_text():
    X, y = data(3)
    names = np.array(["high", "low", "middle"])[y]
    scores = [
        VectorTreeBoostClassifier(**PLAIN, monotonic_cst={0: one})
        .fit(X, labels)
        .decision_function(X)
        for labels, one in ((y, (1, 1)), (names, ("low", 1)))
    ]
    assert np.array_equal(*scores)


def test_columns_by_name():
    X, y = data(3)
    frame = pd.DataFrame(X, columns=["age", "size", "width", "height", "weight"])
    named = {
        "monotonic_cst": {"size": (2, 1), 3: (1, -1)},
        "interaction_cst": [["age", "size"], [2, "height"]],
    }
    numbered = {"monotonic_cst": {1: (2, 1), 3: (1, -1)}, "interaction_cst": [[0, 1], [2, 3]]}
    fits = [
        VectorTreeBoostClassifier(**PLAIN, **one).fit(frame, y).model_ for one in (named, numbered)
    ]
    assert fits[0].raw_scores(frame).tobytes() == fits[1].raw_scores(frame).tobytes()
    model = VectorTreeBoostClassifier(
        **{**PLAIN, "n_estimators": "auto"}, n_iter_no_change=2, learning_rate=1.0, **named
    ).fit(frame, y)
    assert model.n_estimators_ > 0
    for wrong, message in (
        (
            {"monotonic_cst": {"sise": (2, 1)}},
            "monotonic_cst: 'sise' is not a column; .*0 to 4, .*'age', 'size'",
        ),
        ({"interaction_cst": [["age", "sise"]]}, "interaction_cst: 'sise' is not a column"),
        (
            {"monotonic_cst": {"age": (2, 1), 0: (2, -1)}},
            "gives column 0 twice, by number and by name",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            VectorTreeBoostClassifier(**PLAIN, **wrong).fit(frame, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"monotonic_cst": {0: 1}}, "with 3 classes, a sign is not enough"),
        ({"monotonic_cst": {0: (7, 1)}}, "{0: (7, 1)} is not allowed; it must be {column: (class label, +1 or -1)}"),
        ({"monotonic_cst": {0: (1, 2)}}, "{0: (1, 2)} is not allowed; it must be"),
        ({"monotonic_cst": {0: "up"}}, "{0: 'up'} is not allowed; it must be"),
        ({"monotonic_cst": {5: (1, 1)}}, "monotonic_cst: 5 is not a column; columns are numbers"),
        ({"monotonic_cst": {"age": (1, 1)}}, "'age' is not a column; columns are numbers from 0 to 4, because"),
        ({"monotonic_cst": [1, 0]}, "monotonic_cst=[1, 0] is not allowed; it must be {column: (class"),
        ({"interaction_cst": [[0, 5]]}, "interaction_cst: 5 is not a column; columns are numbers from 0 to 4"),
        ({"interaction_cst": [[0], []]}, "interaction_cst: group 1 is empty"),
        ({"interaction_cst": "pairwise"}, "interaction_cst='pairwise' is not allowed; it must be a list of groups"),
        ({"interaction_cst": [0, 1]}, "interaction_cst=[0, 1] is not allowed; it must be a list of groups"),
        ({"interaction_cst": [[0]] * MOST_GROUPS}, "interaction_cst has 65 groups, including one for the columns"),
    ],
)  # fmt: skip
def test_wrong_constraints_are_refused(params, message):
    X, y = data(3)
    with pytest.raises(ValueError, match=re.escape(message)):
        VectorTreeBoostClassifier(**PLAIN, **params).fit(X, y)


def test_64_groups():
    X, y = data(3)
    groups = [[i % 5] for i in range(MOST_GROUPS)]
    assert (
        max(
            map(
                len,
                paths(VectorTreeBoostClassifier(**PLAIN, interaction_cst=groups).fit(X, y).model_),
            )
        )
        == 1
    )


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "vector-tree"])
def test_other_algorithms_refuse_them_by_name(name):
    for constraint in ("monotonic_cst", "interaction_cst"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{constraint}'"):
            get_class(name)(**{constraint: None})
