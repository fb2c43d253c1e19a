"""Our vector-leaf trees beside LightGBM on all data sets, and the choice of their defaults."""

import itertools
import json
import sys

import numpy as np
from shared import peers, ranks
from shared.datasets import DATA, coded, fixed_split, fold_of, load_for_trees, sets_by_cost
from shared.measure import error_percent
from shared.tables import markdown_table, spread

from reproduce.experiment import Experiment, Results, cross, fit_and_test, select

ROUNDS = 200
# Method of the journal to method of `peers` and its parameters.
METHODS = {
    "vector": ("vector", {}),
    "lightgbm": ("lightgbm", {}),
    "lightgbm-sampled": ("lightgbm", peers.LIGHTGBM_SAMPLED),
}
# Columns of the table: name to (method, column of the journal).
COLUMNS = {
    "vector, {full} trees": ("vector", "error"),
    "LightGBM, {half} rounds": ("lightgbm", "error_half"),
    "LightGBM, {full} rounds": ("lightgbm", "error"),
    "sampled, {half} rounds": ("lightgbm-sampled", "error_half"),
    "sampled, {full} rounds": ("lightgbm-sampled", "error"),
}


def shown_rounds(frame):
    """Rows of the table's 200 rounds, or of the most there are where nobody has as many; and the heads of columns."""
    rounds = ROUNDS if (frame["rounds"] == ROUNDS).any() else frame["rounds"].max()
    return select(frame, rounds=rounds), [name.format(full=rounds, half=rounds // 2) for name in COLUMNS]


def spec_of(method, rounds, seed):
    """What is fitted: our defaults, LightGBM with 20 leaves and else its defaults, and the same with sampling."""
    library, more = METHODS[method]
    if library == "vector":
        return peers.vector_spec(rounds, seed=seed)
    return peers.Spec(library, rounds, seed=seed, more=more)


def vector_units(sets, seeds, rounds=ROUNDS, methods=tuple(METHODS)):
    """All (set, seed, method), cheap sets first; only seed 0 where the split is given and the method draws nothing."""
    units = cross(data=sets, seed=range(seeds), method=methods, rounds=[rounds])
    return [u for u in units if u["seed"] == 0 or u["method"] != "lightgbm" or not fixed_split(u["data"])]


def fit_vector(unit):
    """Fit one unit: the error after half of the rounds and after all."""
    parts = coded(load_for_trees(unit["data"], unit["seed"]))
    row, model = fit_and_test(unit, spec_of(unit["method"], unit["rounds"], unit["seed"]), parts)
    error_half = error_percent(parts[3], model.predict(parts[2], unit["rounds"] // 2))
    split = "given" if fixed_split(unit["data"]) else "stratified 75:25"
    return {**row, "split": split, "error_half": round(error_half, 4), "trees": model.trees}


def vector_cells(frame):
    """Errors over the seeds: {set: one array for each column}, the cheapest set first."""
    return {
        data: [select(frame, data=data, method=method)[column].to_numpy() for method, column in COLUMNS.values()]
        for data in sets_by_cost(sorted(set(frame["data"])))
    }


def vector_means(frame):
    """Sets that have every column, and their mean errors: (names, array of sets by columns)."""
    whole = {data: cells for data, cells in vector_cells(frame).items() if all(map(len, cells))}
    return list(whole), np.array([[cell.mean() for cell in cells] for cells in whole.values()])


def vector_text(frame):
    """The table and the test of ranks in Markdown."""
    frame, heads = shown_rounds(frame)
    lines = []
    for data, cells in vector_cells(frame).items():
        low = min(cell.mean() for cell in cells if len(cell))
        words = [f"**{spread(cell)}**" if len(cell) and cell.mean() == low else spread(cell) for cell in cells]
        lines.append([data, select(frame, data=data)["split"].iloc[0], max(map(len, cells)), *words])
    text = markdown_table(["data", "split", "seeds", *heads], lines)
    names, means = vector_means(frame)
    if len(names) >= 2:
        ranking = ranks.rank(heads, means)
        line = ["mean rank", *(f"{mean:.2f}" for mean in ranking.mean_ranks)]
        text += "\n\n" + markdown_table(["", *heads], [line])
        text += f"\n\n{ranks.describe(ranking, 'critical difference of mean ranks')}."
    return "Test error in percent, mean (standard deviation) over the seeds; the lowest mean in bold.\n\n" + text


def plot_vector(path, frame):
    frame, heads = shown_rounds(frame)
    names, means = vector_means(frame)
    if len(names) >= 2:
        ranks.plot(ranks.rank(heads, means), path)


def vector_plan(options, journal):
    wanted = options.methods or list(METHODS)
    _, absent = peers.available({METHODS[method][0] for method in wanted})
    for method in wanted:
        if METHODS[method][0] in absent:
            print(f"vector-trees: {method} skipped, {absent[METHODS[method][0]]} is absent", file=sys.stderr)
    methods = [method for method in wanted if METHODS[method][0] not in absent]
    yield 0, vector_units(sets_by_cost(options.sets), options.seeds, options.rounds or ROUNDS, methods), "vector-trees"


def weigh_vector(row):
    return ["vector", "lightgbm-sampled", "lightgbm"].index(row["method"]), DATA[row["data"]].cost, int(row["seed"])


# --------------------------------------------------------------------------------------------------------------------
# Defaults of the vector-leaf trees: cross-validation on training parts only

DEFAULTS_SETS = (
    "svmguide4", "vowel", "yeast", "car", "dna", "waveform", "optdigits", "satimage", "pendigits", "letter",
)  # fmt: skip
FOLDS = 5
# Settings are all combinations of the first three, with the first loss and leaf step; then every other loss and leaf
# step around the middle of these.
GRID = {
    "max_leaf_nodes": (30, 60, 100, 150),
    "max_features": (0.2, 0.4, 0.7, 1.0),
    "learning_rate": (0.05, 0.1, 0.2),
}
MIDDLE = {"max_leaf_nodes": 100, "max_features": 0.4, "learning_rate": 0.1}
AROUND = {"loss": ("exp", "log"), "leaf_step": ("full",)}


def default_settings():
    """List the settings as dictionaries."""
    settings = [dict(zip(GRID, values, strict=True)) for values in itertools.product(*GRID.values())]
    return settings + [{**MIDDLE, name: value} for name, values in AROUND.items() for value in values]


def fit_defaults(unit):
    """One fold of one setting."""
    X, y, _, _ = load_for_trees(unit["data"])
    spec = peers.vector_spec(unit["rounds"], seed=unit["fold"], more=json.loads(unit["setting"]))
    return fit_and_test(unit, spec, fold_of(X, y, unit["fold"], FOLDS))[0]


def defaults_plan(options, journal):
    sets, rounds = sets_by_cost(options.sets or DEFAULTS_SETS), [options.rounds or ROUNDS]
    settings = [json.dumps(setting, sort_keys=True) for setting in default_settings()]
    yield 0, cross(data=sets, fold=range(FOLDS), setting=settings, rounds=rounds), "vector-defaults"


def defaults_text(frame, best=15):
    """Settings by their mean rank over the sets that have all of them."""
    cells = frame.groupby(["data", "setting"])["error"].agg(mean=lambda e: np.mean(e.to_numpy()), count="size")
    cells = cells.unstack("setting")
    complete = cells["mean"][(cells["count"] == FOLDS).all(axis=1)]
    if complete.shape[0] < 2 or complete.shape[1] < 2:
        return "Not enough results for a table: two sets with all folds of all settings are needed."
    sets, settings = sets_by_cost(list(complete.index)), list(complete.columns)
    means = complete.loc[sets].to_numpy()
    ranking = ranks.rank(settings, means)
    relative = (means / np.maximum(means.min(axis=1, keepdims=True), 1e-9)).mean(axis=0)
    lines = []
    for j in np.lexsort((relative, ranking.mean_ranks))[:best]:
        words = ", ".join(f"{name}={value}" for name, value in json.loads(settings[j]).items())
        errors = (f"{value:.2f}" for value in means[:, j])
        lines.append([words, f"{ranking.mean_ranks[j]:.1f}", f"{relative[j]:.3f}", *errors])
    return (
        f"{FOLDS}-fold cross-validation on the training parts; {len(settings)} settings, the best {best} by "
        "mean rank; relative: error divided by the lowest on the set, mean over the sets.\n\n"
        + markdown_table(["setting", "mean rank", "relative", *sets], lines)
    )


def weigh_defaults(row):
    return DATA[row["data"]].cost, row["setting"], int(row["fold"])


VECTOR = Results("vector-trees", "data method seed rounds", "n_train n_test split error_half error trees", fit_vector)
DEFAULTS = Results("vector-defaults", "data setting fold rounds", "error n_train n_test", fit_defaults)
EXPERIMENTS = (
    Experiment(
        "vector-trees", "Vector-leaf trees on all sets", (VECTOR,), vector_plan, vector_text, plot_vector, weigh_vector,
        stamp="", sets=tuple(DATA), methods=tuple(METHODS),
    ),
    Experiment(
        "vector-defaults", "Defaults of the vector-leaf trees", (DEFAULTS,), defaults_plan, defaults_text,
        weigh=weigh_defaults, stamp="", sets=tuple(DATA),
    ),
)  # fmt: skip
