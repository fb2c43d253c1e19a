"""Workers that are threads of one process, for tests of trainings whose rows are divided."""

import threading

import numpy as np
from sklearn.base import clone

from pymcboost.comm import WorkerError
from pymcboost.comm.several import Several, mismatch, operation

MISSING = object()


class _Table:
    """Where workers lay down what they say. They take turns: one goes on to its next word, and then the next one.

    Threads that all wait for the lock of Python would take many times as long as their work does.
    """

    def __init__(self, size):
        self.size = size
        self.error = None
        self.turns = [threading.Lock() for _ in range(size)]
        self.here = list(range(size))  # who has not ended
        # of the last two times that all have said something
        self.words = {}
        self.totals = {}
        for turn in self.turns[1:]:
            turn.acquire()

    def next(self, rank):
        """Let the next worker go on."""
        later = [other for other in self.here if other > rank] or self.here
        if later:
            self.turns[later[0]].release()

    def said(self, rank, number, what):
        """What all workers say the n-th time, once they have."""
        self.words.setdefault(number, [MISSING] * self.size)[rank] = what
        self.next(rank)
        if not self.turns[rank].acquire(timeout=300):
            raise AssertionError("the other workers take too long")
        words = self.words[number]
        if any(word is MISSING for word in words):
            raise WorkerError(f"a worker failed:  {self.error}")
        for table in (self.words, self.totals):  # all have read those before
            table.pop(number - 1, None)
        return words

    def ends(self, rank):
        """A worker says nothing any more."""
        self.here.remove(rank)
        self.next(rank)


class ThreadWorkers:
    """A communicator of threads; see `pymcboost.comm.Alone` for the methods."""

    scattered = Several.scattered
    row_number = None

    def __init__(self, table, rank):
        self.table = table
        self.size = table.size
        self.rank = rank
        self.beside = table.size
        self.n_sums = self.n_bytes = self.n_words = 0

    def _all(self, what):
        self.n_words += 1
        return list(self.table.said(self.rank, self.n_words, what))

    def _alike(self, what, array, shape):
        """The arrays of all workers, which must be in the same operation with one dtype and shape."""
        every = self._all((operation(what, array.dtype, shape), array))
        operations = [said for said, _ in every]
        if len({*operations}) > 1:
            raise mismatch(operations)
        return [array for _, array in every]

    def _reduced(self, what, array, function):
        """The array becomes that of all workers. The first of them computes it, before any array is written to."""
        self.n_sums += 1
        self.n_bytes += array.nbytes
        arrays = self._alike(what, array, array.shape)
        totals = self.table.totals
        if self.n_words not in totals:
            total = totals[self.n_words] = arrays[0].copy()
            for other in arrays[1:]:
                function(total, other, out=total)
        array[...] = totals[self.n_words]
        return array

    def sum(self, array, sure=False):
        return self._reduced("sum", array, np.add)

    def sum_scatter(self, array, lengths, sure=False):
        assert len(lengths) == self.size and lengths.sum() == len(array)
        self.n_bytes -= array.nbytes - array.nbytes // 2
        own = np.split(self.sum(array), np.cumsum(lengths)[:-1])[self.rank].copy()
        array[...] = -1
        array[: len(own)] = own
        return array[: len(own)]

    def maximum(self, array):
        return self._reduced("maximum", array, np.maximum)

    def concatenate(self, array):
        return np.concatenate(self._alike("concatenation", array, array.shape[1:]))

    def gather(self, array, lengths, owner):
        parts = self._alike("collection", array, array.shape[1:])
        assert [len(part) for part in parts] == lengths.tolist()
        return np.concatenate(parts) if owner == self.rank else array[:0]

    def exchange(self, what):
        return self._all(what)

    def broadcast(self, what):
        return self._all(what)[0]

    def check(self, stop=False):
        return any(self._all(stop))

    def fail(self, error):
        self.table.error = self.table.error or error


def run(size, task):
    """``task(workers)`` on that many workers at once; what each returns, or the error that it raises."""
    table = _Table(size)
    results = [None] * size

    def work(rank):
        table.turns[rank].acquire()
        try:
            results[rank] = task(ThreadWorkers(table, rank))
        except Exception as error:
            table.error = table.error or error
            results[rank] = error
        finally:
            table.ends(rank)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def numbered(comm, row_number):
    """The communicator, whose worker has the rows of these numbers from now on."""
    comm.row_number = row_number
    return comm


def one_model(cls, X, y, parts, weight=None, held=None, threads=1, comm=None, **params):
    """The estimator of one worker, whose model is that of workers with these parts of the rows.

    The first of them has the validation set ``held``, arguments of fit. ``comm`` is for the one worker.
    """
    single_model = cls(**params, n_jobs=1).fit(X, y, weight, comm=comm, **(held or {}))

    def task(workers):
        part = parts[workers.rank]
        its = None if weight is None else weight[part]
        options = held if held and workers.rank == 0 else {}
        model = cls(**params, n_jobs=threads).fit(
            X[part], y[part], its, comm=numbered(workers, part), **options
        )
        return model.model_.to_bytes()

    by_worker = run(len(parts), task)
    assert [type(its) for its in by_worker] == [bytes] * len(parts), by_worker
    assert set(by_worker) == {single_model.model_.to_bytes()}
    return single_model


class _Sums:
    """A callback: sums and bytes that a worker has sent after every round."""

    def __init__(self, workers):
        self.workers = workers
        self.after = []

    def after_round(self, state):
        self.after.append((self.workers.n_sums, self.workers.n_bytes))

    def of_rounds(self):
        """Those of each round but the first: (n_rounds - 1, 2)."""
        return np.diff(self.after, axis=0)


def sums_of_rounds(estimator, X, y):
    """What each of two workers with half of the rows has sent in every round but the first: (n_rounds - 1, 2)."""

    def task(workers):
        part = np.array_split(np.arange(len(y)), 2)[workers.rank]
        counts = _Sums(workers)
        clone(estimator).fit(X[part], y[part], comm=workers, callbacks=[counts])
        return counts.of_rounds()

    return run(2, task)
