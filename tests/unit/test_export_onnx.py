"""Models in ONNX, as ONNX Runtime scores them; skipped where the packages are missing."""

import re
import sys

import numpy as np
import pytest
from reference.scoring import (
    finite_rows,
    random_kernel,
    random_linear,
    random_rows,
    random_stumps,
    random_trees,
)

from pymcboost import Model
from pymcboost.data.svmlight import CompressedRows
from pymcboost.export import forest, to_onnx
from pymcboost.export.forest import errors_of

TEXT = ["a", "b", "c ü", "d"]


def outputs(model, X):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    data = to_onnx(model)
    session = runtime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    props = {prop.key: prop.value for prop in onnx.load_from_string(data).metadata_props}
    return dict(zip(names, session.run(None, {"X": X}), strict=True)), float(
        props.get("score_error", "nan")
    )


@pytest.mark.parametrize(
    "mode", ["scalar", "base", "vector", "code", "stumps", "stumps of two sides", "no tree"]
)
@pytest.mark.parametrize("link", ["none", "softmax", "softmax2"])
def test_trees(mode, link):
    if mode == "no tree":
        ensemble = random_trees(0, 5, 4, mode="vector")
    elif mode.startswith("stumps"):
        ensemble = random_stumps(60, 5, 4, two_sided=mode != "stumps")
    else:
        ensemble = random_trees(20, 5, 4, mode=mode, few_thresholds=mode == "base")
    model = Model.from_ensemble(ensemble, TEXT if mode == "vector" else [-3, 0, 7, 9], link=link)
    model = model.with_temperature(1.7) if mode == "scalar" else model
    X = random_rows(500, 5)
    actual, error = outputs(model, X)
    expected = model.raw_scores(X)
    assert np.abs(actual["scores"] - expected).max() <= error < 1e-3
    best = np.sort(expected, axis=1)
    apart = best[:, -1] - best[:, -2] > 2 * error
    assert apart.mean() > 0.98 and (actual["label"] == model.predict(X))[apart].all()
    assert ("probabilities" in actual) == model.has_probabilities
    if model.has_probabilities:
        np.testing.assert_allclose(actual["probabilities"], model.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("k, d", [(2, 3), (10, 37)])
def test_linear_machines(k, d):
    model = Model.from_ensemble(random_linear(d, k), range(k))
    X = finite_rows(200, d)
    found, _ = outputs(model, X)
    assert (np.abs(found["scores"] - model.raw_scores(X)).max(axis=1) <= errors_of(model, X)).all()
    assert (found["label"] == model.predict(X)).mean() > 0.99


@pytest.mark.parametrize("block", [1 << 22, 1000])
def test_bound_of_linear_machines(block, monkeypatch):
    monkeypatch.setattr(forest, "BLOCK", block)
    ensemble = random_linear(300, 3)
    X = finite_rows(50, 300)
    model = Model.from_ensemble(ensemble, range(3))
    bound = errors_of(model, X)
    expected = model.raw_scores(X)
    for order in (slice(None), slice(None, None, -1)):  # one product after the other
        terms = X[:, None, order] * ensemble.coef[:, order]
        actual = ensemble.bias + np.cumsum(terms, axis=2, dtype=np.float32)[:, :, -1]
        assert actual.dtype == np.float32
        apart = np.abs(actual - expected).max(axis=1)
        assert (apart <= bound).all() and (apart > bound / 1e4).any()
    size = (np.abs(X.astype(float))[:, None] * np.abs(ensemble.coef.astype(float))).sum(
        axis=2
    ) + np.abs(ensemble.bias)
    np.testing.assert_allclose(bound, 302 * 2.0**-24 * size.max(axis=1), rtol=1e-4)
    rows, columns = np.nonzero(X)
    sparse = CompressedRows(
        X[rows, columns], columns, np.searchsorted(rows, np.arange(51)), shape=X.shape
    )
    np.testing.assert_allclose(errors_of(model, sparse), bound, rtol=1e-12)
    assert np.isnan(errors_of(model, np.full((1, 300), np.nan, np.float32))).all()


def test_what_onnx_cannot_hold():
    for model, what in (
        (Model.from_ensemble(random_kernel(5, 3, 2), [0, 1]), "has kind 6: kernel machine"),
        (
            Model.from_ensemble(random_stumps(5, 3, 2), [0, 1], layout="interval"),
            "has kind 2: interval table",
        ),
        (Model.from_ensemble(random_trees(5, 3, 4, mode="hamming"), range(4)), "decoder='hamming'"),
    ):
        with pytest.raises(ValueError, match=re.escape(what)):
            to_onnx(model)


def test_temperatures_that_float32_cannot_divide_by_are_refused():
    model = Model.from_ensemble(random_trees(5, 4, 3, mode="vector"), range(3), link="softmax")
    with pytest.raises(ValueError, match="temperature 1e-40 is below 1e-30"):
        to_onnx(model.with_temperature(1e-40))
    X = finite_rows(9, 4)
    assert np.isfinite(outputs(model.with_temperature(1e-30), X)[0]["probabilities"]).all()


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match="pip install 'pymcboost\\[onnx\\]'"):
        to_onnx(Model.from_ensemble(random_linear(3, 2), [0, 1]))
