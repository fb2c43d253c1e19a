"""MultiBoost-cw's Figures 1 and 2: test error against rounds, and against weak learners.

G. Lin, C. Shen, A. van den Hengel and D. Suter, Fast training of effective multi-class boosting using coordinate
descent optimization.
"""

import itertools
import time
from dataclasses import dataclass

import numpy as np
from shared import datasets
from shared.datasets import coded
from shared.internals import fit_with_validation
from shared.measure import error_percent
from shared.tables import markdown_table, picture, span, spread

from reproduce.experiment import Experiment, Results, cross, select

SETS = ("vowel", "usps", "pendigits", "mnist")
REPEATS = 5
GRID = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000)
SHOWN_ROUNDS = (10, 50, 100, 200)
EQUAL_LEARNERS = 500
SHOWN_LEARNERS = (100, 200, 500, 1000, 2000)
CHOICE_C = (1e2, 1e4, 1e6, 1e8)
CHOICE_ROUNDS = 200
STAGEWISE_C = 1e8
MNIST_PER_CLASS = 1000


@dataclass(frozen=True)
class Method:
    """A method of the curves: its class and parameters; ``chosen``: C is chosen on the training part."""

    algorithm: str
    rounds: int
    chosen: bool = False
    C: float | None = None
    parameters: tuple = ()

    def make(self, rounds, C=None):
        options = {} if C is None else {"C": C}
        return estimator(self.algorithm, n_estimators=rounds, **options, **dict(self.parameters))


# Methods with one learner a round go on until they have as many learners as the others.
METHODS = {
    "multiboost-cw": Method("MultiBoostCW", 200, chosen=True),
    "multiboost-cw-1": Method("MultiBoostCW", 200, C=STAGEWISE_C, parameters=(("max_passes", 1),)),
    "multiboost": Method("MultiBoost", 1000, chosen=True),
    "mcboost-exp": Method("MCBoost", 2000, parameters=(("loss", "exp"),)),
    "adaboost-mh": Method("AdaBoostMH", 2000),
    "adaboost-ecc": Method("AdaBoostECC", 2000),
    "samme": Method("SAMME", 2000),
    "adaboost-mo": Method("AdaBoostMO", 200, parameters=(("code", "exhaustive"),)),
}
# Its rounds are compared with those of MultiBoost-cw separately, as in the paper: each has a learner for every column.
CODED = "adaboost-mo"


def estimator(name, **parameters):
    """New estimator of a class, with one thread and a fixed seed."""
    import pymcboost

    return getattr(pymcboost, f"{name}Classifier")(**{"n_jobs": 1, "random_state": 0, **parameters})


def curve_split(name, repeat):
    """Split of one repeat: 75:25 at random of all rows; of MNIST 1,000 training images of each digit, its test part."""
    generator = np.random.default_rng([repeat, *name.encode()])
    if name != "mnist":
        return datasets.random_split(*datasets.load_pooled(name), generator)
    X, y, X_test, y_test = datasets.load(name)
    rows = datasets.random_rows(y, generator, MNIST_PER_CLASS)
    return X[rows], y[rows], X_test, y_test


def choose_C(method, X, codes, repeat):
    """C with the lowest error on a quarter of the training part, the smallest of equals; and the errors of all."""
    train, held = datasets.stratified_rows(codes, repeat)
    errors = {}
    for C in CHOICE_C:
        model = method.make(min(CHOICE_ROUNDS, method.rounds), C).fit(X[train], codes[train])
        errors[C] = error_percent(codes[held], model.predict(X[held]))
    return min(errors, key=errors.get), errors


