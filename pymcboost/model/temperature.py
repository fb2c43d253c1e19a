"""The temperature of a model: a number by which scores are divided before they become probabilities.

With z = F for the link "softmax" or no link, and z = 2 F for "softmax2", it minimizes over beta = 1 / T

    sum_i w_i (log sum_k exp(beta z_ik) - beta z_iy) / sum_i w_i,

which is convex in beta. At the minimum, the derivative, which is the mean of sum_k p_ik z_ik - z_iy, is 0. One row is
added to the n rows, with average scores and a random class (Laplace's rule of succession): even if all rows are right,
one in n + 1 may be wrong.

C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, On calibration of modern neural networks, ICML 2017.
"""

import math
import sys
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymcboost._kernels import elementary, exact, score
from pymcboost.model import file
from pymcboost.model.arrays import is_number
from pymcboost.model.columns import missing_label
from pymcboost.model.missing import Missing
from pymcboost.model.rows import own_labels, positions

# Bounds of the temperature. Scores of machines depend on the units of their features.
LEAST = 2.0**-16
MOST = 2.0**16
# The temperature is rounded to this many binary digits, so that sums with different last bits give the same bytes.
BITS = 12
# Newton's steps square the error: after a step smaller than this, the remaining error is below BITS digits.
STEP = 1e-5
BLOCK = 1 << 16
# Metadata entry of models with restore_priors, once their temperature was changed.
FIRST = "first_temperature"


def fit_temperature(scores, codes, weight=None, link="softmax", start=1.0):
    """Temperature with the smallest weighted log loss, from 2^-16 to 2^16, rounded to 12 binary digits.

    Rows whose scores are all equal have no effect. If there are no others, it is 1.

    Parameters
    ----------
    scores : ndarray of float64 (m, K)
        Raw scores of rows that the model has not been trained on.
    codes : ndarray of int (m,)
        Positions of the right classes.
    weight : ndarray of float64 (m,), optional
        Weights of the rows, 0 or more.
    link : {"none", "softmax", "softmax2"}
    start : float
        Temperature at which the search begins.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If no row has a positive weight, or a score or a weight is not a finite number.
    """
    scores = np.asarray(scores, dtype=np.float64)
    codes = np.asarray(codes)
    weight = np.ones(len(scores)) if weight is None else np.asarray(weight, dtype=np.float64)
    if scores.ndim != 2 or codes.shape != (len(scores),) or weight.shape != (len(scores),):
        raise ValueError(
            f"scores of shape {scores.shape}, codes of shape {codes.shape} and weights of "
            f"shape {weight.shape} do not match"
        )
    if not np.isfinite(scores).all():
        raise ValueError("calibration needs finite scores; some are NaN or infinite")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError("the weights of a calibration must be finite numbers >= 0")
    if not weight.any():
        raise ValueError(
            "calibration needs rows with a positive weight, but all weights are 0 or there "
            "are no rows"
        )
    z = below_top(scores, link)
    z_true = z[np.arange(len(z)), codes]
    n_rows = np.count_nonzero(weight)
    z_true += (z.mean(axis=1) - z_true) / (n_rows + 1)  # the additional row
    used = weight > 0
    weight = np.ldexp(weight, -np.frexp(weight.max())[1])  # exact, and keeps the sum finite
    weight[used] = exact.on_grid(weight[used], 1.0, n_rows)
    return rounded(1 / _minimum(z, z_true, weight / weight.sum(), beta=1 / start))


def below_top(scores, link):
    """Scaled scores (m, K) minus the maximum of each row."""
    z = scores - scores.max(axis=1, keepdims=True)
    return 2 * z if link == "softmax2" else z


def sums_of_exponentials(e):
    """Sums (m, 1) of numbers between 0 and 1 by row (m, K), in integer units as in `mcb_probabilities`.

    They do not depend on the order of the classes.
    """
    units_per_one = 2.0 ** min(52, 62 - math.ceil(math.log2(e.shape[1])))
    integers = np.floor(np.nan_to_num(e) * units_per_one + 0.5).astype(np.int64)
    return integers.sum(axis=1, keepdims=True) / units_per_one


