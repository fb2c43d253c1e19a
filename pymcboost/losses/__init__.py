"""Losses: one class for each, in every layout of scores and gradients.

What a loss says
    value(F, y)       loss of every row, from scores F (m, K) and classes y (m,): (m,)
    gradient(F, y)    its negative gradient: (m, K)
    curvature(F, y)   diagonal second derivatives, (m, K), or None
    leaf_steps(...)   steps that the rows of a leaf ask for
    link              how scores become probabilities

A loss works in a layout, which holds what training needs between rounds:

- `Loss.rows`, row after row, for trees with vector leaves. It works for all losses in
  `LOSSES` and for losses in NumPy, see `Loss`.
- `Pairwise.blocks`, in blocks of classes, for weak learners that all classes share. Weights are updated by
  multiplication. The losses in `PAIRWISE` have it.
- class by class, for totally corrective solvers (`solvers.fcd`).

Every layout starts with ``start(scores)``, raw scores or None for zeros, and has its negative gradient in ``gradient``.
"""

from typing import Literal

from pymcboost.losses import logistic, pairwise_exp, pairwise_log, softmax
from pymcboost.losses.blocks import ColumnSums
from pymcboost.losses.class_weights import ClassWeights
from pymcboost.losses.coded_exp import CodedExp
from pymcboost.losses.loss import Loss
from pymcboost.losses.own import OwnLoss, check_own

# The names of `LOSSES`, for type checkers and as choices of a parameter.
LossName = Literal["softmax", "logistic"]
LOSSES = {"softmax": softmax.Softmax(), "logistic": logistic.Logistic()}
PAIRWISE = {"exp": pairwise_exp.PairwiseExp(), "log": pairwise_log.PairwiseLog()}


def loss_of(loss):
    """Return the loss with this name, or wrap a custom loss."""
    return LOSSES[loss] if isinstance(loss, str) else OwnLoss(loss)


__all__ = [
    "LOSSES",
    "PAIRWISE",
    "ClassWeights",
    "CodedExp",
    "ColumnSums",
    "Loss",
    "LossName",
    "check_own",
    "loss_of",
]
