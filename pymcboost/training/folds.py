"""Cross-validation inside a training: a model for every fold, all of them grown in step.

They tell the best number of rounds, and the scores of every row by a model that has not seen it.
"""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, check_cv

from pymcboost.threads import counted, resolve_n_jobs, threads_for
from pymcboost.training.callbacks import Patience, progress_bar
from pymcboost.training.inputs import Validation
from pymcboost.training.loop import TrainingState, one_round
from pymcboost.training.metrics import Held, Metric

# Rounds that are tried at most.
MOST_ROUNDS = 2000
# Share of the rounds so far that the wait for a better one takes at least: K folds then cost at most about K fits.
WAIT = 1 / 3
# Rounds that models grow between two meetings, and the scores that they may hold back until then. No result depends
# on them.
STEP, STEP_SCORES = 8, 1 << 20


@dataclass(frozen=True)
class OutOfFold:
    """What the models of the folds say.

    Attributes
    ----------
    scores : ndarray of float64 (n, K)
        Raw scores of every row after ``best_round`` rounds, by the model that has not seen it; NaN where it weighs 0.
    fold : ndarray of int (n,)
        The fold in which a row is held out; -1 for rows of weight 0.
    curves : ndarray of float64 (n_folds, T)
        Metric of the rows held out, after 1, 2, ... T rounds.
    best_round : int
        The round with the best mean of the curves.
    n_estimators : int
        Rounds for all rows: more than these by the square root of how many times more rows there are than in a fold's
        training.
    link : {"none", "softmax", "softmax2"}
        That of the models.
    """

    scores: np.ndarray
    fold: np.ndarray
    curves: np.ndarray
    best_round: int
    n_estimators: int
    link: str

    def results(self):
        """The curves as ``cv_results_`` of the estimators."""
        rounds = np.arange(1, self.curves.shape[1] + 1)
        numbers = {"best_round": self.best_round, "n_estimators": self.n_estimators}
        return {"rounds": rounds, "mean": self.curves.mean(axis=0), "folds": self.curves, **numbers}


def refuse_mixed(params, groups):
    """Refuse what does not go with ``n_estimators="auto"``, or without it."""
    if groups is not None and params.n_estimators != "auto" and params.calibrate is None:
        raise ValueError(
            'groups are for n_estimators="auto" and calibrate="temperature", which cross-validate; leave them out'
        )
    if params.n_estimators != "auto":
        return
    for name in ("early_stopping", "warm_start"):
        if getattr(params, name):
            raise ValueError(f'n_estimators="auto" finds the rounds by itself; set {name}=False, or give a number')


def out_of_fold(estimator, inputs, seed):
    """Train a model for every fold of ``estimator.cv`` until the mean of their metrics no longer improves.

    It may stand still for ``n_iter_no_change`` rounds, and for a third of all; there are at most ``MOST_ROUNDS``.

    Parameters
    ----------
    estimator : BoostingClassifier
        Its parameters are those of the models; it is not changed.
    inputs : Inputs
    seed : int
        Of the folds and of the models.

    Returns
    -------
    OutOfFold
        The same for any ``n_jobs``.
    """
    parts = splits(estimator.cv, inputs, seed)
    workers, n_threads = _shares(estimator, inputs, len(parts))
    models = [_Model(estimator, inputs, *part, i, seed, MOST_ROUNDS, n_threads) for i, part in enumerate(parts)]
    params, link = models[0].booster.params, models[0].booster.link
    metric = Metric(estimator.scoring, inputs.classes, link)
    for model in models:
        metric.check(model.held)
    curve = Patience(metric.sign, params.n_iter_no_change, params.min_delta, share=WAIT)
    curves, best = [], [model.validation.scores for model in models]
    name = f"{type(estimator).__name__}, {len(parts)} folds"
    with closing(_grown(models, workers)) as steps, closing(progress_bar(name, MOST_ROUNDS, params.verbose)) as bar:
        for found in steps:
            curves.append([metric(scores, model.held) for scores, model in zip(found, models, strict=True)])
            if curve.see(float(np.mean(curves[-1])), len(curves)):
                best = found
            bar.update()
            if curve.over(len(curves)):
                break
    scores, fold = _empty(inputs), np.full(len(inputs.codes), -1)
    for i, model in enumerate(models):
        scores[model.rows], fold[model.rows] = best[i], i
    best_round = max(1, curve.best_round)
    more_rows = np.count_nonzero(inputs.weight) / np.mean([len(train) for train, _ in parts])
    n_estimators = round(best_round * float(np.sqrt(more_rows)))
    curves = np.array(curves).reshape(-1, len(models)).T
    return OutOfFold(scores, fold, curves, best_round, n_estimators, link)


def held_scores(estimator, inputs, seed, rounds, parts):
    """Raw scores (n, K) of the rows held out after so many rounds, NaN for other rows; and the link of the models.

    Parameters
    ----------
    estimator, inputs, seed
        See `out_of_fold`.
    rounds : int
    parts : list of (rows to train on, rows held out)
    """
    workers, n_threads = _shares(estimator, inputs, len(parts))
    scores = _empty(inputs)

    def grow(number):
        model = _Model(estimator, inputs, *parts[number], number, seed, rounds, n_threads)
        scores[model.rows] = model.finished(stop)
        return model.booster.link

    with _side_by_side(workers) as (run, stop):
        links = list(run(grow, range(len(parts))))
    return scores, links[0]


