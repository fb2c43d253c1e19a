"""Errors of workers."""


class WorkerError(ConnectionError):
    """Another worker of the same training has failed."""
