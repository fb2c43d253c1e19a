"""Predictions of a model, and the text that the programs write of them."""

from pymcboost.cli.console import word
from pymcboost.threads import counted


def answers(model, X, arguments):
    """Positions of the predicted classes, and the probabilities or scores that the arguments ask for, or None."""
    if arguments.early:
        best, learners = model.predict_early_codes(X, arguments.early, arguments.n_jobs)
        arguments.tally.rows += len(best)
        arguments.tally.learners += int(learners.sum())
        return best, None
    best = model.predict_codes(X, n_jobs=arguments.n_jobs)
    values = None
    if arguments.probability:
        values = model.predict_proba(X, n_jobs=arguments.n_jobs)
    elif arguments.decision_values:
        values = model.raw_scores(X, n_jobs=arguments.n_jobs)
    return best, values


def new_missing(model, X, base, names=None):
    """The first row with a missing value in a column that had none in training, and what is wrong; None without one.

    ``base``: number of the first feature in the file; ``names``: of the file's columns.
    """
    place = model._first_new_missing(model._rows.checked(X))
    if place is None:
        return None
    row, column = place
    names = model.feature_names or names
    name = repr(names[column]) if names else column + base
    return row, f"{model._missing_in(column, name)}; fill it in, correct it, or use --missing allow"


def label_text(label):
    """The text of a label."""
    if isinstance(label, str):
        return label
    return str(int(label)) if label == int(label) else repr(label)


def codes_of(model, labels):
    """Index in the model's classes of each label, number or text; -1 for unknown labels."""
    import numpy as np

    classes = model.classes_
    if labels.dtype.kind in "OU":
        from pymcboost.data.tables import whole

        code_of_label = {label: code for code, label in enumerate(classes.tolist())}
        same = whole if classes.dtype.kind == "i" else str
        return np.array(
            [code_of_label.get(same(label), -1) for label in labels.tolist()], dtype=np.int64
        )
    if classes.dtype.kind != "i":
        labels = np.array([label_text(label) for label in labels.tolist()], dtype=object)
    places = np.searchsorted(classes, labels).clip(0, len(classes) - 1)
    return np.where(classes[places] == labels, places, -1)


def losses(probabilities, codes):
    """-log p of the true class of each row, with p clipped to machine precision as in training."""
    import numpy as np

    p = probabilities[np.arange(len(codes)), codes]
    return -np.log(np.maximum(p, np.finfo(np.float64).eps))


def mean_log_loss(model, X, labels):
    """Mean of `losses`. A class that the model does not know has probability 0."""
    import numpy as np

    codes = codes_of(model, labels)
    losses_of_rows = losses(model.predict_proba(X), codes)
    losses_of_rows[codes < 0] = -np.log(np.finfo(np.float64).eps)
    return losses_of_rows.mean()


def _share(n, total):
    return f"{n} of {counted(total, 'row')} {'has' if n == 1 else 'have'}"


def accuracy(model, best, data, note):
    """LIBSVM's line with the accuracy over the labelled rows, or None if no row has a label."""
    import numpy as np

    labels = data.y[data.labelled]
    total = int(data.labelled.sum())
    codes = codes_of(model, labels)
    names = [label_text(label) for label in np.unique(labels[codes < 0]).tolist()]
    hits = int((best[data.labelled] == codes).sum())
    unknown = int((codes < 0).sum())
    return accuracy_line(hits, total, data.labelled.size - total, unknown, names, note)


def accuracy_line(hits, total, unlabelled, unknown, names, note):
    """LIBSVM's accuracy line from counts of rows, or None without labels; prints notices about the other rows."""
    if unlabelled:
        note(
            f"{_share(unlabelled, total + unlabelled)} no label; they are predicted but do not "
            "count in the accuracy"
        )
    if total == 0:
        return None
    if unknown:
        note(unknown_labels(unknown, total, names))
    return f"Accuracy = {100 * hits / total:g}% ({hits}/{total}) (classification)"


def unknown_labels(unknown, total, names):
    """The notice about rows whose labels the model does not know."""
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return (
        f"{_share(unknown, total)} a label that the model does not know ({shown}); they count as "
        "errors"
    )


def words(model):
    """The class names as they appear in output files."""
    return [word(str(name)) for name in model.classes_.tolist()]


def write(stream, names, predicted, values):
    """Write one line per row: the label, then its values if any. A first line ``labels ...`` then lists the classes."""
    if values is None:
        stream.writelines(f"{names[c]}\n" for c in predicted.tolist())
        return
    stream.write(f"labels {' '.join(names)}\n")
    line = "%s" + " %.17g" * len(names) + "\n"
    for start in range(0, len(predicted), 4096):
        rows = zip(
            predicted[start : start + 4096].tolist(),
            values[start : start + 4096].tolist(),
            strict=True,
        )
        stream.writelines(line % (names[c], *row) for c, row in rows)
