"""mcboost-train --cache with --mpi: a cache for each process, and the model of one process with all rows."""

import os
import re
from types import SimpleNamespace

import numpy as np
import pytest
from cli.programs import write_svm
from divided.threads import run

from pymcboost import LogitBoostClassifier, MCBoostClassifier, VectorTreeBoostClassifier, load_svmlight
from pymcboost.cli import train
from pymcboost.cli.cache import read_cached
from pymcboost.comm import Alone
from pymcboost.data import textblocks

N = 400


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The rows as one file and as three; the last part alone has the last class and the last feature."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(textblocks, "BLOCK", 1 << 11)
    rng = np.random.default_rng(1)
    X = np.round(rng.normal(size=(N, 5)), 2).astype(np.float32)
    y = (X[:, 0] > 0) + 2 * (X[:, 1] > 0.5)
    y[: 2 * N // 3] %= 3
    X[: 2 * N // 3, 4] = 0
    write_svm("all.svm", X, y)
    for i, part in enumerate(np.array_split(np.arange(N), 3)):
        write_svm(f"part-{i}.svm", X[part], y[part])
    return tmp_path


def given(file, rank, cache="c-%r", base="auto", n_features=None):
    names = {"training_file": file.replace("%r", str(rank)), "cache": cache.replace("%r", str(rank))}
    how = {"format": "auto", "base": base, "n_features": n_features, "label": None, "divided": "%r" not in file}
    return SimpleNamespace(model_file="m.mcb", checkpoint=None, **names, **how)


def read(file, size, notes=None, **more):
    """Rows of the caches of several workers, or their errors."""

    def task(workers):
        try:
            note = (notes or [[] for _ in range(size)])[workers.rank].append
            return read_cached(given(file, workers.rank, **more), note, True, workers)
        except Exception as error:
            workers.fail(error)
            raise

    return run(size, task)


def check_rows(found, path="all.svm", **more):
    whole = load_svmlight(path, layout="dense", **more)
    assert not [one for one in found if isinstance(one, Exception)], found
    np.testing.assert_array_equal(np.concatenate([one.X for one in found]), whole.X)
    np.testing.assert_array_equal(np.concatenate([one.y for one in found]), whole.y)
    assert {one.base for one in found} == {whole.base}


@pytest.mark.parametrize(("file", "size"), [("all.svm", 2), ("all.svm", 7), ("part-%r.svm", 3), ("part-%r*", 3)])
def test_rows_of_one_process_at_first_and_again(folder, file, size):
    for n_features in (None, 3, 9):
        for words in ("held densely", "the rows of"):
            notes = [[] for _ in range(size)]
            check_rows(read(file, size, notes, n_features=n_features), n_features=n_features)
            assert all(words in " ".join(its) for its in notes), notes


def test_index_0_in_one_part(folder):
    text = open("part-1.svm").read().splitlines()
    text[5] = re.sub(r"^(\S+) ", r"\1 0:7 ", text[5])
    open("part-1.svm", "w").write("\n".join(text))
    with open("all.svm", "w") as file:
        file.writelines(open(f"part-{i}.svm").read().strip() + "\n" for i in range(3))
    check_rows(read("part-%r.svm", 3))
    check_rows(read("all.svm", 4, cache="d-%r"))


@pytest.mark.parametrize("cls", [VectorTreeBoostClassifier, LogitBoostClassifier, MCBoostClassifier])
def test_bytes_of_one_process(folder, cls):
    params = {"n_estimators": 4, "calibrate": None, "random_state": 0}
    data = load_svmlight("all.svm", layout="dense")
    expected = cls(**params).fit(data.X, data.y, comm=Alone()).model_.to_bytes()

    def task(workers):
        rows = read_cached(given("all.svm", workers.rank), print, True, workers)
        return cls(**params).fit(rows.chunks, comm=workers).model_.to_bytes()

    assert set(run(3, task)) == {expected}


def test_a_worker_without_rows(folder):
    """A range of three bytes has no line."""
    lines = ["0 1:1", "1 1:2", "0 1:1", "1 " + " ".join(f"{j}:{j % 7}" for j in range(1, 4000))]
    open("few.svm", "w").write("\n".join(lines))
    found = read("few.svm", 4)
    check_rows(found, "few.svm")
    assert 0 in [len(one.y) for one in found]
    params = {"n_estimators": 2, "calibrate": None, "random_state": 0}
    models = run(4, lambda w: VectorTreeBoostClassifier(**params).fit(found[w.rank].chunks, comm=w).model_.to_bytes())
    data = load_svmlight("few.svm", layout="dense")
    assert set(models) == {VectorTreeBoostClassifier(**params).fit(data.X, data.y).model_.to_bytes()}


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda: os.unlink("c-1"), ["another process has no cache", "held densely", "another process has no cache"]),
        (lambda: os.truncate("c-1", 6000), ["c-1 is damaged", "c-1 is damaged", "c-1 is damaged"]),
        (lambda: os.utime("all.svm", (1, 1)), ["has changed since c-0", "has changed since c-1", "has changed since"]),
    ],
)
def test_all_are_written_anew_where_one_does_not_fit(folder, spoil, words):
    read("all.svm", 3)
    spoil()
    notes = [[] for _ in range(3)]
    check_rows(read("all.svm", 3, notes))
    assert all(its in " ".join(told) for its, told in zip(words, notes, strict=True)), notes
    check_rows(read("all.svm", 2, notes))
    assert "c-0 was written with other options of reading" in " ".join(notes[0])


@pytest.mark.parametrize(("file", "row"), [("all.svm", N + 1), ("part-%r.svm", N // 3 + 1)])
@pytest.mark.parametrize(
    ("line", "words"),
    [("1.5 1:2", "row {} has the label 1.5"), ("1 2:inf", "row {} has inf"), ("1 1:2 1:3", "svm:{}:7: feature")],
)
def test_wrong_rows_are_named_by_their_place(folder, file, row, line, words):
    with open(file.replace("%r", "2"), "a") as stream:
        stream.write(line + "\n")
    found = read(file, 3)
    assert all(words.format(row) in str(one) for one in found), found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["all.svm", "--cache", "c"], "give --cache a name with %r"),
        (["part-*.svm", "--cache", "c-%r"], "cannot tell whose the files of a pattern are"),
    ],
)
def test_refusals(folder, arguments, words, capsys):
    assert train.main(["-a", "vector-tree", "--mpi", *arguments, "m.mcb"]) == 1
    assert words in capsys.readouterr().err
