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
    given = None if weight is None else own(weight)
    try:
        return _check_sample_weight(given, X, dtype=np.float64, ensure_non_negative=True)
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{_fault_of_weights(given, X.shape[0])} ({str(error)[:80]})") from error


def _fault_of_weights(weight, n_rows):
    """What is wrong with sample weights that are refused, and what they may be."""
    allowed = f"give one number >= 0 for each of {n_rows} rows"
    if isinstance(weight, (str, dict)):
        return f"sample_weight is a {type(weight).__name__}; {allowed}; class_weight of the constructor weights classes"
    try:
        values = np.asarray(weight, dtype=np.float64)
    except (ValueError, TypeError):
        return f"sample_weight holds what is no number; {allowed}"
    if values.shape not in ((), (n_rows,)):
        return f"sample_weight has the shape {values.shape}; {allowed}"
    wrong = np.flatnonzero(~((values >= 0) & (values < np.inf)))
    if len(wrong):
        value = values.ravel()[wrong[0]]
        return f"sample_weight[{wrong[0]}] is {value:g}; weights are finite numbers >= 0, and 0 leaves a row out"
    return "all sample weights are 0; give a weight above 0 to the rows that count"
