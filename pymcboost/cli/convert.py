"""mcboost-convert: convert a model to another format, or import one. Needs NumPy only."""

import os
import re
import sys
from argparse import Namespace

from pymcboost.cli.console import (
    EXIT_CODES,
    Parser,
    UsageError,
    bounded,
    check_binary_stream,
    check_output,
    file_name,
    importing,
    load_named,
    notifier,
    refuse_same,
    run,
    whole_file,
    write_bytes,
)
from pymcboost.cli.predict import NO_MODEL_FILE, cut, read_rows

PROGRAM = "mcboost-convert"
USAGE = f"{PROGRAM} [options] model_file output_file"
DESCRIPTION = """\
Convert a model to another format or layout, or import a LightGBM or XGBoost model. A model that the target format
cannot represent is an error."""
# The program that writes each kind of input.
SOURCES = {"mcb": "mcboost-train", "lightgbm": "LightGBM", "xgboost": "XGBoost"}
TARGETS = ("mcb", "json", "text", "c", "onnx", "treelite")
BINARY = ("mcb", "onnx", "treelite")
# Names of output files that are hardly meant for a model file.
ENDINGS = {".c": "c", ".h": "c", ".json": "json", ".txt": "text", ".onnx": "onnx"}
# Targets that contain a model file.
FILES = ("mcb", "c")
# Targets whose runtimes add scores in float32.
FLOATS = {"onnx": "ONNX", "treelite": "treelite"}
# Default share of labels that calibrated exits may change.
RATE = 0.001


def main(argv=None):
    """Run ``mcboost-convert`` and return its exit status."""
    return run(PROGRAM, convert, argv)


def make_parser():
    """The parser."""
    parser = Parser(PROGRAM, USAGE, description=DESCRIPTION, epilog=EXIT_CODES)
    parser.add_argument("model_file", help=".mcb file, or the model that --from names")
    parser.add_argument("output_file", help="the converted model; - for standard output")
    parser.add_argument(
        "--from",
        dest="source",
        choices=tuple(SOURCES),
        default="mcb",
        help="format of the input. mcb: a model file; lightgbm: a LightGBM text model; xgboost: an "
        "XGBoost model in JSON or UBJSON (default: mcb)",
    )
    parser.add_argument(
        "--to",
        choices=TARGETS,
        help="format of the output. mcb: a model file; json, text: the whole model, for programs "
        "or for reading; c: the bytes of the model file as a C array, for mcb.h; onnx, "
        "treelite: for their runtimes (default: mcb)",
    )
    parser.add_argument(
        "--rounds",
        metavar="t",
        type=bounded(int, "a number of rounds: 0 or more", lambda value: value >= 0),
        help="keep only the first t rounds, without the calibration; multi-label thresholds stay "
        "those of all rounds (default: all)",
    )
    parser.add_argument(
        "--leaves",
        choices=("float32", "float16", "int8"),
        help="type of the leaves of trees. float16 rounds them to 3 digits; int8, which needs "
        "--layout packed, to 255 values (default: unchanged)",
    )
    parser.add_argument(
        "--layout",
        choices=("list", "interval", "packed"),
        help="packed: trees with a few bits per split and leaf; interval: a table of intervals "
        "instead of a list of stumps (default: unchanged)",
    )
    add_rows(parser)
    add_early(parser)
    parser.add_common()
    return parser


