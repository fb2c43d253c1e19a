"""What tells the data of one training from those of another."""

import math
import zlib

import numpy as np

from pymcboost.comm import row_numbers

CHUNK = 1 << 16
# What the fingerprint of the data holds, in words.
WORDS = {
    "X": "the features",
    "y": "the labels",
    "weight": "the weights of the rows",
    "init_score": "the init_score",
    "validation": "the validation set",
    "groups": "the groups",
}


def fingerprint(dataset, validation):
    """What the data of a training look like: sizes and checksums, a dictionary that JSON keeps.

    It depends on the rows and their numbers, and not on their division among workers.

    Parameters
    ----------
    dataset : TrainingSet
    validation : Validation or None

    Returns
    -------
    dict
    """
    return {
        **_of_numbered_rows(dataset),
        "groups": None if dataset.groups is None else zlib.crc32(repr(dataset.groups.tolist()).encode()),
        "validation": None
        if validation is None
        else [
            *validation.X.shape,
            _crc(validation.codes, np.int64, _crc_of_features(validation.X)),
            *map(_set_of, validation.sets),
        ],
    }


def _crc_of_labels(dataset):
    """Checksum of the labels of the classes."""
    return zlib.crc32("\0".join(str(label) for label in dataset.classes.tolist()).encode())


def _set_of(held):
    weight = None if held.weight is None else _crc(held.weight, np.float64)
    first = [] if held.init_score is None else [_crc(held.init_score, np.float64)]
    return [held.name, len(held.codes), weight, *first]


def _crc(array, dtype, start=0):
    step = max(1, CHUNK // max(1, array[:1].size))
    for begin in range(0, len(array), step):
        start = zlib.crc32(np.ascontiguousarray(array[begin : begin + step], dtype=dtype), start)
    return start


def _crc_of_features(X, start=0):
    if not hasattr(X, "indptr"):
        return _crc(X, np.float32, start)
    return _crc(X.data, np.float32, _crc(X.indices, np.int64, _crc(X.indptr, np.int64)))


def _of_numbered_rows(dataset):
    """Sums over the rows of all workers."""
    X = dataset.X
    workers = dataset.comm
    number = row_numbers(workers, X.shape[0])
    parts = {"X": (X, np.float32), "y": (dataset.codes, np.int64), "weight": (dataset.weight, np.float64)}
    if dataset.init_score is not None:
        parts["init_score"] = dataset.init_score, np.float64
    found = workers.sum(np.array([_numbered(array, dtype, number) for array, dtype in parts.values()]))
    sums = dict(zip(parts, found.tolist(), strict=True))
    n_rows = int(workers.sum(np.array([X.shape[0]]))[0])
    sizes = {"rows": n_rows, "features": X.shape[1], "sparse": hasattr(X, "indptr")}
    return {**sizes, **sums, "y": [_crc_of_labels(dataset), *sums["y"]]}


def _numbered(array, dtype, number):
    """Sums of the halves of a hash of each row with its number; a sparse row has that of the dense one."""
    if hasattr(array, "tocsr"):
        return _halves(_sparse_sums(array, dtype), number)
    n_columns, total = math.prod(array.shape[1:]), np.zeros(2, dtype=np.int64)
    factor = _mixed(np.arange(n_columns, dtype=np.uint64)) | np.uint64(1)
    bits, step = np.dtype(f"u{np.dtype(dtype).itemsize}"), max(1, CHUNK // max(1, n_columns))
    for begin in range(0, len(array), step):
        part = np.ascontiguousarray(array[begin : begin + step], dtype=dtype)
        part = part.reshape(len(part), n_columns).view(bits).astype(np.uint64)
        total += _halves(part @ factor, number[begin : begin + step])
    return total


def _sparse_sums(X, dtype):
    """Of each sparse row the sum that a dense one has: zeros add nothing."""
    X = X.tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    factor = _mixed(np.arange(X.shape[1], dtype=np.uint64)) | np.uint64(1)
    bits = X.data.astype(dtype).view(f"u{np.dtype(dtype).itemsize}").astype(np.uint64)
    sums = np.concatenate((np.zeros(1, dtype=np.uint64), np.cumsum(bits * factor[X.indices], dtype=np.uint64)))
    return sums[X.indptr[1:]] - sums[X.indptr[:-1]]


def _halves(sums, number):
    found = _mixed(_mixed(sums) + number.astype(np.uint64))
    return np.array([int((found >> np.uint64(32)).sum()), int((found & np.uint64(2**32 - 1)).sum())])


def _mixed(z):
    """Integers of 64 bits, each spread over all bits."""
    z = (z + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(29))


def data_differences(before, now):
    """In words, what the data of a checkpoint have otherwise."""
    sizes = [
        f"the data had {before.get(name)} {name}, they have {now[name]}"
        for name in ("rows", "features")
        if before.get(name) != now[name]
    ]
    if sizes:
        return sizes
    if before.get("sparse") != now["sparse"]:
        was, now = ("sparse", "dense") if before.get("sparse") else ("dense", "sparse")
        return [f"the features were {was}, they are {now}"]
    return [f"{words} differ" for name, words in WORDS.items() if before.get(name) != now.get(name)]
