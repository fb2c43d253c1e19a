"""``mcb.h`` in a C program: warnings, portability, what it calls, and the bits of its scores."""

import itertools
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from c.build import STRICT, build, c_compiler
from cli.programs import call
from reference.scoring import (
    exits_of_sets,
    finite_rows,
    random_entries,
    random_kernel,
    random_linear,
    random_rows,
    random_sets,
    random_stumps,
    random_trees,
    with_codes,
)

import pymcboost
from pymcboost.model.model import Model

EXAMPLE = Path(__file__).resolve().parents[1] / "c" / "example.c"
BUILDS = {
    "-O0": [c_compiler(), "-std=c99", "-O0"],
    "gcc -O0": ["gcc", "-std=c99", "-O0"],
    "gcc -O2": ["gcc", "-std=c99", "-O2"],
    "-O0 simd": [c_compiler(), "-std=c99", "-O0", "-DMCB_SIMD"],
    "gcc -O1 simd": ["gcc", "-std=c99", "-O1", "-DMCB_SIMD"],
    "gcc -O3 simd": ["gcc", "-std=c99", "-O3", "-DMCB_SIMD"],
    "gcc -O3 native": ["gcc", "-std=c11", "-O3", "-march=native", "-ffp-contract=fast"],
    "gcc -O2 scalar": [
        "gcc",
        "-std=c99",
        "-O2",
        "-march=native",
        "-ffp-contract=fast",
        "-DMCB_NO_VECTOR",
    ],
    "gcc -O2 avx2": ["gcc", "-std=c99", "-O2", "-mavx2", "-mfma"],
    "clang -O2": ["clang", "-std=c99", "-O2"],
    "clang -O3 simd": ["clang", "-std=c99", "-O3", "-DMCB_SIMD"],
    "clang -O3 fma": ["clang", "-std=c99", "-O3", "-mfma", "-ffp-contract=fast"],
    "g++": ["g++", "-x", "c++", "-std=c++11", "-O2", "-DMCB_SIMD"],
    "clang++": ["clang++", "-x", "c++", "-std=c++17", "-O2"],
}
QUICK = ["-O0", "-O0 simd"]  # gcc has made the scorer that Python calls


@pytest.fixture(scope="module")
def compiled():
    """The example as a program of a build."""
    return cache(lambda name: build(EXAMPLE, [*BUILDS[name], *STRICT]))


def check_bits(program, tmp_path):
    for n_classes, n_features, two_sided, layout in (
        (2, 3, False, "list"),
        (10, 64, False, "list"),
        (3, 600, True, "list"),
        (17, 6, True, "list"),
        (65, 9, False, "list"),
        (2, 5, False, "interval"),
        (10, 30, True, "interval"),
        (7, 4, False, "interval"),
        (65, 9, True, "interval"),
    ):
        classes = range(n_classes) if two_sided else [f"class-{i:02}" for i in range(n_classes)]
        stumps = random_stumps(
            70,
            n_features,
            n_classes,
            two_sided=two_sided,
            seed=n_classes,
            few_thresholds=n_features < 9,
        )
        model = Model.from_ensemble(
            stumps, classes, link=("none", "softmax", "softmax2")[n_classes % 3], layout=layout
        )
        X = random_rows(37, n_features)
        for cut in (None, 31) if layout == "list" else (None,):
            its = model if cut else model.with_temperature(1.7)
            check_model(program, tmp_path, its, X=X, cut=cut)
    for mode, n_classes, n_features, splits, leaves in (
        ("scalar", 2, 3, (0, 9), "float32"),
        ("base", 10, 64, (19, 19), "float16"),
        ("vector", 7, 600, (30, 130), "float32"),
        ("vector", 26, 9, (0, 20), "float16"),
        ("code", 2, 3, (0, 9), "float32"),
        ("hamming", 4, 3, (0, 9), "float32"),
        ("exp", 5, 3, (0, 9), "float16"),
        ("code", 10, 64, (0, 1), "float16"),
        ("code", 17, 9, (0, 20), "float32"),
        ("code", 4, 3000, (1400, 1500), "float32"),
    ):
        trees = random_trees(
            20, n_features, n_classes, mode=mode, splits=splits, few_thresholds=n_features < 9
        )
        model = Model.from_ensemble(trees, range(n_classes), link="softmax", leaves=leaves)
        warm = model.with_temperature(0.3)
        check_model(program, tmp_path, warm, X=random_rows(37, n_features), cut=None)
        for n, cut in ((37, 5), *((n, None) for n in (1, 3, 4, 16, 17) if mode == "code")):
            check_model(program, tmp_path, model, X=random_rows(n, n_features), cut=cut)
    for n_classes, n_features, vector in (
        (3, 4, True),
        (20, 9, True),
        (3, 4, False),
        (20, 9, False),
    ):
        trees = random_sets(9, n_features, n_classes, vector=vector)
        model = Model.from_ensemble(trees, range(n_classes), link="softmax")
        for n, cut in ((1, None), (17, None), (37, 5)):
            check_model(program, tmp_path, model, X=with_codes(random_rows(n, n_features)), cut=cut)
    forms = [(3, 0.5, "float32"), (40, 0.1, "float16")]
    for (n_classes, share, leaves), shared in itertools.product(forms, (False, True)):
        trees = random_entries(20, 9, n_classes, share=share, shared=shared, splits=(0, 40))
        link = "sigmoid" if shared else "softmax"
        model = Model.from_ensemble(trees, range(n_classes), link=link, leaves=leaves)
        for n, cut in ((1, None), (17, None), (37, 5)):
            check_model(program, tmp_path, model, X=random_rows(n, 9), cut=cut)
    for link in ("sigmoid", "shares"):
        model = Model.from_ensemble(random_trees(20, 9, 7, mode="vector"), range(7), link=link)
        check_model(program, tmp_path, model, X=random_rows(37, 9), cut=None)
    for i, machine in enumerate(machines()):
        link = ("none", "softmax2")[i % 2]
        model = Model.from_ensemble(machine, range(machine.n_classes), link=link)
        its = model if i % 3 else model.with_temperature(9.9)
        check_model(program, tmp_path, its, X=finite_rows(37, machine.n_features), cut=None)


