"""Memory is counted before it is taken: what is counted against what is used, and the refusals."""

import json
import re
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from cli.programs import environment

from pymcboost import JointBoostClassifier, MCBoostClassifier, VectorTreeBoostClassifier
from pymcboost.registry import ALGORITHMS, load
from pymcboost.training import memory

# What is used lies between 1 / NEAR and NEAR times what is counted, some odds and ends aside.
NEAR = 1.3
SMALL = 4e6
TREES = (
    "mcboost",
    "piboost",
    "samme",
    "adaboost-m2",
    "adaboost-ml",
    "adaboost-mh",
    "adaboost-mo",
    "adaboost-ecc",
    "gentleboost",
    "gradboost",
)
MORE = {
    "mcboost": [{"loss": "log"}],
    "multiboost": [{"solver": "lbfgs"}],
    "vector-tree": [{"leaf_step": "full"}, {"split_columns": None}, {"max_leaf_entries": 30}],
    "hingeboost": [{"kernel": "rbf"}, {"kernel": "rbf", "solver": "coordinate"}],
}
# Folds are counted one by one.
FIXED = dict.fromkeys(
    ("vector-tree", "logitboost", "mart", "abc-logitboost", "abc-mart"), {"calibrate": None}
)
# Rows, features and classes.
SIZES = {
    "classes": (900, 4, 450),
    "rows": (120_000, 5, 16),
    "both": (20_000, 12, 100),
    "features": (6000, 600, 4),
}
OWN_SIZES = {
    "jointboost": {"classes": (500, 4, 250)},
    "abc-mart": {"classes": (3000, 4, 60), "both": (5000, 12, 30)},
    "abc-logitboost": {"classes": (3000, 4, 60), "both": (5000, 12, 30)},
    "hingeboost": {"rows": (2500, 5, 16), "both": (1500, 12, 100), "features": (800, 600, 4)},
}
# Every training in a process of its own: what it takes after the count, at most.
CODE = """
import json, os, sys, warnings
import numpy as np
import scipy.optimize  # which some trainings of very many classes load
from pymcboost.registry import get_plain_class  # without scikit-learn, which takes a second to load
from pymcboost.training import memory

warnings.simplefilter("ignore")


def status(key):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def count(booster):
    if "counted" in found:  # of folds
        return
    columns = booster.data.store_bytes(booster.data.X, 1) if hasattr(booster.data, "store_bytes") else None
    found["columns"] = columns, status("VmHWM") - found["begin"]
    found["counted"] = memory.needed(booster.memory())
    with open("/proc/self/clear_refs", "w") as reset:
        reset.write("5")
    found["before"] = status("VmRSS")


def train(algorithm, params, m, d, K, seed=0):
    found.clear()
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(m, d)).astype(np.float32), np.arange(m) % K
    X[:, 0] += y % 7
    for column in params.get("categorical_features", ()):
        X[:, column] = rng.integers(0, 4000, m)
    with open("/proc/self/clear_refs", "w") as reset:  # begins the peak anew
        reset.write("5")
    found["begin"] = status("VmRSS")
    cls, params = get_plain_class(algorithm), dict(params)
    if params.pop("restarts", False):
        cls.booster.restart_every = 1
    cls(n_jobs=1, **params).fit(X, y)


found, cases = {}, json.loads(sys.argv[1])
memory.refuse = count
for algorithm, params in {json.dumps(case[:2]): case[:2] for case in cases}.values():
    train(algorithm, params, 60, 3, 3)  # what is imported and made once
for case in cases:
    sys.stdout.flush()
    if os.fork() == 0:
        try:
            train(*case)
            used = status("VmHWM") - found["before"]
            print(json.dumps([case, found["counted"], used, *found["columns"]]), flush=True)
        finally:
            os._exit(0)
    os.wait()
"""


def cases_of(algorithm, names):
    """Trainings with two rounds: (algorithm, parameters, rows, features, classes)."""
    fixed = {"n_estimators": 2, **FIXED.get(algorithm, {})}
    if algorithm not in ("mcboost",):
        fixed["random_state"] = 0
    sizes = [OWN_SIZES.get(algorithm, {}).get(name, SIZES[name]) for name in names]
    return [
        (algorithm, {**fixed, **variant}, *size)
        for variant in variants_of(algorithm)
        for size in sizes
    ]


