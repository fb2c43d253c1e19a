"""
Stumps, trees and vector trees
==============================

Five spirals. Stumps cannot express an interaction of the two coordinates, so their regions are wrong. One tree
per class and round needs five times as many trees as vector trees, which have one value per class in every leaf.
"""

import matplotlib.pyplot as plt
import numpy as np

from pymcboost import LogitBoostClassifier, MCBoostClassifier, VectorTreeBoostClassifier

rng = np.random.default_rng(0)
y = np.repeat(np.arange(5), 300)
radius = np.sqrt(rng.uniform(0.01, 1, len(y)))
angle = 2 * np.pi * y / 5 + 4 * radius + rng.normal(0, 0.12, len(y))
X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

side = np.linspace(-1.1, 1.1, 200)
grid = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])

models = {
    "MCBoost, stumps": MCBoostClassifier(n_estimators=300),
    "LogitBoost": LogitBoostClassifier(n_estimators=60, calibrate=None),
    "Vector trees": VectorTreeBoostClassifier(n_estimators=60, random_state=0),
}
figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(X, y)
    regions = model.predict(grid).reshape(200, 200)
    ax.pcolormesh(side, side, regions, cmap="Set2", vmin=0, vmax=7, rasterized=True)
    ax.scatter(
        *X[::5].T, c=y[::5], cmap="Set2", vmin=0, vmax=7, s=8, edgecolors="black", linewidths=0.3
    )
    ax.set_title(f"{name}\n{model.model_.n_learners} learners")
    ax.set_aspect("equal")
figure.tight_layout()
plt.show()
