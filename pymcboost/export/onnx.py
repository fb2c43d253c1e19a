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
# A score divided by a smaller temperature may be infinite in float32, and then a probability would be NaN.
LEAST_TEMPERATURE = 1e-30
# Attributes of the nodes of all trees, and of the votes of their leaves.
NODE_ATTRIBUTES = (
    "treeids",
    "nodeids",
    "featureids",
    "values",
    "modes",
    "truenodeids",
    "falsenodeids",
    "missing_value_tracks_true",
)
VOTE_ATTRIBUTES = ("treeids", "nodeids", "ids", "weights")


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
    node = helper.make_node
    if trees is None:
        nodes, constants, error = _linear(node, model)
    else:
        nodes, constants, error = _trees(node, model, *trees)
    constants["labels"] = _labels(model)
    nodes.append(node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0))
    nodes.append(node("Gather", ["labels", "best"], ["label"], axis=0))
    label_type = TensorProto.INT64
    if constants["labels"].dtype.kind == "O":
        label_type = TensorProto.STRING
    k = model.n_classes_
    floats = TensorProto.FLOAT
    outputs = [("label", label_type, ["m"]), ("scores", floats, ["m", k])]
    if model.link == "shares":
        constants["axes"] = np.array([1], dtype=np.int64)
        constants["zero"] = np.array(0, dtype=np.float32)
        nodes.append(node("Max", ["scores", "zero"], ["above"]))
        nodes.append(node("ReduceSum", ["above", "axes"], ["sum"], keepdims=1))
        nodes.append(node("Div", ["above", "sum"], ["probabilities"]))
        outputs.append(("probabilities", floats, ["m", k]))
    elif model.has_probabilities:
        slope = LINKS[model.link] / (model.temperature or 1)
        constants["slope"] = np.array(slope, dtype=np.float32)
        nodes.append(node("Mul", ["scores", "slope"], ["scaled"]))
        nodes.append(node("Softmax", ["scaled"], ["probabilities"], axis=1))
        outputs.append(("probabilities", floats, ["m", k]))
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("X", floats, ["m", model.n_features_in_])],
        [helper.make_tensor_value_info(*output) for output in outputs],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    onnx_model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in OPSETS],
        ir_version=IR_VERSION,
        producer_name="pymcboost",
        producer_version=__version__,
    )
    helper.set_model_props(onnx_model, {} if error is None else {"score_error": repr(error)})
    checker.check_model(onnx_model)
    return onnx_model.SerializeToString()


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
    attributes = {f"nodes_{name}": [] for name in NODE_ATTRIBUTES}
    attributes |= {f"target_{name}": [] for name in VOTE_ATTRIBUTES}
    for t, tree in enumerate(trees):
        for number, tree_node in enumerate(tree["nodes"]):
            is_split = "feature" in tree_node
            values = (
                t,
                number,
                tree_node.get("feature", 0),
                tree_node.get("threshold", 0.0),
                "BRANCH_LEQ" if is_split else "LEAF",
                tree_node.get("left", 0),
                tree_node.get("right", 0),
                int(tree_node.get("missing") == "left"),
            )
            for name, value in zip(NODE_ATTRIBUTES, values, strict=True):
                attributes[f"nodes_{name}"].append(value)
            if is_split:
                continue
            for vote in votes(tree_node["value"], tree, code):
                for name, value in zip(VOTE_ATTRIBUTES, (t, number, *vote), strict=True):
                    attributes[f"target_{name}"].append(value)
    attributes |= {"n_targets": model.n_classes_, "domain": OPSETS[1][0]}
    # Runtimes ignore base_values for classes without a vote.
    nodes = [
        node("TreeEnsembleRegressor", ["X"], ["sums"], **attributes),
        node("Add", ["sums", "bias"], ["scores"]),
    ]
    return nodes, {"bias": model.ensemble.bias}, error_of(model, trees, code)
