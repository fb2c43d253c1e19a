"""Model files whose numbers of classes, features, columns and learners are drawn and then agree with each other.

Drawn from docs/format.md, without the package's own writer, so that any number can be 0 or at its limit. About half of
the files then get a fault: a number of the header, a section's length, type, tag or item. Checksums are right.
"""

import math
import struct

from reference.modelreader import checksum as crc32c

WIDTH = {1: 1, 2: 2, 3: 4, 4: 8, 5: 4, 6: 8, 7: 2}
CODE = {1: "B", 2: "H", 3: "I", 4: "q", 5: "f", 6: "d", 7: "e"}
COUNTS = (0, 0, 0, 1, 1, 2, 3, 5, 8, 9, 16, 17, 31, 33, 64, 65, 70)
CLASSES = (2, 2, 2, 3, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 33, 65, 100)
FEATURES = (1, 1, 2, 3, 7, 8, 9, 16, 17, 127, 128, 129, 513, 1030, 32_768, 70_000, 2**31 - 1)
SPECIAL = (0.0, -0.0, 1e-45, -3.4e38, 3.4e38, 1.0, -1.0, math.nan, math.inf, -math.inf)
TAGS = (
    b"note",
    b"NEWS",
    b"1abc",
    b"a\0bc",
    b"COEL",
    b"TBAS",
    b"CODE",
    b"SCAL",
    b"CALB",
    b"ABOV",
    b"meta",
)
TAGS += (
    b"exit",
    b"pair",
    b"marg",
    b"rjct",
    b"CSET",
    b"CATF",
    b"LOFF",
    b"LCLS",
    b"PACK",
    b"LALL",
    b"calb",
)
# UTF-8 that is right, and that is not: cut short, overlong, a surrogate, above the last character.
RIGHT = ("é", "中", "\U0001f600", "\u07ff", "\uffff", "\U0010ffff")
WRONG = ("e4b8", "f09f9861", "e08080", "f0808080", "eda080", "f4908080", "ff", "c080")
TEXTS = [*(text.encode() for text in RIGHT), *map(bytes.fromhex, WRONG)]
SIGNATURE = b"\x89MCB\r\n\x1a\n"


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def few_bits(items, widths):
    """Bytes of tuples of numbers of so many bits, the lowest bit first."""
    total = 0
    at = 0
    for item in items:
        for number, width in zip(item, widths, strict=True):
            total |= (number & ((1 << width) - 1)) << at
            at += width
    return total.to_bytes((at + 7) // 8, "little")


class Draft:
    """Header numbers, and sections as [tag, type, items] in the order of the file."""

    def __init__(self, rng):
        self.rng = rng
        self.kind = rng.choice((1, 1, 2, 2, 3, 3, 3, 3, 5, 6, 6, 7, 7))
        self.K, self.d = rng.choice(CLASSES), rng.choice(FEATURES)
        if rng.random() < 0.002:
            self.K = rng.choice((255, 256, 65_535))
        self.counts = [n for n in COUNTS if n * self.K < 200_000]  # Python writes and reads slowly
        self.link = rng.randrange(5)
        self.decoder = 0
        self.reserved = [0, 0, 0]
        self.major = 1
        self.minor = rng.choice((0, 0, 8))
        self.flags = rng.choice((0, 0, 1 << 16))
        # bytes too many before the section of this number
        self.sections = []
        self.gap = (0, 0)
        self.shared = False  # whether leaves have numbers for all classes
        # Features that may occur; rows must reach so far.
        self.used = {
            0,
            min(self.d, 300) - 1,
            min(self.d, 1 << 20 if rng.random() < 0.1 else 300) - 1,
        }
        getattr(
            self,
            {1: "stumps", 2: "intervals", 3: "trees", 5: "linear", 6: "kernel", 7: "pack"}[
                self.kind
            ],
        )()
        if (
            self.kind in (1, 3)
            and rng.random() < 0.2
            and (not (self.decoder or self.shared) or rng.random() < 0.1)
        ):
            self.exits()
        self.add("BIAS", 5, self.floats(self.K))
        uncalibrated = self.link == 4 and rng.random() < 0.95
        if rng.random() < 0.3 and not uncalibrated:
            self.add("CALB", 6, [rng.choice((1.0, 0.3, 1.7, 64.0, 5e-324, 1.7e308))])
        if rng.random() < 0.15 and not uncalibrated:
            self.add("calb", 6, [rng.choice((1.0, 0.5, 2.0, 5e-324, 1.7e308))])
        if self.K <= 300 and rng.random() < (0.5 if self.link == 3 else 0.02):
            self.add("ABOV", 6, [rng.choice((0.0, -1.5, 3.0, 1.7e308)) for _ in range(self.K)])
        self.labels()
        if rng.random() < 0.3:
            self.add("meta", 1, list("{}é".encode()[: rng.randrange(2, 4) * 2 - 2]))
        if rng.random() < 0.2:
            rng.shuffle(self.sections)

    def add(self, tag, code, items):
        """One more section; ``code`` 0 takes a type of unsigned integers that is wide enough."""
        if code == 0:
            code = self.rng.choice(
                [c for c in (1, 2, 3) if max(items, default=0) < 256 ** WIDTH[c]]
            )
        self.sections.append([tag.encode(), code, items])

    def floats(self, n):
        """Finite numbers, some of them special."""
        rng = self.rng
        if self.shared and rng.random() < 0.98:
            return [rng.randrange(-1024, 1025) / 128 for _ in range(n)]  # sums are exact
        return [
            rng.choice(SPECIAL[:7]) if rng.random() < 0.1 else rng.gauss(0, 1) for _ in range(n)
        ]

    def features(self, n):
        """Items of FEAT."""
        rng = self.rng
        some = [*self.used, *rng.choices(range(min(self.d, 300)), k=9)]
        items = [(rng.choice(some), rng.random() < 0.5) for _ in range(n)]
        self.used |= {feature for feature, _ in items}
        code = rng.choice([c for c in (1, 2, 3) if max(self.used) < 1 << (8 * WIDTH[c] - 1)])
        self.add(
            "FEAT",
            code,
            [feature | nan_left << (8 * WIDTH[code] - 1) for feature, nan_left in items],
        )

    def stumps(self):
        n = self.rng.choice(self.counts)
        self.features(n)
        self.add("THRS", 5, self.floats(n))
        self.add("COEF", 5, self.floats(n * self.K))
        if self.rng.random() < 0.5:
            self.add("COEL", 5, self.floats(n * self.K))

    def intervals(self):
        rng = self.rng
        used = sorted(
            rng.sample(range(min(self.d, 300)), min(rng.choice(self.counts), self.d, 300))
        )
        cuts = [
            sorted({single(v + 0.0) for v in self.floats(rng.choice((1, 1, 2, 7)))}) for _ in used
        ]
        ends = [0]
        for mine in cuts:
            ends.append(ends[-1] + len(mine))
        self.add("FIDX", 0, used)
        self.add("IOFF", 0, ends)
        self.add("THRS", 5, [cut for mine in cuts for cut in mine])
        self.add("TABL", 5, self.floats((ends[-1] + 2 * len(used)) * self.K))
        self.used |= set(used)

    def tree(self, n):
        """RGHT of a random tree, or of a chain."""
        right = [0] * n
        parts = [(0, n)]
        skew = self.rng.randrange(4)
        while parts:
            begin, end = parts.pop()
            if begin < end:
                right[begin] = (
                    (1, end - begin)[skew] if skew < 2 else self.rng.randrange(1, end - begin + 1)
                )
                parts += [(begin + 1, begin + right[begin]), (begin + right[begin], end)]
        return right

    def trees(self):
        rng = self.rng
        many = rng.random() < 0.05  # more trees than are sorted together
        sizes = [
            rng.choice((0, 1, 1, 2, 5, 31, 32, 40)) for _ in range(rng.choice((0, 0, 1, 2, 3, 9)))
        ]
        sizes = [rng.randrange(3) for _ in range(300)] if many else sizes
        sizes = [10_001] if rng.random() < 0.002 else sizes  # a tree that is not prepared
        S = sum(sizes)
        T = len(sizes)
        K = self.K
        self.add("TSIZ", 0, sizes)
        self.features(S)
        self.add("THRS", 5, self.floats(S))
        self.add("RGHT", 0, [r for size in sizes for r in self.tree(size)])
        form = rng.choice(("vector", "entries", "class", "base", "base", "code", "code", "code"))
        form = "class" if form in ("vector", "entries") and (S + T) * K > 1 << 20 else form
        ends, classes = self.entries(S + T if form == "entries" else 0)
        self.shared = form == "entries" and rng.random() < 0.4
        leaves = self.floats(
            len(classes) if form == "entries" else (S + T) * (K if form == "vector" else 1)
        )
        self.add("LEAF", rng.choice((5, 7)), [max(-6e4, min(6e4, v)) for v in leaves])
        if self.shared:
            self.add("LALL", self.sections[-1][1], self.floats(S + T))
        if form == "entries":
            self.add("LOFF", 0, ends)
            self.add("LCLS", 0, classes)
        elif form == "code":
            P = rng.choice([p for p in (0, 1, 2, 3, 7, 20, 70) if p * K < 1 << 20])
            self.decoder = rng.choice((0, 1, 2))
            if rng.random() < 0.01:
                P = rng.choice((4095, 4096, 4097))
                self.K = 2
            T = T if P else 0
            self.add("TCLS", 0, [rng.randrange(P) for _ in range(T)])
            self.add("CODE", 5, self.floats(P * self.K))
            if not T:
                self.empty("TSIZ", "FEAT", "THRS", "RGHT", "LEAF")
        elif form != "vector":
            self.add("TCLS", 0, [rng.randrange(K) for _ in range(T)])
            if form == "base":
                classes = self.sections[-1][2]
                self.add(
                    "TBAS",
                    0,
                    [rng.choice([b for b in (K, 0, 1, K - 1) if b != c]) for c in classes],
                )
        ends = sorted(rng.choices(range(T + 1), k=rng.choice((0, 1, 3)))) + [T]
        self.add("RNDS", 0, [b - a for a, b in zip([0, *ends], ends, strict=False)])

    def entries(self, n):
        """Where the entries of n leaves begin, and their classes."""
        ends = [0]
        classes = []
        for _ in range(n):
            classes += sorted(
                self.rng.sample(range(self.K), min(self.K, self.rng.choice((0, 1, 1, 2, 5))))
            )
            ends.append(len(classes))
        return ends, classes

    def exits(self):
        """Checkpoints, and some of the sections that go with them."""
        rng = self.rng
        mine = b"FEAT" if self.kind == 1 else b"TSIZ"
        learners = next(len(items) for tag, _, items in self.sections if tag == mine)
        at = (
            sorted(rng.sample(range(1, learners), min(rng.choice((0, 1, 2, 5)), learners - 1)))
            if learners
            else []
        )
        self.add("exit", 0, at)
        pairs = self.K * (self.K - 1)
        thresholds = [math.inf, *map(abs, self.floats(8))]
        if pairs < 3000:
            n = rng.randrange((len(at) + 1) // 2 + 1)
            scale = rng.choice((0.1, 1.0, 9.0))
            bounds = [
                rng.choice((v, math.inf)) if rng.random() < 0.1 else scale * v
                for v in self.floats(n * pairs)
            ]
            self.add(
                "pair",
                rng.choice((5, 7)),
                [v if v == math.inf else max(-6e4, min(6e4, v)) for v in bounds],
            )
        for tag, third in (("marg", 2), ("rjct", rng.randrange(self.K))):
            if rng.random() < 0.7:
                self.add(tag, 6, [0.001, 3000, third, *rng.choices(thresholds, k=len(at))])

    def pack(self):
        """Trees of few bits; now and then a number that the tables do not have."""
        rng = self.rng
        self.d = min(self.d, 1030)
        used = sorted(rng.sample(range(self.d), min(rng.choice(self.counts), self.d)))
        cuts = [rng.choice((1, 1, 2, 7)) for _ in used]
        sizes = [
            rng.choice((0, 1, 1, 2, 5, 31)) if used else 0 for _ in range(rng.choice((0, 1, 2, 9)))
        ]
        own, missing, half, half_leaves = (rng.randrange(2) for _ in range(4))
        S = sum(sizes)
        T = len(sizes)
        least = min(sizes, default=0)
        n_values = rng.choice((1, 2, 3, 40, 256))
        first = [0]
        for n in cuts:
            first.append(first[-1] + n)
        splits = []
        for size in sizes:
            for right in self.tree(size):
                f = rng.randrange(len(used))
                splits.append(
                    (f, rng.randrange(cuts[f]), right - 1, *([rng.randrange(2)] if missing else []))
                )
        leaves = [(rng.randrange(n_values),) for _ in range((S + T) * (1 if own else self.K))]
        classes = [(rng.randrange(self.K) if own else 0,) for _ in sizes]
        streams = [[(size - least,) for size in sizes], splits, leaves, classes]
        tops = [
            [max(column) for column in zip(*items, strict=True)] or [0] * wide
            for items, wide in zip(streams, (1, 3 + missing, 1, 1), strict=True)
        ]
        if rng.random() < 0.1:
            tops[rng.randrange(2)][0] += 1 << rng.randrange(8)
        bits = [[top.bit_length() for top in group] for group in tops]
        bits[1][3:] = [1] * missing
        bits[2] = [min(max(1, *bits[2]), 8)]
        codes = [
            rng.choice([c for c in (1, 2, 3) if top < 256 ** WIDTH[c]])
            for top in (max(used, default=0), first[-1])
        ]
        flags = (
            own
            | missing << 1
            | half << 2
            | half_leaves << 3
            | (rng.random() < 0.01) << rng.randrange(4, 8)
        )
        data = struct.pack(
            "<IIIIIH10B",
            T,
            S,
            first[-1],
            len(used),
            least,
            n_values,
            flags,
            *bits[0],
            *bits[1][:3],
            *bits[2],
            *bits[3],
            *codes,
            rng.random() < 0.01,
        )
        values = [max(-6e4, min(6e4, v)) for v in self.floats(n_values)]
        tables = (
            (codes[0], used),
            (codes[1], first),
            (5 + 2 * half, self.floats(first[-1])),
            (5 + 2 * half_leaves, values),
        )
        data += b"".join(self.packed(code, items) for code, items in tables)
        for number in (0, 3, 1, 2):
            data += few_bits(streams[number], bits[number])
        self.add("PACK", 1, list(data))
        if rng.random() < 0.3:
            ends = sorted(rng.choices(range(T + 1), k=2)) + [T]
            self.add("RNDS", 0, [b - a for a, b in zip([0, *ends], ends, strict=False)])

    def empty(self, *tags):
        """These sections hold nothing."""
        for section in self.sections:
            if section[0].decode() in tags:
                section[2] = []

    def linear(self):
        self.d = min(self.d, 2000 // self.K + 9)
        values = self.floats(self.K * self.d)
        if self.rng.random() < 0.6:
            self.depend(values)
        self.add("WMAT", 5, values)

    def depend(self, values):
        """Make hyperplanes sums of a few others, which early exits can then leave out, or the same as those."""
        rng = self.rng
        d = self.d
        few = rng.choice((1, 2, 3, max(1, self.K // 2)))
        for k in range(few, self.K):
            a, b = (d * rng.randrange(min(few, k)) for _ in "ab")
            first, second = rng.choice(((1, 0), (1, 0), (-1, 0), (1, 1), (0.5, -2), (0, 0)))
            for j in range(d):
                value = first * values[a + j] + second * values[b + j]
                values[k * d + j] = min(max(value, -3e38), 3e38)

    def kernel(self):
        rng = self.rng
        n = rng.choice(self.counts)
        scaled = rng.random() < 0.5
        if n or scaled:
            self.d = min(self.d, 1030 if n < 4 else 20)
        self.add("SVEC", 5, self.floats(n * self.d))
        self.add("DUAL", 5, self.floats(n * self.K))
        number = rng.choice((0, 1, 2, 5))
        gamma = rng.choice((1.0, 0.1, 1e-45, 3.4e38)) if number in (1, 2) else 0.0
        poly = (rng.gauss(0, 1), rng.choice((0, 1, 2, 3, 7, 1000))) if number == 1 else (0.0, 0.0)
        self.add("KPAR", 5, [number, gamma, *poly])
        if scaled:
            self.add("SCAL", 5, self.floats(2 * self.d))

    def labels(self):
        rng = self.rng
        if rng.random() < 0.7:
            start = rng.choice((0, 0, -5, -(2**63), 2**63 - self.K))
            self.add("LABI", 4, [start + k for k in range(self.K)])
            return
        texts = sorted(
            {f"{rng.choice(('a', 'é', '', '中'))}{k:05}".encode() for k in range(self.K)}
        )
        if rng.random() < 0.05:
            texts[-1] += b"x" * rng.choice((4000, 4200))
        ends = [0]
        for text in texts:
            ends.append(ends[-1] + len(text))
        self.add("LABO", 0, ends)
        self.add("LABS", 1, list(b"".join(texts)))

    def fault(self):
        """Change one thing, which may make the file wrong."""
        rng = self.rng
        bases = [section for section in self.sections if section[0] == b"TBAS"]
        section = rng.choice(self.sections)
        what = rng.randrange(22)
        if bases and rng.random() < 0.5:
            section = bases[0]
            what = 21
        if what == 0:
            self.K = rng.choice((self.K + 1, self.K - 1, 0, 65_535, 65_536, 2**32 - 1))
        elif what == 1:
            self.d = rng.choice((self.d + 1, self.d - 1, 0, 1, 2**31 - 1, 2**31, 2**32 - 1))
        elif what == 2:
            self.kind = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 31, 32, 2**32 - 1))
        elif what == 3:
            self.link = rng.choice((0, 5, self.link))
            self.decoder = rng.choice((0, 1, 2, 3))
        elif what == 4:
            choice = rng.randrange(3)
            if choice == 0:
                self.reserved[rng.randrange(3)] = 1 << rng.randrange(32)
            elif choice == 1:
                self.flags = 1 << rng.randrange(32)
            else:
                self.major = rng.choice((0, 1, 2))
        elif what == 5:
            section[2] = section[2][: rng.choice((0, -1, -self.K, len(section[2]) // 2))]
        elif what == 6:
            section[2] = (section[2] or [0]) * rng.choice((2, 3))
        elif what == 7:
            section[2] = section[2] + (section[2] or [0])[: rng.choice((1, self.K or 1))]
        elif what == 8:
            self.sections.remove(
                rng.choice([section, *(other for other in self.sections if other[0] == b"TCLS")])
            )
            if not self.sections:
                self.sections.append(section)
        elif what == 9:
            self.sections.append(list(rng.choice(self.sections)))
            if rng.random() < 0.8:
                self.sections[-1][0] = rng.choice(TAGS)
        elif what == 10:
            section[1] = rng.randrange(9)
        elif what == 11:
            wrong = ([0.0], [-0.0], [-1.0], [math.nan], [math.inf], [-math.inf], [], [1.0, 1.0])
            for _ in range(rng.choice((1, 1, 1, 2))):
                self.add(rng.choice(("CALB", "calb")), rng.choice((6, 6, 6, 5)), rng.choice(wrong))
        elif what == 12:
            self.gap = rng.randrange(len(self.sections)), rng.choice((64, 64, 128, 1, 8))
        else:
            self.damage_item(section)

    def damage_item(self, section):
        """One item of a section becomes another number."""
        rng = self.rng
        items = list(section[2])
        if not items:
            return
        at = rng.randrange(len(items))
        near = items[max(at - 1, 0)]
        if section[0] in (b"LABS", b"meta"):
            text = rng.choice(TEXTS)
            items[at : at + len(text)] = text
        elif section[1] in (5, 6, 7):
            items[at] = rng.choice((*SPECIAL, 2.0, near, 2.0**192 if section[1] == 6 else 3.0))
        else:
            bits = 8 * WIDTH.get(section[1], 1)
            step = rng.choice((1, -1, 2, -2))
            old = int(items[at]) if math.isfinite(items[at]) else 0
            odd = (0, 1, 2, self.K, self.d, 255, 1 << (bits - 1), near, old + step, old ^ 128)
            items[at] = rng.choice((self.K, self.K + 1, 0) if section[0] == b"TBAS" else odd)
        section[2] = items

    def packed(self, code, items):
        """Items as bytes; numbers that do not fit the type are cut."""
        if code in (5, 6, 7):
            top = {5: 3.4e38, 6: math.inf, 7: 65_504.0}[code]
            finite = (
                v if not math.isfinite(v) else max(-top, min(top, v)) for v in map(float, items)
            )
            return struct.pack(f"<{len(items)}{CODE[code]}", *finite)
        width = WIDTH.get(code, 1)
        return b"".join(
            (int(v if math.isfinite(v) else 0) % 256**width).to_bytes(width, "little")
            for v in items
        )

    def to_bytes(self):
        """The file."""
        end = 64 + 32 * len(self.sections)
        table = b""
        body = []
        for number, (tag, code, items) in enumerate(self.sections):
            data = self.packed(code, items)
            offset = -(-end // 64) * 64 + (self.gap[1] if number == self.gap[0] else 0)
            body += [bytes(offset - end), data]
            table += struct.pack("<4sB3xQQII", tag, code, offset, len(items), crc32c(data), 0)
            end = offset + len(data)
        numbers = [
            n % 2**32
            for n in (self.K, self.d, self.kind, self.link, self.decoder, self.reserved[1])
        ]
        head = SIGNATURE + struct.pack(
            "<HHIQII6I",
            self.major,
            self.minor,
            self.flags,
            end,
            len(self.sections),
            self.reserved[0],
            *numbers,
        )
        return b"".join(
            [head, struct.pack("<II", crc32c(head + table), self.reserved[2]), table, *body]
        )

    def reach(self):
        """One more than the last feature in FEAT or FIDX."""
        last = 0
        for tag, code, items in self.sections:
            if tag in (b"FEAT", b"FIDX") and items:
                top = 1 << (8 * WIDTH.get(code, 1) - (tag == b"FEAT"))
                last = max(last, *(int(item) % top for item in items))
        return last + 1

    def rows(self):
        """(how many numbers a row has, the numbers): all features, or up to the last that may be used."""
        rng = self.rng
        stride = self.d if self.kind in (5, 6) or self.d <= 1030 else self.reach()
        if not 1 <= stride <= 5000 or (self.kind == 7 and self.d > 1030):
            return 1, []
        n = stride * rng.choice((1, 2, 4, 5, 17) if self.K * stride < 2000 else (2,))
        special = SPECIAL[:7] if rng.random() < 0.7 and self.kind in (5, 6) else SPECIAL
        return stride, [
            rng.choice(special) if rng.random() < 0.2 else rng.gauss(0, 1) for _ in range(n)
        ]


def draw(rng):
    """Bytes of a file, the length of its rows, and the numbers of its rows."""
    draft = Draft(rng)
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        draft.fault()
    return draft.to_bytes(), *draft.rows()
