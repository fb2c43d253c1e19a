"""``python -m pymcboost``: about the installation itself."""

import os
import platform
import sys
import sysconfig
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

from pymcboost._version import __version__
from pymcboost.cli.console import EXIT_CODES, Parser, importing, run
from pymcboost.threads import available_cpus, available_memory, in_words

PROGRAM = "python -m pymcboost"
USAGE = f"{PROGRAM} [--version] [--show] [--include] [--cmake] [--pkgconfig]"
DESCRIPTION = """\
About the installation. The programs are mcboost-train, mcboost-tune,
mcboost-predict, mcboost-info and mcboost-convert."""
FOLDERS = {"include": (), "cmake": ("cmake",), "pkgconfig": ("pkgconfig",)}
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


def main(argv=None):
    """Run ``python -m pymcboost`` and return its exit status."""
    return run(PROGRAM, package, argv)


def package(argv):
    """Do what the arguments ask."""
    parser = Parser(PROGRAM, USAGE, description=DESCRIPTION, epilog=EXIT_CODES)
    parser.add_argument("--version", action="store_true", help="print the version")
    text = "print what a bug report needs: versions, compiler, processor, threads, variables"
    parser.add_argument("--show", action="store_true", help=text)
    parser.add_argument("--include", action="store_true", help="print the folder of mcb.h and mcb.hpp")
    parser.add_argument("--cmake", action="store_true", help="print the folder of mcb-config.cmake, for -Dmcb_DIR=")
    parser.add_argument("--pkgconfig", action="store_true", help="print the folder of mcb.pc, for PKG_CONFIG_PATH")
    arguments = parser.parse_args(argv)
    if not any(vars(arguments).values()):
        parser.error("nothing to do")
    if arguments.version and not arguments.show:
        print(f"pymcboost {__version__}")
    if arguments.show:
        with importing():
            found = list(facts())
        print("\n".join(f"{name:<16}{text}" for name, text in found))
    for name, parts in FOLDERS.items():
        if getattr(arguments, name):
            from pymcboost import get_include

            print(Path(get_include(), *parts))


def facts():
    """What a bug report needs: pairs of a name and a text."""
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
