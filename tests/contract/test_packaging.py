"""What the source distribution and the wheel hold, and what a bare machine is told."""

import importlib.metadata
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import pymcboost

ROOT = Path(__file__).resolve().parents[2]
APT_PACKAGES = "python3 python3-venv python3-dev g++ make"

pytestmark = pytest.mark.skipif(
    not (ROOT / "setup.py").exists(), reason="not run from a source tree"
)


def sources(pattern):
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "pymcboost").rglob(pattern))


def run_python(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    setuptools = pytest.importorskip("setuptools", minversion="77")
    pytest.importorskip("Cython")
    # From a copy: what an earlier build in the source tree left behind would hide what the manifest forgets.
    tree = tmp_path_factory.mktemp("copy") / "tree"
    leftovers = (".*", "build", "dist", "*.egg-info", "__pycache__", "results*")
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*leftovers))
    folder = tmp_path_factory.mktemp("sdist")
    code = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    completed = run_python("-c", code, str(folder), cwd=tree)
    assert completed.returncode == 0, f"setuptools {setuptools.__version__}: {completed.stderr}"
    return next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(request, tmp_path_factory):
    """The wheel that PYMCBOOST_WHEEL names, else one built here from the source distribution."""
    if os.environ.get("PYMCBOOST_WHEEL"):
        return Path(os.environ["PYMCBOOST_WHEEL"])
    sdist = request.getfixturevalue("sdist")
    folder = tmp_path_factory.mktemp("wheel")
    completed = run_python(
        "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", str(folder), str(sdist)
    )
    assert completed.returncode == 0, completed.stderr
    return next(folder.glob("*.whl"))


def test_sdist_holds_sources_and_nothing_generated(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "CITATION.cff",
        "Makefile",
        "pyproject.toml",
        "setup.py",
    }
    wanted |= {"pymcboost/py.typed", "tests/conftest.py", "tools/demo.py"}
    for pattern in ("*.py", "*.pyx", "*.pxd", "*.h", "*.hpp", "*.cmake", "*.pc", "*.json"):
        wanted.update(sources(pattern))
    assert not wanted - names
    generated = [
        name for name in names if re.search(r"^pymcboost/.*\.(c|so)$|\.py[cod]$|__pycache__", name)
    ]
    assert not generated


@pytest.mark.slow
def test_wheel_holds_what_runs_and_no_sources(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    package = [name for name in names if ".dist-info/" not in name]
    assert all(name.startswith("pymcboost/") for name in package)
    wanted = {"pymcboost/py.typed", *sources("include/*.h*")}
    for pattern in ("*.cmake", "*.pc", "*.py", "*.json"):
        wanted.update(sources(pattern))
    assert not wanted - set(package)
    for kernel in sources("*.pyx"):
        library = re.escape(kernel.removesuffix(".pyx")) + r"\.[^/]+\.(so|pyd)"
        assert any(re.fullmatch(library, name) for name in package), f"{kernel} was not built"
    assert not [name for name in package if name.endswith((".c", ".pyx", ".pxd", ".pyc"))]
    assert [name for name in package if name.endswith(".h")] == sources("include/*.h")
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    scripts = next(name for name in names if name.endswith(".dist-info/entry_points.txt"))
    text = zipfile.ZipFile(wheel).read(scripts).decode()
    programs = [f"mcboost-{name}" for name in ("convert", "info", "predict", "train", "tune")]
    assert re.findall(r"^(mcboost-\w+) = ", text, re.MULTILINE) == programs


@pytest.mark.slow
def test_wheel_runs_where_it_is_installed(wheel, tmp_path):
    completed = run_python(
        "-m", "pip", "install", "--no-deps", "--target", str(tmp_path), str(wheel)
    )
    assert completed.returncode == 0, completed.stderr
    code = (
        "import pymcboost; print(pymcboost.__file__); pymcboost.load_model; pymcboost.get_include()"
    )
    completed = run_python(
        "-c", code, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}
    )
    assert completed.returncode == 0, completed.stderr
    assert Path(completed.stdout.strip()).is_relative_to(tmp_path.resolve())


