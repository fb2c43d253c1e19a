"""MultiBoost-cw's Figure 6: the objective against the time spent in solving, by several solvers."""

from contextlib import nullcontext

import numpy as np
from shared.datasets import DATA, coded
from shared.internals import (
    Stopwatch,
    after_each_round,
    minimize_with,
    multiboost_cw_by_lbfgs,
    watch_solver,
)
from shared.tables import markdown_table, span

from reproduce.experiment import Experiment, Results, fit_and_test, select
from reproduce.multiboost import curve_split, estimator, points_of

SETS = ("vowel", "usps", "pendigits")
SOLVERS = ("fcd-1", "fcd-2", "fcd-5", "fcd-20", "fcd-50", "lbfgs", "lbfgs-default")
# With SciPy's own bound on the change of the objective, L-BFGS-B stops earlier than the library lets it.
SCIPY_FTOL = 2.220446049250313e-09
C = 1e4
ROUNDS = 100
# FCD is also trained for more rounds: those in which it comes down to the objective of L-BFGS-B's.
LONGER = 150
REPEATS = 3


def corrective(solver, rounds, C):
    """MultiBoost-cw by one of the solvers; all rounds are made."""
    shared = {"n_estimators": rounds, "C": C, "tol": 0.0, "n_jobs": 1, "random_state": 0}
    if solver.startswith("lbfgs"):
        return multiboost_cw_by_lbfgs(**shared)
    return estimator("MultiBoostCW", max_passes=int(solver.split("-")[1]), **shared)


def fit_fcd(unit):
    """One solver on one split: solver seconds and objective along the rounds."""
    X, codes, X_test, truth = coded(curve_split(unit["data"], int(unit["repeat"])))
    C = float(unit["C"])
    solver = unit["solver"]
    stopwatch = Stopwatch()
    passed = []
    with (
        minimize_with(options={"ftol": SCIPY_FTOL}) if solver == "lbfgs-default" else nullcontext()
    ):
        corrective(solver, 2, C).fit(X, codes)  # once, so that nothing is loaded inside the clock
        model = watch_solver(corrective(solver, int(unit["rounds"]), C), stopwatch)
        after_each_round(model, lambda: passed.append(stopwatch.seconds))
        row, _ = fit_and_test(unit, model, (X, codes, X_test, truth))
    # In the scale of the paper: the sum of the coefficients and C times the mean loss of the pairs.
    objective = model.history_["objective"] * C / (len(codes) * codes.max())
    rounds = model.n_estimators_
    return {
        **row,
        "solver_seconds": round(passed[rounds - 1], 4),
        "objective": f"{objective[-1]:.6g}",
        "curve": " ".join(
            f"{t}:{passed[t - 1]:.5f}:{objective[t - 1]:.6g}" for t in kept_rounds(rounds)
        ),
    }


def kept_rounds(rounds):
    """Rounds of a curve: the first ones, every fourth, and the last."""
    return [t for t in range(1, rounds + 1) if t <= 20 or t % 4 == 0 or t == rounds]


def fcd_units(sets, repeats, rounds=ROUNDS):
    longer = rounds * LONGER // ROUNDS
    return [
        {"data": data, "solver": solver, "repeat": repeat, "C": f"{C:.0f}", "rounds": count}
        for repeat in range(repeats)
        for data in sets
        for solver in SOLVERS
        for count in ((rounds,) if solver.startswith("lbfgs") else (rounds, longer))
    ]


def plan(options, journal):
    yield (
        0,
        fcd_units(options.sets or SETS, options.repeats or REPEATS, options.rounds or ROUNDS),
        "multiboost-fcd",
    )


def fcd_text(frame):
    """Solver time and objective at the end, and the claims about them, in Markdown."""
    lines = []
    verdicts = []
    for data in SETS:
        of_set = select(frame, data=data)
        here = {s: select(of_set, solver=s)[lambda rows: rows["rounds"] != LONGER] for s in SOLVERS}
        if any(rows.empty for rows in here.values()):
            continue
        seconds = {s: rows["solver_seconds"].mean() for s, rows in here.items()}
        value = {s: rows["objective"].mean() for s, rows in here.items()}
        for solver, rows in here.items():
            longer = select(of_set, solver=solver, rounds=LONGER)
            faster = times_faster(rows if longer.empty else longer, here["lbfgs"])
            times = [f"{seconds[solver]:.3f}", f"{seconds['lbfgs'] / seconds[solver]:.1f}"]
            values = [f"{value[solver]:.4g}", f"{value[solver] / value['lbfgs']:.3f}"]
            error = f"{rows['error'].mean():.2f}"
            lines.append([data, solver, len(rows), *times, *values, *faster, error])
        verdicts.append(f"- {data}: {claims(seconds, value)}")
    head = [
        "data",
        "solver",
        "splits",
        "solver seconds",
        "L-BFGS-B's / these",
        "objective at the end",
        "relative to L-BFGS-B's",
        "times faster to 1.01 of its objective",
        "to 1.001",
        "to 1.0001",
        "test error",
    ]
    return (
        f"MultiBoost-cw, C = {C:g}, {ROUNDS} rounds of stumps; CPU seconds of all rounds in the solver "
        "and in the weights that it leaves, one thread; means over the splits. The times to L-BFGS-B's objective are "
        f"those of trainings of up to {LONGER} rounds by FCD.\n\n"
        f"{markdown_table(head, lines)}\n\n" + "\n".join(verdicts)
    )


