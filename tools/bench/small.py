"""Bytes of models at equal error: packed trees against LightGBM's arrays and the files of XGBoost and CatBoost."""

import importlib.util
import itertools
import re
import tempfile
from pathlib import Path

import numpy as np
from shared.datasets import EIGHT as SETS
from shared.datasets import MOST, MOST_TEST, sampled_parts, stratified_rows

from bench.report import Report, benchmark

# Share of the training part that is held out, to choose.
HELD_OUT = 0.2
ROUNDS = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56, 80, 100, 113, 160, 226, 320)
MOST_ROUNDS = {"packed": 320, "LightGBM": 100, "XGBoost": 100, "CatBoost": 320}
GRIDS = {
    "packed": {
        "max_leaf_nodes": (4, 8, 16, 32, 64),
        "leaf_levels": (1, 3),
        "learning_rate": (0.3, 0.6),
        "threshold_penalty": (0.1,),
    },
    "LightGBM": {"num_leaves": (4, 8, 16, 31), "learning_rate": (0.1, 0.3)},
    "XGBoost": {"max_leaves": (4, 8, 16, 31), "learning_rate": (0.3,)},
    "CatBoost": {"depth": (4, 6), "learning_rate": (0.3,)},
}
# The files of each library whose bytes are compared.
FORMS = {"packed": ("packed",), "LightGBM": ("float32", "float16"), "XGBoost": ("ubj",), "CatBoost": ("cbm",)}


def split(name):
    """(fit, held-out, test) parts of a set, as pairs of features and codes."""
    X, y, X_test, y_test = sampled_parts(name)
    fit, held = stratified_rows(y, 0, HELD_OUT)
    return (X[fit], y[fit]), (X[held], y[held]), (X_test, y_test)


class Packed:
    """Vector trees with leaves on a grid, in a packed file without the information on the training."""

    def __init__(self, X, y, params, rounds, threads):
        from pymcboost import VectorTreeBoostClassifier

        fixed = {"min_relative_gain": 0.0, "split_columns": None, "calibrate": None, "random_state": 0}
        model = VectorTreeBoostClassifier(n_estimators=rounds, n_jobs=threads, **fixed, **params).fit(X, y).model_
        self.model, self.rounds = model.with_meta({}), model.n_rounds

    def sizes(self, n):
        """Bytes of each form after n rounds."""
        return [len(self.model.truncate(n).to_bytes("packed"))]

    def predict(self, X, n):
        """Codes of rows."""
        return self.model.truncate(n).predict_codes(X)


class LightGBM:
    """Arrays: size of each tree, feature, threshold and children of each split, leaf values."""

    def __init__(self, X, y, params, rounds, threads):
        import lightgbm

        fixed = {"objective": "multiclass", "num_class": int(y.max()) + 1, "verbosity": -1, "num_threads": threads}
        self.model = lightgbm.train({**fixed, **params}, lightgbm.Dataset(X, y), rounds)
        self.rounds, self.wide = self.model.current_iteration(), X.shape[1] > 256

    def sizes(self, n):
        """Bytes of float32 and float16."""
        text = self.model.model_to_string(num_iteration=n)
        leaves = np.array([int(found) for found in re.findall(r"^num_leaves=(\d+)$", text, re.M)])
        own = (1 + self.wide) + 2 * np.where(leaves > 127, 2, 1)
        return [int((1 + (leaves - 1) * (own + real) + leaves * real).sum()) for real in (4, 2)]

    def predict(self, X, n):
        """Codes of rows."""
        return self.model.predict(X, num_iteration=n).argmax(axis=1)


class XGBoost:
    """The file in universal binary JSON."""

    def __init__(self, X, y, params, rounds, threads):
        import xgboost

        fixed = {"objective": "multi:softprob", "num_class": int(y.max()) + 1, "nthread": threads, "max_depth": 0}
        fixed |= {"tree_method": "hist", "grow_policy": "lossguide"}
        self.matrix = xgboost.DMatrix
        self.model, self.rounds = xgboost.train({**fixed, **params}, xgboost.DMatrix(X, y), rounds), rounds

    def sizes(self, n):
        """Bytes of the file."""
        return [len(self.model[:n].save_raw("ubj"))]

    def predict(self, X, n):
        """Codes of rows."""
        return self.model.predict(self.matrix(X), iteration_range=(0, n)).argmax(axis=1)


