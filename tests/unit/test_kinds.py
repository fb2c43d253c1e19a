"""What every kind of model says of itself, and what a training asks of it."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from reference.scoring import (
    random_kernel,
    random_linear,
    random_right,
    random_rows,
    random_stumps,
    random_trees,
)

from pymcboost.cli.info import main
from pymcboost.model.builders import EnsembleBuilder, TreesBuilder
from pymcboost.model.kinds import KINDS, PACKED, PLACES
from pymcboost.model.model import Model
from pymcboost.model.stumps import Stumps

X = np.nan_to_num(random_rows(30, 6))
MODELS = {
    "stumps": random_stumps(20, 6, 3),
    "two-sided": random_stumps(20, 6, 3, two_sided=True),
    "intervals": random_stumps(20, 6, 3).merge(),
    "intervals of float32": random_stumps(20, 6, 3).merge().single(),
    **{
        mode: random_trees(8, 6, 3, mode=mode)
        for mode in ("scalar", "base", "vector", "code", "hamming", "exp")
    },
    "linear": random_linear(6, 3),
    "kernel": random_kernel(20, 6, 3),
}
GROWING = ["stumps", "two-sided", "scalar", "base", "vector", "code", "hamming", "exp"]


def of(ensemble):
    """The ensemble as a model; an interval table has a layout of its own."""
    return Model.from_ensemble(ensemble, range(3), layout=layout_of(ensemble))


def layout_of(ensemble):
    return (
        ensemble.layout_of({"TABL": ensemble.table})
        if ensemble.NAME == "interval table"
        else "list"
    )


def builder_of(ensemble):
    """A builder that holds the ensemble."""
    if ensemble.NAME == "trees":
        builder = TreesBuilder(
            3, 6, ensemble.cls is None, code=ensemble.code, decoder=ensemble.decoder
        )
    else:
        builder = EnsembleBuilder(3, 6)
    builder.extend(ensemble)
    return builder


def test_every_kind_is_tried():
    assert {ensemble.KIND for ensemble in MODELS.values()} | {
        PACKED
    } == PLACES.keys()  # packed ones are trees
    assert all(KINDS[ensemble.KIND] is type(ensemble) for ensemble in MODELS.values())


@pytest.mark.parametrize("name", MODELS)
def test_sections_and_back(name):
    model = of(MODELS[name])
    assert type(model.ensemble) is KINDS[model.kind]
    assert of(model.ensemble).to_bytes() == model.to_bytes()
    assert (model.ensemble.n_classes, model.ensemble.n_features) == (3, 6)


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_the_file(name):
    ensemble = MODELS[name]
    expected = of(ensemble).raw_scores(X)
    assert ensemble.scores(X).tobytes() == expected.tobytes()
    sums = np.zeros((len(X), ensemble.width))
    ensemble.add_scores_to(sums, X)
    np.testing.assert_allclose(ensemble.decode(sums), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "form", [np.asarray, sp.csc_matrix, sp.csr_matrix], ids=["dense", "csc", "csr"]
)
@pytest.mark.parametrize("name", GROWING)
def test_rounds_add_up_as_they_were_trained(name, form):
    """Stumps one by one as the scorer adds them, each round of trees as one sum; afterwards as while they grow."""
    whole = replace(MODELS[name], bias=np.zeros(3, np.float32))
    rows = form(X)
    builder = builder_of(whole)
    sums = np.zeros((len(X), whole.width))
    for part in builder.rounds():
        part.add_scores_to(sums, rows)
    expected = of(whole).raw_scores(X)
    np.testing.assert_allclose(whole.decode(sums), expected, rtol=1e-12, atol=1e-12)
    growing = builder_of(whole.truncate_rounds(0))
    learners = len(whole)
    again = np.zeros_like(sums)
    steps = whole.round_ends().tolist()
    for r in range(whole.n_rounds):
        done = len(growing)
        for tree in list(whole.each_tree())[steps[r] : steps[r + 1]]:
            growing.add_tree(*tree)
        growing.end_round()
        growing.tail(done).add_scores_to(again, rows)
    assert len(growing) == learners
    assert again.tobytes() == sums.tobytes()
    if name in ("stumps", "two-sided"):
        assert sums.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", GROWING)
def test_trees_of_every_weak_learner_give_the_model_again(name):
    whole = MODELS[name]
    builder = builder_of(whole.truncate_rounds(0))
    builder.bias[:] = whole.bias
    ends = iter(whole.round_ends()[1:].tolist())
    end = next(ends, None)
    for t, tree in enumerate([*whole.each_tree(), None]):
        while end == t:
            builder.end_round()
            end = next(ends, None)
        if tree is not None:
            builder.add_tree(*tree)
    assert of(builder.freeze()).to_bytes() == of(whole).to_bytes()


def test_stumps_given_as_trees_with_signs_have_one_side():
    builder = EnsembleBuilder(2, 3)
    builder.add_tree([1], [0.5], [True], right=[1], leaf=np.array([[-1.0], [1.0]]) * [0.25, -3.0])
    assert builder.freeze().left is None
    builder.add_tree([2], [0.5], [False], right=[1], leaf=[[1.0, 2.0], [3.0, 4.0]])
    assert builder.freeze().left.tolist() == [[-0.25, 3.0], [1.0, 2.0]]


@pytest.mark.parametrize("name", ["intervals", "linear", "kernel"])
def test_merged_kinds_have_no_weak_learners_or_rounds(name):
    model = of(MODELS[name])
    assert (model.n_learners, model.n_rounds, model.has_stages) == (None, None, False)
    with pytest.raises(ValueError, match="the weak learners of this model are merged"):
        model.ensemble.each_tree()
    with pytest.raises(ValueError, match="merges all rounds|are merged|which merges"):
        model.truncate(1)


@pytest.mark.parametrize("name", ["code", "hamming", "exp"])
def test_scores_of_the_columns_of_a_code(name):
    rng = np.random.default_rng(1)
    for n_columns in (1, 2, 9):
        code = np.where(rng.random((n_columns, 3)) < 0.5, 1.0, -1.0)
        builder = TreesBuilder(3, 6, code=code, decoder="linear" if name == "code" else name)
        for t in range(20):
            s = t % 4
            right = random_right(s, rng)
            side = rng.random(s) < 0.5
            builder.add_tree(
                rng.integers(6, size=s),
                rng.normal(size=s),
                side,
                right=right,
                leaf=rng.normal(size=s + 1),
                cls=t % n_columns,
            )
            builder.end_round()
        trees = builder.freeze()
        columns = trees.column_scores(X)
        assert columns.shape == (30, n_columns)
        expected = Model.from_ensemble(trees.columns(), range(max(2, n_columns))).raw_scores(X)
        assert columns.tobytes() == np.ascontiguousarray(expected[:, :n_columns]).tobytes()
        assert trees.width == (3 if name == "code" else n_columns)
        if name == "code":
            np.testing.assert_allclose(columns @ code, trees.scores(X), rtol=1e-12, atol=1e-12)
        else:
            assert trees.decode(columns).tobytes() == trees.scores(X).tobytes()
    stumps = MODELS["stumps"]
    assert stumps.column_scores(X).tobytes() == stumps.scores(X).tobytes()


def test_a_kind_is_asked_for_all_that_is_its_own(monkeypatch, tmp_path, capsys):
    """A kind in place of stumps, which Model, the file and the command line know by one line of the registry."""

    class Odd(Stumps):
        NAME = "odd kind"
        share_of = "odd shares"
        no_stages = "this model is odd: it has no stages"
        allows_missing = False

        def used_features(self):
            return np.array([2, 4]), np.array([3.0, 1.0])

        def summary(self, staged):
            return "something odd"

        def describe(self, leaves):
            return {"odd": leaves}

        @staticmethod
        def lines(facts):
            yield "oddity", facts["odd"]

        @classmethod
        def layout_of(cls, sections):
            return "interval"

        @classmethod
        def leaves_of(cls, sections):
            return "float16"

    monkeypatch.setitem(KINDS, 1, Odd)
    model = Model.from_ensemble(Odd(**vars(MODELS["stumps"])), range(3))
    assert type(model.ensemble) is Odd
    assert repr(model) == "<Model: something odd, 3 classes, 6 features>"
    assert (model.layout, model.leaves, model.n_rounds, model.is_machine) == (
        "interval",
        "float16",
        None,
        True,
    )
    np.testing.assert_array_equal(model.feature_importances(), [0, 0, 0.75, 0, 0.25, 0])
    with pytest.raises(ValueError, match="is odd: it has no stages"):
        model.truncate(1)
    model.save(tmp_path / "m.mcb")
    assert main([str(tmp_path / "m.mcb")]) == 0
    out = capsys.readouterr().out
    for line in (
        "kind +1 .odd kind.",
        "oddity +float16",
        "top features +share in odd shares",
        "  3 +0.7500",
    ):
        assert re.search(f"^{line}$", out, re.MULTILINE), line
