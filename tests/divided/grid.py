"""Every estimator that takes workers, on rows that are divided in many ways; a program for mpiexec, too.

mpiexec -n 3 python grid.py [division] [threads] [memory or blocks]
"""

import hashlib
import os
import sys

import numpy as np

import pymcboost
from pymcboost import Dataset, registry

ROWS = 8200  # with four classes beyond small data
ROUNDS = 2
MORE = {
    "VectorTreeBoostClassifier": {
        "calibrate": "temperature",
        "subsample": 0.7,
        "max_leaf_nodes": 6,
    },
    "LogitBoostClassifier": {"calibrate": None, "subsample": 0.7, "max_leaf_nodes": 4},
    "MartClassifier": {"calibrate": None, "subsample": 1.0, "max_leaf_nodes": 4},
    "ABCLogitBoostClassifier": {"calibrate": None, "gap": 2, "max_leaf_nodes": 4},
    "ABCMartClassifier": {"calibrate": "temperature", "cv": 2, "gap": 2, "max_leaf_nodes": 3},
}
DIVISIONS = "even", "random", "by class", "one empty", "one row"


def estimators():
    """Names of all that take workers."""
    return [
        cls.__name__
        for cls in map(registry.get_class, registry.ALGORITHMS)
        if cls.booster.takes_workers
    ]


def rows(m=ROWS):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(m, 6)).astype(np.float32)
    X[:, 1] = np.round(X[:, 1])
    X[rng.random((m, 6)) < 0.05] = np.nan
    y = (np.nan_to_num(X[:, 0]) > 0).astype(int) + 2 * (np.nan_to_num(X[:, 1]) > 0.5)
    return X, y, rng.integers(0, 3, m).astype(float)


def parts_of(y, size, how):
    """Rows of every worker."""
    if how == "even":
        return np.array_split(np.arange(len(y)), size)
    if how == "random":
        order, ends = np.random.default_rng(1), np.random.default_rng(2)
        return np.split(order.permutation(len(y)), np.sort(ends.integers(0, len(y), size - 1)))
    if how == "by class":
        return np.array_split(np.argsort(y, kind="stable"), size)
    few = np.arange(int(how == "one row" and size > 1))
    rest = np.arange(len(few), len(y))
    return [few, *np.array_split(rest, size - 1)] if size > 1 else [rest]


def checksum(name, X, y, weight, part, comm, threads, where):
    """That of the model file of one worker. Those of two threads share the features of small histograms, too."""
    if threads == 2:
        comm.scattered = 0
    comm.row_number = part
    cls = getattr(pymcboost, name)
    model = cls(n_estimators=ROUNDS, random_state=0, n_jobs=threads, **MORE.get(name, {}))
    if where == "blocks":
        blocks = [part[begin : begin + 1000] for begin in range(0, max(1, len(part)), 1000)]
        model.fit(Dataset.from_blocks([(X[own], y[own], weight[own]) for own in blocks], comm=comm))
    else:
        model.fit(X[part], y[part], weight[part], comm=comm)
    return hashlib.sha256(model.model_.to_bytes()).hexdigest()


def main(how, threads, where):
    from mpi4py import MPI

    from pymcboost.comm import MPIWorkers

    comm = MPI.COMM_WORLD
    X, y, weight = rows()
    part = parts_of(y, comm.size, how)[comm.rank]
    workers = MPIWorkers(comm)
    for name in estimators():
        digest = checksum(
            name, X, y, weight=weight, part=part, comm=workers, threads=int(threads), where=where
        )
        os.write(1, f"{name} {digest}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
