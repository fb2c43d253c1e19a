"""Benchmarks of tree boosting against LightGBM, XGBoost, CatBoost and scikit-learn; part of tools/bench.py.

Every fit runs in a process of its own, so that its highest memory is its own; the processes of the competitors take
turns. In each process the libraries are loaded and a small fit is made before the clock starts, which then covers the
fit from NumPy arrays to the finished model, data preparation included, on all sides.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import common
import numpy as np
import peers
from common import Report, Timing, benchmark, compile_c, error_percent, first_below, race
from peers import LIGHTGBM_BARE, LIGHTGBM_SAMPLED, Spec

HERE = Path(__file__).resolve().parent
DATA = ("optdigits", "pendigits", "letter", "mnist", "covtype", "poker")
BIG = ("mnist", "covtype", "poker")
PREPARATION = "timed on all sides: binning here, Dataset, QuantileDMatrix, Pool and bin mapper there"
# Our algorithms as competitors: name to (method, parameters).
ALGORITHMS = {
    "logitboost": ("logitboost", {}),
    "mart": ("mart", {}),
    "abc-logitboost gap=1": ("abc-logitboost", {"gap": 1}),
    "abc-logitboost gap=10": ("abc-logitboost", {"gap": 10}),
    "abc-logitboost gap=100": ("abc-logitboost", {"gap": 100}),
    "abc-mart gap=1": ("abc-mart", {"gap": 1}),
    "abc-mart gap=10": ("abc-mart", {"gap": 10}),
    "abc-mart gap=100": ("abc-mart", {"gap": 100}),
    "vector": ("vector", {}),
}
# What is asked: LightGBM's time for 100 rounds over that of the vector-leaf trees, their file (leaves of 32 and of 16
# bits) over its text of 200 rounds, abc-logitboost over logitboost, a round with the search over growing all K (K - 1)
# trees.
VECTOR_TIME, VECTOR_FILE, VECTOR_FILE_16, GAP_100, SEARCH = 4, 1 / 3, 1 / 5, 1.15, 0.55
# Single rows of LightGBM with half as many rounds over those of the vector-leaf trees.
VECTOR_ROW = 5
DEFAULT_ALGORITHMS = ("logitboost", "abc-logitboost gap=1", "abc-logitboost gap=10", "abc-logitboost gap=100")


def check(data, algorithms):
    """Refuse unknown names."""
    for name, known in ((data, (*common.DATA, common.GENERATED)), (algorithms, ALGORITHMS)):
        for word in name:
            if word not in known:
                raise ValueError(f"unknown {word!r}; there are {', '.join(known)}")


def tree_data(name):
    """Data as the benchmarks of trees use them: "poker" is the generated set."""
    return common.load_for_trees(common.GENERATED if name == "poker" else name)


# --------------------------------------------------------------------------------------------------------------------
# One fit in one process


def reset_peak():
    """Forget this process's highest memory so far, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return True
    except OSError:
        return False


def memory_mb():
    """Memory now and the highest since `reset_peak`, in megabytes (10^6 bytes); NaN where the system does not tell."""
    try:
        words = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return tuple(int(words[key].split()[0]) * 1024 / 1e6 for key in ("VmRSS", "VmHWM"))
    except (OSError, KeyError, ValueError):
        return float("nan"), float("nan")


def warm_up_rows(codes, per_class=40):
    """Row numbers of a few rows of every class."""
    return np.sort(np.concatenate([np.flatnonzero(codes == k)[:per_class] for k in np.unique(codes)]))


