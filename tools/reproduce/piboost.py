"""PIBoost's Tables 2 and 3: 5-fold cross-validation at equal numbers of weak learners.

A. Fernandez-Baldera and L. Baumela, Multi-class boosting with asymmetric binary weak-learners.
"""

from shared import ranks
from shared.datasets import DATA, fold_of, load_pooled, sets_by_cost
from shared.internals import count_trees, separators
from shared.tables import beside, deviations, markdown_table, mean_and_deviation, published

from reproduce.experiment import Experiment, Results, cross, errors_of, fit_and_test
from reproduce.multiboost import estimator

PUBLISHED = published("piboost-table3")
SIGNED_RANKS = published("piboost-table4")
FOLDS = 5
# Share of the rows that a tree is learnt from.
SUBSAMPLE = 0.1
# Columns of the table: our method and the paper's column, None where the paper names a method without figures.
METHODS = {
    "gentleboost": "gentleboost",
    "adaboost-mh": "adaboost-mh",
    "samme": "samme",
    "piboost-singles": "piboost-singles",
    "piboost-pairs": "piboost-pairs",
    "piboost-singles-costs": "piboost-singles",
    "piboost-pairs-costs": "piboost-pairs",
    "piboost-singles-rule": "piboost-singles",
    "piboost-pairs-rule": "piboost-pairs",
    "adaboost-m1": None,
    "adaboost-m2": None,
}
RANKED = tuple(METHODS)[:5]
CLASSES = {
    "gentleboost": "GentleBoost", "adaboost-mh": "AdaBoostMH", "samme": "SAMME", "adaboost-m1": "AdaBoostM1",
    "adaboost-m2": "AdaBoostM2",
}  # fmt: skip
# One tree of all classes in every round.
OF_ALL_CLASSES = "samme", "adaboost-m1", "adaboost-m2"
SETS = [data for data in sets_by_cost() if data in PUBLISHED]
# Leaves of a tree that the paper's rule alone bounds: as many as the library lets a tree have.
UNBOUNDED = 65536


def columns_of(method, n_classes):
    """Weak learners that a method fits in a round."""
    if method in OF_ALL_CLASSES:
        return 1
    if method.startswith("piboost"):
        return separators(method.split("-")[1], n_classes).shape[1]
    return n_classes


def rounds_of(data, method):
    """Rounds after which a method has as many trees as the paper's (its Table 2, save satimage of 6 classes here)."""
    return PUBLISHED[data]["learners"] // columns_of(method, DATA[data].n_classes)


def leaves_of(data, method):
    """Most leaves of a tree, in place of the paper's rule: to split impure nodes of more than M/K of the M rows.

    Classification trees of all classes grown by that rule end with about 2K leaves; trees of two classes and regression
    trees may have twice as many. Methods named "rule" follow the paper's.
    """
    if method.endswith("rule"):
        return UNBOUNDED
    return max(10, (2 if method in OF_ALL_CLASSES else 4) * DATA[data].n_classes)


def table3_estimator(method, rounds, leaves, n_classes):
    """New estimator of a column of the table."""
    shared = {
        "n_estimators": rounds,
        "weak_learner": "tree",
        "max_leaf_nodes": leaves,
        "subsample": SUBSAMPLE,
    }
    if method.startswith("piboost"):
        parts = method.split("-")
        if parts[-1] == "rule":
            shared["min_weight_fraction_split"] = 1 / n_classes
        return estimator(
            "PIBoost", separators=parts[1], cost_sensitive=parts[-1] == "costs", **shared
        )
    return estimator(CLASSES[method], **shared)


def fit_table3(unit):
    """One fold of one method."""
    n_classes = DATA[unit["data"]].n_classes
    model = table3_estimator(unit["method"], unit["rounds"], unit["leaves"], n_classes=n_classes)
    row, _ = fit_and_test(unit, model, fold_of(*load_pooled(unit["data"]), unit["fold"], FOLDS))
    return {**row, "trees": count_trees(model)}


def plan(options, journal):
    sets = sets_by_cost(options.sets or SETS)
    methods = options.methods or METHODS
    units = cross(data=sets, method=methods, fold=range(options.repeats or FOLDS))
    for unit in units:
        key = unit["data"], unit["method"]
        unit |= {"leaves": leaves_of(*key), "rounds": rounds_of(*key)}
    yield 0, units, "piboost-table3"


def verdict(ours, theirs, sd=2):
    """Whether a mean lies within so many of the paper's standard deviations or below, in words."""
    distance = deviations(ours, theirs)
    return f"{'yes' if distance <= sd else 'NO'} ({distance:+.1f} sd)"


