"""Offsets of columns: values that differ in float64 still do after a training, wherever rows are given."""

import warnings

import numpy as np
import pytest
import scipy.sparse
from cli.programs import call
from contract.variants import as_published
from reference.modelreader import File

from pymcboost import (
    Checkpoint,
    HingeBoostOCClassifier,
    LogitBoostClassifier,
    MartClassifier,
    MCBoostClassifier,
    SAMMEClassifier,
    VectorTreeBoostClassifier,
    load_model,
)
from pymcboost.comm import MPIWorkers
from pymcboost.data.offsets import offset_of
from pymcboost.export import to_onnx, to_treelite
from pymcboost.inspection import contributions, curve, importance, plot_curve, plot_tree
from pymcboost.model.model import Model

LogitBoostClassifier, MartClassifier = as_published(LogitBoostClassifier, MartClassifier)

CLASSES = [MartClassifier, SAMMEClassifier, MCBoostClassifier, VectorTreeBoostClassifier]
EPOCH = 1.7e9


@pytest.fixture(autouse=True)
def no_warnings():
    """Nothing here warns, but where a test says so."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def time_stamps(m=900, seed=0):
    """Rows whose class is the hour of a time stamp, but for a time step that float32 does not know."""
    rng = np.random.default_rng(seed)
    seconds = rng.integers(0, 900, m).astype(np.float64)
    return np.column_stack([rng.normal(size=m), EPOCH + seconds, rng.normal(size=m)]), (seconds // 60 % 3).astype(int)


def since(X):
    """The same rows with times near 0."""
    return X - np.array([0, EPOCH, 0])


@pytest.fixture(scope="module")
def trained():
    X, y = time_stamps()
    return VectorTreeBoostClassifier(n_estimators=10, random_state=0).fit(X, y)


@pytest.mark.parametrize("cls", CLASSES)
def test_time_stamps_are_learnt_as_well_as_times_near_zero(cls):
    (X, y), (more, truth) = time_stamps(), time_stamps(seed=1)
    model = cls(n_estimators=30, random_state=0)
    accuracy = model.fit(X, y).score(more, truth)
    assert list(model.model_.offsets) == [1] and abs(model.model_.offsets[1] - EPOCH) < 900
    assert accuracy == pytest.approx(model.fit(since(X), y).score(since(more), truth), abs=0.02)
    assert model.model_.offsets == {}
    rounded = model.fit(since(X.astype(np.float32).astype(np.float64)), y)
    assert accuracy > rounded.score(since(more.astype(np.float32).astype(np.float64)), truth) + 0.04


def test_a_machine_and_trees_have_the_bits_of_rows_that_are_offset_before():
    X, y = time_stamps(200)
    for model in (HingeBoostOCClassifier(n_estimators=2, scale=True), LogitBoostClassifier(n_estimators=3)):
        scores = model.fit(X, y).decision_function(X)
        (offset,) = model.model_.offsets.values()
        before = X - np.array([0, offset, 0])
        assert model.fit(before, y).decision_function(before).tobytes() == scores.tobytes()


def test_python_the_model_the_slow_reader_and_the_programs_agree(trained, tmp_path):
    X, y = time_stamps(60, seed=2)
    X += np.array([0, 0.3, 0])
    X[0, 1], X[1, 1], X[2, 1], X[3, 1], X[4, 0] = np.nan, np.inf, -np.inf, 0.0, np.nan
    scores = trained.model_.raw_scores(X)
    trained.save(tmp_path / "model.mcb")
    loaded, file = load_model(tmp_path / "model.mcb"), File(trained.model_.to_bytes())
    assert loaded.raw_scores(X).tobytes() == scores.tobytes()
    floats = loaded.features(X)
    assert floats.dtype == np.float32 and np.array_equal(floats, [file.floats(row) for row in X.tolist()], True)
    assert np.array_equal(loaded.raw_scores(floats), scores)
    assert [file.scores(row) for row in floats.tolist()] == scores.tolist()
    assert (trained.decision_function(X[3:]) == scores[3:]).all()
    assert (list(trained.staged_decision_function(X[3:]))[-1] == scores[3:]).all()
    assert (loaded.apply(X) == loaded.apply(floats)).all()
    values = [[format(v, ".17g") for v in row] for row in X.tolist()]
    lines = [" ".join([str(k), *(f"{j + 1}:{v}" for j, v in enumerate(row))]) for k, row in zip(y, values, strict=True)]
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
    (tmp_path / "rows.csv").write_text("\n".join(["a,t,b", *map(",".join, values)]) + "\n")
    for rows, *more in (["rows.svm"], ["rows.svm", "--stream"], ["rows.csv"]):
        done = call("predict", tmp_path / rows, tmp_path / "model.mcb", tmp_path / "out", "-d", "1", *more)
        assert done.returncode == 0, done.stderr
        assert (np.loadtxt(tmp_path / "out", skiprows=1)[:, 1:] == scores).all()


@pytest.mark.parametrize("form", ["list", "integers", "fortran", "strided", "pandas", "columns of a frame"])
def test_rows_in_every_form_but_float32_lose_the_offset(form, trained):
    X = time_stamps(50)[0]
    X[:, [0, 2]] = np.arange(100).reshape(50, 2) % 7 - 3
    given = {
        "list": X.tolist,
        "integers": lambda: X.astype(np.int64),
        "fortran": lambda: np.asfortranarray(X),
        "strided": lambda: np.repeat(X, 2, axis=0)[::2],
        "pandas": lambda: pytest.importorskip("pandas").DataFrame(X.astype(np.int64)),
        "columns of a frame": lambda: pytest.importorskip("pandas").DataFrame(X).astype({1: "Int64"}),
    }[form]()
    wanted = trained.model_.raw_scores(X)
    assert (trained.model_.raw_scores(given) == wanted).all()
    assert (trained.decision_function(given) == wanted).all()


def test_integers_and_dates_as_numbers_get_offsets():
    pandas = pytest.importorskip("pandas")
    X, y = time_stamps()
    stamps = pandas.to_datetime(X[:, 1].astype(np.int64), unit="s").astype("datetime64[ns]")
    frame = pandas.DataFrame({"id": np.arange(900) % 7, "time": stamps.astype("int64")})
    model = MartClassifier(n_estimators=20).fit(frame, y)
    assert model.score(frame, y) > 0.95 and 0.9 < model.model_.offsets[1] / 1.7e18 < 1.1
    assert (load_bytes(model).predict(frame) == model.predict(frame)).all()
    with pytest.raises(ValueError, match="column 'time': .* is a date or a time"):
        model.fit(frame.assign(time=stamps), y)


def load_bytes(estimator):
    return Model.from_bytes(estimator.model_.to_bytes())


def test_rows_of_float32_count_as_offset_already(trained):
    X = time_stamps(50)[0]
    with pytest.warns(UserWarning, match="column 1 of float32 .* give X as float64") as caught:
        trained.model_.raw_scores(X.astype(np.float32))
    far = 2 * time_stamps(50)[0]  # less the offset, they lie near it
    assert trained.model_.predict_top(far, 1)[0][:, 0].tolist() == trained.model_.predict(far).tolist()
    assert caught[0].filename == __file__
    with pytest.raises(ValueError, match=r"offsets from columns \(column 1: 1[67]\d*\.?\d*\).* give X.toarray"):
        trained.predict(scipy.sparse.csr_array(X))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (lambda X: scipy.sparse.csr_array(X), "different values of a sample become"),
        (lambda X: X.astype(np.float32), "seem to be rounded"),
        # Two places where values are close to each other, and one offset.
        (lambda X: np.where(np.arange(len(X))[:, None] % 2, X, 3 * X), "even less the offset .* as two columns"),
    ],
)
def test_columns_that_still_lose_values_are_named(X, message):
    given, y = time_stamps()
    with pytest.warns(UserWarning, match=message):
        MartClassifier(n_estimators=1).fit(X(given), y)


def test_rows_of_workers_have_no_offsets():
    X, y = time_stamps()
    MPI = pytest.importorskip("mpi4py.MPI")
    with pytest.warns(UserWarning, match="different values of a sample become"):
        model = VectorTreeBoostClassifier(n_estimators=1).fit(X, y, comm=MPIWorkers(MPI.COMM_SELF))
    assert model.model_.offsets == {}


def test_validation_rows_folds_and_calibration_have_the_offsets(trained):
    (X, y), held = time_stamps(), time_stamps(300, seed=3)
    more = {"n_estimators": 10, "random_state": 0}
    offset = np.array([0, *trained.model_.offsets.values(), 0])
    for params, given in (
        ({"early_stopping": True}, {}),
        ({"calibrate": "temperature"}, {}),
        ({"calibrate": "temperature", "cv": 2, "n_estimators": "auto", "n_iter_no_change": 2}, {}),
        ({"calibrate": "temperature"}, {"X_val": held[0], "y_val": held[1]}),
    ):
        model = VectorTreeBoostClassifier(**{**more, **params})
        found = model.fit(X, y, **given).predict_proba(X)
        history = model.history_
        given = {**given, "X_val": held[0] - offset} if given else {}
        assert model.fit(X - offset, y, **given).predict_proba(X - offset).tobytes() == found.tobytes()
        assert all((history[name] == model.history_[name]).all() for name in history)
    with pytest.raises(ValueError, match=r"validation set 'val': .*give X.toarray\(\)"):
        model.fit(X, y, X_val=scipy.sparse.csr_array(held[0]), y_val=held[1])


def test_early_stopping_decides_by_rows_that_keep_the_offsets():
    """As with the same rows whose times are near 0, and a function that knows where these begin."""
    (X, y), found = time_stamps(), []
    for rows, begin in (X, EPOCH), (since(X), 0.0):
        late = lambda model, X, y, begin=begin: model.predict_proba(X)[X[:, 1] > begin + 450].max()  # noqa: E731
        model = MartClassifier(n_estimators=9, early_stopping=True, n_iter_no_change=3, scoring=late, random_state=0)
        found.append(model.fit(rows, y).history_["val_score"].tolist())
    assert found[0] == pytest.approx(found[1], abs=0.1) and len(found[0]) > 3


def test_more_rounds_keep_the_offsets_of_the_first(tmp_path):
    (X, y), (other, truth) = time_stamps(), time_stamps(seed=4)
    other = other + [0, 5000, 0]
    whole = MartClassifier(n_estimators=4).fit(X, y)
    first = MartClassifier(n_estimators=2, warm_start=True).fit(X, y)
    first.set_params(n_estimators=4).fit(X, y)
    assert first.decision_function(X).tolist() == whole.decision_function(X).tolist()
    more = MartClassifier(n_estimators=2).fit(other, truth, init_model=whole)
    assert more.model_.offsets == whole.model_.offsets and more.n_estimators_ == 6
    first.set_params(n_estimators=6).fit(other, truth)
    assert first.decision_function(other).tolist() == more.decision_function(other).tolist()
    checkpoint = Checkpoint(tmp_path / "part", every=0)
    checkpoint.fit(MartClassifier(n_estimators=2), X, y)
    resumed = checkpoint.fit(MartClassifier(n_estimators=4), X, y)
    assert checkpoint.resumed == 2 and resumed.model_.to_bytes() == whole.model_.to_bytes()
    with pytest.raises(ValueError, match="the features differ"):
        checkpoint.fit(MartClassifier(n_estimators=4), X + [0, 2.0**21, 0], y)
    refitted = MartClassifier(n_estimators=2).fit(X, y).refit_leaves(X, y, decay=0.5)
    assert refitted.model_.offsets == whole.model_.offsets and refitted.score(X, y) > 0.7


def test_all_that_looks_inside_takes_the_same_rows(trained):
    X, y = time_stamps(60)
    model = trained.model_.with_covers(X)
    found = contributions(model, X)
    assert np.allclose(found.base + found.values.sum(axis=1), model.raw_scores(X), rtol=0, atol=1e-9)
    for kind in ("gain", "permutation", "shap"):
        assert importance(model, kind, X=X, y=y).argmax() == 1
    assert model.truncate(3).offsets == model.relabelled(["a", "b", "c"]).offsets == trained.model_.offsets
    packed = VectorTreeBoostClassifier(n_estimators=2, leaf_levels=7).fit(X, y).model_
    again = Model.from_bytes(packed.to_bytes(layout="packed"))
    assert (again.raw_scores(X) == packed.raw_scores(X)).all() and again.offsets == packed.offsets
    early = trained.model_.with_early_exit("certified", X)
    assert (early.predict(X, early="certified") == early.predict(X)).all()


def test_curves_take_the_rows_that_the_model_takes():
    X, y = time_stamps(300)
    model = MCBoostClassifier(n_estimators=10).fit(X, y).model_
    curves = [curve(model, j) for j in range(3)]
    assert curves[1].offset == model.offsets[1] and curves[0].offset == 0
    for rows in (X, model.features(X), X.astype(object)):
        total = model.ensemble.bias + sum(one.at(rows[:, one.feature]) for one in curves)
        np.testing.assert_allclose(total, model.raw_scores(X), rtol=0, atol=1e-12)
    assert (curves[1].at([np.nan, None]) == curves[1].missing).all()
    with pytest.warns(UserWarning, match="column 1 of float32 .* give X as float64"):
        curves[1].at(X[:, 1].astype(np.float32))


@pytest.mark.parametrize("sign", [1, -1])
def test_plots_name_the_offset(sign):
    pytest.importorskip("matplotlib").use("Agg")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X, y = time_stamps(300)
    model = MCBoostClassifier(n_estimators=10).fit(sign * X[:, 1:2], y).model_
    (offset,) = model.offsets.values()
    column = f"x0 {'-' if sign > 0 else '+'} {abs(offset):.15g}"
    curves, tree = pyplot.subplots(1, 2)[1]
    assert plot_curve(model, 0, ax=curves).get_xlabel() == column
    assert plot_tree(model, 0, ax=tree).texts[0].get_text().startswith(f"{column}\n≤ ")
    pyplot.close("all")


@pytest.mark.parametrize("export", [to_onnx, to_treelite])
def test_exports_refuse_offsets(export, trained):
    with pytest.raises(ValueError, match=r"subtracts offsets from columns \(column 1: .*mcb_features"):
        export(trained)


def test_offsets_come_from_the_different_values_alone():
    X, y = time_stamps()
    model = MartClassifier(n_estimators=1).fit(X, y)
    order = np.random.default_rng(5).permutation(900)
    assert MartClassifier(n_estimators=1).fit(X[order], y[order]).model_.offsets == model.model_.offsets
    twice, outlier = np.repeat(X, 2, axis=0), np.vstack([X, [[0.0, -4e18, 0.0]]])
    assert MartClassifier(n_estimators=1).fit(twice, np.repeat(y, 2)).model_.offsets == model.model_.offsets
    weighted = MartClassifier(n_estimators=1).fit(outlier, np.append(y, 0), np.append(np.ones(900), 0.0))
    assert weighted.model_.to_bytes() == model.model_.to_bytes()


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (np.arange(1000.0), (0.0, 1000, 1000)),
        (EPOCH + np.arange(1000.0), (EPOCH + 512 - 12, 1000, 1000)),
        (-EPOCH - np.arange(1000.0), (-EPOCH - 512 + 12, 1000, 1000)),
        (np.append(EPOCH + np.arange(1000.0), [0.0, np.nan]), (None, 1001, 1001)),  # 0 stands for something
        (1 + np.arange(64) * 2.0**-40, (1.0 + 2.0**-35, 64, 64)),
        (np.array([2.0**24, 2.0**24 + 1]), (None, 2, 2)),
        (np.array([EPOCH]), (0.0, 1, 1)),
        (np.full(3, np.nan), (0.0, 1, 1)),
        (np.array([3.4e38, 3.4e38 * (1 + 1e-12), -3.4e38]), (0.0, 3, 2)),
    ],
)
def test_the_offset_of_a_column(values, found):
    offset, distinct, left = offset_of(values)
    assert (distinct, left) == found[1:] and np.isfinite(offset)
    if found[0] is not None:
        assert offset == pytest.approx(found[0], abs=64 if abs(found[0]) > 2 else 2.0**-35)
    rest = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        assert np.isfinite((rest - offset).astype(np.float32)).all()


def test_order_of_bytes_does_not_matter(trained):
    X = time_stamps(50)[0]
    less = trained.model_.features(X)
    for rows in (less, X):
        turned = rows.astype(rows.dtype.newbyteorder(">"))
        for model in (trained, trained.model_):
            assert np.array_equal(model.predict_proba(turned), model.predict_proba(rows))
