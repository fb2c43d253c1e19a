"""Byte ranges of one LIBSVM file: together its rows, with the numbers of lines and rows in the whole file."""

from types import SimpleNamespace

import numpy as np
import pytest
from divided.threads import run

from pymcboost import load_svmlight
from pymcboost.cli import train
from pymcboost.cli.workers import agreed, read_part
from pymcboost.data import svmlight, textblocks


def parts_of(path, size, base="auto", n_features=None):
    """What each process reads, or its error."""
    arguments = SimpleNamespace(training_file=str(path), base=base, n_features=n_features)

    def silent(text):
        pass

    def task(workers):
        try:
            return agreed(
                workers,
                read_part(workers, arguments, silent, allows_missing=True),
                silent,
                n_features=n_features,
            )
        except Exception as error:
            workers.fail(error)
            raise

    return run(size, task)


def text_of(rng, first, rows=60):
    lines = []
    for i in range(rows):
        features = np.flatnonzero(rng.random(5) < 0.5) + first
        lines.append(f"{i % 3} " + " ".join(f"{j}:{rng.integers(1, 9)}" for j in features))
        lines += ["", "# a comment"][: rng.integers(0, 3)]
    return lines


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("size", [2, 3, 8, 40])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.part(3)
def test_rows_of_one_process(tmp_path, first, size, end):
    path = tmp_path / "all.svm"
    path.write_text("\n".join(text_of(np.random.default_rng(0), first)) + end)
    for n_features in (None, 4, 9):
        whole = load_svmlight(path, layout="dense", n_features=n_features)
        parts = parts_of(path, size, "auto", n_features=n_features)
        assert not [part for part in parts if isinstance(part, Exception)]
        np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), whole.X)
        np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), whole.y)
        assert {part.base for part in parts} == {whole.base}


def test_index_0_in_one_range(tmp_path):
    path = tmp_path / "all.svm"
    path.write_text("".join(f"{i % 2} {'0:3 ' * (i == 33)}1:{i} 2:5\n" for i in range(50)))
    for n_features in (None, 2):
        whole = load_svmlight(path, layout="dense", n_features=n_features)
        parts = parts_of(path, 4, "auto", n_features=n_features)
        np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), whole.X)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("first", [0, 1])
def test_sparse_rows_where_one_process_has_them(tmp_path, monkeypatch, first, size):
    """Each part may have another form and another base by itself: the first rows are short, the last ones full."""
    monkeypatch.setattr(svmlight, "SMALL_DENSE", 0)
    path = tmp_path / "all.svm"
    full = [f"{i % 2} " + " ".join(f"{j}:{i + 1}" for j in range(first, 40)) for i in range(4)]
    few = [f"{i % 2} {1 + i % 5}:{i + 1}" for i in range(200)]
    for lines in (few + full, full * 60):
        path.write_text("\n".join(lines))
        for n_features in (None, 30, 50):
            whole = load_svmlight(path, n_features=n_features).X
            assert hasattr(whole, "indptr") == (lines[0] == few[0])
            found = [one.X for one in parts_of(path, size, "auto", n_features=n_features)]
            assert {hasattr(one, "indptr") for one in found} == {hasattr(whole, "indptr")}
            found, whole = (
                [one.toarray() if hasattr(one, "indptr") else one for one in X]
                for X in (found, [whole])
            )
            np.testing.assert_array_equal(np.concatenate(found), *whole)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1 3:x", "all.svm:84:5: "),
        ("1:3", "all.svm: line 84 has no label"),
        ("0.5 1:3", "all.svm: line 84 has the label 0.5"),
        ("1 2:inf", "all.svm: line 84 has inf for the feature 2"),
    ],
)
@pytest.mark.parametrize("size", [2, 3, 7])
def test_wrong_rows_are_named_by_their_place_in_the_file(tmp_path, row, words, size):
    path = tmp_path / "all.svm"
    lines = [f"{i % 2} 1:{i}\n" for i in range(60)]
    path.write_text("# head\n" + "\n".join([*lines[:41], row + "\n", *lines[42:]]))
    parts = parts_of(path, size)
    assert len(parts) == size
    assert all(words in str(part) for part in parts), parts


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "no row of data"), ("# none\n", "no row of data"), ("1\n2\n", "no row has a feature")],
)
def test_nothing_to_learn_from(tmp_path, text, words):
    path = tmp_path / "all.svm"
    path.write_text(text)
    assert all(words in str(one) for one in parts_of(path, 3))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-"], "cannot split standard input"),
        (["all.svm.gz"], "cannot split a .gz file"),
        (["--loss", "logistic", "all.svm"], "cannot split a multi-label file"),
    ],
)
def test_what_has_no_ranges(arguments, words, capsys):
    assert train.main(["-a", "vector-tree", "--mpi", *arguments, "m.mcb"]) == 1
    told = capsys.readouterr().err
    assert words in told
    assert "%r in the name" in told


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 50])
def test_ranges_of_a_file_have_each_line_once(tmp_path, parts):
    path = tmp_path / "lines"
    rng = np.random.default_rng(0)
    for end in (b"", b"\n"):
        lines = [b"x" * n for n in rng.integers(0, 9, 20).tolist()]
        path.write_bytes(b"\n".join([*lines, b"last"]) + end)
        found = []
        for part in range(parts):
            with textblocks.LineRange(path, part, parts) as stream:
                found.append(stream.read())
        assert b"".join(found) == path.read_bytes()
        assert (
            all(text.endswith(b"\n") for text in found[:-1] if text and text != found[-1])
            or not end
        )
