/* The threads of the kernels: a job is a number of pieces, which whoever is free takes one after the other.
 *
 * The caller of `pmb_pool_run` takes pieces, too, and waits for nobody but helpers that still hold a piece. A helper that
 * has not come by then, because other processes have the CPU, is not waited for: a barrier would be, for a time slice.
 * Whoever waits looks for PMB_SPIN_NS, in which a short gap between two jobs passes, and sleeps then.
 *
 * Beside busy processes, helpers may cost more than they gain: one that loses the CPU with a piece in its hands is waited
 * for. So the pool compares the time that jobs take with the CPU time of their pieces, which is what a caller alone would
 * take. Where jobs take longer, callers work alone, and try again after a while.
 *
 * One pool serves all kernels of a process and any number of callers at a time. A child of fork begins with no helpers.
 * Where the system starts no thread, the caller does the work alone.
 */
#ifndef PYMCBOOST_POOL_H
#define PYMCBOOST_POOL_H

#include <pthread.h>
#include <time.h>

#include "team.h"
#ifndef _WIN32
#include <signal.h>
#endif

/* how long to look before sleeping; waking somebody takes about as long */
#define PMB_SPIN_NS 50000
/* Helpers are judged by so long a time; callers then work alone for so long at first, and at most. */
#ifdef PMB_TRIAL_NS /* a test has its own */
#elif defined(_WIN32)
#define PMB_TRIAL_NS 500000000 /* CPU time is counted in steps of 16 ms */
#else
#define PMB_TRIAL_NS 20000000
#endif
#define PMB_ALONE_NS 40000000
#define PMB_MOST_ALONE_NS 640000000
#define PMB_STACK (2 << 20) /* bytes of a helper's stack: musl's default is too small */
#define PMB_MOST_HELPERS 1024
#define PMB_MOST_RANGES 128

#if defined(__x86_64__) || defined(__i386__)
#define PMB_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define PMB_PAUSE() __asm__ volatile("yield")
#else
#define PMB_PAUSE() ((void)0)
#endif

/* Pieces that one thread takes first, and others when they have none left: in job after job each thread then finds the same
 * rows in its cache. */
typedef struct {
    int64_t next, end; /* the first that nobody has taken, and the last + 1 */
    char apart[48];
} pmb_range;

/* A job of n pieces on the list; it stays on the stack of its caller until no helper is inside. */
typedef struct pmb_job {
    pmb_piece do_it;
    void *what;
    int32_t seats, taken; /* helpers that may join, and have joined */
    int32_t inside;       /* twice the number of helpers at work, plus 1 where the caller sleeps */
    int32_t n_ranges;
    struct pmb_job *after; /* the next job of the list */
    pmb_range range[PMB_MOST_RANGES];
} pmb_job;

/* Where threads wait until `changes` changes: they look for a while, and then sleep. */
typedef struct {
    int64_t changes;
    int32_t lookers, sleepers; /* threads that look, and that sleep */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
} pmb_gate;

static struct {
    pmb_lock lock;           /* of the list, held for a few instructions */
    pmb_job *jobs;           /* those that may have pieces left */
    int32_t wanted, helpers; /* seats of all jobs, and threads that are there */
    pmb_gate posted,
        left; /* a job has been posted; somebody whom others may wait for has done his part */
} pmb_pool = {0,
              NULL,
              0,
              0,
              {0, 0, 0, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER},
              {0, 0, 0, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER}};

/* Whether helpers gain, and when callers work alone. */
static struct {
    int64_t began, took, worked; /* time of the jobs since then, and CPU time of their pieces */
    int64_t alone_until;
    int64_t pause; /* how long callers worked alone the last time; 0: they need not */
} pmb_trial;
static _Thread_local int64_t pmb_looked; /* CPU time of waits inside of pieces */

static int64_t pmb_clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int64_t pmb_now_ns(void) {
    return pmb_clock_ns(CLOCK_MONOTONIC);
}

/* Look whether something has been done, to go on at `looked`, until it is time to sleep. */
#define PMB_LOOK(done)                                                                             \
    do {                                                                                           \
        int64_t until_ = 0, now_;                                                                  \
        do {                                                                                       \
            for (int i_ = 0; i_ < 64; i_++) {                                                      \
                if (done) goto looked;                                                             \
                PMB_PAUSE();                                                                       \
            }                                                                                      \
            now_ = pmb_now_ns();                                                                   \
            if (!until_) until_ = now_ + PMB_SPIN_NS;                                              \
        } while (now_ < until_);                                                                   \
    } while (0)

/* Wait until the changes of a gate are not `seen` any more. */
static void pmb_gate_wait(pmb_gate *gate, int64_t seen) {
    __atomic_add_fetch(&gate->lookers, 1, __ATOMIC_SEQ_CST);
    PMB_LOOK(__atomic_load_n(&gate->changes, __ATOMIC_ACQUIRE) != seen);
    pthread_mutex_lock(&gate->mutex);
    __atomic_add_fetch(&gate->sleepers, 1, __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&gate->lookers, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&gate->changes, __ATOMIC_SEQ_CST) == seen)
        pthread_cond_wait(&gate->changed, &gate->mutex);
    __atomic_sub_fetch(&gate->sleepers, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&gate->mutex);
    return;
