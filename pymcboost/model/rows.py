"""Conversion of feature rows for the scorer, from NumPy arrays, CSR matrices and frames; and lists of labels."""

import numpy as np

from pymcboost._kernels import score
from pymcboost.model.columns import (
    NOT_TRAINED,
    in_order,
    refuse_dates,
    refuse_no_rows,
    refuse_repeated_names,
    wrong_value,
)
from pymcboost.threads import counted, resolve_n_jobs

# With fewer rows than this, the default is one thread.
SERIAL_ROWS = 10_000
# Number of scores from which the top k are selected at once.
TOP_NUMBERS = 1 << 22
# Types of numeric labels.
NUMBERS = (int, float, np.bool_, np.number)
# Types that hold the labels of a row.
LISTS = (tuple, set, frozenset)


def check_sparse(X):
    """Refuse a compressed sparse matrix with invalid index arrays, with which SciPy's own operations would crash."""
    if hasattr(X, "check_format"):
        try:
            # The check looks for negative differences, which unsigned integers do not have.
            if {X.indices.dtype.kind, X.indptr.dtype.kind} != {"i"}:
                raise TypeError("its index arrays must hold signed integers")
            X.check_format(full_check=True)
        except (ValueError, TypeError) as error:
            raise ValueError(f"X is not a valid {X.format.upper()} matrix: {error}") from None


def as_numpy(X):
    """Convert to NumPy arrays: masked values become NaN, array-API arrays share memory; other objects are unchanged.

    Numbers get native byte order.
    """
    if isinstance(X, memoryview):
        return np.asarray(X)
    if isinstance(X, np.ndarray) and X.dtype.kind == "f" and not X.dtype.isnative:
        X = X.astype(X.dtype.newbyteorder("="))
    if np.ma.isMaskedArray(X):
        if not np.ma.is_masked(X):
            return X.data
        if X.dtype.kind in "biu":
            X = X.astype(np.float64)
        elif X.dtype.kind != "f":
            X = X.astype(object)
        return X.filled(np.nan)
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):
        raise TypeError("X is a lazy frame without data; use X.collect()")
    if not hasattr(X, "__dlpack__") or isinstance(X, np.ndarray):
        return X
    if not hasattr(X, "__array__"):
        return np.from_dlpack(X)
    # Array types of other libraries have no ``kind`` attribute as NumPy's do.
    return np.asarray(X) if not isinstance(getattr(X, "dtype", np.dtype(object)), np.dtype) else X


def own_labels(y):
    """Convert labels like `as_numpy`. Numbers and booleans in pandas' types and in object arrays become NumPy's.

    A column of a data frame with text, such as ``df.iloc[:, 0]``, may hold Python integers as objects. NumPy and
    scikit-learn could otherwise convert pandas' integer types to float64 or objects.
    """
    if hasattr(y, "iloc") and y.shape[1:] == (1,):  # a frame with one column
        dtype = y.dtypes.iloc[0]
    else:
        dtype = getattr(y, "dtype", None)
    numpy_dtype = getattr(dtype, "numpy_dtype", None)  # of pandas' types
    if numpy_dtype is not None and numpy_dtype.kind in "biu" and not np.asarray(y.isna()).any():
        return y.to_numpy(dtype=numpy_dtype)
    y = as_numpy(y)
    return _numbers_in(np.asarray(y), y) if getattr(dtype, "kind", None) == "O" else y


def _numbers_in(values, y):
    """Convert an object array of numbers to a numeric array; return ``y`` if that is impossible."""
    labels = values.ravel().tolist() if values.dtype.kind == "O" else []
    types = {type(label) for label in labels}
    if not types or not all(issubclass(label_type, NUMBERS) for label_type in types):
        return y
    try:
        numbers = np.array(labels).reshape(values.shape)
    except OverflowError:
        return y
    has_floats = any(issubclass(label_type, (float, np.floating)) for label_type in types)
    is_rounded = numbers.dtype.kind == "f" and not has_floats
    return numbers if numbers.dtype.kind in "biuf" and not is_rounded else y


def check_shape(X, n_features):
    """Refuse rows that are not a matrix, or whose number of features differs from the model's."""
    if len(X.shape) != 2:
        raise ValueError(
            f"X must be two-dimensional, but has shape {X.shape}; to give one row, use "
            "reshape(1, -1)"
        )
    if X.shape[1] != n_features:
        raise ValueError(
            f"X has {counted(X.shape[1], 'feature')}, but the model was trained on "
            f"{n_features}; give the same columns in the same order"
        )


def joined(arrays):
    """Concatenate label arrays.

    Integers stay integers, even if NumPy would convert signed and unsigned ones to floats.
    """
    types = [array.dtype for array in arrays]
    if all(dtype.kind in "bui" for dtype in types) and np.result_type(*types).kind == "f":
        largest = max(int(array.max(initial=0)) for array in arrays)
        if largest >= 2**63:
            raise ValueError(
                f"y has the label {largest}, but integer labels must lie in [-2^63, 2^63 - 1]. "
                "Convert all labels to text"
            )
        arrays = [array.astype(np.int64) for array in arrays]
    return np.concatenate(arrays)


