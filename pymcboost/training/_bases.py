"""scikit-learn's bases as type checkers should see them.

scikit-learn has no types of its own. With its bases as they are, wrong parameters would go unnoticed.
"""

from typing import Any, Self

from numpy.typing import ArrayLike


class ClassifierMixin:
    """What scikit-learn adds to a classifier."""

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy."""
        raise NotImplementedError


class BaseEstimator:
    """What scikit-learn adds to an estimator."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name."""
        raise NotImplementedError

    def set_params(self, **params: Any) -> Self:
        """Change parameters."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        raise NotImplementedError

    def __setstate__(self, state: dict[str, Any]) -> None:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        raise NotImplementedError
