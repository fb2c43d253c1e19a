"""Export models to other formats, and import models of other libraries.

`to_c`, `to_onnx` and `to_treelite` take a `Model` or a fitted estimator, and `to_integer_c` a `Model` of packed trees.
`from_lightgbm` and `from_xgboost` read the files of these libraries, and `from_sklearn` takes a fitted forest. Models
that a format cannot represent raise an error that says why.
"""

from pymcboost.export.c import to_c
from pymcboost.export.integer_c import to_integer_c
from pymcboost.export.integers import integer_labels
from pymcboost.export.lightgbm import from_lightgbm
from pymcboost.export.onnx import to_onnx
from pymcboost.export.scikit_learn import from_sklearn
from pymcboost.export.treelite import to_treelite
from pymcboost.export.xgboost import from_xgboost

__all__ = [
    "from_lightgbm",
    "from_sklearn",
    "from_xgboost",
    "integer_labels",
    "to_c",
    "to_integer_c",
    "to_onnx",
    "to_treelite",
]
