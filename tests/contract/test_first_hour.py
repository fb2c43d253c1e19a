"""What users of LightGBM write in their first hour here, and the words of the answer that help."""

import inspect
import re
import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics import accuracy_score

import pymcboost
import pymcboost.inspection
from pymcboost import (
    HingeBoostOCClassifier,
    MCBoostClassifier,
    ModelFormatError,
    VectorTreeBoostClassifier,
    load_model,
)
from pymcboost.training import other_names
from pymcboost.training.parameters import parameters

pandas = pytest.importorskip("pandas")

y = np.arange(60) % 3
X = np.random.default_rng(0).normal(size=(60, 3)) + y[:, None]
FRAME = pandas.DataFrame(X, columns=["age", "fuel", "speed"])
TREES = VectorTreeBoostClassifier
LIGHTGBM = (
    "tree\nversion=v4\nnum_class=3\nnum_tree_per_iteration=3\nlabel_index=0\nmax_feature_idx=2\n"
)


def fitted():
    return TREES(n_estimators=3, random_state=0).fit(FRAME, y)


class EarlyStopping:
    """As LightGBM's: called with what it names the environment."""

    def __call__(self, env):
        pass


def plain():
    return TREES(n_estimators=3, random_state=0).fit(X, y)


def weighted(row, weight):
    return np.where(np.arange(60) == row, weight, 1.0)


