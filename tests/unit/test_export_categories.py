"""Categories and labels of imported models, against LightGBM and XGBoost themselves and against written trees."""

import json
import re

import numpy as np
import pytest

from pymcboost import Model, ModelFormatError, load_model
from pymcboost.export import foreign, from_lightgbm, from_xgboost
from pymcboost.export.foreign import Set, Tree, with_unknown_codes_left

pd = pytest.importorskip("pandas")


def frame(rng, n, others=False):
    """Columns of categories of text and of integers, whose names are not in the order of their codes, and numbers.

    ``others``: with levels that the training does not have, and all in another order.
    """
    missing = lambda values: np.where(rng.random(n) < 0.1, None, values)  # noqa: E731
    text = ["z", "b", "é", "ab", "a"]
    whole = [10, 2, 33, 4, 100]
    if others:
        text = [*text[::-1], "new"]
        whole = [*whole[::-1], 7]
    columns = {
        "text": pd.Categorical(missing(rng.choice(text, n)), categories=text),
        "x": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)).astype(np.float32),
        "whole": pd.Categorical(missing(rng.choice(whole, n)), categories=whole),
        "many": pd.Categorical([f"level {i}" for i in rng.integers(60, size=n)]),
    }
    return pd.DataFrame(columns)


def plain(data):
    """The frame without what is not ASCII, which XGBoost before 3.4 cannot keep."""
    return data.assign(text=data.text.cat.rename_categories({"é": "e"}))


def answer(rng, data):
    """Classes that depend on the sets of levels, and on whether a value is missing."""
    y = data.text.isin(["z", "a"]).to_numpy().astype(int) + data.whole.isin([2, 100]).to_numpy()
    y = (
        y
        + (data.text.isna() | (np.nan_to_num(data.x) > 1)).to_numpy()
        + (data["many"].cat.codes % 7 == 0).to_numpy()
    )
    return np.where(rng.random(len(y)) < 0.2, rng.integers(3, size=len(y)), y % 3)


def codes_of(data):
    """The columns as numbers, in the codes of the frame; missing values are NaN."""
    X = np.column_stack(
        [column.cat.codes if hasattr(column, "cat") else column for _, column in data.items()]
    )
    X = X.astype(np.float64)
    categories = [j for j, name in enumerate(data) if hasattr(data[name], "cat")]
    X[:, categories] = np.where(X[:, categories] < 0, np.nan, X[:, categories])
    return X


def agrees(model, X, expected):
    """Whether scores are those expected, up to the model's own bound; saved and loaded too."""
    scores = model.decision_function(X) if expected.ndim == 1 else model.raw_scores(X)
    assert np.abs(scores - expected).max() <= model.meta["score_error"] < 1e-4
    assert np.ptp(expected) > 0.1


# -- LightGBM ------------------------------------------------------------------------------------------------------

