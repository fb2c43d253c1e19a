"""Limits of the machine, from the small C library tools/limits/limits.c; and C programs around mcb.h."""

import ctypes
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from shared import measure

from bench.report import Report, benchmark

FOLDER = Path(__file__).resolve().parents[1] / "limits"
BUILDS = {"-O2": ["-O2"], "-O2 -DMCB_SIMD": ["-O2", "-DMCB_SIMD"]}


def limit_flags():
    """Compiler flags for the widest vectors of this CPU."""
    flags = measure.cpu_flags()
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags:
        return ["-O3", "-march=x86-64-v4", "-mprefer-vector-width=512"]
    return ["-O3", "-march=x86-64-v3"] if {"avx2", "fma"} <= flags else ["-O3"]


class Limits:
    """The functions of limits.c, compiled for this machine."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="mcboost-limits-")
        library = Path(self.folder.name, "limits.so")
        measure.compile_c(FOLDER / "limits.c", library, [*limit_flags(), "-shared", "-fPIC"])
        self.library = ctypes.CDLL(str(library))
        self.library.lim_widest.restype = ctypes.c_long

    def _call(self, name, *counts):
        function = getattr(self.library, name)
        function.restype = ctypes.c_double
        buffer = () if name == "lim_clock" else ((ctypes.c_float * 16)(*([1.0] * 16)),)
        return function(*map(ctypes.c_long, counts), *buffer)

    def _best(self, name, *counts, repeat):
        return min(self._call(name, *counts) for _ in range(repeat))

    def clock(self, repeat=5):
        """Clock in GHz while this runs; None on CPUs for which it is not written down."""
        n = 1 << 24
        seconds = self._best("lim_clock", n, repeat=repeat)
        return n / seconds / 1e9 if seconds > 0 else None

    def add(self, width, repeat=5):
        """Gflop/s of independent float additions with vectors of ``width`` bytes (4: scalar)."""
        n = 1 << 25
        return n * (width // 4) / self._best(f"lim_add_{width}", n, repeat=repeat) / 1e9

    def read(self, size, threads=1, repeat=5):
        """GB/s of reading ``size`` bytes again and again, in each of ``threads`` threads a buffer of its own."""
        passes = max(1, (1 << 28) // size)

        with ThreadPoolExecutor(threads) as pool:
            calls = [("lim_read", size, passes)] * threads
            # The buffers are filled outside the timed part, so the slowest thread's own time is taken.
            best = min(max(pool.map(lambda call: self._call(*call), calls)) for _ in range(repeat))
        return threads * size * passes / best / 1e9

    def rmw(self, row_bytes, rows=256, repeat=7, draw=True):
        """Nanoseconds of one read-modify-write of a row of a table of ``rows`` rows: drawn, or all in turn."""
        draws, passes = 4096, 1000
        seconds = self._best(f"lim_rmw_{row_bytes}", rows, draws, passes, int(draw), repeat=repeat)
        return seconds / (draws * passes) * 1e9

    def plain_pass(self, m, repeat=5, dtype=np.float32):
        """Nanoseconds per number of reading and writing m floats (or doubles) once."""
        passes = max(1, (1 << 26) // m)
        name = "lim_pass" if dtype == np.float32 else "lim_pass_double"
        return self._best(name, m, passes, repeat=repeat) / (m * passes) * 1e9

    def all(self, repeat=5):
        """Every limit, as a flat dictionary with units in the names."""
        sizes, few = measure.caches(), min(repeat, 3)
        found = {"clock_GHz": self.clock(repeat), "scalar_add_Gflops": self.add(4, repeat)}
        for width in (16, 32, 64):
            if width <= self.library.lim_widest():
                found[f"vector_add_{width}B_Gflops"] = self.add(width, repeat)
        for level, size in sizes.items():
            found[f"read_{level}_GBps"] = self.read(size // 2, repeat=repeat)
        dram = 4 * max(sizes.values())
        found["read_DRAM_GBps"] = self.read(dram, repeat=few)
        found["read_DRAM_2_threads_GBps"] = self.read(dram, threads=2, repeat=few)
        for width in (64, 32, 16, 8):
            found[f"rmw_{width}B_L1_ns"] = self.rmw(width, repeat=repeat)
        found["rmw_64B_L2_ns"] = self.rmw(64, rows=sizes.get("L2", 1 << 20) // 2 // 64, repeat=repeat)
        found["rmw_64B_one_row_ns"] = self.rmw(64, rows=1, repeat=few)
        for m in (7494, 60000, 10_000_000):
            found[f"pass_{m}_floats_ns_per_float"] = self.plain_pass(m, repeat)
        return found


def run_c(source, folder, flags, words, libraries=("-lm",)):
    """Compile a program of tools/limits with mcb.h and run it; returns {first word of a line: the others}."""
    import pymcboost

    program = Path(folder, Path(source).stem)
    flags = ["-std=c99", *flags, "-I", pymcboost.get_include()]
    measure.compile_c(FOLDER / source, program, flags, libraries)
    done = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True, check=True)
    return {name: rest for name, *rest in map(str.split, done.stdout.splitlines())}


def c_row(what, words, runs):
    """Row of a report from the nanoseconds "best median" of a C program."""
    best, median = (float(word) * 1e-3 for word in words)
    return {"what": what, "best": best, "median": median, "runs": runs, "unit": "us"}


@benchmark("limits")
def bench_limits(options):
    """Limits of the machine: additions, memory, random rows; measured again with every other benchmark."""
    return Report()
