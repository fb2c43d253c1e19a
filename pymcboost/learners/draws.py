"""Leaves of a tree, and rows and features that it draws, by default: chosen on folds, see docs/results/choices.md."""

# Features drawn at a node, as a multiple of a power of their number, and share of the rows drawn for a tree; more above
# so many rows. There a share of the features is drawn where that is more, up to a number of them. Few rows have few
# nodes: the number of rows times that of the features drawn is at least a multiple of all features, up to the share.
DRAWN, DRAWN_OF_MANY, OF_POWER = 2, 3, 0.4
SHARE, MOST_BY_SHARE, EACH = 0.1, 100, 10
ROWS, ROWS_OF_MANY = 0.5, 0.7
MANY_ROWS = 10_000
# The same numbers of features in the help of ``max_features``.
AUTO_FEATURES = (
    '"auto" considers 2 d^0.4 of d features, or 3 d^0.4 with more than 10,000 rows.\n\n'
    '"auto" considers more features if there are few rows or many features. Up to 10,000 rows, the minimum is 10 d / m '
    "for m rows, but not above d / 10. With more rows, the minimum is d / 10, but not above 100."
)


def leaves_of(n_rows, rows_per_leaf, fewest, most):
    """Most leaves of a tree: one for so many rows, within bounds."""
    return min(max(n_rows // rows_per_leaf, fewest), most)


def drawn_of(max_features, n, n_rows):
    """How many of n features a node draws."""
    if max_features != "auto":
        drawn = max_features * n
    elif n_rows > MANY_ROWS:
        drawn = max(DRAWN_OF_MANY * n**OF_POWER, min(SHARE * n, MOST_BY_SHARE))
    else:
        drawn = max(DRAWN * n**OF_POWER, min(SHARE, EACH / n_rows) * n)
    return min(max(1, round(drawn)), n)


def share_of_features(max_features, max_features_tree, data):
    """Share of a tree's features that a node draws."""
    if max_features != "auto":
        return max_features
    pool = max(1, round(max_features_tree * len(data.column)))
    return drawn_of(max_features, pool, data.total_rows) / pool


def share_of(subsample, n_rows):
    """Share of the rows that a tree is grown on."""
    if subsample == "auto":
        return ROWS_OF_MANY if n_rows > MANY_ROWS else ROWS
    return subsample
