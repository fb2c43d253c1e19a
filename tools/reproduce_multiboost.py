"""Experiments with MultiBoost and MultiBoost-cw; part of tools/reproduce.py.

The figures of G. Lin, C. Shen, A. van den Hengel and D. Suter (Fast training of effective multi-class boosting using
coordinate descent optimization), the column of MultiBoost in Table IV of S. Paisitkriangkrai, C. Shen and A. van den
Hengel (A scalable stage-wise approach to large-margin multi-class loss based boosting), and the choice of defaults.
"""

import itertools
import time
from pathlib import Path

import common
import numpy as np
import reproduce_trees
from common import error_percent
from journal import Journal, run_units

# --------------------------------------------------------------------------------------------------------------------
# Defaults: cross-validation on training parts only

DEFAULTS_SETS = ("vowel", "satimage", "optdigits", "pendigits", "usps", "letter", "glass", "yeast")
DEFAULTS_FOLDS = 3
# Rows of a training part that take part at most, a random choice within every class.
DEFAULTS_ROWS = 3000
DEFAULTS_C = (1e2, 1e3, 1e4, 1e5, 1e6, 1e8)
DEFAULTS_PASSES = (5, 1, 2, 10)
DEFAULTS_ROUNDS = {"multiboost-cw": 100, "multiboost": 200}
LEARNERS = {
    "stump": {},
    "depth 2": {"weak_learner": "tree", "max_leaf_nodes": 4, "max_depth": 2},
    "8 leaves": {"weak_learner": "tree", "max_leaf_nodes": 8},
}
DEFAULTS_KEY = ["data", "algorithm", "learner", "C", "passes", "fold", "rounds"]
DEFAULTS_COLUMNS = ["error", "rounds_fitted", "learners", "n_train", "n_test"]


def multiboost(algorithm, **parameters):
    """New estimator of one of the two algorithms, with one thread."""
    from pymcboost import MultiBoostClassifier, MultiBoostCWClassifier

    made = MultiBoostCWClassifier if algorithm == "multiboost-cw" else MultiBoostClassifier
    return made(**{"n_jobs": 1, "random_state": 0, **parameters})


def training_part(name, most=DEFAULTS_ROWS):
    """The training part of a set, at most ``most`` rows of it; of a set in one piece, its first 75:25 split's."""
    X, y, _, _ = common.load_for_trees(name)
    if len(y) > most:
        _, rows = common.stratified_rows(y, 0, most / len(y))
        X, y = X[rows], y[rows]
    return X, y


def fit_defaults(unit):
    """One fold of one setting."""
    X, y = training_part(unit["data"])
    train, test = reproduce_trees.fold_rows(y, int(unit["fold"]), DEFAULTS_FOLDS)
    X_train, codes, X_test, truth = reproduce_trees.coded((X[train], y[train], X[test], y[test]))
    model = multiboost(
        unit["algorithm"],
        n_estimators=int(unit["rounds"]),
        C=float(unit["C"]),
        max_passes=int(unit["passes"]),
        **LEARNERS[unit["learner"]],
    )
    begin = time.perf_counter()
    model.fit(X_train, codes)
    seconds = time.perf_counter() - begin
    return {
        **unit,
        "error": round(error_percent(truth, model.predict(X_test)), 4),
        "rounds_fitted": model.n_estimators_,
        "learners": model.sparsity_["learners"],
        "n_train": len(codes),
        "n_test": len(truth),
        "seconds": round(seconds, 3),
    }


def defaults_units(sets, rounds=None):
    """All settings; one fold of everything comes before the next fold."""
    return [
        {
            "data": data,
            "algorithm": algorithm,
            "learner": learner,
            "C": C,
            "passes": passes,
            "fold": fold,
            "rounds": rounds or DEFAULTS_ROUNDS[algorithm],
        }
        for fold in range(DEFAULTS_FOLDS)
        for data in sets
        for algorithm, learner, passes, C in itertools.product(DEFAULTS_ROUNDS, LEARNERS, DEFAULTS_PASSES, DEFAULTS_C)
    ]


