"""A model file as an array of bytes in C, which `mcb.h` scores."""

from typing import Any

import numpy as np

from pymcboost._version import __version__
from pymcboost.export.ctext import array, identifier
from pymcboost.inspection.subject import model_of


def to_c(model: Any, name: str = "model") -> str:
    """Write the model file as an array in C source code.

    The source code is valid C99 and C++. A program includes it together with ``mcb.h`` and needs no model file at run
    time. A comment shows how to open the model and to score a row.

    Parameters
    ----------
    model : Model or fitted estimator
        Model of any kind. Its layout is kept.
    name : str, default="model"
        Prefix of the array, which is called ``NAME_bytes``.

    Returns
    -------
    str
        C source code.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import MCBoostClassifier
    >>> code = to_c(MCBoostClassifier(n_estimators=5).fit(*load_iris(return_X_y=True)), name="iris")
    >>> "iris_bytes" in code
    True
    """
    model = model_of(model)
    identifier(name)
    data = model.to_bytes()
    lines = [
        f"/* {model.ensemble.NAME}: {model.n_classes_} classes, {model.n_features_in_} features; {len(data)} bytes.",
        f" * Written by pymcboost {__version__}. mcb.h scores it; the bytes need no alignment.",
        " *",
        *(f" *     {line}" for line in _usage(model, name)),
        " */",
        *array(f"{name}_bytes", np.frombuffer(data, dtype=np.uint8), type_name="unsigned char"),
    ]
    return "\n".join(lines) + "\n"


def _usage(model, name):
    """Lines of a function in C that scores a row of floats."""
    yield f"mcb_model model; double scores[{model.n_classes_}];"
    yield f"if (mcb_open(&model, {name}_bytes, sizeof {name}_bytes) != MCB_OK) return 1;"
    yield f"float row[{model.n_features_in_}]; // {_first_feature(model)}"
    yield "mcb_scores(&model, row, scores);"
    if model.link == "sigmoid":
        yield f"unsigned char given[{model.n_classes_}]; mcb_labels_above(&model, scores, given);"
    elif model.classes_.dtype.kind in "iu":
        yield "int64_t label = mcb_label_int(&model, mcb_argmax(&model, scores));"
    else:
        yield "size_t length; const char *label = mcb_label_text(&model, mcb_argmax(&model, scores), &length);"


def _first_feature(model):
    """Describe the first value of a row, for a comment."""
    if model.feature_names is not None:
        return "in the order of the model's feature names"
    return f"row[0] is the feature with index {1 if model.index_base is None else model.index_base}"
