"""Trees of one class on wide rows of few samples, against vector trees."""

from functools import partial

from shared.measure import race

from bench.report import Report, benchmark

# Rows, features and classes; times that vector trees take, at most.
CASES = ((1458, 120, 10), (1907, 57, 32), (60, 8000, 3))
TIMES = 3.0


@benchmark("class-wise")
def bench_class_wise(options):
    """Fits of LogitBoost and Mart with their defaults on wide tables of few rows, against vector trees."""
    from sklearn.datasets import make_classification

    from pymcboost import LogitBoostClassifier, MartClassifier, VectorTreeBoostClassifier

    estimators = {
        "LogitBoost": LogitBoostClassifier,
        "Mart": MartClassifier,
        "vector trees": VectorTreeBoostClassifier,
    }
    report = Report(
        {
            "data": "make_classification in float32, up to 40 informative features",
            "models": "defaults, with temperatures; one thread",
            "time": "ratios are of CPU time",
        }
    )
    for rows, features, classes in CASES[2:] if options.quick else CASES:
        X, y = make_classification(
            rows,
            features,
            n_informative=min(features, 40),
            n_redundant=0,
            n_classes=classes,
            n_clusters_per_class=1,
            class_sep=1.5,
            random_state=0,
        )
        more = {"n_estimators": 20} if options.quick else {}
        X = X.astype("float32")
        how = {"random_state": 0, "n_jobs": 1, **more}
        runs = {name: partial(cls(**how).fit, X, y) for name, cls in estimators.items()}
        timings = race(runs, options.repeat)
        case = f"{rows} x {features}, {classes} classes"
        report.rows += [timing.row(f"{case}: {name}") for name, timing in timings.items()]
        for name in ("LogitBoost", "Mart"):
            ratio = timings[name].best_cpu / timings["vector trees"].best_cpu
            report.target(f"{case}: {name} / vector trees", ratio, TIMES, at_most=True)
    return report
