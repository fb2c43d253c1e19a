"""The benchmark of scores in integers, on the digits."""

import numpy as np
import pytest
from bench import early, integers
from bench.report import BENCHMARKS, Options
from sklearn.datasets import load_digits

X, y = load_digits(return_X_y=True)
PARTS = X[:1000].astype(np.float32), y[:1000], X[1000:].astype(np.float32), y[1000:]


def test_every_type_has_its_row_and_all_sets_their_sum(monkeypatch):
    monkeypatch.setattr(integers, "tree_data", lambda name, options: PARTS)
    report = BENCHMARKS["integers"](Options(quick=True, data=["a", "b"]))
    assert [row["what"].split(",")[0] for row in report.rows] == [
        f"{name}: {kind}" for name in ("a", "b", "all sets") for kind in ("int8", "int16", "int32")
    ]
    assert [row["of_rows"] for row in report.rows] == 6 * [797] + 3 * [2 * 797]
    for at in range(3):
        one, other, both = report.rows[at::3]
        assert both["best"] == one["best"] + other["best"] == 2 * one["best"]
        assert both["share_%"] == pytest.approx(100 * one["best"] / 797)


def test_rows_of_another_class_are_counted(monkeypatch):
    model = early.trained(*PARTS[:2], 5, **integers.TREES)
    exact = model.predict_codes(PARTS[2])
    other = exact.copy()
    other[:7] = (other[:7] + 1) % 10
    monkeypatch.setattr("pymcboost.export.integer_labels", lambda *_: other)
    found = integers.changed(model, *PARTS[2:])
    assert {row["best"] for row in found.values()} == {7}
    assert found["int8"]["share_%"] == 700 / 797
    assert found["int8"]["wrong_in_floats"] == (exact != PARTS[3]).sum()
    assert found["int8"]["wrong"] == (other != PARTS[3]).sum()
