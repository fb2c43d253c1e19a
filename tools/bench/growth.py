"""How vector trees grow with the number of classes: seconds, memory, bytes of the model and error."""

import json
import sys

import numpy as np
from shared.measure import Timing, error_percent

from bench.process import run_process
from bench.report import Report, benchmark

CLASSES = 10, 100, 1000, 10000
ROWS = 100000
TEST_ROWS = 10000
WIDTH = 64
ROUNDS = 100
# Asked: at most so many times the time of 10 classes; and bytes at 10,000 classes.
TIMES = {1000: 10, 10000: 120}
MOST_MB = 8e3
VARIANTS = {"all entries": {}, "100 entries": {"max_leaf_entries": 100}}
TRAINING = {"subsample": 0.5, "calibrate": None}


def generate(n_classes, rows):
    """Rows of classes that are normal clouds; their centres lie in groups, as many as the root of their number."""
    rng = np.random.default_rng([n_classes, 0])
    groups = 1.5 * rng.standard_normal((max(2, int(n_classes**0.5)), WIDTH))
    centres = groups[rng.integers(len(groups), size=n_classes)] + rng.standard_normal(
        (n_classes, WIDTH)
    )
    y = rng.permutation(np.arange(rows) % n_classes)
    return (centres[y] + rng.standard_normal((rows, WIDTH))).astype(np.float32), y


def work(task):
    """Fit once in this process and say what it took."""
    from pymcboost import VectorTreeBoostClassifier

    m = task["rows"]
    n_test = min(TEST_ROWS, task["rows"])
    X, y = generate(task["classes"], m + n_test)
    how = {**TRAINING, **task["params"], "random_state": 0, "n_jobs": task["spec"]["threads"]}
    model = VectorTreeBoostClassifier(n_estimators=task["rounds"], **how)
    timing = Timing()
    try:
        timing.run(lambda: model.fit(X[:m], y[:m]))
    except MemoryError as error:
        return {"refused": str(error)}
    size = len(model.model_.to_bytes()) / 1e6
    error = error_percent(y[m:], model.predict(X[m:]))
    return {**timing.taken, "model_MB": size, "error": error}


@benchmark("growth")
def bench_growth(options):
    """Vector trees of 10 to 10,000 classes on 100,000 generated rows of 64 features."""
    rounds = options.rounds or options.size(3, ROUNDS)
    rows = options.rows[0] if options.rows else options.size(500, ROWS)
    threads = max(options.threads)
    data = f"{rows} rows of normal clouds, {WIDTH} features, seed 0"
    report = Report({"data": data, "trees": rounds, "threads": threads, **TRAINING})
    common = {"rows": rows, "rounds": rounds, "spec": {"threads": threads}}
    cpu = {}
    for name, params in VARIANTS.items():
        for n_classes in options.size((10, 100), CLASSES):
            what = f"K={n_classes}, {name}"
            outcome = run_process(
                {**common, "classes": n_classes, "params": params}, "bench.growth"
            )
            if "refused" in outcome:
                report.notes.append(f"{what}: refused, {outcome['refused']}")
                continue
            cpu[name, n_classes] = outcome["cpu"]
            report.add(
                what,
                outcome.pop("seconds"),
                "s",
                **{key: round(v, 3) for key, v in outcome.items()},
            )
            if n_classes in TIMES:
                times = outcome["cpu"] / cpu[name, CLASSES[0]]
                report.target(
                    f"{what}: CPU time by that of K=10", times, TIMES[n_classes], at_most=True
                )
            if n_classes == CLASSES[-1]:
                report.target(
                    f"{what}: memory", outcome["grown_MB"], MOST_MB, at_most=True, unit="MB"
                )
    return report


if __name__ == "__main__":
    print(json.dumps(work(json.loads(sys.argv[1]))))
