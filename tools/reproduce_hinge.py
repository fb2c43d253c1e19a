"""HingeBoost.OC against Tables 2 and 3 of its paper, beside four reductions to binary problems; see reproduce.py.

For each data set, kernel and scaling: C of every method by 3-fold cross-validation on the training part (of 20 rounds,
for HingeBoost.OC), then 200 rounds on the official split, for 20 seeds on vowel and 5 elsewhere. The multi-class
SVM beside the perceptron kernel has an RBF kernel, as in the paper, whose gamma is chosen with C.

hinge-costs: expected cost on a hierarchy of the classes, of a model that knows the costs and of one that does not.
"""

import sys
import time
import warnings
from pathlib import Path

import common
import numpy as np
from journal import Journal, run_units

ROUNDS, CHOICE_ROUNDS, FOLDS = 200, 20, 3
SETS = ("vowel", "satimage", "pendigits", "usps", "letter")
LARGER = ("usps", "letter")
KERNELS = ("linear", "perceptron")
# Powers of 2; the reductions bound every row by C itself, and are slow to train where that is large.
C_EXPONENTS = tuple(range(-2, 13, 2))
C_EXPONENTS_OF_REDUCTIONS = tuple(range(-6, 9, 2))
HINGE = {
    "hinge": {},
    "hinge-random": {"init": "random"},
    "hinge-2-svms": {"max_alternations": 1},
    "hinge-wider": {},
}
# "hinge" with one larger C besides, where it chose the largest one; the smaller ones are taken from its own choice.
WIDER = {"hinge-wider": "hinge"}
C_EXPONENTS_BEYOND = (14,)
REDUCTIONS = ("one-vs-one", "one-vs-all", "ecoc", "crammer-singer")
# The paper's, for its multi-class SVM; and what the diagonal of its kernel gets for the Cholesky factor to exist.
GAMMAS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
RIDGE = 1e-5
# Left out with the perceptron kernel: a factor of all rows' kernel for every gamma, C and fold, or hours of LIBSVM.
TOO_LONG = {
    "crammer-singer": ("satimage", "pendigits", "usps", "letter"),
    "one-vs-all": ("letter",),
    "ecoc": ("usps", "letter"),
}
# Test errors in percent as printed: HingeBoost.OC, one-vs-one, one-vs-all, ECOC, multi-class SVM. In Table 3 the lesser
# of one-vs-one and one-vs-all stands for both, and the multi-class SVM has an RBF kernel.
PAPER = {
    ("pendigits", "linear"): (6.95, 4.61, 10.18, 17.89, 8.46),
    ("satimage", "linear"): (16.05, 14.22, 16.75, 19.4, 16.15),
    ("vowel", "linear"): (52.90, 49.78, 58.44, 68.61, 67.53),
    ("pendigits", "perceptron"): (1.83, 1.71, 1.71, 1.83, 1.55),
    ("satimage", "perceptron"): (7.40, 7.70, 7.70, 7.70, 7.85),
    ("vowel", "perceptron"): (34.85, 37.45, 37.45, 43.72, 35.30),
}
ALLOWED = 1.05
KEY = ["data", "kernel", "scaled", "method", "C", "gamma", "rounds", "seed"]
CHOICE_KEY = ["data", "kernel", "scaled", "method", "C", "gamma", "rounds", "fold"]
COLUMNS = ["error", "n_train", "n_test"]
CODE_TRIES = 10_000
# Groups of the classes, in order of the labels: soils and crops; the first words of the newsgroups' names. An error
# within a group costs 1, another one ACROSS. Exponents of the C that are tried: margins of ACROSS ask for larger ones.
GROUPS = {
    "satimage": ((0, 1, 0, 0, 1, 0), tuple(range(8, 19, 2))),
    "news20-bydate": ((0, 1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 6, 6, 6, 6), tuple(range(2, 13, 2))),
}
ACROSS = 10.0
COSTS_ROUNDS, COSTS_SEEDS = 50, 3
COSTS_KEY = ["data", "costs", "C", "rounds", "fold", "seed"]
COSTS_COLUMNS = ["cost", "error", "across"]


def journal_of(folder, fresh=False, keep=False):
    return Journal(Path(folder, "hinge.csv"), KEY, COLUMNS, fresh, keep)


def choice_journal(folder, fresh=False, keep=False):
    return Journal(Path(folder, "hinge-choice.csv"), CHOICE_KEY, COLUMNS, fresh, keep)


def seeds_of(data):
    return 20 if data == "vowel" else 5


