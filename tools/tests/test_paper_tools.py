"""Comparisons of HingeBoost.OC's paper, Li's grid, and Table V with one weak learner: protocols and arithmetic."""

from types import SimpleNamespace

import numpy as np
import pytest
from reproduce import (
    abcboost_grid,
    hinge_others,
    hinge_variants,
    mcboost,
    mcboost_texts,
    table5,
    table5_learners,
)
from reproduce.journal import frame_of
from scipy.stats import ttest_1samp
from shared import codes as output_codes

import pymcboost


def blobs(m=200, K=4, seed=0):
    generator = np.random.default_rng(seed)
    centres = 2 * np.random.default_rng(7).standard_normal((K, 5))
    y = np.arange(m) % K
    return generator.standard_normal((m, 5)) + centres[y], y


# --------------------------------------------------------------------------------------------------------------------
# Classifiers made of binary SVMs


def test_exhaustive_codes_have_all_partitions():
    code = output_codes.code_matrix(4, None)
    assert code.shape == (4, 7) and set(code.flat) == {-1, 1}
    assert len({tuple(column) for column in code.T}) == 7 and (code[0] == 1).all()
    assert output_codes.least_distance(code) == 4


def test_random_codes_are_the_best_of_many(monkeypatch):
    monkeypatch.setattr(output_codes, "TRIED", 50)
    code = output_codes.code_matrix(10, np.random.default_rng(0))
    assert code.shape == (10, 34)
    distances = [(a != b).sum() for i, a in enumerate(code) for b in code[:i]]
    assert output_codes.least_distance(code) == min(distances) >= 8


def test_loss_based_decoding():
    code = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1]])
    scores = np.array([[3.0, -0.1, -0.1], [-1.0, 2.0, 0.1], [0.5, 0.5, 0.1]])
    losses = np.exp(-code[None] * scores[:, None]).sum(axis=2)
    assert output_codes.decode(code, scores).tolist() == losses.argmin(axis=1).tolist()


@pytest.mark.parametrize("method", [*output_codes.CODED, "adaboost-erp"])
@pytest.mark.parametrize("kernel", ["linear", "perceptron"])
def test_methods_learn(method, kernel):
    X, y = blobs()
    gram, gram_test = (
        output_codes.kernel_matrix(kernel, one, X[:100]) for one in (X[:100], X[100:])
    )
    if method == "adaboost-erp":
        predicted = output_codes.adaboost_erp(gram, y[:100], gram_test, C=1.0, rounds=20)
    else:
        predicted = output_codes.CODED[method](gram, y[:100], gram_test, 1.0)
    assert np.mean(predicted != y[100:]) < 0.3


def test_kernels():
    X = np.array([[0.0, 3.0], [4.0, 0.0]])
    Z = np.array([[0.0, 0.0]])
    assert output_codes.kernel_matrix("linear", X, X)[1].tolist() == [0, 16]
    np.testing.assert_allclose(output_codes.kernel_matrix("perceptron", X, Z)[:, 0], [-3, -4])
    with pytest.raises(ValueError, match="no kernel"):
        output_codes.kernel_matrix("rbf", X, Z)


def test_coefficient_of_one_output():
    """Half the logarithm of the odds of the weights, halved again since both colours move."""
    weight = np.array([3.0, 1.0, 4.0])
    signs = np.array([1, -1, 1])
    rows = np.array([True, True, False])
    smoothing = output_codes.SMOOTHING * 8
    expected = 0.25 * np.log((3 + smoothing) / (1 + smoothing))
    assert output_codes.coefficient(weight, signs, rows) == pytest.approx(expected)


# --------------------------------------------------------------------------------------------------------------------
# HingeBoost.OC


