"""mcboost-tune: its results are those of mcboost-train -v, and its model that of the best options."""

import argparse
import csv
import re
import shutil
import signal
import warnings

import numpy as np
import pytest
from cli.programs import call, run, start

from pymcboost.cli.tune import combinations_of, main, read_arguments, write_results
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
    table_rows = []
    for line in text.splitlines():
        if re.match(r" +[0-9]", line):
            words = line.split()
            table_rows.append((*words[:4], " ".join(words[6:])))
    return table_rows


def test_categories_are_those_of_a_table(tmp_path):
    colours = [("red", "green", "blue")[i % 3] for i in range(120)]
    lines = [f"{i * 7 % 3 != 1:d},{colour},{i % 5}" for i, colour in enumerate(colours)]
    (tmp_path / "t.csv").write_text("kind,colour,size\n" + "\n".join(lines) + "\n")
    options = ["-q", "-a", "vector-tree", "-n", 4, "--categorical-features", "colour,size"]
    completed = call(
        "tune", "-p", 1, "-r", "0.2,1", *options, "-v", 3, "t.csv", "m.mcb", cwd=tmp_path
    )
    assert completed.returncode == 0, completed.stderr
    best = completed.stdout.splitlines()[-1].removeprefix("Best: ").split()
    printed = call("train", *best, *options, "-v", 3, "t.csv", cwd=tmp_path).stdout
    accuracy = float(re.search(r"Cross Validation Accuracy = ([\d.]+)%", printed)[1])
    assert accuracy == pytest.approx(100 - 100 * float(table(completed.stdout)[0][0]), abs=0.01)
    assert call("train", *best, *options, "t.csv", "same.mcb", cwd=tmp_path).returncode == 0
    assert (tmp_path / "m.mcb").read_bytes() == (tmp_path / "same.mcb").read_bytes()
    assert load_model(tmp_path / "m.mcb").categories.names == (
        ["blue", "green", "red"],
        ["0", "1", "2", "3", "4"],
    )


def test_results_are_those_of_cross_validation_best_first(folder):
    completed = call("tune", *GRID, "train.svm", cwd=folder)
    assert (completed.returncode, completed.stderr) == (0, "")
    table_rows = table(completed.stdout)
    assert {row[-1] for row in table_rows} == {
        f"--n-estimators {n} --learning-rate {r}" for n in (3, 6) for r in (0.2, 1.0)
    }
    assert [float(row[0]) for row in table_rows] == sorted(float(row[0]) for row in table_rows)
    for error, spread, loss, loss_spread, options in table_rows:
        printed = call(
            "train", "-q", "-v", 3, *options.split(), "train.svm", cwd=folder
        ).stdout.splitlines()
        percent, more = (float(part.rstrip("%")) for part in re.findall(r"[\d.]+%", printed[1]))
        assert (float(error), float(spread)) == pytest.approx((percent / 100, more / 100), rel=1e-2)
        assert printed[2].startswith(
            f"Cross Validation Log Loss = {float(loss):.4g} +- {float(loss_spread):.3g}"
        )
    assert completed.stdout.splitlines()[-1] == f"Best: {table_rows[0][-1]}"
    assert (
        call(
            "train", "-q", *table_rows[0][-1].split(), "train.svm", "same.mcb", cwd=folder
        ).returncode
        == 0
    )
    assert (folder / "train.svm.mcb").read_bytes() == (folder / "same.mcb").read_bytes()
    written = rows(folder / "train.svm.tune.csv")
    measured = ["error", "error_deviation", "log_loss", "log_loss_deviation", "rounds", "seconds"]
    assert list(written[0]) == ["--n-estimators", "--learning-rate", *measured]
    assert [float(row["error"]) for row in written] == pytest.approx(
        [float(row[0]) for row in table_rows], rel=1e-3
    )
    first = f"--n-estimators {written[0]['--n-estimators']} --learning-rate {written[0]['--learning-rate']}"
    assert first == table_rows[0][-1] and written[0]["rounds"] == written[0]["--n-estimators"]


