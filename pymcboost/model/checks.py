"""Checks of the arrays that a model is made of; ValueError says what is wrong."""

import numpy as np


def bias_of(values):
    """The bias of an ensemble, one number for each class."""
    bias = finite("bias", values, (np.size(values),))
    if len(bias) < 2:
        raise ValueError(f"an ensemble needs 2 classes or more, its bias has {len(bias)}")
    return bias


def intercept_of(values):
    """The intercept of a machine, one number for each class."""
    intercept = finite("intercept", values, (np.size(values),))
    if len(intercept) < 2:
        raise ValueError(f"a machine needs 2 classes or more, its intercept has {len(intercept)}")
    return intercept


def feature_columns(feature, nan_left, n_features):
    """Feature indices as int64, and the sides of missing values as bool."""
    m = np.size(feature)
    feature = np.asarray(feature)
    if m and (feature.dtype.kind not in "iu" or feature.min() < 0 or feature.max() >= n_features):
        raise ValueError(f"feature indices must be integers from 0 to {n_features - 1}")
    feature = np.ascontiguousarray(feature, dtype=np.int64)
    nan_left = np.ascontiguousarray(nan_left, dtype=bool)
    if feature.shape != (m,) or nan_left.shape != (m,):
        raise ValueError(f"feature and nan_left must have shape ({m},)")
    return feature, nan_left


def integers(name, values, n):
    """Integers as int64 (n,)."""
    values = np.asarray(values)
    if values.shape != (n,) or (n and values.dtype.kind not in "iu"):
        raise ValueError(f"{name} must hold {n} integers")
    return np.ascontiguousarray(values, dtype=np.int64)


def rising(name, values, last):
    """Integers that rise from 0 to ``last``, as int64."""
    values = integers(name, values, np.size(values))
    if not len(values) or values[0] != 0 or values[-1] != last or (values[1:] < values[:-1]).any():
        raise ValueError(f"{name} must rise from 0 to {last}")
    return values


def finite(name, values, shape):
    """Finite numbers as float32 of a shape, without negative zeros."""
    values = np.asarray(values)
    if values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}, but must have {shape}")
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(values, dtype=np.float32).reshape(shape)
    if not np.isfinite(values).all():
        raise ValueError(f"{name} holds a number that is not finite in float32 (magnitude up to 3.4e38)")
    return values + np.float32(0)  # turns -0 into +0
