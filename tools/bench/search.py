"""A grid search over the parameters of vector trees: rows as arrays, and as a Dataset."""

from functools import partial

import numpy as np
from shared.datasets import coded
from shared.measure import race

from bench.report import Report, benchmark
from bench.trees import tree_data

GRID = {"learning_rate": [0.05, 0.1, 0.2, 0.3], "max_leaf_nodes": [4, 8, 16, 31, 63]}
FOLDS = 5
FASTER = 1.3


@benchmark("search")
def bench_search(options):
    """GridSearchCV with 20 candidates and 5 folds on letter: CPU time with arrays and with a Dataset."""
    from sklearn.model_selection import GridSearchCV

    from pymcboost import Dataset, VectorTreeBoostClassifier

    grid = options.size({"learning_rate": [0.1]}, GRID)
    X, y, *_ = coded(tree_data("letter", options))
    candidates = int(np.prod([len(values) for values in grid.values()]))
    words = {
        "candidates": candidates,
        "folds": FOLDS,
        "rows": len(X),
        "calibrate": None,
        "n_jobs": 1,
    }
    report = Report(words)
    for rounds in [options.rounds] if options.rounds else options.size([2], [10, 50]):
        params = {"n_estimators": rounds, "calibrate": None, "random_state": 0, "n_jobs": 1}
        search = GridSearchCV(VectorTreeBoostClassifier(**params), grid, cv=FOLDS, refit=False)

        def with_dataset(search=search):
            return search.fit(Dataset(X, y), y)

        timed = race(
            {"arrays": partial(search.fit, X, y), "a Dataset": with_dataset}, options.repeat
        )
        for how, timing in timed.items():
            report.rows.append(timing.row(f"{rounds} rounds, {how}"))
        ratio = timed["arrays"].best_cpu / timed["a Dataset"].best_cpu
        report.target(f"{rounds} rounds, CPU time, arrays / Dataset", ratio, FASTER)
    return report
