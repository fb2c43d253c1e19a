"""Scores in processes that take subnormal numbers for 0: the same bits for all rows that are free of them."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from bindings.models import MODELS
from c.build import STRICTEST, build, c_compiler

from pymcboost import MartClassifier, MCBoostClassifier
from pymcboost.export import from_xgboost

PROGRAM = Path(__file__).resolve().parents[1] / "c" / "prepared.c"
SMALLEST = np.finfo(np.float32).tiny


FORMS = ["-DMCB_SIMD", "-DMCB_NO_VECTOR", pytest.param("-DMCB_PLAIN", marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=FORMS)
def program(request):
    return build(PROGRAM, [c_compiler(), "-std=c99", "-O0", request.param, *STRICTEST])


def check_every_way_of_scoring(program, model, rows, folder):
    """Every way of scoring, where subnormal numbers are 0, gives the bits that Python gives where they are not."""
    model.save(folder / "model.mcb")
    rows.astype("<f4").tofile(folder / "rows")
    completed = subprocess.run(
        [program, "flushed", folder / "model.mcb", folder / "rows"], capture_output=True, text=True
    )
    if completed.returncode == 3:
        pytest.skip("this processor has no switch for subnormal numbers")
    assert completed.returncode == 0, completed.stderr
    expected = model.raw_scores(rows).ravel()
    ways = completed.stdout.splitlines()
    assert len(ways) == 4
    for way in ways:
        assert (
            np.array([float.fromhex(word) for word in way.split()]).tobytes() == expected.tobytes()
        )


def strict_splits(values):
    """A file of XGBoost: a tree for each value v, whose leaf is 1 where x < v, and -1 elsewhere; binary."""
    trees = [
        {
            "tree_param": {"num_nodes": "3", "size_leaf_vector": "1"},
            "split_indices": [0, 0, 0],
            "left_children": [1, -1, -1],
            "right_children": [2, -1, -1],
            "default_left": [1, 0, 0],
            "split_conditions": [float(value), 1.0, -1.0],
        }
        for value in values
    ]
    inner = {
        "trees": trees,
        "tree_info": [0] * len(trees),
        "iteration_indptr": list(range(len(trees) + 1)),
    }
    learner = {
        "learner_model_param": {"base_score": "[5E-1]", "num_class": "0", "num_feature": "1", "num_target": "1"},
        "gradient_booster": {"name": "gbtree", "model": inner}, "objective": {"name": "binary:logistic"},
    }  # fmt: skip
    return json.dumps({"learner": learner, "version": [3, 4, 1]})


def normal_rows():
    near = np.float32([0, SMALLEST, -SMALLEST, 1, -1, 3e38, -3e38, np.nan])
    with np.errstate(over="ignore"):
        rows = np.concatenate(
            [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
        )
    return rows[~((np.abs(rows) < SMALLEST) & (rows != 0))][:, None]


LIMITS = np.float32(
    [0, -0.0, SMALLEST, -SMALLEST, SMALLEST / 2, -SMALLEST / 2, 1e-45, -1e-45, 1, -1]
)


def test_strict_splits_of_other_libraries(program, tmp_path):
    """A row of 0 is not below 0, whatever a process does with the number before 0."""
    for limit in LIMITS:
        (tmp_path / "model.json").write_text(strict_splits([limit] * 20))
        model = from_xgboost(tmp_path / "model.json")
        rows = normal_rows()
        below = (rows[:, 0] < limit) | np.isnan(rows[:, 0])
        assert model.decision_function(rows).tolist() == np.where(below, 20, -20).tolist()
        check_every_way_of_scoring(program, model, rows, folder=tmp_path)


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model(program, name, tmp_path):
    model, rows = MODELS[name]
    rows = np.where(np.abs(rows) < SMALLEST, 0, rows).astype(np.float32)
    check_every_way_of_scoring(program, model, rows, folder=tmp_path)


@pytest.mark.parametrize("estimator", [MartClassifier, MCBoostClassifier])
def test_thresholds_between_small_numbers(program, estimator, tmp_path):
    """The midpoint of 0 and a normal number may be subnormal; if it is below 0, the threshold is another number."""
    low = np.float32(-1.5) * SMALLEST
    for high in (0, np.float32(1.5) * SMALLEST):
        X = np.where(np.arange(60) % 2, low, high).astype(np.float32)[:, None]
        model = estimator(n_estimators=3).fit(X, np.arange(60) % 2).model_
        assert (model.predict(X) == np.arange(60) % 2).all()
        check_every_way_of_scoring(program, model, X, folder=tmp_path)
