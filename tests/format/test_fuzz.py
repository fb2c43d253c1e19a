"""Random damage, by the fuzz program."""

import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).resolve().parents[2] / "tools" / "fuzz.py"


def fuzz(*options):
    run = subprocess.run([sys.executable, str(FUZZ), *options], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    counts = {}
    for line in run.stdout.splitlines()[1:]:
        count, status, _ = line.split(maxsplit=2)
        counts[int(status)] = int(count)
    return counts


def test_every_change_is_refused():
    counts = fuzz("--count", "5000", "--no-sanitizers")
    assert sum(counts.values()) == 5000
    assert 0 not in counts


def test_repaired_files_are_harmless():
    counts = fuzz("--repaired", "--count", "3000")
    assert sum(counts.values()) == 3000
    assert counts[0] > 100
    assert len(counts) > 25


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
