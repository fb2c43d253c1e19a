"""The few lines of scikit-learn that a training needs whose rows, labels and weights are checked already.

``mcboost-train`` reads its rows itself. Without scikit-learn, which takes a second to load, small files are trained on
in a fraction of that.
"""

from dataclasses import fields

import numpy as np

# Set by a program before it loads the estimators: they are then made of these in place of scikit-learn's bases.
wanted = False


class ClassifierMixin:
    """Nothing that a training needs."""


class BaseEstimator:
    """Parameters are the fields."""

    def get_params(self, deep=True):
        """Parameters by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params):
        """Change parameters."""
        vars(self).update(params)
        return self


def validate_data(estimator, X, y=None, reset=True, **_):
    """Keep the number of features."""
    if reset:
        estimator.n_features_in_ = X.shape[1]
    return X if y is None else (X, y)


def _check_sample_weight(weight, X, dtype, **_):
    return np.ones(X.shape[0], dtype) if weight is None else weight


def check_random_state(seed):
    """A generator of random numbers."""
    return seed if isinstance(seed, np.random.RandomState) else np.random.RandomState(seed)


def column_or_1d(y):
    """What is given."""
    return y


def check_nothing(*_):
    """What the program has checked."""


check_classification_targets = check_consistent_length = check_is_fitted = check_nothing
