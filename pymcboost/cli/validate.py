"""Cross-validation: ``mcboost-train -v``."""

from pymcboost.cli.console import importing
from pymcboost.threads import counted


def cross_validate(estimator, X, y, folds):
    """Print LIBSVM's line about the accuracy over all folds."""
    import numpy as np

    with importing():
        from sklearn.model_selection import StratifiedKFold

    largest = np.unique(y, return_counts=True)[1].max()
    if folds > largest:
        raise ValueError(
            f"-v {folds}: the largest class has only {counted(largest, 'row')}; use at most that many folds"
        )
    cv = StratifiedKFold(folds, shuffle=True, random_state=estimator.get_params().get("random_state") or 0)
    hits = np.zeros(len(y), dtype=bool)
    for train, held in cv.split(np.zeros(len(y)), y):
        model = type(estimator)(**estimator.get_params()).fit(X[train], y[train]).model_
        hits[held] = model.predict(X[held]) == y[held]
    print(f"Cross Validation Accuracy = {100 * hits.mean():g}%")
