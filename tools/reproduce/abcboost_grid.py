"""Li's Table 2: Mnist10k over a grid of leaves and learning rates.

P. Li, Fast ABC-Boost for multi-class classification. The paper trains every cell to the machine accuracy of the loss.
Here all cells have 200 rounds, and some are trained to the end.
"""

from functools import partial

from shared.datasets import coded
from shared.peers import Spec
from shared.tables import markdown_table, published, span

from reproduce.abcboost import curve_of, curve_of_training, least_rows, mnist10k
from reproduce.experiment import Experiment, Results, cross

PUBLISHED = published("mnist10k-grid", index=2)
METHODS = "mart", "abc-mart", "logitboost", "abc-logitboost"
RATES = 0.04, 0.06, 0.08, 0.1
# A part of the paper's 13 numbers of leaves.
LEAVES = 4, 8, 12, 16, 20
ROUNDS = 200
GAP = 10
# The corners and the middle, which come first.
COARSE_LEAVES = (4, 12, 20)
COARSE_RATES = (0.04, 0.1)
# What is trained to the end: most rounds, and (leaves, learning rate).
MOST_ROUNDS = 3000
TO_THE_END = (10, 0.1), (20, 0.04), (30, 0.1), (6, 0.1), (16, 0.1), (20, 0.06)
TO_THE_END_METHODS = "logitboost", "abc-logitboost"
# (better, worse) as the paper claims: its (A) to (D).
CLAIMS = (
    ("abc-logitboost", "logitboost"),
    ("abc-logitboost", "abc-mart"),
    ("logitboost", "mart"),
    ("abc-mart", "mart"),
)


def gap_of(method):
    """Gap of a method, 0 where it has none."""
    return GAP if method.startswith("abc-") else 0


def specification(unit):
    """What is fitted."""
    more = {"min_samples_leaf": least_rows(unit["method"])}
    if unit["gap"]:
        more["gap"] = int(unit["gap"])
    return Spec(
        unit["method"],
        int(unit["rounds"]),
        int(unit["leaves"]),
        learning_rate=float(unit["rate"]),
        more=more,
    )


def fit(data, unit):
    """One training; its curve holds "rounds:wrong test rows"."""
    return {**unit, **curve_of_training(specification(unit), coded(data()))}


def plan(options, journal):
    """A coarse grid, the rest of it, and what is trained to the end."""
    methods, rounds = options.methods or METHODS, options.rounds or ROUNDS
    grid = cross(leaves=LEAVES, rate=RATES, method=methods, rounds=[rounds])
    coarse = [
        unit for unit in grid if unit["leaves"] in COARSE_LEAVES and unit["rate"] in COARSE_RATES
    ]
    end = [
        {"leaves": leaves, "rate": rate, "method": method, "rounds": MOST_ROUNDS}
        for leaves, rate in TO_THE_END
        for method in TO_THE_END_METHODS
        if method in methods
    ]
    for title, units in (
        ("mnist10k-grid, coarse", coarse),
        ("mnist10k-grid", grid),
        ("mnist10k-grid, to the end", end),
    ):
        yield 0, [{**unit, "gap": gap_of(unit["method"])} for unit in units], title


def wrong_by_cell(frame, rounds):
    """{(leaves, rate, method): (wrong test rows at the end, rounds fitted)} of the trainings with so many rounds."""
    errors_of_cell = {}
    for row in frame[frame["rounds"] == rounds].to_dict("records"):
        curve = curve_of(row)
        errors_of_cell[row["leaves"], row["rate"], row["method"]] = (
            curve[max(curve)],
            row["rounds_fitted"],
        )
    return errors_of_cell


def printed(leaves, rate, method):
    """The paper's count of wrong test rows."""
    return PUBLISHED[str(leaves), f"{rate:g}"][method]


def claims(wrong):
    """{(better, worse): (cells where it is so, cells)} of counts by (leaves, rate, method)."""
    counts = {}
    for better, worse in CLAIMS:
        cells = [
            wrong[leaves, rate, better] < wrong[leaves, rate, worse]
            for leaves, rate, method in wrong
            if method == better and (leaves, rate, worse) in wrong
        ]
        if cells:
            counts[better, worse] = sum(cells), len(cells)
    return counts


