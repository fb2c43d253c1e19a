"""Cross-validation within a training: one model per fold, all grown in step.

It chooses the number of rounds, and scores each row by a model that has not seen it.
"""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from numbers import Integral

import numpy as np

from pymcboost.comm import ALONE
from pymcboost.threads import counted, threads_for
from pymcboost.training.callbacks import Patience, progress
from pymcboost.training.divided import needs_folds, threads_of
from pymcboost.training.divided_folds import OfAll, few_rows, n_weighted, parts_of, present, sizes
from pymcboost.training.metrics import ValidationSet, as_given, calibrated_of, measured, metrics_by
from pymcboost.training.strata import stratified
from pymcboost.training.trainer import Trainer
from pymcboost.training.validation import Validation

# Maximum number of rounds to try.
MOST_ROUNDS = 2000
# The wait for a better round takes at least this share of the rounds so far. K folds then cost at most about K fits.
WAIT = 1 / 3
# The metric is first measured after every round, then at intervals of 1 / SPACING of the rounds so far.
SPACING = 16
# If probabilities will be calibrated, the curve keeps falling by very little: only improvements by this share of it
# count.
TOLERANCE = 0.005
# The number of rounds for all rows is at most this multiple of the best number for the folds. For more than four
# times the rows of a fold's training part, its growth has not been studied.
MOST_MORE = 2.0
# Number of measurements between two synchronizations of the models, and of the scores that they may buffer until
# then. Neither affects the results.
STEP = 8
STEP_SCORES = 1 << 20


@dataclass(frozen=True)
class OutOfFoldScores:
    """Scores of rows by models that have not seen them, if all folds are trained.

    Attributes
    ----------
    scores : ndarray of float64 (n, K)
        Raw scores; NaN of rows that are never held out or weigh 0.
    fold : ndarray of int (n,)
        The fold in which a row is held out, or -1.
    """

    scores: np.ndarray
    fold: np.ndarray

    @classmethod
    def of(cls, scores, parts):
        """Create the object from scores and folds, each a pair of training and held-out rows."""
        fold = np.full(len(scores), -1)
        for i, (_, held_out) in enumerate(parts):
            fold[held_out] = i
        return cls(scores, fold)


@dataclass(frozen=True)
class OutOfFold:
    """Results of the models of the folds.

    Attributes
    ----------
    scores : ndarray of float64 (n, K)
        Raw scores of every row after ``best_round`` rounds, by the model that has not seen it; NaN if its weight is 0
        or it is never held out.
    fold : ndarray of int (n,)
        The fold in which a row is held out; -1 for rows of weight 0 and rows that are never held out.
    trained : ndarray of bool (n_folds, n)
        Whether the model of a fold is trained on a row.
    rounds : ndarray of int (T,)
        Numbers of rounds after which the metric was measured.
    curves : ndarray of float64 (n_folds, T)
        Metric of the rows held out: the first one, which decides.
    further : dict of str to ndarray
        Curves of the other metrics by their names.
    best_round : int
        The round with the best mean of the curves.
    n_estimators : int
        Rounds for all rows: more than these by the square root of how many times more rows there are than in the mean
        training of the folds, at most by ``MOST_MORE``.
    link : {"none", "softmax", "softmax2"}
        That of the models.
    """

    scores: np.ndarray
    fold: np.ndarray
    trained: np.ndarray
    rounds: np.ndarray
    curves: np.ndarray
    further: dict[str, np.ndarray]
    best_round: int
    n_estimators: int
    link: str

    def parts(self):
        """Training and held-out rows of every fold."""
        return [
            (np.flatnonzero(train), np.flatnonzero(self.fold == i))
            for i, train in enumerate(self.trained)
        ]

    def results(self):
        """The curves, in the form of the estimators' ``cv_results_``."""
        numbers = {"best_round": self.best_round, "n_estimators": self.n_estimators}
        results = {
            "rounds": self.rounds,
            "mean": self.curves.mean(axis=0),
            "folds": self.curves,
            **numbers,
        }
        for name, curves in self.further.items():
            results |= {f"mean_{name}": curves.mean(axis=0), f"folds_{name}": curves}
        return results