def scaled(X, *others):
    """Features from their range on X to [-1, 1]."""
    from pymcboost.model.scale import Scale

    scale = Scale.from_range(X.min(axis=0), X.max(axis=0))
    return [scale.apply(part) for part in (X, *others)]


def perceptron(X, Z):
    from pymcboost.svm import kernel_block

    return kernel_block(X, Z, "perceptron", 1.0, 0.0, 1)


def code_matrix(n_classes, seed):
    """Exhaustive code for up to 7 classes, else the best separated of many dense random ones: (K, columns) of +-1."""
    if n_classes <= 7:
        numbers = np.arange(1, 2 ** (n_classes - 1))
        return np.where((numbers >> np.arange(n_classes)[:, None]) & 1, 1, -1)
    rng = np.random.default_rng(seed)
    n_columns = int(np.ceil(10 * np.log2(n_classes)))
    best, distance = None, -1
    for _ in range(CODE_TRIES):
        code = np.where(rng.random((n_classes, n_columns)) < 0.5, 1, -1)
        products = code @ code.T
        np.fill_diagonal(products, -n_columns)
        found = (n_columns - products.max()) // 2
        alone = np.abs(code.sum(axis=0)) < n_classes
        different = len(np.unique(code * code[0], axis=1).T) == n_columns
        if found > distance and alone.all() and different:
            best, distance = code, found
    return best


class RbfMultiClassSvm:
    """Crammer and Singer's SVM with an RBF kernel: LIBLINEAR on the rows of the kernel's Cholesky factor."""

    def __init__(self, C, gamma, seed):
        self.C, self.gamma, self.seed = C, gamma, seed

    def fit(self, X, y):
        from sklearn.metrics.pairwise import rbf_kernel
        from sklearn.svm import LinearSVC

        self.X = X
        self.factor = np.linalg.cholesky(rbf_kernel(X, X, self.gamma) + RIDGE * np.eye(len(X)))
        self.machine = LinearSVC(
            C=self.C, multi_class="crammer_singer", fit_intercept=False, random_state=self.seed, max_iter=2000
        ).fit(self.factor, y)
        return self

    def predict(self, X):
        from scipy.linalg import solve_triangular
        from sklearn.metrics.pairwise import rbf_kernel

        return self.machine.predict(solve_triangular(self.factor, rbf_kernel(self.X, X, self.gamma), lower=True).T)


class Ecoc:
    """Error-correcting output codes of SVMs, decoded by the exponential loss."""

    def __init__(self, make, seed):
        self.make, self.seed = make, seed

    def fit(self, X, y):
        self.classes, codes = np.unique(y, return_inverse=True)
        self.code = code_matrix(len(self.classes), self.seed)
        self.machines = [self.make().fit(X, column[codes]) for column in self.code.T]
        return self

    def predict(self, X):
        scores = np.stack([machine.decision_function(X) for machine in self.machines], axis=1)
        losses = np.exp(-np.clip(scores[:, None, :] * self.code, -50, 50)).sum(axis=2)
        return self.classes[losses.argmin(axis=1)]


def make_estimator(unit):
    """The estimator of a unit: LIBSVM through scikit-learn for the reductions, LIBLINEAR for linear columns."""
    C, kernel, seed = float(unit["C"]), unit["kernel"], int(unit.get("seed", 0))
    if unit["method"] in HINGE:
        import pymcboost

        return pymcboost.HingeBoostOCClassifier(
            n_estimators=int(unit["rounds"]), C=C, kernel=kernel, solver="coordinate", random_state=seed, n_jobs=1,
            **HINGE[unit["method"]],
        )  # fmt: skip
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import SVC, LinearSVC

    if unit["method"] == "crammer-singer" and kernel != "linear":
        return RbfMultiClassSvm(C, float(unit["gamma"]), seed)
    if unit["method"] == "crammer-singer":
        return LinearSVC(C=C, multi_class="crammer_singer", random_state=seed, max_iter=2000)

    def svm():
        if kernel == "linear":
            return LinearSVC(C=C, loss="hinge", intercept_scaling=10.0, random_state=seed, max_iter=2000)
        return SVC(C=C, kernel=perceptron, cache_size=500)

    if unit["method"] == "one-vs-one":
        return SVC(C=C, kernel="linear" if kernel == "linear" else perceptron, cache_size=500, max_iter=1_000_000)
    return OneVsRestClassifier(svm()) if unit["method"] == "one-vs-all" else Ecoc(svm, seed)


