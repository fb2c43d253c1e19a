"""Errors of workers."""


class WorkerError(ConnectionError):
    """Error if another worker of a distributed training has failed."""
