"""The data sets of the tables: where they lie, how they are read, split and sampled."""

import csv
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import get_data
import make_data
import numpy as np


class DataMissing(Exception):
    """A data set is not there; the message says how to get it."""


@dataclass(frozen=True)
class DataSet:
    """Where a data set lies and its width; ``test`` is None where there is no official split.

    ``rows`` counts both parts; ``sparse`` sets are read as CSR matrices.
    """

    train: str
    test: str | None
    n_features: int
    n_classes: int
    rows: int = 0
    sparse: bool = False

    @property
    def cost(self):
        """Relative cost of a fit: cells times classes; a sparse row is taken to store 100 values."""
        return (
            self.rows
            * min(self.n_features, 100 if self.sparse else self.n_features)
            * self.n_classes
        )


def _read_list():
    """The list of data sets, datasets.csv: name, whether there is an official split, and its sizes."""
    data_sets = {}
    with open(Path(__file__).with_suffix(".csv"), newline="") as file:
        for row in csv.DictReader(file):
            name = row["name"]
            sizes = [int(row[key]) for key in ("n_features", "n_classes", "rows")]
            train, test = f"{name}.train.libsvm.gz", f"{name}.test.libsvm.gz"
            parts = (train, test) if row["parts"] == "split" else (f"{name}.libsvm.gz", None)
            data_sets[name] = DataSet(*parts, *sizes, row["sparse"] == "yes")
    return data_sets


DATA = _read_list()
DATA["poker"] = replace(DATA["poker"], test="poker.test-part.libsvm.gz")

# Official split of sets that come in one file: the first rows train, the rest test.
FIRST_TRAIN = {"letter": 16000}
# The same for the experiments with trees, where letter is cut as in Li's experiments.
TREE_FIRST_TRAIN = {"letter": 15000}
# Rows of the training part, counted from 1, as published with the ABC-Boost package.
TRAIN_INDEX = {"covtype": "covtype.train-index.txt.gz"}
GENERATED = "poker-generated"


def sets_by_cost(names=None):
    """All data sets, or those named, the cheapest first."""
    unknown = sorted(set(names or ()) - set(DATA))
    if unknown:
        raise SystemExit(f"unknown set {unknown[0]!r}; there are {', '.join(DATA)}")
    return sorted(names or DATA, key=lambda name: DATA[name].cost)


def data_folder():
    """Folder named by PYMCBOOST_DATA."""
    folder = os.environ.get("PYMCBOOST_DATA")
    if not folder:
        raise DataMissing(
            "PYMCBOOST_DATA is not set: let it name a folder and run `python tools/get_data.py` to fill it"
        )
    if not Path(folder).is_dir():
        raise DataMissing(
            f"PYMCBOOST_DATA={folder}: no such folder; `python tools/get_data.py` makes and fills it"
        )
    return Path(folder)


def data_file(name):
    """Path of one file of the data folder."""
    path = data_folder() / name
    if not path.is_file():
        stem = path.name.split(".")[0]
        how = f"`python tools/get_data.py {stem}` gets it or says how"
        known = stem in get_data.SOURCES or stem in get_data.FRAME_SOURCES
        raise DataMissing(f"{path} is missing: {how if known else 'put it there by hand'}")
    return path


@lru_cache(maxsize=4)
def load(name):
    """Read a data set as (X_train, y_train, X_test, y_test); the test parts are None without an official split.

    X is float32, C-contiguous (CSR for the sparse sets); y is int64.
    """
    import pymcboost

    entry = DATA[name]
    parts = []
    for file in (entry.train, entry.test):
        if file is None:
            parts += [None, None]
            continue
        layout = "csr" if entry.sparse else "dense"
        data = pymcboost.load_svmlight(
            data_file(file), n_features=entry.n_features, base=1, layout=layout
        )
        X = (
            data.X.astype(np.float32)
            if entry.sparse
            else np.ascontiguousarray(data.X, dtype=np.float32)
        )
        parts += [X, data.y]
    return tuple(parts)


@lru_cache(maxsize=4)
def load_pooled(name):
    """All rows of a data set, train then test, as (X, y)."""
    X, y, X_test, y_test = load(name)
    if X_test is None:
        return X, y
    return np.concatenate([X, X_test]), np.concatenate([y, y_test])


