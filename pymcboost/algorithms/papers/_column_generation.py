"""Column generation: each round adds the weak learners of the most violated dual constraints, and solves for all again.

Used by MultiBoost (one learner per round, for all classes) and MultiBoost-cw (one for every class).
"""

import copy
from dataclasses import dataclass

import numpy as np

from pymcboost._kernels.aligned import aligned_zeros
from pymcboost.algorithms._binary import RESTART_EVERY, SMALLEST_EDGE
from pymcboost.algorithms.papers._booster import PaperBooster
from pymcboost.losses import PAIRWISE
from pymcboost.model.builders import TreesBuilder
from pymcboost.model.model import Model
from pymcboost.solvers.columns import Columns, pack, padded
from pymcboost.solvers.fcd import FCD, LARGE_DATA
from pymcboost.solvers.lbfgs import LBFGS
from pymcboost.solvers.weights import PairWeights
from pymcboost.training import memory

# Maximum violation that a solver leaves in a round, relative to that of the new learners. Cold starts ignore it.
SOLVER_TOLERANCE = 1e-3
SEED_STEP = 1_000_003
# The solver that starts every round at 0.
COLD = "lbfgs-cold"
STAYED = "all coefficients stay 0"
# Number of learners whose outputs are computed in one pass over the training rows.
OUTPUTS_AT_ONCE = 8


@dataclass(eq=False)
class Learner:
    """A weak learner as a tree with leaves +-1 (see `model.trees.Trees`).

    ``owner`` is the class that it belongs to, or -1 if all classes share it.
    """

    feature: np.ndarray
    threshold: np.ndarray
    nan_left: np.ndarray
    right: np.ndarray
    sign: np.ndarray
    owner: int

    @classmethod
    def of(cls, weak_learner, owner):
        """Create a learner from the result of a weak learner's ``fit``."""
        return cls(*weak_learner.as_tree(), owner)

    def key(self):
        """Bytes that are equal for equal learners, also after saving and loading."""
        threshold = np.asarray(self.threshold, dtype=np.float32) + np.float32(0)  # -0 becomes +0
        arrays = [
            np.asarray(array, dtype=np.int64)
            for array in (self.feature, self.nan_left, self.right, self.sign)
        ]
        arrays.append(threshold)
        return b"".join([*(array.tobytes() for array in arrays), str(self.owner).encode()])


def add_to(builder, learner, coef):
    """Add a learner to a builder, with its coefficient (for its class) or coefficients (for all classes)."""
    leaf = learner.sign * coef if learner.owner >= 0 else learner.sign[:, None] * coef
    splits = learner.feature, learner.threshold, learner.nan_left, learner.right
    builder.add_tree(*splits, leaf, learner.owner)


def columns_of(learners, bits, coef, n_classes):
    """Prepare outputs and coefficients, (n,) or (n, K) if all classes share the learners, for a solver."""
    if coef.ndim == 2:
        return Columns.shared(bits, coef)
    owner = np.array([learner.owner for learner in learners], dtype=np.int64)
    return Columns.of_classes(bits, coef, owner, n_classes)


