"""What the classic multi-class boosters share: their parameters and their documentation."""

import inspect

from pymcboost.binary_boosting import BinaryBoosting

TEXTS = {
    "n_estimators": """int, default=500
        Number of boosting rounds, at least 1. Training stops earlier when no weak learner has an edge.""",
    "weak_learner": """{"stump", "tree"}, default="stump"
        Weak learners: decision stumps, or classification trees.""",
    "max_leaf_nodes": """int, default=20
        Most leaves of a tree, 2 to 65536.""",
    "max_depth": """int or None, default=None
        Most splits on the way to a leaf of a tree; None for no bound.""",
    "max_bins": """int, default=256
        Most bins per feature, 2 to 256, missing values included. Features with no more distinct values, and small data,
        are searched exactly.""",
    "min_weight_fraction_leaf": """float, default=0.0
        Share of the total sample weight that must lie on either side of every split of a stump, 0 to 0.5.""",
    "early_stopping": """bool, default=False
        Stop when the validation error has not improved for ``n_iter_no_change`` rounds, and keep the best round.""",
    "validation_fraction": """float, default=0.1
        Share of the training rows set aside for early stopping when no validation set is given.""",
    "n_iter_no_change": """int, default=20
        Patience of early stopping, in rounds.""",
    "class_weight": """dict, "balanced" or None, default=None
        Weights of the classes, multiplied with the sample weights.""",
    "warm_start": """bool, default=False
        Let `fit` add rounds to the model already there.""",
    "random_state": """int, RandomState instance or None, default=None
        Seed of the validation split, and of what else is random.""",
    "n_jobs": """int or None, default=None
        Threads; None and -1 mean all CPUs available. The model does not depend on it.""",
    "verbose": """int, default=0
        1 shows a progress bar on a terminal.""",
}
ATTRIBUTES = """Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,), where X had string column names
    model_ : Model
        What is saved and scored.
    n_estimators_ : int
        Rounds fitted.
    history_ : dict of ndarray
        Per round, with a validation set: "val_error"; and what the algorithm keeps of it."""


def documented(cls):
    """Class decorator: put the texts of the shared parameters and attributes where the docstring says so.

    A line ``{shared}`` becomes the entries of all parameters of the signature that the docstring does not describe,
    ``{attributes}`` the section of attributes.
    """
    shared = [
        f"{name} : {TEXTS[name]}"
        for name in inspect.signature(cls.__init__).parameters
        if name != "self" and f"\n    {name} : " not in cls.__doc__
    ]
    cls.__doc__ = cls.__doc__.replace("{shared}", "\n    ".join(shared)).replace("{attributes}", ATTRIBUTES)
    return cls


class ClassicBoosting(BinaryBoosting):
    """Base of the classic boosters: rounds of stumps or trees without shrinkage."""

    def __init__(
        self,
        n_estimators=500,
        weak_learner="stump",
        max_leaf_nodes=20,
        max_depth=None,
        max_bins=256,
        min_weight_fraction_leaf=0.0,
        early_stopping=False,
        validation_fraction=0.1,
        n_iter_no_change=20,
        class_weight=None,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        verbose=0,
    ):
        self.n_estimators = n_estimators
        self.weak_learner = weak_learner
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.max_bins = max_bins
        self.min_weight_fraction_leaf = min_weight_fraction_leaf
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _link(self):
        return "softmax2"
