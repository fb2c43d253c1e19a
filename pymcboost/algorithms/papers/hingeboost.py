"""HingeBoost.OC: output codes learned under the multi-class hinge loss, with support vector machines.

Problem
    minimise, stage by stage, 1/2 |w|^2 + C/N sum_i max_y (cost(y_i, y) + F_y(x_i) - F_{y_i}(x_i)), F = sum_t mu_t g_t
    with a column mu_t in {-1, +1}^K, which divides the classes in two, and g_t(x) = w.phi(x) + b.
Round (Algorithm 1)
    residuals rho_iy = cost(y_i, y) + F_y(x_i) - F_{y_i}(x_i) (eq. 9); a column that cuts large residuals (eq. 11);
    then alternately
    - f = the margin-rescaled SVM (eq. 15) with margins d_i = the largest residual of the other colour minus the largest
      of its own colour, and g = f / 2 (mu_y g moves the residuals of the other colour by 2 g);
    - at most ``max_alternations`` times, single changes of colour that lower
      sum_i max_y (rho_iy + mu_y g_i - mu_{y_i} g_i) (eq. 17).
    The paper ends with changes of colour; here the SVM of the last colours follows.

Paper: T. Gao and D. Koller, Multiclass boosting with hinge loss based on output coding.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import ThreadpoolController

from pymcboost._warn import warn
from pymcboost.hinge.callable_kernel import CallableKernelModel, CallableMachine
from pymcboost.hinge.coordinate import DenseKernel, LinearRows
from pymcboost.hinge.data import KernelBuilder, LinearBuilder, MachineData
from pymcboost.hinge.dual import BLOCK
from pymcboost.hinge.kernels import kernel_block
from pymcboost.hinge.libsvm import LibsvmKernel, is_installed
from pymcboost.hinge.rounds import CodeRounds
from pymcboost.model.kernel import KernelMachine
from pymcboost.model.linear import LinearMachine
from pymcboost.training import memory
from pymcboost.training.booster import Booster
from pymcboost.training.estimator import BoostingClassifier, Features, named_arguments
from pymcboost.training.fitting import FitArguments
from pymcboost.training.parameters import Parameter, Scoring, estimator
from pymcboost.training.prediction import check_is_fitted

# SVMs are solved to a violation of ``tol``, independent of the costs.
LARGEST_COST = 1e6
# Kernel values with a smaller relative difference than this are the same or nearly the same in float32. They are
# computed for this many rows and all others.
FLAT = 2.0**-20
SAMPLE_ROWS = 16
# Both solvers stop at the same tolerance, but at different points, so the model depends on which one is installed.
WITHOUT_LIBSVM = (
    "LIBSVM is not installed, so pymcboost's own solver trained the kernel SVMs to the same "
    "tolerance. LIBSVM would give a slightly different model. Set solver='coordinate' to use "
    "the built-in solver everywhere without this warning, or install LIBSVM: python -m pip "
    "install libsvm-official"
)
# Range of a float32 in the model file, and of the parameter.
GAMMAS = 1e-30, 1e12


class HingeBoostOC(Booster):
    """Rounds of HingeBoost.OC."""

    link = "none"
    ends_when = "no residual is above tol"
    allows_missing = False
    takes_weights = False
    takes_coded = False
    resumable = False
    # Trainings limit the threads of BLAS and LIBSVM for the whole process.
    side_by_side = False
    columns = {
        "column": "group of each class in the code column: -1 or 1, or 0 if it is left out",
        "objective": "norm plus loss after the round",
        "start": "norm plus loss before the round",
        "hinge": "mean over the rows of the largest residual",
        "n_solves": "number of SVMs solved",
        "n_iter": "number of solver iterations",
        "violation": "violation of the optimality conditions by the last SVM",
    }
    # The kernel's coefficient, which may be computed from the rows.
    gamma: float | None = None

    def check(self):
        """Check that costs are numbers; their shape depends on the classes, which are not known yet."""
        cost = _as_numbers(self.params.cost_matrix)
        if cost.ndim == 2:  # other shapes are wrong for any number of classes
            costs(cost, len(cost))

    def takes_sparse(self):
        """Whether X may be sparse; nonlinear kernels need dense rows."""
        return self.params.kernel == "linear"

    def rows(self, dataset, n_threads, previous):
        """Scale the rows; a warm start uses the scaling of the first fit."""
        kernel = self.params.kernel
        if hasattr(dataset.X, "indptr") and kernel != "linear":
            shown = "a callable" if callable(kernel) else repr(kernel)
            raise ValueError(
                f"kernel={shown} needs dense X, only kernel='linear' accepts sparse X; use "
                "X.toarray()"
            )
        scale = self.params.scale
        if previous is not None:
            scale = previous.kept["scale"]
            self.gamma = previous.kept["gamma"]
        return MachineData(
            dataset.X, dataset.codes, dataset.n_classes, sample_weight=dataset.weight, scale=scale
        )

    def check_previous(self, previous):
        """Refuse a different kernel."""
        existing = previous.kept["kernel"]
        current = self._kernel_parameters()
        if existing != current:
            raise ValueError(
                f"warm_start: the existing model has {existing}, but the estimator now has "
                f"{current}; use the same values, or train a new model"
            )

    def kept(self):
        """The state that a warm start needs besides the model: kernel, gamma, scaling and the chosen solver."""
        solver = "libsvm" if self._solver is LibsvmKernel else "coordinate"
        return {
            "kernel": self._kernel_parameters(),
            "gamma": self.gamma,
            "scale": self.data.scale,
            "solver": solver,
        }

    def _kernel_parameters(self):
        """Parameters that must be the same in a warm start."""
        return {
            name: getattr(self.params, name)
            for name in ("kernel", "gamma", "coef0", "degree", "scale")
        }

    def go_on(self, previous):
        """Take over the rounds of a model, merged into one machine, and return the scores of the training rows."""
        self.builder.extend(previous.model.ensemble, previous.n_rounds)
        return previous.model.raw_scores(self.data.X)[self.data.rows]

    def new_builder(self):
        """Create a sum of hyperplanes, or of kernel machines over a common pool of rows."""
        p = self.params
        data = self.data
        if self.gamma is None:
            self.gamma = self._gamma_for(data.features)
        if p.kernel == "linear":
            return LinearBuilder(
                data.n_classes,
                data.n_features,
                data.scale,
                n_rounds=self.n_estimators,
                entries=data.features.nnz if data.sparse else None,
                columns=data.columns,
            )
        if callable(p.kernel):
            new_machine = partial(CallableMachine, p.kernel)
        else:
            new_machine = partial(KernelMachine, p.kernel, self.gamma, p.coef0, p.degree)
        return KernelBuilder(data.n_classes, data.features, data.scale, new_machine)

    def _gamma_for(self, features):
        """The kernel's gamma: the parameter, or 1 / (number of features x variance of all their values)."""
        p = self.params
        if p.gamma is not None or p.kernel not in ("rbf", "poly"):
            return float(p.gamma or 1.0)
        variance = float(features.var(dtype=np.float64)) or 1.0
        return float(np.clip(1.0 / (features.shape[1] * variance), *GAMMAS))

    def memory(self):
        """Memory of the rounds: residuals, costs and pair weights of the classes, and any stored kernel matrix."""
        data = self.data
        m = data.n_rows
        K = data.n_classes
        residuals = memory.Part(
            f"the residuals of {m} rows and {K} classes", 8 * m * K, memory.FEWER
        )
        parts = [residuals, memory.tables(data, K, 1, passing=2)]
        solver = self._solver
        if solver is LinearRows:
            return parts
        remedy = "fewer rows, or a linear kernel, which needs no kernel matrix"
        if solver is LibsvmKernel:
            remedy = f'solver="coordinate", which takes 4 bytes per entry (16 here), {remedy}'
        kernel = memory.Part(
            f"a kernel of {m} x {m} entries",
            solver.bytes_of(m),
            remedy,
            passing=24 * min(m, BLOCK) * m + 8 * data.n_entries,
        )
        return [*parts, kernel]

    @cached_property
    def _solver(self):
        """Class of the SVM solver, chosen once for all rounds."""
        solver = self.params.solver
        if self.params.kernel == "linear":
            return LibsvmKernel if solver == "libsvm" else LinearRows
        if solver == "libsvm" or (solver == "auto" and is_installed()):
            return LibsvmKernel
        return DenseKernel

    def prepare(self, previous):
        """Create the SVM for all rounds."""
        p = self.params
        data = self.data
        cost = costs(p.cost_matrix, data.n_classes)
        self._thread_pools = ThreadpoolController()
        with self._one_blas_thread():
            self.code_rounds = CodeRounds(
                data,
                self._svm(),
                cost,
                p.C,
                init=p.init,
                n_colourings=p.n_colourings,
                max_alternations=p.max_alternations,
                allow_zero=p.allow_zero,
                tol=p.tol,
                seed=self.seed,
            )

    def _one_blas_thread(self):
        """Limit BLAS to one thread.

        With more, sums may be in another order, and the model would depend on the machine.
        """
        return self._thread_pools.limit(limits=1, user_api="blas")

    def _svm(self):
        """Create the SVM solver for the training rows; warn if float32 can hardly tell their kernel values apart."""
        p = self.params
        data = self.data
        gamma = self.gamma
        solver = self._solver
        if solver is LinearRows:
            return LinearRows(data.features, self.seed)
        if data.sparse:
            raise ValueError(
                "solver='libsvm' needs dense X; use X.toarray(), or solver='coordinate'"
            )
        features = data.features

        def block(begin, end):
            return kernel_block(features[begin:end], features, p.kernel, gamma, p.coef0, p.degree)

        sample = block(0, min(data.n_rows, SAMPLE_ROWS))
        is_flat = np.ptp(sample) < FLAT * np.abs(sample).max()
        if is_flat and (features[: len(sample)] != features[0]).any():
            warn(
                f"the kernel values lie between {sample.min():.9g} and {sample.max():.9g}, so close "
                "together that float32 can hardly tell them apart; use scale=True, a smaller "
                "coef0 or another gamma"
            )
        return solver(data.n_rows, block, self.n_threads)

    def restart(self, scores):
        """Compute the residuals for these scores."""
        self.code_rounds.restart(scores)

    def round(self):
        """Find a column of the code, and the SVM between its two groups of classes."""
        with self._one_blas_thread():
            result = self.code_rounds.round(self.n_rounds)
            if result is None:
                return None
            column, solution, history = result
            if solution is None:
                self.builder.add_nothing()
            else:
                self.builder.add(column, solution, self._weights(solution))
        return history

    def release(self):
        """Give the warnings about all rounds, after the last one."""
        if self.params.solver == "auto" and self._solver is DenseKernel:
            warn(WITHOUT_LIBSVM)
        has_warned = self.code_rounds.warn_of_short_solves()
        is_linear = self.params.kernel == "linear"
        if is_linear and not has_warned and self.n_rounds >= self.data.n_classes:
            self.code_rounds.warn_of_little_use()

    def _weights(self, solution):
        """Weights of a linear SVM by feature; None for other kernels."""
        if self.params.kernel != "linear":
            return None
        if solution.weights is not None:
            return solution.weights
        return self.data.weighted_sum(solution.beta)

    def model(self, classes, meta):
        """Return the machine of all rounds."""
        meta = {**meta, "rounds": self.n_rounds}
        if callable(self.params.kernel):
            return CallableKernelModel(self.builder.freeze(), classes, meta)
        return super().model(classes, meta)


