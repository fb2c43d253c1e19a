"""Looking inside: curves, importances, dumps, plots, covers, and what is said to wrong input."""

import inspect
import json
import pickle
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from cli.programs import call
from format.tampering import parse
from sklearn.datasets import load_digits

import pymcboost.inspection as looking
from pymcboost import (
    AdaBoostMOClassifier,
    GentleBoostClassifier,
    HingeBoostOCClassifier,
    LogitBoostClassifier,
    MartClassifier,
    MCBoostClassifier,
    Model,
    MultiBoostCWClassifier,
    SAMMEClassifier,
    VectorTreeBoostClassifier,
    load_model,
)
from pymcboost.callbacks import TrainingLoss
from pymcboost.inspection import (
    contributions,
    curve,
    importance,
    interactions,
    shapley,
    to_frame,
    to_json,
    to_shap,
    to_text,
)

NAMES = ["height", "width", "colour", "age"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[rng.random(X.shape) < 0.05] = np.nan
    y = np.array(["low", "mid", "top"])[
        np.digitize(np.nan_to_num(X[:, 1] + X[:, 0] * (X[:, 3] > 0)), [-0.7, 0.7])
    ]
    return pd.DataFrame(X, columns=NAMES), y


@pytest.fixture(scope="module")
def fitted(data):
    return {
        "vector": VectorTreeBoostClassifier(n_estimators=12, max_leaf_nodes=6, random_state=0).fit(
            *data
        ),
        "class": MartClassifier(n_estimators=6, max_leaf_nodes=5).fit(*data),
        "stumps": MCBoostClassifier(n_estimators=30).fit(*data),
        "class stumps": MultiBoostCWClassifier(n_estimators=30, random_state=0).fit(*data),
    }


@pytest.fixture(scope="module")
def machine(data):
    return HingeBoostOCClassifier(n_estimators=2).fit(data[0].fillna(0.0), data[1])


@pytest.fixture
def axes():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield lambda: pyplot.subplots()[1]
    pyplot.close("all")


# -- the room itself ---------------------------------------------------------------------------------------------------


def test_it_loads_neither_scikit_learn_nor_plots():
    code = (
        "import sys, pymcboost.inspection\n"
        "print(sorted({'sklearn', 'scipy', 'matplotlib', 'pandas', 'joblib'} & set(sys.modules)))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
        == "[]"
    )


def test_callbacks_do_not_load_what_looks_inside():
    code = (
        "import sys\n"
        "import pymcboost.callbacks\n"
        "print([name for name in sys.modules if 'pymcboost.inspection' in name])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        == "[]\n"
    )


def test_the_kernel_has_the_limit_that_python_has():
    from pymcboost._kernels import contributions as kernel
    from pymcboost.model import covers

    assert kernel.MOST_FEATURES == covers.MOST_FEATURES
    code = "import sys, pymcboost; pymcboost.Model; print('pymcboost._kernels.contributions' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
        == "False"
    )


def test_public_names():
    assert sorted(looking.__all__) == looking.__all__
    for name in looking.__all__:
        assert inspect.getdoc(getattr(looking, name))


