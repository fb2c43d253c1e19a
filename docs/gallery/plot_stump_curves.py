"""
A model that is a set of curves
===============================

A sum of stumps has no interactions: the score of a class is one curve per feature, added up. The curves are the
whole model, so you can check it by looking at it.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris

from pymcboost import MCBoostClassifier
from pymcboost.inspection import plot_curve

iris = load_iris(as_frame=True)
species = iris.target_names[iris.target]
model = MCBoostClassifier(n_estimators=100, learning_rate=0.1).fit(iris.data, species)

figure, axes = plt.subplots(2, 2, figsize=(9, 6), sharey=True)
for ax, feature in zip(axes.flat, iris.feature_names, strict=True):
    plot_curve(model, feature, ax=ax)
figure.tight_layout()
plt.show()
