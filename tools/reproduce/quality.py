"""Probabilities and errors of everyone's defaults, and of everyone tuned by the same search, on all data sets."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
from shared import classifiers, ranks
from shared.datasets import DATA, coded, fixed_split, fold_rows, load_for_trees, sets_by_cost
from shared.measure import log_loss
from shared.peers import Absent
from shared.tables import markdown_table, span

from reproduce.experiment import Experiment, Results, cross, select

# Fixed before the first run.
METHODS = (
    "vector",
    "vector-raw",
    "vector-auto",
    "abc-logitboost",
    "mcboost",
    "lightgbm",
    "lightgbm-bounded",
    "xgboost",
    "xgboost-vector",
    "catboost",
    "histogram",
    "logistic",
    "svm",
)
OURS = "vector", "vector-raw", "vector-auto", "abc-logitboost", "mcboost"
TUNED = (
    "vector",
    "lightgbm",
    "xgboost",
    "xgboost-vector",
    "catboost",
    "histogram",
    "logistic",
    "svm",
)
TUNED_SETS = (
    "iris",
    "wine",
    "glass",
    "ecoli",
    "svmguide2",
    "svmguide4",
    "vowel",
    "CNAE-9",
    "yeast",
    "car",
    "dna",
    "abalone",
    "waveform",
    "waveform-noise",
    "optdigits",
    "satimage",
    "pendigits",
    "letter",
    "krkopt",
    "usps",
)
CONFIGURATIONS = 30
FOLDS = 5
TUNED_ROWS = 3000
SEEDS = 3
OFFICIAL = ("pendigits", "optdigits", "letter", "satimage", "usps", "mnist")
OFFICIAL_SEEDS = 5
# Fitted without calibration: predictions are the same, as hardly a row held out is wrong, see `calibration.CLEAN`.
UNCALIBRATED = ("mnist",)
BINS = 15
# Above this relative cost of a set a fit of defaults has a process of its own, which ends after so many minutes.
SLOW = 3e7
MINUTES = 30
# Methods that take no sparse X.
DENSE = ("histogram",)
# Rows of a class that a method needs: those of the SVM become probabilities by three folds.
LEAST_ROWS = {"svm": 3}
# Not ranked: another column without its calibration.
TWIN = "vector-raw"
SMALLEST = np.finfo(np.float64).eps
MEASURES = ("log_loss", "error", "balanced_error", "calibration_error")


def measures_of(P, truth):
    """Log loss, error and balanced error in percent, and the calibration error over bins of equal mass.

    Rows of classes that were not trained on (-1) have probability 0.
    """
    n = len(truth)
    top = P.argmax(axis=1)
    best = P.max(axis=1)
    wrong = top != truth
    order = np.array_split(np.argsort(best, kind="stable"), min(BINS, n))
    gaps = [len(part) * abs(best[part].mean() - 1 + wrong[part].mean()) for part in order]
    return {
        "log_loss": round(log_loss(P, truth, SMALLEST), 5),
        "error": round(100 * float(wrong.mean()), 4),
        "balanced_error": round(
            100 * float(np.mean([wrong[truth == k].mean() for k in np.unique(truth)])), 4
        ),
        "calibration_error": round(100 * float(sum(gaps) / n), 4),
    }


def tested(unit, params, parts):
    """Fit, test and measure one classifier."""
    X, y, X_test, truth = parts
    model = classifiers.make(unit["method"], **params)
    cpu = time.process_time()
    begin = time.perf_counter()
    model.fit(X, y)
    row = {
        "seconds": round(time.perf_counter() - begin, 4),
        "cpu": round(time.process_time() - cpu, 4),
    }
    P = np.asarray(model.predict_proba(X_test), dtype=np.float64)
    micros = []
    for _ in range(3):
        begin = time.process_time()
        model.predict_proba(X_test)
        micros.append(1e6 * (time.process_time() - begin) / len(truth))
    sizes = {"n_train": len(y), "n_test": len(truth), "bytes": classifiers.size_of(model)}
    return {**unit, **measures_of(P, truth), **row, **sizes, "micros_a_row": round(min(micros), 3)}


def fit_defaults(unit):
    """`fit_whole`; without numbers where it has not ended in time, or needs more memory than there is."""
    return in_time(unit) if DATA[unit["data"]].cost > SLOW else fit_whole(unit)


def in_time(unit):
    """`fit_whole` in a process of its own, predictions and reading included."""
    code = "import sys; sys.path[:0] = sys.argv[2:]; from reproduce import quality; quality.tell(sys.argv[1])"
    command = [sys.executable, "-c", code, json.dumps(unit), *sys.path]
    nothing = {**unit, **dict.fromkeys(FOUND.split(), np.nan)}
    begin = time.perf_counter()
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=60 * MINUTES)
    except subprocess.TimeoutExpired:
        return {**nothing, "seconds": 60.0 * MINUTES}
    if completed.returncode == -signal.SIGKILL:  # by the system, where memory ends
        return {**nothing, "seconds": round(time.perf_counter() - begin, 1)}
    if completed.returncode:
        raise RuntimeError(f"{unit}: status {completed.returncode}. {completed.stderr.strip()}")
    return json.loads(completed.stdout.splitlines()[-1])


def tell(unit):
    """Print the row of a unit."""
    print(json.dumps(fit_whole(json.loads(unit))))


def fit_whole(unit):
    """Everyone's defaults on the full set; classes with too few rows for a method are not trained on."""
    X, y, *test = load_for_trees(unit["data"], unit["seed"])
    rows = often(y, LEAST_ROWS.get(unit["method"], 1))
    return tested(unit, {}, coded((X[rows], y[rows], *test)))