def fit_curve(unit):
    """One method on one split; its curve holds "rounds:learners:error" on the grid and at the end."""
    X, codes, X_test, truth = coded(curve_split(unit["data"], unit["repeat"]))
    method = METHODS[unit["method"]]
    begin = time.perf_counter()
    C, errors = (
        choose_C(method, X, codes, repeat=unit["repeat"]) if method.chosen else (method.C, {})
    )
    model = method.make(unit["rounds"], C).set_params(scoring="error")
    seconds = fit_with_validation(model, X, codes, X_test=X_test, truth=truth, rounds=GRID)
    history = model.history_
    last = len(history["val_error"])
    # A history without this column is that of a method with as many learners in every round.
    a_round = model.model_.n_learners // last
    learners = history.get("n_learners", a_round * np.arange(1, last + 1))
    curve = [(t, learners[t - 1], 100 * history["val_error"][t - 1]) for t in GRID if t < last]
    curve.append((last, learners[-1], error_percent(truth, model.predict(X_test))))
    return {
        **unit,
        "C": "-" if C is None else f"{C:.0e}",
        "n_train": len(codes),
        "n_test": len(truth),
        "rounds_fitted": last,
        "learners": int(learners[-1]),
        "error": round(curve[-1][2], 4),
        "curve": " ".join(f"{t}:{count}:{error:.2f}" for t, count, error in curve),
        "choice": " ".join(f"{C:.0e}:{one:.2f}" for C, one in errors.items()),
        "fit_seconds": round(seconds, 3),
        "seconds": round(time.perf_counter() - begin, 3),
    }


def plan(options, journal):
    sets, methods = options.sets or SETS, options.methods or METHODS
    units = cross(repeat=range(options.repeats or REPEATS), data=sets, method=methods)
    units = [{**unit, "rounds": options.rounds or METHODS[unit["method"]].rounds} for unit in units]
    yield 0, units, "multiboost-curves"


# --------------------------------------------------------------------------------------------------------------------
# Reading the curves


def points_of(row):
    """The numbers of a curve, one row for each of its columns."""
    return np.array(
        [[float(word) for word in point.split(":")] for point in row["curve"].split()]
    ).T


def error_at(row, count, column):
    """Error after ``count`` rounds (column 0) or with at most so many learners (column 1); NaN beyond the curve.

    A training that had nothing left to learn keeps its last error.
    """
    points = points_of(row)
    ended = row["rounds_fitted"] < row["rounds"]
    index = np.flatnonzero(points[column] <= count)
    if not len(index) or (
        index[-1] == points.shape[1] - 1 and not ended and points[column, -1] < 0.9 * count
    ):
        return float("nan")
    return float(points[2, index[-1]])


def errors_at(rows, count, column):
    """The errors of several trainings."""
    return [error_at(row, count, column) for row in rows]


def mean_curve(rows, column, counts):
    """Mean error at several counts."""
    return np.array([[error_at(row, count, column) for count in counts] for row in rows]).mean(
        axis=0
    )


def rounds_to(rows, level):
    """Smallest number of rounds of the curve's grid at which the mean error is at most ``level``, or None."""
    grid = [t for t in GRID if t <= max(row["rounds"] for row in rows)]
    hits = [t for t, error in zip(grid, mean_curve(rows, 0, grid), strict=True) if error <= level]
    return hits[0] if hits else None


def seconds_a_round(rows):
    """Mean CPU seconds of a round."""
    return np.mean([row["fit_seconds"] / row["rounds_fitted"] for row in rows])


def rows_by(frame):
    """Rows of (data, method), in the order of the tables."""
    rows_of_cell = {}
    for data, method in itertools.product(SETS, METHODS):
        mine = select(frame, data=data, method=method).to_dict("records")
        if mine:
            rows_of_cell[data, method] = mine
    return rows_of_cell