class CorrectiveBuilder:
    """Weak learners whose coefficients all change in every round.

    Learners whose coefficients are all 0 are dropped at the end of a round. Column generation finds them again if they
    are needed.

    Parameters
    ----------
    empty : builder
        A copy of it is filled when the ensemble is needed.
    n_classes : int
    shared : bool
        Whether learners have a coefficient in every class.
    kept_rounds : int
        How many rounds back `truncate_rounds` may go.
    repeats : bool, default=False
        Whether a learner may occur several times in the model, each time with its own coefficients. A solver that
        starts at 0 then gives it a larger sum of coefficients.
    """

    def __init__(self, empty, n_classes, shared, kept_rounds, repeats=False):
        self._empty = empty
        self._n_classes = n_classes
        self._shared = shared
        self._kept_rounds = kept_rounds
        self._repeats = repeats
        self.learners = []
        self.coef = np.zeros((0, n_classes) if shared else 0)
        self.n_rounds = 0
        self._bits = None  # outputs of the learners; doubles when full
        self._index_of_key = {}
        self._past = {0: ([], self.coef)}  # learners and coefficients by number of rounds

    def __len__(self):
        return len(self.learners)

    def add(self, learners, bits):
        """Add learners that are new, with coefficients 0, and return the indices of all; bits: their outputs."""
        if self._bits is None:
            self._bits = np.zeros((16, bits.shape[1]), dtype=np.uint32)
        indices = []
        for learner, row in zip(learners, bits, strict=True):
            n = len(self)
            if not self._repeats:
                n = self._index_of_key.setdefault(learner.key(), n)
            indices.append(n)
            if n < len(self):
                continue
            if n == len(self._bits):
                larger = np.zeros((2 * n, self._bits.shape[1]), dtype=np.uint32)
                larger[:n] = self._bits
                self._bits = larger
            self._bits[n] = row
            self.learners.append(learner)
        n_new = len(self) - len(self.coef)
        self.coef = np.concatenate((self.coef, np.zeros((n_new, *self.coef.shape[1:]))))
        return indices

    def columns(self):
        """Outputs and coefficients of the learners, prepared for a solver."""
        return columns_of(self.learners, self._bits[: len(self)], self.coef, self._n_classes)

    def end_round(self, columns):
        """Store the new coefficients, drop learners with only zeros, and remember the round."""
        self.coef = columns.coefficients(self._n_classes if self._shared else None)
        keep = self.coef.any(axis=1) if self._shared else self.coef > 0
        if not keep.all():
            kept = np.flatnonzero(keep)
            self._bits[: len(kept)] = self._bits[kept]
            self.learners = [self.learners[n] for n in kept]
            self.coef = self.coef[kept]
            self._index_of_key = {learner.key(): n for n, learner in enumerate(self.learners)}
        self.n_rounds += 1
        self._past[self.n_rounds] = (list(self.learners), self.coef)
        self._past.pop(self.n_rounds - self._kept_rounds, None)

    def take_over(self, ensemble, n_rounds, X, rows):
        """Continue from a fitted ensemble; ``X[rows]`` are the training rows, in their order."""
        self.remember(ensemble, n_rounds)
        learners, coef = self._past[n_rounds]
        indices = []
        for begin in range(0, len(learners), OUTPUTS_AT_ONCE):
            part = learners[begin : begin + OUTPUTS_AT_ONCE]
            indices += self.add(part, outputs(part, X, rows, ensemble.n_features))
        # Learners that occur several times in the model are merged, unless repeats are intended.
        np.add.at(self.coef, indices, coef)
        self.coef = self.coef.astype(np.float32).astype(np.float64)
        self.n_rounds = n_rounds

    def remember(self, ensemble, n_rounds):
        """Store this ensemble, so that `truncate_rounds` can go back to it."""
        learners = []
        coefs = []
        for feature, threshold, nan_left, right, leaf, owner, _ in ensemble.each_tree():
            leaf = np.asarray(leaf, dtype=np.float64)
            coef = np.abs(leaf[0])
            coefs.append(coef)
            learner = Learner(
                np.array(feature),
                np.array(threshold, dtype=np.float32),
                np.array(nan_left, dtype=bool),
                right=np.array(right),
                sign=np.sign(leaf[:, coef.argmax()] if self._shared else leaf),
                owner=owner,
            )
            learners.append(learner)
        self._past[n_rounds] = (learners, np.array(coefs).reshape(-1, *self.coef.shape[1:]))

    def validation_scores(self, validation, n_threads):
        """Scores (m, K) of the rows of a `Validation`; equal to the model's up to rounding in float64."""
        X = validation.X
        outputs_of_learner = validation.outputs
        new_learners = [learner for learner in self.learners if learner not in outputs_of_learner]
        for begin in range(0, len(new_learners), OUTPUTS_AT_ONCE):
            part = new_learners[begin : begin + OUTPUTS_AT_ONCE]
            bits_of_part = outputs(part, X, slice(None), n_features=X.shape[1])
            outputs_of_learner.update(zip(part, bits_of_part, strict=True))
        F = aligned_zeros((self._n_classes, padded(X.shape[0])), np.float64)
        bits = np.stack([outputs_of_learner[learner] for learner in self.learners])
        columns_of(self.learners, bits, self.coef, self._n_classes).scores(F, n_threads)
        return F[:, : X.shape[0]].T

    def truncate_rounds(self, n):
        """Go back to the learners and coefficients of round n."""
        self.learners, self.coef = self._past[n]
        self.n_rounds = n

    def tail(self, start):
        """Return all learners, because each round changes all of them."""
        return self.freeze()

    def rounds(self):
        """Yield the whole ensemble, because rounds change all coefficients."""
        yield self.freeze()

    def freeze(self):
        """Return the ensemble with the current coefficients, as a single round."""
        builder = copy.deepcopy(self._empty)
        for learner, coef in zip(self.learners, self.coef, strict=True):
            add_to(builder, learner, coef)
        builder.end_round()
        return builder.freeze()

    current = freeze


