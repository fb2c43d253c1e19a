"""Code matrices and class subsets."""

from itertools import combinations

import numpy as np
import pytest

from pymcboost.losses.codes import (
    COLUMNS_PER_BIT,
    LARGEST_EXHAUSTIVE,
    MOST_COLUMNS,
    all_pairs,
    code_matrix,
    dense_random,
    exhaustive,
    not_told_apart,
    one_vs_all,
    random_half,
    separators,
)


def problems(code):
    """What every column sets apart: (positive classes, negative classes), the pair in a fixed order."""
    return [
        frozenset((frozenset(np.flatnonzero(c > 0)), frozenset(np.flatnonzero(c < 0))))
        for c in code.T
    ]


def check_columns(code):
    """No column without two sides, none twice, none that is another's negative."""
    assert all((column > 0).any() and (column < 0).any() for column in code.T)
    problem_of_column = problems(code)
    assert len(set(problem_of_column)) == len(problem_of_column)


@pytest.mark.parametrize("K", [2, 3, 4, 7, 11])
def test_named_codes(K):
    code = one_vs_all(K)
    assert code.shape == (K, K)
    assert set(np.unique(code)) == {-1.0, 1.0}
    assert (np.argwhere(code > 0) == np.arange(K)[:, None]).all()
    if K > 2:  # with two, both columns are the same problem
        check_columns(code)
    code = all_pairs(K)
    check_columns(code)
    assert set(problems(code)) == {
        frozenset((frozenset([a]), frozenset([b]))) for a, b in combinations(range(K), 2)
    }
    assert set(np.unique(code)) <= {-1.0, 0.0, 1.0}
    code = exhaustive(K)
    check_columns(code)
    assert code.shape == (K, 2 ** (K - 1) - 1)  # all there are
    assert set(np.unique(code)) == {-1.0, 1.0}
    assert (code[0] == 1).all()


def test_code_by_name():
    rng = np.random.default_rng(0)
    for K in (2, 3, 7):
        np.testing.assert_array_equal(code_matrix("auto", K, rng), exhaustive(K))
    assert code_matrix("auto", 8, rng).shape == (8, 30)
    np.testing.assert_array_equal(code_matrix("one-vs-all", 5, rng), one_vs_all(5))
    np.testing.assert_array_equal(code_matrix("all-pairs", 5, rng), all_pairs(5))
    np.testing.assert_array_equal(code_matrix("exhaustive", 5, rng), exhaustive(5))
    np.testing.assert_array_equal(
        code_matrix("dense", 9, np.random.default_rng(5)), dense_random(9, np.random.default_rng(5))
    )


def test_codes_that_are_too_large_are_refused():
    rng = np.random.default_rng(0)
    assert code_matrix("exhaustive", LARGEST_EXHAUSTIVE, rng).shape[1] == 2047
    with pytest.raises(ValueError, match=r"at most 12 classes; there are 13. Use code='dense'"):
        code_matrix("exhaustive", LARGEST_EXHAUSTIVE + 1, rng)
    assert code_matrix("all-pairs", 91, rng).shape[1] == 4095 <= MOST_COLUMNS
    with pytest.raises(ValueError, match="code='all-pairs' has 4186 columns .*more than 4096"):
        code_matrix("all-pairs", 92, rng)
    with pytest.raises(ValueError, match="more than 4096; use 'dense'$"):
        code_matrix("one-vs-all", MOST_COLUMNS + 1, rng)


def least_distance(code):
    return min(int((code[a] != code[b]).sum()) for a, b in combinations(range(len(code)), 2))


@pytest.mark.parametrize("K", [5, 8, 13, 40, 100])
def test_dense_code(K):
    code = dense_random(K, np.random.default_rng(K), trials=20)
    n = int(np.ceil(COLUMNS_PER_BIT * np.log2(K)))
    check_columns(code)
    assert set(np.unique(code)) == {-1.0, 1.0}
    assert code.shape == (K, min(n, 2 ** (K - 1) - 1))


@pytest.mark.parametrize("K", [6, 9, 20])
def test_dense_code_is_the_best_of_its_trials(K):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        trials = [dense_random(K, rng, n_columns=12, trials=1) for _ in range(30)]
        distances = [least_distance(code) for code in trials]
        assert min(distances) < max(distances)
        best = dense_random(K, np.random.default_rng(seed), n_columns=12, trials=30)
        assert least_distance(best) == max(distances)
        np.testing.assert_array_equal(best, trials[int(np.argmax(distances))])


