"""What a model says of its labels: the first of them, other names, and thresholds where a row may have any number."""

from operator import index
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pymcboost.model import file


class Labels:
    """The first labels, thresholds, and other labels: a base of classes that have classes, a link and sections."""

    link: Any
    n_classes_: Any
    classes_: Any
    _rows: Any
    _sections: Any
    _changed: Any

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """Scores above which rows are given the labels of a model with the link "sigmoid": (K,)."""
        above = self._sections().get("ABOV")
        return np.zeros(self.n_classes_) if above is None else above.astype(np.float64)

    def with_thresholds(self, above: Any) -> Self:
        """The same model with other thresholds of labels.

        Parameters
        ----------
        above : float or array-like (K,)
            Scores, not probabilities.
        """
        if self.link != "sigmoid":
            raise ValueError(
                "thresholds are for models with any number of labels a row, link 'sigmoid'"
            )
        above = np.asarray(above, dtype=np.float64)
        if above.shape not in ((), (self.n_classes_,)):
            raise ValueError(
                f"above must be a number or {self.n_classes_} numbers, but has shape {above.shape}"
            )
        above = np.broadcast_to(above, (self.n_classes_,))
        return self._changed(ABOV=dict(file.threshold_sections(above)).get("ABOV"))

    def predict_top(
        self, X: Any, k: int, n_jobs: int | None = None
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """The labels of the highest scores; those of all rows are never held at once.

        Parameters
        ----------
        X : array-like or sparse matrix (m, n_features_in_)
        k : int
            How many, from 1 to all classes.
        n_jobs : int, optional
            Threads.

        Returns
        -------
        labels : ndarray (m, k)
            From the highest score on; where scores tie, the class that comes first.
        scores : ndarray of float64 (m, k)
        """
        best, scores = self._top(X, k, n_jobs)
        return self.classes_[best], scores

    def _top(self, X, k, n_jobs):
        """As `predict_top`, with positions of the classes."""
        return self._rows.top(X, number_of(k, self.n_classes_), n_jobs)

    def _given(self, scores):
        """Indicator of the labels with these raw scores."""
        return (scores > self.thresholds).astype(np.int64)

    def relabelled(self, classes: Any) -> Self:
        """The same model with other labels in the place of these: sorted integers or strings (K,)."""
        labels = dict(file.label_sections(classes, self.n_classes_))
        return self._changed(**{tag: labels.get(tag) for tag in ("LABI", "LABO", "LABS")})


def number_of(k, n_classes):
    """How many of the highest scores are wanted, after checking it."""
    k = index(k)
    if not 1 <= k <= n_classes:
        raise ValueError(f"k must be from 1 to {n_classes}, the number of classes, not {k}")
    return k