LEVELS = """
#include "mcb.h"
#include <stdio.h>
static unsigned char bytes[1 << 16];
int main(int argc, char **argv) {
    mcb_model m;
    FILE *file = fopen(argv[1], "rb");
    size_t size = fread(bytes, 1, sizeof bytes, file), n;
    int i;
    fclose(file);
    if (mcb_open(&m, bytes, size)) return 1;
    printf("%u %u %u\\n", mcb_levels(&m, 0), mcb_levels(&m, 1), mcb_levels(&m, 3));
    for (i = 2; i < argc; i++) printf("%g\\n", (double)mcb_level_code(&m, 3, argv[i], strlen(argv[i])));
    printf("%d %d\\n", mcb_level_text(&m, 1, 0, &n) == 0, mcb_level_text(&m, 3, 11, &n) == 0);
    return fwrite(mcb_level_text(&m, 3, 10, &n), 1, 10, stdout) != n;
}
"""


EARLY = """
#include "mcb.h"
#include <stdio.h>
static unsigned char bytes[1 << 20];
int main(int argc, char **argv) {
    mcb_model m;
    FILE *file = fopen(argv[1], "rb"), *rows = fopen(argv[2], "rb");
    size_t size = fread(bytes, 1, sizeof bytes, file);
    float x[9];
    double scores[5];
    int way = argv[3][0] - '0';
    fclose(file);
    if (argc != 4 || mcb_open(&m, bytes, size) || !mcb_has_early(&m, way)) return 1;
    while (fread(x, sizeof *x, m.n_features, rows) == m.n_features) {
        uint64_t learners;
        uint32_t k;
        if (mcb_predict_early(&m, way, x, scores, &k, &learners)) return 2;
        printf("%u %u\\n", k, (unsigned)learners);
    }
    return fclose(rows);
}
"""


def test_early_exits_of_sets_of_categories_in_c(tmp_path):
    model = exits_of_sets(5)
    X = with_codes(random_rows(60, 9))
    model.save(tmp_path / "m.mcb")
    X.tofile(tmp_path / "rows")
    (tmp_path / "early.c").write_text(EARLY)
    program = str(build(tmp_path / "early.c", [c_compiler(), "-std=c99", "-O0", *STRICT]))
    for number, way in enumerate(("certified", "calibrated", "rejection")):
        arguments = [program, str(tmp_path / "m.mcb"), str(tmp_path / "rows"), str(number)]
        run = subprocess.run(arguments, capture_output=True, text=True, check=True)
        codes, learners = model.predict_early_codes(X, way)
        assert [line.split() for line in run.stdout.splitlines()] == [
            [str(code), str(n)] for code, n in zip(codes.tolist(), learners.tolist(), strict=True)
        ]
        assert learners.min() < model.n_learners


