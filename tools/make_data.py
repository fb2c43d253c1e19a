"""Write the small LIBSVM sets of data/ from the sets bundled with scikit-learn.

    python tools/make_data.py [folder]

The digits are split in four: of the rows in the order of their class (and in the given order within a class) every
fourth, from the first on, is a test row. Labels are those of scikit-learn; nothing is scaled or shuffled. The output
depends on the data alone, so that running this again changes nothing.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, load_iris, load_wine

from pymcboost import dump_svmlight


def test_rows(y):
    """Row numbers of the test part, ascending: every fourth row of each class."""
    return np.sort(np.argsort(y, kind="stable")[::4])


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    X, y = load_digits(return_X_y=True)
    test = test_rows(y)
    train = np.setdiff1d(np.arange(len(y)), test)
    dump_svmlight(folder / "digits.train.libsvm", X[train], y[train])
    dump_svmlight(folder / "digits.test.libsvm", X[test], y[test])
    dump_svmlight(folder / "iris.libsvm", *load_iris(return_X_y=True))
    dump_svmlight(folder / "wine.libsvm", *load_wine(return_X_y=True))
    for path in sorted(folder.glob("*.libsvm")):
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "data")
