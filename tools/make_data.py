"""Make data sets: the small ones of data/, and Poker hands by the rules of the game.

    python tools/make_data.py [FOLDER]               # digits, iris, wine and tickets; default folder: data/
    python tools/make_data.py --poker libsvm [FOLDER]   # 525,010 training and 500,000 test hands

The digits are split in four: of the rows in the order of their class (and in the given order within a class) every
fourth, from the first on, is a test row. Labels are those of scikit-learn; nothing is scaled or shuffled. The output
depends on the data alone, so that running this again changes nothing.

Poker stands in for "Poker525k" of Li (Robust LogitBoost and adaptive base class LogitBoost, UAI 2010), which splits the
1,025,010 hands of the UCI set into 525,010 and 500,000; UCI's full test part cannot always be had. The hands are drawn
anew, with a fixed seed, in the way of the UCI set (R. Cattral and F. Oppacher, 2007): five cards in the order they are
dealt from a full deck, every hand independently of the others. UCI's 25,010 training hands hold more straight flushes
and royal flushes than chance would give, five of each, and so do the first 25,010 here. Features: the five suits as 20
indicators, card by card, then the five ranks, 1 (ace) to 13 (king): 25 columns. Labels 1 (nothing) to 10 (royal flush).
FOLDER defaults to $PYMCBOOST_CACHE, else ~/.cache/pymcboost.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np

POKER_TRAIN = 525_010
POKER_TEST = 500_000
POKER_SEED = 20_100_525
# The part of the training hands that stands for UCI's training file, and how many of the rarest hands it holds.
UCI_TRAIN = 25_010
UCI_RARE = {8: 5, 9: 5}


# --------------------------------------------------------------------------------------------------------------------
# Poker


def draw_below(bits, bound, size):
    """Numbers below ``bound``, a few dozen at most: 64 raw bits modulo it, whose bias is below 1e-17.

    Raw bits of a bit generator are the one thing that NumPy promises never to change.
    """
    return (bits.random_raw(size) % np.uint64(bound)).astype(np.int64)


def deal(bits, count):
    """``count`` hands of five different cards in the order of dealing: (count, 5) numbers 0..51, suit * 13 + rank."""
    cards = np.empty((count, 5), np.int64)
    for place in range(5):
        card = draw_below(bits, 52 - place, count)
        # The card-th of those left: step over every card that is gone, in ascending order.
        for gone in np.sort(cards[:, :place], axis=1).T:
            card += card >= gone
        cards[:, place] = card
    return cards


def hands_of(cards):
    """UCI's ten columns S1,C1,...,S5,C5 (suit 1..4, rank 1..13) of card numbers, uint8."""
    hands = np.empty((len(cards), 10), np.uint8)
    hands[:, 0::2] = cards // 13 + 1
    hands[:, 1::2] = cards % 13 + 1
    return hands


def poker_classes(hands):
    """Classes 0..9 of hands given as UCI's ten columns.

    0 nothing, 1 one pair, 2 two pairs, 3 three of a kind, 4 straight, 5 flush, 6 full house, 7 four of a kind,
    8 straight flush, 9 royal flush. An ace ends a straight on either side.
    """
    hands = np.asarray(hands)
    suits = hands[:, 0::2]
    ranks = np.sort(hands[:, 1::2].astype(np.int64), axis=1)
    # Pairs of cards of equal rank: 1, 2, 3, 4 and 6 of them belong to the five hands with equal ranks.
    equal = sum((ranks[:, i] == ranks[:, j]).astype(np.int64) for i in range(5) for j in range(i))
    classes = np.array([0, 1, 2, 3, 6, 0, 7])[equal]
    royal = (ranks == [1, 10, 11, 12, 13]).all(axis=1)
    straight = (equal == 0) & ((ranks[:, 4] - ranks[:, 0] == 4) | royal)
    flush = (suits == suits[:, :1]).all(axis=1)
    classes[straight] = 4
    classes[flush] = 5
    classes[straight & flush] = 8
    classes[royal & flush] = 9
    return classes


