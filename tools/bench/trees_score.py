"""Scoring and storing trees: a batch, single rows in C, bytes of the file; against LightGBM."""

import tempfile
from pathlib import Path

import numpy as np
from shared import peers
from shared.datasets import coded, load_for_trees
from shared.measure import error_percent, race, write_rows
from shared.peers import LIGHTGBM_BARE, Spec

from bench.limits import BUILDS, c_row, run_c
from bench.process import Field
from bench.report import Report, benchmark
from bench.trees import tree_data

# At least this for single rows of LightGBM with half as many rounds over those of the vector-leaf trees.
VECTOR_ROW = 5


@benchmark("trees-score")
def bench_score(options):
    """Score and store 1,000 trees of 20 leaves, K=10, d=64: batch, single rows in C, bytes of the file; LightGBM."""
    rounds = options.rounds or options.size(5, 100)
    X, codes, X_test, _ = coded(load_for_trees("optdigits"))
    shared = {"rounds": rounds, "leaves": options.leaves, "learning_rate": options.learning_rate}
    entrants = Field()
    specs = {
        "ours": Spec("logitboost", **shared),
        "LightGBM": Spec("lightgbm", **shared, more=LIGHTGBM_BARE),
    }
    models = {
        name: peers.fit(spec, X, codes, n_classes=10) for name, spec in entrants.keep(specs).items()
    }
    batch = np.ascontiguousarray(np.tile(X_test, (options.size(2, 12), 1)))
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
    runs = {
        "ours": lambda: models["ours"].model.model_.raw_scores(batch, n_jobs=1),
        "LightGBM": lambda: models["LightGBM"].model.predict(batch, raw_score=True, num_threads=1),
    }
    timings = race({name: runs[name] for name in models}, options.repeat)
    report.rows += [
        timing.row(f"batch: {name}", 1e6 / len(batch), "us/row") for name, timing in timings.items()
    ]
    if len(timings) == 2:
        report.add("batch: LightGBM's time / ours", timings["LightGBM"].best / timings["ours"].best)
    if "ours" in models:
        score_in_c(report, models, X_test, options=options)
    return report


def score_in_c(report, models, rows, options, data="", bound=None, files=True):
    """Single rows in C, and the sizes of the files they need; with a bound, what it is asked of is a target."""
    with tempfile.TemporaryDirectory(prefix="mcboost-trees-") as folder:
        ours, stored = Path(folder, "ours.mcb"), Path(folder, "rows.bin")
        models["ours"].model.save(ours)
        write_rows(stored, rows)
        words = [ours, stored]
        sizes = {"ours": ours.stat().st_size}
        if "LightGBM" in models:
            import lightgbm.basic

            text = Path(folder, "lightgbm.txt")
            models["LightGBM"].model.save_model(text)
            sizes["LightGBM"] = text.stat().st_size
            words += [lightgbm.basic._LIB._name, text]
        for name, size in sizes.items() if files else ():
            report.add(f"{data}file: {name}, {models[name].trees} trees", size, "bytes")
        per_tree = {
            name: size / models[name].trees for name, size in sizes.items() if models[name].trees
        }
        if files and len(per_tree) == 2:
            report.add(
                f"{data}file: LightGBM's bytes a tree / ours",
                per_tree["LightGBM"] / per_tree["ours"],
            )
        runs = 10 * options.repeat
        for build, flags in BUILDS.items():
            lines = run_c(
                "score_trees.c", folder, flags, words=[runs, *words], libraries=("-lm", "-ldl")
            )
            what = f"{data}one row in C, {build}"
            found = {name: c_row(f"{what}: {name}", words_, runs) for name, words_ in lines.items()}
            report.rows += found.values()
            if len(found) == 2:
                what = f"{what}: LightGBM's time / ours"
                times = found["LightGBM"]["best"] / found["ours"]["best"]
                if bound is None:
                    report.add(what, times)
                else:
                    report.target(what, times, bound)


@benchmark("trees-vector-rows")
def bench_vector_rows(options):
    """Single rows in C through 200 vector-leaf trees, against LightGBM with 100 rounds, whose errors are no lower."""
    rounds = options.rounds or options.size(10, 200)
    report = Report(
        {
            "rounds": f"{rounds} vector-leaf trees with their defaults, LightGBM {rounds // 2} rounds of 20 leaves"
        }
    )
    entrants = Field()
    for name in options.data or options.size(("optdigits",), ("pendigits", "optdigits", "letter")):
        X, codes, X_test, truth = coded(tree_data(name, options))
        specs = entrants.keep(
            {"ours": peers.vector_spec(rounds), "LightGBM": Spec("lightgbm", rounds // 2)}
        )
        models = {
            who: peers.fit(spec, X, codes, n_classes=int(codes.max()) + 1)
            for who, spec in specs.items()
        }
        for who, model in models.items():
            error = error_percent(truth, model.predict(X_test))
            report.add(f"{name}: {who}, {model.trees} trees: test error", error, "%")
        if "ours" not in models:
            continue
        score_in_c(report, models, X_test, options=options, data=f"{name}: ", bound=VECTOR_ROW)
    entrants.tell(report)
    return report
