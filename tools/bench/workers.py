"""Rows divided among processes: trainings with MPI against threads of one process, the same model in both."""

import hashlib
import json
import sys
import time

import numpy as np
from shared.datasets import load_pooled
from shared.peers import CLASS_TREES

from bench.process import mpiexec, run_process
from bench.report import Report, benchmark

DATA = "covtype"
FIRST = "1 process, 2 threads"
AS_WORKER = "1 process as a worker, 2 threads"
# Estimator, rounds, ways of division and how much longer than one process with two threads they may take, and what is
# not the default, by the data.
# MCBoost has the sums of workers where it has a communicator alone.
TRAININGS = {
    "covtype": (
        "VectorTreeBoostClassifier",
        100,
        {"2 processes": 1.25, "4 processes": 1.6},
        {"subsample": 0.5, "calibrate": None},
    ),
    "poker": ("LogitBoostClassifier", 20, {"2 processes": 1.25}, CLASS_TREES),
    "mnist": ("MCBoostClassifier", 300, {AS_WORKER: None, "2 processes": 1.5}, {}),
}
# Processes, threads of each, and whether they have a communicator.
HOW = {FIRST: (1, 2, 0), AS_WORKER: (1, 2, 1), "2 processes": (2, 1, 1), "4 processes": (4, 1, 1)}


def work(name, rows, rounds, spec, as_worker):
    """One fit to the part of the rows that is this process's; what it took, from process 0."""
    from mpi4py import MPI

    import pymcboost
    from pymcboost.comm import ALONE, MPIWorkers

    comm = MPI.COMM_WORLD
    X, y = (part[:rows] for part in load_pooled(name))
    part = np.array_split(np.arange(len(y)), comm.size)[comm.rank]
    X = np.ascontiguousarray(X[part], dtype=np.float32)
    y = y[part]
    workers = MPIWorkers(comm) if as_worker else ALONE
    estimator = getattr(pymcboost, TRAININGS[name][0])
    model = estimator(
        n_estimators=rounds, random_state=0, n_jobs=spec["threads"], **TRAININGS[name][3]
    )
    comm.Barrier()
    start = time.perf_counter()
    cpu = time.process_time()
    model.fit(X, y, comm=workers)
    measured = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    leaves = float(np.mean(model.history_.get("n_leaves", 0)))
    measured |= {
        "sums": workers.n_sums,
        "MB": workers.n_bytes / 1e6,
        "leaves": leaves,
        "rows": len(part),
    }
    measured["sha256"] = hashlib.sha256(model.model_.to_bytes()).hexdigest()
    if comm.rank == 0:
        print(json.dumps(measured))


@benchmark("workers")
def bench_workers(options):
    """Trainings of processes with MPI against one process with two threads: seconds and bytes sent."""
    names = options.data or list(TRAININGS)
    report = Report({"data": " ".join(names)})
    for name in names:
        of_data(report, name, options)
    return report


def of_data(report, name, options):
    """Race the divisions of one data set."""
    estimator, rounds, ways, _ = TRAININGS[name]
    rows = options.size(2000, 10**9)
    rounds = options.rounds or options.size(3, rounds)
    what = f"{name}, {rounds} rounds of {estimator}"
    runs = {how: [] for how in (FIRST, *ways)}
    for _ in range(options.repeat):
        for how, outcomes in runs.items():
            processes, threads, as_worker = HOW[how]
            task = {"name": name, "rows": rows, "rounds": rounds, "spec": {"threads": threads}}
            task["as_worker"] = as_worker
            outcomes.append(run_process(task, "bench.workers", prefix=mpiexec(processes)))
    seconds = {
        how: min(outcome["seconds"] for outcome in outcomes) for how, outcomes in runs.items()
    }
    for how, outcomes in runs.items():
        more = {
            "sums_a_round": outcomes[0]["sums"] / rounds,
            "MB_a_round": outcomes[0]["MB"] / rounds,
        }
        more = {
            key: round(value, 3)
            for key, value in (more | {"leaves": outcomes[0]["leaves"]}).items()
        }
        report.add(f"{what}: {how}", seconds[how], "s", **more, rows=outcomes[0]["rows"])
    for how, bound in ways.items():
        if bound:
            report.target(
                f"{name}: {how} / {FIRST}", seconds[how] / seconds[FIRST], bound, at_most=True
            )
    alike = [outcomes for how, outcomes in runs.items() if how != FIRST or AS_WORKER not in ways]
    files = {outcome["sha256"] for outcomes in alike for outcome in outcomes}
    report.target(f"{name}: different models", len(files), 1, at_most=True, unit="")


if __name__ == "__main__":
    work(**json.loads(sys.argv[1]))