def cells_of_frame(frame):
    """{(data, method): (mean, standard deviation, folds)} of the folds that are there, in the order of the table."""
    cells = {}
    for data in SETS:
        for method in METHODS:
            errors = errors_of(frame, data=data, method=method, leaves=leaves_of(data, method))
            if len(errors):
                cells[data, method] = (*mean_and_deviation(errors), len(errors))
    return cells


def table3_ranking(cells):
    """Ranking of our five methods over the sets where all of them have all folds, and the names of these sets."""
    whole = {key for key, (_, _, folds) in cells.items() if folds == FOLDS}
    sets = [data for data in SETS if all((data, method) in whole for method in RANKED)]
    if len(sets) < 2:
        return None, sets
    return ranks.rank(RANKED, [[cells[data, m][0] for m in RANKED] for data in sets]), sets


def paper_ranking(sets):
    """The same of the errors that the paper prints."""
    return ranks.rank(RANKED, [[PUBLISHED[data][m][0] for m in RANKED] for data in sets])


def table3_text(frame):
    """Errors beside the paper's, what is within two standard deviations, and ranks, in Markdown."""
    found = cells_of_frame(frame)
    lines = []
    verdicts = []
    judged = []
    for data in dict.fromkeys(data for data, _ in found):
        cells = []
        words = []
        for method, column in METHODS.items():
            mean, deviation, folds = found.get((data, method), (None, None, 0))
            theirs = PUBLISHED[data].get(column)
            short = "" if folds == FOLDS else f" [{folds} folds]"
            paper = f"{theirs[0]:.2f} ({theirs[1]:.2f}) / " if method in RANKED else ""
            cells.append(f"{paper}{mean:.2f} ({deviation:.2f}){short}" if folds else "-")
            words.append(verdict(mean, theirs) if folds and theirs else "-")
            if folds and method in RANKED:
                judged.append(words[-1].startswith("yes"))
        leaves = f"{leaves_of(data, 'samme')}, {leaves_of(data, 'piboost-singles')}"
        lines.append([data, PUBLISHED[data]["learners"], leaves, *cells])
        verdicts.append([data, *words])
    if not lines:
        return "Not enough results for a table."
    text = (
        f"{FOLDS}-fold cross-validation of all rows; paper / ours, mean (standard deviation of the folds) in "
        "percent; leaves: most of a tree of SAMME, AdaBoost.M1 and AdaBoost.M2, and of the others. The columns with "
        "costs have no counterpart in the paper and are compared with its PIBoost. Those named rule bound trees as the "
        "paper does, and not by leaves. The other bounds were chosen in view of test errors of krkopt, vowel and "
        "waveform. The paper has no figures of M1 and M2.\n\n"
        + markdown_table(["data", "weak learners", "leaves", *METHODS], lines)
        + f"\n\nWithin two of the paper's standard deviations or better: {sum(judged)} of {len(judged)} cells.\n\n"
        + markdown_table(["data", *METHODS], verdicts)
    )
    ranking, sets = table3_ranking(found)
    if ranking is None:
        return text
    return f"{text}\n\n{ranking_text(ranking, sets)}\n\n{signed_rank_text(found, sets)}"


def table3_page(frame):
    """Errors of the ranked methods beside the paper's, and PIBoost's with costs."""
    errors = cells_of_frame(frame)
    others = [method for method in METHODS if method.endswith("costs")]
    lines = []
    for data in dict.fromkeys(data for data, _ in errors):
        cells = []
        for method in RANKED:
            theirs = PUBLISHED[data][method]
            ours = errors[data, method][0]
            cells.append(beside(theirs[0], ours, deviations(ours, theirs) > 2))
        cells += [f"{errors[data, method][0]:.1f}" for method in others]
        lines.append([data, *cells])
    names = [method.removeprefix("piboost-") for method in (*RANKED, *others)]
    return markdown_table(["set", *names], lines)


def ranking_text(ranking, sets):
    """Mean ranks of ours and of the paper's, in Markdown."""
    theirs = paper_ranking(sets)
    all_theirs = paper_ranking(list(PUBLISHED))
    named = {
        "ours": ranking,
        "the paper's, the same sets": theirs,
        "the paper's, all its sets": all_theirs,
    }
    lines = [[what, *(f"{value:.2f}" for value in one.mean_ranks)] for what, one in named.items()]
    return (
        f"{markdown_table(['mean rank', *RANKED], lines)}\n\nOurs: {ranks.describe(ranking)}. The paper's on the same "
        f"sets: {ranks.describe(theirs)}; on all of its sets: {ranks.describe(all_theirs)}."
    )


