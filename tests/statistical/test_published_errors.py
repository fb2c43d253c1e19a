"""Errors on real data against published ones, with bands. tools/reproduce.py does the same with the full counts.

A band is wide enough for the luck of random splits and narrow enough that a wrong weak learner, coefficient or
shrinkage falls out of it: halving the number of rounds on pendigits, for instance, costs 0.7 points.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
pytest.importorskip("pandas")

from reproduce import figure1, hinge, mcboost, multiboost_table4
from shared.measure import error_percent

REPEATS = 10
PUBLISHED_REPEATS = 50
# HingeBoost.OC: how much higher than the published error.
ALLOWED = 1.05


def test_digits_bundled(project_root):
    """The bundled digits, 300 stumps: no data folder needed."""
    from pymcboost import MCBoostClassifier, load_svmlight

    train = load_svmlight(project_root / "data" / "digits.train.libsvm", n_features=64)
    test = load_svmlight(project_root / "data" / "digits.test.libsvm", n_features=64)
    for loss in ("exp", "log"):
        model = MCBoostClassifier(loss=loss, n_estimators=300).fit(train.X, train.y)
        error = error_percent(test.y, model.predict(test.X))
        stages = list(model.staged_predict(test.X))
        assert error <= 6.0, loss
        # Boosting has to work for it: 20 stumps alone stay far above.
        assert error_percent(test.y, stages[19]) > error + 5.0, loss


@pytest.mark.slow
@pytest.mark.needs_data
@pytest.mark.parametrize(
    ("data", "loss"),
    [
        # 12.9 against 9.9 (2.6) over 50 repeats: beyond the band, for reasons that docs/papers/mcboost.md discusses.
        pytest.param(
            *key,
            marks=pytest.mark.xfail(strict=False, reason="1.1 sd off")
            if key == ("usps", "log")
            else [],
        )
        for key in mcboost.TABLE4
    ],
)
def test_table4(data_folder, data, loss):
    """Mean error of the small-sample protocol within one of the paper's standard deviations."""
    units = mcboost.small_units([(data, loss, 0.5, 1e-9)], PUBLISHED_REPEATS)
    errors = [mcboost.fit_sample(unit)["error"] for unit in units]
    mean, deviation = mcboost.TABLE4[data, loss]
    assert abs(np.mean(errors) - mean) <= deviation, (
        f"{np.mean(errors):.2f}, paper {mean} ({deviation})"
    )


@pytest.mark.slow
@pytest.mark.needs_data
@pytest.mark.parametrize(
    ("data", "kernel", "scaled", "start", "C", "seeds"),
    [
        ("pendigits", "linear", "yes", "hinge", 4096, 3), ("satimage", "linear", "yes", "hinge", 4096, 2),
        ("vowel", "linear", "yes", "hinge", 1024, 8), ("pendigits", "perceptron", "yes", "hinge", 4096, 2),
        ("satimage", "perceptron", "yes", "hinge-random", 4096, 2),
        ("vowel", "perceptron", "no", "hinge-random", 16, 8),
    ],
)  # fmt: skip
def test_hingeboost(data_folder, data, kernel, scaled, start, C, seeds):
    """Within 5% of Gao and Koller's Tables 2 and 3, with the C that cross-validation finds."""
    unit = {
        "data": data,
        "kernel": kernel,
        "scaled": scaled,
        "method": start,
        "C": C,
        "rounds": hinge.ROUNDS,
    }
    errors = [float(hinge.fit({**unit, "seed": seed})["error"]) for seed in range(seeds)]
    published = hinge.PUBLISHED[data, kernel]["hinge"]
    assert np.mean(errors) <= ALLOWED * published, f"{np.mean(errors):.2f}, paper {published}"


@pytest.mark.slow
@pytest.mark.needs_data
@pytest.mark.parametrize(("data", "repeats"), [("iris", REPEATS), ("usps", 2 * REPEATS)])
def test_multiboost_from_0(data_folder, data, repeats):
    """MultiBoost of Table IV within one standard deviation, by L-BFGS-B from 0 in every round; usps only from there."""
    unit = {"data": data, "method": "multiboost-cold", "C": 1e7, "rounds": multiboost_table4.ROUNDS}
    errors = [
        multiboost_table4.fit_table4({**unit, "repeat": repeat})["error"]
        for repeat in range(repeats)
    ]
    mean, deviation = multiboost_table4.PUBLISHED[data]["error"]
    assert abs(np.mean(errors) - mean) <= deviation, (
        f"{np.mean(errors):.2f}, paper {mean} ({deviation})"
    )


