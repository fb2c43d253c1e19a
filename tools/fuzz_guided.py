"""Inputs that libFuzzer makes, guided by the branches that they reach; clang is needed.

    python tools/fuzz_guided.py model --runs 10000000      model files: mcb_open, and all ways to score those it accepts
    python tools/fuzz_guided.py svmlight --runs 10000000   the reader of LIBSVM files
    python tools/fuzz_guided.py model --keep               a part of the corpus into tests/fuzz

Both run under the address and undefined-behaviour sanitizers. Inputs that reach something new are kept in a corpus,
with which the next call goes on; a new corpus begins with that of tests/fuzz. Exit code 0 if nothing was found; a
finding lies in the folder of the corpus as crash-*, leak-*, timeout-* or oom-*.
"""

import argparse
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tools")]

from fuzz_kept import KEPT, kept  # noqa: E402

LARGEST = 4096  # bytes of an input that is kept
FLAGS = ["-g", "-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"]
SOURCES = {"model": "fuzz_guided.c", "svmlight": "fuzz_svmlight.c"}
LONGEST = {"model": 1 << 14, "svmlight": 1 << 10}  # bytes
WORDS = (
    "1",
    "-3 ",
    " 2:",
    ":1.5",
    "e308",
    "nan",
    "inf",
    "#",
    "qid:7",
    "1,2,3 ",
    "\n",
    "\r\n",
    "0x1p3",
    "+",
)


def model_seeds():
    """The small models of every kind that `fuzz.py` damages."""
    from fuzz import base_models

    with tempfile.TemporaryDirectory() as folder:
        for model in base_models():
            path = Path(folder, "model.mcb")
            model.save(path)
            yield path.read_bytes()


def svmlight_seeds():
    """Texts of each form."""
    yield from (
        b"1 1:0.5 3:-2e-3\n-1 2:1\n",
        b"3,17 1:1\n 2:1 # no label\n",
        b"2 qid:4 1:1e300 7:inf\r\n",
        b"\n#\n\n1\n",
        b"+1.0 1:nan 2:0x1p3 2000000000:1",
        b"1 1:123456789012345678901234567890.5e-25\n",
    )


SEEDS = {"model": model_seeds, "svmlight": svmlight_seeds}


def compile_one(harness, folder):
    """The command of a harness."""
    program = folder / harness
    include = [
        f"-I{ROOT / name}" for name in ("pymcboost/include", "pymcboost/_kernels", "tests/unit")
    ]
    define = ["-DFUZZ_BUILDS(x)="] if harness == "model" else []
    command = [
        "clang",
        *FLAGS,
        *define,
        *include,
        str(ROOT / "tools" / SOURCES[harness]),
        "-o",
        str(program),
        "-lm",
    ]
    subprocess.run(command, check=True)
    return [program]


def sow(harness, corpus):
    """Put the seeds into a corpus, and what was kept into a new one."""
    new = not corpus.exists()
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(SEEDS[harness]()):
        (corpus / f"seed-{number}").write_bytes(data)
    for number, data in enumerate(kept(harness) if new else ()):
        (corpus / f"kept-{number}").write_bytes(data)


def keep(harness, corpus, folder=KEPT):
    """Write the inputs that are needed to reach what all of those of at most `LARGEST` bytes do; their number."""
    with tempfile.TemporaryDirectory() as temporary:
        small, least = Path(temporary, "small"), Path(temporary, "least")
        small.mkdir()
        least.mkdir()
        for path in corpus.iterdir():
            if path.stat().st_size <= LARGEST:
                (small / path.name).write_bytes(path.read_bytes())
        command = compile_one(harness, Path(temporary))
        subprocess.run(
            [*command, "-merge=1", "-timeout=60", least, small],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        inputs = sorted(
            (path.read_bytes() for path in least.iterdir()), key=lambda data: (data[:64], data)
        )
    folder.mkdir(exist_ok=True)
    with tarfile.open(
        folder / f"{harness}.tar.xz", "w:xz", format=tarfile.USTAR_FORMAT, preset=9
    ) as archive:
        for number, data in enumerate(inputs):
            member = tarfile.TarInfo(str(number))
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return len(inputs)


def run(harness, runs, seed, folder):
    """Run a harness and print what libFuzzer says last; the number of findings."""
    corpus = folder / harness
    sow(harness, corpus)
    quoted = ("".join(f"\\x{ord(letter):02x}" for letter in word) for word in WORDS)
    (folder / "words").write_text("".join(f'"{word}"\n' for word in quoted))
    with tempfile.TemporaryDirectory() as temporary:
        command = compile_one(harness, Path(temporary))
        words = [f"-dict={folder / 'words'}"] if harness == "svmlight" else []
        limits = [f"-runs={runs}", f"-max_len={LONGEST[harness]}", f"-seed={seed}", "-timeout=60"]
        before = artifacts(folder)
        where = f"-artifact_prefix={folder}/"
        completed = subprocess.run(
            [*command, *limits, *words, where, corpus], stderr=subprocess.PIPE, text=True
        )
    if completed.returncode:
        print(completed.stderr[-6000:], file=sys.stderr)
    counts = re.findall(r"#(\d+)\s+\w+ +cov: (\d+) ft: \d+ corp: (\d+)/", completed.stderr)
    inputs, edges, kept_inputs = counts[-1] if counts else (0, 0, 0)
    findings = len(artifacts(folder) - before)  # a run that a signal ends has none
    print(
        f"{harness}: {inputs} inputs, {edges} edges, a corpus of {kept_inputs}, {findings} findings"
    )
    return findings


def artifacts(folder):
    """Names of the inputs that were findings."""
    return {
        path.name
        for what in ("crash", "leak", "timeout", "oom")
        for path in folder.glob(f"{what}-*")
    }


def main(arguments=None):
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("harness", choices=LONGEST)
    parser.add_argument("--runs", type=int, default=100_000, help="inputs to try (default 100,000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--corpus", type=Path, default=ROOT / "build" / "fuzz", help="folder of what is kept"
    )
    parser.add_argument(
        "--keep", action="store_true", help="run nothing: put a part of the corpus into tests/fuzz"
    )
    options = parser.parse_args(arguments)
    if options.keep:
        print(f"{keep(options.harness, options.corpus / options.harness)} inputs")
        return 0
    options.corpus.mkdir(parents=True, exist_ok=True)
    findings = run(options.harness, options.runs, options.seed, folder=options.corpus)
    return int(findings > 0)


if __name__ == "__main__":
    sys.exit(main())
