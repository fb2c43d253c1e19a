"""Tables and figures of the papers, theirs against ours, and our vector-leaf trees on all data sets.

    python tools/reproduce.py table4|table2|table1|official|mnist-hog|figure1 [--results results] [--jobs 2]
    python tools/reproduce.py mnist10k|covtype-abc|poker-abc [--rounds N] [--gaps 1 10] [--methods mart ...]
    python tools/reproduce.py vector-trees|vector-defaults [--sets iris ...] [--seeds 10] [--budget MINUTES]
    python tools/reproduce.py multiboost-curves|multiboost-fcd|table4-multiboost|multiboost-defaults [--sets usps ...]
    python tools/reproduce.py hinge [--sets vowel ...] [--methods hinge ...] [--budget MINUTES]
    python tools/reproduce.py hinge-costs [--sets satimage ...]
    python tools/reproduce.py piboost-table3|table5|imbalance [--sets vowel ...] [--methods samme ...]
    python tools/reproduce.py NAME --verify [N]
    python tools/reproduce.py --markdown results [--into docs/reproduction.md]

Every finished fit is appended to a CSV file at once, with commit, versions and seconds, and is not done again: an
interrupted run goes on where it stopped (--fresh starts over). Seeds are fixed. Data come from PYMCBOOST_DATA.
The trainings of hours (second line) also keep checkpoints, in --cache: a kill at any moment loses the step that was
running. --verify does the first rounds, or the cheapest fits, of a result file anew and compares.
"""

import argparse
import hashlib
import sys
import time
from pathlib import Path

import common
import numpy as np
import reproduce_classic
import reproduce_hinge
import reproduce_multiboost
import reproduce_trees
from common import DataMissing, error_percent
from journal import Journal, pyplot, run_units

PER_CLASS = 50
ROUNDS = 500
REPEATS = 50
LOSSES = ("exp", "log")

# Mean test error (standard deviation) in percent, as printed in the paper.
TABLE4 = {
    ("iris", "exp"): (6.5, 2.8),
    ("iris", "log"): (6.5, 2.8),
    ("glass", "exp"): (28.4, 5.5),
    ("glass", "log"): (28.3, 5.6),
    ("usps", "exp"): (10.4, 2.8),
    ("usps", "log"): (9.9, 2.6),
    ("pendigits", "exp"): (7.4, 2.2),
    ("pendigits", "log"): (7.4, 2.1),
    ("letter", "exp"): (25.3, 2.0),
    ("letter", "log"): (25.0, 2.1),
}
ETAS = (1.0, 0.5, 0.2, 0.1)
TABLE2 = {
    ("iris", "exp"): [(6.5, 3.5), (6.3, 3.4), (5.9, 3.3), (6.0, 3.2)],
    ("glass", "exp"): [(30.5, 6.6), (28.4, 7.0), (27.4, 7.1), (27.3, 6.4)],
    ("usps", "exp"): [(12.9, 2.8), (9.1, 2.4), (9.7, 2.4), (11.0, 2.7)],
    ("pendigits", "exp"): [(7.4, 2.8), (6.4, 2.4), (7.3, 2.8), (9.0, 3.1)],
    ("iris", "log"): [(6.4, 3.4), (6.2, 3.7), (5.9, 3.3), (5.9, 3.3)],
    ("glass", "log"): [(29.2, 6.7), (28.0, 7.6), (26.7, 6.7), (26.3, 6.4)],
    ("usps", "log"): [(10.8, 2.5), (9.1, 3.2), (9.5, 2.6), (10.9, 2.6)],
    ("pendigits", "log"): [(6.5, 2.5), (6.5, 2.6), (7.0, 2.8), (8.4, 3.1)],
}
NUS = (0.0, 1e-9, 1e-4, 1e-2, 1e-1)
TABLE1 = {
    ("iris", "exp"): [(6.3, 3.4), (6.3, 3.4), (6.1, 3.5), (5.6, 2.8), (5.4, 3.2)],
    ("glass", "exp"): [(28.4, 7.0), (28.4, 7.0), (28.2, 6.4), (27.9, 6.1), (26.0, 6.4)],
    ("usps", "exp"): [(9.1, 2.4), (9.1, 2.4), (9.8, 2.2), (13.0, 2.7), (29.0, 4.0)],
    ("pendigits", "exp"): [(6.4, 2.4), (6.4, 2.4), (6.8, 2.5), (9.8, 3.0), (36.8, 2.9)],
    ("iris", "log"): [(6.1, 3.5), (6.2, 3.7), (6.0, 3.2), (5.2, 2.8), (5.7, 3.5)],
    ("glass", "log"): [(28.0, 7.6), (28.0, 7.6), (28.4, 7.1), (27.1, 7.2), (34.6, 6.2)],
    ("usps", "log"): [(9.1, 3.2), (9.1, 3.2), (9.6, 3.0), (12.4, 3.3), (27.5, 3.6)],
    ("pendigits", "log"): [(6.4, 2.6), (6.5, 2.6), (6.5, 2.5), (8.0, 2.8), (26.9, 4.4)],
}
# The same numbers for samples of the official training part alone: the paper does not say which rows it drew from.
TRAIN_ONLY = {"usps-train": "usps"}
for _table in (TABLE4, TABLE2, TABLE1):
    _table.update({(name, loss): _table[data, loss] for name, data in TRAIN_ONLY.items() for loss in LOSSES})
