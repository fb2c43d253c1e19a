"""Arrays of a model: checks before saving, narrow types for files, wide types after reading."""

from numbers import Real

import numpy as np

from pymcboost.threads import counted

# Number of values that are checked at once, and the bits of -0 in float32.
PART = 1 << 20
NEGATIVE_ZERO = np.iinfo(np.int32).min


def per_class(name, values):
    """Check that there is a finite number for each of at least two classes; as float32."""
    values = finite(name, values, (np.size(values),))
    if len(values) < 2:
        raise ValueError(f"a model needs at least 2 classes, but its {name} has {len(values)}")
    return values


def feature_columns(feature, nan_left, n_features):
    """Check feature indices and sides of missing values; as int64 and bool."""
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
    """Check integers; as int64 (n,)."""
    values = np.asarray(values)
    if values.shape != (n,) or (n and values.dtype.kind not in "iu"):
        raise ValueError(f"{name} must hold {n} integers")
    return np.ascontiguousarray(values, dtype=np.int64)


def rising(name, values, last):
    """Check that integers increase from 0 to ``last``; as int64."""
    values = integers(name, values, np.size(values))
    if not len(values) or values[0] != 0 or values[-1] != last or (values[1:] < values[:-1]).any():
        raise ValueError(f"{name} must increase from 0 to {last}")
    return values


def finite(name, values, shape):
    """Check finite numbers of a given shape; as float32 without negative zeros. Valid arrays are returned unchanged."""
    values = np.asarray(values)
    if values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}, but must have {shape}")
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(values, dtype=np.float32).reshape(shape)
    flat = values.reshape(-1)
    has_negative_zeros = False
    # In parts, and copied only if necessary, because leaves of many classes take gigabytes.
    for begin in range(0, flat.size, PART):
        part = flat[begin : begin + PART]
        if not np.isfinite(part).all():
            raise ValueError(
                f"{name} contains a number that is not finite as float32 (magnitude up to 3.4e38)"
            )
        has_negative_zeros = has_negative_zeros or (part.view(np.int32) == NEGATIVE_ZERO).any()
    return values + np.float32(0) if has_negative_zeros else values


def covers(values, n):
    """Check the numbers of rows in n leaves; as int64, or None."""
    if values is None:
        return None
    values = integers("cover", values, n)
    if n and (values.min() < 0 or values.max() >= 1 << 32):
        raise ValueError(f"cover must hold counts of rows, from 0 to {(1 << 32) - 1}")
    return values


def narrow(values, flags=None):
    """Convert to the narrowest unsigned integers; ``flags`` go to the top bit, which the values must leave free."""
    top = int(values.max()) if len(values) else 0
    bits = next(bits for bits in (8, 16, 32) if top < 1 << (bits - (flags is not None)))
    result = values.astype(f"<u{bits // 8}")
    if flags is not None:
        result |= flags.astype(result.dtype) << (bits - 1)
    return result


def without_flags(values):
    """Undo `narrow`: the values as int64, and the flags."""
    top = 8 * values.itemsize - 1
    wide = values.astype(np.int64)
    return wide & ((1 << top) - 1), wide >> top == 1


def running_sums(counts):
    """Running sums of counts, starting with 0: int64, one element longer."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def check_rounds(n, n_rounds, noun="round"):
    """Refuse to keep the first ``n`` rounds if there are fewer."""
    if not 0 <= n <= n_rounds:
        raise ValueError(
            f"cannot keep {n} of {counted(n_rounds, noun)}; give a number from 0 to {n_rounds}"
        )


def is_number(value):
    """Whether a value is a real number, including arrays with no dimensions."""
    if isinstance(value, Real):
        return True
    return getattr(value, "shape", None) == () and np.asarray(value).dtype.kind in "biuf"
