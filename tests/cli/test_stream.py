"""mcboost-predict --stream: rows are answered one by one, with the bytes of a whole file's answers."""

import gzip
import os
import select
import shlex
import signal
import subprocess

import numpy as np
import pytest
from cli.programs import call, command, environment, run, start, write_svm
from reference.scoring import random_kernel, random_linear

from pymcboost import MCBoostClassifier, Model, load_svmlight


@pytest.mark.parametrize("options", [[], ["-d", 1], ["-b", 1], ["-d", 1, "--rounds", 3]])
def test_same_lines_as_of_a_file(files, tmp_path, options):
    arguments = [*options, files / "test.svm", files / "model.mcb", "-"]
    whole = call("predict", *arguments)
    one_by_one = call("predict", "--stream", *arguments)
    assert (one_by_one.returncode, one_by_one.stdout) == (0, whole.stdout)
    assert one_by_one.stderr == whole.stderr
    completed = run(
        "predict",
        "--stream",
        *options,
        "-",
        *arguments[-2:],
        stdin=(files / "test.svm").read_text(),
    )
    assert (completed.stdout, completed.stderr) == (whole.stdout, whole.stderr)


@pytest.mark.parametrize("option", ["", "-b 1"])
def test_every_row_is_answered_before_the_next_one_comes(files, option, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    lines = (files / "test.svm").read_text().splitlines()[:12]
    expected = iter(
        call(
            "predict", *option.split(), files / "test.svm", files / "model.mcb", "-"
        ).stdout.splitlines()
    )
    process = start("predict", "--stream", *option.split(), "-", files / "model.mcb", "-")
    if option:
        assert process.stdout.readline().rstrip() == next(expected), "the first line needs no row"
    for line in lines:
        print(line, file=process.stdin, flush=True)
        assert select.select([process.stdout], [], [], 30)[0], "no answer yet"
        assert process.stdout.readline().rstrip() == next(expected)
    process.stdin.close()
    assert process.wait(60) == 0


def test_rows_that_are_none_and_ends_of_lines(files, tmp_path):
    text = b"\xef\xbb\xbf2 1:1\r\n\n# nothing\n 2:3 9:1 # no label, too wide\n99 1:2\n2 3:1"
    (tmp_path / "t.svm").write_bytes(text)
    whole = call("predict", "t.svm", files / "model.mcb", "-", cwd=tmp_path)
    completed = call("predict", "--stream", "t.svm", files / "model.mcb", "-", cwd=tmp_path)
    assert (completed.returncode, completed.stdout) == (0, whole.stdout)
    assert len(completed.stdout.splitlines()) == 4
    for said in (
        "t.svm: ignoring features beyond the 5 of the model (line 4)",
        "1 of 4 rows has no label",
        "1 of 3 rows has a label that the model does not know (99); they count as errors",
        "Accuracy = ",
    ):
        assert said in completed.stderr
    assert completed.stderr.splitlines()[1:] == whole.stderr.splitlines()[-3:]
    (tmp_path / "t.svm.gz").write_bytes(gzip.compress(text))
    packed = call("predict", "--stream", "t.svm.gz", files / "model.mcb", "-", cwd=tmp_path)
    assert packed.stdout == completed.stdout


def test_a_bad_line_ends_it_after_the_answers_before(files, tmp_path):
    (tmp_path / "t.svm").write_text("2 1:1\n\n2 1:2\n2 2:1 1:1\n2 1:3\n")
    completed = call("predict", "--stream", "t.svm", files / "model.mcb", "-", cwd=tmp_path)
    assert (completed.returncode, len(completed.stdout.splitlines())) == (2, 2)
    assert completed.stderr.startswith(
        "mcboost-predict: error: t.svm:4:7: feature index 1 follows 2"
    )
    (tmp_path / "t.svm").write_text("2 0:1\n")
    completed = call("predict", "--stream", "t.svm", files / "model.mcb", "-", cwd=tmp_path)
    assert (
        "t.svm:1:3: feature index 0 in a one-based file; use --base 0 or --base auto"
        in completed.stderr
    )
    assert (
        call(
            "predict", "--stream", "--base", 0, "t.svm", files / "model.mcb", "-", cwd=tmp_path
        ).returncode
        == 0
    )
    (tmp_path / "t.svm.gz").write_bytes(gzip.compress(b"2 1:1\n" * 99)[:-9])
    completed = call("predict", "--stream", "t.svm.gz", files / "model.mcb", "-", cwd=tmp_path)
    assert (completed.returncode, "the archive is truncated or damaged" in completed.stderr) == (
        2,
        True,
    )


def test_long_lines_and_wide_models(tmp_path):
    X = np.zeros((300, 9000), np.float32)
    X[np.arange(300), np.arange(300) % 50] = np.arange(300) % 7 - 3.0
    X[7] = np.arange(9000)
    write_svm(tmp_path / "t.svm", X, np.arange(300) % 2)
    assert call("train", "-q", "-n", 10, "t.svm", cwd=tmp_path).returncode == 0
    arguments = ["-d", 1, "t.svm", "t.svm.mcb", "-"]
    whole, done = (call("predict", *more, *arguments, cwd=tmp_path) for more in ([], ["--stream"]))
    assert (done.stdout, done.stderr) == (whole.stdout, whole.stderr)


@pytest.mark.parametrize("kind", ["linear", "kernel"])
def test_machines(files, tmp_path, kind):
    machine = (
        random_linear(5, 3)
        if kind == "linear"
        else random_kernel(30, 5, 3, kernel="rbf", scaled=True)
    )
    Model.from_ensemble(machine, [-1, 2, 7]).save(tmp_path / "m.mcb")
    arguments = ["-d", 1, files / "test.svm", "m.mcb", "-"]
    whole, done = (call("predict", *more, *arguments, cwd=tmp_path) for more in ([], ["--stream"]))
    assert done.stdout == whole.stdout
    (tmp_path / "t.svm").write_text("2 1:1\n\n2 1:nan\n")
    done = call("predict", "--stream", "t.svm", "m.mcb", "-", cwd=tmp_path)
    assert (done.returncode, "error: t.svm:3: the row contains nan" in done.stderr) == (2, True)


def test_names_of_classes_and_zero_based_models(files, tmp_path, blobs):
    X, y = blobs
    names = np.array(["sea bass", "2", "trout"])[np.searchsorted([-1, 2, 7], y)]
    model = MCBoostClassifier(n_estimators=9).fit(X, names).model_
    model.with_meta({"index_base": 0}).save(tmp_path / "fish.mcb")
    write_svm(tmp_path / "t.svm", X[:20], y[:20], base=0)
    arguments = ["-b", 1, "t.svm", "fish.mcb", "-"]
    whole, done = (call("predict", *more, *arguments, cwd=tmp_path) for more in ([], ["--stream"]))
    assert (done.stdout, done.returncode) == (whole.stdout, 0)
    assert done.stderr.splitlines()[-2:] == whole.stderr.splitlines()[-2:]
    assert load_svmlight(tmp_path / "t.svm").base == 0


def test_a_file_is_whole_or_not_there(files, tmp_path):
    (tmp_path / "bad.svm").write_text("2 1:1\nx\n")
    assert (
        call("predict", "--stream", "bad.svm", files / "model.mcb", "out", cwd=tmp_path).returncode
        == 2
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.svm"]
    assert (
        call(
            "predict", "--stream", files / "test.svm", files / "model.mcb", "out", cwd=tmp_path
        ).returncode
        == 0
    )
    expected = call("predict", files / "test.svm", files / "model.mcb", "-").stdout
    assert (tmp_path / "out").read_text() == expected


def test_reader_that_goes_away_and_ctrl_c(files):
    program = shlex.join([*command("predict"), "--stream", "-", str(files / "model.mcb"), "-"])
    line = f"yes '2 1:1' | {program} | head -1; echo ${{PIPESTATUS[1]}}"
    completed = subprocess.run(
        ["bash", "-c", line], env=environment(), capture_output=True, text=True, timeout=60
    )
    assert (completed.stdout.splitlines()[1:], completed.stderr) == (["141"], "")
    process = start("predict", "--stream", "-", files / "model.mcb", "-")
    print("2 1:1", file=process.stdin, flush=True)
    process.stdout.readline()
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(60) == 130
