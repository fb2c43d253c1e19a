"""How a user's strictly typed program calls the public names. Checked by mypy, not run."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import StratifiedKFold

from pymcboost import (
    ABCLogitBoostClassifier,
    ABCMartClassifier,
    Checkpoint,
    LogitBoostClassifier,
    MartClassifier,
    MCBoostClassifier,
    Model,
    ModelFormatError,
    SvmlightError,
    VectorTreeBoostClassifier,
    __version__,
    dump_svmlight,
    get_include,
    load_model,
    load_svmlight,
)
from pymcboost.callbacks import (
    Callback,
    LearningRateSchedule,
    LivePlot,
    TimeLimit,
    TrainingLoss,
    TrainingState,
)


def train(path: Path) -> MCBoostClassifier:
    """Read a LIBSVM file and fit it."""
    try:
        data = load_svmlight(path, layout="dense")
    except SvmlightError as error:
        raise SystemExit(f"{path}: {error}") from error
    estimator = MCBoostClassifier(
        loss="log", n_estimators=100, class_weight="balanced", random_state=0
    )
    fitted = estimator.fit(data.X, data.y, sample_weight=np.ones(len(data.y)))
    for prediction in fitted.staged_predict(data.X):
        print(float(np.mean(prediction == data.y)))
    fitted.save(path.with_suffix(".mcb"), layout="interval")
    print(
        fitted.calibrate_on(data.X, data.y).model_.temperature,
        MCBoostClassifier(calibrate="temperature", cv=5),
    )
    return fitted.set_params(learning_rate=0.1)


def train_trees(path: Path, X: NDArray[np.float32], y: NDArray[np.int64]) -> ABCMartClassifier:
    """Every tree learner, and one that goes on where it was stopped."""
    estimators = [
        LogitBoostClassifier(max_depth=6),
        MartClassifier(subsample=0.5),
        ABCLogitBoostClassifier(gap=5),
    ]
    for estimator in estimators:
        importances: NDArray[np.float64] = estimator.fit(X, y).feature_importances_
        print(importances.argmax(), estimator.history_["missing"][-1], estimator.gain_.sum())
    VectorTreeBoostClassifier(loss="softmax", leaf_step="full").fit(X, y).save(path)
    found = VectorTreeBoostClassifier(
        n_estimators="auto", cv=StratifiedKFold(5), scoring="auc_ovr", min_delta=1e-3
    )
    found.fit(X, y, validation_sets={"train": (X, y)}, groups=y)
    print(found.cv_results_["best_round"], found.history_["train_auc_ovr"][-1])
    print(found.oof_decision_function_.shape, found.oof_fold_.max())
    MartClassifier(scoring=["log_loss", make_scorer(accuracy_score)], n_estimators=3)
    MartClassifier(
        scoring={"nll": "log_loss", "right": make_scorer(accuracy_score)}, n_estimators=3
    )
    MartClassifier(scoring=make_scorer(accuracy_score)).fit(
        X, y, X_val=X, y_val=y, sample_weight_val=np.ones(len(y))
    )
    checkpoint = Checkpoint(path, every=60, note=print)
    model = checkpoint.fit(ABCMartClassifier(n_estimators=10_000, n_candidates=3), X, y)
    model.model_.save(path.with_suffix(".mcb"), leaves="float16")
    checkpoint.remove()
    print(checkpoint.resumed, model.model_.n_rounds)
    return model


def train_with_callbacks(X: NDArray[np.float32], y: NDArray[np.int64], axes: object) -> float:
    """Every public callback, and one's own."""

    class Stops(Callback):
        def after_round(self, state: TrainingState) -> bool:
            return state.n_rounds > 100 or state.metrics()["train_error"] == 0

    given = [
        TimeLimit(60),
        LearningRateSchedule(lambda t: 0.1 / (1 + t)),
        TrainingLoss(["error", "log_loss"]),
    ]
    model = VectorTreeBoostClassifier(verbose=True, n_iter_no_change=5, early_stopping=True)
    model.fit(
        X, y, X_val=X, y_val=y, callbacks=[*given, LivePlot(["val_log_loss"], axes=axes), Stops()]
    )
    model = VectorTreeBoostClassifier().fit(X, y, init_model=model).refit_leaves(X, y, decay=0.5)
    leaves: NDArray[np.int32] = model.apply(X)
    indicator, first = model.decision_path(X)
    print(leaves.max(), indicator.sum(), first[-1], model.predict_log_proba(X).min())
    return float(next(model.staged_predict_proba(X))[0, 0] + model.model_.apply(X)[0, 0])


def score(path: Path, rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Load a model file and score rows."""
    try:
        model: Model = load_model(path)
    except ModelFormatError as error:
        raise SystemExit(f"{path}: {error}") from error
    probabilities: NDArray[np.float64] = model.calibrated(rows, model.predict(rows)).predict_proba(
        rows, n_jobs=1
    )
    dump_svmlight(path.with_suffix(".txt"), probabilities, model.predict(rows))
    copy = Model.from_bytes(model.to_bytes())
    return copy.decision_function(rows)


def about() -> str:
    """Version and header folder."""
    return f"{__version__} {get_include()}"