def fit(unit):
    """Train and test one unit: a fold of the choice of C, or a seed on the official split."""
    X, y, X_test, y_test = common.load_official(unit["data"])
    if "fold" in unit:
        from sklearn.model_selection import StratifiedKFold

        parts = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y))
        train, test = parts[int(unit["fold"])]
        X, y, X_test, y_test = X[train], y[train], X[test], y[test]
    begin = time.perf_counter()
    if unit["scaled"] == "yes":
        X, X_test = scaled(X, X_test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = make_estimator(unit).fit(X, y)
    error = common.error_percent(y_test, estimator.predict(X_test))
    return {
        **unit, "error": common.number(error), "n_train": len(y), "n_test": len(y_test),
        "seconds": common.number(time.perf_counter() - begin),
    }  # fmt: skip


def methods_of(data, kernel, options):
    """Methods that are run on a data set with a kernel and asked for."""
    methods = [m for m in (*HINGE, *REDUCTIONS) if kernel == "linear" or data not in TOO_LONG.get(m, ())]
    return [m for m in methods if not options.methods or m in options.methods]


def exponents_of(method):
    """Exponents of the C that are tried for a method."""
    if method in WIDER:
        return C_EXPONENTS_BEYOND
    return C_EXPONENTS if method in HINGE else C_EXPONENTS_OF_REDUCTIONS


def gammas_of(kernel, method):
    """Gammas that are tried: none but for the multi-class SVM with an RBF kernel."""
    return GAMMAS if method == "crammer-singer" and kernel != "linear" else ("none",)


def rounds_of(method, rounds):
    return rounds if method in HINGE else 0


def tried_for(kernel, method):
    """Pairs of C and gamma that are tried for a method."""
    return [(2.0**e, gamma) for e in exponents_of(method) for gamma in gammas_of(kernel, method)]


def lowest(errors, tried):
    """Of ``tried``, the first with the lowest mean over the folds; None unless all folds of all of them are there."""
    if any(len(errors.get(one, ())) != FOLDS for one in tried):
        return None
    # Means that differ by rounding only, as by the order of the folds, are equal.
    return min(tried, key=lambda one: round(float(np.mean(errors[one])), 9))


def chosen(rows, data, kernel, scaling, method):
    """C and gamma of the lowest mean error over the folds, the first where they tie; None unless all are there."""
    errors, methods = {}, [m for m in (WIDER.get(method), method) if m]
    for row in rows:
        if (row["data"], row["kernel"], row["scaled"]) == (data, kernel, scaling) and row["method"] in methods:
            errors.setdefault((float(row["C"]), row["gamma"]), []).append(float(row["error"]))
    return lowest(errors, [(C, str(gamma)) for m in methods for C, gamma in tried_for(kernel, m)])


def configurations(options):
    """(data, kernel, scaled, methods) in the order they are done: ours first, small sets first, then the reductions."""
    small = [data for data in SETS if data not in LARGER]
    plans = [
        ([m for m in HINGE if m not in WIDER], "yes", small),
        ([m for m in HINGE if m not in WIDER], "no", small),
        (REDUCTIONS, "yes", small),
        (REDUCTIONS, "no", ["vowel"]),
        (list(WIDER), "yes", small),
        (("hinge", *REDUCTIONS), "yes", LARGER),
    ]
    for group, scaling, sets in plans:
        for data in sets:
            if options.sets and data not in options.sets:
                continue
            for kernel in KERNELS:
                if scaling == "no" and kernel == "linear" and data != "vowel":
                    continue  # raw pixels and pen positions: hours, for linear SVMs of large C
                methods = [m for m in methods_of(data, kernel, options) if m in group]
                if methods:
                    yield data, kernel, scaling, methods


def run(options):
    """Choose C and train, one configuration after the other."""
    choices, journal = choice_journal(options.results, options.fresh), journal_of(options.results, options.fresh)
    begin = time.monotonic()
    for data, kernel, scaling, methods in configurations(options):
        if options.budget is not None and time.monotonic() - begin >= 60 * options.budget:
            print(f"the {options.budget:g} minutes are over before {data}, {kernel}", file=sys.stderr)
            break
        cell = {"data": data, "kernel": kernel, "scaled": scaling}
        largest = 2.0 ** C_EXPONENTS[-1]
        methods = [
            m for m in methods
            if m not in WIDER or (chosen(choices.rows, data, kernel, scaling, WIDER[m]) or (0,))[0] == largest
        ]  # fmt: skip
        units = [
            {**cell, "method": m, "C": C, "gamma": gamma, "rounds": rounds_of(m, CHOICE_ROUNDS), "fold": fold}
            for m in methods for C, gamma in tried_for(kernel, m) for fold in range(FOLDS)
        ]  # fmt: skip
        run_units(choices, fit, units, options.jobs, f"C of {data}, {kernel}, scaled: {scaling}")
        units = []
        for m in methods:
            C, gamma = chosen(choices.rows, data, kernel, scaling, m)
            seeds = seeds_of(data) if m in HINGE or (m == "ecoc" and data != "satimage") else 1
            rounds = rounds_of(m, options.rounds or ROUNDS)
            units += [{**cell, "method": m, "C": C, "gamma": gamma, "rounds": rounds, "seed": s} for s in range(seeds)]
        run_units(journal, fit, units, options.jobs, f"{data}, {kernel}, scaled: {scaling}")
    print(text(journal.rows, choices.rows))


def verify(options):
    """Train up to N rounds of the cheapest fits anew: all of it where a row has no more."""
    import reproduce_trees

    journal = journal_of(options.results, keep=True)
    weigh = lambda row: (float(row["seconds"]), row["data"], row["method"], int(row["seed"]))  # noqa: E731
    return reproduce_trees.verify_units("hinge", journal, fit, ("seed", "rounds"), options, weigh)


def text(rows, choices):
    """The two tables, ours beside the paper's."""
    cells = {}
    for row in rows:
        key = row["data"], row["kernel"], row["scaled"], row["method"]
        if row["method"] in HINGE and int(row["rounds"]) != ROUNDS:
            continue
        parameters = [f"{float(row[name]):g}" for name in ("C", "gamma") if row[name] != "none"]
        cells.setdefault(key, []).append((float(row["error"]), ", ".join(parameters)))
    methods = [*HINGE, *REDUCTIONS]
    lines = []
    for kernel in KERNELS:
        for data in SETS:
            for scaling in ("yes", "no"):
                found = [cells.get((data, kernel, scaling, method)) for method in methods]
                if not any(found):
                    continue
                printed = PAPER.get((data, kernel))
                ours = [cells.get((data, kernel, scaling, method)) for method in HINGE if method not in WIDER]
                best = min((np.mean([e for e, _ in f]) for f in ours if f), default=np.nan)
                verdict = "" if printed is None else f"{best / printed[0]:.3f}"
                show = ["" if f is None else _shown(f) for f in found]
                lines.append([data, kernel, scaling, "" if printed is None else f"{printed[0]:.2f}", *show, verdict])
    header = ["data", "kernel", "scaled", "paper", *methods, "best of ours / paper"]
    return (
        f"Test error in percent, {ROUNDS} rounds, mean +- standard deviation over the seeds (C chosen, and gamma of "
        "the RBF kernel that crammer-singer has beside the perceptron kernel).\n\n"
        + common.markdown_table(header, lines)
        + f"\n\nFits: {len(rows)}, and {len(choices)} for the choice of C; "
        f"{sum(float(row['seconds']) for row in [*rows, *choices]) / 3600:.2f} hours on one core."
    )


def _shown(found):
    errors = [error for error, _ in found]
    spread = f" +- {np.std(errors, ddof=1):.2f}" if len(errors) > 1 else ""
    return f"{np.mean(errors):.2f}{spread} ({found[0][1]})"


def costs_journal(folder, fresh=False, keep=False):
    return Journal(Path(folder, "hinge-costs.csv"), COSTS_KEY, COSTS_COLUMNS, fresh, keep)


def fit_costs(unit):
    """Train and test one unit of hinge-costs: a fold of the choice of C, or a seed on the official split."""
    import pymcboost

    X, y, X_test, y_test = common.load_official(unit["data"])
    group = np.array(GROUPS[unit["data"]][0])
    cost = np.where(group[:, None] == group, 1.0, ACROSS) - np.eye(len(group))
    if unit["fold"] != "none":
        from sklearn.model_selection import StratifiedKFold

        train, test = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y))[int(unit["fold"])]
        X, y, X_test, y_test = X[train], y[train], X[test], y[test]
    begin = time.perf_counter()
    model = pymcboost.HingeBoostOCClassifier(
        int(unit["rounds"]), C=float(unit["C"]), cost_matrix=cost if unit["costs"] == "known" else None, scale=True,
        random_state=int(unit["seed"]), n_jobs=1,
    ).fit(X, y)  # fmt: skip
    seconds = time.perf_counter() - begin
    labels = model.classes_
    wanted, found = np.searchsorted(labels, y_test), np.searchsorted(labels, model.predict(X_test))
    error = common.error_percent(wanted, found)
    return {
        **unit, "cost": common.number(cost[wanted, found].mean()), "error": common.number(error),
        "across": common.number(100 * np.mean(group[wanted] != group[found])), "seconds": common.number(seconds),
    }  # fmt: skip


