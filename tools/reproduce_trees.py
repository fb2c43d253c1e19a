"""Experiments with trees; part of tools/reproduce.py.

Li's tables and figures (Fast ABC-Boost for Multi-Class Classification), theirs against ours, and our vector-leaf trees
beside LightGBM on all data sets.
"""

import itertools
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import common
import numpy as np
import peers
import ranks
from common import error_percent
from journal import Journal, pyplot, run_units
from longrun import Training, grid_up_to, wrong
from peers import LIGHTGBM_SAMPLED, Spec

# --------------------------------------------------------------------------------------------------------------------
# Long trainings: mnist10k, covtype-abc, poker-abc


def mnist10k():
    """MNIST turned round: its 10,000 test images train, its 60,000 training images test."""
    X, y, X_test, y_test = common.load("mnist")
    return X_test, y_test, X, y


# Further settings of a method: name to (method, least rows in a leaf).
VARIANTS = {"mart-leaf1": ("mart", 1)}


@dataclass(frozen=True)
class LongRun:
    """One experiment of Li's.

    ``published`` holds the number of wrong test rows by method, for gap 1 where the method has one, at
    ``published_rounds`` (None: trained to the machine accuracy of the loss). ``within`` is the relative distance that
    is asked for, None where only the order of the methods is compared.
    """

    name: str
    title: str
    data: object
    rounds: int
    gaps: tuple
    published: dict
    published_rounds: int | None
    within: float | None = None
    peers: tuple = ()
    variants: tuple = ()
    notes: str = ""
    leaves: int = 20
    learning_rate: float = 0.1

    @staticmethod
    def min_leaf(method):
        """Least rows in a leaf. Li does not say; mart comes to the published errors with 10, logitboost with 1."""
        return VARIANTS[method][1] if method in VARIANTS else 10 if method.endswith("mart") else 1

    def trainings(self, options):
        """(method, gap) of this run, gap 0 for the methods without one."""
        methods = options.methods or [*self.published, *self.variants, *self.peers]
        gaps = options.gaps or self.gaps
        return [(method, gap) for method in methods for gap in (gaps if method.startswith("abc-") else (0,))]


LONG = {
    run.name: run
    for run in (
        LongRun(
            "mnist10k",
            "Mnist10k (Table 2 of Li): 10,000 training and 60,000 test images, J = 20, nu = 0.1",
            mnist10k,
            2000,
            (1,),
            {"mart": 2815, "abc-mart": 2440, "logitboost": 2381, "abc-logitboost": 2102},
            None,
            within=0.03,
            variants=("mart-leaf1",),
            notes="The paper trains to the machine accuracy of the loss, at most 10,000 rounds. It does not give "
            "the least number of rows in a leaf: mart and abc-mart have 10 here, logitboost and abc-logitboost 1; "
            "mart-leaf1 is mart with 1.",
        ),
        LongRun(
            "covtype-abc",
            "Covertype290k: 290,506 training and 290,506 test rows, J = 20, nu = 0.1",
            lambda: common.load_for_trees("covtype"),
            1000,
            (10,),
            {"mart": 11350, "abc-mart": 10454, "logitboost": 10765, "abc-logitboost": 9727},
            5000,
            peers=("lightgbm",),
            notes="The split is the one published with the ABC-Boost package.",
        ),
        LongRun(
            "poker-abc",
            "Poker525k: 525,010 training and 500,000 test hands, J = 20, nu = 0.1",
            lambda: common.load_for_trees(common.GENERATED),
            1000,
            (1, 10, 100),
            {"mart": 7061, "abc-mart": 2424, "logitboost": 2704, "abc-logitboost": 1736},
            5000,
            peers=("lightgbm",),
            notes="The hands are generated (tools/make_data.py), so counts are comparable, not equal.",
        ),
    )
}

LONG_KEY = ["method", "gap", "leaves", "min_leaf", "learning_rate", "rounds"]
LONG_COLUMNS = ["errors", "n_test", "n_train", "ended", "hours", "threads", "trained_by"]


def long_journal(run, folder, fresh=False):
    return Journal(Path(folder, f"{run.name}.csv"), LONG_KEY, LONG_COLUMNS, fresh)


