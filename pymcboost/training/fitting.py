"""One call of ``fit``: check the input, train the rounds, set the attributes of the estimator."""

import contextlib
from dataclasses import dataclass, fields
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from pymcboost._text import metrics_of
from pymcboost._warn import warn
from pymcboost.comm import ALONE, row_numbers
from pymcboost.model import missing
from pymcboost.model.init_scores import refuse_init_score
from pymcboost.threads import counted
from pymcboost.training import calibration, continuing, divided, thresholds
from pymcboost.training.callbacks import (
    CalibratedCurve,
    EarlyStopping,
    Progress,
    ValidationCurves,
    WarnOfNothingToAdd,
)
from pymcboost.training.dataset import Dataset
from pymcboost.training.divided_folds import n_weighted
from pymcboost.training.folds import out_of_fold, refuse_mixed
from pymcboost.training.inputs import (
    Validation,
    check_class_weight,
    check_file,
    check_random_state,
    held_out,
    held_set,
    labels_of_file,
    share_held,
)
from pymcboost.training.loop import as_column
from pymcboost.training.meta import defaults_of, meta_of
from pymcboost.training.metrics import ValidationSet, calibrated_of, metrics_by
from pymcboost.training.parameters import OUT_OF_FOLD, values_of
from pymcboost.training.trainer import Trainer
from pymcboost.training.training_set import TrainingSet


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


