"""Defaults and tuned defaults of everyone, each with and without the same temperature, on arrays and frames.

A temperature is one number T, by which the scores of a fitted model are divided. It comes from three folds of the
training part: T has the least log loss on the scores of rows that a model of the other two folds gives.
"""

import sys
import time
from pathlib import Path

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from scipy.stats import norm
from shared import ranks
from shared.competitors import COMPETITORS, make_competitor, rows_of
from shared.datasets import DATA, fold_rows, load_for_trees
from shared.frames import FRAMES, load_frame_parts
from shared.peers import Absent
from shared.tables import markdown_table
from threadpoolctl import threadpool_limits

from reproduce.experiment import Experiment, Results, cross, select
from reproduce.quality import SMALLEST, geometric, measures_of

# Fixed before the first run.
OURS = ("vector", "vector-raw", "vector-auto", "mcboost")
# They find a temperature themselves, and get no other.
CALIBRATED = ("vector", "vector-auto")
METHODS = tuple(COMPETITORS)
FOLDS = 3
TRAINING_ROWS = 3000
TEST_ROWS = 5000
# Cells times classes above which a set is wide: CatBoost is not fitted there, and the set is not ranked.
WIDE = 5e6
# Too slow for wide sets.
SLOW = ("catboost", "catboost-td")
# A reference beside the boosters, on sets of so many rows.
REFERENCE = "realmlp-td"
REFERENCE_ROWS = (500, 5000)
TEMPERATURES = 0.05, 20.0
# Log losses of the test rows, one file a cell: raw, and with the temperature of the folds.
LOSSES = Path("results-local", "quality-fair")
BOOSTERS = tuple(
    m for m in METHODS if m.partition("-")[0] in ("lightgbm", "xgboost", "catboost", "histogram")
)
# Share of the sets above which a method is ranked.
MOST = 0.8
# Training rows of sets in the second column of ratios; rows of sets that are compared row by row.
LARGE = 1000
LEAST_PAIRED = 500
# Against the best booster of a set, and at which level.
MARGIN = 1.10
LEVEL = 0.05


def sets_by_cost(names=None):
    """All sets of arrays and frames, or those named, the cheapest first; sparse sets are left out."""
    dense = [name for name, entry in DATA.items() if not entry.sparse]
    unknown = sorted(set(names or ()) - {*dense, *FRAMES})
    if unknown:
        raise SystemExit(f"unknown set {unknown[0]!r}; there are {', '.join([*dense, *FRAMES])}")
    return sorted(names or [*dense, *FRAMES], key=cost_of)


def cost_of(data):
    """Cells of the training part times classes."""
    entry = FRAMES.get(data) or DATA[data]
    return min(TRAINING_ROWS, 0.75 * entry.rows) * entry.n_features * entry.n_classes


def is_wide(data):
    return cost_of(data) > WIDE


def parts_of(data, seed):
    """At most so many rows of the training and the test part, and class codes; -1 is a class without training rows."""
    X, y, X_test, y_test = (
        load_frame_parts(data, seed) if data in FRAMES else load_for_trees(data, seed)
    )
    generator = np.random.default_rng([seed, 0x66616972])
    train = np.sort(generator.permutation(len(y))[:TRAINING_ROWS])
    test = np.sort(generator.permutation(len(y_test))[:TEST_ROWS])
    classes = np.unique(y[train])
    place = np.searchsorted(classes, y_test[test]).clip(0, len(classes) - 1)
    truth = np.where(classes[place] == y_test[test], place, -1)
    return rows_of(X, train), np.searchsorted(classes, y[train]), rows_of(X_test, test), truth


def fold_temperature(method, seed, X, y):
    """The temperature with the least log loss on scores of rows that were not trained on."""
    n_classes = int(y.max()) + 1
    scores = np.empty((len(y), int(y.max()) + 1))
    for fold in range(FOLDS):
        train, held = fold_rows(y, fold, FOLDS)
        model = make_competitor(method, seed).fit(rows_of(X, train), y[train], n_classes)
        scores[held] = model.scores(rows_of(X, held))
    return temperature_of(scores, y)


