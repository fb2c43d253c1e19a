"""Rounds of HingeBoost.OC: a column of the output code and its support vector machine, optimized alternately.

Problem (eq. 10)
    residuals rho_iy = cost(y_i, y) + F_y(x_i) - F_{y_i}(x_i); a round minimizes, over mu in {-1, 0, +1}^K and g,
    1/2 |w|^2 + c sum_i max_y (rho_iy + mu_y g(x_i) - mu_{y_i} g(x_i)), where w belongs to f = 2 g.
Round (Algorithm 1)
    start with a column that cuts large residuals (`columns`). Alternate a few times: f = the margin-rescaled SVM
    (`dual`) for the margins of the column, and single changes of colour that lower the objective for this f. A step
    that does not lower the objective is discarded. The last step is an SVM. The paper ends with the colours and keeps
    the machine of the previous column; with the same number of SVMs, the objective falls further here.

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
LEAST_DECREASE = 1e-9
# If linear machines have lowered the mean hinge loss by less than this share after at least one round for each class,
# they are of little use: on generated data, their training errors were close to chance.
LEAST_USE = 0.025


class CodeRounds:
    """Residuals of a training, and the search for columns and machines that lower them.

    Parameters
    ----------
    data : MachineData
    svm : LibsvmKernel, DenseKernel or LinearRows
        Solver for the rows of ``data``.
    cost : ndarray of float64 (K, K)
        ``cost[i, j]`` is the cost of predicting class j for a row of class i.
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
        self.allow_zero = allow_zero or init == "pairs"
        self.tol = tol
        self.seed = seed
        differs = data.features.min(axis=0) != data.features.max(axis=0)
        self._has_variation = bool(differs.sum() if data.sparse else differs.any())
        self._beta = None  # of the last SVM
        self._n_solves = 0
        self._short = []  # violations of the solves that have not converged

    def restart(self, scores):
        """Compute the residuals for these scores (m, K), or for none."""
        y = self.data.y
        rho = self.cost[y]
        if scores is not None:
            rho = rho + scores - np.take_along_axis(scores, y[:, None].astype(np.int64), axis=1)
        self.rho = np.ascontiguousarray(rho)
        no_column = np.zeros(self.rho.shape[1], dtype=np.int8)
        self._loss, self._largest = output_codes.update(self.rho, y, no_column, np.zeros(len(y)))

    def warn_of_short_solves(self):
        """Warn once, after the rounds, about solves that have not converged; return whether there are any."""
        if self._short:
            warn(
                f"{self.svm.name} did not converge in {len(self._short)} of "
                f"{counted(self._n_solves, 'solve')}: the optimality conditions are violated by "
                f"up to {max(self._short):.3g}, but tol={self.tol:g}. Scale the features "
                "(scale=True), or use a smaller C or a larger tol"
            )
        return bool(self._short)

    def warn_of_little_use(self):
        """Warn if linear machines have hardly lowered the hinge loss, and say what to do about it."""
        constant_loss = self._loss_of_constants()
        loss = self._loss / len(self.data.y)
        if loss > (1 - LEAST_USE) * constant_loss:
            scale = "" if self.data.scale is not None else "scale=True, "
            dense = "" if self.data.sparse else " or kernel='rbf'"
            warn(
                f"the mean hinge loss has hardly decreased, from {constant_loss:.3g} to {loss:.3g}: "
                f"the machines are almost constant. Use {scale}a larger C{dense}"
            )

    def _loss_of_constants(self):
        """Smallest mean hinge loss of constant predictions: scores 0, or a single class with its largest cost."""
        y = self.data.y
        largest_cost = self.cost.max(axis=1)
        share = np.bincount(y, minlength=len(largest_cost)) / len(y)
        loss_of_class = np.maximum(self.cost + largest_cost, largest_cost[:, None])
        np.fill_diagonal(loss_of_class, 0.0)
        return min(share @ largest_cost, (share @ loss_of_class).min())

    def round(self, t):
        """Train round number t.

        Returns None if no residual is above ``tol``.

        Returns
        -------
        column : ndarray of int8 (K,)
            All 0 if nothing lowers the objective.
        solution : Solution or None
            Solution of f = 2 g; None if nothing lowers the objective.
        history : dict
            Entry of the estimator's ``history_``.
        """
        y = self.data.y
        K = self.data.n_classes
        # Margins up to tol are too small to train an SVM for.
        if self._largest <= self.tol or not self._has_variation:
            return None
        statistics = {
            "objective": self.c * self._loss,
            "n_solves": 0,
            "n_iter": 0,
            "violation": 0.0,
        }
        self.trace = [statistics["objective"]]
        best = self._alternate(self._first_column(t), statistics)
        if best is None:
            # If every row's largest residual is also reached by a class of its own colour, f = 0 is optimal, and the
            # column needs no margin. One class against all others always needs one.
            best = self._alternate(columns.one_vs_all(t % K, K), statistics)
        column = np.zeros(K, dtype=np.int8)
        solution = None
        if best is not None:
            column, solution = best
            statistics["violation"] = solution.violation
            self._loss, self._largest = output_codes.update(self.rho, y, column, solution.f / 2)
        history = {
            "column": column,
            "start": self.trace[0],
            **statistics,
            "hinge": self._loss / len(y),
        }
        return column, solution, history

    def _first_column(self, t):
        """Column with which round number t starts, see ``init``."""
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
        for alternations_left in range(self.max_alternations, -1, -1):
            output_codes.margins(rho, y, column, d)
            solution = self._solve(column[y], d, statistics)
            g = solution.f / 2
            norm = solution.norm2 / 2
            n_changes = 0
            if alternations_left:
                column = column.copy()
                n_changes, loss_of_svm, loss = output_codes.recolour(
                    rho, y, column, g, self.allow_zero
                )
            else:
                loss = output_codes.cost(rho, y, column, g)
            objective = norm + self.c * loss
            step = 1.0
            if self.allow_zero and objective >= statistics["objective"]:
                step, objective = self._shorten(column, g, norm, objective=statistics["objective"])
            if not objective < statistics["objective"] * (1 - LEAST_DECREASE):
                break
            if n_changes and not self.allow_zero:
                self.trace.append(norm + self.c * loss_of_svm)
            self.trace.append(objective)
            statistics["objective"] = objective
            best = column, solution.times(step)
            if not n_changes:
                break
        return best

    def _solve(self, sign, d, statistics):
        """Train an SVM, starting from the last one, and count its solves and iterations."""
        solution = self.svm.solve(sign, d, self.c, self.tol, self._beta)
        self._beta = solution.beta
        self._n_solves += 1
        if solution.short:
            self._short.append(solution.violation)
        statistics["n_solves"] += 1
        statistics["n_iter"] += solution.n_iter
        return solution

    def _shorten(self, column, g, norm, objective):
        """Halve a step until it lowers the objective; return the step and the new objective.

        It is for columns with zeros, whose classes the SVM ignores.
        """
        step = 1.0
        for _ in range(HALVINGS):
            step /= 2
            loss = output_codes.cost(self.rho, self.data.y, column, step * g)
            new_objective = step * step * norm + self.c * loss
            if new_objective < objective:
                return step, new_objective
        return 0.0, objective
