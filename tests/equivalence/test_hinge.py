"""Margin-rescaled SVMs and HingeBoost.OC against direct solutions."""

import functools
import re
import signal
import subprocess
import sys
import threading
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse
from reference import hinge as reference
from scipy.optimize import LinearConstraint, minimize
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.svm import SVC
from threadpoolctl import ThreadpoolController

from pymcboost import HingeBoostOCClassifier
from pymcboost._kernels import output_codes, svmdual
from pymcboost.hinge import columns as colourings
from pymcboost.hinge import coordinate, dual, libsvm
from pymcboost.hinge import data as machine_data
from pymcboost.hinge.coordinate import DenseKernel, LinearRows
from pymcboost.hinge.dual import violation_of
from pymcboost.hinge.kernels import kernel_block
from pymcboost.hinge.libsvm import LibsvmKernel
from pymcboost.training import memory

KERNEL_SOLVERS = {"libsvm": LibsvmKernel, "pairwise": DenseKernel}
TOL = 1e-7


def problem(m=55, d=5, minority=0.5, kind="mixed", seed=0):
    """Rows, signs and margins; kind of the margins: all 1, mixed with zeros and negative ones, or close to 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, d)).astype(np.float32)
    score = X[:, 0] + 0.7 * X[:, 1] * X[:, 2] + 0.4 * rng.normal(size=m)
    sign = np.where(score > np.quantile(score, 1 - minority), 1, -1).astype(np.int8)
    margin = {
        "one": np.ones(m),
        "mixed": np.where(rng.random(m) < 0.3, 0.0, rng.normal(0.4, 0.8, size=m)),
        "small": 1e-3 * rng.normal(size=m),
    }[kind]
    return X, sign, margin


def block_of(X, kernel, gamma=0.3):
    return lambda begin, end: kernel_block(
        X[begin:end], X, kernel, gamma=gamma, coef0=1.0, degree=2
    )


@functools.cache
def direct(exact, kernel, minority, kind, C):
    X, sign, d = problem(minority=minority, kind=kind)
    K = block_of(X, kernel)(0, len(d))
    K = K if exact else K.astype(np.float32).astype(float)
    # Ten times the solution for a tenth of C is close to that for C.
    start = 10 * direct(exact, kernel, minority, kind=kind, C=C / 10) if C > 0.1 else 0.0
    return reference.solve_dual(K, sign, d, c=C / len(d), tol=1e-8 * np.abs(d).max(), start=start)


def violation(K, sign, d, c, beta):
    lo = np.where(sign < 0, -c, 0.0)
    hi = np.where(sign > 0, c, 0.0)
    used = sign != 0
    return violation_of(beta[used], (sign * d - K @ beta)[used], lo[used], hi=hi[used])[0]


@pytest.mark.parametrize("C", [0.1, 1, 10, 100, 1000])
@pytest.mark.parametrize("kind", ["one", "mixed", "small"])
@pytest.mark.parametrize("minority", [0.5, 1 / 11])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "perceptron"])
@pytest.mark.parametrize("solver", ["libsvm", "pairwise", "coordinate"])
@pytest.mark.part(7)
def test_every_solver_reaches_the_direct_solution(solver, kernel, minority, kind, C):
    if solver == "coordinate" and kernel != "linear":
        pytest.skip("coordinate steps on rows are for linear kernels")
    X, sign, d = problem(minority=minority, kind=kind)
    m = len(d)
    c = C / len(d)
    block = block_of(X, kernel)
    machine = LinearRows(X) if solver == "coordinate" else KERNEL_SOLVERS[solver](m, block)
    K = block(0, m)
    if solver != "coordinate":
        K = K.astype(np.float32).astype(float)  # as LIBSVM caches it
    expected = direct(solver == "coordinate", kernel, minority, kind=kind, C=C)
    best = reference.dual_objective(K, sign, d, beta=expected)
    tol = TOL * np.abs(d).max()
    solution = machine.solve(sign, d, c, tol)
    scale = max(best, 1e-3 * c * m * np.abs(d).mean())
    assert reference.dual_objective(K, sign, d, beta=solution.beta) == pytest.approx(
        best, abs=1e-6 * scale
    )
    primal = reference.primal_objective(solution.norm2, solution.f, sign, d=d, c=c)
    assert primal == pytest.approx(best, abs=1e-3 * scale)
    assert abs(solution.beta.sum()) < 1e-12 * c * m
    assert violation(K, sign, d, c=c, beta=solution.beta) < 1e-5 * np.abs(d).max()
    sums = K @ expected
    np.testing.assert_allclose(
        solution.f - solution.bias, sums, atol=1e-4 * max(1, np.abs(sums).max())
    )
    alpha = np.abs(expected)
    free = (alpha > 1e-3 * c) & (alpha < (1 - 1e-3) * c)
    if free.any():
        assert solution.bias == pytest.approx(
            (sign * d - sums)[free].mean(), abs=1e-4 * max(1, np.abs(sums).max())
        )
    if kernel == "rbf":  # positive definite: the multipliers are unique
        np.testing.assert_allclose(solution.beta, expected, atol=1e-3 * c)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [1, 100])
def test_reference_solves_the_quadratic_program(kernel, C):
    """The reference's steps against SciPy's general solver of the dual."""
    X, sign, d = problem(m=40, minority=0.3)
    K = block_of(X, kernel)(0, 40)
    c = C / 40
    beta = reference.solve_dual(K, sign, d, c=c)
    bounds = [(min(0, s * c), max(0, s * c)) for s in sign]
    done = minimize(
        lambda b: -reference.dual_objective(K, sign, d, beta=b),
        np.zeros(40),
        jac=lambda b: K @ b - sign * d,
        bounds=bounds,
        constraints=LinearConstraint(np.ones((1, 40)), 0, 0),
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-13},
    )
    assert reference.dual_objective(K, sign, d, beta=beta) == pytest.approx(-done.fun, rel=1e-6)
    sums = K @ beta
    b = reference.best_bias(sums, sign, d, c=c)
    primal = reference.primal_objective(beta @ sums, sums + b, sign, d=d, c=c)
    assert primal == pytest.approx(-done.fun, rel=1e-6)


def test_scores_bias_and_sign_are_those_of_a_plain_svc_where_all_margins_are_1():
    X, sign, _ = problem(m=200, minority=0.3)
    for first in (1, -1):  # LIBSVM orders the labels by their first row
        order = np.argsort(-first * sign, kind="stable")
        Z, s = X[order], sign[order]
        plain = SVC(C=0.05, kernel="rbf", gamma=0.3, tol=1e-8).fit(Z, s)
        for make in KERNEL_SOLVERS.values():
            solution = make(200, block_of(Z, "rbf")).solve(s, np.ones(200), 0.05, 1e-8)
            np.testing.assert_allclose(solution.f, plain.decision_function(Z), atol=1e-5)


@pytest.mark.parametrize("m", [500, pytest.param(8000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("size", [0.0, 1e-6, 1e-3])
def test_anchors_are_at_their_bound_where_margins_are_close_to_0(m, size):
    """`LibsvmKernel.solve` asserts it after every solve; with them free, LIBSVM would solve for margins of 1."""
    X, sign, _ = problem(m=m)
    machine = LibsvmKernel(m, block_of(X, "rbf"))
    d = size * np.random.default_rng(1).normal(size=m)
    for C in (0.1, 10, 1000):
        solution = machine.solve(sign, d, C / m, 1e-8)
        lo = np.where(sign < 0, -C / m, 0.0)
        hi = np.where(sign > 0, C / m, 0.0)
        sums = solution.f - solution.bias
        # Solved for margins of 1, the violation would be about 1. Rows close to each other, whose float32 kernel is not
        # positive definite, keep LIBSVM from 1e-8 within its ten million steps.
        limit = 1e-7 + 1e-5 * size if m < 1000 else 1e-4
        assert violation_of(solution.beta, sign * d - sums, lo, hi=hi)[0] < limit
        assert np.abs(solution.beta).max() <= C / m


def test_anchors_reach_their_bound_where_the_tolerance_is_above_the_margins():
    X, y = load_digits(return_X_y=True)
    model = HingeBoostOCClassifier(n_estimators=25, kernel="rbf", C=1000, random_state=0).fit(
        X[:600], y[:600]
    )
    assert model.score(X[:600], y[:600]) == 1


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_gamma_follows_the_units_of_the_features(kernel):
    X, y = load_digits(return_X_y=True)
    X, y = X[:500], y[:500]
    words = {
        "n_estimators": 15,
        "kernel": kernel,
        "C": 1e4,
        "degree": 2,
        "coef0": 1.0,
        "random_state": 0,
    }
    model = HingeBoostOCClassifier(**words).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.9
    given = HingeBoostOCClassifier(
        **words, gamma=1 / (64 * X[:400].astype(np.float32).var(dtype=np.float64))
    )
    np.testing.assert_array_equal(
        model.decision_function(X), given.fit(X[:400], y[:400]).decision_function(X)
    )
    metres = HingeBoostOCClassifier(**words).fit(X[:400] * 1024, y[:400])
    np.testing.assert_allclose(
        metres.decision_function(X * 1024), model.decision_function(X), atol=1e-6
    )


def test_rounds_that_are_added_keep_gamma():
    X, y = load_iris(return_X_y=True)
    words = {"kernel": "rbf", "C": 100.0, "random_state": 0}
    model = HingeBoostOCClassifier(n_estimators=5, warm_start=True, **words).fit(X, y)
    gamma = model.model_.ensemble.gamma
    model.set_params(n_estimators=10).fit(3 * X, y)
    assert model.model_.ensemble.gamma == gamma


def test_anchors_that_are_not_at_their_bound_are_noticed(monkeypatch):
    monkeypatch.setattr(libsvm, "ANCHOR_MARGIN", 0.0)
    X, sign, d = problem()
    with pytest.raises(AssertionError, match="the anchors have the multipliers"):
        LibsvmKernel(len(d), block_of(X, "linear")).solve(sign, d, 0.01, 1e-3)


@pytest.mark.parametrize("solver", ["libsvm", "pairwise", "coordinate"])
def test_rows_without_a_sign_take_no_part(solver):
    X, sign, d = problem(m=150)
    sign[::3] = 0
    kept = sign != 0
    make = lambda Z: (  # noqa: E731
        LinearRows(Z)
        if solver == "coordinate"
        else KERNEL_SOLVERS[solver](len(Z), block_of(Z, "linear"))
    )
    some = make(X).solve(sign, d, 0.1, 1e-8)
    alone = make(X[kept]).solve(sign[kept], d[kept], 0.1, 1e-8)
    assert not some.beta[~kept].any()
    np.testing.assert_allclose(some.f[kept], alone.f, atol=1e-4)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_free", [1, 2, 9, 40])
@pytest.mark.parametrize("wide", [0.3, 1e6])
def test_a_step_on_the_free_variables(sparse, n_free, wide):
    rng = np.random.default_rng(n_free)
    X = np.where(rng.random((60, 70)) < 0.5, rng.normal(size=(60, 70)), 0).astype(np.float32)
    sign = np.where(np.arange(60) % 2, 1.0, -1.0)
    lo, hi = dual.bounds(sign, wide)
    target = sign * rng.random(60)
    beta = np.where(np.arange(60) < n_free, (lo + hi) / 2, np.where(rng.random(60) < 0.5, lo, hi))
    rows = svmdual.Rows(X)
    if sparse:
        S = scipy.sparse.csr_matrix(X)
        rows = svmdual.Rows(None, S.data, S.indptr.astype(np.int64), S.indices.astype(np.int32), 70)
    expected, *told = reference.free_step(X, target, lo, hi=hi, beta=beta, most=50, ridge=1e-10)
    n, moved, whole, bias = rows.free_step(
        target, lo, hi, beta, np.empty(60, dtype=np.int32), 50, 1e-10
    )
    assert [n, moved, whole] == told[:3] and n == n_free
    np.testing.assert_allclose(beta, expected, rtol=1e-7, atol=1e-7 * wide)
    assert bias == pytest.approx(told[3], rel=1e-6, abs=1e-6 * wide)


def test_a_step_on_too_many_free_variables_or_equal_rows():
    X = np.ones((6, 2), dtype=np.float32)
    lo = np.zeros(6)
    hi = np.ones(6)
    beta = np.full(6, 0.5)
    rows = svmdual.Rows(X)
    row = np.empty(6, dtype=np.int32)
    assert rows.free_step(hi, lo, hi, beta, row, 5, 0.0) == (6, False, False, 0.0)
    assert rows.free_step(hi, lo, hi, beta, row, 6, 0.0)[:3] == (
        6,
        False,
        False,
    )  # a singular system
    assert beta.tolist() == [0.5] * 6
    with pytest.raises(ValueError, match="an entry for every row"):
        rows.free_step(hi, lo, hi, beta, row[:5], 6, 0.0)


@pytest.mark.parametrize(
    "make", [lambda X: LinearRows(X), lambda X: DenseKernel(len(X), block_of(X, "linear"))]
)
def test_a_start_changes_the_steps_and_not_the_solution(make):
    X, sign, d = problem(m=800)
    machine = make(X)
    cold = machine.solve(sign, d, 0.01, 1e-6)
    changed = sign.copy()
    changed[:40] *= -1
    near = machine.solve(changed, d, 0.01, 1e-6)
    warm = machine.solve(changed, d, 0.01, 1e-6, start=cold.beta)
    again = machine.solve(sign, d, 0.01, 1e-6, start=cold.beta)
    np.testing.assert_allclose(warm.f, near.f, atol=1e-4)
    np.testing.assert_allclose(again.f, cold.f, atol=1e-4)
    assert again.n_iter < cold.n_iter / 2


@pytest.mark.parametrize(
    "make",
    [
        lambda X: LinearRows(X),
        lambda X: LinearRows(scipy.sparse.csr_matrix(np.where(X > 0, X, 0))),
        lambda X: DenseKernel(len(X), block_of(X, "rbf")),
    ],
    ids=["dense", "sparse", "pairwise"],
)
@pytest.mark.parametrize(("c", "tol"), [(0.01, 1e-6), (10.0, 1e-9)])
@pytest.mark.parametrize("steps", [1, 3, 64, 1001])
def test_portions_of_any_size_have_the_bits_of_one_portion(make, c, tol, steps, monkeypatch):
    X, sign, d = problem(m=130, minority=0.3)
    machine = make(X)
    entries = machine.n if hasattr(machine, "n") else machine._row_work
    monkeypatch.setattr(coordinate, "PORTION", 1 << 60)
    whole = machine.solve(sign, d, c, tol)
    assert whole.n_iter > 3
    monkeypatch.setattr(coordinate, "PORTION", int((steps + 0.5) * entries))
    parts = machine.solve(sign, d, c, tol)
    for name in ("beta", "f", "weights", "bias", "norm2", "violation", "n_iter"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name), err_msg=name)


def test_a_portion_has_steps():
    X, sign, d = problem()
    x = np.zeros(64)
    with pytest.raises(ValueError, match="a portion must have steps"):
        svmdual.smo(
            np.zeros((64, 64), np.float32),
            x,
            x,
            hi=x,
            beta=x,
            E=x,
            up=x,
            down=x,
            tol=0.1,
            max_steps=10,
            portion=0,
        )
    m = len(d)
    given = [np.zeros(m) for _ in range(5)]
    with pytest.raises(ValueError, match="a portion must have steps"):
        svmdual.Rows(X).solve(*given, np.zeros(5), 0.0, 1.0, 0.1, 9, 0, np.zeros(m, np.int32), 0)


def test_sparse_rows_equal_dense_ones():
    X, sign, d = problem(m=300, d=20)
    X[np.random.default_rng(2).random(X.shape) < 0.6] = 0
    dense = LinearRows(X).solve(sign, d, 0.1, 1e-8)
    sparse = LinearRows(scipy.sparse.csr_matrix(X)).solve(sign, d, 0.1, 1e-8)
    np.testing.assert_allclose(sparse.f, dense.f, atol=1e-5)
    np.testing.assert_allclose(sparse.weights, dense.weights, atol=1e-5)


def test_a_solve_that_fails_says_so(monkeypatch):
    X, sign, d = problem(m=400)
    monkeypatch.setattr(coordinate, "MAX_STEPS", 5)
    monkeypatch.setattr(coordinate, "MAX_VISITS", 0)
    monkeypatch.setattr(coordinate, "EPOCHS", 1)
    monkeypatch.setattr(coordinate, "MOST_FREE", 0)
    for machine in (DenseKernel(400, block_of(X, "linear")), LinearRows(X)):
        solution = machine.solve(sign, d, 10.0, 1e-9)
        assert solution.short and solution.violation > 1e-9
    monkeypatch.setattr(
        LibsvmKernel,
        "_train",
        lambda self, labels, address, c, tol: (np.concatenate((np.zeros(400), [c, -c])), 0.0, 0),
    )
    assert LibsvmKernel(400, block_of(X, "linear")).solve(sign, d, 10.0, 1e-3).short


def test_linear_machines_of_little_use_warn_with_the_remedies():
    words = {"n_informative": 8, "n_redundant": 12, "n_classes": 10, "random_state": 0}
    X, y = make_classification(300, 30, **words)
    for scale, said in (False, "Use scale=True, a larger C or"), (True, "Use a larger C or"):
        with pytest.warns(
            UserWarning, match=f"loss has hardly decreased, from 1 to .* {said} kernel='rbf'$"
        ):
            HingeBoostOCClassifier(n_estimators=10, scale=scale, random_state=0).fit(X, y)
    X, y = make_classification(200, 20, weights=[0.8], random_state=0)
    with pytest.warns(UserWarning, match="hardly decreased, from 0.4"):
        HingeBoostOCClassifier(n_estimators=10, C=1e-4, random_state=0).fit(X, y)
    X, y = load_iris(return_X_y=True)
    with pytest.warns(UserWarning, match="are almost constant"):
        HingeBoostOCClassifier(n_estimators=9, random_state=0).fit(0.01 * X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HingeBoostOCClassifier(n_estimators=3, random_state=0).fit(X, y)
        HingeBoostOCClassifier(n_estimators=9, kernel="rbf", random_state=0).fit(0.01 * X, y)


@pytest.mark.parametrize("solver", ["libsvm", "coordinate"])
def test_solves_that_have_not_converged_are_told_once(solver, monkeypatch):
    monkeypatch.setattr(coordinate, "MAX_VISITS", 20_000_000)
    X, y = load_iris(return_X_y=True)
    with pytest.warns(UserWarning) as said:
        HingeBoostOCClassifier(n_estimators=4, solver=solver, random_state=0).fit(1e12 * X, y)
    (text,) = (str(one.message) for one in said if "did not converge" in str(one.message))
    assert re.search(r"not converge in \d+ of \d+ solves: .* up to [\d.e+-]+, but tol=0.001", text)
    assert len(said) <= 2 and {one.filename for one in said} == {__file__}


def test_features_that_are_not_scaled_are_named_early_and_the_work_is_bounded(monkeypatch):
    monkeypatch.setattr(coordinate, "MAX_VISITS", 50_000_000)
    rng = np.random.default_rng(0)
    X = np.column_stack((1.7e9 + rng.uniform(0, 3e7, 500), rng.normal(size=(500, 4))))
    y = rng.integers(0, 5, 500)
    for Z in (X, scipy.sparse.csr_matrix(X)):
        with pytest.warns(UserWarning) as said:
            model = HingeBoostOCClassifier(n_estimators=4, random_state=0).fit(Z, y)
        early = [str(one.message) for one in said if "converges slowly" in str(one.message)]
        assert len(early) == 1 and "feature 0" in early[0] and "scale=True" in early[0]
        assert {one.filename for one in said} == {__file__}
        assert "converges slowly" in str(said[0].message)
        # After one solve at the bound, the others end after their first visits.
        n_iter = model.history_["n_iter"]
        assert n_iter[0] < 1.1 * coordinate.MAX_VISITS / coordinate.VISIT
        assert (n_iter[1:] <= model.history_["n_solves"][1:] * 2 * coordinate.EPOCHS * 500).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HingeBoostOCClassifier(n_estimators=4, scale=True, random_state=0).fit(X, y)


@pytest.mark.parametrize("sparse", [False, True])
def test_unscaled_features_are_found(sparse):
    X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    form = scipy.sparse.csr_matrix if sparse else np.asarray
    far = X.copy()
    wide = X.copy()
    constant = X.copy()
    far[:, 1] += np.float32(1e5)
    wide[:, 2] *= np.float32(1e7)
    constant[:, 0] = 1e6
    assert coordinate.unscaled(form(X))[0] is None
    assert coordinate.unscaled(form(constant))[0] is None
    assert coordinate.unscaled(form(far))[0] == 1
    assert coordinate.unscaled(form(wide))[0] == 2


def test_kernels_that_do_not_fit_are_refused_with_the_figure_and_the_remedy(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 1 << 20)
    X = np.zeros((1000, 2))
    y = np.arange(1000) % 3
    words = "kernel of 1000 x 1000 entries; 1.0 MiB .*fewer rows"
    with pytest.raises(MemoryError, match=words) as refusal:
        HingeBoostOCClassifier(kernel="rbf").fit(X, y)
    assert 'solver="coordinate", which takes 4 bytes per entry' in str(refusal.value)
    with pytest.raises(MemoryError, match=words):
        HingeBoostOCClassifier(kernel="rbf", solver="coordinate").fit(X, y)


def test_libsvm_says_nothing_and_keeps_its_own_output():
    code = """
