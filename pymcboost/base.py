"""The scikit-learn contract and the one round loop that every algorithm shares."""

import inspect
import sys
import warnings
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from pymcboost import __version__
from pymcboost.data import TrainingData
from pymcboost.model.builders import EnsembleBuilder
from pymcboost.model.model import Model
from pymcboost.params import Param, param
from pymcboost.threads import counted, resolve_n_jobs
from pymcboost.tree_data import TreeData

# Below this many table updates per scan, starting threads costs more than they save.
SMALL_WORK = 1_000_000
# Parameters that do not change the model, and so are not written into it.
NOT_IN_MODEL = {"n_jobs", "verbose", "warm_start"}
TYPES = [np.float32, np.float64]


def named_arguments(fit):
    """Decorator of a ``fit`` that refuses unknown arguments itself; its signature hides that it catches them."""
    shown = inspect.signature(fit)
    known = [p for p in shown.parameters.values() if p.kind is not p.VAR_KEYWORD]
    fit.__signature__ = shown.replace(parameters=known)
    return fit


class BoostingClassifier(ClassifierMixin, BaseEstimator):
    """Base class: subclasses give ``algorithm``, ``_start``, ``_restart``, ``_round`` and ``_link``.

    ``_start(data, n_threads)`` prepares the training state; ``_restart(scores)`` rebuilds its weights from raw scores
    (m, K), or from zero scores when None; ``_round(builder)`` adds one round to the ensemble and returns a dictionary
    of what `history_` keeps of it, or None when there is nothing left to learn.
    """

    algorithm: str
    data_class: type = TrainingData
    # Whether the weak learners have a side for missing values.
    allows_missing = True
    # Whether the model is a linear or kernel machine, into which the rounds are merged.
    makes_machines = False
    # What ends a training before its last round.
    ends_when = "no weak learner has an edge any more"
    # In words, why the last training ended before its last round; None where it did not.
    _ended: str | None = None
    # A `Checkpoint` while it fits the estimator.
    _checkpoint = None
    # Rounds after which the state is rebuilt from the scores; None where it does not drift.
    restart_every: int | None = None
    # Parameters that have other values here than `PARAMS` says.
    own_params: dict[str, Param] = {}

    # -- fitting ---------------------------------------------------------------------------------------------------

    @named_arguments
    def fit(self, X, y, sample_weight=None, X_val=None, y_val=None, **unknown):
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training features, rounded to float32 once. NaN is a missing value; infinities are refused.
        y : array-like of shape (n_samples,)
            Class labels, integers or strings.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. Rows of weight 0 are left out altogether.
        X_val, y_val : array-like, default=None
            Validation set for early stopping, in place of a part split off from the training rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a parameter out of range, fewer than two classes, infinite features or negative weights.
        MemoryError
            Where the training would need more memory than is free; said before any of it is taken.
        KeyboardInterrupt
            After Ctrl-C; the rounds done until then are kept in the estimator.
        """
        self._refuse_arguments(unknown)
        kept = self.__dict__.copy()
        try:
            self._fit(X, y, sample_weight, X_val, y_val)
        except Exception:
            # A fit that failed leaves the estimator, and the model it may have had, as they were.
            self.__dict__.clear()
            self.__dict__.update(kept)
            raise
        return self

    def _fit(self, X, y, sample_weight, X_val, y_val):
        self._check_params()
        continued = self.warm_start and hasattr(self, "model_")
        before = self.classes_ if continued else None
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=TYPES, ensure_all_finite=self._finite(), reset=not continued
        )
        _check_sparse(X)
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        classes, codes = np.unique(y, return_inverse=True)
        if continued and not np.array_equal(classes, before):
            raise ValueError(
                f"warm_start: y has the classes {classes!r}, the model so far has {before!r}; "
                "continue with the same classes, or set warm_start=False"
            )
        if self.class_weight is not None:
            self._check_class_weight()
            weight = weight * compute_sample_weight(self.class_weight, y)
        present = np.unique(codes[weight > 0])
        if len(present) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least 2 classes with positive weight; "
                f"the data has {len(present)} class{'' if len(present) == 1 else 'es'}"
            )
        X, codes, weight, validation = self._split_validation(X, codes, weight, classes, X_val, y_val)
        best_gain = None
        if self._checkpoint is not None:
            saved = self._checkpoint.begin(self, X, classes, codes, weight, validation)
            if saved is not None:
                continued = True
                self.model_, self.history_, self.gain_, best_gain = saved
                self.n_estimators_ = self._checkpoint.resumed
        n_threads = resolve_n_jobs(self.n_jobs)
        if X.shape[0] * X.shape[1] < SMALL_WORK:
            n_threads = 1
        data = self._make_data(X, codes, len(classes), weight, n_threads)
        del y, codes, weight  # the training data have what they need of them
        if data.n_entries * data.n_blocks < SMALL_WORK:
            n_threads = 1
        if continued:
            if self.n_estimators < self.n_estimators_:
                raise ValueError(
                    f"warm_start: n_estimators={self.n_estimators} is less than the "
                    f"{counted(self.n_estimators_, 'round')} already fitted; raise it to add rounds"
                )
            self._check_kept()
            builder, scores = self._continue(data)
            history = {name: list(values) for name, values in self.history_.items()}
            self.gain_ = self.gain_.copy()  # the old one is what is left should this training fail
        else:
            builder = self._new_builder_for(data)
            scores = None
            history = {}
            self.n_estimators_ = 0
            self.gain_ = np.zeros(data.n_features)
        self.classes_ = classes
        self._seed = int(check_random_state(self._random_state()).randint(2**31))
        try:
            self._start(data, n_threads)
            self._restart(scores)
            self._loop(data, builder, history, validation, best_gain)
        except KeyboardInterrupt:  # the rounds done are a usable model
            self._freeze(builder, history)
            raise
        finally:
            self._stop()
        self._freeze(builder, history)
        if not self.n_estimators_:
            warnings.warn(self._why_constant(), stacklevel=3)

    def _refuse_arguments(self, unknown):
        """Refuse what `fit` does not take, by the name of the class that the user called."""
        for name in unknown:
            if name == "eval_set":
                hint = "; give the validation set as X_val, y_val"
            elif name == "sample_weight":
                hint = ": the algorithm has no sample weights"
            else:
                hint = ""
            raise TypeError(f"{type(self).__name__}.fit() got an unexpected keyword argument {name!r}{hint}")

    def _why_constant(self):
        """What to say of a model without rounds."""
        return (
            "no weak learner separates the classes at all: the model is constant. Are all features constant or "
            "missing, or is a bound on the weak learners out of proportion?"
        )

    def _why_ended(self):
        """Why there is no further round, in words."""
        return self.ends_when

    def _check_params(self):
        for name, value in self.get_params(deep=False).items():
            row = param(type(self), name)
            if row is None:
                continue
            if name == "random_state" and isinstance(value, np.random.RandomState):
                continue
            if not row.allows(value):
                raise ValueError(f"{type(self).__name__}: {name}={value!r} is not allowed; it must be {row.describe()}")

    def _check_class_weight(self):
        if isinstance(self.class_weight, dict):
            for label, value in self.class_weight.items():
                if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= value < np.inf:
                    raise ValueError(
                        f"{type(self).__name__}: class_weight[{label!r}]={value!r} is not allowed; "
                        "it must be a finite number >= 0"
                    )

    def _split_validation(self, X, codes, weight, classes, X_val, y_val):
        if X_val is not None or y_val is not None:
            if X_val is None or y_val is None:
                raise ValueError("X_val and y_val go together: give both, or neither")
            X_val, y_val = validate_data(
                self, X_val, y_val, accept_sparse="csc", dtype=TYPES, ensure_all_finite=self._finite(), reset=False
            )
            _check_sparse(X_val)
            return X, codes, weight, _Validation(X_val, _encode(y_val, classes), len(classes), self._scores_of)
        if not self.early_stopping:
            return X, codes, weight, None
        used = np.flatnonzero(weight > 0)
        counts = np.bincount(codes[used], minlength=len(classes))
        lone = counts[codes[used]] == 1  # a class of one row stays in the training part
        try:
            train, held_out = train_test_split(
                used[~lone],
                test_size=self.validation_fraction,
                stratify=codes[used[~lone]],
                random_state=self._random_state(),
            )
        except ValueError as error:
            raise ValueError(
                f"early_stopping: cannot set aside validation_fraction={self.validation_fraction} of "
                f"{counted(len(used), 'row')} with rows of every class; raise it, give X_val and y_val, or set "
                "early_stopping=False"
            ) from error
        train = np.concatenate((train, used[lone]))
        held_X = X[held_out]
        held_X = held_X.tocsc() if hasattr(held_X, "tocsc") else held_X
        validation = _Validation(held_X, codes[held_out], len(classes), self._scores_of)
        kept = np.zeros_like(weight)
        kept[train] = weight[train]
        return X, codes, kept, validation

    def _random_state(self):
        if self.random_state is None and self._checkpoint is not None:
            return self._checkpoint.seed
        return self.random_state

    def _continue(self, data):
        builder = self._new_builder(data.n_classes, data.n_features)
        builder.extend(self.model_.ensemble)
        return builder, self._scores(builder, data)

    def _scores(self, builder, data):
        """Scores of the training rows, of the classes or of the columns of a code: (m, K) or (m, P)."""
        learners = builder.freeze()
        if getattr(learners, "code", None) is not None:
            learners = learners.columns()
        return Model.from_ensemble(learners, np.arange(learners.n_classes)).raw_scores(data.X)[data.rows]

    def _check_kept(self):
        """Refuse to add to a model what is made of other weak learners, or for another loss."""
        was = self.model_.meta.get("params", {})
        for name in ("weak_learner", "loss", "code", "decoder"):
            if name in was and was[name] != getattr(self, name):
                raise ValueError(
                    f"warm_start: the model so far has {name}={was[name]!r}, now it is {getattr(self, name)!r}; "
                    "keep to it, or begin anew"
                )

    def _loop(self, data, builder, history, validation, best_gain):
        """All rounds; ``best_gain`` is that of the best round so far where a checkpoint is continued, else None."""
        done = self.n_estimators_
        self._ended = None
        resumed = best_gain is not None
        best_error, best_round = np.inf, done
        if validation is not None:
            errors = history.setdefault("val_error", [])
            errors += [np.nan] * (done - len(errors))
            validation.add_rounds(builder)
            if resumed:
                best_round = int(np.argmin(errors)) + 1
                best_error = errors[best_round - 1]
            elif done:
                best_error = validation.error()
        gain = self.gain_.copy()
        if not resumed:
            best_gain = gain
        if self.n_estimators == done and not resumed:
            warnings.warn(f"warm_start: the model already has n_estimators={done} rounds; nothing to add", stacklevel=3)
        watched = self.early_stopping and validation is not None
        try:
            for t in _progress(range(done, self.n_estimators), self.verbose, type(self).__name__):
                if watched and t - best_round >= self.n_iter_no_change:
                    patience = counted(self.n_iter_no_change, "round")
                    self._ended = f"the validation error did not improve in {patience} more"
                    break
                if self.restart_every and t > done and t % self.restart_every == 0:
                    self._restart(self._scores(builder, data))
                learners = len(builder)
                found = self._round(builder)
                if found is None:
                    self._ended = self._why_ended()
                    break
                for name, value in found.items():
                    history.setdefault(name, []).append(value)
                error = np.inf
                if validation is not None:
                    self._validate_round(validation, builder, learners)
                    error = validation.error()
                    history["val_error"].append(error)
                best = None
                if watched and self._checkpoint is not None and error < best_error:
                    best = self._bytes_of_best(builder)
                gain, self.n_estimators_ = self.gain_.copy(), t + 1
                if error < best_error:
                    best_error, best_round, best_gain = error, t + 1, gain
                    if self._checkpoint is not None:
                        self._checkpoint.best = best
                if self._checkpoint is not None:
                    self._checkpoint.after_round(
                        self, lambda more: self._model(builder, {**self._meta(), **more}), history, gain, best_gain
                    )
        except KeyboardInterrupt:  # a round is in the model in full or not at all
            _cut(builder, history, self.n_estimators_)
            self.gain_ = gain
            raise
        if watched and best_round < self.n_estimators_:
            _cut(builder, history, best_round)
            self.n_estimators_, self.gain_ = best_round, best_gain
            self._ended = self._ended or "the validation error was least after these"

    def _scores_of(self, learners, X):
        """Raw scores of an ensemble or machine: (m, K)."""
        return Model.from_ensemble(learners, np.arange(len(learners.bias))).raw_scores(X)

    def _validate_round(self, validation, builder, learners):
        """Bring the scores of the validation rows up to date; the round's learners begin at number ``learners``."""
        validation.add(builder.tail(learners))

    def _bytes_of_best(self, builder):
        """The model of the round just ended, where cutting a later one would not give it; else None."""
        return None

    def _freeze(self, builder, history):
        self.history_ = {name: np.asarray(values) for name, values in history.items()}
        self.model_ = self._model(builder, self._meta())

    def _meta(self):
        """What the model file says about its training."""
        meta = {
            "algorithm": self.algorithm,
            "params": {name: _plain(v) for name, v in self.get_params(deep=False).items() if name not in NOT_IN_MODEL},
            "version": __version__,
        }
        if hasattr(self, "feature_names_in_"):
            meta["feature_names"] = [str(name) for name in self.feature_names_in_]
        return meta

    def _model(self, builder, meta):
        """The rounds so far as a model."""
        return Model.from_ensemble(builder.freeze(), _labels(self.classes_), link=self._link(), meta=meta)

    @property
    def grows_trees(self):
        """Whether the weak learners are trees rather than stumps."""
        return issubclass(self._training_data(), TreeData)

    def _finite(self):
        return "allow-nan" if self.allows_missing else True

    def _make_data(self, X, codes, n_classes, weight, n_threads):
        """The training data of rows with positive weight."""
        least = getattr(self, "min_weight_fraction_leaf", 0.0)
        return self._training_data()(
            X, codes, n_classes, weight, max_bins=self.max_bins, min_weight_fraction_leaf=least, n_threads=n_threads
        )

    def _new_builder_for(self, data):
        return self._new_builder(data.n_classes, data.n_features)

    def _training_data(self):
        """The form of the training data that the weak learners need."""
        return self.data_class

    def _new_builder(self, n_classes, n_features):
        return EnsembleBuilder(n_classes, n_features)

    def _start(self, data, n_threads):
        raise NotImplementedError

    def _restart(self, scores):
        raise NotImplementedError

    def _round(self, builder):
        raise NotImplementedError

    def _stop(self):
        """Let go of the training state."""
        self.__dict__.pop("_state", None)

    def _link(self):
        raise NotImplementedError

    # -- prediction ------------------------------------------------------------------------------------------------

    def _check_X(self, X):
        check_is_fitted(self, "model_")
        return validate_data(self, X, accept_sparse="csr", dtype=TYPES, ensure_all_finite=self._finite(), reset=False)

    def decision_function(self, X):
        """Scores: (n_samples, n_classes), or (n_samples,) of class 1 minus class 0 when there are two classes."""
        X = self._check_X(X)
        return self.model_.decision_function(X, n_jobs=self.n_jobs)

    def predict(self, X):
        """Labels of the classes with the largest scores (the first one where they tie): (n_samples,)."""
        X = self._check_X(X)
        return self.classes_[self.model_.predict_codes(X, n_jobs=self.n_jobs)]

    def predict_proba(self, X):
        """Class probabilities by the loss's link, (n_samples, n_classes): not calibrated on held-out data."""
        X = self._check_X(X)
        return self.model_.predict_proba(X, n_jobs=self.n_jobs)

    def staged_decision_function(self, X):
        """Yield `decision_function` after every round; the last equals it bit for bit."""
        return self.model_.staged_decision_function(self._check_X(X))

    def staged_predict(self, X):
        """Yield `predict` after every round."""
        return (
            self.classes_[(scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)]
            for scores in self.staged_decision_function(X)
        )

    @property
    def feature_importances_(self):
        """Share of every feature in the model: (n_features,), summing to 1.

        Trees: of the gains of all splits (`gain_`). Stumps: of the absolute leaf values. What a saved model knows, the
        number of splits of trees, is ``model_.feature_importances()``.
        """
        check_is_fitted(self, "model_")
        total = self.gain_.sum()
        return self.gain_ / total if total > 0 else self.model_.feature_importances()

    def save(self, path, layout="list", leaves="float32"):
        """Write the model file that `load_model`, ``mcboost-predict`` and ``mcb.h`` read.

        Parameters
        ----------
        path : str or path-like
            A file that is there already is replaced, whatever it holds. The new one is written beside it first and
            then renamed: a failure leaves the old one whole. Its folder must exist.
        layout : {"list", "interval", "interval32"}, default="list"
            "interval" merges the stumps of each feature into a table: faster for single rows, scores equal within
            1e-12 of the sum of their parts. "interval32" rounds the table to float32: half the size, within 1e-7.
        leaves : {"float32", "float16"}, default="float32"
            "float16" halves the leaves of trees in size; their values keep 11 bits.
        """
        check_is_fitted(self, "model_")
        self.model_.save(path, layout=layout, leaves=None if leaves == "float32" else leaves)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