looked:
    __atomic_sub_fetch(&gate->lookers, 1, __ATOMIC_SEQ_CST);
}

/* Let so many of those go on who wait at a gate: the ones that are awake, and of the sleepers as many as are missing. */
static void pmb_gate_open(pmb_gate *gate, int32_t most) {
    __atomic_add_fetch(&gate->changes, 1, __ATOMIC_SEQ_CST);
    int32_t sleepers = __atomic_load_n(&gate->sleepers, __ATOMIC_SEQ_CST);
    most -= __atomic_load_n(&gate->lookers, __ATOMIC_SEQ_CST);
    if (!sleepers || most < 1) return;
    pthread_mutex_lock(&gate->mutex); /* who has counted himself as a sleeper has begun to wait */
    pthread_mutex_unlock(&gate->mutex);
    if (most < sleepers)
        while (most--) pthread_cond_signal(&gate->changed);
    else
        pthread_cond_broadcast(&gate->changed);
}

static void pmb_do_pieces(pmb_job *job, int thread) {
    for (int32_t j = 0; j < job->n_ranges; j++) {
        pmb_range *range = job->range + (thread + j) % job->n_ranges;
        while (__atomic_load_n(&range->next, __ATOMIC_RELAXED) < range->end) {
            int64_t piece = __atomic_fetch_add(&range->next, 1, __ATOMIC_RELAXED);
            if (piece < range->end) job->do_it(job->what, piece, thread);
        }
    }
}

/* Whether there may be pieces that nobody has taken. */
static int pmb_has_pieces(pmb_job *job) {
    for (int32_t j = 0; j < job->n_ranges; j++)
        if (__atomic_load_n(&job->range[j].next, __ATOMIC_RELAXED) < job->range[j].end) return 1;
    return 0;
}

/* Take a seat at a job with pieces left: its number from 1 on, and the job; 0: there is none. */
static int pmb_take_seat(pmb_job **job) {
    int seat = 0;
    pmb_lock_it(&pmb_pool.lock);
    for (*job = pmb_pool.jobs; *job; *job = (*job)->after)
        if ((*job)->taken < (*job)->seats && pmb_has_pieces(*job)) {
            seat = ++(*job)->taken;
            __atomic_add_fetch(&(*job)->inside, 2, __ATOMIC_RELAXED);
            break;
        }
    pmb_unlock_it(&pmb_pool.lock);
    return seat;
}

/* CPU time of this thread in pieces, from any beginning. */
static int64_t pmb_worked_ns(void) {
    return pmb_clock_ns(CLOCK_THREAD_CPUTIME_ID) - pmb_looked;
}

/* A job has taken so long: end the trial once it is long enough. Of several callers at a time, one may not be heard. */
static void pmb_judge_helpers(int64_t took) {
    int64_t now = pmb_now_ns(), began = __atomic_load_n(&pmb_trial.began, __ATOMIC_RELAXED);
    took = __atomic_add_fetch(&pmb_trial.took, took, __ATOMIC_RELAXED);
    if (now - began < PMB_TRIAL_NS) return;
    int64_t worked = __atomic_exchange_n(&pmb_trial.worked, 0, __ATOMIC_RELAXED),
            before = __atomic_load_n(&pmb_trial.pause, __ATOMIC_RELAXED), pause = 0;
    if (took > worked && took > PMB_TRIAL_NS / 4) {
        pause = 2 * before > PMB_ALONE_NS ? 2 * before : PMB_ALONE_NS;
        if (pause > PMB_MOST_ALONE_NS) pause = PMB_MOST_ALONE_NS;
    }
    __atomic_store_n(&pmb_trial.pause, pause ? pause : before / 2, __ATOMIC_RELAXED);
    __atomic_store_n(&pmb_trial.alone_until, now + pause, __ATOMIC_RELAXED);
    __atomic_store_n(&pmb_trial.began, now + pause, __ATOMIC_RELAXED);
    __atomic_store_n(&pmb_trial.took, 0, __ATOMIC_RELAXED);
}

static void *pmb_help(void *unused) {
    pmb_job *job;
    for (;;) {
        int64_t seen = __atomic_load_n(&pmb_pool.posted.changes, __ATOMIC_ACQUIRE);
        int seat = pmb_take_seat(&job);
        if (!seat) {
            pmb_gate_wait(&pmb_pool.posted, seen);
            continue;
        }
        int64_t before = pmb_worked_ns();
        pmb_do_pieces(job, seat);
        __atomic_add_fetch(&pmb_trial.worked, pmb_worked_ns() - before, __ATOMIC_RELAXED);
        /* The caller may go on, and the job be gone, from here on. */
        if (__atomic_sub_fetch(&job->inside, 2, __ATOMIC_ACQ_REL) == 1)
            pmb_gate_open(&pmb_pool.left, INT32_MAX);
    }
    return unused;
}

