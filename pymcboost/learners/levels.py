"""Levels of categorical features that are too rare in a node to be split by themselves."""

import numpy as np

# A level is considered by itself in a node that has at least this share of its drawn rows, and at least FEWEST_OF_LEVEL
# of them.
OF_LEVEL = 0.7
FEWEST_OF_LEVEL = 3
# For each of its levels in parts, a split must gain this share more than what a level gains by chance. Chosen by
# cross-validation, see docs/results/choices.md.
PER_LEVEL = 0.35


def least_levels(data, weight, share, units, enough, bound_scale):
    """Integer weights below which the levels of each categorical feature are pooled in a node, or are in parts.

    A level is in parts if an earlier split has divided its rows. A split on such levels must gain more.

    Parameters
    ----------
    data : TreeData
    weight : ndarray (m,)
        Weights of the rows; empty if all are 1.
    share : float
        Share of the rows on which trees are grown.
    units : float
        Integer units of a weight of 1.
    enough : float
        A level with at least this weight is considered by itself in every node. With 0, this holds for all levels, and
        none is in parts.
    bound_scale : float
        Factor of ``enough``, see `TrainingData.bound_scale`.

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
        expected = total * share * OF_LEVEL
        pooled_below = np.clip(
            expected, bound_scale * min(FEWEST_OF_LEVEL, enough), bound_scale * enough
        )
        in_parts_below = expected if enough > 0 else 0 * expected
        least = np.stack((pooled_below, in_parts_below))
        least_by_feature[f] = np.ceil(least * units * (1 - 1e-9)).astype(np.int64)
    return least_by_feature
