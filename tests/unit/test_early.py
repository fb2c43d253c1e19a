"""Early exits: certified labels are those of all learners, calibrated ones as often as promised."""

import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
from reference.modelreader import File
from reference.scoring import random_kernel, random_linear, random_rows, random_stumps, random_trees

from pymcboost import VectorTreeBoostClassifier
from pymcboost.model import early
from pymcboost.model.early import bounds, checkpoints, checks, may_fail, rounded_up
from pymcboost.model.model import Model

WAYS = ("certified", "calibrated", "rejection")


@pytest.fixture(autouse=True)
def small_models(monkeypatch):
    """Bounds of small models take more than they may, and are as dense as they can be."""
    monkeypatch.setattr(early, "SHARE", 100.0)
    monkeypatch.setattr(early, "DEFAULT_CHECKS", tuple(np.linspace(0, 1, 200)))
    monkeypatch.setattr(early, "STEP", 1)


def shrinking(ensemble, factor=0.8, scale=1.0):
    """The same with learners that weigh less and less, so that rows exit, and values of this size."""
    n = len(ensemble)
    weight = scale * factor ** np.arange(n)
    names = ("right", "left") if hasattr(ensemble, "left") else ("leaf",)
    if names == ("leaf",):
        weight = np.repeat(weight, np.diff(ensemble.offset) + 1)
    changed = {name: getattr(ensemble, name) for name in names}
    limit = np.finfo(np.float32).max
    for name, values in changed.items():
        if values is not None:
            shape = (-1,) + (1,) * (values.ndim - 1)
            changed[name] = np.clip(values * weight.reshape(shape), -limit, limit).astype(
                np.float32
            )
    return replace(
        ensemble, bias=(ensemble.bias.astype(np.float64) * scale).clip(-limit, limit), **changed
    )


def ensembles(k, seed):
    """Learners of every sort that has scores as sums."""
    yield random_stumps(40, 5, k, seed=seed)
    yield random_stumps(30, 5, k, two_sided=True, seed=seed, few_thresholds=True)
    for mode in ("scalar", "base", "vector", "code"):
        yield random_trees(25, 5, k, mode=mode, seed=seed, few_thresholds=seed % 2 == 0)


def model_of(ensemble, **options):
    return Model.from_ensemble(ensemble, range(ensemble.n_classes), **options)


def exact_scores(ensemble, X, begin):
    """What the learners from ``begin`` on add to the scores of every class, in fractions: rows, classes."""
    model = model_of(ensemble)
    leaf = model.apply(X)
    k = ensemble.n_classes
    sums = [[Fraction(0)] * k for _ in X]
    for t, (*_, values, cls, base) in enumerate(model.ensemble.each_tree()):
        for i in range(len(X) if t >= begin else 0):
            value = values[leaf[i, t]]
            for c in range(k):
                if cls < 0:
                    part = Fraction(float(value[c]))
                elif ensemble.code is not None:
                    part = Fraction(float(value)) * Fraction(float(ensemble.code[cls, c]))
                else:
                    part = Fraction(float(value)) * ((c == cls) - (c == base))
                sums[i][c] += part
    return sums


@pytest.mark.parametrize("k", [2, 3, 11])
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e5, 3e38])
@pytest.mark.part(5)
def test_certified_labels_are_those_of_all_learners(k, scale):
    X = random_rows(150, 5, seed=k)
    exits = 0
    for seed in range(2):
        for ensemble in ensembles(k, seed):
            for factor in (0.8, 1.0):
                model = model_of(shrinking(ensemble, factor, scale)).with_early_exit("certified")
                labels, learners = model.predict_early(X)
                assert (labels == model.predict(X)).all()
                assert (model.predict(X, early="certified") == labels).all()
                exits += (learners < model.n_learners).sum()
    assert exits > (50 if scale < 1e30 else 0)


def test_half_precision_leaves_are_certified_too():
    X = random_rows(200, 5)
    model = model_of(
        shrinking(random_trees(25, 5, 4, mode="vector")), leaves="float16"
    ).with_early_exit("certified")
    labels, learners = model.predict_early(X)
    assert (labels == model.predict(X)).all()
    assert learners.min() < model.n_learners


