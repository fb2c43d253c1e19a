"""One worker, which has all rows."""


class Alone:
    """The communicator of a training that has one worker. Others have the same methods.

    All workers call the same methods in the same order. Arrays are C-contiguous, int64 or float64 (``sum`` takes int32
    as well), and of one dtype and shape on all workers; those of `concatenate` may have other lengths. Before every
    operation that is not sure, workers compare what they are about to do: where one differs, all raise an error that
    names the operations. Sums of float64 are only asked for where they are exact.

    Attributes
    ----------
    size : int
        Number of workers.
    rank : int
        Which of them this is, from 0.
    beside : int
        Workers on this machine, which share its cores.
    scattered : float
        Bytes of histograms from which on their sums are scattered.
    row_number : ndarray of int64 (n,) or None
        Numbers of this worker's rows among those of all, where they are not their places, worker after worker: Dask's
        partitions may lie anywhere.
    n_sums, n_bytes : int
        Sums and maxima so far, and the bytes of their arrays; half of them where sums are scattered, which move half as
        many.
    """

    size, rank, beside, scattered = 1, 0, 1, float("inf")
    row_number = None
    n_sums = n_bytes = 0

    def __reduce__(self):
        """A copy of `ALONE` is `ALONE`, by which trainings without a communicator are known."""
        return "ALONE" if self is ALONE else super().__reduce__()

    def sum(self, array, sure=False):
        """Sum over the workers, in place; returns the array. If sure, no worker has failed since the last operation."""
        return array

    def sum_scatter(self, array, lengths, sure=False):
        """Sum of this worker's part of the array, which the array begins with then; the rest of it is lost.

        ``lengths``, int64 (size,), is how many rows of the array each worker's part has, one part after the other.
        Returns the part. Arrays and ``sure`` are as in `sum`.
        """
        return array

    def maximum(self, array):
        """Maximum over the workers, in place; returns the array."""
        return array

    def concatenate(self, array):
        """The arrays of all workers, one after the other along the first axis, in the order of their ranks."""
        return array

    def gather(self, array, lengths, owner):
        """What `concatenate` gives, of arrays of these lengths, at one worker; an empty array at the others."""
        return array

    def exchange(self, what):
        """What every worker has, in a list: objects that can be pickled."""
        return [what]

    def check(self, stop=False):
        """Whether any worker says stop. Where one has failed, an error here as well."""
        return stop

    def fail(self, error):
        """Tell the others that this worker has failed; the error is raised after it."""

    def broadcast(self, what):
        """What worker 0 has: an object that can be pickled."""
        return what


ALONE = Alone()
