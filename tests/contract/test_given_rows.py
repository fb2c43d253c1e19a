"""Rows as users give them: frames whose names repeat, and what is no matrix of numbers."""

import types
import warnings

import numpy as np
import pytest
import scipy.sparse
from cli.programs import call

from pymcboost import (
    Dataset,
    HingeBoostOCClassifier,
    MCBoostClassifier,
    SAMMEClassifier,
    VectorTreeBoostClassifier,
    registry,
)
from pymcboost.comm import Alone
from pymcboost.hinge import coordinate
from pymcboost.inspection import importance

rng = np.random.default_rng(0)
y = np.arange(60) % 3
X = rng.normal(size=(60, 4)) + y[:, None]
HOW = {"n_estimators": 3, "random_state": 0}


def pandas_frame(names):
    return pytest.importorskip("pandas").DataFrame(X, columns=names)


def arrow_table(names):
    return pytest.importorskip("pyarrow").table(list(X.T), names=list(names))


# -- names that repeat -------------------------------------------------------------------------------------------------

# What reads the rows of a frame ``bad``; ``good`` has other names, ``fitted`` is of it and ``nameless`` of an array.
READERS = {
    "fit": lambda bad, good, fitted, nameless: MCBoostClassifier(**HOW).fit(bad, y),
    "fit of a machine": lambda bad, good, fitted, nameless: HingeBoostOCClassifier(**HOW).fit(
        bad, y
    ),
    "workers": lambda bad, good, fitted, nameless: VectorTreeBoostClassifier(**HOW).fit(
        bad, y, comm=Alone()
    ),
    "categories": lambda bad, good, fitted, nameless: VectorTreeBoostClassifier(
        categorical_features=[0], **HOW
    ).fit(bad, y),
    "blocks": lambda bad, good, fitted, nameless: VectorTreeBoostClassifier(**HOW).fit(
        Dataset.from_blocks([(bad, y)])
    ),
    "init_model": lambda bad, good, fitted, nameless: MCBoostClassifier(**HOW).fit(
        bad, y, init_model=fitted
    ),
    "X_val": lambda bad, good, fitted, nameless: MCBoostClassifier(**HOW).fit(
        good, y, X_val=bad, y_val=y
    ),
    "validation_sets": lambda bad, good, fitted, nameless: MCBoostClassifier(**HOW).fit(
        good, y, validation_sets={"more": (bad, y)}
    ),
    "predict": lambda bad, good, fitted, nameless: fitted.predict(bad),
    "score": lambda bad, good, fitted, nameless: fitted.score(bad, y),
    "calibrate_on": lambda bad, good, fitted, nameless: fitted.calibrate_on(bad, y),
    "predict by place": lambda bad, good, fitted, nameless: nameless.predict(bad),
    "Model": lambda bad, good, fitted, nameless: fitted.model_.predict_proba(bad),
    "Model by place": lambda bad, good, fitted, nameless: nameless.model_.predict(bad),
    "Model.calibrated": lambda bad, good, fitted, nameless: nameless.model_.calibrated(bad, y),
    "permutation": lambda bad, good, fitted, nameless: importance(
        nameless, "permutation", X=bad, y=y
    ),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("frame", "names", "name"),
    [
        (pandas_frame, "abca", "'a'"),
        (pandas_frame, [0, 1, 0, 2], "0"),
        (arrow_table, "abca", "'a'"),
    ],
    ids=["pandas", "numbers", "pyarrow"],
)
@pytest.mark.part(3)
def test_repeated_names_of_columns_are_refused_by_name(reader, frame, names, name):
    good = pandas_frame(list("abcd"))
    fitted, nameless = MCBoostClassifier(**HOW).fit(good, y), MCBoostClassifier(**HOW).fit(X, y)
    with pytest.raises(ValueError, match=f"has 2 columns named {name}, .* rename"):
        READERS[reader](frame(list(names)), good, fitted, nameless)


def test_repeated_names_of_columns_in_a_parquet_file(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table([y, *X.T], names=["label", *"abca"])
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "train.parquet")
    completed = call("train", "--label", "label", "train.parquet", "m.mcb", cwd=tmp_path)
    assert completed.returncode == 2
    assert "train.parquet: the column name 'a' occurs twice" in completed.stderr


