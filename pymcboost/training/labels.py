"""Multi-label data: indicators and lists of labels, metrics and thresholds.

An indicator is a matrix (n, K) of ones and zeros. A row gets the labels whose scores are above their thresholds.
"""

from numbers import Real

import numpy as np

from pymcboost._kernels import elementary
from pymcboost.model.rows import NUMBERS, is_lists_of_labels, joined, lists_of, positions

BINARIZER = "sklearn.preprocessing.MultiLabelBinarizer converts lists of labels"
# Maximum number of characters of a label in a message.
SHOWN = 40
# Values of k for precision at k.
FIRST = (1, 3, 5)


def is_indicator(y):
    """Whether y is multi-label: a matrix with more than one column, or lists of labels."""
    if is_lists_of_labels(lists_of(y)):
        return True
    shape = getattr(y, "shape", None)
    is_list = isinstance(y, (list, tuple)) and len(y)
    if shape is None and is_list and isinstance(y[0], (list, np.ndarray)):
        shape = len(y), np.size(y[0])
    return shape is not None and len(shape) == 2 and shape[1] > 1


def refuse_labels(name, y):
    """Refuse multi-label y if the estimator needs one class per row."""
    if is_indicator(y):
        form = "lists of labels"
        if not is_lists_of_labels(lists_of(y)):
            form = f"the shape {np.shape(y)}"
            if _is_one_hot(y):
                form += "; for one-hot rows give y.argmax(axis=1)"
        raise ValueError(
            f"{name} needs one class per row here, but y has {form}; for multi-label data use "
            "VectorTreeBoostClassifier(loss='logistic') or AdaBoostMHClassifier"
        )


def _is_one_hot(y):
    """Whether every row of a dense matrix has a single 1 and zeros."""
    y = np.asarray(y) if isinstance(y, (list, np.ndarray)) else np.empty(0)
    numbers = y.ndim == 2 and y.dtype.kind in "buif"
    return bool(numbers and ((y == 0) | (y == 1)).all() and (y.sum(axis=1) == 1).all())


def labels_given(y, n_rows, classes=None):
    """Labels (K,) and indicator (n, K) of y, given as an indicator or as lists of labels.

    Labels of lists are sorted; columns of an indicator are numbered from 0. ``classes``: the labels of the training, to
    which all labels of y must belong.
    """
    y = lists_of(y)
    if not is_lists_of_labels(y):
        if classes is not None and not n_rows and not len(y):  # a worker without rows
            return classes, np.zeros((0, len(classes)), dtype=np.uint8)
        Y = indicator_of(y, n_rows, None if classes is None else len(classes))
        return np.arange(Y.shape[1]) if classes is None else classes, Y
    if len(y) != n_rows:
        raise ValueError(
            f"X has {n_rows} rows, but y has {len(y)} lists of labels; give one list per row"
        )
    listed, named = _named(y)
    labels = np.unique(named) if classes is None else classes
    if len(labels) < 2:
        raise ValueError(
            "the lists of labels in y contain fewer than 2 labels; give y as a vector of "
            "classes, and use another loss"
        )
    row = np.repeat(np.arange(n_rows), [len(labels_of_row) for labels_of_row in y])
    if len(named) and (labels.dtype.kind in "U") != (named.dtype.kind in "U"):
        raise ValueError(
            f"y has the label {listed[0]!r}, but the training labels look like {labels[0].item()!r}"
        )
    label_index = positions(labels, named)
    unknown = np.flatnonzero(label_index < 0)
    if len(unknown):
        raise ValueError(
            f"y[{row[unknown[0]]}] has the label {listed[unknown[0]]!r}, which does not occur in "
            "the training labels"
        )
    Y = np.zeros((n_rows, len(labels)), dtype=np.uint8)
    np.add.at(Y, (row, label_index), 1)
    repeated = np.argwhere(Y > 1)
    if len(repeated):
        i, k = repeated[0]
        raise ValueError(f"y[{i}] lists the label {labels[k].item()!r} twice; list it once")
    return labels, Y


def rows_in(y):
    """Number of rows of labels in any form."""
    return y.shape[0] if hasattr(y, "shape") else len(y)


