"""mcboost-tune: its results are those of mcboost-train -v, and a search that was stopped goes on."""

import csv
import importlib.util
import re
import shlex
import shutil
import signal
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from cli.programs import call, run, start

from pymcboost.cli.picture import draw
from pymcboost.cli.space import Choices, Range, draws, grid, several
from pymcboost.cli.tune import main, read_arguments
from pymcboost.model.model import load_model

GRID = ["-q", "-p", 1, "-n", "3,6", "-r", "0.2,1", "-v", 3]


@pytest.fixture
def folder(files, tmp_path):
    shutil.copy(files / "train.svm", tmp_path)
    return tmp_path


def rows(path):
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


def table(text):
    """The printed combinations: error, log loss, and their options."""
    found = []
    for line in text.splitlines():
        if re.match(r" +[0-9]", line):
            words = line.split()
            found.append((words[0], words[1], words[2], words[3], " ".join(words[6:])))
    return found


def test_categories_are_those_of_a_table(tmp_path):
    colours = [("red", "green", "blue")[i % 3] for i in range(120)]
    lines = [f"{i * 7 % 3 != 1:d},{colour},{i % 5}" for i, colour in enumerate(colours)]
    (tmp_path / "t.csv").write_text("kind,colour,size\n" + "\n".join(lines) + "\n")
    options = ["-a", "vector-tree", "-n", 4, "--categorical-features", "colour,size", "-v", 3]
    done = call("tune", "-q", "-p", 1, "-r", "0.2,1", *options, "t.csv", "j.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    best = done.stdout.splitlines()[-1]
    assert "--categorical-features colour,size" in best
    printed = call("train", "-q", "-r", "1.0", *options, "t.csv", cwd=tmp_path).stdout
    error = next(row[0] for row in table(done.stdout) if row[-1] == "--learning-rate 1.0")
    accuracy = float(re.search(r"Cross Validation Accuracy = ([\d.]+)%", printed)[1])
    assert accuracy == pytest.approx(100 - 100 * float(error), abs=0.01)
    assert call("train", *shlex.split(best)[2:], "m.mcb", cwd=tmp_path).returncode == 0
    assert load_model(tmp_path / "m.mcb").categories.names == (["blue", "green", "red"], ["0", "1", "2", "3", "4"])


def test_results_are_those_of_cross_validation_best_first(folder):
    done = call("tune", *GRID, "train.svm", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    found = table(done.stdout)
    assert {row[-1] for row in found} == {
        f"--n-estimators {n} --learning-rate {r}" for n in (3, 6) for r in (0.2, 1.0)
    }
    assert [float(row[0]) for row in found] == sorted(float(row[0]) for row in found)
    for error, spread, loss, loss_spread, options in found:
        printed = call("train", "-q", "-v", 3, *options.split(), "train.svm", cwd=folder).stdout.splitlines()
        percent, more = (float(part.rstrip("%")) for part in re.findall(r"[\d.]+%", printed[1]))
        assert (float(error), float(spread)) == pytest.approx((percent / 100, more / 100), rel=1e-2)
        assert printed[2].startswith(f"Cross Validation Log Loss = {float(loss):.4g} +- {float(loss_spread):.3g}")
    best = done.stdout.splitlines()[-1]
    assert best == f"Best: mcboost-train -a mcboost {found[0][-1]} train.svm"
    assert call(*shlex.split(best)[1].split("-")[1:], "-q", *shlex.split(best)[2:], cwd=folder).returncode == 0
    assert [path.name for path in folder.glob("*.csv")] == ["train.svm.tune.csv"]
    assert len(rows(folder / "train.svm.tune.csv")) == 12


def test_best_by_log_loss(folder):
    done = call("tune", *GRID, "--best-by", "log_loss", "train.svm", cwd=folder)
    losses = [float(row[2]) for row in table(done.stdout)]
    assert losses == sorted(losses) and len(set(losses)) == 4
    hinge = ["-q", "-p", 1, "-a", "hingeboost", "-c", "1,2", "train.svm", "j.csv"]
    for before in (False, True):  # a journal of all models
        assert not before or call("tune", *hinge, cwd=folder).returncode == 0
        done = call("tune", *hinge, "--best-by", "log_loss", cwd=folder)
        assert done.returncode == 2 and "no log loss; --calibrate temperature" in done.stderr


def test_libsvms_c_follows_the_rows_of_each_fold(folder):
    done = call("tune", "-q", "-p", 1, "-a", "hingeboost", "--libsvm-c", "0.01,1", "-v", 3, "train.svm", cwd=folder)
    for error, _, _, _, options in table(done.stdout):
        printed = call("train", "-q", "-v", 3, "-a", "hingeboost", *options.split(), "train.svm", cwd=folder).stdout
        assert float(error) == pytest.approx(float(re.findall(r"Error = ([\d.]+)%", printed)[0]) / 100, rel=1e-2)


def test_class_weights_early_stopping_and_names_of_columns(files, folder):
    lines = ["kind,a,b,c,d,e"]
    for line in (files / "train.svm").read_text().splitlines():
        label, *pairs = line.split()
        values = dict(pair.split(":") for pair in pairs)
        lines.append(",".join([f"c{label}", *(values.get(str(j), "0") for j in range(1, 6))]))
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    text = call("tune", "-q", "-p", 1, "-n", 5, "-r", "0.1,1", "--label", "kind", "-v", 3, "t.csv", cwd=folder)
    assert "--label kind --learning-rate" in text.stdout.splitlines()[-1]
    arguments = ["-n", 20, "-v", 3, "-E", 2, "-w1", 2.123456789, "-w2", 3]
    weighed = call("tune", "-q", "-p", 1, *arguments, "-r", "0.1,1", "train.svm", cwd=folder)
    assert weighed.returncode == 0, weighed.stderr
    error, *_, options = table(weighed.stdout)[0]
    assert "--n-iter-no-change 2 -w1 2.123456789 -w2 3 --learning-rate" in weighed.stdout.splitlines()[-1]
    printed = call("train", "-q", *arguments, *options.split(), "train.svm", cwd=folder).stdout
    assert float(error) == pytest.approx(float(re.findall(r"Error = ([\d.]+)%", printed)[0]) / 100, rel=1e-2)


def test_a_search_that_was_stopped_goes_on(folder):
    whole = call("tune", *GRID, "train.svm", "whole.csv", cwd=folder)
    lines = (folder / "whole.csv").read_text().splitlines(keepends=True)
    part = folder / "part.csv"
    part.write_text("".join(lines[:6]) + lines[6][:20])
    marked = part.read_text().replace(lines[3], re.sub(r"[\d.]+\n", "77.5\n", lines[3]))
    part.write_text(marked)
    done = call("tune", *[word for word in GRID if word != "-q"], "train.svm", "part.csv", cwd=folder)
    assert "7 of 12 models to train" in done.stderr
    assert [row[:-1] for row in table(done.stdout)] == [row[:-1] for row in table(whole.stdout)]
    assert len(rows(part)) == 12 and sum(row["seconds"] == "77.5" for row in rows(part)) == 1
    before = part.read_bytes()
    again = call("tune", *GRID, "train.svm", "part.csv", cwd=folder)
    assert again.stdout == done.stdout and part.read_bytes() == before
    more = call("tune", "-p", 1, "-n", "3,6,9", "-r", "0.2,1", "-v", 3, "train.svm", "part.csv", cwd=folder)
    assert "6 of 18 models to train" in more.stderr


def test_ctrl_c_keeps_the_journal(folder):
    process = start("tune", "-p", 2, "-n", "60000,60001", "-v", 3, "--random-state", 1, "train.svm", cwd=folder)
    assert "180 rows" in process.stderr.readline() and "0 of" not in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-2:] == [
        "mcboost-tune: the same command goes on from train.svm.tune.csv",
        "mcboost-tune: interrupted",
    ]


def test_a_search_that_ends_early_says_why_alone(folder):
    options = ["-q", "-p", 2, "-a", "hingeboost", "-c", "1,2,3,4", "--best-by", "log_loss"]
    done = run("tune", *options, "train.svm", cwd=folder)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "no log loss; --calibrate temperature" in line


def test_processes_side_by_side_give_the_same(folder):
    alone = call("tune", *GRID, "train.svm", "alone.csv", cwd=folder)
    several = run("tune", *GRID, "-p", 2, "train.svm", "several.csv", cwd=folder)
    assert several.returncode == 0, several.stderr
    results = [[{**row, "seconds": 0} for row in rows(folder / name)] for name in ("alone.csv", "several.csv")]
    assert results[0] == results[1]
    assert alone.stdout.splitlines()[-1] == several.stdout.splitlines()[-1]


def test_the_journal_of_another_search_is_refused_and_kept(folder):
    call("tune", *GRID, "train.svm", "j.csv", cwd=folder)
    before = (folder / "j.csv").read_bytes()
    shutil.copy(folder / "train.svm", folder / "other.svm")
    with open(folder / "other.svm", "a") as stream:
        stream.write("2 1:0.5\n")
    for arguments, status, message in (
        ([*GRID, "other.svm", "j.csv"], 2, "j.csv:2: this line is of another search, '-a mcboost -v 3 (180 x 5, "),
        ([*GRID, "-v", 4, "train.svm", "j.csv"], 2, "this line is of another search"),
        ([*GRID, "-w2", 3, "train.svm", "j.csv"], 2, "this line is of another search"),
        ([*GRID, "-S", 3, "train.svm", "j.csv"], 2, "this line is of another search"),
        (["-n", "3,6", "train.svm", "j.csv"], 1, "journal j.csv is of a search over --n-estimators --learning-rate"),
        ([*GRID, "other.svm", "train.svm"], 1, "journal train.svm exists and is none"),
    ):
        done = call("tune", *arguments, cwd=folder)
        assert done.returncode == status and message in done.stderr, done.stderr
    assert (folder / "j.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t.svm", "nothing to search: give an option several values"),
        ("-r 0.1 t.svm", "nothing to search"),
        ("-r 0.1,2 t.svm", "argument -r/--learning-rate: '2' is not a number > 0 and <= 1"),
        ("-r 0.1,,0.2 t.svm", "argument -r/--learning-rate: '' is not a number"),
        ("-r 0.1:0.5 t.svm", "--learning-rate has a range, from which --random n draws"),
        ("-r 0.5:0.1 --random 3 t", "argument -r/--learning-rate: '0.5:0.1': the low end of a range must be below"),
        ("-r 0.1:0.5:ln t", "argument -r/--learning-rate: '0.1:0.5:ln': a range is low:high or low:high:log"),
        ("--nu 0:1:log --random 3 t", "argument --nu: '0:1:log': a range of logarithms begins above 0"),
        ("--max-depth 3:none --random 3 t", "argument --max-depth: '3:none': a range is of numbers"),
        ("-l exp:log --random 2 t", "argument -l/--loss: 'exp:log': a range is of numbers; give the values"),
        ("-j 1,2 t", "argument -j/--n-jobs: '1,2' is not an integer"),
        ("-S 1,2 -r 0.1,1 t", "argument -S/--random-state: '1,2' is not an integer"),
        ("-S none -r 0.1,1 t", "argument -S/--random-state: a search needs a seed"),
        ("--gap 1,2 t", "--gap is not an option of mcboost, but of abc-logitboost, abc-mart"),
        ("-a mart --class-weight balanced,none -w2 3 t", "-w<label> and --class-weight exclude each other"),
        ("-a hingeboost -c 1 --libsvm-c 1,2 t", "-c and --libsvm-c exclude each other"),
        ("-r 0.1,1 -", "a training file on standard input needs the name of a journal"),
        ("-r 0.1,1 --base 1 t.csv", "--base and --n-features are for LIBSVM text"),
        ("-r 0.1,1 --plot p.gif t", "--plot p.gif: the name must end in .png, .svg, .pdf"),
        ("-r 0.1,1 --random 0 t", "argument --random: '0' is not an integer >= 1"),
        ("-r 0.1,1 -v 1 t", "argument -v/--cross-validation: '1' is not an integer >= 2"),
        ("-r 0.1,1 -p 0 t", "argument -p/--parallel: '0' is not a number of threads"),
    ],
)
def test_bad_usage(capsys, text, message):
    assert main(text.split()) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"mcboost-tune: error: {message}"), err


