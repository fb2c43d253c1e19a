"""Model files: the bytes of a ``.mcb`` file, written here and checked in one place, ``mcb_open`` of ``mcb.h``.

``docs/format.md`` describes the format field by field.
"""

import json
import os
import stat
import struct

import numpy as np

from pymcboost._kernels import score
from pymcboost.model.kernel import KERNELS

MAGIC = b"\x89MCB\r\n\x1a\n"
KIND_STUMPS, KIND_INTERVALS, KIND_TREES, KIND_LINEAR, KIND_KERNEL = 1, 2, 3, 5, 6
LINKS = ("none", "softmax", "softmax2")
DECODERS = ("linear", "hamming", "exp")
LEAVES = ("float32", "float16")
LAYOUTS = ("list", "interval", "interval32")
MAX_CLASSES, MAX_FEATURES, MAX_META, MAX_LABEL = 65535, 2**31 - 1, 16 << 20, 4096
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
    """A file that is not a model this version can read; the message says what is wrong and where.

    Attributes
    ----------
    status : int
        The number of the refusal in ``mcb.h``.
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
    message, section, byte, found, expected = scorer.problem()
    where = f"section {section}, byte {byte}" if section else f"byte {byte}"
    numbers = "" if found is None else f"; found {found}, the limit or expected number is {expected}"
    return ModelFormatError(f"{name}: {message} ({where}{numbers})", scorer.status)


def read(path):
    """Bytes of a model file and their `Scorer`; a file that is no model is refused after its first 64 bytes."""
    name = os.fspath(path)
    name = name.decode(errors="replace") if isinstance(name, bytes) else name
    with open(path, "rb", buffering=0) as file:  # a buffer would hold the file a second time
        head = b""
        while len(head) < 64 and (more := file.read(64 - len(head))):
            head += more
        scorer = score.Scorer(head)
        if scorer.status != score.FILE_SIZE_ERROR:
            raise _refusal(scorer, name)
        promised = struct.unpack_from("<Q", head, 16)[0]
        size = os.fstat(file.fileno())
        if stat.S_ISREG(size.st_mode) and size.st_size != promised:
            raise ModelFormatError(
                f"{name}: the file has {size.st_size} bytes but its header says {promised}: it was cut "
                "short, or bytes were added (byte 16)",
                scorer.status,
            )
        if stat.S_ISREG(size.st_mode):
            file.seek(0)
            data = file.readall()
        else:
            data = head + file.readall()
    return data, check(data, name)


def arrays(data, scorer):
    """Dictionary: tag -> read-only one-dimensional array over the section's bytes."""
    return {
        tag: np.frombuffer(data, dtype=DTYPES[code], count=count, offset=offset)
        for tag, (offset, count, code) in scorer.sections().items()
    }


def _narrow(values, flags=None):
    """Unsigned integers in the narrowest type; ``flags`` go to the top bit, which the values must leave free."""
    top = int(values.max()) if len(values) else 0
    bits = next(bits for bits in (8, 16, 32) if top < 1 << (bits - (flags is not None)))
    result = values.astype(f"<u{bits // 8}")
    if flags is not None:
        result |= flags.astype(result.dtype) << (bits - 1)
    return result


def _labels(classes):
    """Sections of the class labels, and how many there are."""
    classes = np.asarray(classes)
    if classes.ndim != 1:
        raise ValueError(f"classes must be one-dimensional, but have {classes.ndim} dimensions")
    if classes.dtype.kind == "O" and all(isinstance(label, (int, np.integer, bool, np.bool_)) for label in classes):
        classes = classes.astype(np.int64)
    if classes.dtype.kind == "f" and np.array_equal(classes, np.trunc(classes)) and (np.abs(classes) < 2**63).all():
        classes = classes.astype(np.int64)
    if classes.dtype.kind in "iub":
        if classes.dtype.kind == "u" and len(classes) and classes.max() > np.iinfo(np.int64).max:
            raise ValueError("integer class labels must be below 2^63")
        classes = classes.astype("<i8")
        if len(classes) > 1 and not (classes[1:] > classes[:-1]).all():
            raise ValueError("class labels must be distinct and sorted, as numpy.unique gives them")
        return [("LABI", classes)], len(classes)
    if not all(isinstance(label, str) for label in classes):
        raise ValueError(
            "class labels must be integers, or strings; encode others first (sklearn.preprocessing.LabelEncoder does)"
        )
    try:
        texts = [str(label).encode() for label in classes]
    except UnicodeEncodeError as error:
        raise ValueError(f"a class label is not valid Unicode text: {error}") from None
    if any(a >= b for a, b in zip(texts, texts[1:], strict=False)):
        raise ValueError("class labels must be distinct and sorted, as numpy.unique gives them")
    if any(len(text) > MAX_LABEL or b"\0" in text for text in texts):
        raise ValueError(f"a class label may have at most {MAX_LABEL} bytes in UTF-8 and no zero character")
    offsets = np.cumsum([0, *map(len, texts)])
    return [("LABO", _narrow(offsets)), ("LABS", np.frombuffer(b"".join(texts), dtype="u1"))], len(classes)


def _plain(value):
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"meta may hold what JSON can hold, not {type(value).__name__}")


def _meta(meta):
    if not meta:
        return []
    text = json.dumps(meta, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"meta holds text that is not valid Unicode: {error}") from None
    if len(data) > MAX_META:
        raise ValueError(f"meta takes {len(data)} bytes as JSON, at most {MAX_META} are allowed")
    return [("meta", np.frombuffer(data, dtype="u1"))]