def work(task):
    """Fit one competitor to the arrays of a folder and say what it took."""
    folder, spec = Path(task["folder"]), Spec(**task["spec"])
    X, codes = np.load(folder / "X.npy"), np.load(folder / "codes.npy")
    n_classes = int(codes.max()) + 1
    few = warm_up_rows(codes)
    peers.fit(replace(spec, rounds=2), np.ascontiguousarray(X[few]), codes[few], n_classes)
    reset_peak()
    before, _ = memory_mb()
    start, cpu = time.perf_counter(), time.process_time()
    model = peers.fit(spec, X, codes, n_classes)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    _, peak = memory_mb()
    found = {"seconds": seconds, "cpu": cpu, "peak_MB": peak, "grown_MB": peak - before}
    found |= {"rounds": model.rounds, "trees": model.trees}
    if task["errors"]:
        X_test, truth = np.load(folder / "X_test.npy"), np.load(folder / "codes_test.npy")
        found["errors"] = [error_percent(truth, predicted) for predicted in model.staged(X_test)]
        found["error"] = error_percent(truth, model.predict(X_test))
        if task["sizes"]:
            found["sizes"] = file_sizes(model, X_test, truth)
    return found


def file_sizes(fitted, X, truth):
    """Bytes of the model's file, LightGBM's in its text format; ours with leaves of 16 bits as well, and its error."""
    with tempfile.TemporaryDirectory(prefix="mcboost-trees-") as folder:
        path = Path(folder, "model")
        if not hasattr(fitted.model, "save"):
            fitted.model.save_model(path)
            return {"file_bytes": path.stat().st_size}
        import pymcboost

        fitted.model.save(path)
        found = {"file_bytes": path.stat().st_size}
        fitted.model.save(path, leaves="float16")
        error = error_percent(truth, pymcboost.load_model(path).predict(X))
        return {**found, "file_bytes_16": path.stat().st_size, "error_16": round(error, 3)}


