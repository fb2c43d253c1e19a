"""MCBoost's losses, coefficients and rounds against their twins, and against AdaBoost for two classes."""

import functools
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from reference import mcboost as twin
from reference.stumps import gradient_of
from scipy.optimize import check_grad

from pymcboost import (
    AdaBoostECCClassifier,
    AdaBoostMHClassifier,
    Dataset,
    MCBoostClassifier,
    MultiBoostClassifier,
    MultiBoostCWClassifier,
)
from pymcboost._kernels import pairwise_weights as _weights
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.comm import Alone
from pymcboost.data.rows import layout as lanes_of
from pymcboost.data.stump_data import DividedData, TrainingData
from pymcboost.data.tree_data import TreeData
from pymcboost.learners import EdgeTrees
from pymcboost.losses import PAIRWISE, blocks, pairwise, pairwise_log
from pymcboost.losses.summed import SUMMED
from pymcboost.solvers.large import LargeExp, LargeLog, folded
from pymcboost.solvers.newton import LARGEST_COEFFICIENT, SOLVERS
from pymcboost.training.booster import Booster

LOSS_NAMES = ["exp", "log"]


def blobs(m, d, K, seed=0, spread=1.5):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(K), rng.integers(0, K, m - K)])
    X = rng.normal(size=(m, d)) * spread + rng.normal(size=(K, d))[y] * 2
    return X.astype(np.float32), y


