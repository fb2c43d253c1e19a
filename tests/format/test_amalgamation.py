"""``mcb.h`` is put together from its pieces."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import pymcboost
from pymcboost.model.file import MINOR, MINOR_OF_LINK

ROOT = Path(__file__).resolve().parents[2]
PIECES = ROOT / "pymcboost" / "_kernels" / "score"
HEADER = Path(pymcboost.get_include(), "mcb.h")
STRICT = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pedantic",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Wvla",
]

_spec = importlib.util.spec_from_file_location("amalgamate", ROOT / "tools" / "amalgamate.py")
amalgamate = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(amalgamate)


def call(folder, header, *options):
    return amalgamate.main(["--folder", str(folder), "--header", str(header), *options])


def test_header_is_current():
    assert call(PIECES, HEADER, "--check") == 0


def test_header_has_the_version_of_the_format():
    text = (ROOT / "docs" / "format.md").read_text()
    newest = max(*MINOR.values(), *MINOR_OF_LINK.values())
    assert f"#define MCB_FORMAT_MINOR {newest}\n" in HEADER.read_text()
    assert f"this document is minor {newest}." in text


def test_the_top_names_every_function():
    top, rest = HEADER.read_text().split("#ifndef MCB_H")
    names = re.findall(r"^MCB_API [^(=]*?\b(mcb_\w+)\(", rest, re.M)
    assert len(names) > 40 and not [name for name in names if not re.search(rf"\b{name}\b", top)]


def test_a_change_of_a_piece_is_noticed(tmp_path, capsys):
    folder, header = tmp_path / "score", tmp_path / "mcb.h"
    shutil.copytree(PIECES, folder)
    assert call(folder, header, "--check") == 1
    assert call(folder, header) == 0
    assert header.read_bytes() == HEADER.read_bytes()
    piece = folder / "links.h"
    piece.write_text(piece.read_text() + "\n")
    assert call(folder, header, "--check") == 1
    assert "is not current: change the files in" in capsys.readouterr().out
    (folder / "stray.h").write_text("")
    with pytest.raises(
        ValueError, match="must include every file of its folder once; look at stray.h"
    ):
        call(folder, header)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("standard", ["c99", "c11", "c++11", "c++14", "c++17", "c++20"])
@pytest.mark.slow
def test_no_warning_in_any_standard(compiler, standard, tmp_path):
    language = "c++" if "+" in standard else "c"
    if language == "c++":
        compiler = {"gcc": "g++", "clang": "clang++"}[compiler]
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    source = tmp_path / "include.c"
    source.write_text(
        '#include "mcb.h"\n' + ('extern "C" {\n#include "mcb.h"\n}\n' if language == "c++" else "")
    )
    command = [
        compiler,
        "-x",
        language,
        f"-std={standard}",
        *STRICT,
        "-fsyntax-only",
        f"-I{HEADER.parent}",
    ]
    for form in ("-DMCB_PLAIN", "-DMCB_SIMD", "-DMCB_NO_VECTOR"):
        run = subprocess.run([*command, form, str(source)], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr


def test_compilers_other_than_gcc_see_plain_c():
    """Neither attributes, built-in functions, assembly nor statement expressions, where these are not known."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    text = re.sub(r"^#include <.*", "", HEADER.read_text(), flags=re.MULTILINE)
    command = ["gcc", "-E", "-P", "-U__GNUC__", "-U__SIZEOF_INT128__", "-x", "c", "-"]
    seen = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    assert "mcb_scores_batch" in seen
    assert not re.search(r"__\w+__|__builtin|__asm|typeof|\(\{", seen)