LIGHT = {
    "verbose": -1,
    "num_threads": 1,
    "min_data_per_group": 5,
    "cat_smooth": 1,
    "min_data_in_leaf": 5,
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.part(3)
def test_lightgbms_frames(tmp_path, seed, n_classes):
    lgb = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(seed)
    data = frame(rng, 1500)
    y = np.minimum(answer(rng, data), n_classes - 1)
    how = {**LIGHT, "max_cat_to_onehot": int(rng.choice([1, 4, 10])), "use_missing": bool(seed % 2)}
    how |= (
        {"objective": "binary"} if n_classes == 2 else {"objective": "multiclass", "num_class": 3}
    )
    booster = lgb.train(how, lgb.Dataset(data, y), 15)
    booster.save_model(tmp_path / "m.txt")
    model = from_lightgbm(booster)
    assert from_lightgbm(tmp_path / "m.txt").to_bytes() == model.to_bytes()
    assert model.categories.names[0] == ["a", "ab", "b", "z", "é"]
    assert model.categories.names[1] == ["10", "100", "2", "33", "4"]
    for test in (data, frame(rng, 700), frame(rng, 700, others=True)):
        agrees(model, test, booster.predict(test, raw_score=True))
        shuffled = test[["many", "whole", "x", "text"]]
        np.testing.assert_array_equal(model.raw_scores(shuffled), model.raw_scores(test))
    model.save(tmp_path / "m.mcb")
    np.testing.assert_array_equal(
        load_model(tmp_path / "m.mcb").raw_scores(test), model.raw_scores(test)
    )
    # In an array, the positions among the sorted names; LightGBM's own codes without names.
    known = data.assign(
        **{
            name: data[name].cat.set_categories(sorted(data[name].cat.categories, key=str))
            for name in ("text", "whole", "many")
        }
    )
    np.testing.assert_array_equal(model.raw_scores(codes_of(known)), model.raw_scores(data))
    codes = from_lightgbm(booster, category_columns=[])
    assert codes.categories.names == (None, None, None)
    agrees(codes, codes_of(data), booster.predict(data, raw_score=True))


@pytest.mark.parametrize("seed", range(3))
def test_lightgbms_codes(seed):
    """Arrays with codes, of which some are in no set: negative ones, and those above all that were trained on."""
    lgb = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1500, 3)).astype(np.float32)
    X[:, 0], X[:, 2] = rng.integers(12, size=1500), rng.choice([0, 3, 500, 40000], size=1500)
    X[rng.random(X.shape) < 0.05] = np.nan
    y = (np.isin(X[:, 0], (1, 5, 11)) ^ np.isin(X[:, 2], (3, 40000))) + (X[:, 1] > 1)
    how = {**LIGHT, "objective": "multiclass", "num_class": 3, "max_cat_to_onehot": 1}
    booster = lgb.train(how, lgb.Dataset(X, y, categorical_feature=[0, 2]), 10)
    model = from_lightgbm(booster)
    assert model.categories.feature.tolist() == [0, 2]
    test = X.copy()
    test[:, 0], test[:, 2] = (
        rng.integers(-2, 60, size=1500),
        rng.choice([0, 1, 3, 500, 40001, 1e6, np.nan], size=1500),
    )
    for rows in (X, test):
        agrees(model, rows, booster.predict(rows, raw_score=True))


def test_lightgbms_columns_of_categories_that_are_no_categorical_features():
    lgb = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(5)
    data = frame(rng, 1200).assign(
        size=pd.Categorical(
            rng.choice(["low", "mid", "high", None], 1200),
            categories=["low", "mid", "high"],
            ordered=True,
        ),
        same=pd.Categorical(["q"] * 1200),
    )
    y = answer(rng, data) ^ (data["size"] == "high").to_numpy()
    y = np.minimum(y, 2)
    booster = lgb.train(
        {**LIGHT, "objective": "multiclass", "num_class": 3}, lgb.Dataset(data, y), 10
    )
    with pytest.raises(
        ModelFormatError, match="the data frame had 5 columns of categories, but the model has 4"
    ):
        from_lightgbm(booster)
    names = ["text", "whole", "many", "size", "same"]
    for columns in (names, names[::-1], [0, 2, 3, 4, 5]):
        model = from_lightgbm(booster, category_columns=columns)
        assert model.categories.names[3:] == (["high", "low", "mid"], ["q"])
        agrees(model, data, booster.predict(data, raw_score=True))
        agrees(
            model,
            data.assign(size=data["size"].cat.reorder_categories(["mid", "high", "low"])),
            booster.predict(data, raw_score=True),
        )
    for columns, words in (
        (["text", "x"], "category_columns names 2 columns, but the data frame had 5 of categories"),
        (["none"], "there is no column 'none'"),
        ([6], "there is no column 6; there are 6, numbered from 0"),
        ([-1], "there is no column -1"),
    ):
        with pytest.raises(ValueError, match=words):
            from_lightgbm(booster, category_columns=columns)


def test_lightgbms_codes_beside_ordered_categories():
    """As many columns of categories as categorical features, which are others."""
    lgb = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(6)
    size = pd.Categorical(
        rng.choice(["low", "mid", "high"], 900), categories=["low", "mid", "high"], ordered=True
    )
    data = pd.DataFrame({"size": size, "code": rng.integers(9, size=900)})
    y = (data["size"] == "high") ^ data["code"].isin([1, 4, 7])
    booster = lgb.train(
        {**LIGHT, "objective": "binary"}, lgb.Dataset(data, y, categorical_feature=["code"]), 10
    )
    with pytest.raises(
        ModelFormatError, match="feature 1 had the code 8, .* has 3 levels, .*category_columns"
    ):
        from_lightgbm(booster)
    agrees(
        from_lightgbm(booster, category_columns=["size"]),
        data,
        booster.predict(data, raw_score=True),
    )


