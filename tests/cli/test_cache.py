"""mcboost-train --cache: the model of the rows in memory, when the file is used again, and when it cannot be."""

import errno
import gzip
import os
import re
import signal
import struct
import time

import numpy as np
import pandas as pd
import pytest
from cli.programs import write_svm

from pymcboost import load_model
from pymcboost.cli import cache as reading
from pymcboost.cli import train
from pymcboost.data import cached, textblocks
from pymcboost.data.merging import SECOND, RowSample

N = 600


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    X = np.round(rng.normal(size=(N, 4)), 3).astype(np.float32)
    X[:, 3] = rng.integers(0, 4, N) * (rng.random(N) < 0.5)
    return X, 2 * (X[:, 0] + X[:, 3] > 0.4) + (X[:, 1] > 0.8) - 1


@pytest.fixture
def folder(tmp_path, monkeypatch, rows):
    """The rows as one file and as three, in LIBSVM text and CSV; blocks are small."""
    X, y = rows
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(textblocks, "BLOCK", 1 << 12)
    monkeypatch.setattr(reading, "TABLE_ROWS", 50)
    write_svm(tmp_path / "all.svm", X, y)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=y)
    frame.to_csv("all.csv", index=False)
    for i, part in enumerate(np.array_split(np.arange(N), 3)):
        write_svm(tmp_path / f"part-{i}.svm", X[part], y[part])
        frame.iloc[part].to_csv(f"part-{i}.csv", index=False)
    return tmp_path


def run(*arguments, status=0, algorithm="vector-tree"):
    assert train.main(["-a", algorithm, "-n", "5", *map(str, arguments)]) == status


def of_memory(path, *options, algorithm="vector-tree"):
    run(path, "memory.mcb", "-q", *options, algorithm=algorithm)
    return memoryview(open("memory.mcb", "rb").read())


@pytest.mark.parametrize("algorithm", ["vector-tree", "abc-mart", "mcboost", "adaboost-mo"])
@pytest.mark.parametrize(
    ("whole", "given", "options"),
    [
        ("all.svm", "all.svm", []),
        ("all.svm", "part-*.svm", ["--n-features", "3", "-w1", "2", "--calibrate", "temperature"]),
        ("all.csv", "part-*.csv", ["--label", "kind"]),
    ],
)
def test_bytes_of_memory_at_first_and_again(folder, algorithm, whole, given, options, capsys):
    expected = of_memory(whole, *options, algorithm=algorithm)
    for words in ("held densely", "the rows of"):
        run(given, "m.mcb", "--cache", "rows.cache", *options, algorithm=algorithm)
        assert open("m.mcb", "rb").read() == expected
        told = capsys.readouterr().err
        assert words in told
        assert "training error" in told
    left = {name for name in os.listdir() if "cache" in name}
    assert left == {"rows.cache"}


def test_parquet_text_labels_and_missing_values(folder, rows):
    pytest.importorskip("pyarrow")
    X, y = rows
    X = np.where(X == 0, np.nan, X)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind=np.array(["x", "yy", "z", "0"])[y + 1])
    frame.to_parquet("all.parquet", row_group_size=70)
    expected = of_memory("all.parquet", "--label", "kind")
    run("all.parquet", "m.mcb", "-q", "--label", "kind", "--cache", "c")
    assert open("m.mcb", "rb").read() == expected
    assert load_model("m.mcb").classes_.tolist() == ["0", "x", "yy", "z"]


def test_one_feature_is_enough(folder):
    (folder / "one.svm").write_text("".join(f"{int(i > 20)} 1:{i}\n" for i in range(40)))
    expected = of_memory("one.svm")
    run("one.svm", "m.mcb", "-q", "--cache", "c")
    assert open("m.mcb", "rb").read() == expected


def test_archives_and_indices_from_zero(folder, rows):
    shifted = re.sub(r"(\d+):", lambda found: f"{int(found[1]) - 1}:", open("all.svm").read())
    with gzip.open("zero.svm.gz", "wt") as file:
        file.write("# rows\n" + shifted + "\n ")
    expected = of_memory("zero.svm.gz")
    run("zero.svm.gz", "m.mcb", "-q", "--cache", "c")
    assert open("m.mcb", "rb").read() == expected


