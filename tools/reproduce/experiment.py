"""What a paper's file declares: units, the fit of a unit, a table and a picture. The rest is done here."""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from shared import peers
from shared.measure import error_percent

from reproduce.journal import Journal, run_units, typed_text

# Columns that the machine and the version change, besides all seconds.
OF_A_RUN = ("cpu", "fold_cpu", "micros_a_row", "bytes")


@dataclass(frozen=True)
class Results:
    """One result file: the columns that make a unit, the columns that a fit finds (in words), and the fit.

    ``fit(unit)`` gives a dict with the columns and ``seconds``. It runs in a process of its own, so it must be a
    function of a module. ``as_text`` names columns whose numbers are read as they are written.
    """

    file: str
    key: str
    columns: str
    fit: Callable
    as_text: str = ""

    def journal(self, folder, fresh=False, keep=False):
        columns = (words.split() for words in (self.key, self.columns))
        return Journal(
            Path(folder, f"{self.file}.csv"), *columns, fresh, keep, self.as_text.split()
        )


@dataclass(frozen=True)
class Experiment:
    """A table of a paper, or a choice of parameters.

    Parameters
    ----------
    results : tuple of Results
        The file of the table first, then those of the choices that it rests on, which lie in the folder --cache.
    plan : callable
        ``plan(options, *journals)`` yields (which of the results, units, title). It goes on when these units are there,
        so later units may depend on earlier rows.
    text : callable
        ``text(frame)`` gives the table in Markdown.
    values : callable or None
        ``values(frame)`` gives what sentences of the pages say about the table, as a dict of texts.
    plot : callable or None
        ``plot(path, frame)`` writes the picture.
    weigh : callable or None
        Order in which rows are verified, the cheapest first; None where there is nothing that can be compared.
    """

    name: str
    title: str
    results: tuple
    plan: Callable
    text: Callable
    plot: Callable | None = None
    weigh: Callable | None = lambda row: float(row["seconds"])
    # Timings run one after the other.
    alone: bool = False
    # What --sets and --methods may name, where they are heeded; an empty tuple allows everything.
    sets: tuple = ()
    methods: tuple = ()
    values: Callable | None = None
    # Shorter tables for the pages, ``function(frame)`` by name; "" is the one that stands for the experiment.
    pages: dict = field(default_factory=dict)

    @property
    def verifiable(self):
        return self.weigh is not None

    def check(self, options):
        """Refuse sets and methods that are not known here."""
        for what, named, known in (
            ("set", options.sets, self.sets),
            ("method", options.methods, self.methods),
        ):
            for name in named or ():
                if known and name not in known:
                    raise SystemExit(
                        f"{self.name} has no {what} {name!r}; there are {', '.join(known)}"
                    )

    def run(self, options):
        """Do what is missing, print the table and write the picture."""
        self.check(options)
        folders = [options.results, *[options.cache] * (len(self.results) - 1)]
        journals = [
            one.journal(folder, options.fresh)
            for one, folder in zip(self.results, folders, strict=True)
        ]
        if getattr(options, "again", False):
            journals[0].forget(partial(_is_named, options))
        jobs = 1 if self.alone else options.jobs
        begin = time.monotonic()
        for which, units, title in self.plan(options, *journals):
            left = (
                None if options.budget is None else options.budget - (time.monotonic() - begin) / 60
            )
            run_units(
                journals[which], self.results[which].fit, units, jobs=jobs, title=title, budget=left
            )
        frame = journals[0].frame()
        if frame.empty:
            print("No results yet.")
            return
        print(self.text(frame))
        if self.plot is not None:
            self.plot(Path(options.results, f"{self.name}.png"), frame)

    def verify(self, options):
        """Do the cheapest rows of the result file anew and compare all that was found; returns how many rows differ."""
        results = self.results[0]
        rows = sorted(results.journal(options.results, keep=True).rows, key=self.weigh)
        if options.methods:
            rows = [row for row in rows if row.get("method") in options.methods]
        rows = rows[: options.verify]
        names = [
            name
            for name in results.columns.split()
            if name not in OF_A_RUN and not name.endswith("seconds")
        ]
        differing = 0
        for row in rows:
            key = {name: row[name] for name in results.key.split()}
            now = results.fit({name: typed_text(text) for name, text in key.items()})
            what = f"{self.name}: {', '.join(key.values())}"
            kept, found = ({name: str(one[name]) for name in names} for one in (row, now))
            differing += compare(what, kept, found, tolerance=options.tolerance)
        return tell_verified(self.name, len(rows), differing)

    def stored(self, folder):
        """Journal of the table's rows in ``folder``, None where it has none."""
        if not Path(folder, f"{self.results[0].file}.csv").exists():
            return None
        journal = self.results[0].journal(folder, keep=True)
        return journal if journal.rows else None

    def markdown(self, folder):
        """The whole table with its commits, None where ``folder`` has no rows of it."""
        journal = self.stored(folder)
        if journal is None:
            return None
        commits = sorted({row["commit"] for row in journal.rows})
        made_by = f"Commit {', '.join(f'`{commit}`' for commit in commits)}."
        return f"### {self.title}\n\n{self.text(journal.frame())}\n\n{made_by}"

    def page_text(self, folder, name=""):
        """A table of the pages."""
        text = self.pages.get(name, self.text) if name == "" else self.pages[name]
        return text(self.stored(folder).frame())

    def values_of(self, folder):
        """What sentences say about the rows in ``folder``, by "table.name"."""
        journal = None if self.values is None else self.stored(folder)
        if journal is None:
            return {}
        return {f"{self.name}.{name}": text for name, text in self.values(journal.frame()).items()}


