"""Linear and kernel machines: scores against a slow twin, bit for bit, and what may be saved."""

import dataclasses
import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from reference.scoring import finite_rows, random_kernel, random_linear, raw_scores
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import chi2_kernel

from pymcboost import HingeBoostOCClassifier
from pymcboost.model import rows
from pymcboost.model.kernel import KERNELS, KernelMachine
from pymcboost.model.linear import LinearMachine
from pymcboost.model.model import Model, load_model
from pymcboost.model.scale import Scale


def same_bits(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def check_against_twin(machine, X):
    """Scores of the model equal the twin's, for all rows at once, one by one, and by threads."""
    expected = raw_scores(machine, X)
    model = Model.from_ensemble(machine, range(machine.n_classes))
    assert same_bits(model.raw_scores(X), expected)
    assert same_bits(np.vstack([model.raw_scores(X[i : i + 1]) for i in range(len(X))]), expected)
    assert (model.predict(X, n_jobs=2) == expected.argmax(axis=1)).all()
    return model


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 6, 7, 10, 26, 33, 65, 130])
@pytest.mark.part(2)
def test_linear_equals_the_twin(n_classes):
    # a chunk is 512 features; rows come in fours and eights
    for n_features, n_rows in ((1, 1), (5, 3), (8, 4), (13, 9), (64, 17), (515, 12), (1031, 5)):
        check_against_twin(
            random_linear(n_features, n_classes, seed=n_features), finite_rows(n_rows, n_features)
        )


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_equal_the_twin(kernel, scaled):
    for n_support, n_features, n_classes, n_rows in (
        (1, 1, 2, 1),
        (7, 5, 3, 9),
        (65, 8, 4, 12),
        (64, 20, 33, 3),
        (130, 3, 10, 8),
        (9, 515, 2, 9),
        (3, 1030, 5, 10),
    ):
        machine = random_kernel(
            n_support, n_features, n_classes, kernel=kernel, scaled=scaled, seed=n_support
        )
        model = check_against_twin(machine, finite_rows(n_rows, n_features))
        assert model.kind == 6


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_mean_what_libsvm_means(kernel):
    """The textbook formulas in float64, so that the twin's and the scorer's common definition is right, too."""
    machine = random_kernel(40, 6, 3, kernel=kernel, scaled=True)
    X = finite_rows(50, 6)
    Z = machine.scale.apply(X).astype(np.float64)
    V = machine.support.astype(np.float64)
    distance = np.sqrt(((Z[:, None] - V) ** 2).sum(axis=2))
    values = {
        "linear": Z @ V.T,
        "poly": (machine.gamma * Z @ V.T + machine.coef0) ** machine.degree,
        "rbf": np.exp(-machine.gamma * distance**2),
        "perceptron": machine.coef0 - distance,
    }[kernel]
    expected = values @ machine.coef + machine.intercept
    scores = Model.from_ensemble(machine, range(3)).raw_scores(X)
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)


def test_shift_of_the_perceptron_cancels():
    machine = random_kernel(40, 6, 3, kernel="perceptron")
    coef = np.round(machine.coef * 256) / 256  # exact sums
    coef[0] -= coef.sum(axis=0)  # the coefficients of each class sum to 0
    X = finite_rows(5, 6)
    scores = []
    for shift in (0.0, 100.0):
        shifted = dataclasses.replace(machine, coef0=shift, coef=coef)
        scores.append(Model.from_ensemble(shifted, range(3)).raw_scores(X))
    assert same_bits(*scores)


def test_zero_rows_are_removed():
    machine = random_kernel(20, 4, 3)
    coef = machine.coef.copy()
    coef[[0, 7, 19]] = 0
    coef[3, :2] = 0
    machine = KernelMachine(
        "rbf", 0.5, 0, degree=0, support=machine.support, coef=coef, intercept=machine.intercept
    )
    model = check_against_twin(machine, finite_rows(5, 4))
    assert len(model.ensemble) == 17
    assert same_bits(model.ensemble.support, machine.support[coef.any(axis=1)])
    assert "kernel machine (rbf), 17 support vectors" in repr(model)
    empty = KernelMachine(
        "rbf", 0.5, 0, degree=0, support=machine.support, coef=0 * coef, intercept=machine.intercept
    )
    assert len(check_against_twin(empty, finite_rows(5, 4)).ensemble) == 0


