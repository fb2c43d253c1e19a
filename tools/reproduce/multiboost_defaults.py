"""The choice of MultiBoost's defaults: cross-validation on training parts only."""

import itertools

from shared.datasets import DATA, fold_of, load_for_trees, sets_by_cost, stratified_rows
from shared.tables import markdown_table

from reproduce.experiment import Experiment, Results, cross, fit_and_test, select
from reproduce.multiboost import DEPTH_2, estimator

SETS = ("vowel", "satimage", "optdigits", "pendigits", "usps", "letter", "glass", "yeast")
FOLDS = 3
# Rows of a training part that take part at most, a random choice within every class.
ROWS = 3000
GRID_C = (1e2, 1e3, 1e4, 1e5, 1e6, 1e8)
PASSES = (5, 1, 2, 10)
CLASSES = {"multiboost-cw": "MultiBoostCW", "multiboost": "MultiBoost"}
ROUNDS = {"multiboost-cw": 100, "multiboost": 200}
LEARNERS = {"stump": {}, "depth 2": DEPTH_2, "8 leaves": {"weak_learner": "tree", "max_leaf_nodes": 8}}


def training_part(name, most=ROWS):
    """The training part of a set, at most ``most`` rows of it; of a set in one piece, its first 75:25 split's."""
    X, y, _, _ = load_for_trees(name)
    if len(y) > most:
        _, rows = stratified_rows(y, 0, most / len(y))
        X, y = X[rows], y[rows]
    return X, y


def fit_defaults(unit):
    """One fold of one setting."""
    model = estimator(
        CLASSES[unit["algorithm"]], n_estimators=unit["rounds"], C=float(unit["C"]), max_passes=unit["passes"],
        **LEARNERS[unit["learner"]],
    )  # fmt: skip
    row, _ = fit_and_test(unit, model, fold_of(*training_part(unit["data"]), unit["fold"], FOLDS))
    return {**row, "learners": model.sparsity_["learners"]}


def plan(options, journal):
    """All settings; one fold of everything comes before the next fold."""
    sets = sets_by_cost(options.sets or SETS)
    units = cross(fold=range(FOLDS), data=sets, algorithm=ROUNDS, learner=LEARNERS, passes=PASSES, C=GRID_C)
    units = [{**unit, "rounds": options.rounds or ROUNDS[unit["algorithm"]]} for unit in units]
    yield 0, units, "multiboost-defaults"


def relative_errors(frame, algorithm, learner):
    """Mean over the sets of error / lowest error on the set, for the sets that have every setting.

    Returns
    -------
    dict of (passes, C) to float, and the names of the sets
    """
    mine = select(frame, algorithm=algorithm, learner=learner)
    settings = sorted(set(zip(mine["passes"], mine["C"], strict=True)))
    names, tables = [], []
    for data in sets_by_cost(sorted(set(mine["data"]))) if settings else ():
        # Settings are compared on the folds that all of them have.
        cells = select(mine, data=data).pivot(index=["passes", "C"], columns="fold", values="error")
        means = cells.reindex(settings).dropna(axis=1).mean(axis=1)
        if means.notna().all():
            names.append(data)
            tables.append(means / max(means.min(), 1e-9))
    return (dict(sum(tables) / len(tables)), names) if names else ({}, [])


def defaults_text(frame):
    """Relative errors by C and passes, one line for each algorithm, weak learner and number of passes."""
    lines, names = [], []
    for algorithm, learner in itertools.product(ROUNDS, LEARNERS):
        table, here = relative_errors(frame, algorithm, learner)
        names = names if len(names) > len(here) else here
        low = min(table.values(), default=0)
        for passes in sorted({passes for passes, _ in table}):
            cells = [table.get((passes, C), float("nan")) for C in GRID_C]
            words = [f"**{cell:.3f}**" if cell == low else f"{cell:.3f}" for cell in cells]
            lines.append([algorithm, learner, passes, *words])
    if not lines:
        return "Not enough results for a table."
    rounds = ", ".join(f"{name} {count} rounds" for name, count in ROUNDS.items())
    return (
        f"{FOLDS}-fold cross-validation on the training parts (at most {ROWS:,} rows of each) of "
        f"{', '.join(names)}; {rounds}. Error divided by the lowest of the same weak learner on the set, mean over the "
        "sets.\n\n"
        + markdown_table(["algorithm", "weak learner", "passes", *(f"C = {C:.0e}" for C in GRID_C)], lines)
    )


RESULTS = Results(
    "multiboost-defaults", "data algorithm learner C passes fold rounds",
    "error rounds_fitted learners n_train n_test", fit_defaults,
)  # fmt: skip
EXPERIMENTS = (
    Experiment(
        "multiboost-defaults", "Defaults of MultiBoost and MultiBoost-cw", (RESULTS,), plan, defaults_text,
        sets=tuple(DATA),
    ),
)  # fmt: skip
