"""Calls that the type checker must refuse: under mypy's warn_unused_ignores each ignore below must be needed."""

from pymcboost import Checkpoint, LogitBoostClassifier, MCBoostClassifier, load_model, load_svmlight
from pymcboost import no_such_name  # type: ignore[attr-defined]

MCBoostClassifier(loss="hinge")  # type: ignore[arg-type]
MCBoostClassifier(n_trees=10)  # type: ignore[call-arg]
MCBoostClassifier().save("model.mcb", layout="table")  # type: ignore[arg-type]
MCBoostClassifier(loss="softmax")  # type: ignore[arg-type]
LogitBoostClassifier(gap=3)  # type: ignore[call-arg]
Checkpoint("part").fit(load_model("model.mcb"), [[0.0]], [0])  # type: ignore[type-var]
load_model(3)  # type: ignore[arg-type]
load_svmlight("train.svm", base=2)  # type: ignore[arg-type]
load_model("model.mcb").fit([[0.0]], [0])  # type: ignore[attr-defined]
