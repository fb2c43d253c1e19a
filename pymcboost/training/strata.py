"""Stratified folds: each class has about the same share in each fold."""

import numpy as np


def stratified(codes, n_folds, seed):
    """Random training and held-out rows of every fold.

    They are those of scikit-learn's ``StratifiedKFold(n_folds, shuffle=True, random_state=seed)``, which takes a second
    to load.

    Parameters
    ----------
    codes : array of labels (n,)
    n_folds : int
        At most the rows of the largest class.
    seed : int

    Returns
    -------
    list of (ndarray, ndarray)
    """
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))[place]  # classes in the order of their first rows
    by_class = np.argsort(place, kind="stable")
    shares = np.zeros((len(first), n_folds), dtype=np.int64)
    np.add.at(shares, (place[by_class], np.arange(len(place)) % n_folds), 1)
    draw = np.random.RandomState(seed)
    fold = np.empty(len(place), dtype=np.int64)
    begin = 0
    for share in shares:
        fold_of_row = np.repeat(np.arange(n_folds), share)
        draw.shuffle(fold_of_row)
        fold[by_class[begin : begin + len(fold_of_row)]] = fold_of_row
        begin += len(fold_of_row)
    return [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(n_folds)]
