"""Checkpoints: files from which an interrupted training continues, to the same bytes as without the interruption."""

import base64
import math
import os
import time
import zlib
from collections.abc import Callable
from os import PathLike, fspath
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from pymcboost import files
from pymcboost._version import __version__
from pymcboost._warn import warn
from pymcboost.comm import row_numbers
from pymcboost.model.file import MAGIC
from pymcboost.model.model import Model, load_model
from pymcboost.threads import counted
from pymcboost.training.booster import Previous
from pymcboost.training.callbacks import Callback, as_callbacks
from pymcboost.training.estimator import BoostingClassifier
from pymcboost.training.gains import Gains
from pymcboost.training.loop import as_column

Estimator = TypeVar("Estimator", bound=BoostingClassifier)
FORMAT = 4
AGAIN = "remove the file, or name another one, to start again"
# Kinds of arrays that a file can hold: booleans, numbers, dates and text.
ARRAY_KINDS = "biufcMmSU"
KEYS = {"format", "rounds", "best_round", "seed", "data", "arrays", "best"}
CV_ARRAYS = {"rounds", "mean", "folds"}
CV_NUMBERS = {"best_round", "n_estimators"}
# Prefixes of the names of all metrics except the first.
CV_OF_METRICS = ("mean_", "folds_")
# Descriptions of the data of a training, for messages about differences.
DATA = {
    "X": "the features",
    "y": "the labels",
    "weight": "the sample weights",
    "init_score": "the init_score",
    "validation": "the validation set",
    "groups": "the groups",
}
# Number of values whose checksums are computed at once.
CHUNK = 1 << 16
# Upper limit of the seed drawn for random_state=None, as in scikit-learn.
SEEDS = 2**32


