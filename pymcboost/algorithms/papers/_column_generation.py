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

# Maximum violation that FCD and L-BFGS-B leave in a round, relative to that of the new learners; not for cold starts.
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

    ``owner`` is its class, -1 for all classes.
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
        integers = (
            np.asarray(part, dtype=np.int64)
            for part in (self.feature, self.nan_left, self.right, self.sign)
        )
        return b"".join(
            [*(part.tobytes() for part in integers), threshold.tobytes(), str(self.owner).encode()]
        )


def add_to(builder, learner, coef):
    """Add a learner to a builder, with its coefficient (for its class) or coefficients (for all classes)."""
    leaf = learner.sign * coef if learner.owner >= 0 else learner.sign[:, None] * coef
    splits = learner.feature, learner.threshold, learner.nan_left, learner.right
    builder.add_tree(*splits, leaf, learner.owner)


def columns_of(learners, bits, coef, n_classes):
    """Learners, outputs and coefficients, (n,) or (n, K) if shared by all classes, in the form for a solver."""
    if coef.ndim == 2:
        return Columns.shared(bits, coef)
    owner = np.array([learner.owner for learner in learners], dtype=np.int64)
    return Columns.of_classes(bits, coef, owner, n_classes)


class CorrectiveBuilder:
    """Weak learners whose coefficients all change in every round.

    Learners whose coefficients have all vanished are dropped at the end of a round; column generation finds them again
    should they be needed.

    Parameters
    ----------
    empty : builder
        A copy of it is filled when the ensemble is asked for.
    n_classes : int
    shared : bool
        Learners have a coefficient in every class.
    kept_rounds : int
        How many rounds back `truncate_rounds` may go.
    repeats : bool, default=False
        Learners may stand in the model several times, with coefficients of their own: a solver that begins at 0 gives
        them more weight in all then.
    """

    def __init__(self, empty, n_classes, shared, kept_rounds, repeats=False):
        self._empty = empty
        self._n_classes = n_classes
        self._shared = shared
        self._kept = kept_rounds
        self._repeats = repeats
        self.learners = []
        self.coef = np.zeros((0, n_classes) if shared else 0)
        self.n_rounds = 0
        self._bits = None
        self._place = {}
        self._past = {0: ([], self.coef)}

    def __len__(self):
        return len(self.learners)

    def add(self, learners, bits):
        """Add learners that are new, with coefficients 0, and return the positions of all; bits: their outputs."""
        if self._bits is None:
            self._bits = np.zeros((16, bits.shape[1]), dtype=np.uint32)
        places = []
        for learner, row in zip(learners, bits, strict=True):
            n = len(self) if self._repeats else self._place.setdefault(learner.key(), len(self))
            places.append(n)
            if n < len(self):
                continue
            if n == len(self._bits):
                room = np.zeros((2 * n, self._bits.shape[1]), dtype=np.uint32)
                room[:n] = self._bits
                self._bits = room
            self._bits[n] = row
            self.learners.append(learner)
        room = np.zeros((len(self) - len(self.coef), *self.coef.shape[1:]))
        self.coef = np.concatenate((self.coef, room))
        return places

    def columns(self):
        """Outputs and coefficients of the learners, in the form for a solver."""
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
            self._place = {learner.key(): n for n, learner in enumerate(self.learners)}
        self.n_rounds += 1
        self._past[self.n_rounds] = (list(self.learners), self.coef)
        self._past.pop(self.n_rounds - self._kept, None)

    def take_over(self, ensemble, n_rounds, X, rows):
        """Continue from a fitted ensemble; ``X[rows]`` are the training rows, in their order."""
        self.remember(ensemble, n_rounds)
        learners, coef = self._past[n_rounds]
        places = []
        for first in range(0, len(learners), OUTPUTS_AT_ONCE):
            part = learners[first : first + OUTPUTS_AT_ONCE]
            places += self.add(part, outputs(part, X, rows, ensemble.n_features))
        # Learners that occur several times in the model are merged, unless repeats are intended.
        np.add.at(self.coef, places, coef)
        self.coef = self.coef.astype(np.float32).astype(np.float64)
        self.n_rounds = n_rounds

    def remember(self, ensemble, n_rounds):
        """Store this ensemble, so that `truncate_rounds` can go back to it."""
        learners = []
        coefs = []
        for feature, threshold, nan_left, right, leaf, owner, _ in ensemble.each_tree():
            leaf = np.asarray(leaf, dtype=np.float64)
            coefs.append(np.abs(leaf[0]))
            sign = np.sign(leaf[:, np.abs(leaf[0]).argmax()] if self._shared else leaf)
            splits = (
                np.array(feature),
                np.array(threshold, dtype=np.float32),
                np.array(nan_left, dtype=bool),
            )
            learners.append(Learner(*splits, np.array(right), sign, owner))
        self._past[n_rounds] = (learners, np.array(coefs).reshape(-1, *self.coef.shape[1:]))

    def validation_scores(self, validation, n_threads):
        """Scores (m, K) of the rows of a `Validation`; equal to the model's up to rounding in float64."""
        X = validation.X
        outputs_of_learner = validation.outputs
        new = [learner for learner in self.learners if learner not in outputs_of_learner]
        for first in range(0, len(new), OUTPUTS_AT_ONCE):
            part = new[first : first + OUTPUTS_AT_ONCE]
            rows = outputs(part, X, slice(None), n_features=X.shape[1])
            for learner, row in zip(part, rows, strict=True):
                outputs_of_learner[learner] = row
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
    return float(
        sum(
            np.abs(np.asarray(leaf[0], dtype=np.float64)).sum()
            for *_, leaf, _, _ in ensemble.each_tree()
        )
    )


