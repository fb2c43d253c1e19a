"""Rare classes: what class weights and asymmetric margins do for them."""

import numpy as np
from shared import peers
from shared.datasets import DATA, fold_of, load_pooled
from shared.tables import markdown_table, span

from reproduce.experiment import Experiment, Results, cross, fit_and_test, select
from reproduce.multiboost import estimator

SETS = ("yeast", "car", "shuttle")
FOLDS = 5
ROUNDS = 200
# balanced: the classes have equal weight together; root: halfway, the square roots of those weights.
WEIGHTS = ("none", "root", "balanced")
METHODS = (
    "piboost-singles",
    "piboost-pairs",
    "piboost-singles-tree",
    "piboost-pairs-tree",
    "piboost-singles-plain-tree",
    "mcboost-exp",
    "mcboost-exp-tree",
    "adaboost-mh",
    "adaboost-mh-tree",
    "samme",
    "samme-tree",
    "vector",
    "lightgbm",
)
CLASSES = {
    "mcboost-exp": "MCBoost",
    "adaboost-mh": "AdaBoostMH",
    "samme": "SAMME",
    "vector": "VectorTreeBoost",
}


def class_weights(codes, which):
    """Weights of the classes as a dict, or None."""
    if which == "none":
        return None
    counts = np.bincount(codes)
    weights = len(codes) / (len(counts) * np.maximum(counts, 1))
    if which == "root":
        weights = np.sqrt(weights)
    return dict(enumerate(weights.tolist()))


def imbalance_estimator(method, rounds, weights):
    """New estimator; trees have 20 leaves, GentleBoost's and LightGBM's included."""
    shared = {"n_estimators": rounds, "class_weight": weights}
    if method == "lightgbm":
        import lightgbm

        return lightgbm.LGBMClassifier(
            num_leaves=20, verbosity=-1, random_state=0, n_jobs=1, **shared
        )
    if method.endswith("-tree"):
        shared |= {"weak_learner": "tree", "max_leaf_nodes": 20}
        method = method.removesuffix("-tree")
    if method.startswith("piboost"):
        parts = method.split("-")
        return estimator(
            "PIBoost", separators=parts[1], cost_sensitive=parts[-1] != "plain", **shared
        )
    if method == "mcboost-exp":
        shared |= {"loss": "exp", "learning_rate": 0.5}
    return estimator(CLASSES[method], **shared)


def fit_imbalance(unit):
    """One fold; ``right``: rows of every class that are classified right, of how many."""
    parts = fold_of(*load_pooled(unit["data"]), unit["fold"], FOLDS)
    _, codes, X_test, truth = parts
    model = imbalance_estimator(
        unit["method"], unit["rounds"], class_weights(codes, unit["weights"])
    )
    row, model = fit_and_test(unit, model, parts)
    predicted = model.predict(X_test)
    there = [predicted[truth == k] == k for k in range(int(codes.max()) + 1)]
    recalls = [right.mean() for right in there if len(right)]
    return {
        **row,
        "balanced_accuracy": round(100 * float(np.mean(recalls)), 4),
        "right": " ".join(f"{right.sum()}/{len(right)}" for right in there),
    }


def plan(options, journal):
    present, _ = peers.available(["lightgbm"])
    methods = [method for method in options.methods or METHODS if method != "lightgbm" or present]
    folds = range(options.repeats or FOLDS)
    rounds = [options.rounds or ROUNDS]
    units = cross(
        data=options.sets or SETS, method=methods, weights=WEIGHTS, fold=folds, rounds=rounds
    )
    yield 0, units, "imbalance"


def recalls_of(frame):
    """Recall of every class over the test rows of all folds, in percent, and how many rows each class has."""
    parts = np.array(
        [[[int(n) for n in pair.split("/")] for pair in right.split()] for right in frame["right"]]
    )
    right, counts = parts.sum(axis=0).T
    return 100 * right / np.maximum(counts, 1), counts


