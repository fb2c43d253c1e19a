"""Contributions of features: Shapley values of all classes, against the libraries that compute them too."""

import ctypes

import numpy as np
from shared import peers
from shared.measure import race
from shared.peers import LIGHTGBM_BARE, Spec

from bench.process import Field
from bench.report import Report, benchmark

# At least this over XGBoost's vector leaves, and over LightGBM's trees of classes; at most this from 2 classes to 100.
XGBOOST, LIGHTGBM, CLASSES = 10, 5, 5
BACKGROUND = 100
ROWS, MORE_ROWS = 2000, 4000
# Of glibc's mallopt, and the largest block that is not mapped by itself.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, KEPT = -1, -3, 32 << 20


def clouds(n_classes, rows, d=20, seed=0):
    """Rows of normal clouds, one for each class, and their classes."""
    rng = np.random.default_rng(seed)
    centre, codes = rng.normal(size=(n_classes, d)), np.arange(rows) % n_classes
    return (centre[codes] + 1.2 * rng.normal(size=(rows, d))).astype(np.float32), codes


def keep_memory():
    """Let malloc keep what is freed, for every library of this process; returns in words whether it does.

    Else it depends on what was freed before whether an array of 32 MB is cleared by the system at each call.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return "as the system's malloc has it"
    kept = mallopt(M_MMAP_THRESHOLD, KEPT) and mallopt(M_TRIM_THRESHOLD, 1 << 30)
    return f"malloc keeps freed blocks of up to {KEPT >> 20} MiB" if kept else "as the system's malloc has it"


def explained(specs, models, X, rows):
    """What to time, by name; ours with covers of the training rows, and with background rows."""
    from pymcboost.inspection import contributions

    runs = {}
    for name, fitted in models.items():
        if specs[name].method in peers.OURS:
            model = fitted.model.model_
            held, background = model.with_covers(X), X[:BACKGROUND]
            runs[name] = lambda held=held: contributions(held, rows, n_jobs=1)
            runs[f"{name}, {BACKGROUND} background rows"] = lambda model=model, background=background: contributions(
                model, rows, background, n_jobs=1
            )
        elif specs[name].method == "xgboost":
            matrix = fitted.matrix(rows)
            runs[name] = lambda fitted=fitted, matrix=matrix: fitted.model.predict(matrix, pred_contribs=True)
        else:
            runs[name] = lambda fitted=fitted: fitted.model.predict(rows, pred_contrib=True, num_threads=1)
    return runs


@benchmark("inspect")
def bench_inspect(options):
    """Shapley values through 20 rounds of trees of 20 leaves, 2 to 100 classes; XGBoost's vector leaves, LightGBM."""
    rounds, m, more = options.rounds or options.size(3, 20), options.size(40, ROWS), options.size(80, MORE_ROWS)
    report = Report(
        {
            "data": "4,000 rows of normal clouds, 20 features",
            "trees": f"{rounds} rounds, {options.leaves} leaves",
            "rows": f"{m:,} unless {more:,} are named",
            "threads": 1,
            "memory": keep_memory(),
            "vector": "one tree a round with a value for each class in its leaves; XGBoost: multi_output_tree",
            "class": "a tree for each class and round",
            "values": "path-dependent, with the covers of the training rows, unless background rows are named",
        }
    )
    from pymcboost.inspection import contributions

    entrants, best = Field(), {}
    shared = {"rounds": rounds, "leaves": options.leaves, "learning_rate": options.learning_rate}
    specs = {
        "vector: ours": Spec("vector", **shared, more={"calibrate": None}),
        "vector: XGBoost": Spec("xgboost", **shared, more={"multi_strategy": "multi_output_tree"}),
        "class: ours": Spec("mart", **shared),
        "class: LightGBM": Spec("lightgbm", **shared, more=LIGHTGBM_BARE),
    }
    specs = entrants.keep(specs)
    for n_classes in options.size((2, 5), (2, 10, 100)):
        X, codes = clouds(n_classes, 4000)
        models = {name: peers.fit(spec, X, codes, n_classes) for name, spec in specs.items()}
        found = race(explained(specs, models, X, np.ascontiguousarray(X[:m])), options.repeat)
        report.rows += [found[name].row(f"K={n_classes}, {name}", 1e6 / m, "us/row") for name in found]
        if "vector: ours" in models:
            held = models["vector: ours"].model.model_.with_covers(X)
            run = {"all": lambda held=held, X=X: contributions(held, X[:more], n_jobs=1)}
            timing = race(run, options.repeat)["all"]
            report.rows.append(timing.row(f"K={n_classes}, vector: ours, {more:,} rows", 1e6 / more, "us/row"))
        best[n_classes] = {name: timing.best for name, timing in found.items()}
        for form, peer, bound in (("vector", "XGBoost", XGBOOST), ("class", "LightGBM", LIGHTGBM)):
            ours, theirs = f"{form}: ours", f"{form}: {peer}"
            if theirs in best[n_classes]:
                ratio = best[n_classes][theirs] / best[n_classes][ours]
                report.target(f"K={n_classes}: {peer}'s time / ours, {form} trees", ratio, bound)
    least, most = min(best), max(best)
    ratio = best[most]["vector: ours"] / best[least]["vector: ours"]
    report.target(f"vector trees, ours: time of K={most} / K={least}", ratio, CLASSES, at_most=True)
    entrants.tell(report)
    return report
