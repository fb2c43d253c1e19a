"""The parameters of all estimators: one table, from which checks, docs and command-line options are generated.

A class declares a parameter once, as a field with its type and default. The type gives the choices and whether None
is allowed; the table gives the rest.
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
    """A scikit-learn cross-validation splitter."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterable[tuple[Any, Any]]:
        """Yield training and held-out rows of each fold."""


class LossFunction(Protocol):
    """A custom loss in NumPy, see `VectorTreeBoostClassifier`."""

    def gradient_hessian(self, y: Any, scores: Any) -> tuple[Any, Any]:
        """First and second derivatives of the loss of every row with respect to its scores."""


Folds = int | Splitter | Iterable[tuple[Any, Any]]
Class = TypeVar("Class", bound=type)


def of_type(row, annotation):
    """Complete a row of the table with the type of a field."""
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    parts = typing.get_args(annotation) if union else (annotation,)
    origins = [typing.get_origin(part) or part for part in parts]
    choices = next(
        (typing.get_args(part) for part in parts if typing.get_origin(part) is Literal), ()
    )
    several = set(typing.get_args(SeveralScorers)) <= set(parts)
    default_kind = str if choices else object
    kind = next((kind for kind in (bool, int, float) if kind in parts), default_kind)
    return row._replace(
        kind=kind,
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
        "Maximum number of boosting rounds. Training stops earlier if nothing is left to learn.\n\n"
        '"auto" chooses the number by cross-validation, see ``cv``.',
        low=1,
    ),
    "learning_rate": Parameter(
        "Shrinkage factor for the contribution of each round. A smaller value needs more rounds.",
        low=0, open_low=True, high=1,
    ),
    "loss": Parameter("Loss of the pairwise margins: exponential or logistic."),
    "weak_learner": Parameter("Type of the weak learners: decision stumps or trees."),
    "max_leaf_nodes": Parameter(
        "Maximum number of leaves per tree; stumps ignore it. Trees grow best-first: the split with the largest gain "
        "is made next.",
        low=2, high=65536,
    ),
    "max_depth": Parameter(
        "Maximum depth of a tree: the number of splits from the root to the deepest leaf. None means no limit.",
        low=1, high=500,
    ),
    "min_samples_leaf": Parameter(
        "Minimum sum of sample weights in a leaf. If all samples have the same weight, this is the minimum number of "
        "samples.",
        low=0,
    ),
    "min_weight_fraction_leaf": Parameter(
        "Minimum fraction of the total sample weight on each side of a split.", low=0, high=0.5
    ),
    "min_weight_fraction_split": Parameter(
        "A node of a tree is split only if it holds more than this fraction of the weight of the tree's rows.",
        low=0, high=1, open_high=True,
    ),
    "min_hessian_leaf": Parameter(
        "Minimum sum of second derivatives in a leaf, each multiplied by its sample weight. Equal sample weights count "
        "as 1. Rows that ``subsample`` leaves out do not count.",
        low=0,
    ),
    "max_features": Parameter(
        "Fraction of the features considered for a split. Features are sampled separately for each node; at least one "
        "is considered.",
        low=0, open_low=True, high=1,
    ),
    "max_features_tree": Parameter(
        "Fraction of the features that a tree may use. Features are sampled separately for each tree; at least one is "
        "used.",
        low=0, open_low=True, high=1,
    ),
    "split_columns": Parameter(
        "Number of columns of gradients that the search for splits uses. Each column is a random sum or difference of "
        "the gradients of all classes, chosen separately for each tree. Fewer columns make training with many classes "
        'faster. None uses the gradients of the classes themselves. "auto" uses them up to 4 classes (32 on sparse '
        "rows), and with more classes a number from 3 to 31.\n\n"
        '"auto" is the square root of the number of classes, rounded up and at most 7; 15 above 225 classes; 31 above '
        "484 classes. On sparse rows it is always 31 above 32 classes. A number that is not below the number of "
        "classes means None. Leaf vectors have a value for every class in any case.",
        low=1,
    ),
    "max_leaf_entries": Parameter(
        "Maximum number of classes with a value of their own in a leaf. The other classes share one value; the classes "
        "whose values differ most from it keep theirs. None keeps the values of all classes. With hundreds of classes, "
        "100 costs little accuracy, and the model file stores only these values.\n\n"
        "Scores are shifted so that the shared value is 0.",
        low=1,
    ),
    "categorical_features": Parameter(
        "Columns that hold categories: a boolean mask, column numbers or names, or None for no categorical features. "
        '"from_dtype" takes the columns of a data frame (pandas, polars, pyarrow) with a categorical dtype, and text '
        "columns unless all of their text can be read as numbers.\n\n"
        "A split can send any set of categories to either side. Categories of a data frame are matched by name. "
        "Numeric columns hold codes: integers from 0 to 65534. Categories that did not occur in training are treated "
        "as missing values.",
        python_only=True,
        type_text='"from_dtype", array-like of bool, int or str',
    ),
    "min_samples_category": Parameter(
        "Minimum sample weight of a category in a node to be placed by itself when the node is split. Rarer categories "
        "all go to the same side. A weight of 3 is enough for a category with 70% of its drawn rows in the node. 0 "
        "places every category by itself.",
        low=0,
    ),
    "l2_regularization": Parameter(
        "L2 regularization: added to the sum of second derivatives in every leaf.", low=0, high=1e12
    ),
    "min_gain": Parameter(
        "A split must gain more than this. The gain is the decrease of the squared error of the gradients, weighted by "
        "the sample weights.",
        low=0,
    ),
    "min_relative_gain": Parameter(
        "Strength of cost-complexity pruning. The splits of a subtree must gain on average this many times the "
        "variance of the gradients; otherwise the subtree is replaced by a leaf. Larger values give smaller trees.\n\n"
        "Gains are measured in sample weights. A split of a growing tree must gain more than an eighth of the value. "
        "After 300 rounds (30 / learning_rate if that is more), the value increases with the fourth power of the "
        "number of rounds.",
        low=0,
    ),
    "subsample": Parameter(
        "Fraction of the rows that each weak learner is trained on. Below 1, the rows are sampled in proportion to "
        "their weights, separately for each weak learner.\n\n"
        "Sampling is systematic: a row with a large weight may be drawn more than once.",
        low=0, open_low=True, high=1,
    ),
    "max_bins": Parameter(
        "Maximum number of bins per feature, including the one for missing values. Features with no more distinct "
        "values, and small data sets, are searched exactly.",
        low=2, high=256,
    ),
    "C": Parameter(
        "Weight of the loss relative to the sum of the coefficients. It multiplies the mean loss over all pairs of a "
        "row and a wrong class.",
        low=0, open_low=True, high=1e12,
    ),
    "tol": Parameter(
        "Relative tolerance: training stops when a round changes the objective by no more than this fraction.", low=0
    ),
    "early_stopping": Parameter(
        "Whether to stop training when the metric on the validation set has not improved for ``n_iter_no_change`` "
        "rounds. The model keeps the rounds up to the best one.\n\n"
        "With ``calibrate``, the log loss at the best temperature after each round is monitored as well. Training "
        "stops when neither improves. The model then keeps all rounds up to the later of the two best rounds."
    ),
    "scoring": Parameter(
        "Metric computed on the validation set after each round. Early stopping uses it.\n\n"
        '- "log_loss": mean of -log p of the true classes.\n'
        '- "error": fraction of misclassified rows.\n'
        '- "balanced_error": mean over the classes of the fraction of misclassified rows.\n'
        '- "auc_ovr": mean over the classes of the one-vs-rest area under the ROC curve.\n\n'
        "A scorer, for which larger is better, can be given as the name of one of scikit-learn's, or as a callable "
        "``(estimator, X, y)`` such as ``make_scorer`` returns. The estimator that it receives predicts the rows X "
        "with the scores of the current round.\n\n"
        'Several metrics can be given as a list, such as ["log_loss", "error"], or as a dict that names them. '
        "Only the first one decides early stopping and the number of rounds for ``n_estimators=\"auto\"``. "
        "``history_`` records all metrics.\n\n"
        "Metrics use the sample weights and class weights."
    ),
    "min_delta": Parameter(
        "Minimum improvement of the metric for early stopping to continue. The model keeps the best round in any case.",
        low=0,
    ),
    "validation_fraction": Parameter(
        "Fraction of the training rows set aside for early stopping if no validation set is given.",
        low=0, open_low=True, high=0.9,
    ),
    "n_iter_no_change": Parameter(
        "Patience of early stopping: the number of rounds without improvement after which training stops.\n\n"
        "Setting it does not turn on early stopping. `fit` warns if it is set without ``early_stopping`` and without "
        '``n_estimators="auto"``.',
        low=1,
    ),
    "cv": Parameter(
        'Number of cross-validation folds for ``n_estimators="auto"`` and for ``calibrate``. Folds are stratified and '
        "shuffled.\n\n"
        "Rows with the same value in the ``groups`` of `fit` stay in the same fold.\n\n"
        "To choose the number of rounds, one model per fold is trained. Training stops when the mean of their metrics "
        "(of the first one in ``scoring``) has not improved for ``n_iter_no_change`` rounds and for a third of all "
        "rounds, or after 2,000 rounds. With ``calibrate``, the log loss is that at the best temperature. Then one "
        "model is trained on all rows. Since it has more rows, the best number of rounds is multiplied by the square "
        "root of n_folds / (n_folds - 1).\n\n"
        "A scikit-learn splitter or a list of (train, test) pairs of row indices can be given instead. Some rows may "
        "never be held out, such as the first rows with `TimeSeriesSplit`, or those of fold -1 with `PredefinedSplit`. "
        "These rows count neither in the metric nor for the temperature. No row may be held out twice. The best number "
        "of rounds is then multiplied by the square root of n_rows / n_train, where n_train is the mean number of "
        "training rows per fold, and at most by 2. The temperature comes from the folds with the most training rows, "
        "which are the last ones in time.",
        low=2,
    ),
    "class_weight": Parameter(
        'Class weights, which multiply the sample weights. "balanced" uses weights inversely proportional to the class '
        "frequencies.\n\n"
        "A dict maps class labels to weights. Classes that are not in it have weight 1."
    ),
    "calibrate": Parameter(
        '"temperature" calibrates the probabilities by temperature scaling: the scores are divided by the number that '
        "minimizes the log loss. Scores and predictions do not change.\n\n"
        "The temperature is fitted to ``X_val`` if given, or to the rows set aside for early stopping if there are at "
        "least 600. Otherwise, vector trees fit it to training rows that their trees leave out. Other estimators fit "
        "it to the rows held out by models of the folds of ``cv``, and train as many folds as hold out 600 rows or 55% "
        "of them. Training then takes two to three times as long."
    ),
    "restore_priors": Parameter(
        "Whether to divide the probabilities by the class weights, so that they match the class frequencies of the "
        "data again. Predictions change accordingly. Sample weights are not undone."
    ),
    "warm_start": Parameter(
        "Whether `fit` adds rounds to the existing model instead of training a new one.", python_only=True
    ),
    "random_state": Parameter(
        "Seed of the random number generator, which draws the validation split and everything else that is random.",
        low=0, high=2**32 - 1,
    ),
    "n_jobs": Parameter(
        "Number of threads. None and -1 use all available CPUs. The model does not depend on the number of threads."
    ),
    "verbose": Parameter(
        "0 shows no progress; n > 0 shows a progress bar on a terminal. Elsewhere, such as in notebooks, it prints a "
        "line to standard error every n rounds, with the metrics and the estimated time left.\n\n"
        "True means 1. The cross-validation models for ``calibrate`` are trained after the rounds and are not counted.",
        low=0, bools=True,
    ),
}  # fmt: skip
# Help of ``min_samples_category`` if gains are reduced by what chance would give, see `pymcboost.learners.levels`.
PARTED_CATEGORY = (
    PARAMETERS["min_samples_category"].help
    + " Otherwise, a split on categories must gain more for each category with less than 70% of its drawn rows in the "
    "node."
)


