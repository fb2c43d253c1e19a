"""Models of LightGBM and XGBoost: their scores, and files that are damaged or hold what a model cannot."""

import bz2
import gzip
import json
import lzma
import math
import os
import random
import re
import struct

import numpy as np
import pytest
from reference.scoring import random_right

from pymcboost import Model, ModelFormatError
from pymcboost.export import foreign, from_lightgbm, from_xgboost, ubjson

ZERO = 1.0000000180025095e-35  # float32(1e-35), up to which LightGBM takes values as 0
CHOICES = (0, ZERO, -ZERO, 0.1, -0.3, 2.5, 1e300, np.inf)


class Node:
    """A tree as one reads it: a split with two children, or a leaf."""

    def __init__(self, rng, splits, d, value):
        self.value = None if splits else value()
        if splits:
            low = int(rng.integers(splits))
            self.feature = int(rng.integers(d))
            self.threshold = float(rng.choice(CHOICES))
            self.default = int(rng.integers(2))
            self.missing = int(rng.choice((0, 2)))
            self.left = Node(rng, low, d, value=value)
            self.right = Node(rng, splits - 1 - low, d, value=value)

    def leaf(self, x, goes_left):
        return (
            self.value
            if self.value is not None
            else (self.left if goes_left(self, x[self.feature]) else self.right).leaf(x, goes_left)
        )

    def each(self):
        return [self, *self.left.each(), *self.right.each()] if self.value is None else [self]


def rows(m, d):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(m, d)).astype(np.float32)
    before = np.nextafter(np.float32(0.1), np.float32(0))
    for value in (np.nan, 0.0, -0.0, 0.1, before, 2.5, -0.3, 3e38, 1e-40, ZERO, -ZERO):
        X[rng.random(X.shape) < 0.08] = value
    return X


def lightgbm_left(node, x):
    if np.isnan(x):
        return bool(node.default) if node.missing == 2 else node.threshold >= 0
    return (0 if abs(float(x)) <= ZERO else float(x)) <= node.threshold


def lightgbm_text(trees, k, d, objective):
    per_round = 1 if objective.startswith("binary") else k
    head = [
        "tree",
        "version=v4",
        f"num_class={per_round}",
        f"num_tree_per_iteration={per_round}",
        "label_index=0",
    ]
    head += [
        f"max_feature_idx={d - 1}",
        f"objective={objective}",
        "feature_names=" + " ".join("abcdef"[:d]),
        "",
    ]
    for number, tree in enumerate(trees):
        nodes = tree.each()
        splits, leaves = (
            [node for node in nodes if (node.value is None) == want] for want in (True, False)
        )
        at = {id(node): i for i, node in enumerate(splits)} | {
            id(node): ~i for i, node in enumerate(leaves)
        }
        line = lambda of, where=splits: " ".join(str(of(node)) for node in where)  # noqa: E731
        head += [f"Tree={number}", f"num_leaves={len(leaves)}", "num_cat=0"]
        head += [f"split_feature={line(lambda node: node.feature)}"]
        head += [f"threshold={line(lambda node: repr(node.threshold))}"]
        head += [f"decision_type={line(lambda node: 2 * node.default + 4 * node.missing)}"]
        head += [f"left_child={line(lambda node, at=at: at[id(node.left)])}"]
        head += [f"right_child={line(lambda node, at=at: at[id(node.right)])}"]
        head += [
            f"leaf_value={line(lambda node: repr(node.value), leaves)}",
            "is_linear=0",
            "shrinkage=1",
            "",
            "",
        ]
    return "\n".join(
        [*head, "end of trees", "", "feature_importances:", "parameters:", "end of parameters", ""]
    )


def lightgbm(objective="multiclass num_class:3", n=12, k=3):
    rng = np.random.default_rng(1)
    trees = [Node(rng, int(rng.integers(0, 9)), 4, value=rng.normal) for _ in range(n)]
    return trees, lightgbm_text(trees, k, 4, objective=objective)


def imported(read, folder, data):
    path = folder / "model"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read(path)


@pytest.mark.parametrize(
    "objective", ["multiclass num_class:3", "multiclassova num_class:3 sigmoid:1"]
)
def test_lightgbm(tmp_path, objective):
    trees, text = lightgbm(objective)
    model = imported(from_lightgbm, tmp_path, text)
    X = rows(300, 4)
    expected = np.array(
        [[sum(t.leaf(x, lightgbm_left) for t in trees[c::3]) for c in range(3)] for x in X]
    )
    error = model.meta["score_error"]
    assert 0 < error < 1e-5 and np.abs(model.raw_scores(X) - expected).max() <= error
    assert (model.n_rounds, model.n_learners, model.feature_names) == (4, 12, list("abcd"))
    assert model.link == ("softmax" if objective.startswith("multiclass ") else "none")
    assert model.classes_.tolist() == [0, 1, 2]


