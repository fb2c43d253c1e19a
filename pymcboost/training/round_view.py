"""A classifier as which scikit-learn's scorers see a round of training."""

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if


class RoundView(ClassifierMixin, BaseEstimator):
    """Stand-in for a fitted classifier: returns the scores of a round, whatever X it is given."""

    def __init__(self, scores=None, classes=None, probabilities=None, labels=False):
        self.scores = scores
        self.classes_ = classes
        self.probabilities = probabilities
        self.labels = labels

    def predict(self, X):
        """Labels with the largest scores."""
        if self.labels:
            return (self.scores > 0).astype(int)
        return self.classes_[self.scores.argmax(axis=1)]

    def decision_function(self, X):
        """Scores; for two classes, their difference."""
        if self.scores.shape[1] == 2 and not self.labels:
            return self.scores[:, 1] - self.scores[:, 0]
        return self.scores

    @available_if(lambda self: self.probabilities is not None)
    def predict_proba(self, X):
        """Probabilities."""
        return self.probabilities(self.scores)
