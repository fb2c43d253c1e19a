"""Initial scores of rows, to which a model adds its own: the ``init_score`` of fit and predictions."""

import numpy as np

# Maximum magnitude. Beyond it, sums with small steps and comparisons of scores would lose all precision.
LARGEST = 1e15


def init_scores(init_score, n_rows, n_classes, *, pairs=True, shown="init_score"):
    """Check ``init_score``; as an array (n_rows, n_classes) of float32 or float64.

    Parameters
    ----------
    init_score : array-like of shape (n_rows, n_classes), or (n_rows,)
    n_rows, n_classes : int
    pairs : bool, default=True
        Whether (n_rows,) may be the score of class 1 minus that of class 0. Each class then gets half of it.
    shown : str
        Name of the array, for messages.

    Raises
    ------
    ValueError
        If the shape is wrong, or a number is not finite.
    """
    try:
        scores = np.asarray(init_score)
        if scores.dtype not in (np.float32, np.float64):
            scores = scores.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{shown} must hold numbers: {error}") from None
    pairs = pairs and n_classes == 2
    if pairs and scores.shape == (n_rows,):
        half = scores / 2
        scores = np.stack((-half, half), axis=1)
    if scores.shape != (n_rows, n_classes):
        other_shape = f", or ({n_rows},): that of class 1 minus that of class 0" if pairs else ""
        raise ValueError(
            f"{shown} has shape {scores.shape}; give one score per row and class, ({n_rows}, "
            f"{n_classes}){other_shape}"
        )
    if scores.size and not (-LARGEST <= scores.min() and scores.max() <= LARGEST):
        row, column = np.argwhere(~(np.abs(scores) <= LARGEST))[0].tolist()
        raise ValueError(
            f"{shown} contains {scores[row, column]:g} in row {row}, column {column}; scores "
            f"must be finite, with magnitude at most {LARGEST:g}"
        )
    return scores


def refuse_init_score(init_score, name, takes):
    """Refuse ``init_score`` for an algorithm that does not support it."""
    if init_score is not None and not takes:
        raise TypeError(
            f"{name} does not support init_score; VectorTreeBoostClassifier, "
            "MCBoostClassifier, LogitBoostClassifier, MartClassifier, ABCLogitBoostClassifier "
            "and ABCMartClassifier do"
        )


def need_init_score(estimator, task, has_init_score):
    """Refuse rows without ``init_score`` if the estimator was fitted with one; ``task`` names the method."""
    if getattr(estimator, "_has_init_score", False) and not has_init_score:
        raise ValueError(
            f"{task}: the model was fitted with init_score; give the init_score of these rows, too"
        )
