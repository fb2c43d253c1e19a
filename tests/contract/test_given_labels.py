"""Labels as users have them: objects that are numbers, types of pandas' own, and what is refused by its type."""

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from pymcboost import (
    Dataset,
    HingeBoostOCClassifier,
    LogitBoostClassifier,
    MCBoostClassifier,
    VectorTreeBoostClassifier,
)
from pymcboost.comm import Alone
from pymcboost.inspection import importance

rng = np.random.default_rng(0)
CODES = np.arange(60) % 3
X = rng.normal(size=(60, 3)) + 2 * np.eye(3)[CODES]
HOW = {"n_estimators": 3, "random_state": 0}
# Labels as arrays of objects, and what they are.
OBJECTS = {
    "int": (CODES.astype(object), CODES),
    "bool": ((CODES == 1).astype(object), CODES == 1),
    "NumPy's int": (np.array([np.int8(code) for code in CODES], dtype=object), CODES),
    "NumPy's bool": (np.array([np.bool_(code == 1) for code in CODES], dtype=object), CODES == 1),
    "int and bool": (
        np.array([True if code == 1 else int(code) for code in CODES], dtype=object),
        CODES,
    ),
    "whole float": (CODES.astype(float).astype(object), CODES),
    "beyond 2^53": ((2**53 + CODES).astype(object), 2**53 + CODES),
}


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize(
    "cls", [MCBoostClassifier, VectorTreeBoostClassifier, HingeBoostOCClassifier]
)
@pytest.mark.part(3)
def test_objects_that_are_numbers_are_labels(cls, kind):
    given, labels = OBJECTS[kind]
    expected = cls(**HOW).fit(X, labels, X_val=X, y_val=labels)
    fitted = cls(**HOW).fit(X, given, X_val=X, y_val=given, validation_sets={"more": (X, given)})
    assert fitted.model_.to_bytes() == expected.model_.to_bytes()
    assert fitted.classes_.dtype.kind in "ibf"
    assert fitted.score(X, given) == expected.score(X, labels)
    for model, its in (fitted, given), (expected, labels):
        model.calibrate_on(X, its)
    assert fitted.model_.to_bytes() == expected.model_.to_bytes()
    assert (
        fitted.model_.calibrated(X, given).to_bytes()
        == expected.model_.calibrated(X, labels).to_bytes()
    )


def test_objects_that_are_numbers_wherever_labels_are_taken():
    given, labels = OBJECTS["int"]
    fitted = LogitBoostClassifier(**HOW).fit(X, labels)
    expected = fitted.model_.to_bytes()
    divided = [
        LogitBoostClassifier(**HOW).fit(X, y, comm=Alone()).model_.to_bytes()
        for y in (given, labels)
    ]
    assert divided[0] == divided[1]
    blocks = [(X[:30], given[:30]), (X[30:], given[30:])]
    assert (
        LogitBoostClassifier(**HOW).fit(Dataset.from_blocks(blocks)).model_.to_bytes() == expected
    )
    shares = [importance(fitted, "permutation", X=X, y=y, random_state=0) for y in (given, labels)]
    np.testing.assert_array_equal(*shares)
    more = LogitBoostClassifier(**HOW).fit(X, given, init_model=fitted).model_.to_bytes()
    assert more == LogitBoostClassifier(**HOW).fit(X, labels, init_model=fitted).model_.to_bytes()
    again = fitted.refit_leaves(X, given, decay=0.5).model_.to_bytes()
    assert (
        again
        == LogitBoostClassifier(**HOW)
        .fit(X, labels)
        .refit_leaves(X, labels, decay=0.5)
        .model_.to_bytes()
    )


def test_a_column_out_of_a_frame_with_text():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"name": "x", "label": CODES, "value": X[:, 0]}).astype(object)
    for labels in (
        frame.iloc[:, 1],
        frame[["label"]],
        frame.iloc[:, 1].astype("category"),
        frame.T.iloc[1],
    ):
        model = MCBoostClassifier(**HOW).fit(
            X, np.asarray(labels).ravel() if labels.ndim == 2 else labels
        )
        assert model.classes_.tolist() == [0, 1, 2]
        assert model.classes_.dtype.kind == "i"


@pytest.mark.parametrize(
    ("label", "name"),
    [
        (Decimal, "Decimal"), (Fraction, "Fraction"), (lambda code: (code,), "tuple"),
        (lambda code: b"abc"[code : code + 1], "bytes"),
        (lambda code: datetime.date(2024, 1, 1 + code), "date"),
    ],
)  # fmt: skip
def test_labels_that_are_refused_are_named_by_their_type(label, name):
    given = np.empty(60, dtype=object)
    given[:] = [label(int(code)) for code in CODES]
    message = rf"y\[0\] is .* of type {name}; labels must be text, integers or booleans"
    if name == "tuple":
        message = "needs one class per row here, but y has lists of labels"
    with pytest.raises(ValueError, match=message):
        MCBoostClassifier(**HOW).fit(X, given)
    with pytest.raises(ValueError, match=rf"validation set 'val': y\[0\] is .* of type {name}"):
        MCBoostClassifier(**HOW).fit(X, CODES, X_val=X, y_val=given)


def test_integers_and_booleans_among_numbers_that_are_none():
    for label, message in (
        (None, "NoneType, int"),
        ("1", "int, str"),
        (2**64, "must lie in"),
        (0.5, "continuous"),
    ):
        given = CODES.astype(object)
        given[7] = label
        with pytest.raises(ValueError, match=message):
            MCBoostClassifier(**HOW).fit(X, given)
    given[7] = np.nan
    with pytest.raises(ValueError, match="y has no label in row 7"):
        MCBoostClassifier(**HOW).fit(X, given)