class _Validation:
    """Scores of the validation rows, kept up to date round by round."""

    def __init__(self, X, codes, n_classes, scores_of):
        self.X, self.codes, self._scores_of = X, codes, scores_of
        self.scores = np.zeros((X.shape[0], n_classes))
        self._columns = 0.0

    def add(self, learners):
        if hasattr(learners, "intercept"):  # a machine
            self.scores += self._scores_of(learners, self.X)
            return
        if not len(learners):
            return
        if getattr(learners, "decoder", "linear") != "linear":
            columns = learners.columns()
            model = Model.from_ensemble(columns, np.arange(columns.n_classes))
            self._columns += model.raw_scores(self.X)[:, : len(learners.code)]
            self.scores = Model.from_ensemble(learners, np.arange(learners.n_classes)).decode(self._columns)
            return
        if hasattr(learners, "rounds"):
            self.scores += self._scores_of(learners, self.X)
            return
        for feature, threshold, nan_left, right, left in learners.each():
            column = self.X[:, [feature]].toarray().ravel() if hasattr(self.X, "tocsc") else self.X[:, feature]
            column = column.astype(np.float32)
            goes_left = column <= threshold
            if nan_left:
                goes_left |= np.isnan(column)
            self.scores += np.where(goes_left[:, None], left, right)

    def add_rounds(self, builder):
        """All rounds of a builder, one by one: the same sums as while they were trained."""
        learners = builder.tail(0)
        if hasattr(learners, "intercept"):
            return self.add(builder.freeze())  # with what the rounds were added to
        if not hasattr(learners, "rounds"):
            return self.add(learners)
        for start in learners.rounds[:-1].tolist():
            self.add(builder.tail(start).truncate_rounds(1))

    def error(self):
        return float(np.mean(self.scores.argmax(axis=1) != self.codes))


