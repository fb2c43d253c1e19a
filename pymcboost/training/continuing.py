"""Trainings that continue from a given model, the ``init_model`` of `fit`, with new rows and any parameters."""

from os import PathLike

import numpy as np

from pymcboost.losses import LOSSES, PAIRWISE
from pymcboost.model.model import Model, load_model
from pymcboost.model.rows import positions
from pymcboost.threads import counted
from pymcboost.training.booster import Previous
from pymcboost.training.gains import Gains
from pymcboost.training.inputs import labels_of_file
from pymcboost.training.parameters import values_of


def previous_of(init_model, estimator):
    """Read the rounds of a model, a file or a fitted estimator, to which this estimator will add.

    Raises
    ------
    ValueError, TypeError
        Where it is none of these, or of another algorithm, or has no rounds that others can be added to.
    """
    params = values_of(estimator)
    if params["warm_start"]:
        raise ValueError(
            "warm_start adds rounds to the estimator's own model, init_model to the given "
            "one; use only one of them"
        )
    if params["n_estimators"] == "auto":
        raise ValueError(
            'n_estimators="auto" trains new models in every fold, so it cannot be used with '
            "init_model; give the number of rounds to add"
        )
    source = load_model(init_model) if isinstance(init_model, (str, PathLike)) else init_model
    model = getattr(source, "model_", source)
    if not isinstance(model, Model):
        raise TypeError(
            f"init_model must be a Model, a model file or a fitted estimator, not {init_model!r}"
        )
    algorithm = model.information.get("algorithm", "unknown")
    if algorithm != estimator.algorithm:
        raise ValueError(
            f"init_model: its algorithm is {algorithm}, but {type(estimator).__name__} can only "
            f"continue {estimator.algorithm} models, with their original meta"
        )
    if not model.has_stages:
        raise ValueError(f"init_model: no rounds can be added to {model!r}; train a new model")
    refuse_reweighted(model, "init_model: its bias")
    gain = Gains.of(source.gain_) if hasattr(source, "gain_") else Gains(model.n_features_in_)
    history = getattr(source, "history_", {})
    history = {name: values for name, values in history.items() if len(values) == model.n_rounds}
    classes = getattr(source, "classes_", model.classes_)
    return Previous(model, model.n_rounds, history, gain, source="init_model", classes=classes)


def model_to_continue(estimator, warm_start, initial):
    """The model to which a training adds rounds, of a warm start or of ``init_model``; None if it begins anew."""
    if warm_start:
        return estimator.model_
    return None if initial is None else initial.model


def refuse_reweighted(model, source):
    """Refuse a model whose reweighted bias would be lost if training continues. A model without rounds is fine."""
    if not model.n_learners:
        return
    params = model.information.get("params", {})
    loss = params.get("loss", "softmax")
    begins_at_zero = loss in PAIRWISE or (loss in LOSSES and not LOSSES[loss].begins)
    if model.ensemble.bias.any() and not params.get("restore_priors") and begins_at_zero:
        raise ValueError(
            f"{source} comes from reweighted() and would be lost; give the model before reweighting"
        )


def left_by(model):
    """Identify the model of the last fit by algorithm, number of learners and bias, to notice later changes to it."""
    n_learners = getattr(model, "n_learners", None)
    if n_learners is None:  # kernel machines with a Python kernel have no ensemble
        return None, None, None
    return model.information.get("algorithm"), n_learners, model.ensemble.bias.tolist()


def of_last_fit(draft):
    """Read the rounds for a warm start from the model of the last fit."""
    model = draft.model_
    has_stages = getattr(model, "has_stages", False)
    rounds = model.n_rounds if has_stages else draft.n_estimators_
    *learners, bias = left_by(model)
    *learners_then, bias_then = draft._left
    if learners != learners_then or rounds != draft.n_estimators_:
        raise ValueError(
            "warm_start: model_ was truncated, merged or replaced after the last fit; set "
            "warm_start=False to train a new model"
        )
    if bias_then is None and bias is not None:
        refuse_reweighted(model, "warm_start: the bias of model_")
    # Leaves may be float16.
    elif bias_then is not None and not np.allclose(bias, bias_then, rtol=2**-8, atol=1e-6):
        raise ValueError(
            "warm_start: the bias of model_ comes from reweighted() and would be lost; give "
            "the model before reweighting"
        )
    return Previous(
        model, draft.n_estimators_, draft.history_, gain=Gains.of(draft.gain_), kept=draft._kept
    )


def check_init_score(draft, has_init_score):
    """Refuse a warm start if only one of the two fits has an init_score."""
    had_init_score = getattr(draft, "_has_init_score", False)
    if had_init_score and not has_init_score:
        raise ValueError(
            "warm_start: the existing rounds were fitted with init_score; give the init_score "
            "of these rows again"
        )
    if has_init_score and not had_init_score:
        raise ValueError(
            "warm_start: the existing rounds were fitted without init_score; leave it out, or "
            "set warm_start=False"
        )


def check_columns(n_features, names, model):
    """Refuse rows with other features than the model's; ``names`` are the names of the rows' columns, or None."""
    if n_features != model.n_features_in_:
        raise ValueError(
            f"init_model: it has {counted(model.n_features_in_, 'feature')}, but X has "
            f"{n_features}; give the same columns"
        )
    if names is not None and model.feature_names is not None and names != model.feature_names:
        pairs = zip(names, model.feature_names, strict=True)
        column = next(i for i, (name, model_name) in enumerate(pairs) if name != model_name)
        raise ValueError(
            f"init_model: column {column} is {names[column]!r} here, but {model.feature_names[column]!r} "
            "in the model; give the same columns in the same order"
        )


def codes_in(previous, labels, codes):
    """Translate codes of the rows' own ``labels`` into codes of the model's classes; return both classes and codes."""
    model_labels = previous.model.classes_
    new_labels = labels_of_file(labels)
    class_index = np.full(len(new_labels), -1)
    if (model_labels.dtype.kind in "OU") == (new_labels.dtype.kind in "OU"):
        class_index = positions(model_labels, new_labels)
    is_new = class_index < 0
    if is_new.any():
        more = "..." if len(model_labels) > 5 else ""
        raise ValueError(
            f"init_model: y has the label {labels[is_new].tolist()[0]!r}, which is not a class of "
            f"the model; its classes are {model_labels[:5].tolist()}{more}. To add classes, train a "
            "new model"
        )
    return previous.classes, class_index[codes]
