"""Models know which columns had missing values in training; ``missing="error"`` refuses them in others."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from cli.programs import call, write_svm
from divided.threads import run
from unit.test_blocks import cut

from pymcboost import (
    Checkpoint,
    Dataset,
    HingeBoostOCClassifier,
    MCBoostClassifier,
    Model,
    VectorTreeBoostClassifier,
    export,
    load_model,
)
from pymcboost.data import blocks
from pymcboost.model import missing
from pymcboost.registry import ALGORITHMS, get_class

HOW = {"n_estimators": 4, "random_state": 0}
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


def made(m=120, d=5, K=3):
    rng = np.random.default_rng(0)
    y = np.arange(m) % K
    return rng.normal(size=(m, d)) + y[:, None], y


def with_gaps(*cells, m=120):
    """Rows with missing values in these cells, and labels."""
    X, y = made(m)
    for row, column in cells:
        X[row, column] = np.nan
    return X, y


def stop_after(monkeypatch, rounds):
    """Make Ctrl-C come inside a round, after its trees have been added."""
    original = VectorTreeBoostClassifier.booster.round
    count = [0]

    def interrupted(self):
        done = original(self)
        count[0] += 1
        if count[0] > rounds:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(VectorTreeBoostClassifier.booster, "round", interrupted)


def refusal(call_of, *arguments):
    with pytest.raises(ValueError) as caught:
        call_of(*arguments, missing="error")
    return str(caught.value)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_that_takes_missing_values(name):
    cls = get_class(name)
    X, y = with_gaps((3, 1), (7, 4), (9, 4))
    if not cls.booster.allows_missing:
        X, _ = made()
    known = set(cls().get_params())
    model = cls(**{key: value for key, value in HOW.items() if key in known}).fit(X, y)
    other = X.copy()
    other[5, 2] = np.nan
    if not cls.booster.allows_missing:
        model.predict(X, missing="error")
        return
    assert model.model_.missing_columns == [1, 4]
    assert model.model_.meta["missing_columns"] == [1, 4]
    model.predict(X, missing="error")
    assert "row 5 of X: a value is missing in column 2, which had no missing" in refusal(
        model.predict, other
    )


def test_all_methods_say_the_same_and_give_the_same():
    X, y = with_gaps((3, 1))
    other = X.copy()
    other[5, 2] = np.nan
    model = VectorTreeBoostClassifier(**HOW).fit(X, y)
    saved = Model.from_bytes(model.model_.to_bytes())
    calls = [getattr(one, name) for one in (model, model.model_, saved) for name in METHODS]
    calls += [saved.raw_scores, saved.predict_codes]
    said = {refusal(one, other) for one in calls}
    assert len(said) == 1 and "impute" in said.pop()
    for one in calls:
        assert np.array_equal(one(X, missing="error"), one(X))
        assert np.array_equal(one(other), one(other, missing="allow"))
    first = {"init_score": np.zeros((len(y), 3))}
    for one in calls:
        with pytest.raises(ValueError, match="row 5 of X"):
            one(other, missing="error", **first)
    early = saved.with_early_exit("certified")
    assert "row 5 of X" in refusal(
        lambda X, **how: early.predict(X, early="certified", **how), other
    )
    for one in (model, saved):
        with pytest.raises(
            ValueError, match="missing='raise' is not allowed; it must be 'allow' or 'error'"
        ):
            one.predict(X, missing="raise")


def test_complete_rows_leave_no_entry():
    X, y = made()
    model = VectorTreeBoostClassifier(**HOW).fit(X, y).model_
    assert "missing_columns" not in model.meta
    assert model.missing_columns == []
    assert "row 0 of X: a value is missing in column 0" in refusal(
        model.predict, np.full((1, 5), np.nan)
    )
    everywhere = (
        VectorTreeBoostClassifier(**HOW)
        .fit(np.concatenate([X, np.full((1, 5), np.nan)]), [*y, 0])
        .model_
    )
    assert everywhere.meta["missing_columns"] == "all" and everywhere.missing_columns == [
        0,
        1,
        2,
        3,
        4,
    ]
    everywhere.predict(np.full((1, 5), np.nan), missing="error")


def test_the_first_row_and_column_are_named_in_any_layout(monkeypatch):
    X, y = with_gaps((3, 1))
    model = VectorTreeBoostClassifier(**HOW).fit(X, y).model_
    other = X.copy()
    other[[90, 60, 60], [0, 4, 3]] = np.nan
    expected = refusal(model.predict, other)
    assert "row 60 of X: a value is missing in column 3" in expected
    monkeypatch.setattr(missing, "PIECE", 35)
    for rows in (other, other.astype(np.float32), other.tolist(), np.asfortranarray(other)):
        assert refusal(model.predict, rows) == expected
    for kind in (scipy.sparse.csr_array, scipy.sparse.csc_array, scipy.sparse.coo_array):
        assert refusal(model.predict, kind(other)) == expected
        model.predict(kind(X), missing="error")
    model.predict(
        X.astype(int) if not np.isnan(X).any() else np.nan_to_num(X).astype(int), missing="error"
    )


def test_sparse_entries_in_any_order():
    X, y = with_gaps((3, 1))
    model = VectorTreeBoostClassifier(**HOW).fit(X, y).model_
    data = np.array([1, np.nan, np.nan, np.nan], dtype=np.float32)
    rows = scipy.sparse.csr_array((data, np.array([2, 4, 1, 0]), np.array([0, 1, 4])), shape=(2, 5))
    assert "row 1 of X: a value is missing in column 0" in refusal(model.predict, rows)


def test_sparse_training():
    X, y = with_gaps((3, 1), (4, 3))
    X[np.abs(X) < 0.5] = 0
    rows = scipy.sparse.csr_array(X)
    for cls in (VectorTreeBoostClassifier, MCBoostClassifier):
        model = cls(**HOW).fit(rows, y)
        assert model.model_.missing_columns == [1, 3]
        model.predict(rows, missing="error")
        X[0, 0] = np.nan
        assert "row 0 of X" in refusal(model.predict, scipy.sparse.csr_array(X))
        X[0, 0] = 1


def test_frames_with_names_and_categories():
    X, y = with_gaps((3, 1))
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["f"] = pd.Categorical(np.array(["red", "blue", "green"])[y])
    frame["g"] = pd.Categorical(np.array(["x", None], dtype=object)[y % 2])
    model = VectorTreeBoostClassifier(**HOW).fit(frame, y)
    assert model.model_.missing_columns == [1, 6]
    model.predict(frame, missing="error")
    for estimator in (model, model.model_):
        other = frame.copy()
        other.loc[7, "c"] = np.nan
        assert "row 7 of X: a value is missing in column 'c'" in refusal(estimator.predict, other)
        other = frame.astype({"f": object})
        other.loc[9, "f"] = "violet"
        assert (
            "row 9 of X: a value is missing or not one of the categories in column 'f'"
            in refusal(estimator.predict, other)
        )
    assert "column 'c'" in refusal(model.model_.predict, frame[list("gfedcba")].assign(c=np.nan))


def test_codes_beyond_the_levels_count_as_missing():
    X, y = made()
    X[:, 2] = y
    model = VectorTreeBoostClassifier(categorical_features=[2], **HOW).fit(X, y)
    model.predict(X, missing="error")
    X[4, 2] = 17
    assert "row 4 of X: a value is missing or not one of the categories in column 2" in refusal(
        model.predict, X
    )


def test_rows_that_are_not_trained_on_do_not_count():
    X, y = with_gaps((3, 1), (9, 4))
    weight = np.ones(len(y))
    weight[3] = 0
    for rows in (X, scipy.sparse.csr_array(X)):
        assert VectorTreeBoostClassifier(**HOW).fit(rows, y, weight).model_.missing_columns == [4]
    held, labels = with_gaps((3, 0))
    model = VectorTreeBoostClassifier(early_stopping=True, **HOW).fit(
        X, y, X_val=held, y_val=labels
    )
    assert model.model_.missing_columns == [1, 4]


def test_datasets_and_their_subsets():
    X, y = with_gaps((3, 1), (9, 4))
    data = Dataset(X, y)
    assert VectorTreeBoostClassifier(**HOW).fit(data).model_.missing_columns == [1, 4]
    part = data.subset(np.arange(5, 120))
    model = VectorTreeBoostClassifier(**HOW).fit(part)
    assert model.model_.missing_columns == [4]
    model.predict(part, missing="error")
    assert "row 3 of X: a value is missing in column 1" in refusal(model.predict, data)


@pytest.mark.parametrize("coded", [False, True])
def test_blocks(coded, monkeypatch):
    if coded:
        monkeypatch.setattr(blocks, "FEWEST_SAMPLED", 50)
        monkeypatch.setattr(blocks, "MOST_SAMPLED", 60)
    X, y = with_gaps((3, 1), (390, 4), (7, 0), m=400)
    weight = np.ones(400)
    weight[7] = 0
    data = Dataset.from_blocks(cut([70, 200], X, y, weight))
    assert VectorTreeBoostClassifier(**HOW).fit(data).model_.missing_columns == [1, 4]
    unweighted = Dataset.from_blocks(cut([70, 200], X, y))
    assert VectorTreeBoostClassifier(**HOW).fit(unweighted).model_.missing_columns == [0, 1, 4]


def test_workers_agree():
    X, y = with_gaps((3, 1), (100, 4), m=300)
    parts = [np.arange(50), np.arange(0), np.arange(50, 300)]
    single_model = VectorTreeBoostClassifier(calibrate=None, **HOW).fit(X, y)

    def task(workers):
        own = parts[workers.rank]
        model = VectorTreeBoostClassifier(calibrate=None, **HOW).fit(X[own], y[own], comm=workers)
        return model.model_.missing_columns, model.model_.to_bytes()

    assert run(3, task) == [([1, 4], single_model.model_.to_bytes())] * 3


def test_trainings_that_go_on_have_the_columns_of_all_rounds(tmp_path):
    X, y = with_gaps((3, 1))
    later, _ = with_gaps((8, 3))
    complete, _ = made()
    first = MCBoostClassifier(warm_start=True, **HOW).fit(X, y)
    for rows, columns in ((complete, [1]), (later, [1, 3])):
        first.n_estimators += 3
        assert first.fit(rows, y).model_.missing_columns == columns
    base = VectorTreeBoostClassifier(**HOW).fit(X, y)
    base.save(tmp_path / "base.mcb")
    for given in (base, base.model_, tmp_path / "base.mcb"):
        model = VectorTreeBoostClassifier(**HOW).fit(later, y, init_model=given)
        assert model.model_.missing_columns == [1, 3]
    assert base.refit_leaves(complete, y).model_.missing_columns == [1]
    assert base.refit_leaves(later, y).model_.missing_columns == [1, 3]
    base.predict(later, missing="error")


def test_checkpoints(tmp_path, monkeypatch):
    X, y = with_gaps((3, 1))
    path = tmp_path / "some.checkpoint"
    how = {"n_estimators": 6, "random_state": 0}
    uninterrupted = VectorTreeBoostClassifier(**how).fit(X, y)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        stop_after(patched, 3)
        VectorTreeBoostClassifier(**how).fit(X, y, callbacks=[Checkpoint(path, every=0)])
    assert load_model(path).missing_columns == [1]
    gone_on = VectorTreeBoostClassifier(**how).fit(X, y, callbacks=[Checkpoint(path)])
    assert gone_on.model_.missing_columns == [1]
    assert gone_on.model_.to_bytes() == uninterrupted.model_.to_bytes()


def test_models_made_from_others_keep_it():
    X, y = with_gaps((3, 1))
    model = VectorTreeBoostClassifier(**HOW).fit(X, y).model_
    for other in (
        model.truncate(2),
        model.with_temperature(2.0),
        model.reweighted([1, 2, 1]),
        model.relabelled(list("abc")),
        Model.from_bytes(model.to_bytes(layout="packed", leaves="int8")),
        model.with_early_exit("certified"),
    ):
        assert other.missing_columns == [1]


def test_models_that_do_not_know_refuse_to_judge():
    from sklearn.ensemble import RandomForestClassifier

    X, y = made()
    imported = export.from_sklearn(RandomForestClassifier(3, random_state=0).fit(X, y))
    trained = VectorTreeBoostClassifier(**HOW).fit(X, y).model_
    broken = [
        trained.with_meta({**trained.meta, "missing_columns": wrong})
        for wrong in ([9], ["a"], "some", None)
    ]
    for model in (imported, trained.with_meta({}), *broken):
        assert model.missing_columns is None
        assert "does not record which columns had missing values in training" in refusal(
            model.predict, X
        )
        model.predict(X)


def test_machines_refuse_missing_values_in_any_case():
    X, y = made()
    model = HingeBoostOCClassifier(**HOW).fit(X, y)
    assert np.array_equal(model.predict(X, missing="error"), model.predict(X))
    assert np.array_equal(model.model_.predict(X, missing="error"), model.predict(X))
    with pytest.raises(ValueError, match="machines need finite"):
        model.model_.predict(np.full((1, 5), np.nan), missing="error")


def test_very_many_columns_are_not_listed(monkeypatch):
    monkeypatch.setattr(missing, "MOST_LISTED", 2)
    assert missing.entry_of(np.array([1, 4]), 9) == {"missing_columns": [1, 4]}
    assert missing.entry_of(np.array([1, 4, 5]), 9) == {"missing_columns": "all"}


# -- mcboost-predict ---------------------------------------------------------------------------------------------------


@pytest.fixture
def model_file(tmp_path):
    """The file of a model that had missing values in its second column; and one of a frame."""
    X, y = with_gaps((3, 1))
    VectorTreeBoostClassifier(**HOW).fit(X, y).save(tmp_path / "m.mcb")
    VectorTreeBoostClassifier(**HOW).fit(pd.DataFrame(X, columns=list("abcde")), y).save(
        tmp_path / "named.mcb"
    )
    return tmp_path / "m.mcb"


@pytest.mark.parametrize("options", [[], ["--stream"], ["-b", 1], ["--early", "certified"]])
def test_the_program_refuses_them(model_file, tmp_path, options):
    model = load_model(model_file)
    if "--early" in options:
        model.with_early_exit("certified").save(model_file)
    (tmp_path / "good.svm").write_text("0 1:1 2:nan 5:2\n1 3:0.5\n")
    (tmp_path / "bad.svm").write_text("0 1:1 2:nan 5:2\n\n1 3:0.5 4:nan\n")
    for file, status in (("good.svm", 0), ("bad.svm", 2)):
        completed = call(
            "predict", *options, "--missing", "error", file, model_file, "-", cwd=tmp_path
        )
        assert completed.returncode == status, completed.stderr
        assert call("predict", *options, file, model_file, "-", cwd=tmp_path).returncode == 0
    place = "bad.svm:3" if "--stream" in options else "bad.svm: line 3"
    assert (
        f"{place}: a value is missing in column 4, which had no missing values in training"
        in completed.stderr
    )
    assert "use --missing allow" in completed.stderr


def test_the_program_names_columns_of_tables(model_file, tmp_path):
    (tmp_path / "t.csv").write_text("label,a,b,c,d,e\n0,1,,2,3,4\n1,1,2,3,4,\n")
    completed = call("predict", "--missing", "error", "t.csv", "named.mcb", "-", cwd=tmp_path)
    assert completed.returncode == 2
    assert (
        "t.csv: row 2: a value is missing in column 'e', which had no missing values in training"
        in completed.stderr
    )


def test_the_program_says_what_a_model_does_not_know(model_file, tmp_path):
    load_model(model_file).with_meta({}).save(model_file)
    (tmp_path / "t.svm").write_text("0 1:1\n")
    completed = call("predict", "--missing", "error", "t.svm", model_file, "-", cwd=tmp_path)
    assert completed.returncode == 1
    assert "does not record which columns had missing values in training" in completed.stderr


def test_models_of_the_program_know_it(tmp_path):
    X, y = with_gaps((3, 1))
    write_svm(tmp_path / "t.svm", X, y)
    completed = call("train", "-a", "vector-tree", "-n", 3, "t.svm", "m.mcb", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert load_model(tmp_path / "m.mcb").missing_columns == [1]
