"""What workers of MPI ask of the communicator, which threads of this process stand in for: no mpi4py is needed."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from pymcboost.comm import MPIWorkers, WorkerError

SIZE = 3
MPI = SimpleNamespace(MAX=np.maximum, SUM=np.add, IN_PLACE=None, COMM_TYPE_SHARED=0)
DONE = SimpleNamespace(Test=lambda: True)


class Threads:
    """What `MPIWorkers` uses of mpi4py's communicators for sums, maxima and messages of failed workers."""

    def __init__(self, rank, barrier, arrays):
        self.rank, self.barrier, self.arrays = rank, barrier, arrays

    def Dup(self):
        return self

    def Split_type(self, kind):
        return self

    def Free(self):
        pass

    def Get_size(self):
        return SIZE

    def Get_rank(self):
        return self.rank

    def Iallreduce(self, _, array, operator):
        return self._replace(array, operator.reduce)

    def Ibcast(self, array, root):
        return self._replace(array, lambda arrays: arrays[root])

    def _replace(self, array, function):
        self.arrays[self.rank] = array.copy()
        self.barrier.wait()
        replacement = function(self.arrays)
        self.barrier.wait()  # all have read the arrays
        array[:] = replacement
        return DONE


@pytest.fixture
def of_all(monkeypatch):
    """Function that calls another one with each of the workers at once, and returns the results by rank."""
    monkeypatch.setitem(sys.modules, "mpi4py", SimpleNamespace(MPI=MPI))
    barrier, arrays = threading.Barrier(SIZE, timeout=60), [None] * SIZE
    workers = [MPIWorkers(Threads(rank, barrier, arrays)) for rank in range(SIZE)]

    def call(function):
        with ThreadPoolExecutor(SIZE) as pool:
            return list(pool.map(function, workers))

    return call


def test_maximum_is_the_largest_number_of_any_worker(of_all):
    found = of_all(lambda worker: worker.maximum(np.array([worker.rank, -worker.rank, 5])))
    assert [array.tolist() for array in found] == [[2, 0, 5]] * SIZE


def test_sum_is_that_of_all_workers(of_all):
    found = of_all(lambda worker: worker.sum(np.array([worker.rank, -worker.rank, 5])))
    assert [array.tolist() for array in found] == [[3, -3, 15]] * SIZE


def test_of_two_workers_that_fail_the_last_is_named(of_all):
    def end(worker):
        if worker.rank:
            worker.fail(ValueError(f"trouble of {worker.rank}"))
        with pytest.raises(WorkerError) as told:
            worker.check()
        return str(told.value)

    assert of_all(end) == [
        "worker 2 of 3 failed: ValueError: trouble of 2",
        *["a worker has failed before; start again with a new communicator"] * 2,
    ]


def test_workers_out_of_step_say_so(of_all):
    def step(worker):
        with pytest.raises(WorkerError) as told:
            worker.maximum(np.zeros(3, dtype="if"[worker.rank == 1]))
        return str(told.value)

    words = "worker 0 has the maximum of int32 (3,)"
    assert all(words in text for text in of_all(step))
