"""Rows divided among workers, each of which has its own in blocks: bytes, and what goes wrong on one worker."""

import numpy as np
import pytest
from divided.threads import numbered, run
from unit.test_blocks import cut, file_of, made

from pymcboost import (
    ABCLogitBoostClassifier,
    Dataset,
    MCBoostClassifier,
    VectorTreeBoostClassifier,
)
from pymcboost.comm import Alone, WorkerError
from pymcboost.data import blocks

ESTIMATORS = [VectorTreeBoostClassifier, ABCLogitBoostClassifier, MCBoostClassifier]


def model_of(cls):
    options = {"calibrate": None} if "calibrate" in cls().get_params() else {}
    return cls(n_estimators=4, random_state=0, **options)


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("n", [300, 9000])
@pytest.mark.part(5)
def test_bytes_are_those_of_one_worker_with_all_rows_in_memory(cls, n):
    X, y, weight = made(n)
    expected = file_of(model_of(cls).fit(X, y, weight, comm=Alone()))

    def task(workers):
        own = slice(workers.rank, None, 3)
        comm = numbered(workers, np.arange(n)[own])
        return file_of(
            model_of(cls).fit(
                Dataset.from_blocks(cut([5, 50], X[own], y[own], weight[own]), comm=comm)
            )
        )

    assert set(run(3, task)) == {expected}
    one = Dataset.from_blocks(cut([70], X, y, weight), comm=Alone())
    assert file_of(model_of(cls).fit(one)) == expected


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_scores_to_begin_with(cls):
    """One of the workers may have no rows, and none without the scores."""
    X, y, weight = made(300)
    scores = np.random.default_rng(1).normal(size=(300, 3))
    expected = file_of(model_of(cls).fit(X, y, weight, init_score=scores, comm=Alone()))
    parts = [np.arange(0, 200), np.arange(200, 200), np.arange(200, 300)]

    def task(workers, without=-1):
        own = parts[workers.rank]
        members = X[own], y[own], weight[own], scores[own]
        source = cut([5, 50], *members[: 3 if workers.rank == without else 4])
        return file_of(model_of(cls).fit(Dataset.from_blocks(source, comm=numbered(workers, own))))

    assert set(run(3, task)) == {expected}
    assert all(
        "init_score" in str(error) for error in run(3, lambda workers: task(workers, without=2))
    )


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.part(2)
def test_bins_of_a_sample_do_not_depend_on_the_division(cls, monkeypatch):
    monkeypatch.setattr(blocks, "FEWEST_SAMPLED", 500)
    monkeypatch.setattr(blocks, "MOST_SAMPLED", 1000)
    n = 6000
    X, y, weight = made(n)

    def task(workers, parts):
        own = parts[workers.rank]
        comm = numbered(workers, own)
        return file_of(
            model_of(cls).fit(
                Dataset.from_blocks(cut([50], X[own], y[own], weight[own]), comm=comm)
            )
        )

    expected = task(Alone(), [np.arange(n)])
    random = np.split(np.random.default_rng(0).permutation(n), [100, 2000])
    for parts in (np.array_split(np.arange(n), 2), random, [np.arange(n), np.arange(0)]):
        assert set(run(len(parts), lambda workers, parts=parts: task(workers, parts))) == {expected}


def errors_of(cls, blocks_of):
    """What each of three workers raises."""
    by_worker = run(
        3,
        lambda workers: model_of(cls).fit(
            Dataset.from_blocks(blocks_of(workers.rank), comm=workers)
        ),
    )
    assert all(isinstance(one, Exception) for one in by_worker), by_worker
    return by_worker


def one_alone(errors, rank, kind, words):
    """One worker has an error of its own, the others say what it is."""
    assert isinstance(errors[rank], kind), errors
    assert words in str(errors[rank])
    for one in errors[:rank] + errors[rank + 1 :]:
        assert isinstance(one, WorkerError)
        assert words in str(one)


def test_source_that_changes_on_one_worker():
    X, y, _ = made(300)
    calls = []

    def source():
        calls.append(0)
        return [(X[: 100 - len(calls)], y[: 100 - len(calls)])]

    errors = errors_of(MCBoostClassifier, lambda rank: source if rank == 2 else [(X, y)])
    one_alone(
        errors,
        2,
        ValueError,
        words="the blocks changed between two passes (98 rows after 99)",
    )


def test_wrong_block_on_one_worker():
    X, y, _ = made(300)
    errors = errors_of(
        VectorTreeBoostClassifier, lambda rank: [(X, y), (X[:, :3], y)] if rank == 0 else [(X, y)]
    )
    one_alone(errors, 0, ValueError, words="block 1: X has 3 columns, but the first block has 8")


def test_worker_without_rows():
    """Its block of none tells the columns, as an array and as a frame; without a block there is nothing to tell."""
    pd = pytest.importorskip("pandas")
    X, y, weight = made(300)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    for rows in (X, frame):

        def task(workers, rows=rows):
            end = 0 if workers.rank == 1 else 300
            data = Dataset.from_blocks([(rows[:end], y[:end], weight[:end])], comm=workers)
            return file_of(model_of(VectorTreeBoostClassifier).fit(data))

        assert set(run(2, task)) == {
            file_of(model_of(VectorTreeBoostClassifier).fit(rows, y, weight))
        }
    errors = errors_of(VectorTreeBoostClassifier, lambda rank: [] if rank == 1 else [(X, y)])
    one_alone(
        errors,
        1,
        ValueError,
        words="the blocks have no rows; a worker without rows must give an empty block",
    )
