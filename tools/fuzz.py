"""Damage model files at random and see that every one is refused, or scores harmlessly.

    python tools/fuzz.py --count 100000              # any change of the bytes must be refused
    python tools/fuzz.py --repaired --count 100000   # checksums put right: refused, or scored with finite numbers

The loop is in C (fuzz.c) and runs under the address and undefined-behaviour sanitizers. Exit code 0 if all went well.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pymcboost.model import file as modelfile  # noqa: E402
from pymcboost.model.builders import EnsembleBuilder, TreesBuilder  # noqa: E402
from pymcboost.model.kernel import KernelMachine  # noqa: E402
from pymcboost.model.linear import LinearMachine  # noqa: E402
from pymcboost.model.model import Model  # noqa: E402
from pymcboost.model.scale import Scale  # noqa: E402


def base_models():
    """Small models of every kind and shape of section."""
    rng = np.random.default_rng(0)
    for classes in (range(2), range(-3, 2), ["a", "bb", "\u00e9"], [str(i).zfill(3) for i in range(17)]):
        k = len(classes)
        for n_features, n_stumps, two_sided in ((3, 9, False), (300, 12, True), (70_000, 5, False), (40, 40, True)):
            builder = EnsembleBuilder(k, n_features)
            builder.bias[:] = rng.normal(size=k)
            for _ in range(n_stumps):
                left = rng.normal(size=k) if two_sided else None
                builder.add_stump(rng.integers(n_features), rng.normal(), rng.random() < 0.5, rng.normal(size=k), left)
            for layout in ("list", "interval", "interval32"):
                yield Model.from_ensemble(
                    builder.freeze(),
                    classes,
                    link=("none", "softmax", "softmax2")[n_stumps % 3],
                    meta={"n": n_stumps} if two_sided else None,
                    layout=layout,
                )
    for classes in (range(2), ["a", "bb", "\u00e9"], range(11)):
        k = len(classes)
        for vector, bases, n_features, most, leaves in (
            (False, False, 3, 9, "float32"),
            (False, True, 300, 5, "float16"),
            (True, False, 5, 90, "float32"),
            (True, False, 70_000, 4, "float16"),
            (False, True, 2, 400, "float32"),
            (False, False, 1500, 700, "float32"),  # blocks of trees with up to 1024 columns
        ):
            builder = TreesBuilder(k, n_features, vector)
            builder.bias[:] = rng.normal(size=k)
            for r in range(5):
                for _ in range(r % 3):
                    s = int(rng.integers(most + 1))
                    cls = -1 if vector else int(rng.integers(k))
                    base = (cls + 1) % k if bases and rng.random() < 0.8 else -1
                    leaf = rng.normal(size=(s + 1, k) if vector else s + 1)
                    feature, nan_left = rng.integers(n_features, size=s), rng.random(s) < 0.5
                    builder.add_tree(feature, rng.normal(size=s), nan_left, random_right(s, rng), leaf, cls, base)
                builder.end_round()
            yield Model.from_ensemble(builder.freeze(), classes, link="softmax", leaves=leaves)
        for n_columns, n_features, most, decoder in (
            (1, 5, 9, "linear"),
            (2 * k, 300, 1, "linear"),
            (70, 6, 5, "exp"),
            (3, 6, 5, "hamming"),
        ):
            builder = TreesBuilder(k, n_features, code=rng.normal(size=(n_columns, k)), decoder=decoder)
            for _ in range(6):
                s = int(rng.integers(most + 1))
                feature, nan_left = rng.integers(n_features, size=s), rng.random(s) < 0.5
                column, leaf = int(rng.integers(n_columns)), rng.normal(size=s + 1)
                builder.add_tree(feature, rng.normal(size=s), nan_left, random_right(s, rng), leaf, column)
                builder.end_round()
            yield Model.from_ensemble(builder.freeze(), classes, link="softmax")
        for n_features in (3, 16, 700):
            machine = LinearMachine(rng.normal(size=(k, n_features)), rng.normal(size=k))
            model = Model.from_ensemble(machine, classes, link="softmax" if k == 2 else "none")
            yield moved_last(model, "WMAT") if n_features == 3 else model
        for kernel, n_support, n_features, scaled in (
            ("poly", 9, 5, True),
            ("rbf", 70, 8, False),
            ("perceptron", 3, 600, True),
            ("linear", 0, 4, False),
        ):
            model = Model.from_ensemble(
                KernelMachine(
                    kernel,
                    0.5,
                    1.0,
                    3,
                    rng.normal(size=(n_support, n_features)),
                    rng.normal(size=(n_support, k)),
                    rng.normal(size=k),
                    Scale.from_range(np.full(n_features, -2), rng.uniform(1, 3, n_features)) if scaled else None,
                ),
                classes,
                meta={"kernel": kernel},
                link="softmax2" if k == 11 else "none",
            )
            yield moved_last(model, "SVEC") if scaled else model


def moved_last(model, tag):
    """The same model with one section at the end of the file, where reading on would leave it."""
    sections = modelfile.arrays(model.to_bytes(), model._scorer)
    order = [*(name for name in sections if name != tag), tag]
    link = modelfile.LINKS.index(model.link)
    data = modelfile._assemble(
        model.kind, model.n_classes_, model.n_features_in_, link, 0, [(name, sections[name]) for name in order]
    )
    return Model.from_bytes(data)


def random_right(s, rng):
    """Right children of a random tree of s splits."""
    right = np.zeros(s, dtype=np.int64)
    parts = [(0, s)]
    while parts:
        begin, end = parts.pop()
        if begin < end:
            right[begin] = rng.integers(1, end - begin + 1)
            parts += [(begin + 1, begin + right[begin]), (begin + right[begin], end)]
    return right


def main(arguments=None):
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000, help="damaged files to try")
    parser.add_argument("--repaired", action="store_true", help="put the checksums right after the damage")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compiler", default=os.environ.get("CC", "gcc"))
    parser.add_argument(
        "--simd", action="store_true", help="compile the AVX2 and AVX-512 variants, too (slow to compile)"
    )
    parser.add_argument("--no-sanitizers", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "fuzz")
        flags = [] if options.no_sanitizers else ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        flags += ["-DMCB_SIMD"] if options.simd else []
        subprocess.run(
            [
                options.compiler,
                "-O1",
                "-g",
                "-std=gnu99",
                "-Wall",
                "-Wextra",
                "-Werror",
                *flags,
                f"-I{ROOT / 'pymcboost' / 'include'}",
                str(ROOT / "tools" / "fuzz.c"),
                "-o",
                str(program),
                "-lm",
            ],
            check=True,
        )
        files = []
        for i, model in enumerate(base_models()):
            files.append(str(Path(folder, f"{i}.mcb")))
            model.save(files[-1])
        run = subprocess.run(
            [str(program), "repaired" if options.repaired else "plain", str(options.count), str(options.seed), *files],
            capture_output=True,
            text=True,
            cwd=os.getcwd(),
        )
    print(f"{options.count} files damaged{', checksums repaired' if options.repaired else ''}, seed {options.seed}")
    for line in run.stdout.splitlines():
        status, _, rest = line.partition(" ")
        count, _, message = rest.partition(" ")
        if status.isdigit():
            message = "accepted; all scores finite" if status == "0" else message
            print(f"{int(count):>9}  {status:>2}  {message}")
        else:
            print(line)
    if run.returncode:
        print(run.stderr[-4000:], file=sys.stderr)
        print(f"the fuzz program failed with exit code {run.returncode}", file=sys.stderr)
    return int(run.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
