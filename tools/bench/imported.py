"""Models of LightGBM and XGBoost as ours: their own prediction against mcb.h, and whether labels are equal."""

from types import SimpleNamespace

import numpy as np
from shared import peers
from shared.datasets import coded
from shared.measure import race
from shared.peers import Spec

from bench.process import Field
from bench.report import Report, benchmark
from bench.trees import tree_data
from bench.trees_score import score_in_c

FASTER = 3
VECTOR = {"multi_strategy": "multi_output_tree"}


def at_home(method, booster):
    """Function that scores rows in one thread, the library's fastest in Python."""
    if method == "lightgbm":
        return lambda X: booster.predict(X, raw_score=True, num_threads=1)
    booster.set_param({"nthread": 1})
    return lambda X: booster.inplace_predict(X, predict_type="margin")


def compare(report, name, fitted, method, rows, options):
    """Times of both, and labels; returns the imported model."""
    from pymcboost.export import from_lightgbm, from_xgboost

    model = (from_lightgbm if method == "lightgbm" else from_xgboost)(fitted.model)
    score = at_home(method, fitted.model)
    theirs = np.asarray(score(rows), dtype=np.float64)
    error = model.meta["score_error"]
    best = np.sort(theirs, axis=1)
    ours = model.raw_scores(rows)
    apart = best[:, -1] - best[:, -2] > 2 * error
    wrong = int((ours.argmax(axis=1) != theirs.argmax(axis=1))[apart].sum())
    report.target(
        f"{name}: unequal labels of {int(apart.sum())} rows", wrong, 0, at_most=True, unit="rows"
    )
    report.add(
        f"{name}: rows whose two best classes are closer than {2 * error:.2g}",
        int((~apart).sum()),
        "rows",
    )
    report.add(
        f"{name}: largest difference of a score, of {error:.2g}",
        float(np.abs(ours - theirs).max()),
        "",
    )
    single = np.ascontiguousarray(rows[:100])
    batch = np.ascontiguousarray(np.tile(rows, (options.size(1, 4), 1)))
    ones = [single[i : i + 1] for i in range(len(single))]
    for what, count, runs in (
        (
            "one row",
            len(ones),
            (
                lambda: [score(x) for x in ones],
                lambda: [model.raw_scores(x, n_jobs=1) for x in ones],
            ),
        ),
        (
            f"{len(batch)} rows",
            len(batch),
            (lambda: score(batch), lambda: model.raw_scores(batch, n_jobs=1)),
        ),
    ):
        timings = race(dict(zip(("at home", "mcb.h"), runs, strict=True)), options.repeat)
        for who, timing in timings.items():
            report.rows.append(timing.row(f"{name}: {what}, {who}", 1e6 / count, "us/row"))
        ratio = timings["at home"].best_cpu / timings["mcb.h"].best_cpu
        report.target(f"{name}: {what}, at home / mcb.h", ratio, FASTER)
    return model


@benchmark("imported")
def bench_imported(options):
    """Score imported models of LightGBM and XGBoost, scalar and vector leaves: at home and with mcb.h, one thread."""
    rounds = options.rounds or options.size(5, 100)
    entrants = Field()
    report = Report(
        {
            "models": f"{rounds} rounds, {options.leaves} leaves a tree",
            "at home": "Booster.predict(raw_score=True) and Booster.inplace_predict(predict_type='margin') from Python",
            "mcb.h": "Model.raw_scores from Python, the imported model; ratios are of CPU seconds",
            "in C": "LGBM_BoosterPredictForMatSingleRowFast against mcb_scores, in turn",
        }
    )
    shared = {"rounds": rounds, "leaves": options.leaves, "learning_rate": options.learning_rate}
    specs = {
        "LightGBM": Spec("lightgbm", **shared),
        "XGBoost": Spec("xgboost", **shared),
        "XGBoost, vector leaves": Spec("xgboost", **shared, more=VECTOR),
    }
    for data in options.data or options.size(("optdigits",), ("optdigits", "letter")):
        X, codes, rows, _ = coded(tree_data(data, options))
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        for name, spec in entrants.keep(specs).items():
            fitted = peers.fit(spec, X, codes, n_classes=int(codes.max()) + 1)
            model = compare(
                report, f"{data}: {name}", fitted, method=spec.method, rows=rows, options=options
            )
            if spec.method == "lightgbm":
                both = {
                    "ours": SimpleNamespace(model=model, trees=fitted.trees),
                    "LightGBM": fitted,
                }
                score_in_c(
                    report, both, rows, options=options, data=f"{data}: ", bound=FASTER, files=False
                )
    entrants.tell(report)
    return report
