"""Tree boosting with its defaults and with tuned defaults, behind one interface: arrays or frames, one thread, a seed.

The tuned defaults (TD) are those of D. Holzmueller, L. Grinsztajn and I. Steinwart, "Better by default: Strong
pre-tuned MLPs and boosted trees on tabular data" (NeurIPS 2024), as pytabkit 1.8 has them for classification. A fifth
of the rows is set aside. Training ends 300 rounds after the least log loss on it, and after at most 1,000 rounds.
Probabilities are of the rounds with the least log loss, labels of those with the fewest errors: the paper has both ways
to stop, one for each measure.
"""

import importlib.util
import pickle

import numpy as np

from shared.datasets import stratified_rows
from shared.peers import Absent

SMALLEST = 1e-30
VALIDATION_SHARE = 0.2
ROUNDS = 1000
PATIENCE = 300
LIGHTGBM_TD = {
    "n_estimators": ROUNDS, "learning_rate": 0.04, "subsample": 0.75, "subsample_freq": 1, "colsample_bytree": 1.0,
    "num_leaves": 50, "min_child_samples": 40, "min_child_weight": 1e-7, "max_bin": 255,
}  # fmt: skip
XGBOOST_TD = {
    "n_estimators": ROUNDS, "learning_rate": 0.08, "min_child_weight": 5e-6, "reg_lambda": 0.0, "max_depth": 6,
    "colsample_bylevel": 0.9, "subsample": 0.65, "tree_method": "hist", "max_bin": 256,
    "early_stopping_rounds": PATIENCE,
}  # fmt: skip
CATBOOST_TD = {
    "n_estimators": ROUNDS, "learning_rate": 0.08, "l2_leaf_reg": 1e-5, "boosting_type": "Plain",
    "bootstrap_type": "Bernoulli", "subsample": 0.9, "max_depth": 7, "random_strength": 0.8, "one_hot_max_size": 15,
    "leaf_estimation_iterations": 1, "max_bin": 254, "od_type": "Iter", "od_wait": PATIENCE,
}  # fmt: skip
VECTOR_LEAVES = {"multi_strategy": "multi_output_tree", "tree_method": "hist"}


def is_frame(X):
    return hasattr(X, "columns")


class Competitor:
    """A classifier of class codes 0..K-1, K > 2, with raw scores.

    Subclasses have ``train(X, y, validation)``, ``raw(X)``, ``size()`` and ``rounds()``. ``validates`` says whether
    rows are set aside for ``validation``. Classes with fewer than ``least_rows`` rows are not trained on. Categories
    that the training rows do not have are missing values.
    """

    module = None
    validates = False
    least_rows = 1

    def __init__(self, seed=0, **params):
        self.seed = seed
        self.params = params

    def fit(self, X, y, n_classes):
        self.n_classes = n_classes
        self.classes = np.flatnonzero(np.bincount(y, minlength=n_classes) >= self.least_rows)
        rows = np.flatnonzero(np.isin(y, self.classes))
        X = rows_of(X, rows)
        y = np.searchsorted(self.classes, y[rows])
        self.categories = self._categories(X) if is_frame(X) else {}
        X = self.prepared(X)
        validation = None
        if self.validates:
            kept, aside = stratified_rows(y, self.seed, VALIDATION_SHARE)
            validation = rows_of(X, aside), y[aside]
            X = rows_of(X, kept)
            y = y[kept]
        self.train(X, y, validation)
        return self

    def scores(self, X):
        """Scores whose softmax is the probabilities; those of classes that were not trained on are -inf."""
        return self._scores(self.raw(self.prepared(X)))

    def label_scores(self, X):
        """Scores of which the highest gives the label."""
        return (
            self.scores(X)
            if not self.validates
            else self._scores(self.raw(self.prepared(X), self.label_rounds))
        )

    def raw(self, X):
        """Scores of the classes that were trained on; by default logarithms of the probabilities."""
        return log_of(self.model.predict_proba(X))

    def size(self):
        """Bytes of the model, by default those of its pickle."""
        return len(pickle.dumps(self.model))

    def rounds(self):
        """Rounds of the model; 0 of what has none."""
        return 0

    def _scores(self, raw):
        scores = np.full((len(raw), self.n_classes), -np.inf)
        scores[:, self.classes] = raw
        return scores

    def prepared(self, X):
        """X with the categories of the training rows."""
        if not self.categories:
            return X
        X = X.copy()
        for column, categories in self.categories.items():
            X[column] = X[column].cat.set_categories(categories)
        return X

    @staticmethod
    def _categories(X):
        columns = [column for column in X.columns if X[column].dtype == "category"]
        return {
            column: X[column].cat.remove_unused_categories().cat.categories for column in columns
        }


