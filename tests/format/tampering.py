"""Take a model file apart, change it, put it together with right checksums; shares no code with the writer."""

import struct
from dataclasses import dataclass, field

from reference.modelreader import checksum as crc32c

WIDTH = {1: 1, 2: 2, 3: 4, 4: 8, 5: 4, 6: 8, 7: 2}


@dataclass
class File:
    """Header fields by name, and sections as [tag, dtype, bytes] in file order."""

    n_classes: int
    n_features: int
    kind: int
    link: int
    decoder: int = 0
    sections: list = field(default_factory=list)
    minor: int = 0

    def find(self, tag):
        """The section with this tag."""
        return next(section for section in self.sections if section[0] == tag)

    def remove(self, tag):
        """Remove a section."""
        self.sections = [section for section in self.sections if section[0] != tag]

    def items(self, tag, code):
        """Items of a section, by a struct code."""
        data = self.find(tag)[2]
        return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))

    def set_items(self, tag, code, values):
        """Replace the items of a section."""
        self.find(tag)[2] = struct.pack(f"<{len(values)}{code}", *values)

    def to_bytes(self):
        """The file, written from the specification."""
        end = 64 + 32 * len(self.sections)
        table = b""
        body = b""
        for tag, dtype, data in self.sections:
            offset = -(-end // 64) * 64
            body += bytes(offset - end) + data
            count = len(data) // WIDTH.get(dtype, 1)
            table += struct.pack("<4sB3xQQII", tag, dtype, offset, count, crc32c(data), 0)
            end = offset + len(data)
        header = b"\x89MCB\r\n\x1a\n" + struct.pack(
            "<HHIQIIIIIIII",
            1,
            self.minor,
            0,
            end,
            len(self.sections),
            0,
            self.n_classes,
            self.n_features,
            self.kind,
            self.link,
            self.decoder,
            0,
        )
        return header + struct.pack("<II", crc32c(header + table), 0) + table + body


def parse(data):
    """A `File` of bytes that are known to be right."""
    n_sections, _, k, d, kind, link, decoder = struct.unpack_from("<7I", data, 24)
    file = File(k, d, kind, link=link, decoder=decoder, minor=struct.unpack_from("<H", data, 10)[0])
    for i in range(n_sections):
        tag, dtype, offset, count = struct.unpack_from("<4sB3xQQ", data, 64 + 32 * i)
        file.sections.append([tag, dtype, data[offset : offset + count * WIDTH[dtype]]])
    return file


def patch(data, offset, code, *values):
    """Bytes with numbers written over them and the header's checksum put right."""
    data = bytearray(data)
    struct.pack_into("<" + code, data, offset, *values)
    n_sections = struct.unpack_from("<I", data, 24)[0]
    if n_sections <= 64 and 64 + 32 * n_sections <= len(data) and not 56 <= offset < 60:
        struct.pack_into(
            "<I", data, 56, crc32c(bytes(data[:56]) + bytes(data[64 : 64 + 32 * n_sections]))
        )
    return bytes(data)