def often(y, least):
    """Numbers of the rows whose class has at least so many."""
    classes, counts = np.unique(y, return_counts=True)
    return np.flatnonzero(np.isin(y, classes[counts >= least]))


def tuned_part(data):
    """At most so many rows of the training part."""
    X, y, X_test, truth = load_for_trees(data)
    rows = np.random.default_rng(0).permutation(len(y))[:TUNED_ROWS]
    rows = np.sort(rows[often(y[rows], FOLDS)])
    return coded((X[rows], y[rows], X_test, truth))


def fit_configuration(unit):
    """Cross-validation of one random configuration on the training part."""
    X, y, _, _ = tuned_part(unit["data"])
    params = classifiers.drawn(unit["method"], unit["configuration"])
    fold_measures = []
    begin = time.perf_counter()
    for fold in range(FOLDS):
        train, test = fold_rows(y, fold, FOLDS)
        model = classifiers.make(unit["method"], **params).fit(X[train], y[train])
        probabilities = np.asarray(model.predict_proba(X[test]), dtype=np.float64)
        fold_measures.append(measures_of(probabilities, y[test]))
    means = {
        name: round(float(np.mean([measures[name] for measures in fold_measures])), 5)
        for name in ("log_loss", "error")
    }
    return {
        **unit,
        **means,
        "setting": json.dumps(params),
        "seconds": round(time.perf_counter() - begin, 3),
    }


def fit_tuned(unit):
    """The chosen configuration on all training rows, and the test part."""
    return tested(
        unit, classifiers.drawn(unit["method"], unit["configuration"]), tuned_part(unit["data"])
    )


def present(methods):
    """Methods whose libraries are there; says which are not."""
    kept = []
    for method in methods:
        try:
            classifiers.make(method)
            kept.append(method)
        except Absent as reason:
            print(f"quality: {method} skipped, {reason} is absent", file=sys.stderr)
    return kept


def with_seeds(data, **values):
    """Units of all combinations with the seeds; a set with a split of its own has one."""
    units = cross(data=data, seed=range(SEEDS), **values)
    return [unit for unit in units if unit["seed"] == 0 or not fixed_split(unit["data"])]


def defaults_plan(options, journal):
    units = with_seeds(data=sets_by_cost(options.sets), method=present(options.methods or METHODS))
    yield (
        0,
        [unit for unit in units if unit["method"] not in DENSE or not DATA[unit["data"]].sparse],
        "quality",
    )


def tuned_plan(options, journal, choices):
    methods = present(options.methods or TUNED)
    sets = sets_by_cost(options.sets or TUNED_SETS)
    yield 1, cross(data=sets, method=methods, configuration=range(CONFIGURATIONS)), "quality-choice"
    frame = choices.frame()
    units = []
    for data in sets:
        for method in methods:
            mine = select(frame, data=data, method=method) if len(frame) else frame
            if len(mine) == CONFIGURATIONS:
                best = mine.sort_values(["log_loss", "configuration"]).iloc[0]
                units.append(
                    {"data": data, "method": method, "configuration": int(best["configuration"])}
                )
    yield 0, units, "quality-tuned"


def whole_sets(frame):
    """Means over the seeds, for the methods that most sets have and the sets that have all of these."""
    groups = frame.groupby(["data", "method"])[[*MEASURES, "cpu", "bytes", "micros_a_row"]]
    means = groups.mean().where(groups.count().eq(groups.size(), axis=0)).unstack("method")
    methods = [
        m for m in METHODS if m in means["log_loss"] and means["log_loss"][m].notna().mean() > 0.5
    ]
    kept = means["log_loss"][methods].notna().all(axis=1)
    return means[kept], methods