def shares(scores):
    """Shares of the classes in the sum of the scores of each row (m, K), as `mcb_probabilities` computes them."""
    top = scores.max(axis=1, keepdims=True)
    relative = np.where(scores > 0, scores, 0.0) / np.where(top > 0, top, 1.0)
    relative[top[:, 0] <= 0] = 1.0
    return relative / sums_of_exponentials(relative)


def log_softmax(z):
    """Logarithm of the softmax of z, whose maximum in each row is 0; finite even if the softmax rounds to 0."""
    return z - elementary.log(sums_of_exponentials(elementary.exp(z)))


def codes_of(y, classes, task="calibrate on"):
    """Positions of labels in the sorted ``classes``; ValueError for an unknown label."""
    y = np.asarray(own_labels(y))
    if y.ndim != 1:
        raise ValueError(f"y must be one-dimensional, but has shape {y.shape}")
    row = missing_label(y) if y.dtype.kind in "Of" else None
    if row is not None:
        raise ValueError(f"y has no label in row {row}; leave out rows without a label")
    is_comparable = (y.dtype.kind in "OSU") == (classes.dtype.kind in "OSU")
    class_index = positions(classes, y) if is_comparable else np.full(len(y), -1)
    is_known = class_index >= 0
    if not is_known.all():
        raise ValueError(
            f"y[{int(is_known.argmin())}] is {y[~is_known].tolist()[0]!r} of type {y.dtype}, which "
            f"is not a class of the model; {task} rows of its classes, "
            f"{classes[:3].tolist()}... of type {classes.dtype}"
        )
    return class_index


def _minimum(z, z_true, weight, beta):
    """Find the factor at which the derivative is 0, by Newton's method on a logarithmic scale within a bracket."""
    low = 1 / MOST
    high = 1 / LEAST
    while True:
        slope, curvature = _derivatives(z, z_true, weight, beta)
        if slope == 0:
            return beta
        if slope < 0:
            low = beta
        else:
            high = beta
        step = -slope / (beta * curvature) if curvature > 0 else -np.sign(slope) * np.inf
        next_beta = beta * np.exp(np.clip(step, -2, 2))
        if abs(step) < STEP or high <= low * (1 + STEP):
            return min(max(next_beta, 1 / MOST), 1 / LEAST)
        beta = next_beta if low < next_beta < high else np.sqrt(low * high)


