"""Cross-validation folds of rows that are divided among workers.

Every worker trains the model of a fold together with the others, and keeps the scores of its own rows. Metrics and
temperatures are computed from the rows of all workers, in the order of their numbers, so they do not depend on the
division.
"""

import numpy as np

from pymcboost.comm import ALONE, row_numbers
from pymcboost.learners.sampling import scrambled
from pymcboost.threads import counted
from pymcboost.training.divided import smallest

# Maximum number of held-out rows, and of their scores, that every worker receives. They are enough for one number.
MOST_HELD = 1 << 16
MOST_SCORES = 1 << 22

# Errors after which a training continues without folds: too few rows, or too little memory.
NO_FOLDS = ValueError, MemoryError


def reason(error):
    """Text of such an error; a MemoryError from Python itself has none."""
    return str(error) or "not enough memory"


class FoldError(ValueError):
    """Raised when no folds can be made of the rows. All workers raise it at the same place."""


def pass_on(dataset, error):
    """Raise an error again if the other workers may not have it, because they would continue without this one."""
    if dataset.comm.size > 1 and not isinstance(error, FoldError):
        raise error


def few_rows(largest):
    """Say that there are too few rows for the folds, and what to do, given the size of the largest class."""
    remedy = "use at most that many folds"
    if largest <= 1:
        remedy = "folds need a class with at least two rows"
    return f"the largest class has only {counted(largest, 'row')}; {remedy}"


def parts_of(dataset, cv, seed):
    """Training and held-out rows of this worker, for each of ``cv`` stratified folds.

    The rows of a class are dealt by their numbers, scrambled by the seed. Rows of weight 0 are in no part.
    """
    workers = dataset.comm
    used = np.flatnonzero(dataset.weight > 0)
    is_multilabel = dataset.is_multilabel
    codes = np.zeros(len(used), dtype=np.int64) if is_multilabel else dataset.codes[used]
    n_strata = 1 if is_multilabel else len(dataset.classes)
    count = workers.sum(np.bincount(codes, minlength=n_strata).astype(np.int64))
    largest = int(count.max())
    if largest < cv:
        problem = few_rows(largest)
        if is_multilabel:
            problem = f"there are only {counted(largest, 'row')}; use at most that many folds"
        raise FoldError(f"cv={cv}: {problem}")
    # Classes start with different folds, so that small classes are not all held out together.
    ends = [(count * i + np.arange(len(count)) % cv) // cv for i in range(cv + 1)]
    for i in range(cv):
        n_training = count - (ends[i + 1] - ends[i])
        if not is_multilabel and np.count_nonzero(n_training) < 2:
            raise FoldError(
                f"cv={cv}: fold {i} trains on rows of 1 class, but needs at least 2; use fewer "
                "folds"
            )
    number = row_numbers(workers, len(dataset.weight))
    z = scrambled(number[used], np.uint64(seed))
    fold = np.zeros(len(used), dtype=np.int64)
    for end in ends[1:-1]:
        fold += ~smallest(workers, z, codes, take=end)
    return [(used[fold != i], used[fold == i]) for i in range(cv)]


def sizes(dataset, parts):
    """Numbers of training and held-out rows over all workers, (n_parts, 2)."""
    n_rows = [[len(train), len(held_out)] for train, held_out in parts]
    return dataset.comm.sum(np.array(n_rows, dtype=np.int64))


def n_weighted(workers, weight):
    """Number of rows with positive weight over all workers."""
    return int(workers.sum(np.array([np.count_nonzero(weight)]))[0])


def present(dataset, rows):
    """Which classes occur in these rows on any worker, (K,)."""
    count = np.bincount(dataset.codes[rows], minlength=len(dataset.classes))
    return dataset.comm.sum(count.astype(np.int64)) > 0


class OfAll:
    """Collects arrays of these rows from all workers, in the order of the row numbers, for each worker.

    With a communicator, rows are drawn by row number if there are more than a worker should hold. Without one, all
    arrays stay as they are.

    Parameters
    ----------
    dataset : TrainingSet
    rows : ndarray of int
        Rows of this worker, ascending.
    """

    def __init__(self, dataset, rows):
        self.rows = rows
        self._workers = dataset.comm
        if self._workers is ALONE:
            return
        number = row_numbers(self._workers, len(dataset.weight))[rows]
        self._drawn = slice(None)
        most = min(MOST_HELD, max(1024, MOST_SCORES // len(dataset.classes)))
        if self._workers.sum(np.array([len(number)]))[0] > most:
            z = scrambled(number, np.uint64(0))
            group = np.zeros(len(number), dtype=np.int64)
            self._drawn = smallest(self._workers, z, group, take=np.array([most]))
        self._order = np.argsort(np.concatenate(self._workers.exchange(number[self._drawn])))

    def __call__(self, array):
        """Collect an array that has one entry for each of these rows."""
        if self._workers is ALONE:
            return array
        return np.concatenate(self._workers.exchange(array[self._drawn]))[self._order]


def of_all(dataset, mask, *arrays):
    """Collect arrays of the rows of all workers in this mask (n,): see `OfAll`."""
    collect = OfAll(dataset, np.flatnonzero(mask))
    return [collect(array[collect.rows]) for array in arrays]
