"""How the repository is built: sizes of its rooms, who imports whom, and how far each feature is spread.

    python tools/structure.py
    python tools/structure.py --tree FOLDER    the same of another tree, such as one in build/trees

No number here is a bound. They are there to be compared before and after a change.
"""

import argparse
import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = (".py", ".pyx", ".pxd")
C = (".c", ".h", ".hpp", ".cpp")

# Feature: (regular expression of its names in code, regular expression of the paths that are its own room).
FEATURES = {
    "workers": (r"(?i)worker|\bcomm\b|reducer", r"pymcboost/comm/|dask|divided|cli/workers"),
    "categories": (r"(?i)categor|levels", r"categories|levels"),
    "label sets": (
        r"(?i)multi_?label|thresholds|labels_(above|given|by_form)|takes_labels|label_sections",
        r"labels|thresholds",
    ),
    "calibration": (r"(?i)calibrat|temperature", r"calibration|temperature|score/links"),
    "memory estimates": (
        r"\bmemory\(|_memory\(|available_memory|MemoryError",
        r"training/memory|threads",
    ),
    "packed leaves": (
        r"\"packed\"|[Pp]acked_?[Tt]rees|PACKED|packed_row|packed\.h|__\w*packed|leaf_levels|leaf_bytes",
        r"packed",
    ),
    "column offsets": (r"\boffsets\b|(with|takes|has)_offsets", r"offsets|rounding|merging"),
    "blocks of rows": (r"from_blocks|JoinedRows|CodedRows|is_coded", r"blocks|coded"),
    "early exits": (
        r"[._ ]early\b(?!.stop)|EARLY|EarlyExit|early_(exit|size)|_exits?\b",
        r"early|exits",
    ),
    "checkpoints": (r"(?i)checkpoint|resumable|resumed\b", r"checkpoint"),
}

# A string, a docstring (which begins its line) or a comment: whichever comes first in the text.
PYTHON_PARTS = re.compile(
    r"""(?P<words>^[ \t]*[rR]?(?:\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3})|\#[^\n]*)"""
    r"""|\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""",
    re.MULTILINE,
)
C_PARTS = re.compile(
    r"""(?P<words>/\*[\s\S]*?\*/|//[^\n]*)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
)


def code_lines(path):
    """Lines of a file without comments, docstrings, blank lines and indentation."""
    parts = PYTHON_PARTS if path.suffix in PYTHON else C_PARTS
    text = parts.sub(
        lambda part: "" if part["words"] else part[0], path.read_text(encoding="utf-8")
    )
    return [line.strip() for line in text.splitlines() if line.strip()]


def by_hand(path):
    """Whether a file is code that a person has written."""
    # In the package, Cython makes the .c files and tools/amalgamate.py makes mcb.h.
    made = path.parts[0] == "pymcboost" and (
        path.suffix == ".c" or path.as_posix() == "pymcboost/include/mcb.h"
    )
    return path.suffix in PYTHON + C and not made


def code_of(tree):
    """Lines of code by path, of the package, the tests and the tools."""
    code = {}
    for top in ("pymcboost", "tests", "tools"):
        for path in sorted((tree / top).rglob("*")):
            name = path.relative_to(tree)
            if by_hand(name):
                code[name.as_posix()] = code_lines(path)
    return code


def room_of(name):
    """A folder or a module of the package; else "tests" or "tools"."""
    top, second = name.split("/")[:2]
    return f"pymcboost/{second.partition('.')[0]}" if top == "pymcboost" else top


def spread(code, names, room):
    """Files of the package in which names of a feature occur, outside its own room."""
    outside = [name for name in code if name.startswith("pymcboost/") and not re.search(room, name)]
    return [name for name in outside if re.search(names, "\n".join(code[name]))]


def parallel_assignments(source):
    """Lines of Python that assign three or more values to as many targets."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign):
            tuples = [
                target
                for target in node.targets
                if isinstance(target, ast.Tuple) and len(target.elts) >= 3
            ]
            if len(node.targets) >= 3 or (tuples and isinstance(node.value, ast.Tuple)):
                yield node.lineno


def imports_of(source):
    """Rooms of the package that Python code imports, as often as it does."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "pymcboost":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pymcboost."):
            yield node.module.split(".")[1]


def arrows(tree):
    """Counter of (room, room that it imports)."""
    package = tree / "pymcboost"
    rooms = {path.stem for path in package.iterdir()}
    count = Counter()
    for path in package.rglob("*.py"):
        room = room_of(path.relative_to(tree).as_posix()).removeprefix("pymcboost/")
        others = rooms - {room} if room != "__init__" else set()
        count.update(
            (room, other)
            for other in imports_of(path.read_text(encoding="utf-8"))
            if other in others
        )
    return count


def show_features(code):
    print("files of the package that know a feature, outside its own room")
    for feature, (names, room) in FEATURES.items():
        print(f"{len(spread(code, names, room)):8,}  {feature}")


def show_sizes(tree, code):
    print(
        "\nlines of code, and mean characters of a line, without comments, docstrings and blank lines"
    )
    rooms = defaultdict(list)
    for name, lines in code.items():
        top = name.partition("/")[0]
        room = room_of(name)
        for key in {top, room}:
            rooms[key] += lines
    for room, lines in sorted(rooms.items()):
        characters = sum(map(len, lines)) / max(1, len(lines))
        print(f"{len(lines):8,}  {characters:4.1f}  {room}")
    pages = [*tree.glob("*.md"), *(tree / "docs").rglob("*.md")]
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    print(f"{words:8,}  words in {len(pages)} pages of docs/ and at the top")


def show_assignments(tree):
    print("\nassignments of three or more values to as many targets")
    for top in ("pymcboost", "tests", "tools"):
        sources = [path.read_text(encoding="utf-8") for path in (tree / top).rglob("*.py")]
        print(f"{sum(len(list(parallel_assignments(source))) for source in sources):8,}  {top}")


def show_arrows(tree):
    count = arrows(tree)
    print(f"\n{len(count)} arrows between rooms of the package, with the number of imports")
    for room in sorted({room for room, _ in count}):
        others = [
            f"{other} {n}" for (importer, other), n in sorted(count.items()) if importer == room
        ]
        print(f"          {room} -> {', '.join(others)}")


def main(arguments=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tree", type=Path, default=ROOT, metavar="FOLDER", help="default: this one"
    )
    tree = parser.parse_args(arguments).tree
    if not (tree / "pymcboost").is_dir():
        raise SystemExit(
            f"structure: {tree} has no folder pymcboost; --tree takes the top folder of a repository"
        )
    code = code_of(tree)
    show_features(code)
    show_sizes(tree, code)
    show_assignments(tree)
    show_arrows(tree)


if __name__ == "__main__":
    main()