def run_process(task):
    """`work` in a process of its own."""
    threads = str(task["spec"]["threads"])
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    done = subprocess.run(
        [sys.executable, str(HERE / "bench_trees.py")],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        env=environment,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(lines[-1])
    return json.loads(done.stdout.splitlines()[-1])


@dataclass
class Outcome:
    """What the processes of one competitor found."""

    timing: Timing = field(default_factory=lambda: Timing([]))
    memory: dict = field(default_factory=dict)
    errors: list = field(default_factory=list)
    sizes: dict = field(default_factory=dict)
    error: float = float("nan")
    rounds: int = 0
    trees: int | None = None

    def add(self, found):
        self.timing.seconds.append(found["seconds"])
        self.timing.cpu.append(found["cpu"])
        for key in ("peak_MB", "grown_MB"):
            self.memory[key] = max(self.memory.get(key, 0.0), found[key])
        self.rounds, self.trees = found["rounds"], found["trees"]
        if "errors" in found:
            self.errors, self.error = found["errors"], found["error"]
        self.sizes |= found.get("sizes", {})

    def row(self, what):
        more = {"rounds": self.rounds, "trees": self.trees}
        if self.errors:
            more["test_error_percent"] = round(self.error, 3)
        more |= self.sizes
        return self.timing.row(what, **more, **{key: round(value) for key, value in self.memory.items()})


def save_arrays(folder, X, y, X_test, y_test):
    """Write the arrays that `work` reads; returns the number of classes."""
    classes = np.unique(y)
    # A test row of a class without training rows gets a code that no model predicts.
    at = np.searchsorted(classes, y_test).clip(0, len(classes) - 1)
    for name, array in (
        ("X", X),
        ("codes", np.searchsorted(classes, y)),
        ("X_test", X_test),
        ("codes_test", np.where(classes[at] == y_test, at, -1)),
    ):
        np.save(Path(folder, f"{name}.npy"), array)
    return len(classes)


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
    found, running = {}, dict(competitors)
    for turn in range(repeat):
        for name, spec in list(running.items()):
            try:
                task = {"folder": str(folder), "spec": asdict(spec), "errors": errors and turn == 0, "sizes": sizes}
                one = run_process(task)
            except RuntimeError as error:
                failed[name] = str(error)
                del running[name]
                continue
            found.setdefault(name, Outcome()).add(one)
        if turn == 0:
            for stem in {name.partition(" | ")[0] for name in running if " | " in name}:
                variants = [name for name in running if name.partition(" | ")[0] == stem]
                best = min(variants, key=lambda name: found[name].timing.best)
                for name in set(variants) - {best}:
                    del running[name]
    return found


def best_variant(found, stem):
    """The fastest of the competitors of one stem, as (name, outcome), or (None, None)."""
    names = [name for name in found if name.partition(" | ")[0] == stem]
    name = min(names, key=lambda name: found[name].timing.best, default=None)
    return name, found.get(name)


# --------------------------------------------------------------------------------------------------------------------
# Who takes part


class Field:
    """The competitors that can run here, and those that cannot, by name."""

    def __init__(self):
        self.absent = {}
        self.failed = {}

    def keep(self, competitors):
        """Leave out what is not installed or not built."""
        kept = {}
        for name, spec in competitors.items():
            present, absent = peers.available([spec.method])
            if present:
                kept[name] = spec
            else:
                self.absent |= absent
        return kept

    def tell(self, report):
        """Name and count the missing ones."""
        if self.absent:
            words = "; ".join(f"{name}: {reason}" for name, reason in sorted(self.absent.items()))
            report.notes.append(f"{len(self.absent)} absent and skipped: {words}")
        if self.failed:
            words = "; ".join(f"{name}: {reason}" for name, reason in sorted(self.failed.items()))
            report.notes.append(f"{len(self.failed)} FAILED: {words}")
        report.parameters["absent"] = sorted(self.absent)
        report.parameters["failed"] = sorted(self.failed)


def our_specs(options, names, rounds, threads):
    """Our algorithms with what the options say."""
    shared = {"rounds": rounds, "leaves": options.leaves, "learning_rate": options.learning_rate, "threads": threads}
    found = {}
    for name in names:
        method, more = ALGORITHMS[name]
        # The vector-leaf trees keep their own defaults, but for rounds and threads.
        own = {"leaves": None, "learning_rate": None} if method == "vector" else {}
        found[name] = Spec(method, **{**shared, **own}, more=more)
    return found


def peer_specs(options, names, rounds, threads):
    """The other libraries, with the same leaves, rounds, bins, threads and learning rate."""
    shared = {"rounds": rounds, "leaves": options.leaves, "learning_rate": options.learning_rate, "threads": threads}
    found = {}
    for name in names:
        if name == "lightgbm":
            for order in ("row", "col"):
                more = {**LIGHTGBM_BARE, f"force_{order}_wise": True}
                found[f"LightGBM | {order}-wise"] = Spec(name, **shared, more=more)
        else:
            found[peers.SPOKEN[name]] = Spec(name, **shared)
    return found


def limited_rows(parts, options):
    """All rows, or with --quick the first 3,000 of each part."""
    return tuple(part[:3000] for part in parts) if options.quick else parts


# --------------------------------------------------------------------------------------------------------------------
# Benchmarks


def said(threads):
    return f"{threads} thread{'s' * (threads > 1)}"


def quick_or(options, few, many):
    return few if options.quick else many


@benchmark("trees")
def bench_trees(options):
    """Fits of logitboost and abc-logitboost against LightGBM, XGBoost, CatBoost and scikit-learn, equal settings."""
    names = options.data or quick_or(options, ("optdigits",), DATA)
    rounds = options.rounds or quick_or(options, 5, 100)
    algorithms = options.algorithms or DEFAULT_ALGORITHMS
    report = Report(
        {
            "rounds": rounds,
            "leaves": options.leaves,
            "learning_rate": options.learning_rate,
            "bins": "256 (scikit-learn and LightGBM: 255 and one for missing values)",
            "lightgbm": "min_data_in_leaf=1 min_sum_hessian_in_leaf=1e-6 boost_from_average=false; the faster of "
            "force_row_wise and force_col_wise by the first turn",
            "xgboost": "hist, lossguide, max_depth=0, min_child_weight=0, reg_lambda=0",
            "catboost": "Lossguide, depth at most 16, l2_leaf_reg=0, no bootstrap; one tree a round for all classes",
            "sklearn": "min_samples_leaf=1, no early stopping",
            "data_preparation": PREPARATION,
            "memory": "highest resident memory of the fit's own process (peak), and above the start of the fit (grown)",
            "equal_error": "the level is the larger of the last errors of our first algorithm and of LightGBM; rounds: "
            "the first with at most this test error (chosen on the test part for all alike); fitted and timed anew",
        }
    )
    entrants = Field()
    for name in names:
        parts = limited_rows(tree_data(name), options)
        repeat = min(options.repeat, 3) if name in BIG else options.repeat
        with tempfile.TemporaryDirectory(prefix="mcboost-trees-") as folder:
            n_classes = save_arrays(folder, *parts)
            shape = f"{len(parts[0])} x {parts[0].shape[1]}, {n_classes} classes"
            for threads in options.threads:
                competitors = entrants.keep(
                    {
                        **our_specs(options, algorithms, rounds, threads),
                        **peer_specs(options, peers.PEERS if options.peers is None else options.peers, rounds, threads),
                    }
                )
                title = f"{name} ({shape}), {said(threads)}"
                print(f"trees: {title}: {len(competitors)} competitors", file=sys.stderr)
                found = race_processes(folder, competitors, repeat, failed=entrants.failed)
                report.rows += [outcome.row(f"{title}: {entrant}") for entrant, outcome in found.items()]
                add_ratios(report, title, found, algorithms)
                add_memory(report, title, found, algorithms)
                equal_error(report, title, folder, found, competitors, algorithms, repeat, entrants)
    entrants.tell(report)
    return report


def add_ratios(report, title, found, algorithms, suffix=""):
    """Every peer's best time divided by each of ours, and abc with gap 100 against logitboost."""
    stems = dict.fromkeys(name.partition(" | ")[0] for name in found if name not in ALGORITHMS)
    for ours in algorithms:
        if ours not in found:
            continue
        for stem in stems:
            _, outcome = best_variant(found, stem)
            ratio = outcome.timing.best / found[ours].timing.best
            report.rows.append({"what": f"{title}{suffix}: {stem}'s time / {ours}'s", "best": ratio, "unit": "x"})
    slow, fast = "abc-logitboost gap=100", "logitboost"
    if slow in found and fast in found:
        ratio = found[slow].timing.best / found[fast].timing.best
        report.rows.append({"what": f"{title}{suffix}: {slow}'s time / {fast}'s", "best": ratio, "unit": "x"})
        if not suffix:
            report.target(f"{title}: {slow}'s time / {fast}'s", ratio, GAP_100, at_most=True)


def add_memory(report, title, found, algorithms):
    """Highest memory of our first algorithm against LightGBM's."""
    first = next((name for name in algorithms if name in found), None)
    _, outcome = best_variant(found, "LightGBM")
    if first is not None and outcome is not None:
        ratio = found[first].memory["peak_MB"] / outcome.memory["peak_MB"]
        report.target(f"{title}: {first}'s peak memory / LightGBM's", ratio, 1, at_most=True)


def equal_error(report, title, folder, found, competitors, algorithms, repeat, entrants):
    """Fit everyone anew with just the rounds that an error takes which both first sides reach."""
    first = next((name for name in algorithms if name in found), None)
    reference, outcome = best_variant(found, "LightGBM")
    if first is None or outcome is None:
        report.notes.append(f"{title}: no time to equal error, which needs one of ours and LightGBM")
        return
    level = max(found[first].errors[-1], outcome.errors[-1])
    specs = {}
    for name, one in found.items():
        if name.startswith("LightGBM | ") and name != reference:
            continue
        needed = first_below(one.errors, level)
        if needed is None:
            report.notes.append(f"{title}: {name} does not reach {level:.3f}%")
        else:
            specs[name] = replace(competitors[name], rounds=needed)
    again = race_processes(folder, specs, repeat, errors=False, failed=entrants.failed)
    report.rows += [one.row(f"{title}, to {level:.3f}%: {name}") for name, one in again.items()]
    add_ratios(report, title, again, algorithms, f", to {level:.3f}%")


@benchmark("trees-vector")
def bench_vector(options):
    """200 vector-leaf trees against LightGBM with 100 and 200 rounds, plain and with the same feature sampling."""
    names = options.data or quick_or(options, ("optdigits",), ("optdigits", "pendigits", "letter", "mnist"))
    rounds = options.rounds or quick_or(options, 10, 200)
    report = Report(
        {
            "vector": f"{rounds} trees with vector leaves, defaults",
            "plain": f"num_leaves={options.leaves}, other parameters default",
            "sampled": "feature_fraction_bynode=0.4 min_child_samples=2 as well",
            "data_preparation": PREPARATION,
            "file_bytes": "model file, list layout, or save_model's text; 16: leaves of 16 bits, and the error then",
            "seed": "0 throughout; errors over several seeds: tools/reproduce.py vector-trees",
        }
    )
    entrants = Field()
    for name in names:
        parts = limited_rows(tree_data(name), options)
        with tempfile.TemporaryDirectory(prefix="mcboost-trees-") as folder:
            n_classes = save_arrays(folder, *parts)
            for threads in options.threads:
                shared = {"leaves": options.leaves, "threads": threads}
                specs = {"vector": Spec("vector", rounds=rounds, leaves=None, learning_rate=None, threads=threads)}
                for count in (rounds // 2, rounds):
                    specs[f"LightGBM plain, {count} rounds"] = Spec("lightgbm", rounds=count, **shared)
                    specs[f"LightGBM sampled, {count} rounds"] = Spec(
                        "lightgbm", rounds=count, more=LIGHTGBM_SAMPLED, **shared
                    )
                title = f"{name} ({len(parts[0])} x {parts[0].shape[1]}, {n_classes} classes), {said(threads)}"
                repeat = min(options.repeat, 3) if name in BIG else options.repeat
                found = race_processes(folder, entrants.keep(specs), repeat, failed=entrants.failed, sizes=True)
                report.rows += [outcome.row(f"{title}: {entrant}") for entrant, outcome in found.items()]
                add_ratios(report, title, found, ("vector",))
                vector_targets(report, title, found, rounds)
    entrants.tell(report)
    return report


def vector_targets(report, title, found, rounds):
    """Time and files of the vector-leaf trees against plain LightGBM."""
    ours, half = found.get("vector"), found.get(f"LightGBM plain, {rounds // 2} rounds")
    full = found.get(f"LightGBM plain, {rounds} rounds")
    if ours and half:
        ratio = half.timing.best / ours.timing.best
        report.target(f"{title}: LightGBM plain, {rounds // 2} rounds's time / vector's", ratio, VECTOR_TIME)
    if ours and full:
        text = full.sizes["file_bytes"]
        for name, key, bound in (("", "file_bytes", VECTOR_FILE), (", 16-bit leaves", "file_bytes_16", VECTOR_FILE_16)):
            what = f"{title}: vector's file{name} / LightGBM's text, {rounds} rounds"
            report.target(what, ours.sizes[key] / text, bound, at_most=True)


def race_search(X, codes, spec, repeat):
    """A round with the search for the base class, and growing all K(K-1) trees on the same scores, in turn.

    Returns
    -------
    searching, halves, growing : ndarray of shape (rounds - 1,)
        Best seconds of each round but the first, in which memory is taken: the whole round with the search, the growing
        of its K(K-1)/2 trees, and the growing alone of the trees of all pairs of a class and a base class.
    """
    from pymcboost.class_trees import ClassTrees

    seconds = []

    class TimedTrees(ClassTrees):
        def grow(self, *arguments):
            begin = time.perf_counter()
            found = super().grow(*arguments)
            self.seconds = time.perf_counter() - begin
            return found

    class Raced(peers.ours(spec.method)):
        def _start(self, data, n_threads):
            super()._start(data, n_threads)
            self._state.__class__ = TimedTrees

        def _round(self, builder):
            K = self._state.data.n_classes
            jobs = [(k, b) for b in range(K) for k in range(K) if k != b]
            self._state.grow(jobs, self.learning_rate, *self._draw(builder.n_rounds))
            growing = self._state.seconds
            begin = time.perf_counter()
            found = super()._round(builder)
            seconds.append((time.perf_counter() - begin, self._state.seconds, growing))
            return found

    words = peers.parameters(spec, int(codes.max()) + 1)
    turns = []
    for _ in range(repeat):
        seconds.clear()
        Raced(**words).fit(X, codes)
        turns.append(seconds[1:])
    return np.min(turns, axis=0).T


@benchmark("trees-abc")
def bench_abc(options):
    """A round of the exhaustive search for the base class, against growing all K(K-1) trees and against logitboost."""
    names = options.data or quick_or(options, ("optdigits",), ("optdigits", "pendigits", "letter"))
    rounds = options.rounds or quick_or(options, 3, 20)
    report = Report(
        {
            "rounds": f"a round without search: the difference of fits with {rounds} and {2 * rounds} rounds, divided "
            f"by {rounds}; preparation and the first search drop out",
            "search": f"trainings of {2 * rounds} rounds, in each of which first all K(K-1) trees are grown, for "
            "nothing, and then the round is done: trees, losses, scores and the model; best of the trainings for every "
            "round, then the mean",
            "leaves": options.leaves,
        }
    )
    entrants = Field()
    variants = {
        "abc-logitboost, no search": ("abc-logitboost", {"gap": 10**6}),
        "logitboost": ("logitboost", {}),
    }
    for name in names:
        parts = limited_rows(tree_data(name), options)
        with tempfile.TemporaryDirectory(prefix="mcboost-trees-") as folder:
            n_classes = save_arrays(folder, *parts)
            for threads in options.threads:
                title = f"{name} (K = {n_classes}), {said(threads)}"
                specs = {
                    (variant, count): Spec(method, count, options.leaves, options.learning_rate, threads, more=more)
                    for variant, (method, more) in variants.items()
                    for count in (rounds, 2 * rounds)
                }
                searching = Spec("abc-logitboost", 2 * rounds, options.leaves, options.learning_rate, threads)
                codes = np.load(Path(folder, "codes.npy"))
                search, halves, growing = race_search(
                    parts[0], codes, replace(searching, more={"gap": 1}), options.repeat
                )
                for what, found in (
                    ("a round with the search (gap 1)", search),
                    ("growing its K(K-1)/2 trees", halves),
                    ("growing all K(K-1) trees on the same scores", growing),
                ):
                    report.rows.append({"what": f"{title}: {what}", "best": 1e3 * found.mean(), "unit": "ms"})
                share = search.sum() / growing.sum()
                report.target(f"{title}: a round with the search / all K(K-1) trees alone", share, SEARCH, at_most=True)
                rest = search - halves
                share = search.sum() / (growing + rest).sum()
                report.rows.append(
                    {"what": f"{title}: the same, both with losses and scores", "best": share, "unit": "x"}
                )
                labels = {f"{variant}, {count} rounds": key for key in specs for variant, count in [key]}
                kept = entrants.keep({label: specs[key] for label, key in labels.items()})
                found = race_processes(folder, kept, options.repeat, errors=False, failed=entrants.failed)
                report.rows += [outcome.row(f"{title}: {label}") for label, outcome in found.items()]
                slope = {}
                for variant in variants:
                    both = [found.get(f"{variant}, {count} rounds") for count in (rounds, 2 * rounds)]
                    if None not in both:
                        slope[variant] = (both[1].timing.best - both[0].timing.best) / rounds
                        report.rows.append(
                            {"what": f"{title}: a round of {variant}", "best": 1e3 * slope[variant], "unit": "ms"}
                        )
                plain, logit = (slope.get(variant) for variant in variants)
                if plain and logit:
                    report.rows.append(
                        {"what": f"{title}: a round without search / logitboost's", "best": plain / logit, "unit": "x"}
                    )
    entrants.tell(report)
    return report


@benchmark("trees-score")
def bench_score(options):
    """Score and store 1,000 trees of 20 leaves, K=10, d=64: batch, single rows in C, bytes of the file; LightGBM."""
    rounds = options.rounds or quick_or(options, 5, 100)
    X, y, X_test, _ = tree_data("optdigits")
    codes = np.searchsorted(np.unique(y), y)
    shared = {"rounds": rounds, "leaves": options.leaves, "learning_rate": options.learning_rate}
    entrants = Field()
    specs = entrants.keep(
        {
            "ours": Spec("logitboost", **shared),
            "LightGBM": Spec("lightgbm", **shared, more=LIGHTGBM_BARE),
        }
    )
    models = {name: peers.fit(spec, X, codes, 10) for name, spec in specs.items()}
    batch = np.ascontiguousarray(np.tile(X_test, (quick_or(options, 2, 12), 1)))
    report = Report(
        {
            "model": f"optdigits, {rounds} rounds, 10 classes, {X.shape[1]} features, {options.leaves} leaves",
            "trees": {name: model.trees for name, model in models.items()},
            "batch_rows": len(batch),
            "threads": 1,
            "values": "raw scores (no softmax) of float32 rows, on both sides",
            "single_row": "C program tools/limits/score_trees.c: mcb_scores against "
            "LGBM_BoosterPredictForMatSingleRowFast, in turn; rows differ from call to call",
            "file": "list layout against save_model's text",
        }
    )
    entrants.tell(report)
    runs = {}
    if "ours" in models:
        runs["ours"] = lambda: models["ours"].model.model_.raw_scores(batch, n_jobs=1)
    if "LightGBM" in models:
        runs["LightGBM"] = lambda: models["LightGBM"].model.predict(batch, raw_score=True, num_threads=1)
    found = race(runs, options.repeat)
    for name, timing in found.items():
        report.rows.append(timing.row(f"batch: {name}", 1e6 / len(batch), "us/row"))
    if len(found) == 2:
        ratio = found["LightGBM"].best / found["ours"].best
        report.rows.append({"what": "batch: LightGBM's time / ours", "best": ratio, "unit": "x"})
    if "ours" not in models:
        return report
    with tempfile.TemporaryDirectory(prefix="mcboost-trees-") as folder:
        score_in_c(report, Path(folder), models, X_test, options)
    return report


def score_in_c(report, folder, models, rows, options):
    """Single rows in C, and the sizes of the files they need."""
    import pymcboost

    ours = folder / "ours.mcb"
    models["ours"].model.save(ours)
    words = [str(ours), str(folder / "rows.bin")]
    with open(folder / "rows.bin", "wb") as file:
        np.array(rows.shape, np.int32).tofile(file)
        np.ascontiguousarray(rows, np.float32).tofile(file)
    sizes = {"ours": ours.stat().st_size}
    if "LightGBM" in models:
        import lightgbm.basic

        text = folder / "lightgbm.txt"
        models["LightGBM"].model.save_model(text)
        sizes["LightGBM"] = text.stat().st_size
        words += [lightgbm.basic._LIB._name, str(text)]
    for name, size in sizes.items():
        report.rows.append({"what": f"file: {name}, {models[name].trees} trees", "best": size, "unit": "bytes"})
    if len(sizes) == 2:
        per_tree = {name: size / models[name].trees for name, size in sizes.items() if models[name].trees}
        if len(per_tree) == 2:
            ratio = per_tree["LightGBM"] / per_tree["ours"]
            report.rows.append({"what": "file: LightGBM's bytes a tree / ours", "best": ratio, "unit": "x"})
    for build, flags in (("-O2", ["-O2"]), ("-O2 -DMCB_SIMD", ["-O2", "-DMCB_SIMD"])):
        program = folder / "score_trees"
        include = ["-I", pymcboost.get_include()]
        compile_c(HERE / "limits" / "score_trees.c", program, ["-std=c99", *flags, *include], ("-lm", "-ldl"))
        turns = str(10 * options.repeat)
        done = subprocess.run([str(program), turns, *words], capture_output=True, text=True, check=True)
        best = {}
        for line in done.stdout.splitlines():
            name, *numbers = line.split()
            best[name], median = (float(word) * 1e-3 for word in numbers)
            report.rows.append(
                {
                    "what": f"one row in C, {build}: {name}",
                    "best": best[name],
                    "median": median,
                    "runs": int(turns),
                    "unit": "us",
                }
            )
        if len(best) == 2:
            ratio = best["LightGBM"] / best["ours"]
            report.rows.append({"what": f"one row in C, {build}: LightGBM's time / ours", "best": ratio, "unit": "x"})


@benchmark("trees-vector-rows")
def bench_vector_rows(options):
    """Single rows in C through 200 vector-leaf trees, against LightGBM with 100 rounds, whose errors are no lower."""
    names = options.data or quick_or(options, ("optdigits",), ("pendigits", "optdigits", "letter"))
    rounds = options.rounds or quick_or(options, 10, 200)
    report = Report(
        {"rounds": f"{rounds} vector-leaf trees with their defaults, LightGBM {rounds // 2} rounds of 20 leaves"}
    )
    entrants = Field()
    for name in names:
        X, y, X_test, y_test = limited_rows(tree_data(name), options)
        labels, codes = np.unique(y, return_inverse=True)
        truth = np.searchsorted(labels, y_test)
        specs = entrants.keep(
            {
                "ours": Spec("vector", rounds, leaves=None, learning_rate=None),
                "LightGBM": Spec("lightgbm", rounds // 2),
            }
        )
        models = {who: peers.fit(spec, X, codes, len(labels)) for who, spec in specs.items()}
        for who, model in models.items():
            error = error_percent(truth, model.predict(X_test))
            report.rows.append({"what": f"{name}: {who}, {model.trees} trees: test error", "best": error, "unit": "%"})
        if "ours" not in models:
            continue
        part = Report({})
        with tempfile.TemporaryDirectory(prefix="mcboost-trees-") as folder:
            score_in_c(part, Path(folder), models, X_test, options)
        for row in part.rows:
            what = f"{name}: {row['what']}"
            if row["unit"] == "x" and "one row" in what:
                report.target(what, row["best"], VECTOR_ROW)
            else:
                report.rows.append({**row, "what": what})
    entrants.tell(report)
    return report


# --------------------------------------------------------------------------------------------------------------------
# The histogram of a root


def root_histograms(X, y, n_classes):
    """{name: (function that makes one root histogram, bytes of one update)} of the kernels of this build.

    No kernel is called for its histogram alone: a tree of one split is grown, so the time holds the gradients, the
    search through the bins and the division of the rows as well. Further kernels are entered here.
    """
    try:
        from pymcboost.class_trees import ClassTrees
        from pymcboost.tree_data import TreeData
    except ImportError:
        return {}
    data = TreeData(X, y, n_classes, np.ones(len(y)), n_threads=1)
    trees = ClassTrees(data, max_leaves=2, max_depth=None, min_samples_leaf=1, counts=False, n_threads=1)
    trees.restart(None)
    everything = np.zeros(0, np.int32), np.zeros(0, np.uint8)
    return {"class-wise trees, one split": (partial(trees.grow, [(0, -1)], 0.1, *everything), 8)}


@benchmark("trees-histogram")
def bench_histogram(options):
    """A tree of one split (root histogram of all features, searched), one thread, against the updates it is made of."""
    m, d, K = quick_or(options, (10000, 16, 10), (60000, 64, 10))
    generator = np.random.default_rng(0)
    X = generator.standard_normal((m, d)).astype(np.float32)
    y = generator.integers(0, K, m)
    report = Report(
        {
            "rows": m,
            "features": d,
            "bins": 256,
            "pair": "one (row, feature)",
            "limit": "read-modify-write of a random row of a 256-row table in L1, as wide as a cell; measured in turn",
            "data_preparation": "not timed",
        }
    )
    kernels = root_histograms(X, y, K)
    if not kernels:
        report.notes.append("1 absent and skipped: this build has no trees")
    for name, (function, width) in kernels.items():
        function()
        timing, limit = Timing([]), float("inf")
        for _ in range(options.repeat):
            limit = min(limit, options.limits.rmw(width, repeat=2))
            timing.seconds.append(race({"one": function}, 3)["one"].best)
        each = timing.best / (m * d) * 1e9
        report.rows.append(
            timing.row(
                name,
                1e9 / (m * d),
                "ns/pair",
                ms_per_tree=round(timing.best * 1e3, 2),
                row_limit_ns=round(limit, 3),
                percent_of_limit=round(100 * limit / each, 1),
            )
        )
    return report


if __name__ == "__main__":
    print(json.dumps(work(json.load(sys.stdin))))
