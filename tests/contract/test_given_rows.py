"""Rows as users give them: frames whose names repeat, and what is no matrix of numbers."""


import numpy as np
import pytest
from cli.programs import call

from pymcboost import HingeBoostOCClassifier, MCBoostClassifier, VectorTreeBoostClassifier
from pymcboost.comm import Alone
from pymcboost.data import Chunks
from pymcboost.inspection import importance

rng = np.random.default_rng(0)
y = np.arange(60) % 3
X = rng.normal(size=(60, 4)) + y[:, None]
HOW = {"n_estimators": 3, "random_state": 0}


def pandas_frame(names):
    return pytest.importorskip("pandas").DataFrame(X, columns=names)


def arrow_table(names):
    return pytest.importorskip("pyarrow").table(list(X.T), names=list(names))


# -- names that repeat -------------------------------------------------------------------------------------------------

# What reads the rows of a frame ``bad``; ``good`` has other names, ``fitted`` is of it and ``nameless`` of an array.
READERS = {
    "fit": lambda bad, good, fitted, nameless: MCBoostClassifier(**HOW).fit(bad, y),
    "fit of a machine": lambda bad, good, fitted, nameless: HingeBoostOCClassifier(**HOW).fit(bad, y),
    "workers": lambda bad, good, fitted, nameless: VectorTreeBoostClassifier(**HOW).fit(bad, y, comm=Alone()),
    "categories": lambda bad, good, fitted, nameless: VectorTreeBoostClassifier(
        categorical_features=[0], **HOW
    ).fit(bad, y),
    "blocks": lambda bad, good, fitted, nameless: VectorTreeBoostClassifier(**HOW).fit(Chunks([(bad, y)])),
    "init_model": lambda bad, good, fitted, nameless: MCBoostClassifier(**HOW).fit(bad, y, init_model=fitted),
    "X_val": lambda bad, good, fitted, nameless: MCBoostClassifier(**HOW).fit(good, y, X_val=bad, y_val=y),
    "validation_sets": lambda bad, good, fitted, nameless: MCBoostClassifier(**HOW).fit(
        good, y, validation_sets={"more": (bad, y)}
    ),
    "predict": lambda bad, good, fitted, nameless: fitted.predict(bad),
    "score": lambda bad, good, fitted, nameless: fitted.score(bad, y),
    "calibrate_on": lambda bad, good, fitted, nameless: fitted.calibrate_on(bad, y),
    "predict by place": lambda bad, good, fitted, nameless: nameless.predict(bad),
    "Model": lambda bad, good, fitted, nameless: fitted.model_.predict_proba(bad),
    "Model by place": lambda bad, good, fitted, nameless: nameless.model_.predict(bad),
    "Model.calibrated": lambda bad, good, fitted, nameless: nameless.model_.calibrated(bad, y),
    "permutation": lambda bad, good, fitted, nameless: importance(nameless, "permutation", X=bad, y=y),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("frame", "names", "name"),
    [(pandas_frame, "abca", "'a'"), (pandas_frame, [0, 1, 0, 2], "0"), (arrow_table, "abca", "'a'")],
    ids=["pandas", "numbers", "pyarrow"],
)
def test_repeated_names_of_columns_are_refused_by_name(reader, frame, names, name):
    good = pandas_frame(list("abcd"))
    fitted, nameless = MCBoostClassifier(**HOW).fit(good, y), MCBoostClassifier(**HOW).fit(X, y)
    with pytest.raises(ValueError, match=f"has 2 columns with the name {name}; .* rename"):
        READERS[reader](frame(list(names)), good, fitted, nameless)


def test_repeated_names_of_columns_in_a_parquet_file(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table([y, *X.T], names=["label", *"abca"])
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "train.parquet")
    done = call("train", "--label", "label", "train.parquet", "m.mcb", cwd=tmp_path)
    assert done.returncode == 2
    assert "train.parquet: the column name 'a' occurs twice" in done.stderr