@pytest.mark.parametrize("k", [2, 3])
def test_bounds_hold_for_every_row_and_are_tight(k):
    X = random_rows(12, 5)
    for ensemble in ensembles(k, 1):
        at = checkpoints(model_of(ensemble).ensemble.round_ends(), len(ensemble))
        found = bounds(ensemble, at)
        largest = np.full_like(found, -np.inf)
        for number in range(0, len(at), 5):
            for row in exact_scores(ensemble, X, at[number]):
                for i in range(k):
                    for j in range(k):
                        assert row[j] - row[i] <= Fraction(found[number, i, j])
        one = model_of(ensemble).ensemble
        if (
            hasattr(one, "offset") and one.cls is None
        ):  # one tree is left: the bound is that of its leaves
            leaf = one.leaf[one.offset[-2] + len(one) - 1 :].astype(np.float64)
            largest = (leaf[:, None, :] - leaf[:, :, None]).max(axis=0)
            last = bounds(one, np.array([len(one) - 1]))[0]
            assert (last >= largest).all()
            np.testing.assert_allclose(last, largest, atol=1e-9)


@pytest.mark.parametrize("prepared_by", ["dense", "sparse", "wide", "float64", "threads"])
def test_every_way_is_that_of_the_slow_twin(prepared_by):
    X = random_rows(24, 5, seed=3)
    for k in (2, 5) if prepared_by == "dense" else (5,):
        for ensemble in ensembles(k, 4):
            n = 200_000 if prepared_by == "wide" else 5
            X = np.nan_to_num(X, nan=0.5) if prepared_by in ("sparse", "wide") else X
            model = model_of(replace(shrinking(ensemble), n_features=n))
            rows = X
            if prepared_by in ("sparse", "wide"):
                rows = scipy.sparse.csr_array(X)
                rows = scipy.sparse.csr_array(
                    (rows.data, rows.indices, rows.indptr), shape=(len(X), n)
                )
            rows = X.astype(np.float64) if prepared_by == "float64" else rows
            model = with_all(model, rows if prepared_by != "wide" else scipy.sparse.csr_array(rows))
            file = File(model.to_bytes())
            for number, way in enumerate(WAYS):
                labels, learners = model.predict_early(
                    rows, way, n_jobs=3 if prepared_by == "threads" else None
                )
                wanted = [file.early(row.tolist(), number) for row in X[::3]]
                found = zip(labels[::3].tolist(), learners[::3].tolist(), strict=True)
                assert list(found) == wanted


def with_all(model, X):
    model = model.with_early_exit("certified").with_early_exit("calibrated", X, rate=0.2)
    background = int(np.bincount(model.predict(X), minlength=model.n_classes_).argmin())
    return model.with_early_exit("rejection", X, rate=0.6, background=background)


def test_calibrated_thresholds_and_what_they_promise():
    X = random_rows(4000, 5, seed=5)
    model = model_of(shrinking(random_trees(60, 5, 4, mode="vector"), 0.97)).with_early_exit(
        "calibrated", X, rate=0.01
    )
    changed = (model.predict(X, early="calibrated") != model.predict(X)).sum()
    assert 0 < changed <= may_fail(4000, 0.01, "")
    rate, rows, allowed, *thresholds = model._sections()["marg"].tolist()
    assert (rate, rows, allowed) == (0.01, 4000, may_fail(4000, 0.01, ""))
    left = 1 - model._sections()["exit"] / model.n_learners
    np.testing.assert_allclose(thresholds / left**0.25, thresholds[0] / left[0] ** 0.25)
    fresh = random_rows(4000, 5, seed=6)
    labels, learners = model.predict_early(fresh, "calibrated")
    assert (labels != model.predict(fresh)).mean() < 0.01
    assert learners.mean() < 0.9 * model.n_learners


