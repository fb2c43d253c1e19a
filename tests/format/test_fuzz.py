"""Random damage, by the fuzz program."""

import subprocess
import sys
from pathlib import Path

import pytest

HEADER = Path(__file__).resolve().parents[2] / "pymcboost" / "include" / "mcb.h"
# Most of the time of the quick tests went to the compiler, and to rows of many features.
QUICK = ["--optimize", "0", "--builds", "simd,scalar", "--widest", str(1 << 16)]
FUZZ = Path(__file__).resolve().parents[2] / "tools" / "fuzz.py"


def run(*options):
    return subprocess.run([sys.executable, str(FUZZ), *options], capture_output=True, text=True)


def fuzz(*options):
    done = run(*options)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = {}
    for line in done.stdout.splitlines():
        if line.startswith(" "):
            count, status, _ = line.split(maxsplit=2)
            counts[int(status)] = int(count)
    return counts


def test_every_change_is_refused():
    counts = fuzz("--count", "5000", "--no-sanitizers", "--alone", *QUICK)
    assert sum(counts.values()) == 5000
    assert 0 not in counts


def test_repaired_files_are_harmless():
    counts = fuzz("--repaired", "--count", "250", "--alone", *QUICK)
    assert sum(counts.values()) == 250
    assert counts[0] > 15
    assert len(counts) > 25


def test_drawn_files_score_alike_in_all_builds_and_in_the_slow_twin():
    counts = fuzz("--shapes", "--count", "500", "--no-sanitizers", *QUICK)
    assert sum(counts.values()) == 500
    assert counts[0] > 150
    assert counts[55] > 0
    assert len(counts) > 25


def kept(*options):
    counts = fuzz("--kept", *options)
    assert sum(counts.values()) > 500
    assert counts[0] > 300
    assert len(counts) > 50


def test_files_that_guided_fuzzing_kept():
    kept("--no-sanitizers", "--alone", *QUICK)


@pytest.mark.slow
def test_files_that_guided_fuzzing_kept_in_full():
    kept()


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
    done = run("--shapes", "--count", "1500", "--no-sanitizers", "--header", str(tmp_path))
    assert done.returncode != 0


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