OFFICIAL = ("pendigits", "optdigits", "satimage", "usps", "letter")
OFFICIAL_ROUNDS = 1000
# Published errors of AdaBoost.MH and MCBoost on HOG features of MNIST, 1,000 rounds (Table VII).
TABLE7 = {"exp": 1.14, "log": 1.03}
MNIST_BOUND = 1.2


def classifier(loss, n_estimators=ROUNDS, learning_rate=0.5, nu=1e-9, n_jobs=1, **more):
    from pymcboost import MCBoostClassifier

    return MCBoostClassifier(
        loss=loss, n_estimators=n_estimators, learning_rate=learning_rate, nu=nu, n_jobs=n_jobs, **more
    )


# --------------------------------------------------------------------------------------------------------------------
# Tables I, II and IV: small random samples


def sample_split(name, repeat):
    """Split of one repeat of the paper's protocol: 50 random rows per class, then a plain 75:25 split of the pool.

    Official parts are pooled first, unless the name is one of ``TRAIN_ONLY``. Glass is taken whole (214 rows), most of
    its classes having fewer than 50. The paper does not say whether its split was stratified; ours is a plain random
    one. The split depends on (name, repeat) alone, so every loss and parameter sees the same 50 splits.

    Returns
    -------
    X_train, y_train, X_test, y_test
    """
    X, y = common.load(TRAIN_ONLY[name])[:2] if name in TRAIN_ONLY else common.load_pooled(name)
    generator = np.random.default_rng([repeat, *name.encode()])
    if name == "glass":
        rows = np.arange(len(y))
    else:
        rows = np.concatenate(
            [
                generator.choice(np.flatnonzero(y == label), min(PER_CLASS, np.sum(y == label)), replace=False)
                for label in np.unique(y)
            ]
        )
    rows = generator.permutation(rows)
    cut = round(0.75 * len(rows))
    train, test = rows[:cut], rows[cut:]
    return X[train], y[train], X[test], y[test]


SMALL_KEY = ["data", "loss", "n_estimators", "learning_rate", "nu", "repeat"]
SMALL_COLUMNS = ["n_train", "n_test", "rounds", "error"]


def fit_sample(unit):
    """One fit of the small-sample protocol."""
    X, y, X_test, y_test = sample_split(unit["data"], unit["repeat"])
    start = time.perf_counter()
    model = classifier(unit["loss"], unit["n_estimators"], unit["learning_rate"], unit["nu"]).fit(X, y)
    seconds = time.perf_counter() - start
    error = error_percent(y_test, model.predict(X_test))
    return {
        **unit,
        "n_train": len(y),
        "n_test": len(y_test),
        "rounds": model.n_estimators_,
        "error": round(error, 4),
        "seconds": round(seconds, 4),
    }


def small_units(settings, repeats):
    """Units of (data, loss, learning_rate, nu) settings times repeats."""
    return [
        {"data": data, "loss": loss, "n_estimators": ROUNDS, "learning_rate": eta, "nu": nu, "repeat": repeat}
        for repeat in range(repeats)
        for data, loss, eta, nu in settings
    ]


