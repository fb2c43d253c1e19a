"""Checkpoints: files from which a training that was stopped goes on, to the same bytes as without a stop."""

import base64
import io
import os
import time
import warnings
import zlib

import numpy as np

from pymcboost import __version__, files
from pymcboost.model.file import MAGIC
from pymcboost.model.model import load_model
from pymcboost.threads import counted

FORMAT = 1
AGAIN = "remove the file (or name another) to begin anew"
# The seed that stands for random_state=None is drawn below this, as scikit-learn takes them.
SEEDS = 2**32
CHUNK = 1 << 20
# What the fingerprint of the data holds, in words.
WORDS = {
    "X": "the features",
    "y": "the labels",
    "weight": "the weights of the rows",
    "validation": "the validation set",
}


class Checkpoint:
    """A file from which a training that was killed or interrupted goes on.

    The file is a model file of the rounds done so far, which can be loaded and scored like any other. It is replaced in
    one step: at any moment the last state is there in full. A training that goes on gives the same bytes as one without
    a stop. (Stage-wise algorithms that rebuild their weights every 512 rounds, as MCBoost, have checkpoints there.)

    Parameters
    ----------
    path : str or path-like
    every : float, default=300
        Seconds from one writing to the next; 0 writes after every round.
    note : callable, optional
        Is given a line of text when a training goes on.

    Attributes
    ----------
    resumed : int
        Rounds that the last `fit` found in the file.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import ABCMartClassifier, Checkpoint
    >>> X, y = load_iris(return_X_y=True)
    >>> checkpoint = Checkpoint("iris.part", every=60)
    >>> model = checkpoint.fit(ABCMartClassifier(n_estimators=20), X, y)
    >>> checkpoint.remove()
    """

    def __init__(self, path, every=300.0, note=None):
        self.path, self.every, self.note = path, every, note
        self.resumed = 0

    def fit(self, estimator, X, y, sample_weight=None, X_val=None, y_val=None):
        """Fit an estimator, from the rounds in the file on where there is one.

        The file is written as training goes on, and once more at Ctrl-C. It stays: call `remove` when the model is in a
        safe place.

        Parameters
        ----------
        estimator : estimator of this package
            Without ``warm_start``.
        X, y, sample_weight, X_val, y_val
            As for the estimator's own ``fit``.

        Returns
        -------
        estimator

        Raises
        ------
        ValueError
            If the file belongs to another training: other data, or other parameters than ``n_estimators``.
        ModelFormatError
            If the file is broken or no model at all.
        """
        if estimator.warm_start:
            raise ValueError(
                "warm_start adds rounds to the estimator's own model, a checkpoint to that of its file: use one"
            )
        if estimator.makes_machines:
            raise ValueError(
                f"{type(estimator).__name__} keeps no checkpoints: its rounds are merged into one machine, from which "
                "a training would not go on to the same bytes; use warm_start to add rounds"
            )
        self._saved = self._read()
        self.resumed = 0
        # Where the estimator has no seed, the same one must serve all parts of the training.
        self.seed = int.from_bytes(os.urandom(8), "little") % SEEDS if self._saved is None else self._saved["seed"]
        self._last = None
        # Bytes of the model of the best round, where cutting the last one would not give it.
        self.best = None if self._saved is None else self._saved["best"]
        estimator._checkpoint = self
        try:
            estimator.fit(X, y, sample_weight=sample_weight, X_val=X_val, y_val=y_val)
        except KeyboardInterrupt:
            self._write_last(estimator)
            raise
        finally:
            estimator.__dict__.pop("_checkpoint", None)
            self._saved = None
        return estimator

    def remove(self):
        """Remove the file, if it is there, and what killed processes have left beside it.

        Raises
        ------
        OSError
            If what is there is not a regular file of ours: that stays.
        """
        files.remove(self.path, MAGIC, "checkpoint")

    # -- called by BoostingClassifier ------------------------------------------------------------------------------

    def begin(self, estimator, X, classes, codes, weight, validation):
        """Take the fingerprint of the data; (model, history, gain, gain of the best round) to go on from, or None."""
        self._data = fingerprint(X, classes, codes, weight, validation)
        self._written, self._next = 0, time.monotonic() + self.every
        if self._saved is None:
            return None
        saved, model = self._saved, self._saved["model"]
        found = _differences(model.meta, estimator) or _data_differences(saved["data"], self._data)
        if found:
            raise ValueError(
                f"{self._name()} is the checkpoint of another training: {'; '.join(found)}. Train with the parameters "
                f"and data of then, or {AGAIN}"
            )
        rounds = saved["rounds"]
        if rounds > estimator.n_estimators:
            raise ValueError(
                f"{self._name()} has {counted(rounds, 'round')}, more than n_estimators={estimator.n_estimators}. "
                f"Raise that, or {AGAIN}"
            )
        if model.meta.get("version") != __version__:
            warnings.warn(
                f"{self._name()} was written by pymcboost {model.meta.get('version')}, this is {__version__}: the "
                "model may differ slightly from one without a stop",
                stacklevel=5,
            )
        self.resumed = self._written = rounds
        if self.note is not None:
            self.note(f"going on from the {counted(rounds, 'round')} in {self._name()}")
        return model, saved["history"], saved["gain"], saved["best_gain"]

    def after_round(self, estimator, make_model, history, gain, best_gain):
        """Remember the round, and write the file if it is time; ``make_model(meta)`` makes the model so far."""
        rounds = estimator.n_estimators_
        if rounds % (estimator.restart_every or 1):
            return
        self._last = rounds, gain, best_gain
        if time.monotonic() >= self._next:
            self._write(make_model, history, *self._last)
            self._next = time.monotonic() + self.every

    # -- the file --------------------------------------------------------------------------------------------------

    def _name(self):
        return os.fsdecode(self.path)

    def _write(self, make_model, history, rounds, gain, best_gain):
        state = {"gain": gain, "best_gain": best_gain}
        state.update((f"history.{name}", np.asarray(values)) for name, values in history.items())
        file = io.BytesIO()
        np.savez_compressed(file, **state)
        meta = {"format": FORMAT, "rounds": rounds, "seed": self.seed, "data": self._data}
        if self.best is not None:
            meta["best"] = base64.b64encode(self.best).decode()
        meta["state"] = base64.b64encode(file.getvalue()).decode()
        try:
            files.write(self.path, make_model({"checkpoint": meta}).to_bytes(), "checkpoint")
            self._written = rounds
        except (OSError, ValueError) as error:  # hours of training are worth more than the file
            warnings.warn(f"no checkpoint after round {rounds}: {error}", stacklevel=5)

    def _write_last(self, estimator):
        model = getattr(estimator, "model_", None)
        done = getattr(estimator, "n_estimators_", 0)
        if model is None or not done:
            return
        if model.has_stages:
            if self._last is None or done < self._last[0]:
                return
            rounds, gain, best_gain = self._last
            model = model.truncate(rounds)
        else:  # its rounds cannot be told apart, but all that are done are whole
            rounds, gain = done, estimator.gain_
            best_gain = gain if self._last is None else self._last[2]
        if rounds <= self._written:
            return
        history = {name: values[:rounds] for name, values in estimator.history_.items()}
        self._write(lambda more: _with_meta(model, more), history, rounds, gain, best_gain)

    def _read(self):
        """What the file holds, None where there is none."""
        try:
            if not os.stat(self.path).st_size:
                return None
        except FileNotFoundError:
            return None
        model = load_model(self.path)
        meta = model.meta.get("checkpoint")
        if not isinstance(meta, dict):
            raise ValueError(f"{self._name()} is a model, but not a checkpoint; {AGAIN}")
        if meta.get("format") != FORMAT or (model.has_stages and meta.get("rounds") != model.n_rounds):
            raise ValueError(f"{self._name()} is not a checkpoint that pymcboost {__version__} can use; {AGAIN}")
        with np.load(io.BytesIO(base64.b64decode(meta["state"])), allow_pickle=False) as state:
            arrays = dict(state)
        history = {
            name.removeprefix("history."): array for name, array in arrays.items() if name.startswith("history.")
        }
        best = base64.b64decode(meta["best"]) if "best" in meta else None
        return {
            "model": model,
            "best": best,
            "rounds": meta["rounds"],
            "seed": meta["seed"],
            "data": meta["data"],
            "history": history,
            "gain": arrays["gain"],
            "best_gain": arrays["best_gain"],
        }


