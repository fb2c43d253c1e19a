"""Custom losses: functions, or objects with methods."""

import inspect
import pickle
import zlib

import numpy as np

from pymcboost._kernels import elementary
from pymcboost.losses.loss import Loss

METHODS = ("start", "gradient_hessian", "link", "value")
# Maximum sum of a row's gradients, relative to their magnitudes, if the loss claims to be invariant to shifts.
ROUNDING = 1e-4
# Limits beyond which scores count as infinite, and probabilities as 0 or 1.
LARGEST = 1e30
LEAST = np.finfo(np.float64).eps


class OwnLoss(Loss):
    """Adapts a custom loss to the interface of `Loss`, and checks each of its results.

    Parameters
    ----------
    loss : callable or object
        See the parameter ``loss`` of `VectorTreeBoostClassifier`.
    """

    link = "none"

    def __init__(self, loss):
        self.user_loss = loss
        self.begins = hasattr(loss, "gradient_hessian")
        self.name = name_of(loss)
        self.shift_invariant = bool(getattr(loss, "shift_invariant", False))
        self._derivatives = loss.gradient_hessian if self.begins else loss
        # How messages call the function that returns the derivatives.
        self._source = f"{self.name}.gradient_hessian" if self.begins else self.name
        # Whether some rows of the current pass have been checked for the sums of their gradients.
        self._has_checked_sums = False

    def first(self, data):
        """Initial scores (K,), from the classes and weights of all workers' rows in a fixed order."""
        y = data.comm.concatenate(data.y.astype(np.int64))
        weight = data.comm.concatenate(data.weight)
        order = np.lexsort((weight, y))
        scores = data.comm.broadcast(
            self.user_loss.start(y[order].astype(np.int32), weight[order], data.n_classes)
        )
        return _numbers(
            scores, (data.n_classes,), f"{self.name}.start", means="one score for each class"
        )

    def follow(self, rows, value, leaf):
        """Add value[leaf] to ``rows.F`` and update ``rows.gradient``, see `Loss.follow`."""
        self._has_checked_sums = False
        return super().follow(rows, value, leaf)

    def put(self, F, y, gradient, curvature):
        """Write the checked derivatives of rows into these arrays, see `Loss.put`."""
        source = self._source
        means = "one row per sample and one column per class"
        derivatives = self._derivatives(y.copy(), F)
        if not isinstance(derivatives, (tuple, list)) or len(derivatives) != 2:
            raise ValueError(
                f"loss: {source} must return (gradient, hessian), not {type(derivatives).__name__}"
            )
        g = _array(derivatives[0], F.shape, f"the gradient of {source}", means)
        h = _array(derivatives[1], F.shape, f"the hessian of {source}", means)
        if elementary.store(g, -1.0, np.nextafter(-LARGEST, 0), LARGEST, gradient):
            _check_size(g, f"the gradient of {source}")
        if elementary.store(h, 1.0, 0.0, LARGEST, curvature):
            _check_size(h, f"the hessian of {source}")
            raise ValueError(
                f"loss: the hessian of {source} contains the negative number {h.min():g}; bound "
                "it from below, for example with numpy.maximum(hessian, 1e-6)"
            )
        # Only the first rows are checked.
        if self.shift_invariant and not self._has_checked_sums:
            sizes = np.einsum("ij->i", np.abs(g))
            excess = np.abs(np.einsum("ij->i", g)) - ROUNDING * sizes
            if excess.max(initial=0) > LEAST:
                raise ValueError(
                    f"loss: {self.name} declares shift_invariant, but the gradients of a row "
                    f"from {source} do not add up to 0; set shift_invariant = False"
                )
        self._has_checked_sums = True

    def value(self, F, y):
        """Loss of every row (m,), without weights."""
        if not self.begins:
            raise ValueError(
                f"scoring='loss': the function {self.name} returns no loss value; give an "
                "object with a method value(y, scores)"
            )
        return _numbers(
            self.user_loss.value(y.copy(), F.copy()),
            (len(F),),
            f"{self.name}.value",
            means="one for each sample",
        )

    @property
    def gives_probabilities(self):
        """Whether it has `probabilities`; no link of a model file provides them."""
        return self.begins

    def probabilities(self, scores):
        """Probabilities (m, K) for the scores."""
        probabilities = _numbers(
            self.user_loss.link(scores.copy()),
            scores.shape,
            f"{self.name}.link",
            means="probabilities of classes",
        )
        if probabilities.min(initial=0) < -1e-9 or probabilities.max(initial=0) > 1 + 1e-9:
            raise ValueError(f"loss: {self.name}.link returns probabilities outside of [0, 1]")
        return probabilities

    def log_probabilities(self, scores):
        """Log-probabilities; probabilities below ``LEAST`` are raised to it."""
        return elementary.log(np.clip(self.probabilities(scores), LEAST, 1.0))