def temperature_of(scores, y):
    """The temperature with the least log loss; rows whose class a fold was not trained on say nothing of it."""
    known = np.isfinite(scores[np.arange(len(y)), y])
    scores, y = scores[known], y[known]

    def loss(log_temperature):
        return -log_softmax(scores / np.exp(log_temperature), axis=1)[np.arange(len(y)), y].mean()

    return float(np.exp(minimize_scalar(loss, bounds=np.log(TEMPERATURES), method="bounded").x))


def losses_of(P, truth):
    """Log loss of every row; rows of classes that were not trained on (-1) have probability 0."""
    own = np.where(truth >= 0, P[np.arange(len(truth)), truth], 0.0)
    return -np.log(np.maximum(own, SMALLEST))


def fit_cell(unit):
    """One method on one set: raw, and with the temperature of the folds; a failure is a row without numbers."""
    X, y, X_test, truth = parts_of(unit["data"], unit["seed"])
    nothing = dict.fromkeys(FOUND.split(), np.nan)
    begin = time.perf_counter()
    try:
        with threadpool_limits(1):
            row = {**nothing, **measured(unit, X, y, X_test=X_test, truth=truth)}
    except Exception as error:  # of a library: the table counts it
        print(f"{unit}: {type(error).__name__}: {error}", file=sys.stderr)
        row = {**nothing, "failed": type(error).__name__}
    return {**unit, **row, "seconds": round(time.perf_counter() - begin, 3)}


def measured(unit, X, y, X_test, truth):
    """The row of a cell."""
    method = unit["method"]
    seed = unit["seed"]
    n_classes = int(y.max()) + 1
    start = time.process_time()
    model = make_competitor(method, seed).fit(X, y, n_classes)
    fitted = time.process_time()
    scores = model.scores(X_test)
    row = {**measures_of(softmax(scores, axis=1), truth), "cpu": round(fitted - start, 4)}
    labels = measures_of(softmax(model.label_scores(X_test), axis=1), truth)
    row |= {name: labels[name] for name in ("error", "balanced_error")}
    losses = [losses_of(softmax(scores, axis=1), truth)]
    if method not in CALIBRATED:
        start = time.process_time()
        temperature = fold_temperature(method, seed, X, y=y)
        fold_cpu = time.process_time() - start
        P = softmax(scores / temperature, axis=1)
        tempered = measures_of(P, truth)
        losses.append(losses_of(P, truth))
        row |= {
            "fold_log_loss": tempered["log_loss"],
            "fold_calibration_error": tempered["calibration_error"],
            "temperature": round(temperature, 4),
            "fold_cpu": round(fold_cpu, 4),
        }
    LOSSES.mkdir(parents=True, exist_ok=True)
    np.save(losses_file(**unit), np.stack(losses).astype(np.float32))
    sizes = {
        "bytes": model.size(),
        "rounds": model.rounds(),
        "n_train": len(y),
        "n_test": len(truth),
    }
    return {**row, **sizes, "failed": "-"}


def losses_file(data, method, seed):
    return LOSSES / f"{data}-{method}-{seed}.npy"


def present(methods):
    """Methods whose libraries are there; says which are not."""
    kept = []
    for method in methods:
        try:
            make_competitor(method)
            kept.append(method)
        except Absent as reason:
            print(f"quality-fair: {method} skipped, {reason} is absent", file=sys.stderr)
    return kept


