"""HingeBoost.OC with a nonlinear kernel: our own solver of its SVMs against LIBSVM."""

from functools import partial

import numpy as np
from shared.datasets import coded
from shared.measure import error_percent, race

from bench.report import Report, benchmark
from bench.trees import tree_data

SETS = ("glass", "svmguide4", "vowel", "yeast", "dna", "optdigits", "satimage", "pendigits")
MACHINE = {"kernel": "rbf", "C": 100.0, "scale": True, "n_jobs": 1}
SOLVERS = {"coordinate": "our solver", "libsvm": "LIBSVM"}
# A tolerance at which both solvers reach the optimum as far as float32 kernels tell.
FINE = 1e-7
SEEDS = 5
# By how much the mean test errors of all sets may differ, and labels of a set at the fine tolerance; the largest ratio
# of times.
POINTS = 0.3
SLOWER = 1.0


@benchmark("kernel-solvers")
def bench_kernel_solvers(options):
    """HingeBoost.OC with kernel="rbf" by our solver and by LIBSVM: test errors, times, labels that differ."""
    from pymcboost import HingeBoostOCClassifier

    rounds = options.rounds or options.size(5, 50)
    seeds = options.size(1, SEEDS)
    how = {**MACHINE, "n_estimators": rounds}
    report = Report(
        {
            "model": f"{rounds} rounds, "
            + ", ".join(f"{name}={value!r}" for name, value in MACHINE.items()),
            "test error": f"mean of {seeds} seeds, in percent",
            "labels that differ": f"share of the labels of all seeds, in percent; tol=0.001 is the default, {FINE:g} "
            "as near to the optimum as both solvers come",
        }
    )
    apart = []
    slower = []
    fine = []
    for name in options.data or options.size(SETS[:2], SETS):
        X, codes, X_test, codes_test = coded(tree_data(name, options))
        fits = {
            solver: partial(
                HingeBoostOCClassifier(**how, random_state=0, solver=solver).fit, X, codes
            )
            for solver in SOLVERS
        }
        timed = race(fits, options.repeat)
        labels = {
            (solver, tol): labels_of(
                HingeBoostOCClassifier(**how, solver=solver, tol=tol),
                X,
                codes,
                X_test=X_test,
                seeds=seeds,
            )
            for solver in SOLVERS
            for tol in (1e-3, FINE)
        }
        errors = {
            solver: error_percent(np.tile(codes_test, (seeds, 1)), labels[solver, 1e-3])
            for solver in SOLVERS
        }
        differ = {
            tol: error_percent(labels["coordinate", tol], labels["libsvm", tol])
            for tol in (1e-3, FINE)
        }
        for solver, timing in timed.items():
            more = {"n_train": len(X), "test_error_percent": round(errors[solver], 2)}
            if solver == "coordinate":
                more |= {
                    "differ_%": round(differ[1e-3], 3),
                    f"differ_%_tol={FINE:g}": round(differ[FINE], 3),
                }
            report.rows.append(timing.row(f"{name}: {SOLVERS[solver]}", **more))
        apart.append(errors["coordinate"] - errors["libsvm"])
        slower.append(timed["coordinate"].best_cpu / timed["libsvm"].best_cpu)
        fine.append(differ[FINE])
    mean = abs(float(np.mean(apart)))
    report.target("test errors, difference of the means", mean, POINTS, at_most=True, unit="points")
    report.target(
        f"labels that differ at tol={FINE:g}, worst set", max(fine), POINTS, at_most=True, unit="%"
    )
    report.target("CPU time, ours / LIBSVM's, slowest set", max(slower), SLOWER, at_most=True)
    return report


def labels_of(estimator, X, codes, X_test, seeds):
    """Labels of the test rows by the models of several seeds."""
    return np.array(
        [estimator.set_params(random_state=s).fit(X, codes).predict(X_test) for s in range(seeds)]
    )