def run_costs(options):
    """For each data set and model: C by its expected cost over the folds, then three seeds on the official split."""
    journal = costs_journal(options.results, options.fresh)
    for data, (_, exponents) in GROUPS.items():
        if options.sets and data not in options.sets:
            continue
        cells = [{"data": data, "costs": costs} for costs in ("unknown", "known")]
        units = [
            {**cell, "C": 2.0**e, "rounds": CHOICE_ROUNDS, "fold": fold, "seed": 0}
            for cell in cells for e in exponents for fold in range(FOLDS)
        ]  # fmt: skip
        run_units(journal, fit_costs, units, options.jobs, f"hinge-costs, C of {data}")
        units = []
        for cell in cells:
            C = chosen_for_costs(journal.rows, *cell.values())
            units += [
                {**cell, "C": C, "rounds": COSTS_ROUNDS, "fold": "none", "seed": seed} for seed in range(COSTS_SEEDS)
            ]
        run_units(journal, fit_costs, units, options.jobs, f"hinge-costs, {data}")
    print(costs_text(journal.rows))


def chosen_for_costs(rows, data, costs):
    """C of the lowest mean expected cost over the folds, of those that are tried; None unless all are there."""
    paid = {}
    for row in rows:
        if (row["data"], row["costs"]) == (data, costs) and row["fold"] != "none":
            paid.setdefault(float(row["C"]), []).append(float(row["cost"]))
    return lowest(paid, [2.0**e for e in GROUPS[data][1]])


