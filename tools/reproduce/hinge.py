"""HingeBoost.OC against Tables 2 and 3 of its paper, beside four reductions to binary problems.

T. Gao and D. Koller, Multiclass boosting with hinge loss based on output coding. For each data set, kernel and scaling:
C of every method by 3-fold cross-validation on the training part (of 20 rounds, for HingeBoost.OC), then 200 rounds on
the official split, for 20 seeds on vowel and 5 elsewhere. The multi-class SVM beside the perceptron kernel has an RBF
kernel, as in the paper, whose gamma is chosen with C.
"""

import time
import warnings
from collections import defaultdict

import numpy as np
from shared.datasets import load_official
from shared.internals import Scale
from shared.tables import markdown_table, number, published

from reproduce.experiment import Experiment, Results, fit_and_test, select
from reproduce.multiboost import estimator
from reproduce.reductions import make_reduction

ROUNDS, CHOICE_ROUNDS, FOLDS = 200, 20, 3
SETS = ("vowel", "satimage", "pendigits", "usps", "letter")
LARGER = ("usps", "letter")
SMALL = tuple(data for data in SETS if data not in LARGER)
KERNELS = ("linear", "perceptron")
# Powers of 2; the reductions bound every row by C itself, and are slow to train where that is large.
C_EXPONENTS = tuple(range(-2, 13, 2))
C_EXPONENTS_OF_REDUCTIONS = tuple(range(-6, 9, 2))
HINGE = {
    "hinge": {},
    "hinge-random": {"init": "random"},
    "hinge-2-svms": {"max_alternations": 1},
}
REDUCTIONS = ("one-vs-one", "one-vs-all", "ecoc", "crammer-singer")
# The paper's, for its multi-class SVM.
GAMMAS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
# Left out with the perceptron kernel: a factor of all rows' kernel for every gamma, C and fold, or hours of LIBSVM.
TOO_LONG = {
    "crammer-singer": ("satimage", "pendigits", "usps", "letter"),
    "one-vs-all": ("letter",),
    "ecoc": ("usps", "letter"),
}
PUBLISHED = published("hinge", index=2)


def hingeboost(unit, **more):
    """HingeBoost.OC with the rounds, C and seed of a unit."""
    shared = {"n_estimators": int(unit["rounds"]), "C": float(unit["C"])}
    return estimator("HingeBoostOC", random_state=int(unit.get("seed", 0)), **shared, **more)


def make_estimator(unit):
    """The estimator of a unit."""
    if unit["method"] in HINGE:
        return hingeboost(unit, kernel=unit["kernel"], solver="coordinate", **HINGE[unit["method"]])
    return make_reduction(unit["method"], unit["kernel"], float(unit["C"]), unit["gamma"], int(unit.get("seed", 0)))


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


def tried_for(kernel, method):
    """Pairs of C and gamma that are tried for a method; gamma only for the multi-class SVM with an RBF kernel."""
    exponents = C_EXPONENTS if method in HINGE else C_EXPONENTS_OF_REDUCTIONS
    gammas = GAMMAS if method == "crammer-singer" and kernel != "linear" else ("none",)
    return [(2.0**e, gamma) for e in exponents for gamma in gammas]


def lowest(errors, tried):
    """Of ``tried``, the first with the lowest mean over the folds; None unless all folds of all of them are there."""
    if any(len(errors.get(one, ())) != FOLDS for one in tried):
        return None
    # Means that differ by rounding only, as by the order of the folds, are equal.
    return min(tried, key=lambda one: round(float(np.mean(errors[one])), 9))


def chosen(rows, data, kernel, scaling, method):
    """C and gamma of the lowest mean error over the folds, the first where they tie; None unless all are there."""
    errors, cell = defaultdict(list), (data, kernel, scaling, method)
    for row in rows:
        if (row["data"], row["kernel"], row["scaled"], row["method"]) == cell:
            errors[float(row["C"]), row["gamma"]].append(float(row["error"]))
    return lowest(errors, [(C, str(gamma)) for C, gamma in tried_for(kernel, method)])