def lightgbm_text(words=(6,), ends=(0, 1), more="", last="pandas_categorical:null"):
    """A tree with one split on a set of codes: bits of words of 32."""
    head = "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nmax_feature_idx=1\n"
    head += "objective=binary sigmoid:1\nfeature_infos=0:1:2 [0:1]\n"
    tree = "num_leaves=2\nnum_cat=1\nsplit_feature=0\nthreshold=0\ndecision_type=1\nleft_child=-1\nright_child=-2\n"
    tree += f"leaf_value=1 -1\ncat_boundaries={' '.join(map(str, ends))}\ncat_threshold={' '.join(map(str, words))}\n"
    return f"{head}\nTree=0\n{tree}{more}\n\nend of trees\n\n{last}\n"


def read(reader, folder, text, **options):
    path = folder / "model"
    path.write_text(text)
    return reader(path, **options)


def test_a_set_of_lightgbm(tmp_path):
    model = read(from_lightgbm, tmp_path, lightgbm_text((6, 1 << 31), (0, 2)))
    X = np.array([0, 1, 2, 3, 62, 63, 64, -1, np.nan, 1e9])[:, None] * [1, 0]
    assert (model.decision_function(X) > 0).tolist() == [
        False,
        True,
        True,
        False,
        False,
        True,
        *[False] * 4,
    ]
    assert model.categories.levels.tolist() == [64]
    named = read(
        from_lightgbm, tmp_path, lightgbm_text(last='pandas_categorical:[["z", 1.0, true, 2.5]]')
    )
    assert named.categories.names == (["1", "2.5", "True", "z"],)
    assert (named.decision_function([[0, 0], [1, 0], [2, 0], [3, 0]]) > 0).tolist() == [
        True,
        False,
        True,
        False,
    ]
    levels = pd.DataFrame(
        {"a": pd.Categorical(["z", 1, True, 2.5], categories=["z", 1, 2.5]), "b": 0.0}
    )
    assert (named.decision_function(levels) > 0).tolist() == [False, True, True, False]


@pytest.mark.parametrize(
    "change, words",
    [
        ({"words": (0, 0, 6), "ends": (0, 1)}, "cat_threshold must hold 1 numbers, but has 3"),
        ({"ends": (1, 1)}, "cat_boundaries must increase, starting from 0"),
        ({"ends": (0, 0)}, "cat_boundaries must increase, starting from 0"),
        ({"words": (-1,)}, "cat_threshold must hold integers from 0 to 4294967295"),
        ({"words": (2**32,)}, "cat_threshold must hold integers from 0 to 4294967295"),
        (
            {"words": [0] * 2048 + [1], "ends": (0, 2049)},
            "category 65536, but a model stores categories up to 65534",
        ),
        (
            {"more": "threshold=1\n"},
            "the threshold of a categorical split must be the number of a set, below 1",
        ),
        (
            {"more": "threshold=0.5\n"},
            "the threshold of a categorical split must be the number of a set, below 1",
        ),
        ({"more": "num_cat=2\n"}, "num_cat is '2'; it must be an integer from 0 to 1"),
        ({"more": "num_cat=0\n"}, "the tree has the unknown key 'cat_boundaries'"),
        ({"more": "cat_news=0\n"}, "the tree has the unknown key 'cat_news'"),
        ({"last": 'pandas_categorical:[["a"'}, "pandas_categorical is not valid JSON"),
        ({"last": "pandas_categorical:" + "[" * 100000}, "pandas_categorical is not valid JSON"),
        (
            {"last": 'pandas_categorical:{"a": 1}'},
            "pandas_categorical must hold lists of text and numbers",
        ),
        (
            {"last": "pandas_categorical:[[null]]"},
            "pandas_categorical must hold lists of text and numbers",
        ),
        (
            {"last": 'pandas_categorical:[["a", "b"]]'},
            "feature 0 had the code 2, but the column of",
        ),
        (
            {"last": 'pandas_categorical:[["a", "b", "a"]]'},
            "the categories of feature 0: 'a' occurs twice, as text",
        ),
        ({"last": 'pandas_categorical:[["1", "b", 1]]'}, "'1' occurs twice, as text"),
        ({"last": 'pandas_categorical:[["a", "b", NaN]]'}, "one is missing"),
        (
            {"last": 'pandas_categorical:[["a", "b", "x\\u0000"]]'},
            "has a zero character, or is longer than 4096 bytes",
        ),
        (
            {"last": 'pandas_categorical:[["a", "b", "\\ud800"]]'},
            "a name is not valid Unicode text",
        ),
        (
            {"last": f'pandas_categorical:[["a", "b", "{"x" * 4097}"]]'},
            "has a zero character, or is longer than 4096 bytes",
        ),
        (
            {"last": f"pandas_categorical:[{list(range(65536))}]"},
            "there are 65536, but a model supports at most 65535",
        ),
        (
            {"last": 'pandas_categorical:[["a", "b", "c"], []]'},
            "the data frame had 2 columns of categories",
        ),
    ],
)
def test_what_lightgbm_does_not_write_is_refused(tmp_path, change, words):
    with pytest.raises(ModelFormatError, match=re.escape(words)):
        read(from_lightgbm, tmp_path, lightgbm_text(**change))


