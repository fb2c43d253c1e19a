"""The stops of X through fit: docs/how.md lists the functions that receive the rows, and a real fit has the same ones.

After a change of the way, write the list again::

    PYTHONPATH=.:tests python tests/contract/test_stops.py
"""

import re
import sys
from functools import cache
from pathlib import Path

import numpy as np

import pymcboost
from pymcboost import VectorTreeBoostClassifier

PACKAGE = Path(pymcboost.__file__).parent
PAGE = PACKAGE.parent / "docs" / "how.md"
LIST = re.compile(r"(?<=<!-- stops of X -->\n\n)```text\n.*?```\n", re.DOTALL)
# No other array of a training has these numbers of rows and columns.
SHAPE = 211, 13


class StopTracing:
    """A callback: the first round is done, and with it the first histogram."""

    def after_round(self, state):
        sys.setprofile(None)
        return True


def holds_rows(value):
    """Whether an argument is X or a copy of it, not only codes of its values; also among several arguments."""
    if isinstance(value, tuple):
        return any(map(holds_rows, value))
    return isinstance(value, np.ndarray) and value.shape == SHAPE and value.dtype.kind == "f"


@cache
def stops():
    """Functions of the package that receive X, each once, in the order of their first calls: (how deep, name).

    A function is one deeper than the one with X that called it, directly or not.
    """
    depths = {}
    open_calls = []

    def note(frame, event, _):
        if event == "return" and open_calls and open_calls[-1][0] is frame:
            open_calls.pop()
        if event != "call":
            return
        code = frame.f_code
        path = Path(code.co_filename)
        # At the time of a call, the arguments are the only local variables.
        is_stop = (
            PACKAGE in path.parents
            and not code.co_name.startswith("<")
            and any(map(holds_rows, frame.f_locals.values()))
        )
        if is_stop:
            name = f"{path.relative_to(PACKAGE).as_posix()}: {code.co_qualname}"
            depths.setdefault(name, sum(holds for _, holds in open_calls))
        open_calls.append((frame, is_stop))

    random = np.random.default_rng(0)
    X = random.normal(size=SHAPE)
    y = random.integers(0, 3, SHAPE[0])
    sys.setprofile(note)
    try:
        VectorTreeBoostClassifier(random_state=0).fit(X, y, callbacks=[StopTracing()])
    finally:
        sys.setprofile(None)
    return [(depth, name) for name, depth in depths.items()]


def text():
    lines = [f"{2 * depth * ' '}{name}" for depth, name in stops()]
    return "\n".join(["```text", *lines, "```\n"])


def test_the_page_lists_the_stops():
    assert LIST.search(PAGE.read_text(encoding="utf-8"))[0] == text(), (
        "the top of this file says how to rewrite it"
    )


def test_the_way_to_the_layout_is_short():
    """Down six functions, as the page says, each called by the one before, from `fit` to the layout of the codes."""
    way = []
    for depth, name in stops():
        way[depth:] = [name]
        if name == "data/tree_data.py: TreeData.__init__":
            break
    assert way[0] == "training/estimator.py: EnsembleClassifier.fit"
    assert way[-1] == "data/tree_data.py: TreeData.__init__" and len(way) == 6


def test_a_stop_has_rows():
    X = np.zeros(SHAPE, dtype=np.float32)
    assert holds_rows(X) and holds_rows((None, X))
    assert not holds_rows(X.T) and not holds_rows(X.astype(np.uint8)) and not holds_rows([0, 1])


if __name__ == "__main__":
    PAGE.write_text(LIST.sub(lambda _: text(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