def deal_rare(bits, count, royal):
    """Straight flushes (of the nine kinds below the royal one), or royal flushes, in random order of the cards."""
    suit = draw_below(bits, 4, count)
    first = np.full(count, 9) if royal else draw_below(bits, 9, count)
    cards = suit[:, None] * 13 + (first[:, None] + np.arange(5)) % 13
    order = np.argsort(bits.random_raw((count, 5)), axis=1, kind="stable")
    return np.take_along_axis(cards, order, axis=1)


def poker_hands(n_train=POKER_TRAIN, n_test=POKER_TEST, seed=POKER_SEED):
    """Draw training and test hands, the same ones for the same arguments.

    Returns
    -------
    train, test : ndarray of shape (n, 10), uint8
        UCI's columns; `poker_classes` gives the classes, `poker_features` the 25 features.
    """
    bits = np.random.PCG64(seed)
    train, test = deal(bits, n_train), deal(bits, n_test)
    like_uci = min(UCI_TRAIN, n_train)
    for rare, count in UCI_RARE.items():
        present = np.flatnonzero(poker_classes(hands_of(train[:like_uci])) == rare)
        missing = count - len(present)
        if missing <= 0 or like_uci < UCI_TRAIN:
            continue
        common = np.flatnonzero(poker_classes(hands_of(train[:like_uci])) < 2)
        # The places are found by the order of random keys, so that none is taken twice.
        places = common[np.argsort(bits.random_raw(len(common)), kind="stable")[:missing]]
        train[places] = deal_rare(bits, missing, royal=rare == 9)
    return hands_of(train), hands_of(test)


def poker_features(hands):
    """The 25 features: suit indicators of cards 1 to 5 (four each), then the five ranks; float32."""
    hands = np.asarray(hands)
    suits = hands[:, 0::2, None] == np.arange(1, 5)
    return np.concatenate(
        [suits.reshape(len(hands), 20), hands[:, 1::2]], axis=1, dtype=np.float32, casting="unsafe"
    )


def make_poker(n_train=POKER_TRAIN, n_test=POKER_TEST, seed=POKER_SEED):
    """The generated set as (X_train, y_train, X_test, y_test): float32 (n, 25), int64 labels 1..10."""
    parts = []
    for hands in poker_hands(n_train, n_test, seed):
        parts += [poker_features(hands), poker_classes(hands) + 1]
    return tuple(parts)


def cache_folder():
    """Where generated files go when no folder is named."""
    return Path(
        os.environ.get("PYMCBOOST_CACHE") or Path.home() / ".cache" / "pymcboost"
    ).expanduser()


