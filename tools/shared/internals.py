"""Every part of pymcboost that is not public and that a tool needs, in one place.

Names in `WHERE` are imported from here: ``from shared.internals import TrainingData``. The functions below look into
a training from outside. When the package moves its parts, this file is the only one of tools/ to follow.
"""

import importlib
import time
from contextlib import contextmanager
from functools import cache, partial
from unittest.mock import patch

import numpy as np

# Name to module of pymcboost.
WHERE = {
    "available_cpus": "threads",
    "code_matrix": "losses.codes",
    "separators": "losses.codes",
    "TrainingData": "data.stump_data",
    "SharedStump": "learners",
    "ClassTrees": "learners.class_trees",
    "TreeData": "data.tree_data",
    "Scale": "model.scale",
    "kernel_block": "hinge.kernels",
    "DenseKernel": "hinge.coordinate",
    "LibsvmKernel": "hinge.libsvm",
    "LinearRows": "hinge.coordinate",
    "LARGE_DATA": "solvers.fcd",
    "Columns": "solvers.columns",
    "LBFGS": "solvers.lbfgs",
    "LOSSES": "losses",
    "pack": "solvers.columns",
    "columns_for": "learners.vector_trees",
    "drawn_of": "learners.draws",
}


def __getattr__(name):
    if name == "FCD":
        return fcd_class()
    if name not in WHERE:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"pymcboost.{WHERE[name]}"), name)


def ExpWeights(data, nu, **more):
    """Weights of the exponential loss."""
    from pymcboost.losses import LOSSES
    from pymcboost.solvers.weights import PairWeights

    return PairWeights(LOSSES["exp"], data, nu, **more)


@cache
def fcd_class():
    """Fast coordinate descent on the exponential loss, a class made from data and penalty."""
    from pymcboost.losses import LOSSES
    from pymcboost.solvers import fcd

    class FCD(fcd.FCD):
        def __init__(self, data, nu, **more):
            super().__init__(LOSSES["exp"], data, nu, **more)

    return FCD


def hook(model, **methods):
    """Let the rounds of an estimator go through these methods, which get the original one first."""
    cls = type(model)

    def hooked(name, method):
        original = getattr(cls.booster, name)
        return lambda booster, *arguments: method(partial(original, booster), booster, *arguments)

    booster = type(cls.booster.__name__, (cls.booster,), {name: hooked(name, m) for name, m in methods.items()})
    model.__class__ = type(cls.__name__, (cls,), {"booster": booster, "__module__": cls.__module__})
    return model


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
    return lambda: trees.grow([(0, -1)], 0.1, None, np.zeros(0, np.uint8))


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

    return clocked(HingeBoostOCClassifier.booster, "round")


def watch_solver(model, stopwatch):
    """Time what an estimator does to find its coefficients, and the weights that they make."""

    def prepare(original, booster, previous):
        original(previous)
        if hasattr(booster, "weights"):  # totally corrective
            stopwatch.watch(booster.solver, "solve")
            stopwatch.watch(booster.weights, "start", "scores")
        else:
            stopwatch.watch(booster.loss, "update")
            stopwatch.watch(booster.solver, "fit")

    return hook(model, prepare=prepare)


def after_each_round(model, look):
    """Call ``look()`` after every round of the coming fit."""

    def counted(original, booster):
        found = original()
        look()
        return found

    hook(model, round=counted)


def fit_with_validation(model, X, codes, X_test, truth, rounds):
    """Fit with a validation part, which is scored at ``rounds`` only where a round changes all coefficients.

    Returns
    -------
    seconds : float
        CPU seconds of the fit without the scoring.
    """
    stopwatch = Stopwatch()

    def follow(original, booster, validation):
        if booster.cuts_give_models or booster.n_rounds + 1 in rounds:
            stopwatch.timed(original)(validation)

    hook(model, follow=follow)
    begin = time.process_time()
    model.fit(X, codes, X_val=X_test, y_val=truth)
    return time.process_time() - begin - stopwatch.seconds


# --------------------------------------------------------------------------------------------------------------------
# Totally corrective training


def minimize_with(**changed):
    """Call SciPy's minimize with these words changed, for as long as the context lasts; ``options`` are merged."""
    from pymcboost.solvers import lbfgs

    minimize, more = lbfgs.minimize, changed.pop("options", {})

    def called(*problem, options, **words):
        return minimize(*problem, options={**options, **more}, **{**words, **changed})

    return patch.object(lbfgs, "minimize", called)


def lbfgs_memory(memory):
    """Let L-BFGS-B keep so many pairs of vectors, for as long as the context lasts."""
    from pymcboost.solvers import lbfgs

    return patch.object(lbfgs, "LBFGS_MEMORY", memory)


def multiboost_cw_by_lbfgs(**parameters):
    """MultiBoost-cw with L-BFGS-B in place of coordinate descent."""
    from pymcboost import MultiBoostCWClassifier

    class RoundsByLBFGS(MultiBoostCWClassifier.booster):
        solver_name = "lbfgs"

    class ByLBFGS(MultiBoostCWClassifier):
        booster = RoundsByLBFGS

    return ByLBFGS(**parameters)


def generated_columns(X, codes, rounds, **parameters):
    """Data, learners' bits and classes of a training with MultiBoost-cw; all learners that it generated, each once."""
    from pymcboost import MultiBoostCWClassifier
    from shared.internals import pack

    kept = {}

    def prepare(original, booster, previous):
        original(previous)
        kept["data"], fit = booster.data, booster.learner.fit

        def recorded(gradient):
            found = fit(gradient)
            bits = pack(np.stack([one.h for one in found]))
            for one, row in zip(found, bits, strict=True):
                kept.setdefault("columns", {}).setdefault((one.cls, row.tobytes()), row)
            return found

        booster.learner.fit = recorded

    model = MultiBoostCWClassifier(n_estimators=rounds, n_jobs=1, random_state=0, **parameters)
    hook(model, prepare=prepare).fit(X, codes)
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

    def prepare(original, booster, previous):
        original(previous)
        booster.trees.__class__ = TimedTrees

    def raced(original, booster):
        K, trees = booster.data.n_classes, booster.trees
        jobs = [(k, b) for b in range(K) for k in range(K) if k != b]
        trees.grow(jobs, booster.params.learning_rate, *booster.draw())
        growing = trees.seconds
        begin = time.perf_counter()
        found = original()
        seconds.append((time.perf_counter() - begin, trees.seconds, growing))
        return found

    turns = []
    for _ in range(repeat):
        seconds.clear()
        hook(estimator(**parameters), prepare=prepare, round=raced).fit(X, codes)
        turns.append(seconds[1:])
    return np.min(turns, axis=0).T


@contextmanager
def noted_temperatures():
    """Temperatures of the sets of models by which a training calibrates, in the order in which they are found."""
    module = importlib.import_module("pymcboost.training.calibration")
    noted, find = [], module._temperature
    with patch.object(module, "_temperature", lambda *given: noted.append(find(*given)) or noted[-1]):
        yield noted


def algorithms():
    """{name: class} of every registered algorithm."""
    from pymcboost import registry

    return {name: registry.get_class(name) for name in registry.ALGORITHMS}


def bytes_of_sections(data, *tags):
    """Bytes that the sections with these tags take in a model file."""
    from pymcboost.model.model import Model

    sections = Model.from_bytes(data)._sections()
    return sum(sections[tag].nbytes for tag in tags)
