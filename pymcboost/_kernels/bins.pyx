# cython: language_level=3
"""Sorting and binning of feature columns, once per training.

Rows are the training rows in the order that the caller gives (sorted by class); thresholds are float32 midpoints between
neighbouring distinct values, so that ``x <= threshold`` reproduces the bins exactly.
"""

cimport cython
from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

import numpy as np

cdef extern from "bins.h" nogil:
    uint64_t pmb_key(float x, uint32_t row)
    float pmb_key_value(uint64_t key)
    int pmb_key_missing(uint64_t key)
    void pmb_sort_keys(uint64_t *keys, uint64_t *spare, int64_t n)
    float pmb_between(float low, float high)
    int pmb_cut_column(const uint64_t *keys, int64_t n, const double *weight, int max_bins, uint8_t *codes,
                       float *thresholds, int64_t *distinct, int64_t *missing, int *mode, int64_t *mode_rows)

ctypedef fused real:
    float
    double

# A larger double becomes infinite when it is rounded to float32.
cdef double FLOAT32_MAX = float(np.finfo(np.float32).max)


cdef int64_t fill_keys(const real[:, :] X, const int64_t[::1] rows, int64_t column, uint64_t *keys) noexcept nogil:
    """Keys of one column. Returns the first row (in the order of ``rows``) that is infinite as float32, or -1."""
    cdef int64_t i, bad = -1
    cdef float x
    for i in range(rows.shape[0]):
        x = <float> X[rows[i], column]
        if (x == INFINITY or x == -INFINITY) and bad < 0:
            bad = i
        keys[i] = pmb_key(x, <uint32_t> i)
    return bad


def bin_columns(const real[:, :] X, const int64_t[::1] rows, const double[::1] weight, int max_bins,
                uint8_t[:, ::1] codes, float[:, ::1] thresholds, int32_t[::1] bins, int64_t[::1] distinct,
                int64_t[::1] missing, int32_t[::1] mode, int64_t[::1] mode_rows, int64_t[::1] bad, int n_threads):
    """Bin every column: O(d m) by radix sort, columns in parallel.

    Parameters
    ----------
    X : IN (n, d) float32 or float64, any strides
    rows : IN (m,) rows of X to use, in order
    weight : IN (m,) positive weights of those rows
    max_bins : 2 to 256
        Most bins a column may have, missing values included; a column with missing values has one bin fewer for values.
    codes : OUT (d, m) bin of every row; missing values have the bin after the last value's
    thresholds : OUT (d, 255) ascending cuts between bins
    bins, distinct, missing, mode, mode_rows : OUT (d,)
        Value bins, distinct values, missing rows, most frequent bin and its rows.
    bad : OUT (d,) first row whose value is infinite as float32, or -1
    """
    cdef int64_t m = rows.shape[0], d = X.shape[1], f, n_missing
    cdef int t, found
    cdef uint64_t[:, ::1] scratch = np.empty((n_threads, 2 * max(m, 1)), dtype=np.uint64)
    cdef uint64_t *keys
    for f in prange(d, nogil=True, num_threads=n_threads, schedule="dynamic"):
        t = threadid()
        keys = &scratch[t, 0]
        bad[f] = fill_keys(X, rows, f, keys)
        pmb_sort_keys(keys, keys + m, m)
        found = max_bins
        if m > 0 and pmb_key_missing(keys[m - 1]):
            found = max_bins - 1
        bins[f] = pmb_cut_column(keys, m, &weight[0], found, &codes[f, 0], &thresholds[f, 0], &distinct[f],
                                 &missing[f], <int *> &mode[f], &mode_rows[f])


cdef int64_t emit_sorted(const uint64_t *keys, int64_t n, int has_default, int32_t *order, float *thresholds,
                         int64_t *n_missing, int64_t *default_at) noexcept nogil:
    """Write sorted entries with their ends of runs marked; returns the number of thresholds."""
    cdef int64_t values = n, j, cuts = 0, at = -1
    cdef float zero_side = 0, previous = 0
    cdef bint last_of_run, any_before = False
    cdef int32_t row
    while values > 0 and pmb_key_missing(keys[values - 1]):
        values = values - 1
    n_missing[0] = n - values
    for j in range(values):
        zero_side = pmb_key_value(keys[j])
        if has_default and at < 0 and zero_side > 0:
            at = j
            if any_before:
                thresholds[cuts] = pmb_between(previous, 0)
                cuts += 1
            previous = 0
            any_before = True
        last_of_run = j + 1 == values or keys[j + 1] >> 32 != keys[j] >> 32
        if any_before and (j == 0 or keys[j] >> 32 != keys[j - 1] >> 32):
            thresholds[cuts] = pmb_between(previous, zero_side)
            cuts += 1
        previous = zero_side
        any_before = True
        row = <int32_t> (<uint32_t> keys[j])
        order[j] = ~row if last_of_run else row
    if has_default and at < 0:
        at = values
        if any_before:
            thresholds[cuts] = pmb_between(previous, 0)
            cuts += 1
    for j in range(values, n):
        order[j] = <int32_t> (<uint32_t> keys[j])
    default_at[0] = at
    return cuts


