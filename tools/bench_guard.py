"""Nothing may get slower: fits, scorings and reads of this tree against those of another commit.

    python tools/bench.py guard --against COMMIT [--threads 1 2] [--only TEXT] [--json FILE] [--memory]
    python tools/bench.py guard --against HEAD --clones v3    what the same code takes on CPUs without AVX-512

Both trees take turns, every run in a process of its own; the least CPU seconds of five count on one thread, the least
wall time on more (which needs an idle machine). Where the ratio is too large, five more of each decide, up to four
times. The geometric mean of the ratios may be 1.02, each of them 1.05, the memory that a run takes beyond that after
the imports 1.02. The exit code is 0 only if all bounds hold. The other commit is built at the first call, in
build/trees.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import other_tree

MEAN = 1.02
EACH = 1.05
MEMORY = 1.02
# Most times that a subject beyond its bound is measured.
SERIES = 4
# Allocators round: a run may take this much more in any case. Bytes.
MEMORY_NOISE = 1 << 20
TREES = {"weak_learner": "tree", "max_leaf_nodes": 12}

# Defaults of other commits may be others.
CLASS_TREES = {"max_leaf_nodes": 20, "max_features": 1.0, "subsample": 1.0, "calibrate": None}
CLASS_WISE = "class-trees", "class-trees-sparse", "adaptive-base"
LATER = {"subsample": 1.0, "min_relative_gain": 0.0, "split_columns": None, "calibrate": None}
VECTOR = {"learning_rate": 0.2, "max_leaf_nodes": 100, "min_samples_leaf": 2, "max_features": 0.2}

# Data: rows, columns, classes, and whether they are sparse; "digits" is that of data/.
DATA = {
    "dense": (60000, 60, 7, False),
    "many": (20000, 60, 20, False),
    "sparse": (40000, 100, 11, True),
    "machine": (1500, 60, 7, False),
    "small": (800, 30, 4, False),
}
# What is fitted: data, estimator, parameters.
FITS = {
    "stumps": ("dense", "MCBoostClassifier", {"n_estimators": 60}),
    "stumps-many-classes": ("many", "MCBoostClassifier", {"n_estimators": 60, "loss": "log"}),
    "stumps-sparse": ("sparse", "MCBoostClassifier", {"n_estimators": 60}),
    "stumps-presorted": ("small", "MCBoostClassifier", {"n_estimators": 2500}),
    "edge-trees": ("dense", "MCBoostClassifier", {"n_estimators": 10, **TREES}),
    "class-trees": ("dense", "MartClassifier", {"n_estimators": 10}),
    "class-trees-sparse": ("sparse", "LogitBoostClassifier", {"n_estimators": 5}),
    "adaptive-base": ("many", "ABCLogitBoostClassifier", {"n_estimators": 5}),
    "vector-trees": ("dense", "VectorTreeBoostClassifier", {"n_estimators": 20, **VECTOR}),
    "vector-trees-full": (
        "sparse",
        "VectorTreeBoostClassifier",
        {"n_estimators": 10, "leaf_step": "full", **VECTOR},
    ),
    "margins": ("dense", "GentleBoostClassifier", {"n_estimators": 60}),
    "classic": ("dense", "SAMMEClassifier", {"n_estimators": 60}),
    "joint": ("many", "JointBoostClassifier", {"n_estimators": 10}),
    "coded-trees": ("dense", "AdaBoostMOClassifier", {"n_estimators": 3, **TREES}),
    "corrective": ("dense", "MultiBoostClassifier", {"n_estimators": 30, "random_state": 0}),
    "hinge-linear": ("dense", "HingeBoostOCClassifier", {"n_estimators": 5, "random_state": 0}),
    "hinge-rbf": (
        "machine",
        "HingeBoostOCClassifier",
        {"n_estimators": 16, "random_state": 0, "kernel": "rbf"},
    ),
}
# Models that score their data: how many times all rows, and how many single rows (0: not measured).
SCORED = {
    "stumps": (60, 60000),
    "class-trees": (40, 0),
    "vector-trees": (20, 60000),
    "stumps-sparse": (60, 0),
    "hinge-linear": (40, 0),
    "hinge-rbf": (10, 10000),
}
SCORINGS = (
    *(f"score-{name}" for name in SCORED),
    *(f"row-{name}" for name, (_, rows) in SCORED.items() if rows),
)
SUBJECTS = (*FITS, *SCORINGS, "read-text", "files")


# -- one run, in a process of its own ----------------------------------------------------------------------------------


def peak():
    """Largest memory so far: bytes. The one of getrusage would begin with that of the process that started this one."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def load_data(folder, name):
    import numpy as np
    import scipy.sparse

    path = Path(folder, f"{name}.npz")
    X = scipy.sparse.load_npz(path) if path.exists() else np.load(path.with_suffix(".npy"))
    return X, np.load(Path(folder, f"{name}.y.npy"))


