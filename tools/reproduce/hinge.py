"""HingeBoost.OC against Tables 2 and 3 of its paper.

T. Gao and D. Koller, Multiclass boosting with hinge loss based on output coding. For each data set, kernel and scaling:
C by 3-fold cross-validation on the training part with 20 rounds, then 200 rounds on the official split, for 20 seeds on
vowel and 5 elsewhere.
"""

import time
import warnings
from collections import defaultdict

import numpy as np
from shared.datasets import load_official
from shared.internals import Scale
from shared.tables import markdown_table, number, published

from reproduce.experiment import Experiment, Results, cross, fit_and_test, select
from reproduce.multiboost import estimator

ROUNDS = 200
CHOICE_ROUNDS = 20
FOLDS = 3
SETS = ("vowel", "satimage", "pendigits", "usps", "letter")
LARGER = ("usps", "letter")
SMALL = tuple(data for data in SETS if data not in LARGER)
KERNELS = ("linear", "perceptron")
VALUES_OF_C = tuple(2.0**exponent for exponent in range(-2, 13, 2))
METHODS = {
    "hinge": {},
    "hinge-random": {"init": "random"},
    "hinge-2-svms": {"max_alternations": 1},
}
PUBLISHED = published("hinge", index=2)


def make_estimator(unit):
    """The estimator of a unit."""
    return estimator(
        "HingeBoostOC",
        n_estimators=int(unit["rounds"]),
        C=float(unit["C"]),
        kernel=unit["kernel"],
        solver="coordinate",
        random_state=int(unit.get("seed", 0)),
        **METHODS[unit["method"]],
    )


def parts_of(data, fold="none"):
    """The official split, or a fold of its training part."""
    parts = X, y, _, _ = load_official(data)
    if fold == "none":
        return parts
    from sklearn.model_selection import StratifiedKFold

    train, test = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y))[int(fold)]
    return X[train], y[train], X[test], y[test]


def scaled(X, *others):
    """Features from their range on X to [-1, 1]."""
    scale = Scale.from_range(X.min(axis=0), X.max(axis=0))
    return [scale.apply(part) for part in (X, *others)]