def _cut(builder, history, rounds):
    builder.truncate_rounds(rounds)
    for values in history.values():
        del values[rounds:]


def _check_sparse(X):
    """Refuse a compressed sparse matrix whose index arrays lie outside it (SciPy's own operations would crash)."""
    if hasattr(X, "check_format"):
        try:
            X.check_format(full_check=True)
        except (ValueError, TypeError) as error:
            raise ValueError(f"X is not a valid {X.format.upper()} matrix: {error}") from None


def _encode(y, classes):
    """Class codes, -1 for labels that the training set does not have."""
    text = {kind in "OSU" for kind in (np.asarray(y).dtype.kind, classes.dtype.kind)}
    if len(text) > 1 or not np.isin(y, classes).any():
        raise ValueError(
            f"none of the labels in y_val occurs in y (y_val begins {list(y[:3])!r}, the classes are "
            f"{list(classes[:3])!r}...); both must name the classes in the same way"
        )
    at = np.searchsorted(classes, y).clip(0, len(classes) - 1)
    return np.where(classes[at] == y, at, -1)


def _labels(classes):
    """Labels as a model file holds them: integers or strings."""
    if classes.dtype.kind in "bf":
        return classes.astype(np.int64)
    return classes if classes.dtype.kind in "iuU" else np.array([str(label) for label in classes])


def _plain(value):
    """A value that JSON keeps."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Real):
        return value if isinstance(value, (int, float)) else float(value)
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return repr(type(value).__name__)


def _progress(rounds, verbose, name):
    if not verbose or not sys.stderr.isatty():
        return rounds
    from tqdm import tqdm

    return tqdm(rounds, desc=name, unit="round", file=sys.stderr, leave=False)
