"""Fetch and convert the data sets of the reproduction tables.

    PYMCBOOST_DATA=FOLDER python tools/get_data.py [NAME ...]

writes NAME.libsvm.gz, or NAME.train.libsvm.gz and NAME.test.libsvm.gz where there is an official split, for the sets
named or for all; and mixed/NAME.csv.gz for the sets with categories and missing values of `tools/frame_sources.py`.
What UCI, OpenML and GitHub offer is downloaded to FOLDER/raw; the other sets must be put there by hand, and the tool
says from where. Files already in FOLDER/raw are not downloaded again, so that everything can also be got by
hand.

The text: labels 1..K in the sorted order of the original labels, the same for both parts; indices from 1; zeros left
out; values to 9 significant digits; rows in the order of the source; nothing scaled. A file is written only if the
SHA-256 of its text is the one in this tool.
"""

import gzip
import hashlib
import io
import json
import os
import sys
import urllib.request
import zipfile
from array import array
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from frame_sources import FRAME_SOURCES, frame_text

UCI = "https://archive.ics.uci.edu/static/public/"
OPENML = "https://www.openml.org/api/v1/json/data/"
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
ELEMENTS = "the data page of the book The Elements of Statistical Learning, https://hastie.su.domains/ElemStatLearn/"


@dataclass(frozen=True)
class Source:
    """Where a set comes from and how its rows read.

    ``url`` is a direct address, an OpenML data address (asked for the file's own address), or None with ``hand``
    saying where a person finds the files. ``raw`` names the files in FOLDER/raw and ``parts`` the members inside an
    archive (or the raw files themselves): one for a set without split, two for train and test, or one with ``split``,
    which says from a row's number and fields whether it is a training row. Columns count as in the source; ``drop``
    lists columns left out.
    """

    raw: tuple
    parts: tuple
    url: str | None = None
    hand: str = ""
    label: int = -1
    drop: tuple = ()
    comma: bool = True
    split: object = None


def uci(address, *parts, **options):
    name = address.rpartition("/")[2].replace("+", "-")
    return Source(raw=(name,), parts=parts, url=UCI + address, **options)


def by_hand(names, where, **options):
    return Source(raw=names, parts=names, hand=where, comma=False, **options)


SOURCES = {
    "covtype": uci("31/covertype.zip", "covtype.data.gz"),
    "dna": by_hand(("dna.scale", "dna.scale.t"), LIBSVM),
    "ecoli": uci("39/ecoli.zip", "ecoli.data", drop=(0,), comma=False),
    "glass": uci("42/glass+identification.zip", "glass.data", drop=(0,)),
    "iris": uci("53/iris.zip", "iris.data"),
    "letter": uci("59/letter+recognition.zip", "letter-recognition.data", label=0),
    "mnist": Source(raw=("mnist_784.arff",), parts=("mnist_784.arff",), url=OPENML + "554",
                    split=lambda number, row: number < 60000),
    "optdigits": uci("80/optical+recognition+of+handwritten+digits.zip", "optdigits.tra", "optdigits.tes"),
    "pendigits": uci("81/pen+based+recognition+of+handwritten+digits.zip", "pendigits.tra", "pendigits.tes"),
    "satimage": uci("146/statlog+landsat+satellite.zip", "sat.trn", "sat.tst", comma=False),
    "svmguide2": by_hand(("svmguide2",), LIBSVM),
    "svmguide4": by_hand(("svmguide4", "svmguide4.t"), LIBSVM),
    "usps": by_hand(("zip.train.gz", "zip.test.gz"), ELEMENTS, label=0),
    "vowel": uci("152/connectionist+bench+vowel+recognition+deterding+data.zip", "vowel-context.data",
                 drop=(0, 1, 2), comma=False, split=lambda number, row: row[0] == "0"),
    "wine": uci("109/wine.zip", "wine.data", label=0),
    "yeast": uci("110/yeast.zip", "yeast.data", drop=(0,), comma=False),
}  # fmt: skip

# Of the unpacked text, by part.
SHA256 = {
    name: digest
    for digest, name in map(
        str.split, Path(__file__).with_suffix(".sha256").read_text().splitlines()
    )
}