def verify_costs(options):
    """Train the cheapest N models of hinge-costs anew."""
    import reproduce_trees

    journal = costs_journal(options.results, keep=True)
    weigh = lambda row: (float(row["seconds"]), *(row[name] for name in COSTS_KEY))  # noqa: E731
    return reproduce_trees.verify_units("hinge-costs", journal, fit_costs, ("seed", "rounds"), options, weigh)


def costs_text(rows):
    """Expected cost, errors and errors across groups of both models."""
    lines = []
    for data in GROUPS:
        for costs in ("unknown", "known"):
            C = chosen_for_costs(rows, data, costs)
            of_model = [r for r in rows if (r["data"], r["costs"], r["fold"]) == (data, costs, "none")]
            some = [r for r in of_model if float(r["C"]) == C]
            if some:
                mean = {name: np.mean([float(row[name]) for row in some]) for name in COSTS_COLUMNS}
                show = [f"{mean['cost']:.3f}", f"{mean['error']:.2f}", f"{mean['across']:.2f}"]
                lines.append([data, costs, f"{float(some[0]['C']):g}", *show, str(len(some))])
    header = ["data", "costs", "C", "expected cost", "error in percent", "errors across groups", "seeds"]
    return (
        f"Linear machines, {COSTS_ROUNDS} rounds; an error within a group of classes costs 1, across them {ACROSS:g}; "
        "C by the expected cost of 20 rounds over 3 folds.\n\n" + common.markdown_table(header, lines)
    )


def markdown(folder):
    """Parts of docs/reproduction.md that have results in ``folder``."""
    parts = []
    if Path(folder, "hinge-costs.csv").exists():
        rows = costs_journal(folder, keep=True).rows
        commits = ", ".join(f"`{commit}`" for commit in sorted({row["commit"] for row in rows}))
        parts = [f"### HingeBoost.OC with costs\n\n{costs_text(rows)}\n\nCommit {commits}."]
    if not Path(folder, "hinge.csv").exists():
        return parts
    rows, choices = journal_of(folder, keep=True).rows, choice_journal(folder, keep=True).rows
    commits = ", ".join(f"`{commit}`" for commit in sorted({row["commit"] for row in [*rows, *choices]}))
    return [f"### HingeBoost.OC, Tables 2 and 3\n\n{text(rows, choices)}\n\nCommit {commits}.", *parts]


RUNS = {"hinge": run, "hinge-costs": run_costs}
VERIFY = {"hinge": verify, "hinge-costs": verify_costs}
