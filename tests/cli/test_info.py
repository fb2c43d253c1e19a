"""mcboost-info as a program."""

import json
import struct
import sys

import numpy as np
import pytest
from cli.programs import call, write_svm
from format import tampering

from pymcboost import Model, load_model
from pymcboost.cli.info import main
from pymcboost.model.builders import EnsembleBuilder, TreesBuilder
from pymcboost.model.kernel import KernelMachine
from pymcboost.model.linear import LinearMachine
from pymcboost.model.scale import Scale


@pytest.fixture
def known():
    """Model of three stumps whose feature shares are known: column 4 has 3/5, column 1 2/5."""
    builder = EnsembleBuilder(2, 6)
    builder.add_stump(1, 0.5, False, right=[0.0, 1.0])
    builder.add_stump(4, 0.5, False, right=[0.0, 1.0], left=[0.0, 0.5])
    builder.add_stump(4, 1.5, True, right=[2.5, 0.0], left=[0.0, 0.0])
    return builder.freeze()


def test_text(capsys, tmp_path, known):
    meta = {"algorithm": "mcboost", "params": {"nu": 1e-9, "loss": "exp"}, "version": "1.2"}
    path = tmp_path / "m.mcb"
    Model.from_ensemble(known, ["pike", "sea bass"], link="softmax2", meta=meta).save(path)
    assert main([str(path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert (
        out
        == f"""\
file          {path}: {path.stat().st_size:,} bytes, checksums good
kind          1 (list of stumps)
algorithm     mcboost (pymcboost 1.2)
classes       2: pike "sea bass"
features      6, 2 of them used
learners      3
link          p = softmax(2 F)
parameters    loss=exp nu=1e-09
top features  share in what moves the scores
  5           0.6000
  2           0.4000
"""
    )


def test_temperature(capsys, tmp_path, known):
    path = tmp_path / "m.mcb"
    for link, words in (
        ("softmax", "p = softmax(F)"),
        ("softmax2", "p = softmax(2 F)"),
        ("none", "none: the temperature gives p = softmax(F)"),
    ):
        Model.from_ensemble(known, [3, 8], link=link).with_temperature(2.5).save(path)
        assert main([str(path)]) == 0
        assert (
            f"link          {words}\ntemperature   2.5, by which F is divided\n"
            in capsys.readouterr().out
        )
        assert main(["--json", str(path)]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert (facts["link"], facts["temperature"]) == (link, 2.5)
    forged = tampering.parse(path.read_bytes())
    forged.find(b"CALB")[2] = struct.pack("<d", 5e-324)  # 1 / T; JSON has no infinite numbers
    path.write_bytes(forged.to_bytes())
    assert main(["--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["temperature"] == sys.float_info.max


@pytest.mark.parametrize("layout", ["list", "interval"])
def test_json(capsys, tmp_path, known, layout):
    path = tmp_path / "m.mcb"
    meta = {"feature_names": list("abcdef"), "index_base": 0}
    Model.from_ensemble(known, [3, 8], meta=meta, layout=layout).save(path)
    assert main(["--json", str(path)]) == 0
    facts = json.loads(capsys.readouterr().out)
    top = facts.pop("top_features")
    assert facts == {
        "file": str(path),
        "bytes": path.stat().st_size,
        "prepared_bytes": 0,
        "kind": 1 if layout == "list" else 2,
        "layout": layout,
        "link": "none",
        "temperature": None,
        "classes": [3, 8],
        "n_features": 6,
        "n_features_used": 2,
        "n_learners": 3 if layout == "list" else None,
        "n_rounds": 3 if layout == "list" else None,
        "n_categorical": 0,
        "totally_corrective": False,
        "early_exits": [],
        "meta": meta,
    }
    assert [(row["column"], row["name"]) for row in top] == [(4, "e"), (1, "b")]
    np.testing.assert_allclose([row["importance"] for row in top], [0.6, 0.4])


def test_memory_of_a_prepared_model(capsys, tmp_path):
    """What a C program reserves for mcb_prepare."""
    path = tmp_path / "m.mcb"
    builder = TreesBuilder(2, 3)
    builder.add_tree([1], [0.5], [False], right=[1], leaf=[-1, 1], cls=1)
    builder.end_round()
    Model.from_ensemble(builder.freeze(), [3, 8]).save(path)
    assert main(["--json", str(path)]) == 0
    size = json.loads(capsys.readouterr().out)["prepared_bytes"]
    assert size > 0
    assert main([str(path)]) == 0
    assert (
        f"prepared      {size:,} bytes of memory for mcb_prepare on this machine\n"
        in capsys.readouterr().out
    )


def test_importances_are_the_estimators(files):
    facts = json.loads(call("info", "--json", files / "model.mcb").stdout)
    importances = load_model(files / "model.mcb").feature_importances()
    assert importances.shape == (5,)
    assert importances.sum() == pytest.approx(1)
    assert {row["column"]: row["importance"] for row in facts["top_features"]} == {
        j: v for j, v in enumerate(importances) if v > 0
    }


@pytest.mark.parametrize(
    "meta",
    [
        {"params": 5, "feature_names": "ab", "algorithm": ["\x1b[31m"], "index_base": "x"},
        {"feature_names": [], "index_base": None},
        {},
    ],
)
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_odd_information_does_no_harm(capsys, tmp_path, known, meta, options):
    path = tmp_path / "m.mcb"
    Model.from_ensemble(known, [3, 8], meta=meta).save(path)
    assert main([*options, str(path)]) == 0
    assert "\x1b" not in capsys.readouterr().out
    write_svm(tmp_path / "t.svm", [[1, 2]], [3])
    assert call("predict", tmp_path / "t.svm", path, "-").returncode == 0


def test_wide_model_takes_no_memory_for_unused_features(capsys, tmp_path):
    builder = EnsembleBuilder(2, 2**31 - 1)
    builder.add_stump(2**31 - 2, 0.5, False, right=[0.0, 1.0])
    Model.from_ensemble(builder.freeze(), [0, 1]).save(tmp_path / "m.mcb")
    assert main([str(tmp_path / "m.mcb")]) == 0
    assert "\n  2147483647" in capsys.readouterr().out


@pytest.fixture
def trees():
    """Three trees in two rounds, with 3, 0 and 1 splits; column 1 has 3 of the splits, column 4 one."""
    builder = TreesBuilder(3, 6)
    builder.add_tree(
        [1, 1, 4], [0.5, 0.0, 2.0], [False] * 3, right=[3, 1, 1], leaf=[1, 2, 3, 4], cls=0, base=1
    )
    builder.add_tree([], [], [], right=[], leaf=[5.0], cls=2)
    builder.end_round()
    builder.add_tree([1], [0.5], [True], right=[1], leaf=[-1, 1], cls=1)
    builder.end_round()
    return builder.freeze()


def test_trees_as_text(capsys, tmp_path, trees):
    path = tmp_path / "m.mcb"
    Model.from_ensemble(trees, [1, 2, 3], link="softmax", leaves="float16").save(path)
    assert main([str(path)]) == 0
    size = path.stat().st_size
    assert (
        capsys.readouterr().out
        == f"""\
file          {path}: {size:,} bytes, checksums good
kind          3 (trees)
classes       3: 1 2 3
features      6, 2 of them used
trees         3 in 2 rounds, {size / 3:.4g} bytes each
leaves        7, 2.333 a tree; 1 x float16
depth         at most 3, mean 1.333
prepared      {load_model(path).prepared_size} bytes of memory for mcb_prepare on this machine
link          p = softmax(F)
top features  share in the splits
  2           0.7500
  5           0.2500
"""
    )


def test_trees_as_json(capsys, tmp_path, trees):
    path = tmp_path / "m.mcb"
    for model in (
        Model.from_ensemble(trees, [1, 2, 3]),
        Model.from_ensemble(trees.truncate_rounds(0), [1, 2, 3]),
    ):
        model.save(path)
        assert main([str(path)]) == 0
        capsys.readouterr()
        assert main(["--json", str(path)]) == 0
        facts = json.loads(capsys.readouterr().out)
        empty = model.n_rounds == 0
        assert (facts["kind"], facts["n_learners"], facts["n_rounds"]) == (
            (3, 0, 0) if empty else (3, 3, 2)
        )
        assert facts["trees"] == {
            "splits": 0 if empty else 4,
            "leaves": 0 if empty else 7,
            "depth": 0 if empty else 3,
            "mean_depth": 0.0 if empty else 4 / 3,
            "leaf_values": 1,
            "leaf_type": "float32",
            "base_classes": not empty,
        }


def test_linear_machine(capsys, tmp_path):
    path = tmp_path / "m.mcb"
    coef = np.array([[0, 1, -2], [0, 3, 2]])
    Model.from_ensemble(
        LinearMachine(coef, np.zeros(2)), [1, 2], meta={"algorithm": "x", "version": "1"}
    ).save(path)
    assert main([str(path)]) == 0
    assert (
        capsys.readouterr().out
        == f"""\
file          {path}: {path.stat().st_size} bytes, checksums good
kind          5 (linear machine)
algorithm     x (pymcboost 1)
classes       2: 1 2
features      3, 2 of them used
prepared      24 bytes of memory for mcb_prepare on this machine
link          none: scores only
early exit    certified (from hyperplanes)
top features  share in the sum of the absolute coefficients
  2           0.5000
  3           0.5000
"""
    )
    assert main(["--json", str(path)]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["kind"], facts["n_learners"], facts["n_rounds"], facts["totally_corrective"]) == (
        5,
        None,
        None,
        False,
    )
    assert facts["early_exits"] == [{"way": "certified", "from": "hyperplanes"}]


@pytest.mark.parametrize(
    ("kernel", "formula"),
    [
        ("linear", "linear: x . z"),
        ("poly", "poly: (gamma x . z + coef0)^degree with gamma=0.25 coef0=1 degree=3"),
        ("rbf", "rbf: exp(-gamma |x - z|^2) with gamma=0.25"),
        ("perceptron", "perceptron: -|x - z|"),
    ],
)
def test_kernel_machine(capsys, tmp_path, kernel, formula):
    path = tmp_path / "m.mcb"
    support = np.arange(12.0).reshape(4, 3)
    scale = Scale(np.zeros(3), np.ones(3)) if kernel == "rbf" else None
    machine = KernelMachine(
        kernel,
        0.25,
        1.0,
        degree=3,
        support=support,
        coef=np.ones((4, 2)),
        intercept=np.zeros(2),
        scale=scale,
    )
    Model.from_ensemble(machine, [1, 2]).save(path)
    assert main([str(path)]) == 0
    assert (
        capsys.readouterr().out
        == f"""\
file          {path}: {path.stat().st_size} bytes, checksums good
kind          6 (kernel machine)
classes       2: 1 2
features      3, 3 of them used
kernel        {formula}
vectors       4 support vectors
scaling       {"in the model" if scale else "none"}
link          none: scores only
"""
    )
    assert main(["--json", str(path)]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["top_features"] == []
    assert facts["kernel"] == {
        "name": kernel,
        "gamma": 0.25 if kernel in ("poly", "rbf") else 0.0,
        "coef0": 1.0 if kernel == "poly" else 0.0,
        "degree": 3 if kernel == "poly" else 0,
        "support_vectors": 4,
        "scaled": scale is not None,
    }


def test_many_classes_are_cut(capsys, tmp_path):
    builder = EnsembleBuilder(300, 1)
    Model.from_ensemble(builder.freeze(), np.arange(300)).save(tmp_path / "m.mcb")
    assert main([str(tmp_path / "m.mcb")]) == 0
    out = capsys.readouterr().out
    assert "classes       300: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 ...\n" in out
    assert "learners      0\n" in out
    assert "top features" not in out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the following arguments are required: model_file"),
        ("a b", "unrecognized arguments: b"),
        ("--js a", "unrecognized arguments: --js (did you mean --json?)"),
    ],
)
def test_bad_usage_exits_1(capsys, text, message):
    assert main(text.split()) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"mcboost-info: error: {message}")
