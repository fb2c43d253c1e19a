"""mcboost-info: what a model file holds. Needs NumPy only."""

import json
import os
import sys

from pymcboost.cli.console import EXIT_CODES, Parser, run

PROGRAM = "mcboost-info"
USAGE = f"{PROGRAM} [options] model_file"
DESCRIPTION = """\
Check a .mcb model file and print what it holds."""
TOP = 10
CLASSES_SHOWN = 20


def main(argv=None):
    """Run ``mcboost-info`` and return its exit status."""
    return run(PROGRAM, info, argv)


def describe(model, path):
    """Facts about a model as a dict that JSON can hold."""
    return {
        "file": path,
        "bytes": os.path.getsize(path),
        "kind": model.kind,
        "link": model.link,
        "classes": model.classes_.tolist(),
        "n_features": model.n_features_in_,
        "n_learners": model.n_learners,
        "meta": model.meta,
    }


def info(argv):
    """Do what ``mcboost-info``'s arguments ask."""
    parser = Parser(PROGRAM, USAGE, description=DESCRIPTION, epilog=EXIT_CODES)
    parser.add_argument("model_file", help=".mcb file written by mcboost-train or by save() in Python")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    parser.add_common()
    arguments = parser.parse_args(argv)

    from pymcboost.scoring import load_model

    facts = describe(load_model(arguments.model_file), arguments.model_file)
    if arguments.json:
        print(json.dumps(facts, indent=2, sort_keys=True, ensure_ascii=False))
        return


if __name__ == "__main__":
    sys.exit(main())
