"""Refitting the leaf values of a fitted model to other rows, with the same splits."""

import itertools
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from pymcboost.comm import ALONE
from pymcboost.model import file, missing
from pymcboost.model.init_scores import init_scores, need_init_score
from pymcboost.model.temperature import codes_of
from pymcboost.threads import resolve_n_jobs
from pymcboost.training.divided import class_weights, missing_columns
from pymcboost.training.inputs import check_consistent_length, weights_of_rows
from pymcboost.training.labels import labels_given
from pymcboost.training.parameters import OUT_OF_FOLD
from pymcboost.training.training_set import TrainingSet


class RefitsLeaves:
    """Leaf refitting of fitted estimators."""

    booster: ClassVar[Any]
    model_: ClassVar[Any]
    classes_: ClassVar[Any]
    n_jobs: int | None
    _booster: Any
    _checked: Any

    def refit_leaves(
        self,
        X: Any,
        y: ArrayLike,
        decay: float = 0.9,
        sample_weight: ArrayLike | None = None,
        *,
        init_score: ArrayLike | None = None,
    ) -> Self:
        """Update the leaf values of a fitted model to new rows, and keep the splits.

        Each leaf value becomes ``decay`` times the old value plus ``1 - decay`` times the value that training would
        compute from the new rows, round by round. Leaves that no new row reaches do not change. The temperature stays
        the same; `calibrate_on` fits a new one. Early exits and out-of-fold scores are removed, because they belong to
        the old leaf values. A `LearningRateSchedule` is ignored.

        This is supported by `VectorTreeBoostClassifier` and the estimators with one tree per class (LogitBoost, Mart
        and ABC).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            New rows.
        y : array-like of shape (n_samples,)
            Class labels of the new rows. Some classes of the model may be absent.
        decay : float, default=0.9
            Weight of the old leaf values, from 0 (only new values) to 1 (only old values).
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative sample weights, which are multiplied by the class weights.
        init_score : array-like, default=None
            Initial scores of the rows, as in `fit`.

        Returns
        -------
        self : estimator
            The estimator with the new leaf values.

        Raises
        ------
        ValueError
            If the algorithm cannot refit leaves, or ``decay`` is not a number from 0 to 1.
        """
        name = type(self).__name__
        if not self.booster.refits:
            raise ValueError(
                f"{name} cannot refit leaves, because they do not depend on the loss of the "
                "rows alone. Train a new model, add rounds with init_model, or use "
                "VectorTreeBoostClassifier or class-wise trees, whose leaves can be refitted"
            )
        number: Any = decay  # of any type, whatever the annotation says
        if not isinstance(number, Real) or not 0 <= decay <= 1:
            raise ValueError(
                f"{name}: decay={decay!r} is not allowed; it must be a number from 0 to 1"
            )
        X, first = self._checked(X, init_score)
        need_init_score(self, "refit_leaves", first)
        booster = self._booster(lambda: 0)
        classes = self.classes_
        is_multilabel = booster.multilabel
        if is_multilabel:
            _, codes = labels_given(y, X.shape[0], classes)
        else:
            codes = codes_of(y, classes, "give")
        check_consistent_length(X, codes)
        weight = weights_of_rows(sample_weight, X.shape[0])
        if not is_multilabel:
            weight = weight * class_weights(ALONE, booster.params, classes, codes, weight)[codes]
        if not weight.any():
            raise ValueError(f"{name}: refit_leaves needs rows with positive weight")
        booster.check()
        categories = self.model_.categories
        if categories is not None:
            X = categories.bounded(X)
        scores = None
        if first:
            scores = init_scores(
                first["init_score"], len(codes), len(classes), pairs=not is_multilabel
            )
        dataset = TrainingSet(
            X,
            classes,
            codes,
            weight,
            categories=categories,
            feature_names=self.model_.feature_names,
            init_score=scores,
        )
        booster.lay_out(dataset, resolve_n_jobs(self.n_jobs)).start(n_estimators=0)
        booster.begin_at(self.model_.ensemble.bias)
        leaf = self._refitted_leaves(booster, X, decay)
        changed = {**dict.fromkeys(file.EARLY), **self._meta_with_missing(dataset)}
        vars(self)["model_"] = self.model_._changed(
            replace(self.model_.ensemble, leaf=leaf), **changed
        )
        for name in OUT_OF_FOLD:  # these scores belong to the old leaves
            vars(self).pop(name, None)
        return self

    def _refitted_leaves(self, booster, X, decay):
        """Compute the new leaf values round by round, in the form of the ensemble's."""
        ensemble = self.model_.ensemble
        leaf = np.array(ensemble.leaf, dtype=np.float32)
        first_leaf = (ensemble.offset + np.arange(len(ensemble.offset))).tolist()
        rounds = itertools.pairwise(ensemble.rounds.tolist())
        for leaf_of_row, (begin, end) in zip(self.model_.staged_apply(X), rounds, strict=True):
            trees = range(begin, end)
            cls = _class_of_trees(ensemble.cls, trees)
            base = _class_of_trees(ensemble.base, trees)
            leaves = [leaf[first_leaf[t] : first_leaf[t + 1]] for t in trees]  # views
            new_leaves = booster.refit_round(
                leaf_of_row[booster.data.rows], leaves, cls, base, decay
            )
            for values, new_values in zip(leaves, new_leaves, strict=True):
                values[...] = new_values
        return leaf

    def _meta_with_missing(self, dataset):
        """Changed section of the file if these rows have missing values in more columns than the training rows."""
        meta = self.model_.information
        n_features = dataset.X.shape[1]
        earlier = missing.columns_in(meta, n_features)
        if earlier is None:
            return {}
        columns = np.union1d(earlier, missing_columns(ALONE, dataset))
        if len(columns) == len(earlier):
            return {}
        return dict(file.meta_sections({**meta, **missing.entry_of(columns, n_features)}))


def _class_of_trees(class_of_tree, trees):
    """Classes (or base classes) of some trees of an ensemble; -1 if it has none."""
    if class_of_tree is None:
        return [-1 for _ in trees]
    return [int(class_of_tree[t]) for t in trees]
