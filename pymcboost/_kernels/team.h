/* What kernels know of the pool of threads (pool.h): how to share work, how pieces wait for each other, and locks. */
#ifndef PYMCBOOST_TEAM_H
#define PYMCBOOST_TEAM_H

#include <sched.h>

#include "lanes.h"

/* Do a piece of the work. thread: below the number of threads, and no other's at the same time. */
typedef void (*pmb_piece)(void *what, int64_t piece, int thread);

typedef struct {
    /* do_it for the pieces 0, ..., n - 1, by at most so many threads, one of which is the caller. */
    void (*run)(int n_threads, int64_t n, pmb_piece do_it, void *what);
    /* Inside a piece: wait for something that another one makes true. `seen` is asked for before it is found false; who
     * makes it true tells afterwards. */
    int64_t (*seen)(void);
    void (*wait)(int64_t seen);
    void (*tell)(void);
} pmb_pool_calls;

/* A number that another thread may be writing, where it does not matter which of its values is read; and writing it. */
#define PMB_READ(from) __atomic_load_n(from, __ATOMIC_RELAXED)
#define PMB_WRITE(to, value) __atomic_store_n(to, value, __ATOMIC_RELAXED)
#define PMB_SET_BITS(to, bits) __atomic_or_fetch(to, bits, __ATOMIC_RELAXED)
#define PMB_COUNT_DOWN(n)                                                                          \
    __atomic_sub_fetch(n, 1, __ATOMIC_ACQ_REL) /* what the others wrote before is then seen */

/* Held for a few instructions, or for adding up sums. */
typedef int32_t pmb_lock;

PMB_INLINE void pmb_lock_it(pmb_lock *lock) {
    for (int tries = 0; __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE); tries++)
        while (__atomic_load_n(lock, __ATOMIC_RELAXED))
            if (++tries > 200) sched_yield(); /* who holds it has lost his time slice */
}

PMB_INLINE void pmb_unlock_it(pmb_lock *lock) {
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif
