"""``mcb.hpp`` in C++ programs: warnings, the bits of scores, ownership, and what is refused."""

import subprocess

import numpy as np
import pytest
from c.build import STRICTEST, build, cpp_compiler
from reference.scoring import (
    exits_of_sets,
    finite_rows,
    random_linear,
    random_rows,
    random_stumps,
    random_trees,
    with_codes,
)

from pymcboost.model.model import Model

PROGRAM = r"""
#include "mcb.hpp"
#include <fstream>
#include <iostream>
#include <iterator>

/* MODEL ROWS: a line of class, scores and probabilities for each row, before and after the model is moved. */
int main(int, char **argv) try {
    if (!argv[1][0]) mcb::model none{std::vector<unsigned char>()};
    mcb::model first = mcb::model::load(argv[1]), second = mcb::model::load(argv[1], false);
    std::ifstream in(argv[2], std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    std::vector<float> rows(text.size() / sizeof(float));
    std::memcpy(rows.data(), text.data(), text.size());
    const std::size_t d = first.n_features(), k = first.n_classes(), n = rows.size() / d;
    std::vector<double> scores(n * k), one(k);
    for (int moved = 0; moved < 2; moved++) {
        if (moved) {
            second = std::move(first);
        }
        const mcb::model &model = second;
        model.scores(rows.data(), n, d, scores.data());
        for (std::size_t i = 0; i < n; i++) {
            std::cout << model.label(model.predict(&rows[i * d], one.data()));
            if (std::memcmp(one.data(), &scores[i * k], k * sizeof(double)) != 0) return 2;
            for (double score : one) std::printf(" %a", score), std::fflush(stdout);
            std::uint32_t early = 0;
            std::uint64_t learners = 0;
            if (model.predict_early(MCB_EARLY_CERTIFIED, &rows[i * d], one.data(), &early, &learners))
                std::cout << " early " << early << ' ' << learners << " of " << model.n_learners();
            std::cout << std::endl;
        }
    }
    std::size_t used = 0;
    for (const bool each : second.used_features()) used += each ? 1 : 0;
    std::cout << used << '\n' << second.meta() << '\n' << second.level(0, "zebra") << ' '
              << (second.c().prepared != nullptr) << '\n';
} catch (const mcb::error &problem) {
    std::cout << problem.status() << ' ' << problem.what() << '\n';
} catch (const std::runtime_error &problem) {
    std::cout << problem.what() << '\n';
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """PROGRAM, compiled with an address sanitizer."""
    folder = tmp_path_factory.mktemp("cpp")
    (folder / "use.cpp").write_text(PROGRAM)
    options = ["-std=c++11", "-O0", "-DMCB_NO_VECTOR", "-fsanitize=address", *STRICTEST]
    command = [cpp_compiler("-fsanitize=address"), *options]
    return build(folder / "use.cpp", command)


def run(program, *arguments):
    completed = subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True)
    assert (completed.returncode, completed.stderr) == (0, "")
    return completed.stdout.splitlines()


@pytest.mark.parametrize("kind", ["trees", "stumps", "linear", "vector"])
def test_the_bits_of_python_before_and_after_a_move(program, tmp_path, kind):
    if kind == "trees":
        model, X = exits_of_sets(5), with_codes(random_rows(20, 9))
    elif kind == "linear":
        model, X = Model.from_ensemble(random_linear(7, 3), range(3)), finite_rows(20, 7)
    elif kind == "vector":
        model, X = (
            Model.from_ensemble(random_trees(9, 7, 3, mode="vector"), range(3)),
            random_rows(20, 7),
        )
    else:
        model, X = (
            Model.from_ensemble(random_stumps(9, 7, 3), ["a", "z", "\u00e9"]),
            random_rows(20, 7),
        )
    model.save(tmp_path / "m.mcb")
    X.astype(np.float32).tofile(tmp_path / "rows")
    *lines, used, meta, level = run(program, tmp_path / "m.mcb", tmp_path / "rows")
    scores, labels = model.raw_scores(X), model.predict(X).tolist()
    early = (
        zip(*model.predict_early_codes(X, "certified"), strict=True)
        if kind == "trees"
        else [None] * len(X)
    )
    wanted = [
        [
            str(label),
            *(float(score).hex() for score in row),
            *([] if e is None else [int(e[0]), int(e[1])]),
        ]
        for label, row, e in zip(labels, scores, early, strict=True)
    ]
    printed = []
    for line in lines:
        words, _, exit_ = line.partition(" early ")
        label, *values = words.split()
        printed.append([label, *(float.fromhex(value).hex() for value in values)])
        printed[-1] += [int(word) for word in exit_.split()[:2]]
        assert not exit_ or exit_.endswith(f" of {model.n_learners}")
    assert printed == wanted * 2
    prepared = int(
        kind in ("trees", "vector")
    )  # not linear machines: theirs is for sparse rows alone
    assert (used, meta, level) == (str(len(model.used_features()[0])), "", f"nan {prepared}")


def test_what_is_refused(program, tmp_path):
    Model.from_ensemble(random_stumps(9, 7, 3), range(3)).save(tmp_path / "m.mcb")
    data = bytearray((tmp_path / "m.mcb").read_bytes())
    data[-1] ^= 1
    (tmp_path / "bad.mcb").write_bytes(data)
    (tmp_path / "empty.mcb").write_bytes(b"")
    assert run(program, tmp_path / "bad.mcb", "x")[0].startswith(
        f"30 {tmp_path}/bad.mcb: the checksum of a section"
    )
    assert run(program, tmp_path / "empty.mcb", "x")[0].startswith(
        f"1 {tmp_path}/empty.mcb: the file is shorter"
    )
    assert run(program, "", "x")[0].startswith("1 model: the file is shorter")
    assert run(program, tmp_path / "none.mcb", "x") == [
        f"{tmp_path}/none.mcb: No such file or directory"
    ]
    assert run(program, tmp_path, "x") == [f"{tmp_path}: Is a directory"]


WITHOUT_EXCEPTIONS = r"""
#include "mcb.hpp"

/* Of each file: the status, whether there was an error of the system, and the number of classes where there is one. */
int main(int n, char **argv) {
    for (int i = 1; i < n; i++) {
        const mcb::model model = mcb::model::load(argv[i]);
        std::printf("%d %d", model.status(), errno != 0);
        if (model.status() == MCB_OK) std::printf(" %d", (int)model.n_classes());
        std::printf("\n");
    }
}
"""


def test_without_exceptions(tmp_path):
    (tmp_path / "use.cpp").write_text(WITHOUT_EXCEPTIONS)
    program = build(
        tmp_path / "use.cpp", [cpp_compiler(), "-std=c++11", "-O0", "-fno-exceptions", *STRICTEST]
    )
    data = Model.from_ensemble(random_trees(20, 9, 5, mode="vector"), range(5)).to_bytes()
    for name, part in (
        ("good", data),
        ("damaged", data[:-1] + bytes([data[-1] ^ 1])),
        ("empty", b""),
    ):
        (tmp_path / name).write_bytes(part)
    files = [tmp_path / name for name in ("good", "damaged", "empty", "nowhere")]
    assert run(program, *files) == ["0 0 5", "30 0", "1 0", "1 1"]
