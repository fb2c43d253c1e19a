"""Categorical features: from frames to sets of levels in a model file, and the same scores everywhere."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from reference.modelreader import File
from reference.scoring import exits_of_sets, random_rows, random_sets, with_codes
from unit.test_export_onnx import outputs
from unit.test_own_loss import Softmax

import pymcboost
from pymcboost import HingeBoostOCClassifier, VectorTreeBoostClassifier, load_model
from pymcboost.callbacks import Checkpoint
from pymcboost.export import integer_labels, to_onnx, to_treelite
from pymcboost.inspection import contributions, importance, plot_importance, plot_tree, to_frame
from pymcboost.model.builders import TreesBuilder
from pymcboost.model.categories import find, text_of
from pymcboost.model.dump import as_text
from pymcboost.model.model import Model

pandas = pytest.importorskip("pandas")

SMALL = {
    "n_estimators": 6, "random_state": 0, "n_jobs": 1, "calibrate": None, "min_samples_category": 2,
    "min_relative_gain": 0.0,
}  # fmt: skip
COLOURS = np.array(["red", "green", "blue", "violet", "ochre"])


def frame(m=300, seed=0):
    """Text, a category of numbers, codes and a number, with missing values; and classes that depend on all."""
    rng = np.random.default_rng(seed)
    colour = COLOURS[rng.integers(0, 5, m)]
    size = rng.integers(1, 5, m) * 10
    code = rng.integers(0, 40, m)
    number = rng.normal(size=m)
    y = ((colour == "red") + 2 * (size == 20) + (code % 3 == 1) + (number > 0)) % 3
    X = pandas.DataFrame(
        {"colour": colour, "size": size, "code": code.astype(float), "number": number}
    )
    X["size"] = X["size"].astype("category")
    X.loc[rng.random(m) < 0.1, "colour"] = None
    X.loc[rng.random(m) < 0.1, "code"] = np.nan
    return X, y


class Stop:
    """Ctrl-C after four rounds."""

    def after_round(self, state):
        if state.n_rounds == 4:
            raise KeyboardInterrupt


WANTED = ["colour", "size", "code"]


@pytest.fixture(scope="module")
def fitted():
    X, y = frame()
    return VectorTreeBoostClassifier(**SMALL, categorical_features=WANTED).fit(X, y)


@pytest.mark.parametrize("vector", [True, False])
@pytest.mark.parametrize(("d", "n_classes"), [(4, 3), (9, 2), (700, 18)])
def test_scores_of_sets_equal_the_twin(d, n_classes, vector):
    trees = random_sets(9, d, n_classes, vector=vector)
    model = Model.from_ensemble(trees, range(n_classes), link="softmax")
    X = with_codes(random_rows(21, d))
    reader = File(model.to_bytes())
    expected = np.array([reader.scores(row) for row in X.tolist()])
    for n in (1, 3, 4, 17, 21):
        assert model.raw_scores(X[:n]).tobytes() == expected[:n].tobytes()
    leaves = model.apply(X)
    ends = trees.offset + np.arange(len(trees.offset))
    sums = np.tile(trees.bias.astype(np.float64), (len(X), 1))
    for t in range(len(trees)):
        value = trees.leaf[ends[t] + leaves[:, t]]
        if vector:
            sums += value
            continue
        sums[:, trees.cls[t]] += value
        if trees.base[t] >= 0:
            sums[:, trees.base[t]] -= value
    assert sums.tobytes() == expected.tobytes()
    for rounds, scores in enumerate(model.staged_decision_function(X), 1):
        part = model.truncate(rounds)
        assert part.decision_function(X).tobytes() == scores.tobytes()
        assert part.ensemble.subset.max(initial=0) == len(part.ensemble.subset_start) - 1


def test_trees_too_large_to_be_prepared_score_alike():
    trees = random_sets(1, 4, 2)
    builder = TreesBuilder(2, 4, True, categories=trees.categories)
    s = 1500  # a chain of sets that all differ
    rng = np.random.default_rng(0)
    sets = {
        j: trees.categories.packed(1, np.flatnonzero(rng.random(300) < 0.5), False)
        for j in range(s)
    }
    builder.add_tree(
        [1] * s, [0] * s, [False] * s, right=[1] * s, leaf=rng.normal(size=(s + 1, 2)), sets=sets
    )
    builder.end_round()
    model = Model.from_ensemble(builder.freeze(), range(2))
    X = with_codes(random_rows(40, 4))
    reader = File(model.to_bytes())
    assert model.raw_scores(X).tolist() == [reader.scores(row) for row in X.tolist()]


def test_a_frame_is_learnt_and_scored_alike_everywhere(fitted, tmp_path):
    X, y = frame(200, 1)
    assert fitted.score(*frame()) > 0.85
    fitted.save(tmp_path / "m.mcb")
    model = load_model(tmp_path / "m.mcb")
    scores = fitted.decision_function(X)
    codes = model.categories.encoded(X).to_numpy(np.float32)
    restored = pickle.loads(pickle.dumps(fitted))
    turned = X[["number", "code", "size", "colour"]]
    others = (
        model.raw_scores(X),
        model.raw_scores(codes),
        model.raw_scores(turned),
        restored.decision_function(X),
    )
    for other in others:
        assert other.tobytes() == scores.tobytes()
    assert model.categories.names == (sorted(COLOURS), ["10", "20", "30", "40"], None)
    assert model.categories.levels.tolist() == [5, 4, 40]
    assert model.meta["feature_names"] == list(X.columns)


def test_values_that_were_not_seen_are_missing(fitted):
    X, _ = frame(50, 1)
    others = (
        ("colour", "mauve", None),
        ("size", 15, None),
        ("code", 40.0, np.nan),
        ("code", 1.5, np.nan),
    )
    for name, new, none in others:
        new, none = X.assign(**{name: new}), X.assign(**{name: none})
        assert fitted.decision_function(new).tobytes() == fitted.decision_function(none).tobytes()


TEXTS = {
    "object": lambda X: X.astype({"colour": object}),
    "str": lambda X: X.astype({"colour": "str"}),
    "string": lambda X: X.astype({"colour": "string"}),
    "string[pyarrow]": lambda X: X.astype({"colour": "string[pyarrow]"}),
    "large_string": lambda X: X.astype({"colour": "large_string[pyarrow]"}),
    "polars": lambda X: pytest.importorskip("polars").from_pandas(X),
    "pyarrow": lambda X: pytest.importorskip("pyarrow").Table.from_pandas(X),
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize(
    "name", ["VectorTreeBoostClassifier", "MCBoostClassifier", "ABCLogitBoostClassifier"]
)
@pytest.mark.part(5)
def test_columns_of_text_are_categories(kind, name):
    pytest.importorskip("pyarrow")
    X, y = frame()
    given = TEXTS[kind](X[["number", "colour"]])
    estimator = getattr(pymcboost, name)
    options = {"n_estimators": 6, "random_state": 0, "n_jobs": 1, "calibrate": None}
    named = estimator(**options, categorical_features=["colour"]).fit(X[["number", "colour"]], y)
    model = estimator(**options).fit(given, y)
    assert (
        estimator(**options).fit(pymcboost.Dataset(given, y)).model_.to_bytes()
        == model.model_.to_bytes()
    )
    followed = estimator(**options, scoring="error").fit(given, y, X_val=given, y_val=y)
    assert followed.history_["val_error"][-1] == pytest.approx(1 - followed.score(given, y))
    assert model.model_.categories.names == (sorted(COLOURS),)
    scores = named.decision_function(X[["number", "colour"]])
    assert np.array_equal(model.decision_function(given), scores)
    assert np.array_equal(model.model_.decision_function(given), scores)
    with pytest.raises(
        ValueError, match="column 'colour': .* is text .*; name the column in categorical_features"
    ):
        estimator(**options, categorical_features=None).fit(given, y)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["a", "b", None, "1"], True),
        (["a", np.nan, pandas.NaT, "b"], True),
        (["nan", "inf", "no", "no"], True),
        (
            ["1", "2.5", None, " 3 "],
            False,
        ),  # numbers that are written as text have been numbers ever since
        ([1, 2.5, None, 3], False),
        ([True, False, None, True], False),
        (
            ["a", 1, "b", "c"],
            False,
        ),  # a stray word among numbers is a mistake to show, not a category
        ([None, None, None, None], False),
        ([b"a", b"b", b"a", b"b"], False),
    ],
)
def test_which_objects_are_categories(values, expected):
    X = pandas.DataFrame({"f": pandas.Series(values, dtype=object), "a": np.arange(4.0)})
    actual = find("from_dtype", X)
    assert actual is None if not expected else actual.feature.tolist() == [0]


def test_text_that_is_no_category_is_refused_by_its_column():
    X, y = frame()
    stray = X[["number"]].astype(object)
    stray.loc[7, "number"] = "unknown"
    with pytest.raises(
        ValueError, match=r"column 'number': 'unknown' is text \(row 7\); name the column in categ"
    ):
        VectorTreeBoostClassifier(**SMALL).fit(stray, y)
    with pytest.raises(
        ValueError,
        match=r"column 'colour': .* is text .* or use VectorTreeBoost.* accept text columns",
    ):
        pymcboost.SAMMEClassifier(n_estimators=2).fit(X[["colour", "number"]], y)
    data = pymcboost.Dataset(X[["colour", "number"]].fillna("none"), y)
    with pytest.raises(ValueError, match="SAMME.* does not support categories"):
        pymcboost.SAMMEClassifier(n_estimators=2).fit(data)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_frames(library, fitted):
    other = pytest.importorskip(library)
    X, y = frame()
    X["size"] = X["size"].astype(str).astype("category")
    if library == "polars":
        given = other.from_pandas(X).with_columns(other.col("colour").cast(other.Categorical))
    else:
        given = other.Table.from_pandas(X)
        given = given.set_column(0, "colour", given.column("colour").dictionary_encode())
    twin = VectorTreeBoostClassifier(**SMALL, categorical_features=["colour", "size"]).fit(X, y)
    model = VectorTreeBoostClassifier(**SMALL, categorical_features=["colour", "size"]).fit(
        given, y
    )
    assert model.model_.to_bytes() == twin.model_.to_bytes()
    assert model.decision_function(given).tobytes() == twin.decision_function(X).tobytes()
    assert twin.model_.raw_scores(given).tobytes() == twin.decision_function(X).tobytes()
    by_type = VectorTreeBoostClassifier(**SMALL).fit(given, y)
    assert by_type.model_.categories.feature.tolist() == [0, 1]


def test_which_columns_are_categories():
    X, _ = frame()
    for wanted, columns in (
        ("from_dtype", [0, 1]),
        (["code", "colour"], [0, 2]),
        ([2, 0], [0, 2]),
        ([True, True, False, False], [0, 1]),
        ([-1, 1], None),
    ):
        if columns is None:
            with pytest.raises(
                ValueError, match="'number' holds -?[0-9.]+; .* must be integer codes"
            ):
                find(wanted, X)
        else:
            assert find(wanted, X).feature.tolist() == columns
    assert find(None, X) is None
    assert find([], X) is None
    assert find("from_dtype", X[["code", "number"]]) is None
    assert [text_of(value) for value in (3, 3.0, 0.5, "a", None, np.nan)] == [
        "3",
        "3",
        "0.5",
        "a",
        None,
        None,
    ]


def test_wrong_input_is_explained():
    X, y = frame()
    for wanted, message in (
        (
            ["shape"],
            "there is no column 'shape'; the columns are 'colour', 'size', 'code', 'number'",
        ),
        ([4], "there is no column 4; X has 4 columns, numbered from 0"),
        ([-10, 0], "there is no column -10; X has 4 columns, numbered from 0"),
        ([True, False], "must be 'from_dtype', None, a mask of 4 columns, or"),
        ([3], "column 'number' holds .*; .* integer codes from 0 to 65534"),
    ):
        with pytest.raises(ValueError, match=message):
            VectorTreeBoostClassifier(**SMALL, categorical_features=wanted).fit(X, y)
    with pytest.raises(ValueError, match="column 'colour': .* is text .*categorical_features"):
        VectorTreeBoostClassifier(**SMALL, categorical_features=["code"]).fit(X, y)
    with pytest.raises(ValueError, match="column 'empty' is missing in all rows; leave it out"):
        VectorTreeBoostClassifier(**SMALL, categorical_features=["empty"]).fit(
            X.assign(empty=None), y
        )
    many = pandas.DataFrame({"many": [str(j) for j in range(70_000)]})
    with pytest.raises(
        ValueError, match="column 'many' has 70000 levels, but at most 65535 are supported"
    ):
        find(["many"], many)
    with pytest.raises(ValueError, match="dense arrays or data frames; give X.toarray"):
        VectorTreeBoostClassifier(categorical_features=[0]).fit(
            scipy.sparse.csr_array(np.eye(4)), [0, 1, 0, 1]
        )
    codes = np.tile([[0.0], [1.0], [2.0]], (20, 1))
    labels = np.arange(60) % 3
    model = VectorTreeBoostClassifier(**SMALL, categorical_features=[0], warm_start=True).fit(
        codes, labels
    )
    sparse = scipy.sparse.csr_array(codes)
    for call in (
        lambda: model.set_params(n_estimators=8).fit(sparse, labels),
        lambda: VectorTreeBoostClassifier(**SMALL).fit(sparse, labels, init_model=model.model_),
        lambda: model.refit_leaves(sparse, labels),
    ):
        with pytest.raises(ValueError, match="dense arrays or data frames; give X.toarray"):
            call()
    with pytest.raises(ValueError, match="text in an array; give X as a data frame"):
        VectorTreeBoostClassifier(categorical_features=[0]).fit(
            np.array([["a"], ["b"]], dtype=object), [0, 1]
        )
    with pytest.raises(TypeError, match="categorical_features"):
        HingeBoostOCClassifier(categorical_features=[0])


def test_trainings_go_on_to_the_same_bytes(fitted, tmp_path):
    X, y = frame()
    options = {**SMALL, "categorical_features": WANTED}
    part = VectorTreeBoostClassifier(**{**options, "n_estimators": 3}, warm_start=True).fit(X, y)
    part.set_params(n_estimators=6).fit(X, y)
    assert part.decision_function(X).tobytes() == fitted.decision_function(X).tobytes()
    stopped = VectorTreeBoostClassifier(**options)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(X, y, callbacks=[Checkpoint(tmp_path / "c", every=0), Stop()])
    resumed = VectorTreeBoostClassifier(**options)
    Checkpoint(tmp_path / "c", every=0).fit(resumed, X, y)
    assert resumed.model_.to_bytes() == fitted.model_.to_bytes()
    more = VectorTreeBoostClassifier(**{**options, "n_estimators": 3}).fit(X, y)
    going_on = VectorTreeBoostClassifier(**{**options, "n_estimators": 3}).fit(
        *frame(80, 3), init_model=more
    )
    assert going_on.model_.n_rounds == 6
    assert going_on.model_.categories.names == fitted.model_.categories.names


def test_early_stopping_calibration_and_threads(fitted):
    X, y = frame()
    options = {**SMALL, "categorical_features": WANTED, "n_estimators": 20}
    first = VectorTreeBoostClassifier(**options, early_stopping=True, n_iter_no_change=3)
    first.fit(X, y, None, *frame(100, 5))
    assert "val_log_loss" in first.history_
    options = {**options, "n_estimators": 5, "calibrate": "temperature"}
    model = VectorTreeBoostClassifier(**options).fit(X, y)
    two = VectorTreeBoostClassifier(**{**options, "n_jobs": 2}).fit(X, y)
    assert model.model_.temperature is not None
    assert model.model_.to_bytes() == two.model_.to_bytes()
    before = fitted.decision_function(X)
    again = pickle.loads(pickle.dumps(fitted)).refit_leaves(X, y, decay=0.0)
    assert again.decision_function(X).tobytes() == before.tobytes()
    again.refit_leaves(*frame(100, 5))
    assert again.decision_function(X).tobytes() != before.tobytes()


def test_what_is_seen_of_sets(fitted):
    model = fitted.model_
    lines = "".join(as_text(model))
    assert '"colour" in {"' in lines
    assert '"code" in {' in lines
    shown = to_frame(model)
    asked = shown[shown["levels"].notna()]
    assert set(asked["feature"]) <= set(WANTED)
    assert asked["threshold"].isna().all()
    X = frame(40, 1)[0]
    shapley = contributions(model.with_covers(X), X)
    np.testing.assert_allclose(
        shapley.base + shapley.values.sum(axis=1), model.raw_scores(X), rtol=0, atol=1e-9
    )
    by_name = contributions(model, X, X[:10])
    codes = model.categories.encoded(X).to_numpy(np.float32)
    assert by_name.values.tolist() == contributions(model, codes, codes[:10]).values.tolist()
    assert importance(model, "shap", X=X)[:2].min() > 0 < importance(model, "gain", X=X)[:2].min()
    with pytest.raises(
        ValueError, match="cannot store categories; save the model with layout='list'"
    ):
        model.save("never.mcb", layout="interval")


def test_models_without_categories_have_no_sections_of_them():
    X, y = frame()
    model = VectorTreeBoostClassifier(**SMALL).fit(X[["number"]], y).model_
    assert model.categories is None
    assert not {"CSET", "CATF"} & set(model._sections())
    assert model.to_bytes()[10] < 4
    assert "categorical_features" not in model.meta["params"]


@pytest.mark.parametrize("name", ["to_onnx", "to_treelite", "integer_labels"])
def test_what_needs_thresholds_refuses_sets(fitted, name):
    model = fitted.model_
    X = model.categories.encoded(frame(30, 1)[0]).to_numpy(np.float32)
    asked = {
        "to_onnx": lambda: to_onnx(model),
        "to_treelite": lambda: to_treelite(model),
        "integer_labels": lambda: integer_labels(model, "int16", X),
    }
    with pytest.raises(
        ValueError, match="need a threshold in every split, .* categories; train it"
    ):
        asked[name]()


def test_importances_and_pictures(fitted):
    X, y = frame()
    split = importance(fitted, "split")
    shuffled = importance(fitted, "permutation", X=X, y=y)
    assert split.shape == (4,) and split.sum() == pytest.approx(1)
    assert split[:3].min() > 0 < shuffled[:2].min()
    assert importance(fitted).tolist() == fitted.feature_importances_.tolist()
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    plot_importance(fitted)
    texts = [text.get_text() for text in plot_tree(fitted).texts]
    assert any("in {" in text for text in texts)


@pytest.mark.parametrize("n_classes", [2, 5])
def test_early_exits_of_sets(n_classes):
    model = exits_of_sets(n_classes)
    X = with_codes(random_rows(200, 9))
    reader = File(model.to_bytes())
    restored = Model.from_bytes(model.to_bytes())
    for number, way in enumerate(("certified", "calibrated", "rejection")):
        labels, learners = restored.predict_early(X, way)
        assert list(zip(labels.tolist(), learners.tolist(), strict=True)) == [
            reader.early(row, number) for row in X.tolist()
        ]
        assert learners.min() < model.n_learners
        if way == "certified":
            assert labels.tolist() == model.predict(X).tolist()
    assert model.to_bytes()[10] == 4


def paths(trees):
    """Columns of the paths to all leaves."""
    split_paths = []
    for begin, end in zip(trees.offset.tolist(), trees.offset[1:].tolist(), strict=False):
        waiting = [(begin, end, frozenset())]
        while waiting:
            first, last, above = waiting.pop()
            if first == last:
                split_paths.append(above)
                continue
            here = above | {int(trees.feature[first])}
            middle = first + int(trees.right[first])
            waiting += [(first + 1, middle, here), (middle, last, here)]
    return split_paths


def test_constraints():
    X, y = frame()
    options = {**SMALL, "categorical_features": WANTED, "max_features": 1.0, "random_state": 1}
    groups = [[0, 3], [1, 2]]
    model = VectorTreeBoostClassifier(**options, interaction_cst=groups).fit(X, y).model_
    split_paths = paths(model.ensemble)
    assert all(path <= {0, 3} or path <= {1, 2} for path in split_paths)
    assert {0, 3} in split_paths and {1, 2} in split_paths
    free = paths(VectorTreeBoostClassifier(**options).fit(X, y).model_.ensemble)
    assert not all(path <= {0, 3} or path <= {1, 2} for path in free)
    rising = VectorTreeBoostClassifier(**options, monotonic_cst={3: (1, +1)}).fit(X, y)
    rows = X.iloc[:40]
    low, high = (rising.predict_proba(rows.assign(number=value))[:, 1] for value in (-3.0, 3.0))
    assert (high >= low - 1e-12).all() and (high > low).any()
    with pytest.raises(ValueError, match="monotonic_cst: column 2 is categorical.* remove it"):
        VectorTreeBoostClassifier(**options, monotonic_cst={2: (1, +1)}).fit(X, y)


def test_any_number_of_labels_a_row():
    X, y = frame()
    Y = np.column_stack([y == 0, y == 1, (y == 2) | (X["colour"] == "red").to_numpy()]).astype(int)
    options = {**SMALL, "loss": "logistic", "categorical_features": WANTED, "n_estimators": 30}
    one, two = (VectorTreeBoostClassifier(**{**options, "n_jobs": n}).fit(X, Y) for n in (1, 2))
    assert one.model_.to_bytes() == two.model_.to_bytes()
    assert one.model_.ensemble.subset.any()
    assert (one.predict(X) == Y).mean() > 0.9
    codes = one.model_.categories.encoded(X).to_numpy(np.float32)
    reader = File(one.model_.to_bytes())
    assert one.model_.raw_scores(X).tolist() == [reader.scores(row) for row in codes.tolist()]
    assert one.model_.to_bytes()[10] == 5


def test_a_loss_of_ones_own():
    X, y = frame()
    options = {**SMALL, "categorical_features": WANTED, "n_estimators": 30}
    own = VectorTreeBoostClassifier(**options, loss=Softmax()).fit(X, y)
    plain = VectorTreeBoostClassifier(**options).fit(X, y)
    assert own.model_.ensemble.subset.any()
    np.testing.assert_allclose(own.model_.raw_scores(X), plain.model_.raw_scores(X), atol=1e-3)


@pytest.mark.parametrize("n_classes", [15, 16, 40])
def test_many_classes(n_classes):
    rng = np.random.default_rng(n_classes)
    y = np.arange(40 * n_classes) % n_classes
    X = np.column_stack(
        [(7 * y + rng.integers(0, 2, len(y))) % (2 * n_classes), rng.normal(size=len(y))]
    )
    options = {**SMALL, "n_estimators": 12, "min_samples_leaf": 1}
    model = VectorTreeBoostClassifier(**options, categorical_features=[0]).fit(X, y)
    ordered = VectorTreeBoostClassifier(**options).fit(X, y)
    assert model.model_.ensemble.subset.any()
    assert model.score(X, y) > max(0.8, ordered.score(X, y) - 0.05)


TAKERS = sorted(
    name
    for name in pymcboost.__all__
    if "min_samples_category" in getattr(getattr(pymcboost, name), "__dataclass_fields__", ())
)


@pytest.mark.parametrize("weak_learner", ["stump", "tree"])
@pytest.mark.parametrize("name", TAKERS)
@pytest.mark.part(5)
def test_all_that_take_categories(name, weak_learner):
    """Frames and codes, the slow reader, threads, going on from half of the rounds, and text of the sets."""
    cls = getattr(pymcboost, name)
    X, y = frame()
    options = {
        "categorical_features": WANTED,
        "random_state": 0,
        "min_samples_category": 2,
        "n_estimators": 4,
    }
    if "weak_learner" in cls.__dataclass_fields__:
        options["weak_learner"] = weak_learner
    model = cls(n_jobs=1, **options).fit(X, y)
    trees = model.model_.ensemble
    assert trees.subset.max() > 0
    assert (
        weak_learner == "tree" or "weak_learner" not in options or np.diff(trees.offset).max() == 1
    )
    if "threshold" in model.history_:
        roots = trees.offset[trees.rounds[:-1]]
        known = np.where(trees.subset[roots] > 0, np.nan, trees.threshold[roots])
        np.testing.assert_array_equal(model.history_["threshold"], known)
    assert cls(n_jobs=3, **options).fit(X, y).model_.to_bytes() == model.model_.to_bytes()
    part = (
        cls(**{**options, "n_estimators": 2}, warm_start=True)
        .fit(X, y)
        .set_params(n_estimators=4)
        .fit(X, y)
    )
    assert part.model_.to_bytes() == model.model_.to_bytes()
    rows = frame(60, 3)[0].assign(code=[50.0, -1.0, 0.5, np.nan] * 15)
    codes = model.model_.categories.encoded(rows).to_numpy(np.float32)
    reader = File(model.model_.to_bytes())
    expected = np.array([reader.scores(row) for row in codes.tolist()])
    assert model.model_.raw_scores(codes).tobytes() == expected.tobytes()
    assert (
        model.decision_function(rows).tobytes() == model.model_.decision_function(codes).tobytes()
    )
    missing = rows.assign(code=np.nan)
    assert model.predict(missing).tolist() == model.predict(rows).tolist()
    assert " in {" in "".join(as_text(model.model_))
    with pytest.raises(
        ValueError, match="cannot store categories; save the model with layout='list'"
    ):
        model.save("never.mcb", layout="interval")


@pytest.mark.parametrize("weak_learner", ["stump", "tree"])
@pytest.mark.parametrize("name", TAKERS)
@pytest.mark.part(3)
def test_the_scale_of_weights_makes_no_level_rare(name, weak_learner):
    """Below a mean of 1. Above, bounds have it, too; trees of classes have weights with a mean of 1."""
    rng = np.random.default_rng(0)
    y = np.arange(600) % 3
    X = (20 * y + rng.integers(0, 20, 600)).astype(float)[:, None]
    weight = np.where(np.arange(600) % 2, 0.5, 1.5)
    cls = getattr(pymcboost, name)
    known = cls().get_params()
    if "weak_learner" not in known and weak_learner == "stump":
        return
    params = {
        "random_state": 0,
        "weak_learner": weak_learner,
        "n_estimators": 3,
        "categorical_features": [0],
    }
    params = {key: value for key, value in params.items() if key in known}
    for scales in ((1.0, 2.0**-8, 2.0**-12), (2.0**9, 2.0**12)):
        scores = []
        for scale in scales:
            bound = 15.0 * max(1.0, scale)
            model = cls(**params, min_samples_category=bound).fit(
                X, y, sample_weight=scale * weight
            )
            scores.append(model.model_.raw_scores(X))
        assert (scores[0].argmax(axis=1) == y).mean() > 0.95
        for score in scores[1:]:
            np.testing.assert_allclose(score, scores[0], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", TAKERS)
@pytest.mark.part(2)
def test_resumed_trainings_on_categories(name, tmp_path, monkeypatch):
    X, y = frame()
    options = {"categorical_features": WANTED, "random_state": 0, "min_samples_category": 2}
    make = getattr(pymcboost, name)
    if isinstance(getattr(make.booster, "restart_every", None), int):
        monkeypatch.setattr(make.booster, "restart_every", 2)
    uninterrupted = make(n_estimators=4, **options).fit(X, y)
    checkpoint = Checkpoint(tmp_path / "part", every=0)
    checkpoint.fit(make(n_estimators=2, **options), X, y)
    resumed = checkpoint.fit(make(n_estimators=4, **options), X, y)
    assert checkpoint.resumed == 2 and resumed.model_.to_bytes() == uninterrupted.model_.to_bytes()


@pytest.mark.parametrize("name", ["LogitBoostClassifier", "ABCMartClassifier", "MCBoostClassifier"])
def test_what_needs_thresholds_refuses_sets_of_other_trees(name):
    X, y = frame()
    model = getattr(pymcboost, name)(n_estimators=3, categorical_features=WANTED).fit(X, y).model_
    codes = model.categories.encoded(X).to_numpy(np.float32)
    for ask in (
        lambda: to_onnx(model),
        lambda: integer_labels(model, "int16", codes),
    ):
        with pytest.raises(
            ValueError, match="need a threshold in every split, but this model has categories"
        ):
            ask()
    early = model.with_early_exit("certified")
    assert early.predict(codes, early="certified").tolist() == model.predict(codes).tolist()


@pytest.fixture(scope="module")
def unasked():
    """Models with a column of categories that no split asks about, by the names of the estimators; rows, and codes."""
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(
        {"a": rng.normal(size=200), "c": pandas.Categorical(rng.choice(list("xyz"), 200))}
    )
    names = ("LogitBoostClassifier", "MCBoostClassifier", "VectorTreeBoostClassifier")
    models = {
        name: getattr(pymcboost, name)(n_estimators=3).fit(X, (X["a"] > 0).astype(int)).model_
        for name in names
    }
    for model in models.values():
        assert model.categories is not None and not model.ensemble.subset.any()
    return models, X, next(iter(models.values())).categories.encoded(X).to_numpy(np.float32)


@pytest.mark.parametrize(
    "name", ["LogitBoostClassifier", "MCBoostClassifier", "VectorTreeBoostClassifier"]
)
def test_runtimes_of_categories_that_no_split_asks_about(unasked, name):
    models, X, codes = unasked
    model = models[name]
    found, error = outputs(model, codes)
    assert np.abs(found["scores"] - model.raw_scores(X)).max() <= error
    treelite = pytest.importorskip("treelite")
    scores = treelite.gtil.predict(
        treelite.Model.deserialize_bytes(to_treelite(model)), codes, nthread=1
    )
    np.testing.assert_allclose(scores.reshape(200, 2), model.raw_scores(X), atol=1e-5)


def test_stumps_without_categories_are_stumps():
    X, y = frame()
    for given in (X[["number"]], X[["number"]].to_numpy()):
        model = pymcboost.MCBoostClassifier(n_estimators=3).fit(given, y).model_
        assert model.layout == "list" and type(model.ensemble).__name__ == "Stumps"


@pytest.mark.parametrize("name", sorted({*pymcboost.__all__} - {*TAKERS}))
def test_other_estimators_name_what_to_do_with_categories(name):
    cls = getattr(pymcboost, name)
    if not name.endswith("Classifier"):
        return
    X, y = frame(60)
    for rows in (
        X[["size", "number"]],
        X[["size", "number"]].astype({"size": "str"}).astype({"size": "category"}),
    ):
        with pytest.raises(
            ValueError, match="column 'size' holds categories, .*OneHotEncoder.* or use VectorTree"
        ):
            cls().fit(rows, y)
    with pytest.raises(TypeError, match="categorical_features"):
        cls(categorical_features=["size"])


@pytest.mark.parametrize("kind", ["string", "string[pyarrow]", "Int64"])
def test_missing_values_of_pandas_are_missing(kind):
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
    names = [10, 20] if kind == "Int64" else ["g", "o"]
    text = pandas.Series(names * 60, dtype="Int64" if kind == "Int64" else "string")
    text[3] = pandas.NA
    y = (np.arange(120) % 2) ^ (np.arange(120) < 9)
    X = pandas.DataFrame({"f": text.astype("category"), "a": np.arange(120.0)})
    same = X.assign(f=text.astype(kind))
    model = VectorTreeBoostClassifier(**SMALL, categorical_features=["f"]).fit(X, y)
    assert np.array_equal(model.model_.raw_scores(same), model.model_.raw_scores(X))
    if kind != "Int64":
        refitted = VectorTreeBoostClassifier(**SMALL, categorical_features=["f"]).fit(same, y)
        assert np.array_equal(refitted.decision_function(same), model.decision_function(X))


def test_a_batch_of_pyarrow_is_a_frame():
    arrow = pytest.importorskip("pyarrow")
    X, y = frame(120)
    model = VectorTreeBoostClassifier(**SMALL, categorical_features=["colour"]).fit(
        X[["colour", "number"]], y
    )
    batch = arrow.Table.from_pandas(X[["colour", "number"]]).to_batches()[0]
    assert np.array_equal(
        model.model_.raw_scores(batch), model.model_.raw_scores(X[["colour", "number"]])
    )


def test_levels_that_no_file_can_hold_are_refused_before_the_first_round():
    X, y = frame(120)
    rounds = []
    for level, message in (
        ("\udcff", "a level is not valid Unicode text"),
        ("a\0b", "has a zero character"),
    ):
        levels = pandas.Series(np.array([level, "b", "c"], dtype=object)[y], dtype=object)
        model = VectorTreeBoostClassifier(**SMALL, categorical_features=["kind"])
        with pytest.raises(ValueError, match=f"^column 'kind': .*{message}"):
            model.fit(
                X[["number"]].assign(kind=levels),
                y,
                callbacks=[SimpleNamespace(after_round=rounds.append)],
            )
    assert not rounds
