"""Other labels for the same classes: the same scores, where neither ties nor rounding nor draws go by their order."""

import numpy as np
import pytest

from pymcboost import HingeBoostOCClassifier
from pymcboost._kernels import output_codes
from pymcboost.hinge import columns, rounds
from pymcboost.registry import get_class

SEEDS = range(12)
# Booster and weak learner. Trees of AdaBoost.M1 alone, as its stumps end at once with more classes.
EXACT = [
    *(
        (name, {})
        for name in (
            "mcboost",
            "logitboost",
            "mart",
            "abc-logitboost",
            "abc-mart",
            "adaboost-m1",
            "adaboost-m2",
        )
    ),
    *(
        (name, {"weak_learner": kind})
        for name in ("adaboost-mh", "adaboost-ml", "adaboost-mo", "gentleboost", "piboost", "samme")
        for kind in ("stump", "tree")
    ),
    ("jointboost", {}),
]
# The softmax adds float32 in the order of the classes, and L-BFGS-B its coefficients.
ROUNDED = [
    ("gradboost", {"weak_learner": "stump"}),
    ("gradboost", {"weak_learner": "tree"}),
    # Of one round: those after it may choose other learners, as their edges then differ by rounding.
    ("multiboost", {"solver": "lbfgs", "C": 100.0, "n_estimators": 1}),
    ("multiboost", {"loss": "log", "C": 100.0, "n_estimators": 1}),
    ("vector-tree", {"split_columns": None}),
]


def drawn(seed):
    """X, y, the new number of each class, and weights, without which splits and classes tie."""
    rng = np.random.default_rng(1000 + seed)
    n_classes = int(rng.integers(3, 6))
    n_rows = int(rng.choice([40, 90, 150]))
    X = (
        rng.integers(0, 4, (n_rows, 3)).astype(float)
        if seed % 3 == 0
        else rng.normal(size=(n_rows, 3))
    )
    y = np.floor(np.abs(X).sum(axis=1)).astype(int) + rng.integers(0, 2, n_rows) * rng.integers(
        0, n_classes, n_rows
    )
    y %= n_classes
    y[:n_classes] = np.arange(n_classes)
    turned = np.roll(np.arange(n_classes), 1)
    order = rng.permutation(n_classes)
    return (
        X,
        y,
        turned if (order == np.arange(n_classes)).all() else order,
        rng.uniform(0.5, 1.5, n_rows),
    )


def both(algorithm, params, seed, n_estimators=10):
    """Estimators trained on y and on the new numbers of its classes, and by how much their scores differ."""
    X, y, order, weight = drawn(seed)
    cls = get_class(algorithm)
    params = {"n_estimators": n_estimators, "calibrate": None, "n_jobs": 1} | params
    if "random_state" in cls().get_params():
        params["random_state"] = 0
    first, second = (cls(**params).fit(X, z, sample_weight=weight) for z in (y, order[y]))
    F = first.decision_function(X)
    apart = np.abs(F - second.decision_function(X)[:, order]).max()
    return first, second, apart / max(1, np.abs(F).max())


@pytest.mark.parametrize(("algorithm", "params"), EXACT)
def test_scores_do_not_depend_on_the_order_of_the_classes(algorithm, params):
    assert max(both(algorithm, params, seed)[2] for seed in SEEDS[:2]) < 1e-12


@pytest.mark.parametrize(("algorithm", "params"), ROUNDED)
def test_scores_depend_on_the_order_of_the_classes_by_rounding(algorithm, params):
    assert max(both(algorithm, params, seed)[2] for seed in SEEDS[:4]) < 1e-6


# Of one round: those after it may choose other learners, as its weights differ by the tolerance.
@pytest.mark.parametrize("algorithm", ["multiboost", "multiboost-cw"])
@pytest.mark.parametrize(("max_passes", "tolerance"), [(1000, 2e-6), (2, 0.02)])
def test_coordinate_descent_depends_on_the_order_of_the_classes_by_its_tolerance(
    algorithm, max_passes, tolerance
):
    apart = []
    for seed in SEEDS:
        params = {"C": 100.0, "max_passes": max_passes, "tol": 0.0}
        first, second, _ = both(algorithm, params, seed, n_estimators=1)
        objective, other = first.history_["objective"][-1], second.history_["objective"][-1]
        assert objective == pytest.approx(other, rel=tolerance)
        apart.append(abs(objective - other))
    assert max(apart) > 0, "no order any more: mend the docs"


def in_order(monkeypatch, order):
    """Have rounds of HingeBoost.OC take classes in the order that they have before ``order`` gives them new numbers."""
    recolour = output_codes.recolour
    one_vs_all = columns.one_vs_all
    back = np.argsort(order)

    def in_turn(rho, y, mu, g, allow_zero):
        column = np.ascontiguousarray(mu[order])
        found = recolour(
            np.ascontiguousarray(rho[:, order]), back[y].astype(np.int32), column, g, allow_zero
        )
        mu[order] = column
        return found

    monkeypatch.setattr(rounds.output_codes, "recolour", in_turn)
    monkeypatch.setattr(
        rounds.columns, "one_vs_all", lambda k, n_classes: one_vs_all(order[k], n_classes)
    )


@pytest.mark.filterwarnings("ignore:the mean hinge loss has hardly decreased")
def test_hingeboost_takes_the_classes_in_turn(monkeypatch):
    """Its first columns and its changes of colour go from class to class. With them in turn, scores are the same."""
    differ = 0
    for seed in SEEDS:
        X, y, order, _ = drawn(seed)
        params = {"n_estimators": 10, "scale": True, "tol": 1e-9, "C": 10.0, "random_state": 0}
        first, second = (HingeBoostOCClassifier(**params).fit(X, z) for z in (y, order[y]))
        with monkeypatch.context() as context:
            in_order(context, order)
            third = HingeBoostOCClassifier(**params).fit(X, order[y])
        F = first.decision_function(X)
        np.testing.assert_allclose(
            third.decision_function(X)[:, order], F, rtol=0, atol=1e-6, err_msg=str(seed)
        )
        differ += np.abs(second.decision_function(X)[:, order] - F).max() > 1e-2
    assert differ > 0, "no order any more: mend the docs"
