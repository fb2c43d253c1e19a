"""mcboost-convert: a model in another form. Needs NumPy only."""

import sys

from pymcboost.cli.console import (
    EXIT_CODES,
    Parser,
    bounded,
    check_binary_stream,
    check_output,
    importing,
    refuse_same,
    run,
    whole_file,
    write_bytes,
)
from pymcboost.cli.predict import cut

PROGRAM = "mcboost-convert"
USAGE = f"{PROGRAM} [options] model_file output_file"
DESCRIPTION = """\
Write a model in another form. What a form cannot hold is refused."""
TARGETS = ("mcb", "json", "text")
BINARY = ("mcb",)


def main(argv=None):
    """Run ``mcboost-convert`` and return its exit status."""
    return run(PROGRAM, convert, argv)


def parse(argv):
    """Return the arguments as a namespace."""
    parser = Parser(PROGRAM, USAGE, description=DESCRIPTION, epilog=EXIT_CODES)
    parser.add_argument("model_file", help=".mcb file written by mcboost-train or by save() in Python")
    parser.add_argument("output_file", help="the model in its new form; - for standard output")
    parser.add_argument(
        "--to",
        choices=TARGETS,
        default="mcb",
        help="mcb: a model file; json, text: the whole model for other programs, or for the eye (default: mcb)",
    )
    parser.add_argument(
        "--rounds",
        metavar="t",
        type=bounded(int, "a number of rounds: 0 or more", lambda value: value >= 0),
        help="only the first t rounds (default: all)",
    )
    parser.add_common()
    return parser.parse_args(argv)


def convert(argv):
    """Do what ``mcboost-convert``'s arguments ask."""
    arguments = parse(argv)
    with importing():
        from pymcboost.model.model import load_model

    refuse_same(arguments.output_file, "output file", {"model file": arguments.model_file})
    check_output(arguments.output_file, "output file")
    if arguments.to in BINARY:
        check_binary_stream(arguments.output_file, "model")
    model = load_model(arguments.model_file)
    if arguments.rounds is not None:
        model = cut(model, arguments.rounds, arguments.model_file)
    if arguments.to in BINARY:
        write_bytes(arguments.output_file, model.to_bytes(), "model")
        return
    pieces = written(model, arguments)
    with whole_file(arguments.output_file, "output file") as stream:
        stream.writelines(pieces)


def written(model, arguments):
    """Pieces of the text that a model becomes."""
    with importing():
        from pymcboost.model import dump

    return dump.as_json(model) if arguments.to == "json" else dump.as_text(model)


if __name__ == "__main__":
    sys.exit(main())
