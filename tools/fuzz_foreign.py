"""The harness `foreign` of fuzz_guided.py: readers of the files of LightGBM and XGBoost, by atheris.

The first byte of an input says which reader it is for. A file is read or refused in words, and what was read scores
rows; every other exception is a finding.
"""

import os
import sys
import tempfile
from pathlib import Path

import atheris
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

with atheris.instrument_imports(include=["pymcboost.export"]):
    from pymcboost.export import foreign, from_lightgbm, from_xgboost, lightgbm, ubjson, xgboost  # noqa: F401

from pymcboost import ModelFormatError  # noqa: E402

READERS = {b"L": from_lightgbm, b"X": from_xgboost}
# A model of more columns scores no row: it would take memory that its file does not have.
MOST_FEATURES = 1000
PATH = os.path.join(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None), "model")


def one(data):
    """Read a file, and score rows if it is accepted."""
    read = READERS.get(data[:1])
    if read is None:
        return
    with open(PATH, "wb") as file:
        file.write(data[1:])
    try:
        model = read(PATH)
    except ModelFormatError as error:
        if not str(error):
            raise RuntimeError("refused without a word") from error
        return
    if model.n_features_in_ <= MOST_FEATURES:
        rows = np.zeros((2, model.n_features_in_), dtype=np.float32)
        rows[1] = np.nan
        if not np.isfinite(model.raw_scores(rows)).all():
            raise RuntimeError("a score is not finite")


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
