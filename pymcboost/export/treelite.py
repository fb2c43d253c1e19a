"""Export to treelite, and so to the runtimes that read its format."""

from typing import Any

import numpy as np

from pymcboost.export.forest import error_of, forest, of_one_label, votes


def to_treelite(model: Any) -> bytes:
    """Export a model to treelite; needs treelite (``pip install treelite``).

    Predictions are the K scores. treelite does not compute the probabilities.

    Parameters
    ----------
    model : Model or fitted estimator
        Model of stumps or trees. Interval tables, machines and decoders are not supported.

    Returns
    -------
    bytes
        Serialized model for ``treelite.Model.deserialize_bytes``, or contents of a file for ``deserialize``.

    Raises
    ------
    ValueError
        If treelite cannot represent the model.
    ImportError
        If treelite is not installed.

    Notes
    -----
    treelite adds scores in float32. The attribute ``score_error`` is a bound on the difference from `Model.raw_scores`.
    Classes whose scores differ by more than twice this bound keep their order. The attribute ``classes`` holds the
    labels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = VectorTreeBoostClassifier(n_estimators=5, random_state=0).fit(X, y)
    >>> import treelite  # doctest: +SKIP
    >>> forest = treelite.Model.deserialize_bytes(to_treelite(model))  # doctest: +SKIP
    >>> treelite.gtil.predict(forest, X[:2]).argmax(axis=-1).ravel()  # doctest: +SKIP
    array([0, 0])
    """
    model = of_one_label(model)
    trees, code = forest(model, "treelite's format")
    try:
        from treelite import model_builder as treelite
    except ImportError:
        raise ImportError(
            "treelite's format needs the package treelite: pip install treelite"
        ) from None
    k = model.n_classes_
    # Whether each tree changes the score of one class, so that its leaves are numbers.
    has_single_classes = code is None and all(
        tree["class"] is not None and tree["base"] is None for tree in trees
    )
    builder = treelite.ModelBuilder(
        threshold_type="float32",
        leaf_output_type="float32",
        metadata=treelite.Metadata(
            num_feature=model.n_features_in_,
            task_type="kMultiClf",
            average_tree_output=False,
            num_target=1,
            num_class=[k],
            leaf_vector_shape=(1, 1 if has_single_classes else k),
        ),
        tree_annotation=treelite.TreeAnnotation(
            num_tree=len(trees),
            target_id=[0] * len(trees),
            class_id=[tree["class"] if has_single_classes else -1 for tree in trees],
        ),
        postprocessor=treelite.PostProcessorFunc(name="identity_multiclass"),
        base_scores=model.ensemble.bias.tolist(),
        attributes={
            "classes": model.classes_.tolist(),
            "score_error": error_of(model, trees, code),
        },
    )
    for tree in trees:
        builder.start_tree()
        for number, node in enumerate(tree["nodes"]):
            builder.start_node(number)
            if "value" in node:
                vector = np.zeros(k)
                for cls, value in votes(node["value"], tree, code):
                    vector[cls] = value
                builder.leaf(node["value"] if has_single_classes else vector.tolist())
            else:
                builder.numerical_test(
                    node["feature"],
                    node["threshold"],
                    default_left=node["missing"] == "left",
                    opname="<=",
                    left_child_key=node["left"],
                    right_child_key=node["right"],
                )
            builder.end_node()
        builder.end_tree()
    return builder.commit().serialize_bytes()
