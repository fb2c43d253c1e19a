"""Predictions by round and by weak learner."""

from collections.abc import Iterator
from operator import index
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pymcboost.model.categories import in_sets
from pymcboost.model.rows import check_sparse

# Number of (row, tree) pairs that are processed at once.
BLOCK = 1 << 18


class Stages:
    """Methods by round and by tree, for classes with scores and an ensemble."""

    classes_: Any
    ensemble: Any
    from_ensemble: Any
    _rows: Any
    _decision: Any
    _need_stages: Any
    _need_probabilities: Any
    _probabilities_of: Any
    n_learners: Any
    _changed: Any
    _of_first: Any

    def staged_decision_function(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Yield the scores of `decision_function` after 1, 2, ... n_rounds rounds.

        The last ones equal `decision_function` bit for bit.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, n_features_in_)
            Rows to score.

        Yields
        ------
        ndarray of float64 of shape (m, K) or (m,)
            Scores after one more round.

        Raises
        ------
        ValueError
            If the model has no stages; see `Model.has_stages`.
        """
        return map(self._decision, self.staged_raw_scores(X))

    def staged_raw_scores(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Yield the scores of `Model.raw_scores` after 1, 2, ... n_rounds rounds.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, n_features_in_)
            Rows to score.

        Yields
        ------
        ndarray of float64 of shape (m, K)
            Scores after one more round.
        """
        self._need_stages()
        return self._stages(X)

    def staged_predict_proba(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Yield the probabilities of the classes after 1, 2, ... n_rounds rounds.

        The last ones equal `Model.predict_proba` up to rounding. A calibrated model uses the temperature of all rounds
        after every round.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, n_features_in_)
            Rows to predict.

        Yields
        ------
        ndarray of float64 of shape (m, K)
            Probabilities after one more round.

        Raises
        ------
        ValueError
            If the model has no stages or no probabilities.
        """
        self._need_stages()
        self._need_probabilities()
        return map(self._probabilities_of, self._stages(X))

    def truncate(self, t: int) -> Self:
        """Return the model of the first ``t`` rounds.

        The calibration is removed, because it belongs to all rounds.

        Parameters
        ----------
        t : int
            Number of rounds to keep, from 0 to n_rounds.

        Returns
        -------
        Model
            The new model.

        Raises
        ------
        ValueError
            If the model has no stages; see `Model.has_stages`.

        Notes
        -----
        ``restore_priors`` multiplies its part of the bias by the temperature of the training. This method divides the
        bias by this temperature, and multiplies it by the temperature of the loss if there is one. Therefore use
        `reweighted` after this method, or before another temperature is set. Bias from `reweighted` in models without
        ``restore_priors`` stays multiplied, so it fits only if `calibrated` finds a similar temperature. Models of
        LightGBM have a temperature that represents the slope of its link.

        The `thresholds` of a multi-label model are kept. Those of ``decision_threshold="f1"`` belong to the scores of
        all rounds: after few rounds, a label may be assigned to no row or to all rows. `with_thresholds` sets others.
        """
        self._need_stages()
        ensemble = self.ensemble.truncate_rounds(index(t))
        if len(ensemble) == self.n_learners:
            return self._changed(ensemble)
        return self._of_first(ensemble)

    def apply(self, X: Any) -> NDArray[np.int32]:
        """Find the leaf that each row reaches in each weak learner.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, n_features_in_)
            Rows to look up.

        Returns
        -------
        ndarray of int32 of shape (m, n_learners)
            Leaf numbers. The leaves of a tree are numbered from left to right, starting at 0. A stump has leaf 0 if
            ``x <= threshold``, or if x is missing and missing values go left, and otherwise leaf 1.

        Raises
        ------
        ValueError
            If the model is an interval table or a machine, which merge the weak learners.
        """
        X, ensemble = self._over_used(X)
        return _leaves(ensemble.splits(), X, ensemble.sets())

    def staged_apply(self, X: Any) -> Iterator[NDArray[np.int32]]:
        """Yield the leaf numbers of `apply` round by round.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, n_features_in_)
            Rows to look up.

        Yields
        ------
        ndarray of int32 of shape (m, n)
            Leaf numbers for the n weak learners of the round.
        """
        X, ensemble = self._over_used(X)
        offset, *arrays = ensemble.splits()
        ends = ensemble.round_ends()
        for begin, end in zip(ends, ends[1:], strict=False):
            part = slice(offset[begin], offset[end])
            splits = (offset[begin : end + 1] - offset[begin], *(array[part] for array in arrays))
            sets = ensemble.sets()
            if sets is not None:
                number, start, bits = sets
                sets = number[part], start, bits
            yield _leaves(splits, X, sets)

    def paths(self, X: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Find the nodes that each row passes in all weak learners.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, n_features_in_)
            Rows to look up.

        Returns
        -------
        row, node : ndarray of int64 of shape (n,)
            Pairs of a row and a node, in arbitrary order. The nodes of a tree, including its leaves, are in preorder.
        first : ndarray of int64 of shape (n_learners + 1,)
            The nodes of learner t are numbered from ``first[t]`` to ``first[t + 1]``, exclusive.

        Raises
        ------
        ValueError
            If the model is an interval table or a machine, which merge the weak learners.
        """
        X, ensemble = self._over_used(X)
        splits = ensemble.splits()
        first_node = 2 * splits[0] + np.arange(len(ensemble) + 1)
        rows = [np.zeros(0, np.int64)]
        nodes = [np.zeros(0, np.int64)]
        for row, tree, n_splits, n_leaves in _descent(splits, X, ensemble.sets()):
            rows.append(row)
            nodes.append(first_node[tree] + n_splits + n_leaves)
        return np.concatenate(rows), np.concatenate(nodes), first_node

    def _over_used(self, X):
        """Dense rows and the ensemble; sparse rows are reduced to the columns that the ensemble uses."""
        X = self._rows.checked(X)
        ensemble = self.ensemble
        if hasattr(X, "indptr"):
            ensemble.splits()  # refuses machines and merged models, which have no weak learners
            check_sparse(X)
            used, ensemble = ensemble.compact()
            X = X[:, used].toarray()
        return X, ensemble

    def _stages(self, X, ends=None):
        """Yield the scores (m, K) after every round, or before each of these ends of weak learners."""
        X, ensemble = self._over_used(X)
        rows = self._rows
        if X.shape[1] != rows.n_features:
            rows = self.from_ensemble(ensemble, self.classes_)._rows
        return rows.stages(X, ensemble.round_ends() if ends is None else ends)


