"""Benchmarks of MultiBoost: fast coordinate descent (FCD) against memory and L-BFGS-B; part of tools/bench.py."""

import time
from dataclasses import dataclass

import common
import numpy as np
from common import Report, Timing, benchmark, error_percent, race

# Coordinates of the class whose updates are timed: enough that entering and leaving the class costs nothing.
UPDATES = 1000
SETS = ("vowel", "usps", "pendigits")
GRID = (1e2, 1e4, 1e6)
ROUNDS = 100
# Reached is what comes within this of the objective of L-BFGS-B, relatively.
WITHIN = 1e-4
LBFGS_ITERATIONS = 15_000
LBFGS_TOLERANCE = 1e-6
DEPTH_2 = {"weak_learner": "tree", "max_leaf_nodes": 4, "max_depth": 2}
# Published by the authors for their MATLAB code with depth-2 trees.
AUTHORS = {("pendigits", 100, 1): 11.0, ("pendigits", 100, 5): 25.0, ("usps", 50, 1): 13.5}


# --------------------------------------------------------------------------------------------------------------------
# One update


def random_problem(m, K, dtype, n=UPDATES):
    """FCD on random labels, with ``n`` random learners of class 0.

    Their coefficients begin at 1 while the weights are those of 0, so that each update finds a coefficient above 0 that
    is a little different: all of them write.
    """
    from pymcboost.data import TrainingData
    from pymcboost.totally_corrective import FCD, Columns, pack

    generator = np.random.default_rng(0)
    y = generator.integers(0, K, m)
    data = TrainingData(generator.random((m, 1), dtype=np.float32), y, K, np.ones(m), n_threads=1)
    bits = pack(np.where(generator.random((n, m)) < 0.5, np.int8(-1), np.int8(1)))
    columns = Columns.of_classes(bits, np.ones(n), np.zeros(n, dtype=np.int64), K)
    fcd = FCD(data, nu=1e-3, dtype=dtype)
    return fcd, columns


def bench_update(options, report):
    """The cost of one update, against a pass that reads and writes as many numbers."""
    sizes = (2000,) if options.quick else (10_000, 60_000)
    listed = np.ones(UPDATES, dtype=bool)
    per_row = {}
    for dtype in (np.float32, np.float64):
        name = np.dtype(dtype).name
        for m in sizes:
            problems = {K: random_problem(m, K, dtype) for K in (10, 26)}
            found = {K: Timing([]) for K in problems}
            limit, moved = np.inf, {}
            for _ in range(max(options.repeat, 3)):
                limit = min(limit, options.limits.plain_pass(m, 2, dtype))
                for K, (fcd, columns) in problems.items():
                    columns.w[:] = 1.0
                    fcd.restart()
                    before = columns.w.copy()
                    inner = race({"descend": lambda fcd=fcd, columns=columns: fcd.descend(columns, listed)}, 1, False)
                    found[K].seconds += inner["descend"].seconds
                    found[K].cpu += inner["descend"].cpu
                    moved[K] = int((columns.w != before).sum())
            for K, timing in found.items():
                per_row[name, m, K] = timing.best / (UPDATES * m) * 1e9
                ratio = per_row[name, m, K] / limit
                report.rows.append(
                    timing.row(
                        f"one update, {name}, {m:,} rows, K={K}",
                        1e9 / (UPDATES * m),
                        "ns/row",
                        us_per_update=round(timing.best / UPDATES * 1e6, 2),
                        limit_ns=round(limit, 4),
                        ratio=round(ratio, 2),
                        moved=f"{moved[K]} of {UPDATES}",
                    )
                )
                if K == 10:
                    report.target(f"update, {name}, {m:,} rows: time / that of a plain pass", ratio, 2.5, at_most=True)
            report.target(
                f"update, {name}, {m:,} rows: time with K=26 / with K=10",
                per_row[name, m, 26] / per_row[name, m, 10],
                1.1,
                at_most=True,
            )


# --------------------------------------------------------------------------------------------------------------------
# FCD and L-BFGS-B on the same learners


def generated_columns(X, codes, rounds, **parameters):
    """Data, learners' bits and classes of a training with MultiBoost-cw; all learners that it generated, each once."""
    from pymcboost import MultiBoostCWClassifier
    from pymcboost.totally_corrective import pack

    kept = {}

    class Recorder(MultiBoostCWClassifier):
        def _start(self, data, n_threads):
            super()._start(data, n_threads)
            kept["data"] = data
            learner = self._state.learner
            fit = learner.fit

            def recorded(gradient):
                found = fit(gradient)
                bits = pack(np.stack([one.h for one in found]))
                for one, row in zip(found, bits, strict=True):
                    kept.setdefault("columns", {}).setdefault((one.cls, row.tobytes()), row)
                return found

            learner.fit = recorded

    Recorder(n_estimators=rounds, n_jobs=1, random_state=0, **parameters).fit(X, codes)
    owner = np.array([cls for cls, _ in kept["columns"]])
    return kept["data"], np.stack(list(kept["columns"].values())), owner