def small_settings(table):
    """List the (data, loss, learning_rate, nu) settings of a table."""
    if table == "table4":
        return [(data, loss, 0.5, 1e-9) for data, loss in TABLE4]
    if table == "table2":
        return [(data, loss, eta, 1e-9) for data, loss in TABLE2 for eta in ETAS]
    return [(data, loss, 0.5, nu) for data, loss in TABLE1 for nu in NUS]


def small_journal(folder, fresh=False):
    """Open the file of tables I, II and IV, which share fits."""
    return Journal(Path(folder, "small-samples.csv"), SMALL_KEY, SMALL_COLUMNS, fresh)


def summary(rows, data, loss, eta, nu):
    """Mean, standard deviation and count of the errors of one setting."""
    errors = [
        float(row["error"])
        for row in rows
        if row["data"] == data
        and row["loss"] == loss
        and float(row["learning_rate"]) == eta
        and float(row["nu"]) == nu
        and int(row["n_estimators"]) == ROUNDS
    ]
    if not errors:
        return None
    return float(np.mean(errors)), float(np.std(errors, ddof=1)) if len(errors) > 1 else 0.0, len(errors)


def verdict(ours, theirs):
    """Whether our mean lies within one of the paper's standard deviations, in words."""
    distance = (ours[0] - theirs[0]) / theirs[1]
    word = "yes" if abs(distance) <= 1 else "better" if distance < 0 else "NO"
    return f"{word} ({distance:+.2f} sd)"


def table4_rows(rows):
    """Table IV as lists of cells."""
    out = []
    for (data, loss), theirs in TABLE4.items():
        ours = summary(rows, data, loss, 0.5, 1e-9)
        if ours:
            seconds = np.median(
                [
                    float(row["seconds"])
                    for row in rows
                    if row["data"] == data
                    and row["loss"] == loss
                    and float(row["learning_rate"]) == 0.5
                    and float(row["nu"]) == 1e-9
                ]
            )
            out.append(
                [
                    data,
                    loss,
                    f"{theirs[0]} ({theirs[1]})",
                    f"{ours[0]:.1f} ({ours[1]:.1f})",
                    verdict(ours, theirs),
                    ours[2],
                    f"{seconds:.3f}",
                ]
            )
    return out


def grid_rows(rows, table, values, name):
    """Table I or II as lists of cells: theirs / ours for every value."""
    out = []
    for (data, loss), theirs in table.items():
        cells = []
        for value, their in zip(values, theirs, strict=True):
            eta, nu = (value, 1e-9) if name == "table2" else (0.5, value)
            ours = summary(rows, data, loss, eta, nu)
            cells.append(f"{their[0]} ({their[1]}) / {ours[0]:.1f} ({ours[1]:.1f})" if ours else "-")
        if any(cell != "-" for cell in cells):
            out.append([data, loss, *cells])
    return out


def run_small(table, options):
    """Tables I, II and IV."""
    journal = small_journal(options.results, options.fresh)
    run_units(journal, fit_sample, small_units(small_settings(table), options.repeats or REPEATS), options.jobs, table)
    print(small_text(table, journal.rows))
    plot_small(table, journal.rows, Path(options.results, f"{table}.png"))


def small_text(table, rows):
    """One of the small-sample tables in Markdown."""
    if table == "table4":
        head = ["data", "loss", "paper", "ours", "within one sd of the paper", "repeats", "median seconds of a fit"]
        return common.markdown_table(head, table4_rows(rows))
    values, numbers = (ETAS, TABLE2) if table == "table2" else (NUS, TABLE1)
    letter = "eta" if table == "table2" else "nu"
    head = ["data", "loss", *(f"{letter} = {value:g}" for value in values)]
    return "Paper / ours, mean (standard deviation) in percent.\n\n" + common.markdown_table(
        head, grid_rows(rows, numbers, values, table)
    )


