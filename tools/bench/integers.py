"""Scores in integers: rows of test parts whose class is another one than with floating point."""

from shared.datasets import coded

from bench import early
from bench.report import Report, benchmark
from bench.trees import tree_data

SETS = ("pendigits", "optdigits", "letter", "satimage", "usps", "vowel", "svmguide4", "dna", "shuttle", "mnist")
TREES = {**early.TREES, "max_leaf_nodes": 8}


@benchmark("integers")
def bench_integers(options):
    """Scores in integers of 8, 16 and 32 bits: rows whose class is another one than with floating point."""
    from pymcboost.export.integers import TYPES

    rounds = options.rounds or options.size(10, 100)
    report = Report(
        {
            "model": f"{rounds} vector trees, " + ", ".join(f"{name}={value}" for name, value in TREES.items()),
            "rows": "all rows of the test part, with --quick at most 3,000; letter has none of its own: its first "
            "15,000 rows train",
            "classes": "those of pymcboost.export.integer_labels, and of the model",
        }
    )
    total = dict.fromkeys(TYPES, 0)
    n_rows = 0
    for name in options.data or options.size(SETS[-5:-3], SETS):
        X, codes, X_test, codes_test = coded(tree_data(name, options))
        model = early.trained(X, codes, rounds, **TREES)
        n_rows += len(X_test)
        for kind, other in changed(model, X_test, codes_test).items():
            total[kind] += other["best"]
            report.rows.append({"what": f"{name}: {kind}, rows of another class", "unit": "rows", **other})
    for kind, n in total.items():
        share = {"share_%": 100 * n / n_rows}
        report.add(f"all sets: {kind}, rows of another class", n, "rows", of_rows=n_rows, **share)
    return report


def changed(model, X, codes):
    """For each type of integers how many rows have another class, and the rows that are wrong in both ways."""
    from pymcboost.export import integer_labels
    from pymcboost.export.integers import TYPES

    exact, found = model.predict_codes(X), {}
    for kind in TYPES:
        labels = integer_labels(model, kind, X)
        n = int((labels != exact).sum())
        found[kind] = {
            "best": n, "of_rows": len(X), "share_%": 100 * n / len(X), "wrong": int((labels != codes).sum()),
            "wrong_in_floats": int((exact != codes).sum()),
        }  # fmt: skip
    return found