def rows_of(X, rows):
    """Some rows of an array or a frame."""
    return X.iloc[rows] if is_frame(X) else X[rows]


class Ours(Competitor):
    """An estimator of pymcboost. Its temperature is in the probabilities alone."""

    def __init__(self, name, seed=0, **params):
        super().__init__(seed, **params)
        self.name = name

    def train(self, X, y, validation):
        import pymcboost

        self.model = getattr(pymcboost, self.name)(
            n_jobs=1, random_state=self.seed, **self.params
        ).fit(X, y)

    def size(self):
        return len(self.model.model_.to_bytes())

    def rounds(self):
        return self.model.n_estimators_


class LightGBM(Competitor):
    module = "lightgbm"

    def train(self, X, y, validation):
        import lightgbm

        self.model = lightgbm.LGBMClassifier(
            n_jobs=1, random_state=self.seed, verbose=-1, **self.params
        )
        if validation is None:
            self.model.fit(X, y)
        else:
            rows = {"eval_X": validation[0], "eval_y": validation[1]}
            stop = lightgbm.early_stopping(PATIENCE, first_metric_only=True, verbose=False)
            metrics = ["multi_logloss", "multi_error"]
            self.model.set_params(metric="None")
            self.model.fit(X, y, **rows, eval_metric=metrics, callbacks=[stop])
            (curves,) = self.model.evals_result_.values()
            self.best_rounds, self.label_rounds = (
                1 + int(np.argmin(curves[name])) for name in metrics
            )

    def raw(self, X, rounds=None):
        return self.model.predict(X, raw_score=True, num_iteration=rounds or self.rounds())

    def size(self):
        return len(self.model.booster_.model_to_string(num_iteration=self.rounds()).encode())

    def rounds(self):
        return self.best_rounds if self.validates else self.model.booster_.current_iteration()


class XGBoost(Competitor):
    module = "xgboost"

    def train(self, X, y, validation):
        import xgboost

        self.model = xgboost.XGBClassifier(
            n_jobs=1, random_state=self.seed, enable_categorical=True, **self.params
        )
        if validation is None:
            self.model.fit(X, y)
        else:
            metrics = ["merror", "mlogloss"]  # the last one ends the training
            self.model.set_params(eval_metric=metrics).fit(
                X, y, eval_set=[validation], verbose=False
            )
            (curves,) = self.model.evals_result().values()
            self.label_rounds, self.best_rounds = (
                1 + int(np.argmin(curves[name])) for name in metrics
            )

    def raw(self, X, rounds=None):
        return self.model.predict(
            X, output_margin=True, iteration_range=(0, rounds or self.rounds())
        )

    def size(self):
        return len(self.model.get_booster()[: self.rounds()].save_raw("ubj"))

    def rounds(self):
        return self.best_rounds if self.validates else self.model.get_booster().num_boosted_rounds()


class CatBoost(Competitor):
    """CatBoost takes no missing category: it is a category of its own."""

    module = "catboost"

    def train(self, X, y, validation):
        import catboost

        fixed = {
            "thread_count": 1,
            "random_seed": self.seed,
            "verbose": False,
            "allow_writing_files": False,
        }
        names = list(self.categories)
        self.model = catboost.CatBoostClassifier(**fixed, **self.params)
        if validation is None:
            self.model.fit(X, y, cat_features=names)
        else:
            self.model.set_params(eval_metric="MultiClass", custom_metric=["Accuracy"])
            self.model.fit(X, y, cat_features=names, eval_set=validation, use_best_model=False)
            curves = self.model.get_evals_result()["validation"]
            self.best_rounds = 1 + int(np.argmin(curves["MultiClass"]))
            self.label_rounds = 1 + int(np.argmax(curves["Accuracy"]))

    def prepared(self, X):
        X = super().prepared(X)
        for column in self.categories:
            X[column] = X[column].astype(object).fillna("missing")
        return X

    def raw(self, X, rounds=None):
        return self.model.predict(
            X, prediction_type="RawFormulaVal", ntree_end=rounds or self.rounds()
        )

    def size(self):
        model = self.model.copy() if self.validates else self.model
        if self.validates:
            model.shrink(self.rounds())
        return len(model._serialize_model())

    def rounds(self):
        return self.best_rounds if self.validates else self.model.tree_count_