def plot_small(table, rows, path):
    """Ours beside the paper's, with standard deviations."""
    plt = pyplot()
    if table == "table4":
        keys = [key for key in TABLE4 if summary(rows, *key, 0.5, 1e-9)]
        figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
        for shift, label, values in (
            (-0.12, "paper", [TABLE4[key] for key in keys]),
            (0.12, "pymcboost", [summary(rows, *key, 0.5, 1e-9)[:2] for key in keys]),
        ):
            axes.errorbar(
                np.arange(len(keys)) + shift,
                [v[0] for v in values],
                [v[1] for v in values],
                fmt="o",
                capsize=3,
                label=label,
            )
        axes.set_xticks(range(len(keys)), [f"{data}\n{loss}" for data, loss in keys], fontsize=8)
        axes.set_ylabel("test error, percent")
        axes.legend()
    else:
        values, numbers = (ETAS, TABLE2) if table == "table2" else (NUS, TABLE1)
        names = list(dict.fromkeys(data for data, _ in numbers))
        figure, axes = plt.subplots(1, len(names), figsize=(3 * len(names), 3), layout="constrained")
        for axis, data in zip(axes, names, strict=True):
            for loss, colour in zip(LOSSES, ("C0", "C1"), strict=True):
                x = range(len(values))
                axis.plot(x, [v[0] for v in numbers[data, loss]], "--", color=colour, label=f"paper {loss}")
                ours = [
                    summary(rows, data, loss, *((value, 1e-9) if table == "table2" else (0.5, value)))
                    for value in values
                ]
                axis.plot(x, [o[0] if o else np.nan for o in ours], "o-", color=colour, label=f"pymcboost {loss}")
            axis.set_xticks(range(len(values)), [f"{value:g}" for value in values])
            axis.set_title(data)
            axis.set_xlabel("shrinkage" if table == "table2" else "nu")
        axes[0].set_ylabel("test error, percent")
        axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"wrote {path}", file=sys.stderr)


# --------------------------------------------------------------------------------------------------------------------
# Official splits

OFFICIAL_KEY = ["data", "loss", "n_estimators", "learning_rate", "nu"]
OFFICIAL_COLUMNS = ["n_train", "n_test", "rounds", "error", "curve"]
CURVE = (100, 200, 300, 500, 700, 1000)


def fit_official(unit):
    """One fit on an official split, with the error after several numbers of rounds."""
    X, y, X_test, y_test = common.load_official(unit["data"])
    start = time.perf_counter()
    model = classifier(unit["loss"], unit["n_estimators"], unit["learning_rate"], unit["nu"]).fit(X, y)
    seconds = time.perf_counter() - start
    curve = [
        f"{t}:{error_percent(y_test, predicted):.2f}"
        for t, predicted in enumerate(model.staged_predict(X_test), 1)
        if t in CURVE
    ]
    return {
        **unit,
        "n_train": len(y),
        "n_test": len(y_test),
        "rounds": model.n_estimators_,
        "error": round(error_percent(y_test, model.predict(X_test)), 4),
        "curve": " ".join(curve),
        "seconds": round(seconds, 3),
    }


def official_units(rounds=OFFICIAL_ROUNDS):
    return [
        {"data": data, "loss": loss, "n_estimators": rounds, "learning_rate": 0.5, "nu": 1e-9}
        for data in OFFICIAL
        for loss in LOSSES
    ]


def official_journal(folder, fresh=False):
    return Journal(Path(folder, "official.csv"), OFFICIAL_KEY, OFFICIAL_COLUMNS, fresh)


def official_text(rows):
    """Table of the official splits in Markdown."""
    curve = [dict(point.split(":") for point in row["curve"].split()) for row in rows]
    cells = [
        [
            row["data"],
            row["loss"],
            f"{row['n_train']} / {row['n_test']}",
            *(c.get(str(t), "-") for t in CURVE),
            f"{float(row['error']):.2f}",
            row["rounds"],
            row["seconds"],
        ]
        for row, c in zip(rows, curve, strict=True)
    ]
    head = ["data", "loss", "train / test", *(f"{t} rounds" for t in CURVE), "error", "rounds", "seconds"]
    return common.markdown_table(head, cells)


