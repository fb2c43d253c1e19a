"""Benchmarks of MultiBoost: fast coordinate descent (FCD) against memory and L-BFGS-B; part of tools/bench.py."""

import time
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

import common
import numpy as np
from common import Report, Timing, benchmark, error_percent, race

# Coordinates of the class whose updates are timed: enough that entering and leaving the class costs nothing.
UPDATES = 1000
SETS = ("vowel", "usps", "pendigits")
GRID = (1e2, 1e4, 1e6)
ROUNDS = 100
# Relative distances to the final objective of L-BFGS-B; the last is that of the target.
LEVELS = (1e-1, 1e-2, 1e-3, 1e-4)
WITHIN = LEVELS[-1]
LBFGS_ITERATIONS = 3000
LBFGS_MEMORIES = (10, 40)
LBFGS_TOLERANCE = 1e-9
FCD_PASSES = 3000
FCD_TOLERANCE = 1e-9
# Seconds for the further runs on one problem.
BUDGET = 20
SEEDS = 10
# Test errors of the authors' code with depth-2 trees on the official parts, by passes.
AUTHORS_ERRORS = {("pendigits", 1): 3.23, ("pendigits", 5): 3.00, ("usps", 1): 7.32}
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
    from pymcboost.totally_corrective import FCD, Columns, pack

    from pymcboost.data import TrainingData

    generator = np.random.default_rng(0)
    y = generator.integers(0, K, m)
    data = TrainingData(generator.random((m, 1), dtype=np.float32), y, K, np.ones(m), n_threads=1)
    bits = pack(np.where(generator.random((n, m)) < 0.5, np.int8(-1), np.int8(1)))
    columns = Columns.of_classes(bits, np.ones(n), np.zeros(n, dtype=np.int64), K)
    fcd = FCD(data, nu=1e-3, dtype=dtype)
    return fcd, columns


def bench_update(options, report):
    """The cost of one update, against a pass that reads and writes as many numbers."""
    from pymcboost.totally_corrective import LARGE_DATA

    sizes = (2000,) if options.quick else (10_000, 20_000, 60_000)
    listed = np.ones(UPDATES, dtype=bool)
    per_row = {}
    for dtype in (np.float32, np.float64):
        name = np.dtype(dtype).name
        for m in sizes:
            problems = {K: random_problem(m, K, dtype) for K in (10, 26)}
            found = {K: Timing([]) for K in problems}
            limit, moved = np.inf, {}
            for _ in range(max(options.repeat, 9)):
                limit = min(limit, options.limits.plain_pass(m, 10, dtype))
                for K, (fcd, columns) in problems.items():
                    columns.w[:] = 1.0
                    fcd.restart()
                    before = columns.w.copy()
                    inner = race({"descend": lambda fcd=fcd, columns=columns: fcd.descend(columns, listed)}, 1, False)
                    found[K].seconds += inner["descend"].seconds
                    found[K].cpu += inner["descend"].cpu
                    moved[K] = int((columns.w != before).sum())
            for K, timing in found.items():
                # CPU seconds: a busy machine would lengthen the clock's, and the limit is the best of many short loops.
                per_row[name, m, K] = min(timing.cpu) / (UPDATES * m) * 1e9
                ratio = per_row[name, m, K] / limit
                report.rows.append(
                    timing.row(
                        f"one update, {name}, {m:,} rows, K={K}",
                        1e9 / (UPDATES * m),
                        "ns/row",
                        us_per_update=round(min(timing.cpu) / UPDATES * 1e6, 2),
                        limit_ns=round(limit, 4),
                        ratio=round(ratio, 2),
                        moved=f"{moved[K]} of {UPDATES}",
                    )
                )
                # Weights in float32 are taken for more rows only, as those in float64 fit into the caches before.
                if K == 10 and (dtype == np.float64 or m > LARGE_DATA):
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
    from pymcboost.totally_corrective import pack

    from pymcboost import MultiBoostCWClassifier

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
class Path:
    """Coefficients on the way of one solver, and the CPU seconds at which it had them, from the start of the solving.

    Either solver works in one thread; on a busy machine the clock would add the time of others.
    """

    seconds: list
    coefficients: list

    @classmethod
    def record(cls, solve):
        """Run ``solve(note)``, which calls ``note(w)`` at every step."""
        path = cls([], [])
        begin = time.process_time()

        def note(w):
            path.seconds.append(time.process_time() - begin)
            path.coefficients.append(w.copy())

        path.solved = solve(note)
        path.total = time.process_time() - begin
        return path

    def first_below(self, level, objective):
        """Number of steps to the first coefficients whose objective is at most ``level``; None if there are none."""
        low, high = 0, len(self.coefficients)
        while low < high:  # objectives fall from step to step
            middle = (low + high) // 2
            low, high = (low, middle) if objective(self.coefficients[middle]) <= level else (middle + 1, high)
        return low + 1 if low < len(self.coefficients) else None


