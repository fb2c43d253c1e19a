"""Model files: writes the bytes of a ``.mcb`` file, which are checked in one place, ``mcb_open`` of ``mcb.h``.

``docs/format.md`` describes the format field by field.
"""

import json
import os
import stat
import struct
from types import SimpleNamespace

import numpy as np

from pymcboost._kernels import score
from pymcboost.model.arrays import is_number, narrow
from pymcboost.threads import available_memory, in_words

MAGIC = b"\x89MCB\r\n\x1a\n"
LINKS = ("none", "softmax", "softmax2", "sigmoid", "shares")
DECODERS = ("linear", "hamming", "exp")
LEAVES = ("float32", "float16", "int8")
# Sections of early exits: the checkpoints, then one section for each way.
EARLY = ("exit", "pair", "marg", "rjct")
# Sections that all kinds can have, besides the bias, in the order of a file.
COMMON = ("CALB", "calb", *EARLY, "ABOV", "LABI", "LABO", "LABS", "meta")
# Sections that were added after version 1.0, with the minor version that added them.
MINOR = {"CALB": 1, "covr": 2, **dict.fromkeys(EARLY, 3), "CSET": 4, "ABOV": 5}
MINOR |= {"LOFF": 6, "PACK": 7, "LALL": 10, "calb": 11}
# The same for links.
MINOR_OF_LINK = {"sigmoid": 5, "shares": 12}
LAYOUTS = ("list", "interval", "packed")
HEADER_BYTES = 64
# Number of bytes that are read at once from a pipe.
CHUNK = 1 << 20
# From this file size in bytes on, free memory is checked first. For small files, that takes longer than reading.
LARGE = 1 << 26
MAX_CLASSES = 65535
MAX_FEATURES = 2**31 - 1
MAX_META = 16 << 20
MAX_LABEL = 4096
UNSORTED = "class labels must be distinct and sorted, as numpy.unique returns them"
DTYPES = {
    1: np.dtype("u1"),
    2: np.dtype("<u2"),
    3: np.dtype("<u4"),
    4: np.dtype("<i8"),
    5: np.dtype("<f4"),
    6: np.dtype("<f8"),
    7: np.dtype("<f2"),
}
_CODES = {dtype: code for code, dtype in DTYPES.items()}


class ModelFormatError(ValueError):
    """Error for a file that is not a model file which this version can read.

    The message says what is wrong, and where.

    Attributes
    ----------
    status : int
        Error code of ``mcb.h``.
    """

    def __init__(self, message, status=0):
        super().__init__(message)
        self.status = status

    def __reduce__(self):
        return type(self), (*self.args, self.status)


def check(data, name="model"):
    """Check the bytes of a model file.

    Parameters
    ----------
    data : bytes
    name : str
        What to call the file in a message.

    Returns
    -------
    Scorer

    Raises
    ------
    ModelFormatError
    """
    scorer = score.Scorer(data)
    if scorer.status:
        raise _refusal(scorer, name)
    return scorer


def _refusal(scorer, name):
    """Error that says what is wrong with a file, and where."""
    message, section, byte, value, expected = scorer.problem()
    details = f"section {section}, byte {byte}" if section else f"byte {byte}"
    if value is not None:
        details += f"; found {value}, the limit or expected number is {expected}"
    return ModelFormatError(f"{name}: {message} ({details})", scorer.status)


def _other_model(head, name, scorer):
    """Error for a model file of another library, recognized by its first bytes, that says how to read it; else None."""
    if head.startswith(b"tree"):
        library = "LightGBM"
    elif b"learner" in head[:20]:
        library = "XGBoost"
    else:
        return None
    return ModelFormatError(
        f"{name}: this is a model of {library}; "
        f"read it with pymcboost.export.from_{library.lower()}",
        scorer.status,
    )


def read(path):
    """Read a model file; return its bytes and its `Scorer`. Other files are refused after their first 64 bytes.

    No more is read than the header says; a large file must fit into free memory.
    """
    name = os.fspath(path)
    if isinstance(name, bytes):
        name = name.decode(errors="replace")
    with open(path, "rb", buffering=0) as file:  # a buffer would hold a second copy
        head = _read_at_most(file, HEADER_BYTES)
        scorer = score.Scorer(head)
        if scorer.status != score.FILE_SIZE_ERROR:
            raise _other_model(head, name, scorer) or _refusal(scorer, name)
        n_bytes = struct.unpack_from("<Q", head, 16)[0]
        status = os.fstat(file.fileno())
        is_file = stat.S_ISREG(status.st_mode)
        if is_file and status.st_size != n_bytes:
            raise ModelFormatError(
                f"{name}: the file has {status.st_size} bytes but its header says {n_bytes}: it "
                "was cut short, or bytes were added (byte 16)",
                scorer.status,
            )
        if n_bytes > LARGE or not is_file:
            available = available_memory()
            if available is not None and n_bytes > available:
                raise MemoryError(
                    f"{name}: the model takes {in_words(n_bytes)}, but {in_words(available)} are free"
                )
        if is_file:
            file.seek(0)
            data = _read_at_most(file, n_bytes, n_bytes)
        else:
            # One more byte reveals trailing data.
            data = head + _read_at_most(file, max(0, n_bytes + 1 - HEADER_BYTES), CHUNK)
    return data, check(data, name)


