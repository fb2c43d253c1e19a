"""Kernel functions, with the same bits on every CPU."""

import numpy as np

from pymcboost._kernels import elementary
from pymcboost._kernels import products as _products


def kernel_block(X, Z, kernel, gamma, coef0, degree):
    """Values of a kernel between the rows of X and of Z.

    Parameters
    ----------
    X, Z : ndarray (n, d), (m, d)
    kernel : {"linear", "poly", "rbf", "perceptron"} or callable
        x.z, (gamma x.z + coef0)^degree, exp(-gamma |x - z|^2), -|x - z|, or any ``kernel(X, Z) -> (n, m)``.

    Returns
    -------
    ndarray of float64 (n, m)
    """
    if callable(kernel):
        return _called(kernel, X, Z)
    X = np.ascontiguousarray(X, dtype=np.float64)
    Z = np.ascontiguousarray(Z, dtype=np.float64)
    # Without BLAS, whose sums depend on the CPU.
    products = np.empty((len(X), len(Z)))
    _products.products(X, Z, products)
    if kernel == "linear":
        return products
    if kernel == "poly":
        return _power(gamma * products + coef0, degree)
    distance2 = np.einsum("ij,ij->i", X, X)[:, None] + np.einsum("ij,ij->i", Z, Z) - 2 * products
    np.maximum(distance2, 0, out=distance2)
    if kernel == "rbf":
        return elementary.exp(-gamma * distance2, out=distance2)
    return -np.sqrt(distance2)


def _called(kernel, X, Z):
    """Call a kernel function and check its values. It gets copies, so it cannot change the rows."""
    returned = kernel(np.array(X), np.array(Z))
    values = np.asarray(returned)
    shape = (len(X), len(Z))
    if values.dtype.kind not in "biuf":
        shown = type(returned).__name__ if values.dtype.kind == "O" else values.dtype
        raise ValueError(
            f"the callable kernel must return an array of real numbers, but it returned {shown}"
        )
    if values.shape != shape:
        raise ValueError(
            f"the callable kernel must return values of shape {shape}, but it returned shape "
            f"{values.shape}"
        )
    values = values.astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        i, j = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"the callable kernel must return finite values, but it returned {values[i, j]:g} "
            f"for row {i} of its first argument and row {j} of its second"
        )
    return values


def _power(base, degree):
    """Compute base^degree by squaring, because NumPy's power depends on the CPU."""
    result = None
    with np.errstate(over="ignore", invalid="ignore"):
        while degree:
            if degree & 1:
                result = base.copy() if result is None else np.multiply(result, base, out=result)
            degree >>= 1
            if degree:
                base = base * base
    return result
