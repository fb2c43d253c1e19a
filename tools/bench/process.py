"""One fit in a process of its own, so that its highest memory is its own; competitors take turns.

In each process the libraries are loaded and a small fit is made before the clock starts, which then covers the fit from
NumPy arrays to the finished model, data preparation included, on all sides.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from shared import peers
from shared.datasets import coded
from shared.measure import Timing, error_percent, memory_mb
from shared.peers import Spec

TOOLS = Path(__file__).resolve().parents[1]


def work(task):
    """Fit one competitor to the arrays of a folder and say what it took."""
    folder = Path(task["folder"])
    spec = Spec(**task["spec"])
    X, codes = np.load(folder / "X.npy"), np.load(folder / "codes.npy")
    n_classes = int(codes.max()) + 1
    few = np.sort(np.concatenate([np.flatnonzero(codes == k)[:40] for k in np.unique(codes)]))
    peers.fit(
        replace(spec, rounds=2), np.ascontiguousarray(X[few]), codes[few], n_classes=n_classes
    )
    timing = Timing()
    for _ in range(task.get("fits", 1)):
        timing.run(lambda: peers.fit(spec, X, codes, n_classes=n_classes))
    model = timing.value
    measured = {
        **timing.taken,
        "median": timing.median,
        "peak_MB": memory_mb()[1],
        "rounds": model.rounds,
        "trees": model.trees,
    }
    if task["errors"]:
        X_test, truth = np.load(folder / "X_test.npy"), np.load(folder / "codes_test.npy")
        measured["errors"] = [error_percent(truth, predicted) for predicted in model.staged(X_test)]
        measured["error"] = error_percent(truth, model.predict(X_test))
        if task["sizes"]:
            measured["sizes"] = file_sizes(model, X_test, truth)
    return measured


def file_sizes(fitted, X, truth):
    """Bytes of the model's file, LightGBM's in its text format; ours with leaves of 16 bits as well, and its error."""
    with tempfile.TemporaryDirectory(prefix="mcboost-trees-") as folder:
        path = Path(folder, "model")
        if not hasattr(fitted.model, "save"):
            fitted.model.save_model(path)
            return {"file_bytes": path.stat().st_size}
        import pymcboost

        fitted.model.save(path)
        sizes = {"file_bytes": path.stat().st_size}
        fitted.model.save(path, leaves="float16")
        error = error_percent(truth, pymcboost.load_model(path).predict(X))
        return {**sizes, "file_bytes_16": path.stat().st_size, "error_16": round(error, 3)}


def start(task, module="bench.process", prefix=()):
    """`work` of a module, begun in a process of its own, or in those that the command ``prefix`` starts."""
    threads = str(task["spec"]["threads"])
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(TOOLS)]))
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "PYTHONPATH": path,
    }
    # Standard input would reach the first of several processes alone.
    command = [*prefix, sys.executable, "-m", module, json.dumps(task)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=environment, cwd=TOOLS
    )


def mpiexec(processes):
    """The command that starts so many processes."""
    return [str(Path(sys.executable).with_name("mpiexec")), "-n", str(processes)]


def run_process(task, module="bench.process", seconds=None, prefix=()):
    """What `work` of a module prints last, which may take so many ``seconds``; see `start`."""
    with start(task, module, prefix) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        lines = errors.strip().splitlines() or [f"exit code {process.returncode}"]
        raise RuntimeError("\n".join(lines[-20:]) if prefix else lines[-1])
    return json.loads(output.splitlines()[-1])


def side_by_side(folder, spec, n, fits=3):
    """Seconds of a fit while n processes make the same fit, each with threads of its own.

    The median of the fits of a process, as the first and the last of them may have less company.
    """
    task = {"folder": str(folder), "spec": asdict(spec), "errors": False, "fits": fits}
    with ThreadPoolExecutor(n) as callers:
        return [measured["median"] for measured in callers.map(run_process, [task] * n)]


@dataclass
class Outcome:
    """What the processes of one competitor found."""

    timing: Timing = field(default_factory=Timing)
    memory: dict = field(default_factory=dict)
    errors: list = field(default_factory=list)
    sizes: dict = field(default_factory=dict)
    error: float = float("nan")
    rounds: int = 0
    trees: int | None = None

    @property
    def best(self):
        return self.timing.best

    def add(self, measured):
        self.timing.seconds.append(measured["seconds"])
        self.timing.cpu.append(measured["cpu"])
        for key in ("peak_MB", "grown_MB"):
            self.memory[key] = max(self.memory.get(key, 0.0), measured[key])
        for key in ("rounds", "trees", "errors", "error"):
            setattr(self, key, measured.get(key, getattr(self, key)))
        self.sizes |= measured.get("sizes", {})

    def row(self, what):
        options = {"rounds": self.rounds, "trees": self.trees}
        if self.errors:
            options["test_error_percent"] = round(self.error, 3)
        options |= self.sizes
        return self.timing.row(
            what, **options, **{key: round(value) for key, value in self.memory.items()}
        )


def save_arrays(folder, *parts):
    """Write the arrays that `work` reads; returns the number of classes."""
    arrays = dict(zip(("X", "codes", "X_test", "codes_test"), coded(parts), strict=True))
    for name, array in arrays.items():
        np.save(Path(folder, f"{name}.npy"), array)
    return int(arrays["codes"].max()) + 1


def race_processes(folder, competitors, repeat, errors=True, failed=None, sizes=False):
    """Time competitors in turn, each fit in its own process.

    Parameters
    ----------
    competitors : dict of str to Spec
        Names that differ only behind " | " are variants of one: after the first turn the fastest alone goes on.
    failed : dict
        Gets {name: words} of competitors that failed; they take no further turn.
    sizes : bool
        Whether to measure the files of the models, too; goes with ``errors``.

    Returns
    -------
    dict of str to Outcome
    """
    outcomes = {}
    running = dict(competitors)
    for turn in range(repeat):
        for name, spec in list(running.items()):
            task = {
                "folder": str(folder),
                "spec": asdict(spec),
                "errors": errors and turn == 0,
                "sizes": sizes,
            }
            try:
                outcomes.setdefault(name, Outcome()).add(run_process(task))
            except RuntimeError as error:
                failed[name] = str(error)
                del running[name]
                if not outcomes[name].timing.seconds:
                    del outcomes[name]
        if turn == 0:
            kept = {best_variant(outcomes, name.partition(" | ")[0])[0] for name in running}
            running = {name: spec for name, spec in running.items() if name in kept}
    return outcomes


def best_variant(outcomes, stem):
    """The fastest of the competitors of one stem, as (name, outcome), or (None, None)."""
    names = [name for name in outcomes if name.partition(" | ")[0] == stem]
    name = min(names, key=lambda name: outcomes[name].best, default=None)
    return name, outcomes.get(name)


class Field:
    """The competitors that can run here, and those that cannot, by name."""

    def __init__(self):
        self.absent = {}
        self.failed = {}

    def keep(self, competitors):
        """Leave out what is not installed or not built."""
        present, absent = peers.available({spec.method for spec in competitors.values()})
        self.absent |= absent
        return {name: spec for name, spec in competitors.items() if spec.method in present}

    def tell(self, report):
        """Name and count the missing ones."""
        for missing, words in ((self.absent, "absent and skipped"), (self.failed, "FAILED")):
            if missing:
                listed = "; ".join(f"{name}: {reason}" for name, reason in sorted(missing.items()))
                report.notes.append(f"{len(missing)} {words}: {listed}")
        report.parameters |= {"absent": sorted(self.absent), "failed": sorted(self.failed)}


if __name__ == "__main__":
    print(json.dumps(work(json.loads(sys.argv[1]))))