class Problem:
    """All coefficients of given learners, from w = 0, by either solver."""

    def __init__(self, data, bits, owner, C):
        self.data, self.bits, self.owner = data, bits, owner
        self.nu = float(data.weight.sum()) * (data.n_classes - 1) / C

    def columns(self):
        from pymcboost.totally_corrective import Columns

        return Columns.of_classes(self.bits, np.zeros(len(self.owner)), self.owner, self.data.n_classes)

    def objective(self, w):
        from pymcboost.totally_corrective import ExpWeights

        at = self.columns()
        at.w[:] = w
        return ExpWeights(self.data, self.nu).refresh(at)

    def lbfgs(self, memory, iterations, note=None):
        """L-BFGS-B as it is, but with this memory and number of iterations: the library's own are those of a round."""
        from pymcboost import totally_corrective as tc

        noting = partial(tc.minimize, callback=note)
        with patch.multiple(tc, LBFGS_MEMORY=memory, minimize=noting):
            solver = tc.LBFGS(tc.ExpWeights(self.data, self.nu), iterations)
            return solver.solve(self.columns(), tol=LBFGS_TOLERANCE)

    def numpy_lbfgs(self, memory, iterations, note=None):
        """L-BFGS-B with the objective as one would write it with NumPy."""
        from scipy.optimize import minimize
        from threadpoolctl import threadpool_limits

        at, start, K = self.columns(), self.data.class_start, self.data.n_classes
        m = self.data.n_rows
        signs = np.unpackbits(self.bits[at.column].view(np.uint8), axis=1, count=m, bitorder="little")
        H = [1.0 - 2.0 * signs[at.ptr[c] : at.ptr[c + 1]] for c in range(K)]
        y = np.repeat(np.arange(K), np.diff(start))
        rows = np.arange(m)

        def value_and_slopes(w):
            F = np.stack([w[at.ptr[c] : at.ptr[c + 1]] @ H[c] for c in range(K)])
            U = np.exp(F - F[y, rows])
            U[y, rows] = 0.0
            value = U.sum() + self.nu * w.sum()
            U[y, rows] = -U.sum(axis=0)
            return value / scale, (self.nu + np.concatenate([H[c] @ U[c] for c in range(K)])) / scale

        scale = 1.0
        with threadpool_limits(1, user_api="blas"):
            scale = float(np.maximum(-value_and_slopes(at.w)[1], 0).max())
            return minimize(
                value_and_slopes, at.w, jac=True, method="L-BFGS-B", bounds=[(0.0, 20.0)] * len(at.w), callback=note,
                options={"maxiter": iterations, "maxcor": memory, "gtol": LBFGS_TOLERANCE, "ftol": 0.0, "maxls": 50},
            )  # fmt: skip

    def fcd(self, passes, note=None):
        """FCD as it is."""
        from pymcboost.totally_corrective import FCD

        class Noting(FCD):
            def descend(self, columns, *arguments, **more):
                found = super().descend(columns, *arguments, **more)
                note(columns.w)
                return found

        columns = self.columns()
        solver = (Noting if note else FCD)(self.data, self.nu, dtype=np.float64)
        solver.restart()
        return solver.solve(columns, max_passes=passes, tol=FCD_TOLERANCE, seed=1)


