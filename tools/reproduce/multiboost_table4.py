"""MultiBoost's column in Table IV of MCBoost's paper: errors, and times of solving beside MCBoost's."""

from collections import defaultdict

import numpy as np
from shared import ranks
from shared.datasets import DATA, coded, fold_of
from shared.internals import Stopwatch, watch_solver
from shared.tables import deviations, markdown_table, mean_and_deviation, published, span, spread

from reproduce.experiment import Experiment, Results, cross, fit_and_test, select
from reproduce.mcboost import classifier, sample_split, verdict
from reproduce.multiboost import estimator

PUBLISHED = published("multiboost-table4")
PUBLISHED_MCBOOST = published("mcboost-table4", index=2)
# MultiBoost: L-BFGS-B from 0 in every round and to the minimum, both with the logistic loss; FCD with the other one.
SOLVERS = {"multiboost-cold": "lbfgs-cold", "multiboost-lbfgs": "lbfgs", "multiboost-fcd": "fcd"}
METHODS = ("mcboost-exp", "mcboost-log", *SOLVERS)
ROUNDS = 500
REPEATS = 50
# Every second value of the paper's grid, and its last.
NU = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 5e-3)
FOLDS = 3
# Folds that are done, where fewer: a fit of letter takes long.
FOLDS_DONE = {"letter": 1}
# Rounds of a fit: from 0, the best C depends on how many there are.
CHOICE_ROUNDS = {"multiboost-cold": ROUNDS, "multiboost-lbfgs": 100, "multiboost-fcd": 100}


def table4_estimator(method, rounds, C):
    """MCBoost as in the paper, or MultiBoost by one of the solvers."""
    if method.startswith("mcboost"):
        return classifier(method.split("-")[1], rounds)
    solver = SOLVERS[method]
    options = {"tol": 0.0} if method == "multiboost-cold" else {}  # as published: all rounds
    loss = "exp" if solver == "fcd" else "log"
    return estimator("MultiBoost", n_estimators=rounds, C=C, solver=solver, loss=loss, **options)


def fit_choice(unit):
    """One fold of the training part of the first sample."""
    X, y, _, _ = sample_split(unit["data"], 0)
    model = table4_estimator(unit["method"], int(unit["rounds"]), float(unit["C"]))
    return fit_and_test(unit, model, fold_of(X, y, unit["fold"], folds=FOLDS))[0]


def fit_table4(unit):
    """One fit, with the seconds spent in solving for coefficients."""
    C = float(unit["C"]) if unit["C"] != "-" else None
    stopwatch = Stopwatch()
    model = watch_solver(table4_estimator(unit["method"], int(unit["rounds"]), C), stopwatch)
    row, _ = fit_and_test(unit, model, coded(sample_split(unit["data"], int(unit["repeat"]))))
    counts = getattr(model, "sparsity_", None)
    return {
        **row,
        "learners": counts["learners"] if counts else model.n_estimators_,
        "zero_share": round(counts["zero"] / max(counts["coefficients"], 1), 3) if counts else "-",
        "solver_seconds": round(stopwatch.seconds, 4),
    }


def choice_units(sets, methods):
    return [
        {
            "data": data,
            "method": method,
            "C": f"{1 / nu:g}",
            "fold": fold,
            "rounds": CHOICE_ROUNDS[method],
        }
        for data in sets
        for method in methods
        if method in SOLVERS
        for fold in range(FOLDS_DONE.get(data, FOLDS))
        for nu in NU
    ]


def choose_C(rows, data, method):
    """C with the lowest mean error, the smallest of equals; None for methods without."""
    errors = defaultdict(list)
    for row in rows:
        if (row["data"], row["method"]) == (data, method) and int(
            row["rounds"]
        ) == CHOICE_ROUNDS.get(method):
            errors[row["C"]].append(float(row["error"]))
    return min(errors, key=lambda C: (np.mean(errors[C]), float(C)), default=None)


def plan(options, journal, choice):
    """The choice of C, then 50 samples per class, 75:25, 500 rounds."""
    sets = options.sets or list(PUBLISHED)
    methods = options.methods or METHODS
    yield 1, choice_units(sets, methods), "choice of C"
    best = {
        (data, method): choose_C(choice.rows, data, method) or "-"
        for data in sets
        for method in methods
    }
    repeats = range(options.repeats or REPEATS)
    rounds = [options.rounds or ROUNDS]
    units = cross(data=sets, repeat=repeats, method=methods, rounds=rounds)
    yield (
        0,
        [{**unit, "C": best[unit["data"], unit["method"]]} for unit in units],
        "table4-multiboost",
    )


