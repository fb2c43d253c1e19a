"""mcboost-train: train a model on a LIBSVM file, or cross-validate."""

import functools
import os
import sys
import time

from pymcboost import files
from pymcboost._text import metrics_of
from pymcboost.cli.checks import (
    DEFAULT,
    add_algorithm,
    add_class_weights,
    add_reading,
    check_layout,
    check_parameters,
    check_reading,
    check_training,
    lists_wanted,
    parsed,
    unused,
)
from pymcboost.cli.console import (
    EXIT_CODES,
    INTERRUPTED,
    IO,
    OK,
    Parser,
    UsageError,
    bounded,
    check_binary_stream,
    error_text,
    file_name,
    importing,
    noted_warnings,
    notifier,
    refuse_same,
    run,
    stream_number,
    write_bytes,
)
from pymcboost.cli.options import (
    DEFAULTS,
    add_algorithm_options,
)
from pymcboost.cli.rows import read_like, read_training, refuse_one_class, set_weights
from pymcboost.cli.workers import add_mpi, agreed, begin, check_mpi, labels_of_all, read_part
from pymcboost.registry import get_plain_class
from pymcboost.threads import counted

PROGRAM = "mcboost-train"
USAGE = f"{PROGRAM} [options] training_file [model_file]"
DESCRIPTION = """\
Train a boosted classifier on a file in LIBSVM format, CSV or Parquet, and write the model to a .mcb file. Used like
svm-train. By default, it boosts decision stumps into a small model; -a vector-tree trains trees, which usually predict
better. In messages, scoring is --metric, and X_val and y_val are the rows of -P."""
CHECKPOINT_EVERY = 300
LAYOUTS = ("list", "interval", "packed")


def main(argv=None):
    """Run ``mcboost-train`` and return its exit status; without arguments it takes those of the process."""
    return run(PROGRAM, train, argv)


def parse(argv):
    """Return the arguments, a new estimator with the parameters they ask for, and the class weights."""
    arguments, parameters, weights = read_arguments(argv)
    with importing():
        estimator = get_plain_class(arguments.algorithm)(**parameters)
        if estimator.early_stopping and not arguments.validation_file:
            import sklearn.model_selection  # noqa: F401  it sets rows aside; Ctrl-C is safe here
    arguments.lists = lists_wanted(
        arguments, estimator.booster, getattr(estimator, "loss", None), weights
    )
    check_layout(arguments, estimator)
    check_training(arguments, estimator, arguments.lists)
    return arguments, estimator, weights


def make_parser(algorithm):
    """The parser with the options of an algorithm."""
    parser = Parser(PROGRAM, USAGE, description=DESCRIPTION, epilog=EXIT_CODES)
    text = "LIBSVM text or CSV, also .gz, .bz2 or .xz, or Parquet; - for standard input"
    parser.add_argument("training_file", type=file_name, help=text)
    default = (
        "- for standard output (default: the name of the training file with .mcb added, in the "
        "current folder)"
    )
    parser.add_argument("model_file", type=file_name, nargs="?", help=default)
    add_algorithm(parser)
    add_algorithm_options(parser.add_argument_group(f"options of {algorithm.title}"), algorithm)
    _add_data_options(parser.add_argument_group("data, validation and output"))
    parser.add_common()
    return parser


def read_arguments(argv):
    """The arguments, parameters and class weights, from the table of options only: no estimator is imported."""
    parser, algorithm, arguments, parameters, weights = parsed(argv, PROGRAM, USAGE, make_parser)
    check_parameters(parser, arguments, algorithm, parameters, weights)
    check_mpi(parser, arguments, algorithm)
    arguments.unused = unused(algorithm, parameters)
    _check_files(parser, arguments)
    if "n_iter_no_change" in parameters:
        parameters.setdefault("early_stopping", True)
    shows_progress = "verbose" in parameters or sys.stderr.isatty()
    for name, default in DEFAULTS.items():
        if name in algorithm.rows:
            parameters.setdefault(name, default)
    if arguments.quiet or arguments.cross_validation or not shows_progress:
        parameters["verbose"] = 0
    return arguments, parameters, weights


