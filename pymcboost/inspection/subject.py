"""The subject of an inspection: the model of an estimator, and its features by name."""

from operator import index

import numpy as np

from pymcboost.model.model import Model


def model_of(subject):
    """Return the `Model`: the argument itself, or the model of a fitted estimator."""
    model = subject if isinstance(subject, Model) else getattr(subject, "model_", subject)
    if isinstance(model, Model):
        return model
    if callable(getattr(getattr(model, "ensemble", None), "kernel", None)):
        raise TypeError(
            f"the kernel of this {type(subject).__name__} is a Python function, so there is no "
            "Model to inspect; use predict, or sklearn.inspection.permutation_importance"
        )
    if hasattr(subject, "fit"):
        raise TypeError(f"{type(subject).__name__} is not fitted yet; call fit first")
    raise TypeError(
        f"give a Model or a fitted estimator of pymcboost, not {type(subject).__name__}; load_model "
        "reads a file"
    )


def sum_of_learners(model, task, remedy=""):
    """The ensemble of a model whose scores are sums over weak learners; ValueError for other models."""
    ensemble = model.ensemble
    if model.is_machine:
        raise ValueError(
            f"{task} are available for stumps and trees, not for a {ensemble.NAME} "
            f"(HingeBoost){remedy}"
        )
    if ensemble.decoder != "linear":
        raise ValueError(
            f"{task} are parts of a sum, but the scores of this model are decoded from the "
            f"columns of its code (decoder {ensemble.decoder!r}). Train it with "
            "decoder='linear' if the estimator has it"
        )
    return ensemble


def feature_number(model, feature):
    """Column of a feature, which is given by number or name."""
    names = model.feature_names
    d = model.n_features_in_
    if isinstance(feature, str):
        if names is None:
            raise ValueError(
                f"feature {feature!r}: this model has no feature names; give a number below {d}"
            )
        if feature not in names:
            raise ValueError(f"there is no feature {feature!r}; the features are {some(names)}")
        return names.index(feature)
    number = index(feature)
    if not 0 <= number < d:
        raise ValueError(f"there is no feature {number}; feature numbers go from 0 to {d - 1}")
    return number


def name_of(model, feature):
    """Display name of a column: from the data frame, or x and its number in the training file."""
    names = model.feature_names
    base = model.index_base
    return names[feature] if names else f"x{feature + (base or 0)}"


def class_number(model, label):
    """Position of a class label."""
    positions = np.flatnonzero(model.classes_ == label)
    if len(positions) != 1:
        raise ValueError(
            f"there is no class {label!r}; the classes are {some(model.classes_.tolist())}"
        )
    return int(positions[0])


def some(names, n=8):
    """List the first n names in words."""
    shown = ", ".join(map(repr, names[:n]))
    return f"{shown} and {len(names) - n} more" if len(names) > n else shown
