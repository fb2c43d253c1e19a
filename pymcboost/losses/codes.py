"""Output codes: matrices of binary problems, each of which separates some classes from others.

A code matrix is an array (K, P): column j separates the classes with positive entries from those with negative ones;
classes with entry 0 are left out.
"""

from itertools import combinations

import numpy as np

# Number of random matrices from which a dense random code is chosen, and its columns per log2 of the number of
# classes.
TRIALS = 200
COLUMNS_PER_BIT = 10
# Maximum number of classes for a code with all dichotomies, which has 2**(K - 1) - 1 columns.
LARGEST_EXHAUSTIVE = 12
# Maximum number of columns of a code: the scorer keeps them on its stack.
MOST_COLUMNS = 4096


def one_vs_all(n_classes):
    """Each class against all others: (K, K)."""
    return 2.0 * np.eye(n_classes) - 1.0


def all_pairs(n_classes):
    """Each pair of classes: (K, K (K - 1) / 2), with 0 for the other classes."""
    pairs = list(combinations(range(n_classes), 2))
    code = np.zeros((n_classes, len(pairs)))
    for j, (a, b) in enumerate(pairs):
        code[a, j] = 1.0
        code[b, j] = -1.0
    return code


def exhaustive(n_classes):
    """All dichotomies of the classes: (K, 2**(K - 1) - 1); class 0 is always positive."""
    if n_classes > LARGEST_EXHAUSTIVE:
        raise ValueError(
            "code='exhaustive' has 2**(K - 1) - 1 columns and supports at most "
            f"{LARGEST_EXHAUSTIVE} classes; there are {n_classes}. Use code='dense' or "
            "'one-vs-all'"
        )
    number = np.arange(1, 2 ** (n_classes - 1))
    code = np.ones((n_classes, len(number)))
    for k in range(1, n_classes):
        code[k] -= 2.0 * (number >> (k - 1) & 1)
    return code


def dense_random(n_classes, rng, n_columns=None, trials=TRIALS):
    """Random signs: of several matrices, the one with the largest minimum row distance.

    See Allwein, Schapire and Singer.

    Parameters
    ----------
    n_classes : int
    rng : numpy Generator
    n_columns : int, optional
        10 log2 K, rounded up, if None; no more than there are different columns.
    trials : int

    Returns
    -------
    ndarray (K, P)
    """
    there_are = 2 ** (n_classes - 1) - 1 if n_classes <= LARGEST_EXHAUSTIVE else np.inf
    if n_columns is None:
        n_columns = int(np.ceil(COLUMNS_PER_BIT * np.log2(n_classes)))
    if n_columns >= there_are:
        return exhaustive(n_classes)
    best = None
    best_distance = -1
    for _ in range(trials):
        code = _random_columns(n_classes, n_columns, rng)
        agreement = code @ code.T
        np.fill_diagonal(agreement, 0.0)
        distance = n_columns - agreement.max() if n_classes > 1 else 0
        del agreement  # frees it before the next one is made
        if distance > best_distance:
            best = code
            best_distance = distance
    return best


def _random_columns(n_classes, n_columns, rng):
    """Distinct columns of random signs, none constant or the negative of another; class 0 is always positive."""
    columns = {}
    while len(columns) < n_columns:
        column = np.where(rng.random(n_classes) < 0.5, -1.0, 1.0)
        column *= column[0]
        if (column < 0).any():
            columns.setdefault(column.tobytes(), column)
    return np.stack(list(columns.values()), axis=1)


