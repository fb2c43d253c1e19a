"""The time from a row on standard input to its answer."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from shared.peers import CLASS_TREES

from bench.report import Report, benchmark


def latencies(model, lines, option):
    """Seconds from writing each line to having read its answer, from a program that runs already."""
    command = [
        sys.executable,
        "-m",
        "pymcboost.cli.predict",
        "--stream",
        *option,
        "-",
        str(model),
        "-",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, bufsize=0
    ) as process:
        answers = os.fdopen(os.dup(process.stdout.fileno()), "rb")
        if option:
            answers.readline()
        seconds = []
        for line in lines:
            begin = time.perf_counter()
            process.stdin.write(line.encode() + b"\n")
            assert answers.readline()
            seconds.append(time.perf_counter() - begin)
        process.stdin.close()
        answers.close()
    return seconds[len(seconds) // 10 :]  # the first ones load what later ones have


@benchmark("stream")
def bench_stream(options):
    """Answer single rows of mcboost-predict --stream: time from a row on standard input to its line, in a pipe."""
    from pymcboost import MartClassifier, MCBoostClassifier

    rng = np.random.default_rng(0)
    n = options.size(300, 3000)
    report = Report({"rows": n, "features": 64, "classes": 10, "threads": 1})
    y = rng.integers(0, 10, size=1000)
    X = (rng.normal(size=(1000, 64)) + np.eye(10, 64)[y] * 3).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        lines = [" ".join(f"{j}:{value:.6g}" for j, value in enumerate(row, 1)) for row in X] * 3
        for name, estimator in (
            ("200 stumps", MCBoostClassifier(n_estimators=200)),
            ("1000 trees", MartClassifier(n_estimators=100, **CLASS_TREES)),
        ):
            estimator.fit(X, y).save(Path(folder, "model"))
            for option in ([], ["-b", "1"]):
                microseconds = 1e6 * np.sort(latencies(Path(folder, "model"), lines[:n], option))
                what = f"{name}{', ' * bool(option)}{' '.join(option)}"
                report.add(
                    what,
                    microseconds[len(microseconds) // 2],
                    "us",
                    p99=microseconds[int(0.99 * len(microseconds))],
                    longest=microseconds[-1],
                )
                report.target(
                    what, microseconds[len(microseconds) // 2] / 1000, 1, at_most=True, unit="ms"
                )
    return report
