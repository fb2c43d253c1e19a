"""The documents together stay short enough to be read: at most 45,000 words.

Words by page::

    python tests/contract/test_words.py
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_WORDS = 45_000
# The changelog grows with every release, and a tool writes the page of all options.
OTHERS = "CHANGELOG.md", "docs/changelog.md", "docs/options.md"
FOLDERS = "docs", "examples", "tests", "data"
# Tables from results/.
GENERATED = re.compile(r"<!-- begin (\S+) -->.*?<!-- end \1 -->", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def pages():
    """Documents that people write, as paths."""
    found = [*ROOT.glob("*.md")]
    for folder in FOLDERS:
        found += (ROOT / folder).rglob("*.md")
    built = ROOT / "docs" / "_build", ROOT / "docs" / "api", ROOT / "docs" / "auto_gallery"
    return [
        page
        for page in sorted(found)
        if page.relative_to(ROOT).as_posix() not in OTHERS
        and not any(folder in page.parents for folder in built)
    ]


def count(text):
    """Words of a page without what a tool writes; a mark such as | or # is none."""
    words = COMMENT.sub("", GENERATED.sub("", text)).split()
    return sum(any(map(str.isalnum, word)) for word in words)


def words_by_page():
    return {
        page.relative_to(ROOT).as_posix(): count(page.read_text(encoding="utf-8"))
        for page in pages()
    }


def test_the_documents_stay_short():
    total = sum(words_by_page().values())
    assert 30_000 < total <= MOST_WORDS, (
        "python tests/contract/test_words.py prints the words of each page"
    )


def test_what_is_counted():
    assert count("# Two words\n\n| a | - |\n") == 3
    assert count("one <!-- value: a.b -->24<!-- end --> two") == 3
    assert count("one\n<!-- begin t -->\n| a | b |\n<!-- end t -->\ntwo") == 2


if __name__ == "__main__":
    by_page = words_by_page()
    for page, n_words in sorted(by_page.items(), key=lambda item: -item[1]):
        print(f"{n_words:7,} {page}")
    print(f"{sum(by_page.values()):7,} in all, at most {MOST_WORDS:,}")
