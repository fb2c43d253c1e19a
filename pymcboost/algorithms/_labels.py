"""Multi-label support that boosters share: the parameter for thresholds, and the checks that go with it."""

from typing import Any, Literal

from pymcboost.training.labels import score_of
from pymcboost.training.parameters import ClassMetrics, Parameter, Scorer, SeveralScorers

LABEL_PARAMETERS = {
    "decision_threshold": Parameter(
        'For multi-label data: a row is given every label with a probability above this threshold. "f1" chooses a '
        "threshold for each label that maximizes its F1 score.\n\n"
        '"f1" uses rows that the model has not been trained on: those of ``X_val``, those set aside for early '
        "stopping, or those held out in the folds of ``cv``. The model file stores the thresholds.",
        low=0,
        open_low=True,
        high=1,
        open_high=True,
    ),
}

LabelMetrics = Literal[
    "hamming_loss", "f1_micro", "f1_macro", "precision_at_1", "precision_at_3", "precision_at_5"
]
LabelScoring = Literal[ClassMetrics, LabelMetrics] | Scorer | SeveralScorers


class ManyLabels:
    """Mixin of boosters that support multi-label rows."""

    params: Any
    name: str
    multilabel: bool
    # What error messages call the data that multi-label parameters are for.
    labels_are_for = "multi-label rows"

    @property
    def threshold(self):
        """Score above which a label is assigned, if it is not 0."""
        probability = self.params.decision_threshold
        if self.multilabel and probability not in ("f1", 0.5):
            return score_of(probability)
        return None

    def check_labels(self):
        """Refuse options that are only for one class per row, or only for multi-label rows."""
        p = self.params
        if not self.multilabel:
            if p.decision_threshold != 0.5:
                raise ValueError(
                    f"{self.name}: decision_threshold applies only to {self.labels_are_for}; "
                    "leave it at 0.5"
                )
            return
        for name in ("restore_priors", "class_weight"):
            if getattr(p, name):
                raise ValueError(
                    f"{self.name}: {name} needs one class per row and does not support "
                    f"{self.labels_are_for}"
                )
        # Thresholds come from the rows that would give a temperature, which multi-label models do not have.
        p.calibrate = "thresholds" if p.decision_threshold == "f1" else None
