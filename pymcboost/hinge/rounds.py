"""Rounds of HingeBoost.OC: a column of the output code and its support vector machine, optimized alternately.

Problem (eq. 10)
    residuals rho_iy = cost(y_i, y) + F_y(x_i) - F_{y_i}(x_i); a round minimizes, over mu in {-1, 0, +1}^K and g,
    1/2 |w|^2 + c sum_i max_y (rho_iy + mu_y g(x_i) - mu_{y_i} g(x_i)), where w belongs to f = 2 g.
Round (Algorithm 1)
    start with a column that cuts large residuals (`columns`). Alternate a few times: f = the margin-rescaled SVM
    (`dual`) for the margins of the column, and single changes of colour that lower the objective for this f. The last
    step is an SVM, while the paper ends with the colours and keeps the machine of the previous column: with the same
    number of SVMs, the objective falls further. A step that does not lower the objective is discarded.

Paper: T. Gao and D. Koller, Multiclass boosting with hinge loss based on output coding.
"""

import numpy as np

from pymcboost._kernels import output_codes
from pymcboost._warn import warn
from pymcboost.hinge import columns
from pymcboost.threads import counted

# Maximum number of times that the step of a round with zeros in its column is halved.
HALVINGS = 10
# A round must lower its objective by at least this share; less is rounding.
LEAST_FALL = 1e-9
# If linear machines, after at least one round for each class, have lowered the mean hinge loss by less than this
# share, they are of little use: on generated data, their training errors were close to chance.
LEAST_USE = 0.025


