"""Parts of LIBSVM text that begin and end with lines."""

import io

from pymcboost.data import archives
from pymcboost.data.svmlight import intact

BLOCK = 1 << 24


def line_blocks(path):
    """Yield (bytes, lines before them) of whole lines."""
    stream, name, _, ours = archives.open_text(path)
    try:
        with intact(name):
            yield from blocks_of(stream)
    finally:
        if ours:
            stream.close()


def blocks_of(stream, lines=0):
    """The same of an open file, before which there are so many lines."""
    rest = []
    while piece := stream.read(BLOCK):
        end = piece.rfind(b"\n") + 1
        if end:
            block = b"".join([*rest, piece[:end]])
            yield block, lines
            lines += block.count(b"\n")
            rest = []
        rest.append(piece[end:])
    if any(rest):
        yield b"".join(rest), lines


class LineRange(io.RawIOBase):
    """The lines of a file that begin in one of ``parts`` equal ranges of its bytes: each line is in one of them.

    Attributes
    ----------
    begin, end : int
        Where the lines are in the file.
    """

    def __init__(self, path, part, parts):
        self._file = open(path, "rb")
        size = self._file.seek(0, io.SEEK_END)
        self.begin, self.end = (self._next_line(size * at // parts) for at in (part, part + 1))
        self._file.seek(self.begin)

    def _next_line(self, at):
        """The first line that begins at this place or after it."""
        if at:
            self._file.seek(at - 1)
            self._file.readline()
            return self._file.tell()
        return 0

    def count_lines(self):
        """How many lines the range has."""
        found, last = 0, b"\n"
        while block := self.read(BLOCK):
            found, last = found + block.count(b"\n"), block[-1:]
        self._file.seek(self.begin)
        return found + (last != b"\n")

    def readable(self):
        """Whether it can be read."""
        return True

    def readinto(self, view):
        """Fill a part of a buffer; how many bytes."""
        with memoryview(view) as view:
            return self._file.readinto(view[: max(self.end - self._file.tell(), 0)])

    def close(self):
        """Close the file."""
        self._file.close()
        super().close()