# The call, the kind of its error, and the words.
MISTAKES = {
    "num_leaves": (lambda: TREES(num_leaves=31), TypeError, "'num_leaves'; use max_leaf_nodes"),
    "a dictionary of parameters": (
        lambda: TREES({"num_leaves": 31}), TypeError, r"only keyword arguments: .*, or \*\*params for a dict",
    ),
    "objective": (lambda: TREES(objective="multiclass"), TypeError, "'objective'; use loss; every algorithm is a"),
    "boosting_type": (lambda: TREES(boosting_type="gbdt"), TypeError, "'boosting_type'; every algorithm is a class"),
    "num_class": (lambda: TREES(num_class=3), TypeError, "'num_class'; the classes are taken from y"),
    "min_child_samples": (
        lambda: MCBoostClassifier(min_child_samples=20), TypeError,
        "it is called min_samples_leaf here, but MCBoostClassifier does not have it; VectorTreeBoostClassifier",
    ),
    "no bound": (
        lambda: TREES(max_depth=-1).fit(X, y), ValueError,
        "max_depth=-1 is not allowed; .* or None; max_depth=None means no limit",
    ),
    "silence": (
        lambda: TREES(verbose=-1).fit(X, y), ValueError,
        "verbose=-1 is not allowed; .* integer >= 0, True or False; verbose=0 is silent",
    ),
    "many bins": (lambda: TREES(max_bins=1023).fit(X, y), ValueError, "max_bins=1023 is not allowed; .* to 256"),
    "metric": (
        lambda: TREES(scoring="multi_logloss").fit(X, y), ValueError,
        "scoring='multi_logloss' is not allowed; it must be one of 'log_loss', 'error'",
    ),
    "monotone list": (
        lambda: TREES(monotonic_cst=[1, 0, 0]).fit(X, y), ValueError, r"must be {column: \(class label, \+1 or -1\)}",
    ),
    "eval_set": (
        lambda: TREES().fit(X, y, eval_set=[(X, y)]), TypeError,
        "'eval_set'; give fit a validation set as X_val and y_val",
    ),
    "eval_metric": (lambda: TREES().fit(X, y, eval_metric="auc"), TypeError, "use scoring of the constructor"),
    "early_stopping_rounds": (
        lambda: TREES().fit(X, y, early_stopping_rounds=10), TypeError,
        "use n_iter_no_change of the constructor; it takes effect with early_stopping=True",
    ),
    "early_stopping=10": (
        lambda: TREES(early_stopping=10).fit(X, y), ValueError,
        "early_stopping=10 is not allowed; .* True or False; n_iter_no_change=10 sets the patience",
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
        "column 'age': .* is a date or a time .*; give the time since a reference date",
    ),
    "infinity": (
        lambda: TREES().fit(FRAME.assign(age=np.inf), y), ValueError,
        r"column 'age': inf is infinite \(row 0\); clip it, or use NaN",
    ),
    "one column twice": (
        lambda: TREES().fit(pandas.concat([FRAME, FRAME[["age"]]], axis=1), y), ValueError,
        "X has 2 columns named 'age'",
    ),
    "no label": (
        lambda: TREES().fit(X, np.where(y == 0, np.nan, y)), ValueError, "y has no label in row 0; leave out rows",
    ),
    "regression": (lambda: TREES().fit(X, X[:, 0]), ValueError, "continuous"),
    "one class": (lambda: TREES().fit(X, 0 * y), ValueError, "at least 2 classes .* has 1 class"),
    "a pair for X_val": (lambda: TREES().fit(X, y, X_val=(X, y)), ValueError, "X_val is given without y_val; give"),
    "group sizes": (
        lambda: TREES().fit(X, y, groups=[30, 30]), ValueError, "groups must be one number or text for each of 60 rows",
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
    "names of metrics in a list": (
        lambda: TREES(scoring=["multi_logloss", "multi_error"]).fit(X, y), ValueError,
        r"scoring\[0\]='multi_logloss' is not allowed; .*; 'multi_logloss' in other libraries is 'log_loss' here",
    ),
    "area": (lambda: TREES(scoring="auc").fit(X, y), ValueError, "'auc' in other libraries is 'auc_ovr' here"),
    "loss by its name": (
        lambda: TREES(loss="multiclass").fit(X, y), ValueError,
        "one of 'softmax', 'logistic' .*; 'multiclass' in other libraries is 'softmax' here",
    ),
    "loss by a name that is of no use": (
        lambda: MCBoostClassifier(loss="multiclass").fit(X, y), ValueError, "it must be one of 'exp', 'log'$",
    ),
    "function of three as a loss": (
        lambda: TREES(loss=lambda y, scores, weight: (scores, scores)).fit(X, y), ValueError,
        r"is not callable; a loss is a function of \(y, scores\) that returns \(gradient, hessian\)",
    ),
    "metric of labels as scoring": (
        lambda: TREES(scoring=accuracy_score).fit(X, y, X_val=X, y_val=y), ValueError,
        r"cannot be called with \(estimator, X, y\); .*larger for better. sklearn.metrics.make_scorer converts",
    ),
    "feval": (
        lambda: TREES(n_estimators=1, scoring=lambda *_: ("own", 0.5, False)).fit(X, y, X_val=X, y_val=y), ValueError,
        r"returns \('own', 0.5, False\) for the validation set 'val'; .* number, larger .*scoring=\{name: func",
    ),
    "verbose of fit": (
        lambda: TREES().fit(X, y, verbose=10), TypeError,
        r"VectorTreeBoostClassifier.fit\(\) .* 'verbose'; use verbose of the constructor",
    ),
    "text in an array": (
        lambda: TREES().fit(np.array([["gas", 1, 2]] * 60, dtype=object), y), ValueError,
        r"column 0: 'gas' is text \(row 0\); name the column in categorical_features, .* or encode it as numbers",
    ),
    "text at predict": (
        lambda: fitted().predict(FRAME.assign(fuel="gas")), ValueError,
        r"column 'fuel': 'gas' is text \(row 0\); if this column held categories in training, give a data frame",
    ),
    "one-hot labels": (
        lambda: TREES().fit(X, np.eye(3)[y]), ValueError,
        r"needs one class per row here, but y has the shape \(60, 3\); for one-hot rows give y.argmax\(axis=1\);",
    ),
    "several columns of labels": (
        lambda: TREES().fit(X, np.stack([y, y], axis=1)), ValueError,
        r"needs one class per row here, but y has the shape \(60, 2\); for multi-label data use",
    ),
    "labels of other rows": (
        lambda: TREES().fit(X, y[:50]), ValueError, "X has 60 rows, but y has 50 labels; give each row a label",
    ),
    "no labels": (lambda: TREES().fit(X), ValueError, "VectorTreeBoostClassifier .*requires y to be passed"),
    "labels that are None": (
        lambda: TREES().fit(X, [None] * 60), ValueError, "labels of the types NoneType, .*; convert all to text or",
    ),
    "list of validation sets": (
        lambda: TREES().fit(X, y, validation_sets=[(X, y)]), ValueError,
        r"validation_sets must be a dict from names to \(X, y\), .*, as in {'test': \(X, y\)}, not list",
    ),
    "validation set without labels": (
        lambda: TREES().fit(X, y, validation_sets={"test": X}), ValueError,
        r"validation_sets\['test'\] must be \(X, y\), \(X, y, sample_weight\) or",
    ),
    "lists as X_val and y_val": (
        lambda: TREES().fit(X, y, X_val=[X], y_val=[y]), ValueError,
        r"X_val is a list; give one validation set .*, and others as validation_sets={name: \(X, y\)}",
    ),
    "validation rows of other columns": (
        lambda: TREES().fit(X, y, X_val=X[:, :2], y_val=y), ValueError,
        "validation set 'val': X has 2 features, but .* is expecting 3 features as input; give the columns of the",
    ),
    "validation labels of other rows": (
        lambda: TREES().fit(X, y, X_val=X[:9], y_val=y), ValueError, "'val': X has 9 rows, but y has 60 labels; give",
    ),
    "a validation set without names": (
        lambda: TREES().fit(X, y, X, y), ValueError,
        r"sample_weight, the third argument of fit, has shape \(60, 3\), as rows have; .* by name: fit\(X, y, X_val=",
    ),
    "validation rows without labels": (
        lambda: TREES().fit(X, y, X_val=X), ValueError, "X_val is given without y_val; give both, or neither",
    ),
    "validation labels without rows": (
        lambda: TREES().fit(X, y, y_val=y), ValueError, "y_val is given without X_val; give both, or neither",
    ),
    "validation labels as text": (
        lambda: TREES().fit(X, y, X_val=X, y_val=y.astype(str)), ValueError,
        "none of the labels in y_val occurs in y .*; use the same labels in both",
    ),
    "a negative weight": (
        lambda: TREES().fit(X, y, sample_weight=weighted(7, -1)), ValueError,
        r"sample_weight\[7\] is -1; weights must be finite numbers >= 0, where 0 leaves a row out",
    ),
    "a missing weight": (
        lambda: TREES().fit(X, y, sample_weight=weighted(8, np.nan)), ValueError,
        r"sample_weight\[8\] is nan; weights must be finite numbers >= 0",
    ),
    "an infinite weight": (
        lambda: TREES().fit(X, y, sample_weight=weighted(9, np.inf)), ValueError, r"sample_weight\[9\] is inf; weights",
    ),
    "weights of other rows": (
        lambda: TREES().fit(X, y, sample_weight=np.ones(30)), ValueError,
        r"sample_weight has shape \(30,\); give one number >= 0 for each of 60 rows",
    ),
    "weights of validation rows": (
        lambda: TREES().fit(X, y, X_val=X, y_val=y, sample_weight_val=-np.ones(60)), ValueError,
        r"validation set 'val': sample_weight\[0\] is -1; weights must be finite numbers >= 0",
    ),
    "balanced weights": (
        lambda: TREES().fit(X, y, sample_weight="balanced"), ValueError,
        "sample_weight is a str; give one number >= 0 for each of 60 rows. To weight classes",
    ),
    "weights of classes": (
        lambda: TREES().fit(X, y, sample_weight={0: 2.0}), TypeError, "sample_weight is a dict; .*class_weight of the",
    ),
    "text as weights": (
        lambda: TREES().fit(X, y, sample_weight=["heavy"] * 60), ValueError, "not numbers; give one number",
    ),
    "weights of 0": (
        lambda: TREES().fit(X, y, sample_weight=np.zeros(60)), ValueError, "weights are zero; give a positive",
    ),
    "list as class_weight": (
        lambda: TREES(class_weight=[1, 2, 3]).fit(X, y), ValueError,
        r"class_weight=\[1, 2, 3\] is not allowed; .* 'balanced', a dict with the weight of each class label or None",
    ),
    "names of columns of an array": (
        lambda: TREES(categorical_features=["fuel"]).fit(X, y), ValueError,
        "there is no column 'fuel'; X has no column names; give column numbers, from 0, or 'from_dtype'",
    ),
    "categories that are no codes": (
        lambda: TREES(categorical_features=[0]).fit(X, y), ValueError,
        r"column 0 holds .*; .* must be integer codes from 0 to 65534. .* astype\('category'\)",
    ),
    "fewer features at predict": (
        lambda: plain().predict(X[:, :2]), ValueError,
        "X has 2 features, but VectorTreeBoostClassifier is expecting 3 features as input; give the columns of the",
    ),
    "more features of sparse rows": (
        lambda: plain().predict(scipy.sparse.csr_array(np.ones((2, 4)))), ValueError,
        "X has 4 features, but VectorTreeBoostClassifier is expecting 3 .*; give the columns of the training data",
    ),
    "fewer features of a model": (
        lambda: plain().model_.predict(X[:, :2]), ValueError,
        "X has 2 features, but the model was trained on 3; give the same columns in the same order",
    ),
    "a path in place of rows": (
        lambda: TREES().fit("train.csv", y), TypeError, "X is of type str; give rows of numbers: a NumPy array, a",
    ),
    "num_iteration": (
        lambda: plain().predict(X, num_iteration=2), TypeError,
        r"VectorTreeBoostClassifier.predict\(\) .* 'num_iteration'; model_.truncate\(rounds\).predict\(X\) uses",
    ),
    "iteration_range": (
        lambda: plain().predict_proba(X, iteration_range=(0, 2)), TypeError,
        r"VectorTreeBoostClassifier.predict_proba\(\) .*; model_.truncate\(rounds\).predict_proba\(X\) uses",
    ),
    "raw_score": (
        lambda: plain().predict(X, raw_score=True), TypeError, r"'raw_score'; use decision_function\(X\)",
    ),
    "pred_leaf": (lambda: plain().predict(X, pred_leaf=True), TypeError, r"'pred_leaf'; use apply\(X\)"),
    "pred_contrib": (
        lambda: plain().predict(X, pred_contrib=True), TypeError, "; use pymcboost.inspection.contributions or inter",
    ),
    "probabilities of machines": (
        lambda: HingeBoostOCClassifier(n_estimators=2).fit(X, y).predict_proba(X), AttributeError,
        'has no predict_proba: .*; set calibrate="temperature"',
    ),
    "best_iteration_": (
        lambda: plain().best_iteration_, AttributeError,
        "'VectorTreeBoostClassifier' object has no attribute 'best_iteration_'; use n_estimators_",
    ),
    "evals_result_": (lambda: plain().evals_result_, AttributeError, "'evals_result_'; use history_"),
    "booster_": (lambda: plain().booster_, AttributeError, "'booster_'; use model_"),
    "feature_name_": (lambda: plain().feature_name_, AttributeError, "'feature_name_'; use feature_names_in_"),
    "save_model": (lambda: plain().save_model("m"), AttributeError, r"'save_model'; use save\(path\)"),
    "train": (
        lambda: pymcboost.train({}, X), AttributeError, r"'train'; train with the fit\(X, y\) of",
    ),
    "LGBMClassifier": (lambda: pymcboost.LGBMClassifier(), AttributeError, r"train with the fit\(X, y\)"),
    "LGBMRegressor": (lambda: pymcboost.LGBMRegressor(), AttributeError, "; it has only classifiers"),
    "Booster": (lambda: pymcboost.Booster(model_file="m"), AttributeError, "; use load_model to read model files"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_answer_has_the_words_that_help(mistake):
    call, kind, words = MISTAKES[mistake]
    with pytest.raises(kind, match=words):
        call()


def test_what_no_library_has_is_refused_as_python_does():
    with pytest.raises(AttributeError, match="object has no attribute 'nothing'$"):
        plain().nothing  # noqa: B018
    with pytest.raises(AttributeError, match="module 'pymcboost' has no attribute 'nothing'$"):
        pymcboost.nothing  # noqa: B018
    with pytest.raises(
        TypeError, match=r"predict\(\) got an unexpected keyword argument 'nothing'$"
    ):
        plain().predict(X, nothing=1)
    assert not hasattr(plain(), "best_iteration_")
    for method in TREES.predict, TREES.predict_proba, MCBoostClassifier.predict_proba:
        assert [*inspect.signature(method).parameters] == ["self", "X", "init_score", "missing"]


def test_remedies_are_there():
    """What the answers name can be used."""
    model = plain()
    for names, remedy in other_names.OF_FITTED:
        match = re.match(r"use (?:pymcboost\.)?(\w+)", remedy)
        if match and names.split()[0] not in ("feature_name_", "n_classes_"):
            assert hasattr(model, match[1]) or hasattr(pymcboost, match[1]), remedy
    assert hasattr(fitted(), "feature_names_in_") and len(model.classes_) == 3
    for name in (
        "contributions",
        "interactions",
        "importance",
        "to_json",
        "to_text",
        "to_frame",
        "plot_history",
    ):
        assert callable(getattr(pymcboost.inspection, name))
    assert model.model_.truncate(2).predict(X).shape == model.apply(X).shape[:1] == (60,)
    assert callable(model.model_.with_early_exit) and model.n_jobs is None
    for parameter, values in other_names.VALUES.items():
        for here in values.values():
            assert parameters(TREES)[parameter].allows(here)


def test_training_rows_as_validation_set_are_warned_of():
    with pytest.warns(UserWarning, match="X_val is X: early stopping and the calibration"):
        TREES(n_estimators=2).fit(X, y, X_val=X, y_val=y)


def test_numbers_that_are_read_as_text_are_warned_of():
    numbers = [str(i) for i in range(len(FRAME) - 1)]
    with pytest.warns(UserWarning, match=r"'age' is text.*59 of its 60.*replace '\?' by NaN"):
        TREES(n_estimators=2).fit(FRAME.assign(age=[*numbers, "?"]), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TREES(n_estimators=2).fit(FRAME.assign(age=[*(f"no. {i}" for i in numbers), "?"]), y)
        text = FRAME.assign(age=pandas.Categorical([*numbers, "?"]))
        TREES(n_estimators=2).fit(text, y)


def test_patience_alone_does_not_stop_early():
    with pytest.warns(
        UserWarning, match="n_iter_no_change=5 has no effect without early stopping; set early"
    ):
        TREES(n_estimators=2, n_iter_no_change=5).fit(X, y)


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (LIGHTGBM.encode(), "model of LightGBM; read it with pymcboost.export.from_lightgbm"),
        (b"tree", "model of LightGBM"),
        (
            b'{"learner":{"attributes":{}}}',
            "model of XGBoost; read it with pymcboost.export.from_xgboost",
        ),
        (b"{L\0\0\0\0\0\0\0\x07learner{L", "model of XGBoost"),
        (b"PK\x03\x04" + bytes(99), "not a model file"),
    ],
)
def test_models_of_other_libraries_are_named(tmp_path, content, answer):
    (tmp_path / "model").write_bytes(content)
    for read in load_model, lambda path: TREES().fit(X, y, init_model=path):
        with pytest.raises(ModelFormatError, match=answer):
            read(tmp_path / "model")


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (
            y + (y == 2),
            "y_val: 20 of 60 rows have a label that does not occur in y (3); such rows always",
        ),
        (
            np.append(y[:-1], 7),
            "y_val: 1 of 60 rows has a label that does not occur in y (7); such rows always",
        ),
        (
            np.arange(60) - 6,
            "y_val: 57 of 60 rows have a label that does not occur in y (-6, -5, -4, -3, -2, ...); ",
        ),
    ],
)
def test_new_labels_of_validation_rows_are_named(labels, said):
    with pytest.warns(UserWarning, match=re.escape(said)):
        model = TREES(n_estimators=3, scoring="error").fit(X, y, X_val=X.copy(), y_val=labels)
    new = (~np.isin(labels, y)).mean()
    assert (model.history_["val_error"] >= new).all()
