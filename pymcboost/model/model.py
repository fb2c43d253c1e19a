"""Saved models: load, score, save. Needs NumPy only; every score comes from ``mcb.h``."""

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
    "this model is totally corrective: every round changed the coefficients of all weak learners, so that its first "
    "rounds are no model; train one with fewer rounds"
)


def load_model(path: "str | PathLike[str]") -> "Model":
    """Load a model file.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    Model

    Raises
    ------
    ModelFormatError
        If the file is not a valid model file. A checksum finds damage, not forgery.
    OSError
        If it cannot be read.
    MemoryError
        If a pipe promises more than the free memory holds.
    """
    return Model(*file.read(path))


class Model(Calibration, Covers, EarlyExit, Labels, MissingColumns, Stages):
    """A model as it is saved, ready to score. Make one with `load_model`, `from_bytes` or `from_ensemble`.

    A score is the bias plus the learners' values in order, added in float64: the same bits for one row or many, for any
    number of threads, in Python, on the command line and in C (``mcb.h``).

    Attributes
    ----------
    classes_ : ndarray of int64 or str (K,)
        Sorted class labels. Strings come as an object array when their lengths differ so much that a fixed width would
        waste memory.
    n_classes_, n_features_in_ : int
    kind : int
        1: list of stumps; 2: interval table; 3: trees; 5: linear, 6: kernel machine; 7: packed trees.
    link : {"none", "softmax", "softmax2", "sigmoid", "shares"}
        How scores become probabilities: softmax of F, or of 2 F; 1 / (1 + exp(-F)) of each label, of which a row may
        have any number; or F divided by its sum over the classes, as of forests, whose scores are sums of
        probabilities.
    n_learners : int or None
        Number of stumps or trees; None for an interval table, in which they are merged, and for machines.
    n_rounds : int or None
        Number of rounds of the training: a stump is one, a round of trees may have several. None for an interval table
        and for machines. Not those of a totally corrective training (see `has_stages`), which ``meta["rounds"]`` has.
    feature_names : list of str or None
        Names of the columns, if the model was trained on a data frame.
    meta : dict
        What the training left for information; empty if nothing.
    """

    def __init__(self, data, scorer):
        self._data, self._scorer = data, scorer
        self._header = header = file.header(scorer)
        self._kind = KINDS[header.kind]
        self._names = partial(file.feature_names, data, scorer)
        categories = cache(partial(_categories, data, scorer))
        self._rows = Rows(scorer, self._kind.allows_missing, self._names, categories)
        self._categories = categories
        self.n_classes_, self.n_features_in_ = header.n_classes, header.n_features
        self.kind, self.link = header.kind, header.link
        merged = self._kind.no_stages is not None
        self.n_learners, self.n_rounds = (
            (None, None) if merged else (header.n_learners, header.n_rounds)
        )
        self._classes = None

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Model of the bytes of a model file.

        Parameters
        ----------
        data : bytes-like

        Returns
        -------
        Model

        Raises
        ------
        ModelFormatError
        """
        data = (
            data if type(data) is bytes else bytes(memoryview(data))
        )  # bytes(memoryview(data)) would always copy
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
        """Model of an ensemble, or of a linear or kernel machine.

        Parameters
        ----------
        ensemble : Kind
            `Stumps`, `Trees`, `LinearMachine` or `KernelMachine`.
        classes : array-like (K,)
            Distinct, sorted class labels: integers or strings.
        link : {"none", "softmax", "softmax2", "sigmoid", "shares"}, default="none"
            How scores become probabilities: not at all, softmax of F (softmax and pairwise logistic losses), softmax of
            2 F (pairwise exponential loss), 1 / (1 + exp(-F)) for each label of rows that may have any number of them,
            shares F / sum of F (averages of probabilities; scores below 0 count as 0).
        meta : dict, optional
            What JSON can hold; only for information.
        layout : {"list", "interval", "packed"}, default="list"
            A list of stumps, or one table of intervals per feature, which is often faster for single rows. It is of
            float32: scores agree with those of the list to 1e-7 of the sum of the learners' magnitudes. Trees may be
            packed: few bits for splits and leaves, the same scores.
        leaves : {"float32", "float16", "int8"}, default="float32"
            Type of the leaves of trees: 16 bits round them to 3 digits; int8, of packed trees, to 255 values.

        Returns
        -------
        Model
        """
        ensemble = ensemble.laid_out(layout, leaves)
        common = file.label_sections(classes, ensemble.n_classes) + file.meta_sections(meta)
        return cls.from_bytes(file.encode(ensemble, common, link))

    @property
    def classes_(self) -> NDArray[Any]:
        """Sorted class labels."""
        if self._classes is None:
            self._classes = file.class_labels(self._sections())
            self._classes.flags.writeable = False
        return self._classes

    @property
    def meta(self) -> dict[str, Any]:
        """What the training left for information, as a new dictionary; ModelFormatError if it is not JSON."""
        return file.meta_of(self._sections())

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns that the training read, None if it read no frame: frames are put in this order."""
        names = self._names()
        return None if names is None else list(names)

    @property
    def categories(self) -> Categories | None:
        """Categorical features and the names of their levels; None if all features are ordered."""
        return self._categories()

    @property
    def information(self):
        """The same as `meta`, but {} where it cannot be read: nothing of it is needed to score."""
        try:
            return self.meta
        except ModelFormatError:
            return {}

    @property
    def index_base(self):
        """Number of the first feature in the text file that the training read: 0 or 1, None if that is not known."""
        base = self.information.get("index_base")
        return base if type(base) is int and base in (0, 1) else None

    @property
    def ensemble(self):
        """The `Stumps`, `Intervals`, `Trees` (packed ones, too), `LinearMachine` or `KernelMachine`."""
        return self._kind.from_sections(self._sections(), self._header)

    @property
    def leaves(self) -> Leaves:
        """Type of the leaves: "float32" or "float16".

        "float32" where there are none. Leaves that were saved as "int8" are values of "float16".
        """
        return self._kind.leaves_of(self._sections())

    @property
    def layout(self) -> Layout:
        """How the file is laid out: "list", "interval" or "packed" (see `from_ensemble`)."""
        return self._kind.layout_of(self._sections())

    @property
    def totally_corrective(self):
        """Whether every round of the training changed all coefficients, so that its first rounds are no model."""
        return self.information.get("stages") is False

    @property
    def no_stages(self):
        """Why the first rounds are no model, in words; None if they are one."""
        return self._kind.no_stages or (CORRECTIVE if self.totally_corrective else None)

    @property
    def has_stages(self) -> bool:
        """Whether the first rounds are a model, too. Tables, machines and totally corrective models have none."""
        return self.no_stages is None

    @property
    def is_machine(self):
        """Whether this is a linear or kernel machine, which has no missing values."""
        return not self._kind.allows_missing

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
        """One score per class.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix (m, n_features_in_)
            Cast to float32, see `features`. NaN means missing: each split has a side for it. Machines have no missing
            values: they refuse NaN and infinite numbers. The columns of a frame go by `feature_names`, in any order.
            They go by position where the model, or the frame, has no names of text.
        n_jobs : int, optional
            Number of threads; None: one for fewer than 10,000 rows, otherwise all CPUs available.
        init_score : array-like (m, K), or (m,) for two classes, optional
            Scores that those of the model are added to, as the ``init_score`` of the training. One number for each row
            is the score of class 1 minus that of class 0.
        missing : {"allow", "error"}, default="allow"
            "error" refuses a missing value in a column that had none in training, see `missing_columns`.

        Returns
        -------
        ndarray of float64 (m, K)
        """
        scores = self._rows.scores(self._accepted(X, missing), n_jobs)
        if init_score is not None:
            self._refuse_shares("init_score")
            scores += init_scores(init_score, *scores.shape, pairs=self.link != "sigmoid")
        return scores

    def features(self, X: Any) -> NDArray[np.float32]:
        """Rows as the model compares them with its thresholds: float32, with codes in place of categories.

        Parameters
        ----------
        X : array-like or data frame (m, n_features_in_)

        Returns
        -------
        ndarray of float32 (m, n_features_in_)
        """
        X = self._rows.checked(X)
        if hasattr(X, "indptr"):
            raise ValueError("features are those of dense rows; give X.toarray()")
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
        """Scores of the classes; for two classes, the score of the second minus that of the first. All of labels.

        Parameters
        ----------
        X, n_jobs, init_score, missing
            See `raw_scores`.

        Returns
        -------
        ndarray of float64 (m, K), or (m,) if K is 2
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
        """Label of the class with the highest score; ties go to the lowest class.

        With the link "sigmoid", an indicator of the labels whose scores are above `thresholds`.

        Parameters
        ----------
        X, n_jobs, init_score, missing
            See `raw_scores`.
        early : {"certified", "calibrated", "rejection"}, optional
            An early exit that the model has, see `with_early_exit`. `predict_early` says how many learners it takes.
            It knows no ``init_score``.

        Returns
        -------
        ndarray (m,) of labels, or of int64 (m, K)
        """
        if early is not None:
            if init_score is not None:
                raise ValueError(
                    "an early exit knows the scores of the model only; leave out early, or init_score"
                )
            return self.predict_early(self._accepted(X, missing), early, n_jobs)[0]
        if self.link == "sigmoid":
            return self._given(self.raw_scores(X, n_jobs, init_score=init_score, missing=missing))
        return self.classes_[self.predict_codes(X, n_jobs, init_score=init_score, missing=missing)]

    def predict_codes(
        self,
        X: Any,
        n_jobs: int | None = None,
        *,
        init_score: ArrayLike | None = None,
        missing: Missing = "allow",
    ) -> NDArray[np.int64]:
        """Positions in ``classes_`` of the predicted labels: (m,) int64. Parameters as in `raw_scores`."""
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
        """Probabilities of the classes.

        Parameters
        ----------
        X, n_jobs, init_score, missing
            See `raw_scores`. A temperature divides the sum of both scores.

        Returns
        -------
        ndarray of float64 (m, K)

        Raises
        ------
        ValueError
            If the model has neither a link from scores to probabilities nor a temperature.
        """
        self._need_probabilities()
        if init_score is not None:
            return self._probabilities_of(
                self.raw_scores(X, n_jobs, init_score=init_score, missing=missing)
            )
        return self._rows.probabilities(self._accepted(X, missing), n_jobs)

    def decode(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of the classes from those of the columns of the model's code.

        Parameters
        ----------
        columns : ndarray of float64 (m, P)
            Sums of the leaves of every column; of every class where the model has no decoder.

        Returns
        -------
        ndarray of float64 (m, K)
        """
        return self._rows.decode(columns)

    def used_features(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Features that occur in the model, and their shares in what moves the scores, or in the splits of trees.

        Every split of a tree counts the same, since a file does not keep what it gained. A stump counts for its feature
        with the sum over the classes of ``|right - left|``, in an interval table a feature with the sum of the absolute
        differences from each interval to the next, in a linear machine with the sum of the absolute coefficients (so it
        depends on the unit of the feature). A kernel machine has no shares. With "rbf" and "perceptron" it uses all
        features, else those not 0 in some support vector; none that its scale makes 0.

        Returns
        -------
        feature : ndarray of int64 (n_used,)
            Increasing.
        share : ndarray of float64 (n_used,)
            Sums to 1, or all 0 if no feature ever changes a score.
        """
        feature, share = self.ensemble.used_features()
        total = share.sum()
        return feature, share / total if total > 0 else np.zeros(len(feature))

    def feature_importances(self) -> NDArray[np.float64]:
        """Share of every feature, as `used_features` measures it.

        Returns
        -------
        ndarray of float64 (n_features_in_,)
        """
        result = np.zeros(self.n_features_in_)
        feature, share = self.used_features()
        result[feature] = share
        return result

    def with_meta(self, meta: dict[str, Any]) -> Self:
        """The same model with other information, see `meta`; without names in it columns count in their order.

        What `truncate` needs stays: that a model has no stages, and that its bias is that of ``restore_priors``.
        """
        kept = {"stages": False} if self.totally_corrective else {}
        if self._has_priors():
            kept |= self._kept_of_priors(meta)
        return self._with_meta({**meta, **kept})

    def _with_meta(self, meta):
        return self._changed(meta=dict(file.meta_sections(meta)).get("meta"))

    def to_bytes(self, layout: Layout | None = None, leaves: Leaves | None = None) -> bytes:
        """The bytes of the model file; parameters as in `save`."""
        if layout is leaves is None:
            return self._data
        form = (self.layout, self.leaves)
        wanted = (form[0] if layout is None else layout, form[1] if leaves is None else leaves)
        if wanted == form:
            return self._data
        left_out, known = dict.fromkeys(file.EARLY), self.information
        if (
            wanted[1] != form[1] and known.pop("score_error", None) is not None
        ):  # it knows nothing of rounded leaves
            left_out["meta"] = dict(file.meta_sections(known)).get("meta")
        return self._encoded(self.ensemble, *wanted, **left_out)

    def save(
        self,
        path: "str | PathLike[str]",
        layout: Layout | None = None,
        leaves: Leaves | None = None,
    ) -> None:
        """Save to a file, which is replaced in one step: after a failure the old one is still there in full.

        Parameters
        ----------
        path : str or path-like
            A file that is there already is replaced, whatever it holds. Its folder must exist.
        layout : {"list", "interval", "packed"}, optional
            See `from_ensemble`; None keeps the layout.
        leaves : {"float32", "float16", "int8"}, optional
            See `from_ensemble`; None keeps the type.
        """
        files.write(path, self.to_bytes(layout, leaves))

    def _encoded(self, ensemble, layout, leaves, **changed):
        """Bytes of another ensemble with this model's link and the sections that are common to all kinds.

        Those in ``changed`` are others, or left out where None.
        """
        sections = {**self._sections(), **changed}
        common = [(tag, sections[tag]) for tag in file.COMMON if sections.get(tag) is not None]
        return file.encode(ensemble.laid_out(layout, leaves), common, self.link)

    def _changed(self, ensemble=None, **changed):
        ensemble = self.ensemble if ensemble is None else ensemble
        return self.from_bytes(self._encoded(ensemble, self.layout, self.leaves, **changed))

    def __getstate__(self):
        """The bytes of the model file, for pickle and whatever else reads the state of an object."""
        return {"file": self._data, "version": __version__}

    def __setstate__(self, state):
        try:
            scorer = file.check(state["file"])
        except ModelFormatError as error:
            raise ModelFormatError(
                f"this model was pickled by pymcboost {state['version']}, this is pymcboost {__version__}: {error}. "
                "A file made by save() is what other versions are meant to read",
                error.status,
            ) from None
        self.__init__(state["file"], scorer)

    def __repr__(self):
        what = (
            self.ensemble.summary(self.has_stages)
            + ", totally corrective" * self.totally_corrective
        )
        return (
            f"<Model: {what}, {self.n_classes_} classes, {counted(self.n_features_in_, 'feature')}>"
        )

    def _need_stages(self):
        if not self.has_stages:
            raise ValueError(self.no_stages)

    def _decision(self, scores):
        return (
            scores[:, 1] - scores[:, 0]
            if self.n_classes_ == 2 and self.link != "sigmoid"
            else scores
        )


def _categories(data, scorer):
    return Categories.from_sections(file.arrays(data, scorer))
