"""What users of LightGBM write in their first hour here, and the words of the answer that help."""

import numpy as np
import pytest

from pymcboost import MCBoostClassifier, ModelFormatError, VectorTreeBoostClassifier, load_model

pandas = pytest.importorskip("pandas")

y = np.arange(60) % 3
X = np.random.default_rng(0).normal(size=(60, 3)) + y[:, None]
FRAME = pandas.DataFrame(X, columns=["age", "fuel", "speed"])
TREES = VectorTreeBoostClassifier
LIGHTGBM = "tree\nversion=v4\nnum_class=3\nnum_tree_per_iteration=3\nlabel_index=0\nmax_feature_idx=2\n"


def fitted():
    return TREES(n_estimators=3, random_state=0).fit(FRAME, y)


class EarlyStopping:
    """As LightGBM's: called with what it names the environment."""

    def __call__(self, env):
        pass


# The call, the kind of its error, and the words.
MISTAKES = {
    "num_leaves": (lambda: TREES(num_leaves=31), TypeError, "'num_leaves'; use max_leaf_nodes"),
    "a dictionary of parameters": (
        lambda: TREES({"num_leaves": 31}), TypeError, r"parameters by name: .*, or \*\*params for those of a dict",
    ),
    "objective": (lambda: TREES(objective="multiclass"), TypeError, "'objective'; use loss; the class is the"),
    "boosting_type": (lambda: TREES(boosting_type="gbdt"), TypeError, "'boosting_type'; the class is the algorithm"),
    "num_class": (lambda: TREES(num_class=3), TypeError, "'num_class'; the classes are those of y"),
    "min_child_samples": (
        lambda: MCBoostClassifier(min_child_samples=20), TypeError,
        "it is min_samples_leaf here, which MCBoostClassifier does not have; VectorTreeBoostClassifier",
    ),
    "no bound": (lambda: TREES(max_depth=-1).fit(X, y), ValueError, "max_depth=-1 is not allowed; .* or None"),
    "silence": (lambda: TREES(verbose=-1).fit(X, y), ValueError, "verbose=-1 is not allowed; .* integer >= 0"),
    "many bins": (lambda: TREES(max_bins=1023).fit(X, y), ValueError, "max_bins=1023 is not allowed; .* <= 256"),
    "metric": (
        lambda: TREES(scoring="multi_logloss").fit(X, y), ValueError,
        "scoring='multi_logloss' is not allowed; it must be one of 'log_loss', 'error'",
    ),
    "monotone list": (
        lambda: TREES(monotonic_cst=[1, 0, 0]).fit(X, y), ValueError, r"must be {column: \(class label, \+1 or -1\)}",
    ),
    "eval_set": (
        lambda: TREES().fit(X, y, eval_set=[(X, y)]), TypeError,
        "'eval_set'; give fit the validation set as X_val, y_val",
    ),
    "eval_metric": (lambda: TREES().fit(X, y, eval_metric="auc"), TypeError, "use scoring of the constructor"),
    "early_stopping_rounds": (
        lambda: TREES().fit(X, y, early_stopping_rounds=10), TypeError,
        "use n_iter_no_change of the constructor; it counts with early_stopping=True",
    ),
    "early_stopping=10": (
        lambda: TREES(early_stopping=10).fit(X, y), ValueError, "early_stopping=10 is not allowed; .* True or False",
    ),
    "callbacks": (
        lambda: TREES().fit(X, y, callbacks=[EarlyStopping()]), TypeError,
        "has no method after_round.*LightGBM's early_stopping .* set early_stopping, n_iter_no_change",
    ),
    "categorical_feature": (
        lambda: TREES().fit(FRAME, y, categorical_feature=["fuel"]), TypeError,
        "use categorical_features of the constructor",
    ),
    "text": (
        lambda: TREES(categorical_features=None).fit(FRAME.assign(fuel="gas"), y), ValueError,
        r"column 'fuel': 'gas' is text \(row 0\); name the column in categorical_features",
    ),
    "dates": (
        lambda: TREES().fit(FRAME.assign(age=pandas.Timestamp("2026-01-01")), y), ValueError,
        "column 'age': .* is a date or a time .*; give the time since a date near it",
    ),
    "infinity": (
        lambda: TREES().fit(FRAME.assign(age=np.inf), y), ValueError,
        r"column 'age': inf is infinite \(row 0\); clip it, or use NaN",
    ),
    "one column twice": (
        lambda: TREES().fit(pandas.concat([FRAME, FRAME[["age"]]], axis=1), y), ValueError,
        "X has 2 columns with the name 'age'",
    ),
    "no label": (
        lambda: TREES().fit(X, np.where(y == 0, np.nan, y)), ValueError, "y has no label in row 0; leave out such rows",
    ),
    "regression": (lambda: TREES().fit(X, X[:, 0]), ValueError, "continuous"),
    "one class": (lambda: TREES().fit(X, 0 * y), ValueError, "at least 2 classes .* has 1 class"),
    "a pair for X_val": (lambda: TREES().fit(X, y, X_val=(X, y)), ValueError, "X_val and y_val go together: give both"),
    "group sizes": (
        lambda: TREES().fit(X, y, groups=[30, 30]), ValueError, "groups must be a number or a text for each of 60 rows",
    ),
    "not fitted": (lambda: TREES().predict(X), ValueError, "is not fitted yet"),
    "one row": (
        lambda: fitted().predict(FRAME.iloc[0]), ValueError, r"X is a Series of 3 .*frame.iloc\[\[i\]\] is one row",
    ),
    "another order": (
        lambda: fitted().predict(FRAME[["fuel", "age", "speed"]]), ValueError,
        r"(.|\n)*Give X\[model.feature_names_in_\]",
    ),
    "fewer columns": (
        lambda: fitted().model_.predict(FRAME[["age"]]), ValueError, "missing: 'fuel', 'speed'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_answer_has_the_words_that_help(mistake):
    call, kind, words = MISTAKES[mistake]
    with pytest.raises(kind, match=words):
        call()


def test_patience_alone_does_not_stop_early():
    with pytest.warns(UserWarning, match="n_iter_no_change=5 has no effect without early stopping; set early"):
        TREES(n_estimators=2, n_iter_no_change=5).fit(X, y)


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (LIGHTGBM.encode(), "model of LightGBM, which pymcboost.export.from_lightgbm reads"),
        (b"tree", "model of LightGBM"),
        (b'{"learner":{"attributes":{}}}', "model of XGBoost, which pymcboost.export.from_xgboost reads"),
        (b"{L\0\0\0\0\0\0\0\x07learner{L", "model of XGBoost"),
        (b"PK\x03\x04" + bytes(99), "not a model file"),
    ],
)
def test_models_of_other_libraries_are_named(tmp_path, content, answer):
    (tmp_path / "model").write_bytes(content)
    for read in load_model, lambda path: TREES().fit(X, y, init_model=path):
        with pytest.raises(ModelFormatError, match=answer):
            read(tmp_path / "model")
