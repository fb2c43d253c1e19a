"""What all estimators share: the training, and the attributes of the fitted estimator.

Nothing here needs scikit-learn; `scikit_learn` adds what makes these classes its estimators.
"""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymcboost._warn import warn
from pymcboost.comm import ALONE, as_workers, hearing, release
from pymcboost.model.model import Model
from pymcboost.training import calibration, prediction, refit
from pymcboost.training.booster import Booster
from pymcboost.training.callbacks import as_callbacks
from pymcboost.training.dataset import Dataset
from pymcboost.training.fitting import FitArguments, Training
from pymcboost.training.parameters import (
    ClassWeight,
    Folds,
    Parameter,
    Rounds,
    Scoring,
    Seed,
    checked,
    estimator,
    refuse_names,
    values_of,
)

if TYPE_CHECKING:  # so that type checkers see the bases of the public classes
    from pymcboost.training.scikit_learn import ScikitLearnClassifier as Base
else:
    Base = object

Features = Any  # arrays, data frames and sparse matrices, which have no common type
Fit = TypeVar("Fit", bound=Callable[..., Any])


def named_arguments(fit: Fit) -> Fit:
    """Decorate a ``fit`` that refuses unknown arguments itself: hide its catch-all argument from the signature."""
    shown = inspect.signature(fit)
    parameters = [p for p in shown.parameters.values() if p.kind is not p.VAR_KEYWORD]
    vars(fit)["__signature__"] = shown.replace(parameters=parameters)
    return fit


@estimator
class BoostingClassifier(
    calibration.CalibratesOnRows, refit.RefitsLeaves, prediction.Predicts, Base
):
    """Base class of all estimators. A subclass defines its ``algorithm``, its ``booster`` and the parameters."""

    algorithm: ClassVar[str]
    booster: ClassVar[type[Booster]]
    # Rows of the parameter table, and help texts, that differ in this class.
    own_parameters: ClassVar[dict[str, Parameter]] = {}
    own_help: ClassVar[dict[str, str]] = {}
    # Whether scikit-learn checks rows and labels. The command line checks them itself.
    checks_rows: ClassVar[bool] = False

    if TYPE_CHECKING:  # attributes of a fitted estimator
        classes_: ClassVar[NDArray[Any]]
        n_features_in_: ClassVar[int]
        feature_names_in_: ClassVar[NDArray[Any]]
        model_: ClassVar[Model]
        n_estimators_: ClassVar[int]
        gain_: ClassVar[NDArray[np.float64]]
        history_: ClassVar[dict[str, NDArray[Any]]]
        cv_results_: ClassVar[dict[str, Any]]
        auto_params_: ClassVar[dict[str, Any]]
        why_ended_: ClassVar[str]
        _kept: ClassVar[dict[str, Any]]
        oof_decision_function_: ClassVar[NDArray[np.float64]]
        oof_fold_: ClassVar[NDArray[np.int64]]

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

    def _fit(self, arguments, callbacks, unknown, comm=None):
        """Train on the `FitArguments`, and give the estimator its model. Warn if the model is constant."""
        from_dataset = isinstance(arguments.X, Dataset)
        workers = arguments.X._workers(comm) if from_dataset else as_workers(comm)
        with hearing(workers):
            training = self._train(workers, arguments, callbacks, unknown)
            if not from_dataset:  # a Dataset keeps its communicator for other fits
                release(workers, comm)
        if not training.booster.has_learnt():
            if training.state.stopped and not self.n_estimators_:
                warn("a callback ended the training before its first round: the model is constant")
            else:
                warn(training.booster.why_constant())
        return self

    def _train(self, workers, arguments, callbacks, unknown):
        """Run one training, and give the estimator its model."""
        training = None
        # If the training fails or is interrupted, the estimator and an earlier model stay unchanged.
        draft = object.__new__(type(self))
        vars(draft).update(vars(self))
        try:
            refuse_names(type(self), "fit", list(unknown))
            training = Training(draft, as_callbacks(callbacks), workers)
            training.run(arguments)
            training.finish()
        except BaseException as error:
            workers.fail(error)  # otherwise they would wait for this one
            interrupted = isinstance(error, KeyboardInterrupt)
            # The rounds so far are a usable model, but several workers may have stopped at different rounds.
            if interrupted and workers.size == 1 and training and training.rounds_done():
                training.state.roll_back()  # again: Ctrl-C may have come while rounds were taken back
                training.finish()
                self.__dict__ = vars(draft)
            raise
        self.__dict__ = vars(draft)
        return training

    def _booster(self, draw_seed=None, comm=ALONE):
        params = checked(type(self), values_of(self))
        return self.booster(params, draw_seed, type(self).__name__, comm)

    def layouts(self) -> tuple[str, ...]:
        """Return the file layouts that models with these parameters support; see `save`.

        Returns
        -------
        tuple of str
            Some of "list", "interval" and "packed".
        """
        return self._booster().layouts()


