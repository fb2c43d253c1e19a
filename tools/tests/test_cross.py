"""tools/cross.py: what it makes of Python's headers, and that a fault shows; zig itself runs in CI."""

import sys

import cross
import pytest


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    """Stands for zig: writes what it is asked for, except what the test names as broken."""
    broken = set()

    def zig(*arguments):
        words = [str(argument) for argument in arguments]
        if any(name in word for name in broken for word in words):
            return "error: this is broken"
        if "-shared" in words:
            target = next(
                t for t in cross.TARGETS.values() if t.zig == words[words.index("-target") + 1]
            )
            cross.Path(words[words.index("-o") + 1]).write_bytes(target.magic)
        return None

    (tmp_path / "a.c").touch()
    (tmp_path / "b.c").touch()
    monkeypatch.setattr(cross, "KERNELS", tmp_path)
    monkeypatch.setattr(cross, "zig", zig)
    return broken


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["cross.py", *arguments])
    return cross.main()


def test_a_table_of_all_targets(compiler, monkeypatch, capsys):
    assert run(monkeypatch) is None
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in capsys.readouterr().out.splitlines()
    ]
    assert rows[0] == ["part", *cross.TARGETS]
    assert [row[0] for row in rows[2:]] == ["mcb.h", "a", "b", "link"]
    assert {cell for row in rows[2:] for cell in row[1:]} == {"yes"}


@pytest.mark.parametrize(
    ("broken", "part"), [("scorer.c", "mcb.h"), ("a.c", "a"), ("b.module", "link")]
)
def test_what_does_not_compile_or_link_shows(broken, part, compiler, monkeypatch, capsys):
    compiler.add(broken)
    assert run(monkeypatch, "macos-arm64") == 1
    shown = capsys.readouterr()
    assert f"| {part} | no |" in shown.out and "| b | yes |" in shown.out
    assert f"macos-arm64, {part}:\nerror: this is broken" in shown.err


def test_a_module_for_another_machine_is_no_link(compiler, monkeypatch, capsys):
    monkeypatch.setitem(
        cross.TARGETS, "linux-aarch64", cross.Target("aarch64-linux-gnu.2.28", b"\x7fELF")
    )
    monkeypatch.setitem(cross.TARGETS, "other", cross.Target("aarch64-linux-gnu.2.28", b"MZ"))
    assert run(monkeypatch, "other") == 1
    assert "is not for aarch64-linux-gnu.2.28" in capsys.readouterr().err


def test_unknown_targets_are_named(monkeypatch, capsys):
    assert run(monkeypatch, "vax") == "there is no target vax"
    assert "windows-x86_64" in capsys.readouterr().out


def test_headers_of_windows_name_what_python_exports(compiler, tmp_path):
    cross.headers(cross.TARGETS["windows-x86_64"], tmp_path / "python")
    names = (tmp_path / "python" / "python.def").read_text().splitlines()
    assert {
        "PyErr_SetString",
        "_Py_FatalErrorFunc",
        "PyExc_ValueError DATA",
        "PyModule_Create2",
    } <= set(names)
    assert "MS_WIN64" in (tmp_path / "python" / "pyconfig.h").read_text()
