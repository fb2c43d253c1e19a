"""``mcb_used_features`` in a C program: the features that Python finds, for every kind and number of rounds."""

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bindings.models import MODELS
from c.build import STRICTEST, build
from reference.scoring import random_kernel, random_linear, random_stumps, random_trees

from pymcboost.model.model import Model

SOURCE = Path(__file__).resolve().parents[1] / "c" / "used.c"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    command = ["gcc", "-std=c99", "-O1", "-DMCB_NO_VECTOR", "-fsanitize=address,undefined", *STRICTEST]
    return build(SOURCE, tmp_path_factory.mktemp("used"), command)


def models():
    """(name, model) with features that nothing uses, of 8, 9 and 300, so that all widths of numbers occur."""
    yield from ((name, model) for name, (model, _) in MODELS.items())
    for d in (8, 300, 70000):
        yield f"stumps of {d}", Model.from_ensemble(random_stumps(7, d, 3), range(3))
        yield f"trees of {d}", Model.from_ensemble(random_trees(5, d, 3), range(3))
    trees = random_trees(9, 300, 4)
    for layout in ("packed", "tight"):
        yield f"{layout} of 300", Model.from_ensemble(trees, range(4), layout=layout)
    linear = random_linear(40, 3)
    coef = linear.coef.copy()
    coef[:, ::3] = 0.0
    coef[0, 0] = 1.0
    yield "linear with zeros", Model.from_ensemble(replace(linear, coef=coef), range(3))
    kernel = random_kernel(8, 40, 3)
    support = kernel.support.copy()
    support[:, 1::2] = support[0, 1::2]
    yield "kernel with constant columns", Model.from_ensemble(replace(kernel, support=support), range(3))


SHAPES = dict(models())


def features(model):
    found = model.used_features()[0]
    return " ".join(map(str, [len(found), *found]))


@pytest.mark.parametrize("name", SHAPES)
def test_a_program_has_the_features_of_python(name, program, tmp_path):
    model = SHAPES[name]
    model.save(tmp_path / "model.mcb")
    done = subprocess.run([program, tmp_path / "model.mcb"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    stages = [model.truncate(t) for t in range(model.n_rounds + 1)] if model.n_rounds else [model]
    assert done.stdout.splitlines() == [features(stage) for stage in stages]


def test_some_features_are_used_and_some_are_not():
    for name in ("stumps of 300", "trees of 300", "packed of 300", "linear with zeros", "kernel with constant columns"):
        assert 0 < len(SHAPES[name].used_features()[0]) < SHAPES[name].n_features_in_, name
    assert np.array_equal(SHAPES["linear with zeros"].used_features()[0][:3], [0, 1, 2])
