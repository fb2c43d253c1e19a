"""One call of ``fit``: what the user gives is checked, the rounds are done, the estimator gets its attributes."""

import contextlib
from dataclasses import fields
from functools import partial

import numpy as np

from pymcboost._text import column_of
from pymcboost._warn import warn
from pymcboost.comm import ALONE, row_numbers
from pymcboost.data.mapped import rows_of
from pymcboost.data.merging import warn_of_merged_values
from pymcboost.model.categories import find as find_categories
from pymcboost.model.categories import is_frame
from pymcboost.model.columns import names_of
from pymcboost.model.rows import listed
from pymcboost.threads import counted, threads_for
from pymcboost.training import basis, calibration, continuing, divided, thresholds
from pymcboost.training.callbacks import (
    CalibratedCurve,
    EarlyStopping,
    Progress,
    ValidationCurves,
    WarnOfNothingToAdd,
)
from pymcboost.training.divided_folds import n_weighted
from pymcboost.training.folds import groups_given, out_of_fold, refuse_mixed
from pymcboost.training.inputs import (
    Inputs,
    Validation,
    check_class_weight,
    check_file,
    encoded,
    held_out,
    held_set,
    labels_of_file,
    refuse_categories,
    rows_given,
    share_held,
    validated,
)
from pymcboost.training.labels import check_order, labels_given, labels_of_all, refuse_labels
from pymcboost.training.loop import TrainingState, as_column, train
from pymcboost.training.meta import defaults_of, meta_of
from pymcboost.training.metrics import Held, Metric, calibrated_of


