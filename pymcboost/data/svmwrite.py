"""Writer of LIBSVM text."""

import os
import sys
from os import PathLike
from typing import Any, Literal

import numpy as np

from pymcboost import files
from pymcboost.data import archives
from pymcboost.data.svmlabels import lists_of
from pymcboost.model.rows import check_sparse


def dump_svmlight(
    path: str | bytes | PathLike[str], X: Any, y: Any, *, base: Literal[0, 1] = 1
) -> None:
    r"""Write rows and labels to a file in LIBSVM format.

    Values are rounded to float32 and written with as few digits as `load_svmlight` needs to read them back exactly,
    which are at most 9. Zeros are left out, and NaN is written as ``nan``. An existing file is replaced only when the
    new one is complete. Devices and FIFOs are written to directly.

    Parameters
    ----------
    path : str, bytes or path-like
        File name, or ``-`` for standard output. A file whose name ends with .gz, .bz2 or .xz is compressed.
    X : array-like or SciPy sparse matrix of shape (m, d)
        Features.
    y : array-like of shape (m,) or (m, K)
        Numeric labels. For multi-label data: an indicator matrix, dense or sparse, whose columns are numbered from 0,
        or a list with a list of integers for each row, as ``load_svmlight(..., multilabel=True)`` returns them.
    base : {0, 1}, default=1
        Index of the first feature.

    Raises
    ------
    ValueError
        If labels are not finite numbers up to 2^53 in magnitude, or X and y have different lengths.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "small.libsvm")
    >>> dump_svmlight(path, [[0.5, 0, 2]], [1])
    >>> path.read_text()
    '1 1:0.5 3:2\n'
    """
    if not (isinstance(base, (int, np.integer)) and not isinstance(base, bool) and base in (0, 1)):
        raise ValueError(f"base={base!r}: expected 0 or 1")
    is_multilabel = _is_multilabel(y)
    if not is_multilabel:
        y = np.asarray(y)
        _check_labels(y)
    sparse = hasattr(X, "tocsr")
    check_sparse(X)
    X = X.tocsr().astype(np.float32) if sparse else np.asarray(X)
    if is_multilabel and X.ndim == 2:
        y = lists_of(y, X.shape[0])
    elif X.ndim != 2 or y.shape != (X.shape[0],):
        raise ValueError(f"X of shape {X.shape} and y of shape {y.shape}: expected (m, d) and (m,)")
    if sparse:
        X.sum_duplicates()
    write = _write_lines(X, y, base, sparse)
    if os.fsdecode(path) == "-":
        if sys.stdout is None:
            raise OSError(9, "standard output is closed; name a file instead", "<stdout>")
        sys.stdout.writelines(write)
        return
    with (
        files.replacing(path, "file", streams=True) as file,
        archives.packed_text(file, path) as out,
    ):
        out.writelines(write)


def _check_labels(y):
    """Refuse labels that are not numbers, or not preserved by every reader."""
    if y.dtype.kind not in "buif":
        raise ValueError(
            f"y has type {y.dtype}, but LIBSVM labels are numbers; encode the labels first"
        )
    is_finite = np.isfinite(y).all()
    # Compared as Python numbers, because a double rounds 2^53 + 1 to 2^53.
    if not is_finite or (y.size and not -(2**53) <= y.min().item() <= y.max().item() <= 2**53):
        raise ValueError(
            "y has a label that is not finite or is beyond +-2^53; use smaller integers, which "
            "every reader preserves"
        )


def _is_multilabel(y):
    """Whether labels are multi-label."""
    if hasattr(y, "toarray") or getattr(y, "ndim", 1) == 2:
        return True
    return len(y) > 0 and all(
        isinstance(labels_of_row, (list, tuple, set, frozenset)) for labels_of_row in y
    )


def _decimals(values):
    """Shortest decimal text of each float32 that reads back, via a double, as the same float32."""
    texts = values.astype("U32")
    differs = texts.astype(np.float64).astype(np.float32) != values
    inexact = np.flatnonzero(differs & ~np.isnan(values))
    texts[inexact] = np.char.mod("%.9g", values[inexact])
    return [text.removesuffix(".0") for text in texts.tolist()]


def _write_lines(X, y, base, sparse, block=1024):
    """Yield the lines of the file. Values are converted by blocks of rows, which takes most of the time."""
    for first in range(0, X.shape[0], block):
        rows = min(block, X.shape[0] - first)
        if sparse:
            span = slice(X.indptr[first], X.indptr[first + rows])
            row = np.repeat(np.arange(rows), np.diff(X.indptr[first : first + rows + 1]))
            column = X.indices[span]
            values = X.data[span]
            present = np.flatnonzero(values)
            row = row[present]
            column = column[present]
            values = values[present]
        else:
            part = np.asarray(X[first : first + rows], np.float32)
            row, column = np.nonzero(part)
            values = part[row, column]
        pairs = zip((column + base).tolist(), _decimals(values), strict=True)
        entries = [f" {index}:{value}" for index, value in pairs]
        first_entry = np.searchsorted(row, np.arange(rows + 1)).tolist()
        for i in range(rows):
            label = y[first + i]
            row_entries = entries[first_entry[i] : first_entry[i + 1]]
            if isinstance(label, list):
                if not label and not row_entries:  # otherwise the line would be blank
                    row_entries = [f" {base}:0"]
                text = ",".join(map(str, label))
            elif y.dtype.kind in "bui":
                text = str(int(label))
            else:
                text = format(float(label), ".17g")
            yield f"{text}{''.join(row_entries)}\n"