def test_lightgbm_of_two_classes(tmp_path):
    trees, text = lightgbm("binary sigmoid:2")
    model = imported(from_lightgbm, tmp_path, text.replace("\n", "\r\n"))
    X = rows(300, 4)
    expected = np.array([sum(t.leaf(x, lightgbm_left) for t in trees) for x in X])
    assert np.abs(model.decision_function(X) - expected).max() <= model.meta["score_error"]
    np.testing.assert_allclose(
        model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-2 * expected)), rtol=1e-5
    )
    expected = np.array([trees[0].leaf(x, lightgbm_left) for x in X])
    first = model.truncate(1).predict_proba(X)
    np.testing.assert_allclose(first[:, 1], 1 / (1 + np.exp(-2 * expected)), rtol=1e-5)
    np.testing.assert_allclose(first, next(model.staged_predict_proba(X)), rtol=1e-14)
    for temperature in 3.0, None:
        other = model.with_temperature(temperature).truncate(1)
        np.testing.assert_array_equal(other.predict_proba(X), first)
        assert "first_temperature" not in other.meta


def test_lightgbm_zeros_that_are_missing(tmp_path):
    """They are where the threshold sends them, or the file is refused."""
    text = lightgbm_text(
        [Node(np.random.default_rng(0), 1, 1, value=lambda: 1.0)] * 3,
        3,
        1,
        objective="multiclass num_class:3",
    )
    for threshold, decision, fine in (
        (0.5, 2, True),
        (-0.5, 0, True),
        (0.5, 0, False),
        (-0.5, 2, False),
        (0, 2, True),
        (-1e-36, 0, True),
        (-ZERO, 0, True),
        (0, 0, False),
        (-ZERO, 2, False),
    ):
        found = re.sub(r"threshold=\S*", f"threshold={threshold}", text)
        found = re.sub(r"decision_type=\d*", f"decision_type={decision + 4}", found)
        if fine:
            assert (
                imported(from_lightgbm, tmp_path, found).ensemble.nan_left.tolist()
                == [decision == 2] * 3
            )
        else:
            with pytest.raises(ModelFormatError, match="zero_as_missing"):
                imported(from_lightgbm, tmp_path, found)


@pytest.mark.parametrize(
    "threshold", [0.1, 0.3, -0.1, 2.5, 1e-35, -1e-46, 1 / 3, 16777217.0, 1e300, ZERO, -ZERO, 0.0]
)
def test_lightgbm_thresholds_between_two_float32(tmp_path, threshold):
    tree = Node(np.random.default_rng(0), 1, 1, value=lambda: 1.0)
    tree.threshold = threshold
    tree.left.value = -1.0
    tree.right.value = 1.0
    model = imported(
        from_lightgbm, tmp_path, lightgbm_text([tree], 2, 1, objective="binary sigmoid:1")
    )
    with np.errstate(over="ignore"):
        near = min(np.float32(threshold), np.finfo(np.float32).max)
    at = np.array([near, ZERO, -ZERO], dtype=np.float32)
    X = np.concatenate(
        [at, np.nextafter(at, np.float32(-np.inf)), np.nextafter(at, np.float32(4e37))]
    )[:, None]
    assert (model.decision_function(X) < 0).tolist() == [lightgbm_left(tree, x) for x in X[:, 0]]


REFUSED = [
    ("tree\n", "forest\n", "does not begin with the line 'tree'"),
    ("version=v4", "version=v9", "the text has version 'v9'"),
    ("end of trees", "", "cut short"),
    ("objective=multiclass", "objective=regression", "'regression' is not one of a classifier"),
    ("label_index=0", "average_output", "a random forest"),
    ("label_index=0", "news=0", "the head has the unknown key 'news'"),
    ("label_index=0", "news", "the head has the unknown key 'news'"),
    ("num_class:3", "num_class:3 news:2", "the objective has the unknown key 'news'"),
    ("is_linear=0", "news=0", "tree 0: the tree has the unknown key 'news'"),
    ("num_class=3", "num_class=1", "num_class is '1'; it must be an integer from 2 to 65535"),
    ("num_class=3", "num_class=99999999999999999999", "num_class is '99999999999999999999'"),
    ("num_tree_per_iteration=3", "num_tree_per_iteration=4", "it must be an integer from 3 to 3"),
    ("max_feature_idx=3", "max_feature_idx=-1", "max_feature_idx is '-1'"),
    ("max_feature_idx=3", "max_feature_idx=1", "feature numbers must be from 0 to 1"),
    ("\nTree=11\n", "\n", "there are 11 trees, which is not a multiple of the 3"),
    ("num_cat=0", "num_cat=1", "tree 0: cat_boundaries must hold 2 numbers, but has 0"),
    ("num_cat=0", "num_cat=-1", "tree 0: num_cat is '-1'; it must be an integer from 0 to"),
    ("is_linear=0", "is_linear=1", "tree 0: this is a linear tree"),
    ("num_leaves=5", "num_leaves=4", "must hold 3 numbers, but has 4"),
    ("num_leaves=5", "num_leaves=1000000000", "num_leaves is '1000000000'"),
    ("leaf_value=", "leaf_value=x ", "leaf_value holds 'x "),
    ("leaf_value=", "leaf_value=nan ", "leaf_value must hold"),
    (r"leaf_value=[^ \n]+", "leaf_value=1e39", "a leaf is not finite as float32"),
    (r"leaf_value=[^ \n]+", "leaf_value=nan", "leaf_value holds NaN"),
    (r"\nthreshold=[^ \n]+", "\nthreshold=-1e300", "a threshold is not finite as float32"),
    (r"left_child=1", "left_child=0", "is reached by two paths"),
    (r"left_child=1", "left_child=77", "left_child must hold integers from"),
    (r"left_child=1", "left_child=1.5", "left_child must hold integers from"),
    (r"decision_type=\d+", "decision_type=9", "decision_type marks a categorical split"),
]


