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
        """Temperature of one-vs-rest scores."""
        return one_vs_rest_temperature(self.data.n_classes)

    def memory(self):
        """Memory of the rounds: two coded columns for every class, their edges, and the sums of all splits."""
        data = self.data
        K = data.n_classes
        return [
            *memory.coded(data, 2 * K, self.reads_scores, kept=1),
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
        # Sums of w z and of w over all rows, by class, and what a constant of each class explains.
        wz = total[:K]
        w = np.maximum(np.maximum(total[K:], np.abs(wz)), 1e-300)
        explained_by_constants = wz**2 / w
        shared, split_index, gain = self._choose_classes(explained_by_constants)
        if gain <= SMALLEST_EDGE**2 * w.sum():
            return None
        # The values are weighted means of z: of one class for a constant, of all sharing classes on each side.
        plus = wz / w
        minus = plus.copy()
        wz_of_sides = sums[shared, :2, split_index].sum(axis=0)
        w_of_sides = sums[shared, 2:, split_index].sum(axis=0)
        minus[shared], plus[shared] = wz_of_sides / np.maximum(w_of_sides, 1e-300)
        plus = plus.astype(np.float32)
        minus = minus.astype(np.float32)
        stump = learner.stump(split_index)
        h = stump.h[None, :]
        loss.update(
            h,
            np.tile(plus, 2).astype(np.float64),
            loss.tables(h),
            np.tile(minus, 2).astype(np.float64),
        )
        return self.add_round(stump, plus, minus) | {"n_shared": len(shared)}

    def _choose_classes(self, explained_by_constants):
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
        best_members = []
        best_split = 0
        best_gain = 0.0
        for _ in range(K):
            _splits.joint_gains(chosen, sums, is_open, tie, gain, split_indices, n_threads)
            gain_of_next = np.where(is_open == 1, gain - explained_by_constants, -np.inf)
            k = int(np.argmax(gain_of_next >= gain_of_next.max() - (tie - 1) * gain.max()))
            is_open[k] = 0
            members.append(k)
            chosen += sums[k]
            gain_of_members = gain[k] - explained_by_constants[members].sum()
            if gain_of_members > best_gain * tie:
                best_members = sorted(members)
                best_split = int(split_indices[k])
                best_gain = float(gain_of_members)
        return best_members, best_split, best_gain


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
