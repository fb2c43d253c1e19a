# cython: language_level=3
"""Best shared decision stump: one scan of the data for all classes at once.

For the gradient A (m x K) find the feature, threshold and class with the largest |edge|,
edge = sum_i A[i, r] h(x_i) with h = -1 where x <= threshold and +1 elsewhere (Paisitkriangkrai, Shen and van den
Hengel, eq. 10). A is held as blocks of 4, 8 or 16 classes, (n_blocks, m, lanes), 64-byte aligned. Ties (within ``tie``)
go to the lower feature, then the lower threshold, then missing values right, then the lower class. Every feature is
summed by one thread in a fixed order, so the result does not depend on the number of threads.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from .aligned import aligned_zeros
from .pool cimport run

import numpy as np

cdef extern from "stumps.h" nogil:
    ctypedef struct pmb_best_stump:
        double edge
        int32_t pos
        int32_t cls
        int32_t nan_left
    enum:
        PMB_FIND_BEST
        PMB_FIND_EACH
        PMB_FIND_ABS
        PMB_FIND_SQUARES
        PMB_FIND_ALL
    ctypedef struct pmb_stump_results:
        int mode
        pmb_best_stump *best
        double *edge
        int32_t *code
        double *total
        const int64_t *at
        int64_t width
    int64_t pmb_stump_scratch_bytes(int lanes)
    void pmb_side_tile(const uint8_t *tile, int byte, int64_t m, int stride, int bins, int pos, int missing,
                       signed char *h)
    void pmb_totals(int is_double, int lanes, const void *A, int64_t m, double *totals)
    void pmb_sizes(int is_double, int lanes, const void *A, int64_t n, double magic, int64_t *sums)
    void pmb_scan_cells(int is_narrow, int lanes, const void *cells, int64_t width, int bins, int missing, double unit,
                        int cls0, double tie, double *room, const pmb_stump_results *results, int64_t slot)
    void pmb_search_tile(int is_double, int lanes, const uint8_t *codes, int64_t m, const void *A,
                         const int32_t *byte_cells, const int32_t *byte_ptr, const int32_t *slot_stride,
                         const int32_t *slot_bins, const uint8_t *slot_missing, int cls0, double tie, void *scratch,
                         const pmb_stump_results *results)
    void pmb_search_list(int is_double, int lanes, const int32_t *rows, const uint8_t *codes, int64_t n, const void *A,
                         const double *totals, int mode, int bins, int missing, int cls0, double tie, void *scratch,
                         const pmb_stump_results *results, int64_t slot)
    void pmb_search_sorted(int is_double, int lanes, const int32_t *rows, int64_t n, int64_t n_missing,
                           int64_t default_at, int split_missing, const void *A, const double *totals, int cls0,
                           double tie, const pmb_stump_results *results, int64_t slot)

ctypedef fused real:
    float
    double

ctypedef fused cell:
    int32_t
    double

cdef enum:
    UNSET = 1 << 30

BEST = np.dtype({"names": ["edge", "pos", "cls", "nan_left"], "formats": ["f8", "i4", "i4", "i4"],
                 "offsets": [0, 8, 12, 16], "itemsize": sizeof(pmb_best_stump)})


cdef class Target:
    """Where the results of one store of features go: ``n`` slots of ``result`` from ``first`` on."""

    cdef pmb_stump_results results
    cdef readonly object result

    def __init__(self, result, int64_t first, int64_t n):
        self.result = result
        self.results.mode, self.results.width = PMB_FIND_BEST, 0
        self.results.best, self.results.edge, self.results.code = NULL, NULL, NULL
        self.results.total, self.results.at = NULL, NULL
        if n:
            result.aim(self, first, n)


class Best:
    """Results of the searches: the best split of all classes for every slot.

    Parameters
    ----------
    n : int
        Number of slots (features).
    """

    def __init__(self, n):
        self.records = np.zeros(n, dtype=BEST)
        self.bits = self.records.view(np.int64)

    def aim(self, Target target, int64_t first, int64_t n):
        """Make the target refer to ``n`` slots, at least one."""
        cdef uint8_t[::1] raw = self.records.view(np.uint8)
        target.results.best = <pmb_best_stump *> &raw[0] + first


class BestOfEach:
    """Results of the searches: the best split of every class for every slot.

    ``edge`` and ``code`` are (n, width); a split's code is twice the index of its threshold, plus 1 where missing
    values go left.

    Parameters
    ----------
    n : int
        Number of slots.
    width : int
        Number of classes, padding included.
    """

    def __init__(self, n, width):
        self.edge = np.zeros((n, width))
        self.code = np.zeros((n, width), dtype=np.int32)

    def aim(self, Target target, int64_t first, int64_t n):
        """As `Best.aim`."""
        cdef double[:, ::1] edge = self.edge
        cdef int32_t[:, ::1] code = self.code
        target.results.mode, target.results.width = PMB_FIND_EACH, edge.shape[1]
        target.results.edge, target.results.code = &edge[first, 0], &code[first, 0]


def first_splits(lengths):
    """Number of the first split of every slot, and of all splits: each threshold has two."""
    return np.concatenate(([0], np.cumsum(2 * np.asarray(lengths, dtype=np.int64))))


class Totals:
    """Results of the searches: one number for every split, the sum over the classes of |edge|, or of its square.

    The splits of slot s are ``start[s] <= j < start[s + 1]``, in the order of their codes (see `BestOfEach`).

    Parameters
    ----------
    lengths : array-like of int (n,)
        Number of thresholds of every slot.
    squares : bool
    """

    def __init__(self, lengths, squares):
        self.start = first_splits(lengths)
        self.total, self.squares = np.zeros(self.start[len(lengths)]), bool(squares)

    def aim(self, Target target, int64_t first, int64_t n):
        """As `Best.aim`."""
        cdef double[::1] total = self.total
        cdef const int64_t[::1] start = self.start
        target.results.mode = PMB_FIND_SQUARES if self.squares else PMB_FIND_ABS
        target.results.total, target.results.at = &total[0], &start[first]
        total[start[first]: start[first + n]] = 0


class AllEdges:
    """Results of the searches: the edges of all classes for every split, NaN for codes that are no split.

    Parameters
    ----------
    lengths : array-like of int (n,)
        Number of thresholds of every slot.
    width : int
        Number of classes, padding included.
    """

    def __init__(self, lengths, width):
        self.start = first_splits(lengths)
        self.edge = np.full((self.start[len(lengths)], width), np.nan)

    def aim(self, Target target, int64_t first, int64_t n):
        """As `Best.aim`."""
        cdef double[:, ::1] edge = self.edge
        cdef const int64_t[::1] start = self.start
        target.results.mode, target.results.width = PMB_FIND_ALL, edge.shape[1]
        target.results.total, target.results.at = &edge[0, 0], &start[first]


# Arrays that searches read and write; each uses some of them. A piece is a slot, which is a feature, or a tile.
cdef struct Search:
    int is_double, is_narrow, lanes, n_blocks
    int64_t item, block_size, m, width, step
    double tie, unit, magic
    const char *A
    const double *sums      # (n_blocks, lanes)
    char *scratch           # of each thread
    int64_t scratch_bytes
    pmb_stump_results results
    const uint8_t *tiles
    const int32_t *byte_cells
    const int32_t *byte_ptr
    const int32_t *stride
    const int32_t *bins
    const uint8_t *missing
    const int64_t *ptr
    const int32_t *rows
    const uint8_t *codes
    const int32_t *mode
    const int64_t *n_missing
    const int64_t *default_at
    const char *cells
    int64_t *partial
    const int32_t *byte_of
    const int64_t *slot
    const int32_t *code
    const int64_t *to
    signed char *h


cdef Search search_in(const real[:, :, ::1] A):
    """A search in blocks of columns."""
    cdef Search p
    aligned(&A[0, 0, 0], "A")
    p.is_double, p.lanes, p.n_blocks, p.item = real is double, <int> A.shape[2], <int> A.shape[0], sizeof(real)
    p.m, p.block_size, p.A = A.shape[1], A.shape[1] * A.shape[2] * sizeof(real), <const char *> &A[0, 0, 0]
    return p


cdef int set_scratch(Search *p, uint8_t[:, ::1] scratch) except -1:
    """Memory of each thread."""
    aligned(&scratch[0, 0], "scratch")
    p.scratch, p.scratch_bytes = <char *> &scratch[0, 0], scratch.shape[1]
    return 0


def new_scratch(int lanes, int n_threads):
    """Per-thread scratch memory of the searches."""
    return aligned_zeros((n_threads, (pmb_stump_scratch_bytes(lanes) + 63) // 64 * 64), np.uint8)


cdef int aligned(const void *p, str name) except -1:
    if <size_t> p % 64:
        raise ValueError(name + " must start on a 64-byte boundary; make it with aligned_zeros")
    return 0


cdef void reset(const pmb_stump_results *results, int64_t first, int64_t n) noexcept nogil:
    cdef int64_t j
    cdef pmb_best_stump *best = results.best
    if best == NULL:
        return
    for j in range(first, first + n):
        best[j].edge = 0
        best[j].pos = UNSET
        best[j].cls = 0
        best[j].nan_left = 0


def totals(const real[:, :, ::1] A, double[:, ::1] out):
    """Column sums of A: (n_blocks, lanes)."""
    cdef int64_t b
    cdef int is_double = real is double
    aligned(&A[0, 0, 0], "A")
    with nogil:
        for b in range(A.shape[0]):
            pmb_totals(is_double, <int> A.shape[2], &A[b, 0, 0], A.shape[1], &out[b, 0])


def sizes(const real[:, :, ::1] A, double magic, int64_t[:, :, ::1] partial, int n_threads):
    """Column sums of |A| in units, by their magic number, of parts of the rows: added to (parts, n_blocks, lanes)."""
    cdef Search p = search_in(A)
    p.step, p.magic = (p.m + partial.shape[0] - 1) // partial.shape[0], magic
    p.partial = &partial[0, 0, 0]
    with nogil:
        run(n_threads, partial.shape[0], sizes_piece, &p)


cdef void sizes_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Search *p = <const Search *> what
    cdef int64_t start = j * p.step, n = max(<int64_t> 0, min(p.step, p.m - start))
    cdef int b
    for b in range(p.n_blocks):
        pmb_sizes(p.is_double, p.lanes, p.A + b * p.block_size + start * p.lanes * p.item, n, p.magic,
                  p.partial + (j * p.n_blocks + b) * p.lanes)


def scan_cells(const cell[:, ::1] cells, const int64_t[::1] at, const int32_t[::1] bins, const uint8_t[::1] missing,
               double unit, int lanes, double tie, uint8_t[:, ::1] scratch, Target best, int n_threads):
    """Scan histograms that are whole numbers of units.

    Parameters
    ----------
    cells : IN (rows, columns); at : IN (s,) first row of every slot
    bins, missing : IN (s,) as in `search_tiles`
    lanes : columns of a block of results
    scratch : (n_threads, bytes) from `new_scratch`
    best : OUT
    """
    cdef Search p
    if not at.shape[0]:
        return
    p.is_narrow, p.item, p.width, p.lanes = cell is int32_t, sizeof(cell), cells.shape[1], lanes
    p.n_blocks, p.cells, p.ptr = <int> ((p.width + lanes - 1) // lanes), <const char *> &cells[0, 0], &at[0]
    p.bins, p.missing, p.unit, p.tie, p.results = &bins[0], &missing[0], unit, tie, best.results
    set_scratch(&p, scratch)
    with nogil:
        run(n_threads, at.shape[0], cells_piece, &p)


cdef void cells_piece(void *what, int64_t s, int thread) noexcept nogil:
    cdef const Search *p = <const Search *> what
    cdef int b
    reset(&p.results, s, 1)
    for b in range(p.n_blocks):
        pmb_scan_cells(p.is_narrow, p.lanes, p.cells + p.ptr[s] * p.width * p.item, p.width, p.bins[s], p.missing[s],
                       p.unit, b * p.lanes, p.tie, <double *> (p.scratch + thread * p.scratch_bytes), &p.results, s)


def search_tiles(const real[:, :, ::1] A, const uint8_t[:, :, ::1] tiles, const int32_t[::1] byte_cells,
                 const int32_t[::1] byte_ptr, const int32_t[::1] slot_stride, const int32_t[::1] slot_bins,
                 const uint8_t[::1] slot_missing, double tie, uint8_t[:, ::1] scratch, Target best, int n_threads):
    """Histogram search over tiled bin codes: O(m) row updates per byte and class block, tiles in parallel.

    Parameters
    ----------
    A : IN (n_blocks, m, lanes)
    tiles : IN (t, m, 4) codes
    byte_cells : IN (4 t,) histogram cells of each byte
    byte_ptr : IN (4 t + 1,) slots (features) of each byte
    slot_stride, slot_bins, slot_missing : IN (s,)
        Mixed-radix stride, bins (missing one included); missing: 0, or the last bin is that of missing values, which
        may (1) or may not (2) be split from all others.
    scratch : (n_threads, bytes) from `new_scratch`
    best : OUT
    """
    cdef Search p = search_in(A)
    p.tie, p.results = tie, best.results
    if not tiles.shape[0]:
        return
    set_scratch(&p, scratch)
    p.tiles, p.byte_cells, p.byte_ptr = &tiles[0, 0, 0], &byte_cells[0], &byte_ptr[0]
    p.stride, p.bins, p.missing = &slot_stride[0], &slot_bins[0], &slot_missing[0]
    with nogil:
        run(n_threads, tiles.shape[0], tile_piece, &p)


cdef void tile_piece(void *what, int64_t g, int thread) noexcept nogil:
    cdef const Search *p = <const Search *> what
    cdef int64_t first = p.byte_ptr[4 * g]
    cdef int b
    reset(&p.results, first, p.byte_ptr[4 * g + 4] - first)
    for b in range(p.n_blocks):
        pmb_search_tile(p.is_double, p.lanes, p.tiles + g * p.m * 4, p.m, p.A + b * p.block_size,
                        p.byte_cells + 4 * g, p.byte_ptr + 4 * g, p.stride, p.bins, p.missing, b * p.lanes, p.tie,
                        p.scratch + thread * p.scratch_bytes, &p.results)


def search_lists(const real[:, :, ::1] A, const double[:, ::1] sums, const int64_t[::1] ptr, const int32_t[::1] rows,
                 const uint8_t[::1] codes, const int32_t[::1] mode, const int32_t[::1] bins,
                 const uint8_t[::1] missing, double tie, uint8_t[:, ::1] scratch, Target best, int n_threads):
    """Histogram search over skewed columns: only the rows outside the most frequent bin are listed.

    Parameters
    ----------
    A : IN (n_blocks, m, lanes); sums : IN (n_blocks, lanes) its column sums
    ptr : IN (s + 1,); rows, codes : IN, listed rows and their bins, slot after slot
    mode, bins, missing : IN (s,) the bin not listed, number of bins, missing as in `search_tiles`
    best : OUT
    """
    cdef Search p = search_in(A)
    p.tie, p.results = tie, best.results
    if ptr.shape[0] < 2:
        return
    set_scratch(&p, scratch)
    p.rows, p.codes = &rows[0] if rows.shape[0] else NULL, &codes[0] if codes.shape[0] else NULL
    p.ptr, p.mode, p.bins, p.missing, p.sums = &ptr[0], &mode[0], &bins[0], &missing[0], &sums[0, 0]
    with nogil:
        run(n_threads, ptr.shape[0] - 1, list_piece, &p)


cdef void list_piece(void *what, int64_t s, int thread) noexcept nogil:
    cdef const Search *p = <const Search *> what
    cdef int64_t first = p.ptr[s], n = p.ptr[s + 1] - first
    cdef int b
    reset(&p.results, s, 1)
    for b in range(p.n_blocks):
        pmb_search_list(p.is_double, p.lanes, p.rows + first, p.codes + first, n, p.A + b * p.block_size,
                        p.sums + b * p.lanes, p.mode[s], p.bins[s], p.missing[s], b * p.lanes, p.tie,
                        p.scratch + thread * p.scratch_bytes, &p.results, s)


def search_sorted(const real[:, :, ::1] A, const double[:, ::1] sums, const int64_t[::1] ptr, const int32_t[::1] order,
                  const int64_t[::1] n_missing, const int64_t[::1] default_at, const uint8_t[::1] split_missing,
                  double tie, Target best, int n_threads):
    """Exact search over presorted columns, dense or sparse: O(entries) per class block, columns in parallel.

    Parameters
    ----------
    A : IN (n_blocks, m, lanes); sums : IN (n_blocks, lanes) its column sums
    ptr : IN (s + 1,) entries of each slot; order : IN as written by ``bins.sort_columns``
    split_missing : IN (s,) whether missing values may be split from all others
    n_missing : IN (s,); default_at : IN (s,) entries below the value shared by all unlisted rows, or -1
    best : OUT
    """
    cdef Search p = search_in(A)
    p.tie, p.results = tie, best.results
    if ptr.shape[0] < 2:
        return
    p.rows, p.ptr, p.sums = &order[0] if order.shape[0] else NULL, &ptr[0], &sums[0, 0]
    p.n_missing, p.default_at, p.missing = &n_missing[0], &default_at[0], &split_missing[0]
    with nogil:
        run(n_threads, ptr.shape[0] - 1, sorted_piece, &p)


cdef void sorted_piece(void *what, int64_t s, int thread) noexcept nogil:
    cdef const Search *p = <const Search *> what
    cdef int64_t first = p.ptr[s], n = p.ptr[s + 1] - first
    cdef int b
    reset(&p.results, s, 1)
    for b in range(p.n_blocks):
        pmb_search_sorted(p.is_double, p.lanes, p.rows + first, n, p.n_missing[s], p.default_at[s], p.missing[s],
                          p.A + b * p.block_size, p.sums + b * p.lanes, b * p.lanes, p.tie, &p.results, s)


def pick(best, const int32_t[::1] feature, double tie):
    """Slot of a `Best` with the largest |edge|; within the tie tolerance the lower feature wins. -1 if all are 0."""
    cdef uint8_t[::1] raw = best.records.view(np.uint8)
    cdef int64_t s, n = feature.shape[0], at = -1
    if n == 0:
        return -1
    cdef const pmb_best_stump *slots = <const pmb_best_stump *> &raw[0]
    cdef double top = 0
    for s in range(n):
        top = max(top, abs(slots[s].edge))
    if top == 0:
        return -1
    for s in range(n):
        if abs(slots[s].edge) * tie >= top and (at < 0 or feature[s] < feature[at]):
            at = s
    return at


def pick_classes(best, const int32_t[::1] feature, double tie, int64_t[::1] out):
    """For each class the slot with the largest |edge|, ties as in `pick`; -1 if all are 0.

    Parameters
    ----------
    best : IN, a `BestOfEach`
    out : OUT (K,)
    """
    cdef double[:, ::1] edge = best.edge
    cdef int64_t s, n = edge.shape[0]
    cdef int c
    cdef double top
    for c in range(out.shape[0]):
        top, out[c] = 0, -1
        for s in range(n):
            top = max(top, abs(edge[s, c]))
        if top == 0:
            continue
        for s in range(n):
            if abs(edge[s, c]) * tie >= top and (out[c] < 0 or feature[s] < feature[out[c]]):
                out[c] = s


cdef signed char side_of(int bin_, int bins, int pos, bint nan_left, bint missing) noexcept nogil:
    """-1 for a bin on the left of the split, +1 on the right; the last bin may hold missing values."""
    if missing and bin_ == bins - 1:
        return -1 if nan_left else 1
    return -1 if bin_ <= pos else 1


def side_tile(const uint8_t[:, ::1] tile, int byte, int stride, int bins, int pos, bint nan_left, bint missing,
              signed char[::1] h):
    """h = -1 where the slot's bin is at most ``pos`` (or missing and ``nan_left``), +1 elsewhere."""
    with nogil:
        pmb_side_tile(&tile[0, 0], byte, tile.shape[0], stride, bins, pos, bins - 1 if missing and nan_left else -1,
                      &h[0])


