"""Seconds of a tree on 1 to 64 machines: predicted, from the work of a row measured here and from what is sent."""

import math
import time

import numpy as np
from shared.internals import columns_for, drawn_of

from bench.report import Report, benchmark
from pymcboost.comm import MPIWorkers

MACHINES = 1, 2, 4, 8, 16, 32, 64
# Rows, features, classes; and rows to measure with.
CASES = {
    "Criteo-like": (1_700_000_000, 67, 2, 400_000),
    "MNIST-8M": (8_100_000, 784, 10, 60_000),
    "1,000 classes": (10_000_000, 64, 1000, 60_000),
}
LEAVES, BINS = 500, 256
# Assumed: cores of a machine, the share of them that threads gain, seconds of a message, bits a second.
CORES, GAIN, LATENCY, NETWORKS = 16, 0.6, 3e-5, {"10 Gbit/s": 10e9, "25 Gbit/s": 25e9}


def work_of_a_row(d, n_classes, rows, trees):
    """Seconds for a row and tree on one core, the median of all trees but the first, and the mean number of leaves."""
    from pymcboost import VectorTreeBoostClassifier

    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, d), dtype=np.float32)
    y = np.argsort(np.argsort(X[:, :4].sum(axis=1) + rng.standard_normal(rows))) * n_classes // rows
    ends = []

    class Clock:
        def after_round(self, state):
            ends.append(time.process_time())

    model = VectorTreeBoostClassifier(
        n_estimators=trees, max_leaf_nodes=LEAVES, min_relative_gain=0, subsample=0.5, calibrate=None,
        random_state=0, n_jobs=1,
    )
    model.fit(X, y, callbacks=[Clock()])
    return float(np.median(np.diff(ends))) / rows, float(np.mean(model.history_["n_leaves"]))


def messages(rows, d, n_classes, leaves):
    """Sums of a tree, and their bytes, half of those that are scattered: the formulas of docs/scaling.md."""
    columns = columns_for("auto", n_classes) or n_classes
    lanes = next(n for n in (4, 8, *range(16, 4096, 16)) if n > columns)
    features, sums = drawn_of("auto", d, rows), leaves / 16 + 2 * math.log2(leaves)
    sent = 8 * lanes * features * BINS * leaves
    if 16 * sent / leaves >= MPIWorkers.scattered:
        sums, sent = 2 * sums, sent / 2 + 32 * features * leaves
    return sums + 8, sent + 16 * leaves * (n_classes + 1)


def predicted(machines, rows, row, sums, sent, speed):
    """Seconds of computing and of sending for one tree."""
    if machines == 1:
        return rows * row / (CORES * GAIN), 0.0
    rounds = math.ceil(math.log2(machines))
    share = 2 * (machines - 1) / machines
    return rows * row / (machines * CORES * GAIN), 2 * sums * rounds * LATENCY + share * 8 * sent / speed


@benchmark("machines")
def bench_machines(options):
    """Predicted seconds of a vector tree on 1 to 64 machines."""
    trees = options.rounds or options.size(3, 11)
    report = Report({"leaves": LEAVES, "bins": BINS, "cores of a machine": CORES, "share that threads gain": GAIN,
                     "seconds of a message": LATENCY, "trees measured": trees})  # fmt: skip
    for name, (rows, d, n_classes, small) in CASES.items():
        row, leaves = work_of_a_row(d, n_classes, options.size(2000, small), trees)
        sums, sent = messages(rows, d, n_classes, leaves)
        report.add(f"{name}: a row and tree on one core", 1e9 * row, "ns", leaves=round(leaves, 1), sums=round(sums),
                   MB_a_tree=round(sent / 1e6, 1))  # fmt: skip
        for network, speed in NETWORKS.items():
            one = sum(predicted(1, rows, row, sums, sent, speed))
            for machines in MACHINES:
                work, sending = predicted(machines, rows, row, sums, sent, speed)
                more = {"sending": round(sending, 3), "times_one": round(one / (work + sending), 1)}
                report.add(f"{name}, {network}, machines: {machines}", work + sending, "s a tree", **more)
    report.notes.append("predictions: only the work of a row is measured; no network was")
    return report
