"""The guided fuzzer: what it runs, keeps and finds."""

import csv
import functools
import shutil
import subprocess
import sys

import fuzz_guided
import pytest


@pytest.fixture(scope="module")
def clang(tmp_path_factory):
    """Skip where clang has no libFuzzer."""
    source = tmp_path_factory.mktemp("clang") / "nothing.c"
    source.write_text("int LLVMFuzzerTestOneInput(const char *data, unsigned long size) { return !data * 0; }")
    command = [shutil.which("clang") or "false", *fuzz_guided.FLAGS, str(source), "-o", str(source.with_suffix(""))]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("there is no clang with libFuzzer")


def call(tmp_path, *arguments):
    """The exit code and the rows of the results."""
    path = tmp_path / "results.csv"
    code = fuzz_guided.main([*arguments, "--corpus", str(tmp_path / "corpus"), "--results", str(path)])
    with open(path, newline="") as file:
        return code, list(csv.DictReader(file))


def test_inputs_are_counted_and_kept(clang, tmp_path, capsys):
    call(tmp_path, "svmlight", "--runs", "3000")
    kept = len(list((tmp_path / "corpus" / "svmlight").iterdir()))
    code, rows = call(tmp_path, "svmlight", "--runs", "2000", "--seed", "2")
    assert code == 0 and [row["runs"] for row in rows] == ["3000", "2000"]
    assert kept > 6 and int(rows[1]["edges"]) >= int(rows[0]["edges"]) > 100
    capsys.readouterr()
    fuzz_guided.main(["--table", "--results", str(tmp_path / "results.csv")])
    assert capsys.readouterr().out.startswith("svmlight: 5000 inputs in ")


def test_a_part_of_the_corpus_is_kept_and_begins_a_new_one(clang, tmp_path, monkeypatch, capsys):
    corpus = tmp_path / "corpus" / "svmlight"
    call(tmp_path, "svmlight", "--runs", "3000")
    (corpus / "large").write_bytes(b"1 2:3\n" * 1000)
    monkeypatch.setattr(fuzz_guided, "keep", functools.partial(fuzz_guided.keep, folder=tmp_path / "kept"))
    assert fuzz_guided.main(["svmlight", "--keep", "--corpus", str(tmp_path / "corpus")]) == 0
    inputs = list(fuzz_guided.kept("svmlight", tmp_path / "kept"))
    assert capsys.readouterr().out.endswith(f"\n{len(inputs)} inputs\n")
    assert 5 < len(inputs) < len(list(corpus.iterdir()))
    assert max(map(len, inputs)) <= fuzz_guided.LARGEST
    monkeypatch.setattr(fuzz_guided, "kept", lambda harness: inputs)
    fuzz_guided.sow("svmlight", tmp_path / "new")
    assert len(list((tmp_path / "new").glob("kept-*"))) == len(inputs)
    fuzz_guided.sow("svmlight", corpus)  # has them already
    assert not list(corpus.glob("kept-*"))


def test_kept_inputs_are_few_and_small():
    inputs = list(fuzz_guided.kept("model"))
    assert len(inputs) > 500 and max(map(len, inputs)) <= fuzz_guided.LARGEST
    assert sum(path.stat().st_size for path in fuzz_guided.KEPT.iterdir()) < 500_000
    assert not list(fuzz_guided.kept("nothing"))


def test_a_finding_is_kept_and_told(clang, tmp_path, monkeypatch, capfd):
    source = tmp_path / "broken.c"
    source.write_text("""
        #include <stdlib.h>
        int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
            if (size > 2 && data[0] == '1') abort();
            return 0;
        }""")
    monkeypatch.setitem(fuzz_guided.SOURCES, "svmlight", source)
    code, (row,) = call(tmp_path, "svmlight")
    assert code == 1 and row["findings"] == "1"
    assert len(list((tmp_path / "corpus").glob("crash-*"))) == 1
    assert "deadly signal" in capfd.readouterr().err


@pytest.mark.slow
def test_models_in_full(tmp_path):
    code, (row,) = call(tmp_path, "model", "--runs", "20000")
    assert code == 0 and row["runs"] == "20000" and int(row["edges"]) > 2000


def test_readers_of_other_libraries_files(tmp_path):
    pytest.importorskip("atheris")
    code, (row,) = call(tmp_path, "foreign", "--runs", "500")
    assert code == 0 and row["runs"] == "500" and int(row["edges"]) > 200
    assert len(list((tmp_path / "corpus" / "foreign").glob("seed-*"))) == 6


@pytest.mark.parametrize("what", ["raise KeyError(1)", "raise ModelFormatError('')"])
def test_what_the_readers_may_not_raise_is_a_finding(what, tmp_path, monkeypatch, capfd):
    pytest.importorskip("atheris")
    harness = fuzz_guided.ROOT / "tools" / "fuzz_foreign.py"
    text = harness.read_text().replace("model = read(PATH)", what)
    broken = tmp_path / "tools" / "fuzz_foreign.py"
    broken.parent.mkdir()
    broken.write_text(text.replace("sys.path.insert(0, str(ROOT))", f"sys.path.insert(0, {str(fuzz_guided.ROOT)!r})"))
    monkeypatch.setattr(fuzz_guided, "compile_one", lambda *_: [sys.executable, broken])
    code, (row,) = call(tmp_path, "foreign", "--runs", "50")
    assert code == 1 and row["findings"] == "1"
    assert ("KeyError" if "KeyError" in what else "without a word") in "".join(capfd.readouterr())
