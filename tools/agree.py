"""Paths that must agree: random trainings, each of which is done in two ways.

    python tools/agree.py --count 1000       what CI runs, in half a minute of CPU time
    python tools/agree.py --case 17          one case again
    python tools/agree.py --only workers     only cases whose pair or algorithm has this text in its name

A case is a pair of paths, an algorithm, parameters and data. All of it is drawn from the number of the case alone.
The table `PAIRS` says which algorithms each pair holds for, and how closely the two paths must agree. A difference is
printed with all that the case was drawn as, and tried again with fewer rounds and rows. The exit code is 0 if there is
no difference.
"""

import argparse
import contextlib
import ctypes
import functools
import importlib.util
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait take no time

import numpy as np
import pandas as pd
import scipy.sparse

import pymcboost
from pymcboost import Dataset
from pymcboost.comm import Alone
from pymcboost.export import (
    from_lightgbm,
    from_sklearn,
    from_xgboost,
    integer_labels,
    to_integer_c,
    to_onnx,
    to_treelite,
)
from pymcboost.registry import ALGORITHMS, get_class
from pymcboost.training.parameters import parameters

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))
from divided import threads  # noqa: E402

# -- what is drawn -----------------------------------------------------------------------------------------------------

WORKHORSES = frozenset(
    {"mcboost", "vector-tree", "logitboost", "mart", "abc-logitboost", "abc-mart"}
)
ALL = frozenset(ALGORITHMS)
WEIGHTED = ALL - {"hingeboost"}  # no weights, no missing values
# Values of parameters that may be drawn in place of the default. `choices` of the package's own table are added.
VALUES = {
    "C": (1.0, 1e3),
    "allow_zero": (True,),
    "calibrate": ("temperature",),
    "class_weight": ("balanced",),
    "early_stopping": (True,),
    "fixed_step": (0.1,),
    "gap": (1, 2),
    "l1": (0.1,),
    "l2_regularization": (0.3, 1.0),
    "leaf_levels": (1, 7),
    "learning_rate": (0.3, 1.0),
    "max_bins": (3, 16),
    "max_depth": (1, 3),
    "max_features": (0.5, 1.0),
    "max_features_tree": (0.5,),
    "max_leaf_entries": (1, 2),
    "max_leaf_nodes": (2, 4, 9),
    "max_passes": (1,),
    "max_step": (0.3,),
    "min_gain": (0.01,),
    "min_hessian_leaf": (0.5,),
    "min_relative_gain": (0.0,),
    "min_samples_leaf": (2, 3.5),
    "min_weight_fraction_leaf": (0.05,),
    "min_weight_fraction_split": (0.1,),
    "n_candidates": (1, 2),
    "n_repartitions": (2,),
    "nu": (1e-3,),
    "restore_priors": (True,),
    "scale": (True,),
    "split_columns": (1, 2, None),
    "subsample": (0.5, 1.0),
    "warmup_rounds": (2,),
}
CHOICES = ("code", "decoder", "init", "leaf_step", "loss", "separators", "weak_learner")
COLUMNS = ("normal", "few", "constant", "mostly 0", "skewed", "small", "copy")


@dataclass(frozen=True)
class Case:
    """Everything that a training is made of. `data` makes the rows."""

    number: int
    pair: str
    algorithm: str
    params: dict
    n_rounds: int
    n_rows: int
    n_drawn: int  # of which the first n_rows are used
    n_classes: int
    columns: tuple
    holes: bool = False
    weights: str = "none"
    # Whether data count as large whatever their size: gradients in float32, and searches by histogram.
    large: bool = False

    def __str__(self):
        return "\n".join(
            f"    {name}: {value}" for name, value in vars(self).items() if name != "number"
        )


