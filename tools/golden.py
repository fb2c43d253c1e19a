"""The golden table: no training may change its bytes unawares.

    python tools/golden.py check --subset            what CI runs, at most two minutes of CPU time
    python tools/golden.py check                     every training
    python tools/golden.py check --only vector-tree  those whose names contain the text
    python tools/golden.py record --only jointboost  after a change that is meant: take the bytes of this tree
    python tools/golden.py check --complete --against COMMIT
                                                     only what is there without missing values, see --help
    python tools/golden.py confirm                   check all; in other environments this commit alone is then built
    python tools/golden.py run --tree FOLDER         JSON of the fingerprints that another built tree gives

The package is that of the tree in which this file lies. Bytes depend on the compiler, on libraries and on the CPU:
where they are others than those recorded in the table, trainings with other bytes than the table's are compared with a
commit that has all its bytes, or else those at which they were recorded, built here and now. The exit code is 0 only
if all bytes are equal.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import other_tree
from shared.measure import cpu_flags

# Threads that wait take no time from others; said before any library starts some.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
TABLE = other_tree.ROOT / "tests" / "golden" / "trainings.json"
LIBRARIES = ("numpy", "scipy", "scikit-learn", "libsvm-official")
LEVELS = {
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "x86-64-v3": {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"},
    "x86-64-v2": {"sse4_1", "sse4_2", "ssse3", "popcnt"},
}


def cpu_level():
    """Generation of the CPU."""
    return next(
        (level for level, needed in LEVELS.items() if needed <= cpu_flags()), platform.machine()
    )


def environment(tree):
    """What bytes may depend on, beside the code: a dictionary of texts. Kernels name the compiler that made them."""
    import numpy as np
    import scipy.linalg  # noqa: F401 - it brings a BLAS of its own
    import threadpoolctl

    pattern = rb"GCC: [^\0]*|[^\0]*clang version [^\0]*"
    kernels = sorted(Path(tree, "pymcboost", "_kernels").glob("*.so"))
    compilers = {
        found.decode() for kernel in kernels for found in re.findall(pattern, kernel.read_bytes())
    }
    blas = {
        f"{info['internal_api']} {info['version']} {info['architecture']}"
        for info in threadpoolctl.threadpool_info()
        if info["user_api"] == "blas"
    }
    return {
        "compiler": "; ".join(sorted(compilers)),
        "python": platform.python_version(),
        "libc": " ".join(platform.libc_ver()),
        **{name: importlib.metadata.version(name) for name in LIBRARIES},
        "blas": "; ".join(sorted(blas)),
        "cpu": cpu_level(),
        "numpy on this cpu": " ".join(
            np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
        ),
    }


def train(names, quick, complete=False):
    """Fingerprints of trainings by name: "scores sections"; what went wrong where there are none."""
    import golden_cases

    fingerprints = {}
    for name in names:
        try:
            fingerprints[name] = " ".join(golden_cases.run(name, quick, sides=not complete))
        except Exception as error:
            fingerprints[name] = f"{type(error).__name__}: {error}"
    return fingerprints


def train_beside(tree, names, options):
    """The same in processes of their own, by the package of a tree."""
    told = [f"--{flag}" for flag in ("subset", "complete") if getattr(options, flag)]
    command = [sys.executable, __file__, "run", "--tree", str(tree), *told, "--names"]
    fingerprints = {}
    running = []
    jobs = min(options.jobs, len(names))
    with tempfile.TemporaryDirectory() as folder:
        for i in range(jobs):
            path = Path(folder, str(i))
            path.write_text("\n".join(names[i::jobs]))
            running.append(subprocess.Popen([*command, path], stdout=subprocess.PIPE))
        for process in running:
            text = process.communicate()[0]
            if process.returncode:
                raise SystemExit(f"golden: the trainings of {tree} failed")
            fingerprints |= json.loads(text)
    return fingerprints


def train_in(commit, names, options):
    """The same by another commit."""
    return train_beside(other_tree.built(commit), names, options)


def train_here(names, options):
    """The same by this tree."""
    if options.jobs == 1:
        return train(names, options.subset, options.complete)
    return train_beside(other_tree.ROOT, names, options)


def recorded(table, names):
    """What the trainings gave in the environment of the table."""
    return {name: table["trainings"][name].rpartition(" ")[0] for name in names}


def built(table, names, options):
    """What they give in this environment by the commits that the table names."""
    against = options.against or table.get("confirmed")
    commits = {name: against or table["trainings"][name].rpartition(" ")[2] for name in names}
    fingerprints = {}
    for commit in sorted(set(commits.values())):
        print(f"comparing with {commit[:12]}, built here", file=sys.stderr)
        fingerprints |= train_in(
            commit, [name for name in names if commits[name] == commit], options
        )
    return fingerprints


def differences(expected, fingerprints):
    """One line for each training that gives something else."""
    lines = []
    for name, was in expected.items():
        now = fingerprints[name]
        if now != was:
            parts = zip(("scores", "sections"), was.split(), now.split(), strict=False)
            what = " and ".join(part for part, one, other in parts if one != other)
            lines.append(
                f"{name}: {what if len(was.split()) == len(now.split()) == 2 else 'failure'}: {was} -> {now}"
            )
    return lines


def check(names, options):
    table = json.loads(TABLE.read_text())
    unknown = [name for name in names if name not in table["trainings"]]
    if unknown and not options.against:
        print(
            f"{len(unknown)} trainings are not in the table; `record --only` takes them in: {unknown[:5]}"
        )
        return 1
    fingerprints = train_here(names, options)
    lines = differences(
        built(table, names, options) if options.against else recorded(table, names), fingerprints
    )
    here = environment(other_tree.ROOT)
    differing = [key for key in here if table["environment"].get(key) != here[key]]
    if lines and differing and not options.against:
        for key in differing:
            print(
                f"{key} was {table['environment'].get(key)!r}, it is {here[key]!r}", file=sys.stderr
            )
        unlike = [name for name, was in recorded(table, names).items() if fingerprints[name] != was]
        lines = differences(built(table, unlike, options), fingerprints)
    print(*lines, f"{len(names)} trainings, {len(lines)} of them changed", sep="\n")
    return 1 if lines else 0


def clean_head():
    """Number of the commit whose package this tree has."""
    if other_tree.git("status", "--porcelain", "pymcboost", "setup.py").strip():
        raise SystemExit(
            "golden: commit the changes of pymcboost/ first; the table says which commit has its bytes"
        )
    return other_tree.git("rev-parse", "HEAD").decode().strip()


def confirm(names, options):
    """Note that this commit has the bytes of all trainings, so that it alone is built in other environments."""
    commit = clean_head()
    table = json.loads(TABLE.read_text())
    if len(names) < len(table["trainings"]) or table["environment"] != environment(other_tree.ROOT):
        raise SystemExit("golden: all trainings must be checked, in the environment of the table")
    if check(names, options):
        return 1
    TABLE.write_text(json.dumps({**table, "confirmed": commit}, indent=0) + "\n")
    return 0


def record(names, options):
    commit = clean_head()
    here = environment(other_tree.ROOT)
    table = {"environment": here, "trainings": {}}
    if options.only:
        table = json.loads(TABLE.read_text())
        if table["environment"] != here:
            raise SystemExit(
                "golden: a part can only be recorded in the environment of the other parts; record all"
            )
    options.subset = False
    fingerprints = train_here(names, options)
    failed = [f"{name}: {value}" for name, value in fingerprints.items() if len(value.split()) != 2]
    if failed:
        raise SystemExit("\n".join(["golden: nothing recorded, as these failed:", *failed]))
    changed = [
        n
        for n, value in fingerprints.items()
        if table["trainings"].get(n, " ").rpartition(" ")[0] != value
    ]
    table.pop("confirmed", None)
    table["trainings"] |= {name: f"{fingerprints[name]} {commit}" for name in changed}
    TABLE.write_text(json.dumps(table, indent=0) + "\n")
    print(f"{len(changed)} of {len(names)} trainings recorded at {commit[:12]}")
    return 0


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("check", "record", "confirm", "run"))
    parser.add_argument("--subset", action="store_true", help="the part for CI: few large data")
    parser.add_argument(
        "--only", metavar="TEXT", action="append", help="only trainings whose names contain it"
    )
    parser.add_argument(
        "--names", metavar="FILE", type=argparse.FileType(), help="names of trainings, one a line"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="train in so many processes (default: 1)"
    )
    parser.add_argument(
        "--against", metavar="COMMIT", help="compare with a commit instead of the table"
    )
    parser.add_argument(
        "--complete",
        action="store_true",
        help="with --against: rows have no missing values, and files do not say where these go",
    )
    parser.add_argument(
        "--tree",
        default=str(other_tree.ROOT),
        help="folder of the package to run (default: this one)",
    )
    options = parser.parse_args(arguments)
    if (
        options.complete
        and options.action != "run"
        and not (options.action == "check" and options.against)
    ):
        parser.error(
            "--complete needs check --against COMMIT: the table has fingerprints of all rows"
        )
    # The tests of the tree have workers that are threads.
    sys.path[:0] = [options.tree, str(Path(options.tree, "tests"))]
    import golden_cases

    import pymcboost

    if Path(pymcboost.__file__).resolve().parents[1] != Path(options.tree).resolve():
        raise SystemExit(
            f"golden: the package of {options.tree} was asked for, found that of {pymcboost.__file__}"
        )
    names = (
        options.names.read().split() if options.names else golden_cases.trainings(options.subset)
    )
    names = [
        name for name in names if not options.only or any(text in name for text in options.only)
    ]
    if not names:
        raise SystemExit(f"golden: no training has a name with {options.only}")
    if options.action == "run":
        json.dump(train(names, options.subset, options.complete), sys.stdout)
        return 0
    return {"check": check, "record": record, "confirm": confirm}[options.action](names, options)


if __name__ == "__main__":
    sys.exit(main())
