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
    if n_columns is None:
        n_columns = int(np.ceil(COLUMNS_PER_BIT * np.log2(n_classes)))
    if n_columns >= _n_dichotomies(n_classes):
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


def _n_dichotomies(n_classes):
    """Number of dichotomies of the classes; infinite if there are too many for `exhaustive`."""
    return 2 ** (n_classes - 1) - 1 if n_classes <= LARGEST_EXHAUSTIVE else np.inf


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
    n_dichotomies = _n_dichotomies(K)
    if code == "exhaustive" or (code == "auto" and K <= 7):
        return int(min(n_dichotomies, MOST_COLUMNS))
    if code in ("auto", "dense"):
        return int(min(n_dichotomies, np.ceil(COLUMNS_PER_BIT * np.log2(K))))
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
        All single classes; all single classes and all pairs; or subsets of class codes, each neither empty nor full.

    Returns
    -------
    ndarray (K, P) of whole numbers
    """
    all_classes = frozenset(range(n_classes))
    if isinstance(spec, str):
        with_pairs = spec == "pairs" and n_classes > 2
        n_subsets = n_classes * (n_classes + 1) // 2 if with_pairs else n_classes
        _refuse_many(spec, n_subsets, n_classes)
        subsets = [(k,) for k in all_classes]
        if with_pairs:
            subsets += combinations(all_classes, 2)
    else:
        subsets = spec
    separated = set()
    columns = []
    for subset in subsets:
        subset = frozenset(int(k) for k in subset)
        if not subset or not subset <= all_classes or len(subset) == n_classes:
            raise ValueError(
                f"separators: {sorted(subset)} is not a subset of the classes 0 to "
                f"{n_classes - 1} with at least one class on each side; give lists of class "
                "codes (positions in classes_)"
            )
        complement = all_classes - subset
        smaller = min(sorted(subset), sorted(complement), key=lambda codes: (len(codes), codes))
        if tuple(smaller) in separated:
            continue
        separated.add(tuple(smaller))
        _refuse_many(spec, len(separated), n_classes)
        column = np.full(n_classes, -float(len(smaller)))
        column[smaller] = n_classes - len(smaller)
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
    if isinstance(spec, str):
        shown = repr(spec)
        counted = f"{count}"
        remedy = "list fewer" if n_classes > MOST_COLUMNS else "use 'singles', or list fewer"
    else:
        shown = f"[{list(spec[0])}, ...]"
        counted = f"{count} or more"
        remedy = "list fewer"
    raise ValueError(
        f"separators={shown} are {counted} class subsets for {n_classes} classes, more than "
        f"{MOST_COLUMNS}; {remedy}"
    )


def not_told_apart(code):
    """First pair of classes that a code (K, P) never separates, as two positions; None if there is none.

    They have the same row, so their scores are always equal.
    """
    class_of_row = {}
    for k, row in enumerate(np.ascontiguousarray(code)):
        earlier_class = class_of_row.setdefault(row.tobytes(), k)
        if earlier_class != k:
            return earlier_class, k
    return None
