"""What a benchmark hands over, and how it is printed."""

from dataclasses import dataclass, field

from shared.tables import markdown_table, number

BENCHMARKS = {}
PLAIN = ("what", "best", "median", "runs", "unit")


def benchmark(name):
    """Register a benchmark; the first line of its docstring is its title."""

    def keep(function):
        BENCHMARKS[name] = function
        return function

    return keep


@dataclass
class Options:
    """What the command line asks for; None means a benchmark's own choice."""

    repeat: int = 5
    quick: bool = False
    limits: object = None
    data: list | None = None
    rows: list | None = None
    algorithms: list | None = None
    peers: list | None = None
    rounds: int | None = None
    threads: list = field(default_factory=lambda: [1])
    leaves: int = 20
    learning_rate: float = 0.1
    defaults: bool = False

    def size(self, quick, full):
        """One of two sizes."""
        return quick if self.quick else full


@dataclass
class Report:
    """What one benchmark found."""

    parameters: dict = field(default_factory=dict)
    rows: list = field(default_factory=list)
    targets: list = field(default_factory=list)
    notes: list = field(default_factory=list)

    def add(self, what, value, unit="x", **options):
        """Enter a figure that is not a timing, by default a ratio."""
        self.rows.append({"what": what, "best": value, "unit": unit, **options})

    def target(self, what, reached, bound, at_most=False, unit="x"):
        """Compare a figure with its target; ``at_most`` where small is good."""
        ok = reached <= bound if at_most else reached >= bound
        words = f"{'<=' if at_most else '>='} {bound:g} {unit}".strip()
        self.targets.append(
            {"what": what, "target": words, "reached": reached, "unit": unit, "ok": bool(ok)}
        )


def judged(entry, target, no="NO"):
    """Whether a target was met, in words."""
    return "not judged" if entry["quick"] else "yes" if target["ok"] else no


def print_report(name, entry):
    """One benchmark as text."""
    print(f"\n== {name}: {entry['title']}")
    for key, value in entry["parameters"].items():
        print(f"   {key}: {value}")
    for row in entry["rows"]:
        more = "  ".join(f"{key}={number(value)}" for key, value in row.items() if key not in PLAIN)
        median = f"  median {number(row['median'])} of {row['runs']}" if "median" in row else ""
        print(f"   {row['what']:<58} {number(row['best']):>9} {row['unit']}{median}  {more}")
    for target in entry["targets"]:
        words = judged(entry, target) + " (--quick)" * entry["quick"]
        print(
            f"   target {target['what']}: {target['target']}, reached {number(target['reached'])}: {words}"
        )
    for note in entry["notes"]:
        print(f"   note: {note}")
    for key, value in entry["limits"].items():
        print(f"   {key}: {number(value)}")


def markdown(entries):
    """Tables of a results file."""
    targets = [
        [
            name,
            target["what"],
            target["target"],
            f"{number(target['reached'])} {target['unit']}".strip(),
            judged(entry, target, no="no"),
        ]
        for name, entry in entries.items()
        for target in entry["targets"]
    ]
    parts = []
    if targets:
        parts += [
            "### Targets",
            markdown_table(["benchmark", "what", "target", "reached", "met"], targets),
        ]
    for name, entry in entries.items():
        parts += entry_parts(name, entry)
    return "\n\n".join(parts)


def entry_parts(name, entry):
    """Paragraphs and tables of one benchmark, in Markdown."""
    yield f"### {name}\n\n{entry['title']}"
    if entry["parameters"]:
        yield "\n".join(f"- {key}: {value}" for key, value in entry["parameters"].items())
    if entry["rows"]:
        extra = list(dict.fromkeys(key for row in entry["rows"] for key in row if key not in PLAIN))
        lines = [
            [
                row["what"],
                number(row["best"]),
                number(row.get("median")),
                row.get("runs", "-"),
                row["unit"],
                *(number(row.get(key)) for key in extra),
            ]
            for row in entry["rows"]
        ]
        yield markdown_table([*PLAIN, *(key.replace("_", " ") for key in extra)], lines)
    limits, environment = entry["limits"], entry["environment"]
    if entry["notes"]:
        yield "\n".join(f"- {note}" for note in entry["notes"])
    versions = ", ".join(f"{key} {value}" for key, value in environment["versions"].items())
    yield (
        f"Measured on {environment['date']} at commit `{environment['commit']}`: {environment['cpu']} "
        f"({environment['simd']}, {environment['cpus']} CPUs, {number(limits.get('clock_GHz'))} GHz, load before "
        f"{environment['load_before']}); 64-byte row in L1 {number(limits.get('rmw_64B_L1_ns'))} ns; "
        f"{versions}; {environment['compiler']}."
    )