def test_more_folds_than_rows_of_a_class(folder):
    done = call("tune", "-n", "3,4", "-v", 100, "train.svm", cwd=folder)
    assert done.returncode == 2 and "-v 100: the largest class has only" in done.stderr


def test_combinations():
    number = several(float)
    assert number("0.1,0.5,0.1") == Choices((0.1, 0.5)) and number("1:2") == Range(1.0, 2.0, False)
    space = {"a": Choices((1, 2)), "b": Choices(("x", "y"))}
    assert grid(space) == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"}]
    assert sorted(map(str, draws(space, 10, 0))) == sorted(map(str, grid(space)))
    mixed = {"a": Range(1, 3, False), "b": Range(0.01, 1.0, True), "c": Choices(("x", None))}
    found = draws(mixed, 300, 7)
    assert draws(mixed, 40, 7) == found[:40] != draws(mixed, 40, 8)
    assert {made["a"] for made in found} == {1, 2, 3}
    drawn = np.array([made["b"] for made in found])
    assert 0.01 <= drawn.min() < 0.02 and 0.5 < drawn.max() <= 1 and 0.4 < (drawn < 0.1).mean() < 0.6
    assert {made["a"] for made in draws({"a": Range(1, 64, True)}, 30, 0)} <= set(range(1, 65))


