"""Names in pictures and in histories."""

from collections.abc import Mapping


def drawn(text):
    """A name as Matplotlib draws it letter by letter: a formula has dollars, a line without a legend begins with _."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def column_of(scoring):
    """The column of a metric in the history, after the name of the set."""
    return scoring if isinstance(scoring, str) else "score"


def metrics_of(scoring):
    """The metrics of a parameter ``scoring`` by their columns, in its order: the first one decides.

    Parameters
    ----------
    scoring : str, callable, list or dict
        One metric, a list of metrics, or a dictionary that gives each its name.
    """
    if isinstance(scoring, Mapping):
        return dict(scoring)
    return {
        column_of(metric): metric
        for metric in (scoring if isinstance(scoring, (list, tuple)) else [scoring])
    }