def test_levels_are_looked_up_in_c(tmp_path):
    Model.from_ensemble(random_sets(3, 4, 2), range(2)).save(tmp_path / "m.mcb")
    (tmp_path / "levels.c").write_text(LEVELS.replace("\\\\", "\\"))
    flags = ["-std=c99", "-O0", *STRICT, "-Wno-unused-parameter"]
    program = str(build(tmp_path / "levels.c", [c_compiler(), *flags]))
    asked = ["level 0 \u00e9", "level 9 \u00e9", "", "level", "level 99", "zebra"]
    run = subprocess.run(
        [program, str(tmp_path / "m.mcb"), *asked], capture_output=True, text=True, check=True
    )
    assert run.stdout.split("\n") == [
        "0 300 11",
        "1",
        "10",
        "0",
        "nan",
        "nan",
        "nan",
        "1 1",
        "level 9 \u00e9",
    ]


def machines():
    """Linear and kernel machines of every kernel, with chunks of features and of support vectors, and rests of both."""
    yield from (random_linear(d, k) for k, d in ((2, 3), (3, 16), (10, 37), (33, 8), (65, 1030)))
    for kernel in ("linear", "poly", "rbf", "perceptron"):
        for n, d, k, scaled in (
            (70, 5, 2, True),
            (9, 16, 3, False),
            (3, 1031, 10, True),
            (131, 10, 26, False),
        ):
            yield random_kernel(n, d, k, kernel=kernel, scaled=scaled)