def measured(cases):
    """(case, bytes counted, bytes used, the same of the columns) of trainings."""
    # Freed memory goes back at once, so that the peak is what is held.
    held = {
        "MALLOC_MMAP_THRESHOLD_": "65536",
        "MALLOC_TRIM_THRESHOLD_": "65536",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", CODE, json.dumps(cases)]
    completed = subprocess.run(
        command, env=environment(**held), capture_output=True, text=True, timeout=300
    )
    lines = [json.loads(line) for line in completed.stdout.splitlines()]
    assert len(lines) == len(cases), completed.stderr
    return lines


def variants_of(algorithm):
    return [
        {},
        *MORE.get(algorithm, []),
        *([{"weak_learner": "tree"}] if algorithm in TREES else []),
    ]


def check(cases):
    for case, *rounds_and_columns in cases:
        for counted, used in zip(rounds_and_columns[::2], rounds_and_columns[1::2], strict=True):
            words = f"{case}: {used:,} used, {counted or 0:,.0f} counted"
            assert counted is None or used < NEAR * counted + SMALL, words
            assert counted is None or counted < NEAR * used + SMALL, words


IN_PARTS = [
    ("mcboost", {}), ("mcboost", {"loss": "log"}), ("mcboost", {"weak_learner": "tree"}),
    ("mcboost", {"restarts": True}), ("mcboost", {"loss": "log", "restarts": True}),
    ("adaboost-ecc", {}), ("adaboost-oc", {}), ("adaboost-erp", {}), ("adaboost-mo", {}),
]  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "algorithms",
    [
        ["mcboost", "jointboost"],
        pytest.param(["piboost", "adaboost-mh", "adaboost-mo"], marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_tables_of_many_classes_are_counted(algorithms):
    check(measured([case for name in algorithms for case in cases_of(name, ["classes"])]))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("algorithm, options", IN_PARTS)
def test_tables_in_parts_are_counted(algorithm, options):
    """Of more classes than fit into tables at once."""
    check(measured([(algorithm, {"n_estimators": 2, **options}, m, 3, 2200) for m in (2200, 4400)]))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_tables_of_ten_thousand_classes_are_counted():
    """Some 3.2 GB."""
    check(measured([("mcboost", {"n_estimators": 1}, 10_000, 3, 10_000)]))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        ("mcboost", {}),
        ("mcboost", {"loss": "log"}),
        ("adaboost-mh", {}),
        ("adaboost-mo", {}),
        ("piboost", {}),
    ],
)
@pytest.mark.part(5)
def test_weights_that_are_computed_from_scores_are_counted(algorithm, options):
    """As in trainings that go on, and every 512 rounds. The scores of all rows are there meanwhile."""
    params = {"n_estimators": 2, "restarts": True, **options}
    check(measured([(algorithm, params, *SIZES["both"])]))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_is_counted_is_what_is_used(algorithm):
    check(measured(cases_of(algorithm, SIZES)))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("algorithm", list(FIXED))
def test_folds_take_no_more_than_the_training_and_two_copies_of_the_scores(algorithm):
    cases = [
        (algorithm, {"n_estimators": 2, "random_state": 0}, *SIZES[name])
        for name in ("rows", "both")
    ]
    for case, counted, used, *_ in measured(cases):
        m, _, K = case[2:]
        assert used < NEAR * (counted + 16 * m * K) + SMALL, case


# -- Refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_does_not_fit_is_refused_before_it_is_made(algorithm, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = np.arange(200) % 5
    cls = load(ALGORITHMS[algorithm])
    model = cls(n_estimators=2, **FIXED.get(algorithm, {}))
    counted = []
    count = memory.refuse
    monkeypatch.setattr(
        memory, "refuse", lambda booster: counted.append(memory.needed(booster.memory()))
    )
    model.fit(X, y)
    monkeypatch.setattr(memory, "refuse", count)
    monkeypatch.setattr(memory, "available_memory", lambda: counted[0])
    model.fit(X, y)  # just enough
    monkeypatch.setattr(memory, "available_memory", lambda: counted[0] - 1)
    monkeypatch.setattr(cls.booster, "prepare", lambda *_: pytest.fail("something was made"))
    words = rf"{cls.__name__}: training on 200 rows, 4 features and 5 classes needs about .* of it for .*; .* are free"
    with pytest.raises(MemoryError, match=words + r"\. Use .*, or a machine with more memory"):
        cls(n_estimators=2).fit(X, y)
    monkeypatch.setattr(memory, "available_memory", lambda: None)  # where the system does not say
    memory.refuse(type("Any", (), {"memory": lambda _: [memory.Part("all", 1e99, "less")]})())


def test_ten_thousand_classes_fit_with_few_entries_or_are_refused(monkeypatch):
    """100,000 rows: what is counted before anything is made."""
    X = np.zeros((100_000, 2), dtype=np.float32)
    y = np.arange(100_000) % 10_000
    X[:, 0] = y % 7
    monkeypatch.setattr(memory, "available_memory", lambda: 7e9)
    monkeypatch.setattr(
        VectorTreeBoostClassifier.booster, "prepare", lambda *_: pytest.fail("something was made")
    )
    with pytest.raises(
        MemoryError,
        match=r"needs about 6\.\d GiB, .* Use max_leaf_entries=100 \(more errors\), fewer",
    ):
        VectorTreeBoostClassifier(n_estimators=100).fit(X, y)
    counted = []
    monkeypatch.setattr(
        memory, "refuse", lambda booster: counted.append(memory.needed(booster.memory())) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        VectorTreeBoostClassifier(n_estimators=1, max_leaf_entries=100, calibrate=None).fit(X, y)
    with pytest.raises(ZeroDivisionError):
        VectorTreeBoostClassifier(n_estimators=1, calibrate=None).fit(X, y)
    assert 4e9 < counted[0] < 5e9
    assert 4e9 < counted[1] < 5e9
    with pytest.raises(ZeroDivisionError):
        MCBoostClassifier(n_estimators=1).fit(X, y)
    assert 6.5e9 < counted[2] < 8e9  # its tables are folded and worked on in blocks


@pytest.mark.parametrize(
    ("cls", "what", "remedy"),
    [
        (
            MCBoostClassifier,
            "tables of 2000 x 2000 numbers",
            "fewer classes, or VectorTreeBoostClassifier",
        ),
        (
            JointBoostClassifier,
            "tables of 2000 x 4000 numbers",
            "fewer classes, or VectorTreeBoostClassifier",
        ),
    ],
)
def test_many_classes_are_refused_with_what_to_change(cls, what, remedy, monkeypatch):
    """Some hundred megabytes are said to be needed, and none are taken."""
    X = np.arange(2000.0)[:, None] % 97
    y = np.arange(2000)
    monkeypatch.setattr(memory, "available_memory", lambda: 100 << 20)
    tracemalloc.start()
    with pytest.raises(
        MemoryError, match=f"needs about .* of it for {what}; 100.0 MiB are free. Use {remedy}"
    ):
        cls(n_estimators=1).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20
    VectorTreeBoostClassifier(n_estimators=1, calibrate=None).fit(X[:600], y[:600])


LIMITED = """
import resource, warnings
import numpy as np
from pymcboost.registry import ALGORITHMS, get_plain_class  # without scikit-learn, which takes a second to load

X, y = np.zeros((60_000, 2), dtype=np.float32), np.arange(60_000) % 30_000
X[:, 0] = y % 7
warnings.simplefilter("ignore")
estimators = [get_plain_class(name)(n_estimators=1) for name in ALGORITHMS]
resource.setrlimit(resource.RLIMIT_AS, (5 << 29, 5 << 29))
for one in estimators:
    try:
        one.fit(X, y)
        print("fits")
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.posix
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_limit_of_the_process_counts():
    """``ulimit -v``, and 30,000 classes: every algorithm says what it needs, or that there are too many."""
    command = [sys.executable, "-c", LIMITED]
    completed = subprocess.run(
        command, env=environment(OMP_NUM_THREADS="1"), capture_output=True, text=True, timeout=300
    )
    lines = completed.stdout.splitlines()
    assert len(lines) == len(ALGORITHMS), completed.stderr
    for name, line in zip(ALGORITHMS.values(), lines, strict=True):
        refused = re.search(
            r"MemoryError .* needs about .*; .*\d [GM]iB are free|than 4096; list fewer", line
        )
        assert refused, (name, line)
        free = re.search(r"([\d.]+) GiB are free", line)
        assert free is None or float(free[1]) < 2.5, (name, line)
