"""Python's door to ``mcb.h``: the one reader, validator and scorer of model files.

Nothing here adds a number to a score; blocks of rows are cast or scattered to float32 and handed to the C functions,
several blocks at a time when there are threads.
"""

from cython cimport floating
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

import numpy as np

from pymcboost._kernels.pool cimport pieces_of, run

SCORES, PROBABILITIES, EARLY = MODE_SCORES, MODE_PROBABILITIES, MODE_EARLY
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
    CACHE_LINE = 16  # floats and row numbers that keep threads off each other's cache lines


# Rows of which the highest scores are wanted. Each thread has its own memory and list of classes.
cdef struct TopRows:
    const mcb_model *model
    char *memory
    Py_ssize_t size, stride
    const float *X
    uint32_t *top
    uint32_t n
    int64_t *best
    double *highest


cdef void top_piece(void *what, int64_t row, int thread) noexcept nogil:
    cdef const TopRows *rows = <const TopRows *>what
    cdef uint32_t *top = rows.top + thread * rows.n
    cdef uint32_t j
    mcb_top_scores(rows.model, rows.memory + thread * rows.size, rows.X + row * rows.stride, rows.n, top,
                   rows.highest + row * rows.n)
    for j in range(rows.n):
        rows.best[row * rows.n + j] = top[j]


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
        cdef Py_ssize_t r
        cdef uint32_t[:, ::1] top = np.empty((n_threads, best.shape[1]), dtype=np.uint32)
        cdef TopRows rows
        self.prepare()
        rows.size = (mcb_top_size(&self.model) + 63) // 64 * 64
        rows.memory = <char *>malloc(n_threads * rows.size) if rows.size else NULL
        if rows.memory == NULL:
            return False
        for r in range(n_threads):
            mcb_top_begin(&self.model, rows.memory + r * rows.size, rows.size)
        if X.shape[0]:
            rows.model = &self.model
            rows.X, rows.stride = &X[0, 0], X.shape[1]
            rows.top, rows.n = &top[0, 0], <uint32_t>best.shape[1]
            rows.best, rows.highest = &best[0, 0], &highest[0, 0]
            with nogil:
                run(n_threads, X.shape[0], top_piece, &rows)
        free(rows.memory)
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
            Batch batch
            Py_ssize_t m = X.shape[0], d = X.shape[1], K = self.model.n_classes
        self.check(m, d, out, best)
        if m == 0:
            return
        if misaligned(&X[0, 0], X.strides[0] | X.strides[1], sizeof(floating)):
            X = np.array(X)
        self.prepare()
        if mode >= MODE_EARLY:
            self.prepare_early()
        memset(&batch, 0, sizeof(Batch))
        batch.model = &self.model
        batch.data, batch.row_step, batch.column_step = <const char *>&X[0, 0], X.strides[0], X.strides[1]
        batch.is_double = floating is double
        if floating is float:  # rows in the layout of mcb.h are read in place
            batch.direct = X.strides[0] >= d * <Py_ssize_t>sizeof(float) and (X.strides[1] == sizeof(float) or d == 1)
        n_threads = self.start(&batch, m, d, out, best, mode, n_threads)
        batch.features_room = 0 if batch.direct else batch.block * d
        batch.spare_room = batch.block * K if out is None else 0
        try:
            if not take_room(&batch, n_threads):
                raise MemoryError("no memory for the blocks of rows")
            with nogil:
                run(n_threads, batch.n_blocks, dense_piece, &batch)
        finally:
            free_room(&batch)

    def sparse(self, const floating[::1] data, const index[::1] indices, const index[::1] indptr,
               Py_ssize_t n_features, double[:, ::1] out, int64_t[::1] best, int mode, int n_threads):
        """Like ``dense`` for the CSR matrix (data, indices, indptr); entries of one cell are added up.

        Linear machines, and packed trees of many features, take only the entries that are there, if the indices of
        every row increase strictly; otherwise rows are filled with zeros, a block at a time. Rows of many features are
        filled with those of the model alone.
        """
        cdef:
            Batch batch
            Py_ssize_t m = indptr.shape[0] - 1, nnz = min(data.shape[0], indices.shape[0]), most = 0
            Py_ssize_t K = self.model.n_classes
            bint increasing = True, good, packed = self.model.kind == MCB_KIND_PACKED and n_features > WIDE
            bint by_entry = packed or self.model.kind == MCB_KIND_LINEAR
        self.check(m, n_features, out, best)
        if m <= 0:
            return
        if nnz and misaligned(&data[0], 0, sizeof(floating)):
            data = np.array(data)
        if nnz and misaligned(&indices[0], 0, sizeof(index)):
            indices = np.array(indices)
        if misaligned(&indptr[0], 0, sizeof(index)):
            indptr = np.array(indptr)
        with nogil:
            good = valid_csr(indices, indptr, nnz, n_features, by_entry, &most, &increasing)
        if not good:
            raise ValueError("X is not a valid CSR matrix: indptr must rise from 0 to the number of entries, "
                             f"indices must be between 0 and {n_features - 1}")
        if n_features > WIDE and narrow_can(&self.model):
            if self.narrow == NULL:  # made with the interpreter's lock held, as in `prepare`
                self.narrow = narrow_new(&self.model)
            if self.narrow == NULL:
                raise MemoryError("no memory for the list of the model's features")
        else:
            self.prepare(True)
        if mode >= MODE_EARLY:
            self.prepare_early()
        by_entry = by_entry and increasing and (packed or self.memory != NULL)
        memset(&batch, 0, sizeof(Batch))
        batch.model = &self.model
        if not by_entry and self.narrow != NULL:
            batch.model, batch.narrow = &self.narrow.model, self.narrow
        batch.data = <const char *>&data[0] if nnz else NULL
        batch.indices = <const void *>&indices[0] if nnz else NULL
        batch.indptr = <const void *>&indptr[0]
        batch.is_double, batch.is_long, batch.by_entry = floating is double, index is int64_t, by_entry
        n_threads = self.start(&batch, m, batch.model.n_features, out, best, mode, n_threads)
        if by_entry:
            batch.features_room = batch.places_room = most + CACHE_LINE
            batch.spare_room = K + CACHE_LINE if out is None else 0
        else:
            batch.features_room = batch.block * <Py_ssize_t>batch.model.n_features
            batch.spare_room = batch.block * K if out is None else 0
        try:
            if not take_room(&batch, n_threads):
                raise MemoryError(f"no memory for {n_threads} blocks of {batch.block} rows with "
                                  f"{batch.model.n_features} features; use fewer threads (n_jobs=1)")
            with nogil:
                run(n_threads, batch.n_blocks, sparse_piece, &batch)
        finally:
            free_room(&batch)

    cdef int start(self, Batch *batch, Py_ssize_t m, Py_ssize_t d, double[:, ::1] out, int64_t[::1] best, int mode,
                   int n_threads):
        """Divide m rows of d features into blocks, and say where the results go; returns the number of threads."""
        batch.block = self.block_rows(m, d, out is None)
        batch.n_blocks = pieces_of(m, batch.block)
        batch.m, batch.mode = m, mode
        if out is None:
            batch.classes = &best[0]
        else:
            batch.scores = &out[0, 0]
        return max(1, min(n_threads, batch.n_blocks))


