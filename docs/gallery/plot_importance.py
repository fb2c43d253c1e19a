"""
Feature importance and one tree
===============================

`plot_importance` ranks the features of the wines by how much they move the scores (mean absolute SHAP value).
`plot_tree` draws one vector tree: every leaf has a value for each class.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine

from pymcboost import VectorTreeBoostClassifier
from pymcboost.inspection import importance, plot_importance, plot_tree

wine = load_wine(as_frame=True)
X, y = wine.data, wine.target_names[wine.target]
model = VectorTreeBoostClassifier(n_estimators=100, random_state=0).fit(X, y)

figure, ax = plt.subplots(figsize=(7, 4))
plot_importance(model, importance(model, "shap", X=X), ax=ax)
figure.tight_layout()

# %%
# The first tree of the model:

figure, ax = plt.subplots(figsize=(9, 5))
plot_tree(model, 0, ax=ax)
plt.show()