def l1_norm(ensemble):
    """Sum of the coefficients in an ensemble of learners with outputs +-1."""
    norms = (
        np.abs(np.asarray(leaf[0], dtype=np.float64)).sum()
        for *_, leaf, _, _ in ensemble.each_tree()
    )
    return float(sum(norms))


def sparsity(ensemble, history, n_coefficients):
    """Counts of an ensemble's learners and of their coefficients; each learner has ``n_coefficients`` of them."""
    leaves = [np.abs(leaf[0]) for *_, leaf, _, _ in ensemble.each_tree()]
    coefficients = np.array(leaves).reshape(-1, n_coefficients)
    return {
        "generated": int(np.sum(history["n_found"])) if "n_found" in history else 0,
        "learners": len(coefficients),
        "coefficients": coefficients.size,
        "zero": int((coefficients == 0).sum()),
    }


def outputs(learners, X, rows, n_features):
    """Outputs of weak learners on these rows of X as bits, see `solvers.columns.pack`."""
    builder = TreesBuilder(max(2, len(learners)), n_features)
    for n, learner in enumerate(learners):
        splits = learner.feature, learner.threshold, learner.nan_left, learner.right
        builder.add_tree(*splits, learner.sign, n)
    builder.end_round()
    scores = builder.freeze().scores(X)
    return pack(np.stack([scores[rows, n] for n in range(len(learners))]))