def _add_data_options(group):
    """Add the options about files, validation and output."""
    add_class_weights(group)
    group.add_argument(
        "-v",
        "--cross-validation",
        type=bounded(int, "an integer >= 2", lambda n: n >= 2),
        metavar="n",
        help="n-fold stratified cross-validation, shuffled with the seed of -S, or 0 (not "
        "stratified for multi-label rows); writes no model",
    )
    group.add_argument(
        "--curve",
        action="store_true",
        help="with -v: print the error and the log loss after every round, averaged over the folds",
    )
    group.add_argument(
        "-P",
        "--validation-file",
        metavar="file",
        type=file_name,
        help="validation rows, in the format of the training file; --metric is measured on them "
        "after every round, and --early-stopping uses them",
    )
    add_reading(group)
    add_mpi(group)
    group.add_argument(
        "--layout",
        choices=LAYOUTS,
        default="list",
        help="layout of the model file. list: all weak learners in order; interval: stumps merged "
        "into one table per feature, in float32; packed, with --leaf-levels: trees with a few "
        "bits per split and leaf (default: list)",
    )
    group.add_argument(
        "--checkpoint",
        metavar="file",
        type=file_name,
        help="save the state of the training in this file, and continue from it if it exists; it "
        "is removed after the model has been written",
    )
    group.add_argument(
        "--checkpoint-every",
        metavar="s",
        type=bounded(float, "a number of seconds >= 0", lambda s: 0 <= s < float("inf")),
        help="seconds between checkpoints, 0 for one after every round (default: "
        f"{CHECKPOINT_EVERY})",
    )


def _check_files(parser, arguments):
    """Refuse combinations of files, and choose the name of the model file if none is given."""
    if arguments.cross_validation and (arguments.validation_file or arguments.model_file):
        remedy = "-P" if arguments.validation_file else "a model file"
        parser.error(f"-v writes no model and holds out folds of its own; leave out {remedy}")
    if arguments.curve and not arguments.cross_validation:
        parser.error("--curve needs -v n, the number of folds")
    if arguments.cross_validation and arguments.checkpoint:
        parser.error("-v trains one model per fold and keeps none of them; leave out --checkpoint")
    if arguments.checkpoint_every is not None and not arguments.checkpoint:
        parser.error("--checkpoint-every needs --checkpoint file")
    if arguments.training_file == "-" and not (arguments.model_file or arguments.cross_validation):
        parser.error("when training on standard input, give the name of a model file")
    if arguments.training_file == arguments.validation_file == "-":
        parser.error("only one of the training and the validation file can be standard input")
    check_reading(parser, arguments)
    arguments.model_file = (
        arguments.model_file or os.path.basename(arguments.training_file) + ".mcb"
    )
    if arguments.cross_validation:
        return
    if arguments.checkpoint and files.same_file(arguments.checkpoint, arguments.model_file):
        parser.error(
            "--checkpoint names the model file, but the checkpoint is removed after training; "
            "name another file"
        )
    inputs = {
        "training file": arguments.training_file,
        "validation file": arguments.validation_file,
    }
    refuse_same(arguments.model_file, "model file", inputs)
    inputs["model file"] = arguments.model_file
    if arguments.checkpoint:
        refuse_same(arguments.checkpoint, "checkpoint", inputs)


def check_target(path, file_kind="model file", streams=True):
    """Check before the training that output files can be written and do not overwrite anything else."""
    from pymcboost.model.file import MAGIC

    if streams and stream_number(path) is not None:
        return check_binary_stream(path, file_kind)
    files.check_target(path, file_kind, streams)
    if os.path.isfile(path) and os.path.getsize(path):
        with open(path, "rb") as stream:
            if stream.read(4) != MAGIC[:4]:
                raise UsageError(
                    f"{file_kind} {path} already exists and is not a model; remove it first if you "
                    "want to replace it"
                )


