"""Rows with any number of labels: the set `delicious`, 983 of them, and small sets beside a model for each label."""

import time

import numpy as np
from shared.datasets import data_folder

from bench.growth import in_errors
from bench.report import Report, benchmark

# Asked: cross-entropy, and seconds of training on two cores. Published for CatBoost and SketchBoost.
CROSS_ENTROPY, SECONDS = 0.0619, 1260
PUBLISHED = {"CatBoost": 0.0614, "SketchBoost": 0.0620}
# Chosen on the training rows, of which a fifth was held out.
PARAMS = {"learning_rate": 0.05, "max_leaf_nodes": 64, "l2_regularization": 2.0}
ROUNDS, WIDTH, LABELS = 1000, 500, 983
# Numbers of a leaf that the smaller model keeps.
ENTRIES = 100


def read(part):
    """Rows and indicators of a part."""
    from sklearn.preprocessing import MultiLabelBinarizer

    from pymcboost import load_svmlight

    data = load_svmlight(data_folder() / f"delicious.{part}.libsvm.gz", multilabel=True, n_features=WIDTH)
    return data.X, MultiLabelBinarizer(classes=range(1, LABELS + 1)).fit_transform(data.y)


def figures(Y, P, at=(1, 3, 5)):
    """Cross-entropy by label, and precision at 1, 3 and 5, of probabilities."""
    P = np.clip(P, 1e-15, 1 - 1e-15)
    loss = -np.log(np.where(Y > 0, P, 1 - P)).mean()
    first = np.argsort(-P, axis=1, kind="stable")
    return {
        "cross_entropy": loss,
        **{f"precision_at_{k}": np.take_along_axis(Y, first[:, :k], axis=1).mean() for k in at},
    }


def logistic_regression(X, Y, test):
    """Probabilities of a logistic regression for each label."""
    from sklearn.linear_model import LogisticRegression

    P = np.empty((len(test), Y.shape[1]))
    for k, y in enumerate(Y.T):
        P[:, k] = y.mean()
        if 0 < y.mean() < 1:
            P[:, k] = LogisticRegression(C=0.1, max_iter=50).fit(X, y).predict_proba(test)[:, 1]
    return P


@benchmark("delicious")
def bench_delicious(options):
    """983 labels on shared trees; the prior and a logistic regression for each label beside."""
    from sklearn.base import clone

    from pymcboost import VectorTreeBoostClassifier

    rounds, threads = options.rounds or options.size(3, ROUNDS), max(options.threads)
    (X, Y), (test, Y_test) = read("train"), read("test")
    if options.quick:
        X, Y, test, Y_test = X[:500], Y[:500, :50], test[:200], Y_test[:200, :50]
    report = Report(
        {
            "data": f"delicious, {len(X)} and {len(test)} rows, {WIDTH} features, {Y.shape[1]} labels",
            "cross-entropy": "natural logarithm, mean over labels and rows of the test part",
            "trees": f"{rounds} rounds, {PARAMS}, chosen on the training rows",
            "threads": threads,
        }
    )
    model = VectorTreeBoostClassifier(
        loss="logistic", n_estimators=rounds, random_state=0, n_jobs=threads, **(PARAMS if not options.quick else {})
    )

    def ours():
        return model.fit(X, Y).predict_proba(test)

    few = clone(model).set_params(max_leaf_entries=ENTRIES)
    prior = np.broadcast_to((Y.sum(axis=0) + 0.5) / (len(Y) + 1), Y_test.shape)
    runs = {"vector trees": ours, f"vector trees, {ENTRIES} entries": lambda: few.fit(X, Y).predict_proba(test)}
    runs["prior"] = lambda: prior
    runs["logistic regression"] = lambda: logistic_regression(X, Y, test)
    found = {}
    for name, run in runs.items():
        begin, cpu = time.perf_counter(), time.process_time()
        P = run()
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        found[name] = figures(Y_test, P)
        report.add(name, seconds, "s", cpu=cpu, **found[name])
    report.notes += [f"cross-entropy of {name}, as published: {value}" for name, value in PUBLISHED.items()]
    for name, one in zip(runs, (model, few), strict=False):
        report.add(f"file of {name}", len(one.model_.to_bytes()) / 1e6, "MB")
    report.target("cross-entropy", found["vector trees"]["cross_entropy"], CROSS_ENTROPY, at_most=True, unit="")
    report.target("seconds with prediction", report.rows[0]["best"], SECONDS, at_most=True, unit="s")
    return report