def side_tiles(const uint8_t[:, :, ::1] tiles, const int32_t[::1] byte_of, const int32_t[::1] stride,
               const int32_t[::1] bins, const uint8_t[::1] missing, const int64_t[::1] slot, const int32_t[::1] code,
               const int64_t[::1] to, signed char[:, ::1] h, int n_threads):
    """As `side_tile` for several splits, each with a row of h to itself.

    Parameters
    ----------
    tiles, stride, bins, missing : IN as in `search_tiles`
    byte_of : IN (s,) byte of every slot
    slot, code : IN (n,) splits, see `BestOfEach`
    to : IN (n,) rows of h
    h : OUT (P, m)
    """
    cdef Search p
    if not slot.shape[0]:
        return
    p.m, p.tiles, p.byte_of, p.stride = tiles.shape[1], &tiles[0, 0, 0], &byte_of[0], &stride[0]
    p.bins, p.missing, p.slot, p.code, p.to, p.h = &bins[0], &missing[0], &slot[0], &code[0], &to[0], &h[0, 0]
    with nogil:
        run(n_threads, slot.shape[0], side_piece, &p)


cdef void side_piece(void *what, int64_t j, int thread) noexcept nogil:
    cdef const Search *p = <const Search *> what
    cdef int64_t s = p.slot[j]
    cdef int byte = p.byte_of[s], bins = p.bins[s]
    pmb_side_tile(p.tiles + byte // 4 * p.m * 4, byte % 4, p.m, p.stride[s], bins, p.code[j] >> 1,
                  bins - 1 if p.missing[s] and p.code[j] & 1 else -1, p.h + p.to[j] * p.m)


