"""Every part of pymcboost that is not public and that a tool needs, in one place.

Names in `WHERE` are imported from here: ``from shared.internals import TrainingData``. The functions below look into
a training from outside. When the package moves its parts, this file is the only one of tools/ to follow.
"""

import importlib
import time
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

# Name to module of pymcboost.
WHERE = {
    "available_cpus": "threads",
    "code_matrix": "coding",
    "separators": "coding",
    "TrainingData": "data",
    "SharedStump": "weak_learners",
    "ClassTrees": "class_trees",
    "TreeData": "tree_data",
    "Scale": "machines",
    "kernel_block": "svm",
    "DenseKernel": "svm",
    "LibsvmKernel": "svm",
    "LinearRows": "svm",
    "LARGE_DATA": "totally_corrective",
    "Columns": "totally_corrective",
    "ExpWeights": "totally_corrective",
    "FCD": "totally_corrective",
    "LBFGS": "totally_corrective",
    "pack": "totally_corrective",
}


def __getattr__(name):
    if name not in WHERE:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"pymcboost.{WHERE[name]}"), name)


def stumps_of(model):
    """The arrays ``feature``, ``threshold``, ``left``, ``right`` and ``bias`` of a fitted model of stumps."""
    return model.model_.ensemble


def count_trees(model):
    """Trees of one of our estimators, None where the model does not say."""
    offset = getattr(getattr(getattr(model, "model_", None), "ensemble", None), "offset", None)
    return None if offset is None else len(offset) - 1


def coefficients_of(model):
    """Coefficients of a fitted model of linear machines, one row for each machine."""
    return model.model_.ensemble.coef


def plain_svm(machine, labels, c):
    """Function that solves the plain problem of LIBSVM on the rows of a `LibsvmKernel`; it gives the iterations."""
    address = machine._address[: len(labels)].copy()
    return lambda: machine._train(labels, address, c, 1e-3)[2]


def tree_of_one_split(X, y, n_classes):
    """Function that grows one class-wise tree of a single split on prepared data."""
    from shared.internals import ClassTrees, TreeData

    data = TreeData(X, y, n_classes, np.ones(len(y)), n_threads=1)
    trees = ClassTrees(data, max_leaves=2, max_depth=None, min_samples_leaf=1, counts=False, n_threads=1)
    trees.restart(None)
    return lambda: trees.grow([(0, -1)], 0.1, np.zeros(0, np.int32), np.zeros(0, np.uint8))


# --------------------------------------------------------------------------------------------------------------------
# Clocks inside a training


class Stopwatch:
    """Sums the time of the calls that go through it; a call inside another one is not counted twice.

    By default CPU seconds of the process, which other processes do not lengthen much.
    """

    def __init__(self, clock=None):
        self.clock = clock or (lambda: time.process_time())
        self.seconds, self._depth = 0.0, 0

    def watch(self, owner, *names):
        """Time these methods of an object."""
        for name in names:
            setattr(owner, name, self.timed(getattr(owner, name)))

    def timed(self, function):
        """The function, its time added up."""

        def timed(*arguments, **more):
            self._depth += 1
            begin = self.clock()
            try:
                return function(*arguments, **more)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += self.clock() - begin

        return timed


@contextmanager
def clocked(owner, name):
    """Stopwatch of the clock's seconds in a method of a class, for as long as the context lasts."""
    watch = Stopwatch(time.perf_counter)
    with patch.object(owner, name, watch.timed(getattr(owner, name))):
        yield watch


def clocked_hinge_round():
    """Stopwatch of the rounds of HingeBoost.OC."""
    from pymcboost import HingeBoostOCClassifier

    return clocked(HingeBoostOCClassifier, "_round")


def watch_solver(model, stopwatch):
    """Time what an estimator does to find its coefficients, and the weights that they make."""
    start = model._start

    def started(data, n_threads):
        start(data, n_threads)
        state = model._state
        if isinstance(state, tuple):  # MCBoost: loss, weak learner, solver
            stopwatch.watch(state[0], "update")
            stopwatch.watch(state[2], "fit")
        else:
            stopwatch.watch(state.solver, "solve")
            stopwatch.watch(state.weights, "restart", "scores")

    model._start = started
    return model


def after_each_round(model, look):
    """Call ``look()`` after every round of the coming fit."""
    make = model._round

    def counted(builder):
        found = make(builder)
        look()
        return found

    model._round = counted


