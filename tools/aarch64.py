"""Build for Linux on aarch64 with a cross compiler, and run a part of the tests under emulation.

Usage: python tools/aarch64.py [--part]    --part: what CI runs, in two minutes of an idle machine

On Debian and Ubuntu, with the packages qemu-user-static and gcc-aarch64-linux-gnu, and the system's own version of
Python. Python for aarch64 comes from Debian, with NumPy and the like from their wheels, in the versions that are
installed here; all of it goes to build/aarch64 and is kept there, and nothing of the system changes. The exit code is
77 where something of this cannot be had.
"""

import argparse
import importlib.metadata
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "build" / "aarch64"
SYSTEM = HOME / "system"
SITE = HOME / "site"
RUN = HOME / "run"
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
EMULATOR = "qemu-aarch64-static"
COMPILER = "aarch64-linux-gnu-gcc"
PACKAGES = "numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "tqdm", "pytest", "pandas"
IMPOSSIBLE = 77

PART = (
    "tests/format/test_golden.py",
    "tests/format/test_releases.py",
    "tests/equivalence/test_stumps.py::test_each_kind_of_column",
)
TESTS = (
    "tests/format/test_golden.py",
    "tests/format/test_releases.py",
    "tests/equivalence/test_stumps.py",
    "tests/equivalence/test_mcboost.py",
    "tests/unit/test_scoring.py",
    "tests/unit/test_kinds.py",
    "tests/unit/test_order.py",
)
# Emulated programs start no others.
LEFT_OUT = ("--deselect", "tests/unit/test_scoring.py::test_numpy_is_enough")
# Every so many trainings of the golden table's subset; kernels of machines need a library without wheels.
STEP = 10
STEP_OF_PART = 60
GOLDEN = """
import json, sys
sys.path += ["tools", "tests"]
import golden, golden_cases
table = json.loads(golden.TABLE.read_text())
names = [name for name in golden_cases.trainings(True) if not name.startswith("hingeboost")][:: int(sys.argv[1])]
lines = golden.differences(golden.recorded(table, names), golden.train(names, True))
print(*lines, f"{len(names)} trainings, {len(lines)} of them with other bytes than on x86-64", sep="\\n")
sys.exit(any(": failure: " in line for line in lines))
"""


def run(*command, **options):
    """Run a command, which must succeed."""
    subprocess.run([str(word) for word in command], check=True, **options)


def impossible(why):
    """End with the exit code for what cannot be done here."""
    print(f"aarch64: not here: {why}", file=sys.stderr)
    sys.exit(IMPOSSIBLE)


def system():
    """Unpack Debian's Python for aarch64, by an apt whose state is a folder of ours."""
    if (SYSTEM / "usr" / "bin" / PYTHON).exists():
        return
    state = HOME / "apt"
    for folder in ("lists/partial", "archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    settings = {
        "APT::Architecture": "arm64", "APT::Architectures": "arm64", "Dir::State": state, "Dir::Cache": state,
        "Dir::State::status": "/dev/null", "Debug::NoLocking": 1,
    }  # fmt: skip
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    try:
        run(*apt, "update")
        run(
            *apt,
            "--no-install-recommends",
            "--yes",
            "--download-only",
            "install",
            PYTHON,
            "libstdc++6",
        )
    except (OSError, subprocess.CalledProcessError):
        impossible(f"apt-get has no {PYTHON} for arm64")
    for package in sorted((state / "archives").glob("*.deb")):
        run("dpkg-deb", "--extract", package, SYSTEM)


def site():
    """Install NumPy and the like from wheels for aarch64."""
    if SITE.exists():
        return
    wanted = [f"{name}=={importlib.metadata.version(name)}" for name in PACKAGES]
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in range(28, 16, -1)]
    command = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--only-binary",
        ":all:",
    ]
    try:
        run(sys.executable, *command, *platforms, "--target", HOME / "new", *wanted)
    except subprocess.CalledProcessError:
        impossible("the wheels for aarch64 cannot be had")
    (HOME / "new").rename(SITE)


def build():
    """Compile the wheel and unpack it beside the tests; -O1 gives the same models."""
    dist = HOME / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    env = {
        **os.environ, "CC": COMPILER, "LDSHARED": f"{COMPILER} -shared", "CFLAGS": "", "LDFLAGS": "-s",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{PYTHON[6:].replace('.', '')}-aarch64-linux-gnu.so",
        "_PYTHON_HOST_PLATFORM": "linux-aarch64", "PYMCBOOST_CFLAGS": "-O1",
    }  # fmt: skip
    command = [
        "setup.py",
        "-q",
        "build",
        "--build-base",
        HOME / "build",
        "bdist_wheel",
        "--plat-name",
        "linux_aarch64",
    ]
    completed = subprocess.run(
        [sys.executable, *map(str, command), "--dist-dir", str(dist)],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if completed.returncode:
        sys.exit(f"{completed.stderr[-4000:]}\naarch64: the wheel cannot be built")
    shutil.rmtree(RUN, ignore_errors=True)
    for folder in ("tests", "tools", "data"):
        shutil.copytree(ROOT / folder, RUN / folder)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, RUN)
    (wheel,) = dist.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(RUN)
    return wheel


def emulated(*arguments):
    """Run Python for aarch64 beside the tests; its exit code."""
    path = os.pathsep.join([str(RUN), str(SITE)])
    env = {**os.environ, "PYTHONPATH": path, "QEMU_LD_PREFIX": str(SYSTEM), "PYTEST_ADDOPTS": ""}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are slow to compile
    command = [EMULATOR, SYSTEM / "usr" / "bin" / PYTHON, *map(str, arguments)]
    return subprocess.run(command, cwd=RUN, env=env).returncode


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", action="store_true", help="what CI runs")
    part = parser.parse_args().part
    for program, package in ((EMULATOR, "qemu-user-static"), (COMPILER, "gcc-aarch64-linux-gnu")):
        if shutil.which(program) is None:
            impossible(f"there is no {program}; Debian, Ubuntu: sudo apt-get install {package}")
    system()
    site()
    wheel = build()
    print(f"aarch64: {wheel.name}, {wheel.stat().st_size:,} bytes", flush=True)
    if emulated("-m", "doctest", "README.md"):
        sys.exit("aarch64: README.md's Python example fails")
    tests = emulated(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", *LEFT_OUT, *(PART if part else TESTS)
    )
    return tests or emulated("-c", GOLDEN, STEP_OF_PART if part else STEP)


if __name__ == "__main__":
    sys.exit(main())
