"""Experiments with MultiBoost and MultiBoost-cw; part of tools/reproduce.py.

The figures of G. Lin, C. Shen, A. van den Hengel and D. Suter (Fast training of effective multi-class boosting using
coordinate descent optimization), the column of MultiBoost in Table IV of S. Paisitkriangkrai, C. Shen and A. van den
Hengel (A scalable stage-wise approach to large-margin multi-class loss based boosting), and the choice of defaults.
"""

import itertools
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import common
import numpy as np
import reproduce_trees
from common import error_percent
from journal import Journal, pyplot, run_units

# --------------------------------------------------------------------------------------------------------------------
# Defaults: cross-validation on training parts only

DEFAULTS_SETS = ("vowel", "satimage", "optdigits", "pendigits", "usps", "letter", "glass", "yeast")
DEFAULTS_FOLDS = 3
# Rows of a training part that take part at most, a random choice within every class.
DEFAULTS_ROWS = 3000
DEFAULTS_C = (1e2, 1e3, 1e4, 1e5, 1e6, 1e8)
DEFAULTS_PASSES = (5, 1, 2, 10)
DEFAULTS_ROUNDS = {"multiboost-cw": 100, "multiboost": 200}
LEARNERS = {
    "stump": {},
    "depth 2": {"weak_learner": "tree", "max_leaf_nodes": 4, "max_depth": 2},
    "8 leaves": {"weak_learner": "tree", "max_leaf_nodes": 8},
}
DEFAULTS_KEY = ["data", "algorithm", "learner", "C", "passes", "fold", "rounds"]
DEFAULTS_COLUMNS = ["error", "rounds_fitted", "learners", "n_train", "n_test"]


def multiboost(algorithm, **parameters):
    """New estimator of one of the two algorithms, with one thread."""
    from pymcboost import MultiBoostClassifier, MultiBoostCWClassifier

    made = MultiBoostCWClassifier if algorithm == "multiboost-cw" else MultiBoostClassifier
    return made(**{"n_jobs": 1, "random_state": 0, **parameters})


def training_part(name, most=DEFAULTS_ROWS):
    """The training part of a set, at most ``most`` rows of it; of a set in one piece, its first 75:25 split's."""
    X, y, _, _ = common.load_for_trees(name)
    if len(y) > most:
        _, rows = common.stratified_rows(y, 0, most / len(y))
        X, y = X[rows], y[rows]
    return X, y


def fit_defaults(unit):
    """One fold of one setting."""
    X, y = training_part(unit["data"])
    train, test = reproduce_trees.fold_rows(y, int(unit["fold"]), DEFAULTS_FOLDS)
    X_train, codes, X_test, truth = reproduce_trees.coded((X[train], y[train], X[test], y[test]))
    model = multiboost(
        unit["algorithm"],
        n_estimators=int(unit["rounds"]),
        C=float(unit["C"]),
        max_passes=int(unit["passes"]),
        **LEARNERS[unit["learner"]],
    )
    begin = time.perf_counter()
    model.fit(X_train, codes)
    seconds = time.perf_counter() - begin
    return {
        **unit,
        "error": round(error_percent(truth, model.predict(X_test)), 4),
        "rounds_fitted": model.n_estimators_,
        "learners": model.sparsity_["learners"],
        "n_train": len(codes),
        "n_test": len(truth),
        "seconds": round(seconds, 3),
    }


def defaults_units(sets, rounds=None):
    """All settings; one fold of everything comes before the next fold."""
    return [
        {
            "data": data,
            "algorithm": algorithm,
            "learner": learner,
            "C": C,
            "passes": passes,
            "fold": fold,
            "rounds": rounds or DEFAULTS_ROUNDS[algorithm],
        }
        for fold in range(DEFAULTS_FOLDS)
        for data in sets
        for algorithm, learner, passes, C in itertools.product(DEFAULTS_ROUNDS, LEARNERS, DEFAULTS_PASSES, DEFAULTS_C)
    ]


def defaults_journal(folder, fresh=False, keep=False):
    return Journal(Path(folder, "multiboost-defaults.csv"), DEFAULTS_KEY, DEFAULTS_COLUMNS, fresh, keep)


def relative_errors(rows, algorithm, learner):
    """Mean over the sets of error / lowest error on the set, for the sets that have every setting.

    Returns
    -------
    dict of (passes, C) to float, and the names of the sets
    """
    cells = {}
    for row in rows:
        if row["algorithm"] == algorithm and row["learner"] == learner:
            cells.setdefault((row["data"], int(row["passes"]), float(row["C"])), {})[row["fold"]] = float(row["error"])
    settings = sorted({(passes, C) for _, passes, C in cells})
    names, tables = [], []
    for data in reproduce_trees.sets_by_cost(sorted({data for data, _, _ in cells})):
        mine = [cells.get((data, *setting), {}) for setting in settings]
        # Settings are compared on the folds that all of them have.
        folds = set.intersection(*(set(one) for one in mine)) if mine else set()
        if folds:
            names.append(data)
            means = np.array([np.mean([one[fold] for fold in folds]) for one in mine])
            tables.append(means / max(means.min(), 1e-9))
    if not names:
        return {}, []
    return dict(zip(settings, np.mean(tables, axis=0).tolist(), strict=True)), names


