"""Whole models as text, JSON and a table of nodes; docs/json.md describes the schema."""

from typing import Any

import numpy as np

from pymcboost.inspection.subject import model_of, name_of
from pymcboost.model import dump


def to_json(model: Any) -> str:
    """Dump a model as JSON, as ``mcboost-info --dump json`` does.

    The object contains everything that is needed to compute scores. docs/json.md describes it.

    Parameters
    ----------
    model : Model or fitted estimator
        Model of any kind.

    Returns
    -------
    str
        One JSON object.

    Examples
    --------
    >>> import json
    >>> import numpy as np
    >>> from pymcboost import MCBoostClassifier
    >>> X, y = np.arange(12.0).reshape(-1, 1), np.repeat([0, 1, 2], 4)
    >>> model = MCBoostClassifier(n_estimators=2).fit(X, y).model_
    >>> json.loads(to_json(model))["classes"]
    [0, 1, 2]
    """
    return "".join(dump.as_json(model_of(model)))


def to_text(model: Any) -> str:
    """Dump a model as text, as ``mcboost-info --dump text`` does.

    Features without names are shown by their numbers in the training file, or counted from 1 if there was no file.

    Parameters
    ----------
    model : Model or fitted estimator
        Model of any kind.

    Returns
    -------
    str
        Lines of text.
    """
    return "".join(dump.as_text(model_of(model)))


def to_frame(model: Any) -> Any:
    """Dump the nodes of all trees as a pandas data frame; needs pandas.

    Parameters
    ----------
    model : Model or fitted estimator
        Model of stumps or trees.

    Returns
    -------
    DataFrame
        One row per node, with these columns:

        - round, tree, node, depth: numbers from 0. Node 0 is the root.
        - class, base: labels of the classes to whose scores the leaf value is added, and from which it is subtracted.
          "column j" for a column of an output code, None if there is no such class.
        - feature: name of the feature, None for a leaf.
        - threshold, missing, left, right: the split, the side of missing values ("left" or "right"), and the children.
        - value: value of a leaf. Leaves with one value per class have columns "value LABEL" instead.
        - cover: number of rows in the node, if the model has covers.
        - levels: categories that go left, instead of a threshold, if the model has categorical features.

    Raises
    ------
    ValueError
        If the model is an interval table or a machine, which have no nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from pymcboost import MCBoostClassifier
    >>> X, y = np.arange(12.0).reshape(-1, 1), np.repeat([0, 1, 2], 4)
    >>> model = MCBoostClassifier(n_estimators=2).fit(X, y).model_
    >>> to_frame(model)[["tree", "node", "feature", "threshold", "left", "right"]].head(3)
       tree  node feature  threshold  left  right
    0     0     0      x0        3.5     1      2
    1     0     1    None        NaN  <NA>   <NA>
    2     0     2    None        NaN  <NA>   <NA>
    """
    import pandas

    model = model_of(model)
    contents = dict(model.ensemble.dump())
    if "trees" not in contents:
        raise ValueError(
            "to_frame needs a model with trees, for one row per node; this one has none "
            f"({model.ensemble.NAME})"
        )
    labels = model.classes_.tolist()
    rows = list(_nodes(model, labels, contents))
    columns = [
        "round",
        "tree",
        "node",
        "depth",
        "class",
        "base",
        "feature",
        "threshold",
        "missing",
        "left",
        "right",
    ]
    has_vectors = len(rows) > 0 and rows[0]["class"] is None
    columns += [f"value {label}" for label in labels] if has_vectors else ["value"]
    if model.has_covers:
        columns.append("cover")
    if model.categories is not None:
        columns.append("levels")
    frame = pandas.DataFrame(rows, columns=columns)
    for name in ("feature", "missing", "class", "base"):
        frame[name] = frame[name].astype(object).where(frame[name].notna(), None)
    return frame.astype({"left": "Int64", "right": "Int64"})


def _nodes(model, labels, contents):
    """Yield the rows of the data frame for a model's dump."""
    trees_per_round = contents["rounds"]
    rounds = np.repeat(np.arange(len(trees_per_round)), trees_per_round).tolist()
    has_code = contents["code"] is not None
    for number, tree in enumerate(contents["trees"]):
        tree_columns = {"round": rounds[number], "tree": number}
        for name in ("class", "base"):
            column = tree[name]
            if column is None:
                tree_columns[name] = None
            else:
                tree_columns[name] = f"column {column}" if has_code else labels[column]
        depth = {0: 0}
        for node_index, node in enumerate(tree["nodes"]):
            for side in ("left", "right"):
                if side in node:
                    depth[node[side]] = depth[node_index] + 1
            row = {**tree_columns, "node": node_index, "depth": depth[node_index], **node}
            if "feature" in node:
                row["feature"] = name_of(model, node["feature"])
            elif isinstance(node["value"], list):
                del row["value"]
                row |= {f"value {label}": v for label, v in zip(labels, node["value"], strict=True)}
            yield row