@dataclass(frozen=True)
class Data:
    """Training rows, and rows to score."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    rows: np.ndarray
    rng: np.random.Generator = field(compare=False)  # for what a path draws


def draw(number):
    """The case of this number."""
    rng = np.random.default_rng([number, 0])
    pair = PAIRS[rng.integers(len(PAIRS))]
    algorithm = sorted(pair.algorithms)[rng.integers(len(pair.algorithms))]
    n_classes = int(rng.choice([2, 3, 4, 5, 9, 17]))
    columns = tuple(str(kind) for kind in rng.choice(COLUMNS, rng.integers(1, 8)))
    n_rows = int(rng.integers(4 * n_classes, 4 * n_classes + 120))
    weights = str(rng.choice(["none", "none", "integers", "any", "far apart"]))
    large = rng.random() < 0.3
    case = Case(
        number=number,
        pair=pair.name,
        algorithm=algorithm,
        params={**_params(rng, algorithm, columns), **_known(algorithm, pair.params)},
        n_rounds=int(rng.integers(1, 9)),
        n_rows=n_rows,
        n_drawn=n_rows,
        n_classes=n_classes,
        columns=columns,
        holes=algorithm in WEIGHTED and rng.random() < 0.3,
        weights=weights if algorithm in WEIGHTED else "none",
        large=bool(large),
    )
    return replace(case, **pair.data)


def _known(algorithm, params):
    """Those of the parameters that the algorithm has."""
    known = get_class(algorithm)().get_params()
    return {name: value for name, value in params.items() if name in known}


@functools.cache
def _values(algorithm):
    """What may be drawn for each parameter of an algorithm."""
    table = parameters(get_class(algorithm))
    known = get_class(algorithm)().get_params()
    choices = {name: table[name].choices for name in CHOICES if name in known}
    return {**choices, **{name: VALUES[name] for name in VALUES if name in known}}


def _params(rng, algorithm, columns):
    """Parameters, most of which have their defaults."""
    params = {"random_state": int(rng.integers(100)), "calibrate": None}
    for name, values in _values(algorithm).items():
        if rng.random() < (0.08 if name in ("calibrate", "early_stopping") else 0.3):
            params[name] = values[rng.integers(len(values))]
    categorical = [j for j, kind in enumerate(columns) if kind == "few"]
    if categorical and algorithm in WORKHORSES and rng.random() < 0.4:
        params["categorical_features"] = categorical
    return params


def data_of(case):
    """The rows of a case."""
    rng = np.random.default_rng([case.number, 1])
    n = case.n_drawn + 40
    y = np.minimum(rng.integers(0, case.n_classes, n), rng.integers(0, 2 * case.n_classes, n))
    y[: case.n_classes] = rng.permutation(case.n_classes)
    X = np.zeros((n, len(case.columns)))
    for j, kind in enumerate(case.columns):
        X[:, j] = _column(rng, kind, y, before=X[:, j - 1])
    if case.holes:
        X[rng.random(X.shape) < 0.15] = np.nan
    weight = {
        "none": None,
        "integers": rng.integers(0, 4, n).astype(float),
        "any": rng.random(n) + 0.1,
        "far apart": 10.0 ** rng.uniform(-4, 4, n),
    }[case.weights]
    if weight is not None:
        weight[: case.n_classes] = np.maximum(
            weight[: case.n_classes], 1
        )  # every class has a row that counts
    X = X.astype(np.float32).astype(np.float64)
    used = slice(case.n_rows)
    more = slice(case.n_drawn, None)
    return Data(X[used], y[used], None if weight is None else weight[used], rows=X[more], rng=rng)


def _column(rng, kind, y, before):
    """Values of a column, which tell something of the classes."""
    noise = rng.normal(size=len(y)) + y * rng.normal()
    return {
        "normal": noise,
        "few": np.clip(np.rint(np.abs(noise)), 0, 3),
        "constant": np.full(len(y), 1.5),
        "mostly 0": noise * (rng.random(len(y)) < 0.3),
        "skewed": np.exp(np.clip(2 * noise, -8, 8)),
        "small": noise * 1e-12,
        "copy": before,
    }[kind]


# -- a training --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What a path leads to. ``file`` is that of the model, without what it says of its training."""

    scores: np.ndarray
    file: bytes = b""
    tolerance: float | None = None  # an absolute one that the path itself promises


def outcome(model, rows):
    """Of a model, or of the model of an estimator."""
    model = getattr(model, "model_", model)
    return Outcome(model.raw_scores(rows), model.with_meta({}).to_bytes())


def estimator(case, **changes):
    """An estimator with the parameters of a case."""
    params = {**case.params, "n_estimators": case.n_rounds, "n_jobs": 1, **changes}
    return get_class(case.algorithm)(**params)


def weights(weight):
    """Arguments of fit: what has no weights does not know the name."""
    return {} if weight is None else {"sample_weight": weight}


def fit(case, X, y, weight=None, comm=None, **changes):
    """The fitted estimator of a case."""
    options = {} if comm is None else {"comm": comm}
    return estimator(case, **changes).fit(X, y, **weights(weight), **options)


def plain(case, data):
    """The first path of most pairs."""
    return outcome(fit(case, data.X, data.y, weight=data.weight), data.rows)


# -- pairs of paths ----------------------------------------------------------------------------------------------------
# A path is a function of a case and its data. It raises ValueError where the package refuses the case.


def forms(case, data):
    """X in another order, of another type, or as lists."""
    made = [
        np.asfortranarray(data.X),
        data.X.astype(np.float32),
        data.X[::-1].copy()[::-1],
        data.X.tolist(),
    ]
    return outcome(fit(case, made[case.number % 4], data.y, weight=data.weight), data.rows)


def sparse(case, data):
    """Sparse rows in training and in scoring."""
    X, rows = scipy.sparse.csr_array(data.X), scipy.sparse.csr_array(data.rows)
    return outcome(fit(case, X, data.y, weight=data.weight), rows)


def frame(case, data):
    """Columns with names; the rows that are scored have them in another order."""
    names = [f"column {j}" for j in range(data.X.shape[1])]
    types = dict.fromkeys(names[::2], np.float32)
    X, rows = (pd.DataFrame(rows, columns=names).astype(types) for rows in (data.X, data.rows))
    model = fit(case, X, data.y, weight=data.weight).model_
    return replace(outcome(model, data.rows), scores=model.raw_scores(rows[names[::-1]]))


