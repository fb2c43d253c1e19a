"""Communicators, through which the workers of a distributed training exchange data.

`as_workers` creates one from the argument ``comm`` of `fit`. `Alone` documents the methods.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pymcboost.comm.alone import ALONE, Alone
from pymcboost.comm.collective import CollectiveWorkers
from pymcboost.comm.errors import WorkerError
from pymcboost.comm.mpi import MPIWorkers
from pymcboost.comm.several import before, lengths, row_numbers, shares

__all__ = [
    "ALONE",
    "Alone",
    "CollectiveWorkers",
    "MPIWorkers",
    "WorkerError",
    "as_workers",
    "before",
    "hearing",
    "lengths",
    "release",
    "row_numbers",
    "shares",
]


def as_workers(comm: Any) -> Any:
    """Create a communicator from None, a communicator of this package, or one of mpi4py's."""
    if comm is None:
        return ALONE
    if hasattr(comm, "exchange") and hasattr(comm, "maximum"):
        return comm
    if hasattr(comm, "Iallreduce") and hasattr(comm, "Split_type"):
        return MPIWorkers(comm)
    raise TypeError(
        "comm must be an mpi4py communicator such as MPI.COMM_WORLD, or one of "
        f"pymcboost.comm, not {type(comm).__name__}"
    )


def release(workers: Any, comm: Any) -> None:
    """Free the communicator that `as_workers` made from ``comm``, after a successful training.

    All workers call it together.
    """
    if workers is not comm and workers is not ALONE:
        workers.free()


def hearing(workers: Any) -> AbstractContextManager[None]:
    """Context of a training, in which Ctrl-C does not separate workers that wait for each other.

    See `MPIWorkers.hearing`.
    """
    return workers.hearing() if hasattr(workers, "hearing") else nullcontext()
