"""Coefficients of one new weak learner: the K-vector w >= 0 that minimises the loss of F + h w."""

import numpy as np

from pymcboost._kernels import newton as _newton

# A weak learner without mistakes on some pair of classes would get an infinite coefficient; this is the largest.
LARGEST_COEFFICIENT = 10.0
TOLERANCE = 1e-6
MAX_ITERATIONS = 100
MAX_PASSES = 12


class NewtonExp:
    """Exponential loss (eq. 13): the data enter through two K x K tables, summed once.

    Minimises log(diagonal + sum_cr S+[c,r] exp(w_r - w_c) + S-[c,r] exp(w_c - w_r)) + nu sum w over 0 <= w <= cap.
    """

    def __init__(self, n_classes, nu, cap=LARGEST_COEFFICIENT):
        self.nu, self.cap = nu, cap
        self._work = _newton.new_work(n_classes)
        self._n_classes = n_classes

    def fit(self, loss, h):
        """Return (w, tables): the minimiser with min(w) = 0 and the side tables of h."""
        tables = loss.side_tables(h)
        w = np.zeros(self._n_classes)
        # Without a penalty the diagonal does not move the minimiser, but would blur the relative tolerance.
        diagonal = loss.diagonal if self.nu > 0 else 0.0
        _newton.solve_exp(tables[0], tables[1], diagonal, self.nu, self.cap, TOLERANCE, MAX_ITERATIONS, w, self._work)
        return w - w.min(), tables


class NewtonLog:
    """Logistic loss (eq. 14): few passes over the data, each giving K x K tables of first and second derivatives.

    Between passes every class pair and side of h is replaced by one logistic term with the same two derivatives, whose
    sum is minimised exactly; this converges faster than Newton steps on the data, because the terms bend as the loss does.
    """

    def __init__(self, n_classes, nu, cap=LARGEST_COEFFICIENT):
        self.nu, self.cap = nu, cap
        self._work = _newton.new_work(n_classes)
        self._n_classes = n_classes

    def fit(self, loss, h):
        """Return (w, tables): the minimiser with min(w) = 0 and the trial tables at it."""
        w = np.zeros(self._n_classes)
        tables = loss.trial_tables(h, w)
        best, best_violation, best_tables = w, np.inf, tables
        shrink = 1.0
        for _ in range(MAX_PASSES):
            violation = self._violation(tables, w)
            if violation < best_violation:
                best, best_violation, best_tables = w, violation, tables
            elif violation > 2 * best_violation:
                shrink /= 2
                w = best + (w - best) / 2
                tables = loss.trial_tables(h, w)
                continue
            if violation <= TOLERANCE:
                break
            step = self._surrogate_minimiser(tables, w) - w
            w = w + shrink * step
            tables = loss.trial_tables(h, w)
        else:
            if self._violation(tables, w) < best_violation:
                best, best_tables = w, tables
        return best - best.min(), best_tables

    def _violation(self, tables, w):
        """Largest projected gradient relative to the mass."""
        pull = tables[1] - tables[0]
        slope = pull.sum(axis=1) - pull.sum(axis=0) + self.nu
        free = ~(((w <= 0) & (slope > 0)) | ((w >= self.cap) & (slope < 0)))
        mass = tables[0].sum() + tables[1].sum()
        return float(np.abs(slope[free]).max(initial=0.0) / mass) if mass > 0 else 0.0

    def _surrogate_minimiser(self, tables, w):
        p_plus, p_minus, c_plus, c_minus = tables
        terms = []
        for p_sum, c_sum, sign in ((p_plus, c_plus, 1.0), (p_minus, c_minus, -1.0)):
            p = np.clip(1.0 - np.divide(c_sum, p_sum, out=np.ones_like(p_sum), where=p_sum > 0), 1e-12, 1 - 1e-12)
            odds = p / (1.0 - p) * np.exp(sign * (w[:, None] - w[None, :]))
            terms.append((odds, p_sum / p))
        (odds_plus, n_plus), (odds_minus, n_minus) = terms
        v = w.copy()
        _newton.solve_log(
            odds_plus, odds_minus, n_plus, n_minus, self.nu, self.cap, TOLERANCE / 10, MAX_ITERATIONS, v, self._work
        )
        return v


SOLVERS = {"exp": NewtonExp, "log": NewtonLog}
