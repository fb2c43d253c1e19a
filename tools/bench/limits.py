"""The speed of the machine, from the small C library tools/limits/limits.c; and C programs around mcb.h."""

import ctypes
import subprocess
import tempfile
from pathlib import Path

from shared import measure

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

    def _best(self, name, count, repeat):
        function = getattr(self.library, name)
        function.restype = ctypes.c_double
        return min(function(ctypes.c_long(count)) for _ in range(repeat))

    def clock(self, repeat=5):
        """Clock in GHz while this runs; None on CPUs for which it is not written down."""
        additions = 1 << 24
        seconds = self._best("lim_clock", additions, repeat)
        return additions / seconds / 1e9 if seconds > 0 else None

    def row(self, repeat=5):
        """Nanoseconds of one read-modify-write of a random row of 64 bytes in a table that lies in the first cache."""
        passes = 1000
        draws = 4096
        return self._best("lim_rows", passes, repeat) / (passes * draws) * 1e9

    def all(self, repeat=5):
        """Both, with units in the names."""
        return {"clock_GHz": self.clock(repeat), "rmw_64B_L1_ns": self.row(repeat)}


def run_c(source, folder, flags, words, libraries=("-lm",)):
    """Compile a program of tools/limits with mcb.h and run it; returns {first word of a line: the others}."""
    import pymcboost

    program = Path(folder, Path(source).stem)
    flags = ["-std=c99", *flags, "-I", pymcboost.get_include()]
    measure.compile_c(FOLDER / source, program, flags, libraries=libraries)
    completed = subprocess.run(
        [str(program), *map(str, words)], capture_output=True, text=True, check=True
    )
    return {name: rest for name, *rest in map(str.split, completed.stdout.splitlines())}


def c_row(what, words, runs):
    """Row of a report from the nanoseconds "best median" of a C program."""
    best, median = (float(word) * 1e-3 for word in words)
    return {"what": what, "best": best, "median": median, "runs": runs, "unit": "us"}
