"""Choice of how many features a node draws where there are far fewer rows than features, on parts of training parts."""

import numpy as np
from shared.datasets import coded, load_for_trees
from shared.tables import markdown_table

import pymcboost
from reproduce.drawn import features
from reproduce.experiment import Experiment, Results, cross, select
from reproduce.quality import fit_and_measure, geometric

# Rows of training parts; or made rows: number, features, classes, share of the features whose means differ between
# classes, and by how many standard deviations.
REAL = {"CNAE-9": 150, "mnist": 150, "usps": 100, "dna": 80, "mfeat": 150, "news20-bydate": 300}
MADE = {
    "60 of 8,000": (60, 8000, 3, 0.02, 1.0),
    "150 of 2,000": (150, 2000, 5, 0.01, 1.5),
    "400 of 2,000": (400, 2000, 5, 0.01, 1.0),
}
SETS = (*REAL, *MADE)
TEST_ROWS, REPEATS = 2000, 3
LEARNERS = {"vector": pymcboost.VectorTreeBoostClassifier, "logitboost": pymcboost.LogitBoostClassifier}
# Shares of the features, from the numbers of features and of rows.
CANDIDATES = {
    "2 d^0.4": lambda d, m: features(2)(d),
    "10 d / m, at most d / 10": lambda d, m: features(2, min(10 / m, 0.1))(d),
    "d / 10": lambda d, m: features(2, 0.1)(d),
    "all": lambda d, m: 1.0,
}
MEASURES = "log_loss", "error", "cpu"


def made(n_rows, n_features, n_classes, share, shift, generator):
    """Normal features with common factors; the means of a share of them differ between classes."""
    y = generator.integers(0, n_classes, n_rows + TEST_ROWS)
    mean = generator.normal(size=(n_classes, n_features)) * (generator.random(n_features) < share) * shift
    factors = generator.normal(size=(len(y), 20)) @ generator.normal(size=(20, n_features)) / 2
    X = (mean[y] + factors + generator.normal(size=(len(y), n_features))).astype(np.float32)
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


def parts_of(name, generator):
    """Few rows and those to test on."""
    if name in MADE:
        return made(*MADE[name], generator)
    X, y, _, _ = load_for_trees(name)
    rows = generator.permutation(len(y))[: REAL[name] + TEST_ROWS]
    train, test = rows[: REAL[name]], rows[REAL[name] :]
    test = test[np.isin(y[test], y[train])]
    return coded((X[train], y[train], X[test], y[test]))


def fit_part(unit):
    """One estimator with its other defaults."""
    parts = parts_of(unit["data"], np.random.default_rng(unit["repeat"]))
    share = CANDIDATES[unit["candidate"]](parts[0].shape[1], parts[0].shape[0])
    model = LEARNERS[unit["learner"]](max_features=share, random_state=unit["repeat"], n_jobs=1)
    return fit_and_measure(unit, model, parts)


def plan(options, journal):
    sets, names = options.sets or SETS, options.methods or CANDIDATES
    yield 0, cross(learner=LEARNERS, data=sets, candidate=names, repeat=range(REPEATS)), "wide-rows"


def text_of(frame):
    """Means over the repetitions, by learner, candidate and set."""
    lines = []
    for learner in LEARNERS:
        means = select(frame, learner=learner).groupby(["candidate", "data"])[[*MEASURES]].mean()
        for name in [name for name in CANDIDATES if name in means.index]:
            mine = means.loc[name].reindex([data for data in SETS if data in means.loc[name].index])
            cells = [f"{row['log_loss']:.3f} / {row['error']:.1f}" for _, row in mine.iterrows()]
            lines.append([learner, name, *cells, f"{geometric(mine['log_loss']):.3f}", f"{geometric(mine['cpu']):.2f}"])
    return (
        f"Log loss / error in percent of {TEST_ROWS:,} rows that were not trained on, mean of {REPEATS} repetitions; "
        "the last two columns are geometric means. The first sets are so many rows of training parts: "
        f"{', '.join(f'{name} {rows}' for name, rows in REAL.items())}. The others are made.\n\n"
        + markdown_table(["learner", "features at a node", *SETS, "log loss", "CPU seconds"], lines)
    )


RESULTS = Results("wide-rows", "learner data candidate repeat", " ".join([*MEASURES, "n_train"]), fit_part)
EXPERIMENTS = (
    Experiment(
        "wide-rows", "Features at a node with few rows of many features", (RESULTS,), plan, text_of, sets=SETS,
        methods=tuple(CANDIDATES),
    ),
)  # fmt: skip
