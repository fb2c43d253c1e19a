"""Models of the Pareto report behind one interface: scores after n rounds, bytes, and the time of one row."""

import ctypes
import importlib.util
import itertools
import re
import time
from pathlib import Path

import numpy as np
from shared import internals, measure

# Passes over the rows that are timed, in C and in Python; the best one counts.
PASSES, PYTHON_PASSES = 7, 2
LEAVES = (8, 31)
C_WAY, PYTHON_WAY = "C interface, -O2", "Python call of one row, its cost included"
NUMBER = itertools.count()
CPP_WAY = "code in C++ that the library writes of the model, -O2"


def best_of(function, rows):
    """CPU microseconds of a Python call for one row: best of the passes."""
    return best_of_nodes(function, [row[None] for row in rows])


def best_of_nodes(function, rows):
    """The same for rows that are made ready."""
    found = []
    for _ in range(PYTHON_PASSES):
        start = time.process_time()
        for row in rows:
            function(row)
        found.append((time.process_time() - start) / len(rows) * 1e6)
    return min(found)


def softmax(scores):
    """Probabilities of rows of scores."""
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def check_compiled(library, rows, scores):
    """Refuse code whose scores of some rows are not those of the library that wrote it."""
    score_row = ctypes.CDLL(str(library)).score_row
    for row, expected in zip(np.ascontiguousarray(rows, np.float32), scores, strict=True):
        found = np.zeros(scores.shape[1])
        score_row(row.ctypes.data_as(ctypes.c_void_p), found.ctypes.data_as(ctypes.c_void_p))
        if not np.allclose(found, expected, rtol=1e-9, atol=1e-9):
            raise ValueError("the code of the model has other scores than the model")


class Ours:
    """A registered algorithm at its defaults, its leaves apart where the setting says so."""

    way = C_WAY

    def __init__(self, X, y, rounds, algorithm, leaves=None):
        kind = internals.algorithms()[algorithm]
        given = {"n_estimators": rounds, "random_state": 0, "n_jobs": 1, "max_leaf_nodes": leaves}
        known = kind().get_params()
        given = {name: value for name, value in given.items() if name in known and value is not None}
        self.model = kind(**given).fit(X, y).model_.with_meta({})
        self.rounds = self.model.n_rounds or rounds  # machines have no stages

    def evaluate(self, n, X, folder):
        """(codes, probabilities or None, bytes, words of score_one) after n rounds."""
        model = self.model.truncate(n) if n < self.rounds else self.model
        path = Path(folder, "model.mcb")
        model = self.stored(model, path)
        chances = model.predict_proba(X, n_jobs=1) if model.has_probabilities else None
        return model.predict_codes(X, n_jobs=1), chances, path.stat().st_size, ["ours", path]

    @staticmethod
    def stored(model, path):
        """The model, which is then in this file."""
        model.save(path)
        return model


class Packed(Ours):
    """The same in the packed layout, with leaves of 8 bits."""

    @staticmethod
    def stored(model, path):
        """As it is read from the packed file."""
        from pymcboost import load_model

        model.save(path, layout="packed", leaves="int8")
        return load_model(path)


class Generated(Ours):
    """The same as C without the file; its bytes are those of the file."""

    way = "code in C that pymcboost writes of the model, -O2"

    def evaluate(self, n, X, folder):
        """As of `Ours`."""
        from pymcboost import load_model
        from pymcboost.export import to_c

        *found, (_, path) = super().evaluate(n, X, folder)
        source, library = Path(folder, "model.c"), Path(folder, "model.so")
        text = to_c(load_model(path), "m", header=True)
        source.write_text(f"{text}void score_row(const float *x, double *out);\n"
                          "void score_row(const float *x, double *out) { m_scores(x, out); }\n")  # fmt: skip
        measure.compile_c(source, library, ["-std=c99", "-O2", "-shared", "-fPIC"])
        return *found, ["compiled", "model", library]


