"""HingeBoost.OC: output codes learnt under the multi-class hinge loss, with support vector machines.

Problem
    minimise, stage by stage, 1/2 |w|^2 + C/N sum_i max_y (cost(y_i, y) + F_y(x_i) - F_{y_i}(x_i)), F = sum_t mu_t g_t
    with a column mu_t in {-1, +1}^K, which divides the classes in two, and g_t(x) = w.phi(x) + b.
Round (Algorithm 1)
    residuals rho_iy = cost(y_i, y) + F_y(x_i) - F_{y_i}(x_i) (eq. 9); a column that cuts large residuals (eq. 11);
    then in turn f = the margin-rescaled SVM with margins d_i = max of the other colour's residuals - max of its own
    colour's (eq. 15), g = f / 2 (an h of mu_y g moves the residual of the other colour by 2 g), and, at most
    ``max_alternations`` times, single changes of colour that lower sum_i max_y (rho_iy + mu_y g_i - mu_{y_i} g_i)
    (eq. 17). The paper ends with these; here the SVM of the last colours follows.

Paper: T. Gao and D. Koller, Multiclass boosting with hinge loss based on output coding.
"""

import pickle

import numpy as np
from threadpoolctl import ThreadpoolController

from pymcboost.base import BoostingClassifier, named_arguments
from pymcboost.hinge.callable_kernel import REFUSED, CallableKernelModel, callable_machine
from pymcboost.hinge.coordinate import DenseKernel, LinearRows
from pymcboost.hinge.data import KernelBuilder, LinearBuilder, MachineData, kernel_machine
from pymcboost.hinge.kernels import KERNELS, kernel_block
from pymcboost.hinge.libsvm import LibsvmKernel
from pymcboost.hinge.rounds import CodeRounds
from pymcboost.params import Param
from pymcboost.scoring import Model

# SVMs are solved to a violation of ``tol``, whatever errors cost.
LARGEST_COST = 1e6
# What a float32 of the model file holds, and what the parameter may be.
GAMMAS = 1e-30, 1e12


def _one_blas_thread():
    """With more threads BLAS may add in another order, and the model would depend on the machine."""
    return ThreadpoolController().limit(limits=1, user_api="blas")


