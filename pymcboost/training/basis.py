"""scikit-learn's part in a training, or what stands for it in a program; see `plain`."""

from typing import TYPE_CHECKING

import numpy as np

from pymcboost.model.rows import own
from pymcboost.training import plain

if TYPE_CHECKING or not plain.wanted:
    from sklearn.base import BaseEstimator as BaseEstimator
    from sklearn.base import ClassifierMixin as ClassifierMixin
    from sklearn.utils import check_consistent_length as check_consistent_length
    from sklearn.utils import check_random_state as check_random_state
    from sklearn.utils import column_or_1d as column_or_1d
    from sklearn.utils.multiclass import check_classification_targets as check_classification_targets
    from sklearn.utils.validation import _check_sample_weight as _check_sample_weight
    from sklearn.utils.validation import check_is_fitted as check_is_fitted
    from sklearn.utils.validation import validate_data as validate_data
else:
    from pymcboost.training.plain import BaseEstimator as BaseEstimator
    from pymcboost.training.plain import ClassifierMixin as ClassifierMixin
    from pymcboost.training.plain import _check_sample_weight as _check_sample_weight
    from pymcboost.training.plain import check_classification_targets as check_classification_targets
    from pymcboost.training.plain import check_consistent_length as check_consistent_length
    from pymcboost.training.plain import check_is_fitted as check_is_fitted
    from pymcboost.training.plain import check_random_state as check_random_state
    from pymcboost.training.plain import column_or_1d as column_or_1d
    from pymcboost.training.plain import validate_data as validate_data


def weights_of_rows(weight, X):
    """The weights that are given, not negative, or ones: float64 (m,)."""
    return _check_sample_weight(None if weight is None else own(weight), X, dtype=np.float64, ensure_non_negative=True)