def train(argv):
    """Do what ``mcboost-train``'s arguments ask."""
    arguments, estimator, weights = parse(argv)
    workers = begin(arguments)
    note = notifier(PROGRAM, arguments.quiet or workers.rank > 0)
    try:
        return run_training(arguments, estimator, weights, note, workers)
    except BaseException as error:  # Ctrl-C, too: the others would wait
        workers.fail(error)
        raise


def run_training(arguments, estimator, weights, note, workers):
    """Read the rows; train and save a model, or cross-validate."""
    _check_outputs(arguments, workers)
    for notice in arguments.unused:
        note(notice)
    data = _read_rows(arguments, estimator, note, workers)
    if data.categories is not None:
        estimator.categorical_features = data.categories
    labels = data.labels
    if labels is None:
        labels = labels_of_all(workers, data.y)
        refuse_one_class(labels, arguments.training_file)
    set_weights(estimator, weights, labels, note)
    if arguments.libsvm_c is not None:
        _set_libsvm_c(estimator, arguments, len(data.y), note)
    validation = _read_validation(arguments, estimator, note, data, labels, workers)
    with noted_warnings(note, data.base):
        if arguments.cross_validation:
            with importing():
                from pymcboost.cli.validate import cross_validate

            return cross_validate(estimator, data.X, data.y, arguments)
        return fit_and_save(estimator, data, validation, arguments, note, workers)


def _check_outputs(arguments, workers):
    """Check that the process that writes the model and the checkpoint can do so."""
    if arguments.cross_validation or workers.rank:
        return
    check_target(arguments.model_file)
    if arguments.checkpoint:
        check_target(arguments.checkpoint, "checkpoint", streams=False)


def _read_rows(arguments, estimator, note, workers):
    """Read the training rows, or those of this worker."""
    missing = estimator.booster.allows_missing
    if arguments.divided:
        data = read_part(workers, arguments, note, allows_missing=missing)
    else:
        data = read_training(arguments, note, missing, arguments.lists, workers)
    return agreed(workers, data, note, arguments.n_features) if arguments.mpi else data


def _set_libsvm_c(estimator, arguments, n_rows, note):
    """Set C from the C of LIBSVM, which is not divided by the number of rows."""
    estimator.C = arguments.libsvm_c * n_rows
    rows = counted(n_rows, "row")
    if arguments.needs_c:
        raise UsageError(
            "--libsvm-c depends on the number of training rows, and --calibrate also trains "
            f"models on fewer rows; use -c {estimator.C:g} instead, which is for {rows}"
        )
    note(f"-c {estimator.C:g}, which is {arguments.libsvm_c:g} times {rows}")


def _read_validation(arguments, estimator, note, data, labels, workers):
    """Read the validation rows, as arguments of ``fit``."""
    from pymcboost.comm import ALONE

    if not arguments.validation_file:
        return {}
    rows = read_like(
        arguments,
        note,
        estimator.booster.allows_missing,
        data=data,
        labels=labels,
        workers=workers if arguments.validation_divided else ALONE,
    )
    return {"X_val": rows.X, "y_val": rows.y}


def model_bytes(estimator, data, layout):
    """The bytes of the model file, with facts that a test file may lack: zero-based features and column names."""
    model = estimator.model_
    columns = columns_meta(data)
    if data.labels is not None:
        model = model.relabelled(data.labels)
    if columns:
        model = model.with_meta({**model.meta, **columns})
    return model.to_bytes(layout)


def columns_meta(data):
    """Column information of the training file for the model file."""
    if not data.header:
        return {"label_column": data.label}
    if data.names:
        return {"feature_names": data.names, "label_column": data.label}
    return {} if data.base == 1 else {"index_base": data.base}