class HingeBoostOCClassifier(BoostingClassifier):
    """Multi-class boosting with the hinge loss of the margins: every round is one SVM between two groups of classes.

    Which classes stand on which side is learnt with the SVM. With a linear kernel the model is one hyperplane per
    class, whatever the number of rounds; otherwise all classes share the support vectors. Misclassification costs can
    be given.

    Parameters
    ----------
    n_estimators : int, default=200
        Number of boosting rounds, at least 1. Training stops earlier when no residual is above ``tol``.
    C : float, default=1.0
        Weight of the hinge loss, averaged over the rows, against the norm of a round's SVM; above 0.
    kernel : {"linear", "poly", "rbf", "perceptron"} or callable, default="linear"
        Kernel: x.z, (gamma x.z + coef0)^degree, exp(-gamma abs(x - z)^2) or -abs(x - z).

        A callable takes two arrays of rows and returns their kernel matrix; such a model can be used, but neither saved
        nor pickled.
    gamma : float or None, default=None
        Factor in "rbf" and "poly", above 0; None for 1 / (number of features x variance of all their values), which
        follows the units of the features as scikit-learn's "scale" does.
    coef0 : float, default=0.0
        Constant in "poly".
    degree : int, default=3
        Degree of "poly".
    cost_matrix : array-like of shape (n_classes, n_classes) or None, default=None
        Cost of predicting class j (column) where class i (row) is right, classes in sorted order: 0 to 1e6, with a
        zero diagonal. None for 1 for every error.
    init : {"one-vs-all", "random", "max-cut", "pairs"}, default="one-vs-all"
        First column of a round: each class against all others once and the best of random ones after that; always the
        best of random ones; the maximum cut; or the pair of classes with the largest residuals, others left out.
    n_colourings : int, default=1000
        Random columns among which the best is taken.
    max_alternations : int, default=2
        How often the classes of a round are coloured anew at most, each time followed by the SVM of the new colours.
    allow_zero : bool, default=False
        Let classes be left out of a round.
    scale : bool, default=False
        Scale the features to -1 to 1 (sparse ones: by their largest magnitude), and keep the scaling in the model.
    solver : {"auto", "libsvm", "coordinate"}, default="auto"
        LIBSVM on a kernel in memory (16 bytes per entry), or our own steps to the same tolerance: on the rows for a
        linear kernel, otherwise on a kernel of 4 bytes per entry. "auto" takes those on the rows for a linear kernel,
        otherwise LIBSVM.
    tol : float, default=1e-3
        Violation of the optimality conditions at which an SVM is solved, as LIBSVM's -e.
    early_stopping : bool, default=False
        Stop when the validation error has not improved for ``n_iter_no_change`` rounds, and keep the best round.
    validation_fraction : float, default=0.1
        Share of the training rows set aside for early stopping when no validation set is given.
    n_iter_no_change : int, default=20
        Patience of early stopping, in rounds.
    warm_start : bool, default=False
        Let `fit` add rounds to the model already there.
    random_state : int, RandomState instance or None, default=None
        Seed of the random columns, and of the validation split.
    n_jobs : int or None, default=None
        Threads of LIBSVM and of scoring; None and -1 mean all CPUs available. The model does not depend on it.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,), where X had string column names
    model_ : Model
        What is saved and scored.
    n_estimators_ : int
        Rounds fitted.
    history_ : dict of ndarray
        Per round: "column" (the colours of the classes, -1, 0 or 1), "objective" (norm and loss after the round),
        "start" (the same before it), "hinge" (mean over the rows of the largest residual), "n_solves" and "n_iter"
        (SVMs solved and their steps), "violation" (of the last one) and, with a validation set, "val_error".

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
    ends_when = "no residual is above tol"
    data_class = MachineData
    allows_missing = False
    makes_machines = True
    class_weight = None
    own_params = {
        "solver": Param(str, choices=("auto", "libsvm", "coordinate")),
        "tol": Param(float, low=0, open_low=True, high=1),
        "kernel": Param(str, choices=KERNELS, callables=True),
        "degree": Param(int, low=1, high=1000),
    }

    def __init__(
        self,
        n_estimators=200,
        C=1.0,
        kernel="linear",
        gamma=None,
        coef0=0.0,
        degree=3,
        cost_matrix=None,
        init="one-vs-all",
        n_colourings=1000,
        max_alternations=2,
        allow_zero=False,
        scale=False,
        solver="auto",
        tol=1e-3,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=20,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        self.n_estimators = n_estimators
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.coef0 = coef0
        self.degree = degree
        self.cost_matrix = cost_matrix
        self.init = init
        self.n_colourings = n_colourings
        self.max_alternations = max_alternations
        self.allow_zero = allow_zero
        self.scale = scale
        self.solver = solver
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # -- fitting ---------------------------------------------------------------------------------------------------

    @named_arguments
    def fit(self, X, y, X_val=None, y_val=None, **unknown):
        """Fit the model.

        There are no sample weights: LIBSVM's C-SVC has one bound for all rows of a class. Costs of errors go into
        ``cost_matrix``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or a sparse matrix for a linear kernel
            Training features, rounded to float32 once. Missing and infinite values are refused.
        y : array-like of shape (n_samples,)
            Class labels, integers or strings.
        X_val, y_val : array-like, default=None
            Validation set for early stopping, in place of a part split off from the training rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a parameter out of range, fewer than two classes, or features that are missing or infinite.
        MemoryError
            Where the kernel would need more memory than is free; said before any of it is taken.
        KeyboardInterrupt
            After Ctrl-C; the rounds done until then are kept in the estimator.
        """
        self._refuse_arguments(unknown)
        return super().fit(X, y, X_val=X_val, y_val=y_val)

    def _make_data(self, X, codes, n_classes, weight, n_threads):
        if hasattr(X, "indptr") and self.kernel != "linear":
            raise ValueError(
                f"kernel={_name(self.kernel)} needs dense X, only kernel='linear' takes a sparse one: use X.toarray()"
            )
        # Rounds are added in the features of the first ones.
        continued = self.warm_start and hasattr(self, "model_")
        scale = getattr(self, "_scale", None) if continued else self.scale
        data = MachineData(X, codes, n_classes, weight, scale)
        self._scale = data.scale
        if not continued:
            self._gamma = self._gamma_for(data.features)
        return data

    def _gamma_for(self, features):
        if self.gamma is not None or self.kernel not in ("rbf", "poly"):
            return float(self.gamma or 1.0)
        variance = float(features.var(dtype=np.float64)) or 1.0
        return float(np.clip(1.0 / (features.shape[1] * variance), *GAMMAS))

    def _new_builder_for(self, data):
        if self.kernel == "linear":
            entries = data.features.nnz if data.sparse else None
            return LinearBuilder(data.n_classes, data.n_features, data.scale, self.n_estimators, entries)
        if callable(self.kernel):
            return KernelBuilder(data.n_classes, data.features, data.scale, callable_machine(self.kernel))
        make = kernel_machine(self.kernel, self._gamma, self.coef0, self.degree)
        return KernelBuilder(data.n_classes, data.features, data.scale, make)

    def _continue(self, data):
        builder = self._new_builder_for(data)
        builder.extend(self.model_.ensemble, self.n_estimators_)
        return builder, self.model_.raw_scores(data.X)[data.rows]

    def _check_kept(self):
        before, now = self._kept, self._kernel_parameters()
        if before != now:
            raise ValueError(f"warm_start: the model so far has {before}, now it is {now}; keep to it, or begin anew")

    def _kernel_parameters(self):
        return {name: getattr(self, name) for name in ("kernel", "gamma", "coef0", "degree", "scale")}

    def _costs(self, n_classes):
        if self.cost_matrix is None:
            return 1.0 - np.eye(n_classes)
        cost = np.asarray(self.cost_matrix, dtype=np.float64)
        if cost.shape != (n_classes, n_classes):
            raise ValueError(
                f"cost_matrix has shape {cost.shape}, but there are {n_classes} classes; it must be "
                f"{n_classes} x {n_classes}, rows for the right class, in the order of the sorted labels"
            )
        if not (cost >= 0).all() or (cost > LARGEST_COST).any() or np.diagonal(cost).any():
            raise ValueError(
                f"cost_matrix must hold numbers from 0 to {LARGEST_COST:g}, with zeros on the diagonal; larger ones "
                "can all be divided by a number that C is multiplied with"
            )
        if not cost.any():
            raise ValueError("cost_matrix is 0 everywhere: no error costs anything, and there is nothing to learn")
        return cost

    def _start(self, data, n_threads):
        with _one_blas_thread():
            self._state = self._new_state(data, n_threads)
        self._kept = self._kernel_parameters()

    def _loop(self, *arguments):
        with _one_blas_thread():
            super()._loop(*arguments)

    def _new_state(self, data, n_threads):
        cost = self._costs(data.n_classes)
        solver = self.solver
        if solver == "auto":
            solver = "coordinate" if self.kernel == "linear" else "libsvm"
        if solver == "coordinate" and self.kernel == "linear":
            svm = LinearRows(data.features, self._seed)
        else:
            if data.sparse:
                raise ValueError("solver='libsvm' needs dense X: use X.toarray(), or solver='coordinate'")
            features, gamma = data.features, self._gamma

            def block(begin, end):
                return kernel_block(features[begin:end], features, self.kernel, gamma, self.coef0, self.degree)

            svm = (LibsvmKernel if solver == "libsvm" else DenseKernel)(data.n_rows, block, n_threads)
        return CodeRounds(
            data, svm, cost, self.C, init=self.init, n_colourings=self.n_colourings,
            max_alternations=self.max_alternations, allow_zero=self.allow_zero, tol=self.tol, seed=self._seed,
        )  # fmt: skip

    def _restart(self, scores):
        self._state.restart(scores)

    def _round(self, builder):
        found = self._state.round(self.n_estimators_)
        if found is None:
            return None
        column, solution, history = found
        if solution is None:
            builder.add_nothing()
        else:
            builder.add(column, solution, self._weights(solution))
        return history

    def _weights(self, solution):
        """Weights of a linear SVM over the features; None for other kernels."""
        if self.kernel != "linear":
            return None
        if solution.weights is not None:
            return solution.weights
        return self._state.data.weighted_sum(solution.beta)

    def _model(self, builder, meta):
        if callable(self.kernel):
            return CallableKernelModel(builder.freeze(), self.classes_, meta)
        return super()._model(builder, meta)

    def _meta(self):
        meta = super()._meta()
        if self.cost_matrix is not None:
            meta["params"]["cost_matrix"] = np.asarray(self.cost_matrix, dtype=np.float64).tolist()
        return {**meta, "rounds": self.n_estimators_}

    def _scores_of(self, machine, X):
        if callable(self.kernel):
            return machine.scores(X)
        return Model.from_ensemble(machine, np.arange(machine.n_classes)).raw_scores(X)

    def _link(self):
        return "none"

    # -- prediction ------------------------------------------------------------------------------------------------

    # A property, as scikit-learn's available_if would say only that the attribute is missing, and the reason elsewhere.
    @property
    def predict_proba(self):
        """There is none: the hinge loss has no link to probabilities."""
        raise AttributeError(
            "HingeBoostOCClassifier has no predict_proba: the hinge loss has no link to probabilities; use "
            "decision_function, or sklearn.calibration.CalibratedClassifierCV"
        )

    @property
    def feature_importances_(self):
        """Share of every feature in the absolute coefficients of a linear model: (n_features,), summing to 1."""
        if self.kernel != "linear":
            raise AttributeError("a kernel machine has no shares of features; use permutation_importance")
        return super().feature_importances_

    def save(self, path, layout="list", leaves="float32"):
        """Write the model file that `load_model`, ``mcboost-predict`` and ``mcb.h`` read.

        Parameters
        ----------
        path : str or path-like
            A file that is there already is replaced, whatever it holds. The new one is written beside it first and
            then renamed: a failure leaves the old one whole. Its folder must exist.
        layout, leaves
            "list" and "float32": machines have no other layouts.
        """
        if callable(getattr(self, "_kept", {}).get("kernel")):
            raise ValueError(REFUSED)
        super().save(path, layout=layout, leaves=leaves)

    def __getstate__(self):
        if callable(self.__dict__.get("_kept", {}).get("kernel")):
            raise pickle.PicklingError(REFUSED)
        return super().__getstate__()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        tags.input_tags.sparse = self.kernel == "linear"
        return tags


def _name(kernel):
    return "a callable" if callable(kernel) else repr(kernel)