def _read_at_most(file, size, step=HEADER_BYTES):
    """Read the next bytes of a file, ``step`` at a time; fewer at its end."""
    data = file.read(min(size, step))
    if len(data) == size:
        return data
    parts = []
    while data:
        parts.append(data)
        size -= len(data)
        data = file.read(min(size, step)) if size else b""
    return b"".join(parts)


def header(scorer):
    """Fields of the header of a checked file, with link and decoder by name."""
    n_classes, n_features, kind, link, n_learners, n_rounds = scorer.header
    return SimpleNamespace(
        n_classes=n_classes,
        n_features=n_features,
        kind=kind,
        link=LINKS[link],
        decoder=DECODERS[scorer.decoder],
        n_learners=n_learners,
        n_rounds=n_rounds,
    )


def arrays(data, scorer):
    """Read-only one-dimensional arrays over the sections' bytes, by tag."""
    return {
        tag: np.frombuffer(data, dtype=DTYPES[code], count=count, offset=offset)
        for tag, (offset, count, code) in (scorer.sections() | _cover_section(data)).items()
    }


def _cover_section(data):
    """Location of the covers, which ``mcb.h`` ignores because scoring does not need them."""
    n_sections = struct.unpack_from("<I", data, 24)[0]
    table = data[HEADER_BYTES : HEADER_BYTES + 32 * n_sections]
    if b"covr" not in table:
        return {}
    for tag, code, offset, count, _, _ in struct.iter_unpack("<4sB3xQQII", table):
        if tag == b"covr" and code in (1, 2, 3):
            return {"covr": (offset, count, code)}
    return {}


def label_sections(classes, n_classes):
    """Sections for the class labels.

    Parameters
    ----------
    classes : array-like (K,)
        Distinct, sorted: integers, or strings.
    n_classes : int
        K of the model.

    Returns
    -------
    list of (tag, array)

    Raises
    ------
    ValueError
        If a file cannot hold them.
    """
    classes = np.asarray(classes)
    if classes.ndim != 1:
        raise ValueError(f"classes must be one-dimensional, but have {classes.ndim} dimensions")
    if not 2 <= len(classes) <= MAX_CLASSES:
        raise ValueError(f"there must be from 2 to {MAX_CLASSES} classes, not {len(classes)}")
    if len(classes) != n_classes:
        raise ValueError(
            f"there are {len(classes)} class labels, but the ensemble has {n_classes} classes"
        )
    if _are_whole_numbers(classes):
        classes = classes.astype(np.int64)
    if classes.dtype.kind not in "iub":
        return _text_sections(classes)
    if classes.dtype.kind == "u" and classes.max() > np.iinfo(np.int64).max:
        raise ValueError(
            f"the class label {classes.max()} is too large: integers must be below 2^63; use "
            "text labels instead"
        )
    classes = classes.astype("<i8")
    if not (classes[1:] > classes[:-1]).all():
        raise ValueError(UNSORTED)
    return [("LABI", classes)]


def _are_whole_numbers(classes):
    """Whether labels that are objects or floats can become integers."""
    if classes.dtype.kind == "O":
        return all(isinstance(label, (int, np.integer, bool, np.bool_)) for label in classes)
    if classes.dtype.kind == "f":
        return np.array_equal(classes, np.trunc(classes)) and (np.abs(classes) < 2**63).all()
    return False


def _text_sections(classes):
    """Sections for class labels that are strings."""
    if not all(isinstance(label, str) for label in classes):
        raise ValueError(
            "class labels must be integers or strings; encode others first, for example with "
            "sklearn.preprocessing.LabelEncoder"
        )
    try:
        texts = [str(label).encode() for label in classes]
    except UnicodeEncodeError as error:
        raise ValueError(f"a class label is not valid Unicode text: {error}") from None
    if any(a >= b for a, b in zip(texts, texts[1:], strict=False)):
        raise ValueError(UNSORTED)
    if any(len(text) > MAX_LABEL or b"\0" in text for text in texts):
        raise ValueError(
            f"a class label may have at most {MAX_LABEL} bytes in UTF-8 and no zero character"
        )
    offsets = np.cumsum([0, *map(len, texts)])
    return [("LABO", narrow(offsets)), ("LABS", np.frombuffer(b"".join(texts), dtype="u1"))]


def class_labels(sections):
    """Class labels from a file's sections: int64, or strings.

    Strings are an object array if their lengths differ so much that a fixed width would waste memory.
    """
    if "LABI" in sections:
        return sections["LABI"].astype(np.int64)
    ends = sections["LABO"].tolist()
    text = sections["LABS"].tobytes()
    labels = [text[a:b].decode() for a, b in zip(ends, ends[1:], strict=False)]
    longest = max(map(len, labels))
    # NumPy uses 4 bytes per character, and pads to the longest label.
    is_wasteful = 4 * longest * len(labels) > 64 * len(text) + (1 << 20)
    return np.array(labels, dtype=object if is_wasteful else f"<U{max(longest, 1)}")


