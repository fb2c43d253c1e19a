"""Put ``pymcboost/include/mcb.h`` together from the files in ``pymcboost/_kernels/score``.

    python tools/amalgamate.py           # write the header
    python tools/amalgamate.py --check   # write nothing; exit code 1 unless the header is current

The header is ``mcb.h`` of that folder, each ``#include "file.h"`` of which is replaced by the file.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PIECES = ROOT / "pymcboost" / "_kernels" / "score"
HEADER = ROOT / "pymcboost" / "include" / "mcb.h"
NOTE = "/* Put together by tools/amalgamate.py from pymcboost/_kernels/score: change it there. */\n"
INCLUDE = re.compile(r'^#include "(\w+\.h)"\n', flags=re.MULTILINE)


def amalgamate(folder):
    """The text of the header.

    Parameters
    ----------
    folder : Path

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If a file of the folder is not included exactly once.
    """
    frame = (folder / "mcb.h").read_text(encoding="utf-8")
    included = INCLUDE.findall(frame)
    there = {path.name for path in folder.glob("*.h")} - {"mcb.h"}
    odd = {name for name in included if included.count(name) > 1} | there ^ set(included)
    if odd:
        names = ", ".join(sorted(odd))
        raise ValueError(
            f"{folder / 'mcb.h'} must include every file of its folder once; look at {names}"
        )
    return NOTE + INCLUDE.sub(
        lambda match: (folder / match[1]).read_text(encoding="utf-8") + "\n", frame
    )


def main(arguments=None):
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="only say whether the header is current"
    )
    parser.add_argument("--folder", type=Path, default=PIECES)
    parser.add_argument("--header", type=Path, default=HEADER)
    options = parser.parse_args(arguments)
    text = amalgamate(options.folder).encode()
    if not options.check:
        options.header.write_bytes(text)
    elif not options.header.exists() or options.header.read_bytes() != text:
        print(
            f"{options.header} is not current: change the files in {options.folder}, then run tools/amalgamate.py"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
