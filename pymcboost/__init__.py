"""Multi-class boosting: large-margin and coding families, with small models that score in microseconds."""

from typing import TYPE_CHECKING

from pymcboost import registry as _registry
from pymcboost._version import __version__ as __version__

if TYPE_CHECKING:  # the registry's names, for type checkers; a test compares
    from pymcboost.algorithms.abcboost import ABCLogitBoostClassifier as ABCLogitBoostClassifier
    from pymcboost.algorithms.abcboost import ABCMartClassifier as ABCMartClassifier
    from pymcboost.algorithms.abcboost import LogitBoostClassifier as LogitBoostClassifier
    from pymcboost.algorithms.abcboost import MartClassifier as MartClassifier
    from pymcboost.algorithms.mcboost import MCBoostClassifier as MCBoostClassifier
    from pymcboost.algorithms.papers.adaboost_ecc import (
        AdaBoostECCClassifier as AdaBoostECCClassifier,
    )
    from pymcboost.algorithms.papers.adaboost_erp import (
        AdaBoostERPClassifier as AdaBoostERPClassifier,
    )
    from pymcboost.algorithms.papers.adaboost_m1 import AdaBoostM1Classifier as AdaBoostM1Classifier
    from pymcboost.algorithms.papers.adaboost_m2 import AdaBoostM2Classifier as AdaBoostM2Classifier
    from pymcboost.algorithms.papers.adaboost_mh import AdaBoostMHClassifier as AdaBoostMHClassifier
    from pymcboost.algorithms.papers.adaboost_ml import AdaBoostMLClassifier as AdaBoostMLClassifier
    from pymcboost.algorithms.papers.adaboost_mo import AdaBoostMOClassifier as AdaBoostMOClassifier
    from pymcboost.algorithms.papers.adaboost_oc import AdaBoostOCClassifier as AdaBoostOCClassifier
    from pymcboost.algorithms.papers.gentleboost import (
        GentleBoostClassifier as GentleBoostClassifier,
    )
    from pymcboost.algorithms.papers.gradboost import GradBoostClassifier as GradBoostClassifier
    from pymcboost.algorithms.papers.hingeboost import (
        HingeBoostOCClassifier as HingeBoostOCClassifier,
    )
    from pymcboost.algorithms.papers.jointboost import JointBoostClassifier as JointBoostClassifier
    from pymcboost.algorithms.papers.multiboost import MultiBoostClassifier as MultiBoostClassifier
    from pymcboost.algorithms.papers.multiboost import (
        MultiBoostCWClassifier as MultiBoostCWClassifier,
    )
    from pymcboost.algorithms.papers.piboost import PIBoostClassifier as PIBoostClassifier
    from pymcboost.algorithms.papers.samme import SAMMEClassifier as SAMMEClassifier
    from pymcboost.algorithms.vector_tree import (
        VectorTreeBoostClassifier as VectorTreeBoostClassifier,
    )
    from pymcboost.data.svmlight import SvmlightError as SvmlightError
    from pymcboost.data.svmlight import load_svmlight as load_svmlight
    from pymcboost.data.svmwrite import dump_svmlight as dump_svmlight
    from pymcboost.model.file import ModelFormatError as ModelFormatError
    from pymcboost.model.model import Model as Model
    from pymcboost.model.model import load_model as load_model
    from pymcboost.training.checkpoint import Checkpoint as Checkpoint
    from pymcboost.training.dataset import Dataset as Dataset
    from pymcboost.versions import show_versions as show_versions

# Loaded on first use, so that a process that only predicts needs only NumPy.
_PUBLIC = {entry.name: entry for entry in _registry.PUBLIC}

__all__ = ["__version__", "get_include", *_PUBLIC]


if not TYPE_CHECKING:  # otherwise a type checker would accept any name

    def __getattr__(name):
        if name in _PUBLIC:
            value = _registry.load(_PUBLIC[name])
            globals()[name] = value  # so that the next access does not come here
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_registry.hint(name)}")


def __dir__() -> list[str]:
    return sorted(__all__)


def get_include() -> str:
    """Return the folder of ``mcb.h``, the C header that scores saved models.

    Returns
    -------
    str
        Path of the folder, for the option ``-I`` of a compiler.

    Examples
    --------
    >>> import os
    >>> import pymcboost
    >>> "mcb.h" in os.listdir(pymcboost.get_include())
    True
    """
    from pathlib import Path

    return str(Path(__file__).with_name("include"))
