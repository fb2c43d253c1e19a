/* The part of OpenMP that the kernels use, from pthreads alone, for ThreadSanitizer: it does not see how gcc's own library
 * makes threads wait for each other, and would call every loop a race. See tools/sanitize.py.
 *
 * As in gcc's library, a parallel region inside of another has one thread. A region's loops and barriers are passed by all
 * of its threads in the same order. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_THREADS = 64, MOST_LOOPS = 64 };

typedef struct {
    long next, end, step, chunk; /* step > 0 */
} loop;

typedef struct {
    void (*body)(void *);
    void *data;
    int n_threads, n_loops; /* n_loops: that any thread has begun */
    loop loops[MOST_LOOPS];
    pthread_mutex_t mutex;
    pthread_barrier_t barrier;
} team;

/* number: of the thread in its team; at: the loop where it is, from 1 on */
static __thread struct {
    team *team;
    int number, at;
} self;

int omp_get_num_procs(void) {
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

int omp_get_max_threads(void) {
    const char *given = getenv("OMP_NUM_THREADS");
    int n = given ? atoi(given) : 0;
    return n > 0 ? n : omp_get_num_procs();
}

int omp_get_num_threads(void) {
    return self.team ? self.team->n_threads : 1;
}

int omp_get_thread_num(void) {
    return self.number;
}

typedef struct {
    team *team;
    int number;
} seat;

static void *run(void *of) {
    seat *mine = of;
    self.team = mine->team;
    self.number = mine->number;
    self.at = 0;
    mine->team->body(mine->team->data);
    return NULL;
}

void GOMP_parallel(void (*body)(void *), void *data, unsigned n_threads, unsigned flags) {
    team t = {.body = body, .data = data};
    seat seats[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    __typeof__(self) outer = self;
    (void)flags;
    t.n_threads = n_threads ? (int)n_threads : omp_get_max_threads();
    if (t.n_threads > MOST_THREADS) t.n_threads = MOST_THREADS;
    if (outer.team) t.n_threads = 1;
    pthread_mutex_init(&t.mutex, NULL);
    pthread_barrier_init(&t.barrier, NULL, (unsigned)t.n_threads);
    for (int i = 0; i < t.n_threads; i++) {
        seats[i] = (seat){&t, i};
        if (i && pthread_create(&threads[i], NULL, run, &seats[i])) {
            fputs("sanitize_openmp: a thread cannot be started\n", stderr);
            abort();
        }
    }
    run(&seats[0]);
    for (int i = 1; i < t.n_threads; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&t.barrier);
    pthread_mutex_destroy(&t.mutex);
    self = outer;
}

/* Take the next chunk of the loop where this thread is: false where there is none. */
bool GOMP_loop_nonmonotonic_dynamic_next(long *begin, long *end) {
    team *t = self.team;
    loop *l = &t->loops[self.at - 1];
    pthread_mutex_lock(&t->mutex);
    *begin = l->next;
    *end = l->end - l->next > l->chunk * l->step ? l->next + l->chunk * l->step : l->end;
    l->next = *end;
    pthread_mutex_unlock(&t->mutex);
    return *begin < *end;
}

bool GOMP_loop_nonmonotonic_dynamic_start(long start, long stop, long step, long chunk, long *begin,
                                          long *end) {
    team *t = self.team;
    if (!t || step < 1 || self.at == MOST_LOOPS) {
        fputs("sanitize_openmp: a loop of a kind that no kernel had\n", stderr);
        abort();
    }
    pthread_mutex_lock(&t->mutex);
    if (self.at == t->n_loops) t->loops[t->n_loops++] = (loop){start, stop, step, chunk};
    self.at++;
    pthread_mutex_unlock(&t->mutex);
    return GOMP_loop_nonmonotonic_dynamic_next(begin, end);
}

void GOMP_loop_end_nowait(void) {}

void GOMP_barrier(void) {
    if (self.team) pthread_barrier_wait(&self.team->barrier);
}

void GOMP_loop_end(void) {
    GOMP_barrier();
}
