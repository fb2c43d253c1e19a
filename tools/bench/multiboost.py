"""MultiBoost: fast coordinate descent (FCD) against memory and L-BFGS-B."""

import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
from reproduce.multiboost import DEPTH_2, estimator
from reproduce.multiboost_fcd import fcd_units, first_below, fit_fcd
from shared import internals
from shared.datasets import coded, load, load_official
from shared.measure import Timing, best_of, error_percent
from shared.tables import published

from bench.report import Report, benchmark

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
# Seconds for the further runs on one problem, runs of a training, seeds of an error.
BUDGET, TRAINING_RUNS, SEEDS = 20, 2, 10
AUTHORS = published("multiboost-authors", index=2)


# --------------------------------------------------------------------------------------------------------------------
# One update


def random_problem(m, K, dtype, n=UPDATES):
    """FCD on random labels, with ``n`` random learners of class 0.

    Their coefficients begin at 1 while the weights are those of 0, so that each update finds a coefficient above 0 that
    is a little different: all of them write.
    """
    generator = np.random.default_rng(0)
    y = generator.integers(0, K, m)
    data = internals.TrainingData(generator.random((m, 1), dtype=np.float32), y, K, np.ones(m), n_threads=1)
    bits = internals.pack(np.where(generator.random((n, m)) < 0.5, np.int8(-1), np.int8(1)))
    columns = internals.Columns.of_classes(bits, np.ones(n), np.zeros(n, dtype=np.int64), K)
    return internals.FCD(data, nu=1e-3, dtype=dtype), columns


def time_updates(m, dtype, options):
    """CPU timings of UPDATES updates by the number of classes, how many wrote, and a plain pass in nanoseconds."""
    listed = np.ones(UPDATES, dtype=bool)
    problems = {K: random_problem(m, K, dtype) for K in (10, 26)}
    found, limit, moved = {K: Timing() for K in problems}, np.inf, {}
    for _ in range(max(options.repeat, 9)):
        limit = min(limit, options.limits.plain_pass(m, 10, dtype))
        for K, (fcd, columns) in problems.items():
            columns.w[:] = 1.0
            fcd.start()
            before = columns.w.copy()
            found[K].run(lambda fcd=fcd, columns=columns: fcd.descend(columns, listed))
            moved[K] = int((columns.w != before).sum())
    return found, moved, limit


def bench_update(options, report):
    """The cost of one update, against a pass that reads and writes as many numbers."""
    for dtype in (np.float32, np.float64):
        for m in options.size((2000,), (10_000, 20_000, 60_000)):
            what, per_row = f"update, {np.dtype(dtype).name}, {m:,} rows", {}
            found, moved, limit = time_updates(m, dtype, options)
            for K, timing in found.items():
                # CPU seconds: a busy machine would lengthen the clock's; the limit is the best of many short loops.
                per_row[K] = timing.best_cpu / (UPDATES * m) * 1e9
                ratio = per_row[K] / limit
                more = {"us_per_update": round(timing.best_cpu / UPDATES * 1e6, 2), "limit_ns": round(limit, 4)}
                more |= {"ratio": round(ratio, 2), "moved": f"{moved[K]} of {UPDATES}"}
                report.rows.append(timing.row(f"one {what}, K={K}", 1e9 / (UPDATES * m), "ns/row", **more))
                # Weights in float32 are taken for more rows only, as those in float64 fit into the caches before.
                if K == 10 and (dtype == np.float64 or m > internals.LARGE_DATA):
                    report.target(f"{what}: time / that of a plain pass", ratio, 2.5, at_most=True)
            ratio = per_row[26] / per_row[10]
            report.target(f"{what}: time with K=26 / with K=10", ratio, 1.1, at_most=True)