def defaults_text(rows):
    """Relative errors by C and passes, one line for each algorithm, weak learner and number of passes."""
    lines, names = [], []
    for algorithm, learner in itertools.product(DEFAULTS_ROUNDS, LEARNERS):
        table, here = relative_errors(rows, algorithm, learner)
        names = names if len(names) > len(here) else here
        low = min(table.values(), default=0)
        for passes in sorted({passes for passes, _ in table}):
            cells = [table.get((passes, C), float("nan")) for C in DEFAULTS_C]
            words = [f"**{cell:.3f}**" if cell == low else f"{cell:.3f}" for cell in cells]
            lines.append([algorithm, learner, passes, *words])
    if not lines:
        return "Not enough results for a table."
    rounds = ", ".join(f"{name} {count} rounds" for name, count in DEFAULTS_ROUNDS.items())
    return (
        f"{DEFAULTS_FOLDS}-fold cross-validation on the training parts (at most {DEFAULTS_ROWS:,} rows of each) of "
        f"{', '.join(names)}; {rounds}. Error divided by the lowest of the same weak learner on the set, mean over the "
        "sets.\n\n"
        + common.markdown_table(["algorithm", "weak learner", "passes", *(f"C = {C:.0e}" for C in DEFAULTS_C)], lines)
    )


def run_defaults(options):
    """Choose C and the number of passes on training parts only."""
    journal = defaults_journal(options.results, options.fresh)
    units = defaults_units(reproduce_trees.sets_by_cost(options.sets or DEFAULTS_SETS), options.rounds)
    run_units(journal, fit_defaults, units, options.jobs, "multiboost-defaults", options.budget)
    print(defaults_text(journal.rows))


def verify_defaults(options):
    journal = defaults_journal(options.results, keep=True)
    return reproduce_trees.verify_units(
        "multiboost-defaults", journal, fit_defaults, ("fold", "passes", "rounds"), options, _seconds
    )


def _seconds(row):
    return float(row["seconds"])


# --------------------------------------------------------------------------------------------------------------------
# Seconds spent in solving for coefficients


class Stopwatch:
    """Sums the time of the calls that go through it; a call inside another one is not counted twice.

    CPU seconds of the process, which other processes do not lengthen much; what it times works in one thread.
    """

    def __init__(self):
        self.seconds, self._depth = 0.0, 0

    def watch(self, owner, *names):
        """Time these methods of an object."""
        for name in names:
            setattr(owner, name, self._timed(getattr(owner, name)))

    def _timed(self, function):
        def timed(*arguments, **more):
            self._depth += 1
            begin = time.process_time()
            try:
                return function(*arguments, **more)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.process_time() - begin

        return timed


def watch_solver(model, stopwatch):
    """Time what an estimator does to find its coefficients, and the weights that they make."""
    start = model._start

    def started(data, n_threads):
        start(data, n_threads)
        state = model._state
        if isinstance(state, tuple):  # MCBoost: loss, weak learner, solver
            stopwatch.watch(state[0], "update")
            stopwatch.watch(state[2], "fit")
        else:
            stopwatch.watch(state.solver, "solve")
            stopwatch.watch(state.weights, "restart", "scores")

    model._start = started
    return model


# --------------------------------------------------------------------------------------------------------------------
# Figures 1 and 2: test error against rounds, and against weak learners


@dataclass(frozen=True)
class Method:
    """A method of the curves. ``make(rounds, C)`` gives an estimator; ``chosen``: C is chosen on the training part."""

    make: object
    rounds: int
    chosen: bool = False


def _mcboost(rounds, C):
    from pymcboost import MCBoostClassifier

    return MCBoostClassifier(loss="exp", n_estimators=rounds, n_jobs=1, random_state=0)


def _adaboost_mh(rounds, C):
    from pymcboost import AdaBoostMHClassifier

    return AdaBoostMHClassifier(n_estimators=rounds, n_jobs=1, random_state=0)


def _samme(rounds, C):
    from pymcboost import SAMMEClassifier

    return SAMMEClassifier(n_estimators=rounds, n_jobs=1, random_state=0)


# Methods with one learner a round go on until they have as many learners as the others.
METHODS = {
    "multiboost-cw": Method(lambda rounds, C: multiboost("multiboost-cw", n_estimators=rounds, C=C), 200, True),
    "multiboost-cw-1": Method(
        lambda rounds, C: multiboost("multiboost-cw", n_estimators=rounds, C=C, max_passes=1), 200
    ),
    "multiboost": Method(lambda rounds, C: multiboost("multiboost", n_estimators=rounds, C=C), 1000, True),
    "mcboost-exp": Method(_mcboost, 2000),
    "adaboost-mh": Method(_adaboost_mh, 2000),
    "samme": Method(_samme, 2000),
}
CURVE_SETS = ("vowel", "usps", "pendigits", "mnist")
CURVE_REPEATS = 5
CURVE_POINTS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000)
SHOWN_ROUNDS = (10, 50, 100, 200)
EQUAL_LEARNERS = 500
SHOWN_LEARNERS = (100, 200, 500, 1000, 2000)
CHOICE_C = (1e2, 1e4, 1e6, 1e8)
CHOICE_ROUNDS = 200
STAGEWISE_C = 1e8
MNIST_PER_CLASS = 1000
CURVE_KEY = ["data", "method", "repeat", "rounds"]
CURVE_COLUMNS = ["C", "n_train", "n_test", "rounds_fitted", "learners", "error", "curve", "choice", "fit_seconds"]


