"""HingeBoost.OC: what a margin-rescaled SVM costs beside a plain one, a round beside its SVMs, whole fits."""

import contextlib
import time

import numpy as np
from common import DataMissing, Report, Timing, benchmark, error_percent, load_official, race

# At most this much per LIBSVM iteration beside a plain C-SVC; and at most this share of a round besides its SVMs.
PER_ITERATION, REST = 1.3, 0.2
# Rows of a solve, whose kernel is the same for both; C in front of the mean loss.
ROWS, C = 3000, 64.0


def first_round(name, kernel, rows):
    """Kernel, rows and signs of one class against all others, and margins as they are after some rounds."""
    from pymcboost.model.scale import Scale
    from pymcboost.svm import kernel_block

    X, y, _, _ = load_official(name)
    X = Scale.from_range(X.min(axis=0), X.max(axis=0)).apply(X[:rows])
    sign = np.where(y[:rows] == y[0], 1, -1).astype(np.int8)
    margins = np.random.default_rng(0).normal(0.5, 0.5, len(X))
    return X, sign, margins, lambda begin, end: kernel_block(X[begin:end], X, kernel, 1 / X.shape[1], 0.0, 3)


def bench_solves(options, report):
    from pymcboost.svm import LibsvmKernel

    rows = 500 if options.quick else ROWS
    for kernel in ("linear", "rbf", "perceptron"):
        _, sign, margins, block = first_round("pendigits", kernel, rows)
        m = len(sign)
        machine = LibsvmKernel(m, block)
        c = C / m
        # The plain problem: LIBSVM on the same rows of the same kernel, without anchors.
        labels, address = sign.astype(np.float64), machine._address[:m].copy()
        competitors = {
            "plain": lambda machine=machine, labels=labels, address=address, c=c: machine._train(
                labels, address, c, 1e-3
            )[2],
            "margin-rescaled": lambda machine=machine, sign=sign, margins=margins, c=c: (
                machine.solve(sign, margins, c, 1e-3).n_iter
            ),
        }
        timings = race(competitors, options.repeat)
        per = {name: timing.best / max(timing.value, 1) for name, timing in timings.items()}
        for name, timing in timings.items():
            report.rows.append(
                timing.row(
                    f"{kernel}, {name}", iterations=timing.value, microseconds_per_iteration=round(1e6 * per[name], 3)
                )
            )
        ratio = per["margin-rescaled"] / per["plain"]
        report.target(
            f"{kernel}: per iteration, margin-rescaled / plain", round(ratio, 3), PER_ITERATION, at_most=True, unit="x"
        )


def bench_rounds(options, report):
    """Time of the SVMs inside the rounds of a fit against the whole rounds."""
    import pymcboost
    from pymcboost import svm

    X, y, _, _ = load_official("pendigits")
    X, y = (X[:500], y[:500]) if options.quick else (X, y)
    for kernel, solver in (("linear", "coordinate"), ("perceptron", "coordinate"), ("perceptron", "libsvm")):
        cls = {"linear": svm.LinearRows, "perceptron": svm.DenseKernel}[kernel]
        cls = svm.LibsvmKernel if solver == "libsvm" else cls
        model = pymcboost.HingeBoostOCClassifier(
            n_estimators=5 if options.quick else 50, C=C, kernel=kernel, solver=solver, scale=True, random_state=0,
            n_jobs=1,
        )  # fmt: skip
        solves, rests, fits = [], [], []
        for _ in range(options.repeat if kernel == "linear" else 1):
            with _clock(cls, "solve") as solve, _clock(pymcboost.HingeBoostOCClassifier, "_round") as whole:
                begin = time.perf_counter()
                model.fit(X, y)
                fits.append(time.perf_counter() - begin)
            solves.append(solve[0])
            rests.append(whole[0] - solve[0])
        what = f"pendigits, {kernel}, {solver}"
        report.rows.append(
            Timing(fits).row(
                what, rounds=model.n_estimators_, solves_s=round(min(solves), 3), rest_s=round(min(rests), 3)
            )
        )
        share = round(min(rests) / min(solves), 3)
        report.target(f"{what}: all else in a round / its solves", share, REST, at_most=True, unit="x")


@contextlib.contextmanager
def _clock(cls, name):
    """Seconds spent in a method of a class, in a list of one."""
    spent, method = [0.0], getattr(cls, name)

    def timed(self, *arguments):
        begin = time.perf_counter()
        found = method(self, *arguments)
        spent[0] += time.perf_counter() - begin
        return found

    setattr(cls, name, timed)
    try:
        yield spent
    finally:
        setattr(cls, name, method)


def bench_fits(options, report):
    import pymcboost

    rounds = 5 if options.quick else 200
    for name, C in (("news20-bydate", 10.0), ("mnist", 10.0)):
        try:
            X, y, X_test, y_test = load_official(name)
        except DataMissing as error:
            report.notes.append(str(error))
            continue
        begin = time.perf_counter()
        model = pymcboost.HingeBoostOCClassifier(rounds, C=C, scale=True, random_state=0, n_jobs=1).fit(X, y)
        seconds = time.perf_counter() - begin
        error = error_percent(y_test, model.predict(X_test))
        what = f"{name}, linear, {rounds} rounds"
        report.rows.append(Timing([seconds]).row(what, test_error_percent=round(error, 2)))
        report.target(f"{name}: minutes of {rounds} rounds", round(seconds / 60, 2), 30, at_most=True, unit="min")
        if hasattr(X_test, "indptr"):
            continue
        part = np.ascontiguousarray(X_test[:2000], dtype=np.float32)
        coef = model.model_.ensemble.coef.astype(np.float64)
        timings = race(
            {
                "scoring": lambda model=model, part=part: model.model_.raw_scores(part, n_jobs=1),
                "one product": lambda part=part, coef=coef: part.astype(np.float64) @ coef.T,
            },
            options.repeat,
        )
        for what, timing in timings.items():
            report.rows.append(timing.row(f"{name}, 2,000 rows: {what}"))


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
