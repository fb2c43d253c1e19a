"""The options and fixtures of the package's tests, and tools/ on the path."""

import contextlib
import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
_spec = importlib.util.spec_from_file_location(
    "conftest_of_the_package", ROOT / "tests" / "conftest.py"
)
package = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(package)
collect_ignore = ["additions"]
data_folder = package.data_folder
pytest_collection_modifyitems = package.pytest_collection_modifyitems
pytest_sessionfinish = package.pytest_sessionfinish
pytest_terminal_summary = package.pytest_terminal_summary
pytest_testnodedown = package.pytest_testnodedown


def pytest_addoption(parser):
    with contextlib.suppress(ValueError):  # both folders in one run
        package.pytest_addoption(parser)
