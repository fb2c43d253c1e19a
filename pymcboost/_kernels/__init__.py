"""Compiled loops over plain arrays. Nothing here imports the rest of pymcboost."""

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES


def _check_build(folder):
    """Raise ImportError if the kernels in a folder are not compiled for this Python, and say what to do.

    A folder of sources has a ``.pyx`` file for each kernel. An installed one has only the compiled files.
    """
    files = sorted(os.listdir(folder))
    built = {
        name.partition(".")[0] for name in files if name[name.find(".") :] in EXTENSION_SUFFIXES
    }
    missing = [
        name for name in files if name.endswith(".pyx") and name.removesuffix(".pyx") not in built
    ]
    if built and not missing:
        return
    python = f"Python {sys.version_info[0]}.{sys.version_info[1]} ({sys.executable})"
    compiled = [name for name in files if name.endswith((".so", ".pyd"))]
    if built:
        fault = (
            f"is only partly compiled for {python}: the extension module {missing[0]} is missing"
        )
    elif compiled:
        fault = f"is compiled for another Python ({compiled[0]}), not for {python}"
    else:
        fault = f"is not compiled for {python}"
    package = os.path.dirname(folder)
    tree = os.path.dirname(package)
    if os.path.exists(os.path.join(tree, "setup.py")):
        remedy = (
            f'compile it with: python -m pip install -e "{tree}". If you meant a pymcboost '
            "that is installed elsewhere, start Python in another folder, because the package "
            "in the current folder comes first"
        )
    else:
        remedy = "reinstall pymcboost with this Python"
    raise ImportError(f"pymcboost in {package} {fault}; {remedy}", name=__name__)


_check_build(os.path.dirname(os.path.abspath(__file__)))
