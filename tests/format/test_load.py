"""Model files are read no further than their headers say, from files and from pipes."""

import os
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest
from reference.modelreader import checksum
from reference.scoring import random_stumps

from pymcboost._kernels import score
from pymcboost.model import file
from pymcboost.model.file import ModelFormatError
from pymcboost.model.model import Model, load_model

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")


@pytest.fixture
def model():
    return Model.from_ensemble(random_stumps(3000, 5, 30), range(30))


@pytest.fixture
def through_pipe(tmp_path):
    """Function: what `load_model` returns of a pipe into which this is written; the bytes written end up in a list."""
    writers = []

    def load(chunks):
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        written = []

        def write():
            try:
                with open(pipe, "wb", buffering=0) as out:
                    for chunk in chunks:
                        written.append(out.write(chunk))
            except BrokenPipeError:
                pass

        writers.append(threading.Thread(target=write))
        writers[-1].start()
        try:
            return load_model(pipe), written
        finally:
            writers[-1].join(60)
            load.written = sum(written)

    yield load
    assert not any(writer.is_alive() for writer in writers)


@pytest.mark.parametrize("step", [7, 64, 1000, 1 << 20])
def test_pipe(model, through_pipe, step):
    data = model.to_bytes()
    chunks = [data[at : at + step] for at in range(0, 2000, step)]
    chunks.append(data[sum(map(len, chunks)) :])
    assert through_pipe(chunks)[0].to_bytes() == data


def test_pipe_that_is_cut_short_or_goes_on(model, through_pipe, tmp_path):
    data = model.to_bytes()
    for chunks in ([data[:-1]], [data[:100]], [data, b"x"]):
        with pytest.raises(ModelFormatError, match="cut short, or bytes were added"):
            through_pipe(chunks)
        (tmp_path / "pipe").unlink()


def test_bytes_that_are_none():
    for wrong in ("text", 5):
        with pytest.raises(TypeError, match="bytes-like"):
            Model.from_bytes(wrong)


def test_pipe_that_promises_more_than_the_free_memory(model, through_pipe, monkeypatch):
    monkeypatch.setattr(file, "available_memory", lambda: 10_000)
    with pytest.raises(MemoryError, match=r"pipe: the model takes .* KiB, but 9.8 KiB are free"):
        through_pipe([model.to_bytes()])


def test_file_that_is_larger_than_the_free_memory(model, tmp_path, monkeypatch):
    """A header is written in no time, and a file with holes takes no room on the disk."""
    size = 1 << 33
    head = bytearray(model.to_bytes())
    struct.pack_into("<Q", head, 16, size)
    path = tmp_path / "large.mcb"
    path.write_bytes(head)
    os.truncate(path, size)
    monkeypatch.setattr(file, "available_memory", lambda: size - 1)
    monkeypatch.setattr(file, "_read_at_most", lambda stream, size, *_: stream.read(min(size, 64)))
    with pytest.raises(
        MemoryError, match=r"large.mcb: the model takes 8.0 GiB, but 8.0 GiB are free"
    ):
        load_model(path)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 2**63, 2**64 - 1])
def test_pipe_with_a_forged_size(model, through_pipe, size):
    head = bytearray(model.to_bytes())
    struct.pack_into("<Q", head, 16, size)
    with pytest.raises((ModelFormatError, MemoryError)):
        through_pipe([bytes(head)])


def test_standard_input(model, tmp_path):
    model.save(tmp_path / "m.mcb")
    code = "import pymcboost; print(pymcboost.load_model('/dev/stdin').n_classes_)"
    with subprocess.Popen(["cat", str(tmp_path / "m.mcb")], stdout=subprocess.PIPE) as cat:
        completed = subprocess.run(
            [sys.executable, "-c", code], stdin=cat.stdout, capture_output=True, text=True
        )
    assert completed.stdout == "30\n", completed.stderr


def test_large_files_come_in_several_pieces(model, tmp_path):
    """The system gives at most 2 GiB at once; here less."""

    class Few:
        def __init__(self, data):
            self.data = data
            self.asked = []

        def read(self, n):
            self.asked.append(n)
            part = self.data[: min(n, 1000)]
            self.data = self.data[min(n, 1000) :]
            return part

    data = model.to_bytes()
    few = Few(data + b"more")
    assert file._read_at_most(few, len(data), len(data)) == data
    assert few.asked[:2] == [len(data), len(data) - 1000]


def test_checksums_of_any_length_at_any_address():
    data = np.random.default_rng(0).integers(0, 256, 700, dtype=np.uint8)
    for begin in (0, 1, 7, 12):
        for n in (*range(140), 512, 600, 683):
            part = data[begin : begin + n]
            cut = n // 3
            assert score.crc32c(part) == checksum(part.tobytes())
            assert score.crc32c(part[cut:], score.crc32c(part[:cut])) == checksum(part.tobytes())
