/* Sums over the workers that rows are divided among. A grower fills numbers from the rows that are here, calls pmb_add_up, and
 * goes on with the sums of all rows. Without other workers it has them already, and nothing happens. With them the hook
 * adds up: that of workers.pyx calls a communicator of Python. */
#ifndef PYMCBOOST_WORKERS_H
#define PYMCBOOST_WORKERS_H

#include "lanes.h"

/* The workers that the rows of a grower are divided among; a grower that has all rows has a NULL in its place. After the hook
 * has failed, the numbers here are no sums, and the grower returns to Python, which raises the error. */
typedef struct {
    /* Adds up n integers of n_bytes bytes (4 or 8) of all workers, in place, or only this worker's part where the parts
     * have lengths; not 0 where that fails. */
    int (*add_up)(void *communicator, void *numbers, int64_t n, int n_bytes,
                  const int64_t *lengths);
    void *communicator; /* what the hook is called with */
    int32_t n_workers, rank;
    int32_t failed;    /* 1: the hook has failed, and is not called any more */
    int64_t scattered; /* bytes from which on a message goes in parts */
} pmb_workers;

/* Call the hook after n numbers have been filled from the rows here. */
PMB_INLINE void pmb_add_up(pmb_workers *workers, void *numbers, int64_t n, int n_bytes,
                           const int64_t *lengths) {
    if (workers && n && !workers->failed)
        workers->failed = workers->add_up(workers->communicator, numbers, n, n_bytes, lengths);
}

/* Which worker scans the numbers [first, first + count) of `size`: the one in whose part their middle lies. */
PMB_INLINE int pmb_owner(int64_t first, int64_t count, int64_t size, int n_workers) {
    return (int)((2 * first + count) * n_workers / (2 * size));
}

#endif