def random_half(n_classes, rng):
    """Random colouring (K,) of the classes: half of them, rounded down, are +1, the others -1."""
    colouring = -np.ones(n_classes)
    colouring[rng.choice(n_classes, n_classes // 2, replace=False)] = 1.0
    return colouring


CODES = {"one-vs-all": one_vs_all, "all-pairs": all_pairs, "exhaustive": exhaustive}


def n_columns(code, n_classes):
    """Number of columns of `code_matrix`, without making it."""
    K = n_classes
    every = 2 ** (K - 1) - 1 if K <= LARGEST_EXHAUSTIVE else np.inf
    if code == "exhaustive" or (code == "auto" and K <= 7):
        return int(min(every, MOST_COLUMNS))
    if code in ("auto", "dense"):
        return int(min(every, np.ceil(COLUMNS_PER_BIT * np.log2(K))))
    return K if code == "one-vs-all" else K * (K - 1) // 2


def code_matrix(code, n_classes, rng):
    """Code matrix by name: "one-vs-all", "all-pairs", "exhaustive" or "dense".

    "auto" is "exhaustive" with up to 7 classes, and "dense" with more.
    """
    if code == "auto":
        code = "exhaustive" if n_classes <= 7 else "dense"
    if code == "dense":
        return dense_random(n_classes, rng)
    matrix = CODES[code](n_classes)
    if matrix.shape[1] > MOST_COLUMNS:
        raise ValueError(
            f"code={code!r} has {matrix.shape[1]} columns for {n_classes} classes, more than {MOST_COLUMNS}; use "
            "'dense'" + " or 'one-vs-all'" * (n_classes <= MOST_COLUMNS)
        )
    return matrix


def separators(spec, n_classes):
    """Class subsets as a code (K, P): K - s for the s classes of a subset, -s for the others.

    A subset and its complement separate the same; the smaller one is kept, once.

    Parameters
    ----------
    spec : {"singles", "pairs"} or list of lists of int
        All single classes; these and all pairs; or subsets of class codes, each neither empty nor full.

    Returns
    -------
    ndarray (K, P) of whole numbers
    """
    every = frozenset(range(n_classes))
    if isinstance(spec, str):
        pairs = spec == "pairs" and n_classes > 2
        _refuse_many(spec, n_classes * (n_classes + 1) // 2 if pairs else n_classes, n_classes)
        subsets = [(k,) for k in every] + (list(combinations(every, 2)) if pairs else [])
    else:
        subsets = spec
    seen = set()
    columns = []
    for subset in subsets:
        subset = frozenset(int(k) for k in subset)
        if not subset or not subset <= every or len(subset) == n_classes:
            raise ValueError(
                f"separators: {sorted(subset)} is not a subset of the classes 0 to "
                f"{n_classes - 1} with at least one class on each side; give lists of class "
                "codes (positions in classes_)"
            )
        if 2 * len(subset) < n_classes:
            least = sorted(subset)
        else:
            other = every - subset
            least = min((len(subset), sorted(subset)), (len(other), sorted(other)))[1]
        if tuple(least) in seen:
            continue
        seen.add(tuple(least))
        _refuse_many(spec, len(seen), n_classes)
        column = np.full(n_classes, -float(len(least)))
        column[least] = n_classes - len(least)
        columns.append(column)
    if not columns:
        raise ValueError(
            "separators: the list of class subsets is empty; give at least one, or 'singles'"
        )
    return np.stack(columns, axis=1)


def _refuse_many(spec, count, n_classes):
    """Refuse too many class subsets, before their columns are made."""
    if count <= MOST_COLUMNS:
        return
    named = isinstance(spec, str)
    shown, which = (
        (repr(spec), f"are {count}")
        if named
        else (f"[{list(spec[0])}, ...]", f"are {count} or more")
    )
    raise ValueError(
        f"separators={shown} {which} class subsets for {n_classes} classes, more than {MOST_COLUMNS}; "
        + (
            "list fewer"
            if n_classes > MOST_COLUMNS or not named
            else "use 'singles', or list fewer"
        )
    )


def not_told_apart(code):
    """First pair of classes that a code (K, P) never separates, as two positions; None if there is none.

    They have the same row, so their scores are always equal.
    """
    seen = {}
    for k, row in enumerate(np.ascontiguousarray(code)):
        first = seen.setdefault(row.tobytes(), k)
        if first != k:
            return first, k
    return None
