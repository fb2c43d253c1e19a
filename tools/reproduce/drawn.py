"""Choice of how many features a node of vector trees draws where there are many rows, on folds of training parts."""

import numpy as np
from shared.datasets import fold_of, load_for_trees, sets_by_cost
from shared.tables import markdown_table

import pymcboost
from reproduce.experiment import Experiment, Results, cross, select
from reproduce.quality import fit_and_measure, geometric, often

# Fixed before the first run: sets with more than 10,000 rows to train on in a fold, but for sparse text.
SETS = ("krkopt", "poker", "shuttle", "covtype", "mnist")
MOST_ROWS = 60_000
FOLDS, POWER = 3, 0.4
TIMES = (2, 3, 4)
MEASURES = "log_loss", "error", "cpu"
# Named in full: defaults may change.
PARAMS = {
    "n_estimators": 300, "learning_rate": 0.1, "max_leaf_nodes": "auto", "subsample": 0.5, "min_relative_gain": 0.25,
    "split_columns": "auto", "calibrate": None, "n_jobs": 1,
}  # fmt: skip


def fit_on_fold(unit, params):
    """One fold of a training part; log loss at the best temperature of the rows held out."""
    X, y, _, _ = load_for_trees(unit["data"])
    kept = np.sort(np.random.default_rng(0).permutation(len(y))[:MOST_ROWS])
    kept = kept[often(y[kept], FOLDS)]
    params = {name: value(X.shape[1]) if callable(value) else value for name, value in params.items()}
    model = pymcboost.VectorTreeBoostClassifier(**params, random_state=unit["fold"])
    return fit_and_measure(unit, model, fold_of(X[kept], y[kept], unit["fold"], FOLDS), best=True)


def features(times, share=0.0):
    """Share of d features that is so many times d to a power, at least a given one."""
    return lambda d: min(1.0, max(share, times * d ** (POWER - 1)))


def fit_fold(unit):
    """So many times the power of the number of features."""
    return fit_on_fold(unit, {**PARAMS, "max_features": features(unit["times"])})


def plan(options, journal):
    yield 0, cross(data=sets_by_cost(options.sets or SETS), times=TIMES, fold=range(FOLDS)), "drawn-features"


def text_of(frame):
    """Means over the folds."""
    lines, means = [], frame.groupby(["data", "times"])[[*MEASURES, "n_train"]].mean()
    for data in [name for name in SETS if name in set(frame["data"])]:
        for times, row in means.loc[data].iterrows():
            cells = f"{row['log_loss']:.4f}", f"{row['error']:.2f}", f"{row['cpu']:.1f}"
            lines.append([data, f"{row['n_train']:.0f}", times, *cells])
    for times in TIMES:
        mine = select(means.reset_index(), times=times)
        lines.append([
            "mean", "", times, f"{geometric(mine['log_loss']):.4f}", f"{mine['error'].mean():.2f}",
            f"{geometric(mine['cpu']):.1f}",
        ])  # fmt: skip
    head = ["set", "rows", "times d^0.4", "log loss", "error %", "CPU seconds"]
    return (
        f"{FOLDS} folds of the training parts, at most {MOST_ROWS:,} rows of each. Log loss at the temperature that is "
        f"best for the held rows; means over sets geometric but for the error.\n\n{markdown_table(head, lines)}"
    )


RESULTS = Results("drawn-features", "data times fold", " ".join([*MEASURES, "n_train"]), fit_fold)
EXPERIMENTS = (Experiment("drawn-features", "Features at a node with many rows", (RESULTS,), plan, text_of, sets=SETS),)