@estimator
class EnsembleClassifier(prediction.PredictsProbabilities, BoostingClassifier):
    """Base class of the estimators with weak learners: all except `HingeBoostOCClassifier`.

    Its methods are those of all estimators.
    """

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
        init_score: ArrayLike | None = None,
        init_score_val: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        init_model: Any = None,
        comm: Any = None,
        **unknown: Any,
    ) -> Self:
        """Fit the model to the training data.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or Dataset
            Training features, which are rounded to float32. NaN means missing. Infinite values raise an error. A
            `Dataset` holds rows that are already binned and that may have been read in blocks.
        y : array-like of shape (n_samples,) or (n_samples, n_labels), default=None
            Class labels: integers or strings. For multi-label data, an indicator matrix, dense or sparse, or a list
            with a tuple of labels for each row. Leave it out if X is a `Dataset`.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative sample weights. Rows with weight 0 are ignored completely.
        X_val, y_val : array-like, default=None
            Validation set for early stopping. Without it, early stopping sets aside a part of the training rows.
        callbacks : sequence of objects, default=()
            Objects with a method ``after_round(state)``. Training stops if it returns a true value. See
            `TrainingState`.
        sample_weight_val : array-like, default=None
            Sample weights of ``X_val``, used by the metric. Class weights are multiplied with them.
        validation_sets : dict of str to tuple, default=None
            Further validation sets by name: (X, y), (X, y, sample_weight) or (X, y, sample_weight, init_score). Their
            metrics are recorded in ``history_``; early stopping ignores them.
        init_score : array-like of shape (n_samples, n_classes) or (n_samples,), default=None
            Initial scores of the rows, to which the model adds its own. Columns are in the order of the classes. For
            two classes, one number per row is the score of class 1 minus that of class 0. They replace the initial
            scores of the loss, and are added to the scores of ``init_model`` or of a warm start. The model does not
            store them: pass the initial scores of other rows to `predict` and the other methods. Only for vector trees,
            class-wise trees and MCBoost.
        init_score_val : array-like, default=None
            Initial scores of ``X_val``. Required if ``init_score`` is given.
        groups : array-like of shape (n_samples,), default=None
            Group labels. The rows of a group are held out together, in cross-validation and by ``early_stopping``
            without ``X_val``.
        init_model : Model, path or fitted estimator, default=None
            Model of the same algorithm to continue from. ``n_estimators`` rounds are added to it. X may have other rows
            than its training data, and need not contain all of its classes.
        comm : communicator, default=None
            Communicator of distributed training, such as ``MPI.COMM_WORLD`` of mpi4py. Every worker calls `fit` with
            its own rows, or with none, and receives the model of all rows. Only for vector trees, class-wise trees and
            MCBoost; see `pymcboost.comm`.

        Returns
        -------
        self : estimator
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, there are fewer than two classes, features are infinite, or weights are
            negative.
        MemoryError
            If training needs more memory than is available. Raised before the memory is allocated.
        KeyboardInterrupt
            After Ctrl-C. The estimator keeps the rounds done so far. If there are none, it does not change.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.model_selection import train_test_split
        >>> from pymcboost import VectorTreeBoostClassifier
        >>> X_train, X_val, y_train, y_val = train_test_split(*load_iris(return_X_y=True), random_state=0)
        >>> model = VectorTreeBoostClassifier(early_stopping=True, random_state=0)
        >>> model = model.fit(X_train, y_train, X_val=X_val, y_val=y_val)
        >>> list(model.history_)
        ['val_log_loss', 'n_leaves', 'val_calibrated_log_loss']
        """
        if X_val is not None and X_val is X:
            warn(
                "X_val is X: early stopping and the calibration of probabilities need rows that the "
                "model is not trained on; use callbacks=[pymcboost.callbacks.TrainingLoss()] to follow "
                "the training loss"
            )
        arguments = FitArguments(
            X,
            y,
            sample_weight=sample_weight,
            init_score=init_score,
            groups=groups,
            init_model=init_model,
            X_val=X_val,
            y_val=y_val,
            sample_weight_val=sample_weight_val,
            validation_sets=validation_sets,
            init_score_val=init_score_val,
        )
        return self._fit(arguments, callbacks, unknown, comm)

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Feature importances, normalized to a sum of 1: gains of tree splits (`gain_`), or leaf values of stumps.

        A saved model does not store gains. ``model_.feature_importances()`` counts the splits of trees instead.
        """
        prediction.check_is_fitted(self)
        total = self.gain_.sum()
        return self.gain_ / total if total > 0 else self.model_.feature_importances()
