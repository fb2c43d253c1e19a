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


class Several:
    """`Alone`'s methods that follow from others; a subclass has `sum` and ``joined(array, lengths)``."""

    def concatenate(self, array):
        """See `Alone`."""
        return self.joined(array, lengths(self, len(array)))

    def exchange(self, what):
        """See `Alone`."""
        text = np.frombuffer(pickle.dumps(what), dtype=np.uint8)
        size = lengths(self, len(text))
        return [pickle.loads(part.tobytes()) for part in np.split(self.joined(text, size), np.cumsum(size)[:-1])]
