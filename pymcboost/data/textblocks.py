"""Parts of LIBSVM text that consist of whole lines."""

import io

BLOCK = 1 << 24


class LineRange(io.RawIOBase):
    """The lines of a file that start in one of ``parts`` equal ranges of its bytes; parts never share a line.

    Attributes
    ----------
    begin, end : int
        Where the lines are in the file.
    """

    def __init__(self, path, part, parts):
        self._file = open(path, "rb")
        size = self._file.seek(0, io.SEEK_END)
        self.begin = self._next_line(size * part // parts)
        self.end = self._next_line(size * (part + 1) // parts)
        self._file.seek(self.begin)

    def _next_line(self, offset):
        """Position of the first line that starts at ``offset`` or later."""
        if offset == 0:
            return 0
        self._file.seek(offset - 1)
        piece = self._file.readline(BLOCK)
        while piece and not piece.endswith(b"\n"):  # a long line
            piece = self._file.readline(BLOCK)
        return self._file.tell()

    def count_lines(self):
        """Count the lines of the range."""
        n_lines = 0
        last = b"\n"
        while block := self.read(BLOCK):
            n_lines += block.count(b"\n")
            last = block[-1:]
        self._file.seek(self.begin)
        return n_lines + (last != b"\n")

    def readable(self):
        """Whether it can be read."""
        return True

    def readinto(self, view):
        """Fill a part of a buffer; return the number of bytes."""
        with memoryview(view) as view:
            return self._file.readinto(view[: max(self.end - self._file.tell(), 0)])

    def close(self):
        """Close the file."""
        self._file.close()
        super().close()