def refuse_mixed(params, groups, has_val):
    """Refuse options that do not work with ``n_estimators="auto"``, or only with it; ``has_val``: X_val is given."""
    holds_out = not has_val and (params.early_stopping or needs_folds(params))
    if groups is not None and params.n_estimators != "auto" and not holds_out:
        raise ValueError(
            'groups are used only with n_estimators="auto", or to hold out rows for '
            'early_stopping and calibrate="temperature" if there is no X_val; leave them out'
        )
    if params.n_estimators != "auto":
        return
    for name in ("early_stopping", "warm_start"):
        if getattr(params, name):
            raise ValueError(
                f'n_estimators="auto" finds the number of rounds itself; set {name}=False, or '
                "give a number"
            )


def out_of_fold(estimator, dataset, seed):
    """Train a model for every fold of ``estimator.cv`` until the mean of their first metrics no longer improves.

    It may stand still for ``n_iter_no_change`` rounds, and for a third of all; there are at most ``MOST_ROUNDS``.

    Parameters
    ----------
    estimator : BoostingClassifier
        The models have its parameters; it is not changed.
    dataset : TrainingSet
    seed : int
        Seed of the folds and of the models.

    Returns
    -------
    OutOfFold
        The same for any ``n_jobs``.
    """
    parts = splits(estimator.cv, dataset, seed)
    n_at_once, n_threads = _shares(estimator, dataset, len(parts))
    models = [
        _Model(
            estimator,
            dataset,
            fold,
            number=i,
            seed=seed,
            most_rounds=MOST_ROUNDS,
            n_threads=n_threads,
        )
        for i, fold in enumerate(parts)
    ]
    first = models[0].booster
    metrics = metrics_by(
        estimator.scoring, dataset.classes, first.probabilities, loss=first.loss_value
    )
    measure = _FoldMetrics(dataset, metrics, models, parts)
    params = first.params
    patience = Patience(
        metrics[0].sign,
        params.n_iter_no_change,
        params.min_delta,
        share=WAIT,
        tolerance=measure.tolerance,
    )
    name = f"{type(estimator).__name__}, {len(parts)} folds"
    bar = progress(name, MOST_ROUNDS, params.verbose if dataset.comm.rank == 0 else 0, at_most=True)
    at_first = [model.validation.scores for model in models]
    with closing(_grown(models, n_at_once)) as steps, closing(bar):
        rounds, curves, best = _until_no_better(steps, measure, metrics, patience, bar)
    scores, fold, trained = _joined(dataset, parts, at_first if best is None else best)
    best_round = max(1, patience.best_round)
    more_rows = n_weighted(dataset.comm, dataset.weight) / np.mean(sizes(dataset, parts)[:, 0])
    n_estimators = round(best_round * min(MOST_MORE, float(np.sqrt(more_rows))))
    curves = np.array(curves).reshape(-1, len(metrics), len(models))
    of_metric = {metric.name: curves[:, i].T for i, metric in enumerate(metrics)}
    deciding = of_metric.pop(metrics[0].name)
    return OutOfFold(
        scores,
        fold,
        trained,
        rounds=np.array(rounds, dtype=np.int64),
        curves=deciding,
        further=of_metric,
        best_round=best_round,
        n_estimators=n_estimators,
        link=first.link,
    )


def _until_no_better(steps, measure, metrics, patience, bar):
    """Grow all models in step until the first metric no longer improves.

    Parameters
    ----------
    steps : iterator of (rounds done, scores of the held-out rows of every model)
    measure : _FoldMetrics
    metrics : list
    patience : Patience
        Sees the mean of the first metric.
    bar : object
        Shows the progress.

    Returns
    -------
    rounds : list of int
        After which the models were measured.
    curves : list
        What ``measure`` returned each time.
    best : list of ndarray, or None
        Scores in the best round; None if no round was better than none.
    """
    rounds = []
    curves = []
    best = None
    for done, scores in steps:
        curves.append(measure(scores))
        means = [float(np.mean(values)) for values in curves[-1]]
        named = {f"mean {metric.name}": mean for metric, mean in zip(metrics, means, strict=True)}
        bar.update(done - (rounds[-1] if rounds else 0), named)
        rounds.append(done)
        if patience.see(means[0], done):
            best = scores
        if patience.over(done):
            break
    return rounds, curves, best