cdef bint take_room(Batch *p, int n_threads) noexcept:
    """Allocate the room of all threads. Features are zeros, made by the system page by page when they are used."""
    if p.features_room:
        p.features = <float *>calloc(n_threads * p.features_room, sizeof(float))
    if p.places_room:
        p.places = <uint32_t *>malloc(n_threads * p.places_room * sizeof(uint32_t))
    if p.spare_room:
        p.spare = <double *>malloc(n_threads * p.spare_room * sizeof(double))
    return not (p.features_room and p.features == NULL or p.places_room and p.places == NULL
                or p.spare_room and p.spare == NULL)


cdef void free_room(Batch *p) noexcept:
    free(p.features)
    free(p.places)
    free(p.spare)


cdef void dense_piece(void *what, int64_t b, int thread) noexcept nogil:
    """Score block b of dense rows."""
    cdef const Batch *p = <const Batch *>what
    cdef Py_ssize_t begin = b * p.block, end = min(p.m, begin + p.block), d = p.model.n_features
    cdef const char *X = p.data + begin * p.row_step
    cdef double *spare = p.spare + thread * p.spare_room
    cdef float *features = p.features + thread * p.features_room
    if p.direct:
        finish_block(p.model, <const float *>X, begin, end, p.row_step // <Py_ssize_t>sizeof(float), spare, p.scores,
                     p.classes, p.mode)
        return
    if p.is_double:
        cast_rows(<const double *>X, p.row_step, p.column_step, end - begin, d, features)
    else:
        cast_rows(<const float *>X, p.row_step, p.column_step, end - begin, d, features)
    finish_block(p.model, features, begin, end, d, spare, p.scores, p.classes, p.mode)


