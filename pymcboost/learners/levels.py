"""Levels of categorical features that are too rare in a node for a place of their own."""

import numpy as np

# A level has a place of its own in a node with this share of its drawn rows, if these are not fewer.
OF_LEVEL, FEWEST_OF_LEVEL = 0.7, 3


def least_levels(data, weight, share, units, most):
    """By categorical feature, integer weights of its levels in a node below which they go together.

    Parameters
    ----------
    data : TreeData
    weight : ndarray (m,)
        Of the rows; empty where all are 1.
    share : float
        Of the rows, which trees are grown on.
    units : float
        Of a weight of 1.
    most : float
        Weight from which on a level has a place of its own everywhere.
    """
    columns, found = data.columns, {}
    for f in columns.levels:
        its, n = columns.codes[columns.lane[f]], len(columns.levels[f])
        total = np.bincount(its, weight if len(weight) else None, n)[:n].astype(np.float64)
        total = data.comm.sum(total)
        least = np.clip(total * share * OF_LEVEL, min(FEWEST_OF_LEVEL, most), most)
        found[f] = np.ceil(least * units * (1 - 1e-9)).astype(np.int64)
    return found