SEEDS, SMALL_ROUNDS = 5, 150


def bundled():
    """Small sets of scikit-learn with labels of which a row has several: name, rows and indicator."""
    from sklearn.datasets import load_digits, load_iris, load_wine

    X, y = load_digits(return_X_y=True)
    of_digit = {
        "even": [0, 2, 4, 6, 8], "prime": [2, 3, 5, 7], "above 4": [5, 6, 7, 8, 9], "times 3": [0, 3, 6, 9],
        "has a loop": [0, 6, 8, 9], "square": [0, 1, 4, 9],
    }  # fmt: skip
    yield "digits, 6 properties", X, np.stack([np.isin(y, digits) for digits in of_digit.values()], axis=1).astype(int)
    for name, load in ("wine", load_wine), ("iris", load_iris):
        X, y = load(return_X_y=True)
        large = X > np.median(X, axis=0)  # of features that are then left out
        hidden = [0, 6] if name == "wine" else [0, 2]
        Y = np.column_stack([y != 0, y != 1, large[:, hidden]]).astype(int)
        yield f"{name}, 4 properties", np.delete(X, hidden, axis=1), Y


def small_models(options, n_labels):
    """Our classifiers of all labels, and of each label alone, with as many rounds for each.

    AdaBoost.MH has one stump a round for all labels, so it is measured with as many stumps as those of each label, too.
    """
    from sklearn.base import clone
    from sklearn.multioutput import MultiOutputClassifier

    import pymcboost

    rounds = options.rounds or options.size(5, SMALL_ROUNDS)
    shared = {"n_estimators": rounds, "random_state": 0, "n_jobs": 1}
    # A label alone is a problem of two classes, whose scores are softmax's: its logistic regression.
    yield "vector trees", *(
        lambda: pymcboost.VectorTreeBoostClassifier(loss="logistic", l2_regularization=1.0, **shared),
        lambda: MultiOutputClassifier(
            pymcboost.VectorTreeBoostClassifier(calibrate=None, l2_regularization=0.5, **shared)
        ),
    )
    more = {**shared, "n_estimators": rounds * n_labels}
    for name, cls, params in (
        ("AdaBoost.MH", pymcboost.AdaBoostMHClassifier, shared),
        ("AdaBoost.MH, as many stumps", pymcboost.AdaBoostMHClassifier, more),
        ("GentleBoost", pymcboost.GentleBoostClassifier, shared),
    ):
        apart = MultiOutputClassifier(cls(**shared))
        yield name, lambda cls=cls, params=params: cls(**params), lambda apart=apart: clone(apart)


def label_losses(model, parts):
    """Cross-entropy and Hamming loss on test rows, after a fit."""
    X, Y, test, truth = parts
    P = model.fit(X, Y).predict_proba(test)
    P = np.column_stack([one[:, 1] for one in P]) if isinstance(P, list) else P
    return figures(truth, P, (1,))["cross_entropy"], float((model.predict(test) != truth).mean())


@benchmark("small-labels")
def bench_small_labels(options):
    """Models of all labels against one for each label, on small sets: five splits, differences in standard errors."""
    from sklearn.model_selection import train_test_split

    seeds = options.size(2, SEEDS)
    report = Report(
        {
            "splits": f"{seeds}, half of the rows each",
            "rounds": options.rounds or options.size(5, SMALL_ROUNDS),
            "threads": 1,
            "difference": "of all labels less one by one, in standard errors of the mean over the splits",
        }
    )
    for data, X, Y in bundled():
        for name, together, apart in small_models(options, Y.shape[1]):
            found = []
            for seed in range(seeds):
                X_train, test, Y_train, truth = train_test_split(X, Y, test_size=0.5, random_state=seed)
                parts = X_train, Y_train, test, truth
                found.append([label_losses(make(), parts) for make in (together, apart)])
            found = np.array(found)
            for at, what, unit in (0, "cross-entropy", ""), (1, "Hamming loss", ""):
                both, gap = found[:, :, at].mean(axis=0), found[:, 0, at] - found[:, 1, at]
                report.add(f"{data}: {name}, {what}", both[0], unit, one_by_one=both[1])
                report.target(
                    f"{data}: {name}, {what}: difference", in_errors(gap), 2, at_most=True, unit="errors"
                )  # fmt: skip
    return report