def costs(cost_matrix, n_classes):
    """Check the cost matrix; as float64 (K, K), with cost 1 for every error if None."""
    if cost_matrix is None:
        return 1.0 - np.eye(n_classes)
    cost = _as_numbers(cost_matrix)
    if cost.shape != (n_classes, n_classes):
        raise ValueError(
            f"cost_matrix has shape {cost.shape}, but there are {n_classes} classes; it must "
            f"be {n_classes} x {n_classes}, with one row per true class in the order of the "
            "sorted labels"
        )
    if not (cost >= 0).all() or (cost > LARGEST_COST).any() or np.diagonal(cost).any():
        raise ValueError(
            f"cost_matrix must hold numbers from 0 to {LARGEST_COST:g}, with zeros on the "
            "diagonal; if its costs are larger, divide them all by a number and multiply C by "
            "it"
        )
    if not cost.any():
        raise ValueError(
            "all costs in cost_matrix are 0, so there is nothing to learn; give a positive "
            "cost to the errors that matter"
        )
    return cost


def _as_numbers(cost_matrix):
    """Convert the cost matrix to float64, of any shape; a single number if None."""
    try:
        return np.asarray(cost_matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "cost_matrix must hold K x K numbers, with one row per true class in the order of "
            "the sorted labels; this one has rows of different lengths or values that are not "
            "numbers"
        ) from None