@dataclass
class Solutions:
    """What the two solvers needed on one problem; times in seconds, Timing where measured several times."""

    coordinates: int
    objective: float  # of L-BFGS-B at its end
    fcd: Timing
    fcd_passes: int
    fcd_updates: int
    fcd_end: float  # objective of FCD when it is given all the passes it wants
    reach: Timing
    reach_iterations: int
    total: float
    total_iterations: int
    memory: int
    exact: bool


def solve_both(data, bits, owner, C, options):
    """Time FCD and L-BFGS-B from w = 0 to the level of L-BFGS-B's final objective."""
    from pymcboost import totally_corrective as tc

    K = data.n_classes
    nu = float(data.weight.sum()) * (K - 1) / C

    def columns():
        return tc.Columns.of_classes(bits, np.zeros(len(owner)), owner, K)

    def minimise(memory, iterations, callback=None):
        """L-BFGS-B as it is, but with its memory and iterations; the library's own are for one round of many."""
        kept = tc.LBFGS_MEMORY
        tc.LBFGS_MEMORY = memory
        try:
            at = columns()
            return tc.LBFGS(tc.ExpWeights(data, nu), iterations).solve(at, tol=LBFGS_TOLERANCE, callback=callback)
        finally:
            tc.LBFGS_MEMORY = kept

    # The run to the end, with each memory; the iterates are kept and their objectives found after it.
    runs = {}
    most = 50 if options.quick else LBFGS_ITERATIONS
    for memory in (10, 40):
        iterates = []
        begin = time.perf_counter()
        solved = minimise(memory, most, lambda w, kept=iterates: kept.append(w.copy()))
        runs[memory] = (solved, time.perf_counter() - begin, iterates)
    # The level is that of the better of the two; a memory that does not come so low is no peer.
    final = min(solved.objective for solved, _, _ in runs.values())
    level = final * (1 + WITHIN)
    weights = tc.LBFGS(tc.ExpWeights(data, nu))
    first_at = {}
    for memory, (_, _, iterates) in runs.items():
        low, high = 0, len(iterates)  # objectives of iterates fall: the first below the level by bisection
        while low < high:
            middle = (low + high) // 2
            at = columns()
            at.w[:] = iterates[middle]
            low, high = (low, middle) if weights.objective(at) <= level else (middle + 1, high)
        if low < len(iterates):
            first_at[memory] = low + 1
    timed = {f"L-BFGS-B {memory}": (lambda m=memory, n=n: minimise(m, n)) for memory, n in first_at.items()}

    class Watched(tc.FCD):
        """Notes the objective after every pass, and ends at the level."""

        def descend(self, columns, *arguments, **more):
            found = super().descend(columns, *arguments, **more)
            self.passes += 1
            if self.objective(columns) <= level:
                raise StopIteration
            return found

    def descend(passes):
        at = columns()
        fcd = tc.FCD(data, nu)
        fcd.restart()
        return fcd.solve(at, max_passes=passes, tol=0.0, seed=1)

    watched = Watched(data, nu)
    watched.passes = 0
    watched.restart()
    try:
        watched.solve(columns(), max_passes=5000, tol=0.0, seed=1)
        passes = None
    except StopIteration:
        passes = watched.passes
    timed["FCD"] = lambda: descend(passes or 5000)
    timings = race(timed, options.repeat, budget=60)
    memory = min(first_at, key=lambda memory: timings[f"L-BFGS-B {memory}"].best)
    fcd = tc.FCD(data, nu)
    fcd.restart()
    end = fcd.solve(columns(), max_passes=2000, tol=1e-6, seed=1).objective
    solved, total, _ = runs[memory]
    return Solutions(
        len(owner), final, timings["FCD"], passes, timings["FCD"].value.updates, end, timings[f"L-BFGS-B {memory}"],
        first_at[memory], total, solved.passes, memory, solved.passes < most,
    )  # fmt: skip


