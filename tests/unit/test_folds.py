"""Cross-validation inside a training: folds, curves, scores out of fold, and what is refused."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
)

from pymcboost import (
    MartClassifier,
    MCBoostClassifier,
    MultiBoostClassifier,
    SAMMEClassifier,
    VectorTreeBoostClassifier,
    threads,
)
from pymcboost.comm import ALONE
from pymcboost.registry import ALGORITHMS as REGISTRY
from pymcboost.registry import get_class
from pymcboost.training import folds, validation
from pymcboost.training.booster import Booster
from pymcboost.training.folds import held_scores, out_of_fold, splits
from pymcboost.training.training_set import TrainingSet
from pymcboost.training.validation import held_out


def some_rows(K=3, n=150, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, K, n)
    return rng.normal(size=(n, d)) + 0.8 * y[:, None] * rng.normal(size=d), y


def dataset_of(X, y, weight=None, groups=None):
    classes, codes = np.unique(y, return_inverse=True)
    weight = np.ones(len(y)) if weight is None else weight
    return TrainingSet(X, classes, codes, weight=weight, groups=groups)


# -- splits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_folds", [2, 3, 7])
def test_folds_are_stratified_and_hold_every_used_row_out_once(n_folds):
    X, y = some_rows()
    weight = np.random.default_rng(1).integers(0, 2, len(y)).astype(float)
    parts = splits(n_folds, dataset_of(X, y, weight), seed=4)
    used = np.flatnonzero(weight > 0)
    assert np.array_equal(np.sort(np.concatenate([held for _, held in parts])), used)
    for train, held in parts:
        assert np.array_equal(np.union1d(train, held), used)
        counts = np.bincount(y[held], minlength=3)
        assert np.abs(counts - np.bincount(y[used]) / n_folds).max() < 1
    again, others = (splits(n_folds, dataset_of(X, y, weight), seed) for seed in (4, 5))
    for i, (_, held) in enumerate(parts):
        assert np.array_equal(again[i][1], held)
        assert not np.array_equal(others[i][1], held)


@pytest.mark.parametrize("n_groups", [4, 30])
@pytest.mark.parametrize("scoring", ["error", "log_loss"])
def test_early_stopping_holds_out_whole_groups(scoring, n_groups, monkeypatch):
    X, y = some_rows()
    groups = np.random.default_rng(1).integers(0, n_groups, len(y))
    seen = []
    original = validation.held_out
    monkeypatch.setattr(
        validation,
        "held_out",
        lambda *args, **named: seen.append(original(*args, **named)) or seen[-1],
    )
    weight = np.repeat([0.0, 1.0], [20, 130])
    fit = VectorTreeBoostClassifier(
        n_estimators=2, early_stopping=True, scoring=scoring, calibrate=None
    ).fit
    fit(X, y, weight, groups=groups)
    (rows,) = seen
    rest = np.setdiff1d(np.arange(20, 150), rows)
    assert rows.min() >= 20 and not set(groups[rows]) & set(groups[rest])
    assert 8 <= len(rows) <= (20 if n_groups == 30 else 50)
    assert np.unique(y[rest]).tolist() == [0, 1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_groups_held_out_are_near_the_share_of_every_class(seed):
    # of one class each
    codes = np.repeat([0, 1], 500)
    groups = np.arange(1000) // 50
    rows = held_out(codes, np.ones(1000), 0.1, random_state=seed, groups=groups)
    assert np.bincount(codes[rows]).tolist() == [50, 50]
    codes = np.random.default_rng(seed).integers(0, 2, 1000)
    for sizes, expected in (
        ([99, 450, 451], {99}),
        ([20, 20, 20, 20, 460, 460], {60, 80}),
        ([490, 510], {490}),
    ):
        groups = np.repeat(np.arange(len(sizes)), sizes)
        assert (
            len(held_out(codes, np.ones(1000), 0.1, random_state=seed, groups=groups)) in expected
        )


def test_groups_that_cannot_be_held_out_are_refused():
    X, y = some_rows()
    new = VectorTreeBoostClassifier(n_estimators=2, early_stopping=True)
    with pytest.raises(ValueError, match="cannot set aside one of 3 groups"):
        new.fit(X, y, groups=y)
    with pytest.raises(
        ValueError, match="groups: .* use numbers for all rows, or text for all rows"
    ):
        new.fit(X, y, groups=np.where(y, "a", None))
    for early_stopping in True, False:
        with pytest.raises(
            ValueError, match="groups are used only with .* no X_val; leave them out"
        ):
            new.set_params(early_stopping=early_stopping).fit(X, y, X_val=X, y_val=y, groups=y)


@pytest.mark.parametrize(
    "params",
    [
        {"calibrate": "temperature"},
        {"early_stopping": True},
        {"n_estimators": "auto", "calibrate": None},
    ],
)
def test_wrong_groups_are_named_before_the_first_round(params, recwarn):
    X, y = some_rows()
    rounds = []
    model = VectorTreeBoostClassifier(**{"n_estimators": 2, "random_state": 0, **params})
    for wrong, message in (
        (np.zeros((150, 2)), r"groups must be .* each of 150 rows, but has shape \(150, 2\)"),
        ([(0, 1)] * 150, r"groups must be .* but has shape \(150, 2\)"),
        ([[0, 1], [2]] * 75, r"groups must be .* but has shape \(\)"),
        (y[1:], r"groups must be .* but has shape \(149,\)"),
        ([None] * 150, "groups: .* use numbers for all rows, or text for all rows"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, y, groups=wrong, callbacks=[SimpleNamespace(after_round=rounds.append)])
    assert not rounds and not recwarn
    assert model.fit(X, y, groups=np.arange(150)[:, None] // 5)


@pytest.mark.parametrize(
    "params", [{"calibrate": "temperature"}, {"n_estimators": "auto", "calibrate": None}]
)
def test_groups_for_a_splitter_of_ones_own_need_no_order(params, recwarn):
    X, y = some_rows()
    groups = np.array([None if i % 7 == 0 else i % 50 for i in range(150)], dtype=object)
    seen = []

    class Own(KFold):
        def split(self, X, y=None, groups=None):
            seen.append(groups)
            return super().split(X, y)

    model = VectorTreeBoostClassifier(**{"n_estimators": 2, "cv": Own(3), **params}).fit(
        X, y, groups=groups
    )
    assert seen and all(given.tolist() == groups.tolist() for given in seen) and not recwarn
    with pytest.raises(
        ValueError, match="groups: .* use numbers for all rows, or text for all rows"
    ):
        model.set_params(n_estimators=2, early_stopping=True).fit(X, y, groups=groups)


def test_groups_stay_together():
    X, y = some_rows()
    groups = np.random.default_rng(1).integers(0, 20, len(y))
    weight = np.repeat([0.0, 1.0], [40, 110])
    for cv in 4, GroupKFold(4), LeaveOneGroupOut():
        for train, test in splits(cv, dataset_of(X, y, weight, groups=groups), seed=0):
            assert not set(groups[train]) & set(groups[test])


@pytest.mark.parametrize("form", ["splitter", "list", "generator", "masks", "predefined"])
def test_splitters_and_iterables_are_taken(form):
    X, y = some_rows()
    expected = list(KFold(3, shuffle=True, random_state=0).split(X))
    fold_of_row = np.zeros(len(y), dtype=int)
    for fold, (_, test) in enumerate(expected):
        fold_of_row[test] = fold
    cv = {
        "splitter": KFold(3, shuffle=True, random_state=0),
        "list": expected,
        "generator": iter(expected),
        "masks": [(fold_of_row != fold, fold_of_row == fold) for fold in range(3)],
        "predefined": PredefinedSplit(fold_of_row),
    }[form]
    for (train, test), expected_fold in zip(splits(cv, dataset_of(X, y), 0), expected, strict=True):
        np.testing.assert_array_equal(train, expected_fold[0])
        np.testing.assert_array_equal(test, expected_fold[1])
    if form == "generator":
        with pytest.raises(
            ValueError, match="no folds left, because a generator can be used only once"
        ):
            splits(cv, dataset_of(X, y), 0)


def test_what_a_splitter_leaves_out_of_a_training_stays_out():
    X, y = some_rows(n=90)
    rows = np.arange(90)
    purged = [
        (np.setdiff1d(rows, np.arange(b - 5, b + 35)), np.arange(b, b + 30)) for b in (0, 30, 60)
    ]
    for (train, test), one in zip(splits(purged, dataset_of(X, y), 0), purged, strict=True):
        assert np.array_equal(train, one[0]) and np.array_equal(test, one[1])


def zero_in_fold(y):
    weight = np.ones(len(y))
    weight[:50] = 0
    return weight


ROWS = np.arange(150)
BAD = {
    "fewer-rows-than-folds": (
        151,
        {},
        "cv=151: there are only 150 rows; use at most that many folds",
    ),
    "few-rows-of-weight": (101, {"weight": zero_in_fold}, "cv=101: there are only 100 rows"),
    "few-of-every-class": (
        149,
        {},
        "cv=149: the largest class has only 55 rows; use at most that many folds",
    ),
    "classes-of-one-row": (
        2,
        {"y": lambda _: ROWS},
        "cv=2: the largest class has only 1 row; folds need",
    ),
    "few-groups": (
        4,
        {"groups": lambda y: np.arange(len(y)) % 2},
        "cv=4: Cannot have number of splits",
    ),
    "no-groups": (GroupKFold(3), {}, "cv=GroupKFold.*The 'groups' parameter should not be None"),
    "weights-zero-in-a-fold": (
        KFold(3),
        {"weight": zero_in_fold},
        "fold 0 holds out no row with positive weight",
    ),
    "weights-zero-in-a-training": (
        [(ROWS[:50], ROWS[50:])],
        {"weight": zero_in_fold},
        "trains on rows of 0 classes",
    ),
    "one-class": (
        KFold(2),
        {"y": lambda y: np.arange(150) // 75},
        "fold 0 trains on rows of 1 class, but needs at least 2",
    ),
    "drawn": (
        ShuffleSplit(30, random_state=0),
        {},
        r"row \d+ is held out \d+ times; every row may be held out at most once",
    ),
    "twice": (RepeatedKFold(n_splits=3, n_repeats=2), {}, "row 0 is held out 2 times"),
    "overlapping": (
        [(ROWS, ROWS[:75]), (ROWS, ROWS[75:])],
        {},
        "fold 0 trains on rows that it holds out",
    ),
    "repeated-row": (
        [(ROWS[75:], ROWS[[*range(75), 0]]), (ROWS[:75], ROWS[75:])],
        {},
        "row 0 is held out 2 times",
    ),
    "beyond": ([(ROWS[75:], ROWS[:75] + 100), (ROWS[:75], ROWS[75:])], {}, "is out of bounds"),
    "empty": ([], {}, "cv has no folds; give at least one pair"),
    "none-held-out": (
        PredefinedSplit([-1] * 150),
        {},
        "cv=PredefinedSplit.* has no folds; give at least one",
    ),
    "folds-of-other-rows": (
        PredefinedSplit(ROWS[:120] % 3),
        {},
        "assigns 120 rows to folds, but there are 150",
    ),
    "no-pairs": ([3, 4], {}, "cv: cannot unpack"),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_folds_of_no_use_are_refused(name):
    cv, more, message = BAD[name]
    X, y = some_rows()
    y = more["y"](y) if "y" in more else y
    given = {key: value(y) for key, value in more.items() if key != "y"}
    with pytest.raises(ValueError, match=message):
        splits(cv, dataset_of(X, y, **given), 0)
    with pytest.raises(ValueError, match=message):
        if "weight" in given:
            given["sample_weight"] = given.pop("weight")
        MartClassifier(n_estimators="auto", cv=cv).fit(X, y, **given)


# -- curves and scores -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(REGISTRY))
@pytest.mark.families("name")
def test_models_of_folds_are_those_of_trainings_without_the_rows(name, monkeypatch):
    """The slow twin: one fit for every fold, in which the rows held out weigh nothing, or are not there."""
    cls = get_class(name)
    X, y = some_rows()
    rate = (
        {"learning_rate": 0.2} if name == "vector-tree" else {}
    )  # at which models of folds take no larger steps
    estimator = cls(n_estimators=6, n_jobs=1, calibrate=None, **rate)
    dataset = dataset_of(X, y)
    scores, link = held_scores(estimator, dataset, 7, rounds=6, parts=splits(3, dataset, 7))
    monkeypatch.setattr(folds, "MOST_ROUNDS", 6)
    auto = out_of_fold(estimator, dataset, seed=7)
    original = cls._booster
    for i, (_, held) in enumerate(splits(3, dataset, 7)):
        assert (auto.fold[held] == i).all()
        monkeypatch.setattr(
            cls, "_booster", lambda self, draw=None, comm=ALONE, i=i: original(self, lambda: 7 + i)
        )
        rest = np.setdiff1d(np.arange(len(y)), held)

        def fit(n, rest=rest, held=held):
            rows = rest
            options = {}
            if vars(estimator).get("subsample") == "auto":  # draws go by the places of rows in X
                rows = np.arange(len(y))
                options = {"sample_weight": np.isin(np.arange(len(y)), rest)}
            return cls(n_estimators=n, n_jobs=1, **rate).fit(
                X[rows], y[rows], X_val=X[held], y_val=y[held], **options
            )

        model = fit(6)
        assert auto.link == link == model.model_.link
        curve = model.history_[f"val_{model.scoring}"]
        curve = np.append(curve, [curve[-1]] * (auto.curves.shape[1] - len(curve)))
        np.testing.assert_allclose(auto.curves[i], curve, rtol=1e-12)
        # Machines are rounded to float32 round by round, or as one.
        bound = 1e-6 if name == "hingeboost" else 1e-12
        for found, n in (scores, 6), (auto.scores, auto.best_round):
            np.testing.assert_allclose(
                found[held], fit(n).model_.raw_scores(X[held]), rtol=bound, atol=bound
            )


def test_where_probabilities_are_calibrated_the_curve_is_that_of_the_temperature():
    """The slow twin: the temperature of all rows held out, by a search on a grid; it moves the best round to later."""
    X, y = some_rows()
    estimator = VectorTreeBoostClassifier(n_estimators=6, learning_rate=0.1, min_relative_gain=0)
    dataset = dataset_of(X, y)
    auto = out_of_fold(estimator, dataset, seed=7)
    plain = out_of_fold(estimator.set_params(calibrate=None), dataset, seed=7)
    index = list(auto.rounds).index(auto.best_round)
    losses = []
    for temperature in np.geomspace(0.1, 50, 3000):
        z = auto.scores / temperature
        z -= z.max(axis=1, keepdims=True)
        losses.append(np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), dataset.codes])
    best = losses[int(np.mean(losses, axis=1).argmin())]
    found = [best[auto.fold == i].mean() for i in range(3)]
    np.testing.assert_allclose(auto.curves[:, index], found, rtol=0.02)
    same = min(auto.curves.shape[1], plain.curves.shape[1])
    assert (auto.curves.mean(axis=0)[:same] <= plain.curves.mean(axis=0)[:same] + 0.01).all()
    assert auto.best_round >= plain.best_round


@pytest.mark.parametrize(("rate", "rounds", "larger", "fewer"), [
    (0.1, 8, 0.2, 4), (0.1, 7, 0.2, 4), (0.15, 8, 0.2, 6), (0.01, 6, 0.02, 3), (0.2, 5, 0.2, 5), (0.7, 5, 0.7, 5),
    (0.1, 1, 0.2, 1), (5e-324, 2, 1e-323, 1),
])  # fmt: skip
def test_vector_trees_of_folds_take_larger_steps(rate, rounds, larger, fewer):
    """Twice the rate up to 0.2, and as many rounds fewer; rounds that are looked for are those of the rate itself."""
    X, y = some_rows(n=120)
    dataset = dataset_of(X, y)
    parts = splits(3, dataset_of(X, y), 3)
    scores, _ = held_scores(
        VectorTreeBoostClassifier(learning_rate=rate), dataset, 3, rounds=rounds, parts=parts
    )
    booster = VectorTreeBoostClassifier(learning_rate=rate)._booster()
    assert booster.speed_up(rounds) == fewer
    assert booster.learning_rate == pytest.approx(larger, rel=1e-12)
    expected, _ = held_scores(
        _Unhurried(learning_rate=booster.learning_rate), dataset, 3, rounds=fewer, parts=parts
    )
    np.testing.assert_array_equal(scores, expected)


class _Unhurried(VectorTreeBoostClassifier):
    class booster(VectorTreeBoostClassifier.booster):
        speed_up = Booster.speed_up


@pytest.mark.parametrize(
    "name", ["vector-tree", "mcboost", "multiboost", "adaboost-mo", "hingeboost"]
)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.part(3)
def test_nothing_depends_on_threads_and_steps(name, sparse, monkeypatch):
    X, y = some_rows(n=120)
    X = scipy.sparse.csr_matrix(np.where(X > 0.3, X, 0)) if sparse else X
    estimator = get_class(name)(n_iter_no_change=4, random_state=0)
    results = []
    fixed = []
    monkeypatch.setattr(threads, "SMALL_WORK", 0)
    monkeypatch.setattr(threads, "available_cpus", lambda: 3)
    for n_jobs, step, held_back in (
        (1, 8, 1 << 20),
        (3, 8, 1 << 20),
        (2, 1, 1 << 20),
        (3, 5, 1 << 20),
        (2, 8, 1),
    ):
        monkeypatch.setattr(folds, "STEP", step)
        monkeypatch.setattr(folds, "STEP_SCORES", held_back)
        results.append(out_of_fold(estimator.set_params(n_jobs=n_jobs), dataset_of(X, y), seed=3))
        fixed.append(
            held_scores(
                estimator, dataset_of(X, y), 3, rounds=4, parts=splits(3, dataset_of(X, y), 3)
            )[0]
        )
    for one in fixed[1:]:
        np.testing.assert_array_equal(one, fixed[0])
    for one in results[1:]:
        np.testing.assert_array_equal(one.scores, results[0].scores)
        np.testing.assert_array_equal(one.curves, results[0].curves)
        np.testing.assert_array_equal(one.rounds, results[0].rounds)
        assert (one.best_round, one.n_estimators) == (
            results[0].best_round,
            results[0].n_estimators,
        )


@pytest.mark.parametrize(
    ("scoring", "best"), [("log_loss", np.argmin), ("auc_ovr", np.argmax), ("accuracy", np.argmax)]
)
def test_the_best_round_is_that_of_the_mean_curve(scoring, best):
    X, y = some_rows(n=300)
    estimator = VectorTreeBoostClassifier(
        learning_rate=0.2, scoring=scoring, n_iter_no_change=6, random_state=0
    )
    out_of_fold_scores = out_of_fold(estimator, dataset_of(X, y), seed=3)
    mean = out_of_fold_scores.curves.mean(axis=0)
    rounds = out_of_fold_scores.rounds
    assert out_of_fold_scores.best_round == rounds[best(mean)]
    waits = rounds - out_of_fold_scores.best_round >= np.maximum(6, rounds / 3)
    assert waits[-1] and not waits[:-1].any()
    steps = np.diff(np.concatenate(([0], rounds)))
    np.testing.assert_array_equal(steps, np.maximum(1, (rounds - steps) // 16))
    assert out_of_fold_scores.n_estimators == round(out_of_fold_scores.best_round * 1.5**0.5)
    fixed, _ = held_scores(
        estimator,
        dataset_of(X, y),
        3,
        rounds=out_of_fold_scores.best_round,
        parts=splits(3, dataset_of(X, y), 3),
    )
    np.testing.assert_allclose(fixed, out_of_fold_scores.scores, rtol=1e-12)


def test_no_more_rounds_than_the_most_are_tried(monkeypatch):
    monkeypatch.setattr(folds, "MOST_ROUNDS", 11)
    X, y = some_rows(n=300)
    out_of_fold_scores = out_of_fold(
        MCBoostClassifier(learning_rate=0.01), dataset_of(X, y), seed=3
    )
    assert out_of_fold_scores.curves.shape == (3, 11)
    assert out_of_fold_scores.best_round == 11
    assert MCBoostClassifier(learning_rate=0.01, n_estimators="auto").fit(X, y).n_estimators_ == 13


def test_min_delta_ends_the_wait_but_keeps_the_best():
    X, y = some_rows(n=300)
    given = {"learning_rate": 0.05, "n_iter_no_change": 5, "random_state": 0}
    free = MartClassifier(n_estimators="auto", **given).fit(X, y)
    hasty = MartClassifier(n_estimators="auto", min_delta=0.1, **given).fit(X, y)
    n = len(hasty.cv_results_["rounds"])
    assert n < len(free.cv_results_["rounds"])
    np.testing.assert_array_equal(hasty.cv_results_["mean"], free.cv_results_["mean"][:n])
    best = np.argmin(hasty.cv_results_["mean"])
    assert hasty.cv_results_["best_round"] == hasty.cv_results_["rounds"][best]


def test_a_model_that_ends_by_itself_waits_for_the_others(monkeypatch):
    monkeypatch.setattr(folds, "MOST_ROUNDS", 9)
    X, y = some_rows(n=60)
    X[:20] = (
        np.eye(3)[y[:20]] @ np.random.default_rng(0).normal(size=(3, 4)) * 9
    )  # two folds of three are not easy
    parts = [(np.arange(20), np.arange(20, 60)), (np.arange(20, 60), np.arange(20))]
    estimator = SAMMEClassifier(weak_learner="tree", cv=parts, max_leaf_nodes=3, n_iter_no_change=9)
    out_of_fold_scores = out_of_fold(estimator, dataset_of(X, y), seed=0)
    assert out_of_fold_scores.curves.shape == (2, 9)
    assert out_of_fold_scores.rounds.tolist() == list(range(1, 10))
    assert len(np.unique(out_of_fold_scores.curves[0])) == 1
    assert len(np.unique(out_of_fold_scores.curves[1])) > 1
    fixed, _ = held_scores(estimator, dataset_of(X, y), 0, rounds=9, parts=parts)
    model = SAMMEClassifier(weak_learner="tree", max_leaf_nodes=3, n_estimators=9).fit(
        X[:20], y[:20]
    )
    assert model.n_estimators_ == 1
    np.testing.assert_allclose(fixed[20:], model.model_.raw_scores(X[20:]), rtol=1e-12)


def test_without_anything_to_learn_one_round_is_asked_for():
    X = np.ones((36, 2))
    y = np.arange(36) % 3
    out_of_fold_scores = out_of_fold(MCBoostClassifier(), dataset_of(X, y), seed=0)
    assert out_of_fold_scores.best_round == 1
    assert out_of_fold_scores.curves.shape == (3, 0)
    assert not out_of_fold_scores.scores.any()
    dataset = dataset_of(X, y)
    for estimator in MCBoostClassifier(), MultiBoostClassifier():
        assert not held_scores(estimator, dataset, 0, rounds=5, parts=splits(3, dataset, 0))[
            0
        ].any()
    with pytest.warns(UserWarning, match="the model is constant"):
        model = MCBoostClassifier(n_estimators="auto").fit(X, y)
    assert (model.n_estimators_, len(model.cv_results_["rounds"])) == (0, 0)


def test_rows_of_weight_zero_are_in_no_fold():
    X, y = some_rows()
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    for cv in 3, StratifiedKFold(3):
        out_of_fold_scores = out_of_fold(
            MartClassifier(cv=cv, n_iter_no_change=2), dataset_of(X, y, weight), seed=0
        )
        unused = weight == 0
        assert (
            np.isnan(out_of_fold_scores.scores[unused]).all()
            and (out_of_fold_scores.fold[unused] == -1).all()
        )
        assert (
            np.isfinite(out_of_fold_scores.scores[~unused]).all()
            and (out_of_fold_scores.fold[~unused] >= 0).all()
        )


def test_weights_of_rows_and_classes_count_in_the_metric():
    X, y = some_rows()
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    seen = []

    def look(estimator, X, y, sample_weight):
        seen.append(sample_weight)
        return 0.0

    class_weight = {0: 1.0, 1: 2.0, 2: 5.0}
    model = MartClassifier(n_estimators="auto", n_iter_no_change=1, scoring=look, random_state=0)
    model.set_params(class_weight=class_weight).fit(X, y, weight)
    total = weight * np.array([1.0, 2.0, 5.0])[y]
    seed = np.random.RandomState(0).randint(2**31)
    for w, (_, held) in zip(seen, splits(3, dataset_of(X, y, total), seed), strict=False):
        np.testing.assert_allclose(w, total[held] / total[held].max())


def test_a_class_of_one_row_has_a_defined_metric():
    X, y = some_rows(n=90)
    y[0] = 9
    model = MartClassifier(n_estimators="auto", n_iter_no_change=3).fit(X, y)
    assert np.isfinite(model.cv_results_["folds"]).all()
    assert model.classes_.tolist() == [0, 1, 2, 9]


def test_metrics_without_a_value_name_the_fold():
    X, y = some_rows(n=90)
    some = np.flatnonzero(y == 0)[::2]
    rest = np.setdiff1d(np.arange(90), some)
    cv = [(np.setdiff1d(np.arange(90), held), held) for held in (some, rest[::2], rest[1::2])]
    with pytest.raises(ValueError, match="'fold 0' has rows of one class only, .*auc_ovr"):
        MartClassifier(n_estimators="auto", scoring="auc_ovr", cv=cv).fit(X, y)
    with pytest.raises(ValueError, match="returns nan .* 'fold 0'; it must return a number"):
        MartClassifier(n_estimators="auto", scoring=lambda *_: np.nan).fit(X, y)


def test_scorers_are_called_in_one_thread_and_in_order(monkeypatch):
    monkeypatch.setattr(threads, "SMALL_WORK", 0)
    monkeypatch.setattr(threads, "available_cpus", lambda: 3)
    X, y = some_rows()
    seen = []

    def look(estimator, X, y):
        seen.append((threading.current_thread(), len(y)))
        return -len(seen)

    MartClassifier(n_estimators="auto", scoring=look, n_iter_no_change=3, n_jobs=3).fit(X, y)
    assert {thread for thread, _ in seen} == {threading.main_thread()}
    assert len(seen) == 4 * 3


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_leaves_the_estimator_and_no_threads(error, n_jobs, monkeypatch):
    monkeypatch.setattr(threads, "SMALL_WORK", 0)
    monkeypatch.setattr(threads, "available_cpus", lambda: 3)
    X, y = some_rows()
    model = MartClassifier(n_estimators=3, n_jobs=n_jobs).fit(X, y)
    before = model.model_.to_bytes()
    n_threads = threading.active_count()
    original = MartClassifier.booster.round
    count = [0]

    def interrupted(self):
        count[0] += 1
        if count[0] == 10:
            raise error
        return original(self)

    monkeypatch.setattr(MartClassifier.booster, "round", interrupted)
    with pytest.raises(error):
        model.set_params(n_estimators="auto").fit(X, y)
    assert model.model_.to_bytes() == before
    assert not hasattr(model, "cv_results_")
    assert threading.active_count() == n_threads
