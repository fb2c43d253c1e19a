"""tools/aarch64.py without an emulator: what it says, and that the tests it lists are there."""

import sys

import aarch64
import pytest


@pytest.mark.parametrize("missing", [aarch64.EMULATOR, aarch64.COMPILER])
def test_without_its_tools_it_can_do_nothing(missing, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["aarch64.py", "--part"])
    monkeypatch.setattr(aarch64.shutil, "which", lambda name: None if name == missing else name)
    monkeypatch.setattr(aarch64, "system", lambda: pytest.fail("it began"))
    with pytest.raises(SystemExit) as stop:
        aarch64.main()
    assert stop.value.code == aarch64.IMPOSSIBLE
    assert f"there is no {missing}; Debian, Ubuntu: sudo apt-get install" in capsys.readouterr().err


def test_the_tests_that_it_lists_are_there():
    assert all(
        (aarch64.ROOT / name.partition("::")[0]).exists()
        for name in (*aarch64.PART, *aarch64.TESTS)
    )
