"""One call of ``fit``: check the input, train the rounds, set the attributes of the estimator."""

import contextlib
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pymcboost._text import metrics_of
from pymcboost._warn import warn
from pymcboost.model import missing
from pymcboost.model.init_scores import refuse_init_score
from pymcboost.threads import counted
from pymcboost.training import calibration, continuing, divided
from pymcboost.training.callbacks import Progress, WarnOfNothingToAdd
from pymcboost.training.dataset import Dataset
from pymcboost.training.folds import out_of_fold, refuse_mixed
from pymcboost.training.inputs import (
    check_class_weight,
    check_file,
    check_random_state,
    labels_of_file,
    refuse_rows_as_weights,
)
from pymcboost.training.loop import as_column
from pymcboost.training.meta import defaults_of, meta_of
from pymcboost.training.metrics import calibrated_of
from pymcboost.training.parameters import OUT_OF_FOLD, values_of
from pymcboost.training.sources import Calibration, given_rows_of, source_of
from pymcboost.training.trainer import Trainer
from pymcboost.training.training_set import TrainingSet
from pymcboost.training.validation import Validation, following, given_sets, held_set, set_aside


@dataclass(frozen=True)
class Plan:
    """Description of a training, by which a checkpoint recognizes it.

    Attributes
    ----------
    dataset : TrainingSet
    validation : Validation or None
    meta : dict
        What the model file will say of the training.
    defaults : dict
        Values of the parameters that ``meta`` does not name.
    n_estimators : int or "auto"
    """

    dataset: TrainingSet
    validation: Validation | None
    meta: dict[str, Any]
    defaults: dict[str, Any]
    n_estimators: int | str


class FitArguments(NamedTuple):
    """The arguments of ``fit``; see `EnsembleClassifier.fit`."""

    X: Any
    y: Any = None
    sample_weight: Any = None
    init_score: Any = None
    groups: Any = None
    init_model: Any = None
    X_val: Any = None
    y_val: Any = None
    sample_weight_val: Any = None
    validation_sets: Any = None
    init_score_val: Any = None

    def sets(self):
        """Collect the validation sets by name."""
        return given_sets(
            self.X_val,
            self.y_val,
            self.sample_weight_val,
            self.validation_sets,
            self.init_score_val,
        )


class Prepared(NamedTuple):
    """What `Training._prepare` hands over to the rounds, once the rows are laid out for the booster.

    Attributes
    ----------
    n_estimators : int
        Rounds of the whole model.
    previous : Previous or None
        Rounds that the training goes on from.
    validation : Validation or None
    source : Uncalibrated
        Where the temperature comes from: a class of `sources`.
    cv_results : dict or None
        Curves of the folds that found the number of rounds.
    """

    n_estimators: int
    previous: Any
    validation: Any
    source: Any
    cv_results: Any


