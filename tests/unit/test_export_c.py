"""Models as C: compiled without a warning, with the bits of ``mcb.h``; and in integers."""

import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from reference.scoring import finite_rows, random_kernel, random_linear, random_rows, random_stumps, random_trees

from pymcboost import MCBoostClassifier, Model, VectorTreeBoostClassifier
from pymcboost.export import integer_labels, to_c
from pymcboost.model.builders import EnsembleBuilder, TreesBuilder

STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-O2"]
MAIN = """
#include <stdio.h>
int main(int argc, char **argv) {
    INPUT x[D];
    SUM f[K];
    int i;
    for (i = 0; i < K && argc > 1 && argv; i++) printf(LABEL "\\n", m_label(i));
    while (argc == 1 && fread(x, sizeof x, 1, stdin) == 1) {
        m_scores(x, f);
        i = m_predict(x);
        fwrite(f, sizeof f, 1, stdout);
        fwrite(&i, sizeof i, 1, stdout);
    }
    return 0;
}
"""


def compiled(model, folder, header=False, **how):
    """Functions of the generated C: scores and classes of rows, and its labels."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    text = to_c(model, "m", header=header, **how)
    given, total = re.search(r"m_scores\(const (\w+) \*x, (\w+) \*scores\);", text).groups()
    whole = model.classes_.dtype.kind in "iu"
    words = {"INPUT": given, "SUM": total, "D": model.n_features_in_, "K": model.n_classes_}
    words["LABEL"] = '"%lld"' if whole else '"%s"'
    main = MAIN.replace("m_label(i)", "(long long)m_label(i)") if whole else MAIN
    main = re.sub(r"\b(INPUT|SUM|D|K|LABEL)\b", lambda found: str(words[found[1]]), main)
    declared = "\n".join(line for line in text.splitlines() if re.match(r"(void|int|const char|int64_t).*;$", line))
    (folder / "m.h").write_text(text if header else f"#include <stdint.h>\n{declared}\n")
    (folder / "main.c").write_text(f'#include "m.h"\n{main}')
    (folder / "m.c").write_text("int nothing;\n" if header else text)
    command = ["gcc", *STRICT, folder / "m.c", folder / "main.c", "-o", folder / "program"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    kinds = {"float": np.float32, "double": np.float64}
    given, total = (kinds.get(name, name.removesuffix("_t")) for name in (given, total))

    def score(X):
        rows = X.astype(np.float32).view(np.uint32) if given == "uint32" else X.astype(given)
        done = subprocess.run([folder / "program"], input=rows.tobytes(), capture_output=True, check=True, timeout=60)
        found = np.frombuffer(done.stdout, [("scores", total, model.n_classes_), ("best", np.int32)])
        return found["scores"], found["best"]

    labels = subprocess.run([folder / "program", "labels"], capture_output=True, check=True, timeout=60).stdout.decode()
    return score, labels.splitlines()


def models():
    yield from ((f"stumps {two}", random_stumps(60, 5, 3, two, few_thresholds=two)) for two in (False, True))
    yield "no stump", EnsembleBuilder(2, 1).freeze()
    yield "no tree", TreesBuilder(3, 2).freeze()
    for mode in ("scalar", "base", "vector", "code", "hamming"):
        yield mode, random_trees(20, 6, 4, mode, few_thresholds=mode == "base")
    yield "wide", random_trees(9, 300, 4, "scalar", splits=(0, 300))
    yield from ((f"linear {d}", random_linear(d, k)) for k, d in ((2, 3), (10, 37), (3, 8)))


MODELS = dict(models())


@pytest.mark.parametrize(("mode", "k", "d"), [("vector", 4, 300), ("scalar", 4, 6), ("vector", 2, 1), ("scalar", 3, 2)])
@pytest.mark.parametrize("whole", [False, True])
def test_bits_of_packed_trees(mode, k, d, whole, tmp_path):
    trees = random_trees(20, d, k, mode, splits=(1, 1) if d == 1 else (0, 9))
    if whole:
        trees = replace(trees, threshold=np.rint(trees.threshold * 2) / 2, nan_left=np.zeros_like(trees.nan_left))
    model = Model.from_ensemble(trees, range(k), layout="packed", leaves="int8")
    X, score = random_rows(60, d), compiled(model, tmp_path)[0]
    scores, best = score(X)
    assert scores.tobytes() == model.raw_scores(X).tobytes()
    assert best.tolist() == model.predict_codes(X).tolist()
    text = to_c(model, "m")
    assert ("_t m_threshold" in text) == whole
    assert "m_bits" in text and "m_bits" not in to_c(Model.from_bytes(model.to_bytes("list")), "m")


@pytest.mark.parametrize("layout", ["packed", "tight"])
@pytest.mark.parametrize("exponent", [-7, -20])
def test_small_leaves_of_packed_trees(exponent, layout, tmp_path):
    trees = random_trees(40, 6, 4, "vector", splits=(3, 9))
    trees = replace(trees, leaf=trees.leaf * np.float32(2.0**exponent), bias=np.zeros_like(trees.bias))
    model = Model.from_ensemble(trees, range(4), layout=layout, leaves="int8")
    X, score = random_rows(60, 6), compiled(model, tmp_path)[0]
    assert score(X)[0].tobytes() == model.raw_scores(X).tobytes()
    assert re.search(r"m_value\[.*\] \* [0-9.e-]+;", to_c(model, "m"))


def test_names_that_differ_in_case_are_two(tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    for name, ensemble in (("Leaf", random_stumps(5, 3, 2)), ("leaf", random_trees(5, 3, 4, "vector"))):
        model = Model.from_ensemble(ensemble, range(ensemble.n_classes))
        (tmp_path / f"{name}_.h").write_text(to_c(model, name, header=True))
    main = "int main(void) { float x[3] = {0, 0, 0}; return Leaf_predict(x) + leaf_predict(x) < 0; }\n"
    (tmp_path / "main.c").write_text(f'#include "Leaf_.h"\n#include "leaf_.h"\n{main}')
    command = ["gcc", "-std=c99", "-Wall", "-Wextra", "-c", tmp_path / "main.c", "-o", tmp_path / "main.o"]
    assert subprocess.run(command, capture_output=True, text=True).stderr == ""


@pytest.mark.parametrize("name", ["MY_NAME", "SUM", "INPUT", "VALUE", "CLASSES", "THRESHOLD", "while", "int"])
@pytest.mark.part(2)
def test_any_name_can_begin_those_in_c(name, tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    stumps = Model.from_ensemble(random_stumps(5, 3, 2, True), [0, 1])
    trees = Model.from_ensemble(random_trees(5, 3, 4, "vector"), range(4))
    packed = Model.from_bytes(trees.to_bytes("packed", "int8"))
    for number, (model, how) in enumerate((m, h) for m in (stumps, trees, packed) for h in ({}, {"integer": "int8"})):
        text = to_c(model, name, **how)
        assert f"_{name}" not in text
        (tmp_path / f"{number}.c").write_text(text)
        command = ["gcc", *STRICT, "-c", tmp_path / f"{number}.c", "-o", tmp_path / "m.o"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:3000]


@pytest.mark.parametrize("name", MODELS)
def test_bits_of_the_scores(tmp_path, name):
    ensemble = MODELS[name]
    labels = range(-1, ensemble.n_classes - 1) if name in ("base", "no tree") else [
        f'{i} "\\n"??/ü' for i in range(ensemble.n_classes)
    ]  # fmt: skip
    check(tmp_path, Model.from_ensemble(ensemble, labels), header=name in ("vector", "stumps True"))


@pytest.mark.parametrize("layout", ["interval", "interval32"])
def test_interval_tables(tmp_path, layout):
    check(tmp_path, Model.from_ensemble(random_stumps(60, 5, 3, True), [-(1 << 63), 0, 1 << 40], layout=layout))


def test_leaves_of_16_bits(tmp_path):
    check(tmp_path, Model.from_ensemble(MODELS["vector"], range(4), leaves="float16"))


def check(folder, model, **how):
    X = np.vstack((random_rows(300, model.n_features_in_), finite_rows(40, model.n_features_in_)))
    score, labels = compiled(model, folder, **how)
    scores, best = score(X)
    rows = X if not model.is_machine else X[np.isfinite(X).all(axis=1)]
    expected = model.raw_scores(rows)
    if model.is_machine:
        finite = np.isfinite(X).all(axis=1)
        assert np.isnan(scores[~finite]).all() and not best[~finite].any()
        scores, best = scores[finite], best[finite]
    assert scores.tobytes() == expected.tobytes()
    assert (best == model.predict_codes(rows)).all()
    assert labels == [str(label) for label in model.classes_]


@pytest.mark.parametrize("kind", ["int8", "int16", "int32"])
@pytest.mark.parametrize("name", ["stumps False", "stumps True", "no tree", "base", "vector", "scalar", "code"])
@pytest.mark.part(2)
def test_integers(tmp_path, name, kind):
    """Sums of the rounded leaves, on every row, those with missing and infinite values too."""
    ensemble = MODELS[name]
    if ensemble.code is not None:
        ensemble = replace(ensemble, code=np.sign(ensemble.code))
    model = Model.from_ensemble(ensemble, range(ensemble.n_classes))
    X = random_rows(300, model.n_features_in_)
    score, _ = compiled(model, tmp_path, integer=kind)
    text = to_c(model, integer=kind, rows=X)
    assert not re.search(r"float\b(?!32|ing)|double", text)
    assert f"const {kind}_t model_value[" in text
    scores, best = score(X)
    scale = float(re.search(r"A score of 1 is (\S+) here", text)[1])
    bound = int(re.search(r"No sum leaves \+-(\d+)", text)[1])
    learners, raw = model.n_learners + 1, model.raw_scores(X)
    assert np.abs(scores / scale - raw).max() <= 0.51 * learners / scale + 1e-7 * np.abs(raw).max()
    assert np.abs(scores.astype(np.int64)).max() <= bound < 1 << 31
    assert (best == integer_labels(model, kind, X)).all()
    unequal = int((best != model.predict_codes(X)).sum())
    assert f"Of 300 rows, {unequal} (" in text
    assert unequal == 0 or kind == "int8"


@pytest.mark.parametrize("entries", [1, 2, 4])
def test_tight_leaves(tmp_path, entries):
    """Numbers that stand for the values of some classes, or of all."""
    trees = random_trees(30, 9, 4, "vector", splits=(0, 9))
    there = (np.arange(4) + np.arange(len(trees.leaf))[:, None]) % 5 < entries
    model = Model.from_ensemble(replace(trees, leaf=np.sign(trees.leaf) * there), range(4), layout="tight")
    assert model._sections()["PACK"][31] == entries
    check(tmp_path, model)


def test_masks_where_an_int_has_16_bits(tmp_path):
    rng = np.random.default_rng(0)
    trees = random_trees(40, 9, 10, "vector", splits=(3, 9))
    trees = replace(trees, leaf=rng.integers(-1, 2, size=trees.leaf.shape) / np.float32(2))
    model = Model.from_ensemble(trees, range(10), layout="tight")
    text = to_c(model, integer="int8", rows=rng.integers(-2, 3, size=(9, 9)))
    assert int(re.search(r"model_leaf, leaf \* (\d+)", text)[1]) >= 16
    assert "1u <<" not in text
    ask = ["clang", "--print-targets"]
    if not shutil.which("clang") or b" avr " not in subprocess.run(ask, capture_output=True).stdout:
        pytest.skip("clang for AVR is not installed")
    (tmp_path / "m.c").write_text(text)
    command = ["clang", "--target=avr", "-mmcu=atmega328p", "-ffreestanding", "-O0", "-S", "-emit-llvm", "-o", "-"]
    done = subprocess.run([*command, tmp_path / "m.c"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    assert "shl i32" in done.stdout and "shl i16" not in done.stdout


@pytest.mark.parametrize("given", ["uint32", "int8"])
@pytest.mark.parametrize("mode", ["vector", "scalar"])
@pytest.mark.parametrize("layout", ["packed", "tight"])
def test_packed_trees_in_integers(tmp_path, layout, mode, given):
    """The integers of the same trees as a list, and neither a float nor a double."""
    trees = random_trees(30, 300, 4, mode, splits=(0, 9))
    packed = Model.from_ensemble(trees, range(4), layout=layout, leaves="int8")
    plain = Model.from_bytes(packed.to_bytes("list"))
    X = random_rows(300, 300) if given == "uint32" else np.random.default_rng(0).integers(-2, 3, size=(300, 300))
    rows = {} if given == "uint32" else {"rows": X}
    assert packed.ensemble.nan_left.any()
    text = to_c(packed, integer="int8", **rows)
    assert "model_bits" in text and f"const {given}_t *x" in text
    assert not re.search(r"float\b(?!32|ing)|double", text)
    results = [compiled(one, tmp_path, integer="int8", **rows)[0](X) for one in (packed, plain)]
    assert results[0][0].tolist() == results[1][0].tolist()
    assert (results[0][1] == integer_labels(packed, "int8", X)).all()


@pytest.mark.parametrize(
    "low, high, type_",
    [
        (0, 200, "uint8"), (-100, 100, "int8"), (0, 60000, "uint16"), (-300, 3, "int16"), (0, 1e6, "int32"),
        (0, 2**24 - 1, "int32"), (0, 2**24, "uint32"), (-6e7, 0, "uint32"), (0, 2**31, "uint32"),
    ],
)  # fmt: skip
def test_features_that_are_integers(tmp_path, low, high, type_):
    rng = np.random.default_rng(0)
    X = np.round(rng.uniform(low, high, size=(400, 4))).astype(np.float32)
    X[0, 0], X[0, 1] = low, high
    y = (X[:, 0] > np.median(X[:, 0])) + (X[:, 1] + X[:, 2] > high + low)
    model = VectorTreeBoostClassifier(n_estimators=15, min_samples_leaf=1).fit(X, y).model_
    score, _ = compiled(model, tmp_path, integer="int16", rows=X)
    scores, best = score(X)
    assert f"const {type_}_t *x" in to_c(model, integer="int16", rows=X)
    assert (best == integer_labels(model, "int16", X)).all()
    assert (best != model.predict_codes(X)).mean() < 0.01


@pytest.mark.parametrize("name", ["scalar", "stumps False"])
def test_thresholds_between_integers(tmp_path, name):
    model = Model.from_ensemble(MODELS[name], range(MODELS[name].n_classes))
    X = np.random.default_rng(0).integers(-2, 3, size=(300, model.n_features_in_))
    assert (model.ensemble.threshold != np.rint(model.ensemble.threshold)).any()
    scores, best = compiled(model, tmp_path, integer="int32", rows=X)[0](X)
    np.testing.assert_allclose(scores / scores.max(), model.raw_scores(X) / model.raw_scores(X).max(), atol=1e-6)
    assert (best == model.predict_codes(X)).all()


def test_sparse_rows():
    sparse = pytest.importorskip("scipy.sparse")
    model, X = Model.from_ensemble(MODELS["scalar"], range(4)), np.arange(12).reshape(2, 6) % 5
    assert to_c(model, integer="int8", rows=sparse.csr_matrix(X)) == to_c(model, integer="int8", rows=X)


def test_sums_at_the_edge_of_32_bits(tmp_path):
    """The scale leaves room for every rounding."""
    builder = TreesBuilder(2, 1)
    for _ in range(3000):
        builder.add_tree([0], [0.0], [False], [1], [0.7, -0.7], 0)
    builder.end_round()
    model = Model.from_ensemble(builder.freeze(), [0, 1])
    score, _ = compiled(model, tmp_path, integer="int32")
    scores, _ = score(np.array([[-1.0], [1.0]]))
    assert scores[0, 0] == -scores[1, 0] and 0.99 * 2**31 < scores[0, 0] < 2**31


def test_what_c_cannot_hold():
    kernel = Model.from_ensemble(random_kernel(5, 3, 2), [0, 1])
    exp = Model.from_ensemble(random_trees(5, 3, 4, "exp"), range(4))
    trees = Model.from_ensemble(random_trees(5, 3, 4, "scalar"), range(4))
    for model, how, message in (
        (kernel, {}, "not of a kernel machine"),
        (exp, {}, "decoder='exp'"),
        (exp, {"integer": "int8"}, "decoder='exp'"),
        (Model.from_ensemble(random_trees(5, 3, 4, "hamming"), range(4)), {"integer": "int8"}, "decoder='hamming'"),
        (Model.from_ensemble(random_trees(5, 3, 4, "code"), range(4)), {"integer": "int8"}, "has fractions"),
        (Model.from_ensemble(random_linear(3, 2), [0, 1]), {"integer": "int8"}, "has kind 5: linear machine"),
        (Model.from_ensemble(random_stumps(5, 3, 2), [0, 1], layout="interval"), {"integer": "int8"}, "interval table"),
        (trees, {"integer": "int64"}, "'int8', 'int16' or 'int32', not 'int64'"),
        (trees, {"rows": [[0, 1, 2]]}, "rows are for scores in integers"),
        (trees, {"name": "a b"}, "must be a name in C"),
        (trees, {"name": "a" * 41}, "at most 39 letters"),
        (Model.from_ensemble(random_stumps(5, 3, 2), ["a", "b" * 4096]), {}, "at most 4095 bytes"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            to_c(model, **how)


def test_integer_labels_of_no_rounds():
    X = np.random.default_rng(0).normal(size=(30, 3))
    model = MCBoostClassifier(n_estimators=3).fit(X, X[:, 0] > 0).model_.truncate(0)
    assert len(integer_labels(model, "int8", X)) == 30
