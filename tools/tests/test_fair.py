"""The comparison with tuned defaults and temperatures: competitors, cells, and what the tables say of them."""

import argparse

import numpy as np
import pandas as pd
import pytest
from reproduce import fair
from reproduce.experiment import _is_named
from reproduce.journal import Journal
from reproduce.run import main
from scipy.special import softmax
from shared import competitors
from shared.competitors import COMPETITORS, make_competitor
from shared.peers import Absent


def rows(m=240, K=3):
    rng = np.random.default_rng(0)
    y = np.arange(m) % K
    return rng.normal(size=(m, 4)) + y[:, None], y


def made(method):
    try:
        return make_competitor(method)
    except Absent as reason:
        pytest.skip(f"{reason} is absent")


@pytest.fixture
def quick(monkeypatch):
    """Competitors of few rounds."""
    for method, (cls, arguments, params) in COMPETITORS.items():
        few = {
            "histogram": {"max_iter": 5},
            "logistic": {},
            "svm": {},
            "catboost": {"iterations": 5},
        }
        few = few.get(method, {"n_estimators": 5})
        if method == "vector-auto":
            few = {}
        monkeypatch.setitem(COMPETITORS, method, (cls, arguments, {**params, **few}))


@pytest.mark.parametrize("method", COMPETITORS)
def test_competitors_of_arrays(method, quick):
    X, y = rows()
    y = np.append(y[:-1], 3)  # a lone row of a fourth class
    model = made(method).fit(X, y, 5)
    scores = model.scores(X)
    assert scores.shape == (240, 5) and np.isneginf(scores[:, 4]).all()
    assert np.isneginf(scores[:, 3]).all() == (method == "svm")
    assert np.mean(scores.argmax(axis=1) == y) > 0.6
    assert model.label_scores(X).shape == scores.shape
    assert model.size() > 100 and model.rounds() >= 0


@pytest.mark.parametrize("method", COMPETITORS)
def test_competitors_of_frames(method, quick):
    if method.startswith("xgboost-vector"):
        version = pytest.importorskip("xgboost").__version__
        if tuple(map(int, version.split(".")[:2])) < (3, 4):
            pytest.skip(f"vector leaves of XGBoost {version} do not split on categories")
    X, y = rows()
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.loc[::7, "b"] = np.nan
    frame["e"] = pd.Categorical(np.array(["x", "y", None, "z"], dtype=object)[np.arange(240) % 4])
    known = frame["e"].isin(["x", "y"]) | frame["e"].isna()
    model = made(method).fit(frame[known], y[known], 3)
    scores = model.scores(frame)  # with a category that is new
    assert scores.shape == (240, 3) and np.isfinite(scores).all()
    assert np.mean(scores.argmax(axis=1) == y) > 0.6


def test_probabilities_are_those_of_the_model():
    X, y = rows()
    for method in ("vector", "vector-raw", "histogram"):
        model = make_competitor(method).fit(X, y, 3)
        np.testing.assert_allclose(
            softmax(model.scores(X), axis=1), model.model.predict_proba(X), atol=1e-12
        )


@pytest.mark.parametrize(
    "method", ["lightgbm-td", "xgboost-td", "xgboost-vector-td", "catboost-td"]
)
def test_tuned_defaults_stop_by_the_rows_set_aside(method):
    X, y = rows()
    model = made(method).fit(X, y, 3)
    assert (
        1 <= model.best_rounds <= competitors.ROUNDS
        and 1 <= model.label_rounds <= competitors.ROUNDS
    )
    first = model._scores(model.raw(model.prepared(X), 1))
    assert not np.allclose(
        first, model._scores(model.raw(model.prepared(X), model.best_rounds + 1))
    )


def test_temperature():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4000, 3)) * 2
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    assert fair.temperature_of(3 * scores, y) == pytest.approx(3, rel=0.1)
    unknown = np.where(np.arange(3) == 2, -np.inf, scores)
    known = y < 2
    assert fair.temperature_of(unknown, y) == pytest.approx(
        fair.temperature_of(unknown[known], y[known])
    )


def test_log_losses_of_rows_are_those_of_the_measures():
    P = softmax(np.random.default_rng(0).normal(size=(50, 3)), axis=1)
    truth = np.arange(50) % 4 - 1
    losses = fair.losses_of(P, truth)
    assert losses.mean() == pytest.approx(fair.measures_of(P, truth)["log_loss"], abs=1e-5)
    assert losses[0] == pytest.approx(36.0437, abs=1e-3)


def test_cells(tmp_path, monkeypatch, data_folder, quick):
    monkeypatch.setattr(fair, "LOSSES", tmp_path)
    unit = {"data": "iris", "method": "histogram", "seed": 0}
    row = fair.fit_cell(unit)
    assert row["failed"] == "-" and row["n_train"] == 111 and row["temperature"] > 0
    losses = np.load(fair.losses_file(**unit))
    assert losses.mean(axis=1) == pytest.approx([row["log_loss"], row["fold_log_loss"]], abs=1e-4)
    own = fair.fit_cell({**unit, "method": "vector"})
    assert np.isnan(own["fold_log_loss"]) and np.isnan(own["temperature"]) and own["log_loss"] > 0
    monkeypatch.setitem(COMPETITORS, "logistic", (competitors.Logistic, (), {"bad": 1}))
    monkeypatch.setattr(competitors.Logistic, "classifier", lambda self: 1 / 0)
    failed = fair.fit_cell({**unit, "method": "logistic"})
    assert failed["failed"] == "ZeroDivisionError" and np.isnan(failed["log_loss"])
    assert set(fair.CELLS.columns.split()) <= {*row, *failed}
    paired = fair.fit_paired({"data": "iris"})
    best = min((row["log_loss"], "raw"), (row["fold_log_loss"], "folds"))
    assert (paired["booster"], paired["form"], paired["n_test"]) == ("histogram", best[1], 39)
    assert paired["ratio"] == pytest.approx(own["log_loss"] / best[0], abs=2e-3)