def _named(y):
    """Flatten lists of labels: as they are, and as an array of one type."""
    listed = np.empty(sum(map(len, y)), dtype=object)
    listed[:] = [label for row in y for label in row]
    check_order(listed)
    named = np.array(listed.tolist()) if len(listed) else np.zeros(0, dtype=np.int64)
    if named.ndim != 1 or named.dtype.kind not in "iuUb":
        raise ValueError(f"y has the label {listed[0]!r}; labels must be text or whole numbers")
    return listed, named


def joined_labels(parts):
    """Distinct labels in the arrays of all workers, which must have the same kind of type; None if all are empty."""
    nonempty = [part for part in parts if len(part)]
    if len({part.dtype.kind in "OSU" for part in nonempty}) > 1:
        raise ValueError(
            "y has text labels on some workers and numbers on others; use one type on all"
        )
    return np.unique(joined(nonempty)) if nonempty else None


def labels_of_all(workers, y):
    """Labels in the lists of all workers; None for indicators, which have no label names.

    None for a single worker, too: `labels_given` finds its labels while it reads the lists, which takes long.
    """
    if workers.size == 1:
        return None
    if not rows_in(y):
        labels_here = "no rows"
    else:
        labels_here = np.unique(_named(y)[1]) if is_lists_of_labels(y) else None
    labels_of_workers = [
        labels for labels in workers.exchange(labels_here) if not isinstance(labels, str)
    ]
    if all(labels is None for labels in labels_of_workers):
        return None
    if any(labels is None for labels in labels_of_workers):
        raise ValueError(
            "y has lists of labels on some workers and an indicator matrix on others; use one "
            "form on all"
        )
    return joined_labels(labels_of_workers)


def indicator_of(y, n_rows, n_labels=None):
    """Check an indicator and return it as uint8 (n, K); ``n_labels``: the number of labels in training."""
    if hasattr(y, "toarray"):
        y = y.toarray()
    try:
        y = np.asarray(y)
    except ValueError:  # lists of different lengths
        y = np.empty(0, dtype=object)
    y = _numbers(y) if y.dtype.kind == "O" else y
    if y.ndim != 2 or y.dtype.kind not in "buif":
        raise ValueError(
            "this training is multi-label: y must be an indicator matrix of shape (n_samples, "
            f"n_labels), dense or sparse, or a list of tuples of labels, not {y.dtype} of "
            f"shape {y.shape}; {BINARIZER}"
        )
    if len(y) != n_rows:
        raise ValueError(
            f"X has {n_rows} rows, but the indicator matrix y has {len(y)}; give one row of y "
            "per row of X"
        )
    if n_labels is None and y.shape[1] < 2:
        raise ValueError(
            "the indicator matrix y has fewer than 2 columns; give y as a vector of classes, "
            "and use another loss"
        )
    if n_labels not in (None, y.shape[1]):
        raise ValueError(
            f"the indicator matrix y has {y.shape[1]} columns, but the training had {n_labels} "
            "labels"
        )
    invalid = np.argwhere((y != 0) & (y != 1))
    if len(invalid):
        row, label = invalid[0].tolist()
        raise ValueError(
            f"y[{row}, {label}] is {y[row, label]}, but an indicator matrix contains only 0 "
            f"and 1; {BINARIZER}"
        )
    return np.ascontiguousarray(y, dtype=np.uint8)


def _numbers(y):
    """Convert an object array, as from nullable or mixed columns, to float64; unchanged if that is impossible."""
    numbers = [
        np.nan if value is None or type(value).__name__ == "NAType" else value
        for value in y.ravel().tolist()
    ]
    if not all(isinstance(value, (Real, np.bool_)) for value in numbers):
        return y
    try:
        return np.array(numbers, dtype=np.float64).reshape(y.shape)
    except OverflowError:
        return y


def log_sigmoids(scores):
    """Logarithms of 1 / (1 + exp(-F)), with the same bits on every CPU."""
    e = elementary.exp(-np.abs(scores))
    return np.minimum(scores, 0) - elementary.log(1 + e)


def cross_entropy(scores, validation_set, link):
    """Mean over rows and labels of the log loss: -log p if the row has the label, otherwise -log(1 - p)."""
    return validation_set.mean(
        np.einsum("ij->i", -log_sigmoids(np.where(validation_set.codes > 0, scores, -scores)))
        / scores.shape[1]
    )


def hamming_loss(scores, validation_set, link):
    """Share of wrong labels."""
    return validation_set.mean((_predicted(scores) != validation_set.codes).mean(axis=1))


