"""Files of every kind and section with their scores: what is written and read today is what was.

``python tests/format/test_golden.py`` writes those that are missing. A file changes only where the format does.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).with_name("golden")
NAMES = sorted(path.stem for path in FOLDER.glob("*.mcb"))


def from_hex(rows):
    return np.array([[float.fromhex(value) for value in row] for row in rows])


@pytest.mark.parametrize("name", NAMES)
def test_golden(name):
    from pymcboost.model import file
    from pymcboost.model.model import load_model

    expected = json.loads((FOLDER / f"{name}.json").read_text())
    model = load_model(FOLDER / f"{name}.mcb")
    X = from_hex(expected["rows"]).astype(np.float32)
    assert model.classes_.tolist() == expected["classes"]
    assert model.kind == expected["kind"]
    assert model.raw_scores(X).tobytes() == from_hex(expected["scores"]).tobytes()
    assert model.predict(X).tolist() == expected["labels"]
    if model.has_probabilities:
        assert model.predict_proba(X).tobytes() == from_hex(expected["probabilities"]).tobytes()
    assert set(model.early_exits) == set(expected.get("early", ()))
    for way, early in expected.get("early", {}).items():
        labels, learners = model.predict_early(X, way)
        assert [labels.tolist(), learners.tolist()] == early
    assert model.layout == (name.split("-")[1] if model.kind in (2, 7) else "list")
    if model.kind != 2:
        again = type(model).from_ensemble(
            model.ensemble,
            model.classes_,
            link=model.link,
            meta=model.meta,
            layout=model.layout,
            leaves=model.leaves,
        )
        again = again.with_temperature(model.temperature)
        again = again._changed(**{tag: model._sections().get(tag) for tag in ("calb", *file.EARLY)})
        again = again.with_thresholds(model.thresholds) if model.link == "sigmoid" else again
        assert again.to_bytes() == (FOLDER / f"{name}.mcb").read_bytes()


def test_there_are_golden_files():
    assert set(NAMES) == {name for name, _, _ in models()}


def models():
    """Yield (name, model, rows) of every kind, and of every section that a file may have."""
    from reference.scoring import (
        finite_rows,
        random_entries,
        random_kernel,
        random_linear,
        random_rows,
        random_sets,
        random_stumps,
        random_trees,
        with_codes,
    )

    from pymcboost.model.model import Model

    labels = {
        2: ["no", "yes"],
        3: [-1, 0, 9_000_000_000],
        11: [chr(0xE9) + str(i).zfill(2) for i in range(11)],
    }
    links = {2: "none", 3: "softmax2", 11: "none"}
    three = labels[3]

    def with_exits(model):
        """Checkpoints, and bounds and thresholds at which some rows exit."""
        at = np.arange(2, model.n_learners, 5)
        k = model.n_classes_
        rng = np.random.default_rng(0)
        pair = rng.uniform(0, 9, (len(at) + 1) // 2 * k * (k - 1)).astype(
            "<f4" if model.kind == 1 else "<f2"
        )
        pair[1] = np.inf
        numbers = [
            np.array([0.01, 300, third, *rng.uniform(0, 9, len(at))]) for third in (0, k - 1)
        ]
        return model._changed(exit=at.astype("u1"), pair=pair, marg=numbers[0], rjct=numbers[1])

    for layout in ("list", "interval"):
        for k, two_sided in ((3, False), (11, True)):
            d = 300 if two_sided else 6
            stumps = random_stumps(14, d, k, two_sided=two_sided, seed=k, few_thresholds=True)
            meta = {"algorithm": "test"} if two_sided else None
            model = Model.from_ensemble(stumps, labels[k], link=links[k], meta=meta, layout=layout)
            yield f"v1-{layout}-{k}-{'two' if two_sided else 'one'}-sided", model, random_rows(6, d)
    for k, mode, leaves in (
        (3, "base", "float32"),
        (3, "vector", "float32"),
        (3, "code", "float16"),
        (2, "scalar", "float32"),
        (11, "vector", "float16"),
        (11, "code", "float32"),
    ):
        d = 200 if k == 11 else 6
        trees = random_trees(5, d, k, mode=mode, seed=k, few_thresholds=True)
        meta = {"algorithm": "test"} if mode == "base" else None
        model = Model.from_ensemble(trees, labels[k], link=links[k], meta=meta, leaves=leaves)
        yield f"v1-trees-{k}-{mode}-{leaves}", model, random_rows(8, d)

    # Any number of labels a row.
    trees = random_trees(5, 6, 3, mode="vector", seed=3, few_thresholds=True)
    model = Model.from_ensemble(trees, three, link="sigmoid")
    yield "v1-trees-3-labels", model, random_rows(8, 6)
    yield "v1-trees-3-thresholds", model.with_thresholds([0.25, 0.0, -0.5]), random_rows(8, 6)

    # Leaves of some classes.
    for leaves in ("float32", "float16"):
        entries = random_entries(9, 6, 3, seed=3, few_thresholds=True)
        model = Model.from_ensemble(entries, three, link="softmax", leaves=leaves)
        yield f"v1-trees-3-entries-{leaves}", with_exits(model), random_rows(20, 6)
        shared = random_entries(9, 6, 3, shared=True, seed=3, few_thresholds=True)
        model = Model.from_ensemble(shared, three, link="sigmoid", leaves=leaves)
        yield f"v1-trees-3-shared-{leaves}", model, random_rows(20, 6)

    model = Model.from_ensemble(random_sets(20, 6, 3, seed=3), three, link="softmax")
    yield "v1-trees-3-categories", with_exits(model), with_codes(random_rows(20, 6))
    model = Model.from_ensemble(random_sets(20, 6, 3, seed=3, vector=False), three, link="softmax")
    yield "v1-trees-3-categories-base", with_exits(model), with_codes(random_rows(20, 6))

    for k, mode in ((3, "vector"), (11, "scalar"), (2, "vector")):
        trees = random_trees(9, 200 if k == 11 else 6, k, mode=mode, seed=k, few_thresholds=k != 2)
        if k == 2:  # a round of every tree, and no missing values
            trees = replace(
                trees, rounds=np.arange(len(trees) + 1), nan_left=np.zeros_like(trees.nan_left)
            )
        model = Model.from_ensemble(trees, labels[k], link=links[k], layout="packed", leaves="int8")
        yield f"v1-packed-{k}-{mode}", model, random_rows(12, trees.n_features)

    model = Model.from_ensemble(random_trees(9, 6, 3, mode="vector", seed=4), three, link="shares")
    yield "v1-trees-3-shares", model, random_rows(12, 6)

    # Temperatures: found, asked for by the loss, and without a link.
    model = Model.from_ensemble(random_stumps(9, 6, 3, seed=3), three, link="softmax2")
    yield (
        "v1-list-3-asked",
        model._with_link_temperature(0.75).with_temperature(2.5),
        finite_rows(6, 6),
    )
    model = Model.from_ensemble(random_trees(9, 6, 3, seed=3), three, link="softmax2")
    yield "v1-trees-3-calibrated", model.with_temperature(2.5), finite_rows(6, 6)
    model = Model.from_ensemble(random_linear(6, 3, seed=3), three)
    yield "v1-linear-3-calibrated", model.with_temperature(0.5), finite_rows(6, 6)

    model = Model.from_ensemble(random_stumps(40, 6, 3, seed=3), three, link="softmax")
    yield "v1-list-3-early", with_exits(model), random_rows(20, 6)
    trees = random_trees(20, 6, 3, mode="vector", seed=3)
    model = Model.from_ensemble(trees, three, link="softmax", leaves="float16")
    yield "v1-trees-3-early", with_exits(model), random_rows(20, 6)

    machines = (
        (3, "linear-3", random_linear(21, 3, seed=3)),
        (11, "linear-11", random_linear(515, 11, seed=11)),
        (3, "kernel-3-poly-scaled", random_kernel(9, 11, 3, kernel="poly", scaled=True, seed=3)),
        (
            2,
            "kernel-2-perceptron-scaled",
            random_kernel(70, 11, 2, kernel="perceptron", scaled=True, seed=2),
        ),
        (11, "kernel-11-rbf", random_kernel(9, 11, 11, kernel="rbf", scaled=False, seed=11)),
    )
    for k, name, machine in machines:
        meta = {"algorithm": "test"} if k == 3 else None
        model = Model.from_ensemble(machine, labels[k], link=links[k], meta=meta)
        yield f"v1-{name}", model, finite_rows(6, machine.n_features)


def write_missing(folder=FOLDER):
    """Write the files that are not there."""

    def to_hex(values):
        return [[float(value).hex() for value in row] for row in values]

    for name, model, X in models():
        if (folder / f"{name}.mcb").exists():
            continue
        model.save(folder / f"{name}.mcb")
        content = {
            "kind": model.kind,
            "classes": model.classes_.tolist(),
            "rows": to_hex(X),
            "scores": to_hex(model.raw_scores(X)),
            "labels": model.predict(X).tolist(),
        }
        if model.early_exits:
            early = {way: model.predict_early(X, way) for way in model.early_exits}
            content["early"] = {
                way: [part.tolist() for part in parts] for way, parts in early.items()
            }
        if model.has_probabilities:
            content["probabilities"] = to_hex(model.predict_proba(X))
        (folder / f"{name}.json").write_text(
            json.dumps(content, indent=None, sort_keys=True) + "\n"
        )


if __name__ == "__main__":
    sys.path[:0] = [
        str(Path(__file__).resolve().parents[1]),
        str(Path(__file__).resolve().parents[2]),
    ]
    write_missing()
