"""Rows in blocks: the bytes of the fit in memory, whatever the blocks; bins of a sample; wrong blocks."""

import re
import weakref

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from pymcboost import (
    ABCMartClassifier,
    Dataset,
    GradBoostClassifier,
    HingeBoostOCClassifier,
    LogitBoostClassifier,
    MCBoostClassifier,
    VectorTreeBoostClassifier,
    threads,
)
from pymcboost.data import blocks

N = 6000
from_blocks = Dataset.from_blocks


def made(n=N, seed=0):
    """Columns of all kinds: many values, few, one, missing ones, mostly the same value, exclusive ones."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    X[:, 1] = rng.integers(0, 4, n)
    X[:, 2] = 7
    X[:, 3] = np.where(rng.random(n) < 0.2, np.nan, X[:, 3])
    X[:, 4:7] = np.arange(3) == rng.integers(0, 12, n)[:, None]
    y = (X[:, 0] + X[:, 1] + 2 * X[:, 4] + rng.gumbel(size=n) > 1.5).astype(int) + (X[:, 7] > 1)
    return X, np.array(["low", "middle", "high"])[y], rng.random(n) * (rng.random(n) < 0.9)


def trees(**params):
    return VectorTreeBoostClassifier(
        **{"n_estimators": 4, "calibrate": None, "random_state": 0, **params}
    )


def file_of(model):
    return model.model_.to_bytes()


def cut(at, *arrays):
    return list(zip(*(np.split(array, at) for array in arrays), strict=True))


def of_dataset(params):
    """Parameters that belong to the Dataset as well."""
    return {name: params[name] for name in ("categorical_features", "max_bins") if name in params}


@pytest.mark.parametrize("n", [200, N])
@pytest.mark.parametrize("weighted", [False, True])
def test_bytes_do_not_depend_on_blocks(n, weighted):
    X, y, weight = made(n)
    arrays = (X, y, weight)[: 2 + weighted]
    expected = file_of(trees().fit(*arrays))
    by_class = np.searchsorted(np.sort(y), np.unique(y))[1:]
    for at in (
        [],
        [1, 1, 60],
        [n - 1],
        range(50, n, 50),
        by_class,
        [0, n],
    ):  # empty blocks and blocks of one row, too
        assert file_of(trees().fit(from_blocks(cut(at, *arrays)))) == expected
    assert file_of(trees(n_jobs=2).fit(from_blocks(lambda: iter(cut([7], *arrays))))) == expected


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
    data = from_blocks(cut([100], X, y, weight), **of_dataset(params))
    assert file_of(trees(**params).fit(data)) == file_of(trees(**params).fit(X, y, weight))


@pytest.mark.parametrize("cls", [LogitBoostClassifier, ABCMartClassifier])
@pytest.mark.parametrize("n", [200, N])
def test_class_wise_trees(cls, n):
    X, y, weight = made(n)
    for options in ({}, {"subsample": 0.5, "max_features": 0.5, "class_weight": "balanced"}):
        params = {"n_estimators": 3, "random_state": 0, **options}
        expected = file_of(cls(**params).fit(X, y, weight))
        assert file_of(cls(**params).fit(from_blocks(cut([100], X, y, weight)))) == expected


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
        data = from_blocks(cut([1, 100], X, y, weight), **of_dataset(params))
        assert file_of(MCBoostClassifier(**params).fit(data)) == expected


def test_rows_with_any_number_of_labels():
    X, y, _ = made()
    labels = np.column_stack([y == "low", X[:, 0] > 0]).astype(int)
    model = trees(loss="logistic")
    assert file_of(model.fit(from_blocks(cut([100, 3000], X, labels)))) == file_of(
        model.fit(X, labels)
    )


LISTS = [tuple(np.flatnonzero(row).tolist()) for row in made(300)[0][:, 4:7] > 0]
INDICATOR = (made(300)[0][:, 4:7] > 0).astype(int)
LISTS100, INDICATOR100 = LISTS[:100], INDICATOR[:100]


@pytest.mark.parametrize(
    ("y", "parts"),
    [
        ([*LISTS[:-2], (0, 1), (1, 2)], None),
        (
            [(row, 2 + row) for row in INDICATOR[:, 1].tolist()],
            None,
        ),  # as many for each row, but no indicator
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
    assert file_of(trees(loss="logistic").fit(from_blocks(blocks))) == file_of(
        trees(loss="logistic").fit(X, y)
    )


def test_a_column_of_labels():
    X, y, _ = made(300)
    expected = file_of(trees().fit(X, y))
    assert (
        file_of(trees().fit(from_blocks([(X[:100], y[:100, None]), (X[100:], y[100:])])))
        == expected
    )
    objects = y[100:].astype(object)[:, None]
    assert file_of(trees().fit(from_blocks([(X[:100], y[:100]), (X[100:], objects)]))) == expected


def test_integers_of_several_types():
    X = made(300)[0]
    labels = 2**53 + np.arange(300) % 4
    parts = [(X[:100], labels[:100]), (X[100:], labels[100:].astype(np.uint64))]
    model = trees().fit(from_blocks(parts))
    assert model.classes_.tolist() == [2**53 + k for k in range(4)]
    assert file_of(model) == file_of(trees().fit(X, labels))
    parts[1][1][0] = 2**63
    with pytest.raises(
        ValueError, match=r"y has the label 9223372036854775808, but .* must lie in \[-2\^63"
    ):
        trees().fit(from_blocks(parts))


def test_warm_start():
    X, y, _ = made()
    model, other = trees(n_estimators=2, warm_start=True), trees(n_estimators=2, warm_start=True)
    for _ in range(2):
        assert file_of(model.fit(from_blocks(cut([9], X, y)))) == file_of(other.fit(X, y))
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
    with pytest.warns(
        UserWarning, match=r"Column 1 \(from 0\): \d+ distinct values of a sample are neighbours"
    ):
        trees().fit(from_blocks(cut([300], X, y)))


def test_no_values_merge(recwarn):
    X, y = stamps()
    X[:, 1] -= 1.7e9
    for given in (X, X.astype(np.float32), np.arange(1200).reshape(600, 2)):
        trees().fit(from_blocks(cut([300], given, y)))
    assert not recwarn


def test_sources(tmp_path):
    """Memory maps, frames, Parquet by row groups, CSV in parts."""
    X, y, _ = made(300)
    names = [f"c{j}" for j in range(8)]
    np.save(tmp_path / "X.npy", X)
    on_disk = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert file_of(trees().fit(from_blocks([(on_disk, y)]))) == file_of(trees().fit(X, y))
    table = pd.DataFrame(X, columns=names)
    expected = file_of(trees().fit(table, y))
    frames = cut([100], X, y)
    frames = [
        (pd.DataFrame(part, columns=names)[names[:: -1 if i else 1]], y)
        for i, (part, y) in enumerate(frames)
    ]
    assert file_of(trees().fit(from_blocks(frames))) == expected  # by name, not by place
    numbered = pd.DataFrame(X).astype({0: "Float64", 1: "Int64"})
    numbered.loc[[3, 200], 0] = pd.NA
    parts = [(numbered[:100], y[:100]), (numbered[100:], y[100:])]
    assert file_of(trees().fit(from_blocks(parts))) == file_of(trees().fit(numbered, y))
    table.assign(label=y).to_csv(tmp_path / "rows.csv", index=False)

    def parts():
        for part in pd.read_csv(tmp_path / "rows.csv", chunksize=70):
            yield part.drop(columns="label"), part["label"]

    assert file_of(trees().fit(from_blocks(parts))) == expected
    pq = pytest.importorskip("pyarrow.parquet")
    table.assign(label=y).to_parquet(tmp_path / "rows.parquet", row_group_size=70)

    def groups():
        file = pq.ParquetFile(tmp_path / "rows.parquet")
        for group in range(file.num_row_groups):
            part = file.read_row_group(group)
            yield part.drop_columns("label"), part["label"]

    model = trees().fit(from_blocks(groups))
    assert file_of(model) == expected
    assert model.feature_names_in_.tolist() == names


X100, Y100, W100 = made(100)
S100 = np.zeros((100, 3))
INFINITE = X100.copy()
INFINITE[3, 2] = 1e39
FRAME = pd.DataFrame(X100[:, :2], columns=["a", "b"])


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ([], "the blocks have no rows"),
        ([(X100[:0], Y100[:0])], "the blocks have no rows"),
        (
            [X100],
            "block 0: it must be (X, y), (X, y, sample_weight) or (X, y, sample_weight, init_score), not ndarray",
        ),
        (
            [(X100, Y100, None, S100[1:])],
            "block 0: X has 100 rows, but init_score has shape (99, 3)",
        ),
        (
            [(X100, Y100, None, S100), (X100, Y100)],
            "block 1: it has no init_score, but the first block has an init_score of 3",
        ),
        (
            [(X100, Y100, None, S100), (X100, Y100, None, S100[:, :2])],
            "block 1: it has an init_score of 2 numbers a row",
        ),
        (
            [(X100, Y100, None, S100[:, :2])],
            "init_score has shape (100, 2); give one score per row and class",
        ),
        (
            [(X100, Y100), (X100[:, :3], Y100)],
            "block 1: X has 3 columns, but the first block has 8",
        ),
        (
            [(FRAME, Y100), (FRAME.rename(columns={"b": "d"}), Y100)],
            "block 1: the columns of X are not those",
        ),
        (
            [(FRAME, Y100), (X100[:, :2], Y100)],
            "block 1: X is a data frame in some blocks and an array in others",
        ),
        ([(FRAME.astype({"a": "category"}), Y100)], "block 0: X has columns of categories"),
        (
            [(pd.DataFrame(X100.round()).astype({0: "category"}), Y100)],
            "block 0: X has columns of categories",
        ),
        (
            [(pd.DataFrame({0: X100[:, 0], 1: "blue"}), Y100)],
            "block 0: X has columns of categories or text; replace",
        ),
        ([(FRAME.assign(b="blue"), Y100)], "block 0: X has columns of categories or text; replace"),
        (
            [(X100, Y100), (INFINITE, Y100)],
            "block 1: row 103 (from 0, over all blocks), column 2: the value is infinite",
        ),
        ([(X100, Y100[1:])], "block 0: X has 100 rows, but y and the weights have shapes [(99,)]"),
        (
            [(X100, Y100, W100), (X100, Y100)],
            "block 1: it has no sample_weight, but the first block has",
        ),
        (
            [(X100, Y100), (X100, X100[:, 1])],
            "block 1: it has labels that are numbers, but the first",
        ),
        (
            [(X100, W100 > 0), (X100, (W100 > 0).astype(object)), (X100, Y100)],
            "block 2: it has labels of text",
        ),
        (
            [(X100, LISTS100), (X100, INDICATOR100)],
            "block 1: it has an indicator of 3 columns, but the",
        ),
        (
            [(X100, INDICATOR100), (X100, LISTS100)],
            "block 1: it has lists of labels, but the first block has",
        ),
        (
            [(X100, INDICATOR100), (X100, INDICATOR100[:, :2])],
            "block 1: it has an indicator of 2 columns, but the first",
        ),
        (
            [(X100, scipy.sparse.csr_array(INDICATOR))],
            "block 0: X has 100 rows, but y and the weights have",
        ),
        ([(X100, np.ma.masked_array([1] * 100, [True] * 100))], "block 0: y holds NaN"),
        ([(X100, X100[:, 3])], "block 0: y holds NaN"),
        ([(X100[0], Y100)], "block 0: X must be two-dimensional, but has shape (8,)"),
        ([(scipy.sparse.csr_array(FRAME), Y100)], "block 0: X is sparse; give X.toarray()"),
    ],
)
def test_wrong_blocks(blocks, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        trees().fit(from_blocks(blocks))


@pytest.mark.parametrize("n", [200, N])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_have_scores_to_begin_with(n, weighted):
    X, y, weight = made(n)
    scores = np.random.default_rng(1).normal(size=(n, 3)).astype(np.float32)
    weight = weight if weighted else np.ones(n)
    expected = file_of(trees().fit(X, y, weight, init_score=scores))
    parts = [
        (*part[:2], part[2] if weighted else None, part[3])
        for part in cut([10, 10, 150], X, y, weight, scores)
    ]
    data = from_blocks(parts)
    assert file_of(trees().fit(data)) == expected
    assert file_of(trees().fit(X, y, weight)) != expected
    with pytest.raises(TypeError, match="GradBoostClassifier does not support init_score"):
        GradBoostClassifier(n_estimators=1).fit(data)


def test_another_reading_gives_the_same_scores_to_begin_with(monkeypatch):
    monkeypatch.setattr(blocks, "FEWEST_SAMPLED", 50)
    monkeypatch.setattr(blocks, "MOST_NUMBERS", 50)
    readings = []

    def source():
        readings.append(None)
        return [(X100, Y100, None, S100 + len(readings))]

    with pytest.raises(ValueError, match="the blocks changed between two passes"):
        from_blocks(source)


def test_dask_takes_no_scores_to_begin_with():
    pytest.importorskip("dask")
    from pymcboost import dask

    with pytest.raises(TypeError, match="init_score"):
        dask.DaskVectorTreeBoostClassifier().fit(X100, Y100, init_score=S100)


def test_wrong_use():
    for source, words in (
        (iter([]), "an iterator can be read only once"),
        (3, "must be an iterable or a function"),
    ):
        with pytest.raises(TypeError, match=words):
            from_blocks(source)
    with pytest.raises(TypeError, match="the function must return or yield blocks, not NoneType"):
        from_blocks(lambda: None)
    with pytest.raises(ValueError, match="requires y"):
        trees().fit(X100)


def test_blocks_go():
    """Labels that are a column of their block do not keep it."""
    tables = []
    alive = []

    def source():
        for part in range(6):
            X, y, _ = made(100, part)
            table = np.column_stack([X, y == "low"])
            tables.append(weakref.ref(table))
            alive.append(sum(table() is not None for table in tables))
            yield table[:, :-1], table[:, -1]

    from_blocks(source)
    assert len(alive) == 6
    assert max(alive) == 2


def test_files_count_as_free_memory_of_a_control_group(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("900\n")
    (tmp_path / "memory.stat").write_text("anon 200\nfile 600\nshmem 50\n")
    monkeypatch.setattr(
        threads, "_read", lambda path: (tmp_path / path.rpartition("/")[2]).read_text()
    )
    assert threads._read_memory() == 1000 - 900 + 600 - 50


def test_the_limit_of_a_process_is_not_shared(monkeypatch):
    monkeypatch.setattr(threads, "_machine_memory", lambda: [3000, 2500])
    shared = "625 bytes are free for each of the 4 workers on this machine"
    for own, room, said in ((700, 625, shared), (600, 600, "600 bytes are free")):
        monkeypatch.setattr(threads, "_address_space", lambda own=own: [own])
        assert threads.share_of_memory(threads._read_memory(), 4) == (room, said)
    monkeypatch.setattr(threads, "_address_space", list)
    assert threads.share_of_memory(2500, 4)[0] == 625


# -- more rows than bins come from -------------------------------------------------------------------------------------


@pytest.fixture
def few_sampled(monkeypatch):
    monkeypatch.setattr(blocks, "FEWEST_SAMPLED", 500)
    monkeypatch.setattr(blocks, "MOST_SAMPLED", 1000)


@pytest.mark.usefixtures("few_sampled")
def test_codes_are_those_of_the_values():
    X, y, weight = made()
    X[:, 1] += 1
    data = from_blocks(cut([7, 100, 4000], X, y, weight), categorical_features=[1])._set
    bins = data.bins._bins
    shared = data.X
    assert shared.shape == X.shape
    values = X.astype(np.float32)
    for f, cuts in enumerate(bins.cuts):
        column = values[:, f]
        expected = np.where(np.isnan(column), bins.n_bins[f], np.searchsorted(cuts, column))
        np.testing.assert_array_equal(bins.codes[f], expected)
        count = np.bincount(expected, minlength=bins.n_bins[f] + 1)
        assert (bins.mode[f], bins.mode_rows[f]) == (count.argmax(), count.max())
        assert bins.missing[f] == np.isnan(column).sum()
        decoded = shared[:50][:, f]
        there = ~np.isnan(column[:50])
        np.testing.assert_array_equal(np.searchsorted(cuts, decoded[there]), expected[:50][there])
    assert bins.levels[1].tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(np.isnan(shared[5:9]), np.isnan(values[5:9]))


@pytest.mark.usefixtures("few_sampled")
def test_a_sample_does_not_depend_on_blocks():
    X, y, weight = made()
    first = file_of(trees().fit(from_blocks(cut([3000], X, y, weight))))
    assert first != file_of(trees().fit(X, y, weight))
    for at in ([], range(100, N, 100)):
        assert file_of(trees().fit(from_blocks(cut(at, X, y, weight)))) == first


@pytest.mark.usefixtures("few_sampled")
@pytest.mark.parametrize(
    "cls", [VectorTreeBoostClassifier, MCBoostClassifier, ABCMartClassifier, GradBoostClassifier]
)
def test_errors_with_bins_of_a_sample(cls):
    X, y, weight = made()
    model = cls(n_estimators=20, random_state=0)
    in_blocks = model.fit(from_blocks(cut([3000], X, y, weight))).score(X, y)
    assert in_blocks == pytest.approx(model.fit(X, y, weight).score(X, y), abs=0.02)


@pytest.mark.usefixtures("few_sampled")
@pytest.mark.parametrize(
    "params",
    [
        {"calibrate": "temperature"},
        {"early_stopping": True},
        {"n_estimators": "auto", "cv": 2, "n_iter_no_change": 2, "learning_rate": 1.0},
        {"class_weight": "balanced"},
    ],
    ids=str,
)
def test_rows_held_out_are_known_by_their_bins(params):
    X, y, weight = made()
    params = {"n_estimators": 20, "random_state": 0, **params}
    model = trees(**params).fit(from_blocks(cut([3000], X, y, weight)))
    usual = trees(**params).fit(X, y, weight)
    assert model.score(X, y) == pytest.approx(usual.score(X, y), abs=0.03)


@pytest.mark.usefixtures("few_sampled")
def test_small_subsets_of_coded_rows():
    X, y, _ = made()
    data = from_blocks(cut([3000], X, y))
    for cls in (VectorTreeBoostClassifier, MCBoostClassifier):
        model = cls(n_estimators=10, random_state=0).fit(data.subset(slice(0, 300)))
        alone = cls(n_estimators=10, random_state=0).fit(X[:300], y[:300])
        assert model.score(X, y) == pytest.approx(alone.score(X, y), abs=0.05)


@pytest.mark.usefixtures("few_sampled")
def test_going_on_with_the_same_bins():
    X, y, _ = made()
    data = from_blocks(cut([3000], X, y))
    for cls in (VectorTreeBoostClassifier, MCBoostClassifier):
        params = {"random_state": 0, "calibrate": None}
        model = (
            cls(n_estimators=3, warm_start=True, **params)
            .fit(data)
            .set_params(n_estimators=6)
            .fit(data)
        )
        assert file_of(model) == file_of(cls(n_estimators=6, **params).fit(data))
        with pytest.raises(
            ValueError, match="is not a bin boundary of this Dataset; .* give arrays"
        ):
            cls(n_estimators=3, **params).fit(
                data, init_model=cls(n_estimators=3, **params).fit(X, y)
            )


@pytest.mark.usefixtures("few_sampled")
def test_values_that_are_not_kept():
    X, y, _ = made()
    X[:, 3] = 0
    data = from_blocks(cut([3000], X, y))
    with pytest.raises(
        TypeError,
        match="HingeBoostOCClassifier needs feature values, but a Dataset of blocks keeps",
    ):
        HingeBoostOCClassifier().fit(data)
    with pytest.raises(TypeError, match="keeps no feature values, so it cannot be predicted"):
        trees().fit(data).predict(data)


@pytest.mark.usefixtures("few_sampled")
def test_more_codes_than_memory(monkeypatch):
    X, y, _ = made()
    monkeypatch.setattr(blocks, "available_memory", lambda: 100_000)
    with pytest.raises(
        MemoryError, match=r"the bins of 6000 rows and 8 features take about 140\.6 KiB"
    ):
        from_blocks(cut([3000], X, y))


@pytest.mark.usefixtures("few_sampled")
def test_a_source_that_changes_after_the_first_reading():
    X, y, _ = made()
    calls = []

    def source():
        calls.append(1)
        return cut([3000], X + len(calls), y)

    with pytest.raises(ValueError, match=r"changed between two passes \(6000 rows after 6000\)"):
        from_blocks(source)