def _joined(dataset, parts, scores_of_folds):
    """Scores of all rows, NaN where none; the folds that hold them out, or -1; which rows each fold trains on."""
    n = len(dataset.codes)
    scores = _empty(dataset)
    fold = np.full(n, -1)
    trained = np.zeros((len(parts), n), dtype=bool)
    for i, (train, held_out) in enumerate(parts):
        scores[held_out] = scores_of_folds[i]
        fold[held_out] = i
        trained[i, train] = True
    return scores, fold, trained


class _FoldMetrics:
    """Metrics of the rows that the folds hold out, over all workers.

    Parameters
    ----------
    dataset : TrainingSet
    metrics : list of Metric
        If probabilities will be calibrated, the first one is replaced by the log loss at the best temperature.
    models : list of _Model
    parts : list of (rows to train on, rows held out)

    Attributes
    ----------
    tolerance : float
        Share of the first metric by which an improvement must lower it.
    """

    def __init__(self, dataset, metrics, models, parts):
        booster = models[0].booster
        comm = dataset.comm
        if comm is not ALONE and any(metric.takes_rows for metric in metrics):
            raise ValueError(
                'n_estimators="auto" on several workers does not support '
                f"scoring={booster.params.scoring!r}, which needs all rows in one place; use "
                "'log_loss' or another built-in metric"
            )
        self._comm = comm
        self._metrics = metrics
        self._collectors = [OfAll(dataset, model.rows) for model in models]
        self._sets = [model.validation_set for model in models]
        if comm is not ALONE:
            self._sets = list(map(self._set_of_all, self._collectors, self._sets))
        for validation_set in self._sets:
            for metric in metrics:
                metric.check(validation_set)
        self._calibrated = next(iter(calibrated_of(booster.params, booster.link)), None)
        self.tolerance = 0.0
        if self._calibrated is not None:
            self.tolerance = TOLERANCE
            self._in_training = [
                present(dataset, train)[validation_set.codes]
                for validation_set, (train, _) in zip(self._sets, parts, strict=True)
            ]

    @staticmethod
    def _set_of_all(collect, worker_set):
        """Join the rows of a set of all workers."""
        return ValidationSet.of(
            worker_set.name,
            X=None,
            y=None,
            codes=collect(worker_set.codes),
            weight=collect(worker_set.weight),
        )

    def __call__(self, scores):
        """Measure the scores of all models: a list for every metric, with a number for each model."""
        scores = [
            collect(scores_of_model)
            for collect, scores_of_model in zip(self._collectors, scores, strict=True)
        ]
        metrics = self._metrics if self._calibrated is None else self._metrics[1:]
        values_of_models = [
            measured(metrics, scores_of_model, validation_set)
            for scores_of_model, validation_set in zip(scores, self._sets, strict=True)
        ]
        curves = [[values[metric.name] for values in values_of_models] for metric in metrics]
        if self._calibrated is not None:
            curves.insert(0, self._calibrated.of_sets(scores, self._sets, self._in_training))
        return self._comm.broadcast(curves)


def held_scores(estimator, dataset, seed, rounds, parts, previous=None):
    """Raw scores (n, K) of the held-out rows after ``rounds`` rounds, NaN for other rows; and the link of the models.

    The models learn in fewer rounds: see `Booster.speed_up`.

    Parameters
    ----------
    estimator, dataset, seed
        See `out_of_fold`.
    rounds : int
    parts : list of (rows to train on, rows held out)
    previous : Previous, optional
        Rounds that all models begin with.
    """
    n_at_once, n_threads = _shares(estimator, dataset, len(parts))
    scores = _empty(dataset)

    def grow(number):
        model = _Model(
            estimator,
            dataset,
            parts[number],
            number=number,
            seed=seed,
            most_rounds=rounds,
            n_threads=n_threads,
            previous=previous,
            fast=True,
        )
        scores[model.rows] = model.finished(stop)
        return model.booster.link

    with _side_by_side(n_at_once) as (run, stop):
        links = list(run(grow, range(len(parts))))
    return scores, links[0]


def _empty(dataset):
    return np.full((len(dataset.codes), len(dataset.classes)), np.nan)