def test_version_stands_in_one_place():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in pyproject["project"]["dynamic"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == pymcboost.__version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{pymcboost.__version__.partition('.dev')[0]}]" in changes
    try:
        installed = importlib.metadata.version("pymcboost")
    except importlib.metadata.PackageNotFoundError:
        return
    assert installed == pymcboost.__version__


@pytest.fixture
def builder(monkeypatch):
    """The names of setup.py, as on another system: what it compiles is asked of a function."""
    setuptools = pytest.importorskip("setuptools", minversion="77")
    pytest.importorskip("Cython")

    def names_of(platform, works):
        run = lambda command, **_: subprocess.CompletedProcess(command, not works(command))  # noqa: E731
        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setattr(sys, "argv", ["setup.py", "sdist"])
        monkeypatch.setattr(setuptools, "setup", lambda **given: setattr(names_of, "given", given))
        monkeypatch.setattr(subprocess, "run", run)
        monkeypatch.delenv("CC", raising=False)
        monkeypatch.chdir(ROOT)
        return runpy.run_path("setup.py")

    return names_of


def test_a_kernel_is_built_again_when_a_file_that_it_includes_changes(builder):
    files_of = builder("linux", lambda _: True)["files_of"]
    kernels = ROOT / "pymcboost" / "_kernels"
    files = {
        kernel.stem: {path.name for path in files_of(kernel.stem)}
        for kernel in kernels.glob("*.pyx")
    }
    assert {"vector_scan.h", "vector_fill_body.h", "pool.pxd", "lanes.h"} <= files["vector_trees"]
    assert "stumps_body.h" not in files["vector_trees"]
    headers = {path.name for path in kernels.glob("*.h")}
    assert headers <= set().union(*files.values())


def test_windows_builds_with_gcc(builder):
    names = builder("win32", lambda command: command[0] == "gcc")
    assert builder.given["options"]["build_ext"]["compiler"] == "mingw32"
    assert "-DMS_WIN64=1" in names["modules"][0].extra_compile_args


def test_each_kernel_that_is_compiled_is_said(builder, tmp_path, monkeypatch):
    setuptools = pytest.importorskip("setuptools")
    command = builder("linux", lambda command: True)["BuildKernels"]
    monkeypatch.setattr(
        setuptools.command.build_ext.build_ext, "build_extension", lambda self, ext: None
    )
    building = command(setuptools.Distribution())
    building.extensions = [setuptools.Extension(f"package.{name}", []) for name in "ab"]
    for progress in ("", tmp_path / "missing" / "file", tmp_path / "file"):
        monkeypatch.setenv("PYMCBOOST_PROGRESS", str(progress))
        building.n_done = 0
        for ext in building.extensions:
            building.build_extension(ext)
    assert (tmp_path / "file").read_text() == "   1 of 2: a, 0 s\n   2 of 2: b, 0 s\n"


def test_importing_the_package_loads_nothing_heavy():
    heavy = ["numpy", "scipy", "sklearn", "joblib", "tqdm", "libsvm", "pandas"]
    code = f"import sys, pymcboost; print([name for name in {heavy} if name in sys.modules])"
    completed = run_python("-c", code, cwd=ROOT)
    assert completed.stdout.strip() == "[]", completed.stderr


UNBUILT = {
    "sources": (["score.pyx"], "is not compiled for Python"),
    "in part": (
        ["score.pyx", "score{suffix}", "bins.pyx"],
        "the extension module bins.pyx is missing",
    ),
    "another Python": (
        ["score.pyx", "score.cpython-27-x86_64.so"],
        "another Python (score.cpython-27-x86_64.so)",
    ),
    "installed for another Python": (
        ["score.cpython-27-x86_64.so"],
        "another Python (score.cpython-27-x86_64.so)",
    ),
}