LEVELS = np.array(["blue", "green", "red", "white"])  # in the order of the codes
TEXTS = (0, 2)  # columns of few values, where a pair has text


def seen_in_training(data):
    """The rows to score without values of `TEXTS` that training has not seen: codes below the largest are levels."""
    rows = data.rows.copy()
    for j in TEXTS:
        rows[~np.isin(rows[:, j], data.X[:, j]), j] = np.nan
    return rows


def codes(case, data):
    """Columns of few values as codes of categories."""
    model = fit(case, data.X, data.y, weight=data.weight, categorical_features=list(TEXTS))
    return outcome(model, seen_in_training(data))


def text(case, data):
    """A frame with the same columns as text, which are categories without being named."""
    kind = (object, "string", "category")[case.number % 3]
    made = []
    for rows in (data.X, seen_in_training(data)):
        table = pd.DataFrame(rows, columns=[f"column {j}" for j in range(rows.shape[1])])
        for j in TEXTS:
            words = LEVELS[np.nan_to_num(rows[:, j]).astype(int)]
            table[f"column {j}"] = pd.Series(
                np.where(np.isnan(rows[:, j]), None, words), dtype=kind
            )
        made.append(table)
    return outcome(
        fit(case, made[0], data.y, weight=data.weight, categorical_features="from_dtype"), made[1]
    )


def of_dataset(case):
    """Those of the parameters that belong to a Dataset."""
    return {
        name: case.params[name]
        for name in ("categorical_features", "max_bins")
        if name in case.params
    }


def dataset(case, data):
    """The second training on rows that were checked and binned once."""
    rows = Dataset(data.X, data.y, data.weight, **of_dataset(case))
    fit(case, rows, None)
    return outcome(fit(case, rows, None), data.rows)


def blocks(case, data):
    """The same rows in parts, in which some are empty."""
    cuts = np.sort(data.rng.integers(0, len(data.y) + 1, 3))
    arrays = [data.X, data.y] if data.weight is None else [data.X, data.y, data.weight]
    parts = list(zip(*(np.split(array, cuts) for array in arrays), strict=True))
    return outcome(fit(case, Dataset.from_blocks(parts, **of_dataset(case)), None), data.rows)


def many_threads(case, data):
    """Several threads."""
    return outcome(
        fit(case, data.X, data.y, weight=data.weight, n_jobs=2 + case.number % 2), data.rows
    )


def one_worker(case, data):
    """A worker that has all rows."""
    return outcome(fit(case, data.X, data.y, weight=data.weight, comm=Alone()), data.rows)


def workers(case, data, form=np.asarray):
    """Two or three workers with rows drawn for each of them."""
    of = data.rng.integers(0, 2 + case.number % 2, len(data.y))
    parts = [np.flatnonzero(of == rank) for rank in range(2 + case.number % 2)]

    def task(comm):
        part = parts[comm.rank]
        weight = None if data.weight is None else data.weight[part]
        comm = threads.numbered(comm, part)
        return outcome(
            fit(case, form(data.X[part]), data.y[part], weight=weight, comm=comm), form(data.rows)
        )

    by_worker = threads.run(len(parts), task)
    for result in by_worker:
        if isinstance(result, Exception):
            raise result
    if len({result.file for result in by_worker}) > 1:
        raise AssertionError("the workers have different models")
    return by_worker[0]


def one_sparse_worker(case, data):
    """A worker that has all rows, which are sparse."""
    X, rows = scipy.sparse.csr_array(data.X), scipy.sparse.csr_array(data.rows)
    return outcome(fit(case, X, data.y, weight=data.weight, comm=Alone()), rows)


def sparse_workers(case, data):
    """Workers with sparse rows."""
    return workers(case, data, scipy.sparse.csr_array)


def repeated(case, data):
    """Rows as many times as their weights say."""
    times = data.weight.astype(int)
    return outcome(fit(case, np.repeat(data.X, times, axis=0), np.repeat(data.y, times)), data.rows)


def permuted(case, data):
    """The rows in another order."""
    order = data.rng.permutation(len(data.y))
    weight = None if data.weight is None else data.weight[order]
    return outcome(fit(case, data.X[order], data.y[order], weight=weight), data.rows)


def renamed(case, data):
    """Texts or other integers as labels, in the same order."""
    names = np.array([f"class {k:02}" for k in range(case.n_classes)])
    names = names if case.number % 2 else 7 * np.arange(case.n_classes) - 20
    return outcome(fit(case, data.X, names[data.y], weight=data.weight), data.rows)


def other_order(case, data):
    """Labels whose order is another one."""
    place = data.rng.permutation(case.n_classes)
    made = outcome(fit(case, data.X, place[data.y], weight=data.weight), data.rows)
    return replace(made, scores=made.scores[:, place])


