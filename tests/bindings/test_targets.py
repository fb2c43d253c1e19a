"""mcb.h, mcb.hpp and the examples compile for twelve machines with zig's clang, without a warning; nothing is run."""

import sys

import pytest
from bindings.models import EXAMPLES, run, zig

import pymcboost

TARGETS = (
    "x86_64-linux-gnu",
    "x86_64-linux-musl",
    "x86-linux-gnu",
    "aarch64-linux-gnu",
    "arm-linux-gnueabihf",
    "riscv64-linux-gnu",
    "powerpc64le-linux-gnu",
    "s390x-linux-gnu",
    "x86_64-windows-gnu",
    "aarch64-windows-gnu",
    "x86_64-macos",
    "aarch64-macos",
)

# Code is made for all functions, used or not: what a target cannot compile shows there alone.
C = """
#define MCB_SIMD
#define MCB_API __attribute__((used)) static
#include "score.c"
#if defined(__arm__) && MCB__VECTOR
#error vectors of 32-bit ARM flush subnormal numbers
#endif
"""
CPP = '#include "score.cpp"\n#define main main_of_score_c\n#include "score.c"\n'
NO_EXCEPTIONS = """
#include "mcb.hpp"
int main(int, char **argv) { return mcb::model::load(argv[1]).status(); }
"""


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_target(target, tmp_path):
    zig()
    warnings = ["-Wall", "-Wextra", "-Werror"]
    if target.startswith(
        "powerpc"
    ):  # of clang's own, about what it does with comparisons of vectors in later versions
        warnings += ["-Wno-deprecated-altivec-src-compat"]
    includes = [f"-I{pymcboost.get_include()}", f"-I{EXAMPLES}"]
    for name, text, flags in (
        ("score.c", C, ["cc", "-std=c99"]),
        ("score.cpp", CPP, ["c++", "-std=c++11"]),
        ("quiet.cpp", NO_EXCEPTIONS, ["c++", "-std=c++11", "-fno-exceptions"]),
    ):
        source = tmp_path / f"whole.{name}"
        source.write_text(text)
        compiler = [sys.executable, "-m", "ziglang", flags[0], "-target", target, *flags[1:]]
        run(*compiler, "-O0", *warnings, *includes, "-c", source, "-o", tmp_path / "whole.o")