@pytest.mark.parametrize("old, new, message", REFUSED)
def test_lightgbm_refusals(tmp_path, old, new, message):
    text = lightgbm()[1]
    assert re.search(old, text)
    with pytest.raises(ModelFormatError, match=re.escape(message)) as caught:
        imported(from_lightgbm, tmp_path, re.sub(old, new, text, count=1))
    assert str(caught.value).startswith(str(tmp_path / "model: "))


def xgboost_dict(trees, k, d, vector=False, objective="multi:softprob"):
    found = []
    for number, tree in enumerate(trees):
        nodes = tree.each()
        at = {id(node): i for i, node in enumerate(nodes)}
        leaves = [node for node in nodes if node.value is not None]
        column = lambda of, leaf: [leaf(n) if n.value is not None else of(n) for n in nodes]  # noqa: B023, E731
        one = {
            "id": number,
            "left_children": column(lambda n, at=at: at[id(n.left)], lambda n: -1),
            "right_children": column(
                lambda n, at=at: at[id(n.right)],
                lambda n, leaves=leaves: leaves.index(n) if vector else -1,
            ),
            "split_indices": column(lambda n: n.feature, lambda n: 0),
            "split_conditions": column(
                lambda n: n.threshold, lambda n: 1e-45 if vector else n.value
            ),
            "default_left": column(lambda n: n.default, lambda n: 0),
            "split_type": [0] * len(nodes),
            "tree_param": {
                "num_nodes": str(len(nodes)),
                "size_leaf_vector": str(k if vector else 1),
            },
        }
        if vector:
            one["leaf_weights"] = [value for leaf in leaves for value in leaf.value]
        found.append(one)
    binary = objective == "binary:logistic"
    per_round = 1 if binary or vector else k
    return {
        "learner": {
            "feature_names": list("abcd"),
            "gradient_booster": {
                "model": {
                    "trees": found,
                    "tree_info": [t % per_round for t in range(len(trees))],
                    "iteration_indptr": list(range(0, len(trees) + 1, per_round)),
                },
                "name": "gbtree",
            },
            "learner_model_param": {
                "base_score": "[2.5E-1]" if binary else "[1E0,-2E0,5E-1]",
                "num_class": "0" if binary else str(k),
                "num_feature": str(d),
                "num_target": "1",
            },
            "objective": {"name": objective},
        },
        "version": [3, 4, 1],
    }


def small(rng):
    return lambda: float(np.float32(rng.normal()))


def xgboost(vector=False, objective="multi:softprob", n=12):
    rng = np.random.default_rng(2)
    value = (lambda: [small(rng)() for _ in range(3)]) if vector else small(rng)
    trees = [Node(rng, int(rng.integers(0, 9)), 4, value=value) for _ in range(n)]
    for tree in trees:
        for node in tree.each():
            if node.value is None:
                node.threshold = float(np.float32(min(node.threshold, 3e38)))
    return trees, xgboost_dict(trees, 3, 4, vector=vector, objective=objective)


def xgboost_left(node, x):
    return bool(node.default) if np.isnan(x) else x < np.float32(node.threshold)


def ubj(value):
    """A value in UBJSON, lists of numbers as typed arrays."""
    if isinstance(value, dict):
        return b"{" + b"".join(ubj(key)[1:] + ubj(item) for key, item in value.items()) + b"}"
    if isinstance(value, str):
        return b"SL" + struct.pack(">q", len(value.encode())) + value.encode()
    if isinstance(value, list) and value and all(type(item) in (int, float) for item in value):
        floats = any(type(item) is float for item in value)
        array = np.array(value, dtype=">f4" if floats else ">i8")
        return (
            b"[$"
            + (b"d" if floats else b"L")
            + b"#L"
            + struct.pack(">q", len(value))
            + array.tobytes()
        )
    if isinstance(value, list):
        return b"[" + b"".join(map(ubj, value)) + b"]"
    return b"l" + struct.pack(">i", value)


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("objective", ["multi:softprob", "binary:logistic"])
def test_xgboost(tmp_path, vector, objective):
    if vector and objective == "binary:logistic":
        return
    trees, actual = xgboost(vector, objective)
    X = rows(300, 4)
    model = imported(from_xgboost, tmp_path, json.dumps(actual))
    assert imported(from_xgboost, tmp_path, ubj(actual)).to_bytes() == model.to_bytes()
    leaves = np.array([[t.leaf(x, xgboost_left) for t in trees] for x in X])
    if objective == "binary:logistic":
        scores = model.decision_function(X)
        expected = leaves.sum(axis=1) + np.log(1 / 3)
        np.testing.assert_allclose(
            model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-expected)), rtol=1e-6
        )
    else:
        sums = (
            leaves.sum(axis=1)
            if vector
            else np.stack([leaves[:, c::3].sum(axis=1) for c in range(3)], axis=1)
        )
        scores = model.raw_scores(X)
        expected = sums + [1, -2, 0.5]
    assert np.abs(scores - expected).max() <= model.meta["score_error"] < 1e-4
    assert (model.n_learners, model.n_rounds) == (
        12,
        4 if objective != "binary:logistic" and not vector else 12,
    )
    assert model.feature_names == list("abcd")