def _numbers(values, shape, source, means):
    """Convert to a float64 array of this shape with finite numbers, or raise a clear error."""
    values = _array(values, shape, source, means)
    _check_size(values, source)
    return values


def _array(values, shape, source, means):
    """Convert to a float64 array of this shape, or raise a clear error."""
    try:
        values = np.asarray(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"loss: {source} must be an array of numbers, not {type(values).__name__} ({error})"
        ) from error
    if values.shape != shape:
        raise ValueError(f"loss: {source} has shape {values.shape}; it must be {shape}, {means}")
    return values


def _check_size(values, source):
    """Refuse numbers that are not finite or are too large."""
    if not (values.size == 0 or (values.max() < LARGEST and values.min() > -LARGEST)):
        bad = values[~(np.abs(values) < LARGEST)]
        raise ValueError(
            f"loss: {source} contains {bad[0]:g}; it must hold finite numbers. Bound scores "
            "before exponentiating them, and probabilities before taking their logarithm"
        )


def check_own(name, loss):
    """Refuse an object that is not a loss; ``name`` is the estimator's."""
    if isinstance(loss, type):
        raise ValueError(
            f"{name}: loss={loss.__name__} is a class; give an instance, {loss.__name__}()"
        )
    if callable(loss) and not hasattr(loss, "gradient_hessian"):
        if not takes_positions(loss, 2):
            raise ValueError(
                f"{name}: loss={loss!r} is not callable; a loss is a function of (y, scores) "
                "that returns (gradient, hessian)"
            )
        return
    missing = [method for method in METHODS if not callable(getattr(loss, method, None))]
    if missing:
        raise ValueError(
            f"{name}: loss={loss!r} lacks {', '.join(missing)}; a loss is a "
            "function of (y, scores) that returns (gradient, hessian), or an object with the "
            f"methods {', '.join(METHODS)}"
        )


def takes_positions(function, count, *names):
    """Whether a function accepts ``count`` positional arguments and these names, as far as its signature tells."""
    try:
        inspect.signature(function).bind(*[None] * count, **dict.fromkeys(names))
    except TypeError:
        return False
    except ValueError:  # it has no signature
        return True
    return True


def name_of(loss):
    """Name of a custom loss."""
    return getattr(loss, "__name__", type(loss).__name__)


class _Checksum:
    """File that keeps only a checksum, because a pickled object may contain all rows."""

    crc = 0

    def write(self, data):
        self.crc = zlib.crc32(data, self.crc)


class _Pickler(pickle.Pickler):
    """Pickles sets by the checksums of their elements, because their order differs between processes."""

    def persistent_id(self, obj):
        if isinstance(obj, (set, frozenset)):
            return type(obj).__name__, sorted(map(_checksum, obj))
        return None


def _checksum(obj):
    """Checksum of a pickled object."""
    checksum = _Checksum()
    _Pickler(checksum, 4).dump(obj)
    return checksum.crc


def shown(loss):
    """Description of a loss or metric in a model file: a built-in name, or name and checksum of a custom one."""
    if isinstance(loss, str):
        return loss
    try:
        return f"{name_of(loss)} with the checksum {_checksum(loss):08x}"
    except Exception:  # pickling can raise any error; the name is enough
        return name_of(loss)