def configurations(options):
    """(data, kernel, scaled, methods) in the order they are done: ours first, small sets first, then the reductions."""
    plans = [
        (HINGE, "yes", SMALL), (HINGE, "no", SMALL), (REDUCTIONS, "yes", SMALL), (REDUCTIONS, "no", ["vowel"]),
        (("hinge", *REDUCTIONS), "yes", LARGER),
    ]  # fmt: skip
    for group, scaling, sets in plans:
        for data in sets:
            if options.sets and data not in options.sets:
                continue
            for kernel in KERNELS:
                if scaling == "no" and kernel == "linear" and data != "vowel":
                    continue  # raw pixels and pen positions: hours, for linear SVMs of large C
                methods = [m for m in group if kernel == "linear" or data not in TOO_LONG.get(m, ())]
                methods = [m for m in methods if not options.methods or m in options.methods]
                if methods:
                    yield data, kernel, scaling, methods


def seeds_of(data, method):
    """Number of seeds; the other methods draw nothing, or take too long."""
    if method not in HINGE and (method != "ecoc" or data == "satimage"):
        return 1
    return 20 if data == "vowel" else 5


def plan(options, journal, choices):
    """Choose C and train, one configuration after the other."""
    for data, kernel, scaling, methods in configurations(options):
        cell = {"data": data, "kernel": kernel, "scaled": scaling}
        title = f"{data}, {kernel}, scaled: {scaling}"
        rounds = {m: (CHOICE_ROUNDS, options.rounds or ROUNDS) if m in HINGE else (0, 0) for m in methods}
        units = [
            {**cell, "method": m, "C": C, "gamma": gamma, "rounds": rounds[m][0], "fold": fold}
            for m in methods for C, gamma in tried_for(kernel, m) for fold in range(FOLDS)
        ]  # fmt: skip
        yield 1, units, f"C of {title}"
        units = []
        for m in methods:
            found = chosen(choices.rows, data, kernel, scaling, m)
            if found is not None:
                more = {"C": found[0], "gamma": found[1], "rounds": rounds[m][1]}
                units += [{**cell, "method": m, **more, "seed": seed} for seed in range(seeds_of(data, m))]
        yield 0, units, title


def text(frame):
    """The two tables, ours beside the paper's."""
    shown = frame[(frame["rounds"] == ROUNDS) | ~frame["method"].isin(HINGE)]
    methods = [*HINGE, *REDUCTIONS]
    lines = []
    for kernel in KERNELS:
        for data in SETS:
            for scaling in ("yes", "no"):
                of_cell = select(shown, kernel=kernel, data=data, scaled=scaling)
                found = {m: rows for m in methods if len(rows := select(of_cell, method=m))}
                if not found:
                    continue
                printed = PUBLISHED.get((data, kernel))
                ours = [rows["error"].mean() for m, rows in found.items() if m in HINGE]
                verdict = f"{min(ours, default=np.nan) / printed['hinge']:.3f}" if printed else ""
                paper = f"{printed['hinge']:.2f}" if printed else ""
                cells = [_shown(found[m]) if m in found else "" for m in methods]
                lines.append([data, kernel, scaling, paper, *cells, verdict])
    header = ["data", "kernel", "scaled", "paper", *methods, "best of ours / paper"]
    return (
        f"Test error in percent, {ROUNDS} rounds, mean +- standard deviation over the seeds (C chosen, and gamma of "
        "the RBF kernel that crammer-singer has beside the perceptron kernel).\n\n"
        + markdown_table(header, lines)
    )


def _shown(rows):
    errors, first = rows["error"], rows.iloc[0]
    deviation = f" +- {errors.std():.2f}" if len(errors) > 1 else ""
    gamma = "" if first["gamma"] == "none" else f", {float(first['gamma']):g}"
    return f"{errors.mean():.2f}{deviation} ({first['C']:g}{gamma})"


KEY, COLUMNS = "data kernel scaled method C gamma rounds", "error n_train n_test"
EXPERIMENTS = (
    Experiment(
        "hinge", "HingeBoost.OC, Tables 2 and 3",
        (
            Results("hinge", f"{KEY} seed", COLUMNS, fit, as_text="gamma"),
            Results("hinge-choice", f"{KEY} fold", COLUMNS, fit, as_text="gamma"),
        ),
        plan, text, weigh=lambda row: (float(row["seconds"]), row["data"], row["method"], int(row["seed"])),
        sets=SETS, methods=(*HINGE, *REDUCTIONS),
    ),
)  # fmt: skip
