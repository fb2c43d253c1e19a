"""Workers that are threads of one process, for tests of trainings whose rows are divided."""

import threading

import numpy as np
from sklearn.base import clone

from pymcboost.comm import WorkerError
from pymcboost.comm.several import Several


class _Table:
    def __init__(self, size):
        self.size, self.places, self.error = size, [None] * size, None
        self.barrier = threading.Barrier(size)


class ThreadWorkers:
    """A communicator of threads; see `pymcboost.comm.Alone` for the methods."""

    scattered = Several.scattered

    def __init__(self, table, rank):
        self.table, self.size, self.rank, self.beside = table, table.size, rank, table.size
        self.n_sums = self.n_bytes = 0

    def _counted(self, array):
        self.n_sums += 1
        self.n_bytes += array.nbytes
        return self._all(array.copy())

    def _all(self, what):
        table = self.table
        try:
            table.places[self.rank] = what
            table.barrier.wait(60)
            found = list(table.places)
            table.barrier.wait(60)
        except threading.BrokenBarrierError:
            raise WorkerError(f"a worker has failed: {table.error}") from None
        return found

    def sum(self, array, sure=False):
        array[...] = sum(np.copy(part) for part in self._counted(array))
        return array

    def sum_scatter(self, array, lengths, sure=False):
        assert len(lengths) == self.size and lengths.sum() == len(array)
        self.n_bytes -= array.nbytes - array.nbytes // 2
        own = np.split(self.sum(array), np.cumsum(lengths)[:-1])[self.rank].copy()
        array[...] = -1
        array[: len(own)] = own
        return array[: len(own)]

    def maximum(self, array):
        array[...] = np.max(self._counted(array), axis=0)
        return array

    def concatenate(self, array):
        return np.concatenate(self._all(array))

    def gather(self, array, lengths, owner):
        found = self._all(array)
        assert [len(part) for part in found] == lengths.tolist()
        return np.concatenate(found) if owner == self.rank else array[:0]

    def exchange(self, what):
        return self._all(what)

    def broadcast(self, what):
        return self._all(what)[0]

    def check(self, stop=False):
        return any(self._all(stop))

    def fail(self, error):
        self.table.error = self.table.error or error
        self.table.barrier.abort()


def run(size, task):
    """``task(workers)`` on that many workers at once; what each returns, or the error that it raises."""
    table, found = _Table(size), [None] * size

    def work(rank):
        try:
            found[rank] = task(ThreadWorkers(table, rank))
        except Exception as error:
            table.barrier.abort()
            found[rank] = error

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def one_model(cls, X, y, parts, weight=None, held=None, threads=1, comm=None, **params):
    """The estimator of one worker, whose model is that of workers with these parts of the rows.

    The first of them has the validation set ``held``, arguments of fit. ``comm`` is for the one worker.
    """
    one = cls(**params, n_jobs=1).fit(X, y, weight, comm=comm, **(held or {}))

    def task(workers):
        part = parts[workers.rank]
        its = None if weight is None else weight[part]
        more = held if held and workers.rank == 0 else {}
        model = cls(**params, n_jobs=threads).fit(X[part], y[part], its, comm=workers, row_number=part, **more)
        return model.model_.to_bytes()

    found = run(len(parts), task)
    assert [type(its) for its in found] == [bytes] * len(parts), found
    assert set(found) == {one.model_.to_bytes()}
    return one


class _Sums:
    """A callback: sums and bytes that a worker has sent after every round."""

    def __init__(self, workers):
        self.workers, self.after = workers, []

    def after_round(self, state):
        self.after.append((self.workers.n_sums, self.workers.n_bytes))

    def of_rounds(self):
        """Those of each round but the first: (n_rounds - 1, 2)."""
        return np.diff(self.after, axis=0)


def sums_of_rounds(estimator, X, y):
    """What each of two workers with half of the rows has sent in every round but the first: (n_rounds - 1, 2)."""

    def task(workers):
        part, counts = np.array_split(np.arange(len(y)), 2)[workers.rank], _Sums(workers)
        clone(estimator).fit(X[part], y[part], comm=workers, callbacks=[counts])
        return counts.of_rounds()

    return run(2, task)