def changed(found, path, value):
    found = json.loads(json.dumps(found))
    *path, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    inner = found
    for key in path:
        inner = inner[key]
    inner[last] = value
    return json.dumps(found)


LEARNER = "learner/"
MODEL = "learner/gradient_booster/model/"
WRONG = [
    ("learner", [], "learner is missing"),
    (
        f"{LEARNER}objective/name",
        "reg:squarederror",
        "the objective 'reg:squarederror' is not supported",
    ),
    (f"{LEARNER}gradient_booster/name", "gblinear", "the booster 'gblinear' cannot be imported"),
    ("news", 1, "the file has the unknown key 'news'"),
    (f"{LEARNER}news", 1, "learner has the unknown key 'news'"),
    (f"{LEARNER}gradient_booster/news", [1.0], "gradient_booster has the unknown key 'news'"),
    (f"{LEARNER}learner_model_param/news", "1", "learner_model_param has the unknown key 'news'"),
    (f"{LEARNER}objective/news", {}, "objective has the unknown key 'news'"),
    (
        f"{LEARNER}objective/reg_loss_param",
        {"news": "1"},
        "reg_loss_param has the unknown key 'news'",
    ),
    (f"{MODEL}news", {}, "model has the unknown key 'news'"),
    (f"{MODEL}gbtree_model_param", {"news": "1"}, "gbtree_model_param has the unknown key 'news'"),
    (f"{MODEL}cats", {"news": "1"}, "cats has the unknown key 'news'"),
    (f"{MODEL}trees/2/news", [1], "trees has the unknown key 'news'"),
    (f"{MODEL}trees/2/tree_param/news", "1", "tree_param has the unknown key 'news'"),
    (f"{MODEL}weight_drop", [1.0] * 11, "weight_drop must hold 12 numbers"),
    (f"{MODEL}weight_drop", [1.0] * 11 + [math.nan], "weight_drop must hold finite numbers"),
    (
        f"{LEARNER}learner_model_param/num_class",
        "0",
        "num_class is 0, which does not fit multi:softprob",
    ),
    (f"{LEARNER}learner_model_param/num_class", "9" * 30, "num_class is '9999999999"),
    (
        f"{LEARNER}learner_model_param/num_target",
        "2",
        "num_target is '2'; it must be an integer from 1 to 1",
    ),
    (f"{LEARNER}learner_model_param/num_feature", "2", "feature numbers must be from 0 to 1"),
    (f"{LEARNER}learner_model_param/num_feature", 4.5, "num_feature is '4.5'"),
    (f"{LEARNER}learner_model_param/base_score", "[1,2]", "base_score is '[1,2]'"),
    (f"{LEARNER}learner_model_param/base_score", "nan", "base_score is 'nan'"),
    (f"{MODEL}tree_info", [0] * 11, "tree_info must hold 12 numbers"),
    (f"{MODEL}tree_info/0", 3, "tree_info must hold classes below 3"),
    (
        f"{MODEL}iteration_indptr/1",
        0,
        "iteration_indptr must increase from 0 to the number of trees, 12",
    ),
    (
        f"{LEARNER}attributes",
        {"best_iteration": "4"},
        "best_iteration is '4'; it must be an integer from 0 to 3",
    ),
    (f"{LEARNER}attributes", {"best_iteration": "-1"}, "best_iteration is '-1'"),
    (f"{LEARNER}attributes", {"best_iteration": "1.5"}, "best_iteration is '1.5'"),
    (f"{LEARNER}attributes", [], "attributes is missing"),
    (f"{MODEL}trees", {}, "trees is missing"),
    (f"{MODEL}trees/2", "tree", "tree 2: tree_param is missing"),
    (f"{MODEL}trees/2/tree_param/num_nodes", "1000000000", "tree 2: num_nodes is '1000000000'"),
    (
        f"{MODEL}trees/2/split_type/0",
        1,
        "tree 2: node 0 is a categorical split that is missing from",
    ),
    (
        f"{MODEL}trees/2/split_type/0",
        2,
        "tree 2: split_type is 2; supported are 0 (numerical) and 1 (categorical)",
    ),
    (f"{MODEL}trees/2/split_conditions/0", "x", "tree 2: split_conditions must hold"),
    (f"{MODEL}trees/2/split_conditions/0", [1], "tree 2: split_conditions must hold"),
    (
        f"{MODEL}trees/2/split_conditions/0",
        -3.4028234663852886e38,
        "tree 2: a threshold is not finite",
    ),
    (f"{MODEL}trees/2/left_children/0", 0, "tree 2: node 0 is reached by two paths"),
    (f"{MODEL}trees/2/left_children/0", 1 << 40, f"tree 2: a split refers to node {1 << 40}"),
    (f"{MODEL}trees/2/left_children/0", 1 << 70, "tree 2: left_children must hold"),
    (f"{MODEL}trees/2/split_indices/0", -1, "tree 2: feature numbers must be from 0 to 3"),
    (f"{MODEL}trees/2/tree_param/size_leaf_vector", "3", "tree 2: leaf_weights is missing"),
    (
        f"{MODEL}trees/2/tree_param/size_leaf_vector",
        "2",
        "tree 2: the leaves have 2 numbers, but there are 3 classes",
    ),
]


