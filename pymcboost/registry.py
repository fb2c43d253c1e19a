"""Registry of all public names: the module of each, and the algorithm's name on the command line.

The package's own names, the command line and the tests use this single list. Listing imports nothing.
"""

import importlib
from typing import NamedTuple


class Entry(NamedTuple):
    """A public name. ``algorithm`` is None if it is not an estimator."""

    name: str
    module: str
    algorithm: str | None = None


PUBLIC = (
    Entry("MCBoostClassifier", "pymcboost.algorithms.mcboost", "mcboost"),
    Entry("LogitBoostClassifier", "pymcboost.algorithms.abcboost", "logitboost"),
    Entry("MartClassifier", "pymcboost.algorithms.abcboost", "mart"),
    Entry("ABCLogitBoostClassifier", "pymcboost.algorithms.abcboost", "abc-logitboost"),
    Entry("ABCMartClassifier", "pymcboost.algorithms.abcboost", "abc-mart"),
    Entry("MultiBoostClassifier", "pymcboost.algorithms.papers.multiboost", "multiboost"),
    Entry("MultiBoostCWClassifier", "pymcboost.algorithms.papers.multiboost", "multiboost-cw"),
    Entry("HingeBoostOCClassifier", "pymcboost.algorithms.papers.hingeboost", "hingeboost"),
    Entry("AdaBoostECCClassifier", "pymcboost.algorithms.papers.adaboost_ecc", "adaboost-ecc"),
    Entry("AdaBoostERPClassifier", "pymcboost.algorithms.papers.adaboost_erp", "adaboost-erp"),
    Entry("AdaBoostM1Classifier", "pymcboost.algorithms.papers.adaboost_m1", "adaboost-m1"),
    Entry("AdaBoostM2Classifier", "pymcboost.algorithms.papers.adaboost_m2", "adaboost-m2"),
    Entry("AdaBoostMHClassifier", "pymcboost.algorithms.papers.adaboost_mh", "adaboost-mh"),
    Entry("AdaBoostMLClassifier", "pymcboost.algorithms.papers.adaboost_ml", "adaboost-ml"),
    Entry("AdaBoostMOClassifier", "pymcboost.algorithms.papers.adaboost_mo", "adaboost-mo"),
    Entry("AdaBoostOCClassifier", "pymcboost.algorithms.papers.adaboost_oc", "adaboost-oc"),
    Entry("GentleBoostClassifier", "pymcboost.algorithms.papers.gentleboost", "gentleboost"),
    Entry("GradBoostClassifier", "pymcboost.algorithms.papers.gradboost", "gradboost"),
    Entry("JointBoostClassifier", "pymcboost.algorithms.papers.jointboost", "jointboost"),
    Entry("PIBoostClassifier", "pymcboost.algorithms.papers.piboost", "piboost"),
    Entry("SAMMEClassifier", "pymcboost.algorithms.papers.samme", "samme"),
    Entry("VectorTreeBoostClassifier", "pymcboost.algorithms.vector_tree", "vector-tree"),
    Entry("Checkpoint", "pymcboost.training.checkpoint"),
    Entry("Dataset", "pymcboost.training.dataset"),
    Entry("Model", "pymcboost.model.model"),
    Entry("load_model", "pymcboost.model.model"),
    Entry("ModelFormatError", "pymcboost.model.file"),
    Entry("load_svmlight", "pymcboost.data.svmlight"),
    Entry("dump_svmlight", "pymcboost.data.svmwrite"),
    Entry("SvmlightError", "pymcboost.data.svmlight"),
    Entry("show_versions", "pymcboost.versions"),
)
# Top-level names of other libraries, and what to write here.
_FIT = "; train with the fit(X, y) of an estimator, such as VectorTreeBoostClassifier"
ELSEWHERE = (
    ("LGBMClassifier XGBClassifier CatBoostClassifier HistGradientBoostingClassifier", _FIT),
    ("train DMatrix Pool", _FIT),
    ("cv", f'{_FIT}; n_estimators="auto" finds the number of rounds by folds'),
    ("Booster", "; use load_model to read model files"),
    ("early_stopping", "; set early_stopping=True and n_iter_no_change of an estimator"),
    ("log_evaluation print_evaluation", "; set verbose of an estimator"),
    ("record_evaluation", "; the history_ of an estimator contains the metrics of every round"),
    (
        "plot_importance plot_metric plot_tree",
        "; pymcboost.inspection has plot_importance, plot_history and plot_tree",
    ),
)
ALGORITHMS = {entry.algorithm: entry for entry in PUBLIC if entry.algorithm is not None}


def hint(name):
    """What to write instead of a top-level name of other libraries, starting with "; "; otherwise empty."""
    if name.endswith(("Regressor", "Ranker")):
        return "; it has only classifiers"
    return next((remedy for names, remedy in ELSEWHERE if name in names.split()), "")


def load(entry):
    """Load the object behind a public name; estimators are made from classes of `pymcboost.algorithms`."""
    loaded = getattr(importlib.import_module(entry.module), entry.name)
    if entry.algorithm is None:
        return loaded
    return importlib.import_module("pymcboost.training.scikit_learn").classifier(loaded)


def get_class(algorithm):
    """Estimator class of an algorithm, by its name on the command line."""
    return load(_entry(algorithm))


def get_plain_class(algorithm):
    """Estimator class of an algorithm without scikit-learn, for programs that check rows and labels themselves."""
    entry = _entry(algorithm)
    return getattr(importlib.import_module(entry.module), entry.name)


def _entry(algorithm):
    if algorithm not in ALGORITHMS:
        raise ValueError(
            f"unknown algorithm {algorithm!r}; choose one of {', '.join(sorted(ALGORITHMS))}"
        )
    return ALGORITHMS[algorithm]
