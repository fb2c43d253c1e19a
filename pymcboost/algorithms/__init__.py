"""The registry: algorithm name (as on the command line) -> "module:class". Strings, so that listing imports nothing."""

import importlib

REGISTRY = {
    "mcboost": "pymcboost.algorithms.mcboost:MCBoostClassifier",
    "logitboost": "pymcboost.algorithms.abcboost:LogitBoostClassifier",
    "mart": "pymcboost.algorithms.abcboost:MartClassifier",
    "abc-logitboost": "pymcboost.algorithms.abcboost:ABCLogitBoostClassifier",
    "abc-mart": "pymcboost.algorithms.abcboost:ABCMartClassifier",
    "multiboost": "pymcboost.algorithms.multiboost:MultiBoostClassifier",
    "multiboost-cw": "pymcboost.algorithms.multiboost:MultiBoostCWClassifier",
    "hingeboost": "pymcboost.algorithms.hingeboost:HingeBoostOCClassifier",
    "adaboost-ecc": "pymcboost.algorithms.adaboost_ecc:AdaBoostECCClassifier",
    "adaboost-erp": "pymcboost.algorithms.adaboost_erp:AdaBoostERPClassifier",
    "adaboost-mh": "pymcboost.algorithms.adaboost_mh:AdaBoostMHClassifier",
    "adaboost-mo": "pymcboost.algorithms.adaboost_mo:AdaBoostMOClassifier",
    "adaboost-oc": "pymcboost.algorithms.adaboost_oc:AdaBoostOCClassifier",
    "gentleboost": "pymcboost.algorithms.gentleboost:GentleBoostClassifier",
    "gradboost": "pymcboost.algorithms.gradboost:GradBoostClassifier",
    "jointboost": "pymcboost.algorithms.jointboost:JointBoostClassifier",
    "piboost": "pymcboost.algorithms.piboost:PIBoostClassifier",
    "samme": "pymcboost.algorithms.samme:SAMMEClassifier",
    "vector-tree": "pymcboost.algorithms.vector_tree:VectorTreeBoostClassifier",
}


def get_class(name):
    """Estimator class of a registered algorithm."""
    try:
        module, _, cls = REGISTRY[name].partition(":")
    except KeyError:
        raise ValueError(f"unknown algorithm {name!r}; known: {', '.join(sorted(REGISTRY))}") from None
    return getattr(importlib.import_module(module), cls)
