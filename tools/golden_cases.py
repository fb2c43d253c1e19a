"""The trainings of the golden table: every algorithm with its losses, weak learners and solvers, on every kind of data.

Data are made from integers alone, so that they are the same on every machine. Only public names of pymcboost are used:
the same file runs on any commit.
"""

import hashlib
import itertools
import struct
import sys
import tempfile
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
import scipy.sparse
from sklearn.datasets import load_svmlight_file

DATA = Path(__file__).resolve().parents[1] / "data"
ROUNDS = 12
LARGE_ROUNDS = 4
MORE_ROUNDS = 4
# Stage-wise algorithms that rebuild their weights have checkpoints every 512 rounds.
LONG_ROUNDS = 515

LEARNERS = {"stump": {}, "tree": {"weak_learner": "tree", "max_leaf_nodes": 6}}
# Defaults of vector trees when the table was made, and neutral values of parameters that they have had since.
VECTOR = {"learning_rate": 0.2, "min_samples_leaf": 2, "max_features": 0.2}
LATER = {
    "subsample": 1.0, "min_relative_gain": 0.0, "split_columns": None, "calibrate": None, "validation_fraction": 0.1,
}  # fmt: skip
VECTOR_NOW = {
    "learning_rate": 0.1, "min_samples_leaf": 1, "max_features": "auto", "max_leaf_nodes": "auto", "subsample": 0.5,
    "min_relative_gain": 0.25, "split_columns": "auto", "calibrate": "temperature",
}  # fmt: skip
# The same of class-wise trees.
CLASS_TREES = {"max_features": 1.0, "subsample": 1.0, "calibrate": None}
CLASS_WISE = "logitboost", "mart", "abc-logitboost", "abc-mart"
SMALL_TREES = {"max_leaf_nodes": 6}
CODES = ("auto", "one-vs-all", "all-pairs", "exhaustive", "dense")
KERNELS = ("poly", "rbf", "perceptron")


def by_learner(**variants):
    """Every variant with stumps and with trees."""
    return {
        f"{name}-{learner}".strip("-"): {**params, **options}
        for name, params in (variants or {"": {}}).items()
        for learner, options in LEARNERS.items()
    }


def adaptive():
    params = {
        "default": {},
        "every-round": {"gap": 1, "n_candidates": 2},
        "warm-up": {"warmup_rounds": 3, "max_depth": 2, "max_bins": 16},
    }
    return {name: {**SMALL_TREES, **options} for name, options in params.items()}


