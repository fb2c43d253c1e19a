"""exp, log, products and systems of equations against NumPy's, and one result on every CPU."""

import os
import subprocess
import sys

import numpy as np
import pytest

from pymcboost._kernels import elementary, products
from pymcboost.hinge.kernels import kernel_block

# What NumPy chooses by the CPU, and the BLAS of NumPy and SciPy.
OLD_CPU = {
    "NPY_DISABLE_CPU_FEATURES": " ".join(np._core._multiarray_umath.__cpu_dispatch__),
    "OPENBLAS_CORETYPE": "Nehalem",
}
TRAININGS = """
import hashlib, warnings
import numpy as np
from sklearn.datasets import load_iris, load_wine
from pymcboost import HingeBoostOCClassifier, JointBoostClassifier, VectorTreeBoostClassifier
warnings.simplefilter("ignore")
sets = load_iris(return_X_y=True), load_wine(return_X_y=True)
models = [JointBoostClassifier(n_estimators=120), *(
    HingeBoostOCClassifier(n_estimators=5, C=1e3, kernel=kernel, solver=solver, coef0=1.0, init=init, random_state=0)
    for kernel in ("linear", "poly", "rbf", "perceptron")
    for solver, init in (("libsvm", "max-cut"), ("coordinate", "random"))
), HingeBoostOCClassifier(n_estimators=8, C=1e4, scale=True, random_state=0)]
for model in models:
    for X, y in sets:
        data = model.fit(X, y).model_.to_bytes()
        print(type(model).__name__, getattr(model, "kernel", ""), hashlib.sha256(data).hexdigest())
for metric in "log_loss", "balanced_error", "auc_ovr":
    for X, y in sets:
        model = VectorTreeBoostClassifier(n_estimators=10, scoring=metric, random_state=0)
        curve = model.fit(X[::2], y[::2], X_val=X[1::2], y_val=y[1::2]).history_[f"val_{metric}"]
        print(metric, curve.tobytes().hex())
"""


def ulps(found, exact):
    return np.abs(
        (found.astype(np.longdouble) - exact) / np.spacing(np.abs(exact.astype(np.float64)))
    )


@pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="long double is no wider than double"
)
def test_exp_and_log_are_correct_to_one_unit_in_the_last_place():
    rng = np.random.default_rng(0)
    x = np.concatenate(
        (rng.uniform(-708, 709, 5000), rng.normal(size=5000), 1e-5 * rng.normal(size=5000))
    )
    assert ulps(elementary.exp(x), np.exp(x.astype(np.longdouble))).max() < 0.7
    x = np.concatenate(
        (np.exp(rng.uniform(-708, 709, 5000)), 1 + 1e-3 * rng.normal(size=5000), rng.random(5000))
    )
    assert ulps(elementary.log(x), np.log(x.astype(np.longdouble))).max() < 1


def test_exp_and_log_at_their_ends():
    ends = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 710.0, -746.0, -744.9, -740.0, 709.78, 1e300, -1e300]
    )
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(elementary.exp(ends), np.exp(ends), rtol=1e-15, atol=5e-324)
        ends = np.array(
            [
                0.0,
                1.0,
                np.inf,
                np.nan,
                -1.0,
                -np.inf,
                5e-324,
                1e-310,
                2.2250738585072014e-308,
                1.7e308,
            ]
        )
        np.testing.assert_allclose(elementary.log(ends), np.log(ends), rtol=1e-15)


def test_exp_keeps_shapes_and_writes_in_place():
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    np.testing.assert_array_equal(elementary.exp(x.T), elementary.exp(x).T)
    y = np.asfortranarray(x)
    assert elementary.exp(y, out=y) is y
    np.testing.assert_array_equal(y, elementary.exp(x))
    np.testing.assert_array_equal(elementary.exp(x[:, ::2]), elementary.exp(x)[:, ::2])
    assert elementary.exp(x, out=x) is x
    assert isinstance(elementary.log(2), np.float64)
    assert elementary.exp(np.zeros((0, 3))).shape == (0, 3)
    with pytest.raises(ValueError, match="out must"):
        elementary.exp(x, out=x[0])


@pytest.mark.parametrize("shape", [(1, 1, 1), (4, 8, 3), (5, 9, 600), (131, 77, 30), (3, 200, 257)])
def test_products_are_sums_in_order(shape):
    n, m, d = shape
    rng = np.random.default_rng(0)
    A = rng.normal(size=(n, d))
    B = rng.normal(size=(m, d))
    out = np.full((n, m), np.nan)
    products.products(A, B, out)
    expected = np.zeros((n, m))
    for k in range(d):
        expected += A[:, k, None] * B[:, k]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 16, 61, 200])
def test_systems_are_solved_as_by_lapack(n):
    rng = np.random.default_rng(n)
    A = rng.normal(size=(n, n))
    A[0, 0] = 0.0 if n > 1 else 1.0  # needs a pivot
    b = rng.normal(size=n)
    x = b.copy()
    assert products.solve(A.copy(), x)
    np.testing.assert_allclose(A @ x, b, atol=1e-9)
    np.testing.assert_allclose(x, np.linalg.solve(A, b), rtol=1e-6, atol=1e-9)
    A[:, n // 2] = 0.0
    assert not products.solve(A, x)


@pytest.mark.parametrize("degree", [1, 2, 3, 7, 8, 100])
def test_powers_of_the_polynomial_kernel(degree):
    X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    with np.errstate(over="ignore"):
        expected = (0.3 * (X.astype(float) @ X.T.astype(float)) + 1.0) ** degree
    np.testing.assert_allclose(
        kernel_block(X, X, "poly", gamma=0.3, coef0=1.0, degree=degree), expected, rtol=1e-12
    )


@pytest.mark.slow
def test_models_do_not_depend_on_what_numpy_and_blas_know_of_the_cpu():
    found = [
        subprocess.run(
            [sys.executable, "-c", TRAININGS],
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"} | cpu,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for cpu in ({}, OLD_CPU)
    ]
    assert found[0].count("\n") == 26
    assert found[0] == found[1]


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5, 1), (7, 16), (40, 19)])
def test_numbers_are_stored_and_counted(shape):
    rng = np.random.default_rng(3)
    values = rng.normal(size=shape)
    values[::3] = rng.choice([np.nan, np.inf, -np.inf, 1.0, -1.0, -0.0], values[::3].shape)
    room = np.full((shape[0], shape[1] + 2), 9.0, dtype=np.float32)
    outside = elementary.store(values, -1.0, -1.0, end=1.0, out=room[:, : shape[1]])
    assert outside == sum(not -1.0 <= x < 1.0 for x in values.ravel().tolist())
    np.testing.assert_array_equal(room[:, : shape[1]], -values.astype(np.float32))
    assert (room[:, shape[1] :] == 9.0).all()


def test_numbers_are_stored_in_contiguous_rows():
    for out in (
        np.zeros((4, 6), np.float32)[:, ::2],
        np.zeros((4, 2), np.float32),
        np.zeros((3, 3), np.float32),
    ):
        with pytest.raises(ValueError, match="out must have the shape"):
            elementary.store(np.zeros((4, 3)), 1.0, -1.0, end=1.0, out=out)
