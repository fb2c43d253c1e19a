"""The kinds of models, by their numbers in a file. A new kind is a line here."""

from pymcboost.model.intervals import Intervals
from pymcboost.model.kernel import KernelMachine
from pymcboost.model.linear import LinearMachine
from pymcboost.model.stumps import Stumps
from pymcboost.model.trees import Trees

KINDS = {kind.KIND: kind for kind in (Stumps, Intervals, Trees, LinearMachine, KernelMachine)}
