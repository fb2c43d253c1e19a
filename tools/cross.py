"""Build wheels for other machines with zig (pip install ziglang), without running anything of them.

Usage: python tools/cross.py [--out FOLDER] [TARGET ...]    all targets by default; --list names them

A wheel has every kernel, for the version of Python that builds it, and one thread: zig brings no OpenMP. It shows that
the kernels compile and link, and which machine they are for. Windows has other headers of Python, which are not here:
there `mcb.h` is compiled alone.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from wheel import ROOT, check_contents, run


@dataclass(frozen=True)
class Target:
    """A machine: zig's name, Python's, the tag of wheels, the end of the names of modules, and their first bytes."""

    zig: str
    platform: str = ""
    tag: str = ""
    suffix: str = ""
    magic: bytes = b""
    link: tuple = ("-shared",)


VERSION = f"cpython-{sys.version_info.major}{sys.version_info.minor}"
MACOS = ("-shared", "-Wl,-undefined,dynamic_lookup")
TARGETS = {
    "linux-aarch64": Target(
        "aarch64-linux-gnu.2.28", "linux-aarch64", "manylinux_2_28_aarch64", f".{VERSION}-aarch64-linux-gnu.so",
        b"\x7fELF\2\1\1" + bytes(9) + b"\3\0\xb7\0",
    ),
    "macos-arm64": Target(
        "aarch64-macos", "macosx-11.0-arm64", "macosx_11_0_arm64", f".{VERSION}-darwin.so",
        b"\xcf\xfa\xed\xfe\x0c\0\0\1", MACOS,
    ),
    "macos-x86_64": Target(
        "x86_64-macos", "macosx-11.0-x86_64", "macosx_11_0_x86_64", f".{VERSION}-darwin.so",
        b"\xcf\xfa\xed\xfe\x07\0\0\1", MACOS,
    ),
    "windows-x86_64": Target("x86_64-windows-gnu"),
    "windows-aarch64": Target("aarch64-windows-gnu"),
}  # fmt: skip


def wheel(name, target, scratch, out):
    """Build the wheel of the committed files for a target."""
    source = scratch / name
    run("git", "clone", "--quiet", ROOT, source)
    compiler = f"{sys.executable} -m ziglang cc -target {target.zig}"
    env = {
        "CC": compiler, "LDSHARED": " ".join([compiler, *target.link]), "SETUPTOOLS_EXT_SUFFIX": target.suffix,
        "_PYTHON_HOST_PLATFORM": target.platform, "PYMCBOOST_NO_OPENMP": "1", "CFLAGS": "", "LDFLAGS": "-s",
    }  # fmt: skip
    log = scratch / f"{name}.log"
    with log.open("w") as file:
        command = ["setup.py", "bdist_wheel", "--plat-name", target.tag, "--dist-dir", scratch / "dist"]
        try:
            run(sys.executable, *command, env=env, cwd=source, stdout=file, stderr=subprocess.STDOUT)
        except subprocess.CalledProcessError:
            sys.exit("\n".join([*log.read_text().splitlines()[-20:], f"{name}: it does not compile"]))
    (made,) = (scratch / "dist").glob(f"*{target.tag}.whl")
    check_contents(made)
    with zipfile.ZipFile(made) as archive:
        kernels = [part for part in archive.namelist() if part.endswith(target.suffix)]
        if len(kernels) != 1 + len(list((ROOT / "pymcboost" / "_kernels").glob("*.pyx"))):
            sys.exit(f"{name}: {len(kernels)} kernels are in the wheel, and not one for each .pyx and what they share")
        wrong = [part for part in kernels if not archive.read(part).startswith(target.magic)]
        if wrong:
            sys.exit(f"{name}: {wrong[0]} is not for {target.zig}")
    out.mkdir(parents=True, exist_ok=True)
    place = out / made.name
    made.replace(place)
    print(f"{name}: {place}: {place.stat().st_size:,} bytes, {len(kernels)} kernels, one thread; not run")


def header(name, target, scratch):
    """Compile `mcb.h` alone, as C99 and C++17."""
    for language, standard in (("c", "c99"), ("c++", "c++17")):
        program = scratch / f"{name}.{language.replace('+', 'p')}"
        program.write_text('#include "mcb.h"\nint main(void) { return sizeof(mcb_model) == 0; }\n')
        compiler = "cc" if language == "c" else "c++"
        run(sys.executable, "-m", "ziglang", compiler, "-target", target.zig, f"-std={standard}", "-O2", "-Wall",
            "-Wextra", "-Werror", "-I", ROOT / "pymcboost" / "include", program, "-o", scratch / "program")  # fmt: skip
    print(f"{name}: mcb.h compiles as C99 and C++17; not run")


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="list the targets and stop")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the wheels (default: dist)")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="of --list (default: all)")
    options = parser.parse_args()
    unknown = set(options.targets) - set(TARGETS)
    if options.list or unknown:
        print(*TARGETS, sep="\n")
        return f"there is no target {min(unknown)}" if unknown else None
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", str(Path(folder, "zig")))
        for name in options.targets or TARGETS:
            target = TARGETS[name]
            if target.tag:
                wheel(name, target, Path(folder), options.out)
            else:
                header(name, target, Path(folder))
    return None


if __name__ == "__main__":
    sys.exit(main())
