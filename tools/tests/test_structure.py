"""tools/structure.py counts what it says, in a small tree."""

import pytest
import structure

PYTHON = '''"""Words of a module."""
from pymcboost.comm import ALONE
from pymcboost import get_include, files


class Trainer:
    r"""Words of a class,
    # and more of them.
    """

    # A comment with workers.
    def fit(self, workers):
        text = "# no comment"  # a comment
        a, b, c = 1, 2, 3
        d = e = f = 0
        g, h, i = self.shape
        a, b = b, a
'''
C = """/* Words about
   checkpoints. */
int f(void) { // more words
    return "// text"[0];
}
"""


@pytest.fixture
def tree(tmp_path):
    for name, text in {
        "pymcboost/training/fitting.py": PYTHON,
        "pymcboost/comm/__init__.py": "class Workers: pass\n",
        "pymcboost/files.py": "",
        "pymcboost/_kernels/sums.h": C,
        "pymcboost/_kernels/sums.c": C,
        "pymcboost/include/mcb.h": C,
        "tests/test_fit.py": "assert True\n",
        "tools/reading.c": C,
        "docs/how.md": "five words on one page\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_code_has_no_words(tree):
    code = structure.code_of(tree)
    assert code["pymcboost/training/fitting.py"][2:5] == [
        "class Trainer:",
        "def fit(self, workers):",
        'text = "# no comment"',
    ]
    assert code["pymcboost/_kernels/sums.h"] == ["int f(void) {", 'return "// text"[0];', "}"]
    # What is generated does not count.
    assert {"pymcboost/_kernels/sums.c", "pymcboost/include/mcb.h"}.isdisjoint(
        code
    ) and "tools/reading.c" in code


def test_a_feature_counts_outside_its_room(tree):
    code = structure.code_of(tree)
    assert structure.spread(code, *structure.FEATURES["workers"]) == [
        "pymcboost/training/fitting.py"
    ]
    assert structure.spread(code, *structure.FEATURES["checkpoints"]) == []


def test_assignments_to_three_targets():
    lines = [
        PYTHON.splitlines()[number - 1].strip() for number in structure.parallel_assignments(PYTHON)
    ]
    assert lines == ["a, b, c = 1, 2, 3", "d = e = f = 0"]


def test_all_is_printed(tree, capsys):
    structure.main(["--tree", str(tree)])
    out = capsys.readouterr().out
    for line in (
        "1  workers",
        "3  11.3  pymcboost/_kernels",
        "5  words in 1 pages",
        "2  pymcboost",
    ):
        assert f" {line}" in out
    assert "training -> comm 1, files 1\n" in out


def test_another_folder_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="has no folder pymcboost"):
        structure.main(["--tree", str(tmp_path)])