def write_poker(folder, n_train=POKER_TRAIN, n_test=POKER_TEST):
    """Write the generated set into ``folder`` and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    from pymcboost import dump_svmlight

    paths = []
    for part, hands in zip(("train", "test"), poker_hands(n_train, n_test), strict=True):
        paths.append(folder / f"poker-generated.{part}.libsvm.gz")
        dump_svmlight(paths[-1], poker_features(hands), poker_classes(hands) + 1)
    return paths


# --------------------------------------------------------------------------------------------------------------------
# The small sets of data/


def test_rows(y):
    """Row numbers of the test part, ascending: every fourth row of each class."""
    return np.sort(np.argsort(y, kind="stable")[::4])


def write_small(folder):
    """Write digits, iris, wine and tickets into ``folder`` and return the paths."""
    from sklearn.datasets import load_digits, load_iris, load_wine

    from pymcboost import dump_svmlight

    folder.mkdir(parents=True, exist_ok=True)
    X, y = load_digits(return_X_y=True)
    test = test_rows(y)
    train = np.setdiff1d(np.arange(len(y)), test)
    dump_svmlight(folder / "digits.train.libsvm", X[train], y[train])
    dump_svmlight(folder / "digits.test.libsvm", X[test], y[test])
    dump_svmlight(folder / "iris.libsvm", *load_iris(return_X_y=True))
    dump_svmlight(folder / "wine.libsvm", *load_wine(return_X_y=True))
    return [*sorted(folder.glob("*.libsvm")), write_tickets(folder)]


# Support tickets: the queues that handle them, and what each product, channel and plan adds to a queue's score.
QUEUES = ("billing", "technical", "account", "shipping", "abuse")
QUEUE_SCORES = (1.4, 0.2, 0.2, 0.6, -0.7)
PRODUCTS = {
    "camera": (-0.6, 1.2, -0.4, 0.9, -0.5),
    "cloud storage": (0.6, 0.5, 0.4, -3.0, 0.6),
    "doorbell": (-0.4, 1.0, -0.2, 0.7, 0.2),
    "hub": (-0.8, 1.6, -0.3, 0.6, -0.8),
    "mobile app": (0.2, 0.8, 1.1, -3.0, 0.5),
    "sensor": (-0.7, 0.9, -0.6, 1.3, -1.0),
    "subscription": (2.0, -1.2, 0.6, -3.0, -0.4),
}
CHANNELS = {
    "chat": (0.1, 0.6, 0.3, 0.0, 0.4),
    "email": (0.5, 0.0, 0.1, 0.3, 0.2),
    "phone": (0.6, -0.2, 0.4, 0.4, -1.0),
    "web form": (-0.2, 0.3, 0.2, 0.2, 0.9),
}
PLANS = {
    "business": (0.6, 0.5, -0.2, -0.3, -1.5),
    "family": (0.3, 0.1, 0.2, 0.2, -0.4),
    "free": (-1.8, 0.3, 0.6, 0.3, 1.2),
}
N_TICKETS = 2400
TICKETS_SEED = 20_261_129


def tickets(n=N_TICKETS, seed=TICKETS_SEED):
    """Made support tickets: lines of CSV, the header first. Empty cells are missing values."""
    bits = np.random.PCG64(seed)

    def uniform(size=n):
        """Numbers in (0, 1); raw bits are what NumPy promises never to change."""
        return ((bits.random_raw(size) >> np.uint64(11)).astype(float) + 0.5) / 2**53

    def drawn(levels):
        names = sorted(levels)
        chosen = (uniform() * len(names)).astype(int)
        return np.array(names)[chosen], np.array([levels[name] for name in names])[chosen]

    product, of_product = drawn(PRODUCTS)
    channel, of_channel = drawn(CHANNELS)
    plan, of_plan = drawn(PLANS)
    age = np.floor(-500 * np.log(uniform()))  # days
    order = np.where(uniform() < 0.4, np.floor(60 * uniform()), np.nan)  # days; most have none
    messages = 1 + np.floor(-2.5 * np.log(uniform()))
    amount = np.where(uniform() < 0.55, np.floor(-40 * np.log(uniform())) + 0.99, np.nan)
    links = np.floor(-0.6 * np.log(uniform()))

    scores = 2.5 * (np.array(QUEUE_SCORES) + of_product + of_channel + of_plan)
    scores[:, 0] += np.where(np.isnan(amount), -2, 1.5 + (amount > 60))
    scores[:, 1] += 0.5 * np.minimum(messages, 8) - 1 + 1.5 * ((plan == "business") & (links > 0))
    scores[:, 2] += np.where(age < 30, 3, 0)
    scores[:, 3] += np.where(np.isnan(order), -3, np.where(order < 14, 3.5, 0))
    scores[:, 4] += 1.6 * np.minimum(links, 4) + 2 * ((plan == "free") & (age < 90))
    # The largest of scores with Gumbel noise is drawn by the softmax of the scores.
    noise = -np.log(-np.log(uniform((n, len(QUEUES)))))
    queue = np.array(QUEUES)[np.argmax(scores + noise, axis=1)]

    def whole(values):
        return ["" if np.isnan(value) else f"{value:.0f}" for value in values]

    money = ["" if np.isnan(value) else f"{value:.2f}" for value in amount]
    names = "queue,product,channel,plan,account_days,order_days,messages,amount,links"
    columns = queue, product, channel, plan, *map(whole, (age, order, messages)), money
    rows = zip(*columns, whole(links), strict=True)
    return [names, *map(",".join, rows)]


def write_tickets(folder):
    """Write the made support tickets into ``folder`` and return the path."""
    path = folder / "tickets.csv"
    path.write_text("\n".join(tickets()) + "\n", encoding="ascii")
    return path


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, help="where the files go")
    parser.add_argument(
        "--poker", choices=("libsvm",), help="write the generated Poker hands in this format"
    )
    options = parser.parse_args(arguments)
    if options.poker:
        paths = write_poker(options.folder or cache_folder())
    else:
        paths = write_small(options.folder or Path(__file__).resolve().parents[1] / "data")
    for path in paths:
        print(f"{path}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
