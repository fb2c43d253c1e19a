"""Multi-class SVMs to which HingeBoost.OC is compared: reductions to binary problems, and Crammer and Singer's."""

import numpy as np
from shared.internals import kernel_block

# What the diagonal of the RBF kernel gets for its Cholesky factor to exist.
RIDGE = 1e-5
CODE_TRIES = 10_000


def perceptron(X, Z):
    """The perceptron kernel."""
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


def make_reduction(method, kernel, C, gamma, seed):
    """One of the four: LIBSVM through scikit-learn, LIBLINEAR for linear columns."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import SVC, LinearSVC

    linear = kernel == "linear"
    if method == "crammer-singer" and not linear:
        return RbfMultiClassSvm(C, float(gamma), seed)
    if method == "crammer-singer":
        return LinearSVC(C=C, multi_class="crammer_singer", random_state=seed, max_iter=2000)

    def svm():
        if linear:
            return LinearSVC(C=C, loss="hinge", intercept_scaling=10.0, random_state=seed, max_iter=2000)
        return SVC(C=C, kernel=perceptron, cache_size=500)

    if method == "one-vs-one":
        return SVC(C=C, kernel="linear" if linear else perceptron, cache_size=500, max_iter=1_000_000)
    return OneVsRestClassifier(svm()) if method == "one-vs-all" else Ecoc(svm, seed)
