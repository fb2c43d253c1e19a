"""Table V of MCBoost's paper: eight boosters with 1,000 rounds; AdaBoost.M1 and AdaBoost.M2 beside them."""

from collections import defaultdict

import numpy as np
from shared import ranks
from shared.datasets import DATA, coded, fold_of, load_pooled, random_split, sets_by_cost
from shared.tables import (
    beside,
    deviations,
    markdown_table,
    mean_and_deviation,
    published,
    span,
)

from reproduce.experiment import Experiment, Results, errors_of, fit_and_test
from reproduce.mcboost import classifier
from reproduce.multiboost import estimator
from reproduce.multiboost_table4 import NU
from reproduce.piboost import verdict

PUBLISHED = published("table5")
METHODS = *PUBLISHED["wine"], "adaboost-m1", "adaboost-m2"
CLASSES = {
    "samme": "SAMME", "adaboost-ecc": "AdaBoostECC", "adaboost-mh": "AdaBoostMH", "adaboost-mo": "AdaBoostMO",
    "gradboost": "GradBoost", "multiboost": "MultiBoost", "adaboost-m1": "AdaBoostM1", "adaboost-m2": "AdaBoostM2",
}  # fmt: skip
ROUNDS = 1000
# The paper speaks of stumps; trees of three leaves come nearer to its figures where there are many classes.
LEARNERS = {
    "stump": {"weak_learner": "stump"},
    "3 leaves": {"weak_learner": "tree", "max_leaf_nodes": 3},
}
REPEATS = 50
# Repeats of all sets and methods that come before any further ones, and all that the larger weak learner gets.
BLOCK = 10
# Rows of a class that take part at most, a random choice; None for all. The paper does not say: inferred from its
# standard deviations, which show the size of its test parts.
PER_CLASS = {"dna": None, "satimage": None, "svmguide2": None, "svmguide4": None, "letter": 50}
MOST = 100
# What takes longest comes last: AdaBoost.MO, whose code has 2^(K-1) - 1 columns, each with a stump in every round, and
# a totally corrective training that nearly separates its rows.
LATE = {
    ("adaboost-mo", "usps"),
    ("adaboost-mo", "pendigits"),
    ("adaboost-mo", "vowel"),
    ("multiboost", "vowel"),
}
# What a method's parameter is chosen from: GradBoost's l1 and MultiBoost's C.
L1 = [
    f"{m * 10.0**e:g}" for e in range(-7, 0) for m in (1, 5) if 5e-7 <= m * 10.0**e <= 1e-1 * 1.01
]
VALUES = {"gradboost": L1, "multiboost": [f"{1 / nu:g}" for nu in NU]}
CHOICE_FOLDS = 3
CHOICE_ROUNDS = 300
# What the signed-rank tests compare the other methods with, and their level: the paper's tests of its Table IV.
TESTED = "mcboost-exp", "mcboost-log"
LEVEL = 0.05


def table5_split(name, repeat):
    """Split of one repeat: random rows of every class, then a plain 75:25 split of the pool.

    Official parts are pooled first. The split depends on (name, repeat) alone.
    """
    generator = np.random.default_rng([int(repeat), 5, *name.encode()])
    return random_split(*load_pooled(name), generator, PER_CLASS.get(name, MOST))


def table5_estimator(method, learner, rounds, value):
    """New estimator of a column; ``value`` is GradBoost's l1 or MultiBoost's C."""
    weak = LEARNERS[learner]
    if method.startswith("mcboost"):
        return classifier(method.split("-")[1], rounds, **weak)
    options = {
        "gradboost": lambda: {"l1": float(value)},
        "multiboost": lambda: {"C": float(value), "loss": "exp", "solver": "fcd"},
        "adaboost-mo": lambda: {"code": "exhaustive"},
    }.get(method, dict)()
    return estimator(CLASSES[method], n_estimators=rounds, **weak, **options)


def of_unit(unit):
    return table5_estimator(unit["method"], unit["learner"], unit["rounds"], value=unit["value"])


def fit_choice(unit):
    """One fold of the training part of the first split."""
    X, y, _, _ = table5_split(unit["data"], 0)
    return fit_and_test(unit, of_unit(unit), fold_of(X, y, unit["fold"], folds=CHOICE_FOLDS))[0]


def fit_table5(unit):
    """One fit on one split."""
    return fit_and_test(unit, of_unit(unit), coded(table5_split(unit["data"], unit["repeat"])))[0]