class Checkpoint(Callback):
    """Checkpoint file from which an interrupted or killed training can continue.

    Use it for long trainings, as a callback or through its method `fit`. The file is a model file of the rounds done so
    far, and it can be loaded and scored like any other. It is replaced in one step, so a complete state exists at any
    moment. A continued training gives a byte-identical model. Stage-wise algorithms that rebuild their weights every
    512 rounds, such as MCBoost, write checkpoints only at these rounds.

    In a distributed training, every worker needs the checkpoint among its callbacks. The first worker reads and writes
    the file. The training may continue with another number of workers.

    Parameters
    ----------
    path : str or path-like
        Path of the file.
    every : float, default=300.0
        Seconds between two checkpoints. 0 writes one after every round.
    note : callable, default=None
        Function that is called with a line of text when a training continues from the file.

    Attributes
    ----------
    resumed : int
        Number of rounds that the last `fit` found in the file.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import ABCMartClassifier, Checkpoint
    >>> X, y = load_iris(return_X_y=True)
    >>> checkpoint = Checkpoint("iris.part", every=60)
    >>> model = checkpoint.fit(ABCMartClassifier(n_estimators=20), X, y)
    >>> checkpoint.remove()
    """

    shared = True

    def __init__(
        self,
        path: str | PathLike[str],
        every: float = 300.0,
        note: Callable[[str], object] | None = None,
    ):
        if not every >= 0:
            raise ValueError(f"every={every!r} is not allowed; it must be a number of seconds >= 0")
        self.path = fspath(path)
        self.every = every
        self.note = note
        self.resumed = 0
        self.more: dict[str, Any] = {}  # further entries of the file's meta, as in a model file

    def fit(
        self,
        estimator: Estimator,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        **more: Any,
    ) -> Estimator:
        """Fit an estimator, continuing from the file if it exists.

        This is the same as passing the checkpoint in ``callbacks`` to the ``fit`` of the estimator. The file is written
        during training, at Ctrl-C, and before the cross-validation models for a calibration. It is not deleted at the
        end: call `remove` when the model has been saved.

        Parameters
        ----------
        estimator : estimator
            Estimator of pymcboost with ``warm_start=False`` and an integer or None as ``random_state``.
        X : array-like, sparse matrix or Dataset
            Training features; see ``fit`` of the estimator.
        y : array-like, default=None
            Class labels. Leave it out if X is a `Dataset`.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.
        X_val, y_val : array-like, default=None
            Validation set.
        **more : dict
            Further arguments of ``fit`` of the estimator.

        Returns
        -------
        estimator : estimator
            The fitted estimator.

        Raises
        ------
        ValueError
            If the file belongs to a training with other data or parameters. Only ``n_estimators`` may differ.
        ModelFormatError
            If the file is damaged or not a model.
        """
        if sample_weight is not None:
            more["sample_weight"] = sample_weight
        callbacks = [*as_callbacks(more.pop("callbacks", ())), self]
        labels: Any = y  # None beside a Dataset
        return estimator.fit(X, labels, X_val=X_val, y_val=y_val, callbacks=callbacks, **more)

    def remove(self) -> None:
        """Delete the file, if it exists, and temporary files that killed processes have left.

        Raises
        ------
        OSError
            If the path is not a regular file that a checkpoint wrote. It is not deleted then.
        """
        files.remove(self.path, MAGIC, "checkpoint")

    # -- called by the training --------------------------------------------------------------------------------------

    def begin(self, booster):
        """Read the file. Without a random_state, all parts of the training must use the seed stored in it."""
        params = booster.params
        if params.warm_start:
            raise ValueError(
                "warm_start adds rounds to the estimator's own model, a checkpoint to the "
                "model in its file; use only one of them"
            )
        if booster.goes_on:
            raise ValueError(
                "init_model adds rounds to a given model, a checkpoint to the model in its "
                "file; use only one of them"
            )
        if isinstance(params.random_state, np.random.RandomState):
            raise ValueError(
                "random_state is a RandomState instance, whose state a checkpoint cannot "
                "store; give an integer or None"
            )
        if not booster.resumable:
            raise ValueError(
                f"{booster.name} cannot write checkpoints: its rounds are merged into one "
                "machine, from which training could not continue exactly; use warm_start to "
                "add rounds"
            )
        self._workers = booster.workers
        self._best = None
        self._last = None
        self.resumed = 0
        self._saved = self._read_for_all()
        if self._saved is None:
            self.seed = self._workers.broadcast(int.from_bytes(os.urandom(8), "little") % SEEDS)
        else:
            self.seed = self._saved["seed"]
            self._best = self._saved["best"]

    def resume(self, plan):
        """Return the rounds in the file, if they belong to this training."""
        self._data = _identity(plan.dataset, plan.validation)
        self._written = 0
        self._next = time.monotonic() + self.every
        if self._saved is None:
            return None
        saved = self._saved
        self._saved = None
        model = saved["model"]
        rounds = saved["rounds"]
        differences = _differences(model.meta, plan.meta, plan.defaults) or _data_differences(
            saved["data"], self._data
        )
        if differences:
            raise ValueError(
                f"{self._name()} is the checkpoint of a different training: "
                f"{'; '.join(differences)}. Use the same parameters and data, or {AGAIN}"
            )
        if plan.n_estimators != "auto" and rounds > plan.n_estimators:
            raise ValueError(
                f"{self._name()} has {counted(rounds, 'round')}, more than "
                f"n_estimators={plan.n_estimators}. Increase n_estimators, or {AGAIN}"
            )
        if model.meta.get("version") != __version__:
            warn(
                f"{self._name()} was written by pymcboost {model.meta.get('version')}, but "
                f"this is {__version__}: the model may differ slightly from that of an "
                "uninterrupted training"
            )
        self.resumed = rounds
        self._written = rounds
        if self.note is not None:
            self.note(f"continuing from the {counted(rounds, 'round')} in {self._name()}")
        state = {
            name: saved[name]
            for name in ("history", "gain", "best_gain", "best_round", "cv_results")
        }
        return Previous(model, rounds, best_model=saved["best"], **state)

    def after_round(self, state):
        """Remember the round, and write the file if it is time.

        Only worker 0 writes, because all workers have the same model.
        """
        if self._workers.rank:
            return
        if state.best_round == state.n_rounds:
            self._best = state.bytes_of_best()
        if state.n_rounds % (state.booster.restart_every or 1):
            return
        self._last = (
            state.n_rounds,
            state.gains,
            state.best_gain,
            state.best_round,
            state.cv_results,
        )
        if time.monotonic() >= self._next:
            self._write(state.model, state.history, *self._last)
            self._next = time.monotonic() + self.every

    def close(self, state):
        """Write the rounds that a training can continue from: after Ctrl-C, or before the models of the folds."""
        if state is None or self._last is None:
            return
        if not (state.interrupted or (state.complete and state.folds_follow)):
            return
        rounds, *gains_and_best = self._last
        if self._written >= rounds:
            return
        # Cutting gives the model of the first rounds only if later rounds do not change earlier ones.
        if rounds == state.n_rounds or state.model().has_stages:
            history = {name: values[:rounds] for name, values in state.history.items()}
            self._write(
                lambda **meta: _first_rounds(state.model(**meta), rounds),
                history,
                rounds,
                *gains_and_best,
            )

    # -- the file --------------------------------------------------------------------------------------------------

    def _name(self):
        return os.fsdecode(self.path)

    def _write(self, make_model, history, rounds, gain, best_gain, best_round, cv_results):
        """Write the rounds of a model to the file, or warn that it failed."""
        arrays = {}
        for name, sums in {"gain": gain, "best_gain": best_gain}.items():
            arrays[f"{name}.column"] = sums.column.astype(np.int32)
            arrays[f"{name}.value"] = sums.value
        for name, values in history.items():
            column = as_column(values)
            if column.dtype.kind in ARRAY_KINDS:
                arrays[f"history.{name}"] = column
        for name, values in (cv_results or {}).items():
            arrays[f"cv.{name}"] = np.asarray(values)
        meta = {
            "format": FORMAT,
            "rounds": rounds,
            "best_round": best_round,
            "seed": self.seed,
            "data": self._data,
            "arrays": {name: _encoded(array) for name, array in arrays.items()},
        }
        if self._best is not None:
            meta["best"] = base64.b64encode(self._best).decode()
        try:
            files.write(
                self.path, make_model(checkpoint=meta, **self.more).to_bytes(), "checkpoint"
            )
            self._written = rounds
        except (OSError, ValueError) as error:  # hours of training are worth more than the file
            warn(f"could not write a checkpoint after round {rounds}: {error}")

    def _read_for_all(self):
        """Read the file on worker 0 and send it to all workers, with any error. None if there is no file."""
        if self._workers.size == 1:  # without a copy of the model as bytes
            return self._read()
        saved = None
        error = None
        if self._workers.rank == 0:
            try:
                saved = self._read()
            except (OSError, ValueError) as caught:
                error = caught
        text = None if saved is None else saved["model"].to_bytes()
        text, error = self._workers.broadcast((text, error))
        if error is not None:
            raise error
        if text is None or saved is not None:
            return saved
        model = Model.from_bytes(text)
        return _decoded(model, model.meta["checkpoint"])

    def _read(self):
        """Read the file. None if it is missing or empty and can be written."""
        files.check_target(self.path, "checkpoint")
        try:
            if not os.stat(self.path).st_size:
                return None
        except FileNotFoundError:
            return None
        model = load_model(self.path)
        meta = model.meta.get("checkpoint")
        if not isinstance(meta, dict):
            raise ValueError(f"{self._name()} is a model, but not a checkpoint; {AGAIN}")
        try:
            saved = _decoded(model, meta)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            saved = None
        if saved is None:
            raise ValueError(
                f"{self._name()} is not a checkpoint that pymcboost {__version__} can read; {AGAIN}"
            )
        return saved