def run_official(options):
    """Full official splits, 1,000 rounds: pendigits must come to about 5.0%."""
    journal = official_journal(options.results, options.fresh)
    run_units(journal, fit_official, official_units(), options.jobs, "official")
    print(official_text(journal.rows))
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for row in journal.rows:
        points = [point.split(":") for point in row["curve"].split()]
        style = "-" if row["loss"] == "exp" else "--"
        colour = f"C{OFFICIAL.index(row['data'])}"
        axis.loglog(
            [int(t) for t, _ in points],
            [float(e) for _, e in points],
            style,
            color=colour,
            label=f"{row['data']} {row['loss']}",
        )
    axis.set_xlabel("rounds")
    axis.set_ylabel("test error, percent")
    axis.legend(fontsize=7, ncols=2)
    path = Path(options.results, "official.png")
    figure.savefig(path, dpi=110)
    print(f"wrote {path}", file=sys.stderr)


# --------------------------------------------------------------------------------------------------------------------
# Table VII: MNIST with HOG features

MNIST_KEY = ["loss", "n_estimators", "learning_rate", "nu", "n_jobs"]
MNIST_COLUMNS = ["n_features", "rounds", "error", "curve", "feature_seconds"]


def mnist_features(folder):
    """Features of tools/features.py, kept in ``folder`` under a name that changes with that file.

    Returns
    -------
    X_train, y_train, X_test, y_test, seconds
        Seconds of computing, NaN where they were read back.
    """
    import features

    X, y, X_test, y_test = common.load("mnist")
    digest = hashlib.sha256(Path(features.__file__).read_bytes()).hexdigest()[:8]
    kept = Path(folder, f"mnist-hog-{digest}.npz")
    if kept.exists():
        with np.load(kept) as arrays:
            return arrays["train"], y, arrays["test"], y_test, float("nan")
    start = time.perf_counter()
    train, test = features.features(X), features.features(X_test)
    seconds = time.perf_counter() - start
    kept.parent.mkdir(parents=True, exist_ok=True)
    np.savez(kept, train=train, test=test)
    return train, y, test, y_test, seconds


def mnist_journal(folder, fresh=False):
    return Journal(Path(folder, "mnist-hog.csv"), MNIST_KEY, MNIST_COLUMNS, fresh)


def mnist_text(rows):
    """Table VII in Markdown."""
    cells = [
        [
            row["loss"],
            row["n_features"],
            TABLE7[row["loss"]],
            f"{float(row['error']):.2f}",
            "yes" if float(row["error"]) <= MNIST_BOUND else "NO",
            row["curve"],
            row["rounds"],
            row["seconds"],
            row["n_jobs"],
        ]
        for row in rows
    ]
    head = [
        "loss",
        "features",
        "paper",
        "ours",
        f"at most {MNIST_BOUND}",
        "error by rounds",
        "rounds",
        "seconds of the fit",
        "threads",
    ]
    return common.markdown_table(head, cells)


def run_mnist(options):
    """MNIST, 2,178 HOG features, 60,000 training rows, 1,000 rounds; the fits run one after the other."""
    journal = mnist_journal(options.results, options.fresh)
    units = [
        {"loss": loss, "n_estimators": options.rounds or 1000, "learning_rate": 0.5, "nu": 1e-9, "n_jobs": options.jobs}
        for loss in LOSSES
    ]
    missing = journal.missing(units)
    if missing:
        X, y, X_test, y_test, seconds = mnist_features(options.cache)
        print(f"features: {X.shape[1]} of {X.dtype}, {seconds:.1f} s", file=sys.stderr)
    for unit in missing:
        start = time.perf_counter()
        model = classifier(
            unit["loss"], unit["n_estimators"], unit["learning_rate"], unit["nu"], unit["n_jobs"], verbose=1
        ).fit(X, y)
        taken = time.perf_counter() - start
        curve = [
            f"{t}:{error_percent(y_test, predicted):.2f}"
            for t, predicted in enumerate(model.staged_predict(X_test), 1)
            if t in CURVE
        ]
        journal.add(
            {
                **unit,
                "n_features": X.shape[1],
                "rounds": model.n_estimators_,
                "error": round(error_percent(y_test, model.predict(X_test)), 4),
                "curve": " ".join(curve),
                "feature_seconds": round(seconds, 1),
                "seconds": round(taken, 2),
            }
        )
    print(mnist_text(journal.rows))


# --------------------------------------------------------------------------------------------------------------------
# Figure 1: coefficient paths

