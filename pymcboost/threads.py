"""Threads and memory that this process may use."""

import functools
import os
import sys
import time
from pathlib import Path

# A number of threads that is accepted on any machine.
ALWAYS_ALLOWED = 8
# Seconds for which a memory reading is valid: reading takes as long as a round of a small training.
FRESH = 0.05
_memory: tuple[float, int | None] = (-1.0, None)


def _read(path):
    """Read one of Linux's files about the process or its control group; OSError on other systems."""
    return Path(path).read_text(encoding="ascii")


def _cgroup_quota():
    """CPU quota of this process's cgroup in whole CPUs, or None without one."""
    try:
        quota, period = _read("/sys/fs/cgroup/cpu.max").split()
        return None if quota == "max" else max(1, int(quota) // int(period))
    except (OSError, ValueError):
        pass
    try:
        quota = int(_read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"))
        period = int(_read("/sys/fs/cgroup/cpu/cpu.cfs_period_us"))
        return max(1, quota // period) if quota > 0 else None
    except (OSError, ValueError):
        return None


def _omp_num_threads():
    """The value of the variable OMP_NUM_THREADS, or None."""
    omp = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(omp) if omp.isdigit() and int(omp) > 0 else None


def available_cpus():
    """Number of CPUs this process may use: the minimum of OMP_NUM_THREADS, the affinity mask and the cgroup quota."""
    try:
        limits = [len(os.sched_getaffinity(0))]
    except AttributeError:
        limits = [os.cpu_count() or 1]
    omp = _omp_num_threads()
    if omp is not None:
        limits.append(omp)
    quota = _cgroup_quota()
    if quota is not None:
        limits.append(quota)
    return min(limits)


def resolve_n_jobs(n_jobs):
    """Number of threads meant by scikit-learn's ``n_jobs``.

    Parameters
    ----------
    n_jobs : int or None
        None: all CPUs available to this process. Negative: that many from the end, -1 being all. Positive: as given.

    Returns
    -------
    int
        At least 1; at most 8, or twice the CPUs of the machine if these are more. Limits of threadpoolctl hold. Results
        do not depend on it.
    """
    if n_jobs is None:
        return limited(available_cpus())
    n_jobs = int(n_jobs)
    if n_jobs == 0:
        raise ValueError(
            "n_jobs=0 is not possible; use None or -1 for all CPUs, or a number of threads >= 1"
        )
    if n_jobs < 0:
        return limited(max(1, available_cpus() + 1 + n_jobs))
    if n_jobs > ALWAYS_ALLOWED:
        n_jobs = min(n_jobs, max(ALWAYS_ALLOWED, 2 * (os.cpu_count() or 1)))
    return limited(n_jobs)


def limited(n_threads):
    """Limit a number of threads to what threadpoolctl allows."""
    # Asking for the limit takes longer than predicting one row.
    return 1 if n_threads == 1 else min(n_threads, _threadpool_limit() or n_threads)


@functools.cache
def _joblib_cpus():
    """Number of CPUs that scikit-learn uses by default. Cached, as in scikit-learn: joblib takes 40 us to count."""
    return sys.modules["joblib"].cpu_count()


def _threadpool_limit():
    """Limit that threadpoolctl has set on OpenMP for this thread; None without a limit.

    The kernels have their own threads, so scikit-learn is asked, if it has been imported.
    """
    openmp = sys.modules.get("sklearn.utils._openmp_helpers")
    if openmp is None or "joblib" not in sys.modules or not openmp._openmp_parallelism_enabled():
        return None
    n_threads = openmp._openmp_effective_n_threads(only_physical_cores=False)
    by_default = _omp_num_threads() or _joblib_cpus()
    return n_threads if n_threads < by_default else None


# With fewer table updates per scan than this, starting threads costs more than it saves.
SMALL_WORK = 1_000_000
# The same for trees, whose nodes are many small scans that threads share.
SMALL_TREE_WORK = 100_000


def threads_for(work, n_threads, small=None):
    """Number of threads for a scan with this many table updates: one if there are fewer than ``small``."""
    if small is None or small > SMALL_WORK:
        small = SMALL_WORK
    return 1 if work < small else n_threads


def in_words(size):
    """Format a number of bytes, such as 1.5 GiB."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024


def counted(n, noun, plural=None):
    """Format a number with its noun: 1 row, 2 rows. ``plural`` is needed if it is not formed with an s."""
    return f"{n} {noun}" if n == 1 else f"{n} {plural or noun + 's'}"


def available_memory():
    """Bytes of memory available to this process, or None if the system does not tell.

    The minimum of MemAvailable in /proc/meminfo (on other systems, the total memory of the machine) and what the
    control group and the limit of the process (``ulimit -v``) have left; at most `FRESH` seconds old.
    """
    global _memory
    now = time.monotonic()
    if now - _memory[0] > FRESH:
        _memory = now, _read_memory()
    return _memory[1]


def share_of_memory(room, beside):
    """Memory that each of the workers on this machine may use, and a description in words."""
    if room is None:
        return None, ""
    limit = _address_space()  # the limit of this process only
    room_of_machine = min(_machine_memory(), default=room) if limit else room
    share = room_of_machine / max(1, beside)
    if beside <= 1 or (limit and limit[0] < share):
        room = min([room, *limit])
        return room, f"{in_words(room)} are free"
    return share, f"{in_words(share)} are free for each of the {beside} workers on this machine"


def _read_memory():
    """The least that the machine, the control group or the process has left; None if the system does not tell."""
    return min([*_machine_memory(), *_address_space()], default=None)


def _machine_memory():
    """Memory that the machine and the control group have left, in a list."""
    limits = []
    try:
        lines = _read("/proc/meminfo").splitlines()
        limits += [
            int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")
        ]
    except (OSError, ValueError, IndexError):
        limits += _physical_memory()
    try:
        used = dict(line.split() for line in _read("/sys/fs/cgroup/memory.stat").splitlines())
        # Cached files, which the system frees if memory gets short.
        files = int(used["file"]) - int(used["shmem"])
        room = int(_read("/sys/fs/cgroup/memory.max")) - int(_read("/sys/fs/cgroup/memory.current"))
        limits.append(max(0, room + files))
    except (OSError, ValueError, KeyError):
        pass
    return limits


def _physical_memory():
    """Total memory of a machine without /proc, such as macOS, in a list; empty if unknown (Windows)."""
    try:
        return [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, OSError, ValueError):
        return []


def _address_space():
    """Address space that the process has left, in a list; empty if there is no limit."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most == resource.RLIM_INFINITY:
            return []
        mapped = int(_read("/proc/self/statm").split()[0]) * resource.getpagesize()
        return [max(0, most - mapped)]
    except (ImportError, OSError, ValueError, IndexError):
        return []