def late_sets(frame, means):
    """What there is for the sets that are not in the tables, as some method has no result."""
    rest = frame[~frame["data"].isin(means.index)]
    lines = []
    for data in sets_by_cost(sorted(set(rest["data"]))):
        for method in [
            method for method in METHODS if method in set(select(rest, data=data)["method"])
        ]:
            mine = select(rest, data=data, method=method)[
                ["log_loss", "error", "cpu", "bytes", "seconds"]
            ]
            loss, error, cpu, size, seconds = mine.mean(skipna=False)
            why = f"over {MINUTES} minutes" if seconds >= 60 * MINUTES else "out of memory"
            figures = [f"{loss:.4f}", f"{error:.2f}", f"{cpu:.1f}", f"{size / 1000:.0f}"]
            lines.append([data, method, *(figures if np.isfinite(loss) else [why, "-", "-", "-"])])
    return (
        markdown_table(["set", "method", "log loss", "error %", "CPU seconds", "kB"], lines)
        if lines
        else ""
    )


def geometric(values):
    """Geometric mean, of numbers not below 1e-4."""
    return float(np.exp(np.log(np.maximum(np.asarray(values, dtype=float), 1e-4)).mean()))


def ranking(means, methods, name):
    """Mean ranks by method, and the whole ranking; without the twin."""
    methods = [method for method in methods if method != TWIN]
    ranking = ranks.rank(methods, means[name][methods].to_numpy())
    return dict(zip(methods, ranking.mean_ranks, strict=True)), ranking


def summary(means, methods):
    """Ranks and means of every method over the sets."""
    lines = []
    by_rank = [ranking(means, methods, name) for name in ("log_loss", "error")]
    for method in methods:
        cells = [means[name][method] for name in (*MEASURES, "cpu", "bytes", "micros_a_row")]
        lines.append(
            [
                method,
                *(f"{one[method]:.2f}" if method in one else "-" for one, _ in by_rank),
                f"{geometric(cells[0]):.4f}",
                *(f"{cell.mean():.2f}" for cell in cells[1:4]),
                f"{geometric(cells[4]):.2f}",
                f"{geometric(cells[5]) / 1000:.0f}",
                f"{geometric(cells[6]):.2f}",
            ]
        )
    heads = [
        "method",
        "rank, log loss",
        "rank, error",
        "log loss",
        "error %",
        "balanced error %",
        "calibration error %",
        "CPU seconds",
        "kB",
        "microseconds a row",
    ]
    note = (
        f"{len(means)} sets; geometric means of log loss, seconds, kB and microseconds; critical difference of ranks "
        f"{by_rank[0][1].critical:.2f}. {TWIN} is not ranked: it is vector without calibration."
    )
    return f"{note}\n\n{markdown_table(heads, lines)}"


def tuned_page(frame):
    """Ranks and means over the sets of everyone tuned alike."""
    means, methods = whole_sets(frame)
    ranked = [ranking(means, methods, name)[0] for name in ("log_loss", "error")]
    lines = []
    for method in methods:
        losses = means["log_loss"]
        cells = [f"{ranks_of[method]:.2f}" for ranks_of in ranked]
        p = ranks.signed_rank(losses[method], losses["vector"]).p
        cells.insert(1, "-" if method == "vector" else f"{p:.2g}")
        cells += [f"{geometric(losses[method] / losses['vector']):.2f}"]
        lines.append([method, *cells, f"{means['error'][method].mean():.1f}"])
    heads = ["method", "rank, log loss", "p", "rank, error", "log loss", "error %"]
    return markdown_table(heads, lines)


def tuned_values(frame):
    """What sentences say about everyone tuned alike."""
    means, methods = whole_sets(frame)
    losses = means["log_loss"]
    words = {
        "sets": str(len(means)),
        "critical": f"{ranking(means, methods, 'log_loss')[1].critical:.2f}",
    }
    for method in methods[1:]:
        words[method] = f"{geometric(losses[method] / losses['vector']):.2f}"
        words[f"{method}-p"] = f"{ranks.signed_rank(losses[method], losses['vector']).p:.2g}"
    return words


def table_of(means, methods, name, digits):
    """One measure, set by set; the best in bold."""
    lines = []
    for data in sets_by_cost(list(means.index)):
        values = means[name].loc[data][methods].to_numpy()
        words = [f"{value:.{digits}f}" for value in values]
        lines.append(
            [
                data,
                *(
                    f"**{w}**" if v == values.min() else w
                    for w, v in zip(words, values, strict=True)
                ),
            ]
        )
    return markdown_table(["set", *methods], lines)


