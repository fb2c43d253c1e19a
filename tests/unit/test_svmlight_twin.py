"""The scanner against its twin: numbers, and random mutations of valid files."""

import random
import shutil
import struct
import subprocess
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from reference import svmtext as twin

import pymcboost
from pymcboost._kernels import svmtext as kernel

# Multiplies the random cases; 1 takes seconds.
SCALES = pytest.mark.parametrize("scale", [1, pytest.param(20, marks=pytest.mark.slow)])


def scan(text, base="auto"):
    """(code, line, column, rows, labels, labelled) of the kernel for one text."""
    if not text.endswith(b"\n"):
        text += b"\n"
    n = len(text)
    scanner = kernel.Scanner(1 if base == 1 else 0, 0)
    indices, values = np.empty(n // 4, np.int32), np.empty(n // 4, np.float32)
    indptr = np.zeros(n // 2 + 1, np.int64)
    labels = np.empty(n // 2)
    labelled = np.empty(n // 2, np.uint8)
    code = scanner.feed(
        text + b"\xff" * kernel.PADDING, n, indices, values, indptr, labels, labelled
    )
    m = scanner.rows
    rows = [
        list(zip(indices[a:b].tolist(), values[a:b], strict=True))
        for a, b in pairwise(indptr[: m + 1])
    ]
    return (
        code,
        scanner.line + 1,
        scanner.error[1],
        rows,
        labels[:m].tolist(),
        labelled[:m].astype(bool).tolist(),
    )


def same_as_twin(text, base="auto"):
    """Assert equal results or equal errors; whether the text was accepted."""
    code, line, column, rows, labels, labelled = scan(text, base)
    try:
        expected = twin.parse(text, base)
    except twin.TextError as error:
        assert (code, line, column) == (error.code, error.line, error.column), text
        return error.code
    assert code == "ok", (text, code, line, column)
    assert (labels, labelled) == expected[1:], text
    assert [[index for index, _ in row] for row in rows] == [
        [index for index, _ in row] for row in expected[0]
    ], text
    ours = np.array([value for row in rows for _, value in row], np.float32)
    theirs = np.array([value for row in expected[0] for _, value in row], np.float32)
    nan = np.isnan(ours)
    assert (nan == np.isnan(theirs)).all(), text
    assert (ours.view(np.uint32)[~nan] == theirs.view(np.uint32)[~nan]).all(), text
    return "ok"


def numbers(generator, count):
    """Random decimal numbers of every shape, with many at and beside the float32 rounding boundaries."""
    for _ in range(count):
        kind = generator.randrange(10)
        if kind < 2:
            yield repr(
                struct.unpack(
                    "<d", struct.pack("<Q", generator.getrandbits(64) & ~(1 << 62) | (7 << 59))
                )[0]
            )
        elif kind < 4:
            value = np.uint32(generator.randrange(0x7F7FFFFF)).view(np.float32)
            yield f"{value:.{generator.randrange(1, 18)}g}"
        elif kind < 6:
            low = np.uint32(generator.randrange(0x7F7FFFFE)).view(np.float32)
            high = np.nextafter(low, np.float32(np.inf))
            middle = (Decimal(float(low)) + Decimal(float(high))) / 2
            digits = generator.choice((17, 19, 20, 25, 60, 200))
            yield f"{middle:.{digits}g}" + generator.choice(("", "", "1", "0001")) * (
                "e" not in f"{middle:.{digits}g}"
            )
        elif kind < 8:
            whole, part = generator.randrange(0, 12), generator.randrange(0, 25)
            text = "".join(generator.choice("0123456789") for _ in range(whole + part))
            text = text[:whole] + "." + text[whole:] if part else text or "0"
            yield generator.choice(("", "-", "+")) + (text if text != "." else "0.")
        else:
            mantissa = "".join(
                generator.choice("0123456789") for _ in range(generator.randrange(1, 30))
            )
            cut = generator.randrange(len(mantissa))
            text = mantissa[:cut] + generator.choice((".", "")) + mantissa[cut:]
            yield (
                text
                + generator.choice("eE")
                + generator.choice(("", "-", "+"))
                + str(generator.randrange(0, 60))
            )


@SCALES
def test_numbers_round_like_python(scale):
    generator = random.Random(5 + scale)
    count = 200_000 * scale if scale > 1 else 25_000
    texts = []
    expected = []
    with np.errstate(over="ignore"):
        for text in numbers(generator, count):
            value = np.float32(float(text))
            if np.isfinite(value):
                texts.append(text)
                expected.append(value)
    assert len(texts) > 0.8 * count
    code, _, _, rows, _, _ = scan("".join(f"1 1:{text}\n" for text in texts).encode())
    assert code == "ok"
    ours = np.array([row[0][1] for row in rows], np.float32).view(np.uint32)
    bad = np.flatnonzero(ours != np.array(expected, np.float32).view(np.uint32))
    assert not bad.size, [texts[i] for i in bad[:5]]


@pytest.mark.parametrize(
    "text",
    ["3.4028235677973366e38", "3.4028235677973362e38", "3.40282356779733661637539395458142568447e38",
     "340282356779733661637539395458142568448", "340282356779733661637539395458142568447", "1e-400", "0e999999999999",
     "1e99999999999999999999", "1e-99999999999999999999", "0." + "0" * 400 + "1e400", "1" + "0" * 400 + "e-400",
     "-0", "-0.0", "00000000000000000000000001.5", "7.006492321624085e-46", "7.006492321624086e-46", "99999999",
     "16777217", "123456789012345678901234567890e-10", "9007199254740993", "0.1", "1e22", "1e23", "8.5e-46"],
)  # fmt: skip
def test_special_numbers(text):
    same_as_twin(f"1 1:{text}\n".encode())


@pytest.mark.parametrize(
    "text",
    ["1e22", "0.1", "-4503599627370497.5", "9007199254740992", "9007199254740993", "2e-400", "-9007199254740993",
     "9007199254740992.5", "4503599627370497.25", "1.00000000000000000000", "1.00000000000000000001", "10e-1",
     "0.99999999999999999999", "900719925474099200e-2", "90071992547409930e-1", "0e999999999999", "0.0e-99", "5e15",
     "00000000000000000000000000000000000007", "9007199254740991.00", "0.0000000000000000000000000000001e31"],
)  # fmt: skip
def test_special_labels(text):
    same_as_twin(f"{text} 1:1\n".encode())


SEEDS = [
    b"1 1:5.1 2:3.5 3:1.4 4:0.2\n2 1:4.9 2:3 3:-1.4e-3 4:.2\n",
    b"+1 qid:3 1:0.12345678901234567 7:1e3 # text 3:4\r\n\r\n-1 2147483647:12 \n",
    b"0 0:1 1:nan 2:inf\n1:3 2:4\n# only a comment\n3.5 99999999:1 100000000:2\n",
    b"12 153:3 154:18 155:18 156:18 157:126 158:136 159:175\t160:26 161:166 162:255\n",
]
PIECES = [
    b":",
    b" ",
    b"\n",
    b"\r",
    b"\r\n",
    b"\t",
    b"#",
    b"-",
    b"+",
    b".",
    b"e",
    b"0",
    b"1",
    b"9",
    b"qid:",
    b"nan",
    b",",
    b"\0",
    b"2147483648",
    b"9007199254740993",
    b"18446744073709551617",
    b"1e39",
    b"\xff",
    b"0x1",
    b"e-999",
    b"12345678",
    b"123456789",
]


def mutations(generator, count):
    for _ in range(count):
        text = bytearray(generator.choice(SEEDS) * generator.randrange(1, 3))
        for _ in range(generator.randrange(1, 5)):
            at = generator.randrange(len(text) + 1)
            kind = generator.randrange(5)
            if kind == 0:
                text[at:at] = generator.choice(PIECES)
            elif kind == 1:
                del text[at : at + generator.randrange(1, 6)]
            elif kind == 2 and at < len(text):
                text[at] = generator.randrange(256)
            elif kind == 3 and at < len(text):
                text[at : at + 1] = generator.choice(PIECES)
            else:
                text[at:at] = text[at : at + generator.randrange(1, 12)]
        yield bytes(text)


@SCALES
def test_mutated_files(scale):
    seen = set()
    generator = random.Random(9 + scale)
    for text in mutations(generator, 20_000 * scale if scale > 1 else 8_000):
        seen.add(same_as_twin(text, generator.choice(("auto", 0, 1))))
    assert seen == set(kernel.CODES) - {"conversion failed"}


def test_mutated_files_through_the_loader(tmp_path):
    path = tmp_path / "m.svm"
    for text in mutations(random.Random(10), 120):
        path.write_bytes(text)
        try:
            rows = twin.parse(text)[0]
            largest = max((index for row in rows for index, _ in row), default=-1)
            bad = largest < 0 or (
                largest == 2**31 - 1 and any(row and row[0][0] == 0 for row in rows)
            )
        except twin.TextError:
            bad = True
        if bad:
            with pytest.raises(pymcboost.SvmlightError):
                pymcboost.load_svmlight(path)
            continue
        data = pymcboost.load_svmlight(path, layout="csr")
        assert data.X.shape == (len(rows), largest + 1 - data.base)
        for i, row in enumerate(rows):
            span = slice(data.X.indptr[i], data.X.indptr[i + 1])
            assert data.X.indices[span].tolist() == [index - data.base for index, _ in row]
            np.testing.assert_array_equal(data.X.data[span], [value for _, value in row])


def test_feed_checks_its_buffers():
    arrays = (
        np.empty(1, np.int32),
        np.empty(1, np.float32),
        np.zeros(2, np.int64),
        np.empty(1),
        np.empty(1, np.uint8),
    )
    padding = bytes(kernel.PADDING)
    for text, length in (
        (b"1 1:1", 5),
        (b"1 1:1\n", 6),
        (b"1 1:1\n" + padding, 5),
        (b"1 1:1\n" + padding, 0),
    ):
        with pytest.raises(ValueError, match="newline"):
            kernel.Scanner(0, 0).feed(text, length, *arrays)
    with pytest.raises(ValueError, match="too small"):
        kernel.Scanner(0, 0).feed(b"1 1:1\n" + padding, 6, *arrays)


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
@SCALES
def test_under_sanitizers(tmp_path, scale):
    """The mutations again through the C code alone: no undefined behaviour, nothing read or written out of bounds."""
    program = tmp_path / "scan"
    headers = Path(__file__).resolve().parents[2] / "pymcboost" / "_kernels"
    flags = [
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-g",
        "-O1",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    ]
    build = [
        "cc",
        *flags,
        f"-I{headers}",
        "-o",
        str(program),
        str(Path(__file__).with_name("svmtext_main.c")),
        "-lm",
    ]
    completed = subprocess.run(build, capture_output=True, text=True, check=False)
    if completed.returncode and ("asan" in completed.stderr or "sanitize" in completed.stderr):
        pytest.skip("this compiler has no sanitizers")
    assert completed.returncode == 0, completed.stderr
    texts = list(mutations(random.Random(11 + scale), 20_000 * scale if scale > 1 else 5_000))
    texts = [text if text.endswith(b"\n") else text + b"\n" for text in texts]
    stream = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    completed = subprocess.run(
        [str(program)], input=stream, capture_output=True, timeout=600, check=False
    )
    assert completed.returncode == 0, completed.stderr.decode()[:2000]
    codes = [int(line) for line in completed.stdout.split()]
    assert codes == [kernel.CODES.index(scan(text)[0]) for text in texts]
