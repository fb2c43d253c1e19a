"""The classic boosters with stumps against MCBoost and scikit-learn."""

import itertools

from shared.datasets import coded, load_official
from shared.measure import race

from bench.report import Report, benchmark

SETS = ("pendigits", "letter")
ROUNDS = 1000
# Rounds of the comparison with scikit-learn, which takes long.
SAMME_ROUNDS = 100
# A round's time is that of as many further ones.
MARGINAL_ROUNDS = 100
# What is asked: AdaBoost.MH's time over MCBoost's, scikit-learn's over SAMME's, a round over one of MCBoost.
MH_TIME, SAMME_TIME, ROUND_TIME = 1.5, 5, 3


def dense_columns(K):
    """Columns of the dense random code."""
    import numpy as np
    from shared.internals import code_matrix

    return code_matrix("dense", K, np.random.default_rng(0)).shape[1]


def pair_columns(K):
    """Single classes and pairs of them, of those that separate the same only one."""
    from shared.internals import separators

    return separators("pairs", K).shape[1]


# Estimators by name: class, parameters, and the columns that a round scans, one for each class where none are given.
ALGORITHMS = {
    "MCBoost exp": ("MCBoost", {"loss": "exp"}),
    "MCBoost log": ("MCBoost", {"loss": "log"}),
    "SAMME": ("SAMME", {}),
    "AdaBoost.ML": ("AdaBoostML", {}),
    "AdaBoost.MH": ("AdaBoostMH", {}),
    "AdaBoost.MO, one-vs-all": ("AdaBoostMO", {"code": "one-vs-all"}),
    "AdaBoost.MO, dense": ("AdaBoostMO", {"code": "dense"}, dense_columns),
    "AdaBoost.OC": ("AdaBoostOC", {}),
    "AdaBoost.ECC": ("AdaBoostECC", {}),
    "AdaBoost.ERP": ("AdaBoostERP", {}),
    "GentleBoost": ("GentleBoost", {}),
    "JointBoost": ("JointBoost", {}, lambda K: 2 * K),
    "GradBoost": ("GradBoost", {}),
    "PIBoost, singles": ("PIBoost", {"separators": "singles"}),
    "PIBoost, pairs": ("PIBoost", {"separators": "pairs"}, pair_columns),
}


def fitted(name, rounds, X, codes, **more):
    import pymcboost

    cls, parameters, *_ = ALGORITHMS[name]
    made = getattr(pymcboost, f"{cls}Classifier")
    return made(n_estimators=rounds, n_jobs=1, random_state=0, **parameters, **more).fit(X, codes)


def bench_mh(options, report, name, parts):
    """AdaBoost.MH against MCBoost with as many stumps."""
    X, codes, X_test, truth = parts
    rounds = 50 if options.quick else options.rounds or ROUNDS
    names = ("MCBoost exp", "AdaBoost.MH")
    found = race({what: lambda what=what: fitted(what, rounds, X, codes) for what in names}, options.repeat)
    for what, timing in found.items():
        report.rows.append(timing.fit_row(f"{name}: {what}, {rounds} stumps", X_test, truth))
    ratio = found["AdaBoost.MH"].best_cpu / found["MCBoost exp"].best_cpu
    report.target(f"{name}, {rounds} stumps: AdaBoost.MH's time / MCBoost exp's", ratio, MH_TIME, at_most=True)


def bench_samme(options, report, name, parts):
    """SAMME against scikit-learn's, whose stumps are chosen by the Gini impurity."""
    from sklearn.ensemble import AdaBoostClassifier
    from sklearn.tree import DecisionTreeClassifier

    X, codes, X_test, truth = parts
    rounds = options.size(10, SAMME_ROUNDS)
    theirs = AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=rounds, random_state=0)
    competitors = {
        "SAMME": lambda: fitted("SAMME", rounds, X, codes),
        "SAMME, Gini stumps": lambda: fitted("SAMME", rounds, X, codes, weak_learner="tree", max_leaf_nodes=2),
        "scikit-learn AdaBoostClassifier": lambda: theirs.fit(X, codes),
    }
    found = race(competitors, min(options.repeat, 3), warm_up=False)
    for what, timing in found.items():
        report.rows.append(timing.fit_row(f"{name}: {what}, {rounds} rounds", X_test, truth))
    ratio = found["scikit-learn AdaBoostClassifier"].best_cpu / found["SAMME"].best_cpu
    report.target(f"{name}, {rounds} rounds: scikit-learn's time / SAMME's", ratio, SAMME_TIME)


def bench_rounds(options, report, name, parts):
    """A round of every algorithm against one of MCBoost, from fits of R and of 2R rounds."""
    X, codes, X_test, truth = parts
    K, R = int(codes.max()) + 1, options.size(5, MARGINAL_ROUNDS)
    first = None
    for what, (_, _, *columns) in ALGORITHMS.items():
        fits = {rounds: lambda n=rounds, what=what: fitted(what, n, X, codes) for rounds in (R, 2 * R)}
        found = race(fits, options.repeat, budget=20)
        a_round = (found[2 * R].best_cpu - found[R].best_cpu) / R
        first = first or a_round
        count = columns[0](K) if columns else K
        ratio, scans = a_round / first, max(1.0, count / K)
        more = {"us_per_round": round(1e6 * a_round, 1), "columns": count, "times_MCBoost": round(ratio, 2)}
        more["times_MCBoost_a_scan"] = round(ratio / scans, 2)
        report.rows.append(found[2 * R].fit_row(f"{name}: {what}", X_test, truth, **more))
        if not what.startswith("MCBoost"):
            words = f"{name}: a round of {what} / MCBoost exp's, for each scan of {K} columns"
            report.target(words, ratio / scans, ROUND_TIME, at_most=True)


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
    for part, sets in ((bench_mh, SETS), (bench_samme, SETS[:1]), (bench_rounds, SETS)):
        for name in options.data or sets:
            part(options, report, name, coded(load_official(name)))
    return report


@benchmark("margin-vectors")
def bench_margin_vectors(options):
    """Errors of AdaBoost.ML beside those of SAMME, MCBoost and AdaBoost.ECC, after as many rounds."""
    rounds = options.size(5, options.rounds or 500)
    names = ("AdaBoost.ML", "SAMME", "MCBoost exp", "AdaBoost.ECC")
    report = Report({"data": "official splits", "rounds": rounds, "trees": "20 leaves", "threads": 1})
    for name in options.data or ("pendigits", "satimage", "usps", "letter"):
        X, codes, X_test, truth = coded(load_official(name))
        for what, learner in itertools.product(names, ("stump", "tree")):
            made = fitted(what, rounds, X, codes, weak_learner=learner)
            error = 100 * float((made.predict(X_test) != truth).mean())
            report.add(f"{name}: {what}, {learner}s", round(error, 2), "%", rounds_kept=made.n_estimators_)
    return report