# -- XGBoost -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.part(3)
def test_xgboosts_frames(tmp_path, seed, n_classes):
    xgb = pytest.importorskip("xgboost")
    rng = np.random.default_rng(seed)
    text = (
        (lambda data: data) if tuple(map(int, xgb.__version__.split(".")[:2])) >= (3, 4) else plain
    )
    data = frame(rng, 1500)
    y = np.minimum(answer(rng, data), n_classes - 1)
    data = text(data)
    how = {
        "nthread": 1,
        "max_depth": 5,
        "max_cat_to_onehot": int(rng.choice([1, 4, 10])),
        "tree_method": "hist",
    }
    how |= (
        {"objective": "binary:logistic"}
        if n_classes == 2
        else {"objective": "multi:softprob", "num_class": 3}
    )
    booster = xgb.train(how, xgb.DMatrix(data, y, enable_categorical=True), 10)
    booster.save_model(tmp_path / "m.json")
    model = from_xgboost(booster)
    assert from_xgboost(tmp_path / "m.json").to_bytes() == model.to_bytes()
    assert (
        sorted(model.categories.names[1])
        == model.categories.names[1]
        == ["10", "100", "2", "33", "4"]
    )
    other = text(frame(rng, 700))
    other["whole"] = other["whole"].cat.reorder_categories([4, 100, 33, 10, 2])
    for test in (data, other):
        matrix = xgb.DMatrix(test, enable_categorical=True)
        agrees(model, test, booster.predict(matrix, output_margin=True))
    unknown = text(frame(rng, 50, others=True))
    as_missing = unknown.assign(
        text=unknown.text.cat.remove_categories(["new"]),
        whole=unknown["whole"].cat.remove_categories([7]),
    )
    np.testing.assert_array_equal(model.raw_scores(unknown), model.raw_scores(as_missing))


@pytest.mark.parametrize(
    "options", [{}, {"booster": "dart", "rate_drop": 0.3}, {"multi_strategy": "multi_output_tree"}]
)
@pytest.mark.parametrize("seed", range(3))
def test_xgboosts_codes(seed, options):
    """Arrays with codes, of which some are in no set; missing values may go the other way than these."""
    xgb = pytest.importorskip("xgboost")
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1500, 3)).astype(np.float32)
    X[:, 0], X[:, 2] = rng.integers(12, size=1500), rng.choice([0, 3, 500, 4000], size=1500)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = (np.isin(X[:, 0], (1, 5, 11)) ^ (np.isin(X[:, 2], (3, 4000)) | np.isnan(X[:, 0]))) + (
        X[:, 1] > 1
    )
    how = {
        "nthread": 1,
        "max_depth": 6,
        "objective": "multi:softprob",
        "num_class": 3,
        "max_cat_to_onehot": 4,
        **options,
    }
    types = ["c", "float", "c"]
    try:
        booster = xgb.train(how, xgb.DMatrix(X, y, feature_types=types, enable_categorical=True), 6)
    except xgb.core.XGBoostError as error:
        pytest.skip(str(error).splitlines()[0])
    model = from_xgboost(booster)
    assert model.categories.names == (None, None)
    test = X.copy()
    test[:, 0], test[:, 2] = (
        rng.integers(60, size=1500),
        rng.choice([0, 1, 3, 500, 4001, 1e6, np.nan], size=1500),
    )
    for rows in (X, test):
        matrix = xgb.DMatrix(rows, feature_types=types, enable_categorical=True)
        agrees(model, rows, booster.predict(matrix, output_margin=True))


