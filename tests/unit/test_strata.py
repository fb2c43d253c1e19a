"""Folds of equal shares of the classes: those of scikit-learn, which need not be loaded for them."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

from pymcboost.training.strata import stratified


@pytest.mark.parametrize("n_classes", [1, 2, 3, 40])
@pytest.mark.parametrize("n_folds", [2, 3, 5])
@pytest.mark.filterwarnings("ignore:The least populated class")
def test_folds_are_scikit_learns(n_classes, n_folds):
    rng = np.random.default_rng(n_classes)
    for seed, m in enumerate((n_folds, 17, 60, 301)):
        labels = np.minimum(rng.geometric(0.2, m), n_classes)
        labels[:n_folds] = labels[0]
        expected = StratifiedKFold(n_folds, shuffle=True, random_state=seed).split(
            np.zeros(m), labels
        )
        for ours, theirs in zip(stratified(labels, n_folds, seed), expected, strict=True):
            assert np.array_equal(ours[0], theirs[0]) and np.array_equal(ours[1], theirs[1])
        names = np.array([f"name {label}" for label in labels])
        assert np.array_equal(
            stratified(names, n_folds, seed)[0][1], stratified(labels, n_folds, seed)[0][1]
        )


def test_a_small_file_is_trained_on_without_scikit_learn(tmp_path):
    """Also with the folds that calibrate vector trees, and those of -v: it takes a second to load."""
    rng = np.random.default_rng(0)
    lines = [
        f"{k} 1:{x:.3f}"
        for k, x in zip(np.arange(60) % 3, rng.normal(size=60) + np.arange(60) % 3, strict=True)
    ]
    (tmp_path / "train.svm").write_text("\n".join(lines))
    code = """
import sys
from pymcboost.cli.train import main
for options in (["-v", "3"], [], ["-n", "auto"]):
    print(main(["-q", *options, "train.svm"]), "sklearn" in sys.modules or "scipy" in sys.modules)
"""
    completed = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert completed.stderr == ""
    assert [line for line in completed.stdout.splitlines() if line[0] == "0"] == ["0 False"] * 3
