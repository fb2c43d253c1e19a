"""What the programs share: exit codes, error messages, the argument parser, notices and atomic output files.

Imports only the standard library, so that a mistyped command answers at once.
"""

import argparse
import errno
import json
import os
import re
import signal
import sys
import threading
import warnings
from contextlib import contextmanager, suppress

from pymcboost import files
from pymcboost._version import __version__
from pymcboost.cli.option_names import flag_of_parameter

# Errors that mean that an output file has no room. Other errors may come from files that are read at the same time.
FULL = errno.ENOSPC, errno.EFBIG, errno.EDQUOT

OK = 0
USAGE = 1
DATA = 2
MODEL = 3
IO = 4
MEMORY = 5
INTERRUPTED = 130
PIPE = 141

EXIT_CODES = """\
exit status: 0 success; 1 wrong usage; 2 wrong data; 3 invalid model file; 4 file cannot be read or written; 5 not
enough memory; 130 interrupted (Ctrl-C); 141 the reader of standard output has gone away"""


class UsageError(Exception):
    """Wrong arguments; the message says what to do instead."""


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help in the same format for every Python version: ``-n, --n-estimators n``."""

    def __init__(self, prog, **kwargs):
        super().__init__(prog, **{**kwargs, "max_help_position": 32})

    def _format_action_invocation(self, action):
        if not action.option_strings:
            return super()._format_action_invocation(action)
        names = ", ".join(action.option_strings)
        if action.nargs == 0:
            return names
        metavar = action.metavar or "{" + ",".join(map(str, action.choices)) + "}"
        return f"{names} {metavar}"


class Parser(argparse.ArgumentParser):
    """argparse with exact option names, and exceptions for errors: its own exit status, 2, means wrong data here."""

    def __init__(self, prog, usage, **kwargs):
        super().__init__(
            prog=prog, usage=usage, formatter_class=Formatter, allow_abbrev=False, **kwargs
        )
        self.help_command = f"{prog} --help"
        # Arguments that begin with a minus but are not options: numbers and lists of numbers.
        self._negative_number_matcher = re.compile(r"-\.?\d[-+\d.,eE]*$")

    def error(self, message):
        """Raise UsageError with the message and the usage line."""
        raise UsageError(f"{message}\n{self.format_usage()}Try '{self.help_command}'.")

    def parse_args(self, args=None, namespace=None):
        """Parse the arguments, and refuse unknown ones."""
        arguments, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.refuse(unknown)
        return arguments

    def _check_value(self, action, value):
        if action.choices is not None and value not in action.choices:
            near = nearest(str(value), map(str, action.choices))
            if near:
                listed = ", ".join(map(repr, action.choices))
                words = f"invalid choice: {value!r} (did you mean {near!r}? choose from {listed})"
                raise argparse.ArgumentError(action, words)
        super()._check_value(action, value)

    def refuse(self, unknown):
        """Raise UsageError for unknown arguments."""
        self.error(self.unrecognized(unknown))

    def unrecognized(self, unknown):
        """The message about unknown arguments, with the most similar known option for each."""
        shown = []
        for argument in [text for text in unknown if text[:1] == "-" and text != "-"] or unknown:
            known_options = self._option_string_actions
            option = argument.partition("=")[0]
            near = ELSEWHERE.get(option)
            if near not in known_options:
                near = nearest(option, known_options) if argument[:2] == "--" else None
            shown.append(f"{argument} (did you mean {near}?)" if near else argument)
        return f"unrecognized arguments: {' '.join(shown)}"

    def _print_message(self, message, file=None):
        # argparse's own --version and --help ignore a full disk.
        print(message, end="", file=file or sys.stderr)

    def add_common(self):
        """Add the options that every program has."""
        self.add_argument(
            "-q", "--quiet", action="store_true", help="print only errors on standard error"
        )
        self.add_argument("--version", action="version", version=f"{self.prog} {__version__}")


# The names of options here, with those of LIBSVM, LightGBM and XGBoost.
ELSEWHERE = {
    "--eta": "--learning-rate", "--seed": "--random-state",
    "--num-leaves": "--max-leaf-nodes", "--num-iterations": "--n-estimators", "--num-rounds": "--n-estimators",
    "--n-rounds": "--n-estimators", "--num-round": "--n-estimators", "--num-boost-round": "--n-estimators",
    "--lambda": "--l2-regularization", "--feature-fraction": "--max-features-tree",
    "--bagging-fraction": "--subsample", "--min-data-in-leaf": "--min-samples-leaf", "--max-bin": "--max-bins",
    "--num-threads": "--n-jobs", "--nthread": "--n-jobs",
}  # fmt: skip


def nearest(text, candidates):
    """The most similar known text, or None if none is similar."""
    import difflib

    return next(iter(difflib.get_close_matches(text, candidates, 1, 0.7)), None)


def bounded(kind, words, check):
    """Make an argparse type: ``kind(text)`` if ``check`` accepts it, else an error with what is allowed (``words``)."""

    def convert(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not check(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
        return value

    return convert


file_name = bounded(str, "a file name", bool)
thread_count = bounded(
    int, "a number of threads: 1 or more, or -1 for all CPUs", lambda value: value != 0
)


def add_format(group):
    """Add the options for CSV and Parquet files."""
    group.add_argument(
        "--format",
        choices=("auto", "libsvm", "csv", "parquet"),
        default="auto",
        help="format of the files (default: auto, which goes by the file name: CSV for .csv, .tsv, "
        ".csv.gz and so on, Parquet for .parquet, otherwise LIBSVM text)",
    )
    text = (
        "column with the labels in a CSV or Parquet file, by name or by number from 1 (default: "
        "the first)"
    )
    group.add_argument("--label", metavar="name", help=text)
    group.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        help="whether the first line of a CSV file names the columns (default: it does, but a name "
        "that is a number is an error)",
    )
    group.add_argument(
        "--separator",
        metavar="c",
        type=separator,
        help="column separator of a CSV file, 'tab' for a tab (default: the most frequent of tab, "
        ";, | and , in the first line)",
    )


def separator(text):
    """The separator given by an option: one character, or ``tab``."""
    if text.lower() in ("tab", "\\t"):
        return "\t"
    if len(text) != 1 or text.isalnum() or text in '"\r\n':
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a single character that separates columns, or 'tab'"
        )
    return text


def table_kind(path, form):
    """The format of a file with named columns, "csv" or "parquet", from ``form`` or its file name; None for others."""
    if form == "auto":
        match = re.search(r"\.(?:([ct]sv)(?:\.(?:gz|bz2|xz))?|parquet)$", path.lower())
        return match and ("csv" if match[1] else "parquet")
    return None if form == "libsvm" else form


def check_table(parser, path, arguments, has_text_options, what):
    """Refuse options that do not fit the format of a file.

    ``has_text_options``: whether options for LIBSVM text are given, which ``what`` names.
    """
    kind = table_kind(path, arguments.format)
    if kind and has_text_options:
        parser.error(f"{what} LIBSVM text; CSV and Parquet files have named columns")
    if arguments.label is not None and not kind:
        parser.error(
            "--label names a column of a CSV or Parquet file; in LIBSVM text, every line "
            "begins with its label"
        )
    if kind != "csv" and (arguments.header is not None or arguments.separator is not None):
        parser.error("--header, --no-header and --separator apply to CSV files")


QUOTES = "'\""
# Options of the programs that are not parameters of an algorithm.
NOT_OF_ALGORITHMS = {"base", "n_features", "layout", "leaves", "missing", "rate", "background"}


def in_shell_words(text):
    """Replace parameters of the library in a message by options: max_bins=9 by ``--max-bins 9``."""
    text = text.replace("give n_features", "give --n-features")
    if "=" not in text and "n_estimators" not in text:
        return text
    lines = text.split("\n")
    return "\n".join(" ".join(map(_shell_word, line.split(" "))) for line in lines)


def _shell_word(written):
    """A word of a message as an option, if it is a parameter of the library, or one with its value."""
    bare = written.strip("(),.:;")
    if bare == "n_estimators":
        return written.replace(bare, "-n")
    name, equals, value = bare.partition("=")
    if not equals or not _is_value(value):
        return written
    if name in NOT_OF_ALGORITHMS:
        flag = "--" + name.replace("_", "-")
    else:
        flag = flag_of_parameter(name)
    if flag is None:
        return written
    if value == "False":
        option = f"--no-{flag[2:]}"
    elif value == "True":
        option = flag
    else:
        option = f"{flag} {value.strip(QUOTES)}"
    return written.replace(bare, option)


def _is_value(text):
    """Whether a text is a number, True, False or a quoted word, as Python writes them."""
    if text in ("True", "False") or (len(text) > 1 and text[0] == text[-1] and text[0] in QUOTES):
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True


def notifier(program, quiet):
    """Make a function that prints one line on standard error, or nothing when ``quiet``."""

    def note(text):
        if not quiet:
            print(f"{program}: {in_shell_words(text)}", file=sys.stderr, flush=True)

    return note


@contextmanager
def noted_warnings(note, base=1):
    """Print warnings as notices, whatever PYTHONWARNINGS says; ``base``: see `warning_text`."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = lambda message, *_, **__: note(warning_text(message, base))
        yield


