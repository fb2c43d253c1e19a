"""Defaults for the leaves of a tree and the rows and features that it draws, see docs/results/choices.md."""

# A node draws DRAWN d^OF_POWER of d features, or DRAWN_OF_MANY d^OF_POWER above MANY_ROWS rows. With many rows, it
# draws at least the share SHARE of the features, up to MOST_BY_SHARE. Few rows give few nodes, so the number of rows
# times the number of drawn features is at least EACH times all features, up to the share SHARE. A tree is grown on
# the share ROWS of the rows, or ROWS_OF_MANY above MANY_ROWS.
DRAWN = 2
DRAWN_OF_MANY = 3
OF_POWER = 0.4
SHARE = 0.1
MOST_BY_SHARE = 100
EACH = 10
ROWS = 0.5
ROWS_OF_MANY = 0.7
MANY_ROWS = 10_000
# The same numbers for the help of ``max_features``.
AUTO_FEATURES = (
    '"auto" considers 2 d^0.4 of d features, or 3 d^0.4 with more than 10,000 rows.\n\n'
    '"auto" considers more features if there are few rows or many features. Up to 10,000 rows, the minimum is 10 d / m '
    "for m rows, but not above d / 10. With more rows, the minimum is d / 10, but not above 100."
)


def leaves_of(n_rows, rows_per_leaf, fewest, most):
    """Maximum number of leaves of a tree: one for every ``rows_per_leaf`` rows, within bounds."""
    return min(max(n_rows // rows_per_leaf, fewest), most)


def drawn_of(max_features, n, n_rows):
    """Number of the n features that a node draws."""
    if max_features != "auto":
        drawn = max_features * n
    elif n_rows > MANY_ROWS:
        drawn = max(DRAWN_OF_MANY * n**OF_POWER, min(SHARE * n, MOST_BY_SHARE))
    else:
        drawn = max(DRAWN * n**OF_POWER, min(SHARE, EACH / n_rows) * n)
    return min(max(1, round(drawn)), n)


def share_of_features(max_features, max_features_tree, data):
    """Share of the tree's features that a node draws."""
    if max_features != "auto":
        return max_features
    pool = max(1, round(max_features_tree * len(data.column)))
    return drawn_of(max_features, pool, data.total_rows) / pool


def share_of(subsample, n_rows):
    """Share of the rows that a tree is grown on."""
    if subsample == "auto":
        return ROWS_OF_MANY if n_rows > MANY_ROWS else ROWS
    return subsample