def _is_named(options, row):
    """Whether a row is of the methods and the sets that are named."""
    named = (("method", options.methods), ("data", options.sets))
    return all(not names or row.get(column) in names for column, names in named)


def compare(what, kept, now, tolerance):
    """Print a comparison of the texts of some columns; 1 if a number differs by more than ``tolerance`` percent."""
    differences = []
    differs = False
    for name, text in kept.items():
        numbers = [typed_text(one) for one in (text, now[name])]
        words = ""
        if text != now[name] and numbers[0] != numbers[1]:
            close = not any(isinstance(one, str) for one in numbers) and (
                abs(numbers[1] - numbers[0]) <= tolerance / 100 * abs(numbers[0]) + 1e-9
            )
            differs |= not close
            words = f" now {now[name]} ({'close' if close else 'DIFFERS'})"
        differences.append(f"{name} {text}{words}")
    print(f"{what}: {', '.join(differences)}")
    return int(differs)


def tell_verified(name, checked, differing):
    """Say what was found; nothing to compare counts as a difference."""
    print(f"{name}: {checked} compared, {differing} differ")
    return differing if checked else 1


def fit_and_test(unit, model, parts, decimals=4, **fit_params):
    """Fit a model to the first two of ``parts``, test it on the others; returns the row of the unit and the model."""
    X, codes, X_test, truth = parts
    if isinstance(model, peers.Spec):
        begin = time.perf_counter()
        model = peers.fit(model, X, codes, n_classes=int(codes.max()) + 1)
    else:
        begin = time.perf_counter()
        model.fit(X, codes, **fit_params)
    seconds = time.perf_counter() - begin
    row = {
        **unit,
        "n_train": len(codes),
        "n_test": len(truth),
        "rounds_fitted": getattr(model, "n_estimators_", None),
        "error": round(error_percent(truth, model.predict(X_test)), decimals),
        "seconds": round(seconds, 4),
    }
    return row, model


def cross(**values):
    """Units of all combinations of the values, those of the last name changing fastest."""
    return [dict(zip(values, one, strict=True)) for one in itertools.product(*values.values())]


def select(frame, **where):
    """Rows of a frame that have these values."""
    for name, value in where.items():
        frame = frame[frame[name] == value]
    return frame


def errors_of(frame, column="error", **where):
    """Errors of the rows that have these values."""
    return select(frame, **where)[column].to_numpy()