class ColumnGeneration(PaperBooster):
    """Base class of the boosters of MultiBoost and MultiBoost-cw."""

    columns = {
        "objective": "sum over all pairs of the loss, plus the penalty, after the round; equal sample weights count "
        "as 1",
        "change": "relative change of the objective",
        "edge": "largest edge before the round",
        "n_found": "number of weak learners generated",
        "n_learners": "number of weak learners in the model",
    }

    @property
    def solver_name(self):
        """Name of the solver for the coefficients."""
        return self.params.solver

    @property
    def stagewise(self):
        """Whether rounds leave earlier coefficients unchanged."""
        return self.solver_name == "fcd" and self.params.max_passes == 1

    @property
    def cuts_give_models(self):
        """Whether the first rounds of a model are a model; not if every round changes all coefficients."""
        return self.stagewise

    @property
    def restart_every(self):
        """Number of rounds after which `restart` is called; None if every round computes the weights anyway."""
        return RESTART_EVERY if self.stagewise else None

    @property
    def link(self):
        """The link of the loss."""
        return PAIRWISE[self.params.loss].link

    def new_builder(self):
        """Create a builder; a corrective one if all coefficients change in every round."""
        if self.stagewise:
            return super().new_builder()
        p = self.params
        # Ctrl-C goes back by at most one round, early stopping by up to its patience.
        patience = p.n_iter_no_change if p.early_stopping else 0
        return CorrectiveBuilder(
            super().new_builder(),
            self.data.n_classes,
            self.shared,
            kept_rounds=2 + patience,
            repeats=self.solver_name == COLD,
        )

    def check_previous(self, previous):
        """Refuse to mix stage-wise and totally corrective rounds."""
        super().check_previous(previous)
        if previous.model.has_stages != self.stagewise:
            was = "stage-wise (max_passes=1)" if previous.model.has_stages else "totally corrective"
            raise ValueError(
                f"{previous.source}: the existing model is {was}; use its solver and max_passes, "
                "or train a new model"
            )

    def go_on(self, previous):
        """Take over the rounds of a model, and return the raw scores of the training rows.

        Totally corrective rounds compute the weights from the coefficients and need no scores: then return None.
        """
        if self.stagewise:
            return super().go_on(previous)
        self.builder.take_over(
            previous.model.ensemble, previous.n_rounds, self.data.X, self.data.rows
        )
        if previous.best_model is not None:
            best = Model.from_bytes(previous.best_model).ensemble
            self.builder.remember(best, previous.best_round)
        return None

    def prepare(self, previous):
        """Create the weights, the solver and the learner."""
        data = self.data
        p = self.params
        # Instead of the loss having the factor C / p, the norm has nu = p / C. Here p is the weight of all pairs of a
        # row and another class.
        nu = float(data.weight.sum()) * (data.n_classes - 1) / p.C
        if self.solver_name == "fcd":
            self.solver = FCD(PAIRWISE["exp"], data, nu, n_threads=self.n_threads)
            self.weights = self.solver
        else:
            self.weights = PairWeights(PAIRWISE[p.loss], data, nu, n_threads=self.n_threads)
            self.solver = LBFGS(self.weights, cold=self.solver_name == COLD)
        self.learner = self.new_learner()
        self.objective = np.inf
        self.converged = False
        self.l1 = 0.0  # sum of the coefficients of a stage-wise training
        self.stayed = False  # whether all coefficients were 0 after the last round
        if previous is not None and previous.n_rounds:
            self.l1 = l1_norm(previous.model.ensemble)
            change = previous.history.get("change", [])
            self.converged = len(change) > 0 and change[-1] <= p.tol

    def memory(self):
        """Memory of the rounds: weights and scores, gradients, and the outputs of one or of all rounds."""
        data = self.data
        m = data.n_rows
        K = data.n_classes
        is_single_precision = self.solver_name == "fcd" and m > LARGE_DATA
        scores = memory.Part(
            f"the weights and scores of {m} rows and {K} classes",
            (12 if is_single_precision else 16) * m * K,
            memory.FEWER,
        )
        n_learners = (1 if self.shared else K) * (1 if self.stagewise else self.n_estimators)
        output_bytes = m * (n_learners // 8)
        if not self.stagewise:  # outputs and scores of the validation rows
            output_bytes += self.n_validation * (n_learners // 8 + 16 * K + 8 * OUTPUTS_AT_ONCE)
        # Temporary, when training continues from a model, and while outputs are packed into bits.
        passing = m * max(8 * OUTPUTS_AT_ONCE, 0 if self.shared else 3 * K)
        remedy = "a smaller n_estimators, fewer rows"
        if self.solver_name == "fcd" and not self.stagewise:
            remedy = f"max_passes=1, which keeps no outputs, {remedy}"
        learner_outputs = memory.Part(
            f"the outputs of {n_learners} weak learners on {m} rows of {K} classes",
            output_bytes,
            remedy,
            passing,
        )
        return [scores, memory.weights(data, K), learner_outputs, *self.learner_memory()]

    def restart(self, scores):
        """Compute the weights for these scores."""
        self.weights.start(None if scores is None else scores.T)
        self.objective = self.weights.loss() + self.weights.nu * self.l1

    def why_ended(self):
        """Say why there is no further round: a change, a coefficient or an edge was too small."""
        if self.converged:
            return "a round changed the objective by no more than tol"
        if self.stayed:
            return STAYED
        return "no weak learner has an edge above p/C"

    def why_constant(self):
        """The warning for a constant model, which says what to do."""
        if self.stayed:
            return (
                f"{STAYED}, because hardly any weak learner is better than chance: the model "
                'is constant. Try solver="lbfgs", which searches further than a cold start '
                "that stops early"
            )
        return (
            f"no weak learner has an edge above p/C with C={self.params.C:g}: the model is "
            "constant. Increase C, or check whether all features are constant or missing"
        )

    def meta(self):
        """Entries of the model file: rounds that change all coefficients are not stages."""
        return {} if self.stagewise else {"stages": False, "rounds": self.n_rounds}

    def follow(self, validation):
        """Bring the scores of the validation rows up to date; if all coefficients change, compute them anew."""
        if self.stagewise:
            super().follow(validation)
        else:
            validation.scores = self.builder.validation_scores(validation, self.n_threads)

    def round(self):
        """Find the most violated learners, then the coefficients of all learners, or only of the new ones."""
        weights = self.weights
        builder = self.builder
        if self.converged:
            return None
        if not self.stagewise and len(builder):
            self.objective = weights.refresh(builder.columns())
        weak_learners = self.learner.fit(weights.gradient())
        if self.shared:
            weak_learners = [weak_learners] if weak_learners else []
        edge = max((weak_learner.edge for weak_learner in weak_learners), default=0.0)
        if edge <= weights.nu * (1 + SMALLEST_EDGE) or edge <= SMALLEST_EDGE * self.objective:
            return None
        solve = self._solve_new if self.stagewise else self._solve_all
        objective = solve(weak_learners, edge)
        if objective is None:
            # A cold start found no slope: the round is discarded, and the model stays that of the previous round.
            self.stayed = True
            return None
        if not np.isfinite(objective):
            raise FloatingPointError(
                f"{self.name}: the loss is {objective} after round {self.n_rounds + 1}; check "
                "whether some sample weights are hundreds of orders of magnitude larger than "
                "others"
            )
        change = abs(self.objective - objective) / abs(self.objective)
        self.converged = change <= self.params.tol
        self.objective = objective
        counts = {"n_found": len(weak_learners), "n_learners": len(builder)}
        return {"objective": objective, "change": change, "edge": edge, **counts}

    def _solve(self, columns, is_new, edge):
        """Fit the coefficients in ``columns``; ``is_new`` (n,) marks the new learners, ``edge`` is their largest."""
        return self.solver.solve(
            columns,
            fresh=columns.spread(is_new),
            max_passes=self.params.max_passes,
            tol=SOLVER_TOLERANCE,
            first=edge - self.weights.nu,
            seed=self.seed + SEED_STEP * (self.n_rounds + 1),
        )

    def _learners(self, weak_learners):
        """Convert weak learners to `Learner`, and pack their outputs into bits."""
        learners = [
            Learner.of(weak_learner, -1 if self.shared else weak_learner.cls)
            for weak_learner in weak_learners
        ]
        return learners, pack(np.stack([weak_learner.h for weak_learner in weak_learners]))

    def _solve_new(self, weak_learners, edge):
        """Fit only the coefficients of the new learners; return the objective, or None if they stay 0."""
        builder = self.builder
        K = self.data.n_classes
        n = len(weak_learners)
        learners, bits = self._learners(weak_learners)
        columns = columns_of(learners, bits, np.zeros((n, K) if self.shared else n), n_classes=K)
        solved = self._solve(columns, np.ones(n, dtype=bool), edge)
        if not columns.w.any():
            return None
        objective = solved.objective + self.weights.nu * self.l1
        self.l1 += float(columns.w.sum())
        coefs = columns.coefficients(K if self.shared else None)
        for learner, coef in zip(learners, coefs, strict=True):
            if coef.any():
                add_to(builder, learner, coef)
        builder.end_round()
        # Totally corrective rounds may drop learners, so there importances come from the final model.
        for weak_learner in weak_learners:
            self.add_gain(weak_learner)
        return objective

    def _solve_all(self, weak_learners, edge):
        """Fit the coefficients of all learners; return the objective, or None if all are 0."""
        builder = self.builder
        learners, bits = self._learners(weak_learners)
        indices = builder.add(learners, bits)
        columns = builder.columns()
        is_new = np.zeros(len(builder), dtype=bool)
        is_new[indices] = True
        solved = self._solve(columns, is_new, edge)
        if not columns.w.any():
            builder.truncate_rounds(builder.n_rounds)
            return None
        builder.end_round(columns)
        return solved.objective
