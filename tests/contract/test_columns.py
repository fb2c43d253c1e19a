"""Columns of data frames: by name, errors that name column and value, and values that float32 merges."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse
from cli.programs import call

import pymcboost
from pymcboost import (
    HingeBoostOCClassifier,
    MartClassifier,
    SAMMEClassifier,
    VectorTreeBoostClassifier,
    load_model,
)
from pymcboost.data.merging import warn_of_merged_values
from pymcboost.model.columns import in_order

pandas = pytest.importorskip("pandas")
NAMES = ["speed", "fuel", "age"]


def some_data(m=90):
    rng = np.random.default_rng(0)
    y = np.arange(m) % 3
    return rng.normal(size=(m, 3)) + y[:, None] * [1.0, 2.0, -1.0], y


def frame_of(kind, X, names):
    columns = dict(zip(names, X.T.copy(), strict=True))
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame(columns)
    return (
        pytest.importorskip("pyarrow").table(columns)
        if kind == "pyarrow"
        else pandas.DataFrame(columns)
    )


class Table:
    """What pyarrow's tables have of what is used here."""

    def __init__(self, X, names):
        self.X = X
        self.column_names = names
        self.columns = list(X.T)
        self.shape = X.shape

    def select(self, names):
        """Some columns."""
        return Table(self.X[:, [self.column_names.index(name) for name in names]], list(names))

    def __array__(self, dtype=None, copy=None):
        return np.array(self.X, dtype=dtype)


@pytest.fixture(scope="module")
def model():
    X, y = some_data()
    return MartClassifier(n_estimators=4).fit(pandas.DataFrame(X, columns=NAMES), y).model_


# -- Columns by name ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "table"])
def test_a_saved_model_puts_columns_in_order_by_name(kind, model, tmp_path):
    X, _ = some_data()
    model.save(tmp_path / "model.mcb")
    loaded = load_model(tmp_path / "model.mcb")
    order = [2, 0, 1]
    names = [NAMES[j] for j in order]
    frame = Table(X[:, order], names) if kind == "table" else frame_of(kind, X[:, order], names)
    assert loaded.feature_names == NAMES
    assert (loaded.raw_scores(frame) == loaded.raw_scores(X)).all()
    assert (loaded.raw_scores(X[:, order]) != loaded.raw_scores(X)).any()
    assert (loaded.predict(frame) == loaded.predict(X)).all()
    assert (loaded.predict_proba(frame) == loaded.predict_proba(X)).all()
    assert (list(loaded.staged_decision_function(frame))[-1] == loaded.raw_scores(X)).all()
    codes = loaded.predict_codes(X)
    assert loaded.calibrated(frame, codes).to_bytes() == loaded.calibrated(X, codes).to_bytes()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["speed", "age", "petrol"], "missing: 'fuel'; unknown: 'petrol'"),
        ([*NAMES, "label"], r"\(unknown: 'label'\)"),
        (["speed", "age"], r"\(missing: 'fuel'\)"),
        (["speed", "fuel", "age", "age"], "X has 2 columns named 'age'"),
        ([f"x{j}" for j in range(8)], "unknown: 'x0', 'x1', 'x2', 'x3', 'x4' and 3 more"),
    ],
)
def test_missing_and_unknown_columns_are_named(names, message, model):
    with pytest.raises(ValueError, match=message):
        model.predict(pandas.DataFrame(np.zeros((2, len(names))), columns=names))


def test_names_are_looked_up_in_sets_that_are_made_once():
    class Name(str):
        __slots__ = ()
        hashed = 0

        def __hash__(self):
            Name.hashed += 1
            return super().__hash__()

    names = [Name(j) for j in range(500)]
    given = Table(np.zeros((1, 500)), names[::-1])
    assert in_order(given, lambda: names).column_names == names
    assert Name.hashed < 10 * len(names)


def test_columns_without_names_go_by_position(model):
    X, y = some_data()
    assert (model.raw_scores(pandas.DataFrame(X)) == model.raw_scores(X)).all()
    unnamed = MartClassifier(n_estimators=4).fit(X, y).model_
    assert unnamed.feature_names is None
    assert (unnamed.raw_scores(pandas.DataFrame(X, columns=NAMES)) == unnamed.raw_scores(X)).all()
    for names in (
        "abc",
        ["a", "b"],
        ["a", "b", 3],
        None,
    ):  # what is there for information may be anything
        odd = unnamed.with_meta({"feature_names": names})
        assert odd.feature_names is None
        assert (odd.raw_scores(pandas.DataFrame(X, columns=NAMES)) == unnamed.raw_scores(X)).all()


def test_estimators_keep_scikit_learns_habit():
    X, y = some_data()
    model = MartClassifier(n_estimators=4).fit(pandas.DataFrame(X, columns=NAMES), y)
    with pytest.raises(
        ValueError, match=r"must be in the same order(.|\n)*Give X\[model.feature_names_in_\]"
    ):
        model.predict(pandas.DataFrame(X, columns=NAMES)[NAMES[::-1]])


# -- Errors name the column and the value ------------------------------------------------------------------------------

