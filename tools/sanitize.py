"""Build the kernels with sanitizers of gcc, beside those of this tree, and run tests with them.

Usage: python tools/sanitize.py address [options of pytest]    AddressSanitizer and UndefinedBehaviorSanitizer
       python tools/sanitize.py thread [options of pytest]     ThreadSanitizer

Options of pytest that name tests replace those of TESTS below. The builds stay in build/sanitize-address and
build/sanitize-thread. The kernels are those for AVX2, or what PYMCBOOST_CLONES says: the loader chooses among clones
before a sanitizer works. The exit code is 1 if a test failed or a sanitizer reported something; reports are printed.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FLAGS = {
    "address": ["-fsanitize=address,undefined,float-cast-overflow"],
    # A prefetch reads the number of a row some places ahead, which another thread may be moving: only the time depends
    # on what it reads.
    "thread": ["-fsanitize=thread", "-D__builtin_prefetch(...)=((void)0)"],
}
LIBRARIES = {"address": ["libasan.so", "libubsan.so"], "thread": ["libtsan.so"]}
FORMAT = [f"tests/format/test_{name}.py" for name in ("golden", "load", "refusals", "save")]
TESTS = {
    # Programs that tests compile or start are not for the library of another sanitizer; golden.py wants the package of
    # the tree.
    "address": ["tests/equivalence", "tests/unit", *FORMAT]
    + ["-k", "not without_a_race and not sanitizers and not mpi and not dask and not guard_tools"],
    # float32_loss has threads in the tests of gradients.
    "thread": ["tests/equivalence", "tests/unit", "tests/contract/test_estimators.py"]
    + ["-k", "(threads or one_thread or hold_gradients) and not hinge and not guard_tools"],
}


def library(name):
    """Path of a library of gcc."""
    done = subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    path = Path(done.stdout.strip())
    if not path.is_absolute():
        sys.exit(f"sanitize.py: gcc has no {name}")
    return str(path.resolve())


def generation():
    """The kernels' clones to build, unless the variable PYMCBOOST_CLONES names others."""
    return "v3" if "avx2" in Path("/proc/cpuinfo").read_text().split() else "none"


def build(kind, home):
    """Build the package with a sanitizer into home/lib."""
    home.mkdir(parents=True, exist_ok=True)
    env = {
        "CC": "gcc",
        "PYMCBOOST_CLONES": generation(),
        **os.environ,
        "PYMCBOOST_CFLAGS": shlex.join(["-O1", "-g", "-fno-omit-frame-pointer", *FLAGS[kind]]),
        "LDFLAGS": FLAGS[kind][0],
    }
    command = [sys.executable, "setup.py", "-q", "build"]
    folders = ["--build-lib", home / "lib", "--build-temp", home / "temp"]
    subprocess.run([*command, *folders], env=env, cwd=ROOT, check=True)


def environment(kind, home):
    """Variables of the tests: the package of home/lib, the sanitizer's library, and where it writes."""
    options = f"log_path={home}/reports/report:print_stacktrace=1:detect_leaks=0:die_after_fork=0"
    names = "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"
    return {
        **os.environ,
        **dict.fromkeys(names, options),
        "LD_PRELOAD": " ".join(library(name) for name in LIBRARIES[kind]),
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": f"{home / 'lib'}{os.pathsep}{ROOT / 'tests'}",
        "PYTHONSAFEPATH": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def main(kind, *options):
    """Build, test, and print what was reported."""
    home = ROOT / "build" / f"sanitize-{kind}"
    build(kind, home)
    shutil.rmtree(home / "reports", ignore_errors=True)
    (home / "reports").mkdir()
    named = [word for word in options if word.partition("::")[0].startswith("tests")]
    command = [sys.executable, "-m", "pytest", "-o", f"pythonpath={home / 'lib'} tests", *options]
    if not named:
        command += TESTS[kind]
    if kind == "thread" and shutil.which("setarch"):
        command = ["setarch", "-R", *command]  # ThreadSanitizer needs addresses of its own
    status = subprocess.run(command, env=environment(kind, home), cwd=ROOT).returncode
    if status < 0:
        print(f"the tests ended early, with signal {-status}")
    reports = sorted((home / "reports").iterdir())
    for report in reports:
        print(report, report.read_text(errors="replace"), sep="\n")
    print(f"{len(reports)} processes with reports")
    return int(status != 0 or bool(reports))


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in FLAGS:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