def fcd_values(frame):
    """What sentences say about the solvers: ranges over the data sets."""
    times = {}
    above = {}
    faster = {}
    for solver in SOLVERS:
        pairs = [
            (
                select(frame, data=data, solver=solver, rounds=ROUNDS),
                select(frame, data=data, solver="lbfgs", rounds=ROUNDS),
            )
            for data in SETS
        ]
        times[solver] = [
            other["solver_seconds"].mean() / mine["solver_seconds"].mean() for mine, other in pairs
        ]
        above[solver] = [
            100 * (mine["objective"].mean() / other["objective"].mean() - 1)
            for mine, other in pairs
        ]
        if solver in ("fcd-5", "fcd-20"):
            longer = [select(frame, data=data, solver=solver, rounds=LONGER) for data in SETS]
            within = [
                times_faster(rows, other)[-1]
                for rows, (_, other) in zip(longer, pairs, strict=True)
            ]
            faster[solver] = span([float(words) for words in within])
    return {
        "one-pass-above": span(above["fcd-1"]),
        "one-pass-times": span(times["fcd-1"], "{:,.0f}"),
        "two-passes-above": f"{max(above['fcd-2']):.1f}",
        "two-passes-times": span(times["fcd-2"]),
        "five-passes-above": f"{max(above['fcd-5']):.1f}",
        "five-passes-times": span(times["fcd-5"]),
        "five-passes-reach": faster["fcd-5"],
        "twenty-passes-reach": faster["fcd-20"],
    }


def page(frame):
    """Objective and time by passes a round, as ranges over the data sets."""
    values = fcd_values(frame)
    lines = [
        ["1", f"{values['one-pass-above']}%", values["one-pass-times"]],
        ["2", f"at most {values['two-passes-above']}%", values["two-passes-times"]],
        ["5", f"at most {values['five-passes-above']}%", values["five-passes-times"]],
    ]
    return markdown_table(["passes a round", "objective above", "times faster"], lines)


def claims(seconds, value):
    """The paper's claims about its solver, with what the numbers say."""
    slowest = max(seconds["fcd-2"], seconds["fcd-5"])
    fastest = min(seconds["lbfgs"], seconds["lbfgs-default"])
    says = {
        "one pass is the fastest": min(seconds, key=seconds.get) == "fcd-1",
        "two and five passes take less time than L-BFGS-B": slowest < fastest,
        "two passes come within 5% of its objective": value["fcd-2"] <= 1.05 * value["lbfgs"],
        "five passes within 1%": value["fcd-5"] <= 1.01 * value["lbfgs"],
    }
    return "; ".join(f"{words}: {'true' if ok else 'NOT true'}" for words, ok in says.items())


def times_faster(rows, others):
    """Mean ratios of the times to several shares of the objective that the other training of a split ends with."""
    theirs = {row["repeat"]: row for row in others.to_dict("records")}
    words = []
    for within in (1e-2, 1e-3, 1e-4):
        ratios = [
            ratio_to(row, theirs.get(row["repeat"]), within) for row in rows.to_dict("records")
        ]
        words.append("not reached" if None in ratios else f"{np.mean(ratios):.1f}")
    return words


def ratio_to(row, other, within):
    """How many times faster one training's solver came within a share of the objective that another's ends with.

    The other training, on the same split, is clocked until it came as near itself. None where that was never reached.
    """
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


RESULTS = Results(
    "multiboost-fcd",
    "data solver repeat C rounds",
    "n_train rounds_fitted solver_seconds objective error curve",
    fit=fit_fcd,
    as_text="curve",
)
EXPERIMENTS = (
    Experiment(
        "multiboost-fcd",
        "MultiBoost-cw: the objective against the time of the solver",
        (RESULTS,),
        plan=plan,
        text=fcd_text,
        weigh=None,
        alone=True,
        sets=tuple(DATA),
        values=fcd_values,
        pages={"": page},
    ),
)
