"""The search for small models, on tiny settings."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from bench import small, small_models
from reproduce.journal import Journal
from sklearn.datasets import load_digits

X, y = load_digits(return_X_y=True)
X, y = X.astype(np.float32), y.astype(np.int64)


def test_points_are_the_first_that_reach_the_target():
    params = {name: values[0] for name, values in small_models.own_space(len(y)).items()}
    parts = list(small.divisions(X, y))
    assert len(parts) == 3
    least, points = small.tried(small_models.Packed, parts[:2], params, 0.4, 30, 1)
    assert least < 0.2 and len(points) == small.KEPT
    assert all(error <= 0.4 for _, error, *_ in points)
    assert [size for *_, size, _ in points] == sorted(size for *_, size, _ in points)
    assert all(arrays < size for *_, size, arrays in points)


def test_a_search_goes_on_as_if_it_had_not_stopped():
    space = {"a": tuple(range(9)), "b": tuple(range(9))}
    rows = []
    for _ in range(12):
        params = next(small.settings(space, (6, 6), rows))
        again = next(small.settings(space, (6, 6), list(rows)))
        assert params == again and json.dumps(params) not in {row["setting"] for row in rows}
        points = [[1, 0.1, 10 * params["a"] + params["b"]]]
        rows.append({"setting": json.dumps(params), "points": json.dumps(points)})
    assert not list(small.settings(space, (6, 6), rows))


@pytest.mark.parametrize("how", ["half", "grid"])
def test_coarse_features_have_short_midpoints(how):
    values = np.random.default_rng(0).normal(size=500).astype(np.float32) * 30
    rounded = np.unique(small_models.coarse(values, how))
    middle = ((rounded[1:].astype(np.float64) + rounded[:-1]) / 2).astype(np.float32)
    assert np.abs(small_models.coarse(values, how) - values).max() < 1
    if how == "half":
        assert (middle.astype(np.float16) == middle).mean() > 0.98
    else:
        steps = 2 * np.diff(middle) / np.diff(middle).min()
        assert (steps == np.rint(steps)).all() and len(rounded) <= 260


def test_the_report(tmp_path):
    chosen = Journal(tmp_path / "small.csv", small.CHOICE_KEY, small.CHOICE)
    for library, form, size in (("LightGBM", "float32", 1000), ("pymcboost", "file", 80), ("pymcboost", "arrays", 50)):
        row = {"data": "digits", "library": library, "form": form, "bytes": size, "test_error": 0.031}
        chosen.add(dict.fromkeys(small.CHOICE, 0) | row | {"seconds": 0})
    journal = Journal(tmp_path / "search.csv", small.KEY, small.POINTS)
    for setting, error in (("a", 0.034), ("b", 0.0325)):
        tried = {"target": 0.03, "least_error": error, "points": "[]", "seconds": 0}
        journal.add({"data": "digits", "library": "emlearn", "setting": setting, **tried})
    text = small.report(chosen, journal)
    missed = "not reached: held out 3.25, asked 3.00"
    assert f"| digits | 1,000 (3.10) | - | 80 (3.10) | 50 (3.10) | - | - | {missed} |" in text
    assert "| digits | - | - | - | - | 2 |" in text
    assert "| pymcboost file / LightGBM float32 | 1 | 0.080 | 0.080 | 0.1 |" in text
    assert "| pymcboost arrays / LightGBM float32 | 1 | 0.050 | 0.050 | 0.1 |" in text


def test_the_smallest_is_chosen_and_tested_once(tmp_path):
    journal = Journal(tmp_path / "search.csv", small.KEY, small.POINTS)
    chosen = Journal(tmp_path / "small.csv", small.CHOICE_KEY, small.CHOICE)
    params = {name: values[0] for name, values in small_models.own_space(len(y)).items()}
    for rounds, error, size in ((3, 0.2, 300), (4, 0.3, 100), (2, 0.5, 50)):
        found = {"target": 0.3, "least_error": error, "points": json.dumps([[rounds, error, size, size]])}
        setting = json.dumps({**params, "max_bins": 8 + rounds})
        journal.add({"data": "digits", "library": "pymcboost", "setting": setting, **found, "seconds": 0})
    options = SimpleNamespace(threads=1)
    for _ in range(2):
        small.choose("digits", "pymcboost", (X[::2], y[::2], X[1::2], y[1::2]), 0.3, journal, chosen, options)
    assert [(row["form"], row["rounds"]) for row in chosen.rows] == [("file", "4"), ("arrays", "4")]
    assert 0 < float(chosen.rows[0]["test_error"]) < 0.8
    assert int(chosen.rows[1]["bytes"]) < int(chosen.rows[0]["bytes"])
