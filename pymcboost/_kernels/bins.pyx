# cython: language_level=3
"""Sorting and binning of feature columns, once per training.

Rows are the training rows in the order that the caller gives (sorted by class); thresholds are float32 midpoints
between neighbouring distinct values, so that ``x <= threshold`` reproduces the bins exactly.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

import numpy as np

from pymcboost._kernels.pool cimport pieces_of, run, threads_for

cdef extern from "bins.h" nogil:
    uint64_t pmb_key(float x, uint32_t row)
    float pmb_key_value(uint64_t key)
    int pmb_key_missing(uint64_t key)
    void pmb_sort_keys(uint64_t *keys, uint64_t *spare, int64_t n)
    float pmb_between(float low, float high)
    int pmb_cut_column(const uint64_t *keys, int64_t n, const double *weight, int max_bins, double least,
                       uint8_t *codes, float *low, float *high, int64_t *distinct, int64_t *missing, int *mode,
                       int64_t *mode_rows)

ctypedef fused real:
    float
    double

ctypedef fused code:
    uint8_t
    uint16_t

# A larger double becomes infinite when it is rounded to float32.
cdef double FLOAT32_MAX = float(np.finfo(np.float32).max)


cdef enum:
    CODES = 256  # of a column, at most
    COLUMNS = 16  # columns read together: one cache line of float32 per row
    FEWEST_COLUMNS = 4
    COLUMNS_BYTES = 4194304  # of one thread's columns, beyond which fewer are read together
    # Short columns, of which a piece has several: about so many values, sorted values or codes.
    PIECE_VALUES = 1 << 10
    PIECE_SORTED = 1 << 8
    PIECE_CODES = 1 << 13
    SPARSE_COLUMNS = 16  # of a piece at most, because a few columns may have most entries
    # With so few of them in all columns, one thread is faster.
    FEW_VALUES = 1 << 12
    FEW_SORTED = 1 << 11
    FEW_CODES = 1 << 16


# Columns of numbers that are sorted or divided into bins; each pass uses some of the fields.
cdef struct Values:
    bint is_double, has_wide_codes
    const char *X
    int64_t row_step, column_step  # bytes
    const int64_t *rows
    int64_t m, d, together  # together: columns of a piece
    float *block            # of each thread, (together, m)
    uint64_t *keys          # likewise, keys_size: as many keys, and room to sort them
    int64_t keys_size
    const double *weight
    double least
    int max_bins
    void *codes
    float *low
    float *high
    int32_t *bins
    int64_t *distinct
    int64_t *missing
    int32_t *mode
    int64_t *mode_rows
    int64_t *bad
    const float *cuts
    const int64_t *start
    int64_t *counts
    int64_t n_counts        # of a column
    const int64_t *columns
    int32_t *order
    float *thresholds
    int64_t *n_cuts
    int64_t *default_at
    const int64_t *indptr
    const int32_t *indices
    const float *data
    double total_weight


# Columns of codes that are copied, packed or listed; each pass uses some of the fields.
cdef struct Codes:
    bint is_wide
    const void *codes
    int64_t n, m, d, together  # n: rows of codes; together: columns or tiles of a piece
    const int64_t *rows
    void *taken
    int64_t *counts
    int64_t n_counts           # of a column
    const int32_t *slot_column
    const int32_t *slot_stride
    const int32_t *byte_ptr
    uint8_t *tiles
    const int64_t *columns
    const int32_t *mode
    const int64_t *ptr
    int32_t *listed
    uint8_t *listed_codes


cdef inline int64_t columns_together(int64_t m) noexcept nogil:
    """Columns of m rows that a thread reads together: they stay in its cache."""
    m = max(m, 1)
    return max(<int64_t> FEWEST_COLUMNS, min(max(<int64_t> COLUMNS, PIECE_VALUES // m), COLUMNS_BYTES // (4 * m)))


cdef Values values_of(const real[:, :] X, const int64_t[::1] rows):
    """The columns of some rows of X."""
    cdef Values p
    p.is_double, p.X, p.row_step, p.column_step = real is double, <const char *> &X[0, 0], X.strides[0], X.strides[1]
    p.rows, p.m, p.d = &rows[0], rows.shape[0], X.shape[1]
    return p


cdef inline void gather(const real *X, int64_t row_step, int64_t column_step, const int64_t *rows, int64_t m,
                        int64_t n, float *out) noexcept nogil:
    cdef int64_t i, c
    cdef const char *row
    for i in range(m):
        row = <const char *> X + rows[i] * row_step
        for c in range(n):
            out[c * m + i] = <float> (<const real *> (row + c * column_step))[0]


cdef void read(const Values *p, int64_t first, int64_t n, float *out) noexcept nogil:
    """Copy columns ``first`` to ``first + n`` of the rows, column by column, rounded to float32."""
    cdef const char *X = p.X + first * p.column_step
    if p.is_double:
        gather(<const double *> X, p.row_step, p.column_step, p.rows, p.m, n, out)
    else:
        gather(<const float *> X, p.row_step, p.column_step, p.rows, p.m, n, out)


cdef int64_t fill_keys(const float *column, int64_t m, uint64_t *keys) noexcept nogil:
    """Compute the sort keys of a column; return the first row with an infinite value, or -1."""
    cdef int64_t i, bad = -1
    cdef float x
    for i in range(m):
        x = column[i]
        if (x == INFINITY or x == -INFINITY) and bad < 0:
            bad = i
        keys[i] = pmb_key(x, <uint32_t> i)
    return bad


def bin_columns(const real[:, :] X, const int64_t[::1] rows, const double[::1] weight, int max_bins, double least,
                uint8_t[:, ::1] codes, float[:, ::1] low, float[:, ::1] high, int32_t[::1] bins, int64_t[::1] distinct,
                int64_t[::1] missing, int32_t[::1] mode, int64_t[::1] mode_rows, int64_t[::1] bad, int n_threads):
    """Bin every column: O(d m) by radix sort, columns in parallel.

    Parameters
    ----------
    X : IN (n, d) float32 or float64, any strides
    rows : IN (m,) rows of X to use, in order
    weight : IN (m,) positive weights of those rows, or empty where all are 1
    max_bins : 2 to 256
        Most bins a column may have, missing values included; a column with missing values has one bin fewer for values.
    least : weight that the values on either side of every cut must have
    codes : OUT (d, m) bin of every row; missing values have the bin after the last value's
    low, high : OUT (d, 256) least and largest value of every bin
    bins, distinct, missing, mode, mode_rows : OUT (d,)
        Value bins, distinct values, missing rows, most frequent bin and its rows.
    bad : OUT (d,) first row whose value is infinite as float32, or -1
    """
    cdef Values p = values_of(X, rows)
    p.together, p.keys_size = columns_together(p.m), 2 * max(p.m, 1)
    n_threads = threads_for(n_threads, p.m * p.d, FEW_SORTED)
    cdef uint64_t[:, ::1] keys = np.empty((n_threads, p.keys_size), dtype=np.uint64)
    cdef float[:, ::1] block = np.empty((n_threads, p.together * max(p.m, 1)), dtype=np.float32)
    p.keys, p.block, p.weight, p.least = &keys[0, 0], &block[0, 0], &weight[0] if weight.shape[0] else NULL, least
    p.max_bins, p.codes, p.low, p.high, p.bins = max_bins, &codes[0, 0], &low[0, 0], &high[0, 0], &bins[0]
    p.distinct, p.missing, p.mode, p.mode_rows, p.bad = &distinct[0], &missing[0], &mode[0], &mode_rows[0], &bad[0]
    with nogil:
        run(n_threads, pieces_of(p.d, p.together), bin_piece, &p)


cdef void bin_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Values *p = <const Values *> what
    cdef int64_t first = piece * p.together, n = min(p.together, p.d - first), m = p.m, f, c
    cdef uint64_t *keys = p.keys + thread * p.keys_size
    cdef float *block = p.block + thread * p.together * m
    cdef int most
    read(p, first, n, block)
    for c in range(n):
        f = first + c
        p.bad[f] = fill_keys(block + c * m, m, keys)
        pmb_sort_keys(keys, keys + m, m)
        most = p.max_bins
        if m > 0 and pmb_key_missing(keys[m - 1]):
            most = p.max_bins - 1
        p.bins[f] = pmb_cut_column(keys, m, p.weight, most, p.least, <uint8_t *> p.codes + f * m, p.low + CODES * f,
                                   p.high + CODES * f, p.distinct + f, p.missing + f, <int *> p.mode + f,
                                   p.mode_rows + f)


def between(const float[::1] low, const float[::1] high):
    """Thresholds between values and larger ones: float32 (n,), rounded midpoints."""
    cdef int64_t i
    cdef float[::1] found = np.empty(low.shape[0], dtype=np.float32)
    for i in range(low.shape[0]):
        found[i] = pmb_between(low[i], high[i])
    return np.asarray(found)


def take_columns(const code[:, ::1] codes, const int64_t[::1] rows, code[:, ::1] taken, int64_t[:, ::1] counts,
                 int n_threads):
    """Codes of some of the rows.

    Parameters
    ----------
    codes : IN (d, n) bins of all rows
    rows : IN (m,) which of them
    taken : OUT (d, m) their bins
    counts : OUT (d, bins) rows in each bin, zeros on entry
    """
    cdef Codes p
    p.is_wide, p.codes, p.d, p.n = sizeof(code) == 2, &codes[0, 0], codes.shape[0], codes.shape[1]
    p.rows, p.m, p.taken, p.counts, p.n_counts = &rows[0], rows.shape[0], &taken[0, 0], &counts[0, 0], counts.shape[1]
    p.together = max(1, PIECE_CODES // max(p.m, 1))
    with nogil:
        run(threads_for(n_threads, p.m * p.d, FEW_CODES), pieces_of(p.d, p.together), take_piece, &p)


cdef void take_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Codes *p = <const Codes *> what
    cdef int64_t f
    for f in range(piece * p.together, min(p.d, (piece + 1) * p.together)):
        if p.is_wide:
            take_column(<const uint16_t *> p.codes + f * p.n, p.rows, p.m, <uint16_t *> p.taken + f * p.m,
                        p.counts + f * p.n_counts)
        else:
            take_column(<const uint8_t *> p.codes + f * p.n, p.rows, p.m, <uint8_t *> p.taken + f * p.m,
                        p.counts + f * p.n_counts)


cdef inline void take_column(const code *codes, const int64_t *rows, int64_t m, code *taken,
                             int64_t *counts) noexcept nogil:
    cdef int64_t i
    cdef code value
    for i in range(m):
        value = codes[rows[i]]
        taken[i] = value
        counts[value] += 1


def read_columns(const real[:, :] X, const int64_t[::1] rows, int64_t first, float[:, ::1] out):
    """Copy columns of X, from ``first`` on, for some rows, rounded to float32, to ``out`` (columns, m)."""
    cdef Values p = values_of(X, rows)
    with nogil:
        read(&p, first, out.shape[0], &out[0, 0])


def code_columns(const real[:, :] X, const int64_t[::1] rows, const float[::1] cuts, const int64_t[::1] start,
                 code[:, ::1] codes, int64_t[:, ::1] counts, int n_threads):
    """Assign columns to bins with known cuts.

    Parameters
    ----------
    X, rows : IN as in `bin_columns`
    cuts, start : IN ascending cuts of column after column, and where those of each begin, (d + 1,)
    codes : OUT (d, m) how many cuts lie below the value; missing values have the bin after the last value's
    counts : OUT (d, bins) rows in each bin, zeros on entry
    """
    cdef Values p = values_of(X, rows)
    p.together = columns_together(p.m)
    n_threads = threads_for(n_threads, p.m * p.d, FEW_VALUES)
    cdef float[:, ::1] block = np.empty((n_threads, p.together * max(p.m, 1)), dtype=np.float32)
    p.block, p.cuts, p.start = &block[0, 0], &cuts[0], &start[0]
    p.has_wide_codes, p.codes = sizeof(code) == 2, &codes[0, 0]
    p.counts, p.n_counts = &counts[0, 0], counts.shape[1]
    with nogil:
        run(n_threads, pieces_of(p.d, p.together), code_piece, &p)


cdef void code_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Values *p = <const Values *> what
    cdef int64_t first = piece * p.together, n = min(p.together, p.d - first), m = p.m, f, c
    cdef float *block = p.block + thread * p.together * m
    read(p, first, n, block)
    for c in range(n):
        f = first + c
        if p.has_wide_codes:
            code_column(block + c * m, m, p.cuts + p.start[f], p.start[f + 1] - p.start[f],
                        <uint16_t *> p.codes + f * m, p.counts + f * p.n_counts)
        else:
            code_column(block + c * m, m, p.cuts + p.start[f], p.start[f + 1] - p.start[f],
                        <uint8_t *> p.codes + f * m, p.counts + f * p.n_counts)


cdef inline void code_column(const float *column, int64_t m, const float *cuts, int64_t n_cuts, code *codes,
                             int64_t *counts) noexcept nogil:
    cdef int64_t i, low, n, half
    cdef float x
    for i in range(m):
        x = column[i]
        low = 0
        n = n_cuts
        if x != x:
            low = n + 1
            n = 0
        while n > 0:  # without branches on the values, which would be mispredicted
            half = (n + 1) // 2
            low = low + (cuts[low + half - 1] < x) * half
            n = n - half
        codes[i] = <code> low
        counts[low] += 1


cdef int64_t emit_sorted(uint64_t *keys, int64_t n, double default_weight, const double *weight, double least,
                         int32_t *order, float *thresholds, int64_t *n_missing, int64_t *default_at) noexcept nogil:
    """Write entries in order of value with the ends of runs marked; returns the number of thresholds.

    The rows not listed (default_weight >= 0: their weight) have the value 0. A run is only closed where the values on
    either side weigh at least ``least``; runs between two cuts are one run, in which order does not matter, so unlisted
    rows join it at its end.
    """
    cdef int64_t values = n, j = 0, k, cuts = 0
    cdef double left = 0, right = 0
    cdef float value, previous = 0
    cdef bint with_default = default_weight >= 0, default_due, here
    cdef int32_t row
    while values > 0 and pmb_key_missing(keys[values - 1]):
        values = values - 1
    n_missing[0] = n - values
    for k in range(values):
        right = right + weight[<uint32_t> keys[k]]
    if with_default:
        right = right + default_weight
    default_at[0] = -1
    default_due = with_default  # the default value has not been passed yet
    here = False  # the default value belongs to the open run
    while j < values or default_due:
        # the next distinct value: the default, or the value of entries j to k - 1
        if default_due and (j == values or pmb_key_value(keys[j]) > 0):
            value = 0
            left = left + default_weight
            right = right - default_weight
            default_due = False
            here = True
        else:
            value = pmb_key_value(keys[j])
            k = j
            while k < values and keys[k] >> 32 == keys[j] >> 32:
                row = <int32_t> (<uint32_t> keys[k])
                order[k] = row
                left = left + weight[row]
                right = right - weight[row]
                k = k + 1
            j = k
        if j == values and not default_due:
            break
        # close the run after this value?
        if least <= 0 or (left >= least and right >= least):
            previous = value
            value = 0 if default_due and (j == values or pmb_key_value(keys[j]) > 0) else pmb_key_value(keys[j])
            thresholds[cuts] = pmb_between(previous, value)
            cuts = cuts + 1
            if here:
                default_at[0] = j
                here = False
            else:
                order[j - 1] = ~order[j - 1]
    if here:
        default_at[0] = values
    elif values > 0:
        order[values - 1] = ~order[values - 1]
    for k in range(values, n):
        order[k] = <int32_t> (<uint32_t> keys[k])
    return cuts


def sort_columns(const real[:, :] X, const int64_t[::1] rows, const int64_t[::1] columns, const double[::1] weight,
                 double least, int32_t[:, ::1] order,
                 float[:, ::1] thresholds, int64_t[::1] n_cuts, int64_t[::1] n_missing, int n_threads):
    """Sort dense columns for the exact search.

    Parameters
    ----------
    X : IN (n, d) float32 or float64
    rows : IN (m,) rows of X to use
    columns : IN (c,) columns to sort
    weight, least : IN
        Weights (m,) of the rows, and what the values on either side of every threshold must weigh.
    order : OUT (c, m)
        Row numbers by value; the last row of each run of equal values is stored as its bitwise complement; missing
        values come last, unmarked.
    thresholds : OUT (c, m) midpoints between neighbouring distinct values
    n_cuts, n_missing : OUT (c,) thresholds and missing values of each column
    """
    cdef Values p = values_of(X, rows)
    cdef int64_t[::1] default_at = np.empty(columns.shape[0], dtype=np.int64)
    p.d, p.together, p.keys_size = columns.shape[0], max(1, PIECE_SORTED // max(p.m, 1)), 2 * max(p.m, 1)
    n_threads = threads_for(n_threads, p.m * p.d, FEW_SORTED)
    cdef uint64_t[:, ::1] keys = np.empty((n_threads, p.keys_size), dtype=np.uint64)
    cdef float[:, ::1] block = np.empty((n_threads, max(p.m, 1)), dtype=np.float32)
    p.keys, p.block, p.columns, p.weight, p.least = &keys[0, 0], &block[0, 0], &columns[0], &weight[0], least
    p.order, p.thresholds, p.n_cuts, p.missing = &order[0, 0], &thresholds[0, 0], &n_cuts[0], &n_missing[0]
    p.default_at = &default_at[0]
    with nogil:
        run(n_threads, pieces_of(p.d, p.together), sort_piece, &p)


cdef void sort_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Values *p = <const Values *> what
    cdef int64_t m = p.m, c
    cdef uint64_t *keys = p.keys + thread * p.keys_size
    cdef float *column = p.block + thread * m
    for c in range(piece * p.together, min(p.d, (piece + 1) * p.together)):
        read(p, p.columns[c], 1, column)
        fill_keys(column, m, keys)
        pmb_sort_keys(keys, keys + m, m)
        p.n_cuts[c] = emit_sorted(keys, m, -1, p.weight, p.least, p.order + c * m, p.thresholds + c * m,
                                  p.missing + c, p.default_at + c)


def sort_sparse_columns(const int64_t[::1] indptr, const int32_t[::1] indices, const float[::1] data,
                        const double[::1] weight, double least, int32_t[::1] order, float[::1] thresholds,
                        int64_t[::1] n_cuts, int64_t[::1] n_missing, int64_t[::1] default_at, int64_t[::1] bad,
                        int n_threads):
    """Sort the columns of a CSC matrix without stored zeros; rows that a column does not store are 0.

    Parameters
    ----------
    indptr, indices, data : IN, the CSC matrix
    weight, least : as in `sort_columns`
    order : OUT (nnz,) as in `sort_columns`, column after column
    thresholds : OUT (nnz + d,) those of column f start at indptr[f] + f
    n_cuts, n_missing : OUT (d,)
    default_at : OUT (d,) number of entries below zero, or -1 when every row is stored
    bad : OUT (d,) first row with an infinite value, or -1
    """
    cdef Values p
    cdef int64_t f, j, widest = 1, n_entries = indices.shape[0]
    p.m, p.d, p.total_weight = weight.shape[0], indptr.shape[0] - 1, 0
    for j in range(p.m):
        p.total_weight += weight[j]
    for f in range(p.d):
        widest = max(widest, indptr[f + 1] - indptr[f])
    p.together = max(1, min(<int64_t> SPARSE_COLUMNS, PIECE_SORTED * p.d // max(n_entries, 1)))
    n_threads = threads_for(n_threads, n_entries + p.d, FEW_SORTED)
    p.keys_size = 2 * widest
    cdef uint64_t[:, ::1] keys = np.empty((n_threads, p.keys_size), dtype=np.uint64)
    p.keys, p.indptr, p.indices, p.data, p.weight = &keys[0, 0], &indptr[0], &indices[0], &data[0], &weight[0]
    p.least, p.order, p.thresholds, p.n_cuts, p.missing = least, &order[0], &thresholds[0], &n_cuts[0], &n_missing[0]
    p.default_at, p.bad = &default_at[0], &bad[0]
    with nogil:
        run(n_threads, pieces_of(p.d, p.together), sort_sparse_piece, &p)


cdef void sort_sparse_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Values *p = <const Values *> what
    cdef int64_t f, j, start, n
    cdef const int32_t *rows
    cdef const float *column
    cdef uint64_t *keys = p.keys + thread * p.keys_size
    cdef double listed
    for f in range(piece * p.together, min(p.d, (piece + 1) * p.together)):
        start = p.indptr[f]
        n = p.indptr[f + 1] - start
        rows = p.indices + start
        column = p.data + start
        p.bad[f] = -1
        listed = 0
        for j in range(n):
            listed = listed + p.weight[rows[j]]
            keys[j] = pmb_key(column[j], <uint32_t> rows[j])
            if column[j] == INFINITY or column[j] == -INFINITY:
                p.bad[f] = rows[j]
        pmb_sort_keys(keys, keys + n, n)
        p.n_cuts[f] = emit_sorted(keys, n, max(p.total_weight - listed, 0) if n < p.m else -1, p.weight, p.least,
                                  p.order + start, p.thresholds + start + f, p.missing + f, p.default_at + f)


def pack_tiles(const uint8_t[:, ::1] codes, const int32_t[::1] slot_column, const int32_t[::1] slot_stride,
               const int32_t[::1] byte_ptr, uint8_t[:, :, ::1] tiles, int n_threads):
    """Interleave bin codes into tiles of 4 bytes per row; a byte sums ``code * stride`` over its slots.

    Parameters
    ----------
    codes : IN (d, m)
    slot_column, slot_stride : IN (s,) column and mixed-radix stride of every slot
    byte_ptr : IN (4 * t + 1,) slots of each byte
    tiles : OUT (t, m, 4), zero on entry
    """
    cdef Codes p
    cdef int64_t n_codes = codes.shape[1] * slot_column.shape[0]
    p.codes, p.m, p.d, p.tiles = &codes[0, 0], codes.shape[1], tiles.shape[0], &tiles[0, 0, 0]
    p.slot_column, p.slot_stride, p.byte_ptr = &slot_column[0], &slot_stride[0], &byte_ptr[0]
    p.together = max(1, PIECE_CODES * p.d // max(n_codes, 1))
    with nogil:
        run(threads_for(n_threads, n_codes, FEW_CODES), pieces_of(p.d, p.together), pack_piece, &p)


cdef void pack_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Codes *p = <const Codes *> what
    cdef int64_t byte, i, s, m = p.m
    cdef const uint8_t *column
    cdef uint8_t *to
    cdef int stride
    for byte in range(4 * piece * p.together, 4 * min(p.d, (piece + 1) * p.together)):
        to = p.tiles + byte // 4 * m * 4 + byte % 4
        for s in range(p.byte_ptr[byte], p.byte_ptr[byte + 1]):
            column = <const uint8_t *> p.codes + p.slot_column[s] * m
            stride = p.slot_stride[s]
            for i in range(m):
                to[4 * i] = <uint8_t> (to[4 * i] + column[i] * stride)


def list_others(const uint8_t[:, ::1] codes, const int64_t[::1] columns, const int32_t[::1] mode,
                const int64_t[::1] ptr, int32_t[::1] rows, uint8_t[::1] out, int n_threads):
    """List the rows whose code is not the mode, and their codes, column by column.

    Parameters
    ----------
    codes : IN (d, m); columns : IN (s,); mode : IN (s,) the code to leave out
    ptr : IN (s + 1,) where each column's list starts
    rows, out : OUT (ptr[s],)
    """
    cdef Codes p
    p.codes, p.m, p.d, p.columns = &codes[0, 0], codes.shape[1], columns.shape[0], &columns[0]
    p.mode, p.ptr, p.listed, p.listed_codes = &mode[0], &ptr[0], &rows[0], &out[0]
    p.together = max(1, PIECE_CODES // max(p.m, 1))
    with nogil:
        run(threads_for(n_threads, p.m * p.d, FEW_CODES), pieces_of(p.d, p.together), list_piece, &p)


cdef void list_piece(void *what, int64_t piece, int thread) noexcept nogil:
    cdef const Codes *p = <const Codes *> what
    cdef int64_t s, i, at, stop
    cdef const uint8_t *column
    cdef int32_t *rows = p.listed
    cdef uint8_t *out = p.listed_codes
    cdef int mode
    for s in range(piece * p.together, min(p.d, (piece + 1) * p.together)):
        column = <const uint8_t *> p.codes + p.columns[s] * p.m
        mode = p.mode[s]
        at = p.ptr[s]
        stop = p.ptr[s + 1]
        i = 0
        while at < stop:  # written always, kept or overwritten: a branch on the code would be mispredicted
            rows[at] = <int32_t> i
            out[at] = column[i]
            at = at + (column[i] != mode)
            i = i + 1
