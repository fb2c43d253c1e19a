"""MCBoost with stumps: fits, scoring and files, against LightGBM's trees of two leaves."""

import itertools
import math
import tempfile
from pathlib import Path

import numpy as np
from shared.datasets import coded, load
from shared.measure import Timing, best_of, error_percent, first_below, race, write_rows
from shared.peers import Fitted, Spec, available, fit, fit_two_leaf_lightgbm
from shared.tables import number

from bench.limits import BUILDS, c_row, run_c
from bench.report import Report, benchmark

PREPARATION = "timed on both sides (binning, Dataset construction)"
DEFAULTS = {
    "mcboost": "learning_rate=0.5 nu=1e-9 max_bins=256 (defaults)",
    "lightgbm": "num_leaves=2, other parameters default",
}
# Rounds of time-to-error, at most.
MOST_STUMPS = 1000
MOST_TREES = 200
OURS = ("MCBoost", "vector trees")
# Rows of a call in C.
GROUP = 256


def fit_mcboost(X, codes, rounds, threads=1, loss="exp"):
    """MCBoost with its defaults, data preparation included."""
    from pymcboost import MCBoostClassifier

    model = MCBoostClassifier(loss=loss, n_estimators=rounds, n_jobs=threads).fit(X, codes)
    return Fitted(model, model.n_estimators_, model.model_.n_learners)


def contenders(X, codes, rounds, threads=1):
    """The three fits that are raced; ``rounds`` is one number, or one by name."""
    counts = (
        rounds if isinstance(rounds, dict) else dict.fromkeys(("exp", "log", "lightgbm"), rounds)
    )
    fits = {
        "exp": lambda: fit_mcboost(X, codes, counts["exp"], threads=threads, loss="exp"),
        "log": lambda: fit_mcboost(X, codes, counts["log"], threads=threads, loss="log"),
        "lightgbm": lambda: fit_two_leaf_lightgbm(X, codes, counts["lightgbm"], threads=threads),
    }
    return {name: fit for name, fit in fits.items() if counts.get(name)}


# --------------------------------------------------------------------------------------------------------------------
# Fits


@benchmark("fit-pendigits")
def bench_fit_pendigits(options):
    """1,000 rounds on the official pendigits training part, one thread, against LightGBM's 10,000 two-leaf trees."""
    rounds = options.size(100, 1000)
    X, codes, X_test, truth = coded(load("pendigits"))
    timings = race(contenders(X, codes, rounds), options.repeat)
    report = Report(
        {
            "data": "pendigits, official split",
            "rows": len(X),
            "features": X.shape[1],
            "rounds": rounds,
            "threads": 1,
            **DEFAULTS,
            "data_preparation": PREPARATION,
        }
    )
    for name, timing in timings.items():
        model = timing.value
        words = f"MCBoost {name}, {model.rounds} rounds"
        what = f"LightGBM, {model.trees} two-leaf trees" if name == "lightgbm" else words
        report.rows.append(timing.fit_row(what, X_test, truth))
    for loss, bound in (("exp", 8), ("log", 5)):
        report.target(
            f"fit, {loss}: LightGBM's time / ours",
            timings["lightgbm"].best / timings[loss].best,
            bound,
        )
    return report


# Peers at several settings, as none is the best for every library: leaves of a tree, learning rate, other parameters.
RACED = {
    "LightGBM, 2 leaves, rate 0.1": ("lightgbm", 2, 0.1, {}),
    "LightGBM, 2 leaves, rate 0.5": ("lightgbm", 2, 0.5, {}),
    "LightGBM, 8 leaves, rate 0.1": ("lightgbm", 8, 0.1, {}),
    "LightGBM, 8 leaves, rate 0.5": ("lightgbm", 8, 0.5, {}),
    "LightGBM, 31 leaves, rate 0.1 (defaults)": ("lightgbm", 31, 0.1, {}),
    "XGBoost, 8 leaves, rate 0.5": ("xgboost", 8, 0.5, {}),
    "XGBoost, vector leaves, depth 3, rate 0.5": (
        "xgboost", 0, 0.5, {"multi_strategy": "multi_output_tree", "grow_policy": "depthwise", "max_depth": 3},
    ),
    "XGBoost, vector leaves, depth 6, rate 0.3 (defaults)": (
        "xgboost", 0, 0.3,
        {"multi_strategy": "multi_output_tree", "grow_policy": "depthwise", "max_depth": 6, "reg_lambda": 1,
         "min_child_weight": 1},
    ),
    "CatBoost, 8 leaves, rate 0.5": ("catboost", 8, 0.5, {}),
    "scikit-learn, 8 leaves, rate 0.5": ("sklearn", 8, 0.5, {}),
    "vector trees, 31 leaves, rate 0.15": ("vector", 31, 0.15, {"calibrate": None}),
    "vector trees, 8 leaves, rate 0.5": ("vector", 8, 0.5, {"calibrate": None}),
}  # fmt: skip


