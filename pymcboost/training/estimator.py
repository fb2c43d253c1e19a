"""The scikit-learn contract: checks what a training is given, runs it, and scores with its model."""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import fields
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymcboost._version import __version__
from pymcboost.data.mapped import rows_of
from pymcboost.model.categories import find as find_categories
from pymcboost.model.columns import names_of
from pymcboost.model.model import Model
from pymcboost.threads import counted, resolve_n_jobs, threads_for
from pymcboost.training import basis, calibration, continuing, prediction, refit, thresholds
from pymcboost.training.booster import Booster, Previous
from pymcboost.training.callbacks import EarlyStopping, Progress, ValidationCurves, WarnOfNothingToAdd, as_callback
from pymcboost.training.folds import out_of_fold, refuse_mixed
from pymcboost.training.inputs import (
    Inputs,
    Validation,
    check_class_weight,
    check_classes,
    check_file,
    given_sets,
    held_out,
    held_set,
    labels_of_file,
    rows_given,
    validated,
    weights_of_classes,
)
from pymcboost.training.labels import indicator_of
from pymcboost.training.loop import TrainingState, train
from pymcboost.training.meta import meta_of
from pymcboost.training.metrics import Held, Metric
from pymcboost.training.parameters import ClassWeight, Folds, Parameter, Rounds, Scoring, Seed, checked, estimator
from pymcboost.training.rounding import warn_of_merged

if TYPE_CHECKING:
    from pymcboost.training._bases import BaseEstimator, ClassifierMixin
else:
    from pymcboost.training.basis import BaseEstimator, ClassifierMixin

Features = Any  # arrays, data frames and sparse matrices, for which there is no common type
Fit = TypeVar("Fit", bound=Callable[..., Any])


def named_arguments(fit: Fit) -> Fit:
    """Decorator of a ``fit`` that refuses unknown arguments itself; its signature hides that it catches them."""
    shown = inspect.signature(fit)
    known = [p for p in shown.parameters.values() if p.kind is not p.VAR_KEYWORD]
    vars(fit)["__signature__"] = shown.replace(parameters=known)
    return fit


@estimator
class BoostingClassifier(
    calibration.CalibratesOnRows, refit.RefitsLeaves, prediction.Predicts, ClassifierMixin, BaseEstimator
):
    """What all estimators share. A subclass names its ``algorithm`` and its ``booster``, and has the parameters."""

    algorithm: ClassVar[str]
    booster: ClassVar[type[Booster]]
    # Rows of the table of parameters, and help texts, that are others here.
    own_parameters: ClassVar[dict[str, Parameter]] = {}
    own_help: ClassVar[dict[str, str]] = {}

    if TYPE_CHECKING:  # of a fitted estimator
        classes_: ClassVar[NDArray[Any]]
        n_features_in_: ClassVar[int]
        feature_names_in_: ClassVar[NDArray[Any]]
        model_: ClassVar[Model]
        n_estimators_: ClassVar[int]
        gain_: ClassVar[NDArray[np.float64]]
        history_: ClassVar[dict[str, NDArray[Any]]]
        cv_results_: ClassVar[dict[str, Any]]

        def fit(self, X: Any, y: ArrayLike, **more: Any) -> Self:
            """See the subclasses."""

    n_estimators: Rounds = 200
    cv: Folds = 3
    early_stopping: bool = False
    scoring: Scoring = "log_loss"
    validation_fraction: float = 0.1
    n_iter_no_change: int = 20
    min_delta: float = 0.0
    warm_start: bool = False
    random_state: Seed = None
    calibrate: Literal["temperature"] | None = None
    n_jobs: int | None = None
    verbose: int = 0

    # -- fitting -------------------------------------------------------------------------------------------------------

    def _fit(self, X, y, sets, groups, callbacks, unknown, sample_weight=None, init_model=None):
        self._refuse_arguments(unknown)
        # A training that fails or is interrupted leaves the estimator, and the model it may have, as they were.
        draft = object.__new__(type(self))
        vars(draft).update(vars(self))
        training = _Training(draft, [as_callback(one) for one in callbacks])
        try:
            training.run(X, y, sample_weight, sets, groups, init_model)
            training.finish()
        except KeyboardInterrupt:  # the rounds done are a usable model
            if training.rounds_done():
                training.state.roll_back()  # again: Ctrl-C may have come while rounds were taken back
                training.finish()
                self.__dict__ = vars(draft)
            raise
        self.__dict__ = vars(draft)
        if not self.n_estimators_:
            warnings.warn(training.booster.why_constant(), stacklevel=3)
        return self

    def _refuse_arguments(self, unknown):
        """Refuse what `fit` does not take, by the name of the class that the user called."""
        for name in unknown:
            if name == "eval_set":
                hint = "; give the validation set as X_val, y_val, and more of them as validation_sets"
            elif name == "sample_weight":
                hint = ": the algorithm has no sample weights"
            elif name == "init_model":
                hint = ": its rounds are merged into one machine; use warm_start, which adds to the estimator's own"
            else:
                hint = ""
            raise TypeError(f"{type(self).__name__}.fit() got an unexpected keyword argument {name!r}{hint}")

    @classmethod
    @cache  # scikit-learn reads the constructor, which takes it half a millisecond
    def _get_param_names(cls):
        return super()._get_param_names()

    def _booster(self, draw_seed=None):
        return self.booster(checked(type(self), self.get_params(deep=False)), draw_seed, type(self).__name__)

    def layouts(self) -> tuple[str, ...]:
        """Layouts that a model file of these parameters may have, see `save`: tuple of str."""
        return self._booster().layouts()

    def __getstate__(self):
        if hasattr(self, "model_"):
            self.model_.__reduce__()  # says in its own words why it cannot be pickled, where it cannot
        return {**super().__getstate__(), "_pymcboost_version": __version__}

    def __setstate__(self, state):
        state = dict(state)
        version = state.pop("_pymcboost_version", "an unknown version")
        if version != __version__:
            warnings.warn(
                f"this {type(self).__name__} was pickled by pymcboost {version}, this is {__version__}: it may fail or "
                "differ. Keep models in files (save, load_model), which every later version reads",
                stacklevel=2,
            )
        super().__setstate__(state)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.booster(self.get_params(deep=False)).takes_sparse()
        tags.input_tags.allow_nan = self.booster.allows_missing
        tags.classifier_tags.multi_label = self.booster(self.get_params(deep=False)).multilabel
        return tags


