"""Rows divided among workers, each of which has its own in blocks: bytes, and what goes wrong on one worker."""

import errno
import os

import numpy as np
import pytest
from divided.threads import numbered, run
from unit.test_chunks import cut, file_of, made

from pymcboost import (
    ABCLogitBoostClassifier,
    MCBoostClassifier,
    VectorTreeBoostClassifier,
)
from pymcboost.comm import Alone, WorkerError
from pymcboost.data import Chunks, mapped

ESTIMATORS = [VectorTreeBoostClassifier, ABCLogitBoostClassifier, MCBoostClassifier]


def model_of(cls):
    more = {"calibrate": None} if "calibrate" in cls().get_params() else {}
    return cls(n_estimators=4, random_state=0, **more)


@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("n", [300, 9000])
@pytest.mark.part(3)
def test_bytes_are_those_of_one_worker_with_all_rows_in_memory(cls, n):
    X, y, weight = made(n)
    expected = file_of(model_of(cls).fit(X, y, weight, comm=Alone()))

    def task(workers):
        own = slice(workers.rank, None, 3)
        chunks = Chunks(cut([5, 50], X[own], y[own], weight[own]))
        return file_of(model_of(cls).fit(chunks, comm=numbered(workers, np.arange(n)[own])))

    assert set(run(3, task)) == {expected}
    one = Chunks(cut([70], X, y, weight))
    assert file_of(model_of(cls).fit(one, comm=Alone())) == expected


def errors_of(cls, chunks_of):
    """What each of three workers raises."""
    found = run(3, lambda workers: model_of(cls).fit(chunks_of(workers.rank), comm=workers))
    assert all(isinstance(one, Exception) for one in found), found
    return found


def one_alone(found, rank, kind, words):
    """One worker has an error of its own, the others say what it is."""
    assert isinstance(found[rank], kind), found
    assert words in str(found[rank])
    for one in found[:rank] + found[rank + 1 :]:
        assert isinstance(one, WorkerError)
        assert words in str(one)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs the names of open files")
@pytest.mark.parametrize("cls", ESTIMATORS)
@pytest.mark.parametrize("files_before", [0, 1, 2])
def test_disk_full_on_one_worker(cls, files_before, tmp_path, monkeypatch):
    """Where the features are written, or later one of the files that training makes of them."""
    reserve, small, seen = mapped.reserve, tmp_path / "small", []
    small.mkdir()

    def maybe(file, size):
        if os.readlink(f"/proc/self/fd/{file}").startswith(str(small)):
            seen.append(size)
            if len(seen) > files_before:
                raise OSError(errno.ENOSPC, "No space left on device")
        reserve(file, size)

    monkeypatch.setattr(mapped, "reserve", maybe)
    X, y, _ = made(9000)
    found = errors_of(cls, lambda rank: Chunks([(X[rank::3], y[rank::3])], small if rank == 1 else tmp_path))
    one_alone(found, 1, OSError, "cannot be written (No space left on device)")
    assert "give Chunks another folder" in str(found[1])
    assert os.listdir(tmp_path) == ["small"]
    assert os.listdir(small) == []


def test_source_that_changes_on_one_worker():
    X, y, _ = made(300)
    calls = []

    def blocks():
        calls.append(0)
        return [(X[: 100 - len(calls)], y[: 100 - len(calls)])]

    found = errors_of(MCBoostClassifier, lambda rank: Chunks(blocks) if rank == 2 else Chunks([(X, y)]))
    one_alone(found, 2, ValueError, "the second reading gave other rows than the first (98 rows after 99)")


def test_wrong_block_on_one_worker():
    X, y, _ = made(300)
    found = errors_of(
        VectorTreeBoostClassifier, lambda rank: Chunks([(X, y), (X[:, :3], y)] if rank == 0 else [(X, y)])
    )
    one_alone(found, 0, ValueError, "block 1: X has 3 columns, the first block has 8")


def test_worker_without_rows():
    """Its block of none tells the columns, as an array and as a frame; without a block there is nothing to tell."""
    pd = pytest.importorskip("pandas")
    X, y, weight = made(300)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    for rows in (X, frame):

        def task(workers, rows=rows):
            end = 0 if workers.rank == 1 else 300
            chunks = Chunks([(rows[:end], y[:end], weight[:end])])
            return file_of(model_of(VectorTreeBoostClassifier).fit(chunks, comm=workers))

        assert set(run(2, task)) == {file_of(model_of(VectorTreeBoostClassifier).fit(rows, y, weight))}
    found = errors_of(VectorTreeBoostClassifier, lambda rank: Chunks([] if rank == 1 else [(X, y)]))
    one_alone(found, 1, ValueError, "the blocks have no rows; a worker without rows gives a block of none")
