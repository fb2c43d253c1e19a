"""The weak learner of Table V of MCBoost's paper: which one brings all methods near its errors on vowel and satimage.

A learner is chosen by one method's errors in cross-validation on the training part of the first split; the errors of
the other methods on test parts show whether it is the paper's.
"""

import numpy as np
from shared.datasets import DATA, coded, fold_of
from shared.tables import deviations, markdown_table, mean_and_deviation

from reproduce.experiment import Experiment, Results, cross, errors_of, fit_and_test
from reproduce.mcboost import classifier
from reproduce.multiboost import estimator
from reproduce.table5 import CLASSES, PUBLISHED, ROUNDS, table5_split
from reproduce.table5 import RESULTS as TABLE5

SETS = "vowel", "satimage"
# The methods that take seconds a fit. The first one chooses.
METHODS = "samme", "adaboost-ecc", "adaboost-mh", "mcboost-exp"
CHOOSING = METHODS[0]
FOLDS = 5
REPEATS = 3
# No bound on the leaves besides the depth.
DEEP = {"weak_learner": "tree", "max_leaf_nodes": 32}
THREE = {"weak_learner": "tree", "max_leaf_nodes": 3}
LEARNERS = {
    "stump": {"weak_learner": "stump"},
    "stump, 16 bins": {"weak_learner": "stump", "max_bins": 16},
    "stump, 8 bins": {"weak_learner": "stump", "max_bins": 8},
    "3 leaves": THREE,
    "3 leaves, 16 bins": {**THREE, "max_bins": 16},
    "3 leaves, 8 bins": {**THREE, "max_bins": 8},
    "3 leaves of 5%": {**THREE, "min_weight_fraction_leaf": 0.05},
    "3 leaves of 10%": {**THREE, "min_weight_fraction_leaf": 0.1},
    "depth 2": {**DEEP, "max_depth": 2},
    "depth 2, leaves of 10%": {**DEEP, "max_depth": 2, "min_weight_fraction_leaf": 0.1},
    "depth 3": {**DEEP, "max_depth": 3},
    "depth 4": {**DEEP, "max_depth": 4},
}


