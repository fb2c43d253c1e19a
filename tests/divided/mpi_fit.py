"""A program for mpiexec: train on a part of the rows, and print the checksum of the model, or of several models.

    mpiexec -n 3 python mpi_fit.py [trouble in worker 1: none, raise, late, exit, stop, kill, interrupt,
        interrupt-tree] [estimators]

scikit-learn, which takes longer than the trainings, is loaded for "raise" alone.
"""

import hashlib
import os
import signal
import sys

import numpy as np
from mpi4py import MPI

from pymcboost.comm import MPIWorkers
from pymcboost.registry import PUBLIC, get_plain_class, load

ROWS, ROUNDS, TIMEOUT, OF_STOPPED = 800, 8, 2.5, 0.5
MORE = {
    "ABCLogitBoostClassifier": {
        "n_estimators": 3,
        "calibrate": "temperature",
        "cv": 2,
        "max_leaf_nodes": 4,
    },
    "MCBoostClassifier": {"weak_learner": "tree", "categorical_features": [4]},
}
SIGNALS = {"stop": signal.SIGSTOP, "kill": signal.SIGKILL, "interrupt": signal.SIGINT}


class Interrupted(MPIWorkers):
    """Ctrl-C comes to worker 1 before a sum that no word of state precedes, as while a tree grows."""

    n_sure = 0

    def sum(self, array, sure=False):
        self._may_interrupt(sure)
        return super().sum(array, sure)

    def sum_scatter(self, array, lengths, sure=False):
        self._may_interrupt(sure)
        return super().sum_scatter(array, lengths, sure)

    def _may_interrupt(self, sure):
        self.n_sure += sure
        if sure and self.rank == 1 and self.n_sure == 5:
            os.kill(os.getpid(), signal.SIGINT)


def rows(m=ROWS):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, 5)).astype(np.float32)
    X[:, 4] = rng.integers(0, 9, m)
    return X, (X[:, 0] > 0) + 2 * (X[:, 1] > 0.5)


class Trouble:
    def __init__(self, kind):
        self.kind = kind

    def after_round(self, state):
        if state.n_rounds != 5:
            return
        if self.kind == "late":
            raise ZeroDivisionError("after five rounds")
        if self.kind == "exit":
            raise SystemExit("after five rounds")
        os.kill(os.getpid(), SIGNALS[self.kind])


def say(line):
    """Write a line at once, as others write to the same place."""
    os.write(1, line.encode())


def main(trouble="none", *names):
    comm = MPI.COMM_WORLD
    X, y = rows()
    part = np.array_split(np.arange(len(y)), comm.size)[comm.rank]
    mine = comm.rank == 1 and trouble != "none"
    if mine and trouble == "raise":
        X[part[3], 2] = np.inf
    entries = {entry.name: entry for entry in PUBLIC}
    classes = {
        name: load(entries[name])
        if trouble == "raise"
        else get_plain_class(entries[name].algorithm)
        for name in names or ["VectorTreeBoostClassifier"]
    }
    plain = {"n_estimators": ROUNDS, "random_state": 0, "calibrate": None}
    models = [cls(**plain | MORE.get(name, {})) for name, cls in classes.items()]
    kind = Interrupted if trouble == "interrupt-tree" else MPIWorkers
    callbacks = [Trouble(trouble)] if mine and kind is MPIWorkers and trouble != "raise" else []
    MPIWorkers.scattered = 0  # small histograms, too
    try:
        for model in models:
            workers = kind(comm, OF_STOPPED if trouble == "stop" else TIMEOUT)
            model.fit(X[part], y[part], comm=workers, callbacks=callbacks)
    except (ArithmeticError, ValueError, OSError, SystemExit, KeyboardInterrupt) as error:
        say(f"worker {comm.rank}: {type(error).__name__}: {error}\n")
        return
    digest = hashlib.sha256(b"".join(model.model_.to_bytes() for model in models)).hexdigest()
    say(f"worker {comm.rank}: {digest}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
