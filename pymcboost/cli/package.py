"""``python -m pymcboost``: about the installation itself."""

import sys

from pymcboost.cli.console import EXIT_CODES, Parser, importing, run

PROGRAM = "python -m pymcboost"
USAGE = f"{PROGRAM} [--version] [--show] [--include] [--cmake] [--pkgconfig] [--man PROGRAM]"
DESCRIPTION = """\
About the installation. The programs are mcboost-train, mcboost-tune,
mcboost-predict, mcboost-info and mcboost-convert."""
FOLDERS = {"include": (), "cmake": ("cmake",), "pkgconfig": ("pkgconfig",)}
PAGES = ("mcboost-train", "mcboost-tune", "mcboost-predict", "mcboost-info", "mcboost-convert")


def main(argv=None):
    """Run ``python -m pymcboost`` and return its exit status."""
    return run(PROGRAM, package, argv)


def package(argv):
    """Do what the arguments ask."""
    from pymcboost._version import __version__

    parser = Parser(PROGRAM, USAGE, description=DESCRIPTION, epilog=EXIT_CODES)
    parser.add_argument("--version", action="store_true", help="print the version")
    text = "print what a bug report needs: versions, compiler, processor, threads, variables"
    parser.add_argument("--show", action="store_true", help=text)
    parser.add_argument("--include", action="store_true", help="print the folder of mcb.h and mcb.hpp")
    parser.add_argument("--cmake", action="store_true", help="print the folder of mcb-config.cmake, for -Dmcb_DIR=")
    parser.add_argument("--pkgconfig", action="store_true", help="print the folder of mcb.pc, for PKG_CONFIG_PATH")
    parser.add_argument("--man", choices=PAGES, help="print the man page of a program")
    arguments = parser.parse_args(argv)
    if not any(vars(arguments).values()):
        parser.error("nothing to do")
    if arguments.version and not arguments.show:
        print(f"pymcboost {__version__}")
    if arguments.show:
        from pymcboost.cli.about import facts

        with importing():
            found = list(facts())
        print("\n".join(f"{name:<16}{text}" for name, text in found))
    for name, parts in FOLDERS.items():
        if getattr(arguments, name):
            from pathlib import Path

            from pymcboost import get_include

            print(Path(get_include(), *parts))
    if arguments.man:
        from pymcboost.cli.manual import man_page

        sys.stdout.write(man_page(arguments.man))
