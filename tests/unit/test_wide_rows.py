"""Rows of very many features."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from reference.scoring import random_kernel, random_rows, random_stumps, random_trees

from pymcboost._kernels import score
from pymcboost.model.kernel import KernelMachine
from pymcboost.model.linear import LinearMachine
from pymcboost.model.model import Model

WIDEST = 2**31 - 1


def spread(ensemble, n_features):
    """The same learners over features far apart, and where the features went; the last one is the last there is."""
    place = 2 + np.sort(
        np.random.default_rng(0).choice(n_features - 2, ensemble.n_features, replace=False)
    )
    place[-1] = n_features - 1
    return replace(ensemble, feature=place[ensemble.feature], n_features=n_features), place


def wide_models(n_features):
    """(wide model, narrow model, where the features went) of every kind that can be wide."""
    for two_sided, k in ((False, 3), (True, 2), (False, 17)):
        stumps = random_stumps(40, 30, k, two_sided=two_sided, few_thresholds=True)
        wide, place = spread(stumps, n_features)
        for layout in ("list", "interval"):
            yield (
                *(Model.from_ensemble(both, range(k), layout=layout) for both in (wide, stumps)),
                place,
            )
    for mode in ("scalar", "base", "vector", "code", "hamming", "exp"):
        for splits in (
            (0, 0),
            (0, 12),
            (1500, 2500),
        ):  # the last are too large to be prepared, or nearly
            trees = random_trees(9, 3000 if splits[0] else 30, 4, mode=mode, splits=splits)
            wide, place = spread(trees, n_features)
            models = [Model.from_ensemble(both, range(4)) for both in (wide, trees)]
            yield *models, place
            if splits == (0, 12) and mode in ("scalar", "vector"):
                yield (
                    *(Model.from_bytes(model.to_bytes("packed", "int8")) for model in models),
                    place,
                )


@pytest.mark.parametrize("n_features", [65_537, WIDEST])
def test_wide_sparse_rows_have_the_bits_of_narrow_ones(n_features):
    for number, (wide, narrow, place) in enumerate(wide_models(n_features)):
        if n_features < WIDEST and number % 3:
            continue
        X = random_rows(37, narrow.n_features_in_)
        X[:, ::3] = 0
        sparse = sp.coo_matrix(X)
        data = np.append(sparse.data, [7, 2]).astype("f")
        columns = np.append(place[sparse.col], [1, 1])
        ends = np.cumsum([0, *np.bincount(sparse.row, minlength=37)])
        # Three empty rows, the first of which has two entries of one cell in a feature that no model uses.
        rows = sp.csr_matrix((data, columns, [*ends, *[len(data)] * 3]), (40, n_features))
        expected = narrow.raw_scores(np.vstack([X, np.zeros((3, X.shape[1]), dtype="f")]))
        for n_jobs in (1, 3):
            assert wide.raw_scores(rows, n_jobs=n_jobs).tobytes() == expected.tobytes()
        assert (wide.predict(rows) == expected.argmax(axis=1)).all()
        assert wide.raw_scores(rows[:1]).tobytes() == expected[:1].tobytes()


def test_entries_of_one_cell_are_added_up():
    stumps = random_stumps(40, 30, 3)
    wide, place = spread(stumps, WIDEST)
    X = sp.csr_matrix((np.array([0.25, 1, 0.5], dtype="f"), place[[5, 3, 5]], [0, 3]), (1, WIDEST))
    dense = np.zeros((1, 30), dtype="f")
    dense[0, [3, 5]] = 1, 0.75
    wide, narrow = Model.from_ensemble(wide, range(3)), Model.from_ensemble(stumps, range(3))
    assert wide.raw_scores(X).tobytes() == narrow.raw_scores(dense).tobytes()


def test_memory_of_wide_rows(tmp_path):
    """256 MB of address space suffice, for four threads as for one."""
    stumps, _ = spread(random_stumps(40, 30, 3), WIDEST)
    trees, _ = spread(random_trees(9, 30, 4, mode="vector"), WIDEST)
    nobody = replace(
        random_kernel(0, 3, 3, kernel="rbf"), support=np.zeros((0, WIDEST), dtype=np.float32)
    )
    for i, ensemble in enumerate((stumps, trees, nobody)):
        Model.from_ensemble(ensemble, range(ensemble.n_classes)).save(tmp_path / f"{i}.mcb")
    script = f"""
import resource, sys
import numpy as np, scipy.sparse as sp
from pymcboost.model.model import load_model
models = [load_model(name) for name in sys.argv[1:]]
X = sp.csr_matrix((np.ones(50_000, "f"), np.arange(50_000) * 40_000, np.arange(0, 50_001, 50)), (1000, {WIDEST}))
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (256 << 20),) * 2)
for model in models:
    for n_jobs in (1, 4):
        assert model.raw_scores(X, n_jobs=n_jobs).shape == (1000, model.n_classes_)
"""
    names = [str(tmp_path / f"{i}.mcb") for i in range(3)]
    run = subprocess.run([sys.executable, "-c", script, *names], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_machines_of_many_features():
    """They hold a number for every feature; rows are taken as many at a time as fit."""
    d = 70_000
    rng = np.random.default_rng(0)
    X = sp.random(20, d, density=1e-4, format="csr", random_state=rng, dtype=np.float32)
    support = rng.normal(size=(3, d)).astype("f")
    for machine in (
        LinearMachine(support, np.zeros(3, "f")),
        KernelMachine(
            "perceptron",
            0,
            0,
            degree=0,
            support=support,
            coef=support[:, :3].copy(),
            intercept=np.zeros(3, "f"),
        ),
    ):
        model = Model.from_ensemble(machine, range(3))
        assert model.raw_scores(X).tobytes() == model.raw_scores(X.toarray()).tobytes()


def test_a_refused_file_scores_nothing():
    scorer = score.Scorer(b"")
    with pytest.raises(ValueError, match="do not fit the model"):
        scorer.dense(np.zeros((1, 0), "f"), np.zeros((1, 0)), None, 0, 1)
