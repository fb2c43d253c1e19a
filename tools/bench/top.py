"""The classes of the highest scores of a row, against all scores, where leaves have numbers of few classes."""

import subprocess
import tempfile
from pathlib import Path

import numpy as np
from shared import measure

from bench import limits
from bench.growth import TRAINING, generate
from bench.report import Report, benchmark

CLASSES, ENTRIES, HIGHEST = (1000, 10_000), (20, 100, None), 5
ROWS, TIMED, ROUNDS = 20_000, 500, 50
# Time of 10,000 classes by that of 1,000, with the fewest entries; what is stored for a row is as much.
GROWTH = 2


def microseconds(program, passes, *way):
    """CPU time of a row, of the file of rows beside the program."""
    words = [program, passes, program.with_name("rows.bin"), *way]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
    return float(done.stdout.split()[1]) / 1e3


def stored(model, rows):
    """Mean number of entries in the leaves that a row comes to."""
    trees = model.ensemble
    lengths = np.diff(trees.leaf.start) if hasattr(trees.leaf, "start") else np.full(len(trees.leaf), trees.n_classes)
    first = trees.offset[:-1] + np.arange(len(trees))
    return lengths[first + model.apply(rows)].sum(axis=1).mean()


@benchmark("top")
def bench_top(options):
    """The five highest of 1,000 and 10,000 scores of a row in C, by the entries of leaves, against all scores."""
    from pymcboost import VectorTreeBoostClassifier, get_include

    rounds, m, passes = options.rounds or options.size(3, ROUNDS), options.size(500, ROWS), 10 * options.repeat
    report = Report(
        {
            "data": f"{m} rows of normal clouds of the benchmark growth",
            "trees": f"{rounds} rounds, subsample=0.5, calibrate=None, other parameters at their defaults",
            "time": f"CPU microseconds of a row in C, -O2; best of {passes} passes over {TIMED} rows",
            "top": f"mcb_top_scores of {HIGHEST}; where leaves have numbers of all classes, mcb_scores is the way",
        }
    )
    found = {}
    with tempfile.TemporaryDirectory(prefix="mcboost-top-") as folder:
        program, path = Path(folder, "score_one"), Path(folder, "model.mcb")
        flags = ["-std=c99", "-O2", "-I", get_include()]
        measure.compile_c(limits.FOLDER / "score_one.c", program, flags, ("-lm", "-ldl"))
        for K in options.size((50,), CLASSES):
            X, y = generate(K, m + TIMED)
            rows = np.ascontiguousarray(X[m:])
            measure.write_rows(Path(folder, "rows.bin"), rows)
            for entries in ENTRIES:
                how = {**TRAINING, "n_jobs": max(options.threads), "random_state": 0}
                model = VectorTreeBoostClassifier(n_estimators=rounds, max_leaf_entries=entries, **how)
                model = model.fit(X[:m], y[:m]).model_
                model.save(path)
                what = f"K={K}, {entries or 'all'} entries"
                more = {"entries_of_a_row": round(float(stored(model, rows))), "MB": path.stat().st_size / 1e6}
                report.add(f"{what}: all scores", microseconds(program, passes, "ours", path), "us", **more)
                taken = microseconds(program, passes, "all", path, HIGHEST)
                report.add(f"{what}: all scores, then their top {HIGHEST}", taken, "us")
                if entries and entries < K:
                    found[K, entries] = microseconds(program, passes, "top", path, HIGHEST)
                    report.add(f"{what}: top {HIGHEST}", found[K, entries], "us", **more)
    if not options.quick:
        least, most = (found[K, ENTRIES[0]] for K in CLASSES)
        what = f"top {HIGHEST}, {ENTRIES[0]} entries: time of K={CLASSES[1]} / K={CLASSES[0]}"
        report.target(what, most / least, GROWTH, at_most=True)
    return report
