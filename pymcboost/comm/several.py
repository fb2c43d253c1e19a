"""What communicators of several workers have in common."""

import pickle
import sys
from zlib import crc32

import numpy as np

from pymcboost.comm.errors import WorkerError

# An operation is cut to so many bytes where it is named in an error.
LONGEST_NAME = 200
# What a word of state says where no operation follows it: the number of one, and its negative.
NO_OPERATION = (0, 0)


def lengths(comm, n):
    """How many of something every worker has, of which this one has n: int64 (size,)."""
    n_of_worker = np.zeros(comm.size, dtype=np.int64)
    n_of_worker[comm.rank] = n
    return comm.sum(n_of_worker)


def before(comm, n):
    """How many of something the workers before this one have, of which this one has n."""
    return int(lengths(comm, n)[: comm.rank].sum())


def row_numbers(comm, n):
    """Numbers of this worker's n rows among the rows of all: draws and folds go by them, not by where a row lies."""
    return np.arange(n) + before(comm, n) if comm.row_number is None else comm.row_number


def shares(sizes, n):
    """Numbers of the first items of n workers, whose parts of the items are about equal, and of all: (n + 1,).

    sizes : array-like of int, of every item
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    owner = (
        (2 * ends - sizes) * n // (2 * ends[-1])
    )  # the part in which the middle of the item lies
    return np.searchsorted(owner, np.arange(n + 1))


def operation(name, dtype, shape):
    """An operation in words, which all workers must have alike."""
    return f"{name} of {np.dtype(dtype)} {tuple(shape)}"


def caller():
    """The function outside of pymcboost.comm that asks for an operation."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        "pymcboost.comm"
    ):
        frame = frame.f_back
    return f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_name}"


def mismatch(operations):
    """The error of workers of which some are in another operation than the others."""
    rank = next(
        i
        for i, operation_of_worker in enumerate(operations)
        if operation_of_worker != operations[0]
    )
    return WorkerError(
        f"the workers are out of step: worker 0 has the {operations[0]}, worker {rank} the "
        f"{operations[rank]}; all must perform the same operation on arrays of the same dtype "
        "and shape. Give all workers the same arguments and the same version of pymcboost; if "
        "they have them, please report this"
    )


class Several:
    """`Alone`'s methods that follow from others.

    A subclass has ``_reduce(array, how, counted=True)`` for how = "sum" and "max", ``joined(array, lengths)`` and
    `check`. Every operation that is not sure begins with a word of state in which workers compare what they are about
    to do: an operation, its dtype and its shape.
    """

    row_number = None
    # Half of a scattered sum need not be sent, but what the shares give is one message more: at 10 Gbit/s and 30
    # microseconds a step it pays from 150 kB on with 2 workers, and from 320 kB with 16. It is more, as workers wait
    # for the slowest at every message: on one busy machine those of 400 kB were slower.
    scattered = 1 << 20

    def sum(self, array, sure=False):
        """See `Alone`."""
        if not sure:
            self.check_operation(operation("sum", array.dtype, array.shape))
        return self._reduce(array, "sum")

    def maximum(self, array):
        """See `Alone`."""
        self.check_operation(operation("maximum", array.dtype, array.shape))
        return self._reduce(array, "max")

    def check_operation(self, said):
        """An error on all workers where they are not about to do the same, or where one has failed."""
        number = crc32(said.encode())
        state = self._state(np.array([0, 0, number, -number], dtype=np.int64))
        if state[2] != -state[3]:
            raise self._mismatch(said)

    def _mismatch(self, said):
        words = np.zeros((self.size, LONGEST_NAME), dtype=np.int64)
        encoded = np.frombuffer(f"{said} in {caller()}".encode()[:LONGEST_NAME], dtype=np.uint8)
        words[self.rank, : len(encoded)] = encoded
        words = self._reduce(words, "max", counted=False).astype(np.uint8)
        return mismatch([row.tobytes().rstrip(b"\0").decode(errors="replace") for row in words])

    def sum_scatter(self, array, lengths, sure=False):
        """See `Alone`: the sum of all is taken."""
        begin = lengths[: self.rank].sum()
        n = lengths[self.rank]
        array[:n] = self.sum(array, sure)[begin : begin + n]
        return array[:n]

    def concatenate(self, array):
        """See `Alone`."""
        self.check_operation(operation("concatenation", array.dtype, array.shape[1:]))
        return self.joined(array, lengths(self, len(array)))

    def exchange(self, item):
        """See `Alone`."""
        text = np.frombuffer(pickle.dumps(item), dtype=np.uint8)
        size = lengths(self, len(text))
        return [
            pickle.loads(part.tobytes())
            for part in np.split(self.joined(text, size), np.cumsum(size)[:-1])
        ]
