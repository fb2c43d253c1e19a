"""Labels of a model: the top k, relabelling, and thresholds of multi-label models."""

from operator import index
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pymcboost.model import file


class Labels:
    """Top labels, thresholds and other labels, for classes with labels, a link and sections."""

    link: Any
    n_classes_: Any
    classes_: Any
    _rows: Any
    _sections: Any
    _changed: Any

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """Scores above which a multi-label model (link "sigmoid") assigns each label: ndarray of shape (K,)."""
        above = self._sections().get("ABOV")
        return np.zeros(self.n_classes_) if above is None else above.astype(np.float64)

    def with_thresholds(self, above: Any) -> Self:
        """Return a multi-label model with other thresholds.

        Parameters
        ----------
        above : float or array-like of shape (K,)
            Thresholds of the scores, not of the probabilities.

        Returns
        -------
        Model
            The new model.

        Raises
        ------
        ValueError
            If the model is not a multi-label model.
        """
        if self.link != "sigmoid":
            raise ValueError("thresholds are only for multi-label models (link 'sigmoid')")
        above = np.asarray(above, dtype=np.float64)
        if above.shape not in ((), (self.n_classes_,)):
            raise ValueError(
                f"above must be one number or {self.n_classes_} numbers, but has shape "
                f"{above.shape}"
            )
        above = np.broadcast_to(above, (self.n_classes_,))
        return self._changed(ABOV=dict(file.threshold_sections(above)).get("ABOV"))

    def predict_top(
        self, X: Any, k: int, n_jobs: int | None = None
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Predict the k labels with the largest scores.

        The scores of all classes are in memory for only some thousand rows at a time.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (m, n_features_in_)
            Rows to predict.
        k : int
            Number of labels per row, from 1 to the number of classes.
        n_jobs : int, default=None
            Number of threads.

        Returns
        -------
        labels : ndarray of shape (m, k)
            Labels in the order of decreasing scores. Ties go to the first class.
        scores : ndarray of float64 of shape (m, k)
            Scores of these labels.
        """
        best, scores = self._top(X, k, n_jobs)
        return self.classes_[best], scores

    def _top(self, X, k, n_jobs):
        """Positions of the k classes with the largest scores (m, k), and these scores."""
        return self._rows.top(X, number_of(k, self.n_classes_), n_jobs)

    def _indicator_of(self, scores):
        """Indicator matrix of the labels with these raw scores."""
        return (scores > self.thresholds).astype(np.int64)

    def relabelled(self, classes: Any) -> Self:
        """Return the model with other class labels.

        Parameters
        ----------
        classes : array-like of shape (K,)
            Distinct, sorted labels: integers or strings.

        Returns
        -------
        Model
            The new model.
        """
        labels = dict(file.label_sections(classes, self.n_classes_))
        return self._changed(**{tag: labels.get(tag) for tag in ("LABI", "LABO", "LABS")})


def number_of(k, n_classes):
    """Check k, the number of top scores."""
    k = index(k)
    if not 1 <= k <= n_classes:
        raise ValueError(f"k must be from 1 to {n_classes}, the number of classes, not {k}")
    return k
