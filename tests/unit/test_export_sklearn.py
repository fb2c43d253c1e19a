"""Forests of scikit-learn as models: their probabilities, and the link that these need."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)

from pymcboost import Model, ModelFormatError, load_model
from pymcboost.cli.info import main as info
from pymcboost.export import from_sklearn, scikit_learn, to_onnx, to_treelite
from pymcboost.model.builders import TreesBuilder

FORESTS = [RandomForestClassifier, ExtraTreesClassifier]


def data(rng, n=600, missing=0.1):
    X = rng.normal(size=(n, 5)).astype(np.float32)
    X[:, 3] = rng.integers(4, size=n)
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] + X[:, 3] > 1)
    X[rng.random(X.shape) < missing] = np.nan
    return X, np.where(rng.random(n) < 0.2, rng.integers(3, size=n), y)


def agrees(model, forest, X):
    expected = forest.predict_proba(X)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-14)
    assert (
        np.abs(model.raw_scores(X) - len(forest.estimators_) * expected).max()
        <= model.meta["score_error"]
        < 1e-4
    )
    order = np.sort(expected, axis=1)
    apart = order[:, -1] - order[:, -2] > 1e-6
    assert apart.mean() > 0.8
    assert (model.predict(X) == forest.predict(X))[apart].all()


@pytest.mark.parametrize("kind", FORESTS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_depth": 3, "class_weight": "balanced", "criterion": "entropy"},
        {"min_samples_leaf": 5, "max_features": 1.0},
        {"max_leaf_nodes": 2},
        {"min_samples_split": 1.0, "n_estimators": 1},
    ],
)
@pytest.mark.parametrize("missing", [0, 0.1])
@pytest.mark.part(3)
def test_probabilities_are_those_of_the_forest(tmp_path, kind, options, missing):
    rng = np.random.default_rng(len(options))
    X, y = data(rng, missing=missing)
    forest = kind(**{"n_estimators": 20, "random_state": 0, **options}).fit(
        X, y, sample_weight=rng.random(len(y))
    )
    model = from_sklearn(forest)
    test, _ = data(rng, missing=missing)
    for rows in (X, test):
        agrees(model, forest, rows)
    assert (model.link, model.n_rounds, model.temperature) == (
        "shares",
        len(forest.estimators_),
        None,
    )
    model.save(tmp_path / "m.mcb")
    restored = load_model(tmp_path / "m.mcb")
    assert restored.link == "shares"
    np.testing.assert_array_equal(restored.predict_proba(test), model.predict_proba(test))


@pytest.mark.parametrize("kind", FORESTS)
def test_digits_with_two_and_ten_classes_and_labels(kind):
    X, y = load_digits(return_X_y=True)
    names = np.array(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    )
    for chosen, labels in ((y < 10, y), (y < 2, y > 0), (y < 10, names[y]), (y < 4, y - 1.0)):
        forest = kind(n_estimators=15, random_state=0).fit(X[chosen][::2], labels[chosen][::2])
        model = from_sklearn(forest)
        assert model.classes_.tolist() == forest.classes_.tolist()
        agrees(model, forest, X[chosen][1::2])
    model = from_sklearn(forest, labels=["d", "c", "b", "a"])
    np.testing.assert_array_equal(
        model.predict_proba(X)[:, ::-1], from_sklearn(forest).predict_proba(X)
    )


@pytest.mark.parametrize("kind", FORESTS)
def test_thresholds_between_two_neighbours_of_float32(kind):
    """Their mean is no float32, and rounds to one or the other."""
    low = np.float32(64) + np.arange(40, dtype=np.float32) * 64 * np.finfo(np.float32).eps
    X = np.repeat(low, 10)[:, None]
    y = np.repeat(np.arange(40) % 2, 10)
    forest = kind(n_estimators=10, bootstrap=False, random_state=0).fit(X, y)
    agrees(from_sklearn(forest), forest, X)


def test_the_first_rounds_are_the_forest_of_these_trees():
    rng = np.random.default_rng(0)
    X, y = data(rng)
    forest = RandomForestClassifier(12, random_state=0).fit(X, y)
    model = from_sklearn(forest)
    staged = list(model.staged_predict_proba(X))
    for n in (1, 5, 12):
        expected = np.mean([tree.predict_proba(X) for tree in forest.estimators_[:n]], axis=0)
        np.testing.assert_allclose(model.truncate(n).predict_proba(X), expected, atol=1e-6)
        np.testing.assert_allclose(staged[n - 1], expected, atol=1e-6)
    np.testing.assert_array_equal(staged[-1], model.predict_proba(X))
    np.testing.assert_array_equal(model.truncate(0).predict_proba(X[:2]), np.full((2, 3), 1 / 3))
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(
            model.predict_log_proba(X), np.log(model.predict_proba(X)), rtol=1e-14
        )


def test_other_forms_of_a_forest():
    rng = np.random.default_rng(0)
    X, y = data(rng, missing=0)
    forest = ExtraTreesClassifier(10, random_state=0, min_samples_leaf=3).fit(X, y)
    model = from_sklearn(forest)
    expected = forest.predict_proba(X)
    for layout, leaves in (
        ("packed", "float32"),
        ("packed", "float16"),
        ("list", "float16"),
        ("packed", "int8"),
    ):
        other = Model.from_bytes(model.to_bytes(layout, leaves))
        np.testing.assert_allclose(
            other.predict_proba(X), expected, atol=1e-6 if leaves == "float32" else 3e-3
        )
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(to_onnx(model))
    labels, _, actual = session.run(["label", "scores", "probabilities"], {"X": X})
    np.testing.assert_allclose(actual, expected, atol=1e-6)
    np.testing.assert_array_equal(labels, model.predict(X))
    treelite = pytest.importorskip("treelite")
    scores = treelite.gtil.predict(treelite.Model.deserialize_bytes(to_treelite(model)), X).reshape(
        len(X), -1
    )
    np.testing.assert_allclose(scores / 10, expected, atol=1e-6)


def test_a_softmax_is_no_link_of_a_forest(tmp_path, capsys):
    X, y = data(np.random.default_rng(0))
    model = from_sklearn(RandomForestClassifier(3, random_state=0).fit(X, y))
    for call in (
        lambda: model.with_temperature(2.0),
        lambda: model.calibrated(X, y),
        lambda: model.reweighted([1, 2, 3]),
    ):
        with pytest.raises(
            ValueError,
            match="needs scores that go through a softmax; the scores of this model are sums",
        ):
            call()
    assert model.with_temperature(None).to_bytes() == model.to_bytes()
    path = tmp_path / "m.mcb"
    model.save(path)
    assert info([str(path)]) == 0
    assert "p = F / sum of F" in capsys.readouterr().out
    assert info(["--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["link"] == "shares"


def test_scores_below_0_and_sums_of_0():
    builder = TreesBuilder(3, 1, vector=True)
    builder.add_tree([0], [0.0], [True], right=[1], leaf=np.array([[-1, 0, -2], [-1, 3, 1]]))
    builder.end_round()
    model = Model.from_ensemble(builder.freeze(), range(3), link="shares")
    found = [[1 / 3] * 3, [0, 0.75, 0.25]]
    np.testing.assert_array_equal(model.predict_proba([[-1], [1]]), found)
    np.testing.assert_array_equal(next(model.staged_predict_proba([[-1], [1]])), found)


def test_what_is_no_forest_of_one_output_is_refused(monkeypatch):
    X, y = data(np.random.default_rng(0), missing=0)

    class Other(RandomForestClassifier):
        pass

    for other in (GradientBoostingClassifier(), Other(), None, "forest"):
        with pytest.raises(
            TypeError, match="RandomForestClassifier or ExtraTreesClassifier of scikit-learn, not "
        ):
            from_sklearn(other)
    with pytest.raises(ValueError, match="this RandomForestClassifier is not fitted"):
        from_sklearn(RandomForestClassifier())
    with pytest.raises(ValueError, match="has 2 outputs; only forests with one output"):
        from_sklearn(RandomForestClassifier(2).fit(X, np.column_stack([y, y])))
    with pytest.raises(ValueError, match="has 1 classes; a model supports 2 to 65535"):
        from_sklearn(RandomForestClassifier(2).fit(X, y * 0))
    with pytest.raises(ValueError, match="labels must be 64-bit integers or strings"):
        from_sklearn(RandomForestClassifier(2).fit(X, y), labels=[0.5, 1, 2])
    forest = RandomForestClassifier(2, random_state=0).fit(X, y)
    monkeypatch.setattr(scikit_learn, "FIELDS", scikit_learn.FIELDS - {"missing_go_to_left"})
    with pytest.raises(
        ModelFormatError,
        match="tree 0: it has the unknown field 'missing_go_to_left', which scikit-learn 1.9",
    ):
        from_sklearn(forest)