class Training:
    """One call of fit, from what the user gives to the attributes of the fitted estimator."""

    def __init__(self, draft, callbacks, workers):
        self.draft = draft
        self.callbacks = callbacks
        self.workers = workers
        self.state = None
        self.calibration = Calibration()
        self.shares = None
        self.begun = []
        self.out_of_fold = None
        self.share_held = None
        self.auto_values = {}
        # No reference cycles: the rows must be freed as soon as the training ends.
        seed = partial(_random_state, draft.random_state, self.callbacks)
        share = self.workers.broadcast
        self.booster = draft._booster(
            lambda: share(int(check_random_state(seed()).randint(2**31))), workers
        )
        self.params = self.booster.params

    def run(self, arguments):
        """Read the rows, train all rounds, and calibrate the model.

        Parameters
        ----------
        arguments : FitArguments
        """
        with self._closing_callbacks():
            prepared = self._prepare(arguments)  # frees the bins, so that the weights have room
            trainer, callbacks = self._start(prepared)
        trainer.run(callbacks)
        self.shares = calibration.shares(self.state, self.booster.data, self.workers)
        # After the rounds, so that Ctrl-C here leaves a complete model without calibration.
        self.calibration = prepared.source.calibrate(self.state)
        if self.calibration.out_of_fold is not None:
            self.out_of_fold = self.calibration.out_of_fold
        divided.check_models(self.workers, self.booster.name, self._whole_model)
        self.workers.check()

    @contextlib.contextmanager
    def _closing_callbacks(self):
        """Close the callbacks if an error occurs before the first round; from there on, the loop closes them."""
        try:
            yield
        except BaseException:
            for callback in self.begun:
                with contextlib.suppress(Exception):  # only the error above should be reported
                    callback.close(self.state)
            raise

    def _prepare(self, arguments):
        """Read the rows and lay them out for the booster."""
        initial, sets = self._check(arguments)
        for callback in self.callbacks:
            callback.begin(self.booster)
            self.begun.append(callback)
        continued = self.params.warm_start and hasattr(self.draft, "model_")
        dataset, class_weight = self._read(arguments, initial, continued)
        dataset, validation = self._validation(dataset, class_weight, sets)
        self.classes = dataset.classes
        self.priors = calibration.priors(self.draft, dataset.classes, class_weight)
        plan = self._plan(dataset, validation, initial)
        previous = self._previous(plan, continued, initial)
        self.meta |= self._missing_columns(dataset, previous)
        n_estimators, cv_results, folds_of_rounds = self._rounds(plan, previous)
        self.booster.lay_out(
            dataset, divided.threads_of(self.params.n_jobs, self.workers), previous
        )
        source = source_of(
            self.draft,
            self.booster,
            dataset,
            self._calibrates_on(validation, "val" in sets),
            previous,
            initial=initial,
            folds_of_rounds=folds_of_rounds,
        )
        return Prepared(n_estimators, previous, validation, source, cv_results)

    def _start(self, prepared):
        """Start the booster. Return the trainer, and the callbacks of its rounds."""
        trainer = Trainer(
            self.booster,
            prepared.n_estimators,
            previous=prepared.previous,
            validation=prepared.validation,
            calibrates=prepared.source.follows_rounds,
            make_model=partial(_model, self.meta, self.classes),
        )
        self.state = trainer.state
        self.state.cv_results = prepared.cv_results
        self.state.folds_follow = prepared.source.trains_folds
        self.auto_values = self.booster.auto_values()
        return trainer, [*self._own_callbacks(prepared.validation), *self.callbacks]

    def _check(self, arguments):
        """Refuse, before a row is read, what the algorithm or the workers cannot do.

        Returns
        -------
        initial : Previous or None
            The rounds of ``init_model``.
        sets : dict
            The validation sets of all workers.
        """
        draft = self.draft
        booster = self.booster
        workers = self.workers
        refuse_rows_as_weights(arguments.sample_weight)
        sets = arguments.sets()
        initial = None
        if arguments.init_model is not None:
            initial = continuing.previous_of(arguments.init_model, draft)
        refuse_init_score(arguments.init_score, booster.name, booster.takes_init_score)
        divided.check_alike(workers, booster, meta_of(draft)["params"], self.callbacks, initial)
        booster.check()
        sets = divided.whole_sets(workers, sets)
        divided.refuse(booster, workers, arguments.groups)
        refuse_mixed(self.params, arguments.groups, "val" in sets)
        self._warn_of_idle()
        booster.goes_on = initial is not None
        return initial, sets

    def _read(self, arguments, initial, continued):
        """Return the training set, weighted by classes, and the class weights."""
        X = arguments.X
        read = X._training_set if isinstance(X, Dataset) else partial(TrainingSet.read, X=X)
        dataset = read(
            self.draft,
            self.booster,
            y=arguments.y,
            sample_weight=arguments.sample_weight,
            init_score=arguments.init_score,
            groups=arguments.groups,
            warm_start=continued,
            initial=initial,
        )
        self.has_init_score = dataset.init_score is not None
        if continued:
            continuing.check_init_score(self.draft, self.has_init_score)
        class_weight = self._class_weight(dataset)
        if not dataset.is_multilabel:
            dataset = dataset.reweighted(dataset.weight * class_weight[dataset.codes])
        divided.check_all_classes(
            self.workers, type(self.draft), dataset.classes, dataset.codes, dataset.weight
        )
        return dataset, class_weight

    def _plan(self, dataset, validation, initial):
        """Describe the training; refuse names that a model file cannot store."""
        self.meta = meta_of(self.draft, dataset.feature_names)
        check_file(dataset.classes, self.meta)
        n_estimators = self.params.n_estimators
        if initial is not None:
            n_estimators += initial.n_rounds
        return Plan(
            dataset,
            validation,
            self.meta,
            defaults=defaults_of(self.draft),
            n_estimators=n_estimators,
        )

    def _rounds(self, plan, previous):
        """Return the number of rounds; if folds find it, also their curves, and the folds if they were trained."""
        if plan.n_estimators != "auto":
            return plan.n_estimators, None, None
        cv_results, folds = self._find_rounds(plan.dataset, previous)
        self.out_of_fold = given_rows_of(folds, plan.dataset)
        return cv_results["n_estimators"], cv_results, folds

    def _calibrates_on(self, validation, is_users):
        """Return the validation rows that the temperature comes from; None if those set aside are too few.

        ``is_users``: the user has given them.
        """
        validation_set = None if validation is None else validation.named("val")
        if validation_set is None or is_users:
            return validation_set
        has_temperature = calibrated_of(self.params, self.booster.link)
        return None if has_temperature and calibration.too_few(validation_set) else validation_set

    def _warn_of_idle(self):
        """Warn if `n_iter_no_change` is set but has no effect."""
        params = self.params
        default = defaults_of(self.draft)["n_iter_no_change"]
        is_used = params.early_stopping or params.n_estimators == "auto"
        if params.n_iter_no_change != default and not is_used:
            warn(
                f"n_iter_no_change={params.n_iter_no_change} has no effect without early stopping; "
                "set early_stopping=True"
            )

    def rounds_done(self):
        """Rounds done so far, without those that a warm start or a given model started with."""
        state = self.state
        if state is None:
            return 0
        return state.n_rounds if state.resumed else state.n_rounds - state.begun_with

    def finish(self):
        """Set the attributes of the fitted estimator on the draft."""
        state = self.state
        draft = self.draft
        draft.classes_ = self.classes
        draft.n_estimators_ = state.n_rounds
        draft.gain_ = state.gain
        draft.history_ = {name: as_column(values) for name, values in state.history.items()}
        draft.model_ = self._whole_model()
        draft.why_ended_ = self._why_ended()
        draft.auto_params_ = self._auto_params()
        draft._ended = state.ended
        draft._kept = self.booster.kept()
        draft._left = continuing.left_by(draft.model_)
        draft._has_init_score = self.has_init_score
        draft._metrics = [*metrics_of(self.params.scoring)]
        draft._sets = []
        if state.validation is not None:
            draft._sets = [validation_set.name for validation_set in state.validation.sets]
        for name in ("cv_results_", *OUT_OF_FOLD):
            vars(draft).pop(name, None)
        if self.out_of_fold is not None:
            scores, draft.oof_fold_ = self.out_of_fold
            draft.oof_decision_function_ = draft.model_._decision(scores)
        if state.cv_results is not None:
            draft.cv_results_ = state.cv_results

    def _why_ended(self):
        """Say why the training ended."""
        state = self.state
        if state.interrupted:
            return "it was interrupted"
        if state.best_round is not None and state.n_rounds < state.n_estimators:
            return (
                f"early stopping: round {state.best_round} is the best one on the validation rows"
            )
        if state.stopped:
            return "a callback ended it"
        return state.ended or f"all {counted(state.n_estimators, 'round')} are done"

    def _auto_params(self):
        """Values chosen for the parameters that the user set to "auto"."""
        values = {**self.auto_values, "n_estimators": self.state.n_estimators}
        if self.share_held is not None:
            values["validation_fraction"] = self.share_held
        user_values = values_of(self.draft)
        is_auto = {
            name: isinstance(value, str) and value == "auto" for name, value in user_values.items()
        }
        return {name: value for name, value in values.items() if is_auto[name]}

    def _whole_model(self):
        """The model of the rounds, with temperature, thresholds, class shares and priors applied."""
        model = self.state.model()
        if self.calibration.temperature is not None:
            model = model.with_temperature(self.calibration.temperature)
        thresholds = self.calibration.thresholds
        if thresholds is None:  # one for all labels
            thresholds = self.booster.threshold
        if thresholds is not None:
            model = model.with_thresholds(thresholds)
        if self.shares is not None and not model.ensemble.bias.any():
            model = calibration.with_shares(model, self.shares)
        return model if self.priors is None else model.reweighted(self.priors)

    def _own_callbacks(self, validation):
        """Callbacks that the parameters ask for: validation curves, early stopping and progress."""
        params = self.params
        callbacks = [WarnOfNothingToAdd()]
        if validation is not None:
            callbacks += following(validation, self.booster, self.classes)
        if params.verbose and self.workers.rank == 0:
            callbacks.append(
                Progress(type(self.draft).__name__, params.verbose, params.early_stopping)
            )
        return callbacks

    def _find_rounds(self, dataset, previous):
        """Find the number of rounds by cross-validation; return its curves, and the folds if they were trained."""
        cv_results = None if previous is None else previous.cv_results
        folds = None
        if not cv_results or self.params.calibrate:
            folds = out_of_fold(self.draft, dataset, self.booster.draw_seed())
            cv_results = folds.results()
        if previous is not None and previous.n_rounds > cv_results["n_estimators"]:
            raise ValueError(
                f"the checkpoint has {counted(previous.n_rounds, 'round')}, more than the "
                f"{cv_results['n_estimators']} that "
                'n_estimators="auto" found; remove the file to start again'
            )
        return cv_results, folds

    def _missing_columns(self, dataset, previous):
        """Entry of the model file on missing values: columns of all workers' rows, and of earlier rounds."""
        if not self.booster.allows_missing:
            return {}
        n_features = dataset.X.shape[1]
        columns = divided.missing_columns(self.workers, dataset)
        if previous is not None:
            earlier = missing.columns_in(previous.model.information, n_features)
            columns = columns if earlier is None else np.union1d(columns, earlier)
        return missing.entry_of(columns, n_features)

    def _class_weight(self, dataset):
        """Weights of the classes (K,)."""
        params = self.params
        check_class_weight(type(self.draft), getattr(params, "class_weight", None))
        return divided.class_weights(
            self.workers, params, dataset.classes, dataset.codes, dataset.weight
        )

    def _validation(self, dataset, class_weight, sets):
        """Return the dataset without the rows that early stopping holds out, and the validation rows or None."""
        options = dataset, class_weight, self.booster.allows_missing
        validation_sets = [
            held_set(self.draft, name, *parts, *options) for name, parts in sets.items()
        ]
        if self.params.early_stopping and "val" not in sets:
            random_state = _random_state(self.params.random_state, self.callbacks)
            rows, rows_set_aside, share = set_aside(self.booster, dataset, random_state)
            self.share_held = share
            validation_sets.insert(0, rows_set_aside)
            dataset = dataset.without(rows)
        return dataset, Validation(validation_sets, dataset.n_classes) if validation_sets else None

    def _previous(self, plan, continued, initial):
        """Return the rounds to continue from: those of a given model, a callback or a warm start, or None."""
        draft = self.draft
        for callback in self.callbacks:
            callback.take_in(plan.dataset)
        if initial is not None:
            return initial
        for callback in self.callbacks:
            previous = callback.resume(plan)
            if previous is not None:
                return previous
        if not continued or not draft.n_estimators_:
            return None
        if plan.n_estimators < draft.n_estimators_:
            raise ValueError(
                f"warm_start: n_estimators={plan.n_estimators} is less than the "
                f"{counted(draft.n_estimators_, 'round')} already fitted; increase it to add "
                "rounds"
            )
        return continuing.of_last_fit(draft)


def _random_state(random_state, callbacks):
    """Return the given generator or seed, or else the seed of a checkpoint."""
    if random_state is not None:
        return random_state
    return next((callback.seed for callback in callbacks if callback.seed is not None), None)


def _model(meta, classes, booster, n_rounds, further_meta):
    return booster.model(labels_of_file(classes), {**meta, **further_meta})