@pytest.mark.parametrize("path, value, message", WRONG)
def test_xgboost_refusals(tmp_path, path, value, message):
    found = xgboost()[1]
    assert len(found["learner"]["gradient_booster"]["model"]["trees"][2]["left_children"]) > 1
    with pytest.raises(ModelFormatError, match=re.escape(message)) as caught:
        imported(from_xgboost, tmp_path, changed(found, path, value))
    assert str(caught.value).startswith(str(tmp_path / "model: "))


def stopped(best):
    """A dictionary of XGBoost, four rounds of three trees, which early stopping found best after some."""
    return json.loads(
        changed(
            xgboost()[1], f"{LEARNER}attributes", {"best_iteration": str(best), "best_score": "1"}
        )
    )


def test_xgboost_stopped_early(tmp_path):
    """The rounds up to the best are taken, also from files before XGBoost 2, which do not say where rounds end."""
    all_rounds = imported(from_xgboost, tmp_path, json.dumps(xgboost()[1]))
    for best in range(4):
        found = stopped(best)
        model = imported(from_xgboost, tmp_path, json.dumps(found))
        X = rows(50, 4)
        assert model.n_rounds == best + 1 and model.meta.get("rounds_left_out", 0) == 3 - best
        assert (
            model.raw_scores(X).tobytes() == all_rounds.truncate(best + 1).raw_scores(X).tobytes()
        )
        inner = found["learner"]["gradient_booster"]["model"]
        del inner["iteration_indptr"]
        inner["gbtree_model_param"] = {"num_trees": "12"}
        assert imported(from_xgboost, tmp_path, ubj(found)).to_bytes() == model.to_bytes()
    inner["gbtree_model_param"]["num_parallel_tree"] = "3"
    with pytest.raises(
        ModelFormatError, match="there are 12 trees, which is not a multiple of the 9 of a round"
    ):
        imported(from_xgboost, tmp_path, ubj(found))


@pytest.mark.parametrize(
    "n_classes, options", [(2, {}), (3, {"num_parallel_tree": 2, "subsample": 0.5})]
)
def test_xgboost_itself_stopped_early(n_classes, options):
    xgb = pytest.importorskip("xgboost")
    X = rows(600, 4)
    y = np.random.default_rng(0).integers(n_classes, size=600)
    trained = xgb.XGBClassifier(
        n_estimators=40, max_depth=3, early_stopping_rounds=5, n_jobs=1, **options
    )
    trained.fit(X[:300], y[:300], eval_set=[(X[300:], y[300:])], verbose=False)
    booster = trained.get_booster()
    expected = trained.predict(X, output_margin=True)
    model = from_xgboost(booster)
    assert (model.n_rounds, model.meta["rounds_left_out"]) == (trained.best_iteration + 1, 5)
    scores = model.decision_function(X) if n_classes == 2 else model.raw_scores(X)
    assert np.abs(scores - expected).max() <= model.meta["score_error"]
    booster.set_attr(best_iteration=None)
    assert from_xgboost(booster).n_rounds == booster.num_boosted_rounds() == model.n_rounds + 5


def dart(vector, nested):
    """Trees, a dictionary and the factor of every tree, as XGBoost before 3.4 (nested) or from 3.4 on writes DART."""
    trees, found = xgboost(vector)
    factors = np.random.default_rng(4).uniform(0.2, 1, size=len(trees)).astype(np.float32).tolist()
    booster = found["learner"]["gradient_booster"]
    if nested:
        found["learner"]["gradient_booster"] = {
            "name": "dart",
            "gbtree": booster,
            "weight_drop": factors,
        }
    else:
        booster["model"]["weight_drop"] = factors
    return trees, found, factors


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_xgboost_dart(tmp_path, vector, nested):
    """The leaves of a tree count as often as its weight says."""
    trees, found, factors = dart(vector, nested)
    X = rows(300, 4)
    model = imported(from_xgboost, tmp_path, ubj(found))
    leaves = np.array(
        [
            [
                np.multiply(tree.leaf(x, xgboost_left), factor)
                for tree, factor in zip(trees, factors, strict=True)
            ]
            for x in X
        ]
    )
    sums = (
        leaves.sum(axis=1)
        if vector
        else np.stack([leaves[:, c::3].sum(axis=1) for c in range(3)], axis=1)
    )
    assert (
        np.abs(model.raw_scores(X) - sums - [1, -2, 0.5]).max() <= model.meta["score_error"] < 1e-4
    )


