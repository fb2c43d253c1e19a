"""Time, memory and error of what is measured, and a description of the machine."""

import datetime
import gc
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))


def error_percent(truth, predicted):
    """Share of wrong labels in percent."""
    return 100.0 * float(np.mean(np.asarray(truth) != np.asarray(predicted)))


def log_loss(P, codes, least=1e-15):
    """Mean of -log p of the rows' own classes, p at least ``least``; classes not trained on (-1) have probability 0."""
    own = np.where(codes >= 0, P[np.arange(len(codes)), codes], 0.0)
    return float(-np.log(np.maximum(own, least)).mean())


def first_below(errors, level):
    """Smallest number of rounds with an error of at most ``level``, or None."""
    hits = np.flatnonzero(np.asarray(errors) <= level)
    return int(hits[0]) + 1 if len(hits) else None


# --------------------------------------------------------------------------------------------------------------------
# Time and memory


def reset_peak():
    """Forget this process's highest memory so far, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def memory_mb():
    """Memory now and the highest since `reset_peak`, in megabytes (10^6 bytes); NaN where the system does not tell."""
    try:
        words = dict(
            line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines()
        )
        return tuple(int(words[key].split()[0]) * 1024 / 1e6 for key in ("VmRSS", "VmHWM"))
    except (OSError, KeyError, ValueError):
        return float("nan"), float("nan")


@dataclass
class Timing:
    """Seconds of several runs of one thing, CPU seconds of the process beside them, and what the last run returned.

    Where one thread works alone, CPU seconds well below the clock's tell of a busy machine. ``grown_MB`` is the most
    memory that a run took beyond what was there when it began.
    """

    seconds: list = field(default_factory=list)
    value: object = None
    cpu: list = field(default_factory=list)
    grown_MB: float = 0.0

    @property
    def best(self):
        return min(self.seconds)

    @property
    def median(self):
        return float(np.median(self.seconds))

    @property
    def best_cpu(self):
        """CPU seconds of the best run: others' work on the machine lengthens them least."""
        return min(self.cpu)

    @property
    def taken(self):
        """What the only run took."""
        return {"seconds": self.seconds[-1], "cpu": self.cpu[-1], "grown_MB": self.grown_MB}

    def run(self, function):
        """Call ``function`` once, without garbage collection, and note what it took."""
        self.value = None
        collecting = gc.isenabled()
        gc.collect()
        gc.disable()
        reset_peak()
        before, _ = memory_mb()
        try:
            start = time.perf_counter()
            cpu = time.process_time()
            value = function()
            self.seconds.append(time.perf_counter() - start)
            self.cpu.append(time.process_time() - cpu)
        finally:
            if collecting:
                gc.enable()
        self.grown_MB = max(self.grown_MB, memory_mb()[1] - before)
        self.value = value

    def row(self, what, scale=1.0, unit="s", **options):
        """Turn this timing into a row of a report."""
        return {
            "what": what,
            "best": self.best * scale,
            "median": self.median * scale,
            "runs": len(self.seconds),
            "unit": unit,
            **({"cpu": self.best_cpu * scale} if self.cpu else {}),
            **options,
        }

    def fit_row(self, what, X_test, y_test, **options):
        """Row of a fit: time, memory, rounds where the model tells them, and the error of the last model."""
        rounds = getattr(self.value, "n_estimators_", getattr(self.value, "rounds", None))
        if rounds is not None:
            options = {"rounds": rounds, **options}
        error = error_percent(y_test, self.value.predict(X_test))
        return self.row(
            what, **options, grown_MB=round(self.grown_MB, 1), test_error_percent=round(error, 2)
        )


def race(competitors, repeat=5, warm_up=True):
    """Time functions in turn, A B A B, so that all of them see the same machine.

    Parameters
    ----------
    competitors : dict of str to callable
        Functions without arguments.
    repeat : int
        Runs of each after one untimed run.

    Returns
    -------
    dict of str to Timing
    """
    timings = {name: Timing() for name in competitors}
    if warm_up:
        for function in competitors.values():
            function()
    for _ in range(repeat):
        for name, function in competitors.items():
            timings[name].run(function)
    return timings


def best_of(function, runs):
    """Timing of one function alone."""
    return race({"one": function}, runs)["one"]


# --------------------------------------------------------------------------------------------------------------------
# The machine


def git(*words):
    """What git prints in this working tree; "" outside of one."""
    try:
        return subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def commit():
    """Short commit of the working tree, with "+" where tracked files differ from it; "unknown" outside git."""
    head = git("rev-parse", "--short=10", "HEAD")
    # Results and docs are written by these very tools, so they do not make the code differ.
    dirty = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!results", ":!docs")
    return (head or "unknown") + ("+" if dirty else "")


def _cpuinfo(*names):
    """First value of one of these names in /proc/cpuinfo, "" where the system does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(names)), "")


def cpu_flags():
    """Feature flags of the CPU, an empty set where the system does not tell."""
    return set(_cpuinfo("flags", "Features").split())


def versions():
    """Versions of what was measured and of what it was measured against."""
    import importlib.metadata as metadata

    import pymcboost

    version_of_package = {"pymcboost": pymcboost.__version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", "scikit-learn", "lightgbm", "xgboost", "catboost", "joblib"):
        try:
            version_of_package[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            version_of_package[package] = "absent"
    return version_of_package


def compiler():
    """C compiler used for the limits: CC, else cc."""
    return (os.environ.get("CC") or "cc").split()


def compile_c(source, target, flags, libraries=("-lm",)):
    """Compile one C file; a failure is reported with the compiler's words."""
    command = [*compiler(), *flags, str(source), "-o", str(target), *libraries]
    try:
        subprocess.run(command, capture_output=True, text=True, check=True)
    except OSError as error:
        raise SystemExit(
            f"cannot run the C compiler {compiler()[0]!r} ({error}); set CC or install gcc"
        ) from error
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{' '.join(command)} failed:\n{error.stderr}") from error


def write_rows(path, rows):
    """Rows (m, d) for the C programs of ``tools/limits``: m and d as int32, then float32."""
    with open(path, "wb") as file:
        np.array(rows.shape, np.int32).tofile(file)
        np.ascontiguousarray(rows, np.float32).tofile(file)


def environment():
    """Everything about machine and software that a figure depends on."""
    from shared.internals import available_cpus

    try:
        words = subprocess.run(
            [*compiler(), "--version"], capture_output=True, text=True, check=True
        ).stdout
        cc = words.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        cc = "absent"
    flags = cpu_flags()
    return {
        "commit": commit(),
        "versions": versions(),
        "cpu": _cpuinfo("model name") or platform.processor() or platform.machine(),
        "simd": "avx512"
        if "avx512f" in flags
        else "avx2"
        if "avx2" in flags
        else platform.machine(),
        "cpus": available_cpus(),
        "compiler": cc,
        "system": f"{platform.system()} {platform.machine()}",
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "date": datetime.date.today().isoformat(),
    }
