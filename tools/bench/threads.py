"""Threads: speed-up on an idle machine, and beside busy processes, for our estimators and other libraries.

Each fit runs in a process of its own and takes turns with the others. A busy process is a loop in Python; there are
three for each CPU. What counts there is how long several threads take against one under the same load, and their CPU
time. What the machine itself allows is told by as many processes at a time as there are threads, each with one thread.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from shared.datasets import load_for_trees
from shared.measure import Timing
from shared.peers import PEERS, Spec

from bench.process import Field, race_processes, save_arrays, side_by_side
from bench.report import Report, benchmark

# Set, rows that are taken, and rounds: of our vector trees; class-wise trees and other libraries have a third.
SETS = (
    ("covtype", 100_000, 60),
    ("covtype", 50_000, 60),
    ("letter", 15_000, 60),
    ("letter", 10_000, 60),
    ("mnist", 60_000, 10),
)
BUSY_SETS = 2
BUSY_FOR_EACH_CPU = 3
# What several threads are to gain from 50,000 x 50 on, and from 10,000 x 16; what they may cost beside busy processes.
GAIN = 1.8
GAIN_OF_FEW = 1.5
MANY_ROWS = 50_000
COST = 1.3
DEFAULTS = {"leaves": None, "learning_rate": None}


@dataclass(frozen=True)
class Task:
    """One data set with several competitors."""

    name: str
    rows: int
    rounds: int

    def specs(self, threads, peers):
        """Competitors of so many threads."""
        few = max(2, self.rounds // 3)
        timings = {
            "VectorTreeBoost": Spec(
                "vector", self.rounds, threads=threads, more={"calibrate": None}, **DEFAULTS
            ),
            "LogitBoost": Spec("logitboost", few, threads=threads),
            "MCBoost": Spec("mcboost", self.rounds, threads=threads, **DEFAULTS),
        }
        return timings | {name: Spec(name, few, threads=threads) for name in peers}


@contextlib.contextmanager
def busy(n):
    """So many processes that take all time they get."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure(task, folder, load, options, field, report):
    """Fits of one set by one thread and by several, beside so many busy processes: {name: (one, several)}."""
    threads = max(options.threads) if max(options.threads) > 1 else os.cpu_count() or 1
    competitors = {}
    for n in (1, threads):
        specs = field.keep(task.specs(n, options.peers if options.peers is not None else PEERS))
        competitors |= {f"{name}, {n} threads": spec for name, spec in specs.items()}
    with busy(load):
        timings = race_processes(
            folder, competitors, options.size(1, options.repeat), errors=False, failed=field.failed
        )
    pairs = {}
    for name in dict.fromkeys(key.partition(",")[0] for key in timings):
        one, several = (timings.get(f"{name}, {n} threads") for n in (1, threads))
        if one and several:
            pairs[name] = one.timing, several.timing
            what = f"{task.name}, {task.rows:,} rows, {name}{', busy' if load else ''}"
            row = several.timing.row(what, one_thread=one.timing.median)
            row |= {"gain": one.timing.median / several.timing.median, "busy": load}
            report.rows.append(
                row | {"cpu_ratio": several.timing.best_cpu / max(one.timing.best_cpu, 1e-9)}
            )
    return pairs


def judge(task, load, pairs, report):
    """Compare with the targets."""
    what = f"{task.name}, {task.rows:,} rows"
    for name, (one, several) in pairs.items():
        if load and name in ("VectorTreeBoost", "LogitBoost", "MCBoost"):
            report.target(
                f"{what}, {name}, busy: time", several.median / one.median, COST, at_most=True
            )
            report.target(
                f"{what}, {name}, busy: CPU time",
                several.best_cpu / one.best_cpu,
                COST,
                at_most=True,
            )
        elif name == "VectorTreeBoost":
            bound = GAIN if task.rows >= MANY_ROWS and task.name != "mnist" else GAIN_OF_FEW
            report.target(f"{what}, {name}: gain", one.best / several.best, bound)


def measure_limit(task, folder, one, options, report):
    """How much more a machine does with several threads: as many processes at a time, of one thread each.

    They share caches and memory as threads do, but wait for nobody.
    """
    threads = max(options.threads) if max(options.threads) > 1 else os.cpu_count() or 1
    spec = task.specs(1, ())["VectorTreeBoost"]
    turns = range(options.size(1, options.repeat))
    timing = Timing([max(side_by_side(folder, spec, threads)) for _ in turns])
    what = f"{task.name}, {task.rows:,} rows, VectorTreeBoost, {threads} processes side by side"
    report.rows.append(
        timing.row(what, one_thread=one.median) | {"gain": threads * one.best / timing.best}
    )


@benchmark("threads")
def bench_threads(options):
    """Several threads against one, on an idle machine and beside busy processes: ours, and other libraries."""
    n_busy = options.size(1, BUSY_FOR_EACH_CPU * (os.cpu_count() or 1))
    report = Report(
        {
            "busy processes": n_busy,
            "class-wise trees, other libraries": "20 leaves, a third of the rounds",
        }
    )
    field = Field()
    tasks = [Task(*one) for one in SETS if not options.data or one[0] in options.data]
    for position, task in enumerate(tasks):
        X, y, _, _ = load_for_trees(task.name)
        rows = min(options.size(2000, task.rows), len(y))
        with tempfile.TemporaryDirectory() as folder:
            save_arrays(folder, X[:rows], y[:rows], X[:100], y[:100])
            for load in (0, n_busy) if position < BUSY_SETS else (0,):
                pairs = measure(task, folder, load, options=options, field=field, report=report)
                judge(task, load, pairs, report=report)
                if not load:
                    one, _ = pairs["VectorTreeBoost"]
                    measure_limit(task, folder, one, options=options, report=report)
    field.tell(report)
    return report
