"""Names in pictures and in histories."""


def drawn(text):
    """A name as Matplotlib draws it letter by letter: a formula has dollars, a line without a legend begins with _."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def column_of(scoring):
    """The column of a metric in the history, after the name of the set."""
    return scoring if isinstance(scoring, str) else "score"