class LightGBM:
    """LightGBM, with the text of save_model."""

    way = C_WAY + ", single-row fast path"

    def __init__(self, X, y, rounds, algorithm, leaves, threads=1, **more):
        import lightgbm

        words = {"objective": "multiclass", "num_class": int(y.max()) + 1, "num_leaves": leaves}
        words |= {"verbosity": -1, "num_threads": threads, **more}
        self.model = lightgbm.train(words, lightgbm.Dataset(X, y), rounds)
        self.rounds, self.library = self.model.current_iteration(), lightgbm.basic._LIB._name

    def evaluate(self, n, X, folder):
        """As of `Ours`."""
        path = Path(folder, "model.txt")
        self.model.save_model(path, num_iteration=n)
        chances = self.model.predict(X, num_iteration=n, num_threads=1)
        return chances.argmax(axis=1), chances, path.stat().st_size, ["lightgbm", path, self.library]


class XGBoost:
    """XGBoost with scalar or vector leaves, with the file in universal binary JSON."""

    way = C_WAY + ", prediction from a dense array"

    def __init__(self, X, y, rounds, algorithm, leaves, threads=1, **more):
        import xgboost

        words = {"objective": "multi:softprob", "num_class": int(y.max()) + 1, "nthread": threads, "max_depth": 0}
        words |= {"tree_method": "hist", "grow_policy": "lossguide", "max_leaves": leaves, **more}
        if algorithm == "vector":
            words["multi_strategy"] = "multi_output_tree"
        self.model, self.rounds = xgboost.train(words, xgboost.DMatrix(X, y), rounds), rounds
        self.library = str(next(Path(xgboost.__file__).parent.rglob("libxgboost.so")))

    def evaluate(self, n, X, folder):
        """As of `Ours`."""
        path, model = Path(folder, "model.ubj"), self.model[:n]
        model.save_model(path)
        chances = model.inplace_predict(X)
        return chances.argmax(axis=1), chances, path.stat().st_size, ["xgboost", path, self.library]


class CatBoost:
    """CatBoost's symmetric trees, with its own file and its own code in C++; its wheel has no C interface."""

    way = CPP_WAY

    def __init__(self, X, y, rounds, algorithm, leaves):
        import catboost

        depth = int(np.log2(leaves + 1))
        words = {"iterations": rounds, "depth": depth, "thread_count": 1, "random_seed": 0, "verbose": False}
        self.model = catboost.CatBoostClassifier(loss_function="MultiClass", allow_writing_files=False, **words)
        self.rounds = self.model.fit(X, y).tree_count_

    def evaluate(self, n, X, folder):
        """As of `Ours`."""
        model, path = self.model.copy(), Path(folder, "model.cbm")
        model.shrink(ntree_end=n)
        model.save_model(str(path))
        scores = model.predict(X, prediction_type="RawFormulaVal", thread_count=1)
        library = self.compiled(model, X.shape[1], Path(folder))
        check_compiled(library, X[:50], scores[:50])
        chances = softmax(scores)
        return chances.argmax(axis=1), chances, path.stat().st_size, ["compiled", "model", library]

    @staticmethod
    def compiled(model, width, folder):
        """A library that scores one row with the code of the model."""
        # A name of its own: a library that is loaded is not read again.
        source, library = folder / "catboost_model.cpp", folder / f"catboost_model_{next(NUMBER)}.so"
        model.save_model(str(source), format="cpp")
        with source.open("a") as file:
            file.write(f"""
extern "C" void score_row(const float *x, double *scores) {{
    static std::vector<float> row({width});
    std::copy(x, x + {width}, row.begin());
    for (double score : ApplyCatboostModelMulti(row)) *scores++ = score;
}}
""")
        measure.compile_c(source, library, ["-O2", "-shared", "-fPIC"], ("-lstdc++",))
        return library


class Histogram:
    """HistGradientBoosting, with the bytes of its pickle."""

    way = PYTHON_WAY

    def __init__(self, X, y, rounds, algorithm, leaves):
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        self.limits = threadpool_limits(1)
        words = {"max_iter": rounds, "max_leaf_nodes": leaves, "early_stopping": False, "random_state": 0}
        self.model = HistGradientBoostingClassifier(**words).fit(X, y)
        self.rounds = self.model.n_iter_

    def evaluate(self, n, X, folder):
        """As of `CatBoost`."""
        import copy
        import pickle

        model = copy.copy(self.model)
        model._predictors = self.model._predictors[:n]
        chances = model.predict_proba(X)
        return chances.argmax(axis=1), chances, len(pickle.dumps(model)), model.decision_function


