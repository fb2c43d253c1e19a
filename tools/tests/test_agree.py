"""tools/agree.py: cases are drawn from their numbers, and each pair of paths reports a fault that is planted for it."""

import dataclasses
import itertools

import agree
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from divided.threads import ThreadWorkers

import pymcboost
from pymcboost import Checkpoint, Dataset, Model
from pymcboost.training.estimator import EnsembleClassifier

# -- faults ------------------------------------------------------------------------------------------------------------
# Each takes pytest's monkeypatch and does something small to one of the two paths.


def in_fit(when, change):
    """A fault in the arguments of fit: ``change(X, y, fit_options)`` replaces X and y.

    Only the fits for which ``when(estimator, X, y, fit_options)`` holds are changed.
    """

    def plant(monkeypatch):
        original = EnsembleClassifier.fit

        def fit(self, X, y=None, **options):
            if when(self, X, y, options):
                X, y = change(X, y, options)
            return original(self, X, y, **options)

        monkeypatch.setattr(EnsembleClassifier, "fit", fit)

    return plant


# Changes for `in_fit`: they return X and y, and may change other arguments of fit in place. With a Dataset y is None.


def other_value(X, y, fit_options):
    """The first row has another value in all columns."""
    X = np.array(X, dtype=float)
    X[0] = 5
    return X, y