def curve_split(name, repeat):
    """Split of one repeat: 75:25 at random of all rows; of MNIST 1,000 training images of each digit, its test part."""
    if name == "mnist":
        X, y, X_test, y_test = common.load(name)
        generator = np.random.default_rng([repeat, *name.encode()])
        rows = np.concatenate(
            [generator.choice(np.flatnonzero(y == label), MNIST_PER_CLASS, replace=False) for label in np.unique(y)]
        )
        return X[rows], y[rows], X_test, y_test
    X, y = common.load_pooled(name)
    rows = np.random.default_rng([repeat, *name.encode()]).permutation(len(y))
    cut = round(0.75 * len(rows))
    return X[rows[:cut]], y[rows[:cut]], X[rows[cut:]], y[rows[cut:]]


def fit_with_curve(model, X, codes, X_test, truth):
    """Fit, and return {rounds: (learners, error in percent)} on the grid and the CPU seconds of the fit without this.

    A training that changes all coefficients in a round is scored anew each time, so only on the grid.
    """
    stopwatch = Stopwatch()
    validate = model._validate_round
    staged = getattr(model, "stagewise", True)

    def on_the_grid(*arguments):
        if staged or model.n_estimators_ + 1 in CURVE_POINTS:
            validate(*arguments)

    model._validate_round = on_the_grid
    stopwatch.watch(model, "_validate_round")
    begin = time.process_time()
    model.fit(X, codes, X_val=X_test, y_val=truth)
    seconds = time.process_time() - begin - stopwatch.seconds
    del model._validate_round
    history = model.history_
    last = len(history["val_error"])
    learners = history.get("n_learners", np.arange(1, last + 1))
    curve = {t: (int(learners[t - 1]), 100 * float(history["val_error"][t - 1])) for t in CURVE_POINTS if t < last}
    curve[last] = (int(learners[-1]), error_percent(truth, model.predict(X_test)))
    return curve, seconds


def choose_C(method, X, codes, repeat):
    """C with the lowest error on a quarter of the training part, the smallest of equals; and the errors of all."""
    train, held = common.stratified_rows(codes, repeat)
    errors = {}
    for C in CHOICE_C:
        model = METHODS[method].make(min(CHOICE_ROUNDS, METHODS[method].rounds), C).fit(X[train], codes[train])
        errors[C] = error_percent(codes[held], model.predict(X[held]))
    return min(errors, key=errors.get), errors


def fit_curve(unit):
    """One method on one split."""
    X, codes, X_test, truth = reproduce_trees.coded(curve_split(unit["data"], int(unit["repeat"])))
    method = METHODS[unit["method"]]
    begin = time.perf_counter()
    C, errors = choose_C(unit["method"], X, codes, int(unit["repeat"])) if method.chosen else (STAGEWISE_C, {})
    model = method.make(int(unit["rounds"]), C)
    curve, seconds = fit_with_curve(model, X, codes, X_test, truth)
    last = max(curve)
    return {
        **unit,
        "C": f"{C:.0e}" if method.chosen or "cw-1" in unit["method"] else "-",
        "n_train": len(codes),
        "n_test": len(truth),
        "rounds_fitted": last,
        "learners": curve[last][0],
        "error": round(curve[last][1], 4),
        "curve": " ".join(f"{t}:{learners}:{error:.2f}" for t, (learners, error) in curve.items()),
        "choice": " ".join(f"{C:.0e}:{one:.2f}" for C, one in errors.items()),
        "fit_seconds": round(seconds, 3),
        "seconds": round(time.perf_counter() - begin, 3),
    }


def curve_journal(folder, fresh=False, keep=False):
    return Journal(Path(folder, "multiboost-curves.csv"), CURVE_KEY, CURVE_COLUMNS, fresh, keep)


def curve_units(sets, methods, repeats, rounds=None):
    return [
        {"data": data, "method": method, "repeat": repeat, "rounds": rounds or METHODS[method].rounds}
        for repeat in range(repeats)
        for data in sets
        for method in methods
    ]


def points_of(row):
    """Columns rounds, learners and error of a curve."""
    return np.array([[float(word) for word in point.split(":")] for point in row["curve"].split()]).T


def error_at(row, count, column):
    """Error after ``count`` rounds (column 0) or with at most so many learners (column 1); NaN beyond the curve.

    A training that had nothing left to learn keeps its last error.
    """
    points = points_of(row)
    ended = int(row["rounds_fitted"]) < int(row["rounds"])
    at = np.flatnonzero(points[column] <= count)
    if not len(at) or (at[-1] == points.shape[1] - 1 and not ended and points[column, -1] < 0.9 * count):
        return float("nan")
    return float(points[2, at[-1]])


def mean_curve(rows, column, counts):
    """Mean error at several counts."""
    table = np.array([[error_at(row, count, column) for count in counts] for row in rows])
    return table.mean(axis=0)


