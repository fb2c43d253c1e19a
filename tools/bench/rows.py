"""Percentiles of the time of one row and of small batches in C."""

import tempfile
from pathlib import Path

import numpy as np
from shared.datasets import coded
from shared.measure import write_rows

from bench.early import TREES, trained
from bench.limits import run_c
from bench.report import Report, benchmark
from bench.trees import tree_data

# Rows of a call, whether caches are cold, and threads that call at once.
CALLS = ((1, 0, 1), (2, 0, 1), (4, 0, 1), (8, 0, 1), (16, 0, 1), (1, 1, 1), (1, 0, 8), (1, 1, 8))
BUILDS = {"-O2": ["-O2"], "-O2 -DMCB_SIMD": ["-O2", "-DMCB_SIMD"]}
# Microseconds: the median of one row and of a row of 8; times the median that p99.9 may take.
ONE = 2.0
OF_EIGHT = 1.0
TAIL = 3
# The same of one row of models with all defaults, by data set.
ONE_OF_DEFAULTS = {"optdigits": 4.0, "letter": 12.0}
# Calls of one row that may take longer than that, beyond those of an empty loop of the same length.
OVER = 0.001


@benchmark("rows")
def bench_rows(options):
    """One row, and batches of 2 to 16, of 200 vector trees of 100 leaves in C: percentiles, warm and cold caches."""
    if options.defaults:
        return rows_of_defaults(options)
    rounds = options.rounds or options.size(20, 200)
    report = Report(
        {
            "model": f"{rounds} vector trees, "
            + ", ".join(f"{name}={value}" for name, value in TREES.items()),
            "time": "microseconds a row; best: median over rows of each one's least time; p99, p99.9: of all calls",
            "cold": "8 MB of other memory are written before each call",
            "empty": "a loop without memory, as long as a call, timed after each call",
            "over": f"% of calls that take more than {TAIL} medians",
        }
    )
    for name in options.data or ("optdigits",):
        X, codes, X_test, _ = coded(tree_data(name, options))
        with tempfile.TemporaryDirectory(prefix="mcboost-rows-") as folder:
            saved, stored = Path(folder, "model.mcb"), Path(folder, "rows.bin")
            trained(X, codes, rounds).save(saved)
            rows = np.ascontiguousarray(X_test[:1024], np.float32)
            write_rows(stored, rows)
            for build, flags in BUILDS.items():
                for group, cold, threads in CALLS:
                    words = [
                        options.size(2, 40) if not cold else 2,
                        saved,
                        stored,
                        group,
                        cold,
                        threads,
                    ]
                    measured = run_c(
                        "score_latency.c",
                        folder,
                        flags,
                        words=words,
                        libraries=("-lm", "-lpthread"),
                    )
                    what = f"{name}, {build}: {'cold, ' if cold else ''}{group} a call"
                    what += f", {threads} threads" * (threads > 1)
                    call = row_of(what, measured["ns"])
                    empty = row_of(f"{what}, empty", measured["empty"])
                    report.rows += [call, empty]
                    if build == "-O2" or cold or threads > 1 or group not in (1, 8):
                        continue
                    p50 = call["p50"]
                    report.target(
                        f"{what}: median",
                        p50,
                        ONE if group == 1 else OF_EIGHT,
                        at_most=True,
                        unit="us",
                    )
                    if group == 1:
                        report.target(
                            f"{what}: p99.9 / median", call["p99.9"] / p50, TAIL, at_most=True
                        )
                        beyond = call["over %"] - empty["over %"]
                        target = f"{what}: above {TAIL} medians, beyond the empty loop"
                        report.target(target, beyond, 100 * OVER, at_most=True, unit="%")
    return report


def rows_of_defaults(options):
    """One row of `VectorTreeBoostClassifier` with all defaults, prepared, in a build with MCB_SIMD."""
    from pymcboost import VectorTreeBoostClassifier

    report = Report(
        {
            "model": "vector trees with all defaults",
            "time": "microseconds a call of one row, warm caches",
        }
    )
    build = "-O2 -DMCB_SIMD"
    for name in options.data or options.size(("optdigits",), tuple(ONE_OF_DEFAULTS)):
        X, codes, X_test, _ = coded(tree_data(name, options))
        more = {"n_estimators": 20} if options.quick else {}
        model = VectorTreeBoostClassifier(random_state=0, n_jobs=1, **more).fit(X, codes).model_
        with tempfile.TemporaryDirectory(prefix="mcboost-rows-") as folder:
            saved, stored = Path(folder, "model.mcb"), Path(folder, "rows.bin")
            model.save(saved)
            write_rows(stored, np.ascontiguousarray(X_test[:1024], np.float32))
            words = [options.size(2, 40), saved, stored, 1, 0, 1]
            measured = run_c(
                "score_latency.c",
                folder,
                BUILDS[build],
                words=words,
                libraries=("-lm", "-lpthread"),
            )
        what = f"{name}, {build}, defaults: 1 a call"
        call = row_of(what, measured["ns"])
        empty = row_of(f"{what}, empty", measured["empty"])
        ensemble = model.ensemble
        call |= {
            "trees": model.n_learners,
            "splits": len(ensemble.threshold),
            "classes": model.n_classes_,
        }
        report.rows += [call, empty]
        if name in ONE_OF_DEFAULTS:
            report.target(
                f"{what}: median", call["p50"], ONE_OF_DEFAULTS[name], at_most=True, unit="us"
            )
        report.target(f"{what}: p99.9 / median", call["p99.9"] / call["p50"], TAIL, at_most=True)
    return report


def row_of(what, words):
    """Row of a report from a line of the C program."""
    p50, p99, p999, best = (1e-3 * float(word) for word in words[:4])
    over = 100 * float(words[4])
    return {
        "what": what,
        "best": best,
        "unit": "us",
        "p50": p50,
        "p99": p99,
        "p99.9": p999,
        "over %": over,
    }