def test_rows_of_a_choice():
    X = np.arange(60)[:, None]
    y = np.repeat([3, 5, 9], 20)
    X_train, y_train, X_test, y_test = hinge_others.class_split(
        X, y, np.random.default_rng(0), n_train=5, n_test=10
    )
    assert np.bincount(y_train)[[3, 5, 9]].tolist() == [5] * 3
    assert np.bincount(y_test)[[3, 5, 9]].tolist() == [10] * 3
    assert not {*X_train[:, 0]} & {*X_test[:, 0]}
    rest = hinge_others.class_split(X, y, np.random.default_rng(0), n_train=5)
    assert len(rest[3]) == 45 and np.array_equal(rest[0], X_train)


@pytest.mark.parametrize("method", hinge_others.METHODS)
def test_every_method(monkeypatch, method):
    monkeypatch.setattr(hinge_others, "load_pooled", lambda name: blobs(800))
    unit = {"protocol": "table1", "data": "satimage", "kernel": "linear", "scaled": "yes", "method": method,
            "C": 64.0, "rounds": hinge_others.rounds_of(method, 10), "repeat": 1}  # fmt: skip
    row = hinge_others.fit(unit)
    assert (row["n_train"], row["n_test"]) == (400, 400) and float(row["error"]) < 30
    folds = [hinge_others.parts_of({**unit, "fold": fold}) for fold in range(3)]
    assert sorted(len(fold[3]) for fold in folds) == [133, 133, 134]


def test_paired_tests():
    ours = [1.0, 2.0, 3.0, 4.0]
    theirs = [1.5, 2.2, 3.9, 4.4]
    expected = ttest_1samp(np.subtract(ours, theirs), 0).pvalue
    assert hinge_others.paired_test(ours, theirs) == pytest.approx(expected)
    assert hinge_others.paired_test(ours, ours) == 1
    assert hinge_others.paired_test([1.0, 2.0], [1.5, 2.5]) == 0


def rows_of(method, errors, protocol="table1", data="usps", rounds=None):
    rounds = hinge_others.rounds_of(method, 200) if rounds is None else rounds
    cell = {"protocol": protocol, "data": data, "kernel": "linear", "scaled": "yes", "C": 1.0}
    return [
        {**cell, "method": method, "rounds": rounds, "repeat": k, "error": error}
        for k, error in enumerate(errors)
    ]


def test_verdicts_of_the_tests():
    """Better, worse and level, of the repeats that both methods have."""
    ours = [5.0, 6.0, 7.0, 8.0]
    frame = frame_of(
        [
            *rows_of("hinge", ours),
            *rows_of(
                "one-vs-one", [one - d for one, d in zip(ours, (1, 1.1, 1.2, 1), strict=True)]
            ),
            *rows_of("ecoc", [one + d for one, d in zip(ours, (1, 1.1, 1.2, 1), strict=True)]),
            *rows_of("one-vs-all", [4.0, 7.0, 6.0]),
            *rows_of("hinge", [50.0] * 4, rounds=20),
        ]
    )
    found = hinge_others.compared(frame)
    assert hinge_others.verdicts(found, "one-vs-one") == (0, 1, 1)
    assert hinge_others.verdicts(found, "ecoc") == (1, 0, 1)
    assert hinge_others.verdicts(found, "one-vs-all") == (0, 0, 1)
    assert hinge_others.verdicts(found, "adaboost-erp") == (0, 0, 0)
    text = hinge_others.paired_text(frame)
    assert "6.50 (1.29) |" in text and "| better / worse / level |" in text and "1 / 0 / 0" in text
    page = hinge_others.paired_page(frame)
    assert "| Table 1 | usps | linear | **5.42** | 5.67 (=) | 7.57 | - | - | 6.50 |" in page
    values = hinge_others.paired_values(frame)
    assert (
        values["one-vs-one-linear-worse"] == "1 of 1" and values["ecoc-linear-better"] == "1 of 1"
    )