def new_estimator(run, method, gap, threads):
    """Estimator of one training, with warm_start."""
    if method == "lightgbm":
        more = dict(peers.LIGHTGBM_BARE)
        return peers.ResumableLightGBM(
            Spec("lightgbm", leaves=run.leaves, learning_rate=run.learning_rate, threads=threads, more=more)
        )
    words = {
        "n_estimators": 1,
        "learning_rate": run.learning_rate,
        "max_leaf_nodes": run.leaves,
        "min_samples_leaf": run.min_leaf(method),
        "random_state": 0,
        "n_jobs": threads,
        "warm_start": True,
    }
    if gap:
        words["gap"] = gap
    return peers.ours(plain_name(method))(**words)


def plain_name(method):
    """The method of a variant."""
    return VARIANTS[method][0] if method in VARIANTS else method


def coded(parts):
    """Labels of both parts as codes 0..K-1 of the training classes; other test labels become -1."""
    X, y, X_test, y_test = parts
    classes = np.unique(y)
    at = np.searchsorted(classes, y_test).clip(0, len(classes) - 1)
    return X, np.searchsorted(classes, y), X_test, np.where(classes[at] == y_test, at, -1)


def training_name(method, gap):
    return f"{method} gap={gap}" if gap else method


def setting(run, method, gap):
    return {
        "method": method,
        "gap": gap,
        "leaves": run.leaves,
        "min_leaf": run.min_leaf(method),
        "learning_rate": run.learning_rate,
    }


def run_long(run, options, make=new_estimator):
    """Train everything of one run; errors go to the journal at every round of the grid."""
    journal = long_journal(run, options.results, options.fresh)
    rounds = options.rounds or run.rounds
    grid = grid_up_to(rounds)
    parts = None
    for method, gap in run.trainings(options):
        try:
            peers.require(plain_name(method))
        except peers.Absent as reason:
            print(f"{run.name}: {method} skipped, {reason} is absent", file=sys.stderr)
            continue
        key = setting(run, method, gap)
        if finished_rows(journal.rows, key, rounds):
            continue
        if parts is None:
            parts = coded(run.data())
        X, codes, X_test, truth = parts
        path = Path(options.cache, "checkpoints", f"{run.name}-{training_name(method, gap).replace(' ', '-')}.pickle")
        if options.fresh:
            path.unlink(missing_ok=True)
        identity = {"run": run.name, **key, "n_train": len(codes)}
        training = Training(
            lambda method=method, gap=gap: make(run, method, gap, options.jobs), identity, path, common.commit()
        )
        if training.rounds:
            print(f"{run.name}: {training_name(method, gap)} goes on at {training.rounds} rounds", file=sys.stderr)
            lost = [g for g in grid if g < training.rounds and journal.missing([{**key, "rounds": g}])]
            if lost:
                print(f"  no errors are kept for {lost} rounds; delete {path} to have them again", file=sys.stderr)

        def look(training, key=key, X_test=X_test, truth=truth, codes=codes):
            row = {**key, "rounds": training.rounds}
            if training.rounds == 0 or not journal.missing([row]):
                return
            errors = wrong(training.estimator, X_test, truth)
            journal.add(
                {
                    **row,
                    "errors": errors,
                    "n_test": len(truth),
                    "n_train": len(codes),
                    "ended": int(training.ended),
                    "hours": round(training.seconds / 3600, 4),
                    "threads": options.jobs,
                    "trained_by": " ".join(training.commits),
                    "seconds": round(training.seconds, 2),
                }
            )
            print(
                f"{run.name}: {training_name(key['method'], key['gap'])}, {training.rounds} rounds: {errors} wrong, "
                f"{training.seconds / 3600:.2f} h of training",
                file=sys.stderr,
            )

        training.run(X, codes, grid, options.minutes, look)
    journal.sort()
    print(long_text(run, journal.rows))
    plot_long(run, journal.rows, Path(options.results, f"{run.name}.png"))


def curve(rows, key):
    """Rows of one training by rounds: {rounds: wrong test rows}."""
    mine = [row for row in rows if all(str(row[name]) == str(value) for name, value in key.items())]
    return {int(row["rounds"]): int(row["errors"]) for row in sorted(mine, key=lambda row: int(row["rounds"]))}


def finished_rows(rows, key, rounds):
    """Whether a training has come to ``rounds``, or to its own end."""
    mine = [row for row in rows if all(str(row[name]) == str(value) for name, value in key.items())]
    return any(int(row["rounds"]) >= rounds or int(row["ended"]) for row in mine)


