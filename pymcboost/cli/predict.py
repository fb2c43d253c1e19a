"""mcboost-predict: predict the rows of a LIBSVM file with a model file. Needs NumPy only."""

import sys
from types import SimpleNamespace

from pymcboost.cli.answers import accuracy, answers, new_missing, words, write
from pymcboost.cli.console import (
    EXIT_CODES,
    Parser,
    UsageError,
    add_format,
    bounded,
    check_output,
    check_table,
    importing,
    load_named,
    notifier,
    refuse_same,
    run,
    shown_path,
    stream_number,
    table_kind,
    thread_count,
    whole_file,
)
from pymcboost.cli.stream import answer_stream

PROGRAM = "mcboost-predict"
NO_MODEL_FILE = 2  # MCB_E_MAGIC of mcb.h
USAGE = f"{PROGRAM} [options] test_file model_file output_file"
DESCRIPTION = """\
Predict the rows of a file in LIBSVM format, CSV or Parquet. Used like svm-predict. In LIBSVM text, features that a
row does not list are 0, and features that the model does not have are ignored. If the rows have labels, the accuracy
is printed on standard output, or on standard error if the output file is -."""


def main(argv=None):
    """Run ``mcboost-predict`` and return its exit status."""
    return run(PROGRAM, predict, argv)


def make_parser():
    """The parser."""
    parser = Parser(PROGRAM, USAGE, description=DESCRIPTION, epilog=EXIT_CODES)
    parser.add_argument(
        "test_file",
        help="LIBSVM text or CSV, also .gz, .bz2 or .xz, or Parquet; - for standard input",
    )
    parser.add_argument(
        "model_file", help=".mcb file written by mcboost-train or by save() in Python"
    )
    parser.add_argument(
        "output_file", help="receives one predicted label per line; - for standard output"
    )
    for flag, name, text in (
        (
            "-b",
            "probability",
            "1: write a line 'labels ...', then after each label the probability of every class",
        ),
        (
            "-d",
            "decision-values",
            "1: the same with the score of every class instead of its probability",
        ),
    ):
        words = f"0 or 1: {flag} needs one of them after it, as in {flag} 1"
        kind = bounded(int, words, lambda value: value in (0, 1))
        parser.add_argument(
            flag, f"--{name}", type=kind, metavar="{0,1}", default=0, help=f"{text} (default: 0)"
        )
    parser.add_argument(
        "-j",
        "--n-jobs",
        type=thread_count,
        metavar="n",
        help="number of threads, -1 for all CPUs (default: 1 for less than 10,000 rows, otherwise "
        "all CPUs)",
    )
    parser.add_argument(
        "--rounds",
        metavar="t",
        type=bounded(int, "a number of rounds: 0 or more", lambda value: value >= 0),
        help="use only the first t rounds of the model, without its calibration; multi-label "
        "thresholds stay those of all rounds (default: all)",
    )
    parser.add_argument(
        "--early",
        choices=("certified", "calibrated", "rejection"),
        help="skip weak learners with this early exit, which mcboost-convert --early or "
        "with_early_exit() in Python has added to the model; the share of learners evaluated "
        "is printed on standard error",
    )
    parser.add_argument(
        "--missing",
        choices=("allow", "error"),
        default="allow",
        help="error: reject missing values in columns that had none in training (default: allow)",
    )
    parser.add_argument(
        "--base",
        choices=("auto", "0", "1"),
        default="auto",
        help="index of the first feature in the file (default: auto, which is 0 if the model was "
        "trained on a zero-based file or an index 0 occurs, else 1)",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="print, after the accuracy, the recall, precision and log loss of every class, and "
        "the confusion matrix",
    )
    parser.add_argument(
        "--stream",
        action="store_true",
        help="answer each row as soon as it is read, and flush every line",
    )
    add_format(parser)
    parser.add_common()
    return parser


def parse(argv):
    """Return the arguments as a namespace."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if arguments.early and (arguments.probability or arguments.decision_values):
        parser.error(
            "-b 1 and -d 1 need the scores of all learners, which --early does not compute; leave "
            "one of them out"
        )
    if arguments.probability and arguments.decision_values:
        parser.error("-b 1 and -d 1 cannot be used together")
    has_text_options = arguments.stream or arguments.base != "auto"
    what = "--stream and --base are for"
    check_table(parser, arguments.test_file, arguments, has_text_options, what)
    if arguments.report and arguments.stream:
        parser.error(
            "--report needs all rows, and --stream does not keep them; leave one of them out"
        )
    return arguments


def information(model, path, note):
    """The model's ``meta``. If it cannot be read, print a notice and ignore it, because scores do not need it."""
    from pymcboost.model.file import ModelFormatError

    try:
        return model.meta
    except ModelFormatError as error:
        note(f"{path}: {error}; predicting without it")
        return {}


