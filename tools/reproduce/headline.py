"""Defaults against defaults, over all public sets: what the first sentences and the first picture of the pages say.

Log losses, errors and sizes of the arrays are those of `quality`, means over the seeds; those of the frames are from
`quality-fair`, without a temperature of folds. Times of training are from `quality-fair` alone, which is one run on one
machine; only CatBoost's are from `quality`.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t
from shared import ranks
from shared.frames import FRAMES
from shared.tables import markdown_table, picture

from reproduce import fair, quality

OURS = "vector"
NAMES = {
    "vector": "pymcboost", "lightgbm": "LightGBM", "xgboost": "XGBoost", "xgboost-vector": "XGBoost, vector leaves",
    "catboost": "CatBoost", "histogram": "HistGradientBoosting",
}  # fmt: skip
OTHERS = tuple(NAMES)[1:]
# Ranked against each other: all have these, and `MOST` have CatBoost as well.
RANKED = ("vector", "catboost", "lightgbm", "xgboost", "histogram")
MOST = tuple(name for name in RANKED if name != "catboost")
PICTURE = Path("docs", "tradeoff.png")
SETS_PICTURE = "headline-sets.png"
# Timed on other days than ours.
OTHER_DAYS = ("catboost",)
# Where names would lie over each other.
OFFSETS = {"xgboost": (14, 10), "xgboost-vector": (14, -12)}
# Default models that score rows, of sets in ``quality`` whose timings were made together, and the row of a benchmark.
SCORED = ("optdigits", "letter")


def tables_of(folder):
    """Tables (sets, methods) by measure, "cpu" of the one run, and None where results are missing."""
    stored = [experiment.stored(folder) for experiment in (_of(quality), _of(fair))]
    if None in stored:
        return None
    arrays, both = (journal.frame() for journal in stored)
    both = both[both["seed"] == 0]
    frames = both[both["data"].isin(FRAMES)]
    measures = ["log_loss", "error", "bytes"]
    parts = [_grid(part, measures) for part in (arrays, frames)]
    tables = {name: pd.concat([part[name] for part in parts]) for name in measures}
    tables["cpu"] = _grid(both, ["cpu"])["cpu"]
    for name in OTHER_DAYS:
        tables[f"cpu-{name}"] = _grid(arrays, ["cpu"])["cpu"]
    tables["micros"] = _grid(arrays, ["micros_a_row"])["micros_a_row"]
    return tables


def _of(module):
    names = ("quality", "quality-fair")
    return next(experiment for experiment in module.EXPERIMENTS if experiment.name in names)


def _grid(frame, measures):
    """Means over the seeds; NaN where a seed has no result."""
    groups = frame.groupby(["data", "method"])[measures]
    means = groups.mean().where(groups.count().eq(groups.size(), axis=0)).unstack("method")
    return {name: means[name] for name in measures}


@dataclass(frozen=True)
class Ratio:
    """Geometric mean over sets of another method's figures divided by ours, and its 95% interval."""

    mean: float
    low: float
    high: float
    n_sets: int

    @property
    def words(self):
        return f"{short(self.low)} to {short(self.high)}"


def short(value):
    """A ratio in words: two digits, and whole numbers from ten on."""
    return f"{value:.{2 if value < 1 else 1 if value < 9.95 else 0}f}"


def ratio_of(table, method, reference=OURS):
    """The ratio over the sets that both have; small figures count as 1e-4, as in `quality.geometric`."""
    pair = np.maximum(table[[method, reference]].dropna(), 1e-4)
    logs = np.log(pair[method] / pair[reference]).to_numpy()
    half = t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    ends = (float(np.exp(logs.mean() + sign * half)) for sign in (-1, 1))
    return Ratio(float(np.exp(logs.mean())), *ends, len(logs))


def times_of(tables, method):
    """CPU seconds of trainings, of the run that has ours beside this method."""
    return tables[f"cpu-{method}" if method in OTHER_DAYS else "cpu"]


def values_of(folder):
    """What sentences say of defaults against defaults."""
    tables = tables_of(folder)
    if tables is None:
        return {}
    losses, errors = tables["log_loss"], tables["error"]
    frames = sum(name in FRAMES for name in losses.index)
    words = {
        "sets": str(len(losses)),
        "array-sets": str(len(losses) - frames),
        "frame-sets": str(frames),
    }
    for method in OTHERS:
        words |= {f"{method}-{name}": text for name, text in pair_values(tables, method).items()}
    for form, methods in (("", RANKED), ("without-catboost-", MOST)):
        words |= {f"{form}{name}": text for name, text in rank_values(tables, methods).items()}
    for data in SCORED:
        for method in (OURS, "lightgbm"):
            words[f"score-{method}-{data}"] = short(tables["micros"].loc[data, method])
    both = ratio_of(tables["micros"], "lightgbm")
    words |= {"score-lightgbm": f"{both.mean:.0f}", "score-lightgbm-sets": str(both.n_sets)}
    words |= row_values(folder)
    for data in SCORED:
        words[f"error-{data}"] = f"{errors.loc[data, OURS]:.1f}"
        words[f"error-lightgbm-{data}"] = f"{errors.loc[data, 'lightgbm']:.1f}"
    return words


