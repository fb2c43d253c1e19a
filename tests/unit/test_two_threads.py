"""Kernels on two threads that have the bytes of one; `make sanitize-threads` looks for races in them.

Kernels without threads of their own run in two threads of Python at the same time: they release Python's lock.
"""

import threading

import numpy as np
import pytest
from divided.threads import one_model
from unit.test_workers import parts_of, rows

from pymcboost import MartClassifier, MCBoostClassifier
from pymcboost._kernels import elementary, newton, output_codes, products, svmdual, svmtext
from pymcboost.comm import Alone


def exp_and_log(rng):
    x = rng.normal(size=20_000)
    return elementary.exp(x), elementary.log(np.abs(x) + 1)


def product_and_solution(rng):
    A = rng.normal(size=(90, 120))
    gram = np.empty((90, 90))
    products.products(A, A, gram)
    x = rng.normal(size=90)
    products.solve(gram + np.eye(90), x)
    return gram, x


def newton_steps(rng):
    K = 20
    plus, minus = rng.random((2, K, K))
    w = np.zeros(K)
    newton.solve_exp(plus, minus, 1.0, 0.01, 5.0, 1e-9, 50, w, newton.new_work(K))
    code = rng.choice([-1.0, 1.0], (K, 8))
    t = np.empty(8)
    newton.coded_steps(code, rng.random((2, K, 8)), 5.0, 50, t)
    return w, t


def output_code(rng):
    m, K = 2000, 6
    rho, y = rng.random((m, K)), np.arange(m, dtype=np.int32) % K
    rho[np.arange(m), y] = 0
    mu = np.array([1, -1] * (K // 2), dtype=np.int8)
    g = rng.normal(size=m)
    output_codes.recolour(rho, y, mu, g, True)
    margins = np.empty(m)
    output_codes.margins(rho, y, mu, margins)
    output_codes.update(rho, y, mu, g)
    sums = np.empty((K, K))
    output_codes.class_sums(rho, y, sums)
    return mu, margins, rho, sums


def kernel_machine(rng):
    n = 4 * svmdual.BLOCK
    X = rng.normal(size=(n, 5)).astype(np.float32)
    sign = rng.choice([-1.0, 1.0], n)
    beta, E, up, down = np.zeros(n), sign.copy(), np.empty(n), np.empty(n)
    K = (X @ X.T + np.eye(n)).astype(np.float32)
    lo, hi = np.minimum(sign, 0), np.maximum(sign, 0)
    svmdual.smo(K, np.diag(K).astype(float), lo, hi, beta, E, up, down, 1e-6, 5000, 100)
    sums = np.empty(n)
    svmdual.kernel_sums(K, beta, sums)
    return beta, sums


def linear_machine(rng):
    n = 300
    X = rng.normal(size=(n, 5)).astype(np.float32)
    sign = rng.choice([-1.0, 1.0], n)
    norm = (X.astype(float) ** 2).sum(axis=1)
    beta, w, active = np.zeros(n), np.zeros(5), np.zeros(n, dtype=np.int32)
    lo, hi = np.minimum(sign, 0), np.maximum(sign, 0)
    machine = svmdual.Rows(X)
    machine.solve(norm, sign, lo, hi, beta, w, 0.0, 1.0, 1e-6, 200, 1, active, 1000)
    out = np.empty(n)
    machine.dots(w, out)
    return beta, w, out


def text(rng):
    lines = [f"{i % 3} 1:{x!r} 7:{-x!r}\n" for i, x in enumerate(rng.normal(size=500).tolist())]
    given = "".join(lines).encode()
    n = len(given)
    indices, values = np.zeros(n // 4, np.int32), np.zeros(n // 4, np.float32)
    indptr, labels = np.zeros(n // 2 + 1, np.int64), np.zeros(n // 2)
    labelled = np.zeros(n // 2, np.uint8)
    scanner = svmtext.Scanner(0, 0)
    padded = given + bytes(svmtext.PADDING)
    assert scanner.feed(padded, n, indices, values, indptr, labels, labelled) == "ok"
    X = np.zeros((scanner.rows, 8), dtype=np.float32)
    svmtext.fill_dense(indptr[: scanner.rows + 1], indices, values, X)
    return X, labels


@pytest.mark.parametrize(
    "work",
    [
        exp_and_log,
        product_and_solution,
        newton_steps,
        output_code,
        kernel_machine,
        linear_machine,
        text,
    ],
)
def test_two_threads_of_python_do_not_disturb_each_other(work):
    alone = [work(np.random.default_rng(seed)) for seed in range(2)]
    together = [[], []]
    start = threading.Barrier(2)

    def task(seed):
        start.wait()
        for _ in range(3):
            together[seed].append(work(np.random.default_rng(seed)))

    threads = [threading.Thread(target=task, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for expected, results in zip(alone, together, strict=True):
        assert len(results) == 3
        for result in results:
            for a, b in zip(result, expected, strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (MCBoostClassifier, {}),
        (MCBoostClassifier, {"weak_learner": "tree"}),
        (MartClassifier, {"calibrate": None}),
    ],
)
def test_workers_with_two_threads_each(cls, options, monkeypatch):
    monkeypatch.setattr("pymcboost.threads.SMALL_WORK", 0)
    X, y = rows(9000)
    parts = parts_of(len(y), 2, "even", rng=np.random.default_rng(0))
    params = {"n_estimators": 2, "random_state": 0, **options}
    one_model(cls, X, y, parts=parts, threads=2, comm=Alone(), **params)
