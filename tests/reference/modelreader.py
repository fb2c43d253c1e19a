"""Slow twin of ``mcb.h``: checks and scores a model file in plain Python, written from docs/format.md alone.

With modelmath.py, it imports nothing of pymcboost. `File` refuses bytes with the number that the document gives to the
reason; its `scores` and `probabilities` take one row at a time.
"""

import math
import struct

from reference.modelmath import eight, exp, log, power, shortened, single
from reference.packedreader import Pack, need
from reference.packedreader import RefusedError as RefusedError

TYPES = {1: "B", 2: "H", 3: "I", 4: "q", 5: "f", 6: "d", 7: "e"}
NARROW = {1, 2, 3}
STUMPS = 1
INTERVALS = 2
TREES = 3
LINEAR = 5
KERNEL = 6
PACKED = 7
EVERY = {STUMPS, INTERVALS, TREES, LINEAR, KERNEL, PACKED}
# tag: types, kinds that need it, kinds that may have it
RULES = {
    b"FEAT": (NARROW, {STUMPS, TREES}, {STUMPS, TREES}),
    b"THRS": ({5}, {STUMPS, INTERVALS, TREES}, {STUMPS, INTERVALS, TREES}),
    b"COEF": ({5}, {STUMPS}, {STUMPS}),
    b"COEL": ({5}, set(), {STUMPS}),
    b"BIAS": ({5}, EVERY, EVERY),
    b"FIDX": (NARROW, {INTERVALS}, {INTERVALS}),
    b"IOFF": (NARROW, {INTERVALS}, {INTERVALS}),
    b"TABL": ({5}, {INTERVALS}, {INTERVALS}),
    b"TSIZ": (NARROW, {TREES}, {TREES}),
    b"RGHT": (NARROW, {TREES}, {TREES}),
    b"LEAF": ({5, 7}, {TREES}, {TREES}),
    b"TCLS": (NARROW, set(), {TREES}),
    b"CODE": ({5}, set(), {TREES}),
    b"TBAS": (NARROW, set(), {TREES}),
    b"RNDS": (NARROW, {TREES}, {TREES, PACKED}),
    b"PACK": ({1}, {PACKED}, {PACKED}),
    b"WMAT": ({5}, {LINEAR}, {LINEAR}),
    b"SVEC": ({5}, {KERNEL}, {KERNEL}),
    b"DUAL": ({5}, {KERNEL}, {KERNEL}),
    b"KPAR": ({5}, {KERNEL}, {KERNEL}),
    b"SCAL": ({5}, set(), {KERNEL}),
    b"CALB": ({6}, set(), EVERY),
    b"calb": ({6}, set(), EVERY),
    **{tag: (NARROW, set(), {TREES}) for tag in (b"CSET", b"COFF", b"CATF", b"CATN", b"CATO")},
    **{tag: ({1}, set(), {TREES}) for tag in (b"CBIT", b"CATS")},
    b"exit": (NARROW, set(), {STUMPS, TREES}),
    b"pair": ({5, 7}, set(), {STUMPS, TREES}),
    b"marg": ({6}, set(), {STUMPS, TREES}),
    b"rjct": ({6}, set(), {STUMPS, TREES}),
    b"ABOV": ({6}, set(), EVERY),
    b"LOFF": (NARROW, set(), {TREES}),
    b"LCLS": (NARROW, set(), {TREES}),
    b"LALL": ({5, 7}, set(), {TREES}),
    b"LABI": ({4}, set(), EVERY),
    b"LABO": (NARROW, set(), EVERY),
    b"LABS": ({1}, set(), EVERY),
    b"meta": ({1}, set(), EVERY),
}


CATEGORIES = (b"CSET", b"COFF", b"CBIT", b"CATF", b"CATN", b"CATO", b"CATS")
EXITS = (b"pair", b"marg", b"rjct")

