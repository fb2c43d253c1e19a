"""python -m pymcboost: versions, what a bug report needs, folders of the headers."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli.programs import environment

from pymcboost import __version__
from pymcboost.cli.package import PACKAGES, main


def test_version_and_show(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pymcboost {__version__}\n"
    done = subprocess.run(
        [sys.executable, "-m", "pymcboost", "--version", "--show"], env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert shown["pymcboost"].startswith(__version__) and shown["Python"].split()[1][:-1] == sys.version.split()[0]
    assert set(PACKAGES) < set(shown)
    import numpy

    assert shown["numpy"] == numpy.__version__
    assert re.match(r"(GCC|Clang|MSVC) \d+.*, (OpenMP \d{6}|without OpenMP)$", shown["kernels"])
    assert re.match(r"\d+ of \d+ CPUs may be used$", shown["threads"])
    assert {"system", "processor", "features", "memory", "variables"} < set(shown)


@pytest.mark.parametrize(
    ("option", "file"), [("--include", "mcb.hpp"), ("--cmake", "mcb-config.cmake"), ("--pkgconfig", "mcb.pc")]
)
def test_folders_of_the_headers(option, file, capsys):
    assert main([option]) == 0
    assert Path(capsys.readouterr().out.rstrip("\n"), file).is_file()


def test_show_says_where_kernels_cannot_be_imported():
    start = "import sys; sys.modules['pymcboost._kernels'] = None\n"
    code = start + "from pymcboost.cli.package import main; main(['--show'])"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert re.search(r"^kernels +cannot be imported: ", done.stdout, re.M), done.stderr


@pytest.mark.parametrize("arguments", [[], ["more"]])
def test_bad_usage(capsys, arguments):
    assert main(arguments) == 1
    assert capsys.readouterr().err.startswith("python -m pymcboost: error: ")