def test_columns_beside_the_papers():
    rows = [
        {
            "protocol": "official",
            "data": "vowel",
            "kernel": "perceptron",
            "scaled": scaled,
            "method": "one-vs-one",
            "C": 1.0,
            "rounds": 0,
            "repeat": 0,
            "error": error,
        }
        for scaled, error in (("yes", 37.45), ("no", 33.8))
    ]
    frame = frame_of(rows)
    assert "| vowel | perceptron | paper | 37.45 |" in hinge_others.columns_text(frame)
    values = hinge_others.columns_values(frame)
    assert values["vowel-perceptron-one-vs-one-as-is"] == "33.80"
    assert values["one-vs-one-within"] == "0.00"


def options(**given):
    return SimpleNamespace(
        **{"methods": None, "sets": None, "rounds": None, "repeats": None, **given}
    )


def test_choices_come_before_trainings():
    """Without rows of the choice there is nothing to train."""
    choices = SimpleNamespace(rows=[])
    asked = list(hinge_others.plan_paired(options(methods=["one-vs-one"]), None, choices))
    assert {which for which, _, _ in asked} == {1} and len(asked) == 14
    tried = hinge_others.values_of_C("one-vs-one")
    cell = {
        "protocol": "table1",
        "data": "usps",
        "kernel": "linear",
        "scaled": "yes",
        "method": "one-vs-one",
    }
    choices.rows = [
        {**cell, "C": str(C), "error": str(abs(C - 4)), "fold": str(fold)}
        for C in tried
        for fold in range(3)
    ]
    asked = list(
        hinge_others.plan_paired(options(methods=["one-vs-one"], sets=["usps"]), None, choices)
    )
    trained = [units for which, units, _ in asked if which == 0]
    assert (
        len(trained) == 1 and {unit["C"] for unit in trained[0]} == {4.0} and len(trained[0]) == 10
    )


def test_adaboost_erp_is_paired_where_it_can_be():
    """Not on letter with 1,000 rounds."""
    choices = SimpleNamespace(rows=[])
    asked = list(hinge_others.plan_paired(options(methods=["adaboost-erp"]), None, choices))
    cells = {(units[0]["protocol"], units[0]["data"]) for _, units, _ in asked}
    assert {data for protocol, data in cells if protocol == "table4"} == {"leaf"}
    assert ("table1", "letter") in cells


@pytest.mark.parametrize("method", hinge_variants.METHODS)
def test_every_variant(method):
    unit = {"kernel": "perceptron", "method": method, "C": 64.0, "rounds": 8}
    X, y = blobs(120)
    model = hinge_variants.make_estimator(unit).fit(X, y)
    assert (
        isinstance(model, pymcboost.HingeBoostOCClassifier) and np.mean(model.predict(X) != y) < 0.3
    )
    solves = model.history_["n_solves"]
    assert max(solves) <= (3 if method.startswith("3") else 2)


def test_a_printed_round_has_the_machine_of_the_colours_before():
    """Where the colours change in a round's last step, its column is not that of its SVM."""
    X, y = blobs(120, K=6, seed=1)
    unit = {"kernel": "linear", "C": 64.0, "rounds": 12}
    histories = [
        hinge_variants.make_estimator({**unit, "method": f"{svms}, random"}).fit(X, y).history_
        for svms in ("printed", "2 SVMs")
    ]
    printed, ours = (np.array(history["objective"]) for history in histories)
    assert (np.diff(printed) < 1e-9).sum() > 0 and len(printed) == 12
    assert not np.array_equal(printed, ours)


def test_scalings():
    X = np.array([[0.0, 5.0], [4.0, 5.0]])
    X_test = np.array([[2.0, 6.0]])
    both = hinge_variants.rescaled("deviation", X, X_test)
    assert both[0].tolist() == [[-1, 0], [1, 0]] and both[1].tolist() == [[0, 1]]
    assert hinge_variants.rescaled("range", X, X_test)[0][:, 0].tolist() == [-1, 1]
    assert hinge_variants.rescaled("none", X, X_test)[1] is X_test


