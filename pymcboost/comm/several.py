"""What communicators of several workers have in common."""

import pickle

import numpy as np


def lengths(comm, n):
    """How many of something every worker has, of which this one has n: int64 (size,)."""
    found = np.zeros(comm.size, dtype=np.int64)
    found[comm.rank] = n
    return comm.sum(found)


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
    owner = (2 * ends - sizes) * n // (2 * ends[-1])  # the part in which the middle of the item lies
    return np.searchsorted(owner, np.arange(n + 1))


class Several:
    """`Alone`'s methods that follow from others; a subclass has `sum` and ``joined(array, lengths)``."""

    row_number = None
    # Half of a scattered sum need not be sent, but what the shares give is one message more: at 10 Gbit/s and 30
    # microseconds a step it pays from 150 kB on with 2 workers, and from 320 kB with 16. It is more, as workers wait
    # for the slowest at every message: on one busy machine those of 400 kB were slower.
    scattered = 1 << 20

    def sum_scatter(self, array, lengths, sure=False):
        """See `Alone`: the sum of all is taken."""
        begin, n = lengths[: self.rank].sum(), lengths[self.rank]
        array[:n] = self.sum(array, sure)[begin : begin + n]
        return array[:n]

    def concatenate(self, array):
        """See `Alone`."""
        return self.joined(array, lengths(self, len(array)))

    def exchange(self, what):
        """See `Alone`."""
        text = np.frombuffer(pickle.dumps(what), dtype=np.uint8)
        size = lengths(self, len(text))
        return [pickle.loads(part.tobytes()) for part in np.split(self.joined(text, size), np.cumsum(size)[:-1])]