def _encoded(array):
    """Encode an array for JSON. It is not compressed, so a file cannot ask for more memory than it has bytes."""
    data = base64.b64encode(array.tobytes()).decode()
    return {"dtype": array.dtype.str, "shape": array.shape, "data": data}


def _array(entry):
    """Decode what `_encoded` made; ValueError if type, shape and bytes do not fit together."""
    dtype = np.dtype(entry["dtype"])
    shape = entry["shape"]
    data = base64.b64decode(entry["data"], validate=True)
    if dtype.kind not in ARRAY_KINDS or not dtype.itemsize:
        raise ValueError(f"{dtype} arrays are not supported")
    is_shape = all(type(size) is int and size >= 0 for size in shape)
    if not is_shape or math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"{len(data)} bytes do not form a {dtype} array of shape {shape}")
    return np.ndarray(shape, dtype, data).copy()


def _decoded(model, meta):
    """Decode what `Checkpoint._write` wrote; None if the parts do not fit together."""
    if meta["format"] != FORMAT or not meta.keys() <= KEYS:
        return None
    arrays = {name: _array(entry) for name, entry in meta["arrays"].items()}
    gain, best_gain = (
        _gains(arrays.pop(f"{name}.column"), arrays.pop(f"{name}.value"), model.n_features_in_)
        for name in ("gain", "best_gain")
    )
    history = {}
    cv_results = {}
    for name, array in arrays.items():
        kind, _, key = name.partition(".")
        if kind == "history":
            history[key] = array
        elif kind == "cv" and key in CV_NUMBERS and array.shape == () and array.dtype.kind in "iu":
            cv_results[key] = int(array)
        elif kind == "cv" and _is_cv_array(key) and array.ndim and array.dtype.kind in "iuf":
            cv_results[key] = array
        else:
            return None
    best = base64.b64decode(meta["best"], validate=True) if "best" in meta else None
    saved = {
        "model": model,
        "best": best,
        "rounds": meta["rounds"],
        "best_round": meta["best_round"],
        "seed": meta["seed"],
        "data": dict(meta["data"]),
        "history": history,
        "cv_results": cv_results or None,
        "gain": gain,
        "best_gain": best_gain,
    }
    if best is not None:
        Model.from_bytes(best)  # an error if it is not a model
    return saved if _fits_together(saved) else None


