"""Estimators for distributed training with Dask.

Each has the parameters of the estimator whose name follows "Dask", and trains on Dask arrays and data frames on the
workers that hold their partitions. The model is byte-identical to the one that `fit` of that estimator trains on the
same rows in memory. (For MCBoost, this is `fit` with ``comm=pymcboost.comm.Alone()``, which computes sums as the
workers do.) Workers exchange sums through XGBoost's collective, so one of the packages xgboost and xgboost-cpu is
needed.
"""

import copy
import math
import socket
import uuid
from contextlib import suppress
from typing import Any, ClassVar, Self

import numpy as np

from pymcboost.algorithms._losses import with_link
from pymcboost.comm import CollectiveWorkers, WorkerError
from pymcboost.comm.collective import collective
from pymcboost.registry import ALGORITHMS, load
from pymcboost.training.divided import labels_of_parts, rows_of_all
from pymcboost.training.parameters import OUT_OF_FOLD, Parameter, checked, document, estimator
from pymcboost.training.prediction import check_is_fitted
from pymcboost.training.validation import given_sets

NEEDED = "pymcboost.dask needs Dask: install the packages dask and distributed"
# Types of errors that follow from an error of another worker.
OF_OTHERS = ("WorkerError", "XGBoostError")
# On a worker: trainings that were interrupted. The client waits this many seconds for workers to be notified, and as
# long for them to stop.
STOPPED: set[str] = set()
STOPPING = 10


def _parts(name, collection, X="X", count=None):
    """Partitions of a Dask collection by rows, in order; an array is a single partition.

    ``X`` is its name in messages.
    """
    if not hasattr(collection, "to_delayed"):
        raise TypeError(
            f"{name} must be a Dask array, data frame or series, not {type(collection).__name__}"
        )
    _check_whole_rows(name, collection)
    delayed_parts = list(np.ravel(collection.to_delayed()))
    if count is not None and len(delayed_parts) != count:
        raise ValueError(
            f"{name} has {len(delayed_parts)} partitions, but {X} has {count}; give both the same "
            "partitions"
        )
    return delayed_parts


def _check_whole_rows(name, collection):
    """Refuse an array whose rows are split into chunks of columns."""
    blocks = getattr(collection, "numblocks", (0, 1))
    if len(blocks) > 1 and blocks[1] > 1:
        raise ValueError(
            f"{name} is split into {blocks[1]} chunks of columns; keep rows whole with "
            f"{name}.rechunk({{1: -1}})"
        )


def _joined(parts):
    """Join the X, y and weights of parts; None for missing ones."""
    if not parts:
        return None, None, None
    X, y, weight = zip(*parts, strict=True)
    if weight[0] is None:
        return rows_of_all(X), labels_of_parts(y), None
    return rows_of_all(X), labels_of_parts(y), rows_of_all(weight)


def _lengths(part):
    """Numbers of rows of X, y and weights, if given."""

    def length(array):
        if array is None:
            return None
        return array.shape[0] if hasattr(array, "shape") else len(array)  # lists of labels

    return [length(array) for array in part]


def _stop(training):
    """Mark a training on this worker as interrupted."""
    STOPPED.add(training)


def _task(local, parts, begins, validation_parts, context, training):
    """Run `_train` in the calling thread, with workers that connect through ``context``."""
    failure = None
    try:
        with collective().CommunicatorContext(**context):
            try:
                return _train(local, parts, begins, validation_parts, training)
            except Exception as error:
                failure = error
                raise
    except Exception:  # leaving the context also fails if other workers have left it
        if failure is None:
            raise
        raise failure from None


def _train(local, parts, begins, validation_parts, training):
    """Train on the parts of one worker; return the fitted estimator on the first worker, None on the others."""
    row_number = np.concatenate(
        [begin + np.arange(_lengths(part)[0]) for part, begin in zip(parts, begins, strict=True)]
    )
    workers = CollectiveWorkers(lambda: training in STOPPED, row_number)
    X, y, weight = _joined(parts)
    X_val, y_val, weight_val = _joined(validation_parts)
    validation = {"X_val": X_val, "y_val": y_val, "sample_weight_val": weight_val}
    local.fit(X, y, sample_weight=weight, comm=workers, **validation)
    for name in OUT_OF_FOLD:  # they cover only the rows of this worker
        vars(local).pop(name, None)
    return local if workers.rank == 0 else None


def _address(client):
    """Address of this process that the workers can reach."""
    host = client.scheduler.address.rpartition("/")[2].rpartition(":")[0].strip("[]")
    if not host or client.scheduler.address.startswith("inproc"):
        return "127.0.0.1"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))
        return probe.getsockname()[0]


def _without(entries, names):
    """The entries of a dict except those with these names."""
    return {name: value for name, value in entries.items() if name not in names}


