"""Models that go into standard output, pipes and FIFOs, and what is done where these fail."""

import os
import re
import shlex
import signal
import subprocess

import pytest
from cli.programs import call, command, environment, start, until_it_waits
from cli.test_files import ROUNDS, Case, is_new

from pymcboost import load_model


@pytest.mark.parametrize(
    "path", ["-", "/dev/stdout", pytest.param("/dev/fd/1", marks=pytest.mark.slow), "/dev/fd/3"]
)
def test_models_on_standard_output(tmp_path, files, path):
    """The same bytes as in a file, from rows in a file or on standard input, and nothing else."""
    work = Case(tmp_path, files).work
    assert call("train", "-n", 4, "train.svm", "m.mcb", cwd=work).returncode == 0
    for training, feed in (("train.svm", ""), *[("-", "< train.svm")] * (path == "-")):
        line = f"{shlex.join(command('train'))} -n 4 {training} {path} 3>&1 {feed}"
        completed = subprocess.run(
            ["sh", "-c", line], cwd=work, capture_output=True, env=environment()
        )
        assert completed.returncode == 0, completed.stderr
        assert completed.stdout == (work / "m.mcb").read_bytes()
        size = (work / "m.mcb").stat().st_size
        shown = "<stdout>" if path != "/dev/fd/3" else path
        assert f"{shown}: {size:,} bytes (list)\n" in completed.stderr.decode()
    assert {entry.name for entry in work.iterdir()} == {
        "train.svm",
        "test.svm",
        "known.mcb",
        "m.mcb",
    }


def test_a_table_goes_to_standard_output_as_well(tmp_path, files):
    work = Case(tmp_path, files).work
    options = ["-n", "4", "--layout", "interval", "train.svm"]
    assert call("train", *options, "m.mcb", cwd=work).returncode == 0
    line = [*command("train"), *options, "-"]
    completed = subprocess.run(line, cwd=work, capture_output=True, env=environment())
    assert completed.stdout == (work / "m.mcb").read_bytes()


@pytest.mark.parametrize("path", ["-", "/dev/stdout"])
def test_a_model_whose_reader_has_gone_is_saved(tmp_path, files, path):
    case = Case(tmp_path, files)
    reader, writer = os.pipe()
    os.close(reader)
    completed = subprocess.run(
        [
            *command("train"),
            "-a",
            "mart",
            "-n",
            str(ROUNDS),
            "--min-samples-leaf",
            "1",
            "train.svm",
            path,
        ],
        cwd=case.work,
        env=environment(),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    assert completed.returncode == 4
    (name,) = case.new()
    assert re.fullmatch(r"train-[0-9a-f]{8}\.mcb", name)
    assert (
        f"error: {path}: Broken pipe; the model was saved as {case.work / name} instead\n"
        in completed.stderr
    )
    case.real = case.work / name
    assert is_new(case, "`mcboost-train`")


def test_ctrl_c_at_a_fifo_without_a_reader_saves_the_model(tmp_path, files):
    case = Case(tmp_path, files)
    os.mkfifo(case.path)
    process = start("train", "-n", "4", "train.svm", case.path, cwd=case.work)
    assert "180 rows" in process.stderr.readline()
    until_it_waits(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 4
    (name,) = case.new()
    assert f"the model was saved as {case.work / name} instead\n" in err
    assert load_model(case.work / name).n_rounds == 4


def test_streams_that_no_model_goes_to_are_refused_before_the_rows(tmp_path, files):
    work = Case(tmp_path, files).work
    master, terminal = os.openpty()
    line = [*command("train"), "train.svm", "-"]
    completed = subprocess.run(
        line, cwd=work, env=environment(), stdout=terminal, stderr=subprocess.PIPE, text=True
    )
    os.close(master), os.close(terminal)
    assert (completed.returncode, "rows, " in completed.stderr) == (1, False)
    assert "- is a terminal; name a file" in completed.stderr
    for more, words in (
        (">&-", "-: is closed, so the model file would be lost"),
        ("/dev/fd/77", "Bad file"),
    ):
        line = shlex.join([*command("train"), "train.svm"]) + (
            " /dev/fd/77" if "77" in more else f" - {more}"
        )
        completed = subprocess.run(
            ["sh", "-c", line], cwd=work, env=environment(), capture_output=True, text=True
        )
        assert (completed.returncode, words in completed.stderr, "rows, " in completed.stderr) == (
            4,
            True,
            False,
        ), completed.stderr