def longer(rows, other):
    """How many times longer solving took than another method's on the same splits, in all and a round; or None."""
    both = rows.merge(other, on="repeat", suffixes=("", "_other"))
    if both.empty:
        return None
    ratio = both["solver_seconds"].sum() / both["solver_seconds_other"].sum()
    return ratio, ratio / (both["rounds_fitted"].sum() / both["rounds_fitted_other"].sum())


def ratios(rows, other, printed, judged):
    """The same beside the paper's, in words."""
    found = longer(rows, other)
    if found is None:
        return "-"
    ratio, a_round = found
    asked = f" ({'yes' if ratio >= printed else 'NO'})" if judged else ""
    return f"{printed} / {ratio:.0f}{asked}, {a_round:.0f} a round"


def table4_text(frame):
    """Errors and times beside the paper's, in Markdown."""
    lines = []
    for data, cells in PUBLISHED.items():
        of_set = {method: select(frame, data=data, method=method) for method in METHODS}
        theirs = cells["error"]
        for method, solver in SOLVERS.items():
            rows = of_set[method]
            if rows.empty:
                continue
            mean, deviation = mean_and_deviation(rows["error"].to_numpy())
            log = of_set["mcboost-log"]
            same = log[log["repeat"].isin(rows["repeat"])]["error"].to_numpy()
            zero = rows["zero_share"].astype(float).mean()
            lines.append(
                [
                    data,
                    solver,
                    f"{theirs[0]} ({theirs[1]})",
                    f"{mean:.1f} ({deviation:.1f})",
                    verdict(mean, theirs),
                    len(rows),
                    f"{float(rows['C'].iloc[0]):.0e}",
                    spread(same, 1),
                    f"{rows['rounds_fitted'].mean():.0f}",
                    f"{100 * zero:.0f}%",
                    f"{rows['solver_seconds'].mean():.3g}",
                    *(
                        ratios(rows, of_set[m], cells[m], judged=solver != "fcd")
                        for m in ("mcboost-exp", "mcboost-log")
                    ),
                ]
            )
    head = [
        "data",
        "solver",
        "paper",
        "ours",
        "within one sd of the paper",
        "repeats",
        "C",
        "MCBoost, log, these splits",
        "rounds",
        "zero coefficients",
        "solving, CPU s",
        "times MCBoost's, exp: paper / ours",
        "times MCBoost's, log: paper / ours",
    ]
    return f"{markdown_table(head, lines)}\n\n{signed_rank_text(frame)}"


def table4_page(frame):
    """The paper's errors, and ours by solver; bold beyond one of the paper's standard deviations."""
    lines = []
    for data, columns in PUBLISHED.items():
        theirs = columns["error"]
        cells = []
        for method in SOLVERS:
            errors = select(frame, data=data, method=method)["error"]
            words = f"{errors.mean():.1f}" if len(errors) else "-"
            far = len(errors) and abs(deviations(errors.mean(), theirs)) > 1
            cells.append(f"**{words}**" if far else words)
        log = select(frame, data=data, method="mcboost-log")["error"]
        lines.append([data, theirs[0], *cells, f"{log.mean():.1f}" if len(log) else "-"])
    return markdown_table(["set", "paper", *SOLVERS.values(), "MCBoost-log"], lines)


def signed_ranks(frame):
    """Wilcoxon's tests of MCBoost against MultiBoost: {loss: (the paper's, {solver: ours})}.

    They are over the sets whose official parts are pooled, by mean errors on the splits that both methods have done.
    """
    sets = [data for data in PUBLISHED if not data.endswith("-train")]
    multiboost = [PUBLISHED[data]["error"][0] for data in sets]
    tests = {}
    for loss in ("exp", "log"):
        mcboost = [PUBLISHED_MCBOOST[data, loss]["error"][0] for data in sets]
        ours = {}
        for method, solver in SOLVERS.items():
            both = select(frame, method=f"mcboost-{loss}").merge(
                select(frame, method=method), on=["data", "repeat"], suffixes=("", "_other")
            )
            means = both.groupby("data")[["error", "error_other"]].mean()
            there = [data for data in sets if data in means.index]
            if len(there) > 1:
                ours[solver] = ranks.signed_rank(
                    means.loc[there, "error"], means.loc[there, "error_other"]
                )
        tests[loss] = ranks.signed_rank(mcboost, multiboost), ours
    return tests


