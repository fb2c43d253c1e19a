"""Zeros in the columns of HingeBoost.OC, and hyperplanes that its certified early exits leave out."""

import tempfile
import time
from pathlib import Path

import numpy as np
from shared.datasets import coded, fold_of, load_for_trees

from bench.hinge import hingeboost
from bench.limits import run_c
from bench.report import Report, benchmark

SETS = ("letter", "leaf", "sector")
# Rows of the training part, and of the test part that is timed.
ROWS, TIMED = 2000, 512
# Values of C, of which one fold of the training part chooses; and the folds.
COSTS, FOLDS = (10.0, 100.0), 3
# Rounds, in parts of the number of classes; up to this part with two kinds of first columns.
PARTS, FEW = (0.25, 0.5, 1.0, 2.0), 0.25
# At most this share of the hyperplanes is to be evaluated where rounds are at most this share of the classes.
LESS = 0.5


@benchmark("hinge-zeros")
def bench_zeros(options):
    """HingeBoost.OC with and without zeros: errors, hyperplanes evaluated by certified exits, and time of a row."""
    report = Report(
        {
            "training": f"at most {ROWS} random rows of the training part, features scaled, linear kernel, one thread; "
            f"C of {', '.join(f'{c:g}' for c in COSTS)} by the first of {FOLDS} folds of the training part, with as "
            "many rounds as classes; the test part is read once",
            "zeros": "share of the entries of all columns",
            "differ": "share of the rounds whose columns tell the two best classes of a test row apart",
            "time": f"one row after the other in C, processor time, {TIMED} rows of the test part; sparse sets by the "
            "functions of sparse rows",
            "evaluated": "share of the hyperplanes, one for each class; prepare is what mcb_prepare_early takes",
        }
    )
    for name in options.data or options.size(SETS[:1], SETS):
        X, y, X_test, y_test = coded(load_for_trees(name))
        rows = np.sort(np.random.default_rng(0).permutation(X.shape[0])[: options.size(300, ROWS)])
        X, y = X[rows], y[rows]
        classes = len(np.unique(y))
        for zero in (False, True):
            cost = chosen_cost(X, y, classes, zero, options)
            for part in options.size(PARTS[:1], PARTS):
                for init in ("one-vs-all", "max-cut")[: 1 + (part <= FEW)]:
                    rounds = max(1, int(part * classes))
                    more = measured((X, y, X_test, y_test), options, rounds, C=cost, allow_zero=zero, init=init)
                    what = f"{name}, {rounds} rounds, {'zeros' if zero else 'no zeros'}, {init}"
                    report.rows.append(
                        {"what": what, "unit": "us", "classes": classes, "rounds": rounds, "C": cost, **more}
                    )
    judge(report)
    return report


def chosen_cost(X, y, classes, zero, options):
    """The value of C with the least error on a fold of the training part; the smallest of equals."""
    X, y, X_held, y_held = fold_of(X, y, 0, FOLDS)
    errors = {}
    for cost in options.size(COSTS[:1], COSTS):
        model = hingeboost(options.size(2, classes), C=cost, allow_zero=zero).fit(X, y)
        errors[cost] = np.mean(model.predict(X_held) != y_held)
    return min(errors, key=errors.get)


def measured(parts, options, rounds, **more):
    """Figures of one training, and of scoring the test part."""
    X, y, X_test, y_test = parts
    start = time.process_time()
    estimator = hingeboost(rounds, **more).fit(X, y)
    seconds = time.process_time() - start
    model, column = estimator.model_, np.array(estimator.history_["column"])
    labels, planes = model.predict_early(X_test, n_jobs=1)
    best = model.raw_scores(X_test).argsort(axis=1, kind="stable")[:, -2:]
    times = timed(model, X_test, options)
    return {
        "best": float(times["early"][0]) / 1000,
        "median": float(times["early"][1]) / 1000,
        "runs": 2 * options.repeat,
        "full_us": float(times["full"][0]) / 1000,
        "evaluated_%": 100 * float(planes.mean() / model.n_early_learners),
        "error_%": 100 * float(np.mean(estimator.classes_[estimator.model_.predict_codes(X_test)] != y_test)),
        "zeros_%": 100 * float(np.mean(column == 0)),
        "differ_%": 100 * float(np.mean(column.T[best[:, 0]] != column.T[best[:, 1]])),
        "fit_s": seconds,
        "prepare_ms": float(times["prepare"][0]) / 1e6,
        "changed": int((labels != model.predict(X_test)).sum()) + int(times["changed"][0]),
    }


def timed(model, X, options):
    """What the program in C says of the first rows."""
    import scipy.sparse

    sparse = hasattr(X, "indptr")
    rows = scipy.sparse.csr_array(X[: options.size(64, TIMED)])
    with tempfile.TemporaryDirectory(prefix="mcboost-zeros-") as folder:
        saved, stored = Path(folder, "model.mcb"), Path(folder, "rows.bin")
        model.save(saved)
        with open(stored, "wb") as file:
            for values, dtype in (
                ([rows.shape[0], rows.nnz], np.int32),
                (rows.indptr, np.int32),
                (rows.indices, np.uint32),
                (rows.data, np.float32),
            ):
                np.asarray(values, dtype).tofile(file)
        words = [2 * options.repeat, int(sparse), saved, stored]
        return run_c("score_planes.c", folder, ["-O2", "-DMCB_SIMD"], words)


def judge(report):
    """No label may change; where rounds are few, the rest of the hyperplanes are to be left out."""
    changed = sum(row["changed"] for row in report.rows)
    report.target("labels changed", changed, 0, at_most=True, unit="")
    most = max(row["evaluated_%"] for row in report.rows if row["rounds"] <= LESS * row["classes"])
    report.target("most hyperplanes evaluated, up to a round for two classes", most, 100 * LESS, at_most=True, unit="%")