def scaled(case, data):
    """Each column times a power of two."""
    by = 2.0 ** data.rng.integers(-20, 20, data.X.shape[1])
    if "categorical_features" in case.params:
        by[case.params["categorical_features"]] = 1
    return outcome(fit(case, data.X * by, data.y, weight=data.weight), data.rows * by)


MORE_ROUNDS = 2


def longer(case, data):
    """One fit of the rounds of the case and some more."""
    return outcome(
        fit(case, data.X, data.y, weight=data.weight, n_estimators=case.n_rounds + MORE_ROUNDS),
        data.rows,
    )


def first_rounds(case, data):
    """The model of more rounds, cut."""
    model = fit(
        case, data.X, data.y, weight=data.weight, n_estimators=case.n_rounds + MORE_ROUNDS
    ).model_
    return outcome(model.truncate(min(case.n_rounds, model.n_rounds)), data.rows)


def warm_start(case, data):
    """The rounds of the case, and some more by a second call of fit."""
    model = estimator(case, warm_start=True).fit(data.X, data.y, **weights(data.weight))
    model.set_params(n_estimators=case.n_rounds + MORE_ROUNDS).fit(
        data.X, data.y, **weights(data.weight)
    )
    return outcome(model, data.rows)


def init_model(case, data):
    """The rounds of the case, and some more that are added to the saved model of these."""
    first = pymcboost.Model.from_bytes(
        fit(case, data.X, data.y, weight=data.weight).model_.to_bytes()
    )
    more = estimator(case, n_estimators=MORE_ROUNDS)
    return outcome(more.fit(data.X, data.y, **weights(data.weight), init_model=first), data.rows)


def on_a_model(case, data):
    """Some rounds more than those of a model."""
    first = fit(case, data.X, data.y, weight=data.weight).model_
    more = estimator(case, n_estimators=MORE_ROUNDS).fit(
        data.X, data.y, **weights(data.weight), init_model=first
    )
    return Outcome(more.model_.raw_scores(data.rows))


def init_score(case, data):
    """The same rounds, of a model of their own, and the scores of the first model at which rows begin."""
    first = fit(case, data.X, data.y, weight=data.weight).model_
    more = estimator(case, n_estimators=MORE_ROUNDS)
    more.fit(data.X, data.y, **weights(data.weight), init_score=first.raw_scores(data.X))
    return Outcome(more.model_.raw_scores(data.rows, init_score=first.raw_scores(data.rows)))


def resumed(case, data):
    """The rounds of the case, and some more from their checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        for rounds in (case.n_rounds, case.n_rounds + MORE_ROUNDS):
            checkpoint = pymcboost.Checkpoint(Path(folder, "part.mcb"), every=0)
            model = estimator(case, n_estimators=rounds)
            checkpoint.fit(model, data.X, data.y, **weights(data.weight))
    return outcome(model, data.rows)


def loaded(case, data):
    """A model that was saved and loaded, inside of a pickle or in a file."""
    model = fit(case, data.X, data.y, weight=data.weight)
    if case.number % 2:
        return outcome(pickle.loads(pickle.dumps(model)), data.rows)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model.mcb"))
        return outcome(pymcboost.load_model(Path(folder, "model.mcb")), data.rows)


def packed(case, data):
    """The same trees in few bits."""
    model = fit(case, data.X, data.y, weight=data.weight).model_
    return outcome(pymcboost.Model.from_bytes(model.to_bytes(layout="packed")), data.rows)


def table(case, data):
    """Stumps as a table of intervals."""
    model = fit(case, data.X, data.y, weight=data.weight).model_
    stumps = model.ensemble
    leaves = stumps.leaf if hasattr(stumps, "leaf") else stumps.right
    magnitude = 1 + np.abs(leaves).sum() + np.abs(stumps.bias).sum()
    made = outcome(pymcboost.Model.from_bytes(model.to_bytes(layout="interval")), data.rows)
    return replace(made, tolerance=1e-7 * float(magnitude))


C_SOURCE = """
#include "mcb.h"
int agree(const void *bytes, size_t size, const float *X, size_t rows, double *scores, void *memory, size_t room) {
    mcb_model model;
    size_t i;
    int status = mcb_open(&model, bytes, size);
    if (status == 0 && room) status = mcb_prepared_size(&model) > room ? -1 : mcb_prepare(&model, memory, room);
    for (i = 0; status == 0 && i < rows; i++) {
        mcb_scores(&model, X + i * model.n_features, scores + i * model.n_classes);
    }
    return status;
}
"""


def compiled(source, *options):
    """A shared library of a text in C."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "source.c")
        path.write_text(source)
        library = path.with_suffix(".so")
        command = [
            os.environ.get("CC", "cc"),
            "-shared",
            "-fPIC",
            *options,
            str(path),
            "-o",
            str(library),
        ]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(library))


