"""One model file, however rows are divided: long trainings with MPI, in memory and from chunks, by their SHA-256."""

import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from shared.datasets import load_pooled
from shared.peers import CLASS_TREES

from bench.process import mpiexec, run_process
from bench.report import Report, benchmark

# Estimator, rounds and what is not the default, of each data set.
TRAININGS = {
    "covtype": ("VectorTreeBoostClassifier", 1000, {"calibrate": None}),
    "poker": ("ABCLogitBoostClassifier", 200, CLASS_TREES),
    "mnist": ("MCBoostClassifier", 1000, {}),
    "letter": (
        "AdaBoostMHClassifier", 100, {"weak_learner": "tree", "subsample": 0.5, "categorical_features": [0]}
    ),
}
# Processes, threads of each, and how rows are divided among them; 0 processes: one without MPI that reads chunks.
RUNS = [
    (1, 2, "whole"), (0, 1, "chunks"), (2, 1, "even"), (3, 1, "by class"), (4, 2, "random"), (8, 1, "empty, one row"),
]  # fmt: skip
BLOCK = 50_000


def part_of(how, y, size, rank):
    """Rows of a worker. "empty, one row": the first two have none and one."""
    if how == "by class":
        return np.array_split(np.argsort(y, kind="stable"), size)[rank]
    if how == "random":
        return np.array_split(np.random.default_rng(0).permutation(len(y)), size)[rank]
    if how == "empty, one row":
        return [np.arange(0), np.arange(1), *np.array_split(np.arange(1, len(y)), size - 2)][rank]
    return np.array_split(np.arange(len(y)), size)[rank]


def work(folder, name, rounds, how, spec):
    """One fit to the rows in a folder; what the first process knows of it."""
    import pymcboost
    from pymcboost.comm import Alone, MPIWorkers
    from pymcboost.data import Chunks

    X, y = np.load(Path(folder, "X.npy"), mmap_mode="r"), np.load(Path(folder, "y.npy"))
    estimator, _, more = TRAININGS[name]
    cls = getattr(pymcboost, estimator)
    model = cls(n_estimators=rounds, random_state=0, n_jobs=spec["threads"], **more)
    start, workers = time.perf_counter(), Alone()
    if how == "chunks":
        blocks = [(X[at : at + BLOCK], y[at : at + BLOCK]) for at in range(0, len(y), BLOCK)]
        model.fit(Chunks(blocks), comm=workers)
    else:
        from mpi4py import MPI

        workers = MPIWorkers(MPI.COMM_WORLD) if MPI.COMM_WORLD.Get_size() > 1 else workers
        part = part_of(how, y, workers.size, workers.rank)
        workers.row_number = part
        model.fit(np.ascontiguousarray(X[part]), y[part], comm=workers)
    found = {"seconds": time.perf_counter() - start, "error": float(np.mean(model.predict(X[:BLOCK]) != y[:BLOCK]))}
    found["sha256"] = hashlib.sha256(model.model_.to_bytes()).hexdigest()
    if workers.rank == 0:
        print(json.dumps(found))


@benchmark("workers-same")
def bench_same(options):
    """Model files of long trainings by their SHA-256: processes x threads x divisions of the rows, memory, chunks."""
    names = options.data or list(TRAININGS)
    report = Report({"data": " ".join(names)})
    for name in names:
        estimator, rounds, _ = TRAININGS[name]
        rounds = options.rounds or options.size(3, rounds)
        X, y = load_pooled(name)
        rows, files = options.size(2000, len(y)), set()
        with tempfile.TemporaryDirectory(prefix="mcboost-same-") as folder:
            np.save(Path(folder, "X.npy"), np.ascontiguousarray(X[:rows], dtype=np.float32))
            np.save(Path(folder, "y.npy"), y[:rows])
            del X, y
            for processes, threads, how in RUNS:
                task = {"folder": folder, "name": name, "rounds": rounds, "how": how, "spec": {"threads": threads}}
                prefix = mpiexec(processes) if processes else ()
                found = run_process(task, "bench.workers_same", prefix=prefix)
                files.add(found["sha256"])
                what = f"{name}, {rounds} rounds of {estimator}: {max(1, processes)} x {threads}, {how}"
                report.add(what, found["seconds"], "s", error_percent=round(100 * found["error"], 2),
                           sha256=found["sha256"][:12])  # fmt: skip
        report.target(f"{name}: different models", len(files), 1, at_most=True, unit="")
    return report


if __name__ == "__main__":
    work(**json.loads(sys.argv[1]))