def values_of(estimator):
    """Values of the parameters of an estimator, by name."""
    return {field.name: getattr(estimator, field.name) for field in fields(estimator)}


@functools.cache
def parameters(cls):
    """Rows of the table for an estimator class, by name; its own parameters come before the shared ones.

    A class may have its own rows, ``own_parameters``, for parameters that no other class has, or with a different range
    or help; or only its own help texts, ``own_help``.

    Parameters
    ----------
    cls : type

    Returns
    -------
    dict of str to Parameter
    """
    parameters_of_class = {}
    helps = {}
    for base in reversed(cls.__mro__):
        parameters_of_class.update(vars(base).get("own_parameters", {}))
        helps.update(vars(base).get("own_help", {}))
    types = {field.name: field.type for field in fields(cls)}
    names = [name for base in cls.__mro__ for name in inspect.get_annotations(base)]
    rows = {}
    for name in dict.fromkeys(names):
        if name in types:
            row = parameters_of_class.get(name) or PARAMETERS[name]
            row = row._replace(help=helps.get(name, row.help))
            rows[name] = of_type(row, types[name])
    return rows


def checked(cls, values):
    """Check the values of the parameters, and convert NumPy scalars to Python's.

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
    """Class decorator that makes the constructor from the fields."""
    dataclass(kw_only=True, eq=False, repr=False)(cls)
    cls.__init__ = _named(cls.__init__, {field.name for field in fields(cls)})  # type: ignore[misc]
    return cls


def _named(init, names):
    """Wrap a constructor so that its errors translate parameter names of other libraries."""

    @functools.wraps(init)
    def __init__(self, *values, **parameters):
        cls = type(self)
        if values:
            raise TypeError(
                f"{cls.__name__}.__init__() accepts only keyword arguments: use "
                f"{cls.__name__}(n_estimators=100), or **params for a dictionary; got "
                f"{values[0]!r}"
            )
        refuse_names(cls, "__init__", [name for name in parameters if name not in names])
        init(self, **parameters)

    return __init__


def refuse_names(cls, method, names):
    """Raise a TypeError if there are names that a method of an estimator class, or its constructor, does not have."""
    if names:
        from pymcboost.training.other_names import unexpected  # a table that only errors need

        place = "constructor" if method == "__init__" else method
        raise TypeError(unexpected(f"{cls.__name__}.{method}", hints_for(cls, names, place)))


def hints_for(cls, names, place):
    """What to write instead of each name that an estimator class refuses, see `other_names.hint`."""
    from pymcboost.training.other_names import hint

    places = {
        argument: "fit" for argument in inspect.signature(cls.fit).parameters if argument != "self"
    }
    places |= dict.fromkeys(parameters(cls), "constructor")
    return {name: hint(name, place, places, estimator=cls.__name__) for name in names}


# Attributes with the out-of-fold scores.
OUT_OF_FOLD = "oof_decision_function_", "oof_fold_"
ATTRIBUTES = {
    "classes_": ("ndarray of shape (n_classes,)", "Class labels in sorted order."),
    "n_features_in_": ("int", "Number of features seen during `fit`."),
    "feature_names_in_": (
        "ndarray of shape (n_features_in_,)",
        "Names of the features seen during `fit`. Defined only if X has column names.",
    ),
    "model_": ("Model", "The fitted model, which `save` writes to a file and which scores rows."),
    "n_estimators_": ("int", "Number of boosting rounds of the model."),
    "why_ended_": ("str", "Explains why training ended after this number of rounds."),
    "auto_params_": ("dict", 'Values chosen for the parameters that were set to "auto".'),
    "cv_results_": (
        "dict of ndarray",
        'Cross-validation results, only with ``n_estimators="auto"``:\n\n'
        '- "rounds", shape (T,): numbers of rounds after which the metric was measured: every round at first, later '
        "in steps of a sixteenth of the rounds.\n"
        '- "folds", shape (n_folds, T): metric on the held-out rows of each fold.\n'
        '- "mean", shape (T,): mean of "folds" over the folds.\n'
        '- "best_round": best number of rounds by the mean.\n'
        '- "n_estimators": number of rounds for the model of all rows.\n\n'
        "With several metrics, these are the results of the first one. ``folds_<metric>`` and ``mean_<metric>`` are "
        "those of each further one.",
    ),
    "oof_decision_function_": (
        "ndarray of shape (n_samples, n_classes) or (n_samples,)",
        "Out-of-fold scores: for each training row, the scores of the model of the fold in ``cv`` that holds it out. "
        "NaN for rows that are never held out or have weight 0. The shape is that of `decision_function`. Neither "
        "the temperature nor ``restore_priors`` is applied. Defined only if all folds are trained: with "
        '``n_estimators="auto"``, for thresholds of labels, and if a temperature needs all folds.',
    ),
    "oof_fold_": (
        "ndarray of int of shape (n_samples,)",
        "Fold that holds out each row, counted from 0, or -1 for none. Defined together with "
        "`oof_decision_function_`.",
    ),
    "gain_": (
        "ndarray of shape (n_features_in_,)",
        "Total gain of the tree splits on each feature.",
    ),
}
# Types of attributes that are properties.
PROPERTIES = {
    "feature_importances_": "ndarray of shape (n_features_in_,)",
    "solver_": "str",
    "sparsity_": "dict of str to int",
    "temperature_": "float or None",
}


def document(cls):
    """Complete the docstring of an estimator class.

    Parameters and attributes are inserted before the first section.
    """
    text = inspect.cleandoc(cls.__doc__)
    heading = re.search(r"^\w+\n-{3,}$", text, re.MULTILINE)
    head = text + "\n\n"
    tail = ""
    if heading:
        head = text[: heading.start()]
        tail = text[heading.start() :]
    defaults = {field.name: field.default for field in fields(cls)}
    entries = [
        _entry(f"{name} : {row.type_in_words()}, default={_quoted(defaults[name])}", row.help)
        for name, row in parameters(cls).items()
    ]
    attributes = [_entry(f"{name} : {kind}", words) for name, (kind, words) in ATTRIBUTES.items()]
    metric = (
        "metric on the validation set, such as val_log_loss. For other validation sets, their name replaces val. Each "
        "of several metrics has its own entry"
    )
    columns = {**cls.booster.columns, "val_<scoring>": metric}
    words = "\n".join(f'- "{name}": {text}.' for name, text in columns.items())
    history = f"Training history, with one value per round:\n\n{words}"
    attributes.append(_entry("history_ : dict of ndarray", history))
    attributes += [
        _entry(
            f"{name} : {PROPERTIES[name]}",
            inspect.getdoc(value).partition("\n\n")[0].replace("\n", " "),
        )
        for name, value in inspect.getmembers(cls, inspect.isdatadescriptor)
        if name.endswith("_") and not name.startswith("_")
    ]
    sections = _section("Parameters", entries), _section("Attributes", attributes), tail
    return head + "\n\n".join(filter(None, sections))


def _quoted(value):
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _entry(head, text):
    """Format an entry of a section; each line of the text is a paragraph, or a list item if it starts with a dash."""
    lines = [
        textwrap.fill(
            line,
            112,
            initial_indent=" " * 4,
            subsequent_indent=" " * (6 if line.startswith("- ") else 4),
            break_on_hyphens=False,
        )
        for line in text.split("\n")
    ]
    return "\n".join([head, *lines])


def _section(title, entries):
    return "\n".join([title, "-" * len(title), *entries])
