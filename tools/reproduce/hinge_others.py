"""HingeBoost.OC against SVMs and AdaBoost.ERP, as its paper compares them.

T. Gao and D. Koller, Multiclass boosting with hinge loss based on output coding. ``hinge-columns`` are the other
columns of Tables 2 and 3. ``hinge-paired`` has the protocols of Tables 1 and 4, whose images are not at hand, on other
data: ten random choices of rows, and paired t-tests.
"""

import time
import warnings
from collections import defaultdict

import numpy as np
from shared import codes as output_codes
from shared.datasets import load_official, load_pooled
from shared.measure import error_percent
from shared.tables import markdown_table, mean_and_deviation, number, published, span

from reproduce.experiment import Experiment, Results, cross, errors_of
from reproduce.hinge import FOLDS, KERNELS, lowest, scaled
from reproduce.multiboost import estimator

ROUNDS, CHOICE_ROUNDS = 200, 20
LEVEL = 0.05
# What C is chosen from: HingeBoost.OC's is LIBSVM's times the number of rows.
VALUES_OF_C = {
    "hinge": tuple(2.0**exponent for exponent in range(0, 17, 2)),
    "svm": tuple(2.0**exponent for exponent in range(-6, 5, 2)),
    "erp": tuple(2.0**exponent for exponent in range(-6, 3, 2)),
}
METHODS = (
    "one-vs-one",
    "one-vs-all",
    "ecoc",
    "crammer-singer",
    "adaboost-erp",
    "hinge-random",
    "hinge",
)
# LIBLINEAR has no multi-class SVM with a kernel.
LINEAR_ONLY = ("crammer-singer",)
PUBLISHED = published("hinge-columns", index=2)
OFFICIAL = ("vowel", "satimage", "pendigits")
# Seeds of the methods that draw; the others give one result.
SEEDS = {"adaboost-erp": 3}


def values_of_C(method):
    """What a method's C is chosen from."""
    if method == "adaboost-erp":
        return VALUES_OF_C["erp"]
    return VALUES_OF_C["hinge" if method.startswith("hinge") else "svm"]


def rounds_of(method, rounds):
    """Rounds of a method, 0 where it has none."""
    return rounds if method.startswith("hinge") or method == "adaboost-erp" else 0


def predicted(unit, parts):
    """Codes that a method gives to the test rows."""
    X, codes, X_test = parts
    method, kernel, C = unit["method"], unit["kernel"], float(unit["C"])
    seed, rounds = int(unit["repeat"]), int(unit["rounds"])
    if method.startswith("hinge"):
        model = estimator(
            "HingeBoostOC",
            n_estimators=rounds,
            C=C,
            kernel=kernel,
            solver="coordinate",
            random_state=seed,
            init="random" if method == "hinge-random" else "one-vs-all",
        )
        return model.fit(X, codes).predict(X_test)
    if method == "crammer-singer":
        from sklearn.svm import LinearSVC

        model = LinearSVC(multi_class="crammer_singer", C=C, random_state=0)
        return model.fit(X, codes).predict(X_test)
    gram, gram_test = (output_codes.kernel_matrix(kernel, one, X) for one in (X, X_test))
    if method == "adaboost-erp":
        return output_codes.adaboost_erp(gram, codes, gram_test, C=C, seed=seed, rounds=rounds)
    return output_codes.CODED[method](gram, codes, gram_test, C, seed)


