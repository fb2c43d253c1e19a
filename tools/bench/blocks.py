"""Rows in blocks: vector trees from blocks, the same rows in memory, and XGBoost, each in its own process."""

import json
import os
import sys
import tempfile
import threading
import time
from importlib.util import find_spec

import numpy as np

from bench.process import run_process
from bench.report import Report, benchmark

OTHER = "xgboost"
NAMES = {OTHER: "XGBoost's ExtMemQuantileDMatrix, a tree for each class"}
TEST_BLOCK = 1 << 30  # no training has so many blocks
FEATURES = 50
CLASSES = 5
BLOCK = 50_000
# Rows above these are trained from blocks alone.
MOST_IN_MEMORY = 10_000_000


def blocks(rows, *sizes):
    """Blocks of generated rows, always the same."""
    for part, begin in enumerate(range(0, rows, BLOCK)):
        yield block(part, min(BLOCK, rows - begin), *sizes)


def block(part, rows, features=FEATURES, classes=CLASSES):
    """Rows of one block, and their classes."""
    rng = np.random.default_rng(part)
    X = rng.normal(size=(rows, features)).astype(np.float32)
    scores = X[:, :classes] + X[:, classes : 2 * classes] * X[:, :1]
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def in_memory(rows, features=FEATURES, classes=CLASSES):
    """All rows, and their classes."""
    X = np.empty((rows, features), dtype=np.float32)
    y = np.empty(rows, dtype=np.int64)
    for at, (part, labels) in zip(
        range(0, rows, BLOCK), blocks(rows, features, classes), strict=True
    ):
        X[at : at + BLOCK] = part
        y[at : at + BLOCK] = labels
    return X, y


class Anonymous(threading.Thread):
    """The most anonymous memory of this process, looked at a hundred times a second: bytes."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most = 0
        self.least = self.now()
        self.start()

    @staticmethod
    def now():
        with open("/proc/self/status", encoding="ascii") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))

    def run(self):
        while True:
            self.most = max(self.most, self.now())
            time.sleep(0.01)


def other(rows, rounds, threads):
    """XGBoost from blocks, with pages in files: as many rounds, each a tree for each class."""
    import xgboost

    class Blocks(xgboost.DataIter):
        def __init__(self, folder):
            super().__init__(cache_prefix=os.path.join(folder, "pages"), on_host=False)

        def next(self, input_data):
            block = next(self.source, None)
            if block is not None:
                input_data(data=block[0], label=block[1])
            return block is not None

        def reset(self):
            self.source = blocks(rows)

    words = {
        "objective": "multi:softprob",
        "num_class": CLASSES,
        "nthread": threads,
        "subsample": 0.5,
    }
    with tempfile.TemporaryDirectory(prefix="mcboost-blocks-") as folder:
        data = xgboost.ExtMemQuantileDMatrix(Blocks(folder), max_bin=256, nthread=threads)
        model = xgboost.train({**words, "tree_method": "hist"}, data, rounds)
    return lambda X: model.predict(xgboost.DMatrix(X)).argmax(axis=1)


def work(how, rows, rounds, spec):
    """One fit: what it took."""
    from pymcboost import Dataset, VectorTreeBoostClassifier

    params = {"n_estimators": rounds, "subsample": 0.5, "calibrate": None, "random_state": 0}
    model = VectorTreeBoostClassifier(**params, n_jobs=spec["threads"])
    seen = Anonymous()
    start = time.perf_counter()
    cpu = time.process_time()
    if how == OTHER:
        predict = other(rows, rounds, spec["threads"])
    elif how == "blocks":
        model.fit(Dataset.from_blocks(lambda: blocks(rows)))
    else:
        model.fit(*in_memory(rows))
    measured = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    measured |= {"anonymous_MB": (seen.most - seen.least) / 1e6}
    if how != OTHER:
        predict = model.predict
    X, y = block(TEST_BLOCK, BLOCK)
    return {**measured, "error": 100 * float(np.mean(predict(X) != y))}


@benchmark("blocks")
def bench_blocks(options):
    """Vector trees from blocks and from memory, XGBoost from pages: seconds with the making of rows, and memory."""
    sizes = options.rows or [options.size(100_000, 2_000_000)]
    rounds = options.rounds or options.size(5, 20)
    threads = options.threads[0]
    report = Report(
        {"features": FEATURES, "classes": CLASSES, "rounds": rounds, "threads": threads}
    )
    for rows in sizes:
        runs = {"blocks": []} if rows > MOST_IN_MEMORY else {"memory": [], "blocks": []}
        if find_spec(OTHER):
            runs[OTHER] = []
        for _ in range(options.repeat):
            for how, outcomes in runs.items():
                task = {"how": how, "rows": rows, "rounds": rounds, "spec": {"threads": threads}}
                outcomes.append(run_process(task, "bench.blocks"))
        seconds = {
            how: min(outcome["seconds"] for outcome in outcomes) for how, outcomes in runs.items()
        }
        for how, outcomes in runs.items():
            memory = max(outcome["anonymous_MB"] for outcome in outcomes)
            cpu = round(min(outcome["cpu"] for outcome in outcomes), 1)
            words = {
                "cpu_s": cpu,
                "anonymous_MB": round(memory),
                "error_percent": round(outcomes[0]["error"], 2),
            }
            report.add(f"{rows} rows, {NAMES.get(how, how)}", seconds[how], "s", **words)
            if how == "blocks":
                gibs = memory * 1e6 / 2**30
                report.target(
                    f"{rows} rows, blocks: anonymous memory", gibs, 3, at_most=True, unit="GiB"
                )
        if "memory" in runs:
            report.target(
                f"{rows} rows, blocks / memory",
                seconds["blocks"] / seconds["memory"],
                2,
                at_most=True,
            )
            errors = {how: outcomes[0]["error"] for how, outcomes in runs.items()}
            difference = abs(errors["blocks"] - errors["memory"])
            report.target(
                f"{rows} rows, difference of the errors",
                difference,
                0.5,
                at_most=True,
                unit="percent",
            )
    return report


if __name__ == "__main__":
    print(json.dumps(work(**json.loads(sys.argv[1]))))
