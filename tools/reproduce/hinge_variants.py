"""HingeBoost.OC: what its paper leaves open, tried on the two cells that are furthest from the paper's errors.

T. Gao and D. Koller, Multiclass boosting with hinge loss based on output coding. The paper does not say how features
are scaled, nor which C were tried. A round as printed ends with new colours and the SVM of the old ones.
"""

import time
import warnings
from collections import defaultdict

from shared.internals import rounds_as_printed
from shared.tables import markdown_table, mean_and_deviation, number, published

from reproduce.experiment import Experiment, Results, cross, fit_and_test, select
from reproduce.hinge import CHOICE_ROUNDS, FOLDS, ROUNDS, lowest, parts_of, scaled
from reproduce.multiboost import estimator

# (data, kernel): scalings, values of C and seeds.
CELLS = {
    ("vowel", "perceptron"): (("range", "deviation", "none"), range(-2, 21, 2), 20),
    ("pendigits", "linear"): (("range",), range(8, 17, 2), 3),
}
# SVMs in a round, or "printed" for the paper's order; and the first columns.
METHODS = {
    f"{svms}, {start}": (svms, start)
    for svms in ("3 SVMs", "2 SVMs", "printed")
    for start in ("one-vs-all", "random")
}
PUBLISHED = published("hinge-columns", index=2)


def values_of_C(cell):
    """What C is chosen from."""
    return [2.0**exponent for exponent in CELLS[cell][1]]


def make_estimator(unit):
    """The estimator of a unit."""
    svms, start = METHODS[unit["method"]]
    model = estimator(
        "HingeBoostOC",
        n_estimators=int(unit["rounds"]),
        C=float(unit["C"]),
        kernel=unit["kernel"],
        init=start,
        solver="coordinate",
        max_alternations=1 if svms == "2 SVMs" else 2,
        random_state=int(unit.get("seed", 0)),
    )
    return rounds_as_printed(model) if svms == "printed" else model


def rescaled(scaling, X, X_test):
    """Both parts with the scaling of the first: from its range to [-1, 1], to standard deviation 1, or none."""
    if scaling == "range":
        return scaled(X, X_test)
    if scaling == "deviation":
        mean = X.mean(axis=0)
        deviation = X.std(axis=0)
        deviation[deviation == 0] = 1
        return [(part - mean) / deviation for part in (X, X_test)]
    return [X, X_test]


