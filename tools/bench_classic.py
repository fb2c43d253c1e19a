"""Benchmarks of the classic boosters with stumps against MCBoost and scikit-learn; part of tools/bench.py."""

import common
import numpy as np
from common import Report, benchmark, error_percent, race

SETS = ("pendigits", "letter")
ROUNDS = 1000
# Rounds of the comparison with scikit-learn, which takes long.
SAMME_ROUNDS = 100
# A round's time is that of as many further ones.
MARGINAL_ROUNDS = 100
# What is asked: AdaBoost.MH's time over MCBoost's, scikit-learn's over SAMME's, a round over one of MCBoost.
MH_TIME, SAMME_TIME, ROUND_TIME = 1.5, 5, 3


def algorithms():
    """Estimators by name: (class, parameters, columns that a round scans, or None for one for each class)."""
    import pymcboost as p

    return {
        "MCBoost exp": (p.MCBoostClassifier, {"loss": "exp"}, None),
        "MCBoost log": (p.MCBoostClassifier, {"loss": "log"}, None),
        "SAMME": (p.SAMMEClassifier, {}, None),
        "AdaBoost.MH": (p.AdaBoostMHClassifier, {}, None),
        "AdaBoost.MO, one-vs-all": (p.AdaBoostMOClassifier, {"code": "one-vs-all"}, lambda K: K),
        "AdaBoost.MO, dense": (p.AdaBoostMOClassifier, {"code": "dense"}, dense_columns),
        "AdaBoost.OC": (p.AdaBoostOCClassifier, {}, None),
        "AdaBoost.ECC": (p.AdaBoostECCClassifier, {}, None),
        "AdaBoost.ERP": (p.AdaBoostERPClassifier, {}, None),
        "GentleBoost": (p.GentleBoostClassifier, {}, None),
        "JointBoost": (p.JointBoostClassifier, {}, lambda K: 2 * K),
        "GradBoost": (p.GradBoostClassifier, {}, None),
        "PIBoost, singles": (p.PIBoostClassifier, {"separators": "singles"}, lambda K: K),
        "PIBoost, pairs": (p.PIBoostClassifier, {"separators": "pairs"}, pair_columns),
    }


def dense_columns(K):
    """Columns of the dense random code."""
    from pymcboost.losses.codes import code_matrix

    return code_matrix("dense", K, np.random.default_rng(0)).shape[1]


def pair_columns(K):
    """Single classes and pairs of them, of those that separate the same only one."""
    from pymcboost.losses.codes import separators

    return separators("pairs", K).shape[1]


def fitted(made, parameters, rounds, X, y):
    return made(n_estimators=rounds, n_jobs=1, random_state=0, **parameters).fit(X, y)


def cpu(timing):
    """CPU seconds of the best run: others' work on the machine lengthens them least."""
    return min(timing.cpu)


def described(timing, what, X_test, y_test, **more):
    """A row of the report, with rounds and error of the model that the last run gave."""
    model = timing.value
    rounds = getattr(model, "n_estimators_", None) or len(model.estimators_)
    error = round(error_percent(y_test, model.predict(X_test)), 2)
    return timing.row(what, rounds=rounds, test_error_percent=error, **more)


def bench_mh(options, report, name):
    """AdaBoost.MH against MCBoost with as many stumps."""
    X, y, X_test, y_test = common.load_official(name)
    rounds = 50 if options.quick else options.rounds or ROUNDS
    known = algorithms()
    found = race(
        {
            what: lambda made=known[what]: fitted(made[0], made[1], rounds, X, y)
            for what in ("MCBoost exp", "AdaBoost.MH")
        },
        options.repeat,
    )
    for what, timing in found.items():
        report.rows.append(described(timing, f"{name}: {what}, {rounds} stumps", X_test, y_test))
    ratio = cpu(found["AdaBoost.MH"]) / cpu(found["MCBoost exp"])
    report.target(f"{name}, {rounds} stumps: AdaBoost.MH's time / MCBoost exp's", ratio, MH_TIME, at_most=True)