def test_best_by_log_loss(folder):
    completed = call("tune", *GRID, "--best-by", "log_loss", "train.svm", cwd=folder)
    losses = [float(row[2]) for row in table(completed.stdout)]
    assert losses == sorted(losses) and len(set(losses)) == 4
    hinge = ["-q", "-p", 1, "-a", "hingeboost", "-n", 3, "-c", "1,2", "train.svm", "h.mcb"]
    assert call("tune", *hinge, cwd=folder).returncode == 0
    (folder / "h.mcb").unlink()
    completed = call("tune", *hinge, "--best-by", "log_loss", cwd=folder)
    assert (
        completed.returncode == 2 and "no log_loss; add --calibrate temperature" in completed.stderr
    )
    assert not (folder / "h.mcb").exists()


def test_libsvms_c_follows_the_rows_of_each_fold(folder):
    completed = call(
        "tune",
        "-q",
        "-p",
        1,
        "-a",
        "hingeboost",
        "-n",
        5,
        "--libsvm-c",
        "0.01,1",
        "-v",
        3,
        "train.svm",
        cwd=folder,
    )
    for error, _, _, _, options in table(completed.stdout):
        fixed = ["-q", "-v", 3, "-a", "hingeboost", "-n", 5]
        printed = call("train", *fixed, *options.split(), "train.svm", cwd=folder).stdout
        assert float(error) == pytest.approx(
            float(re.findall(r"Error = ([\d.]+)%", printed)[0]) / 100, rel=1e-2
        )
    best = completed.stdout.splitlines()[-1].split()[1:]
    call("train", "-q", "-a", "hingeboost", "-n", 5, *best, "train.svm", "same.mcb", cwd=folder)
    assert (folder / "train.svm.mcb").read_bytes() == (folder / "same.mcb").read_bytes()


def test_class_weights_early_stopping_and_names_of_columns(files, folder):
    lines = ["kind,a,b,c,d,e"]
    for line in (files / "train.svm").read_text().splitlines():
        label, *pairs = line.split()
        values = dict(pair.split(":") for pair in pairs)
        lines.append(",".join([f"c{label}", *(values.get(str(j), "0") for j in range(1, 6))]))
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    text = call(
        "tune",
        "-q",
        "-p",
        1,
        "-n",
        5,
        "-r",
        "0.1,1",
        "--label",
        "kind",
        "-v",
        3,
        "t.csv",
        cwd=folder,
    )
    assert text.returncode == 0, text.stderr
    assert load_model(folder / "t.csv.mcb").feature_names == ["a", "b", "c", "d", "e"]
    arguments = ["-n", 20, "-v", 3, "-E", 2, "-w1", 2.123456789, "-w2", 3]
    weighed = call("tune", "-q", "-p", 1, *arguments, "-r", "0.1,1", "train.svm", cwd=folder)
    assert weighed.returncode == 0, weighed.stderr
    error, *_, options = table(weighed.stdout)[0]
    printed = call("train", "-q", *arguments, *options.split(), "train.svm", cwd=folder).stdout
    assert float(error) == pytest.approx(
        float(re.findall(r"Error = ([\d.]+)%", printed)[0]) / 100, rel=1e-2
    )


def test_commas_separate_metrics_that_are_tried_one_after_the_other(folder):
    asked = ["-q", "-p", 1, "-n", 20, "-v", 3, "-E", 2, "--metric", "log_loss,error"]
    completed = call("tune", *asked, "train.svm", cwd=folder)
    assert completed.returncode == 0, completed.stderr
    assert sorted(options for *_, options in table(completed.stdout)) == [
        "--metric error",
        "--metric log_loss",
    ]


def test_ctrl_c_writes_nothing(folder):
    process = start(
        "tune", "-p", 2, "-n", "60000,60001", "-v", 3, "--random-state", 1, "train.svm", cwd=folder
    )
    assert (
        "180 rows" in process.stderr.readline() and "6 models to train" in process.stderr.readline()
    )
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "mcboost-tune: interrupted"
    assert [path.name for path in folder.iterdir()] == ["train.svm"]


