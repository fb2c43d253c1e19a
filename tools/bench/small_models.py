"""What `bench.small` trains: for each library the settings that are searched, errors after some rounds, and bytes."""

import re
import tempfile
from pathlib import Path

import numpy as np
from shared import internals

# Rounds after which models are looked at.
ROUNDS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 28, 34, 40, 48, 56, 67, 80, 95, 113, 135, 160, 190, 226, 270)
ROUNDS += (320, 400, 500, 640, 800, 1000)
# Rows above which trees may have more leaves.
MANY_ROWS = 10_000


def own_space(n_rows):
    """Values of the parameters of packed trees."""
    leaves = (4, 8, 16, 32, 64, 128, 256) if n_rows > MANY_ROWS else (3, 4, 6, 8, 12, 16, 24, 32)
    return {
        "max_leaf_nodes": leaves, "leaf_levels": (1, 2, 3, 7), "learning_rate": (0.2, 0.3, 0.5, 0.7),
        "max_leaf_entries": (None, 1, 2, 3, 4), "threshold_penalty": (0.0, 0.05, 0.1, 0.2, 0.3, 0.5),
        "feature_penalty": (0.0, 0.02, 0.05, 0.1, 0.2), "max_bins": (3, 4, 6, 8, 16, 32, 64, 255),
        "subsample": (0.5, 1.0),
        "max_features": ("auto", 1.0), "min_samples_leaf": (1, 5), "coarse": (None, "half", "grid"),
        "min_relative_gain": (0.0, 0.25, 0.5, 1.0, 2.0), "l2_regularization": (0.0, 0.5, 2.0),
    }  # fmt: skip


def coarse(X, how):
    """Features whose midpoints take few bytes: of 9 significant bits, or multiples of one step, about 128 of them."""
    if how == "half":
        mantissa, exponent = np.frexp(X)
        return np.ldexp(np.rint(np.ldexp(mantissa, 9)), exponent - 9).astype(np.float32)
    if how == "grid":
        step = 2.0 ** np.ceil(np.log2(max(float(X.max() - X.min()), 1e-30) / 127))
        return (np.rint(X / step) * step).astype(np.float32)
    return X


class Packed:
    """Vector trees with leaves on a grid, in a tight file without the information on the training; and its arrays."""

    FORMS, MOST, TRIALS, space = ("file", "arrays"), 320, (60, 180), staticmethod(own_space)

    def __init__(self, X, y, params, rounds, threads):
        from pymcboost import VectorTreeBoostClassifier

        params = dict(params)
        X = coarse(X, params.pop("coarse"))
        fixed = {"min_relative_gain": 0.0, "split_columns": None, "calibrate": None, "random_state": 0}
        fixed |= {"n_estimators": rounds, "n_jobs": threads}
        model = VectorTreeBoostClassifier(**fixed | params).fit(X, y).model_
        self.model, self.rounds = model.with_meta({}), model.n_rounds

    def stages(self, X, wanted):
        """Codes of rows after numbers of rounds."""
        for n, scores in enumerate(self.model.staged_raw_scores(X), 1):
            if n in wanted:
                yield n, scores.argmax(axis=1)

    def sizes(self, n):
        """Bytes of each form after n rounds."""
        data = self.model.truncate(n).to_bytes("tight")
        return [len(data), internals.bytes_of_sections(data, "PACK", "BIAS")]


class LightGBM:
    """Arrays: size of each tree, feature, threshold and children of each split, leaf values."""

    FORMS, MOST, TRIALS = ("float32", "float16"), 226, (12, 8)

    @staticmethod
    def space(n_rows):
        """Values of its parameters."""
        leaves = (4, 8, 16, 31, 63) if n_rows > MANY_ROWS else (3, 4, 6, 8, 16, 31)
        return {
            "num_leaves": leaves, "learning_rate": (0.1, 0.2, 0.3, 0.5), "min_data_in_leaf": (1, 5, 20),
            "feature_fraction": (0.3, 1.0), "lambda_l2": (0.0, 1.0), "max_bin": (31, 255),
        }  # fmt: skip

    def __init__(self, X, y, params, rounds, threads):
        import lightgbm

        fixed = {"objective": "multiclass", "num_class": int(y.max()) + 1, "verbosity": -1, "num_threads": threads}
        data = lightgbm.Dataset(X, y, params={"max_bin": params["max_bin"], "verbosity": -1})
        self.model = lightgbm.train({**fixed, **params}, data, rounds)
        self.rounds, wide = self.model.current_iteration(), X.shape[1] > 256
        text = self.model.model_to_string(num_iteration=-1)
        leaves = np.array([int(found) for found in re.findall(r"^num_leaves=(\d+)$", text, re.M)])
        own = (1 + wide) + 2 * np.where(leaves > 127, 2, 1)
        each = [(1 + (leaves - 1) * (own + real) + leaves * real).reshape(self.rounds, -1) for real in (4, 2)]
        self.bytes = [trees.sum(axis=1).cumsum() for trees in each]

    def stages(self, X, wanted):
        """Codes of rows after numbers of rounds."""
        scores, before = 0, 0
        for n in [n for n in wanted if n <= self.rounds]:
            scores = scores + self.model.predict(X, raw_score=True, start_iteration=before, num_iteration=n - before)
            before = n
            yield n, scores.argmax(axis=1)

    def sizes(self, n):
        """Bytes of float32 and float16."""
        return [int(form[n - 1]) for form in self.bytes]


