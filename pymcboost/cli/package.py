"""``python -m pymcboost``: about the installation itself."""

from pathlib import Path

from pymcboost._version import __version__
from pymcboost.cli.console import EXIT_CODES, Parser, importing, run
from pymcboost.versions import show_versions

PROGRAM = "python -m pymcboost"
USAGE = f"{PROGRAM} [--version] [--show] [--include] [--cmake] [--pkgconfig]"
DESCRIPTION = """\
Print facts about the installation. The programs are mcboost-train, mcboost-tune,
mcboost-predict, mcboost-info and mcboost-convert."""
FOLDERS = {"include": (), "cmake": ("cmake",), "pkgconfig": ("pkgconfig",)}


def main(argv=None):
    """Run ``python -m pymcboost`` and return its exit status."""
    return run(PROGRAM, package, argv)


def package(argv):
    """Do what the arguments ask."""
    parser = Parser(PROGRAM, USAGE, description=DESCRIPTION, epilog=EXIT_CODES)
    parser.add_argument("--version", action="store_true", help="print the version")
    text = (
        "print what belongs in a bug report: versions, compiler, OpenMP, BLAS, processor, threads"
    )
    parser.add_argument("--show", action="store_true", help=text)
    parser.add_argument(
        "--include", action="store_true", help="print the directory of mcb.h and mcb.hpp"
    )
    parser.add_argument(
        "--cmake",
        action="store_true",
        help="print the directory of mcb-config.cmake, for -Dmcb_DIR=",
    )
    parser.add_argument(
        "--pkgconfig",
        action="store_true",
        help="print the directory of mcb.pc, for PKG_CONFIG_PATH",
    )
    arguments = parser.parse_args(argv)
    if not any(vars(arguments).values()):
        parser.error("nothing to do; give one of the options")
    if arguments.version and not arguments.show:
        print(f"pymcboost {__version__}")
    if arguments.show:
        with importing():
            show_versions()
    for name, parts in FOLDERS.items():
        if getattr(arguments, name):
            from pymcboost import get_include

            print(Path(get_include(), *parts))
