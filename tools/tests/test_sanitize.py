"""tools/sanitize.py without a build of the kernels."""

import sanitize


def test_the_tests_that_it_lists_are_there():
    names = [word for words in sanitize.TESTS.values() for word in words if "/" in word]
    assert names
    assert all((sanitize.ROOT / name).exists() for name in names)