def bench_problem(what, problem, options, report):
    """Time both solvers to several levels above the lowest objective that L-BFGS-B comes to."""
    most = 50 if options.quick else LBFGS_ITERATIONS
    paths = {f"L-BFGS-B {m}": Path.record(lambda note, m=m: problem.lbfgs(m, most, note)) for m in LBFGS_MEMORIES}
    # The level is that of the better of the two; a memory that does not come so low is no peer.
    final = min(path.solved.objective for path in paths.values())
    paths["FCD"] = Path.record(lambda note: problem.fcd(100 if options.quick else FCD_PASSES, note))
    steps = {
        name: [path.first_below(final * (1 + within), problem.objective) for within in LEVELS]
        for name, path in paths.items()
    }
    runs = {name: [path] for name, path in paths.items()}
    begin = time.perf_counter()
    for _ in range(options.repeat - 1):
        if time.perf_counter() - begin > BUDGET:
            break
        for name in paths:
            if steps[name][-1]:
                solve = problem.fcd if name == "FCD" else partial(problem.lbfgs, int(name.split()[-1]))
                runs[name].append(Path.record(lambda note, s=solve, n=steps[name][-1]: s(n, note)))
    best = {
        name: [min(path.seconds[n - 1] for path in runs[name]) if n else np.inf for n in steps[name]] for name in paths
    }
    peer = min((name for name in paths if name != "FCD"), key=lambda name: best[name][-1])
    for name in (peer, "FCD"):
        path = paths[name]
        report.rows.append(
            {
                "what": f"{what}: {name} to {1 + WITHIN:g}",
                "best": best[name][-1] * 1e3,
                "median": float(np.median([run.seconds[steps[name][-1] - 1] for run in runs[name]])) * 1e3
                if steps[name][-1]
                else np.inf,
                "runs": len(runs[name]),
                "unit": "ms",
                "steps": steps[name][-1],
                **{f"ms_to_{1 + w:g}": round(t * 1e3, 2) for w, t in zip(LEVELS[:-1], best[name], strict=False)},
                "total_ms": round(path.total * 1e3, 1),
                "total_steps": path.solved.passes,
                "objective_at_its_end": path.solved.objective,
                "coordinates": len(problem.owner),
            }
        )
        if path.solved.passes >= (most if name != "FCD" else FCD_PASSES):
            report.notes.append(f"{what}: {name} was still going on after {path.solved.passes} steps")
    if steps[peer][-1]:
        path = Path.record(lambda note: problem.numpy_lbfgs(int(peer.split()[-1]), steps[peer][-1], note))
        report.rows.append(
            {
                "what": f"{what}: the same steps of L-BFGS-B, objective in NumPy",
                "best": path.total * 1e3,
                "unit": "ms",
                "times_FCD": round(path.total / best["FCD"][-1], 1),
                "objective_at_its_end": problem.objective(path.coefficients[-1]),
            }
        )
    for at, within in enumerate(LEVELS):
        ratio = best[peer][at] / best["FCD"][at]
        if within == WITHIN:
            report.target(f"{what}, to {1 + within:g}: L-BFGS-B's time / FCD's", ratio, 10)
        else:
            report.rows.append(
                {"what": f"{what}, to {1 + within:g}: L-BFGS-B's time / FCD's", "best": ratio, "unit": "x"}
            )


def bench_solvers(options, report):
    """FCD against SciPy's L-BFGS-B with our compiled objective, on learners of real trainings."""
    rounds = 10 if options.quick else ROUNDS
    for name in options.data or SETS:
        X, y, _, _ = common.load_official(name)
        codes = np.searchsorted(np.unique(y), y)
        data, bits, owner = generated_columns(X, codes, rounds)
        for C in GRID:
            bench_problem(f"{name}, C={C:.0e}", Problem(data, bits, owner, C), options, report)


# --------------------------------------------------------------------------------------------------------------------
# FCD and L-BFGS-B in training

TRAINING_RUNS = 2


def bench_training(options, report):
    """Trainings: what either solver takes, over all rounds, to the objective that L-BFGS-B's training ends with."""
    import reproduce_multiboost as trainings

    rounds = 10 if options.quick else ROUNDS
    for name in options.data or SETS:
        units = trainings.fcd_units([name], 1, rounds)
        found = {}
        for unit in units:
            at = unit["solver"], unit["rounds"]
            if unit["rounds"] > rounds or at[0].startswith("lbfgs"):
                found[at] = [trainings.fit_fcd(unit) for _ in range(1 if options.quick else TRAINING_RUNS)]
        # The peer: as the library calls it, or ended by SciPy's own bound on the change where that takes less time.
        least = {at: min(run["solver_seconds"] for run in runs) for at, runs in found.items()}
        peer = min((at for at in found if at[0].startswith("lbfgs")), key=least.get)
        level = (1 + WITHIN) * float(found[peer][0]["objective"])
        theirs, _ = _to_level(found[peer], level)
        best = np.inf
        for (solver, count), runs in found.items():
            seconds, needed = _to_level(runs, level)
            report.rows.append(
                {
                    "what": f"{name}, training by {solver}: to {1 + WITHIN:g} of {peer[0]}'s objective",
                    "best": seconds, "runs": len(runs), "unit": "s", "rounds": needed or f"not in {count}",
                    "objective at its end": float(runs[0]["objective"]),
                    "whole training s": min(run["seconds"] for run in runs),
                }
            )  # fmt: skip
            if not solver.startswith("lbfgs"):
                best = min(best, seconds)
        report.target(f"{name}, in training, to {1 + WITHIN:g}: L-BFGS-B's time / FCD's", theirs / best, 10)