def positions(labels, y):
    """Positions of y among sorted labels; -1 for unknown ones. Signed and unsigned integers are compared exactly."""
    if "O" in (labels.dtype.kind, y.dtype.kind):  # some objects have no order
        position_of = {label: position for position, label in enumerate(labels.tolist())}
        return np.array([_position(label, position_of) for label in y.tolist()], dtype=np.int64)
    wraps = np.zeros(len(y), dtype=bool)
    if {labels.dtype.kind, y.dtype.kind} == {"i", "u"}:
        cast = y.astype(np.int64 if labels.dtype.kind == "i" else np.uint64)
        wraps = (y < 0) != (cast < 0)
        y = cast
    position = np.searchsorted(labels, y).clip(0, max(len(labels) - 1, 0))
    return np.where(wraps | (labels[position] != y), -1, position)


def _position(label, position_of):
    """Position of a label in a dictionary of them, or -1."""
    try:
        return position_of.get(label, -1)
    except TypeError:  # lists are not hashable
        return -1


def lists_of(y):
    """Convert Series and Arrow arrays of lists of labels to lists; other labels are unchanged."""
    method = "to_list" if hasattr(y, "to_list") else "to_pylist"
    if isinstance(y, np.ndarray) or not hasattr(y, method) or not len(y):
        return y
    first_row = getattr(y[:1], method)()[0]
    return getattr(y, method)() if isinstance(first_row, (*LISTS, list)) else y


def is_lists_of_labels(y):
    """Whether rows are lists of labels: tuples or sets, or Python lists that do not form a numeric matrix."""
    is_object_array = isinstance(y, np.ndarray) and y.dtype == object and y.ndim == 1
    if not isinstance(y, (list, tuple)) and not is_object_array:
        return False
    if not len(y) or not all(isinstance(row, (*LISTS, list)) for row in y):
        return False
    if any(isinstance(row, LISTS) for row in y):
        return True
    try:
        return np.asarray(y).dtype.kind not in "buif"
    except ValueError:  # different lengths
        return True


