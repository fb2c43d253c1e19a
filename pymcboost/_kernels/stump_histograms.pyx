# cython: language_level=3
"""Histograms of stumps in whole numbers of units, for rows that are divided among workers.

The sums of all workers are those of one, in any order.

A gradient (n_blocks, m, lanes) is rounded to units once, to int32 or to whole float64. The units are powers of two that
keep every sum exact. The histograms of all slots lie one below the other, a row for each bin: (bins, columns).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from pymcboost._kernels.pool cimport pieces_of, run

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


cdef enum:
    ROUNDED = 1 << 16  # numbers of a piece


# A gradient, and where its histograms go. A piece is ROUNDED numbers, a tile, or a list.
cdef struct Histograms:
    int is_double, is_narrow, lanes, n_blocks  # is_double: of the gradient that is rounded; is_narrow: cells are int32
    int64_t m, size, tile_bytes, width, scratch_bytes
    double by
    const char *A
    const char *G     # (n_blocks, m, lanes) cells
    const char *sums  # (n_blocks, lanes) cells
    const uint8_t *codes
    const int32_t *byte_cells
    const int32_t *byte_ptr
    const int32_t *slot_stride
    const int32_t *slot_bins
    const int64_t *at
    const int64_t *ptr
    const int32_t *rows
    const int32_t *mode
    const int32_t *bins
    uint8_t *scratch  # (threads, scratch_bytes)
    char *out


cdef inline int64_t cell_bytes(const Histograms *p) noexcept nogil:
    return sizeof(int32_t) if p.is_narrow else sizeof(double)


cdef void rounded_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Histograms *p = <const Histograms *> what
    cdef int64_t first = j * ROUNDED, real_bytes = sizeof(double) if p.is_double else sizeof(float)
    pmb_rounded(p.is_double, p.is_narrow, p.A + first * real_bytes, min(<int64_t> ROUNDED, p.size - first), p.by,
                p.out + first * cell_bytes(p))


cdef void tile_piece(void *what, int64_t g, int thread) noexcept nogil:
    cdef const Histograms *p = <const Histograms *> what
    cdef int64_t block_bytes = p.m * p.lanes * cell_bytes(p)
    cdef int b
    for b in range(p.n_blocks):
        pmb_tile_cells(p.is_narrow, p.lanes, p.codes + g * p.tile_bytes, p.m, p.G + b * block_bytes,
                       p.byte_cells + 4 * g, p.byte_ptr + 4 * g, p.slot_stride, p.slot_bins, p.at, p.width,
                       b * p.lanes, p.scratch + thread * p.scratch_bytes, p.out)


cdef void list_piece(void *what, int64_t s, int thread) noexcept nogil:
    cdef const Histograms *p = <const Histograms *> what
    cdef int64_t lane_bytes = p.lanes * cell_bytes(p), first = p.ptr[s]
    cdef int b
    for b in range(p.n_blocks):
        pmb_list_cells(p.is_narrow, p.lanes, p.rows + first, p.codes + first, p.ptr[s + 1] - first,
                       p.G + b * p.m * lane_bytes, p.sums + b * lane_bytes, p.mode[s], p.bins[s], p.width, b * p.lanes,
                       p.scratch + thread * p.scratch_bytes, p.out + p.at[s] * p.width * cell_bytes(p))


cdef Histograms histograms_of(const cell[:, :, ::1] G, const int64_t[::1] at, uint8_t[:, ::1] scratch,
                              cell[:, ::1] out):
    cdef Histograms p
    p.is_narrow = cell is int32_t
    p.n_blocks, p.m, p.lanes = <int> G.shape[0], G.shape[1], <int> G.shape[2]
    p.G, p.at, p.width, p.out = <const char *> &G[0, 0, 0], &at[0], out.shape[1], <char *> &out[0, 0]
    p.scratch, p.scratch_bytes = &scratch[0, 0], scratch.shape[1]
    return p


def rounded(const real[:, :, ::1] A, double by, cell[:, :, ::1] out, int n_threads):
    """A times ``by``, rounded to integers: magnitudes below 2^31 for int32, below 2^51 for float64."""
    cdef Histograms p
    p.is_double, p.is_narrow, p.by = real is double, cell is int32_t, by
    p.size = A.shape[0] * A.shape[1] * A.shape[2]
    p.A, p.out = <const char *> &A[0, 0, 0], <char *> &out[0, 0, 0]
    with nogil:
        run(n_threads, pieces_of(p.size, ROUNDED), rounded_piece, &p)


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
    cdef Histograms p = histograms_of(G, at, scratch, out)
    if not tiles.shape[0]:
        return
    p.codes, p.tile_bytes = &tiles[0, 0, 0], tiles.shape[1] * tiles.shape[2]
    p.byte_cells, p.byte_ptr = &byte_cells[0], &byte_ptr[0]
    p.slot_stride, p.slot_bins = &slot_stride[0], &slot_bins[0]
    with nogil:
        run(n_threads, tiles.shape[0], tile_piece, &p)


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
    cdef Histograms p = histograms_of(G, at, scratch, out)
    if ptr.shape[0] < 2:
        return
    p.sums, p.ptr, p.mode, p.bins = <const char *> &sums[0, 0], &ptr[0], &mode[0], &bins[0]
    p.rows = &rows[0] if rows.shape[0] else NULL
    p.codes = &codes[0] if codes.shape[0] else NULL
    with nogil:
        run(n_threads, ptr.shape[0] - 1, list_piece, &p)
