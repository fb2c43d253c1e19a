"""Tables and figures of the papers, theirs against ours, and everyone's probabilities on all data sets.

    python tools/reproduce.py table4|table2|table1 [--sets usps ...] [--jobs 2]
    python tools/reproduce.py official|mnist-hog|figure1 [--results results]
    python tools/reproduce.py mnist10k|covtype-abc|poker-abc|poker25k-abc [--rounds N] [--gaps 1 10] [--methods ...]
    python tools/reproduce.py mnist10k-grid [--methods mart ...] [--budget MINUTES]
    python tools/reproduce.py multiboost-curves|multiboost-fcd|table4-multiboost [--sets usps ...]
    python tools/reproduce.py quality|quality-tuned [--sets iris ...] [--methods vector ...] [--budget MINUTES]
    python tools/reproduce.py quality-fair [--sets iris ...] [--methods vector ...] [--again]
    python tools/reproduce.py quality-paired
    python tools/reproduce.py hinge|hinge-columns|hinge-paired|hinge-variants [--sets vowel ...] [--budget MINUTES]
    python tools/reproduce.py piboost-table3|table5|table5-learners|table5-chosen|imbalance [--sets vowel ...]
    python tools/reproduce.py defaults [--sets iris ...] [--methods vector ...] [--budget MINUTES]
    python tools/reproduce.py temperature [--sets vowel ...] [--methods vector ...]
    python tools/reproduce.py modes [--methods auto ...]
    python tools/reproduce.py NAME --verify [N]
    python tools/reproduce.py --markdown results [--into [README.md ...]]

Every finished fit is appended to a CSV file at once, with commit, versions and seconds, and is not done again: an
interrupted run goes on where it stopped (--fresh starts over). Seeds are fixed. Data come from PYMCBOOST_DATA.
What parameters are chosen by goes to the folder --cache. --verify does the cheapest fits of a result file anew and
compares.
"""

import argparse
import importlib
import sys
from functools import partial
from pathlib import Path

from shared.datasets import DataMissing
from shared.internals import available_cpus
from shared.measure import ROOT
from shared.peers import Absent
from shared.tables import BLOCK, VALUE, with_blocks, with_values

from reproduce import timings

# In the order of the pages.
PAPERS = (
    "headline",
    "mcboost",
    "figure1",
    "abcboost",
    "abcboost_grid",
    "multiboost_table4",
    "multiboost",
    "multiboost_fcd",
    "piboost",
    "table5",
    "table5_learners",
    "imbalance",
    "hinge",
    "hinge_others",
    "hinge_variants",
    "fair",
    "quality",
    "temperature",
    "modes",
    "defaults",
)
MODULES = [importlib.import_module(f"reproduce.{paper}") for paper in PAPERS]
EXPERIMENTS = {
    experiment.name: experiment for module in MODULES for experiment in module.EXPERIMENTS
}
VERIFIABLE = [name for name, experiment in EXPERIMENTS.items() if experiment.verifiable]


def make_parser():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("tables", nargs="*", metavar="TABLE", help=f"one or more of {', '.join(EXPERIMENTS)}")
    add(
        "--results",
        default="results",
        help="folder of the CSV files and pictures (default results)",
    )
    add(
        "--jobs", type=int, default=0, help="processes, or threads of mnist-hog (default: all CPUs)"
    )
    add("--repeats", type=int, default=None, help="random samples or splits (default: the papers')")
    add("--rounds", type=int, default=None, help="rounds of mnist-hog and trees (defaults differ)")
    add(
        "--cache",
        default="results-local",
        help="folder of features and choices of parameters (results-local)",
    )
    add("--fresh", action="store_true", help="do everything again instead of going on")
    add(
        "--again",
        action="store_true",
        help="do the fits of the --methods or --sets named anew, and keep all others",
    )
    add("--markdown", metavar="FOLDER", help="print the tables of a results folder and stop")
    add(
        "--into",
        metavar="PAGE",
        nargs="*",
        help="with --markdown: put tables, and values in sentences, into these pages (default: README.md and docs)",
    )
    add = parser.add_argument_group("trees and MultiBoost").add_argument
    add(
        "--methods",
        nargs="+",
        metavar="NAME",
        help="only these methods (mart, abc-logitboost, ...)",
    )
    add(
        "--gaps", nargs="+", type=int, metavar="G", help="gaps of the abc methods (defaults differ)"
    )
    add(
        "--sets",
        nargs="+",
        metavar="SET",
        help="data sets of the tables that can do a part of theirs",
    )
    add("--budget", type=float, metavar="MINUTES", help="begin no further fit after this")
    add(
        "--verify",
        type=int,
        nargs="?",
        const=25,
        metavar="N",
        help="compare the N cheapest fits with the result file (default 25)",
    )
    add("--tolerance", type=float, default=0.0, help="with --verify: percent that may differ (0)")
    return parser


