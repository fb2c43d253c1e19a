"""What scorers of scikit-learn see of a training: a classifier."""

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

from pymcboost._kernels import elementary


class RoundView(ClassifierMixin, BaseEstimator):
    """What scorers see of a round: a fitted classifier that knows the scores of its rows, whatever X it is given."""

    def __init__(self, scores=None, classes=None, log_probabilities=None):
        self.scores, self.classes_, self.log_probabilities = scores, classes, log_probabilities

    def predict(self, X):
        """Labels of the largest scores."""
        return self.classes_[self.scores.argmax(axis=1)]

    def decision_function(self, X):
        """Scores, for two classes their difference."""
        return self.scores[:, 1] - self.scores[:, 0] if self.scores.shape[1] == 2 else self.scores

    @available_if(lambda self: self.log_probabilities is not None)
    def predict_proba(self, X):
        """Probabilities."""
        found = elementary.exp(self.log_probabilities(self.scores))
        return found / found.sum(axis=1, keepdims=True)
