"""Another commit of this repository, built in a folder of its own."""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def git(*arguments):
    """Output of a git command in this repository, as bytes."""
    completed = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True)
    if completed.returncode:
        raise SystemExit(f"git {' '.join(arguments)}: {completed.stderr.decode().strip()}")
    return completed.stdout


def commit_of(name):
    """Full number of a commit."""
    try:
        return git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").decode().strip()
    except SystemExit:
        raise SystemExit(
            f"this repository has no commit {name}, which is needed to compare with. A shallow clone gets it with "
            "`git fetch --unshallow`; a folder without history cannot make the comparison: use a clone"
        ) from None


def compiler():
    """The compiler command for the build: with ccache where it is installed."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return (
        f"ccache {command}"
        if shutil.which("ccache") and not command.startswith("ccache")
        else command
    )


def built(name, clones=""):
    """Folder with a commit's files and kernels; built at the first call, kept in build/trees.

    ``clones`` is PYMCBOOST_CLONES of setup.py.
    """
    commit = commit_of(name)
    cc = compiler()
    version = subprocess.run([*cc.split(), "--version"], capture_output=True).stdout
    environment = {**os.environ, "CC": cc, "PYMCBOOST_CLONES": clones}
    settings = [environment.get(name, "") for name in ("CFLAGS", "PYMCBOOST_CLONES")]
    key = hashlib.sha256(repr((cc, version, sys.version, settings)).encode()).hexdigest()[:8]
    target = ROOT / "build" / "trees" / f"{commit[:12]}-{key}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        tree = Path(folder, "tree")
        tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", commit))).extractall(
            tree, filter="data"
        )
        print(f"building {commit[:12]} in {target}", file=sys.stderr, flush=True)
        completed = subprocess.run(
            [sys.executable, "setup.py", "build_ext", "--inplace"],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
        )
        if completed.returncode:
            raise SystemExit(
                f"{commit[:12]} does not build:\n{completed.stdout[-2000:]}{completed.stderr[-4000:]}"
            )
        tree.rename(target)
    return target
