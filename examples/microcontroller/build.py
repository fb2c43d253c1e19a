"""Compiles a model for a microcontroller, counts flash and RAM, and scores rows in QEMU.

    python examples/microcontroller/build.py MODEL.mcb [ROWS] [--target cortex-m4] [--integer int8] [--out FOLDER]

ROWS holds float32 numbers, as NumPy's tofile writes them; without it there is one row of zeros. The compiler is that of
the package ziglang. With --run the program runs in QEMU (Debian: qemu-system-arm, qemu-system-misc), and says how much
stack it took. mcb.h scores the bytes of the file. With --integer packed trees become a scorer of their own in C without
floating point, which a Cortex-M0 would have to compute by a library.
"""

import argparse
import importlib.util
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

import pymcboost
from pymcboost.export import to_c, to_integer_c
from pymcboost.export.integers import Quantised

HERE = Path(__file__).resolve().parent
ARM = ["qemu-system-arm", "-machine"]
# Options of zig, the board's source and memory, the machine of QEMU.
TARGETS = {
    "cortex-m0": (
        ["thumb-freestanding-eabi", "-mcpu=cortex_m0"],
        "arm",
        "microbit.ld",
        [*ARM, "microbit"],
    ),
    "cortex-m4": (
        ["thumb-freestanding-eabi", "-mcpu=cortex_m4"],
        "arm",
        "mps2.ld",
        [*ARM, "mps2-an386"],
    ),
    "cortex-m7": (
        ["thumb-freestanding-eabihf", "-mcpu=cortex_m7+fp_armv8d16"],
        "arm",
        "mps2.ld",
        [*ARM, "mps2-an500"],
    ),
    "riscv32": (
        ["riscv32-freestanding-none", "-mcpu=generic_rv32+m+a+c", "-mcmodel=medany"],
        "riscv",
        "riscv.ld",
        ["qemu-system-riscv32", "-bios", "none", "-machine", "virt"],
    ),
}
FLAGS = [
    "-std=c99",
    "-Os",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fno-sanitize=all",
    "-fno-unwind-tables",
]
# mcb.h has no vectors here: they are code, and these processors have none.
FLAGS += ["-DMCB_NO_VECTOR", "-ffunction-sections", "-fdata-sections"]
LINK = ["-Wl,--gc-sections", "-Wl,--build-id=none", "-Wl,-e,reset"]
# Of sections in ELF files.
WRITABLE, ALLOCATED, EXECUTED, NO_BITS, SYMBOLS = 1, 2, 4, 8, 2


def write_headers(model, rows, options):
    """model.h and rows.h of score.c; numbers that may be NaN are there as their bits."""
    if model.classes_.dtype.kind not in "iu":
        sys.exit(
            "build.py: the labels of the model are texts, and score.c prints integers; train it with integers"
        )
    rows, feature, bits, out = (
        np.ascontiguousarray(rows, dtype=np.float32),
        "float",
        "uint32_t",
        options.out,
    )
    if options.integer:
        feature = bits = Quantised(model, options.integer, rows).input
        text = to_integer_c(model, "m", integer=options.integer, rows=rows, header=True)
    else:
        text = to_c(model)
    (out / "model.h").write_text(text)
    labels = (f"(int64_t){int(label) % (1 << 64):#x}u" for label in model.classes_)
    numbers = rows.view(np.uint32) if bits == "uint32_t" else rows.astype(np.int64)
    (out / "rows.h").write_text(f"""\
#include <stdint.h>
#define N_ROWS {len(rows)}
#define N_CLASSES {model.n_classes_}
#define N_FEATURES {model.n_features_in_}
#define FEATURE {feature}
#define SCORE {"int32_t" if options.integer else "double"}
static const int64_t labels[N_CLASSES] = {{{", ".join(labels)}}};
static const {bits} rows[N_ROWS * N_FEATURES] = {{{listed(numbers.ravel())}}};
""")


def read_rows(path, n_features):
    """Rows of a file of float32 numbers; one of zeros without a file."""
    if path is None:
        return np.zeros((1, n_features), dtype=np.float32)
    data = Path(path).read_bytes()
    if not data or len(data) % (4 * n_features):
        size = 4 * n_features
        raise ValueError(
            f"{path}: rows of {n_features} float32 numbers take {size} bytes each, not {len(data)}"
        )
    return np.frombuffer(data, "<f4").reshape(-1, n_features)


def listed(numbers):
    """Numbers with commas, in lines."""
    words = [str(number) for number in numbers]
    return ",\n".join(",".join(words[i : i + 20]) for i in range(0, len(words), 20))


def compiler(options):
    """The command, without files."""
    (triple, *machine), *_ = TARGETS[options.target]
    includes = [
        f"-I{folder}"
        for folder in (options.out, HERE, HERE.parent / "freestanding", pymcboost.get_include())
    ]
    more = ["-DINTEGER"] * bool(options.integer)
    return [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-target",
        triple,
        *machine,
        *FLAGS,
        *more,
        *includes,
    ]