def test_other_parameters_use_it_too(folder, capsys):
    run("all.svm", "m.mcb", "--cache", "c")
    expected = of_memory("all.svm", "--max-leaf-nodes", "4", "-P", "part-1.svm")
    capsys.readouterr()
    run("all.svm", "m.mcb", "--cache", "c", "--max-leaf-nodes", "4", "-P", "part-1.svm")
    assert "written anew" not in capsys.readouterr().err
    assert open("m.mcb", "rb").read() == expected


def change_rows():
    with open("all.svm", "a") as file:
        file.write("1 1:5\n")


def change_label():
    text = open("all.svm").read()
    open("all.svm", "w").write(text.replace("-1 ", "2  ", 1))


def cut():
    os.truncate("c", os.path.getsize("c") - 3)


def cut_short():
    os.truncate("c", 12)


def flip(at):
    with open("c", "r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        byte = file.read(1)[0]
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (change_rows, "all.svm has changed since c was written; it is written anew"),
        (change_label, "all.svm has changed since c was written; it is written anew"),
        (cut, "c is damaged, its size is not that which it names; it is written anew"),
        (cut_short, "c is damaged, it is cut off; it is written anew"),
        (lambda: flip(cached.START + 4000), "c is damaged, the checksum of its rows differs; it is written anew"),
        (lambda: flip(-5), "c is damaged, the checksum of its notes differs; it is written anew"),
        (lambda: os.unlink("c"), "c: 600 rows, 4 features, held densely"),
        (lambda: os.truncate("c", 0), "c: 600 rows, 4 features, held densely"),
    ],
)
def test_a_cache_that_does_not_fit_is_written_anew(folder, spoil, why, capsys):
    run("all.svm", "m.mcb", "-q", "--cache", "c")
    spoil()
    run("all.svm", "m.mcb", "--cache", "c")
    assert why in capsys.readouterr().err
    assert open("m.mcb", "rb").read() == of_memory("all.svm")
    run("all.svm", "m.mcb", "--cache", "c")
    assert "written anew" not in capsys.readouterr().err


def test_a_file_that_was_only_touched_fits(folder, capsys):
    run("all.svm", "m.mcb", "-q", "--cache", "c")
    os.utime("all.svm", (1, 1))
    run("all.svm", "m.mcb", "--cache", "c")
    assert "c: the rows of all.svm" in capsys.readouterr().err
    run("all.svm", "m.mcb", "--cache", "c", "--n-features", "3")
    assert "c was written with other options of reading; it is written anew" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["part-0.svm", "m.mcb", "--cache", "c"], 2, "c is the cache of other files (all.svm); name another cache"),
        (["all.svm", "m.mcb", "--cache", "all.csv"], 1, "cache all.csv exists and is no cache; remove it first"),
        (["all.svm", "m.mcb", "--cache", "all.svm"], 1, "all.svm"),
        (["all.svm", "m.mcb", "--cache", "m.mcb"], 1, "m.mcb"),
        (["p*.svm", "m.mcb", "--cache", "part-1.svm"], 1, "part-1.svm"),
        (["none-*.svm", "m.mcb", "--cache", "c"], 1, "no file is named as none-*.svm"),
        (["part-*.svm", "--cache", "c"], 1, "a pattern of training files needs the name of a model file"),
        (["-", "m.mcb", "--cache", "c"], 1, "--cache reads the training file twice; name a file"),
        (["all.svm", "-v", "3", "--cache", "c"], 1, "-v is for rows in memory; leave out --cache or -v"),
        (["all.svm", "m.mcb", "--cache", "none/c"], 4, "none"),
        (["none.svm", "m.mcb", "--cache", "d"], 4, "none.svm: No such file"),
    ],
)
def test_refusals(folder, arguments, status, words, capsys):
    run("all.svm", "m.mcb", "-q", "--cache", "c")
    before = {name: open(name, "rb").read() for name in os.listdir()}
    run(*arguments, status=status)
    assert words in capsys.readouterr().err
    assert {name: open(name, "rb").read() for name in os.listdir()} == before