def rounds_to(rows, level):
    """Smallest number of rounds of the curve's grid at which the mean error is at most ``level``, or None."""
    grid = [t for t in CURVE_POINTS if t <= max(int(row["rounds"]) for row in rows)]
    hits = [t for t, error in zip(grid, mean_curve(rows, 0, grid), strict=True) if error <= level]
    return hits[0] if hits else None


def rows_by(rows):
    """Rows of (data, method), in the order of the tables."""
    found = {}
    for data, method in itertools.product(CURVE_SETS, METHODS):
        mine = [row for row in rows if row["data"] == data and row["method"] == method]
        if mine:
            found[data, method] = mine
    return found


def spread(values, digits=2):
    """Mean and standard deviation in words."""
    values = np.asarray(values)
    if np.isnan(values).any():
        return "-"
    words = f"{values.mean():.{digits}f}"
    return words + (f" ({values.std(ddof=1):.{digits}f})" if len(values) > 1 else "")


def curve_text(rows):
    """The tables of the curves and what they say about the paper's claims, in Markdown."""
    found = rows_by(rows)
    lines, more = [], []
    for (data, method), mine in found.items():
        cells = [spread([error_at(row, count, 0) for row in mine]) for count in SHOWN_ROUNDS]
        fitted = np.mean([int(row["rounds_fitted"]) for row in mine])
        seconds = np.mean([float(row["fit_seconds"]) / int(row["rounds_fitted"]) for row in mine])
        chosen = ", ".join(sorted({row["C"] for row in mine}))
        lines.append([data, method, len(mine), *cells, f"{fitted:.0f}", f"{1e3 * seconds:.2f}", chosen])
        cells = [spread([error_at(row, count, 1) for row in mine]) for count in SHOWN_LEARNERS]
        more.append([data, method, *cells, spread([float(row["error"]) for row in mine]),
                     f"{np.mean([int(row['learners']) for row in mine]):.0f}"])  # fmt: skip
    by_rounds = common.markdown_table(
        ["data", "method", "splits", *(f"{t} rounds" for t in SHOWN_ROUNDS), "rounds fitted", "CPU ms a round", "C"],
        lines,
    )
    by_learners = common.markdown_table(
        ["data", "method", *(f"{n} learners" for n in SHOWN_LEARNERS), "at the end", "learners at the end"], more
    )
    return (
        "Test error in percent, mean (standard deviation) over the splits; C is what validation chose.\n\n"
        f"{by_rounds}\n\nAt equal numbers of weak learners in the model:\n\n{by_learners}\n\n{claims_text(found)}"
    )


def claims_text(found):
    """The paper's claims about convergence, by the numbers."""
    lines = []
    for data in dict.fromkeys(data for data, _ in found):
        if (data, "multiboost") not in found:
            continue
        level = float(mean_curve(found[data, "multiboost"], 0, [200])[0])
        needed = {method: rounds_to(found[data, method], level) for method in METHODS if (data, method) in found}
        last = {m: np.mean([error_at(r, 200, 0) for r in found[data, m]]) for m in needed}
        best = min(last, key=last.get)
        equal = {m: float(mean_curve(found[data, m], 1, [EQUAL_LEARNERS])[0]) for m in needed}
        equal = {m: error for m, error in equal.items() if np.isfinite(error)}
        fewest = min(equal, key=equal.get)
        fastest = [m for m in needed if needed[m] is not None]
        cw = min((needed[m] for m in ("multiboost-cw", "multiboost-cw-1") if needed.get(m)), default=None)
        others = min((needed[m] for m in fastest if not m.startswith("multiboost-cw")), default=None)
        lines.append(
            [
                data,
                f"{level:.2f}",
                *(needed.get(m) or "-" for m in METHODS),
                "true" if cw and others and cw < others else "NOT true",
                f"{best} ({last[best]:.2f})",
                "true" if best.startswith("multiboost-cw") else "NOT true",
                f"{fewest} ({equal[fewest]:.2f})",
            ]
        )
    head = [
        "data", "level", *METHODS, "class-wise needs fewest rounds", "lowest at 200 rounds", "it is class-wise",
        f"lowest at {EQUAL_LEARNERS} learners",
    ]  # fmt: skip
    return (
        "Rounds to the mean error that MultiBoost has after 200 rounds (the level), the paper's two claims, and the "
        "method with the lowest error at equal numbers of learners:\n\n" + common.markdown_table(head, lines)
    )


def plot_curves(rows, path):
    """Mean error against rounds above, against learners below."""
    found = rows_by(rows)
    if not found:
        return
    plt = pyplot()
    sets = list(dict.fromkeys(data for data, _ in found))
    figure, axes = plt.subplots(2, len(sets), figsize=(3.6 * len(sets), 6.4), layout="constrained", squeeze=False)
    for (data, method), mine in found.items():
        k = sets.index(data)
        colour = f"C{list(METHODS).index(method)}"
        grid = [t for t in CURVE_POINTS if t <= min(200, max(int(row["rounds"]) for row in mine))]
        axes[0, k].loglog(grid, mean_curve(mine, 0, grid), color=colour, label=method)
        counts = np.unique(np.geomspace(1, SHOWN_LEARNERS[-1], 60).astype(int))
        axes[1, k].loglog(counts, mean_curve(mine, 1, counts), color=colour, label=method)
    for k, data in enumerate(sets):
        axes[0, k].set_title(data)
        axes[0, k].set_xlabel("rounds")
        axes[1, k].set_xlabel("weak learners in the model")
    for axis in axes[:, 0]:
        axis.set_ylabel("test error, percent")
    axes[0, 0].legend(fontsize=8)
    save(figure, path, plt)