def _to_level(runs, level):
    """What `first_below` says of the fastest run."""
    from reproduce_multiboost import first_below

    return min((first_below(run, level) for run in runs), key=lambda found: found[0])


# --------------------------------------------------------------------------------------------------------------------
# Fits


def bench_fits(options, report):
    """Whole fits of MultiBoost-cw."""
    from pymcboost import MultiBoostCWClassifier

    def fit(X, y, **parameters):
        return MultiBoostCWClassifier(**{"n_jobs": 1, "random_state": 0, **parameters}).fit(X, y)

    rounds = 10 if options.quick else ROUNDS
    X, y, X_test, y_test = common.load("pendigits")
    stage = {"C": 1e8, "max_passes": 1}
    cases = {
        f"pendigits, {rounds} rounds of stumps, stage-wise": ("pendigits", rounds, stage),
        f"pendigits, {rounds} rounds of stumps, 5 passes": ("pendigits", rounds, {"max_passes": 5}),
        f"pendigits, {rounds} rounds of depth-2 trees, stage-wise": ("pendigits", rounds, {**stage, **DEPTH_2}),
        f"pendigits, {rounds} rounds of depth-2 trees, 5 passes": (
            "pendigits",
            rounds,
            {"C": 1e8, "max_passes": 5, **DEPTH_2},
        ),
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
            # Stage-wise nothing is random.
            seeds = range(1 if parameters["max_passes"] == 1 else SEEDS)
            errors = [
                error_percent(
                    y_test, fit(X, y, n_estimators=count, **{**parameters, "random_state": seed}).predict(X_test)
                )
                for seed in seeds
            ]
            more[f"mean_error_of_{len(seeds)}_seeds"] = round(float(np.mean(errors)), 3)
            if not options.quick:
                bound = AUTHORS_ERRORS[name, parameters["max_passes"]]
                report.target(
                    f"{what}: mean test error", round(float(np.mean(errors)), 2), bound, at_most=True, unit="%"
                )
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
    """Fast coordinate descent: an update against memory, trainings and solutions against L-BFGS-B's, and fits."""
    report = Report(
        {
            "update": f"{UPDATES} listed coordinates of one class of random labels and learners, one call; limit: a C "
            "loop that multiplies as many numbers of the type, measured in turn with it",
            "solvers": f"all learners that {ROUNDS} rounds of MultiBoost-cw (defaults) generated on the official "
            f"training part, from w = 0 to {1 + WITHIN:g} times the final objective of L-BFGS-B, in float64",
            "L-BFGS-B": f"SciPy's, compiled objective, memory {' and '.join(map(str, LBFGS_MEMORIES))} (the faster "
            f"counts), at most {LBFGS_ITERATIONS} iterations, projected gradient {LBFGS_TOLERANCE:g} of the first, no "
            "bound on the change; CPU seconds to the first iterate below the level",
            "FCD": f"at most {FCD_PASSES} passes, violation {FCD_TOLERANCE:g} of the first; CPU seconds to the "
            "first pass below the level",
            "in training": "MultiBoost-cw, C = 1e4, a random 75% of all rows; CPU seconds of all rounds in the solver "
            f"and in the weights that it leaves; L-BFGS-B for {ROUNDS} rounds, FCD in as many, or up to half as many "
            "again, as it needs for the objective; weak learners are outside the clock; the fastest number of passes "
            "counts",
            "threads": 1,
            "data_preparation": "fits: timed; solvers and trainings: none on either side",
        }
    )
    bench_update(options, report)
    bench_training(options, report)
    bench_solvers(options, report)
    bench_fits(options, report)
    return report
