"""Sets of 1,000 rows or more on which another library has the lower log loss: what would reach it, on folds."""

from shared import classifiers
from shared.datasets import fold_of, load_for_trees, sets_by_cost
from shared.tables import markdown_table

from reproduce.experiment import Experiment, Results, cross
from reproduce.quality import fit_and_measure, geometric, present

# Fixed before the first run.
SETS = ("car", "pendigits", "shuttle", "poker")
FOLDS = 3
CANDIDATES = {
    "defaults": ("vector", {}),
    "600 rounds": ("vector", {"n_estimators": 600}),
    "auto": ("vector", {"n_estimators": "auto"}),
    "all features": ("vector", {"max_features": 1.0}),
    "all features, all rows": ("vector", {"max_features": 1.0, "subsample": 1.0}),
    "all features, all rows, 600 rounds": (
        "vector", {"max_features": 1.0, "subsample": 1.0, "n_estimators": 600},
    ),
    "all classes": ("vector", {"split_columns": None}),
    "any gain": ("vector", {"min_relative_gain": 0.0}),
    "categories": ("vector", {"categorical_features": list(range(6))}),
    "logitboost": ("logitboost", {}),
    "logitboost, all features, all rows": ("logitboost", {"max_features": 1.0, "subsample": 1.0}),
    "histogram": ("histogram", {}),
    "xgboost": ("xgboost", {}),
    "xgboost-vector": ("xgboost-vector", {}),
    "catboost": ("catboost", {}),
}  # fmt: skip
# Sets whose columns are categories.
CATEGORIES = ("car",)
MEASURES = ("log_loss", "error", "cpu")


def fit_fold(unit):
    """One fold of one candidate."""
    X, y, _, _ = load_for_trees(unit["data"])
    method, params = CANDIDATES[unit["candidate"]]
    return fit_and_measure(unit, classifiers.make(method, **params), fold_of(X, y, unit["fold"], FOLDS))


def plan(options, journal):
    names = options.methods or CANDIDATES
    there = present({CANDIDATES[name][0] for name in names})
    units = cross(data=sets_by_cost(options.sets or SETS), fold=range(FOLDS), candidate=names)
    units = [unit for unit in units if CANDIDATES[unit["candidate"]][0] in there]
    yield 0, [one for one in units if one["candidate"] != "categories" or one["data"] in CATEGORIES], "exceptions"


def text_of(frame):
    """Means over the folds, by candidate and set; of those that have all folds."""
    frame = frame.groupby(["candidate", "data"]).filter(lambda part: len(part) == FOLDS)
    if frame.empty:
        return "No results yet."
    means, lines = frame.groupby(["candidate", "data"])[[*MEASURES]].mean(), []
    sets = [data for data in SETS if data in set(frame["data"])]
    for name in [name for name in CANDIDATES if name in set(frame["candidate"])]:
        mine = means.loc[name]
        cells = [
            f"{mine['log_loss'][data]:.4f} / {mine['error'][data]:.2f}" if data in mine.index else "-" for data in sets
        ]
        seconds = f"{geometric(mine['cpu']):.2f}" if len(mine) == len(sets) else "-"
        lines.append([name, *cells, seconds])
    return (
        f"{FOLDS} folds of the training parts: log loss / error in percent, and the geometric mean of CPU seconds. The "
        "first candidates are vector trees that differ from the defaults in what is named.\n\n"
        + markdown_table(["candidate", *sets, "CPU seconds"], lines)
    )


RESULTS = Results("exceptions", "data candidate fold", " ".join([*MEASURES, "n_train"]), fit_fold)
EXPERIMENTS = (
    Experiment(
        "exceptions", "Where other libraries have the lower log loss", (RESULTS,), plan, text_of, sets=SETS,
        methods=tuple(CANDIDATES),
    ),
)  # fmt: skip
