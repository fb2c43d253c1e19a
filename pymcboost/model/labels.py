"""What a model says of its labels: other names for them, and thresholds where a row may have any number."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pymcboost.model import file


class Labels:
    """Thresholds of labels, and other labels: a base of classes that have classes, a link and sections."""

    link: Any
    n_classes_: Any
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
            raise ValueError("thresholds are for models with any number of labels a row, link 'sigmoid'")
        above = np.broadcast_to(np.asarray(above, dtype=np.float64), (self.n_classes_,))
        return self._changed(ABOV=dict(file.threshold_sections(above)).get("ABOV"))

    def _given(self, scores):
        """Indicator of the labels with these raw scores."""
        return (scores > self.thresholds).astype(np.int64)

    def relabelled(self, classes: Any) -> Self:
        """The same model with other labels in the place of these: sorted integers or strings (K,)."""
        labels = dict(file.label_sections(classes, self.n_classes_))
        return self._changed(**{tag: labels.get(tag) for tag in ("LABI", "LABO", "LABS")})
