"""Tables, published numbers and pictures, in the one form that all tools print them in."""

import io
import json
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np

PUBLISHED = Path(__file__).resolve().parents[1] / "reproduce" / "published"
# A figure in a sentence: between the two comments stands what a tool filled in.
VALUE = re.compile(r"<!-- value: (?P<name>\S+) -->.*?<!-- end -->", re.DOTALL)
# A table between two comments of a name.
BLOCK = re.compile(r"<!-- begin (?P<name>\S+) -->\n.*?<!-- end (?P=name) -->", re.DOTALL)


def number(value):
    """Four significant digits without needless zeros."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return str(value)


def markdown_table(header, rows):
    """Format a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def mean_and_deviation(values):
    """Mean and standard deviation, 0 for a single value."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def spread(values, digits=2):
    """Mean and standard deviation in words; "-" where there is none."""
    values = np.asarray(values, float)
    if not len(values) or np.isnan(values).any():
        return "-"
    words = f"{values.mean():.{digits}f}"
    return words + (f" ({values.std(ddof=1):.{digits}f})" if len(values) > 1 else "")


def span(values, form="{:.0f}"):
    """The smallest and the largest of some numbers in words, or the one that both are."""
    ends = [form.format(end(values)) for end in (min, max)]
    return " to ".join(dict.fromkeys(ends))


def beside(theirs, ours, far=False, digits=1):
    """A published figure and ours as one word; bold where ours is ``far`` from it."""
    words = f"{theirs:.{digits}f}/{ours:.{digits}f}"
    return f"**{words}**" if far else words


def deviations(ours, theirs):
    """How many of the paper's standard deviations our mean lies above its mean."""
    return (ours - theirs[0]) / theirs[1]


def published(name, index=1):
    """Numbers of a paper from published/NAME.csv, whose first line is a comment with their source.

    A cell "6.5 (2.8)" is a mean and a standard deviation, an empty one None, and any other one a number.

    Returns
    -------
    dict
        {first column: {column: cell}}; with ``index`` = 2 the keys are pairs of the first two columns.
    """
    lines = Path(PUBLISHED, f"{name}.csv").read_text().splitlines()
    head, *rows = (line.split(",") for line in lines if not line.startswith("#"))
    numbers = {}
    for row in rows:
        key = row[0] if index == 1 else tuple(row[:index])
        numbers[key] = dict(zip(head[index:], map(_cell, row[index:]), strict=True))
    return numbers


def _cell(text):
    numbers = [float(word) if "." in word else int(word) for word in re.findall(r"[\d.]+", text)]
    return None if not numbers else numbers[0] if len(numbers) == 1 else tuple(numbers)


def with_blocks(page, blocks):
    """A Markdown page with the text of ``blocks[name]()`` between ``<!-- begin name -->`` and ``<!-- end name -->``."""

    def filled(found):
        name = found["name"]
        if name not in blocks:
            raise SystemExit(
                f"the page asks for the table {name!r}; results have {', '.join(blocks)}"
            )
        return f"<!-- begin {name} -->\n{blocks[name]().strip()}\n<!-- end {name} -->"

    return BLOCK.sub(filled, page)


def with_values(page, values):
    """A Markdown page whose sentences have the values of a dict: ``<!-- value: table.name -->0.29<!-- end -->``."""

    def filled(found):
        name = found["name"]
        if name not in values:
            raise SystemExit(
                f"the page asks for the value {name!r}; results have {', '.join(values)}"
            )
        return f"<!-- value: {name} -->{values[name]}<!-- end -->"

    return VALUE.sub(filled, page)


def as_json(value):
    """JSON text; NumPy's numbers are written as Python's."""
    return json.dumps(value, indent=1, default=lambda x: x.item())


def write_json(path, value):
    """Write JSON through a temporary file, so that an interrupted run leaves the old one."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(as_json(value) + "\n")
    temporary.replace(path)


@contextmanager
def picture(path, rows=1, columns=1, save=None, **how):
    """Axes of a new picture, an array of (rows, columns), which is written to ``path`` at the end, as ``save`` says."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from PIL import Image

    how = {"layout": "constrained", "squeeze": False, **how}
    figure, axes = pyplot.subplots(rows, columns, **how)
    yield axes
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn, **{"dpi": 90, **(save or {})})
    pyplot.close(figure)
    # A palette takes a third of the bytes of full colours.
    Image.open(drawn).convert("RGB").quantize(64).save(path, format="PNG", optimize=True)
    print(f"wrote {path}", file=sys.stderr)
