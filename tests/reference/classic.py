"""Twins of the classic boosters, straight from the papers: every stump tried, all weights in full, nothing shared.

Steps are rounded to float32 before they move the weights, as those of a saved model are.
"""

import numpy as np
from scipy.optimize import minimize_scalar
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from .stumps import candidates, outputs, side_of_missing, whole_weights

TIE = 1 + 1e-10
LARGEST = 10.0


def rounded(values):
    """As they are stored."""
    return np.asarray(values, dtype=np.float32).astype(np.float64)


class AllStumps:
    """Every stump of a data set, lower features first, then lower thresholds, then missing values right.

    Where a feature has no missing values, those to come go to the side with more rows.
    """

    def __init__(self, X):
        X, weight = np.asarray(X, dtype=np.float32), whole_weights(np.ones(len(X)))
        splits = [(f, t, n) for f in range(X.shape[1]) for t, n in candidates(X[:, f])]
        self.h = np.array([outputs(X[:, f], t, n) for f, t, n in splits], dtype=np.float64)
        self.splits = [
            (f, t, side_of_missing(weight, h < 0, np.isnan(X[:, f]), n))
            for (f, t, n), h in zip(splits, self.h, strict=True)
        ]

    def first_best(self, value):
        """Number of the stump with the largest value, the first of equals."""
        return int(np.flatnonzero(value * TIE >= value.max())[0])

    def learn(self, target):
        """(split, outputs) of the stump with sign that has the largest sum of target h."""
        edge = self.h @ target
        j = self.first_best(np.abs(edge))
        return self.splits[j], self.h[j] * np.sign(edge[j])


class GiniTrees:
    """Binary classification trees of scikit-learn; every `learn` gives one, and its outputs on the training rows."""

    def __init__(self, X, max_leaf_nodes):
        self.X = X
        self.max_leaf_nodes = max_leaf_nodes

    def learn(self, target):
        """(tree, outputs) for the signs of the target and its size as weights."""
        tree = DecisionTreeClassifier(max_leaf_nodes=self.max_leaf_nodes, random_state=0)
        tree.fit(self.X, np.sign(target), np.abs(target))
        return tree, tree.predict(self.X)


def two_signs(y):
    """+1 for class 0, -1 for class 1."""
    return np.where(y == 0, 1.0, -1.0)


class StumpsAndConstants(AllStumps):
    """Every stump, and a weak learner that is +1 everywhere."""

    def __init__(self, X):
        super().__init__(X)
        self.splits.append(None)
        self.h = np.vstack([self.h, np.ones(len(X))])


def adaboost(X, y, rounds, kind=AllStumps):
    """Discrete AdaBoost for classes 0 and 1, class 0 being +1: (splits, signed alpha where x is above, margins)."""
    stumps = kind(X)
    sign = two_signs(y)
    D = np.full(len(y), 1 / len(y))
    F = np.zeros(len(y))
    model = []
    for _ in range(rounds):
        split, h = stumps.learn(D * sign)
        error = D[h != sign].sum()
        alpha = 0.5 * np.log((1 - error) / error)
        D = D * np.exp(-alpha * sign * h)
        D /= D.sum()
        F += alpha * h
        above = h[stumps.h[stumps.splits.index(split)] > 0][0]
        model.append((split, alpha * above))
    return model, F


def confidence_adaboost(X, y, rounds):
    """Schapire and Singer's domain-partitioning AdaBoost, each side with a confidence of its own, smoothed by 1/4000.

    Returns
    -------
    splits, F
        F: sum of the confidences, class 0 being positive.
    """
    stumps = AllStumps(X)
    sign = two_signs(y)
    m = len(y)
    D = np.full(m, 1 / m)
    F = np.zeros(m)
    splits = []
    for _ in range(rounds):
        split, h = stumps.learn(D * sign)
        confidence = np.zeros(m)
        for side in (1, -1):
            up = D[(h == side) & (sign > 0)].sum()
            down = D[(h == side) & (sign < 0)].sum()
            confidence[h == side] = 0.5 * np.log((up + 1 / 4000) / (down + 1 / 4000))
        D = D * np.exp(-sign * confidence)
        D /= D.sum()
        F += confidence
        splits.append(split)
    return splits, F


