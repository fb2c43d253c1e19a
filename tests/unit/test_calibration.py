"""Models with a temperature: what it changes, what it leaves alone, and what keeps it."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from format.tampering import parse
from reference.modelreader import File
from reference.scoring import (
    finite_rows,
    random_kernel,
    random_linear,
    random_rows,
    random_stumps,
    random_trees,
)
from scipy.sparse import csr_array
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GroupKFold,
    PredefinedSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from pymcboost import (
    ABCLogitBoostClassifier,
    AdaBoostMHClassifier,
    AdaBoostMOClassifier,
    Checkpoint,
    HingeBoostOCClassifier,
    LogitBoostClassifier,
    MCBoostClassifier,
    MultiBoostClassifier,
    PIBoostClassifier,
    VectorTreeBoostClassifier,
    load_model,
)
from pymcboost.comm import Alone
from pymcboost.model.model import Model
from pymcboost.model.temperature import fit_temperature
from pymcboost.training import calibration, thresholds

X, y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])


def models():
    """Every kind, layout and link; two classes and more."""
    for k, link in ((2, "none"), (3, "softmax"), (2, "softmax2"), (5, "softmax2"), (4, "none")):
        for layout in ("list", "interval"):
            yield Model.from_ensemble(random_stumps(9, 4, k), range(k), link=link, layout=layout)
        for mode in ("scalar", "base", "vector", "code", "hamming", "exp"):
            trees = random_trees(5, 4, k, mode=mode)
            yield Model.from_ensemble(
                trees, range(k), link=link, leaves="float16" if k == 3 else "float32"
            )
        yield Model.from_ensemble(random_linear(4, k), range(k), link=link)
        yield Model.from_ensemble(random_kernel(6, 4, k), range(k), link=link)


@pytest.mark.parametrize("temperature", [0.37, 5.0, 64.0])
def test_probabilities_are_those_of_the_format_and_nothing_else_changes(temperature):
    for model in models():
        warm = model.with_temperature(temperature)
        rows = (finite_rows if model.is_machine else random_rows)(8, 4)
        slow = File(warm.to_bytes())
        scores = model.raw_scores(rows)
        expected = [slow.probabilities(F) for F in scores.tolist()]
        assert warm.predict_proba(rows).tobytes() == np.array(expected).tobytes()
        assert warm.raw_scores(rows).tobytes() == scores.tobytes()
        assert warm.decision_function(rows).tobytes() == model.decision_function(rows).tobytes()
        assert (warm.predict(rows) == model.predict(rows)).all()
        z = (scores if model.link != "softmax2" else 2 * scores) / temperature
        z -= z.max(axis=1, keepdims=True)
        np.testing.assert_allclose(
            expected, np.exp(z) / np.exp(z).sum(axis=1, keepdims=True), rtol=1e-9, atol=1e-300
        )
        assert warm.temperature == pytest.approx(temperature, rel=1e-15)
        assert (warm.link, warm.layout, warm.leaves) == (model.link, model.layout, model.leaves)


def test_sparse_rows_and_threads():
    for model in models():
        warm = model.with_temperature(2.5)
        rows = finite_rows(300, 4)
        expected = warm.predict_proba(rows).tobytes()
        assert warm.predict_proba(csr_array(rows)).tobytes() == expected
        assert warm.predict_proba(rows, n_jobs=3).tobytes() == expected


def test_without_a_temperature_the_old_bytes():
    for model in models():
        data = model.to_bytes()
        warm = model.with_temperature(2.0)
        assert warm.with_temperature(None).to_bytes() == data
        assert (parse(data).minor, parse(warm.to_bytes()).minor) == (0, 1)
        assert warm.with_temperature(2.0).to_bytes() == warm.to_bytes() != data
        tags = [section[0] for section in parse(warm.to_bytes()).sections]
        assert tags.index(b"CALB") == tags.index(b"BIAS") + 1
        assert [tag for tag in tags if tag != b"CALB"] == [
            section[0] for section in parse(data).sections
        ]
        assert model.temperature is None
        assert model.has_probabilities == (model.link != "none")
        assert warm.has_probabilities


@pytest.mark.parametrize("bad", [0, -1.0, np.inf, np.nan, 1e-320, "a", np.ones(3)])
def test_temperatures_that_are_none(bad):
    with pytest.raises(ValueError, match="temperature must be a finite number above 0, or None"):
        next(models()).with_temperature(bad)


def test_what_keeps_it_and_what_drops_it(tmp_path):
    model = Model.from_ensemble(
        random_trees(5, 4, 3, mode="scalar"), range(3), link="softmax"
    ).with_temperature(2.5)
    assert pickle.loads(pickle.dumps(model)).temperature == 2.5
    assert copy.deepcopy(model).temperature == 2.5
    model.save(tmp_path / "m.mcb", leaves="float16")
    assert load_model(tmp_path / "m.mcb").temperature == 2.5
    assert model.with_meta({"a": 1}).temperature == 2.5
    assert model.truncate(model.n_rounds).temperature == 2.5
    assert model.truncate(2).temperature is None
    assert model.truncate(2).to_bytes() == model.with_temperature(None).truncate(2).to_bytes()
    stumps = Model.from_ensemble(random_stumps(9, 4, 3), range(3)).with_temperature(2.5)
    stumps.save(tmp_path / "m.mcb", layout="interval")
    assert load_model(tmp_path / "m.mcb").temperature == 2.5
    assert not stumps.truncate(8).has_probabilities
    with pytest.raises(ValueError, match="no link from scores to probabilities"):
        stumps.truncate(8).predict_proba(np.zeros((1, 4)))


@pytest.mark.parametrize("link", ["none", "softmax", "softmax2"])
def test_calibrated_on_rows(link):
    rows = random_rows(400, 4)
    model = Model.from_ensemble(random_stumps(9, 4, 3), ["a", "b", "c"], link=link)
    labels = np.random.default_rng(0).choice(model.classes_, 400)
    labels[:200] = model.predict(rows[:200])
    weight = np.random.default_rng(1).random(400)
    warm = model.calibrated(rows, labels, weight)

    def loss(temperature):
        return log_loss(
            labels, model.with_temperature(temperature).predict_proba(rows), sample_weight=weight
        )

    least = loss(warm.temperature)
    assert least < min(loss(warm.temperature * 1.01), loss(warm.temperature / 1.01))
    assert warm.calibrated(rows, labels, weight).to_bytes() == warm.to_bytes()


def test_estimators(tmp_path):
    fitted = MCBoostClassifier(n_estimators=60, warm_start=True).fit(X[::2], NAMES[y[::2]])
    plain = fitted.model_.to_bytes()
    before = log_loss(y[1::2], fitted.predict_proba(X[1::2]))
    assert fitted.calibrate_on(X[1::2], NAMES[y[1::2]]) is fitted
    assert fitted.model_.temperature > 1
    assert log_loss(y[1::2], fitted.predict_proba(X[1::2])) < before
    fitted.save(tmp_path / "m.mcb")
    assert (
        load_model(tmp_path / "m.mcb").predict_proba(X).tobytes()
        == fitted.predict_proba(X).tobytes()
    )
    assert pickle.loads(pickle.dumps(fitted)).model_.temperature == fitted.model_.temperature
    refitted = fitted.set_params(n_estimators=61).fit(X[::2], NAMES[y[::2]])
    assert refitted.model_.temperature is None
    assert refitted.model_.truncate(60).with_meta(Model.from_bytes(plain).meta).to_bytes() == plain


def test_labels_of_other_types():
    """Booleans and fractions that are whole become integers in the model, and stay what they are in the estimator."""
    for labels in (y > 0, y.astype(float)):
        fitted = VectorTreeBoostClassifier(n_estimators=3, random_state=0).fit(X[::2], labels[::2])
        assert fitted.calibrate_on(X[1::2], labels[1::2]).model_.temperature > 0


@pytest.mark.parametrize("kernel", ["linear", "rbf", lambda a, b: a @ b.T])
def test_hingeboost_has_probabilities_once_calibrated(kernel):
    machine = HingeBoostOCClassifier(n_estimators=10, kernel=kernel, random_state=0).fit(
        X[::2], y[::2]
    )
    assert not hasattr(machine, "predict_proba")
    with pytest.raises(AttributeError, match="calibrate_on"):
        _ = machine.predict_proba
    with pytest.raises(ValueError, match="no link from scores to probabilities"):
        machine.model_.predict_proba(X)
    labels = machine.predict(X)
    machine.calibrate_on(X[1::2], y[1::2])
    probabilities = machine.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (probabilities.argmax(axis=1) == labels).all()
    z = machine.decision_function(X) / machine.model_.temperature
    np.testing.assert_allclose(
        probabilities, np.exp(z) / np.exp(z).sum(axis=1, keepdims=True), rtol=1e-9
    )
    np.testing.assert_allclose(machine.predict_proba(1e6 * X).sum(axis=1), 1)
    with pytest.raises(ValueError, match="features"):
        machine.predict_proba(X[:, :2])


def test_refused():
    fitted = MCBoostClassifier(n_estimators=5).fit(X[::2], y[::2])
    for more, words in (
        ((X, y + 1), r"y\[\d+\] is 3 of type int64, which is not a class of the model"),
        ((X, NAMES[y]), r"y\[0\] is 'setosa'"),
        ((X, y[:-1]), "X has 150 rows, but y has 149 labels"),
        ((X, y, np.zeros(150)), "all sample weights are zero"),
        ((X, y, -np.ones(150)), r"sample_weight\[0\] is -1"),
        ((X[:, :3], y), "features"),
    ):
        with pytest.raises(ValueError, match=words):
            fitted.calibrate_on(*more)
    assert fitted.model_.temperature is None
    with pytest.raises(ValueError, match="not fitted|instance is not"):
        MCBoostClassifier().calibrate_on(X, y)


@pytest.mark.parametrize("temperature", [None, 2.5])
def test_reweighted(temperature):
    """p_k f_k / sum: exact but for the bias, which is rounded to float32."""
    for model in models():
        rows = (finite_rows if model.is_machine else random_rows)(30, 4)
        factors = np.array([0.05, 3.0, 1.0, 11.0, 0.5])[: model.n_classes_]
        model = model.with_temperature(temperature)
        if not model.has_probabilities:
            with pytest.raises(ValueError, match="no link from scores to probabilities"):
                model.reweighted(factors)
            continue
        other = model.reweighted(factors)
        expected = model.predict_proba(rows) * factors
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(other.predict_proba(rows), expected, rtol=1e-5, atol=1e-12)
        clear = np.sort(expected, axis=1)[:, -2] < np.sort(expected, axis=1)[:, -1] - 1e-6
        assert (other.predict(rows) == expected.argmax(axis=1))[clear].all()
        assert (other.layout, other.leaves, other.temperature) == (
            model.layout,
            model.leaves,
            model.temperature,
        )
        np.testing.assert_allclose(
            other.reweighted(1 / factors).predict_proba(rows), model.predict_proba(rows), 1e-5
        )


@pytest.mark.parametrize(
    "bad", [[1, 2], [1, 2, 0], [1, 2, -1], [1, 2, np.nan], [1, 2, np.inf], 1.0]
)
def test_factors_that_are_none(bad):
    model = Model.from_ensemble(random_stumps(9, 4, 3), range(3), link="softmax")
    with pytest.raises(ValueError, match="3 finite numbers above 0"):
        model.reweighted(bad)


RARE = np.concatenate([np.arange(50), np.arange(50, 100), np.arange(100, 110)])


@pytest.mark.parametrize("cls", [MCBoostClassifier, VectorTreeBoostClassifier])
@pytest.mark.parametrize("class_weight", ["balanced", {0: 2.0, 2: 9.0}])
def test_priors_are_restored(cls, class_weight):
    options = {"n_estimators": 8, "random_state": 0, "class_weight": class_weight}
    plain = cls(**options).fit(X[RARE], y[RARE])
    restored = cls(**options, restore_priors=True).fit(X[RARE], y[RARE])
    weight = {"balanced": 110 / 3 / np.array([50, 50, 10])}.get(
        str(class_weight), np.array([2.0, 1.0, 9.0])
    )
    expected = plain.predict_proba(X) / weight
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(restored.predict_proba(X), expected, rtol=1e-5)
    assert (restored.predict(X) == expected.argmax(axis=1)).all()
    assert (restored.predict(X) != plain.predict(X)).any()
    assert (restored.decision_function(X).argmax(axis=1) == restored.predict(X)).all()
    assert restored.model_.meta["params"]["restore_priors"] is True
    assert "restore_priors" not in plain.model_.meta["params"]
    # A warm start adds to the rounds, not to the bias.
    refitted = cls(**{**options, "n_estimators": 5}, restore_priors=True, warm_start=True).fit(
        X[RARE], y[RARE]
    )
    refitted.set_params(n_estimators=8).fit(X[RARE], y[RARE])
    assert refitted.model_.to_bytes() == restored.model_.to_bytes()


@pytest.mark.parametrize("cls", [AdaBoostMHClassifier, VectorTreeBoostClassifier])
def test_priors_of_the_first_rounds(cls):
    """Those of a training of as many rounds, whatever temperatures the model has had."""
    options = {"random_state": 0, "class_weight": "balanced", "restore_priors": True}
    short = cls(n_estimators=4, calibrate=None, **options).fit(X[RARE], y[RARE]).model_
    for calibrate in (None, "temperature"):
        uninterrupted = cls(n_estimators=8, calibrate=calibrate, **options).fit(X[RARE], y[RARE])
        model = uninterrupted.model_
        assert "first_temperature" not in model.meta
        again = model.with_temperature(7.0).with_temperature(0.5)
        for actual in (
            model,
            model.with_temperature(None),
            again,
            uninterrupted.calibrate_on(X[::2], y[::2]).model_,
        ):
            assert actual.truncate(8).to_bytes() == actual.to_bytes()
            first = actual.truncate(4)
            for same in (model, actual.with_temperature(None)):
                assert first.to_bytes() == same.truncate(4).to_bytes()
            assert first.meta == model.meta
            bare = actual.with_meta({}).truncate(4)
            assert bare.to_bytes() == first.with_meta({}).to_bytes()
            np.testing.assert_allclose(first.ensemble.bias, short.ensemble.bias, rtol=1e-6)
            np.testing.assert_allclose(first.predict_proba(X), short.predict_proba(X), rtol=1e-5)
            assert first.truncate(2).ensemble.bias.tobytes() == first.ensemble.bias.tobytes()
            np.testing.assert_allclose(
                first.reweighted([1, 2, 3]).predict_proba(X),
                short.reweighted([1, 2, 3]).predict_proba(X),
                rtol=1e-5,
            )


def test_priors_without_weights_are_those_of_the_data():
    model = MCBoostClassifier(n_estimators=5).fit(X, y).model_
    restored = MCBoostClassifier(n_estimators=5, restore_priors=True).fit(X, y).model_
    assert restored.with_meta(model.meta).to_bytes() == model.to_bytes()
    with pytest.raises(ValueError, match="restore_priors .* class weights, .* of 1 is 0"):
        MCBoostClassifier(restore_priors=True, class_weight={1: 0.0}).fit(X, y)


# -- calibrate="temperature" -------------------------------------------------------------------------------------------

ALGORITHMS = [
    (MCBoostClassifier, {}),
    (VectorTreeBoostClassifier, {}),
    (PIBoostClassifier, {}),
    (AdaBoostMHClassifier, {"weak_learner": "tree", "subsample": 0.5}),
    (MultiBoostClassifier, {}),
    (ABCLogitBoostClassifier, {}),
    (AdaBoostMOClassifier, {"decoder": "hamming"}),
    (HingeBoostOCClassifier, {}),
    (HingeBoostOCClassifier, {"kernel": "rbf"}),
]


@pytest.mark.parametrize(("cls", "options"), ALGORITHMS)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.part(4)
def test_calibrate_changes_nothing_but_the_probabilities(cls, options, n_classes):
    rows = y < n_classes
    A, b = X[rows], y[rows]
    plain = cls(n_estimators=6, random_state=0, calibrate=None, **options).fit(A, b)
    warm = cls(n_estimators=6, random_state=0, calibrate="temperature", **options).fit(A, b)
    assert 1 / 100 < warm.model_.temperature < 100
    assert (
        warm.model_.with_temperature(None).with_meta(plain.model_.meta).to_bytes()
        == plain.model_.to_bytes()
    )
    assert not plain.model_.is_calibrated
    # What is the class's default is not in the file.
    default = cls().calibrate
    assert warm.model_.meta["params"].get("calibrate", default) == "temperature"
    assert plain.model_.meta["params"].get("calibrate", default) is None
    np.testing.assert_allclose(warm.predict_proba(A).sum(axis=1), 1)
    for n_jobs in (1, 3):
        refitted = cls(
            n_estimators=6, random_state=0, calibrate="temperature", n_jobs=n_jobs, **options
        ).fit(A, b)
        assert refitted.model_.to_bytes() == warm.model_.to_bytes()


@pytest.fixture(autouse=True)
def few_rows_will_do(monkeypatch):
    """A second model for data of any size."""
    monkeypatch.setattr(calibration, "FEW", 0)


def test_few_rows_have_no_second_set(monkeypatch):
    X, y = load_iris(return_X_y=True)
    trained = []
    original = calibration.held_scores
    monkeypatch.setattr(calibration, "FEW", 151)
    monkeypatch.setattr(
        calibration,
        "held_scores",
        lambda *args, **named: trained.append(named["parts"]) or original(*args, **named),
    )
    LogitBoostClassifier(n_estimators=3).fit(X, y)
    assert len(trained) == 1
    monkeypatch.setattr(calibration, "FEW", 150)
    LogitBoostClassifier(n_estimators=3).fit(X, y)
    assert len(trained) == 3


def test_stumps_have_a_second_model_of_few_rows(monkeypatch):
    trained = []
    original = calibration.held_scores
    monkeypatch.setattr(calibration, "FEW", 500)  # as it is without the fixture above
    monkeypatch.setattr(
        calibration,
        "held_scores",
        lambda *args, **named: trained.append(named["parts"]) or original(*args, **named),
    )
    MCBoostClassifier(n_estimators=3, calibrate="temperature").fit(*load_iris(return_X_y=True))
    assert len(trained) == 2


def test_models_of_few_rows_that_know_nothing_have_little_say():
    """Labels at random: before, T = 0.07 and a log loss of 12."""
    given = {
        "n_redundant": 0,
        "n_clusters_per_class": 1,
        "class_sep": 0.5,
        "flip_y": 1.0,
        "random_state": 2,
    }
    X, y = make_classification(1390, 20, n_informative=3, n_classes=3, **given)
    train, test = next(StratifiedShuffleSplit(1, test_size=0.4, random_state=2).split(X, y))
    model = ABCLogitBoostClassifier(n_estimators=100, random_state=2).fit(X[train], y[train]).model_
    raw, found = (
        log_loss(y[test], one.predict_proba(X[test]))
        for one in (model.with_temperature(None), model)
    )
    assert found < min(raw, 1.15)


def test_a_second_model_without_classes_to_hold_out_is_left_aside():
    """The rows of the first two folds have no class in common, but all training parts have all classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 3))
    group = np.repeat([0, 1, 2, 3], 40)
    y = np.where(
        group == 0,
        np.arange(160) % 2,
        np.where(group == 1, 2 + np.arange(160) % 2, np.arange(160) % 4),
    )
    X[:, 0] += y
    machine = MCBoostClassifier(
        n_estimators=20, calibrate="temperature", cv=PredefinedSplit(group), random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert machine.fit(X, y).model_.is_calibrated


@pytest.mark.parametrize(("second", "power"), [(0.5, 1.0), (2.0, 2.0), (3.9, 3.9), (65536.0, 4.0)])
def test_how_much_a_second_model_can_say(second, power, monkeypatch):
    """By the document of the module; models of few rows are not believed where they are far off."""
    found = iter([1.0, second])
    monkeypatch.setattr(calibration, "_temperature", lambda *args: next(found))
    X, y = load_iris(return_X_y=True)
    model = LogitBoostClassifier(n_estimators=3, random_state=0).fit(X, y).model_
    assert model.temperature == pytest.approx(power ** -(np.log(1.5) / np.log(2)), rel=1e-3)


def twin(parts, A, b, weight=None):
    """The temperature by the document of the module: folds with 55% of the rows, and one model of a single fold."""
    weight = np.ones(len(b)) if weight is None else weight

    def temperature(parts):
        scores = []
        codes = []
        weights = []
        for train, held in parts:
            model = MCBoostClassifier(n_estimators=7).fit(A[train], b[train], weight[train]).model_
            held = [row for row in held if b[row] in b[train]]
            found = np.full((len(held), 3), -1e9)
            found[:, model.classes_] = model.raw_scores(A[held])
            scores = [*scores, *found]
            codes = [*codes, *b[held]]
            weights = [*weights, *weight[held]]
        return fit_temperature(
            np.array(scores), np.array(codes), np.array(weights), link="softmax2"
        )

    held = [part[1] for part in parts]
    rows = 0
    used = 0
    while rows < 0.55 * len(b):
        rows = rows + len(held[used])
        used = used + 1
    first = temperature(parts[:used])
    second = temperature([(held[0], held[1])])
    big = np.mean([len(train) for train, _ in parts[:used]])
    small = np.mean([len(rows) for rows in held[:used]])
    power = np.log(len(b) / big) / np.log(big / small) if big > small else 0.0
    return first, second, first * min(1.0, max(first / second, 1 / 4)) ** power


def test_no_more_folds_than_are_needed(monkeypatch):
    """The first folds that hold out so many rows; one more model is that of a single fold."""
    monkeypatch.setattr(calibration, "ENOUGH", 60)
    sets = []
    held_scores = calibration.held_scores
    monkeypatch.setattr(
        calibration,
        "held_scores",
        lambda *args, **named: sets.append(named["parts"]) or held_scores(*args, **named),
    )
    MCBoostClassifier(n_estimators=6, calibrate="temperature", cv=5, random_state=0).fit(X, y)
    assert [[(len(train), len(test)) for train, test in parts] for parts in sets] == [
        [(120, 30)] * 2,
        [(30, 30)],
    ]
    sets.clear()
    monkeypatch.setattr(calibration, "ENOUGH", 30)
    MCBoostClassifier(n_estimators=6, calibrate="temperature", cv=5, random_state=0).fit(X, y)
    assert [[(len(train), len(test)) for train, test in parts] for parts in sets] == [[(120, 30)]]
    sets.clear()
    monkeypatch.setattr(calibration, "ENOUGH", 600)
    MCBoostClassifier(n_estimators=6, calibrate="temperature", cv=5, random_state=0).fit(X, y)
    assert [[(len(train), len(test)) for train, test in parts] for parts in sets] == [
        [(120, 30)] * 3,
        [(30, 30)],
    ]


@pytest.mark.parametrize("n_folds", [3, 5])
def test_temperature_of_folds_against_a_twin(n_folds):
    weight = np.random.default_rng(0).uniform(0.5, 2, 150)
    parts = list(StratifiedKFold(n_folds, shuffle=True, random_state=0).split(X, y))
    first, second, expected = twin(parts, X, y, weight=weight)
    warm = MCBoostClassifier(n_estimators=7, calibrate="temperature", cv=parts).fit(X, y, weight)
    assert second > first
    assert warm.model_.temperature == pytest.approx(expected, rel=2**-11)


def test_folds_of_which_none_is_much_smaller_are_not_corrected():
    parts = list(StratifiedKFold(2, shuffle=True, random_state=0).split(X, y))
    warm = MCBoostClassifier(n_estimators=7, calibrate="temperature", cv=parts).fit(X, y)
    assert warm.model_.temperature == pytest.approx(twin(parts, X, y)[0], rel=1e-15)
    # Rows held out together are of one class: no model can be trained on them.
    order = np.argsort(y, kind="stable")
    blocks = [
        (np.concatenate([order[:i], order[i + 10 :]]), order[i : i + 10]) for i in range(0, 150, 10)
    ]
    MCBoostClassifier(n_estimators=7, calibrate="temperature", cv=blocks).fit(X, y)


def no_folds(*args, **named):
    raise AssertionError("folds are trained")


@pytest.mark.parametrize("cls", [LogitBoostClassifier, HingeBoostOCClassifier])
def test_validation_rows_are_taken_where_there_are_any(cls, monkeypatch):
    monkeypatch.setattr(calibration, "held_scores", no_folds)
    train, held = np.arange(150) % 2 == 0, np.arange(150) % 2 == 1
    weights = {} if cls is HingeBoostOCClassifier else {"sample_weight_val": np.arange(75.0)}
    warm = cls(n_estimators=6, random_state=0, calibrate="temperature")
    warm.fit(X[train], y[train], X_val=X[held], y_val=y[held], **weights)
    expected = warm.model_.calibrated(X[held], y[held], *weights.values())
    assert warm.model_.to_bytes() == expected.to_bytes()
    monkeypatch.setattr(calibration, "ENOUGH", 15)
    stopped = cls(n_estimators=6, random_state=0, early_stopping=True, calibrate="temperature").fit(
        X, y
    )
    assert stopped.model_.temperature is not None
    # Sets that are only watched are none.
    with pytest.raises(AssertionError, match="folds are trained"):
        cls(calibrate="temperature").fit(X, y, validation_sets={"train": (X, y)})


def test_rows_that_are_split_off_may_be_too_few(monkeypatch):
    monkeypatch.setattr(calibration, "held_scores", no_folds)
    stopped = LogitBoostClassifier(
        n_estimators=6, random_state=0, early_stopping=True, calibrate="temperature"
    )
    with pytest.raises(AssertionError, match="folds are trained"):
        stopped.fit(X, y)
    stopped.set_params(scoring="error").fit(X, y)  # the log loss does not matter there
    assert "val_calibrated_log_loss" not in stopped.history_


def test_early_stopping_goes_by_the_later_of_both_best_rounds():
    stopped = VectorTreeBoostClassifier(
        random_state=0, early_stopping=True, calibrate="temperature"
    ).fit(X, y)
    curves = [stopped.history_[f"val_{name}"] for name in ("log_loss", "calibrated_log_loss")]
    assert stopped.n_estimators_ == len(curves[0]) == 1 + max(curve.argmin() for curve in curves)
    assert (curves[1] <= curves[0] + 0.05).all()


@pytest.mark.parametrize(
    ("n", "n_classes", "options", "expected"),
    [
        (300, 3, {}, 30),
        (6000, 3, {}, 500),
        (6000, 3, {"validation_fraction": 0.1}, 600),
        (6000, 3, {"scoring": "error"}, 600),
        (6000, 3, {"calibrate": None}, 600),
        (6000, 110, {}, 550),
    ],
)
@pytest.mark.parametrize("comm", [None, Alone()])
def test_rows_that_early_stopping_sets_aside(n, n_classes, options, expected, comm, monkeypatch):
    booster_class = VectorTreeBoostClassifier.booster
    follow = booster_class.follow
    validation_sizes = []

    def recording_follow(booster, validation):
        validation_sizes.append(len(validation.scores))
        return follow(booster, validation)

    monkeypatch.setattr(booster_class, "follow", recording_follow)
    y = np.arange(n) % n_classes
    X = y[:, None] + np.random.default_rng(0).normal(size=(n, 2))
    VectorTreeBoostClassifier(n_estimators=1, early_stopping=True, random_state=0, **options).fit(
        X, y, comm=comm
    )
    # Workers round the number of each class.
    tolerance = 0 if comm is None else n_classes / 2
    assert abs(validation_sizes[0] - expected) <= tolerance


def test_unknown_labels_of_validation_rows_are_left_out():
    train = y < 2
    held = np.arange(150) % 2 == 0
    warm = VectorTreeBoostClassifier(n_estimators=6, random_state=0, calibrate="temperature")
    warm.fit(X[train], y[train], X_val=X[held], y_val=y[held])
    known = held & train
    assert warm.model_.temperature == warm.model_.calibrated(X[known], y[known]).temperature


def test_rounds_by_cross_validation_share_the_folds(monkeypatch):
    sizes = []
    held_scores = calibration.held_scores
    monkeypatch.setattr(
        calibration,
        "held_scores",
        lambda *args, **named: (
            sizes.append(len(named["parts"][0][0])) or held_scores(*args, **named)
        ),
    )
    options = {"n_estimators": "auto", "n_iter_no_change": 5, "random_state": 0}
    warm = VectorTreeBoostClassifier(calibrate="temperature", **options).fit(X, y)
    assert sizes == [50]  # only the second set
    plain = VectorTreeBoostClassifier(
        calibrate=None, n_estimators=warm.n_estimators_, random_state=0
    ).fit(X, y)
    assert (
        warm.model_.with_temperature(None).with_meta(plain.model_.meta).to_bytes()
        == plain.model_.to_bytes()
    )


def test_folds_have_as_many_rounds_as_the_model(monkeypatch):
    """Also where that has ended by itself."""
    seen = []
    held_scores = calibration.held_scores
    monkeypatch.setattr(
        calibration,
        "held_scores",
        lambda *args, **named: seen.append(named["rounds"]) or held_scores(*args, **named),
    )
    params = {"min_gain": 1.0, "min_relative_gain": 0.25, "subsample": 1.0, "random_state": 0}
    model = VectorTreeBoostClassifier(n_estimators=400, **params).fit(X, y)
    assert 0 < model.n_estimators_ < 400
    assert set(seen) == {model.n_estimators_}


def test_groups_stay_together(monkeypatch):
    seen = []
    held_scores = calibration.held_scores
    monkeypatch.setattr(
        calibration,
        "held_scores",
        lambda *args, **named: seen.extend(named["parts"]) or held_scores(*args, **named),
    )
    groups = np.arange(150) // 2 % 20
    VectorTreeBoostClassifier(n_estimators=3, calibrate="temperature", random_state=0).fit(
        X, y, groups=groups
    )
    assert len(seen) == 3
    for train, test in seen:
        assert not np.isin(groups[test], groups[train]).any()
    with pytest.raises(ValueError, match='calibrate="temperature" if there is no X_val'):
        VectorTreeBoostClassifier(n_estimators=3, calibrate=None).fit(X, y, groups=groups)


def test_classes_of_few_rows():
    """A row that is alone in its class cannot be scored by a model that knows it; it has no say."""
    rows = np.concatenate([np.arange(40), np.arange(50, 90), [100]])
    warm = MCBoostClassifier(n_estimators=6, calibrate="temperature", random_state=0).fit(
        X[rows], y[rows]
    )
    assert 1 / 100 < warm.model_.temperature < 100
    with pytest.warns(UserWarning, match="the probabilities are not calibrated: cv=3"):
        few = MCBoostClassifier(n_estimators=6, calibrate="temperature").fit(
            X[[0, 100]], y[[0, 100]]
        )
    assert few.model_.temperature is None
    alone = [(np.flatnonzero(y != k), np.flatnonzero(y == k)) for k in range(3)]
    with pytest.raises(ValueError, match="no fold trains on a class that it holds out"):
        MCBoostClassifier(n_estimators=6, calibrate="temperature", cv=alone).fit(X, y)


def test_other_ways_to_train(tmp_path):
    options = {"n_estimators": 6, "random_state": 0, "calibrate": "temperature"}
    warm = VectorTreeBoostClassifier(**options).fit(X, y)
    sparse = VectorTreeBoostClassifier(**options).fit(csr_array(X), y)
    assert sparse.model_.temperature == warm.model_.temperature
    # Weights of 0 are rows that are not there.
    weight = (np.arange(150) % 3 > 0) * 1.0
    assert (
        VectorTreeBoostClassifier(**options).fit(X, y, weight).model_.temperature
        != warm.model_.temperature
    )
    longer = VectorTreeBoostClassifier(**{**options, "n_estimators": 4}, warm_start=True).fit(X, y)
    longer.set_params(n_estimators=6).fit(X, y)
    assert longer.model_.temperature == warm.model_.temperature
    checkpoint = Checkpoint(tmp_path / "part", every=0)
    with pytest.raises(KeyboardInterrupt):
        VectorTreeBoostClassifier(**options).fit(X, y, callbacks=[checkpoint, StopAfter(3)])
    assert load_model(tmp_path / "part").temperature is None
    assert (
        checkpoint.fit(VectorTreeBoostClassifier(**options), X, y).model_.to_bytes()
        == warm.model_.to_bytes()
    )
    balanced = VectorTreeBoostClassifier(**options, class_weight={0: 5.0}, restore_priors=True).fit(
        X, y
    )
    assert balanced.model_.temperature is not None
    plain = VectorTreeBoostClassifier(**options, class_weight={0: 5.0}).fit(X, y)
    expected = plain.predict_proba(X) / [5, 1, 1]
    np.testing.assert_allclose(
        balanced.predict_proba(X), expected / expected.sum(axis=1, keepdims=True), rtol=1e-5
    )


class StopAfter:
    """Ctrl-C after some rounds."""

    def __init__(self, n_rounds):
        self.n_rounds = n_rounds

    def after_round(self, state):
        if state.n_rounds == self.n_rounds:
            raise KeyboardInterrupt


def test_an_interrupted_training_has_no_temperature():
    """That of the folds is one of all rounds."""
    warm = VectorTreeBoostClassifier(n_estimators=6, random_state=0, calibrate="temperature")
    with pytest.raises(KeyboardInterrupt):
        warm.fit(X, y, callbacks=[StopAfter(3)])
    assert (warm.n_estimators_, warm.model_.temperature) == (3, None)


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        (
            {"cv": PredefinedSplit(np.arange(120) % 3)},
            {},
            "assigns 120 rows to folds, but there are 150",
        ),
        ({"cv": GroupKFold(3)}, {}, "'groups' parameter should not be None"),
        ({"cv": PredefinedSplit(y)}, {}, "no fold trains on a class that it holds out"),
        (
            {"scoring": "error"},
            {"X_val": X[:4], "y_val": [0, 1, 9, 9], "sample_weight_val": [0, 0, 1, 1]},
            "'val' has no row with positive weight and a label that the training knows",
        ),
        (
            {"calibrate": None, "restore_priors": True, "class_weight": {1: 5e-324}},
            {},
            "the weight of 1 is 4.94066e-324",
        ),
    ],
)
def test_refusals_come_before_the_first_round(options, given, message, monkeypatch):
    monkeypatch.setattr(
        VectorTreeBoostClassifier.booster, "round", lambda self: pytest.fail("a round was trained")
    )
    with pytest.raises(ValueError, match=message):
        VectorTreeBoostClassifier(**{"n_estimators": 3, "calibrate": "temperature", **options}).fit(
            X, y, **given
        )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no room"), "no room"),
        (MemoryError("no room"), "no room"),
        (MemoryError(), "not enough memory"),
    ],
)
def test_no_training_is_lost_by_its_calibration(error, said, monkeypatch):
    def fail(*args, **named):
        raise error

    warm = MCBoostClassifier(n_estimators=3, calibrate="temperature", cv=StratifiedKFold(3))
    monkeypatch.setattr(calibration, "held_scores", fail)
    with pytest.warns(UserWarning, match=f"the probabilities are not calibrated: {said}$"):
        warm.fit(X, y)
    assert (warm.n_estimators_, warm.model_.temperature) == (3, None)