def save(figure, path, plt):
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"wrote {path}", file=sys.stderr)


def chosen_methods(options, known):
    """Methods named on the command line, or all."""
    for method in options.methods or ():
        if method not in known:
            raise SystemExit(f"unknown method {method!r}; there are {', '.join(known)}")
    return options.methods or list(known)


def run_curves(options):
    """Test error against rounds and against learners."""
    journal = curve_journal(options.results, options.fresh)
    units = curve_units(
        options.sets or CURVE_SETS,
        chosen_methods(options, METHODS),
        options.repeats or CURVE_REPEATS,
        options.rounds,
    )
    run_units(journal, fit_curve, units, options.jobs, "multiboost-curves", options.budget)
    print(curve_text(journal.rows))
    plot_curves(journal.rows, Path(options.results, "multiboost-curves.png"))


def verify_curves(options):
    journal = curve_journal(options.results, keep=True)
    return reproduce_trees.verify_units(
        "multiboost-curves", journal, fit_curve, ("repeat", "rounds"), options, _seconds
    )


# --------------------------------------------------------------------------------------------------------------------
# Figure 6: the objective against the time spent in solving

FCD_SETS = ("vowel", "usps", "pendigits")
FCD_SOLVERS = ("fcd-1", "fcd-2", "fcd-5", "fcd-20", "fcd-50", "lbfgs", "lbfgs-default")
# With SciPy's own bound on the change of the objective, L-BFGS-B stops earlier than the library lets it.
SCIPY_FTOL = 2.220446049250313e-09
FCD_C = 1e4
FCD_ROUNDS = 100
# FCD is also trained for more rounds: those in which it comes down to the objective of L-BFGS-B's.
FCD_LONGER = 150
FCD_REPEATS = 3
FCD_KEY = ["data", "solver", "repeat", "C", "rounds"]
FCD_COLUMNS = ["n_train", "rounds_fitted", "solver_seconds", "objective", "error", "curve"]


def corrective(solver, rounds, C):
    """MultiBoost-cw by one of the solvers; all rounds are made."""
    if not solver.startswith("lbfgs"):
        return multiboost("multiboost-cw", n_estimators=rounds, C=C, max_passes=int(solver.split("-")[1]), tol=0.0)
    from pymcboost import MultiBoostCWClassifier, totally_corrective

    class ByLBFGS(MultiBoostCWClassifier):
        def _solver(self):
            return "lbfgs"

        def fit(self, *arguments, **more):
            if solver == "lbfgs":
                return super().fit(*arguments, **more)
            kept = totally_corrective.minimize

            def by_default(*problem, options, **rest):
                return kept(*problem, options={**options, "ftol": SCIPY_FTOL}, **rest)

            totally_corrective.minimize = by_default
            try:
                return super().fit(*arguments, **more)
            finally:
                totally_corrective.minimize = kept

    return ByLBFGS(n_estimators=rounds, C=C, n_jobs=1, random_state=0, tol=0.0)


def fit_fcd(unit):
    """One solver on one split: solver seconds and objective after every round."""
    X, codes, X_test, truth = reproduce_trees.coded(curve_split(unit["data"], int(unit["repeat"])))
    C = float(unit["C"])
    corrective(unit["solver"], 2, C).fit(X, codes)  # once, so that nothing is loaded inside the clock
    stopwatch = Stopwatch()
    model = watch_solver(corrective(unit["solver"], int(unit["rounds"]), C), stopwatch)
    passed, make = [], model._round

    def counted(builder):
        found = make(builder)
        passed.append(stopwatch.seconds)
        return found

    model._round = counted
    begin = time.perf_counter()
    model.fit(X, codes)
    seconds = time.perf_counter() - begin
    # In the scale of the paper: the sum of the coefficients and C times the mean loss of the pairs.
    objective = model.history_["objective"] * C / (len(codes) * codes.max())
    return {
        **unit,
        "n_train": len(codes),
        "rounds_fitted": model.n_estimators_,
        "solver_seconds": round(passed[model.n_estimators_ - 1], 4),
        "objective": f"{objective[-1]:.6g}",
        "error": round(error_percent(truth, model.predict(X_test)), 4),
        "curve": " ".join(f"{t}:{passed[t - 1]:.5f}:{objective[t - 1]:.6g}" for t in range(1, model.n_estimators_ + 1)),
        "seconds": round(seconds, 3),
    }


def fcd_journal(folder, fresh=False):
    return Journal(Path(folder, "multiboost-fcd.csv"), FCD_KEY, FCD_COLUMNS, fresh)


def fcd_units(sets, repeats, rounds=FCD_ROUNDS):
    longer = rounds * FCD_LONGER // FCD_ROUNDS
    return [
        {"data": data, "solver": solver, "repeat": repeat, "C": f"{FCD_C:.0f}", "rounds": count}
        for repeat in range(repeats)
        for data in sets
        for solver in FCD_SOLVERS
        for count in ((rounds,) if solver.startswith("lbfgs") else (rounds, longer))
    ]