cdef inline void cast_rows(const floating *X, Py_ssize_t row_step, Py_ssize_t column_step, Py_ssize_t n, Py_ssize_t d,
                           float *features) noexcept nogil:
    cdef Py_ssize_t r, j
    for r in range(n):
        for j in range(d):
            features[r * d + j] = <float>(<const floating *>(<const char *>X + r * row_step + j * column_step))[0]


cdef void sparse_piece(void *what, int64_t b, int thread) noexcept nogil:
    """Score block b of sparse rows."""
    cdef const Batch *p = <const Batch *>what
    if p.is_double and p.is_long:
        sparse_block(p, b, thread, <const double *>p.data, <const int64_t *>p.indices, <const int64_t *>p.indptr)
    elif p.is_double:
        sparse_block(p, b, thread, <const double *>p.data, <const int32_t *>p.indices, <const int32_t *>p.indptr)
    elif p.is_long:
        sparse_block(p, b, thread, <const float *>p.data, <const int64_t *>p.indices, <const int64_t *>p.indptr)
    else:
        sparse_block(p, b, thread, <const float *>p.data, <const int32_t *>p.indices, <const int32_t *>p.indptr)


cdef inline void sparse_block(const Batch *p, int64_t b, int thread, const floating *data, const index *indices,
                              const index *indptr) noexcept nogil:
    if p.by_entry:
        entries_block(p, b, thread, data, indices, indptr)
    else:
        filled_block(p, b, thread, data, indices, indptr)


cdef inline void entries_block(const Batch *p, int64_t b, int thread, const floating *data, const index *indices,
                               const index *indptr) noexcept nogil:
    cdef:
        const mcb_model *model = p.model
        Py_ssize_t K = model.n_classes, begin = b * p.block, end = min(p.m, begin + p.block), r, i, first
        uint32_t *places = p.places + thread * p.places_room
        float *features = p.features + thread * p.features_room
        double *out = p.spare + thread * p.spare_room
        uint32_t label = 0
        uint64_t learners = 0
    for r in range(begin, end):
        first = indptr[r]
        for i in range(first, indptr[r + 1]):
            places[i - first] = <uint32_t>indices[i]
            features[i - first] = <float>data[i]
        if p.scores != NULL:
            out = p.scores + r * K
        if p.mode >= MODE_EARLY:
            mcb_predict_early_sparse(model, indptr[r + 1] - first, places, features, out, &label, &learners)
            p.classes[r] = <int64_t>(learners << 16 | label) if out[0] == out[0] else -1
            continue
        mcb_scores_sparse(model, indptr[r + 1] - first, places, features, out)
        if p.classes != NULL:
            p.classes[r] = mcb_argmax(model, out) if out[0] == out[0] else -1
        elif p.mode == MODE_PROBABILITIES:
            mcb_probabilities(model, out)


cdef inline void filled_block(const Batch *p, int64_t b, int thread, const floating *data, const index *indices,
                              const index *indptr) noexcept nogil:
    cdef:
        const narrow_model *narrow = p.narrow
        Py_ssize_t begin = b * p.block, end = min(p.m, begin + p.block), d = p.model.n_features, r, i
        float *features = p.features + thread * p.features_room
    if narrow == NULL:
        for r in range(begin, end):
            for i in range(indptr[r], indptr[r + 1]):
                features[(r - begin) * d + indices[i]] += <float>data[i]
    else:
        for r in range(begin, end):
            for i in range(indptr[r], indptr[r + 1]):
                features[(r - begin) * d + narrow_column(narrow, <uint32_t>indices[i])] += <float>data[i]
    finish_block(p.model, features, begin, end, d, p.spare + thread * p.spare_room, p.scores, p.classes, p.mode)
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