def warning_text(message, base=1):
    """A warning of the library as a notice; the first feature has the number ``base``."""

    def feature(match):
        return f"Feature {int(match[1]) + base}"

    text = re.sub(r"Column (\d+) \(from 0\)", feature, str(message))
    return f"warning: {text}"


def word(name):
    """Return a class or feature name as one printable word, in JSON quotes if necessary."""
    is_word = len(name.split()) == 1 and name == name.strip()
    is_plain = is_word and name.isprintable() and not name.startswith('"')
    return name if is_plain else json.dumps(name)


@contextmanager
def importing():
    """Delay Ctrl-C until imports are finished: some modules hide it, or fail in other ways."""
    interrupts = []
    handler = signal.getsignal(signal.SIGINT)
    in_main_thread = threading.current_thread() is threading.main_thread()
    delays = in_main_thread and handler is signal.default_int_handler
    if delays:
        signal.signal(signal.SIGINT, lambda *_: interrupts.append(True))
    try:
        yield
    finally:
        if delays:
            signal.signal(signal.SIGINT, handler)
    if interrupts:
        raise KeyboardInterrupt


def shown_path(path):
    """Name of an input file in messages; - is standard input."""
    return "<stdin>" if path == "-" else path


STREAMS = {"-": 1, "/dev/stdout": 1, "/dev/stderr": 2}
# Standard streams that the caller has closed.
CLOSED: set[int] = set()


