"""tools/shared/ranks.py against Demsar's published example and SciPy."""

import numpy as np
import pytest
from scipy.stats import friedmanchisquare, wilcoxon
from shared import ranks
from shared.tables import published

# Table 6 of Demsar (2006): areas under the curve of four algorithms on fourteen sets. The paper ranks the rounded 0.975
# and 0.975 of "voting" in this order.
DEMSAR = """
0.763 0.768 0.771 0.798  0.599 0.591 0.590 0.569  0.954 0.971 0.968 0.967  0.628 0.661 0.654 0.657
0.882 0.888 0.886 0.898  0.936 0.931 0.916 0.931  0.661 0.668 0.609 0.685  0.583 0.583 0.563 0.625
0.775 0.838 0.866 0.875  1.000 1.000 1.000 1.000  0.940 0.962 0.965 0.962  0.619 0.666 0.614 0.669
0.972 0.981 0.97501 0.975  0.957 0.978 0.946 0.970
"""


def test_published_example():
    errors = 1 - np.array(DEMSAR.split(), float).reshape(14, 4)
    ranking = ranks.rank(["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"], errors)
    np.testing.assert_allclose(ranking.mean_ranks, [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    assert ranking.friedman == pytest.approx(9.28, abs=0.02)
    assert ranking.iman_davenport == pytest.approx(3.69, abs=0.02)
    assert ranking.iman_davenport_p < 0.05


# Critical values of the two-tailed Nemenyi test, table 5 of the same paper.
@pytest.mark.parametrize(
    ("methods", "level", "q"),
    [(2, 0.05, 1.960), (4, 0.05, 2.569), (5, 0.05, 2.728), (10, 0.05, 3.164), (5, 0.1, 2.459)],
)
def test_critical_values(methods, level, q):
    expected = q * np.sqrt(methods * (methods + 1) / (6 * 30))
    assert ranks.critical_difference(methods, 30, level) == pytest.approx(expected, rel=5e-4)


def test_scipy_agrees_without_ties():
    errors = np.random.default_rng(0).random((9, 5))
    ranking = ranks.rank(list("abcde"), errors)
    scipy = friedmanchisquare(*errors.T)
    assert ranking.friedman == pytest.approx(scipy.statistic)
    assert ranking.friedman_p == pytest.approx(scipy.pvalue)


def test_always_the_same_order():
    ranking = ranks.rank(["a", "b", "c"], np.tile([1.0, 2.0, 3.0], (6, 1)))
    assert ranking.mean_ranks.tolist() == [1, 2, 3]
    assert ranking.iman_davenport == np.inf and ranking.iman_davenport_p == 0


@pytest.mark.parametrize(
    "errors", [[[1, 2]], [[1], [2]], [[1, 2], [np.nan, 1]], [[1, 2, 3], [1, 2, 3]]]
)
def test_refusals(errors):
    with pytest.raises(ValueError, match="at least two"):
        ranks.rank(["a", "b"][: len(errors[0])], errors)


def test_signed_ranks_of_piboost():
    """The p-values that the paper prints follow from the errors that it prints."""
    errors, printed = published("piboost-table3"), published("piboost-table4")
    for method, row in printed.items():
        for other, p in row.items():
            if p is not None:
                pairs = np.array([(cells[method][0], cells[other][0]) for cells in errors.values()])
                assert ranks.signed_rank(*pairs.T).p == pytest.approx(p, abs=5e-5)


def test_signed_ranks_of_mcboost():
    """Its Table IV: sums of ranks of 10.5 and 7 against MultiBoost over eight sets."""
    multiboost = [6.4, 28.2, 10.5, 7.7, 57.4, 24.6, 33.7, 22.3]
    exp = ranks.signed_rank([6.5, 28.4, 10.4, 7.4, 55.1, 25.3, 33.4, 20.1], multiboost)
    log = ranks.signed_rank([6.5, 28.3, 9.9, 7.4, 55.4, 25.0, 33.7, 20.6], multiboost)
    assert (exp.n_sets, exp.smaller_sum) == (8, 10.5)
    assert (log.n_sets, log.smaller_sum) == (7, 7)
    assert exp.p > 0.05 and log.p > 0.05


def test_scipy_agrees_on_signed_ranks():
    generator = np.random.default_rng(1)
    for n in (1, 2, 7, 12):
        first, second = generator.random((2, n))
        assert ranks.signed_rank(first, second).p == pytest.approx(
            wilcoxon(first, second, method="exact").pvalue
        )


def test_signed_ranks_of_equals():
    test = ranks.signed_rank([1.0, 2.0], [1.0, 2.0])
    assert (test.n_sets, test.smaller_sum, test.p) == (0, 0, 1)
    # 0.1 + 0.2 is not 0.3: the differences are equal all the same, and share a rank.
    assert ranks.signed_rank([0.3, 1.0, 4.0], [0.2, 0.9, 5.0]).smaller_sum == 3