@pytest.mark.slow
def test_a_search_that_ends_early_says_why_alone(folder):
    options = ["-q", "-p", 2, "-a", "hingeboost", "-n", 3, "-c", "1,2,3,4", "--best-by", "log_loss"]
    completed = run("tune", *options, "train.svm", cwd=folder)
    assert completed.returncode == 2
    (line,) = completed.stderr.splitlines()
    assert "no log_loss; add --calibrate temperature" in line


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_processes_side_by_side_and_standard_input_give_the_same(folder, processes):
    alone = call("tune", *GRID, "--results", "alone.csv", "train.svm", cwd=folder)
    options = [*GRID, "-p", processes, "--results", "several.csv", "-", "several.mcb"]
    text = (folder / "train.svm").read_text()
    several = run("tune", *options, cwd=folder, stdin=text)
    assert several.returncode == 0, several.stderr
    results = [
        [{**row, "seconds": 0} for row in rows(folder / name)]
        for name in ("alone.csv", "several.csv")
    ]
    assert results[0] == results[1]
    assert alone.stdout.splitlines()[-1] == several.stdout.splitlines()[-1]
    assert (folder / "train.svm.mcb").read_bytes() == (folder / "several.mcb").read_bytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t.svm", "nothing to search; give at least one option several values"),
        ("-r 0.1 t.svm", "nothing to search"),
        ("-r 0.1,2 t.svm", "argument -r/--learning-rate: '2' is not a number > 0 and <= 1"),
        ("-r 0.1,,0.2 t.svm", "argument -r/--learning-rate: '' is not a number"),
        ("-r 0.1:0.5 t.svm", "argument -r/--learning-rate: '0.1:0.5' is not a number"),
        ("-j 1,2 t", "argument -j/--n-jobs: '1,2' is not an integer"),
        ("-S 1,2 -r 0.1,1 t", "argument -S/--random-state: '1,2' is not an integer"),
        ("-S none -r 0.1,1 t", "argument -S/--random-state: a search needs a seed for its folds"),
        ("--gap 1,2 t", "--gap is not an option of mcboost, only of abc-logitboost, abc-mart"),
        (
            "-a mart --class-weight balanced,none -w2 3 t",
            "-w<label> and --class-weight cannot be used together",
        ),
        ("-h 0 -r 0.1,0.3 t", "-h 0 is svm-train's shrinking; leave it out"),
        ("-a hingeboost -c 1 --libsvm-c 1,2 t", "-c and --libsvm-c cannot be used together"),
        (
            "-r 0.1,1 - m",
            "when the training file is standard input, give the name of a model file, and --results file",
        ),
        (
            "-r 0.1,1 t -",
            "standard output is used for the table of results; name a file for the model",
        ),
        ("-r 0.1,1 t t", "the model file t is also the training file"),
        ("-r 0.1,1 --results m t m", "the file of results m is also the model file"),
        ("-r 0.1,1 --base 1 t.csv", "--base and --n-features are for LIBSVM text"),
        ("-r 0.1,1 --random 0 t", "argument --random: '0' is not an integer >= 1"),
        ("-r 0.1,1 -v 1 t", "argument -v/--cross-validation: '1' is not an integer >= 2"),
        ("-r 0.1,1 -p 0 t", "argument -p/--parallel: '0' is not a number of threads"),
    ],
)
def test_bad_usage(tmp_path, monkeypatch, capsys, text, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").write_text("")
    (tmp_path / "m").write_text("")
    assert main(text.split()) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"mcboost-tune: error: {message}"), err


