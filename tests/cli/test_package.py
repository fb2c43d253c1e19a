"""python -m pymcboost: what a bug report needs, man pages, made from the programs' own options."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli.programs import environment

from pymcboost import __version__
from pymcboost.cli.about import PACKAGES
from pymcboost.cli.manual import man_page
from pymcboost.cli.options import get_algorithm, option_flags
from pymcboost.cli.package import PAGES, main
from pymcboost.cli.programs import PROGRAMS, SUMMARIES, entries
from pymcboost.registry import ALGORITHMS


def shell(name):
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} here")
    return found


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


@pytest.mark.parametrize("arguments", [[], ["--man", "mcboost"], ["more"]])
def test_bad_usage(capsys, arguments):
    assert main(arguments) == 1
    assert capsys.readouterr().err.startswith("python -m pymcboost: error: ")


def test_names_are_those_of_the_programs():
    assert tuple(PROGRAMS) == PAGES == tuple(SUMMARIES)


def test_entries_are_all_options_of_all_algorithms():
    for program in ("mcboost-train", "mcboost-tune"):
        for name in ALGORITHMS:
            own = {flag for e in entries(program) if not e.algorithms or name in e.algorithms for flag in e.flags}
            assert set(option_flags(get_algorithm(name))) < own
            assert ("--gap" in own) == name.startswith("abc-")


@pytest.mark.parametrize("program", PAGES)
def test_man_pages(program, capsys):
    assert main(["--man", program]) == 0
    page = capsys.readouterr().out
    assert page == man_page(program)
    for entry in entries(program):
        for flag in entry.flags:
            assert re.search(rf"\\fB{re.escape(flag.replace('-', chr(92) + '-'))}\\fR", page), flag
    done = subprocess.run([shell("man"), "--warnings=w", "-l", "-"], input=page, capture_output=True, text=True)
    assert (done.returncode, re.sub(".*cannot adjust line\n", "", done.stderr)) == (0, "")
    plain = re.sub(".\b", "", done.stdout)
    assert program in plain and "EXIT STATUS" in plain
    if program == "mcboost-train":
        assert re.search(r"-a, +--algorithm", plain) and "Of: abc-logitboost, abc-mart." in plain
