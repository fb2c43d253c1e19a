"""``mcb_used_features`` in a C program: the features that Python finds, for every kind and number of rounds."""

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bindings.models import MODELS
from c.build import SANITIZERS, STRICTEST, build, c_compiler
from reference.scoring import random_kernel, random_linear, random_stumps, random_trees

from pymcboost.model.model import Model

SOURCE = Path(__file__).resolve().parents[1] / "c" / "used.c"


@pytest.fixture(scope="module")
def program():
    options = ["-std=c99", "-O0", "-DMCB_NO_VECTOR", *SANITIZERS, *STRICTEST]
    return build(SOURCE, [c_compiler(*SANITIZERS), *options])


def models():
    """(name, model) with features that nothing uses, of 8, 9 and 300, so that all widths of numbers occur."""
    yield from ((name, model) for name, (model, _) in MODELS.items())
    for d in (8, 300, 70000):
        yield f"stumps of {d}", Model.from_ensemble(random_stumps(7, d, 3), range(3))
        yield f"trees of {d}", Model.from_ensemble(random_trees(5, d, 3), range(3))
    trees = random_trees(9, 300, 4)
    yield "packed of 300", Model.from_ensemble(trees, range(4), layout="packed")
    linear = random_linear(40, 3)
    coef = linear.coef.copy()
    coef[:, ::3] = 0.0
    coef[0, 0] = 1.0
    yield "linear with zeros", Model.from_ensemble(replace(linear, coef=coef), range(3))
    for name in ("linear", "poly", "rbf", "perceptron"):
        kernel = random_kernel(8, 40, 3, kernel=name, scaled=True)
        support = kernel.support.copy()
        factor = kernel.scale.factor.copy()
        support[:, 1::3] = 0.5
        support[:, 2::3] = 0.0
        factor[:5] = 0.0
        for scale in (None, replace(kernel.scale, factor=factor)):
            model = Model.from_ensemble(replace(kernel, support=support, scale=scale), range(3))
            yield f"{name} kernel{', scaled' if scale else ''}", model


SHAPES = dict(models())


def features(model):
    used = model.used_features()[0]
    return " ".join(map(str, [len(used), *used]))


@pytest.mark.parametrize("name", SHAPES)
def test_a_program_has_the_features_of_python(name, program, tmp_path):
    model = SHAPES[name]
    model.save(tmp_path / "model.mcb")
    completed = subprocess.run([program, tmp_path / "model.mcb"], capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    stages = [model.truncate(t) for t in range(model.n_rounds + 1)] if model.n_rounds else [model]
    assert completed.stdout.splitlines() == [features(stage) for stage in stages]


@pytest.mark.parametrize("name", SHAPES)
def test_features_that_are_not_used_may_hold_anything(name):
    model = SHAPES[name]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, model.n_features_in_)).astype(np.float32)
    Z = X.copy()
    Z[:, np.setdiff1d(np.arange(model.n_features_in_), model.used_features()[0])] += 3
    np.testing.assert_array_equal(model.decision_function(Z), model.decision_function(X))


@pytest.mark.parametrize(
    "name", [name for name in SHAPES if "kernel" in name or name.startswith("linear")]
)
def test_each_used_feature_of_a_machine_changes_scores(name):
    model = SHAPES[name]
    X = np.random.default_rng(0).normal(size=(5, model.n_features_in_)).astype(np.float32)
    for feature in model.used_features()[0]:
        Z = X.copy()
        Z[:, feature] += 3
        assert (model.decision_function(Z) != model.decision_function(X)).any(), feature


def test_some_features_are_used_and_some_are_not():
    some = (
        "stumps of 300",
        "trees of 300",
        "packed of 300",
        "linear with zeros",
        "poly kernel",
        "rbf kernel, scaled",
    )
    for name in some:
        assert 0 < len(SHAPES[name].used_features()[0]) < SHAPES[name].n_features_in_, name
    assert np.array_equal(SHAPES["linear with zeros"].used_features()[0][:3], [0, 1, 2])
    assert len(SHAPES["rbf kernel"].used_features()[0]) == 40