def bench_solvers(options, report):
    """FCD against SciPy's L-BFGS-B with our compiled objective, on learners of real trainings."""
    rounds = 10 if options.quick else ROUNDS
    for name in options.data or SETS:
        X, y, _, _ = common.load_official(name)
        codes = np.searchsorted(np.unique(y), y)
        data, bits, owner = generated_columns(X, codes, rounds)
        for C in GRID:
            one = solve_both(data, bits, owner, C, options)
            what = f"{name}, C={C:.0e}"
            report.rows.append(
                one.fcd.row(
                    f"{what}: FCD to the level",
                    1e3,
                    "ms",
                    coordinates=one.coordinates,
                    passes=one.fcd_passes,
                    updates=one.fcd_updates,
                    objective_at_its_end=one.fcd_end,
                )
            )
            report.rows.append(
                one.reach.row(
                    f"{what}: L-BFGS-B to the level",
                    1e3,
                    "ms",
                    iterations=one.reach_iterations,
                    total_ms=round(one.total * 1e3, 1),
                    total_iterations=one.total_iterations,
                    memory=one.memory,
                    objective_at_its_end=one.objective,
                )
            )
            report.target(f"{what}: L-BFGS-B's time / FCD's", one.reach.best / one.fcd.best, 10)
            if not one.exact:
                report.notes.append(f"{what}: L-BFGS-B was still going on after {one.total_iterations} iterations")
            if one.fcd_passes is None:
                report.notes.append(f"{what}: FCD did NOT reach the level")


# --------------------------------------------------------------------------------------------------------------------
# Fits


def bench_fits(options, report):
    """Whole fits of MultiBoost-cw."""
    from pymcboost import MultiBoostCWClassifier

    def fit(X, y, **parameters):
        return MultiBoostCWClassifier(n_jobs=1, random_state=0, **parameters).fit(X, y)

    rounds = 10 if options.quick else ROUNDS
    X, y, X_test, y_test = common.load("pendigits")
    stage = {"C": 1e8, "max_passes": 1}
    cases = {
        f"pendigits, {rounds} rounds of stumps, stage-wise": ("pendigits", rounds, stage),
        f"pendigits, {rounds} rounds of stumps, 5 passes": ("pendigits", rounds, {"max_passes": 5}),
        f"pendigits, {rounds} rounds of depth-2 trees, stage-wise": ("pendigits", rounds, {**stage, **DEPTH_2}),
        f"pendigits, {rounds} rounds of depth-2 trees, 5 passes": ("pendigits", rounds, {"max_passes": 5, **DEPTH_2}),
        f"usps, {rounds // 2} rounds of depth-2 trees, stage-wise": ("usps", rounds // 2, {**stage, **DEPTH_2}),
    }
    for what, (name, count, parameters) in cases.items():
        X, y, X_test, y_test = common.load(name)
        timing = race({what: lambda n=count, p=parameters, X=X, y=y: fit(X, y, n_estimators=n, **p)}, options.repeat)[
            what
        ]
        model = timing.value
        more = {"C": model.C, "rounds": model.n_estimators_, "learners": model.sparsity_["learners"]}
        more["test_error_percent"] = round(error_percent(y_test, model.predict(X_test)), 2)
        if "depth-2" in what:
            theirs = AUTHORS.get((name, count, parameters["max_passes"]))
            if theirs:
                more["authors_other_machine_s"] = theirs
        report.rows.append(timing.row(what, **more))
        if what == f"pendigits, {ROUNDS} rounds of stumps, stage-wise":
            report.target(f"{what}: seconds", timing.best, 1, at_most=True, unit="s")
    report.notes.append(
        "authors other machine s: what the authors of MultiBoost-cw give for their MATLAB code on hardware of their "
        "own, here for scale only; no ratio of it would mean anything"
    )


@benchmark("fcd")
def bench_fcd(options):
    """Fast coordinate descent: one update against memory, a solution against L-BFGS-B's, and fits of MultiBoost-cw."""
    report = Report(
        {
            "update": f"{UPDATES} listed coordinates of one class of random labels and learners, one call; limit: a C "
            "loop that multiplies as many numbers of the type, measured in turn with it",
            "solvers": f"all learners that {ROUNDS} rounds of MultiBoost-cw (defaults) generated on the official "
            f"training part, from w = 0 to {1 + WITHIN:g} times the final objective of L-BFGS-B, in float64",
            "L-BFGS-B": "SciPy's, compiled objective, memory 10 and 40 (the faster counts), at most "
            f"{LBFGS_ITERATIONS} iterations, projected gradient {LBFGS_TOLERANCE:g} of the first, no bound on the "
            "change; timed to the first iterate below the level, with only so many iterations",
            "FCD": "with as many passes as come below the level, tolerance 0",
            "threads": 1,
            "data_preparation": "fits: timed; solvers: none on either side",
        }
    )
    bench_update(options, report)
    bench_solvers(options, report)
    bench_fits(options, report)
    return report