@functools.cache
def scorer():
    """mcb.h in plain C, once for all cases."""
    return compiled(C_SOURCE, "-O1", "-DMCB_NO_VECTOR", f"-I{pymcboost.get_include()}")


def pointer(array):
    """Where an array lies."""
    return array.ctypes.data_as(ctypes.c_void_p)


def in_c(case, data):
    """mcb.h, compiled without vectors; prepared or not."""
    file = fit(case, data.X, data.y, weight=data.weight).model_.to_bytes()
    X = np.ascontiguousarray(data.rows, np.float32)
    scores = np.empty(
        (len(X), len(np.unique(data.y if data.weight is None else data.y[data.weight > 0])))
    )
    memory = np.empty(1 << 20 if case.number % 2 else 0, np.uint8)
    args = ctypes.c_size_t(len(X)), pointer(scores), pointer(memory), ctypes.c_size_t(len(memory))
    status = scorer().agree(file, ctypes.c_size_t(len(file)), pointer(X), *args)
    if status:
        raise AssertionError(f"mcb.h gives the status {status}")
    return Outcome(scores)


def integers(case, data):
    """Labels of packed trees in C without floating point, and what Python says of them."""
    model = fit(case, data.X, data.y, weight=data.weight).model_
    trees = pymcboost.Model.from_bytes(model.to_bytes(layout="packed", leaves="int8"))
    X = np.ascontiguousarray(data.rows, np.float32)
    library = compiled(to_integer_c(trees), "-O0")
    labels = [library.model_predict(pointer(row)) for row in X]
    return Outcome(np.array(labels, float)), Outcome(integer_labels(trees, "int8", X).astype(float))


def onnx(case, data):
    """ONNX Runtime, within the error that the file states."""
    import onnx as package
    import onnxruntime

    made = to_onnx(fit(case, data.X, data.y, weight=data.weight).model_)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])
    notes = {prop.key: prop.value for prop in package.load_from_string(made).metadata_props}
    scores = session.run(["scores"], {"X": data.rows.astype(np.float32)})[0]
    return Outcome(scores.astype(float), tolerance=float(notes["score_error"]))


def treelite(case, data):
    """Scores of treelite itself, within the error that the file states."""
    import treelite as package

    made = package.Model.deserialize_bytes(
        to_treelite(fit(case, data.X, data.y, weight=data.weight).model_)
    )
    scores = package.gtil.predict(made, data.rows.astype(np.float32), nthread=1)
    return Outcome(
        scores.reshape(len(data.rows), -1).astype(float), tolerance=made.attributes["score_error"]
    )


# Models of other libraries, trained on the rows of a case with what parameters they share.


def shared_params(case, **names):
    """Those of the parameters that another library knows by these names."""
    values = {name: case.params.get(own) for own, name in names.items()}
    return {name: value for name, value in values.items() if value is not None}


def as_loaded(model):
    """An imported model that was saved and loaded."""
    return pymcboost.Model.from_bytes(model.to_bytes())


def margins(model, rows):
    """Scores of an imported model; of two classes their difference, which is all that boosters keep."""
    scores = model.raw_scores(rows)
    error = model.meta["score_error"]
    if scores.shape[1] == 2:
        return Outcome(scores[:, 1:] - scores[:, :1], tolerance=2 * error)
    return Outcome(scores, tolerance=error)


def lightgbm(case, data):
    """Scores of LightGBM, and of its model read here."""
    import lightgbm as package

    names = {
        "max_leaf_nodes": "num_leaves",
        "max_depth": "max_depth",
        "learning_rate": "learning_rate",
    }
    params = (
        {"objective": "multiclass", "num_class": case.n_classes}
        if case.n_classes > 2
        else {"objective": "binary"}
    )
    params |= {"num_threads": 1, "verbose": -1, "min_data_in_leaf": 3, "min_data_per_group": 3}
    params |= shared_params(case, **names)
    categories = case.params.get("categorical_features") or "auto"
    rows = package.Dataset(data.X, data.y, weight=data.weight, categorical_feature=categories)
    booster = package.train(params, rows, case.n_rounds)
    scores = booster.predict(data.rows, raw_score=True).reshape(len(data.rows), -1)
    return Outcome(scores), margins(as_loaded(from_lightgbm(booster)), data.rows)


def xgboost(case, data):
    """Scores of XGBoost, and of its model read here: trees of gbtree, of DART, or with a vector in each leaf."""
    import xgboost as package

    categories = case.params.get("categorical_features") or ()
    kind = ({}, {"booster": "dart", "rate_drop": 0.5}, {"multi_strategy": "multi_output_tree"})[
        case.number % 3
    ]
    kind = (
        {} if categories and "multi_strategy" in kind else kind
    )  # which XGBoost does not have together
    params = {"objective": "binary:logistic"}
    if case.n_classes > 2:
        params = {"objective": "multi:softprob", "num_class": case.n_classes}
    params |= {"nthread": 1, "verbosity": 0, "seed": case.number, **kind}
    params |= shared_params(
        case, max_depth="max_depth", learning_rate="eta", l2_regularization="lambda"
    )
    types = ["c" if j in categories else "q" for j in range(data.X.shape[1])]
    both = [
        package.DMatrix(X, y, weight=weight, feature_types=types, enable_categorical=True)
        for X, y, weight in ((data.X, data.y, data.weight), (data.rows, None, None))
    ]
    booster = package.train(params, both[0], case.n_rounds)
    scores = booster.predict(both[1], output_margin=True).reshape(len(data.rows), -1)
    return Outcome(scores.astype(float)), margins(as_loaded(from_xgboost(booster)), data.rows)