def fit(unit):
    """Train and test one unit: a fold of the choice of C, or a seed on the official split."""
    X, y, X_test, y_test = parts_of(unit["data"], unit.get("fold", "none"))
    begin = time.perf_counter()
    if unit["scaled"] == "yes":
        X, X_test = scaled(X, X_test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row, _ = fit_and_test(unit, make_estimator(unit), (X, y, X_test, y_test), decimals=12)
    return {**row, "error": number(row["error"]), "seconds": number(time.perf_counter() - begin)}


def lowest(errors, tried):
    """Of ``tried``, the first with the lowest mean over the folds; None unless all folds of all of them are there."""
    if any(len(errors.get(one, ())) != FOLDS for one in tried):
        return None
    # Means that differ by rounding only, as by the order of the folds, are equal.
    return min(tried, key=lambda one: round(float(np.mean(errors[one])), 9))


def chosen(rows, data, kernel, scaling, method):
    """C of the lowest mean error over the folds, the first where they tie; None unless all are there."""
    errors = defaultdict(list)
    cell = (data, kernel, scaling, method)
    for row in rows:
        if (row["data"], row["kernel"], row["scaled"], row["method"]) == cell:
            errors[float(row["C"])].append(float(row["error"]))
    return lowest(errors, VALUES_OF_C)


def configurations(options):
    """(data, kernel, scaled, methods) in the order they are done, small sets first."""
    for methods, scaling, sets in (
        (METHODS, "yes", SMALL),
        (METHODS, "no", SMALL),
        (("hinge",), "yes", LARGER),
    ):
        chosen_methods = [
            method for method in methods if not options.methods or method in options.methods
        ]
        for data in sets:
            for kernel in KERNELS:
                if scaling == "no" and kernel == "linear" and data != "vowel":
                    continue  # raw pixels and pen positions: hours, for linear SVMs of large C
                if chosen_methods and (not options.sets or data in options.sets):
                    yield data, kernel, scaling, chosen_methods


def plan(options, journal, choices):
    """Choose C and train, one configuration after the other."""
    for data, kernel, scaling, methods in configurations(options):
        cell = {"data": data, "kernel": kernel, "scaled": scaling}
        title = f"{data}, {kernel}, scaled: {scaling}"
        units = cross(method=methods, C=VALUES_OF_C, rounds=[CHOICE_ROUNDS], fold=range(FOLDS))
        yield 1, [{**cell, **unit} for unit in units], f"C of {title}"
        units = []
        for method in methods:
            C = chosen(choices.rows, data, kernel, scaling=scaling, method=method)
            if C is not None:
                more = {"method": method, "C": C, "rounds": options.rounds or ROUNDS}
                units += [
                    {**cell, **more, "seed": seed} for seed in range(20 if data == "vowel" else 5)
                ]
        yield 0, units, title


def text(frame):
    """The two tables, ours beside the paper's."""
    shown = select(frame, rounds=ROUNDS)
    lines = []
    for kernel in KERNELS:
        for data in SETS:
            for scaling in ("yes", "no"):
                of_cell = select(shown, kernel=kernel, data=data, scaled=scaling)
                rows_of_method = {
                    m: rows for m in METHODS if len(rows := select(of_cell, method=m))
                }
                if not rows_of_method:
                    continue
                printed = PUBLISHED.get((data, kernel))
                best = min(rows["error"].mean() for rows in rows_of_method.values())
                verdict = f"{best / printed['hinge']:.3f}" if printed else ""
                paper = f"{printed['hinge']:.2f}" if printed else ""
                cells = [_shown(rows_of_method[m]) if m in rows_of_method else "" for m in METHODS]
                lines.append([data, kernel, scaling, paper, *cells, verdict])
    header = ["data", "kernel", "scaled", "paper", *METHODS, "best of ours / paper"]
    return (
        f"Test error in percent, {ROUNDS} rounds, mean +- standard deviation over the seeds (C chosen).\n\n"
        + markdown_table(header, lines)
    )


def page(frame):
    """The two tables with the better scaling of each method; only what the paper has."""
    shown = select(frame, rounds=ROUNDS)
    means = shown.groupby(["data", "kernel", "method", "scaled"])["error"].mean()
    lines = []
    for (data, kernel), printed in PUBLISHED.items():
        cells = [f"{means[data, kernel, method].min():.2f}" for method in METHODS]
        lines.append([data, kernel, f"{printed['hinge']:.2f}", *cells])
    return markdown_table(["set", "kernel", "paper", *METHODS], lines)


def _shown(rows):
    errors = rows["error"]
    return f"{errors.mean():.2f} +- {errors.std():.2f} ({rows['C'].iloc[0]:g})"


def values(frame):
    """What sentences say about the two tables."""
    shown = select(frame, rounds=ROUNDS)
    mean = shown.groupby(["data", "kernel", "scaled", "method"])["error"].mean().to_dict()
    ratio = {
        cell: error / PUBLISHED[cell[:2]]["hinge"]
        for cell, error in mean.items()
        if cell[:2] in PUBLISHED
    }
    best = {cell: min(one for key, one in ratio.items() if key[:2] == cell) for cell in PUBLISHED}
    two_svms = {
        cell: min(one for key, one in ratio.items() if key[:2] == cell and key[3] == "hinge-2-svms")
        for cell in PUBLISHED
    }
    cells = shown[shown["scaled"] == "yes"].drop_duplicates(["data", "kernel", "method"])
    highest = (cells["C"] == VALUES_OF_C[-1]).sum()
    texts = {
        "reached": f"{sum(one <= 1 for one in best.values())} of {len(best)}",
        "worst": f"{100 * (max(best.values()) - 1):.1f}",
        "two-svms-within": f"{100 * (max(two_svms.values()) - 1):.1f}",
        "two-svms-worst": " ".join(max(two_svms, key=two_svms.get)),
        "highest-C": f"{highest} of {len(cells)}",
        "vowel-scaled": f"{min(mean[key] for key in mean if key[:3] == ('vowel', 'perceptron', 'yes')):.2f}",
        "vowel-as-is": f"{min(mean[key] for key in mean if key[:3] == ('vowel', 'perceptron', 'no')):.2f}",
        "vowel-paper": f"{PUBLISHED['vowel', 'perceptron']['hinge']:.2f}",
    }
    return texts | {
        "half-a-row": f"{VALUES_OF_C[-1] / cells[cells['data'] == 'pendigits']['n_train'].iloc[0]:.1f}"
    }


KEY = "data kernel scaled method C rounds"
COLUMNS = "error n_train n_test"
EXPERIMENTS = (
    Experiment(
        "hinge",
        "HingeBoost.OC, Tables 2 and 3",
        (
            Results("hinge", f"{KEY} seed", COLUMNS, fit=fit),
            Results("hinge-choice", f"{KEY} fold", COLUMNS, fit=fit),
        ),
        plan=plan,
        text=text,
        weigh=lambda row: (float(row["seconds"]), row["data"], row["method"], int(row["seed"])),
        sets=SETS,
        methods=tuple(METHODS),
        values=values,
        pages={"": page},
    ),
)
