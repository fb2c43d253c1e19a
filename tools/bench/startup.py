"""What the programs take to start, and to train on a small file: what a shell user waits for."""

import os
import subprocess
import sys
import tempfile
import time

from shared.measure import ROOT, Timing

from bench.report import Report, benchmark

PROGRAMS = ("train", "tune", "predict", "info", "convert")
SMALL = ("iris", "wine")
ALGORITHMS = ("mcboost", "vector-tree", "logitboost", "multiboost", "hingeboost")
# Seconds that help and wrong usage may take, and a training on a small file.
HELP = 0.15
TRAINING = 0.5


def started(timing, arguments, folder, status=0):
    """Run a program once: its seconds, and those of its processor."""
    before = os.times()
    begin = time.perf_counter()
    completed = subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=folder, capture_output=True, text=True
    )
    timing.seconds.append(time.perf_counter() - begin)
    after = os.times()
    spent = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    timing.cpu.append(round(spent, 2))  # what the system counts in
    if completed.returncode != status:
        raise RuntimeError(completed.stderr.strip().splitlines()[-1])


def module(program):
    """How Python runs a program."""
    return ["-m", f"pymcboost.cli.{program}"]


@benchmark("startup")
def bench_startup(options):
    """Start the programs: help, wrong usage, and training on and predicting the bundled small files, files included."""
    report = Report(
        {
            "files": "iris (150 rows x 4, 3 classes), wine (178 x 13, 3)",
            "parameters": "the defaults",
        }
    )
    runs = {("python -c pass", None): (["-c", "pass"], 0)}
    runs |= {
        (f"mcboost-{program} --help", HELP): ([*module(program), "--help"], 0)
        for program in PROGRAMS
    }
    runs |= {("mcboost-train, an unknown option", HELP): ([*module("train"), "--unknown"], 1)}
    with tempfile.TemporaryDirectory() as folder:
        for name in SMALL:
            data = ROOT / "data" / f"{name}.libsvm"
            for algorithm in ALGORITHMS:
                command = [*module("train"), "-q", "-a", algorithm, data, f"{name}.{algorithm}"]
                runs[f"mcboost-train -a {algorithm}, {name}", TRAINING] = command, 0
            command = [*module("predict"), "-q", data, f"{name}.vector-tree", "out"]
            runs[f"mcboost-predict, vector-tree, {name}", TRAINING] = command, 0
        timings = {key: Timing() for key in runs}
        for _ in range(
            1 + options.size(1, 2 * options.repeat)
        ):  # the first one fills the caches of the disk
            for key, (command, status) in runs.items():
                started(timings[key], command, folder, status=status)
    for (what, bound), timing in timings.items():
        del timing.seconds[0], timing.cpu[0]
        report.rows.append(timing.row(what))
        if bound is not None:
            report.target(what, timing.best, bound, at_most=True, unit="s")
    return report