def splits(cv, dataset, seed):
    """Training and held-out rows of every fold, all with positive weight.

    A row is held out in at most one fold. Raises an error if a fold is unusable.
    """
    if dataset.comm is not ALONE:
        return parts_of(dataset, cv, seed)
    is_number = isinstance(cv, Integral)
    shown = f"cv={cv}" if is_number or hasattr(cv, "split") else "cv"
    try:
        drawn = _numbered(cv, dataset, seed) if is_number else _given(cv, dataset, seed)
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(f"{shown}: {error}") from error
    if not drawn:
        remedy = "no folds; give at least one pair of training rows and held-out rows"
        if hasattr(cv, "__next__"):
            remedy = "no folds left, because a generator can be used only once; give list(cv)"
        raise ValueError(f"{shown} has {remedy}")
    used = dataset.weight > 0
    parts = [(train[used[train]], held_out[used[held_out]]) for train, held_out in drawn]
    for i, (train, held_out) in enumerate(parts):
        _refuse_fold(f"{shown}: fold {i}", dataset.codes, train, held_out)
    times = np.zeros(len(used), dtype=int)
    for _, held_out in drawn:
        np.add.at(times, held_out, 1)
    repeated = np.flatnonzero(used & (times > 1))
    if len(repeated):
        row = repeated[0]
        raise ValueError(
            f"{shown}: row {row} is held out {times[row]} times; every row may be held out at "
            "most once, as KFold and TimeSeriesSplit do"
        )
    return parts


def _numbered(cv, dataset, seed):
    """``cv`` folds of the rows with positive weight, stratified by class."""
    codes = dataset.codes
    rows = np.flatnonzero(dataset.weight > 0)
    if len(rows) < cv:
        raise ValueError(f"there are only {counted(len(rows), 'row')}; use at most that many folds")
    largest = np.bincount(codes[rows]).max() if codes.ndim == 1 else cv
    if largest < cv:
        raise ValueError(few_rows(largest))
    strata = np.zeros(len(rows)) if codes.ndim == 2 else codes[rows]
    if dataset.groups is None:
        drawn = stratified(strata, cv, seed)
    else:
        drawn = _drawn(cv, dataset, rows, strata, seed)
    return [(rows[train], rows[held_out]) for train, held_out in drawn]


def _given(cv, dataset, seed):
    """The folds of a splitter, or a list of folds, of the rows that the user gave."""
    rows = np.arange(len(dataset.codes)) if dataset.subset is None else dataset.subset
    drawn = _drawn(cv, dataset, rows, None, seed)
    return [(rows[train], rows[held_out]) for train, held_out in drawn]


def _refuse_fold(shown, codes, train, held_out):
    """Refuse a fold that holds out no rows, trains on fewer than two classes, or trains on rows that it holds out."""
    if not len(held_out):
        raise ValueError(f"{shown} holds out no row with positive weight; use fewer folds")
    n_classes = len(np.unique(codes[train])) if codes.ndim == 1 else 2
    if n_classes < 2:
        raise ValueError(
            f"{shown} trains on rows of {counted(n_classes, 'class', 'classes')}, but needs at "
            "least 2; use fewer folds, or stratify"
        )
    if len(np.intersect1d(train, held_out)):
        raise ValueError(
            f"{shown} trains on rows that it holds out; give disjoint training and held-out rows"
        )


def _drawn(cv, dataset, rows, strata, seed):
    """Let scikit-learn draw the folds of these rows: by groups, or with the user's splitter."""
    from sklearn.model_selection import StratifiedGroupKFold, check_cv
    from sklearn.utils import _safe_indexing

    if strata is None:
        X = dataset.X if dataset.user_X is None else as_given(dataset.user_X)
        data = (X, dataset.y(), dataset.groups)
        splitter = check_cv(cv)
        if dataset.subset is not None:
            data = tuple(None if part is None else _safe_indexing(part, rows) for part in data)
        named = getattr(splitter, "test_fold", None)  # PredefinedSplit ignores the rows
        if named is not None and len(named) != len(rows):
            raise ValueError(
                f"it assigns {counted(len(named), 'row')} to folds, but there are {len(rows)}"
            )
    else:
        splitter = StratifiedGroupKFold(cv, shuffle=True, random_state=seed)
        data = np.zeros(len(rows)), strata, dataset.groups[rows]
    with warnings.catch_warnings():  # classes with fewer rows than folds are allowed
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        return list(splitter.split(*data))


