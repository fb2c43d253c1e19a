"""Experiments with PIBoost and the classic multi-class boosters; part of tools/reproduce.py.

Tables 2 and 3 of A. Fernandez-Baldera and L. Baumela (Multi-class boosting with asymmetric binary weak-learners), Table
V of S. Paisitkriangkrai, C. Shen and A. van den Hengel (A scalable stage-wise approach to large-margin multi-class loss
based boosting), and what class weights and asymmetric margins do for rare classes.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import common
import numpy as np
import ranks
import reproduce_multiboost
import reproduce_trees
from common import error_percent
from journal import Journal, pyplot, run_units
from reproduce_multiboost import chosen_methods, save

# --------------------------------------------------------------------------------------------------------------------
# PIBoost's Table 3: 5-fold cross-validation, equal numbers of weak learners


@dataclass(frozen=True)
class Paper3:
    """A row of the paper's Tables 2 and 3: number of weak learners, and error (standard deviation) in percent."""

    learners: int
    gentleboost: tuple
    mh: tuple
    samme: tuple
    singles: tuple
    pairs: tuple


TABLE3 = {
    "car": Paper3(280, (8.52, 1.21), (7.13, 1.68), (4.87, 1.11), (3.25, 0.74), (3.77, 0.59)),
    "krkopt": Paper3(1710, (51.36, 0.61), (42.40, 0.34), (55.76, 0.63), (52.60, 1.18), (51.87, 0.74)),
    "CNAE-9": Paper3(900, (8.70, 2.39), (10.28, 1.84), (11.11, 0.77), (14.72, 1.93), (8.24, 1.71)),
    "isolet": Paper3(3510, (15.07, 0.94), (54.33, 1.79), (8.12, 1.85), (12.11, 2.53), (5.59, 0.55)),
    "mfeat": Paper3(1100, (4.60, 1.28), (36.70, 8.22), (1.35, 0.44), (3.40, 0.96), (1.45, 0.82)),
    "nursery": Paper3(600, (12.16, 0.60), (2.03, 0.32), (4.82, 0.58), (1.92, 0.29), (3.13, 0.62)),
    "optdigits": Paper3(1100, (7.56, 0.74), (4.32, 0.59), (3.65, 0.55), (4.00, 0.13), (2.40, 0.41)),
    "page-blocks": Paper3(600, (2.91, 0.52), (2.76, 0.46), (3.86, 0.87), (3.64, 0.47), (3.02, 0.50)),
    "pendigits": Paper3(1100, (2.21, 0.11), (1.13, 0.29), (4.84, 0.62), (3.58, 0.40), (1.92, 0.25)),
    "satimage": Paper3(560, (12.94, 0.32), (13.18, 0.51), (36.91, 1.20), (11.13, 0.62), (9.49, 0.53)),
    "segmentation": Paper3(560, (4.94, 0.64), (4.07, 0.88), (2.38, 0.55), (2.08, 0.52), (1.77, 0.61)),
    "vehicle": Paper3(280, (27.10, 4.03), (39.76, 2.97), (23.20, 2.21), (25.09, 3.05), (23.55, 2.58)),
    "vowel": Paper3(1320, (28.18, 3.22), (35.25, 3.24), (6.67, 1.14), (6.46, 1.83), (6.06, 1.60)),
    "waveform": Paper3(120, (16.18, 0.75), (18.10, 0.72), (17.10, 1.09), (15.32, 0.44), (15.32, 0.44)),
}
TABLE3_FOLDS = 5
# Share of the rows that a tree is learnt from.
TABLE3_SUBSAMPLE = 0.1
# Columns of the table: our method and the paper's column.
TABLE3_METHODS = {
    "gentleboost": "gentleboost",
    "adaboost-mh": "mh",
    "samme": "samme",
    "piboost-singles": "singles",
    "piboost-pairs": "pairs",
    "piboost-singles-costs": "singles",
    "piboost-pairs-costs": "pairs",
}
PAPER_METHODS = ("gentleboost", "mh", "samme", "singles", "pairs")
RANKED = tuple(TABLE3_METHODS)[: len(PAPER_METHODS)]
TABLE3_KEY = ["data", "method", "leaves", "rounds", "fold"]
TABLE3_COLUMNS = ["error", "rounds_fitted", "trees", "n_train", "n_test"]


def columns_of(method, n_classes):
    """Weak learners that a method fits in a round."""
    from pymcboost.losses.codes import separators

    if method == "samme":
        return 1
    if method.startswith("piboost"):
        return separators(method.split("-")[1], n_classes).shape[1]
    return n_classes


def table3_rounds(data, method):
    """Rounds after which a method has as many trees as the paper's (its Table 2, save satimage of 6 classes here)."""
    return TABLE3[data].learners // columns_of(method, common.DATA[data].n_classes)


