"""What bench.py and reproduce.py share: data sets, timing, and a description of the machine."""

import datetime
import gc
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))


class DataMissing(Exception):
    """A data set is not there; the message says how to get it."""


@dataclass(frozen=True)
class DataSet:
    """Where a data set lies and its width; ``test`` is None where there is no official split.

    ``rows`` counts both parts; ``sparse`` sets are read as CSR matrices.
    """

    train: str
    test: str | None
    n_features: int
    n_classes: int
    rows: int = 0
    sparse: bool = False


def _split(name, n_features, n_classes, rows, sparse=False):
    return DataSet(f"{name}.train.libsvm.gz", f"{name}.test.libsvm.gz", n_features, n_classes, rows, sparse)


def _whole(name, n_features, n_classes, rows):
    return DataSet(f"{name}.libsvm.gz", None, n_features, n_classes, rows)


DATA = {
    "iris": _whole("iris", 4, 3, 150),
    "wine": _whole("wine", 13, 3, 178),
    "glass": _whole("glass", 9, 6, 214),
    "ecoli": _whole("ecoli", 7, 8, 336),
    "svmguide2": _whole("svmguide2", 20, 3, 391),
    "svmguide4": _split("svmguide4", 10, 6, 612),
    "vowel": _split("vowel", 10, 11, 990),
    "CNAE-9": _whole("CNAE-9", 856, 9, 1080),
    "yeast": _whole("yeast", 8, 10, 1484),
    "car": _whole("car", 6, 4, 1728),
    "mfeat": _whole("mfeat", 649, 10, 2000),
    "dna": _split("dna", 180, 3, 3186),
    "abalone": _whole("abalone", 8, 28, 4177),
    "waveform": _whole("waveform", 21, 3, 5000),
    "waveform-noise": _whole("waveform-noise", 40, 3, 5000),
    "optdigits": _split("optdigits", 64, 10, 5620),
    "satimage": _split("satimage", 36, 6, 6435),
    "usps": _split("usps", 256, 10, 9298),
    "sector": _split("sector", 55197, 105, 9619, sparse=True),
    "pendigits": _split("pendigits", 16, 10, 10992),
    "news20-bydate": _split("news20-bydate", 38673, 20, 18846, sparse=True),
    "letter": _whole("letter", 16, 26, 20000),
    "krkopt": _whole("krkopt", 6, 18, 28056),
    "shuttle": _split("shuttle", 9, 7, 58000),
    "mnist": _split("mnist", 784, 10, 70000),
    "poker": DataSet("poker.train.libsvm.gz", "poker.test-part.libsvm.gz", 10, 10, 125009),
    "covtype": _whole("covtype", 54, 7, 581012),
}

# Official split of sets that come in one file: the first rows train, the rest test.
FIRST_TRAIN = {"letter": 16000}


def data_folder():
    """Folder named by PYMCBOOST_DATA."""
    folder = os.environ.get("PYMCBOOST_DATA")
    if not folder:
        raise DataMissing(
            "PYMCBOOST_DATA is not set: let it name a folder and run `python tools/get_data.py` to fill it"
        )
    path = Path(folder)
    if not path.is_dir():
        raise DataMissing(f"PYMCBOOST_DATA={folder}: no such folder; `python tools/get_data.py` makes and fills it")
    return path


def data_file(name):
    """Path of one file of the data folder."""
    path = data_folder() / name
    if not path.is_file():
        import get_data

        stem = name.split(".")[0]
        how = f"`python tools/get_data.py {stem}` gets it or says how"
        raise DataMissing(f"{path} is missing: {how if stem in get_data.SOURCES else 'put it there by hand'}")
    return path


@lru_cache(maxsize=4)
def load(name):
    """Read a data set as (X_train, y_train, X_test, y_test); the test parts are None without an official split.

    X is float32, C-contiguous (CSR for the sparse sets); y is int64.
    """
    import pymcboost

    entry = DATA[name]
    parts = []
    for file in (entry.train, entry.test):
        if file is None:
            parts += [None, None]
            continue
        layout = "csr" if entry.sparse else "dense"
        data = pymcboost.load_svmlight(data_file(file), n_features=entry.n_features, base=1, layout=layout)
        X = data.X.astype(np.float32) if entry.sparse else np.ascontiguousarray(data.X, dtype=np.float32)
        parts += [X, data.y]
    return tuple(parts)


@lru_cache(maxsize=4)
def load_pooled(name):
    """All rows of a data set, train then test, as (X, y)."""
    X, y, X_test, y_test = load(name)
    if X_test is None:
        return X, y
    return np.concatenate([X, X_test]), np.concatenate([y, y_test])


