"""The choice of parameters for HingeBoost.OC's tables."""

from reproduce.hinge import lowest


def test_equal_means_are_a_tie_whatever_the_order_of_the_folds():
    folds = [0.1, 0.2, 0.3]
    assert sum(folds) != sum(reversed(folds))
    for one, other in ((folds, folds[::-1]), (folds[::-1], folds)):
        assert lowest({1.0: one, 4.0: other, 16.0: [0.3] * 3}, [1.0, 4.0, 16.0]) == 1.0
    assert lowest({1.0: folds, 4.0: [0.1, 0.1, 0.1]}, [1.0, 4.0]) == 4.0
    assert lowest({1.0: folds, 4.0: [0.1, 0.1]}, [1.0, 4.0]) is None
