"""Figures of docs/guide/choosing.md that no block of it prints."""

import re

import numpy as np
import pytest

import pymcboost

ROW = re.compile(r"^\| .* \| `(\w+Classifier)\((.*?)\)`.* \| (\d+) kB, ([\d.]+)% \|$", re.MULTILINE)


@pytest.mark.slow
def test_sizes_and_errors_of_the_table(project_root):
    """The table of the page, on the bundled digits."""
    rows = ROW.findall((project_root / "docs" / "guide" / "choosing.md").read_text())
    assert len(rows) == 6
    train, test = (
        pymcboost.load_svmlight(project_root / "data" / f"digits.{part}.libsvm", n_features=64)
        for part in ("train", "test")
    )
    for name, params, size, error in rows:
        model = eval(f"pymcboost.{name}(random_state=0, {params})").fit(train.X, train.y)
        found = len(model.model_.to_bytes()) / 1000, 100 * np.mean(model.predict(test.X) != test.y)
        assert (f"{found[0]:.0f}", f"{found[1]:.1f}") == (size, error), name
