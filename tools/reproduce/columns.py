"""Splits found on a few columns of many classes: loss, error and time beside those found on all classes."""

import numpy as np
from shared.datasets import coded, fold_of, load_for_trees
from shared.tables import markdown_table

import pymcboost
from reproduce.experiment import Experiment, Results, cross, select
from reproduce.quality import fit_and_measure

# Fixed before the first run. Generated sets: classes and rows of each class.
GENERATED = {"generated-355": (355, 60), "generated-1000": (1000, 30)}
# Some hundred classes, on which half a block of lanes was compared with a whole one.
SEVERAL = {"generated-60": (60, 60), "generated-100": (100, 60), "generated-150": (150, 40), "generated-225": (225, 40)}
SETS = ("news20-bydate", "letter", "leaf", "sector", *GENERATED)
EVERY = (*SETS, *SEVERAL)
SEEDS = 5
WIDTH, CENTRES, SPREAD = 64, 2, 1.0
# Named in full: defaults may change.
PARAMS = {
    "n_estimators": 100, "learning_rate": 0.1, "max_leaf_nodes": "auto", "max_features": "auto", "subsample": 0.6,
    "min_relative_gain": 0.25, "calibrate": None, "n_jobs": 1,
}  # fmt: skip
COLUMNS = {"all": None, "auto": "auto"}
CHOICES = {**COLUMNS, **{str(r): r for r in (5, 15, 31)}}
HALVES = {str(r): r for r in (5, 7, 10, 15)}
NAMED = CHOICES | HALVES
FOLDS = 3
MEASURES = "log_loss", "error", "cpu"


def generate(n_classes, rows, seed=0):
    """Rows of classes that are mixtures of Gaussians in 64 dimensions, three quarters to train on."""
    rng = np.random.default_rng([n_classes, seed])
    centres = SPREAD * rng.standard_normal((n_classes, CENTRES, WIDTH))
    y = np.repeat(np.arange(n_classes), rows)
    X = centres[y, rng.integers(CENTRES, size=len(y))] + rng.standard_normal((len(y), WIDTH))
    order, cut = rng.permutation(len(y)), 3 * len(y) // 4
    X, y = X[order].astype(np.float32), y[order]
    return X[:cut], y[:cut], X[cut:], y[cut:]


def parts_of(data, seed):
    made = GENERATED | SEVERAL
    return coded(generate(*made[data], seed) if data in made else load_for_trees(data, seed))


def model_of(unit):
    return pymcboost.VectorTreeBoostClassifier(
        **PARAMS, split_columns=NAMED[unit["columns"]], random_state=unit["seed"]
    )


def fit_test_part(unit):
    return fit_and_measure(unit, model_of(unit), parts_of(unit["data"], unit["seed"]))


def fit_fold(unit):
    """A fold of the training part."""
    X, y, _, _ = parts_of(unit["data"], 0)
    return fit_and_measure(unit, model_of(unit), fold_of(X, y, unit["seed"], FOLDS))


def plan(options, tests, choices):
    """The test parts, and folds of the training parts, on which the rule was chosen."""
    data = [name for name in options.sets or SETS if name in SETS]
    yield 0, cross(data=data, columns=COLUMNS, seed=range(SEEDS)), "split-columns"
    yield 1, cross(data=data, columns=CHOICES, seed=range(FOLDS)), "split-columns-choice"
    several = [name for name in ("leaf", *SEVERAL) if name in (options.sets or EVERY)]
    yield 1, cross(data=several, columns=HALVES, seed=range(FOLDS)), "split-columns-choice"


def cells(frame, data, columns):
    """Mean of log loss and error with twice their standard errors, and mean CPU seconds."""
    mine = select(frame, data=data, columns=columns)
    spread = 2 * mine[["log_loss", "error"]].std() / np.sqrt(len(mine))
    means = mine[[*MEASURES]].mean()
    shown = [f"{means[name]:.4f} ± {spread[name]:.4f}" for name in ("log_loss", "error")]
    return [*shown, f"{means['cpu']:.2f}"], means["cpu"]


def text_of(tests, choices):
    """Losses, errors and times, the folds below."""
    parts = []
    for frame, where in (tests, f"Test parts, {SEEDS} seeds"), (choices, f"Folds of the training parts, {FOLDS}"):
        if frame.empty:
            continue
        lines = []
        for data in (data for data in EVERY if data in set(frame["data"])):
            whole = select(frame, data=data, columns="all")["cpu"].mean()  # NaN where there are none
            for columns in (name for name in NAMED if name in set(select(frame, data=data)["columns"])):
                found, cpu = cells(frame, data, columns)
                lines.append([data, columns, *found, "" if np.isnan(whole) else f"{whole / cpu:.1f}"])
        head = ["set", "columns", "log loss", "error %", "CPU seconds", "times faster than all"]
        parts.append(f"{where}:\n\n{markdown_table(head, lines)}")
    return "Vector trees, 100 rounds. ± is twice the standard error of the mean.\n\n" + "\n\n".join(parts)


TESTS = Results("split-columns", "data columns seed", " ".join(MEASURES), fit_test_part, "columns")
CHOSEN = Results("split-columns-choice", "data columns seed", " ".join(MEASURES), fit_fold, "columns")
EXPERIMENTS = (Experiment("split-columns", "Splits on a few columns", (TESTS, CHOSEN), plan, text_of, sets=EVERY),)