def test_table_of_variants():
    cell = {
        "data": "vowel",
        "kernel": "perceptron",
        "scaling": "range",
        "method": "2 SVMs, random",
        "rounds": 200,
    }
    rows = [
        {**cell, "C": 4.0, "seed": seed, "chosen": "yes", "error": error}
        for seed, error in enumerate((40.0, 42.0))
    ]
    rows.append({**cell, "C": 16.0, "seed": 0, "chosen": "no", "error": 39.0})
    frame = frame_of(rows)
    assert "41.00 (1.41) | +6.6 sd | 39.00 |" in hinge_variants.text(frame)
    assert "| - | - | - | 41.00 | - | - | 39.00 |" in hinge_variants.page(frame)
    values = hinge_variants.values(frame)
    assert values["vowel-range"] == values["vowel-range-2-SVMs-random"] == "41.00"
    assert values["vowel-range-least"] == "39.00" and values["vowel-paper"] == "34.85"


# --------------------------------------------------------------------------------------------------------------------
# Li's grid


def test_the_papers_grid_supports_its_claims():
    wrong = {
        (int(leaves), float(rate), method): count
        for (leaves, rate), cells in abcboost_grid.PUBLISHED.items()
        for method, count in cells.items()
    }
    assert len(wrong) == 13 * 4 * 4 and wrong[20, 0.1, "abc-logitboost"] == 2102
    assert set(abcboost_grid.claims(wrong).values()) == {(52, 52)}
    assert abcboost_grid.printed(20, 0.1, "mart") == 2815


def test_table_of_the_grid():
    rows = [
        {
            "leaves": leaves,
            "rate": rate,
            "method": method,
            "gap": 10,
            "rounds": rounds,
            "rounds_fitted": 7,
            "n_train": 1,
            "n_test": 1,
            "curve": f"5:999 7:{count}",
        }
        for leaves, rate, method, rounds, count in (
            (8, 0.1, "logitboost", 200, 2600),
            (8, 0.1, "abc-logitboost", 200, 2400),
            (8, 0.04, "mart", 200, 5000),
            (16, 0.1, "logitboost", 3000, 2390),
            (16, 0.1, "abc-logitboost", 3000, 2200),
        )
    ]
    frame = frame_of(rows, as_text=["curve"])
    text = abcboost_grid.text(frame)
    assert "| J | nu = 0.1 |\n|---|---|\n| 8 | 2,600 / 2,400 |" in text
    assert "| 8 | 5,000 / - |" in text and "abc-logitboost below logitboost in 1 of 1" in text
    assert "| 16 | 0.1 | abc-logitboost | 2,082 | 2,200 | 7 | +5.7% |" in text
    values = abcboost_grid.values(frame)
    assert values["within"] == "1 of 2" and values["distance"] == "-0.2 to +5.7"


def test_units_of_the_grid():
    steps = list(abcboost_grid.plan(options(), None))
    coarse, grid, end = (units for _, units, _ in steps)
    assert len(grid) == 5 * 4 * 4 and len(end) == 12
    assert len(coarse) == 3 * 2 * 4 and all(unit in grid for unit in coarse)
    assert {unit["gap"] for unit in grid if unit["method"].startswith("abc")} == {10}
    spec = abcboost_grid.specification(grid[1])
    assert (spec.method, spec.leaves, spec.learning_rate) == ("abc-mart", 4, 0.04)
    assert spec.more == {"min_samples_leaf": 10, "gap": 10}


# --------------------------------------------------------------------------------------------------------------------
# Table V with one weak learner


