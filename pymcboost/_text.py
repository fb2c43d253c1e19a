"""Names in plots and in histories."""

from collections.abc import Mapping


def drawn(text):
    """Escape a name for Matplotlib, where dollars start a formula, and a leading _ hides a line from the legend."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def column_of(scoring):
    """Column of a metric in the history, without the name of the set."""
    return scoring if isinstance(scoring, str) else "score"


def metrics_of(scoring):
    """The metrics of a parameter ``scoring`` by column, in its order: the first one decides.

    Parameters
    ----------
    scoring : str, callable, list or dict
        One metric, a list of metrics, or a dictionary that gives each its name.
    """
    if isinstance(scoring, Mapping):
        return dict(scoring)
    metrics = scoring if isinstance(scoring, (list, tuple)) else [scoring]
    return {column_of(metric): metric for metric in metrics}
