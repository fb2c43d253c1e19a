# cython: language_level=3
"""Histograms of stumps in whole numbers of units, for rows that are divided among workers.

The sums of all workers are those of one, in any order.

A gradient (n_blocks, m, lanes) is rounded to units once, to int32 or to whole float64. The units are powers of two that
keep every sum exact. The histograms of all slots lie one below the other, a row for each bin: (bins, columns).
"""

from cython.parallel cimport prange, threadid
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef extern from "stump_histograms.h" nogil:
    void pmb_rounded(int is_double, int is_narrow, const void *a, int64_t n, double by, void *to)
    void pmb_total_cells(int is_narrow, int lanes, const void *G, int64_t m, void *totals)
    void pmb_tile_cells(int is_narrow, int lanes, const uint8_t *codes, int64_t m, const void *G,
                        const int32_t *byte_cells, const int32_t *byte_ptr, const int32_t *slot_stride,
                        const int32_t *slot_bins, const int64_t *at, int64_t width, int cls0, void *scratch, void *out)
    void pmb_list_cells(int is_narrow, int lanes, const int32_t *rows, const uint8_t *codes, int64_t m, const void *G,
                        const void *totals, int mode, int bins, int64_t width, int cls0, void *scratch, void *out)

ctypedef fused real:
    float
    double

ctypedef fused cell:
    int32_t
    double


def rounded(const real[:, :, ::1] A, double by, cell[:, :, ::1] out, int n_threads):
    """A times ``by``, rounded to integers: magnitudes below 2^31 for int32, below 2^51 for float64."""
    cdef int is_double = real is double, is_narrow = cell is int32_t
    cdef int64_t j, step = 1 << 16, size = A.shape[0] * A.shape[1] * A.shape[2]
    cdef const real *a = &A[0, 0, 0]
    cdef cell *to = &out[0, 0, 0]
    for j in prange((size + step - 1) // step, nogil=True, num_threads=n_threads, schedule="static"):
        pmb_rounded(is_double, is_narrow, a + j * step, min(step, size - j * step), by, to + j * step)


def totals(const cell[:, :, ::1] G, cell[:, ::1] out):
    """Column sums of G: (n_blocks, lanes)."""
    cdef int64_t b
    cdef int is_narrow = cell is int32_t
    with nogil:
        for b in range(G.shape[0]):
            pmb_total_cells(is_narrow, <int> G.shape[2], &G[b, 0, 0], G.shape[1], &out[b, 0])


def fill_tiles(const cell[:, :, ::1] G, const uint8_t[:, :, ::1] tiles, const int32_t[::1] byte_cells,
               const int32_t[::1] byte_ptr, const int32_t[::1] slot_stride, const int32_t[::1] slot_bins,
               const int64_t[::1] at, uint8_t[:, ::1] scratch, cell[:, ::1] out, int n_threads):
    """Histograms of tiled bin codes.

    Parameters
    ----------
    G : IN (n_blocks, m, lanes)
    tiles, byte_cells, byte_ptr, slot_stride, slot_bins : IN as in ``stumps.search_tiles``
    at : IN (s,) first row of every slot in ``out``
    scratch : from ``stumps.new_scratch``
    out : OUT (rows, columns), those rows
    """
    cdef int64_t g, b, m = G.shape[1], width = out.shape[1]
    cdef int lanes = <int> G.shape[2], is_narrow = cell is int32_t
    for g in prange(tiles.shape[0], nogil=True, num_threads=n_threads, schedule="dynamic"):
        for b in range(G.shape[0]):
            pmb_tile_cells(is_narrow, lanes, &tiles[g, 0, 0], m, &G[b, 0, 0], &byte_cells[4 * g], &byte_ptr[4 * g],
                           &slot_stride[0], &slot_bins[0], &at[0], width, <int> b * lanes, &scratch[threadid(), 0],
                           &out[0, 0])


def fill_lists(const cell[:, :, ::1] G, const cell[:, ::1] sums, const int64_t[::1] ptr, const int32_t[::1] rows,
               const uint8_t[::1] codes, const int32_t[::1] mode, const int32_t[::1] bins, const int64_t[::1] at,
               uint8_t[:, ::1] scratch, cell[:, ::1] out, int n_threads):
    """Histograms of skewed columns.

    Parameters
    ----------
    sums : IN (n_blocks, lanes) column sums of G
    ptr, rows, codes, mode, bins : IN as in ``stumps.search_lists``
    G, at, scratch, out : as in `fill_tiles`
    """
    cdef int64_t s, b, width = out.shape[1]
    cdef int lanes = <int> G.shape[2], is_narrow = cell is int32_t
    cdef const int32_t *rows_at = &rows[0] if rows.shape[0] else NULL
    cdef const uint8_t *codes_at = &codes[0] if codes.shape[0] else NULL
    for s in prange(ptr.shape[0] - 1, nogil=True, num_threads=n_threads, schedule="dynamic", chunksize=4):
        for b in range(G.shape[0]):
            pmb_list_cells(is_narrow, lanes, rows_at + ptr[s], codes_at + ptr[s], ptr[s + 1] - ptr[s], &G[b, 0, 0],
                           &sums[b, 0], mode[s], bins[s], width, <int> b * lanes, &scratch[threadid(), 0],
                           &out[at[s], 0])