def text(frame):
    """The grid after 200 rounds, and what was trained to the end beside the paper's."""
    grid = wrong_by_cell(frame, ROUNDS)
    parts = []
    for plain in ("mart", "logitboost"):
        parts.append(f"{plain} / abc-{plain}:\n\n{grid_table(frame, plain)}")
    claimed = claims({cell: wrong for cell, (wrong, _) in grid.items()})
    words = "; ".join(
        f"{better} below {worse} in {good} of {cells}"
        for (better, worse), (good, cells) in claimed.items()
    )
    texts = [
        f"Wrong test rows after {ROUNDS} rounds, gap {GAP}. The paper trains to machine accuracy, so its counts are "
        "lower.",
        *parts,
        f"{words}.",
    ]
    if (frame["rounds"] == MOST_ROUNDS).any():
        texts.append(f"Trained to the end, gap {GAP}:\n\n{end_table(frame)}")
    return "\n\n".join(texts)


def grid_table(frame, plain):
    """Wrong rows of a method and of its abc form, J by nu, of the cells that there are."""
    grid = wrong_by_cell(frame, ROUNDS)
    pair = plain, f"abc-{plain}"
    there = [(leaves, rate) for leaves, rate, method in grid if method in pair]
    rates = sorted({rate for _, rate in there})
    lines = []
    for leaves in sorted({leaves for leaves, _ in there}):
        cells = [[grid.get((leaves, rate, method)) for method in pair] for rate in rates]
        shown = [[f"{one[0]:,}" if one else "-" for one in cell] for cell in cells]
        lines.append([leaves, *(" / ".join(cell) for cell in shown)])
    return markdown_table(["J", *(f"nu = {rate:g}" for rate in rates)], lines)


def end_table(frame):
    """What was trained to the end, beside the paper's counts."""
    lines = [
        [
            leaves,
            f"{rate:g}",
            method,
            f"{printed(leaves, rate, method):,}",
            f"{wrong:,}",
            f"{rounds:,}",
            f"{wrong / printed(leaves, rate, method) - 1:+.1%}",
        ]
        for (leaves, rate, method), (wrong, rounds) in sorted(
            wrong_by_cell(frame, MOST_ROUNDS).items()
        )
    ]
    return markdown_table(["J", "nu", "method", "paper", "ours", "rounds", "distance"], lines)


def values(frame):
    """What sentences say about the grid."""
    grid = {cell: wrong for cell, (wrong, _) in wrong_by_cell(frame, ROUNDS).items()}
    end = {cell: wrong for cell, (wrong, _) in wrong_by_cell(frame, MOST_ROUNDS).items()}
    texts = {}
    for (better, worse), (good, cells) in claims(grid).items():
        texts[f"{better}-{worse}"] = f"{good} of {cells}"
    for name, cells in (("grid", grid), ("end", end)):
        for method in METHODS:
            of_method = [wrong for (_, _, m), wrong in cells.items() if m == method]
            if of_method:
                texts[f"{name}-{method}"] = span(of_method, "{:,}")
    if end:
        distances = [100 * (wrong / printed(*cell) - 1) for cell, wrong in end.items()]
        texts["distance"] = span(distances, "{:+.1f}")
        texts["within"] = f"{sum(abs(distance) <= 3 for distance in distances)} of {len(distances)}"
    return texts


RESULTS = Results(
    "mnist10k-grid",
    "leaves rate method gap rounds",
    "rounds_fitted n_train n_test curve",
    fit=partial(fit, mnist10k),
    as_text="curve",
)
EXPERIMENTS = (
    Experiment(
        "mnist10k-grid",
        "Mnist10k over J and nu (Table 2 of Li)",
        (RESULTS,),
        plan=plan,
        text=text,
        methods=METHODS,
        values=values,
        pages={
            "": partial(grid_table, plain="logitboost"),
            "mart": partial(grid_table, plain="mart"),
            "end": end_table,
        },
    ),
)
