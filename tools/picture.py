"""Draw the picture of the README from the committed results: test error against training time, time of a row, bytes.

    python tools/picture.py [--results results] [--out docs/overview.png]

Left: fits of pendigits on one thread. Then all models of the Pareto report on optdigits: time to score one row, and
bytes of the model, with the frontier of pymcboost and that of all other libraries. `docs/benchmarks.md` names the
commands that measure the numbers.
"""

import argparse
import csv
import json
from pathlib import Path

from shared.frontiers import frontier
from shared.tables import picture

ROOT = Path(__file__).resolve().parents[1]
OURS, OTHERS = "tab:blue", "tab:gray"
PEERS = ("LightGBM", "XGBoost", "CatBoost", "scikit-learn")


def rows(folder, file, benchmark):
    """Rows of a benchmark by what they measure."""
    return {row["what"]: row for row in json.loads((Path(folder) / file).read_text())[benchmark]["rows"]}


def training(folder):
    """Points (name, seconds, error in percent, ours?) of fits of pendigits on one thread."""
    prefix = "pendigits (7494 x 16, 10 classes), 1 thread: "
    small = rows(folder, "bench-trees-small.json", "trees")
    vector = rows(folder, "bench-trees-vector.json", "trees-vector")
    stumps = rows(folder, "bench.json", "fit-pendigits")
    fits = [
        ("vector trees", vector[prefix + "vector"]),
        ("logitboost", small[prefix + "logitboost"]),
        ("MCBoost, stumps", stumps["MCBoost exp, 1000 rounds"]),
        ("LightGBM", vector[prefix + "LightGBM plain, 100 rounds"]),  # its defaults, which have fewer errors
        ("XGBoost", small[prefix + "XGBoost"]),
        ("CatBoost", small[prefix + "CatBoost"]),
        ("scikit-learn", small[prefix + "scikit-learn's histogram gradient boosting"]),
    ]
    return [(name, row["best"], row["test_error_percent"], name not in PEERS) for name, row in fits]


def models(folder, data="optdigits"):
    """Points (library, microseconds of a row, bytes, error in percent) of the Pareto report."""
    with open(Path(folder) / "pareto.csv", newline="") as file:
        found = [row for row in csv.DictReader(file) if row["data"] == data and row["us"]]
    return [(row["library"], float(row["us"]), float(row["bytes"]), float(row["error"])) for row in found]


def draw_frontiers(axis, found, column, title, unit):
    """One panel: a model is a point, and a frontier is a line."""
    for ours, colour, label in ((False, OTHERS, "other libraries"), (True, OURS, "pymcboost")):
        points = [(row[column], row[3]) for row in found if (row[0] == "pymcboost") == ours]
        axis.plot(*zip(*points, strict=True), ".", color=colour, alpha=0.3, markersize=4)
        kept = [points[at] for at in frontier(points)]
        axis.step(*zip(*kept, strict=True), where="post", color=colour, label=label)
    axis.set(xscale="log", yscale="log", xlabel=unit, title=title)
    axis.set_yticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])
    axis.minorticks_off()
    axis.grid(alpha=0.3)


def draw(axis, points, title, unit):
    """One panel: time on a logarithmic axis, error upwards."""
    for name, time, error, ours in points:
        axis.plot(time, error, "o", color=OURS if ours else OTHERS)
        shift = (0, -12) if name == "LightGBM" else (5, 4)
        axis.annotate(name, (time, error), xytext=shift, textcoords="offset points", fontsize=8)
    times = [time for _, time, _, _ in points]
    axis.set(xscale="log", xlim=(min(times) / 1.5, max(times) * 2.6), xlabel=unit, title=title)
    axis.set_ylim(2, 1 + max(error for _, _, error, _ in points))
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if min(times) / 1.5 <= tick <= max(times) * 2.6]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.grid(alpha=0.3)


def main(arguments=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, default=ROOT / "results", help="folder of the committed results")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "overview.png", help="file of the picture")
    options = parser.parse_args(arguments)
    found = models(options.results)
    save = {"dpi": 90, "metadata": {"Software": None}}
    with picture(options.out, 1, 3, save, figsize=(12, 3.4)) as [(left, middle, right)]:
        draw(left, training(options.results), "Training: pendigits, one thread", "seconds")
        draw_frontiers(middle, found, 1, "Scoring: optdigits, one row", "microseconds a row")
        draw_frontiers(right, found, 2, "Size: optdigits", "bytes of the model")
        middle.legend(fontsize=8)
        left.set_ylabel("test error in percent")


if __name__ == "__main__":
    main()
