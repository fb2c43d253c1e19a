"""Scoring rows of data frames: categories by their names, and columns of floats, against arrays and other libraries."""

import numpy as np
from shared.measure import race

from bench.process import Field
from bench.report import Report, benchmark

# Rows to train on and to score, classes, levels of the columns of categories, and columns of numbers beside them.
ROWS = 20_000
CLASSES = 4
LEVELS = (3, 5, 8, 12, 20, 40, 80, 200)
NUMBERS = 8
# Microseconds a row of 8 categories, and the time of a frame of floats over that of an array: at most.
CATEGORIES_AT_MOST = 3.0
FRAME_AT_MOST = 1.2


def made(n_categories, n_numbers, rows, dtype=np.float64):
    """A frame of so many columns of categories, each level with an effect of its own, and of numbers; the classes."""
    import pandas as pd

    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(rows, n_numbers)).astype(dtype)
    score = 0.5 * rng.normal(size=rows) + numbers[:, :3].sum(axis=1)
    columns = {}
    for j, n in enumerate(LEVELS[:n_categories]):
        codes = rng.integers(n, size=rows)
        score += rng.normal(size=n)[codes]
        columns[f"category{j}"] = pd.Categorical.from_codes(
            codes, [f"level {j} {code}" for code in range(n)]
        )
    columns |= {f"number{j}": numbers[:, j].copy() for j in range(n_numbers)}
    return pd.DataFrame(columns), np.digitize(
        score, np.quantile(score, np.arange(1, CLASSES) / CLASSES)
    )


def ours(X, y):
    from pymcboost import VectorTreeBoostClassifier

    model = VectorTreeBoostClassifier(random_state=0, n_jobs=1).fit(X, y)
    return model.predict_proba, model


def lightgbm(X, y):
    import lightgbm as library

    return library.LGBMClassifier(n_jobs=1, verbose=-1).fit(X, y).predict_proba, None


def xgboost(X, y):
    import xgboost as library

    return library.XGBClassifier(n_jobs=1, enable_categorical=True).fit(X, y).predict_proba, None


def catboost(X, y):
    import catboost as library

    categories = [name for name in X.columns if name.startswith("category")]
    model = library.CatBoostClassifier(
        iterations=300, thread_count=1, verbose=0, allow_writing_files=False
    )
    model.fit(X, y, cat_features=categories)
    return (lambda rows: model.predict_proba(rows, thread_count=1)), None


COMPETITORS = {
    "ours": ours,
    "LightGBM": lightgbm,
    "XGBoost": xgboost,
    "CatBoost, 300 rounds": catboost,
}


@benchmark("frames")
def bench_frames(options):
    """Probabilities of 20,000 rows of pandas frames: columns of categories, and of floats against arrays."""
    rows = options.size(1000, ROWS)
    entrants = Field()
    report = Report(
        {
            "rows": f"{rows} to train on, the same to score; {CLASSES} classes",
            "categories": f"8 columns of {', '.join(map(str, LEVELS))} levels, named by text",
            "models": "the defaults of all libraries, but 300 rounds of CatBoost, as many as ours; one thread",
            "time": "predict_proba of the estimators, CPU time",
        }
    )
    cases = {
        "8 categories": made(8, 0, rows),
        f"8 categories, {NUMBERS} numbers": made(8, NUMBERS, rows),
        "16 numbers of float32": made(0, 16, rows, dtype=np.float32),
        "16 numbers of float64": made(0, 16, rows),
    }
    for case, (X, y) in cases.items():
        runs = {}
        for name, fit in COMPETITORS.items():
            if name != "ours" and "categories" not in case:
                continue
            try:
                predict, model = fit(X, y)
            except ImportError as error:
                entrants.absent[name] = str(error)
                continue
            runs[name] = lambda predict=predict, X=X: predict(X)
            if model is not None and "categories" not in case:
                values = X.to_numpy()
                bare = type(model)(random_state=0, n_jobs=1).fit(values, y)
                runs["ours, array"] = lambda bare=bare, values=values: bare.predict_proba(values)
            elif model is not None:
                codes = model.model_.features(X)
                runs["ours, array of codes"] = lambda model=model, codes=codes: (
                    model.model_.predict_proba(codes, 1)
                )
        timings = race(runs, options.repeat)
        report.rows += [
            timing.row(f"{case}: {name}", 1e6 / rows, "us/row") for name, timing in timings.items()
        ]
        ours_us = 1e6 / rows * timings["ours"].best_cpu
        if case == "8 categories":
            report.target(f"{case}: ours", ours_us, CATEGORIES_AT_MOST, at_most=True, unit="us/row")
        if "ours, array" in timings:
            ratio = timings["ours"].best_cpu / timings["ours, array"].best_cpu
            report.target(f"{case}: frame / array", ratio, FRAME_AT_MOST, at_most=True)
    entrants.tell(report)
    return report
