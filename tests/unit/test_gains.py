"""Gains of splits, of which those are held whose columns occur."""

import numpy as np

from pymcboost.training.gains import Gains


def test_sums_are_those_of_an_array_to_the_last_bit():
    rng = np.random.default_rng(0)
    gains = Gains(50)
    expected = np.zeros(50)
    for _ in range(20):
        columns = rng.integers(0, 50, 7)
        values = rng.random(7)
        gains.add(columns, values)
        np.add.at(expected, columns, values)
        np.testing.assert_array_equal(gains.dense(), expected)
        np.testing.assert_array_equal(Gains.of(expected).dense(), expected)


def test_a_copy_stays_and_takes_room_for_the_columns_that_occur():
    gains = Gains(1 << 40)
    gains.add(np.array([1 << 39, 3, 3]), np.ones(3))
    kept = gains.copy()
    gains.add(np.array([3, 5]), np.ones(2))
    assert (kept.column.tolist(), kept.value.tolist()) == ([3, 1 << 39], [2.0, 1.0])
    assert (gains.column.tolist(), gains.value.tolist()) == ([3, 5, 1 << 39], [3.0, 1.0, 1.0])


def test_arrays_may_change_after_they_were_added():
    gains = Gains(5)
    columns = np.array([1, 3])
    values = np.array([2.0, 4.0])
    gains.add(columns, values)
    columns[:] = 0
    values[:] = 9.0
    assert gains.dense().tolist() == [0.0, 2.0, 0.0, 4.0, 0.0]


def test_a_copy_and_what_it_was_made_of_go_on_apart():
    """However many rounds wait to be added up."""
    first = Gains(3)
    for n in range(130):
        first.add(np.array([0]), np.ones(1))
        second = first.copy()
        second.add(np.array([2]), np.ones(1))
        assert second.dense().tolist() == [n + 1, 0, 1]
        assert first.dense().tolist() == [n + 1, 0, 0]
