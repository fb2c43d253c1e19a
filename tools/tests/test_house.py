"""tools/house.py counts what it says."""

import house


def test_all_is_shown(capsys):
    house.main([])
    out = capsys.readouterr().out
    for words in ("pymcboost/_kernels/\n", "tools/ in all", "function of C: ", "training -> ", "layers"):
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
