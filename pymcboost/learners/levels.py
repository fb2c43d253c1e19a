"""Levels of categorical features that are too rare in a node to be split by themselves."""

import numpy as np

# A level is considered by itself in a node with at least this share of its drawn rows, and at least FEWEST_OF_LEVEL
# of them.
OF_LEVEL, FEWEST_OF_LEVEL = 0.7, 3
# For each of its levels in parts, a split must gain this share more than what a level gains by chance. Chosen by
# cross-validation, see docs/results/choices.md.
PER_LEVEL = 0.35


def least_levels(data, weight, share, units, most, bound_scale):
    """Integer weights below which the levels of each categorical feature are pooled in a node, or are in parts.

    Levels are in parts where a split has parted their rows before: to part the sides by them must gain more.

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
        Weight from which on a level has a place of its own everywhere; 0: all have, and none counts as in parts.
    bound_scale : float
        What ``most`` is multiplied with, see `TrainingData.bound_scale`.

    Returns
    -------
    dict of int to ndarray of int64 (2, n_levels)
    """
    columns, found = data.columns, {}
    for f in columns.levels:
        its, n = columns.codes[columns.lane[f]], len(columns.levels[f])
        total = np.bincount(its, weight if len(weight) else None, n)[:n].astype(np.float64)
        total = data.comm.sum(total)
        whole = total * share * OF_LEVEL
        least, here = bound_scale * min(FEWEST_OF_LEVEL, most), bound_scale * most
        least = np.stack((np.clip(whole, least, here), whole if most > 0 else 0 * whole))
        found[f] = np.ceil(least * units * (1 - 1e-9)).astype(np.int64)
    return found
