"""Communicator for a single worker, which has all rows."""


class Alone:
    """Communicator of a training with a single worker. All other communicators have the same methods.

    Implement these methods to connect workers by another library than MPI or XGBoost's collective. All workers call the
    same methods in the same order. Arrays are C-contiguous, have the dtype int64 or float64 (`sum` also accepts int32),
    and have the same dtype and shape on all workers; for `concatenate`, lengths may differ. Before each operation,
    except if ``sure`` is true, workers compare the operations they are about to do. If one differs, all workers raise
    an error that names the operations. Sums of float64 are requested only if they are exact.

    Attributes
    ----------
    size : int
        Number of workers.
    rank : int
        Number of this worker, from 0.
    beside : int
        Number of workers on this machine, which share its cores.
    scattered : float
        Size of histograms in bytes from which `sum_scatter` is used.
    row_number : ndarray of int64 of shape (n,) or None
        Numbers of this worker's rows among the rows of all workers. None if rows are numbered worker after worker. With
        Dask, partitions may be on any worker.
    n_sums : int
        Number of sums and maxima so far.
    n_bytes : int
        Size of their arrays in bytes. Scattered sums count half, because they transfer half as much.
    """

    size = 1
    rank = 0
    beside = 1
    scattered = float("inf")
    row_number = None
    n_sums = 0
    n_bytes = 0

    def __reduce__(self):
        """Keep `ALONE` a singleton when copied, because it marks trainings without a communicator."""
        return "ALONE" if self is ALONE else super().__reduce__()

    def sum(self, array, sure=False):
        """Sum an array over all workers, in place.

        Parameters
        ----------
        array : ndarray
            Terms of this worker.
        sure : bool, default=False
            Whether no worker can have failed since the last operation, so that workers need not compare operations.

        Returns
        -------
        ndarray
            The same array with the sums.
        """
        return array

    def sum_scatter(self, array, lengths, sure=False):
        """Sum an array over all workers, and give each worker one part of the result.

        Parameters
        ----------
        array : ndarray
            Terms of this worker. Afterwards it starts with the part of this worker, and the rest is undefined.
        lengths : ndarray of int64 of shape (size,)
            Number of rows of the part of each worker, one part after the other.
        sure : bool, default=False
            As in `sum`.

        Returns
        -------
        ndarray
            The part of this worker.
        """
        return array

    def maximum(self, array):
        """Compute the element-wise maximum of an array over all workers, in place.

        Parameters
        ----------
        array : ndarray
            Values of this worker.

        Returns
        -------
        ndarray
            The same array with the maxima.
        """
        return array

    def concatenate(self, array):
        """Concatenate the arrays of all workers along the first axis, in the order of their ranks.

        Parameters
        ----------
        array : ndarray
            Array of this worker. Lengths may differ.

        Returns
        -------
        ndarray
            The concatenated array.
        """
        return array

    def gather(self, array, lengths, owner):
        """Concatenate the arrays of all workers as `concatenate` does, on one worker only.

        Parameters
        ----------
        array : ndarray
            Array of this worker.
        lengths : ndarray of int64 of shape (size,)
            Lengths of the arrays of all workers.
        owner : int
            Rank of the worker that receives the result.

        Returns
        -------
        ndarray
            The concatenated array on the owner, and an empty array on the other workers.
        """
        return array

    def exchange(self, item):
        """Collect an object from every worker.

        Parameters
        ----------
        item : object
            Object of this worker, which can be pickled.

        Returns
        -------
        list
            Objects of all workers, in the order of their ranks.
        """
        return [item]

    def check(self, stop=False):
        """Check whether any worker wants to stop the training.

        Parameters
        ----------
        stop : bool, default=False
            Whether this worker wants to stop.

        Returns
        -------
        bool
            Whether any worker wants to stop.

        Raises
        ------
        WorkerError
            If another worker has failed.
        """
        return stop

    def fail(self, error):
        """Tell the other workers that this worker has failed.

        Parameters
        ----------
        error : BaseException
            The error, which this worker raises afterwards.
        """

    def broadcast(self, item):
        """Send an object from worker 0 to all workers.

        Parameters
        ----------
        item : object
            Object of this worker, which can be pickled. Only the one of worker 0 is used.

        Returns
        -------
        object
            The object of worker 0.
        """
        return item


ALONE = Alone()