def sparsity(ensemble, history, per_learner):
    """Counts of an ensemble's learners and of their coefficients; each learner has ``per_learner`` of them."""
    leaves = [np.abs(leaf[0]) for *_, leaf, _, _ in ensemble.each_tree()]
    coefficients = np.array(leaves).reshape(-1, per_learner)
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
        """See `Booster`; False if every round changes all coefficients."""
        return self.stagewise

    @property
    def restart_every(self):
        """See `Booster`; None if every round computes the weights from the coefficients anyway."""
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
        kept = 2 + (p.n_iter_no_change if p.early_stopping else 0)
        return CorrectiveBuilder(
            super().new_builder(),
            self.data.n_classes,
            self.shared,
            kept_rounds=kept,
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
        """See `Booster.go_on`; totally corrective rounds compute the weights from the coefficients."""
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
        # The factor C / p of the loss, where p is the weight of all (row, other class) pairs, becomes nu = p / C of
        # the norm.
        nu = float(data.weight.sum()) * (data.n_classes - 1) / p.C
        if self.solver_name == "fcd":
            self.weights = self.solver = FCD(PAIRWISE["exp"], data, nu, n_threads=self.n_threads)
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
        """See `Booster.memory`: float64 weights and scores, gradients, and the outputs of one or of all rounds."""
        data = self.data
        K = self.data.n_classes
        learners = (1 if self.shared else K) * (1 if self.stagewise else self.n_estimators)
        small = self.solver_name == "fcd" and data.n_rows > LARGE_DATA
        size = (12 if small else 16) * data.n_rows * K
        scores = memory.Part(
            f"the weights and scores of {data.n_rows} rows and {K} classes", size, memory.FEWER
        )
        # Temporary, when training continues from a model, and while outputs are packed into bits.
        passing = data.n_rows * max(8 * OUTPUTS_AT_ONCE, 0 if self.shared else 3 * K)
        size = data.n_rows * (learners // 8)
        if not self.stagewise:  # outputs and scores of the validation rows
            size += self.n_validation * (learners // 8 + 16 * K + 8 * OUTPUTS_AT_ONCE)
        remedy = "a smaller n_estimators, fewer rows"
        if self.solver_name == "fcd" and not self.stagewise:
            remedy = f"max_passes=1, which keeps no outputs, {remedy}"
        purpose = f"the outputs of {learners} weak learners on {data.n_rows} rows of {K} classes"
        return [
            scores,
            memory.weights(data, K),
            memory.Part(purpose, size, remedy, passing),
            *self.learner_memory(),
        ]

    def restart(self, scores):
        """Compute the weights for these scores."""
        self.weights.start(None if scores is None else scores.T)
        self.objective = self.weights.loss() + self.weights.nu * self.l1

    def why_ended(self):
        """See `Booster.why_ended`: a change, a coefficient or an edge was too small."""
        if self.converged:
            return "a round changed the objective by no more than tol"
        if self.stayed:
            return STAYED
        return "no weak learner has an edge above p/C"

    def why_constant(self):
        """See `Booster.why_constant`; says what to do."""
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
        """See `Booster.meta`: rounds that change all coefficients are not stages."""
        return {} if self.stagewise else {"stages": False, "rounds": self.n_rounds}

    def follow(self, validation):
        """See `Booster.follow`; if all coefficients change, scores are computed from all learners."""
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

    def _solve(self, columns, fresh, edge):
        return self.solver.solve(
            columns,
            fresh=columns.spread(fresh),
            max_passes=self.params.max_passes,
            tol=SOLVER_TOLERANCE,
            first=edge - self.weights.nu,
            seed=self.seed + SEED_STEP * (self.n_rounds + 1),
        )

    def _learners(self, weak_learners):
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
        for learner, coef in zip(
            learners, columns.coefficients(K if self.shared else None), strict=True
        ):
            if coef.any():
                add_to(builder, learner, coef)
        builder.end_round()
        # Only here: other trainings may drop learners, so importances come from the final model.
        for weak_learner in weak_learners:
            self.add_gain(weak_learner)
        return objective

    def _solve_all(self, weak_learners, edge):
        """Fit the coefficients of all learners; return the objective, or None if all are 0."""
        builder = self.builder
        places = builder.add(*self._learners(weak_learners))
        columns = builder.columns()
        fresh = np.zeros(len(builder), dtype=bool)
        fresh[places] = True
        solved = self._solve(columns, fresh, edge)
        if not columns.w.any():
            builder.truncate_rounds(builder.n_rounds)
            return None
        builder.end_round(columns)
        return solved.objective
