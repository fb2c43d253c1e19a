"""Vector trees and the number of rounds: five times as many as by default, and numbers found by validation."""

import time

import numpy as np
from shared import classifiers
from shared.datasets import DATA, coded, load_for_trees, sets_by_cost
from shared.internals import held_out
from shared.tables import markdown_table

from reproduce.experiment import Experiment, Results, select
from reproduce.quality import FOUND as MEASURED
from reproduce.quality import geometric, measures_of, tested, with_seeds

# Fixed before the first run: sets whose training parts have at most so many numbers times classes.
MOST_WORK = 3e8
TIMES = 5
MOST_ROUNDS = 600
WAYS = {"stopped": {"early_stopping": True}, "auto": {"n_estimators": "auto"}}
FOUND = tuple(f"{way}{raw}" for way in WAYS for raw in ("_raw", ""))
OWN = "stopped_own"
# Of the rows, set aside without calibration.
RAW_SHARE = 0.1
# A tenth of its rows, which early stopping looks at, has fewer rows than there are classes.
TOO_SMALL = ("leaf",)


def sets_of(options):
    """Sets that are not too large."""
    return [name for name in sets_by_cost(options.sets) if DATA[name].cost <= MOST_WORK]


def fit_times(unit):
    """So many times the default rounds."""
    rounds = int(unit["times"]) * classifiers.make("vector").n_estimators
    parts = coded(load_for_trees(unit["data"], unit["seed"]))
    return tested(unit, {"n_estimators": rounds}, parts)


def times_plan(options, journal):
    yield 0, with_seeds(data=sets_of(options), method=("vector", "vector-raw"), times=(1, TIMES)), "rounds-times"


def times_text(frame):
    """Log loss and error of both numbers of rounds, calibrated and not."""
    wide = frame.pivot_table(index="data", columns=["method", "times"], values=["log_loss", "error"])
    if len(wide) == 0 or wide["log_loss"].shape[1] < 4:
        return "No results yet."
    lines, ratios = [], []
    for data, row in wide.dropna().iterrows():
        loss = row["log_loss"]
        ratios.append([loss[method, TIMES] / loss[method, 1] for method in ("vector", "vector-raw")])
        cells = [f"{loss[method, n]:.4f}" for method in ("vector", "vector-raw") for n in (1, TIMES)]
        worse = f"{ratios[-1][0]:.3f}"
        lines.append([
            data, *cells[:2], f"**{worse}**" if ratios[-1][0] > 1 else worse, *cells[2:], f"{ratios[-1][1]:.2f}",
            *(f"{row['error']['vector', n]:.2f}" for n in (1, TIMES)),
        ])  # fmt: skip
    worst, means = np.max(ratios, axis=0), [geometric(column) for column in np.transpose(ratios)]
    head = ["set", "log loss", f"x{TIMES}", "ratio", "uncalibrated", f"x{TIMES}", "ratio", "error %", f"x{TIMES}"]
    return (
        f"Vector trees with their defaults, and with {TIMES} times as many rounds, means of the seeds. Ratio of the "
        f"log losses on the test part: at most {worst[0]:.3f} calibrated, {worst[1]:.2f} uncalibrated; geometric means "
        f"{means[0]:.3f} and {means[1]:.2f}.\n\n{markdown_table(head, lines)}"
    )


def fit_found(unit):
    """The best round on the test part, and the log losses of models whose rounds were found without it."""
    X, y, X_test, truth = coded(load_for_trees(unit["data"], unit["seed"]))
    begin, seen = time.perf_counter(), truth >= 0
    vector = classifiers.make("vector-raw", n_estimators=MOST_ROUNDS, random_state=unit["seed"])
    weight = np.ones(len(y))
    curves = []
    for rows in [], held_out(y, weight, RAW_SHARE, unit["seed"]):
        weight[rows] = 0
        vector.fit(X, y, sample_weight=weight, X_val=X_test[seen], y_val=truth[seen])
        curves.append(np.asarray(vector.history_["val_log_loss"]))
    row = {"best": round(float(curves[0].min()), 5), "best_round": int(curves[0].argmin()) + 1}
    row[OWN] = round(float(curves[1].min()), 5)
    for way, params in WAYS.items():
        for raw in ("_raw", ""):
            method = "vector-raw" if raw else "vector"
            model = classifiers.make(method, random_state=unit["seed"], **params).fit(X, y)
            found = measures_of(model.predict_proba(X_test[seen]), truth[seen])
            row |= {way + raw: found["log_loss"], f"{way}_rounds": model.n_estimators_}
    return {**unit, **row, "error": found["error"], "seconds": round(time.perf_counter() - begin, 3)}


def found_plan(options, journal):
    sets = [name for name in sets_of(options) if name not in TOO_SMALL]
    yield 0, with_seeds(data=sets), "rounds-found"


def found_text(frame):
    """Log loss over that of the best round, set by set."""
    lines, ratios = [], []
    for data in sets_by_cost(sorted(set(frame["data"]))):
        mean = select(frame, data=data).mean(numeric_only=True)
        ratios.append([mean["stopped_raw"] / mean[OWN], *(mean[column] / mean["best"] for column in FOUND)])
        rounds = [f"{mean[name]:.0f}" for name in ("best_round", *(f"{way}_rounds" for way in WAYS))]
        lines.append([data, f"{mean['best']:.4f}", *(f"{r:.3f}" for r in ratios[-1]), *rounds])
    for name, of in ("geometric mean", geometric), ("median", np.median):
        lines.append([name, "", *(f"{of(column):.3f}" for column in np.transpose(ratios)), "", "", ""])
    head = ["set", "best round's log loss", "early stopping, of its own best round", "early stopping, uncalibrated",
            "early stopping", "auto, uncalibrated", "auto", "best round", "early stopping, rounds",
            "auto, rounds"]  # fmt: skip
    return (
        "Log loss on the test part, mean of the seeds, over that of the best of the first "
        f"{MOST_ROUNDS} rounds there, uncalibrated and trained on all rows. Early stopping trains on nine tenths of "
        "them, calibrated on all but 500 where that is more; uncalibrated over the best round of that training in *of "
        "its own best round*.\n\n"
        f"{markdown_table(head, lines)}"
    )


TIMES_RESULTS = Results("rounds-times", "data method times seed", MEASURED, fit_times)
FOUND_RESULTS = Results(
    "rounds-found",
    "data seed",
    " ".join([f"error best best_round {OWN}", *FOUND, *(f"{way}_rounds" for way in WAYS)]),
    fit_found,
)
EXPERIMENTS = (
    Experiment("rounds-times", "Five times the rounds", (TIMES_RESULTS,), times_plan, times_text, sets=tuple(DATA)),
    Experiment("rounds-found", "Rounds that are found", (FOUND_RESULTS,), found_plan, found_text, sets=tuple(DATA)),
)
