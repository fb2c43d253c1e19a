"""Fits of few rows with the defaults of all libraries: where calls and checks take as long as trees."""

import math

from shared.measure import race

from bench.process import Field
from bench.report import Report, benchmark

ROWS = (300, 1000, 3000)
COLUMNS = (10, 30, 100)
CLASSES = (2, 5)
# Times those of another library: the geometric mean of all cases, and each of them.
MEAN = 1.0
EACH = 1.3


def made(rows, columns, classes):
    """Rows and classes of scikit-learn's generator; half of the columns, and 6 at least, tell of the classes."""
    from sklearn.datasets import make_classification

    return make_classification(
        rows,
        columns,
        n_informative=max(6, columns // 2),
        n_redundant=0,
        n_classes=classes,
        n_clusters_per_class=1,
        random_state=0,
    )


def ours():
    from pymcboost import VectorTreeBoostClassifier

    return VectorTreeBoostClassifier(random_state=0, n_jobs=1)


def lightgbm():
    import lightgbm as library

    return library.LGBMClassifier(n_jobs=1, verbose=-1)


def xgboost():
    import xgboost as library

    return library.XGBClassifier(n_jobs=1)


COMPETITORS = {"ours": ours, "LightGBM": lightgbm, "XGBoost": xgboost}


@benchmark("small-fits")
def bench_small_fits(options):
    """Fits of 300 to 3,000 rows of 10 to 100 columns with the defaults of all libraries."""
    entrants = Field()
    makers = {}
    for name, make in COMPETITORS.items():
        try:
            make()
            makers[name] = make
        except ImportError as error:
            entrants.absent[name] = str(error)
    report = Report(
        {
            "data": "make_classification, half of the columns informative",
            "models": "defaults, one thread: ours 300 rounds and a temperature, of the others 100 rounds",
            "time": "ratios are of CPU time",
        }
    )
    ratios = {name: [] for name in makers if name != "ours"}
    for rows in options.size(ROWS[:1], ROWS):
        for columns in options.size(COLUMNS[:1], COLUMNS):
            for classes in CLASSES:
                X, y = made(rows, columns, classes)
                runs = {
                    name: (lambda make=make, X=X, y=y: make().fit(X, y))
                    for name, make in makers.items()
                }
                timings = race(runs, options.repeat)
                case = f"{rows} x {columns}, {classes} classes"
                for name in ratios:
                    ratios[name].append(timings["ours"].best_cpu / timings[name].best_cpu)
                    timings[name].value = None
                for name, timing in timings.items():
                    more = {} if name == "ours" else {"ours_times": round(ratios[name][-1], 2)}
                    report.rows.append(timing.row(f"{case}: {name}", **more))
    for name, all_ratios in ratios.items():
        mean = math.exp(sum(map(math.log, all_ratios)) / len(all_ratios))
        report.target(f"ours / {name}, geometric mean", mean, MEAN, at_most=True)
        report.target(f"ours / {name}, largest", max(all_ratios), EACH, at_most=True)
    entrants.tell(report)
    return report
