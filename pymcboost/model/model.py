"""Saved models: load, predict, save. Needs only NumPy; ``mcb.h`` computes all scores."""

from functools import cache, partial
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymcboost import files
from pymcboost._version import __version__
from pymcboost.model import file
from pymcboost.model.categories import Categories
from pymcboost.model.covers import Covers
from pymcboost.model.early import Early, EarlyExit
from pymcboost.model.file import ModelFormatError
from pymcboost.model.init_scores import init_scores
from pymcboost.model.kinds import KINDS
from pymcboost.model.labels import Labels
from pymcboost.model.missing import Missing, MissingColumns
from pymcboost.model.rows import Rows
from pymcboost.model.stages import Stages
from pymcboost.model.temperature import Calibration
from pymcboost.threads import counted

Layout = Literal["list", "interval", "packed"]
Leaves = Literal["float32", "float16", "int8"]

__all__ = ["Model", "ModelFormatError", "load_model"]

CORRECTIVE = (
    "this model is totally corrective: every round changed the coefficients of all weak "
    "learners, so its first rounds are not a model; train one with fewer rounds"
)


def load_model(path: "str | PathLike[str]") -> "Model":
    """Load a model from a file.

    Only NumPy is needed to load a model and to predict with it.

    Parameters
    ----------
    path : str or path-like
        Path of a file that `Model.save`, ``save`` of an estimator or ``mcboost-train`` has written.

    Returns
    -------
    Model
        The model, which can predict but not train.

    Raises
    ------
    ModelFormatError
        If the file is not a valid model file. A checksum detects damage, but not manipulation.
    OSError
        If the file cannot be read.
    MemoryError
        If a pipe announces more data than the available memory can hold.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import VectorTreeBoostClassifier, load_model
    >>> X, y = load_iris(return_X_y=True)
    >>> path = pathlib.Path(tempfile.mkdtemp(), "iris.mcb")
    >>> VectorTreeBoostClassifier(n_estimators=20, random_state=0).fit(X, y).save(path)
    >>> load_model(path).predict(X[:2])
    array([0, 0])
    """
    return Model(*file.read(path))


