"""Compiles a model for a microcontroller, counts flash and RAM, and scores rows in QEMU.

    python examples/microcontroller/build.py MODEL.mcb [ROWS] [--target cortex-m4] [--form generated] [--out FOLDER]

ROWS holds float32 numbers; without it there is one row of zeros. The compiler is the package ziglang's. With --run the
program runs in QEMU (Debian: qemu-system-arm, qemu-system-misc), and says how much stack it took.
"""

import argparse
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

import pymcboost
from pymcboost.export import to_c

HERE = Path(__file__).resolve().parent
ARM = ["qemu-system-arm", "-machine"]
# Options of zig, the board's files, the machine of QEMU.
TARGETS = {
    "cortex-m4": (["thumb-freestanding-eabi", "-mcpu=cortex_m4"], "arm", [*ARM, "mps2-an386"]),
    "cortex-m7": (["thumb-freestanding-eabihf", "-mcpu=cortex_m7+fp_armv8d16"], "arm", [*ARM, "mps2-an500"]),
    "riscv32": (
        ["riscv32-freestanding-none", "-mcpu=generic_rv32+m+a+c", "-mcmodel=medany"],
        "riscv",
        ["qemu-system-riscv32", "-bios", "none", "-machine", "virt"],
    ),
}
FLAGS = ["-std=c99", "-Os", "-Wall", "-Wextra", "-Werror", "-fno-sanitize=all"]
# mcb.h has no vectors here: they are code, and these processors have none.
FLAGS += ["-DMCB_NO_VECTOR", "-ffunction-sections", "-fdata-sections"]
LINK = ["-Wl,--gc-sections", "-Wl,--build-id=none", "-Wl,-e,reset"]
# Of sections in ELF files.
WRITABLE, ALLOCATED, NO_BITS = 1, 2, 8


def write_headers(model, rows, form, out):
    """model.h and rows.h of score.c; numbers that may be NaN are there as their bits."""
    if model.classes_.dtype.kind not in "iu":
        sys.exit("build.py: the labels of the model are texts, and score.c prints integers; train it with integers")
    if form == "generated":
        text = to_c(model, "m", header=True)
    else:
        text = f"static const unsigned char model_bytes[] = {{{listed(model.to_bytes())}}};\n"
    (out / "model.h").write_text(text)
    labels = (f"(int64_t){int(label) % (1 << 64):#x}u" for label in model.classes_)
    bits = np.ascontiguousarray(rows, dtype=np.float32).view(np.uint32)
    (out / "rows.h").write_text(f"""\
#include <stdint.h>
#define N_ROWS {len(rows)}
#define N_CLASSES {model.n_classes_}
#define N_FEATURES {model.n_features_in_}
static const int64_t labels[N_CLASSES] = {{{", ".join(labels)}}};
static const uint32_t rows[N_ROWS * N_FEATURES] = {{{listed(bits.ravel())}}};
""")


def listed(numbers):
    """Numbers with commas, in lines."""
    words = [str(number) for number in numbers]
    return ",\n".join(",".join(words[i : i + 20]) for i in range(0, len(words), 20))


def compile_program(target, form, out):
    """The program of the headers in `out`."""
    (triple, *machine), board, _ = TARGETS[target]
    sources = [HERE / name for name in ("score.c", "start.c", f"{board}.c")]
    includes = [f"-I{folder}" for folder in (out, HERE, HERE.parent / "freestanding", pymcboost.get_include())]
    script = out / "score.ld"
    script.write_text("".join((HERE / name).read_text() for name in (f"{board}.ld", "sections.ld")))
    more = ["-DGENERATED"] if form == "generated" else []
    program = out / "score.elf"
    command = [sys.executable, "-m", "ziglang", "cc", "-target", triple, *machine, *FLAGS, *more, *includes, *LINK]
    subprocess.run([str(word) for word in (*command, f"-Wl,-T,{script}", *sources, "-o", program)], check=True)
    return program


def memory(program):
    """(flash, RAM) in bytes of a program: what its sections of an ELF file of 32 bits take."""
    data = program.read_bytes()
    (table,) = struct.unpack_from("<I", data, 32)
    size, count = struct.unpack_from("<HH", data, 46)
    flash = ram = 0
    for i in range(count):
        _, kind, flags, _, _, length = struct.unpack_from("<6I", data, table + i * size)
        if flags & ALLOCATED:
            flash += length * (kind != NO_BITS)
            ram += length * bool(flags & WRITABLE)
    return flash, ram


def simulate(target, program):
    """Lines that the program prints in QEMU."""
    command = [*TARGETS[target][2], "-nographic", "-monitor", "none", "-serial", "none", "-kernel", str(program)]
    command += ["-semihosting-config", "enable=on,target=native,chardev=said", "-chardev", "stdio,id=said"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return (done.stdout + done.stderr).splitlines()


def main(argv=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("rows", nargs="?")
    parser.add_argument("--target", choices=TARGETS, default="cortex-m4")
    parser.add_argument("--form", choices=("header", "generated"), default="header", help="mcb.h, or C of the model")
    parser.add_argument("--out", type=Path, default=Path("microcontroller-out"), help="folder of score.elf")
    parser.add_argument("--run", action="store_true", help="run it in QEMU")
    options = parser.parse_args(argv)
    model = pymcboost.load_model(options.model)
    numbers = np.fromfile(options.rows, "<f4") if options.rows else np.zeros(model.n_features_in_, dtype=np.float32)
    options.out.mkdir(parents=True, exist_ok=True)
    write_headers(model, numbers.reshape(-1, model.n_features_in_), options.form, options.out)
    program = compile_program(options.target, options.form, options.out)
    flash, ram = memory(program)
    print(f"{options.target}, {options.form}: flash {flash:,} bytes, RAM {ram:,} bytes without the stack")
    if options.run:
        print("\n".join(simulate(options.target, program)))


if __name__ == "__main__":
    main()