class DaskClassifier:
    """Dask support, added to the estimators."""

    client: Any = None
    timeout: float = 300.0
    # The class without Dask.
    _of: ClassVar[Any]
    _get_param_names: ClassVar[Any]
    get_params: ClassVar[Any]

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> Self:
        """Fit the model to Dask arrays or data frames.

        Parameters
        ----------
        X : Dask array or data frame of shape (n_samples, n_features)
            Training features.
        y : Dask array or series of shape (n_samples,)
            Class labels, with the same partitions as X.
        sample_weight : Dask array or series of shape (n_samples,), default=None
            Non-negative sample weights, with the same partitions as X.
        X_val, y_val, sample_weight_val : Dask array, data frame or series, default=None
            Validation set for early stopping, which a single worker evaluates.

        Returns
        -------
        self : estimator
            The fitted estimator.

        Raises
        ------
        WorkerError
            If a worker dies, or does not respond for ``timeout`` seconds. Errors of the training are raised unchanged.
        KeyboardInterrupt
            After Ctrl-C. The training on the workers ends, too.
        """
        if checked(type(self), self.get_params(deep=False))["warm_start"]:
            raise ValueError(
                f"{type(self).__name__}: warm_start is not available with Dask; train with one "
                "worker, without Dask"
            )
        given_sets(X_val, y_val, sample_weight_val, validation_sets=None)
        client = self._client()
        validation_parts = []
        parts, lengths = self._futures(client, X, y, weight=sample_weight)
        if X_val is not None:
            validation_parts, _ = self._futures(
                client, X_val, y_val, weight=sample_weight_val, of="_val"
            )
        where = self._places(client, parts)
        begins = np.concatenate(([0], np.cumsum(lengths)[:-1])).tolist()
        fitted = self._run(client, parts, begins, validation_parts, where)
        # Without results of an earlier fit.
        kept = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        self.__dict__ = kept | _without(vars(fitted), self._get_param_names())
        return self

    def to_local(self) -> Any:
        """Return the fitted estimator without Dask, such as a `VectorTreeBoostClassifier`.

        Returns
        -------
        estimator
            Fitted estimator of the class whose name follows "Dask".
        """
        local = self._local()
        vars(local).update(_without(vars(self), self._get_param_names()))
        return local

    def predict(self, X: Any) -> Any:
        """Predict class labels.

        Parameters
        ----------
        X : Dask array or data frame, or array-like of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        Dask array or series, or ndarray, of shape (n_samples,)
            Labels. They are computed lazily if X is a Dask collection.
        """
        return self._lazy("predict", X)

    def predict_proba(self, X: Any) -> Any:
        """Predict class probabilities.

        Parameters
        ----------
        X : Dask array or data frame, or array-like of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        Dask array or ndarray of shape (n_samples, n_classes)
            Probabilities. They are computed lazily if X is a Dask collection.
        """
        return self._lazy("predict_proba", X)

    def decision_function(self, X: Any) -> Any:
        """Compute the scores of the classes.

        Parameters
        ----------
        X : Dask array or data frame, or array-like of shape (n_samples, n_features)
            Rows to score.

        Returns
        -------
        Dask array or ndarray of shape (n_samples, n_classes) or (n_samples,)
            Scores. They are computed lazily if X is a Dask collection.
        """
        return self._lazy("decision_function", X)

    def __getstate__(self):
        return {**super().__getstate__(), "client": None}

    def __copy__(self):
        new = object.__new__(type(self))
        vars(new).update(vars(self))
        return new

    def __deepcopy__(self, memo):
        new = memo[id(self)] = copy.copy(self)
        memo[id(self.client)] = self.client  # a connection, which cannot be copied
        new.__dict__ = copy.deepcopy(vars(self), memo)
        return new

    def __sklearn_clone__(self):
        bare = copy.copy(self)
        bare.client = None
        new = super(DaskClassifier, bare).__sklearn_clone__()
        new.client = self.client
        return new

    def _lazy(self, method, X):
        check_is_fitted(self)
        """Predict with a method of the local estimator, lazily if X is a Dask collection."""
        local = self.to_local()
        if not hasattr(X, "to_delayed"):
            return getattr(local, method)(X)
        _check_whole_rows("X", X)
        example = self.to_local()
        names = vars(example).pop("feature_names_in_", None)
        answer = getattr(example, method)(np.zeros((1, self.n_features_in_)))
        if hasattr(X, "map_partitions"):  # a frame; the estimator reports missing columns
            if names is not None and set(names) <= set(X.columns):
                X = X[list(names)]
            return _of_frame(X, local, method, answer)
        if answer.ndim == 1:
            shape = {"drop_axis": 1}
        else:
            shape = {"chunks": (X.chunks[0], (answer.shape[1],))}
        return X.map_blocks(_answer, local, method, none=answer[:0], dtype=answer.dtype, **shape)

    def _local(self):
        """The estimator without Dask, not fitted."""
        return type(self)._of(**_without(self.get_params(deep=False), ("client", "timeout")))

    def _client(self):
        try:
            from distributed import default_client
        except ImportError as error:
            raise ImportError(NEEDED) from error
        return default_client() if self.client is None else self.client

    def _futures(self, client, X, y, weight, of=""):
        """Futures of the partitions, as (X, y, weights or None), and their numbers of rows.

        ``of`` is the suffix of the arguments in messages, such as "_val".
        """
        from dask import delayed

        X = _parts(f"X{of}", X)
        partitions_of_X = {"X": f"X{of}", "count": len(X)}
        y = _parts(f"y{of}", y, **partitions_of_X)
        if weight is None:
            weight = [None] * len(X)
        else:
            weight = _parts(f"sample_weight{of}", weight, **partitions_of_X)
        rows = client.compute([delayed(tuple)([*part]) for part in zip(X, y, weight, strict=True)])
        from distributed import wait

        wait(rows)
        for part_rows in rows:
            if part_rows.status == "error":
                part_rows.result()
        lengths = client.gather(client.map(_lengths, rows))
        for i, (n, *others) in enumerate(lengths):
            for argument, other_rows in zip((f"y{of}", f"sample_weight{of}"), others, strict=True):
                if other_rows not in (n, None):
                    raise ValueError(
                        f"partition {i}: X{of} has {n} rows, but {argument} has {other_rows}; give both "
                        "the same partitions"
                    )
        return rows, [n for n, *_ in lengths]

    def _places(self, client, parts):
        """Numbers of the partitions of every worker that has any."""
        has = client.who_has(parts)
        where = {}
        for i, part in enumerate(parts):
            where.setdefault(sorted(has[part.key])[0], []).append(i)
        return where

    def _run(self, client, parts, begins, validation_parts, where):
        """Run one task for each worker; return the estimator of the first."""
        collective()
        from distributed import wait
        from xgboost.tracker import RabitTracker

        names = sorted(where)
        training = uuid.uuid4().hex
        tracker = RabitTracker(host_ip=_address(client), n_workers=len(names))
        try:
            tracker.start()
            context = {
                **tracker.worker_args(),
                "dmlc_timeout": math.ceil(self.timeout),
                "dmlc_retry": 3,
            }
            tasks = [
                client.submit(
                    _task,
                    self._local(),
                    [parts[i] for i in where[name]],
                    [begins[i] for i in where[name]],
                    validation_parts if name == names[0] else [],
                    context,
                    training,
                    workers=[name],
                    allow_other_workers=False,
                    pure=False,
                )
                for name in names
            ]
            try:
                wait(tasks)
            except KeyboardInterrupt:
                try:
                    with suppress(Exception):  # workers may be gone, or not stop in time
                        # callback_timeout is for Client.sync; otherwise, run would wait for silent workers forever
                        client.run(
                            _stop,
                            training,
                            workers=names,
                            on_error="ignore",
                            callback_timeout=STOPPING,
                        )
                        wait(tasks, timeout=STOPPING)
                finally:  # also after a second Ctrl-C
                    client.cancel(tasks)
                raise
        finally:
            with suppress(Exception):  # it complains about failed workers
                tracker.free()
        errors = [task.exception() for task in tasks if task.status == "error"]
        first_errors = [error for error in errors if type(error).__name__ not in OF_OTHERS]
        if first_errors:
            raise first_errors[0]
        if errors:
            raise WorkerError(f"a worker failed: {errors[0]}") from errors[0]
        return next(fitted for fitted in client.gather(tasks) if fitted is not None)


