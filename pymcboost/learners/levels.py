"""Levels of categorical features that are too rare in a node to be split by themselves."""

import numpy as np

# A level is considered by itself in a node with at least this share of its drawn rows, and at least FEWEST_OF_LEVEL
# of them.
OF_LEVEL = 0.7
FEWEST_OF_LEVEL = 3
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
    columns = data.columns
    least_by_feature = {}
    for f in columns.levels:
        codes = columns.codes[columns.lane[f]]
        n = len(columns.levels[f])
        total = np.bincount(codes, weight if len(weight) else None, n)[:n].astype(np.float64)
        total = data.comm.sum(total)
        small_weight = total * share * OF_LEVEL
        least = bound_scale * min(FEWEST_OF_LEVEL, most)
        here = bound_scale * most
        least = np.stack(
            (
                np.clip(small_weight, least, here),
                small_weight if most > 0 else 0 * small_weight,
            )
        )
        least_by_feature[f] = np.ceil(least * units * (1 - 1e-9)).astype(np.int64)
    return least_by_feature