DATE = pandas.Timestamp("2026-03-01")
WRONG = [
    (
        "gas",
        r"column 'fuel': 'gas' is text \(row 5\); .*(name|train with) the column in categorical_features",
    ),
    (DATE, r"column 'fuel': 2026-03-01 00:00:00 is a date or a time \(row 5\); give"),
    (
        10**400,
        r"column 'fuel': 10*\.\.\. is beyond float64 \(\+-1.8e308\) \(row 5\); divide the column",
    ),
    (object(), r"column 'fuel': <object object at .* is not a number \(row 5\); use NaN"),
]


@pytest.mark.parametrize(("value", "message"), WRONG)
def test_errors_name_column_and_value(value, message, model):
    X, y = some_data()
    frame = pandas.DataFrame(X, columns=NAMES)
    estimator = MartClassifier(n_estimators=4).fit(frame, y)
    frame["fuel"] = frame["fuel"].astype(object)
    frame.loc[5, "fuel"] = value
    for attempt in (
        lambda: estimator.fit(frame, y),
        lambda: estimator.predict(frame),
        lambda: estimator.fit(frame.assign(fuel=0.0), y, X_val=frame, y_val=y),
        lambda: model.predict(frame),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            attempt()
    unnamed = message.replace("'fuel'", "1")
    for X in (frame.to_numpy(), frame.to_numpy().tolist()):
        with pytest.raises((ValueError, TypeError), match=unnamed):
            MartClassifier().fit(X, y)
        with pytest.raises((ValueError, TypeError), match=unnamed):
            model.predict(X)


def test_infinite_and_missing_values_are_named():
    X, y = some_data()
    frame = pandas.DataFrame(X, columns=NAMES)
    frame.loc[7, "age"] = -np.inf
    with pytest.raises(ValueError, match=r"column 'age': -inf .*\(row 7\); clip it"):
        MartClassifier().fit(frame, y)
    frame.loc[7, "age"] = np.nan
    MartClassifier(n_estimators=1).fit(frame, y)
    with pytest.raises(ValueError, match=r"column 'age': nan is missing \(row 7\); fill it in"):
        HingeBoostOCClassifier().fit(frame, y)


def test_columns_of_dates_are_refused_alone_and_among_others(model):
    X, y = some_data()
    dates = pandas.date_range("2026-03-01", periods=len(y), freq="h")
    alone = pandas.DataFrame({"when": dates})
    among = pandas.DataFrame(X, columns=NAMES).assign(fuel=dates)
    message = r"is a date or a time \(row 0\); give the time since a reference date"
    for X in (
        alone,
        alone.to_numpy(),
        among,
        alone - alone.min(),
        among.assign(fuel=dates.tz_localize("UTC")),
    ):
        with pytest.raises(ValueError, match=message):
            MartClassifier(n_estimators=1).fit(X, y)
    with pytest.raises(ValueError, match="column 'fuel': .*" + message):
        model.predict(among)


def test_missing_values_of_pandas_are_nan(model):
    X, y = some_data()
    frame = pandas.DataFrame(X, columns=NAMES).astype({"age": "Float64"})
    frame.loc[3, "age"] = pandas.NA
    X[3, 2] = np.nan
    assert (model.raw_scores(frame) == model.raw_scores(X)).all()
    MartClassifier(n_estimators=1).fit(frame, y)


# -- Values that float32 merges ----------------------------------------------------------------------------------------


def time_stamps(m=1500):
    rng = np.random.default_rng(1)
    seconds = rng.integers(0, 3600, size=m)
    return 1.7e9 + seconds, seconds // 300 % 2, rng.normal(size=m)


def warnings_of(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("cls", [MartClassifier, SAMMEClassifier, VectorTreeBoostClassifier])
def test_time_stamps_that_merge_are_named_with_a_remedy(cls):
    time, y, other = time_stamps()
    X = scipy.sparse.csr_array(np.column_stack((other, time)))
    model = cls(n_estimators=20)
    message = r"Column 1 \(from 0\): \d+ distinct values of a sample become \d+; subtract 1700000000 before fit and pre"
    with pytest.warns(UserWarning, match=message) as caught:
        low = model.fit(X, y).score(X, y)
    assert [one.filename for one in caught] == [__file__]
    X = scipy.sparse.csr_array(np.column_stack((other, time - 1700000000)))  # what the warning says
    assert not warnings_of(lambda: model.fit(X, y))
    assert cls is SAMMEClassifier or model.score(X, y) > low + 0.03


def test_the_warning_names_the_column_of_a_frame():
    time, y, other = time_stamps()
    frame = pandas.DataFrame({"other": other, "time": time})
    with pytest.warns(
        UserWarning, match=r"Column 1 \('time'\): \d+ distinct .*; subtract 1700000000"
    ) as caught:
        MartClassifier(n_estimators=1).fit(frame, y)
    assert [one.filename for one in caught] == [__file__]


def test_the_first_columns_are_named_and_the_others_counted():
    X = np.repeat(time_stamps()[0][:, None], 7, axis=1)
    (message,) = warnings_of(lambda: warn_of_merged_values(X))
    assert message.count("Column ") == 5 and message.endswith(" 2 more columns lose values, too.")


@pytest.mark.parametrize(
    "form",
    [
        lambda X: X,
        lambda X: X.astype(np.int64),
        lambda X: X.tolist(),
        np.asfortranarray,
        lambda X: pandas.DataFrame(X.astype(np.int64)),
        scipy.sparse.csr_array,
        scipy.sparse.csc_array,
        scipy.sparse.coo_array,
    ],
)
def test_every_form_of_X_is_noticed(form):
    X = np.column_stack((np.arange(1500) % 7, time_stamps()[0], -time_stamps()[0]))
    (message,) = warnings_of(lambda: warn_of_merged_values(form(X)))
    assert [name in message for name in ("Column 0", "Column 1", "Column 2")] == [False, True, True]


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_values_that_were_rounded_before_are_noticed(layout, tmp_path):
    time, y, other = time_stamps()
    pymcboost.dump_svmlight(tmp_path / "train.svm", np.column_stack((other, time)), y)
    X = pymcboost.load_svmlight(tmp_path / "train.svm", layout=layout).X
    message = r"seem to have become .* Column 1 \(from 0\): 29 distinct values .* are neighbours; .* LIBSVM text"
    with pytest.warns(UserWarning, match=message):
        MartClassifier(n_estimators=1).fit(X, y)
    completed = call(
        "train", tmp_path / "train.svm", tmp_path / "model.mcb", "-a", "mart", "-n", "1"
    )
    assert completed.returncode == 0 and "Feature 2: 29 distinct values" in completed.stderr


@pytest.mark.parametrize("period", [2, 3, 4, 5, 8])
def test_values_at_fixed_distances_are_noticed(period):
    """Time stamps in one of so many entries, or rows, wherever the sample begins."""
    time = time_stamps(6000)[0]
    rows, columns = np.divmod(np.arange(6000), period)
    X = scipy.sparse.coo_array((np.where(columns, 1.0, time), (rows, columns))).tocsr()
    for first in range(period):
        assert (
            len(
                warnings_of(
                    lambda first=first: warn_of_merged_values(X[:, np.roll(range(period), first)])
                )
            )
            == 1
        )
        dense = np.where(np.arange(6000) % period == first, time, 0.0)[:, None]
        assert period > 4 or len(warnings_of(lambda dense=dense: warn_of_merged_values(dense))) == 1


def test_two_values_and_integers_that_merge_are_noticed():
    for low, high in ((2**24, 2**24 + 1), (1 + 1e-9, 1 + 2e-9), (-1.7e9 - 1, -1.7e9)):
        column = np.where(np.arange(200) % 3, low, high)[:, None]
        for X in (column, np.sort(column, axis=0)):
            assert len(warnings_of(lambda X=X: warn_of_merged_values(X))) == 1


def test_numbers_that_lose_nothing_are_not_warned_of():
    rng = np.random.default_rng(2)
    m = 4000
    harmless = [
        rng.normal(size=(m, 5)),
        rng.uniform(0.99, 1.01, size=(m, 5)),
        rng.integers(-(2**20), 2**20, size=(m, 5)).astype(float),
        np.round(rng.uniform(0.987, 1.004, size=(m, 5)), 5),  # densities
        np.cumsum(np.full((m, 3), 0.1), axis=1)
        * rng.integers(1, 4, size=(m, 1)),  # rounding of float64 alone
        rng.integers(1, 5, size=(m, 2)) * (1 + 1e-15 * rng.normal(size=(m, 2))),
        np.full((m, 2), 1.7e9 + 1 / 3),
        np.where(rng.random((m, 3)) < 0.5, np.nan, rng.normal(size=(m, 3))),
        rng.normal(size=(m, 4)).astype(np.float32),
        rng.integers(0, 2**31, size=(m, 4)).astype(np.float32),
        rng.uniform(1, 1.0001, size=(m, 4)).astype(np.float32),
        np.arange(m)[:, None].astype(np.float32) + 2**22,
        np.exp(rng.normal(scale=8, size=(m, 4))),
        np.zeros((0, 3)),
    ]
    for X in harmless:
        assert not warnings_of(lambda X=X: warn_of_merged_values(X))
        assert not warnings_of(lambda X=X: warn_of_merged_values(scipy.sparse.csr_array(X)))


def test_noticing_takes_no_copy():
    X = np.random.default_rng(3).normal(size=(40_000, 40)) + 1e9
    tracemalloc.start()
    assert len(warnings_of(lambda: warn_of_merged_values(X))) == 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes / 4


def test_lazy_frames_are_refused_in_words():
    lazy = (
        pytest.importorskip("polars").DataFrame({"a": [0.0, 1.0, 2.0], "b": [1.0, 0.0, 1.0]}).lazy()
    )
    model = SAMMEClassifier(n_estimators=1).fit([[0, 1], [1, 0], [2, 1]], [0, 1, 1])
    for predict in (model.predict, model.model_.predict):
        with pytest.raises(TypeError, match=r"X is a lazy frame.*use X.collect\(\)"):
            predict(lazy)
