"""The training of one model: starts its booster and runs its rounds."""

from pymcboost.training.loop import TrainingState, one_round, train


class Trainer:
    """One model in training. `fit` trains one, and each fold another; they differ in booster and callbacks.

    Parameters
    ----------
    booster : Booster
        Its rows are laid out. It is not yet started.
    n_estimators : int
        Rounds of the whole model, including those of ``previous``.
    previous : Previous, optional
        Rounds to go on from.
    validation : Validation, optional
        Rows whose scores are followed.
    calibrates : bool, default=False
        Whether the booster follows the scores of rows that are left out, for the temperature.
    make_model : callable, optional
        Makes a `Model` of the booster, a number of rounds, and more for its meta.

    Attributes
    ----------
    state : TrainingState
    is_over : bool
        Whether nothing is left to learn.
    """

    def __init__(
        self,
        booster,
        n_estimators,
        *,
        previous=None,
        validation=None,
        calibrates=False,
        make_model=None,
    ):
        n_validation = 0 if validation is None else validation.X.shape[0]
        booster.start(n_estimators, previous, n_validation, calibrates)
        history = {}
        best_gain = None
        if previous is not None:
            history = {name: list(values) for name, values in previous.history.items()}
            best_gain = previous.best_gain
        self.booster = booster
        self.is_over = False
        self.state = TrainingState(
            booster, n_estimators, make_model, history, validation, best_gain
        )

    def run(self, callbacks):
        """Add all rounds, with callbacks after each."""
        train(self.state, callbacks)

    def advance(self, n_rounds, stop):
        """Train up to this number of rounds, if possible, until the event ``stop`` is set."""
        while not self.is_over and self.state.n_rounds < n_rounds and not stop.is_set():
            self.is_over = one_round(self.state)
