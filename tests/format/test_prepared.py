"""Prepared trees in ``mcb.h``: whatever the layout, the bits of the scores are those of the slow twin."""

import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from c.build import STRICTEST, build, c_compiler
from reference import modelreader
from reference.scoring import (
    random_entries,
    random_linear,
    random_right,
    random_rows,
    random_stumps,
    random_trees,
    raw_scores,
)

import pymcboost
from pymcboost.model.builders import TreesBuilder
from pymcboost.model.categories import Categories
from pymcboost.model.model import Model

SOURCE = Path(__file__).resolve().parents[1] / "c" / "prepared.c"
BUILDS = {
    "plain": [],
    "simd": ["-DMCB_SIMD"],
    "native": ["-O3", "-march=native", "-ffp-contract=fast"],
}
HEADER = Path(pymcboost.get_include(), "mcb.h")
COMMAND = [c_compiler(), "-std=c99", "-O0"]
AVX512 = {"avx512f", "avx512vl", "avx512dq", "avx512bw"}


@pytest.fixture(scope="module")
def compiled():
    """The program of a build."""
    return cache(lambda name: build(SOURCE, [*COMMAND, *BUILDS[name], *STRICTEST]))


def has_avx512():
    info = Path("/proc/cpuinfo")
    return info.exists() and set(info.read_text().split()) >= AVX512


def check_against_twin(program, folder, trees, ranked, rows=3, X=None):
    """Compare with the slow twin; ``ranked``: whether ranks are used where the processor has them."""
    X = random_rows(40, trees.n_features) if X is None else X.copy()
    X[0] = np.nan
    X[1, ::2] = np.inf
    X[2] = -np.inf
    model = Model.from_ensemble(trees, range(trees.n_classes))
    (folder / "m.mcb").write_bytes(model.to_bytes())  # what is saved is waited for
    X.tofile(folder / "rows")
    run = subprocess.run(
        [str(program), str(folder / "m.mcb"), str(folder / "rows")], capture_output=True, text=True
    )
    assert run.returncode == 0
    first, *lines = run.stdout.splitlines()
    assert int(first) == (ranked and has_avx512())
    said = np.array([[float.fromhex(number) for number in line.split()] for line in lines[:rows]])
    if trees.categories is None:
        assert said.tobytes() == raw_scores(trees, X[:rows]).tobytes()
        return
    file = modelreader.File((folder / "m.mcb").read_bytes())
    assert said.tolist() == [list(file.scores(row)) for row in X[:rows].tolist()]


