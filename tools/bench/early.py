"""Early exits of vector trees: learners left out, time, and labels that change."""

import tempfile
from pathlib import Path

import numpy as np
from shared.datasets import coded
from shared.measure import write_rows

from bench.limits import run_c
from bench.report import Report, benchmark
from bench.trees import tree_data

SETS = ("pendigits", "letter", "optdigits", "satimage", "mnist")
# All that a training of these models depends on, besides what VectorTreeBoostClassifier has by default.
TREES = {"learning_rate": 0.2, "max_leaf_nodes": 100, "max_features": 0.2, "split_columns": None}
RATE = 0.001
ROWS = 3000
# Draws of the rows that give the threshold: it is that of the worst of them.
DRAWS = 4
# At most so many times the time of all learners, and on how many sets less than that time.
SLOWER = 1.03
FASTER = 3
# Times fewer learners by calibrated exits, and on how many sets.
FEWER = 4
MOST_SETS = 4


@benchmark("early")
def bench_early(options):
    """Certified and calibrated early exits of 200 vector trees: learners left out, time of a row in C, labels."""
    rounds = options.rounds or options.size(20, 200)
    report = Report(
        {
            "model": f"{rounds} vector trees, "
            + ", ".join(f"{name}={value}" for name, value in TREES.items()),
            "certified": f"trained on the training part, looks at bounds where {ROWS} of its rows save time by it",
            "calibrated": f"trained without {ROWS} rows of the training part, which give the threshold; rate {RATE}; "
            f"mean of {DRAWS} draws of these rows",
            "time": "one row after the other in C, processor time, mcb_predict_early against mcb_predict",
            "changed": "labels of the test part",
        }
    )
    parts_of_way = {"certified": {}, "calibrated": {}}
    for name in options.data or options.size(SETS[:1], SETS):
        X, codes, X_test, _ = coded(tree_data(name, options))
        for way, draws in (("certified", 1), ("calibrated", options.size(1, DRAWS))):
            parts = []
            for draw in range(draws):
                held = np.random.default_rng(draw).permutation(len(X))[
                    : options.size(ROWS // 10, ROWS)
                ]
                rows = slice(None) if way == "certified" else np.setdiff1d(np.arange(len(X)), held)
                model = trained(X[rows], codes[rows], rounds)
                model = model.with_early_exit(way, X[held], rate=options.size(10 * RATE, RATE))
                parts.append(measured(model, way, X_test, options=options))
            parts_of_way[way][name] = together(parts)
            report.rows.append(
                {
                    "what": f"{name}: {way}, time / that of all learners",
                    "unit": "x",
                    **parts_of_way[way][name],
                }
            )
    judge(report, parts_of_way)
    return report


def trained(X, codes, rounds, **options):
    """The model of a training."""
    from pymcboost import VectorTreeBoostClassifier

    how = {**TREES, "random_state": 0, "calibrate": None, "n_jobs": 1, **options}
    return VectorTreeBoostClassifier(n_estimators=rounds, **how).fit(X, codes).model_


def measured(model, way, X, options):
    """Ratio of times, share of learners left out, labels that change, and the bytes that the file grows by."""
    labels, learners = model.predict_early(X, way)
    with tempfile.TemporaryDirectory(prefix="mcboost-early-") as folder:
        saved, stored = Path(folder, "model.mcb"), Path(folder, "rows.bin")
        model.save(saved)
        rows = np.ascontiguousarray(X[:2048], np.float32)
        write_rows(stored, rows)
        number = ("certified", "calibrated").index(way)
        words = [10 * options.repeat, number, saved, stored]
        times = run_c("score_early.c", folder, ["-O2", "-DMCB_SIMD"], words=words)
    plain = len(model.with_early_exit(None).to_bytes())
    return {
        "best": float(times["early"][0]) / float(times["full"][0]),
        "ns": float(times["early"][0]),
        "skipped_%": 100 * (1 - learners.mean() / model.n_learners),
        "changed": int((labels != model.predict(X)).sum()),
        "of_rows": len(X),
        "file_+%": 100 * (len(model.to_bytes()) / plain - 1),
    }


def together(parts):
    """The means of several draws, and the sums of what is counted."""
    summed = ("changed", "of_rows")
    result = {
        key: (np.sum if key in summed else np.mean)([part[key] for part in parts]).item()
        for key in parts[0]
    }
    return result | {"fewer": 1 / (1 - result["skipped_%"] / 100)}


def judge(report, parts_of_way):
    """Hold the figures against what they are to reach."""
    certified, calibrated = (
        list(parts_of_way[way].values()) for way in ("certified", "calibrated")
    )
    report.target(
        "certified: labels changed",
        sum(row["changed"] for row in certified),
        0,
        at_most=True,
        unit="",
    )
    report.target(
        "certified: slowest set", max(row["best"] for row in certified), SLOWER, at_most=True
    )
    faster = sum(row["best"] < 1 for row in certified)
    report.target("certified: sets that are faster", faster, min(FASTER, len(certified)), unit="")
    fewer = sum(row["fewer"] >= FEWER for row in calibrated)
    report.target(
        f"calibrated: sets with {FEWER} times fewer",
        fewer,
        min(MOST_SETS, len(calibrated)),
        unit="",
    )
    share = sum(row["changed"] for row in calibrated) / sum(row["of_rows"] for row in calibrated)
    report.target(
        "calibrated: % of labels changed, all sets", 100 * share, 100 * RATE, at_most=True, unit="%"
    )