class Training:
    """One call of fit, from what the user gives to the attributes of the fitted estimator."""

    def __init__(self, draft, callbacks, workers):
        self.draft = draft
        self.callbacks = callbacks
        self.state = None
        self.temperature = None
        self.thresholds = None
        self.shares = None
        self.workers = workers
        self.begun = []
        self.out_of_fold = self.share_held = None
        self.auto_values = {}
        # No reference cycles: the rows must be freed as soon as the training ends.
        seed = partial(_random_state, draft.random_state, self.callbacks)
        share = self.workers.broadcast
        self.booster = draft._booster(
            lambda: share(int(check_random_state(seed()).randint(2**31))), workers
        )
        self.params = self.booster.params

    def run(self, *arguments):
        """Check, prepare, and train all rounds. Callbacks are closed even if an error occurs before the first round."""
        try:
            self._run(*arguments)
        except BaseException:
            for callback in self.begun:
                with contextlib.suppress(
                    Exception
                ):  # only the error that ended the training should be reported
                    callback.close(self.state)
            raise

    def _run(self, sets, X, y, sample_weight, groups, init_model, init_score):
        draft = self.draft
        params = self.params
        booster = self.booster
        workers = self.workers
        initial = None if init_model is None else continuing.previous_of(init_model, draft)
        refuse_init_score(init_score, booster.name, booster.takes_init_score)
        divided.check_alike(workers, booster, meta_of(draft)["params"], self.callbacks, initial)
        booster.check()
        sets = divided.whole_sets(workers, sets)
        divided.refuse(booster, workers, sets, groups, warm_start=params.warm_start)
        refuse_mixed(params, groups, "val" in sets)
        self._warn_of_idle()
        n_estimators = params.n_estimators
        if initial is not None:
            n_estimators += initial.n_rounds
            booster.goes_on = True
        for callback in self.callbacks:
            callback.begin(booster)
            self.begun.append(callback)
        continued = params.warm_start and hasattr(draft, "model_")
        read = X._training_set if isinstance(X, Dataset) else partial(TrainingSet.read, X=X)
        row_options = {
            "y": y,
            "sample_weight": sample_weight,
            "groups": groups,
            "warm_start": continued,
            "initial": initial,
        }
        dataset = read(draft, booster, init_score=init_score, **row_options)
        self.has_init_score = dataset.init_score is not None
        if continued:
            continuing.check_first_scores(draft, self.has_init_score)
        own_val = "val" in sets
        meta = meta_of(draft, dataset.feature_names)
        class_weight = self._class_weight(dataset)
        if not dataset.is_multilabel:
            dataset = dataset.reweighted(dataset.weight * class_weight[dataset.codes])
        divided.check_all_classes(
            workers, type(draft), dataset.classes, dataset.codes, dataset.weight
        )
        dataset, validation = self._validation(dataset, class_weight, sets)
        del X, y, sample_weight, sets, groups, init_model, init_score
        self.classes = dataset.classes
        self.priors = calibration.priors(draft, dataset.classes, class_weight)
        check_file(self.classes, meta)
        plan = Plan(
            dataset, validation, meta, defaults=defaults_of(draft), n_estimators=n_estimators
        )
        previous = self._previous(plan, continued, initial)
        meta |= self._missing_columns(dataset, previous)
        cv_results = folds_of_rounds = None
        if n_estimators == "auto":
            cv_results, folds_of_rounds = self._find_rounds(dataset, previous)
            self._keep(folds_of_rounds, dataset)
            n_estimators = cv_results["n_estimators"]
        validation_set = None if validation is None else validation.named("val")
        if (
            validation_set is not None
            and not own_val
            and calibrated_of(params, booster.link)
            and calibration.too_few(validation_set)
        ):
            validation_set = None
        booster.lay_out(dataset, divided.threads_of(params.n_jobs, workers), previous)
        leaves_rows_out = self._leaves_rows_out(dataset, validation_set, previous)
        kept = (
            dataset if params.calibrate and validation_set is None and not leaves_rows_out else None
        )
        has_temperature = params.calibrate and not booster.multilabel and not leaves_rows_out
        folds = calibration.check_rows(draft, dataset, validation_set) if has_temperature else None
        trainer_options = {
            "previous": previous,
            "validation": validation,
            "make_model": partial(_model, meta, self.classes),
        }
        trainer_options["calibrates"] = leaves_rows_out
        del dataset, plan  # frees the bins, so that the weights have room
        trainer = Trainer(booster, n_estimators, **trainer_options)
        self.state = trainer.state
        self.auto_values = booster.auto_values()
        self.state.cv_results = cv_results
        self.state.folds_follow = kept is not None
        callbacks = [*self._own_callbacks(validation), *self.callbacks]
        self.begun = []  # from here on, the loop closes the callbacks
        trainer.run(callbacks)
        self.shares = calibration.shares(self.state, booster.data, workers)
        if leaves_rows_out:
            left_out = booster.left_out_scores()
            self.temperature = calibration.temperature_of_left_out(
                left_out, booster.data, booster.link
            )
        booster.release()
        # After the rounds, so that Ctrl-C here leaves a complete model without calibration.
        if params.calibrate and not leaves_rows_out:
            self._calibrate(kept, validation_set, folds, folds_of_rounds, initial)
        divided.check_models(workers, booster.name, self._whole_model)
        workers.check()

    def _calibrate(self, kept, validation_set, folds, folds_of_rounds, initial):
        """Compute the temperature of the model, or the thresholds of its labels, from folds or from validation rows."""
        draft = self.draft
        booster = self.booster
        several = self.booster.multilabel
        if kept is None and several:
            self.thresholds = thresholds.of_rows(self.state.model(), validation_set)
            return
        if kept is None:
            self.temperature = calibration.temperature_of_rows(self.state.model(), validation_set)
            return
        # Exactly as many rounds as the model has: if it ended by itself, models of fewer rows could continue for
        # long.
        rounds = self.state.n_rounds
        seed = booster.draw_seed()
        if several:
            self.thresholds, scores = thresholds.of_folds(
                draft, kept, seed, rounds=rounds, folds=folds_of_rounds, previous=initial
            )
            self._keep(scores, kept)
            return
        self.temperature, scores = calibration.temperature_of_folds(
            draft, kept, seed, rounds=rounds, folds=folds_of_rounds, parts=folds, previous=initial
        )
        self._keep(scores, kept)

    def _keep(self, folds_of_rounds, dataset):
        """Keep the out-of-fold scores, if there are any, and the fold of every row that the user gave."""
        if folds_of_rounds is not None:
            rows = slice(None) if dataset.subset is None else dataset.subset
            self.out_of_fold = folds_of_rounds.scores[rows], folds_of_rounds.fold[rows]

    def _warn_of_idle(self):
        """Warn if `n_iter_no_change` is set but has no effect."""
        p = self.params
        usual = next(
            field.default for field in fields(self.draft) if field.name == "n_iter_no_change"
        )
        if p.n_iter_no_change != usual and not p.early_stopping and p.n_estimators != "auto":
            warn(
                f"n_iter_no_change={p.n_iter_no_change} has no effect without early stopping; "
                "set early_stopping=True"
            )

    def rounds_done(self):
        """Rounds done so far, without those that a warm start or a given model started with."""
        state = self.state
        return 0 if state is None else state.n_rounds - (0 if state.resumed else state.begun_with)

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
        draft._sets = (
            []
            if state.validation is None
            else [validation_set.name for validation_set in state.validation.sets]
        )
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
        given_values = values_of(self.draft)
        return {
            name: value
            for name, value in values.items()
            if isinstance(given_values[name], str) and given_values[name] == "auto"
        }

    def _whole_model(self):
        """The model of the rounds, with temperature, thresholds, class shares and priors applied."""
        model = self.state.model()
        if self.temperature is not None:
            model = model.with_temperature(self.temperature)
        thresholds = self.booster.threshold if self.thresholds is None else self.thresholds
        if thresholds is not None:
            model = model.with_thresholds(thresholds)
        if self.shares is not None and not model.ensemble.bias.any():
            model = calibration.with_shares(model, self.shares)
        return model if self.priors is None else model.reweighted(self.priors)

    def _own_callbacks(self, validation):
        callbacks = [WarnOfNothingToAdd()]
        params = self.params
        if validation is not None:
            metrics = metrics_by(
                params.scoring,
                self.classes,
                self.booster.probabilities,
                loss=self.booster.loss_value,
            )
            for validation_set in validation.sets:
                for metric in metrics:
                    metric.check(validation_set)
            also = calibrated_of(params, self.booster.link) if params.early_stopping else []
            self._refuse_equal_curves(validation, metrics, also)
            callbacks.append(ValidationCurves(*metrics))
            if params.early_stopping:
                callbacks += [
                    CalibratedCurve(metric_of_calibrated) for metric_of_calibrated in also
                ]
                callbacks.append(
                    EarlyStopping(metrics[0], params.n_iter_no_change, params.min_delta, also)
                )
        if params.verbose and self.workers.rank == 0:
            callbacks.append(
                Progress(type(self.draft).__name__, params.verbose, params.early_stopping)
            )
        return callbacks

    def _refuse_equal_curves(self, validation, metrics, also):
        """Refuse names of validation sets and metrics that would give two curves of the history the same name."""
        taken = [*self.booster.columns, *(f"val_{metric.name}" for metric in also)]
        for validation_set in validation.sets:
            for metric in metrics:
                column = f"{validation_set.name}_{metric.name}"
                if column in taken:
                    raise ValueError(
                        f"the metric {metric.name!r} of the validation set {validation_set.name!r} would "
                        f"be {column!r} in the history, where another curve has this name; "
                        "rename the set in validation_sets, or give scoring as a dict with "
                        "another name for the metric"
                    )
                taken.append(column)

    def _leaves_rows_out(self, dataset, validation_set, previous):
        """Whether to compute the temperature from rows that trees leave out.

        Not with groups or a given splitter, because rows may then depend on each other.
        """
        booster = self.booster
        params = self.params
        folds = (
            dataset.groups is not None
            or not isinstance(params.cv, Integral)
            or self.draft.n_estimators == "auto"
        )
        if (
            not params.calibrate
            or not booster.leaves_rows_out
            or validation_set is not None
            or folds
        ):
            return False
        # The existing rounds are evaluated again, which needs the random draws that they were trained with.
        same_draws = (
            previous is None
            or previous.best_gain is not None
            or isinstance(params.random_state, Integral)
        )
        return same_draws and (previous is None or previous.source != "init_model")

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
            rows, set_aside = self._set_aside(dataset)
            validation_sets.insert(0, set_aside)
            dataset = dataset.without(rows)
        return dataset, Validation(validation_sets, dataset.n_classes) if validation_sets else None

    def _set_aside(self, dataset):
        """Hold out rows for early stopping. Return the rows of this worker, and the validation set of all workers."""
        params = self.params
        workers = self.workers
        codes = dataset.codes
        random_state = _random_state(params.random_state, self.callbacks)
        n_classes = int(workers.maximum(np.array([codes.max(initial=0)], dtype=np.int64))[0]) + 1
        few = bool(calibrated_of(params, self.booster.link))
        share = share_held(
            params.validation_fraction, n_weighted(workers, dataset.weight), n_classes, few
        )
        self.share_held = share
        if workers is ALONE:
            rows = held_out(codes, dataset.weight, share, random_state, dataset.groups)
            parts = dataset.X[rows], dataset.y(rows), codes[rows], dataset.weight[rows]
            first = dataset.first_scores(rows)
        else:
            number = row_numbers(workers, dataset.n_rows)
            seed = workers.broadcast(int(check_random_state(random_state).randint(2**31)))
            rows = divided.held_out(
                workers, codes, dataset.weight, fraction=share, number=number, seed=seed
            )
            X_held = dataset.X[rows] if hasattr(dataset.X, "tocsc") else np.asarray(dataset.X[rows])
            parts = X_held, dataset.y(rows), codes[rows], dataset.weight[rows]
            if dataset.init_score is None:
                parts = divided.drawn_set(workers, parts, number[rows])
                first = None
            else:
                *parts, first = divided.drawn_set(
                    workers, (*parts, dataset.first_scores(rows)), number[rows]
                )
        X_held, *labels_and_weights = parts
        X_held = X_held.tocsc() if hasattr(X_held, "tocsc") else X_held
        return rows, ValidationSet.of(
            "val", X_held, *labels_and_weights, dataset.given_to(params.scoring, rows), first
        )

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
    return (
        random_state
        if random_state is not None
        else next((callback.seed for callback in callbacks if callback.seed is not None), None)
    )


def _model(meta, classes, booster, n_rounds, further_meta):
    return booster.model(labels_of_file(classes), {**meta, **further_meta})
