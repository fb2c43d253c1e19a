"""Answers of ``mcboost-predict`` for rows with any number of labels."""

import numpy as np

from pymcboost.cli.answers import words
from pymcboost.cli.console import whole_file
from pymcboost.data.svmlabels import indicator


def answer_lists(model, data, arguments):
    """Write the labels of every row, with commas between them; the lines about how many are right.

    With values there is a first line ``labels ...``, and after the labels, or nothing, come the values of all.
    """
    scores = model.raw_scores(data.X, n_jobs=arguments.n_jobs)
    given, names, values = scores > model.thresholds, words(model), None
    if arguments.probability:
        values = model.predict_proba(data.X, n_jobs=arguments.n_jobs)
    elif arguments.decision_values:
        values = scores
    with whole_file(arguments.output_file, "output file") as stream:
        if values is not None:
            stream.write(f"labels {' '.join(names)}\n")
        for i, row in enumerate(given):
            own = "" if values is None else "".join(f" {value:.17g}" for value in values[i].tolist())
            stream.write(f"{','.join(names[k] for k in np.flatnonzero(row))}{own}\n")
    if not data.labelled.any() or model.classes_.dtype.kind != "i":
        return None
    return "\n".join(_right(given, scores, data.y, model))


def cross_entropy(scores, has):
    """Mean over rows and labels of -log p where the row has the label, and of -log(1 - p) elsewhere."""
    return np.logaddexp(0, np.where(has > 0, -scores, scores)).mean()


def _right(given, scores, lists, model):
    """Lines in the manner of LIBSVM's tools; labels that the model does not know count as missed."""
    has, _ = indicator(lists, model.classes_)
    unknown = np.array([len(one) for one in lists]) - has.sum(axis=1)
    right, whole = given & (has > 0), ((given == has).all(axis=1) & (unknown == 0)).sum()
    sizes = given.sum(axis=0) + has.sum(axis=0)
    yield f"Exact match = {100 * whole / len(has):g}% ({whole}/{len(has)})"
    yield f"Hamming loss = {((given != has).sum() + unknown.sum()) / has.size:.6g}"
    yield f"Cross-entropy = {cross_entropy(scores, has):.6g}"
    yield f"Micro F1 = {2 * right.sum() / max(sizes.sum() + unknown.sum(), 1):.6g}"
    yield f"Macro F1 = {np.mean(2 * right.sum(axis=0) / np.maximum(sizes, 1)):.6g}"
    first = np.argsort(-scores, axis=1, kind="stable")
    for k in (1, 3, 5):
        share = np.take_along_axis(has, first[:, :k], axis=1).mean()
        yield f"Precision at {k} = {share:.6g}"