static void pmb_after_fork(void) {
    static const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    memset(&pmb_pool, 0, sizeof pmb_pool);
    pmb_pool.posted.mutex = pmb_pool.left.mutex = mutex;
    pmb_pool.posted.changed = pmb_pool.left.changed = cond;
}

/* Start helpers until there are so many, as far as the system starts any. */
static void pmb_start_helpers(int32_t most) {
    static int is_prepared = 0;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes)) return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, PMB_STACK);
    pmb_lock_it(&pmb_pool.lock); /* starting is rare, and who waits for the lock yields */
#ifndef _WIN32
    sigset_t all, before; /* signals are for the threads of the program */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!is_prepared) is_prepared = !pthread_atfork(NULL, NULL, pmb_after_fork);
#else
    is_prepared = 1;
#endif
    while (is_prepared && pmb_pool.helpers < most) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, pmb_help, NULL)) break;
        __atomic_add_fetch(&pmb_pool.helpers, 1, __ATOMIC_RELAXED);
    }
#ifndef _WIN32
    pthread_sigmask(SIG_SETMASK, &before, NULL);
#endif
    pmb_unlock_it(&pmb_pool.lock);
    pthread_attr_destroy(&attributes);
}

/* Wait until no helper is inside a job. */
static void pmb_wait_for_helpers(pmb_job *job) {
    PMB_LOOK(!__atomic_load_n(&job->inside, __ATOMIC_ACQUIRE));
    __atomic_or_fetch(&job->inside, 1, __ATOMIC_ACQ_REL);
    for (;;) {
        int64_t seen = __atomic_load_n(&pmb_pool.left.changes, __ATOMIC_ACQUIRE);
        if (__atomic_load_n(&job->inside, __ATOMIC_ACQUIRE) == 1) return;
        pmb_gate_wait(&pmb_pool.left, seen);
    }
looked:
    return;
}

static void pmb_pool_run(int n_threads, int64_t n, pmb_piece do_it, void *what) {
    pmb_job job;
    job.seats = (int32_t)(n < n_threads ? n - 1 : n_threads - 1);
    if (job.seats > PMB_MOST_HELPERS) job.seats = PMB_MOST_HELPERS;
    if (job.seats < 1 || pmb_now_ns() < __atomic_load_n(&pmb_trial.alone_until, __ATOMIC_RELAXED)) {
        for (int64_t piece = 0; piece < n; piece++) do_it(what, piece, 0);
        return;
    }
    job.do_it = do_it;
    job.what = what;
    job.taken = job.inside = 0;
    job.n_ranges = job.seats < PMB_MOST_RANGES ? job.seats + 1 : PMB_MOST_RANGES;
    for (int64_t j = 0; j < job.n_ranges; j++) {
        job.range[j].next = n * j / job.n_ranges;
        job.range[j].end = n * (j + 1) / job.n_ranges;
    }
    pmb_lock_it(&pmb_pool.lock);
    job.after = pmb_pool.jobs;
    pmb_pool.jobs = &job;
    pmb_pool.wanted += job.seats;
    int32_t wanted = pmb_pool.wanted < PMB_MOST_HELPERS ? pmb_pool.wanted : PMB_MOST_HELPERS;
    pmb_unlock_it(&pmb_pool.lock);
    if (__atomic_load_n(&pmb_pool.helpers, __ATOMIC_RELAXED) < wanted) pmb_start_helpers(wanted);
    pmb_gate_open(&pmb_pool.posted, job.seats);
    int64_t began = pmb_now_ns(), worked = -pmb_worked_ns();
    pmb_do_pieces(&job, 0);
    worked += pmb_worked_ns();
    pmb_lock_it(&pmb_pool.lock);
    pmb_job **at = &pmb_pool.jobs;
    while (*at != &job) at = &(*at)->after;
    *at = job.after;
    pmb_pool.wanted -= job.seats;
    pmb_unlock_it(&pmb_pool.lock);
    pmb_wait_for_helpers(&job);
    __atomic_add_fetch(&pmb_trial.worked, worked, __ATOMIC_RELAXED);
    pmb_judge_helpers(pmb_now_ns() - began);
}

static int64_t pmb_pool_seen(void) {
    return __atomic_load_n(&pmb_pool.left.changes, __ATOMIC_ACQUIRE);
}
static void pmb_pool_wait(int64_t seen) {
    int64_t before = pmb_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    pmb_gate_wait(&pmb_pool.left, seen);
    pmb_looked += pmb_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
}
static void pmb_pool_tell(void) {
    pmb_gate_open(&pmb_pool.left, INT32_MAX);
}

static const pmb_pool_calls pmb_the_pool = {pmb_pool_run, pmb_pool_seen, pmb_pool_wait,
                                            pmb_pool_tell};

#endif