def test_without_matplotlib(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pymcboost\[plot\]"):
        looking.plot_importance(fitted["vector"])


@pytest.mark.parametrize("function", [contributions, importance, to_frame, to_json, to_text])
def test_what_is_no_model(function, data):
    more = data[:1] if function is contributions else ()
    with pytest.raises(TypeError, match="MartClassifier is not fitted yet; call fit first"):
        function(MartClassifier(), *more)
    with pytest.raises(
        TypeError, match="give a Model or a fitted estimator .*, not str; load_model"
    ):
        function("model.mcb", *more)


def test_machines_of_callable_kernels_are_told_from_what_is_not_fitted(data):
    X = data[0].fillna(0.0)
    y = data[1]
    machine = HingeBoostOCClassifier(
        n_estimators=2, kernel=lambda a, b: a @ b.T, calibrate="temperature"
    ).fit(X, y)
    for what in (machine, machine.model_):
        for function in (to_text, lambda of: importance(of, "permutation", X=X, y=y)):
            with pytest.raises(
                TypeError,
                match=f"kernel of this {type(what).__name__} is a Python function",
            ):
                function(what)


# -- contributions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["vector", "class", "stumps", "class stumps"])
def test_contributions_add_up_with_missing_values(fitted, data, kind):
    model = fitted[kind].model_
    X, _ = data
    scores = model.raw_scores(X)
    for held, background in ((model, X[:40]), (model.with_covers(X), None)):
        shapley = contributions(held, X, background)
        assert shapley.values.shape == (300, 4, 3)
        assert np.abs(shapley.base + shapley.values.sum(axis=1) - scores).max() < 1e-9
        assert (
            np.abs(
                shapley.base - (scores if background is None else scores[:40]).mean(axis=0)
            ).max()
            < 1e-9
        )


def test_contributions_of_an_interval_table(fitted, data):
    model = fitted["stumps"].model_
    table = Model.from_bytes(model.to_bytes(layout="interval"))
    X = data[0]
    expected = contributions(model, X, X[:50]).values
    np.testing.assert_allclose(contributions(table, X, X[:50]).values, expected, rtol=0, atol=1e-6)


def test_used_features_alone(data):
    X, y = data
    wide = np.zeros((300, 500))
    wide[:, [7, 300]] = np.nan_to_num(X.to_numpy()[:, :2])
    model = VectorTreeBoostClassifier(n_estimators=5, random_state=0).fit(wide, y).model_
    full, part = (contributions(model, wide, wide[:20], only_used=only) for only in (False, True))
    assert part.features.tolist() == [7, 300]
    assert full.features.tolist() == list(range(500))
    assert full.values[:, [7, 300]].tobytes() == part.values.tobytes()
    assert np.flatnonzero(full.values.any(axis=(0, 2))).tolist() == [7, 300]


def test_sparse_rows_of_many_columns_stay_sparse(data):
    d = 1 << 24
    columns = np.column_stack([np.full(200, 5), d - 1 - np.arange(200)])
    values = np.column_stack([np.arange(200.0), np.ones(200)])
    X = scipy.sparse.csr_matrix(
        (values.ravel(), columns.ravel(), np.arange(0, 401, 2)), shape=(200, d)
    )
    model = VectorTreeBoostClassifier(n_estimators=3, random_state=0, calibrate=None).fit(
        X, np.arange(200) // 100
    )
    shapley = contributions(model, X, X[:30], only_used=True)
    assert 5 in shapley.features and len(shapley.features) < 100
    assert (
        np.abs(shapley.base + shapley.values.sum(axis=1) - model.model_.raw_scores(X)).max() < 1e-9
    )
    with pytest.raises(MemoryError, match="only_used=True"):
        contributions(model, scipy.sparse.vstack([X] * 200, format="csr"), X[:30])


def test_columns_go_by_name(fitted, data):
    model = fitted["vector"].model_
    X = data[0]
    turned = X[NAMES[::-1]]
    assert (
        contributions(model, turned, X[:9]).values.tobytes()
        == contributions(model, X, turned[:9]).values.tobytes()
    )
    assert model.with_covers(turned).to_bytes() == model.with_covers(X).to_bytes()


@pytest.mark.filterwarnings("ignore:no weak learner separates the classes")
def test_contributions_of_no_rows_and_of_no_splits(data):
    X, y = data
    model = MartClassifier(n_estimators=2).fit(np.zeros((9, 2)), np.arange(9) % 3).model_
    shapley = contributions(model, np.zeros((2, 2)), np.zeros((1, 2)))
    assert not shapley.values.any()
    np.testing.assert_allclose(shapley.base, model.raw_scores(np.zeros((1, 2)))[0])
    assert contributions(model.with_covers(np.zeros((4, 2))), np.zeros((0, 2))).values.shape == (
        0,
        2,
        3,
    )


def test_interactions_of_used_features_alone(data):
    X, y = data
    wide = np.zeros((300, 30))
    wide[:, [7, 20]] = np.nan_to_num(X.to_numpy()[:, :2])
    model = VectorTreeBoostClassifier(n_estimators=5, random_state=0).fit(wide, y).model_
    full, part = (
        interactions(model, wide[:9], wide[:20], only_used=only) for only in (False, True)
    )
    assert part.features.tolist() == [7, 20]
    assert full.values[:, [7, 20]][:, :, [7, 20]].tobytes() == part.values.tobytes()
    assert np.argwhere(full.values.any(axis=(0, 3))).tolist() == [
        [7, 7],
        [7, 20],
        [20, 7],
        [20, 20],
    ]
    dense = full
    sparse = interactions(model, scipy.sparse.csr_matrix(wide[:9]), wide[:20])
    assert dense.values.tobytes() == sparse.values.tobytes()


def test_wrong_input_of_interactions(fitted, machine, data, monkeypatch):
    X, _ = data
    model = fitted["vector"].model_
    with pytest.raises(ValueError, match="^interactions need a background: .* with covers"):
        interactions(model, X)
    with pytest.raises(ValueError, match="background has no rows; give at least one"):
        interactions(model, X, X[:0])
    with pytest.raises(
        ValueError, match="interactions are available for stumps and trees, not for a"
    ):
        interactions(machine, np.zeros((1, 4)), np.zeros((1, 4)))
    monkeypatch.setattr(shapley, "available_memory", lambda: 8 * 10 * 4 * 4 * 3 - 1)
    with pytest.raises(MemoryError, match="10 rows, 4 features and 3 classes .* give fewer rows"):
        interactions(model, X[:10], X)
    assert interactions(model, X[:9], X).values.shape == (9, 4, 4, 3)


def test_wrong_input_of_trees_for_shap(fitted, machine):
    with pytest.raises(ValueError, match="trees for shap .*; use model.with_covers"):
        to_shap(fitted["vector"])
    with pytest.raises(
        ValueError, match="trees for shap are available for stumps and trees, not for a"
    ):
        to_shap(machine)
    with pytest.raises(TypeError, match="not fitted yet"):
        to_shap(MartClassifier())


def test_wrong_input_of_contributions(fitted, machine, data):
    X, y = data
    model = fitted["vector"].model_
    with pytest.raises(ValueError, match=r"need a background: give rows .* or a model with covers"):
        contributions(model, X)
    with pytest.raises(ValueError, match="X has 3 features, but the model was trained on 4"):
        contributions(model, X.to_numpy()[:, :3], X)
    with pytest.raises(ValueError, match="X has 2 features, but the model was trained on 4"):
        contributions(model, X, X.to_numpy()[:, :2])
    with pytest.raises(ValueError, match="column 'age'"):
        contributions(model, X.assign(age="old"), X)
    with pytest.raises(ValueError, match="background has no rows"):
        contributions(model, X, X[:0])
    with pytest.raises(ValueError, match=r"not for a linear machine \(HingeBoost\)"):
        contributions(machine, X, X)
    decoded = AdaBoostMOClassifier(n_estimators=3, decoder="exp").fit(X, y)
    with pytest.raises(ValueError, match="decoder 'exp'"):
        contributions(decoded, X, X)


# -- covers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["vector", "class", "stumps", "class stumps"])
def test_covers_stay_in_the_file_and_change_nothing_else(fitted, data, kind, tmp_path):
    model = fitted[kind].model_
    X = data[0]
    held = model.with_covers(X)
    assert (model.has_covers, held.has_covers) == (False, True)
    held.save(tmp_path / "m.mcb")
    restored = load_model(tmp_path / "m.mcb")
    assert restored.ensemble.cover.tolist() == held.ensemble.cover.tolist()
    assert restored.raw_scores(X).tobytes() == model.raw_scores(X).tobytes()
    assert held.with_covers(None).to_bytes() == model.to_bytes()
    assert held.to_bytes()[10:12] == b"\2\0"
    assert restored.with_meta({"a": 1}).has_covers and restored.with_temperature(2.0).has_covers
    if not restored.has_stages:
        return
    first = restored.truncate(3)
    assert first.ensemble.cover.tolist() == model.truncate(3).with_covers(X).ensemble.cover.tolist()
    assert contributions(first, X[:5]).values.shape == (5, 4, 3)


def test_covers_of_half_leaves_and_tables(fitted, data, machine):
    held = fitted["vector"].model_.with_covers(data[0])
    assert Model.from_bytes(held.to_bytes(leaves="float16")).has_covers
    held = fitted["stumps"].model_.with_covers(data[0])
    table = Model.from_bytes(held.to_bytes(layout="interval"))
    assert not table.has_covers
    with pytest.raises(ValueError, match=r"has no leaves \(interval table\)"):
        table.with_covers(data[0])
    with pytest.raises(ValueError, match=r"has no(ne| leaves) \(linear machine\)"):
        machine.model_.with_covers(data[0])
    with pytest.raises(ValueError, match="covers need at least one row"):
        held.with_covers(data[0][:0])


def test_covers_that_do_not_fit_are_refused(fitted, data):
    file = parse(fitted["vector"].model_.with_covers(data[0]).to_bytes())
    counts = file.items(b"covr", "B")
    file.set_items(b"covr", "B", counts[:-1])
    with pytest.raises(ValueError, match=f"cover must hold {len(counts)} integers"):
        _ = Model.from_bytes(file.to_bytes()).ensemble
    file.set_items(b"covr", "B", [counts[0] ^ 1, *counts[1:]])
    with pytest.raises(
        ValueError, match="do not come from the same rows for every tree; compute them again"
    ):
        contributions(Model.from_bytes(file.to_bytes()), data[0])


# -- curves ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["stumps", "class stumps", "interval"])
def test_curves_add_up_to_the_scores(fitted, data, kind):
    model = fitted["stumps" if kind == "interval" else kind].model_
    X = data[0]
    table = Model.from_bytes(model.to_bytes(layout="interval")) if kind == "interval" else model
    total = model.ensemble.bias + sum(curve(table, name).at(X[name]) for name in NAMES)
    assert np.abs(total - table.raw_scores(X)).max() < 1e-9
    assert np.isnan(X.to_numpy()).any()


def test_a_curve_steps_behind_its_thresholds(fitted):
    model = fitted["stumps"].model_
    found = curve(model, 1)
    assert (np.diff(found.thresholds) > 0).all()
    assert found.at(found.thresholds).tolist() == found.values[:-1].tolist()
    assert (
        found.at(np.nextafter(found.thresholds, np.float32(np.inf))).tolist()
        == found.values[1:].tolist()
    )
    assert found.at([np.nan, np.inf, -np.inf]).tolist() == [
        values.tolist() for values in (found.missing, found.values[-1], found.values[0])
    ]


def test_curves_of_unused_features_and_wrong_ones(fitted, machine):
    X = np.column_stack([np.arange(60.0), np.zeros(60)])
    model = MCBoostClassifier(n_estimators=5).fit(X, np.arange(60) // 20).model_
    unused = curve(model, 1)
    assert (len(unused.thresholds), unused.values.tolist(), unused.missing.tolist()) == (
        0,
        [[0.0] * 3],
        [0.0] * 3,
    )
    with pytest.raises(ValueError, match="no feature 2; feature numbers go from 0 to 1"):
        curve(model, 2)
    with pytest.raises(ValueError, match="this model has no feature names"):
        curve(model, "height")
    with pytest.raises(ValueError, match="no feature 'hight'; the features are 'height', 'width'"):
        curve(fitted["stumps"], "hight")
    with pytest.raises(ValueError, match="available only for stumps.*Use contributions"):
        curve(fitted["vector"], 0)
    with pytest.raises(ValueError, match="linear machine"):
        curve(machine, 0)


@pytest.fixture(scope="module")
def fleet():
    """Rows with named levels, numbers, and levels that are codes; labels; rows with levels that are new."""
    rng = np.random.default_rng(0)
    fuel = rng.choice(np.array(["gas", "oil", "sun", "wind", None], dtype=object), 300)
    X = pd.DataFrame(
        {"fuel": fuel, "size": rng.normal(size=300), "code": rng.integers(0, 30, 300).astype(float)}
    )
    y = np.where(X["fuel"].isin(["gas", "wind"]), 2, 0) + (X["size"] > 0) + (X["code"] % 3 == 0)
    new = X.assign(fuel=["steam", None, "oil"] * 100, code=[31.0, np.nan, 4.0, -1.0, 2.5, 7.0] * 50)
    return X, y, new


def test_curves_of_categories_add_up(fleet):
    X, y, new = fleet
    model = (
        MCBoostClassifier(n_estimators=30, categorical_features=["fuel", "code"], random_state=0)
        .fit(X, y)
        .model_
    )
    parts = {name: curve(model, name) for name in X}
    assert parts["fuel"].levels == ["gas", "oil", "sun", "wind"] and parts["code"].levels == list(
        range(30)
    )
    assert parts["size"].levels is None and len(parts["size"].thresholds) > 0
    for rows in (X, new):
        total = model.ensemble.bias + sum(part.at(rows[name]) for name, part in parts.items())
        assert np.abs(total - model.raw_scores(rows)).max() < 1e-9
    fuel = parts["fuel"]
    expected = [*fuel.values.tolist(), fuel.missing.tolist(), fuel.missing.tolist()]
    for given in (["gas", "oil", "sun", "wind", None, "steam"], np.array([0, 1, 2, 3, np.nan, 9])):
        assert fuel.at(given).tolist() == expected
    codes = np.array([3.0, 30, 31, -1, 1.5, np.nan])
    assert parts["code"].at(codes)[1:].tolist() == [parts["code"].missing.tolist()] * 5
    unused = (
        MCBoostClassifier(n_estimators=1, categorical_features=["fuel", "code"]).fit(X, y).model_
    )
    assert any(not curve(unused, name).values.any() for name in X)


def test_plot_curve_of_categories(fleet, axes):
    X, y, _ = fleet
    model = (
        MCBoostClassifier(n_estimators=60, categorical_features=["fuel", "code"], random_state=0)
        .fit(X, y)
        .model_
    )
    fuel = curve(model, "fuel")
    ax = looking.plot_curve(model, "fuel", classes=[0, 3], centred=False, ax=axes())
    ticks = [label.get_text() for label in ax.get_xticklabels()]
    assert ticks == ["gas", "oil", "sun", "wind", "missing, new"]
    drawn = [[bar.get_height() for bar in bars] for bars in ax.containers]
    assert drawn == np.vstack([fuel.values, fuel.missing])[:, [0, 3]].T.tolist()
    ax = looking.plot_curve(model, "code", ax=axes())
    assert len(ax.get_xticks()) == 21 and ax.get_title() == "20 of 30 levels"
    ax = looking.plot_curve(model, "fuel", levels=["sun", "gas"], ax=axes())
    assert [label.get_text() for label in ax.get_xticklabels()] == ["sun", "gas", "missing, new"]
    with pytest.raises(ValueError, match="there is no level 'steam'; the levels are 'gas', 'oil'"):
        looking.plot_curve(model, "fuel", levels=["steam"])
    with pytest.raises(
        ValueError, match="levels applies only to categorical features, but 'size' is"
    ):
        looking.plot_curve(model, "size", levels=["gas"])


# -- importances -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gain", "split", "permutation", "shap"])
@pytest.mark.parametrize("name", ["vector", "class", "stumps", "class stumps"])
def test_importances_find_the_features_that_matter(fitted, data, kind, name):
    X, y = data
    of_all = importance(fitted[name], kind, X=X, y=y)
    by_class = importance(fitted[name], kind, True, X=X, y=y)
    assert (of_all.shape, by_class.shape) == ((4,), (4, 3))
    if kind == "split":
        splits = np.bincount(fitted[name].model_.ensemble.feature, minlength=4)
        assert of_all.tolist() == (splits / splits.sum()).tolist()
        np.testing.assert_allclose(by_class.sum(axis=1), of_all)
    if kind == "permutation":
        shares = np.bincount(np.unique(y, return_inverse=True)[1]) / len(y)
        np.testing.assert_allclose((by_class * shares).sum(axis=1), of_all)
    if kind in ("gain", "shap"):
        assert of_all.argmin() == by_class.sum(axis=1).argmin() == 2
    if kind in ("permutation", "shap"):
        assert of_all.argmax() == by_class.sum(axis=1).argmax() == 1
    if kind in ("gain", "shap"):
        np.testing.assert_allclose(by_class.sum(axis=1), of_all)
    if kind in ("gain", "split"):
        assert abs(of_all.sum() - 1) < 1e-12 and abs(by_class.sum() - 1) < 1e-12


def test_gains_are_those_of_the_estimator_or_of_rows(fitted, data):
    X, _ = data
    estimator = fitted["vector"]
    assert importance(estimator).tolist() == estimator.feature_importances_.tolist()
    held = estimator.model_.with_covers(X)
    assert (
        importance(held, per_class=True).tolist()
        == importance(estimator, per_class=True, X=X).tolist()
    )
    with pytest.raises(ValueError, match="a model file does not store .* the fitted estimator"):
        importance(estimator.model_)
    with pytest.raises(ValueError, match="summed over all classes: give rows X"):
        importance(estimator, per_class=True)


def test_gains_explain_the_variance_of_a_tree(fitted, data):
    """The splits of one tree explain all of the variance of its scores."""
    X = data[0]
    for name in ("vector", "class"):
        model = fitted[name].model_
        one = model.truncate(1).with_covers(X)
        from pymcboost.inspection.importances import explained

        variance = len(X) * model.truncate(1).raw_scores(X).var(axis=0)
        np.testing.assert_allclose(explained(one.ensemble).sum(axis=0), variance, rtol=1e-9)


def test_permutation_repeats_and_takes_sparse_rows_and_machines(fitted, data, machine):
    X, y = data
    filled = X.fillna(0.0)
    found = importance(fitted["class"], "permutation", X=filled.to_numpy(), y=y, random_state=3)
    same = importance(
        fitted["class"],
        "permutation",
        X=scipy.sparse.csr_matrix(filled.to_numpy()),
        y=y,
        random_state=3,
    )
    assert found.tolist() == same.tolist()
    assert importance(machine, "permutation", X=filled, y=y).shape == (4,)


def test_wrong_input_of_importance(fitted, data, machine):
    X, y = data
    model = fitted["vector"]
    wrong = {
        "permutation": "give X and y",
        "shap": "give X",
        "weight": "kind must be 'gain', 'split'",
    }
    for kind, words in wrong.items():
        with pytest.raises(ValueError, match=words):
            importance(model, kind)
    with pytest.raises(ValueError, match="X has 300 rows and y has 299 labels"):
        importance(model, "permutation", X=X, y=y[:-1])
    with pytest.raises(ValueError, match="n_repeats must be 1 or more"):
        importance(model, "permutation", X=X, y=y, n_repeats=0)
    with pytest.raises(ValueError, match=r"has no(ne| leaves) \(linear machine\)"):
        importance(machine, "split")
    with pytest.raises(ValueError, match=r"y\[0\] is 7 .*; give rows of its classes"):
        importance(model, "permutation", X=X, y=np.full(300, 7))


def test_models_without_gains_name_no_rows_as_a_remedy(fitted, data, machine):
    """Neither rows nor the estimator give them."""
    filled = data[0].fillna(0.0)
    kernel = HingeBoostOCClassifier(n_estimators=1, kernel="rbf").fit(filled, data[1])
    table = Model.from_bytes(fitted["stumps"].model_.to_bytes(layout="interval"))
    machines = (
        "gains are available for stumps and trees, not for a .* machine .*; kind='permutation'"
    )
    wrong = (
        (machine.model_, machines),
        (kernel, machines),
        (kernel.model_, machines),
        (table, "give the model with"),
    )
    for model, words in wrong:
        for function, options in (
            (importance, {}),
            (importance, {"per_class": True}),
            (looking.plot_importance, {}),
        ):
            with pytest.raises(ValueError, match=words):
                function(model, **options)
    assert importance(machine).tolist() == machine.feature_importances_.tolist()


# -- dumps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vector", "stumps"])
def test_dumps_are_those_of_the_command_line(fitted, name, tmp_path):
    fitted[name].save(tmp_path / "m.mcb")
    assert to_json(fitted[name]) == call("info", "--dump", "json", tmp_path / "m.mcb").stdout
    assert to_text(fitted[name].model_) == call("info", "--dump", "text", tmp_path / "m.mcb").stdout


def test_dumps_tell_covers(fitted, data):
    held = fitted["vector"].model_.with_covers(data[0])
    trees = json.loads(to_json(held))["trees"]
    for tree in trees:
        nodes = tree["nodes"]
        assert nodes[0]["cover"] == 300
        assert all(
            node["cover"] == nodes[node["left"]]["cover"] + nodes[node["right"]]["cover"]
            for node in nodes
            if "left" in node
        )
    assert ", 300 rows\n" in to_text(held)
    assert "rows" not in to_text(fitted["vector"]).split("trees", 1)[1].replace("rounds", "")


@pytest.mark.parametrize("name", ["vector", "class", "stumps"])
def test_a_frame_has_a_row_for_every_node(fitted, data, name):
    model = fitted[name].model_
    X = data[0]
    frame = to_frame(model.with_covers(X))
    scores = np.tile(model.ensemble.bias.astype(np.float64), (len(X), 1))
    for _, tree in frame.groupby("tree"):
        nodes = tree.set_index("node")
        for row, x in enumerate(X.to_dict("records")):
            at = 0
            while nodes.at[at, "feature"] is not None:
                value = np.float32(x[nodes.at[at, "feature"]])
                side = "left" if value <= nodes.at[at, "threshold"] else "right"
                at = int(nodes.at[at, nodes.at[at, "missing"] if np.isnan(value) else side])
            if name == "class":
                scores[row, list(model.classes_).index(nodes.at[at, "class"])] += nodes.at[
                    at, "value"
                ]
            else:
                scores[row] += nodes.loc[
                    at, [f"value {label}" for label in model.classes_]
                ].to_numpy(dtype=float)
            if row == 6:
                break
    np.testing.assert_allclose(scores[:7], model.raw_scores(X)[:7], rtol=0, atol=1e-9)
    assert frame[frame.node == 0].cover.tolist() == [300] * model.n_learners


def test_no_frame_of_a_machine(machine):
    with pytest.raises(ValueError, match="linear machine"):
        to_frame(machine)


# -- plots -------------------------------------------------------------------------------------------------------------


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_plot_tree(fitted, data, axes):
    model = fitted["vector"].model_
    ax = axes()
    assert looking.plot_tree(model.with_covers(data[0]), 2, ax=ax) is ax
    nodes = json.loads(to_json(model))["trees"][2]["nodes"]
    assert len(texts(ax)) == len(nodes)
    assert len(ax.lines) == len(nodes) - 1
    assert texts(ax)[0].startswith(NAMES[nodes[0]["feature"]]) and "300 rows" in texts(ax)[0]
    title = looking.plot_tree(fitted["class"], 1, ax=axes()).get_title()
    assert title.startswith("tree 1, class mid")
    for number in (-1, 12):
        with pytest.raises(ValueError, match=f"no tree {number}; tree numbers go from 0 to 11"):
            looking.plot_tree(model, number)
    table = Model.from_bytes(fitted["stumps"].model_.to_bytes(layout="interval"))
    with pytest.raises(ValueError, match=r"no trees to plot \(interval table\)"):
        looking.plot_tree(table)


def test_plot_tree_leaves_out_what_is_deep(axes):
    """A default vector tree has more leaves than a picture takes."""
    X, y = load_digits(return_X_y=True)
    model = VectorTreeBoostClassifier(n_estimators=1).fit(X, y).model_.with_covers(X)
    nodes = json.loads(to_json(model))["trees"][0]["nodes"]
    n_leaves = sum("value" in node for node in nodes)
    assert n_leaves > 64
    ax = looking.plot_tree(model, ax=axes())
    boxes = texts(ax)
    assert len(boxes) <= 15
    assert len(ax.lines) == len(boxes) - 1
    cut = [re.fullmatch(r"…\n(\d+) leaves\n(\d+) rows", box) for box in boxes]
    left_out = sum(int(box[1]) for box in cut if box)
    drawn = sum(": " in box for box in boxes)
    assert left_out + drawn == n_leaves
    assert ax.get_title().endswith(
        f"\n{left_out} of {n_leaves} leaves are deeper than max_depth=3 and not drawn"
    )
    below = nodes[nodes[nodes[0]["left"]]["left"]]["left"]  # on the left edge, under three splits
    assert f"…\n{leaves_below(nodes, below)} leaves\n{nodes[below]['cover']} rows" in boxes
    assert texts(looking.plot_tree(model, max_depth=1, ax=axes()))[0] == boxes[0]
    with pytest.raises(
        ValueError,
        match=f"tree 0 would be drawn with {n_leaves} leaves.*; use a smaller max_depth",
    ):
        looking.plot_tree(model, max_depth=None)
    with pytest.raises(
        ValueError, match="max_depth must be 1 or more, or None for the whole tree, not 0"
    ):
        looking.plot_tree(model, max_depth=0)


def leaves_below(nodes, number):
    node = nodes[number]
    return (
        1 if "value" in node else sum(leaves_below(nodes, node[side]) for side in ("left", "right"))
    )


def test_plot_importance(fitted, data, axes):
    ax = looking.plot_importance(fitted["vector"], top=2, ax=axes())
    found = fitted["vector"].feature_importances_
    assert [bar.get_width() for bar in ax.patches] == sorted(found)[-2:]
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        NAMES[j] for j in np.argsort(found)[-2:]
    ]
    ax = looking.plot_importance(fitted["vector"], kind="shap", X=data[0], ax=axes())
    assert ax.get_xlabel() == "mean |contribution|"
    with pytest.raises(ValueError, match="one number for each of the 4 features"):
        looking.plot_importance(fitted["vector"], [1.0, 2.0])


def test_plot_curve(fitted, axes):
    ax = looking.plot_curve(fitted["stumps"], "width", classes=["top"], centred=False, ax=axes())
    found = curve(fitted["stumps"], "width")
    assert ax.patches[0].get_data().values.tolist() == found.values[:, 2].tolist()
    assert ax.patches[0].get_data().edges[1:-1].tolist() == found.thresholds.tolist()
    low, high = ax.patches[0].get_data().edges[[0, -1]]
    assert found.thresholds[0] - low == pytest.approx(
        0.1 * np.ptp(found.thresholds.astype(np.float64))
    )
    ax = looking.plot_curve(fitted["stumps"], 1, ax=axes())
    assert len(ax.patches) == 3
    np.testing.assert_allclose(sum(patch.get_data().values for patch in ax.patches), 0, atol=1e-12)
    with pytest.raises(ValueError, match="no class 'none'; the classes are 'low', 'mid', 'top'"):
        looking.plot_curve(fitted["stumps"], 1, classes=["none"])


@pytest.mark.parametrize("spread", [0.01, 100.0])
def test_a_drawn_curve_ends_a_tenth_beyond_its_thresholds(spread, axes):
    X = spread * np.arange(60)[:, None] / 60
    model = MCBoostClassifier(n_estimators=12).fit(X, np.arange(60) // 20)
    edges = looking.plot_curve(model, 0, ax=axes()).patches[0].get_data().edges
    cuts = curve(model, 0).thresholds.astype(float)
    np.testing.assert_allclose(
        edges[[0, -1]], [cuts[0] - 0.1 * np.ptp(cuts), cuts[-1] + 0.1 * np.ptp(cuts)]
    )


def test_plot_history(data, fitted, axes):
    X, y = data
    watched = MartClassifier(n_estimators=5).fit(
        X, y, X_val=X[:50], y_val=y[:50], validation_sets={"rest": (X, y)}
    )
    ax = looking.plot_history(watched, ax=axes())
    drawn = {line.get_label(): line.get_ydata().tolist() for line in ax.lines}
    names = ("val_log_loss", "rest_log_loss")
    assert drawn == {name.replace("_", " "): watched.history_[name].tolist() for name in names}
    assert all(float(round).is_integer() for round in ax.get_xticks())
    with pytest.raises(ValueError, match="had no validation rows"):
        looking.plot_history(fitted["class"])
    with pytest.raises(ValueError, match="the history has no curve 'loss'"):
        looking.plot_history(watched, curves=["loss"])
    with pytest.raises(TypeError, match="Model has no history_"):
        looking.plot_history(watched.model_)


def test_history_of_sets_whose_names_begin_with_train(data, axes):
    X, y = data
    model = MartClassifier(n_estimators=2)
    for names, more, expected in (
        (["train"], [], ["train log loss"]),
        (["train_a", "b"], [TrainingLoss()], ["train a log loss", "b log loss"]),
    ):
        model.fit(X, y, validation_sets=dict.fromkeys(names, (X, y)), callbacks=more)
        ax = looking.plot_history(pickle.loads(pickle.dumps(model)), ax=axes())
        assert [line.get_label() for line in ax.lines] == expected


def test_history_of_functions_and_of_parameters_that_were_changed(data, axes):
    X, y = data

    def wrong(estimator, X, y):
        return float((estimator.predict(X) != y).mean())

    model = MartClassifier(n_estimators=3, scoring=wrong).fit(X, y, X_val=X, y_val=y)
    for scoring in (wrong, "error"):
        ax = looking.plot_history(model.set_params(scoring=scoring), ax=axes())
        assert [line.get_label() for line in ax.lines] == ["val score"]
    model = MartClassifier(n_estimators=3, scoring="error")
    model.fit(X, y, X_val=X, y_val=y, callbacks=[TrainingLoss("log_loss")])
    ax = looking.plot_history(model.set_params(scoring="log_loss"), ax=axes())
    assert [line.get_label() for line in ax.lines] == ["val error"]
    for cls in (SAMMEClassifier, LogitBoostClassifier):
        with pytest.raises(ValueError, match="had no validation rows"):
            looking.plot_history(cls(n_estimators=3).fit(X, y, callbacks=[TrainingLoss()]))
    model = GentleBoostClassifier(n_estimators=3).fit(X, y)
    with pytest.raises(ValueError, match="give fit X_val and y_val$"):
        looking.plot_history(model)
    with pytest.raises(ValueError, match="no curve 'x'; it has none"):
        looking.plot_history(model, curves=["x"])


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_names_are_drawn_letter_by_letter(axes):
    """Dollars begin no formula, and what begins with an underscore is in the legend."""
    rng = np.random.default_rng(0)
    labels = np.array(["_hidden", "seen", "$x_$"])
    levels = np.array(["$l^$", "_", "$"], dtype=object)
    y = np.arange(120) % 3
    X = pd.DataFrame(
        {"$a_$": y + rng.normal(size=120), "c_$^$": levels[(y + (rng.random(120) < 0.2)) % 3]}
    )
    sets = {"$a^$": (X, labels[y]), "_b": (X, labels[y])}
    stumps = MCBoostClassifier(n_estimators=9, categorical_features=["c_$^$"])
    stumps.fit(X, labels[y], validation_sets=sets)
    trees = MartClassifier(n_estimators=3, categorical_features=["c_$^$"]).fit(X, labels[y])
    vectors = VectorTreeBoostClassifier(
        n_estimators=2, calibrate=None, categorical_features=["c_$^$"]
    )
    drawn = [looking.plot_curve(stumps, j, ax=axes()) for j in (0, 1)]
    assert [[text.strip() for text in legend(ax)] for ax in drawn] == [
        [r"\$x_\$", "_hidden", "seen"]
    ] * 2
    drawn += [looking.plot_importance(stumps, ax=axes()), looking.plot_history(stumps, ax=axes())]
    assert legend(drawn[-1]) == [r"\$a^\$ log loss", " b log loss"]
    drawn.append(looking.plot_history(stumps, curves=["$a^$_log_loss"], ax=axes()))
    drawn += [looking.plot_tree(trees, j, ax=axes()) for j in range(3)]
    drawn.append(looking.plot_tree(vectors.fit(X, labels[y]), ax=axes()))
    for ax in drawn:
        ax.figure.canvas.draw()


def test_plot_reliability(fitted, data, axes):
    X, y = data
    ax = looking.plot_reliability(fitted["class"], X, y, bins=4, ax=axes())
    (bars,) = ax.collections
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    assert 0 <= ends.min() <= ends.max() <= 1
    said, held = (np.asarray(part) for part in ax.containers[0].lines[0].get_data())
    assert len(said) == 4 and (np.diff(said) > 0).all()
    p = fitted["class"].predict_proba(X)
    top = np.sort(p.max(axis=1))
    assert said[0] == pytest.approx(top[:75].mean(), abs=0.01)
    right = fitted["class"].predict(X) == y
    assert held.mean() == pytest.approx(right.mean(), abs=0.01)
    with pytest.raises(ValueError, match="bins must be 1 or more"):
        looking.plot_reliability(fitted["class"], X, y, bins=0)
    with pytest.raises(ValueError, match="no link from scores to probabilities"):
        looking.plot_reliability(
            HingeBoostOCClassifier(n_estimators=1).fit(X.fillna(0), y), X.fillna(0), y
        )
    with pytest.raises(ValueError, match=r"y\[0\] is 7 .*; give rows of its classes"):
        looking.plot_reliability(fitted["class"], X, np.full(300, 7))


def test_curves_have_the_trees_without_a_split():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    rare = {
        "n_estimators": 20,
        "calibrate": None,
        "random_state": 0,
        "max_leaf_nodes": 2,
        "min_gain": 30.0,
    }
    model = LogitBoostClassifier(**rare).fit(X, np.digitize(X[:, 0], [-1, 1])).model_
    splits = np.diff(model.ensemble.offset)
    assert set(splits.tolist()) == {0, 1}
    for one in (model, Model.from_bytes(model.to_bytes("interval"))):
        added = sum(curve(one, j).at(X[:, j]) for j in range(3)) + model.ensemble.bias
        np.testing.assert_allclose(added, model.raw_scores(X), rtol=0, atol=1e-6)


def test_packed_models_have_gains_of_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    trees = VectorTreeBoostClassifier(n_estimators=4, leaf_levels=1, calibrate=None, random_state=0)
    model = trees.fit(X, X[:, 1] > 0).model_
    small = Model.from_bytes(model.to_bytes("packed"))
    np.testing.assert_allclose(importance(small, "gain", X=X), importance(model, "gain", X=X))
    with pytest.raises(ValueError, match="a packed model .* covers; save it with layout='list'"):
        small.with_covers(X)


def test_what_is_for_one_class_a_row_refuses_labels():
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    Y = (X > 0).astype(int)
    model = VectorTreeBoostClassifier(n_estimators=3, loss="logistic", random_state=0).fit(X, Y)
    for call_ in (
        lambda: looking.plot_reliability(model, X, Y[:, 0]),
        lambda: importance(model, "permutation", X=X, y=Y[:, 0]),
    ):
        with pytest.raises(ValueError, match="needs a model with one class per row"):
            call_()
    with pytest.raises(
        ValueError, match=r"above must be one number or 3 numbers, but has shape \(2,\)"
    ):
        model.model_.with_thresholds([1, 2])
    with pytest.raises(ValueError, match="this model has no trees, because it has no rounds"):
        looking.plot_tree(model.model_.truncate(0), 0)


def test_a_totally_corrective_model_stays_so():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    model = (
        MultiBoostCWClassifier(n_estimators=5).fit(X, X[:, 0] > 0).model_.with_meta({"by": "us"})
    )
    assert model.meta == {"by": "us", "stages": False} and not model.has_stages
