"""Dumps of a whole model as JSON or text; docs/json.md describes the schema."""

import json

from pymcboost.threads import counted

# Schema version: a reader of this version can read the output of this module.
SCHEMA = 1
KINDS = {1: "trees", 2: "intervals", 3: "trees", 5: "linear", 6: "kernel"}


def head(model):
    """Common start of all dumps."""
    meta = model.information
    ensemble = model.ensemble
    names = meta.get("feature_names")
    has_names = isinstance(names, list) and len(names) == model.n_features_in_
    thresholds = {"thresholds": model.thresholds.tolist()} if model.thresholds.any() else {}
    return {
        "schema": SCHEMA,
        "kind": KINDS[ensemble.KIND],
        "classes": model.classes_.tolist(),
        "n_features": model.n_features_in_,
        "feature_names": names if has_names else None,
        "index_base": model.index_base,
        "link": model.link,
        "temperature": model.temperature,
        **thresholds,
        "decoder": ensemble.decoder,
        "meta": meta,
        "bias": ensemble.bias.tolist(),
    }


def as_json(model):
    """Yield pieces of a JSON object; every tree, feature and support vector has its own line."""
    members = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head(model).items()]
    yield "{" + ",\n".join(members)
    for name, value in model.ensemble.dump():
        yield f",\n{json.dumps(name)}: "
        if not hasattr(value, "__next__"):
            yield json.dumps(value)
            continue
        yield "["
        for number, item in enumerate(value):
            yield (",\n" if number else "\n") + json.dumps(item)
        yield "\n]"
    yield "}\n"


def as_text(model):
    """Yield lines of text with the same content: one per node, interval, class or support vector."""
    facts = head(model)
    names = _Names(facts, model.ensemble.code is not None)
    for name, value in facts.items():
        if name != "feature_names":
            yield f"{name} {json.dumps(value)}\n"
    for name, value in model.ensemble.dump():
        if not hasattr(value, "__next__"):
            yield f"{name} {json.dumps(value)}\n"
            continue
        for number, item in enumerate(value):
            yield from _LINES[name](number, item, names)


def condition_of(node):
    """Condition of a split, in words."""
    if "levels" not in node:
        return f"<= {node['threshold']!r}"
    levels = ", ".join(json.dumps(level, ensure_ascii=False) for level in node["levels"])
    return f"in {{{levels}}}"


class _Names:
    """Labels of features, by name or by number in the training file, and of the columns of scores."""

    def __init__(self, head, coded):
        self._names = head["feature_names"]
        self._classes = None if coded else head["classes"]
        self._base = 1 if head["index_base"] is None else head["index_base"]

    def feature(self, j):
        return json.dumps(str(self._names[j])) if self._names else f"x{j + self._base}"

    def column(self, k):
        return f"column {k}" if self._classes is None else f"class {json.dumps(self._classes[k])}"


# The next functions yield the lines of the item with this number; `_LINES` has them by the name of the items.


def _tree(number, tree, names):
    to = "all classes" if tree["class"] is None else names.column(tree["class"])
    base = "" if tree["base"] is None else f", less {names.column(tree['base'])}"
    yield f"tree {number}: {to}{base}\n"
    for node_index, node in enumerate(tree["nodes"]):
        rows = f", {counted(node['cover'], 'row')}" if "cover" in node else ""
        if "value" in node:
            yield f"  {node_index}: {_numbers(node['value'])}{rows}\n"
        else:
            split = f"{names.feature(node['feature'])} {condition_of(node)}"
            missing = node[node["missing"]]
            yield f"  {node_index}: {split} ? {node['left']} : {node['right']}, missing {missing}{rows}\n"


def _intervals(number, table, names):
    yield f"{names.feature(table['feature'])}:\n"
    for threshold, values in zip([*table["thresholds"], None], table["values"], strict=True):
        yield f"  {'above' if threshold is None else f'<= {threshold!r}'}: {_numbers(values)}\n"
    yield f"  missing: {_numbers(table['missing'])}\n"


def _coefficients(number, row, names):
    yield f"{names.column(number)}: {_entries(row, names)}\n"


def _vector(number, support_vector, names):
    yield f"vector {number}: {_numbers(support_vector['coef'])} | {_entries(support_vector['x'], names)}\n"


def _entries(row, names):
    return " ".join(f"{names.feature(j)}:{value!r}" for j, value in enumerate(row) if value)


def _numbers(values):
    return " ".join(map(repr, values)) if isinstance(values, list) else repr(values)


_LINES = {"trees": _tree, "features": _intervals, "coef": _coefficients, "support": _vector}
