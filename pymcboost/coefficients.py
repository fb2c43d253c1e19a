"""Old name of `solvers.newton` and `solvers.roots`, to be removed."""

from pymcboost.solvers.newton import *  # noqa: F403
from pymcboost.solvers.roots import *  # noqa: F403
