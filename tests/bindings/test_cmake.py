"""find_package(mcb) and pkg-config: a project outside of the package finds the headers."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from bindings.models import needed, run
from reference.scoring import random_stumps

import pymcboost
from pymcboost.cli.package import main
from pymcboost.model.model import Model

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NUMBER = re.match(r"\d+\.\d+\.\d+", pymcboost.__version__)[0]
MAJOR, MINOR, PATCH = map(int, NUMBER.split("."))
GOOD = ("", f"{MAJOR}.{MINOR}", f"{NUMBER} EXACT")
BAD = ("0.0.9", f"{MAJOR}.{MINOR}.{PATCH + 1}", f"{MAJOR}.{MINOR + 1}", f"{MAJOR + 1}")


def folder(name, capsys):
    """What python -m pymcboost prints."""
    assert main([f"--{name}"]) == 0
    return Path(capsys.readouterr().out.rstrip("\n"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of 64 features, as the programs want, and the label of their row."""
    model = Model.from_ensemble(random_stumps(70, 64, 10), range(20, 30), link="softmax")
    path = tmp_path_factory.mktemp("model") / "model.mcb"
    model.save(path)
    row = np.zeros((1, 64), dtype=np.float32)
    row[0, 42] = 9
    return path, f"class {model.predict(row)[0]}"


@pytest.mark.slow
def test_a_project_finds_the_package(model, tmp_path, capsys):
    cmake = needed("cmake")
    found = folder("cmake", capsys)
    run(cmake, "-S", Path(__file__).with_name("cmake"), "-B", tmp_path, f"-Dmcb_DIR={found}")
    run(cmake, "--build", tmp_path)
    for program in ("score", "scorepp"):
        assert run(tmp_path / program, model[0]).splitlines()[0] == model[1]


FIND = """\
cmake_minimum_required(VERSION 3.16)
project(p NONE)
find_package(mcb {} CONFIG)
message(found=${{mcb_FOUND}})
"""


@pytest.mark.parametrize("version", GOOD + BAD)
def test_versions(version, tmp_path, capsys):
    (tmp_path / "CMakeLists.txt").write_text(FIND.format(version))
    prefix = f"-DCMAKE_PREFIX_PATH={folder('include', capsys)}"
    completed = subprocess.run(
        [needed("cmake"), prefix, "."], cwd=tmp_path, capture_output=True, text=True
    )
    assert f"found={int(version in GOOD)}" in completed.stderr


def test_a_copy_without_the_header_is_refused(tmp_path):
    shutil.copytree(Path(pymcboost.get_include()) / "cmake", tmp_path / "cmake")
    (tmp_path / "CMakeLists.txt").write_text(FIND.format("REQUIRED"))
    command = [needed("cmake"), f"-Dmcb_DIR={tmp_path / 'cmake'}", "."]
    completed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert completed.returncode != 0
    assert "mcb.h is not in" in completed.stderr


@pytest.mark.slow
def test_pkg_config_gives_the_flags(model, tmp_path, capsys):
    compiler = needed("cc")
    environment = {**os.environ, "PKG_CONFIG_PATH": str(folder("pkgconfig", capsys))}
    flags = run(needed("pkg-config"), "--cflags", "mcb", env=environment).split()
    assert run("pkg-config", "--modversion", "mcb", env=environment) == f"{NUMBER}\n"
    run(compiler, EXAMPLES / "score.c", *flags, "-o", tmp_path / "score")
    assert run(tmp_path / "score", model[0]).splitlines() == [model[1]]


def test_numbers_are_the_packages():
    include = Path(pymcboost.get_include())
    for name, words in (
        ("cmake/mcb-config-version.cmake", "PACKAGE_VERSION "),
        ("pkgconfig/mcb.pc", "Version: "),
    ):
        assert f"{words}{NUMBER}" in (include / name).read_text()
