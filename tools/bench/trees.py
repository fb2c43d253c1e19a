"""Tree boosting against LightGBM, XGBoost, CatBoost and scikit-learn."""

import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace

from shared import datasets, peers
from shared.measure import first_below
from shared.peers import LIGHTGBM_BARE, LIGHTGBM_SAMPLED, Spec

from bench.process import Field, best_variant, race_processes, save_arrays
from bench.report import Report, benchmark

DATA = ("optdigits", "pendigits", "letter", "mnist", "covtype", "poker")
BIG = ("mnist", "covtype", "poker")
PREPARATION = (
    "timed on all sides: binning here, Dataset, QuantileDMatrix, Pool and bin mapper there"
)
# Our algorithms as competitors: name to (method, parameters).
ALGORITHMS = {
    "logitboost": ("logitboost", {}),
    "mart": ("mart", {}),
    **{
        f"{abc} gap={gap}": (abc, {"gap": gap})
        for abc in ("abc-logitboost", "abc-mart")
        for gap in (1, 10, 100)
    },
    "vector": ("vector", {}),
}
DEFAULT_ALGORITHMS = (
    "logitboost",
    "abc-logitboost gap=1",
    "abc-logitboost gap=10",
    "abc-logitboost gap=100",
)
# What is asked: LightGBM's time for 100 rounds over that of the vector-leaf trees, their file (leaves of 32 and of 16
# bits) over its text of 200 rounds, abc-logitboost over logitboost.
VECTOR_TIME = 4
VECTOR_FILE = 1 / 3
VECTOR_FILE_16 = 1 / 5
GAP_100 = 1.15


def check(data, algorithms):
    """Refuse unknown names."""
    for name, known in ((data, (*datasets.DATA, datasets.GENERATED)), (algorithms, ALGORITHMS)):
        for word in name:
            if word not in known:
                raise ValueError(f"unknown {word!r}; there are {', '.join(known)}")


def tree_data(name, options):
    """Data as the benchmarks of trees use them, with --quick the first 3,000 rows; "poker" is the generated set."""
    parts = datasets.load_for_trees(datasets.GENERATED if name == "poker" else name)
    return tuple(part[:3000] for part in parts) if options.quick else parts


def thread_words(threads):
    return f"{threads} thread{'s' * (threads > 1)}"


@contextmanager
def saved(name, options):
    """Folder with the arrays of a set, their shape, and how many classes there are."""
    parts = tree_data(name, options)
    with tempfile.TemporaryDirectory(prefix="mcboost-trees-") as folder:
        n_classes = save_arrays(folder, *parts)
        yield folder, parts[0].shape, n_classes


def turns(name, options):
    return min(options.repeat, 3) if name in BIG else options.repeat


def shared_spec(options, rounds, threads):
    """What all sides share."""
    return {
        "rounds": rounds,
        "leaves": options.leaves,
        "learning_rate": options.learning_rate,
        "threads": threads,
    }


def our_specs(options, names, rounds, threads):
    """Our algorithms with what the options say; the vector-leaf trees keep their own leaves and learning rate."""
    timings = {}
    for name in names:
        method, more = ALGORITHMS[name]
        spec = Spec(method, **shared_spec(options, rounds, threads), more=more)
        timings[name] = peers.vector_spec(rounds, threads=threads) if method == "vector" else spec
    return timings


def peer_specs(options, names, rounds, threads):
    """The other libraries, with the same leaves, rounds, bins, threads and learning rate."""
    timings = {}
    for name in names:
        spec = Spec(name, **shared_spec(options, rounds, threads))
        if name == "lightgbm":
            for order in ("row", "col"):
                more = {**LIGHTGBM_BARE, f"force_{order}_wise": True}
                timings[f"LightGBM | {order}-wise"] = replace(spec, more=more)
        else:
            timings[peers.SPOKEN[name]] = spec
    return timings


@benchmark("trees")
def bench_trees(options):
    """Fits of logitboost and abc-logitboost against LightGBM, XGBoost, CatBoost and scikit-learn, equal settings."""
    rounds = options.rounds or options.size(5, 100)
    algorithms = options.algorithms or DEFAULT_ALGORITHMS
    others = peers.PEERS if options.peers is None else options.peers
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
    for name in options.data or options.size(("optdigits",), DATA):
        repeat = turns(name, options)
        with saved(name, options) as (folder, shape, n_classes):
            for threads in options.threads:
                ours = our_specs(options, algorithms, rounds, threads=threads)
                competitors = entrants.keep(
                    {**ours, **peer_specs(options, others, rounds, threads=threads)}
                )
                title = f"{name} ({shape[0]} x {shape[1]}, {n_classes} classes), {thread_words(threads)}"
                print(f"trees: {title}: {len(competitors)} competitors", file=sys.stderr)
                timings = race_processes(folder, competitors, repeat, failed=entrants.failed)
                report.rows += [
                    outcome.row(f"{title}: {entrant}") for entrant, outcome in timings.items()
                ]
                add_ratios(report, title, timings, algorithms=algorithms)
                add_memory(report, title, timings, algorithms=algorithms)
                equal_error(
                    report,
                    title,
                    folder,
                    timings=timings,
                    competitors=competitors,
                    algorithms=algorithms,
                    repeat=repeat,
                    entrants=entrants,
                )
    entrants.tell(report)
    return report