def error(scores, validation_set, link):
    """Share of rows with at least one wrong label."""
    return validation_set.mean((_predicted(scores) != validation_set.codes).any(axis=1))


def _predicted(scores):
    """Whether a row gets a label, for the threshold that scores have while they are measured."""
    return scores > 0


def f1_micro(scores, validation_set, link):
    """Micro-averaged F1: 2 TP / (2 TP + FP + FN) over all rows and labels; 0 if there are none."""
    right, sizes = _counts(scores, validation_set)
    return float(2 * right.sum() / max(sizes.sum(), 1e-300))


def f1_macro(scores, validation_set, link):
    """Macro-averaged F1: mean of 2 TP / (2 TP + FP + FN) over the labels; 0 for a label that never occurs."""
    right, sizes = _counts(scores, validation_set)
    return float(np.mean(2 * right / np.maximum(sizes, 1e-300)))


def _counts(scores, validation_set):
    """Weight sums by label: of true positives, and of true plus predicted labels."""
    weight = validation_set.row_weight
    predicted = _predicted(scores)
    has = validation_set.codes > 0
    right = np.einsum("i,ij->j", weight, predicted & has)
    sizes = np.einsum("i,ij->j", weight, predicted.astype(float) + has)
    return right, sizes


def precision_at(k):
    """Metric: share of correct labels among the k with the highest scores; lower labels win ties."""

    def precision(scores, validation_set, link):
        first = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return validation_set.mean(
            np.take_along_axis(validation_set.codes, first, axis=1).mean(axis=1)
        )

    return precision


METRICS = {
    "log_loss": cross_entropy,
    "error": error,
    "hamming_loss": hamming_loss,
    "f1_micro": f1_micro,
    "f1_macro": f1_macro,
    **{f"precision_at_{k}": precision_at(k) for k in FIRST},
}
ONLY = [name for name in METRICS if name not in ("log_loss", "error", "f1_micro", "f1_macro")]


def best_thresholds(scores, labels, weight):
    """Threshold (K,) for each label that gives the largest F1 on these rows; 0 for labels that do not occur.

    It lies halfway between two different scores; of thresholds with equal F1, the highest is taken.
    """
    thresholds = np.zeros(scores.shape[1])
    for k in range(scores.shape[1]):
        order = np.argsort(-scores[:, k], kind="stable")
        column = scores[order, k]
        has = labels[order, k] > 0
        w = weight[order]
        total = w[has].sum()
        if not total:
            continue
        f1 = 2 * np.cumsum(w * has) / (np.cumsum(w) + total)
        ends = np.flatnonzero(np.append(column[1:] < column[:-1], True))
        last = ends[f1[ends].argmax()]
        if last + 1 < len(column):
            thresholds[k] = (column[last] + column[last + 1]) / 2
        else:
            thresholds[k] = column[last] - 1
    return thresholds


def score_of(probability):
    """Score of a label that corresponds to this probability."""
    return float(elementary.log(probability) - elementary.log(1 - probability))


def check_order(y):
    """Refuse labels that cannot be sorted, such as None among text, or that are neither text nor numbers."""
    types = {type(label) for label in y} if y.dtype.kind == "O" else {str}
    if types == {str}:
        return
    row = None
    if all(issubclass(kind, int) for kind in types):  # NumPy has no integers of this size
        row = next((row for row, label in enumerate(y) if not -(2**63) <= label < 2**63), None)
    if row is not None:
        raise ValueError(
            f"y[{row}] is {str(y[row])[:SHOWN]}; integer labels must lie in [-2^63, 2^63 - 1]. "
            "Convert all labels to text: [str(label) for label in y]"
        )
    try:
        np.unique(y)
    except TypeError:
        kinds = ", ".join(sorted(kind.__name__ for kind in types))
        raise ValueError(
            f"y has labels of the types {kinds}, which cannot be sorted together; convert all "
            "to text or all to integers, and leave out rows without a label"
        ) from None
    other = [kind for kind in types if not issubclass(kind, (str, *NUMBERS))]
    if other:
        row = next(row for row, label in enumerate(y) if type(label) is other[0])
        raise ValueError(
            f"y[{row}] is {str(y[row])[:SHOWN]!r} of type {other[0].__name__}; labels must be "
            "text, integers or booleans: give [str(label) for label in y]"
        )