def fingerprint(X, classes, codes, weight, validation=None):
    """What training data look like: sizes and checksums, a dictionary that JSON keeps.

    Parameters
    ----------
    X : ndarray or scipy.sparse matrix (n, d)
    classes : ndarray (K,)
    codes : ndarray of int (n,)
        Positions of the labels in ``classes``.
    weight : ndarray (n,)
    validation : object with ``X`` and ``codes``, optional

    Returns
    -------
    dict
    """
    labels = "\0".join(str(label) for label in classes.tolist()).encode()
    return {
        "rows": X.shape[0],
        "features": X.shape[1],
        "sparse": hasattr(X, "indptr"),
        "X": _crc_of_features(X),
        "y": _crc(codes, np.int64, zlib.crc32(labels)),
        "weight": _crc(weight, np.float64),
        "validation": None
        if validation is None
        else [*validation.X.shape, _crc(validation.codes, np.int64, _crc_of_features(validation.X))],
    }


def _crc(array, dtype, start=0):
    step = max(1, CHUNK // max(1, array[:1].size))
    for begin in range(0, len(array), step):
        start = zlib.crc32(np.ascontiguousarray(array[begin : begin + step], dtype=dtype), start)
    return start


def _crc_of_features(X):
    if not hasattr(X, "indptr"):
        return _crc(X, np.float32)
    return _crc(X.data, np.float32, _crc(X.indices, np.int64, _crc(X.indptr, np.int64)))


def _differences(before, estimator):
    """What a new training of the estimator has other than the model's: algorithm and parameters."""
    now = estimator._meta()
    if before.get("algorithm") != now["algorithm"]:
        return [f"the algorithm was {before.get('algorithm')}, it is {now['algorithm']}"]
    old, new = before.get("params", {}), now["params"]
    return [
        f"{name} was {old.get(name)!r}, it is {new.get(name)!r}"
        for name in sorted({*old, *new} - {"n_estimators"})
        if old.get(name) != new.get(name)
    ]


def _data_differences(before, now):
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
    return [f"{words} differ" for name, words in WORDS.items() if before.get(name) != now[name]]


def _with_meta(model, more):
    return type(model).from_ensemble(model.ensemble, model.classes_, link=model.link, meta={**model.meta, **more})