def raced(X, codes, counts):
    """Fits by name, with their rounds in ``counts`` or else the most; and the libraries that are absent."""
    K = int(codes.max()) + 1
    fits = {}
    for loss in ("exp", "log"):
        rounds = counts.get(f"MCBoost, {loss}", MOST_STUMPS)
        fits[f"MCBoost, {loss}"] = lambda loss=loss, rounds=rounds: fit_mcboost(
            X, codes, rounds, loss=loss
        )
    present, absent = available({method for method, *_ in RACED.values()})
    for name, (method, n_leaves, rate, more) in RACED.items():
        if method in present:
            most = MOST_STUMPS if n_leaves == 2 else MOST_TREES
            spec = Spec(method, counts.get(name, most), n_leaves, learning_rate=rate, more=more)
            fits[name] = lambda spec=spec: fit(spec, X, codes, n_classes=K)
    return {name: one for name, one in fits.items() if counts.get(name, 1)}, absent


@benchmark("time-to-error")
def bench_time_to_error(options):
    """Time to 5.5% test error on pendigits: just the rounds that it takes, one thread, peers at several settings."""
    level = 5.5
    X, codes, X_test, truth = coded(load("pendigits"))
    report = Report(
        {
            "data": "pendigits, official split",
            "error_percent": level,
            "threads": 1,
            "rounds": "the smallest number whose test error is at most the level, found by staged prediction (chosen "
            f"on the test part, for all alike), at most {MOST_STUMPS} of stumps and {MOST_TREES} of trees",
            "data_preparation": "timed on all sides",
        }
    )
    fits, absent = raced(X, codes, {})
    report.notes += [f"{method} is absent: {reason}" for method, reason in absent.items()]
    needed = {
        name: first_below(
            [error_percent(truth, predicted) for predicted in one().staged(X_test)], level
        )
        for name, one in fits.items()
    }
    report.notes += [
        f"{name}: {level}% was not reached" for name, count in needed.items() if not count
    ]
    found = race(raced(X, codes, needed)[0], options.repeat)
    for name, timing in found.items():
        report.rows.append(timing.fit_row(f"{name}, {needed[name]} rounds", X_test, truth))
    mine, theirs = (
        {name: timing.best for name, timing in found.items() if name.startswith(OURS) == own}
        for own in (True, False)
    )
    for name in mine:
        lightgbm = {
            other: timings for other, timings in theirs.items() if other.startswith("LightGBM")
        }
        for what, times in (("fastest peer", theirs), ("fastest LightGBM", lightgbm)):
            if times:
                best = min(times, key=times.get)
                report.add(f"time of the {what} ({best}) / {name}", times[best] / mine[name])
    return report