def fcd_text(rows):
    """Solver time and objective at the end, and the claims about them, in Markdown."""
    lines, verdicts = [], []
    for data in FCD_SETS:
        of_set = [row for row in rows if row["data"] == data]
        longer = [row for row in of_set if int(row["rounds"]) == FCD_LONGER]
        here = {s: [row for row in of_set if row["solver"] == s and row not in longer] for s in FCD_SOLVERS}
        if not all(here.values()):
            continue
        seconds = {s: np.mean([float(row["solver_seconds"]) for row in mine]) for s, mine in here.items()}
        value = {s: np.mean([float(row["objective"]) for row in mine]) for s, mine in here.items()}
        for solver, mine in here.items():
            long = [row for row in longer if row["solver"] == solver] or mine
            faster = [
                mean_or_none([ratio_to(row, here["lbfgs"], within) for row in long]) for within in (1e-2, 1e-3, 1e-4)
            ]
            lines.append(
                [
                    data, solver, len(mine), f"{seconds[solver]:.3f}", f"{seconds['lbfgs'] / seconds[solver]:.1f}",
                    f"{value[solver]:.4g}", f"{value[solver] / value['lbfgs']:.3f}",
                    *("not reached" if one is None else f"{one:.1f}" for one in faster),
                    f"{np.mean([float(row['error']) for row in mine]):.2f}",
                ]
            )  # fmt: skip
        says = {
            "one pass is the fastest": min(seconds, key=seconds.get) == "fcd-1",
            "two and five passes take less time than L-BFGS-B": max(seconds["fcd-2"], seconds["fcd-5"])
            < min(seconds["lbfgs"], seconds["lbfgs-default"]),
            "two passes come within 5% of its objective": value["fcd-2"] <= 1.05 * value["lbfgs"],
            "five passes within 1%": value["fcd-5"] <= 1.01 * value["lbfgs"],
        }
        verdicts.append(
            f"- {data}: " + "; ".join(f"{words}: {'true' if ok else 'NOT true'}" for words, ok in says.items())
        )
    head = [
        "data", "solver", "splits", "solver seconds", "L-BFGS-B's / these", "objective at the end",
        "relative to L-BFGS-B's", "times faster to 1.01 of its objective", "to 1.001", "to 1.0001", "test error",
    ]  # fmt: skip
    return (
        f"MultiBoost-cw, C = {FCD_C:g}, {FCD_ROUNDS} rounds of stumps; CPU seconds of all rounds in the solver "
        "and in the weights that it leaves, one thread; means over the splits. The times to L-BFGS-B's objective are "
        f"those of trainings of up to {FCD_LONGER} rounds by FCD.\n\n"
        + common.markdown_table(head, lines)
        + "\n\n"
        + "\n".join(verdicts)
    )


def ratio_to(row, others, within):
    """How many times faster one training's solver came within a share of the objective that another's ends with.

    The other training, on the same split, is clocked until it came as near itself. None where that was never reached.
    """
    other = next((r for r in others if r["repeat"] == row["repeat"]), None)
    if other is None:
        return None
    level = (1 + within) * float(other["objective"])
    (mine, _), (theirs, _) = first_below(row, level), first_below(other, level)
    return theirs / mine if mine < np.inf else None


def first_below(row, level):
    """CPU seconds in the solver to the first round whose objective is at most ``level``, and that round, or none."""
    rounds, seconds, objective = points_of(row)
    hits = np.flatnonzero(objective <= level)
    return (float(seconds[hits[0]]), int(rounds[hits[0]])) if len(hits) else (np.inf, None)


def mean_or_none(values):
    """Mean, or None where any value is missing."""
    return None if any(value is None for value in values) else float(np.mean(values))


def plot_fcd(rows, path):
    """Objective against solver seconds of the first split."""
    plt = pyplot()
    figure, axes = plt.subplots(1, len(FCD_SETS), figsize=(4 * len(FCD_SETS), 3.6), layout="constrained")
    for axis, data in zip(axes, FCD_SETS, strict=True):
        for k, solver in enumerate(FCD_SOLVERS):
            for row in rows:
                if (
                    row["data"] == data
                    and row["solver"] == solver
                    and row["repeat"] == "0"
                    and int(row["rounds"]) == FCD_ROUNDS
                ):
                    points = points_of(row)
                    axis.loglog(points[1], points[2], color=f"C{k}", label=solver)
        axis.set_title(data)
        axis.set_xlabel("seconds in the solver, all rounds so far")
    axes[0].set_ylabel("objective")
    axes[0].legend(fontsize=8)
    save(figure, path, plt)


def run_fcd(options):
    """Objective against solver time."""
    journal = fcd_journal(options.results, options.fresh)
    units = fcd_units(options.sets or FCD_SETS, options.repeats or FCD_REPEATS, options.rounds or FCD_ROUNDS)
    # One after the other: these are timings.
    run_units(journal, fit_fcd, units, 1, "multiboost-fcd", options.budget)
    print(fcd_text(journal.rows))
    plot_fcd(journal.rows, Path(options.results, "multiboost-fcd.png"))


# --------------------------------------------------------------------------------------------------------------------
# Table IV: MultiBoost