def fewest_errors(stumps, y, K, w):
    """(stump number, left class, right class) of the stump with two different classes that gets most weight right."""
    Y = np.eye(K)[y] * w[:, None]
    right_of = (stumps.h > 0) @ Y
    left_of = (stumps.h < 0) @ Y
    same = np.eye(K, dtype=bool)
    best = np.concatenate(
        [
            np.where(
                same, -1.0, left_of[i : i + 100, :, None] + right_of[i : i + 100, None, :]
            ).max(axis=(1, 2))
            for i in range(0, len(stumps.h), 100)
        ]
    )
    j = stumps.first_best(best)
    good = np.where(same, -1.0, left_of[j][:, None] + right_of[j])
    first = np.flatnonzero(good.ravel() * TIE >= best[j])[0]
    return j, first // K, first % K


def samme(X, y, K, rounds):
    """SAMME with stumps: (list of (split, left, right, alpha), F)."""
    stumps = AllStumps(X)
    w = np.full(len(y), 1 / len(y))
    F = np.zeros((len(y), K))
    model = []
    for _ in range(rounds):
        j, left, right = fewest_errors(stumps, y, K, w=w)
        said = np.where(stumps.h[j] > 0, right, left)
        error = w[said != y].sum() / w.sum()
        if error >= 1 - 1 / K:
            break
        alpha = float(rounded(np.log((1 - error) / error) + np.log(K - 1)))
        w = w * np.exp(alpha * (said != y))
        w /= w.sum()
        F[np.arange(len(y)), said] += alpha
        model.append((stumps.splits[j], left, right, alpha))
    return model, F


class FewestErrors:
    """Stumps that name two different classes; every `learn` gives the one with the fewest errors."""

    def __init__(self, X, K):
        self.stumps = AllStumps(X)
        self.K = K

    def learn(self, y, D):
        """(split, class that it names for each row)."""
        j, left, right = fewest_errors(self.stumps, y, self.K, w=D)
        return self.stumps.splits[j], np.where(self.stumps.h[j] > 0, right, left)


class GiniNames:
    """Classification trees of scikit-learn."""

    def __init__(self, X, max_leaf_nodes):
        self.X = X
        self.max_leaf_nodes = max_leaf_nodes

    def learn(self, y, D):
        """(tree, class that it names for each row)."""
        tree = DecisionTreeClassifier(max_leaf_nodes=self.max_leaf_nodes, random_state=0).fit(
            self.X, y, D
        )
        return tree, tree.predict(self.X)


def m1(y, K, rounds, learners, weight=None):
    """AdaBoost.M1: (weak learners, errors, F)."""
    w = np.ones(len(y)) if weight is None else np.array(weight, dtype=float)
    F = np.zeros((len(y), K))
    learners_of_rounds = []
    errors = []
    for _ in range(rounds):
        p = w / w.sum()
        learner, named = learners.learn(y, p)
        eps = p[named != y].sum()
        if eps >= 1 / 2 * (1 - 1e-9):  # what is below it by less is rounding
            break
        beta = eps / (1 - eps)
        vote = float(rounded(np.log(1 / beta)))
        w = w * np.exp(-vote) ** (named == y)
        F[np.arange(len(y)), named] += vote
        learners_of_rounds.append(learner)
        errors.append(eps)
    return learners_of_rounds, errors, F


def plausible_sets(A):
    """For sums A (n, K) of D(i) ([y = y_i] - q(i, y)) over leaves: the best sets of classes, and what they reach.

    All 2^K sets are tried. Of sets that are equally good the smallest is taken.
    """
    sets = np.array(sorted(np.ndindex(*[2] * A.shape[1]), key=sum), dtype=float)
    reached = A @ sets.T
    best = (reached + 1e-9 >= reached.max(axis=1, keepdims=True)).argmax(axis=1)
    return sets[best], reached[np.arange(len(A)), best]


class PlausibleStumps:
    """Stumps with a set of plausible classes on either side; `learn` gives the one with the smallest pseudo-loss."""

    def __init__(self, X):
        self.stumps = AllStumps(X)

    def learn(self, y, D, q):
        """(split, h of each row and class)."""
        A = D[:, None] * (np.eye(q.shape[1])[y] - q)
        right, of_right = plausible_sets((self.stumps.h > 0) @ A)
        left, of_left = plausible_sets((self.stumps.h < 0) @ A)
        j = self.stumps.first_best(of_right + of_left)
        return self.stumps.splits[j], np.where(self.stumps.h[j][:, None] > 0, right[j], left[j])


