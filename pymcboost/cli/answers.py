"""What a model says of rows, and how that is written."""

from pymcboost.cli.console import word
from pymcboost.threads import counted


def answers(model, X, arguments):
    """Positions of the predicted classes, and the probabilities or scores that the arguments ask for, or None."""
    best, values = model.predict_codes(X, n_jobs=arguments.n_jobs), None
    if arguments.probability:
        values = model.predict_proba(X, n_jobs=arguments.n_jobs)
    elif arguments.decision_values:
        values = model.raw_scores(X, n_jobs=arguments.n_jobs)
    return best, values


def _share(n, total):
    return f"{n} of {counted(total, 'row')} {'has' if n == 1 else 'have'}"


def accuracy(model, predicted, data, note):
    """LIBSVM's accuracy line over the rows that have a label, or None when no row has one."""
    import numpy as np

    labels, total = data.y[data.labelled], int(data.labelled.sum())
    if model.classes_.dtype.kind != "i":
        labels = np.array([f"{label:g}" for label in labels.tolist()])
    unknown = labels[~np.isin(labels, model.classes_)]
    hits = int((predicted[data.labelled] == labels).sum())
    names = np.unique(unknown).tolist()
    return accuracy_line(hits, total, data.labelled.size - total, len(unknown), names, note)


def accuracy_line(hits, total, unlabelled, unknown, names, note):
    """LIBSVM's line from these numbers of rows, or None when no row has a label; notices of the others."""
    if unlabelled:
        note(f"{_share(unlabelled, total + unlabelled)} no label: predicted, not counted in the accuracy")
    if total == 0:
        return None
    if unknown:
        shown = ", ".join(str(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")
        note(f"{_share(unknown, total)} a label that the model does not know ({shown}): counted as errors")
    return f"Accuracy = {100 * hits / total:g}% ({hits}/{total}) (classification)"


def words(model):
    """The classes as they are written."""
    return [word(str(name)) for name in model.classes_.tolist()]


def write(stream, names, predicted, values):
    """One line per row: the label, then its values when there are any, which a first line ``labels ...`` announces."""
    if values is None:
        stream.writelines(f"{names[c]}\n" for c in predicted.tolist())
        return
    stream.write(f"labels {' '.join(names)}\n")
    line = "%s" + " %.17g" * len(names) + "\n"
    for start in range(0, len(predicted), 4096):
        rows = zip(predicted[start : start + 4096].tolist(), values[start : start + 4096].tolist(), strict=True)
        stream.writelines(line % (names[c], *row) for c, row in rows)
