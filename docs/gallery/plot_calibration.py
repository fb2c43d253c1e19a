"""
Calibrated probabilities
========================

Boosted trees are overconfident: they say 99% and are right less often. `VectorTreeBoostClassifier` corrects this
with a temperature that it finds while it trains. A reliability diagram shows the difference: on the diagonal,
a probability means what it says.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from pymcboost import VectorTreeBoostClassifier
from pymcboost.inspection import plot_reliability

X, y = make_classification(
    n_samples=4000, n_features=20, n_informative=8, n_classes=4, flip_y=0.2, random_state=0
)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
for ax, calibrate in zip(axes, (None, "temperature"), strict=True):
    model = VectorTreeBoostClassifier(calibrate=calibrate, random_state=0).fit(X_train, y_train)
    plot_reliability(model, X_test, y_test, ax=ax)
    loss = log_loss(y_test, model.predict_proba(X_test))
    ax.set_title(f"calibrate={calibrate!r}, log loss {loss:.3f}")
figure.tight_layout()
plt.show()
