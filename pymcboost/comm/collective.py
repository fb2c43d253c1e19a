"""Communicator for workers that XGBoost's collective connects, for example with Dask."""

import numpy as np

from pymcboost.comm.errors import WorkerError
from pymcboost.comm.several import NO_OPERATION, Several, operation

MISSING = (
    "training with Dask needs XGBoost's collective; install one of the packages xgboost and "
    "xgboost-cpu, not both, because they install the same files"
)


def collective():
    """Return XGBoost's module, or raise an error that says what to install."""
    try:
        from xgboost import collective as module
    except ImportError as error:
        raise ImportError(MISSING) from error
    return module


class CollectiveWorkers(Several):
    """Communicator of workers connected by XGBoost's collective; see `Alone` for the methods.

    Create it inside ``xgboost.collective.CommunicatorContext``, and use it in the thread that has entered the context.
    In another thread, a sum would be the worker's own, so the number of workers is checked before every operation. A
    dead worker raises an error at once, and a silent one after the timeout of the context.

    Parameters
    ----------
    stopped : callable, default=None
        Function that is called before every operation. If it returns a true value, training ends with a `WorkerError`.
    row_number : ndarray of int64 of shape (n,), default=None
        Numbers of the rows of this worker; see `Alone`.
    """

    def __init__(self, stopped=None, row_number=None):
        self._module = collective()
        self._stopped = stopped
        self.row_number = row_number
        self.n_sums = 0
        self.n_bytes = 0
        self.size = self._module.get_world_size()
        self.rank = self._module.get_rank()
        names = self.exchange(self._module.get_processor_name()) if self.size > 1 else [""]
        self.beside = names.count(names[self.rank])

    def gather(self, array, lengths, owner):
        """Concatenate the arrays of all workers on the owner; see `Alone`."""
        self.check_operation(operation("collection", array.dtype, array.shape[1:]))
        joined = self.joined(array, lengths)
        return joined if self.rank == owner else joined[:0]

    def broadcast(self, item):
        """Send an object from worker 0 to all workers; see `Alone`."""
        self._check_connection()
        return self._module.broadcast(item, 0)

    def check(self, stop=False):
        """Check whether any worker wants to stop the training; see `Alone`."""
        return bool(self._state(np.array([0, stop, *NO_OPERATION], dtype=np.int64))[1])

    def fail(self, error):
        """Do nothing, because the others notice that the connection ends; see `Alone`."""

    def joined(self, array, lengths):
        """Sum arrays of zeros with each worker's array at its position; see `Several`."""
        if array.dtype == np.uint8:  # uint8 cannot be summed
            return self.joined(array.astype(np.int64), lengths).astype(np.uint8)
        joined = np.zeros((lengths.sum(), *array.shape[1:]), dtype=array.dtype)
        begin = lengths[: self.rank].sum()
        joined[begin : begin + len(array)] = array
        return self._reduce(joined, "sum")

    def _state(self, state):
        return self._reduce(state, "max", counted=False)

    def _reduce(self, array, operation, counted=True):
        """Sum an array over all workers, or take the maximum, in place."""
        self._check_connection()
        if counted:
            self.n_sums += 1
            self.n_bytes += array.nbytes
        if array.size:
            operator = self._module.Op.MAX if operation == "max" else self._module.Op.SUM
            result = self._module.allreduce(array, operator)
            array[...] = result.reshape(array.shape)  # older versions return a flat array
        return array

    def _check_connection(self):
        """Raise an error if the training was interrupted, or if this thread does not belong to the communicator."""
        if self._stopped and self._stopped():
            raise WorkerError("the training was interrupted")
        if self._module.get_world_size() != self.size:
            raise WorkerError(
                f"this thread does not belong to the communicator, which has {self.size} "
                "workers; enter CommunicatorContext and train in the same thread"
            )
