"""Speed and size of pymcboost, against this machine's limits and against LightGBM and scikit-learn, in one run.

    python tools/bench.py --list
    python tools/bench.py NAME... [--json results/bench.json] [--repeat 5] [--quick]
    python tools/bench.py trees [--data letter covtype] [--rounds 100] [--threads 1 2] [--algorithms ...] [--peers ...]
    python tools/bench.py guard --against COMMIT     this tree against another commit (bench_guard.py)
    python tools/bench.py --markdown results/bench.json [--into docs/benchmarks.md]

Competitors are timed in turn (A B A B), after one untimed run each, and the best and the median of several runs are
reported; a ratio is the quotient of two best times of the same run. PYMCBOOST_DATA names the folder of the data sets.
"""

import argparse
import ctypes
import gzip
import itertools
import json
import math
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import bench_classic  # noqa: F401
import bench_guard
import bench_hinge  # noqa: F401
import bench_multiboost  # noqa: F401
import bench_trees
import common
import numpy as np
import peers
from common import BENCHMARKS, DataMissing, Report, benchmark, compile_c, error_percent, first_below, load, number, race

HERE = Path(__file__).resolve().parent

# --------------------------------------------------------------------------------------------------------------------
# Limits of the machine


def limit_flags():
    """Compiler flags for the widest vectors of this CPU."""
    flags = common.cpu_flags()
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags:
        return ["-O3", "-march=x86-64-v4", "-mprefer-vector-width=512"]
    if {"avx2", "fma"} <= flags:
        return ["-O3", "-march=x86-64-v3"]
    return ["-O3"]


