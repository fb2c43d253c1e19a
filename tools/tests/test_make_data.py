"""tools/make_data.py: the rules of poker, and that the generated hands are always the same ones."""

import hashlib
import itertools
from collections import Counter

import make_data
import numpy as np
import pytest

import pymcboost

# Of the 2,598,960 sets of five cards, by class.
COUNTS = [1302540, 1098240, 123552, 54912, 10200, 5108, 3744, 624, 36, 4]


def slow_class(hand):
    """The rules of one hand, card by card."""
    suits = hand[0::2]
    ranks = sorted(hand[1::2])
    counts = sorted(Counter(ranks).values(), reverse=True)
    runs = [list(range(first, first + 5)) for first in range(1, 10)] + [[1, 10, 11, 12, 13]]
    straight = ranks in runs
    flush = len(set(suits)) == 1
    if straight and flush:
        return 9 if ranks == runs[-1] else 8
    if flush:
        return 5
    if straight:
        return 4
    return {(4, 1): 7, (3, 2): 6, (3, 1, 1): 3, (2, 2, 1): 2, (2, 1, 1, 1): 1}.get(tuple(counts), 0)


def test_every_set_of_five_cards():
    cards = np.fromiter(
        itertools.chain.from_iterable(itertools.combinations(range(52), 5)), np.int8
    ).reshape(-1, 5)
    counts = np.bincount(make_data.poker_classes(make_data.hands_of(cards)), minlength=10)
    assert counts.tolist() == COUNTS


def test_order_of_the_cards_does_not_matter():
    train, _ = make_data.poker_hands(3000, 0, seed=5)
    rare = (
        make_data.deal_rare(np.random.PCG64(1), 40, royal=False),
        make_data.deal_rare(np.random.PCG64(2), 9, True),
    )
    hands = np.concatenate([train, make_data.hands_of(rare[0]), make_data.hands_of(rare[1])])
    expected = [slow_class(hand) for hand in hands.tolist()]
    assert make_data.poker_classes(hands).tolist() == expected
    assert expected[3000:] == [8] * 40 + [9] * 9
    turned = hands.reshape(-1, 5, 2)[:, [3, 0, 4, 2, 1]].reshape(-1, 10)
    assert make_data.poker_classes(turned).tolist() == expected


@pytest.mark.needs_data
@pytest.mark.parametrize(("part", "rows"), [("train", 25010), ("test-part", 99999)])
def test_every_row_of_the_uci_set(data_folder, part, rows):
    data = pymcboost.load_svmlight(
        data_folder / f"poker.{part}.libsvm.gz", n_features=10, base=1, layout="dense"
    )
    assert len(data.y) == rows
    np.testing.assert_array_equal(make_data.poker_classes(data.X) + 1, data.y)


def test_the_generated_set_is_the_one_of_the_tables():
    """Its digest: other hands would make the committed results into those of another set."""
    train, test = make_data.poker_hands()
    assert train.shape == (525010, 10) and test.shape == (500000, 10) and train.dtype == np.uint8
    digest = hashlib.sha256(train.tobytes() + test.tobytes()).hexdigest()
    assert digest == "620325cf07cd2d55e704dfe403a07e4703aa9320bc0d295fcf1aa1f40eb77410"
    first = np.bincount(make_data.poker_classes(train[:25010]), minlength=10)
    assert first[8] == first[9] == 5
    for hands in (train, test):
        assert (np.sort(hands[:, 0::2].astype(int) * 13 + hands[:, 1::2], axis=1)[:, 1:] != 0).all()
        share = np.bincount(make_data.poker_classes(hands), minlength=10) / len(hands)
        expected = np.array(COUNTS) / sum(COUNTS)
        deviation = np.sqrt(expected * (1 - expected) / len(hands))
        assert (abs(share - expected)[:8] < 4 * deviation[:8]).all()


def test_five_different_cards_each_as_likely():
    cards = make_data.deal(np.random.PCG64(3), 200_000)
    assert (
        (np.diff(np.sort(cards, axis=1), axis=1) > 0).all()
        and cards.min() == 0
        and cards.max() == 51
    )
    for place in range(5):
        counts = np.bincount(cards[:, place], minlength=52)
        assert abs(counts - 200_000 / 52).max() < 5 * np.sqrt(200_000 / 52)


def test_features():
    hand = np.array([[1, 10, 2, 1, 4, 13, 3, 2, 1, 5]], np.uint8)
    expected = np.zeros((1, 25), np.float32)
    expected[0, [0, 5, 11, 14, 16]] = 1
    expected[0, 20:] = 10, 1, 13, 2, 5
    features = make_data.poker_features(hand)
    assert features.dtype == np.float32
    np.testing.assert_array_equal(features, expected)


def test_files(tmp_path, monkeypatch):
    monkeypatch.setenv("PYMCBOOST_CACHE", str(tmp_path / "cache"))
    paths = make_data.write_poker(make_data.cache_folder(), 500, 300)
    assert all(path.parent == tmp_path / "cache" for path in paths)
    X, y, X_test, y_test = make_data.make_poker(500, 300)
    for path, (values, labels) in zip(paths, ((X, y), (X_test, y_test)), strict=True):
        data = pymcboost.load_svmlight(path, n_features=25, base=1, layout="dense")
        np.testing.assert_array_equal(data.X, values)
        np.testing.assert_array_equal(data.y, labels)