def curve_text(frame):
    """The tables of the curves and what they say about the paper's claims, in Markdown."""
    rows_of_cell = rows_by(frame)
    lines = []
    more = []
    for key, mine in rows_of_cell.items():
        errors = [spread(errors_at(mine, count, 0)) for count in SHOWN_ROUNDS]
        fitted = np.mean([row["rounds_fitted"] for row in mine])
        seconds = seconds_a_round(mine)
        chosen = ", ".join(sorted({row["C"] for row in mine}))
        lines.append([*key, len(mine), *errors, f"{fitted:.0f}", f"{1e3 * seconds:.2f}", chosen])
        errors = [spread(errors_at(mine, count, 1)) for count in SHOWN_LEARNERS]
        learners = np.mean([row["learners"] for row in mine])
        more.append([*key, *errors, spread([row["error"] for row in mine]), f"{learners:.0f}"])
    head = [
        "data",
        "method",
        "splits",
        *(f"{t} rounds" for t in SHOWN_ROUNDS),
        "rounds fitted",
        "CPU ms a round",
        "C",
    ]
    by_rounds = markdown_table(head, lines)
    head = [
        "data",
        "method",
        *(f"{n} learners" for n in SHOWN_LEARNERS),
        "at the end",
        "learners at the end",
    ]
    return (
        "Test error in percent, mean (standard deviation) over the splits; C is what validation chose.\n\n"
        f"{by_rounds}\n\nAt equal numbers of weak learners in the model:\n\n{markdown_table(head, more)}\n\n"
        f"{claims_text(rows_of_cell)}"
    )


def claims_text(rows_of_cell):
    """The paper's claims about convergence, by the numbers."""
    lines = []
    methods = [m for m in METHODS if m in {method for _, method in rows_of_cell}]
    for data in dict.fromkeys(data for data, _ in rows_of_cell):
        of_set = {
            method: rows_of_cell[data, method]
            for method in METHODS
            if (data, method) in rows_of_cell
        }
        if "multiboost" not in of_set:
            continue
        level = float(mean_curve(of_set["multiboost"], 0, [200])[0])
        needed = {method: rounds_to(rows, level) for method, rows in of_set.items()}
        last = {method: np.mean(errors_at(rows, 200, 0)) for method, rows in of_set.items()}
        best = min(last, key=last.get)
        equal = {
            method: float(mean_curve(rows, 1, [EQUAL_LEARNERS])[0])
            for method, rows in of_set.items()
        }
        equal = {method: error for method, error in equal.items() if np.isfinite(error)}
        fewest = min(equal, key=equal.get)
        cw, others = (
            min(
                (
                    t
                    for m, t in needed.items()
                    if t and m != CODED and m.startswith("multiboost-cw") == ours
                ),
                default=None,
            )
            for ours in (True, False)
        )
        lines.append(
            [
                data,
                f"{level:.2f}",
                *(needed.get(m) or "-" for m in methods),
                "true" if cw and others and cw < others else "NOT true",
                f"{best} ({last[best]:.2f})",
                "true" if best.startswith("multiboost-cw") else "NOT true",
                f"{fewest} ({equal[fewest]:.2f})",
            ]
        )
    head = [
        "data",
        "level",
        *methods,
        "class-wise needs fewest rounds" + (f", {CODED} aside" if CODED in methods else ""),
        "lowest at 200 rounds",
        "it is class-wise",
    ]
    return (
        "Rounds to the mean error that MultiBoost has after 200 rounds (the level), the paper's two claims, and the "
        "method with the lowest error at equal numbers of learners:\n\n"
        + markdown_table([*head, f"lowest at {EQUAL_LEARNERS} learners"], lines)
    )