class PlausibleTrees:
    """Regression trees of scikit-learn, with a set of plausible classes in each leaf."""

    def __init__(self, X, max_leaf_nodes):
        self.X = X
        self.max_leaf_nodes = max_leaf_nodes

    def learn(self, y, D, q):
        """(tree, h of each row and class)."""
        a = np.eye(q.shape[1])[y] - q
        tree = DecisionTreeRegressor(max_leaf_nodes=self.max_leaf_nodes, random_state=0).fit(
            self.X, a, D
        )
        leaf = np.unique(tree.apply(self.X), return_inverse=True)[1]
        A = np.array([(D[:, None] * a)[leaf == j].sum(axis=0) for j in range(leaf.max() + 1)])
        return tree, plausible_sets(A)[0][leaf]


def m2(y, K, rounds, learners, weight=None):
    """AdaBoost.M2: (weak learners, pseudo-losses, F)."""
    own = np.arange(len(y)), y
    D = np.ones(len(y)) if weight is None else np.array(weight, dtype=float)
    w = np.repeat(D[:, None] / (K - 1), K, axis=1)
    w[own] = 0
    F = np.zeros((len(y), K))
    learners_of_rounds = []
    losses = []
    for _ in range(rounds):
        W = w.sum(axis=1)
        q = w / W[:, None]
        D = W / W.sum()
        learner, h = learners.learn(y, D, q)
        eps = 0.5 * (D * (1 - h[own] + (q * h).sum(axis=1))).sum()
        if eps >= 1 / 2:
            break
        beta = eps / (1 - eps)
        half_vote = float(rounded(0.5 * np.log(1 / beta)))
        w = w * np.exp(-half_vote) ** (1 + h[own][:, None] - h)
        F += 2 * half_vote * h
        learners_of_rounds.append(learner)
        losses.append(eps)
    return learners_of_rounds, losses, F


def adaboost_ml(X, y, K, rounds):
    """AdaBoost.ML with stumps: (list of (split, left, right, step), F), F without float32's halves."""
    stumps = AllStumps(X)
    F = np.zeros((len(y), K))
    model = []
    code = (K * np.eye(K) - 1) / (K - 1)
    for _ in range(rounds):
        own = F[np.arange(len(y)), y]
        w = 1 / (1 + np.exp(own))
        j, left, right = fewest_errors(stumps, y, K, w=w / w.sum())
        said = np.where(stumps.h[j] > 0, right, left)
        if w[said != y].sum() / w.sum() >= 1 - 1 / K:
            break
        g = code[said, y]
        loss = lambda step, own=own, g=g: np.logaddexp(0, -own - step * g).sum()  # noqa: E731
        step = minimize_scalar(loss, bounds=(0, 20), method="bounded", options={"xatol": 1e-9}).x
        F += step * code[said]
        model.append((stumps.splits[j], left, right, step))
    return model, F


def mh(X, y, K, rounds):
    """AdaBoost.MH with shared stumps: (list of splits, F)."""
    stumps = AllStumps(X)
    Y = 2.0 * np.eye(K)[y] - 1
    D = np.full(Y.shape, 1 / Y.size)
    F = np.zeros(Y.shape)
    splits = []
    for _ in range(rounds):
        edges = stumps.h @ (D * Y)
        j = stumps.first_best(np.abs(edges).sum(axis=1))
        gamma = np.abs(edges[j]).sum()
        step = rounded(0.5 * np.log((1 + gamma) / (1 - gamma)) * np.sign(edges[j]))
        F += stumps.h[j][:, None] * step
        D = D * np.exp(-Y * stumps.h[j][:, None] * step)
        D /= D.sum()
        splits.append(stumps.splits[j])
    return splits, F


def start_of_pairs(y, K):
    """D~: uniform over the wrong labels."""
    D = np.full((len(y), K), 1 / (len(y) * (K - 1)))
    D[np.arange(len(y)), y] = 0
    return D


def half_weights(D, y, mu):
    """(U, D_i) of a colouring: weight of the pairs that it parts, and the rows' shares of it."""
    parted = D * (mu[y][:, None] != mu[None, :])
    return parted.sum(), parted.sum(axis=1) / parted.sum()