def _derivatives(z, z_true, weight, beta):
    """First and second derivatives of the loss, independent of the order of the rows."""
    slope = np.empty(len(z))
    curvature = np.empty(len(z))
    step = max(1, BLOCK // z.shape[1])
    for begin in range(0, len(z), step):
        rows = slice(begin, begin + step)
        e = elementary.exp(beta * z[rows])
        total = e.sum(axis=1)
        e *= z[rows]
        mean = e.sum(axis=1) / total
        slope[rows] = mean - z_true[rows]
        e *= z[rows]
        curvature[rows] = e.sum(axis=1) / total - mean * mean
    return exact.total(weight * slope), exact.total(weight * curvature)


def rounded(value):
    """Clip and round a temperature, as all temperatures are."""
    value = min(max(value, LEAST), MOST)
    mantissa, exponent = np.frexp(value)
    return float(np.ldexp(np.rint(mantissa * 2.0**BITS), exponent - BITS))


def _positive(number):
    """A finite number above 0 as a float; None for anything else."""
    return float(number) if is_number(number) and 0 < number < np.inf else None


class Calibration:
    """Temperature methods, for classes with scores, labels, a link and sections."""

    link: Any
    classes_: Any
    raw_scores: Any
    ensemble: Any
    _sections: Any
    _changed: Any
    information: Any
    has_stages: Any
    with_meta: Any

    @property
    def temperature(self) -> float | None:
        """Temperature by which scores are divided to compute probabilities.

        None if the model is not calibrated and its loss has no temperature.
        """
        factor = self._sections().get("CALB")
        return None if factor is None else min(1 / float(factor[0]), sys.float_info.max)

    @property
    def is_calibrated(self) -> bool:
        """Whether the model has been calibrated: its temperature differs from the one of the loss."""
        factor = self._sections().get("CALB")
        loss_factor = self._sections().get("calb")
        if factor is None:
            return False
        return loss_factor is None or float(factor[0]) != float(loss_factor[0])

    @property
    def has_probabilities(self) -> bool:
        """Whether the model has probabilities, that is, a link function or a temperature."""
        return self.link != "none" or self.temperature is not None

    def _need_probabilities(self):
        if not self.has_probabilities:
            raise ValueError(
                "this model has no link from scores to probabilities; use decision_function "
                "or predict, or calibrate the model with calibrated(X, y)"
            )

    def _refuse_labels(self, task):
        if self.link == "sigmoid":
            raise ValueError(
                f"{task} needs a model with one class per row; this one is multi-label"
            )

    def _refuse_shares(self, task):
        if self.link == "shares":
            raise ValueError(
                f"{task} needs scores that go through a softmax; the scores of this model are "
                "sums of probabilities"
            )

    def predict_log_proba(
        self,
        X: Any,
        n_jobs: int | None = None,
        *,
        init_score: ArrayLike | None = None,
        missing: Missing = "allow",
    ) -> NDArray[np.float64]:
        """Predict the logarithms of the class probabilities.

        They are finite even if a probability is rounded to 0, except with the link "shares".

        Parameters
        ----------
        X, n_jobs, init_score, missing
            See `Model.raw_scores`.

        Returns
        -------
        ndarray of float64 of shape (m, K)
            Logarithms of the probabilities.

        Raises
        ------
        ValueError
            If the model has neither a link function nor a temperature.
        """
        self._need_probabilities()
        scores = self._scores(X, n_jobs, init_score, missing)
        if self.link == "shares":
            with np.errstate(divide="ignore"):
                return np.log(self._probabilities_of(scores))
        z = self._log_odds(scores)
        if self.link == "sigmoid":
            return np.minimum(z, 0) - elementary.log(1 + elementary.exp(-np.abs(z)))
        return log_softmax(z)

    def _scores(self, X, n_jobs, init_score, missing="allow"):
        """Raw scores; ``init_score`` and ``missing`` are passed on only if set, because not all models accept them."""
        options = {} if init_score is None else {"init_score": init_score}
        if missing != "allow":
            options["missing"] = missing
        return self.raw_scores(X, n_jobs, **options)

    def _log_odds(self, scores):
        """Logarithms of the probabilities, up to a constant per row."""
        factor = self._sections().get("CALB")
        z = scores if self.link == "sigmoid" else below_top(scores, self.link)
        return z if factor is None else z * float(factor[0])

    def _probabilities_of(self, scores):
        """Compute probabilities from raw scores (m, K)."""
        if self.link == "shares":
            return shares(scores)
        if self.link != "sigmoid":
            factor = self._sections().get("CALB", [1.0])[0]
            return score.softmax(scores, self.link == "softmax2", factor)
        z = self._log_odds(scores)
        e = elementary.exp(-np.abs(z))
        return np.where(z < 0, e, 1) / (1 + e)

    def with_temperature(self, temperature: float | None) -> Self:
        """Return the model with another temperature. Scores and predictions do not change.

        Probabilities are the softmax of the scores divided by the temperature (link "softmax2": of twice the scores). A
        model without a link function obtains probabilities in this way. Use `reweighted` after this method: bias from
        ``restore_priors`` or `reweighted` is in proportion to the previous temperature, and does not change.

        Parameters
        ----------
        temperature : float or None
            Positive number. Below 1, probabilities become more extreme. None removes the calibration; the temperature
            of the loss, if there is one, is used again.

        Returns
        -------
        Model
            The new model.
        """
        if temperature is not None:
            self._refuse_labels("a temperature")
            self._refuse_shares("a temperature")
        if temperature is None:
            factor = self._sections().get("calb")
        else:
            factor = file.factor_of(temperature)
        model = self._changed(CALB=factor)
        if not self._has_priors():
            return model
        return model.with_meta({**self.information, FIRST: self._first_temperature()})

    def _with_link_temperature(self, temperature: float) -> Self:
        """Return the model with the temperature that its loss requires; it stays if a calibration is removed."""
        factor = file.factor_of(temperature)
        return self._changed(CALB=factor, calb=factor)

    def _has_priors(self):
        """Whether the bias comes from restore_priors, multiplied by the first temperature."""
        params = self.information.get("params") if self.has_stages else None
        if not isinstance(params, dict) or not params.get("restore_priors"):
            return False
        return bool(self._sections()["BIAS"].any())

    def _kept_of_priors(self, meta):
        """Metadata that tells by how much a bias of priors was multiplied."""
        params = meta.get("params")
        if not isinstance(params, dict):
            params = {}
        kept = {"params": {**params, "restore_priors": True}}
        if FIRST in self.information:
            kept[FIRST] = self.information[FIRST]
        return kept

    def _first_temperature(self):
        """The temperature after training."""
        return _positive(self.information.get(FIRST, self.temperature))

    def _of_first(self, ensemble):
        """The model of the first rounds, see `truncate`."""
        first_temperature = self._first_temperature()
        loss_factor = self._sections().get("calb")
        if first_temperature is not None and self._has_priors():
            loss_temperature = 1.0 if loss_factor is None else 1 / float(loss_factor[0])
            change = loss_temperature / first_temperature - 1
            ensemble = ensemble.shifted(ensemble.bias.astype(np.float64) * change)
        model = self._changed(ensemble, **dict.fromkeys(file.EARLY), CALB=loss_factor)
        information = dict(self.information)
        if FIRST not in information:
            return model
        del information[FIRST]
        return model._with_meta(information)

    def calibrated(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        n_jobs: int | None = None,
        *,
        init_score: ArrayLike | None = None,
    ) -> Self:
        """Return the model with the temperature, from 2^-16 to 2^16, that minimizes the log loss on some rows.

        Use `reweighted` after this method: bias from ``restore_priors`` or `reweighted` is in proportion to the
        previous temperature, and does not change.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, n_features_in_)
            Rows that the model has not been trained on.
        y : array-like of shape (m,)
            Class labels of the rows. Some classes of the model may be absent.
        sample_weight : array-like of shape (m,), default=None
            Non-negative sample weights.
        n_jobs, init_score
            See `Model.raw_scores`.

        Returns
        -------
        Model
            The calibrated model.
        """
        self._refuse_labels("a temperature")
        self._refuse_shares("a temperature")
        codes = codes_of(y, self.classes_)
        scores = self._scores(X, n_jobs, init_score)
        return self.with_temperature(fit_temperature(scores, codes, sample_weight, self.link))

    def reweighted(self, factors: Any) -> Self:
        """Return the model for other class frequencies: probabilities are multiplied by factors and normalized.

        Predictions change accordingly.

        Parameters
        ----------
        factors : array-like of shape (K,)
            Positive factor for each class, such as 2 for a class that has become twice as frequent.

        Returns
        -------
        Model
            The new model.

        Notes
        -----
        The logarithms of the factors, multiplied by the temperature, are added to the bias and rounded to float32. With
        the link "softmax2" they are halved. They fit the present temperature only, so set the temperature first.
        """
        self._need_probabilities()
        self._refuse_labels("weights of classes")
        self._refuse_shares("reweighting")
        factors = np.asarray(factors, dtype=np.float64)
        if factors.shape != self.classes_.shape or not ((factors > 0) & np.isfinite(factors)).all():
            raise ValueError(
                f"factors must be {len(self.classes_)} finite numbers above 0, not {factors.tolist()}"
            )
        shift = elementary.log(factors) * (self.temperature or 1.0)
        ensemble = self.ensemble.shifted(shift / 2 if self.link == "softmax2" else shift)
        return self._changed(ensemble, **dict.fromkeys(file.EARLY))
