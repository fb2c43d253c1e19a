"""What missing values cost that training has not seen: they go to the heavier side of each split, or all right.

    python tools/missing.py [--share 0.2] [--trials 3] [--estimator VectorTreeBoostClassifier]

Half of the rows of a data set of scikit-learn train a model, without missing values. A share of the cells of the others
is then made missing. The two columns of ours are one model: in the first one no missing value goes left.
"""

import argparse
from dataclasses import replace

import numpy as np
from shared.measure import error_percent, log_loss
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

import pymcboost

SETS = ("digits", "breast_cancer", "wine")


def all_right(model):
    """The same model, whose splits send all missing values right."""
    ensemble = model.ensemble
    return model._changed(replace(ensemble, nan_left=np.zeros_like(ensemble.nan_left)))


def trial(name, share, seed, cls):
    """Log loss and accuracy in percent, of all values right, of the heavier sides, and of scikit-learn's booster."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X, X_test, y, truth = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
    X_test[np.random.default_rng(seed).random(X_test.shape) < share] = np.nan
    ours = cls(random_state=seed).fit(X, y).model_
    theirs = HistGradientBoostingClassifier(random_state=seed).fit(X, y)
    probabilities = [
        all_right(ours).predict_proba(X_test),
        ours.predict_proba(X_test),
        theirs.predict_proba(X_test),
    ]
    return [
        (log_loss(P, truth), 100 - error_percent(truth, P.argmax(axis=1))) for P in probabilities
    ]


def show(label, results):
    print(
        f"{label:24}" + "".join(f"{loss:8.3f} {accuracy:6.1f}%" for loss, accuracy in results),
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--share", type=float, default=0.2, help="of the test cells that are missing (0.2)"
    )
    parser.add_argument("--trials", type=int, default=3, help="random halves of each data set (3)")
    parser.add_argument(
        "--estimator", default="VectorTreeBoostClassifier", help="class of pymcboost"
    )
    options = parser.parse_args()
    cls = getattr(pymcboost, options.estimator)
    print(f"{'log loss, accuracy':24}{'all right':>16}{'heavier side':>16}{'scikit-learn':>16}")
    for name in SETS:
        trials = []
        for seed in range(options.trials):
            trials.append(trial(name, options.share, seed, cls=cls))
            show(f"{name}, trial {seed}", trials[-1])
        show(name, np.mean(trials, axis=0))


if __name__ == "__main__":
    main()