def check_model(program, tmp_path, model, X, cut):
    """The program prints what Python says of the model, or of its first ``cut`` rounds."""
    (tmp_path / "model.mcb").write_bytes(model.to_bytes())  # what is saved is waited for
    X.tofile(tmp_path / "rows")
    k = model.n_classes_
    wanted = model if cut is None else model.truncate(cut)
    run = subprocess.run(
        [
            str(program),
            str(tmp_path / "model.mcb"),
            str(tmp_path / "rows"),
            *([str(cut)] if cut else []),
        ],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    lines = [line.split() for line in run.stdout.splitlines()]
    assert [line[0] for line in lines] == [
        str(label) for label in wanted.classes_[wanted.predict_codes(X)]
    ]
    numbers = np.array([[float.fromhex(value) for value in line[1:]] for line in lines])
    assert numbers[:, :k].tobytes() == wanted.raw_scores(X).tobytes()
    assert numbers.shape[1] == (2 * k if wanted.has_probabilities else k)
    if wanted.has_probabilities:
        assert numbers[:, k:].tobytes() == wanted.predict_proba(X).tobytes()


def test_trained_coded_models_score_alike_everywhere(compiled, tmp_path):
    """PIBoost's scores in Python, in C and on the command line, for several numbers of rows."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 300)
    X = (rng.normal(size=(300, 6)) + rng.normal(size=(5, 6))[y] * 2).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    program = compiled("-O0")
    rows = X[:60][~np.isnan(X[:60]).any(axis=1)]
    for learner, separators, n in itertools.product(
        ("stump", "tree"), ("singles", "pairs"), (1, 17)
    ):
        if n == 1:
            options = {"separators": separators, "weak_learner": learner, "max_leaf_nodes": 6}
            model = pymcboost.PIBoostClassifier(n_estimators=12, **options).fit(X, y).model_
        check_model(program, tmp_path, model, X=X[:n], cut=None)
        assert model.truncate(5).temperature == model.temperature  # the loss asks for it
        check_model(program, tmp_path, model.with_temperature(7.0), X=X[:n], cut=5)
        model.save(tmp_path / "model.mcb")
        (tmp_path / "t.svm").write_text(
            "".join(
                f"0 {' '.join(f'{j + 1}:{float(v)!r}' for j, v in enumerate(row))}\n"
                for row in rows[:n]
            )
        )
        completed = call("predict", "-d", 1, "t.svm", "model.mcb", "out", cwd=tmp_path)
        assert completed.returncode == 0, completed.stderr
        lines = [line.split() for line in (tmp_path / "out").read_text().splitlines()[1:]]
        said = np.array([[float(value) for value in line[1:]] for line in lines])
        np.testing.assert_array_equal(said, model.raw_scores(rows[:n]))
        assert [int(line[0]) for line in lines] == model.predict(rows[:n]).tolist()


@pytest.mark.parametrize(
    "algorithm", [pymcboost.VectorTreeBoostClassifier, pymcboost.HingeBoostOCClassifier]
)
def test_probabilities_of_calibrated_models_everywhere(compiled, algorithm, tmp_path):
    """In Python, in C and on the command line; those of HingeBoost come from the temperature alone."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 300)
    X = (rng.normal(size=(300, 6)) + rng.normal(size=(4, 6))[y]).astype(np.float32)
    fitted = (
        algorithm(n_estimators=9, random_state=0)
        .fit(X[:150], y[:150])
        .calibrate_on(X[150:], y[150:])
    )
    model = fitted.model_
    rows = X[:40]
    assert model.temperature != 1
    check_model(compiled("-O0"), tmp_path, model, X=rows, cut=None)
    text = (" ".join(f"{j + 1}:{float(v)!r}" for j, v in enumerate(row)) for row in rows)
    (tmp_path / "t.svm").write_text("".join(f"0 {line}\n" for line in text))
    completed = call("predict", "-b", 1, "t.svm", "model.mcb", "out", cwd=tmp_path)
    assert completed.returncode == 0, completed.stderr
    lines = [line.split() for line in (tmp_path / "out").read_text().splitlines()[1:]]
    said = np.array([[float(value) for value in line[1:]] for line in lines])
    assert said.tobytes() == fitted.predict_proba(rows).tobytes()
    assert [int(line[0]) for line in lines] == fitted.predict(rows).tolist()


@pytest.mark.parametrize(
    "build",
    [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in BUILDS],
)
def test_c_gives_the_bits_of_python(compiled, build, tmp_path):
    check_bits(compiled(build), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "compiler",
    [
        "aarch64-linux-gnu-gcc",
        "arm-linux-gnueabihf-gcc",
        "powerpc64-linux-gnu-gcc",
        "s390x-linux-gnu-gcc",
    ],
)
@pytest.mark.parametrize("option", ["-O2", "-DMCB_SIMD", "-DMCB_NO_VECTOR"])
def test_other_processors_compile(compiler, option, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    subprocess.run(
        [
            compiler,
            "-std=c99",
            option,
            *STRICT,
            f"-I{pymcboost.get_include()}",
            "-c",
            str(EXAMPLE),
            "-o",
            str(tmp_path / "example.o"),
        ],
        check=True,
    )


@pytest.mark.parametrize(
    "options",
    [
        ["-O0", "-DMCB_NO_VECTOR"],
        pytest.param(["-O1", "-DMCB_NO_VECTOR"], marks=pytest.mark.slow),
        pytest.param(["-O1", "-DMCB_PLAIN"], marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_calls_nothing_but_memory_functions(options, tmp_path):
    """Freestanding: the linker is asked for copying, filling and comparing bytes only; there are no variables."""
    if shutil.which("gcc") is None or shutil.which("nm") is None:
        pytest.skip("gcc or nm is not installed")
    source = tmp_path / "all.c"
    source.write_text(
        "#define MCB_API extern inline __attribute__((gnu_inline, used))\n".replace(
            "extern inline ", ""
        ).replace("gnu_inline, ", "")
        + '#include "mcb.h"\n'
    )
    subprocess.run(
        [
            "gcc",
            "-std=gnu99",
            "-ffreestanding",
            *options,
            f"-I{pymcboost.get_include()}",
            "-c",
            str(source),
            "-o",
            str(tmp_path / "all.o"),
        ],
        check=True,
    )
    symbols = subprocess.run(
        ["nm", str(tmp_path / "all.o")], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    kinds = {(line.split()[-2], line.split()[-1]) for line in symbols if line}
    assert {name for kind, name in kinds if kind == "U"} <= {
        "memcpy",
        "memset",
        "memcmp",
        "_GLOBAL_OFFSET_TABLE_",
        "__stack_chk_fail",
    }
    assert not [name for kind, name in kinds if kind in "dDbBC"]
    assert ("T", "mcb_open") in kinds


def test_damaged_file_is_named_in_c(compiled, tmp_path):
    program = compiled("-O0")
    data = Model.from_ensemble(random_stumps(3, 2, 2), range(2)).to_bytes()
    (tmp_path / "model.mcb").write_bytes(data[:-1] + b"\7")
    (tmp_path / "rows").write_bytes(bytes(8))
    run = subprocess.run(
        [str(program), str(tmp_path / "model.mcb"), str(tmp_path / "rows")],
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    assert run.returncode == 1
    assert "the file is damaged (section LABI, byte" in run.stderr


def test_no_example_cuts_integer_labels():
    """A long has 32 bits on some machines, a label 64."""
    root = Path(__file__).resolve().parents[2]
    sources = [
        path
        for path in (root / "examples").rglob("*")
        if path.suffix in (".c", ".h", ".cpp", ".hpp")
    ]
    texts = [
        path.read_text(encoding="utf-8")
        for path in (*sources, root / "README.md", *(root / "docs").glob("*.md"))
    ]
    assert any("PRId64" in text for text in texts) and not any(
        "(long)mcb_label_int" in text for text in texts
    )