def test_thresholds_without_memory_for_folds_stay(monkeypatch):
    def fail(*args, **named):
        raise MemoryError

    monkeypatch.setattr(thresholds, "held_scores", fail)
    model = AdaBoostMHClassifier(n_estimators=3, decision_threshold="f1")
    with pytest.warns(UserWarning, match=r"all labels keep the threshold 0\.5: not enough memory$"):
        model.fit(X, y[:, None] == [0, 1])


def test_folds_of_a_generator_are_asked_for_once():
    parts = list(StratifiedKFold(3).split(X, y))
    found = [
        MCBoostClassifier(n_estimators=3, calibrate="temperature", cv=cv)
        .fit(X, y)
        .model_.temperature
        for cv in (parts, iter(parts))
    ]
    assert found[0] == found[1] is not None


def test_folds_of_ones_own_take_no_room_in_the_model(tmp_path):
    """But a checkpoint knows them from others."""

    def fit(parts, n_estimators):
        words = {"n_estimators": n_estimators, "calibrate": "temperature", "random_state": 0}
        return Checkpoint(tmp_path / "part", 0).fit(
            VectorTreeBoostClassifier(**words, cv=parts), X, y
        )

    parts, others = (
        list(StratifiedKFold(3, shuffle=True, random_state=seed).split(X, y)) for seed in (0, 1)
    )
    assert fit(parts, 1).model_.meta["params"]["cv"].startswith("3 folds with the checksum ")
    assert fit(parts, 2).n_estimators_ == 2
    with pytest.raises(
        ValueError, match="cv was '3 folds with the checksum .*', now it is '3 folds"
    ):
        fit(others, 2)