def learner_estimator(data, method, learner):
    """New estimator; with trees AdaBoost.MH has as many of them as the others."""
    weak = LEARNERS[learner]
    if method == "mcboost-exp":
        return classifier("exp", ROUNDS, **weak)
    share = (
        DATA[data].n_classes if method == "adaboost-mh" and weak["weak_learner"] == "tree" else 1
    )
    return estimator(CLASSES[method], n_estimators=ROUNDS // share, **weak)


def fit_learner(unit):
    """One fit on one split."""
    model = learner_estimator(unit["data"], unit["method"], unit["learner"])
    return fit_and_test(unit, model, coded(table5_split(unit["data"], unit["repeat"])))[0]


def fit_fold(unit):
    """One fold of the training part of the first split."""
    X, y, _, _ = table5_split(unit["data"], 0)
    model = learner_estimator(unit["data"], unit["method"], unit["learner"])
    return fit_and_test(unit, model, fold_of(X, y, unit["fold"], folds=FOLDS))[0]


def fit_unit(unit):
    """A fold of the training part, or a split."""
    return fit_fold(unit) if unit["part"] == "fold" else fit_learner(unit)


def plan(options, journal):
    sets = options.sets or SETS
    folds = cross(
        data=sets, learner=LEARNERS, method=[CHOOSING], part=["fold"], fold=range(FOLDS), repeat=[0]
    )
    yield 0, folds, "table5-learners: choice"
    splits = cross(
        data=sets,
        learner=LEARNERS,
        method=METHODS,
        part=["test"],
        fold=[0],
        repeat=range(options.repeats or REPEATS),
    )
    yield 0, splits, "table5-learners"


def distances(frame, data):
    """{learner: (the choosing method's error in folds, {method: (error, deviations from the paper)})}."""
    distance_of_learner = {}
    for learner in LEARNERS:
        folds = errors_of(frame, data=data, learner=learner, part="fold")
        if len(folds) < FOLDS:
            continue
        cells = {}
        for method in METHODS:
            errors = errors_of(frame, data=data, learner=learner, method=method, part="test")
            if len(errors):
                mean, _ = mean_and_deviation(errors)
                cells[method] = mean, deviations(mean, PUBLISHED[data][method])
        if len(cells) == len(METHODS):
            distance_of_learner[learner] = float(np.mean(folds)), cells
    return distance_of_learner


def chosen_learner(distance_of_learner, data):
    """The learner with which the choosing method is nearest to the paper's error in the folds, the first of equals."""
    target = PUBLISHED[data][CHOOSING][0]
    return min(
        distance_of_learner, key=lambda learner: abs(distance_of_learner[learner][0] - target)
    )


def near(cells, methods):
    """How many of some methods are within one standard deviation of the paper's, above or below."""
    return sum(abs(cells[method][1]) <= 1 for method in methods)


def text(frame):
    """The search as a table."""
    parts = []
    for data in SETS:
        distance_of_learner = distances(frame, data)
        if not distance_of_learner:
            continue
        chosen = chosen_learner(distance_of_learner, data)
        lines = []
        for learner, (folds, cells) in distance_of_learner.items():
            words = [f"{mean:.1f} ({distance:+.1f} sd)" for mean, distance in cells.values()]
            name = f"**{learner}**" if learner == chosen else learner
            lines.append(
                [name, f"{folds:.1f}", *words, f"{near(cells, METHODS)} of {len(METHODS)}"]
            )
        paper = [
            f"{PUBLISHED[data][method][0]} ({PUBLISHED[data][method][1]})" for method in METHODS
        ]
        head = ["learner", f"{CHOOSING}, folds", *METHODS, "within one sd"]
        parts.append(f"{data}:\n\n" + markdown_table(head, [["the paper", "", *paper, ""], *lines]))
    return (
        f"Test error in percent, mean of {REPEATS} splits, and its distance from the paper's in standard deviations. "
        f"Bold: the learner with which {CHOOSING} is nearest to the paper's error in {FOLDS}-fold cross-validation on "
        "the training part of the first split.\n\n" + "\n\n".join(parts)
    )


def values(frame):
    """What sentences say about the search."""
    others = METHODS[1:]
    by_set = {data: distances(frame, data) for data in SETS}
    values = {}
    for data, found in by_set.items():
        chosen = chosen_learner(found, data)
        cells = found[chosen][1]
        most = max(near(cells, METHODS) for _, cells in found.values())
        best = [learner for learner, (_, cells) in found.items() if near(cells, METHODS) == most]
        values |= {
            f"{data}-chosen": chosen,
            f"{data}-others": f"{near(cells, others)} of {len(others)}",
            f"{data}-distances": ", ".join(
                f"{method} {cells[method][1]:+.1f}" for method in METHODS
            ),
            f"{data}-most": f"{most} of {len(METHODS)}",
            f"{data}-best": " and ".join(best),
        }
    shared = {
        learner: sum(near(found[learner][1], METHODS) for found in by_set.values())
        for learner in LEARNERS
        if all(learner in found for found in by_set.values())
    }
    best = max(shared, key=shared.get)
    return values | {"both": best, "both-within": f"{shared[best]} of {len(SETS) * len(METHODS)}"}


# --------------------------------------------------------------------------------------------------------------------
# All methods with the learner that is best on both sets

CHOSEN = "3 leaves, 16 bins"
ALL_SETS = "vowel", "satimage", "pendigits", "usps", "letter"
# AdaBoost.MO would have 511 trees or more in every round of most of these sets.
ALL_METHODS = tuple(method for method in PUBLISHED["wine"] if method != "adaboost-mo")


def chosen_estimator(unit):
    """New estimator of a column; GradBoost's l1 and MultiBoost's C are those of Table V with three leaves."""
    method = unit["method"]
    weak = LEARNERS[CHOSEN]
    if method in METHODS:
        return learner_estimator(unit["data"], method, CHOSEN)
    if method.startswith("mcboost"):
        return classifier(method.split("-")[1], ROUNDS, **weak)
    value = float(unit["value"])
    options = (
        {"l1": value} if method == "gradboost" else {"C": value, "loss": "exp", "solver": "fcd"}
    )
    return estimator(CLASSES[method], n_estimators=ROUNDS, **weak, **options)


def fit_chosen(unit):
    """One fit on one split."""
    parts = coded(table5_split(unit["data"], unit["repeat"]))
    return fit_and_test(unit, chosen_estimator(unit), parts)[0]


def values_of_table5(folder):
    """{(data, method): l1 or C} of Table V with trees of three leaves, in a folder of results."""
    rows = TABLE5.journal(folder, keep=True).rows
    return {
        (row["data"], row["method"]): row["value"] for row in rows if row["learner"] == "3 leaves"
    }


def plan_chosen(options, journal):
    """The cheap sets first."""
    of_table5 = values_of_table5(options.results)
    units = cross(
        data=options.sets or ALL_SETS,
        method=options.methods or ALL_METHODS,
        repeat=range(options.repeats or REPEATS),
    )
    units = [{**unit, "value": of_table5[unit["data"], unit["method"]]} for unit in units]
    yield 0, sorted(units, key=lambda unit: unit["data"] == "usps"), "table5-chosen"


def chosen_distances(frame):
    """{(data, method): (mean error, deviations from the paper)}."""
    distance_of_cell = {}
    for data in ALL_SETS:
        for method in ALL_METHODS:
            errors = errors_of(frame, data=data, method=method)
            if len(errors):
                mean = mean_and_deviation(errors)[0]
                distance_of_cell[data, method] = mean, deviations(mean, PUBLISHED[data][method])
    return distance_of_cell


def chosen_text(frame):
    """Errors beside the paper's."""
    distance_of_cell = chosen_distances(frame)
    lines = []
    for data in ALL_SETS:
        mine = {
            method: distance_of_cell[data, method]
            for method in ALL_METHODS
            if (data, method) in distance_of_cell
        }
        if not mine:
            continue
        cells = [
            f"{PUBLISHED[data][m][0]} / {mine[m][0]:.1f} ({mine[m][1]:+.1f} sd)"
            if m in mine
            else "-"
            for m in ALL_METHODS
        ]
        lines.append([data, *cells, f"{near(mine, mine)} of {len(mine)}"])
    return (
        f"Trees of {CHOSEN}, {REPEATS} splits: paper / ours in percent, and the distance in the paper's standard "
        "deviations. GradBoost's l1 and MultiBoost's C are those of Table V with three leaves.\n\n"
        + markdown_table(["data", *ALL_METHODS, "within one sd"], lines)
    )


def chosen_values(frame):
    """What sentences say about the table."""
    distance_of_cell = chosen_distances(frame)
    values = {"within": f"{near(distance_of_cell, distance_of_cell)} of {len(distance_of_cell)}"}
    values["better"] = (
        f"{sum(one < -1 for _, one in distance_of_cell.values())} of {len(distance_of_cell)}"
    )
    values["worse"] = (
        f"{sum(one > 1 for _, one in distance_of_cell.values())} of {len(distance_of_cell)}"
    )
    sets = list(dict.fromkeys(data for data, _ in distance_of_cell))
    values["sets"] = ", ".join(sets)
    for data in sets:
        mine = {cell: one for cell, one in distance_of_cell.items() if cell[0] == data}
        values[data] = f"{near(mine, mine)} of {len(mine)}"
    return values


RESULTS = Results(
    "table5-learners", "data learner method part fold repeat", "error n_train n_test", fit=fit_unit
)
EXPERIMENTS = (
    Experiment(
        "table5-learners",
        "Table V: the weak learner",
        (RESULTS,),
        plan=plan,
        text=text,
        sets=SETS,
        values=values,
    ),
    Experiment(
        "table5-chosen",
        "Table V with the weak learner of the search",
        (
            Results(
                "table5-chosen",
                "data method value repeat",
                "error n_train n_test",
                fit=fit_chosen,
                as_text="value",
            ),
        ),
        plan=plan_chosen,
        text=chosen_text,
        sets=ALL_SETS,
        methods=ALL_METHODS,
        values=chosen_values,
    ),
)