def add_ratios(report, title, timings, algorithms, suffix=""):
    """Every peer's best time divided by each of ours, and abc with gap 100 against logitboost."""
    stems = dict.fromkeys(name.partition(" | ")[0] for name in timings if name not in ALGORITHMS)
    for ours in algorithms:
        if ours in timings:
            for stem in stems:
                ratio = best_variant(timings, stem)[1].best / timings[ours].best
                report.add(f"{title}{suffix}: {stem}'s time / {ours}'s", ratio)
    slow = "abc-logitboost gap=100"
    fast = "logitboost"
    if slow in timings and fast in timings:
        ratio = timings[slow].best / timings[fast].best
        report.add(f"{title}{suffix}: {slow}'s time / {fast}'s", ratio)
        if not suffix:
            report.target(f"{title}: {slow}'s time / {fast}'s", ratio, GAP_100, at_most=True)


def add_memory(report, title, timings, algorithms):
    """Highest memory of our first algorithm against LightGBM's."""
    first = next((name for name in algorithms if name in timings), None)
    _, outcome = best_variant(timings, "LightGBM")
    if first is not None and outcome is not None:
        ratio = timings[first].memory["peak_MB"] / outcome.memory["peak_MB"]
        report.target(f"{title}: {first}'s peak memory / LightGBM's", ratio, 1, at_most=True)


def equal_error(report, title, folder, timings, competitors, algorithms, repeat, entrants):
    """Fit everyone anew with just the rounds that an error takes which both first sides reach."""
    first = next((name for name in algorithms if name in timings), None)
    reference, outcome = best_variant(timings, "LightGBM")
    if first is None or outcome is None:
        report.notes.append(
            f"{title}: no time to equal error, which needs one of ours and LightGBM"
        )
        return
    level = max(timings[first].errors[-1], outcome.errors[-1])
    specs = {}
    for name, one in timings.items():
        if name.startswith("LightGBM | ") and name != reference:
            continue
        needed = first_below(one.errors, level)
        if needed is None:
            report.notes.append(f"{title}: {name} does not reach {level:.3f}%")
        else:
            specs[name] = replace(competitors[name], rounds=needed)
    again = race_processes(folder, specs, repeat, errors=False, failed=entrants.failed)
    report.rows += [one.row(f"{title}, to {level:.3f}%: {name}") for name, one in again.items()]
    add_ratios(report, title, again, algorithms=algorithms, suffix=f", to {level:.3f}%")


@benchmark("trees-vector")
def bench_vector(options):
    """200 vector-leaf trees against LightGBM with 100 and 200 rounds, plain and with the same feature sampling."""
    rounds = options.rounds or options.size(10, 200)
    report = Report(
        {
            "vector": f"{rounds} trees with vector leaves, defaults",
            "plain": f"num_leaves={options.leaves}, other parameters default",
            "sampled": "feature_fraction_bynode=0.4 min_child_samples=2 as well",
            "data_preparation": PREPARATION,
            "file_bytes": "model file, list layout, or save_model's text; 16: leaves of 16 bits, and the error then",
            "seed": "0 throughout",
        }
    )
    entrants = Field()
    for name in options.data or options.size(
        ("optdigits",), ("optdigits", "pendigits", "letter", "mnist")
    ):
        with saved(name, options) as (folder, shape, n_classes):
            for threads in options.threads:
                specs = {"vector": peers.vector_spec(rounds, threads=threads)}
                for count in (rounds // 2, rounds):
                    spec = Spec("lightgbm", rounds=count, leaves=options.leaves, threads=threads)
                    specs[f"LightGBM plain, {count} rounds"] = spec
                    specs[f"LightGBM sampled, {count} rounds"] = replace(
                        spec, more=LIGHTGBM_SAMPLED
                    )
                title = f"{name} ({shape[0]} x {shape[1]}, {n_classes} classes), {thread_words(threads)}"
                kept = entrants.keep(specs)
                timings = race_processes(
                    folder, kept, turns(name, options), failed=entrants.failed, sizes=True
                )
                report.rows += [
                    outcome.row(f"{title}: {entrant}") for entrant, outcome in timings.items()
                ]
                add_ratios(report, title, timings, algorithms=("vector",))
                vector_targets(report, title, timings, rounds=rounds)
    entrants.tell(report)
    return report


def vector_targets(report, title, timings, rounds):
    """Time and files of the vector-leaf trees against plain LightGBM."""
    ours = timings.get("vector")
    half = timings.get(f"LightGBM plain, {rounds // 2} rounds")
    full = timings.get(f"LightGBM plain, {rounds} rounds")
    if ours and half:
        what = f"{title}: LightGBM plain, {rounds // 2} rounds's time / vector's"
        report.target(what, half.best / ours.best, VECTOR_TIME)
    if ours and full:
        text = full.sizes["file_bytes"]
        for name, key, bound in (
            ("", "file_bytes", VECTOR_FILE),
            (", 16-bit leaves", "file_bytes_16", VECTOR_FILE_16),
        ):
            what = f"{title}: vector's file{name} / LightGBM's text, {rounds} rounds"
            report.target(what, ours.sizes[key] / text, bound, at_most=True)