def compile_program(options):
    """The program of the headers in the folder."""
    (_, board, memories, _), out = TARGETS[options.target], options.out
    sources = [HERE / name for name in ("score.c", "start.c", f"{board}.c")]
    script, program = out / "score.ld", out / "score.elf"
    script.write_text("".join((HERE / name).read_text() for name in (memories, "sections.ld")))
    command = [*compiler(options), *LINK, f"-Wl,-T,{script}", *sources, "-o", program]
    subprocess.run([str(word) for word in command], check=True)
    return program


def compile_scorer(options):
    """Nothing but the scorer in integers, not linked."""
    source, scorer = options.out / "only.c", options.out / "only.o"
    source.write_text("""\
#include "model.h"
int classify(const void *x);
int classify(const void *x) { return m_predict(x); }
""")
    subprocess.run(
        [str(word) for word in (*compiler(options), "-c", source, "-o", scorer)], check=True
    )
    return scorer


def sections(data):
    """(kind, flags, offset, size, number of another section) of the sections of an ELF file of 32 bits."""
    (table,) = struct.unpack_from("<I", data, 32)
    size, count = struct.unpack_from("<HH", data, 46)
    for i in range(count):
        _, kind, flags, _, offset, length, other = struct.unpack_from("<7I", data, table + i * size)
        yield kind, flags, offset, length, other


def memory(program):
    """(flash, RAM) in bytes of a program: what its sections take."""
    flash = ram = 0
    for kind, flags, _, length, _ in sections(program.read_bytes()):
        if flags & ALLOCATED:
            flash += length * (kind != NO_BITS)
            ram += length * bool(flags & WRITABLE)
    return flash, ram


def parts(scorer):
    """Of what is not linked: bytes of code and of tables, and the functions of the compiler's library that it calls."""
    data = scorer.read_bytes()
    found = list(sections(data))
    kept = [(flags & EXECUTED, length) for _, flags, _, length, _ in found if flags & ALLOCATED]
    code, tables = (
        sum(length for run, length in kept if bool(run) == wanted) for wanted in (True, False)
    )
    _, _, begin, length, names = next(entry for entry in found if entry[0] == SYMBOLS)
    called = []
    for at in range(begin, begin + length, 16):
        name, _, _, _, _, section = struct.unpack_from("<IIIBBH", data, at)
        if name and section == 0:
            text = found[names][2] + name
            called.append(data[text : data.index(0, text)].decode())
    return code, tables, called


def simulate(target, program):
    """Lines that the program prints in QEMU."""
    command = [
        *TARGETS[target][3],
        "-nographic",
        "-monitor",
        "none",
        "-serial",
        "none",
        "-kernel",
        str(program),
    ]
    command += [
        "-semihosting-config",
        "enable=on,target=native,chardev=said",
        "-chardev",
        "stdio,id=said",
    ]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    return (done.stdout + done.stderr).splitlines()


def main(argv=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help=".mcb file")
    parser.add_argument(
        "rows",
        nargs="?",
        help="file of float32 numbers, as many for each row as there are features",
    )
    parser.add_argument(
        "--target", choices=TARGETS, default="cortex-m4", help="processor (default: cortex-m4)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("microcontroller-out"), help="folder of score.elf"
    )
    integers = ("int8", "int16", "int32")
    parser.add_argument(
        "--integer",
        choices=integers,
        help="of packed trees: scores are sums of integers of this type",
    )
    parser.add_argument("--run", action="store_true", help="run it in QEMU")
    options = parser.parse_args(argv)
    emulator = TARGETS[options.target][3][0]
    if options.run and shutil.which(emulator) is None:
        package = "misc" if "riscv" in emulator else "arm"
        sys.exit(
            f"build.py: --run needs {emulator}, which is not installed: apt-get install qemu-system-{package}"
        )
    try:
        model = pymcboost.load_model(options.model)
        if (
            options.target == "cortex-m0"
            and not options.integer
            and model.ensemble.decoder != "linear"
        ):
            decoder = model.ensemble.decoder
            raise ValueError(
                f"mcb.h takes 34 kB of stack for the decoder {decoder}, {options.target} has 16 kB"
            )
        rows = read_rows(options.rows, model.n_features_in_)
        options.out.mkdir(parents=True, exist_ok=True)
        write_headers(model, rows, options)
    except (OSError, ValueError) as error:
        sys.exit(f"build.py: {error}")
    if importlib.util.find_spec("ziglang") is None:
        sys.exit("build.py: the compiler is not installed: pip install ziglang")
    try:
        program = compile_program(options)
        scorer = compile_scorer(options) if options.integer else None
    except subprocess.CalledProcessError:
        sys.exit(
            "build.py: it was not compiled, see above; where a section does not fit, take a smaller model, packed "
            "trees or a target with more flash"
        )
    flash, ram = memory(program)
    scorer_name = f"scorer in {options.integer}" if options.integer else "mcb.h"
    print(
        f"{options.target}, {scorer_name}: flash {flash:,} bytes, RAM {ram:,} bytes without the stack"
    )
    if scorer is not None:
        code, tables, called = parts(scorer)
        print(
            f"the scorer: {code:,} bytes of code, {tables:,} of tables; it calls {', '.join(called) or 'nothing'}"
        )
    if options.run:
        print("\n".join(simulate(options.target, program)))


if __name__ == "__main__":
    main()
