"""
When is early stopping needed?
==============================

With the default parameters, the validation loss hardly rises after its minimum, because trees are pruned, and
calibration undoes most of the rest. With a larger learning rate and without pruning it rises steeply: there,
early stopping pays.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from pymcboost import VectorTreeBoostClassifier
from pymcboost.inspection import plot_history

X, y = make_classification(
    n_samples=4000, n_features=20, n_informative=8, n_classes=4, flip_y=0.2, random_state=0
)
X_train, X_val, y_train, y_val = train_test_split(X, y, test_size=0.5, random_state=0)

figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
settings = {
    "default": {},
    "learning_rate=0.3, no pruning": {"learning_rate": 0.3, "min_relative_gain": 0},
}
for ax, (name, parameters) in zip(axes, settings.items(), strict=True):
    model = VectorTreeBoostClassifier(random_state=0, **parameters)
    model.fit(X_train, y_train, X_val=X_val, y_val=y_val)
    plot_history(model, ax=ax)
    ax.set_title(name)
axes[0].set_ylim(0.5, 2)
figure.tight_layout()
plt.show()
