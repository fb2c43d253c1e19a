"""The interface between an algorithm and the boosting loop: an object that holds the state of one training."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from pymcboost.comm import ALONE
from pymcboost.data.coded import is_coded, scores_of
from pymcboost.model.model import Model
from pymcboost.model.trees import Trees
from pymcboost.threads import threads_for
from pymcboost.training import memory
from pymcboost.training.gains import Gains
from pymcboost.training.meta import shown_own
from pymcboost.training.metrics import LinkAtTemperature


@dataclass(frozen=True)
class Previous:
    """Rounds that a training continues from: a warm start, a checkpoint, or a given model."""

    model: Any
    n_rounds: int
    history: dict[str, list]
    gain: Gains
    kept: dict[str, Any] = field(default_factory=dict)
    # The cross-validation that chose the number of rounds.
    cv_results: dict[str, np.ndarray] | None = None
    # The best round so far, if it is known. `best_model` holds the bytes of its model where cutting off later rounds
    # would not reproduce it.
    best_gain: Gains | None = None
    best_round: int | None = None
    best_model: bytes | None = None
    # What the user asked for, to be named in messages, and the classes of a given model.
    source: str = "warm_start"
    classes: Any = None


class Booster:
    """One training: its data, its weak learners so far, and what a round needs.

    A subclass defines `prepare`, `restart` and `round`, and overrides `rows`, `new_builder`, `link` and `why_ended` if
    necessary. ``params`` holds the parameters of the estimator; ``fixed`` holds values of parameters that the base
    class uses, but this algorithm does not have.

    Parameters
    ----------
    params : dict
    draw_seed : callable, optional
        Draws a seed of the estimator's ``random_state``.
    name : str, optional
        Name of the estimator, for messages.
    comm : Alone or another communicator
        The workers among which the rows are divided.

    Attributes
    ----------
    data : object with n_rows, n_classes, n_features, rows and X
    classes : ndarray (K,)
        Labels, for messages.
    builder : the weak learners of the rounds done
    n_rounds : int
        Rounds done. The loop counts them.
    gain : Gains
        Gains of the splits on every feature; `round` adds to it.
    n_threads : int
    seed : int
    """

    fixed: ClassVar[dict[str, Any]] = {}
    # Descriptions of the values that `round` adds to the history.
    columns: ClassVar[dict[str, str]] = {}
    # Whether missing values are supported.
    allows_missing = True
    # Whether rows may have different weights.
    takes_weights = True
    # Whether binned rows are enough, without the feature values.
    takes_coded = True
    # Whether an interrupted training can continue and give the same bytes.
    resumable = True
    # Whether several trainings can run in threads of one process.
    side_by_side = True
    # Whether rows can have initial scores; `init_score` holds them, (n, K) for all rows of the dataset.
    takes_init_score = False
    init_score = None
    # Whether rows may be divided among workers.
    takes_workers = False
    # Whether the training is multi-label: the codes of the rows are then an indicator matrix (m, K).
    multilabel = False
    # Whether the form of y decides if the training is multi-label.
    labels_by_form = False
    # Whether leaf values can be computed again from the rows in them, with `refit_round`.
    refits = False
    # The usual reason why a training ends before its last round.
    ends_when = "no weak learner has a positive edge"
    # Number of rounds after which the state is rebuilt from the scores, against numerical drift.
    restart_every: int | None = None
    # Whether a temperature from few rows is corrected with a second model.
    corrects_few = False
    # The link function, as the model file names it.
    link = "softmax"
    # The scores are divided by this before the link, if the minimum of the loss requires it.
    link_temperature: float | None = None
    # Categorical features of the rows, if there are any.
    categories = None
    # Names of the columns, if they have any.
    feature_names: list[str] | None = None
    # Parameters that must not change in a warm start.
    must_stay: ClassVar[tuple[str, ...]] = ("weak_learner", "loss", "code", "decoder")

    # With fewer table updates than this, one thread is faster; None means the default of `threads`.
    small_work: int | None = None

    # Whether the training continues from earlier rounds.
    has_rounds = False
    # Whether it adds rounds to a given model (init_model).
    goes_on = False

    def __init__(self, params, draw_seed=None, name="", comm=ALONE):
        self.params = SimpleNamespace(**{**self.fixed, **params})
        self.draw_seed = draw_seed
        self.name = name
        self.workers = comm
        self.n_rounds = 0

    # -- what subclasses may give --------------------------------------------------------------------------------------

    def check(self):
        """Refuse parameters that contradict each other."""

    def takes_labels(self, y):
        """Whether this y makes the training multi-label."""
        return self.multilabel

    def takes_sparse(self):
        """Whether X may be sparse."""
        return True

    def begin_at(self, bias):
        """Start from the bias (K,) of a model, if the algorithm computes a bias itself."""

    def speed_up(self, n_rounds):
        """Take larger steps if this hardly changes the scores; return how many rounds then replace ``n_rounds``."""
        return n_rounds

    def layouts(self):
        """Layouts that the model file can have."""
        return ("list",)

    def rows(self, dataset, n_threads, previous):
        """Return the rows with positive weight of a `TrainingSet`, in the form that the weak learners read."""
        raise NotImplementedError

    def new_builder(self):
        """Return an ensemble builder without weak learners."""
        raise NotImplementedError

    def prepare(self, previous):
        """Create the loss, the learner and the solver."""
        raise NotImplementedError

    def restart(self, scores):
        """Rebuild the weights from raw scores of the training rows, or from zeros if they are None."""
        raise NotImplementedError

    def round(self):
        """Add one round to the builder. Return its history entry, or None if nothing is left to learn."""
        raise NotImplementedError

    def refit_round(self, leaf_of_row, leaves, cls, base, decay):
        """New leaves of the trees of a round, a list as ``leaves`` are; the scores get them.

        Parameters
        ----------
        leaf_of_row : ndarray of int (m, T)
            Leaf of every training row.
        leaves : list of ndarray
            The old ones.
        cls, base : list of int
            As in `Trees`; -1 for none.
        decay : float
            Weight of the old ones.
        """
        raise NotImplementedError

    def why_ended(self):
        """Say why there is no further round."""
        return self.ends_when

    def has_learnt(self):
        """Whether any round so far separates some rows; if none does, the model is constant."""
        return self.n_rounds > 0

    def why_constant(self):
        """The warning for a constant model."""
        return (
            "no weak learner separates the classes at all: the model is constant. Check "
            "whether all features are constant or missing, or whether a limit on the weak "
            "learners is too strict"
        )

    def kept(self):
        """The state that a warm start needs besides the model."""
        return {}

    def meta(self):
        """Entries of the model file besides algorithm, parameters and feature names."""
        return {}

    def auto_values(self):
        """Values that this training uses for parameters set to "auto", by name."""
        return {}

    # Whether each weak learner leaves out some rows, so that the temperature can be computed from `left_out_scores`.
    # Only known after the rows are laid out.
    leaves_rows_out = False

    def follow_left_out(self):
        """Start to collect the scores of left-out rows, before the first round."""

    def left_out_scores(self):
        """Return the `LeftOutScores` of the rounds done."""

    def memory(self):
        """Memory that the rounds need besides the rows, columns and model, as parts: see `training.memory`."""
        return []

    @property
    def threshold(self) -> float | None:
        """Score above which a label is assigned, if it is not 0."""
        return None

    @property
    def probabilities(self):
        """How metrics get probabilities: the name of a link, or a function from scores to log-probabilities."""
        if self.link_temperature is None:
            return self.link
        return LinkAtTemperature(self.link, self.link_temperature)

    # For the metric "loss": computes the losses (m,) of rows from their scores and classes.
    loss_value: Any = None

    # -- what the loop calls -------------------------------------------------------------------------------------------

    def lay_out(self, dataset, n_threads, previous=None):
        """Put the rows into the form that the weak learners read; nothing else is needed of the dataset. Returns self.

        Parameters
        ----------
        dataset : TrainingSet
        n_threads : int
            Most threads; small data take one.
        previous : Previous, optional
        """
        self.classes = dataset.classes
        self.categories = dataset.categories
        self.feature_names = dataset.feature_names
        self.init_score = dataset.init_score
        n_values = dataset.X.shape[0] * dataset.X.shape[1]
        self.data = self.rows(dataset, threads_for(n_values, n_threads), previous)
        n_updates = min(n_values, self.data.n_entries * self.data.n_blocks)
        self.n_threads = threads_for(n_updates, n_threads, self.small_work)
        return self

    def start(self, n_estimators, previous=None, n_validation=0, calibrates=False):
        """Get ready for the first round, or for the next one after those of ``previous``.

        Parameters
        ----------
        n_estimators : int
            Maximum number of rounds, including those of ``previous``.
        previous : Previous, optional
        n_validation : int, default=0
            Rows whose scores will be followed.
        calibrates : bool, default=False
            Whether the scores of rows that are left out are followed, for the temperature.
        """
        self.n_estimators = n_estimators
        self.n_validation = n_validation
        self.calibrates = calibrates
        self.has_rounds = previous is not None
        if previous is not None:
            self.check_previous(previous)
        memory.refuse(self)
        self.builder = self.new_builder()
        if previous is None:
            scores = self.first_scores()
            self.gain = Gains(self.data.n_features)
        else:
            self.gain = previous.gain.copy()
            self.n_rounds = previous.n_rounds
            if previous.best_gain is not None or previous.source == "init_model":
                self._check_form(previous)
            scores = self.go_on(previous)
        self.seed = self.draw_seed()
        self.prepare(previous)
        self.restart(scores)
        if calibrates:
            self.follow_left_out()

    def check_previous(self, previous):
        """Refuse to add to a model that has other weak learners or another loss."""
        stored = previous.model.meta.get("params", {})
        for name in self.must_stay:
            if name not in stored:
                continue
            value = vars(self.params).get(name)
            if name == "loss":
                value = shown_own(value)
            if stored[name] != value:
                raise ValueError(
                    f"{previous.source}: the existing model has {name}={stored[name]!r}, but now it "
                    f"is {value!r}; use the same value, or train a new model"
                )

    def _check_form(self, previous):
        """Refuse rounds of another kind of ensemble, which only a forged file can have."""
        ensembles = [self.builder.current(), previous.model.ensemble]
        if previous.best_model is not None:
            ensembles.append(Model.from_bytes(previous.best_model).ensemble)
        if len({ensemble.form() for ensemble in ensembles}) > 1:
            where = "init_model" if previous.source == "init_model" else "the checkpoint"
            raise ValueError(
                f"the rounds in {where} do not belong to a {self.name}; train a new model "
                "without it"
            )

    def go_on(self, previous):
        """Take over the rounds of a model and return the raw scores of the training rows."""
        self.builder.extend(previous.model.ensemble)
        if is_coded(self.data.X):
            self.data.X.refuse(previous.model.ensemble, previous.source)
        return self.scores()

    def first_scores(self):
        """Initial scores of the training rows (m, K), or None."""
        return None if self.init_score is None else self.init_score[self.data.rows]

    def scores(self):
        """Raw scores of the training rows, by class (m, K) or by column of the code (m, P)."""
        if self.init_score is None:
            return scores_of(self.builder.current().column_scores, self.data.X, self.data.rows)
        scores = self.first_scores().astype(np.float64)
        add_in_order(self.builder.current(), scores, self.data.X, self.data.rows)
        return scores

    def follow(self, validation):
        """Bring the scores of the validation rows up to date."""
        n_added = validation.n_learners
        validation.n_learners = len(self.builder)
        validation.add(self.builder.tail(n_added))

    def cut(self, n_rounds, gain):
        """Go back to the first rounds."""
        self.builder.truncate_rounds(n_rounds)
        self.n_rounds = n_rounds
        self.gain = gain

    def release(self):
        """Release what only the rounds need, after the last one."""

    def model(self, classes, meta):
        """Return the model of the rounds so far."""
        meta = {**meta, **self.meta()}
        model = Model.from_ensemble(self.builder.current(), classes, link=self.link, meta=meta)
        if self.link_temperature is None:
            return model
        return model._with_link_temperature(self.link_temperature)

    # Whether cutting off later rounds gives the model of an earlier one.
    cuts_give_models = True


def add_in_order(ensemble, scores, X, rows):
    """Add the bias and the trees of an ensemble to the scores (m, K) of these rows of X, tree by tree as in training.

    Adding the sum of all trees at once would round differently, and the continued training would give other bytes.
    """
    if not isinstance(ensemble, Trees):
        scores += ensemble.column_scores(X)[rows]
        return
    scores += ensemble.bias
    if not len(ensemble):
        return
    begin = ensemble.offset + np.arange(len(ensemble) + 1)
    t = 0
    for leaves in Model.from_ensemble(ensemble, range(scores.shape[1])).staged_apply(X):
        for leaf in leaves[rows].T:
            value = np.asarray(ensemble.leaf[begin[t] : begin[t + 1]], dtype=np.float64)[leaf]
            if value.ndim == 2:
                scores += value
            else:
                scores[:, ensemble.cls[t]] += value
                if ensemble.base is not None and ensemble.base[t] >= 0:
                    scores[:, ensemble.base[t]] -= value
            t += 1
