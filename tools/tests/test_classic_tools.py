"""The parts of tools/ that belong to PIBoost and the classic boosters: protocols, choices, tables."""

import numpy as np
import pytest
from reproduce import imbalance, modes, piboost, table5, table5_learners, temperature
from reproduce.journal import frame_of


def blobs(m=240, K=4, seed=0):
    generator = np.random.default_rng(seed)
    y = generator.integers(0, K, m)
    return (generator.standard_normal((m, 5)) + y[:, None] * np.arange(5) / 3).astype(np.float32), y


@pytest.fixture
def made_up(monkeypatch):
    """Every data set has the same few rows."""
    for module in (piboost, table5, imbalance):
        monkeypatch.setattr(module, "load_pooled", lambda name: blobs())


def test_numbers_of_trees_are_those_of_the_paper():
    """Its Table 2: rounds of GentleBoost, AdaBoost.MH, SAMME, PIBoost(1) and PIBoost(2)."""
    methods = ("gentleboost", "samme", "piboost-singles", "piboost-pairs")
    rounds = {
        data: [piboost.rounds_of(data, m) for m in methods]
        for data in ("car", "krkopt", "vowel", "waveform")
    }
    assert rounds == {
        "car": [70, 280, 70, 40],
        "krkopt": [95, 1710, 95, 10],
        "vowel": [120, 1320, 120, 20],
        "waveform": [40, 120, 40, 40],
    }
    assert piboost.rounds_of("vowel", "adaboost-mh") == 120  # as many trees, not rounds


@pytest.mark.parametrize("method", piboost.METHODS)
def test_every_method_of_table3(made_up, method):
    unit = {"data": "car", "method": method, "leaves": 20, "rounds": 12, "fold": 1}
    row = piboost.fit_table3(unit)
    assert row["n_train"] == 192 and row["n_test"] == 48
    assert row["error"] < 50
    assert row["rounds_fitted"] <= 12 and row["trees"] <= 12 * piboost.columns_of(method, 4)
    model = piboost.table3_estimator(method, 12, 20, n_classes=4)
    assert model.subsample == piboost.SUBSAMPLE and model.weak_learner == "tree"
    assert getattr(model, "cost_sensitive", None) == (
        method.endswith("costs") if "piboost" in method else None
    )
    assert model.min_weight_fraction_split == (0.25 if method.endswith("rule") else 0)


def test_text_of_table3():
    rows = [
        {
            "data": data,
            "method": method,
            "leaves": str(piboost.leaves_of(data, method)),
            "error": f"{1 + k}",
        }
        for data in ("car", "vowel")
        for k, method in enumerate(piboost.METHODS)
        for _ in range(piboost.FOLDS)
    ]
    text = piboost.table3_text(frame_of(rows))
    assert "9 of 10 cells" in text  # 5 is more than 3.77 + 2 * 0.59
    assert "| ours | 1.00 | 2.00 | 3.00 | 4.00 | 5.00 |" in text
    assert "| the paper's, the same sets | 4.50 | 4.50 | 3.00 | 1.50 | 1.50 |" in text
    assert (
        "| piboost-singles | 0.5000 / 0.5000 / 0.0580 | " in text
    )  # two sets: 2 of 4 choices of signs
    last_ranked = next(row for row in reversed(rows) if row["method"] in piboost.RANKED)
    last_ranked["leaves"] = (
        "7"  # of another setting: that cell lacks a fold, and its set takes no part in the ranking
    )
    assert "[4 folds]" in piboost.table3_text(
        frame_of(rows)
    ) and "mean rank" not in piboost.table3_text(frame_of(rows))


def test_paper_ranks():
    """The mean ranks that the errors of the paper give; its Figure 4 has PIBoost(2) first."""
    ranking = piboost.paper_ranking(list(piboost.PUBLISHED))
    assert ranking.mean_ranks.argmin() == piboost.RANKED.index("piboost-pairs")
    assert ranking.friedman_p < 0.01


