"""Python's door to ``mcb.h``: the one reader, validator and scorer of model files.

Nothing here adds a number to a score; blocks of rows are cast or scattered to float32 and handed to the C functions,
several blocks at a time when there are threads.
"""

from cython cimport floating, integral
from cython.parallel cimport parallel, prange, threadid
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

import numpy as np

SCORES = 0
PROBABILITIES = 1
EARLY = 2  # and more: the number of an early exit is added
FILE_SIZE_ERROR = MCB_E_FILE_SIZE


def crc32c(const unsigned char[::1] data, uint32_t crc=0):
    """CRC-32C of bytes, continued from ``crc``."""
    return mcb_crc32c(crc, &data[0], data.shape[0]) if data.shape[0] else crc


def exp(double x):
    """The exponential function of ``mcb.h``."""
    return mcb_exp(x)


def log(double x):
    """The natural logarithm of ``mcb.h``, for normal numbers above 0."""
    return mcb_log(x)


def sqrt(double x):
    """The square root of ``mcb.h``."""
    return mcb_sqrt(x)


def softmax(const double[:, :] scores, bint doubled=False, double factor=1.0):
    """Probabilities (m, K) of the scores, or of twice the scores, times a factor: those of `mcb_probabilities`."""
    found = np.array(scores, dtype=np.float64, order="C")
    cdef double[:, ::1] rows = found
    cdef Py_ssize_t i
    with nogil:
        for i in range(rows.shape[0]):
            mcb__softmax(&rows[i, 0], <uint32_t>rows.shape[1], doubled, factor)
    return found


cdef enum:
    ZEROED = 32  # numbers that are set to 0 side by side in the time of one alone
    WIDE = 8192  # sparse rows of more features are filled with the features of the model alone
    MOST = 67108864  # floats in a thread's block of filled rows: 256 MB, unless one row has more


