"""Rows divided among processes: trainings with MPI against threads of one process, the same model in both."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from shared.datasets import load_pooled
from shared.peers import CLASS_TREES

from bench.process import mpiexec, run_process, start
from bench.report import Report, benchmark

DATA = "covtype"
FIRST, AS_WORKER = "1 process, 2 threads", "1 process as a worker, 2 threads"
# Estimator, rounds, ways of division and how much longer than one process with two threads they may take, and what is
# not the default, by the data.
# MCBoost has the sums of workers where it has a communicator alone.
TRAININGS = {
    "covtype": (
        "VectorTreeBoostClassifier", 100, {"2 processes": 1.25, "4 processes": 1.6},
        {"subsample": 0.5, "calibrate": None},
    ),
    "poker": ("LogitBoostClassifier", 20, {"2 processes": 1.25}, CLASS_TREES),
    "mnist": ("MCBoostClassifier", 300, {AS_WORKER: None, "2 processes": 1.5}, {}),
}
# Seconds that a process waits for a stopped one.
FAULT_TIMEOUT = 5
# Processes, threads of each, and whether they have a communicator.
HOW = {FIRST: (1, 2, 0), AS_WORKER: (1, 2, 1), "2 processes": (2, 1, 1), "4 processes": (4, 1, 1)}


def work(name, rows, rounds, spec, as_worker, timeout=600, folder=None):
    """One fit to the part of the rows that is this process's; what it took, from process 0.

    With a folder, a file there tells the number of this process when the training begins.
    """
    from mpi4py import MPI

    import pymcboost
    from pymcboost.comm import ALONE, MPIWorkers

    comm = MPI.COMM_WORLD
    X, y = (part[:rows] for part in load_pooled(name))
    part = np.array_split(np.arange(len(y)), comm.size)[comm.rank]
    X, y = np.ascontiguousarray(X[part], dtype=np.float32), y[part]
    workers = MPIWorkers(comm, timeout) if as_worker else ALONE
    estimator = getattr(pymcboost, TRAININGS[name][0])
    model = estimator(n_estimators=rounds, random_state=0, n_jobs=spec["threads"], **TRAININGS[name][3])
    comm.Barrier()
    if folder:
        Path(folder, str(comm.rank)).write_text(str(os.getpid()))
    start, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y, comm=workers)
    found = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    leaves = float(np.mean(model.history_.get("n_leaves", 0)))
    found |= {"sums": workers.n_sums, "MB": workers.n_bytes / 1e6, "leaves": leaves, "rows": len(part)}
    found["sha256"] = hashlib.sha256(model.model_.to_bytes()).hexdigest()
    if comm.rank == 0:
        print(json.dumps(found))


def alive(pid):
    """Whether there is such a process, which is not waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def trouble(rng, how, processes, folder):
    """Kill or stop one process at a random time of a training: seconds until all had ended, and what is amiss."""
    task = {"name": DATA, "rows": 20_000, "rounds": 10_000, "spec": {"threads": 1}, "as_worker": 1}
    task |= {"timeout": FAULT_TIMEOUT, "folder": str(folder)}
    began = start(task, "bench.workers", mpiexec(processes))
    files = [Path(folder, str(rank)) for rank in range(processes)]
    while not all(file.is_file() and file.read_text() for file in files):
        if began.poll() is not None:
            return 0.0, f"ended before the training: {began.communicate()[1].strip()[-200:]}"
        time.sleep(0.05)
    pids = [int(file.read_text()) for file in files]
    time.sleep(rng.uniform(0, 3))
    os.kill(pids[rng.integers(processes)], how)
    begin = time.monotonic()
    try:
        began.communicate(timeout=FAULT_TIMEOUT + 30)
    except subprocess.TimeoutExpired:
        began.kill()
        return time.monotonic() - begin, "hangs"
    seconds = time.monotonic() - begin
    time.sleep(0.5)
    left = [pid for pid in pids if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return seconds, "exit status 0" if not began.returncode else "a process is left" if left else None


@benchmark("workers-faults")
def bench_faults(options):
    """Killed and stopped processes of a training with MPI: seconds until all have ended."""
    runs = options.rounds or options.size(1, 20)
    report = Report({"runs of each": runs, "time-out, s": FAULT_TIMEOUT, "processes": 3, "seed": 0})
    rng = np.random.default_rng(0)
    for name, how in (("kill -9", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
        found = []
        for _ in range(runs):
            with tempfile.TemporaryDirectory(prefix="mcboost-workers-") as folder:
                found.append(trouble(rng, how, 3, folder))
        report.add(name, max(seconds for seconds, _ in found), "s at most", runs_of_it=len(found))
        amiss = [what for _, what in found if what]
        report.notes += amiss
        report.target(f"{name}: runs that went wrong", len(amiss), 0, at_most=True, unit="")
    return report


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
    rows, rounds = options.size(2000, 10**9), options.rounds or options.size(3, rounds)
    what = f"{name}, {rounds} rounds of {estimator}"
    runs = {how: [] for how in (FIRST, *ways)}
    for _ in range(options.repeat):
        for how, found in runs.items():
            processes, threads, as_worker = HOW[how]
            task = {"name": name, "rows": rows, "rounds": rounds, "spec": {"threads": threads}}
            task["as_worker"] = as_worker
            found.append(run_process(task, "bench.workers", prefix=mpiexec(processes)))
    seconds = {how: min(one["seconds"] for one in found) for how, found in runs.items()}
    for how, found in runs.items():
        more = {"sums_a_round": found[0]["sums"] / rounds, "MB_a_round": found[0]["MB"] / rounds}
        more = {key: round(value, 3) for key, value in (more | {"leaves": found[0]["leaves"]}).items()}
        report.add(f"{what}: {how}", seconds[how], "s", **more, rows=found[0]["rows"])
    for how, bound in ways.items():
        if bound:
            report.target(f"{name}: {how} / {FIRST}", seconds[how] / seconds[FIRST], bound, at_most=True)
    alike = [found for how, found in runs.items() if how != FIRST or AS_WORKER not in ways]
    files = {one["sha256"] for found in alike for one in found}
    report.target(f"{name}: different models", len(files), 1, at_most=True, unit="")


if __name__ == "__main__":
    work(**json.loads(sys.argv[1]))
