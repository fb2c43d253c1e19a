"""Build the Cython kernels: every ``pymcboost/_kernels/*.pyx`` is one extension module.

Environment variables
---------------------
PYMCBOOST_NO_OPENMP=1   build without OpenMP
PYMCBOOST_WERROR=1      treat C compiler warnings as errors
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

KERNELS = Path("pymcboost/_kernels")
INCLUDE = Path("pymcboost/include")
MSVC = sys.platform == "win32"


def compiles(flags):
    """Whether the C compiler builds and links a small OpenMP program with these flags."""
    source = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "probe.c")
        path.write_text(source)
        command = [*compiler, *flags, str(path), "-o", str(Path(folder, "probe"))]
        try:
            return subprocess.run(command, capture_output=True).returncode == 0
        except OSError:
            return False


def openmp_flags():
    if os.environ.get("PYMCBOOST_NO_OPENMP"):
        return [], []
    if MSVC:
        return ["/openmp"], []
    if compiles(["-fopenmp"]):
        return ["-fopenmp"], ["-fopenmp"]
    print("pymcboost: this compiler has no OpenMP; building single-threaded kernels", file=sys.stderr)
    return [], []


def extensions():
    omp_compile, omp_link = openmp_flags()
    if MSVC:
        compile_args = ["/O2", "/fp:precise"]
    else:
        # Contraction to fused multiply-add would make results differ between CPUs.
        compile_args = ["-O3", "-ffp-contract=off", "-fno-math-errno", "-std=gnu11"]
        if os.environ.get("PYMCBOOST_WERROR"):
            # Cython's own generated code is not ours to mend: unused helpers and sign comparisons stay quiet.
            compile_args += ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-Wno-unused-parameter",
                             "-Wno-sign-compare", "-Wno-missing-field-initializers", "-Wno-cast-function-type"]
    headers = [str(path) for folder in (KERNELS, INCLUDE) for path in sorted(folder.glob("*.h"))]
    return [
        Extension(
            f"pymcboost._kernels.{path.stem}",
            [str(path)],
            include_dirs=[str(KERNELS), str(INCLUDE)],
            extra_compile_args=compile_args + omp_compile,
            extra_link_args=omp_link,
            depends=headers,
        )
        for path in sorted(KERNELS.glob("*.pyx"))
    ]


DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": False,
}

setup(ext_modules=cythonize(extensions(), compiler_directives=DIRECTIVES, nthreads=0))
