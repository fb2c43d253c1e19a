"""Old names of `solvers.columns`, `solvers.fcd`, `solvers.lbfgs` and `solvers.weights`, to be removed."""

from pymcboost.losses import LOSSES
from pymcboost.solvers import fcd
from pymcboost.solvers.columns import Columns, Solved, pack, padded  # noqa: F401
from pymcboost.solvers.fcd import LARGE_DATA  # noqa: F401
from pymcboost.solvers.lbfgs import LBFGS  # noqa: F401
from pymcboost.solvers.weights import LARGEST_COEFFICIENT, PairWeights


class ExpWeights(PairWeights):
    """Weights of the exponential loss."""

    link = LOSSES["exp"].link

    def __init__(self, data, nu, *arguments, **words):
        super().__init__(LOSSES["exp"], data, nu, *arguments, **words)


class LogWeights(PairWeights):
    """Weights of the logistic loss."""

    link = LOSSES["log"].link

    def __init__(self, data, nu, *arguments, **words):
        super().__init__(LOSSES["log"], data, nu, *arguments, **words)


class FCD(fcd.FCD):
    """FCD for the exponential loss."""

    def __init__(self, data, nu, cap=LARGEST_COEFFICIENT, n_threads=1, dtype=None):
        super().__init__(LOSSES["exp"], data, nu, cap, n_threads, dtype)
