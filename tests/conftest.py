"""Options, markers and fixtures that all tests share."""

import os
from pathlib import Path

import pytest

NO_DATA = "PYMCBOOST_DATA does not name a folder of data sets; see tools/get_data.py"
N_SKIPPED = pytest.StashKey[int]()


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="also run the tests marked slow (full counts, full data)")


def pytest_collection_modifyitems(config, items):
    if not (config.option.long or config.option.markexpr):
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        if slow:
            config.hook.pytest_deselected(items=slow)
    if _data_folder() is None:
        waiting = [i for i in items if i.get_closest_marker("needs_data") or "data_folder" in i.fixturenames]
        for item in waiting:
            item.add_marker(pytest.mark.skip(reason=NO_DATA))
        config.stash[N_SKIPPED] = len(waiting)


def pytest_terminal_summary(terminalreporter, config):
    count = config.stash.get(N_SKIPPED, 0)
    if count:
        terminalreporter.write_line(f"{count} tests need data sets and were skipped: {NO_DATA}")


def _data_folder():
    name = os.environ.get("PYMCBOOST_DATA", "")
    folder = Path(name).expanduser()
    return folder.resolve() if name and folder.is_dir() else None


@pytest.fixture(scope="session")
def data_folder():
    """Folder of the data sets that PYMCBOOST_DATA names; tests that use it carry the marker needs_data."""
    folder = _data_folder()
    if folder is None:
        pytest.skip(NO_DATA)
    return folder


@pytest.fixture(scope="session")
def project_root():
    """Top folder of the source tree."""
    return Path(__file__).resolve().parents[1]