cdef class Scorer:
    """A model file in memory, checked by ``mcb_open``.

    Parameters
    ----------
    data : bytes-like, C-contiguous
        The file. It is kept alive, not copied, and must not change.

    Attributes
    ----------
    status : int
        0, or why the file was refused; then nothing but ``problem`` may be used.
    """

    def __cinit__(self, const unsigned char[::1] data):
        cdef const unsigned char *start = NULL
        self.view = data
        if data.shape[0]:
            start = &data[0]
        else:
            start = <const unsigned char *>b""
        self.status = mcb_open(&self.model, start, data.shape[0])

    def __dealloc__(self):
        free(self.memory)
        free(self.basis)
        narrow_free(self.narrow)

    cdef void prepare(self, bint sparse=False):
        """Arrange trees for speed before the first scoring; if memory is short, they are scored without.

        Linear machines are laid out for sparse rows only.

        Called with the interpreter's lock held, so that threads find the model as it was or as it will stay.
        """
        cdef size_t size
        if self.asked or self.status or (self.model.kind == MCB_KIND_LINEAR and not sparse):
            return
        self.asked = True
        size = mcb_prepared_size(&self.model)
        if size:
            self.memory = malloc(size)
            if self.memory != NULL:
                mcb_prepare(&self.model, self.memory, size)

    cdef prepare_early(self):
        """Determine, before the first early exit, which hyperplanes of a linear machine can be skipped."""
        cdef size_t size
        if self.basis != NULL or self.status or self.model.kind != MCB_KIND_LINEAR:
            return
        size = mcb_early_size(&self.model)
        if size:
            self.basis = malloc(size)
        if self.basis == NULL:
            raise MemoryError(f"no memory for the early exits of this model ({size} bytes)")
        mcb_prepare_early(&self.model, self.basis, size)

    def problem(self):
        """``(message, section, byte, found, expected)`` of a refusal; the last two are None if they have no meaning."""
        found = self.model.error_found if self.model.error_has_numbers else None
        expected = self.model.error_expected if self.model.error_has_numbers else None
        return (mcb_strerror(self.status).decode(), (<bytes>self.model.error_tag).decode(), self.model.error_offset,
                found, expected)

    @property
    def header(self):
        """``(n_classes, n_features, kind, link, n_learners, n_rounds)``"""
        return (self.model.n_classes, self.model.n_features, self.model.kind, self.model.link, self.model.n_learners,
                self.model.n_rounds)

    @property
    def prepared_size(self):
        """Bytes that `mcb_prepare` needs; 0 if there is nothing to prepare."""
        return mcb_prepared_size(&self.model)

    def sections(self):
        """Dictionary: tag -> (byte offset, number of items, dtype code)."""
        cdef int i
        found = {}
        for i in range(MCB_N_SLOTS):
            if self.model.section[i].data != NULL:
                found[(<bytes>(<const char *>mcb__rules[i].tag)).decode()] = (
                    self.model.section[i].data - self.model.data, self.model.section[i].count,
                    self.model.section[i].dtype)
        return found

    @property
    def width(self):
        """Number of sums per row: one for every class, or for every column of a code with a decoder."""
        return mcb_score_width(&self.model)

    @property
    def decoder(self):
        """Number of the decoder."""
        return self.model.decoder

    def decode(self, const double[:, ::1] columns, double[:, ::1] scores):
        """Compute scores of the classes (m, K) from sums of `add` (m, width)."""
        cdef Py_ssize_t r
        if columns.shape[0] != scores.shape[0] or columns.shape[1] != self.width or (
                scores.shape[1] != self.model.n_classes):
            raise ValueError("the arrays do not fit the model")
        if columns.shape[0] and misaligned(&columns[0, 0], 0, sizeof(double)):
            columns = np.array(columns)
        for r in range(columns.shape[0]):
            mcb_decode(&self.model, &columns[r, 0], &scores[r, 0])

    def top(self, const double[:, ::1] scores, int64_t[:, ::1] best, double[:, ::1] highest):
        """The classes with the highest of the scores (m, K), from the highest on, and these scores: (m, n) each."""
        cdef Py_ssize_t r, j, n = best.shape[1]
        cdef uint32_t[::1] top = np.empty(max(n, 1), dtype=np.uint32)
        if not 1 <= n <= scores.shape[1] or scores.shape[1] != self.model.n_classes:
            raise ValueError("the arrays do not fit the model")
        for r in range(scores.shape[0]):
            mcb_top(&self.model, &scores[r, 0], n, &top[0])
            for j in range(n):
                best[r, j], highest[r, j] = top[j], scores[r, top[j]]

    def top_rows(self, const float[:, ::1] X, int64_t[:, ::1] best, double[:, ::1] highest, int n_threads):
        """Like `top`, for rows X (m, d); returns False without doing anything if leaves have values for all classes."""
        cdef Py_ssize_t r, j, n = best.shape[1], size
        cdef uint32_t[:, ::1] top = np.empty((n_threads, n), dtype=np.uint32)
        cdef char *memory
        self.prepare()
        size = (mcb_top_size(&self.model) + 63) // 64 * 64
        memory = <char *>malloc(n_threads * size) if size else NULL
        if memory == NULL:
            return False
        for r in range(n_threads):
            mcb_top_begin(&self.model, memory + r * size, size)
        for r in prange(X.shape[0], nogil=True, num_threads=n_threads, schedule="static"):
            mcb_top_scores(&self.model, memory + threadid() * size, &X[r, 0], <uint32_t>n, &top[threadid(), 0],
                           &highest[r, 0])
            for j in range(n):
                best[r, j] = top[threadid(), j]
        free(memory)
        return True

    def add(self, const float[:, ::1] X, Py_ssize_t begin, Py_ssize_t end, double[:, ::1] scores):
        """Add the learners ``begin <= j < end`` to scores (m, width); ``begin == -1`` sets them to the biases first."""
        cdef Py_ssize_t m = X.shape[0]
        cdef int status = 0
        if X.shape[1] != self.model.n_features or scores.shape[0] != m or scores.shape[1] != self.width:
            raise ValueError("X and scores do not fit the model")
        if m == 0:
            return
        if misaligned(&X[0, 0], 0, sizeof(float)):
            X = np.array(X)
        self.prepare()
        with nogil:
            if begin < 0:
                mcb_start_scores(&self.model, m, &scores[0, 0])
                begin = 0
            if begin < end:
                status = mcb_add_learners(&self.model, &X[0, 0], m, X.shape[1], begin, end, &scores[0, 0])
        if status:
            raise ValueError(mcb_strerror(status).decode())

    cdef check(self, Py_ssize_t m, Py_ssize_t d, double[:, ::1] out, int64_t[::1] best):
        if self.status or d != self.model.n_features or (out is None) == (best is None) or (
                best.shape[0] != m if out is None else out.shape[0] != m or out.shape[1] != self.model.n_classes):
            raise ValueError("the arrays do not fit the model")

    cdef Py_ssize_t block_rows(self, Py_ssize_t m, Py_ssize_t d, bint predicting):
        """Rows per block: about 256 KB of features, and of scores when they are thrown away again."""
        cdef Py_ssize_t rows = min(256, max(16, 65536 // d))
        rows = max(1, min(rows, m, MOST // d))
        return max(1, min(rows, 65536 // <Py_ssize_t>self.model.n_classes)) if predicting else rows

    def dense(self, const floating[:, :] X, double[:, ::1] out, int64_t[::1] best, int mode, int n_threads):
        """Score the rows of X.

        Parameters
        ----------
        X : IN, float32 or float64 (m, d), any strides
        out : OUT, float64 (m, K): scores or probabilities; or None
        best : OUT, int64 (m,): index of the class with the highest score, -1 for a row that a machine cannot score; or
            None. Exactly one of the two is given.
        mode : SCORES or PROBABILITIES, what ``out`` receives; EARLY + way: ``best`` receives the class and 65536 times
            the number of learners
        n_threads : at least 1
        """
        cdef:
            Py_ssize_t m = X.shape[0], d = X.shape[1], K = self.model.n_classes, block, n_blocks, b, stride = d
            double *scores = NULL
            int64_t *classes = NULL
            bint direct = False
            float *features = NULL
            double *spare = NULL
            int t = 0
        self.check(m, d, out, best)
        if m == 0:
            return
        if misaligned(&X[0, 0], X.strides[0] | X.strides[1], sizeof(floating)):
            X = np.array(X)
        block = self.block_rows(m, d, out is None)
        n_blocks = (m + block - 1) // block
        self.prepare()
        if mode >= EARLY:
            self.prepare_early()
        if out is None:
            classes = &best[0]
        else:
            scores = &out[0, 0]
        if floating is float:
            # Rows in the layout of mcb.h are read in place.
            if (X.strides[1] == sizeof(float) or d == 1) and X.strides[0] >= d * <Py_ssize_t>sizeof(float):
                direct = True
                stride = X.strides[0] // <Py_ssize_t>sizeof(float)
        n_threads = max(1, min(n_threads, n_blocks))
        try:
            if not direct:
                features = <float *>malloc(n_threads * block * d * sizeof(float))
            if scores == NULL:
                spare = <double *>malloc(n_threads * block * K * sizeof(double))
            if (not direct and features == NULL) or (scores == NULL and spare == NULL):
                raise MemoryError("no memory for the blocks of rows")
            if n_threads == 1:
                with nogil:
                    for b in range(n_blocks):
                        dense_block(&self.model, X, b * block, min(m, (b + 1) * block), direct, stride, features, spare,
                                    scores, classes, mode)
            else:
                with nogil, parallel(num_threads=n_threads):
                    t = threadid()
                    for b in prange(n_blocks, schedule="static"):
                        dense_block(&self.model, X, b * block, min(m, (b + 1) * block), direct, stride,
                                    features + t * block * d if features != NULL else NULL,
                                    spare + t * block * K if spare != NULL else NULL, scores, classes, mode)
        finally:
            free(features)
            free(spare)

    def sparse(self, const floating[::1] data, const integral[::1] indices, const integral[::1] indptr,
               Py_ssize_t n_features, double[:, ::1] out, int64_t[::1] best, int mode, int n_threads):
        """Like ``dense`` for the CSR matrix (data, indices, indptr); entries of one cell are added up.

        Linear machines, and packed trees of many features, take only the entries that are there, if the indices of
        every row increase strictly; otherwise rows are filled with zeros, a block at a time. Rows of many features are
        filled with those of the model alone.
        """
        cdef:
            Py_ssize_t m = indptr.shape[0] - 1, nnz = min(data.shape[0], indices.shape[0]), most = 0
            bint increasing = True, good, packed = self.model.kind == MCB_KIND_PACKED and n_features > WIDE
            bint by_entry = packed or self.model.kind == MCB_KIND_LINEAR
            double *scores = NULL
            int64_t *classes = NULL
        self.check(m, n_features, out, best)
        if m <= 0:
            return
        if nnz and misaligned(&data[0], 0, sizeof(floating)):
            data = np.array(data)
        if nnz and misaligned(&indices[0], 0, sizeof(integral)):
            indices = np.array(indices)
        if misaligned(&indptr[0], 0, sizeof(integral)):
            indptr = np.array(indptr)
        with nogil:
            good = valid_csr(indices, indptr, nnz, n_features, by_entry, &most, &increasing)
        if not good:
            raise ValueError("X is not a valid CSR matrix: indptr must rise from 0 to the number of entries, "
                             f"indices must be between 0 and {n_features - 1}")
        if out is None:
            classes = &best[0]
        else:
            scores = &out[0, 0]
        if n_features > WIDE and narrow_can(&self.model):
            if self.narrow == NULL:  # made with the interpreter's lock held, as in `prepare`
                self.narrow = narrow_new(&self.model)
            if self.narrow == NULL:
                raise MemoryError("no memory for the list of the model's features")
        else:
            self.prepare(True)
        if mode >= EARLY:
            self.prepare_early()
        if by_entry and increasing and (packed or self.memory != NULL):
            self.sparse_entries(data, indices, indptr, most, scores, classes, mode, n_threads)
        else:
            self.sparse_filled(data, indices, indptr, scores, classes, mode, n_threads)

    cdef sparse_entries(self, const floating[::1] data, const integral[::1] indices, const integral[::1] indptr,
                        Py_ssize_t most, double *scores, int64_t *classes, int mode, int n_threads):
        cdef:
            Py_ssize_t m = indptr.shape[0] - 1, d = self.model.n_features, K = self.model.n_classes
            Py_ssize_t block = self.block_rows(m, d, scores == NULL), n_blocks = (m + block - 1) // block, b
            uint32_t *places = NULL
            float *features = NULL
            double *spare = NULL
            int t = 0
        n_threads = max(1, min(n_threads, n_blocks))
        most += 16  # threads keep off each other's cache lines
        try:
            places = <uint32_t *>malloc(n_threads * most * sizeof(uint32_t))
            features = <float *>malloc(n_threads * most * sizeof(float))
            if scores == NULL:
                spare = <double *>malloc(n_threads * (K + 8) * sizeof(double))
            if places == NULL or features == NULL or (scores == NULL and spare == NULL):
                raise MemoryError("no memory for sparse rows")
            with nogil, parallel(num_threads=n_threads):
                t = threadid()
                for b in prange(n_blocks, schedule="static"):
                    sparse_rows(&self.model, data, indices, indptr, b * block, min(m, (b + 1) * block),
                                places + t * most, features + t * most,
                                spare + t * (K + 8) if spare != NULL else NULL, scores, classes, mode)
        finally:
            free(places)
            free(features)
            free(spare)

    cdef sparse_filled(self, const floating[::1] data, const integral[::1] indices, const integral[::1] indptr,
                       double *scores, int64_t *classes, int mode, int n_threads):
        cdef:
            const mcb_model *model = &self.model if self.narrow == NULL else &self.narrow.model
            Py_ssize_t m = indptr.shape[0] - 1, d = model.n_features, K = model.n_classes
            Py_ssize_t block = self.block_rows(m, d, scores == NULL), n_blocks = (m + block - 1) // block, b
            float *features = NULL
            double *spare = NULL
            int t = 0
        n_threads = max(1, min(n_threads, n_blocks))
        try:
            # Zeroed by the system page by page, so columns that no row uses cost no memory.
            features = <float *>calloc(n_threads * block * d, sizeof(float))
            if scores == NULL:
                spare = <double *>malloc(n_threads * block * K * sizeof(double))
            if features == NULL or (scores == NULL and spare == NULL):
                raise MemoryError(f"no memory for {n_threads} blocks of {block} rows with {d} features; "
                                  "use fewer threads (n_jobs=1)")
            if n_threads == 1:
                with nogil:
                    for b in range(n_blocks):
                        sparse_block(model, self.narrow, data, indices, indptr, b * block, min(m, (b + 1) * block),
                                     features, spare, scores, classes, mode)
            else:
                with nogil, parallel(num_threads=n_threads):
                    t = threadid()
                    for b in prange(n_blocks, schedule="static"):
                        sparse_block(model, self.narrow, data, indices, indptr, b * block, min(m, (b + 1) * block),
                                     features + t * block * d, spare + t * block * K if spare != NULL else NULL,
                                     scores, classes, mode)
        finally:
            free(features)
            free(spare)


cdef void sparse_rows(const mcb_model *model, const floating[::1] data, const integral[::1] indices,
                      const integral[::1] indptr, Py_ssize_t begin, Py_ssize_t end, uint32_t *places, float *features,
                      double *spare, double *scores, int64_t *classes, int mode) noexcept nogil:
    cdef:
        Py_ssize_t K = model.n_classes, r, i, first
        double *out = spare
        uint32_t label = 0
        uint64_t learners = 0
    for r in range(begin, end):
        first = indptr[r]
        for i in range(first, indptr[r + 1]):
            places[i - first] = <uint32_t>indices[i]
            features[i - first] = <float>data[i]
        if scores != NULL:
            out = scores + r * K
        if mode >= 2:
            mcb_predict_early_sparse(model, indptr[r + 1] - first, places, features, out, &label, &learners)
            classes[r] = <int64_t>(learners << 16 | label) if out[0] == out[0] else -1
            continue
        mcb_scores_sparse(model, indptr[r + 1] - first, places, features, out)
        if classes != NULL:
            classes[r] = mcb_argmax(model, out) if out[0] == out[0] else -1
        elif mode == 1:
            mcb_probabilities(model, out)


cdef void dense_block(const mcb_model *model, const floating[:, :] X, Py_ssize_t begin, Py_ssize_t end, bint direct,
                      Py_ssize_t stride, float *features, double *spare, double *scores, int64_t *classes,
                      int mode) noexcept nogil:
    cdef Py_ssize_t d = X.shape[1], r, j
    if direct:
        finish_block(model, <const float *>&X[begin, 0], begin, end, stride, spare, scores, classes, mode)
        return
    for r in range(begin, end):
        for j in range(d):
            features[(r - begin) * d + j] = <float>X[r, j]
    finish_block(model, features, begin, end, d, spare, scores, classes, mode)


cdef void sparse_block(const mcb_model *model, const narrow_model *narrow, const floating[::1] data,
                       const integral[::1] indices, const integral[::1] indptr, Py_ssize_t begin, Py_ssize_t end,
                       float *features, double *spare, double *scores, int64_t *classes, int mode) noexcept nogil:
    cdef Py_ssize_t d = model.n_features, r, i
    if narrow == NULL:
        for r in range(begin, end):
            for i in range(indptr[r], indptr[r + 1]):
                features[(r - begin) * d + indices[i]] += <float>data[i]
    else:
        for r in range(begin, end):
            for i in range(indptr[r], indptr[r + 1]):
                features[(r - begin) * d + narrow_column(narrow, <uint32_t>indices[i])] += <float>data[i]
    finish_block(model, features, begin, end, d, spare, scores, classes, mode)
    if narrow == NULL:
        for r in range(begin, end):
            for i in range(indptr[r], indptr[r + 1]):
                features[(r - begin) * d + indices[i]] = 0
    elif ZEROED * (indptr[end] - indptr[begin]) < (end - begin) * d:
        for r in range(begin, end):
            for i in range(indptr[r], indptr[r + 1]):
                features[(r - begin) * d + narrow_column(narrow, <uint32_t>indices[i])] = 0
    else:
        memset(features, 0, (end - begin) * d * sizeof(float))
