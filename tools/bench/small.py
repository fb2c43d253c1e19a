"""Bytes of models at equal error: packed trees against LightGBM's arrays and the files of others.

    python tools/bench.py small [--data digits pendigits] [--libraries LightGBM pymcboost] [--budget MINUTES]

For each library settings are drawn, and then the best ones changed in one parameter. One training gives the models of
all numbers of rounds. Errors are those of rows held out of the training part. The smallest model is chosen whose error
is at most the least of LightGBM's and a standard error; it is trained on the whole training part, and the test part is
read once. A killed run goes on where it was: results/small-search.csv has a row for each setting, results/small.csv
one for each choice.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from reproduce.journal import Journal, while_time
from shared import measure
from shared.datasets import EIGHT, sampled_parts, stratified_rows
from shared.tables import markdown_table, put_between

from bench.pareto import Options
from bench.pareto_models import present
from bench.small_models import LIBRARIES, ROUNDS

# Share of the training part that is held out; smaller sets are divided more than once, up to so often.
HELD_OUT, ENOUGH, MOST_DIVISIONS = 0.2, 15_000, 3
JUDGE, OWN = "LightGBM", "pymcboost"
# Settings that are changed, and how many of a library's points are kept for each setting.
PARENTS, KEPT = 5, 3
KEY = ("data", "library", "setting")
POINTS = ("target", "least_error", "points")
CHOICE_KEY = ("data", "library", "form")
CHOICE = ("target", "held_out_error", "bytes", "test_error", "rounds", "setting")
# What is asked of the mean of the ratios of bytes: ours / theirs.
BOUNDS = {"LightGBM float32": 0.1, "CatBoost cbm": 0.25}
RESULTS = measure.ROOT / "results"


def divisions(X, y):
    """(fit, held-out) parts of the training part, as pairs of features and codes."""
    for seed in range(min(MOST_DIVISIONS, max(1, ENOUGH // len(y)))):
        fit, held = stratified_rows(y, seed, HELD_OUT)
        yield (X[fit], y[fit]), (X[held], y[held])


def tried(make, parts, params, target, most, threads):
    """Least held-out error of a setting, and points (rounds, error, bytes of each form) that reach the target."""
    models = [make(*fit, params, most, threads) for fit, _ in parts]
    last = min(model.rounds for model in models)
    wanted = [n for n in ROUNDS if n <= last]
    wrong = np.zeros((len(parts), len(wanted)))
    for at, (model, (_, held)) in enumerate(zip(models, parts, strict=True)):
        wrong[at] = [(codes != held[1]).mean() for n, codes in model.stages(held[0], wanted)]
    errors = wrong.mean(axis=0)
    reached = np.flatnonzero(errors <= target)[: len(wanted) if target == 1 else KEPT]
    points = []
    for at in reached:
        sizes = np.mean([model.sizes(wanted[at]) for model in models], axis=0)
        points.append((wanted[at], round(float(errors[at]), 5), *sizes.round().astype(int).tolist()))
    return float(errors.min()), points


def settings(space, trials, rows):
    """Yield settings that are not among the journal's rows: drawn ones, then the best ones with another value.

    What comes depends on the rows before alone, so that a run goes on as if it had not stopped.
    """
    drawn, changed = trials
    while len(rows) < drawn + changed:
        generator = np.random.default_rng([len(rows), 0x736D616C])
        seen = {row["setting"] for row in rows}
        best = sorted((row for row in rows if row["points"] != "[]"), key=smallest)[:PARENTS]
        for _ in range(1000):
            params = {name: values[generator.integers(len(values))] for name, values in space.items()}
            if len(rows) >= drawn and best:
                other, params = params, json.loads(best[generator.integers(len(best))]["setting"])
                for name in generator.permutation(list(space))[: generator.integers(1, 3)]:
                    params[name] = other[name]
            if json.dumps(params) not in seen:
                break
        else:
            return
        yield params


def smallest(row, at=0, target=1.0):
    """Bytes of the smallest model of a row that reaches a target."""
    return min((point[2 + at] for point in json.loads(row["points"]) if point[1] <= target), default=np.inf)


def rows_of(journal, name, library):
    """The journal's rows of a set and a library."""
    return [row for row in journal.rows if (row["data"], row["library"]) == (name, library)]


def target_of(journal, name, held):
    """Error that models may have: the least of the judge's and a standard error of it."""
    least = min(float(row["least_error"]) for row in rows_of(journal, name, JUDGE))
    return round(least + float(np.sqrt(least * (1 - least) / held)), 5)


def search(name, library, parts, target, journal, options):
    """Try settings of a library on a set until there are enough."""
    make = LIBRARIES[library][1]
    trials = [max(1, int(count * options.share)) for count in make.TRIALS]
    while True:
        rows = rows_of(journal, name, library)
        params = next(settings(make.space(len(parts[0][0][1])), trials, rows), None)
        if params is None or not list(while_time([0], options.left())):
            return
        begin = time.process_time()
        try:
            least, points = tried(make, parts, params, target, min(make.MOST, options.rounds), options.threads)
        except ValueError as error:
            print(f"{name} {library}: {error}", file=sys.stderr)
            return
        seconds = round(time.process_time() - begin, 2)
        found = {"target": target, "least_error": round(least, 5), "points": json.dumps(points), "seconds": seconds}
        journal.add({"data": name, "library": library, "setting": json.dumps(params), **found})


