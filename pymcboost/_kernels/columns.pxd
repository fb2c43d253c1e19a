"""Binned columns as the kernels see them."""

from libc.stdint cimport int32_t, int64_t, uint8_t

cdef extern from "grower.h" nogil:
    ctypedef struct pmb_columns:
        int64_t m
        int32_t n_lanes, n_features, code_bytes
        const void *codes
        const int32_t *column
        const int32_t *lane
        const int32_t *cell0
        const int32_t *n_bins
        const int32_t *has_missing
        const int32_t *mode
        const int32_t *lane_ptr
        const int32_t *lane_feature
        const int32_t *lane_cells


cdef inline const void *address(array):
    """Where the array's numbers are; the caller keeps it alive."""
    cdef const uint8_t[::1] view
    if array is None or array.size == 0:
        return NULL
    view = array.reshape(-1).view("u1")
    return <const void *> &view[0]


cdef inline pmb_columns columns_of(data):
    """Where `Columns` are, which the caller keeps alive."""
    cdef pmb_columns c
    c.m, c.n_lanes, c.n_features, c.code_bytes = data.n_rows, data.n_lanes, len(data.column), data.code_bytes
    c.codes = address(data.codes)
    c.column, c.lane = <const int32_t *> address(data.column), <const int32_t *> address(data.lane)
    c.cell0, c.n_bins = <const int32_t *> address(data.cell0), <const int32_t *> address(data.n_bins)
    c.has_missing, c.mode = <const int32_t *> address(data.has_missing), <const int32_t *> address(data.mode)
    c.lane_ptr = <const int32_t *> address(data.lane_ptr)
    c.lane_feature = <const int32_t *> address(data.lane_feature)
    c.lane_cells = <const int32_t *> address(data.lane_cells)
    return c