def table3_leaves(data, method):
    """Most leaves of a tree, in place of the paper's rule: to split impure nodes of more than M/K of the M rows.

    Classification trees of all classes grown by that rule end with about 2K leaves; trees of two classes and regression
    trees may have twice as many.
    """
    return max(10, (2 if method == "samme" else 4) * common.DATA[data].n_classes)


def table3_estimator(method, rounds, leaves):
    """New estimator of a column of the table."""
    import pymcboost

    shared = {
        "n_estimators": rounds, "weak_learner": "tree", "max_leaf_nodes": leaves, "subsample": TABLE3_SUBSAMPLE,
        "random_state": 0, "n_jobs": 1,
    }  # fmt: skip
    if method.startswith("piboost"):
        parts = method.split("-")
        return pymcboost.PIBoostClassifier(separators=parts[1], cost_sensitive=parts[-1] == "costs", **shared)
    classes = {"gentleboost": "GentleBoost", "adaboost-mh": "AdaBoostMH", "samme": "SAMME"}
    return getattr(pymcboost, f"{classes[method]}Classifier")(**shared)


def fold_data(name, fold, folds):
    """One fold of all rows of a data set: X, codes, X_test, codes of the test rows."""
    X, y = common.load_pooled(name)
    train, test = reproduce_trees.fold_rows(y, fold, folds)
    return reproduce_trees.coded((X[train], y[train], X[test], y[test]))


def fit_table3(unit):
    """One fold of one method."""
    X, codes, X_test, truth = fold_data(unit["data"], int(unit["fold"]), TABLE3_FOLDS)
    model = table3_estimator(unit["method"], int(unit["rounds"]), int(unit["leaves"]))
    begin = time.perf_counter()
    model.fit(X, codes)
    seconds = time.perf_counter() - begin
    return {
        **unit,
        "error": round(error_percent(truth, model.predict(X_test)), 4),
        "rounds_fitted": model.n_estimators_,
        "trees": len(model.model_.ensemble.offset) - 1,
        "n_train": len(codes),
        "n_test": len(truth),
        "seconds": round(seconds, 3),
    }


def table3_sets():
    """The paper's data sets that are known here."""
    return [data for data in reproduce_trees.sets_by_cost() if data in TABLE3]


def table3_units(sets, methods, folds=TABLE3_FOLDS):
    return [
        {
            "data": data,
            "method": method,
            "leaves": table3_leaves(data, method),
            "rounds": table3_rounds(data, method),
            "fold": fold,
        }
        for data in sets
        for method in methods
        for fold in range(folds)
    ]


def table3_journal(folder, fresh=False, keep=False):
    return Journal(Path(folder, "piboost-table3.csv"), TABLE3_KEY, TABLE3_COLUMNS, fresh, keep)


def errors_of(rows, **where):
    """Errors of the rows that have these values."""
    return [float(row["error"]) for row in rows if all(row[key] == str(value) for key, value in where.items())]


def mean_and_spread(errors):
    return float(np.mean(errors)), float(np.std(errors, ddof=1)) if len(errors) > 1 else 0.0


def verdict(ours, theirs, sd=2):
    """Whether a mean lies within so many of the paper's standard deviations or below, in words."""
    distance = (ours - theirs[0]) / theirs[1]
    return f"{'yes' if distance <= sd else 'NO'} ({distance:+.1f} sd)"


def table3_found(rows):
    """{(data, method): (mean, standard deviation, folds)} of the folds that are there, in the order of the table."""
    found = {}
    for data in table3_sets():
        for method in TABLE3_METHODS:
            errors = errors_of(rows, data=data, method=method, leaves=table3_leaves(data, method))
            if errors:
                found[data, method] = (*mean_and_spread(errors), len(errors))
    return found


def table3_ranking(found):
    """Ranking of our five methods over the sets where all of them have all folds, and the names of these sets."""
    sets = [
        data
        for data in table3_sets()
        if all((data, m) in found and found[data, m][2] == TABLE3_FOLDS for m in TABLE3_METHODS)
    ]
    if len(sets) < 2:
        return None, sets
    return ranks.rank(RANKED, [[found[data, m][0] for m in RANKED] for data in sets]), sets


def paper_ranking(sets):
    """The same of the errors that the paper prints."""
    return ranks.rank(RANKED, [[getattr(TABLE3[data], name)[0] for name in PAPER_METHODS] for data in sets])


def ranking_words(ranking):
    return (
        f"{ranking.n_sets} sets; Friedman {ranking.friedman:.1f} (p = {ranking.friedman_p:.2g}), Iman and Davenport "
        f"{ranking.iman_davenport:.2f} (p = {ranking.iman_davenport_p:.2g}); critical difference (Nemenyi, "
        f"{ranking.level:g}) {ranking.critical:.2f}"
    )