IMPORTS = """
import pymcboost
for name in ("MCBoostClassifier", "load_model", "load_svmlight"):
    try:
        getattr(pymcboost, name)
    except ImportError as error:
        print(error)
"""


@pytest.mark.parametrize("case", UNBUILT)
def test_package_without_its_kernels_says_how_to_compile_it(case, tmp_path):
    files, fault = UNBUILT[case]
    folder = tmp_path / "pymcboost" / "_kernels"
    left_out = shutil.ignore_patterns(
        "*.pyx", "*.pxd", "*.c", "*.h", "*.so", "*.pyd", "__pycache__"
    )
    shutil.copytree(ROOT / "pymcboost", folder.parent, ignore=left_out)
    for file in files:
        (folder / file.format(suffix=EXTENSION_SUFFIXES[0])).touch()
    clone = "score.pyx" in files
    if clone:
        (tmp_path / "setup.py").touch()
    remedy = (
        f'python -m pip install -e "{tmp_path}"'
        if clone
        else "reinstall pymcboost with this Python"
    )
    # From another folder than the clone that is tested, whose package would come first.
    completed = run_python("-c", IMPORTS, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""})
    messages = completed.stdout.splitlines()
    assert len(messages) == 3, completed.stderr
    for message in messages:
        assert message.startswith(f"pymcboost in {folder.parent} ")
        assert fault in message
        assert remedy in message


def test_editable_install_is_found_beside_a_folder_of_its_name(tmp_path):
    """As from the parent folder of a clone that is named pymcboost."""
    found = importlib.metadata.distributions(name="pymcboost")
    origins = [json.loads(one.read_text("direct_url.json") or "{}") for one in found]
    if {"url": ROOT.as_uri(), "dir_info": {"editable": True}} not in origins:
        pytest.skip("this tree is not installed with pip install -e")
    (tmp_path / "pymcboost").symlink_to(ROOT)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    completed = run_python(
        "-c", "import pymcboost; print(pymcboost.__file__)", cwd=tmp_path, env=environment
    )
    assert completed.stdout.strip() == str(ROOT / "pymcboost" / "__init__.py"), completed.stderr


def test_include_folder_holds_the_c_scorer():
    assert Path(pymcboost.get_include(), "mcb.h").is_file()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("PYTHON=no-such-python", "no-such-python not found"),
        ("CC=no-such-compiler", "no C compiler (no-such-compiler)"),
        ("CXX=no-such-compiler", "no C++ compiler (no-such-compiler)"),
    ],
)
def test_makefile_says_what_to_install(setting, message):
    completed = subprocess.run(
        ["make", "check-system", setting], cwd=ROOT, capture_output=True, text=True
    )
    assert completed.returncode != 0
    assert message in completed.stderr
    assert APT_PACKAGES in completed.stderr


def crippled_python(folder, prelude):
    """A python3 that runs a prelude before every -c program."""
    path = folder / "python3"
    path.write_text(f"""#!/bin/sh
if [ "$1" = -c ]; then exec "{sys.executable}" -c "{prelude}; $2"; fi
exec "{sys.executable}" "$@"
""")
    path.chmod(0o755)
    return path


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(
    ("prelude", "message"),
    [
        ("import sys; sys.version_info = (3, 10, 9)", "3.11 or newer is needed"),
        ("import sys; sys.modules['ensurepip'] = None", "cannot make virtual environments"),
        (
            "import sysconfig; sysconfig.get_path = lambda name: '/nowhere'",
            "(Python.h) are missing",
        ),
    ],
    ids=["version", "venv", "headers"],
)
def test_makefile_checks_the_interpreter(prelude, message, tmp_path):
    interpreter = crippled_python(tmp_path, prelude)
    command = ["make", "check-system", f"PYTHON={interpreter}"]
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert completed.returncode != 0
    assert message in completed.stderr


def test_readme_names_the_packages_and_the_two_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for words in (APT_PACKAGES, "make demo", "make test"):
        assert words in readme
