"""CSV and Parquet files that do not fit into the free memory."""

import gzip

import numpy as np
import pytest

from pymcboost.data import tables

pandas = pytest.importorskip("pandas")
N_ROWS = 45_000
N_FEATURES = 10


@pytest.fixture(scope="module")
def frame():
    X = np.random.default_rng(0).normal(size=(N_ROWS, N_FEATURES)).round(4)
    return pandas.DataFrame(X, columns=[f"x{j}" for j in range(N_FEATURES)]).assign(
        kind=np.arange(N_ROWS) % 3
    )


@pytest.fixture
def free(monkeypatch):
    def set_free(n_bytes):
        monkeypatch.setattr(tables, "available_memory", lambda: n_bytes)

    return set_free


def read(path, kind="csv"):
    return tables.read_table(str(path), kind, lambda head: (head[:-1], head[-1]))


def refused(path, kind="csv"):
    """What the message says that the file takes, in MiB."""
    with pytest.raises(
        tables.TableMemoryError, match=r"takes at least [\d.]+ MiB .* are free. Give fewer"
    ) as caught:
        read(path, kind)
    assert isinstance(caught.value, MemoryError) and str(caught.value).startswith(f"{path}: ")
    return float(str(caught.value).split("at least ")[1].split()[0])


def test_a_csv_file_is_compared_with_the_free_memory(frame, free, tmp_path):
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    needed = path.stat().st_size + tables.MEMORY_A_VALUE * frame.size
    free(int(needed * 1.01))
    assert read(path).X.shape == (N_ROWS, N_FEATURES)
    free(int(needed * 0.99))
    assert refused(path) == pytest.approx(needed / 2**20, rel=0.02)
    free(None)
    assert len(read(path).y) == N_ROWS


def test_a_large_csv_file_is_refused_after_its_first_part(frame, free, tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    seen = []
    check_part = tables._Room.check_part
    monkeypatch.setattr(
        tables._Room, "check_part", lambda *args: (seen.append(args[2]), check_part(*args))
    )
    needed = path.stat().st_size + tables.MEMORY_A_VALUE * frame.size
    free(needed // 2)
    assert refused(path) == pytest.approx(needed / 2**20, rel=0.02)
    assert tables.LEAST_SEEN <= seen[-1] < 1.5 * tables.LEAST_SEEN < path.stat().st_size / 2


def test_an_archive_is_refused_as_soon_as_what_was_read_does_not_fit(frame, free, tmp_path):
    path = tmp_path / "rows.csv.gz"
    frame.to_csv(path, index=False, compression={"method": "gzip", "compresslevel": 1})
    needed = len(gzip.decompress(path.read_bytes())) + tables.MEMORY_A_VALUE * frame.size
    free(int(needed * 1.01))
    assert len(read(path).y) == N_ROWS
    free(needed // 2)
    assert refused(path) == pytest.approx(needed / 2 / 2**20, rel=0.1)


@pytest.mark.parametrize("kind", ["float64", "float32", "int8"])
def test_a_parquet_file_is_compared_with_the_free_memory(frame, free, tmp_path, kind):
    pytest.importorskip("pyarrow")
    path = tmp_path / "rows.parquet"
    frame.astype(kind).to_parquet(path)
    width = 2 * np.dtype(kind).itemsize + 5
    needed = path.stat().st_size + width * frame.size
    free(int(needed * 1.01))
    assert read(path, "parquet").X.shape == (N_ROWS, N_FEATURES)
    free(int(needed * 0.99))
    assert refused(path, "parquet") == pytest.approx(needed / 2**20, abs=0.06)


def test_a_parquet_file_larger_than_the_free_memory_is_not_read(free, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    path = tmp_path / "rows.parquet"
    path.write_bytes(bytes(1 << 22))
    free(1 << 21)
    monkeypatch.setattr(tables, "PIECE", None)  # fails if anything is read
    assert refused(path, "parquet") == 4.0


def test_a_packed_parquet_file_is_read_as_far_as_it_fits(free, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    path = tmp_path / "rows.parquet.gz"
    path.write_bytes(gzip.compress(bytes(1 << 23)))
    monkeypatch.setattr(tables, "PIECE", 1 << 20)
    free(1 << 22)
    assert refused(path, "parquet") == 5.0
