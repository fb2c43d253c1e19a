"""A program for mpiexec: make so many communicators of MPI's, release them, and train with one more.

mpiexec -n 1 python mpi_many.py 2100
"""

import os
import sys

import numpy as np
from mpi4py import MPI

from pymcboost.algorithms.vector_tree import (
    VectorTreeBoostClassifier,
)  # without scikit-learn, which takes a second
from pymcboost.comm import as_workers, mpi, release


def main(n):
    comm = MPI.COMM_WORLD
    kept = []
    for _ in range(n):
        release(as_workers(comm), comm)
    old = mpi.MPIWorkers.free
    mpi.MPIWorkers.free = lambda workers: kept.append(workers) or old(workers)
    X = np.random.default_rng(comm.rank).normal(size=(100, 3))
    VectorTreeBoostClassifier(n_estimators=2, calibrate=None).fit(
        X, (X[:, 0] > 0).astype(int), comm=comm
    )
    os.write(1, f"{len(kept) == 1}\n".encode())


if __name__ == "__main__":
    main(int(sys.argv[1]))