@pytest.mark.slow
@pytest.mark.needs_data
@pytest.mark.parametrize("loss", mcboost.LOSSES)
def test_pendigits_official(data_folder, loss):
    """About 5.0% after 1,000 rounds on the official split."""
    unit = {
        "data": "pendigits",
        "loss": loss,
        "n_estimators": 1000,
        "learning_rate": 0.5,
        "nu": 1e-9,
    }
    row = mcboost.fit_official(unit)
    assert 4.5 <= row["error"] <= 5.5
    assert row["rounds"] == 1000


@pytest.mark.slow
@pytest.mark.needs_data
@pytest.mark.parametrize("loss", mcboost.LOSSES)
def test_shrinkage_on_usps(data_folder, loss):
    """Table II: a shrinkage of 0.5 changes little; the published gain of 1.7 to 3.8 is not found here.

    0.01 ends long before 500 rounds have done their work.
    """
    means = {}
    for eta, repeats in ((1.0, PUBLISHED_REPEATS), (0.5, PUBLISHED_REPEATS), (0.01, REPEATS)):
        units = mcboost.small_units([("usps-train", loss, eta, 1e-9)], repeats)
        means[eta] = np.mean([mcboost.fit_sample(unit)["error"] for unit in units])
    assert abs(means[0.5] - means[1.0]) < 1.0
    assert means[0.01] > means[0.5] + 5.0


@pytest.mark.slow
@pytest.mark.needs_data
def test_large_nu_hurts(data_folder):
    """Table I: nu = 0.1 stops too early on pendigits, nu = 1e-9 and 0 are alike."""
    means = {}
    for nu in (0.0, 1e-9, 1e-1):
        units = mcboost.small_units([("pendigits", "exp", 0.5, nu)], REPEATS)
        means[nu] = np.mean([mcboost.fit_sample(unit)["error"] for unit in units])
    assert abs(means[0.0] - means[1e-9]) <= 0.5
    assert means[1e-1] >= means[1e-9] + 10.0


@pytest.mark.slow
@pytest.mark.needs_data
@pytest.mark.parametrize("loss", mcboost.LOSSES)
def test_paths_follow_the_exact_ones(data_folder, loss):
    """Figure 1: a fixed step of 0.01 on the selected class follows the l1-constrained minimiser of (17)."""
    H, y = figure1.figure_data()
    gammas = np.arange(0.5, 6.01, 0.5)
    exact, residual = figure1.exact_paths(loss, H, y, gammas=gammas)
    assert residual < 1e-3
    stage = figure1.stagewise_paths(loss, H, y, rounds=700)
    norms = np.abs(stage).sum(axis=(1, 2))
    for W, gamma in zip(exact, gammas, strict=True):
        at = min(int(np.searchsorted(norms, gamma - 0.005)), len(norms) - 1)
        assert np.abs(W - stage[at]).max() <= 0.1
        value, reached = (figure1.pair_loss(loss, w, H, y=y)[0] for w in (W, stage[at]))
        assert value <= reached * (1 + 1e-6)
        assert reached <= value * 1.01


@pytest.mark.slow
@pytest.mark.needs_data
def test_mnist_hog(data_folder, tmp_path):
    """Table VII, exponential loss: at most 1.2% with 1,000 stumps."""
    X, y, X_test, y_test, _ = mcboost.mnist_features(tmp_path)
    model = mcboost.classifier("exp", 1000, n_jobs=2).fit(X, y)
    assert error_percent(y_test, model.predict(X_test)) <= mcboost.MNIST_BOUND


def test_sample_split_is_the_protocol(data_folder):
    """50 rows per class, 75:25, the same split whatever the loss, another one in another repeat."""
    X, y, X_test, y_test = mcboost.sample_split("pendigits", 3)
    assert (len(y), len(y_test)) == (375, 125)
    counts = np.unique(np.concatenate([y, y_test]), return_counts=True)[1]
    assert counts.tolist() == [50] * 10
    again = mcboost.sample_split("pendigits", 3)
    other = mcboost.sample_split("pendigits", 4)
    assert np.array_equal(X, again[0])
    assert not np.array_equal(X, other[0])
    X, y, X_test, y_test = mcboost.sample_split("glass", 0)
    assert len(y) + len(y_test) == 214
