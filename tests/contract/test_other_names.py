"""Parameters by the names that other libraries give them: refused with the name to write."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli.programs import environment
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pymcboost import (
    HingeBoostOCClassifier,
    MCBoostClassifier,
    SAMMEClassifier,
    VectorTreeBoostClassifier,
    registry,
)
from pymcboost.training.other_names import NAMES
from pymcboost.training.parameters import parameters

X = np.random.default_rng(0).normal(size=(30, 2))
y = np.arange(30) % 3
CLASSES = {entry.name: registry.load(entry) for entry in registry.ALGORITHMS.values()}


def names_of(cls):
    return {*parameters(cls), *inspect.signature(cls.fit).parameters} - {"self"}


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("num_leaves", "use max_leaf_nodes"),
        ("max_iter", "use n_estimators"),
        ("num_boost_round", "use n_estimators"),
        ("eta", "use learning_rate"),
        ("reg_lambda", "use l2_regularization"),
        ("l2_leaf_reg", "use l2_regularization"),
        ("reg_alpha", "no L1 penalty"),
        ("min_child_samples", "use min_samples_leaf"),
        ("min_child_weight", "use min_samples_leaf"),
        ("colsample_bytree", "use max_features_tree"),
        ("bagging_freq", "use subsample; if it is below 1, rows are drawn anew"),
        ("eval_metric", "use scoring"),
        ("early_stopping_rounds", "use n_iter_no_change; it takes effect with early_stopping=True"),
        ("categorical_feature", "use categorical_features"),
        ("enable_categorical", 'categorical_features="from_dtype"'),
        ("monotone_constraints", "use monotonic_cst"),
        ("scale_pos_weight", 'class_weight="balanced"'),
        ("num_class", "the classes are taken from y"),
        ("device", "training runs on CPUs"),
        ("n_estimator", "did you mean n_estimators?"),
        (
            "eval_set",
            "give fit a validation set as X_val and y_val, with early_stopping=True if it is to end the "
            "training, and others as validation_sets",
        ),
        ("callbacks", "use callbacks of fit"),
    ],
)
def test_constructors_answer_with_the_name_here(name, answer):
    message = (
        rf"^VectorTreeBoostClassifier\.__init__\(\) got an unexpected keyword argument '{name}'; .*"
    )
    with pytest.raises(TypeError, match=message + re.escape(answer)):
        VectorTreeBoostClassifier(**{name: 1})
    message = f"^Invalid parameter '{name}' for estimator VectorTreeBoostClassifier; .*"
    with pytest.raises(ValueError, match=message + re.escape(answer)):
        VectorTreeBoostClassifier().set_params(**{name: 1})


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        (
            "eval_set",
            "give fit a validation set as X_val and y_val, with early_stopping=True if it is to end the "
            "training, and others as validation_sets={name: (X, y)}",
        ),
        ("eval_metric", "use scoring of the constructor"),
        (
            "early_stopping_rounds",
            "use n_iter_no_change of the constructor; it takes effect with early_stopping=True",
        ),
        ("categorical_feature", "use categorical_features of the constructor"),
        ("verbose", "use verbose of the constructor"),
        ("early_stopping", "use early_stopping of the constructor"),
        ("feature_name", "names come from the columns of a data frame"),
        ("eval_sample_weight", "use sample_weight_val"),
        ("base_margin", "use init_score"),
        ("xgb_model", "use init_model"),
        ("X_vall", "did you mean X_val?"),
    ],
)
def test_fit_answers_with_the_name_here(name, answer):
    message = rf"^MCBoostClassifier\.fit\(\) got an unexpected keyword argument '{name}'; "
    with pytest.raises(TypeError, match=message + re.escape(answer) + "$"):
        MCBoostClassifier().fit(X, y, **{name: 1})


def test_all_unknown_names_are_refused_at_once():
    names = {"num_leaves": 3, "eta": 1, "bogus": 2}
    listed = r"\n  'num_leaves': use max_leaf_nodes\n  'eta': use learning_rate\n  'bogus'$"
    trees = VectorTreeBoostClassifier()
    with pytest.raises(TypeError, match=r"__init__\(\) got unexpected keyword arguments:" + listed):
        VectorTreeBoostClassifier(**names)
    with pytest.raises(ValueError, match=r"^Invalid parameters for estimator Vector\w+:" + listed):
        trees.set_params(**names, n_estimators=3)
    with pytest.raises(
        TypeError,
        match=r"fit\(\) got unexpected keyword arguments:\n  'eval_metric': use scoring of .*\n  'bogus'$",
    ):
        trees.fit(X, y, eval_metric="error", bogus=1)
    trees.set_params(n_estimators=3).fit(X, y)
    with pytest.raises(
        TypeError,
        match=r"predict\(\) got .* arguments:\n  'raw_score': use decision_function.*\n  'a'$",
    ):
        trees.predict(X, raw_score=True, a=1)


def test_what_an_algorithm_does_not_have_is_said():
    with pytest.raises(
        TypeError,
        match="it is called learning_rate here, but SAMMEClassifier does not have it; MCBoost",
    ):
        SAMMEClassifier(eta=0.1)
    with pytest.raises(
        TypeError, match="'categorical_features'; encode the categories as numbers .*OneHotEncoder"
    ):
        HingeBoostOCClassifier(categorical_features=[0])
    with pytest.raises(
        TypeError,
        match="it is called categorical_features here, but .* does not have it; encode the",
    ):
        SAMMEClassifier(cat_features=[0])
    with pytest.raises(TypeError, match="'zzz'$"):
        SAMMEClassifier(zzz=1)


def test_an_unknown_name_is_answered_and_the_class_is_the_users():
    class Mine(MCBoostClassifier):
        pass

    with pytest.raises(
        TypeError, match=r"^Mine\.__init__\(\) got .* 'max_iter'; use n_estimators$"
    ):
        Mine(n_estimators=3, max_iter=2)


def test_searches_and_pipelines_answer_too():
    with pytest.raises(ValueError, match="Invalid parameter 'num_leaves' .*; use max_leaf_nodes"):
        GridSearchCV(
            MCBoostClassifier(n_estimators=2), {"num_leaves": [4]}, cv=2, error_score="raise"
        ).fit(X, y)
    steps = make_pipeline(StandardScaler(), MCBoostClassifier())
    with pytest.raises(ValueError, match="Invalid parameter 'num_leaves' .*; use max_leaf_nodes"):
        steps.set_params(mcboostclassifier__num_leaves=4)
    with pytest.raises(TypeError, match="'eval_set'; give fit a validation set as X_val"):
        steps.fit(X, y, mcboostclassifier__eval_set=[(X, y)])


def test_every_name_in_the_table_is_a_parameter_here():
    every = set().union(*map(names_of, CLASSES.values()))
    assert len(NAMES) > 60
    for name, (here, remark) in NAMES.items():
        assert {*here} <= every, name
        assert here or remark
        for cls in re.findall(r"\w+Classifier", remark):  # that "have it"
            assert name in names_of(CLASSES[cls]), (name, cls)


@pytest.mark.parametrize("cls", CLASSES.values(), ids=CLASSES)
def test_names_are_answered_wherever_they_are_unknown(cls):
    for name in NAMES:
        if name not in parameters(cls):
            with pytest.raises(TypeError, match=f"'{name}'; "):
                cls(**{name: 1})


def test_the_table_is_loaded_for_errors_alone():
    code = """
import sys
from pymcboost.registry import get_plain_class  # without scikit-learn, which takes a second to load
get_plain_class("mcboost")()
print("pymcboost.training.other_names" in sys.modules)
"""
    completed = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert completed.stdout == "False\n"


def test_the_constructor_shows_its_parameters():
    shown = inspect.signature(VectorTreeBoostClassifier)
    assert list(shown.parameters)[:1] and set(shown.parameters) == {
        *parameters(VectorTreeBoostClassifier)
    }
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in shown.parameters.values())


def test_the_table_of_the_guide_says_what_the_errors_say():
    """The parameters in docs/guide/migration.md have the names that the errors answer."""
    page = (Path(__file__).parents[2] / "docs" / "guide" / "migration.md").read_text()
    table = page.split("\n## ")[1]
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", table, re.MULTILINE)
    assert len(rows) > 20
    for first, others in rows:
        here = set(re.findall(r"`(\w+)`", first))
        for name in set(re.findall(r"`(\w+)`", others)) - here:
            assert here & set(NAMES[name][0]), name