def oc(X, y, K, colourings, learners=None):
    """AdaBoost.OC: (splits, F), with F_l the sum of alpha [h = mu_l]."""
    stumps = learners or AllStumps(X)
    D = start_of_pairs(y, K)
    F = np.zeros((len(y), K))
    splits = []
    for mu in colourings:
        _, rows = half_weights(D, y, mu)
        split, h = stumps.learn(rows * mu[y])
        named = h[:, None] == mu[None, :]
        own = named[np.arange(len(y)), y][:, None]
        error = 0.5 * (D * ((~own).astype(float) + named)).sum()
        alpha = 2 * float(rounded(0.25 * np.log((1 - error) / error)))
        D = D * np.exp(alpha * ((~own).astype(float) + named))
        D /= D.sum()
        F += alpha * named
        splits.append(split)
    return splits, F


def _confidences(D, y, mu, h):
    """g of every row, alpha where h = +1 and beta where h = -1, rounded as halves are stored."""
    U, rows = half_weights(D, y, mu)
    smoothing = 1 / 4000
    g = np.empty(len(y))
    for side in (1, -1):
        up = rows[(h == side) & (mu[y] > 0)].sum() + smoothing
        down = rows[(h == side) & (mu[y] < 0)].sum() + smoothing
        g[h == side] = 2 * float(rounded(0.25 * np.log(up / down)))
    return g


def ecc(X, y, K, colourings, repartitions=0, learners=None):
    """AdaBoost.ECC, and AdaBoost.ERP with ``repartitions``: (splits, F, colourings used), F_l the sum of g mu_l."""
    stumps = learners or AllStumps(X)
    D = start_of_pairs(y, K)
    F = np.zeros((len(y), K))
    splits = []
    used = []
    for mu in colourings:
        split, h = stumps.learn(half_weights(D, y, mu)[1] * mu[y])
        for _ in range(repartitions):
            # The colouring for which U times the edge of h is largest, by trying all of them.
            best = max(
                (np.array(signs) for signs in np.ndindex(*[2] * K) if 0 < sum(signs) < K),
                key=lambda c: ((D * (c[y][:, None] != c)).sum(axis=1) * (2 * c[y] - 1) * h).sum(),
            )
            if (2.0 * best - 1 == mu).all():
                break
            mu = 2.0 * best - 1
            split, h = stumps.learn(half_weights(D, y, mu)[1] * mu[y])
        g = _confidences(D, y, mu, h=h)
        D = D * np.exp(0.5 * g[:, None] * (mu[None, :] - mu[y][:, None]))
        D /= D.sum()
        F += g[:, None] * mu
        splits.append(split)
        used.append(mu)
    return splits, F, used


def polynomial_root(K, s, A1, A2, eps1, eps2):
    """R > 0 of PIBoost's polynomial (8), by its companion matrix."""
    terms = [
        (2 * (K - s), (K - s) * eps1),
        (K, s * eps2),
        (K - 2 * s, -s * (A2 - eps2)),
        (0, -(K - s) * (A1 - eps1)),
    ]
    lift = max(0, 2 * s - K)  # no negative powers
    polynomial = np.zeros(max(p for p, _ in terms) + lift + 1)
    for p, c in terms:
        polynomial[-1 - p - lift] += c
    roots = np.roots(polynomial)
    real = roots[(np.abs(roots.imag) < 1e-9) & (roots.real > 1e-12)].real
    assert len(real) == 1
    return real[0]


def piboost(X, y, K, subsets, rounds, cost_sensitive, learners=None):
    """Algorithm 2: (splits by round and subset, F as in the paper, R of the first round)."""
    stumps = learners or AllStumps(X)
    F = np.zeros((len(y), K))
    splits = []
    weights = [np.full(len(y), 1 / len(y)) for _ in subsets]
    for _ in range(rounds):
        chosen = []
        for number, subset in enumerate(subsets):
            s = len(subset)
            w = weights[number]
            inside = np.isin(y, subset)
            cost = np.where(inside, K - s, s) if cost_sensitive else 1.0
            sign = np.where(inside, 1.0, -1.0)
            split, h = stumps.learn(w * cost * sign)
            wrong = h != sign
            R = polynomial_root(
                K,
                s,
                w[inside].sum(),
                A2=w[~inside].sum(),
                eps1=w[inside & wrong].sum(),
                eps2=w[~inside & wrong].sum(),
            )
            R = np.exp(float(rounded(np.log(R))))
            vote = np.where(np.isin(np.arange(K), subset), 1 / s, -1 / (K - s))
            F += s * (K - s) * (K - 1) * np.log(R) * h[:, None] * vote
            power = np.where(inside, K - s, s) * np.where(wrong, 1, -1)
            w = w * R**power
            weights[number] = w / w.sum()
            chosen.append(split if abs(np.log(R)) > 1e-7 else None)
        splits.append(chosen)
    return splits, F