def frame_of(values):
    """Results of (data, method): (log loss, of folds, error)."""
    numbers = dict.fromkeys(fair.MEASURES, 1.0) | {"n_train": 2000.0}
    return pd.DataFrame(
        [
            {
                "data": data,
                "method": method,
                "seed": 0,
                **numbers,
                "log_loss": loss,
                "fold_log_loss": folds,
                "error": error,
                "failed": "-",
            }
            for (data, method), (loss, folds, error) in values.items()
        ]
    )


def test_tables():
    sets = ("iris", "wine", "glass", "ecoli", "vowel")
    values = {}
    for place, data in enumerate(sets):
        values[data, "vector"] = 0.1, np.nan, 5
        values[data, "vector-raw"] = 0.3, 0.12, 5
        values[data, "lightgbm"] = 0.4 + 0.1 * place, 0.2, 6
    values["iris", "catboost"] = 0.1, 0.05, 4
    values["leaf", "vector"] = 0.7, np.nan, 9
    frame = frame_of(values)
    text = fair.text_of(frame)
    assert text.startswith("5 sets, at most 3,000 training and 5,000 test rows of each.")
    assert (
        "| lightgbm | 2.00 | 0.062 | 2.00 | 0.062 | 1.94 | 1.94 |" in text
    )  # as it comes, against vector-raw
    assert (
        "| lightgbm | 3.00 | 0.062 | 3.00 | 0.062 | 2.00 | 2.00 |" in text
    )  # with a temperature, against vector
    assert "| catboost (1 sets) | - | 1 | - | 1 | 0.50 | 0.50 | - |" in text
    assert "| iris | 0.1000 | 0.1200 | 0.2000 | **0.0500** |" in text
    assert "| wine | **0.1000** | 0.1200 | 0.2000 | - |" in text
    assert "| leaf | 0.7000 | - | - | - |" in text and "Failed" not in text
    words = fair.values_of(frame)
    assert (words["sets"], words["lightgbm-tempered"], words["catboost-sets"]) == ("5", "2.00", "1")
    assert (words["best"], words["best-ratio"], words["lost"]) == ("lightgbm", "2.00", "0")
    frame.loc[frame["data"] == "leaf", "failed"] = "ValueError"
    assert "Failed: vector on leaf (ValueError)." in fair.text_of(frame)
    assert fair.text_of(frame[frame["data"] == "iris"]).startswith("Not enough results")
    assert fair.values_of(frame[frame["data"] == "iris"]) == {}
    assert fair.text_of(frame[:0]) == "No results yet."


def test_significance_row_by_row(tmp_path, monkeypatch):
    monkeypatch.setattr(fair, "LOSSES", tmp_path)
    rng = np.random.default_rng(0)
    theirs = rng.exponential(size=400).astype(np.float32) * np.ones((2, 1), dtype=np.float32)
    theirs[1] += 0.1
    np.save(fair.losses_file("vowel", "lightgbm", 0), theirs)
    for factor, above in ((1.0, False), (1.05, False), (1.5, True)):
        ours = theirs[:1] * factor + rng.normal(scale=0.05, size=400).astype(np.float32)
        np.save(fair.losses_file("vowel", "vector", 0), ours)
        row = fair.fit_paired({"data": "vowel"})
        assert row["form"] == "raw" and row["ratio"] == pytest.approx(factor, abs=0.02)
        assert (float(row["p"]) < 0.001) == above
    frame = pd.DataFrame([row])
    assert "Significantly above on 1 of 1 sets of at least 500 rows." in fair.paired_text(frame)
    assert fair.paired_values(frame)["above"] == f"vowel ({row['ratio']:.2f} times)"
    options = argparse.Namespace(sets=None)
    journal = Journal(tmp_path / "p.csv", ["data"], fair.PAIRED.columns.split())
    journal.add(row)
    assert list(fair.paired_plan(options, journal)) == [(0, [{"data": "vowel"}], "quality-paired")]
    assert journal.missing([{"data": "vowel"}])


def test_some_fits_again(tmp_path, capsys):
    journal = Journal(tmp_path / "x.csv", ["data", "method"], ["error"])
    for data in ("iris", "wine"):
        for method in ("vector", "lightgbm"):
            journal.add({"data": data, "method": method, "error": 1})
    options = argparse.Namespace(methods=["vector"], sets=["wine"])
    journal.forget(lambda row: _is_named(options, row))
    kept = Journal(tmp_path / "x.csv", ["data", "method"], ["error"], keep=True)
    assert [(row["data"], row["method"]) for row in kept.rows] == [
        ("iris", "vector"),
        ("iris", "lightgbm"),
        ("wine", "lightgbm"),
    ]
    with pytest.raises(SystemExit):
        main(["quality-fair", "--again"])
    assert "--again needs --methods or --sets" in capsys.readouterr().err


def test_plan():
    options = argparse.Namespace(methods=None, sets=["leaf", "iris"])
    units = [unit for _, part, _ in fair.plan(options, None) for unit in part]
    assert {"data": "iris", "method": "vector", "seed": 0} in units
    assert not any(
        unit["data"] == "leaf" and unit["method"].startswith("catboost") for unit in units
    )
    assert fair.is_wide("leaf") and not fair.is_wide("iris") and "sector" not in fair.sets_by_cost()
    with pytest.raises(SystemExit, match="unknown set 'sector'"):
        fair.sets_by_cost(["sector"])
