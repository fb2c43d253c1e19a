"""Long trainings of tools/: steps, checkpoints, kill -9, and the second look at the first rounds.

A made-up estimator stands for the real ones: its state is a chain of hashes over the rounds, so that a round done
twice, left out or done on another state shows in its predictions.
"""

import hashlib
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from reproduce import abcboost, longrun
from shared import peers

TOOLS = Path(__file__).resolve().parents[1]


class Chain:
    """Warm-start estimator whose predictions depend on every round in turn; ``end`` rounds are all it can learn."""

    def __init__(self, end=10**9, pause=0.0):
        self.end, self.pause, self.n_estimators, self.n_estimators_, self.state = end, pause, 0, 0, b""

    def set_params(self, n_estimators):
        self.n_estimators = n_estimators
        return self

    def fit(self, X, y):
        assert self.n_estimators > self.n_estimators_
        while self.n_estimators_ < min(self.n_estimators, self.end):
            self.state = hashlib.sha256(self.state + X.tobytes()).digest()
            self.n_estimators_ += 1
            time.sleep(self.pause)
        return self

    def predict(self, X):
        generator = np.random.default_rng(list(self.state))
        return generator.integers(0, 3, 1000)[: len(X)]


X = np.zeros((12, 2), np.float32)
Y = np.arange(12) % 3
RUN = abcboost.LongRun(
    "made-up",
    "Made up: title",
    lambda: (X, Y, np.zeros((1000, 2), np.float32), np.arange(1000) % 3),
    60,
    (1, 10),
    {"mart": 660, "abc-mart": 650},
    100,
    within=0.03,
)


def options(folder, **more):
    words = {
        "results": folder / "results", "cache": folder / "cache", "fresh": False, "rounds": None, "methods": None,
        "gaps": None, "jobs": 1, "minutes": 15, "verify": 25, "tolerance": 0.0,
    }  # fmt: skip
    return SimpleNamespace(**{**words, **more})


def make(pause=0.0, end=10**9):
    # Every training starts from its own state.
    def new(run, method, gap, threads):
        chain = Chain(end, pause)
        chain.state = f"{method} {gap}".encode()
        return chain

    return new


@pytest.fixture(autouse=True)
def all_present(monkeypatch):
    monkeypatch.setattr(peers, "require", lambda method: None)
    monkeypatch.setattr(abcboost.LongRun, "plot", lambda *words: None)


def errors_of(folder):
    rows = RUN.journal(folder / "results").rows
    names = ("method", "gap", "rounds", "errors", "n_test", "ended")
    return [tuple(row[name] for name in names) for row in rows]


def test_grid():
    assert longrun.grid_up_to(60) == [10, 25, 50, 60]
    assert longrun.grid_up_to(100) == [10, 25, 50, 100]
    assert longrun.grid_up_to(7) == [7]


@pytest.mark.parametrize(
    ("done", "pace", "minutes", "expected"),
    [
        (0, None, 15, 5),  # a short first step shows the pace
        (10, 0.01, 15, 25),  # quick: to the next round of the grid
        (25, 60.0, 5, 30),  # slow: as many rounds as the minutes hold
        (25, 3600.0, 5, 26),  # one round at least
        (48, 60.0, 5, 50),  # never beyond the grid
        (100, 1.0, 5, None),
        (120, 1.0, 5, None),
    ],
)
def test_next_stop(done, pace, minutes, expected):
    assert longrun.next_stop(done, [10, 25, 50, 100], pace, minutes) == expected