def pair_values(tables, method):
    """Another library's defaults against ours."""
    loss = ratio_of(tables["log_loss"], method)
    pair = tables["log_loss"][[method, OURS]].dropna()
    wrong = tables["error"].loc[pair.index, [method, OURS]]
    size = ratio_of(tables["bytes"], method)
    time = ratio_of(times_of(tables, method), method)
    return {
        "sets": str(loss.n_sets),
        "log-loss": f"{loss.mean:.2f}",
        "log-loss-interval": f"{loss.low:.2f} to {loss.high:.2f}",
        "log-loss-median": f"{(pair[method] / pair[OURS]).median():.2f}",
        "log-loss-ahead": str((pair[OURS] < pair[method]).sum()),
        "log-loss-p": f"{ranks.signed_rank(pair[method], pair[OURS]).p:.2g}",
        "error-ahead": str((wrong[OURS] < wrong[method]).sum()),
        "error-equal": str((wrong[OURS] == wrong[method]).sum()),
        "error-p": f"{ranks.signed_rank(wrong[method], wrong[OURS]).p:.2g}",
        "error-points": f"{(wrong[method] - wrong[OURS]).mean():.1f}",
        "size": short(size.mean),
        "size-interval": size.words,
        "cpu": short(time.mean),
        "cpu-interval": time.words,
        "cpu-sets": str(time.n_sets),
    }


def rank_values(tables, methods):
    """Mean ranks over the sets that all of these have."""
    words = {}
    for name, measure in (("log-loss", "log_loss"), ("error", "error")):
        table = tables[measure][list(methods)].dropna()
        ranking = ranks.rank(methods, table.to_numpy())
        placed = dict(zip(methods, ranking.mean_ranks, strict=True))
        words |= {f"rank-{name}-{method}": f"{placed[method]:.2f}" for method in methods}
        order = sorted(placed, key=placed.get)
        words[f"ranks-{name}"] = ", ".join(
            f"{NAMES[method]} {placed[method]:.2f}" for method in order
        )
        second = next(method for method in order if method != OURS)
        words[f"next-{name}"] = f"{NAMES[second]} {placed[second]:.2f}"
        words[f"next-{name}-p"] = f"{ranks.signed_rank(table[second], table[OURS]).p:.2g}"
        words[f"rank-{name}-friedman-p"] = f"{ranking.friedman_p:.1g}"
    return words | {"rank-sets": str(ranking.n_sets), "rank-critical": f"{ranking.critical:.2f}"}


def row_values(folder):
    """Medians of a row in C of default models, from the benchmark of rows."""
    path = Path(folder, "bench-rows-defaults.json")
    if not path.exists():
        return {}
    rows = json.loads(path.read_text())["rows"]["rows"]
    tables = {row["what"].partition(",")[0]: row["p50"] for row in rows if "splits" in row}
    return {f"score-c-{data}": f"{tables[data]:.1f}" for data in SCORED if data in tables}


def text_of(folder):
    """The table of defaults against defaults in Markdown."""
    tables = tables_of(folder)
    lines = []
    for method in OTHERS:
        loss = ratio_of(tables["log_loss"], method)
        words = pair_values(tables, method)
        time = words["cpu"], words["cpu-interval"].replace(" to ", "–")
        lines.append(
            [
                NAMES[method],
                f"{words['log-loss']} ({loss.low:.2f}–{loss.high:.2f})",
                f"{words['log-loss-ahead']}/{loss.n_sets}",
                words["log-loss-p"],
                words["error-points"],
                f"{words['error-ahead']}/{loss.n_sets}",
                words["error-p"],
                words["size"],
                "-" if method in OTHER_DAYS else f"{time[0]} ({time[1]})",
            ]
        )
    heads = ["defaults of", "log loss", "lower", "p", "error", "lower", "p", "size", "CPU time"]
    return markdown_table(heads, lines)


