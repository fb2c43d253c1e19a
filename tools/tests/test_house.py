"""The bounds of sizes hold, and tools/house.py finds what is above them."""

import house


def test_nothing_is_above_its_bound(capsys):
    assert house.main(["--check"]) == 0, capsys.readouterr().out


def test_all_is_shown(capsys):
    assert house.main([]) == 0
    out = capsys.readouterr().out
    for words in ("pymcboost/_kernels/\n", "tools/ in all", "function of C, at most 80: ", "training -> ", "layers"):
        assert words in out


def test_functions_are_counted_below_signature_and_docstring(tmp_path):
    python, cython, c = (tmp_path / f"a{suffix}" for suffix in (".py", ".pyx", ".h"))
    body = '    """Words.\n\n    More.\n    """\n    a = 1\n\n    return a\n'
    python.write_text(f"def f(\n    x,\n):\n{body}")
    cython.write_text(f"cdef int f(int x,\n           int y) nogil:\n{body}\n\nA = 1\n")
    c.write_text(
        "static int f(int x,\n             int y) {\n    if (x) {\n        y++;\n    }\n    return y;\n}\n"
        "#define G(W) \\\n    int g##W(int x) { \\\n        return x; \\\n    } \\\n    int y;\n"
        "#define H \\\n    1 + \\\n    2\n"
    )
    assert list(house.functions(python)) == list(house.functions(cython)) == [("f", 3)]
    assert list(house.functions(c)) == [("f", 4), ("W", 1), ("H", 3)]


def test_what_is_too_long_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "pymcboost").mkdir()
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "a.py").write_text("def f():\n" + 61 * "    x = 1\n")
    (tmp_path / "pymcboost" / "b.h").write_text("void f(int x) {\n" + 450 * "    x++;\n" + "}\n")
    monkeypatch.setattr(house, "ROOT", tmp_path)
    monkeypatch.setattr(house, "overridden", lambda: dict.fromkeys("abcdefg", set()))
    assert house.main(["--check"]) == 1
    out = capsys.readouterr().out
    assert "pymcboost/b.h: 452 lines, at most 450 for a file" in out
    assert "pymcboost/b.h: f: 450 lines, at most 80 for a function of C" in out
    assert "tools/a.py: f: 61 lines, at most 60 for a function of Python" in out
    assert "7 names of the estimator" in out
