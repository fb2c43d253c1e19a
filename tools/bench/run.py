"""Speed, memory and size of pymcboost against other libraries, in one run.

    python tools/bench.py --list
    python tools/bench.py NAME... [--json results/bench.json] [--repeat 5] [--quick]
    python tools/bench.py trees [--data letter covtype] [--rounds 100] [--threads 1 2] [--algorithms ...] [--peers ...]
    python tools/bench.py guard --against COMMIT     this tree against another commit (bench_guard.py)
    python tools/bench.py --markdown results/bench.json     all tables of a file

Competitors are timed in turn (A B A B), after one untimed run each, and the best and the median of several runs are
reported; a ratio is the quotient of two best times of the same run. PYMCBOOST_DATA names the folder of the data sets.
"""

import argparse
import importlib
import json
import sys
from pathlib import Path

from shared import peers
from shared.datasets import DataMissing
from shared.measure import environment
from shared.tables import as_json, write_json

from bench.report import BENCHMARKS, Options, markdown, print_report

# Every file registers its benchmarks.
for _file in sorted(Path(__file__).parent.glob("[a-z]*.py")):
    importlib.import_module(f"bench.{_file.stem}")

from bench import limits, trees  # noqa: E402


def make_parser():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="benchmarks to run; all of them without a name")
    add("--list", action="store_true", help="list the benchmarks and stop")
    add(
        "--json", metavar="FILE", help="write results there; entries of other benchmarks in it stay"
    )
    add("--repeat", type=int, default=5, help="timed runs of each competitor (default 5)")
    add("--quick", action="store_true", help="small sizes, only to see that it runs")
    add("--markdown", metavar="FILE", help="print the tables of a results file and stop")
    add(
        "--defaults",
        action="store_true",
        help="rows: models with all defaults, of optdigits and letter",
    )
    add(
        "--rows",
        type=int,
        nargs="+",
        help="rows of blocks (default 2,000,000) and growth (default 100,000)",
    )
    add = parser.add_argument_group(
        "benchmarks of trees (names that begin with trees)"
    ).add_argument
    add("--data", nargs="+", metavar="SET", help="data sets; poker is the generated one")
    add("--algorithms", nargs="+", metavar="NAME", help=f"ours: {', '.join(trees.ALGORITHMS)}")
    add("--peers", nargs="*", choices=peers.PEERS, help="other libraries (default: all)")
    add("--rounds", type=int, help="rounds of boosting (default 100; vector trees 200)")
    add(
        "--threads",
        type=int,
        nargs="+",
        default=[1],
        help="threads, one table for each (default 1)",
    )
    add("--leaves", type=int, default=20, help="leaves of a tree (default 20)")
    add("--learning-rate", type=float, default=0.1, help="learning rate (default 0.1)")
    return parser


def check(parser, options):
    """Refuse what cannot be meant."""
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    if options.repeat < 1:
        parser.error("--repeat must be at least 1")
    counts = [n for n in (options.rounds, *(options.rows or ()), *options.threads) if n is not None]
    if min(counts) < 1 or options.leaves < 2:
        parser.error("--rounds, --rows and --threads must be at least 1, --leaves at least 2")
    try:
        trees.check(options.data or (), options.algorithms or ())
    except ValueError as error:
        parser.error(str(error))


def measure(name, options):
    """Entry of one benchmark in a results file, made into JSON whether or not there is a file to write."""
    function = BENCHMARKS[name]
    entry = {"title": function.__doc__.strip(), "quick": options.quick}
    around = {
        "limits": options.limits.all(3),
        "environment": environment(),
    }
    return json.loads(as_json({**entry, **vars(function(options)), **around}))


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] == "guard":  # it has options of its own
        return importlib.import_module("bench_guard").main(arguments[1:])
    parser = make_parser()
    given = parser.parse_args(arguments)
    if given.list:
        for name, function in BENCHMARKS.items():
            print(f"{name:15} {function.__doc__.strip()}")
        return 0
    if given.markdown:
        print(markdown(json.loads(Path(given.markdown).read_text())))
        return 0
    check(parser, given)
    known = {
        name: value for name, value in vars(given).items() if name in Options.__dataclass_fields__
    }
    options = Options(**known, limits=limits.Limits())
    entries = (
        json.loads(Path(given.json).read_text()) if given.json and Path(given.json).exists() else {}
    )
    failed = 0
    for name in given.names or BENCHMARKS:
        try:
            entries[name] = measure(name, options)
        except DataMissing as error:
            print(f"\n== {name}: skipped: {error}", file=sys.stderr)
            failed += 1
            continue
        print_report(name, entries[name])
        if given.json:
            write_json(given.json, entries)
    return 1 if failed else 0
