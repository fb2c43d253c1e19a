"""Where the time of a round of vector trees goes, with splits found on a few columns of many classes and on all."""

import time
from collections import Counter
from contextlib import contextmanager

from bench.report import Report, benchmark

# Rounds with all classes; with few columns there are `FEWER` times as many.
ROUNDS, FEWER = {"leaf": 100, "generated-355": 10, "generated-1000": 6}, 4
# Asked of the time of a training, all classes by few columns.
TIMES = {"leaf": 3, "generated-355": 5, "generated-1000": 10}
SEARCH, PROJECT, LEAVES, SCORES = "search", "gradients and their projection", "leaf vectors", "scores"


@contextmanager
def measured():
    """CPU seconds of the parts of trainings in this block."""
    from pymcboost.learners import vector_trees
    from pymcboost.losses import narrow, rows

    spent, grower, before = Counter(), vector_trees._vtrees.Grower, []

    def timed(run, part):
        def timing(*args, **kwargs):
            begin = time.process_time()
            found = run(*args, **kwargs)
            spent[part] += time.process_time() - begin
            return found

        return timing

    class Grower:
        def __init__(self, *args, **kwargs):
            own = grower(*args, **kwargs)
            self.grow = timed(own.grow, SEARCH)

    places = [(vector_trees.VectorTrees, "leaf_vectors", LEAVES)]
    places += [(cls, "add", SCORES) for cls in (rows.Rows, narrow.NarrowRows)]
    places += [(cls, "integers", PROJECT) for cls in (rows.Rows, rows.Directions, narrow.NarrowDirections)]
    for owner, name, part in places:
        before.append((owner, name, vars(owner)[name]))
        setattr(owner, name, timed(vars(owner)[name], part))
    vector_trees._vtrees.Grower = Grower
    try:
        yield spent
    finally:
        vector_trees._vtrees.Grower = grower
        for owner, name, run in before:
            setattr(owner, name, run)


@benchmark("round-parts")
def bench_round_parts(options):
    """CPU milliseconds of a round of vector trees by part, splits on all classes and on the columns of "auto"."""
    from reproduce.columns import COLUMNS, PARAMS, parts_of

    from pymcboost import VectorTreeBoostClassifier

    report = Report({"trees": str(PARAMS), "runs": f"the best of {options.repeat}", "threads": 1})
    for data in options.data or ROUNDS:
        X, y, *_ = parts_of(data, 0)
        found = {}
        for name, columns in COLUMNS.items():
            rounds = options.rounds or ROUNDS[data] * (1 if columns is None else FEWER)
            params = PARAMS | {"n_estimators": rounds, "split_columns": columns, "random_state": 0}
            runs = []
            for _ in range(options.repeat):
                with measured() as spent:
                    begin = time.process_time()
                    VectorTreeBoostClassifier(**params).fit(X, y)
                    runs.append((time.process_time() - begin, dict(spent)))
            whole, parts = min(runs, key=lambda run: run[0])
            parts["the rest"] = whole - sum(parts.values())
            found[name] = {part: 1e3 * value / rounds for part, value in {"all": whole, **parts}.items()}
            more = {part: value for part, value in found[name].items() if part != "all"}
            report.add(f"{data}, {len(set(y))} classes, columns: {name}", found[name]["all"], "ms", **more)
        report.target(f"{data}: all / auto", found["all"]["all"] / found["auto"]["all"], TIMES[data])
        report.add(f"{data}: search alone, all / auto", found["all"][SEARCH] / found["auto"][SEARCH])
    return report
