"""Error messages for lines of LIBSVM text."""

MAX_INDEX = 2**31 - 1


# By error code of the scanner.
WORDS = {
    "label not number": "label {token} is not a number; map class names to numbers first, or use CSV, which takes text",
    "label range": "label {token} is out of range; labels must be finite and within +-2^53, beyond which some would "
    "merge",
    "label digits": "label {token} would be rounded to a whole number; write fewer digits, or number the "
    "classes",
    "lone CR": "a carriage return within the line; lines must end with a newline: convert the file, for "
    "example with tr '\\r' '\\n'",
    "multi label": "label {token} lists several labels; read multi-label files with load_svmlight(..., "
    "multilabel=True), or train on them with mcboost-train -a vector-tree --loss logistic, or "
    "--multilabel and -a adaboost-mh",
    "no colon": "expected index:value but found {token}; entries look like 7:0.5 and comments start with #",
    "index not number": "feature index {index!r} is not a whole number; entries look like 7:0.5",
    "index negative": "feature index {index} is negative; indices start at 1, or at 0 with base=0",
    "index zero": "feature index 0 in a one-based file; use base=0 or base='auto' if its indices start at 0",
    "index huge": f"feature index {{index}} is above 2^31-1 = {MAX_INDEX}; renumber the features",
    "no value": "no value after the colon; write index:value without spaces, nan for a missing value",
    "value not number": "value {token} is not a number; write nan for a missing value",
    "value overflow": "value {token} is too large for float32 (about 3.4e38); scale the feature",
    "qid not number": "qid {token} is not an integer",
    "qid place": "qid must come right after the label",
}


def shortened(text):
    """Quoted text, cut to a readable length."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def token(buffer, offset):
    """The invalid token: quoted and shortened, and as text."""
    end = offset
    while end < offset + 60 and buffer[end] not in b" \t\r\n#":
        end += 1
    text = bytes(buffer[offset:end]).decode("utf-8", "backslashreplace")
    return shortened(text), text


def explain(code, token, text, previous):
    """Message for an error code of the scanner."""
    index = text.partition(":")[0]
    if code == "index order":
        same = "occurs twice" if int(index) == previous else f"follows {previous}"
        return f"feature index {int(index)} {same}; indices must increase"
    return WORDS[code].format(token=token, index=index)


def is_a_table(line):
    """Whether a line that is not LIBSVM text looks like comma-separated values or similar."""
    text = line.partition(b"#")[0].strip()
    return b":" not in text and any(separator in text for separator in (b",", b";", b"\t"))