class Histogram(Competitor):
    """scikit-learn's histogram gradient boosting."""

    def train(self, X, y, validation):
        from sklearn.ensemble import HistGradientBoostingClassifier

        # Its own early stopping above 10,000 rows is a part of its defaults.
        categories = "from_dtype" if is_frame(X) else None
        self.model = HistGradientBoostingClassifier(
            random_state=self.seed, categorical_features=categories, **self.params
        ).fit(X, y)

    def raw(self, X):
        return self.model.decision_function(X)

    def rounds(self):
        return self.model.n_iter_


class Pipeline(Competitor):
    """A classifier of scikit-learn: it sees indicators of categories, medians for missing values, scaled columns."""

    def train(self, X, y, validation):
        from sklearn.compose import make_column_transformer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder

        numbers = make_pipeline(SimpleImputer(strategy="median"), MaxAbsScaler())
        if is_frame(X):
            names = list(self.categories)
            encoder = OneHotEncoder(handle_unknown="ignore"), names
            others = numbers, [column for column in X.columns if column not in self.categories]
            numbers = make_column_transformer(encoder, others)
        self.model = make_pipeline(numbers, self.classifier()).fit(X, y)


class Logistic(Pipeline):
    def classifier(self):
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=300)


class SVM(Pipeline):
    """Its probabilities come from three folds of scikit-learn's own calibration."""

    least_rows = 3

    def classifier(self):
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.svm import SVC

        return CalibratedClassifierCV(
            SVC(cache_size=500, random_state=self.seed), ensemble=False, cv=3
        )


class RealMLP(Competitor):
    """The tuned default of the same paper's network, which stops by log loss; without label smoothing, as for log loss.

    Missing numbers are medians, missing categories one of their own.
    """

    module = "pytabkit"

    def train(self, X, y, validation):
        import pytabkit

        how = {
            "device": "cpu",
            "n_threads": 1,
            "random_state": self.seed,
            "val_metric_name": "cross_entropy",
        }
        self.model = pytabkit.RealMLP_TD_Classifier(**how, use_ls=False, **self.params).fit(X, y)

    def prepared(self, X):
        import pandas as pd

        X = (
            super().prepared(X)
            if is_frame(X)
            else pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
        )
        X = X.copy()
        if not hasattr(self, "medians"):  # of the training rows, which come first
            self.medians = X.drop(columns=list(self.categories)).median()
        for column in X.columns:
            if column in self.categories:
                X[column] = X[column].cat.add_categories("missing").fillna("missing")
            else:
                X[column] = X[column].fillna(self.medians[column])
        return X


def log_of(P):
    """Scores of probabilities."""
    return np.log(np.maximum(np.asarray(P, dtype=np.float64), SMALLEST))


def _validating(cls):
    return type(f"{cls.__name__}Validated", (cls,), {"validates": True})


LIGHTGBM_VALIDATED, XGBOOST_VALIDATED, CATBOOST_VALIDATED = map(
    _validating, (LightGBM, XGBoost, CatBoost)
)
VECTOR = "VectorTreeBoostClassifier"
# Competitor, positional arguments, and parameters that are not defaults.
COMPETITORS = {
    "vector": (Ours, (VECTOR,), {}),
    "vector-raw": (Ours, (VECTOR,), {"calibrate": None}),
    "vector-auto": (Ours, (VECTOR,), {"n_estimators": "auto"}),
    "mcboost": (Ours, ("MCBoostClassifier",), {}),
    "lightgbm": (LightGBM, (), {}),
    "lightgbm-bounded": (LightGBM, (), {"min_child_weight": 1.0}),
    "lightgbm-td": (LIGHTGBM_VALIDATED, (), LIGHTGBM_TD),
    "xgboost": (XGBoost, (), {}),
    "xgboost-td": (XGBOOST_VALIDATED, (), XGBOOST_TD),
    "xgboost-vector": (XGBoost, (), VECTOR_LEAVES),
    "xgboost-vector-td": (XGBOOST_VALIDATED, (), {**XGBOOST_TD, **VECTOR_LEAVES}),
    "catboost": (CatBoost, (), {}),
    "catboost-td": (CATBOOST_VALIDATED, (), CATBOOST_TD),
    "histogram": (Histogram, (), {}),
    "logistic": (Logistic, (), {}),
    "svm": (SVM, (), {}),
    "realmlp-td": (RealMLP, (), {}),
}


def make_competitor(method, seed=0):
    """A competitor that has not been fitted."""
    cls, arguments, params = COMPETITORS[method]
    if cls.module and importlib.util.find_spec(cls.module) is None:
        raise Absent(cls.module)
    return cls(*arguments, seed=seed, **params)