def _plain(value):
    """Convert NumPy values to Python's, for JSON."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"meta may contain only what JSON supports, not {type(value).__name__}")


def meta_sections(meta):
    """Section for the metadata of the training; none if there is none.

    Parameters
    ----------
    meta : dict or None
        What JSON can hold.

    Returns
    -------
    list of (tag, array)

    Raises
    ------
    ValueError, TypeError
        If a file cannot hold it.
    """
    if not meta:
        return []
    text = json.dumps(
        meta,
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
        default=_plain,
    )
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"meta contains text that is not valid Unicode: {error}") from None
    if len(data) > MAX_META:
        raise ValueError(
            f"meta takes {len(data)} bytes as JSON, but at most {MAX_META} are allowed"
        )
    return [("meta", np.frombuffer(data, dtype="u1"))]


def factor_of(temperature):
    """Section content for a temperature.

    Parameters
    ----------
    temperature : float

    Returns
    -------
    ndarray of float64 (1,)

    Raises
    ------
    ValueError
        If it, or one divided by it, is not a finite number above 0.
    """
    is_valid = is_number(temperature) and 0 < temperature < np.inf and 0 < 1 / temperature < np.inf
    if not is_valid:
        raise ValueError(
            f"temperature must be a finite number above 0, or None, not {temperature!r}"
        )
    return np.array([1 / temperature], dtype="<f8")


def threshold_sections(above):
    """Section for the scores (K,) above which labels are assigned; none if all are 0.

    Raises
    ------
    ValueError
        If one of them is not a finite number.
    """
    above = np.asarray(above, dtype="<f8") + 0.0
    if not np.isfinite(above).all():
        raise ValueError("the thresholds of labels must be finite numbers")
    return [("ABOV", above)] if above.any() else []


def meta_of(sections):
    """Metadata of a file's sections, as a new dictionary; {} if there is none."""
    section = sections.get("meta")
    if section is None or not len(section):
        return {}
    try:
        meta = json.loads(section.tobytes())
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"the section meta is not valid JSON: {error}") from None
    return meta if isinstance(meta, dict) else {"meta": meta}


def feature_names(data, scorer):
    """Column names seen in training; None if the file does not have a name for every feature."""
    try:
        names = meta_of(arrays(data, scorer)).get("feature_names")
    except ModelFormatError:
        return None
    n_features = scorer.header[1]
    are_valid = (
        isinstance(names, list)
        and len(names) == n_features
        and all(isinstance(name, str) for name in names)
    )
    return names if are_valid else None


def encode(model, common, link="none"):
    """Bytes of a model file; equal models give equal bytes.

    Parameters
    ----------
    model : Kind
        Laid out, see `kind`.
    common : list of (tag, array)
        Sections of the calibration, the labels and the metadata.
    link : {"none", "softmax", "softmax2", "sigmoid", "shares"}

    Returns
    -------
    bytes
    """
    if link not in LINKS:
        raise ValueError(f"link must be one of {', '.join(map(repr, LINKS))}, not {link!r}")
    if not 1 <= model.n_features <= MAX_FEATURES:
        raise ValueError(
            f"the number of features must be from 1 to {MAX_FEATURES}, not {model.n_features}"
        )
    sections = [*model.sections(), ("BIAS", model.bias), *common]
    return _assemble(
        model.KIND,
        model.n_classes,
        model.n_features,
        link=LINKS.index(link),
        decoder=DECODERS.index(model.decoder),
        sections=sections,
    )


def _assemble(kind, n_classes, n_features, link, decoder, sections):
    """Bytes of a model file with these numbers in its header and these sections."""
    entries = []
    parts = []
    end = HEADER_BYTES + 32 * len(sections)
    for tag, values in sections:
        dtype = values.dtype.newbyteorder("<") if values.dtype.itemsize > 1 else values.dtype
        # A view of the values, if possible.
        data = np.ascontiguousarray(values, dtype=dtype).reshape(-1).view(np.uint8)
        offset = (end + 63) // 64 * 64
        parts += [b"\0" * (offset - end), data]
        entries.append(
            struct.pack(
                "<4sB3xQQII",
                tag.encode(),
                _CODES[dtype],
                offset,
                values.size,
                score.crc32c(data),
                0,
            )
        )
        end = offset + len(data)
    table = b"".join(entries)
    minor = max(*(MINOR.get(tag, 0) for tag, _ in sections), MINOR_OF_LINK.get(LINKS[link], 0))
    header = struct.pack(
        "<8sHHIQIIIIIIII",
        MAGIC,
        1,
        minor,
        0,
        end,
        len(sections),
        0,
        n_classes,
        n_features,
        kind,
        link,
        decoder,
        0,
    )
    crc = score.crc32c(table, score.crc32c(header))
    return b"".join([header, struct.pack("<II", crc, 0), table, *parts])