def imbalance_text(frame):
    """Error, balanced accuracy and recalls by class weights, in Markdown; classes in the order of their sizes."""
    parts = []
    for data in SETS:
        lines = []
        sizes = None
        for method in METHODS:
            for weights in WEIGHTS:
                mine = select(frame, data=data, method=method, weights=weights)
                if mine.empty:
                    continue
                recalls, counts = recalls_of(mine)
                order = np.argsort(counts, kind="stable")
                whole = len(mine) == FOLDS
                sizes = counts[order] if whole else sizes
                name = method if whole else f"{method} [{len(mine)} folds]"
                line = [name, weights, f"{mine['error'].mean():.2f}", f"{recalls.mean():.1f}"]
                lines.append([*line, *(f"{recalls[k]:.0f}" for k in order)])
        if lines and sizes is not None:
            head = [
                "method",
                "class weights",
                "error",
                "balanced accuracy",
                *(f"n = {n}" for n in sizes),
            ]
            parts.append(f"{data}, {int(sizes.sum()):,} rows:\n\n{markdown_table(head, lines)}")
    if not parts:
        return "Not enough results for a table."
    return (
        f"{FOLDS}-fold cross-validation of all rows, {ROUNDS} rounds. Error, balanced accuracy "
        "(mean of the recalls) and recall of every class, of the n rows that it has, in percent.\n\n"
        + "\n\n".join(parts)
    )


def imbalance_values(frame):
    """What sentences say about rare classes; boosters with stumps are PIBoost, MCBoost, AdaBoost.MH and SAMME."""
    stumps = [
        method
        for method in METHODS
        if not method.endswith("-tree") and method not in ("vector", "lightgbm")
    ]
    error = {}
    accuracy = {}
    rarest = {}
    for data in SETS:
        for method in METHODS:
            for weights in WEIGHTS:
                mine = select(frame, data=data, method=method, weights=weights)
                recalls, counts = recalls_of(mine)
                cell = data, method, weights
                error[cell], accuracy[cell] = mine["error"].mean(), recalls.mean()
                rarest[cell] = recalls[np.argsort(counts, kind="stable")[:2]]
    values = {}
    for weights in ("balanced", "root"):
        for name, found in (("accuracy", accuracy), ("error", error)):
            gained = [
                found["yeast", method, weights] - found["yeast", method, "none"]
                for method in stumps
            ]
            values[f"yeast-{weights}-{name}"] = span(gained, "{:.1f}")
    others = [accuracy["yeast", method, "none"] for method in stumps if method != "piboost-pairs"]

    def rare(methods, weights):
        return span(np.concatenate([rarest["car", method, weights] for method in methods]))

    but_samme = [method for method in stumps if method != "samme"]
    trees = [method for method in METHODS if method.endswith("-tree")]
    return values | {
        "yeast-pairs-none": f"{accuracy['yeast', 'piboost-pairs', 'none']:.0f}",
        "yeast-pairs-balanced": f"{accuracy['yeast', 'piboost-pairs', 'balanced']:.0f}",
        "yeast-others-none": span(others),
        "car-rare-none": rare(but_samme, "none"),
        "car-rare-balanced": rare(but_samme, "balanced"),
        "car-rare-trees": rare(trees, "none"),
        "car-mcboost": f"{error['car', 'mcboost-exp', 'none']:.2f}",
        "car-mcboost-tree": f"{error['car', 'mcboost-exp-tree', 'none']:.2f}",
    }


RESULTS = Results(
    "imbalance",
    "data method weights fold rounds",
    "error balanced_accuracy right n_train n_test",
    fit=fit_imbalance,
    as_text="right",
)
EXPERIMENTS = (
    Experiment(
        "imbalance",
        "Rare classes",
        (RESULTS,),
        plan=plan,
        text=imbalance_text,
        sets=tuple(DATA),
        methods=METHODS,
        values=imbalance_values,
    ),
)