def choice_units(sets, methods):
    return [
        {
            "data": data,
            "method": method,
            "learner": learner,
            "value": value,
            "fold": fold,
            "rounds": CHOICE_ROUNDS,
        }
        for learner in LEARNERS
        for data in sets
        for method in methods
        for fold in range(CHOICE_FOLDS)
        for value in VALUES.get(method, ())
    ]


def choose_value(rows, data, method, learner):
    """Value with the lowest mean error, of equals the strongest regularisation; or None.

    That is the largest l1, and the smallest C.
    """
    errors = defaultdict(list)
    for row in rows:
        if (row["data"], row["method"], row["learner"]) == (data, method, learner):
            errors[row["value"]].append(float(row["error"]))
    sign = -1 if method == "gradboost" else 1
    return min(
        errors, key=lambda value: (np.mean(errors[value]), sign * float(value)), default=None
    )


def rounds_of(data, method, learner, rounds=ROUNDS):
    """Rounds; AdaBoost.MH has a tree for every class in each of them, and gets as many trees as the others."""
    share = DATA[data].n_classes if (method, learner) == ("adaboost-mh", "3 leaves") else 1
    return max(1, rounds // share)


def table5_units(sets, methods, choices, repeats, rounds=ROUNDS):
    """Fits of all methods, some repeats of everything before the next ones; AdaBoost.MO of many columns comes last."""
    units = [
        {
            "data": data,
            "method": method,
            "learner": learner,
            "value": choices.get((data, method, learner)) or "-",
            "repeat": repeat,
            "rounds": rounds_of(data, method, learner, rounds=rounds),
        }
        for learner in LEARNERS
        for data in sets
        for method in methods
        for repeat in range(repeats if learner == "stump" else min(repeats, BLOCK))
        if PUBLISHED[data].get(method, ()) is not None
        and (method, learner) != ("adaboost-mo", "3 leaves")
    ]
    return sorted(
        units, key=lambda unit: ((unit["method"], unit["data"]) in LATE, unit["repeat"] // BLOCK)
    )


def plan(options, journal, choice):
    sets = sets_by_cost(options.sets or PUBLISHED)
    methods = options.methods or METHODS
    yield 1, choice_units(sets, methods), "choice for table5"
    choices = {
        (data, method, learner): choose_value(choice.rows, data, method, learner=learner)
        for data in sets
        for method in methods
        for learner in LEARNERS
    }
    units = table5_units(
        sets, methods, choices, repeats=options.repeats or REPEATS, rounds=options.rounds or ROUNDS
    )
    yield (
        0,
        [unit for unit in units if unit["value"] != "-" or unit["method"] not in VALUES],
        "table5",
    )


def cells_of_frame(frame, learner):
    """{(data, method): (mean, standard deviation, repeats)} with one weak learner."""
    cells = {}
    for data in PUBLISHED:
        for method in METHODS:
            rounds = rounds_of(data, method, learner)
            errors = errors_of(frame, data=data, method=method, learner=learner, rounds=rounds)
            if len(errors):
                cells[data, method] = (*mean_and_deviation(errors), len(errors))
    return cells


def learner_text(found, learner):
    """Errors beside the paper's with one weak learner, in Markdown."""
    lines = []
    verdicts = []
    good = defaultdict(list)
    for data in dict.fromkeys(data for data, _ in found):
        cells = [data]
        words = [data]
        for method in METHODS:
            theirs = PUBLISHED[data].get(method)
            mean, deviation, repeats = found.get((data, method), (None, None, 0))
            if not repeats:
                cells.append("-")
                words.append("-")
                continue
            short = "" if repeats == REPEATS else f" [{repeats}]"
            ours = f"{mean:.1f} ({deviation:.1f}){short}"
            if theirs is None:
                cells.append(ours)
                words.append("-")
                continue
            cells.append(f"{theirs[0]} ({theirs[1]}) / {ours}")
            words.append(verdict(mean, theirs, sd=1))
            good[method].append(words[-1].startswith("yes"))
        lines.append(cells)
        verdicts.append(words)
    total = [
        "together",
        *(f"{sum(good[m])} of {len(good[m])}" if m in good else "-" for m in METHODS),
    ]
    return (
        f"Weak learners: {learner if learner == 'stump' else 'trees of ' + learner}.\n\n"
        + markdown_table(["data", *METHODS], lines)
        + "\n\nWithin one of the paper's standard deviations or better:\n\n"
        + markdown_table(["data", *METHODS], [*verdicts, total])
    )


def table5_page(frame):
    """Errors with stumps beside the paper's, and how many columns of both weak learners are within a deviation."""
    methods = list(PUBLISHED["wine"])
    errors = cells_of_frame(frame, "stump")
    lines = []
    for data, columns in PUBLISHED.items():
        cells = []
        for method in methods:
            ours = errors.get((data, method))
            theirs = columns.get(method)
            far = ours and theirs and deviations(ours[0], theirs) > 1
            cells.append(beside(theirs[0], ours[0], far) if ours and theirs else "-")
        lines.append([data, *cells])
    for learner in LEARNERS:
        counts = []
        for method in methods:
            near = [
                deviations(mean, PUBLISHED[data][method]) <= 1
                for (data, column), (mean, _, _) in cells_of_frame(frame, learner).items()
                if column == method and PUBLISHED[data].get(method)
            ]
            counts.append(f"{sum(near)}/{len(near)}" if near else "-")
        lines.append([f"within, {learner}", *counts])
    return markdown_table(["set", *methods], lines)


def signed_ranks(cells):
    """{(tested, other): (the paper's, ours)} of tests on the sets where the paper and we have both errors."""
    tests = {}
    for method in TESTED:
        for other in PUBLISHED["wine"]:
            sets = [data for data in PUBLISHED if {(data, method), (data, other)} <= set(cells)]
            if method == other or len(sets) < 2:
                continue
            ours = ranks.signed_rank(
                *([cells[data, name][0] for data in sets] for name in (method, other))
            )
            theirs = ranks.signed_rank(
                *([PUBLISHED[data][name][0] for data in sets] for name in (method, other))
            )
            tests[method, other] = theirs, ours
    return tests


def signed_rank_text(cells):
    """Wilcoxon's tests of MCBoost against the others, in Markdown."""
    tests = signed_ranks(cells)
    others = list(PUBLISHED["wine"])
    lines = [
        [
            method,
            *(
                " / ".join(f"{one.p:.3f}" for one in tests.get((method, other), ())) or "-"
                for other in others
            ),
        ]
        for method in TESTED
    ]
    return (
        "p-values of Wilcoxon's signed-rank test over the sets, from the paper's errors / from ours:\n\n"
        + markdown_table(["", *others], lines)
    )


def signed_rank_page(frame):
    """p-values of the tests, bold below the level, and the share of the sets on which MCBoost has the lower error."""
    others = [other for other in PUBLISHED["wine"] if other not in TESTED]
    of_learner = {learner: cells_of_frame(frame, learner) for learner in LEARNERS}
    # The paper's test over the sets that stumps have, then ours.
    kinds = [("paper", "stump", 0), *((learner, learner, 1) for learner in LEARNERS)]
    lines = []
    for method in TESTED:
        for words, learner, which in kinds:
            cells = of_learner[learner]
            tests = signed_ranks(cells)
            line = []
            for other in others:
                if (method, other) not in tests:
                    line.append("-")
                    continue
                pairs = [
                    [
                        PUBLISHED[data][m][0] if words == "paper" else cells[data, m][0]
                        for m in (method, other)
                    ]
                    for data in PUBLISHED
                    if {(data, method), (data, other)} <= set(cells)
                ]
                lower = sum(first < second for first, second in pairs)
                p = tests[method, other][which].p
                shown = f"**{p:.3f}**" if p <= LEVEL else f"{p:.3f}"
                line.append(f"{shown} ({lower}/{len(pairs)})")
            lines.append([method, words, *line])
    return markdown_table(["method", "errors", *others], lines)


def table5_text(frame):
    """Errors beside the paper's, in Markdown."""
    cells_of_learner = {learner: cells_of_frame(frame, learner) for learner in LEARNERS}
    parts = [
        f"{learner_text(one, learner)}\n\n{signed_rank_text(one)}"
        for learner, one in cells_of_learner.items()
        if one
    ]
    if not parts:
        return "Not enough results for a table."
    chosen = defaultdict(dict)
    for row in frame[frame["value"] != "-"].itertuples():
        chosen[row.method, row.learner][row.data] = row.value
    words = "; ".join(
        f"{'l1' if method == 'gradboost' else 'C'} of {method}, {learner}: "
        + ", ".join(f"{data} {value}" for data, value in values.items())
        for (method, learner), values in chosen.items()
    )
    return (
        f"Paper / ours, mean (standard deviation) in percent, {REPEATS} repeats or [as many as said]. The paper has no "
        "figures of AdaBoost.M1 and AdaBoost.M2.\n\n"
        + "\n\n".join(parts)
        + f"\n\nChosen on the training part of the first split: {words}."
    )


def table5_values(frame):
    """What sentences say about Table V; distances are in the paper's standard deviations."""
    cells_of_learner = {learner: cells_of_frame(frame, learner) for learner in LEARNERS}
    far, points = ({learner: {} for learner in LEARNERS} for _ in range(2))
    for learner, cells in cells_of_learner.items():
        for (data, method), (mean, _, _) in cells.items():
            theirs = PUBLISHED[data].get(method)
            if theirs is not None:
                far[learner][data, method] = deviations(mean, theirs)
                points[learner][data, method] = mean - theirs[0]
    stumps, trees = far["stump"], far["3 leaves"]
    others = {
        (d, m): one for (d, m), one in stumps.items() if m != "samme" and d not in ("vowel", "usps")
    }
    near = [
        (data, method)
        for data, method in trees
        if data in ("dna", "satimage", "pendigits", "letter") and method != "samme"
    ]
    gradboost = [data for data in PUBLISHED if stumps.get((data, "gradboost"), 1) < 0]

    def within(cells):
        return f"{sum(one <= 1 for one in cells.values())} of {len(cells)}"

    def beyond(cells):
        return ", ".join(f"{m} on {d} (+{one:.1f})" for (d, m), one in cells.items() if one > 1)

    times_of_vowel = [
        cells_of_learner["stump"]["vowel", method][0] / theirs[0]
        for method, theirs in PUBLISHED["vowel"].items()
        if method != "gradboost"
    ]
    usps = [
        f"{method} +{one:.1f} ({points['stump'][data, method]:.1f} points)"
        for (data, method), one in stumps.items()
        if data == "usps" and one > 1
    ]
    vowel = {(data, method): one for (data, method), one in trees.items() if data == "vowel"}
    values = {
        "within": within(stumps),
        "others-within": within(others),
        "others-beyond": beyond(others),
        "trees-within": within(trees),
        "trees-beyond": beyond(trees),
        "usps-beyond": ", ".join(usps),
        "vowel-times": span(times_of_vowel, "{:.1f}"),
        "vowel-trees-within": within(vowel),
        "samme-trees-within": within(
            {cell: one for cell, one in trees.items() if cell[1] == "samme"}
        ),
        "trees-better": f"{sum(trees[cell] < 0 for cell in near)} of {len(near)}",
        "gradboost-better": f"{len(gradboost)} of {len(PUBLISHED)}",
        "gradboost-letter": f"{-points['stump']['letter', 'gradboost']:.0f}",
    }
    for learner, short in (("stump", "stump"), ("3 leaves", "trees")):
        for (data, method), (mean, _, _) in cells_of_learner[learner].items():
            values[f"{data}-{method}-{short}"] = f"{mean:.1f}"
        tests = signed_ranks(cells_of_learner[learner]).items()
        values[f"wilcoxon-{short}"] = significant({cell: ours for cell, (_, ours) in tests})
        values[f"wilcoxon-{short}-paper"] = significant(
            {cell: theirs for cell, (theirs, _) in tests}
        )
    for data, columns in PUBLISHED.items():
        values |= {
            f"{data}-{method}-paper": f"{cell[0]}" for method, cell in columns.items() if cell
        }
    return values


def significant(tests):
    """Tests below the level, in words."""
    parts = []
    for method in TESTED:
        others = [
            f"{other} ({test.p:.3f})"
            for (tested, other), test in tests.items()
            if tested == method and test.p <= LEVEL
        ]
        if others:
            parts.append(f"{method} against {', '.join(others)}")
    return "; ".join(parts) or "none"


RESULTS = Results(
    "table5",
    "data method learner value repeat rounds",
    "n_train n_test rounds_fitted error",
    fit=fit_table5,
    as_text="value",
)
CHOICE = Results(
    "table5-choice", "data method learner value fold rounds", "error n_train n_test", fit=fit_choice
)
EXPERIMENTS = (
    Experiment(
        "table5",
        "Table V: 1,000 rounds",
        (RESULTS, CHOICE),
        plan=plan,
        text=table5_text,
        sets=tuple(PUBLISHED),
        methods=METHODS,
        values=table5_values,
        pages={"": table5_page, "signed-ranks": signed_rank_page},
    ),
)
