"""Which few columns of many classes splits are found on: four kinds, on folds of training parts."""

from shared.datasets import fold_of
from shared.internals import split_directions
from shared.tables import markdown_table

import pymcboost
from reproduce.columns import FOLDS, PARAMS, parts_of
from reproduce.experiment import Experiment, Results, cross, select
from reproduce.quality import fit_and_measure, geometric

# Fixed before the first run: the cheapest first.
SETS = ("leaf", "mfeat", "letter", "generated-355")
KINDS = {
    "all": "all classes",
    "signs": "random signed sums",
    "largest": "classes of the largest norm",
    "sampled": "classes drawn by norm",
    "leading": "leading directions",
}
COLUMNS = {"auto": "auto", "5": 5}
MEASURES = "log_loss", "error", "cpu"


def fit_fold(unit):
    """One fold of a training part."""
    X, y, _, _ = parts_of(unit["data"], 0)
    columns = None if unit["kind"] == "all" else COLUMNS[str(unit["columns"])]
    model = pymcboost.VectorTreeBoostClassifier(**PARAMS, split_columns=columns, random_state=unit["fold"])
    with split_directions(unit["kind"]):
        return fit_and_measure(unit, model, fold_of(X, y, unit["fold"], FOLDS))


def plan(options, journal):
    for data in options.sets or SETS:
        few = [kind for kind in KINDS if kind != "all"]
        units = cross(data=[data], kind=["all"], columns=["auto"], fold=range(FOLDS))
        yield 0, units + cross(data=[data], kind=few, columns=COLUMNS, fold=range(FOLDS)), "split-kinds"


def text_of(frame):
    """Means over the folds, and over the sets."""
    lines, means = [], frame.groupby(["data", "columns", "kind"])[[*MEASURES]].mean().reset_index()
    whole = select(means, kind="all").set_index("data")
    for columns in COLUMNS:
        for kind in KINDS:
            mine = select(means, kind=kind, columns="auto" if kind == "all" else columns).set_index("data")
            sets = [data for data in SETS if data in mine.index]
            cells = [f"{mine.log_loss[data]:.4f} / {mine.error[data]:.2f}" for data in sets]
            ratio = geometric(mine.log_loss[sets] / whole.log_loss[sets]) if sets else float("nan")
            lines.append([columns, KINDS[kind], *cells, f"{ratio:.3f}"])
    sets = [data for data in SETS if data in set(frame["data"])]
    head = ["columns", "kind", *(f"{data}: log loss / error %" for data in sets), "log loss by that of all classes"]
    return (
        f"{FOLDS} folds of the training parts, {PARAMS['n_estimators']} rounds, without temperature. The last column "
        f"is the geometric mean over the sets.\n\n{markdown_table(head, lines)}"
    )


RESULTS = Results("split-kinds", "data kind columns fold", " ".join(MEASURES), fit_fold, "columns")
EXPERIMENTS = (Experiment("split-kinds", "Kinds of columns for splits", (RESULTS,), plan, text_of, sets=SETS),)
