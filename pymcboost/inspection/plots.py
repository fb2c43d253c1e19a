"""Plots of models. Every function accepts ``ax``, draws into it, and returns it; needs matplotlib."""

from operator import index
from typing import Any

import numpy as np

from pymcboost._text import drawn, metrics_of
from pymcboost.inspection.curves import Curve, curve
from pymcboost.inspection.importances import importance
from pymcboost.inspection.subject import class_number, model_of, name_of, some
from pymcboost.model.kind import tree_of
from pymcboost.model.temperature import codes_of
from pymcboost.threads import counted

# Number of classes with distinct colours.
COLOURS = 10
# Number of levels of a category that are drawn by default.
LEVELS = 20
# Maximum number of leaves of a readable plot.
MOST_LEAVES = 64


def _axes(ax, **options):
    """Return the given axes, or new ones."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'pymcboost[plot]'") from None
    return pyplot.subplots(layout="constrained", **options)[1]


def _chosen(model, classes, values):
    """Positions of the classes to draw: the given ones, or the ten with the largest values (K,)."""
    if classes is not None:
        return [class_number(model, label) for label in classes]
    return sorted(np.argsort(-values, kind="stable")[:COLOURS].tolist())


def plot_importance(
    model: Any, values: Any = None, *, top: int = 15, ax: Any = None, **how: Any
) -> Any:
    """Plot the importances of the most important features as a bar chart.

    Parameters
    ----------
    model : Model or fitted estimator
        Model to inspect.
    values : array-like of shape (d,), default=None
        Importances to plot. None computes them by `importance`.
    top : int, default=15
        Maximum number of features.
    ax : matplotlib Axes, default=None
        Axes to draw on. None creates a figure.
    **how : dict
        Arguments of `importance`, such as ``kind``, ``X`` and ``y``.

    Returns
    -------
    matplotlib Axes
        The axes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> from pymcboost.inspection import plot_importance
    >>> model = VectorTreeBoostClassifier(n_estimators=20, random_state=0).fit(*load_iris(return_X_y=True))
    >>> ax = plot_importance(model, top=3)
    >>> ax.figure.savefig("importance.png")  # doctest: +SKIP
    """
    words = {
        "gain": "share of the gain",
        "split": "share of the splits",
        "permutation": "loss of accuracy",
    }
    label = "importance"
    if values is None:
        label = words.get(how.get("kind", "gain"), "mean |contribution|")
        values = importance(model, **how)
    values = np.asarray(values, dtype=np.float64)
    model = model_of(model)
    if values.shape != (model.n_features_in_,):
        raise ValueError(
            f"values must be one number for each of the {model.n_features_in_} features, but "
            f"has shape {values.shape}"
        )
    order = np.argsort(-values, kind="stable")[: index(top)]
    order = order[values[order] != 0][::-1]
    ax = _axes(ax, figsize=(6, 1 + 0.28 * max(1, len(order))))
    ax.barh(np.arange(len(order)), values[order], height=0.7)
    ax.set_yticks(np.arange(len(order)), [_short(name_of(model, int(j))) for j in order])
    ax.set_ylim(-0.6, max(1, len(order)) - 0.4)
    ax.set_xlabel(label)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_curve(
    model: Any,
    feature: int | str,
    *,
    classes: Any = None,
    levels: Any = None,
    centred: bool = True,
    ax: Any = None,
) -> Any:
    """Plot the contribution of a feature to the scores in a model of stumps; see `curve`.

    A numeric feature has a step function for each class. Triangles show missing values, unless these are treated like
    the largest values. A categorical feature has bars for each category. The last bars show missing values and
    categories that the model does not know.

    Parameters
    ----------
    model : Model or fitted estimator
        Model of stumps.
    feature : int or str
        Column number, or name if the model has feature names.
    classes : list of labels, default=None
        Classes to plot. None plots the ten classes whose curves change the most.
    levels : list, default=None
        Categories to plot. None plots the twenty that differ most from the mean of all.
    centred : bool, default=True
        Whether to subtract the mean over the classes. Predictions depend only on differences between classes.
    ax : matplotlib Axes, default=None
        Axes to draw on. None creates a figure.

    Returns
    -------
    matplotlib Axes
        The axes.

    Raises
    ------
    ValueError
        If the model is not a model of stumps, or does not have one of the classes or categories.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import MCBoostClassifier
    >>> from pymcboost.inspection import plot_curve
    >>> model = MCBoostClassifier(n_estimators=20).fit(*load_iris(return_X_y=True))
    >>> ax = plot_curve(model, feature=2)
    """
    model = model_of(model)
    curve_of_feature: Curve = curve(model, feature)
    values = curve_of_feature.values
    missing = curve_of_feature.missing
    if centred:
        values = values - values.mean(axis=1, keepdims=True)
        missing = missing - missing.mean()
    if curve_of_feature.levels is None and levels is not None:
        raise ValueError(
            "levels applies only to categorical features, but "
            f"{name_of(model, curve_of_feature.feature)!r} is numerical"
        )
    if curve_of_feature.levels is not None:
        shown = _chosen(model, classes, np.ptp(np.vstack([values, missing]), axis=0))
        ax = _draw_levels(model, curve_of_feature.levels, levels, values, missing, shown, ax)
        has_triangles = False
    else:
        shown = _chosen(model, classes, np.ptp(values, axis=0))
        ax, has_triangles = _draw_steps(model, curve_of_feature, values, missing, shown, ax)
    x_label = _short(name_of(model, curve_of_feature.feature))
    if has_triangles:
        x_label += "   (triangles: missing)"
    ax.set_xlabel(x_label)
    ax.set_ylabel("added to the score, centred" if centred else "added to the score")
    ax.legend(
        title="class",
        fontsize="small",
        loc="center left",
        bbox_to_anchor=(1.02, 0.5),
        frameon=False,
    )
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _draw_steps(model, steps, values, missing, shown, ax):
    """Draw the curves of classes; return the axes, and whether missing values are drawn separately."""
    ax = _axes(ax, figsize=(6, 3.6))
    cuts = steps.thresholds.astype(np.float64)
    margin = 0.1 * np.ptp(cuts) if len(cuts) > 1 and np.ptp(cuts) > 0 else 1.0
    low = cuts[0] - margin if len(cuts) else -1.0
    high = cuts[-1] + margin if len(cuts) else 1.0
    edges = np.concatenate([[low], cuts, [high]])
    draws_missing = not np.array_equal(missing, values[-1])
    for k in shown:
        line = ax.stairs(
            values[:, k], edges, baseline=None, linewidth=1.6, label=drawn(str(model.classes_[k]))
        )
        if draws_missing:
            ax.plot(
                [high + 0.4 * margin],
                [missing[k]],
                marker="<",
                color=line.get_edgecolor(),
                clip_on=False,
            )
    return ax, draws_missing


def _draw_levels(model, names, chosen_levels, values, missing, shown, ax):
    """Draw bars of classes for the levels of a category, followed by missing values."""
    if chosen_levels is None:
        distance = np.abs(values - values.mean(axis=0)).max(axis=1, initial=0.0)
        codes = np.sort(np.argsort(-distance, kind="stable")[:LEVELS])
    else:
        code_of_name = {name: code for code, name in enumerate(names)}
        unknown = [level for level in chosen_levels if level not in code_of_name]
        if unknown:
            raise ValueError(f"there is no level {unknown[0]!r}; the levels are {some(names)}")
        codes = np.array([code_of_name[level] for level in chosen_levels], dtype=np.int64)
    rows = np.vstack([values[codes], missing])
    x = np.arange(len(rows))
    width = 0.8 / max(1, len(shown))
    ax = _axes(ax, figsize=(max(4.0, 2 + 0.1 * len(rows) * (2 + len(shown))), 3.8))
    ax.axhline(0, color="0.6", linewidth=0.8, zorder=1)
    for i, k in enumerate(shown):
        label = drawn(str(model.classes_[k]))
        shift = (i - (len(shown) - 1) / 2) * width
        ax.bar(x + shift, rows[:, k], width, label=label, zorder=2)
    ax.axvline(len(codes) - 0.5, color="0.6", linewidth=0.8, linestyle=":")
    texts = [_short(str(names[code]), 16) for code in codes]
    text_options = {}
    if max(map(len, texts), default=0) > 3:
        text_options = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(x, [*texts, "missing, new"], **text_options)
    ax.set_xlim(-0.6, len(rows) - 0.4)
    if chosen_levels is None and len(codes) < len(names):
        ax.set_title(f"{len(codes)} of {len(names)} levels", fontsize="medium")
    return ax


def plot_history(
    estimator: Any, *, curves: Any = None, metric: str | None = None, ax: Any = None
) -> Any:
    """Plot validation curves, or other parts of the training history, against the rounds.

    Parameters
    ----------
    estimator : fitted estimator
        Estimator with a ``history_``.
    curves : list of str, default=None
        Names in ``history_`` to plot. None plots the curves of the validation sets.
    metric : str, default=None
        Name of the metric to plot, if ``scoring`` has several. None plots the first one. Use separate axes for metrics
        with different scales.
    ax : matplotlib Axes, default=None
        Axes to draw on. None creates a figure.

    Returns
    -------
    matplotlib Axes
        The axes.

    Raises
    ------
    ValueError
        If the history does not have these curves.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> from pymcboost.inspection import plot_history
    >>> model = VectorTreeBoostClassifier(n_estimators=20, early_stopping=True, random_state=0)
    >>> ax = plot_history(model.fit(*load_iris(return_X_y=True)))
    """
    history = getattr(estimator, "history_", None)
    if history is None:
        raise TypeError(
            f"plot_history needs a fitted estimator; {type(estimator).__name__} has no history_"
        )
    numbers = {}  # the curves of the history, by name
    for name, values in history.items():
        values = np.asarray(values)
        if values.ndim == 1 and values.dtype.kind in "if":
            numbers[name] = values
    if curves is not None and metric is not None:
        raise ValueError(
            "curves and metric cannot be used together: curves takes full names of the "
            "history, metric the name of a metric"
        )
    if isinstance(curves, str):
        curves = [curves]
    if curves is None:
        curves = _validation_curves(estimator, metric, numbers)
        if not curves:
            remedy = "give fit X_val and y_val"
            if numbers:
                remedy += f", or name curves of the history: {', '.join(map(repr, numbers))}"
            raise ValueError(
                f"this training had no validation rows, so there is no curve to plot; {remedy}"
            )
    unknown = [name for name in curves if name not in numbers]
    if unknown:
        raise ValueError(
            f"the history has no curve {unknown[0]!r}; it has {', '.join(map(repr, numbers)) or 'none'}"
        )
    ax = _axes(ax, figsize=(6, 3.6))
    for name in curves:
        rounds = np.arange(1, len(numbers[name]) + 1)
        marker = "o" if len(numbers[name]) == 1 else None
        ax.plot(
            rounds, numbers[name], linewidth=1.6, marker=marker, label=drawn(name.replace("_", " "))
        )
    ax.set_xlabel("round")
    ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    if len(curves) == 1:
        ax.set_ylabel(drawn(curves[0].replace("_", " ")))
    else:
        ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _validation_curves(estimator, metric, names):
    """Those of the curves with these names that are the metric of a validation set."""
    metric = _metric_of(estimator, metric)
    curves_of_sets = {f"{set_name}_{metric}" for set_name in getattr(estimator, "_sets", ())}
    other_metrics = _columns_of_others(estimator, metric)
    curves = []
    for name in names:
        # Curves of TrainingLoss start with train_; those of validation sets may, too.
        is_of_set = name in curves_of_sets or not name.startswith("train_")
        if is_of_set and name.endswith(f"_{metric}") and name not in other_metrics:
            curves.append(name)
    return curves


def _metric_of(estimator, metric):
    """Name of the metric to draw: the requested metric of the fit, or the first."""
    names = getattr(estimator, "_metrics", [*metrics_of(estimator.scoring)])
    if metric is not None and metric not in names:
        raise ValueError(
            f"there is no metric {metric!r} in this training; the metrics are "
            f"{', '.join(map(repr, names))}"
        )
    return names[0] if metric is None else metric


def _columns_of_others(estimator, metric):
    """History columns of all other metrics."""
    names = [name for name in getattr(estimator, "_metrics", ()) if name != metric]
    return {f"{set_name}_{name}" for set_name in getattr(estimator, "_sets", ()) for name in names}


def plot_reliability(model: Any, X: Any, y: Any, *, bins: int = 10, ax: Any = None) -> Any:
    """Plot a reliability diagram (calibration curve) of the predicted classes.

    It shows how often the predicted class is right, against its predicted probability. The diagonal is a perfectly
    calibrated model. Error bars are standard errors.

    Parameters
    ----------
    model : Model or fitted estimator
        Model with probabilities.
    X : array-like of shape (m, d)
        Rows that the model has not been trained on.
    y : array-like of shape (m,)
        Class labels of the rows.
    bins : int, default=10
        Number of bins, with equal numbers of rows. Rows with equal probabilities are in the same bin.
    ax : matplotlib Axes, default=None
        Axes to draw on. None creates a figure.

    Returns
    -------
    matplotlib Axes
        The axes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import train_test_split
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> from pymcboost.inspection import plot_reliability
    >>> X, X_test, y, y_test = train_test_split(*load_iris(return_X_y=True), random_state=0)
    >>> model = VectorTreeBoostClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> ax = plot_reliability(model, X_test, y_test, bins=3)
    """
    subject = model
    model = model_of(subject)
    model._refuse_labels("a reliability curve")
    codes = codes_of(y, model.classes_, "give")
    if not model.has_probabilities and hasattr(subject, "predict_proba"):
        p = subject.predict_proba(X)  # only the estimator knows the link of a custom loss
    else:
        p = model.predict_proba(X)
    if len(codes) != len(p) or not len(p):
        raise ValueError(
            f"X has {len(p)} rows and y has {len(codes)} labels; give one label per row, and "
            "at least one row"
        )
    if index(bins) < 1:
        raise ValueError(f"bins must be 1 or more, not {bins}")
    is_right = p.argmax(axis=1) == codes
    probability = p.max(axis=1)
    bounds = np.unique(np.quantile(probability, np.linspace(0, 1, bins + 1)[1:-1], method="lower"))
    number = np.searchsorted(bounds, probability, side="left")
    _, bin_of_row, rows = np.unique(number, return_inverse=True, return_counts=True)
    predicted = np.bincount(bin_of_row, probability) / rows
    observed = np.bincount(bin_of_row, is_right) / rows
    error = np.sqrt(np.maximum(observed * (1 - observed), 1 / (4 * rows)) / rows)
    ax = _axes(ax, figsize=(4.6, 4.4))
    low = max(0.0, min(float((observed - error).min()), float(predicted.min())) - 0.05)
    ax.plot([low, 1], [low, 1], color="0.6", linewidth=1, linestyle="--")
    bars = np.minimum(error, [observed, 1 - observed])  # a share is between 0 and 1
    ax.errorbar(
        predicted,
        observed,
        yerr=bars,
        marker="o",
        markersize=5,
        linewidth=1.6,
        elinewidth=1,
        capsize=2,
    )
    gap = float(np.average(np.abs(predicted - observed), weights=rows))
    ax.set_title(f"{counted(len(p), 'row')}, mean gap {gap:.3f}", fontsize="medium")
    ax.set_xlabel("probability of the predicted class")
    ax.set_ylabel("share of correct predictions")
    ax.set_xlim(low, 1.01)
    ax.set_ylim(low, 1.03)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_tree(
    model: Any,
    tree: int = 0,
    *,
    max_depth: int | None = 3,
    classes: int = 3,
    precision: int = 3,
    ax: Any = None,
) -> Any:
    """Plot one tree. Rows go left if the condition of a node is true.

    Parameters
    ----------
    model : Model or fitted estimator
        Model of stumps or trees.
    tree : int, default=0
        Number of the tree.
    max_depth : int or None, default=3
        Maximum depth to plot. A deeper subtree is shown as a box with its number of leaves, and the title says how many
        leaves are not drawn. None plots the whole tree, if it has at most 64 leaves.
    classes : int, default=3
        Number of classes to show for leaves with one value per class: those with the largest values.
    precision : int, default=3
        Number of significant digits of thresholds and values.
    ax : matplotlib Axes, default=None
        Axes to draw on. None creates a figure.

    Returns
    -------
    matplotlib Axes
        The axes.

    Raises
    ------
    ValueError
        If there is no such tree, or it has too many leaves to plot.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pymcboost import VectorTreeBoostClassifier
    >>> from pymcboost.inspection import plot_tree
    >>> model = VectorTreeBoostClassifier(n_estimators=20, random_state=0).fit(*load_iris(return_X_y=True))
    >>> ax = plot_tree(model, tree=0, max_depth=2)
    """
    model = model_of(model)
    if model.n_learners is None:
        raise ValueError(f"this model has no trees to plot ({model.ensemble.NAME})")
    if not model.n_learners:
        raise ValueError("this model has no trees, because it has no rounds")
    number = index(tree)
    if not 0 <= number < model.n_learners:
        raise ValueError(
            f"there is no tree {number}; tree numbers go from 0 to {model.n_learners - 1}"
        )
    drawn_tree = tree_of(model.ensemble, number)
    nodes = drawn_tree["nodes"]
    if max_depth is not None:
        if index(max_depth) < 1:
            raise ValueError(
                f"max_depth must be 1 or more, or None for the whole tree, not {max_depth}"
            )
        nodes = _to_depth(nodes, max_depth)
    n_ends = sum("left" not in node for node in nodes)
    if n_ends > MOST_LEAVES:
        raise ValueError(
            f"tree {number} would be drawn with {n_ends} leaves, but a picture takes at most "
            f"{MOST_LEAVES}; use a smaller max_depth, or to_text for the whole tree"
        )
    left_out = sum(node.get("leaves", 0) for node in nodes)
    n_leaves = left_out + sum("value" in node for node in nodes)
    x, depth = _places(nodes)
    deepest = max(depth)
    ax = _axes(ax, figsize=(max(4.0, 1.15 * n_ends + 0.6), 1.1 + 0.95 * deepest))
    box = {"boxstyle": "round,pad=0.35", "linewidth": 0.8}
    colours = {"value": "#e8f1e4", "leaves": "#f2f2f2", "left": "#eef2fa"}
    for node_index, node in enumerate(nodes):
        for side in ("left", "right"):
            if side in node:
                child = node[side]
                ax.plot(
                    [x[node_index], x[child]],
                    [-depth[node_index], -depth[child]],
                    color="0.55",
                    linewidth=1,
                    zorder=1,
                )
        if "value" in node:
            text = _leaf(model, drawn_tree, node, classes, precision)
        elif "leaves" in node:
            text = f"…\n{counted(node['leaves'], 'leaf', 'leaves')}"
        else:
            text = _question(model, node, precision)
        if "cover" in node:
            text += f"\n{counted(node['cover'], 'row')}"
        colour = next(colour for key, colour in colours.items() if key in node)
        ax.text(
            x[node_index],
            -depth[node_index],
            text,
            ha="center",
            va="center",
            fontsize=7,
            zorder=2,
            bbox={**box, "facecolor": colour, "edgecolor": "0.55"},
        )
    ax.set_xlim(-0.6, n_ends - 0.4)
    ax.set_ylim(-deepest - 0.5, 0.5)
    title = f"tree {number}{_purpose(model, drawn_tree)}"
    if n_ends > 1:
        title += "  (left: yes)"
    if left_out:
        title += (
            f"\n{left_out} of {n_leaves} leaves are deeper than max_depth={max_depth} and not drawn"
        )
    ax.set_title(title, fontsize="medium")
    ax.set_axis_off()
    return ax


def _to_depth(nodes, max_depth):
    """Nodes of a tree down to a depth, in preorder; a split at this depth is replaced by the number of its leaves."""
    n_leaves = [1] * len(nodes)
    for number in reversed(range(len(nodes))):
        node = nodes[number]
        if "left" in node:
            n_leaves[number] = n_leaves[node["left"]] + n_leaves[node["right"]]
    kept = []
    waiting = [(0, 0, None, None)]
    while waiting:
        number, depth, parent, side = waiting.pop()
        node = dict(nodes[number])
        if parent is not None:
            parent[side] = len(kept)
        if "left" in node and depth == max_depth:
            cover = {"cover": node["cover"]} if "cover" in node else {}
            node = {**cover, "leaves": n_leaves[number]}
        kept.append(node)
        if "left" in node:
            waiting.append((node["right"], depth + 1, node, "right"))
            waiting.append((node["left"], depth + 1, node, "left"))
    return kept


def _places(nodes):
    """Horizontal position and depth of every node.

    Leaves are side by side, and splits are centred above their children.
    """
    x = [0.0] * len(nodes)
    depth = [0] * len(nodes)
    ends = 0
    for node_index, node in enumerate(nodes):  # in preorder
        if "left" not in node:
            x[node_index] = float(ends)
            ends += 1
            continue
        depth[node["left"]] = depth[node_index] + 1
        depth[node["right"]] = depth[node_index] + 1
    for node_index in reversed(range(len(nodes))):
        if "left" in nodes[node_index]:
            x[node_index] = (x[nodes[node_index]["left"]] + x[nodes[node_index]["right"]]) / 2
    return x, depth


def _question(model, node, precision):
    """Text of a split."""
    name = _short(name_of(model, node["feature"]), 20)
    if "threshold" in node:
        condition = f"≤ {node['threshold']:.{precision}g}"
    else:
        levels = ", ".join(map(str, node["levels"]))
        condition = f"in {_short(f'{{{levels}}}')}"
    text = f"{name}\n{condition}"
    return f"{text}\nor missing" if node["missing"] == "left" else text


def _leaf(model, tree, node, classes, precision):
    """Text of a leaf."""
    if tree["class"] is not None:
        return f"{node['value']:.{precision}g}"
    values = np.asarray(node["value"])
    shown = np.argsort(-values, kind="stable")[:classes]
    return "\n".join(
        f"{_short(str(model.classes_[k]), 10)}: {values[k]:.{precision}g}" for k in shown
    )


def _purpose(model, tree):
    """The scores that a tree changes, for the title."""
    if tree["class"] is None:
        return ""
    if model.ensemble.code is not None:
        return f", column {tree['class']}"
    base = "" if tree["base"] is None else f", less class {model.classes_[tree['base']]}"
    return drawn(f", class {model.classes_[tree['class']]}{base}")


def _short(name, length=28):
    """Text to draw, cut to a length."""
    return drawn(name if len(name) <= length else name[: length - 1] + "…")