@estimator
class HingeBoostOCClassifier(BoostingClassifier):
    """HingeBoost.OC: multi-class support vector machines, boosted under the hinge loss with a learned output code.

    Use it for small linear models, few training rows, or errors with different costs. Each round trains one SVM between
    two groups of classes, and learns the groups together with the SVM. With a linear kernel, the model is one
    hyperplane per class, regardless of the number of rounds. With other kernels, all classes share the support vectors.
    Scale the features (``scale=True``). Missing values and sample weights are not supported.

    References
    ----------
    T. Gao and D. Koller, Multiclass boosting with hinge loss based on output coding, Algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import HingeBoostOCClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> HingeBoostOCClassifier(n_estimators=20, C=100.0, random_state=0).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "hingeboost"
    booster = HingeBoostOC
    own_parameters = {
        "C": Parameter(
            "Weight of the mean hinge loss relative to the norm of the SVM of a round. It is LIBSVM's C times the "
            "number of rows.",
            low=0, open_low=True, high=1e12,
        ),
        "kernel": Parameter(
            'Kernel of two rows x and z: "linear" is x.z, "poly" is (gamma x.z + coef0)^degree, "rbf" is exp(-gamma '
            'abs(x - z)^2), and "perceptron" is -abs(x - z).\n\n'
            "A callable receives two arrays of rows and returns their kernel matrix. Models with such a kernel can be "
            "neither saved nor pickled."
        ),
        "gamma": Parameter(
            'Kernel coefficient of "rbf" and "poly". None means 1 / (number of features x variance of all their '
            'values), which is "scale" in scikit-learn. The default of LIBSVM is 1 / number of features.',
            low=0, open_low=True, high=1e12,
        ),
        "coef0": Parameter('Constant term of the kernel "poly".', low=-1e12, high=1e12),
        "degree": Parameter('Degree of the kernel "poly".', low=1, high=1000),
        "cost_matrix": Parameter(
            "Misclassification costs of shape (n_classes, n_classes), with classes in sorted order: row i, column j is "
            "the cost of predicting class j if class i is true. Costs are from 0 to 1e6, and the diagonal is 0. None "
            "means a cost of 1 for every error.",
            python_only=True,
            type_text="array-like of shape (n_classes, n_classes)",
        ),
        "init": Parameter(
            'Initial groups of a round. "one-vs-all" takes each class against all others once, and then the best of '
            'random groups. "random" always takes the best of random groups, "max-cut" the maximum cut, and "pairs" '
            "the two classes with the largest residuals, leaving out the others."
        ),
        "n_colourings": Parameter(
            "Number of random groupings of the classes from which the best is taken.", low=1
        ),
        "max_alternations": Parameter(
            "Maximum number of times per round that the groups are improved. An SVM is trained for the new groups each "
            "time.",
            low=1,
        ),
        "allow_zero": Parameter("Whether a round may leave out classes from both groups."),
        "scale": Parameter(
            "Whether to scale the features to the range from -1 to 1 (sparse features: by their largest absolute "
            "value). The model stores the scaling."
        ),
        "solver": Parameter(
            'Solver of the SVMs. "libsvm" is LIBSVM on a kernel matrix in memory (16 bytes per entry). "coordinate" is '
            "the coordinate descent of this package to the same tolerance: on the rows for a linear kernel, otherwise "
            'on a kernel matrix with 4 bytes per entry. "auto" is "coordinate" for a linear kernel. For other kernels '
            'it is "libsvm" if the package libsvm-official is installed, and otherwise "coordinate", with a warning.'
        ),
        "tol": Parameter(
            "Tolerance of the SVM solver: the largest violation of the optimality conditions, as -e of LIBSVM.",
            low=0, open_low=True, high=1,
        ),
    }  # fmt: skip
    own_help = {
        "n_estimators": "Maximum number of boosting rounds. Training stops earlier if no residual is above ``tol``.\n\n"
        '"auto" chooses the number by cross-validation, see ``cv``.',
        "random_state": "Seed of the random number generator, which draws the random groups and the validation split.",
        "n_jobs": "Number of threads of LIBSVM and of scoring. None and -1 use all available CPUs. The model does not "
        "depend on the number of threads.",
    }

    scoring: Scoring = "error"
    C: float = 1.0
    kernel: Literal["linear", "poly", "rbf", "perceptron"] | Callable[..., Any] = "linear"
    gamma: float | None = None
    coef0: float = 0.0
    degree: int = 3
    cost_matrix: ArrayLike | None = None
    init: Literal["one-vs-all", "random", "max-cut", "pairs"] = "one-vs-all"
    n_colourings: int = 1000
    max_alternations: int = 2
    allow_zero: bool = False
    scale: bool = False
    solver: Literal["auto", "libsvm", "coordinate"] = "auto"
    tol: float = 1e-3

    @named_arguments
    def fit(
        self,
        X: Features,
        y: ArrayLike | None = None,
        X_val: Features = None,
        y_val: ArrayLike | None = None,
        callbacks: Any = (),
        *,
        sample_weight_val: ArrayLike | None = None,
        validation_sets: Any = None,
        groups: ArrayLike | None = None,
        **unknown: Any,
    ) -> Self:
        """Fit the model to the training data.

        Sample weights are not supported, because C-SVC of LIBSVM has one bound for all rows of a class. Use
        ``cost_matrix`` for errors with different costs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), sparse matrix or Dataset
            Training features, which are rounded to float32. Sparse matrices need a linear kernel. Missing and infinite
            values raise an error.
        y : array-like of shape (n_samples,), default=None
            Class labels: integers or strings. Leave it out if X is a `Dataset`.
        X_val, y_val : array-like, default=None
            Validation set for early stopping. Without it, early stopping sets aside a part of the training rows.
        callbacks : sequence of objects, default=()
            Objects with a method ``after_round(state)``. Training stops if it returns a true value. See
            `TrainingState`.
        sample_weight_val : array-like, default=None
            Sample weights of ``X_val``, used by the metric.
        validation_sets : dict of str to tuple, default=None
            Further validation sets (X, y) or (X, y, sample_weight) by name. Their metrics are recorded in
            ``history_``; early stopping ignores them.
        groups : array-like of shape (n_samples,), default=None
            Group labels. The rows of a group are held out together, in cross-validation and by ``early_stopping``
            without ``X_val``.

        Returns
        -------
        self : HingeBoostOCClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, there are fewer than two classes, or features are missing or infinite.
        MemoryError
            If the kernel matrix needs more memory than is available. Raised before the memory is allocated.
        KeyboardInterrupt
            After Ctrl-C. The estimator keeps the rounds done so far. If there are none, it does not change.
        """
        arguments = FitArguments(
            X,
            y,
            groups=groups,
            X_val=X_val,
            y_val=y_val,
            sample_weight_val=sample_weight_val,
            validation_sets=validation_sets,
        )
        return self._fit(arguments, callbacks, unknown)

    @property
    def solver_(self) -> str:
        """Solver that trained the SVMs: "libsvm" or "coordinate"."""
        check_is_fitted(self)
        return self._kept["solver"]

    # A property: with scikit-learn's available_if, the error would only say that the attribute is missing.
    @property
    def predict_proba(self):
        """Predict class probabilities with a calibrated model: softmax(scores / temperature).

        ``predict_proba(X)`` returns an ndarray of shape (n_samples, n_classes). It exists only if the model has a
        temperature, because the hinge loss does not define probabilities.
        """
        model = getattr(self, "model_", None)
        temperature = self.calibrate if model is None else model.temperature
        if temperature is None:
            raise AttributeError(
                "HingeBoostOCClassifier has no predict_proba: the hinge loss has no link to "
                "probabilities, and the model has no temperature; set "
                'calibrate="temperature", calibrate the fitted model with calibrate_on(X, y), '
                "or use decision_function"
            )
        return self._predict_proba

    def _predict_proba(self, X):
        X = self._check_X(X)
        return self.model_.predict_proba(X, n_jobs=self.n_jobs)

    _predict_proba.__name__ = "predict_proba"  # scikit-learn uses it to identify the columns

    @property
    def predict_log_proba(self):
        """Predict the logarithms of the class probabilities; exists only if `predict_proba` does."""
        return self.predict_proba and self._predict_log_proba

    def _predict_log_proba(self, X):
        X = self._check_X(X)
        return self.model_.predict_log_proba(X, n_jobs=self.n_jobs)

    _predict_log_proba.__name__ = "predict_log_proba"

    @property
    def feature_importances_(self):
        """Feature importances of a linear model: absolute coefficients, normalized to a sum of 1."""
        model = getattr(self, "model_", None)
        if model is None:
            is_linear = self.kernel == "linear"
        else:
            is_linear = isinstance(model.ensemble, LinearMachine)
        if not is_linear:
            raise AttributeError(
                "a kernel machine has no feature_importances_; use permutation_importance"
            )
        check_is_fitted(self)
        return self.model_.feature_importances()