def plan(options, journal):
    """What is quick first: CatBoost's defaults have most of the time, then wide sets."""
    methods = present(options.methods or METHODS)
    sets = sets_by_cost(options.sets)
    narrow = [data for data in sets if not is_wide(data)]
    wide = [data for data in sets if is_wide(data)]
    has_reference = REFERENCE in methods
    methods = [method for method in methods if method != REFERENCE]
    quick = [method for method in methods if method != "catboost"]
    yield 0, cross(data=narrow, method=quick, seed=[0]), "quality-fair"
    if "catboost" in methods:
        yield (
            0,
            cross(data=narrow, method=["catboost"], seed=[0]),
            "quality-fair, CatBoost's defaults",
        )
    yield (
        0,
        cross(data=wide, method=[m for m in methods if m not in SLOW], seed=[0]),
        "quality-fair, wide sets",
    )
    if has_reference:
        few = [data for data in narrow if REFERENCE_ROWS[0] <= rows_in(data) <= REFERENCE_ROWS[1]]
        yield (
            0,
            cross(data=few, method=[REFERENCE], seed=[0]),
            "quality-fair, a network as a reference",
        )


# -- tables ------------------------------------------------------------------------------------------------------------


def grids(frame):
    """Tables (sets, methods) of every measure, their methods, and those of them that are ranked.

    The sets are those that all ranked methods have. A method is ranked where it has most of the sets.
    """
    first = frame[frame["seed"] == 0]
    methods = [method for method in METHODS if method in set(first["method"])]
    grid = first.pivot(index="data", columns="method", values=[*MEASURES])
    numbers = {name: grid[name][methods].astype(float) for name in MEASURES}
    narrow = [data for data in sets_by_cost() if data in grid.index and not is_wide(data)]
    present = numbers["log_loss"].loc[narrow].notna()
    ranked = [method for method in methods if present[method].mean() > MOST]
    sets = [data for data in narrow if present.loc[data, ranked].all()]
    return {name: table.loc[sets] for name, table in numbers.items()}, methods, ranked


def tempered(numbers, methods):
    """The same measures with the temperature of the folds, or with the method's own."""
    tempered_numbers = dict(numbers)
    own = [method for method in methods if method in CALIBRATED]
    for name in ("log_loss", "calibration_error"):
        tempered_numbers[name] = numbers[f"fold_{name}"].copy()
        tempered_numbers[name][own] = numbers[name][own]
    tempered_numbers["cpu"] = numbers["cpu"] + numbers["fold_cpu"].fillna(0.0)
    return tempered_numbers


def summary(numbers, methods, ranked, reference):
    """Ranks, p-values against ``reference`` and means of every method; of one that is not ranked, over its own sets."""
    large = numbers["n_train"][reference] >= LARGE
    ranked = [method for method in methods if method in ranked]
    placed = {
        name: ranks.rank(ranked, numbers[name][ranked].to_numpy()) for name in ("log_loss", "error")
    }
    lines = []
    for method in methods:
        there = numbers["log_loss"][method].notna()
        ratio = (numbers["log_loss"][method] / numbers["log_loss"][reference])[there]
        place = ranked.index(method) if method in ranked else None
        cells = [method if place is not None else f"{method} ({there.sum()} sets)"]
        for name in ("log_loss", "error"):
            cells.append("-" if place is None else f"{placed[name].mean_ranks[place]:.2f}")
            cells.append(p_of(numbers[name][there], method, reference))
        cells += [f"{geometric(part):.2f}" if len(part) else "-" for part in (ratio, ratio[large])]
        for name in ("error", "balanced_error", "calibration_error"):
            cells.append("-" if place is None else f"{numbers[name][method].mean():.2f}")
        for name, digits, unit in (("cpu", 2, 1), ("bytes", 0, 1000)):
            cells.append(
                "-" if place is None else f"{geometric(numbers[name][method]) / unit:.{digits}f}"
            )
        lines.append(cells)
    heads = [
        "method",
        "rank, log loss",
        "p",
        "rank, error",
        "p",
        f"log loss / {reference}",
        f"on {large.sum()} sets",
        "error %",
        "balanced error %",
        "calibration error %",
        "CPU seconds",
        "kB",
    ]
    critical = placed["log_loss"].critical
    return f"{markdown_table(heads, lines)}\n\nCritical difference of ranks (Nemenyi, 0.05): {critical:.2f}."


