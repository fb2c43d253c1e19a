"""What all estimators share: a training, and the attributes that it leaves.

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
from pymcboost.training.fitting import Training
from pymcboost.training.inputs import given_sets
from pymcboost.training.parameters import (
    ClassWeight,
    Folds,
    Parameter,
    Rounds,
    Scoring,
    Seed,
    checked,
    estimator,
    hint_for,
    values_of,
)

if TYPE_CHECKING:  # as the public classes are
    from pymcboost.training.scikit_learn import ScikitLearnClassifier as Base
else:
    Base = object

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
    calibration.CalibratesOnRows, refit.RefitsLeaves, prediction.Predicts, Base
):
    """What all estimators share. A subclass names its ``algorithm`` and its ``booster``, and has the parameters."""

    algorithm: ClassVar[str]
    booster: ClassVar[type[Booster]]
    # Rows of the table of parameters, and help texts, that are others here.
    own_parameters: ClassVar[dict[str, Parameter]] = {}
    own_help: ClassVar[dict[str, str]] = {}
    # Whether scikit-learn checks rows and labels; those of a program are checked.
    checks_rows: ClassVar[bool] = False

    if TYPE_CHECKING:  # of a fitted estimator
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

    def _fit(
        self,
        X,
        y,
        held,
        groups,
        callbacks,
        unknown,
        sample_weight=None,
        init_model=None,
        comm=None,
        init_score=None,
    ):
        workers = X._workers(comm) if isinstance(X, Dataset) else as_workers(comm)
        with hearing(workers):
            given = X, y, sample_weight, groups, init_model, init_score
            training = self._train(workers, given, held, callbacks, unknown)
            if not isinstance(X, Dataset):  # which keeps its communicator for other fits
                release(workers, comm)
        if not training.booster.has_learnt():
            early = "a callback ended the training before its first round: the model is constant"
            stopped = training.state.stopped and not self.n_estimators_
            warn(early if stopped else training.booster.why_constant())
        return self

    def _train(self, workers, given, held, callbacks, unknown):
        """One training, after which the estimator has its model."""
        training = None
        # A training that fails or is interrupted leaves the estimator, and the model it may have, as they were.
        draft = object.__new__(type(self))
        vars(draft).update(vars(self))
        try:
            sets = given_sets(*held)
            self._refuse_arguments(unknown)
            training = Training(draft, as_callbacks(callbacks), workers)
            training.run(sets, *given)
            training.finish()
        except BaseException as error:
            workers.fail(error)  # which the others would wait for
            interrupted = isinstance(error, KeyboardInterrupt)
            if (
                interrupted and workers.size == 1 and training and training.rounds_done()
            ):  # which are a usable model
                training.state.roll_back()  # again: Ctrl-C may have come while rounds were taken back
                training.finish()
                self.__dict__ = vars(draft)
            raise
        self.__dict__ = vars(draft)
        return training

    def _refuse_arguments(self, unknown):
        """Refuse what `fit` does not take, by the name of the class that the user called."""
        for name in unknown:
            remedy = hint_for(type(self), name, "fit")
            raise TypeError(
                f"{type(self).__name__}.fit() got an unexpected keyword argument {name!r}{remedy}"
            )

    def _booster(self, draw_seed=None, comm=ALONE):
        params = checked(type(self), values_of(self))
        return self.booster(params, draw_seed, type(self).__name__, comm)

    def layouts(self) -> tuple[str, ...]:
        """Layouts that a model file of these parameters may have, see `save`: tuple of str."""
        return self._booster().layouts()


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
        init_score: ArrayLike | None = None,
        init_score_val: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        init_model: Any = None,
        comm: Any = None,
        **unknown: Any,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or `Dataset`
            Training features, rounded to float32 once. NaN is a missing value; infinities are refused. A `Dataset`
            holds rows that are binned already, and may have read them in blocks.
        y : array-like of shape (n_samples,)
            Class labels, integers or strings. Left out with a `Dataset`. Where rows may have any number of labels: an
            indicator of shape (n_samples, n_labels), dense or sparse, or a list with a tuple of labels for each row.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. Rows of weight 0 are left out altogether.
        X_val, y_val : array-like, default=None
            Validation set for early stopping, in place of a part split off from the training rows.
        callbacks : sequence of objects, default=()
            Each has a method ``after_round(state)``, which ends the training where it returns something true; see
            `TrainingState`.
        sample_weight_val : array-like, default=None
            Weights of the rows of ``X_val`` in the metric; class weights are multiplied with them.
        validation_sets : dict of str to tuple, default=None
            More sets whose metric the history keeps; early stopping does not look at them. Each is (X, y),
            (X, y, sample_weight) or (X, y, sample_weight, init_score).
        init_score : array-like of shape (n_samples, n_classes), or (n_samples,) for two classes, default=None
            Scores at which the rows begin, by the order of the classes: the model adds its own to them. One number for
            each row is the score of class 1 minus that of class 0. The model does not hold them: give `predict` and
            the others those of their rows. The rounds begin there even where a loss would begin with numbers of its
            own. With ``init_model`` or ``warm_start`` its scores come on top. For vector trees, class-wise trees and
            MCBoost.
        init_score_val : array-like, default=None
            The same of the rows of ``X_val``, which need it where the training rows have it.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group are held out together: in folds, and by ``early_stopping`` without ``X_val``.
        init_model : Model, path or fitted estimator, default=None
            A model of the same algorithm that the rounds are added to, ``n_estimators`` of them. These rows need not be
            those that it comes from, nor have rows of all its classes.
        comm : communicator, default=None
            The workers among which the rows are divided, such as mpi4py's ``MPI.COMM_WORLD``: every worker calls `fit`
            with its own rows, or none, and all have the model of all rows. For vector trees, class-wise trees and
            MCBoost; see `pymcboost.comm`.

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
        held = X_val, y_val, sample_weight_val, validation_sets, init_score_val
        return self._fit(
            X, y, held, groups, callbacks, unknown, sample_weight, init_model, comm, init_score
        )

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Share of every feature in the model: (n_features,), summing to 1.

        Trees: of the gains of all splits (`gain_`). Stumps: of the absolute leaf values. What a saved model knows, the
        number of splits of trees, is ``model_.feature_importances()``.
        """
        prediction.check_is_fitted(self)
        total = self.gain_.sum()
        return self.gain_ / total if total > 0 else self.model_.feature_importances()
