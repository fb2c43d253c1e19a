"""A way to run the programs as a user does, and small LIBSVM files for them."""

import importlib
import io
import os
import signal
import subprocess
import sys
import time
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

import pymcboost

ROOT = str(Path(pymcboost.__file__).parents[1])


def command(program):
    """The installed console script of this interpreter, or the module behind it."""
    script = Path(sys.executable).with_name(f"mcboost-{program}")
    return [str(script)] if script.exists() else [sys.executable, "-m", f"pymcboost.cli.{program}"]


def environment(**options):
    """Run the very package under test, whatever else is installed."""
    path = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, **options}


def run(program, *arguments, cwd=None, stdin=None, stdout=subprocess.PIPE, **options):
    """Run ``mcboost-<program>`` and return its CompletedProcess with text streams; ``more`` goes to the environment."""
    return subprocess.run(
        [*command(program), *map(str, arguments)],
        cwd=cwd,
        input=stdin,
        env=environment(**options),
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
    )


def call(program, *arguments, cwd=None):
    """Do what `run` does, in this process: much faster, for tests of what a program says rather than how it starts."""
    main = importlib.import_module(f"pymcboost.cli.{program}").main
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), chdir(cwd or os.getcwd()):
        status = main([str(argument) for argument in arguments])
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def run_python(code, cwd=None):
    """Run a piece of Python with this interpreter and return its CompletedProcess with text streams."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )


STARTED = []


def start(program, *arguments, cwd=None):
    """Start ``mcboost-<program>`` with pipes for its three streams and return its Popen object.

    Ctrl-C reaches it even where the test suite itself runs in the background, with interrupts ignored. The fixture
    ``no_process_is_left`` kills what a failed test leaves behind.
    """
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*command(program), *map(str, arguments)],
        cwd=cwd,
        env=environment(),
        text=True,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    STARTED.append(process)
    return process


def until_it_waits(process):
    """Wait until a program that was started sleeps, and takes no time: it waits for what the test has to do."""
    before = None
    since = time.monotonic()
    while time.monotonic() - since < 0.3:
        assert process.poll() is None, process.communicate()
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        state = fields[0]
        times = fields[11:13]
        if state != "S" or times != before:
            before = times
            since = time.monotonic()
        time.sleep(0.02)


def write_svm(path, X, y, base=1):
    """Write rows in LIBSVM format; a label None leaves the label out."""
    with open(path, "w") as stream:
        for row, label in zip(X, y, strict=True):
            pairs = [f"{j + base}:{row[j]:.9g}" for j in np.flatnonzero(row)]
            stream.write(" ".join([*([] if label is None else [str(label)]), *pairs]) + "\n")
    return path