def fit(unit):
    """Train and test one unit: a fold of the choice of C, or a seed on the official split."""
    X, y, X_test, y_test = parts_of(unit["data"], unit.get("fold", "none"))
    begin = time.perf_counter()
    X, X_test = rescaled(unit["scaling"], X, X_test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        row, _ = fit_and_test(unit, make_estimator(unit), (X, y, X_test, y_test), decimals=12)
    return {**row, "error": number(row["error"]), "seconds": number(time.perf_counter() - begin)}


def chosen(rows, cell):
    """C with the lowest mean error over the folds; None unless all are there."""
    errors = defaultdict(list)
    for row in rows:
        if all(row[name] == value for name, value in cell.items()):
            errors[float(row["C"])].append(float(row["error"]))
    return lowest(errors, values_of_C((cell["data"], cell["kernel"])))


def plan(options, journal, choices):
    """Choose C, then train with it, and with the other C once each: the least error shows what any choice can reach."""
    for (data, kernel), (scalings, _, seeds) in CELLS.items():
        if options.sets and data not in options.sets:
            continue
        for one in cross(scaling=scalings, method=options.methods or METHODS):
            cell = {"data": data, "kernel": kernel, **one}
            tried = values_of_C((data, kernel))
            title = ", ".join(cell.values())
            folds = cross(C=tried, rounds=[CHOICE_ROUNDS], fold=range(FOLDS))
            yield 1, [{**cell, **unit} for unit in folds], f"C of {title}"
            C = chosen(choices.rows, cell)
            if C is None:
                continue
            units = cross(C=[C], rounds=[ROUNDS], seed=range(seeds), chosen=["yes"])
            yield 0, [{**cell, **unit} for unit in units], title
            if data == "vowel":  # seconds
                others = cross(
                    C=[c for c in tried if c != C], rounds=[ROUNDS], seed=[0], chosen=["no"]
                )
                yield 0, [{**cell, **unit} for unit in others], f"other C of {title}"


def cells_of_frame(frame):
    """{(data, kernel, scaling, method): (C, mean, standard deviation, least error of any C or None)}."""
    cells = {}
    for (data, kernel), (scalings, _, _) in CELLS.items():
        for scaling in scalings:
            for method in METHODS:
                cell = {"data": data, "kernel": kernel, "scaling": scaling, "method": method}
                rows = select(frame, **cell)
                mine = rows[rows["chosen"] == "yes"]
                if mine.empty:
                    continue
                least = None
                if (rows["chosen"] == "no").any():
                    least = float(rows.groupby("C")["error"].mean().min())
                C = float(mine["C"].iloc[0])
                cells[tuple(cell.values())] = (C, *mean_and_deviation(mine["error"]), least)
    return cells


def text(frame):
    """Errors of every variant beside the paper's."""
    lines = []
    for (data, kernel, scaling, method), (C, mean, deviation, least) in cells_of_frame(
        frame
    ).items():
        paper = PUBLISHED[data, kernel]["hinge"]
        distance = (mean - paper[0]) / paper[1]
        lines.append(
            [
                data,
                kernel,
                scaling,
                method,
                f"{C:g}",
                f"{paper[0]:.2f} ({paper[1]:.2f})",
                f"{mean:.2f} ({deviation:.2f})",
                f"{distance:+.1f} sd",
                "-" if least is None else f"{least:.2f}",
            ]
        )
    head = [
        "data",
        "kernel",
        "scaling",
        "SVMs a round, start",
        "C",
        "paper",
        "ours",
        "distance",
        "least of any C",
    ]
    return (
        f"Test error in percent, {ROUNDS} rounds, mean (standard deviation) of the seeds. Scaling: from the range of "
        "the training part to [-1, 1], to standard deviation 1, or none. *printed*: a round ends with new colours, "
        "and has the SVM of those before. C is chosen by cross-validation on the training part from 2^-2 to 2^20 "
        "(pendigits: 2^8 to 2^16). The last column looks at test errors, and chooses nothing.\n\n"
        + markdown_table(head, lines)
    )


def page(frame):
    """Errors by scaling (rows) and variant (columns)."""
    found = cells_of_frame(frame)
    lines = []
    for (data, kernel), (scalings, _, _) in CELLS.items():
        for scaling in scalings:
            mine = [found.get((data, kernel, scaling, method)) for method in METHODS]
            if not any(mine):
                continue
            cells = ["-" if one is None else f"{one[1]:.2f}" for one in mine]
            least = [one[3] for one in mine if one is not None and one[3] is not None]
            paper = f"{PUBLISHED[data, kernel]['hinge'][0]:.2f}"
            last = f"{min(least):.2f}" if least else "-"
            lines.append([f"{data} {kernel}", scaling, paper, *cells, last])
    head = ["cell", "scaling", "paper", *METHODS, "least of any C"]
    return markdown_table(head, lines)


def values(frame):
    """What sentences say about the variants."""
    cells = cells_of_frame(frame)
    said = {}
    for data, kernel in CELLS:
        for scaling in CELLS[data, kernel][0]:
            mine = {cell: one for cell, one in cells.items() if cell[:3] == (data, kernel, scaling)}
            if not mine:
                continue
            best = min(mine, key=lambda cell: mine[cell][1])
            paper = PUBLISHED[data, kernel]["hinge"]
            said[f"{data}-{scaling}"] = f"{mine[best][1]:.2f}"
            said[f"{data}-{scaling}-method"] = best[3]
            said[f"{data}-{scaling}-distance"] = f"{(mine[best][1] - paper[0]) / paper[1]:+.1f}"
            least = [one[3] for one in mine.values() if one[3] is not None]
            if least:
                said[f"{data}-{scaling}-least"] = f"{min(least):.2f}"
        for (d, k, scaling, method), (_, mean, _, _) in cells.items():
            if (d, k) == (data, kernel):
                said[f"{data}-{scaling}-{method.replace(', ', '-').replace(' ', '-')}"] = (
                    f"{mean:.2f}"
                )
        said[f"{data}-paper"] = f"{PUBLISHED[data, kernel]['hinge'][0]:.2f}"
    return said


KEY = "data kernel scaling method C rounds"
COLUMNS = "error n_train n_test"
EXPERIMENTS = (
    Experiment(
        "hinge-variants",
        "HingeBoost.OC: scaling, SVMs of a round and C",
        (
            Results("hinge-variants", f"{KEY} seed chosen", COLUMNS, fit=fit),
            Results("hinge-variants-choice", f"{KEY} fold", COLUMNS, fit=fit),
        ),
        plan=plan,
        text=text,
        sets=tuple(data for data, _ in CELLS),
        methods=tuple(METHODS),
        values=values,
        pages={"": page},
    ),
)
