"""Rows that are moved side by side give the model of rows that stay, in memory, from blocks and with workers."""

import numpy as np
import pytest
from divided.threads import numbered, run

from pymcboost import Dataset, SAMMEClassifier, VectorTreeBoostClassifier

M = 2000


def rows(K):
    rng = np.random.default_rng(K)
    X = rng.normal(size=(M, 12)).astype(np.float32)
    X[:, 1] = np.round(X[:, 1])
    X[rng.random(X.shape) < 0.05] = np.nan
    scores = np.nan_to_num(X[:, :K]) + rng.gumbel(size=(M, K))
    return X, scores.argmax(axis=1)


def new(**options):
    words = {
        "n_estimators": 2,
        "max_leaf_nodes": 200,
        "min_samples_leaf": 2,
        "calibrate": None,
        "random_state": 0,
    }
    return VectorTreeBoostClassifier(**{**words, **options})


@pytest.mark.parametrize("options", [
    {}, {"max_features": 1.0}, {"subsample": 0.5, "max_features": 0.9}, {"split_columns": None},
    {"leaf_step": "full", "max_depth": 9}, {"categorical_features": [1]},
])  # fmt: skip
@pytest.mark.part(5)
def test_models_are_the_same(options, moved):
    X, y = rows(4)
    if "categorical_features" in options:
        X[:, 1] = np.abs(np.nan_to_num(X[:, 1]))
    expected = new(**options, n_jobs=1).fit(X, y).model_.to_bytes()
    moved_places = moved()
    for n_jobs in (1, 2):
        assert new(**options, n_jobs=n_jobs).fit(X, y).model_.to_bytes() == expected
    parts = [(X[:700], y[:700]), (X[700:], y[700:])]
    blocks = Dataset.from_blocks(parts, categorical_features=options.get("categorical_features"))
    assert new(**options).fit(blocks).model_.to_bytes() == expected

    def task(workers):
        part = np.arange(workers.rank, M, workers.size)
        return (
            new(**options, n_jobs=1)
            .fit(X[part], y[part], comm=numbered(workers, part))
            .model_.to_bytes()
        )

    assert run(3, task) == [expected] * 3
    assert all(origin.any() for _, _, origin in moved_places)
    assert len(moved_places) >= 6


def test_other_boosters(moved):
    X, y = rows(3)

    def fit():
        return SAMMEClassifier(n_estimators=3, weak_learner="tree", max_leaf_nodes=100).fit(X, y)

    expected = fit().model_.to_bytes()
    moved_places = moved()
    assert fit().model_.to_bytes() == expected
    assert all(origin.any() for _, _, origin in moved_places)
    assert moved_places
