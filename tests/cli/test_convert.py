"""mcboost-convert: models in other forms, and what they cannot hold."""

import json
import os
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from cli.programs import call
from reference.scoring import random_trees
from unit.test_export_from import lightgbm, stopped, xgboost

from pymcboost import Model, load_model
from pymcboost.export import to_c, to_onnx


def converted(*arguments, cwd=None):
    completed = call("convert", *arguments, cwd=cwd)
    assert (completed.returncode, completed.stderr) == (0, ""), completed.stderr
    return completed.stdout


def refused(status, message, *arguments, cwd=None):
    completed = call("convert", *arguments, cwd=cwd)
    assert (completed.returncode, completed.stdout) == (status, "")
    assert (
        completed.stderr.startswith("mcboost-convert: error: ") and message in completed.stderr
    ), completed.stderr


def test_text_and_json_are_what_info_dumps(files):
    for form in ("json", "text"):
        expected = call("info", "--dump", form, files / "model.mcb").stdout
        assert converted("--to", form, files / "model.mcb", "-") == expected


def test_fewer_rounds(files, tmp_path):
    model = load_model(files / "model.mcb")
    converted("--rounds", 7, files / "model.mcb", tmp_path / "m.mcb")
    assert (tmp_path / "m.mcb").read_bytes() == model.truncate(7).to_bytes()
    assert (
        len(json.loads(converted("--rounds", 7, "--to", "json", files / "model.mcb", "-"))["trees"])
        == 7
    )
    refused(1, "--rounds must be from 0 to 30", "--rounds", 31, files / "model.mcb", "-")
    converted("--rounds", 0, files / "model.mcb", tmp_path / "m.mcb")
    assert (tmp_path / "m.mcb").read_bytes() == model.truncate(0).to_bytes()


def test_other_leaves_and_layouts(files, tmp_path):
    model = load_model(files / "model.mcb")
    converted("--layout", "interval", files / "model.mcb", tmp_path / "m.mcb")
    assert (tmp_path / "m.mcb").read_bytes() == model.to_bytes(layout="interval")
    assert (
        call(
            "train", "-q", "-n", 3, "-a", "mart", files / "train.svm", "t.mcb", cwd=tmp_path
        ).returncode
        == 0
    )
    converted("--leaves", "float16", "t.mcb", "h.mcb", cwd=tmp_path)
    assert (tmp_path / "h.mcb").read_bytes() == load_model(tmp_path / "t.mcb").to_bytes(
        leaves="float16"
    )
    refused(2, "--leaves float16 is for trees", "--leaves", "float16", files / "model.mcb", "-")
    refused(
        2, "an interval table is for stumps", "--layout", "interval", "t.mcb", "out", cwd=tmp_path
    )
    refused(
        1,
        "--layout needs --to mcb or --to c",
        "--layout",
        "interval",
        "--to",
        "json",
        "t.mcb",
        "out",
        cwd=tmp_path,
    )


def test_packed(files, tmp_path):
    train = ("train", "-q", "-a", "vector-tree", "-n", 30, "--calibrate", "none")
    rows = files / "train.svm"
    assert call(*train, rows, tmp_path / "v.mcb").returncode == 0
    how = ("--layout", "packed", "--leaves", "int8", "--rows", files / "test.svm")
    completed = call("convert", *how, tmp_path / "v.mcb", tmp_path / "p.mcb")
    n = len((files / "test.svm").read_text().splitlines())
    assert (
        f"mcboost-convert: of {n} rows, " in completed.stderr
        and "get another class than with the original leaves" in completed.stderr
    )
    assert load_model(tmp_path / "p.mcb").layout == "packed"
    assert "kind          7 (packed trees)\n" in call("info", tmp_path / "p.mcb").stdout
    converted("--layout", "list", tmp_path / "p.mcb", tmp_path / "l.mcb")
    scores = [
        call("predict", "-b", 1, files / "test.svm", tmp_path / name, "-").stdout
        for name in ("p.mcb", "l.mcb")
    ]
    assert scores[0] and scores[0] == scores[1]
    assert converted("--to", "json", tmp_path / "p.mcb", "-") == converted(
        "--to", "json", tmp_path / "l.mcb", "-"
    )
    refused(
        2,
        "--leaves int8 needs --layout packed",
        "--leaves",
        "int8",
        tmp_path / "v.mcb",
        tmp_path / "out",
    )
    completed = call(*train, "--layout", "packed", rows, tmp_path / "out")
    assert (
        completed.returncode == 1
        and "--layout packed needs vector-tree with --leaf-levels" in completed.stderr
    )
    (tmp_path / "t.csv").write_text("colour,label\nred,1\nblue,2\n")
    packed = [
        "-a",
        "vector-tree",
        "--leaf-levels",
        "1",
        "--layout",
        "packed",
        "--categorical-features",
        "colour",
    ]
    completed = call("train", "-q", *packed, "--label", "label", tmp_path / "t.csv", tmp_path / "c")
    assert (
        completed.returncode == 1
        and "--layout packed cannot store categories; leave out --layout or --categorical-features"
        in completed.stderr
    )
    assert not (tmp_path / "c").exists()
    assert (
        call(*train, "--leaf-levels", 3, "--layout", "packed", rows, tmp_path / "out").returncode
        == 0
    )
    assert load_model(tmp_path / "out").layout == "packed"
    text = converted("-q", "--to", "c", "--integer", "int8", tmp_path / "out", "-")
    assert "model_bits" in text and "double" not in text