def table3_text(rows):
    """Errors beside the paper's, what is within two standard deviations, and ranks, in Markdown."""
    found = table3_found(rows)
    lines, verdicts, counts = [], [], [0, 0]
    for data in table3_sets():
        cells, words = [], []
        for method, column in TABLE3_METHODS.items():
            theirs, ours = getattr(TABLE3[data], column), found.get((data, method))
            if ours is None:
                cells.append("-")
                words.append("-")
                continue
            short = "" if ours[2] == TABLE3_FOLDS else f" [{ours[2]} folds]"
            if method in RANKED:
                cells.append(f"{theirs[0]:.2f} ({theirs[1]:.2f}) / {ours[0]:.2f} ({ours[1]:.2f}){short}")
                word = verdict(ours[0], theirs)
                counts[0] += word.startswith("yes")
                counts[1] += 1
            else:
                cells.append(f"{ours[0]:.2f} ({ours[1]:.2f}){short}")
                word = verdict(ours[0], theirs)
            words.append(word)
        if set(cells) != {"-"}:
            leaves = f"{table3_leaves(data, 'samme')}, {table3_leaves(data, 'piboost-singles')}"
            lines.append([data, TABLE3[data].learners, leaves, *cells])
            verdicts.append([data, *words])
    if not lines:
        return "Not enough results for a table."
    head = list(TABLE3_METHODS)
    text = (
        f"{TABLE3_FOLDS}-fold cross-validation of all rows; paper / ours, mean (standard deviation of the folds) in "
        "percent; leaves: most of a tree of SAMME and of the others. The columns with costs have no counterpart in the "
        "paper and are compared with its PIBoost.\n\n"
        + common.markdown_table(["data", "weak learners", "leaves", *head], lines)
        + f"\n\nWithin two of the paper's standard deviations or better: {counts[0]} of {counts[1]} cells.\n\n"
        + common.markdown_table(["data", *head], verdicts)
    )
    ranking, sets = table3_ranking(found)
    if ranking is None:
        return text
    theirs, all_theirs = paper_ranking(sets), paper_ranking(list(TABLE3))
    table = common.markdown_table(
        ["mean rank", *RANKED],
        [
            [what, *(f"{value:.2f}" for value in one.mean_ranks)]
            for what, one in (
                ("ours", ranking),
                ("the paper's, the same sets", theirs),
                ("the paper's, all its sets", all_theirs),
            )
        ],
    )
    return (
        f"{text}\n\n{table}\n\nOurs: {ranking_words(ranking)}. The paper's on the same sets: {ranking_words(theirs)}; "
        f"on all of its sets: {ranking_words(all_theirs)}."
    )


def run_table3(options):
    """PIBoost and its comparators on the paper's data sets."""
    sets = options.sets or table3_sets()
    for data in sets:
        if data not in TABLE3 or data not in common.DATA:
            raise SystemExit(f"piboost-table3 has no set {data!r}; there are {', '.join(table3_sets())}")
    journal = table3_journal(options.results, options.fresh)
    units = table3_units(
        reproduce_trees.sets_by_cost(sets), chosen_methods(options, TABLE3_METHODS), options.repeats or TABLE3_FOLDS
    )
    run_units(journal, fit_table3, units, options.jobs, "piboost-table3", options.budget)
    print(table3_text(journal.rows))
    ranking, _ = table3_ranking(table3_found(journal.rows))
    if ranking is not None:
        path = Path(options.results, "piboost-table3.png")
        ranks.plot(ranking, path, pyplot())


def verify_table3(options):
    journal = table3_journal(options.results, keep=True)
    return reproduce_trees.verify_units(
        "piboost-table3", journal, fit_table3, ("leaves", "rounds", "fold"), options, _seconds
    )


def _seconds(row):
    return float(row["seconds"])


# --------------------------------------------------------------------------------------------------------------------
# Table V: many boosters with 1,000 rounds

