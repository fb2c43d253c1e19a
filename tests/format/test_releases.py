"""Model files that earlier releases have trained and written: each is read, and scores and labels are the same bits.

``python tests/format/test_releases.py`` trains and writes those of this version, just before it is released. Afterwards
its folder stays as it is: where a test fails, the reader has broken the promise of docs/format.md.
"""

import hashlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).with_name("releases")
FILES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.mcb"))
N_FEATURES = 6
CATEGORIES = 3  # the column of them


def numbers(n, seed):
    """A matrix of n rows from integers alone: the same on every machine and with every version of NumPy."""
    cells = np.arange(n * N_FEATURES, dtype=np.uint64) + np.uint64(seed * 1_000_003)
    cells = cells * np.uint64(0x9E3779B97F4A7C15)
    cells = (cells ^ (cells >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
    X = ((cells >> np.uint64(40)) % np.uint64(1000)).astype(np.float32) / 8
    X = X.reshape(n, N_FEATURES)
    X[:, CATEGORIES] %= 7
    return np.floor(X) if seed == 0 else X


def rows(model):
    """The rows to score; for all but machines, they have extreme and missing values and unknown categories."""
    X = numbers(50, 1)
    X[:, CATEGORIES] = np.floor(X[:, CATEGORIES])
    if not model.is_machine:
        X[::7, 0], X[1::7, 1], X[2::7, 2], X[3::9, CATEGORIES] = np.nan, np.inf, -np.inf, 99
    return X


def digest(values):
    """Sixteen digits that stand for the bits of an array."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]


def content(model):
    """What a model file says and predicts, as JSON has it."""
    X = rows(model)
    labels = model.predict(X)
    found = {
        "kind": model.kind,
        "classes": model.classes_.tolist(),
        "layout": model.layout,
        "n_learners": model.n_learners,
        "feature_names": model.feature_names,
        "scores": digest(model.raw_scores(X)),
        "labels": digest(np.array([str(label) for label in labels.ravel()], dtype="U12")),
    }
    if model.has_probabilities:
        found["probabilities"] = digest(model.predict_proba(X))
    for way in model.early_exits:
        found[f"exits, {way}"] = digest(model.predict_early(X, way)[1].astype(np.int64))
    return found


@pytest.mark.parametrize("name", FILES)
def test_files_of_releases_are_read_and_score_the_same(name):
    from pymcboost import load_model

    path = FOLDER / name
    expected = json.loads((path.parent / "contents.json").read_text("utf-8"))[path.stem]
    model = load_model(path)
    assert json.loads(json.dumps(content(model))) == expected
    assert model.to_bytes() == path.read_bytes()


def test_no_file_of_a_release_has_been_lost():
    for contents in FOLDER.glob("*/contents.json"):
        names = {path.stem for path in contents.parent.glob("*.mcb")}
        assert names == set(json.loads(contents.read_text("utf-8")))
    assert "0.1.0" in {path.name for path in FOLDER.iterdir()}


def test_every_algorithm_has_a_file():
    """What is new since the last release gets its files with the next one."""
    from contract.variants import ALGORITHMS

    from pymcboost._version import __version__

    names = {path.stem for path in FOLDER.rglob("*.mcb")}
    released = (FOLDER / __version__.partition(".dev")[0]).exists()
    assert not released or set(ALGORITHMS) <= names


def trained():
    """Yield (name, model) of every algorithm, and of what a file of trees may have besides."""
    from contract.variants import ALGORITHMS

    from pymcboost import AdaBoostMHClassifier, VectorTreeBoostClassifier

    X = numbers(160, 0)
    y = ((X[:, 0] > 60).astype(int) + (X[:, 1] + 9 * X[:, CATEGORIES] > 90)) % 3
    for name, algorithm in sorted(ALGORITHMS.items()):
        few = {"max_leaf_nodes": 5} if "max_leaf_nodes" in algorithm().get_params() else {}
        yield name, algorithm(n_estimators=4, **few).fit(X, y).model_

    small = {"n_estimators": 8, "max_leaf_nodes": 5, "random_state": 0}
    names = np.array(["ahorn", "birke", "öl"])
    trees = VectorTreeBoostClassifier(**small).fit(X, names[y]).model_
    yield "labels-of-text", trees
    yield "covers", trees.with_covers(X)
    yield "half-precision", type(trees).from_bytes(trees.to_bytes(leaves="float16"))
    yield "packed", type(trees).from_bytes(trees.to_bytes(layout="packed", leaves="int8"))
    yield (
        "early-exits",
        trees.with_early_exit("certified").with_early_exit("calibrated", numbers(400, 2), rate=0.1),
    )
    stumps = ALGORITHMS["mcboost"](n_estimators=8).fit(X, y).model_
    yield "interval-tables", type(stumps).from_bytes(stumps.to_bytes(layout="interval"))

    coded = VectorTreeBoostClassifier(categorical_features=[CATEGORIES], **small)
    yield "categories", coded.fit(X, y).model_
    several = np.column_stack([y == 0, X[:, 2] > 40, X[:, 4] > 100]).astype(int)
    logistic = {**small, "loss": "logistic"}
    yield "several-labels", VectorTreeBoostClassifier(**logistic).fit(X, several).model_
    yield "several-labels-of-stumps", AdaBoostMHClassifier(n_estimators=8).fit(X, several).model_
    model = VectorTreeBoostClassifier(decision_threshold="f1", cv=2, **logistic).fit(X, several)
    yield "thresholds", model.model_
    shared = VectorTreeBoostClassifier(max_leaf_entries=1, **small)
    yield "leaves-of-some-classes", shared.fit(X, y).model_
    import pandas as pd

    frame = pd.DataFrame(X, columns=["länge", *"bcdef"])
    yield "feature-names", VectorTreeBoostClassifier(**small).fit(frame, y).model_


def write():
    """Write the files of this version."""
    from pymcboost._version import __version__

    folder = FOLDER / __version__.partition(".dev")[0]
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    contents = {}
    warnings.simplefilter("ignore")
    for name, model in trained():
        model.save(folder / f"{name}.mcb")
        contents[name] = content(model)
    lines = [
        f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in contents.items()
    ]
    (folder / "contents.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]
    write()