class Model(Calibration, Covers, EarlyExit, Labels, MissingColumns, Stages):
    """Trained model as it is stored in a file, for prediction.

    Create one with `load_model`, `from_bytes` or `from_ensemble`, or take ``model_`` of a fitted estimator. A score is
    the bias plus the values of the weak learners, added in float64 in a fixed order. Scores are therefore identical
    to the last bit for one row or many, for any number of threads, in Python, on the command line and in C (``mcb.h``).

    Attributes
    ----------
    classes_ : ndarray of int64 or str of shape (K,)
        Class labels in sorted order. Strings are an object array if their lengths differ so much that a fixed width
        would waste memory.
    n_classes_ : int
        Number of classes, K.
    n_features_in_ : int
        Number of features.
    kind : int
        1 is a list of stumps, 2 an interval table, 3 trees, 5 a linear machine, 6 a kernel machine, and 7 packed trees.
    link : {"none", "softmax", "softmax2", "sigmoid", "shares"}
        Link function from scores F to probabilities: "softmax" is the softmax of F, and "softmax2" that of 2 F.
        "sigmoid" is 1 / (1 + exp(-F)) for each label of multi-label data. "shares" is F divided by its sum over the
        classes, for forests, whose scores are sums of probabilities.
    n_learners : int or None
        Number of stumps or trees. None for interval tables, which merge the stumps, and for machines.
    n_rounds : int or None
        Number of boosting rounds. A round has one stump, or one or more trees. None for interval tables and machines.
        For a totally corrective model (see `has_stages`) this is not the number of rounds of the training, which is
        ``meta["rounds"]``.
    feature_names : list of str or None
        Column names, if the model was trained on a data frame.
    meta : dict
        Information about the training. Empty if there is none.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = VectorTreeBoostClassifier(n_estimators=20, random_state=0).fit(X, y).model_
    >>> model.n_rounds, model.n_classes_, model.link
    (20, 3, 'softmax')
    >>> model.predict_proba(X[:5]).shape
    (5, 3)
    """

    def __init__(self, data, scorer):
        header = file.header(scorer)
        self._data = data
        self._scorer = scorer
        self._header = header
        self._kind = KINDS[header.kind]
        self._names = partial(file.feature_names, data, scorer)
        self._categories = cache(partial(_categories, data, scorer))
        self._rows = Rows(scorer, self._kind.allows_missing, self._names, self._categories)
        self._classes = None
        self.n_classes_ = header.n_classes
        self.n_features_in_ = header.n_features
        self.kind = header.kind
        self.link = header.link
        is_merged = self._kind.no_stages is not None
        self.n_learners = None if is_merged else header.n_learners
        self.n_rounds = None if is_merged else header.n_rounds

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Load a model from the contents of a model file.

        Parameters
        ----------
        data : bytes-like
            Contents of the file.

        Returns
        -------
        Model
            The model.

        Raises
        ------
        ModelFormatError
            If the bytes are not a valid model file.
        """
        if type(data) is not bytes:  # the conversion would always copy
            data = bytes(memoryview(data))
        return cls(data, file.check(data))

    @classmethod
    def from_ensemble(
        cls,
        ensemble: Any,
        classes: Any,
        *,
        link: str = "none",
        meta: dict[str, Any] | None = None,
        layout: Layout = "list",
        leaves: Leaves = "float32",
    ) -> Self:
        """Create a model from an ensemble of weak learners, or from a linear or kernel machine.

        Parameters
        ----------
        ensemble : Stumps, Trees, LinearMachine or KernelMachine
            The parts that compute the scores.
        classes : array-like of shape (K,)
            Distinct, sorted class labels: integers or strings.
        link : {"none", "softmax", "softmax2", "sigmoid", "shares"}, default="none"
            Link function from scores to probabilities; see `Model`. "softmax" fits the softmax and pairwise logistic
            losses, and "softmax2" the pairwise exponential loss. With "shares", scores below 0 count as 0.
        meta : dict, default=None
            Information to store in the file: values that JSON can represent.
        layout : {"list", "interval", "packed"}, default="list"
            "list" stores the weak learners one after the other. "interval" merges stumps into one table of intervals
            per feature, which is often faster for single rows. Its values are float32, so scores agree to 1e-7 of the
            sum of the magnitudes of the weak learners. "packed" stores trees with few bits per split and leaf; scores
            are the same.
        leaves : {"float32", "float16", "int8"}, default="float32"
            Type of the leaf values of trees. "float16" rounds them to 3 digits. "int8" rounds those of packed trees to
            255 different values.

        Returns
        -------
        Model
            The model.
        """
        ensemble = ensemble.laid_out(layout, leaves)
        common = file.label_sections(classes, ensemble.n_classes) + file.meta_sections(meta)
        return cls.from_bytes(file.encode(ensemble, common, link))

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels in sorted order. Strings may be an object array, if their lengths differ much."""
        if self._classes is None:
            self._classes = file.class_labels(self._sections())
            self._classes.flags.writeable = False
        return self._classes

    @property
    def meta(self) -> dict[str, Any]:
        """Information about the training, as a new dictionary. Raises `ModelFormatError` if it is not valid JSON."""
        return file.meta_of(self._sections())

    @property
    def feature_names(self) -> list[str] | None:
        """Column names of the data frame used in training, or None. Columns of other frames are matched by name."""
        names = self._names()
        return None if names is None else list(names)

    @property
    def categories(self) -> Categories | None:
        """Categorical features and the names of their categories, or None if there are none."""
        return self._categories()

    @property
    def information(self):
        """Information about the training, as `meta`, but empty if that is not valid JSON. Scoring does not need it."""
        try:
            return self.meta
        except ModelFormatError:
            return {}

    @property
    def index_base(self):
        """Index of the first feature in the LIBSVM file used in training: 0 or 1, or None if unknown."""
        base = self.information.get("index_base")
        return base if type(base) is int and base in (0, 1) else None

    @property
    def ensemble(self):
        """The parts that compute the scores: `Stumps`, `Intervals`, `Trees`, `LinearMachine` or `KernelMachine`."""
        return self._kind.from_sections(self._sections(), self._header)

    @property
    def leaves(self) -> Leaves:
        """Type of the leaf values: "float32" or "float16".

        Models without leaves have "float32". Leaf values saved as "int8" are "float16" values.
        """
        return self._kind.leaves_of(self._sections())

    @property
    def layout(self) -> Layout:
        """Layout of the file: "list", "interval" or "packed" (see `from_ensemble`)."""
        return self._kind.layout_of(self._sections())

    @property
    def totally_corrective(self):
        """Whether each training round changed all coefficients, so that the first rounds are not a model."""
        return self.information.get("stages") is False

    @property
    def no_stages(self):
        """Reason why the first rounds are not a model, or None if they are."""
        return self._kind.no_stages or (CORRECTIVE if self.totally_corrective else None)

    @property
    def has_stages(self) -> bool:
        """Whether the first rounds are a model, too.

        False for interval tables, machines and totally corrective models.
        """
        return self.no_stages is None

    @property
    def is_machine(self):
        """Whether this is a linear or kernel machine, which does not accept missing values."""
        return not self._kind.allows_missing

    @property
    def prepared_size(self):
        """Bytes of memory that ``mcb_prepare`` of mcb.h needs on this machine; 0 if there is nothing to prepare."""
        return self._scorer.prepared_size

    def _sections(self):
        return file.arrays(self._data, self._scorer)

    def raw_scores(
        self,
        X: Any,
        n_jobs: int | None = None,
        *,
        init_score: ArrayLike | None = None,
        missing: Missing = "allow",
    ) -> NDArray[np.float64]:
        """Compute one score per class.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (m, n_features_in_)
            Rows to score, which are rounded to float32; see `features`. NaN means missing: each split sends it to one
            of its sides. Machines raise an error for NaN and infinite values. The columns of a data frame are matched
            by `feature_names` in any order, or by position if the model or the frame has no text names.
        n_jobs : int, default=None
            Number of threads. None uses one thread for fewer than 10,000 rows, and otherwise all available CPUs.
        init_score : array-like of shape (m, K) or (m,), default=None
            Scores to which the scores of the model are added, as ``init_score`` in training. With two classes, one
            number per row is the score of class 1 minus that of class 0.
        missing : {"allow", "error"}, default="allow"
            "error" raises an error if a value is missing in a column that had no missing values in training; see
            `missing_columns`.

        Returns
        -------
        ndarray of float64 of shape (m, K)
            Scores.
        """
        scores = self._rows.scores(self._accepted(X, missing), n_jobs)
        if init_score is not None:
            self._refuse_shares("init_score")
            scores += init_scores(init_score, *scores.shape, pairs=self.link != "sigmoid")
        return scores

    def features(self, X: Any) -> NDArray[np.float32]:
        """Convert rows to the values that the model compares with its thresholds.

        Parameters
        ----------
        X : array-like or data frame of shape (m, n_features_in_)
            Dense rows.

        Returns
        -------
        ndarray of float32 of shape (m, n_features_in_)
            Rows rounded to float32, with codes in place of categories.
        """
        X = self._rows.checked(X)
        if hasattr(X, "indptr"):
            raise ValueError("give dense rows: X.toarray()")
        with np.errstate(over="ignore"):
            return X.astype(np.float32, copy=False)

    def decision_function(
        self,
        X: Any,
        n_jobs: int | None = None,
        *,
        init_score: ArrayLike | None = None,
        missing: Missing = "allow",
    ) -> NDArray[np.float64]:
        """Compute the scores of the classes, or a single score for two classes.

        Parameters
        ----------
        X, n_jobs, init_score, missing
            See `raw_scores`.

        Returns
        -------
        ndarray of float64 of shape (m, K) or (m,)
            Scores. With two classes, the score of class 1 minus that of class 0. Multi-label models always return one
            score per label.
        """
        return self._decision(self.raw_scores(X, n_jobs, init_score=init_score, missing=missing))

    def predict(
        self,
        X: Any,
        n_jobs: int | None = None,
        early: Early | None = None,
        *,
        init_score: ArrayLike | None = None,
        missing: Missing = "allow",
    ) -> NDArray[Any]:
        """Predict class labels.

        Parameters
        ----------
        X, n_jobs, init_score, missing
            See `raw_scores`.
        early : {"certified", "calibrated", "rejection"}, default=None
            Early exit of the model to use; see `with_early_exit`. `predict_early` also returns how many weak learners
            were evaluated. Not available with ``init_score``.

        Returns
        -------
        ndarray of shape (m,) or (m, K)
            The label with the largest score; ties go to the first class. For multi-label models (link "sigmoid"), an
            int64 indicator matrix of the labels with scores above `thresholds`.
        """
        if early is not None:
            if init_score is not None:
                raise ValueError(
                    "an early exit takes only the scores of the model into account; leave out "
                    "early or init_score"
                )
            labels, _ = self.predict_early(self._accepted(X, missing), early, n_jobs)
            return labels
        if self.link == "sigmoid":
            scores = self.raw_scores(X, n_jobs, init_score=init_score, missing=missing)
            return self._indicator_of(scores)
        return self.classes_[self.predict_codes(X, n_jobs, init_score=init_score, missing=missing)]

    def predict_codes(
        self,
        X: Any,
        n_jobs: int | None = None,
        *,
        init_score: ArrayLike | None = None,
        missing: Missing = "allow",
    ) -> NDArray[np.int64]:
        """Predict the positions of the labels in ``classes_``.

        Parameters
        ----------
        X, n_jobs, init_score, missing
            See `raw_scores`.

        Returns
        -------
        ndarray of int64 of shape (m,)
            Positions of the classes with the largest scores.
        """
        if init_score is not None:
            return self.raw_scores(X, n_jobs, init_score=init_score, missing=missing).argmax(axis=1)
        return self._rows.best(self._accepted(X, missing), n_jobs)

    def predict_proba(
        self,
        X: Any,
        n_jobs: int | None = None,
        *,
        init_score: ArrayLike | None = None,
        missing: Missing = "allow",
    ) -> NDArray[np.float64]:
        """Predict class probabilities.

        Parameters
        ----------
        X, n_jobs, init_score, missing
            See `raw_scores`. A temperature divides the sum of the scores and ``init_score``.

        Returns
        -------
        ndarray of float64 of shape (m, K)
            Probabilities, with the columns in the order of ``classes_``.

        Raises
        ------
        ValueError
            If the model has neither a link function nor a temperature.
        """
        self._need_probabilities()
        if init_score is not None:
            scores = self.raw_scores(X, n_jobs, init_score=init_score, missing=missing)
            return self._probabilities_of(scores)
        return self._rows.probabilities(self._accepted(X, missing), n_jobs)

    def decode(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Decode the scores of the columns of an output code into scores of the classes.

        Parameters
        ----------
        columns : ndarray of float64 of shape (m, P)
            Sum of the leaf values for each column, or for each class if the model has no decoder.

        Returns
        -------
        ndarray of float64 of shape (m, K)
            Scores of the classes.
        """
        return self._rows.decode(columns)

    def used_features(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the features that the model uses and their importances.

        Returns
        -------
        feature : ndarray of int64 of shape (n_used,)
            Column numbers in increasing order.
        share : ndarray of float64 of shape (n_used,)
            Importances, which sum to 1, or are all 0 if no feature changes a score.

        Notes
        -----
        The importance depends on the kind of the model:

        - Trees: the number of splits on the feature, because a model file does not store gains.
        - Stumps: the sum over the stumps and the classes of ``|right - left|``.
        - Interval tables: the sum of the absolute differences between neighboring intervals.
        - Linear machines: the sum of the absolute coefficients, which depends on the unit of the feature.
        - Kernel machines: none (all 0). "rbf" and "perceptron" use all features, and other kernels those that are not 0
          in some support vector. Features that the scaling sets to 0 are not used.
        """
        feature, share = self.ensemble.used_features()
        total = share.sum()
        return feature, share / total if total > 0 else np.zeros(len(feature))

    def feature_importances(self) -> NDArray[np.float64]:
        """Return the importance of each feature; see `used_features`.

        Returns
        -------
        ndarray of float64 of shape (n_features_in_,)
            Importances, which sum to 1, or are all 0.
        """
        result = np.zeros(self.n_features_in_)
        feature, share = self.used_features()
        result[feature] = share
        return result

    def with_meta(self, meta: dict[str, Any]) -> Self:
        """Return the model with other information; see `meta`.

        Information that `truncate` needs is kept: that a model has no stages, or that its bias comes from
        ``restore_priors``.

        Parameters
        ----------
        meta : dict
            Values that JSON can represent. Without "feature_names", the columns of data frames are matched by position.

        Returns
        -------
        Model
            The new model.
        """
        kept = {}
        if self.totally_corrective:
            kept["stages"] = False
        if self._has_priors():
            kept |= self._kept_of_priors(meta)
        return self._with_meta({**meta, **kept})

    def _with_meta(self, meta):
        return self._changed(meta=dict(file.meta_sections(meta)).get("meta"))

    def to_bytes(self, layout: Layout | None = None, leaves: Leaves | None = None) -> bytes:
        """Return the contents of the model file.

        Parameters
        ----------
        layout, leaves
            See `save`.

        Returns
        -------
        bytes
            What `save` writes.
        """
        if layout is None and leaves is None:
            return self._data
        layout = self.layout if layout is None else layout
        leaves = self.leaves if leaves is None else leaves
        if (layout, leaves) == (self.layout, self.leaves):
            return self._data
        changed = dict.fromkeys(file.EARLY)  # early exits are left out
        information = self.information
        if leaves != self.leaves and information.pop("score_error", None) is not None:
            # The stored error does not apply to rounded leaves.
            changed["meta"] = dict(file.meta_sections(information)).get("meta")
        return self._encoded(self.ensemble, layout, leaves, **changed)

    def save(
        self,
        path: "str | PathLike[str]",
        layout: Layout | None = None,
        leaves: Leaves | None = None,
    ) -> None:
        """Save the model to a file.

        The file is replaced in one step, so a failure leaves the old file intact.

        Parameters
        ----------
        path : str or path-like
            Path of the file. An existing file is replaced, whatever it contains. The folder must exist.
        layout : {"list", "interval", "packed"}, default=None
            Layout of the file; see `from_ensemble`. None keeps the layout of the model.
        leaves : {"float32", "float16", "int8"}, default=None
            Type of the leaf values; see `from_ensemble`. None keeps the type of the model.

        Raises
        ------
        ValueError
            If the model does not support the layout or the type.
        """
        files.write(path, self.to_bytes(layout, leaves))

    def _encoded(self, ensemble, layout, leaves, **changed):
        """Encode another ensemble with this model's link and common sections.

        Sections in ``changed`` are replaced, or left out if None.
        """
        sections = {**self._sections(), **changed}
        common = [(tag, sections[tag]) for tag in file.COMMON if sections.get(tag) is not None]
        return file.encode(ensemble.laid_out(layout, leaves), common, self.link)

    def _changed(self, ensemble=None, **changed):
        ensemble = self.ensemble if ensemble is None else ensemble
        return self.from_bytes(self._encoded(ensemble, self.layout, self.leaves, **changed))

    def __getstate__(self):
        """The bytes of the model file, for pickle and other users of an object's state."""
        return {"file": self._data, "version": __version__}

    def __setstate__(self, state):
        try:
            scorer = file.check(state["file"])
        except ModelFormatError as error:
            raise ModelFormatError(
                f"this model was pickled by pymcboost {state['version']}, but this is "
                f"pymcboost {__version__}: {error}. Use save() for models that other versions "
                "must be able to read",
                error.status,
            ) from None
        self.__init__(state["file"], scorer)

    def __repr__(self):
        summary = self.ensemble.summary(self.has_stages)
        if self.totally_corrective:
            summary += ", totally corrective"
        features = counted(self.n_features_in_, "feature")
        return f"<Model: {summary}, {self.n_classes_} classes, {features}>"

    def _need_stages(self):
        if not self.has_stages:
            raise ValueError(self.no_stages)

    def _decision(self, scores):
        """Result of `decision_function` for raw scores (m, K)."""
        if self.n_classes_ == 2 and self.link != "sigmoid":
            return scores[:, 1] - scores[:, 0]
        return scores


def _categories(data, scorer):
    return Categories.from_sections(file.arrays(data, scorer))
