"""Rows in blocks: the bytes of the fit in memory, whatever the blocks; wrong blocks; files that go."""

import errno
import mmap
import os
import re
import weakref
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from pymcboost import (
    ABCMartClassifier,
    LogitBoostClassifier,
    MCBoostClassifier,
    SAMMEClassifier,
    VectorTreeBoostClassifier,
    threads,
)
from pymcboost.callbacks import TrainingLoss
from pymcboost.comm import ALONE, Alone
from pymcboost.data import Chunks, mapped
from pymcboost.training import calibration

N = 6000


def made(n=N, seed=0):
    """Columns of all kinds: many values, few, one, missing ones, mostly the same value, exclusive ones."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    X[:, 1], X[:, 2] = rng.integers(0, 4, n), 7
    X[:, 3] = np.where(rng.random(n) < 0.2, np.nan, X[:, 3])
    X[:, 4:7] = np.arange(3) == rng.integers(0, 12, n)[:, None]
    y = (X[:, 0] + X[:, 1] + 2 * X[:, 4] + rng.gumbel(size=n) > 1.5).astype(int) + (X[:, 7] > 1)
    return X, np.array(["low", "middle", "high"])[y], rng.random(n) * (rng.random(n) < 0.9)


def trees(**params):
    return VectorTreeBoostClassifier(**{"n_estimators": 4, "calibrate": None, "random_state": 0, **params})


def file_of(model):
    return model.model_.to_bytes()


def cut(at, *arrays):
    return list(zip(*(np.split(array, at) for array in arrays), strict=True))


@pytest.mark.parametrize("n", [200, N])
@pytest.mark.parametrize("weighted", [False, True])
def test_bytes_do_not_depend_on_blocks(n, weighted):
    X, y, weight = made(n)
    arrays = (X, y, weight)[: 2 + weighted]
    expected = file_of(trees().fit(*arrays))
    by_class = np.searchsorted(np.sort(y), np.unique(y))[1:]
    for at in ([], [1, 1, 60], [n - 1], range(50, n, 50), by_class, [0, n]):  # empty blocks and blocks of one row, too
        assert file_of(trees().fit(Chunks(cut(at, *arrays)))) == expected
    assert file_of(trees(n_jobs=2).fit(Chunks(lambda: iter(cut([7], *arrays))))) == expected


@pytest.mark.parametrize(
    "params",
    [
        {"calibrate": "temperature"},
        {"early_stopping": True, "n_iter_no_change": 2},
        {"n_estimators": "auto", "cv": 2, "n_iter_no_change": 1, "learning_rate": 1.0},
        {"class_weight": "balanced", "split_columns": 2},
        {"categorical_features": [1]},
        {"max_bins": 5},
        {"max_leaf_entries": 2, "split_columns": 1},
    ],
    ids=str,
)
def test_bytes_with_all_that_a_training_does(params):
    X, y, weight = made()
    assert file_of(trees(**params).fit(Chunks(cut([100], X, y, weight)))) == file_of(trees(**params).fit(X, y, weight))


@pytest.mark.parametrize("cls", [LogitBoostClassifier, ABCMartClassifier])
@pytest.mark.parametrize("n", [200, N])
def test_class_wise_trees(cls, n):
    X, y, weight = made(n)
    for more in ({}, {"subsample": 0.5, "max_features": 0.5, "class_weight": "balanced"}):
        params = {"n_estimators": 3, "random_state": 0, **more}
        expected = file_of(cls(**params).fit(X, y, weight))
        assert file_of(cls(**params).fit(Chunks(cut([100], X, y, weight)))) == expected


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"weak_learner": "tree", "max_leaf_nodes": 5},
        {"categorical_features": [1]},
        {"loss": "log"},
        {"weak_learner": "tree", "loss": "log", "class_weight": "balanced"},
        {"min_weight_fraction_leaf": 0.05, "max_bins": 20},
        {"early_stopping": True, "calibrate": "temperature"},
    ],
    ids=str,
)
def test_mcboost(params):
    params = {"n_estimators": 5, "random_state": 0, **params}
    for n in (200, N):
        X, y, weight = made(n)
        expected = file_of(MCBoostClassifier(**params).fit(X, y, weight))
        assert file_of(MCBoostClassifier(**params).fit(Chunks(cut([1, 100], X, y, weight)))) == expected


def parts_in_files(booster):
    """Arrays of a training with something for each row, by name, and whether they are in a file."""
    seen, todo, found = set(), [("", booster)], {}
    n = booster.data.n_rows
    while todo:
        name, what = todo.pop()
        if id(what) in seen:
            continue
        seen.add(id(what))
        if isinstance(what, np.ndarray):
            if what.size >= 3 * n and not name.endswith("scratch"):
                found[name] = isinstance(what, mapped.Mapped)
        elif isinstance(what, (list, tuple)):
            todo += [(f"{name}[{i}]", one) for i, one in enumerate(what)]
        elif hasattr(what, "__dict__") and type(what).__module__.startswith("pymcboost"):
            todo += [(f"{name}.{key}", one) for key, one in vars(what).items()]
    return found


@pytest.mark.parametrize("n_held", [0, 600])
def test_the_rows_of_the_training_loss_are_in_a_file(n_held):
    X, y, _ = made()

    class Tracker(TrainingLoss):  # is not copied
        pass

    tracker, curves, files = Tracker(), [], []

    def look(state):
        memory = tracker._validation.X
        while isinstance(memory, np.ndarray):
            memory = memory.base
        files.append(isinstance(memory, mmap.mmap))

    for given in ((X, y), (Chunks(cut([5], X, y)),)):
        model = trees(early_stopping=n_held > 0, validation_fraction=n_held / N or 0.5)
        model.fit(*given, callbacks=[tracker, SimpleNamespace(after_round=look)])
        curves.append(model.history_["train_log_loss"].tolist())
    assert curves[0] == curves[1]
    assert files == [False] * len(curves[0]) + [True] * len(curves[1])


@pytest.mark.parametrize("weak_learner", ["stump", "tree"])
def test_all_that_grows_with_rows_and_columns_is_in_files(weak_learner):
    X, y, _ = made(9000)
    seen = []

    class Look:
        def after_round(self, state):
            seen.append(parts_in_files(state.booster))

    chunks = Chunks(cut([5], X, y))
    MCBoostClassifier(n_estimators=2, weak_learner=weak_learner, random_state=0).fit(chunks, callbacks=[Look()])
    assert ".loss.gradient" in seen[1]
    assert len(seen[1]) >= 3
    assert all(seen[1].values()), seen[1]


def test_rows_with_any_number_of_labels():
    X, y, _ = made()
    labels = np.column_stack([y == "low", X[:, 0] > 0]).astype(int)
    model = trees(loss="logistic")
    assert file_of(model.fit(Chunks(cut([100, 3000], X, labels)))) == file_of(model.fit(X, labels))


LISTS = [tuple(np.flatnonzero(row).tolist()) for row in made(300)[0][:, 4:7] > 0]
INDICATOR = (made(300)[0][:, 4:7] > 0).astype(int)
LISTS100, INDICATOR100 = LISTS[:100], INDICATOR[:100]


@pytest.mark.parametrize(
    ("y", "parts"),
    [
        ([*LISTS[:-2], (0, 1), (1, 2)], None),
        ([(row, 2 + row) for row in INDICATOR[:, 1].tolist()], None),  # as many for each row, but no indicator
        ([{"abc"[label] for label in row} for row in LISTS], None),
        (INDICATOR, [scipy.sparse.csr_array(INDICATOR[:100]), INDICATOR[100:]]),
        (INDICATOR, [INDICATOR[:100], scipy.sparse.csc_matrix(INDICATOR[100:])]),
    ],
    ids=["lists", "pairs", "sets", "sparse", "dense-sparse"],
)
def test_forms_of_several_labels(y, parts):
    X = made(300)[0]
    first, second = parts or (y[:100], y[100:])
    blocks = [(X[:0], []), (X[:100], first), (X[100:], second)]
    assert file_of(trees(loss="logistic").fit(Chunks(blocks))) == file_of(trees(loss="logistic").fit(X, y))


def test_a_column_of_labels():
    X, y, _ = made(300)
    expected = file_of(trees().fit(X, y))
    assert file_of(trees().fit(Chunks([(X[:100], y[:100, None]), (X[100:], y[100:])]))) == expected
    assert file_of(trees().fit(Chunks([(X[:100], y[:100]), (X[100:], y[100:].astype(object)[:, None])]))) == expected


def test_integers_of_several_types():
    X, labels = made(300)[0], 2**53 + np.arange(300) % 4
    parts = [(X[:100], labels[:100]), (X[100:], labels[100:].astype(np.uint64))]
    model = trees().fit(Chunks(parts))
    assert model.classes_.tolist() == [2**53 + k for k in range(4)]
    assert file_of(model) == file_of(trees().fit(X, labels))
    parts[1][1][0] = 2**63
    with pytest.raises(ValueError, match=r"y has the label 9223372036854775808, and .* must lie in \[-2\^63"):
        trees().fit(Chunks(parts))


def test_warm_start():
    X, y, _ = made()
    model, other = trees(n_estimators=2, warm_start=True), trees(n_estimators=2, warm_start=True)
    for _ in range(2):
        assert file_of(model.fit(Chunks(cut([9], X, y)))) == file_of(other.fit(X, y))
        model.n_estimators = other.n_estimators = 4


def stamps(n=600):
    """A column of time stamps that float32 merges, beside one of noise."""
    X = np.column_stack([np.random.default_rng(0).normal(size=n), 1.7e9 + np.arange(n) / 10])
    return X, np.arange(n) // 100 % 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_values_that_have_merged_are_told(dtype):
    X, y = stamps()
    X[:, 1] = 1.7e9 + 40 * np.arange(len(X))
    X = X.astype(dtype)
    with pytest.warns(UserWarning, match=r"Column 1 \(from 0\): \d+ distinct values of a sample are neighbours"):
        trees().fit(Chunks(cut([300], X, y)))


def test_no_values_merge(recwarn):
    X, y = stamps()
    X[:, 1] -= 1.7e9
    for given in (X, X.astype(np.float32), np.arange(1200).reshape(600, 2)):
        trees().fit(Chunks(cut([300], given, y)))
    assert not recwarn


def test_sources(tmp_path):
    """Memory maps, frames, Parquet by row groups, CSV in parts."""
    X, y, _ = made(300)
    names = [f"c{j}" for j in range(8)]
    np.save(tmp_path / "X.npy", X)
    assert file_of(trees().fit(Chunks([(np.load(tmp_path / "X.npy", mmap_mode="r"), y)]))) == file_of(trees().fit(X, y))
    table = pd.DataFrame(X, columns=names)
    expected = file_of(trees().fit(table, y))
    frames = cut([100], X, y)
    frames = [(pd.DataFrame(part, columns=names)[names[:: -1 if i else 1]], y) for i, (part, y) in enumerate(frames)]
    assert file_of(trees().fit(Chunks(frames))) == expected  # by name, not by place
    numbered = pd.DataFrame(X).astype({0: "Float64", 1: "Int64"})
    numbered.loc[[3, 200], 0] = pd.NA
    parts = [(numbered[:100], y[:100]), (numbered[100:], y[100:])]
    assert file_of(trees().fit(Chunks(parts))) == file_of(trees().fit(numbered, y))
    table.assign(label=y).to_csv(tmp_path / "rows.csv", index=False)

    def parts():
        for part in pd.read_csv(tmp_path / "rows.csv", chunksize=70):
            yield part.drop(columns="label"), part["label"]

    assert file_of(trees().fit(Chunks(parts))) == expected
    pq = pytest.importorskip("pyarrow.parquet")
    table.assign(label=y).to_parquet(tmp_path / "rows.parquet", row_group_size=70)

    def groups():
        file = pq.ParquetFile(tmp_path / "rows.parquet")
        for group in range(file.num_row_groups):
            part = file.read_row_group(group)
            yield part.drop_columns("label"), part["label"]

    model = trees().fit(Chunks(groups))
    assert file_of(model) == expected
    assert model.feature_names_in_.tolist() == names


def changing():
    """Blocks that differ at the second reading in one number."""
    calls = []

    def blocks():
        calls.append(0)
        X, y, _ = made(100)
        X[50, 0] += len(calls)
        return [(X, y)]

    return blocks


X100, Y100, W100 = made(100)
INFINITE = X100.copy()
INFINITE[3, 2] = 1e39
ONCE = iter([(X100, Y100)])
FRAME = pd.DataFrame(X100[:, :2], columns=["a", "b"])


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ([], "the blocks have no rows"),
        ([(X100[:0], Y100[:0])], "the blocks have no rows"),
        ([X100], "block 0: it must be (X, y) or (X, y, sample_weight), not ndarray"),
        ([(X100, Y100), (X100[:, :3], Y100)], "block 1: X has 3 columns, the first block has 8"),
        ([(FRAME, Y100), (FRAME.rename(columns={"b": "d"}), Y100)], "block 1: the columns of X are not those"),
        ([(FRAME, Y100), (X100[:, :2], Y100)], "block 1: X is a data frame in some blocks and an array in others"),
        ([(FRAME.astype({"a": "category"}), Y100)], "block 0: X has columns of categories"),
        ([(pd.DataFrame(X100.round()).astype({0: "category"}), Y100)], "block 0: X has columns of categories"),
        ([(pd.DataFrame({0: X100[:, 0], 1: "blue"}), Y100)], "block 0: X has columns of categories or text; give"),
        ([(FRAME.assign(b="blue"), Y100)], "block 0: X has columns of categories or text; give"),
        ([(X100, Y100), (INFINITE, Y100)], "block 1: row 103 (from 0, of all blocks), column 2: the value is infinite"),
        ([(X100, Y100[1:])], "block 0: X has 100 rows, y and the weights have the shapes [(99,)]"),
        ([(X100, Y100, W100), (X100, Y100)], "block 1: it has no sample_weight, the first block has"),
        ([(X100, Y100), (X100, X100[:, 1])], "block 1: it has labels that are numbers, the first"),
        ([(X100, W100 > 0), (X100, (W100 > 0).astype(object)), (X100, Y100)], "block 2: it has labels of text"),
        ([(X100, LISTS100), (X100, INDICATOR100)], "block 1: it has an indicator of 3 columns, the"),
        ([(X100, INDICATOR100), (X100, LISTS100)], "block 1: it has lists of labels, the first block has"),
        ([(X100, INDICATOR100), (X100, INDICATOR100[:, :2])], "block 1: it has an indicator of 2 columns, the first"),
        ([(X100, scipy.sparse.csr_array(INDICATOR))], "block 0: X has 100 rows, y and the weights have"),
        ([(X100, np.ma.masked_array([1] * 100, [True] * 100))], "block 0: y holds NaN"),
        ([(X100, X100[:, 3])], "block 0: y holds NaN"),
        ([(X100[0], Y100)], "block 0: X must be two-dimensional, but has shape (8,)"),
        ([(scipy.sparse.csr_array(FRAME), Y100)], "block 0: X is sparse; give X.toarray()"),
        (changing(), "the second reading gave other rows than the first (100 rows after 100)"),
        (lambda: ONCE, "the second reading gave other rows than the first (0 rows after 100)"),
    ],
)
def test_wrong_blocks(blocks, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        trees().fit(Chunks(blocks))


def test_wrong_use(tmp_path):
    for source, words in ((iter([]), "an iterator can be read once"), (3, "must be an iterable or a function")):
        with pytest.raises(TypeError, match=words):
            Chunks(source)
    with pytest.raises(NotADirectoryError, match="make it, or give another one"):
        Chunks([], tmp_path / "none")
    chunks = Chunks([(X100, Y100)])
    with pytest.raises(TypeError, match="SAMMEClassifier takes no Chunks; vector trees, class-wise trees and MCBoost"):
        SAMMEClassifier().fit(chunks)
    with pytest.raises(TypeError, match="Chunks: the function must return or yield blocks, not NoneType"):
        trees().fit(Chunks(lambda: None))
    for more in ({"y": Y100}, {"sample_weight": W100}):
        with pytest.raises(TypeError, match="Chunks have labels and weights in their blocks"):
            trees().fit(chunks, **more)
    with pytest.raises(ValueError, match="requires y"):
        trees().fit(X100)


def test_chunks_are_for_fit_alone():
    X, y, _ = made(200)
    chunks, model = Chunks([(X, y)]), trees(n_estimators=1).fit(X, y)
    for call, where in (
        (lambda: model.predict(chunks), ""),
        (lambda: model.calibrate_on(chunks, y), ""),
        (lambda: model.refit_leaves(chunks, y), ""),
        (lambda: trees().fit(X, y, X_val=chunks), "X_val: "),
        (lambda: trees().fit(X, y, validation_sets={"more": (chunks, y)}), r"validation_sets\['more'\]: "),
    ):
        with pytest.raises(TypeError, match=f"^{where}Chunks are for the X of fit alone; give arrays here"):
            call()


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "reserve", full)
    with pytest.raises(OSError, match=r"a file of 3\.1 KiB for .* cannot be written .*give Chunks another folder"):
        trees().fit(Chunks([(X100, Y100)], tmp_path))


@pytest.mark.parametrize("comm", [None, ALONE, Alone()])
@pytest.mark.parametrize("labels", [False, True])
def test_full_disk_after_the_last_round(labels, comm, monkeypatch):
    """The folds have no room then: the model stays as it is."""
    X, y, _ = made(300)

    def fill(state):
        if state.n_rounds == 4:
            monkeypatch.setattr(mapped, "reserve", full)

    params, more, what = {}, {"calibrate": "temperature"}, "the probabilities are not calibrated"
    if labels:
        params, more, y = {"loss": "logistic"}, {"decision_threshold": "f1"}, np.column_stack([y == "low", X[:, 0] > 0])
        what = "all labels keep the threshold 0.5"
    with pytest.warns(UserWarning, match=f"{what}: .*give Chunks another folder"):
        model = trees(**params, **more).fit(Chunks([(X, y)]), callbacks=[SimpleNamespace(after_round=fill)], comm=comm)
    assert model.model_.temperature is None
    assert np.array_equal(model.predict_proba(X), trees(**params).fit(X, y).predict_proba(X))


def test_full_disk_where_folds_choose(monkeypatch):
    monkeypatch.setattr(calibration, "splits", lambda *_: mapped.mapped(3, np.float64, "."))
    monkeypatch.setattr(mapped, "reserve", full)
    dataset = SimpleNamespace(comm=ALONE)
    assert calibration.choose(SimpleNamespace(cv=5), dataset, {"loss": ("log",)}, 0, None) == calibration.Choice()


def test_files_have_no_names(tmp_path):
    """Nothing is left behind, even by a process that is killed: there is never anything to be seen."""
    seen = []

    class Look:
        def after_round(self, state):
            data = state.booster.data
            kinds = [type(array) for array in (data.X, data.columns.codes, state.booster.loss.F)]
            seen.append((os.listdir(tmp_path), {kind.__name__ for kind in kinds}))

    X, y, _ = made()
    trees().fit(Chunks(cut([5], X, y), tmp_path), callbacks=[Look()])
    assert seen == [([], {"Mapped"})] * 4


def test_blocks_go():
    """Labels that are a column of their block do not keep it."""
    tables, alive = [], []

    def blocks():
        for part in range(6):
            X, y, _ = made(100, part)
            table = np.column_stack([X, y == "low"])
            tables.append(weakref.ref(table))
            alive.append(sum(table() is not None for table in tables))
            yield table[:, :-1], table[:, -1]

    Chunks(blocks).gathered()
    assert len(alive) == 12
    assert max(alive) == 2


def test_room_without_fallocate(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    monkeypatch.setattr(mapped, "PIECE", 7)
    array = mapped.mapped((3, 5), np.int32, tmp_path)
    assert array.flags.writeable
    assert not array.any()
    array[:] = 3
    assert array.sum() == 45


def test_files_count_as_free_memory_of_a_control_group(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("900\n")
    (tmp_path / "memory.stat").write_text("anon 200\nfile 600\nshmem 50\n")
    monkeypatch.setattr(threads, "_read", lambda path: (tmp_path / path.rpartition("/")[2]).read_text())
    assert threads._read_memory() == 1000 - 900 + 600 - 50


def test_the_limit_of_a_process_is_not_shared(monkeypatch):
    monkeypatch.setattr(threads, "_machine_memory", lambda: [3000, 2500])
    shared = "625 bytes are free for each of the 4 workers on this machine"
    for own, room, said in ((700, 625, shared), (600, 600, "600 bytes are free")):
        monkeypatch.setattr(threads, "_address_space", lambda own=own: [own])
        assert threads.share_of_memory(threads._read_memory(), 4) == (room, said)
    monkeypatch.setattr(threads, "_address_space", list)
    assert threads.share_of_memory(2500, 4)[0] == 625