@pytest.mark.parametrize("options", [{}, {"num_parallel_tree": 2, "subsample": 0.5}])
def test_dart_of_xgboost_itself(options):
    """Run with XGBoost 3.2 and 3.4, which write the weights of trees in different places."""
    xgb = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4)).astype(np.float32)
    y = rng.integers(3, size=500)
    params = {
        "objective": "multi:softprob",
        "num_class": 3,
        "nthread": 1,
        "booster": "dart",
        "rate_drop": 0.5,
        **options,
    }
    booster = xgb.train(params, xgb.DMatrix(X, y), 8)
    model = from_xgboost(booster)
    expected = booster.predict(xgb.DMatrix(X), output_margin=True)
    assert np.abs(model.raw_scores(X) - expected).max() <= model.meta["score_error"] < 1e-4


def test_xgboost_trees_of_both_kinds_are_refused(tmp_path):
    found = xgboost()[1]
    vector = xgboost(True)[1]
    text = changed(
        found, f"{MODEL}trees/3", vector["learner"]["gradient_booster"]["model"]["trees"][3]
    )
    with pytest.raises(ModelFormatError, match="some trees have one number per leaf"):
        imported(from_xgboost, tmp_path, text)


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "should follow"),
        (b"[" * 100000, "nested"),
        (b'{"a":' * 100000, "nested"),
        (b"{" + b"U\x01a{" * 100, "nested more than 40 deep"),
        (b"{U\x01a[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff", "should follow"),
        (b"{U\x01a[$Z#L\x7f\xff\xff\xff\xff\xff\xff\xff", "is not supported"),
        (b"{U\x01aSl\xff\xff\xff\xff", "must be an integer >= 0"),
        (b"{U\x01aSd\x00\x00\x00\x00", "must be an integer >= 0"),
        (b"{U\x01a[$d]", "a typed array needs a count"),
        (b"{U\x01aSU\x01\xff}", "can't decode"),
        (b"{U\x01aZ}x", "1 bytes follow the end"),
        (b'{"learner": nonsense}', "Expecting value"),
        (b'{"learner"', "Expecting"),
    ],
)
def test_what_is_neither_json_nor_ubjson(tmp_path, data, message):
    with pytest.raises(ModelFormatError, match="neither JSON nor UBJSON") as caught:
        imported(from_xgboost, tmp_path, data)
    assert message in str(caught.value)


def test_marks_of_utf_8_are_passed_over(tmp_path):
    """Some editors put one before a text that they save."""
    for read, text in (from_lightgbm, lightgbm()[1]), (from_xgboost, json.dumps(xgboost()[1])):
        expected = imported(read, tmp_path, text)
        assert imported(read, tmp_path, "\ufeff" + text).to_bytes() == expected.to_bytes()


@pytest.mark.parametrize("read", [from_lightgbm, from_xgboost])
@pytest.mark.parametrize(
    ("pack", "said"),
    [
        (lambda data: data.decode().encode("utf-16"), "this is UTF-16 text; convert it, as iconv"),
        (gzip.compress, "this is compressed data; unpack it first, as with gzip -dc"),
        (bz2.compress, "this is compressed data"),
        (lzma.compress, "this is compressed data"),
        (
            lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
            "this is a .lzma archive; decompress it",
        ),
        (lambda data: b"(\xb5/\xfd\x04" + data, "this is a zstd archive; decompress it"),
        (lambda data: b"PK\x03\x04" + data, "this is a zip archive; extract the file first"),
    ],
)
def test_archives_and_other_text_are_named_as_what_they_are(read, pack, said, tmp_path):
    text = lightgbm()[1] if read is from_lightgbm else json.dumps(xgboost()[1])
    with pytest.raises(ModelFormatError, match=f"model: {said}"):
        imported(read, tmp_path, pack(text.encode()))


def test_ubjson():
    value = {"a": [1, -2], "b": [1.5], "c": "ü", "d": {"e": []}, "f": [{}, "x"], "g": 7}
    found = ubjson.loads(ubj(value))
    assert {
        key: item.tolist() if hasattr(item, "tolist") else item for key, item in found.items()
    } == value
    assert ubjson.loads(b"[#U\x03TFZ") == [True, False, None]
    assert ubjson.loads(b"[U\x07CaD?\xf0\x00\x00\x00\x00\x00\x00]") == [7, "a", 1.0]


