"""Warnings of this package, shown at the user's line."""

import sys
import warnings


def warn(text):
    """Warn at the line outside this package that led here; in a thread of our own, at its first line."""
    level = 2
    frame = sys._getframe(1)
    inside = "pymcboost.", "contextlib"  # its ExitStack closes callbacks
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(inside):
        level += 1
        frame = frame.f_back
    warnings.warn(text, stacklevel=level)
