"""Every line of mcb.h that refuses something is run by the files of `test_refusals`."""

import argparse
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from reference.scoring import random_rows

import pymcboost
from pymcboost.model.file import ModelFormatError
from pymcboost.model.model import Model

ROOT = Path(__file__).resolve().parents[2]
HEADER = Path(pymcboost.get_include())
ROWS = 5


def loaded(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def fuzz():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        yield loaded(ROOT / "tools" / "fuzz.py", "fuzz_of_refusals")


def files(refusals):
    """Files that are refused, and those that they were made of, each with rows of its features."""
    whole = [value for value in vars(refusals).values() if isinstance(value, bytes)]
    for data in [*whole, *(make() for _, make in refusals.CASES)]:
        try:
            n = Model.from_bytes(data).n_features_in_
        except ModelFormatError:
            n = 1
        yield data, n, random_rows(ROWS, n).ravel().tolist()


@pytest.mark.slow
def test_every_line_that_refuses_is_run(fuzz, tmp_path):
    if not shutil.which("gcc") or not shutil.which("gcov"):
        pytest.skip("gcc or gcov is not installed")
    refusals = loaded(Path(__file__).with_name("test_refusals.py"), "refusals")
    options = argparse.Namespace(compiler="gcc", optimize="0", header=HEADER, widest=1 << 16)
    program = fuzz.compile_all(options, tmp_path, {}, ["--coverage"])
    fuzz.write_files(tmp_path / "corpus", files(refusals))
    subprocess.run(
        [program, "shapes", tmp_path / "corpus", tmp_path / "results", "1"],
        check=True,
        cwd=tmp_path,
    )
    text = (HEADER / "mcb.h").read_text().splitlines()
    rest = fuzz.lines_not_run(tmp_path)
    missed = [
        f"{number}: {text[number - 1].strip()}" for number in rest if "MCB_E_" in text[number - 1]
    ]
    assert not missed, "\n".join(missed)