def prepare(folder):
    """Data, a text file, and the models that are scored."""
    import golden_cases
    import numpy as np
    import scipy.sparse

    import pymcboost

    for name, (m, d, K, sparse) in DATA.items():
        X, y, _ = golden_cases.made(m, d, K, seed=1, sparse=sparse)
        (scipy.sparse.save_npz if sparse else np.save)(
            Path(folder, name + (".npz" if sparse else ".npy")), X
        )
        np.save(Path(folder, f"{name}.y.npy"), y)
    pymcboost.dump_svmlight(Path(folder, "text.libsvm"), *load_data(folder, "sparse"))
    for name in SCORED:
        fit(folder, name, n_jobs=2).save(Path(folder, f"{name}.mcb"))


def fit(folder, name, n_jobs, rows=None):
    import pymcboost

    data, estimator, params = FITS[name]
    X, y = load_data(folder, data)
    if rows:
        X = X[:rows]
        y = y[:rows]
        params = {**params, "n_estimators": 1}
    cls = getattr(pymcboost, estimator)
    later = LATER if params.keys() >= VECTOR.keys() else CLASS_TREES if name in CLASS_WISE else {}
    params = {
        **{name: value for name, value in later.items() if name in cls().get_params()},
        **params,
    }
    return cls(**params, n_jobs=n_jobs).fit(X, y)


def repeat(count, function, *arguments, **how):
    """Call a function several times, and keep nothing of what it returns."""
    for _ in range(count):
        function(*arguments, **how)