def test_rows_that_a_rate_needs():
    from scipy.stats import binom

    assert [may_fail(n, 0.001, "") for n in (3000, 4741, 4742, 10_000)] == [0, 0, 1, 4]
    for n, rate in ((300, 0.01), (5000, 0.01), (100_000, 0.001), (50, 0.5), (4, 0.9)):
        k = may_fail(n, rate, "")
        assert binom.cdf(k, n, rate) <= 0.05 < binom.cdf(k + 1, n, rate)
    for n, rate, needed in ((2999, 0.001, 3000), (0, 0.5, 6), (299, 0.01, 300), (2, 0.9, 4)):
        with pytest.raises(ValueError, match=f"needs at least {needed} rows, but there are {n}"):
            may_fail(n, rate, "rows")


def test_rejection_loses_few_rows_of_other_classes():
    X = random_rows(4000, 5, seed=7)
    model = model_of(shrinking(random_trees(60, 5, 4, mode="vector"), 0.97))
    full = model.predict(X)
    background = int(np.bincount(full).argmax())
    model = model.with_early_exit("rejection", X, rate=0.02, background=background)
    fresh = random_rows(4000, 5, seed=8)
    labels, learners = model.predict_early(fresh, "rejection")
    full = model.predict(fresh)
    assert (labels[full == background] == background).all()
    assert (learners[labels != background] == model.n_learners).all()
    assert 0 < (labels[full != background] == background).mean() < 0.02
    assert learners[full == background].mean() < 0.9 * model.n_learners


def test_ties_never_exit_and_go_to_the_lowest_class():
    trees = random_trees(12, 5, 3, mode="vector")
    trees = replace(trees, leaf=trees.leaf[:, [0, 0, 0]], bias=np.zeros(3))
    model = (
        model_of(trees)
        .with_early_exit("certified")
        .with_early_exit("calibrated", random_rows(100, 5), rate=0.1)
    )
    for way in WAYS[:2]:
        labels, learners = model.predict_early(random_rows(30, 5), way)
        assert (labels == 0).all()
        assert (learners == model.n_learners).all()


def test_one_tree_and_no_rows():
    for n in (1, 2):
        model = with_all(model_of(random_stumps(n, 5, 3)), random_rows(100, 5))
        for way in WAYS:
            labels, learners = model.predict_early(random_rows(30, 5), way)
            assert (learners <= n).all()
            assert (
                way == "rejection" or n > 1 or (labels == model.predict(random_rows(30, 5))).all()
            )
            assert [len(part) for part in model.predict_early(np.zeros((0, 5)), way)] == [0, 0]


@pytest.mark.parametrize("seed", range(20))
def test_checks_take_the_least_time_of_all_choices(monkeypatch, seed):
    """Against all sets of places to look at."""
    draw = np.random.default_rng(seed)
    cost = draw.integers(1, 30)
    n = 100
    monkeypatch.setattr(early, "CHECK_COST", cost)
    at = np.sort(draw.choice(np.arange(1, n), 6, replace=False))
    exits = draw.choice(np.append(at, n), draw.integers(1, 40))

    def time(chosen):
        total = 0
        for first in exits:
            seen = [place for place in at[chosen] if place < first]
            left = [place for place in at[chosen] if place >= first]
            total += left[0] + cost * (len(seen) + 1) if left else n + cost * len(seen)
        return total

    choices = np.array(list(np.ndindex(*(2,) * len(at))), dtype=bool)
    assert time(checks(exits, at, n)) == min(map(time, choices))


def test_where_no_row_exits_nothing_is_looked_at():
    """The file has one checkpoint of infinite bounds, which costs nothing."""
    X = random_rows(100, 5)
    model = model_of(random_trees(60, 5, 3, mode="vector")).with_early_exit("certified", X)
    assert "certified" in model.early_exits
    assert np.isinf(model._sections()["pair"]).all()
    labels, learners = model.predict_early(X)
    assert (labels == model.predict(X)).all() and (learners == model.n_learners).all()


def test_rounded_up_is_never_below():
    rng = np.random.default_rng(0)
    for scale, dtype in (
        (1.0, np.float16),
        (1e4, np.float16),
        (1e5, np.float32),
        (1e-30, np.float32),
        (1e300, None),
    ):
        values = rng.normal(size=1000) * scale
        found = rounded_up(values)
        assert (found.astype(np.float64) >= values).all()
        if dtype is not None:
            assert found.dtype == dtype
            assert (np.abs(found - values) <= np.abs(values) * 2.0**-9 + 2.0**-24).all()