def load_official(name):
    """Read the official split of a data set as (X_train, y_train, X_test, y_test)."""
    X, y, X_test, y_test = load(name)
    if X_test is None:
        cut = FIRST_TRAIN[name]
        X, y, X_test, y_test = X[:cut], y[:cut], X[cut:], y[cut:]
    return X, y, X_test, y_test


# Splits of the experiments with trees, where a set comes in one file: the first rows train, the rest test. letter is
# cut here as in Li's experiments; the stumps' tables keep UCI's own cut above.
TREE_FIRST_TRAIN = {"letter": 15000}
GENERATED = "poker-generated"
# Rows of the training part, counted from 1, as published with the ABC-Boost package.
TRAIN_INDEX = {"covtype": "covtype.train-index.txt.gz"}


def fixed_split(name):
    """Whether the experiments with trees split this set in one given way."""
    return DATA[name].test is not None or name in TREE_FIRST_TRAIN or name in TRAIN_INDEX


def stratified_rows(y, seed, test_share=0.25):
    """Random split within every class, as sorted (training rows, test rows).

    A class of n rows gives floor(n * test_share + 1/2) of them to the test part, so that a lone row is trained on. The
    split depends on ``y`` and ``seed`` alone.
    """
    generator = np.random.default_rng([seed, 0x73706C6974])
    test = []
    for label in np.unique(y):
        rows = generator.permutation(np.flatnonzero(y == label))
        test.append(rows[: int(len(rows) * test_share + 0.5)])
    test = np.sort(np.concatenate(test))
    return np.setdiff1d(np.arange(len(y)), test), test


def load_for_trees(name, seed=0):
    """Read (X_train, y_train, X_test, y_test) as the experiments with trees use them.

    Official parts where there are any, covtype by its index file, letter at row 15,000, and for every other set the
    stratified 75:25 split number ``seed``. "poker-generated" is the set of tools/make_data.py.
    """
    if name == GENERATED:
        import make_data

        return make_data.make_poker()
    X, y, X_test, y_test = load(name)
    if X_test is not None:
        return X, y, X_test, y_test
    if name in TRAIN_INDEX:
        train = np.zeros(len(y), bool)
        train[np.loadtxt(data_file(TRAIN_INDEX[name]), dtype=np.int64) - 1] = True
        return X[train], y[train], X[~train], y[~train]
    if name in TREE_FIRST_TRAIN:
        cut = TREE_FIRST_TRAIN[name]
        return X[:cut], y[:cut], X[cut:], y[cut:]
    train, test = stratified_rows(y, seed)
    return X[train], y[train], X[test], y[test]


@dataclass
class Timing:
    """Seconds of several runs of one thing, CPU seconds of the process beside them, and what the last run returned.

    Where one thread works alone, CPU seconds well below the clock's tell of a busy machine.
    """

    seconds: list
    value: object = None
    cpu: list = field(default_factory=list)

    @property
    def best(self):
        return min(self.seconds)

    @property
    def median(self):
        return float(np.median(self.seconds))

    def row(self, what, scale=1.0, unit="s", **more):
        """Turn this timing into a row of a report."""
        return {
            "what": what,
            "best": self.best * scale,
            "median": self.median * scale,
            "runs": len(self.seconds),
            "unit": unit,
            **({"cpu": min(self.cpu) * scale} if self.cpu else {}),
            **more,
        }


def race(competitors, repeat=5, warm_up=True, budget=None):
    """Time functions in turn, A B A B, so that all of them see the same machine.

    Parameters
    ----------
    competitors : dict of str to callable
        Functions without arguments.
    repeat : int
        Runs of each after one untimed run.
    budget : float or None
        Seconds after which no further turn is begun; two turns are always made where repeat allows.

    Returns
    -------
    dict of str to Timing
    """
    timings = {name: Timing([]) for name in competitors}
    if warm_up:
        for name, function in competitors.items():
            timings[name].value = function()
    begin = time.perf_counter()
    collecting = gc.isenabled()
    try:
        for turn in range(repeat):
            if budget is not None and turn >= 2 and time.perf_counter() - begin > budget:
                break
            for name, function in competitors.items():
                timings[name].value = None
                gc.collect()
                gc.disable()
                start, cpu = time.perf_counter(), time.process_time()
                value = function()
                timings[name].seconds.append(time.perf_counter() - start)
                timings[name].cpu.append(time.process_time() - cpu)
                timings[name].value = value
                if collecting:
                    gc.enable()
    finally:
        if collecting:
            gc.enable()
    return timings


