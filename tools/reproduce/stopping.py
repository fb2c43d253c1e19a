"""Choice of how many rows early stopping sets aside, on training parts alone."""

import pandas as pd
from shared import classifiers
from shared.datasets import DATA, coded, load_for_trees, sets_by_cost, stratified_rows
from shared.tables import markdown_table

from reproduce.experiment import Experiment, Results, cross
from reproduce.quality import fit_and_measure, geometric
from reproduce.rounds import MOST_WORK, TOO_SMALL

# Fixed before the first run: the sets of rounds-found, but for sparse text and the largest. Three quarters of a
# training part are trained on, a quarter is tested on.
SETS = tuple(
    name
    for name in sets_by_cost()
    if DATA[name].cost <= MOST_WORK and not DATA[name].sparse and name not in (*TOO_SMALL, "covtype")
)
SEEDS = 3
SHARE = 0.1
# Most rows set aside. Fewer than 600 give no temperature, which is then that of folds.
RULES = {
    "a tenth": None,
    "a tenth, at most 1,000": 1000,
    "a tenth, at most 600": 600,
    "a tenth, at most 500": 500,
    "a tenth, at most 300": 300,
}
FIRST = next(iter(RULES))


def parts_of(data, seed):
    """Three quarters of a training part, and the last quarter."""
    X, y, _, _ = load_for_trees(data)
    train, held = stratified_rows(y, seed)
    return coded((X[train], y[train], X[held], y[held]))


def fit_rule(unit):
    """Early stopping with one rule."""
    X, y, X_held, truth = parts_of(unit["data"], unit["seed"])
    most = RULES[unit["share"]]
    share = SHARE if most is None else min(SHARE, most / len(y))
    model = classifiers.make("vector", early_stopping=True, validation_fraction=share, random_state=unit["seed"])
    row = fit_and_measure(unit, model, (X, y, X_held[truth >= 0], truth[truth >= 0]))
    return {**row, "rounds": model.n_estimators_}


def is_another(unit):
    """Whether the rule is another than a tenth for this set."""
    most = RULES[unit["share"]]
    return most is None or 0.75 * len(load_for_trees(unit["data"])[1]) > most / SHARE


def plan(options, journal):
    units = cross(data=options.sets or SETS, seed=range(SEEDS), share=options.methods or RULES)
    yield 0, [unit for unit in units if is_another(unit)], "validation-rows"


def ratios_of(frame, column="log_loss"):
    """Means over the seeds, and the other rules as multiples of the first one; 1 where a rule is a tenth."""
    wide = frame.pivot_table(index=["data", "seed"], columns="share", values=column)
    first = wide[FIRST].dropna().groupby("data").mean()
    found = {FIRST: 1.0}
    for name in list(RULES)[1:]:
        if name in wide:
            both = wide[[FIRST, name]].dropna().groupby("data").sum()
            found[name] = both[name] / both[FIRST]
    return first, pd.DataFrame(found, index=first.index).fillna(1.0)


def text_of(frame):
    """Log loss over that of a tenth of the rows, set by set."""
    if FIRST not in set(frame["share"]):
        return "No results yet."
    first, ratios = ratios_of(frame)
    seeds, rows = (frame.groupby("data")[column] for column in ("seed", "n_train"))
    seeds, rows, lines = seeds.nunique(), rows.first(), []
    for data in sets_by_cost(list(ratios.index)):
        cells = [f"{ratio:.3f}" for ratio in ratios.loc[data].iloc[1:]]
        lines.append([data, rows[data], seeds[data], f"{first[data]:.4f}", *cells])
    names = list(ratios)[1:]
    lines.append(["geometric mean", "", "", "", *(f"{geometric(ratios[name]):.3f}" for name in names)])
    times = ratios_of(frame, "cpu")[1]
    lines.append(["of CPU seconds", "", "", "", *(f"{geometric(times[name]):.3f}" for name in names)])
    return (
        f"Early stopping of vector trees on three quarters of training parts, at most {SEEDS} seeds; log loss on the "
        "last quarter, and how many times that it is with other rules.\n\n"
        + markdown_table(["set", "rows", "seeds", FIRST, *names], lines)
    )


RESULTS = Results("validation-rows", "data seed share", "log_loss error rounds n_train cpu", fit_rule)
EXPERIMENTS = (
    Experiment(
        "validation-rows", "Rows that early stopping sets aside", (RESULTS,), plan, text_of, sets=SETS,
        methods=tuple(RULES),
    ),
)  # fmt: skip
