from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from typing import Any, Literal, NoReturn, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymcboost.model.file import ModelFormatError as ModelFormatError
from pymcboost.svmlight import SvmlightData
from pymcboost.svmlight import SvmlightError as SvmlightError

__version__: str
__all__: list[str]

# Dense arrays, lists and data frames, or SciPy CSR matrices; SciPy and pandas carry no types that could be named here.
_Features: TypeAlias = Any
_Path: TypeAlias = str | bytes | PathLike[str] | PathLike[bytes]
_Layout: TypeAlias = Literal["list", "interval", "interval32"]
_Leaves: TypeAlias = Literal["float32", "float16"]
_ClassWeight: TypeAlias = dict[Any, float] | Literal["balanced"] | None
_RandomState: TypeAlias = int | np.random.RandomState | None
_AnyEstimator = TypeVar("_AnyEstimator", bound=_Estimator)

def get_include() -> str: ...
def load_model(path: _Path) -> Model: ...
def load_svmlight(
    path: _Path,
    *,
    n_features: int | None = None,
    base: Literal["auto", 0, 1] = "auto",
    layout: Literal["auto", "dense", "csr", "plain"] = "auto",
    memory_limit: int | None = None,
) -> SvmlightData: ...
def dump_svmlight(path: _Path, X: _Features, y: ArrayLike, *, base: Literal[0, 1] = 1) -> None: ...

