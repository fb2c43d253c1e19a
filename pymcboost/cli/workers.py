"""Training in several processes started by mpiexec: each reads its part of the rows, and one writes the model."""

from pymcboost.cli.console import UsageError, table_kind

RANK = "%r"
DIVIDED = "-a vector-tree, logitboost, mart, abc-logitboost, abc-mart and mcboost"


def add_mpi(group):
    """Add the option --mpi."""
    group.add_argument(
        "--mpi",
        action="store_true",
        help="train on the rows of all processes started by mpiexec. Each process reads its part "
        "of one LIBSVM file, or its own file if the name contains %%r, which stands for the "
        f"number of the process, from 0 ({DIVIDED})",
    )


def check_mpi(parser, arguments, algorithm):
    """Refuse options that do not work with several processes."""
    if not arguments.mpi:
        return
    if not algorithm.workers:
        parser.error(f"--mpi works with {DIVIDED}; {algorithm.name} trains in one process")
    if not arguments.model_file and not arguments.cross_validation:
        parser.error("--mpi needs the name of a model file")
    if arguments.cross_validation:
        parser.error("-v runs in one process; leave out --mpi or -v")
    if table_kind(arguments.training_file, arguments.format):
        parser.error("--mpi reads LIBSVM text")
    if RANK not in arguments.training_file:
        _check_one_file(parser, arguments)


def _check_one_file(parser, arguments):
    """Refuse a single training file that cannot be split among the processes."""
    from pymcboost.data.archives import suffix_of

    remedy = "give each process its own file, with %r in the name for the number of the process"
    if arguments.training_file == "-":
        parser.error(f"--mpi cannot split standard input among the processes; {remedy}")
    suffix = suffix_of(arguments.training_file)
    if suffix:
        parser.error(
            f"--mpi cannot split a {suffix} file among the processes; decompress it, or {remedy}"
        )
    if getattr(arguments, "loss", None) == "logistic" or getattr(arguments, "multilabel", False):
        parser.error(f"--mpi cannot split a multi-label file; {remedy}")


def begin(arguments):
    """Return the communicator, and put this process's file names into ``arguments``."""
    from pymcboost.comm import ALONE, MPIWorkers

    arguments.divided = False
    arguments.validation_divided = False
    if not arguments.mpi:
        return ALONE
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise UsageError(f"--mpi needs the package mpi4py: {error}") from error
    workers = MPIWorkers(MPI.COMM_WORLD)
    arguments.divided = RANK not in arguments.training_file
    arguments.training_file = arguments.training_file.replace(RANK, str(workers.rank))
    validation = arguments.validation_file
    arguments.validation_divided = bool(validation) and RANK in validation
    if arguments.validation_divided:
        arguments.validation_file = validation.replace(RANK, str(workers.rank))
    elif validation and workers.rank:
        arguments.validation_file = None  # the first process reads it for all
    return workers


def read_part(workers, arguments, note, allows_missing):
    """Read the lines of the training file that start in this process's range of its bytes.

    Messages use the line and row numbers of the whole file.
    """
    from pymcboost.cli.rows import Rows, check_row_labels, check_values, rows_of_all
    from pymcboost.comm import before
    from pymcboost.data.svmlight import load_stream
    from pymcboost.data.textblocks import LineRange

    path = arguments.training_file
    base = arguments.base
    with LineRange(path, workers.rank, workers.size) as stream:
        data, _, entries = load_stream(
            stream,
            path,
            stream.end - stream.begin,
            n_features=arguments.n_features,
            base=base if base == "auto" else int(base),
            lines=before(workers, stream.count_lines()),
        )
    begin = int(rows_of_all(workers, path, data, note)[: workers.rank].sum())
    check_row_labels(path, data, begin)
    rows = Rows(data.X, data.y.astype("int64"), data.base, entries=entries)
    check_values(path, rows, allows_missing, begin)
    return rows


def agreed(workers, data, note, n_features=None):
    """The rows as a matrix with the columns of all processes, dense or sparse as if one process held all rows."""
    import numpy as np

    from pymcboost.data.svmlight import better_dense

    base = -int(workers.maximum(np.array([-data.base]))[0])
    shift = data.base - base
    width = n_features or int(workers.maximum(np.array([data.X.shape[1] + shift]))[0])
    if not width:
        raise ValueError("no row has a feature; if that is intended, give n_features")
    matrix = data.X[:, : width - shift]
    n_rows = matrix.shape[0]
    n_all, entries = workers.sum(np.array([n_rows, data.entries])).tolist()
    dense = better_dense(n_all, width, entries)
    if dense:
        if hasattr(matrix, "toarray"):
            matrix = matrix.toarray()
        X = np.zeros((n_rows, width), dtype=np.float32)
        X[:, shift : shift + matrix.shape[1]] = matrix
    else:
        import scipy.sparse

        matrix = scipy.sparse.csr_matrix(matrix)
        X = scipy.sparse.csr_matrix(
            (matrix.data, matrix.indices + shift, matrix.indptr), shape=(n_rows, width)
        )
    form = "densely" if dense else "sparse"
    note(f"process {workers.rank} of {workers.size}: {n_rows} rows, {width} features, held {form}")
    return data._replace(X=X, base=base)


def labels_of_all(workers, y):
    """The distinct labels of the rows of all processes, ascending."""
    import numpy as np

    return np.unique(np.concatenate(workers.exchange(np.unique(y))))
