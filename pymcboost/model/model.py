"""Saved models: load, score, save. Needs NumPy only; every score comes from ``mcb.h``."""

import json
from dataclasses import replace

import numpy as np

from pymcboost._kernels import score
from pymcboost.model import file as modelfile
from pymcboost.model.file import ModelFormatError
from pymcboost.model.kernel import KERNELS, KernelMachine
from pymcboost.model.linear import LinearMachine
from pymcboost.model.scale import Scale
from pymcboost.model.stumps import Stumps
from pymcboost.model.trees import Trees
from pymcboost.modelfile import write
from pymcboost.threads import counted, resolve_n_jobs

__all__ = ["Model", "ModelFormatError", "load_model"]

_SERIAL_ROWS = 10_000


def load_model(path):
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
    """
    return Model(*modelfile.read(path))


def _check_layout(layout):
    if layout not in modelfile.LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(map(repr, modelfile.LAYOUTS))}, not {layout!r}")


def _laid_out(ensemble, layout):
    _check_layout(layout)
    if layout == "list":
        return ensemble
    if not hasattr(ensemble, "merge"):
        raise ValueError(f"layout={layout!r} is for stumps; machines have one layout (layout='list')")
    merged = ensemble.merge()
    return merged.single() if layout == "interval32" else merged


class Model:
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
        1: list of stumps; 2: interval table; 3: trees; 5: linear machine; 6: kernel machine.
    link : {"none", "softmax", "softmax2"}
        How scores become probabilities: softmax of F, or of 2 F.
    n_learners : int or None
        Number of stumps or trees; None for an interval table, in which they are merged, and for machines.
    n_rounds : int or None
        Number of rounds of the training: a stump is one, a round of trees may have several. None for an interval table
        and for machines.
        Not the rounds of a totally corrective training (see `has_stages`), which ``meta["rounds"]`` has.
    meta : dict
        What the training left for information; empty if nothing.
    """

    def __init__(self, data, scorer):
        self._data = data
        self._scorer = scorer
        self.n_classes_, self.n_features_in_, self.kind, link, learners, rounds = scorer.header
        self.link = modelfile.LINKS[link]
        merged = self.kind not in (modelfile.KIND_STUMPS, modelfile.KIND_TREES)
        self.n_learners, self.n_rounds = (None, None) if merged else (learners, rounds)
        self._classes = None

    @classmethod
    def from_bytes(cls, data):
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
        data = bytes(data)
        return cls(data, modelfile.check(data))

    @classmethod
    def from_ensemble(cls, ensemble, classes, *, link="none", meta=None, layout="list", leaves="float32"):
        """Model of an ensemble, or of a linear or kernel machine.

        Parameters
        ----------
        ensemble : Stumps, Trees, LinearMachine or KernelMachine
        classes : array-like (K,)
            Distinct, sorted class labels: integers or strings.
        link : {"none", "softmax", "softmax2"}, default="none"
            How scores become probabilities: not at all, softmax of F (softmax and pairwise logistic losses), softmax of
            2 F (pairwise exponential loss).
        meta : dict, optional
            What JSON can hold; only for information.
        layout : {"list", "interval", "interval32"}, default="list"
            A list of stumps, or one table of intervals per feature, which is often faster for single rows and agrees
            with the list to about 1e-12 of the sum of the learners' magnitudes, or the same table in float32, half as
            large, which agrees to 1e-7. Trees have a list only.
        leaves : {"float32", "float16"}, default="float32"
            Type in which the leaves of trees are kept: 16 bits round them to 3 digits and make the file smaller.

        Returns
        -------
        Model
        """
        return cls.from_bytes(modelfile.encode(_laid_out(ensemble, layout), classes, link, meta, leaves))

    @property
    def classes_(self):
        """Sorted class labels."""
        if self._classes is None:
            sections = modelfile.arrays(self._data, self._scorer)
            if "LABI" in sections:
                self._classes = sections["LABI"].astype(np.int64)
            else:
                ends = sections["LABO"].tolist()
                text = sections["LABS"].tobytes()
                labels = [text[a:b].decode() for a, b in zip(ends, ends[1:], strict=False)]
                widest = max(map(len, labels))
                # numpy stores 4 bytes per character and pads to the widest label
                wasteful = 4 * widest * len(labels) > 64 * len(text) + (1 << 20)
                self._classes = np.array(labels, dtype=object if wasteful else f"<U{max(widest, 1)}")
            self._classes.flags.writeable = False
        return self._classes

    @property
    def meta(self):
        """What the training left for information, as a new dictionary."""
        section = modelfile.arrays(self._data, self._scorer).get("meta")
        if section is None or not len(section):
            return {}
        try:
            meta = json.loads(section.tobytes())
        except (ValueError, RecursionError) as error:
            raise ModelFormatError(f"the section meta is not valid JSON: {error}") from None
        return meta if isinstance(meta, dict) else {"meta": meta}

    @property
    def ensemble(self):
        """The `Stumps`, `Trees`, `LinearMachine` or `KernelMachine`, over the file's bytes.

        Not for an interval table, in which stumps are merged.
        """
        self._need_list("its stumps are not kept")
        sections = modelfile.arrays(self._data, self._scorer)
        if self.kind == modelfile.KIND_LINEAR:
            return LinearMachine(sections["WMAT"].reshape(self.n_classes_, -1), sections["BIAS"])
        if self.kind == modelfile.KIND_KERNEL:
            return self._kernel_machine(sections)
        feature = sections["FEAT"].astype(np.int64)
        top = 8 * sections["FEAT"].itemsize - 1
        if self.kind == modelfile.KIND_TREES:
            return self._trees(sections, feature & ((1 << top) - 1), feature >> top == 1)
        shape = (len(feature), self.n_classes_)
        left = sections["COEL"].reshape(shape) if "COEL" in sections else None
        return Stumps(
            feature & ((1 << top) - 1),
            sections["THRS"],
            feature >> top == 1,
            sections["COEF"].reshape(shape),
            left,
            sections["BIAS"],
            self.n_features_in_,
        )

    def _kernel_machine(self, sections):
        number, gamma, coef0, degree = sections["KPAR"].tolist()
        kernel = next(name for name, value in KERNELS.items() if value == number)
        support = sections["SVEC"].reshape(-1, self.n_features_in_)
        coef = sections["DUAL"].reshape(-1, self.n_classes_)
        scale = Scale(*sections["SCAL"].reshape(2, -1)) if "SCAL" in sections else None
        return KernelMachine(kernel, gamma, coef0, int(degree), support, coef, sections["BIAS"], scale)

    def _trees(self, sections, feature, nan_left):
        def whole(tag):
            return sections[tag].astype(np.int64) if tag in sections else None

        leaf, cls, base = sections["LEAF"].astype(np.float32, copy=False), whole("TCLS"), whole("TBAS")
        if base is not None:
            base[base == self.n_classes_] = -1
        return Trees(
            self._ends("TSIZ"),
            feature,
            sections["THRS"],
            nan_left,
            whole("RGHT"),
            leaf.reshape(-1, self.n_classes_) if cls is None else leaf,
            cls,
            base,
            self._ends("RNDS"),
            sections["BIAS"],
            self.n_features_in_,
            sections["CODE"].reshape(-1, self.n_classes_) if "CODE" in sections else None,
            modelfile.DECODERS[self._scorer.decoder],
        )

    def _ends(self, tag):
        """0 and the running sums of a section of numbers."""
        values = modelfile.arrays(self._data, self._scorer)[tag]
        return np.concatenate([[0], np.cumsum(values, dtype=np.int64)])

    @property
    def leaves(self):
        """Type of the leaves, "float32" or "float16"; "float32" for stumps."""
        sections = modelfile.arrays(self._data, self._scorer)
        return str(sections["LEAF"].dtype.newbyteorder("=")) if "LEAF" in sections else "float32"

    @property
    def layout(self):
        """How the file is laid out: "list", "interval" or "interval32" (see `from_ensemble`)."""
        if self.kind != modelfile.KIND_INTERVALS:
            return "list"
        table = modelfile.arrays(self._data, self._scorer)["TABL"]
        return "interval32" if table.dtype.itemsize == 4 else "interval"

    def raw_scores(self, X, n_jobs=None):
        """One score per class.

        Parameters
        ----------
        X : array-like or CSR matrix (m, n_features_in_)
            Cast to float32. NaN means missing: each split has a side for it. Linear and kernel machines have no missing
            values: they refuse NaN and infinite numbers.
        n_jobs : int, optional
            Number of threads; None: one for fewer than 10,000 rows, otherwise all CPUs available.

        Returns
        -------
        ndarray of float64 (m, K)
        """
        return self._run(X, n_jobs, score.SCORES)

    def decision_function(self, X, n_jobs=None):
        """Scores of the classes; for two classes, the score of the second minus that of the first.

        Parameters
        ----------
        X, n_jobs
            See `raw_scores`.

        Returns
        -------
        ndarray of float64 (m, K), or (m,) if K is 2
        """
        return self._decision(self.raw_scores(X, n_jobs))

    def predict(self, X, n_jobs=None):
        """Label of the class with the highest score; ties go to the lowest class.

        Parameters
        ----------
        X, n_jobs
            See `raw_scores`.

        Returns
        -------
        ndarray (m,) of labels
        """
        return self.classes_[self.predict_codes(X, n_jobs)]

    def predict_codes(self, X, n_jobs=None):
        """Positions in ``classes_`` of the predicted labels: (m,) int64. Parameters as in `raw_scores`."""
        return self._run(X, n_jobs, None)

    def predict_proba(self, X, n_jobs=None):
        """Probabilities of the classes.

        Parameters
        ----------
        X, n_jobs
            See `raw_scores`.

        Returns
        -------
        ndarray of float64 (m, K)

        Raises
        ------
        ValueError
            If the model has no link from scores to probabilities.
        """
        if self.link == "none":
            raise ValueError("this model has no link from scores to probabilities; use decision_function or predict")
        return self._run(X, n_jobs, score.PROBABILITIES)

    def staged_decision_function(self, X):
        """Scores after 1, 2, ... n_rounds rounds; the last ones equal `decision_function` bit for bit.

        Parameters
        ----------
        X : array-like or CSR matrix (m, n_features_in_)

        Yields
        ------
        ndarray of float64 (m, K), or (m,) if K is 2

        Raises
        ------
        ValueError
            For an interval table, or a totally corrective model.
        """
        self._need_list("it has no stages")
        self._need_stages()
        X = self._checked(X)
        model = self
        if hasattr(X, "indptr"):
            # Dense columns for the features that occur, and the same learners over those.
            ensemble = self.ensemble
            used, feature = np.unique(ensemble.feature, return_inverse=True)
            if not len(used):
                used = np.zeros(1, dtype=np.int64)
            X = X[:, used].toarray()
            model = Model.from_ensemble(replace(ensemble, feature=feature, n_features=len(used)), self.classes_)
        return model._stages(np.ascontiguousarray(X, dtype=np.float32))

    def _stages(self, X):
        ends = self._ends("RNDS") if self.kind == modelfile.KIND_TREES else np.arange(self.n_learners + 1)
        columns = np.empty((len(X), self._scorer.width))
        self._scorer.add(X, -1, 0, columns)
        for begin, end in zip(ends.tolist(), ends[1:].tolist(), strict=False):
            self._scorer.add(X, begin, end, columns)
            yield self._decision(self.decode(columns))

    def decode(self, columns):
        """Scores of the classes from those of the columns of the model's code.

        Parameters
        ----------
        columns : ndarray of float64 (m, P)
            Sums of the leaves of every column; of every class where the model has no decoder.

        Returns
        -------
        ndarray of float64 (m, K)
        """
        scores = np.empty((len(columns), self.n_classes_))
        self._scorer.decode(np.ascontiguousarray(columns, dtype=np.float64), scores)
        return scores

    def used_features(self):
        """Features that occur in the model, and their shares in what moves the scores, or in the splits of trees.

        Every split of a tree counts the same, since a file does not keep what it gained. A stump counts for its feature
        with the sum over the classes of ``|right - left|``, in an interval table a feature with the sum of the absolute
        differences from each interval to the next, in a linear machine with the sum of the absolute coefficients (so it
        depends on the unit of the feature). A kernel machine uses the features in which its support vectors differ, and
        has no shares.

        Returns
        -------
        feature : ndarray of int64 (n_used,)
            Increasing.
        share : ndarray of float64 (n_used,)
            Sums to 1, or all 0 if no feature ever changes a score.
        """
        if self.kind == modelfile.KIND_STUMPS:
            stumps = self.ensemble
            right = stumps.right.astype(np.float64)
            left = -right if stumps.left is None else stumps.left
            feature, at = np.unique(stumps.feature, return_inverse=True)
            share = np.bincount(at, np.abs(right - left).sum(axis=1), len(feature))
        elif self.kind == modelfile.KIND_LINEAR:
            size = np.abs(self.ensemble.coef.astype(np.float64)).sum(axis=0)
            feature = np.flatnonzero(size)
            share = size[feature]
        elif self.kind == modelfile.KIND_KERNEL:
            support = self.ensemble.support
            feature = np.flatnonzero((support != support[:1]).any(axis=0))
            share = np.zeros(len(feature))
        elif self.kind == modelfile.KIND_TREES:
            feature, share = np.unique(self.ensemble.feature, return_counts=True)
        else:
            sections = modelfile.arrays(self._data, self._scorer)
            feature, offset = sections["FIDX"].astype(np.int64), sections["IOFF"].astype(np.int64)
            table = sections["TABL"].astype(np.float64).reshape(-1, self.n_classes_)
            begin, end = offset[:-1] + 2 * np.arange(len(feature)), offset[1:] + 2 * np.arange(len(feature)) + 1
            share = np.array([np.abs(np.diff(table[a:b], axis=0)).sum() for a, b in zip(begin, end, strict=True)])
        total = share.sum()
        return feature, share / total if total > 0 else np.zeros(len(feature))

    def feature_importances(self):
        """Share of every feature, as `used_features` measures it.

        Returns
        -------
        ndarray of float64 (n_features_in_,)
        """
        result = np.zeros(self.n_features_in_)
        feature, share = self.used_features()
        result[feature] = share
        return result

    def truncate(self, t):
        """The model of the first ``t`` rounds.

        Parameters
        ----------
        t : int
            0 to n_rounds.

        Returns
        -------
        Model
        """
        self._need_list("it cannot be cut")
        self._need_stages()
        ensemble = self.ensemble.truncate_rounds(t)
        return self.from_bytes(modelfile.encode(ensemble, self.classes_, self.link, self.meta, self.leaves))

    def to_bytes(self):
        """The bytes of the model file."""
        return self._data

    def save(self, path, layout=None, leaves=None):
        """Save to a file, which is replaced in one step: after a failure the old one is still there in full.

        Parameters
        ----------
        path : str or path-like
            A file that is there already is replaced, whatever it holds. Its folder must exist.
        layout : {"list", "interval", "interval32"}, optional
            See `from_ensemble`; None keeps the layout.
        leaves : {"float32", "float16"}, optional
            See `from_ensemble`; None keeps the type.
        """
        data = self._data
        current = self.layout
        layout = current if layout is None else layout
        leaves = self.leaves if leaves is None else leaves
        _check_layout(layout)
        if leaves not in modelfile.LEAVES:
            raise ValueError(f"leaves must be 'float32' or 'float16', not {leaves!r}")
        if (layout, leaves) != (current, self.leaves):
            self._need_list("no other layout can be had from it; save that from the estimator or the original file")
            data = modelfile.encode(_laid_out(self.ensemble, layout), self.classes_, self.link, self.meta, leaves)
        write(path, data)

    def __reduce__(self):
        return Model.from_bytes, (self._data,)

    def __repr__(self):
        kind = {
            modelfile.KIND_STUMPS: counted(self.n_learners, "stump"),
            modelfile.KIND_INTERVALS: "interval table" + " of float32" * (self.layout == "interval32"),
            modelfile.KIND_TREES: f"{counted(self.n_learners, 'tree')} in {counted(self.n_rounds, 'round')}",
            modelfile.KIND_LINEAR: "linear machine",
        }.get(self.kind)
        if kind is None:
            machine = self.ensemble
            kind = f"kernel machine ({machine.kernel}), {counted(len(machine), 'support vector')}"
        if not self.has_stages and not self.is_machine:
            kind = f"{kind.split(' in ')[0]}, totally corrective"
        return f"<Model: {kind}, {self.n_classes_} classes, {counted(self.n_features_in_, 'feature')}>"

    def _need_list(self, why):
        if self.kind == modelfile.KIND_INTERVALS:
            raise ValueError(f"this model is an interval table, in which the stumps of a feature are merged: {why}")

    @property
    def has_stages(self):
        """Whether the first rounds are a model, too: not so where every round changes all coefficients.

        A linear or kernel machine has none.
        """
        if self.is_machine:
            return False
        try:
            return self.meta.get("stages") is not False
        except ModelFormatError:  # information that cannot be read keeps nobody from using the model
            return True

    @property
    def is_machine(self):
        """Whether this is a linear or kernel machine."""
        return self.kind in (modelfile.KIND_LINEAR, modelfile.KIND_KERNEL)

    def _need_stages(self):
        if self.is_machine:
            raise ValueError(
                "this model is a linear or kernel machine, into which all rounds have been merged: it has no stages; "
                "train one with fewer rounds"
            )
        if not self.has_stages:
            raise ValueError(
                "this model is totally corrective: every round changed the coefficients of all weak learners, so that "
                "its first rounds are no model; train one with fewer rounds"
            )

    def _decision(self, scores):
        return scores[:, 1] - scores[:, 0] if self.n_classes_ == 2 else scores

    def _checked(self, X):
        if not hasattr(X, "indptr"):
            if hasattr(X, "tocsr"):
                X = X.tocsr()
            else:
                X = np.asarray(X)
                if X.dtype.char not in "fd" or not X.dtype.isnative:
                    if X.dtype.kind not in "biufO":
                        raise ValueError(f"X must hold numbers, not {X.dtype}")
                    X = X.astype(np.float64 if X.dtype.kind == "O" else np.float32)
        elif getattr(X, "format", "csr") != "csr":
            X = X.tocsr()
        if len(X.shape) != 2:
            raise ValueError(
                f"X must be two-dimensional, but has shape {X.shape}; reshape(1, -1) makes one row a matrix"
            )
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {counted(X.shape[1], 'feature')}, but this model needs {self.n_features_in_}")
        return X

    def _run(self, X, n_jobs, mode):
        X = self._checked(X)
        m = X.shape[0]
        threads = 1 if n_jobs is None and m < _SERIAL_ROWS else resolve_n_jobs(n_jobs)
        best = np.empty(m, dtype=np.int64) if mode is None else None
        out = np.empty((m, self.n_classes_)) if best is None else None
        mode = mode or score.SCORES
        if not hasattr(X, "indptr"):
            self._scorer.dense(X, out, best, mode, threads)
        else:
            data = X.data if X.data.dtype.char in "fd" else X.data.astype(np.float32)
            # The kernel has one type for both index arrays.
            index = np.int32 if X.indices.dtype == X.indptr.dtype == np.int32 else np.int64
            self._scorer.sparse(
                np.ascontiguousarray(data),
                np.ascontiguousarray(X.indices, dtype=index),
                np.ascontiguousarray(X.indptr, dtype=index),
                X.shape[1],
                out,
                best,
                mode,
                threads,
            )
        if self.is_machine:
            refused = np.isnan(out[:, 0]) if best is None else best < 0
            if refused.any():
                raise ValueError(
                    f"row {int(refused.argmax())} of X holds NaN, an infinite number, or one too large for float32 or "
                    "for this model; linear and kernel machines have no missing values: fill them in before (impute)"
                )
        return out if best is None else best
