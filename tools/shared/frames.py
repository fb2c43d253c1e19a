"""Public data sets with categories and missing values, read as pandas frames: FOLDER/mixed/NAME.csv.gz.

The last column, ``target``, is the class; an empty cell is a missing value. `frame_sources` says
where they come from, and which columns are categories.
"""

from functools import lru_cache

import numpy as np
from frame_sources import FRAMES

from shared.datasets import data_file, stratified_rows


@lru_cache(maxsize=4)
def load_frame(name):
    """Read a data set as (frame of features, class codes 0..K-1 in the order of the sorted targets)."""
    import pandas as pd

    table = pd.read_csv(
        data_file(f"mixed/{name}.csv.gz"), dtype=str, keep_default_na=False, na_values=[""]
    )
    target = table.pop("target")
    categorical = FRAMES[name].categorical
    for column in table.columns:
        if categorical == ("*",) or column in categorical:
            table[column] = pd.Categorical(table[column])
        else:
            table[column] = table[column].astype(np.float64)
    return table, np.unique(target.to_numpy(str), return_inverse=True)[1].astype(np.int64)


def load_frame_parts(name, seed=0):
    """The stratified 75:25 split number ``seed`` as (X_train, y_train, X_test, y_test)."""
    X, y = load_frame(name)
    train, test = stratified_rows(y, seed)
    return X.iloc[train], y[train], X.iloc[test], y[test]
