"""A way to run the programs as a user does, and small LIBSVM files for them."""

import os
import subprocess
import sys
from pathlib import Path

import pymcboost

ROOT = str(Path(pymcboost.__file__).parents[1])


def command(program):
    """The installed console script of this interpreter, or the module behind it."""
    script = Path(sys.executable).with_name(f"mcboost-{program}")
    return [str(script)] if script.exists() else [sys.executable, "-m", f"pymcboost.cli.{program}"]


def environment(**more):
    """Run the very package under test, whatever else is installed."""
    path = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, **more}


def run(program, *arguments, cwd=None, stdin=None, **more):
    """Run ``mcboost-<program>`` and return its CompletedProcess with text streams."""
    return subprocess.run([*command(program), *map(str, arguments)], cwd=cwd, input=stdin, env=environment(**more),
                          capture_output=True, text=True, timeout=300)


def write_svm(path, X, y, base=1):
    """Write rows in LIBSVM format; a label None leaves the label out."""
    with open(path, "w") as stream:
        for row, label in zip(X, y, strict=True):
            pairs = [f"{j + base}:{value:.9g}" for j, value in enumerate(row) if value != 0]
            stream.write(" ".join([*([] if label is None else [str(label)]), *pairs]) + "\n")
    return path
