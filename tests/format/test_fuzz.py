"""Random damage, by the fuzz program."""

import importlib
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from c.build import SANITIZERS, c_compiler

HEADER = Path(__file__).resolve().parents[2] / "pymcboost" / "include" / "mcb.h"
# The quick tests compile two programs: one with sanitizers, and one with other builds to compare. Without optimisation
# most of the time still goes to the compiler, and to rows of many features.
TOOLS = Path(__file__).resolve().parents[2] / "tools"
QUICK = ["--optimize", "0", "--widest", str(1 << 16)]
BUILDS = ["--no-sanitizers", "--builds", "simd,scalar", *QUICK]


def run(*options):
    command = [sys.executable, str(TOOLS / "fuzz.py"), *options]
    return subprocess.run(command, capture_output=True, text=True)


def fuzz(*options):
    completed = run(*options)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return counted(completed.stdout)


def counted(text):
    """How many files had each status."""
    counts = {}
    for line in text.splitlines():
        if line.startswith(" "):
            count, status, _ = line.split(maxsplit=2)
            counts[int(status)] = int(count)
    return counts


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The fuzz program and its compile_all, which make each program and the models to damage once."""
    sys.path.append(str(TOOLS))
    tool, made = importlib.import_module("fuzz"), {}
    compile_all, models = tool.compile_all, cache(lambda make=tool.base_models: tuple(make()))

    def compiled(options, folder, names, flags):
        key = repr((names, flags))
        if key not in made:
            made[key] = compile_all(options, tmp_path_factory.mktemp("fuzz"), names, flags)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tool, "base_models", models)
        yield tool, compiled
    sys.path.remove(str(TOOLS))


@pytest.fixture
def quick(programs, monkeypatch, capfd):
    """The fuzz program in this process."""
    tool, compiled = programs
    monkeypatch.setattr(tool, "compile_all", compiled)

    def call(*options):
        status = tool.main(["--compiler", c_compiler(*SANITIZERS), *options])
        out, err = capfd.readouterr()
        assert status == 0, out + err
        return counted(out)

    return call


def test_every_change_is_refused(quick):
    counts = quick("--count", "5000", *BUILDS)
    assert sum(counts.values()) == 5000
    assert 0 not in counts


def test_repaired_files_are_harmless(quick):
    counts = quick("--repaired", "--count", "120", "--alone", *QUICK)
    assert sum(counts.values()) == 120
    assert counts[0] > 7
    assert len(counts) > 20


def test_drawn_files_score_alike_in_all_builds_and_in_the_slow_twin(quick):
    counts = quick("--shapes", "--count", "300", *BUILDS)
    assert sum(counts.values()) == 300
    assert counts[0] > 90
    assert counts[55] > 0
    assert len(counts) > 25


def check_kept(counts, least, statuses):
    assert sum(counts.values()) > least
    assert counts[0] > 0.6 * least
    assert len(counts) > statuses


def test_files_that_guided_fuzzing_kept(quick):
    check_kept(quick("--kept", "--count", "600", *BUILDS), 400, 40)


@pytest.mark.slow
def test_files_that_guided_fuzzing_kept_in_full():
    check_kept(fuzz("--kept"), 1500, 50)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("(P == 0 || ", "("),  # a code without columns: the decoders divide by their number
        ("margin < 0 ? 1.0 : 0.5", "margin < 0 ? 1.0 : 0.0"),
        ("if (offset - *end >= 64)", "if (offset - *end >= 128)"),
        ("base > m->n_classes ||", "base > m->n_classes + 1 ||"),
        ("s[k] += x * (double)w[k]", "s[k] += x * (double)w[k] * (x < 3)"),
        ("value ^= other & side;", "value ^= other;"),
    ],
)
def test_a_broken_header_is_found(good, bad, tmp_path):
    text = HEADER.read_text()
    assert text.count(good) == 1
    (tmp_path / "mcb.h").write_text(text.replace(good, bad))
    completed = run("--shapes", "--count", "1500", "--no-sanitizers", "--header", str(tmp_path))
    assert completed.returncode != 0


@pytest.mark.slow
def test_drawn_files_in_full():
    counts = fuzz("--shapes", "--count", "30000", "--seed", "2")
    assert sum(counts.values()) == 30_000
    assert len(counts) > 38


@pytest.mark.slow
@pytest.mark.parametrize("simd", [[], ["--simd"]])
@pytest.mark.parametrize("repaired", [[], ["--repaired"]])
def test_in_full(repaired, simd):
    counts = fuzz("--count", "100000", *repaired, *simd)
    assert sum(counts.values()) == 100_000
    assert (0 in counts) == bool(repaired)
    if repaired:
        # the others cannot survive the repair: header checksum, section checksum, meta above 16 MiB, and 3 rare ones
        assert len(counts) >= 43