def test_rows_of_table5(made_up, monkeypatch):
    counts = np.bincount(blobs()[1])
    monkeypatch.setattr(table5, "MOST", 40)
    X, y, X_test, y_test = table5.table5_split("wine", 3)
    assert np.bincount(np.concatenate((y, y_test))).tolist() == np.minimum(counts, 40).tolist()
    assert len(y) == 120 and len(np.unique(np.concatenate((X, X_test)), axis=0)) == 160
    assert len(table5.table5_split("dna", 0)[1]) == 180  # all rows
    again, other = table5.table5_split("wine", 3), table5.table5_split("wine", 4)
    assert (again[0] == X).all() and not np.array_equal(other[0], X)


@pytest.mark.parametrize("learner", table5.LEARNERS)
@pytest.mark.parametrize("method", table5.METHODS)
def test_every_method_of_table5(made_up, method, learner):
    value = {"gradboost": "1e-05", "multiboost": "10000"}.get(method, "-")
    row = table5.fit_table5(
        {
            "data": "wine",
            "method": method,
            "learner": learner,
            "value": value,
            "repeat": 0,
            "rounds": 12,
        }
    )
    assert row["rounds_fitted"] <= 12 and row["n_test"] == 60
    assert row["error"] < 50 or (method, learner) == (
        "adaboost-m1",
        "stump",
    )  # none is right on half of four classes
    model = table5.table5_estimator(method, learner, 12, value=value)
    assert (model.weak_learner, model.max_leaf_nodes == 3) == (
        ("stump", False) if learner == "stump" else ("tree", True)
    )


def test_choice_prefers_regularisation():
    shared = {"data": "wine", "learner": "stump"}
    rows = [
        {**shared, "method": method, "value": value, "error": error}
        for method in ("gradboost", "multiboost")
        for value, error in (("0.001", "5"), ("0.01", "4"), ("0.1", "4"), ("0.1", "4"))
    ]
    assert table5.choose_value(rows, "wine", "gradboost", learner="stump") == "0.1"
    assert table5.choose_value(rows, "wine", "multiboost", learner="stump") == "0.01"
    assert table5.choose_value(rows, "wine", "gradboost", learner="3 leaves") is None


def test_order_of_table5():
    methods = ("samme", "adaboost-mo")
    units = table5.table5_units(["wine", "vowel", "letter"], methods, {}, repeats=12)
    assert [(unit["data"], unit["method"]) for unit in units[-12:]] == [
        ("vowel", "adaboost-mo")
    ] * 12
    assert not any(unit["data"] == "letter" and unit["method"] == "adaboost-mo" for unit in units)
    first = [unit["repeat"] < table5.BLOCK for unit in units[:-12]]
    assert first == sorted(first, reverse=True)
    assert max(unit["repeat"] for unit in units if unit["learner"] != "stump") < table5.BLOCK


@pytest.mark.parametrize("method", imbalance.METHODS)
def test_every_method_of_imbalance(made_up, method):
    if method == "lightgbm":
        pytest.importorskip("lightgbm")
    row = imbalance.fit_imbalance(
        {"data": "car", "method": method, "weights": "balanced", "fold": 0, "rounds": 6}
    )
    right = [[int(n) for n in pair.split("/")] for pair in row["right"].split()]
    assert sum(n for _, n in right) == row["n_test"] == 48
    assert row["error"] == pytest.approx(100 * (1 - sum(r for r, _ in right) / 48), abs=1e-3)
    assert row["balanced_accuracy"] == pytest.approx(
        100 * np.mean([r / n for r, n in right]), abs=1e-3
    )