def commit():
    """Short commit of the working tree, with "+" where tracked files differ from it; "unknown" outside git."""
    try:
        run = lambda *words: subprocess.run(  # noqa: E731
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
        # Results and docs are written by these very tools, so they do not make the code differ.
        dirty = run("status", "--porcelain", "--untracked-files=no", "--", ".", ":!results", ":!docs")
        return run("rev-parse", "--short=10", "HEAD") + ("+" if dirty else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def cpu_model():
    """Name of the CPU."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cpu_flags():
    """Feature flags of the CPU, an empty set where the system does not tell."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return set(line.split(":", 1)[1].split())
    except OSError:
        pass
    return set()


def caches():
    """Sizes in bytes of the data caches that the first CPU sees, as {"L1": ..., "L2": ..., "L3": ...}."""
    sizes = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (index / "type").read_text().strip() == "Instruction":
                continue
            text = (index / "size").read_text().strip()
            factor = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1], 1)
            sizes["L" + (index / "level").read_text().strip()] = int(text.rstrip("KMG")) * factor
        except (OSError, ValueError):
            continue
    return sizes or {"L1": 32 * 2**10, "L2": 2**20, "L3": 16 * 2**20}


def compiler():
    """C compiler used for the limits: CC, else cc."""
    return (os.environ.get("CC") or "cc").split()


def versions():
    """Versions of what was measured and of what it was measured against."""
    import importlib.metadata as metadata

    import pymcboost

    found = {"pymcboost": pymcboost.__version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", "scikit-learn", "lightgbm", "xgboost", "catboost", "joblib"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "absent"
    return found


def environment():
    """Everything about machine and software that a figure depends on."""
    try:
        words = subprocess.run([*compiler(), "--version"], capture_output=True, text=True, check=True).stdout
        cc = words.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        cc = "absent"
    flags = cpu_flags()
    from pymcboost.threads import available_cpus

    return {
        "commit": commit(),
        "versions": versions(),
        "cpu": cpu_model(),
        "simd": "avx512" if "avx512f" in flags else "avx2" if "avx2" in flags else platform.machine(),
        "cpus": available_cpus(),
        "caches": caches(),
        "compiler": cc,
        "system": f"{platform.system()} {platform.machine()}",
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "date": datetime.date.today().isoformat(),
    }


def compile_c(source, target, flags, libraries=("-lm",)):
    """Compile one C file; a failure is reported with the compiler's words."""
    command = [*compiler(), *flags, str(source), "-o", str(target), *libraries]
    try:
        subprocess.run(command, capture_output=True, text=True, check=True)
    except OSError as error:
        raise SystemExit(f"cannot run the C compiler {compiler()[0]!r} ({error}); set CC or install gcc") from error
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{' '.join(command)} failed:\n{error.stderr}") from error


@dataclass
class Report:
    """What one benchmark found."""

    parameters: dict = field(default_factory=dict)
    rows: list = field(default_factory=list)
    targets: list = field(default_factory=list)
    notes: list = field(default_factory=list)

    def target(self, what, reached, bound, at_most=False, unit="x"):
        """Compare a figure with its target; ``at_most`` where small is good."""
        ok = reached <= bound if at_most else reached >= bound
        self.targets.append(
            {
                "what": what,
                "target": f"{'<=' if at_most else '>='} {bound:g} {unit}".strip(),
                "reached": reached,
                "unit": unit,
                "ok": bool(ok),
            }
        )


BENCHMARKS = {}


def benchmark(name):
    def keep(function):
        BENCHMARKS[name] = function
        return function

    return keep


def number(value):
    """Four significant digits without needless zeros."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return str(value)


def first_below(errors, level):
    """Smallest number of rounds with an error of at most ``level``, or None."""
    hits = np.flatnonzero(np.asarray(errors) <= level)
    return int(hits[0]) + 1 if len(hits) else None


def error_percent(truth, predicted):
    """Share of wrong labels in percent."""
    return 100.0 * float(np.mean(np.asarray(truth) != np.asarray(predicted)))


def markdown_table(header, rows):
    """Format a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def put_between(path, name, text):
    """Replace what stands between the two marker comments of ``name`` in a Markdown file."""
    path = Path(path)
    old = path.read_text()
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    if begin not in old or end not in old:
        raise SystemExit(f"{path}: the lines {begin!r} and {end!r} are needed to know where the tables go")
    head, rest = old.split(begin, 1)
    tail = rest.split(end, 1)[1]
    path.write_text(f"{head}{begin}\n{text.strip()}\n{end}{tail}")


def write_json(path, value):
    """Write JSON through a temporary file, so that an interrupted run leaves the old one."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(value, indent=1) + "\n")
    temporary.replace(path)