@estimator
class EnsembleClassifier(prediction.PredictsProbabilities, BoostingClassifier):
    """What the estimators of weak learners share: sample weights, probabilities and importances of the features."""

    max_bins: int = 256
    class_weight: ClassWeight = None
    restore_priors: bool = False

    @named_arguments
    def fit(
        self,
        X: Features,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        X_val: Features = None,
        y_val: ArrayLike | None = None,
        callbacks: Any = (),
        *,
        sample_weight_val: ArrayLike | None = None,
        validation_sets: Any = None,
        groups: ArrayLike | None = None,
        init_model: Any = None,
        **unknown: Any,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or `Chunks`
            Training features, rounded to float32 once. NaN is a missing value; infinities are refused. `Chunks` are for
            vector trees alone.
        y : array-like of shape (n_samples,)
            Class labels, integers or strings. Left out with `Chunks`.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. Rows of weight 0 are left out altogether.
        X_val, y_val : array-like, default=None
            Validation set for early stopping, in place of a part split off from the training rows.
        callbacks : sequence of objects, default=()
            Each has a method ``after_round(state)``, which ends the training where it returns something true; see
            `TrainingState`.
        sample_weight_val : array-like, default=None
            Weights of the rows of ``X_val`` in the metric; class weights are multiplied with them.
        validation_sets : dict of str to (X, y) or (X, y, sample_weight), default=None
            More sets whose metric the history keeps; early stopping does not look at them.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group are in one fold, with ``n_estimators="auto"``.
        init_model : Model, path or fitted estimator, default=None
            A model of the same algorithm that the rounds are added to, ``n_estimators`` of them. These rows need not be
            those that it comes from, nor have rows of all its classes.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a parameter out of range, fewer than two classes, infinite features or negative weights.
        MemoryError
            Where the training would need more memory than is free; raised before any of it is taken.
        KeyboardInterrupt
            After Ctrl-C; the rounds done until then are kept in the estimator. If there are none, it stays as it was.
        """
        sets = given_sets(X_val, y_val, sample_weight_val, validation_sets)
        return self._fit(X, y, sets, groups, callbacks, unknown, sample_weight, init_model)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Share of every feature in the model: (n_features,), summing to 1.

        Trees: of the gains of all splits (`gain_`). Stumps: of the absolute leaf values. What a saved model knows, the
        number of splits of trees, is ``model_.feature_importances()``.
        """
        basis.check_is_fitted(self, "model_")
        total = self.gain_.sum()
        return self.gain_ / total if total > 0 else self.model_.feature_importances()


class _Training:
    """One call of fit, from what the user gives to the attributes of the fitted estimator."""

    def __init__(self, draft, callbacks):
        self.draft, self.callbacks, self.state, self.temperature = draft, callbacks, None, None
        self.thresholds = None
        # Nothing that the training holds refers back to it: its rows go as soon as it ends.
        seed = partial(_random_state, draft.random_state, self.callbacks)
        self.booster = draft._booster(lambda: int(basis.check_random_state(seed()).randint(2**31)))
        self.params = self.booster.params

    def run(self, X, y, sample_weight, sets, groups, init_model):
        """Check, prepare, and do all rounds."""
        draft, params, booster = self.draft, self.params, self.booster
        booster.check()
        refuse_mixed(params, groups)
        self._warn_of_idle()
        initial = None if init_model is None else continuing.previous_of(init_model, draft)
        if initial is not None:
            params.n_estimators += initial.n_rounds
            booster.goes_on = True
        for callback in self.callbacks:
            callback.begin(booster)
        continued = params.warm_start and hasattr(draft, "model_")
        inputs = self._inputs(X, y, sample_weight, sets, groups, continued, initial)
        del X, y, sample_weight, sets, groups, init_model
        self.classes, self.priors = inputs.classes, calibration.priors(draft, inputs)
        check_file(self.classes, inputs.meta)
        previous = self._previous(inputs, initial)
        cv_results, found = self._find_rounds(inputs, previous) if params.n_estimators == "auto" else (None, None)
        held = None if inputs.validation is None else inputs.validation.named("val")
        kept = inputs if params.calibrate and held is None else None
        several = booster.multilabel
        folds = calibration.check_rows(draft, inputs, held) if params.calibrate and not several else None
        n_held = 0 if inputs.validation is None else inputs.validation.X.shape[0]
        n_threads = threads_for(inputs.X.shape[0] * inputs.X.shape[1], resolve_n_jobs(params.n_jobs))
        booster.categories = inputs.categories
        data = booster.rows(inputs.X, inputs.codes, len(self.classes), inputs.weight, n_threads, previous)
        validation = inputs.validation
        del inputs  # the training data have what they need of it
        n_threads = threads_for(data.n_entries * data.n_blocks, n_threads)
        booster.start(data, self.classes, n_threads, previous, n_held)
        history = {} if previous is None else {name: list(values) for name, values in previous.history.items()}
        best_gain = None if previous is None else previous.best_gain
        make_model = partial(_model, draft, self.classes)
        self.state = TrainingState(booster, params.n_estimators, make_model, history, validation, best_gain)
        self.state.cv_results = cv_results
        train(self.state, [*self._own_callbacks(validation), *self.callbacks])
        # After the rounds: Ctrl-C here leaves a whole model, which is not calibrated.
        if kept is not None:
            # Rounds that a callback has cut off are cut off in the folds as well.
            rounds = self.state.n_rounds if self.state.stopped else params.n_estimators
            seed = booster.draw_seed()
            if several:
                self.thresholds = thresholds.of_folds(draft, kept, seed, rounds, found, initial)
            else:
                self.temperature = calibration.temperature_of_folds(draft, kept, seed, rounds, found, folds, initial)
        elif params.calibrate and several:
            self.thresholds = thresholds.of_rows(self.state.model(), held)
        elif params.calibrate:
            self.temperature = calibration.temperature_of_rows(self.state.model(), held)

    def _warn_of_idle(self):
        """Say that a patience which was set has no effect."""
        p = self.params
        usual = next(field.default for field in fields(self.draft) if field.name == "n_iter_no_change")
        if p.n_iter_no_change != usual and not p.early_stopping and p.n_estimators != "auto":
            warnings.warn(
                f"n_iter_no_change={p.n_iter_no_change} has no effect without early stopping; set early_stopping=True",
                stacklevel=5,
            )

    def rounds_done(self):
        """Rounds done so far."""
        return 0 if self.state is None else self.state.n_rounds

    def finish(self):
        """Give the draft the attributes of a fitted estimator."""
        state, draft = self.state, self.draft
        draft.classes_, draft.n_estimators_, draft.gain_ = self.classes, state.n_rounds, state.gain
        draft.history_ = {name: np.asarray(values) for name, values in state.history.items()}
        draft.model_ = state.model()
        if self.temperature is not None:
            draft.model_ = draft.model_.with_temperature(self.temperature)
        given = self.booster.threshold if self.thresholds is None else self.thresholds
        if given is not None:
            draft.model_ = draft.model_.with_thresholds(given)
        if self.priors is not None:
            draft.model_ = draft.model_.reweighted(self.priors)
        draft._ended, draft._kept = state.ended, self.booster.kept()
        vars(draft).pop("cv_results_", None)
        if state.cv_results is not None:
            draft.cv_results_ = state.cv_results

    def _own_callbacks(self, validation):
        found, params = [WarnOfNothingToAdd()], self.params
        if validation is not None:
            metric = Metric(params.scoring, self.classes, self.booster.probabilities, self.booster.loss_value)
            for held in validation.sets:
                metric.check(held)
            found.append(ValidationCurves(metric))
            if params.early_stopping:
                found.append(EarlyStopping(metric, params.n_iter_no_change, params.min_delta))
        if params.verbose:
            found.append(Progress(type(self.draft).__name__, params.verbose, params.early_stopping))
        return found

    def _find_rounds(self, inputs, previous):
        """Set the number of rounds by cross-validation; its curves, and the folds if they have been trained."""
        found, folds = None if previous is None else previous.cv_results, None
        if not found or self.params.calibrate:
            folds = out_of_fold(self.draft, inputs, self.booster.draw_seed())
            found = folds.results()
        self.params.n_estimators = found["n_estimators"]
        if previous is not None and previous.n_rounds > found["n_estimators"]:
            raise ValueError(
                f"the checkpoint has {counted(previous.n_rounds, 'round')}, more than the {found['n_estimators']} that "
                'n_estimators="auto" finds; remove the file to begin anew'
            )
        return found, folds

    def _inputs(self, X, y, sample_weight, sets, groups, continued, initial):
        draft, params = self.draft, self.params
        allow_nan = self.booster.allows_missing
        X, y, sample_weight, head = rows_given(self.booster, X, y, sample_weight)
        known = draft.model_ if continued else None if initial is None else initial.model
        wanted = getattr(params, "categorical_features", None)
        categories = known.categories if known else find_categories(wanted, X)
        X = X if categories is None else categories.encoded(X)
        given = X if head is None else head
        how = {"accept_sparse": "csr", "allow_nan": allow_nan, "reset": not continued, "head": head}
        if self.booster.multilabel:
            X = validated(draft, X, **how)
            codes = indicator_of(y, X.shape[0], None if initial is None else len(initial.classes))
            classes, y = np.arange(codes.shape[1]) if initial is None else initial.classes, codes.astype(int)
        else:
            X, y = validated(draft, X, y, **how)
            basis.check_classification_targets(y)
            classes, codes = np.unique(y, return_inverse=True)
        X = X if categories is None or not known else categories.bounded(X)
        narrowed = X.dtype == np.float32 and hasattr(given, "__getitem__") and head is None
        warn_of_merged(given if narrowed else X, names_of(given), stacklevel=5)
        weight = basis._check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if continued and not np.array_equal(classes, draft.classes_):
            raise ValueError(
                f"warm_start: y has the classes {classes!r}, the model so far has {draft.classes_!r}; "
                "continue with the same classes, or set warm_start=False"
            )
        if initial is not None:
            continuing.check_columns(X, given, initial.model)
            if codes.ndim == 1:
                classes, codes = continuing.codes_in(initial, classes, codes)
                y = classes[codes]
        check_class_weight(type(draft), getattr(params, "class_weight", None))
        class_weight = weights_of_classes(params, classes, codes)
        weight = weight * class_weight[codes] if codes.ndim == 1 else weight
        check_classes(type(draft), codes, weight)
        inputs = Inputs(
            X, classes, codes, weight, class_weight, None, meta_of(draft), params.n_estimators, continued,
            None if groups is None else basis.column_or_1d(groups), categories,
        )  # fmt: skip
        basis.check_consistent_length(X, groups)
        found = [held_set(draft, name, *parts, inputs, allow_nan) for name, parts in sets.items()]
        if params.early_stopping and "val" not in sets:
            random_state = _random_state(params.random_state, self.callbacks)
            rows = held_out(codes, weight, params.validation_fraction, random_state)
            X_held = X[rows].tocsc() if hasattr(X, "tocsc") else rows_of(X, rows)
            found.insert(0, Held.of("val", X_held, y[rows], codes[rows], weight[rows]))
            inputs.weight = weight.copy()
            inputs.weight[rows] = 0
        if found:
            inputs.validation = Validation(found, len(classes))
        return inputs

    def _previous(self, inputs, initial):
        """Rounds to go on from: those of a callback that has any, or of the estimator in a warm start; else None."""
        draft, n_estimators = self.draft, inputs.n_estimators
        for callback in self.callbacks:
            callback.take_in(inputs)
        if initial is not None:
            return initial
        for callback in self.callbacks:
            previous = callback.resume(inputs)
            if previous is not None:
                return previous
        if not inputs.continued:
            return None
        if n_estimators < draft.n_estimators_:
            raise ValueError(
                f"warm_start: n_estimators={n_estimators} is less than the "
                f"{counted(draft.n_estimators_, 'round')} already fitted; raise it to add rounds"
            )
        return Previous(draft.model_, draft.n_estimators_, draft.history_, draft.gain_, draft._kept)


def _random_state(given, callbacks):
    """The generator or seed to draw from: that of a checkpoint where none is given."""
    return given if given is not None else next((one.seed for one in callbacks if one.seed is not None), None)


def _model(estimator, classes, booster, n_rounds, more):
    return booster.model(labels_of_file(classes), {**meta_of(estimator), **more})
