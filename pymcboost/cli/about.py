"""What a bug report needs: versions, compiler, processor, threads."""

import os
import platform
import sys
import sysconfig
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

from pymcboost._version import __version__
from pymcboost.threads import available_cpus, available_memory, in_words

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
VARIABLES = ("OMP_", "OPENBLAS_", "MKL_", "KMP_", "GOMP_", "PYMCBOOST_", "PYTHON_GIL")


def facts():
    """Yield pairs of a name and a text."""
    yield "pymcboost", f"{__version__} in {Path(__file__).parents[1]}"
    threads = "free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else "with a GIL"
    implementation = f"{platform.python_implementation()} {platform.python_version()}"
    yield "Python", f"{implementation}, {threads}, {platform.python_compiler()}"
    yield "system", f"{platform.platform()}, {sys.byteorder}-endian"
    for package in PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            yield package, "not installed"
    yield from kernel_facts()
    yield "processor", _processor()
    count = os.cpu_count() or 1
    yield "threads", f"{available_cpus()} of {count} CPUs may be used"
    free = available_memory()
    yield "memory", "unknown" if free is None else f"{in_words(free)} free"
    found = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(VARIABLES)]
    yield "variables", " ".join(found) or "none"


def kernel_facts():
    """What compiled the kernels, and which instructions NumPy has found; an error is what a report is about."""
    try:
        from pymcboost._kernels import elementary

        compiler, openmp = elementary.build()
    except ImportError as error:
        yield "kernels", f"cannot be imported: {error}"
        return
    yield "kernels", f"{compiler}, {f'OpenMP {openmp}' if openmp else 'without OpenMP'}"
    core = "numpy._core" if find_spec("numpy._core") else "numpy.core"  # NumPy 1
    features = import_module(f"{core}._multiarray_umath").__cpu_features__
    yield "features", " ".join(name for name, there in features.items() if there)


def _processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return f"{names[0] if names else platform.processor() or 'unknown'} ({platform.machine()})"
