"""The C functions and structs of class-wise trees, for `classwise_trees` and `class_loss`; described in the headers."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from pymcboost._kernels.columns cimport pmb_columns
from pymcboost._kernels.pool cimport pmb_pool_calls
from pymcboost._kernels.workers cimport pmb_workers

cdef extern from "classwise_trees.h" nogil:
    enum:
        PMB_PARTS
        PMB_TRY_ROWS
        PMB_FEW
    ctypedef struct pmb_level_data:
        const int32_t *set_start
        int32_t set_words, most_words, most_levels
        const int64_t *least_level
        const int64_t *whole_level
    ctypedef struct pmb_cw_data:
        pmb_columns columns
        int32_t n_tiles
        const void *tiles
        const int32_t *tile_lanes
        const int32_t *tile_rows
        const int32_t *tile_missing
        const int32_t *tile_skip
        const int32_t *tile_mode
        const uint8_t *counted
        const int64_t *tile_cell
        const int64_t *row_ptr
        const int32_t *row_cell
        const int64_t *cell_ptr
        const int32_t *cell_row
        pmb_level_data levels
        int32_t weighted
        const int64_t *weight
        int64_t total_weight
    ctypedef struct pmb_cw_options:
        int32_t edge, cell_words, keep_histograms, few_sparse, threads, count_bits
        const pmb_pool_calls *pool
        int64_t least_n
        double min_share, l2, min_hessian, min_gain, h_error
        const uint8_t *active
        int32_t n_active, n_drawn
        uint64_t key
    ctypedef struct pmb_cw_state:
        pass
    ctypedef struct pmb_scale:
        double g, h, n
    ctypedef struct pmb_tree_out:
        int32_t *feature
        int32_t *pos
        int32_t *right
        int32_t *n_splits
        uint8_t *nan_left
        double *gain
        double *value
        void *leaf
        int32_t leaf_bytes
        uint64_t *sets
        int32_t set_words
    ctypedef struct pmb_softmax_job:
        const void *S
        const int32_t *y
        const int64_t *class_start
        const double *weight
        int32_t is_double, K, k, b, counts
        pmb_scale scale
        double shrinkage, cap, level_cost
        const double *magic
        const double *unit
        const int32_t *sample
        int64_t n_sample
    ctypedef struct pmb_edge_job:
        const void *A
        const double *weight
        double limit, unit, per_count, size
        int32_t is_double, stride
        int64_t n, n_all
    ctypedef struct pmb_class_job:
        const double *weight
        const int32_t *y
        const double *g_of
        const double *h_of
        pmb_scale scale
        const double *unit
        const double *magic
    pmb_tree_out pmb_out_of(pmb_tree_out out, int64_t j, int64_t max_leaves, int64_t m)
    int pmb_cw_state_new(pmb_cw_state *w, const pmb_cw_data *data, const pmb_cw_options *options,
                         int32_t max_leaves, int32_t max_depth)
    void pmb_cw_state_free(pmb_cw_state *w)
    void pmb_softmax_tree(pmb_cw_state *w, const pmb_softmax_job *job, pmb_tree_out out)
    double pmb_edge_top(const pmb_edge_job *job, int64_t m)
    int64_t pmb_edge_size(const pmb_edge_job *job, int64_t m, double by, int64_t *count)
    double pmb_edge_tree(pmb_cw_state *w, pmb_edge_job *job, pmb_tree_out out)
    void pmb_class_tree(pmb_cw_state *w, const pmb_class_job *job, pmb_tree_out out)
    void pmb_softmax(int is_double, const double *F, int64_t m, int K, int own, int64_t n, const double *weight,
                     double *top, void *total, void *S, const double *magic, int64_t *sums)
    void pmb_log_odds(double *x, int64_t n)
    void pmb_add_parts(const double *x, int64_t n, const double *magic, int64_t *sums)
    void pmb_try_bases(int is_double, const void *S, int64_t m, int K, const uint8_t *tried, int n_pairs,
                       const int32_t *pair, int own, int64_t n, const void *leaf, int bytes, int64_t stride,
                       const void *factor, const void *inverse, const double *weight, void *work, const double *magic,
                       int64_t *loss)
    void pmb_add_leaves(const void *leaf, int bytes, const double *value, int64_t n, double *to, double *frm)

cdef extern from "classwise_workers.h" nogil:
    ctypedef struct pmb_cw_steps:
        pass
    int pmb_cw_steps_new(pmb_cw_steps *all, pmb_workers *workers, pmb_cw_state *trees, int32_t n_trees)
    void pmb_cw_steps_free(pmb_cw_steps *all)
    void pmb_softmax_trees_in_step(pmb_cw_steps *all, pmb_softmax_job *job, int32_t n, int32_t threads,
                                   pmb_tree_out first)
    void pmb_edge_trees_in_step(pmb_cw_steps *all, pmb_edge_job *job, int32_t n, int32_t threads, pmb_tree_out first,
                                double *edge)
