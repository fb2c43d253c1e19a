"""Files of earlier versions, which every later version reads and scores alike. Never rewrite them; add new ones.

``python tests/format/test_golden.py`` writes those that are missing.
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
    X = from_hex(expected["rows"])
    X = X if model.offsets else X.astype(np.float32)
    assert model.classes_.tolist() == expected["classes"]
    assert model.kind == expected["kind"]
    assert model.raw_scores(X).tobytes() == from_hex(expected["scores"]).tobytes()
    assert model.predict(X).tolist() == expected["labels"]
    if model.has_probabilities:
        assert model.predict_proba(X).tobytes() == from_hex(expected["probabilities"]).tobytes()
    built_in = ["certified"] if name.startswith("v1-linear") else []
    assert set(model.early_exits) == {*expected.get("early", ()), *built_in}
    for way, early in expected.get("early", {}).items():
        labels, learners = model.predict_early(X, way)
        assert [labels.tolist(), learners.tolist()] == early
    assert model.layout == (name.split("-")[1] if model.kind in (2, 7) else "list")
    if model.kind != 2:
        again = type(model).from_ensemble(
            model.ensemble, model.classes_, link=model.link, meta=model.meta, layout=model.layout, leaves=model.leaves,
            offsets=model.offsets,
        )  # fmt: skip
        again = again.with_temperature(model.temperature)
        again = again._changed(**{tag: model._sections().get(tag) for tag in ("calb", *file.EARLY)})
        again = again.with_thresholds(model.thresholds) if model.link == "sigmoid" else again
        assert again.to_bytes() == (FOLDER / f"{name}.mcb").read_bytes()


def test_there_are_golden_files():
    assert len(NAMES) >= 24
    assert {name.split("-")[1] for name in NAMES} == {
        "list",
        "interval",
        "interval32",
        "trees",
        "linear",
        "kernel",
        "packed",
        "tight",
    }


def write_missing():
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
    )  # fmt: skip

    from pymcboost.model.model import Model

    def to_hex(values):
        return [[float(value).hex() for value in row] for row in values]

    def write(name, model, X):
        if (FOLDER / f"{name}.mcb").exists():
            return
        model.save(FOLDER / f"{name}.mcb")
        content = {
            "kind": model.kind,
            "classes": model.classes_.tolist(),
            "rows": to_hex(X),
            "scores": to_hex(model.raw_scores(X)),
            "labels": model.predict(X).tolist(),
        }
        if model.early_exits:
            early = {way: model.predict_early(X, way) for way in model.early_exits}
            content["early"] = {way: [part.tolist() for part in parts] for way, parts in early.items()}
        if model.has_probabilities:
            content["probabilities"] = to_hex(model.predict_proba(X))
        (FOLDER / f"{name}.json").write_text(json.dumps(content, indent=None, sort_keys=True) + "\n")

    def with_exits(model):
        """Checkpoints, and bounds and thresholds at which some rows exit."""
        at, k, rng = np.arange(2, model.n_learners, 5), model.n_classes_, np.random.default_rng(0)
        pair = rng.uniform(0, 9, (len(at) + 1) // 2 * k * (k - 1)).astype("<f4" if model.kind == 1 else "<f2")
        pair[1] = np.inf
        numbers = [np.array([0.01, 300, third, *rng.uniform(0, 9, len(at))]) for third in (0, k - 1)]
        return model._changed(exit=at.astype("u1"), pair=pair, marg=numbers[0], rjct=numbers[1])

    for k, classes in (
        (3, [-1, 0, 9_000_000_000]),
        (2, ["no", "yes"]),
        (11, [chr(0xE9) + str(i).zfill(2) for i in range(11)]),
    ):
        link = ("softmax2", "softmax", "none")[k % 3]
        for layout in ("list", "interval", "interval32"):
            for two_sided in (False, True):
                d = 300 if two_sided else 6
                stumps = random_stumps(14, d, k, two_sided, seed=k, few_thresholds=True)
                model = Model.from_ensemble(
                    stumps, classes, link=link, meta={"algorithm": "test"} if two_sided else None, layout=layout
                )
                write(f"v1-{layout}-{k}-{'two' if two_sided else 'one'}-sided", model, random_rows(6, d))
        for mode, leaves in {
            3: (("base", "float32"), ("vector", "float32"), ("code", "float16")),
            2: (("scalar", "float32"), ("base", "float16"), ("code", "float32")),
            11: (("vector", "float16"), ("code", "float32")),
        }[k]:
            d = 200 if k == 11 else 6
            trees = random_trees(5, d, k, mode, seed=k, few_thresholds=True)
            meta = {"algorithm": "test"} if mode == "base" else None
            model = Model.from_ensemble(trees, classes, link=link, meta=meta, leaves=leaves)
            write(f"v1-trees-{k}-{mode}-{leaves}", model, random_rows(8, d))
        if k == 3:  # any number of labels a row
            trees = random_trees(5, 6, k, "vector", seed=k, few_thresholds=True)
            model = Model.from_ensemble(trees, classes, link="sigmoid")
            write(f"v1-trees-{k}-labels", model, random_rows(8, 6))
            write(f"v1-trees-{k}-thresholds", model.with_thresholds([0.25, 0.0, -0.5]), random_rows(8, 6))
        if k == 3:
            entries = random_entries(9, 6, k, seed=k, few_thresholds=True)
            for leaves in ("float32", "float16"):  # of some classes alone
                model = Model.from_ensemble(entries, classes, link="softmax", leaves=leaves)
                write(f"v1-trees-{k}-entries-{leaves}", with_exits(model), random_rows(20, 6))
                trees = random_entries(9, 6, k, shared=True, seed=k, few_thresholds=True)
                model = Model.from_ensemble(trees, classes, link="sigmoid", leaves=leaves)
                write(f"v1-trees-{k}-shared-{leaves}", model, random_rows(20, 6))
            model = Model.from_ensemble(random_sets(20, 6, k, seed=k), classes, link="softmax")
            write(f"v1-trees-{k}-categories", with_exits(model), with_codes(random_rows(20, 6)))
            model = Model.from_ensemble(random_sets(20, 6, k, seed=k, vector=False), classes, link="softmax")
            write(f"v1-trees-{k}-categories-base", with_exits(model), with_codes(random_rows(20, 6)))
        if k == 3:  # less offsets of columns
            offsets = {0: 1.7e9, 4: -2.5e12 - 1 / 256}
            X = random_rows(20, 6).astype(np.float64) + [offsets.get(j, 0.0) for j in range(6)]
            for name, kind in (("list", random_stumps(20, 6, k, seed=k)), ("trees", random_trees(9, 6, k, seed=k))):
                model = Model.from_ensemble(kind, classes, link="softmax", offsets=offsets)
                write(f"v1-{name}-{k}-offsets", model, X)
            model = Model.from_ensemble(random_kernel(9, 6, k, "rbf", True, seed=k), classes, offsets=offsets)
            write(f"v1-kernel-{k}-offsets", model, finite_rows(20, 6) + [offsets.get(j, 0.0) for j in range(6)])
        for mode in ("vector", "scalar"):
            trees = random_trees(9, 200 if k == 11 else 6, k, mode, seed=k, few_thresholds=k != 2)
            trees = (
                trees
                if k != 2
                else replace(trees, rounds=np.arange(len(trees) + 1), nan_left=np.zeros_like(trees.nan_left))
            )
            model = Model.from_ensemble(trees, classes, link=link, layout="packed", leaves="int8")
            write(f"v1-packed-{k}-{mode}", model, random_rows(12, trees.n_features))
            if mode == "vector" and k > 2:
                trees = replace(trees, leaf=trees.leaf * (np.arange(k) % 4 == 1))
            if k == 3:
                trees = replace(trees, threshold=np.rint(4 * trees.threshold).clip(-90, 90) / np.float32(4))
            model = Model.from_ensemble(trees, classes, link=link, layout="tight", leaves="int8")
            write(f"v1-tight-{k}-{mode}", model, random_rows(12, trees.n_features))
        machines = {f"linear-{k}": random_linear({3: 21, 2: 4, 11: 515}[k], k, seed=k)}
        for kernel, scaled in {
            3: (("poly", True), ("linear", False)),
            2: (("perceptron", True),),
            11: (("rbf", False),),
        }[k]:
            machine = random_kernel(70 if k == 2 else 9, 11, k, kernel, scaled, seed=k)
            machines[f"kernel-{k}-{kernel}{'-scaled' if scaled else ''}"] = machine
        if k == 3:
            for mode, layout in (("list", "list"), ("list", "interval"), ("trees", "list"), ("kernel", "list")):
                kind = {"list": random_stumps, "trees": random_trees, "kernel": random_kernel}[mode]
                model = Model.from_ensemble(kind(9, 6, k, seed=k), classes, link="softmax2", layout=layout)
                name = layout if mode == "list" else mode
                write(f"v1-{name}-{k}-calibrated", model.with_temperature(2.5), finite_rows(6, 6))
                asked = model._with_link_temperature(0.75)
                write(f"v1-{name}-{k}-asked", asked.with_temperature(2.5), finite_rows(6, 6))
            model = Model.from_ensemble(random_linear(6, k, seed=k), classes)  # no link: the temperature alone
            write(f"v1-linear-{k}-calibrated", model.with_temperature(0.5), finite_rows(6, 6))
            for mode, leaves in (("list", "float32"), ("trees", "float16")):
                stumps, trees = random_stumps(40, 6, k, seed=k), random_trees(20, 6, k, "vector", seed=k)
                model = Model.from_ensemble(stumps if mode == "list" else trees, classes, link="softmax", leaves=leaves)
                write(f"v1-{mode}-{k}-early", with_exits(model), random_rows(20, 6))
        for name, machine in machines.items():
            model = Model.from_ensemble(machine, classes, link=link, meta={"algorithm": "test"} if k == 3 else None)
            write(f"v1-{name}", model, finite_rows(6, machine.n_features))


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]
    write_missing()
