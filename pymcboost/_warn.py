"""Warnings of this package at the lines of programs that use it."""

import sys
import warnings


def warn(text):
    """Warn at the line outside this package that led here; of a thread's own, at its first."""
    level = 2
    frame = sys._getframe(1)
    ours = "pymcboost.", "contextlib"  # whose ExitStack closes callbacks
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(ours):
        level += 1
        frame = frame.f_back
    warnings.warn(text, stacklevel=level)
