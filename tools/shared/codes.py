"""Classifiers made of binary SVMs, with which HingeBoost.OC's paper compares: LIBSVM's machines on a given kernel.

All take the kernel matrix of the training rows, class codes 0..K-1, and the kernel of the test rows against the
training rows. They give the codes of the test rows.
"""

import numpy as np

# Of all weights, what is added to each sum behind a coefficient, so that a learner without mistakes gets a finite one.
SMOOTHING = 1 / 4000
# LIBSVM leaves out rows without weight.
LEAST_WEIGHT = 1e-9
# Random code matrices that are looked at, as in the paper.
TRIED = 10_000


def kernel_matrix(kernel, X, Z):
    """Kernel values of the rows of X against those of Z."""
    X, Z = np.asarray(X, float), np.asarray(Z, float)
    if kernel == "linear":
        return X @ Z.T
    if kernel != "perceptron":
        raise ValueError(f"no kernel {kernel!r}")
    from sklearn.metrics import euclidean_distances

    return -euclidean_distances(X, Z)


def machine(gram, labels, C, weight=None):
    """LIBSVM's C-SVC; with more than two classes it is one-vs-one."""
    from sklearn.svm import SVC

    return SVC(kernel="precomputed", C=C, cache_size=400).fit(gram, labels, sample_weight=weight)


def binary(gram, signs, C, weight=None):
    """One binary SVM as its coefficients of the training rows and its constant."""
    solution = machine(gram, signs, C, weight=weight)
    coefficients = np.zeros(len(gram))
    coefficients[solution.support_] = solution.dual_coef_[0]
    return coefficients, solution.intercept_[0]


def outputs(gram, signs, C, gram_test):
    """Decision values of one binary SVM on the test rows."""
    coefficients, constant = binary(gram, signs, C)
    return gram_test @ coefficients + constant


def one_vs_one(gram, codes, gram_test, C, seed=0):
    """An SVM of every pair of classes, and votes."""
    return machine(gram, codes, C).predict(gram_test)


def one_vs_all(gram, codes, gram_test, C, seed=0):
    """An SVM of every class against the others; the largest output wins."""
    scores = [
        outputs(gram, np.where(codes == k, 1, -1), C, gram_test=gram_test)
        for k in range(codes.max() + 1)
    ]
    return np.argmax(scores, axis=0)


def ecoc(gram, codes, gram_test, C, seed=0):
    """Error-correcting output codes, decoded by the exponential loss."""
    code = code_matrix(codes.max() + 1, np.random.default_rng(seed))
    scores = np.stack(
        [outputs(gram, column[codes], C, gram_test=gram_test) for column in code.T], axis=1
    )
    return decode(code, scores)


def decode(code, scores):
    """Class with the least exponential loss of the columns' scores (rows, columns)."""
    from scipy.special import logsumexp

    losses = [logsumexp(-row * scores, axis=1) for row in code]
    return np.argmin(losses, axis=0)


def code_matrix(n_classes, generator):
    """Code of +1 and -1, (classes, columns): all partitions up to 7 classes, else the best of many random ones."""
    if n_classes <= 7:
        columns = np.arange(2 ** (n_classes - 1) - 1)
        bits = columns >> np.arange(n_classes - 1)[:, None] & 1
        return np.concatenate([np.ones((1, len(columns)), int), 2 * bits - 1])
    n_columns = int(np.ceil(10 * np.log2(n_classes)))
    best = None
    most = -1
    for _ in range(TRIED):
        code = 2 * generator.integers(0, 2, (n_classes, n_columns)) - 1
        distance = least_distance(code)
        if distance > most and len({*map(bytes, code.T.astype(np.int8))}) == n_columns:
            best = code
            most = distance
    return best


def least_distance(code):
    """Smallest Hamming distance of two rows."""
    code = code.astype(np.float32)
    products = code @ code.T
    np.fill_diagonal(products, -np.inf)
    return int(code.shape[1] - products.max()) // 2


def adaboost_erp(gram, codes, gram_test, C, seed=0, rounds=200):
    """AdaBoost.ERP, with SVMs of weighted rows as weak learners; see `pymcboost.AdaBoostERPClassifier`.

    A round colours half of the classes at random, trains, colours again by the edges of the classes, and trains again.
    """
    generator = np.random.default_rng(seed)
    rows = np.arange(len(codes))
    n_classes = int(codes.max()) + 1
    scores, scores_test = (
        np.zeros((len(codes), n_classes)),
        np.zeros((len(gram_test), n_classes)),
    )
    for _ in range(rounds):
        pairs = scores - scores[rows, codes][:, None]
        # Whatever the largest weight is, a round looks at ratios only.
        pairs[rows, codes] = -np.inf
        pairs = np.exp(pairs - pairs.max())
        mu = random_half(n_classes, generator)
        for again in (False, True):
            signs = mu[codes]
            weight = (pairs * (mu != signs[:, None])).sum(axis=1)
            coefficients, constant = binary(
                gram, signs, C, weight=np.maximum(weight / weight.mean(), LEAST_WEIGHT)
            )
            h = np.where(gram @ coefficients + constant > 0, 1, -1)
            edges = np.bincount(codes, h * pairs.sum(axis=1), n_classes) - h @ pairs
            new = np.where(edges == 0, mu, np.sign(edges).astype(int))
            if again or np.array_equal(new, mu) or np.ptp(new) == 0:
                break
            mu = new
        h_test = np.where(gram_test @ coefficients + constant > 0, 1, -1)
        for side in (1, -1):
            step = coefficient(weight, signs, h == side)
            scores[h == side] += step * mu
            scores_test[h_test == side] += step * mu
    return scores_test.argmax(axis=1)


def random_half(n_classes, generator):
    """Colours of the classes, half of them (rounded down) +1 and the others -1."""
    mu = -np.ones(n_classes, int)
    mu[generator.choice(n_classes, n_classes // 2, replace=False)] = 1
    return mu


def coefficient(weight, signs, rows):
    """What one output of a weak learner adds to the scores of its colour: domain-partitioning AdaBoost."""
    smoothing = SMOOTHING * weight.sum()
    up, down = (weight[rows & (signs == sign)].sum() + smoothing for sign in (1, -1))
    return 0.25 * np.log(up / down)


CODED = {"one-vs-one": one_vs_one, "one-vs-all": one_vs_all, "ecoc": ecoc}
