"""Error and log loss against the time of one row, bytes and training time: every algorithm here and other libraries.

    python tools/bench.py pareto [--data digits pendigits] [--budget MINUTES] [--seconds 10] [--fresh] [--into FILE]

A killed run goes on where it was (results/pareto.csv). One fit gives the models of all numbers of rounds. Training
time is the CPU time of that fit times the share of its rounds. The whole grid is reported: nothing is chosen.
"""

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from reproduce.journal import Journal, while_time
from shared import internals, measure
from shared.datasets import EIGHT, sampled_parts
from shared.frontiers import frontier
from shared.tables import markdown_table, number, picture, put_between

from bench import limits, pareto_models

SIZES = (1, 3, 10, 30, 100, 200)
COSTS = (1, 10, 100)
MACHINES = {"hingeboost": (3, 10, 30)}
# Those whose trees the packed layout takes.
PACKED = ("vector-tree", "logitboost", "mart")
# Rows that are timed one at a time.
TIMED = 200
KEY = ("data", "library", "algorithm", "setting", "size")
FIGURES = ("error", "log_loss", "us", "bytes", "train_seconds", "way")
OWN = "pymcboost"
# The corners of the plane that are judged: column, bound and its words.
CORNERS = (("us", 5, "below 5 us"), ("bytes", 1e5, "below 100 kB"))
LOSSES = {"error": "test error in percent", "log_loss": "log loss"}
COLUMNS = {"us": "microseconds of one row", "bytes": "bytes"}
RESULTS = measure.ROOT / "results"


def absent():
    """Libraries that are not installed."""
    needed = {library: module for library, (module, *_) in pareto_models.PEERS.items()} | {"LIBSVM": "libsvm"}
    return [library for library, module in needed.items() if not pareto_models.present(module)]


def grid(left_out=()):
    """All fits, but for some libraries: (library, algorithm, setting, sizes, function of rows, codes and rounds)."""
    fits = []
    for algorithm, kind in internals.algorithms().items():
        if algorithm in MACHINES:  # without stages: a fit for each size
            fits += [(OWN, algorithm, "default", (size,), pareto_models.Ours, None) for size in MACHINES[algorithm]]
            continue
        trees = "max_leaf_nodes" in kind().get_params()
        for leaves in (None, 8) if trees else (None,):
            setting = f"{leaves} leaves" if leaves else "default"
            fits.append((OWN, algorithm, setting, SIZES, pareto_models.Ours, leaves))
        if algorithm in PACKED:
            fits.append((OWN, algorithm, "8 leaves, packed, int8", SIZES, pareto_models.Packed, 8))
            fits.append((OWN, algorithm, "8 leaves, generated C", SIZES, pareto_models.Generated, 8))
    for library, (_, make, algorithms) in pareto_models.PEERS.items():
        named = [(name, leaves) for name in algorithms for leaves in pareto_models.LEAVES]
        fits += [(library, name, f"{leaves} leaves", SIZES, make, leaves) for name, leaves in named]
    fits += [("LIBSVM", "rbf", "default", (cost,), pareto_models.Libsvm, None) for cost in COSTS]
    return [fit for fit in fits if fit[0] not in left_out]


def units_of(name, fit):
    """Units of a fit, as the journal knows them."""
    library, algorithm, setting, sizes, *_ = fit
    return [dict(zip(KEY, (name, library, algorithm, setting, size), strict=True)) for size in sizes]


class Timer:
    """Times one row of a model by its own way."""

    def __init__(self, folder, X_test):
        import pymcboost

        rows = np.ascontiguousarray(X_test[:TIMED], np.float32)
        self.rows, self.stored, self.program = rows, Path(folder, "rows.bin"), Path(folder, "score_one")
        measure.write_rows(self.stored, rows)
        flags = ["-std=c99", "-O2", "-I", pymcboost.get_include()]
        measure.compile_c(limits.FOLDER / "score_one.c", self.program, flags, ("-lm", "-ldl"))

    def microseconds(self, model, way):
        """Best CPU microseconds of a row; ``way`` is a function of one row, or words for the C program."""
        if isinstance(way, list):
            words = [self.program, pareto_models.PASSES, self.stored, *way]
            done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
            return float(done.stdout.split()[1]) * 1e-3
        nodes = getattr(model, "nodes", None)
        return pareto_models.best_of(way, self.rows) if nodes is None else pareto_models.best_of_nodes(way, nodes)


def rounds_within(fit, X, y, seconds):
    """Rounds that a fit of ours may take by the time of one and three rounds; all for the others."""
    library, algorithm, _, sizes, make, leaves = fit
    if library != OWN:
        return max(sizes)
    taken = []
    for rounds in (1, 3):
        start = time.process_time()
        make(X, y, rounds, algorithm, leaves)
        taken.append(time.process_time() - start)
        if taken[0] > seconds:
            return 1
    each = max((taken[1] - taken[0]) / 2, 1e-6)
    most = 1 + (seconds - taken[0]) / each
    return max(size for size in sizes if size <= most or size == min(sizes))


def run_fit(fit, units, parts, timer, folder, seconds, journal):
    """Fit once, and enter a row for every size that is missing."""
    library, algorithm, setting, sizes, make, leaves = fit
    X, y, X_test, y_test = parts
    most = rounds_within(fit, X, y, seconds)
    start = time.process_time()
    model = make(X, y, most, algorithm, leaves)
    spent = time.process_time() - start
    for unit in units:
        n, begin = unit["size"], time.process_time()
        if n > model.rounds:
            why = f"cut: over {seconds:g} s" if n > most else f"ended after {model.rounds} rounds"
            found = dict.fromkeys(FIGURES, "") | {"way": why}
        else:
            codes, chances, size, way = model.evaluate(n, X_test, folder)
            found = {
                "error": 100 * float((codes != y_test).mean()),
                "log_loss": "" if chances is None else measure.log_loss(chances, y_test),
                "us": timer.microseconds(model, way), "bytes": size, "train_seconds": spent * n / model.rounds,
                "way": model.way,
            }  # fmt: skip
        journal.add({**unit, **found, "seconds": round(time.process_time() - begin, 3)})