def test_hingeboost_promises_probabilities_where_it_is_told_to():
    machine = HingeBoostOCClassifier(n_estimators=5, random_state=0, calibrate="temperature")
    assert hasattr(machine, "predict_proba")
    with pytest.raises(NotFittedError):
        machine.predict_proba(X)
    loss = log_loss(y[1::2], machine.fit(X[::2], y[::2]).predict_proba(X[1::2]))
    assert loss < log_loss(y[1::2], machine.model_.with_temperature(1.0).predict_proba(X[1::2]))
    with pytest.warns(UserWarning, match="not calibrated"):
        machine.set_params(cv=50).fit(X[::3], y[::3])
    assert not hasattr(machine, "predict_proba") and not hasattr(machine, "predict_log_proba")
    assert hasattr(machine.calibrate_on(X[1::2], y[1::2]), "predict_proba")
    odd = HingeBoostOCClassifier(
        n_estimators=5, random_state=0, kernel=lambda a, b: a @ b.T, calibrate="temperature"
    )
    assert odd.fit(X, y).predict_proba(X).shape == (150, 3)


def test_no_other_calibration():
    with pytest.raises(
        ValueError, match="calibrate='sigmoid' is not allowed; .*'temperature' or None"
    ):
        VectorTreeBoostClassifier(calibrate="sigmoid").fit(X, y)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [(2.0, 1.0, 2.0), (2.0, 4.0, 2.0 * 0.5 ** (np.log(1.5) / np.log(2)))],
)
def test_temperatures_that_rise_with_the_rows_are_not_extrapolated(
    monkeypatch, first, second, expected
):
    actual = iter([first, second])
    monkeypatch.setattr(calibration, "_temperature", lambda *given: next(actual))
    warm = MCBoostClassifier(n_estimators=3, calibrate="temperature").fit(X, y)
    assert warm.model_.temperature == pytest.approx(expected, rel=2**-11)
