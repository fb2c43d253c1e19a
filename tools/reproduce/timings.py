"""What the files of tools/bench.py say in the pages: any figure of them, and any quotient of two."""

import json
import re
from functools import partial
from pathlib import Path

from bench import report


class Figures(dict):
    """Texts by name, also of quotients: ``figures["a/b"]``; ``numbers`` holds the figures themselves."""

    def __init__(self, texts=(), numbers=()):
        super().__init__(texts)
        self.numbers = dict(numbers)

    def __contains__(self, name):
        return name in self.numbers or super().__contains__(name) or self._parts(name) is not None

    def __missing__(self, name):
        if name in self.numbers:
            return words(self.numbers[name], name)
        upper, lower = self._parts(name)
        return words(self.numbers[upper] / self.numbers[lower])

    def _parts(self, name):
        parts = name.split("/")
        return parts if len(parts) == 2 and all(part in self.numbers for part in parts) else None


def words(value, name=""):
    """Two digits, errors in percent two decimals, and whole numbers from a hundred on."""
    if isinstance(value, int) or value >= 99.5:
        return f"{float(f'{value:.3g}'):,.0f}" if isinstance(value, float) else f"{value:,}"
    if name.endswith(("cross-entropy", "log-loss")):
        return f"{value:.4f}"
    if name.endswith("percent") or "error" in name.rsplit(".", 1)[-1]:
        return f"{value:.2f}"
    text = f"{value:.2g}"
    return f"{value:.1f}" if len(text) == 1 else text


def slug(text):
    """A name without spaces, slashes and capital letters."""
    return re.sub(r"[^a-z0-9=+]+", "-", text.lower()).strip("-")


def machine(environment):
    """On what, when, and whether something else ran: more than one process waited for each CPU."""
    load, cpus = environment["load_before"], environment["cpus"]
    busy = ", busy" if load > cpus else ""
    return f"{environment['cpu'].replace('(R)', '')}, {environment['date']}{busy} (load {load:.1f})"


def entries_of(folder):
    """(name, entry) of all benchmarks: the name is that of the file, or of the benchmark where a file has several."""
    for path in sorted(Path(folder).glob("bench*.json")):
        entries = json.loads(path.read_text())
        for name, entry in entries.items():
            yield name if len(entries) > 1 else path.stem, entry


def figures(folder):
    """Every figure of the benchmarks in ``folder``: "file.what.column", "file.machine"."""
    texts, numbers = {}, {}
    for name, entry in entries_of(folder):
        texts[f"{name}.machine"] = machine(entry["environment"])
        for row in entry["rows"]:
            for column, value in row.items():
                if isinstance(value, (int, float)) and value is not None:
                    numbers[f"{name}.{slug(row['what'])}.{slug(column)}"] = value
        for target in entry["targets"]:
            numbers[f"{name}.target.{slug(target['what'])}"] = target["reached"]
    detector = Path(folder, "detector.json")
    if detector.exists():
        numbers |= dict(_flat("detector", json.loads(detector.read_text())))
    return Figures(texts, numbers)


def _flat(name, tree):
    """Numbers of nested dicts and lists."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in pairs:
        inner = f"{name}.{slug(str(key))}"
        if isinstance(value, (dict, list)):
            yield from _flat(inner, value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield inner, value


def tables(folder):
    """Functions that make the tables of a file of benchmarks, by its name."""
    return {path.stem: partial(_table, path) for path in sorted(Path(folder).glob("bench*.json"))}


def _table(path):
    return report.markdown(json.loads(path.read_text()))