def side_list(const int32_t[::1] rows, const uint8_t[::1] codes, int mode, int bins, int pos, bint nan_left,
              bint missing, signed char[::1] h):
    """As `side_tile` for a skewed column."""
    cdef int64_t i
    cdef int code
    cdef signed char[256] side
    for code in range(256):
        side[code] = side_of(code, bins, pos, nan_left, missing)
    with nogil:
        for i in range(h.shape[0]):
            h[i] = side[mode]
        for i in range(rows.shape[0]):
            h[rows[i]] = side[codes[i]]


def side_sorted(const int32_t[::1] order, int64_t n_missing, int64_t default_at, int pos, bint nan_left,
                signed char[::1] h):
    """As `side_tile` for a presorted column; ``pos`` counts runs of equal values."""
    cdef int64_t j, i, values = order.shape[0] - n_missing
    cdef int group = 0, default_group = -1
    with nogil:
        if default_at >= 0:
            for j in range(default_at):
                group += order[j] < 0
            default_group = group
        for i in range(h.shape[0]):
            h[i] = -1 if default_at >= 0 and default_group <= pos else 1
        group = 0
        for j in range(values):
            if j == default_at:
                group += 1
            i = order[j]
            if i < 0:
                h[~i] = -1 if group <= pos else 1
                group += 1
            else:
                h[i] = -1 if group <= pos else 1
        for j in range(values, order.shape[0]):
            i = order[j]
            h[i] = -1 if nan_left else 1