def text_of(frame):
    """All tables in Markdown."""
    if frame.empty:
        return "No results yet."
    means, methods = whole_sets(frame)
    if len(means) < 2 or len(methods) < 2:
        return "Not enough results for a table: two sets with two methods are needed."
    late = late_sets(frame, means)
    note = f"\n\nSets on which some method has no result:\n\n{late}" if late else ""
    return (
        f"{summary(means, methods)}\n\nLog loss:\n\n{table_of(means, methods, 'log_loss', digits=4)}\n\n"
        f"Error in percent:\n\n{table_of(means, methods, 'error', digits=2)}{note}"
    )


def values_of(frame):
    """What sentences say about the defaults: where another library has 10% less log loss than vector trees."""
    means, methods = whole_sets(frame)
    losses = means["log_loss"]
    others = losses[[method for method in methods if method not in OURS]]
    ratio = others.min(axis=1) / losses["vector"]
    sets = sets_by_cost(list(ratio.index[ratio < 0.9]))
    lower = [f"{data} ({others.loc[data].idxmin()} {ratio[data]:.2f} times)" for data in sets]
    wrong = select(frame, data="shuttle", method="vector")
    return {
        "lower": ", ".join(lower),
        "poker": f"{losses.loc['poker', 'catboost'] / losses.loc['poker', 'vector']:.2f}",
        "shuttle-wrong": span((wrong["error"] * wrong["n_test"] / 100).round()),
        "shuttle-rows": f"{int(wrong['n_test'].iloc[0]):,}",
        "sector-abc-logitboost": f"{select(frame, data='sector', method='abc-logitboost')['log_loss'].mean():.1f}",
    }


def fit_official(unit):
    """Vector trees with their defaults and a seed of their own."""
    parts = coded(load_for_trees(unit["data"]))
    method = "vector-raw" if unit["data"] in UNCALIBRATED else "vector"
    row = tested({**unit, "method": method}, {"random_state": unit["seed"]}, parts)
    del row["method"]
    return row


def official_plan(options, journal):
    yield 0, cross(data=options.sets or OFFICIAL, seed=range(OFFICIAL_SEEDS)), "quality-official"


def official_text(frame):
    """Mean error and its deviation over the seeds."""
    lines = []
    for data in [name for name in OFFICIAL if name in set(frame["data"])]:
        mine = frame[frame["data"] == data]
        cells = (
            f"{mine['error'].mean():.2f} ({mine['error'].std(ddof=0):.2f})",
            f"{mine['cpu'].mean():.2f}",
        )
        lines.append([data, len(mine), *cells, f"{mine['bytes'].mean() / 1000:.0f}"])
    heads = ["set", "seeds", "error % (deviation)", "CPU seconds", "kB"]
    return markdown_table(heads, lines)


def official_page(frame):
    """Errors and sizes, without times."""
    lines = []
    for data in [name for name in OFFICIAL if name in set(frame["data"])]:
        mine = frame[frame["data"] == data]
        error = f"{mine['error'].mean():.2f} ({mine['error'].std(ddof=0):.2f})"
        lines.append([data, error, f"{mine['bytes'].mean() / 1000:,.0f}"])
    return markdown_table(["set", "error % (deviation)", "kB"], lines)


FOUND = "log_loss error balanced_error calibration_error cpu bytes micros_a_row n_train n_test"
DEFAULTS = Results("quality", "data method seed", FOUND, fit=fit_defaults)
CHOICE = Results(
    "quality-choice",
    "data method configuration",
    "log_loss error setting",
    fit=fit_configuration,
    as_text="setting",
)
BEST = Results("quality-tuned", "data method configuration", FOUND, fit=fit_tuned)
SPLITS = Results("quality-official", "data seed", FOUND, fit=fit_official)
EXPERIMENTS = (
    Experiment(
        "quality-official", "Official splits", (SPLITS,), plan=official_plan, text=official_text, sets=OFFICIAL,
        pages={"": official_page},
    ),
    Experiment(
        "quality", "Probabilities and errors of defaults", (DEFAULTS,), plan=defaults_plan, text=text_of,
        sets=tuple(DATA), methods=METHODS, values=values_of,
    ),
    Experiment(
        "quality-tuned", "Probabilities and errors, all tuned alike", (BEST, CHOICE), plan=tuned_plan, text=text_of,
        sets=tuple(DATA), methods=TUNED, values=tuned_values, pages={"": tuned_page},
    ),
)  # fmt: skip