TABLE5_METHODS = (
    "samme", "adaboost-ecc", "adaboost-mh", "adaboost-mo", "gradboost", "multiboost", "mcboost-exp", "mcboost-log",
)  # fmt: skip
# Mean test error (standard deviation) in percent, as printed; None where the paper has no figure.
TABLE5 = {
    "dna": ((6.1, 0.9), (7.0, 1.1), (5.4, 0.9), (6.4, 1.0), (10.3, 6.4), (5.7, 0.9), (6.3, 0.9), (6.2, 1.0)),
    "svmguide2": (
        (21.7, 3.4), (22.3, 4.0), (22.3, 3.4), (22.8, 4.4),
        (24.8, 3.7), (22.1, 3.8), (21.7, 3.9), (22.2, 3.8),
    ),
    "wine": ((4.5, 3.6), (3.6, 2.9), (2.9, 2.5), (3.1, 2.7), (3.0, 3.3), (3.3, 3.0), (3.2, 2.9), (2.9, 2.5)),
    "glass": ((31.2, 6.2), (27.2, 4.7), (27.6, 5.7), (27.4, 5.5), (40.5, 7.2), (28.5, 5.2), (28.1, 5.8), (28.2, 5.7)),
    "satimage": (
        (18.0, 1.3), (10.9, 0.7), (10.9, 0.8), (10.6, 0.8),
        (19.2, 4.3), (10.8, 0.8), (11.1, 0.8), (10.8, 0.9),
    ),
    "svmguide4": (
        (24.8, 4.3), (17.3, 2.7), (19.3, 3.5), (17.6, 3.5),
        (20.1, 5.1), (17.3, 3.1), (16.6, 2.7), (16.6, 2.8),
    ),
    "usps": ((16.5, 2.1), (8.9, 1.6), (8.9, 1.5), (8.5, 1.5), (11.4, 1.7), (9.0, 1.6), (9.0, 1.4), (8.7, 1.6)),
    "pendigits": ((15.8, 2.4), (4.5, 1.1), (4.9, 1.3), (5.5, 1.5), (5.2, 1.4), (4.8, 1.3), (4.9, 1.4), (4.9, 1.3)),
    "vowel": ((40.5, 3.0), (8.1, 1.6), (10.5, 1.9), (12.1, 2.0), (38.7, 5.1), (7.5, 1.6), (6.5, 1.6), (6.5, 1.5)),
    "letter": ((52.6, 3.4), (28.2, 2.0), (26.5, 2.1), None, (44.0, 3.8), (24.6, 2.6), (24.3, 2.1), (24.2, 2.0)),
}  # fmt: skip
TABLE5_ROUNDS = 1000
# The paper speaks of stumps; trees of three leaves come nearer to its figures where there are many classes.
TABLE5_LEARNERS = {"stump": {}, "3 leaves": {"weak_learner": "tree", "max_leaf_nodes": 3}}
TABLE5_REPEATS = 50
# Repeats of all sets and methods that come before any further ones, and all that the larger weak learner gets.
TABLE5_BLOCK = 10
# Rows of a class that take part at most, a random choice; None for all. The paper does not say: inferred from its
# standard deviations, which show the size of its test parts.
TABLE5_PER_CLASS = {"dna": None, "satimage": None, "svmguide2": None, "svmguide4": None, "letter": 50}
TABLE5_MOST = 100
# What takes longest comes last: AdaBoost.MO, whose code has 2^(K-1) - 1 columns, each with a stump in every round, and
# a totally corrective training that nearly separates its rows.
TABLE5_LATE = {("adaboost-mo", "usps"), ("adaboost-mo", "pendigits"), ("adaboost-mo", "vowel"), ("multiboost", "vowel")}
GRADBOOST_L1 = tuple(m * 10.0**e for e in range(-7, 0) for m in (1, 5) if 5e-7 <= m * 10.0**e <= 1e-1 * 1.01)
TABLE5_CHOICE_FOLDS = 3
TABLE5_CHOICE_ROUNDS = 300
TABLE5_KEY = ["data", "method", "learner", "value", "repeat", "rounds"]
TABLE5_COLUMNS = ["n_train", "n_test", "rounds_fitted", "error"]
TABLE5_CHOICE_KEY = ["data", "method", "learner", "value", "fold", "rounds"]
TABLE5_CHOICE_COLUMNS = ["error", "n_train", "n_test"]


def table5_split(name, repeat):
    """Split of one repeat: random rows of every class, then a plain 75:25 split of the pool.

    Official parts are pooled first. The split depends on (name, repeat) alone.

    Returns
    -------
    X_train, y_train, X_test, y_test
    """
    X, y = common.load_pooled(name)
    generator = np.random.default_rng([repeat, 5, *name.encode()])
    most = TABLE5_PER_CLASS.get(name, TABLE5_MOST)
    rows = np.arange(len(y))
    if most is not None:
        parts = [np.flatnonzero(y == label) for label in np.unique(y)]
        rows = np.concatenate([generator.choice(part, min(most, len(part)), replace=False) for part in parts])
    rows = generator.permutation(rows)
    cut = round(0.75 * len(rows))
    return X[rows[:cut]], y[rows[:cut]], X[rows[cut:]], y[rows[cut:]]


def table5_estimator(method, learner, rounds, value):
    """New estimator of a column; ``value`` is GradBoost's l1 or MultiBoost's C."""
    import pymcboost

    weak = TABLE5_LEARNERS[learner]
    if method.startswith("mcboost"):
        from reproduce import classifier

        return classifier(method.split("-")[1], rounds, **weak)
    if method == "multiboost":
        more = {"C": float(value), "loss": "exp", "solver": "fcd"}
        return reproduce_multiboost.multiboost(method, n_estimators=rounds, **more, **weak)
    more = {"gradboost": lambda: {"l1": float(value)}, "adaboost-mo": lambda: {"code": "exhaustive"}}
    classes = {
        "samme": "SAMME", "adaboost-ecc": "AdaBoostECC", "adaboost-mh": "AdaBoostMH", "adaboost-mo": "AdaBoostMO",
        "gradboost": "GradBoost",
    }  # fmt: skip
    made = getattr(pymcboost, f"{classes[method]}Classifier")
    return made(n_estimators=rounds, random_state=0, n_jobs=1, **weak, **more.get(method, dict)())