# The first variant of each algorithm stands for it in the subset.
VARIANTS = {
    "mcboost": by_learner(
        exp={},
        log={"loss": "log"},
        bounded={"max_step": 0.3, "max_bins": 16, "min_weight_fraction_leaf": 0.05},
        fixed={"fixed_step": 0.1, "nu": 1e-4},
    ),
    "logitboost": {
        "default": SMALL_TREES,
        "shallow": {"max_depth": 2, "min_samples_leaf": 5, "max_bins": 16},
    },
    "mart": {
        "default": SMALL_TREES,
        "shallow": {"max_depth": 2, "min_samples_leaf": 5, "max_bins": 16},
    },
    "abc-logitboost": adaptive(),
    "abc-mart": adaptive(),
    "multiboost": by_learner(
        **{
            "exp-fcd": {},
            "exp-stagewise": {"max_passes": 1},
            "exp-lbfgs": {"solver": "lbfgs", "C": 1e3},
            "exp-cold": {"solver": "lbfgs-cold", "C": 1e3},
            "log-lbfgs": {"loss": "log", "C": 1e3},
            "log-cold": {"loss": "log", "solver": "lbfgs-cold", "C": 1e3},
        }
    ),
    "multiboost-cw": by_learner(default={}, stagewise={"max_passes": 1, "C": 1e8}),
    "hingeboost": {
        "linear": {},
        "linear-random": {"init": "random", "scale": True, "n_colourings": 50},
        "linear-max-cut": {"init": "max-cut", "scale": True, "C": 10.0},
        "linear-pairs": {"init": "pairs", "scale": True, "allow_zero": True},
        "linear-libsvm": {"solver": "libsvm", "scale": True},
        **{
            f"{kernel}-{solver}": {
                "kernel": kernel,
                "solver": solver,
                "scale": True,
                "coef0": 1.0,
                "init": init,
            }
            for kernel, (solver, init) in itertools.product(
                KERNELS, (("libsvm", "max-cut"), ("coordinate", "one-vs-all"))
            )
        },
    },
    "adaboost-ecc": by_learner(),
    "adaboost-erp": by_learner(default={}, more={"n_repartitions": 3}),
    "adaboost-m1": {
        name: {**LEARNERS["tree"], **more}
        for name, more in (("all", {}), ("drawn", {"subsample": 0.5}))
    },
    "adaboost-m2": by_learner(),
    "adaboost-mh": by_learner(),
    "adaboost-ml": by_learner(),
    "adaboost-mo": by_learner(
        **{f"{code}-exp": {"code": code} for code in CODES},
        **{
            f"dense-{decoder}": {"code": "dense", "decoder": decoder}
            for decoder in ("linear", "hamming")
        },
    ),
    "adaboost-oc": by_learner(),
    "gentleboost": by_learner(),
    "gradboost": by_learner(default={}, sparse={"l1": 0.1, "min_weight_fraction_split": 0.02}),
    "jointboost": {"default": {}, "coarse": {"max_bins": 16, "min_weight_fraction_leaf": 0.05}},
    "piboost": by_learner(
        singles={},
        pairs={"separators": "pairs"},
        given={"separators": [[0], [0, 1]], "cost_sensitive": False},
    ),
    "samme": by_learner(),
    "vector-tree": {
        f"softmax-{step}": {"leaf_step": step, **VECTOR, **SMALL_TREES}
        for step in ("diagonal", "full")
    }
    | {
        "defaults": VECTOR_NOW,
        "entries": {**VECTOR, **SMALL_TREES, "split_columns": "auto", "max_leaf_entries": 2},
        "logistic": {**VECTOR, **SMALL_TREES, "loss": "logistic"},
        "logistic-entries": {
            **VECTOR,
            **SMALL_TREES,
            "loss": "logistic",
            "split_columns": 2,
            "max_leaf_entries": 2,
        },
    },
}

# Rows of any number of labels, for what takes them.
LABELS = ("labels", "labels-sparse")
# Columns of codes.
CODES_AT = [0, 1, 2]
SMALL = (
    "wine",
    "iris",
    "digits",
    "sparse",
    "sparse-nan",
    "nan",
    "weights",
    "class-weights",
    "balanced",
    "K2",
    "K11",
    "K20",
    "subsampling",
    "regularised",
    "second-derivatives",
    "early-stopping",
    "validation-set",
    "warm-start",
    "checkpoint",
    "checkpoint-stopping",
    "threads",
    "threads-sparse",
    "threads-K20",
    "categories",
    *LABELS,
)
REGULARISED = {
    "subsample": 0.6,
    "max_features_tree": 0.6,
    "l2_regularization": 0.5,
    "min_gain": 0.01,
}
REGULARISED_CLASS_TREES = {**REGULARISED, "max_features": 0.5}
LARGE = ("large-K3", "large-K7", "large-nan-K20", "large-sparse-K11")
# What the workhorses have besides, and every algorithm; the first variants of each stand for the others.
WORKHORSE = ("workers-2", "workers-3", "blocks")
AROUND = ("callbacks", "init-model")
WORKHORSES = ("mcboost", "vector-tree", *CLASS_WISE)
FIRST = 2
# In the subset these are for the first variant of each algorithm alone.
LONG = ("K20", "threads-sparse", "threads-K20", "categories", *LARGE)