def xgboost_dict(codes=(1, 2), default_left=0, cats=None, version=(3, 4, 1)):
    """A tree with one split on a set of codes, which go right."""
    tree = {
        "left_children": [1, -1, -1], "right_children": [2, -1, -1], "split_indices": [0, 0, 0],
        "split_conditions": [1e-45, 1.0, -1.0], "default_left": [default_left, 0, 0], "split_type": [1, 0, 0],
        "categories": list(codes), "categories_nodes": [0], "categories_segments": [0],
        "categories_sizes": [len(codes)], "tree_param": {"num_nodes": "3", "size_leaf_vector": "1"},
    }  # fmt: skip
    model = {
        "trees": [tree],
        "tree_info": [0],
        "iteration_indptr": [0, 1],
        **({"cats": cats} if cats else {}),
    }
    about = {"base_score": "[5E-1]", "num_class": "0", "num_feature": "2", "num_target": "1"}
    learner = {"gradient_booster": {"model": model, "name": "gbtree"}, "learner_model_param": about}
    return {
        "learner": {**learner, "objective": {"name": "binary:logistic"}},
        "version": list(version),
    }


NAMES = {"offsets": [0, 1, 3, 5], "values": [122, 97, 98, -61, -87]}  # z, ab, é
CATS = {
    "enc": [NAMES, {"offsets": [], "values": []}],
    "feature_segments": [0, 3, 3],
    "sorted_idx": [1, 0, 2],
}


@pytest.mark.parametrize("default_left", [0, 1])
def test_a_set_of_xgboost(tmp_path, default_left):
    model = read(from_xgboost, tmp_path, json.dumps(xgboost_dict((1, 9), default_left)))
    X = np.array([0, 1, 2, 9, 10, 15, 16, 70000, np.nan])[:, None] * [1, 0]
    expected = [True, False, True, False, True, True, True, True, bool(default_left)]
    assert (model.decision_function(X) > 0).tolist() == expected
    named = read(
        from_xgboost, tmp_path, json.dumps(xgboost_dict(default_left=default_left, cats=CATS))
    )
    assert named.categories.names == (["ab", "z", "é"],)
    data = pd.DataFrame({"a": pd.Categorical(["z", "ab", "é", None, "new"]), "b": 0.0})
    assert (named.decision_function(data) > 0).tolist() == [
        True,
        False,
        False,
        *[bool(default_left)] * 2,
    ]
    whole = {
        **CATS,
        "enc": [{"type": 15, "values": [10, 2, 33]}, NAMES | {"offsets": [], "values": []}],
    }
    named = read(
        from_xgboost, tmp_path, json.dumps(xgboost_dict(default_left=default_left, cats=whole))
    )
    assert named.categories.names == (["10", "2", "33"],)
    data = pd.DataFrame({"a": pd.Categorical([33, 2, 10, 4]), "b": 0.0})
    assert (named.decision_function(data) > 0).tolist() == [False, False, True, bool(default_left)]