def stream_number(path):
    """The file descriptor that a path means, as do ``-``, /dev/stdout and /dev/fd/3; None for files."""
    match = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", path)
    return int(match[1]) if match else STREAMS.get(path)


def check_output(path, file_kind):
    """Refuse an output file that cannot be written, before any work is done; see `files.check_target`."""
    if stream_number(path) is None:
        files.check_target(path, file_kind, streams=True)


def check_binary_stream(path, file_kind):
    """Refuse a standard stream as output if it is a terminal or closed."""
    number = stream_number(path)
    if number in CLOSED:
        raise OSError(
            errno.EBADF, f"is closed, so the {file_kind} would be lost; name a file", path
        )
    if number is not None and os.fstat(number) and os.isatty(number):
        raise UsageError(
            f"the {file_kind} is binary, and {path} is a terminal; name a file, or redirect the "
            "output: > model.mcb"
        )


def write_bytes(path, data, file_kind):
    """Write a file atomically, or write to a device, a FIFO or a standard stream."""
    number = stream_number(path)
    with _naming(path):
        if number is None:
            files.write(path, data, file_kind, streams=True)
        else:
            files.write_all(number, data)


@contextmanager
def _naming(path):
    """Add the file name to errors about a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            error.filename = path
        raise


@contextmanager
def whole_file(path, file_kind):
    """Text stream to ``path`` that replaces the file at the end, or leaves it as it was; ``-`` is standard output.

    Devices, FIFOs and the process's own streams are written to directly.
    """
    number = stream_number(path)
    with _naming(path):
        if number == 1:
            yield sys.stdout
        elif number is not None:
            with open(os.dup(number), "w", encoding="utf-8", newline="\n") as stream:
                yield stream
        else:
            with (
                files.replacing(path, file_kind, streams=True) as file,
                open(file, "w", encoding="utf-8", newline="\n", closefd=False) as stream,
            ):
                yield stream


def refuse_same(output, file_kind, inputs):
    """Refuse an output file that is also an input, by name or through a link.

    Parameters
    ----------
    output : str
    file_kind : str
        What the output file is, for the message.
    inputs : dict of str to (str or None)
        The other files by what they are. None is left out; ``-`` is standard input.
    """
    number = stream_number(output)
    shown = output if number is None else f"/dev/fd/{number}"
    for name, path in inputs.items():
        if path is not None and files.same_file(shown, "/dev/fd/0" if path == "-" else path):
            raise UsageError(
                f"the {file_kind} {output} is also the {name} and would overwrite it; name another file"
            )


class _Errors:
    """Standard error that ignores failures: a full disk or a closed pipe must not end hours of work."""

    def __init__(self, stream):
        self._stream = stream

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text):
        """Write as much as possible."""
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self):
        """Flush as much as possible."""
        with suppress(OSError):
            self._stream.flush()


def load_named(load, path, writer="mcboost-train"):
    """Return ``load(path)``. If there is no such file, the error says which program writes it."""
    try:
        return load(path)
    except FileNotFoundError as error:
        remedy = f"{error.strerror}; name a model file that {writer} has written"
        raise FileNotFoundError(error.errno, remedy, path) from None


def _is_model_error(error):
    # Looked up, not imported: when the module was never loaded, the error cannot be one of its own.
    module = sys.modules.get("pymcboost.model.file")
    return module is not None and isinstance(error, module.ModelFormatError)


def run(program, body, argv):
    """Run ``body(argv)`` and turn its exceptions into one message on standard error and an exit status.

    Parameters
    ----------
    program : str
        Name that starts every message.
    body : callable
        Takes the list of arguments; returns an exit status or None for success.
    argv : list of str or None
        None: ``sys.argv[1:]``.

    Returns
    -------
    int
        0 success, 1 usage, 2 data, 3 model file, 4 input or output, 5 memory, 130 interrupted, 141 broken pipe.
    """
    # If the caller closed a standard descriptor, one of our files could get its number, and others would print into it.
    null = os.open(os.devnull, os.O_RDWR)
    while null <= 2:
        CLOSED.add(null)
        null = os.open(os.devnull, os.O_RDWR)
    os.close(null)
    # A closed stream is None in Python, and print(file=None) would write to standard output.
    sys.stdout = sys.stdout or open(os.devnull, "w")
    # As files are written; names that are not UTF-8 keep their bytes.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    errors = sys.stderr or open(os.devnull, "w")
    sys.stderr = _Errors(errors)
    try:
        return _report(program, body, argv)
    finally:
        sys.stderr = errors
        _empty(errors)


def _report(program, body, argv):
    """Run ``body``; print the message of an exception, and return the exit status."""
    try:
        try:
            status = body(sys.argv[1:] if argv is None else list(argv)) or OK
        except SystemExit as stop:  # argparse's --help and --version
            status = stop.code or OK
        sys.stdout.flush()
        return status
    except UsageError as error:
        status = USAGE
        message = in_shell_words(str(error))
    except KeyboardInterrupt:
        status = INTERRUPTED
        message = "interrupted"
    except BrokenPipeError:
        _empty(sys.stdout)
        return PIPE
    except MemoryError as error:
        status = MEMORY
        message = f"not enough memory: {error}" if str(error) else "not enough memory"
        message = in_shell_words(message)
    except OSError as error:
        status = IO
        message = error_text(error)
    except ValueError as error:
        status = MODEL if _is_model_error(error) else DATA
        message = in_shell_words(str(error))
    if status != INTERRUPTED:
        message = f"error: {message}"
    print(f"{program}: {message}", file=sys.stderr)
    _empty(sys.stdout)
    return status


def error_text(error):
    """An OSError as one line: the file and what is wrong."""
    message = error.strerror or str(error)
    return message if error.filename is None else f"{os.fsdecode(error.filename)}: {message}"


def _empty(stream):
    """Flush a stream, so that Python does not complain at exit about data that cannot be written."""
    try:
        stream.flush()
    except OSError:
        with suppress(OSError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
            stream.flush()