class CatBoost:
    """The library's own file."""

    def __init__(self, X, y, params, rounds, threads):
        import catboost

        self.model = catboost.CatBoostClassifier(
            iterations=rounds, thread_count=threads, random_seed=0, verbose=False, allow_writing_files=False, **params
        ).fit(X, y)
        self.rounds = self.model.tree_count_

    def sizes(self, n):
        """Bytes of the file."""
        model = self.model.copy()
        model.shrink(ntree_end=n)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.cbm"
            model.save_model(str(path))
            return [path.stat().st_size]

    def predict(self, X, n):
        """Codes of rows."""
        return self.model.predict(X, ntree_end=n).astype(np.int64).ravel()


def candidates(library, make, fit, held, options):
    """(bytes of each form, held-out error, parameters, rounds, function of the test rows) of all models."""
    grid = {name: values[: options.size(1, None)] for name, values in GRIDS[library].items()}
    most = options.size(5, MOST_ROUNDS[library])
    for values in itertools.product(*grid.values()):
        params = dict(zip(grid, values, strict=True))
        model = make(*fit, params, most, max(options.threads))
        for n in [n for n in ROUNDS if n <= min(most, model.rounds)]:
            error = float((model.predict(held[0], n) != held[1]).mean())
            yield model.sizes(n), error, params, n, lambda X, model=model, n=n: model.predict(X, n)


@benchmark("small")
def bench_small(options):
    """Smallest models at equal error, in bytes."""
    report = Report(
        {
            "equal error": "held-out error at most the least one of LightGBM's grid and a standard error of it",
            "held out": f"{HELD_OUT:.0%} of the training part; the test part is looked at once for each library",
            "LightGBM": "arrays: sizes, features, thresholds, children, leaves; as float16 the same error is assumed",
            "packed": "whole file, without meta",
            "grids": {name: {key: list(v) for key, v in grid.items()} for name, grid in GRIDS.items()},
            "rows": f"{MOST} to train on, {MOST_TEST} to test on at most",
        }
    )
    libraries = {"packed": Packed, "LightGBM": LightGBM, "XGBoost": XGBoost, "CatBoost": CatBoost}
    for name in list(libraries)[1:]:
        wanted = options.peers is None or name.lower() in options.peers
        if not wanted or importlib.util.find_spec(name.lower()) is None:
            report.notes.append(f"{name} is not installed, or was not asked for")
            del libraries[name]
    ratios = {}
    for name in options.data or (SETS[:1] if options.quick else SETS):
        measured(name, libraries, options, report, ratios)
    for form, values in ratios.items():
        report.add(f"mean of {len(values)} sets: packed / {form}", float(np.mean(values)), "x")
    bounds = {"LightGBM float32": 0.1, "CatBoost cbm": 0.25}
    for form in bounds.keys() & ratios.keys():
        report.target(f"packed / {form}", float(np.mean(ratios[form])), bounds[form], at_most=True)
    return report


def measured(name, libraries, options, report, ratios):
    """Enter the smallest models of one set."""
    fit, held, test = split(name)
    found = {library: list(candidates(library, make, fit, held, options)) for library, make in libraries.items()}
    least = min(error for _, error, *_ in found["LightGBM" if "LightGBM" in found else "packed"])
    target, size = least + np.sqrt(least * (1 - least) / len(held[1])), {}
    report.notes.append(f"{name}: {len(fit[1])} rows, held-out error at most {target:.3%}")
    for library, models in found.items():
        for at, form in enumerate(FORMS[library]):
            good = [model for model in models if model[1] <= target]
            label = library if form == library else f"{library} {form}"
            if not good:
                report.notes.append(f"{name}: no model of {label} reaches {target:.3%}")
                continue
            sizes, error, params, n, predict = min(good, key=lambda model, at=at: (model[0][at], model[1]))
            size[label] = sizes[at]
            wrong = float((predict(test[0]) != test[1]).mean())
            report.add(f"{name}: {label}", sizes[at], "bytes", error=error, test_error=wrong, rounds=n, params=params)
    for form in [form for form in size if form != "packed" and "packed" in size]:
        ratios.setdefault(form, []).append(size["packed"] / size[form])
        report.add(f"{name}: packed / {form}", size["packed"] / size[form], "x")