class Yggdrasil:
    """Yggdrasil's gradient boosted trees, with its own file and its own code in C++."""

    way = CPP_WAY

    def __init__(self, X, y, rounds, algorithm, leaves):
        import ydf

        ydf.verbose(0)
        words = {"num_trees": rounds, "max_num_nodes": leaves, "max_depth": -1, "num_threads": 1}
        words |= {"growing_strategy": "BEST_FIRST_GLOBAL", "validation_ratio": 0.0, "early_stopping": "NONE"}
        data = {"x": np.asarray(X, np.float32), "y": y}
        self.model = ydf.GradientBoostedTreesLearner(label="y", **words).train(data)
        self.n_classes, self.opened = self.model.num_trees_per_iteration(), ydf.deserialize_model
        self.rounds = self.model.num_trees() // self.n_classes

    def evaluate(self, n, X, folder):
        """As of `Ours`."""
        model = self.opened(self.model.serialize())
        while model.num_trees() > n * self.n_classes:
            model.remove_tree(model.num_trees() - 1)
        chances = model.predict({"x": np.asarray(X, np.float32)})
        chances = chances[:, np.argsort([int(label) for label in model.label_classes()])]
        try:
            way, self.way = ["compiled", "model", self.compiled(model, Path(folder))], Yggdrasil.way
        except ValueError:  # more conditions than its code has numbers for: 256 columns are too many
            way, self.way = lambda row: model.predict({"x": row}), PYTHON_WAY
        return chances.argmax(axis=1), chances, len(model.serialize()), way

    @staticmethod
    def compiled(model, folder):
        """A library that scores one row with the code of the model."""
        (folder / "ydf_model.h").write_text(model.to_standalone_cc(classification_output="SCORE"))
        names = model.input_feature_names()  # x.07_of_64
        fields = [(re.sub(r"\W", "_", name), int(re.search(r"\.(\d+)_of", name)[1])) for name in names]
        filled = " ".join(f"row.{field} = x[{column}];" for field, column in fields)
        source, library = folder / "ydf_model.cpp", folder / "ydf_model.so"
        source.write_text(f"""\
#include "ydf_model.h"
extern "C" void score_row(const float *x, double *scores) {{
    ydf_model::Instance row;
    {filled}
    for (float score : ydf_model::PredictUnsafe(row)) *scores++ = score;
}}
""")
        measure.compile_c(source, library, ["-O2", "-shared", "-fPIC"])
        return library


class Libsvm:
    """LIBSVM with an RBF kernel at its default width on columns brought to [0, 1]; the size is the cost C."""

    way = "svm_predict by ctypes, its cost included"

    def __init__(self, X, y, rounds, algorithm, leaves):
        from libsvm import svmutil

        self.low = X.min(axis=0)
        self.span = np.maximum(X.max(axis=0) - self.low, 1e-12)
        self.tools, self.rounds = svmutil, rounds
        self.model = svmutil.svm_train(y, (X - self.low) / self.span, f"-q -c {rounds} -m 200")

    def evaluate(self, n, X, folder):
        """As of `CatBoost`; there are no probabilities."""
        from libsvm.svm import gen_svm_nodearray, libsvm

        path = Path(folder, "model.svm")
        self.tools.svm_save_model(str(path), self.model)

        def one(node):
            return libsvm.svm_predict(self.model, node)

        nodes = [gen_svm_nodearray(row)[0] for row in (X - self.low) / self.span]
        codes = np.array([one(node) for node in nodes], np.int64)
        # The rows to time are made into the library's nodes beforehand.
        self.nodes = nodes[:200]
        return codes, None, path.stat().st_size, one


PEERS = {
    "LightGBM": ("lightgbm", LightGBM, ("scalar",)),
    "XGBoost": ("xgboost", XGBoost, ("scalar", "vector")),
    "CatBoost": ("catboost", CatBoost, ("symmetric",)),
    "Yggdrasil": ("ydf", Yggdrasil, ("scalar",)),
    "HistGradientBoosting": ("sklearn", Histogram, ("scalar",)),
}


def present(module):
    """Whether a library is installed."""
    return importlib.util.find_spec(module) is not None