FIGURE_STEP = 0.01
FIGURE_ROUNDS = 1000
FIGURE_DIGITS = (3, 6, 9)
FIGURE_STUMPS = 8


def figure_data(seed=0):
    """Evaluate eight stumps on 20 samples each of the USPS digits 3, 6 and 9: H (60 x 8, -1 and +1) and y in 0..2.

    The stumps are the first eight different (feature, threshold) pairs that MCBoost itself picks on these samples.
    """
    X, y, _, _ = common.load("usps")
    generator = np.random.default_rng(seed)
    # Labels of the file are digit + 1.
    rows = np.concatenate(
        [generator.choice(np.flatnonzero(y == digit + 1), 20, replace=False) for digit in FIGURE_DIGITS]
    )
    X, y = X[rows], np.repeat(np.arange(3), 20)
    history = classifier("log", 200, max_bins=256).fit(X, y).history_
    pairs = list(dict.fromkeys(zip(history["feature"].tolist(), history["threshold"].tolist(), strict=True)))
    H = np.stack([np.where(X[:, f] <= np.float32(t), -1.0, 1.0) for f, t in pairs], axis=1)
    # Two pairs may cut the samples alike; such copies have no path of their own.
    keep = []
    for j in range(H.shape[1]):
        if not any(abs(H[:, j] @ H[:, k]) == len(H) for k in keep):
            keep.append(j)
    if len(keep) < FIGURE_STUMPS:
        raise SystemExit(f"figure1: only {len(keep)} different stumps on this sample; try another seed")
    return H[:, keep[:FIGURE_STUMPS]], y


def pair_loss(loss, W, H, y):
    """Loss of (17) and its gradient in W (stumps x classes)."""
    F = H @ W
    rho = F[np.arange(len(y)), y][:, None] - F
    if loss == "exp":
        u = np.exp(-rho)
        value = u.sum()
    else:
        value = np.logaddexp(0.0, -rho).sum()
        u = 1.0 / (1.0 + np.exp(rho))
    A = -u
    A[np.arange(len(y)), y] += u.sum(axis=1)
    return value, -(H.T @ A)


def exact_paths(loss, H, y, gammas):
    """Minimisers of the loss subject to W >= 0, |W|_1 <= gamma, over all stumps and their negations.

    The stumps come with both signs, as the weak learner's search does, so a signed W stands for both coefficients.

    Returns
    -------
    W : ndarray, shape (gammas, stumps, classes)
    residual : float
        Largest relative violation of the optimality condition over the grid.
    """
    from scipy.optimize import minimize

    K = int(y.max()) + 1
    n = H.shape[1] * K
    both = np.ones(2 * n)
    path, residual = [], 0.0
    w = np.zeros(2 * n)
    for gamma in gammas:

        def objective(w):
            value, gradient = pair_loss(loss, (w[:n] - w[n:]).reshape(-1, K), H, y)
            return np.log(value), np.concatenate([gradient.ravel(), -gradient.ravel()]) / value

        found = minimize(
            objective,
            w,
            jac=True,
            method="SLSQP",
            bounds=[(0.0, None)] * (2 * n),
            constraints={"type": "ineq", "fun": lambda w, gamma=gamma: gamma - w.sum(), "jac": lambda w: -both},
            options={"maxiter": 1000, "ftol": 1e-14},
        )
        w = np.clip(found.x, 0.0, None)
        _, gradient = objective(w)
        # At the optimum every coefficient in use has the steepest slope: gap = <gradient, w> - gamma * min(gradient).
        gap = gradient @ w - gamma * min(gradient.min(), 0.0)
        residual = max(residual, float(gap) / max(gamma * abs(gradient.min()), 1e-12))
        path.append((w[:n] - w[n:]).reshape(-1, K))
    return np.array(path), residual


def stagewise_paths(loss, H, y, rounds=FIGURE_ROUNDS, step=FIGURE_STEP):
    """Coefficients (rounds x stumps x classes) of MCBoost with a fixed step on the selected class alone.

    The estimator sees the stumps' outputs as features of two values, so it can pick these eight stumps and no other.
    """
    model = classifier(loss, rounds, learning_rate=1.0, nu=0.0, fixed_step=step).fit(H.astype(np.float32), y)
    stumps = model.model_.ensemble
    W = np.zeros((stumps.feature.size, H.shape[1], int(y.max()) + 1))
    W[np.arange(stumps.feature.size), stumps.feature] = stumps.right
    return W.cumsum(axis=0)


