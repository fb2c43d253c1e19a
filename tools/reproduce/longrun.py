"""Trainings of hours that survive a kill: checkpoints, and errors on a grid of rounds.

A training goes in steps. After every step the whole estimator is pickled to a temporary file that then takes the place
of the last checkpoint, so that at any moment one of the two is complete; then, on rounds of the grid, the test errors
are appended to the journal. What is lost by a kill is the step that was running. The next step continues the estimator
with warm_start, which gives the same bytes as training without a stop.
"""

import os
import pickle
import sys
import time
from pathlib import Path

import numpy as np

GRID = (10, 25, 50, 100, 150, 200, 300, 400, 500, 600, 800, 1000, 1250, 1500, 1750, 2000, 2500, 3000, 4000, 5000)
# Rounds of the very first step, which shows the pace.
FIRST_STEP = 5
FORMAT = 1


def grid_up_to(rounds, grid=GRID):
    """Rounds at which errors are written: those of the grid below ``rounds``, and ``rounds``."""
    return [g for g in sorted(set(grid)) if g < rounds] + [rounds]


def next_stop(done, grid, pace, minutes):
    """Rounds at which the next step ends: on the grid, or earlier where it would take more than ``minutes``.

    ``pace`` is seconds a round, None before the first step.
    """
    target = min((g for g in grid if g > done), default=None)
    if target is None:
        return None
    allowed = FIRST_STEP if pace is None else max(1, int(60 * minutes / max(pace, 1e-9)))
    return min(target, done + allowed)


def write_checkpoint(path, state):
    """Replace the checkpoint in one move; whoever is killed before keeps the old one."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        pickle.dump({"format": FORMAT, **state}, file, protocol=5)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_checkpoint(path, identity):
    """State of the last checkpoint, None where there is none of this very training."""
    path = Path(path)
    if not path.exists():
        return None
    with open(path, "rb") as file:
        state = pickle.load(file)
    if state.get("format") != FORMAT or state["identity"] != identity:
        print(f"{path}: of another training ({state.get('identity')}); begun anew", file=sys.stderr)
        return None
    return state


class Training:
    """One estimator on its way to many rounds.

    Parameters
    ----------
    make : callable
        Gives a new estimator with ``warm_start``; it has ``set_params(n_estimators=...)``, ``fit``, ``predict`` and
        ``n_estimators_``, which stays below the rounds asked for when nothing is left to learn.
    identity : dict
        What distinguishes this training; a checkpoint with another identity is not used.
    path : path-like or None
        Checkpoint file; None keeps none.
    commit : str
        Remembered with every step, so that a figure names all commits that had a part in it.
    """

    def __init__(self, make, identity, path, commit="unknown"):
        self.path, self.identity, self.commit = path, identity, commit
        state = read_checkpoint(path, identity) if path is not None else None
        if state is None:
            state = {"estimator": make(), "rounds": 0, "seconds": 0.0, "ended": False, "commits": []}
        self.estimator, self.rounds, self.seconds = state["estimator"], state["rounds"], state["seconds"]
        self.ended, self.commits = state["ended"], state["commits"]
        # The pace of an earlier process says little about this one.
        self.pace = None

    def step(self, stop, X, y):
        """Train up to ``stop`` rounds and write the checkpoint."""
        begin = time.perf_counter()
        self.estimator.set_params(n_estimators=stop).fit(X, y)
        taken = time.perf_counter() - begin
        reached = int(self.estimator.n_estimators_)
        self.ended = reached < stop
        if reached > self.rounds:
            self.pace = taken / (reached - self.rounds)
        self.rounds, self.seconds = reached, self.seconds + taken
        if self.commit not in self.commits:
            self.commits = [*self.commits, self.commit]
        if self.path is not None:
            write_checkpoint(
                self.path,
                {
                    "identity": self.identity,
                    "estimator": self.estimator,
                    "rounds": self.rounds,
                    "seconds": self.seconds,
                    "ended": self.ended,
                    "commits": self.commits,
                },
            )

    def run(self, X, y, grid, minutes, look):
        """Train to the end of ``grid``; ``look(training)`` is called on its rounds, and on the last one.

        A round of the grid at which an earlier process was killed after its checkpoint is looked at first, so ``look``
        must itself know what it has written.
        """
        while True:
            if self.rounds in grid or self.rounds > grid[-1] or self.ended:
                look(self)
            stop = None if self.ended else next_stop(self.rounds, grid, self.pace, minutes)
            if stop is None:
                return
            self.step(stop, X, y)


def wrong(estimator, X, y, rows=100_000):
    """Number of wrong labels, scored in blocks of rows so that memory stays small."""
    return sum(
        int(np.count_nonzero(np.ravel(estimator.predict(X[i : i + rows])) != y[i : i + rows]))
        for i in range(0, len(y), rows)
    )
