"""scikit-learn's own checks of every algorithm: with five rounds, and with the defaults alone where --long is given.

A check that is passed with other parameters only says so in its name, and in a table of tests/README.md. After a
change, write the table again::

    PYTHONPATH=.:tests python tests/contract/test_sklearn_checks.py
"""

import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest
from contract.variants import ALGORITHMS, all_rows
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

from pymcboost.algorithms.papers._classic import ClassicBooster
from pymcboost.algorithms.papers.gradboost import GradBoost
from pymcboost.registry import ALGORITHMS as REGISTRY
from pymcboost.registry import get_class

# Those that the quick run checks: they have every tag and lack every tag that tells scikit-learn what is taken.
QUICK = ("adaboost-mh", "hingeboost-rbf", "vector-tree")
ROUNDS = {"5": "five rounds", "defaults": "defaults"}
PAGE = Path(__file__).parents[1] / "README.md"


class Other(NamedTuple):
    """Parameters with which a check is passed, whose, and why not with those under test."""

    check: str
    why: str
    of: object
    parameters: object


def learner(estimator):
    return estimator.get_params().get("weak_learner")


CLASS_WEIGHT = "check_class_weight_classifiers"
# Where several apply to an estimator, the later ones count.
OTHERS = [
    Other(
        CLASS_WEIGHT,
        "Trees fit separable rows at last, however little they weigh. scikit-learn's `GradientBoostingClassifier` with "
        "200 rounds does not pass, either.",
        lambda estimator: learner(estimator) != "stump",
        parameters=lambda estimator: {"n_estimators": min(estimator.n_estimators, 50)},
    ),
    Other(
        CLASS_WEIGHT,
        "Coefficients that are optimised again and again, with next to no penalty, fit all rows.",
        lambda estimator: hasattr(estimator, "C"),
        parameters=lambda estimator: {"C": 100.0},
    ),
    Other(
        CLASS_WEIGHT,
        "Stumps without shrinkage fit all rows in hundreds of rounds, and bounded steps are far from anything in five.",
        lambda estimator: issubclass(estimator.booster, (ClassicBooster, GradBoost)),
        parameters=lambda estimator: {"n_estimators": 30},
    ),
    Other(
        CLASS_WEIGHT,
        "Classification trees fit all rows at once, unless they have next to no leaves and rounds.",
        lambda estimator: learner(estimator) == "tree",
        parameters=lambda estimator: {"n_estimators": 3, "max_leaf_nodes": 2},
    ),
    Other(
        "check_classifiers_train",
        "Five votes with coefficients of one size tell few classes apart.",
        lambda estimator: estimator.algorithm in ("adaboost-mh", "adaboost-oc"),
        parameters=lambda estimator: {"n_estimators": max(estimator.n_estimators, 30)},
    ),
    Other(
        "check_sample_weight_equivalence",
        "In hundreds of rounds on these 15 rows, the last bit of a coefficient shows.",
        lambda estimator: estimator.algorithm in ("adaboost-ecc", "adaboost-erp"),
        parameters=lambda estimator: {"n_estimators": min(estimator.n_estimators, 100)},
    ),
    Other(
        "check_sample_weight_equivalence",
        "Rows are drawn, and put into folds, by their numbers: a row of weight 2 is not two rows.",
        lambda estimator: (
            estimator.algorithm
            in ("vector-tree", "logitboost", "mart", "abc-logitboost", "abc-mart")
        ),
        parameters=lambda estimator: all_rows(type(estimator)),
    ),
]


def other_parameters(check, estimator):
    """(parameters that replace those under test, why)."""
    parameters = {}
    why = ""
    for other in OTHERS:
        if check.startswith(other.check) and other.of(estimator):
            new = {
                k: v
                for k, v in other.parameters(estimator).items()
                if estimator.get_params()[k] != v
            }
            parameters = parameters | new
            why = other.why if new else why
    return parameters, why


def checks(quick=False):
    """(name of the estimator, its rounds in words, estimator, name of the check, check, parameters, why)."""
    for name, cls in {**ALGORITHMS, **{name: get_class(name) for name in REGISTRY}}.items():
        for rounds, made in zip(ROUNDS, (cls(n_estimators=5), cls()), strict=True):
            if (rounds == "5" and name in QUICK) if quick else (rounds == "5" or name in REGISTRY):
                for estimator, check in estimator_checks_generator(made):
                    what = getattr(check, "func", check).__name__
                    yield name, rounds, estimator, what, check, *other_parameters(what, estimator)


def cases(quick):
    for name, rounds, estimator, what, check, parameters, _ in checks(quick):
        words = "".join(f"-with-{key}={value}" for key, value in parameters.items())
        left_out = rounds == "defaults" or name not in QUICK
        marks = [pytest.mark.slow] if left_out else []
        yield pytest.param(
            estimator, check, parameters, id=f"{name}-{rounds}-{what}{words}", marks=marks
        )


def pytest_generate_tests(metafunc):
    """The quick run does not even collect the thousands of checks that it leaves out."""
    if "check" in metafunc.fixturenames:
        quick = not (metafunc.config.option.long or metafunc.config.option.markexpr)
        metafunc.parametrize(("estimator", "check", "parameters"), list(cases(quick)))


def test_scikit_learn_check(estimator, check, parameters):
    check(clone(estimator).set_params(**parameters))


def table():
    """Lines of the table: one for each check, set of parameters and reason."""
    found = defaultdict(lambda: defaultdict(list))
    for name, rounds, _, what, _, parameters, why in checks():
        if parameters:
            words = ", ".join(f"`{key}={value}`" for key, value in parameters.items())
            found[what, words, why][rounds].append(f"`{name}`")
    lines = ["| check | of | passed with | why |", "|---|---|---|---|"]
    for (what, words, why), names in found.items():
        of = "; ".join(
            f"{ROUNDS[rounds]}: {', '.join(dict.fromkeys(some))}" for rounds, some in names.items()
        )
        lines.append(f"| `{what}` | {of} | {words} | {why} |")
    return "\n".join(lines) + "\n"


MARKED = re.compile(r"(?<=<!-- other parameters -->\n\n)(?:\|.*\n)*")


def test_page_has_the_table():
    assert MARKED.search(PAGE.read_text())[0] == table(), (
        "the top of this file says how to write it again"
    )


if __name__ == "__main__":
    PAGE.write_text(MARKED.sub(lambda _: table(), PAGE.read_text()))