def fit_with_validation(model, X, codes, X_test, truth, rounds):
    """Fit with a validation part, which is scored at ``rounds`` only where a round changes all coefficients.

    Returns
    -------
    seconds : float
        CPU seconds of the fit without the scoring.
    """
    stopwatch, validate = Stopwatch(), model._validate_round
    stagewise = getattr(model, "stagewise", True)

    def on_the_grid(*arguments):
        if stagewise or model.n_estimators_ + 1 in rounds:
            validate(*arguments)

    model._validate_round = stopwatch.timed(on_the_grid)
    begin = time.process_time()
    model.fit(X, codes, X_val=X_test, y_val=truth)
    seconds = time.process_time() - begin - stopwatch.seconds
    del model._validate_round
    return seconds


# --------------------------------------------------------------------------------------------------------------------
# Totally corrective training


def minimize_with(**changed):
    """Call SciPy's minimize with these words changed, for as long as the context lasts; ``options`` are merged."""
    from pymcboost import totally_corrective

    minimize, more = totally_corrective.minimize, changed.pop("options", {})

    def called(*problem, options, **words):
        return minimize(*problem, options={**options, **more}, **{**words, **changed})

    return patch.object(totally_corrective, "minimize", called)


def lbfgs_memory(memory):
    """Let L-BFGS-B keep so many pairs of vectors, for as long as the context lasts."""
    from pymcboost import totally_corrective

    return patch.object(totally_corrective, "LBFGS_MEMORY", memory)


def multiboost_cw_by_lbfgs(**parameters):
    """MultiBoost-cw with L-BFGS-B in place of coordinate descent."""
    from pymcboost import MultiBoostCWClassifier

    class ByLBFGS(MultiBoostCWClassifier):
        def _solver(self):
            return "lbfgs"

    return ByLBFGS(**parameters)


def generated_columns(X, codes, rounds, **parameters):
    """Data, learners' bits and classes of a training with MultiBoost-cw; all learners that it generated, each once."""
    from pymcboost import MultiBoostCWClassifier
    from shared.internals import pack

    kept = {}

    class Recorder(MultiBoostCWClassifier):
        def _start(self, data, n_threads):
            super()._start(data, n_threads)
            kept["data"] = data
            learner = self._state.learner
            fit = learner.fit

            def recorded(gradient):
                found = fit(gradient)
                bits = pack(np.stack([one.h for one in found]))
                for one, row in zip(found, bits, strict=True):
                    kept.setdefault("columns", {}).setdefault((one.cls, row.tobytes()), row)
                return found

            learner.fit = recorded

    Recorder(n_estimators=rounds, n_jobs=1, random_state=0, **parameters).fit(X, codes)
    owner = np.array([cls for cls, _ in kept["columns"]])
    return kept["data"], np.stack(list(kept["columns"].values())), owner


# --------------------------------------------------------------------------------------------------------------------
# The search for the base class


def race_search(estimator, X, codes, repeat, **parameters):
    """A round with the search for the base class, and growing all K(K-1) trees on the same scores, in turn.

    Returns
    -------
    searching, halves, growing : ndarray of shape (rounds - 1,)
        Best seconds of each round but the first, in which memory is taken: the whole round with the search, the growing
        of its K(K-1)/2 trees, and the growing alone of the trees of all pairs of a class and a base class.
    """
    from shared.internals import ClassTrees

    seconds = []

    class TimedTrees(ClassTrees):
        def grow(self, *arguments):
            begin = time.perf_counter()
            found = super().grow(*arguments)
            self.seconds = time.perf_counter() - begin
            return found

    class Raced(estimator):
        def _start(self, data, n_threads):
            super()._start(data, n_threads)
            self._state.__class__ = TimedTrees

        def _round(self, builder):
            K = self._state.data.n_classes
            jobs = [(k, b) for b in range(K) for k in range(K) if k != b]
            self._state.grow(jobs, self.learning_rate, *self._draw(builder.n_rounds))
            growing = self._state.seconds
            begin = time.perf_counter()
            found = super()._round(builder)
            seconds.append((time.perf_counter() - begin, self._state.seconds, growing))
            return found

    turns = []
    for _ in range(repeat):
        seconds.clear()
        Raced(**parameters).fit(X, codes)
        turns.append(seconds[1:])
    return np.min(turns, axis=0).T