TABLE4 = {
    "iris": (6.4, 3.0), "glass": (28.2, 5.6), "usps": (10.5, 2.8), "usps-train": (10.5, 2.8), "pendigits": (7.7, 2.1),
    "letter": (24.6, 1.9),
}  # fmt: skip
# How many times longer MultiBoost took to solve for coefficients than MCBoost with either loss, as printed.
SPEEDUPS = {
    "iris": (18, 14), "glass": (7, 5), "usps": (12, 5), "usps-train": (12, 5), "pendigits": (18, 9), "letter": (74, 52),
}  # fmt: skip
# MultiBoost: L-BFGS-B from 0 in every round and to the minimum, both with the logistic loss; FCD with the other one.
TABLE4_SOLVERS = {"multiboost-cold": "lbfgs-cold", "multiboost-lbfgs": "lbfgs", "multiboost-fcd": "fcd"}
TABLE4_METHODS = ("mcboost-exp", "mcboost-log", *TABLE4_SOLVERS)
TABLE4_ROUNDS = 500
TABLE4_REPEATS = 50
# Every second value of the paper's grid, and its last.
TABLE4_NU = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 5e-3)
TABLE4_FOLDS = 3
# Folds that are done, where fewer: a fit of letter takes long.
TABLE4_FOLDS_DONE = {"letter": 1}
# Rounds of a fit: from 0, the best C depends on how many there are.
TABLE4_CHOICE_ROUNDS = {"multiboost-cold": TABLE4_ROUNDS, "multiboost-lbfgs": 100, "multiboost-fcd": 100}
TABLE4_KEY = ["data", "method", "C", "repeat", "rounds"]
TABLE4_COLUMNS = ["n_train", "n_test", "rounds_fitted", "learners", "zero_share", "error", "solver_seconds"]
TABLE4_CHOICE_KEY = ["data", "method", "C", "fold", "rounds"]
TABLE4_CHOICE_COLUMNS = ["error", "n_train", "n_test"]


def table4_estimator(method, rounds, C):
    """MCBoost as in the paper, or MultiBoost by one of the solvers."""
    if method.startswith("mcboost"):
        from reproduce import classifier

        return classifier(method.split("-")[1], rounds)
    solver = TABLE4_SOLVERS[method]
    more = {"tol": 0.0} if method == "multiboost-cold" else {}  # as published: all rounds
    loss = "exp" if solver == "fcd" else "log"
    return multiboost("multiboost", n_estimators=rounds, C=C, solver=solver, loss=loss, **more)


def fit_table4_choice(unit):
    """One fold of the training part of the first sample."""
    from reproduce import sample_split

    X, y, _, _ = sample_split(unit["data"], 0)
    train, test = reproduce_trees.fold_rows(y, int(unit["fold"]), TABLE4_FOLDS)
    X_train, codes, X_test, truth = reproduce_trees.coded((X[train], y[train], X[test], y[test]))
    begin = time.perf_counter()
    model = table4_estimator(unit["method"], int(unit["rounds"]), float(unit["C"])).fit(X_train, codes)
    seconds = time.perf_counter() - begin
    return {
        **unit,
        "error": round(error_percent(truth, model.predict(X_test)), 4),
        "n_train": len(codes),
        "n_test": len(truth),
        "seconds": round(seconds, 3),
    }


def table4_choice_units(sets, methods):
    return [
        {"data": data, "method": method, "C": f"{1 / nu:g}", "fold": fold, "rounds": TABLE4_CHOICE_ROUNDS[method]}
        for data in sets
        for method in methods
        if method in TABLE4_SOLVERS
        for fold in range(TABLE4_FOLDS_DONE.get(data, TABLE4_FOLDS))
        for nu in TABLE4_NU
    ]


def table4_choice_journal(folder, fresh=False):
    return Journal(Path(folder, "table4-multiboost-choice.csv"), TABLE4_CHOICE_KEY, TABLE4_CHOICE_COLUMNS, fresh)


def table4_choice(rows, data, method):
    """C with the lowest mean error, the smallest of equals; None for methods without."""
    errors = {}
    for row in rows:
        if (row["data"], row["method"]) == (data, method) and int(row["rounds"]) == TABLE4_CHOICE_ROUNDS.get(method):
            errors.setdefault(row["C"], []).append(float(row["error"]))
    return min(errors, key=lambda C: (np.mean(errors[C]), float(C)), default=None)


def fit_table4(unit):
    """One fit, with the seconds spent in solving for coefficients."""
    from reproduce import sample_split

    X, codes, X_test, truth = reproduce_trees.coded(sample_split(unit["data"], int(unit["repeat"])))
    C = float(unit["C"]) if unit["C"] != "-" else None
    stopwatch = Stopwatch()
    model = watch_solver(table4_estimator(unit["method"], int(unit["rounds"]), C), stopwatch)
    begin = time.perf_counter()
    model.fit(X, codes)
    seconds = time.perf_counter() - begin
    counts = getattr(model, "sparsity_", None)
    return {
        **unit,
        "n_train": len(codes),
        "n_test": len(truth),
        "rounds_fitted": model.n_estimators_,
        "learners": counts["learners"] if counts else model.n_estimators_,
        "zero_share": round(counts["zero"] / max(counts["coefficients"], 1), 3) if counts else "-",
        "error": round(error_percent(truth, model.predict(X_test)), 4),
        "solver_seconds": round(stopwatch.seconds, 4),
        "seconds": round(seconds, 4),
    }


