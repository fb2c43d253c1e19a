"""Draw the picture of the README from the committed results: test error against time, in training and for one row.

    python tools/picture.py [--results results] [--out docs/overview.png]

Left: fits of pendigits on one thread. Right: one row of optdigits, scored in C. `docs/benchmarks.md` names the commands
that measure the numbers.
"""

import argparse
import csv
import json
from pathlib import Path

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


def scoring(folder):
    """Points (name, microseconds, error in percent, ours?) of one row of optdigits in C."""
    prefix = "optdigits (3823 x 64, 10 classes), 1 thread: "
    errors = rows(folder, "bench-trees-small.json", "trees")
    trees = rows(folder, "bench-trees-score.json", "trees-score")
    vector = rows(folder, "bench-trees-vector-rows.json", "trees-vector-rows")
    stumps = rows(folder, "bench.json", "score")
    with open(Path(folder) / "official.csv", newline="") as file:
        official = {(row["data"], row["loss"]): float(row["error"]) for row in csv.DictReader(file)}
    ours, lightgbm = "optdigits: ours, 141 trees", "optdigits: LightGBM, 1000 trees"
    times = [
        ("vector trees", vector["optdigits: one row in C, -O2: ours"], vector[ours + ": test error"]["best"]),
        ("logitboost", trees["one row in C, -O2: ours"], errors[prefix + "logitboost"]["test_error_percent"]),
        ("MCBoost, stumps", stumps["one row in C, -O2: interval"], official["optdigits", "exp"]),
        ("LightGBM", vector["optdigits: one row in C, -O2: LightGBM"], vector[lightgbm + ": test error"]["best"]),
    ]
    return [(name, row["best"], error, name not in PEERS) for name, row, error in times]


def draw(axis, points, title, unit):
    """One panel: time on a logarithmic axis, error upwards."""
    for name, time, error, ours in points:
        axis.plot(time, error, "o", color=OURS if ours else OTHERS)
        side, shift = ("right", -5) if name == "LightGBM" else ("left", 5)
        axis.annotate(name, (time, error), xytext=(shift, 4), textcoords="offset points", fontsize=8, ha=side)
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
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    draw(axes[0], training(options.results), "Training: pendigits, one thread", "seconds")
    draw(axes[1], scoring(options.results), "Scoring: optdigits, one row in C", "microseconds a row")
    axes[0].set_ylabel("test error in percent")
    figure.savefig(options.out, dpi=90, metadata={"Software": None})


if __name__ == "__main__":
    main()
