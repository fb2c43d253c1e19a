"""Choice of defaults of vector trees where there are many rows, on folds of training parts."""

import pandas as pd
from shared.datasets import DATA, sets_by_cost
from shared.tables import markdown_table

from reproduce.drawn import FOLDS, MEASURES, MOST_ROWS, PARAMS, features, fit_on_fold
from reproduce.experiment import Experiment, Results, cross, select
from reproduce.quality import geometric

# Fixed before the first run: sets with 10,000 rows or more to train on in a fold, but for sparse text.
SETS = ("letter", "krkopt", "poker", "shuttle", "covtype", "mnist")
NOW = {**PARAMS, "subsample": 0.7, "max_features": features(3)}
CANDIDATES = {
    "now": {},
    "a tenth": {"max_features": features(3, 0.1)},
    "7 columns": {"split_columns": 7},
    "400 rounds": {"n_estimators": 400},
}


def fit_fold(unit):
    """One fold of one candidate."""
    return fit_on_fold(unit, {**NOW, **CANDIDATES[unit["candidate"]]})


def is_now(data, candidate):
    """Whether this candidate changes nothing for this set."""
    d, changed = DATA[data].n_features, {**NOW, **CANDIDATES[candidate]}
    first, second = ([one(d) if callable(one) else one for one in params.values()] for params in (NOW, changed))
    return first == second


def plan(options, journal):
    sets, names = sets_by_cost(options.sets or SETS), options.methods or CANDIDATES
    units = cross(data=sets, fold=range(FOLDS), candidate=names)
    units = [one for one in units if one["candidate"] == "now" or not is_now(one["data"], one["candidate"])]
    yield 0, units, "many-rows"


def text_of(frame):
    """Means over the folds, by candidate and set; of those that have all folds."""
    frame = frame.groupby(["candidate", "data"]).filter(lambda part: len(part) == FOLDS)
    if frame.empty:
        return "No results yet."
    names = [name for name in CANDIDATES if name in set(frame["candidate"])]
    now = select(frame, candidate="now")
    same = [now[[is_now(data, name) for data in now["data"]]].assign(candidate=name) for name in names[1:]]
    means = pd.concat([frame, *same]).groupby(["data", "candidate"])[[*MEASURES]].mean().unstack("candidate")
    whole = means[means["error"][names].notna().all(axis=1)]
    sets, lines = [name for name in SETS if name in whole.index], []
    for name in names:
        mine = {what: whole[what][name].loc[sets] for what in MEASURES}
        cells = [f"{mine['log_loss'][data]:.4f} / {mine['error'][data]:.2f}" for data in sets]
        means_of = f"{geometric(mine['log_loss']):.4f}", f"{mine['error'].mean():.2f}", f"{geometric(mine['cpu']):.2f}"
        lines.append([name, *cells, *means_of])
    return (
        f"{FOLDS} folds of the training parts, at most {MOST_ROWS:,} rows of each. Log loss at the temperature that is "
        "best for the held rows / error in percent, of the sets that have all candidates; the last three columns are "
        "means, geometric but for the error. Each candidate changes what it names.\n\n"
        + markdown_table(["candidate", *sets, "log loss", "error %", "CPU seconds"], lines)
    )


RESULTS = Results("many-rows", "data candidate fold", " ".join([*MEASURES, "n_train"]), fit_fold)
EXPERIMENTS = (
    Experiment(
        "many-rows", "Defaults with many rows", (RESULTS,), plan, text_of, sets=SETS, methods=tuple(CANDIDATES),
    ),
)  # fmt: skip