def test_options_are_those_of_the_files_of_a_pattern(folder, capsys):
    os.mkdir("mixed")
    for i in (0, 1):
        os.rename(f"part-{i}.csv", f"mixed/p{i}.csv")
    for arguments, words in (
        (["--n-features", "2"], "--base and --n-features are for LIBSVM text"),
        (["--base", "0"], "--base and --n-features are for LIBSVM text"),
        (["-P", "all.svm"], "must both have named columns or both be LIBSVM text"),
    ):
        run("mixed/p*", "m.mcb", "--cache", "c", *arguments, status=1)
        assert words in capsys.readouterr().err
        assert not os.path.exists("c")
    run("mixed/p*", "m.mcb", "--cache", "c", "--label", "kind", "-P", "all.csv")
    assert load_model("m.mcb").feature_names == list("abcd")
    os.rename("part-2.svm", "mixed/p2.svm")
    capsys.readouterr()
    run("mixed/p*", "m.mcb", "--cache", "d", status=1)
    assert "mixed/p0.csv and mixed/p2.svm have not one format; name files that have" in capsys.readouterr().err


def test_a_pattern_that_takes_in_what_is_written(folder, capsys):
    for form in ("csv", "svm"):
        os.rename(f"part-2.{form}", f"one.{form}")
    os.mkdir("part-0.d")
    for pattern, cache, model, words in (
        ("part-*.csv", "part-0.csv", "m.mcb", "the cache part-0.csv is the training file itself"),
        ("part-*", "part-0.svm", "m.mcb", "the cache part-0.svm is the training file itself"),
        ("*", "all.csv", "m.mcb", "the cache all.csv is the training file itself"),
        ("part-*", "c", "part-1.svm", "the model file part-1.svm is the training file itself"),
        ("part-1.*", "c", "m.mcb", "part-1.csv and part-1.svm have not one format"),
        ("part-0.[cd]*", "c", "m.mcb", "part-0.d is a folder; give a pattern of files alone"),
        ("part-*.svm", "part-c.svm", "m.mcb", "part-*.svm: the cache part-c.svm would be one of these files"),
        ("./part-*", "c", "part-m", "./part-*: the model file part-m would be one of these files"),
    ):
        run(pattern, model, "--cache", cache, "--label", "kind", status=1)
        assert words in capsys.readouterr().err


def test_a_cache_of_an_older_version_is_written_anew(folder, monkeypatch, capsys):
    notes = reading._Reader.notes
    with monkeypatch.context() as context:
        context.setattr(reading._Reader, "notes", lambda self: {k: v for k, v in notes(self).items() if k != "merging"})
        with pytest.raises(KeyError):
            run("all.svm", "m.mcb", "-q", "--cache", "c")
    run("all.svm", "m.mcb", "--cache", "c")
    assert "c was written by an older version; it is written anew" in capsys.readouterr().err
    run("all.svm", "m.mcb", "--cache", "c")
    assert "written anew" not in capsys.readouterr().err


def test_algorithms_in_memory_refuse_it(folder, capsys):
    run("all.svm", "m.mcb", "--cache", "c", algorithm="samme", status=1)
    assert "samme trains in memory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1.5 1:2", "part-2.svm: row 201 has the label 1.5"),
        (" 1:2", "part-2.svm: row 201 has no label"),
        ("1 1:2 1:3", "part-2.svm:201:7: feature index 1 occurs twice"),
        ("1 2:inf", "part-2.svm: row 201 has inf for the feature 2"),
    ],
)
def test_wrong_rows_are_named_by_their_place(folder, line, words, capsys):
    with open("part-2.svm", "a") as file:
        file.write(line + "\n")
    run("part-*.svm", "m.mcb", "--cache", "c", status=2)
    assert words in capsys.readouterr().err
    assert not os.path.exists("c")


def test_wrong_tables(folder, capsys):
    with open("part-2.csv", "a") as file:
        file.write("1,2,3,4,\n")
    run("part-*.csv", "m.mcb", "--label", "kind", "--cache", "c", status=2)
    assert "part-2.csv: row 201 has no label in the column 'kind'" in capsys.readouterr().err
    pd.DataFrame({"a": [1], "kind": [1]}).to_csv("part-2.csv", index=False)
    run("part-*.csv", "m.mcb", "--label", "kind", "--cache", "c", status=2)
    assert "part-2.csv:1: there is no column 'b'" in capsys.readouterr().err