def test_damaged_files(tmp_path):
    """Whatever the damage, a file is read or refused."""
    draw = random.Random(3)
    refused = 0
    files = [
        (from_lightgbm, lightgbm()[1].encode()),
        (from_xgboost, json.dumps(xgboost()[1]).encode()),
    ]
    files += [
        (from_xgboost, json.dumps(xgboost(True)[1]).encode()),
        (from_xgboost, ubj(xgboost(True)[1])),
    ]
    for number in range(320):
        read, data = files[number % 4]
        data = bytearray(data)
        for _ in range(draw.choice((1, 1, 3))):
            i = draw.randrange(len(data))
            n = draw.randrange(20)
            data[i : i + n] = draw.choice(
                (b"", b"", bytes(draw.randbytes(n)), b"-1", b"1e999", b"nan", b"[]", data[:n])
            )
        try:
            imported(read, tmp_path, bytes(data)).predict(rows(3, 4))
        except ModelFormatError:
            refused += 1
        except ValueError as error:
            assert "features" in str(error)  # the model has another number of them
    assert 60 < refused < 320


@pytest.mark.parametrize("n", [5000])
def test_chains_of_any_depth(tmp_path, n):
    """No recursion."""
    right = random_right(n, np.random.default_rng(0), 0)
    nodes = np.arange(n)
    assert (right == 1).all()
    line = {"num_leaves": [n + 1], "num_cat": [0], "split_feature": [0] * n, "threshold": nodes}
    line |= {
        "decision_type": [2] * n,
        "left_child": ~nodes,
        "right_child": [*nodes[1:], ~n],
        "leaf_value": range(n + 1),
    }
    tree = "".join(f"{key}={' '.join(map(str, values))}\n" for key, values in line.items())
    head = lightgbm_text([], 2, 1, objective="binary sigmoid:1").split("end of trees")[0]
    model = imported(from_lightgbm, tmp_path, f"{head}Tree=0\n{tree}\nend of trees\n")
    assert model.decision_function([[17.5], [-1], [1e9]]).tolist() == [18, 0, n]


def test_with_the_libraries_themselves(tmp_path):
    lgb, xgb = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = rows(900, 5)
    y = (np.nan_to_num(X[:, 0]) > 0) + (rng.random(900) < 0.3)
    common = {"num_class": 3, "verbose": -1, "num_threads": 1, "objective": "multiclass"}
    booster = lgb.train(common, lgb.Dataset(X, y), 20)
    check_scores(from_lightgbm(booster), booster.predict(X, raw_score=True), X)
    for strategy in ("one_output_per_tree", "multi_output_tree"):
        common = {
            "num_class": 3,
            "nthread": 1,
            "objective": "multi:softprob",
            "multi_strategy": strategy,
        }
        booster = xgb.train(common, xgb.DMatrix(X, y), 20)
        booster.save_model(tmp_path / "m.json")
        assert from_xgboost(tmp_path / "m.json").to_bytes() == from_xgboost(booster).to_bytes()
        check_scores(from_xgboost(booster), booster.predict(xgb.DMatrix(X), output_margin=True), X)


def test_values_near_0_go_where_lightgbm_sends_them():
    lgb = pytest.importorskip("lightgbm")
    value = np.float32([-1, -1e-30, -2e-35, -ZERO, -1e-36, 0, 1e-36, ZERO, 2e-35, 1e-30, 1, np.nan])
    X = np.concatenate(
        [value, np.nextafter(value, np.float32(np.inf)), np.nextafter(value, np.float32(-np.inf))]
    )
    X = X[:, None]
    read = 0
    signs = np.tile(np.float32([-1, 0, 1]), 40)[:, None]
    for options in ({}, {"zero_as_missing": True}, {"use_missing": False}):
        for y in (signs[:, 0] < 0, signs[:, 0] > 0):
            how = {
                "objective": "binary",
                "num_threads": 1,
                "verbose": -1,
                "min_data_in_leaf": 1,
                **options,
            }
            booster = lgb.train(how, lgb.Dataset(signs, y), 2)
            try:
                model = from_lightgbm(booster)
            except ModelFormatError:
                assert "zero_as_missing" in options
                continue
            read += 1
            expected = booster.predict(X, raw_score=True)
            assert np.abs(model.decision_function(X) - expected).max() <= model.meta["score_error"]
    assert read >= 5


@pytest.mark.parametrize(
    "base", [1e-12, 1e-7, 0.3, 0.5, 0.5000001, 0.515844, 0.99999, 0.9999995, 1 - 1e-12]
)
def test_xgboost_turns_a_base_score_into_a_margin_in_float32(tmp_path, base):
    actual = xgboost(objective="binary:logistic", n=0)[1]
    model = imported(
        from_xgboost,
        tmp_path,
        changed(actual, f"{LEARNER}learner_model_param/base_score", f"[{base!r}]"),
    )
    one = np.float32(1)
    least = np.float32(1e-6)
    p = min(max(np.float32(base), least), one - least)
    expected = -np.log(np.float64(one / p - one))
    margin = model.decision_function(np.zeros((1, 4)))[0]
    assert abs(margin - expected) <= 2.0**-23 * abs(expected)