class Training:
    """One call of fit, from what the user gives to the attributes of the fitted estimator."""

    def __init__(self, draft, callbacks, workers):
        self.draft, self.callbacks, self.state, self.temperature = draft, callbacks, None, None
        self.thresholds, self.shares, self.workers, self.begun = None, None, workers, []
        # Nothing that the training holds refers back to it: its rows go as soon as it ends.
        seed = partial(_random_state, draft.random_state, self.callbacks)
        share = self.workers.broadcast
        self.booster = draft._booster(lambda: share(int(basis.check_random_state(seed()).randint(2**31))))
        self.booster.workers = self.workers
        self.params = self.booster.params

    def run(self, *given):
        """Check, prepare, and do all rounds. Callbacks are closed also where there is an error before the first one."""
        try:
            self._run(*given)
        except BaseException:
            for callback in self.begun:
                with contextlib.suppress(Exception):  # the error that ended the training is the one to tell
                    callback.close(self.state)
            raise

    def _run(self, X, y, sample_weight, sets, groups, init_model):
        draft, params, booster, workers = self.draft, self.params, self.booster, self.workers
        initial = None if init_model is None else continuing.previous_of(init_model, draft)
        divided.check_alike(workers, booster, meta_of(draft)["params"], self.callbacks, initial)
        booster.check()
        sets = divided.whole_sets(workers, sets)
        divided.refuse(booster, workers, sets, groups, warm_start=params.warm_start)
        refuse_mixed(params, groups, "val" in sets)
        self._warn_of_idle()
        if initial is not None:
            params.n_estimators += initial.n_rounds
            booster.goes_on = True
        for callback in self.callbacks:
            callback.begin(booster)
            self.begun.append(callback)
        continued = params.warm_start and hasattr(draft, "model_")
        inputs = self._inputs(X, y, sample_weight, sets, groups, continued, initial)
        own_val = "val" in sets
        del X, y, sample_weight, sets, groups, init_model
        self.classes, self.priors = inputs.classes, calibration.priors(draft, inputs)
        check_file(self.classes, inputs.meta)
        inputs.workers = workers
        previous = self._previous(inputs, initial)
        cv_results, found = self._find_rounds(inputs, previous) if params.n_estimators == "auto" else (None, None)
        held = None if inputs.validation is None else inputs.validation.named("val")
        if held is not None and not own_val and calibrated_of(params, booster.link) and calibration.too_few(held):
            held = None
        kept = inputs if params.calibrate and held is None else None
        alone = params.calibrate and not booster.multilabel
        folds = calibration.check_rows(draft, inputs, held) if alone else None
        choice = self._choice(kept, folds, previous)
        n_held = 0 if inputs.validation is None else inputs.validation.X.shape[0]
        n_threads = threads_for(inputs.X.shape[0] * inputs.X.shape[1], divided.threads_of(params.n_jobs, workers))
        booster.categories = inputs.categories
        booster.feature_names = inputs.meta.get("feature_names")
        data = booster.rows(inputs.X, inputs.codes, len(self.classes), inputs.weight, n_threads, previous)
        validation, make_model = inputs.validation, partial(_model, inputs.meta, self.classes)
        del inputs  # the training data have what they need of it
        n_threads = threads_for(data.n_entries * data.n_blocks, n_threads)
        booster.start(data, self.classes, n_threads, previous, n_held)
        history = {} if previous is None else {name: list(values) for name, values in previous.history.items()}
        best_gain = None if previous is None else previous.best_gain
        self.state = TrainingState(booster, params.n_estimators, make_model, history, validation, best_gain)
        self.state.cv_results, self.state.folds_follow = cv_results, kept is not None
        callbacks = [*self._own_callbacks(validation), *self.callbacks]
        self.begun = []  # which the loop closes
        train(self.state, callbacks)
        self.shares = calibration.shares(self.state, data, workers)
        booster.release()
        # After the rounds: Ctrl-C here leaves a whole model, which is not calibrated.
        if params.calibrate:
            self._calibrate(kept, held, folds, choice, found, initial)
        divided.check_models(workers, booster.name, self._whole_model)
        workers.check()

    def _calibrate(self, kept, held, folds, choice, found, initial):
        """The temperature of the model, or the thresholds of its labels, of folds of the rows kept or of those held."""
        draft, booster, several = self.draft, self.booster, self.booster.multilabel
        if kept is None and several:
            self.thresholds = thresholds.of_rows(self.state.model(), held)
            return
        if kept is None:
            self.temperature = calibration.temperature_of_rows(self.state.model(), held)
            return
        # As many as the model has: where it ended by itself, models of fewer rows may go on for long.
        rounds = self.state.n_rounds
        seed = booster.draw_seed() if choice.seed is None else choice.seed
        if several:
            self.thresholds = thresholds.of_folds(draft, kept, seed, rounds, found, initial)
            return
        known = found, folds, initial, choice.held if rounds == calibration.COMPARED else None
        one = calibration.with_values(draft, booster.decided)
        self.temperature = calibration.temperature_of_folds(one, kept, seed, rounds, *known)

    def _warn_of_idle(self):
        """Say that a patience which was set has no effect."""
        p = self.params
        usual = next(field.default for field in fields(self.draft) if field.name == "n_iter_no_change")
        if p.n_iter_no_change != usual and not p.early_stopping and p.n_estimators != "auto":
            warn(f"n_iter_no_change={p.n_iter_no_change} has no effect without early stopping; set early_stopping=True")

    def rounds_done(self):
        """Rounds done so far, without those that a warm start or a model that is given began with."""
        state = self.state
        return 0 if state is None else state.n_rounds - (0 if state.resumed else state.begun_with)

    def finish(self):
        """Give the draft the attributes of a fitted estimator."""
        state, draft = self.state, self.draft
        draft.classes_, draft.n_estimators_, draft.gain_ = self.classes, state.n_rounds, state.gain
        draft.history_ = {name: as_column(values) for name, values in state.history.items()}
        draft.model_ = self._whole_model()
        draft._ended, draft._kept, draft._left = state.ended, self.booster.kept(), continuing.left_by(draft.model_)
        draft._metric = column_of(self.params.scoring)
        draft._sets = [] if state.validation is None else [held.name for held in state.validation.sets]
        vars(draft).pop("cv_results_", None)
        if state.cv_results is not None:
            draft.cv_results_ = state.cv_results

    def _whole_model(self):
        """The model of the rounds, with what followed them: temperature, thresholds, shares of classes, priors."""
        model = self.state.model()
        if self.temperature is not None:
            model = model.with_temperature(self.temperature)
        given = self.booster.threshold if self.thresholds is None else self.thresholds
        if given is not None:
            model = model.with_thresholds(given)
        if self.shares is not None and not model.ensemble.bias.any():
            model = calibration.with_shares(model, self.shares)
        return model if self.priors is None else model.reweighted(self.priors)

    def _own_callbacks(self, validation):
        found, params = [WarnOfNothingToAdd()], self.params
        if validation is not None:
            metric = Metric(params.scoring, self.classes, self.booster.probabilities, self.booster.loss_value)
            for held in validation.sets:
                metric.check(held)
            found.append(ValidationCurves(metric))
            if params.early_stopping:
                also = calibrated_of(params, self.booster.link)
                if also and validation.named("val_calibrated") is not None:
                    raise ValueError(
                        "validation_sets has a set 'val_calibrated', whose curve has the name of early stopping's; "
                        "rename it"
                    )
                found += [CalibratedCurve(one) for one in also]
                found.append(EarlyStopping(metric, params.n_iter_no_change, params.min_delta, also))
        if params.verbose and self.workers.rank == 0:
            found.append(Progress(type(self.draft).__name__, params.verbose, params.early_stopping))
        return found

    def _choice(self, inputs, folds, previous):
        """What folds choose of parameters that are "auto", where the calibration needs these folds anyway."""
        booster, params = self.booster, self.params
        first = inputs is not None and previous is None and params.n_estimators >= calibration.COMPARED
        found = params.early_stopping or self.draft.n_estimators == "auto" or booster.multilabel
        if not booster.undecided or not first or found:
            return calibration.Choice()
        choice = calibration.choose(self.draft, inputs, booster.undecided, booster.draw_seed(), folds)
        booster.decide(choice.values)
        return choice

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
        draft, params, workers = self.draft, self.params, self.workers
        allow_nan, name = self.booster.allows_missing, type(self.draft).__name__
        came, known = X, draft.model_ if continued else None if initial is None else initial.model
        X, y, sample_weight, head = rows_given(self.booster, X, y, sample_weight)
        wanted = getattr(params, "categorical_features", None)
        if not hasattr(params, "categorical_features"):
            refuse_categories(name, X)
        categories = known.categories if known else find_categories(wanted, X, workers.size > 1)
        categories = categories if known else divided.categories_of(workers, name, categories)
        if initial is not None and is_frame(X):
            continuing.check_columns(X, X, known)
        X = categories.encoded(X) if categories is not None and not continued else encoded(draft, categories, X)
        given = X if head is None else head
        how = {"accept_sparse": "csr", "allow_nan": allow_nan, "reset": not continued, "head": head}
        how |= {"ensure_min_samples": 0} if workers.size > 1 else {}  # a worker may have no rows
        if self.booster.takes_labels(y := listed(y)):
            X = validated(draft, X, **how)
            labels = labels_of_all(workers, y)
            classes, codes = labels_given(y, X.shape[0], labels if initial is None else initial.classes)
            y = codes.astype(int)
        else:
            refuse_labels(name, y)
            X, y = validated(draft, X, y, **how)
            if len(y):
                check_order(y)
                basis.check_classification_targets(y)
            classes, codes = divided.classes_of(workers, y)
        divided.check_columns(workers, self.booster, X, getattr(draft, "feature_names_in_", None), codes.shape[1:])
        if initial is not None:
            continuing.check_columns(X, given, known)
        X = X if categories is None or not known else categories.bounded(X)
        weight = divided.sample_weights(workers, sample_weight, X)
        if continued and not np.array_equal(classes, draft.classes_):
            raise ValueError(
                f"warm_start: y has the classes {classes!r}, the model so far has {draft.classes_!r}; "
                "continue with the same classes, or set warm_start=False"
            )
        if initial is not None and codes.ndim == 1:
            classes, codes = continuing.codes_in(initial, classes, codes)
            y = classes[codes]
        check_class_weight(type(draft), getattr(params, "class_weight", None))
        class_weight = divided.class_weights(workers, params, classes, codes, weight)
        weight = weight * class_weight[codes] if codes.ndim == 1 else weight
        divided.check_all_classes(workers, type(draft), classes, codes, weight)
        was_rounded = X.dtype == np.float32 and head is None and hasattr(given, "__getitem__")
        warn_of_merged_values(given if was_rounded else X, names_of(given))
        inputs = Inputs(
            X, classes, codes, weight, class_weight, None, meta_of(draft, known), params.n_estimators, continued,
            groups_given(groups, X.shape[0], params), categories,
            given=came if head is None and workers is ALONE and not _same_rows(came, X, categories) else None,
            defaults=defaults_of(draft),
        )  # fmt: skip
        found = [held_set(draft, name, *parts, inputs, allow_nan) for name, parts in sets.items()]
        if params.early_stopping and "val" not in sets:
            rows, held = self._held_out(X, y, codes, weight, inputs.groups)
            found.insert(0, Held.of("val", *held, inputs.given_to(params.scoring, rows)))
            inputs.weight = weight.copy()
            inputs.weight[rows] = 0
        if found:
            inputs.validation = Validation(found, len(classes))
        return inputs

    def _held_out(self, X, y, codes, weight, groups):
        """Rows here that are set aside for early stopping; X, y, codes and weights of those of all workers."""
        params, workers = self.params, self.workers
        random_state = _random_state(params.random_state, self.callbacks)
        n_classes = int(workers.maximum(np.array([codes.max(initial=0)], dtype=np.int64))[0]) + 1
        few = bool(calibrated_of(params, self.booster.link))
        share = share_held(params.validation_fraction, n_weighted(workers, weight), n_classes, few)
        if workers is ALONE:
            rows = held_out(codes, weight, share, random_state, groups)
            X_held = X[rows].tocsc() if hasattr(X, "tocsc") else rows_of(X, rows)
            return rows, (X_held, y[rows], codes[rows], weight[rows])
        number = row_numbers(workers, X.shape[0])
        seed = workers.broadcast(int(basis.check_random_state(random_state).randint(2**31)))
        rows = divided.held_out(workers, codes, weight, share, number, seed)
        X_held = X[rows] if hasattr(X, "tocsc") else np.asarray(X[rows])
        X_held, *rest = divided.drawn_set(workers, (X_held, y[rows], codes[rows], weight[rows]), number[rows])
        return rows, (X_held.tocsc() if hasattr(X_held, "tocsc") else X_held, *rest)

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
        if not inputs.continued or not draft.n_estimators_:
            return None
        if n_estimators < draft.n_estimators_:
            raise ValueError(
                f"warm_start: n_estimators={n_estimators} is less than the "
                f"{counted(draft.n_estimators_, 'round')} already fitted; raise it to add rounds"
            )
        return continuing.of_last_fit(draft)


def _random_state(given, callbacks):
    """The generator or seed to draw from: that of a checkpoint where none is given."""
    return given if given is not None else next((one.seed for one in callbacks if one.seed is not None), None)


def _same_rows(came, X, categories):
    """Whether the rows that came are those that the training has, number by number."""
    return type(came) is np.ndarray and came.dtype == X.dtype and categories is None


def _model(meta, classes, booster, n_rounds, more):
    return booster.model(labels_of_file(classes), {**meta, **more})