def _empty(inputs):
    return np.full((len(inputs.codes), len(inputs.classes)), np.nan)


def splits(cv, inputs, seed):
    """Rows to train on and rows held out of every fold, both of positive weight; an error where a fold is of no use."""
    used, codes, n = inputs.weight > 0, inputs.codes, len(inputs.codes)
    shown = f"cv={cv}" if isinstance(cv, Integral) or hasattr(cv, "split") else "cv"
    if isinstance(cv, Integral):
        rows = np.flatnonzero(used)
        if len(rows) < cv:
            raise ValueError(f"{shown}: there are only {counted(len(rows), 'row')}; use at most that many folds")
        groups = None if inputs.groups is None else inputs.groups[rows]
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        data = np.zeros(len(rows)), codes[rows], groups
        splitter = kind(cv, shuffle=True, random_state=seed)
    else:
        rows, data, splitter = np.arange(n), (inputs.X, inputs.classes[codes], inputs.groups), check_cv(cv)
    try:
        with warnings.catch_warnings():  # classes of fewer rows than folds are in some of these
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
            found = [(rows[train], rows[held]) for train, held in splitter.split(*data)]
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(f"{shown}: {error}") from error
    times, parts = np.zeros(n, dtype=int), []
    for i, (train, held) in enumerate(found):
        np.add.at(times, held, 1)
        train, held = train[used[train]], held[used[held]]
        n_classes = len(np.unique(codes[train]))
        if not len(held):
            raise ValueError(f"{shown}: fold {i} holds out no row of positive weight; use fewer folds")
        if n_classes < 2:
            what = counted(n_classes, "class", "classes")
            raise ValueError(f"{shown}: fold {i} trains on rows of {what}, and needs 2; use fewer folds, or stratify")
        if len(np.intersect1d(train, held)):
            raise ValueError(f"{shown}: fold {i} trains on rows that it holds out")
        parts.append((train, held))
    wrong = np.flatnonzero(used & (times != 1))
    if len(wrong):
        raise ValueError(
            f"{shown}: row {wrong[0]} is held out {counted(times[wrong[0]], 'time')}; every row must be held out once, "
            "as by KFold"
        )
    return parts


def _shares(estimator, inputs, n_folds):
    """Models that grow at the same time, and threads of each."""
    n_threads = threads_for(inputs.X.shape[0] * inputs.X.shape[1], resolve_n_jobs(estimator.n_jobs))
    workers = min(n_folds, n_threads) if estimator.booster.side_by_side else 1
    return workers, n_threads // workers


class _Model:
    """The model of one fold, and the scores of the rows held out."""

    def __init__(self, estimator, inputs, train, rows, number, seed, most, n_threads):
        self.rows, X, K, codes = rows, inputs.X[rows], len(inputs.classes), inputs.codes[rows]
        X = X.tocsc() if hasattr(X, "tocsc") else X
        self.held = Held.of(f"fold {number}", X, inputs.classes[codes], codes, inputs.weight[rows])
        self.validation = Validation([self.held], K)
        weight = np.zeros(len(inputs.weight))
        weight[train] = inputs.weight[train]
        self.booster = booster = estimator._booster(lambda: (seed + number) % 2**31)
        booster.params.n_estimators = most
        data = booster.rows(inputs.X, inputs.codes, K, weight, n_threads, None)
        booster.start(data, inputs.classes, threads_for(data.n_entries * data.n_blocks, n_threads), None, len(rows))
        self.state, self.ended = TrainingState(booster, most, None), False

    def grow(self, n_rounds, stop):
        """Add rounds, as far as there are any and until ``stop`` is set; keep the scores after each."""
        self.steps = []
        for _ in range(n_rounds):
            self.ended = self.ended or stop.is_set() or one_round(self.state)
            if not self.ended:
                self.booster.follow(self.validation)
            self.steps.append(self.steps[-1] if self.ended and self.steps else self.validation.scores.copy())

    def finished(self, stop):
        """The scores after all rounds, which are not looked at before."""
        while self.state.n_rounds < self.state.n_estimators and not stop.is_set() and not one_round(self.state):
            pass
        if self.state.n_rounds:
            self.booster.follow(self.validation)
        return self.validation.scores


@contextmanager
def _side_by_side(workers):
    """A ``map`` over so many threads, and an event that is set when they shall end."""
    stop, pool = threading.Event(), ThreadPoolExecutor(workers) if workers > 1 else None
    try:
        yield (map if pool is None else pool.map), stop
    finally:
        stop.set()
        if pool is not None:
            pool.shutdown()


def _grown(models, workers):
    """Yield the scores of all models after every round, until there are no more."""
    step = max(1, min(STEP, STEP_SCORES // sum(model.validation.scores.size for model in models)))
    with _side_by_side(workers) as (run, stop):
        for done in range(0, MOST_ROUNDS, step):
            n = min(step, MOST_ROUNDS - done)
            for _ in run(lambda model, n=n: model.grow(n, stop), models):
                pass
            last = max(model.state.n_rounds for model in models)
            for t in range(min(n, last - done)):
                yield [model.steps[t] for model in models]
            if last < done + n:
                return
