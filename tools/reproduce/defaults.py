"""Choice of defaults: candidates of every learner, by cross-validation on training parts of all sizes."""

import time

import numpy as np
from shared import ranks
from shared.datasets import DATA, fold_rows, load_for_trees, sets_by_cost
from shared.tables import markdown_table

import pymcboost
from reproduce.experiment import Experiment, Results, cross, select
from reproduce.quality import geometric, measures_of, often

# Fixed before the first run. A function is of the rows n and features d trained on.
FOLDS = 3
MEASURES = "log_loss", "raw_log_loss", "error", "cpu"
SIZES = (300, 1000, 3000, 10000)
WIDEST = 5000  # features; wider sets are left out
MOST_WORK = 1e7  # rows times features times classes beyond which only vector trees are tried


def leaves(rows, low=31, high=500):
    """One leaf for so many rows, within bounds."""
    return lambda n, d: int(min(max(n // rows, low), high))


def powers(times, power):
    """Share of the features that is so many times their number to this power."""
    return lambda n, d: min(1.0, times * d ** (power - 1))


def roots(times):
    """Share of the features that is so many times the square root of their number."""
    return powers(times, 0.5)


LEARNERS = {
    "vector": pymcboost.VectorTreeBoostClassifier,
    "abc-logitboost": pymcboost.ABCLogitBoostClassifier,
    "logitboost": pymcboost.LogitBoostClassifier,
    "mart": pymcboost.MartClassifier,
    "mcboost": pymcboost.MCBoostClassifier,
}
CHOSEN = {
    "n_estimators": 300, "learning_rate": 0.15, "max_leaf_nodes": leaves(50), "max_features": roots(1.5),
    "subsample": 0.5, "min_samples_leaf": 1, "min_relative_gain": 0.0,
    "split_columns": None,
}  # fmt: skip
NOW = {
    "n_estimators": 300, "learning_rate": 0.1, "max_leaf_nodes": leaves(50), "max_features": "auto",
    "subsample": lambda n, d: 0.6 if n > 2000 else 0.5, "min_relative_gain": 0.25, "split_columns": "auto",
}  # fmt: skip
HALF = {**NOW, "max_leaf_nodes": leaves(25), "subsample": 0.5}
SLOW = {"learning_rate": 0.1, "max_features": powers(2, 0.4)}
PRUNED = {**SLOW, "min_relative_gain": 0.25}
TREES = {
    "n_estimators": 200, "learning_rate": 0.1, "max_leaf_nodes": 20, "max_features": 1.0, "subsample": 1.0,
}  # fmt: skip
CANDIDATES = {
    "vector": {
        "chosen": {},
        "200 rounds": {"n_estimators": 200},
        "rate 0.1": {"learning_rate": 0.1},
        "rate 0.2": {"learning_rate": 0.2},
        "slow, gain 0.25": {**SLOW, "min_relative_gain": 0.25},
        "slow, gain 1": {**SLOW, "min_relative_gain": 1.0},
        "slow, gain 0.25, 400 rounds": {**SLOW, "min_relative_gain": 0.25, "n_estimators": 400},
        "pruned, 3 columns": {**PRUNED, "split_columns": 3},
        "pruned, 7 columns": {**PRUNED, "split_columns": 7},
        "pruned, root columns": {**PRUNED, "split_columns": "auto"},
        "now": NOW,
        "half": HALF,
        "half, gain 4": {**HALF, "min_relative_gain": 4.0},
        "half, rows 0.7": {**HALF, "subsample": 0.7},
        "2 d^0.4 features": {"max_features": powers(2, 0.4)},
        "1 root": {"max_features": roots(1)},
        "2 roots": {"max_features": roots(2)},
        "fifth": {"max_features": 0.2},
        "rows 0.3": {"subsample": 0.3},
        "rows 0.7": {"subsample": 0.7},
        "all rows": {"subsample": 1.0},
        "31 leaves": {"max_leaf_nodes": 31},
        "100 leaves": {"max_leaf_nodes": 100},
        "n/100 leaves": {"max_leaf_nodes": leaves(100)},
        "n/25 leaves": {"max_leaf_nodes": leaves(25)},
        "leaf of 3": {"min_samples_leaf": 3},
        "l2 0.03": {"l2_regularization": 0.03},
    },
    "mcboost": {
        "200 rounds": {"n_estimators": 200},
        "500 rounds": {"n_estimators": 500},
        "1000 rounds": {"n_estimators": 1000},
        "trees, 100 rounds": {"n_estimators": 100, "weak_learner": "tree"},
    },
}
DRAWN = {"subsample": 0.5, "max_features": roots(1), "max_leaf_nodes": 10}
for _name in ("abc-logitboost", "logitboost", "mart"):
    CANDIDATES[_name] = {
        "200, rate 0.1, 20 leaves": {},
        "100 rounds": {"n_estimators": 100},
        "rate 0.05": {"learning_rate": 0.05},
        "10 leaves": {"max_leaf_nodes": 10},
        "leaf of 5": {"min_samples_leaf": 5},
        "l2 1": {"l2_regularization": 1.0},
        "1 root": {"max_features": roots(1)},
        "rows 0.5": {"subsample": 0.5},
        "rows 0.5, 1 root": {"subsample": 0.5, "max_features": roots(1)},
        "rows 0.5, 1 root, 10 leaves": DRAWN,
        "rows 0.5, 1 root, 10 leaves of 5": {**DRAWN, "min_samples_leaf": 5},
        "rows 0.5, 1 root, 10 leaves, rate 0.05": {**DRAWN, "learning_rate": 0.05},
        "rows 0.5, 2 d^0.4 features, 10 leaves": {**DRAWN, "max_features": powers(2, 0.4)},
        "rows 0.5, 2 d^0.4 features, 20 leaves": {
            **DRAWN,
            "max_features": powers(2, 0.4),
            "max_leaf_nodes": 20,
        },
        "rows 0.5, 2 d^0.4 features, 10 leaves, rate 0.05": {
            **DRAWN,
            "max_features": powers(2, 0.4),
            "learning_rate": 0.05,
        },
    }
BASE = {
    "vector": CHOSEN,
    "mcboost": {},
    **dict.fromkeys(("abc-logitboost", "logitboost", "mart"), TREES),
}


def part_of(data, rows):
    """So many rows of the training part, of classes with a row for every fold."""
    X, y, _, _ = load_for_trees(data)
    kept = np.sort(np.random.default_rng([rows, len(y)]).permutation(len(y))[:rows])
    kept = kept[often(y[kept], FOLDS)]
    return X[kept], np.unique(y[kept], return_inverse=True)[1]


def fit_candidate(unit):
    """Cross-validation of one candidate: log loss as trained and at its best temperature, error, CPU seconds."""
    X, y = part_of(unit["data"], unit["rows"])
    method = unit["method"]
    folds = []
    begin = time.perf_counter()
    for fold in range(FOLDS):
        train, held = fold_rows(y, fold, FOLDS)
        params = {**BASE[method], **CANDIDATES[method][unit["candidate"]]}
        shape = len(train), X.shape[1]
        params = {
            name: value(*shape) if callable(value) else value for name, value in params.items()
        }
        if "random_state" in LEARNERS[method]().get_params():
            params["random_state"] = fold
        cpu = time.process_time()
        model = (
            LEARNERS[method](**{"calibrate": None, "n_jobs": 1, **params})
            .fit(X[train], y[train])
            .model_
        )
        cpu = time.process_time() - cpu
        models = model, model.calibrated(X[held], y[held])
        raw, best = (measures_of(one.predict_proba(X[held]), y[held]) for one in models)
        folds.append((best["log_loss"], raw["log_loss"], raw["error"], cpu))
    means = dict(
        zip(MEASURES, (round(float(mean), 5) for mean in np.mean(folds, axis=0)), strict=True)
    )
    return {**unit, **means, "seconds": round(time.perf_counter() - begin, 3)}


def sizes_of(data):
    """Sizes that a training part has, the last of them all its rows where these are not many more."""
    n = len(load_for_trees(data)[1])
    return [rows for at, rows in enumerate(SIZES) if at == 0 or n > 1.2 * SIZES[at - 1]]


def plan(options, journal):
    """Every candidate on every set, at every size."""
    sets = [name for name in sets_by_cost(options.sets) if DATA[name].n_features <= WIDEST]
    units = []
    for method in options.methods or LEARNERS:
        for data in sets:
            work = DATA[data].n_features * DATA[data].n_classes
            rows = [
                n
                for n in sizes_of(data)
                if method == "vector" or (n * work <= MOST_WORK and n < SIZES[-1])
            ]
            units += cross(method=[method], data=[data], rows=rows, candidate=CANDIDATES[method])
    units.sort(key=lambda unit: unit["rows"] * DATA[unit["data"]].cost / DATA[unit["data"]].rows)
    yield 0, units, "defaults"


def text_of(frame):
    """Every candidate's ranks and means over sets and sizes."""
    parts = []
    for method in LEARNERS:
        mine = select(frame, method=method)
        if mine.empty:
            continue
        names = [name for name in CANDIDATES[method] if name in set(mine["candidate"])]
        wide = mine.groupby(["data", "rows", "candidate"])[[*MEASURES]].mean().unstack("candidate")
        wide = wide[wide["log_loss"][names].notna().all(axis=1)]
        if len(wide) < 2:
            continue
        order = [
            ranks.rank(names, wide[what][names].to_numpy()).mean_ranks
            for what in ("log_loss", "error")
        ]
        lines = []
        for j, name in enumerate(names):
            losses = (f"{geometric(wide[what][name]):.4f}" for what in ("log_loss", "raw_log_loss"))
            others = f"{wide['error'][name].mean():.2f}", f"{geometric(wide['cpu'][name]):.3f}"
            lines.append([name, *(f"{one[j]:.2f}" for one in order), *losses, *others])
        head = [
            "candidate",
            "rank, log loss",
            "rank, error",
            "log loss",
            "as trained",
            "error %",
            "CPU seconds",
        ]
        parts.append(f"{method}, {len(wide)} sets and sizes:\n\n{markdown_table(head, lines)}")
    if not parts:
        return "Not enough results for a table."
    return (
        f"{FOLDS} stratified folds of training parts: {', '.join(f'{size:,}' for size in SIZES)} rows of each at most. "
        "Log loss at the temperature that is best for the held rows, and as trained. Geometric means of log loss and "
        "seconds. Each candidate changes what it names and nothing else; *slow*: rate 0.1 and 2 d^0.4 features; "
        "*pruned*: slow, and gain 0.25; *root columns*: the root of the number of classes above 9; *half*: now, n/25 "
        "leaves, half of the rows.\n\n" + "\n\n".join(parts)
    )


def values_of(frame):
    """What sentences say about candidates of vector trees: geometric means of ratios, over sets and sizes."""
    mine = select(frame, method="vector")
    wide = mine.pivot_table(index=["data", "rows"], columns="candidate", values=["log_loss", "cpu"])

    def change(candidate, other, what="log_loss"):
        return geometric(wide[what][candidate] / wide[what][other])

    better = wide["log_loss"]["half, rows 0.7"] < wide["log_loss"]["half"]
    large = better.xs(SIZES[-1], level="rows")
    small = better[better.index.get_level_values("rows") < SIZES[-1]]
    return {
        "half-rows": f"{100 * (1 - change('chosen', 'all rows')):.0f}",
        "more-rows-large": ", ".join(large.index[large]),
        "more-rows-small": f"{small.sum()} of {len(small)}",
        "more-leaves": f"{100 * (1 - change('n/25 leaves', 'chosen')):.1f}",
        "columns": f"{100 * (1 - change('pruned, root columns', 'slow, gain 0.25')):.1f}",
        "more-rounds": f"{100 * (1 - change('slow, gain 0.25, 400 rounds', 'slow, gain 0.25')):.1f}",
        "more-rounds-time": f"{change('slow, gain 0.25, 400 rounds', 'slow, gain 0.25', 'cpu'):.1f}",
        "l2": f"{100 * (change('l2 0.03', 'chosen') - 1):.0f}",
    }


RESULTS = Results("defaults", "method data rows candidate", " ".join(MEASURES), fit=fit_candidate)
EXPERIMENTS = (
    Experiment(
        "defaults",
        "Choice of defaults",
        (RESULTS,),
        plan=plan,
        text=text_of,
        sets=tuple(DATA),
        methods=tuple(LEARNERS),
        values=values_of,
    ),
)