def unpack(data, blocks):
    return np.stack(
        [blocks[r // data.lanes, :, r % data.lanes] for r in range(data.n_classes)], axis=1
    ).astype(float)


@pytest.fixture(params=["one worker", "sums of workers"])
def layout(request, loss):
    """Training data and the loss on them, by the function that makes both."""

    def made(X, y, K, weight):
        if request.param == "one worker":
            data = TrainingData(X, y, K, sample_weight=weight)
            return data, PAIRWISE[loss].blocks(data)
        data = DividedData(X, y, K, sample_weight=weight, comm=Alone())
        return data, SUMMED[loss](data, 2)

    return made


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_the_twins_gradient_is_the_derivative(loss):
    rng = np.random.default_rng(0)
    X, y = blobs(60, 2, 5)
    F = rng.normal(size=(60, 5))
    h = rng.choice([-1.0, 1.0], 60)
    s = rng.exponential(size=60)
    for nu in (0.0, 0.3):
        args = (F, y, h, loss, nu, s)
        assert check_grad(twin.objective, twin.gradient, rng.random(5), *args) < 1e-4


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize(
    ("m", "K"),
    [(30, 2), (400, 3), (300, 6), (9000, 5), (5000, 10), (3000, 20), (1500, 40), (1100, 1000)],
)
@pytest.mark.part(3)
def test_weights_after_updates(loss, m, K, layout):
    """The multiplied weights equal those of the accumulated scores, also after a restart from scores."""
    rng = np.random.default_rng(m + K)
    X, y = blobs(m, 2, K)
    sample_weight = 10.0 ** rng.uniform(-2, 2, m)
    data, state = layout(X, y, K, sample_weight)
    F = np.zeros((m, K))
    state.start()
    for step in range(12):
        h = rng.choice([-1, 1], m).astype(np.int8)
        w = np.abs(rng.normal(size=K)) * rng.choice([0.1, 3.0])
        state.update(h, w, state.tables_at(h, w))
        F += h[:, None] * w
        if step == 8:
            state.start(F)
    u = twin.weights(F, data.y, loss, sample_weight=data.weight)
    expected = gradient_of(u, data.y)
    actual = unpack(data, state.gradient)
    if loss == "exp":
        actual = actual * np.exp(state.log_scale)
    tolerance = 1e-11 if data.dtype == np.float64 else 2e-5
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * u.mean())
    if loss == "exp":
        np.testing.assert_allclose(
            state.mass * np.exp(state.log_scale), u.sum(), rtol=max(tolerance, 1e-9)
        )
        np.testing.assert_allclose(
            state.diagonal * np.exp(state.log_scale), data.weight.sum(), rtol=1e-9
        )
    else:
        np.testing.assert_allclose(state.mass, u.sum(), rtol=tolerance)
    scale = np.exp(state.log_scale) if loss == "exp" else 1.0
    whole = twin.sum_of_weights(u, loss, data.weight)
    np.testing.assert_allclose(
        state.stopping_edge(1.0) / scale, 1.0 / whole, rtol=max(tolerance, 1e-9)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("P", [3, 8, 21])
def test_sums_in_units(P, dtype):
    """Whole numbers, class by class and side by side: those of rows one after the other, fractions cut off."""
    rng = np.random.default_rng(P)
    start = np.array([0, 70, 70, 5000, 5130])  # no row of one class; chunks of several lengths
    (starts, classes), m, K = _weights.chunks(start), start[-1], len(start) - 1
    lanes, n_blocks = lanes_of(P)
    A = aligned_zeros((n_blocks, m, lanes), dtype)
    by = 2.0**20
    values = rng.normal(size=(m, P)).astype(dtype)
    for p in range(P):
        A[p // lanes, :, p % lanes] = values[:, p]
    for h in (
        rng.choice([-1, 1], (1, m)).astype(np.int8),
        rng.choice([-1, 1], (P, m)).astype(np.int8),
    ):
        out = np.empty((2, K, P), dtype=np.int64)
        _weights.column_units(
            A,
            h,
            starts,
            classes=classes,
            by=by,
            partial=room(starts, n_blocks, 2, lanes),
            out=out,
            n_threads=2,
        )
        terms = np.trunc(values.astype(np.float64) * by).astype(np.int64)
        for side, sign in enumerate((1, -1)):
            its = np.add.reduceat(terms * (h == sign).T, start[[0, 1, 3]], axis=0)
            np.testing.assert_array_equal(out[side, [0, 2, 3]], its)
        assert not out[:, 1].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_trials_in_units(dtype):
    rng = np.random.default_rng(0)
    m = 300
    K = 5
    start = np.array([0, 60, 120, 180, 240, 300])
    starts, classes = _weights.chunks(start)
    Q = aligned_zeros((1, m, 8), dtype)
    by = 2.0**40
    Q[0, :, :K] = rng.exponential(size=(m, K))
    h = rng.choice([-1, 1], m).astype(np.int8)
    weight = rng.integers(1, 9, m) / 8
    plus, minus = rng.exponential(size=(2, K, K)).astype(dtype).astype(float)
    out = np.empty((4, K, K), dtype=np.int64)
    factors = aligned_zeros((3, K, 8), dtype)
    _weights.log_units(
        Q,
        h,
        weight,
        starts=starts,
        classes=classes,
        plus=plus,
        minus=minus,
        factors=factors,
        by=by,
        partial=room(starts, 1, 4, 8),
        out=out,
        n_threads=2,
    )
    y = np.repeat(np.arange(K), 60)
    q = Q[0, :, :K] * np.where(h[:, None] > 0, plus[y], minus[y]).astype(dtype)
    rest = 1 / (1 + q)
    for k, of in enumerate((q * rest, q * rest, q * rest * rest, q * rest * rest)):
        terms = np.trunc((weight * by)[:, None] * of.astype(np.float64)).astype(np.int64)
        want = np.add.reduceat(terms * (h == 1 - 2 * (k % 2))[:, None], start[:-1], axis=0)
        off = ~np.eye(K, dtype=bool)
        np.testing.assert_array_equal(out[k][off], want[off])


def room(starts, *shape):
    return np.zeros((len(starts) - 1, *shape), dtype=np.int64)


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_no_weight_is_lost_when_margins_grow_and_come_back(loss, layout):
    X, y = blobs(300, 2, 3)
    data, state = layout(np.repeat(X, 60, axis=0), np.repeat(y, 60), 3, np.ones(18000))
    state.start()
    h = np.where(np.arange(18000) % 5 == 0, -1, 1).astype(np.int8)
    F = np.zeros((18000, 3))
    for w in [np.array([9.0, 0.0, 4.0])] * 8 + [np.array([0.0, 9.0, 5.0])] * 8:
        state.update(h, w, state.tables_at(h, w))
        F += h[:, None] * w
    assert np.isfinite(state.gradient).all()
    state.start(F)
    assert np.isfinite(state.gradient).all()
    found = unpack(data, state.gradient)
    u = twin.weights(F, data.y, loss, sample_weight=data.weight)
    np.testing.assert_allclose(
        found / np.abs(found).max(), gradient_of(u, data.y) / u.sum(axis=1).max(), atol=1e-5
    )


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("nu", [0.0, 1e-9, 1e-3, 0.05])
@pytest.mark.parametrize(("m", "K"), [(40, 2), (300, 3), (300, 8), (400, 26), (6000, 10)])
@pytest.mark.part(3)
def test_coefficients_are_optimal(loss, nu, m, K, layout):
    rng = np.random.default_rng(K)
    X, y = blobs(m, 2, K)
    data, state = layout(X, y, K, np.ones(m))
    F = rng.normal(size=(m, K))
    state.start(F)
    h = np.where(rng.random(m) < 0.2 + 0.6 * (data.y % 2), 1, -1).astype(np.int8)
    if loss == "log":
        nu *= m
    w, _ = SOLVERS[loss](K, nu).fit(state, h)
    args = (F, data.y, h.astype(float), loss, nu, data.weight)
    assert w.min() == 0
    assert w.max() <= LARGEST_COEFFICIENT
    slope = twin.gradient(w, *args)
    free = ~(((w <= 0) & (slope > 0)) | ((w >= LARGEST_COEFFICIENT) & (slope < 0)))
    scale = (
        1.0
        if loss == "exp"
        else twin.weights(F + h[:, None] * w, data.y, loss, sample_weight=data.weight).sum()
    )
    assert np.abs(slope[free]).max(initial=0) < 1e-5 * scale
    best = twin.coefficients(*args, LARGEST_COEFFICIENT)
    assert twin.objective(w, *args) <= twin.objective(best, *args) + 1e-7 * abs(
        twin.objective(best, *args)
    )


@pytest.mark.parametrize("nu", [0.0, 1e-9, 1e-3, 0.05])
@pytest.mark.parametrize(("m", "K"), [(40, 2), (300, 8), (400, 26)])
def test_coefficients_of_very_many_classes_are_optimal(nu, m, K):
    """The solver that has one table, and stops a little earlier."""
    rng = np.random.default_rng(K)
    X, y = blobs(m, 2, K)
    data = TrainingData(X, y, K, sample_weight=np.ones(m))
    state = PAIRWISE["exp"].blocks(data)
    F = rng.normal(size=(m, K))
    h = np.where(rng.random(m) < 0.2 + 0.6 * (data.y % 2), 1, -1).astype(np.int8)
    state.start(F)
    w, tables = LargeExp(K, nu).fit(state, h)
    assert len(tables) == 1 and w.min() == 0 and w.max() <= LARGEST_COEFFICIENT
    args = (F, data.y, h.astype(float), "exp", nu, data.weight)
    best = twin.objective(twin.coefficients(*args, LARGEST_COEFFICIENT), *args)
    assert twin.objective(w, *args) <= best + 1e-5 * abs(best)


def test_very_many_classes_are_updated_in_blocks(monkeypatch):
    """The same weights as at once, with tables that are folded and that are not."""
    rng = np.random.default_rng(0)
    X, y = blobs(2000, 2, 20)
    data = TrainingData(X, y, 20, sample_weight=np.ones(2000))
    F = rng.normal(size=(2000, 20))
    w = rng.random(20)
    h = np.where(rng.random(2000) < 0.5, 1, -1).astype(np.int8)
    other = rng.random(20)
    found = {}
    for most in (3, 100):
        for module in (blocks, pairwise):
            monkeypatch.setattr(module, "MANY_COLUMNS", most)
        for minus, fold in ((None, False), (other, False), (None, most == 3)):
            state = PAIRWISE["exp"].blocks(data)
            state.start(F)
            tables = state.side_tables(h)
            state.update(h, w, folded(tables) if fold else tables, minus)
            found.setdefault((minus is None, fold), []).append(unpack(data, state.gradient))
    whole = found[True, False][2]
    for part in (*found[True, False], *found[True, True]):
        np.testing.assert_allclose(part, whole, rtol=1e-5, atol=1e-6 * np.abs(whole).max())
    np.testing.assert_allclose(*found[False, False], rtol=1e-5, atol=1e-6 * np.abs(whole).max())


@pytest.mark.parametrize("nu", [0.0, 1e-9, 1e-3, 0.05])
@pytest.mark.parametrize(("m", "K"), [(40, 2), (300, 8), (400, 26)])
@pytest.mark.part(5)
def test_coefficients_by_passes_over_the_rows_are_optimal(monkeypatch, nu, m, K):
    rng = np.random.default_rng(K)
    X, y = blobs(m, 2, K)
    weight = rng.random(m) + 0.1
    data = TrainingData(X, y, K, sample_weight=weight)
    monkeypatch.setattr(pairwise, "MANY_COLUMNS", 1)
    monkeypatch.setattr(pairwise_log, "PASS_ROWS", 64)
    state = PAIRWISE["log"].blocks(data, 2)
    F = rng.normal(size=(m, K))
    h = np.where(rng.random(m) < 0.2 + 0.6 * (data.y % 2), 1, -1).astype(np.int8)
    state.start(F[data.rows])
    nu *= data.weight_unit
    w, tables = LargeLog(K, nu).fit(state, h)
    assert tables is None and w.min() == 0 and w.max() <= LARGEST_COEFFICIENT
    args = (F[data.rows], data.y, h.astype(float), "log", nu, data.weight)
    own = np.log(2) * data.weight.sum()  # the twin's terms of the own classes, which are constant
    value = state.value_and_slopes(h, w)[0] + nu * w.sum() + own
    np.testing.assert_allclose(value, twin.objective(w, *args), rtol=1e-6)
    of, to = (lambda w, i=i: state.value_and_slopes(h, w)[i] for i in (0, 1))
    assert check_grad(of, to, w) < 1e-6 * value
    best = twin.objective(twin.coefficients(*args, LARGEST_COEFFICIENT), *args)
    assert twin.objective(w, *args) <= best + 1e-5 * abs(best)


def test_very_many_classes_of_the_logistic_loss_have_the_weights_of_tables(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = blobs(2000, 2, 20)
    data = TrainingData(X, y, 20, sample_weight=np.ones(2000))
    w = rng.random(20)
    F = rng.normal(size=(2000, 20))
    h = np.where(rng.random(2000) < 0.5, 1, -1).astype(np.int8)
    found = []
    for most in (3, 100):
        monkeypatch.setattr(pairwise, "MANY_COLUMNS", most)
        state = PAIRWISE["log"].blocks(data)
        state.start(F)
        state.update(h, w, state.tables_at(h, w))
        found.append((unpack(data, state.odds), unpack(data, state.gradient), state.mass))
    for few, many in zip(*found, strict=True):
        np.testing.assert_allclose(few, many, rtol=1e-5)


def test_models_of_very_many_classes_of_the_logistic_loss(monkeypatch):
    """Passes over the rows and tables find the same models, but for when their solvers stop."""
    X, y = blobs(600, 3, 12)
    params = {"loss": "log", "n_estimators": 12, "random_state": 0}
    tables = MCBoostClassifier(**params).fit(X, y)
    monkeypatch.setattr(pairwise, "MANY_COLUMNS", 3)
    passes = [MCBoostClassifier(**params, n_jobs=n).fit(X, y) for n in (1, 2)]
    assert passes[0].model_.to_bytes() == passes[1].model_.to_bytes()
    assert np.abs(passes[0].decision_function(X) - tables.decision_function(X)).max() < 0.05
    fixed = MCBoostClassifier(**params, fixed_step=0.1).fit(X, y)
    monkeypatch.undo()
    assert (
        fixed.model_.to_bytes()
        == MCBoostClassifier(**params, fixed_step=0.1).fit(X, y).model_.to_bytes()
    )


@pytest.mark.parametrize("loss", ["log", "exp", "ecc"])
@pytest.mark.parametrize("how", ["dense", "sparse", "trees", "blocks"])
@pytest.mark.part(5)
def test_weights_of_very_many_classes_begin_anew_from_scores_in_pieces(how, loss, monkeypatch):
    """All scores at once would be larger than all that is counted."""
    X, y = blobs(12_000, 3, 40)
    data = (
        Dataset.from_blocks([(X[:5000], y[:5000]), (X[5000:], y[5000:])]) if how == "blocks" else X
    )
    data = scipy.sparse.csr_matrix(np.where(X > 0, X, 0)) if how == "sparse" else data
    params = {"weak_learner": "tree" if how == "trees" else "stump"}
    params |= {"random_state": 0} if loss == "ecc" else {"loss": loss, "fixed_step": 0.1}
    cls = AdaBoostECCClassifier if loss == "ecc" else MCBoostClassifier
    booster = cls.booster
    peaks = []
    models = []
    restart = booster.restart

    def measured(self, scores):
        restart(self, scores)
        peaks.append(tracemalloc.get_traced_memory()[1] - before[-1])

    def spied(its):
        def scores(self):
            tracemalloc.reset_peak()
            before.append(tracemalloc.get_traced_memory()[0])
            return its(self)

        return scores

    monkeypatch.setattr(booster, "restart_every", 3)
    monkeypatch.setattr(pairwise, "MANY_COLUMNS", 3)
    monkeypatch.setattr(blocks.Blocks, "rows_together", 512)
    monkeypatch.setattr(booster, "restart", measured)
    for its in (booster.scores, Booster.scores):
        before = [0]
        monkeypatch.setattr(booster, "scores", spied(its))
        tracemalloc.start()
        model = cls(**params, n_estimators=5)
        models.append(
            (model.fit(data) if how == "blocks" else model.fit(data, y)).model_.to_bytes()
        )
        tracemalloc.stop()
    assert models[0] == models[1]
    size = 8 * X.shape[0] * 40
    assert len(peaks) == 4
    assert peaks[1] < 0.8 * size
    assert how == "blocks" or peaks[3] > 2 * size


def test_coefficients_may_start_with_every_class_free():
    """With nu > 0 and no class at its bound the Hessian is singular: the smallest coefficient has to stay put."""
    y = np.repeat([0, 1], [20, 20])
    h = np.where(np.arange(40) % 4 == 0, 1, -1).astype(np.int8)
    F = np.where(y[:, None] == 0, [[0.4, -0.3]], [[1.0, 0.2]])
    for nu in (1e-3, 1e-2, 0.1):
        data = TrainingData(np.arange(40.0)[:, None], y, 2, sample_weight=np.ones(40))
        state = PAIRWISE["exp"].blocks(data)
        state.start(F)
        w, _ = SOLVERS["exp"](2, nu).fit(state, h)
        slope = twin.gradient(
            w, F, y, h=h.astype(float), loss="exp", nu=nu, sample_weight=data.weight
        )
        assert np.abs(slope[w > 0]).max(initial=0) < 1e-8
        assert (slope[w == 0] > -1e-8).all()


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_perfect_learner_hits_the_cap(loss, layout):
    X, y = blobs(60, 2, 2)
    data, state = layout(X, y, 2, np.ones(60))
    state.start()
    h = np.where(data.y == 0, 1, -1).astype(np.int8)
    w, _ = SOLVERS[loss](2, 0.0).fit(state, h)
    np.testing.assert_allclose(w, [LARGEST_COEFFICIENT, 0], rtol=1e-6)


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_part_of_the_classes_perfectly_separated(loss, layout):
    """Two components that the learner separates without mistakes: the cap between them, optimal inside them."""
    X, y = blobs(400, 2, 4)
    data, state = layout(X, y, 4, np.ones(400))
    state.start()
    h = np.where(data.y < 2, 1, -1).astype(np.int8)
    w, _ = SOLVERS[loss](4, 0.0).fit(state, h)
    assert np.isfinite(w).all()
    assert w.max() == LARGEST_COEFFICIENT
    args = (np.zeros((400, 4)), data.y, h.astype(float), loss, 0.0, data.weight)
    assert twin.objective(w, *args) <= twin.objective(twin.coefficients(*args, 10.0), *args) + 1e-6


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("K", [2, 3, 7])
def test_rounds_equal_the_twins(loss, K):
    X, y = blobs(160, 4, K, spread=3.0)
    rounds = 6
    expected = twin.mcboost(X, y, K, loss=loss, rounds=rounds)
    fitted = MCBoostClassifier(loss=loss, n_estimators=rounds).fit(X, y).model_.ensemble
    assert len(fitted) == len(expected)
    for t, (feature, threshold, nan_left, right) in enumerate(expected):
        assert (fitted.feature[t], fitted.threshold[t], fitted.nan_left[t]) == (
            feature,
            threshold,
            nan_left,
        )
        np.testing.assert_allclose(fitted.right[t], right, atol=2e-5)


@functools.cache
def logistic_rounds_of_the_twin(nu):
    return twin.mcboost(*blobs(160, 4, 5, spread=1.0), 5, loss="log", rounds=60, nu=nu)


@pytest.mark.parametrize("scale", [1.0, 0.01, 3.0])
@pytest.mark.parametrize("nu", [pytest.param(0.03, marks=pytest.mark.slow), 0.1])
@pytest.mark.part(2)
def test_the_logistic_loss_ends_where_the_twins_does(nu, scale):
    """By the edge of weights that sum to 1; that of weights as they are would stay above nu for long."""
    X, y = blobs(160, 4, 5, spread=1.0)
    expected = logistic_rounds_of_the_twin(nu)
    model = MCBoostClassifier(loss="log", n_estimators=60, nu=nu).fit(
        X, y, sample_weight=np.full(160, scale)
    )
    assert 0 < model.n_estimators_ == len(expected) < 60
    for t, (*_, right) in enumerate(expected):
        np.testing.assert_allclose(model.model_.ensemble.right[t], right, atol=2e-5)


@pytest.mark.parametrize("workers", [False, True])
@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_the_scale_of_the_weights_does_not_move_the_penalty(loss, workers):
    X, y = blobs(160, 4, 5)
    weight = np.random.default_rng(0).exponential(size=160)
    comm = Alone() if workers else None
    scores = []
    for scale in (1.0, 7.0, 1e-5):
        model = MCBoostClassifier(loss=loss, n_estimators=30, nu=0.05).fit(
            X, y, sample_weight=weight * scale, comm=comm
        )
        scores.append(model.decision_function(X))
    assert np.ptp(scores[0]) > 1
    for other in scores[1:]:
        np.testing.assert_allclose(other, scores[0], atol=1e-3)


def test_two_classes_are_adaboost():
    X, y = blobs(150, 5, 2, spread=4.0)
    rounds = 20
    expected = twin.adaboost(X, y, rounds)
    actual = (
        MCBoostClassifier(n_estimators=rounds, learning_rate=1.0, nu=0.0).fit(X, y).model_.ensemble
    )
    for t, (feature, threshold, polarity, alpha) in enumerate(expected):
        assert (actual.feature[t], actual.threshold[t]) == (feature, threshold)
        # F0 - F1 gets alpha h
        np.testing.assert_allclose(
            actual.right[t, 0] - actual.right[t, 1], polarity * alpha, rtol=1e-5
        )


def test_fixed_step_moves_one_class_by_the_step():
    X, y = blobs(200, 3, 4)
    model = MCBoostClassifier(n_estimators=30, fixed_step=0.01).fit(X, y)
    right = model.model_.ensemble.right
    np.testing.assert_allclose(np.abs(right).sum(axis=1), 0.01, rtol=1e-6)
    np.testing.assert_array_equal(np.abs(right).argmax(axis=1), model.history_["cls"])


def test_bounded_step():
    X, y = blobs(200, 3, 4)
    right = (
        MCBoostClassifier(n_estimators=30, max_step=0.1, learning_rate=0.5)
        .fit(X, y)
        .model_.ensemble.right
    )
    assert np.abs(right).max() == np.float32(0.05)


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_training_stops_where_no_stump_has_an_edge(loss):
    X = np.tile([[0.0], [1.0]], (40, 1))
    y = np.repeat([0, 1], 40)
    assert MCBoostClassifier(loss=loss).fit(X, y).n_estimators_ == 0
    # The edge falls towards nu as the penalised optimum is approached, so a little above the last edges it stops.
    free = MCBoostClassifier(loss=loss, n_estimators=300).fit(*blobs(150, 2, 3, spread=4.0))
    nu = 0.5 * free.history_["edge"][0]
    big = MCBoostClassifier(loss=loss, nu=nu, learning_rate=1.0, n_estimators=4000).fit(
        *blobs(150, 2, 3, spread=4.0)
    )
    assert 0 < big.n_estimators_ < 4000
    assert big.history_["edge"].min() > nu


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_restarts_change_little(loss, monkeypatch):
    X, y = blobs(500, 4, 5)
    plain = MCBoostClassifier(loss=loss, n_estimators=120).fit(X, y)
    monkeypatch.setattr(MCBoostClassifier.booster, "restart_every", 10)
    often = MCBoostClassifier(loss=loss, n_estimators=120).fit(X, y)
    np.testing.assert_allclose(
        often.decision_function(X), plain.decision_function(X), rtol=1e-4, atol=1e-5
    )


def test_history_describes_the_stumps():
    X, y = blobs(200, 3, 4)
    model = MCBoostClassifier(n_estimators=15).fit(X, y)
    np.testing.assert_array_equal(model.history_["feature"], model.model_.ensemble.feature)
    np.testing.assert_array_equal(
        model.history_["threshold"].astype(np.float32), model.model_.ensemble.threshold
    )
    assert (model.history_["edge"] > 0).all()


@pytest.mark.parametrize("cls", [MCBoostClassifier, MultiBoostClassifier, MultiBoostCWClassifier])
def test_trees_begin_where_no_split_has_an_edge(cls):
    # Of the four cells of two features one is mostly class 1: no single split lowers the number of errors.
    X = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [30, 30, 30, 10], axis=0).astype(np.float32)
    y = np.repeat([0, 0, 0, 1], [30, 30, 30, 10])
    y[:2] = 2
    model = cls(n_estimators=20, weak_learner="tree").fit(X, y)
    assert model.n_estimators_ > 0
    assert (model.predict(X[-10:]) == 1).all()


@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("m", [400, 40_000])
@pytest.mark.parametrize("gini", [True, False])
def test_leaves_of_trees_have_the_least_weight(gini, m, uniform):
    X, y = blobs(m, 5, 3, seed=2)
    rng = np.random.default_rng(5)
    weight = np.ones(m) if uniform else rng.exponential(size=m)
    of_share = {}
    for share in (0.0, 0.15):
        data = TreeData(X, y, 3, sample_weight=weight, min_weight_fraction_leaf=share)
        gradient = data.gradient_buffer()
        gradient[0, :, :3] = (
            np.where(np.eye(3)[data.y], 1, -1) * (data.weight * rng.uniform(0.1, 3, m))[:, None]
        )
        learner = EdgeTrees(data, 30, None, n_threads=1, gini=gini)
        assert len(learner.fit(gradient)) == 3
        lightest = min(
            (np.bincount(learner._grown.leaf[c], weights=data.weight) / data.weight.sum()).min()
            for c in range(3)
        )
        of_share[share] = lightest
    assert 0.15 * (1 - 1e-3) <= of_share[0.15] < 0.4
    assert of_share[0.0] < 0.1


@pytest.mark.parametrize(
    "cls", [MCBoostClassifier, MultiBoostClassifier, MultiBoostCWClassifier, AdaBoostMHClassifier]
)
def test_trees_obey_the_least_share_of_the_weight(cls):
    X, y = blobs(300, 4, 3)
    words = {"n_estimators": 5, "weak_learner": "tree", "max_leaf_nodes": 40}
    free, bounded = (
        cls(**words, min_weight_fraction_leaf=share).fit(X, y).model_.ensemble
        for share in (0.0, 0.2)
    )
    leaves = [np.diff(trees.offset) + 1 for trees in (free, bounded)]
    assert leaves[0].max() > 5 >= leaves[1].max() >= 2


def test_trees_of_two_leaves_are_stumps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)).astype(np.float32)
    y = (X[:, 0] > 0) + 2 * (X[:, 1] > 0.3)
    trees = MCBoostClassifier(n_estimators=8, weak_learner="tree", max_leaf_nodes=2).fit(X, y)
    stumps = MCBoostClassifier(n_estimators=8).fit(X, y)
    assert trees.n_estimators_ == stumps.n_estimators_ == 8
    np.testing.assert_allclose(trees.decision_function(X), stumps.decision_function(X), rtol=1e-6)


def test_edges_below_the_penalty_end_the_training():
    X = np.arange(60.0).reshape(-1, 1)
    with pytest.warns(UserWarning, match="no weak learner separates the classes"):
        assert MCBoostClassifier(n_estimators=8, nu=1.0).fit(X, X[:, 0] // 20).n_estimators_ == 0
