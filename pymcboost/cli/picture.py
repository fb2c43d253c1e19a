"""The picture of ``mcboost-tune --plot``: the results of a search against each of its options."""

import io
import os

import numpy as np

from pymcboost._text import drawn

# The largest value is so many times the least one where an axis of numbers gets logarithms.
WIDE = 20
PLAIN, LINE, BEST = "#4269d0", "#9aa7c7", "#d9541e"


def draw(arguments, space, values, means, spread, best):
    """The picture as bytes, a panel for each option.

    Parameters
    ----------
    arguments : Namespace
        ``plot`` names the file, ``best_by`` what is shown.
    space : dict of str to (Choices or Range)
        What was searched, by option.
    values : list of list
        The value of each option in every combination.
    means, spread : ndarray (n,)
        Of the folds.
    best : int
        The combination that is marked.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    name = arguments.best_by.replace("_", " ")
    factor, unit = (100, f"{name}, %") if arguments.best_by in ("error", "hamming_loss") else (1, name)
    figure = Figure(figsize=(1.2 + 3.2 * len(space), 3.4), layout="constrained")
    panels = figure.subplots(1, len(space), sharey=True, squeeze=False)[0]
    for j, (panel, (option, part)) in enumerate(zip(panels, space.items(), strict=True)):
        at, names = _places([row[j] for row in values])
        if not hasattr(part, "log"):
            there = np.unique(at)
            top = np.max if arguments.best_by.startswith("f1") else np.min
            least = [factor * top(means[at == place]) for place in there]
            panel.plot(there, least, color=LINE, linewidth=1, label="best of each value", zorder=1)
        panel.errorbar(at, factor * means, factor * spread, fmt=".", color=PLAIN, linewidth=0.6, alpha=0.7, zorder=2)
        panel.plot(at[best], factor * means[best], "o", markersize=9, fillstyle="none", color=BEST, label="best")
        if names:
            panel.set_xticks(range(len(names)), [*map(drawn, names)])
            panel.margins(x=0.3)
        elif getattr(part, "log", False) or (at.min() > 0 and at.max() >= WIDE * at.min()):
            panel.set_xscale("log")
            panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if at.max() < 100 * at.min() else (1,)))
            panel.xaxis.set_major_formatter(FormatStrFormatter("%g"))
            panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_xlabel(option)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel(f"{unit}, mean and deviation of {arguments.cross_validation} folds")
    panels[-1].legend(frameon=False, fontsize=8)
    figure.suptitle(drawn(f"{arguments.algorithm}, {os.path.basename(arguments.training_file)}"), fontsize=10)
    stream, form = io.BytesIO(), os.path.splitext(arguments.plot)[1][1:].lower()
    figure.savefig(stream, format=form, dpi=120)
    return stream.getvalue()


def _places(values):
    """Where values stand on the axis, and the names of the places where they are not all numbers."""
    if all(isinstance(value, (int, float)) for value in values):
        return np.array(values, dtype=float), None
    names = list(dict.fromkeys("none" if value is None else str(value) for value in values))
    return np.array([names.index("none" if value is None else str(value)) for value in values], dtype=float), names