@pytest.mark.parametrize(
    "change, words",
    [
        ({"codes": (1, 70000)}, "category 70000, but a model stores categories up to 65534"),
        ({"codes": (-1,)}, "categories must not be negative"),
        ({"codes": ("x",)}, "categories must hold 1 numbers"),
        (
            {"cats": {**CATS, "enc": [NAMES]}},
            "cats must have an item in enc for each of the 2 features",
        ),
        ({"cats": {**CATS, "news": 1}}, "cats has the unknown key 'news'"),
        ({"cats": {**CATS, "enc": [{**NAMES, "news": 1}, {}]}}, "enc has the unknown key 'news'"),
        (
            {"cats": {**CATS, "enc": [{**NAMES, "offsets": [0, 3, 1, 5]}, {}]}},
            "the offsets of the category names",
        ),
        (
            {"cats": {**CATS, "enc": [{**NAMES, "offsets": [0, 1, 3, 9]}, {}]}},
            "the offsets of the category names",
        ),
        (
            {"cats": {**CATS, "enc": [{**NAMES, "offsets": [0, 1, 4, 5]}, {}]}},
            "the category names are not UTF-8",
        ),
        (
            {"cats": {**CATS, "enc": [{"values": [1.5, 2.5, 3.5]}, {}]}},
            "values must hold 3 numbers",
        ),
        (
            {"cats": CATS, "version": (3, 2, 0)},
            "is not ASCII, and XGBoost before 3.4 cuts such names off",
        ),
        ({"cats": CATS, "codes": (3,)}, "a split uses the code 3, but there are only 3 names"),
    ],
)
def test_what_xgboost_does_not_write_is_refused(tmp_path, change, words):
    with pytest.raises(ModelFormatError, match=re.escape(words)):
        read(from_xgboost, tmp_path, json.dumps(xgboost_dict(**change)))


def random_tree(rng, splits, sets):
    """Nodes in a random tree, with thresholds and sets of codes below 10 on one feature."""
    left = [-1]
    right = [-1]
    feature = [0]
    missing = [False]
    for _ in range(splits):
        node = int(rng.choice([i for i, child in enumerate(left) if child < 0]))
        left[node], right[node] = len(left), len(left) + 1
        feature[node], missing[node] = int(rng.integers(2)), bool(rng.integers(2))
        for part, value in ((left, -1), (right, -1), (feature, 0), (missing, False)):
            part += [value, value]
    leaf = np.array(left) < 0
    n = len(left)
    chosen = [i for i in range(n) if not leaf[i] and feature[i] == 0]
    found = {i: Set(np.flatnonzero(rng.random(10) < 0.4), False) for i in chosen} if sets else {}
    value = rng.normal(size=n).astype(np.float32).astype(float)
    return Tree(
        np.array(left),
        np.array(right),
        leaf,
        feature=np.array(feature),
        threshold=rng.normal(size=n).astype(np.float32),
        missing_left=np.array(missing),
        value=value,
        cls=1,
        sets=found,
    )


def leaf_of(tree, x):
    """The value of a row's leaf, as XGBoost finds it."""
    node = 0
    while not tree.leaf[node]:
        value = x[tree.feature[node]]
        split = tree.sets.get(node)
        if np.isnan(value):
            left = tree.missing_left[node]
        else:
            left = value not in split.codes if split else value <= tree.threshold[node]
        node = tree.left[node] if left else tree.right[node]
    return tree.value[node]


def model_of(tree):
    return foreign.model_of(
        [tree],
        [1],
        np.zeros(2),
        n_features=2,
        meta={"precision": 0.0},
        link="none",
        where="the tree",
    )


@pytest.mark.parametrize("seed", range(30))
def test_unknown_codes_go_left_and_missing_values_right(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, int(rng.integers(1, 40)), sets=True)
    apart = [node for node in tree.sets if not tree.missing_left[node]]
    model = model_of(with_unknown_codes_left(tree, apart, "the tree"))
    X = rng.normal(size=(300, 2)).astype(np.float32)
    X[:, 0] = rng.choice([*range(20), 1000, 1e6, np.nan], size=300)
    X[rng.random(300) < 0.1, 1] = np.nan
    np.testing.assert_array_equal(
        model.decision_function(X), [np.float32(leaf_of(tree, x)) for x in X]
    )