def curve_values(frame):
    """What sentences say about the curves."""
    rows_of_cell = rows_by(frame)
    sets = list(dict.fromkeys(data for data, _ in rows_of_cell))
    needed = []
    fewer = 0
    ahead = 0
    of_shown = 0
    of_codes = {}
    slower = []
    lowest = {count: dict.fromkeys(METHODS, 0) for count in SHOWN_LEARNERS}
    for data in sets:
        level = float(mean_curve(rows_of_cell[data, "multiboost"], 0, [200])[0])
        rounds = {
            method: rounds_to(rows_of_cell[data, method], level) or np.inf
            for method in METHODS
            if (data, method) in rows_of_cell
        }
        of_codes[data] = rounds.pop(CODED, None)
        if of_codes[data]:
            slower.append(
                seconds_a_round(rows_of_cell[data, CODED])
                / seconds_a_round(rows_of_cell[data, "multiboost-cw"])
            )
        needed += [rounds[method] for method in METHODS if method.startswith("multiboost-cw")]
        fewer += max(needed[-2:]) < min(
            count for method, count in rounds.items() if not method.startswith("multiboost-cw")
        )
        for count in SHOWN_LEARNERS:
            errors = {
                method: float(mean_curve(rows_of_cell[data, method], 1, [count])[0])
                for method in rounds
            }
            ahead += errors["mcboost-exp"] < errors["adaboost-mh"]
            of_shown += 1
            there = {method: error for method, error in errors.items() if np.isfinite(error)}
            lowest[count][min(there, key=there.get)] += 1
    at_end = {
        method: np.mean([row["error"] for row in rows])
        for (data, method), rows in rows_of_cell.items()
        if data == "vowel"
    }
    values = {
        f"{method}-at-{count}": f"{by_method[method]} of {len(sets)}"
        for count, by_method in lowest.items()
        for method in ("multiboost", "mcboost-exp")
    }
    return values | {
        "rounds": span(needed),
        "fewer": f"{fewer} of {len(sets)}",
        "mh-behind": f"{ahead} of {of_shown}",
        "mh-vowel": f"{at_end['adaboost-mh'] - at_end['mcboost-exp']:.1f}",
        "mo-rounds": ", ".join(
            f"{count if np.isfinite(count) else 'more than 200'} on {data}"
            for data, count in of_codes.items()
            if count
        ),
        "mo-splits": ", ".join(
            f"{len(rows_of_cell[data, CODED])} of {data}"
            for data in sets
            if (data, CODED) in rows_of_cell
        ),
        "mo-slower": span(slower) if slower else "-",
    }


def plot_curves(path, frame):
    """Mean error against rounds on the left, against weak learners on the right, one row for each set."""
    rows_of_cell = rows_by(frame)
    sets = list(dict.fromkeys(data for data, _ in rows_of_cell))
    if not rows_of_cell:
        return
    from matplotlib.ticker import LogLocator, NullFormatter

    with picture(path, len(sets), 2, figsize=(7.1, 2.2 * len(sets))) as axes:
        for (data, method), mine in rows_of_cell.items():
            left, right = axes[sets.index(data)]
            colour = f"C{list(METHODS).index(method)}"
            grid = [t for t in GRID if t <= min(200, max(row["rounds"] for row in mine))]
            left.loglog(grid, mean_curve(mine, 0, grid), color=colour, label=method)
            counts = np.unique(np.geomspace(1, SHOWN_LEARNERS[-1], 60).astype(int))
            right.loglog(counts, mean_curve(mine, 1, counts), color=colour)
        for (left, _), data in zip(axes, sets, strict=True):
            left.set_ylabel(f"{data}: error, %")
        for axis in axes.flat:
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter(NullFormatter())
        axes[-1, 0].set_xlabel("rounds")
        axes[-1, 1].set_xlabel("weak learners in the model")
        axes[0, 0].legend(fontsize=8)


RESULTS = Results(
    "multiboost-curves",
    "data method repeat rounds",
    "C n_train n_test rounds_fitted learners error curve choice fit_seconds",
    fit=fit_curve,
    as_text="C curve choice",
)
EXPERIMENTS = (
    Experiment(
        "multiboost-curves",
        "MultiBoost-cw: error by rounds and by weak learners",
        (RESULTS,),
        plan=plan,
        text=curve_text,
        plot=plot_curves,
        sets=tuple(datasets.DATA),
        methods=tuple(METHODS),
        values=curve_values,
    ),
)