class CodeRounds:
    """Residuals of a training, and the search for columns and machines that lower them.

    Parameters
    ----------
    data : MachineData
    svm : LibsvmKernel, DenseKernel or LinearRows
        Solver for the rows of ``data``.
    cost : ndarray of float64 (K, K)
        Cost of predicting the column's class for a row of the row's class.
    C : float
        Weight of the mean loss.
    init, n_colourings, max_alternations, allow_zero, tol
        As for `HingeBoostOCClassifier`.
    seed : int

    Attributes
    ----------
    rho : ndarray of float64 (m, K)
        Residuals after the last round.
    trace : list of float
        Objectives of the last round: at its start, and after every step that was taken.
    """

    def __init__(
        self, data, svm, cost, C, *, init, n_colourings, max_alternations, allow_zero, tol, seed
    ):
        self.data = data
        self.svm = svm
        self.cost = cost
        self.c = C / data.n_rows
        self.init = init
        self.n_colourings = n_colourings
        self.max_alternations = max_alternations
        self.zero = allow_zero or init == "pairs"
        self.tol = tol
        self.seed = seed
        low = data.features.min(axis=0)
        high = data.features.max(axis=0)
        self._varies = bool((low != high).sum()) if data.sparse else bool((low != high).any())
        self._beta = None
        self._solves = 0
        self._short = []

    def restart(self, scores):
        """Compute the residuals for these scores (m, K), or for none."""
        y = self.data.y
        rho = self.cost[y]
        if scores is not None:
            rho = rho + scores - np.take_along_axis(scores, y[:, None].astype(np.int64), axis=1)
        self.rho = np.ascontiguousarray(rho)
        nothing = np.zeros(self.rho.shape[1], dtype=np.int8), np.zeros(len(y))
        self._loss, self._largest = output_codes.update(self.rho, y, *nothing)

    def warn_of_short_solves(self):
        """Warn once, after the rounds, about solves that have not converged; return whether there are any."""
        if self._short:
            warn(
                f"{self.svm.name} did not converge in {len(self._short)} of "
                f"{counted(self._solves, 'solve')}: the optimality conditions are violated by "
                f"up to {max(self._short):.3g}, but tol={self.tol:g}. Scale the features "
                "(scale=True), or use a smaller C or a larger tol"
            )
        return bool(self._short)

    def warn_of_little_use(self):
        """Warn if linear machines have hardly lowered the hinge loss, and say what to do about it."""
        before = self._loss_of_constants()
        now = self._loss / len(self.data.y)
        if now > (1 - LEAST_USE) * before:
            scale = "" if self.data.scale is not None else "scale=True, "
            dense = "" if self.data.sparse else " or kernel='rbf'"
            warn(
                f"the mean hinge loss has hardly decreased, from {before:.3g} to {now:.3g}: "
                f"the machines are almost constant. Use {scale}a larger C{dense}"
            )

    def _loss_of_constants(self):
        """Smallest mean hinge loss of constant predictions: scores 0, or a single class with its largest cost."""
        y = self.data.y
        top = self.cost.max(axis=1)
        share = np.bincount(y, minlength=len(top)) / len(y)
        of_class = np.maximum(self.cost + top, top[:, None])
        np.fill_diagonal(of_class, 0.0)
        return min(share @ top, (share @ of_class).min())

    def round(self, t):
        """Train round number t.

        Returns
        -------
        column : ndarray of int8 (K,), all 0 where nothing lowers the objective
        solution : Solution of f = 2 g, or None with such a column
        history : dict
            What the estimator's ``history_`` says of the round.

        Instead of all three, None if no residual is above ``tol``.
        """
        y = self.data.y
        K = self.data.n_classes
        column = self._first_column(t)
        # Margins up to tol are too small to train an SVM for.
        if self._largest <= self.tol or not self._varies:
            return None
        statistics = {
            "objective": self.c * self._loss,
            "n_solves": 0,
            "n_iter": 0,
            "violation": 0.0,
        }
        self.trace = [statistics["objective"]]
        best = self._alternate(column, statistics)
        if best is None:
            # If every row has a class of its own colour with as large a residual, f = 0 is optimal: such a column
            # needs no margin. One class against all others always needs one.
            best = self._alternate(columns.one_vs_all(t % K, K), statistics)
        column = np.zeros(K, dtype=np.int8)
        solution = None
        if best is not None:
            column, solution = best
            statistics["violation"] = solution.violation
            self._loss, self._largest = output_codes.update(self.rho, y, column, solution.f / 2)
        return (
            column,
            solution,
            {"column": column, "start": self.trace[0], **statistics, "hinge": self._loss / len(y)},
        )

    def _first_column(self, t):
        K = self.data.n_classes
        if self.init == "one-vs-all" and t < K and K > 2:
            return columns.one_vs_all(t, K)
        weights = columns.pair_weights(self.rho, self.data.y)
        rng = np.random.default_rng([self.seed, t])
        if self.init == "pairs":
            return columns.best_pair(weights)
        if self.init == "max-cut":
            return columns.max_cut(weights, rng)
        return columns.best_random(weights, self.n_colourings, rng)

    def _alternate(self, column, statistics):
        """Alternate SVMs and recolourings from a first column.

        Returns the last column and SVM that lower the objective, or None.
        """
        y = self.data.y
        rho = self.rho
        d = np.empty(len(y))
        best = None
        for left in range(self.max_alternations, -1, -1):
            output_codes.margins(rho, y, column, d)
            solution = self.svm.solve(column[y], d, self.c, self.tol, self._beta)
            statistics["n_solves"] += 1
            self._solves += 1
            if solution.short:
                self._short.append(solution.violation)
            statistics["n_iter"] += solution.n_iter
            self._beta = solution.beta
            g, norm = solution.f / 2, solution.norm2 / 2
            if left:
                column = column.copy()
                changes, before, after = output_codes.recolour(rho, y, column, g, self.zero)
            else:
                changes = 0
                after = output_codes.cost(rho, y, column, g)
            reached = norm + self.c * after
            step = 1.0
            if self.zero and reached >= statistics["objective"]:
                step, reached = self._shorten(column, g, norm, objective=statistics["objective"])
            if not reached < statistics["objective"] * (1 - LEAST_FALL):
                break
            if changes and not self.zero:
                self.trace.append(norm + self.c * before)
            self.trace.append(reached)
            statistics["objective"], best = reached, (column, solution.times(step))
            if not changes:
                break
        return best

    def _shorten(self, column, g, norm, objective):
        """Find the largest halving of a step that helps.

        It is for columns with zeros, whose classes the SVM ignores.
        """
        step = 1.0
        for _ in range(HALVINGS):
            step /= 2
            reached = step * step * norm + self.c * output_codes.cost(
                self.rho, self.data.y, column, step * g
            )
            if reached < objective:
                return step, reached
        return 0.0, objective