def test_every_method_with_the_chosen_learner(monkeypatch):
    monkeypatch.setattr(table5_learners, "ROUNDS", 12)
    monkeypatch.setattr(table5, "load_pooled", lambda name: blobs())
    for method in table5_learners.ALL_METHODS:
        value = {"gradboost": "0.001", "multiboost": "1000"}.get(method, "-")
        unit = {"data": "satimage", "method": method, "value": value, "repeat": 0}
        row = table5_learners.fit_chosen(unit)
        assert row["error"] < 60 and row["n_test"] == 50
        weak = table5_learners.chosen_estimator(unit)
        assert (weak.max_leaf_nodes, weak.max_bins) == (3, 16)


def test_table_with_the_chosen_learner():
    mean, deviation = table5.PUBLISHED["usps"]["samme"]
    rows = [
        {
            "data": "usps",
            "method": "samme",
            "value": "-",
            "repeat": k,
            "error": mean - 2 * deviation,
        }
        for k in range(3)
    ]
    rows.append({"data": "usps", "method": "mcboost-log", "value": "-", "repeat": 0, "error": 8.7})
    frame = frame_of(rows)
    assert "(-2.0 sd)" in table5_learners.chosen_text(frame)
    values = table5_learners.chosen_values(frame)
    assert values["within"] == values["better"] == values["usps"] == "1 of 2"
    assert values["worse"] == "0 of 2" and values["sets"] == "usps"


def test_signed_ranks_on_the_page():
    """MCBoost is better on all ten sets, or on five of them by as much as it is worse on the others."""
    rows = []
    for k, data in enumerate(table5.PUBLISHED):
        errors = {"mcboost-exp": 10 + k, "samme": 11 + 3 * k, "adaboost-ecc": 10 + k + (-1) ** k}
        rows += [
            {
                "data": data,
                "method": method,
                "learner": "stump",
                "rounds": 1000,
                "error": error,
                "value": "-",
            }
            for method, error in errors.items()
        ]
    page = table5.signed_rank_page(frame_of(rows, as_text=["value"]))
    row = next(line for line in page.splitlines() if line.startswith("| mcboost-exp | stump"))
    assert row.split("|")[3:5] == [" **0.002** (10/10) ", " 1.000 (5/10) "]
    assert "| mcboost-exp | paper | **0.008** (8/10) |" in page


# --------------------------------------------------------------------------------------------------------------------
# News texts of Table IV


def test_principal_components_of_texts():
    """scikit-learn's, but for signs; the fewest that have the share."""
    from scipy import sparse
    from sklearn.decomposition import PCA

    X = sparse.random_array((30, 200), density=0.1, rng=np.random.default_rng(0), format="csr")
    ours = mcboost_texts.principal_components(X, 0.9)
    theirs = PCA(0.9, svd_solver="full").fit_transform(X.toarray())
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-5)


def test_news_texts(data_folder):
    """About the paper's 771 dimensions, of 1,000 texts of 20 groups; other sets are drawn as before."""
    X, y, X_test, y_test = mcboost.sample_split("news", 0)
    assert X.shape[0] == len(y) == 750 and len(y_test) == 250
    assert 760 < X.shape[1] == X_test.shape[1] < 800
    assert np.bincount(np.concatenate([y, y_test]))[1:].tolist() == [50] * 20


def test_sets_of_table4():
    [(_, units, _)] = mcboost.small_plan("table4", options(sets=["news"], repeats=2), None)
    assert [(unit["data"], unit["loss"], unit["repeat"]) for unit in units] == [
        ("news", loss, repeat) for repeat in range(2) for loss in ("exp", "log")
    ]


def test_cells_of_table4_that_count():
    """Other texts and a part of usps do not."""
    rows = [
        {
            "data": data,
            "loss": loss,
            "n_estimators": 500,
            "learning_rate": 0.5,
            "nu": 1e-9,
            "repeat": 0,
            "error": theirs[0] + (9 if data in ("news", "usps-train", "iris") else 1),
            "seconds": 1,
        }
        for (data, loss), theirs in mcboost.TABLE4.items()
    ]
    said = mcboost.table4_values(frame_of(rows))
    assert said["within"] == "8 of 10" and said["news-repeats"] == "1"
