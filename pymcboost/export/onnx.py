"""Export to ONNX: an ensemble of trees whose leaves vote for several classes, or a matrix product."""

from typing import Any

import numpy as np

from pymcboost._version import __version__
from pymcboost.export.forest import error_of, forest, of_one_label, votes

# Old enough for all current runtimes; trees are in the second set.
OPSETS = (("", 17), ("ai.onnx.ml", 3))
IR_VERSION = 8
# Factors of the scores in the softmax.
LINKS = {"none": 1.0, "softmax": 1.0, "softmax2": 2.0}
# Division of a score by less may give infinity in float32, and then NaN as a probability.
LEAST_TEMPERATURE = 1e-30


def to_onnx(model: Any) -> bytes:
    """Export a model to ONNX; needs onnx (``pip install 'pymcboost[onnx]'``).

    The input ``X`` is float32 of shape (m, n_features_in_). The outputs are ``label`` of shape (m,), integers or
    strings, ``scores`` of shape (m, K) and, if the model has probabilities, ``probabilities`` of shape (m, K).

    Parameters
    ----------
    model : Model or fitted estimator
        Model of stumps or trees, or linear machine. Interval tables, kernel machines and decoders are not supported.

    Returns
    -------
    bytes
        Contents of an .onnx file.

    Raises
    ------
    ValueError
        If ONNX cannot represent the model.
    ImportError
        If onnx is not installed.

    Notes
    -----
    ONNX runtimes add scores in float32. For stumps and trees, the metadata ``score_error`` is a bound on the difference
    from `Model.raw_scores`. Classes whose scores differ by more than twice this bound keep their order.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = VectorTreeBoostClassifier(n_estimators=5, random_state=0).fit(X, y)
    >>> import onnxruntime  # doctest: +SKIP
    >>> session = onnxruntime.InferenceSession(to_onnx(model))  # doctest: +SKIP
    >>> session.run(["label"], {"X": X[:2].astype("float32")})  # doctest: +SKIP
    [array([0, 0], dtype=int64)]
    """
    model = of_one_label(model)
    trees = None if model.ensemble.KIND == 5 else forest(model, "ONNX", ", and of linear machines")
    if (model.temperature or 1) < LEAST_TEMPERATURE:
        raise ValueError(
            "ONNX computes probabilities in float32, and the temperature "
            f"{model.temperature:g} is below {LEAST_TEMPERATURE:g}; use with_temperature to "
            "set a larger one, or None"
        )
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError:
        raise ImportError("ONNX needs the package onnx: pip install 'pymcboost[onnx]'") from None
    nodes, constants, error = (
        _linear(helper.make_node, model)
        if trees is None
        else _trees(helper.make_node, model, *trees)
    )
    constants["labels"] = _labels(model)
    nodes.append(helper.make_node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0))
    nodes.append(helper.make_node("Gather", ["labels", "best"], ["label"], axis=0))
    text = constants["labels"].dtype.kind == "O"
    k = model.n_classes_
    floats = TensorProto.FLOAT
    out = [
        ("label", TensorProto.STRING if text else TensorProto.INT64, ["m"]),
        ("scores", floats, ["m", k]),
    ]
    if model.link == "shares":
        constants["axes"], constants["zero"] = (
            np.array([1], dtype=np.int64),
            np.array(0, dtype=np.float32),
        )
        nodes.append(helper.make_node("Max", ["scores", "zero"], ["above"]))
        nodes.append(helper.make_node("ReduceSum", ["above", "axes"], ["sum"], keepdims=1))
        nodes.append(helper.make_node("Div", ["above", "sum"], ["probabilities"]))
        out.append(("probabilities", floats, ["m", k]))
    elif model.has_probabilities:
        constants["slope"] = np.array(
            LINKS[model.link] / (model.temperature or 1), dtype=np.float32
        )
        nodes.append(helper.make_node("Mul", ["scores", "slope"], ["scaled"]))
        nodes.append(helper.make_node("Softmax", ["scaled"], ["probabilities"], axis=1))
        out.append(("probabilities", floats, ["m", k]))
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("X", floats, ["m", model.n_features_in_])],
        [helper.make_tensor_value_info(*name_type_and_shape) for name_type_and_shape in out],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    made = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(*name_type_and_shape) for name_type_and_shape in OPSETS],
        ir_version=IR_VERSION,
        producer_name="pymcboost",
        producer_version=__version__,
    )
    helper.set_model_props(made, {} if error is None else {"score_error": repr(error)})
    checker.check_model(made)
    return made.SerializeToString()


def _labels(model):
    """Class labels in a type that ONNX supports."""
    classes = model.classes_
    return classes.astype(np.int64) if classes.dtype.kind in "iu" else classes.astype(object)


def _linear(node, model):
    """Nodes and constants for a linear machine."""
    ensemble = model.ensemble
    constants = {"coef": ensemble.coef, "intercept": ensemble.bias}
    return [node("Gemm", ["X", "coef", "intercept"], ["scores"], transB=1)], constants, None


def _trees(node, model, trees, code):
    """Nodes for stumps or trees, and a bound on the error of a score."""
    columns = {
        name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids")
    }
    columns |= {"falsenodeids": [], "missing_value_tracks_true": []}
    attribute_lists = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for t, tree in enumerate(trees):
        for number, tree_node in enumerate(tree["nodes"]):
            split = "feature" in tree_node
            row = (
                t,
                number,
                tree_node.get("feature", 0),
                tree_node.get("threshold", 0.0),
                "BRANCH_LEQ" if split else "LEAF",
            )
            row += (
                tree_node.get("left", 0),
                tree_node.get("right", 0),
                int(tree_node.get("missing") == "left"),
            )
            for values, value in zip(columns.values(), row, strict=True):
                values.append(value)
            rows = (
                ()
                if split
                else ((t, number, *vote) for vote in votes(tree_node["value"], tree, code))
            )
            for row in rows:
                for values, value in zip(attribute_lists.values(), row, strict=True):
                    values.append(value)
    attributes = {f"nodes_{name}": values for name, values in columns.items()}
    attributes |= {f"target_{name}": values for name, values in attribute_lists.items()}
    attributes |= {"n_targets": model.n_classes_, "domain": OPSETS[1][0]}
    # Runtimes ignore base_values for classes without a vote.
    nodes = [
        node("TreeEnsembleRegressor", ["X"], ["sums"], **attributes),
        node("Add", ["sums", "bias"], ["scores"]),
    ]
    return nodes, {"bias": model.ensemble.bias}, error_of(model, trees, code)