def test_rows_are_those_of_plain_training(tmp_path, capsys):
    RUN.run(options(tmp_path), make())
    expected = []
    for method, gap in (("abc-mart", 1), ("abc-mart", 10), ("mart", 0)):
        for rounds in (10, 25, 50, 60):
            chain = make()(RUN, method, gap, 1).set_params(rounds).fit(X, Y)
            wrong = int(np.sum(chain.predict(np.empty(1000)) != np.arange(1000) % 3))
            expected.append((method, str(gap), str(rounds), str(wrong), "1000", "0"))
    assert errors_of(tmp_path) == expected
    printed = capsys.readouterr().out
    last = int(expected[-1][3])
    assert f"| mart | - | 660 | {int(expected[-2][3])} | {last} | {last} (60 rounds) |" in printed
    assert abcboost.within_words(last, 660, 0.03) in printed and "not there yet" not in printed
    assert "Order at 60 rounds, fewest errors first: " in printed


def test_finished_trainings_are_left_alone(tmp_path):
    RUN.run(options(tmp_path), make())
    before = errors_of(tmp_path)

    def never(*words):
        raise AssertionError("trained again")

    RUN.run(options(tmp_path), never)
    assert errors_of(tmp_path) == before


def test_more_rounds_continue(tmp_path, capsys):
    RUN.run(options(tmp_path, rounds=25, methods=["mart"]), make())
    RUN.run(options(tmp_path, rounds=60, methods=["mart"]), make())
    printed = capsys.readouterr()
    assert "mart goes on at 25 rounds" in printed.err and "not there yet" in printed.out
    RUN.run(options(tmp_path / "plain", methods=["mart"]), make())
    assert errors_of(tmp_path) == errors_of(tmp_path / "plain")


def test_a_training_that_ends_early(tmp_path):
    RUN.run(options(tmp_path, methods=["mart"]), make(end=31))
    assert [(row[2], row[5]) for row in errors_of(tmp_path)] == [("10", "0"), ("25", "0"), ("31", "1")]
    before = errors_of(tmp_path)
    RUN.run(options(tmp_path, methods=["mart"]), make(end=31))
    assert errors_of(tmp_path) == before


def test_killed_between_checkpoint_and_row(tmp_path):
    """The errors of the last checkpoint's round are written by the next process."""
    training = longrun.Training(
        lambda: make()(RUN, "mart", 0, 1),
        {"run": RUN.name, **RUN.setting("mart", 0), "n_train": 12},
        tmp_path / "cache" / "checkpoints" / "made-up-mart.pickle",
    )
    training.step(5, X, Y)
    training.step(10, X, Y)
    RUN.run(options(tmp_path, methods=["mart"]), make())
    RUN.run(options(tmp_path / "plain", methods=["mart"]), make())
    assert errors_of(tmp_path) == errors_of(tmp_path / "plain")


def test_checkpoints_of_another_training_are_not_used(tmp_path, capsys):
    path = tmp_path / "one.pickle"
    longrun.Training(Chain, {"run": 1}, path).step(10, X, Y)
    assert longrun.Training(Chain, {"run": 1}, path).rounds == 10
    assert longrun.Training(Chain, {"run": 2}, path).rounds == 0
    assert "of another training" in capsys.readouterr().err


def test_a_checkpoint_is_whole_or_absent(tmp_path, monkeypatch):
    """Killed while writing, the old checkpoint stays."""
    path = tmp_path / "one.pickle"
    longrun.write_checkpoint(path, {"identity": 1, "rounds": 10})

    def killed(value, file, protocol):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(pickle, "dump", killed)
    with pytest.raises(KeyboardInterrupt):
        longrun.write_checkpoint(path, {"identity": 1, "rounds": 20})
    assert longrun.read_checkpoint(path, 1)["rounds"] == 10


PROGRAM = """
import sys
sys.path[:0] = [{tools!r}, {here!r}]
import test_longrun as t
t.peers.require = lambda method: None
t.abcboost.LongRun.plot = lambda *words: None
from pathlib import Path
options = t.options(Path({folder!r}), minutes=0.001)
t.RUN.run(options, t.make(0.004))
"""


