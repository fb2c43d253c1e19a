"""``mcboost-predict --report``: metrics per class and the confusion matrix."""

import numpy as np

from pymcboost.cli.answers import codes_of, losses

# Largest number of classes for a full matrix, and the number of confusions listed above it.
MATRIX = 20
LARGEST = 40


def report(model, names, best, data, probabilities):
    """Yield lines: recall, precision and log loss of every class, and the confusion matrix.

    Parameters
    ----------
    model : Model
    names : list of str
        Class names, as they are printed.
    best : ndarray of int (m,)
        Predicted classes.
    data : SvmlightData
        Rows without a label are left out.
    probabilities : ndarray (m, K) or None
    """
    has_label = data.labelled
    K = len(names)
    codes = codes_of(model, data.y[has_label])
    best = best[has_label]
    is_known = codes >= 0
    counts = np.bincount((K + 1) * np.where(is_known, codes, K) + best, minlength=(K + 1) ** 2)
    counts = counts.reshape(K + 1, K + 1)[:, :K]
    total = counts.sum(axis=1)
    taken = counts.sum(axis=0)
    right = np.diagonal(counts)
    loss = np.full(K, np.nan)
    if probabilities is not None:
        losses_of_rows = losses(probabilities[has_label][is_known], codes[is_known])
        loss = _share(np.bincount(codes[is_known], losses_of_rows, minlength=K), total[:K])
        mean = losses_of_rows.mean() if is_known.any() else np.nan
    width = max(map(len, [*names, "unknown", "class"]))
    yield f"{'class':<{width}} {'rows':>8} {'recall':>8} {'precision':>9} {'log loss':>9}"
    columns = (total[:K], _share(right, total[:K]), _share(right, taken), loss)
    for name, rows, recall, precision, value in zip(names, *columns, strict=True):
        yield f"{name:<{width}} {rows:>8} {_number(recall):>8} {_number(precision):>9} {_number(value):>9}"
    if total[K]:
        yield f"{'unknown':<{width}} {total[K]:>8} {'-':>8} {'-':>9} {'-':>9}"
    if probabilities is not None:
        yield f"Log loss = {_number(mean)}"
    rows = [*names, "unknown"] if total[K] else names
    show = _matrix if K <= MATRIX else _pairs
    yield from show(counts[: len(rows)], rows, names, width)


def _share(part, total):
    with np.errstate(invalid="ignore", divide="ignore"):
        return part / total


def _number(value):
    return "-" if np.isnan(value) else f"{value:.4f}"


def _matrix(counts, rows, names, width):
    """Lines of the whole confusion matrix."""
    yield "Confusion matrix (a row for each label, a column for each prediction):"
    wide = max(*map(len, names), len(str(counts.max(initial=0))))
    yield " ".join([" " * width, *(f"{name:>{wide}}" for name in names)])
    for name, line in zip(rows, counts.tolist(), strict=True):
        yield " ".join([f"{name:<{width}}", *(f"{count:>{wide}}" for count in line)])


def _pairs(counts, rows, names, width):
    """Lines of the largest confusions."""
    confusions = counts.copy()
    np.fill_diagonal(confusions, 0)
    order = np.argsort(-confusions, axis=None, kind="stable")[:LARGEST]
    yield f"Largest confusions, at most {LARGEST} (label, prediction, rows):"
    for label, predicted in zip(*np.unravel_index(order, confusions.shape), strict=True):
        if confusions[label, predicted]:
            yield f"{rows[label]:<{width}} {names[predicted]:<{width}} {confusions[label, predicted]:>8}"
