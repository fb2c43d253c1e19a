# cython: language_level=3
"""Sums over workers: the hook of ``workers.h``, which calls a communicator of Python. Growers reach it by `cimport`."""

from libc.stdint cimport int32_t, int64_t

import numpy as np


cdef int sum_over_workers(void *communicator, void *numbers, int64_t n, int n_bytes,
                          const int64_t *lengths) noexcept nogil:
    with gil:
        return (<Workers> communicator).add_up(numbers, n, n_bytes, lengths)


cdef class Workers:
    """The workers of a communicator. The grower whose rows are divided among them keeps this object."""

    def __cinit__(self, comm):
        self.comm = comm
        self.calls.add_up, self.calls.communicator = sum_over_workers, <void *> self
        self.calls.n_workers, self.calls.rank = comm.size, comm.rank
        self.calls.scattered = min(comm.scattered, 1 << 62)

    cdef void begin(self) noexcept:
        """Before growth: the first sum will compare what workers are about to do. They cannot fail until its end."""
        self.is_begun = False
        self.calls.failed = 0

    cdef int check(self) except -1:
        """After growth: raise the error of a sum that has failed."""
        if self.calls.failed:
            error, self.error = self.error, None
            raise error
        return 0

    cdef int add_up(self, void *numbers, int64_t n, int n_bytes, const int64_t *lengths) noexcept:
        """Sum in place; 1 if that fails."""
        cdef int32_t[::1] narrow
        cdef int64_t[::1] wide
        cdef const int64_t[::1] parts
        try:
            if n_bytes == 4:
                narrow = <int32_t[:n]> <int32_t *> numbers
                array = np.asarray(narrow)
            else:
                wide = <int64_t[:n]> <int64_t *> numbers
                array = np.asarray(wide)
            if lengths == NULL:
                self.comm.sum(array, sure=self.is_begun)
            else:
                parts = <const int64_t[:self.calls.n_workers]> lengths
                self.comm.sum_scatter(array, np.array(parts), sure=self.is_begun)
            self.is_begun = True
        except BaseException as error:
            self.error = error
            return 1
        return 0