class DataError(Exception):
    """A set that could not be made, with the reason in words."""


def download_frame(source, folder):
    """Fetch the raw files of a frame that are not in ``folder`` yet."""
    for name in source.raw:
        if (folder / name).exists():
            continue
        if source.folder is None:
            raise DataError(
                f"not offered by UCI, OpenML or GitHub; put {name} into {folder}, from {source.hand}"
            )
        try:
            fetch(source.url(name), folder, name)
        except OSError as error:
            raise not_fetched(source.url(name), error, folder / name) from error


def fetch(url, folder, name):
    """Write what is at an address to a file; it is there in full or not at all."""
    print(f"fetching {url}", file=sys.stderr)
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / (name + ".part")
    with urllib.request.urlopen(url, timeout=60) as answer, open(part, "wb") as out:
        while block := answer.read(1 << 20):
            out.write(block)
    part.replace(folder / name)


def not_fetched(url, error, target):
    return DataError(
        f"{url} could not be fetched ({error}); get it by hand and save it as {target}"
    )


def download(source, folder):
    """Fetch what is not in ``folder`` yet."""
    missing = [name for name in source.raw if not (folder / name).exists()]
    if not missing:
        return
    if source.url is None:
        raise DataError(
            f"not offered by UCI or OpenML; put {' and '.join(missing)} into {folder}, from {source.hand}"
        )
    url = source.url
    try:
        if url.startswith(OPENML):
            with urllib.request.urlopen(url, timeout=60) as answer:
                url = json.load(answer)["data_set_description"]["url"]
        fetch(url, folder, missing[0])
    except (OSError, ValueError, KeyError) as error:
        raise not_fetched(url, error, folder / missing[0]) from error


def read_part(source, folder, part):
    """Text of one part: a raw file, or a member of the raw zip archive; .gz is unpacked."""
    path = folder / source.raw[0]
    if path.suffix == ".zip":
        try:
            with zipfile.ZipFile(path) as archive:
                members = [name for name in archive.namelist() if name.rpartition("/")[2] == part]
                if not members:
                    raise DataError(
                        f"{path} has no member {part}; it holds {', '.join(archive.namelist())}"
                    )
                data = archive.read(members[0])
        except zipfile.BadZipFile as error:
            raise DataError(
                f"{path} is not a zip archive ({error}); delete it and run again"
            ) from error
    else:
        data = (folder / part).read_bytes()
    if part.endswith(".gz"):
        data = gzip.decompress(data)
    return data.decode("latin-1")


def rows_of(text, comma):
    """Fields of each row as text; ARFF headers, comments and blank lines are skipped."""
    for line in io.StringIO(text):
        line = line.strip()
        if line and line[0] not in "@%|":
            yield [field.strip(" '\"") for field in (line.split(",") if comma else line.split())]


def columns_of(source, rows):
    """(values float64 (m, d), original labels as text, training rows or None) of a table."""
    values = array("d")
    labels = []
    train = []
    width = None
    for number, row in enumerate(rows):
        if width is None:
            width = len(row)
            label = source.label % width
            keep = [j for j in range(width) if j != label and j not in source.drop]
        if len(row) != width:
            raise DataError(f"row {number + 1} has {len(row)} fields instead of {width}: {row}")
        values.extend([float(row[j]) for j in keep])
        labels.append(row[label])
        if source.split:
            train.append(source.split(number, row))
    return np.frombuffer(values).reshape(len(labels), -1), labels, np.array(train, bool)


def from_libsvm(text):
    """(values float64 (m, d), labels as text) of LIBSVM text."""
    rows = [line.split() for line in text.splitlines() if line.strip()]
    # Indices increase, so that a row's last entry has its largest.
    values = np.zeros(
        (len(rows), max(int(row[-1].partition(":")[0]) for row in rows if len(row) > 1))
    )
    for i, row in enumerate(rows):
        for entry in row[1:]:
            index, _, value = entry.partition(":")
            values[i, int(index) - 1] = float(value)
    return values, [row[0] for row in rows]