@pytest.mark.parametrize("form", ["mcb", "json"])
def test_the_model_itself_is_no_output(files, tmp_path, form):
    (tmp_path / "m.mcb").write_bytes((files / "model.mcb").read_bytes())
    (tmp_path / "other").symlink_to("m.mcb")
    refused(1, "would overwrite it", "--to", form, "m.mcb", "other", cwd=tmp_path)
    assert (tmp_path / "m.mcb").read_bytes() == (files / "model.mcb").read_bytes()


def test_damaged_and_missing_models(files, tmp_path):
    (tmp_path / "cut.mcb").write_bytes((files / "model.mcb").read_bytes()[:-1])
    refused(3, "cut.mcb: ", "cut.mcb", "out", cwd=tmp_path)
    refused(
        4,
        "none.mcb: No such file or directory; name a model file that mcboost",
        "none.mcb",
        "out",
        cwd=tmp_path,
    )
    refused(1, "nonsense", "--to", "nonsense", "cut.mcb", "out", cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cut.mcb"]


def test_c(files, tmp_path):
    converted("--to", "c", files / "model.mcb", tmp_path / "2 model-x.c")
    assert (tmp_path / "2 model-x.c").read_text() == to_c(
        load_model(files / "model.mcb"), "model_x"
    )
    interval = load_model(files / "model.mcb").to_bytes(layout="interval")
    converted("--to", "c", "--layout", "interval", files / "model.mcb", tmp_path / "m.h")
    assert (tmp_path / "m.h").read_text() == to_c(Model.from_bytes(interval), "m")


def test_integers(files, tmp_path):
    how = ("train", "-q", "-a", "vector-tree", "-n", 9, "--leaf-levels", 3, "--layout", "packed")
    assert call(*how, files / "train.svm", tmp_path / "p.mcb").returncode == 0
    (files / "whole.svm").write_text("1 1:1 2:3\n2 5:200\n")
    for rows, given in (("test.svm", "the bits of float32"), ("whole.svm", "int16_t")):
        completed = call(
            "convert",
            "--to",
            "c",
            "--integer",
            "int8",
            "--rows",
            files / rows,
            tmp_path / "p.mcb",
            "-",
        )
        assert completed.returncode == 0 and f"Features are {given}." in completed.stderr
        notes = [line.removeprefix("mcboost-convert: ") for line in completed.stderr.splitlines()]
        assert all(f" * {line}\n" in completed.stdout for line in notes if line[0] in "FNO")
        assert any(line.startswith("Of ") for line in notes)
    converted("-q", "--to", "c", "--integer", "int8", "p.mcb", "m.h", cwd=tmp_path)
    assert "\nstatic inline int m_predict(const uint32_t *x) {" in (tmp_path / "m.h").read_text()
    (tmp_path / "broken.svm").write_text("1 2:x\n")
    integer = ("--to", "c", "--integer", "int8")
    refused(2, "broken.svm:1:", *integer, "--rows", "broken.svm", "p.mcb", "out", cwd=tmp_path)
    refused(1, "--integer needs --to c", "--integer", "int8", "p.mcb", "out", cwd=tmp_path)
    refused(
        1,
        "--rows needs --integer, --from another",
        "--rows",
        "broken.svm",
        "p.mcb",
        "out",
        cwd=tmp_path,
    )
    refused(
        2,
        "Save the trees with --layout packed and --leaves int8",
        *integer,
        files / "model.mcb",
        "out",
        cwd=tmp_path,
    )
    assert not (tmp_path / "out").exists()


def test_onnx(files, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    refused(
        1, "pip install 'pymcboost[onnx]'", "--to", "onnx", files / "model.mcb", "out", cwd=tmp_path
    )
    monkeypatch.setitem(sys.modules, "treelite", None)
    refused(1, "pip install treelite", "--to", "treelite", files / "model.mcb", "out", cwd=tmp_path)
    monkeypatch.undo()
    pytest.importorskip("onnx")
    converted("--to", "onnx", files / "model.mcb", "m.onnx", cwd=tmp_path)
    assert (tmp_path / "m.onnx").read_bytes() == to_onnx(load_model(files / "model.mcb"))


@pytest.mark.parametrize("target", ["onnx", "treelite"])
def test_rows_that_are_close_in_float32_are_counted(files, tmp_path, target):
    pytest.importorskip(target)
    trees = random_trees(20, 2, 4, mode="vector")
    # No row has a best class alone.
    trees = replace(
        trees, leaf=trees.leaf[:, [0, 0, 2, 3]], bias=np.array([99, 99, 0, 0], dtype=np.float32)
    )
    Model.from_ensemble(trees, range(4)).save(tmp_path / "tie.mcb")
    (tmp_path / "r.svm").write_text("0 1:0.5 2:1\n1 2:7\n1 1:-3\n")
    completed = call("convert", "--to", target, "--rows", "r.svm", "tie.mcb", "out", cwd=tmp_path)
    assert (
        completed.returncode == 0
        and "of 3 rows, 3 have two best classes closer" in completed.stderr
    )
    assert "adds in float32: on these rows no score differs by more than " in completed.stderr
    completed = call(
        "convert",
        "--to",
        target,
        "--rows",
        files / "test.svm",
        files / "model.mcb",
        "out",
        cwd=tmp_path,
    )
    assert completed.returncode == 0 and re.search(
        r"of \d+ rows, 0 have two best classes", completed.stderr
    )
    completed = call(
        "convert", "-q", "--to", target, "--rows", "r.svm", "tie.mcb", "out", cwd=tmp_path
    )
    assert (completed.returncode, completed.stderr) == (0, "")


def test_models_of_other_libraries(tmp_path):
    _, text = lightgbm()
    (tmp_path / "m.txt").write_text(text)
    (tmp_path / "m.json").write_text(json.dumps(xgboost(True)[1]))
    (tmp_path / "t.svm").write_text("0 1:0.5 2:1\n1 1:2 3:7\n")
    completed = call(
        "convert", "--from", "lightgbm", "--rows", "t.svm", "m.txt", "m.mcb", cwd=tmp_path
    )
    assert (
        completed.returncode == 0
        and "of 2 rows, 0 have two best classes that are closer" in completed.stderr
    )
    assert "no score differs by more than " in completed.stderr
    assert call("predict", "-q", "t.svm", "m.mcb", "-", cwd=tmp_path).returncode == 0
    assert "lightgbm" not in call("info", "m.mcb", cwd=tmp_path).stderr
    completed = call(
        "convert",
        "-q",
        "--from",
        "xgboost",
        "--to",
        "c",
        "--rounds",
        2,
        "m.json",
        "m.c",
        cwd=tmp_path,
    )
    assert (completed.returncode, completed.stderr) == (0, "")
    refused(
        3,
        "m.txt: this is neither JSON nor UBJSON",
        "--from",
        "xgboost",
        "m.txt",
        "out",
        cwd=tmp_path,
    )
    refused(
        3,
        "m.json: not a LightGBM text model",
        "--from",
        "lightgbm",
        "m.json",
        "out",
        cwd=tmp_path,
    )
    refused(3, "m.json: this is a model of XGBoost", "m.json", "out", cwd=tmp_path)
    refused(3, "--from reads models of LightGBM and XGBoost", "m.json", "out", cwd=tmp_path)
    foreign = ("--from", "lightgbm", "--leaves", "float16")
    refused(
        1, "write a model file first, then convert that", *foreign, "m.txt", "out", cwd=tmp_path
    )
    refused(
        4,
        "name a model file that LightGBM has written",
        "--from",
        "lightgbm",
        "none",
        "out",
        cwd=tmp_path,
    )


@pytest.mark.parametrize(
    ("name", "target"), [("t.c", "c"), ("t.json", "json"), ("t.onnx", "onnx"), ("t.txt", "text")]
)
def test_names_of_other_formats_need_the_format(files, tmp_path, name, target):
    refused(
        1,
        f"{name} ends in {os.path.splitext(name)[1]}; did you mean --to {target}?",
        files / "model.mcb",
        name,
        cwd=tmp_path,
    )
    completed = call("convert", "--to", "mcb", files / "model.mcb", name, cwd=tmp_path)
    assert completed.returncode == 0
    assert (tmp_path / name).read_bytes() == (files / "model.mcb").read_bytes()


def test_rounds_after_the_best_are_left_out(tmp_path):
    (tmp_path / "m.json").write_text(json.dumps(stopped(1)))
    completed = call("convert", "--from", "xgboost", "--rounds", 1, "m.json", "m.mcb", cwd=tmp_path)
    line = "mcboost-convert: using the first 2 of 4 rounds, up to the one that XGBoost found best\n"
    assert completed.returncode == 0 and completed.stderr.startswith(line)
    (tmp_path / "m.json").write_text(json.dumps(stopped(3)))
    completed = call("convert", "--from", "xgboost", "m.json", "m.mcb", cwd=tmp_path)
    assert completed.returncode == 0 and "rounds" not in completed.stderr
