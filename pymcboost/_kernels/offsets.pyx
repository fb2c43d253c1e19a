"""Rows of float64 as a model takes them: ``mcb_features`` of ``mcb.h``, which subtracts the offsets of columns."""

import numpy as np

from pymcboost._kernels.score cimport Scorer, mcb_features, mcb_has_offsets


def any_in(Scorer scorer):
    """Whether columns have offsets in the model of a scorer."""
    return mcb_has_offsets(&scorer.model) != 0


def of(Scorer scorer):
    """The offsets of a model by the numbers of their columns: dictionary."""
    if not any_in(scorer):
        return {}
    begin, count, _ = scorer.sections()["OFFS"]
    feature, offset = np.split(np.frombuffer(scorer.view, "<f8", count, begin), 2)
    return dict(zip(feature.astype(np.int64).tolist(), offset.tolist(), strict=True))


def features(Scorer scorer, const double[:, ::1] X, float[:, ::1] out):
    """Rounds rows to float32, less the offsets of their columns.

    Parameters
    ----------
    X : IN, float64 (m, d)
    out : OUT, float32 (m, d)
    """
    cdef Py_ssize_t r, m = X.shape[0]
    if scorer.status or X.shape[1] != scorer.model.n_features or out.shape[0] != m or out.shape[1] != X.shape[1]:
        raise ValueError("the arrays do not fit the model")
    with nogil:
        for r in range(m):
            mcb_features(&scorer.model, &X[r, 0], &out[r, 0])
