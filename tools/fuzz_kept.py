"""Inputs that guided fuzzing has kept, in an archive for each harness."""

import tarfile
from pathlib import Path

KEPT = Path(__file__).resolve().parent.parent / "tests" / "fuzz"


def kept(harness, folder=KEPT):
    """Inputs of a harness."""
    path = folder / f"{harness}.tar.xz"
    if path.exists():
        with tarfile.open(path) as archive:
            yield from (archive.extractfile(member).read() for member in archive)