def test_values_are_those_of_mcboost_train():
    _, fixed, space, found, _ = read_arguments("-a hingeboost -t 2,linear --scale -g 0.1:1 --random 5 t".split())
    assert fixed == {"scale": True}
    assert space == {"kernel": Choices(("rbf", "linear")), "gamma": Range(0.1, 1.0, False)}
    assert len(found) == 5


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib")
def test_picture(folder):
    done = call("tune", *GRID, "--plot", "p.png", "train.svm", cwd=folder)
    assert done.returncode == 0 and (folder / "p.png").read_bytes()[:4] == b"\x89PNG"
    arguments = ["-q", "-p", 1, "-n", 3, "--random", 4, "-r", "0.01:1:log", "-l", "exp,log", "--max-step", "0.5,none"]
    done = call("tune", *arguments, "--plot", "p.svg", "--best-by", "log_loss", "train.svm", "j.csv", cwd=folder)
    assert done.returncode == 0 and "<svg" in (folder / "p.svg").read_text()


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib")
def test_dollars_in_names_of_a_picture_are_drawn_as_they_are():
    said = SimpleNamespace(best_by="error", cross_validation=3, algorithm="mart", training_file="$x_$", plot="p.svg")
    space, means = {"--labels": Choices(("$a_$", "b"))}, np.array([0.2, 0.1])
    assert b"<svg" in draw(said, space, [["$a_$"], ["b"]], means, means / 9, 1)


