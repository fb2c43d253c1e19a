"""Errors of distributed training."""


class WorkerError(ConnectionError):
    """Raised if another worker of a distributed training has failed."""
