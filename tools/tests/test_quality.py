"""Measures of probabilities, and the search that tunes everyone."""

import signal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from reproduce import quality
from reproduce.journal import frame_of
from shared import classifiers


def test_measures():
    P = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.0, 1.0]])
    measured = quality.measures_of(P, np.array([0, 1, 1, 0]))
    own = np.array([0.9, 0.4, 0.8, np.finfo(float).eps])
    assert measured["log_loss"] == pytest.approx(-np.log(own).mean(), abs=1e-5)
    assert measured["error"] == 50
    assert measured["balanced_error"] == 50
    # Every row is a bin: confidence less whether it is right.
    assert measured["calibration_error"] == pytest.approx(100 * (0.1 + 0.6 + 0.2 + 1.0) / 4)


def test_rows_of_classes_that_were_not_trained_on_have_probability_0():
    measured = quality.measures_of(np.array([[1.0, 0.0]]), np.array([-1]))
    assert measured["log_loss"] == pytest.approx(36.0437, abs=1e-3)
    assert measured["error"] == 100


@pytest.mark.parametrize("method", quality.TUNED)
def test_configurations_are_drawn_by_number(method):
    drawn = [classifiers.drawn(method, j) for j in range(3)]
    assert drawn[0] == classifiers.drawn(method, 0)
    assert drawn[0] != drawn[1]
    assert drawn[0].keys() == classifiers.SPACES[method].keys()


def test_our_configurations_can_be_fitted():
    X = np.random.default_rng(0).normal(size=(60, 4))
    for j in range(3):
        model = classifiers.make("vector", **{**classifiers.drawn("vector", j), "n_estimators": 2})
        model.fit(X, np.arange(60) % 3)
        assert classifiers.size_of(model) > 100


def test_fits_that_do_not_end_in_time(data_folder, monkeypatch):
    unit = {"data": "iris", "method": "vector-raw", "seed": 0}
    assert quality.fit_defaults(unit)["log_loss"] == quality.in_time(unit)["log_loss"]
    monkeypatch.setattr(quality, "SLOW", 0)
    monkeypatch.setattr(quality, "MINUTES", 0.001)
    late = quality.fit_defaults(unit)
    assert np.isnan(late["log_loss"])
    assert late["seconds"] == 0.06
    killed = SimpleNamespace(returncode=-signal.SIGKILL)
    monkeypatch.setattr(quality.subprocess, "run", lambda *_, **__: killed)
    monkeypatch.setattr(quality, "MINUTES", 30)
    early = quality.fit_defaults(unit)
    assert np.isnan(early["log_loss"]) and early["seconds"] < 60
    monkeypatch.setattr(quality, "MINUTES", 0.001)
    columns = ["data", "method", "log_loss", "error", "cpu", "bytes", "seconds"]
    none = (*[np.nan] * 4, 0.06)
    some = (*[0.5] * 4, 0.01)
    rows = [
        ("wine", "vector", 0.1, 2.0, 1.0, 3000.0, 1.0),
        ("iris", "vector", *none),
        ("iris", "svm", *some),
    ]
    rows += [("iris", "logistic", *some), ("iris", "logistic", *none[:4], 0.2)]
    rows += [("iris", "xgboost", *none[:4], 0.01)]
    text = quality.late_sets(pd.DataFrame(rows, columns=columns), pd.DataFrame(index=["wine"]))
    assert "| iris | vector | over 0.001 minutes | - | - | - |" in text
    assert "| iris | svm | 0.5000 | 0.50 | 0.5 | 0 |" in text
    assert "| iris | logistic | over 0.001 minutes | - | - | - |" in text
    assert "| iris | xgboost | out of memory | - | - | - |" in text
    assert "wine" not in text


def test_rows_without_numbers_are_read():
    rows = [
        {"data": "a", "log_loss": "0.5", "bytes": "3"},
        {"data": "b", "log_loss": "nan", "bytes": "nan"},
    ]
    frame = frame_of(rows)
    assert frame["log_loss"].dtype == np.float64 and frame["log_loss"].isna().tolist() == [
        False,
        True,
    ]
    assert frame["data"].tolist() == ["a", "b"]