def test_scale():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(50, 4)) * [1, 100, 0, 1e-3] + [0, 1000, 5, 0]).astype(np.float32)
    scale = Scale.from_range(X.min(axis=0), X.max(axis=0))
    Z = scale.apply(X)
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z.min(axis=0), [-1, -1, 0, -1], atol=1e-4)
    np.testing.assert_allclose(Z.max(axis=0), [1, 1, 0, 1], atol=1e-4)
    # A machine with a scale scores rows as one without scores scaled rows, in all bits.
    scaled = random_kernel(30, 4, 3)
    with_scale = KernelMachine(
        "rbf",
        scaled.gamma,
        0,
        degree=0,
        support=scaled.support,
        coef=scaled.coef,
        intercept=scaled.intercept,
        scale=scale,
    )
    without = Model.from_ensemble(scaled, range(3)).raw_scores(Z)
    model = check_against_twin(with_scale, X)
    assert same_bits(model.raw_scores(X), without)
    assert same_bits(model.ensemble.scale.offset, scale.offset)
    # It is folded into a linear machine.
    linear = random_linear(4, 3)
    folded = Model.from_ensemble(LinearMachine(linear.coef, linear.intercept, scale), range(3))
    np.testing.assert_allclose(
        folded.raw_scores(X),
        Model.from_ensemble(linear, range(3)).raw_scores(Z),
        rtol=1e-4,
        atol=1e-4,
    )
    assert folded.ensemble.scale is None


def test_far_features_lose_little_when_a_scale_is_folded():
    """The rounded coefficients are those that the intercept takes off, so that only one rounding is far from 0."""
    rng = np.random.default_rng(0)
    X = rng.integers(100_000, 100_100, size=(200, 5)).astype(np.float32)
    scale = Scale.from_range(X.min(axis=0), X.max(axis=0))
    linear = random_linear(5, 3)
    folded = Model.from_ensemble(
        LinearMachine(linear.coef, linear.intercept, scale), range(3)
    ).raw_scores(X)
    plain = Model.from_ensemble(linear, range(3)).raw_scores(scale.apply(X))
    size = np.abs(linear.coef * scale.factor * scale.offset).sum(axis=1).max()
    assert np.abs(folded - plain).max() < 2 * size * 2.0**-24


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows(index, dtype):
    rng = np.random.default_rng(3)
    for n_rows, n_features, n_classes in ((700, 300, 3), (30, 1000, 33), (3, 5, 70)):
        X = sp.random(n_rows, n_features, density=0.05, format="csr", random_state=rng, dtype=dtype)
        X.data[::5] *= -1
        X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
        for machine in (
            random_linear(n_features, n_classes),
            random_kernel(5, n_features, n_classes),
        ):
            expected = raw_scores(machine, X.toarray())
            model = Model.from_ensemble(machine, range(n_classes))
            for n_jobs in (1, 3):
                assert same_bits(model.raw_scores(X, n_jobs=n_jobs), expected)
                assert (model.predict_codes(X, n_jobs=n_jobs) == expected.argmax(axis=1)).all()
            assert same_bits(model.raw_scores(X.toarray()), expected)


def test_unsorted_and_repeated_entries():
    """Rows whose indices do not increase are filled with zeros; entries of one cell are added."""
    machine = random_linear(20, 3)
    indptr = [0, 4, 4, 7]
    indices = [9, 2, 2, 17, 3, 1, 0]
    X = sp.csr_matrix((np.arange(1.0, 8), indices, indptr), shape=(3, 20))
    model = Model.from_ensemble(machine, range(3))
    assert same_bits(model.raw_scores(X), raw_scores(machine, X.toarray()))


def test_sparse_rows_are_not_filled_up():
    """8 million features of 2 classes: a block of filled rows would take 512 MB."""
    d = 8_000_000
    coef = np.zeros((2, d), dtype=np.float32)
    coef[:, [5, 77, d - 1]] = [[1, 2, 3], [4, 5, 6]]
    X = sp.csr_matrix((np.ones(4, dtype=np.float32), [5, d - 1, 77, 78], [0, 2, 4]), shape=(2, d))
    model = Model.from_ensemble(LinearMachine(coef, np.zeros(2, dtype=np.float32)), range(2))
    assert model.raw_scores(X).tolist() == [[4, 10], [2, 5]]


