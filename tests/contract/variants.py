"""Every algorithm, and further defaults of some, as estimator classes that tests go through."""

import functools

from pymcboost.registry import ALGORITHMS as REGISTRY
from pymcboost.registry import get_class
from pymcboost.training.parameters import estimator as of_fields


def with_defaults(name, cls, **defaults):
    """A subclass that differs in its default parameters."""
    types = {field: cls.__dataclass_fields__[field].type for field in defaults}
    body = {"__annotations__": types, "__doc__": cls.__doc__, "__module__": __name__, **defaults}
    return of_fields(type(name, (cls,), body))


def seeded(cls):
    """With a seed, as some draw features, and with few folds where some calibrate by them."""
    folds = {"cv": 2} if "cv" in cls().get_params() else {}
    return with_defaults(f"Seeded{cls.__name__}", cls, random_state=0, **folds)


# The classes are names of this module, so that they can be pickled.
ALGORITHMS = {name: seeded(get_class(name)) for name in sorted(REGISTRY)}
ALGORITHMS["mcboost-of-trees"] = with_defaults(
    "MCBoostOfTrees", get_class("mcboost"), weak_learner="tree"
)
for name in ("multiboost", "multiboost-cw"):
    ALGORITHMS[f"{name}-stagewise"] = with_defaults(
        f"Stagewise{get_class(name).__name__}", get_class(name), max_passes=1
    )
    ALGORITHMS[f"{name}-of-trees"] = with_defaults(
        f"{get_class(name).__name__}OfTrees", get_class(name), weak_learner="tree", random_state=0
    )
for name, changed in (
    ("rbf", {"kernel": "rbf", "scale": True}),
    ("random", {"init": "random", "allow_zero": True}),
):
    ALGORITHMS[f"hingeboost-{name}"] = with_defaults(
        f"{name.title()}HingeBoost", get_class("hingeboost"), **changed, random_state=0
    )
for name in (
    "adaboost-m2",
    "adaboost-mh",
    "adaboost-ml",
    "adaboost-mo",
    "gentleboost",
    "gradboost",
    "piboost",
    "samme",
):
    ALGORITHMS[f"{name}-of-trees"] = with_defaults(
        f"{get_class(name).__name__}OfTrees",
        get_class(name),
        weak_learner="tree",
        max_leaf_nodes=4,
        random_state=0,
    )
ALGORITHMS["multiboost-log"] = with_defaults(
    "LogMultiBoost", get_class("multiboost"), loss="log", C=1e2
)
# An algorithm of each base class of boosters and estimators, and of each kind of model. What they have from the same
# code, the quick run tests with these: the marker `families`.
FAMILIES = (
    "abc-mart",
    "adaboost-ecc",
    "adaboost-mh",
    "gradboost",
    "hingeboost",
    "hingeboost-rbf",
    "jointboost",
    "logitboost",
    "mcboost",
    "multiboost",
    "multiboost-cw-stagewise",
    "samme-of-trees",
    "vector-tree",
)
# Nothing that goes by the numbers of the rows.
ALL_ROWS = {"subsample": 1.0, "min_relative_gain": 0.0, "calibrate": None}


def all_rows(algorithm):
    """Parameters of an algorithm with which the order and the repetition of rows do not matter."""
    known = algorithm().get_params()
    return {name: value for name, value in ALL_ROWS.items() if name in known}


# Class-wise trees as in the papers, which draw nothing.
PUBLISHED = {"max_leaf_nodes": 20, "max_features": 1.0, "subsample": 1.0, "calibrate": None}


@functools.cache
def _published(cls):
    made = globals()[cls.__name__] = with_defaults(
        cls.__name__, cls, **PUBLISHED
    )  # where pickles look for it
    return made


def as_published(*classes):
    """Subclasses of the same names that have these defaults."""
    return [_published(cls) for cls in classes]


globals().update({cls.__name__: cls for cls in ALGORITHMS.values()})