def test_wrong_rows_of_parquet_have_their_numbers(folder, capsys):
    pytest.importorskip("pyarrow")
    pd.DataFrame({"a": [0.0] * 60 + [1e39] * 60, "kind": [0, 1] * 60}).to_parquet("large.parquet")
    run("large.parquet", "m.mcb", "--label", "kind", "--cache", "c", status=2)
    assert "large.parquet: column 'a', row 61: 1e+39 is too large for float32" in capsys.readouterr().err


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_full_disk_leaves_nothing(folder, monkeypatch, capsys):
    before = sorted(os.listdir())
    with monkeypatch.context() as context:
        context.setattr(cached, "reserve", full)
        run("all.svm", "m.mcb", "--cache", "c", status=4)
    told = capsys.readouterr().err
    assert "c: the cache takes 15.7 KiB and cannot be written (No space left on device)" in told
    assert "Make room, or name a file on another disk" in told
    assert sorted(os.listdir()) == before
    from pymcboost.data import mapped

    monkeypatch.setattr(mapped, "reserve", full)
    run("all.svm", "m.mcb", "--cache", "c", status=4)
    assert "Make room, or give Chunks another folder" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("given", ["all.svm", "all.csv"])
def test_killed_while_it_is_written(folder, given, capfd):
    """Kill -9 at random times: what is left is no obstacle, and the cache of the last run is that of the first."""
    rng, source = np.random.default_rng(time.time_ns()), [given, *(["--label", "kind"] if given == "all.csv" else [])]
    lines = (folder / given).read_text().splitlines(keepends=True)
    head = 1 if given == "all.csv" else 0
    (folder / given).write_text("".join(lines[:head] + lines[head:] * 60))
    expected = of_memory(*source)
    start = time.monotonic()
    run(*source, "m.mcb", "-q", "--cache", "first")
    longest, states, killed = 0.8 * (time.monotonic() - start), set(), 0
    while killed < 20:
        child = os.fork()
        if not child:
            try:
                train.main(["-a", "vector-tree", "-n", "5", *source, "m.mcb", "--cache", "c"])
            finally:
                os._exit(0)
        time.sleep(rng.uniform(0, longest))
        os.kill(child, signal.SIGKILL)
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        left = [name for name in os.listdir() if name.startswith(("c", ".c"))]
        states.add((os.path.exists("c"), len(left) > os.path.exists("c")))
        if os.path.exists("c"):  # whole, as it got its name
            assert open("c", "rb").read() == open("first", "rb").read()
            if rng.random() < 0.7:
                os.unlink("c")
    run(*source, "m.mcb", "-q", "--cache", "c")
    assert open("m.mcb", "rb").read() == expected
    assert open("c", "rb").read() == open("first", "rb").read()
    assert (False, True) in states  # killed at a half
    assert not [name for name in os.listdir() if ".tmp" in name or name.startswith((".c", "c."))]


def test_a_source_that_changes_between_the_readings(folder, monkeypatch, capsys):
    survey = reading._Text.survey

    def then_change(self, note):
        survey(self, note)
        change_rows()

    monkeypatch.setattr(reading._Text, "survey", then_change)
    run("all.svm", "m.mcb", "--cache", "c", status=2)
    assert "all.svm changed while the cache was written; run the command again" in capsys.readouterr().err
    assert not os.path.exists("c")


def test_head_is_as_described(folder):
    run("all.svm", "m.mcb", "-q", "--cache", "c")
    mark, size, *_ = struct.unpack_from("<8sQQII", open("c", "rb").read())
    assert (mark, size) == (b"MCBROWS1", 4 * N * 5)


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 50])
def test_ranges_of_a_file_have_each_line_once(tmp_path, parts):
    path, rng = tmp_path / "lines", np.random.default_rng(0)
    for end in (b"", b"\n"):
        lines = [b"x" * n for n in rng.integers(0, 9, 20).tolist()]
        path.write_bytes(b"\n".join([*lines, b"last"]) + end)
        found = []
        for part in range(parts):
            with textblocks.LineRange(path, part, parts) as stream:
                found.append(stream.read())
        assert b"".join(found) == path.read_bytes()
        assert all(text.endswith(b"\n") for text in found[:-1] if text and text != found[-1]) or not end


