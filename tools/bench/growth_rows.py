"""How trainings grow with the rows: CPU time of a row and tree, in memory and from chunks, and that of LightGBM."""

import json
import sys
import time

import numpy as np
from shared.measure import memory_mb, reset_peak

from bench.chunks import in_memory
from bench.process import run_process
from bench.report import Report, benchmark

ROWS, WIDTH, CLASSES, TREES, LEAVES = (100_000, 300_000, 1_000_000, 3_000_000), 20, 8, 10, 255


def ours(rows, trees, threads, chunks=False):
    """CPU seconds of vector trees."""
    from pymcboost import VectorTreeBoostClassifier
    from pymcboost.data import Chunks

    model = VectorTreeBoostClassifier(
        n_estimators=trees, max_leaf_nodes=LEAVES, subsample=1.0, calibrate=None, random_state=0, n_jobs=threads
    )
    data = in_memory(rows, WIDTH, CLASSES)
    given = (Chunks([data]),) if chunks else data
    begin = time.process_time()
    model.fit(*given)
    return time.process_time() - begin


def lightgbm(rows, trees, threads):
    """CPU seconds of LightGBM's trees: of as many rounds, each a tree for each class."""
    import lightgbm

    words = {"objective": "multiclass", "num_class": CLASSES, "num_threads": threads, "verbosity": -1}
    X, y = in_memory(rows, WIDTH, CLASSES)
    begin = time.process_time()
    lightgbm.train({**words, "num_leaves": LEAVES}, lightgbm.Dataset(X, label=y), trees)
    return time.process_time() - begin


def stream(rows, trees, threads):
    """CPU seconds of adding up the bytes of a tree's bins and gradients, once for each level of its leaves."""
    bins, gradients = np.ones((rows, WIDTH), dtype=np.uint8), np.ones((rows, 8), dtype=np.int32)
    begin = time.process_time()
    for _ in range(trees * int(np.log2(LEAVES + 1))):
        bins.reshape(-1).view(np.uint32).sum(dtype=np.uint64)
        gradients.sum(dtype=np.int64)
    return time.process_time() - begin


FITS = {
    "vector trees": ours,
    "a stream of the same bytes": stream,
    "vector trees from chunks": lambda *its: ours(*its, chunks=True),
    "LightGBM, a tree for each class": lightgbm,
}


def work(task):
    """Two trainings of different lengths in this process: the time of a tree is that of their difference."""
    fit, rows, trees, threads = FITS[task["how"]], task["rows"], task["trees"], task["spec"]["threads"]
    fit(1000, 1, threads)  # what a library does once
    reset_peak()
    before, _ = memory_mb()
    first, last = (fit(rows, n, threads) for n in (1, 1 + trees))
    return {"first": first, "tree": (last - first) / trees, "grown_MB": memory_mb()[1] - before}


@benchmark("growth-rows")
def bench_growth_rows(options):
    """CPU time of a row and tree, from 100,000 rows on: vector trees in memory and from chunks, LightGBM, a stream."""
    threads, trees = options.threads[0], options.rounds or options.size(2, TREES)
    sizes = options.rows or options.size((1000, 2000), ROWS)
    words = {"features": WIDTH, "classes": CLASSES, "leaves": LEAVES, "trees": trees, "threads": threads}
    report = Report(words)
    for how in FITS:
        of_row = []
        for rows in sizes:
            task = {"how": how, "rows": rows, "trees": trees, "spec": {"threads": threads}}
            try:
                found = run_process(task, "bench.growth_rows")
            except RuntimeError as error:
                report.notes.append(f"{how}, {rows} rows: {str(error)[-120:]}")
                continue
            of_row.append(1e9 * found["tree"] / rows)
            more = {"tree_s": round(found["tree"], 4), "first_s": round(found["first"], 2)}
            report.add(f"{how}, {rows} rows", of_row[-1], "ns", **more, grown_MB=round(found["grown_MB"]))
        if len(of_row) > 1:
            report.notes.append(f"{how}: last by first {of_row[-1] / of_row[0]:.2f}")
    return report


if __name__ == "__main__":
    print(json.dumps(work(json.loads(sys.argv[1]))))
