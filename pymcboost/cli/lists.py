"""Output of ``mcboost-predict`` for multi-label models."""

import numpy as np

from pymcboost.cli.answers import unknown_labels, words
from pymcboost.cli.console import whole_file
from pymcboost.data.svmlabels import distinct_labels, indicator

FIRST = 1, 3, 5
TITLES = {
    "hamming_loss": "Hamming loss",
    "log_loss": "Cross-entropy",
    "f1_micro": "Micro F1",
    "f1_macro": "Macro F1",
    **{f"precision_at_{k}": f"Precision at {k}" for k in FIRST},
}


def answer_lists(model, data, arguments, note):
    """Write the labels of every row, separated by commas; return lines with the metrics, or nothing without labels.

    With values, a first line ``labels ...`` lists the classes, and the values of all classes follow the labels of a
    row.
    """
    scores = model.raw_scores(data.X, n_jobs=arguments.n_jobs)
    predicted = scores > model.thresholds
    names = words(model)
    values = None
    if arguments.probability:
        values = model.predict_proba(data.X, n_jobs=arguments.n_jobs)
    elif arguments.decision_values:
        values = scores
    with whole_file(arguments.output_file, "output file") as stream:
        if values is not None:
            stream.write(f"labels {' '.join(names)}\n")
        for i, row in enumerate(predicted):
            stream.write(",".join(names[k] for k in np.flatnonzero(row)))
            if values is not None:
                stream.writelines(f" {value:.17g}" for value in values[i].tolist())
            stream.write("\n")
    if not data.labelled.any() or model.classes_.dtype.kind != "i":
        return None
    return "\n".join(_metric_lines(predicted, scores, data.y, model, note))


def measures(scores, thresholds, has, unknown=0):
    """The multi-label metrics by name, at the thresholds of the model, computed without the estimators.

    ``unknown``: number of labels of these rows that the model does not know. They count as missed labels.
    """
    predicted = scores > thresholds
    has = has > 0
    right = (predicted & has).sum(axis=0)
    sizes = predicted.sum(axis=0) + has.sum(axis=0)
    top = np.argsort(-scores, axis=1, kind="stable")[:, : max(FIRST)]
    has_top = np.take_along_axis(has, top, axis=1)
    return {
        "hamming_loss": ((predicted != has).sum() + unknown) / (has.size + unknown),
        "log_loss": np.logaddexp(0, np.where(has, -scores, scores)).mean(),
        "f1_micro": 2 * right.sum() / max(sizes.sum() + unknown, 1),
        "f1_macro": np.mean(2 * right / np.maximum(sizes, 1)),
        **{f"precision_at_{k}": has_top[:, :k].mean() for k in FIRST},
    }


def _metric_lines(predicted, scores, lists, model, note):
    """The metrics as lines in LIBSVM's style, and a notice about unknown labels, which count as missed."""
    has = indicator(lists, np.asarray(model.classes_))
    unknown = np.array([len(labels_of_row) for labels_of_row in lists]) - has.sum(axis=1)
    if unknown.any():
        labels = distinct_labels(lists)
        names = list(map(str, labels[~np.isin(labels, model.classes_)].tolist()))
        note(unknown_labels(np.count_nonzero(unknown), len(has), names))
    n_exact = ((predicted == has).all(axis=1) & (unknown == 0)).sum()
    yield f"Exact match = {100 * n_exact / len(has):g}% ({n_exact}/{len(has)})"
    for name, value in measures(scores, model.thresholds, has, unknown=unknown.sum()).items():
        yield f"{TITLES[name]} = {value:.6g}"
