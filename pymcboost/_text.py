"""Text of pictures."""


def drawn(text):
    """A name as Matplotlib draws it letter by letter: a formula has dollars, a line without a legend begins with _."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")