@pytest.mark.parametrize(
    "base", [0.0, 1e-12, 1e-7, 0.3, 0.5000001, 0.515844, 0.99999, 0.9999995, 1 - 1e-12, None]
)
def test_base_scores_of_xgboost_itself(base):
    xgb = pytest.importorskip("xgboost")
    X = np.random.default_rng(0).normal(size=(20000, 3)).astype(np.float32)
    y = np.ones(20000)
    y[0] = 0
    how = {"objective": "binary:logistic", "max_depth": 2, "nthread": 1}
    how |= {} if base is None else {"base_score": base}
    booster = xgb.train(how, xgb.DMatrix(X, y), 3)
    model = from_xgboost(booster)
    expected = booster.predict(xgb.DMatrix(X), output_margin=True)
    assert np.abs(model.decision_function(X) - expected).max() <= model.meta["score_error"]


@pytest.mark.parametrize("params", [{}, {"base_score": 0.2}])
def test_xgboost_without_a_round(params):
    """Before the first round XGBoost takes a base score that it is still to find for a margin."""
    xgb = pytest.importorskip("xgboost")
    X = rows(60, 3)
    y = np.arange(60) % 3 == 0
    booster = xgb.train(
        {"objective": "binary:logistic", "nthread": 1, **params}, xgb.DMatrix(X, y), 0
    )
    model = from_xgboost(booster)
    expected = booster.predict(xgb.DMatrix(X), output_margin=True)
    assert (
        np.abs(model.decision_function(X) - expected).max() <= model.meta["score_error"] + 2.0**-23
    )


@pytest.mark.parametrize("missing_left", [0, 1])
def test_xgboost_splits_on_missing_values_alone(tmp_path, missing_left):
    """No number is below minus infinity, where XGBoost 3.4 splits with monotone constraints."""
    found = xgboost(objective="binary:logistic", n=1)[1]
    (tree,) = found["learner"]["gradient_booster"]["model"]["trees"]
    tree |= {
        "left_children": [1, -1, -1],
        "right_children": [2, -1, -1],
        "split_indices": [0, 0, 0],
    }
    tree |= {
        "split_conditions": [-math.inf, 1.0, -1.0],
        "default_left": [missing_left, 0, 0],
        "split_type": [0] * 3,
    }
    tree["tree_param"]["num_nodes"] = "3"
    found["learner"]["learner_model_param"]["base_score"] = "[5E-1]"
    model = imported(from_xgboost, tmp_path, json.dumps(found))
    X = np.zeros((5, 4), dtype=np.float32)
    X[:, 0] = -3.4e38, -1, 0, np.inf, np.nan
    assert model.decision_function(X).tolist() == [-1, -1, -1, -1, 1 if missing_left else -1]


def test_xgboost_itself_with_monotone_constraints_and_missing_values():
    xgb = pytest.importorskip("xgboost")
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3)).astype(np.float32)
    y = rng.integers(3, size=300)
    X[rng.random(X.shape) < 0.1] = np.nan
    params = {
        "objective": "multi:softprob",
        "num_class": 3,
        "monotone_constraints": "(1,1,1)",
        "nthread": 1,
        "eta": 1,
    }
    booster = xgb.train(params, xgb.DMatrix(X, y), 7)
    model = from_xgboost(booster)
    expected = booster.predict(xgb.DMatrix(X), output_margin=True)
    assert np.abs(model.raw_scores(X) - expected).max() <= model.meta["score_error"] < 1e-4


def test_the_bound_is_for_leaves_as_they_were(tmp_path):
    model = imported(from_lightgbm, tmp_path, lightgbm()[1])
    for layout, leaves in ((None, "float16"), ("packed", "int8"), ("packed", "float16")):
        rounded = Model.from_bytes(model.to_bytes(layout, leaves)).meta
        assert rounded == {key: value for key, value in model.meta.items() if key != "score_error"}
    assert Model.from_bytes(model.to_bytes("packed")).meta == model.meta


def check_scores(model, expected, X):
    error = model.meta["score_error"]
    best = np.sort(expected, axis=1)
    assert np.abs(model.raw_scores(X) - expected).max() <= error
    apart = best[:, -1] - best[:, -2] > 2 * error
    assert apart.mean() > 0.9 and (model.predict(X) == expected.argmax(axis=1))[apart].all()


@pytest.mark.parametrize("read", [from_lightgbm, from_xgboost])
def test_what_is_neither_a_file_nor_a_booster(read):
    class Classifier:
        """As LGBMClassifier and XGBClassifier."""

    for source in (Classifier(), {}, None):
        words = rf"not {type(source).__name__}; .*\.booster_ \(LightGBM\) or \.get_booster\(\)"
        with pytest.raises(TypeError, match=words):
            read(source)


@pytest.mark.parametrize("read", [from_lightgbm, from_xgboost])
def test_files_that_are_too_large_for_the_memory(read, tmp_path, monkeypatch):
    """A file with holes takes no room on the disk; a device has no size, and no end."""
    monkeypatch.setattr(foreign, "available_memory", lambda: 60_000_000)
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, 1 << 25)
    with pytest.raises(
        MemoryError, match="large: the file has 32.0 MiB or more, .* 57.2 MiB are free"
    ):
        read(path)
    if os.path.exists("/dev/zero"):
        with pytest.raises(MemoryError, match="/dev/zero: the file has 10.0 MiB or more"):
            read("/dev/zero")
