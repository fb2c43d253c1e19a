"""Sums of integers: the units that terms are rounded to."""

import numpy as np
import pytest

from pymcboost._kernels.exact import GOOD, refined, unit_of
from pymcboost.comm import ALONE

SIZE = 3.0e-5


def one_term(asked):
    """A sum of one term that is not 0; the magic numbers that it was asked with are noted."""

    def take(magic):
        asked.append(magic)
        assert len(asked) < 50, "the unit is made smaller without end"
        unit = magic / (1.5 * 2.0**52)
        return np.array([round(SIZE / unit)])

    return take


@pytest.mark.parametrize("n", [1, 1000, 2**26, 10**8, 2**30, 10**10])
def test_units_are_made_smaller_while_that_helps(n):
    asked = []
    top, error = refined(ALONE, one_term(asked), n, unit=unit_of(1e9, n))
    assert abs(top - SIZE) <= error <= GOOD * top
    assert asked == sorted(set(asked), reverse=True)
    assert SIZE < 2.0**51 * asked[-1] / (1.5 * 2.0**52)


def test_more_terms_than_digits_end():
    asked = []
    top, error = refined(ALONE, one_term(asked), 2**50, unit=unit_of(1.0, 2**50))
    assert abs(top - SIZE) <= error