def _shares(estimator, dataset, n_folds):
    """Number of models that grow at the same time, and of threads for each."""
    n_rows, n_features = dataset.X.shape
    n_threads = threads_for(n_rows * n_features, threads_of(estimator.n_jobs, dataset.comm))
    n_models = 1
    if estimator.booster.side_by_side and dataset.comm is ALONE:
        n_models = min(n_folds, n_threads)
    return n_models, n_threads // n_models


class _Model:
    """Model of one fold, and the scores of the held-out rows.

    Parameters
    ----------
    estimator : BoostingClassifier
    dataset : TrainingSet
    fold : (rows to train on, rows held out)
    number : int
        Number of the fold, for messages and for its seed.
    seed : int
    most_rounds : int
    n_threads : int
    previous : Previous, optional
        Rounds that the model begins with.
    fast : bool, default=False
        Whether only the scores after the last round are needed: see `Booster.speed_up`.
    """

    def __init__(
        self,
        estimator,
        dataset,
        fold,
        *,
        number,
        seed,
        most_rounds,
        n_threads,
        previous=None,
        fast=False,
    ):
        train, rows = fold
        self.rows = rows
        X = dataset.X[rows]
        K = len(dataset.classes)
        codes = dataset.codes[rows]
        X = X.tocsc() if hasattr(X, "tocsc") else X
        # The metric covers the rows of all workers; those of this worker may be empty, so they are not checked.
        make_set = ValidationSet if fast or dataset.comm is not ALONE else ValidationSet.of
        user_X = None if fast else dataset.user_rows(estimator.scoring, rows)
        self.validation_set = make_set(
            f"fold {number}",
            X,
            dataset.y(rows),
            codes=codes,
            weight=dataset.weight[rows],
            user_X=user_X,
            init_score=dataset.init_score_of(rows),
        )
        self.validation = Validation([self.validation_set], K)
        self.booster = estimator._booster(lambda: (seed + number) % 2**31, dataset.comm)
        if fast:
            done = 0 if previous is None else previous.n_rounds
            most_rounds = done + self.booster.speed_up(most_rounds - done)
        self.booster.lay_out(dataset.only(train), n_threads, previous)
        self.trainer = Trainer(
            self.booster, most_rounds, previous=previous, validation=self.validation
        )
        if previous is not None:
            self.validation.add_rounds(self.booster.builder)

    def grow(self, marks, stop):
        """Train up to each of these numbers of rounds, if possible, until ``stop`` is set; keep the scores at each."""
        self.steps = []
        for mark in marks:
            before = self.n_rounds
            self.trainer.advance(mark, stop)
            if self.n_rounds > before:
                self.booster.follow(self.validation)
            self.steps.append(self.validation.scores.copy())

    def finished(self, stop):
        """Train all remaining rounds and return the scores."""
        self.grow([self.trainer.state.n_estimators], stop)
        return self.validation.scores

    @property
    def n_rounds(self):
        """Number of rounds done."""
        return self.trainer.state.n_rounds


@contextmanager
def _side_by_side(n_at_once):
    """Context with a ``map`` over this many threads, and an event that is set when they should stop."""
    stop = threading.Event()
    pool = ThreadPoolExecutor(n_at_once) if n_at_once > 1 else None
    try:
        yield (map if pool is None else pool.map), stop
    finally:
        stop.set()
        if pool is not None:
            pool.shutdown()


def _marks():
    """Numbers of rounds after which the models are measured."""
    done = 0
    while done < MOST_ROUNDS:
        done = min(MOST_ROUNDS, done + max(1, done // SPACING))
        yield done


def _grown(models, n_at_once):
    """Yield numbers of rounds and the scores of all models after them, until no model grows further."""
    # Rounds beyond the last measurement are wasted, and fewer synchronizations only help with several threads.
    step = 1
    if n_at_once > 1:
        n_scores = sum(model.validation.scores.size for model in models)
        step = max(1, min(STEP, STEP_SCORES // n_scores))
    marks = _marks()
    done = 0
    with _side_by_side(n_at_once) as (run, stop):
        while next_marks := list(islice(marks, step)):
            for _ in run(lambda model, marks=next_marks: model.grow(marks, stop), models):
                pass
            last = max(model.n_rounds for model in models)
            for t, mark in enumerate(next_marks):
                if done == last:
                    return
                done = min(mark, last)
                yield done, [model.steps[t] for model in models]