def test_what_keeps_early_exits_and_what_takes_them_away():
    X = random_rows(200, 5)
    plain = model_of(random_trees(20, 5, 3, mode="vector"), link="softmax", meta={"a": 1})
    assert plain.early_exits == ()
    model = with_all(plain, X)
    assert model.early_exits == WAYS
    assert plain.to_bytes()[10] == 0
    assert model.to_bytes()[10] == 3
    for other in (
        model.with_temperature(2.0),
        model.with_meta({}),
        pickle.loads(pickle.dumps(model)),
    ):
        assert other.early_exits == WAYS
        assert (
            other.predict_early(X, "calibrated")[1] == model.predict_early(X, "calibrated")[1]
        ).all()
    assert model.with_early_exit(None).to_bytes() == plain.to_bytes()
    for other in (
        model.truncate(9),
        model.reweighted([1, 2, 3]),
        Model.from_bytes(model.to_bytes(leaves="float16")),
    ):
        assert other.early_exits == ()
    assert model.truncate(model.n_rounds).early_exits == WAYS
    X = np.nan_to_num(X, posinf=9, neginf=-9)
    fitted = VectorTreeBoostClassifier(n_estimators=9, calibrate=None, random_state=0).fit(
        X, X[:, 0] > 0
    )
    fitted.model_ = with_all(fitted.model_, X)
    assert fitted.refit_leaves(X, X[:, 0] > 0.5).model_.early_exits == ()
    assert (model.raw_scores(X) == plain.raw_scores(X)).all()


def test_wrong_input_is_refused_by_name(monkeypatch):
    X = random_rows(200, 5)
    trees = model_of(random_trees(20, 5, 3, mode="vector"))
    stumps = random_stumps(20, 5, 3)
    for model, why in (
        (model_of(stumps, layout="interval"), "this model has none .interval table"),
        (
            model_of(random_linear(5, 3)),
            "this kind of model has no early exit .*; it has .certified",
        ),
        (model_of(random_kernel(5, 5, 3)), "this model has none .kernel machine"),
        (model_of(random_trees(5, 5, 3, mode="hamming")), "decoder='hamming'"),
    ):
        for way in set(WAYS) - set(
            model.early_exits
        ):  # linear machines have certified ones as they are
            with pytest.raises(ValueError, match=why):
                model.with_early_exit(way, X, background=0 if way == "rejection" else None)
    for options, why in (
        ({"way": "sure"}, "way must be None or one of 'certified'"),
        ({"way": "calibrated"}, "needs rows X"),
        ({"way": "calibrated", "X": X}, "rate=0.001 needs at least 3000 rows X, but there are 200"),
        (
            {"way": "rejection", "X": X, "background": 0},
            "needs at least 6000 rows X of other classes than the background",
        ),
        (
            {"way": "rejection", "X": X, "background": 7},
            r"background must be a class of the model \(0, 1, 2\), not 7",
        ),
        ({"way": "rejection", "X": X}, "background, a class of the model, is needed for"),
        ({"way": "certified", "background": 1}, "background, a class of the model, is needed for"),
        *(
            ({"way": "calibrated", "X": X, "rate": rate}, "rate must be above 0")
            for rate in (0, 1, -1, np.nan, "a")
        ),
        (
            {"way": "rejection", "X": X, "background": [0, 1]},
            r"a class of the model \(0, 1, 2\), not \[0, 1\]",
        ),
        ({"way": "calibrated", "X": X[:, :4]}, "X has 4 features, but the model was trained on 5"),
    ):
        with pytest.raises(ValueError, match=why):
            trees.with_early_exit(**options)
    for call in (lambda way: trees.predict(X, early=way), lambda way: trees.predict_early(X, way)):
        with pytest.raises(ValueError, match="no early exit 'certified'; with_early_exit"):
            call("certified")
        with pytest.raises(ValueError, match="early must be None or one of"):
            call("fast")
    monkeypatch.setattr(early, "SHARE", 0.05)
    with pytest.raises(ValueError, match="110 pairs of classes take 220 bytes"):
        model_of(random_trees(2, 5, 11, mode="scalar", splits=(0, 0))).with_early_exit("certified")
