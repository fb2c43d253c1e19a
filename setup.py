"""Build the Cython kernels: every ``pymcboost/_kernels/*.pyx`` is one extension module.

Environment variables
---------------------
CC                      the C compiler, as everywhere
PYMCBOOST_WERROR=1      treat C compiler warnings as errors
PYMCBOOST_CFLAGS        more flags for the C compiler, after ours: -O1 builds faster
PYMCBOOST_PROGRESS      a file to which a line is written for each kernel that is compiled: pip shows no output
PYMCBOOST_CLONES        none, v3 or v4: kernels for that CPU generation alone, in place of clones for each; for tests
"""

import contextlib
import multiprocessing
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import setuptools
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

if int(setuptools.__version__.split(".")[0]) < 77:
    sys.exit(
        f"setup.py: setuptools {setuptools.__version__} is below 77; python -m pip install --upgrade setuptools"
    )

KERNELS = Path("pymcboost/_kernels")
INCLUDE = Path("pymcboost/include")
WINDOWS = sys.platform == "win32"

# What Cython's generated code provokes and nobody here can mend. Our own headers are compiled once more without these.
GENERATED_CODE = [
    "-Wno-unused-function",
    "-Wno-unused-parameter",
    "-Wno-sign-compare",
    "-Wno-missing-field-initializers",
]

# mcb.h only adds products that are exact, so that contraction changes no bit of a score and may make it faster.
NOT_FOR = {"score": ("-ffp-contract=off",)}
# At -O2 alone, the search of sparse stumps takes 1.2 times as long, and scores of stumps 1.1 times.
MORE_FOR = {"stumps": "-O3", "score": "-fsplit-paths"}

# What Cython writes for memory views: one module for all kernels, which would otherwise hold it each.
SHARED = "pymcboost._kernels._shared"

# Kernels have clones for each CPU generation, of which the CPU takes its own; a test can fix the choice.
CLONES = {
    "": [],
    "none": ["-DPMB_CLONES="],
    "v3": ['-DPMB_CLONES=__attribute__((target("avx2")))', "-DPMB_HAS_256=1", "-DPMB_HAS_512=0"],
    "v4": [
        '-DPMB_CLONES=__attribute__((target("arch=x86-64-v4")))',
        "-DPMB_HAS_256=1",
        "-DPMB_HAS_512=1",
    ],
}


def compiler():
    """The C compiler and its options; on Windows gcc, as Microsoft's has no vector types."""
    given = os.environ.get("CC")
    return shlex.split(given or ("gcc" if WINDOWS else sysconfig.get_config_var("CC")) or "cc")