def table5_values(method):
    """What a method's parameter is chosen from; nothing for methods without."""
    if method == "gradboost":
        return [f"{value:g}" for value in GRADBOOST_L1]
    return [f"{1 / nu:g}" for nu in reproduce_multiboost.TABLE4_NU] if method == "multiboost" else []


def fit_table5_choice(unit):
    """One fold of the training part of the first split."""
    X, y, _, _ = table5_split(unit["data"], 0)
    train, test = reproduce_trees.fold_rows(y, int(unit["fold"]), TABLE5_CHOICE_FOLDS)
    X_train, codes, X_test, truth = reproduce_trees.coded((X[train], y[train], X[test], y[test]))
    begin = time.perf_counter()
    model = table5_estimator(unit["method"], unit["learner"], int(unit["rounds"]), unit["value"]).fit(X_train, codes)
    seconds = time.perf_counter() - begin
    return {
        **unit,
        "error": round(error_percent(truth, model.predict(X_test)), 4),
        "n_train": len(codes),
        "n_test": len(truth),
        "seconds": round(seconds, 3),
    }


def table5_choice_units(sets, methods):
    return [
        {
            "data": data,
            "method": method,
            "learner": learner,
            "value": value,
            "fold": fold,
            "rounds": TABLE5_CHOICE_ROUNDS,
        }
        for learner in TABLE5_LEARNERS
        for data in sets
        for method in methods
        for fold in range(TABLE5_CHOICE_FOLDS)
        for value in table5_values(method)
    ]


def table5_choice(rows, data, method, learner):
    """Value with the lowest mean error among those with all folds, of equals the strongest regularisation; or None.

    That is the largest l1, and the smallest C.
    """
    errors = {}
    for row in rows:
        if (row["data"], row["method"], row["learner"]) == (data, method, learner):
            errors.setdefault(row["value"], []).append(float(row["error"]))
    sign = -1 if method == "gradboost" else 1
    return min(errors, key=lambda value: (np.mean(errors[value]), sign * float(value)), default=None)


def table5_choice_journal(folder, fresh=False):
    return Journal(Path(folder, "table5-choice.csv"), TABLE5_CHOICE_KEY, TABLE5_CHOICE_COLUMNS, fresh)


def fit_table5(unit):
    """One fit on one split."""
    X, codes, X_test, truth = reproduce_trees.coded(table5_split(unit["data"], int(unit["repeat"])))
    model = table5_estimator(unit["method"], unit["learner"], int(unit["rounds"]), unit["value"])
    begin = time.perf_counter()
    model.fit(X, codes)
    seconds = time.perf_counter() - begin
    return {
        **unit,
        "n_train": len(codes),
        "n_test": len(truth),
        "rounds_fitted": model.n_estimators_,
        "error": round(error_percent(truth, model.predict(X_test)), 4),
        "seconds": round(seconds, 4),
    }


