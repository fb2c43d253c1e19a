"""Communicator for workers that are MPI processes."""

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np

from pymcboost.comm.errors import WorkerError
from pymcboost.comm.several import NO_OPERATION, Several, operation

# Maximum number of bytes of a failed worker's message.
LONGEST = 2000
# While waiting, a worker polls this many times, and each time offers its core to others; then it sleeps between polls
# for this many seconds. Workers that share cores sleep sooner, because the worker that they wait for needs the core.
POLLS = 2000
POLLS_SHARED = 1000
SLEEP = 2e-5


# Windows has no such function.
_offer_core = getattr(os, "sched_yield", lambda: None)


def _cores():
    """Number of cores on which this process may run, ignoring limits on threads."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class MPIWorkers(Several):
    """Communicator of workers that are MPI processes; see `Alone` for the methods.

    ``fit(..., comm=MPI.COMM_WORLD)`` creates one. Create it yourself to set the timeout.

    Before each operation, except sums that are sure, workers exchange their state, so an error on one worker raises an
    error on all of them. An operation that takes longer than the timeout ends all processes. Ctrl-C during training is
    raised at the next exchange, because all workers must do the same operations. Pressed twice, it is raised at once.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        Communicator of mpi4py, which is duplicated.
    timeout : float, default=600.0
        Seconds that a worker waits for the others.
    """

    def __init__(self, comm, timeout=600.0):
        from mpi4py import MPI

        if not timeout > 0:
            raise ValueError(
                f"MPIWorkers: timeout={timeout!r} is not allowed; it must be a number of seconds above 0"
            )
        self._mpi = MPI
        self._comm = comm.Dup()
        self.timeout = float(timeout)
        self.size = comm.Get_size()
        self.rank = comm.Get_rank()
        same_machine = comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.beside = same_machine.Get_size()
        same_machine.Free()
        self.n_sums = 0
        self.n_bytes = 0
        self._failed = False
        self._interrupted = False
        self._n_polls = POLLS if self.beside <= _cores() else POLLS_SHARED

    def sum_scatter(self, array, lengths, sure=False):
        """Sum an array over all workers, and give each worker one part of the result; see `Alone`."""
        if not sure:
            self.check_operation(operation("scattered sum", array.dtype, array.shape))
        self.n_sums += 1
        self.n_bytes += array.nbytes // 2
        counts = lengths * int(np.prod(array.shape[1:], dtype=np.int64))
        # Not in place, where MPICH 5.0.2 copies a part over itself.
        share = np.empty_like(array[: lengths[self.rank]])
        self._wait(self._comm.Ireduce_scatter(array, share, counts, self._mpi.SUM))
        array[: len(share)] = share
        return array[: len(share)]

    def joined(self, array, lengths):
        """Concatenate the arrays of all workers; see `Several`."""
        joined = np.empty((lengths.sum(), *array.shape[1:]), dtype=array.dtype)
        counts = lengths * int(np.prod(array.shape[1:], dtype=np.int64))
        self._wait(self._comm.Iallgatherv(np.ascontiguousarray(array), [joined, counts]))
        return joined

    def gather(self, array, lengths, owner):
        """Concatenate the arrays of all workers on the owner; see `Alone`."""
        self.check_operation(operation("collection", array.dtype, array.shape[1:]))
        is_owner = self.rank == owner
        joined = np.empty(lengths.sum() if is_owner else 0, dtype=array.dtype)
        target = [joined, lengths] if is_owner else None
        self._wait(self._comm.Igatherv(array, target, root=owner))
        return joined

    def broadcast(self, item):
        """Send an object from worker 0 to all workers; see `Alone`."""
        return self.exchange(item if self.rank == 0 else None)[0]

    def check(self, stop=False):
        """Check whether any worker wants to stop the training; see `Alone`."""
        return bool(self._state(np.array([0, stop, *NO_OPERATION], dtype=np.int64))[1])

    def fail(self, error):
        """Tell the other workers that this worker has failed; see `Alone`."""
        if self._failed:
            return
        self._interrupted = False
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        try:
            self._state(np.array([self.rank + 1, 0, *NO_OPERATION], dtype=np.int64), text)
        except WorkerError:
            pass  # this worker has already failed with another error

    def free(self):
        """Free the communicator, because MPI supports only a few thousand. All workers call this last."""
        self._comm.Free()

    @contextmanager
    def hearing(self):
        """Context in which Ctrl-C is deferred: it is raised at the next exchange of states, or at the end."""
        in_main_thread = threading.current_thread() is threading.main_thread()
        has_own_handler = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        if self.size == 1 or not in_main_thread or has_own_handler:
            yield
            return
        signal.signal(signal.SIGINT, self._defer)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt

    def _defer(self, *_):
        """Note the first Ctrl-C, and raise the second."""
        if self._interrupted:
            self._failed = True  # the others are not notified
            raise KeyboardInterrupt
        self._interrupted = True

    def _state(self, state, text=""):
        """Maximum of the state words of all workers: failed, stop, and the number of an operation and its negative."""
        if self._failed:
            raise WorkerError("a worker has failed before; start again with a new communicator")
        if self._interrupted:
            self._interrupted = False
            raise KeyboardInterrupt
        state = self._reduce(state, "max", counted=False)
        if not state[0]:
            return state
        self._failed = True
        rank = int(state[0]) - 1
        words = np.zeros(LONGEST, dtype=np.uint8)
        if rank == self.rank:
            encoded = np.frombuffer(text.encode()[:LONGEST], dtype=np.uint8)
            words[: len(encoded)] = encoded
        self._wait(self._comm.Ibcast(words, root=rank))
        message = words.tobytes().rstrip(b"\0").decode(errors="replace")
        raise WorkerError(f"worker {rank} of {self.size} failed: {message}")

    def _mismatch(self, description):
        self._failed = True
        return super()._mismatch(description)

    def _reduce(self, array, operation, counted=True):
        """Sum an array over all workers, or take the maximum, in place."""
        if counted:
            self.n_sums += 1
            self.n_bytes += array.nbytes
        operator = self._mpi.MAX if operation == "max" else self._mpi.SUM
        self._wait(self._comm.Iallreduce(self._mpi.IN_PLACE, array, operator))
        return array

    def _wait(self, request):
        """Wait until an operation is done; Ctrl-C is deferred until then, unless it is pressed twice."""
        try:
            self._poll(request)
        except KeyboardInterrupt:
            if self._interrupted:
                raise
            self._interrupted = True
            self._poll(request)

    def _poll(self, request):
        """Poll until an operation is done; end all processes after the timeout."""
        for _ in range(self._n_polls):
            if request.Test():
                return
            _offer_core()
        end = time.monotonic() + self.timeout
        while not request.Test():
            if time.monotonic() > end:
                sys.stderr.write(
                    f"pymcboost: worker {self.rank} of {self.size} has waited {self.timeout:g} s for the others; one "
                    "has stopped. All are ended\n"
                )
                sys.stderr.flush()
                self._comm.Abort(1)
            time.sleep(SLEEP)