def cut(model, rounds, path):
    """Return the model truncated to the first rounds; refuse models that have no rounds."""
    if model.is_machine:
        raise UsageError(
            f"--rounds does not work with {path}, a linear or kernel machine: its rounds are merged"
        )
    if model.n_rounds is None:
        raise UsageError(
            f"--rounds does not work with {path}, an interval table: its rounds are merged"
        )
    if not model.has_stages:
        raise UsageError(
            f"--rounds does not work with {path}: the model is totally corrective, so its "
            "first rounds are not a model"
        )
    if rounds > model.n_rounds:
        raise UsageError(
            f"--rounds must be from 0 to {model.n_rounds}, the number of rounds in {path}"
        )
    return model.truncate(rounds)


def opened(path):
    """Load the model. If the file is not a model, the error also gives the order of the arguments."""
    with importing():
        from pymcboost.model.file import ModelFormatError
        from pymcboost.model.model import load_model

    try:
        return load_named(load_model, path)
    except ModelFormatError as error:
        if error.status != NO_MODEL_FILE:
            raise
        raise ModelFormatError(
            f"{error}; the order of arguments is test_file model_file output_file", error.status
        ) from None


def predict(argv):
    """Do what ``mcboost-predict``'s arguments ask."""
    arguments = parse(argv)
    note = notifier(PROGRAM, arguments.quiet)

    inputs = {"test file": arguments.test_file, "model file": arguments.model_file}
    refuse_same(arguments.output_file, "output file", inputs)
    check_output(arguments.output_file, "output file")
    model = opened(arguments.model_file)
    if arguments.rounds is not None:
        model = cut(model, arguments.rounds, arguments.model_file)
    _refuse_options(model, arguments)
    base = _index_base(model, arguments, note)
    tally = SimpleNamespace(rows=0, learners=0)
    arguments.tally = tally
    answer = answer_stream if arguments.stream else answer_file
    text = answer(model, arguments, base, note)
    if arguments.early and tally.rows:
        share = tally.learners / (tally.rows * max(1, model.n_early_learners))
        note(f"{100 * share:.4g}% of the learners evaluated")
    if text:
        print(text, file=sys.stderr if stream_number(arguments.output_file) == 1 else sys.stdout)


def _refuse_early(model, arguments):
    """Refuse an early exit that the model does not have."""
    if not arguments.early or arguments.early in model.early_exits:
        return
    obstacle = model.early_obstacle(arguments.early)
    if obstacle:
        raise UsageError(f"{arguments.model_file}: {obstacle}")
    cause = arguments.model_file
    if arguments.rounds is not None:
        cause += f" cut by --rounds {arguments.rounds}"
    adds = "--early file --background label" if arguments.early == "rejection" else "--early file"
    raise UsageError(
        f"{cause} has no early exit {arguments.early}; mcboost-convert {adds} adds one to a model"
    )


def _refuse_options(model, arguments):
    """Refuse options that this model does not support."""
    _refuse_early(model, arguments)
    if arguments.probability and not model.has_probabilities:
        raise UsageError(
            f"{arguments.model_file}: this model gives no probabilities; use -d 1 for its "
            "scores, or train it with mcboost-train --calibrate temperature"
        )
    if model.link == "sigmoid":
        refuse_of_lists(arguments)
    if arguments.missing == "error" and not model.is_machine and model.missing_columns is None:
        from pymcboost.model.missing import UNKNOWN

        raise UsageError(f"{arguments.model_file}: {UNKNOWN}; use --missing allow")


def _index_base(model, arguments, note):
    """Index of the first feature in LIBSVM text: as asked for, as in training, or "auto"."""
    in_training = information(model, arguments.model_file, note).get("index_base")
    if arguments.base != "auto":
        return int(arguments.base)
    # True and False are no numbers here.
    return in_training if type(in_training) is int and in_training in (0, 1) else "auto"