def table5_rounds(data, method, learner, rounds=TABLE5_ROUNDS):
    """Rounds; AdaBoost.MH has a tree for every class in each of them, and gets as many trees as the others."""
    share = common.DATA[data].n_classes if (method, learner) == ("adaboost-mh", "3 leaves") else 1
    return max(1, rounds // share)


def table5_units(sets, methods, choices, repeats, rounds=TABLE5_ROUNDS):
    """Fits of all methods, some repeats of everything before the next ones; AdaBoost.MO of many columns comes last."""
    units = [
        {
            "data": data,
            "method": method,
            "learner": learner,
            "value": choices.get((data, method, learner)) or "-",
            "repeat": repeat,
            "rounds": table5_rounds(data, method, learner, rounds),
        }
        for learner in TABLE5_LEARNERS
        for data in sets
        for method in methods
        for repeat in range(repeats if learner == "stump" else min(repeats, TABLE5_BLOCK))
        if TABLE5[data][TABLE5_METHODS.index(method)] is not None and (method, learner) != ("adaboost-mo", "3 leaves")
    ]
    late = [(unit["method"], unit["data"]) in TABLE5_LATE for unit in units]
    order = sorted(range(len(units)), key=lambda n: (late[n], units[n]["repeat"] // TABLE5_BLOCK))
    return [units[n] for n in order]


def table5_journal(folder, fresh=False, keep=False):
    return Journal(Path(folder, "table5.csv"), TABLE5_KEY, TABLE5_COLUMNS, fresh, keep)


def table5_found(rows, learner):
    """{(data, method): (mean, standard deviation, repeats)} with one weak learner."""
    found = {}
    for data in TABLE5:
        for method in TABLE5_METHODS:
            rounds = table5_rounds(data, method, learner)
            errors = errors_of(rows, data=data, method=method, learner=learner, rounds=rounds)
            if errors:
                found[data, method] = (*mean_and_spread(errors), len(errors))
    return found


def table5_text(rows):
    """Errors beside the paper's, in Markdown."""
    parts = []
    for learner in TABLE5_LEARNERS:
        found = table5_found(rows, learner)
        lines, verdicts, good = [], [], {}
        for data, printed in TABLE5.items():
            cells, words = [data], [data]
            for method, theirs in zip(TABLE5_METHODS, printed, strict=True):
                ours = found.get((data, method))
                if ours is None:
                    cells.append("-")
                    words.append("-")
                    continue
                short = "" if ours[2] == TABLE5_REPEATS else f" [{ours[2]}]"
                cells.append(f"{theirs[0]} ({theirs[1]}) / {ours[0]:.1f} ({ours[1]:.1f}){short}")
                words.append(verdict(ours[0], theirs, sd=1))
                good.setdefault(method, []).append(words[-1].startswith("yes"))
            if set(cells[1:]) != {"-"}:
                lines.append(cells)
                verdicts.append(words)
        if lines:
            total = ["together", *(f"{sum(good[m])} of {len(good[m])}" if m in good else "-" for m in TABLE5_METHODS)]
            parts.append(
                f"Weak learners: {learner if learner == 'stump' else 'trees of ' + learner}.\n\n"
                + common.markdown_table(["data", *TABLE5_METHODS], lines)
                + "\n\nWithin one of the paper's standard deviations or better:\n\n"
                + common.markdown_table(["data", *TABLE5_METHODS], [*verdicts, total])
            )
    if not parts:
        return "Not enough results for a table."
    chosen = {}
    for row in rows:
        if row["value"] != "-":
            chosen.setdefault((row["method"], row["learner"]), {})[row["data"]] = row["value"]
    words = "; ".join(
        f"{'l1' if method == 'gradboost' else 'C'} of {method}, {learner}: "
        + ", ".join(f"{data} {value}" for data, value in values.items())
        for (method, learner), values in chosen.items()
    )
    return (
        f"Paper / ours, mean (standard deviation) in percent, {TABLE5_REPEATS} repeats or [as many as said].\n\n"
        + "\n\n".join(parts)
        + f"\n\nChosen on the training part of the first split: {words}."
    )


def plot_table5(rows, path):
    """Ours beside the paper's, with standard deviations."""
    found = {learner: table5_found(rows, learner) for learner in TABLE5_LEARNERS}
    sets = [data for data in TABLE5 if any((data, method) in found["stump"] for method in TABLE5_METHODS)]
    if not sets:
        return
    plt = pyplot()
    figure, axes = plt.subplots(2, (len(sets) + 1) // 2, figsize=(15, 6.5), layout="constrained", squeeze=False)
    for axis in axes.flat[len(sets) :]:
        axis.axis("off")
    for axis, data in zip(axes.flat, sets, strict=False):
        curves = {
            "paper": dict(zip(TABLE5_METHODS, TABLE5[data], strict=True)),
            **{
                f"pymcboost, {learner}": {m: one.get((data, m)) for m in TABLE5_METHODS}
                for learner, one in found.items()
            },
        }
        for k, (label, values) in enumerate(curves.items()):
            there = [(at, values[m]) for at, m in enumerate(TABLE5_METHODS) if values[m] is not None]
            axis.errorbar(
                [at + 0.2 * (k - 1) for at, _ in there], [v[0] for _, v in there], [v[1] for _, v in there],
                fmt="o", ms=4, capsize=2, color=("C1", "C0", "C2")[k], label=label,
            )  # fmt: skip
        axis.set_xticks(range(len(TABLE5_METHODS)), TABLE5_METHODS, rotation=60, ha="right", fontsize=7)
        axis.set_title(data, fontsize=9)
    axes[0, 0].set_ylabel("test error, percent")
    axes[0, 0].legend(fontsize=7)
    save(figure, path, plt)


def run_table5(options):
    """Table V: eight boosters with 1,000 rounds."""
    sets = reproduce_trees.sets_by_cost(options.sets or list(TABLE5))
    for data in sets:
        if data not in TABLE5:
            raise SystemExit(f"table5 has no set {data!r}; there are {', '.join(TABLE5)}")
    methods = chosen_methods(options, TABLE5_METHODS)
    choice = table5_choice_journal(options.results, options.fresh)
    run_units(
        choice, fit_table5_choice, table5_choice_units(sets, methods), options.jobs, "choice for table5", options.budget
    )
    choices = {
        (data, method, learner): table5_choice(choice.rows, data, method, learner)
        for data in sets
        for method in methods
        for learner in TABLE5_LEARNERS
    }
    journal = table5_journal(options.results, options.fresh)
    units = table5_units(sets, methods, choices, options.repeats or TABLE5_REPEATS, options.rounds or TABLE5_ROUNDS)
    units = [unit for unit in units if unit["value"] != "-" or not table5_values(unit["method"])]
    run_units(journal, fit_table5, units, options.jobs, "table5", options.budget)
    print(table5_text(journal.rows))
    plot_table5(journal.rows, Path(options.results, "table5.png"))


def verify_table5(options):
    journal = table5_journal(options.results, keep=True)
    return reproduce_trees.verify_units("table5", journal, fit_table5, ("repeat", "rounds"), options, _seconds)


# --------------------------------------------------------------------------------------------------------------------
# Rare classes: class weights and asymmetric margins

IMBALANCE_SETS = ("yeast", "car", "shuttle")
IMBALANCE_FOLDS = 5
IMBALANCE_ROUNDS = 200
# balanced: the classes have equal weight together; root: halfway, the square roots of those weights.
WEIGHTS = ("none", "root", "balanced")
IMBALANCE_METHODS = (
    "piboost-singles", "piboost-pairs", "piboost-singles-tree", "piboost-pairs-tree", "piboost-singles-plain-tree",
    "mcboost-exp", "mcboost-exp-tree", "adaboost-mh", "adaboost-mh-tree", "samme", "samme-tree", "vector", "lightgbm",
)  # fmt: skip
IMBALANCE_KEY = ["data", "method", "weights", "fold", "rounds"]
IMBALANCE_COLUMNS = ["error", "balanced_accuracy", "right", "n_train", "n_test"]


def class_weights(codes, which):
    """Weights of the classes as a dict, or None."""
    if which == "none":
        return None
    counts = np.bincount(codes)
    weights = len(codes) / (len(counts) * np.maximum(counts, 1))
    if which == "root":
        weights = np.sqrt(weights)
    return dict(enumerate(weights.tolist()))


def imbalance_estimator(method, rounds, weights):
    """New estimator; trees have 20 leaves, GentleBoost's and LightGBM's included."""
    import pymcboost

    shared = {"n_estimators": rounds, "random_state": 0, "n_jobs": 1}
    if method == "lightgbm":
        import lightgbm

        return lightgbm.LGBMClassifier(num_leaves=20, verbosity=-1, class_weight=weights, **shared)
    shared["class_weight"] = weights
    if method == "vector":
        return pymcboost.VectorTreeBoostClassifier(**shared)
    if method.endswith("-tree"):
        shared |= {"weak_learner": "tree", "max_leaf_nodes": 20}
        method = method.removesuffix("-tree")
    if method.startswith("piboost"):
        parts = method.split("-")
        return pymcboost.PIBoostClassifier(separators=parts[1], cost_sensitive=parts[-1] != "plain", **shared)
    if method == "mcboost-exp":
        return pymcboost.MCBoostClassifier(loss="exp", learning_rate=0.5, **shared)
    return {"adaboost-mh": pymcboost.AdaBoostMHClassifier, "samme": pymcboost.SAMMEClassifier}[method](**shared)


def fit_imbalance(unit):
    """One fold; ``right``: rows of every class that are classified right, of how many."""
    X, codes, X_test, truth = fold_data(unit["data"], int(unit["fold"]), IMBALANCE_FOLDS)
    model = imbalance_estimator(unit["method"], int(unit["rounds"]), class_weights(codes, unit["weights"]))
    begin = time.perf_counter()
    model.fit(X, codes)
    seconds = time.perf_counter() - begin
    predicted = model.predict(X_test)
    there = [np.flatnonzero(truth == k) for k in range(int(codes.max()) + 1)]
    right = [int(np.sum(predicted[rows] == k)) for k, rows in enumerate(there)]
    recalls = [r / len(rows) for r, rows in zip(right, there, strict=True) if len(rows)]
    return {
        **unit,
        "error": round(error_percent(truth, predicted), 4),
        "balanced_accuracy": round(100 * float(np.mean(recalls)), 4),
        "right": " ".join(f"{r}/{len(rows)}" for r, rows in zip(right, there, strict=True)),
        "n_train": len(codes),
        "n_test": len(truth),
        "seconds": round(seconds, 3),
    }


def imbalance_units(sets, methods, folds, rounds):
    return [
        {"data": data, "method": method, "weights": weights, "fold": fold, "rounds": rounds}
        for data in sets
        for method in methods
        for weights in WEIGHTS
        for fold in range(folds)
    ]


def imbalance_journal(folder, fresh=False, keep=False):
    return Journal(Path(folder, "imbalance.csv"), IMBALANCE_KEY, IMBALANCE_COLUMNS, fresh, keep)


def recalls_of(rows):
    """Recall of every class over the test rows of all folds, in percent, and how many rows each class has."""
    parts = np.array([[[int(n) for n in pair.split("/")] for pair in row["right"].split()] for row in rows]).sum(axis=0)
    return 100 * parts[:, 0] / np.maximum(parts[:, 1], 1), parts[:, 1]


def imbalance_text(rows):
    """Error, balanced accuracy and recalls by class weights, in Markdown; classes in the order of their sizes."""
    parts = []
    for data in IMBALANCE_SETS:
        lines, sizes = [], None
        for method in IMBALANCE_METHODS:
            for weights in WEIGHTS:
                mine = [r for r in rows if (r["data"], r["method"], r["weights"]) == (data, method, weights)]
                if not mine:
                    continue
                recalls, counts = recalls_of(mine)
                order = np.argsort(counts, kind="stable")
                if len(mine) == IMBALANCE_FOLDS:
                    sizes = counts[order]
                error = np.mean([float(row["error"]) for row in mine])
                short = "" if len(mine) == IMBALANCE_FOLDS else f" [{len(mine)} folds]"
                lines.append(
                    [method + short, weights, f"{error:.2f}", f"{recalls.mean():.1f}",
                     *(f"{recalls[k]:.0f}" for k in order)]
                )  # fmt: skip
        if lines and sizes is not None:
            head = ["method", "class weights", "error", "balanced accuracy", *(f"n = {n}" for n in sizes)]
            parts.append(f"{data}, {int(sizes.sum()):,} rows:\n\n{common.markdown_table(head, lines)}")
    if not parts:
        return "Not enough results for a table."
    return (
        f"{IMBALANCE_FOLDS}-fold cross-validation of all rows, {IMBALANCE_ROUNDS} rounds. Error, balanced accuracy "
        "(mean of the recalls) and recall of every class, of the n rows that it has, in percent.\n\n"
        + "\n\n".join(parts)
    )


def plot_imbalance(rows, path):
    """Balanced accuracy of every method with and without class weights."""
    plt = pyplot()
    sets = [data for data in IMBALANCE_SETS if any(row["data"] == data for row in rows)]
    figure, axes = plt.subplots(
        1, max(1, len(sets)), figsize=(4.2 * max(1, len(sets)), 4), layout="constrained", squeeze=False
    )
    for axis, data in zip(axes[0], sets, strict=False):
        for j, weights in enumerate(WEIGHTS):
            found = {
                k: recalls_of(mine)[0].mean()
                for k, method in enumerate(IMBALANCE_METHODS)
                if (mine := [r for r in rows if (r["data"], r["method"], r["weights"]) == (data, method, weights)])
            }
            axis.plot(list(found.values()), [-k for k in found], "os^"[j], color=f"C{j}", label=f"weights: {weights}")
        axis.set_yticks([-k for k in range(len(IMBALANCE_METHODS))], IMBALANCE_METHODS, fontsize=7)
        axis.set_title(data, fontsize=9)
        axis.set_xlabel("balanced accuracy, percent")
    axes[0, 0].legend(fontsize=7)
    save(figure, path, plt)


def run_imbalance(options):
    """Class weights and asymmetric margins on data with rare classes."""
    journal = imbalance_journal(options.results, options.fresh)
    methods = chosen_methods(options, IMBALANCE_METHODS)
    if "lightgbm" in methods and common.versions()["lightgbm"] == "absent":
        methods = [method for method in methods if method != "lightgbm"]
    units = imbalance_units(
        options.sets or IMBALANCE_SETS, methods, options.repeats or IMBALANCE_FOLDS, options.rounds or IMBALANCE_ROUNDS
    )
    run_units(journal, fit_imbalance, units, options.jobs, "imbalance", options.budget)
    print(imbalance_text(journal.rows))
    plot_imbalance(journal.rows, Path(options.results, "imbalance.png"))


def verify_imbalance(options):
    journal = imbalance_journal(options.results, keep=True)
    return reproduce_trees.verify_units("imbalance", journal, fit_imbalance, ("fold", "rounds"), options, _seconds)


# --------------------------------------------------------------------------------------------------------------------
# For reproduce.py

RUNS = {"piboost-table3": run_table3, "table5": run_table5, "imbalance": run_imbalance}
VERIFY = {"piboost-table3": verify_table3, "table5": verify_table5, "imbalance": verify_imbalance}


def markdown(folder):
    """Parts of docs/reproduction.md that have results in ``folder``."""
    parts = []
    for name, journal, text, title in (
        ("piboost-table3", table3_journal, table3_text, "PIBoost's Table 3: equal numbers of trees"),
        ("table5", table5_journal, table5_text, "Table V: 1,000 rounds"),
        ("imbalance", imbalance_journal, imbalance_text, "Rare classes"),
    ):
        if Path(folder, f"{name}.csv").exists():
            rows = journal(folder, keep=True).rows
            commits = ", ".join(f"`{c}`" for c in sorted({row["commit"] for row in rows}))
            if rows:
                parts.append(f"### {title}\n\n{text(rows)}\n\nCommit {commits}.")
    return parts
