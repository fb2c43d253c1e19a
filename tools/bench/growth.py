"""How vector trees grow with the number of classes: seconds, memory, bytes of the model and error."""

import json
import sys

import numpy as np
from shared.measure import Timing, environment, error_percent

from bench.process import Trainings, run_process
from bench.report import Report, benchmark

CLASSES = 10, 100, 1000, 10000
ROWS, TEST_ROWS, WIDTH, ROUNDS = 100000, 10000, 64, 100
# Asked: at most so many times the time of 10 classes; and bytes at 10,000 classes.
TIMES, MOST_MB = {1000: 10, 10000: 120}, 8e3
VARIANTS = {"all entries": {}, "100 entries": {"max_leaf_entries": 100}}
TRAINING = {"subsample": 0.5, "calibrate": None}
# Errors of the default search against that of all columns: seeds, and most standard errors of the mean difference.
COMPARED, SEEDS, ERRORS = (100, 1000), 5, 2


def generate(n_classes, rows, seed=0):
    """Rows of classes that are normal clouds; their centres lie in groups, as many as the root of their number."""
    rng = np.random.default_rng([n_classes, seed])
    groups = 1.5 * rng.standard_normal((max(2, int(n_classes**0.5)), WIDTH))
    centres = groups[rng.integers(len(groups), size=n_classes)] + rng.standard_normal((n_classes, WIDTH))
    y = rng.permutation(np.arange(rows) % n_classes)
    return (centres[y] + rng.standard_normal((rows, WIDTH))).astype(np.float32), y


def work(task):
    """Fit once in this process and say what it took."""
    from pymcboost import VectorTreeBoostClassifier

    m, n_test = task["rows"], min(TEST_ROWS, task["rows"])
    seed = task.get("seed", 0)
    X, y = generate(task["classes"], m + n_test, seed)
    how = {**TRAINING, **task["params"], "random_state": seed, "n_jobs": task["spec"]["threads"]}
    model = VectorTreeBoostClassifier(n_estimators=task["rounds"], **how)
    timing = Timing()
    try:
        timing.run(lambda: model.fit(X[:m], y[:m]))
    except MemoryError as error:
        return {"refused": str(error)}
    size, error = len(model.model_.to_bytes()) / 1e6, error_percent(y[m:], model.predict(X[m:]))
    return {**timing.taken, "model_MB": size, "error": error}


def task_and_report(options, rounds_are, seeds="seed 0", **more):
    """What is common to all trainings of a benchmark on these rows, and its report, which says so and ``more``."""
    rounds = options.rounds or options.size(3, ROUNDS)
    rows = options.rows[0] if options.rows else options.size(500, ROWS)
    threads = max(options.threads)
    data = f"{rows} rows of normal clouds, {WIDTH} features, {seeds}"
    report = Report({"data": data, rounds_are: rounds, "threads": threads, **more})
    return {"rows": rows, "rounds": rounds, "spec": {"threads": threads}}, report


@benchmark("growth")
def bench_growth(options):
    """Vector trees of 10 to 10,000 classes on 100,000 generated rows of 64 features."""
    common, report = task_and_report(options, "trees", **TRAINING)
    cpu = {}
    for name, params in VARIANTS.items():
        for n_classes in options.size((10, 100), CLASSES):
            what = f"K={n_classes}, {name}"
            found = run_process({**common, "classes": n_classes, "params": params}, "bench.growth")
            if "refused" in found:
                report.notes.append(f"{what}: refused, {found['refused']}")
                continue
            cpu[name, n_classes] = found["cpu"]
            report.add(what, found.pop("seconds"), "s", **{key: round(v, 3) for key, v in found.items()})
            if n_classes in TIMES:
                times = found["cpu"] / cpu[name, CLASSES[0]]
                report.target(f"{what}: CPU time by that of K=10", times, TIMES[n_classes], at_most=True)
            if n_classes == CLASSES[-1]:
                report.target(f"{what}: memory", found["grown_MB"], MOST_MB, at_most=True, unit="MB")
    return report


@benchmark("growth-errors")
def bench_growth_errors(options):
    """Errors of the default split columns against those of all, on the data of `growth`."""
    n_seeds = options.size(2, SEEDS)
    common, report = task_and_report(options, "trees", f"seeds 0 to {n_seeds - 1}", **TRAINING)
    report.parameters["difference"] = "default less all columns, in standard errors of the mean over the seeds"
    training, commit = Trainings(options.resume), environment()["commit"]
    for n_classes in options.size((40,), COMPARED):
        errors, cpu = {}, {}
        for name, columns in (("default", "auto"), ("all", None)):
            task = {**common, "classes": n_classes, "params": {"split_columns": columns}}
            tasks = [{**task, "seed": seed} for seed in range(n_seeds)]
            found = [training({**task, "commit": commit}, run_process, task, "bench.growth") for task in tasks]
            errors[name] = np.array([one["error"] for one in found])
            cpu[name] = sum(one["cpu"] for one in found)
            more = {"errors": " ".join(f"{error:.2f}" for error in errors[name]), "cpu": round(cpu[name], 1)}
            report.add(f"K={n_classes}, {name}", errors[name].mean(), "%", **more)
        report.target(
            f"K={n_classes}: error, difference", in_errors(errors["default"] - errors["all"]), ERRORS,
            at_most=True, unit="errors",
        )  # fmt: skip
        report.add(f"K={n_classes}: CPU time, all / default", cpu["all"] / cpu["default"])
    return report


def in_errors(differences):
    """The mean in its standard errors; 0 where all are 0, infinite where all are the same and not 0."""
    mean, error = differences.mean(), differences.std(ddof=1) / len(differences) ** 0.5
    return mean / error if error else np.copysign(np.inf, mean) if mean else 0.0


if __name__ == "__main__":
    print(json.dumps(work(json.loads(sys.argv[1]))))
