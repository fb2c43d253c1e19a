"""Scanner of LIBSVM text into compressed sparse rows, and rows into a dense matrix.

One linear pass over the bytes without the GIL; the C part and its rules are in ``svmtext.h``, the readable twin in
``tests/reference/svmtext.py``.
"""

from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset


cdef extern from "svmtext.h" nogil:
    ctypedef double (*svm_to_double)(const char*) noexcept
    ctypedef struct svm_state:
        svm_to_double to_double
        int64_t min_index, shift
        int32_t* indices
        float* values
        int64_t* indptr
        double* labels
        uint8_t* labelled
        int64_t line, rows, nnz, max_index, max_line, max_column, zero_line, qid_line, fractions
        int64_t error_offset, error_column, error_previous
    int SVM_PADDING
    int svm_scan(svm_state*, const unsigned char*, int64_t)
    void svm_fill_dense(const int64_t*, const int32_t*, const float*, int64_t, int64_t, float*)
    int64_t svm_drop(int64_t*, int32_t*, float*, int64_t, int64_t)

cdef extern from "Python.h":
    double PyOS_string_to_double(const char*, char**, PyObject*) except? -1.0

PADDING = SVM_PADDING

# The order of the enumeration in svmtext.h.
CODES = (
    "ok", "label not number", "label range", "multi label", "no colon", "index not number", "index negative",
    "index zero", "index huge", "index order", "no value", "value not number", "value overflow", "qid not number",
    "qid place", "label digits", "lone CR", "conversion failed",
)


cdef double slow_double(const char* text) noexcept with gil:
    # Correctly rounded and independent of the locale; used for few numbers, so the GIL does not matter.
    cdef char* stop
    try:
        return PyOS_string_to_double(text, &stop, NULL)
    except Exception:
        return float("nan")


cdef class Scanner:
    """Running state of one file's scan.

    Parameters
    ----------
    min_index : int
        Smallest feature index allowed, 0 or 1.
    shift : int
        Subtracted from each index as it is stored.
    """

    cdef svm_state state

    def __cinit__(self, int min_index, int shift):
        memset(&self.state, 0, sizeof(svm_state))
        self.state.to_double = slow_double
        self.state.min_index = min_index
        self.state.shift = shift
        self.state.max_index = -1

    def feed(self, const unsigned char[::1] text, Py_ssize_t length, int32_t[::1] indices, float[::1] values,
             int64_t[::1] indptr, double[::1] labels, uint8_t[::1] labelled):
        """Append the rows of whole lines.

        Parameters
        ----------
        text : bytes-like (at least length + PADDING,)
            IN. ``text[length - 1]`` is a newline; what follows is not looked at.
        indices, values : int32 and float32 arrays (at least nnz + length // 4,)
            OUT, from position ``nnz`` on.
        indptr : int64 array (at least rows + length // 2 + 1,)
            OUT, from position ``rows + 1`` on; ``indptr[0]`` must be 0.
        labels, labelled : float64 and uint8 arrays (at least rows + length // 2,)
            OUT, from position ``rows`` on.

        Returns
        -------
        str
            One of `CODES`; after anything but "ok" the scanner must not be fed again.
        """
        cdef int code
        if length < 1 or text.shape[0] < length + SVM_PADDING or text[length - 1] != 10:
            raise ValueError("text must end with a newline at length - 1 and have PADDING bytes after it")
        if min(indices.shape[0], values.shape[0]) < self.state.nnz + length // 4 or (
            min(labels.shape[0], labelled.shape[0], indptr.shape[0] - 1) < self.state.rows + length // 2
        ):
            raise ValueError("output arrays are too small for this much text")
        self.state.indices = &indices[0] if indices.shape[0] else NULL
        self.state.values = &values[0] if values.shape[0] else NULL
        self.state.indptr = &indptr[0]
        self.state.labels = &labels[0] if labels.shape[0] else NULL
        self.state.labelled = &labelled[0] if labelled.shape[0] else NULL
        with nogil:
            code = svm_scan(&self.state, &text[0], length)
        return CODES[code]

    @property
    def line(self):
        """Lines done; while an error stands, the lines before the bad one."""
        return self.state.line

    @property
    def rows(self):
        """Rows stored."""
        return self.state.rows

    @property
    def nnz(self):
        """Entries stored."""
        return self.state.nnz

    @property
    def largest(self):
        """(index, line, column) of the largest feature index; index -1 if there is none."""
        return self.state.max_index, self.state.max_line, self.state.max_column

    @property
    def zero_line(self):
        """First line with feature index 0, or 0."""
        return self.state.zero_line

    @property
    def qid_line(self):
        """First line with a qid, or 0."""
        return self.state.qid_line

    @property
    def fractions(self):
        """Number of labels that are not integers."""
        return self.state.fractions

    @property
    def error(self):
        """(byte offset in the last text, column, previous index) of the error."""
        return self.state.error_offset, self.state.error_column, self.state.error_previous


def fill_dense(const int64_t[::1] indptr, const int32_t[::1] indices, const float[::1] values, float[:, ::1] out):
    """Write compressed rows into ``out`` (rows, width), which holds zeros; entries beyond its width are dropped."""
    cdef int64_t rows = out.shape[0], width = out.shape[1]
    if indptr.shape[0] != rows + 1 or indptr[rows] > min(indices.shape[0], values.shape[0]):
        raise ValueError("indptr does not belong to these arrays")
    if rows == 0 or width == 0 or indptr[rows] == 0:
        return
    with nogil:
        svm_fill_dense(&indptr[0], &indices[0], &values[0], rows, width, &out[0, 0])


def drop_beyond(int64_t[::1] indptr, int32_t[::1] indices, float[::1] values, int64_t width):
    """Drop entries whose index is ``width`` or more, in place; return the new number of entries."""
    cdef int64_t rows = indptr.shape[0] - 1
    if rows < 0 or indptr[rows] > min(indices.shape[0], values.shape[0]):
        raise ValueError("indptr does not belong to these arrays")
    if indptr[rows] == 0:
        return 0
    cdef int64_t kept
    with nogil:
        kept = svm_drop(&indptr[0], &indices[0], &values[0], rows, width)
    return kept
