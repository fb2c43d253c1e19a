"""HingeBoost.OC against Tables 2 and 3 of its paper, beside four reductions to binary problems.

T. Gao and D. Koller, Multiclass boosting with hinge loss based on output coding. For each data set, kernel and scaling:
C of every method by 3-fold cross-validation on the training part (of 20 rounds, for HingeBoost.OC), then 200 rounds on
the official split, for 20 seeds on vowel and 5 elsewhere. The multi-class SVM beside the perceptron kernel has an RBF
kernel, as in the paper, whose gamma is chosen with C.

hinge-costs: expected cost on a hierarchy of the classes, of a model that knows the costs and of one that does not.
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
    "hinge-wider": {},
}
# "hinge" with one larger C besides, where it chose the largest one; the smaller ones are taken from its own choice.
WIDER = {"hinge-wider": "hinge"}
C_EXPONENTS_BEYOND = (14,)
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
# Groups of the classes, in order of the labels: soils and crops; the first words of the newsgroups' names. An error
# within a group costs 1, another one ACROSS. Exponents of the C that are tried: margins of ACROSS ask for larger ones.
GROUPS = {
    "satimage": ((0, 1, 0, 0, 1, 0), tuple(range(8, 19, 2))),
    "news20-bydate": ((0, 1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 6, 6, 6, 6), tuple(range(2, 13, 2))),
}
ACROSS = 10.0
COSTS_ROUNDS, COSTS_SEEDS = 50, 3


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
    exponents = C_EXPONENTS_BEYOND if method in WIDER else exponents
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
    errors, methods = defaultdict(list), [m for m in (WIDER.get(method), method) if m]
    for row in rows:
        if (row["data"], row["kernel"], row["scaled"]) == (data, kernel, scaling) and row["method"] in methods:
            errors[float(row["C"]), row["gamma"]].append(float(row["error"]))
    return lowest(errors, [(C, str(gamma)) for m in methods for C, gamma in tried_for(kernel, m)])


def configurations(options):
    """(data, kernel, scaled, methods) in the order they are done: ours first, small sets first, then the reductions."""
    plain = [method for method in HINGE if method not in WIDER]
    plans = [
        (plain, "yes", SMALL), (plain, "no", SMALL), (REDUCTIONS, "yes", SMALL), (REDUCTIONS, "no", ["vowel"]),
        (list(WIDER), "yes", SMALL), (("hinge", *REDUCTIONS), "yes", LARGER),
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
        largest, title = 2.0 ** C_EXPONENTS[-1], f"{data}, {kernel}, scaled: {scaling}"
        best = {m: chosen(choices.rows, data, kernel, scaling, m) for m in WIDER.values()}
        methods = [m for m in methods if m not in WIDER or (best[WIDER[m]] or (0,))[0] == largest]
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
                ours = [rows["error"].mean() for m, rows in found.items() if m in HINGE and m not in WIDER]
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


# --------------------------------------------------------------------------------------------------------------------
# Costs


def fit_costs(unit):
    """Train and test one unit of hinge-costs: a fold of the choice of C, or a seed on the official split."""
    group = np.array(GROUPS[unit["data"]][0])
    cost = np.where(group[:, None] == group, 1.0, ACROSS) - np.eye(len(group))
    parts = parts_of(unit["data"], unit["fold"])
    model = hingeboost(unit, cost_matrix=cost if unit["costs"] == "known" else None, scale=True)
    row, _ = fit_and_test(unit, model, parts, decimals=12)
    wanted, found = (np.searchsorted(model.classes_, y) for y in (parts[3], model.predict(parts[2])))
    across = 100 * np.mean(group[wanted] != group[found])
    numbers = {"cost": cost[wanted, found].mean(), "error": row["error"], "across": across, "seconds": row["seconds"]}
    return {**row, **{name: number(float(value)) for name, value in numbers.items()}}


def costs_plan(options, journal):
    """For each data set and model: C by its expected cost over the folds, then three seeds on the official split."""
    for data, (_, exponents) in GROUPS.items():
        if options.sets and data not in options.sets:
            continue
        cells = [{"data": data, "costs": costs} for costs in ("unknown", "known")]
        units = [
            {**cell, "C": 2.0**e, "rounds": CHOICE_ROUNDS, "fold": fold, "seed": 0}
            for cell in cells for e in exponents for fold in range(FOLDS)
        ]  # fmt: skip
        yield 0, units, f"hinge-costs, C of {data}"
        units = []
        for cell in cells:
            C = chosen_for_costs(journal.frame(), **cell)
            more = {"C": C, "rounds": COSTS_ROUNDS, "fold": "none"}
            units += [{**cell, **more, "seed": seed} for seed in range(COSTS_SEEDS) if C is not None]
        yield 0, units, f"hinge-costs, {data}"


def chosen_for_costs(frame, data, costs):
    """C of the lowest mean expected cost over the folds, of those that are tried; None unless all are there."""
    rows = select(frame, data=data, costs=costs)
    paid = {C: mine["cost"].tolist() for C, mine in rows[rows["fold"] != "none"].groupby("C")}
    return lowest(paid, [2.0**e for e in GROUPS[data][1]])


def costs_text(frame):
    """Expected cost, errors and errors across groups of both models."""
    lines = []
    for data in GROUPS:
        for costs in ("unknown", "known"):
            rows = select(frame, data=data, costs=costs, fold="none", C=chosen_for_costs(frame, data, costs))
            if len(rows):
                mean = rows[["cost", "error", "across"]].mean()
                show = [f"{mean['cost']:.3f}", f"{mean['error']:.2f}", f"{mean['across']:.2f}"]
                lines.append([data, costs, f"{rows['C'].iloc[0]:g}", *show, len(rows)])
    header = ["data", "costs", "C", "expected cost", "error in percent", "errors across groups", "seeds"]
    return (
        f"Linear machines, {COSTS_ROUNDS} rounds; an error within a group of classes costs 1, across them {ACROSS:g}; "
        "C by the expected cost of 20 rounds over 3 folds.\n\n" + markdown_table(header, lines)
    )


KEY, COLUMNS = "data kernel scaled method C gamma rounds", "error n_train n_test"
ALL_SETS = tuple(dict.fromkeys((*SETS, *GROUPS)))
COSTS_KEY = "data costs C rounds fold seed"
EXPERIMENTS = (
    Experiment(
        "hinge", "HingeBoost.OC, Tables 2 and 3",
        (
            Results("hinge", f"{KEY} seed", COLUMNS, fit, as_text="gamma"),
            Results("hinge-choice", f"{KEY} fold", COLUMNS, fit, as_text="gamma"),
        ),
        plan, text, weigh=lambda row: (float(row["seconds"]), row["data"], row["method"], int(row["seed"])),
        sets=ALL_SETS, methods=(*HINGE, *REDUCTIONS),
    ),
    Experiment(
        "hinge-costs", "HingeBoost.OC with costs",
        (Results("hinge-costs", COSTS_KEY, "cost error across", fit_costs, as_text="fold"),),
        costs_plan, costs_text,
        weigh=lambda row: (float(row["seconds"]), *(row[name] for name in COSTS_KEY.split())), sets=ALL_SETS,
    ),
)  # fmt: skip