@pytest.mark.parametrize("kernel", ["LINEAR", *KERNELS])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_missing_values_are_refused(kernel, value):
    machine = random_linear(11, 3) if kernel == "LINEAR" else random_kernel(7, 11, 3, kernel=kernel)
    for link in ("none", "softmax"):
        model = Model.from_ensemble(machine, range(3), link=link)
        for row, column in ((0, 0), (5, 9), (10, 10)):
            X = finite_rows(11, 11).astype(np.float64)
            X[row, column] = value
            calls = [model.raw_scores, model.decision_function, model.predict, model.predict_codes]
            for call in [*calls, model.predict_proba] if link == "softmax" else calls:
                for form in (X, sp.csr_matrix(X)):
                    with (
                        np.errstate(over="ignore"),
                        pytest.raises(
                            ValueError,
                            match=f"^row {row} of X contains .* in column {column}; .*impute",
                        ),
                    ):
                        call(form)
    assert model.predict(np.zeros((0, 11))).shape == (0,)


def test_missing_values_among_the_highest_scores_have_the_row_of_all(monkeypatch):
    monkeypatch.setattr(rows, "TOP_NUMBERS", 1)  # few rows at once
    X = finite_rows(200, 6)
    X[150, 2] = np.nan
    with pytest.raises(ValueError, match="^row 150 of X contains nan in column 2"):
        Model.from_ensemble(random_linear(6, 3), range(3)).predict_top(X, 2)


def test_scores_too_large_are_refused():
    machine = KernelMachine(
        "poly",
        1,
        0,
        degree=1000,
        support=np.full((1, 2), 100),
        coef=np.array([[1e30, 0.0]]),
        intercept=np.zeros(2, dtype=np.float32),
    )
    model = Model.from_ensemble(machine, range(2))
    assert np.isfinite(model.raw_scores([[0.005, 0.005]])).all()
    with pytest.raises(
        ValueError, match="row 1 of X contains numbers that are too large for this model"
    ):
        model.raw_scores([[0, 0], [100, 100]])


def test_far_rows_of_rbf():
    """Far from every support vector the kernel is 0 and the intercept remains."""
    machine = random_kernel(5, 3, 2)
    model = Model.from_ensemble(machine, range(2))
    assert same_bits(model.raw_scores([[1e18, 0, 0]]), machine.intercept.astype(np.float64)[None])


def test_model_of_a_machine(tmp_path):
    for machine in (random_linear(6, 3), random_kernel(9, 6, 3, kernel="poly", scaled=True)):
        X = finite_rows(8, 6)
        model = Model.from_ensemble(machine, ["a", "b", "c"], meta={"rounds": 7})
        model.save(tmp_path / "m.mcb")
        assert (tmp_path / "m.mcb").read_bytes() == model.to_bytes()
        restored = load_model(tmp_path / "m.mcb")
        assert (
            Model.from_ensemble(restored.ensemble, restored.classes_, meta=restored.meta).to_bytes()
            == model.to_bytes()
        )
        assert same_bits(pickle.loads(pickle.dumps(model)).raw_scores(X), model.raw_scores(X))
        assert model.n_learners is None
        assert model.n_rounds is None
        assert not model.has_stages
        assert set(model.predict(X)) <= {"a", "b", "c"}
        merged = "linear or kernel machine that merges all rounds"
        with pytest.raises(ValueError, match=merged):
            next(model.staged_decision_function(X))
        with pytest.raises(ValueError, match=merged):
            model.truncate(1)
        for some in (X, sp.csr_matrix(X)):
            for ask in (
                model.apply,
                model.paths,
                lambda some, model=model: next(model.staged_apply(some)),
            ):
                with pytest.raises(ValueError, match="the weak learners of this model are merged"):
                    ask(some)
        with pytest.raises(ValueError, match="no link from scores to probabilities"):
            model.predict_proba(X)
        with pytest.raises(
            ValueError, match="interval table is for stumps; a .* machine supports only"
        ):
            model.save(tmp_path / "m.mcb", layout="interval")
        with pytest.raises(
            ValueError, match="interval table is for stumps; a .* machine supports only"
        ):
            Model.from_ensemble(machine, range(3), layout="interval")
        with pytest.raises(ValueError, match="leaves='float16' is for trees"):
            Model.from_ensemble(machine, range(3), leaves="float16")
    linear = Model.from_ensemble(random_linear(6, 3), range(3))
    share = np.abs(linear.ensemble.coef.astype(np.float64)).sum(axis=0)
    np.testing.assert_allclose(linear.feature_importances(), share / share.sum())
    assert repr(linear) == "<Model: linear machine, 3 classes, 6 features>"
    support = np.zeros((3, 4))
    support[1, 2] = 1
    for kernel, used in (("poly", [2]), ("rbf", [0, 1, 2, 3])):
        machine = KernelMachine(
            kernel, 1, 0, degree=1, support=support, coef=np.ones((3, 2)), intercept=np.zeros(2)
        )
        feature, share = Model.from_ensemble(machine, range(2)).used_features()
        assert (feature.tolist(), share.tolist()) == (used, [0] * len(used))


