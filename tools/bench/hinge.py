"""HingeBoost.OC: what a margin-rescaled SVM costs beside a plain one, a round beside its SVMs, whole fits."""

import numpy as np
from shared import internals
from shared.datasets import DataMissing, load_official
from shared.measure import Timing, best_of, race

from bench.report import Report, benchmark

# At most this much per LIBSVM iteration beside a plain C-SVC; and at most this share of a round besides its SVMs.
PER_ITERATION, REST = 1.3, 0.2
# Rows of a solve, whose kernel is the same for both; C in front of the mean loss.
ROWS, C = 3000, 64.0


def hingeboost(rounds, **more):
    import pymcboost

    return pymcboost.HingeBoostOCClassifier(n_estimators=rounds, scale=True, random_state=0, n_jobs=1, **more)


def bench_solves(options, report):
    """One class against all others, with margins as they are after some rounds."""
    X, y, _, _ = load_official("pendigits")
    X = internals.Scale.from_range(X.min(axis=0), X.max(axis=0)).apply(X[: options.size(500, ROWS)])
    m = len(X)
    sign, c = np.where(y[:m] == y[0], 1, -1).astype(np.int8), C / m
    margins, labels = np.random.default_rng(0).normal(0.5, 0.5, m), sign.astype(np.float64)
    for kernel in ("linear", "rbf", "perceptron"):

        def block(begin, end, kernel=kernel):
            return internals.kernel_block(X[begin:end], X, kernel, 1 / X.shape[1], 0.0, 3)

        machine = internals.LibsvmKernel(m, block)
        # The plain problem: LIBSVM on the same rows of the same kernel, without anchors.
        plain = internals.plain_svm(machine, labels, c)
        competitors = {
            "plain": plain,
            "margin-rescaled": lambda machine=machine: machine.solve(sign, margins, c, 1e-3).n_iter,
        }
        per = {}
        for name, timing in race(competitors, options.repeat).items():
            per[name] = timing.best / max(timing.value, 1)
            more = {"iterations": timing.value, "microseconds_per_iteration": round(1e6 * per[name], 3)}
            report.rows.append(timing.row(f"{kernel}, {name}", **more))
        ratio = round(per["margin-rescaled"] / per["plain"], 3)
        report.target(f"{kernel}: per iteration, margin-rescaled / plain", ratio, PER_ITERATION, at_most=True)


def bench_rounds(options, report):
    """Time of the SVMs inside the rounds of a fit against the whole rounds."""
    X, y, X_test, y_test = load_official("pendigits")
    X, y = X[: options.size(500, None)], y[: options.size(500, None)]
    solvers = {
        ("linear", "coordinate"): internals.LinearRows,
        ("perceptron", "coordinate"): internals.DenseKernel,
        ("perceptron", "libsvm"): internals.LibsvmKernel,
    }
    for (kernel, solver), cls in solvers.items():
        model = hingeboost(options.size(5, 50), C=C, kernel=kernel, solver=solver)
        timing, solves, rests = Timing(), [], []
        for _ in range(options.repeat if kernel == "linear" else 1):
            with internals.clocked(cls, "solve") as solve, internals.clocked_hinge_round() as whole:
                timing.run(lambda model=model: model.fit(X, y))
            solves.append(solve.seconds)
            rests.append(whole.seconds - solve.seconds)
        what = f"pendigits, {kernel}, {solver}"
        more = {"solves_s": round(min(solves), 3), "rest_s": round(min(rests), 3)}
        report.rows.append(timing.fit_row(what, X_test, y_test, **more))
        share = round(min(rests) / min(solves), 3)
        report.target(f"{what}: all else in a round / its solves", share, REST, at_most=True)


def bench_fits(options, report):
    """Whole linear fits, and their scoring against one matrix product."""
    rounds = options.size(5, 200)
    for name in ("news20-bydate", "mnist"):
        try:
            X, y, X_test, y_test = load_official(name)
        except DataMissing as error:
            report.notes.append(str(error))
            continue
        timing = best_of(lambda X=X, y=y: hingeboost(rounds, C=10.0).fit(X, y), 1, warm_up=False)
        report.rows.append(timing.fit_row(f"{name}, linear, {rounds} rounds", X_test, y_test))
        minutes = round(timing.best / 60, 2)
        report.target(f"{name}: minutes of {rounds} rounds", minutes, 30, at_most=True, unit="min")
        if hasattr(X_test, "indptr"):
            continue
        part, model = np.ascontiguousarray(X_test[:2000], dtype=np.float32), timing.value.model_
        coef = internals.coefficients_of(timing.value).astype(np.float64)
        scorers = {
            "scoring": lambda model=model, part=part: model.raw_scores(part, n_jobs=1),
            "one product": lambda part=part, coef=coef: part.astype(np.float64) @ coef.T,
        }
        for what, one in race(scorers, options.repeat).items():
            report.rows.append(one.row(f"{name}, 2,000 rows: {what}"))


@benchmark("hinge")
def bench_hinge(options):
    """HingeBoost.OC: per LIBSVM iteration against a plain C-SVC, a round against its SVMs, and whole linear fits."""
    report = Report(
        {
            "solves": f"pendigits, first {ROWS} rows, one class against all others, C = {C:g} / rows, the same "
            "kernel in memory; the margin-rescaled solve includes the anchors and the scores of all rows",
            "rounds": f"pendigits, C = {C:g}, features scaled, one thread; rounds only, not the "
            "data and the kernel; the least of each over the fits",
            "fits": "features scaled, one thread, with the estimator's default solver",
            "threads": 1,
        }
    )
    bench_solves(options, report)
    bench_rounds(options, report)
    bench_fits(options, report)
    return report