def test_which_columns_are_said(folder, capsys):
    lines = [f"{i},{i + 100.5},{i % 7 + 300}" for i in range(60)]
    with open("numbers.csv", "w") as file:
        file.write("\n".join(f"{i % 2 + 50},{line}" for i, line in enumerate(lines)) + "\n")
    for _ in range(2):  # with a new cache, and with the one that is there
        run("numbers.csv", "m.mcb", "--cache", "c")
        told = capsys.readouterr().err
        assert "all names of columns are numbers: where the line of names is missing, the first row is lost" in told
        assert "labels from the first column, '50' (--label names another)" in told


def test_files_that_cannot_be_read_twice(folder, capsys):
    os.mkfifo("pipe")
    for path, name in (("pipe", "c"), ("all.svm", "-"), ("all.svm", "")):
        run(path, "m.mcb", "--cache", name, status=1)
        assert "name a file" in (told := capsys.readouterr().err) or "is not a file name" in told


def test_labels_of_a_column_without_a_name(folder, capsys):
    (folder / "ix-1.csv").write_text(",a,b\n" + "".join(f"{i % 2},{i},{i % 3}\n" for i in range(40)))
    (folder / "ix-2.csv").write_text("a,,b\n" + "".join(f"{i},{i % 2},{i % 3}\n" for i in range(40)))
    run("ix-*.csv", "m.mcb", "--cache", "c")
    assert "labels from the first column, ''" in capsys.readouterr().err
    model = load_model("m.mcb")
    assert (model.feature_names, model.classes_.tolist()) == (["a", "b"], [0, 1])


def test_notices_of_the_reader_are_said_once(folder, capsys):
    for i in (0, 1):
        lines = open(f"part-{i}.svm").read().splitlines()
        text = "".join(line.replace(" ", " qid:1 ", 1) + "\n" for line in lines)
        open(f"part-{i}.svm", "w").write(text)
    run("part-*.svm", "m.mcb", "--cache", "c")
    told = capsys.readouterr().err
    assert told.count("part-0.svm: qid ignored (first at line 1)") == told.count("qid") == 1


@pytest.mark.parametrize("form", ["svm", "csv"])
def test_values_that_merge_are_warned_of(folder, form, capsys):
    rows = [f"{i % 2} 1:{i % 3} 2:{1_700_000_000 + i % 2 * 20}\n" for i in range(400)]
    if form == "csv":
        rows = ["kind,a,time\n", *(re.sub(r" \d:", ",", row) for row in rows)]
    open(f"t.{form}", "w").write("".join(rows))
    for _ in range(2):  # with a new cache, and with the one that is there
        run(f"t.{form}", "m.mcb", "--cache", "c")
        named = "'time'" if form == "csv" else "1 (from 0)"
        assert f"warning: column {named}: 2 different values of a sample become 1 when" in capsys.readouterr().err


def test_rows_of_all_blocks_say_whether_values_merge(folder, capsys):
    """Those of the last block would merge, those of most of the file do not; and the other way round."""
    monotone = [1_500_000_000 + i * 5000 for i in range(202)]
    monotone[-1] = monotone[-2] + 20
    for times, warned in ((monotone, False), ([1_700_000_000 + i // 25 % 2 * 20 for i in range(200)], True)):
        open("t.csv", "w").write("kind,time,a\n" + "".join(f"{i % 2},{t},{i % 5}\n" for i, t in enumerate(times)))
        for _ in range(2):  # with a new cache, and with the one that is there
            run("t.csv", "m.mcb", "--cache", "c")
            told = capsys.readouterr().err
            assert ("warning: column 'time': 2 different values of a sample become 1 when" in told) is warned, told
            assert "warning" in told or not warned


def test_a_sample_of_rows_is_spread_over_the_blocks():
    sample, n = RowSample(), 5000
    for block in np.array_split(np.arange(n)[:, None], [3, 3, 700, 4990]):
        sample.take(block)
    found = sample.rows[:, 0]
    assert len(found) == SECOND and (np.diff(found) > 0).all() and np.diff([0, *found, n]).max() < 12 * n / SECOND