def page(frame):
    """Log losses where nobody has a temperature, and where everyone has one; errors and calibration."""
    numbers, methods, ranked = grids(frame)
    with_temperature = tempered(numbers, methods)
    lines = []
    for method in [method for method in methods if method in ranked]:
        raw, fair = numbers["log_loss"], with_temperature["log_loss"]
        cells = [
            "-" if method in CALIBRATED else f"{geometric(raw[method] / raw['vector-raw']):.2f}",
            "-" if method in CALIBRATED else p_of(raw, method, "vector-raw"),
            f"{geometric(fair[method] / fair['vector']):.2f}",
            p_of(fair, method, "vector"),
            f"{numbers['error'][method].mean():.1f}",
            p_of(numbers["error"], method, "vector"),
            f"{with_temperature['calibration_error'][method].mean():.1f}",
        ]
        lines.append([method, *cells])
    heads = ["method", "nobody", "p", "everyone", "p", "error %", "p", "calibration %"]
    return markdown_table(heads, lines)


def p_of(table, method, reference):
    """Wilcoxon's p of two methods, in words."""
    return (
        "-"
        if method == reference
        else f"{ranks.signed_rank(table[method], table[reference]).p:.2g}"
    )


def text_of(frame):
    """All tables in Markdown."""
    if frame.empty:
        return "No results yet."
    numbers, methods, ranked = grids(frame)
    if (
        len(numbers["log_loss"]) < 2
        or len(ranked) < 2
        or not {"vector", "vector-raw"} <= set(ranked)
    ):
        return "Not enough results for a table: two sets with vector, vector-raw and another method are needed."
    raw = [method for method in methods if method not in CALIBRATED]
    with_temperature = tempered(numbers, methods)
    n_sets = len(numbers["log_loss"])
    return "\n\n".join(
        [
            f"{n_sets} sets, at most {TRAINING_ROWS:,} training and {TEST_ROWS:,} test rows of each. p is that of "
            "Wilcoxon's signed-rank test, not corrected for the number of methods. The second column of ratios is "
            f"of the sets with at least {LARGE:,} training rows. Ratios, seconds and kB are geometric means, errors "
            "are means.",
            "As the methods come, without a temperature:",
            summary(numbers, raw, ranked, reference="vector-raw"),
            f"With a temperature of three folds; {' and '.join(CALIBRATED)} find their own. Seconds include the folds:",
            summary(with_temperature, methods, ranked, reference="vector"),
            "Log loss with a temperature:",
            set_table(with_temperature["log_loss"], methods, 4),
            "Log loss without a temperature:",
            set_table(numbers["log_loss"], raw, 4),
            "Error in percent:",
            set_table(
                numbers["error"], [method for method in methods if method != "vector-raw"], 2
            ),
            *left_out(frame, methods, numbers["log_loss"].index),
        ]
    )


def set_table(table, methods, digits):
    """A measure, set by set; the best in bold."""
    lines = []
    for data, values in table[methods].iterrows():
        words = ["-" if np.isnan(value) else f"{value:.{digits}f}" for value in values]
        best = min((word for word in words if word != "-"), key=float)
        lines.append([data, *(f"**{word}**" if word == best else word for word in words)])
    return markdown_table(["set", *methods], lines)


def left_out(frame, methods, ranked_sets):
    """Log losses of the sets that are not ranked, and what failed."""
    first = frame[frame["seed"] == 0]
    failed = first[first["failed"] != "-"]
    if len(failed):
        words = ", ".join(
            f"{row.method} on {row.data} ({row.failed})" for row in failed.itertuples()
        )
        yield f"Failed: {words}."
    lines = []
    for data in [
        data for data in sets_by_cost() if data in set(first["data"]) and data not in ranked_sets
    ]:
        cells = [data]
        for method in methods:
            row = select(first, data=data, method=method)
            value = np.nan
            if len(row):
                value = float(row["log_loss" if method in CALIBRATED else "fold_log_loss"].iloc[0])
            cells.append("-" if np.isnan(value) else f"{value:.4f}")
        lines.append(cells)
    if lines:
        yield "Log loss with a temperature on sets that are not ranked, on which some method was not fitted:"
        yield markdown_table(["set", *methods], lines)


