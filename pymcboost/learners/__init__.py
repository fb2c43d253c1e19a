"""Weak learners for boosting: stumps, trees with leaves +-1, and learners on samples of the rows."""

from pymcboost.learners.edge_trees import EdgeTrees, SharedTree, TreeFit
from pymcboost.learners.sampling import Resampled, draw, draw_distinct
from pymcboost.learners.stumps import (
    ClassStump,
    EdgeStumps,
    EveryStump,
    SharedStump,
    StumpFit,
    TotalStump,
    add_stumps,
)

__all__ = [
    "ClassStump",
    "EdgeStumps",
    "EdgeTrees",
    "EveryStump",
    "Resampled",
    "SharedStump",
    "SharedTree",
    "StumpFit",
    "TotalStump",
    "TreeFit",
    "add_stumps",
    "draw",
    "draw_distinct",
]
