"""Trainings of several processes, which mpiexec starts: each reads its own files and one writes the model."""

from pymcboost.cli.console import UsageError, table_kind

RANK = "%r"
CHUNKED = "-a vector-tree, logitboost, mart, abc-logitboost and abc-mart"
DIVIDED = (
    f"{CHUNKED}; for the stumps of -a mcboost, adaboost-ecc, adaboost-erp, adaboost-mh, adaboost-mo, adaboost-oc and "
    "piboost"
)


def add_mpi(group):
    """Add the option --mpi."""
    group.add_argument(
        "--mpi",
        action="store_true",
        help="train on the rows of all processes that mpiexec has started; %%r in the names of LIBSVM files stands for "
        f"the number of the process, from 0 ({DIVIDED})",
    )


def check_beside(parser, given, option, place):
    """Refuse the options that are given beside this one."""
    for name, value in given.items():
        if value:
            parser.error(f"{name} is for {place}; leave out {option} or {name}")


def check_mpi(parser, arguments, algorithm):
    """Refuse what several processes do not do."""
    if not arguments.mpi:
        return
    if not algorithm.workers:
        parser.error(f"--mpi is for {DIVIDED}; {algorithm.name} trains in one process")
    if RANK not in arguments.training_file:
        parser.error("--mpi needs a training file for each process, with %r in its name for the number of the process")
    if not arguments.model_file and not arguments.cross_validation:
        parser.error("--mpi needs the name of a model file")
    given = {"-v": arguments.cross_validation, "--checkpoint": arguments.checkpoint}
    check_beside(parser, given, "--mpi", "one process")
    if table_kind(arguments.training_file, arguments.format):
        parser.error("--mpi reads LIBSVM text")


def begin(arguments):
    """The communicator, with the names of this process's files in ``arguments``; None without --mpi."""
    if not arguments.mpi:
        return None
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise UsageError(f"--mpi needs the package mpi4py: {error}") from error
    from pymcboost.comm import MPIWorkers

    workers = MPIWorkers(MPI.COMM_WORLD)
    arguments.training_file = arguments.training_file.replace(RANK, str(workers.rank))
    validation = arguments.validation_file
    if validation and RANK in validation:
        arguments.validation_file = validation.replace(RANK, str(workers.rank))
    elif validation and workers.rank:
        arguments.validation_file = None  # the first process reads it for all
    return workers


def agreed(workers, data, note):
    """The rows as a dense matrix with the columns of all processes."""
    import numpy as np

    base = -int(workers.maximum(np.array([-data.base]))[0])
    shift = data.base - base
    width = int(workers.maximum(np.array([data.X.shape[1] + shift]))[0])
    X = np.zeros((data.X.shape[0], width), dtype=np.float32)
    X[:, shift : shift + data.X.shape[1]] = data.X.toarray() if hasattr(data.X, "toarray") else data.X
    note(f"process {workers.rank} of {workers.size}: {X.shape[0]} rows, {width} features, held densely")
    return data._replace(X=X, base=base)
