"""Choice of how many rows early stopping sets aside, on training parts alone."""

import time

from shared import classifiers
from shared.datasets import coded, load_for_trees, sets_by_cost, stratified_rows
from shared.tables import markdown_table

from reproduce.experiment import Experiment, Results, cross
from reproduce.quality import geometric, measures_of

# Fixed before the first run: sets with more than 10,000 rows in three quarters of the training part, but for the
# largest; a quarter is tested on. Shares are functions of the number of rows trained on.
SETS = ("krkopt", "letter", "shuttle", "poker")
SEEDS = 3
SHARES = {
    "a tenth": lambda n: 0.1,
    "a tenth, at most 1,000": lambda n: min(0.1, 1000 / n),
}
FIRST = next(iter(SHARES))


def fit_share(unit):
    """Early stopping with one share, on three quarters of a training part."""
    X, y, _, _ = load_for_trees(unit["data"])
    train, held = stratified_rows(y, unit["seed"])
    X, y, X_held, truth = coded((X[train], y[train], X[held], y[held]))
    begin, cpu = time.perf_counter(), time.process_time()
    model = classifiers.make(
        "vector", early_stopping=True, validation_fraction=SHARES[unit["share"]](len(y)), random_state=unit["seed"]
    ).fit(X, y)
    cpu = time.process_time() - cpu
    found = measures_of(model.predict_proba(X_held[truth >= 0]), truth[truth >= 0])
    row = {name: found[name] for name in ("log_loss", "error")} | {"n_train": len(y), "rounds": model.n_estimators_}
    return {**unit, **row, "cpu": round(cpu, 4), "seconds": round(time.perf_counter() - begin, 3)}


def plan(options, journal):
    sets, shares = sets_by_cost(options.sets or SETS), options.methods or SHARES
    yield 0, cross(data=sets, seed=range(SEEDS), share=shares), "validation-rows"


def text_of(frame):
    """Log loss over that of a tenth of the rows, set by set."""
    if frame.empty:
        return "No results yet."
    wide = frame.pivot_table(index=["data", "seed"], columns="share", values="log_loss")
    names = [name for name in SHARES if name in wide]
    means = wide[names].dropna().groupby("data")
    if FIRST not in names or not len(means):
        return "No results yet."
    seeds, means = means.size(), means.mean()
    ratios = means.div(means[FIRST], axis=0)
    rows, lines = frame.groupby("data")["n_train"].first(), []
    for data in sets_by_cost(list(means.index)):
        cells = [f"{ratio:.3f}" for ratio in ratios.loc[data][names[1:]]]
        lines.append([data, rows[data], seeds[data], f"{means[FIRST][data]:.4f}", *cells])
    lines.append(["geometric mean", "", "", "", *(f"{geometric(ratios[name]):.3f}" for name in names[1:])])
    return (
        f"Early stopping of vector trees on three quarters of training parts, at most {SEEDS} seeds; log loss on the "
        "last quarter, and how many times that it is with other shares set aside.\n\n"
        + markdown_table(["set", "rows", "seeds", FIRST, *names[1:]], lines)
    )


RESULTS = Results("validation-rows", "data seed share", "log_loss error rounds n_train cpu", fit_share)
EXPERIMENTS = (
    Experiment(
        "validation-rows", "Rows that early stopping sets aside", (RESULTS,), plan, text_of, sets=SETS,
        methods=tuple(SHARES),
    ),
)  # fmt: skip