# -- what is no table of numbers ---------------------------------------------------------------------------------------


def attempts(given, fitted):
    """Calls that read rows."""
    return (
        lambda: MCBoostClassifier(**HOW).fit(given, y),
        lambda: MCBoostClassifier(**HOW).fit(X, y, X_val=given, y_val=y),
        lambda: VectorTreeBoostClassifier(**HOW).fit(Dataset.from_blocks([(given, y)])),
        lambda: fitted.predict(given),
        lambda: fitted.model_.predict(given),
    )


def test_one_row_or_column_of_a_frame_is_refused_with_the_call_that_takes_it():
    frame = pandas_frame(list("abcd"))
    fitted = MCBoostClassifier(**HOW).fit(frame, y)
    for given in frame.iloc[0], frame["a"], frame.assign(a="text").iloc[0]:
        for attempt in attempts(given, fitted):
            with pytest.raises(
                ValueError, match=r"X is a Series of \d+ values, .* frame\.iloc\[\[i\]\] is one row"
            ):
                attempt()
    polars = pytest.importorskip("polars").from_pandas(frame)
    with pytest.raises(ValueError, match=r"X is a Series of 60 values, .* X\.to_frame\(\)"):
        fitted.model_.predict(polars["a"])
    assert fitted.predict(frame.iloc[[0]]).shape == (1,)


@pytest.mark.parametrize(
    "given",
    [
        "train.csv",
        b"1 2",
        {"a": [1.0]},
        {1.0},
        3,
        None,
        (row for row in X),
        types.SimpleNamespace(data=X),
    ],
    ids=lambda given: type(given).__name__,
)
def test_what_is_no_table_is_named_by_its_type(given):
    fitted = MCBoostClassifier(**HOW).fit(X, y)
    shown = "None" if given is None else f"of type {type(given).__name__}"
    for attempt in attempts(given, fitted)[:1] + attempts(given, fitted)[3:]:
        with pytest.raises(
            TypeError,
            match=f"X is {shown}; give rows of numbers: a NumPy array, a pandas, polars or pyarrow data frame",
        ):
            attempt()


def test_rows_of_other_things_than_numbers():
    fitted = MCBoostClassifier(**HOW).fit(X, y)
    for given, message in (
        (
            [[1, 2, 3, 4], [1, 2]],
            r"X\[1\] has 2 values, but X\[0\] has 4 values; give all rows the same",
        ),
        ([{"a": 1}, {"a": 2}], r"X\[0\] is of type dict, not a row of numbers"),
    ):
        for attempt in (
            lambda given=given: fitted.predict(given),
            lambda given=given: fitted.model_.predict(given),
        ):
            with pytest.raises((ValueError, TypeError), match=message):
                attempt()


def test_memory_views_are_arrays():
    expected = MCBoostClassifier(**HOW).fit(X, y, X_val=X, y_val=y)
    fitted = MCBoostClassifier(**HOW).fit(memoryview(X), y, X_val=memoryview(X), y_val=y)
    assert fitted.model_.to_bytes() == expected.model_.to_bytes()
    for model in fitted, fitted.model_:
        np.testing.assert_array_equal(model.predict(memoryview(X)), expected.predict(X))


def test_text_has_the_remedy_that_fits_the_call():
    frame = pandas_frame(list("abcd"))
    text = frame.assign(b="blue")
    mixed = text.astype({"b": object}).assign(b=["blue", *[1.0] * 59])
    fitted = MCBoostClassifier(**HOW).fit(frame, y)
    shown = r"column 'b': 'blue' is text \(row 0\); "
    for attempt, remedy in (
        (lambda: MCBoostClassifier(**HOW).fit(mixed, y), "name the column in categorical_features"),
        (
            lambda: MCBoostClassifier(**HOW).fit(frame, y, X_val=text, y_val=y),
            "name the column in categorical_",
        ),
        (
            lambda: SAMMEClassifier(**HOW).fit(text, y),
            "encode it as numbers .* which accept text columns",
        ),
        (
            lambda: fitted.predict(text),
            "if this column held categories in training, give a data frame",
        ),
        (
            lambda: fitted.model_.predict(text),
            "if this column held categories in training, give a data frame",
        ),
    ):
        with pytest.raises(ValueError, match=shown + remedy):
            attempt()
    for wanted in {"categorical_features": ["b"]}, {}:
        model = MCBoostClassifier(**wanted, **HOW).fit(text.assign(b=np.where(y, "blue", "red")), y)
        assert model.predict(text).shape == (60,)


