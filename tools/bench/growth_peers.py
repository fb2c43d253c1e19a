"""How the trainings of other libraries grow with the number of classes, on the data of the benchmark growth."""

import importlib.metadata
import json
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from shared.measure import Timing, error_percent

from bench.growth import CLASSES, TEST_ROWS, generate, task_and_report
from bench.process import Trainings, run_process
from bench.report import benchmark

# Trainings of two lengths tell the time of a round; the whole training runs where it is foreseen to end in time.
SHORT, LONGER = 1, 3
MOST_SECONDS, MOST_BYTES = 3600, 16e9


def lightgbm(X, y, n_classes, rounds, threads):
    import lightgbm

    words = {"objective": "multiclass", "num_class": n_classes, "num_threads": threads, "verbosity": -1}
    model = lightgbm.train({**words, "lambda_l2": 1.0}, lightgbm.Dataset(X, label=y), rounds)
    return lambda X: model.predict(X, num_threads=threads).argmax(axis=1), lambda: len(model.model_to_string())


def xgboost(X, y, n_classes, rounds, threads):
    import xgboost

    words = {"objective": "multi:softprob", "num_class": n_classes, "multi_strategy": "multi_output_tree"}
    words |= {"tree_method": "hist", "nthread": threads, "eta": 0.1}
    model = xgboost.train(words, xgboost.QuantileDMatrix(X, label=y), rounds)
    return lambda X: model.predict(xgboost.DMatrix(X)).argmax(axis=1), lambda: len(model.save_raw("ubj"))


def catboost(X, y, n_classes, rounds, threads):
    import catboost

    words = {"loss_function": "MultiClass", "iterations": rounds, "learning_rate": 0.1, "thread_count": threads}
    model = catboost.CatBoostClassifier(**words, allow_writing_files=False, verbose=False).fit(X, y)

    def size():
        with tempfile.TemporaryDirectory(prefix="mcboost-growth-") as folder:
            model.save_model(str(Path(folder, "model")), format="cbm")
            return Path(folder, "model").stat().st_size

    return lambda X: np.ravel(model.predict(X)), size


FITS = {"LightGBM": lightgbm, "XGBoost, vector leaves": xgboost, "CatBoost": catboost}
PACKAGES = {library: fit.__name__ for library, fit in FITS.items()}


def work(task):
    """Fit once in this process, in bounded memory, and say what it took."""
    resource.setrlimit(resource.RLIMIT_AS, (int(task["bytes"]), resource.RLIM_INFINITY))
    m, n_classes = task["rows"], task["classes"]
    X, y = generate(n_classes, m + min(TEST_ROWS, m))
    fit, threads = FITS[task["library"]], task["spec"]["threads"]
    few = np.arange(min(m, 2000)) % n_classes
    fit(X[: len(few)], few % 10, 10, 1, threads)  # what a library does once
    timing = Timing()
    timing.run(lambda: fit(X[:m], y[:m], n_classes, task["rounds"], threads))
    predict, size = timing.value
    return {**timing.taken, "error": error_percent(y[m:], predict(X[m:])), "file_MB": size() / 1e6}


def ended(task, seconds):
    """What a training took, or why it did not end, in words."""
    try:
        return run_process(task, "bench.growth_peers", seconds)
    except subprocess.TimeoutExpired:
        return f"{task['rounds']} rounds take more than {seconds:.0f} s"
    except RuntimeError as error:
        return f"{task['rounds']} rounds: {re.sub(r'/[^ ]*/', '', str(error))[:120]}"  # without folders of this machine


def foreseen(short, longer, rounds):
    """Seconds, CPU seconds and size of a training of ``rounds`` rounds, from two shorter ones."""
    of_round = {name: (longer[name] - short[name]) / (LONGER - SHORT) for name in ("seconds", "cpu", "file_MB")}
    return {name: short[name] + (rounds - SHORT) * each for name, each in of_round.items()}


def one(report, what, task, training):
    """Add the row of one library and number of classes; see `Trainings`."""
    rounds, found = task["rounds"], []

    def run(n, seconds):
        asked = {**task, "version": importlib.metadata.version(PACKAGES[task["library"]])}
        return training({**asked, "rounds": n, "most_seconds": seconds}, ended, {**task, "rounds": n}, seconds)

    for n in (SHORT, LONGER):
        found.append(run(n, MOST_SECONDS))
        if isinstance(found[-1], str):
            report.notes.append(f"{what}: {found[-1]}")
            return
    expected = foreseen(*found, rounds)
    if expected["seconds"] <= MOST_SECONDS:
        whole = run(rounds, 2 * MOST_SECONDS)
        if isinstance(whole, str):
            report.notes.append(f"{what}: {whole}")
            return
        more = {key: round(v, 3) for key, v in whole.items() if key != "seconds"}
        report.add(what, whole["seconds"], "s", **more)
        return
    more = {"cpu": expected["cpu"], "grown_MB": found[-1]["grown_MB"], "file_MB": expected["file_MB"]}
    more = {key: round(v, 1) for key, v in more.items()}
    report.add(f"{what}, extrapolated from {SHORT} and {LONGER} rounds", expected["seconds"], "s", **more)


@benchmark("growth-peers")
def bench_growth_peers(options):
    """LightGBM, XGBoost (vector leaves) and CatBoost on the data of `growth`: seconds, memory and error."""
    words = {
        "learning rate": 0.1,
        "others": "their defaults, LightGBM lambda_l2=1",
        "file": "LightGBM's text, XGBoost's UBJSON, CatBoost's cbm",
        "memory": f"at most {MOST_BYTES / 1e9:.0f} GB of address space",
        "time": f"trainings that would take more than {MOST_SECONDS} s are extrapolated",
    }
    common, report = task_and_report(options, "rounds", **words)
    training = Trainings(options.resume)
    for library in FITS:
        for n_classes in options.size((10,), CLASSES):
            task = {**common, "classes": n_classes, "library": library, "bytes": MOST_BYTES}
            one(report, f"{library}, K={n_classes}", task, training)
    return report


if __name__ == "__main__":
    print(json.dumps(work(json.loads(sys.argv[1]))))