# --------------------------------------------------------------------------------------------------------------------
# FCD and L-BFGS-B on the same learners


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
        return internals.Columns.of_classes(self.bits, np.zeros(len(self.owner)), self.owner, self.data.n_classes)

    def objective(self, w):
        at = self.columns()
        at.w[:] = w
        return internals.ExpWeights(self.data, self.nu).refresh(at)

    def lbfgs(self, memory, iterations, note=None):
        """L-BFGS-B as it is, but with this memory and number of iterations: the library's own are those of a round."""
        with internals.lbfgs_memory(memory), internals.minimize_with(callback=note) if note else nullcontext():
            solver = internals.LBFGS(internals.ExpWeights(self.data, self.nu), iterations)
            return solver.solve(self.columns(), tol=LBFGS_TOLERANCE)

    def numpy_lbfgs(self, memory, iterations, note=None):
        """L-BFGS-B with the objective as one would write it with NumPy."""
        from scipy.optimize import minimize
        from threadpoolctl import threadpool_limits

        at, K, m = self.columns(), self.data.n_classes, self.data.n_rows
        signs = np.unpackbits(self.bits[at.column].view(np.uint8), axis=1, count=m, bitorder="little")
        H = [1.0 - 2.0 * signs[at.ptr[c] : at.ptr[c + 1]] for c in range(K)]
        y = np.repeat(np.arange(K), np.diff(self.data.class_start))
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

        class Noting(internals.FCD):
            def descend(self, columns, *arguments, **more):
                found = super().descend(columns, *arguments, **more)
                note(columns.w)
                return found

        columns = self.columns()
        solver = (Noting if note else internals.FCD)(self.data, self.nu, dtype=np.float64)
        solver.start()
        return solver.solve(columns, max_passes=passes, tol=FCD_TOLERANCE, seed=1)


def bench_problem(what, problem, options, report):
    """Time both solvers to several levels above the lowest objective that L-BFGS-B comes to."""
    most = options.size(50, LBFGS_ITERATIONS)
    solvers = {f"L-BFGS-B {m}": partial(problem.lbfgs, m) for m in LBFGS_MEMORIES}
    paths = {name: Path.record(partial(solve, most)) for name, solve in solvers.items()}
    # The level is that of the better of the two; a memory that does not come so low is no peer.
    final = min(path.solved.objective for path in paths.values())
    solvers["FCD"] = problem.fcd
    paths["FCD"] = Path.record(partial(problem.fcd, options.size(100, FCD_PASSES)))
    steps = {
        name: [path.first_below(final * (1 + within), problem.objective) for within in LEVELS]
        for name, path in paths.items()
    }
    runs, begin = {name: [path] for name, path in paths.items()}, time.perf_counter()
    for _ in range(options.repeat - 1):
        if time.perf_counter() - begin > BUDGET:
            break
        for name, solve in solvers.items():
            if steps[name][-1]:
                runs[name].append(Path.record(partial(solve, steps[name][-1])))
    best = {
        name: [min(run.seconds[n - 1] for run in runs[name]) if n else np.inf for n in steps[name]] for name in paths
    }
    peer = min((name for name in paths if name != "FCD"), key=lambda name: best[name][-1])
    for name in (peer, "FCD"):
        report.rows.append(path_row(f"{what}: {name} to {1 + WITHIN:g}", runs[name], steps[name][-1], best[name]))
        report.rows[-1]["coordinates"] = len(problem.owner)
        if paths[name].solved.passes >= (most if name != "FCD" else FCD_PASSES):
            report.notes.append(f"{what}: {name} was still going on after {paths[name].solved.passes} steps")
    if steps[peer][-1]:
        path = Path.record(partial(problem.numpy_lbfgs, int(peer.split()[-1]), steps[peer][-1]))
        report.add(
            f"{what}: the same steps of L-BFGS-B, objective in NumPy", path.total * 1e3, "ms",
            times_FCD=round(path.total / best["FCD"][-1], 1),
            objective_at_its_end=problem.objective(path.coefficients[-1]),
        )  # fmt: skip
    for within, theirs, ours in zip(LEVELS, best[peer], best["FCD"], strict=True):
        words = f"{what}, to {1 + within:g}: L-BFGS-B's time / FCD's"
        if within == WITHIN:
            report.target(words, theirs / ours, 10)
        else:
            report.add(words, theirs / ours)


def path_row(what, runs, steps, best):
    """Row of one solver: milliseconds to the levels, and where it ended."""
    first = runs[0]
    return {
        "what": what,
        "best": best[-1] * 1e3,
        "median": float(np.median([run.seconds[steps - 1] for run in runs])) * 1e3 if steps else np.inf,
        "runs": len(runs),
        "unit": "ms",
        "steps": steps,
        **{f"ms_to_{1 + w:g}": round(t * 1e3, 2) for w, t in zip(LEVELS[:-1], best[:-1], strict=True)},
        "total_ms": round(first.total * 1e3, 1),
        "total_steps": first.solved.passes,
        "objective_at_its_end": first.solved.objective,
    }