def signed_rank_text(frame):
    """The tests in words."""
    sentences = []
    for loss, (theirs, ours) in signed_ranks(frame).items():
        words = ", ".join(f"{solver} {words_of_test(one)}" for solver, one in ours.items())
        sentences.append(
            f"MCBoost-{loss} against MultiBoost: {words_of_test(theirs)} by the paper's errors; ours: {words}."
        )
    return "Wilcoxon's signed-rank test, the smaller sum of ranks. " + " ".join(sentences)


def words_of_test(test):
    return f"{test.smaller_sum:g} ({test.n_sets} sets, p = {test.p:.2f})"


def table4_values(frame):
    """What sentences say about MultiBoost's column."""
    found = {
        (data, method): rows
        for data in PUBLISHED
        for method in METHODS
        if not (rows := select(frame, data=data, method=method)).empty
    }
    far = {
        (data, SOLVERS[method]): deviations(rows["error"].mean(), PUBLISHED[data]["error"])
        for (data, method), rows in found.items()
        if method in SOLVERS
    }
    beyond = [
        f"{data} {solver} ({distance:+.2f} sd)"
        for (data, solver), distance in far.items()
        if distance > 1
    ]
    values = {"within": f"{len(far) - len(beyond)} of {len(far)}", "beyond": ", ".join(beyond)}
    times = {loss: {} for loss in ("exp", "log")}
    for (data, method), rows in found.items():
        if method not in SOLVERS:
            continue
        zero = rows["zero_share"].astype(float).mean()
        values[f"kept-{data}-{SOLVERS[method]}"] = f"{100 * (1 - zero):.0f}%"
        log = found[data, "mcboost-log"]
        same = log[log["repeat"].isin(rows["repeat"])]["error"].mean()
        values[f"worse-{data}-{SOLVERS[method]}"] = f"{rows['error'].mean() - same:.1f}"
        if method != "multiboost-fcd":
            for loss, of_cells in times.items():
                of_cells[data, method] = longer(rows, found[data, f"mcboost-{loss}"])
    warm_iris = "iris", "multiboost-lbfgs"
    for loss, of_cells in times.items():
        ratio, a_round = of_cells.pop(warm_iris)
        printed = [columns[f"mcboost-{loss}"] for columns in PUBLISHED.values()]
        values[f"paper-times-{loss}"] = span(printed)
        values[f"times-{loss}"] = span([ratio for ratio, _ in of_cells.values()], "{:,.0f}")
        values[f"iris-{loss}"] = f"{ratio:.0f}"
        values[f"iris-{loss}-a-round"] = f"{a_round:.0f}"
    values["iris-rounds"] = f"{found[warm_iris]['rounds_fitted'].mean():.0f}"
    gaps = [
        abs(
            found[data, "multiboost-lbfgs"]["error"].mean()
            - found[data, "multiboost-fcd"]["error"].mean()
        )
        for data in PUBLISHED
        if {(data, "multiboost-lbfgs"), (data, "multiboost-fcd")} <= set(found)
    ]
    p = [one.p for _, ours in signed_ranks(frame).values() for one in ours.values()]
    return values | {"loss-gap": f"{max(gaps):.1f}", "least-p": f"{min(p):.2f}"}


RESULTS = Results(
    "table4-multiboost",
    "data method C repeat rounds",
    "n_train n_test rounds_fitted learners zero_share error solver_seconds",
    fit=fit_table4,
    as_text="C zero_share",
)
CHOICE = Results(
    "table4-multiboost-choice", "data method C fold rounds", "error n_train n_test", fit=fit_choice
)
EXPERIMENTS = (
    Experiment(
        "table4-multiboost",
        "Table IV: MultiBoost",
        (RESULTS, CHOICE),
        plan=plan,
        text=table4_text,
        sets=(*DATA, "usps-train"),
        methods=METHODS,
        values=table4_values,
        pages={"": table4_page},
    ),
)