def defaults_journal(folder, fresh=False, keep=False):
    return Journal(Path(folder, "multiboost-defaults.csv"), DEFAULTS_KEY, DEFAULTS_COLUMNS, fresh, keep)


def relative_errors(rows, algorithm, learner):
    """Mean over the sets of error / lowest error on the set, for the sets that have every setting.

    Returns
    -------
    dict of (passes, C) to float, and the names of the sets
    """
    cells = {}
    for row in rows:
        if row["algorithm"] == algorithm and row["learner"] == learner:
            cells.setdefault((row["data"], int(row["passes"]), float(row["C"])), {})[row["fold"]] = float(row["error"])
    settings = sorted({(passes, C) for _, passes, C in cells})
    names, tables = [], []
    for data in reproduce_trees.sets_by_cost(sorted({data for data, _, _ in cells})):
        mine = [cells.get((data, *setting), {}) for setting in settings]
        # Settings are compared on the folds that all of them have.
        folds = set.intersection(*(set(one) for one in mine)) if mine else set()
        if folds:
            names.append(data)
            means = np.array([np.mean([one[fold] for fold in folds]) for one in mine])
            tables.append(means / max(means.min(), 1e-9))
    if not names:
        return {}, []
    return dict(zip(settings, np.mean(tables, axis=0).tolist(), strict=True)), names


def defaults_text(rows):
    """Relative errors by C and passes, one line for each algorithm, weak learner and number of passes."""
    lines, names = [], []
    for algorithm, learner in itertools.product(DEFAULTS_ROUNDS, LEARNERS):
        table, here = relative_errors(rows, algorithm, learner)
        names = names if len(names) > len(here) else here
        low = min(table.values(), default=0)
        for passes in sorted({passes for passes, _ in table}):
            cells = [table.get((passes, C), float("nan")) for C in DEFAULTS_C]
            words = [f"**{cell:.3f}**" if cell == low else f"{cell:.3f}" for cell in cells]
            lines.append([algorithm, learner, passes, *words])
    if not lines:
        return "Not enough results for a table."
    rounds = ", ".join(f"{name} {count} rounds" for name, count in DEFAULTS_ROUNDS.items())
    return (
        f"{DEFAULTS_FOLDS}-fold cross-validation on the training parts (at most {DEFAULTS_ROWS:,} rows of each) of "
        f"{', '.join(names)}; {rounds}. Error divided by the lowest of the same weak learner on the set, mean over the "
        "sets.\n\n"
        + common.markdown_table(["algorithm", "weak learner", "passes", *(f"C = {C:.0e}" for C in DEFAULTS_C)], lines)
    )


def run_defaults(options):
    """Choose C and the number of passes on training parts only."""
    journal = defaults_journal(options.results, options.fresh)
    units = defaults_units(reproduce_trees.sets_by_cost(options.sets or DEFAULTS_SETS), options.rounds)
    run_units(journal, fit_defaults, units, options.jobs, "multiboost-defaults", options.budget)
    print(defaults_text(journal.rows))


def verify_defaults(options):
    journal = defaults_journal(options.results, keep=True)
    return reproduce_trees.verify_units(
        "multiboost-defaults", journal, fit_defaults, ("fold", "passes", "rounds"), options, _seconds
    )


def _seconds(row):
    return float(row["seconds"])


# --------------------------------------------------------------------------------------------------------------------
# For reproduce.py

RUNS = {"multiboost-defaults": run_defaults}
VERIFY = {"multiboost-defaults": verify_defaults}


def markdown(folder):
    """Parts of docs/reproduction.md that have results in ``folder``."""
    parts = []
    path = Path(folder, "multiboost-defaults.csv")
    if path.exists():
        parts.append(f"### Defaults of MultiBoost and MultiBoost-cw\n\n{defaults_text(defaults_journal(folder).rows)}")
    return parts
