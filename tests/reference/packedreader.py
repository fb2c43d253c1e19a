"""Slow twin of the section PACK of ``mcb.h``, in plain Python, written from docs/format.md alone."""

import math
import struct

SIZES = {1: "B", 2: "H", 3: "I"}


class RefusedError(Exception):
    """The number of the refusal is the only argument."""


def need(good, status):
    """Refuse unless."""
    if not good:
        raise RefusedError(status)


class Pack:
    """Tables and numbers of packed trees."""

    def __init__(self, data, n_classes):
        need(len(data) >= 32, 75)
        T, S, C, used, least, V, flags, *bits, feature, first, last = struct.unpack(
            "<IIIIIH10B", data[:32]
        )
        self.own, self.missing, half, half_value = (flags >> bit & 1 for bit in range(4))
        need(flags < 16 and last == 0, 75)
        need(all(width <= 32 for width in bits), 75)
        need(1 <= bits[4] <= 8 and (self.own or bits[5] == 0), 75)
        need({feature, first} <= {1, 2, 3}, 75)
        self.columns = 1 if self.own else n_classes
        tables = [
            (used, SIZES[feature]),
            (used + 1, SIZES[first]),
            (C, "fe"[half]),
            (V, "fe"[half_value]),
        ]
        split = [*bits[1:4], *[1] * self.missing]
        leaves = (S + T) * self.columns
        streams = [(T, bits[:1]), (T, bits[5:]), (S, split), (leaves, bits[4:5])]
        size = sum(n * struct.calcsize(code) for n, code in tables)
        need(len(data) == 32 + size + sum((n * sum(widths) + 7) // 8 for n, widths in streams), 76)
        at = 32
        found = []
        for n, code in tables:
            found.append(struct.unpack_from(f"<{n}{code}", data, at))
            at += n * struct.calcsize(code)
        for n, widths in streams:
            found.append(list(numbers(data[at:], n, widths)))
            at += (n * sum(widths) + 7) // 8
        self.feature, self.first, self.threshold, self.value, sizes, classes, self.split, leaves = (
            found
        )
        self.sizes = [least + size for (size,) in sizes]
        self.cls = [cls for (cls,) in classes]
        self.leaf = [leaf for (leaf,) in leaves]

    def contents(self, d, K):
        """Refuse what is out of range."""
        first = self.first
        need(all(f < d for f in self.feature), 31)
        need(all(a < b for a, b in zip(self.feature, self.feature[1:], strict=False)), 31)
        need(first[0] == 0 and first[-1] == len(self.threshold), 32)
        need(all(a < b for a, b in zip(first, first[1:], strict=False)), 32)
        need(all(map(math.isfinite, self.threshold)), 33)
        need(all(map(math.isfinite, self.value)), 47)
        need(sum(self.sizes) == len(self.split), 42)
        need(
            all(f < len(self.feature) and c < first[f + 1] - first[f] for f, c, *_ in self.split),
            77,
        )
        begin = 0
        for size in self.sizes:
            parts = [(begin, begin + size)]
            begin += size
            while parts:
                at, end = parts.pop()
                if at < end:
                    right = at + 1 + self.split[at][2]
                    need(right <= end, 43)
                    parts += [(at + 1, right), (right, end)]
        need(all(cls < K for cls in self.cls), 44)
        need(all(leaf < len(self.value) for leaf in self.leaf), 78)

    def add(self, row, F):
        """Add the trees to the scores of a row."""
        begin = 0
        for t, size in enumerate(self.sizes):
            i = begin
            end = begin + size
            at = begin + t
            begin = end
            while i < end:
                f, c, right, *nan_left = self.split[i]
                x = row[self.feature[f]]
                if x <= self.threshold[self.first[f] + c] or (x != x and nan_left == [1]):
                    i, end = i + 1, i + 1 + right
                else:
                    i, at = i + 1 + right, at + 1 + right
            for k in range(self.columns):
                F[self.cls[t] if self.own else k] += self.value[self.leaf[at * self.columns + k]]
        return F


def numbers(data, n, widths):
    """Yield n tuples of numbers of so many bits, the lowest bit first."""
    bit = 0
    for _ in range(n):
        item = []
        for width in widths:
            item.append(
                sum((data[b // 8] >> b % 8 & 1) << (b - bit) for b in range(bit, bit + width))
            )
            bit += width
        yield tuple(item)
