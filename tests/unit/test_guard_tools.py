"""The golden table notices what it is there for: a changed byte, threads and workers that do not agree."""

import dataclasses
import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from divided import threads

import pymcboost
from pymcboost.comm import Alone

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
golden = pytest.importorskip("golden")
golden_cases = pytest.importorskip("golden_cases")
other_tree = pytest.importorskip("other_tree")

NAME = "vector-tree/softmax-diagonal/iris"


class Altered:
    """A model with one leaf, or one score, changed by its last bit."""

    def __init__(self, model, leaf=False, score=False):
        self.model, self.leaf, self.score = model, leaf, score

    def to_bytes(self):
        file = bytearray(self.model.to_bytes())
        table = next(at for at in range(64, len(file), 32) if file[at : at + 4] == b"LEAF")
        file[int.from_bytes(file[table + 8 : table + 16], "little")] ^= self.leaf
        return bytes(file)

    def raw_scores(self, X):
        scores = self.model.raw_scores(X)
        scores.view("i8")[0, 0] ^= self.score
        return scores


of_tree = functools.cache(golden.environment)


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A table of one training of this tree, in this environment, for which the kernels are read once."""
    monkeypatch.setattr(golden, "environment", lambda tree: dict(of_tree(tree)))
    table = {
        "environment": golden.environment(other_tree.ROOT),
        "trainings": {NAME: f"{' '.join(golden_cases.run(NAME))} {'0' * 40}"},
    }
    monkeypatch.setattr(golden, "TABLE", tmp_path / "trainings.json")
    golden.TABLE.write_text(json.dumps(table))
    return table


def test_one_bit_is_noticed(recorded, monkeypatch, capsys):
    assert golden.main(["check", "--only", NAME]) == 0
    fit_as = golden_cases.fit_as
    for changed, what in (("leaf", "sections"), ("score", "scores")):

        def altered(*arguments, changed=changed, **named):
            estimator = fit_as(*arguments, **named)
            estimator.model_ = Altered(estimator.model_, **{changed: True})
            return estimator

        capsys.readouterr()
        monkeypatch.setattr(golden_cases, "fit_as", altered)
        assert golden.main(["check", "--only", NAME]) == 1
        assert f"{NAME}: {what}:" in capsys.readouterr().out


def test_threads_that_do_not_agree(monkeypatch):
    name = "samme/stump/threads"
    assert len(golden_cases.run(name)) == 2
    fit_as = golden_cases.fit_as

    def altered(condition, cls, params, X, y):
        return fit_as(condition, cls, {**params, "n_estimators": 9 - params["n_jobs"]}, X, y)

    monkeypatch.setattr(golden_cases, "fit_as", altered)
    assert golden_cases.run(name)[0] == "threads (1, 2, 3) do not agree:"


def test_workers_that_do_not_agree(monkeypatch):
    """What the first worker makes of its own rows is not the model of all rows."""
    name = "mart/default/workers-2"
    assert len(golden_cases.run(name)) == 2
    monkeypatch.setattr(threads, "run", lambda size, task: [task(Alone())])
    with pytest.raises(AssertionError, match="1 and 2 workers do not give one model"):
        golden_cases.run(name)


def test_meta_is_no_part_of_the_bytes():
    X, y, _ = golden_cases.read("iris")
    cls = golden_cases.estimators()["mart"]
    one, other = (
        cls(n_estimators=2, n_iter_no_change=n, random_state=0).fit(X, y).model_.to_bytes()
        for n in (5, 6)
    )
    assert one != other and golden_cases.sections(one) == golden_cases.sections(other)


def test_complete_rows_do_not_ask_for_the_side_of_missing_values():
    X, y, other = golden_cases.data_of("nan", holes=True)
    model = golden_cases.estimators()["logitboost"](n_estimators=3, random_state=0).fit(X, y).model_
    ensemble = model.ensemble
    models = [
        pymcboost.Model.from_ensemble(dataclasses.replace(ensemble, **changed), model.classes_)
        for changed in ({}, {"nan_left": ~ensemble.nan_left}, {"threshold": ensemble.threshold + 1})
    ]
    whole, complete = (
        [golden_cases.fingerprint(one, X, other, sides=sides) for one in models]
        for sides in (True, False)
    )
    for part in range(2):
        assert len({pair[part] for pair in whole}) == 3
        assert complete[0][part] == complete[1][part] != complete[2][part]


def test_failures_and_absent_trainings(recorded, monkeypatch, capsys):
    def fails(*arguments):
        raise ValueError("no data")

    monkeypatch.setattr(golden_cases, "fit_as", fails)
    assert golden.main(["check", "--only", NAME]) == 1
    assert f"{NAME}: failure:" in capsys.readouterr().out
    assert golden.main(["check", "--only", "samme/stump/wine"]) == 1
    assert "not in the table" in capsys.readouterr().out


def test_table_has_every_training():
    table = json.loads(golden.TABLE.read_text())
    assert sorted(table["trainings"]) == sorted(golden_cases.trainings())
    assert {name.split("/")[0] for name in golden_cases.trainings(subset=True)} == set(
        golden_cases.estimators()
    )


@pytest.mark.slow
def test_every_training_has_its_bytes():
    completed = subprocess.run(
        [sys.executable, golden.__file__, "check"], capture_output=True, text=True
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