def sort_columns(const real[:, :] X, const int64_t[::1] rows, const int64_t[::1] columns, int32_t[:, ::1] order,
                 float[:, ::1] thresholds, int64_t[::1] n_cuts, int64_t[::1] n_missing, int n_threads):
    """Presort dense columns for the exact search.

    Parameters
    ----------
    X : IN (n, d) float32 or float64
    rows : IN (m,) rows of X to use
    columns : IN (c,) columns to sort
    order : OUT (c, m)
        Row numbers by value; the last row of each run of equal values is stored as its bitwise complement; missing
        values come last, unmarked.
    thresholds : OUT (c, m) midpoints between neighbouring distinct values
    n_cuts, n_missing : OUT (c,) thresholds and missing values of each column
    """
    cdef int64_t m = rows.shape[0], c
    cdef int64_t unused
    cdef int64_t[::1] default_at = np.empty(columns.shape[0], dtype=np.int64)
    cdef uint64_t[:, ::1] scratch = np.empty((n_threads, 2 * max(m, 1)), dtype=np.uint64)
    cdef uint64_t *keys
    for c in prange(columns.shape[0], nogil=True, num_threads=n_threads, schedule="dynamic"):
        keys = &scratch[threadid(), 0]
        fill_keys(X, rows, columns[c], keys)
        pmb_sort_keys(keys, keys + m, m)
        n_cuts[c] = emit_sorted(keys, m, 0, &order[c, 0], &thresholds[c, 0], &n_missing[c], &default_at[c])


def sort_sparse_columns(const int64_t[::1] indptr, const int32_t[::1] indices, const float[::1] data, int64_t n_rows,
                        int32_t[::1] order, float[::1] thresholds, int64_t[::1] n_cuts, int64_t[::1] n_missing,
                        int64_t[::1] default_at, int64_t[::1] bad, int n_threads):
    """Presort the columns of a CSC matrix without stored zeros; the rows that a column does not store share the value 0.

    Parameters
    ----------
    indptr, indices, data : IN, the CSC matrix of ``n_rows`` rows
    order : OUT (nnz,) as in `sort_columns`, column after column
    thresholds : OUT (nnz + d,) those of column f start at indptr[f] + f
    n_cuts, n_missing : OUT (d,)
    default_at : OUT (d,) number of entries below zero, or -1 when every row is stored
    bad : OUT (d,) first row with an infinite value, or -1
    """
    cdef int64_t d = indptr.shape[0] - 1, f, j, start, n, widest = 1
    for f in range(d):
        widest = max(widest, indptr[f + 1] - indptr[f])
    cdef uint64_t[:, ::1] scratch = np.empty((n_threads, 2 * widest), dtype=np.uint64)
    cdef uint64_t *keys
    for f in prange(d, nogil=True, num_threads=n_threads, schedule="dynamic", chunksize=16):
        keys = &scratch[threadid(), 0]
        start = indptr[f]
        n = indptr[f + 1] - start
        bad[f] = -1
        for j in range(n):
            keys[j] = pmb_key(data[start + j], <uint32_t> indices[start + j])
            if data[start + j] == INFINITY or data[start + j] == -INFINITY:
                bad[f] = indices[start + j]
        pmb_sort_keys(keys, keys + n, n)
        n_cuts[f] = emit_sorted(keys, n, n < n_rows, &order[start] if n else NULL, &thresholds[start + f],
                                &n_missing[f], &default_at[f])


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


def list_others(const uint8_t[::1] codes, int mode, int32_t[::1] rows, uint8_t[::1] out):
    """Rows whose code is not ``mode`` and their codes, in order."""
    cdef int64_t i, at = 0
    with nogil:
        for i in range(codes.shape[0]):
            if codes[i] != mode:
                rows[at] = <int32_t> i
                out[at] = codes[i]
                at += 1