def compiles(flags, program="int main(void) { return 0; }"):
    """Whether the C compiler builds a program with these flags."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "probe.c")
        path.write_text(program)
        command = [*compiler(), *flags, str(path), "-o", str(Path(folder, "probe"))]
        try:
            return subprocess.run(command, capture_output=True).returncode == 0
        except OSError:
            return False


def known(*flags):
    """Those of the flags that the compiler has."""
    return [flag for flag in flags if compiles([flag, "-Werror"])]


def optimisation_flags():
    """-O2 with the loops that gcc vectorises at -O3: as fast as -O3, in three quarters of the size."""
    return ["-O2", *known("-fvect-cost-model=dynamic")]  # clang vectorises them anyway


# Templates are named by a macro: #define PMB_BODY "stumps_body.h".
INCLUDES = re.compile(
    r'^\s*(?:#include|#define PMB_BODY|cdef extern from|include) "([\w/.]+)"', re.MULTILINE
)
CIMPORTS = re.compile(r"^from (?:pymcboost\._kernels)?\.(\w+) cimport", re.MULTILINE)


def files_of(kernel):
    """Files that a kernel is compiled from: it includes them, or they do so in turn."""
    seen = {KERNELS / f"{kernel}.pyx"}
    open_files = [*seen]
    while open_files:
        path = open_files.pop()
        text = path.read_text(encoding="utf-8")
        names = INCLUDES.findall(text) + [f"{name}.pxd" for name in CIMPORTS.findall(text)]
        if path.suffix == ".pyx":
            names.append(f"{path.stem}.pxd")
        paths = {folder / name for name in names for folder in (KERNELS, INCLUDE)}
        new = {path for path in paths if path.is_file()} - seen
        open_files += new
        seen |= new
    return sorted(seen)


def extensions():
    """One Extension per .pyx file, rebuilt when a file that it includes or setup.py changes, and what they share."""
    # Contraction to fused multiply-add would make results differ between CPUs.
    compile_args = [
        *optimisation_flags(),
        "-g0",
        "-ffp-contract=off",
        "-fno-math-errno",
        "-std=gnu11",
        "-pthread",
    ]
    if WINDOWS:
        compile_args += ["-DMS_WIN64=1"]  # Python's headers say so for Microsoft's compiler alone
    compile_args += CLONES[os.environ.get("PYMCBOOST_CLONES", "")]
    if os.environ.get("PYMCBOOST_WERROR", "0") not in ("", "0"):
        compile_args += ["-Wall", "-Wextra", "-Werror", *GENERATED_CODE]
    last_args = shlex.split(os.environ.get("PYMCBOOST_CFLAGS", ""))
    more = {kernel: known(flag) for kernel, flag in MORE_FOR.items()}
    shared = Extension(
        SHARED, [str(KERNELS / "_shared.c")], extra_compile_args=compile_args + last_args
    )
    return [
        shared,
        *(
            Extension(
                f"pymcboost._kernels.{path.stem}",
                [str(path)],
                include_dirs=[str(KERNELS), str(INCLUDE)],
                extra_compile_args=[
                    *(arg for arg in compile_args if arg not in NOT_FOR.get(path.stem, ())),
                    *more.get(path.stem, ()),
                    *last_args,
                ],
                extra_link_args=["-pthread"],
                depends=["setup.py", *map(str, files_of(path.stem))],
            )
            for path in sorted(KERNELS.glob("*.pyx"))
        ),
    ]


JOBS = min(4, os.cpu_count() or 1)
SLOW = {
    "vector_loss",
    "stumps",
    "score",
    "vector_trees64",
    "pairwise_weights",
}  # of the kernels, to compile
FORKS = (
    multiprocessing.get_start_method() == "fork"
)  # elsewhere each process would run this file anew
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    "embedsignature": False,
}


class BuildKernels(build_ext):
    """Compiles kernels side by side, and says so of each in the file of PYMCBOOST_PROGRESS."""

    n_done = 0

    def finalize_options(self):
        super().finalize_options()
        self.parallel = (
            self.parallel or JOBS
        )  # an option of `setup` would be lost in an editable build
        # First what takes longest, so that it is not compiled alone at the end.
        self.extensions.sort(key=lambda ext: ext.name.rpartition(".")[2] not in SLOW)

    def build_extension(self, ext):
        begin = time.monotonic()
        super().build_extension(ext)
        self.n_done += 1
        name, seconds = ext.name.rpartition(".")[2], time.monotonic() - begin
        with (
            contextlib.suppress(OSError),
            open(os.environ.get("PYMCBOOST_PROGRESS") or os.devnull, "a") as file,
        ):
            file.write(f"  {self.n_done:2} of {len(self.extensions)}: {name}, {seconds:.0f} s\n")


WITHOUT_C = {"sdist", "egg_info", "dist_info"}
BUILDS = "build", "bdist", "develop", "editable", "install"

modules = extensions()
if not WITHOUT_C.intersection(sys.argv[1:2]) or any(word.startswith(BUILDS) for word in sys.argv):
    modules = cythonize(
        modules,
        compiler_directives=DIRECTIVES,
        shared_utility_qualified_name=SHARED,
        nthreads=JOBS if FORKS else 0,
    )

# Where the project is, such as https://github.com/OWNER/pymcboost; the workflows set it.
URL = os.environ.get("PYMCBOOST_URL")
URLS = {"Source": URL, "Changelog": f"{URL}/blob/main/CHANGELOG.md", "Issues": f"{URL}/issues"}

setup(
    project_urls=URLS if URL else {},
    cmdclass={"build_ext": BuildKernels},
    ext_modules=modules,
    options={"build_ext": {"compiler": "mingw32"}} if WINDOWS else {},
)
