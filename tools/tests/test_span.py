"""The schedule of bench/span.py, with pieces whose times are made up."""

import numpy as np
import pytest
from bench import span
from bench.span import Costs, Pool, Shape, Tree

FREE = Pool()


def tree_of(rows, gain, children, most_leaves):
    """A `Tree` whose splits are {node: (left, right)}."""
    left, right = np.full(len(rows), -1), np.full(len(rows), -1)
    for node, (one, other) in children.items():
        left[node], right[node] = one, other
    gains = np.zeros(len(rows))
    gains[list(children)] = gain
    return Tree(np.array(rows), gains, left, right=right, most_leaves=most_leaves)


# The root, then node 1 (gain 5) and node 2 (gain 4), then node 3 below node 1 (gain 3).
SMALL = tree_of(
    [100, 60, 40, 50, 10, 20, 20, 25, 25],
    [9, 5, 4, 3],
    {0: (1, 2), 1: (3, 4), 2: (5, 6), 3: (7, 8)},
    most_leaves=5,
)
SHAPE = Shape(rows=200, share=0.5, drawn=10)


def test_a_job_by_several_threads():
    assert span.job([1.0, 2.0, 3.0], 1, Pool(5, 5, 5, piece=5)) == 6
    assert span.job([1.0] * 10, 4, FREE) == 3
    assert span.job([4.0, 1.0, 1.0, 1.0, 1.0], 2, FREE) == 4
    assert span.job([1.0], 64, Pool(5, 5, 5, piece=5)) == 1


def test_threads_come_one_after_the_other():
    pool = Pool(hand_over=0.5, wake=2.0, lock=0.25, piece=0.0)
    # The caller begins at 0, the others at 0.5 and 0.75; the last piece ends at 1.75, and one look follows.
    assert span.job([1.0] * 3, 3, pool) == 2.0
    # Those who sleep come at 2 and 2.5: the caller has done two pieces by then, and does the third.
    assert span.job([1.0] * 4, 3, pool, asleep=True) == 3.25


def test_pieces_cost_what_it_takes_to_take_them():
    assert span.job([1.0] * 4, 2, Pool(piece=0.5)) == 3


def test_best_first_order():
    assert SMALL.order() == [0, 1, 2, 3]


def test_nodes_of_a_grown_tree():
    """A root, a split on its left, and three leaves."""
    tree = span.nodes_of(
        [2, 1],
        [7.0, 3.0],
        [0, 10, 30, 70],
        share=0.5,
        most_leaves=3,
        kept_leaves=np.array([10.0, 20, 40]),
    )
    assert tree.rows.tolist() == [35, 15, 5, 10, 20]
    assert tree.left.tolist() == [1, 2, -1, -1, -1] and tree.right.tolist() == [4, 3, -1, -1, -1]
    assert tree.order() == [0, 1]


def test_small_nodes_side_by_side():
    costs = Costs({}, split=1.0)
    one, two = (span.SmallNodes(SMALL, SHAPE, costs, threads=n, pool=FREE).run() for n in (1, 2))
    # One after the other; then the root alone, nodes 1 and 2 together, and node 3.
    assert (one, two) == (4, 3)
    assert span.SmallNodes(SMALL, SHAPE, costs, threads=64, pool=FREE).run() == 3


def test_small_nodes_wait_for_the_lock():
    costs = Costs({}, split=1.0)
    assert span.SmallNodes(SMALL, SHAPE, costs, threads=2, pool=Pool(lock=0.01)).run() > 3.05


def test_a_node_is_split_ahead_of_its_turn():
    """While node 1 takes long, the other thread splits node 2."""
    costs = Costs({}, small=1.0)
    found = span.SmallNodes(SMALL, SHAPE, costs, threads=2, pool=FREE).run()
    assert found == 100 + 60 + 50


def test_a_large_node_is_divided():
    rows = 8 * span.PART
    tree = tree_of([rows, rows // 2, rows // 2], [1], {0: (1, 2)}, most_leaves=2)
    shape, costs = Shape(rows, 1.0, 16), Costs({}, large=1.0, small=1.0)
    assert span.large_split(tree, shape, costs, node=0, threads=1, pool=FREE) == pytest.approx(rows)
    # Eight pieces are parted and placed; two shares of each of two groups of each child are searched.
    expected = 0.4 * rows / 8 + 0.6 * rows / 8
    assert span.large_split(tree, shape, costs, node=0, threads=64, pool=FREE) == pytest.approx(
        expected
    )


def test_shares_are_added_up_one_after_the_other():
    shape = Shape(10**6, 1.0, 8, sums=100, merge=1.0)
    # 64 shares of a group, of which each takes 100.
    assert (
        span.search(64 * span.SHARE, 1, 1.0, scan=7.0, shape=shape, threads=64, pool=FREE)
        == 64 * 100 + 7
    )


def test_a_large_leaf_is_added_up_in_parts():
    leaves = np.array([10 * span.PART, span.PART, span.PART], dtype=float)
    tree = Tree(
        np.ones(1),
        np.zeros(1),
        np.full(1, -1),
        right=np.full(1, -1),
        most_leaves=2,
        leaf_rows=leaves,
    )
    costs, shape = Costs({}, leaf_value=1.0), Shape(int(leaves.sum()), 1.0, 8)
    assert span.leaf_values(tree, shape, costs, threads=1, pool=FREE) == leaves.sum()
    assert span.leaf_values(tree, shape, costs, threads=10, pool=FREE) == 2 * span.PART


@pytest.mark.parametrize("factor", [1, 1000])
def test_one_thread_takes_the_sum_of_the_pieces(factor):
    tree, shape = SMALL.scaled(factor), Shape(200 * factor, 0.5, 10)
    costs = Costs(
        {"gradient": 2.0, "quantise": 3.0},
        leaf_value=5.0,
        start=6.0,
        route=7.0,
        large=0.5,
        small=0.25,
        split=11.0,
        python=13.0,
    )
    actual = span.schedule(tree, shape, costs, threads=1, pool=FREE)
    rows = [factor * n for n in (100, 60, 40, 50)]
    nodes = sum(costs.of_rows(n, 10) for n in rows) + 4 * 11
    root = 0.9 * costs.of_rows(rows[0], 10) + 5.5
    expected = 200 * factor * (2 + 3 + 5 + 6) + 7 * sum(rows) + 13 + nodes + root
    assert sum(actual.values()) == pytest.approx(expected)
    more = [
        sum(span.schedule(tree, shape, costs, threads=n, pool=FREE).values()) for n in (2, 8, 64)
    ]
    assert expected > more[0] > more[1] >= more[2] > 13


def test_bytes_of_the_searches():
    """Each row: its number and gradient, kept side by side, twice both again, and 10 codes."""
    assert span.fill_bytes([SMALL], SHAPE) == (4 + 32 + 2 * 20 + 10) * (100 + 60 + 40 + 50 + 100)