def read_table(model, arguments, meta):
    """Read a CSV or Parquet file, with columns matched by name if the model has feature names."""
    from pymcboost.data import tables

    label = arguments.label
    label_in_training = meta.get("label_column")
    d = model.n_features_in_
    names = meta.get("feature_names")
    names = list(map(str, names)) if isinstance(names, list) and len(names) == d else None

    def choose(head):
        label_column = None if label is None else tables.column_named(head, label)
        if names:
            if label is None and label_in_training in head:
                label_column = label_in_training
            return [tables.column_named(head, name) for name in names], label_column
        if label is None and len(head) == d + 1:
            label_column = head[0]
            if isinstance(label_in_training, str):
                label_column = tables.column_named(head, label_in_training)
        feature_columns = [name for name in head if name != label_column]
        if len(feature_columns) != d:
            raise ValueError(
                f"the file has {len(feature_columns)} feature columns, but the model needs {d} and has "
                "no column names"
            )
        return feature_columns, label_column

    categories = model.categories
    as_text = None if categories is None else lambda names: categories.named()
    kind = table_kind(arguments.test_file, arguments.format)
    layout = tables.Layout(arguments.header, arguments.separator, tuple(names or ()))
    data = tables.read_table(arguments.test_file, kind, choose, as_text, layout)
    if categories is not None:
        categories.fill(data.X, data.texts)
    return data


def read_rows(model, arguments, base, note, missing="allow"):
    """Read a file, with notices about ignored and missing features; refuse values that a machine cannot score.

    ``missing``: "error" refuses missing values in columns that had none in training.
    """
    data = _read_rows(model, arguments, base, note)
    path = shown_path(arguments.test_file)
    names = getattr(data, "names", None)  # of a table
    base_of_file = getattr(data, "base", 1)  # of LIBSVM text
    if missing == "error" and not model.is_machine:
        missing_value = new_missing(model, data.X, base_of_file, names)
        if missing_value is not None:
            from pymcboost.cli.rows import place_of_row

            row, problem = missing_value
            place = place_of_row(path, row + 1, names if model.link != "sigmoid" else [])
            raise ValueError(f"{path}: {place}: {problem}")
    if model.is_machine:
        from pymcboost.cli.rows import Rows, check_values

        check_values(path, Rows(data.X, None, base_of_file, names), allows_missing=False)
    return data


def _read_rows(model, arguments, base, note):
    """Read a table or LIBSVM text, with notices about features that the model or the file lacks."""
    if table_kind(arguments.test_file, arguments.format):
        return read_table(model, arguments, model.information)
    with importing():
        from pymcboost.data.svmlight import load_and_count

    options = {"base": base, "layout": "plain", "multilabel": model.link == "sigmoid"}
    data, n_found, _ = load_and_count(arguments.test_file, model.n_features_in_, **options)
    d = model.n_features_in_
    for notice in data.notices:
        note(notice.replace(f"beyond n_features={d} (", f"beyond the {d} of the model ("))
    if n_found < model.n_features_in_ and n_found <= model.used_features()[0].max(initial=-1):
        features = "no features"
        if n_found:
            features = f"only the features {data.base} to {n_found - 1 + data.base}"
        note(
            f"{shown_path(arguments.test_file)}: the file has {features}, but the model expects "
            f"{model.n_features_in_}; the missing ones count as 0"
        )
    return data


def refuse_of_lists(arguments):
    """Refuse options for single-label rows."""
    table = table_kind(arguments.test_file, arguments.format)
    for is_used, option in (
        (table, "a CSV or Parquet file"),
        (arguments.stream, "--stream"),
        (arguments.report, "--report"),
        (arguments.early, "--early"),
    ):
        if is_used:
            raise UsageError(
                f"{arguments.model_file} gives rows any number of labels and reads LIBSVM text: "
                f"{option} is for one label"
            )


def answer_file(model, arguments, base, note):
    """Predict all rows of a file at once, and return the lines about the accuracy."""
    data = read_rows(model, arguments, base, note, arguments.missing)
    if model.link == "sigmoid":
        from pymcboost.cli.lists import answer_lists

        return answer_lists(model, data, arguments, note)
    best, values = answers(model, data.X, arguments)
    with whole_file(arguments.output_file, "output file") as stream:
        write(stream, words(model), best, values)
    lines = [accuracy(model, best, data, note)]
    if arguments.report and lines[0]:
        from pymcboost.cli.report import report

        if not arguments.probability:
            values = None
            if model.has_probabilities:
                values = model.predict_proba(data.X, n_jobs=arguments.n_jobs)
        lines += report(model, words(model), best, data=data, probabilities=values)
    elif arguments.report:
        note("no row has a label: there is nothing to report")
    return "\n".join(filter(None, lines))


if __name__ == "__main__":
    sys.exit(main())