def fit_parts(unit, parts):
    """Train and test one unit on parts of rows."""
    X, y, X_test, y_test = parts
    begin = time.perf_counter()
    if unit["scaled"] == "yes":
        X, X_test = scaled(X, X_test)
    classes, codes = np.unique(y, return_inverse=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = predicted(unit, (X, codes, X_test))
    return {
        **unit,
        "error": number(error_percent(y_test, classes[found])),
        "n_train": len(y),
        "n_test": len(y_test),
        "seconds": number(time.perf_counter() - begin),
    }


def class_split(X, y, generator, n_train, n_test=None):
    """``n_train`` random rows of every class, and ``n_test`` of the others, or all of them."""
    train, test = [], []
    for label in np.unique(y):
        rows = generator.permutation(np.flatnonzero(y == label))
        train.append(rows[:n_train])
        test.append(rows[n_train:] if n_test is None else rows[n_train : n_train + n_test])
    train, test = np.concatenate(train), np.concatenate(test)
    return X[train], y[train], X[test], y[test]


# Rows of a class that train and test, rounds, kernels and sets of a protocol.
PROTOCOLS = {
    "table1": (
        100,
        None,
        200,
        KERNELS,
        ("satimage", "pendigits", "optdigits", "usps", "mfeat", "letter"),
    ),
    "table4": (50, 50, 1000, ("linear",), ("letter", "leaf")),
}
# Sets with fewer rows in a class: half of them train.
HALVED = {"leaf": (5, 5)}
REPEATS = 10


def parts_of(unit):
    """The parts of a unit: the official split, or a random choice; or a fold of its training part."""
    data, protocol = unit["data"], unit["protocol"]
    if protocol == "official":
        parts = load_official(data)
    else:
        n_train, n_test = HALVED.get(data, PROTOCOLS[protocol][:2])
        generator = np.random.default_rng([int(unit["repeat"]), *protocol.encode(), *data.encode()])
        parts = class_split(*load_pooled(data), generator, n_train, n_test)
    if "fold" not in unit:
        return parts
    from sklearn.model_selection import StratifiedKFold

    X, y = parts[:2]
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y))
    train, test = folds[int(unit["fold"])]
    return X[train], y[train], X[test], y[test]


def fit(unit):
    """Train and test one unit."""
    return fit_parts(unit, parts_of(unit))


def chosen(rows, cell):
    """C with the lowest mean error over the folds; None unless all are there."""
    errors = defaultdict(list)
    for row in rows:
        if all(row[name] == value for name, value in cell.items()):
            errors[float(row["C"])].append(float(row["error"]))
    return lowest(errors, values_of_C(cell["method"]))


def steps(cells, choices, rounds, repeats):
    """Of each cell the choice of C, then its trainings: (which results, units, title)."""
    for cell in cells:
        method, title = cell["method"], ", ".join(cell.values())
        folds = cross(
            C=values_of_C(method),
            rounds=[rounds_of(method, CHOICE_ROUNDS)],
            repeat=[0],
            fold=range(FOLDS),
        )
        yield 1, [{**cell, **unit} for unit in folds], f"C of {title}"
        C = chosen(choices.rows, cell)
        if C is not None:
            units = cross(C=[C], rounds=[rounds_of(method, rounds)], repeat=range(repeats(method)))
            yield 0, [{**cell, **unit} for unit in units], title


def plan_columns(options, journal, choices):
    """The methods of Tables 2 and 3 on official splits; AdaBoost.ERP, which takes longest, comes last."""
    methods = [m for m in options.methods or METHODS if not m.startswith("hinge")]
    cells = [
        {
            "protocol": "official",
            "data": data,
            "kernel": kernel,
            "scaled": scaling,
            "method": method,
        }
        for data in options.sets or OFFICIAL
        for kernel in KERNELS
        for scaling in ("yes", "no")
        for method in methods
        if (kernel == "linear" or method not in LINEAR_ONLY)
        # Linear machines on large features take hours.
        and (scaling == "yes" or kernel == "perceptron" or data == "vowel")
    ]
    cells = sorted(cells, key=lambda cell: cell["method"] == "adaboost-erp")
    rounds = options.rounds or ROUNDS
    yield from steps(cells, choices, rounds, repeats=lambda method: SEEDS.get(method, 1))


def plan_paired(options, journal, choices):
    """The protocols of Tables 1 and 4; AdaBoost.ERP, which takes longest, comes last."""
    rounds = {protocol: options.rounds or PROTOCOLS[protocol][2] for protocol in PROTOCOLS}
    cells = [
        {"protocol": protocol, "data": data, "kernel": kernel, "scaled": "yes", "method": method}
        for protocol, (_, _, _, kernels, sets) in PROTOCOLS.items()
        for data in options.sets or sets
        for kernel in kernels
        for method in options.methods or METHODS
        if data in sets
        and (kernel == "linear" or method not in LINEAR_ONLY)
        # The paper's Table 4 has no AdaBoost.ERP; on letter 1,000 rounds of it would take hours.
        and (protocol, data, method) != ("table4", "letter", "adaboost-erp")
    ]
    for cell in sorted(cells, key=lambda cell: cell["method"] == "adaboost-erp"):
        yield from steps(
            [cell],
            choices,
            rounds[cell["protocol"]],
            repeats=lambda method: options.repeats or REPEATS,
        )