def test_kill_9(tmp_path):
    """Killed at random moments again and again, the rows come out as without a kill."""
    generator = random.Random(0)
    program = PROGRAM.format(tools=str(TOOLS), here=str(Path(__file__).parent), folder=str(tmp_path))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TOOLS.parent), os.environ.get("PYTHONPATH", "")])}
    kills = 0
    for _ in range(40):
        process = subprocess.Popen(
            [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            # Importing takes most of a short life: the clock starts with the first checkpoint or word.
            if kills < 4:
                process.stderr.readline()
                time.sleep(generator.uniform(0.0, 0.15))
                process.send_signal(signal.SIGKILL)
            _, errors = process.communicate(timeout=120)
        finally:
            process.kill()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, errors.decode()
        kills += 1
    assert process.returncode == 0 and kills >= 2
    RUN.run(options(tmp_path / "plain"), make())
    assert errors_of(tmp_path) == errors_of(tmp_path / "plain")


def test_verify(tmp_path, capsys):
    RUN.run(options(tmp_path), make())
    assert RUN.verify(options(tmp_path), make()) == 0
    assert "made-up: 6 compared, 0 differ" in capsys.readouterr().out
    path = tmp_path / "results" / "made-up.csv"
    kept = path.read_text()
    cells = kept.splitlines()[1].split(",")
    place = abcboost.KEY.index("rounds") + 1
    cells[place] = str(int(cells[place]) + 3)
    path.write_text(kept.replace(kept.splitlines()[1], ",".join(cells)))
    changed = path.read_bytes()
    assert RUN.verify(options(tmp_path), make()) == 1
    assert "DIFFERS" in capsys.readouterr().out
    assert RUN.verify(options(tmp_path, tolerance=1.0), make()) == 0
    assert path.read_bytes() == changed


def test_nothing_to_verify_is_a_failure(tmp_path):
    assert RUN.verify(options(tmp_path), make()) == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("ours", "words"), [(2102, "yes (+0.0%)"), (2165, "yes (+3.0%)"), (2166, "NO (+3.0%)"), (2000, "better (-4.9%)")]
)
def test_within(ours, words):
    assert abcboost.within_words(ours, 2102, 0.03) == words


@pytest.mark.parametrize("method", peers.OURS)
def test_our_estimators_continue_to_the_same_bytes(tmp_path, method):
    """What makes a checkpoint worth keeping: with stops and without, the same model file."""
    generator = np.random.default_rng(0)
    data = generator.standard_normal((300, 4)).astype(np.float32)
    codes = (data[:, 0] > 0) + (data[:, 1] > 0.5).astype(int)
    run = abcboost.LONG["mnist10k"]
    gap = 3 if method.startswith("abc-") else 0
    files = []
    for stops in ((2, 4, 9), (9,)):
        for stop in stops:
            new = lambda: abcboost.new_estimator(run, method, gap, 1)  # noqa: E731
            training = longrun.Training(new, {"stops": len(stops)}, tmp_path / f"{len(stops)}.pickle")
            training.step(stop, data, codes)
        training.estimator.save(tmp_path / "model.mcb")
        files.append((tmp_path / "model.mcb").read_bytes())
    assert training.rounds == 9 and files[0] == files[1]


def test_lightgbm_continues(tmp_path):
    pytest.importorskip("lightgbm")
    generator = np.random.default_rng(0)
    data = generator.standard_normal((300, 4)).astype(np.float32)
    codes = (data[:, 0] > 0) + (data[:, 1] > 0.5).astype(int)
    spec = peers.Spec("lightgbm", leaves=5)
    stopped = peers.ResumableLightGBM(spec)
    for rounds in (3, 5, 8):
        stopped = pickle.loads(pickle.dumps(stopped)).set_params(rounds).fit(data, codes)
        assert stopped.n_estimators_ == rounds
    plain = peers.ResumableLightGBM(spec).set_params(8).fit(data, codes)
    np.testing.assert_allclose(
        stopped.booster.predict(data, raw_score=True), plain.booster.predict(data, raw_score=True), atol=1e-6
    )