def _leaves(splits, X, sets):
    """Leaf of every row in every tree: int32 (m, T)."""
    leaf = np.zeros((X.shape[0], len(splits[0]) - 1), dtype=np.int32)
    for row, tree, _, leaf_index in _descent(splits, X, sets):
        leaf[row, tree] = leaf_index  # the deepest node comes last
    return leaf


def _descent(splits, X, sets):
    """Yield (row, tree, n_splits, n_leaves) for the nodes that rows reach, level by level from the roots.

    ``n_splits`` is the number of the tree's splits before the node in preorder, and ``n_leaves`` the number of leaves
    before it, see `Trees`.
    """
    offset, feature, threshold, nan_left, right = splits
    T = len(offset) - 1
    step = max(1, BLOCK // max(1, len(offset)))
    for begin in range(0, len(X) if T else 0, step):
        with np.errstate(over="ignore"):
            rows = X[begin : begin + step].astype(np.float32, copy=False)
        row = np.repeat(np.arange(len(rows)), T)
        tree = np.tile(np.arange(T), len(rows))
        i = offset[tree]
        end = offset[tree + 1]
        n_leaves = np.zeros(len(tree), dtype=np.int64)
        while len(row):
            yield row + begin, tree, i - offset[tree], n_leaves
            is_split = i < end
            row = row[is_split]
            tree = tree[is_split]
            i = i[is_split]
            end = end[is_split]
            n_leaves = n_leaves[is_split]
            x = rows[row, feature[i]]
            goes_left = (x <= threshold[i]) | (np.isnan(x) & nan_left[i])
            if sets is not None:
                number, start, bits = sets
                on_set = np.flatnonzero(number[i])
                split = i[on_set]
                goes_left[on_set] = in_sets(number[split], start, bits, x[on_set], nan_left[split])
            jump = right[i]
            n_leaves = np.where(goes_left, n_leaves, n_leaves + jump)
            end = np.where(goes_left, i + jump, end)
            i = np.where(goes_left, i + 1, i + jump)