def columns_table(frame):
    """The paper's errors, and ours with scaled features and with features as they are."""
    methods = [method for method in METHODS if not method.startswith("hinge")]
    lines = []
    for kernel in KERNELS:
        for data in OFFICIAL:
            printed = PUBLISHED[data, kernel]
            cells = ["-" if printed[m] is None else _mean(printed[m]) for m in methods]
            lines.append([data, kernel, "paper", *cells])
            for scaling, words in (("yes", "scaled"), ("no", "as they are")):
                errors = [
                    errors_of(frame, data=data, kernel=kernel, scaled=scaling, method=m)
                    for m in methods
                ]
                if any(map(len, errors)):
                    lines.append(["", "", words, *(_shown(error) for error in errors)])
    return markdown_table(["set", "kernel", "features", *methods], lines)


def columns_text(frame):
    """The other columns of Tables 2 and 3."""
    return (
        "Test error in percent on the official split, C chosen by 3-fold cross-validation. Perceptron kernel: the "
        "paper prints the lower error of one-vs-one and one-vs-all, and an RBF kernel's multi-class SVM, which was "
        f"not repeated. adaboost-erp: {ROUNDS} rounds, mean (standard deviation) of {SEEDS['adaboost-erp']} seeds.\n\n"
        + columns_table(frame)
    )


def _mean(cell):
    mean = cell[0] if isinstance(cell, tuple) else cell
    return f"{mean:.2f}"


def _shown(errors):
    if not len(errors):
        return "-"
    mean, deviation = mean_and_deviation(errors)
    return f"{mean:.2f}" + (f" ({deviation:.2f})" if len(errors) > 1 else "")


def columns_values(frame):
    """What sentences say about the other columns: errors, and the largest distance of one-vs-one, features scaled."""
    texts, distances = {}, []
    for (data, kernel), printed in PUBLISHED.items():
        for method in METHODS[:5]:
            for scaling, suffix in (("yes", ""), ("no", "-as-is")):
                errors = errors_of(frame, data=data, kernel=kernel, scaled=scaling, method=method)
                if not len(errors):
                    continue
                texts[f"{data}-{kernel}-{method}{suffix}"] = f"{np.mean(errors):.2f}"
                if (method, scaling) == ("one-vs-one", "yes"):
                    distances.append(abs(float(np.mean(errors)) - printed[method]))
    if distances:
        texts["one-vs-one-within"] = f"{max(distances):.2f}"
    return texts


# --------------------------------------------------------------------------------------------------------------------
# Paired tests


def paired_test(ours, theirs):
    """Two-sided p-value of the paired t-test; 1 where all differences are 0."""
    from scipy.stats import ttest_rel

    differences = np.round(np.subtract(ours, theirs, dtype=float), 9)
    if not differences.any():
        return 1.0
    if np.ptp(differences) == 0:
        return 0.0
    return float(ttest_rel(ours, theirs).pvalue)


def compared(frame, ours="hinge"):
    """{(protocol, data, kernel): {method: (errors, p, difference)}}.

    The p-value is that of the test against ``ours``, of the repeats that both have, and the difference is the mean of
    errors less ours there; both are None for ``ours``, and for a single repeat.
    """
    comparisons = {}
    for protocol, (_, _, rounds, kernels, sets) in PROTOCOLS.items():
        for data in sets:
            for kernel in kernels:
                cell, columns = {"protocol": protocol, "data": data, "kernel": kernel}, {}
                for method in METHODS:
                    rows = frame
                    more = {**cell, "method": method, "rounds": rounds_of(method, rounds)}
                    for name, value in more.items():
                        rows = rows[rows[name] == value]
                    if len(rows):
                        columns[method] = rows.set_index("repeat")["error"]
                if ours not in columns:
                    continue
                comparisons[protocol, data, kernel] = {
                    method: (errors.to_numpy(), *_against(errors, columns[ours], method == ours))
                    for method, errors in columns.items()
                }
    return comparisons


def _against(errors, ours, same):
    both = errors.index.intersection(ours.index)
    if same or len(both) < 2:
        return None, None
    return paired_test(ours[both], errors[both]), float((errors[both] - ours[both]).mean())