def parse(argv):
    """Return the arguments as a namespace."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if arguments.to is None:
        ending = os.path.splitext(arguments.output_file)[1]
        if ending in ENDINGS:
            parser.error(
                f"{arguments.output_file} ends in {ending}; did you mean --to {ENDINGS[ending]}? "
                "Give --to mcb for a model file of this name"
            )
        arguments.to = "mcb"
    changes_leaves = arguments.leaves in ("float16", "int8")
    if arguments.layout and arguments.to not in FILES:
        parser.error("--layout needs --to mcb or --to c")
    if changes_leaves and arguments.source != "mcb":
        parser.error(
            f"--leaves {arguments.leaves} cannot be combined with --from, because the leaves "
            "would be rounded twice; write a model file first, then convert that"
        )
    if arguments.integer and arguments.to != "c":
        parser.error("--integer needs --to c")
    changes_sums = arguments.integer or arguments.source != "mcb" or arguments.to in FLOATS
    if arguments.rows and not (changes_leaves or changes_sums):
        parser.error(
            "--rows needs --integer, --from another library, --to onnx, --to treelite, "
            "--leaves float16 or --leaves int8"
        )
    if arguments.early and arguments.to not in FILES:
        parser.error("--early needs --to mcb or --to c")
    if arguments.early == arguments.rows == "-":
        parser.error(
            "--rows and --early cannot both be standard input, which can be read only once; "
            "name a file for one of them"
        )
    if not arguments.early and (arguments.rate is not None or arguments.background is not None):
        parser.error("--rate and --background need --early")
    return arguments


def add_rows(parser):
    """Add --integer, and --rows, which measures the effect of a conversion."""
    parser.add_argument(
        "--integer",
        choices=("int8", "int16", "int32"),
        help="with --to c and packed trees: write C99 arrays and functions whose scores are sums "
        "of integers of this type, for processors without floating point. The functions are "
        "static if the output file ends in .h",
    )
    parser.add_argument(
        "--rows",
        type=file_name,
        metavar="file",
        help="LIBSVM text or CSV, to measure the effect of the conversion. With --integer, "
        "features are integers if these are, and rows that change their class are counted; "
        "with --leaves, rows that change their class; with --from and with --to onnx and "
        "treelite, rows that could change it",
    )


def add_early(parser):
    """Add the options of early exits."""
    parser.add_argument(
        "--early",
        type=file_name,
        metavar="file",
        help="with --to mcb and c: add certified and calibrated early exits, found on the rows of "
        "this file (LIBSVM text or CSV). Use rows that were not in the training; they need no "
        "labels",
    )
    parser.add_argument(
        "--rate",
        metavar="x",
        type=bounded(float, "a number above 0 and below 1", lambda value: 0 < value < 1),
        help="with --early: share of labels that may change (default: 0.001, which needs 3,000 "
        "rows)",
    )
    parser.add_argument(
        "--background",
        metavar="label",
        help="with --early: instead of the calibrated exit, add one that rejects rows of this "
        "class; --rate is then the share of rows of other classes that may be lost",
    )


def convert(argv):
    """Do what ``mcboost-convert``'s arguments ask."""
    arguments = parse(argv)
    note = notifier(PROGRAM, arguments.quiet)
    inputs = {
        "model file": arguments.model_file,
        "file of rows": arguments.rows,
        "rows of --early": arguments.early,
    }
    refuse_same(arguments.output_file, "output file", inputs)
    check_output(arguments.output_file, "output file")
    if arguments.to in BINARY:
        check_binary_stream(arguments.output_file, "model")
    model = loaded(arguments)
    n_left_out = model.meta.get("rounds_left_out") if arguments.source == "xgboost" else 0
    if n_left_out:
        n = model.n_rounds
        note(
            f"using the first {n} of {n + n_left_out} rounds, up to the one that XGBoost found best"
        )
    if arguments.rounds is not None:
        model = cut(model, arguments.rounds, arguments.model_file)
    rows = None if arguments.rows is None else rows_of(model, arguments.rows, note)
    if arguments.source != "mcb":
        say_error(model, rows, note)
    if arguments.leaves or arguments.layout:
        exact = model
        data = model.to_bytes(layout=arguments.layout, leaves=arguments.leaves)
        model = type(model).from_bytes(data)
        if rows is not None and arguments.source == "mcb":
            say_changed(exact, model, rows, note)
    if arguments.early is not None:
        rows_for_exits = rows_of(model, arguments.early, note)
        model = with_exits(model, rows_for_exits, arguments, note)
        say_exits(model, rows_for_exits, arguments, note)
    if arguments.to in BINARY:
        data = as_bytes(model, arguments.to)
        if rows is not None and arguments.to in FLOATS:
            say_floats(model, rows, FLOATS[arguments.to], note)
        write_bytes(arguments.output_file, data, "model")
        return
    pieces = written(model, arguments, rows, note)
    with whole_file(arguments.output_file, "output file") as stream:
        stream.writelines(pieces)


def loaded(arguments):
    """Read the model file, from any supported source."""
    with importing():
        if arguments.source == "mcb":
            from pymcboost.model.model import load_model as load
        elif arguments.source == "lightgbm":
            from pymcboost.export import from_lightgbm as load
        else:
            from pymcboost.export import from_xgboost as load
    try:
        return load_named(load, arguments.model_file, SOURCES[arguments.source])
    except ValueError as error:
        if arguments.source == "mcb" and getattr(error, "status", 0) == NO_MODEL_FILE:
            error.args = (f"{error}; --from reads models of LightGBM and XGBoost",)
        raise


def rows_of(model, path, note):
    """Read the rows of a file with the features of the model."""
    options = Namespace(test_file=path, format="auto", label=None, header=None, separator=None)
    index_base = model.index_base
    return read_rows(model, options, "auto" if index_base is None else index_base, note).X


def with_exits(model, rows, arguments, note):
    """Add the early exits of ``--early``; a certified one only if its bounds are small enough."""
    classes = {str(label): label for label in model.classes_.tolist()}
    background = classes.get(arguments.background, arguments.background)
    way = "calibrated" if background is None else "rejection"
    try:
        model = model.with_early_exit(way, rows, rate=arguments.rate or RATE, background=background)
    except ValueError as error:
        error.args = (str(error).replace("rows X", f"rows in {arguments.early}"),)
        raise
    try:
        return model.with_early_exit("certified", rows)
    except ValueError as error:
        note(f"no certified exit: {error}")
        return model