def forest(case, data):
    """Probabilities of a forest of scikit-learn, and of the model made of it."""
    from sklearn import ensemble

    names = {"max_leaf_nodes": "max_leaf_nodes", "max_depth": "max_depth"}
    params = {
        "n_estimators": case.n_rounds,
        "random_state": case.number,
        **shared_params(case, **names),
    }
    cls = (ensemble.RandomForestClassifier, ensemble.ExtraTreesClassifier)[case.number % 2]
    made = cls(**params).fit(data.X, data.y, sample_weight=data.weight)
    shares = as_loaded(from_sklearn(made)).predict_proba(data.rows)
    return Outcome(made.predict_proba(data.rows)), Outcome(shares, tolerance=1e-6)


# -- the table ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Two paths that must agree.

    ``agree`` is "bytes" of the model, "bits" of all scores, or a tolerance relative to the largest score. A path may
    state a tolerance of its own. ``params`` and ``data`` are what the promise needs.
    """

    name: str
    other: Callable
    agree: str | float
    algorithms: frozenset = ALL
    first: Callable = plain
    params: dict = field(default_factory=dict)
    data: dict = field(default_factory=dict)
    # Weights are rebuilt from the scores every 512 rounds, after which trainings can go on: here after those of a case.
    restarts: bool = False
    # Splits of the same gain, and what is left after a weak learner without mistakes (weights of e^-20, coefficients
    # without a bound), hang on rounding. Of these algorithms a case counts only if weights moved by 1e-7 keep them.
    unsteady: frozenset = frozenset()
    needs: str | None = None  # a package


# What is left out, and why. HingeBoost.OC has no weights and no missing values. Its solvers stop at a tolerance, to
# which sums in another order lead by other steps: WEIGHTED leaves it out.
# These add numbers in the order of the rows.
IN_ORDER = frozenset(
    {"adaboost-m1", "adaboost-m2", "jointboost", "multiboost", "multiboost-cw", "samme"}
)
TREES = WORKHORSES - {"mcboost"}
# Rounds of MultiBoost change the coefficients of all weak learners: they are no models, and do not go on from others.
STAGES = WEIGHTED - {"multiboost", "multiboost-cw"}
# These end with a learner without mistakes, of which a warm start knows. With init_model, which may have other rows,
# they go on.
ENDING = frozenset({"adaboost-m1", "adaboost-m2", "adaboost-mh", "adaboost-ml", "samme"})
# The others draw codes or colourings by the numbers of the classes, or go through the classes one after the other.
SYMMETRIC = STAGES - {"adaboost-ecc", "adaboost-erp", "adaboost-mo", "adaboost-oc"}
STUMPS = frozenset(name for name in ALL if "interval" in get_class(name)().layouts())
PACKED = frozenset(
    {"vector-tree"}
)  # packed trees have room for 256 values of leaves, which leaf_levels sees to
VOTES = frozenset({"vector-tree", "mart", "logitboost"})
FOREIGN = frozenset({"logitboost"})  # whose parameters those of other libraries are taken from

NUMBERS = {"categorical_features": None}
# All rows train, in the rounds that are asked for.
WHOLE = {"early_stopping": False, "calibrate": None}
# Nothing goes by the numbers of the rows, or by how many there are. "balanced" counts rows whatever they weigh, and
# makes classes weigh the same, so that the label of a leaf is a tie that rounding decides.
ALL_ROWS = {
    **WHOLE,
    "class_weight": None,
    "max_features": 1.0,
    "max_leaf_nodes": 6,
    "min_relative_gain": 0.0,
    "subsample": 1.0,
}
# Rounds do not depend on their numbers, by which trees draw rows and columns, and search for base classes; and leaves
# of few levels are those of a whole model.
ANY_ROUND = {
    **WHOLE,
    "gap": 1,
    "leaf_levels": None,
    "max_features": 1.0,
    "max_features_tree": 1.0,
    "restore_priors": False,
    "split_columns": None,
    "subsample": 1.0,
    "warmup_rounds": 0,
}
# With the logistic loss MCBoost's penalty nu counts in units of the mean weight. A split on categories must gain more
# than chance gives one, which depends on the number of rows.
REPEATED = {**ALL_ROWS, "nu": 0.0, **NUMBERS}
# Columns and classes are drawn by their numbers, and leaves have the entries of the first ones of equal classes.
ALL_CLASSES = {
    **ALL_ROWS,
    "max_features_tree": 1.0,
    "split_columns": None,
    "max_leaf_entries": None,
}
# Equal gains go to the first column or class: columns of few values have them, and the two sides of two classes.
NO_TIES = {
    "columns": ("normal", "skewed", "normal"),
    "holes": False,
    "n_classes": 5,
    "weights": "any",
    "large": False,
}
# Bins of columns with more values than max_bins are others without the zeros, and so is the default of split_columns.
# Trees of some algorithms warn that they do not keep to min_weight_fraction_leaf, which joins bins of dense columns.
SPARSE = {**NUMBERS, "max_bins": 256, "min_weight_fraction_leaf": 0.0, "split_columns": 2}
LINEAR = {"decoder": "linear", **NUMBERS}
SMALL = {"large": False}  # data that are searched in presorted order, in double precision
INTEGERS = {"weights": "integers", **SMALL}
WORDS = {"columns": ("few", "normal", "few", "skewed")}  # as `TEXTS` says

PAIRS = (
    Pair("forms of X", forms, "bytes"),
    Pair("frame", frame, "bytes"),
    Pair("text", text, "bits", algorithms=WORKHORSES, first=codes, params=NUMBERS, data=WORDS),
    Pair("Dataset", dataset, "bytes"),
    Pair(
        "sparse", sparse, "bytes", algorithms=WEIGHTED - {"jointboost"}, params=SPARSE, data=SMALL
    ),
    Pair(
        "sparse, sums in order",
        sparse,
        1e-9,
        algorithms=frozenset({"jointboost"}),
        params=SPARSE,
        data=SMALL,
    ),
    Pair("blocks", blocks, "bytes", algorithms=WORKHORSES),
    Pair("threads", many_threads, "bytes"),
    Pair("workers", workers, "bytes", algorithms=WORKHORSES, first=one_worker),
    Pair(
        "sparse workers",
        sparse_workers,
        "bytes",
        algorithms=WORKHORSES,
        first=one_sparse_worker,
        params=NUMBERS,
    ),
    Pair(
        "repeated rows",
        repeated,
        1e-6,
        algorithms=WEIGHTED,
        params=REPEATED,
        data=INTEGERS,
        unsteady=WEIGHTED,
    ),
    Pair(
        "permuted rows",
        permuted,
        "bytes",
        algorithms=WEIGHTED - IN_ORDER,
        params=ALL_ROWS,
        data=SMALL,
    ),
    Pair(
        "permuted rows, sums in order",
        permuted,
        1e-9,
        algorithms=IN_ORDER,
        params=ALL_ROWS,
        data=SMALL,
        unsteady=IN_ORDER,
    ),
    Pair(
        "many permuted rows",
        permuted,
        "bytes",
        algorithms=TREES,
        params=ALL_ROWS,
        data={"large": True},
    ),
    Pair("renamed labels", renamed, "bits"),
    Pair(
        "permuted classes",
        other_order,
        1e-6,
        algorithms=SYMMETRIC,
        params=ALL_CLASSES,
        data=NO_TIES,
        unsteady=SYMMETRIC - TREES,
    ),
    Pair("scaled columns", scaled, "bits", algorithms=WEIGHTED),
    Pair("first rounds", first_rounds, "bits", algorithms=STAGES, params=WHOLE),
    Pair(
        "warm start",
        warm_start,
        "bits",
        algorithms=STAGES,
        first=longer,
        params=WHOLE,
        restarts=True,
    ),
    Pair(
        "init_model", init_model, "bits", algorithms=STAGES - ENDING, first=warm_start, params=WHOLE
    ),
    Pair(
        "init_score",
        init_score,
        1e-6,
        algorithms=WORKHORSES,
        first=on_a_model,
        params=ANY_ROUND,
        data=SMALL,
        unsteady=WORKHORSES,
    ),
    Pair(
        "resumed", resumed, "bytes", algorithms=WEIGHTED, first=longer, params=WHOLE, restarts=True
    ),
    Pair("loaded", loaded, "bytes"),
    Pair("packed", packed, "bits", algorithms=PACKED, params={"leaf_levels": 7, **NUMBERS}),
    Pair("table", table, 0.0, algorithms=STUMPS, params={"weak_learner": "stump", **NUMBERS}),
    Pair("mcb.h", in_c, "bits"),
    Pair("integers", integers, "bits", algorithms=VOTES, params=NUMBERS, data={"n_classes": 5}),
    Pair("onnx", onnx, 0.0, algorithms=WEIGHTED, params=LINEAR, needs="onnxruntime"),
    Pair("treelite", treelite, 0.0, algorithms=WEIGHTED, params=LINEAR, needs="treelite"),
    Pair("LightGBM", lightgbm, 0.0, algorithms=FOREIGN, needs="lightgbm"),
    Pair("XGBoost", xgboost, 0.0, algorithms=FOREIGN, needs="xgboost"),
    Pair("scikit-learn", forest, 0.0, algorithms=FOREIGN, needs="sklearn"),
)
BY_NAME = {pair.name: pair for pair in PAIRS}


@contextlib.contextmanager
def settings(case):
    """Threads also for little work, and data that count as large or not."""
    values = {"SMALL_WORK": 0, "SMALL_DATA": 0} if case.large else {"SMALL_WORK": 0}
    booster = get_class(case.algorithm).booster
    with contextlib.ExitStack() as stack:
        for module in [
            module for name, module in sys.modules.items() if name.startswith("pymcboost")
        ]:
            for name in values.keys() & vars(module).keys():
                stack.enter_context(mock.patch.object(module, name, values[name]))
        if BY_NAME[case.pair].restarts and isinstance(booster.restart_every, int):
            stack.enter_context(mock.patch.object(booster, "restart_every", case.n_rounds))
        yield


# Both paths refuse the case, its model hangs on rounding, or there is no package that the pair needs.
NOTHING_SAID = ("refused", "unsteady", "missing")


def difference(case):
    """What is different in a case, in words; None where the paths agree, or one of `NOTHING_SAID`."""
    pair = BY_NAME[case.pair]
    outcomes = []
    if pair.needs is not None and importlib.util.find_spec(pair.needs) is None:
        return "missing"
    with settings(case), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in (pair.first, pair.other):
            try:
                outcomes.append(path(case, data_of(case)))
            except ValueError as error:
                outcomes.append(error)
            except Exception:
                return f"an error in {path.__name__}: {traceback.format_exc()}"
    first, second = outcomes[1] if isinstance(outcomes[1], tuple) else outcomes
    refusals = [isinstance(one, ValueError) for one in (first, second)]
    if any(refusals):
        return (
            "refused"
            if all(refusals)
            else f"one path is refused: {first if refusals[0] else second}"
        )
    what = _unlike(pair.agree, first, second)
    return "unsteady" if what and case.algorithm in pair.unsteady and _is_unsteady(case) else what


def _is_unsteady(case):
    """Whether weights that are moved by 1e-7 change the first path."""
    data = data_of(case)
    weight = np.ones(len(data.y)) if data.weight is None else data.weight
    with settings(case), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = BY_NAME[case.pair].first
        expected = path(case, data)
        for _ in range(5):
            moved = weight * (1 + 1e-7 * data.rng.normal(size=len(weight)))
            if _unlike(1e-6, expected, path(case, replace(data, weight=moved))):
                return True
    return False


def _unlike(agree, first, second):
    """How two outcomes differ, if they do."""
    if first.scores.shape != second.scores.shape:
        return f"scores of the shapes {first.scores.shape} and {second.scores.shape}"
    most = float(np.abs(first.scores - second.scores).max(initial=0))
    if isinstance(agree, str):
        same = np.array_equal(first.scores, second.scores, equal_nan=True)
        what = None if same else f"scores differ by up to {most:.3g}"
        return (
            "the bytes differ" if same and agree == "bytes" and first.file != second.file else what
        )
    allowed = (
        agree * float(np.abs(first.scores).max(initial=1))
        if second.tolerance is None
        else second.tolerance
    )
    return (
        None if most <= allowed else f"scores differ by up to {most:.3g}, allowed are {allowed:.3g}"
    )


def shrunk(case):
    """The case with fewer rounds and rows, as long as there is a difference."""
    for name, least in (("n_rounds", 1), ("n_rows", 2 * case.n_classes)):
        while getattr(case, name) > least:
            smaller = replace(case, **{name: max(least, getattr(case, name) // 2)})
            if difference(smaller) in (None, *NOTHING_SAID):
                break
            case = smaller
    return case


def run(numbers, only=""):
    """Go through cases; how many there were and of how many nothing is said, and a text for each difference."""
    counts = Counter()
    texts = []
    for number in numbers:
        case = draw(number)
        if only not in case.pair and only not in case.algorithm:
            continue
        counts["cases"] += 1
        outcome = difference(case)
        if outcome in NOTHING_SAID:
            counts[outcome] += 1
        elif outcome is not None:
            small = shrunk(case)
            texts.append(
                f"case {number}: {outcome}\n{case}\n  smaller: {difference(small)}\n{small}"
            )
            print(texts[-1], flush=True)
    return counts, texts


def main():
    """Print the differences of as many cases as are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000, help="number of cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="one case alone")
    parser.add_argument("--only", default="", help="text in the name of the pair or algorithm")
    options = parser.parse_args()
    first, count = (options.first, options.count) if options.case is None else (options.case, 1)
    counts, texts = run(range(first, first + count), options.only)
    use = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = sum(one.ru_utime + one.ru_stime for one in use)
    print(
        f"{counts['cases']} cases, {counts['refused']} refused by both paths, {counts['unsteady']} that hang on "
        f"rounding, {counts['missing']} without their package, {len(texts)} differences, {seconds:.0f} s of CPU time"
    )
    return 1 if texts else 0


if __name__ == "__main__":
    sys.exit(main())