def run_figure1(options):
    """Coefficient paths with a fixed step against the exact l1-constrained solution (17)."""
    from threadpoolctl import threadpool_limits

    H, y = figure_data()
    step = FIGURE_STEP
    gammas = np.arange(0.1, FIGURE_ROUNDS * step + 1e-9, 0.1)
    plt = pyplot()
    figure, axes = plt.subplots(4, 3, figsize=(9, 10), sharex=True, layout="constrained")
    lines = ["loss,gamma,largest_difference,mean_difference,norm,loss_exact,loss_stagewise"]
    for block, loss in enumerate(LOSSES):
        start = time.perf_counter()
        # The matrices are tiny: more BLAS threads than one only wait for each other.
        with threadpool_limits(1):
            exact, residual = exact_paths(loss, H, y, gammas)
        between = time.perf_counter()
        stage = stagewise_paths(loss, H, y)
        last = time.perf_counter()
        # The row of round t has norm (t + 1) * step unless a coefficient went back.
        norms = np.abs(stage).sum(axis=(1, 2))
        used = np.array([min(int(np.searchsorted(norms, gamma - step / 2)), len(norms) - 1) for gamma in gammas])
        for g, gamma in enumerate(gammas):
            difference = np.abs(exact[g] - stage[used[g]])
            lines.append(
                f"{loss},{gamma:.2f},{difference.max():.5f},{difference.mean():.5f},{norms[used[g]]:.3f},"
                f"{pair_loss(loss, exact[g], H, y)[0]:.6f},{pair_loss(loss, stage[used[g]], H, y)[0]:.6f}"
            )
        reached = gammas <= norms[-1] + step
        worst = max(np.abs(exact[g] - stage[used[g]]).max() for g in np.flatnonzero(reached))
        print(
            f"{loss}: largest difference of a coefficient {worst:.3f} over gamma 0.1..{gammas[reached][-1]:g}; "
            f"optimality gap of the exact path {residual:.1e}; "
            f"{between - start:.1f} s exact, {last - between:.2f} s stage-wise"
        )
        for k, digit in enumerate(FIGURE_DIGITS):
            axes[2 * block, k].plot(gammas, exact[:, :, k])
            axes[2 * block, k].set_title(f"exact, {loss}, digit {digit}", fontsize=9)
            axes[2 * block + 1, k].plot(norms, stage[:, :, k])
            axes[2 * block + 1, k].set_title(f"fixed step, {loss}, digit {digit}", fontsize=9)
            axes[2 * block + 1, k].sharey(axes[2 * block, k])
    for axis in axes[-1]:
        axis.set_xlabel("l1 norm of the coefficients")
    Path(options.results).mkdir(parents=True, exist_ok=True)
    path = Path(options.results, "figure1.png")
    figure.savefig(path, dpi=110)
    Path(options.results, "figure1.csv").write_text("\n".join(lines) + "\n")
    print(f"wrote {path} and figure1.csv", file=sys.stderr)


# --------------------------------------------------------------------------------------------------------------------
# Command line


def markdown(folder):
    """Every table that has results in ``folder``."""
    parts = []
    folder = Path(folder)
    if (folder / "small-samples.csv").exists():
        rows = small_journal(folder).rows
        for table, title in (
            ("table4", "Table IV: 50 samples per class, 75:25, 500 stumps, nu = 1e-9, shrinkage 0.5"),
            ("table2", "Table II: shrinkage"),
            ("table1", "Table I: nu"),
        ):
            parts.append(f"### {title}\n\n{small_text(table, rows)}")
        stamp = rows[0] if rows else None
        if stamp:
            commits = ", ".join(f"`{c}`" for c in sorted({row["commit"] for row in rows}))
            parts.append(f"Commit {commits}, Python {stamp['python']}, NumPy {stamp['numpy']}.")
    for name, journal, text, title in (
        ("official.csv", official_journal, official_text, "Official splits, 1,000 stumps"),
        ("mnist-hog.csv", mnist_journal, mnist_text, "Table VII: MNIST, HOG features"),
    ):
        if (folder / name).exists():
            rows = journal(folder).rows
            commits = ", ".join(f"`{c}`" for c in sorted({row["commit"] for row in rows}))
            parts.append(f"### {title}\n\n{text(rows)}\n\nCommit {commits}.")
    for part in (reproduce_trees, reproduce_multiboost, reproduce_classic, reproduce_hinge):
        parts += part.markdown(folder)
    return "\n\n".join(parts)


