"""Leaves of a tree, and rows and features that it draws, by default: chosen on folds, see docs/reproduction.md."""

# Features drawn at a node, as a multiple of a power of their number, and share of the rows drawn for a tree; more above
# so many rows. There a share of the features is drawn where that is more, up to a number of them.
DRAWN, DRAWN_OF_MANY, OF_POWER = 2, 3, 0.4
SHARE_OF_MANY, MOST_BY_SHARE = 0.1, 100
ROWS, ROWS_OF_MANY = 0.5, 0.7
MANY_ROWS = 10_000


def leaves_of(n_rows, rows_per_leaf, fewest, most):
    """Most leaves of a tree: one for so many rows, within bounds."""
    return min(max(n_rows // rows_per_leaf, fewest), most)


def drawn_of(max_features, n, n_rows):
    """How many of n features a node draws."""
    if max_features != "auto":
        drawn = max_features * n
    elif n_rows > MANY_ROWS:
        drawn = max(DRAWN_OF_MANY * n**OF_POWER, min(SHARE_OF_MANY * n, MOST_BY_SHARE))
    else:
        drawn = DRAWN * n**OF_POWER
    return min(max(1, round(drawn)), n)


def share_of(subsample, n_rows):
    """Share of the rows that a tree is grown on."""
    if subsample == "auto":
        return ROWS_OF_MANY if n_rows > MANY_ROWS else ROWS
    return subsample