def test_highest_scores_of_a_callable_kernel():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)).astype(np.float32)
    y = np.array(["a", "b", "c"])[np.arange(60) % 3]
    model = HingeBoostOCClassifier(n_estimators=4, kernel=lambda A, B: A @ B.T, random_state=0).fit(
        X, y
    )
    every = model.decision_function(X)
    labels, scores = model.predict_top(X, 2)
    assert (labels[:, 0] == model.predict(X)).all()
    assert same_bits(scores, np.sort(every, axis=1)[:, :0:-1].copy())
    assert model.predict_top(X[:1] * 0, 3)[0].shape == (1, 3)
    with pytest.raises(ValueError, match="k must be from 1 to 3, the number of classes, not 4"):
        model.predict_top(X, 4)


def test_rows_that_a_callable_kernel_cannot_take_are_refused():
    model = (
        HingeBoostOCClassifier(n_estimators=2, kernel=lambda A, B: A @ B.T)
        .fit(np.eye(6), np.arange(6) % 3)
        .model_
    )
    for X, message in (
        (sp.csr_array(np.eye(6)), r"needs dense X; use X.toarray\(\)"),
        (np.ones((2, 5)), "X has 5 features, but the model was trained on 6"),
        (np.ones(6), r"X must be two-dimensional, but has shape \(6,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(X)
    assert model.predict(np.eye(6).tolist()).shape == (6,)


def test_what_a_callable_kernel_returns_is_checked():
    def spoilt(A, B, value):
        values = A @ B.T
        values[2, 3] = value
        return values

    for kernel, message in (
        (
            lambda A, B: np.ones(3),
            r"must return values of shape \(6, 6\), but it returned shape \(3,\)",
        ),
        (
            lambda A, B: spoilt(A, B, np.nan),
            "must return finite values, but it returned nan for row 2 .* and row 3",
        ),
        (lambda A, B: spoilt(A, B, -np.inf), "must return finite values, but it returned -inf"),
        (
            lambda A, B: A @ B.T + 0j,
            "must return an array of real numbers, but it returned complex",
        ),
        (
            lambda A, B: sp.csr_array(A @ B.T),
            "must return an array of real numbers, but it returned csr_array",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            HingeBoostOCClassifier(n_estimators=2, kernel=kernel).fit(np.eye(6), np.arange(6) % 3)


def test_a_callable_kernel_has_rows_of_its_own():
    """It may write into them, and kernels in Cython ask for arrays that can be written."""

    def writes(A, B):
        products = A @ B.T
        A[:] = B[:] = 7.0
        return products

    X, y = load_iris(return_X_y=True)
    found = [
        HingeBoostOCClassifier(n_estimators=3, kernel=kernel, random_state=0)
        .fit(X, y)
        .decision_function(X)
        for kernel in (writes, lambda A, B: A @ B.T)
    ]
    np.testing.assert_array_equal(found[0], found[1])
    assert (
        HingeBoostOCClassifier(n_estimators=3, C=100.0, kernel=chi2_kernel).fit(X, y).score(X, y)
        > 0.9
    )


@pytest.mark.parametrize(
    "cost", [[[0, 1, 1], [1, 0], [1, 1, 0]], [["a", "b"], ["c", "d"]], "costs", [[0, {}], [1, 0]]]
)
def test_cost_matrices_that_are_no_numbers_are_refused(cost):
    with pytest.raises(ValueError, match="^cost_matrix must hold K x K numbers"):
        HingeBoostOCClassifier(n_estimators=2, cost_matrix=cost).fit(np.eye(6), np.arange(6) % 3)


def test_two_classes():
    model = Model.from_ensemble(random_linear(6, 2), ["no", "yes"])
    X = finite_rows(8, 6)
    F = model.raw_scores(X)
    assert same_bits(model.decision_function(X), F[:, 1] - F[:, 0])


def test_every_form_of_rows_gives_the_same_bits():
    X = finite_rows(300, 13)
    wide = np.zeros((300, 17), dtype=np.float32)
    wide[:, 2:15] = X
    for machine in (
        random_linear(13, 5),
        random_kernel(30, 13, 5, kernel="perceptron", scaled=True),
    ):
        model = Model.from_ensemble(machine, range(5))
        expected = raw_scores(machine, X)
        for form in (
            X.astype(np.float64),
            np.asfortranarray(X),
            wide[:, 2:15],
            X.tolist(),
            X[::-1].copy()[::-1],
        ):
            for n_jobs in (1, 2, 8):
                assert same_bits(model.raw_scores(form, n_jobs=n_jobs), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"kernel": "sigmoid"},
            "kernel must be one of 'linear', 'poly', 'rbf', 'perceptron', not 'sigmoid'",
        ),
        ({"gamma": 0}, "gamma must be positive and at least 1.5e-45, not 0"),
        ({"gamma": -1.0}, "gamma must be positive"),
        ({"gamma": 1e-60}, "gamma must be positive"),
        ({"gamma": 1e60}, "gamma contains a number that is not finite as float32"),
        ({"gamma": np.nan}, "gamma contains a number that is not finite"),
        ({"coef0": np.inf}, "coef0 contains a number that is not finite"),
        ({"degree": -1}, "degree must be an integer from 0 to 1000, not -1"),
        ({"degree": 1001}, "degree must be an integer from 0 to 1000, not 1001"),
        ({"degree": 2.5}, "degree must be an integer from 0 to 1000, not 2.5"),
        (
            {"support": np.zeros(3)},
            r"support must have shape \(support vectors, features\), not \(3,\)",
        ),
        ({"support": np.full((7, 4), np.nan)}, "support contains a number that is not finite"),
        ({"coef": np.zeros((6, 3))}, r"coef has shape \(6, 3\), but must have \(7, 3\)"),
        ({"coef": np.full((7, 3), 1e39)}, "coef contains a number that is not finite as float32"),
        ({"intercept": np.zeros(1)}, "needs at least 2 classes, but its intercept has 1"),
        (
            {"scale": Scale(np.zeros(4), np.zeros(3))},
            r"scale.factor has shape \(3,\), but must have \(4,\)",
        ),
        (
            {"scale": Scale(np.full(4, np.nan), np.zeros(4))},
            "scale.offset contains a number that is not finite",
        ),
    ],
)
def test_wrong_kernel_machines(change, message):
    machine = {**vars(random_kernel(7, 4, 3, kernel="poly")), **change}
    with pytest.raises(ValueError, match=message):
        Model.from_ensemble(KernelMachine(**machine), range(3))


def test_wrong_linear_machines():
    for coef, message in (
        (np.zeros(3), r"coef must have shape \(classes, features\), not \(3,\)"),
        (np.zeros((2, 4)), r"coef has shape \(2, 4\), but must have \(3, 4\)"),
        (np.full((3, 4), np.inf), "coef contains a number that is not finite"),
    ):
        with pytest.raises(ValueError, match=message):
            LinearMachine(coef, np.zeros(3)).canonical()


def test_equal_machines_give_equal_bytes():
    """Parameters that the kernel does not have, and signs of zero, leave no trace."""
    machine = random_kernel(7, 4, 3, kernel="rbf")
    other = KernelMachine(
        "rbf",
        machine.gamma,
        9.0,
        degree=4,
        support=machine.support,
        coef=machine.coef.astype("d"),
        intercept=machine.intercept,
    )
    assert (
        Model.from_ensemble(machine, range(3)).to_bytes()
        == Model.from_ensemble(other, range(3)).to_bytes()
    )
    zeros = [LinearMachine(np.full((2, 3), zero), np.full(2, zero)) for zero in (0.0, -0.0)]
    assert len({Model.from_ensemble(machine, range(2)).to_bytes() for machine in zeros}) == 1


def test_kernel_values_round_to_29_bits():
    """The definition in docs/format.md: products with float32 coefficients are then exact."""
    machine = random_kernel(1, 2, 2)
    coef = np.array([[1, 2]], dtype=np.float32)
    machine = KernelMachine(
        "rbf", 0.5, 0, degree=0, support=machine.support, coef=coef, intercept=np.zeros(2)
    )
    for row in finite_rows(200, 2):
        one, two = Model.from_ensemble(machine, range(2)).raw_scores(row[None])[0]
        assert two == 2 * one
        assert (math.frexp(one)[0] * 2**29).is_integer()
