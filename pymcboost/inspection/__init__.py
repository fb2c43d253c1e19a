"""Model inspection: feature importances, SHAP values, curves of stumps, dumps and plots.

All functions take a `Model` or a fitted estimator. Plots need matplotlib (``pip install 'pymcboost[plot]'``).
"""

from pymcboost.inspection.curves import Curve, curve
from pymcboost.inspection.dumps import to_frame, to_json, to_text
from pymcboost.inspection.importances import importance
from pymcboost.inspection.pairs import Interactions, interactions
from pymcboost.inspection.plots import (
    plot_curve,
    plot_history,
    plot_importance,
    plot_reliability,
    plot_tree,
)
from pymcboost.inspection.shap_trees import to_shap
from pymcboost.inspection.shapley import Contributions, contributions

__all__ = [
    "Contributions",
    "Curve",
    "Interactions",
    "contributions",
    "curve",
    "importance",
    "interactions",
    "plot_curve",
    "plot_history",
    "plot_importance",
    "plot_reliability",
    "plot_tree",
    "to_frame",
    "to_json",
    "to_shap",
    "to_text",
]