def other_label(X, y, fit_options):
    """The first row has the label of the last one."""
    y = y.copy()
    y[0] = y[-1] if y[-1] != y[0] else y[len(y) // 2]
    return X, y


def without_last_row(X, y, fit_options):
    """The last row is lost."""
    if "sample_weight" in fit_options:
        fit_options["sample_weight"] = fit_options["sample_weight"][:-1]
    return X[:-1], y[:-1]


def without_an_entry(X, y, fit_options):
    """The largest entry of a sparse matrix is lost."""
    X = X.copy()
    X.data[np.abs(X.data).argmax()] = 0
    return X, y


def one_level_less(X, y, fit_options):
    """Two levels of the first column are one."""
    X = X.copy()
    X.iloc[:, 0] = X.iloc[:, 0].replace("blue", "green")
    return X, y


def dataset_without_last_row(X, y, fit_options):
    """The last row of a Dataset is lost."""
    return X.subset(slice(0, len(X) - 1)), None


def of_at_most_two(X, y, fit_options):
    """No row weighs more than 2."""
    fit_options["sample_weight"] = np.minimum(fit_options["sample_weight"], 2)
    return X, y


def other_scores(X, y, fit_options):
    """Half of the scores at which rows begin."""
    fit_options["init_score"] = fit_options["init_score"] / 2
    return X, y


def moved(model):
    """The model with one threshold moved."""
    ensemble = model.ensemble
    threshold = getattr(ensemble, "threshold", np.zeros(0))
    if not len(threshold):
        return model
    threshold = threshold.copy()
    threshold[0] += 1
    return model._changed(dataclasses.replace(ensemble, threshold=threshold))


def loaded_moved(monkeypatch):
    """A file is loaded with one threshold moved."""
    load = pymcboost.load_model
    monkeypatch.setattr(pymcboost, "load_model", lambda path: moved(load(path)))


def written_moved(name):
    """An export writes one threshold moved."""
    original = getattr(agree, name)
    return lambda monkeypatch: monkeypatch.setattr(
        agree, name, lambda model: original(moved(model))
    )


def read_moved(name):
    """A model of another library is read with one threshold moved."""
    original = getattr(agree, name)
    return lambda monkeypatch: monkeypatch.setattr(
        agree, name, lambda source: moved(original(source))
    )


def in_layout(layout):
    """Bytes of a layout have one threshold moved."""

    def plant(monkeypatch):
        original = Model.to_bytes

        def to_bytes(self, layout_=None, leaves=None, **options):
            wanted = options.get("layout", layout_)
            return original(moved(self) if wanted == layout else self, wanted, leaves)

        monkeypatch.setattr(Model, "to_bytes", to_bytes)

    return plant


def sum_without_a_worker(monkeypatch):
    """The last worker's part is missing in all sums."""
    original = ThreadWorkers.sum

    def incomplete(self, array, sure=False):
        if self.rank == self.size - 1:
            array[...] = 0
        return original(self, array, sure)

    monkeypatch.setattr(ThreadWorkers, "sum", incomplete)


def one_round_more(monkeypatch):
    """A model is cut one round too late."""
    original = Model.truncate
    monkeypatch.setattr(
        Model, "truncate", lambda self, n: original(self, min(n + 1, self.n_rounds))
    )


def resumed_moved(monkeypatch):
    """The rounds in a checkpoint are read with one threshold moved."""
    original = Checkpoint.resume

    def resume(self, plan):
        previous = original(self, plan)
        return (
            previous
            if previous is None
            else dataclasses.replace(previous, model=moved(previous.model))
        )

    monkeypatch.setattr(Checkpoint, "resume", resume)


def scores_in_float(monkeypatch):
    """The C program rounds the first score to float."""
    text = agree.C_SOURCE.replace("return status;", "scores[0] = (float)scores[0]; return status;")
    monkeypatch.setattr(agree, "C_SOURCE", text)
    agree.scorer.cache_clear()


def without_a_class(monkeypatch):
    """Integers in C never give the second class."""
    original = agree.to_integer_c
    monkeypatch.setattr(
        agree, "to_integer_c", lambda model: original(model).replace("for (k = 1;", "for (k = 2;")
    )


def is_odd_form(estimator, X, y, fit_options):
    return not isinstance(X, np.ndarray) or X.dtype != np.float64 or not X.flags.c_contiguous


def is_sparse(estimator, X, y, fit_options):
    return scipy.sparse.issparse(X) and len(X.data)


def has_other_names(estimator, X, y, fit_options):
    return y.dtype.kind == "U" or y.min() < 0


def rows_again(X, y, fit_options):
    """The first nine rows are there twice."""
    if "sample_weight" in fit_options:
        fit_options["sample_weight"] = np.concatenate(
            [fit_options["sample_weight"], fit_options["sample_weight"][:9]]
        )
    return np.concatenate([X, X[:9]]), np.concatenate([y, y[:9]])


def first_class_heavier(X, y, fit_options):
    """Rows of the first class weigh twice as much."""
    fit_options["sample_weight"] = fit_options["sample_weight"] * np.where(y == 0, 2, 1)
    return X, y


def rounded(X, y, fit_options):
    """Values are rounded to integers."""
    return np.round(X), y


def always(estimator, X, y, fit_options):
    return True


few_weights = in_fit(
    lambda estimator, X, y, fit_options: "sample_weight" in fit_options, of_at_most_two
)
lost_entry = in_fit(is_sparse, without_an_entry)
lost_row = in_fit(
    lambda estimator, X, y, fit_options: isinstance(X, Dataset), dataset_without_last_row
)
doubled = in_fit(always, rows_again)

FAULTS = {
    "forms of X": in_fit(is_odd_form, other_value),
    "sparse": lost_entry,
    "sparse, sums in order": lost_entry,
    "frame": in_fit(lambda estimator, X, y, fit_options: isinstance(X, pd.DataFrame), other_value),
    "text": in_fit(
        lambda estimator, X, y, fit_options: isinstance(X, pd.DataFrame), one_level_less
    ),
    "Dataset": lost_row,
    "blocks": lost_row,
    "threads": in_fit(lambda estimator, X, y, fit_options: estimator.n_jobs > 1, without_last_row),
    "workers": sum_without_a_worker,
    "sparse workers": sum_without_a_worker,
    "repeated rows": few_weights,
    "permuted rows": doubled,
    "permuted rows, sums in order": doubled,
    "many permuted rows": doubled,
    "renamed labels": in_fit(has_other_names, other_label),
    "permuted classes": in_fit(always, first_class_heavier),
    "scaled columns": in_fit(always, rounded),
    "first rounds": one_round_more,
    "warm start": in_fit(
        lambda estimator, X, y, fit_options: hasattr(estimator, "model_"), other_label
    ),
    "init_model": in_fit(
        lambda estimator, X, y, fit_options: "init_model" in fit_options, other_label
    ),
    "init_score": in_fit(
        lambda estimator, X, y, fit_options: "init_score" in fit_options, other_scores
    ),
    "resumed": resumed_moved,
    "loaded": loaded_moved,
    "packed": in_layout("packed"),
    "table": in_layout("interval"),
    "mcb.h": scores_in_float,
    "integers": without_a_class,
    "onnx": written_moved("to_onnx"),
    "treelite": written_moved("to_treelite"),
    "LightGBM": read_moved("from_lightgbm"),
    "XGBoost": read_moved("from_xgboost"),
    "scikit-learn": read_moved("from_sklearn"),
}


def cases_of(name, most):
    """The first cases of a pair."""
    return list(
        itertools.islice((case for case in map(agree.draw, range(5000)) if case.pair == name), most)
    )


def test_every_pair_has_a_fault():
    assert set(FAULTS) == set(agree.BY_NAME)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_reported(name, monkeypatch, capsys):
    if agree.BY_NAME[name].needs is not None:
        pytest.importorskip(agree.BY_NAME[name].needs)
    cases = cases_of(name, 8)
    assert {agree.difference(case) for case in cases} <= {None, *agree.NOTHING_SAID}
    with monkeypatch.context() as patch:
        FAULTS[name](patch)
        differences = [str(agree.difference(case)) for case in cases]
    agree.scorer.cache_clear()
    # By what the models say, not by an error somewhere.
    assert any("differ" in text for text in differences), differences


def test_a_case_is_drawn_from_its_number_alone():
    for number in range(50):
        case = agree.draw(number)
        assert case == agree.draw(number)
        first, second = agree.data_of(case), agree.data_of(case)
        np.testing.assert_array_equal(first.X, second.X)
        np.testing.assert_array_equal(first.y, second.y)
        assert len(np.unique(first.y)) == case.n_classes


def test_all_algorithms_and_pairs_are_drawn():
    cases = [agree.draw(number) for number in range(2000)]
    assert {case.algorithm for case in cases} == agree.ALL
    assert {case.pair for case in cases} == set(agree.BY_NAME)
    drawn = set().union(*(case.params for case in cases))
    assert drawn >= set(agree.VALUES)


def test_differences_are_printed_and_made_smaller(monkeypatch, capsys):
    case = cases_of("threads", 1)[0]
    FAULTS["threads"](monkeypatch)
    monkeypatch.setattr("sys.argv", ["agree.py", "--case", str(case.number)])
    assert agree.main() == 1
    text = capsys.readouterr().out
    assert text.startswith(f"case {case.number}: ") and f"    algorithm: {case.algorithm}\n" in text
    rounds = [int(line.split()[1]) for line in text.splitlines() if "n_rounds" in line]
    assert rounds[1] <= rounds[0] == case.n_rounds


def test_without_a_difference(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["agree.py", "--count", "20"])
    assert agree.main() == 0
    assert capsys.readouterr().out.startswith("20 cases, ")
