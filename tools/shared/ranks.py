"""Ranks of several methods over several data sets: Friedman's, Nemenyi's and Wilcoxon's tests.

J. Demsar, Statistical comparisons of classifiers over multiple data sets, JMLR 7 (2006).
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2, f, rankdata, studentized_range


@dataclass(frozen=True)
class Ranking:
    """Mean ranks (1 is best) of methods over data sets.

    ``friedman`` and its p-value; ``iman_davenport`` is the F statistic made of it, with its p-value; two methods whose
    mean ranks are further apart than ``critical`` differ at the level asked for.
    """

    names: tuple
    mean_ranks: np.ndarray
    n_sets: int
    friedman: float
    friedman_p: float
    iman_davenport: float
    iman_davenport_p: float
    critical: float
    level: float


def critical_difference(n_methods, n_sets, level=0.05):
    """Nemenyi's critical difference of mean ranks."""
    q = studentized_range.ppf(1 - level, n_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_sets)))


def rank(names, errors, level=0.05):
    """Rank methods by their errors.

    Parameters
    ----------
    names : sequence of str
    errors : array-like of shape (data sets, methods)
        Small is good; equal errors share the mean of their ranks.
    """
    errors = np.asarray(errors, float)
    n, k = errors.shape
    if k < 2 or n < 2 or k != len(names) or not np.isfinite(errors).all():
        raise ValueError(
            "at least two data sets and two methods with a finite error in every cell are needed"
        )
    mean = rankdata(errors, axis=1).mean(axis=0)
    # Demsar's form, without a correction for ties.
    friedman = 12 * n / (k * (k + 1)) * (np.sum(mean**2) - k * (k + 1) ** 2 / 4)
    room = n * (k - 1) - friedman
    iman = np.inf if room <= 1e-9 else (n - 1) * friedman / room
    return Ranking(
        tuple(names),
        mean,
        n,
        friedman=float(friedman),
        friedman_p=float(chi2.sf(friedman, k - 1)),
        iman_davenport=float(iman),
        iman_davenport_p=float(f.sf(iman, k - 1, (k - 1) * (n - 1))),
        critical=critical_difference(k, n, level),
        level=level,
    )


@dataclass(frozen=True)
class SignedRank:
    """Wilcoxon's signed-rank test of two methods: sets that differ, the smaller sum of ranks, and the p-value."""

    n_sets: int
    smaller_sum: float
    p: float


def signed_rank(errors, others):
    """Compare two methods by their errors on the same data sets.

    Sets with equal errors are left out, and equal differences share the mean of their ranks. The p-value is that of
    ranks without ties, as in printed tables of critical values.

    Parameters
    ----------
    errors, others : array-like of shape (data sets,)
    """
    # Errors have few decimals: their differences are equal but for rounding.
    differences = np.round(np.subtract(errors, others, dtype=float), 9)
    differences = differences[differences != 0]
    ranks = rankdata(np.abs(differences))
    smaller_sum = min(ranks[differences > 0].sum(), ranks[differences < 0].sum())
    # ``ways[s]`` counts the choices of signs for the ranks 1, 2, ... whose positive ranks sum to s.
    ways = np.ones(1)
    for one_rank in range(1, len(ranks) + 1):
        ways = np.pad(ways, (0, one_rank)) + np.pad(ways, (one_rank, 0))
    p = 2 * ways[: int(smaller_sum) + 1].sum() / ways.sum()
    return SignedRank(len(differences), float(smaller_sum), min(1.0, float(p)))


def describe(ranking):
    """The tests in words."""
    return (
        f"{ranking.n_sets} sets; Friedman {ranking.friedman:.1f} (p = {ranking.friedman_p:.2g}), Iman and Davenport "
        f"{ranking.iman_davenport:.2f} (p = {ranking.iman_davenport_p:.2g}); critical difference (Nemenyi, "
        f"{ranking.level:g}) {ranking.critical:.2f}"
    )
