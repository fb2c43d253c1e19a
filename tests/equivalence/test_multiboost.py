"""FCD, the totally corrective solvers and MultiBoost's rounds against their twins and against SciPy's L-BFGS-B."""

from types import SimpleNamespace

import numpy as np
import pytest
from equivalence.test_mcboost import blobs
from reference import multiboost as twin
from reference.mcboost import adaboost, weights
from reference.stumps import best_stump, gradient_of, outputs
from scipy.optimize import minimize_scalar

from pymcboost import MultiBoostClassifier, MultiBoostCWClassifier
from pymcboost._kernels import fcd as kernel
from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.algorithms.papers import _column_generation as column_generation
from pymcboost.data.stump_data import TrainingData
from pymcboost.data.tree_data import TreeData
from pymcboost.learners import EdgeStumps, EdgeTrees, SharedTree
from pymcboost.losses import PAIRWISE
from pymcboost.model.builders import EnsembleBuilder
from pymcboost.model.model import Model
from pymcboost.solvers.columns import Columns, pack, padded
from pymcboost.solvers.fcd import FCD
from pymcboost.solvers.lbfgs import LBFGS
from pymcboost.solvers.weights import LARGEST_COEFFICIENT, PairWeights
from pymcboost.training import memory

REAL = [np.float64, np.float32]


class Problem:
    """Random learners with fixed outputs: right with probability ``skill`` about their class."""

    def __init__(self, m, K, n, shared=False, skill=0.7, seed=0, absent=None, sample_weight=None):
        rng = np.random.default_rng(seed)
        y = np.sort(rng.integers(0, K, m))
        if absent is not None:
            y[y == absent] = (absent + 1) % K
        weight = np.ones(m) if sample_weight is None else sample_weight(rng, m)
        self.data = TrainingData(rng.normal(size=(m, 1)), y, K, sample_weight=weight)
        self.y = self.data.y
        self.s = self.data.weight
        self.K = K
        about = rng.integers(0, K, n)
        right = rng.random((n, m)) < skill
        self.h = np.where(right == (self.y == about[:, None]), 1, -1).astype(np.int8)
        bits = pack(self.h)
        if shared:
            self.columns = Columns.shared(bits, np.zeros((n, K)))
            self.owner = np.repeat(np.arange(K), n)
        else:
            self.columns = Columns.of_classes(bits, np.zeros(n), about, K)
            self.owner = np.sort(about)
        # One row for each coordinate.
        self.H = self.h[self.columns.column].astype(float)

    def args(self, nu):
        return self.H, self.y, self.owner, self.K, self.s, nu

    def fcd(self, nu, dtype=np.float64, cap=LARGEST_COEFFICIENT, n_threads=1):
        solver = FCD(PAIRWISE["exp"], self.data, nu, cap=cap, n_threads=n_threads, dtype=dtype)
        solver.start()
        return solver

    def weights(self, solver):
        """The solver's weights as (m, K), those of the own class left out."""
        u = solver.U[:, : self.data.n_rows].T.astype(float)
        u[np.arange(len(self.y)), self.y] = 0
        return u


def polished(solver, columns):
    """Objective after a last pass in float64, where weights are in float32."""
    if solver.dtype == np.float64:
        return solver.objective(columns)
    exact = FCD(PAIRWISE["exp"], solver.data, solver.nu, cap=solver.cap, dtype=np.float64)
    exact.refresh(columns)
    exact.descend(columns)
    return exact.objective(columns)


NASTY = [
    {"m": 1, "K": 2, "n": 3},
    {"m": 31, "K": 2, "n": 8},
    {"m": 32, "K": 3, "n": 8, "shared": True},
    {"m": 33, "K": 4, "n": 9, "absent": 2},
    {"m": 300, "K": 5, "n": 12, "shared": True, "absent": 0},
    {"m": 4500, "K": 3, "n": 9},
    {"m": 700, "K": 26, "n": 40},
    {"m": 1500, "K": 1000, "n": 30},
    {"m": 200, "K": 4, "n": 12, "sample_weight": lambda rng, m: 10.0 ** rng.uniform(-6, 6, m)},
    {"m": 97, "K": 3, "n": 6, "skill": 1.0},
]


