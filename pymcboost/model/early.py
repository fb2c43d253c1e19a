"""Early exits: predictions that skip the last learners for some rows, with the same label, or rarely another."""

import math
from numbers import Real
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from pymcboost.model.arrays import narrow
from pymcboost.model.file import EARLY

Early = Literal["certified", "calibrated", "rejection"]
WAYS = get_args(Early)
# Minimum number of learners between checkpoints, which is a multiple of STEP, and maximum number of checkpoints.
STEP = 4
MOST = 64
# Maximum share of a file that bounds may take.
SHARE = 0.05
# Number of learners that take as long as checking the bounds with AVX-512.
CHECK_COST = 24
# Where bounds are checked if there are no rows to choose by, as shares of the learners.
DEFAULT_CHECKS = (0.75, 0.875)
# Probability that the calibration rows promise too much.
DOUBT = 0.05


class EarlyExit:
    """Early exits of a `Model`."""

    classes_: Any
    ensemble: Any
    link: Any
    n_classes_: Any
    n_learners: Any
    predict_codes: Any
    to_bytes: Any
    _changed: Any
    _kind: Any
    _rows: Any
    _sections: Any
    _stages: Any

    @property
    def early_exits(self) -> tuple[str, ...]:
        """Early exits of the model; see `with_early_exit`."""
        sections = self._sections()
        built_in = self._own_exits()
        return tuple(
            way
            for way, tag in zip(WAYS, EARLY[1:], strict=True)
            if tag in sections or way in built_in
        )

    def _own_exits(self):
        """Early exits that need no section of the file."""
        return () if self.link == "sigmoid" else self._kind.own_exits

    @property
    def n_early_learners(self) -> int:
        """Number of weak learners that `predict_early` counts, or of hyperplanes of a linear machine."""
        return self.n_classes_ if self.n_learners is None else self.n_learners

    def with_early_exit(
        self, way: Early | None, X: Any = None, *, rate: float = 0.001, background: Any = None
    ) -> Self:
        """Return the model with an early exit, which lets `predict` skip weak learners.

        Scores and predictions do not change unless ``early`` is passed to `predict`. Early exits belong to the weak
        learners, leaf values and bias of the model: `truncate`, `reweighted`, `refit_leaves`, and saving with another
        layout or type of the leaf values remove them. Linear machines always have "certified".

        Parameters
        ----------
        way : {"certified", "calibrated", "rejection"} or None
            Kind of the early exit. Exits of other kinds are kept. None removes all of them.

            - "certified": a row exits when none of the remaining weak learners can change its label. No label changes.
            - "calibrated": a row exits when its largest score exceeds the second largest by a threshold. For rows like
              those of ``X``, the fraction of labels that change is below ``rate`` with 95% confidence.
            - "rejection": a row exits with the label ``background`` when the score of this class exceeds all others by
              the threshold of the stage. For rows like those of ``X``, the fraction of rows of other classes that are
              lost is below ``rate`` with 95% confidence. Other rows are evaluated completely.
        X : array-like, data frame or CSR matrix of shape (m, n_features_in_), default=None
            Rows that the model has not been trained on; labels are not needed. "certified" works without rows. With
            rows, it checks for an exit only where this saves time, which may be nowhere. "calibrated" needs 3 / rate
            rows, which is 3,000 for 0.001. "rejection" needs twice as many rows that the model assigns to other classes
            than ``background``.
        rate : float, default=0.001
            Bound on the fraction of changed labels, above 0 and below 1.
        background : label, default=None
            Class of the model for "rejection".

        Returns
        -------
        Model
            The new model.

        Raises
        ------
        ValueError
            If there are too few rows, if the bounds of all pairs of classes need more than 5% of the file, or if the
            model has no early exits: interval tables, packed trees, kernel machines, multi-label models, codes with
            another decoder than "linear", and linear machines except for "certified".
        """
        if way is None:
            return self._changed(**dict.fromkeys(EARLY))
        self._check_early(way, rate, background)
        if way in self._own_exits():
            return self
        places = checkpoints(self.ensemble.round_ends(), len(self.ensemble))
        if way == "certified":
            model = self._with_bounds(places, bounds(self.ensemble, places))
            if X is None:
                return model
            _, exits = model.predict_early(X, way)
            return model._with_checks(checks(exits, every_other(places), self.n_learners))
        if X is None:
            raise ValueError(f"way={way!r} needs rows X that were not used to train the model")
        if way == "calibrated":
            head, thresholds = self._margins(X, places, rate)
        else:
            head, thresholds = self._rejections(X, places, rate, code=self._code_of(background))
        numbers = np.array([rate, *head, *thresholds], dtype="<f8")
        section = EARLY[1 + WAYS.index(way)]
        return self._changed(exit=narrow(places), **{section: numbers})

    def predict_early(
        self, X: Any, way: Early = "certified", n_jobs: int | None = None
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Predict class labels with an early exit, and count the weak learners evaluated for each row.

        Parameters
        ----------
        X, n_jobs
            See `raw_scores`.
        way : {"certified", "calibrated", "rejection"}, default="certified"
            Early exit of the model; see `with_early_exit`.

        Returns
        -------
        labels : ndarray of shape (m,)
            Predicted labels.
        n_learners : ndarray of int64 of shape (m,)
            Number of weak learners evaluated. Its mean divided by ``n_early_learners`` is the evaluated fraction of the
            model.

        Raises
        ------
        ValueError
            If the model does not have this early exit.
        """
        codes, n_learners = self.predict_early_codes(X, way, n_jobs)
        return self.classes_[codes], n_learners

    def predict_early_codes(
        self, X: Any, way: Early = "certified", n_jobs: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Predict with an early exit as `predict_early` does, but return positions in ``classes_``.

        Parameters
        ----------
        X, way, n_jobs
            See `predict_early`.

        Returns
        -------
        codes : ndarray of int64 of shape (m,)
            Positions of the predicted classes in ``classes_``.
        n_learners : ndarray of int64 of shape (m,)
            Number of weak learners evaluated.
        """
        if way not in WAYS:
            raise ValueError(
                f"early must be None or one of {', '.join(map(repr, WAYS))}, not {way!r}"
            )
        if way not in self.early_exits:
            remedy = f"this model has no early exit {way!r}; with_early_exit({way!r}, ...) adds it"
            raise ValueError(self.early_obstacle(way) or remedy)
        return self._rows.early(X, WAYS.index(way), n_jobs)

    def _check_early(self, way, rate, background):
        """Check the arguments of `with_early_exit`."""
        if way not in WAYS:
            raise ValueError(
                f"way must be None or one of {', '.join(map(repr, WAYS))}, not {way!r}"
            )
        obstacle = self.early_obstacle(way)
        if obstacle:
            raise ValueError(obstacle)
        if not (isinstance(rate, Real) and 0 < rate < 1):
            raise ValueError(f"rate must be above 0 and below 1, not {rate!r}")
        if (background is not None) != (way == "rejection"):
            raise ValueError(
                "background, a class of the model, is needed for way='rejection', and only for it"
            )

    def early_obstacle(self, way: Early) -> str | None:
        """Explain why the model cannot have this early exit.

        Parameters
        ----------
        way : {"certified", "calibrated", "rejection"}
            Kind of the early exit.

        Returns
        -------
        str or None
            The reason, or None if the model can have it.
        """
        built_in = self._own_exits()
        if self._kind.no_stages is not None and way not in built_in:
            if built_in:
                shown = ", ".join(map(repr, built_in))
                return f"this kind of model has no early exit {way!r}; it has {shown}"
            return f"an early exit skips weak learners, but this model has none ({self._kind.NAME})"
        if self._kind.layout_of(self._sections()) == "packed":
            return "a packed model has no early exits; save it with layout='list' first"
        if self.link == "sigmoid":
            return "an early exit gives one label, but this model is multi-label"
        if self.ensemble.decoder != "linear":
            return (
                "an early exit needs scores that are sums over learners, but this model "
                f"decodes them from the columns of a code (decoder={self.ensemble.decoder!r})"
            )
        return None

    def _code_of(self, label):
        """Position of the background class."""
        class_index = np.flatnonzero(self.classes_ == label) if np.ndim(label) == 0 else ()
        if len(class_index) != 1:
            classes = self.classes_.tolist()
            shown = ", ".join(map(repr, classes[:10])) + ", ..." * (len(classes) > 10)
            raise ValueError(f"background must be a class of the model ({shown}), not {label!r}")
        return int(class_index[0])

    def _with_bounds(self, checkpoints, values):
        """Add bounds for every other checkpoint, the last ones if not all fit into the file."""
        k = self.ensemble.n_classes
        values = rounded_up(every_other(values)[:, ~np.eye(k, dtype=bool)])
        file_bytes = len(self._changed(**dict.fromkeys(EARLY)).to_bytes())
        n_fitting = int(SHARE * file_bytes / (values.itemsize * k * (k - 1)))
        if not n_fitting and len(values):
            raise ValueError(
                f"the bounds of {k * (k - 1)} pairs of classes take {values[0].nbytes} bytes "
                f"per checkpoint, more than {SHARE:.0%} of this model's {file_bytes}; use "
                "way='calibrated', which needs no bounds"
            )
        last_values = values[max(0, len(values) - n_fitting) :]
        model = self._changed(exit=narrow(checkpoints), pair=last_values.ravel())
        is_checked = np.zeros(len(values), dtype=bool)
        if len(values):
            shares = every_other(checkpoints) / max(1, self.n_learners)
            is_checked[[np.abs(shares - share).argmin() for share in DEFAULT_CHECKS]] = True
        return model._with_checks(is_checked)

    def _with_checks(self, is_checked):
        """Keep the bounds at these of every other checkpoint, and set the others to infinity."""
        k = self.ensemble.n_classes
        pair = self._sections()["pair"].reshape(-1, k * (k - 1)).copy()
        is_checked = is_checked[len(is_checked) - len(pair) :]
        pair[~is_checked] = np.inf
        first = int(is_checked.argmax()) if is_checked.any() else len(pair) - 1
        return self._changed(pair=pair[max(0, first) :].ravel())

    def _margins(self, X, checkpoints, rate):
        """Numbers of rows and of changed labels, and thresholds, which decrease as fewer learners are left."""
        final = self.predict_codes(X)
        n_changed = may_fail(len(final), rate, "rows X")
        worst = np.zeros(len(final))  # the largest relative margin of a wrong label, by row
        falling = np.sqrt(np.sqrt(1 - checkpoints / max(1, self.n_learners)))
        for scores, scale in zip(self._scores_at(X, checkpoints), falling.tolist(), strict=True):
            largest_two = np.partition(scores, -2, axis=1)
            margin = largest_two[:, -1] - largest_two[:, -2]
            wrong = scores.argmax(axis=1) != final
            worst[wrong] = np.maximum(worst[wrong], margin[wrong] / scale)
        level = np.sort(worst)[len(worst) - 1 - n_changed]
        return (len(final), n_changed), np.nextafter(falling * level, np.inf)

    def _rejections(self, X, checkpoints, rate, code):
        """Number of rows, the class, and thresholds.

        The shape of the thresholds is fitted to half of the rows, their level to the others.
        """
        is_other = self.predict_codes(X) != code
        leads = [_lead(scores, code)[is_other] for scores in self._scores_at(X, checkpoints)]
        lead = np.array(leads).reshape(len(checkpoints), is_other.sum())
        lead_of_shape = lead[:, ::2]
        lead_of_level = lead[:, 1::2]
        n_rows = lead_of_level.shape[1]
        n_lost = may_fail(n_rows, rate, "rows X of other classes than the background", parts=2)
        shape = np.quantile(lead_of_shape, 1 - rate, axis=1)
        excess = np.sort((lead_of_level - shape[:, None]).max(axis=0, initial=-np.inf))
        level = excess[len(excess) - 1 - n_lost]
        return (n_rows, code), np.nextafter(shape + level, np.inf)

    def _scores_at(self, X, checkpoints):
        """Scores at the checkpoints."""
        return self._stages(X, np.concatenate([[0], checkpoints]))


def facts(model):
    """Facts about a model's early exits, as dicts for JSON."""
    for way in model._own_exits():
        yield {"way": way, "from": "hyperplanes"}
    sections = model._sections()
    for way, tag in zip(WAYS, EARLY[1:], strict=True):
        if tag not in sections:
            continue
        fact = {"way": way, "checkpoints": len(sections[EARLY[0]])}
        if way != "certified":
            fact["rate"], rows, third = sections[tag][:3].tolist()
            fact["rows"] = int(rows)
            if way == "calibrated":
                fact["changed"] = int(third)
            else:
                fact["background"] = model.classes_.tolist()[int(third)]
        yield fact


def _lead(scores, code):
    """Score of a class minus the largest score of the others."""
    return scores[:, code] - np.delete(scores, code, axis=1).max(axis=1)


def every_other(values):
    """Every other one of the values, with the last one."""
    return values[::-2][::-1]


def checkpoints(ends, n):
    """Numbers of learners before the checkpoints.

    These are ends of rounds before the last of n learners: at least `STEP` learners apart, and at most `MOST` of them.
    """
    step = STEP * max(1, math.ceil(n / (STEP * MOST)))
    numbers = [0]
    for end in ends.tolist():
        if numbers[-1] + step <= end < n:
            numbers.append(end)
    return np.array(numbers[1:], dtype=np.int64)


def bounds(ensemble, checkpoints):
    """Upper bounds of what the learners after each checkpoint add to class j minus class i, for sums in float64.

    Parameters
    ----------
    ensemble : Stumps or Trees
    checkpoints : ndarray of int (n,)
        Learners before each checkpoint.

    Returns
    -------
    ndarray of float64 (n, K, K)
        At [c, i, j]; with the rounding errors of all sums.
    """
    k = ensemble.n_classes
    code = ensemble.code
    # First for the learners between two checkpoints, then for all learners after a checkpoint.
    after = np.zeros((len(checkpoints) + 1, k, k))
    size = np.abs(ensemble.bias.astype(np.float64))
    stages = np.searchsorted(checkpoints, np.arange(len(ensemble)), side="right")
    for stage, (*_, leaf, cls, base) in zip(stages.tolist(), ensemble.each_tree(), strict=True):
        leaf = np.asarray(leaf, dtype=np.float64)
        if cls < 0:
            size += np.abs(leaf).max(axis=0)
            for i in range(k):
                after[stage, i] += (leaf - leaf[:, [i]]).max(axis=0)
            continue
        sign = np.eye(k)[cls] if code is None else code[cls].astype(np.float64)
        if base >= 0:
            sign[base] = -1
        size += np.abs(leaf).max() * np.abs(sign)
        change = sign - sign[:, None]
        after[stage] += np.maximum(leaf.max() * change, leaf.min() * change)
    after = after[:0:-1].cumsum(axis=0)[::-1]
    # Every sum, here and in the scorer, has an error of at most 2^-53 of this size per learner, and a pair has two.
    return after + (len(ensemble) + 4) * 2.0**-49 * size.max()


def checks(exits, checkpoints, n):
    """Choose the checkpoints at which bounds are checked, so that the mean time per row is minimal.

    Parameters
    ----------
    exits : ndarray of int (m,)
        Learners after which each row exits if bounds are checked everywhere.
    checkpoints : ndarray of int (c,)
        Learners before each checkpoint.
    n : int
        Number of all learners.

    Returns
    -------
    ndarray of bool (c,)
    """
    place = np.concatenate([[0], checkpoints])
    share_left = 1 - np.searchsorted(np.sort(exits), place, side="right") / max(1, len(exits))
    share_left[0] = 1.0
    # Dynamic programming from the last place: the least mean time from each place on, and the next place to check.
    least_time = share_left * (n - place)
    next_place = np.zeros(len(place), dtype=int)
    for j in range(len(place) - 2, -1, -1):
        times = share_left[j] * (place[j + 1 :] - place[j] + CHECK_COST) + least_time[j + 1 :]
        if times.min() < least_time[j]:
            least_time[j] = times.min()
            next_place[j] = j + 1 + times.argmin()
    is_checked = np.zeros(len(checkpoints), dtype=bool)
    j = next_place[0]
    while j:
        is_checked[j - 1] = True
        j = next_place[j]
    return is_checked


def rounded_up(values):
    """Round up to float16, or to float32 if the values are out of range."""
    largest = np.abs(values).max(initial=0.0)
    dtype = np.float16 if 2.0**-8 < largest <= 65504 else np.float32
    with np.errstate(over="ignore"):
        result = values.astype(dtype)
        return np.where(result < values, np.nextafter(result, dtype(np.inf)), result)


def may_fail(n, rate, rows, parts=1):
    """How many of n rows may fail so that, with 95% confidence, fewer than ``rate`` of all rows fail.

    Fewer than 3 / rate rows are refused; slightly fewer, log(0.05) / log(1 - rate), would be enough. The threshold is
    the largest value after skipping that many: the chance that a new row exceeds it is a binomial tail.
    """
    log_probability = n * math.log1p(-rate)  # that exactly `failing` + 1 rows fail
    failing = -1
    total = math.exp(log_probability)
    while total <= DOUBT:
        failing += 1
        if failing < n:
            log_probability += (
                math.log((n - failing) / (failing + 1)) + math.log(rate) - math.log1p(-rate)
            )
        total += math.exp(log_probability)
    need = parts * math.ceil(min(3 / rate, 1e18) - 1e-9)
    if n * parts < need:
        shown = f"{need:.15g}"
        raise ValueError(
            f"rate={rate:g} needs at least {shown} {rows}, but there are {n * parts}; give "
            "more, or a larger rate"
        )
    return failing
