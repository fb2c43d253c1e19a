"""The parameters of all estimators: one table, from which checks, documents and command-line options follow.

A class writes a parameter once, as a field with its type and default. The type says which choices there are and whether
None is allowed; the table says the rest.
"""

import functools
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, TypeVar, dataclass_transform

import numpy as np

from pymcboost.training.ranges import Parameter as Parameter

Rounds = int | Literal["auto"]
Leaves = int | Literal["auto"]
Share = float | Literal["auto"]
Rate = float | Literal["auto"]
Seed = int | np.random.RandomState | None
ClassWeight = Mapping[Any, float] | Literal["balanced"] | None
ClassMetrics = Literal["log_loss", "error", "balanced_error", "auc_ovr"]
Scorer = str | Callable[..., float]
SeveralScorers = Sequence[Scorer] | Mapping[str, Scorer]
Scoring = ClassMetrics | Scorer | SeveralScorers


class Splitter(Protocol):
    """A cross-validation splitter of scikit-learn."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterable[tuple[Any, Any]]:
        """Rows to train on and rows held out, by fold."""


class LossFunction(Protocol):
    """A loss in NumPy, see `VectorTreeBoostClassifier`."""

    def gradient_hessian(self, y: Any, scores: Any) -> tuple[Any, Any]:
        """First and second derivatives of the loss of every row by its scores."""


Folds = int | Splitter | Iterable[tuple[Any, Any]]
Class = TypeVar("Class", bound=type)


def of_type(row, annotation):
    """The parameter for a field of this type."""
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    parts = typing.get_args(annotation) if union else (annotation,)
    origins = [typing.get_origin(part) or part for part in parts]
    choices = next(
        (typing.get_args(part) for part in parts if typing.get_origin(part) is Literal), ()
    )
    several = set(typing.get_args(SeveralScorers)) <= set(parts)
    kinds = [kind for kind in (bool, int, float) if kind in parts]
    return row._replace(
        kind=kinds[0] if kinds else str if choices else object,
        none=types.NoneType in parts,
        choices=choices,
        scorers=str in parts,
        callables=Callable in origins,
        lists=Sequence in origins and not several,
        dicts=Mapping in origins and not several,
        generators=np.random.RandomState in parts,
        splitters=Splitter in parts,
        losses=LossFunction in parts,
        several=several,
    )


PARAMETERS = {
    "n_estimators": Parameter(
        "Number of boosting rounds. Training stops earlier when nothing is left to learn.", low=1
    ),
    "learning_rate": Parameter("Shrinkage of what every round adds.", low=0, open_low=True, high=1),
    "loss": Parameter("Exponential or logistic loss of the pairwise margins."),
    "weak_learner": Parameter("Weak learners: decision stumps, or trees."),
    "max_leaf_nodes": Parameter(
        "Most leaves of a tree. Trees grow best-first: the split with the largest gain comes next.", low=2, high=65536
    ),
    "max_depth": Parameter("Most splits on the way to a leaf of a tree; None for no bound.", low=1, high=500),
    "min_samples_leaf": Parameter(
        "Least sum of sample weights in a leaf; the number of samples when they all weigh the same.", low=0
    ),
    "min_weight_fraction_leaf": Parameter(
        "Share of the total sample weight that must lie on either side of every split.", low=0, high=0.5
    ),
    "min_weight_fraction_split": Parameter(
        "Only nodes of a tree with more than this share of the weight of its rows are split.",
        low=0, high=1, open_high=True,
    ),
    "min_hessian_leaf": Parameter(
        "Least sum of second derivatives, times the sample weights, in a leaf. Equal weights count as 1; rows that "
        "``subsample`` leaves out do not count.",
        low=0,
    ),
    "max_features": Parameter(
        "Share of the features that a node may be split on; drawn anew at every node, at least one.",
        low=0, open_low=True, high=1,
    ),
    "max_features_tree": Parameter(
        "Share of the features that a tree may use; drawn anew for every tree, at least one.",
        low=0, open_low=True, high=1,
    ),
    "split_columns": Parameter(
        "Columns that splits are found on: so many random sums and differences of the gradients of all classes, drawn "
        "anew for every tree. None, or a number that is not below that of the classes: the classes themselves. "
        '"auto": the root of their number above 4 classes, at most 7; 15 above 225 classes, and 31 above 484; on '
        "sparse rows 31 above 32 classes. Leaf vectors are those of all classes.",
        low=1,
    ),
    "max_leaf_entries": Parameter(
        "Most classes that have a number of their own in a leaf: those whose numbers differ most from the common one, "
        "which is shifted to 0. None: all. Of hundreds of classes, 100 lose little; the file has these numbers "
        "alone.",
        low=1,
    ),
    "categorical_features": Parameter(
        'Columns whose values are categories: a mask, numbers or names of columns, or None. "from_dtype": those of a '
        "data frame (pandas, polars, pyarrow) that have the type of a category or hold text, unless all of the text "
        "reads as numbers.\n\nSplits send any set of categories to either side. Text and categories of a frame go by "
        "their names; columns of numbers hold codes, integers from 0 to 65534. Categories that the training did not "
        "have count as missing.",
        python_only=True,
    ),
    "min_samples_category": Parameter(
        "Least sample weight of a category in a node that has a place of its own in the splits there; rarer ones go to "
        "one side together. A category with 70% of its drawn rows in the node needs a weight of 3 only. 0: all have a "
        "place of their own.",
        low=0,
    ),
    "l2_regularization": Parameter("Added to the curvature of every leaf.", low=0, high=1e12),
    "min_gain": Parameter(
        "Splits must gain more than this: the decrease of the squared error of the gradients, in sample weights.", low=0
    ),
    "min_relative_gain": Parameter(
        "Cost-complexity pruning: the splits of every subtree must gain on average this many times the variance "
        "of the gradients, in sample weights; otherwise the subtree becomes a leaf. A tree grows by splits of more "
        "than an eighth of that. After 300 rounds, or 30 / learning_rate if that is more, it rises with the fourth "
        "power of their number.",
        low=0,
    ),
    "subsample": Parameter(
        "Share of the rows that a weak learner is learnt from. Below 1 they are drawn by their weights, anew for every "
        "weak learner (systematic sampling: rows of large weight may count more than once).",
        low=0, open_low=True, high=1,
    ),
    "max_bins": Parameter(
        "Most bins per feature, missing values included. Features with no more distinct values, and small data, are "
        "searched exactly.",
        low=2, high=256,
    ),
    "C": Parameter(
        "Weight of the loss against the sum of the coefficients: the mean loss of all pairs is multiplied by it.",
        low=0, open_low=True, high=1e12,
    ),
    "tol": Parameter("Training stops when a round changes the objective by no more than this, relatively.", low=0),
    "early_stopping": Parameter(
        "Stop when the metric of the validation rows has not improved for ``n_iter_no_change`` rounds, and keep the "
        "best round.\n\nWith ``calibrate`` the log loss at the temperature that is best after each round is followed, "
        "too. Training stops when neither improves, and keeps the later best round."
    ),
    "scoring": Parameter(
        "Metric of the validation rows: what the history keeps, and early stopping looks at.\n\n"
        '"log_loss" is the mean of -log p of the rows\' classes, "error" the share of wrong rows, "balanced_error" its '
        'mean over the classes, and "auc_ovr" the mean over the classes of the area under the curve of one against the '
        "others.\n\nOr a scorer, for which larger is better: the name of one of scikit-learn's, or a callable "
        "``(estimator, X, y)`` such as make_scorer returns. Its estimator has the scores of the round for the rows X."
        '\n\nOr several of these: a list, as ["log_loss", "error"], or a dict that gives each a name for the history. '
        'The history has all of them. The first one decides early stopping and the rounds of ``n_estimators="auto"``.'
        "\n\nSample and class weights count."
    ),
    "min_delta": Parameter(
        "Least improvement of the metric that early stopping goes on for. The round kept is the best in any case.",
        low=0,
    ),
    "validation_fraction": Parameter(
        "Share of the training rows set aside for early stopping when no validation set is given.",
        low=0, open_low=True, high=0.9,
    ),
    "n_iter_no_change": Parameter(
        "Patience of early stopping, in rounds.\n\nIt does not turn early stopping on: where it is set, and neither "
        '``early_stopping`` nor ``n_estimators="auto"``, `fit` warns.',
        low=1,
    ),
    "cv": Parameter(
        'Folds by which ``n_estimators="auto"`` finds the number of rounds, and ``calibrate`` the temperature: '
        "stratified, shuffled, and rows of one of the ``groups`` given to `fit` together.\n\n"
        "For the rounds the models of all folds grow until the mean of their metrics (of the first one in ``scoring``) "
        "has not improved for ``n_iter_no_change`` rounds, nor for a third of all, at most 2,000. With ``calibrate`` "
        "the log loss is that at the best temperature. Then one model is trained on all rows. As it has more of them, "
        "its rounds are the best number times the square root of n_folds / (n_folds - 1).\n\n"
        "A splitter of scikit-learn, or a list of pairs (rows to train on, rows held out), may never hold out some of "
        "the rows: `TimeSeriesSplit` does so with the first ones, and `PredefinedSplit` with those of fold -1. These "
        "rows count neither in the metric nor in the temperature. No row may be held out twice. The rounds are then "
        "the best number times the square root of all rows over the mean training rows of a fold (2 for "
        "`TimeSeriesSplit`), at most twice the best number. The temperature comes from the folds that train on the "
        "most rows, which are the last ones in time.",
        low=2,
    ),
    "class_weight": Parameter("Weights of the classes, multiplied with the sample weights."),
    "calibrate": Parameter(
        '"temperature": divide the scores by the number at which the probabilities have the least log loss. It comes '
        "from the rows of ``X_val`` or, if there are 600, of early stopping. Vector trees otherwise take it from "
        "training rows that their trees leave out. Other estimators take it from models of the folds of ``cv``, as "
        "many as hold out 600 rows or 55 in a hundred: a training takes two to three times as long. Scores and "
        "predictions stay as they are."
    ),
    "restore_priors": Parameter(
        "Divide the probabilities by the weights of the classes, so that they are those of the data again; predictions "
        "follow. Sample weights are not undone."
    ),
    "warm_start": Parameter("Let `fit` add rounds to the model already there.", python_only=True),
    "random_state": Parameter("Seed of the validation split, and of what else is random.", low=0, high=2**32 - 1),
    "n_jobs": Parameter("Threads; None and -1 mean all CPUs available. The model does not depend on it."),
    "verbose": Parameter(
        "n > 0 shows a progress bar on a terminal. Elsewhere, as in notebooks, standard error gets a line after every "
        "n rounds, with the metrics known and the seconds left.\n\nTrue is 1. Models of folds that ``calibrate`` needs "
        "come after the rounds, and are not counted.",
        low=0, bools=True,
    ),
}  # fmt: skip
# Help of ``min_samples_category`` where gains are reduced by what chance gives, see `pymcboost.learners.levels`.
PARTED_CATEGORY = (
    PARAMETERS["min_samples_category"].help
    + " A split must gain more for every other category whose rows in the node "
    "are fewer than these 70%, but with 0."
)


def values_of(estimator):
    """Values of the parameters of an estimator by name."""
    return {field.name: getattr(estimator, field.name) for field in fields(estimator)}


@functools.cache
def parameters(cls):
    """Rows of the parameters of an estimator class by name, its own before those that it shares.

    A class may have rows of its own, ``own_parameters``, for parameters that no other has, and where a range or the
    help is another; or only help texts, ``own_help``.

    Parameters
    ----------
    cls : type

    Returns
    -------
    dict of str to Parameter
    """
    own, helps = {}, {}
    for base in reversed(cls.__mro__):
        own.update(vars(base).get("own_parameters", {}))
        helps.update(vars(base).get("own_help", {}))
    types = {field.name: field.type for field in fields(cls)}
    found = {}
    for name in (
        name for base in cls.__mro__ for name in inspect.get_annotations(base) if name in types
    ):
        row = own.get(name) or PARAMETERS[name]
        found.setdefault(name, of_type(row._replace(help=helps.get(name, row.help)), types[name]))
    return found


def checked(cls, values):
    """Values of the parameters after checking them, NumPy's scalars as Python's.

    Parameters
    ----------
    cls : type
        Estimator class.
    values : dict

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        Names the class, the parameter, its value and the allowed range.
    """
    values = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in values.items()
    }
    for name, row in parameters(cls).items():
        if not row.allows(values[name]):
            raise ValueError(f"{cls.__name__}: {row.refusal(name, values[name])}")
    return values


@dataclass_transform(kw_only_default=True, eq_default=False)
def estimator(cls: Class) -> Class:
    """Class decorator: make the constructor from the fields."""
    dataclass(kw_only=True, eq=False, repr=False)(cls)
    cls.__init__ = _named(cls.__init__, {field.name for field in fields(cls)})  # type: ignore[misc]
    return cls


def _named(init, names):
    """A constructor that says what the parameters of other libraries are called here."""

    @functools.wraps(init)
    def __init__(self, *values, **parameters):
        cls = type(self)
        if values:
            raise TypeError(
                f"{cls.__name__}.__init__() takes parameters by name: {cls.__name__}(n_estimators=100), or **params "
                f"for those of a dictionary; got {values[0]!r}"
            )
        for name in parameters:
            if name not in names:
                raise TypeError(
                    f"{cls.__name__}.__init__() got an unexpected keyword argument {name!r}"
                    f"{hint_for(cls, name, 'constructor')}"
                )
        init(self, **parameters)

    return __init__


def hint_for(cls, name, place):
    """What to write in place of a name that an estimator class refuses, see `other_names.hint`."""
    from pymcboost.training.other_names import hint  # a table that only errors need

    places = {
        argument: "fit" for argument in inspect.signature(cls.fit).parameters if argument != "self"
    }
    places |= dict.fromkeys(parameters(cls), "constructor")
    return hint(name, place, places, cls.__name__)


# Attributes with the scores of rows by models that have not seen them.
OUT_OF_FOLD = "oof_decision_function_", "oof_fold_"
ATTRIBUTES = {
    "classes_": ("ndarray of shape (n_classes,)", "Labels of the classes, sorted."),
    "n_features_in_": ("int", "Number of features."),
    "feature_names_in_": (
        "ndarray of shape (n_features_in_,)",
        "Names of the columns, where X had any.",
    ),
    "model_": ("Model", "What is saved and scored."),
    "n_estimators_": ("int", "Rounds fitted."),
    "why_ended_": ("str", "Why there are so many rounds, in words."),
    "auto_params_": ("dict", 'The values of parameters that were given as "auto".'),
    "cv_results_": (
        "dict of ndarray",
        'With ``n_estimators="auto"`` alone. "rounds": (T,) after which the metric was measured, at first all of them, '
        'then in steps of a sixteenth; "folds": (n_folds, T) the metric of the rows held out in each fold; "mean": '
        '(T,) over the folds; "best_round" of it; "n_estimators": the rounds asked of the model. Of several metrics '
        'these are those of the first; each further one has ``"folds_"`` and ``"mean_"`` with its name.',
    ),
    "oof_decision_function_": (
        "ndarray of shape (n_samples, n_classes) or (n_samples,)",
        "Scores of the training rows by models of the folds of ``cv`` that have not seen them; NaN for rows that are "
        "never held out, or have no weight. They have the shape of `decision_function`, and come before the "
        "temperature and ``restore_priors``. They are there where all folds are trained: with "
        '``n_estimators="auto"``, for thresholds of labels, and for a temperature that needs all folds.',
    ),
    "oof_fold_": (
        "ndarray of int of shape (n_samples,)",
        "The fold that holds out a row, from 0 on, or -1; where there is `oof_decision_function_`.",
    ),
    "gain_": (
        "ndarray of shape (n_features_in_,)",
        "Total gain of the splits of trees on each feature.",
    ),
}


def document(cls):
    """The docstring of an estimator class with its parameters and attributes before the first other section."""
    text = inspect.cleandoc(cls.__doc__)
    at = re.search(r"^\w+\n-{3,}$", text, re.MULTILINE)
    head, tail = (text[: at.start()], text[at.start() :]) if at else (text + "\n\n", "")
    defaults = {field.name: field.default for field in fields(cls)}
    entries = [
        _entry(f"{name} : {row.type_in_words()}, default={_quoted(defaults[name])}", row.help)
        for name, row in parameters(cls).items()
    ]
    attributes = [_entry(f"{name} : {kind}", words) for name, (kind, words) in ATTRIBUTES.items()]
    metric = (
        "metric of the validation rows, as in val_log_loss; that of other sets by their names; each of "
        "several metrics"
    )
    columns = {**cls.booster.columns, "val_<scoring>": metric}
    words = ", ".join(f'"{name}" ({text})' for name, text in columns.items())
    attributes.append(_entry("history_ : dict of ndarray", f"Per round: {words}."))
    attributes += [
        _entry(name, inspect.getdoc(value).partition("\n\n")[0].replace("\n", " "))
        for name, value in inspect.getmembers(cls, inspect.isdatadescriptor)
        if name.endswith("_") and not name.startswith("_")
    ]
    return (
        f"{head}{_section('Parameters', entries)}\n\n{_section('Attributes', attributes)}\n\n{tail}"
    )


def _quoted(value):
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _entry(head, text):
    paragraphs = [
        textwrap.fill(part, 112, initial_indent="    ", subsequent_indent="    ")
        for part in text.split("\n\n")
    ]
    return "\n".join([head, "\n\n".join(paragraphs)])


def _section(title, entries):
    return "\n".join([title, "-" * len(title), *entries])