def save_anywhere(data, arguments):
    """Write the model, to another folder if its own fails. Return the path and an error message or None."""
    import tempfile

    path = arguments.model_file
    try:
        write_bytes(path, data, "model")
        return path, None
    except KeyboardInterrupt:  # a FIFO may never find a reader
        message = f"{path}: interrupted before the model was written"
    except OSError as error:
        message = error_text(error)
        if error.filename is None:
            message = f"{path}: {message}"
    stem = os.path.basename(arguments.training_file if stream_number(path) else path)
    name = f"{os.path.splitext(stem)[0].strip('-')[:40] or 'model'}-{os.urandom(4).hex()}.mcb"
    for folder in (os.getcwd, tempfile.gettempdir, lambda: os.path.expanduser("~")):
        try:
            other = os.path.join(folder(), name)
            files.write(other, data)
        except OSError:
            continue
        return other, f"{message}; the model was saved as {other} instead"
    return None, f"{message}; the model could not be written to another folder either"


def start(estimator, arguments, note, rows):
    """Return the function that trains, and the checkpoint or None."""
    if not arguments.checkpoint:
        return estimator.fit, None
    from pymcboost.training.checkpoint import Checkpoint

    every = CHECKPOINT_EVERY if arguments.checkpoint_every is None else arguments.checkpoint_every
    checkpoint = Checkpoint(arguments.checkpoint, every, note)
    checkpoint.more = columns_meta(rows)
    step = estimator._booster().restart_every
    n_rounds = estimator.n_estimators
    if step and n_rounds != "auto" and n_rounds < step:
        note(
            f"{arguments.algorithm} writes a checkpoint only every {step} rounds, and this "
            f"training has {n_rounds}: nothing is saved before its end, unless Ctrl-C ends it"
        )
    return functools.partial(checkpoint.fit, estimator), checkpoint


def fit_and_save(estimator, rows, validation, arguments, note, workers):
    """Train, save and report. After Ctrl-C, save the rounds so far."""
    fit, checkpoint = start(estimator, arguments, note, rows)
    started = time.perf_counter()
    interrupted = _train_until_interrupted(estimator, fit, rows, validation, arguments, workers)
    seconds = time.perf_counter() - started
    error_rates = None
    failure = None
    if not interrupted:
        # Before the first process writes the model, for which the others need not wait.
        error_rates, failure = _errors_or_failure(estimator, rows, validation, arguments, workers)
        if workers.rank:
            return OK
    data = model_bytes(estimator, rows, arguments.layout)
    path, problem = save_anywhere(data, arguments)
    shown = "<stdout>" if path is not None and stream_number(path) == 1 else path
    if interrupted and path is not None:
        _say_what_is_saved(estimator, shown)
    if problem is None and not interrupted:
        problem = drop(checkpoint)
    elif checkpoint and os.path.exists(arguments.checkpoint):
        note(f"run the same command again to continue from the checkpoint {arguments.checkpoint}")
    if path is not None and not interrupted:
        if failure is None:
            n_sets = 2 if validation else 1
            report(estimator, error_rates[:n_sets], arguments, note, seconds)
        note(f"{shown}: {len(data):,} bytes ({arguments.layout})")
    if problem is not None:
        print(f"{PROGRAM}: error: {problem}", file=sys.stderr)
        return IO
    if failure is not None:
        raise failure
    return INTERRUPTED if interrupted else OK


def _train_until_interrupted(estimator, fit, rows, validation, arguments, workers):
    """Train; return True if Ctrl-C ended the training after some rounds, which are a usable model."""
    communicator = {"comm": workers} if arguments.mpi else {}  # not every algorithm takes one
    try:
        fit(rows.X, rows.y, **validation, **communicator)
    except KeyboardInterrupt:
        if not getattr(estimator, "n_estimators_", 0) or workers.size > 1:
            raise
        return True
    return False


