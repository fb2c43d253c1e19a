"""What ``--verify`` compares."""

import types

import pytest
from reproduce.experiment import Experiment, Results


def fit(unit):
    """A fit that finds the same again, but for its time."""
    fit.seconds += 1.0
    return {
        **unit,
        "error": 5.0,
        "log_loss": fit.log_loss,
        "curve": "1 2",
        "cpu": fit.seconds,
        "seconds": fit.seconds,
    }


def options(folder, tolerance=0.0):
    return types.SimpleNamespace(
        results=folder,
        fresh=False,
        budget=None,
        jobs=1,
        methods=None,
        sets=None,
        verify=25,
        tolerance=tolerance,
    )


@pytest.fixture
def made_up(tmp_path):
    """An experiment with two rows."""
    fit.seconds = 0.0
    fit.log_loss = 0.25
    results = Results("made-up", "seed", "error log_loss curve cpu", fit=fit, as_text="curve")
    text = lambda frame: ""  # noqa: E731
    one = Experiment(
        "made-up",
        "Made up",
        (results,),
        plan=lambda *_: [(0, [{"seed": 0}, {"seed": 1}], "")],
        text=text,
    )
    journal = results.journal(tmp_path)
    for seed in range(2):
        journal.add(fit({"seed": seed}))
    return one


def test_all_that_was_found_is_compared_but_times(made_up, tmp_path, capsys):
    assert made_up.verify(options(tmp_path)) == 0
    assert "made-up: 0: error 5.0, log_loss 0.25, curve 1 2\n" in capsys.readouterr().out


@pytest.mark.parametrize(("now", "tolerance", "differ"), [
    (0.2501, 0.0, 2), (0.2501, 1.0, 0), (0.3, 1.0, 2), (float("nan"), 1.0, 2), (None, 1.0, 2),
])  # fmt: skip
def test_a_log_loss_that_differs_is_seen(now, tolerance, differ, made_up, tmp_path, capsys):
    fit.log_loss = now
    assert made_up.verify(options(tmp_path, tolerance)) == differ
    assert (
        f"log_loss 0.25 now {now} ({'DIFFERS' if differ else 'close'})" in capsys.readouterr().out
    )


def test_texts_are_compared_as_they_are(made_up, tmp_path):
    path = tmp_path / "made-up.csv"
    path.write_text(path.read_text().replace("1 2", "1 3"))
    assert made_up.verify(options(tmp_path)) == 2