def plot(path, folder):
    """Log loss against training time, both relative to ours: geometric means and their 95% intervals over the sets."""
    tables = tables_of(folder)
    with picture(path, figsize=(7.1, 4.4)) as grid:
        axes = grid[0, 0]
        axes.axhline(1, color="0.8", lw=1, zorder=0)
        axes.axvline(1, color="0.8", lw=1, zorder=0)
        axes.plot(1, 1, "o", color="C3", ms=9)
        _name(
            axes,
            f"pymcboost ({len(tables['log_loss'])})",
            1,
            y=1,
            offset=(9, -14),
            color="C3",
            weight="bold",
        )
        for place, method in enumerate(OTHERS):
            x = ratio_of(times_of(tables, method), method)
            y = ratio_of(tables["log_loss"], method)
            bars = {
                "xerr": [[x.mean - x.low], [x.high - x.mean]],
                "yerr": [[y.mean - y.low], [y.high - y.mean]],
            }
            style = {"mfc": "white"} if method in OTHER_DAYS else {}
            color = f"C{(0, 1, 2, 4, 5)[place]}"
            axes.errorbar(x.mean, y.mean, **bars, fmt="o", color=color, capsize=3, ms=7, **style)
            offset = OFFSETS.get(method, (9, 7))
            _name(
                axes, f"{NAMES[method]} ({y.n_sets})", x.mean, y=y.mean, offset=offset, color=color
            )
        axes.set(xscale="log", yscale="log")
        axes.set_xlabel("CPU time of training / pymcboost's", fontsize=12)
        axes.set_ylabel("log loss / pymcboost's", fontsize=12)
        ticks = [0.5, 1, 2, 5, 10, 20, 50, 100]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=11)
        ticks = [0.9, 1, 1.2, 1.5, 2, 3, 4, 5]
        axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=11)
        axes.minorticks_off()
        axes.set_xlim(0.6, 330)
        axes.set_title("Everyone's defaults on public data sets", fontsize=13)
        note = "Geometric means and 95% intervals over (sets).\nHollow: times of another day."
        axes.text(0.98, 0.97, note, transform=axes.transAxes, ha="right", va="top", fontsize=10)


def plot_sets(path, folder):
    """Log loss and error of every set: other libraries' defaults relative to ours, by the number of training rows."""
    tables = tables_of(folder)
    losses = tables["log_loss"]
    methods = [method for method in OTHERS if method != "xgboost-vector"]
    ratios = losses[methods].div(losses[OURS], axis=0)
    order = ratios.min(axis=1).sort_values(ascending=False).index
    with picture(path, figsize=(7.1, 8.6)) as grid:
        axes = grid[0, 0]
        axes.axvline(1, color="C3", lw=1.5)
        for place, method in enumerate(methods):
            color = f"C{(0, 1, 4, 5)[OTHERS.index(method) - (OTHERS.index(method) > 2)]}"
            x = ratios.loc[order, method].clip(0.15, 20)
            axes.plot(x, range(len(order)), "o^sD"[place], color=color, ms=5, label=NAMES[method])
        axes.hlines(range(len(order)), 0.15, 20, color="0.92", lw=0.8, zorder=0)
        axes.set_yticks(range(len(order)), order, fontsize=9.5)
        axes.set_ylim(-0.8, len(order) - 0.2)
        axes.set_xscale("log")
        ticks = [0.2, 0.5, 1, 2, 5, 10, 20]
        axes.set_xticks(ticks, [*(f"{tick:g}" for tick in ticks[:-1]), "20 or more"], fontsize=11)
        axes.minorticks_off()
        axes.set_xlabel(
            "log loss / pymcboost's; left of the line: the other library is better", fontsize=11
        )
        axes.legend(fontsize=10, ncols=4, loc="lower center", bbox_to_anchor=(0.42, 1.0))


def _name(axes, text, x, y, offset, **style):
    axes.annotate(text, (x, y), textcoords="offset points", xytext=offset, fontsize=11, **style)


@dataclass(frozen=True)
class Summary:
    """Something that is computed from the results of experiments, in the place of an experiment."""

    name: str
    title: str

    verifiable = False
    pages = {}

    def run(self, options):
        """Print the table and draw the picture of docs."""
        print(text_of(options.results))
        plot(PICTURE, options.results)
        plot_sets(Path(options.results, SETS_PICTURE), options.results)

    def markdown(self, folder):
        """A part of the pages, None where ``folder`` lacks results."""
        return None if tables_of(folder) is None else f"### {self.title}\n\n{text_of(folder)}"

    def page_text(self, folder):
        """The table of the pages."""
        return text_of(folder)

    def values_of(self, folder):
        """What sentences say, by "headline.name"."""
        return {f"{self.name}.{name}": text for name, text in values_of(folder).items()}


EXPERIMENTS = (Summary("headline", "Defaults against defaults"),)