def choose(name, library, data, target, journal, chosen, options):
    """Train the smallest models again and read the test part."""
    X, y, X_test, y_test = data
    make, ready = LIBRARIES[library][1], {}
    for at, form in enumerate(make.FORMS):
        unit = {"data": name, "library": library, "form": form}
        rows = [row for row in rows_of(journal, name, library) if smallest(row, at, target) < np.inf]
        if not chosen.missing([unit]):
            continue
        if not rows:
            print(f"{name}: no model of {library} reaches {target:.3%}", file=sys.stderr)
            continue
        row = min(rows, key=lambda row, at=at: smallest(row, at, target))
        points = [point for point in json.loads(row["points"]) if point[1] <= target]
        n, error = min(points, key=lambda point, at=at: point[2 + at])[:2]
        if (row["setting"], n) not in ready:
            model = make(X, y, json.loads(row["setting"]), n, options.threads)
            n = min(n, model.rounds)
            (codes,) = (codes for _, codes in model.stages(X_test, [n]))
            ready[row["setting"], n] = model.sizes(n), float((codes != y_test).mean())
        sizes, wrong = ready[row["setting"], n]
        found = {"target": target, "held_out_error": error, "bytes": sizes[at], "test_error": wrong, "rounds": n}
        chosen.add({**unit, **found, "setting": row["setting"], "seconds": 0})


def run_set(name, journal, chosen, options):
    """Search and choose for one set; the judge comes first."""
    data = sampled_parts(name)
    parts = list(divisions(*data[:2]))
    held = sum(len(part[1][1]) for part in parts)
    for library in [JUDGE, *(library for library in options.libraries if library != JUDGE)]:
        if not present(LIBRARIES[library][0]):
            print(f"{library} is not installed", file=sys.stderr)
            continue
        target = 1 if library == JUDGE else target_of(journal, name, held)
        search(name, library, parts, target, journal, options)
        rows = rows_of(journal, name, library)
        if rows and len(rows) >= sum(LIBRARIES[library][1].TRIALS) * options.share - 1:
            choose(name, library, data, target_of(journal, name, held), journal, chosen, options)


def not_reached(journal, name, library):
    """Words for a set whose error none of a library's settings reaches; a dash where none was tried."""
    rows = rows_of(journal, name, library)
    if not rows:
        return "-"
    least = min(float(row["least_error"]) for row in rows)
    return f"not reached: held out {100 * least:.2f}, asked {100 * float(rows[-1]['target']):.2f}"


def tried_lines(journal):
    """For each set the numbers of settings that were tried."""
    counts = Counter((row["data"], row["library"]) for row in journal.rows)
    names = [name for name in EIGHT if any(data == name for data, _ in counts)]
    return [[name, *(counts[name, library] or "-" for library in LIBRARIES)] for name in names]


def report(chosen, journal):
    """The tables: bytes and test errors of each set, means of the ratios of ours and theirs, settings tried."""
    found, lines, ratios = {}, [], {}
    for row in chosen.rows:
        label = f"{row['library']} {row['form']}"
        found.setdefault(row["data"], {})[label] = int(float(row["bytes"])), 100 * float(row["test_error"])
    columns = [(library, f"{library} {form}") for library, (_, make) in LIBRARIES.items() for form in make.FORMS]
    labels = [label for _, label in columns]
    for name in [name for name in EIGHT if name in found]:
        own = found[name]
        cells = (
            f"{own[label][0]:,} ({own[label][1]:.2f})" if label in own else not_reached(journal, name, library)
            for library, label in columns
        )
        lines.append([name, *cells])
        for mine, theirs in ((f"{OWN} file", label) for label in labels if not label.startswith(OWN)):
            if {mine, theirs} <= own.keys():
                ratios.setdefault((mine, theirs), []).append(own[mine][0] / own[theirs][0])
        mine = f"{OWN} arrays"
        for theirs in ("LightGBM float32", "LightGBM float16"):
            if {mine, theirs} <= own.keys():
                ratios.setdefault((mine, theirs), []).append(own[mine][0] / own[theirs][0])
    text = markdown_table(["set", *(f"{label}: bytes (test error)" for label in labels)], lines)
    means = []
    for (mine, theirs), values in ratios.items():
        wanted = f"{BOUNDS[theirs]:g}" if theirs in BOUNDS else "-"
        middle = float(np.exp(np.mean(np.log(values))))
        means.append([f"{mine} / {theirs}", len(values), f"{np.mean(values):.3f}", f"{middle:.3f}", wanted])
    heads = ["bytes", "sets", "mean", "geometric mean", "asked of the mean"]
    counts = markdown_table(["settings tried", *LIBRARIES], tried_lines(journal))
    return f"{text}\n\n{markdown_table(heads, means)}\n\n{counts}"


def main(arguments):
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data", nargs="+", choices=EIGHT, default=EIGHT, metavar="SET", help="sets (default: all)")
    add("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES), metavar="NAME", help="default: all")
    add("--budget", type=float, help="minutes after which no further setting is tried")
    add("--share", type=float, default=1.0, help="share of the settings that are tried (default: 1)")
    add("--rounds", type=int, default=max(ROUNDS), help=f"most rounds (default: {max(ROUNDS)})")
    add("--threads", type=int, default=1, help="threads of a training (default: 1)")
    add("--fresh", action="store_true", help="begin anew")
    add("--results", type=Path, default=RESULTS, help="folder of small-search.csv and small.csv")
    add("--into", metavar="FILE", help="put the tables into this file, between the marks of small")
    options = parser.parse_args(arguments, Options())
    journal = Journal(options.results / "small-search.csv", KEY, POINTS, fresh=options.fresh)
    chosen = Journal(options.results / "small.csv", CHOICE_KEY, CHOICE, fresh=options.fresh)
    for name in options.data:
        run_set(name, journal, chosen, options)
    text = report(chosen, journal)
    print(text)
    if options.into:
        put_between(options.into, "small", text)
    return 0