def test_equal_errors_are_ranked_by_log_loss(tmp_path, capsys):
    """The sums of the errors differ in the last bit only."""
    combinations = [{"n_estimators": n} for n in (1, 2, 3)]
    third = 1 / 3
    measured = np.array(
        [
            [[0.1 + 0.2, 0.9, 1, 1], [0.3, 0.9, 1, 1]],
            [[0.3, 0.5, 2, 1], [0.3, 0.5, 2, 1]],
            [[third, 0.1, 3, 1], [third, 0.1, 3, 1]],
        ]
    )
    arguments = argparse.Namespace(results=str(tmp_path / "r.csv"))
    for swap in (slice(None), [1, 0]):
        mixed = measured.copy()
        mixed[[0, 1], :, 0] = measured[[0, 1], :, 0][swap]
        best = write_results(
            arguments,
            combinations,
            mixed,
            names=("error", "log_loss"),
            by="error",
            options={"n_estimators": "-n"},
        )
        assert best == 1
        said = capsys.readouterr().out.splitlines()
        assert said[-2:] == [f"All 3 combinations: {arguments.results}", "Best: -n 2"]


def test_a_metric_that_does_not_rank_is_noticed(folder):
    notice = "mcboost-tune: --metric does not rank the combinations; error does, unless --best-by"
    for options, said in (
        (["--metric", "log_loss"], True),
        (["--metric", "log_loss", "--best-by", "error"], False),
        (["--metric", "error"], False),
    ):
        completed = call("tune", *options, "-p", 1, "-n", "2,3", "-v", 2, "train.svm", cwd=folder)
        assert completed.returncode == 0, completed.stderr
        assert (notice in completed.stderr) is said


def test_more_folds_than_rows_of_a_class(folder):
    completed = call("tune", "-n", "3,4", "-v", 100, "train.svm", cwd=folder)
    assert completed.returncode == 2 and "-v 100: the largest class has only" in completed.stderr


def test_combinations():
    space = {"b": [1, 2], "a": ["x", None]}
    every = combinations_of(space, None, 0)
    assert len(every) == 4 and all(list(one) == ["b", "a"] for one in every)
    assert sorted(map(str, combinations_of(space, 10, 0))) == sorted(map(str, every))
    wide = {"a": list(range(50)), "b": list(range(50))}
    drawn = combinations_of(wide, 20, 7)
    assert drawn == combinations_of(wide, 20, 7) != combinations_of(wide, 20, 8)
    assert len({tuple(one.values()) for one in drawn}) == 20


def test_values_are_those_of_mcboost_train():
    _, fixed, space, found, _ = read_arguments(
        "-a hingeboost -t 2,linear --scale -g 0.1,1,0.1 --random 3 t".split()
    )
    assert fixed == {"scale": True}
    assert space == {"kernel": ["rbf", "linear"], "gamma": [0.1, 1.0]}
    assert len(found) == 3


def test_a_rare_class_is_a_warning_of_the_program(folder):
    with open(folder / "train.svm", "a") as stream:
        stream.write("77 1:0.5\n")
    with warnings.catch_warnings(action="error", category=UserWarning):
        completed = call("tune", *GRID[1:], "train.svm", cwd=folder)
        quiet = call("tune", *GRID, "train.svm", cwd=folder)
    assert completed.returncode == 0, completed.stderr
    assert "mcboost-tune: warning: -v 3: class 77 has only 1 row" in completed.stderr
    assert (quiet.returncode, quiet.stderr) == (0, "")


def test_what_can_be_refused_is_refused_first(folder):
    completed = call("tune", *GRID, "--results", "gone/r.csv", "train.svm", cwd=folder)
    assert completed.returncode == 4 and "the folder for the file of results" in completed.stderr
    completed = call("tune", *GRID, "train.svm", "gone/m.mcb", cwd=folder)
    assert completed.returncode == 4 and "the folder for the model file" in completed.stderr
    (folder / "notes").write_text("keep me")
    completed = call("tune", *GRID, "train.svm", "notes", cwd=folder)
    assert (
        completed.returncode == 1
        and "model file notes already exists and is not a model" in completed.stderr
    )
    assert sorted(path.name for path in folder.iterdir()) == ["notes", "train.svm"]


def test_negative_numbers_are_values(folder):
    hinge = ["-q", "-p", 1, "-a", "hingeboost", "-n", 2, "-t", 1, "-v", 2, "train.svm"]
    completed = call("tune", "-r", "-1e-3,0", *hinge, cwd=folder)
    assert completed.returncode == 0 and len(table(completed.stdout)) == 2, completed.stderr
