"""Weak learners with outputs -1 and +1 go into either builder with a value for each class and output."""

import numpy as np
import pytest

import pymcboost
from pymcboost.learners import StumpFit, TreeFit
from pymcboost.model.builders import EnsembleBuilder, TreesBuilder
from pymcboost.model.model import Model

X = np.array([[0.0, 0.0], [0.0, 2.0], [3.0, 0.0], [3.0, 2.0], [np.nan, 0.0]], dtype=np.float32)
PLUS = np.array([1.0, 0.0, 4.0])
MINUS = np.array([0.5, 2.0, -1.0])


def stump(polarity):
    h = polarity * np.array([-1, 1, -1, 1, -1])
    return StumpFit(
        1, np.float32(1.0), True, polarity=polarity, cls=0, edge=1.0, h=h.astype(np.int8)
    )


def tree():
    """Feature 0 above 1 (or missing): -1; otherwise -1 or +1 by feature 1."""
    parts = [0, 1], [1.0, 1.0], [False, False], [2, 1], [-1.0, 1.0, -1.0], [3.0, 2.0]
    return TreeFit(
        *(np.array(part) for part in parts),
        0,
        1.0,
        np.array([-1, 1, -1, -1, -1], dtype=np.int8),
        {},
    )


def scores(builder):
    return Model.from_ensemble(builder.freeze(), np.arange(3)).raw_scores(X)


@pytest.mark.parametrize("minus", [None, MINUS])
@pytest.mark.parametrize(
    ("learner", "stumps"),
    [(stump(1), True), (stump(-1), True), (stump(1), False), (stump(-1), False), (tree(), False)],
)
def test_values_of_both_outputs(learner, stumps, minus):
    builder = EnsembleBuilder(3, 2) if stumps else TreesBuilder(3, 2, vector=True)
    learner.add_to(builder, PLUS, minus)
    builder.end_round()
    assert len(builder) == builder.freeze().n_rounds == 1
    other = -PLUS if minus is None else minus
    np.testing.assert_array_equal(scores(builder), np.where(learner.h[:, None] > 0, PLUS, other))


@pytest.mark.parametrize("learner", [stump(1), stump(-1), tree()])
def test_as_tree(learner):
    *splits, sign = learner.as_tree()
    builder = TreesBuilder(3, 2)
    builder.add_tree(*splits, sign, cls=1)
    builder.end_round()
    np.testing.assert_array_equal(scores(builder)[:, 1], learner.h)
    feature, threshold = learner.first_split()
    assert (type(feature), type(threshold)) == (int, float)
    assert (feature, threshold) == (splits[0][0], splits[1][0])


@pytest.mark.parametrize(
    "name", ["AdaBoostMHClassifier", "SAMMEClassifier", "GentleBoostClassifier"]
)
def test_rows_that_are_not_drawn_take_no_part(name):
    """Trees learnt from rows drawn end where these are told apart; no leaf speaks for rows left out alone."""
    generator = np.random.default_rng(0)
    y = np.arange(400) % 4
    X = generator.random((400, 3), dtype=np.float32)
    X[:, 0] = y
    words = {
        "n_estimators": 3,
        "weak_learner": "tree",
        "max_leaf_nodes": 50,
        "subsample": 0.1,
        "random_state": 0,
    }
    made = getattr(pymcboost, name)(**words, n_jobs=1).fit(X, y)
    # Three splits of the first feature tell the classes apart; rounding may part equal ones now and then.
    assert np.diff(made.model_.ensemble.offset).max() <= (
        10 if name == "GentleBoostClassifier" else 3
    )
    assert (made.predict(X) == y).all()