def failed(journal, units, error):
    """Enter a fit that was refused, with its reason."""
    why = " ".join(f"refused: {type(error).__name__}: {error}".split())[:160]
    for unit in journal.missing(units):
        journal.add({**unit, **dict.fromkeys(FIGURES, ""), "way": why, "seconds": 0})


def run_set(name, journal, options):
    """All fits of a set that are missing."""
    fits = [(fit, journal.missing(units_of(name, fit))) for fit in grid(absent())]
    fits = [pair for pair in fits if pair[1]]
    if not fits:
        return
    parts = sampled_parts(name)
    with tempfile.TemporaryDirectory(prefix="mcboost-pareto-") as folder:
        timer = Timer(folder, parts[2])
        for fit, units in while_time(fits, options.left()):
            print(name, *fit[:3], file=sys.stderr)
            try:
                run_fit(fit, units, parts, timer, folder, options.seconds, journal)
            except ValueError as error:
                failed(journal, units, error)


def shares(frame):
    """Rows of the table: for every set, corner and loss, frontier points, those of ours, and the peers among them."""
    rows = []
    for name, part in frame.groupby("data", sort=False):
        for (column, bound, words), loss in itertools.product(CORNERS, LOSSES):
            inside = part[(part[column] < bound) & part[loss].notna()].reset_index(drop=True)
            kept = inside.iloc[frontier(list(zip(inside[column], inside[loss], strict=True)))]
            theirs = kept[kept["library"] != OWN]
            listed = "; ".join(
                f"{row.library} {row.algorithm}, {row.setting}, size {row.size_}: {number(float(getattr(row, loss)))}"
                for row in theirs.rename(columns={"size": "size_"}).itertuples()
            )
            rows.append([name, words, LOSSES[loss], f"{len(kept) - len(theirs)} of {len(kept)}", listed or "-"])
    return rows


def draw(frame, path):
    """Four panels a set: error and log loss against time and against bytes, the frontier as a line."""
    names, panels = list(dict.fromkeys(frame["data"])), list(itertools.product(LOSSES, COLUMNS))
    colours = {library: f"C{at}" for at, library in enumerate(sorted(set(frame["library"])))}
    with picture(path, len(names), len(panels), figsize=(4.6 * len(panels), 3.2 * len(names))) as axes:
        for line, name in zip(axes, names, strict=True):
            for axis, (loss, column) in zip(line, panels, strict=True):
                part = frame[(frame["data"] == name) & frame[loss].notna()].reset_index(drop=True)
                for library, points in part.groupby("library"):
                    mark = {"marker": "o", "zorder": 3} if library == OWN else {"marker": "x"}
                    axis.scatter(points[column], points[loss], s=14, c=colours[library], label=library, **mark)
                kept = part.iloc[frontier(list(zip(part[column], part[loss], strict=True)))]
                axis.step(kept[column], kept[loss], "k-", where="post", linewidth=0.8)
                axis.set(xscale="log", yscale="log", xlabel=COLUMNS[column], ylabel=LOSSES[loss], title=name)
        axes[0][0].legend(fontsize=7)


class Options(argparse.Namespace):
    """The command line, and the minutes that are left of the budget."""

    begin = time.monotonic()

    def left(self):
        """Minutes that are left, or None."""
        return None if self.budget is None else self.budget - (time.monotonic() - self.begin) / 60


def main(arguments):
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=EIGHT, default=EIGHT, metavar="SET", help="sets (default: all)")
    parser.add_argument("--budget", type=float, help="minutes after which no further fit is begun")
    parser.add_argument("--seconds", type=float, default=10, help="most CPU seconds of a fit of ours, as foreseen")
    parser.add_argument("--fresh", action="store_true", help="begin anew")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of pareto.csv and pareto.png")
    parser.add_argument("--into", metavar="FILE", help="put the table into this file, between its marks")
    options = parser.parse_args(arguments, Options())
    journal = Journal(options.results / "pareto.csv", KEY, FIGURES, fresh=options.fresh)
    for name in options.data:
        run_set(name, journal, options)
    print(f"not installed, so not fitted: {', '.join(absent()) or 'none'}")
    frame = journal.frame()
    # The column of a file without an empty cell holds numbers already.
    frame = frame.assign(**{name: pd.to_numeric(frame[name]) for name in ("error", "log_loss", "us", "bytes")})
    done, lost = frame[frame["error"].notna()], frame[frame["error"].isna()]
    counts = lost.groupby(["data", "library", "algorithm", "setting", "way"], sort=False).size()
    for what, count in counts.items():
        print(f"without a figure: {', '.join(what)}: {count} sizes")
    begun = [name for name in EIGHT if (frame["data"] == name).any()]
    halves = [name for name in begun if any(journal.missing(units_of(name, fit)) for fit in grid())]
    done = done[~done["data"].isin(halves)]
    print(f"begun and not complete, so neither drawn nor in the table: {', '.join(halves) or 'none'}")
    if done.empty:
        return 1
    draw(done, options.results / "pareto.png")
    heads = ["set", "corner", "figure", "frontier points of ours", "points of others on it"]
    text = markdown_table(heads, shares(done))
    lost = lost[~lost["data"].isin(halves)]
    text += f"\n\n{len(done)} models have figures; {len(lost)} have none: cut, ended early or refused."
    print(text)
    if options.into:
        put_between(options.into, "pareto", text)
    return 0