def test_a_tree_that_would_become_too_large_is_refused():
    n = 200  # splits in a chain, each of which has the rest of it on both sides
    left, right = np.full(2 * n + 1, -1), np.full(2 * n + 1, -1)
    left[: 2 * n : 2], right[: 2 * n : 2] = np.arange(1, 2 * n, 2), np.arange(2, 2 * n + 1, 2)
    sets = {node: Set(np.array([1]), False) for node in range(0, 2 * n, 2)}
    zeros = np.zeros(2 * n + 1)
    chain = Tree(
        left,
        right,
        left < 0,
        feature=zeros.astype(int),
        threshold=zeros,
        missing_left=zeros > 0,
        value=zeros,
        cls=1,
        sets=sets,
    )
    assert (
        len(model_of(with_unknown_codes_left(chain, list(sets), "a chain")).ensemble.leaf)
        == 2 * n + 1
    )
    full = np.arange(2**14 - 1)
    inner = full < 2**13 - 1
    left, right = np.where(inner, 2 * full + 1, -1), np.where(inner, 2 * full + 2, -1)
    zeros = np.zeros(len(full))
    sets = {node: Set(np.array([1]), False) for node in range(2**13 - 1)}
    tree = Tree(
        left,
        right,
        ~inner,
        feature=zeros.astype(int),
        threshold=zeros,
        missing_left=zeros > 0,
        value=zeros,
        cls=1,
        sets=sets,
    )
    with pytest.raises(ModelFormatError, match=r"would take 1.59e\+06 leaves instead of 8192"):
        with_unknown_codes_left(tree, list(sets), "a tree")


# -- labels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize(
    "labels, sorted_labels",
    [
        (["b", "c", "a"], ["a", "b", "c"]),
        (np.array([7, -3, 5]), [-3, 5, 7]),
        ([2.0, 1.0, 3.0], [1, 2, 3]),
        (pd.Series(["x", "y", "z"], dtype="string"), ["x", "y", "z"]),
    ],
)
def test_labels_in_any_order(vector, labels, sorted_labels):
    rng = np.random.default_rng(0)
    X = np.random.default_rng(1).normal(size=(100, 2)).astype(np.float32)
    trees = [random_tree(rng, 6, sets=False)._replace(cls=c) for c in (0, 1, 2, 2)]
    if vector:
        trees = [tree._replace(value=rng.normal(size=(len(tree.value), 3))) for tree in trees]
    bias = np.array([0.5, -1, 2])
    plain = foreign.model_of(
        trees, [3, 1], bias, n_features=2, meta={"precision": 0.0}, link="softmax", where="here"
    )
    model = foreign.model_of(
        trees,
        [3, 1],
        bias,
        n_features=2,
        meta={"precision": 0.0},
        link="softmax",
        where="here",
        labels=labels,
    )
    assert model.classes_.tolist() == sorted_labels
    known = np.asarray(labels).tolist()
    order = [known.index(label) for label in sorted_labels]
    np.testing.assert_array_equal(model.raw_scores(X), plain.raw_scores(X)[:, order])
    assert model.predict(X).tolist() == [known[k] for k in plain.predict(X)]


@pytest.mark.parametrize(
    "labels, words",
    [
        (["a"], r"labels must hold 2 labels, one per class .* has shape \(1,\)"),
        ([["a", "b"]], r"shape \(1, 2\)"),
        (["a", "a"], "labels must be distinct; 'a' occurs twice"),
        ([1.5, 2], "labels must be 64-bit integers or strings"),
        (["a", None], "labels must be 64-bit integers or strings"),
        ([0, 2**63], "labels must be 64-bit integers or strings"),
        ([np.nan, 1.0], "labels must be 64-bit integers or strings"),
    ],
)
def test_labels_that_do_not_fit_are_refused(tmp_path, labels, words):
    for reader, text in (
        (from_lightgbm, lightgbm_text()),
        (from_xgboost, json.dumps(xgboost_dict())),
    ):
        with pytest.raises(ValueError, match=words):
            read(reader, tmp_path, text, labels=labels)
        model = read(reader, tmp_path, text, labels=["yes", "no"])
        codes = read(reader, tmp_path, text)
        X = np.array([[0, 0], [1, 0], [np.nan, 0]])
        assert model.predict(X).tolist() == [["yes", "no"][k] for k in codes.predict(X)]
        assert isinstance(model, Model)
        np.testing.assert_array_equal(model.predict_proba(X)[:, ::-1], codes.predict_proba(X))


def test_labels_of_the_libraries_own_estimators():
    lgb = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.array(["some", "many", "none"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0)]
    fitted = lgb.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(X, y)
    model = from_lightgbm(fitted.booster_, labels=fitted.classes_)
    assert (model.predict(X) == fitted.predict(X)).mean() > 0.99
    np.testing.assert_allclose(model.predict_proba(X), fitted.predict_proba(X), atol=1e-6)