def first_ranks(table, methods, n=4):
    """The best mean ranks, in words."""
    means = ranks.rank(methods, table[methods].to_numpy()).mean_ranks
    return ", ".join(
        f"{methods[place]} {means[place]:.2f}" for place in np.argsort(means, kind="stable")[:n]
    )


def values_of(frame):
    """What sentences say: log losses of peers as multiples, with and without a temperature."""
    numbers, methods, ranked = grids(frame)
    losses = numbers["log_loss"]
    if len(losses) < 2 or not {"vector", "vector-raw"} <= set(ranked):
        return {}
    with_temperature = tempered(numbers, methods)["log_loss"]
    texts = {"sets": str(len(losses))}
    large = numbers["n_train"]["vector"] >= LARGE
    for method in methods:
        there = losses[method].notna()
        ours = losses["vector"][there]
        texts[f"{method}-raw"] = f"{geometric(losses[method][there] / ours):.2f}"
        texts[f"{method}-tempered"] = f"{geometric(with_temperature[method][there] / ours):.2f}"
        texts[f"{method}-p"] = p_of(with_temperature[there], method, "vector")
        texts[f"{method}-p-raw"] = p_of(losses[there], method, "vector-raw")
        texts[f"{method}-against-raw"] = (
            f"{geometric((losses[method] / losses['vector-raw'])[there]):.2f}"
        )
        texts[f"{method}-p-as-it-comes"] = p_of(losses[there], method, "vector")
        texts[f"{method}-p-error"] = p_of(numbers["error"][there], method, "vector")
        texts[f"{method}-sets"] = str(there.sum())
        for form, table in (("raw", losses), ("tempered", with_temperature)):
            ratio = (table[method] / losses["vector"])[there & large]
            texts[f"{method}-{form}-large"] = f"{geometric(ratio):.2f}" if len(ratio) else "-"
            others = ratio[ratio.index != "car"]
            texts[f"{method}-{form}-others"] = f"{geometric(others):.2f}" if len(others) else "-"
    boosters = [method for method in ranked if method in BOOSTERS]
    best_form = with_temperature[boosters].combine(losses[boosters], np.minimum)
    best = min(boosters, key=lambda method: geometric(best_form[method] / losses["vector"]))
    raw_peers = geometric(losses[boosters].min(axis=1) / losses["vector"])
    raw = [method for method in ranked if method not in CALIBRATED]
    return texts | {
        "ranks-raw": first_ranks(losses, raw),
        "ranks": first_ranks(with_temperature, ranked),
        "ranks-error": first_ranks(
            numbers["error"], [method for method in ranked if method != "vector-raw"]
        ),
        "best": best,
        "best-ratio": f"{geometric(best_form[best] / losses['vector']):.2f}",
        "lost": f"{(best_form.min(axis=1) < losses['vector']).sum()}",
        "best-of-all": f"{geometric(best_form.min(axis=1) / losses['vector']):.2f}",
        "large": str(large.sum()),
        "best-of-all-raw": f"{raw_peers:.2f}",
    }


# -- row by row --------------------------------------------------------------------------------------------------------


def fit_paired(unit):
    """The log loss of vector trees against that of the booster with the least one on these test rows.

    ``p`` is one-sided: of a mean log loss of at most `MARGIN` times the booster's, by the normal distribution.
    """
    begin = time.perf_counter()
    ours = np.load(losses_file(unit["data"], "vector", 0))[0].astype(float)
    best = None
    for method in BOOSTERS:
        path = losses_file(unit["data"], method, 0)
        for form, losses in zip(
            ("raw", "folds"), np.load(path) if path.exists() else (), strict=False
        ):
            if best is None or losses.mean(dtype=float) < best[0]:
                best = losses.mean(dtype=float), method, form, losses.astype(float)
    theirs, booster, form, losses = best
    surplus = ours - MARGIN * losses
    deviation = surplus.std(ddof=1) / np.sqrt(len(surplus))
    p = float(norm.sf(surplus.mean() / deviation)) if deviation else float(surplus.mean() <= 0)
    ratio = ours.mean() / max(theirs, 1e-9)
    row = {
        "booster": booster,
        "form": form,
        "log_loss": round(ours.mean(), 5),
        "best": round(theirs, 5),
    }
    row |= {"ratio": round(ratio, 3), "p": f"{p:.2g}", "n_test": len(ours)}
    return {**unit, **row, "seconds": round(time.perf_counter() - begin, 3)}


