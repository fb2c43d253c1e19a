"""The kinds of models, by their number in a file. To add a kind, add a line here."""

import importlib

PLACES = {
    1: "stumps.Stumps",
    2: "intervals.Intervals",
    3: "trees.Trees",
    5: "linear.LinearMachine",
    6: "kernel.KernelMachine",
    7: "packed.PackedTrees",
}
# The kind of trees saved with layout="packed".
PACKED = 7


class _Kinds(dict):
    """Classes by number; a module is loaded when the first model of its kind is opened."""

    def __missing__(self, number):
        module_name, _, class_name = PLACES[number].partition(".")
        module = importlib.import_module(f"pymcboost.model.{module_name}")
        self[number] = getattr(module, class_name)
        return self[number]


KINDS = _Kinds()