def name_of(case):
    return "-".join(f"{key}{value if not callable(value) else ''}" for key, value in case.items())


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("case", NASTY, ids=name_of)
@pytest.mark.part(2)
def test_sums_and_gradient(case, dtype):
    p = Problem(**case)
    rng = np.random.default_rng(1)
    F = rng.normal(size=(p.data.n_rows, p.K))
    solver = p.fcd(1.0, dtype)
    loss = solver.start(F.T)
    u = weights(F, p.y, "exp", sample_weight=p.s)
    tolerance = 1e-11 if dtype == np.float64 else 3e-6
    np.testing.assert_allclose(loss, u.sum(), rtol=1e-12)
    np.testing.assert_allclose(solver.loss(), u.sum(), rtol=tolerance)
    sums = np.zeros((len(p.owner), 2))
    kernel.coordinate_sums(
        solver.U,
        p.data.class_start,
        p.columns.H,
        ptr=p.columns.ptr,
        column=p.columns.column,
        out=sums,
        n_threads=1,
    )
    for j, (h, c) in enumerate(zip(p.H, p.owner, strict=True)):
        d = twin.delta(h, p.y, c, K=p.K)
        np.testing.assert_allclose(
            sums[j],
            [u[d > 0].sum(), u[d < 0].sum()],
            rtol=tolerance,
            atol=tolerance * u.sum() * 1e-3,
        )
    lanes = p.data.lanes
    A = solver.gradient()
    found = np.stack([A[c // lanes, :, c % lanes] for c in range(p.K)], axis=1)
    np.testing.assert_allclose(found, gradient_of(u, p.y), rtol=max(tolerance, 2e-6), atol=1e-30)


@pytest.mark.parametrize("case", NASTY, ids=name_of)
def test_margins(case):
    p = Problem(**case)
    p.columns.w[:] = np.random.default_rng(0).exponential(size=len(p.columns.w)) * (
        np.arange(len(p.columns.w)) % 3 > 0
    )
    np.testing.assert_allclose(
        p.fcd(0.0).scores(p.columns).T,
        twin.scores(p.columns.w, p.H, p.owner, K=p.K),
        rtol=1e-12,
        atol=1e-12,
    )


@pytest.mark.parametrize("nu", [0.0, 0.5, 40.0])
@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("case", [case for case in NASTY if case["K"] < 100], ids=name_of)
@pytest.mark.part(2)
def test_sequential_pass_is_algorithm_2(case, dtype, nu):
    """Coefficients after each coordinate in turn, and the objective, which never rises."""
    p = Problem(**case)
    solver = p.fcd(nu, dtype)
    n = len(p.owner)
    w, trace = twin.sweep(
        np.zeros(n), p.H, p.y, owner=p.owner, K=p.K, s=p.s, nu=nu, cap=solver.cap, order=range(n)
    )
    updates, _ = solver.descend(p.columns, np.ones(n, dtype=bool))
    assert updates == n
    tolerance = 1e-6 if dtype == np.float64 else 2e-4
    np.testing.assert_allclose(p.columns.w, w, rtol=tolerance, atol=tolerance)
    assert (np.diff(trace) <= 1e-12 * np.abs(trace[:-1])).all()
    np.testing.assert_allclose(
        solver.objective(p.columns), trace[-1], rtol=1e-5 if dtype == np.float32 else 1e-9
    )
    u = weights(twin.scores(p.columns.w, p.H, p.owner, K=p.K), p.y, "exp", sample_weight=p.s)
    np.testing.assert_allclose(
        p.weights(solver), u, rtol=2e-5 if dtype == np.float32 else 1e-10, atol=1e-28
    )


def test_the_objective_never_rises_update_by_update():
    p = Problem(400, 6, 60, skill=0.75)
    solver = p.fcd(2.0)
    rng = np.random.default_rng(3)
    last = solver.objective(p.columns)
    for j in rng.integers(0, len(p.owner), 1500):
        listed = np.arange(len(p.owner)) == j
        solver.descend(p.columns, listed)
        now = (
            twin.objective(p.columns.w, *p.args(2.0))
            if j % 10 == 0
            else solver.objective(p.columns)
        )
        assert now <= last * (1 + 1e-12)
        last = now


PAIRS = [
    (p, m, b, c)
    for p in (0.0, 1e-9, 0.3, 7.0)
    for m in (0.0, 1e-9, 0.3, 7.0)
    for b in (0, 1e-6, 0.5, 30.0)
    for c in (3.0, 20.0)
]


@pytest.mark.parametrize(("plus", "minus", "nu", "cap"), PAIRS)
def test_closed_form(plus, minus, nu, cap):
    """The step minimises V+ e^-w + V- e^w + nu w on [0, cap]; without mistakes it is log(V+/nu), or the cap."""
    data = TrainingData(
        np.zeros((2, 1)) + [[0], [1]], np.array([0, 1]), 2, sample_weight=np.ones(2)
    )
    solver = FCD(PAIRWISE["exp"], data, nu, cap=cap)
    # One learner of class 0: right on row 0, wrong on row 1.
    columns = Columns.of_classes(
        pack(np.array([[1, 1]], dtype=np.int8)), np.zeros(1), np.zeros(1, dtype=int), 2
    )
    solver.U[1, 0] = plus
    solver.U[0, 1] = minus
    solver.descend(columns, np.ones(1, dtype=bool))
    found = columns.w[0]
    np.testing.assert_allclose(found, twin.step(plus, minus, nu, cap=cap), rtol=1e-6, atol=1e-9)

    def value(w):
        return plus * np.exp(-w) + minus * np.exp(w) + nu * w

    best = minimize_scalar(value, bounds=(0, cap), method="bounded", options={"xatol": 1e-10})
    assert value(found) <= best.fun * (1 + 1e-9) + 1e-300


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("nu", [0.0, 1.0, 25.0])
@pytest.mark.parametrize(
    ("m", "K", "n", "shared"), [(300, 3, 30, False), (500, 5, 24, True), (900, 10, 100, False)]
)
@pytest.mark.part(7)
def test_same_objective_as_lbfgs(m, K, n, shared, nu, dtype):
    """On the same H; without regularisation where the classes cannot be separated."""
    p = Problem(m, K, n, shared=shared, skill=0.6)
    w = twin.minimiser(*p.args(nu), LARGEST_COEFFICIENT)
    best = twin.objective(w, *p.args(nu))
    assert w.max() < 8, "the data must not be separable, else the minimiser is at the cap"
    solver = p.fcd(nu, dtype)
    first = twin.violations(
        np.zeros(len(w)), twin.slopes(np.zeros(len(w)), *p.args(nu)), LARGEST_COEFFICIENT
    ).max()
    np.testing.assert_allclose(solver.violations(p.columns).max(), first, rtol=1e-5)
    solved = solver.solve(p.columns, tol=1e-5, seed=4)
    polished(solver, p.columns)
    found = twin.objective(p.columns.w, *p.args(nu))
    np.testing.assert_allclose(found, best, rtol=1e-6)
    left = twin.violations(
        p.columns.w, twin.slopes(p.columns.w, *p.args(nu)), LARGEST_COEFFICIENT
    ).max()
    assert left <= (1e-5 if dtype == np.float64 else 1e-4) * first
    assert solved.violation <= 1e-5


def test_violations_at_both_bounds_and_between():
    w = np.repeat([0.0, 0.5, LARGEST_COEFFICIENT], 3)
    slope = np.tile([-2.0, 0.0, 3.0], 3)
    found = np.empty(9)
    kernel.violations(slope, w, LARGEST_COEFFICIENT, out=found)
    np.testing.assert_array_equal(found, twin.violations(w, slope, LARGEST_COEFFICIENT))
    np.testing.assert_array_equal(found, [2, 0, 0, 2, 0, 3, 0, 0, 3])
    with pytest.raises(ValueError, match="do not fit"):
        kernel.violations(slope[1:], w, LARGEST_COEFFICIENT, out=found)


def test_default_tolerance():
    """Violations end below 1e-3 of the largest one at the start."""
    p = Problem(1000, 8, 120, skill=0.65)
    solver = p.fcd(3.0)
    start = np.zeros(len(p.owner))
    first = twin.violations(start, twin.slopes(start, *p.args(3.0)), LARGEST_COEFFICIENT).max()
    solved = solver.solve(p.columns)
    left = twin.violations(
        p.columns.w, twin.slopes(p.columns.w, *p.args(3.0)), LARGEST_COEFFICIENT
    ).max()
    # At the end of the last pass; the one before found no class with a larger violation.
    assert left <= 1e-3 * first
    assert solved.passes < 100


@pytest.mark.parametrize("loss", ["exp", "log"])
@pytest.mark.parametrize("nu", [0.0, 5.0])
def test_lbfgs_on_bits(loss, nu):
    """The compiled objective gives SciPy the same minimum as the twin's."""
    p = Problem(200, 4, 15, shared=True, skill=0.6)
    weights_ = PairWeights(PAIRWISE[loss], p.data, nu)
    solved = LBFGS(weights_, max_iterations=2000).solve(p.columns, tol=1e-7)
    w = twin.minimiser(*p.args(nu), LARGEST_COEFFICIENT, loss)
    np.testing.assert_allclose(solved.objective, twin.objective(w, *p.args(nu), loss), rtol=1e-7)
    np.testing.assert_allclose(
        solved.objective, twin.objective(p.columns.w, *p.args(nu), loss), rtol=1e-12
    )
    assert solved.violation < 1e-5


@pytest.mark.parametrize("sample_weight", [None, lambda rng, m: rng.exponential(size=m)])
def test_dual_meets_primal(sample_weight):
    p = Problem(150, 4, 30, skill=0.65, sample_weight=sample_weight)
    solver = p.fcd(2.0)
    gaps = []
    for tol in (1e-1, 1e-3, 1e-7):
        solver.solve(p.columns, tol=tol)
        primal = solver.objective(p.columns)
        dual = twin.dual(p.weights(solver), *p.args(2.0))
        assert dual <= primal * (1 + 1e-12)
        gaps.append((primal - dual) / primal)
    assert gaps[0] > gaps[2]
    assert gaps[2] < 1e-6


def test_ten_thousand_updates_in_float64():
    p = Problem(2000, 5, 50, skill=0.6)
    solver = p.fcd(0.0)
    rng = np.random.default_rng(0)
    updates = 0
    while updates < 10_000:
        # Shaken up, so that every update moves.
        p.columns.w[:] = np.float32(p.columns.w)
        n, _ = solver.descend(p.columns, rng.random(len(p.owner)) < 0.5)
        solver.nu = rng.choice([0.0, 5.0, 50.0])
        updates += n
    u = weights(twin.scores(p.columns.w, p.H, p.owner, K=p.K), p.y, "exp", sample_weight=p.s)
    np.testing.assert_allclose(p.weights(solver), u, rtol=1e-8)


@pytest.mark.parametrize("light", [1e-3, 1e-5, 1e-7])
def test_float32_sees_the_small_side(light):
    """Learners whose mistakes have next to no weight: the small sum must not drown in the rounding of the large one."""
    rng = np.random.default_rng(0)
    m = 12000
    K = 3
    n = 10
    y = np.sort(rng.integers(0, K, m))
    bad = rng.random(m) < 0.01
    weight = np.where(bad, light, 1.0) * (0.5 + rng.random(m))
    owner = np.repeat(np.arange(K), n)
    truth = np.where(y == owner[:, None], 1, -1)
    H = np.where(bad & (rng.random(truth.shape) < 0.7), -truth, truth)
    data = TrainingData(rng.normal(size=(m, 1)), y, K, sample_weight=weight)
    found = []
    for dtype in (np.float32, np.float64):
        columns = Columns.of_classes(pack(H[:, data.rows]), np.zeros(n * K), owner, K)
        solver = FCD(PAIRWISE["exp"], data, 1e-6 * m, dtype=dtype)
        solver.start()
        solver.solve(columns, max_passes=200)
        exact = FCD(PAIRWISE["exp"], data, 1e-6 * m, dtype=np.float64)
        found.append(exact.refresh(columns))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


def test_float32_with_refresh():
    """Above 10,000 rows; refreshed every 1,000 updates and ended with a pass in float64, within 1e-5 of the minimum."""
    p = Problem(12_000, 6, 150, skill=0.68)
    exact = p.fcd(2.0)
    best = exact.solve(p.columns, tol=1e-7).objective
    q = Problem(12_000, 6, 150, skill=0.68)
    solver = FCD(PAIRWISE["exp"], q.data, 2.0)
    assert solver.dtype == np.float32
    assert solver.refresh_every == 1000
    solver.start()
    refreshed = []
    original = solver.refresh
    solver.refresh = lambda columns: refreshed.append(solver._n_updates) or original(columns)
    solved = solver.solve(q.columns, tol=1e-5)
    assert solved.updates > 2000
    assert refreshed
    assert min(refreshed) >= 1000
    np.testing.assert_allclose(polished(solver, q.columns), best, rtol=1e-5)
    np.testing.assert_allclose(twin.objective(q.columns.w, *q.args(2.0)), best, rtol=1e-5)


def test_separable_data_end_at_the_cap():
    """Without regularisation a learner without mistakes gets the largest coefficient; nothing is infinite."""
    p = Problem(60, 3, 3, skill=1.0)
    solver = p.fcd(0.0)
    solver.solve(p.columns, max_passes=30)
    assert p.columns.w.max() == LARGEST_COEFFICIENT
    assert np.isfinite(solver.U).all()
    lbfgs = Problem(60, 3, 3, skill=1.0)
    LBFGS(PairWeights(PAIRWISE["exp"], lbfgs.data, 0.0)).solve(lbfgs.columns)
    assert lbfgs.columns.w.max() <= LARGEST_COEFFICIENT


@pytest.mark.parametrize("n_threads", [2, 8])
def test_threads_change_nothing(n_threads):
    one, many = (Problem(5000, 7, 80, skill=0.6) for _ in range(2))
    a = one.fcd(1.0)
    b = many.fcd(1.0, n_threads=n_threads)
    a.solve(one.columns, max_passes=6, seed=9)
    b.solve(many.columns, max_passes=6, seed=9)
    assert one.columns.w.tobytes() == many.columns.w.tobytes()
    assert a.U.tobytes() == b.U.tobytes()
    assert a.gradient().tobytes() == b.gradient().tobytes()


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("case", [case for case in NASTY if case["m"] > 1], ids=name_of)
def test_vector_instructions_change_nothing(case, dtype):
    if not kernel.allow_512(True):
        pytest.skip("this CPU or this build has no AVX-512")
    ends = []
    for allowed in (True, False):
        kernel.allow_512(allowed)
        try:
            p = Problem(**case)
            solver = p.fcd(0.7, dtype)
            solver.solve(p.columns, max_passes=4)
        finally:
            kernel.allow_512(True)
        ends.append((p.columns.w.tobytes(), solver.U.tobytes()))
    assert ends[0] == ends[1]


def test_wrong_buffers_are_refused():
    p = Problem(40, 3, 4)
    solver = p.fcd(1.0)
    bad = Columns(p.columns.H[:, :1].copy(), p.columns.ptr, p.columns.column, w=p.columns.w)
    with pytest.raises(ValueError, match="room for the same rows"):
        solver.descend(bad)
    raw = aligned_zeros((3, padded(40) + 16), np.float64)[:, 1 : padded(40) + 1]
    with pytest.raises(ValueError, match="contiguous"):
        kernel.total(raw, p.data.class_start)


# -- weak learners and rounds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "d", "K", "how"),
    [
        (60, 3, 2, ""),
        (120, 4, 5, "nan"),
        (700, 3, 20, "ties"),
        (2500, 3, 4, "skew"),
        (2500, 2, 17, ""),
        (150, 6, 3, "sparse"),
    ],
)
def test_stumps_of_the_classes(m, d, K, how):
    X, y = blobs(m, d, K, seed=m)
    rng = np.random.default_rng(m)
    if how in ("ties", "skew") or m > 2000:
        X = np.round(X) if how != "skew" else np.where(rng.random(X.shape) < 0.8, 0, np.round(X))
    if how == "nan":
        X[rng.random(X.shape) < 0.2] = np.nan
    X = np.column_stack([X, np.ones(m)]).astype(np.float32)
    given = X
    if how == "sparse":
        import scipy.sparse

        X[rng.random(X.shape) < 0.6] = 0
        given = scipy.sparse.csr_matrix(X)
    data = TrainingData(given, y, K, sample_weight=np.ones(m))
    u = rng.exponential(size=(m, K))
    a = gradient_of(u, data.y)
    buffer = data.gradient_buffer()
    for c in range(K):
        buffer[c // data.lanes, :, c % data.lanes] = a[:, c]
    for n_threads in (1, 2):
        model = EdgeStumps(data, n_threads).fit(buffer)
        assert [one.cls for one in model] == list(range(K))
        for one in model:
            edge, f, threshold, nan_left, _, signed = best_stump(X[data.rows], a[:, [one.cls]])
            np.testing.assert_allclose(
                one.edge, edge, rtol=1e-4 if data.dtype == np.float32 else 1e-10
            )
            h = outputs(X[data.rows][:, one.feature], one.threshold, one.nan_left) * one.polarity
            np.testing.assert_array_equal(one.h, h)
            np.testing.assert_allclose(
                h @ a[:, one.cls], edge, rtol=1e-4 if data.dtype == np.float32 else 1e-10
            )
            if data.dtype == np.float64:
                assert (one.feature, one.threshold, one.nan_left, one.polarity) == (
                    f,
                    threshold,
                    nan_left,
                    np.sign(signed),
                )


def test_a_class_without_edges_has_no_stump():
    X, y = blobs(80, 2, 3)
    data = TrainingData(X, y, 3, sample_weight=np.ones(80))
    buffer = data.gradient_buffer()
    buffer[0, :, 1] = np.where(data.y == 1, 1.0, -1.0)
    assert [one.cls for one in EdgeStumps(data, 1).fit(buffer)] == [1]
    flat = TrainingData(np.ones((80, 2), dtype=np.float32), y, 3, sample_weight=np.ones(80))
    assert EdgeStumps(flat, 1).fit(buffer) == []


def test_trees_of_the_classes():
    X, y = blobs(900, 4, 5)
    data = TreeData(X, y, 5, sample_weight=np.ones(900))
    rng = np.random.default_rng(0)
    a = gradient_of(rng.exponential(size=(900, 5)), data.y)
    buffer = data.gradient_buffer()
    for c in range(5):
        buffer[0, :, c] = a[:, c]
    model = EdgeTrees(data, 4, 2, n_threads=1).fit(buffer)
    assert [one.cls for one in model] == list(range(5))
    for one in model:
        assert len(one.sign) <= 4
        np.testing.assert_allclose(one.h @ a[:, one.cls], one.edge, rtol=1e-5)
    edges = [one.edge for one in model]
    best = SharedTree(data, 4, 2, n_threads=1).fit(buffer)
    assert best.cls == int(np.argmax(edges))
    np.testing.assert_array_equal(best.h, model[best.cls].h)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("m", "d", "K", "C"), [(60, 3, 2, 1e8), (90, 2, 3, 1e8), (80, 3, 4, 50.0)])
def test_stagewise_is_algorithm_1_with_one_pass(m, d, K, C, shared):
    X, y = blobs(m, d, K, spread=2.5)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    expected = twin.multiboost(X, y, K, rounds=12, C=C, cap=LARGEST_COEFFICIENT, shared=shared)
    cls = MultiBoostClassifier if shared else MultiBoostCWClassifier
    model = cls(n_estimators=12, C=C, max_passes=1, tol=0).fit(X, y)
    F = np.zeros((m, K))
    for stage, actual in zip(expected, model.staged_decision_function(X), strict=True):
        for f, threshold, polarity, c, w in stage:
            F[:, c] += w * polarity * np.where(X[:, f] <= threshold, -1, 1)
        scores = F[:, 1] - F[:, 0] if K == 2 else F
        np.testing.assert_allclose(actual, scores, rtol=1e-5, atol=1e-6)
    nu = m * (K - 1) / C
    u = weights(F, y, "exp", sample_weight=np.ones(m)).sum()
    total = sum(w for stage in expected for *_, w in stage)
    np.testing.assert_allclose(model.history_["objective"][-1], u + nu * total, rtol=1e-6)


def test_two_classes_are_adaboost():
    """MultiBoost-cw-1 without regularisation: F_1 - F_0 grows by AdaBoost's coefficient of AdaBoost's stump."""
    X, y = blobs(100, 3, 2, spread=2.5)
    model = MultiBoostCWClassifier(n_estimators=15, C=1e12, max_passes=1, tol=0).fit(X, y)
    F = np.zeros(100)
    stages = list(model.staged_decision_function(X))
    assert len(stages) == 15
    for (f, threshold, polarity, alpha), found in zip(adaboost(X, y, 15), stages, strict=True):
        # The twin's score is that of label 0; the margin of a pair is F_0 - F_1, so that alpha is its coefficient.
        F -= alpha * polarity * np.where(X[:, f] <= threshold, -1, 1)
        np.testing.assert_allclose(found, F, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weak_learner", ["stump", "tree"])
@pytest.mark.parametrize("cls", [MultiBoostClassifier, MultiBoostCWClassifier])
def test_totally_corrective_rounds(cls, weak_learner):
    """The objective is that of the model, never rises, and the model's coefficients are optimal for its learners."""
    X, y = blobs(400, 4, 5, spread=2.0)
    model = cls(
        n_estimators=25,
        C=300.0,
        max_passes=50,
        weak_learner=weak_learner,
        max_leaf_nodes=4,
        random_state=0,
    )
    model.fit(X, y)
    F = model.model_.raw_scores(X)
    a = gradient_of(weights(F, y, "exp", sample_weight=np.ones(400)), y)
    nu = 400 * 4 / 300.0
    for owner, h, coef in learners_of(model, X):
        slope = nu - h @ a[:, owner]
        # 50 passes: far below the violations of the new learners, which are the edges less nu.
        assert (
            abs(slope) <= 0.02 * model.history_["edge"].max() if coef > 0 else slope >= -0.02 * nu
        )
    u = weights(F, y, "exp", sample_weight=np.ones(400)).sum()
    coefficients = sum(
        abs(np.asarray(leaf[0], dtype=float)).sum() for leaf in leaves_of(model.model_.ensemble)
    )
    value = u + 400 * 4 / 300.0 * coefficients
    np.testing.assert_allclose(model.history_["objective"][-1], value, rtol=1e-6)
    assert (np.diff(model.history_["objective"]) <= 1e-9 * value).all()
    kept = model.sparsity_
    assert kept["learners"] == model.history_["n_learners"][-1] == model.model_.n_learners
    assert kept["coefficients"] == kept["learners"] * (5 if cls is MultiBoostClassifier else 1)
    assert kept["generated"] == model.history_["n_found"].sum() >= kept["learners"]
    if cls is MultiBoostCWClassifier:
        assert kept["zero"] == 0
    else:
        assert 0 < kept["zero"] < kept["coefficients"]


@pytest.mark.parametrize("loss", ["exp", "log"])
@pytest.mark.parametrize("C", [300.0, 1e6])
@pytest.mark.part(3)
def test_cold_starts_are_those_of_the_twin(loss, C):
    X, y = blobs(80, 3, 3, spread=2.0)
    model = MultiBoostClassifier(
        loss=loss, n_estimators=6, C=C, solver="lbfgs-cold", tol=0, random_state=0
    ).fit(X, y)
    expected = twin.multiboost_cold(X, y, 3, rounds=6, C=C, cap=LARGEST_COEFFICIENT, loss=loss)
    np.testing.assert_allclose(model.model_.raw_scores(X), expected, rtol=1e-3, atol=1e-3)
    # The minimum is another one.
    least = MultiBoostClassifier(
        loss=loss, n_estimators=6, C=C, solver="lbfgs", tol=0, random_state=0
    ).fit(X, y)
    assert C == 300 or np.abs(least.model_.raw_scores(X) - expected).max() > 0.5


def test_cold_starts_repeat_learners_and_go_on_from_any_model():
    X, y = blobs(80, 2, 3, spread=1.0)
    X = X.astype(np.float32)

    def make(n, solver="lbfgs-cold", **options):
        return MultiBoostClassifier(
            n_estimators=n, C=1e8, solver=solver, tol=0, random_state=0, **options
        )

    uninterrupted = make(40).fit(X, y)
    assert uninterrupted.n_estimators_ == uninterrupted.model_.n_learners == 40
    halves = make(20, warm_start=True).fit(X, y)
    halves.set_params(n_estimators=40).fit(X, y)
    assert halves.model_.to_bytes() == uninterrupted.model_.to_bytes()
    # Another solver goes on with every learner once, and with the same scores.
    builder = column_generation.CorrectiveBuilder(EnsembleBuilder(3, 1), 3, True, kept_rounds=1)
    builder.take_over(uninterrupted.model_.ensemble, uninterrupted.n_estimators_, X, slice(None))
    assert len(builder) == len({learner.key() for learner in builder.learners}) < 40
    F = aligned_zeros((3, padded(80)), np.float64)
    builder.columns().scores(F, 1)
    np.testing.assert_allclose(
        F[:, :80].T, uninterrupted.model_.raw_scores(X), rtol=1e-5, atol=1e-4
    )
    np.testing.assert_array_equal(builder.coef, builder.coef.astype(np.float32))
    uninterrupted.set_params(warm_start=True, solver="fcd", n_estimators=41, max_passes=2).fit(X, y)
    assert uninterrupted.model_.n_learners <= len(builder) + 1


@pytest.mark.parametrize("weak_learner", ["stump", "tree"])
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("loss", ["exp", "log"])
@pytest.mark.part(3)
def test_cold_starts_with_weights_threads_and_early_stopping(loss, K, weak_learner):
    X, y = blobs(120, 3, K, spread=2.0)
    weight = np.random.default_rng(1).integers(0, 3, 120).astype(float)

    def fit(X, y, weight, **options):
        model = MultiBoostClassifier(
            loss=loss,
            n_estimators=12,
            C=1e5,
            solver="lbfgs-cold",
            tol=0,
            weak_learner=weak_learner,
            max_leaf_nodes=4,
            random_state=0,
            **options,
        )
        return model.fit(X, y, sample_weight=weight)

    model = fit(X, y, weight)
    assert fit(X, y, weight, n_jobs=2).model_.to_bytes() == model.model_.to_bytes()
    used = weight > 0
    np.testing.assert_allclose(
        fit(X[used], y[used], weight[used]).decision_function(X), model.decision_function(X)
    )
    stopped = fit(X, y, weight, early_stopping=True, n_iter_no_change=3)
    assert stopped.n_estimators_ == np.argmin(stopped.history_["val_log_loss"]) + 1 <= 12


def test_a_cold_start_that_sees_no_slope_leaves_the_model_as_it_is(monkeypatch):
    X, y = blobs(80, 2, 3, spread=1.0)
    model = MultiBoostClassifier(
        n_estimators=5, C=1e6, solver="lbfgs", warm_start=True, random_state=0
    ).fit(X, y)
    before = model.decision_function(X)
    monkeypatch.setattr("pymcboost.solvers.lbfgs.COLD_SLOPE", 10.0)
    model.set_params(solver="lbfgs-cold", n_estimators=8).fit(X, y)
    assert model.n_estimators_ == 5
    np.testing.assert_allclose(model.decision_function(X), before, rtol=1e-6)
    with pytest.warns(UserWarning, match="coefficients stay 0"):
        constant = MultiBoostClassifier(n_estimators=5, C=1e6, solver="lbfgs-cold").fit(X, y)
    assert constant.model_.n_learners == 0


def learners_of(model, X):
    """(class, outputs of +-1, coefficient) of every coefficient of a fitted model."""
    trees = (tree[:-1] for tree in model.model_.ensemble.each_tree())
    for feature, threshold, nan_left, right, leaf, owner in trees:
        coef = np.abs(np.asarray(leaf[0], dtype=float))
        sign = np.sign(leaf if owner >= 0 else leaf[:, coef.argmax()])
        learner = column_generation.Learner(
            np.array(feature),
            np.array(threshold, dtype=np.float32),
            np.array(nan_left, dtype=bool),
            right=np.array(right),
            sign=sign,
            owner=owner,
        )
        bits = column_generation.outputs([learner], X, np.arange(len(X)), n_features=X.shape[1])
        h = 1.0 - 2.0 * np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little")[0, : len(X)]
        for c in [owner] if owner >= 0 else range(5):
            yield c, h, float(coef if owner >= 0 else coef[c])


def leaves_of(ensemble):
    if hasattr(ensemble, "rounds"):
        return [leaf for _, _, _, _, leaf, _, _ in ensemble.each()]
    return [(right,) for _, _, _, right, _ in ensemble.each()]


def test_column_generation_ends_where_the_dual_is_feasible():
    """Run to its end, no stump of any class has an edge above nu, and FCD and L-BFGS-B agree about the minimum."""
    X, y = blobs(150, 2, 3, spread=2.0)
    ends = []
    for options in ({"solver": "fcd", "max_passes": 500}, {"solver": "lbfgs"}):
        model = MultiBoostClassifier(
            n_estimators=400, C=30.0, tol=0, random_state=0, **options
        ).fit(X, y)
        assert model.n_estimators_ < 400
        u = weights(model.model_.raw_scores(X), y, "exp", sample_weight=np.ones(150))
        nu = 150 * 2 / 30.0
        assert best_stump(X, gradient_of(u, y))[0] <= nu * 1.01
        ends.append(model.history_["objective"][-1])
    cw = MultiBoostCWClassifier(
        n_estimators=400, C=30.0, max_passes=500, tol=0, random_state=0
    ).fit(X, y)
    ends.append(cw.history_["objective"][-1])
    np.testing.assert_allclose(ends, ends[0], rtol=1e-4)


def test_learners_on_features_far_apart_are_not_taken_for_one():
    """Feature numbers that are equal in float32."""
    from scipy.sparse import csr_matrix

    X, y = blobs(120, 2, 3, spread=1.0)
    at = 2**24 + np.tile([0, 1], 120)
    far = csr_matrix((X.ravel(), at, np.arange(0, 241, 2)), shape=(120, 2**24 + 2))
    model = MultiBoostClassifier(n_estimators=20, C=100.0, random_state=0).fit(csr_matrix(X), y)
    other = MultiBoostClassifier(n_estimators=20, C=100.0, random_state=0).fit(far, y)
    np.testing.assert_array_equal(model.history_["objective"], other.history_["objective"])


@pytest.mark.parametrize("cls", [MultiBoostClassifier, MultiBoostCWClassifier])
@pytest.mark.parametrize("weak_learner", ["stump", "tree"])
@pytest.mark.parametrize("tiny", [5e-324, 1e-310, 1e-200])
def test_weights_hundreds_of_orders_apart(cls, tiny, weak_learner):
    X, y = blobs(150, 3, 3)
    weight = np.ones(150)
    weight[::7] = tiny
    model = cls(n_estimators=10, C=1e3, random_state=0, weak_learner=weak_learner).fit(
        X, y, sample_weight=weight
    )
    assert np.isfinite(model.history_["objective"]).all()
    assert model.n_estimators_ == 10
    assert (model.predict(X) == y)[weight == 1].mean() > 0.7


def test_scores_far_apart_overflow_nothing():
    p = Problem(60, 3, 4)
    F = np.zeros((60, 3))
    F[::5, 0] = 400.0
    for dtype in REAL:
        solver = p.fcd(1.0, dtype)
        assert np.isfinite(solver.start(F.T))
        assert np.isfinite(solver.U).all()
        assert np.isfinite(solver.gradient()).all()
        solver.descend(p.columns)
        assert np.isfinite(p.columns.w).all()


@pytest.mark.parametrize("cls", [MultiBoostClassifier, MultiBoostCWClassifier])
def test_more_than_ten_thousand_rows(cls):
    """Weights in float32: about the objective that float64 finds, and the objective of the model."""
    X, y = blobs(12_000, 3, 4, spread=2.0)
    model = cls(n_estimators=15, C=1e3, max_passes=8, random_state=0).fit(X, y)
    u = weights(model.model_.raw_scores(X), y, "exp", sample_weight=np.ones(len(y))).sum()
    l1 = sum(
        abs(np.asarray(leaf[0], dtype=float)).sum() for leaf in leaves_of(model.model_.ensemble)
    )
    np.testing.assert_allclose(
        model.history_["objective"][-1], u + len(y) * 3 / 1e3 * l1, rtol=1e-5
    )
    assert (np.diff(model.history_["objective"]) < 0).all()


def test_outputs_that_do_not_fit_are_refused(monkeypatch):
    X, y = blobs(3000, 3, 4)
    monkeypatch.setattr(memory, "available_memory", lambda: 3_000_000)
    with pytest.raises(MemoryError, match="80000 weak learners on 3000 rows .*max_passes=1"):
        MultiBoostCWClassifier(n_estimators=20_000).fit(X, y)
    MultiBoostCWClassifier(n_estimators=5).fit(X, y)
    with pytest.raises(MemoryError, match="Use a smaller n_estimators, fewer rows"):
        MultiBoostClassifier(n_estimators=80_000, solver="lbfgs").fit(X, y)


def test_outputs_on_validation_rows_are_counted(monkeypatch):
    X, y = blobs(3000, 3, 4)
    monkeypatch.setattr(memory, "available_memory", lambda: 2_000_000)
    one_round = {"callbacks": [SimpleNamespace(after_round=lambda state: True)]}
    held_out = {"X_val": X, "y_val": y}
    MultiBoostCWClassifier(n_estimators=500).fit(X, y, **one_round)
    with pytest.raises(MemoryError, match="outputs of 2000 weak learners"):
        MultiBoostCWClassifier(n_estimators=500).fit(X, y, **held_out, **one_round)
    MultiBoostCWClassifier(n_estimators=500, max_passes=1).fit(X, y, **held_out, **one_round)


@pytest.mark.parametrize("weak_learner", ["stump", "tree"])
@pytest.mark.parametrize("cls", [MultiBoostClassifier, MultiBoostCWClassifier])
def test_scores_of_validation_rows_are_those_of_the_model(cls, weak_learner):
    """Round by round, also where training goes on from a model."""
    from scipy.sparse import csr_matrix

    X, y = blobs(300, 4, 4)
    X_val, y_val = blobs(77, 4, 4, seed=1)
    X_val[::7, 2] = np.nan
    seen = []

    class WatchedRounds(cls.booster):
        def follow(self, validation):
            super().follow(validation)
            expected = Model.from_ensemble(self.builder.freeze(), np.arange(4)).raw_scores(
                validation.X
            )
            np.testing.assert_allclose(validation.scores, expected, rtol=1e-12, atol=1e-12)
            seen.append(self.builder.n_rounds)

    class Watching(cls):
        booster = WatchedRounds

    model = Watching(
        n_estimators=12,
        C=300.0,
        tol=0,
        max_passes=4,
        weak_learner=weak_learner,
        max_leaf_nodes=3,
        random_state=0,
        scoring="error",
    )
    model.fit(X, y, X_val=csr_matrix(X_val), y_val=y_val)
    # Learners that a class has for itself come and go.
    assert cls.booster.shared or model.sparsity_["generated"] > model.sparsity_["learners"]
    error = np.mean(model.predict(X_val) != y_val)
    assert model.history_["val_error"][-1] == error
    model.set_params(n_estimators=20, warm_start=True).fit(X, y, X_val=X_val, y_val=y_val)
    assert seen == list(range(1, 21))


def test_a_penalty_too_large_is_named():
    X, y = blobs(90, 2, 3)
    with pytest.warns(
        UserWarning, match="no weak learner has an edge above p/C with C=0.5.* Increase C"
    ):
        MultiBoostClassifier(C=0.5).fit(X, y)