def coded(X, y, code, rounds, learners=None):
    """AdaBoost.MO on a code matrix, a learner for every column, one alpha: (splits by round and column, F).

    With one-vs-all and trees also AdaBoost.MH, whose scores are those of the columns: F @ code, by columns (m, P).
    """
    learners = learners or AllStumps(X)
    C = code[y].astype(float)
    D = (C != 0) / (C != 0).sum()
    f = np.zeros(C.shape)
    splits = []
    for _ in range(rounds):
        columns = [learners.learn(D[:, j] * C[:, j]) for j in range(C.shape[1])]
        h = np.column_stack([column[1] for column in columns])
        r = (D * C * h).sum()
        alpha = float(rounded(0.5 * np.log((1 + r) / (1 - r))))
        f += alpha * h
        D = D * np.exp(-alpha * C * h)
        D /= D.sum()
        splits.append([column[0] for column in columns])
    return splits, f


def regression_stump(stumps, z, w):
    """(stump number, value left, value right): least weighted squares of z, the first of equals."""
    explained = np.empty(len(stumps.h))
    values = []
    for j, h in enumerate(stumps.h):
        sides = [h < 0, h > 0]
        means = [np.average(z[side], weights=w[side]) for side in sides]
        left_over = sum(
            (w[side] * (z[side] - mean) ** 2).sum() for side, mean in zip(sides, means, strict=True)
        )
        explained[j] = (w * z**2).sum() - left_over
        values.append(means)
    j = stumps.first_best(explained)
    return j, *values[j]


def gentleboost(X, y, K, rounds):
    """GentleBoost with regression stumps: (splits by round and class, F less its mean)."""
    stumps = AllStumps(X)
    F = np.zeros((len(y), K))
    splits = []
    own = np.eye(K)[y]
    for _ in range(rounds):
        w = np.exp(-F[np.arange(len(y)), y])
        w /= w.sum()
        z = own - 1 / K
        chosen = [regression_stump(stumps, 1 / z[:, k], w * z[:, k] ** 2) for k in range(K)]
        F += np.column_stack(
            [np.where(stumps.h[j] > 0, rounded(right), rounded(left)) for j, left, right in chosen]
        )
        F -= F.mean(axis=1, keepdims=True)
        splits.append([stumps.splits[j] for j, _, _ in chosen])
    return splits, F


def shared_stump(stumps, z, w, subset):
    """Least squares of all classes, those of the subset sharing a stump: (error, stump, left, right, constants)."""
    K = z.shape[1]
    constants = (w * z).sum(axis=0) / w.sum(axis=0)
    alone = (w * (z - constants) ** 2).sum(axis=0)
    rest = sum(alone[k] for k in range(K) if k not in subset)
    best = None
    for j, h in enumerate(stumps.h):
        error = rest
        values = []
        for side in (h < 0, h > 0):
            ws, zs = w[side][:, subset], z[side][:, subset]
            values.append((ws * zs).sum() / ws.sum())
            error += (ws * (zs - values[-1]) ** 2).sum()
        if best is None or error < best[0] - 1e-12 * w.sum():
            best = (error, j, *values, constants)
    return best


def jointboost(X, y, K, rounds):
    """JointBoost, every subset of the greedy search fitted anew: (list of (split, subset), F)."""
    stumps = AllStumps(X)
    F = np.zeros((len(y), K))
    chosen = []
    z = 2.0 * np.eye(K)[y] - 1
    for _ in range(rounds):
        w = np.exp(-z * F)
        w /= w.sum()
        subset = []
        best = None
        best_subset = None
        while len(subset) < K:
            grown = [
                (shared_stump(stumps, z, w, subset=sorted([*subset, k])), k)
                for k in range(K)
                if k not in subset
            ]
            least = min(one[0][0] for one in grown)
            found, k = next(one for one in grown if one[0][0] <= least + 1e-12)
            subset.append(k)
            if best is None or found[0] < best[0] - 1e-12:
                best = found
                best_subset = sorted(subset)
        _, j, left, right, constants = best
        value = np.tile(rounded(constants), (len(y), 1))
        value[:, best_subset] = np.where(stumps.h[j] > 0, rounded(right), rounded(left))[:, None]
        F += value
        chosen.append((stumps.splits[j], best_subset))
    return chosen, F
