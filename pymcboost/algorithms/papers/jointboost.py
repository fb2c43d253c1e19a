"""JointBoost: regression stumps shared by subsets of the classes that grow greedily.

Problem
    minimise the sum over rows i and classes c of exp(-z_ic F_c(x_i)), z_ic = 1 for c = y_i and -1 for the others.
Round
    w_ic the terms. A stump minimises the weighted squares of z_ic - h_c(x_i). For the classes of a subset S it has, on
    either side of the split, the weighted mean of z over S. Each other class has a constant, its own weighted mean.
    S starts with the best single class. One by one it takes in the class that leaves the least squares. Of all K
    subsets the best one is kept.

Paper: A. Torralba, K. Murphy and W. Freeman, Sharing visual features for multiclass and multiview object detection.
"""

import numpy as np

from pymcboost._kernels import splits as _splits
from pymcboost.algorithms._binary import FIRST_SPLIT, SMALLEST_EDGE
from pymcboost.algorithms.papers._classic import ClassicBooster, one_vs_rest_temperature
from pymcboost.learners import EveryStump
from pymcboost.losses import CodedExp
from pymcboost.losses.codes import one_vs_all
from pymcboost.training import memory
from pymcboost.training.estimator import EnsembleClassifier
from pymcboost.training.parameters import Rounds, estimator


class JointBoost(ClassicBooster):
    """Rounds of JointBoost."""

    fixed = {"weak_learner": "stump"}
    columns = {**FIRST_SPLIT, "n_shared": "number of classes that share the stump"}

    @property
    def link_temperature(self):
        """See `one_vs_rest_temperature`."""
        return one_vs_rest_temperature(self.data.n_classes)

    def memory(self):
        """See `Booster.memory`: two coded columns for every class, their edges, and the sums of all splits."""
        data = self.data
        K = self.data.n_classes
        return [
            *memory.coded(data, 2 * K, self.again, kept=1),
            memory.edges(data, 2 * K, of_splits=4 * K),
        ]

    def prepare(self, previous):
        """Create columns of w z, followed by columns of w, and the search over all splits."""
        K = self.data.n_classes
        code = np.tile(one_vs_all(K), 2)
        unit = code.copy()
        unit[:, K:] = 1.0
        self.loss = CodedExp(self.data, code, self.n_threads, unit=unit)
        self.learner = EveryStump(self.data, self.n_threads, code.shape[1])
        self._sums = None

    def restart(self, scores):
        """Compute the weights for these scores."""
        self.loss.start(None if scores is None else np.tile(scores, 2))

    def round(self):
        """Find the stump and the subset of classes with the smallest squared error."""
        loss = self.loss
        learner = self.learner
        K = self.data.n_classes
        edge, splits, total = learner.edges(loss.gradient)
        if not len(splits):
            return None
        if self._sums is None:
            self._sums = np.empty((K, 4, len(splits)))
        sums = self._sums
        _splits.joint_sums(edge, splits, total, sums, loss.n_threads)
        z_of = total[:K]
        w_of = np.maximum(np.maximum(total[K:], np.abs(total[:K])), 1e-300)
        alone = z_of**2 / w_of
        shared, split_index, gain = self._grow(alone)
        if gain <= SMALLEST_EDGE**2 * w_of.sum():
            return None
        z = sums[shared, :2, split_index].sum(axis=0)
        w = sums[shared, 2:, split_index].sum(axis=0)
        plus = z_of / w_of
        minus = plus.copy()
        minus[shared], plus[shared] = z / np.maximum(w, 1e-300)
        plus, minus = plus.astype(np.float32), minus.astype(np.float32)
        stump = learner.stump(split_index)
        h = stump.h[None, :]
        loss.update(
            h,
            np.tile(plus, 2).astype(np.float64),
            loss.tables(h),
            np.tile(minus, 2).astype(np.float64),
        )
        return self.add_round(stump, plus, minus) | {"n_shared": len(shared)}

    def _grow(self, alone):
        """Choose the classes that share a stump.

        Return them, the split, and what it explains beyond constants of all classes.
        """
        sums = self._sums
        tie = self.learner.tie
        n_threads = self.loss.n_threads
        K = len(sums)
        chosen = np.zeros(sums.shape[1:])
        is_open = np.ones(K, dtype=np.uint8)
        gain = np.full(K, -1.0)
        split_indices = np.zeros(K, dtype=np.int64)
        members = []
        best = ([], 0, 0.0)
        for _ in range(K):
            _splits.joint_gains(chosen, sums, is_open, tie, gain, split_indices, n_threads)
            beyond = np.where(is_open == 1, gain - alone, -np.inf)
            k = int(np.argmax(beyond >= beyond.max() - (tie - 1) * gain.max()))
            is_open[k] = 0
            members.append(k)
            chosen += sums[k]
            explained = gain[k] - alone[members].sum()
            if explained > best[2] * tie:
                best = (sorted(members), int(split_indices[k]), float(explained))
        return best


@estimator
class JointBoostClassifier(EnsembleClassifier):
    """JointBoost: boosting of regression stumps that several classes share.

    Use it to reproduce or compare with published results. Each round adds one stump. The classes that share it are
    selected greedily, in K steps over all splits and classes after one scan of the data.

    References
    ----------
    A. Torralba, K. P. Murphy and W. T. Freeman, Sharing visual features for multiclass and multiview object detection,
    IEEE Transactions on Pattern Analysis and Machine Intelligence 29, 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import JointBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> JointBoostClassifier(n_estimators=20).fit(X, y).predict(X[:2])
    array([0, 0])
    """

    algorithm = "jointboost"
    booster = JointBoost

    n_estimators: Rounds = 500
    min_weight_fraction_leaf: float = 0.0
