"""Models as C: the bytes of the file for ``mcb.h``, and packed trees in integers, compiled without a warning."""

import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from c.build import STRICTEST, c_compiler, cpp_compiler
from reference.scoring import random_kernel, random_rows, random_stumps, random_trees

import pymcboost
from pymcboost import Model, VectorTreeBoostClassifier
from pymcboost.export import integer_labels, to_c, to_integer_c
from pymcboost.model.builders import TreesBuilder

STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-O2"]
# The lines of the comment are those of a function that scores a row.
INCLUDED = """
#include "mcb.h"
#include "model.h"
#include <stdio.h>
int main(void) {
    LINES
    for (int k = 0; k < K; k++) printf("%a ", scores[k]);
    printf(SHOWN);
    return 0;
}
"""
MAIN = """
#include <stdio.h>
int main(int argc, char **argv) {
    INPUT x[D];
    int32_t f[K];
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


def compiler(name):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return name


def shown_by_program(model, row, command, folder):
    """What a program that includes the bytes of a model, and the lines of their comment, prints of a row."""
    text = to_c(model)
    (folder / "model.h").write_text(text)
    code = [
        line.removeprefix(" *     ") for line in text.splitlines() if line.startswith(" *     ")
    ]
    assert len(code) == 5
    assert code[2] == f"float row[{model.n_features_in_}]; // row[0] is the feature with index 1"
    code[2] = f"float row[] = {{{', '.join(map(str, row.tolist()))}}};"
    whole = model.classes_.dtype.kind in "iu"
    if model.link == "sigmoid":
        shown = ", ".join(
            ['"' + "%d" * model.n_classes_ + '"', *(f"given[{k}]" for k in range(model.n_classes_))]
        )
    else:
        shown = '"%lld", (long long)label' if whole else '"%.*s", (int)length, label'
    words = {
        "K": model.n_classes_,
        "LINES": "\n    ".join(code),
        "SHOWN": shown,
    }
    source = folder / "main.c"
    source.write_text(re.sub(r"\b(K|LINES|SHOWN)\b", lambda found: str(words[found[1]]), INCLUDED))
    command = [
        compiler(command[0]),
        *command[1:],
        *STRICTEST,
        f"-I{folder}",
        f"-I{pymcboost.get_include()}",
    ]
    completed = subprocess.run(
        [*command, source, "-o", folder / "program"], capture_output=True, text=True
    )
    assert completed.returncode == 0, completed.stderr[:3000]
    return subprocess.run(
        [folder / "program"], capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.parametrize(
    "command", [[c_compiler(), "-std=c99"], [cpp_compiler(), "-std=c++11", "-x", "c++"]]
)
@pytest.mark.parametrize("kind", ["stumps", "packed", "kernel"])
@pytest.mark.part(5)
def test_bytes_of_the_file(kind, command, tmp_path):
    ensemble = {"stumps": random_stumps, "packed": random_trees, "kernel": random_kernel}[kind](
        5, 3, 3
    )
    how = {"layout": "packed", "leaves": "int8"} if kind == "packed" else {}
    model = Model.from_ensemble(
        ensemble, ["a", "b", "é"] if kind == "stumps" else [-7, 0, 1 << 40], **how
    )
    row = np.array([0.5, -1.25, 0.75], dtype=np.float32)
    *scores, label = shown_by_program(model, row, command, folder=tmp_path)
    assert [float.fromhex(score) for score in scores] == model.raw_scores(row[None])[0].tolist()
    assert label == str(model.predict(row[None])[0])


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ({"index_base": 0}, "row[0] is the feature with index 0"),
        ({"feature_names": ["*/", "b", "c"]}, "in the order of the model's feature names"),
    ],
)
def test_comment_says_what_a_row_is(meta, said):
    model = Model.from_ensemble(random_stumps(5, 3, 3), range(3), meta=meta)
    assert f" *     float row[3]; // {said}\n" in to_c(model)


def test_bytes_of_a_model_of_any_number_of_labels(tmp_path):
    model = Model.from_ensemble(random_trees(5, 3, 4, mode="vector"), range(4), link="sigmoid")
    row = np.array([0.5, -1.25, 0.75], dtype=np.float32)
    *_, given = shown_by_program(model, row, [c_compiler(), "-std=c99"], folder=tmp_path)
    assert given == "".join(str(int(score > 0)) for score in model.raw_scores(row[None])[0])


def test_bytes_are_those_of_the_model():
    model = Model.from_ensemble(random_stumps(60, 5, 3, two_sided=True), range(3))
    text = to_c(model, "some_name")
    (numbers,) = re.findall(
        r"^static const unsigned char some_name_bytes\[\d+\] = \{(.*)\};$", text, re.M | re.S
    )
    assert bytes(map(int, numbers.split(","))) == model.to_bytes()
    assert f"some_name_bytes[{len(model.to_bytes())}]" in text
    assert text == to_c(model, "some_name")


@pytest.mark.parametrize("name", ["a b", "a" * 41, "9", "é", ""])
def test_names_that_are_none_in_c(name):
    model = Model.from_ensemble(
        random_trees(5, 3, 4, mode="vector"), range(4), layout="packed", leaves="int8"
    )
    for export in (to_c, to_integer_c):
        with pytest.raises(
            ValueError,
            match="must be a C identifier: a letter, then at most 39 letters, digits and",
        ):
            export(model, name)


def packed_trees(n, d, k, mode, whole=False, labels=None, **how):
    """A model of packed trees; ``whole``: missing values all go to one side, thresholds are integers and halves."""
    trees = random_trees(n, d, k, mode=mode, **how)
    if whole:
        trees = replace(
            trees,
            threshold=np.rint(trees.threshold * 2) / 2,
            nan_left=np.zeros_like(trees.nan_left),
        )
    return Model.from_ensemble(
        trees, range(k) if labels is None else labels, layout="packed", leaves="int8"
    )


def compiled(model, folder, header=False, **how):
    """Functions of the C of integers: scores and classes of rows, and its labels."""
    text = to_integer_c(model, "m", header=header, **how)
    (given,) = re.search(r"m_scores\(const (\w+) \*x, int32_t \*scores\);", text).groups()
    whole = model.classes_.dtype.kind in "iu"
    words = {
        "INPUT": given,
        "D": model.n_features_in_,
        "K": model.n_classes_,
        "LABEL": '"%lld"' if whole else '"%s"',
    }
    main = MAIN.replace("m_label(i)", "(long long)m_label(i)") if whole else MAIN
    main = re.sub(r"\b(INPUT|D|K|LABEL)\b", lambda found: str(words[found[1]]), main)
    declared = "\n".join(
        line for line in text.splitlines() if re.match(r"(void|int|const char|int64_t).*;$", line)
    )
    (folder / "m.h").write_text(text if header else f"#include <stdint.h>\n{declared}\n")
    (folder / "main.c").write_text(f'#include "m.h"\n{main}')
    (folder / "m.c").write_text("int nothing;\n" if header else text)
    command = [
        compiler("gcc"),
        *STRICT,
        folder / "m.c",
        folder / "main.c",
        "-o",
        folder / "program",
    ]
    completed = subprocess.run(command, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr[:3000]
    dtype = given.removesuffix("_t")

    def score(X):
        rows = X.astype(np.float32).view(np.uint32) if dtype == "uint32" else X.astype(dtype)
        completed = subprocess.run(
            [folder / "program"], input=rows.tobytes(), capture_output=True, check=True, timeout=60
        )
        found = np.frombuffer(
            completed.stdout, [("scores", np.int32, model.n_classes_), ("best", np.int32)]
        )
        return found["scores"], found["best"]

    labels = subprocess.run(
        [folder / "program", "labels"], capture_output=True, check=True, timeout=60
    ).stdout.decode()
    return score, labels.splitlines()


@pytest.mark.parametrize("kind", ["int8", "int16", "int32"])
@pytest.mark.parametrize(
    ("mode", "k", "d"),
    [("vector", 4, 300), ("scalar", 4, 6), ("vector", 2, 1), ("scalar", 3, 2), ("none", 3, 2)],
)
@pytest.mark.part(4)
def test_integers(tmp_path, mode, k, d, kind):
    """Sums of the rounded leaves, on every row, those with missing and infinite values too."""
    if mode == "none":
        model = Model.from_ensemble(TreesBuilder(k, d).freeze(), range(k), layout="packed")
    else:
        model = packed_trees(20, d, k, mode=mode, splits=(1, 1) if d == 1 else (0, 9))
    X = random_rows(300, d)
    score, _ = compiled(model, tmp_path, header=mode == "vector", integer=kind)
    text = to_integer_c(model, integer=kind, rows=X)
    assert not re.search(r"float\b(?!32|ing)|double", text)
    assert f"const {kind}_t model_value[" in text
    scores, best = score(X)
    scale = float(re.search(r"A score of 1 is (\S+) here", text)[1])
    bound = int(re.search(r"No sum exceeds \+-(\d+)", text)[1])
    learners, raw = model.n_learners + 1, model.raw_scores(X)
    assert np.abs(scores / scale - raw).max() <= 0.51 * learners / scale + 1e-7 * np.abs(raw).max()
    assert np.abs(scores.astype(np.int64)).max() <= bound < 1 << 31
    assert (best == integer_labels(model, kind, X)).all()
    unequal = int((best != model.predict_codes(X)).sum())
    assert f"Of 300 rows, {unequal} (" in text
    assert unequal == 0 or kind == "int8"


@pytest.mark.parametrize(
    "labels", [[-1, 0, 2, 1 << 40], [-(1 << 63), 0, 1, 2], [f'{i} "\\n"??/ü' for i in range(4)]]
)
def test_labels(labels, tmp_path):
    model = packed_trees(5, 3, 4, mode="vector", labels=labels)
    assert compiled(model, tmp_path)[1] == [str(label) for label in labels]


def test_names_that_differ_in_case_are_two(tmp_path):
    for name, k in (("Leaf", 2), ("leaf", 4)):
        (tmp_path / f"{name}_.h").write_text(
            to_integer_c(packed_trees(5, 3, k, mode="vector"), name, header=True)
        )
    main = "int main(void) { uint32_t x[3] = {0, 0, 0}; return Leaf_predict(x) + leaf_predict(x) < 0; }\n"
    (tmp_path / "main.c").write_text(f'#include "Leaf_.h"\n#include "leaf_.h"\n{main}')
    command = [
        compiler("gcc"),
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-c",
        tmp_path / "main.c",
        "-o",
        tmp_path / "main.o",
    ]
    assert subprocess.run(command, capture_output=True, text=True).stderr == ""


@pytest.mark.parametrize(
    "name", ["MY_NAME", "ADD", "INPUT", "VALUE", "CLASSES", "THRESHOLD", "while", "int"]
)
@pytest.mark.part(2)
def test_any_name_can_begin_those_in_c(name, tmp_path):
    mode = "vector" if name.isupper() else "scalar"
    text = to_integer_c(packed_trees(5, 3, 4, mode=mode), name)
    assert f"_{name}" not in text
    (tmp_path / "m.c").write_text(text)
    command = [compiler("gcc"), *STRICT, "-c", tmp_path / "m.c", "-o", tmp_path / "m.o"]
    completed = subprocess.run(command, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr[:3000]


def test_masks_where_an_int_has_16_bits(tmp_path):
    text = to_integer_c(
        packed_trees(40, 300, 10, mode="vector", splits=(3, 9)), rows=np.zeros((1, 300))
    )
    assert "1u <<" not in text
    ask = ["clang", "--print-targets"]
    if not shutil.which("clang") or b" avr " not in subprocess.run(ask, capture_output=True).stdout:
        pytest.skip("clang for AVR is not installed")
    (tmp_path / "m.c").write_text(text)
    command = [
        "clang",
        "--target=avr",
        "-mmcu=atmega328p",
        "-ffreestanding",
        "-O0",
        "-S",
        "-emit-llvm",
        "-o",
        "-",
    ]
    completed = subprocess.run([*command, tmp_path / "m.c"], capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr[:3000]
    assert "shl i32" in completed.stdout and "shl i16" not in completed.stdout


of_integers = pytest.mark.parametrize(
    "low, high, type_",
    [
        (0, 200, "uint8"), (-100, 100, "int8"), (0, 60000, "uint16"), (-300, 3, "int16"), (0, 1e6, "int32"),
        (0, 2**24 - 1, "int32"), (0, 2**24, "uint32"), (-6e7, 0, "uint32"), (0, 2**31, "uint32"),
    ],
)  # fmt: skip


def rows_between(low, high):
    X = np.round(np.random.default_rng(0).uniform(low, high, size=(400, 4))).astype(np.float32)
    X[0, 0], X[0, 1] = low, high
    return X


@of_integers
def test_the_type_of_features_is_the_smallest_for_the_rows(low, high, type_):
    trees = random_trees(3, 4, 3, mode="vector")
    trees = replace(
        trees, threshold=np.abs(trees.threshold), nan_left=np.zeros_like(trees.nan_left)
    )
    model = Model.from_ensemble(trees, range(3), layout="packed", leaves="int8")
    assert f"const {type_}_t *x" in to_integer_c(model, rows=rows_between(low, high))


@of_integers
@pytest.mark.part(3)
def test_features_that_are_integers(tmp_path, low, high, type_):
    X = rows_between(low, high)
    y = (X[:, 0] > np.median(X[:, 0])) + (X[:, 1] + X[:, 2] > high + low)
    model = VectorTreeBoostClassifier(n_estimators=15, min_samples_leaf=1).fit(X, y).model_
    model = Model.from_bytes(model.to_bytes("packed", "int8"))
    score, _ = compiled(model, tmp_path, integer="int16", rows=X)
    scores, best = score(X)
    assert f"const {type_}_t *x" in to_integer_c(model, integer="int16", rows=X)
    assert (best == integer_labels(model, "int16", X)).all()
    assert (best != model.predict_codes(X)).mean() < 0.01


@pytest.mark.parametrize("mode", ["vector", "scalar"])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.part(3)
def test_thresholds_between_integers(tmp_path, mode, whole):
    model = packed_trees(20, 6, 4, mode=mode, whole=whole)
    X = np.random.default_rng(0).integers(-2, 3, size=(300, 6))
    assert (model.ensemble.threshold != np.rint(model.ensemble.threshold)).any()
    scores, best = compiled(model, tmp_path, integer="int32", rows=X)[0](X)
    np.testing.assert_allclose(
        scores / scores.max(), model.raw_scores(X) / model.raw_scores(X).max(), atol=1e-6
    )
    assert (best == model.predict_codes(X)).all()


def test_sparse_rows():
    sparse = pytest.importorskip("scipy.sparse")
    model, X = packed_trees(20, 6, 4, mode="scalar"), np.arange(12).reshape(2, 6) % 5
    assert to_integer_c(model, rows=sparse.csr_matrix(X)) == to_integer_c(model, rows=X)


def test_sums_at_the_edge_of_32_bits(tmp_path):
    """The scale leaves room for every rounding."""
    builder = TreesBuilder(2, 1)
    for _ in range(3000):
        builder.add_tree([0], [0.0], [False], right=[1], leaf=[0.7, -0.7], cls=0)
    builder.end_round()
    model = Model.from_ensemble(builder.freeze(), [0, 1], layout="packed")
    score, _ = compiled(model, tmp_path, integer="int32")
    scores, _ = score(np.array([[-1.0], [1.0]]))
    assert scores[0, 0] == -scores[1, 0] and 0.99 * 2**31 < scores[0, 0] < 2**31


def test_what_integers_are_not_for():
    trees = packed_trees(5, 3, 4, mode="scalar")
    kernel = Model.from_ensemble(random_kernel(5, 3, 2), [0, 1])
    listed = Model.from_ensemble(random_trees(5, 3, 4, mode="scalar"), range(4))
    table = Model.from_ensemble(random_stumps(5, 3, 2), [0, 1], layout="interval")
    for model, integer, message in (
        (kernel, "int8", "layout='list' (kernel machine). Save the trees with layout='packed'"),
        (listed, "int8", "layout='list' (trees)"),
        (table, "int8", "layout='interval' (interval table)"),
        (trees, "int64", "'int8', 'int16' or 'int32', not 'int64'"),
        (
            packed_trees(5, 3, 2, mode="vector", labels=["a", "b" * 4096]),
            "int8",
            "at most 4095 bytes",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            to_integer_c(model, integer=integer)
