"""Models in other forms, and models of other libraries.

`to_c` takes a `Model` or a fitted estimator. What a form cannot hold is refused by its name.
"""

from pymcboost.export.c import to_c
from pymcboost.export.integers import integer_labels

__all__ = ["integer_labels", "to_c"]
