"""The guided fuzzer: what it runs, keeps and finds."""

import functools
import re
import shutil
import subprocess

import fuzz_guided
import pytest


@pytest.fixture(scope="module")
def clang(tmp_path_factory):
    """Skip where clang has no libFuzzer."""
    source = tmp_path_factory.mktemp("clang") / "nothing.c"
    source.write_text(
        "int LLVMFuzzerTestOneInput(const char *data, unsigned long size) { return !data * 0; }"
    )
    command = [
        shutil.which("clang") or "false",
        *fuzz_guided.FLAGS,
        str(source),
        "-o",
        str(source.with_suffix("")),
    ]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("there is no clang with libFuzzer")


def call(tmp_path, *arguments):
    """The exit code; the corpus lies in a temporary folder."""
    return fuzz_guided.main([*arguments, "--corpus", str(tmp_path / "corpus")])


def test_inputs_are_counted_and_kept(clang, tmp_path, capsys):
    assert call(tmp_path, "svmlight", "--runs", "3000") == 0
    kept = len(list((tmp_path / "corpus" / "svmlight").iterdir()))
    first = capsys.readouterr().out
    second = call(tmp_path, "svmlight", "--runs", "2000", "--seed", "2")
    assert kept > 6 and second == 0
    counts = [
        re.fullmatch(
            r"svmlight: (\d+) inputs, (\d+) edges, a corpus of \d+, 0 findings\n", text
        ).groups()
        for text in (first, capsys.readouterr().out)
    ]
    assert [inputs for inputs, _ in counts] == ["3000", "2000"]
    assert int(counts[1][1]) >= int(counts[0][1]) > 100


def test_a_part_of_the_corpus_is_kept_and_begins_a_new_one(clang, tmp_path, monkeypatch, capsys):
    corpus = tmp_path / "corpus" / "svmlight"
    call(tmp_path, "svmlight", "--runs", "3000")
    (corpus / "large").write_bytes(b"1 2:3\n" * 1000)
    monkeypatch.setattr(
        fuzz_guided, "keep", functools.partial(fuzz_guided.keep, folder=tmp_path / "kept")
    )
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
    assert call(tmp_path, "svmlight") == 1
    assert len(list((tmp_path / "corpus").glob("crash-*"))) == 1
    assert "deadly signal" in capfd.readouterr().err


@pytest.mark.slow
def test_models_in_full(clang, tmp_path, capsys):
    assert call(tmp_path, "model", "--runs", "20000") == 0
    assert int(re.search(r"(\d+) edges", capsys.readouterr().out)[1]) > 2000