class Limits:
    """The functions of limits/limits.c, compiled for this machine."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="mcboost-limits-")
        library = Path(self.folder.name, "limits.so")
        compile_c(HERE / "limits" / "limits.c", library, [*limit_flags(), "-shared", "-fPIC"])
        self.library = ctypes.CDLL(str(library))
        self.library.lim_widest.restype = ctypes.c_long
        self.widest = self.library.lim_widest()

    def _call(self, name, *counts, takes_data=True):
        function = getattr(self.library, name)
        function.restype = ctypes.c_double
        buffer = (ctypes.c_float * 16)(*([1.0] * 16))
        arguments = [ctypes.c_long(count) for count in counts]
        return function(*arguments, buffer) if takes_data else function(*arguments)

    def _best(self, name, *counts, repeat=5, **how):
        return min(self._call(name, *counts, **how) for _ in range(repeat))

    def clock(self, repeat=5):
        """Clock in GHz while this runs; None on CPUs for which it is not written down."""
        n = 1 << 24
        seconds = self._best("lim_clock", n, repeat=repeat, takes_data=False)
        return n / seconds / 1e9 if seconds > 0 else None

    def add(self, width, repeat=5):
        """Gflop/s of independent float additions with vectors of ``width`` bytes (4: scalar)."""
        n = 1 << 25
        return n * (width // 4) / self._best(f"lim_add_{width}", n, repeat=repeat) / 1e9

    def read(self, size, threads=1, repeat=5):
        """GB/s of reading ``size`` bytes again and again, in each of ``threads`` threads a buffer of its own."""
        passes = max(1, (1 << 28) // size)
        if threads == 1:
            return size * passes / self._best("lim_read", size, passes, repeat=repeat) / 1e9
        best = math.inf
        for _ in range(repeat):
            # The buffers are filled outside the timed part, so the slowest thread's own time is taken.
            seconds = [0.0] * threads

            def run(which, seconds=seconds):
                seconds[which] = self._call("lim_read", size, passes)

            workers = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            best = min(best, max(seconds))
        return threads * size * passes / best / 1e9

    def rmw(self, row_bytes, rows=256, repeat=7, draw=True):
        """Nanoseconds of one read-modify-write of a row of a table of ``rows`` rows: drawn, or all in turn."""
        draws, passes = 4096, 1000
        seconds = self._best(f"lim_rmw_{row_bytes}", rows, draws, passes, int(draw), repeat=repeat)
        return seconds / (draws * passes) * 1e9

    def plain_pass(self, m, repeat=5, dtype=np.float32):
        """Nanoseconds per number of reading and writing m floats (or doubles) once."""
        passes = max(1, (1 << 26) // m)
        name = "lim_pass" if dtype == np.float32 else "lim_pass_double"
        return self._best(name, m, passes, repeat=repeat) / (m * passes) * 1e9

    def all(self, repeat=5):
        """Every limit, as a flat dictionary with units in the names."""
        sizes = common.caches()
        found = {"clock_GHz": self.clock(repeat), "scalar_add_Gflops": self.add(4, repeat)}
        for width in (16, 32, 64):
            if width <= self.widest:
                found[f"vector_add_{width}B_Gflops"] = self.add(width, repeat)
        for level, size in sizes.items():
            found[f"read_{level}_GBps"] = self.read(size // 2, repeat=repeat)
        dram = 4 * max(sizes.values())
        found["read_DRAM_GBps"] = self.read(dram, repeat=min(repeat, 3))
        found["read_DRAM_2_threads_GBps"] = self.read(dram, threads=2, repeat=min(repeat, 3))
        for width in (64, 32, 16, 8):
            found[f"rmw_{width}B_L1_ns"] = self.rmw(width, repeat=repeat)
        found["rmw_64B_L2_ns"] = self.rmw(64, rows=sizes.get("L2", 1 << 20) // 2 // 64, repeat=repeat)
        found["rmw_64B_one_row_ns"] = self.rmw(64, rows=1, repeat=min(repeat, 3))
        for m in (7494, 60000, 10_000_000):
            found[f"pass_{m}_floats_ns_per_float"] = self.plain_pass(m, repeat)
        return found


# --------------------------------------------------------------------------------------------------------------------
# Reports


@dataclass
class Options:
    repeat: int
    quick: bool
    limits: Limits
    # For the benchmarks of trees; None means a benchmark's own choice.
    data: list | None = None
    algorithms: list | None = None
    peers: list | None = None
    rounds: int | None = None
    threads: list = field(default_factory=lambda: [1])
    leaves: int = 20
    learning_rate: float = 0.1


# --------------------------------------------------------------------------------------------------------------------
# LightGBM


def lightgbm_fit(X, y, rounds, threads, n_classes):
    """LightGBM with two-leaf trees, data preparation included; every other parameter is its default."""
    import lightgbm as lgb

    parameters = {
        "objective": "multiclass",
        "num_class": n_classes,
        "num_leaves": 2,
        "num_threads": threads,
        "verbosity": -1,
    }
    return lgb.train(parameters, lgb.Dataset(X, label=y), num_boost_round=rounds)


def mcboost_fit(X, y, rounds, threads, loss="exp", **more):
    """MCBoost with its defaults, data preparation included."""
    from pymcboost import MCBoostClassifier

    return MCBoostClassifier(loss=loss, n_estimators=rounds, n_jobs=threads, **more).fit(X, y)


def lightgbm_labels(booster, X, classes, **how):
    return classes[np.argmax(booster.predict(X, **how), axis=1)]


# --------------------------------------------------------------------------------------------------------------------
# Benchmarks


@benchmark("limits")
def bench_limits(options):
    """Limits of the machine: additions, memory, random rows; measured again with every other benchmark."""
    return Report()


def search_columns(kind, m, d, generator):
    """Columns of one sort for the stump search: float32 (m, d), or CSR."""
    if kind == "few bins":
        return generator.integers(0, 12, (m, d)).astype(np.float32)
    X = generator.standard_normal((m, d)).astype(np.float32)
    if kind == "skewed":
        X[generator.random((m, d)) < 0.8] = 0.0
    if kind == "sparse":
        from scipy.sparse import csr_matrix

        X[generator.random((m, d)) < 0.95] = 0.0
        return csr_matrix(X)
    return X


@benchmark("stump-search")
def bench_stump_search(options):
    """Search the best stump for a gradient (one round's scan of the data), against the row updates it is made of."""
    from pymcboost.data import TrainingData
    from pymcboost.weak_learners import SharedStump

    m, d = (10000, 16) if options.quick else (60000, 64)
    report = Report(
        {
            "rows": m,
            "features": d,
            "pair": "one (row, feature); for sparse columns also one stored value",
            "data": "random; dense: 256 bins; few bins: 12 values; skewed: 80% of rows in one bin; sparse: CSR, 5%",
            "data_preparation": "not timed (the matching limit has none)",
            "limit": "read-modify-write of a random row of a 256-row table in L1, as many bytes as a padded row of "
            "classes has (64 above 8 classes, once per block of 16); measured in turn with the search",
        }
    )
    cases = [("dense", 10), ("dense", 4), ("dense", 26), ("few bins", 10), ("skewed", 10), ("sparse", 10)]
    generator = np.random.default_rng(0)
    columns = {}
    for kind, K in cases:
        if kind not in columns:
            columns[kind] = search_columns(kind, m, d, generator)
        X = columns[kind]
        data = TrainingData(X, generator.integers(0, K, m), K, np.ones(m), n_threads=1)
        gradient = data.gradient_buffer()
        filled = generator.standard_normal((m, K))
        for block in range(data.n_blocks):
            part = filled[:, block * data.lanes : (block + 1) * data.lanes]
            gradient[block, :, : part.shape[1]] = part
        learners = {threads: SharedStump(data, threads) for threads in (1, 2)}
        found = {1: common.Timing([]), 2: common.Timing([])}
        width = min(64, data.lanes * 4)
        limit = math.inf
        for _ in range(options.repeat):
            limit = min(limit, options.limits.rmw(width, repeat=2))
            for threads, learner in learners.items():
                inner = race({"search": partial(learner.fit, gradient)}, 40)["search"]
                found[threads].seconds.append(inner.best)
                found[threads].cpu.append(min(inner.cpu))
        pairs = m * d
        stores = "+".join(type(store).__name__ for store in data.stores)
        speedup = found[1].best / found[2].best
        share = 100 * limit * data.n_blocks / (found[1].best / pairs * 1e9)
        more = {} if kind != "sparse" else {"ns_per_stored": round(found[1].best / X.nnz * 1e9, 3)}
        report.rows.append(
            found[1].row(
                f"{kind}, K={K} ({stores})",
                1e9 / pairs,
                "ns/pair",
                ms_per_search=round(found[1].best * 1e3, 2),
                row_limit_ns=round(limit * data.n_blocks, 3),
                percent_of_limit=round(share, 1),
                two_threads=round(speedup, 2),
                **more,
            )
        )
        if (kind, K) == ("dense", 10):
            report.target("K=10, 256 bins, one thread: share of the row-update limit", share, 55, unit="%")
            report.target("K=10, 256 bins: one thread's time / two threads'", speedup, 1.8)
    once = options.limits.rmw(64, draw=False)
    report.notes.append(
        f"with the rows in a fixed shuffled order, so that none comes back soon, a 64-byte update takes {once:.3f} ns: "
        "random draws wait now and then for the row just written, which a search that takes four features in turn "
        "mostly avoids"
    )
    return report


@benchmark("fit-pendigits")
def bench_fit_pendigits(options):
    """1,000 rounds on the official pendigits training part, one thread, against LightGBM's 10,000 two-leaf trees."""
    rounds = 100 if options.quick else 1000
    X, y, X_test, y_test = load("pendigits")
    classes = np.unique(y)
    y0 = np.searchsorted(classes, y)
    found = race(
        {
            "exp": lambda: mcboost_fit(X, y, rounds, 1, "exp"),
            "log": lambda: mcboost_fit(X, y, rounds, 1, "log"),
            "lightgbm": lambda: lightgbm_fit(X, y0, rounds, 1, len(classes)),
        },
        options.repeat,
    )
    report = Report(
        {
            "data": "pendigits, official split",
            "rows": len(X),
            "features": X.shape[1],
            "rounds": rounds,
            "threads": 1,
            "mcboost": "learning_rate=0.5 nu=1e-9 max_bins=256 (defaults)",
            "lightgbm": "num_leaves=2, other parameters default",
            "data_preparation": "timed on both sides (binning, Dataset construction)",
        }
    )
    for loss in ("exp", "log"):
        estimator = found[loss].value
        error = error_percent(y_test, estimator.predict(X_test))
        report.rows.append(
            found[loss].row(f"MCBoost {loss}, {estimator.n_estimators_} rounds", test_error_percent=round(error, 2))
        )
    error = error_percent(y_test, lightgbm_labels(found["lightgbm"].value, X_test, classes))
    report.rows.append(
        found["lightgbm"].row(
            f"LightGBM, {found['lightgbm'].value.num_trees()} two-leaf trees", test_error_percent=round(error, 2)
        )
    )
    for loss, bound in (("exp", 8), ("log", 5)):
        report.target(f"fit, {loss}: LightGBM's time / ours", found["lightgbm"].best / found[loss].best, bound)
    return report


@benchmark("time-to-error")
def bench_time_to_error(options):
    """Time of a fit with just as many rounds as 5.5% test error on pendigits takes, one thread, both sides."""
    level, rounds = 5.5, 1000
    X, y, X_test, y_test = load("pendigits")
    classes = np.unique(y)
    y0 = np.searchsorted(classes, y)
    needed = {}
    for loss in ("exp", "log"):
        estimator = mcboost_fit(X, y, rounds, 1, loss)
        needed[loss] = first_below([error_percent(y_test, p) for p in estimator.staged_predict(X_test)], level)
    booster = lightgbm_fit(X, y0, rounds, 1, len(classes))
    score, errors = 0.0, []
    for t in range(rounds):
        score = score + booster.predict(X_test, raw_score=True, start_iteration=t, num_iteration=1)
        errors.append(error_percent(y_test, classes[np.argmax(score, axis=1)]))
    needed["lightgbm"] = first_below(errors, level)
    report = Report(
        {
            "data": "pendigits, official split",
            "error_percent": level,
            "threads": 1,
            "rounds": "the smallest number whose test error is at most the level, found by staged prediction (chosen "
            "on the test part, for both sides alike), at most 1000",
            "data_preparation": "timed on both sides",
        }
    )
    runs = {}
    for name, count in needed.items():
        if count is None:
            report.notes.append(f"{name}: {level}% was not reached in {rounds} rounds")
        elif name == "lightgbm":
            runs[name] = lambda count=count: lightgbm_fit(X, y0, count, 1, len(classes))
        else:
            runs[name] = lambda count=count, name=name: mcboost_fit(X, y, count, 1, name)
    found = race(runs, options.repeat)
    for name, timing in found.items():
        report.rows.append(timing.row(f"{name}, {needed[name]} rounds"))
        if name != "lightgbm" and "lightgbm" in found:
            ratio = found["lightgbm"].best / timing.best
            report.rows.append({"what": f"LightGBM's time / ours, {name}", "best": ratio, "unit": "x"})
    return report


@benchmark("fit-mnist")
def bench_fit_mnist(options):
    """100 rounds on raw MNIST, one and two threads, against LightGBM's 1,000 two-leaf trees with as many threads."""
    rounds, rows = (10, 10000) if options.quick else (100, 60000)
    X, y, X_test, y_test = load("mnist")
    X, y = X[:rows], y[:rows]
    classes = np.unique(y)
    y0 = np.searchsorted(classes, y)
    report = Report(
        {
            "data": "MNIST, raw pixels, official split",
            "rows": len(X),
            "features": X.shape[1],
            "rounds": rounds,
            "mcboost": "learning_rate=0.5 nu=1e-9 max_bins=256 (defaults)",
            "lightgbm": "num_leaves=2, other parameters default",
            "data_preparation": "timed on both sides (binning, Dataset construction)",
        }
    )
    # Imports and first calls stay out of the timed runs, which have no untimed run of their own for their length.
    mcboost_fit(X[:1000], y[:1000], 2, 2)
    lightgbm_fit(X[:1000], y0[:1000], 2, 2, len(classes))
    for threads in (1, 2):
        found = race(
            {
                "exp": lambda threads=threads: mcboost_fit(X, y, rounds, threads, "exp"),
                "log": lambda threads=threads: mcboost_fit(X, y, rounds, threads, "log"),
                "lightgbm": lambda threads=threads: lightgbm_fit(X, y0, rounds, threads, len(classes)),
            },
            min(options.repeat, 3),
            warm_up=False,
        )
        for name, timing in found.items():
            predicted = (
                lightgbm_labels(timing.value, X_test, classes) if name == "lightgbm" else timing.value.predict(X_test)
            )
            report.rows.append(
                timing.row(f"{name}, {threads} threads", test_error_percent=round(error_percent(y_test, predicted), 2))
            )
        for loss in ("exp", "log"):
            ratio = found["lightgbm"].best / found[loss].best
            report.target(f"fit, {loss}, {threads} threads: LightGBM's time / ours", ratio, 5)
    return report


@benchmark("score")
def bench_score(options):
    """Score 1,000 stumps, K=10, d=64: a batch against LightGBM, single rows in C against a plain loop; one thread."""
    import pymcboost

    rounds = 1000
    X, y, X_test, _ = load("optdigits")
    classes = np.unique(y)
    y0 = np.searchsorted(classes, y)
    estimator = mcboost_fit(X, y, rounds, 1)
    model = estimator.model_
    batch = np.ascontiguousarray(np.tile(X_test, (2 if options.quick else 12, 1)))
    hundred = lightgbm_fit(X, y0, rounds // len(classes), 1, len(classes))
    boosters = {"as many trees": hundred}
    if not options.quick:
        boosters["as many rounds"] = lightgbm_fit(X, y0, rounds, 1, len(classes))
    report = Report(
        {
            "model": f"fitted to optdigits, {model.n_learners} stumps, {len(classes)} classes, {X.shape[1]} features",
            "batch_rows": len(batch),
            "threads": 1,
            "values": "raw scores (no softmax) of float32 rows, on all sides",
            "single_row": "C program tools/limits/score_row.c around mcb.h; rows differ from call to call",
        }
    )
    tables = {
        layout: pymcboost.Model.from_ensemble(model.ensemble, model.classes_, link=model.link, layout=layout)
        for layout in ("interval", "interval32")
    }
    runs = {
        "ours, list": lambda: model.raw_scores(batch, n_jobs=1),
        **{f"ours, {name}": lambda table=table: table.raw_scores(batch, n_jobs=1) for name, table in tables.items()},
    }
    for name, booster in boosters.items():
        runs[f"LightGBM, {booster.num_trees()} two-leaf trees ({name})"] = lambda booster=booster: booster.predict(
            batch, raw_score=True, num_threads=1
        )
    found = race(runs, options.repeat)
    scale = 1e6 / len(batch)
    for name, timing in found.items():
        report.rows.append(timing.row(f"batch: {name}", scale, "us/row"))
    theirs = [timing.best for name, timing in found.items() if name.startswith("LightGBM")]
    report.target("batch, list: LightGBM's time with as many trees / ours", theirs[0] / found["ours, list"].best, 20)
    scores = model.raw_scores(batch)
    for name, table in tables.items():
        report.rows.append(
            {"what": f"batch, {name}: LightGBM / ours", "best": theirs[0] / found[f"ours, {name}"].best, "unit": "x"}
        )
        others = table.raw_scores(batch)
        changed = int((others.argmax(axis=1) != scores.argmax(axis=1)).sum())
        report.notes.append(
            f"{name} against list: scores differ by {np.abs(others - scores).max():.2g} at most (the largest is "
            f"{np.abs(scores).max():.3g}), {changed} of {len(batch)} predictions differ"
        )
    if len(theirs) > 1:
        report.rows.append(
            {
                "what": "batch, list: LightGBM with as many rounds / ours",
                "best": theirs[1] / found["ours, list"].best,
                "unit": "x",
            }
        )
    single_row = common.Timing([])
    for _ in range(options.repeat):
        single_row.seconds.append(race({"one": lambda: model.raw_scores(batch[:1])}, 20)["one"].best)
    report.rows.append(single_row.row("one row through Python", 1e6, "us"))

    stumps = model.ensemble
    if stumps.left is not None and not np.array_equal(stumps.left, -stumps.right):
        raise SystemExit("score: the plain loop knows only stumps whose sides are opposite")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model.save(folder / "list.mcb", layout="list")
        for layout, table in tables.items():
            table.save(folder / f"{layout}.mcb")
        with open(folder / "stumps.bin", "wb") as file:
            np.array([len(stumps.feature), len(classes), X.shape[1], len(X_test)], np.int32).tofile(file)
            for array, dtype in (
                (stumps.feature, np.int32),
                (stumps.threshold, np.float32),
                (stumps.right, np.float32),
                (stumps.bias, np.float32),
                (X_test, np.float32),
            ):
                np.ascontiguousarray(array, dtype).tofile(file)
        for build, flags in (("-O2", ["-O2"]), ("-O2 -DMCB_SIMD", ["-O2", "-DMCB_SIMD"])):
            program = folder / "score_row"
            compile_c(HERE / "limits" / "score_row.c", program, ["-std=c99", *flags, "-I", pymcboost.get_include()])
            lines = {}  # the plain loop and the list are those of the first run
            for layout in tables:
                words = [str(program), *(str(folder / name) for name in ("stumps.bin", "list.mcb", f"{layout}.mcb"))]
                done = subprocess.run([*words, str(10 * options.repeat)], capture_output=True, text=True, check=True)
                printed = dict(line.split(" ", 1) for line in done.stdout.splitlines())
                lines = {**printed, **lines, layout: printed["interval"]}
            best = {}
            for name in ("naive", "list", *tables):
                best[name], median = (float(word) * 1e-3 for word in lines[name].split())
                report.rows.append(
                    {
                        "what": f"one row in C, {build}: {name}",
                        "best": best[name],
                        "median": median,
                        "runs": 10 * options.repeat,
                        "unit": "us",
                    }
                )
            # The list adds 1,000 numbers one after the other per class, each add waiting for the last: it cannot be as
            # fast as the target asks, which is that of the interval table.
            report.rows.append(
                {
                    "what": f"one row in C, {build}, list: plain loop / ours",
                    "best": best["naive"] / best["list"],
                    "unit": "x",
                }
            )
            report.target(
                f"one row in C, {build}, interval: plain loop's time / ours (2.7 / 0.6)",
                best["naive"] / best["interval"],
                4.5,
            )
            report.notes.append(f"{build}: largest difference from the plain loop {lines['difference']}")
    return report


@benchmark("size")
def bench_size(options):
    """Bytes of a model file against LightGBM's text file with as many stumps (two-leaf trees)."""
    counts = (100,) if options.quick else (1000, 3000)
    report = Report({"rounds": counts, "lightgbm": "num_leaves=2; as many trees as we have stumps; save_model's text"})
    for name, rounds in itertools.product(("pendigits", "optdigits"), counts):
        X, y, _, _ = load(name)
        classes = np.unique(y)
        estimator = mcboost_fit(X, y, rounds, 1)
        stumps = estimator.model_.n_learners
        booster = lightgbm_fit(X, np.searchsorted(classes, y), math.ceil(stumps / len(classes)), 1, len(classes))
        trees = booster.num_trees()
        with tempfile.TemporaryDirectory() as folder:
            sizes = {}
            for layout in ("list", "interval", "interval32"):
                path = Path(folder, f"{layout}.mcb")
                estimator.save(path, layout=layout)
                sizes[layout] = path.stat().st_size
            path = Path(folder, "lightgbm.txt")
            booster.save_model(path)
            text = path.stat().st_size * stumps / trees
        history = estimator.history_
        distinct = len(set(zip(history["feature"].tolist(), history["threshold"].tolist(), strict=True)))
        for layout, size in sizes.items():
            report.rows.append({"what": f"{name}: .mcb, {layout}, {stumps} stumps", "best": size, "unit": "bytes"})
        report.rows.append({"what": f"{name}: LightGBM's text, {trees} trees", "best": round(text), "unit": "bytes"})
        report.notes.append(f"{name}: {distinct} distinct (feature, threshold) pairs among {stumps} stumps")
        report.target(f"{name}, {stumps} stumps, list: LightGBM's bytes / ours", text / sizes["list"], 7)
        for layout in ("interval", "interval32"):
            report.target(f"{name}, {stumps} stumps, {layout}: LightGBM's bytes / ours", text / sizes[layout], 15)
    return report


@benchmark("svmlight")
def bench_svmlight(options):
    """Read the unpacked mnist.train, dense and CSR, one thread, against scikit-learn's load_svmlight_file."""
    from sklearn.datasets import load_svmlight_file

    from pymcboost import load_svmlight

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mnist.train.libsvm")
        with gzip.open(common.data_file("mnist.train.libsvm.gz")) as packed, open(path, "wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
        if options.quick:
            path.write_bytes(b"\n".join(path.read_bytes().split(b"\n", 6000)[:6000]) + b"\n")
        size = path.stat().st_size
        found = race(
            {
                "ours dense": lambda: load_svmlight(path, n_features=784, layout="dense"),
                "ours csr": lambda: load_svmlight(path, n_features=784, layout="csr"),
                "sklearn csr": lambda: load_svmlight_file(path, n_features=784),
                "sklearn csr float32": lambda: load_svmlight_file(path, n_features=784, dtype=np.float32),
                "sklearn dense float32": lambda: load_svmlight_file(path, n_features=784, dtype=np.float32)[
                    0
                ].toarray(),
                "plain read of the bytes": lambda: len(path.read_bytes()),
            },
            min(options.repeat, 3),
            warm_up=False,
        )
        theirs = found["sklearn csr float32"].value[0]
        same = bool(
            (found["ours csr"].value.X != theirs).nnz == 0
            and np.array_equal(found["ours dense"].value.X, theirs.toarray())
            and np.array_equal(found["ours dense"].value.y, found["sklearn csr"].value[1])
        )
    report = Report({"file": "mnist.train, unpacked", "bytes": size, "threads": 1, "same_values": same})
    for name, timing in found.items():
        report.rows.append(timing.row(name, MB_per_second=round(size / timing.best / 1e6)))
    best = min(found["sklearn csr"].best, found["sklearn csr float32"].best)
    report.target("dense: time of scikit-learn's CSR (its faster dtype) / ours", best / found["ours dense"].best, 4)
    report.target("csr: time of scikit-learn's CSR (its faster dtype) / ours", best / found["ours csr"].best, 4)
    if not same:
        report.notes.append("VALUES DIFFER from scikit-learn's")
    return report


# --------------------------------------------------------------------------------------------------------------------
# Output


def print_report(name, entry, out=sys.stdout):
    """One benchmark as text."""
    print(f"\n== {name}: {entry['title']}", file=out)
    for key, value in entry["parameters"].items():
        print(f"   {key}: {value}", file=out)
    for row in entry["rows"]:
        more = "  ".join(
            f"{key}={number(value)}"
            for key, value in row.items()
            if key not in ("what", "best", "median", "runs", "unit")
        )
        median = f"  median {number(row['median'])} of {row['runs']}" if "median" in row else ""
        print(f"   {row['what']:<58} {number(row['best']):>9} {row['unit']}{median}  {more}", file=out)
    for target in entry["targets"]:
        judged = "not judged (--quick)" if entry["quick"] else "yes" if target["ok"] else "NO"
        print(
            f"   target {target['what']}: {target['target']}, reached {number(target['reached'])}: {judged}", file=out
        )
    for note in entry["notes"]:
        print(f"   note: {note}", file=out)
    if name == "limits":
        for key, value in entry["limits"].items():
            print(f"   {key}: {number(value)}", file=out)


def markdown(entries):
    """Tables of a results file, for docs/benchmarks.md."""
    parts = []
    rows = [
        [
            name,
            target["what"],
            target["target"],
            f"{number(target['reached'])} {target['unit']}".strip(),
            "not judged" if entry["quick"] else "yes" if target["ok"] else "no",
        ]
        for name, entry in entries.items()
        for target in entry["targets"]
    ]
    if rows:
        parts += ["### Targets", common.markdown_table(["benchmark", "what", "target", "reached", "met"], rows)]
    for name, entry in entries.items():
        environment = entry["environment"]
        parts.append(f"### {name}\n\n{entry['title']}")
        if entry["parameters"]:
            parts.append("\n".join(f"- {key}: {value}" for key, value in entry["parameters"].items()))
        if entry["rows"]:
            extra = list(
                dict.fromkeys(
                    key for row in entry["rows"] for key in row if key not in ("what", "best", "median", "runs", "unit")
                )
            )
            parts.append(
                common.markdown_table(
                    ["what", "best", "median", "runs", "unit", *(key.replace("_", " ") for key in extra)],
                    [
                        [
                            row["what"],
                            number(row["best"]),
                            number(row.get("median")),
                            row.get("runs", "-"),
                            row["unit"],
                            *(number(row.get(key)) for key in extra),
                        ]
                        for row in entry["rows"]
                    ],
                )
            )
        if name == "limits":
            parts.append(
                common.markdown_table(
                    ["limit", "value"], [[key, number(value)] for key, value in entry["limits"].items()]
                )
            )
        if entry["notes"]:
            parts.append("\n".join(f"- {note}" for note in entry["notes"]))
        versions = ", ".join(f"{key} {value}" for key, value in environment["versions"].items())
        limits = entry["limits"]
        parts.append(
            f"Measured on {environment['date']} at commit `{environment['commit']}`: {environment['cpu']} "
            f"({environment['simd']}, {environment['cpus']} CPUs, {number(limits.get('clock_GHz'))} GHz, load before "
            f"{environment['load_before']}); 64-byte row in L1 {number(limits.get('rmw_64B_L1_ns'))} ns; "
            f"{versions}; {environment['compiler']}."
        )
    return "\n\n".join(parts)


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["guard"]:
        return bench_guard.main(arguments[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run; all of them without a name")
    parser.add_argument("--list", action="store_true", help="list the benchmarks and stop")
    parser.add_argument("--json", metavar="FILE", help="write results there; entries of other benchmarks in it stay")
    parser.add_argument("--repeat", type=int, default=5, help="timed runs of each competitor (default 5)")
    parser.add_argument("--quick", action="store_true", help="small sizes, only to see that it runs")
    trees = parser.add_argument_group("benchmarks of trees (names that begin with trees), and fcd")
    trees.add_argument("--data", nargs="+", metavar="SET", help="data sets; poker is the generated one")
    trees.add_argument("--algorithms", nargs="+", metavar="NAME", help=f"ours: {', '.join(bench_trees.ALGORITHMS)}")
    trees.add_argument("--peers", nargs="*", choices=peers.PEERS, help="other libraries (default: all)")
    trees.add_argument("--rounds", type=int, help="rounds of boosting (default 100; vector trees 200)")
    trees.add_argument("--threads", type=int, nargs="+", default=[1], help="threads, one table for each (default 1)")
    trees.add_argument("--leaves", type=int, default=20, help="leaves of a tree (default 20)")
    trees.add_argument("--learning-rate", type=float, default=0.1, help="learning rate (default 0.1)")
    parser.add_argument("--markdown", metavar="FILE", help="print the tables of a results file and stop")
    parser.add_argument(
        "--into",
        metavar="FILE",
        help="with --markdown: put the tables into this file, between the marks with the name of the results file",
    )
    options = parser.parse_args(arguments)
    if options.list:
        for name, function in BENCHMARKS.items():
            print(f"{name:15} {function.__doc__.strip()}")
        return 0
    if options.markdown:
        text = markdown(json.loads(Path(options.markdown).read_text()))
        if options.into:
            common.put_between(options.into, Path(options.markdown).stem, text)
        else:
            print(text)
        return 0
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    if options.repeat < 1:
        parser.error("--repeat must be at least 1")
    if (options.rounds is not None and options.rounds < 1) or options.leaves < 2 or min(options.threads) < 1:
        parser.error("--rounds and --threads must be at least 1, --leaves at least 2")
    try:
        bench_trees.check(options.data or (), options.algorithms or ())
    except ValueError as error:
        parser.error(str(error))
    settings = {
        name: getattr(options, name)
        for name in ("repeat", "quick", "data", "algorithms", "peers", "rounds", "threads", "leaves", "learning_rate")
    }
    entries = json.loads(Path(options.json).read_text()) if options.json and Path(options.json).exists() else {}
    limits = Limits()
    failed = 0
    for name in options.names or BENCHMARKS:
        function = BENCHMARKS[name]
        environment = common.environment()
        found = limits.all(3 if options.quick or name != "limits" else options.repeat)
        try:
            report = function(Options(limits=limits, **settings))
        except DataMissing as error:
            print(f"\n== {name}: skipped: {error}", file=sys.stderr)
            failed += 1
            continue
        entries[name] = {
            "title": function.__doc__.strip(),
            "quick": options.quick,
            "parameters": report.parameters,
            "rows": report.rows,
            "targets": report.targets,
            "notes": report.notes,
            "limits": found,
            "environment": environment,
        }
        print_report(name, entries[name])
        if options.json:
            common.write_json(options.json, entries)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
