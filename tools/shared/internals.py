"""Every part of pymcboost that is not public and that a tool needs, in one place.

Names in `WHERE` are imported from here: ``from shared.internals import Scale``. The functions below look into
a training from outside. When the package moves its parts, this file is the only one of tools/ to follow.
"""

import importlib
import time
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

import numpy as np

# Name to module of pymcboost.
WHERE = {
    "available_cpus": "threads",
    "separators": "losses.codes",
    "Scale": "model.scale",
    "VectorTreeBoost": "algorithms.vector_tree",  # whose import brings the kernels below
    "aligned_zeros": "_kernels.aligned",
    "bins": "_kernels",
    "vector_loss": "_kernels",
    "vector_trees": "_kernels",
}


def __getattr__(name):
    if name not in WHERE:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"pymcboost.{WHERE[name]}"), name)


def hook(model, **methods):
    """Let the rounds of an estimator go through these methods, which get the original one first."""
    cls = type(model)

    def hooked(name, method):
        original = getattr(cls.booster, name)
        return lambda booster, *arguments: method(partial(original, booster), booster, *arguments)

    booster = type(
        cls.booster.__name__, (cls.booster,), {name: hooked(name, m) for name, m in methods.items()}
    )
    model.__class__ = type(cls.__name__, (cls,), {"booster": booster, "__module__": cls.__module__})
    return model


def stumps_of(model):
    """The arrays ``feature``, ``threshold``, ``left``, ``right`` and ``bias`` of a fitted model of stumps."""
    return model.model_.ensemble


def count_trees(model):
    """Trees of one of our estimators, None where the model does not say."""
    offset = getattr(getattr(getattr(model, "model_", None), "ensemble", None), "offset", None)
    return None if offset is None else len(offset) - 1


# --------------------------------------------------------------------------------------------------------------------
# Clocks inside a training


class Stopwatch:
    """Sums the time of the calls that go through it; a call inside another one is not counted twice.

    By default CPU seconds of the process, which other processes do not lengthen much.
    """

    def __init__(self, clock=None):
        self.clock = clock or (lambda: time.process_time())
        self.seconds = 0.0
        self._depth = 0

    def watch(self, owner, *names):
        """Time these methods of an object."""
        for name in names:
            setattr(owner, name, self.timed(getattr(owner, name)))

    def timed(self, function):
        """The function, its time added up."""

        def timed(*arguments, **options):
            self._depth += 1
            begin = self.clock()
            try:
                return function(*arguments, **options)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += self.clock() - begin

        return timed


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
        result = original()
        look()
        return result

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

    minimize = lbfgs.minimize
    more = changed.pop("options", {})

    def called(*problem, options, **words):
        return minimize(*problem, options={**options, **more}, **{**words, **changed})

    return patch.object(lbfgs, "minimize", called)


def multiboost_cw_by_lbfgs(**parameters):
    """MultiBoost-cw with L-BFGS-B in place of coordinate descent."""
    from pymcboost import MultiBoostCWClassifier

    class RoundsByLBFGS(MultiBoostCWClassifier.booster):
        solver_name = "lbfgs"

    class ByLBFGS(MultiBoostCWClassifier):
        booster = RoundsByLBFGS

    return ByLBFGS(**parameters)


def rounds_as_printed(model):
    """Let each round of HingeBoost.OC end as its paper prints it: with new colours, and the SVM of those before."""

    def prepare(original, booster, previous):
        original(previous)
        rounds = booster.code_rounds
        rounds._alternate = partial(_as_printed, rounds)

    return hook(model, prepare=prepare)


def _as_printed(rounds, column, found):
    """Lines 4 to 9 of the paper's Algorithm 1: (column, SVM), or None where they do not lower the objective."""
    codes = importlib.import_module("pymcboost._kernels.output_codes")
    rho = rounds.rho
    y = rounds.data.y
    margins = np.empty(len(y))
    best = None
    for _ in range(rounds.max_alternations):
        codes.margins(rho, y, column, margins)
        solution = rounds._solve(column[y], margins, found)
        column = column.copy()
        changes, _, loss = codes.recolour(rho, y, column, solution.f / 2, False)
        reached = solution.norm2 / 2 + rounds.c * loss
        if not reached < found["objective"]:
            break
        found["objective"] = reached
        best = (column, solution)
        if not changes:
            break
    return best


@contextmanager
def noted_temperatures():
    """Temperatures of the sets of models by which a training calibrates, in the order in which they are found."""
    module = importlib.import_module("pymcboost.training.calibration")
    noted = []
    find = module._temperature
    with patch.object(
        module, "_temperature", lambda *given: noted.append(find(*given)) or noted[-1]
    ):
        yield noted
