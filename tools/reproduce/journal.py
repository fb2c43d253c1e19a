"""Results that grow row by row: an interrupted run goes on where it stopped."""

import csv
import sys
import time
from pathlib import Path

import pandas as pd
from shared import measure


class Journal:
    """A CSV file to which finished units are appended; a unit is known by the columns of its key.

    ``fresh`` deletes what is there; ``keep`` only reads, without touching the file. ``rows`` holds the text of the
    file, so that a row that is kept stays as it is; `frame` holds numbers, but for the columns ``as_text``.
    """

    # Files begun afresh in this process: tables that share a file must not wipe each other's rows.
    renewed = set()

    def __init__(self, path, key, columns, fresh=False, keep=False, as_text=()):
        self.path = Path(path)
        self.key = key
        self.as_text = as_text
        self.columns = [*key, *columns, "seconds", "commit"]
        if not keep:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        if fresh and self.path not in Journal.renewed:
            self.path.unlink(missing_ok=True)
            Journal.renewed.add(self.path)
        self.rows = self._read() if self.path.exists() else []
        if self.path.exists() and not keep:
            self._write(self.rows)
        self.done = {self._identity(row) for row in self.rows}
        self.commit = measure.commit()
        others = sorted({row["commit"] for row in self.rows} - {self.commit})
        if others and not keep:
            print(
                f"{self.path}: {len(self.rows)} rows are kept, some from commit {', '.join(others)}; "
                "--fresh does them again",
                file=sys.stderr,
            )

    def _read(self):
        with open(self.path, newline="") as file:
            # A line cut short by a kill has no last column; it is dropped here and the unit done again.
            rows = [row for row in csv.DictReader(file) if row.get("commit")]
        lacking = [name for name in self.columns if rows and name not in rows[0]]
        if lacking:
            raise SystemExit(
                f"{self.path} has no column {', '.join(lacking)}: --fresh begins it anew"
            )
        return rows

    def _identity(self, row):
        return tuple(str(row[name]) for name in self.key)

    def _write(self, rows):
        temporary = self.path.with_name(self.path.name + ".tmp")
        with open(temporary, "w", newline="") as file:
            writer = csv.DictWriter(file, self.columns, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        temporary.replace(self.path)

    def frame(self):
        """The rows as a table whose columns of numbers hold numbers."""
        return frame_of(self.rows, self.columns, self.as_text)

    def missing(self, units):
        """Units without a row."""
        return [unit for unit in units if self._identity(unit) not in self.done]

    def forget(self, those):
        """Leave out the rows of which ``those`` is true, so that their units are done again."""
        kept = [row for row in self.rows if not those(row)]
        if len(kept) < len(self.rows):
            self.rows, self.done = kept, {self._identity(row) for row in kept}
            self._write(kept)

    def add(self, row):
        """Append one finished unit."""
        row = {name: str(value) for name, value in {**row, "commit": self.commit}.items()}
        new = not self.path.exists()
        with open(self.path, "a", newline="") as file:
            writer = csv.DictWriter(file, self.columns, extrasaction="ignore", lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)
        self.rows.append(row)
        self.done.add(self._identity(row))

    def sort(self):
        """Put the rows in order of their keys, so that the file does not depend on who finished first."""

        def order(row):
            typed = [typed_text(text) for text in self._identity(row)]
            return [
                (1, 0.0, value) if isinstance(value, str) else (0, float(value), "")
                for value in typed
            ]

        self._write(sorted(self.rows, key=order))


def typed_text(text):
    """The number that a text is, else the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def frame_of(rows, columns=(), as_text=()):
    """Rows as a table; a column becomes numbers where all of it is numbers, unless it is one of ``as_text``."""
    frame = pd.DataFrame(rows, columns=None if rows else list(columns))
    for name in frame.columns.difference([*as_text, "commit"]):
        try:
            frame[name] = pd.to_numeric(
                frame[name].replace("nan", None)
            )  # as journals have it, and pandas has not
        except (ValueError, TypeError):
            pass
    return frame


def while_time(units, budget):
    """Units until ``budget`` minutes have passed; all of them where it is None."""
    begin = time.monotonic()
    for count, unit in enumerate(units):
        if budget is not None and time.monotonic() - begin >= 60 * budget:
            print(
                f"the time is over: {len(units) - count} of {len(units)} not begun", file=sys.stderr
            )
            return
        yield unit


def run_units(journal, work, units, jobs, title, budget=None):
    """Do the missing units in parallel processes, in order, and append each as it comes.

    After ``budget`` minutes no further unit is begun.
    """
    from joblib import Parallel, delayed
    from tqdm import tqdm

    missing = journal.missing(units)
    if len(missing) < len(units):
        print(
            f"{title}: {len(units) - len(missing)} of {len(units)} are there already",
            file=sys.stderr,
        )
    # loky: forking after OpenMP has run in the parent would hang the children.
    finished = Parallel(
        n_jobs=jobs, backend="loky", return_as="generator_unordered", pre_dispatch=jobs
    )(delayed(work)(unit) for unit in while_time(missing, budget))
    for row in tqdm(finished, total=len(missing), desc=title, unit="fit", disable=None):
        journal.add(row)
    journal.sort()
