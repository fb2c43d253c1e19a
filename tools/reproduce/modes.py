"""The same rows, trained in several modes: with fewer rounds, early stopping, validation rows, or fewer rows.

Data are made, with many wrong labels, so that a difference between modes is not one between a few test rows.
"""

import re

import numpy as np
from shared.measure import log_loss
from shared.tables import markdown_table
from sklearn.datasets import make_classification

from pymcboost import VectorTreeBoostClassifier
from reproduce.experiment import Experiment, Results, cross, fit_and_test, select
from reproduce.quality import geometric

# Share of random labels, and seeds: a set for each pair.
NOISE = (0.3, 0.5)
SEEDS = 3
ROWS = 6000
TEST_ROWS = 30_000
# Rows of the modes "80% of the rows": the others are left out, or watched as validation rows.
KEPT = 4800
METHODS = {
    "default": {},
    "299 rounds": {"n_estimators": 299},
    "early stopping": {"early_stopping": True},
    "auto": {"n_estimators": "auto"},
    "no calibration": {"calibrate": None},
    "80% of the rows": {},
    "80%, others watched": {},
}


def make_set(noise, seed):
    """Rows to train on, and to test on: (X, y, X_test, y_test)."""
    X, y = make_classification(
        ROWS + TEST_ROWS,
        n_features=20,
        n_informative=10,
        n_classes=3,
        n_clusters_per_class=2,
        flip_y=noise,
        random_state=seed,
    )
    return X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:]


def fit_mode(unit):
    """One training in one mode."""
    X, y, X_test, y_test = make_set(unit["noise"], unit["seed"])
    watched = {}
    if unit["method"].startswith("80%"):
        if unit["method"].endswith("watched"):
            watched = {"X_val": X[KEPT:], "y_val": y[KEPT:]}
        X = X[:KEPT]
        y = y[:KEPT]
    model = VectorTreeBoostClassifier(random_state=0, n_jobs=1, **METHODS[unit["method"]])
    row, model = fit_and_test(unit, model, (X, y, X_test, y_test), **watched)
    loss = log_loss(model.predict_proba(X_test), y_test, np.finfo(float).eps)
    return {**row, "log_loss": round(loss, 6)}


def plan(options, journal):
    """Every set in every mode."""
    yield (
        0,
        cross(
            noise=NOISE,
            seed=range(options.repeats or SEEDS),
            method=options.methods or tuple(METHODS),
        ),
        "modes",
    )


def differences(frame, method):
    """Points of error and factors of log loss against the default, by set."""
    pair = select(frame, method=method).merge(
        select(frame, method="default"), on=["noise", "seed"], suffixes=("", "_default")
    )
    return pair["error"] - pair["error_default"], pair["log_loss"] / pair["log_loss_default"]


def modes_text(frame):
    """Error and log loss of every mode, and their distance from the default."""
    lines = []
    for method in METHODS:
        mine = select(frame, method=method)
        if mine.empty:
            continue
        points, factors = differences(frame, method)
        lines.append(
            [
                method,
                f"{mine['error'].mean():.2f}",
                f"{mine['log_loss'].mean():.4f}",
                f"{points.mean():+.2f}",
                f"{points.max():+.2f}",
                f"{geometric(factors):.3f}",
                f"{factors.max():.3f}",
            ]
        )
    head = ["mode", "error %", "log loss", "points", "most", "times", "most"]
    n_sets = frame.groupby(["noise", "seed"]).ngroups
    return (
        f"Vector trees on {n_sets} sets made by `make_classification`: {ROWS:,} rows, 20 features, 3 classes, "
        f"{' or '.join(f'{100 * share:.0f}%' for share in NOISE)} random labels. "
        f"{TEST_ROWS:,} test rows. *points* and *times*: error minus, and log loss over, that of the default, mean and "
        "largest.\n\n" + markdown_table(head, lines)
    )


def modes_values(frame):
    """What sentences say about the modes."""
    texts = {}
    for method in METHODS:
        if select(frame, method=method).empty:
            continue
        points, factors = differences(frame, method)
        name = re.sub(r"\W+", "-", method)
        texts[f"{name}-points"] = f"{points.mean():.1f}"
        texts[f"{name}-times"] = f"{geometric(factors):.2f}"
    return texts


RESULTS = Results(
    "modes", "method noise seed", "error log_loss rounds_fitted seconds", fit=fit_mode
)
EXPERIMENTS = (
    Experiment(
        "modes",
        "The same rows in several modes",
        (RESULTS,),
        plan=plan,
        text=modes_text,
        methods=tuple(METHODS),
        values=modes_values,
    ),
)