class Rows:
    """Scores rows with a model file in memory.

    Parameters
    ----------
    scorer : Scorer
        Scorer of a checked model file.
    allows_missing : bool
        Whether rows may have NaN or infinite numbers.
    names : callable, optional
        Returns the names of the columns, by which frames are put in order, or None.
    categories : callable, optional
        Returns the `Categories`, by which the columns of frames become codes, or None.
    """

    __slots__ = (
        "_scorer",
        "_allows_missing",
        "_n_classes",
        "_n_features",
        "_names",
        "_categories",
        "_packed",
    )

    def __init__(self, scorer, allows_missing, names=None, categories=None):
        self._categories = categories
        self._packed = "PACK" in scorer.sections()
        self._scorer = scorer
        self._allows_missing = allows_missing
        self._names = names
        self._n_classes, self._n_features = scorer.header[:2]

    @property
    def n_features(self):
        """Number of features."""
        return self._n_features

    def checked(self, X):
        """Convert X for the scorer: an array of a native numeric type, or a CSR matrix."""
        if not hasattr(X, "indptr"):
            if hasattr(X, "tocsr"):
                X = X.tocsr()
            else:
                X = self._array(X)
        elif getattr(X, "format", "csr") != "csr":
            check_sparse(X)
            X = X.tocsr()
        if hasattr(X, "indptr"):
            X = self._summed(X)
        check_shape(X, self._n_features)
        return X

    def _summed(self, X):
        """Sum duplicate entries of a CSR matrix if values will be rounded, or if packed trees look them up."""
        if X.data.dtype == np.float32 and not self._packed:
            return X
        check_sparse(X)
        if getattr(X, "has_canonical_format", True):
            return X
        X = X.copy()
        X.sum_duplicates()
        return X

    def _array(self, X):
        """Convert dense rows to an array of a native floating-point type."""
        if type(X) is np.ndarray and X.dtype.char in "fd" and X.dtype.isnative:
            return X
        refuse_no_rows(X)
        if hasattr(X, "columns") or hasattr(X, "column_names"):
            X = self._encoded_frame(X)
        X = as_numpy(X)
        try:
            array = np.asarray(X)
            if array.dtype.char in "fd" and array.dtype.isnative:
                return array
            if array.dtype.kind not in "biufO":
                raise ValueError(f"X must hold numbers, not {array.dtype}")
            if array.dtype.kind == "O" and hasattr(X, "iloc"):
                # pandas has a missing value of its own.
                return X.to_numpy(np.float64, na_value=np.nan)
            return array.astype(np.float64 if array.dtype.kind == "O" else np.float32)
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(wrong_value(X, text=NOT_TRAINED) or error) from error

    def _encoded_frame(self, X):
        """Put the columns of a frame in order, and replace categories by codes."""
        refuse_repeated_names(X)
        if self._names is not None:
            X = in_order(X, self._names)
        categories = None if self._categories is None else self._categories()
        if categories is not None:
            X = categories.encoded(X)
        refuse_dates(X)
        return X

    def scores(self, X, n_jobs=None):
        """Scores of the classes: float64 (m, K)."""
        return self._run(self.checked(X), n_jobs, score.SCORES)

    def probabilities(self, X, n_jobs=None):
        """Probabilities of the classes: float64 (m, K)."""
        return self._run(self.checked(X), n_jobs, score.PROBABILITIES)

    def best(self, X, n_jobs=None):
        """Positions of the classes with the highest scores: int64 (m,)."""
        return self._run(self.checked(X), n_jobs, None)

    def early(self, X, way, n_jobs=None):
        """Positions of the classes, and numbers of evaluated learners, with early exit number ``way``: int64 (m,)."""
        class_and_learners = self._run(self.checked(X), n_jobs, score.EARLY + way)
        return class_and_learners & 0xFFFF, class_and_learners >> 16

    def top(self, X, n, n_jobs=None):
        """Positions of the n classes with the highest scores, best first, and these scores: (m, n) each."""
        X = self.checked(X)
        best = np.empty((X.shape[0], n), dtype=np.int64)
        scores = np.empty((X.shape[0], n))
        if "LOFF" in self._scorer.sections() and not hasattr(X, "indptr"):
            with np.errstate(over="ignore"):
                X = np.ascontiguousarray(X, dtype=np.float32)
            if self._scorer.top_rows(X, best, scores, self._threads(len(X), n_jobs)):
                return best, scores
        step = max(64, TOP_NUMBERS // self._n_classes)
        for begin in range(0, X.shape[0], step):
            rows = slice(begin, begin + step)
            all_scores = self._run(X[rows], n_jobs, score.SCORES, first_row=begin)
            self._scorer.top(all_scores, best[rows], scores[rows])
        return best, scores

    @staticmethod
    def _threads(n_rows, n_jobs):
        return 1 if n_jobs is None and n_rows < SERIAL_ROWS else resolve_n_jobs(n_jobs)

    def decode(self, sums):
        """Compute scores of the classes (m, K) from sums of columns (m, width)."""
        scores = np.empty((len(sums), self._n_classes))
        self._scorer.decode(np.ascontiguousarray(sums, dtype=np.float64), scores)
        return scores

    def stages(self, X, ends):
        """Yield the scores (m, K) after every round; round r ends before weak learner ``ends[r + 1]``.

        Parameters
        ----------
        X : ndarray (m, d)
        ends : ndarray of int (R + 1,)
        """
        with np.errstate(over="ignore"):
            X = np.ascontiguousarray(X, dtype=np.float32)
        sums = np.empty((len(X), self._scorer.width))
        self._scorer.add(X, -1, 0, sums)
        ends = ends.tolist()
        for begin, end in zip(ends, ends[1:], strict=False):
            self._scorer.add(X, begin, end, sums)
            yield self.decode(sums)

    def _run(self, X, n_jobs, mode, first_row=0):
        """Score checked rows, which begin at row ``first_row`` of the user's.

        ``mode`` is a mode of the scorer, or None for the positions of the best classes.
        """
        m = X.shape[0]
        threads = self._threads(m, n_jobs)
        best = None
        scores = None
        if mode is None or mode >= score.EARLY:
            best = np.empty(m, dtype=np.int64)
        else:
            scores = np.empty((m, self._n_classes))
        mode = mode or score.SCORES
        if not hasattr(X, "indptr"):
            self._scorer.dense(X, scores, best, mode, threads)
        else:
            number = np.float64 if X.data.dtype.char == "d" else np.float32
            # The kernel needs the same type for both index arrays.
            index = np.int32 if X.indices.dtype == X.indptr.dtype == np.int32 else np.int64
            self._scorer.sparse(
                np.ascontiguousarray(X.data, dtype=number),
                np.ascontiguousarray(X.indices, dtype=index),
                np.ascontiguousarray(X.indptr, dtype=index),
                X.shape[1],
                scores,
                best,
                mode,
                threads,
            )
        if not self._allows_missing:
            is_refused = np.isnan(scores[:, 0]) if best is None else best < 0
            if is_refused.any():
                row = int(is_refused.argmax())
                raise ValueError(
                    f"row {first_row + row} of X contains {self._refused(X, row)}; linear and "
                    "kernel machines need finite numbers: impute missing values, and clip or "
                    "scale the others"
                )
        return scores if best is None else best

    @staticmethod
    def _refused(X, row):
        """Describe the value in a row that a machine refuses."""
        if hasattr(X, "indptr"):
            entries = slice(X.indptr[row], X.indptr[row + 1])
            columns = X.indices[entries]
            values = X.data[entries]
        else:
            columns = np.arange(X.shape[1])
            values = X[row]
        with np.errstate(over="ignore"):
            not_finite = np.flatnonzero(~np.isfinite(values.astype(np.float32)))
        if not len(not_finite):
            return "numbers that are too large for this model"
        return f"{values[not_finite[0]]} in column {columns[not_finite[0]]}"
