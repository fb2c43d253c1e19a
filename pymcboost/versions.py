"""Facts about the installation and the machine, for bug reports."""

import os
import platform
import sys
import sysconfig
from collections.abc import Iterator
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

from pymcboost._version import __version__
from pymcboost.threads import available_memory, counted, in_words, resolve_n_jobs

PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "joblib",
    "threadpoolctl",
    "tqdm",
    "libsvm-official",
    "pandas",
    "pyarrow",
    "matplotlib",
)
VARIABLES = ("OMP_", "OPENBLAS_", "MKL_", "KMP_", "GOMP_", "VECLIB_", "PYMCBOOST_", "PYTHON_GIL")


def show_versions() -> None:
    """Print information about the installation and the machine, for bug reports.

    It prints versions of pymcboost, Python, the packages in use and the operating system. It also prints the processor,
    the compiler of the kernels, the loaded OpenMP and BLAS libraries with their threads, the available memory, and
    environment variables that affect threads. ``python -m pymcboost --show`` prints the same.

    Examples
    --------
    >>> import pymcboost
    >>> pymcboost.show_versions()  # doctest: +SKIP
    """
    print("\n".join(f"{name:<16}{text}" for name, text in facts()))


def facts() -> Iterator[tuple[str, str]]:
    """Yield pairs of a name and a text."""
    # Before any import, because scikit-learn and threadpoolctl set variables themselves.
    variables = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(VARIABLES)
    ]
    yield "pymcboost", f"{__version__} in {Path(__file__).parent}"
    lock = "free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else "with a GIL"
    implementation = f"{platform.python_implementation()} {platform.python_version()}"
    yield "Python", f"{implementation}, {lock}, {platform.python_compiler()}"
    yield "system", f"{platform.platform()}, {sys.byteorder}-endian"
    for package in PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            yield package, "not installed"
    yield from _kernel_facts()
    yield "processor", _processor()
    yield "features", _features()
    yield from _library_facts()
    free = available_memory()
    yield "memory", "unknown" if free is None else f"{in_words(free)} free"
    yield "variables", " ".join(variables) or "none"


def _kernel_facts():
    """How the kernels were compiled, and their threads. A bug report may be about kernels that cannot be imported."""
    try:
        from pymcboost._kernels import elementary
    except ImportError as error:
        yield "kernels", f"cannot be imported: {error}"
        return
    yield "kernels", f"{elementary.build()}, for {elementary.instructions()}"
    yield "threads", f"{resolve_n_jobs(None)} of {os.cpu_count() or 1} CPUs may be used"


def _features():
    """Instruction sets of the processor that NumPy has detected."""
    core = "numpy._core" if find_spec("numpy._core") else "numpy.core"  # NumPy 1
    features = import_module(f"{core}._multiarray_umath").__cpu_features__
    available = [name for name, is_available in features.items() if is_available]
    return " ".join(available) or "none that NumPy knows"


def _library_facts():
    """The BLAS and OpenMP libraries that NumPy, SciPy and other packages have loaded."""
    try:
        import scipy.linalg  # noqa: F401 -- loads its BLAS
        from threadpoolctl import threadpool_info
    except ImportError as error:
        yield "BLAS", f"unknown: {error}"
        return
    libraries = threadpool_info()
    for name, api in (("BLAS", "blas"), ("OpenMP", "openmp")):
        texts = [_library(library) for library in libraries if library["user_api"] == api]
        yield name, "; ".join(dict.fromkeys(texts)) or "none that threadpoolctl knows"


def _library(library):
    """Describe a library found by threadpoolctl."""
    words = [library["prefix"] if library["user_api"] == "openmp" else library["internal_api"]]
    words += [library[key] for key in ("version", "architecture") if library.get(key)]
    return f"{' '.join(words)}, {counted(library['num_threads'], 'thread')}"


def _processor():
    """Name of the processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            names = [
                line.partition(":")[2].strip() for line in lines if line.startswith("model name")
            ]
    except OSError:
        names = []
    return f"{names[0] if names else platform.processor() or 'unknown'} ({platform.machine()})"