# -- data --------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def made(m, d, K, seed, sparse=False):
    """(X, y, other rows): columns of many values, of few, skewed ones, and at the end some that exclude each other."""
    rng = np.random.Generator(np.random.PCG64(seed))
    n = m + 200
    y = np.minimum(rng.integers(0, K, n), rng.integers(0, 2 * K, n))
    y[: 4 * K] = np.arange(4 * K) % K
    X = rng.integers(0, 1 << 20, (n, d)) + rng.integers(0, 1 << 19, (K, d))[y]
    X[:, 1::4] >>= 16
    X[:, 2::4] *= rng.integers(0, 10, X[:, 2::4].shape) == 0
    exclusive = range(d - d // 6, d)
    X[:, exclusive] = (X[:, exclusive] >> 18) * (
        rng.integers(0, d // 4 + 1, (n, 1)) == np.arange(d // 6)
    )
    if sparse:
        X *= rng.integers(0, 5, X.shape) == 0
    X = (X / 2.0**20).astype(np.float32)
    X = scipy.sparse.csr_matrix(X) if sparse else X
    return X[:m], y[:m], X[m:]


@lru_cache(maxsize=4)
def read(name):
    """A set of data/: the last fifth of its rows, shuffled, are the other ones."""
    X, y = load_svmlight_file(str(DATA / f"{name}.libsvm"))
    order = (
        np.random.Generator(np.random.PCG64(1)).integers(0, 1 << 40, len(y)).argsort(kind="stable")
    )
    X = X.toarray().astype(np.float32)[order]
    y = y.astype(np.int64)[order]
    most = len(y) * 4 // 5
    return X[:most], y[:most], X[most:]


def with_holes(X, share, seed=2):
    """X with missing values, sparse or not: one in ``share`` of the numbers that are stored."""
    X = X.copy()
    values = X.data if scipy.sparse.issparse(X) else X
    values[np.random.Generator(np.random.PCG64(seed)).integers(0, share, values.shape) == 0] = (
        np.nan
    )
    return X


def data_of(condition, holes):
    """(X, y, other rows) of a condition; ``holes`` says whether the algorithm takes missing values."""
    if condition.startswith("large"):
        K = int(condition.split("K")[1])
        X, y, other = made(20000, 104, K, seed=K, sparse="sparse" in condition)
        return (
            (with_holes(X, 20), y, with_holes(other, 20)) if "nan" in condition else (X, y, other)
        )
    if condition in LABELS:
        X, y, other = made(400, 20, 5, seed=6, sparse=condition == "labels-sparse")
        more = np.random.Generator(np.random.PCG64(4)).integers(0, 4, (len(y), 5)) == 0
        return X, ((y[:, None] == np.arange(5)) | more).astype(np.int64), other
    if condition == "categories":
        X, y, other = made(400, 20, 4, seed=9)
        X, other = (
            np.column_stack((np.floor(8 * rows[:, : len(CODES_AT)]), rows)) for rows in (X, other)
        )
        return X, y, other
    if "sparse" in condition or condition == "workers-3":
        X, y, other = made(400, 36, 5, seed=5, sparse=True)
        if condition != "sparse" and holes:
            X, other = with_holes(X, 10), with_holes(other, 10)
        return X, y, other
    if condition in ("K2", "K11", "K20", "threads-K20"):
        K = int(condition.split("K")[1])
        return made(400, 20, K, seed=K)
    if condition in ("threads", "workers-2", "blocks"):
        X, y, other = made(600, 36, 4, seed=4)
        return (with_holes(X, 10), y, with_holes(other, 10)) if holes else (X, y, other)
    if condition == "nan":
        X, y, other = read("wine")
        return with_holes(X, 10), y, with_holes(other, 5)
    if condition == "digits":
        return read("digits.test")
    return read("iris" if condition in ("iris", "checkpoint", "checkpoint-stopping") else "wine")


def machine_data(condition):
    """Large data of machines are short and wide: their kernels are square in the rows."""
    K = int(condition.split("K")[1])
    return made(1000, 2000, K, seed=K, sparse="sparse" in condition)


# -- one training ------------------------------------------------------------------------------------------------------


def estimators():
    """Estimator classes by the name of the algorithm."""
    import pymcboost

    classes = (
        getattr(pymcboost, name) for name in pymcboost.__all__ if name.endswith("Classifier")
    )
    return {cls.algorithm: cls for cls in classes}


def conditions_of(algorithm, variant):
    """What an algorithm has. A machine takes sparse rows into linear machines that coordinate ascent finds."""
    params = VARIANTS[algorithm][variant]
    known = estimators()[algorithm]().get_params()
    left_out = set() if "subsample" in known or "max_features" in known else {"subsampling"}
    left_out |= set() if known.keys() >= REGULARISED.keys() else {"regularised"}
    left_out |= set() if "min_hessian_leaf" in known else {"second-derivatives"}
    if algorithm == "hingeboost":
        left_out |= {"nan", "large-nan-K20", "sparse-nan", "weights", "class-weights", "balanced"}
        left_out |= {"checkpoint", "checkpoint-stopping"}
        if params.get("kernel", "linear") != "linear" or params.get("solver") == "libsvm":
            left_out |= {name for name in (*SMALL, *LARGE) if "sparse" in name}
    if algorithm in (
        "hingeboost",
        "multiboost",
        "multiboost-cw",
    ):  # rounds are merged, so that none can be added
        left_out.add("init-model")
    if isinstance(params.get("separators"), list):  # two classes have one separator only
        left_out.add("K2")
    left_out |= set() if "categorical_features" in known else {"categories"}
    if not estimators()[algorithm](**params).__sklearn_tags__().classifier_tags.multi_label:
        left_out |= set(LABELS)
    elif algorithm == "vector-tree":
        return [*LABELS]
    if params.get("code") == "exhaustive":  # at most 12 classes, and 1023 columns for 11 of them
        left_out |= {"K20", "threads-K20", "large-nan-K20", "large-sparse-K11"}
    around = (
        AROUND if list(VARIANTS[algorithm]).index(variant) < FIRST or variant == "defaults" else ()
    )
    if around and algorithm in WORKHORSES:
        around = (*WORKHORSE, *around)
    return [condition for condition in (*SMALL, *LARGE, *around) if condition not in left_out]


def trainings(subset=False):
    """Names of the trainings: algorithm/variant/condition."""
    if set(VARIANTS) != set(estimators()):
        unlike = ", ".join(sorted(set(VARIANTS) ^ set(estimators())))
        raise SystemExit(f"golden: VARIANTS must name every algorithm, and no other: {unlike}")
    names = []
    for algorithm in VARIANTS:
        for i, variant in enumerate(VARIANTS[algorithm]):
            for condition in conditions_of(algorithm, variant):
                if not subset or condition not in LONG or i == 0:
                    names.append(f"{algorithm}/{variant}/{condition}")
    return names


def set_small_work(value):
    """Set the work below which a training has one thread, wherever the package keeps it; return what it was."""
    holders = [
        m
        for name, m in sys.modules.items()
        if name.startswith("pymcboost") and hasattr(m, "SMALL_WORK")
    ]
    if not holders:
        raise SystemExit(
            "golden: no module of pymcboost has SMALL_WORK, so threads cannot be tried on small data"
        )
    before = holders[0].SMALL_WORK
    for module in holders:
        module.SMALL_WORK = value
    return before


def sections(file, sides=True):
    """Bytes of a model file that say what it does: sizes and kinds in its header, all sections but the meta text.

    Without ``sides``, the bits that say where missing values go are 0.
    """
    (count,) = struct.unpack_from("<I", file, 24)
    parts = [file[32:52]]
    for i in range(count):
        tag, kind, offset, items = struct.unpack_from("<4sB3xQQ", file, 64 + 32 * i)
        if tag == b"meta":
            continue
        size = items * {1: 1, 2: 2, 3: 4, 4: 8, 5: 4, 6: 8, 7: 2}[kind]
        section = file[offset : offset + size]
        if tag == b"FEAT" and not sides:
            features = (
                np.frombuffer(section, dtype=f"<u{size // max(1, items)}")
                if items
                else np.zeros(0, "<u1")
            )
            section = (features & (np.iinfo(features.dtype).max >> 1)).tobytes()
        parts += [tag, bytes([kind]), section]
    return b"".join(parts)


def completed(X):
    """X with 0 in place of missing values."""
    X = X.copy()
    values = X.data if scipy.sparse.issparse(X) else X
    values[np.isnan(values)] = 0
    return X


def fingerprint(model, *rows, sides=True):
    """Checksums of the scores and of the sections of the model file: 16 digits each.

    Without ``sides``, no row has missing values, and the file does not say where they go.
    """
    scores = hashlib.sha256()
    for X in rows:
        X = X if sides else completed(X)
        scores.update(np.ascontiguousarray(model.raw_scores(X), dtype=np.float64).tobytes())
    return scores.hexdigest()[:16], hashlib.sha256(sections(model.to_bytes(), sides)).hexdigest()[
        :16
    ]


def fit_as(condition, cls, params, X, y):
    """A fitted estimator; what is not the data of the condition is done here."""
    rounds = params["n_estimators"]
    later = (
        LATER
        if cls.algorithm == "vector-tree"
        else CLASS_TREES
        if cls.algorithm in CLASS_WISE
        else {}
    )
    known = cls().get_params()
    params = {**{name: value for name, value in later.items() if name in known}, **params}
    rng = np.random.Generator(np.random.PCG64(3))
    if (
        condition == "weights"
        or condition.startswith("threads")
        and "class_weight" in cls().get_params()
    ):
        return cls(**params).fit(X, y, rng.integers(0, 9, len(y)) / 4)
    if condition == "class-weights":
        return cls(class_weight={label: 1 + label / 2 for label in np.unique(y)}, **params).fit(
            X, y
        )
    if condition == "balanced":
        return cls(class_weight="balanced", **params).fit(X, y)
    if condition == "subsampling":
        options = (
            {"max_features": 0.5}
            if cls.algorithm == "vector-tree"
            else {"subsample": 0.6, "max_features_tree": 0.5}
        )
        return cls(
            **{**params, **{name: v for name, v in options.items() if name in cls().get_params()}}
        ).fit(X, y)
    if condition == "regularised":
        options = REGULARISED if cls.algorithm == "vector-tree" else REGULARISED_CLASS_TREES
        options = (
            {**options, "min_hessian_leaf": 0.1}
            if cls.algorithm.endswith("logitboost")
            else options
        )
        return cls(**{**params, **options}).fit(X, y)
    if condition == "second-derivatives":
        return cls(**params, min_hessian_leaf=3.0).fit(X, y)
    stopping = {"early_stopping": True, "n_iter_no_change": 3, "n_estimators": 3 * rounds}
    stopping |= {"scoring": "error"} if "scoring" in cls().get_params() else {}
    if condition == "categories":
        return cls(**params, categorical_features=CODES_AT).fit(X, y)
    if condition == "early-stopping":
        return cls(**{**params, **stopping}).fit(X, y)
    if condition == "validation-set":
        return cls(**{**params, **stopping}).fit(X[::2], y[::2], X_val=X[1::2], y_val=y[1::2])
    if condition == "warm-start":
        estimator = cls(**params, warm_start=True).fit(X, y)
        return estimator.set_params(n_estimators=rounds + MORE_ROUNDS).fit(X, y)
    if condition.startswith("workers"):
        return divided(
            cls,
            {**params, **stopping} if condition == "workers-3" else params,
            X,
            y=y,
            size=int(condition[-1]),
        )
    if condition == "blocks":
        return in_blocks(cls, params, X, y=y, weight=rng.integers(0, 9, len(y)) / 4)
    if condition == "callbacks":
        return called_back(cls, {**params, "n_estimators": 3 * rounds}, X, y=y)
    if condition == "init-model":
        first = cls(**params).fit(X[::2], y[::2])
        return cls(**params).fit(X[1::2], y[1::2], init_model=first)
    if condition.startswith("checkpoint"):
        return resumed(
            cls, {**params, **stopping} if condition.endswith("stopping") else params, X, y=y
        )
    return cls(**params).fit(X, y)


def resumed(cls, params, X, y):
    """Stopped after some rounds, continued from its checkpoint by another estimator."""
    import pymcboost

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "part.mcb")
        for rounds in (params["n_estimators"], LONG_ROUNDS):
            first = {**params, "n_estimators": rounds}
            pymcboost.Checkpoint(path, every=0).fit(cls(**first), X, y)
            if path.exists() and path.stat().st_size:
                break
        options = {**params, "n_estimators": rounds + MORE_ROUNDS}
        return pymcboost.Checkpoint(path, every=0).fit(cls(**options), X, y)


def refuse_others(what, estimators):
    """All models must have the same bytes."""
    if len({estimator.model_.to_bytes() for estimator in estimators}) > 1:
        raise AssertionError(f"{what} do not give one model")


def divided(cls, params, X, y, size):
    """Trained by several workers, the last of which has half of the rows; one worker must have the same model."""
    from divided import threads

    from pymcboost.comm import Alone

    ends = {2: [0, len(y) // 2, len(y)], 3: [0, len(y) // 4, len(y) // 2, len(y)]}[size]

    def task(workers):
        part = slice(ends[workers.rank], ends[workers.rank + 1])
        return cls(**params).fit(X[part], y[part], comm=workers)

    estimators = threads.run(size, task)
    for error in estimators:
        if isinstance(error, Exception):
            raise error
    alone = cls(**params).fit(X, y, comm=Alone())
    refuse_others(f"1 and {size} workers", [alone, *estimators])
    return estimators[0]


def in_blocks(cls, params, X, y, weight):
    """Trained on rows that come in blocks; the same rows in one piece must give the same model."""
    from pymcboost import Dataset

    parts = slice(0, 100), slice(100, 101), slice(101, None)
    blocks = [(X[rows], y[rows], weight[rows]) for rows in parts]
    uninterrupted = cls(**params).fit(X, y, weight)
    of_dataset = {
        name: params[name] for name in ("categorical_features", "max_bins") if name in params
    }
    estimator = cls(**params).fit(Dataset.from_blocks(blocks, **of_dataset))
    refuse_others("rows in blocks and in one piece", [uninterrupted, estimator])
    return estimator


class Stop:
    """A callback that ends a training after some rounds."""

    def __init__(self, n_rounds):
        self.n_rounds = n_rounds

    def after_round(self, state):
        return state.n_rounds == self.n_rounds


def called_back(cls, params, X, y):
    """Ended by a callback after 7 rounds, with a rate of its own in each where there is one to set."""
    from pymcboost.callbacks import LearningRateSchedule, TrainingLoss

    callbacks = [TrainingLoss("error"), Stop(7)]
    if "learning_rate" in cls().get_params():
        callbacks.insert(0, LearningRateSchedule(lambda n_rounds: 1 / (2 + n_rounds)))
    estimator = cls(**params).fit(X, y, callbacks=callbacks)
    if len(estimator.history_["train_error"]) != 7 or estimator.n_estimators_ != 7:
        raise AssertionError("the callbacks have not seen 7 rounds")
    return estimator


def run(name, quick=False, sides=True):
    """Fingerprint of one training; with different threads it must be one and the same."""
    algorithm, variant, condition = name.split("/")
    cls = estimators()[algorithm]
    large = condition.startswith("large")
    machine = algorithm == "hingeboost"
    X, y, other = (
        machine_data(condition) if large and machine else data_of(condition, holes=not machine)
    )
    params = {
        "n_estimators": LARGE_ROUNDS if large else ROUNDS,
        "random_state": 5,
        **VARIANTS[algorithm][variant],
    }
    tried = condition.startswith("threads")
    threads = (1, 2, 3) if tried else (2,) if large and quick else (1, 2) if large else (1,)
    fingerprints = []
    before = set_small_work(0) if tried or large else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for n_jobs in threads:
                estimator = fit_as(condition, cls, {**params, "n_jobs": n_jobs}, X=X, y=y)
                fingerprints.append(fingerprint(estimator.model_, X, other, sides=sides))
    finally:
        if before is not None:
            set_small_work(before)
    if len(set(fingerprints)) > 1:
        return f"threads {threads} do not agree:", *(
            value for pair in fingerprints for value in pair
        )
    return fingerprints[0]
