"""Base class of communicators for several workers."""

import pickle
import sys
from zlib import crc32

import numpy as np

from pymcboost.comm.errors import WorkerError

# Maximum number of bytes of an operation's name in an error.
LONGEST_NAME = 200
# The two numbers of a state word if no operation follows: the number of the operation, and its negative.
NO_OPERATION = (0, 0)


def lengths(comm, n):
    """Collect a count from every worker, where this worker's is n: int64 (size,)."""
    n_of_worker = np.zeros(comm.size, dtype=np.int64)
    n_of_worker[comm.rank] = n
    return comm.sum(n_of_worker)


def before(comm, n):
    """Sum of the counts of the workers before this one, whose own count is n."""
    return int(lengths(comm, n)[: comm.rank].sum())


def row_numbers(comm, n):
    """Global numbers of this worker's n rows. Draws and folds depend on these, not on how rows are divided."""
    return np.arange(n) + before(comm, n) if comm.row_number is None else comm.row_number


def shares(sizes, n):
    """Divide items among n workers into parts of about equal size.

    Returns the first item of each worker, and the number of items: (n + 1,).

    sizes : array-like of int, the size of each item
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    # The part that contains the middle of the item.
    part = (2 * ends - sizes) * n // (2 * ends[-1])
    return np.searchsorted(part, np.arange(n + 1))


def operation(name, dtype, shape):
    """Describe an operation, which must be the same on all workers."""
    return f"{name} of {np.dtype(dtype)} {tuple(shape)}"


def caller():
    """The function outside of pymcboost.comm that called an operation."""
    frame = sys._getframe(1)
    module = frame.f_globals.get("__name__", "?")
    while frame.f_back is not None and module.startswith("pymcboost.comm"):
        frame = frame.f_back
        module = frame.f_globals.get("__name__", "?")
    return f"{module}.{frame.f_code.co_name}"


def mismatch(operations):
    """The error if some workers perform another operation than the others."""
    rank = next(i for i, described in enumerate(operations) if described != operations[0])
    return WorkerError(
        f"the workers are out of step: worker 0 has the {operations[0]}, worker {rank} the "
        f"{operations[rank]}; all must perform the same operation on arrays of the same dtype "
        "and shape. Give all workers the same arguments and the same version of pymcboost; if "
        "they have them, please report this"
    )


class Several:
    """Base class of communicators for several workers: methods of `Alone` that can be built from other methods.

    A subclass defines ``_reduce(array, how, counted=True)`` for how = "sum" and "max", ``joined(array, lengths)`` and
    `check`. Every operation that is not ``sure`` starts with an exchange of state words, in which workers compare
    what they are about to do: the operation, its dtype and its shape.
    """

    row_number = None
    # Size in bytes from which a scattered sum is used. It sends half as much, but the results of the shares need one
    # more message. At 10 Gbit/s and 30 microseconds per step, it pays off above 150 kB with 2 workers, and above 320
    # kB with 16. The limit is higher because workers wait for the slowest at every message: on one busy machine,
    # messages of 400 kB were slower.
    scattered = 1 << 20

    def sum(self, array, sure=False):
        """Sum an array over all workers, in place; see `Alone`."""
        if not sure:
            self.check_operation(operation("sum", array.dtype, array.shape))
        return self._reduce(array, "sum")

    def maximum(self, array):
        """Compute the element-wise maximum of an array over all workers, in place; see `Alone`."""
        self.check_operation(operation("maximum", array.dtype, array.shape))
        return self._reduce(array, "max")

    def check_operation(self, description):
        """Check that all workers are about to do the same, and that none has failed; otherwise, all raise an error."""
        number = crc32(description.encode())
        state = self._state(np.array([0, 0, number, -number], dtype=np.int64))
        if state[2] != -state[3]:
            raise self._mismatch(description)

    def _mismatch(self, description):
        """Collect the operations of all workers; return the error that names them."""
        words = np.zeros((self.size, LONGEST_NAME), dtype=np.int64)
        text = f"{description} in {caller()}".encode()[:LONGEST_NAME]
        encoded = np.frombuffer(text, dtype=np.uint8)
        words[self.rank, : len(encoded)] = encoded
        words = self._reduce(words, "max", counted=False).astype(np.uint8)
        return mismatch([row.tobytes().rstrip(b"\0").decode(errors="replace") for row in words])

    def sum_scatter(self, array, lengths, sure=False):
        """Give each worker its part of the sum over all workers; see `Alone`."""
        begin = lengths[: self.rank].sum()
        n = lengths[self.rank]
        array[:n] = self.sum(array, sure)[begin : begin + n]
        return array[:n]

    def concatenate(self, array):
        """Concatenate the arrays of all workers; see `Alone`."""
        self.check_operation(operation("concatenation", array.dtype, array.shape[1:]))
        return self.joined(array, lengths(self, len(array)))

    def exchange(self, item):
        """Collect an object from every worker; see `Alone`."""
        pickled = np.frombuffer(pickle.dumps(item), dtype=np.uint8)
        size = lengths(self, len(pickled))
        parts = np.split(self.joined(pickled, size), np.cumsum(size)[:-1])
        return [pickle.loads(part.tobytes()) for part in parts]
