# cython: language_level=3
"""Files in memory that others make shorter: a page that is gone ends a process by SIGBUS, unless it has a shield.

Where such a page is touched, the rest of the range becomes zeros, and the shield says that it was. Faults elsewhere go
to whoever handled them before.
"""

from libc.stdint cimport uintptr_t

cdef extern from * nogil:
    """
    #include <stdint.h>
    #if defined(_WIN32) /* files in memory cannot be made shorter there */
    static int pmb_shield(uintptr_t begin, uintptr_t end) { (void)begin, (void)end; return -1; }
    static int pmb_is_lost(int slot) { (void)slot; return 0; }
    static void pmb_unshield(int slot) { (void)slot; }
    #else
    #include <signal.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <unistd.h>
    #ifndef MAP_ANONYMOUS
    #define MAP_ANONYMOUS MAP_ANON
    #endif
    #define PMB_SHIELDS 64
    static struct { volatile uintptr_t begin, end; volatile sig_atomic_t lost; } pmb_shields[PMB_SHIELDS];
    static struct sigaction pmb_before;
    static uintptr_t pmb_page;
    static int pmb_n_shields;

    static void pmb_on_bus(int sig, siginfo_t *info, void *context) {
        uintptr_t at = (uintptr_t)info->si_addr;
        (void)context;
        for (int j = 0; j < PMB_SHIELDS && info->si_code > 0; j++) {
            if (at < pmb_shields[j].begin || at >= pmb_shields[j].end) continue;
            at -= at % pmb_page;
            if (mmap((void *)at, pmb_shields[j].end - at, PROT_READ | PROT_WRITE,
                     MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED) break;
            pmb_shields[j].lost = 1;
            return;
        }
        sigaction(SIGBUS, &pmb_before, NULL);
        raise(sig);
    }

    /* Both are called with Python's lock held. */
    static int pmb_shield(uintptr_t begin, uintptr_t end) {
        struct sigaction ours;
        int j = 0;
        while (j < PMB_SHIELDS && pmb_shields[j].end) j++;
        if (j == PMB_SHIELDS) return -1;
        if (!pmb_n_shields) {
            memset(&ours, 0, sizeof ours);
            ours.sa_sigaction = pmb_on_bus;
            ours.sa_flags = SA_SIGINFO;
            sigemptyset(&ours.sa_mask);
            pmb_page = (uintptr_t)sysconf(_SC_PAGESIZE);
            if (sigaction(SIGBUS, &ours, &pmb_before)) return -1;
        }
        pmb_n_shields++;
        pmb_shields[j].lost = 0;
        pmb_shields[j].begin = begin;
        pmb_shields[j].end = end;
        return j;
    }

    static int pmb_is_lost(int slot) { return slot >= 0 && pmb_shields[slot].lost; }

    static void pmb_unshield(int slot) {
        struct sigaction now;
        if (slot < 0) return;
        pmb_shields[slot].end = pmb_shields[slot].begin = 0;
        if (--pmb_n_shields || sigaction(SIGBUS, NULL, &now)) return;
        if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == pmb_on_bus) sigaction(SIGBUS, &pmb_before, NULL);
    }
    #endif
    """
    int pmb_shield(uintptr_t begin, uintptr_t end)
    int pmb_is_lost(int slot)
    void pmb_unshield(int slot)


cdef class Shield:
    """Holds a file in memory, and keeps the process alive where the file gets shorter.

    Parameters
    ----------
    memory : mmap.mmap
    """

    cdef object memory
    cdef int slot

    def __cinit__(self, memory):
        cdef const unsigned char[::1] view = memory
        cdef uintptr_t begin = <uintptr_t> &view[0]
        self.memory = memory
        self.slot = pmb_shield(begin, begin + view.shape[0])

    def __dealloc__(self):
        pmb_unshield(self.slot)

    @property
    def lost(self):
        """Whether pages were touched that the file has no more."""
        return pmb_is_lost(self.slot) != 0
