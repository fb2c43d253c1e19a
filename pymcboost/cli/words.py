"""Messages of the Python interface in the words of the command line: options in place of parameters."""

import re

# What `load_svmlight` is told.
READING = {"base": "--base", "n_features": "--n-features"}
# Parameters of one word that is no word of English.
BARE = {"C", "tol", "nu", "l1", "scoring", "cv"}
ASSIGNED = re.compile(r"""(?<![\w./])(\w+)=('[^']*'|"[^"]*"|[-+\w]+(?:\.\w+)*)""")
# What the Python interface has, and the command line has in another form.
OTHERS = {
    r"give X_val and y_val": "give -P file",
    r"X_val, y_val|(?<![-\w./'])[Xy]_val(?![\w./])": "the validation file",
    r"the validation set 'val'|validation set 'val'": "the validation file",
    r" in y \(": " in the training file (",
    r"a sparse one: use X\.toarray\(\)": "sparse ones: use kernel='linear'",
    r"use X\.toarray\(\)(, or )?": "use ",
    r"dense X\b": "dense rows",
    r"raise memory_limit or |layout='csr' or ": "",
    r"give Chunks another folder": "name a cache on another disk",
    r"n_splits=(\d+)": r"\1 folds",
}


def in_options(text, options=READING):
    """Put options in place of parameters: ``max_bins=9`` becomes ``--max-bins 9``.

    Parameters
    ----------
    text : str
        A message or a help text.
    options : dict of str to str
        The option of each parameter.
    """
    for pattern, words in OTHERS.items():
        text = re.sub(pattern, words, text)

    def with_value(found):
        flag, value = options.get(found[1]), found[2].strip("'\"")
        if flag is None:
            return found[0]
        if value in ("True", "False"):
            return flag if value == "True" else "--no-" + flag[2:]
        return f"{flag} {'none' if value == 'None' else value}"

    text = ASSIGNED.sub(with_value, text)
    bare = "|".join(name for name in options if "_" in name or name in BARE)
    # Not in names of files, of columns behind their options, and of classes before their rows.
    before, after = r"(?<![-\w./'])(?<!LIBSVM's )(?<!--label )(?<!--categorical-features )", r"(?![\w=/'+]|\.\w|: \d)"
    text = re.sub(rf"{before}({bare}){after}", lambda found: options[found[1]], text)
    return re.sub(rf"^({'|'.join(options)}): ", lambda found: f"{options[found[1]]}: ", text)