def _answer(part, local, method, none):
    """Predictions for a partition; ``none`` if it has no rows, which estimators refuse."""
    return getattr(local, method)(part) if part.shape[0] else none


def _of_frame(X, local, method, answer):
    """Lazy predictions for a frame, one like ``answer`` for each row. Labels may have an unknown number of rows."""
    from dask import compute, delayed
    from dask.array import Array

    answers = X.map_partitions(_answer, local, method, none=answer[:0], meta=answer[:0])
    if method == "predict":
        return answers
    lengths = compute(*map(delayed(len), X.to_delayed()))
    return Array(answers.dask, answers.name, (lengths, *answers.chunks[1:]), dtype=answers.dtype)


PARAMETERS = {
    "client": Parameter(
        "Dask client. None uses the current one. Copies and clones of the estimator share it; it is not pickled.",
        python_only=True,
        type_text="distributed.Client or None",
    ),
    "timeout": Parameter(
        "Seconds after which a worker that does not respond is considered failed.",
        low=0,
        open_low=True,
        python_only=True,
    ),
}


def _made(of):
    """Create the Dask estimator of a class."""
    summary = of.__doc__.partition("\n")[0][:-1]
    text = f"{summary}, trained on the workers of Dask.\n\nSee `{of.__name__}` for the algorithm.\n"
    space = {
        "__doc__": text,
        "__module__": __name__,
        "__annotations__": {"client": Any, "timeout": float},
        "client": None,
        "timeout": 300.0,
        "algorithm": of.algorithm,
        "own_parameters": PARAMETERS,
        "_of": of,
    }
    if hasattr(of, "_refuse_function"):
        space["predict_proba"] = with_link(DaskClassifier.predict_proba)
    new = estimator(type(f"Dask{of.__name__}", (DaskClassifier, of), space))
    new.__doc__ = document(new)
    return new


__all__ = []
for _entry in ALGORITHMS.values():
    _class = load(_entry)
    if _class.booster.takes_workers:
        globals()[f"Dask{_entry.name}"] = _made(_class)
        __all__.append(f"Dask{_entry.name}")