class Model:
    @property
    def classes_(self) -> NDArray[Any]: ...
    @property
    def n_classes_(self) -> int: ...
    @property
    def n_features_in_(self) -> int: ...
    @property
    def kind(self) -> int: ...
    @property
    def link(self) -> str: ...
    @property
    def meta(self) -> dict[str, Any]: ...
    @property
    def n_learners(self) -> int | None: ...
    @property
    def n_rounds(self) -> int | None: ...
    @property
    def has_stages(self) -> bool: ...
    @property
    def leaves(self) -> _Leaves: ...
    @property
    def layout(self) -> _Layout: ...
    @classmethod
    def from_bytes(cls, data: bytes) -> Self: ...
    def to_bytes(self) -> bytes: ...
    def save(self, path: _Path, layout: _Layout | None = None, leaves: _Leaves | None = None) -> None: ...
    def truncate(self, t: int) -> Model: ...
    def raw_scores(self, X: _Features, n_jobs: int | None = None) -> NDArray[np.float64]: ...
    def decode(self, columns: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def decision_function(self, X: _Features, n_jobs: int | None = None) -> NDArray[np.float64]: ...
    def predict(self, X: _Features, n_jobs: int | None = None) -> NDArray[Any]: ...
    def predict_proba(self, X: _Features, n_jobs: int | None = None) -> NDArray[np.float64]: ...
    def staged_decision_function(self, X: _Features) -> Iterator[NDArray[np.float64]]: ...
    def feature_importances(self) -> NDArray[np.float64]: ...

# What all estimators share; not a name of the package itself.
class _Estimator:
    classes_: NDArray[Any]
    n_features_in_: int
    n_estimators_: int
    model_: Model
    history_: dict[str, NDArray[Any]]
    gain_: NDArray[np.float64]
    @property
    def feature_importances_(self) -> NDArray[np.float64]: ...
    def fit(
        self,
        X: _Features,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: _Features | None = None,
        y_val: ArrayLike | None = None,
    ) -> Self: ...
    def decision_function(self, X: _Features) -> NDArray[np.float64]: ...
    def predict(self, X: _Features) -> NDArray[Any]: ...
    def predict_proba(self, X: _Features) -> NDArray[np.float64]: ...
    def staged_decision_function(self, X: _Features) -> Iterator[NDArray[np.float64]]: ...
    def staged_predict(self, X: _Features) -> Iterator[NDArray[Any]]: ...
    def score(self, X: _Features, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float: ...
    def save(self, path: _Path, layout: _Layout = "list", leaves: _Leaves = "float32") -> None: ...
    def get_params(self, deep: bool = True) -> dict[str, Any]: ...
    def set_params(self, **params: Any) -> Self: ...

class MCBoostClassifier(_Estimator):
    def __init__(
        self,
        loss: Literal["exp", "log"] = "exp",
        n_estimators: int = 500,
        learning_rate: float = 0.5,
        nu: float = 1e-9,
        max_step: float | None = None,
        fixed_step: float | None = None,
        weak_learner: Literal["stump", "tree"] = "stump",
        max_leaf_nodes: int = 20,
        max_depth: int | None = None,
        max_bins: int = 256,
        min_weight_fraction_leaf: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        class_weight: _ClassWeight = None,
        warm_start: bool = False,
        random_state: _RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

class _ClassTrees(_Estimator):
    def __init__(
        self,
        n_estimators: int = 200,
        learning_rate: float = 0.1,
        max_leaf_nodes: int = 20,
        max_depth: int | None = None,
        min_samples_leaf: float = 1,
        max_features: float = 1.0,
        subsample: float = 1.0,
        max_bins: int = 256,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        class_weight: _ClassWeight = None,
        warm_start: bool = False,
        random_state: _RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

class _AdaptiveBase(_Estimator):
    def __init__(
        self,
        n_estimators: int = 200,
        learning_rate: float = 0.1,
        max_leaf_nodes: int = 20,
        gap: int = 10,
        n_candidates: int | None = None,
        warmup_rounds: int = 0,
        max_depth: int | None = None,
        min_samples_leaf: float = 1,
        max_features: float = 1.0,
        subsample: float = 1.0,
        max_bins: int = 256,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        class_weight: _ClassWeight = None,
        warm_start: bool = False,
        random_state: _RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

class LogitBoostClassifier(_ClassTrees): ...
class MartClassifier(_ClassTrees): ...
class ABCLogitBoostClassifier(_AdaptiveBase): ...
class ABCMartClassifier(_AdaptiveBase): ...

class MultiBoostClassifier(_Estimator):
    @property
    def sparsity_(self) -> dict[str, int]: ...
    def __init__(
        self,
        loss: Literal["exp", "log"] = "exp",
        n_estimators: int = 200,
        C: float = 1e6,
        solver: Literal["auto", "fcd", "lbfgs", "lbfgs-cold"] = "auto",
        max_passes: int = 2,
        tol: float = 1e-6,
        weak_learner: Literal["stump", "tree"] = "stump",
        max_leaf_nodes: int = 20,
        max_depth: int | None = None,
        max_bins: int = 256,
        min_weight_fraction_leaf: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        class_weight: _ClassWeight = None,
        warm_start: bool = False,
        random_state: _RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

class MultiBoostCWClassifier(_Estimator):
    @property
    def sparsity_(self) -> dict[str, int]: ...
    def __init__(
        self,
        n_estimators: int = 100,
        C: float = 1e6,
        max_passes: int = 2,
        tol: float = 1e-6,
        weak_learner: Literal["stump", "tree"] = "stump",
        max_leaf_nodes: int = 20,
        max_depth: int | None = None,
        max_bins: int = 256,
        min_weight_fraction_leaf: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        class_weight: _ClassWeight = None,
        warm_start: bool = False,
        random_state: _RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

class VectorTreeBoostClassifier(_Estimator):
    def __init__(
        self,
        loss: Literal["softmax", "exp", "log"] = "softmax",
        n_estimators: int = 200,
        learning_rate: float = 0.2,
        max_leaf_nodes: int = 100,
        max_depth: int | None = None,
        min_samples_leaf: float = 2,
        max_features: float = 0.2,
        leaf_step: Literal["diagonal", "full"] = "diagonal",
        max_bins: int = 256,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        class_weight: _ClassWeight = None,
        warm_start: bool = False,
        random_state: _RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

class HingeBoostOCClassifier(_Estimator):
    def fit(  # type: ignore[override]
        self, X: _Features, y: ArrayLike, X_val: _Features | None = None, y_val: ArrayLike | None = None
    ) -> Self: ...
    @property
    def predict_proba(self) -> NoReturn: ...  # type: ignore[override]
    def __init__(
        self,
        n_estimators: int = 200,
        C: float = 1.0,
        kernel: Literal["linear", "poly", "rbf", "perceptron"] | Callable[[Any, Any], ArrayLike] = "linear",
        gamma: float | None = None,
        coef0: float = 0.0,
        degree: int = 3,
        cost_matrix: ArrayLike | None = None,
        init: Literal["one-vs-all", "random", "max-cut", "pairs"] = "one-vs-all",
        n_colourings: int = 1000,
        max_alternations: int = 2,
        allow_zero: bool = False,
        scale: bool = False,
        solver: Literal["auto", "libsvm", "coordinate"] = "auto",
        tol: float = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        warm_start: bool = False,
        random_state: _RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

class _Classic(_Estimator):
    def __init__(
        self,
        n_estimators: int = 500,
        weak_learner: Literal["stump", "tree"] = "stump",
        max_leaf_nodes: int = 20,
        max_depth: int | None = None,
        min_weight_fraction_split: float = 0.0,
        subsample: float = 1.0,
        max_bins: int = 256,
        min_weight_fraction_leaf: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        class_weight: _ClassWeight = None,
        warm_start: bool = False,
        random_state: _RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

class AdaBoostECCClassifier(_Classic): ...
class AdaBoostMHClassifier(_Classic): ...
class AdaBoostOCClassifier(_Classic): ...
class GentleBoostClassifier(_Classic): ...
class SAMMEClassifier(_Classic): ...

class AdaBoostERPClassifier(_Estimator):
    def __init__(
        self,
        n_estimators: int = 500,
        n_repartitions: int = 1,
        weak_learner: Literal["stump", "tree"] = "stump",
        max_leaf_nodes: int = 20,
        max_depth: int | None = None,
        min_weight_fraction_split: float = 0.0,
        subsample: float = 1.0,
        max_bins: int = 256,
        min_weight_fraction_leaf: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        class_weight: _ClassWeight = None,
        warm_start: bool = False,
        random_state: _RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

class AdaBoostMOClassifier(_Estimator):
    def __init__(
        self,
        n_estimators: int = 100,
        code: Literal["auto", "one-vs-all", "all-pairs", "exhaustive", "dense"] = "auto",
        decoder: Literal["exp", "linear", "hamming"] = "exp",
        weak_learner: Literal["stump", "tree"] = "stump",
        max_leaf_nodes: int = 20,
        max_depth: int | None = None,
        min_weight_fraction_split: float = 0.0,
        subsample: float = 1.0,
        max_bins: int = 256,
        min_weight_fraction_leaf: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        class_weight: _ClassWeight = None,
        warm_start: bool = False,
        random_state: _RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

class GradBoostClassifier(_Estimator):
    def __init__(
        self,
        n_estimators: int = 1000,
        l1: float = 1e-06,
        weak_learner: Literal["stump", "tree"] = "stump",
        max_leaf_nodes: int = 20,
        max_depth: int | None = None,
        min_weight_fraction_split: float = 0.0,
        max_bins: int = 256,
        min_weight_fraction_leaf: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        class_weight: _ClassWeight = None,
        warm_start: bool = False,
        random_state: _RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

class JointBoostClassifier(_Estimator):
    def __init__(
        self,
        n_estimators: int = 500,
        max_bins: int = 256,
        min_weight_fraction_leaf: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        class_weight: _ClassWeight = None,
        warm_start: bool = False,
        random_state: _RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

class PIBoostClassifier(_Estimator):
    def __init__(
        self,
        n_estimators: int = 200,
        separators: Literal["singles", "pairs"] | Sequence[Sequence[int]] = "singles",
        cost_sensitive: bool = True,
        weak_learner: Literal["stump", "tree"] = "stump",
        max_leaf_nodes: int = 20,
        max_depth: int | None = None,
        min_weight_fraction_split: float = 0.0,
        subsample: float = 1.0,
        max_bins: int = 256,
        min_weight_fraction_leaf: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        class_weight: _ClassWeight = None,
        warm_start: bool = False,
        random_state: _RandomState = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None: ...

class Checkpoint:
    path: _Path
    every: float
    note: Callable[[str], object] | None
    resumed: int
    def __init__(self, path: _Path, every: float = 300.0, note: Callable[[str], object] | None = None) -> None: ...
    def fit(
        self,
        estimator: _AnyEstimator,
        X: _Features,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: _Features | None = None,
        y_val: ArrayLike | None = None,
    ) -> _AnyEstimator: ...
    def remove(self) -> None: ...