@benchmark("fit-mnist")
def bench_fit_mnist(options):
    """100 rounds on raw MNIST, one and two threads, against LightGBM's 1,000 two-leaf trees with as many threads."""
    rounds, rows = options.size((10, 10000), (100, 60000))
    X, codes, X_test, truth = coded(load("mnist"))
    X, codes = X[:rows], codes[:rows]
    report = Report(
        {
            "data": "MNIST, raw pixels, official split",
            "rows": len(X),
            "features": X.shape[1],
            "rounds": rounds,
            **DEFAULTS,
            "data_preparation": PREPARATION,
        }
    )
    # Imports and first calls stay out of the timed runs, which have no untimed run of their own for their length.
    for contender in contenders(X[:1000], codes[:1000], 2, threads=2).values():
        contender()
    for threads in (1, 2):
        timings = race(
            contenders(X, codes, rounds, threads=threads), min(options.repeat, 3), warm_up=False
        )
        report.rows += [
            timing.fit_row(f"{name}, {threads} threads", X_test, truth)
            for name, timing in timings.items()
        ]
        for loss in ("exp", "log"):
            ratio = timings["lightgbm"].best / timings[loss].best
            report.target(f"fit, {loss}, {threads} threads: LightGBM's time / ours", ratio, 5)
    return report


# --------------------------------------------------------------------------------------------------------------------
# Scoring and files


@benchmark("score")
def bench_score(options):
    """Score 1,000 stumps, K=10, d=64: a batch against LightGBM, single rows in C against a plain loop; one thread."""
    import pymcboost

    X, codes, X_test, _ = coded(load("optdigits"))
    model = fit_mcboost(X, codes, 1000).model.model_
    batch = np.ascontiguousarray(np.tile(X_test, (options.size(2, 12), 1)))
    table = pymcboost.Model.from_ensemble(
        model.ensemble, model.classes_, link=model.link, layout="interval"
    )
    report = Report(
        {
            "model": f"fitted to optdigits, {model.n_learners} stumps, 10 classes, {X.shape[1]} features",
            "batch_rows": len(batch),
            "threads": 1,
            "values": "raw scores (no softmax) of float32 rows, on all sides",
            "single_row": "C program tools/limits/score_row.c around mcb.h; rows differ from call to call",
        }
    )
    counts = {"as many trees": 100} | options.size({}, {"as many rounds": 1000})
    boosters = {
        name: fit_two_leaf_lightgbm(X, codes, count).model for name, count in counts.items()
    }
    score_batch(report, model, table, boosters=boosters, batch=batch, repeat=options.repeat)
    seconds = [best_of(lambda: model.raw_scores(batch[:1]), 20).best for _ in range(options.repeat)]
    report.rows.append(Timing(seconds).row("one row through Python", 1e6, "us"))
    score_rows(report, model, table, rows=X_test, repeat=options.repeat)
    return report


def score_batch(report, model, table, boosters, batch, repeat):
    """Many rows: the list, the interval table and LightGBM."""
    ours = {"list": model, "interval": table}
    runs = {
        f"ours, {name}": lambda one=one: one.raw_scores(batch, n_jobs=1)
        for name, one in ours.items()
    }
    for name, booster in boosters.items():
        runs[f"LightGBM, {booster.num_trees()} two-leaf trees ({name})"] = lambda booster=booster: (
            booster.predict(batch, raw_score=True, num_threads=1)
        )
    timings = race(runs, repeat)
    report.rows += [
        timing.row(f"batch: {name}", 1e6 / len(batch), "us/row") for name, timing in timings.items()
    ]
    theirs = [timing.best for name, timing in timings.items() if name.startswith("LightGBM")]
    best = {name: timings[f"ours, {name}"].best for name in ours}
    report.target(
        "batch, list: LightGBM's time with as many trees / ours", theirs[0] / best["list"], 20
    )
    scores = model.raw_scores(batch)
    report.add("batch, interval: LightGBM / ours", theirs[0] / best["interval"])
    others = table.raw_scores(batch)
    changed = int((others.argmax(axis=1) != scores.argmax(axis=1)).sum())
    report.notes.append(
        f"interval against list: scores differ by {np.abs(others - scores).max():.2g} at most (the largest is "
        f"{np.abs(scores).max():.3g}), {changed} of {len(batch)} predictions differ"
    )
    if len(theirs) > 1:
        report.add("batch, list: LightGBM with as many rounds / ours", theirs[1] / best["list"])


