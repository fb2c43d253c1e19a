"""
A loss of your own for ordered classes
======================================

Grades from 0 to 5 have an order: it is worse to take a 1 for a 5 than for a 2. The ranked probability score
charges for the distance, and vector trees can minimise it. The focal loss, which gives rows that are already
right a small weight, is the second example.
"""

import matplotlib.pyplot as plt
import numpy as np

from pymcboost import VectorTreeBoostClassifier


def softmax(scores):
    """Probabilities of the classes."""
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


class FocalLoss:
    """-(1 - p)^gamma log p of the row's own class: rows that are right already count little.

    T.-Y. Lin, P. Goyal, R. Girshick, K. He, P. Dollar, Focal loss for dense object detection, ICCV 2017.
    """

    shift_invariant = True

    def __init__(self, gamma=2.0):
        self.gamma = gamma

    def start(self, y, weight, n_classes):
        """Scores that all rows begin with."""
        return np.zeros(n_classes)

    def link(self, scores):
        """Probabilities."""
        return softmax(scores)

    def value(self, y, scores):
        """Loss of each row."""
        p = softmax(scores)[np.arange(len(y)), y]
        return -((1 - p) ** self.gamma) * np.log(np.maximum(p, 1e-300))

    def gradient_hessian(self, y, scores):
        """First derivatives; the second ones are those of softmax with the same factor, which is kept above 0."""
        probability, own = softmax(scores), (np.arange(len(y)), y)
        p = np.clip(probability[own], 1e-12, 1 - 1e-12)
        factor = (1 - p) ** self.gamma - self.gamma * p * (1 - p) ** (self.gamma - 1) * np.log(p)
        hessian = np.maximum(factor[:, None] * probability * (1 - probability), 1e-9)
        probability[own] -= 1
        return factor[:, None] * probability, hessian


class RankedProbability:
    """Sum over the classes k of (P(y <= k) - [y <= k])^2: classes are in order, and near misses cost less."""

    shift_invariant = True

    def start(self, y, weight, n_classes):
        """Scores that all rows begin with: the logarithms of the classes' shares."""
        return np.log(np.bincount(y, weight, n_classes) / weight.sum() + 1e-9)

    def link(self, scores):
        """Probabilities."""
        return softmax(scores)

    def value(self, y, scores):
        """Loss of each row."""
        return (self._above(y, softmax(scores)) ** 2).sum(axis=1)

    def gradient_hessian(self, y, scores):
        """First derivatives; the second ones are those of Gauss and Newton, which are never negative."""
        p = softmax(scores)
        above = self._above(y, p)
        later = 2 * above[:, ::-1].cumsum(axis=1)[:, ::-1]
        gradient = p * (later - (p * later).sum(axis=1, keepdims=True))
        below = p.cumsum(axis=1)
        moves = (np.arange(p.shape[1]) <= np.arange(p.shape[1])[:, None]) - below[
            :, :, None
        ]  # (row, k, class)
        return gradient, np.maximum(2 * p**2 * (moves**2).sum(axis=1), 1e-9)

    def _above(self, y, p):
        return p.cumsum(axis=1) - (np.arange(p.shape[1]) >= y[:, None])


def main():
    """Train on three losses, and draw how grades are confused."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 6))
    y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=len(X)), [-2, -1, 0, 1, 2])
    losses = {"softmax": "softmax", "focal": FocalLoss(), "ranked": RankedProbability()}
    scores = {}
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True)
    for ax, (name, loss) in zip(axes, losses.items(), strict=True):
        model = VectorTreeBoostClassifier(
            n_estimators=60, max_leaf_nodes=16, loss=loss, random_state=0
        )
        model.fit(X[::2], y[::2])
        p = model.predict_proba(X[1::2])
        scores[name] = losses["ranked"].value(y[1::2], np.log(np.maximum(p, 1e-300))).mean()
        counts = np.zeros((6, 6))
        np.add.at(counts, (y[1::2], model.predict(X[1::2])), 1)
        ax.imshow(counts, cmap="Blues")
        ax.set(title=f"{name}: ranked score {scores[name]:.3f}", xlabel="predicted grade")
    axes[0].set_ylabel("grade")
    figure.tight_layout()
    plt.show()
    return scores


if __name__ == "__main__":
    main()