def test_dense_code_of_few_classes_has_every_column_once():
    for K in (2, 3, 4, 5):
        np.testing.assert_array_equal(dense_random(K, np.random.default_rng(0)), exhaustive(K))
    for n in (7, 8, 100):
        np.testing.assert_array_equal(
            dense_random(4, np.random.default_rng(0), n_columns=n), exhaustive(4)
        )
    assert dense_random(4, np.random.default_rng(0), n_columns=6).shape == (4, 6)
    check_columns(dense_random(4, np.random.default_rng(0), n_columns=6))


@pytest.mark.parametrize("K", [2, 3, 6, 9])
def test_random_half(K):
    rng = np.random.default_rng(K)
    drawn = [random_half(K, rng) for _ in range(400)]
    for mu in drawn:
        assert set(mu) == {-1.0, 1.0}
        assert (mu > 0).sum() == K // 2
    share = (np.array(drawn) > 0).mean(axis=0)
    np.testing.assert_allclose(share, (K // 2) / K, atol=0.12)


def subsets_of(code):
    """The subsets behind separator columns."""
    K = len(code)
    result = []
    for column in code.T:
        inside = np.flatnonzero(column > 0)
        s = len(inside)
        np.testing.assert_array_equal(column[inside], K - s)
        np.testing.assert_array_equal(np.delete(column, inside), -s)
        result.append(tuple(inside.tolist()))
    return result


@pytest.mark.parametrize(
    ("K", "singles", "pairs"), [(2, 1, 1), (3, 3, 3), (4, 4, 7), (5, 5, 15), (6, 6, 21)]
)
def test_separators(K, singles, pairs):
    for spec, n in (("singles", singles), ("pairs", pairs)):
        code = separators(spec, K)
        assert code.shape == (K, n)
        check_columns(code)
        assert all(len(subset) <= 2 for subset in subsets_of(code))
    for subset in [(k,) for k in range(K if K > 2 else 1)]:
        assert subset in subsets_of(separators("singles", K))


def test_own_separators():
    code = separators([[3, 1], [0, 2, 4], (2,), {0, 1, 3, 4}, [1, 1, 3], np.array([4])], 5)
    assert subsets_of(code) == [(1, 3), (2,), (4,)]
    # Of two halves the one with the lowest class.
    assert subsets_of(separators([[2, 3], [1, 3]], 4)) == [(0, 1), (0, 2)]
    assert subsets_of(separators([[1]], 2)) == [(0,)]


@pytest.mark.parametrize("bad", [[], [0, 1, 2, 3], [4], [-1], [0, 7]])
def test_wrong_subsets_are_refused(bad):
    with pytest.raises(ValueError, match=r"separators: \[.*\] is not a subset .* 0 to 3"):
        separators([[0], bad], 4)


@pytest.mark.parametrize(
    ("subsets", "pair"),
    [
        ([[0], [1], [2, 3], [4, 5, 6]], (2, 3)),
        ([[0], [1], [2], [3], [4, 5, 6]], (4, 5)),
        ([[0, 1, 2, 3, 4, 5]], (0, 1)),
        ([[0], [6], [1, 2], [2, 3], [3, 4], [4, 5]], None),
        ([[0, 1, 2, 3], [0, 1, 4, 5], [0, 2, 4, 6]], None),
        ("singles", None),
    ],
)
def test_classes_that_no_separator_tells_apart(subsets, pair):
    assert not_told_apart(separators(subsets, 7)) == pair


def test_too_many_separators_are_refused():
    assert separators("pairs", 90).shape == (90, 4095)
    with pytest.raises(
        ValueError, match="separators='pairs' are 4186 class subsets .*more than 4096"
    ):
        separators("pairs", 91)
    with pytest.raises(ValueError, match="than 4096; list fewer$"):  # not what it is already
        separators("singles", MOST_COLUMNS + 1)
    with pytest.raises(
        ValueError, match=r"separators='singles' are 30000 class subsets .*; list fewer"
    ):
        separators("singles", 30_000)
    with pytest.raises(
        ValueError, match=r"separators=\[\[0\], ...\] are 4097 or more class subsets"
    ):
        separators([[k] for k in range(4100)], 4101)
