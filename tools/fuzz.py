"""Damage model files at random and see that every one is refused, or scores harmlessly.

    python tools/fuzz.py --count 100000              # any change of the bytes must be refused
    python tools/fuzz.py --repaired --count 100000   # checksums put right: refused, or scored with finite numbers
    python tools/fuzz.py --shapes --count 100000     # counts that agree; also held against a slow twin in Python
    python tools/fuzz.py --kept                      # the files that fuzz_guided.py kept, held against both, too
                                                     # (at most --count of them, one in so many)

The loop is in C (fuzz.c) and runs under the address and undefined-behaviour sanitizers. Accepted files are scored by
several builds of mcb.h, which must agree in every bit. Exit code 0 if all went well.
"""

import argparse
import json
import os
import platform
import random
import shlex
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tools")]

import fuzz_shapes  # noqa: E402
from fuzz_kept import kept  # noqa: E402
from reference import modelreader  # noqa: E402
from reference.scoring import (  # noqa: E402
    random_entries,
    random_kernel,
    random_right,
    random_sets,
    random_stumps,
    random_trees,
)
from shared.measure import cpu_flags  # noqa: E402

from pymcboost.model import file as modelfile  # noqa: E402
from pymcboost.model.builders import TreesBuilder  # noqa: E402
from pymcboost.model.linear import LinearMachine  # noqa: E402
from pymcboost.model.model import Model  # noqa: E402


def base_models():
    """Small models of every kind and shape of section."""
    rng = np.random.default_rng(0)
    yield from stump_models()
    for classes in (range(2), ["a", "bb", "\u00e9"], range(11)):
        for models in (
            tree_models,
            packed_models,
            set_models,
            entry_models,
            coded_models,
            linear_models,
            kernel_models,
        ):
            yield from models(rng, classes, len(classes))


def stump_models():
    """Lists of stumps and tables of intervals."""
    for classes in (
        range(2),
        range(-3, 2),
        ["a", "bb", "\u00e9"],
        [str(i).zfill(3) for i in range(17)],
    ):
        k = len(classes)
        for n_features, n_stumps, two_sided in (
            (3, 9, False),
            (300, 12, True),
            (70_000, 5, False),
            (40, 40, True),
        ):
            stumps = random_stumps(n_stumps, n_features, k, two_sided=two_sided)
            for layout in ("list", "interval"):
                model = Model.from_ensemble(
                    stumps,
                    classes,
                    link=("none", "softmax", "softmax2")[n_stumps % 3],
                    meta={"n": n_stumps} if two_sided else None,
                    layout=layout,
                )
                yield model.with_temperature(0.7 if n_features > 3 else None)


def packed_models(rng, classes, k):
    """Packed trees of a number, and of vectors."""
    for model in tree_models(rng, classes, k):
        if model.ensemble.base is None:
            yield Model.from_bytes(model._changed().to_bytes("packed", "int8"))


def tree_models(rng, classes, k):
    """Trees with numbers and with vectors in their leaves."""
    for mode, n_features, most, leaves in (
        ("scalar", 3, 9, "float32"),
        ("base", 300, 5, "float16"),
        ("vector", 5, 90, "float32"),
        ("vector", 70_000, 4, "float16"),
        ("base", 2, 400, "float32"),
        ("scalar", 1500, 700, "float32"),  # blocks of trees with up to 1024 columns
        ("scalar", 9000, 2500, "float16"),  # trees with more
        ("vector", 20, 900, "float16"),  # enough splits of few features for ranks
    ):
        trees = random_trees(4, n_features, k, mode=mode, splits=(0, most))
        model = Model.from_ensemble(trees, classes, link="softmax", leaves=leaves)
        model = model.with_temperature(3.0 if mode == "vector" else None)
        yield with_exits(model, rng, n_features > 3) if k < 11 else model


def set_models(rng, classes, k):
    """Trees with splits on sets of categories."""
    for vector in (True, False):
        model = Model.from_ensemble(
            random_sets(5, 9, k, seed=k, vector=vector), classes, link="softmax"
        )
        yield with_exits(model, rng, True) if k < 11 else model