def label_map(labels):
    """Original label -> 1..K, sorted as numbers if all are numbers."""
    words = set(labels)
    try:
        numbers = sorted({float(word) for word in words})
        return {word: numbers.index(float(word)) + 1 for word in words}
    except ValueError:
        return {word: i + 1 for i, word in enumerate(sorted(words))}


def libsvm_text(values, labels, classes):
    """The LIBSVM text of one part."""
    out = io.StringIO()
    for row, label in zip(values, labels, strict=True):
        present = np.flatnonzero(row)
        out.write(str(classes[label]))
        out.write(
            "".join(
                f" {j + 1}:{v:.9g}"
                for j, v in zip(present.tolist(), row[present].tolist(), strict=True)
            )
        )
        out.write("\n")
    return out.getvalue().encode()


def convert(name, folder):
    """{part name: LIBSVM text} of a set whose raw files are in ``folder``."""
    source = SOURCES[name]
    texts = [read_part(source, folder, part) for part in source.parts]
    if source.hand == LIBSVM:
        parts = [from_libsvm(text) for text in texts]
    else:
        tables = [columns_of(source, rows_of(text, source.comma)) for text in texts]
        parts = [(values, labels) for values, labels, _ in tables]
        if source.split:
            ((values, labels, train),) = tables
            places = np.flatnonzero(train), np.flatnonzero(~train)
            parts = [(values[place], [labels[i] for i in place]) for place in places]
    classes = label_map(label for _, labels in parts for label in labels)
    names = [name] if len(parts) == 1 else [f"{name}.train", f"{name}.test"]
    return {part: libsvm_text(*data, classes) for part, data in zip(names, parts, strict=True)}


def install(name, folder):
    """Make the files of one set, unless they are there with the right contents."""
    is_frame = name in FRAME_SOURCES
    known = (f"mixed/{name}",) if is_frame else (name, f"{name}.train", f"{name}.test")
    files = [part for part in SHA256 if part in known]
    if all(is_right(file_of(folder, part), SHA256[part]) for part in files):
        return "is there"
    (download_frame if is_frame else download)(
        (FRAME_SOURCES if is_frame else SOURCES)[name], folder / "raw"
    )
    try:
        raw = folder / "raw"
        texts = {f"mixed/{name}": frame_text(name, raw)} if is_frame else convert(name, raw)
    except (OSError, ValueError, KeyError, EOFError, IndexError) as error:
        raise DataError(
            f"the raw files do not read as expected ({type(error).__name__}: {error})"
        ) from error
    for part, text in texts.items():
        digest = hashlib.sha256(text).hexdigest()
        if digest != SHA256[part]:
            raise DataError(
                f"the converted text of {part} has SHA-256 {digest} instead of {SHA256[part]}, so it is not the data "
                f"of the tables; nothing written. Look at the raw files in {folder / 'raw'}, or get another copy"
            )
    for part, text in texts.items():
        path = file_of(folder, part)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".part")
        temporary.write_bytes(gzip.compress(text, 9, mtime=0))
        temporary.replace(path)
    return "written"


def file_of(folder, part):
    """The file of a part of a set: CSV of frames, else LIBSVM text."""
    return folder / f"{part}.{'csv' if part.startswith('mixed/') else 'libsvm'}.gz"


def is_right(path, digest):
    """Whether ``path`` unpacks to text of this SHA-256."""
    try:
        return hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest() == digest
    except (OSError, EOFError, ValueError):
        return False


def main(names):
    folder = os.environ.get("PYMCBOOST_DATA")
    if not folder:
        sys.exit(
            "set PYMCBOOST_DATA to a folder, as in: PYMCBOOST_DATA=~/mcdata python tools/get_data.py"
        )
    every = [*SOURCES, *FRAME_SOURCES]
    unknown = sorted(set(names) - set(every))
    if unknown:
        sys.exit(f"unknown set {', '.join(unknown)}; known: {', '.join(every)}")
    failures = {}
    for name in names or every:
        try:
            print(f"{name}: {install(name, Path(folder).expanduser())}")
        except DataError as error:
            failures[name] = error
    if failures:
        print(f"\nmissing ({len(failures)}):", file=sys.stderr)
        for name, error in failures.items():
            print(f"  {name}: {error}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