def task(folder, subject, n_jobs):
    """What is measured, as a function without arguments; what is loaded once is loaded here."""
    import pymcboost

    if subject in FITS:
        fit(folder, subject, 1, rows=200)
        return lambda: fit(folder, subject, n_jobs)
    if subject == "read-text":
        return lambda: repeat(10, pymcboost.load_svmlight, Path(folder, "text.libsvm"))
    if subject == "files":
        paths = [Path(folder, f"{name}.mcb") for name in SCORED]
        return lambda: repeat(
            400, lambda: [pymcboost.load_model(path).to_bytes() for path in paths]
        )
    # A program that has trained a model has loaded this, and predictions then ask it for the limit of threads.
    import sklearn.utils._openmp_helpers  # noqa: F401

    how, _, name = subject.partition("-")
    model = pymcboost.load_model(Path(folder, f"{name}.mcb"))
    X, _ = load_data(folder, FITS[name][0])
    batches, singles = SCORED[name]
    if how == "score":
        return lambda: repeat(batches, model.raw_scores, X, n_jobs=n_jobs)
    rows = [X[i : i + 1] for i in range(200)]
    return lambda: [repeat(singles // 200, model.raw_scores, row, n_jobs=1) for row in rows]


def measured(folder, subject, n_jobs):
    """CPU seconds, wall seconds and bytes of memory of one run."""
    run = task(folder, subject, n_jobs)
    before = peak()
    cpu = time.process_time()
    wall = time.perf_counter()
    run()
    return {
        "cpu": time.process_time() - cpu,
        "wall": time.perf_counter() - wall,
        "memory": max(0, peak() - before),
    }


# -- the comparison ----------------------------------------------------------------------------------------------------


def child(tree, *arguments):
    """What a run of this file with the package of a tree prints, from JSON."""
    command = [sys.executable, __file__, "--tree", str(tree), *map(str, arguments)]
    # Without a fixed threshold glibc puts large arrays among small ones, from which their memory does not come back.
    fixed = {
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "MALLOC_MMAP_THRESHOLD_": str(1 << 20),
    }
    environment = {**os.environ, **fixed}
    completed = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment)
    if completed.returncode:
        raise SystemExit(f"guard: {' '.join(command)} failed")
    return json.loads(completed.stdout)


def compare(subject, run, threads, repeat):
    """One row of the table; ``run(which, subject, threads)`` measures one run of "here" or "there".

    What else a computer does only adds to a time and to memory. So where a ratio is above its bound, both trees are run
    again as often, up to `SERIES` times in all, and the least of all runs counts.
    """
    runs = {"there": [], "here": []}
    clock = "cpu" if threads == 1 else "wall"
    for n in range(SERIES * repeat):
        for which in ("there", "here") if n % 2 else ("here", "there"):
            runs[which].append(run(which, subject, threads))
        seconds = {which: min(result[clock] for result in runs[which]) for which in runs}
        n_bytes = {which: min(result["memory"] for result in runs[which]) for which in runs}
        if n_bytes["here"] - n_bytes["there"] <= MEMORY_NOISE:
            memory_ratio = 1.0
        else:
            memory_ratio = n_bytes["here"] / max(n_bytes["there"], MEMORY_NOISE)
        within_bounds = seconds["here"] <= EACH * seconds["there"] and memory_ratio <= MEMORY
        if (n + 1) % repeat == 0 and within_bounds:
            break
    return {
        "subject": subject,
        "threads": threads,
        "runs": len(runs["here"]),
        "seconds": [seconds["there"], seconds["here"]],
        "time": seconds["here"] / seconds["there"],
        "bytes": [n_bytes["there"], n_bytes["here"]],
        "memory": memory_ratio,
    }


def broken(rows):
    """The bounds that do not hold, in words."""
    lines = []
    for threads in sorted({row["threads"] for row in rows}):
        ratios = [row["time"] for row in rows if row["threads"] == threads]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        if mean > MEAN:
            lines.append(f"times on {threads} threads: geometric mean {mean:.3f}, at most {MEAN}")
    for row in rows:
        for what, bound in (("time", EACH), ("memory", MEMORY)):
            if row[what] > bound:
                lines.append(
                    f"{row['subject']} on {row['threads']} threads: {what} {row[what]:.3f}, at most {bound}"
                )
    return lines


def row_text(row):
    seconds, bytes_ = row["seconds"], row["bytes"]
    return (
        f"{row['subject']:20} {row['threads']:7} {row['runs']:4} {seconds[0]:8.3f} {seconds[1]:8.3f} "
        f"{row['time']:6.3f} {bytes_[0] / 2**20:8.1f} {bytes_[1] / 2**20:8.1f} {row['memory']:6.3f}"
    )


def race(options, names):
    """Measure all subjects; the rows of the table."""
    trees = {"there": other_tree.built(options.against, options.clones), "here": other_tree.ROOT}
    with tempfile.TemporaryDirectory(prefix="guard-") as folder:
        child(trees["there"], "--prepare", folder)  # this tree must read what the other one wrote

        def run(which, subject, threads):
            return child(trees[which], "--measure", folder, subject, threads)

        rows = []
        print(f"{'':20} threads runs  seconds     here  ratio      MiB     here  ratio")
        for threads in options.threads:
            for subject in names:
                rows.append(compare(subject, run, threads, repeat=options.repeat))
                print(row_text(rows[-1]), flush=True)
    return rows


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", metavar="COMMIT", help="the other commit")
    parser.add_argument(
        "--clones",
        choices=("", "v3", "none"),
        default="",
        help="the other tree's kernels for AVX2 alone, or for no vectors beyond SSE2",
    )
    parser.add_argument(
        "--threads", type=int, nargs="+", default=[1], help="one table for each (default 1)"
    )
    parser.add_argument("--repeat", type=int, default=5, help="runs of each tree (default 5)")
    parser.add_argument(
        "--only", metavar="TEXT", action="append", help="only subjects whose names contain it"
    )
    parser.add_argument("--json", metavar="FILE", help="write the results there")
    parser.add_argument(
        "--memory", action="store_true", help="instead: memory of wide vector trees and of LightGBM"
    )
    for hidden, count in (
        ("--tree", None),
        ("--prepare", None),
        ("--measure", 3),
        ("--wide", None),
    ):
        parser.add_argument(hidden, nargs=count, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.tree:
        return inner(options)
    if options.memory:
        return wide_memory()
    names = [
        name for name in SUBJECTS if not options.only or any(text in name for text in options.only)
    ]
    if not options.against or not names or options.repeat < 1:
        parser.error(
            "--against COMMIT is needed, --repeat of 1 or more, and --only must leave a subject"
        )
    rows = race(options, names)
    lines = broken(rows)
    if options.json:
        Path(options.json).write_text(
            json.dumps({"against": options.against, "rows": rows, "broken": lines}, indent=1)
        )
    print(*lines, f"{len(lines)} bounds broken", sep="\n")
    return 1 if lines else 0


def inner(options):
    """What a process of one tree does."""
    sys.path.insert(0, options.tree)
    import pymcboost

    if Path(pymcboost.__file__).resolve().parents[1] != Path(options.tree).resolve():
        raise SystemExit(
            f"guard: the package of {options.tree} was asked for, found that of {pymcboost.__file__}"
        )
    if options.prepare:
        prepare(options.prepare)
    result = None
    if options.measure:
        folder, subject, threads = options.measure
        result = measured(folder, subject, int(threads))
    if options.wide:
        result = wide(options.wide)
    print(json.dumps(result))
    return 0


# -- memory on long data -----------------------------------------------------------------------------------------------


def wide(library):
    """Bytes that a library takes for 3 rounds on 2,000,000 x 20 float32 and 8 classes, the data included."""
    import numpy as np

    if library == "lightgbm":
        import lightgbm
    else:
        import pymcboost

        pymcboost.VectorTreeBoostClassifier(n_estimators=1).fit(
            np.repeat(np.eye(8), 9, axis=0), np.arange(72) // 9
        )
    before = peak()
    X = np.random.default_rng(0).random((2_000_000, 20), dtype=np.float32)
    y = (X[:, :3] > 0.5) @ np.array([1, 2, 4])
    if library == "lightgbm":
        params = {
            "objective": "multiclass",
            "num_class": 8,
            "num_leaves": 100,
            "num_threads": 1,
            "verbosity": -1,
        }
        lightgbm.train(params, lightgbm.Dataset(X, y), 3)
    else:
        how = {**VECTOR, **LATER}
        pymcboost.VectorTreeBoostClassifier(n_estimators=3, n_jobs=1, random_state=0, **how).fit(
            X, y
        )
    return peak() - before


def wide_memory():
    """Compare the two; LightGBM comes with the extra `bench`."""
    megabytes = {
        library: child(other_tree.ROOT, "--wide", library) / 1e6
        for library in ("pymcboost", "lightgbm")
    }
    print("peak memory on 2,000,000 x 20 float32 (160 MB), 8 classes, 3 rounds")
    print(*(f"{library:10} {size:6.0f} MB" for library, size in megabytes.items()), sep="\n")
    return 1 if megabytes["pymcboost"] > megabytes["lightgbm"] else 0


if __name__ == "__main__":
    sys.exit(main())