def test_reordered_columns_have_the_call_that_orders_them():
    frame = pandas_frame(list("abcd"))
    other = frame[list("bacd")]
    polars = pytest.importorskip("polars").from_pandas(other)
    for params in {}, {"categorical_features": ["d"]}:
        good, bad, strange = (
            each.assign(d=y) if params else each for each in (frame, other, frame.assign(e=1.0))
        )
        model = MCBoostClassifier(**HOW, **params).fit(good, y)
        for given in bad, strange:
            with pytest.raises(
                ValueError, match=r"names should match(.|\n)*Give X\[model\.feature_names_in_\]"
            ):
                model.predict(given)
            np.testing.assert_array_equal(
                model.predict(given[model.feature_names_in_]), model.predict(good)
            )
        with pytest.raises(ValueError, match=r"^validation set 'val': (.|\n)*Give X\[X\.columns\]"):
            MCBoostClassifier(**HOW, **params).fit(good, y, X_val=bad, y_val=y)
        np.testing.assert_array_equal(model.model_.predict(bad), model.predict(good))
    model = MCBoostClassifier(**HOW).fit(frame, y)
    with pytest.raises(ValueError, match=r"Give X\.select\(list\(model\.feature_names_in_\)\)"):
        model.predict(polars)
    assert model.predict(polars.select(list(model.feature_names_in_))).shape == (60,)
    with pytest.raises(
        ValueError, match="Feature names seen at fit time, yet now missing:\n- a\n$"
    ):
        model.predict(frame[list("bcd")])


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil"])
@pytest.mark.parametrize(
    ("cls", "value"),
    [
        (HingeBoostOCClassifier, np.nan),
        (HingeBoostOCClassifier, np.inf),
        (MCBoostClassifier, -np.inf),
    ],
)
def test_sparse_values_that_are_refused_have_row_and_column(cls, value, form):
    sparse = scipy.sparse.random(60, 9, 0.3, "csr", random_state=0)
    fitted = cls(**HOW).fit(sparse, y)
    wrong = sparse.tolil()
    wrong[9, 1] = wrong[7, 3] = wrong[7, 5] = value
    given = wrong.asformat(form)
    message = rf"column 3: {value} is (missing|infinite) \(row 7\); (fill it in|clip it)"
    for attempt in (
        lambda: cls(**HOW).fit(given, y),
        lambda: cls(**HOW).fit(sparse, y, X_val=given, y_val=y),
        lambda: fitted.predict(given),
    ):
        with pytest.raises(ValueError, match=message):
            attempt()
    if cls is HingeBoostOCClassifier:
        with pytest.raises(
            ValueError, match=rf"row 7 of X contains {value} in column 3; .* impute missing values"
        ):
            fitted.model_.predict(given)


@pytest.mark.parametrize("entry", registry.ALGORITHMS.values(), ids=lambda entry: entry.name)
@pytest.mark.parametrize("dtype", [pytest.param(np.float32, marks=pytest.mark.slow), np.float64])
def test_the_largest_numbers_of_float32_need_no_warning(entry, dtype, monkeypatch):
    monkeypatch.setattr(coordinate, "MAX_VISITS", 50_000_000)  # all of which hyperplanes take
    cls = registry.load(entry)
    huge = (np.sign(X - X.mean(axis=0)) * np.float32(3.4e38)).astype(dtype)
    huge[0, 0] = 1.0
    forms = [huge, scipy.sparse.csr_array(huge)]
    if cls is HingeBoostOCClassifier:  # takes all the steps that it may, which are some seconds
        forms = forms[1:]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        for given in forms:
            model = cls(**HOW).fit(given, y, X_val=given, y_val=y)
            assert len(model.predict(given)) == len(model.model_.predict(given)) == 60