def bench_samme(options, report, name):
    """SAMME against scikit-learn's, whose stumps are chosen by the Gini impurity."""
    from sklearn.ensemble import AdaBoostClassifier
    from sklearn.tree import DecisionTreeClassifier

    X, y, X_test, y_test = common.load_official(name)
    rounds = 10 if options.quick else SAMME_ROUNDS
    known = algorithms()
    made, _, _ = known["SAMME"]
    competitors = {
        "SAMME": lambda: fitted(made, {}, rounds, X, y),
        "SAMME, Gini stumps": lambda: fitted(made, {"weak_learner": "tree", "max_leaf_nodes": 2}, rounds, X, y),
        "scikit-learn AdaBoostClassifier": lambda: AdaBoostClassifier(
            DecisionTreeClassifier(max_depth=1), n_estimators=rounds, random_state=0
        ).fit(X, y),
    }
    found = race(competitors, min(options.repeat, 3), warm_up=False)
    for what, timing in found.items():
        report.rows.append(described(timing, f"{name}: {what}, {rounds} rounds", X_test, y_test))
    theirs = cpu(found["scikit-learn AdaBoostClassifier"])
    report.target(f"{name}, {rounds} rounds: scikit-learn's time / SAMME's", theirs / cpu(found["SAMME"]), SAMME_TIME)


def bench_rounds(options, report, name):
    """A round of every algorithm against one of MCBoost, from fits of R and of 2R rounds."""
    X, y, X_test, y_test = common.load_official(name)
    K = len(np.unique(y))
    R = 5 if options.quick else MARGINAL_ROUNDS
    seconds = {}
    for what, (made, parameters, columns) in algorithms().items():
        found = race(
            {
                rounds: lambda n=rounds, made=made, parameters=parameters: fitted(made, parameters, n, X, y)
                for rounds in (R, 2 * R)
            },
            options.repeat,
            budget=20,
        )
        a_round = (cpu(found[2 * R]) - cpu(found[R])) / R
        seconds[what] = a_round
        count = K if columns is None else columns(K)
        ratio = a_round / seconds["MCBoost exp"]
        scans = max(1.0, count / K)
        report.rows.append(
            described(
                found[2 * R], f"{name}: {what}", X_test, y_test, us_per_round=round(1e6 * a_round, 1), columns=count,
                times_MCBoost=round(ratio, 2), times_MCBoost_a_scan=round(ratio / scans, 2),
            )
        )  # fmt: skip
        if not what.startswith("MCBoost"):
            report.target(
                f"{name}: a round of {what} / MCBoost exp's, for each scan of {K} columns", ratio / scans, ROUND_TIME,
                at_most=True,
            )  # fmt: skip


@benchmark("classic")
def bench_classic(options):
    """The classic boosters with stumps: AdaBoost.MH against MCBoost, SAMME against scikit-learn, a round of each."""
    report = Report(
        {
            "data": "official splits; letter: the first 16,000 rows train",
            "weak learners": "stumps, max_bins=256 (default)",
            "MCBoost": "learning_rate=0.5 nu=1e-9 (defaults)",
            "scikit-learn": "AdaBoostClassifier(DecisionTreeClassifier(max_depth=1)), which searches all distinct "
            "values by the Gini impurity; ours by the number of errors, or by the Gini impurity where it says so",
            "a round": f"(CPU seconds of {2 * MARGINAL_ROUNDS} rounds - those of {MARGINAL_ROUNDS}) / "
            f"{MARGINAL_ROUNDS}, without preparation",
            "a scan": "a round of MCBoost scans as many columns as there are classes, one of PIBoost or AdaBoost.MO "
            "as many as there are separators or columns of the code, one of JointBoost two for each class",
            "ratios": "of the best CPU seconds",
            "threads": 1,
            "data_preparation": "timed in fits, on both sides",
        }
    )
    for name in options.data or SETS:
        bench_mh(options, report, name)
    for name in options.data or SETS[:1]:
        bench_samme(options, report, name)
    for name in options.data or SETS:
        bench_rounds(options, report, name)
    return report