def verdicts(comparisons, method):
    """(cells where HingeBoost.OC is better than a method, where it is worse, all cells), at the level of the tests."""
    better = worse = cells = 0
    for columns in comparisons.values():
        if method not in columns or columns[method][1] is None:
            continue
        _, p, difference = columns[method]
        cells += 1
        better += p < LEVEL and difference > 0
        worse += p < LEVEL and difference < 0
    return better, worse, cells


def paired_text(frame):
    """Errors, and p-values of paired t-tests against HingeBoost.OC."""
    comparisons, lines = compared(frame), []
    for (protocol, data, kernel), columns in comparisons.items():
        cells = []
        for method in METHODS:
            errors, p, _ = columns.get(method, ((), None, None))
            cells.append(_shown(errors) + (f" p={p:.2g}" if p is not None else ""))
        lines.append([protocol, data, kernel, *cells])
    total = []
    for method in METHODS[:-1]:
        better, worse, cells = verdicts(comparisons, method)
        total.append(f"{better} / {worse} / {cells - better - worse}")
    lines.append(["better / worse / level", "", "", *total, ""])
    return (
        f"Test error in percent, mean (standard deviation) of {REPEATS} random choices of rows, and p-values of paired "
        "t-tests against `hinge`. table1: 100 rows of each class train, all others test, 200 rounds. table4: 50 rows "
        "of each class train and 50 others test (leaf: 5 and 5), 1,000 rounds. C by 3-fold cross-validation on the "
        "first training part. Last line: cells where `hinge` is better or worse at the 5% level, or neither.\n\n"
        + markdown_table(["protocol", "data", "kernel", *METHODS], lines)
    )


def paired_page(frame):
    """The same in short: bold where a method is better than HingeBoost.OC, (=) where the test finds no difference."""
    methods = [method for method in METHODS if method != "hinge-random"]
    lines = []
    for (protocol, data, kernel), columns in compared(frame).items():
        cells = []
        for method in methods:
            errors, p, difference = columns.get(method, ((), None, None))
            cell = f"{np.mean(errors):.2f}" if len(errors) else "-"
            if p is not None and p >= LEVEL:
                cell += " (=)"
            elif p is not None and difference < 0:
                cell = f"**{cell}**"
            cells.append(cell)
        lines.append([protocol.replace("table", "Table "), data, kernel, *cells])
    return markdown_table(["protocol", "set", "kernel", *methods], lines)


def paired_values(frame):
    """What sentences say about the tests."""
    comparisons, values = compared(frame), {}
    for method in METHODS[:-1]:
        for kernel in KERNELS:
            cells = {cell: columns for cell, columns in comparisons.items() if cell[2] == kernel}
            better, worse, n = verdicts(cells, method)
            values[f"{method}-{kernel}-better"] = f"{better} of {n}"
            values[f"{method}-{kernel}-worse"] = f"{worse} of {n}"
    repeats = [
        len(columns["adaboost-erp"][0])
        for columns in comparisons.values()
        if "adaboost-erp" in columns
    ]
    if repeats:
        values["adaboost-erp-repeats"] = span(repeats)
    p = [
        one for columns in comparisons.values() for _, one, _ in columns.values() if one is not None
    ]
    if p:
        values["p"] = span(p, "{:.2g}")
    return values


KEY, COLUMNS = "protocol data kernel scaled method C rounds repeat", "error n_train n_test"


def results(name):
    return (
        Results(name, KEY, COLUMNS, fit=fit),
        Results(f"{name}-choice", f"{KEY} fold", COLUMNS, fit=fit),
    )


EXPERIMENTS = (
    Experiment(
        "hinge-columns",
        "HingeBoost.OC, the other columns of Tables 2 and 3",
        results("hinge-columns"),
        plan=plan_columns,
        text=columns_text,
        sets=OFFICIAL,
        methods=METHODS,
        values=columns_values,
        pages={"": columns_table},
    ),
    Experiment(
        "hinge-paired",
        "HingeBoost.OC, the protocols of Tables 1 and 4 and paired t-tests",
        results("hinge-paired"),
        plan=plan_paired,
        text=paired_text,
        sets=(*PROTOCOLS["table1"][4], "leaf"),
        methods=METHODS,
        values=paired_values,
        pages={"": paired_page},
    ),
)