def test_a_picture_without_matplotlib_is_refused_before_the_work(folder, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    done = call("tune", *GRID, "--plot", "p.png", "train.svm", cwd=folder)
    assert done.returncode == 1 and "--plot needs matplotlib: python -m pip install" in done.stderr
    assert not list(folder.glob("*.csv"))


def test_a_rare_class_is_a_warning_of_the_program(folder):
    with open(folder / "train.svm", "a") as stream:
        stream.write("77 1:0.5\n")
    done = run("tune", *GRID[1:], "train.svm", cwd=folder, PYTHONWARNINGS="error::UserWarning")
    assert done.returncode == 0, done.stderr
    assert "mcboost-tune: warning: -v 3: class 77 has only 1 row" in done.stderr and "UserWarning" not in done.stderr
    with warnings.catch_warnings(action="error", category=UserWarning):
        done = call("tune", *GRID, "train.svm", "j.csv", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_can_be_refused_is_refused_first(folder):
    done = call("tune", *GRID, "--plot", "gone/p.png", "train.svm", "j.csv", cwd=folder)
    assert done.returncode == 4 and "no such folder for the picture" in done.stderr
    assert not (folder / "j.csv").exists()


def test_damaged_lines_are_named(folder):
    call("tune", *GRID, "train.svm", "j.csv", cwd=folder)
    lines = (folder / "j.csv").read_bytes().splitlines(keepends=True)
    for cell in (b"abc", b"\xff"):
        lines[2] = b",".join([*lines[2].rstrip().split(b",")[:-1], cell]) + b"\n"
        (folder / "j.csv").write_bytes(b"".join(lines))
        done = call("tune", *GRID, "train.svm", "j.csv", cwd=folder)
        assert done.returncode == 2 and "j.csv:3: this line is damaged" in done.stderr


def test_lines_that_are_empty_too_short_or_too_long(folder):
    whole = call("tune", *GRID, "train.svm", "j.csv", cwd=folder)
    text = (folder / "j.csv").read_text()
    with open(folder / "j.csv", "a") as stream:
        stream.write("\n\n")
    assert call("tune", *GRID, "train.svm", "j.csv", cwd=folder).stdout == whole.stdout
    last = text.splitlines()[-1]
    for line in (last.rpartition(",")[0], f"{last},9", "x" * 150_000):
        (folder / "j.csv").write_text(f"{text}{line}\n")
        done = call("tune", *GRID, "train.svm", "j.csv", cwd=folder)
        assert done.returncode == 2 and "j.csv:14: this line is damaged (" in done.stderr
    (folder / "j.csv").write_text("x" * 150_000)
    done = call("tune", *GRID, "train.svm", "j.csv", cwd=folder)
    assert done.returncode == 1 and "journal j.csv exists and is none" in done.stderr


def test_the_best_command_runs_whatever_the_file_is_called(folder):
    (folder / "train.svm").rename(folder / "-d.svm")
    done = call("tune", *GRID, "--", "-d.svm", "j.csv", cwd=folder)
    best = shlex.split(done.stdout.splitlines()[-1])
    assert best[-1] == "./-d.svm" and call("train", "-q", *best[2:], cwd=folder).returncode == 0
    text = (folder / "-d.svm").read_text()
    done = run("tune", *GRID, "-", "k.csv", cwd=folder, stdin=text)
    best = shlex.split(done.stdout.splitlines()[-1])
    assert run("train", "-q", *best[2:], cwd=folder, stdin=text).returncode == 0
    assert (folder / "model.mcb").read_bytes() == (folder / "-d.svm.mcb").read_bytes()


def test_the_best_command_runs_whatever_the_columns_are_called(folder):
    lines = (f"{i % 2},{i % 3},{'abc'[i % 3]}\n" for i in range(60))
    (folder / "t.csv").write_text("-y,a,-c\n" + "".join(lines))
    named = ["--label=-y", "--categorical-features=-c"]
    done = call("tune", *GRID, *named, "t.csv", "j.csv", cwd=folder)
    best = shlex.split(done.stdout.splitlines()[-1])
    assert call("train", "-q", *best[2:], cwd=folder).returncode == 0
    model = load_model(folder / "t.csv.mcb")
    assert model.feature_names == ["a", "-c"] and model.categories is not None


def test_negative_numbers_are_values(folder):
    hinge = ["-q", "-p", 1, "-a", "hingeboost", "-n", 2, "-t", 1, "-v", 2, "train.svm"]
    done = call("tune", "-r", "-1e-3,0", *hinge, cwd=folder)
    assert done.returncode == 0 and len(table(done.stdout)) == 2, done.stderr