def _fits_together(saved):
    """Whether numbers, columns and data of a decoded checkpoint belong to its model."""
    model = saved["model"]
    rounds = saved["rounds"]
    best = saved["best_round"]
    seed = saved["seed"]
    cv_results = saved["cv_results"]
    return (
        (isinstance(rounds, int) and rounds >= 0)
        and (isinstance(seed, int) and 0 <= seed < SEEDS)
        and (best is None or (isinstance(best, int) and 0 < best <= rounds))
        and saved["data"].get("features") == model.n_features_in_
        and (not model.has_stages or rounds == model.n_rounds)
        and all(values.ndim and len(values) == rounds for values in saved["history"].values())
        and (cv_results is None or cv_results.keys() >= CV_ARRAYS | CV_NUMBERS)
    )


def _is_cv_array(key):
    return key in CV_ARRAYS or key.startswith(CV_OF_METRICS)


def _gains(column, value, n_columns):
    """Build `Gains` from the columns of a file, in ascending order, and their sums; ValueError if they are invalid."""
    fits = (
        column.dtype == np.int32
        and value.dtype == np.float64
        and column.ndim == 1
        and column.shape == value.shape
        and (np.diff(column.astype(np.int64), prepend=-1, append=n_columns) > 0).all()
    )
    if not fits:
        raise ValueError("these are no gains of columns")
    return Gains(n_columns, column.astype(np.int64), value)