def entry_models(rng, classes, k):
    """Trees whose leaves have numbers of some classes alone."""
    for n_features, most, leaves in ((5, 9, "float32"), (300, 90, "float16")):
        trees = random_entries(5, n_features, k, share=0.4, splits=(0, most), seed=k)
        model = Model.from_ensemble(trees, classes, link="softmax", leaves=leaves)
        yield with_exits(model, rng, True) if k < 11 else model


def with_exits(model, rng, bounds):
    """A model with checkpoints, thresholds, and bounds or not."""
    at = np.arange(1, model.n_learners, 2)
    k = model.n_classes_
    pair = rng.normal(0, 3, size=(len(at) + 1) // 2 * k * (k - 1)).astype("<f2")
    numbers = [np.array([0.01, 300, third, *rng.normal(1, 1, len(at))]) for third in (2, k - 1)]
    return model._changed(
        exit=at.astype("u1"), pair=pair if bounds else None, marg=numbers[0], rjct=numbers[1]
    )


def coded_models(rng, classes, k):
    """Trees of the columns of a code."""
    for n_columns, n_features, most, decoder in (
        (1, 5, 9, "linear"),
        (2 * k, 300, 1, "linear"),
        (70, 6, 5, "exp"),
        (3, 6, 5, "hamming"),
    ):
        builder = TreesBuilder(k, n_features, code=rng.normal(size=(n_columns, k)), decoder=decoder)
        for _ in range(6):
            s = int(rng.integers(most + 1))
            feature = rng.integers(n_features, size=s)
            nan_left = rng.random(s) < 0.5
            column = int(rng.integers(n_columns))
            leaf = rng.normal(size=s + 1)
            builder.add_tree(
                feature,
                rng.normal(size=s),
                nan_left,
                right=random_right(s, rng),
                leaf=leaf,
                cls=column,
            )
            builder.end_round()
        yield Model.from_ensemble(builder.freeze(), classes, link="softmax")


def linear_models(rng, classes, k):
    """Linear machines."""
    for n_features in (3, 16, 700):
        machine = LinearMachine(rng.normal(size=(k, n_features)), rng.normal(size=k))
        model = Model.from_ensemble(machine, classes, link="softmax" if k == 2 else "none")
        yield moved_last(model, "WMAT") if n_features == 3 else model.with_temperature(0.01)
    few = rng.integers(-1, 2, (k, 2)) @ rng.normal(
        size=(2, 1100)
    )  # hyperplanes that follow from two of them
    yield Model.from_ensemble(LinearMachine(few, rng.integers(0, 2, k)), classes)


def kernel_models(rng, classes, k):
    """Kernel machines."""
    for kernel, n_support, n_features, scaled in (
        ("poly", 9, 5, True),
        ("rbf", 70, 8, False),
        ("perceptron", 3, 600, True),
        ("linear", 0, 4, False),
    ):
        model = Model.from_ensemble(
            random_kernel(n_support, n_features, k, kernel=kernel, scaled=scaled),
            classes,
            meta={"kernel": kernel},
            link="softmax2" if k == 11 else "none",
        )
        yield moved_last(model, "SVEC") if scaled else model.with_temperature(60.0)


def moved_last(model, tag):
    """The same model with one section at the end of the file, where reading on would leave it."""
    sections = modelfile.arrays(model.to_bytes(), model._scorer)
    order = [*(name for name in sections if name != tag), tag]
    link = modelfile.LINKS.index(model.link)
    data = modelfile._assemble(
        model.kind,
        model.n_classes_,
        model.n_features_in_,
        link=link,
        decoder=0,
        sections=[(name, sections[name]) for name in order],
    )
    return Model.from_bytes(data)


def builds(options):
    """Flags of each further build of the scorer; one that cannot run here is named."""
    if options.alone:
        return {}
    if platform.machine() not in ("x86_64", "AMD64"):
        return {"scalar": ["-DMCB_NO_VECTOR"]}
    names = {"simd": ["-DMCB_SIMD"], "avx2": ["-mavx2", "-mfma"], "scalar": ["-DMCB_NO_VECTOR"]}
    if not {"avx2", "fma"} <= cpu_flags():
        print("skipped: the build for AVX2, which this processor cannot run")
        del names["avx2"]
    return {name: flags for name, flags in names.items() if name in options.builds.split(",")}


def compile_all(options, folder, names, flags):
    """The fuzz program, linked with every build of the scorer; its path."""
    common = [
        *shlex.split(options.compiler),
        f"-O{options.optimize}",
        "-std=gnu99",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]
    common += [f"-I{options.header}", f"-DFUZZ_WIDEST={options.widest}u", "-c"]
    listed = " ".join(f"X({name})" for name in names)
    jobs = [
        [
            *common,
            *flags,
            f"-DFUZZ_BUILDS(X)={listed}",
            ROOT / "tools" / "fuzz.c",
            "-o",
            folder / "fuzz.o",
        ]
    ]
    for name, own in names.items():
        source = [
            f"-DFUZZ_SCORER={name}",
            ROOT / "tools" / "fuzz_scores.c",
            "-o",
            folder / f"{name}.o",
        ]
        jobs.append([*common, *own, *source])
    running = [subprocess.Popen(list(map(str, job))) for job in jobs]
    statuses = [process.wait() for process in running]
    if any(statuses):
        raise SystemExit("the fuzz program does not compile")
    objects = [str(folder / f"{name}.o") for name in ("fuzz", *names)]
    program = folder / "fuzz"
    subprocess.run(
        [*shlex.split(options.compiler), *flags, *objects, "-o", str(program), "-lm"], check=True
    )
    return program


def write_corpus(path, count, seed):
    """Files of drawn shapes with their rows; the list of (bytes, length of a row, numbers of the rows)."""
    rng = random.Random(seed)
    files = [fuzz_shapes.draw(rng) for _ in range(count)]
    write_files(path, files)
    return files


def write_files(path, files):
    """Files (bytes, length of a row, numbers of the rows) as one, which the fuzz program reads."""
    with open(path, "wb") as out:
        for data, stride, rows in files:
            out.write(struct.pack("<3Q", len(data), len(rows) // stride, stride) + data)
            out.write(struct.pack(f"<{len(rows)}f", *rows))


def slow_reader_differs(files, results):
    """What the slow reader says otherwise of the first of these files for which it does; None if all is the same."""
    with open(results, "rb") as stream:
        for number, (data, stride, rows) in enumerate(files):
            status = struct.unpack("<i", stream.read(4))[0]
            try:
                file = modelreader.File(data)
                expected = 0
            except modelreader.RefusedError as refusal:
                file = None
                expected = refusal.args[0]
            if status != expected and not any(
                {status, expected} <= group for group in modelreader.TOGETHER
            ):
                return f"file number {number}: status {status}, the slow reader says {expected}"
            if status:
                continue
            rows = struct.unpack(f"<{len(rows)}f", struct.pack(f"<{len(rows)}f", *rows))
            scores = [file.scores(rows[i : i + stride]) for i in range(0, len(rows), stride)]
            early = [
                file.early(rows[i : i + stride], way)
                for way, tag in enumerate(
                    modelreader.EXITS if file.kind != modelreader.INTERVALS else ()
                )
                if file.has(tag)
                for i in range(0, len(rows), stride)
            ]
            for wanted in (scores, early, [file.probabilities(F) or F for F in scores]):
                for i, F in enumerate(wanted):
                    found = struct.unpack(f"<{len(F)}d", stream.read(8 * len(F)))
                    if list(map(bits, found)) != list(map(bits, F)):
                        return f"file number {number}, row {i}: {found}, the slow reader says {F}"
    return None


def bits(value):
    """Equal for equal bits; one NaN is as good as another."""
    return struct.pack("<d", value) if value == value else b"NaN"


def print_counts(text):
    """Lines of the fuzz program, with what the statuses mean."""
    for line in text.splitlines():
        status, _, rest = line.partition(" ")
        count, _, message = rest.partition(" ")
        if status.isdigit():
            message = "accepted; all scores finite" if status == "0" else message
            print(f"{int(count):>9}  {status:>2}  {message}")
        else:
            print(line)


def fuzz(options, folder, program):
    """One run of the program; returns the exit code."""
    files = None
    if options.kept:
        files = [(data, 1, ()) for data in kept("model")]
        files = files[:: -(-len(files) // options.count)]
        options.count = len(files)
        write_files(folder / "corpus", files)
    elif options.shapes:
        files = write_corpus(folder / "corpus", options.count, options.seed)
    if files:
        command = ["shapes", folder / "corpus", folder / "results", options.seed]
    else:
        command = ["repaired" if options.repaired else "plain", options.count, options.seed]
        for i, model in enumerate(base_models()):
            command.append(folder / f"{i}.mcb")
            command[-1].write_bytes(model.to_bytes())  # a file that is saved is waited for
    run = subprocess.run(
        [str(part) for part in (program, *command)], capture_output=True, text=True
    )
    what = "kept" if options.kept else "drawn" if options.shapes else "damaged"
    print(
        f"{options.count} files {what}{', checksums repaired' if options.repaired else ''}, seed {options.seed}"
    )
    print_counts(run.stdout)
    if run.returncode:
        print(run.stderr[-4000:], file=sys.stderr)
        print(f"the fuzz program failed with exit code {run.returncode}", file=sys.stderr)
    elif files and (problem := slow_reader_differs(files, folder / "results")):
        print(f"failed: {problem}", file=sys.stderr)
        return 1
    return int(run.returncode != 0)


def lines_not_run(folder):
    """Numbers of the lines of mcb.h that did not run, as gcov counted them for fuzz.o in a folder."""
    run = ["gcov", "--json-format", "--stdout", "fuzz.o"]
    report = json.loads(subprocess.run(run, cwd=folder, capture_output=True, check=True).stdout)
    lines = [
        line for file in report["files"] if file["file"].endswith("mcb.h") for line in file["lines"]
    ]
    ran = {line["line_number"] for line in lines if line["count"]}
    return sorted({line["line_number"] for line in lines} - ran)


def main(arguments=None):
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000, help="files to try")
    parser.add_argument(
        "--repaired", action="store_true", help="put the checksums right after the damage"
    )
    parser.add_argument(
        "--shapes",
        action="store_true",
        help="draw files whose counts agree; see also the slow twin",
    )
    parser.add_argument(
        "--kept", action="store_true", help="files of tests/fuzz, which nothing damages"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compiler", default=os.environ.get("CC") or "gcc")
    parser.add_argument(
        "--header", type=Path, default=ROOT / "pymcboost" / "include", help="folder of mcb.h"
    )
    parser.add_argument(
        "--simd",
        action="store_true",
        help="compile the AVX2 and AVX-512 variants with the sanitizers, too (slow)",
    )
    parser.add_argument("--alone", action="store_true", help="do not compare with other builds")
    parser.add_argument("--no-sanitizers", action="store_true")
    parser.add_argument(
        "--builds", default="simd,avx2,scalar", help="the other builds (default: %(default)s)"
    )
    parser.add_argument(
        "--widest", type=int, default=1 << 22, help="files with more features are not scored"
    )
    parser.add_argument(
        "--optimize",
        default="1",
        choices=list("0123"),
        help="0 compiles four times faster, without line numbers",
    )
    options = parser.parse_args(arguments)
    flags = (
        []
        if options.no_sanitizers
        else ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    )
    flags += ["-g"] if flags and options.optimize != "0" else []
    flags += ["-DMCB_SIMD"] if options.simd else []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        return fuzz(options, folder, compile_all(options, folder, builds(options), flags=flags))


if __name__ == "__main__":
    sys.exit(main())
