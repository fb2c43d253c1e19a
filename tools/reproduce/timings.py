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
        """The text of a number that has none, or of the quotient "a/b" of two numbers."""
        if name in self.numbers:
            return words(self.numbers[name], name)
        numerator, denominator = self._parts(name)
        return words(self.numbers[numerator] / self.numbers[denominator])

    def _parts(self, name):
        """The names of the two numbers of a quotient "a/b"; None if it is not one."""
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
    """On what and when, and the average number of processes that ran in the minute before."""
    cpu, date = environment["cpu"].replace("(R)", ""), environment["date"]
    cpus = f"{environment['cpus']} CPU{'s' * (environment['cpus'] > 1)}"
    return f"{cpu}, {cpus}, load {environment['load_before']:.1f}, {date}"


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
        "bench-frames": frames_table,
        "bench-stumps": stumps_table,
        "bench-span.parts": span_parts_table,
        "bench-span.threads": span_threads_table,
        "bench-threads": threads_table,
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
            lines.append(
                [
                    name.partition(" (")[0],
                    threads.split()[0],
                    row["rounds"],
                    words(row["best"]),
                    *(words(ratio) for ratio in ratios),
                    words(level),
                    f"{row['peak_MB']}/{theirs['peak_MB']}",
                ]
            )
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
    lines = {}
    for row in entries["bench-early"]["rows"]:
        name, _, kind = row["what"].partition(": ")
        cells = lines.setdefault(name, [name])
        cells += [words(row["best"]), f"{row['skipped_%']:.0f}%"]
        if kind.startswith("calibrated"):
            cells.append(f"{100 * row['changed'] / row['of_rows']:.2f}%")
    heads = ["set", "certified: time", "skipped", "calibrated: time", "skipped", "labels changed"]
    return markdown_table(heads, lines.values())


def growth_table(entries):
    """Training with more and more classes, all entries of a leaf and at most a hundred of them."""
    lines = {}
    for row in entries["bench-growth"]["rows"]:
        classes = int(row["what"].removeprefix("K=").partition(",")[0])
        cells = lines.setdefault(classes, [f"{classes:,}"])
        cells += [words(row[column]) for column in ("best", "grown_MB", "model_MB")]
    heads = ["classes", "seconds", "MB", "model MB", "100 entries: seconds", "MB", "model MB"]
    return markdown_table(heads, lines.values())


def frames_table(entries):
    """Probabilities of rows of data frames, by library."""
    lines = {}
    for row in entries["bench-frames"]["rows"]:
        columns, _, library = row["what"].partition(": ")
        if "categories" in columns and "codes" not in library:
            lines.setdefault(columns, {})[library] = words(row["cpu"])
    libraries = list(next(iter(lines.values())))
    cells = [[columns, *(row[library] for library in libraries)] for columns, row in lines.items()]
    return markdown_table(["columns", *libraries], cells)


def threads_table(entries, problem="covtype, 100,000 rows"):
    """Fits on one thread and on several, on an idle machine and beside busy processes."""
    rows = rows_of(entries["bench-threads"])
    lines = []
    for what, row in rows.items():
        busy = rows.get(f"{what}, busy")
        if not what.startswith(f"{problem}, ") or busy is None:
            continue
        lines.append([what.removeprefix(f"{problem}, ")])
        for one in (row, busy):
            lines[-1] += [words(one["one_thread"]), words(one["median"])]
        lines[-1].append(words(busy["cpu_ratio"]))
    heads = ["method", "1 thread", "2 threads", "busy: 1 thread", "2 threads", "CPU time, 2 / 1"]
    return markdown_table(heads, lines)


# What, the benchmark, its rows of MCBoost and of LightGBM, and their column.
STUMPS = (
    ("1,000 rounds on pendigits, seconds", "fit-pendigits", "MCBoost exp, 1000 rounds",
     "LightGBM, 10000 two-leaf trees", "best"),
    ("test error, %", "fit-pendigits", "MCBoost exp, 1000 rounds", "LightGBM, 10000 two-leaf trees",
     "test_error_percent"),
    ("100 rounds on MNIST, seconds", "fit-mnist", "exp, 1 threads", "lightgbm, 1 threads", "best"),
    ("two threads", "fit-mnist", "exp, 2 threads", "lightgbm, 2 threads", "best"),
    ("1,000 stumps, row of a batch, microseconds", "score", "batch: ours, list",
     "batch: LightGBM, 1000 two-leaf trees (as many trees)", "best"),
    ("1,000 stumps, bytes", "size", "pendigits: .mcb, list, 1000 stumps",
     "pendigits: LightGBM's text, 1000 trees", "best"),
)  # fmt: skip


def stumps_table(entries):
    """Stumps of MCBoost and of LightGBM."""
    lines = []
    for title, name, ours, theirs, column in STUMPS:
        rows = rows_of(entries[name])
        lines.append([title, *(words(rows[what][column], column) for what in (ours, theirs))])
    return markdown_table(["what", "MCBoost", "LightGBM"], lines)


def span_parts_table(entries):
    """One vector tree on a million rows: work of its parts, and how long they take on many threads."""
    lines, rows = [], "1,000,000 rows, "
    for row in entries["bench-span"]["rows"]:
        if row["what"].startswith(rows) and "percent" in row:
            times = (row["best"], row["threads_8"], row["threads_64"])
            lines.append(
                [row["what"].removeprefix(rows), f"{row['percent']:.1f}", *map(words, times)]
            )
    return markdown_table(
        ["part", "% of the work", "1 thread, ms", "8 threads", "64 threads"], lines
    )


def span_threads_table(entries):
    """The speed-up that the schedule gives, by rows and threads."""
    rows, lines = rows_of(entries["bench-span"]), []
    for n in ("100,000", "1,000,000", "10,000,000"):
        tree, search = rows[f"{n} rows, tree"], rows[f"{n} rows, bytes of searches"]
        speed_ups = (f"{tree[f'speed_up_{threads}']:.1f}" for threads in (2, 8, 32, 64))
        lines.append([n, words(tree["best"]), *speed_ups, words(search["gb_a_second_64"])])
    heads = ["rows", "1 thread, ms", "2 threads", "8", "32", "64", "GB/s of the searches, 64"]
    return markdown_table(heads, lines)