# Faults that are looked for in one pass over a file: which of these is found first is left open.
TOGETHER = (
    {13, 29, 46, 53, 55, 61, 65, 70, 75, 76, 79},
    {32, 33, 34},
    {38, 39, 40, 41},
    {31, 40, 67},
    {71, 72},
    {43, 44, 77},
    {44, 78},
)


def whole(number, low, high):
    """Whether a float is a whole number within bounds."""
    return low <= number <= high and number == math.floor(number)


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def checksum(data):
    """CRC-32C."""
    state = 0xFFFFFFFF
    for byte in data:
        state = state >> 8 ^ _TABLE[(state ^ byte) & 255]
    return state ^ 0xFFFFFFFF


class File:
    """Header fields, and ``items[tag]``, a tuple of numbers, for every known section but meta; ``meta`` is bytes."""

    def __init__(self, data):
        need(len(data) >= 64, 1)
        need(data[:8] == bytes.fromhex("894D43420D0A1A0A"), 2)
        major, _, flags, size, count, reserved = struct.unpack_from("<HHIQII", data, 8)
        need(major == 1, 3)
        need(flags & 0xFFFF == 0, 4)
        need(size == len(data), 5)
        need(1 <= count <= 64 and 64 + 32 * count <= size, 6)
        self.K, self.d, self.kind, self.link, self.decoder, also, crc, last = struct.unpack_from(
            "<8I", data, 32
        )
        need(checksum(data[:56] + data[64 : 64 + 32 * count]) == crc, 7)
        need(reserved == also == last == 0, 8)
        need(2 <= self.K <= 65535, 9)
        need(1 <= self.d <= 2**31 - 1, 10)
        need(self.kind in EVERY, 11)
        need(self.link <= 4, 12)
        need(self.decoder == 0 or (self.decoder <= 2 and self.kind == TREES), 13)
        self.data = data
        self.items = {}
        self.types = {}
        self.meta = b""
        entries = [data[64 + 32 * i : 96 + 32 * i] for i in range(count)]
        end = 64 + 32 * count
        places = []
        for i, entry in enumerate(entries):
            need(entry[:4] not in [other[:4] for other in entries[:i]], 22)
            offset, n, width = self.entry(entry, end)
            end = offset + n * width
            places.append((offset, end, struct.unpack_from("<I", entry, 24)[0]))
        need(end == size, 26)
        need(all(tag in self.items for tag, rule in RULES.items() if self.kind in rule[1]), 27)
        text = {b"LABO", b"LABS"} & set(self.items)
        need((b"LABI" in self.items) != bool(text) and len(text) != 1, 28)
        self.shapes()
        need(all(checksum(data[begin:end]) == crc for begin, end, crc in places), 30)
        self.contents()

    def entry(self, entry, end):
        """One line of the section table: offset, number of items, bytes of an item."""
        tag = entry[:4]
        code = entry[4]
        reserved = entry[5:8] + entry[28:]
        offset, n = struct.unpack_from("<QQ", entry, 8)
        letters = tag.decode("latin-1")
        need(letters.isascii() and letters.isalnum() and letters[0].isalpha(), 14)
        need(code in TYPES, 15)
        need(not any(reserved), 16)
        need(offset % 64 == 0, 17)
        need(offset >= end, 18)
        need(offset - end < 64, 19)
        width = struct.calcsize("<" + TYPES[code])
        need(offset + n * width <= len(self.data), 20)
        need(not any(self.data[end:offset]), 21)
        if tag not in RULES:
            need(tag[:1].islower(), 23)
            return offset, n, width
        need(self.kind in RULES[tag][2], 24)
        need(code in RULES[tag][0], 15)
        if tag == b"meta":
            need(n <= 16 << 20, 25)
            self.meta = self.data[offset : offset + n]
        else:
            self.items[tag] = struct.unpack_from(f"<{n}{TYPES[code]}", self.data, offset)
        self.types[tag] = code
        return offset, n, width

    def count(self, tag):
        """Number of items; 0 without the section."""
        return len(self.items.get(tag, ()))

    def has(self, *tags):
        """Whether all these sections are there."""
        return all(tag in self.items for tag in tags)

    def shapes(self):
        """Numbers of items against each other."""
        K = self.K
        d = self.d
        n = self.count
        wanted = {b"BIAS": K, b"CALB": 1, b"calb": 1, b"ABOV": K, b"LABI": K, b"LABO": K + 1}
        if self.kind == STUMPS:
            M = n(b"FEAT")
            wanted |= {b"THRS": M, b"COEF": M * K, b"COEL": M * K}
        elif self.kind == INTERVALS:
            wanted |= {b"IOFF": n(b"FIDX") + 1, b"TABL": (n(b"THRS") + 2 * n(b"FIDX")) * K}
        elif self.kind == TREES:
            S = n(b"FEAT")
            T = n(b"TSIZ")
            P = n(b"CODE") // K
            each = 1 if self.has(b"TCLS") else K
            values = n(b"LCLS") if self.has(b"LCLS") else (S + T) * each
            wanted |= {
                b"THRS": S,
                b"RGHT": S,
                b"LEAF": values,
                b"TCLS": T,
                b"TBAS": T,
                b"CODE": P * K,
            }
            wanted |= {b"LOFF": S + T + 1, b"LALL": S + T}
            if self.has(b"LALL"):
                need(self.has(b"LOFF") and not self.has(b"exit"), 79)
                need(self.types[b"LALL"] == self.types[b"LEAF"], 79)
            need(self.has(b"LOFF") == self.has(b"LCLS") and not self.has(b"LOFF", b"TCLS"), 70)
            need(self.has(b"TCLS") or not self.has(b"TBAS"), 46)
            need(not self.has(b"CODE") or (self.has(b"TCLS") and not self.has(b"TBAS")), 53)
            need(self.has(b"CODE") or not self.decoder, 13)
            there = [self.has(tag) for tag in CATEGORIES]
            need(all(there) or not any(there), 65)
            wanted |= {b"CSET": S, b"CATN": n(b"CATF")}
            need(not self.has(b"CODE") or (P >= 1 and (P <= 4096 or not self.decoder)), 55)
        elif self.kind == PACKED:
            self.pack = Pack(bytes(self.items[b"PACK"]), K)
        elif self.kind == LINEAR:
            wanted |= {b"WMAT": K * d}
        else:
            m = n(b"DUAL") // K
            wanted |= {b"KPAR": 4, b"DUAL": m * K, b"SVEC": m * d, b"SCAL": 2 * d}
        need(all(n(tag) == number for tag, number in wanted.items() if self.has(tag)), 29)
        if {b"exit", *EXITS} & set(self.items):
            need(self.has(b"exit") and not self.decoder, 61)
            pairs = K * (K - 1)
            need(n(b"pair") % pairs == 0 and n(b"pair") // pairs <= (n(b"exit") + 1) // 2, 29)
            need(all(n(tag) == n(b"exit") + 3 for tag in EXITS[1:] if self.has(tag)), 29)

    def finite(self, tag, status):
        """Every number of a section is finite."""
        need(all(map(math.isfinite, self.items.get(tag, ()))), status)

    def top(self, tag):
        """The value of the top bit of a section's type."""
        return 1 << (8 * struct.calcsize(TYPES[self.types[tag]]) - 1)

    def features(self):
        """(feature, NaN goes left) of every stump or split."""
        top = self.top(b"FEAT")
        return [(item % top, item >= top) for item in self.items[b"FEAT"]]

    def contents(self):
        """What the sections hold."""
        if self.kind == STUMPS:
            self.splits()
            self.finite(b"COEF", 35)
            self.finite(b"COEL", 35)
        elif self.kind == INTERVALS:
            self.intervals()
        elif self.kind == TREES:
            self.trees()
        elif self.kind == PACKED:
            self.pack.contents(d=self.d, K=self.K)
            need(not self.has(b"RNDS") or sum(self.items[b"RNDS"]) == len(self.pack.sizes), 48)
        elif self.kind == LINEAR:
            self.finite(b"WMAT", 35)
        else:
            self.kernel()
        self.finite(b"BIAS", 37)
        for tag in (b"CALB", b"calb"):
            need(all(0 < factor < math.inf for factor in self.items.get(tag, ())), 56)
        need(self.link != 4 or not (self.has(b"CALB") or self.has(b"calb")), 56)
        self.exits()
        need(self.link == 3 or not self.has(b"ABOV"), 60)
        self.finite(b"ABOV", 60)
        self.labels()
        need(is_text(self.meta), 40)

    def exits(self):
        """Checkpoints, bounds and thresholds."""
        at = [0, *self.items.get(b"exit", ()), self.n_learners()]
        need(len(at) == 2 or all(a < b for a, b in zip(at, at[1:], strict=False)), 62)
        need(all(bound > -math.inf for bound in self.items.get(b"pair", ())), 63)
        for tag, top in zip(EXITS[1:], (2**32 - 1, self.K - 1), strict=True):
            if self.has(tag):
                rate, rows, third, *thresholds = self.items[tag]
                need(0 < rate < 1 and whole(rows, 1, 2**32 - 1) and whole(third, 0, top), 64)
                need(all(threshold > -math.inf for threshold in thresholds), 64)

    def n_learners(self):
        """Number of stumps or trees."""
        return (
            len(self.pack.sizes)
            if self.kind == PACKED
            else self.count(b"TSIZ" if self.kind == TREES else b"FEAT")
        )

    def splits(self):
        """Features and thresholds."""
        need(all(feature < self.d for feature, _ in self.features()), 31)
        self.finite(b"THRS", 33)

    def intervals(self):
        """Features, offsets, thresholds and table."""
        used, ends, cuts = (self.items[tag] for tag in (b"FIDX", b"IOFF", b"THRS"))
        need(
            all(a < b for a, b in zip(used, used[1:], strict=False))
            and all(f < self.d for f in used),
            31,
        )
        self.finite(b"THRS", 33)
        need(
            ends[0] == 0
            and ends[-1] == len(cuts)
            and all(a < b for a, b in zip(ends, ends[1:], strict=False)),
            32,
        )
        for a, b in zip(ends, ends[1:], strict=False):
            need(all(cuts[i] < cuts[i + 1] for i in range(a, b - 1)), 34)
        self.finite(b"TABL", 36)

    def trees(self):
        """Sizes, rounds, splits, children, classes, code, leaves."""
        sizes, right = self.items[b"TSIZ"], self.items[b"RGHT"]
        need(sum(sizes) == self.count(b"FEAT"), 42)
        need(sum(self.items[b"RNDS"]) == len(sizes), 48)
        self.splits()
        begin = 0
        for size in sizes:
            parts = [(begin, begin + size)]
            begin += size
            while parts:
                first, end = parts.pop()
                if first < end:
                    need(1 <= right[first] <= end - first, 43)
                    parts += [(first + 1, first + right[first]), (first + right[first], end)]
        if self.has(b"CSET"):
            self.categories()
        columns = self.count(b"CODE") // self.K if self.has(b"CODE") else self.K
        classes = self.items.get(b"TCLS", ())
        need(all(c < columns and c < 65536 for c in classes), 44)
        bases = self.items.get(b"TBAS", ())
        need(all(b <= self.K and b != c for b, c in zip(bases, classes, strict=False)), 45)
        self.finite(b"CODE", 54)
        if self.has(b"LOFF"):
            self.entries()
        if self.has(b"LALL"):
            for tag, limit in ((b"LALL", 8), (b"LEAF", 8), (b"BIAS", 2**20)):
                need(all(abs(v) <= limit and (v * 2**20).is_integer() for v in self.items[tag]), 79)
                need(all(v or math.copysign(1, v) > 0 for v in self.items[tag]), 79)
        self.finite(b"LEAF", 47)

    def entries(self):
        """Where the entries of leaves begin, and their classes."""
        ends, classes = self.items[b"LOFF"], self.items[b"LCLS"]
        need(ends[0] == 0 and ends[-1] == len(classes), 71)
        need(all(a <= b for a, b in zip(ends, ends[1:], strict=False)), 71)
        need(all(k < self.K for k in classes), 72)
        for begin, end in zip(ends, ends[1:], strict=False):
            need(all(classes[e] < classes[e + 1] for e in range(begin, end - 1)), 72)

    def categories(self):
        """Sets of codes, categorical features, levels and their names."""
        ends = self.items[b"COFF"]
        need(ends and ends[0] == 0 and ends[-1] == self.count(b"CBIT"), 66)
        need(all(0 < b - a <= 8192 for a, b in zip(ends, ends[1:], strict=False)), 66)
        need(all(q < len(ends) for q in self.items[b"CSET"]), 66)
        top = self.top(b"CATF")
        at = self.items[b"CATO"]
        features = [item % top for item in self.items[b"CATF"]]
        need(all(a < b for a, b in zip(features, features[1:], strict=False)), 31)
        need(all(feature < self.d for feature in features), 31)
        levels = self.items[b"CATN"]
        text = bytes(self.items[b"CATS"])
        done = 0
        need(all(1 <= n <= 65535 for n in levels), 67)
        named = [n for n, item in zip(levels, self.items[b"CATF"], strict=True) if item >= top]
        need(at and at[0] == 0 and len(at) == sum(named) + 1 and at[-1] == len(text), 67)
        need(all(a <= b for a, b in zip(at, at[1:], strict=False)), 67)
        for n in named:
            names = [
                text[a:b]
                for a, b in zip(at[done : done + n], at[done + 1 : done + n + 1], strict=True)
            ]
            done += n
            need(all(len(name) <= 4096 and 0 not in name for name in names), 67)
            need(all(a < b for a, b in zip(names, names[1:], strict=False)), 67)
            need(all(map(is_text, names)), 40)

    def in_set(self, q, x, nan_left):
        """Whether a code goes left by set number q."""
        begin, end = self.items[b"COFF"][q - 1 : q + 1]
        if not 0 <= x < 8 * (end - begin) or x != int(x):
            return nan_left
        return self.items[b"CBIT"][begin + int(x) // 8] >> int(x) % 8 & 1

    def kernel(self):
        """Kernel, parameters, scaling, support vectors, coefficients."""
        number, gamma, coef0, degree = self.items[b"KPAR"]
        need(number in (0, 1, 2, 5), 50)
        need(0 < gamma < math.inf if number in (1, 2) else gamma == 0, 51)
        need(math.isfinite(coef0) if number == 1 else coef0 == 0, 51)
        need(0 <= degree <= 1000 and degree == int(degree) if number == 1 else degree == 0, 51)
        self.finite(b"SCAL", 52)
        self.finite(b"SVEC", 49)
        self.finite(b"DUAL", 35)

    def labels(self):
        """Distinct and sorted."""
        if self.has(b"LABI"):
            labels = self.items[b"LABI"]
        else:
            ends = self.items[b"LABO"]
            text = bytes(self.items[b"LABS"])
            need(ends[0] == 0 and ends[-1] == len(text), 38)
            need(all(a <= b for a, b in zip(ends, ends[1:], strict=False)), 38)
            labels = [text[a:b] for a, b in zip(ends, ends[1:], strict=False)]
            need(all(len(label) <= 4096 and 0 not in label for label in labels), 39)
            need(all(map(is_text, labels)), 40)
        need(all(a < b for a, b in zip(labels, labels[1:], strict=False)), 41)

    def scores(self, row):
        """One score for each class. ``row`` may end after the last feature that the model uses."""
        start = list(self.items[b"BIAS"])
        if self.kind == STUMPS:
            return self.score_stumps(row, start)
        if self.kind == INTERVALS:
            return self.score_intervals(row, start)
        if self.kind == TREES:
            return self.score_trees(row, start)
        if self.kind == PACKED:
            return self.pack.add(row, start)
        return (
            self.score_linear(row, start) if self.kind == LINEAR else self.score_kernel(row, start)
        )

    def early(self, row, way):
        """Class of a row and the learners it takes; the way is the number of a tag in EXITS."""
        K = self.K
        numbers = self.items[EXITS[way]]
        top = 0
        so_far = {}
        start = list(self.items[b"BIAS"])
        final = (self.score_trees if self.kind == TREES else self.score_stumps)(row, start, so_far)
        checkpoints = list(enumerate(self.items[b"exit"]))
        if way == 0:
            bounds = len(numbers) // (K * (K - 1))
            checkpoints = checkpoints[::-2][:bounds][::-1]
        for place, (number, n) in enumerate(checkpoints):
            F = so_far[n]
            if way == 0 and numbers[place * K * (K - 1)] == math.inf:
                continue  # it may be left out, and mcb.h does
            if way == 0:
                top = top if F[top] == max(F) else F.index(max(F))
                mine = numbers[(place * K + top) * (K - 1) :]
                exits = all(F[top] - F[j] > mine[j - (j > top)] for j in range(K) if j != top)
            else:
                top = F.index(max(F)) if way == 1 else int(numbers[2])
                exits = F[top] - max(F[:top] + F[top + 1 :]) > numbers[3 + number]
                exits = exits and numbers[3 + number] < math.inf
            if exits:
                return top, n
        return final.index(max(final)), self.n_learners()

    def note(self, n, F, so_far):
        """Keep the sums of the first n learners where there is a checkpoint."""
        if so_far is not None and n in self.items[b"exit"]:
            so_far[n] = list(F)

    def score_stumps(self, row, F, so_far=None):
        K = self.K
        right = self.items[b"COEF"]
        left = self.items.get(b"COEL")
        for j, ((feature, nan_left), t) in enumerate(
            zip(self.features(), self.items[b"THRS"], strict=True)
        ):
            self.note(j, F, so_far)
            x = row[feature]
            for k in range(K):
                value = right[j * K + k]
                if x <= t or (x != x and nan_left):
                    value = left[j * K + k] if left else -value
                F[k] += value
        return F

    def score_intervals(self, row, F):
        K, ends, cuts, table = self.K, *(self.items[tag] for tag in (b"IOFF", b"THRS", b"TABL"))
        for i, feature in enumerate(self.items[b"FIDX"]):
            x = row[feature]
            mine = cuts[ends[i] : ends[i + 1]]
            interval = len(mine) + 1 if x != x else sum(cut < x for cut in mine)
            for k in range(K):
                F[k] += table[(ends[i] + 2 * i + interval) * K + k]
        return F

    def leaf(self, row, begin, size, t, features):
        """Number of the leaf of tree number t."""
        cuts, right = self.items[b"THRS"], self.items[b"RGHT"]
        i = begin
        end = begin + size
        at = begin + t
        while i < end:
            feature, nan_left = features[i]
            x = row[feature]
            q = self.items[b"CSET"][i] if self.has(b"CSET") else 0
            if self.in_set(q, x, nan_left) if q else x <= cuts[i] or (x != x and nan_left):
                i, end = i + 1, i + right[i]
            else:
                at, i = at + right[i], i + right[i]
        return at

    def score_trees(self, row, F, so_far=None):
        K = self.K
        values = self.items[b"LEAF"]
        code = self.items.get(b"CODE")
        features = self.features()
        classes, bases = self.items.get(b"TCLS"), self.items.get(b"TBAS")
        columns = [0.0] * (len(code) // K if code else 0)
        begin = 0
        for t, size in enumerate(self.items[b"TSIZ"]):
            self.note(t, F, so_far)
            at = self.leaf(row, begin, size, t, features)
            begin += size
            if self.has(b"LOFF"):
                for e in range(*self.items[b"LOFF"][at : at + 2]):
                    F[self.items[b"LCLS"][e]] += values[e]
                if self.has(b"LALL"):
                    F[:] = [score + self.items[b"LALL"][at] for score in F]
            elif classes is None:
                for k in range(K):
                    F[k] += values[at * K + k]
            elif self.decoder:
                columns[classes[t]] += values[at]
            elif code:
                for k in range(K):
                    F[k] += values[at] * code[classes[t] * K + k]
            else:
                F[classes[t]] += values[at]
                if bases and bases[t] < K:
                    F[bases[t]] -= values[at]
        return self.decoded(columns, F) if self.decoder else F

    def decoded(self, columns, bias):
        """Scores from the sums of the columns."""
        K = self.K
        code = self.items[b"CODE"]
        F = []
        for k in range(K):
            margins = [code[j * K + k] * f for j, f in enumerate(columns)]
            if self.decoder == 1:
                loss = (
                    sum(margin < 0 for margin in margins)
                    + sum(margin == 0 for margin in margins) / 2
                )
            else:
                top = max(-margin for margin in margins)
                total = 0.0
                for margin in margins:
                    total += exp(-margin - top)
                loss = top + log(total)
            F.append(bias[k] - loss)
        return F

    def score_linear(self, row, F):
        if not all(map(math.isfinite, row)):
            return [math.nan] * self.K
        for k in range(self.K):
            F[k] += eight(
                [
                    x * w
                    for x, w in zip(
                        row, self.items[b"WMAT"][k * self.d : (k + 1) * self.d], strict=True
                    )
                ]
            )
        return F

    def score_kernel(self, row, F):
        K = self.K
        d = self.d
        support = self.items[b"SVEC"]
        dual = self.items[b"DUAL"]
        number, gamma, coef0, degree = self.items[b"KPAR"]
        scale = self.items.get(b"SCAL")
        if scale:
            row = [single((x - scale[j]) * scale[d + j]) for j, x in enumerate(row)]
        for i in range(len(dual) // K):
            vector = support[i * d : (i + 1) * d]
            if number in (2, 5):
                value = eight([single(x - z) ** 2 for x, z in zip(row, vector, strict=True)])
            else:
                value = eight([x * z for x, z in zip(row, vector, strict=True)])
            if number == 1:
                value = power(gamma * shortened(value) + coef0, int(degree))
            elif number == 2:
                value = exp(-(gamma * value)) if math.isfinite(value) else math.nan
            elif number == 5:
                value = -math.sqrt(value)
            value = shortened(value)
            for k in range(K):
                F[k] += dual[i * K + k] * value
        return F if all(map(math.isfinite, F)) else [math.nan] * K

    def probabilities(self, F):
        """Probabilities of the classes; None without a link or a calibration."""
        if (self.link == 0 and not self.has(b"CALB")) or math.isnan(F[0]):
            return None
        factor = self.items.get(b"CALB", [1.0])[0]
        if self.link == 3:
            return [(exp(f * factor) if f < 0 else 1) / (1 + exp(-abs(f * factor))) for f in F]
        largest = max(F)
        if self.link == 4 and largest <= 0:
            return [1 / len(F)] * len(F)
        if self.link == 4:
            parts = [f / largest if f > 0 else 0.0 for f in F]
        else:
            parts = [exp((2 if self.link == 2 else 1) * (f - largest) * factor) for f in F]
        unit = 2.0**52
        while unit * len(parts) > 2.0**62:
            unit /= 2
        total = sum(math.floor(part * unit + 0.5) for part in parts) / unit
        return [part / total for part in parts]


def is_text(data):
    """Whether bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
