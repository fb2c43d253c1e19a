"""Calibration without validation rows: what the temperature gains.

That of vector trees comes from rows that trees leave out. The others have folds, and one more model of fewer rows.
"""

import numpy as np
from shared.datasets import load_for_trees
from shared.internals import noted_temperatures
from shared.measure import log_loss
from shared.tables import markdown_table
from sklearn.model_selection import StratifiedKFold

import pymcboost
from reproduce.experiment import Experiment, Results, cross, fit_and_test, select

SETS = ("vowel", "glass", "svmguide2", "car", "letter", "satimage", "yeast", "waveform")
SIZES = (300, 1000, 3000)
SEEDS = 3
# Rows on which the log loss is measured, at most.
TESTED = 6000
SHARED = {"calibrate": "temperature", "random_state": 0, "n_jobs": 1}
METHODS = {
    "vector": (pymcboost.VectorTreeBoostClassifier, {}),
    "mcboost": (pymcboost.MCBoostClassifier, {"n_estimators": 300}),
    "mcboost-tree": (pymcboost.MCBoostClassifier, {"n_estimators": 100, "weak_learner": "tree"}),
    "hinge": (pymcboost.HingeBoostOCClassifier, {"n_estimators": 30, "C": 10.0, "scale": True}),
}
# Temperatures compared: none, of the folds, what `fit` finds (from rows left out, or folds corrected by one more
# model), the best on the rows tested.
LOSSES = ("plain", "folds", "corrected", "best")


def parts_of(data, rows, seed):
    """Random rows of the training part to train on, at most 0.65 of it, and others to test on."""
    X, y, _, _ = load_for_trees(data)
    order = np.random.default_rng([seed, rows]).permutation(len(y))
    n = min(rows, int(0.65 * len(y)))
    train = order[:n]
    test = order[n : n + TESTED]
    classes, counts = np.unique(y[train], return_counts=True)
    train, test = (part[np.isin(y[part], classes[counts >= 3])] for part in (train, test))
    classes = np.unique(y[train])
    return X[train], np.searchsorted(classes, y[train]), X[test], np.searchsorted(classes, y[test])


def fit_temperature(unit):
    """One training; the temperature of the first set of models is noted on the way."""
    cls, params = METHODS[unit["method"]]
    X, y, X_test, truth = parts_of(unit["data"], unit["rows"], unit["seed"])
    with noted_temperatures() as noted:
        if unit["method"] == "vector":  # a splitter asks for folds
            cls(**SHARED, **params, cv=StratifiedKFold(3, shuffle=True, random_state=0)).fit(X, y)
        row, fitted = fit_and_test(unit, cls(**SHARED, **params), (X, y, X_test, truth))
    model = fitted.model_
    temperatures = {
        "folds": noted[0],
        "corrected": model.temperature,
        "best": model.calibrated(X_test, truth).temperature,
    }
    models = {"plain": model.with_temperature(1.0 if model.link == "none" else None)}
    models |= {name: model.with_temperature(t) for name, t in temperatures.items()}
    smallest = np.finfo(float).eps
    losses = {
        name: round(log_loss(one.predict_proba(X_test), truth, smallest), 5)
        for name, one in models.items()
    }
    return {**row, **losses, **{f"T_{name}": round(t, 4) for name, t in temperatures.items()}}


def plan(options, journal):
    """Every set at every size that its training part has."""
    methods = options.methods or METHODS
    units = cross(
        method=methods, data=options.sets or SETS, rows=SIZES, seed=range(options.repeats or SEEDS)
    )
    yield 0, [unit for unit in units if has_rows(unit["data"], unit["rows"])], "temperature"


def has_rows(data, rows):
    """Whether more rows are trained on than at the size before."""
    n = 0.65 * len(load_for_trees(data)[1])
    return rows == SIZES[0] or n > 1.1 * SIZES[SIZES.index(rows) - 1]


def temperature_text(frame):
    """Log losses of every set and size, and their geometric means over the best ones."""
    parts = []
    for method in METHODS:
        lines = []
        mine = select(frame, method=method)
        if mine.empty:
            continue
        for (data, _), rows in mine.groupby(["data", "rows"], sort=True):
            means = [f"{rows[name].mean():.4f}" for name in LOSSES]
            if rows["corrected"].mean() > rows["plain"].mean():
                means[2] = f"**{means[2]}**"
            temperatures = [
                f"{np.exp(np.log(rows[f'T_{name}']).mean()):.2f}" for name in LOSSES[1:]
            ]
            lines.append([data, int(rows["n_train"].mean()), *means, *temperatures])
        ratios = [np.exp(np.log(mine[name] / mine["best"]).mean()) for name in LOSSES]
        lines.append(["geometric mean", "", *(f"{ratio:.3f} x" for ratio in ratios), "", "", ""])
        head = ["set", "rows", *LOSSES, *(f"T {name}" for name in LOSSES[1:])]
        parts.append(f"{method}:\n\n{markdown_table(head, lines)}")
    return (
        f"Log loss on rows of the training part that were not trained on, mean of {SEEDS} random choices; geometric "
        "means of the temperatures. *plain*: no calibration (HingeBoost.OC: T = 1). *folds*: that of 3 folds. "
        '*corrected*: what `calibrate="temperature"` gives. *best*: what `calibrate_on` finds on the rows tested. '
        "**Bold**: calibration loses.\n\n" + "\n\n".join(parts)
    )


def temperature_values(frame):
    """What sentences say about calibration: log losses as multiples, over sets, sizes and random choices."""
    texts = {}
    for method in METHODS:
        mine = select(frame, method=method)
        for name in LOSSES[:-1]:
            ratio = np.exp(np.log(mine[name] / mine["best"]).mean())
            texts[f"{method}-{name}"] = f"{ratio:.{1 if name == 'plain' else 3}f}"
    means = frame.groupby(["method", "data", "rows"])[list(LOSSES)].mean()
    change = 100 * (means["corrected"] / means["folds"] - 1)
    lost = frame[frame["corrected"] > frame["plain"]]
    car = select(frame, method="vector", data="car", rows=SIZES[0])
    temperatures = {name: np.exp(np.log(car[f"T_{name}"]).mean()) for name in ("corrected", "best")}
    return texts | {
        "costs": f"{change.max():.0f}",
        "costs-where": where(change.idxmax()),
        "gains": f"{-change.min():.0f}",
        "gains-where": where(change.idxmin()),
        "lost": f"{len(lost)} of {len(frame)}",
        "lost-methods": ", ".join(sorted(set(lost["method"]))),
        "lost-sets": ", ".join(sorted(set(lost["data"]))),
        "lost-most": f"{100 * (lost['corrected'] / lost['plain'] - 1).max():.0f}",
        "car-T-corrected": f"{temperatures['corrected']:.1f}",
        "car-T-best": f"{temperatures['best']:.1f}",
    }


def where(cell):
    """A method, set and size in words."""
    method, data, rows = cell
    return f"{method} on {rows:,} rows of {data}"


RESULTS = Results(
    "temperature",
    "method data rows seed",
    "error n_train n_test plain folds corrected best T_folds T_corrected T_best",
    fit=fit_temperature,
)
EXPERIMENTS = (
    Experiment(
        "temperature",
        "Calibration from folds",
        (RESULTS,),
        plan=plan,
        text=temperature_text,
        sets=SETS,
        methods=tuple(METHODS),
        values=temperature_values,
    ),
)
