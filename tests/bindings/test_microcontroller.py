"""What the example for microcontrollers refuses."""

import runpy
import sys

import pytest
from bindings.models import EXAMPLES
from reference.scoring import random_kernel, random_trees

from pymcboost.model.model import Model

PROGRAM = EXAMPLES / "microcontroller" / "build.py"


@pytest.mark.parametrize(
    ("model", "words", "message"),
    [
        ("model.mcb", ["odd"], "odd: rows of 9 float32 numbers take 36 bytes each, not 37"),
        ("model.mcb", ["none"], "none: rows of 9 float32 numbers take 36 bytes each, not 0"),
        ("model.mcb", ["nowhere"], "No such file or directory: 'nowhere'"),
        ("nowhere.mcb", [], "No such file or directory"),
        ("kernel.mcb", ["--integer", "int8"], "this model has layout='list' (kernel machine)"),
        (
            "hamming.mcb",
            ["--target", "cortex-m0"],
            "34 kB of stack for the decoder hamming, cortex-m0 has 16 kB",
        ),
        ("odd", [], "odd: the file is shorter than the 64-byte header"),
    ],
)
def test_microcontroller_refuses(model, words, message, folder_of_models, monkeypatch, capsys):
    """The example prints one line, which is no traceback."""
    monkeypatch.chdir(folder_of_models)
    monkeypatch.setattr(sys, "argv", [str(PROGRAM), str(folder_of_models / model), *words])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(PROGRAM), run_name="__main__")
    said = capsys.readouterr().err or str(end.value.code)
    assert end.value.code and said.startswith("build.py: ") and message in said


@pytest.fixture(scope="module")
def folder_of_models(tmp_path_factory):
    """Models of which some cannot be had, and files that hold no rows."""
    folder = tmp_path_factory.mktemp("models")
    trees = random_trees(5, 9, 3, mode="vector")
    packed = {"layout": "packed", "leaves": "int8"}
    Model.from_ensemble(trees, range(3), **packed).save(folder / "model.mcb")
    Model.from_ensemble(random_kernel(5, 9, 3), range(3)).save(folder / "kernel.mcb")
    Model.from_ensemble(random_trees(3, 9, 3, mode="hamming"), range(3)).save(
        folder / "hamming.mcb"
    )
    (folder / "odd").write_bytes(bytes(37))
    (folder / "none").write_bytes(b"")
    return folder