def encode(model, classes, link="none", meta=None, leaves="float32"):
    """Bytes of a model file; equal models give equal bytes.

    Parameters
    ----------
    model : Stumps, Intervals, Trees, LinearMachine or KernelMachine
    classes : array-like (K,)
        Distinct, sorted class labels: integers or strings.
    link : {"none", "softmax", "softmax2"}
    meta : dict or None
        What JSON can hold.
    leaves : {"float32", "float16"}
        Type of the leaves of trees.

    Returns
    -------
    bytes
    """
    if link not in LINKS:
        raise ValueError(f"link must be one of {', '.join(map(repr, LINKS))}, not {link!r}")
    if leaves not in LEAVES:
        raise ValueError(f"leaves must be 'float32' or 'float16', not {leaves!r}")
    if leaves != "float32" and not hasattr(model, "leaf"):
        raise ValueError("leaves='float16' is for trees; this model has none")
    if hasattr(model, "intercept"):
        model = model.canonical()  # says what is wrong with shapes
    if not 1 <= model.n_features <= MAX_FEATURES:
        raise ValueError(f"the number of features must be between 1 and {MAX_FEATURES}, not {model.n_features}")
    labels, n_labels = _labels(classes)
    if not 2 <= n_labels <= MAX_CLASSES:
        raise ValueError(f"the number of classes must be between 2 and {MAX_CLASSES}, not {n_labels}")
    if n_labels != model.n_classes:
        raise ValueError(f"there are {n_labels} class labels, but the ensemble has {model.n_classes} classes")
    if hasattr(model, "table"):
        kind = KIND_INTERVALS
        sections = [
            ("FIDX", _narrow(model.feature)),
            ("IOFF", _narrow(model.offset)),
            ("THRS", model.threshold),
            ("TABL", model.table),
        ]
    elif hasattr(model, "leaf"):
        kind = KIND_TREES
        model = model.canonical()
        sections = _tree_sections(model, leaves)
    elif hasattr(model, "support"):
        kind = KIND_KERNEL
        sections = _kernel_sections(model)
    elif hasattr(model, "coef"):
        kind = KIND_LINEAR
        sections = [("WMAT", model.coef)]
    else:
        kind = KIND_STUMPS
        model = model.canonical()
        sections = [("FEAT", _narrow(model.feature, model.nan_left)), ("THRS", model.threshold), ("COEF", model.right)]
        if model.left is not None:
            sections.append(("COEL", model.left))
    decoder = DECODERS.index(getattr(model, "decoder", "linear"))
    sections = [*sections, ("BIAS", model.bias), *labels, *_meta(meta)]
    return _assemble(kind, n_labels, model.n_features, LINKS.index(link), decoder, sections)


def _tree_sections(trees, leaves):
    leaf = trees.leaf
    if leaves == "float16":
        with np.errstate(over="ignore"):
            leaf = leaf.astype(np.float16) + np.float16(0)  # turns the -0 of what was too small into +0
        if not np.isfinite(leaf).all():
            raise ValueError(
                f"leaves='float16' cannot hold a leaf of {np.abs(trees.leaf).max():g}: the largest number is 65504"
            )
    sections = [
        ("TSIZ", _narrow(np.diff(trees.offset))),
        ("FEAT", _narrow(trees.feature, trees.nan_left)),
        ("THRS", trees.threshold),
        ("RGHT", _narrow(trees.right)),
        ("LEAF", leaf),
    ]
    if trees.cls is not None:
        sections.append(("TCLS", _narrow(trees.cls)))
    if trees.code is not None:
        sections.append(("CODE", trees.code))
    if trees.base is not None:
        sections.append(("TBAS", _narrow(np.where(trees.base < 0, trees.n_classes, trees.base))))
    return [*sections, ("RNDS", _narrow(np.diff(trees.rounds)))]


def _kernel_sections(machine):
    parameters = [KERNELS[machine.kernel], machine.gamma, machine.coef0, machine.degree]
    sections = [
        ("SVEC", machine.support),
        ("DUAL", machine.coef),
        ("KPAR", np.array(parameters, dtype=np.float32)),
    ]
    if machine.scale is not None:
        sections.append(("SCAL", np.concatenate([machine.scale.offset, machine.scale.factor])))
    return sections


def _assemble(kind, n_classes, n_features, link, decoder, sections):
    entries, parts = [], []
    end = 64 + 32 * len(sections)
    for tag, values in sections:
        dtype = values.dtype.newbyteorder("<") if values.dtype.itemsize > 1 else values.dtype
        data = np.ascontiguousarray(values, dtype=dtype).tobytes()
        offset = (end + 63) // 64 * 64
        parts += [b"\0" * (offset - end), data]
        entries.append(
            struct.pack("<4sB3xQQII", tag.encode(), _CODES[dtype], offset, values.size, score.crc32c(data), 0)
        )
        end = offset + len(data)
    table = b"".join(entries)
    header = struct.pack(
        "<8sHHIQIIIIIIII", MAGIC, 1, 0, 0, end, len(sections), 0, n_classes, n_features, kind, link, decoder, 0
    )
    crc = score.crc32c(table, score.crc32c(header))
    return b"".join([header, struct.pack("<II", crc, 0), table, *parts])
