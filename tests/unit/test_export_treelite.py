"""Models in treelite's format, as treelite scores them; skipped where the package is missing."""

import re
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from reference.scoring import random_kernel, random_linear, random_rows, random_stumps, random_trees

from pymcboost import Model
from pymcboost.export import to_treelite


@pytest.mark.parametrize(
    "mode", ["scalar", "base", "vector", "code", "stumps", "stumps of two sides", "no tree"]
)
def test_trees(mode):
    treelite = pytest.importorskip("treelite")
    if mode == "no tree":
        ensemble = random_trees(0, 5, 4, mode="vector")
    elif mode.startswith("stumps"):
        ensemble = random_stumps(60, 5, 4, two_sided=mode != "stumps")
    else:
        ensemble = random_trees(20, 5, 4, mode=mode, few_thresholds=mode == "base")
    model = Model.from_ensemble(ensemble, ["a", "b", "c ü", "d"], link="softmax")
    X = random_rows(500, 5)
    kept = treelite.Model.deserialize_bytes(to_treelite(model))
    error = kept.attributes["score_error"]
    expected = model.raw_scores(X)
    actual = treelite.gtil.predict(kept, X, nthread=1).reshape(expected.shape)
    assert np.abs(actual - expected).max() <= error < 1e-3
    best = np.sort(expected, axis=1)
    apart = best[:, -1] - best[:, -2] > 2 * error
    labels = np.array(kept.attributes["classes"])[actual.argmax(axis=1)]
    assert apart.mean() > 0.98 and (labels == model.predict(X))[apart].all()


def test_what_treelite_cannot_hold():
    for model, what in (
        (Model.from_ensemble(random_kernel(5, 3, 2), [0, 1]), "has kind 6: kernel machine"),
        (Model.from_ensemble(random_linear(3, 2), [0, 1]), "has kind 5: linear machine"),
        (
            Model.from_ensemble(random_stumps(5, 3, 2), [0, 1], layout="interval"),
            "has kind 2: interval table",
        ),
        (Model.from_ensemble(random_trees(5, 3, 4, mode="exp"), range(4)), "decoder='exp'"),
    ):
        with pytest.raises(ValueError, match=re.escape(what)):
            to_treelite(model)


def test_trees_belong_to_the_one_target(monkeypatch):
    """A stand-in for the package takes what it is told."""
    builder = MagicMock()
    monkeypatch.setitem(sys.modules, "treelite", SimpleNamespace(model_builder=builder))
    to_treelite(Model.from_ensemble(random_trees(6, 5, 3, mode="scalar"), range(3)))
    said = builder.TreeAnnotation.call_args.kwargs
    assert said["target_id"] == [0] * said["num_tree"]
    assert len(said["class_id"]) == said["num_tree"] > 0 and set(said["class_id"]) <= {0, 1, 2}
    assert builder.Metadata.call_args.kwargs["num_target"] == 1


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "treelite", None)
    with pytest.raises(ImportError, match="pip install treelite"):
        to_treelite(Model.from_ensemble(random_stumps(3, 3, 2), [0, 1]))