def _errors_or_failure(estimator, rows, validation, arguments, workers):
    """Return the errors on the rows of all workers and None, or None and the exception that prevented it."""
    try:
        return errors(estimator, rows, validation, arguments, workers), None
    except BaseException as error:  # Ctrl-C, too: the model is there, and is written
        workers.fail(error)
        if workers.rank:
            raise
        return None, error


def _say_what_is_saved(estimator, shown):
    """Report the rounds that an interrupted training has saved."""
    done = counted(estimator.n_estimators_, "round")
    verb = "is" if estimator.n_estimators_ == 1 else "are"
    restriction = ""
    if estimator.calibrate and not estimator.model_.is_calibrated:
        restriction = ", not calibrated"
    print(
        f"{PROGRAM}: interrupted; the {done} done {verb} saved in {shown}{restriction}",
        file=sys.stderr,
    )


def drop(checkpoint):
    """Remove the checkpoint after the model has been saved. Return an error message or None."""
    if checkpoint is None:
        return None
    try:
        checkpoint.remove()
    except OSError as error:
        return f"the model is saved, but its checkpoint could not be removed: {error_text(error)}"
    return None


def mistakes(model, X, y, n_jobs):
    """Number of wrong rows (or labels, if multi-label), and the total number."""
    return int((model.predict(X, n_jobs=n_jobs) != y).sum()), y.size


def errors(estimator, rows, validation, arguments, workers):
    """Error rates of a model on the training rows of all workers and on the validation rows."""
    import numpy as np

    from pymcboost.training.divided import threads_of

    model = estimator.model_
    n_jobs = threads_of(estimator.n_jobs, workers)
    counts = np.zeros((2, 2), dtype=np.int64)
    counts[0] = mistakes(model, rows.X, rows.y, n_jobs)
    if arguments.validation_divided:
        counts[1] = mistakes(model, validation["X_val"], validation["y_val"], n_jobs)
    counts = workers.sum(counts)
    if validation and not arguments.validation_divided:  # the other processes do not wait for it
        counts[1] = mistakes(model, validation["X_val"], validation["y_val"], n_jobs)
    return counts[:, 0] / np.maximum(1, counts[:, 1])


def report(estimator, error_rates, arguments, note, seconds):
    """Print the results of the training; ``error_rates``: see `errors`."""
    from pymcboost.training.metrics import ERRORS

    rounds = estimator.n_estimators_
    cv_results = getattr(estimator, "cv_results_", None)
    n_estimators = cv_results["n_estimators"] if cv_results else estimator.n_estimators
    if cv_results and len(cv_results["mean"]):
        best = cv_results["best_round"]
        tried = counted(cv_results["rounds"][-1], "round")
        value = cv_results["mean"][cv_results["rounds"].searchsorted(best)]
        deciding = next(iter(metrics_of(estimator.scoring)))
        note(
            f"{len(cv_results['folds'])} folds: best mean {deciding} {value:.6g}, after {best} of {tried}"
        )
    if rounds < n_estimators:
        note(f"{rounds} of {counted(n_estimators, 'round')}: {estimator._ended}")
    note(
        f"{arguments.algorithm}: {counted(rounds, 'round')} in {seconds:.3g} s, "
        f"training error {100 * error_rates[0]:.4g}%"
    )
    if arguments.algorithm_by_default and estimator.weak_learner == "stump":
        note(
            f"these are decision stumps, as -a {DEFAULT} trains them by default; -a vector-tree trains trees, "
            "which usually predict better"
        )
    if estimator.model_.is_calibrated:
        note(f"temperature {estimator.model_.temperature:.4g}")
    for rate in error_rates[1:]:
        note(f"validation error {100 * rate:.4g}%")
    for metric in metrics_of(estimator.scoring):
        curve = estimator.history_.get(f"val_{metric}", ())
        if len(curve):
            best = int(curve.argmin() if metric in ERRORS else curve.argmax())
            note(f"best validation {metric} {curve[best]:.6g}, after {counted(best + 1, 'round')}")


if __name__ == "__main__":
    sys.exit(main())
