"""Train, predict and measure on the handwritten digits in data/, through the installed commands.

Usage: python tools/demo.py [--rounds N] [--folder FOLDER]

The model and the predictions are left in FOLDER (default: build/demo).
"""

import argparse
import shlex
import subprocess
import sys
import sysconfig
import timeit
from pathlib import Path

import numpy as np
from sklearn.metrics import confusion_matrix

import pymcboost

ROOT = Path(__file__).resolve().parents[1]
TRAIN = ROOT / "data" / "digits.train.libsvm"
TEST = ROOT / "data" / "digits.test.libsvm"


def run(command, *arguments):
    """Run an installed command, showing what a user would type."""
    arguments = [str(argument) for argument in arguments]
    shown = [
        str(Path(a).relative_to(ROOT)) if Path(a).is_relative_to(ROOT) else a for a in arguments
    ]
    print(f"\n$ {shlex.join([command, *shown])}", flush=True)
    program = Path(sysconfig.get_path("scripts"), command)
    if not program.exists():
        sys.exit(
            f"demo: {program} does not exist; run `make demo`, which installs it, or `pip install .` first"
        )
    status = subprocess.run([program, *arguments]).returncode
    if status:
        sys.exit(f"demo: {command} ended with exit code {status}")


def show_table(table, classes):
    """Print a confusion matrix, with dots for zeros."""
    width = max(len(str(table.max())), *(len(str(c)) for c in classes)) + 2
    label = max(len("true"), *(len(str(c)) for c in classes))
    print(f"{'true':>{label}} |" + "".join(f"{c:>{width}}" for c in classes) + "   <- predicted")
    print("-" * label + "-+" + "-" * width * len(classes))
    for name, row in zip(classes, table, strict=True):
        print(f"{name:>{label}} |" + "".join(f"{n if n else '.':>{width}}" for n in row))


def main():
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rounds", type=int, default=500, metavar="N", help="boosting rounds (default: 500)"
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "demo", help="results (default: build/demo)"
    )
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    model_file, output_file = folder / "digits.mcb", folder / "digits.predictions.txt"

    run("mcboost-train", "--n-estimators", options.rounds, TRAIN, model_file)
    run("mcboost-info", model_file)
    run("mcboost-predict", TEST, model_file, output_file)

    model = pymcboost.load_model(model_file)
    data = pymcboost.load_svmlight(TEST, n_features=model.n_features_in_, layout="dense")
    predicted = np.loadtxt(output_file, dtype=np.int64)
    correct = int(np.sum(predicted == data.y))
    print(
        f"\nAccuracy on {len(data.y)} test rows: {100 * correct / len(data.y):.2f}% ({correct} right)\n"
    )
    show_table(confusion_matrix(data.y, predicted, labels=model.classes_), model.classes_)

    batch = min(timeit.repeat(lambda: model.predict(data.X, n_jobs=1), number=1, repeat=20)) / len(
        data.y
    )
    single = min(timeit.repeat(lambda: model.predict(data.X[:1]), number=1, repeat=20))
    size = model_file.stat().st_size
    print(
        f"\nModel file: {size:,} bytes for {model.n_learners} stumps and {model.n_classes_} classes"
    )
    print(
        f"Scoring, one thread: {1e6 * batch:.2f} us per row in a batch of {len(data.y)}; ", end=""
    )
    print(f"{1e6 * single:.1f} us for one call of predict with a single row from Python")


if __name__ == "__main__":
    main()
