"""Answers of ``mcboost-predict`` for rows with any number of labels."""

import numpy as np

from pymcboost.cli.answers import words
from pymcboost.cli.console import whole_file
from pymcboost.data.svmlabels import indicator
from pymcboost.training import labels

TITLES = {
    "hamming_loss": "Hamming loss",
    "log_loss": "Cross-entropy",
    "f1_micro": "Micro F1",
    "f1_macro": "Macro F1",
    **{f"precision_at_{k}": f"Precision at {k}" for k in labels.FIRST},
}


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


def measures(scores, thresholds, has, unknown=0):
    """The metrics of the history by their names, at the thresholds of the labels.

    ``unknown``: so many labels of these rows are not the model's; they count as missed.
    """
    from pymcboost.training.metrics import Held

    above, held = scores - thresholds, Held("", None, None, has, None)
    right, sizes = labels.counts(above, held)
    return {
        "hamming_loss": labels.hamming_loss(above, held, None) + unknown / has.size,
        "log_loss": labels.cross_entropy(scores, held, None),
        "f1_micro": labels.f1(right.sum(), sizes.sum() + unknown),
        "f1_macro": labels.f1_macro(above, held, None),
        **{f"precision_at_{k}": labels.precision_at(k)(scores, held, None) for k in labels.FIRST},
    }


def _right(given, scores, lists, model):
    """Lines in the manner of LIBSVM's tools; labels that the model does not know count as missed."""
    has, _ = indicator(lists, model.classes_)
    unknown = np.array([len(one) for one in lists]) - has.sum(axis=1)
    whole = ((given == has).all(axis=1) & (unknown == 0)).sum()
    yield f"Exact match = {100 * whole / len(has):g}% ({whole}/{len(has)})"
    for name, value in measures(scores, model.thresholds, has, unknown.sum()).items():
        yield f"{TITLES[name]} = {value:.6g}"
