"""Where missing values go that training has not seen: to the side of more weight, at every node of every learner.

The twin sends the training rows down the trees of a fitted model. At a node without missing values of its feature,
their side must be that of the rows with more weight, the left one of equals. A split on a category has its heavier
side right.
"""

import numpy as np
import pytest
import scipy.sparse
from contract.variants import ALGORITHMS, PUBLISHED, all_rows
from divided import threads
from reference.stumps import side_of_missing, whole_weights

from pymcboost.comm import Alone
from pymcboost.data.rows import SMALL_DATA

LEARNERS = sorted(name for name in ALGORITHMS if not name.startswith("hingeboost"))
WORKHORSES = [
    "mcboost",
    "mcboost-of-trees",
    "vector-tree",
    "logitboost",
    "mart",
    "abc-logitboost",
    "abc-mart",
]
# Trees that are grown on the weights of boosting: the first one has those of the rows.
BOOSTED_WEIGHTS = ["adaboost-m1", "adaboost-m2-of-trees", "adaboost-ml-of-trees", "samme-of-trees"]
# Models of few splits here.
FEW = ["adaboost-ml", "samme", *BOOSTED_WEIGHTS]
K = 3


def rows_of(m, seed=0):
    """Columns of many values, of few, skewed ones, some that exclude each other, and two with missing values."""
    rng = np.random.default_rng(seed)
    y = np.append(np.arange(K), rng.integers(0, K, m - K))
    X = np.round(rng.normal(size=(m, 10)) + y[:, None] * rng.random(10), 2)
    X[:, 1] = np.clip(np.round(X[:, 1]), 0, 2)
    X[:, 2] *= rng.random(m) < 0.2
    X[:, 3:6] = np.round(X[:, 3:6]) * (rng.integers(0, 4, (m, 1)) == np.arange(3))
    X[:, 6] = np.where((rng.random(m) < 0.3) & (y != 1), np.nan, X[:, 6])
    X[:, 7] = np.where(rng.random(m) < 0.7, np.nan, X[:, 7])
    X[::2, 8] = X[1::2, 8][: len(X[::2])] * -1  # as many rows on either side of 0
    return X, y, rng


def counted(model, X, weight):
    """Splits of a model on rows that miss nothing, and how many of them send missing values left. All are checked."""
    X = X.astype(np.float32)
    whole = whole_weights(weight)
    ensemble = model.model_.ensemble
    counts = np.zeros(2, dtype=int)
    for tree, sets in zip(ensemble.each_tree(), ensemble.each_sets(), strict=False):
        for rows, left, missing, nan_left, is_set in splits_of(
            tree, sets, X, rows=np.flatnonzero(weight > 0)
        ):
            if not is_set:
                assert nan_left == side_of_missing(whole[rows], left, missing, nan_left=nan_left)
            elif not missing.any():
                assert not nan_left
                assert 2 * whole[rows[left]].sum() <= whole[rows].sum()
            counts += not missing.any(), nan_left and not missing.any()
    return counts


def splits_of(tree, sets, X, rows, at=0, end=None):
    """Of every split its rows, which of them go left, which are missing, the side of these, and its kind."""
    feature, threshold, nan_left, right = tree[:4]
    end = len(feature) if end is None else end
    if at == end:
        return
    x = X[rows, feature[at]]
    missing = np.isnan(x)
    inside = x <= threshold[at]
    if at in sets:
        bits = np.unpackbits(sets[at], bitorder="little").astype(bool)
        inside = bits[np.nan_to_num(x).astype(int)]
    left = np.where(missing, nan_left[at], inside)
    yield rows, left, missing, bool(nan_left[at]), at in sets
    yield from splits_of(tree, sets, X, rows=rows[left], at=at + 1, end=at + right[at])
    yield from splits_of(tree, sets, X, rows=rows[~left], at=at + right[at], end=end)


def fitted(name, X, y, weight=None, rounds=6, comm=None, **params):
    """A model that is grown on all rows."""
    published = PUBLISHED if name in WORKHORSES[3:] else {}
    cls = ALGORITHMS[name]
    told = {} if comm is None else {"comm": comm}
    rounds = 1 if name in BOOSTED_WEIGHTS else rounds
    return cls(**{"n_estimators": rounds, **all_rows(cls), **published, **params}).fit(
        X, y, weight, **told
    )


WEIGHTS = {
    "equal": lambda rng, m: np.ones(m),
    "quarters": lambda rng, m: rng.integers(0, 7, m) / 4,
    "far apart": lambda rng, m: 10.0 ** rng.uniform(-4, 4, m),
}


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.part(6)
def test_small_data(name, sparse, kind):
    X, y, rng = rows_of(240)
    weight = WEIGHTS[kind](rng, 240)
    model = fitted(name, scipy.sparse.csr_matrix(X) if sparse else X, y, weight=weight)
    unseen, left = counted(model, X, weight)
    assert 0 < left < unseen or (name in FEW and unseen)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.part(4)
def test_large_data(name, sparse):
    """In bins of float32, with class weights and several threads."""
    m = SMALL_DATA // K
    X, y, rng = rows_of(m)
    class_weight = {0: 1.0, 1: 0.25, 2: 3.0}
    known = ALGORITHMS[name]().get_params()
    params = {"class_weight": class_weight} if "class_weight" in known else {}
    weight = rng.integers(1, 5, m) / 2.0
    model = fitted(
        name,
        scipy.sparse.csr_matrix(X) if sparse else X,
        y,
        weight=weight,
        rounds=4,
        n_jobs=3,
        **params,
    )
    unseen, left = counted(model, X, weight * [class_weight[c] for c in y] if params else weight)
    assert 0 < left < unseen or (name in FEW and unseen)


@pytest.mark.parametrize("name", WORKHORSES)
def test_categories(name):
    """Levels of their own, rare ones, and those that only some nodes have."""
    X, y, rng = rows_of(500)
    X[:, 0] = np.minimum(rng.geometric(0.1, 500), 40) + (y == 1)
    X[:, 6] = np.where(np.isnan(X[:, 6]), np.nan, np.abs(X[:, 6]).round() + (y == 2))
    weight = rng.integers(1, 5, 500) / 2.0
    if name == "mcboost":
        name = "mcboost-of-trees"
    unseen, left = counted(
        fitted(name, X, y, weight=weight, categorical_features=[0, 6]), X, weight
    )
    assert 0 < left < unseen or (name in FEW and unseen)


@pytest.mark.parametrize("name", WORKHORSES)
@pytest.mark.parametrize("m", [240, SMALL_DATA // K])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.part(4)
def test_workers(name, m, weighted):
    """Rows of other workers count: here each has those of one side of a column."""
    X, y, rng = rows_of(m)
    weight = rng.integers(1, 5, m) / 2.0 if weighted else np.ones(m)
    order = np.argsort(X[:, 0] + 0.3 * rng.random(m), kind="stable")
    X = X[order]
    y = y[order]
    weight = weight[order]
    alone = fitted(name, X, y, weight=weight, comm=Alone())

    def task(workers):
        part = slice(m // 4 * workers.rank, m if workers.rank else m // 4)
        return fitted(name, X[part], y[part], weight=weight[part], comm=workers)

    models = threads.run(2, task)
    assert {model.model_.to_bytes() for model in models} == {alone.model_.to_bytes()}
    unseen, left = counted(alone, X, weight)
    assert 0 < left < unseen or (name in FEW and unseen)