def say_error(model, rows, note):
    """Print how exact an imported model is."""
    error = model.meta["score_error"]
    note(
        f"no score differs by more than {error:.2g}, so classes that are {2 * error:.2g} apart "
        "keep their order"
    )
    if rows is not None:
        scores = model.raw_scores(rows)
        note(
            f"of {len(scores)} rows, {n_close(scores, error)} have two best classes that are "
            "closer than that"
        )


def say_floats(model, rows, runtime, note):
    """Print how exact a model is if its scores are added in float32."""
    with importing():
        from pymcboost.export.forest import errors_of

    error = errors_of(model, rows)
    scores = model.raw_scores(rows)
    note(
        f"{runtime} adds in float32: on these rows no score differs by more than "
        f"{error.max(initial=0):.2g}"
    )
    close = n_close(scores, error)
    note(
        f"of {len(scores)} rows, {close} have two best classes closer than twice the bound of "
        "the row"
    )


def n_close(scores, error):
    """Count the rows whose two best scores are at most twice an error apart."""
    best = scores.copy()
    best.sort(axis=1)
    return int((~(best[:, -1] - best[:, -2] > 2 * error)).sum())


def say_exits(model, rows, arguments, note):
    """Print what the early exits do on the rows that they were found with, and what follows for other rows."""
    from pymcboost.model import early

    facts = {fact["way"]: fact for fact in early.facts(model)}
    codes = model.predict_codes(rows)

    def evaluated(way):
        early_codes, n_learners = model.predict_early_codes(rows, way)
        share = n_learners.mean() / max(1, model.n_early_learners)
        return early_codes != codes, f"{share:.1%} of the learners are evaluated"

    if arguments.background is None:
        changed, share = evaluated("calibrated")
        allowed = facts["calibrated"]["changed"]
        note(
            f"calibrated: of {len(codes)} rows, {changed.sum()} change their label and "
            f"{allowed} may; {share}"
        )
        loss = "change their label"
    else:
        others = model.classes_.astype(str)[codes] != arguments.background
        changed, share = evaluated("rejection")
        note(
            f"rejection: of {others.sum()} rows of other classes, {changed[others].sum()} are "
            f"lost; {share}"
        )
        loss = "of those of other classes are lost"
    rate = arguments.rate or RATE
    note(
        f"the thresholds come from these rows; of similar rows, fewer than {rate:.3%} {loss}, "
        "with 95% confidence"
    )
    if "certified" in facts:
        note(f"certified: no label changes; {evaluated('certified')[1]}")


def say_changed(exact, model, rows, note):
    """Print how many rows change their class because the leaves were rounded."""
    if exact.link == "sigmoid":  # rows have any number of labels
        labels = model.raw_scores(rows) > model.thresholds
        labels_before = exact.raw_scores(rows) > exact.thresholds
        is_changed = (labels != labels_before).any(axis=1)
        noun = "other labels"
    else:
        is_changed = model.predict_codes(rows) != exact.predict_codes(rows)
        noun = "another class"
    n_changed = int(is_changed.sum())
    m = len(is_changed)
    note(
        f"of {m} rows, {n_changed} ({n_changed / max(m, 1):.3%}) get {noun} than with the original "
        "leaves"
    )


def written(model, arguments, rows, note):
    """Yield the text of a converted model."""
    if arguments.to == "c":
        return as_c(model, arguments, rows if arguments.integer else None, note)
    with importing():
        from pymcboost.model import dump

    return dump.as_json(model) if arguments.to == "json" else dump.as_text(model)


def as_bytes(model, target):
    """The bytes of a binary target."""
    if target == "mcb":
        return model.to_bytes()
    with importing():
        from pymcboost.export import to_onnx, to_treelite
    try:
        return to_onnx(model) if target == "onnx" else to_treelite(model)
    except ImportError as error:
        raise UsageError(str(error)) from None


def as_c(model, arguments, rows, note):
    """The model as C code, with names derived from the output file."""
    with importing():
        from pymcboost.export import to_c, to_integer_c

    stem, ending = os.path.splitext(os.path.basename(arguments.output_file))
    name = re.sub(r"\W", "_", stem, flags=re.ASCII)[:40].lstrip("_0123456789") or "model"
    if not arguments.integer:
        return [to_c(model, name)]
    text = to_integer_c(model, name, integer=arguments.integer, rows=rows, header=ending == ".h")
    for line in re.findall(r"^ \* (Features are .*|No sum .*|Of \d+ rows.*)$", text, re.M):
        note(line)
    return [text]


if __name__ == "__main__":
    sys.exit(main())
