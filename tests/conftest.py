"""Options, markers and fixtures that all tests share."""

import gc
import os
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from zlib import crc32

import pytest

# Before a library counts the CPUs: threads that wait take no time from others, and where tests run side by side, each
# process has its share of the CPUs.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if _workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 0)):
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(_name, str(max(1, (os.cpu_count() or 1) // _workers)))

# What tests save need not outlive a loss of power: thousands of files would be waited for.
os.fsync = lambda file: None

# Without kept bytecode each of the processes that tests start compiles the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

NO_DATA = "PYMCBOOST_DATA does not name a folder of data sets; see tools/get_data.py"
N_SLOW = pytest.StashKey[int]()


def pytest_addoption(parser):
    parser.addoption(
        "--long",
        action="store_true",
        help="also run the tests marked slow (full counts, full data)",
    )
    parser.addoption(
        "--without-posix",
        action="store_true",
        help="hide from the package what Windows does not have",
    )


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        # The processes of a run share the programs that tests compile (c/build.py).
        os.environ["PYMCBOOST_TEST_PROGRAMS"] = tempfile.mkdtemp(prefix="pymcboost-programs-")
    if config.option.without_posix:
        import importlib

        folder = str(Path(__file__).parent / "without_posix")
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, [folder, os.environ.get("PYTHONPATH")])
        )
        sys.modules.pop("sitecustomize", None)
        sys.path.insert(0, folder)
        importlib.import_module("sitecustomize")


def pytest_unconfigure(config):
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop("PYMCBOOST_TEST_PROGRAMS"), ignore_errors=True)


def pytest_collection_modifyitems(config, items):
    if not (config.option.long or config.option.markexpr):
        slow = [*(item for item in items if item.get_closest_marker("slow")), *_left_out(items)]
        gone = set(slow)
        items[:] = [item for item in items if item not in gone]
        config.stash[N_SLOW] = len(slow)
        if slow:
            config.hook.pytest_deselected(items=slow)
    if config.option.without_posix or os.name != "posix":
        for item in items:
            if item.get_closest_marker("posix"):
                item.add_marker(pytest.mark.skip(reason="needs what POSIX systems alone have"))
    if _data_folder() is None:
        for item in items:
            if item.get_closest_marker("needs_data") or "data_folder" in item.fixturenames:
                item.add_marker(pytest.mark.skip(reason=NO_DATA))


def pytest_collection_finish():
    """Ten thousand tests and their modules stay to the end: no search for garbage has to visit them."""
    gc.collect()
    gc.freeze()


def _same_draws(name):
    """What is fitted without a random_state draws from NumPy's generator: each run finds it in the same state."""
    import numpy as np  # its BLAS counts the threads when it is first imported

    np.random.seed(crc32(name.encode()))  # noqa: NPY002 -- the one that random_state=None stands for


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef, request):
    _same_draws(f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param_index', 0)}]")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    _same_draws(pyfuncitem.nodeid)


def _left_out(items):
    """Cases that the markers families and part(n) leave to the long run."""
    seen = Counter()
    for item in items:
        if marker := item.get_closest_marker("families"):
            from contract.variants import FAMILIES

            if item.callspec.params[marker.args[0] if marker.args else "algorithm"] not in FAMILIES:
                yield item
                continue
        if marker := item.get_closest_marker("part"):
            function = item.nodeid.partition("[")[0]
            if seen[function] % marker.args[0]:
                yield item
            seen[function] += 1


def pytest_sessionfinish(session):
    if hasattr(
        session.config, "workeroutput"
    ):  # one process of several: only the first collects nothing
        session.config.workeroutput["n_slow"] = session.config.stash.get(N_SLOW, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    node.config.stash[N_SLOW] = getattr(node, "workeroutput", {}).get("n_slow", 0)


def pytest_terminal_summary(terminalreporter, config):
    if count := config.stash.get(N_SLOW, 0):
        terminalreporter.write_line(
            f"{count} tests were left out; --long (make test-long) runs them"
        )
    count = sum(
        NO_DATA in str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])
    )
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


@pytest.fixture
def moved(monkeypatch):
    """Turns on moving the rows of small nodes, in small data too; the list that it gives has where they went."""
    found = []

    from pymcboost.data import tree_layouts

    def turn_on():
        places = tree_layouts.Columns.places

        def kept(self, *its):
            found.append(places(self, *its))
            return found[-1]

        monkeypatch.setattr(tree_layouts, "MOVED_BYTES", 0)
        monkeypatch.setattr(tree_layouts.Columns, "places", kept)
        return found

    return turn_on