def score_rows(report, model, table, rows, repeat):
    """Single rows in C: a plain loop, the list and the interval table."""
    stumps = model.ensemble
    runs = 10 * repeat
    if stumps.left is not None and not np.array_equal(stumps.left, -stumps.right):
        raise SystemExit("score: the plain loop knows only stumps whose sides are opposite")
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "list.mcb"), layout="list")
        table.save(Path(folder, "interval.mcb"))
        with open(Path(folder, "stumps.bin"), "wb") as file:
            np.array(
                [len(stumps.feature), len(model.classes_), rows.shape[1], len(rows)], np.int32
            ).tofile(file)
            np.ascontiguousarray(stumps.feature, np.int32).tofile(file)
            for array in (stumps.threshold, stumps.right, stumps.bias, rows):
                np.ascontiguousarray(array, np.float32).tofile(file)
        for build, flags in BUILDS.items():
            words = [Path(folder, name) for name in ("stumps.bin", "list.mcb", "interval.mcb")]
            lines = run_c("score_row.c", folder, flags, words=[*words, runs])
            what = f"one row in C, {build}"
            found = {
                name: c_row(f"{what}: {name}", lines[name], runs)
                for name in ("naive", "list", "interval")
            }
            report.rows += found.values()
            # The list adds 1,000 numbers one after the other per class, each add waiting for the last: it cannot be as
            # fast as the target asks, which is that of the interval table.
            naive, plain, merged = (found[name]["best"] for name in ("naive", "list", "interval"))
            report.add(f"{what}, list: plain loop / ours", naive / plain)
            report.target(
                f"{what}, interval: plain loop's time / ours (2.7 / 0.6)", naive / merged, 4.5
            )
            report.notes.append(
                f"{build}: largest difference from the plain loop {' '.join(lines['difference'])}"
            )
        score_groups(report, folder, rows, runs=runs)


def score_groups(report, folder, rows, runs):
    """Calls of `GROUP` rows in C, with and without -DMCB_SIMD: list.mcb of the folder."""
    stored = Path(folder, "rows.bin")
    found = []
    write_rows(stored, rows)
    for build, flags in BUILDS.items():
        words = [runs, Path(folder, "list.mcb"), stored, GROUP, 0, 1]
        median, *_, best, _ = run_c(
            "score_latency.c", folder, flags, words=words, libraries=("-lm", "-lpthread")
        )["ns"]
        found.append(c_row(f"{GROUP} rows a call in C, {build}: list", (best, median), runs))
    report.rows += found
    report.add(
        f"{GROUP} rows a call in C, list: -O2 / -O2 -DMCB_SIMD", found[0]["best"] / found[1]["best"]
    )


@benchmark("size")
def bench_size(options):
    """Bytes of a model file against LightGBM's text file with as many stumps (two-leaf trees)."""
    counts = options.size((100,), (1000, 3000))
    report = Report(
        {
            "rounds": counts,
            "lightgbm": "num_leaves=2; as many trees as we have stumps; save_model's text",
        }
    )
    for name, rounds in itertools.product(("pendigits", "optdigits"), counts):
        X, codes, _, _ = coded(load(name))
        ours = fit_mcboost(X, codes, rounds)
        stumps = ours.trees
        theirs = fit_two_leaf_lightgbm(X, codes, math.ceil(stumps / (codes.max() + 1)))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model")
            sizes = {}
            for layout in ("list", "interval"):
                ours.model.save(path, layout=layout)
                sizes[layout] = path.stat().st_size
            theirs.model.save_model(path)
            text = path.stat().st_size * stumps / theirs.trees
        for layout, size in sizes.items():
            report.add(f"{name}: .mcb, {layout}, {stumps} stumps", size, "bytes")
        report.add(f"{name}: LightGBM's text, {theirs.trees} trees", round(text), "bytes")
        history = ours.model.history_
        distinct = len(
            set(zip(history["feature"].tolist(), history["threshold"].tolist(), strict=True))
        )
        report.notes.append(
            f"{name}: {number(distinct)} distinct (feature, threshold) pairs among {stumps} stumps"
        )
        for layout, size in sizes.items():
            what = f"{name}, {stumps} stumps, {layout}: LightGBM's bytes / ours"
            report.target(what, text / size, 7 if layout == "list" else 15)
    return report