def bench_solvers(options, report):
    """FCD against SciPy's L-BFGS-B with our compiled objective, on learners of real trainings."""
    for name in options.data or SETS:
        X, codes, _, _ = coded(load_official(name))
        generated = internals.generated_columns(X, codes, options.size(10, ROUNDS))
        for C in GRID:
            bench_problem(f"{name}, C={C:.0e}", Problem(*generated, C), options, report)


# --------------------------------------------------------------------------------------------------------------------
# Trainings and fits


def bench_training(options, report):
    """Trainings: what either solver takes, over all rounds, to the objective that L-BFGS-B's training ends with."""
    rounds = options.size(10, ROUNDS)
    for name in options.data or SETS:
        found = {}
        for unit in fcd_units([name], 1, rounds):
            at = unit["solver"], unit["rounds"]
            if unit["rounds"] > rounds or at[0].startswith("lbfgs"):
                found[at] = [fit_fcd(unit) for _ in range(options.size(1, TRAINING_RUNS))]
        # The peer: as the library calls it, or ended by SciPy's own bound on the change where that takes less time.
        least = {at: min(run["solver_seconds"] for run in runs) for at, runs in found.items()}
        peer = min((at for at in found if at[0].startswith("lbfgs")), key=least.get)
        level = (1 + WITHIN) * float(found[peer][0]["objective"])
        best = {"lbfgs": to_level(found[peer], level)[0], "fcd": np.inf}
        for (solver, count), runs in found.items():
            seconds, needed = to_level(runs, level)
            more = {"runs": len(runs), "rounds": needed or f"not in {count}"}
            more["objective at its end"] = float(runs[0]["objective"])
            more |= {"whole training s": min(run["seconds"] for run in runs), "test_error_percent": runs[0]["error"]}
            what = f"{name}, training by {solver}: to {1 + WITHIN:g} of {peer[0]}'s objective"
            report.add(what, seconds, "s", **more)
            if not solver.startswith("lbfgs"):
                best["fcd"] = min(best["fcd"], seconds)
        ratio = best["lbfgs"] / best["fcd"]
        report.target(f"{name}, in training, to {1 + WITHIN:g}: L-BFGS-B's time / FCD's", ratio, 10)


def to_level(runs, level):
    """What `first_below` says of the fastest run."""
    return min((first_below(run, level) for run in runs), key=lambda found: found[0])


def bench_fits(options, report):
    """Whole fits of MultiBoost-cw."""
    rounds = options.size(10, ROUNDS)
    stage, five = {"C": 1e8, "max_passes": 1}, {"max_passes": 5}
    cases = {
        f"pendigits, {rounds} rounds of stumps, stage-wise": stage,
        f"pendigits, {rounds} rounds of stumps, 5 passes": five,
        f"pendigits, {rounds} rounds of depth-2 trees, stage-wise": {**stage, **DEPTH_2},
        f"pendigits, {rounds} rounds of depth-2 trees, 5 passes": {"C": 1e8, **five, **DEPTH_2},
        f"usps, {rounds // 2} rounds of depth-2 trees, stage-wise": {**stage, **DEPTH_2},
    }
    for what, parameters in cases.items():
        name, count = what.split(",")[0], int(what.split()[1])
        X, codes, X_test, truth = coded(load(name))

        def fit(seed=0, count=count, parameters=parameters, X=X, codes=codes):
            return estimator("MultiBoostCW", n_estimators=count, random_state=seed, **parameters).fit(X, codes)

        timing = best_of(fit, options.repeat)
        more = {"C": timing.value.C, "learners": timing.value.sparsity_["learners"]}
        if "depth-2" in what:
            # Stage-wise nothing is random.
            seeds = range(1 if parameters["max_passes"] == 1 else SEEDS)
            mean = float(np.mean([error_percent(truth, fit(seed).predict(X_test)) for seed in seeds]))
            more[f"mean_error_of_{len(seeds)}_seeds"] = round(mean, 3)
            theirs = AUTHORS[name, str(parameters["max_passes"])]
            if count == theirs["rounds"]:
                report.target(f"{what}: mean test error", round(mean, 2), theirs["error"], at_most=True, unit="%")
                more["authors_other_machine_s"] = theirs["seconds"]
        report.rows.append(timing.fit_row(what, X_test, truth, **more))
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
    for part in (bench_update, bench_training, bench_solvers, bench_fits):
        part(options, report)
    return report
