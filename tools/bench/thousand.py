"""A thousand classes: one row through 200 vector trees in C, and files at equal log loss against other libraries."""

import tempfile
from pathlib import Path

import numpy as np
from shared.measure import error_percent, log_loss, write_rows

from bench import pareto_models
from bench.growth import TRAINING, generate
from bench.limits import BUILDS, c_row, run_c
from bench.report import Report, benchmark

CLASSES, ROWS, TEST_ROWS, ROUNDS = 1000, 30_000, 2048, 200
# Rounds after which other libraries' models are looked at; one of theirs has a tree for each class.
PEER_ROUNDS, LEAVES = (1, 2, 5, 10, 20), 31
# Asked: microseconds of a row; their bytes by ours.
ROW_US, LIGHTGBM_TIMES, XGBOOST_TIMES = 30, 20, 5
VARIANTS = {
    "all entries": ({}, "float32"),
    "100 entries": ({"max_leaf_entries": 100}, "float32"),
    # Chosen on rows of another seed, for small files.
    "32 entries, rate 0.5, 250 leaves, float16": (
        {"max_leaf_entries": 32, "learning_rate": 0.5, "max_leaf_nodes": 250}, "float16",
    ),
}  # fmt: skip


PEERS = {
    "LightGBM": (pareto_models.LightGBM, {"lambda_l2": 1.0}, LIGHTGBM_TIMES),
    "XGBoost": (pareto_models.XGBoost, {"eta": 0.1}, XGBOOST_TIMES),
}


def peer_files(report, parts, rounds, threads):
    """Log loss and bytes of each library's model of the least log loss."""
    X, y, X_test, truth = parts
    found = {}
    for name, (make, more, _) in PEERS.items():
        try:
            model = make(X, y, max(rounds), "scalar", LEAVES, threads=threads, **more)
        except ImportError as missing:
            report.notes.append(f"{missing.name} is absent")
            continue
        looked = []
        with tempfile.TemporaryDirectory(prefix="mcboost-thousand-") as folder:
            for n in rounds:
                _, P, size, _ = model.evaluate(n, X_test, folder)
                looked.append((log_loss(P, truth), n, size))
        found[name] = loss, n, size = min(looked)
        report.add(f"{name}, {n} rounds: file", size, "bytes", log_loss=loss)
    return found


def row_times(report, name, model, rows, runs):
    """One row after the other in C, in both builds."""
    with tempfile.TemporaryDirectory(prefix="mcboost-thousand-") as folder:
        model.save(Path(folder, "ours.mcb"))
        write_rows(Path(folder, "rows.bin"), rows)
        words = [runs, Path(folder, "ours.mcb"), Path(folder, "rows.bin")]
        found = []
        for build, flags in BUILDS.items():
            lines = run_c("score_trees.c", folder, flags, words, ("-lm", "-ldl"))
            found.append(c_row(f"{name}: one row in C, {build}", lines["ours"], runs))
        report.rows += found
    return min(row["best"] for row in found)


@benchmark("thousand")
def bench_thousand(options):
    """1,000 classes: one row through 200 vector trees in C; files at the log loss of LightGBM and XGBoost."""
    from pymcboost import Model, VectorTreeBoostClassifier

    K, m, n_test = options.size((100, 2000, 256), (CLASSES, ROWS, TEST_ROWS))
    rounds, threads = options.rounds or options.size(5, ROUNDS), max(options.threads)
    X, y = generate(K, m + n_test)
    parts = X[:m], y[:m], X[m:], y[m:]
    report = Report({
        "data": f"normal clouds of the benchmark growth, {K} classes, {m} and {n_test} rows, {X.shape[1]} features",
        "trees": f"{rounds} rounds, subsample=0.5, calibrate=None, other parameters at their defaults",
        "threads of trainings": threads,
        "others": "LightGBM lambda_l2=1, XGBoost max_leaves=31 eta=0.1, defaults otherwise: the best of "
        f"{', '.join(map(str, PEER_ROUNDS))} rounds",
        "equal log loss": "our model after the first round whose log loss on the test rows is at most theirs",
    })  # fmt: skip
    theirs = peer_files(report, parts, PEER_ROUNDS[: options.size(2, None)], threads)
    for name, (params, leaves) in VARIANTS.items():
        fit = VectorTreeBoostClassifier(n_estimators=rounds, random_state=0, n_jobs=threads, **TRAINING, **params)
        model = Model.from_bytes(fit.fit(*parts[:2]).model_.with_meta({}).to_bytes(leaves=leaves))
        losses = [log_loss(P, parts[3]) for P in model.staged_predict_proba(parts[2])]
        error = error_percent(parts[3], model.predict(parts[2]))
        report.add(f"{name}: file", len(model.to_bytes()), "bytes", log_loss=losses[-1], error=error)
        best = row_times(report, name, model, np.ascontiguousarray(parts[2], np.float32), 5 * options.repeat)
        report.target(f"{name}: one row", best, ROW_US, at_most=True, unit="us")
        for peer, (loss, _, size) in theirs.items():
            enough = next((n for n, found in enumerate(losses, 1) if found <= loss), None)
            if enough is None:
                report.notes.append(f"{name}: the log loss of {peer} is not reached")
                continue
            ours = len(model.truncate(enough).to_bytes())
            report.add(f"{name}: file after {enough} rounds, at the log loss of {peer}", ours, "bytes")
            report.target(f"{name}: bytes of {peer} / ours", size / ours, PEERS[peer][-1])
    return report