class XGBoost:
    """The file in universal binary JSON; trees of one class each, or with a vector in a leaf."""

    FORMS, MOST, TRIALS = ("ubj",), 400, (12, 8)

    @staticmethod
    def space(n_rows):
        """Values of its parameters."""
        return {
            "max_leaves": (4, 8, 16, 31, 63), "learning_rate": (0.1, 0.2, 0.3, 0.5), "min_child_weight": (0, 1),
            "colsample_bynode": (0.3, 1.0), "subsample": (0.5, 1.0), "reg_lambda": (0, 1),
            "multi_strategy": ("one_output_per_tree", "multi_output_tree"),
        }  # fmt: skip

    def __init__(self, X, y, params, rounds, threads):
        import xgboost

        fixed = {"objective": "multi:softprob", "num_class": int(y.max()) + 1, "nthread": threads, "max_depth": 0}
        fixed |= {"tree_method": "hist", "grow_policy": "lossguide"}
        self.matrix = xgboost.DMatrix
        self.model, self.rounds = xgboost.train({**fixed, **params}, xgboost.DMatrix(X, y), rounds), rounds

    def stages(self, X, wanted):
        """Codes of rows after numbers of rounds."""
        matrix = self.matrix(X)
        for n in [n for n in wanted if n <= self.rounds]:
            yield n, self.model.predict(matrix, iteration_range=(0, n)).argmax(axis=1)

    def sizes(self, n):
        """Bytes of the file."""
        return [len(self.model[:n].save_raw("ubj"))]


class CatBoost:
    """The library's own file."""

    FORMS, MOST, TRIALS = ("cbm",), 1000, (10, 20)

    @staticmethod
    def space(n_rows):
        """Values of its parameters; the small sets have few values in a column."""
        return {
            "depth": (2, 3, 4, 5, 6, 8), "learning_rate": (0.03, 0.05, 0.1, 0.2, 0.3, 0.5),
            "border_count": (15, 64, 254) if n_rows > MANY_ROWS else (15, 32), "rsm": (0.3, 1.0),
            "l2_leaf_reg": (1, 3),
        }  # fmt: skip

    def __init__(self, X, y, params, rounds, threads):
        import catboost

        self.model = catboost.CatBoostClassifier(
            iterations=rounds, thread_count=threads, random_seed=0, verbose=False, allow_writing_files=False, **params
        ).fit(X, y)
        self.rounds = self.model.tree_count_

    def stages(self, X, wanted):
        """Codes of rows after numbers of rounds."""
        for n in [n for n in wanted if n <= self.rounds]:
            yield n, self.model.predict(X, ntree_end=n).astype(np.int64).ravel()

    def sizes(self, n):
        """Bytes of the file."""
        model = self.model.copy()
        model.shrink(ntree_end=n)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.cbm"
            model.save_model(str(path))
            return [path.stat().st_size]


class Emlearn:
    """Arrays of its C, 8 bytes for a split and 1 for a leaf's class, of scikit-learn's forests, whose trees vote.

    A feature has 8 bits with a sign. Thresholds are rounded to 16 bits there; here they are as they were.
    """

    FORMS, MOST, TRIALS = ("C arrays",), 640, (12, 8)

    @staticmethod
    def space(n_rows):
        """Values of its parameters."""
        return {
            "max_leaf_nodes": (16, 32, 64, 128, 256, 512, 1024, None), "max_features": ("sqrt", 0.1, 0.3, 0.6, 1.0),
            "extra": (False, True), "min_samples_leaf": (1, 2, 3),
        }  # fmt: skip

    def __init__(self, X, y, params, rounds, threads):
        from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

        params = dict(params)
        if X.shape[1] > 127:
            raise ValueError("emlearn has room for 127 features")
        make = ExtraTreesClassifier if params.pop("extra") else RandomForestClassifier
        self.model = make(rounds, random_state=0, n_jobs=threads, **params).fit(X, y)
        self.rounds = rounds

    def stages(self, X, wanted):
        """Codes of rows after numbers of trees."""
        votes = np.zeros((len(X), self.model.n_classes_))
        for n, tree in enumerate(self.model.estimators_, 1):
            votes[np.arange(len(X)), tree.predict(X).astype(np.int64)] += 1
            if n in wanted:
                yield n, votes.argmax(axis=1)

    def sizes(self, n):
        """Bytes of nodes, leaves and roots."""
        leaves = [tree.tree_.n_leaves for tree in self.model.estimators_[:n]]
        return [sum(8 * (size - 1) + size + 4 for size in leaves)]


LIBRARIES = {
    "LightGBM": ("lightgbm", LightGBM),
    "pymcboost": ("pymcboost", Packed),
    "CatBoost": ("catboost", CatBoost),
    "XGBoost": ("xgboost", XGBoost),
    "emlearn": ("sklearn", Emlearn),
}