def settings_of(rows):
    """(method, gap) that have rows, in the order of the tables."""
    order = [*peers.OURS, *VARIANTS, *peers.PEERS]
    found = {(row["method"], int(row["gap"])) for row in rows}
    return sorted(found, key=lambda pair: (order.index(pair[0]), pair[1]))


def order_words(run, rows):
    """Whether the methods stand in the published order at the last rounds that all of them have."""
    curves = {}
    for method, gap in settings_of(rows):
        # The published counts are those of gap 1; where there are several gaps, the smallest stands for the method.
        if method in run.published and method not in curves:
            curves[method] = curve(rows, setting(run, method, gap))
    if set(curves) != set(run.published):
        return ""
    shared = set.intersection(*(set(points) for points in curves.values()))
    if not shared:
        return ""
    at = max(shared)
    ours = sorted(curves, key=lambda method: curves[method][at])
    theirs = sorted(run.published, key=run.published.get)
    verdict = "as published" if ours == theirs else f"published: {' < '.join(theirs)}"
    return f"Order at {at} rounds, fewest errors first: {' < '.join(ours)} ({verdict})."


def long_text(run, rows):
    """Table of one run in Markdown."""
    shown = [g for g in sorted({int(row["rounds"]) for row in rows}) if g >= 50]
    shown = shown if len(shown) <= 9 else [*shown[:: -(-len(shown) // 8)], shown[-1]]
    shown = list(dict.fromkeys(shown))
    when = f"at {run.published_rounds} rounds" if run.published_rounds else "at the end"
    head = ["method", "gap", f"published {when}", *(f"{g} rounds" for g in shown), "last", "hours"]
    if run.within is not None:
        head.append(f"last within {run.within:.0%}")
    cells = []
    for method, gap in settings_of(rows):
        points = curve(rows, setting(run, method, gap))
        last = max(points)
        hours = max(float(row["hours"]) for row in rows if (row["method"], int(row["gap"])) == (method, gap))
        published = run.published.get(method)
        line = [method, gap or "-", published or "-", *(points.get(g, "-") for g in shown)]
        line += [f"{points[last]} ({last} rounds)", f"{hours:.2f}"]
        if run.within is not None:
            over = finished_rows(rows, setting(run, method, gap), run.rounds)
            line.append(within_words(points[last], published, run.within) if over else "not there yet")
        cells.append(line)
    commits = sorted({commit for row in rows for commit in row["trained_by"].split()})
    trained = f"Trained by commit {', '.join(f'`{commit}`' for commit in commits)}."
    tail = " ".join(words for words in (run.notes, order_words(run, rows), trained) if words)
    return f"Wrong test rows.\n\n{common.markdown_table(head, cells)}\n\n{tail}"


def within_words(ours, published, within):
    """Verdict on one count."""
    if published is None:
        return "-"
    distance = ours / published - 1
    return f"{'yes' if abs(distance) <= within else 'better' if distance < 0 else 'NO'} ({distance:+.1%})"


def plot_long(run, rows, path):
    """Test error against rounds."""
    if not rows:
        return
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
    n_test = int(rows[0]["n_test"])
    colours = {name: f"C{i}" for i, name in enumerate((*run.published, *peers.PEERS))}
    styles = itertools.cycle(("-", "--", ":", "-."))
    style_of = {}
    for method, gap in settings_of(rows):
        points = curve(rows, setting(run, method, gap))
        style = style_of.setdefault(gap, next(styles)) if gap else "-"
        axis.loglog(
            list(points),
            [100 * errors / n_test for errors in points.values()],
            style,
            color=colours.get(method),
            marker="." if len(points) == 1 else None,
            label=training_name(method, gap),
        )
    axis.set_xlabel("rounds")
    axis.set_ylabel("test error, percent")
    axis.set_title(run.title.partition(":")[0])
    axis.legend(fontsize=7)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"wrote {path}", file=sys.stderr)


def verify_long(run, options, make=new_estimator):
    """Train the first rounds anew and compare the counts with the result file; returns the number of differences."""
    rows = Journal(Path(options.results, f"{run.name}.csv"), LONG_KEY, LONG_COLUMNS, keep=True).rows
    checked = differing = 0
    parts = None
    for method, gap in settings_of(rows):
        if options.methods and method not in options.methods or options.gaps and gap and gap not in options.gaps:
            continue
        points = curve(rows, setting(run, method, gap))
        grid = [rounds for rounds in points if rounds <= options.verify]
        if not grid:
            print(f"{run.name}: {training_name(method, gap)} has no row of at most {options.verify} rounds")
            continue
        parts = parts or coded(run.data())
        X, codes, X_test, truth = parts
        training = Training(lambda m=method, g=gap: make(run, m, g, options.jobs), {}, None)
        for rounds in grid:
            training.step(rounds, X, codes)
            differing += compare(
                f"{run.name}: {training_name(method, gap)}, {rounds} rounds",
                points[rounds],
                wrong(training.estimator, X_test, truth),
                options.tolerance,
            )
            checked += 1
    return tell_verified(run.name, checked, differing)


def compare(what, kept, now, tolerance):
    """Print one comparison; 1 if it differs by more than ``tolerance`` percent."""
    differs = abs(now - kept) > tolerance / 100 * abs(kept) + 1e-9
    print(f"{what}: kept {kept:g}, now {now:g}: {'DIFFERS' if differs else 'same' if now == kept else 'close'}")
    return int(differs)


def tell_verified(name, checked, differing):
    """Say what --verify found; nothing to compare counts as a difference."""
    print(f"{name}: {checked} compared, {differing} differ")
    return differing if checked else 1


# --------------------------------------------------------------------------------------------------------------------
# Vector-leaf trees on all sets

VECTOR_ROUNDS = 200
VECTOR_METHODS = ("vector", "lightgbm", "lightgbm-sampled")
VECTOR_KEY = ["data", "method", "seed", "rounds"]
VECTOR_COLUMNS = ["n_train", "n_test", "split", "error_half", "error", "trees"]
# Columns of the table: name to (method, column of the journal).
VECTOR_TABLE = {
    "vector, {full} trees": ("vector", "error"),
    "LightGBM, {half} rounds": ("lightgbm", "error_half"),
    "LightGBM, {full} rounds": ("lightgbm", "error"),
    "sampled, {half} rounds": ("lightgbm-sampled", "error_half"),
    "sampled, {full} rounds": ("lightgbm-sampled", "error"),
}


def cost(name):
    """Relative cost of a fit on a set: cells times classes; a sparse row is taken to store 100 values."""
    entry = common.DATA[name]
    return entry.rows * min(entry.n_features, 100 if entry.sparse else entry.n_features) * entry.n_classes


def sets_by_cost(names=None):
    """All data sets, or those named, the cheapest first."""
    unknown = sorted(set(names or ()) - set(common.DATA))
    if unknown:
        raise SystemExit(f"unknown set {unknown[0]!r}; there are {', '.join(common.DATA)}")
    return sorted(names or common.DATA, key=cost)


def vector_spec(method, rounds, seed, threads=1):
    """What is fitted: our defaults, LightGBM with 20 leaves and else its defaults, and the same with sampling."""
    if method == "vector":
        return Spec("vector", rounds, leaves=None, learning_rate=None, threads=threads, seed=seed)
    more = LIGHTGBM_SAMPLED if method == "lightgbm-sampled" else {}
    return Spec("lightgbm", rounds, threads=threads, seed=seed, more=more)


def deterministic(unit):
    """Whether the seed plays no part: a fixed split, and a method that draws nothing."""
    return unit["method"] == "lightgbm" and common.fixed_split(unit["data"])


def vector_units(sets, seeds, rounds=VECTOR_ROUNDS, methods=VECTOR_METHODS):
    """All (set, seed, method), cheap sets first; where the seed plays no part only seed 0."""
    units = [
        {"data": data, "method": method, "seed": seed, "rounds": rounds}
        for data in sets
        for seed in range(seeds)
        for method in methods
    ]
    return [unit for unit in units if unit["seed"] == 0 or not deterministic(unit)]


def fit_vector(unit):
    """Fit one unit: the error after half of the rounds and after all."""
    X, codes, X_test, truth = coded(common.load_for_trees(unit["data"], unit["seed"]))
    begin = time.perf_counter()
    model = peers.fit(vector_spec(unit["method"], unit["rounds"], unit["seed"]), X, codes, int(codes.max()) + 1)
    seconds = time.perf_counter() - begin
    half = unit["rounds"] // 2
    if hasattr(model, "_scores"):
        at_half = model.predict(X_test, half)
    else:
        # A training that ended early keeps its last labels.
        at_half = model.predict(X_test)
        for count, at_half in enumerate(model.staged(X_test), 1):  # noqa: B007
            if count == half:
                break
    return {
        **unit,
        "n_train": len(codes),
        "n_test": len(truth),
        "split": "given" if common.fixed_split(unit["data"]) else "stratified 75:25",
        "error_half": round(error_percent(truth, at_half), 4),
        "error": round(error_percent(truth, model.predict(X_test)), 4),
        "trees": model.trees,
        "seconds": round(seconds, 3),
    }


def vector_journal(folder, fresh=False, keep=False):
    return Journal(Path(folder, "vector-trees.csv"), VECTOR_KEY, VECTOR_COLUMNS, fresh, keep)


def vector_errors(rows, data, method, column):
    """Errors over the seeds of one cell."""
    return [float(row[column]) for row in rows if row["data"] == data and row["method"] == method]


def vector_means(rows):
    """Sets that have every column, and their mean errors: (names, array of sets by columns)."""
    names, means = [], []
    for data in sets_by_cost(sorted({row["data"] for row in rows})):
        cells = [vector_errors(rows, data, *source) for source in VECTOR_TABLE.values()]
        if all(cells):
            names.append(data)
            means.append([np.mean(cell) for cell in cells])
    return names, np.array(means)


def vector_text(rows, rounds=VECTOR_ROUNDS):
    """The table and the test of ranks in Markdown."""
    rows = [row for row in rows if int(row["rounds"]) == rounds]
    heads = [name.format(full=rounds, half=rounds // 2) for name in VECTOR_TABLE]
    cells = []
    for data in sets_by_cost(sorted({row["data"] for row in rows})):
        found = [vector_errors(rows, data, *source) for source in VECTOR_TABLE.values()]
        low = min((np.mean(cell) for cell in found if cell), default=None)
        line = [data, next(row["split"] for row in rows if row["data"] == data)]
        line.append(max(len(cell) for cell in found))
        for cell in found:
            if not cell:
                line.append("-")
                continue
            words = f"{np.mean(cell):.2f}" + (f" ({np.std(cell, ddof=1):.2f})" if len(cell) > 1 else "")
            line.append(f"**{words}**" if np.mean(cell) == low else words)
        cells.append(line)
    text = common.markdown_table(["data", "split", "seeds", *heads], cells)
    names, means = vector_means(rows)
    if len(names) >= 2:
        ranking = ranks.rank(heads, means)
        text += "\n\n" + common.markdown_table(
            ["", *heads], [["mean rank", *(f"{mean:.2f}" for mean in ranking.mean_ranks)]]
        )
        text += (
            f"\n\n{len(names)} sets; Friedman {ranking.friedman:.1f} (p = {ranking.friedman_p:.2g}), Iman and "
            f"Davenport {ranking.iman_davenport:.2f} (p = {ranking.iman_davenport_p:.2g}); critical difference of mean "
            f"ranks (Nemenyi, {ranking.level:g}) {ranking.critical:.2f}."
        )
    return "Test error in percent, mean (standard deviation) over the seeds; the lowest mean in bold.\n\n" + text


def run_vector(options):
    """Vector-leaf trees beside LightGBM on all sets, cheap sets first."""
    journal = vector_journal(options.results, options.fresh)
    rounds = options.rounds or VECTOR_ROUNDS
    methods, absent = [], {}
    for method in options.methods or VECTOR_METHODS:
        try:
            peers.require(vector_spec(method, 1, 0).method)
            methods.append(method)
        except peers.Absent as reason:
            absent[method] = str(reason)
    for method, reason in absent.items():
        print(f"vector-trees: {method} skipped, {reason} is absent", file=sys.stderr)
    units = vector_units(sets_by_cost(options.sets), options.seeds, rounds, methods)
    run_units(journal, fit_vector, units, options.jobs, "vector-trees", options.budget)
    print(vector_text(journal.rows, rounds))
    rows = [row for row in journal.rows if int(row["rounds"]) == rounds]
    names, means = vector_means(rows)
    if len(names) >= 2:
        heads = [name.format(full=rounds, half=rounds // 2) for name in VECTOR_TABLE]
        path = Path(options.results, "vector-trees.png")
        ranks.plot(ranks.rank(heads, means), path, pyplot())
        print(f"wrote {path}", file=sys.stderr)


def verify_units(name, journal, work, integers, options, weigh):
    """Do the cheapest ``options.verify`` rows of a journal anew and compare their errors."""
    rows = sorted(journal.rows, key=weigh)
    if options.methods:
        rows = [row for row in rows if row.get("method") in options.methods]
    differing = 0
    for row in rows[: options.verify]:
        unit = {key: int(row[key]) if key in integers else row[key] for key in journal.key}
        now = work(unit)
        what = ", ".join(str(unit[key]) for key in journal.key)
        differing += compare(f"{name}: {what}", float(row["error"]), float(now["error"]), options.tolerance)
    return tell_verified(name, len(rows[: options.verify]), differing)


def verify_vector(options):
    journal = vector_journal(options.results, keep=True)
    order = {"vector": 0, "lightgbm-sampled": 1, "lightgbm": 2}
    weigh = lambda row: (order[row["method"]], cost(row["data"]), int(row["seed"]))  # noqa: E731
    return verify_units("vector-trees", journal, fit_vector, ("seed", "rounds"), options, weigh)


# --------------------------------------------------------------------------------------------------------------------
# Defaults of the vector-leaf trees: cross-validation on training parts only

DEFAULTS_SETS = (
    "svmguide4", "vowel", "yeast", "car", "dna", "waveform", "optdigits", "satimage", "pendigits", "letter",
)  # fmt: skip
DEFAULTS_FOLDS = 5
# Settings are all combinations of the first three, with the first loss and leaf step; then every other loss and leaf
# step around the middle of these. None leaves a parameter to the estimator.
DEFAULTS_GRID = {
    "max_leaf_nodes": (30, 60, 100, 150),
    "max_features": (0.2, 0.4, 0.7, 1.0),
    "learning_rate": (0.05, 0.1, 0.2),
}
DEFAULTS_MIDDLE = {"max_leaf_nodes": 100, "max_features": 0.4, "learning_rate": 0.1}
DEFAULTS_AROUND = {"loss": ("exp", "log"), "leaf_step": ("full",)}
DEFAULTS_KEY = ["data", "setting", "fold", "rounds"]
DEFAULTS_COLUMNS = ["error", "n_train", "n_test"]


def default_settings():
    """List the settings as dictionaries."""
    settings = [dict(zip(DEFAULTS_GRID, values, strict=True)) for values in itertools.product(*DEFAULTS_GRID.values())]
    settings += [{**DEFAULTS_MIDDLE, name: value} for name, values in DEFAULTS_AROUND.items() for value in values]
    return settings


def accepted(settings):
    """Split settings into those that this build's estimator takes and {setting: its words} of the others."""
    X, codes = np.arange(40, dtype=np.float32).reshape(20, 2), np.arange(20) % 3
    kept, refused = [], {}
    for setting in settings:
        try:
            peers.fit(Spec("vector", 1, leaves=None, learning_rate=None, more=setting), X, codes, 3)
            kept.append(setting)
        except (ValueError, TypeError) as error:
            refused[json.dumps(setting, sort_keys=True)] = str(error)
    return kept, refused


def fold_rows(y, fold, folds=DEFAULTS_FOLDS):
    """Training and test rows of one fold; every class is dealt out to the folds in a random order with a fixed seed."""
    generator = np.random.default_rng([folds, 0x666F6C64])
    place = np.empty(len(y), np.int64)
    start = 0
    for label in np.unique(y):
        rows = generator.permutation(np.flatnonzero(y == label))
        # Classes begin where the last one stopped, so that the folds have equal size.
        place[rows] = (start + np.arange(len(rows))) % folds
        start += len(rows)
    return np.flatnonzero(place != fold), np.flatnonzero(place == fold)


def fit_defaults(unit):
    """One fold of one setting."""
    X, y, _, _ = common.load_for_trees(unit["data"])
    train, test = fold_rows(y, unit["fold"])
    X_train, codes, X_test, truth = coded((X[train], y[train], X[test], y[test]))
    spec = Spec(
        "vector", unit["rounds"], leaves=None, learning_rate=None, seed=unit["fold"], more=json.loads(unit["setting"])
    )
    begin = time.perf_counter()
    model = peers.fit(spec, X_train, codes, int(codes.max()) + 1)
    seconds = time.perf_counter() - begin
    return {
        **unit,
        "error": round(error_percent(truth, model.predict(X_test)), 4),
        "n_train": len(codes),
        "n_test": len(truth),
        "seconds": round(seconds, 3),
    }


def defaults_journal(folder, fresh=False, keep=False):
    return Journal(Path(folder, "vector-defaults.csv"), DEFAULTS_KEY, DEFAULTS_COLUMNS, fresh, keep)


def defaults_units(sets, settings, rounds):
    return [
        {"data": data, "setting": json.dumps(setting, sort_keys=True), "fold": fold, "rounds": rounds}
        for data in sets
        for fold in range(DEFAULTS_FOLDS)
        for setting in settings
    ]


def defaults_text(rows, best=15):
    """Settings by their mean rank over the sets that have all of them."""
    cells = {}
    for row in rows:
        cells.setdefault((row["data"], row["setting"]), []).append(float(row["error"]))
    settings = sorted({setting for _, setting in cells})
    complete = [
        data
        for data in sets_by_cost(sorted({data for data, _ in cells}))
        if all(len(cells.get((data, setting), ())) == DEFAULTS_FOLDS for setting in settings)
    ]
    if len(settings) < 2 or len(complete) < 2:
        return "Not enough results for a table: two sets with all folds of all settings are needed."
    means = np.array([[np.mean(cells[data, setting]) for setting in settings] for data in complete])
    ranking = ranks.rank(settings, means)
    relative = (means / np.maximum(means.min(axis=1, keepdims=True), 1e-9)).mean(axis=0)
    order = np.lexsort((relative, ranking.mean_ranks))
    lines = []
    for j in order[:best]:
        words = ", ".join(f"{name}={value}" for name, value in json.loads(settings[j]).items())
        errors = (f"{value:.2f}" for value in means[:, j])
        lines.append([words, f"{ranking.mean_ranks[j]:.1f}", f"{relative[j]:.3f}", *errors])
    return (
        f"{DEFAULTS_FOLDS}-fold cross-validation on the training parts; {len(settings)} settings, the best {best} by "
        "mean rank; relative: error divided by the lowest on the set, mean over the sets.\n\n"
        + common.markdown_table(["setting", "mean rank", "relative", *complete], lines)
    )


def run_defaults(options):
    """Choose defaults of the vector-leaf trees on training parts only."""
    settings, refused = accepted(default_settings())
    for setting, words in refused.items():
        print(f"vector-defaults: {setting} skipped: {words}", file=sys.stderr)
    journal = defaults_journal(options.results, options.fresh)
    units = defaults_units(sets_by_cost(options.sets or DEFAULTS_SETS), settings, options.rounds or VECTOR_ROUNDS)
    run_units(journal, fit_defaults, units, options.jobs, "vector-defaults", options.budget)
    print(defaults_text(journal.rows))


def verify_defaults(options):
    journal = defaults_journal(options.results, keep=True)
    weigh = lambda row: (cost(row["data"]), row["setting"], int(row["fold"]))  # noqa: E731
    return verify_units("vector-defaults", journal, fit_defaults, ("fold", "rounds"), options, weigh)


# --------------------------------------------------------------------------------------------------------------------
# For reproduce.py


def _absent_is_an_error(function):
    """Say in one line what is missing."""

    def run(options):
        try:
            return function(options)
        except peers.Absent as reason:
            raise SystemExit(f"{reason} is absent") from None

    return run


RUNS = {
    **{name: lambda options, run=run: run_long(run, options) for name, run in LONG.items()},
    "vector-trees": run_vector,
    "vector-defaults": _absent_is_an_error(run_defaults),
}
VERIFY = {
    **{name: lambda options, run=run: verify_long(run, options) for name, run in LONG.items()},
    "vector-trees": _absent_is_an_error(verify_vector),
    "vector-defaults": _absent_is_an_error(verify_defaults),
}


def markdown(folder):
    """Parts of docs/reproduction.md that have results in ``folder``."""
    parts = []
    for run in LONG.values():
        if Path(folder, f"{run.name}.csv").exists():
            rows = long_journal(run, folder).rows
            if rows:
                parts.append(f"### {run.title}\n\n{long_text(run, rows)}")
    if Path(folder, "vector-trees.csv").exists():
        parts.append(f"### Vector-leaf trees on all sets\n\n{vector_text(vector_journal(folder).rows)}")
    if Path(folder, "vector-defaults.csv").exists():
        parts.append(f"### Defaults of the vector-leaf trees\n\n{defaults_text(defaults_journal(folder).rows)}")
    return parts
