"""Where the time of a round of vector trees goes, with splits found on a few columns of many classes and on all."""

import time

from shared.internals import watch_vector_trees

from bench.report import Report, benchmark

# Rounds with all classes; with few columns there are `FEWER` times as many.
ROUNDS, FEWER = {"leaf": 100, "generated-355": 10, "generated-1000": 6}, 4
# Asked of the time of a training, all classes by few columns.
TIMES = {"leaf": 3, "generated-355": 5, "generated-1000": 10}


@benchmark("round-parts")
def bench_round_parts(options):
    """CPU milliseconds of a round of vector trees by part, splits on all classes and on the columns of "auto"."""
    from reproduce.columns import COLUMNS, PARAMS, parts_of

    from pymcboost import VectorTreeBoostClassifier

    report = Report({"trees": str(PARAMS), "runs": f"the best of {options.repeat}", "threads": 1})
    for data in options.data or options.size(["leaf"], ROUNDS):
        X, y, *_ = parts_of(data, 0)
        found = {}
        for name, columns in COLUMNS.items():
            rounds = options.rounds or options.size(2, ROUNDS[data] * (1 if columns is None else FEWER))
            params = PARAMS | {"n_estimators": rounds, "split_columns": columns, "random_state": 0}
            runs = []
            for _ in range(options.repeat):
                model = VectorTreeBoostClassifier(**params)
                watches, begin = watch_vector_trees(model), time.process_time()
                model.fit(X, y)
                whole = time.process_time() - begin
                runs.append((whole, {part: watch.seconds for part, watch in watches.items()}))
            whole, parts = min(runs, key=lambda run: run[0])
            parts["the rest"] = whole - sum(parts.values())
            found[name] = {part: 1e3 * value / rounds for part, value in {"all": whole, **parts}.items()}
            more = {part: value for part, value in found[name].items() if part != "all"}
            report.add(f"{data}, {len(set(y))} classes, columns: {name}", found[name]["all"], "ms", **more)
        report.target(f"{data}: all / auto", found["all"]["all"] / found["auto"]["all"], TIMES[data])
        report.add(f"{data}: search alone, all / auto", found["all"]["search"] / found["auto"]["search"])
    return report
