"""Categorical features: sets of categories against codes, indicators and means of the classes, and other libraries."""

import tempfile
import time
from pathlib import Path

import numpy as np
from shared.datasets import load_for_trees
from shared.measure import log_loss
from shared.peers import CLASS_TREES

from bench.process import Field
from bench.report import Report, benchmark

# Rows to train on and to test, classes, size of the categories' effects.
ROWS = 10_000
TEST_ROWS = 20_000
CLASSES = 5
EFFECT = 2.0
# Of each set the columns that are categories.
SETS = {"car": range(6), "krkopt": range(6), "poker": range(0, 10, 2), "dna": range(180)}


def made(levels, seed, rows=ROWS):
    """Two columns of categories, every one with a random effect on the log odds of each class: train and test parts."""
    rng = np.random.default_rng(seed)
    effects = rng.normal(size=(2, levels, CLASSES)) * EFFECT
    codes = rng.integers(levels, size=(rows + TEST_ROWS, 2))
    scores = effects[0, codes[:, 0]] + effects[1, codes[:, 1]]
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return codes[:rows].astype(float), y[:rows], codes[rows:].astype(float), y[rows:]


def real(name):
    """Codes from 0 on in columns of categories, and classes from 0 on."""
    X, y, X_test, y_test = load_for_trees(name)
    columns = list(SETS[name])
    X = X.astype(float)
    X_test = X_test.astype(float)
    classes = np.unique(y)
    least = X[:, columns].min(axis=0)
    X[:, columns] -= least
    X_test[:, columns] -= least
    return X, np.searchsorted(classes, y), X_test, np.searchsorted(classes, y_test)


def ours(prepare=None, native=False):
    """A competitor: vector trees after a scikit-learn transformer of the columns of categories, or as they are.

    All competitors give the probabilities of the test rows, and the bytes of their models.
    """

    def run(X, y, X_test, columns, rounds, seed):
        import sklearn.compose
        import sklearn.pipeline

        from pymcboost import VectorTreeBoostClassifier

        model = VectorTreeBoostClassifier(
            n_estimators=rounds,
            subsample=0.5,
            calibrate=None,
            random_state=seed,
            n_jobs=1,
            categorical_features=list(columns) if native else None,
        )
        if prepare is not None:
            parts = [("categories", prepare(), list(columns))]
            chosen = sklearn.compose.ColumnTransformer(parts, remainder="passthrough")
            model = sklearn.pipeline.make_pipeline(chosen, model)
        model.fit(X, y)
        trees = model if prepare is None else model[-1]
        return model.predict_proba(X_test), len(trees.model_.to_bytes())

    return run


def class_wise(native):
    """Class-wise trees on the columns as they are."""

    def run(X, y, X_test, columns, rounds, seed):
        from pymcboost import LogitBoostClassifier

        chosen = list(columns) if native else None
        model = LogitBoostClassifier(
            n_estimators=rounds,
            random_state=seed,
            n_jobs=1,
            categorical_features=chosen,
            **CLASS_TREES,
        )
        return model.fit(X, y).predict_proba(X_test), len(model.model_.to_bytes())

    return run


def one_hot():
    from sklearn.preprocessing import OneHotEncoder

    return OneHotEncoder(handle_unknown="ignore")


def means():
    from sklearn.preprocessing import TargetEncoder

    return TargetEncoder(random_state=0)


def lightgbm(X, y, X_test, columns, rounds, seed):
    import lightgbm as library

    model = library.LGBMClassifier(n_estimators=rounds, n_jobs=1, verbose=-1, random_state=seed)
    model.fit(X, y, categorical_feature=list(columns))
    return model.predict_proba(X_test), len(model.booster_.model_to_string())


def catboost(X, y, X_test, columns, rounds, seed):
    import catboost as library

    def rows(X):
        table = X.astype(object)
        table[:, list(columns)] = X[:, list(columns)].astype(int)
        return table

    with (
        tempfile.TemporaryDirectory() as folder
    ):  # it leaves an empty folder even where it may not write files
        model = library.CatBoostClassifier(
            iterations=rounds,
            learning_rate=0.1,
            thread_count=1,
            verbose=0,
            random_seed=seed,
            cat_features=list(columns),
            allow_writing_files=False,
            train_dir=folder,
        )
        model.fit(rows(X), y)
        model.save_model(Path(folder, "model"))
        return model.predict_proba(rows(X_test)), Path(folder, "model").stat().st_size


COMPETITORS = {
    "ours, sets of categories": ours(native=True),
    "ours, codes": ours(),
    "ours, OneHotEncoder": ours(one_hot),
    "ours, TargetEncoder": ours(means),
    "ours, class-wise trees, sets": class_wise(native=True),
    "ours, class-wise trees, codes": class_wise(native=False),
    "LightGBM, categorical_feature": lightgbm,
    "CatBoost, cat_features": catboost,
}


def quality(p, y):
    """Error in percent and log loss."""
    return 100 * float((p.argmax(axis=1) != y).mean()), log_loss(p, y)


@benchmark("categories")
def bench_categories(options):
    """Error, log loss, time and bytes: sets of categories, codes, indicators, means; LightGBM and CatBoost."""
    rounds = options.rounds or options.size(5, 100)
    seeds = options.size(1, 5)
    report = Report(
        {
            "made": f"2 columns of 20 or 300 categories, {ROWS:,} rows, {CLASSES} classes, mean of {seeds} seeds",
            "rounds": rounds,
            "learning rate": 0.1,
            "other parameters": "as by default; ours without calibration",
        }
    )
    cases = {
        f"{levels} levels": [(made(levels, seed), range(2)) for seed in range(seeds)]
        for levels in (20, 300)
    }
    names = options.data or options.size((), ("car", "krkopt", "poker", "dna"))
    cases |= {name: [(real(name), SETS[name])] for name in names}
    entrants = Field()
    errors = {}
    for case, parts in cases.items():
        for name, run in COMPETITORS.items():
            trials = []
            for seed, ((X, y, X_test, y_test), columns) in enumerate(parts):
                start = time.process_time()
                try:
                    p, size = run(X, y, X_test, columns, rounds, seed)
                except ImportError as error:
                    entrants.absent[name] = str(error)
                    break
                trials.append([*quality(p, y_test), time.process_time() - start, size])
            if not trials:
                continue
            error, loss, seconds, size = np.mean(trials, axis=0)
            errors[case, name] = error
            more = {
                "log_loss": round(float(loss), 4),
                "cpu_s": round(float(seconds), 2),
                "kB": round(size / 1000),
            }
            report.add(f"{case}: {name}", error, "% error", **more)
    first = "ours, sets of categories"
    second = "ours, class-wise trees, sets"
    for (case, name), error in errors.items():
        if name not in (first, second) and case.endswith("levels"):
            report.target(
                f"{case}: error of sets / {name}", errors[case, first] / error, 1, at_most=True
            )
        if not name.startswith("ours") and case.endswith("levels"):
            report.target(
                f"{case}: error of class-wise sets / {name}",
                errors[case, second] / error,
                1,
                at_most=True,
            )
    entrants.tell(report)
    return report
