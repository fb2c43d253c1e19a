"""Reader of Universal Binary JSON as XGBoost writes it: objects, strings, numbers, and typed arrays."""

import numpy as np

# Markers of number types, and the NumPy types.
TYPES = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
WORDS = {b"Z": None, b"T": True, b"F": False}
DEEPEST = 40


def loads(data):
    """Decode a value from bytes; ValueError if they are damaged."""
    reader = _Reader(data)
    value = reader.value(reader.take(1), 0)
    if reader.position != len(data):
        raise ValueError(
            f"byte {reader.position}: {len(data) - reader.position} bytes follow the end of the data"
        )
    return value


class _Reader:
    """Bytes with a position."""

    def __init__(self, data):
        self.data = data
        self.position = 0

    def take(self, n):
        """Read the next n bytes."""
        if n > len(self.data) - self.position:
            raise ValueError(
                f"byte {self.position}: {n} bytes should follow, but there are only "
                f"{len(self.data) - self.position}"
            )
        self.position += n
        return self.data[self.position - n : self.position]

    def numbers(self, marker, n):
        """Read n numbers of a type."""
        if marker not in TYPES:
            raise ValueError(f"byte {self.position}: the marker {marker!r} is not supported")
        dtype = np.dtype(TYPES[marker])
        return np.frombuffer(self.take(n * dtype.itemsize), dtype)

    def length(self):
        """Read a number of bytes or items."""
        marker = self.take(1)
        n = int(self.numbers(marker, 1)[0]) if marker not in b"dD" else -1
        if n < 0:
            raise ValueError(f"byte {self.position}: a length must be an integer >= 0")
        return n

    def text(self):
        """Read a UTF-8 string."""
        return self.take(self.length()).decode()

    def value(self, marker, depth):
        """Read the value that a marker introduces."""
        if depth > DEEPEST:
            raise ValueError(f"byte {self.position}: values are nested more than {DEEPEST} deep")
        if marker in WORDS:
            return WORDS[marker]
        if marker in (b"S", b"H"):
            return self.text()
        if marker == b"C":
            return self.take(1).decode()
        if marker == b"[":
            return self.array(depth)
        if marker == b"{":
            return self.object(depth)
        return self.numbers(marker, 1)[0].item()

    def array(self, depth):
        """Read a list, or an array if all numbers have one type."""
        marker = self.take(1)
        values = []
        if marker == b"$":
            number_type = self.take(1)
            if self.take(1) != b"#":
                raise ValueError(
                    f"byte {self.position}: a typed array needs a count after the type"
                )
            return self.numbers(number_type, self.length())
        if marker == b"#":
            return [self.value(self.take(1), depth + 1) for _ in range(self.length())]
        while marker != b"]":
            values.append(self.value(marker, depth + 1))
            marker = self.take(1)
        return values

    def object(self, depth):
        """Read a dictionary."""
        values = {}
        while self.data[self.position : self.position + 1] != b"}":
            key = self.text()
            values[key] = self.value(self.take(1), depth + 1)
        self.position += 1
        return values
