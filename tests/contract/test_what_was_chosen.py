"""Fitted attributes say what a training chose: values of "auto", the temperature, and why it ended."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_classification

from pymcboost import (
    LogitBoostClassifier,
    MCBoostClassifier,
    SAMMEClassifier,
    VectorTreeBoostClassifier,
)

X, Y = make_classification(900, 20, n_informative=6, n_classes=3, flip_y=0.2, random_state=0)


def test_values_of_auto_are_those_of_the_training():
    """Given as numbers, they give the same model."""
    for cls in (VectorTreeBoostClassifier, LogitBoostClassifier):
        params = {"n_estimators": 5, "random_state": 0, "calibrate": None}
        chosen = cls(**params).fit(X, Y)
        assert chosen.auto_params_.keys() >= {"max_leaf_nodes", "max_features", "subsample"}
        refitted = cls(**params, **chosen.auto_params_).fit(X, Y)
        assert refitted.auto_params_ == {}
        np.testing.assert_array_equal(refitted.decision_function(X), chosen.decision_function(X))


def test_only_what_was_auto_is_named():
    model = VectorTreeBoostClassifier(
        n_estimators=3, max_leaf_nodes=7, subsample=1.0, random_state=0
    ).fit(X, Y)
    assert model.auto_params_.keys() == {"learning_rate", "max_features", "split_columns"}
    assert MCBoostClassifier(n_estimators=3).fit(X, Y).auto_params_ == {}


def test_rounds_by_folds_and_rows_set_aside():
    params = {"random_state": 0, "n_iter_no_change": 3}
    model = VectorTreeBoostClassifier(n_estimators="auto", cv=2, **params).fit(X, Y)
    assert model.auto_params_["n_estimators"] == model.cv_results_["n_estimators"]
    stopped = VectorTreeBoostClassifier(early_stopping=True, **params).fit(X, Y)
    assert 0 < stopped.auto_params_["validation_fraction"] <= 0.1


def stop(state):
    return state.n_rounds == 2


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (VectorTreeBoostClassifier(n_estimators=3), {}, "all 3 rounds are done"),
        (VectorTreeBoostClassifier(n_estimators=1), {}, "all 1 round are done"),
        (
            VectorTreeBoostClassifier(early_stopping=True, n_iter_no_change=1),
            {},
            r"early stopping: round \d+ is .*",
        ),
        (
            VectorTreeBoostClassifier(),
            {"callbacks": [SimpleNamespace(after_round=stop)]},
            "a callback ended it",
        ),
        (
            SAMMEClassifier(n_estimators=50, weak_learner="tree", max_leaf_nodes=900),
            {},
            "the last weak learner .*",
        ),
    ],
)
def test_why_a_training_ended(model, options, words):
    fitted = model.set_params(random_state=0).fit(X, Y, **options)
    assert re.fullmatch(words, fitted.why_ended_), fitted.why_ended_


def test_the_temperature():
    model = VectorTreeBoostClassifier(n_estimators=20, random_state=0).fit(X, Y)
    assert model.temperature_ == model.model_.temperature
    assert model.temperature_ > 0
    assert VectorTreeBoostClassifier(n_estimators=2, calibrate=None).fit(X, Y).temperature_ is None