def load_official(name):
    """Read the official split of a data set as (X_train, y_train, X_test, y_test)."""
    X, y, X_test, y_test = load(name)
    if X_test is None:
        cut = FIRST_TRAIN[name]
        X, y, X_test, y_test = X[:cut], y[:cut], X[cut:], y[cut:]
    return X, y, X_test, y_test


def load_for_trees(name, seed=0):
    """Read (X_train, y_train, X_test, y_test) as the experiments with trees use them.

    Official parts where there are any, covtype by its index file, letter at row 15,000, and for every other set the
    stratified 75:25 split number ``seed``. "poker-generated" is the set of tools/make_data.py.
    """
    if name == GENERATED:
        return make_data.make_poker()
    X, y, X_test, y_test = load(name)
    if X_test is not None:
        return X, y, X_test, y_test
    if name in TRAIN_INDEX:
        train = np.loadtxt(data_file(TRAIN_INDEX[name]), dtype=np.int64) - 1
        train, test = np.unique(train), np.setdiff1d(np.arange(len(y)), train)
    elif name in TREE_FIRST_TRAIN:
        train, test = np.split(np.arange(len(y)), [TREE_FIRST_TRAIN[name]])
    else:
        train, test = stratified_rows(y, seed)
    return X[train], y[train], X[test], y[test]


def fixed_split(name):
    """Whether the experiments with trees split this set in one given way."""
    return DATA[name].test is not None or name in TREE_FIRST_TRAIN or name in TRAIN_INDEX


def stratified_rows(y, seed, test_share=0.25):
    """Random split within every class, as sorted (training rows, test rows).

    A class of n rows gives floor(n * test_share + 1/2) of them to the test part, so that a lone row is trained on. The
    split depends on ``y`` and ``seed`` alone.
    """
    generator = np.random.default_rng([seed, 0x73706C6974])
    test = []
    for label in np.unique(y):
        rows = generator.permutation(np.flatnonzero(y == label))
        test.append(rows[: int(len(rows) * test_share + 0.5)])
    test = np.sort(np.concatenate(test))
    return np.setdiff1d(np.arange(len(y)), test), test


def fold_rows(y, fold, folds):
    """Training and test rows of one fold; every class is dealt out to the folds in a random order with a fixed seed."""
    generator = np.random.default_rng([folds, 0x666F6C64])
    place = np.empty(len(y), np.int64)
    start = 0
    for label in np.unique(y):
        rows = generator.permutation(np.flatnonzero(y == label))
        # Classes begin where the last one stopped, so that the folds have equal size.
        place[rows] = (start + np.arange(len(rows))) % folds
        start += len(rows)
    return np.flatnonzero(place != fold), np.flatnonzero(place == fold)


def fold_of(X, y, fold, folds):
    """One fold of (X, y) as (X, codes, X_test, codes of the test rows)."""
    train, test = fold_rows(y, int(fold), folds)
    return coded((X[train], y[train], X[test], y[test]))


def random_rows(y, generator, most):
    """Rows of every class, at most ``most`` of each, a random choice; all rows where it is None."""
    if most is None:
        return np.arange(len(y))
    parts = [np.flatnonzero(y == label) for label in np.unique(y)]
    return np.concatenate(
        [generator.choice(part, min(most, len(part)), replace=False) for part in parts]
    )


def random_split(X, y, generator, most=None):
    """Random rows of every class, then a plain 75:25 split of them: (X_train, y_train, X_test, y_test)."""
    rows = generator.permutation(random_rows(y, generator, most))
    train, test = np.split(rows, [round(0.75 * len(rows))])
    return X[train], y[train], X[test], y[test]


def coded(parts):
    """Labels of both parts as codes 0..K-1 of the training classes; other test labels become -1."""
    X, y, X_test, y_test = parts
    classes = np.unique(y)
    at = np.searchsorted(classes, y_test).clip(0, len(classes) - 1)
    return X, np.searchsorted(classes, y), X_test, np.where(classes[at] == y_test, at, -1)