@pytest.mark.parametrize("method", temperature.METHODS)
def test_every_method_of_temperature(monkeypatch, method):
    monkeypatch.setattr(temperature, "load_for_trees", lambda name: (*blobs(500), None, None))
    row = temperature.fit_temperature({"data": "car", "method": method, "rows": 300, "seed": 0})
    assert (row["n_train"], row["n_test"]) == (300, 200)
    assert 0 < row["best"] <= min(row["plain"], row["corrected"], row["folds"]) + 0.02
    assert row["T_corrected"] <= row["T_folds"] + 2e-4  # both are rounded
    assert (
        f"| car | 300 | {row['plain']:.4f} | {row['folds']:.4f} |"
        in temperature.temperature_text(frame_of([row]))
    )
    assert temperature.has_rows("car", 300) and not temperature.has_rows("car", 1000)


def test_modes_on_a_small_set(monkeypatch):
    monkeypatch.setattr(modes, "ROWS", 300)
    monkeypatch.setattr(modes, "KEPT", 240)
    monkeypatch.setattr(modes, "TEST_ROWS", 500)
    rows = [
        modes.fit_mode({"method": method, "noise": 0.3, "seed": 0})
        for method in ("default", "no calibration", "80% of the rows", "80%, others watched")
    ]
    assert rows[0]["error"] == rows[1]["error"] and rows[2]["error"] == rows[3]["error"]
    assert rows[0]["log_loss"] != rows[2]["log_loss"]
    frame = frame_of(rows)
    points = rows[2]["error"] - rows[0]["error"]
    assert f"| {points:+.2f} | {points:+.2f} |" in modes.modes_text(frame)
    assert modes.modes_values(frame)["80-of-the-rows-points"] == f"{points:.1f}"


def test_class_weights():
    codes = np.repeat([0, 1], [30, 10])
    assert imbalance.class_weights(codes, "none") is None
    balanced = imbalance.class_weights(codes, "balanced")
    assert balanced[0] * 30 == pytest.approx(balanced[1] * 10) and sum(
        balanced[k] for k in codes
    ) == pytest.approx(40)
    root = imbalance.class_weights(codes, "root")
    assert root[1] / root[0] == pytest.approx(3**0.5)


def test_recalls_are_pooled():
    rows = [{"right": "1/2 0/0"}, {"right": "2/2 1/4"}]
    recalls, counts = imbalance.recalls_of(frame_of(rows))
    assert recalls.tolist() == [75.0, 25.0] and counts.tolist() == [4, 4]


def test_search_of_the_learner(made_up, monkeypatch):
    """The learner is chosen in the folds by one method; test errors of all methods tell how near it comes."""
    monkeypatch.setattr(table5_learners, "ROUNDS", 12)
    for learner in table5_learners.LEARNERS:
        for method in table5_learners.METHODS:
            unit = {
                "data": "vowel",
                "learner": learner,
                "method": method,
                "part": "test",
                "fold": 0,
                "repeat": 0,
            }
            assert table5_learners.fit_unit(unit)["n_test"] == 60
    row = table5_learners.fit_unit({**unit, "method": "samme", "part": "fold"})
    assert row["n_train"] + row["n_test"] == 180

    published = table5.PUBLISHED["vowel"]
    rows = []
    for k, learner in enumerate(table5_learners.LEARNERS):
        cell = {"data": "vowel", "learner": learner, "repeat": 0}
        # The fourth learner has the paper's error of SAMME in the folds, and its errors of all methods but the last.
        error = published["samme"][0] + k - 3
        rows += [
            {**cell, "method": "samme", "part": "fold", "fold": fold, "error": error}
            for fold in range(5)
        ]
        for method in table5_learners.METHODS:
            mean, deviation = published[method]
            error = mean + deviation * (1.5 if method == "mcboost-exp" else 3 * abs(k - 3))
            rows.append({**cell, "method": method, "part": "test", "fold": 0, "error": error})
    frame = frame_of(rows)
    found = table5_learners.distances(frame, "vowel")
    assert table5_learners.chosen_learner(found, "vowel") == "3 leaves"
    assert table5_learners.near(found["3 leaves"][1], table5_learners.METHODS) == 3
    text = table5_learners.text(frame)
    assert "**3 leaves**" in text and "3 of 4" in text and text.count("0 of 4") == 11