def paired_plan(options, journal):
    """All sets of `LEAST_PAIRED` rows whose losses are there; always anew."""
    sets = [data for data in sets_by_cost(options.sets) if rows_in(data) >= LEAST_PAIRED]
    sets = [data for data in sets if losses_file(data, "vector", 0).exists()]
    if sets:
        journal.forget(lambda row: row["data"] in sets)
    yield 0, cross(data=sets), "quality-paired"


def rows_in(data):
    return (FRAMES.get(data) or DATA[data]).rows


def paired_text(frame):
    """Set by set, with what is significant."""
    frame = frame.assign(p=frame["p"].astype(float))
    lines = []
    for data in [data for data in sets_by_cost() if data in set(frame["data"])]:
        row = select(frame, data=data).iloc[0]
        verdict = "yes" if row["p"] < LEVEL else "no"
        cells = [f"{row['log_loss']:.4f}", f"{row['best']:.4f}", f"{row['booster']}, {row['form']}"]
        lines.append(
            [data, int(row["n_test"]), *cells, f"{row['ratio']:.2f}", f"{row['p']:.2g}", verdict]
        )
    heads = [
        "set",
        "test rows",
        "vector",
        "best booster",
        "which",
        "ratio",
        "p",
        f"above {MARGIN:.2f}",
    ]
    return (
        "Vector trees against the booster, with or without a temperature, that has the least log loss on the test "
        f"rows, which favours it. p: of a mean log loss of at most {MARGIN:.2f} times the booster's, paired over rows, "
        f"one-sided. Significantly above on {(frame['p'] < LEVEL).sum()} of {len(frame)} sets of at least "
        f"{LEAST_PAIRED} rows.\n\n"
        f"{markdown_table(heads, lines)}"
    )


def paired_values(frame):
    """Texts for sentences: the sets on which vector trees are significantly above the booster, and how many."""
    significant = set(frame[frame["p"].astype(float) < LEVEL]["data"])
    above = [data for data in sets_by_cost() if data in significant]
    words = [f"{data} ({select(frame, data=data)['ratio'].iloc[0]:.2f} times)" for data in above]
    ratio = frame["ratio"].astype(float)
    return {
        "above": ", ".join(words) or "none",
        "count": f"{len(above)} of {len(frame)}",
        "ratio": f"{geometric(ratio):.2f}",
        "better": f"{(ratio < 1).sum()}",
    }


FOUND = (
    "log_loss error balanced_error calibration_error fold_log_loss fold_calibration_error temperature cpu fold_cpu "
    "bytes rounds n_train n_test failed"
)
MEASURES = tuple(name for name in FOUND.split() if name != "failed")
CELLS = Results("quality-fair", "data method seed", FOUND, fit=fit_cell, as_text="failed")
PAIRED = Results(
    "quality-paired", "data", "booster form log_loss best ratio p n_test", fit=fit_paired
)
EXPERIMENTS = (
    Experiment(
        "quality-fair",
        "Everyone's defaults and tuned defaults, with the same temperature",
        (CELLS,),
        plan=plan,
        text=text_of,
        sets=(*DATA, *FRAMES),
        methods=METHODS,
        values=values_of,
        pages={"": page},
    ),
    Experiment(
        "quality-paired",
        "Vector trees against the best booster, row by row",
        (PAIRED,),
        plan=paired_plan,
        text=paired_text,
        weigh=None,
        sets=(*DATA, *FRAMES),
        values=paired_values,
    ),
)