import numpy as np, sys
from pymcboost.algorithms.papers.hingeboost import HingeBoostOCClassifier  # without scikit-learn, which takes a second
assert "libsvm" not in sys.modules
X = np.random.default_rng(0).normal(size=(60, 3)); y = np.arange(60) % 3
HingeBoostOCClassifier(n_estimators=2).fit(X, y)
assert "libsvm" not in sys.modules
HingeBoostOCClassifier(n_estimators=2, kernel="rbf").fit(X, y)
assert "libsvm" in sys.modules
print("end", flush=True)
from libsvm.svmutil import svm_train
svm_train([1, -1, 1, -1], [[1, 0], [0, 1], [1, 1], [0, 0]], "-c 1")
"""
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    before, after = completed.stdout.split("end\n")
    assert (before, completed.stderr) == ("", "")
    assert "optimization finished" in after


def test_threads_of_python_do_not_mix_their_counts():
    X, sign, d = problem(m=300)
    alone = LibsvmKernel(300, block_of(X, "rbf")).solve(sign, d, 0.1, 1e-6)
    found = []

    def work():
        found.append(LibsvmKernel(300, block_of(X, "rbf")).solve(sign, d, 0.1, 1e-6))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.n_iter for one in found] == [alone.n_iter] * 4
    for one in found:
        np.testing.assert_array_equal(one.beta, alone.beta)


def test_solves_in_other_threads_leave_signals_to_the_main_thread():
    X, sign, d = problem(m=300)
    machine = LibsvmKernel(300, block_of(X, "rbf"))
    found = []
    worker = threading.Thread(
        target=lambda: found.extend(machine.solve(sign, d, 0.1, 1e-6) for _ in range(20))
    )
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # background jobs of a shell ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            worker.start()
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    worker.join()
    assert len(found) == 20


# -- Columns ---------------------------------------------------------------------------------------------------------


def some_residuals(m=60, K=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.concatenate((np.arange(K), rng.integers(0, K, m - K))).astype(np.int32)
    rho = rng.normal(0.3, 1, size=(m, K))
    rho[np.arange(m), y] = 0
    return rho, y, rng.normal(size=m), rng


def some_columns(K, rng, zeros):
    while True:
        column = rng.integers(-1, 2, K) if zeros else 2 * rng.integers(0, 2, K) - 1
        if (column == 1).any() and (column == -1).any():
            return column.astype(np.int8)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_margins_costs_recolouring_and_updates_are_the_formulas(seed, zeros):
    rho, y, g, rng = some_residuals(seed=seed, K=2 + seed)
    m, K = rho.shape
    column = some_columns(K, rng, zeros)
    d = np.empty(m)
    output_codes.margins(rho, y, column, d=d)
    np.testing.assert_array_equal(d, reference.margins(rho, y, column))
    before = output_codes.cost(rho, y, column, g=g)
    assert before == pytest.approx(reference.cost(rho, y, column, g=g))
    found = column.copy()
    changes, first, after = output_codes.recolour(rho, y, found, g=g, allow_zero=zeros)
    assert first == before
    assert after == pytest.approx(reference.cost(rho, y, found, g=g))
    assert after <= before
    assert (changes > 0) == (after < before)
    assert {1, -1} <= set(found)
    best = reference.best_single_change(
        rho, y, found, g=g, colours=(-1, 0, 1) if zeros else (-1, 1)
    )
    assert after <= best + 1e-9 * abs(best)
    new = rho.copy()
    total, largest = output_codes.update(new, y, found, g=g)
    np.testing.assert_allclose(new, reference.update(rho, y, found, g=g), atol=1e-12)
    assert new.max(axis=1).sum() == pytest.approx(total) == pytest.approx(after)
    assert new.max() == largest


def test_recolouring_ends_where_costs_are_rounding_next_to_scores():
    """Costs of 1e-7 a row beside sums of g of 10 a row: changes that only seem to lower them would go on for ever."""
    rng = np.random.default_rng(2)
    K = 10
    m = 5000
    y = rng.integers(0, K, m).astype(np.int32)
    column = rng.choice([-1, 1], K).astype(np.int8)
    column[:3] = 1, -1, 1
    easy = y >= 3
    rho = -rng.uniform(1e4, 2e4, (m, K))
    rho[~easy, :3] = 10.0 ** rng.uniform(-7, -4) * rng.random(((~easy).sum(), 3))
    rho[np.arange(m), y] = 0
    g = rng.normal(size=m) * 10
    g[~easy] = np.abs(g[~easy]) * column[y[~easy]]
    for zeros in (False, True):
        changes, before, after = output_codes.recolour(rho, y, column.copy(), g=g, allow_zero=zeros)
        assert after < before if changes else after == before


def test_pair_weights_and_cuts_are_the_paper_s_sums():
    rho, y, _, rng = some_residuals(K=6)
    weights = colourings.pair_weights(rho, y)
    np.testing.assert_array_equal(weights, weights.T)
    columns = np.array([some_columns(6, rng, False) for _ in range(10)])
    np.testing.assert_allclose(
        colourings.cut(weights, columns), [reference.cut(rho, y, c) for c in columns]
    )


@pytest.mark.parametrize("seed", range(5))
def test_max_cut_and_random_columns_against_all_columns(seed):
    rng = np.random.default_rng(seed)
    K = 9
    weights = rng.normal(0.2 if seed % 2 else -0.5, 1, size=(K, K))
    weights = np.triu(weights, 1) + np.triu(weights, 1).T
    every = np.array(
        [[1, *(1 - 2 * ((i >> np.arange(K - 1)) & 1))] for i in range(1, 2 ** (K - 1))]
    )
    best = colourings.cut(weights, every).max()
    found = colourings.max_cut(weights, np.random.default_rng(0))
    assert {1, -1} == set(found)
    assert colourings.cut(weights, found[None])[0] == pytest.approx(
        best
    )  # which is negative for some of the seeds
    many = colourings.best_random(weights, 5000, np.random.default_rng(0))
    assert colourings.cut(weights, many[None])[0] == pytest.approx(best)
    pair = colourings.best_pair(weights)
    assert weights[pair == 1, pair == -1] == weights[np.triu_indices(K, 1)].max()


# -- The algorithm ---------------------------------------------------------------------------------------------------


def blobs(K=5, m=300, d=4, seed=0, spread=1.2):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, m)
    return (rng.normal(size=(K, d))[y] * 2 + spread * rng.normal(size=(m, d))).astype(np.float32), y


def test_hyperplanes_that_do_not_fit_are_refused_before_any_is_taken(monkeypatch):
    d = 2**31 - 1
    X = scipy.sparse.csr_matrix(
        (np.ones(4, dtype=np.float32), [0, 5, d - 1, 7], [0, 1, 2, 3, 4]), shape=(4, d)
    )
    y = np.arange(4) % 3
    tracemalloc.start()
    for scale in (False, True):
        with pytest.raises(MemoryError, match=r"3 hyperplanes over 2147483647 features .* GiB"):
            HingeBoostOCClassifier(n_estimators=2, scale=scale).fit(X, y)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 1 << 24
    monkeypatch.setattr(machine_data, "available_memory", lambda: 64 << 20)
    X = np.random.default_rng(0).normal(size=(10, 10_000))
    y = np.arange(10) % 2
    HingeBoostOCClassifier(n_estimators=10).fit(X, y)
    with pytest.raises(
        MemoryError, match="10000 rounds over 10000 features .* smaller n_estimators"
    ):
        HingeBoostOCClassifier(n_estimators=10_000).fit(X, y)


def test_rounds_keep_the_features_that_they_use():
    rng = np.random.default_rng(0)
    columns = rng.choice(200_000, 30, replace=False)
    X = np.zeros((60, 200_000), dtype=np.float32)
    X[:, columns] = rng.normal(size=(60, 30))
    y = rng.integers(0, 3, 60)
    builder = machine_data.LinearBuilder(3, 200_000, None)
    w = np.zeros(200_000)
    w[columns] = 1.0
    builder.add(
        np.array([1, -1, 1], dtype=np.int8),
        dual.Solution(None, 0.5, None, norm2=1.0, weights=w, violation=0.0, n_iter=1),
        w,
    )
    assert sum(np.size(part) for part in builder._rounds[0]) < 100
    np.testing.assert_array_equal(builder.freeze().coef, np.outer([0.5, -0.5, 0.5], w))
    words = {"n_estimators": 5, "C": 100.0, "random_state": 0}
    wide = HingeBoostOCClassifier(**words).fit(scipy.sparse.csr_matrix(X), y)
    few = HingeBoostOCClassifier(**words).fit(scipy.sparse.csr_matrix(X[:, np.sort(columns)]), y)
    np.testing.assert_array_equal(
        wide.model_.ensemble.coef[:, np.sort(columns)], few.model_.ensemble.coef
    )


@pytest.mark.parametrize("solver", ["libsvm", "coordinate"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_two_classes_are_one_svm_in_the_first_round(solver, kernel):
    """f = 2 g: with g = f in place of f / 2, the scores would be twice as large."""
    X, y = blobs(K=2, m=150)
    C = 20.0
    model = HingeBoostOCClassifier(
        n_estimators=1, C=C, kernel=kernel, gamma=0.5, solver=solver, tol=1e-8
    ).fit(X, y)
    plain = SVC(C=C / len(y), kernel=kernel, gamma=0.5, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("init", ["one-vs-all", "random", "max-cut", "pairs"])
@pytest.mark.parametrize("allow_zero", [False, True])
@pytest.mark.parametrize("C", [1.0, 1000.0])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.part(7)
def test_the_stage_objective_never_rises(init, allow_zero, C, kernel):
    traces = []

    class WatchedRounds(HingeBoostOCClassifier.booster):
        def round(self):
            step = super().round()
            if step is not None:
                traces.append(list(self.code_rounds.trace))
                rho = self.code_rounds.rho
                assert step["hinge"] == pytest.approx(rho.max(axis=1).mean())
                assert not rho[np.arange(len(y)), self.data.y].any()
            return step

    class Watched(HingeBoostOCClassifier):
        booster = WatchedRounds

    X, y = blobs()
    model = Watched(
        n_estimators=25,
        C=C,
        kernel=kernel,
        init=init,
        allow_zero=allow_zero,
        random_state=0,
        tol=1e-6,
        solver="coordinate",
    ).fit(X, y)
    history = model.history_
    for trace in traces:
        assert (np.diff(trace) <= 1e-5 * trace[0]).all()
    np.testing.assert_allclose([trace[0] for trace in traces], history["start"])
    np.testing.assert_allclose([trace[-1] for trace in traces], history["objective"])
    # A round begins with the loss that the one before has left, and without its norm.
    np.testing.assert_allclose(history["start"][1:], C * history["hinge"][:-1], rtol=1e-9)
    assert history["hinge"][-1] < (0.6 if C > 1 else 0.95)
    # The model is the one whose residuals were followed.
    scores = model.model_.raw_scores(X)
    rho = 1.0 - np.eye(5)[y] + scores - scores[np.arange(len(y)), y][:, None]
    assert rho.max(axis=1).mean() == pytest.approx(history["hinge"][-1], rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_model_is_the_sum_of_its_rounds(kernel, monkeypatch):
    rounds = []
    from pymcboost.hinge.data import KernelBuilder, LinearBuilder

    builder = LinearBuilder if kernel == "linear" else KernelBuilder
    original = builder.add

    def add(self, column, solution, w):
        rounds.append((column.copy(), solution, w))
        original(self, column, solution, w)

    monkeypatch.setattr(builder, "add", add)
    X, y = blobs()
    model = HingeBoostOCClassifier(n_estimators=30, C=50.0, kernel=kernel, random_state=0).fit(X, y)
    scores = np.zeros((len(y), 5))
    for column, solution, _ in rounds:
        scores += np.outer(solution.f / 2, column)
    np.testing.assert_allclose(model.model_.raw_scores(X), scores, atol=1e-4)
    if kernel == "linear":
        assert model.model_.ensemble.coef.shape == (5, 4)
        coef = sum(np.outer(column, w / 2) for column, _, w in rounds)
        np.testing.assert_allclose(model.model_.ensemble.coef, coef, rtol=1e-5, atol=1e-6)
    else:
        assert len(model.model_.ensemble) <= len(y)
        assert model.model_.ensemble.coef.any(axis=1).all()


def test_solvers_train_the_same_model():
    X, y = blobs()
    for kernel in ("linear", "rbf", "poly", "perceptron"):
        models = [
            HingeBoostOCClassifier(
                n_estimators=8,
                C=20.0,
                kernel=kernel,
                gamma=0.3,
                coef0=1.0,
                solver=solver,
                tol=1e-7,
                random_state=0,
            ).fit(X, y)
            for solver in ("libsvm", "coordinate")
        ]
        np.testing.assert_array_equal(models[0].history_["column"], models[1].history_["column"])
        np.testing.assert_allclose(
            models[0].decision_function(X), models[1].decision_function(X), atol=2e-3
        )


def test_cost_matrix_of_ones_is_the_default_and_bad_ones_are_refused():
    X, y = blobs()
    plain = HingeBoostOCClassifier(n_estimators=10, random_state=0).fit(X, y)
    ones = HingeBoostOCClassifier(n_estimators=10, random_state=0, cost_matrix=1 - np.eye(5)).fit(
        X, y
    )
    np.testing.assert_array_equal(ones.model_.ensemble.coef, plain.model_.ensemble.coef)
    assert ones.model_.meta["params"]["cost_matrix"] == (1 - np.eye(5)).tolist()
    for bad, words in (
        (1 - np.eye(4), r"shape \(4, 4\), but there are 5 classes; it must be 5 x 5"),
        (np.ones((5, 5)), "zeros on the diagonal"),
        (np.eye(5) - 1, "numbers from 0 to 1e"),
        (np.where(np.eye(5), 0, 1e30), "numbers from 0 to 1e.*multiply C"),
        (np.where(np.eye(5), 0, np.nan), "numbers from 0 to 1e"),
        (np.zeros((5, 5)), "all costs in cost_matrix are 0"),
        (np.ones((5, 4)), r"shape \(5, 4\), but there are 5 classes"),
        (3.0, r"shape \(\), but there are 5 classes"),
        ([1.0] * 5, r"shape \(5,\), but there are 5 classes"),
    ):
        with pytest.raises(ValueError, match=words):
            HingeBoostOCClassifier(cost_matrix=bad).fit(X, y)


def test_expected_cost_falls_where_the_costs_are_known():
    """Errors within a group of classes cost 1, others 10: the hierarchy of the example in the README."""
    rng = np.random.default_rng(0)
    groups = np.array([0, 0, 0, 1, 1, 1])
    cost = np.where(groups[:, None] == groups, 1.0, 10.0) - np.eye(6)
    centre = rng.normal(size=(6, 6))
    y, y_test = rng.integers(0, 6, 400), rng.integers(0, 6, 4000)
    X = centre[y] + 2 * rng.normal(size=(400, 6))
    X_test = centre[y_test] + 2 * rng.normal(size=(4000, 6))
    words = {"n_estimators": 10, "random_state": 0}
    paid = [
        cost[
            y_test,
            HingeBoostOCClassifier(C=10.0, cost_matrix=costs, **words).fit(X, y).predict(X_test),
        ]
        for costs in (None, cost)
    ]
    assert paid[1].mean() < 0.95 * paid[0].mean()


@pytest.mark.parametrize(
    ("kernel", "solver"), [("linear", "auto"), ("rbf", "libsvm"), ("perceptron", "coordinate")]
)
def test_the_model_does_not_depend_on_the_threads_of_blas(kernel, solver):
    """With many free rows, so that products and systems are large enough to be shared out."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 40))
    y = (X[:, :4] + rng.normal(size=(900, 4))).argmax(axis=1)
    C = 1e3 if kernel == "linear" else 1e4
    found = []
    for threads in (1, 4):
        with ThreadpoolController().limit(limits=threads, user_api="blas"):
            model = HingeBoostOCClassifier(
                n_estimators=1, C=C, kernel=kernel, solver=solver, random_state=0
            )
            found.append(model.fit(X, y).model_.to_bytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("max_alternations", [1, 2])
@pytest.mark.parametrize("C", [1.0, 1000.0])
@pytest.mark.part(2)
def test_a_round_ends_with_the_machine_of_its_column(max_alternations, C):
    X, y = blobs()
    rounds = []

    class WatchedRounds(HingeBoostOCClassifier.booster):
        def round(self):
            before = self.code_rounds.rho.copy()
            step = super().round()
            rounds.append((before, step))
            return step

    class Watched(HingeBoostOCClassifier):
        booster = WatchedRounds

    Watched(
        n_estimators=6,
        C=C,
        max_alternations=max_alternations,
        init="random",
        random_state=0,
        tol=1e-6,
    ).fit(X, y)
    K = X.astype(np.float32).astype(float) @ X.astype(np.float32).astype(float).T
    c = C / len(y)
    recoloured = 0
    for rho, step in rounds:
        column = step["column"]
        d = reference.margins(rho, y, column)
        start = 10 * reference.solve_dual(K, column[y], d, c=c / 10, tol=1e-7)
        beta = reference.solve_dual(K, column[y], d, c=c, tol=1e-7, start=start)
        sums = K @ beta
        bias = reference.best_bias(sums, column[y], d, c=c)
        least = beta @ sums / 2 + c * reference.cost(rho, y, column, g=(sums + bias) / 2)
        assert step["objective"] == pytest.approx(least, rel=1e-5)
        assert step["n_solves"] <= max_alternations + 1
        recoloured += step["n_solves"] > 1
    assert recoloured > 2


def test_training_stops_when_every_residual_is_met():
    X, y = load_iris(return_X_y=True)
    model = HingeBoostOCClassifier(n_estimators=500, C=1e4, kernel="rbf", gamma=5.0, random_state=0)
    X, at = np.unique(X, axis=0, return_index=True)
    model.fit(X, y[at])
    assert model.n_estimators_ < 500
    assert model.history_["hinge"][-1] <= 1e-3


def test_columns_that_ask_for_nothing_give_way_to_one_class_against_all():
    """Where all residuals are equal, a column with as many +1 as -1 asks for no margin, and its SVM is 0."""
    X, y = blobs(K=6)
    model = HingeBoostOCClassifier(n_estimators=1, init="random", random_state=0).fit(X, y)
    column = model.history_["column"][0]
    assert min((column > 0).sum(), (column < 0).sum()) == 1  # one class against the five others
    assert model.history_["objective"][0] < model.history_["start"][0]


def test_callable_kernels_fit_and_refuse_to_be_saved(tmp_path):
    import pickle

    X, y = blobs()
    kernel = lambda A, B: kernel_block(A, B, "rbf", gamma=0.3, coef0=0.0, degree=1)  # noqa: E731
    own = HingeBoostOCClassifier(n_estimators=10, kernel=kernel, random_state=0, scale=True).fit(
        X, y, X, y
    )
    named = HingeBoostOCClassifier(
        n_estimators=10, kernel="rbf", gamma=0.3, random_state=0, scale=True
    ).fit(X, y)
    np.testing.assert_allclose(own.decision_function(X), named.decision_function(X), atol=1e-5)
    np.testing.assert_array_equal(own.predict(X), named.predict(X))
    assert own.history_["val_error"][-1] == np.mean(own.predict(X) != y)
    for refused in (
        lambda: own.save(tmp_path / "m.mcb"),
        lambda: own.model_.save(tmp_path / "m.mcb"),
        own.model_.to_bytes,
    ):
        with pytest.raises(
            ValueError, match="a model with a callable kernel cannot be saved or pickled"
        ):
            refused()
    for unpicklable in (own, own.model_):
        with pytest.raises(pickle.PicklingError, match="callable kernel"):
            pickle.dumps(unpicklable)


def test_scale_is_part_of_the_model(tmp_path):
    from pymcboost import load_model

    X, y = blobs()
    far = X * np.array([1, 1000, 0.01, 10], dtype=np.float32) + np.float32(5)
    for kernel in ("linear", "perceptron"):
        model = HingeBoostOCClassifier(
            n_estimators=10, C=10.0, kernel=kernel, scale=True, random_state=0
        ).fit(far, y)
        low = far.min(axis=0)
        high = far.max(axis=0)
        same = 2 * (far - low) / (high - low) - 1
        plain = HingeBoostOCClassifier(n_estimators=10, C=10.0, kernel=kernel, random_state=0).fit(
            same, y
        )
        np.testing.assert_allclose(
            model.decision_function(far), plain.decision_function(same), atol=0.02
        )
        model.save(tmp_path / "m.mcb")
        np.testing.assert_array_equal(
            load_model(tmp_path / "m.mcb").decision_function(far), model.decision_function(far)
        )


def test_warm_start_adds_to_the_same_features_and_kernel():
    X, y = blobs()
    for kernel in ("linear", "rbf"):
        model = HingeBoostOCClassifier(
            n_estimators=10, kernel=kernel, C=10.0, scale=True, warm_start=True, random_state=0
        ).fit(X, y)
        uninterrupted = HingeBoostOCClassifier(
            n_estimators=20, kernel=kernel, C=10.0, scale=True, random_state=0
        ).fit(X, y)
        model.set_params(n_estimators=20).fit(X, y)
        np.testing.assert_allclose(
            model.history_["hinge"], uninterrupted.history_["hinge"], rtol=1e-3, atol=1e-4
        )
        if kernel == "rbf":
            assert len(model.model_.ensemble) <= len(np.unique(X, axis=0))
        with pytest.raises(ValueError, match="use the same values, or train a new model"):
            model.set_params(n_estimators=30, kernel="poly").fit(X, y)
    with pytest.raises(ValueError, match="cannot write checkpoints"):
        from pymcboost import Checkpoint

        Checkpoint("never-written").fit(HingeBoostOCClassifier(), X, y)


class Broken:
    """A package whose library cannot be loaded, as libsvm-official says it: by no ImportError."""

    @property
    def svm(self):
        raise Exception("LIBSVM library not found.")


@pytest.mark.parametrize("package", [None, Broken()])
def test_without_libsvm_kernels_have_a_solver_and_only_its_own_name_is_refused(
    monkeypatch, package
):
    X, y = blobs()
    usual = HingeBoostOCClassifier(n_estimators=4, kernel="rbf", random_state=0).fit(X, y)
    assert usual.solver_ == "libsvm"
    monkeypatch.setitem(sys.modules, "libsvm", package)
    for kernel in ("linear", "rbf"):
        with pytest.raises(
            ValueError, match="LIBSVM .*; install it with python -m pip .* set solver='coordinate'"
        ):
            HingeBoostOCClassifier(solver="libsvm", kernel=kernel).fit(X, y)
    for kernel in ("rbf", "poly", "perceptron", lambda A, B: A @ B.T):
        words = {"n_estimators": 4, "kernel": kernel, "calibrate": "temperature", "random_state": 0}
        with pytest.warns(
            UserWarning, match="LIBSVM is not installed.*solver='coordinate'.*libsvm-official"
        ) as said:
            model = HingeBoostOCClassifier(**words).fit(X, y)
        assert len(said) == 1
        assert model.solver_ == "coordinate"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            chosen = HingeBoostOCClassifier(**words, solver="coordinate").fit(X, y)
        assert chosen.solver_ == "coordinate"
        np.testing.assert_array_equal(chosen.decision_function(X), model.decision_function(X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert HingeBoostOCClassifier(n_estimators=4).fit(X, y).solver_ == "coordinate"


@pytest.mark.parametrize("kernel", ["rbf", "poly", "perceptron"])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.part(2)
def test_both_solvers_reach_one_dual_objective(kernel, tol):
    """On 1797 rows, of which the pairwise steps see 29 blocks, and with rows that take no part."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    sign = np.where(rng.random(len(y)) < 0.1, 0, np.where(y < 5, 1, -1)).astype(np.int8)
    d = rng.normal(0.5, 0.8, size=len(y))
    c = 100 / len(y)
    block = block_of((X / 16).astype(np.float32), kernel)
    K = block(0, len(y)).astype(np.float32).astype(float)
    solved = [make(len(y), block).solve(sign, d, c, tol) for make in KERNEL_SOLVERS.values()]
    ours, theirs = (reference.dual_objective(K, sign, d, beta=one.beta) for one in reversed(solved))
    assert ours == pytest.approx(theirs, rel=1e-3 * tol)
    for one in solved:
        assert violation(K, sign, d, c=c, beta=one.beta) < 2 * tol + 1e-6
        assert not one.beta[sign == 0].any()


def test_the_choice_of_the_guide_works_with_any_number_of_threads_and_without_libsvm(monkeypatch):
    monkeypatch.setitem(sys.modules, "libsvm", None)
    X, y = load_digits(return_X_y=True)
    files = []
    for n_jobs in (1, 2, 3):
        model = HingeBoostOCClassifier(
            n_estimators=10, kernel="rbf", C=100.0, scale=True, random_state=0, n_jobs=n_jobs
        )
        with pytest.warns(UserWarning, match="LIBSVM is not installed"):
            model.fit(X[:900], y[:900])
        assert model.score(X[900:], y[900:]) > 0.94
        files.append(model.model_.to_bytes())
    assert files[0] == files[1] == files[2]