def markdown(folder):
    """Every table that has results in ``folder``."""
    parts = [experiment.markdown(folder) for experiment in EXPERIMENTS.values()]
    return "\n\n".join(part for part in parts if part)


def values(folder):
    """What sentences say about the tables and benchmarks that have results in ``folder``."""
    parts = [experiment.values_of(folder) for experiment in EXPERIMENTS.values()]
    texts = timings.figures(folder)
    texts.update({name: text for part in parts for name, text in part.items()})
    return texts


def blocks(folder):
    """Functions that make the tables of the pages, by the name of the experiment or of the benchmark's file."""
    tables = timings.tables(folder)
    tables["reproduction"] = partial(markdown, folder)
    for name, experiment in EXPERIMENTS.items():
        tables[name] = partial(experiment.page_text, folder)
        for part in experiment.pages:
            if part:
                tables[f"{name}.{part}"] = partial(experiment.page_text, folder, part)
    return tables


def written(page, tables, figures):
    """The text of a page with the tables that ``blocks`` and the figures that ``values`` give."""
    return with_values(with_blocks(page, tables), figures)


def pages():
    """The pages that have tables or values of results."""
    files = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        page
        for page in files
        if "_build" not in page.parts
        and (VALUE.search(page.read_text()) or BLOCK.search(page.read_text()))
    ]


def check(parser, options):
    """Refuse what cannot be meant."""
    if not options.tables or not set(options.tables) <= set(EXPERIMENTS):
        parser.error(f"name one or more of {', '.join(EXPERIMENTS)}")
    if options.verify is not None and not set(options.tables) <= set(VERIFIABLE):
        parser.error(f"--verify is for {', '.join(VERIFIABLE)}")
    if options.again and not (options.methods or options.sets):
        parser.error("--again needs --methods or --sets; --fresh does everything again")
    counts = [options.repeats, options.rounds, options.verify, *(options.gaps or [])]
    if min((count for count in counts if count is not None), default=1) < 1:
        parser.error("--repeats, --rounds, --gaps and --verify must be at least 1")


def main(arguments=None):
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.markdown:
        if options.into is None:
            print(markdown(options.markdown))
            return 0
        tables = blocks(options.markdown)
        figures = values(options.markdown)
        for page in map(Path, options.into or pages()):
            page.write_text(written(page.read_text(), tables, figures))
        return 0
    check(parser, options)
    if options.jobs <= 0:
        options.jobs = available_cpus()
    chosen = [EXPERIMENTS[name] for name in options.tables]
    try:
        if options.verify is not None:
            return min(1, sum(experiment.verify(options) for experiment in chosen))
        for experiment in chosen:
            experiment.run(options)
    except DataMissing as error:
        print(error, file=sys.stderr)
        return 2
    except Absent as reason:
        raise SystemExit(f"{reason} is absent") from None
    except KeyboardInterrupt:
        print(
            "\ninterrupted; what was finished is kept, and the same command goes on from there",
            file=sys.stderr,
        )
        return 130
    return 0
