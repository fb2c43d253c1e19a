"""What the files of tools/bench.py say in the pages: any figure of them, and any quotient of two."""

import json
import re
from functools import partial
from pathlib import Path

from shared.tables import markdown_table

from reproduce.quality import geometric


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


# -- tables of the pages -------------------------------------------------------------------------


def tables(folder):
    """Functions that make the tables of the pages from the files of benchmarks, by name."""
    makers = {
        "bench-trees": trees_table,
        "bench-small-fits": small_fits_table,
        "bench-early": early_table,
        "bench-growth": growth_table,
    }
    return {name: partial(maker, dict(entries_of(folder))) for name, maker in makers.items()}


def rows_of(entry):
    """The rows of a benchmark by what they are."""
    return {row["what"]: row for row in entry["rows"]}


def trees_table(entries):
    """Class-wise trees at equal settings: our time, others' as multiples, memory."""
    lines = []
    for file in ("bench-trees-small", "bench-trees-mnist", "bench-trees-large"):
        rows = rows_of(entries[file])
        for what, row in rows.items():
            problem, _, method = what.rpartition(": ")
            if method != "logitboost" or ", to " in problem:
                continue
            ratios = [
                rows[f"{problem}: {peer}'s time / logitboost's"]["best"]
                for peer in ("LightGBM", "XGBoost", "CatBoost")
            ]
            level = next(
                row["best"]
                for other, row in rows.items()
                if other.startswith(f"{problem}, to ")
                and other.endswith("LightGBM's time / logitboost's")
            )
            theirs = next(
                row for other, row in rows.items() if other.startswith(f"{problem}: LightGBM |")
            )
            name, _, threads = problem.rpartition(", ")
            lines.append([
                name.partition(" (")[0], threads.split()[0], row["rounds"], words(row["best"]),
                *(words(ratio) for ratio in ratios), words(level), f"{row['peak_MB']}/{theirs['peak_MB']}",
            ])  # fmt: skip
    heads = "set, threads, rounds, seconds, LightGBM, XGBoost, CatBoost, to equal error, MB".split(
        ", "
    )
    return markdown_table(heads, lines)


def small_fits_table(entries):
    """Our CPU time as a multiple of others', by the number of classes."""
    ratios = {}
    for row in entries["bench-small-fits"]["rows"]:
        shape, _, peer = row["what"].partition(": ")
        if "ours_times" in row:
            classes = shape.rpartition(", ")[2]
            ratios.setdefault((classes, peer), []).append(row["ours_times"])
    lines = [
        [
            *key,
            len(values),
            *(words(value) for value in (geometric(values), min(values), max(values))),
        ]
        for key, values in sorted(ratios.items(), key=lambda item: int(item[0][0].split()[0]))
    ]
    return markdown_table(["problem", "against", "fits", "ours/theirs", "least", "most"], lines)


def early_table(entries):
    """Time and labels with early exits."""
    lines = []
    for row in entries["bench-early"]["rows"]:
        name, _, rest = row["what"].partition(": ")
        kind = rest.partition(",")[0]
        changed = 100 * row["changed"] / row["of_rows"]
        lines.append([name, kind, words(row["best"]), f"{row['skipped_%']:.0f}", f"{changed:.2g}"])
    return markdown_table(["set", "exit", "time", "skipped %", "labels changed %"], lines)


def growth_table(entries):
    """Training with more and more classes."""
    lines = []
    for row in entries["bench-growth"]["rows"]:
        classes, _, kind = row["what"].removeprefix("K=").partition(", ")
        cells = (row["best"], row["grown_MB"], row["model_MB"])
        lines.append(
            [f"{int(classes):,}", kind.partition(" ")[0], *(words(cell) for cell in cells)]
        )
    return markdown_table(["classes", "entries of a leaf", "seconds", "MB", "model MB"], lines)
