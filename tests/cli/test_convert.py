"""mcboost-convert: models in other forms, and what they cannot hold."""

import json

import pytest
from cli.programs import call

from pymcboost import load_model


def converted(*arguments, cwd=None):
    done = call("convert", *arguments, cwd=cwd)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def refused(status, message, *arguments, cwd=None):
    done = call("convert", *arguments, cwd=cwd)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.startswith("mcboost-convert: error: ") and message in done.stderr, done.stderr


def test_text_and_json_are_what_info_dumps(files):
    for form in ("json", "text"):
        expected = call("info", "--dump", form, files / "model.mcb").stdout
        assert converted("--to", form, files / "model.mcb", "-") == expected


def test_fewer_rounds(files, tmp_path):
    model = load_model(files / "model.mcb")
    converted("--rounds", 7, files / "model.mcb", tmp_path / "m.mcb")
    assert (tmp_path / "m.mcb").read_bytes() == model.truncate(7).to_bytes()
    assert len(json.loads(converted("--rounds", 7, "--to", "json", files / "model.mcb", "-"))["trees"]) == 7
    refused(1, "--rounds must be from 0 to 30", "--rounds", 31, files / "model.mcb", "-")


@pytest.mark.parametrize("form", ["mcb", "json"])
def test_the_model_itself_is_no_output(files, tmp_path, form):
    (tmp_path / "m.mcb").write_bytes((files / "model.mcb").read_bytes())
    (tmp_path / "other").symlink_to("m.mcb")
    refused(1, "would be lost", "--to", form, "m.mcb", "other", cwd=tmp_path)
    assert (tmp_path / "m.mcb").read_bytes() == (files / "model.mcb").read_bytes()


def test_damaged_and_missing_models(files, tmp_path):
    (tmp_path / "cut.mcb").write_bytes((files / "model.mcb").read_bytes()[:-1])
    refused(3, "cut.mcb: ", "cut.mcb", "out", cwd=tmp_path)
    refused(4, "none.mcb: No such file", "none.mcb", "out", cwd=tmp_path)
    refused(1, "nonsense", "--to", "nonsense", "cut.mcb", "out", cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cut.mcb"]


def test_c(files, tmp_path):
    converted("--to", "c", files / "model.mcb", tmp_path / "2 model-x.c")
    assert "void model_x_scores(const float *x, double *scores) {" in (tmp_path / "2 model-x.c").read_text()
    converted("--to", "c", files / "model.mcb", tmp_path / "m.h")
    assert "\nstatic inline int m_predict(const float *x) {" in (tmp_path / "m.h").read_text()


def test_integers(files, tmp_path):
    for rows, given in (("test.svm", "the bits of float32"), ("whole.svm", "int16_t")):
        (files / "whole.svm").write_text("1 1:1 2:3\n2 5:200\n")
        done = call("convert", "--to", "c", "--integer", "int8", "--rows", files / rows, files / "model.mcb", "-")
        assert done.returncode == 0 and f"Features are {given}." in done.stderr
        notes = [line.removeprefix("mcboost-convert: ") for line in done.stderr.splitlines()]
        assert all(f" * {line}\n" in done.stdout for line in notes if line[0] in "FNO")
        assert any(line.startswith("Of ") for line in notes)
    (tmp_path / "broken.svm").write_text("1 2:x\n")
    model = files / "model.mcb"
    refused(2, "broken.svm:1:", "--to", "c", "--integer", "int8", "--rows", "broken.svm", model, "out", cwd=tmp_path)
    refused(1, "--integer is for --to c", "--integer", "int8", model, "out", cwd=tmp_path)
    refused(1, "--rows is for --integer", "--to", "c", "--rows", "broken.svm", model, "out", cwd=tmp_path)
    call("train", "-q", "-n", 2, "-a", "hingeboost", "-t", 2, files / "train.svm", "k.mcb", cwd=tmp_path)
    refused(2, "not of a kernel machine", "--to", "c", "k.mcb", "out", cwd=tmp_path)
    assert not (tmp_path / "out").exists()