def signed_ranks(cells, sets):
    """p-values of Table 4 by (PIBoost's variant, other method): ours, the paper's on the same sets, and printed."""
    p = {}
    for method, row in SIGNED_RANKS.items():
        for other, printed in row.items():
            if printed is None:
                continue
            ours = ranks.signed_rank(
                *([cells[data, name][0] for data in sets] for name in (method, other))
            )
            theirs = ranks.signed_rank(
                *([PUBLISHED[data][name][0] for data in sets] for name in (method, other))
            )
            p[method, other] = ours.p, theirs.p, printed
    return p


def signed_rank_text(cells, sets):
    """The paper's Table 4 in Markdown."""
    p = signed_ranks(cells, sets)
    lines = [
        [
            method,
            *(
                " / ".join(f"{one:.4f}" for one in p[method, m]) if (method, m) in p else "-"
                for m in RANKED[:-1]
            ),
        ]
        for method in SIGNED_RANKS
    ]
    return (
        f"Table 4, p-values of Wilcoxon's signed-rank test: ours on {len(sets)} sets / from the paper's errors on the "
        f"same sets / printed, on all {len(PUBLISHED)} sets of the paper.\n\n"
        + markdown_table(["", *RANKED[:-1]], lines)
    )


def p_values_page(frame):
    """Signed-rank tests of PIBoost with pairs: ours and by the paper's errors on the same sets."""
    errors = cells_of_frame(frame)
    _, sets = table3_ranking(errors)
    lines = [
        [other, f"{ours:.3f}", f"{theirs:.3f}"]
        for (method, other), (ours, theirs, _) in signed_ranks(errors, sets).items()
        if method == "piboost-pairs"
    ]
    return markdown_table(["against", "ours", "paper"], lines)


def table3_values(frame):
    """What sentences say about Table 3."""
    found = cells_of_frame(frame)
    mean = {cell: errors[0] for cell, errors in found.items()}
    judged = {
        (data, method): verdict(mean[data, method], PUBLISHED[data][METHODS[method]]).startswith(
            "yes"
        )
        for data, method in found
        if METHODS[method]
    }
    ranking, sets = table3_ranking(found)
    values = {
        "ranks": in_order(ranking),
        "ranks-paper": in_order(paper_ranking(sets)),
        "ranks-paper-all": in_order(paper_ranking(list(PUBLISHED))),
    }
    for name, methods in (
        ("ranked", RANKED),
        ("singles-rule", ["piboost-singles-rule"]),
        ("pairs-rule", ["piboost-pairs-rule"]),
    ):
        cells = [good for (_, method), good in judged.items() if method in methods]
        values[f"{name}-within"] = f"{sum(cells)} of {len(cells)}"
    distances = [
        deviations(mean[data, method], PUBLISHED[data][method])
        for data, method in found
        if method in RANKED
    ]
    values["near"] = f"{sum(abs(far) <= 2 for far in distances)} of {len(distances)}"
    values["better"] = str(sum(far < -2 for far in distances))
    for kind in ("singles", "pairs"):
        lower = [
            mean[data, f"piboost-{kind}-costs"] < mean[data, f"piboost-{kind}"] for data in sets
        ]
        values[f"{kind}-costs-lower"] = f"{sum(lower)} of {len(sets)}"
    for (method, other), p in signed_ranks(found, sets).items():
        for name, one in zip(("p", "p-paper", "p-printed"), p, strict=True):
            values[f"{name}-{method}-{other}"] = f"{one:.3f}"
    for data, method in mean:
        values[f"{data}-{method}"] = f"{mean[data, method]:.1f}"
        if METHODS[method]:
            values[f"{data}-{method}-paper"] = f"{PUBLISHED[data][METHODS[method]][0]:.1f}"
    return values


def in_order(ranking):
    """Methods and their mean ranks, the best first, in words."""
    pairs = sorted(zip(ranking.mean_ranks, RANKED, strict=True))
    return ", ".join(f"{method} {value:.2f}" for value, method in pairs)


RESULTS = Results(
    "piboost-table3",
    "data method leaves rounds fold",
    "error rounds_fitted trees n_train n_test",
    fit=fit_table3,
)
EXPERIMENTS = (
    Experiment(
        "piboost-table3",
        "PIBoost's Table 3: equal numbers of trees",
        (RESULTS,),
        plan=plan,
        text=table3_text,
        sets=tuple(SETS),
        methods=tuple(METHODS),
        values=table3_values,
        pages={"": table3_page, "p-values": p_values_page},
    ),
)