def table4_journal(folder, fresh=False, keep=False):
    return Journal(Path(folder, "table4-multiboost.csv"), TABLE4_KEY, TABLE4_COLUMNS, fresh, keep)


def table4_text(rows):
    """Errors and times beside the paper's, in Markdown."""
    from reproduce import verdict

    lines = []
    for data, theirs in TABLE4.items():
        mine = {m: [row for row in rows if row["data"] == data and row["method"] == m] for m in TABLE4_METHODS}
        seconds = {m: {row["repeat"]: float(row["solver_seconds"]) for row in found} for m, found in mine.items()}
        rounds = {m: {row["repeat"]: int(row["rounds_fitted"]) for row in found} for m, found in mine.items()}
        for m, solver in TABLE4_SOLVERS.items():
            if not mine[m]:
                continue
            errors = [float(row["error"]) for row in mine[m]]
            ours = (float(np.mean(errors)), float(np.std(errors, ddof=1)) if len(errors) > 1 else 0.0)
            splits = {row["repeat"] for row in mine[m]}
            same = [float(row["error"]) for row in mine["mcboost-log"] if row["repeat"] in splits]
            line = [
                data, solver, f"{theirs[0]} ({theirs[1]})", f"{ours[0]:.1f} ({ours[1]:.1f})", verdict(ours, theirs),
                len(errors), f"{float(mine[m][0]['C']):.0e}", spread(same, 1) if same else "-",
                f"{np.mean(list(rounds[m].values())):.0f}",
                f"{100 * np.mean([float(row['zero_share']) for row in mine[m]]):.0f}%",
                f"{np.mean(list(seconds[m].values())):.3g}",
            ]  # fmt: skip
            for other, published in zip(("mcboost-exp", "mcboost-log"), SPEEDUPS[data], strict=True):
                both = sorted(set(seconds[m]) & set(seconds[other]))
                if not both:
                    line.append("-")
                    continue
                ratio = sum(seconds[m][r] for r in both) / sum(seconds[other][r] for r in both)
                share = sum(rounds[m][r] for r in both) / sum(rounds[other][r] for r in both)
                asked = "" if solver == "fcd" else f" ({'yes' if ratio >= published else 'NO'})"
                line.append(f"{published} / {ratio:.0f}{asked}, {ratio / share:.0f} a round")
            lines.append(line)
    head = [
        "data", "solver", "paper", "ours", "within one sd of the paper", "repeats", "C", "MCBoost, log, these splits",
        "rounds", "zero coefficients", "solving, CPU s", "times MCBoost's, exp: paper / ours",
        "times MCBoost's, log: paper / ours",
    ]  # fmt: skip
    return common.markdown_table(head, lines)


def run_table4(options):
    """Table IV of MultiBoost: 50 samples per class, 75:25, 500 rounds."""
    sets = options.sets or list(TABLE4)
    methods = chosen_methods(options, TABLE4_METHODS)
    choice = table4_choice_journal(options.results, options.fresh)
    run_units(
        choice, fit_table4_choice, table4_choice_units(sets, methods), options.jobs, "choice of C", options.budget
    )
    units = [
        {
            "data": data,
            "method": method,
            "C": table4_choice(choice.rows, data, method) or "-",
            "repeat": repeat,
            "rounds": options.rounds or TABLE4_ROUNDS,
        }
        for data in sets
        for repeat in range(options.repeats or TABLE4_REPEATS)
        for method in methods
    ]
    journal = table4_journal(options.results, options.fresh)
    run_units(journal, fit_table4, units, options.jobs, "table4-multiboost", options.budget)
    print(table4_text(journal.rows))


def verify_table4(options):
    journal = table4_journal(options.results, keep=True)
    return reproduce_trees.verify_units(
        "table4-multiboost", journal, fit_table4, ("repeat", "rounds"), options, _seconds
    )


# --------------------------------------------------------------------------------------------------------------------
# For reproduce.py

RUNS = {
    "multiboost-curves": run_curves,
    "multiboost-fcd": run_fcd,
    "table4-multiboost": run_table4,
    "multiboost-defaults": run_defaults,
}
VERIFY = {
    "multiboost-curves": verify_curves,
    "table4-multiboost": verify_table4,
    "multiboost-defaults": verify_defaults,
}


def markdown(folder):
    """Parts of docs/reproduction.md that have results in ``folder``."""
    parts = []
    for name, journal, text, title in (
        ("table4-multiboost", table4_journal, table4_text, "Table IV: MultiBoost"),
        ("multiboost-curves", curve_journal, curve_text, "MultiBoost-cw: error by rounds and by weak learners"),
        ("multiboost-fcd", fcd_journal, fcd_text, "MultiBoost-cw: the objective against the time of the solver"),
        ("multiboost-defaults", defaults_journal, defaults_text, "Defaults of MultiBoost and MultiBoost-cw"),
    ):
        if Path(folder, f"{name}.csv").exists():
            rows = journal(folder).rows
            commits = ", ".join(f"`{c}`" for c in sorted({row["commit"] for row in rows}))
            if rows:
                parts.append(f"### {title}\n\n{text(rows)}\n\nCommit {commits}.")
    return parts