@pytest.mark.parametrize("build", ["simd", pytest.param("native", marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", ["scalar", "base", "vector", "code", "hamming"])
def test_trees_in_ranks_keep_their_bits(compiled, build, mode, tmp_path):
    """Up to 64 columns: several vectors of columns and of trees, ties, missing values on both sides."""
    for n_features, n_classes, splits in ((1, 2, (40, 90)), (9, 4, (30, 130)), (32, 10, (60, 90))):
        trees = random_trees(
            20, n_features, n_classes, mode=mode, splits=splits, few_thresholds=n_features == 9
        )
        check_against_twin(compiled(build), tmp_path, trees, ranked=True)


def test_numbers_of_classes_and_trees(compiled, tmp_path):
    """Sums in one or several parts, fewer and more classes than in a vector, more trees than are sorted together."""
    for n_classes in (3, 25, 49, 101):
        for n_rounds in (31, 32):  # from 32 trees on rows of a batch are scored in ranks, too
            trees = random_trees(
                n_rounds, 5, n_classes, mode="vector", splits=(35, 70), seed=n_classes
            )
            check_against_twin(compiled("simd"), tmp_path, trees, ranked=True)
        if n_classes == 25:
            check_against_twin(compiled("plain"), tmp_path, trees, ranked=False)
    for n_rounds in (280, 131):
        check_against_twin(
            compiled("simd"),
            tmp_path,
            random_trees(n_rounds, 7, 3, mode="vector", splits=(0, 12)),
            ranked=True,
        )
    deep = chains(270, 40)  # descents of many trees go beyond the first nine splits
    deep = replace(
        deep,
        threshold=np.where(np.arange(len(deep.threshold)) % 40 < 39, 1e30, 0).astype(np.float32),
    )
    check_against_twin(compiled("simd"), tmp_path, deep, ranked=True)


@pytest.mark.parametrize(
    "n_classes",
    [*(pytest.param(K, marks=pytest.mark.slow) for K in (2, 5, 28)), 16, 17, 48, 49, 128, 129],
)
def test_groups_of_rows(compiled, n_classes, tmp_path):
    """Trees that ask all splits, in ranks or not, and some that do not: sums of a group in one or several parts."""
    for n_rounds, splits in ((45, (0, 31)), (3, (0, 31)), (20, (25, 40))):
        trees = random_trees(n_rounds, 7, n_classes, mode="vector", splits=splits, seed=n_classes)
        check_against_twin(compiled("simd"), tmp_path, trees, ranked=len(trees.threshold) >= 1000)


@pytest.mark.skipif(sys.platform != "linux", reason="stacks of threads are painted on Linux")
@pytest.mark.parametrize(
    "compiler",
    [
        [
            "gcc",
            "-O1",
        ],  # the same arrays as with more optimisation, for half of the compiler's time
        pytest.param(["clang", "-O2"], marks=pytest.mark.slow),
        pytest.param(["gcc", "-O2", "-DMCB_SIMD"], marks=pytest.mark.slow),
    ],
)
def test_calls_take_no_more_stack_than_the_header_says(compiler, tmp_path):
    program = build(SOURCE.with_name("stack.c"), [*compiler, "-std=c99", "-pthread", *STRICTEST])
    pieces = (
        r"_sparse: (\d+); prepared trees (\d+), .*; machines (\d+)\n",
        r".*mcb_add_learners: (\d+); prepared trees (\d+)\n",
        r".*early_sparse: (\d+)\n",
        r".*mcb_top_scores: (\d+); mcb_prepare: (\d+); mcb_prepare_early: (\d+); mcb_open and all others: (\d+)\n",
        r".*hamming or exp: (\d+) more",
    )
    numbers = [
        1000 * int(number) for number in re.search("".join(pieces), HEADER.read_text()).groups()
    ]
    one, one_trees, machines, many, many_trees, early, top, prepare, basis, other, decoder = numbers
    vector = Model.from_ensemble(random_trees(60, 9, 5, mode="vector", splits=(10, 30)), range(5))
    exits = vector.with_early_exit("certified").with_early_exit(
        "calibrated", random_rows(300, 9), rate=0.1
    )
    for ensemble, row, rows in (
        (random_stumps(300, 9, 50), (one, one), (many, many)),
        (exits, (one, one_trees), (many, many_trees)),
        (random_entries(40, 9, 99, splits=(10, 30)), (one, one_trees), (many, many_trees)),
        (
            random_trees(40, 9, 5, mode="hamming", splits=(10, 30)),
            (one, one_trees),
            (many, many_trees),
        ),
        (mixed_sets(40, 9, 60), (one, one_trees), (many, many_trees)),
        (random_linear(20, 30), (machines, machines), (many, many)),
    ):
        model = (
            ensemble
            if ensemble is exits
            else Model.from_ensemble(ensemble, range(ensemble.n_classes))
        )
        model.save(tmp_path / "m.mcb")
        lines = subprocess.run(
            [program, tmp_path / "m.mcb"], capture_output=True, text=True, check=True
        ).stdout
        more = decoder * (getattr(ensemble, "decoder", "linear") == "hamming")
        for name, prepared, taken in (line.split() for line in lines.splitlines()):
            limits = dict.fromkeys(("predict", "lazy", "sparse"), row[int(prepared)] + more)
            limits |= dict.fromkeys(("batch", "values"), rows[int(prepared)] + more) | {
                "add": rows[int(prepared)]
            }
            limits |= {
                "prepare": prepare,
                "prepare_early": basis,
                "top": top,
                "open": other,
                "top_begin": other,
            }
            assert int(taken) < limits.get(name, early), (name, prepared)


@pytest.mark.parametrize("level", ["-O2", "-Os"])
@pytest.mark.part(2)
def test_a_program_with_one_call_takes_no_arrays_of_others(level, tmp_path):
    """Where clang inlines whatever is called once."""
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    call = "uint32_t go(const mcb_model *m, const float *x, double *s)"
    (tmp_path / "one.c").write_text(
        f'#include "mcb.h"\n{call} {{ return mcb_predict(m, x, s); }}\n'
    )
    command = [
        "clang",
        level,
        "-std=c99",
        f"-I{pymcboost.get_include()}",
        "-fstack-usage",
        "-c",
        "one.c",
    ]
    subprocess.run(command, check=True, cwd=tmp_path)
    assert int(re.search(r":go\t(\d+)", (tmp_path / "one.su").read_text())[1]) < 2048


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["-DMCB_SIMD"]])
def test_no_frame_is_larger_than_the_header_says(flags, tmp_path):
    flags = [*flags, f"-I{pymcboost.get_include()}", "-fstack-usage"]
    command = ["gcc", "-O2", *flags, "-c", SOURCE, "-o", tmp_path / "m.o"]
    subprocess.run(command, check=True)
    (usage,) = tmp_path.glob("*.su")
    sizes = {
        line.split("\t")[0]: int(line.split("\t")[1]) for line in usage.read_text().splitlines()
    }
    assert len(sizes) > 10 and max(sizes.values()) < 75_000


def test_what_ranks_cannot_hold_is_scored_otherwise(compiled, tmp_path):
    few = random_trees(5, 9, 3, mode="vector", splits=(0, 12))
    check_against_twin(compiled("simd"), tmp_path, few, ranked=False)  # fewer than 1,000 splits
    check_against_twin(
        compiled("simd"),
        tmp_path,
        random_trees(20, 33, 3, mode="vector", splits=(60, 90)),
        ranked=False,
    )  # 66 columns
    check_against_twin(
        compiled("simd"), tmp_path, chains(1, 2048), ranked=False
    )  # a tree of over 2,047 splits
    check_against_twin(
        compiled("simd"), tmp_path, chains(5, 2047), ranked=False, rows=1
    )  # over 8,191 thresholds
    same = replace(
        chains(5, 2047), threshold=np.tile(np.linspace(-1, 1, 2047, dtype=np.float32), 5)
    )
    check_against_twin(
        compiled("simd"), tmp_path, same, ranked=True, rows=1
    )  # of which only 2,047 are different


def mixed_sets(n_trees, n_features, most_splits, n_classes=4, vector=True, seed=0):
    """Random trees; of every third feature some splits ask for sets of its 3 to 70 levels and others for thresholds."""
    rng = np.random.default_rng(seed)
    feature = np.arange(1, n_features, 3)
    levels = rng.integers(3, 70, size=len(feature))
    categories = Categories(feature, levels, (None,) * len(feature))
    builder = TreesBuilder(n_classes, n_features, vector, categories=categories)
    builder.bias[:] = rng.normal(size=n_classes)
    for t in range(n_trees):
        s = int(rng.integers(0, most_splits + 1))
        asked = rng.integers(n_features, size=s)
        nan_left = rng.random(s) < 0.5
        sets = {}
        threshold = rng.choice([0.0, -0.0, 0.5, 2.0, 1e-41, -3e38, 3e38], size=s)
        for j in np.flatnonzero((asked % 3 == 1) & (rng.random(s) < 0.8)).tolist():
            n = levels[asked[j] // 3]
            sets[j] = categories.packed(asked[j], np.flatnonzero(rng.random(n) < 0.4), nan_left[j])
            threshold[j] = 0
        leaf = rng.normal(size=(s + 1, n_classes) if vector else s + 1)
        of = (-1, -1) if vector else (t % n_classes, -1 if t % 3 == 0 else (t + 1) % n_classes)
        builder.add_tree(asked, threshold, nan_left, random_right(s, rng), leaf, *of, sets=sets)
        builder.end_round()
    return builder.freeze()


@pytest.mark.parametrize(
    ("build", "vector"),
    [
        ("simd", True),
        ("plain", False),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("simd", False), ("plain", True), ("native", True), ("native", False))
        ),
    ],
)
def test_sets_of_categories(compiled, build, vector, tmp_path):
    """Trees that ask all splits, large ones, and blocks of many words; codes, and values that are none."""
    rng = np.random.default_rng(1)
    sizes = (1, 2, 3, 2), (40, 4, 28, 4), (30, 9, 90, 10), (40, 700, 60, 3)
    for n_trees, n_features, most_splits, n_classes in sizes:
        trees = mixed_sets(
            n_trees, n_features, most_splits, n_classes=n_classes, vector=vector, seed=n_trees
        )
        X = random_rows(40, n_features)
        codes = rng.integers(-2, 80, size=X.shape).astype(np.float32)
        X = np.where(rng.random(X.shape) < 0.6, codes, X)
        X[3:9, ::2] = np.array([[-0.0], [1e-42], [4.5], [3e9], [-1e-42], [7.999]], dtype=np.float32)
        check_against_twin(compiled(build), tmp_path, trees, ranked=False, rows=12, X=X)


