# cython: language_level=3
"""Sorting and binning of feature columns, once per training.

Rows are the training rows in the order that the caller gives (sorted by class); thresholds are float32 midpoints
between neighbouring distinct values, so that ``x <= threshold`` reproduces the bins exactly.
"""

from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

import numpy as np

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
    COLUMNS = 16  # columns read together: one cache line of float32 per row
    FEWEST_COLUMNS = 4
    COLUMNS_BYTES = 4194304  # of one thread's columns, beyond which fewer are read together


cdef void gather(const real[:, :] X, const int64_t[::1] rows, int64_t first, int64_t n, float *out) noexcept nogil:
    """Copy columns ``first`` to ``first + n`` of the rows, column by column, rounded to float32."""
    cdef int64_t i, c, row, m = rows.shape[0]
    for i in range(m):
        row = rows[i]
        for c in range(n):
            out[c * m + i] = <float> X[row, first + c]


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
    cdef int64_t m = rows.shape[0], d = X.shape[1], f, c, g, n
    cdef int found
    cdef uint64_t[:, ::1] scratch = np.empty((n_threads, 2 * max(m, 1)), dtype=np.uint64)
    cdef int64_t together = max(FEWEST_COLUMNS, min(<int64_t> COLUMNS, COLUMNS_BYTES // (4 * max(m, 1))))
    cdef float[:, ::1] columns = np.empty((n_threads, together * max(m, 1)), dtype=np.float32)
    cdef const double *weights = &weight[0] if weight.shape[0] else NULL
    cdef uint64_t *keys
    cdef float *block
    for g in prange((d + together - 1) // together, nogil=True, num_threads=n_threads, schedule="dynamic"):
        keys = &scratch[threadid(), 0]
        block = &columns[threadid(), 0]
        n = min(together, d - g * together)
        gather(X, rows, g * together, n, block)
        for c in range(n):
            f = g * together + c
            bad[f] = fill_keys(block + c * m, m, keys)
            pmb_sort_keys(keys, keys + m, m)
            found = max_bins
            if m > 0 and pmb_key_missing(keys[m - 1]):
                found = max_bins - 1
            bins[f] = pmb_cut_column(keys, m, weights, found, least, &codes[f, 0], &low[f, 0], &high[f, 0],
                                     &distinct[f], &missing[f], <int *> &mode[f], &mode_rows[f])


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
    cdef int64_t m = rows.shape[0], f, i
    cdef code found
    for f in prange(codes.shape[0] if m else 0, nogil=True, num_threads=n_threads, schedule="static"):
        for i in range(m):
            found = codes[f, rows[i]]
            taken[f, i] = found
            counts[f, found] += 1


def read_columns(const real[:, :] X, const int64_t[::1] rows, int64_t first, float[:, ::1] out):
    """Copy columns of X, from ``first`` on, for some rows, rounded to float32, to ``out`` (columns, m)."""
    if rows.shape[0]:
        with nogil:
            gather(X, rows, first, out.shape[0], &out[0, 0])


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
    cdef int64_t m = rows.shape[0], d = X.shape[1], g, c, f, i, low, n, half
    cdef int64_t together = max(FEWEST_COLUMNS, min(<int64_t> COLUMNS, COLUMNS_BYTES // (4 * max(m, 1))))
    cdef float[:, ::1] columns = np.empty((n_threads, together * max(m, 1)), dtype=np.float32)
    cdef const float *own
    cdef float *block
    cdef float x
    for g in prange((d + together - 1) // together if m else 0, nogil=True, num_threads=n_threads, schedule="dynamic"):
        block = &columns[threadid(), 0]
        gather(X, rows, g * together, min(together, d - g * together), block)
        for c in range(min(together, d - g * together)):
            f = g * together + c
            own = &cuts[0] + start[f]
            for i in range(m):
                x = block[c * m + i]
                low = 0
                n = start[f + 1] - start[f]
                if x != x:
                    low = n + 1
                    n = 0
                while n > 0:  # without branches on the values, which would be mispredicted
                    half = (n + 1) // 2
                    low = low + (own[low + half - 1] < x) * half
                    n = n - half
                codes[f, i] = <code> low
                counts[f, low] += 1


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
    cdef int64_t m = rows.shape[0], c
    cdef int64_t[::1] default_at = np.empty(columns.shape[0], dtype=np.int64)
    cdef uint64_t[:, ::1] scratch = np.empty((n_threads, 2 * max(m, 1)), dtype=np.uint64)
    cdef float[:, ::1] column = np.empty((n_threads, max(m, 1)), dtype=np.float32)
    cdef uint64_t *keys
    for c in prange(columns.shape[0], nogil=True, num_threads=n_threads, schedule="dynamic"):
        keys = &scratch[threadid(), 0]
        gather(X, rows, columns[c], 1, &column[threadid(), 0])
        fill_keys(&column[threadid(), 0], m, keys)
        pmb_sort_keys(keys, keys + m, m)
        n_cuts[c] = emit_sorted(keys, m, -1, &weight[0], least, &order[c, 0], &thresholds[c, 0], &n_missing[c],
                                &default_at[c])


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
    cdef int64_t d = indptr.shape[0] - 1, f, j, start, n, widest = 1, n_rows = weight.shape[0]
    cdef double total = 0, listed
    for j in range(n_rows):
        total += weight[j]
    for f in range(d):
        widest = max(widest, indptr[f + 1] - indptr[f])
    cdef uint64_t[:, ::1] scratch = np.empty((n_threads, 2 * widest), dtype=np.uint64)
    cdef uint64_t *keys
    for f in prange(d, nogil=True, num_threads=n_threads, schedule="dynamic", chunksize=16):
        keys = &scratch[threadid(), 0]
        start = indptr[f]
        n = indptr[f + 1] - start
        bad[f] = -1
        listed = 0
        for j in range(n):
            listed = listed + weight[indices[start + j]]
            keys[j] = pmb_key(data[start + j], <uint32_t> indices[start + j])
            if data[start + j] == INFINITY or data[start + j] == -INFINITY:
                bad[f] = indices[start + j]
        pmb_sort_keys(keys, keys + n, n)
        n_cuts[f] = emit_sorted(keys, n, max(total - listed, 0) if n < n_rows else -1, &weight[0], least,
                                &order[start] if n else NULL, &thresholds[start + f], &n_missing[f], &default_at[f])


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
    cdef int64_t g, k, i, s, m = codes.shape[1]
    cdef int64_t column
    cdef int stride
    for g in prange(tiles.shape[0], nogil=True, num_threads=n_threads, schedule="dynamic"):
        for k in range(4):
            for s in range(byte_ptr[4 * g + k], byte_ptr[4 * g + k + 1]):
                column = slot_column[s]
                stride = slot_stride[s]
                for i in range(m):
                    tiles[g, i, k] = <uint8_t> (tiles[g, i, k] + codes[column, i] * stride)


def list_others(const uint8_t[:, ::1] codes, const int64_t[::1] columns, const int32_t[::1] mode,
                const int64_t[::1] ptr, int32_t[::1] rows, uint8_t[::1] out, int n_threads):
    """List the rows whose code is not the mode, and their codes, column by column.

    Parameters
    ----------
    codes : IN (d, m); columns : IN (s,); mode : IN (s,) the code to leave out
    ptr : IN (s + 1,) where each column's list starts
    rows, out : OUT (ptr[s],)
    """
    cdef int64_t s, i, at, stop
    cdef const uint8_t *column
    for s in prange(columns.shape[0], nogil=True, num_threads=n_threads, schedule="dynamic", chunksize=8):
        column = &codes[columns[s], 0]
        at = ptr[s]
        stop = ptr[s + 1]
        i = 0
        while at < stop:  # written always, kept or overwritten: a branch on the code would be mispredicted
            rows[at] = <int32_t> i
            out[at] = column[i]
            at = at + (column[i] != mode[s])
            i = i + 1
