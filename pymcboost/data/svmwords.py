"""What is wrong with a line of LIBSVM text, in words."""

MAX_INDEX = 2**31 - 1


def token(buffer, offset):
    """The offending token as quoted text, cut to a readable length."""
    end = offset
    while end < offset + 60 and buffer[end] not in b" \t\r\n#":
        end += 1
    text = bytes(buffer[offset:end]).decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= 40 else text[:37] + "..."), text


def explain(code, token, text, previous):
    """Words for an error code of the scanner."""
    index = text.partition(":")[0]
    if code == "label not number":
        return f"label {token} is not a number; map class names to numbers first, or use CSV, which takes text"
    if code == "label range":
        return f"label {token} is out of range; labels must be finite and within +-2^53, beyond which some would merge"
    if code == "label digits":
        return f"label {token} would become a whole number, which it is not; write fewer digits, or number the classes"
    if code == "lone CR":
        return (
            "a carriage return within the line; lines must end with a newline: convert those of the file, as "
            "tr '\\r' '\\n' does"
        )
    if code == "multi label":
        return f"label {token} lists several labels; load_svmlight(..., multilabel=True) reads such files"
    if code == "no colon":
        return f"expected index:value but found {token}; entries look like 7:0.5 and comments start with #"
    if code == "index not number":
        return f"feature index {index!r} is not a whole number; entries look like 7:0.5"
    if code == "index negative":
        return f"feature index {index} is negative; indices start at 1, or at 0 with base=0"
    if code == "index zero":
        return "feature index 0 in a one-based file; use base=0 or base='auto' if its indices start at 0"
    if code == "index huge":
        return f"feature index {index} is above 2^31-1 = {MAX_INDEX}; renumber the features"
    if code == "index order":
        same = "occurs twice" if int(index) == previous else f"follows {previous}"
        return f"feature index {int(index)} {same}; indices must increase"
    if code == "no value":
        return "no value after the colon; write index:value without spaces, nan for a missing value"
    if code == "value not number":
        return f"value {token} is not a number; write nan for a missing value"
    if code == "value overflow":
        return f"value {token} is too large for float32 (about 3.4e38); scale the feature"
    if code == "qid not number":
        return f"qid {token} is not an integer"
    return "qid must come right after the label"


def is_a_table(line):
    """Whether a line that is no row in LIBSVM format looks like comma-separated values or the like."""
    text = line.partition(b"#")[0].strip()
    return b":" not in text and any(separator in text for separator in (b",", b";", b"\t"))
