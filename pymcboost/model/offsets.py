"""Offsets of columns: what is subtracted in float64, so that values which differ still do in float32."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pymcboost._kernels import offsets as kernel
from pymcboost._warn import warn
from pymcboost.model import file

# Values of float32 between so many offsets look as if nothing had been subtracted from them.
RAW = 0.5, 2.0


def offset_sections(offsets):
    """Section of offsets by their columns, none where there are none.

    Parameters
    ----------
    offsets : dict of int to float or None

    Returns
    -------
    list of (tag, array)
    """
    feature = sorted(offsets or {})
    return [("OFFS", np.array([*feature, *(offsets[j] for j in feature)], dtype="<f8"))] if feature else []


def with_offsets(X, offsets):
    """Rows less the offsets, as a scorer takes them; X as it is where there are no offsets.

    Parameters
    ----------
    X : ndarray of float64 or float32 (m, d)
        Rows of float32 count as offset already.
    offsets : dict of int to float

    Returns
    -------
    ndarray of float32 (m, d)
    """
    if not offsets:
        return X
    return subtracted(X, file.check(file.without_learners(X.shape[1], offset_sections(offsets))))


def has_offsets(scorer):
    """Whether the model of a scorer has any."""
    return kernel.any_in(scorer)


def subtracted(X, scorer):
    """The rows that ``mcb_features`` makes of rows of float64; those of float32 are taken as they are."""
    if not kernel.any_in(scorer):
        return X
    offsets = kernel.of(scorer)
    if hasattr(X, "indptr") or hasattr(X, "tocsr"):
        raise ValueError(
            f"the model subtracts offsets from columns ({shown(offsets)}), which leaves sparse rows no zeros there; "
            "give X.toarray()"
        )
    if X.dtype == np.float32:
        for j, offset in offsets.items():
            _warn_of_raw(X[:, j], j, offset)
        return X
    out = np.empty(X.shape, dtype=np.float32)
    step = max(1, (1 << 16) // X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        for begin in range(0, len(X), step):
            rows = np.require(X[begin : begin + step], np.float64, "CA")
            kernel.features(scorer, rows, out[begin : begin + step])
    return out


def shown(offsets):
    """Offsets in words."""
    return ", ".join(f"column {j}: {offset:.15g}" for j, offset in offsets.items())


def column_less(x, j, offset):
    """One column as the model compares it with its thresholds: `subtracted` of this column alone.

    Parameters
    ----------
    x : ndarray (m,)
    j : int
        Its number, for a warning.
    offset : float

    Returns
    -------
    ndarray of float32 (m,)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if not offset:
            return x.astype(np.float32)
        if x.dtype != np.float32:
            return (x.astype(np.float64) - offset).astype(np.float32)
    _warn_of_raw(x, j, offset)
    return x


def _warn_of_raw(x, j, offset):
    """Warn of a column of float32 that looks as if nothing had been subtracted from it."""
    column = x[np.isfinite(x)]
    ratio = column / np.float64(offset)
    if len(column) and ((ratio > RAW[0]) & (ratio < RAW[1])).all():
        warn(
            f"column {j} of float32 counts as less its offset {offset:.15g} already, and its values lie near the "
            "offset: give X as float64, from which the model subtracts it"
        )


class Offsets:
    """What a model says of the offsets of its columns: a base of classes that have rows and sections."""

    _rows: Any
    _scorer: Any

    @property
    def offsets(self) -> dict[int, float]:
        """Offsets by the numbers of their columns, {} where there are none.

        They are subtracted from columns of float64 before these are rounded to float32, so that large numbers which
        are close to each other, such as time stamps, keep their differences. Thresholds are those of values less the
        offset.
        """
        return kernel.of(self._scorer)

    def features(self, X: Any) -> NDArray[np.float32]:
        """Rows as the model compares them with its thresholds: ``mcb_features`` of ``mcb.h``.

        Parameters
        ----------
        X : array-like or data frame (m, n_features_in_)
            Columns with `offsets` lose these in float64. Rows of float32 count as offset already, here and wherever a
            model takes rows: they stay as they are.

        Returns
        -------
        ndarray of float32 (m, n_features_in_)
        """
        X = self._rows.checked(X)
        if hasattr(X, "indptr"):
            raise ValueError("features are those of dense rows; give X.toarray()")
        with np.errstate(over="ignore"):
            return X.astype(np.float32, copy=False)