TABLES = {
    "table4": lambda options: run_small("table4", options),
    "table2": lambda options: run_small("table2", options),
    "table1": lambda options: run_small("table1", options),
    "official": run_official,
    "mnist-hog": run_mnist,
    "figure1": run_figure1,
    **reproduce_trees.RUNS,
    **reproduce_multiboost.RUNS,
    **reproduce_classic.RUNS,
    **reproduce_hinge.RUNS,
}
VERIFY = {
    **reproduce_trees.VERIFY,
    **reproduce_multiboost.VERIFY,
    **reproduce_classic.VERIFY,
    **reproduce_hinge.VERIFY,
}


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"one or more of {', '.join(TABLES)}")
    parser.add_argument("--results", default="results", help="folder of the CSV files and pictures (default results)")
    parser.add_argument("--jobs", type=int, default=0, help="processes, or threads of long runs (default: all CPUs)")
    parser.add_argument("--repeats", type=int, default=None, help="random samples or splits (default: the papers')")
    parser.add_argument("--rounds", type=int, default=None, help="rounds of mnist-hog and trees (defaults differ)")
    parser.add_argument("--cache", default="results-local", help="folder of features and checkpoints (results-local)")
    parser.add_argument("--fresh", action="store_true", help="do everything again instead of going on")
    trees = parser.add_argument_group("trees and MultiBoost")
    trees.add_argument("--methods", nargs="+", metavar="NAME", help="only these methods (mart, abc-logitboost, ...)")
    trees.add_argument("--gaps", nargs="+", type=int, metavar="G", help="gaps of the abc methods (defaults differ)")
    trees.add_argument("--minutes", type=float, default=15, help="longest time between two checkpoints (default 15)")
    trees.add_argument("--sets", nargs="+", metavar="SET", help="data sets of the tables that can do a part of theirs")
    trees.add_argument("--seeds", type=int, default=10, help="seeds of vector-trees (default 10)")
    trees.add_argument("--budget", type=float, metavar="MINUTES", help="begin no further fit of them after this")
    trees.add_argument(
        "--verify",
        type=int,
        nargs="?",
        const=25,
        metavar="N",
        help="compare with the result file: rounds up to N, or the N cheapest fits (default 25)",
    )
    trees.add_argument("--tolerance", type=float, default=0.0, help="with --verify: percent that may differ (0)")
    parser.add_argument("--markdown", metavar="FOLDER", help="print the tables of a results folder and stop")
    parser.add_argument("--into", metavar="FILE", help="with --markdown: put the tables into this file")
    options = parser.parse_args(arguments)
    if options.markdown:
        text = markdown(options.markdown)
        if options.into:
            common.put_between(options.into, "reproduction", text)
        else:
            print(text)
        return 0
    unknown = [table for table in options.tables if table not in TABLES]
    if unknown or not options.tables:
        parser.error(f"name one or more of {', '.join(TABLES)}")
    if options.verify is not None and not set(options.tables) <= set(VERIFY):
        parser.error(f"--verify is for {', '.join(VERIFY)}")
    counts = [options.seeds, options.repeats, options.rounds, options.verify, *(options.gaps or [])]
    if min(count for count in counts if count is not None) < 1 or options.minutes <= 0:
        parser.error("--seeds, --repeats, --rounds, --gaps and --verify must be at least 1, --minutes positive")
    if options.jobs <= 0:
        from pymcboost.threads import available_cpus

        options.jobs = available_cpus()
    try:
        if options.verify is not None:
            return min(1, sum(VERIFY[table](options) for table in options.tables))
        for table in options.tables:
            TABLES[table](options)
    except DataMissing as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted; what was finished is kept, and the same command goes on from there", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