def _identity(dataset, validation):
    """Fingerprint of the data of a training: a dictionary that can be stored as JSON.

    Checksums are sums over the rows with their numbers. The division of the rows among workers does not change them.
    """
    X = dataset.X
    number = row_numbers(dataset.comm, dataset.n_rows)
    parts = {"y": dataset.codes, "weight": dataset.weight, "init_score": dataset.init_score}
    sums = [
        _checksum(X, number, np.float32),
        *(_checksum(array, number) for array in parts.values()),
    ]
    n_rows, *sums = dataset.comm.sum(np.array([len(number), *sums])).tolist()
    data = {"rows": n_rows, "features": X.shape[1], "sparse": hasattr(X, "indptr")}
    data |= zip(("X", *parts), sums, strict=True)
    data["y"] = [zlib.crc32(repr(dataset.classes.tolist()).encode()), data["y"]]
    data["groups"] = None
    if dataset.groups is not None:
        data["groups"] = zlib.crc32(repr(dataset.groups.tolist()).encode())
    data["validation"] = None
    if validation is not None:
        data["validation"] = [_identity_of_set(each_set) for each_set in validation.sets]
    return data


def _identity_of_set(validation_set):
    """Name, sizes and checksums of a validation set."""
    number = np.arange(len(validation_set.codes))
    parts = validation_set.codes, validation_set.weight, validation_set.init_score
    return [
        validation_set.name,
        *validation_set.X.shape,
        _checksum(validation_set.X, number, np.float32),
        *(_checksum(a, number) for a in parts),
    ]


def _checksum(array, number, dtype=np.float64):
    """Sum of hashes of the rows, each combined with its row number; 0 without an array."""
    if array is None:
        return 0
    n_columns = math.prod(array.shape[1:])
    total = np.zeros(1, dtype=np.uint64)
    factor = _mixed(np.arange(n_columns, dtype=np.uint64)) | np.uint64(1)
    bits = f"u{np.dtype(dtype).itemsize}"
    step = max(1, CHUNK // max(1, n_columns))
    if hasattr(array, "tocsr"):
        array = array.tocsr()
        step = max(1, len(number))
    for begin in range(0, len(number), step):
        part = array[begin : begin + step]
        if hasattr(part, "tocsr"):
            data = part.data.astype(dtype).view(bits).astype(np.uint64)
            words = type(part)((data, part.indices, part.indptr), shape=part.shape)
        else:
            part = np.ascontiguousarray(part, dtype=dtype).reshape(-1, n_columns)
            words = part.view(bits).astype(np.uint64)
        row_number = number[begin : begin + step].astype(np.uint64)
        total += _mixed(_mixed(words @ factor) + row_number).sum()
    return int(total.view(np.int64)[0])


def _mixed(z):
    """Mix 64-bit integers so that every input bit affects all output bits."""
    z = (z + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(29))


def _data_differences(before, now):
    """Describe the differences between the data of a checkpoint and the current data."""
    sizes = [name for name in ("rows", "features") if before.get(name) != now[name]]
    if sizes:
        return [
            f"the data had {before.get(name)} {name}, now they have {now[name]}" for name in sizes
        ]
    if before.get("sparse") != now["sparse"]:
        if now["sparse"]:
            return ["the features were dense, now they are sparse"]
        return ["the features were sparse, now they are dense"]
    return [f"{words} differ" for name, words in DATA.items() if before.get(name) != now[name]]


def _differences(before, now, defaults):
    """Describe the differences between a new training and the model's: algorithm and parameters."""
    if before.get("algorithm") != now["algorithm"]:
        return [f"the algorithm was {before.get('algorithm')}, now it is {now['algorithm']}"]
    old = before.get("params", {})
    new = now["params"]
    # other versions may store other defaults
    old_values = {**defaults, **old}
    new_values = {**defaults, **new}
    return [
        f"{name} was {_shown(old, name)}, now it is {_shown(new, name)}"
        for name in sorted({*old, *new} - {"n_estimators"})
        if old_values.get(name) != new_values.get(name)
    ]


def _shown(params, name):
    return repr(params[name]) if name in params else "the default"


def _first_rounds(model, rounds):
    """Cut a model to its first rounds, if it has rounds."""
    return model.truncate(rounds) if model.has_stages else model
