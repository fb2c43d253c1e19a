"""LIBSVM text: what is read, what is written, and every refusal with its message."""

import bz2
import gzip
import io
import lzma
import os
import runpy
import stat
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import pymcboost
from pymcboost import SvmlightError, dump_svmlight, load_svmlight
from pymcboost.data import archives, svmlines

svmlight, svmwrite = sys.modules[load_svmlight.__module__], sys.modules[dump_svmlight.__module__]
SvmlightMemoryError = svmlight.SvmlightMemoryError


@pytest.fixture
def write(tmp_path):
    def make(text, name="train.svm"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return make


# text, line:column (None: no position), words of the message, options
REFUSALS = {
    "index 0, one-based": (
        "1 1:1\n2 0:5\n",
        "2:3",
        "index 0 in a one-based file; use base=0",
        {"base": 1},
    ),
    "index negative": ("1 -1:1\n", "1:3", "feature index -1 is negative; indices start at 1", {}),
    "index minus zero": ("1 -0:1\n", "1:3", "feature index -0 is negative", {}),
    "index 2^31": (
        "1 2147483648:1\n",
        "1:3",
        "index 2147483648 is above 2^31-1 = 2147483647; renumber",
        {},
    ),
    "index 2^32+1": ("1 4294967297:1\n", "1:3", "index 4294967297 is above 2^31-1", {}),
    "index 2^64+1": (
        "1 18446744073709551617:1\n",
        "1:3",
        "index 18446744073709551617 is above 2^31-1",
        {},
    ),
    "index of 30 digits": ("1 " + "9" * 30 + ":1\n", "1:3", "is above 2^31-1", {}),
    "index 2^31-1, zero-based": (
        "1 0:1 2147483647:1\n",
        "1:7",
        "above 2^31-2, the largest in a zero-based file",
        {},
    ),
    "index descends": (
        "1 1:1\n1 3:1 9:1 4:2\n",
        "2:11",
        "feature index 4 follows 9; indices must increase",
        {},
    ),
    "index twice": (
        "1 3:1 9:1 9:2\n",
        "1:11",
        "feature index 9 occurs twice; indices must increase",
        {},
    ),
    "index not a number": (
        "1 a:1\n",
        "1:3",
        "feature index 'a' is not a whole number; entries look like",
        {},
    ),
    "index with a point": ("1 1.5:1\n", "1:3", "feature index '1.5' is not a whole number", {}),
    "index with a sign": ("1 +1:1\n", "1:3", "feature index '+1' is not a whole number", {}),
    "index missing": ("1 :1\n", "1:3", "feature index '' is not a whole number", {}),
    "no colon": ("1 1:1 7\n", "1:7", "expected index:value but found '7'", {}),
    "value missing": ("1 1: 2:1\n", "1:5", "no value after the colon", {}),
    "value not a number": (
        "1 1:x\n",
        "1:5",
        "value 'x' is not a number; write nan for a missing value",
        {},
    ),
    "value ?": ("1 1:?\n", "1:5", "value '?' is not a number", {}),
    "value with comma": ("1 1:0,5\n", "1:5", "value '0,5' is not a number", {}),
    "value hexadecimal": ("1 1:0x10\n", "1:5", "value '0x10' is not a number", {}),
    "value with underscore": ("1 1:1_0\n", "1:5", "value '1_0' is not a number", {}),
    "value with two points": ("1 1:1.2.3\n", "1:5", "value '1.2.3' is not a number", {}),
    "value ends in e": ("1 1:1e\n", "1:5", "value '1e' is not a number", {}),
    "value ends in e+": ("1 1:1e+\n", "1:5", "value '1e+' is not a number", {}),
    "value a point": ("1 1:.\n", "1:5", "value '.' is not a number", {}),
    "value a sign": ("1 1:-\n", "1:5", "value '-' is not a number", {}),
    "value nano": ("1 1:nano\n", "1:5", "value 'nano' is not a number", {}),
    "two colons": ("1 1:2:3\n", "1:5", "value '2:3' is not a number", {}),
    "value 1e39": ("1 1:1 2:1e39\n", "1:9", "value '1e39' is too large for float32", {}),
    "value -1e39": ("1 1:-1e39\n", "1:5", "value '-1e39' is too large for float32", {}),
    "value 1e999": ("1 1:1e999\n", "1:5", "value '1e999' is too large for float32", {}),
    "value of 50 digits": ("1 1:" + "9" * 50 + "\n", "1:5", "is too large for float32", {}),
    "NUL byte": (b"1 1:1\0\n", "1:5", "value '1\\x00' is not a number", {}),
    "not UTF-8": (b"1 1:\xff\n", "1:5", r"value '\\xff' is not a number", {}),
    "label a word": (
        "cat 1:1\n",
        "1:1",
        "label 'cat' is not a number; map class names to numbers",
        {},
    ),
    "label nan": ("nan 1:1\n", "1:1", "label 'nan' is out of range; labels must be finite", {}),
    "label inf": ("-inf 1:1\n", "1:1", "label '-inf' is out of range", {}),
    "label beyond 2^53": (
        "9007199254740994 1:1\n",
        "1:1",
        "label '9007199254740994' is out of range",
        {},
    ),
    "label 2^53 + 1": (
        "1 1:1\n9007199254740993 1:1\n",
        "2:1",
        "label '9007199254740993' is out of range",
        {},
    ),
    "label -2^53 - 1": (
        "-9007199254740993 1:1\n",
        "1:1",
        "label '-9007199254740993' is out of range",
        {},
    ),
    "label almost 2^53": (
        "9007199254740991.5 1:1\n",
        "1:1",
        "would be rounded to a whole number",
        {},
    ),
    "label almost 1": (
        "1 1:1\n1.00000000000000000001 1:1\n",
        "2:1",
        "'1.00000000000000000001' would be rounded",
        {},
    ),
    "label almost 0": (
        "1e-400 1:1\n",
        "1:1",
        "label '1e-400' would be rounded to a whole number",
        {},
    ),
    "carriage returns only": (
        "1 1:1\r2 1:2\r",
        "1:6",
        "a carriage return within the line; lines must end with",
        {},
    ),
    "carriage returns only, no labels": (
        "1:1\r2:1\r3:1\r",
        "1:4",
        "a carriage return within the line",
        {},
    ),
    "carriage return in a comment": (
        "1 1:1\n# a\r2 1:2\n",
        "2:4",
        "a carriage return within the line",
        {},
    ),
    "carriage return in an empty line": (
        "1 1:1\n \r\t\r\n",
        "2:2",
        "a carriage return within the line",
        {},
    ),
    "several labels": (
        "1,2 1:1\n",
        "1:1",
        "label '1,2' lists several labels; read multi-label files with load_svmlight(",
        {},
    ),
    "several labels, no features": ("1 1:1\n1,2\n", "2:1", "label '1,2' lists several labels", {}),
    "CSV": (
        "5.1,3.5,1.4,0.2,0\n",
        "1:1",
        "'5.1,3.5,1.4,0.2,0' looks like comma-separated values; expected LIBSVM",
        {},
    ),
    "CSV with blanks": (
        "5.1, 3.5, 0\n",
        "1:1",
        "as written by scikit-learn's dump_svmlight_file or pymcboost's dump_svm",
        {},
    ),
    "CSV with a header": (
        "sepal length;width\n5;3\n",
        "1:1",
        "'sepal' looks like comma-separated values",
        {},
    ),
    "CSV after a comment": (
        "# iris\n\n5.1\t3.5\t0\n",
        "3:5",
        "'5.1' looks like comma-separated values",
        {},
    ),
    "CSV without end": ("5,3,0", "1:1", "'5,3,0' looks like comma-separated values", {}),
    "two labels": ("1 2 1:1\n", "1:3", "expected index:value but found '2'", {}),
    "qid not a number": ("1 qid:x 1:1\n", "1:7", "qid 'x' is not an integer", {}),
    "qid late": ("1 1:1 qid:2\n", "1:7", "qid must come right after the label", {}),
    "qid twice": ("1 qid:1 qid:2 1:1\n", "1:9", "qid must come right after the label", {}),
    "after CRLF lines": (
        "1 1:1\r\n\r\n# note\r\n1 2:1 1:1\r\n",
        "4:7",
        "feature index 1 follows 2",
        {},
    ),
    "after a tab": ("1\t1:1\t\t1:2\n", "1:8", "feature index 1 occurs twice", {}),
    "last line without end": ("1 1:1\n1 1:b", "2:5", "value 'b' is not a number", {}),
    "empty file": ("", None, "the file is empty; expected rows like 1 3:0.5 7:2", {}),
    "no rows": ("\n# nothing\n\r\n", None, "no row of data in 3 lines; expected rows like", {}),
    "no features": (
        "1\n2\n",
        None,
        "no row has a feature; if that is intended, give n_features",
        {},
    ),
    "gzip without suffix": (
        gzip.compress(b"1 1:1\n"),
        "1:1",
        "compressed data; its name must end with .gz",
        {},
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(write, case):
    text, place, words, options = REFUSALS[case]
    path = write(text)
    with pytest.raises(SvmlightError) as caught:
        load_svmlight(path, **options)
    message = str(caught.value)
    assert message.startswith(f"{path}:{place}: " if place else f"{path}: ")
    assert words in message
    assert not isinstance(caught.value, MemoryError)


def test_representation_is_short(write):
    rows = "".join(f"{i % 7} 1:{i}\n" for i in range(1000))
    assert repr(load_svmlight(write(rows))) == (
        "<SvmlightData: 1000 rows, 1 feature (dense), 7 labels (0, 1, 2, 3, 4, ...), base 1>"
    )
    for layout in ("csr", "plain"):
        data = load_svmlight(write("0:1\n2.5 3:1\n0:1\n"), n_features=90_000_000, layout=layout)
        assert repr(data) == (
            "<SvmlightData: 3 rows, 90000000 features (CSR), 1 label (2.5), 2 rows without a label, base 0>"
        )


def test_message_cuts_long_tokens(write):
    with pytest.raises(SvmlightError, match="value '" + "z" * 37 + r"\.\.\.' is not a number"):
        load_svmlight(write("1 1:" + "z" * 500 + "\n"))


@pytest.mark.parametrize(
    "suffix, pack", [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_archives(write, suffix, pack):
    text = b"".join(b"%d 1:%d 2:0.5\n" % (i % 3, i) for i in range(5000))
    data = load_svmlight(write(pack(text), "a.svm" + suffix))
    assert data.X.shape == (5000, 2) and data.X[4999, 0] == 4999
    for broken in (
        pack(text)[:-20],
        pack(text)[:30],
        pack(text)[:2],
    ):
        path = write(broken, "b.svm" + suffix)
        with pytest.raises(SvmlightError, match="truncated or damaged") as caught:
            load_svmlight(path)
        assert str(caught.value).startswith(f"{path}: ")
    path = write(b"not an archive at all, only text", "c.svm" + suffix)
    name = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz"}[suffix]
    with pytest.raises(SvmlightError, match=f"ends in {suffix}, but is not {name} data; rename it"):
        load_svmlight(path)


@pytest.mark.parametrize(
    "suffix, pack", [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
def test_archives_of_several_streams(write, suffix, pack):
    """Streams one after the other are one file; what is damaged behind the first, or no stream, is not its end."""
    first, second = (
        b"".join(b"%d 1:%d\n" % (i % 3, i) for i in range(k, k + 3000)) for k in (0, 3000)
    )
    whole = pack(first) + pack(second)
    path = write(whole, "a.svm" + suffix)
    assert load_svmlight(path).X[:, 0].tolist() == list(range(6000))
    damaged = bytearray(whole)
    damaged[len(pack(first)) + len(pack(second)) // 2] ^= 0x55
    head = bytearray(whole)
    head[len(pack(first)) + 1] ^= 0x55
    for bad in (
        damaged,
        head,
        whole[:-9],
        whole + b"1 1:7\n",
        whole + b"B",
        whole + bytes(4) + b"text",
        whole[:-1],
    ):
        path.write_bytes(bad)
        with pytest.raises(SvmlightError, match="truncated or damaged"):
            load_svmlight(path)
    for zeros in (1, 4, 1 << 17):  # padding
        path.write_bytes(pack(first) + bytes(zeros))
        assert len(load_svmlight(path).X) == 3000
        path.write_bytes(pack(first) + bytes(zeros) + pack(second))
        assert load_svmlight(path).X[:, 0].tolist() == list(range(6000))


def test_empty_archive_streams(write):
    for suffix, pack in ((".bz2", bz2.compress), (".xz", lzma.compress)):
        path = write(pack(b"1 1:1\n") + pack(b"") + pack(b"2 1:2\n"), "a.svm" + suffix)
        assert load_svmlight(path).y.tolist() == [1, 2]
        with pytest.raises(SvmlightError, match="file is empty"):
            load_svmlight(write(pack(b""), "b.svm" + suffix))
    with pytest.raises(SvmlightError, match="is not xz data"):
        load_svmlight(write(lzma.compress(b"1 1:1\n", format=lzma.FORMAT_ALONE), "c.xz"))


def test_paths_of_bytes(tmp_path):
    for name in (b"t.svm", b"t.svm.gz", b"\xff.svm"):
        path = os.path.join(os.fsencode(tmp_path), name)
        dump_svmlight(path, [[1, 2]], [3])
        assert load_svmlight(path).X.tolist() == [[1, 2]]
    with open(path, "wb") as stream:
        stream.write(b"1 1:x\n")
    with pytest.raises(SvmlightError, match="value 'x' is not a number"):
        load_svmlight(path)


def test_labels_up_to_2_to_53_are_exact(tmp_path):
    path = tmp_path / "t.svm"
    labels = [2**53, 2**53 - 1, -(2**53), 1 - 2**53]
    dump_svmlight(path, np.ones((4, 1)), labels)
    assert load_svmlight(path).y.tolist() == labels
    path.write_text("9007199254740990.000 1:1\n90071992547409920e-1 1:1\n")
    assert load_svmlight(path).y.tolist() == [2**53 - 2, 2**53]
    for label in (2**53 + 1, -(2**53) - 1, np.iinfo(np.int64).min):
        with pytest.raises(ValueError, match="beyond"):
            dump_svmlight(path, np.ones((1, 1)), [label])


def test_closed_standard_streams(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(OSError, match="standard input is closed"):
        load_svmlight("-")
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(OSError, match="standard output is closed"):
        dump_svmlight("-", [[1]], [1])


def test_numpy_scalars_as_options(write):
    for base in (np.int64(0), np.int8(1)):
        data = load_svmlight(
            write("1 1:1 2:2\n"), base=base, n_features=np.int32(5), memory_limit=np.int64(10**7)
        )
        assert (data.base, type(data.base), data.X.shape) == (base, int, (1, 5))


def test_missing_file_is_an_os_error(tmp_path):
    for name in ("none.svm", "none.svm.gz"):
        with pytest.raises(FileNotFoundError):
            load_svmlight(tmp_path / name)


def test_what_is_accepted(write):
    text = (
        b"\xef\xbb\xbf# made by hand\r\n"
        b"+1 1:1 3:-2.5e-1 # a comment with 4:4\r\n"
        b"\r\n"
        b"  -2\t2:.5 3:5. \n"
        b"3.0 qid:7 01:1E2 2:nan 3:-INF#glued\n"
        b"4\n"
        b"qid:3 2:1\n"
        b"1:7 3:+8"
    )
    data = load_svmlight(write(text), layout="dense")
    nan = np.nan
    inf = np.inf
    expected = [[1, 0, -0.25], [0, 0.5, 5], [100, nan, -inf], [0, 0, 0], [0, 1, 0], [7, 0, 8]]
    assert data.X.dtype == np.float32 and data.X.flags.c_contiguous
    np.testing.assert_array_equal(data.X, np.array(expected, np.float32))
    assert data.y.dtype == np.int64 and data.y.tolist() == [1, -2, 3, 4, 0, 0]
    assert data.labelled.dtype == bool and data.labelled.tolist() == [True] * 4 + [False] * 2
    assert data.base == 1
    assert [notice.partition(": ")[2] for notice in data.notices] == [
        "ignoring qid (first at line 5)"
    ]


def test_empty_lines_of_a_file_without_labels_are_noticed(write):
    path = write("1:1\n# comment\n \n2:3\n\n")
    assert load_svmlight(path).notices == [
        f"{path}: skipped 3 lines without data, the first empty one at line 3; write a row of zeros "
        "as 1:0"
    ]
    for text in ("# comment\n1:1\n", "1:1\n2:3", "1 1:1\n\n2:3\n"):
        assert load_svmlight(write(text)).notices == []
    far = write("1:1\n" * 200_000 + "\n0:3\n")
    assert "the first empty one at line 200001; write a row of zeros as 0:0" in str(
        load_svmlight(far).notices
    )


def test_fractional_labels(write):
    data = load_svmlight(write("0.1 1:1\n3 1:1\n"))
    assert data.y.dtype == np.float64 and data.y.tolist() == [0.1, 3.0]
    assert load_svmlight(write("-9007199254740992 1:1\n1e3 1:1\n")).y.tolist() == [-(2**53), 1000]


def test_base(write):
    text = "1 1:1 2:2\n1 0:5 2:3\n"
    for layout in ("dense", "csr"):
        automatic = load_svmlight(write(text), layout=layout)
        dense = automatic.X if layout == "dense" else automatic.X.toarray()
        assert automatic.base == 0 and dense.tolist() == [[0, 1, 2], [5, 0, 3]]
        assert "found index 0 (line 2), so indices are read as zero-based" in automatic.notices[0]
        assert load_svmlight(write(text), base=0, layout=layout).notices == []
        one = load_svmlight(write("1 1:1 2:2\n"), base=0, layout=layout)
        assert one.X.shape == (1, 3)
    assert load_svmlight(write("1 1:1 2:2\n")).base == 1
    assert load_svmlight(write("1 2147483646:1\n"), base=0).X.shape == (1, 2**31 - 1)


def test_rows_without_features(write):
    for base in ("auto", 0, 1):
        with pytest.raises(SvmlightError, match="no row has a feature"):
            load_svmlight(write("1\n2 # 1:1\n"), base=base)


def test_n_features(write):
    path = write("1 1:1 5:2\n2 2:3\n3 3:1 4:2\n")
    for layout in ("dense", "csr"):
        wide = load_svmlight(path, n_features=7, layout=layout)
        assert wide.X.shape == (3, 7) and wide.notices == []
        narrow = load_svmlight(path, n_features=3, layout=layout)
        dense = narrow.X if layout == "dense" else narrow.X.toarray()
        assert dense.tolist() == [[1, 0, 0], [0, 3, 0], [0, 0, 1]]
        assert narrow.notices == [
            f"{path}: ignoring features beyond n_features=3 (largest index 5 at line 1)"
        ]
    assert narrow.X.nnz == 3 and narrow.X.has_sorted_indices
    assert load_svmlight(write("1\n2\n"), n_features=4).X.shape == (2, 4)


def test_layout(write):
    import scipy.sparse

    few = load_svmlight(write("1 1:1 1000:2\n"))
    assert isinstance(few.X, np.ndarray)
    sparse = load_svmlight(write("1 1:1 20000000:2\n" * 3))
    assert isinstance(sparse.X, scipy.sparse.csr_matrix)
    assert (
        sparse.X.dtype == np.float32 and sparse.X.indices.dtype == sparse.X.indptr.dtype == np.int32
    )
    assert sparse.X.shape == (3, 20_000_000) and sparse.X.nnz == 6
    # 12,000 x 1,000 float32 is more than "small": the share of entries decides.
    row = "1 " + " ".join(f"{j}:1" for j in range(1, 1001, 5))
    assert isinstance(load_svmlight(write(f"{row} 1000:1\n" * 12_000)).X, np.ndarray)
    row = "1 " + " ".join(f"{j}:1" for j in range(1, 1001, 8))
    assert not isinstance(load_svmlight(write(f"{row} 1000:1\n" * 12_000)).X, np.ndarray)


@pytest.mark.posix
def test_one_huge_index_is_not_a_dense_allocation(write):
    text = "1 1:1\n" * 1000 + "1 2:1 2000000000:1\n"
    with pytest.raises(SvmlightMemoryError) as caught:
        load_svmlight(write(text), layout="dense")
    message = str(caught.value)
    assert (
        "1001 rows and 2000000000 features (largest index 2000000000 at line 1001, column 7)"
        in message
    )
    assert "needs about 7.3 TiB and this machine has" in message
    assert "use layout='csr' or a smaller n_features" in message
    assert isinstance(caught.value, MemoryError)
    assert load_svmlight(write(text)).X.nnz == 1002


def test_memory_limit(write, monkeypatch):
    text = "1 1:1 1000:1\n" * 1000
    assert load_svmlight(write(text), layout="dense", memory_limit=10_000_000).X.shape == (
        1000,
        1000,
    )
    with pytest.raises(
        SvmlightMemoryError, match="needs about 3.8 MiB and memory_limit=2000000 leaves 1.9 MiB"
    ):
        load_svmlight(write(text), layout="dense", memory_limit=2_000_000)
    assert not isinstance(load_svmlight(write(text), memory_limit=2_000_000).X, np.ndarray)
    with pytest.raises(
        SvmlightMemoryError, match="reading .* needs about .* memory_limit=20000 leaves"
    ):
        load_svmlight(write(text), memory_limit=20_000)
    monkeypatch.setattr(svmlight, "available_memory", lambda: 20_000)
    with pytest.raises(SvmlightMemoryError, match="this machine has 19.5 KiB"):
        load_svmlight(write(text))
    monkeypatch.setattr(svmlight, "available_memory", lambda: None)
    assert load_svmlight(write(text), layout="dense").X.shape == (1000, 1000)


@pytest.mark.parametrize("how", ["rows", "lists of labels", "line by line"])
def test_a_line_without_end_is_refused_before_it_is_read(write, monkeypatch, how):
    """It is 32 MB, and 32 kB as an archive."""
    path = write("1 1:1\n")
    packed = path.with_suffix(".gz")
    packed.write_bytes(gzip.compress(b"1 1:1\n" + bytes(1 << 25)))
    monkeypatch.setattr(archives, "PART", 100_000)
    for module in svmlight, svmlines:
        monkeypatch.setattr(module, "available_memory", lambda: 2_500_000)

    def read(path):
        if how == "line by line":
            return list(svmlines.Lines(os.fspath(path), 1, 1))
        return load_svmlight(path, multilabel=how != "rows")

    read(path)
    tracemalloc.start()
    try:
        with pytest.raises(
            SvmlightMemoryError,
            match="a line .* needs about .*; check that the file has line breaks",
        ):
            read(packed)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("end", ["\n", ""])
def test_long_lines_in_parts(write, monkeypatch, end):
    """A line may end where a part does."""
    rows = [" ".join(f"{j}:{j % 7}" for j in range(1, 200 + n)) for n in range(3)]
    text = "\n".join(f"{n},9 {row}" for n, row in enumerate(rows)) + end
    length = len(text.partition("\n")[0])
    path = write(text)
    alone = [f"{n} {row}\n" for n, row in enumerate(rows)]
    expected = load_svmlight(write("".join(alone), "alone"))
    for part in (1, 7, length, length + 1, len(text)):
        monkeypatch.setattr(archives, "PART", part)
        actual = load_svmlight(path, multilabel=True)
        assert actual.y.tolist() == [(0, 9), (1, 9), (2, 9)]
        np.testing.assert_array_equal(actual.X, expected.X)
        lines = list(svmlines.Lines(os.fspath(path.parent / "alone"), 201, 1))
        np.testing.assert_array_equal(np.concatenate([row for row, _ in lines]), expected.X)
        assert [label for _, label in lines] == [0, 1, 2]


def test_available_memory_is_plausible():
    room = svmlight.available_memory()
    assert room is None or 2**20 < room < 2**50


@pytest.mark.parametrize(
    "options", [{"base": 2}, {"base": True}, {"base": np.True_}, {"layout": "sparse"}, {"n_features": 0},
                {"n_features": 2.0}, {"n_features": 2**31}, {"memory_limit": 0}]
)  # fmt: skip
def test_bad_options(write, options):
    with pytest.raises(ValueError, match=f"{next(iter(options))}=.*expected") as caught:
        load_svmlight(write("1 1:1\n"), **options)
    assert not isinstance(caught.value, SvmlightError)


@pytest.mark.parametrize("chunk", [1, 2, 7, 64, 1000])
def test_chunks_do_not_show(write, monkeypatch, chunk):
    generator = np.random.default_rng(3)
    text = "".join(
        f"{i % 5} "
        + " ".join(f"{j}:{generator.normal():.6g}" for j in range(1, generator.integers(2, 30)))
        + "\n"
        for i in range(60)
    )
    whole = load_svmlight(write(text), layout="csr")
    monkeypatch.setattr(svmlight, "CHUNK", chunk)
    parts = load_svmlight(write(text), layout="csr")
    assert (whole.X != parts.X).nnz == 0 and whole.X.nnz == parts.X.nnz
    np.testing.assert_array_equal(whole.y, parts.y)
    with pytest.raises(SvmlightError, match=r"train\.svm:61:5: "):
        load_svmlight(write(text + "1 1:x\n"))


def test_standard_input(write, monkeypatch):
    class Pipe(io.BytesIO):
        def readinto(self, view):
            return super().readinto(view[:5])

    monkeypatch.setattr(
        sys, "stdin", type("Stdin", (), {"buffer": Pipe(b"1 1:2\n2 1:3 2:12345678\n")})
    )
    data = load_svmlight("-")
    assert data.X.tolist() == [[2, 0], [3, 12345678]]
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": Pipe(b"1 1:2\n2 0:3\n")}))
    with pytest.raises(SvmlightError, match="^<stdin>:2:3: feature index 0"):
        load_svmlight("-", base=1)


def test_scipy_is_not_imported_for_dense_rows(write):
    code = (
        "import sys\n"
        "from pymcboost import load_svmlight\n"
        "load_svmlight(sys.argv[1], layout='dense')\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('scipy', 'sklearn')]\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(pymcboost.__file__))}
    subprocess.run([sys.executable, "-c", code, str(write("1 1:1\n"))], check=True, env=environment)


@pytest.mark.parametrize("name", ["a.svm", "a.svm.gz", "a.svm.bz2", "a.svm.xz"])
@pytest.mark.parametrize("base", [0, 1])
def test_round_trip(tmp_path, monkeypatch, name, base):
    generator = np.random.default_rng(0)
    X = generator.integers(0, 2**32, (300, 30), dtype=np.uint32).view(np.float32)
    X[generator.random(X.shape) < 0.5] = 0
    X[0, 0], X[1, 29] = -0.0, np.float32(1e-45)
    X[7] = 0
    y = generator.integers(-3, 4, 300)
    dump_svmlight(tmp_path / name, X, y, base=base)
    data = load_svmlight(tmp_path / name, base=base, layout="dense")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    monkeypatch.setattr(svmlight, "CHUNK", 100)
    np.testing.assert_array_equal(load_svmlight(tmp_path / name, base=base, layout="dense").X, X)
    import scipy.sparse

    other = tmp_path / ("b" + name)
    dump_svmlight(other, scipy.sparse.csr_matrix(X[:, ::-1])[:, ::-1], y, base=base)
    np.testing.assert_array_equal(load_svmlight(other, base=base).X, X)


def test_dump_text(tmp_path):
    path = tmp_path / "t.svm"
    dump_svmlight(path, np.array([[0.1, 0, np.nan], [0, 16777216, 1e-7]]), [1.5, -2])
    assert path.read_bytes() == b"1.5 1:0.1 3:nan\n-2 2:1.6777216e+07 3:1e-07\n"
    mask = os.umask(0)
    os.umask(mask)
    assert os.name == "nt" or stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_dump_into_a_missing_folder(tmp_path):
    path = tmp_path / "no" / "t.svm"
    with pytest.raises(
        FileNotFoundError,
        match=f"the folder for the file {path} does not exist; create it first: '{path.parent}'",
    ):
        dump_svmlight(path, np.ones((1, 1)), [1])


@pytest.mark.posix
def test_dump_follows_links_keeps_permissions_and_streams(tmp_path):
    (tmp_path / "t.svm").write_text("old\n")
    (tmp_path / "t.svm").chmod(0o600)
    (tmp_path / "link").symlink_to("t.svm")
    dump_svmlight(tmp_path / "link", [[1]], [1])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "t.svm").read_text() == "1 1:1\n"
    assert stat.S_IMODE((tmp_path / "t.svm").stat().st_mode) == 0o600
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    dump_svmlight(tmp_path / "pipe", [[2]], [1])
    assert os.read(reader, 100) == b"1 1:2\n"
    os.close(reader)
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


def test_dump_keeps_the_old_file_on_failure(tmp_path):
    path = tmp_path / "t.svm"
    path.write_text("old\n")

    class Sparse:
        def tocsr(self):
            raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        dump_svmlight(path, Sparse(), [1])
    original = svmwrite._write_lines

    def stops(*arguments):
        yield next(original(*arguments))
        raise OSError("disk full")

    svmwrite._write_lines = stops
    try:
        with pytest.raises(OSError, match="disk full"):
            dump_svmlight(path, np.ones((2, 1)), [1, 2])
    finally:
        svmwrite._write_lines = original
    assert path.read_text() == "old\n" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "X, y, options, words",
    [
        (np.ones((2, 1)), ["a", "b"], {}, "labels are numbers"),
        (np.ones((2, 1)), [1, np.nan], {}, "not finite"),
        (np.ones((2, 1)), [1, 2**60], {}, "beyond"),
        (np.ones((2, 1)), [1, 2**53 + 1], {}, "beyond"),
        (np.ones((2, 1)), [1], {}, "expected"),
        (np.ones(2), [1, 2], {}, "expected"),
        (np.ones((2, 1)), [1, 2], {"base": 3}, "expected 0 or 1"),
    ],
)
def test_dump_refusals(tmp_path, X, y, options, words):
    with pytest.raises(ValueError, match=words):
        dump_svmlight(tmp_path / "x", X, y, **options)
    assert not list(tmp_path.iterdir())


def test_agrees_with_scikit_learn(tmp_path):
    from sklearn.datasets import load_svmlight_file

    generator = np.random.default_rng(1)
    X = np.where(generator.random((300, 40)) < 0.3, generator.normal(size=(300, 40)), 0)
    path = tmp_path / "x.svm"
    dump_svmlight(path, X, generator.integers(0, 9, 300))
    theirs, labels = load_svmlight_file(str(path), dtype=np.float32)
    ours = load_svmlight(path, layout="csr")
    assert ours.X.shape == theirs.shape and ours.X.nnz == theirs.nnz and (ours.X != theirs).nnz == 0
    np.testing.assert_array_equal(ours.y, labels)


def test_data_folder_is_what_make_data_writes(tmp_path, monkeypatch):
    root = Path(__file__).resolve().parents[2]
    monkeypatch.setattr(sys, "argv", ["make_data.py", str(tmp_path)])
    with pytest.raises(SystemExit, match="^0$"):
        runpy.run_path(str(root / "tools" / "make_data.py"), run_name="__main__")
    names = sorted(path.name for path in tmp_path.iterdir())
    libsvm = ["digits.test.libsvm", "digits.train.libsvm", "iris.libsvm", "wine.libsvm"]
    assert names == sorted([*libsvm, "tickets.csv"])
    for name in names:
        assert (tmp_path / name).read_bytes() == Path(root, "data", name).read_bytes()
    train, test = (
        load_svmlight(tmp_path / f"digits.{part}.libsvm", n_features=64)
        for part in ("train", "test")
    )
    assert train.X.shape == (1347, 64) and test.X.shape == (450, 64)
    assert min(np.bincount(test.y)) >= 43 and set(test.y) == set(range(10))


def test_plain_rows_are_what_scipy_gets(tmp_path):
    path = tmp_path / "t.svm"
    path.write_text("".join(f"1 {i + 1}:2 {i + 9000}:nan\n" for i in range(2000)))
    plain = load_svmlight(path, layout="plain").X
    sparse = load_svmlight(path, layout="csr").X
    assert type(plain).__name__ == "CompressedRows"
    assert plain.shape == sparse.shape
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(sparse, name))
    path.write_text("1 1:2 3:4\n")
    np.testing.assert_array_equal(
        load_svmlight(path, layout="plain").X, np.array([[2, 0, 4]], np.float32)
    )
