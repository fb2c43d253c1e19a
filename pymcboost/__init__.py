"""Multi-class boosting: large-margin and coding families, with small models that score in microseconds."""

import importlib

__version__ = "0.1.0.dev0"

# Public name -> module that holds it. Loaded on first use, so that a process that only scores models needs NumPy alone.
_LAZY = {
    "MCBoostClassifier": "pymcboost.algorithms.mcboost",
    "LogitBoostClassifier": "pymcboost.algorithms.abcboost",
    "MartClassifier": "pymcboost.algorithms.abcboost",
    "ABCLogitBoostClassifier": "pymcboost.algorithms.abcboost",
    "AdaBoostECCClassifier": "pymcboost.algorithms.adaboost_ecc",
    "AdaBoostERPClassifier": "pymcboost.algorithms.adaboost_erp",
    "AdaBoostMHClassifier": "pymcboost.algorithms.adaboost_mh",
    "AdaBoostMOClassifier": "pymcboost.algorithms.adaboost_mo",
    "AdaBoostOCClassifier": "pymcboost.algorithms.adaboost_oc",
    "GentleBoostClassifier": "pymcboost.algorithms.gentleboost",
    "GradBoostClassifier": "pymcboost.algorithms.gradboost",
    "JointBoostClassifier": "pymcboost.algorithms.jointboost",
    "PIBoostClassifier": "pymcboost.algorithms.piboost",
    "SAMMEClassifier": "pymcboost.algorithms.samme",
    "ABCMartClassifier": "pymcboost.algorithms.abcboost",
    "MultiBoostClassifier": "pymcboost.algorithms.multiboost",
    "MultiBoostCWClassifier": "pymcboost.algorithms.multiboost",
    "VectorTreeBoostClassifier": "pymcboost.algorithms.vector_tree",
    "HingeBoostOCClassifier": "pymcboost.algorithms.hingeboost",
    "Checkpoint": "pymcboost.checkpoint",
    "Model": "pymcboost.model.model",
    "load_model": "pymcboost.model.model",
    "ModelFormatError": "pymcboost.model.file",
    "load_svmlight": "pymcboost.svmlight",
    "dump_svmlight": "pymcboost.svmwrite",
    "SvmlightError": "pymcboost.svmlight",
}

__all__ = ["__version__", "get_include", *_LAZY]


def __getattr__(name):
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted(__all__)


def get_include():
    """Folder that holds ``mcb.h``, the C scorer of saved models."""
    from pathlib import Path

    return str(Path(__file__).with_name("include"))
