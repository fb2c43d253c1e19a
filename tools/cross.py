"""Compile mcb.h and every kernel for other systems, and link them, with zig (pip install ziglang). Nothing is run.

Usage: python tools/cross.py [--jobs N] [-O LEVEL] [TARGET ...]    all targets by default; --list names them

Prints a table of parts and targets; the exit code is 1 where something does not compile or link. The kernels' C must
be there, as `make test` leaves it. The headers of Python are those of this interpreter with another pyconfig.h. For
Windows, the import library is made from the names in them. Microsoft's compiler cannot be tried: the kernels need the
vectors of gcc and clang.
"""

import argparse
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KERNELS, INCLUDE = ROOT / "pymcboost" / "_kernels", ROOT / "pymcboost" / "include"
FLAGS = ("-fno-sanitize=undefined", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno")
WARNINGS = ("-Wall", "-Wextra", "-Werror")
# What Cython's generated code provokes, as in setup.py.
GENERATED = (
    "-Wno-unused-function",
    "-Wno-unused-parameter",
    "-Wno-sign-compare",
    "-Wno-missing-field-initializers",
)
LIBRARY = f"python{sys.version_info.major}{sys.version_info.minor}"


@dataclass(frozen=True)
class Target:
    """A machine: zig's name, the first bytes of its modules, and flags of the linker that it needs."""

    zig: str
    magic: bytes
    link: tuple = ()

    @property
    def windows(self):
        return "windows" in self.zig


def elf(machine):
    return b"\x7fELF\2\1\1" + bytes(9) + b"\3\0" + machine


MACOS_LINK = ("-Wl,-undefined,dynamic_lookup",)  # Python's functions
X86_64 = b"\x3e\0"
AARCH64 = b"\xb7\0"
TARGETS = {
    "linux-x86_64": Target("x86_64-linux-gnu.2.28", elf(X86_64)),
    "linux-aarch64": Target("aarch64-linux-gnu.2.28", elf(AARCH64)),
    "musl-x86_64": Target("x86_64-linux-musl", elf(X86_64)),
    "musl-aarch64": Target("aarch64-linux-musl", elf(AARCH64)),
    "macos-x86_64": Target("x86_64-macos", b"\xcf\xfa\xed\xfe\x07\0\0\1", MACOS_LINK),
    "macos-arm64": Target("aarch64-macos", b"\xcf\xfa\xed\xfe\x0c\0\0\1", MACOS_LINK),
    "windows-x86_64": Target("x86_64-windows-gnu", b"MZ"),
    "windows-arm64": Target("aarch64-windows-gnu", b"MZ"),
}

# pyconfig.h as far as Python's headers ask for it on 64-bit Windows.
WINDOWS_CONFIG = """
#define MS_WIN64
#define MS_WIN32
#define MS_WINDOWS
#define NT_THREADS
#define WITH_THREAD 1
#define HAVE_DECLSPEC_DLL 1
#define Py_ENABLE_SHARED 1
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_TIME_T 8
#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_FLOAT 4
#define SIZEOF_DOUBLE 8
#define SIZEOF_WCHAR_T 2
#define SIZEOF_PID_T 4
#define ALIGNOF_MAX_ALIGN_T 8
#define HAVE_WCHAR_H 1
#define HAVE_PY_SSIZE_T 1
typedef long long Py_ssize_t;
#define PY_SSIZE_T_MAX 0x7fffffffffffffffLL
"""


def zig(*arguments):
    """Run zig: None, or what it says where it fails."""
    command = [sys.executable, "-m", "ziglang", *map(str, arguments)]
    completed = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return completed.stderr if completed.returncode else None


def headers(target, folder):
    """Python's headers for a target, in a new folder; and for Windows its library of imports."""
    shutil.copytree(sysconfig.get_path("include"), folder)
    if not target.windows:
        shutil.copy(sysconfig.get_config_h_filename(), folder / "pyconfig.h")
        return
    (folder / "pyconfig.h").write_text(WINDOWS_CONFIG)
    text = "\n".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.h"))
    functions = re.findall(r"PyAPI_FUNC\([^;]*?\)\s*(?:_Py_NO_RETURN\s+)?\*?(_?Py\w+)\s*\(", text)
    data = [
        f"{name} DATA" for name in re.findall(r"PyAPI_DATA\([^;]*?\)\s*\*?\s*(\w+)\s*[;\[]", text)
    ]
    names = folder / "python.def"
    names.write_text(
        "\n".join([f"LIBRARY {LIBRARY}.dll", "EXPORTS", *sorted({*functions, *data}), ""])
    )
    machine = "arm64" if "aarch64" in target.zig else "i386:x86-64"
    fault = zig("dlltool", "-m", machine, "-d", names, "-l", folder / f"lib{LIBRARY}.a")
    if fault:
        sys.exit(fault)


def scorer(target, folder, level):
    """Compile mcb.h alone, every function of it, as C99 and as C++17."""
    source = folder / "scorer.c"
    source.write_text('#define MCB_API __attribute__((used)) static\n#include "mcb.h"\n')
    for language, standard in (("c", "c99"), ("c++", "c++17")):
        fault = zig(
            "cc",
            "-x",
            language,
            "-target",
            target.zig,
            f"-std={standard}",
            level,
            FLAGS[0],
            *WARNINGS,
            "-I",
            INCLUDE,
            "-c",
            source,
            "-o",
            folder / "scorer.o",
        )
        if fault:
            return fault
    return None


def kernel(target, folder, level, source):
    """Compile and link one kernel: the faults of both, the second an empty text where there was nothing to link."""
    made, module = folder / f"{source.stem}.o", folder / f"{source.stem}.module"
    fault = zig(
        "cc",
        "-target",
        target.zig,
        level,
        "-fPIC",
        *FLAGS,
        *WARNINGS,
        *GENERATED,
        "-isystem",
        folder / "python",
        "-I",
        KERNELS,
        "-I",
        INCLUDE,
        "-c",
        source,
        "-o",
        made,
    )
    if fault:
        return fault, ""
    libraries = ("-L", folder / "python", f"-l{LIBRARY}") if target.windows else ()
    fault = zig(
        "cc", "-target", target.zig, "-shared", "-s", made, "-o", module, *target.link, *libraries
    )
    if not fault and not module.read_bytes().startswith(target.magic):
        fault = f"{module.name} is not for {target.zig}"
    return None, fault


def table(names, level, jobs):
    """Compile all for these targets: rows of the table, and what the compiler says of the first fault of each."""
    sources = sorted(KERNELS.glob("*.c"))
    rows = {part: [] for part in ("mcb.h", *(source.stem for source in sources), "link")}
    faults = {}
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(jobs) as pool:
        for name in names:
            target = TARGETS[name]
            folder = Path(scratch, name)
            folder.mkdir()
            headers(target, folder / "python")
            results = {"mcb.h": scorer(target, folder, level)}
            links = []
            for source, (fault, linked) in zip(
                sources, pool.map(partial(kernel, target, folder, level), sources), strict=True
            ):
                results[source.stem] = fault
                links.append(linked)
            results["link"] = next((fault for fault in links if fault is not None), None)
            for part, fault in results.items():
                rows[part].append("no" if fault is not None else "yes")
                if fault:
                    faults.setdefault(f"{name}, {part}", fault)
            shutil.rmtree(folder)
    return rows, faults


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="list the targets and stop")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="so many compilers at once (default: 1)"
    )
    parser.add_argument(
        "-O", dest="level", default="1", metavar="LEVEL", help="level of optimisation (default: 1)"
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="of --list (default: all)")
    options = parser.parse_args()
    unknown = set(options.targets) - set(TARGETS)
    if options.list or unknown:
        print(*TARGETS, sep="\n")
        return f"there is no target {min(unknown)}" if unknown else None
    missing = [
        path.name for path in sorted(KERNELS.glob("*.pyx")) if not path.with_suffix(".c").exists()
    ]
    if missing:
        return f"{missing[0]} is not yet translated to C: run make test, or pip install -e ."
    names = options.targets or list(TARGETS)
    rows, faults = table(names, f"-O{options.level}", options.jobs)
    print("| part |", " | ".join(names), "|")
    print("|---" * (1 + len(names)) + "|")
    for part, cells in rows.items():
        print(f"| {part} |", " | ".join(cells), "|")
    for place, fault in faults.items():
        print(f"\n{place}:\n" + "\n".join(fault.splitlines()[:10]), file=sys.stderr)
    return 1 if any("no" in cells for cells in rows.values()) else None


if __name__ == "__main__":
    sys.exit(main())
