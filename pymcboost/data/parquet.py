"""Parquet files: numbers as features, one column of labels. Needs pyarrow, which nothing else here does."""

import io

import numpy as np

from pymcboost.data import archives
from pymcboost.data.csvtext import CsvData, CsvError


class ParquetError(CsvError):
    """A Parquet file that cannot be read; the message names file, column and remedy."""


def parquet_blocks(path, choose, as_text=None, wide=False, size=None):
    """Read a file as `csv_blocks` does; the labels become text, features of whole numbers and truth values numbers."""
    name = "<stdin>" if path == "-" else path
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise ParquetError(
            f"{name}: Parquet needs the package pyarrow ({error}); python -m pip install pyarrow, or write CSV"
        ) from None
    try:
        source = io.BytesIO(archives.open_text(path)[0].read()) if path == "-" else open(path, "rb")
        with source, parquet.ParquetFile(source) as file:
            head = file.schema_arrow.names
            if len(set(head)) < len(head):
                twice = next(column for column in head if head.count(column) > 1)
                raise ParquetError(f"{name}: the column name {twice!r} occurs twice; each needs a name of its own")
            names, label = _chosen(head, choose, name)
            texts = _chosen(names, as_text or (lambda names: ()), name)
            columns = [*names, *([] if label is None else [label])]
            if not file.metadata.num_rows:
                raise ParquetError(f"{name}: no row of data")
            begin = 0
            for table in [file.read(columns=columns)] if size is None else _tables(arrow, file, columns, size):
                yield _data(arrow, table, name, names, label, texts, wide, begin)
                begin += table.num_rows
    except (arrow.ArrowException, OSError) as error:
        if getattr(error, "errno", None) is not None:  # the system's, and no damage
            raise
        raise ParquetError(f"{name}: {str(error).rstrip('.')}; expected a Parquet file") from None


def _tables(arrow, file, columns, size):
    for batch in file.iter_batches(size, columns=columns):
        yield arrow.Table.from_batches([batch])


def _data(arrow, table, name, names, label, texts, wide, begin):
    """The rows of a table; there are ``begin`` before it in the file."""
    X = np.empty((table.num_rows, len(names)), dtype=np.float64 if wide else np.float32)
    for column in [names[j] for j in texts] + ([] if label is None else [label]):
        kind = table.column(column).type
        if arrow.types.is_nested(kind) or arrow.types.is_temporal(kind) or "binary" in str(kind):
            raise ParquetError(
                f"{name}: column {column!r} is of the type {kind}; labels and categories are integers or text"
            )
    texts = {j: table.column(names[j]).to_pylist() for j in texts}
    texts = {j: [one.strip() if isinstance(one, str) else one for one in its] for j, its in texts.items()}
    for j, column in enumerate(names):
        where = f"{name}: column {column!r}"
        X[:, j] = 0 if j in texts else _numbers(arrow, table.column(column), where, wide, begin)
    y = np.full(table.num_rows, "", dtype=object)
    if label is not None:
        y[:] = list(map(_label, table.column(label).to_pylist()))
    return CsvData(X, y, y != "", names, label, texts)


def _label(value):
    """A label as text, "" where there is none; whole numbers have no exponent."""
    if value is None or value != value:
        return ""
    return f"{value:.0f}" if isinstance(value, float) and abs(value) >= 1e16 else str(value).strip()


def _chosen(head, choose, name):
    try:
        return choose(head)
    except ValueError as error:
        raise ParquetError(f"{name}: {error}") from None


def _numbers(arrow, column, where, wide, begin):
    """A column as float32 or, where that is ``wide``, float64; missing values as NaN."""
    kind = column.type
    fine = arrow.types.is_integer(kind) or arrow.types.is_floating(kind) or arrow.types.is_boolean(kind)
    if not (fine or arrow.types.is_decimal(kind) or arrow.types.is_null(kind)):
        raise ParquetError(
            f"{where} is of the type {kind}; features must be numbers or truth values. To train, name the column in "
            "--label if it has the labels, or in --categorical-features (not with hingeboost), number the values, or "
            "leave it out"
        )
    numbers = column.cast(arrow.float64(), safe=False).to_numpy()
    with np.errstate(over="ignore"):
        values = numbers.astype(np.float32)
    beyond = np.isinf(values) & np.isfinite(numbers)
    if beyond.any():
        row = beyond.argmax()
        value = f"{where}, row {begin + row + 1}: {numbers[row]:g}"
        raise ParquetError(f"{value} is too large for float32 (about 3.4e38); scale it")
    return numbers if wide else values