def test_a_table_that_would_outgrow_the_sets_is_not_made(tmp_path):
    """One split for each of many features with most levels: a bit of every word would be used."""
    n = 65_535
    feature = np.arange(40)
    categories = Categories(feature, np.full(40, n), (None,) * 40)
    builder = TreesBuilder(2, 40, True, categories=categories)
    for j in range(40):
        sets = {0: categories.packed(j, np.arange(0, n, 2), True)}
        builder.add_tree(
            np.array([j]),
            np.zeros(1),
            np.ones(1, bool),
            right=np.ones(1, int),
            leaf=np.eye(2),
            cls=-1,
            sets=sets,
        )
    builder.end_round()
    model = Model.from_ensemble(builder.freeze(), range(2))
    X = np.random.default_rng(0).integers(0, n, size=(30, 40)).astype(np.float32)
    file = modelreader.File(model.to_bytes())
    assert model.raw_scores(X).tolist() == [list(file.scores(row)) for row in X.tolist()]


@pytest.mark.parametrize("mode", ["vector", "base", "code"])
def test_early_exits_of_trees_in_ranks(mode):
    """Classes and numbers of learners are those of the slow reader; Python scores prepared trees."""
    trees = random_trees(100, 9, 4, mode=mode, splits=(20, 20))
    weight = np.repeat(0.97 ** np.arange(len(trees)), 21)
    trees = replace(trees, leaf=(trees.leaf.T * weight).T.astype(np.float32))
    X = random_rows(300, 9, seed=3)
    model = Model.from_ensemble(trees, range(4)).with_early_exit("certified")
    model = model.with_early_exit("calibrated", X, rate=0.1).with_early_exit(
        "rejection", X, rate=0.1, background=1
    )
    file = modelreader.File(model.to_bytes())
    learners = set()
    for number, way in enumerate(("certified", "calibrated", "rejection")):
        found = list(zip(*model.predict_early_codes(X[:15], way), strict=True))
        assert found == [file.early(row, number) for row in X[:15].tolist()]
        learners |= {n for _, n in found}
    assert len(learners) > 5


def chains(n_trees, n_splits):
    """Trees without branches, whose depth is their number of splits."""
    rng = np.random.default_rng(0)
    builder = TreesBuilder(3, 1, True)
    for t in range(n_trees):
        right = np.ones(n_splits, int) if t % 2 else np.arange(n_splits, 0, -1)
        leaf = rng.normal(size=(n_splits + 1, 3))
        builder.add_tree(
            np.zeros(n_splits, int),
            rng.normal(size=n_splits),
            rng.random(n_splits) < 0,
            right=right,
            leaf=leaf,
            cls=-1,
        )
    builder.end_round()
    return builder.freeze()
