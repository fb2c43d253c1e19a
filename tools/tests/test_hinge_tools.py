"""The choice of parameters for HingeBoost.OC's tables, and the benchmark of its zeros."""

import numpy as np
import pytest
import scipy.sparse
from bench import zeros
from bench.report import Options
from reproduce.hinge import lowest


def test_equal_means_are_a_tie_whatever_the_order_of_the_folds():
    folds = [0.1, 0.2, 0.3]
    assert sum(folds) != sum(reversed(folds))
    for one, other in ((folds, folds[::-1]), (folds[::-1], folds)):
        assert lowest({1.0: one, 4.0: other, 16.0: [0.3] * 3}, [1.0, 4.0, 16.0]) == 1.0
    assert lowest({1.0: folds, 4.0: [0.1, 0.1, 0.1]}, [1.0, 4.0]) == 4.0
    assert lowest({1.0: folds, 4.0: [0.1, 0.1]}, [1.0, 4.0]) is None


@pytest.mark.parametrize("sparse", [False, True])
def test_zeros_and_hyperplanes_of_a_few_rows(monkeypatch, sparse):
    rng = np.random.default_rng(0)
    y = np.arange(240) % 12
    X = (rng.normal(size=(12, 20))[y] + rng.normal(size=(240, 20))).astype(np.float32)
    X = scipy.sparse.csr_matrix(X) if sparse else X
    monkeypatch.setattr(zeros, "load_for_trees", lambda name: (X[:180], y[:180], X[180:], y[180:]))
    report = zeros.bench_zeros(Options(quick=True, repeat=1, data=["some"]))
    assert [row["changed"] for row in report.rows] == [0] * 4
    assert all(row["rounds"] == 3 and row["evaluated_%"] <= 50 for row in report.rows)
    assert all(target["ok"] for target in report.targets)
