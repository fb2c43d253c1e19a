"""
Stumps, trees and vector trees
==============================

The class depends on both coordinates together: three classes take turns on a board. A sum of stumps adds a curve
of each coordinate and cannot express that. Trees can. LogitBoost grows one tree per class and round, so it needs
three times as many trees as vector trees, whose leaves have one value per class.
"""

import matplotlib.pyplot as plt
import numpy as np

from pymcboost import LogitBoostClassifier, MCBoostClassifier, VectorTreeBoostClassifier

rng = np.random.default_rng(0)
X = rng.uniform(0, 5, size=(1500, 2))
y = (np.floor(X[:, 0]) + 2 * np.floor(X[:, 1])).astype(int) % 3

side = np.linspace(0, 5, 200)
grid = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])

board = (np.floor(grid[:, 0]) + 2 * np.floor(grid[:, 1])).reshape(200, 200) % 3

models = {
    "MCBoost, stumps": MCBoostClassifier(n_estimators=300),
    "LogitBoost": LogitBoostClassifier(n_estimators=50, calibrate=None),
    "Vector trees": VectorTreeBoostClassifier(n_estimators=50, random_state=0),
}
figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(X, y)
    regions = model.predict(grid).reshape(200, 200)
    ax.pcolormesh(side, side, regions, cmap="Set2", vmin=0, vmax=7, rasterized=True)
    ax.scatter(
        *X[::5].T, c=y[::5], cmap="Set2", vmin=0, vmax=7, s=8, edgecolors="black", linewidths=0.3
    )
    wrong = np.mean(regions != board)
    ax.set_title(f"{name}\n{model.model_.n_learners} learners, {wrong:.0%} wrong")
    ax.set_aspect("equal")
figure.tight_layout()
plt.show()
