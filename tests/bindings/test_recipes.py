"""Recipes for Conan, vcpkg and Arduino: programs that are built with them score as Python does."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from bindings.models import EXAMPLES, needed, run, zig
from reference.scoring import finite_rows, random_kernel, random_stumps, random_trees

import pymcboost
from pymcboost.export import integer_labels
from pymcboost.model.model import Model

NUMBER = re.match(r"\d+\.\d+\.\d+", pymcboost.__version__)[0]
# What the sketch uses of Arduino: rows come from standard input, labels go to standard output. Reading waits for a
# number, and for what ends it.
ARDUINO = """\
#include <cstdio>
#include <cstdlib>
#include <cstring>
#define constrain(x, low, high) ((x) < (low) ? (low) : ((x) > (high) ? (high) : (x)))
struct Line {
    char text[1000], *at = text;
    int waits = 0;
    void begin(long) {}
    void setTimeout(long) {}
    int available() { return (int)strlen(at); }
    int peek() { return *at ? (unsigned char)*at : -1; }
    int read() { return *at ? (unsigned char)*at++ : -1; }
    double number(int whole) {
        at += strcspn(at, whole ? "-0123456789" : "-.0123456789");
        double v = *at ? whole ? (double)strtol(at, &at, 10) : strtod(at, &at) : 0;
        waits += !*at;
        return v;
    }
    float parseFloat() { return (float)number(0); }
    long parseInt() { return (long)number(1); }
    void println(long v) { printf("%ld\\n", v); }
    void println(const char *v) { printf("%s\\n", v); }
};
static Line Serial;
"""
# Rows come one after the other, with time between them.
MAIN = """\
int main() {
    setup();
    while (fgets(Serial.text, sizeof Serial.text, stdin)) {
        Serial.at = Serial.text;
        for (int i = 0; i < 3; i++) loop();
    }
    printf("%d time-outs\\n", Serial.waits);
}
"""


def scored(project, folder, **found):
    """Build the example of CMake with a package, and score a model with it."""
    model = Model.from_ensemble(random_stumps(70, 64, 10), range(20, 30), link="softmax")
    model.save(folder / "model.mcb")
    row = np.zeros((1, 64), dtype=np.float32)
    row[0, 42] = 9
    options = [f"-D{name}={value}" for name, value in found.items()]
    run(
        needed("cmake"),
        "-S",
        EXAMPLES / "cmake",
        "-B",
        project,
        "-DCMAKE_BUILD_TYPE=Release",
        *options,
    )
    run("cmake", "--build", project)
    for program in ("score", "scorepp"):
        assert (
            run(project / program, folder / "model.mcb").splitlines()[0]
            == f"class {model.predict(row)[0]}"
        )


@pytest.mark.slow
def test_conan(tmp_path):
    conan, cmake = needed("conan"), needed("cmake")
    assert cmake
    environment = {**os.environ, "CONAN_HOME": str(tmp_path / "conan")}
    run(conan, "profile", "detect", env=environment)
    run(conan, "create", EXAMPLES / "conan", "--no-remote", env=environment)
    flags = [
        "--requires",
        f"mcb/{NUMBER}",
        "--no-remote",
        "-g",
        "CMakeDeps",
        "-of",
        tmp_path / "found",
    ]
    run(conan, "install", *flags, env=environment)
    scored(tmp_path / "build", tmp_path, mcb_DIR=tmp_path / "found")


@pytest.mark.slow
def test_port_of_vcpkg(tmp_path):
    """What the port installs, with the functions and variables that vcpkg gives it."""
    port, packages = EXAMPLES / "vcpkg" / "mcb", tmp_path / "packages"
    (tmp_path / "run.cmake").write_text(f"""\
set(PORT mcb)
set(CURRENT_PACKAGES_DIR "{packages}")
function(vcpkg_install_copyright name file)
  configure_file("${{file}}" "${{CURRENT_PACKAGES_DIR}}/share/mcb/copyright" COPYONLY)
endfunction()
include("{port}/portfile.cmake")
""")
    run(needed("cmake"), "-P", tmp_path / "run.cmake")
    installed = sorted(
        str(path.relative_to(packages)) for path in packages.rglob("*") if path.is_file()
    )
    share = ["copyright", "mcb-config-version.cmake", "mcb-config.cmake", "usage"]
    assert installed == [
        "include/mcb.h",
        "include/mcb.hpp",
        *(f"share/mcb/{name}" for name in share),
    ]
    scored(tmp_path / "build", tmp_path, CMAKE_PREFIX_PATH=packages)


def test_version_of_the_port():
    assert json.loads((EXAMPLES / "vcpkg" / "mcb" / "vcpkg.json").read_text())["version"] == NUMBER


def arduino(folder, model, *options, rows=None):
    """The library of a model: what its sketch answers to rows."""
    rows = finite_rows(23, 9) if rows is None else rows
    model.save(folder / "model.mcb")
    command = [sys.executable, EXAMPLES / "arduino" / "make.py", folder / "model.mcb", *options]
    archive = Path(run(*command, "--name", "Leaf_9", "--out", folder).strip())
    with zipfile.ZipFile(archive) as kept:
        kept.extractall(folder / "libraries")
    library = folder / "libraries" / "Leaf_9"
    (folder / "Arduino.h").write_text(ARDUINO)
    sketch, main = library / "examples" / "Score" / "Score.ino", folder / "main.cpp"
    main.write_text(f'#include "Arduino.h"\n#include "{sketch}"\n{MAIN}')
    flags = ["-std=gnu++11", "-Wall", "-Wextra", "-Werror", f"-I{folder}", f"-I{library / 'src'}"]
    run(needed("c++"), *flags, main, "-o", folder / "program")
    text = "".join(" , ".join(f"{number:.9g}" for number in row) + "\r\n" for row in rows)
    *answers, waits = run(folder / "program", input=text).splitlines()
    assert waits == "0 time-outs"
    return library, answers


def packed_trees(labels=range(5)):
    return Model.from_ensemble(
        random_trees(20, 9, 5, "vector"), labels, layout="packed", leaves="int8"
    )


@pytest.mark.parametrize("labels", [[-7, 0, 3, 9, 100_000], [f"klasse-ä{i}" for i in range(5)]])
def test_arduino(labels, tmp_path):
    """Features are numbers of float32."""
    model, rows = packed_trees(labels), finite_rows(23, 9)
    library, answers = arduino(tmp_path, model, rows=rows)
    assert answers == [str(label) for label in model.classes_[integer_labels(model, "int8", rows)]]
    properties = dict(
        line.split("=", 1) for line in (library / "library.properties").read_text().splitlines()
    )
    required = (
        "name version author maintainer sentence paragraph category url architectures".split()
    )
    assert set(required) <= properties.keys()
    assert properties["name"] == library.name
    assert (library / "src" / properties["includes"]).exists()


def test_arduino_of_integers(tmp_path):
    model = packed_trees()
    rows = np.random.default_rng(0).integers(-3, 4, (23, 9)).astype(np.float32)
    rows.tofile(tmp_path / "rows")
    rows = np.vstack((rows, np.full((2, 9), [[200], [-200]], dtype=np.float32)))  # beyond int8
    library, answers = arduino(tmp_path, model, tmp_path / "rows", "--integer", "int16", rows=rows)
    assert answers == [str(label) for label in integer_labels(model, "int16", rows)]
    assert "static int8_t row[9]" in (library / "examples" / "Score" / "Score.ino").read_text()


@pytest.mark.slow
def test_arduino_for_a_cortex_m4(tmp_path):
    library, _ = arduino(tmp_path, packed_trees())
    function = "int f(const uint32_t *x)"
    (tmp_path / "only.c").write_text(
        f'#include "Leaf_9.h"\n{function};\n{function} {{ return leaf_9_predict(x); }}'
    )
    flags = [
        "-target",
        "thumb-freestanding-eabi",
        "-mcpu=cortex_m4",
        "-Os",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]
    run(
        *zig(), *flags, f"-I{library / 'src'}", "-c", tmp_path / "only.c", "-o", tmp_path / "only.o"
    )


@pytest.mark.parametrize(
    ("model", "words", "message"),
    [
        (
            "model.mcb",
            ["--name", "9"],
            "--name 9: a letter, then at most 39 letters, digits and _ make a name of C",
        ),
        ("model.mcb", ["--name", "a" * 41], "at most 39 letters"),
        ("model.mcb", ["odd"], "odd: rows of 9 float32 numbers take 36 bytes each, not 37"),
        ("model.mcb", ["none"], "none: rows of 9 float32 numbers take 36 bytes each, not 0"),
        ("model.mcb", ["nowhere"], "No such file or directory: 'nowhere'"),
        ("large.mcb", [], "the sketch prints labels as long, of 32 bits"),
        ("kernel.mcb", [], "this model has layout='list' (kernel machine)"),
        ("odd", [], "odd: the file is shorter than the 64-byte header"),
    ],
)
def test_arduino_refuses(model, words, message, tmp_path):
    folder_of_models(tmp_path)
    said = refused("arduino/make.py", tmp_path / model, *words, cwd=tmp_path)
    assert message in said and "make.py: error: " in said
    assert not (tmp_path / "arduino-out").exists()


@pytest.mark.parametrize(
    ("model", "words", "message"),
    [
        ("model.mcb", ["odd"], "odd: rows of 9 float32 numbers take 36 bytes each, not 37"),
        ("model.mcb", ["none"], "none: rows of 9 float32 numbers take 36 bytes each, not 0"),
        ("model.mcb", ["nowhere"], "No such file or directory: 'nowhere'"),
        ("nowhere.mcb", [], "No such file or directory"),
        ("kernel.mcb", ["--integer", "int8"], "this model has layout='list' (kernel machine)"),
        (
            "hamming.mcb",
            ["--target", "cortex-m0"],
            "34 kB of stack for the decoder hamming, cortex-m0 has 16 kB",
        ),
        ("odd", [], "odd: the file is shorter than the 64-byte header"),
    ],
)
def test_microcontroller_refuses(model, words, message, tmp_path):
    folder_of_models(tmp_path)
    said = refused("microcontroller/build.py", tmp_path / model, *words, cwd=tmp_path)
    assert said.startswith("build.py: ") and message in said


def folder_of_models(folder):
    """Models of which some cannot be had, and files that hold no rows."""
    trees = random_trees(5, 9, 3, "vector")
    packed = {"layout": "packed", "leaves": "int8"}
    Model.from_ensemble(trees, range(3), **packed).save(folder / "model.mcb")
    Model.from_ensemble(trees, [0, 1, 1 << 31], **packed).save(folder / "large.mcb")
    Model.from_ensemble(random_kernel(5, 9, 3), range(3)).save(folder / "kernel.mcb")
    Model.from_ensemble(random_trees(3, 9, 3, "hamming"), range(3)).save(folder / "hamming.mcb")
    (folder / "odd").write_bytes(bytes(37))
    (folder / "none").write_bytes(b"")


def refused(example, *words, cwd):
    """What an example says of arguments, without a traceback."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / example, *words], capture_output=True, text=True, cwd=cwd
    )
    assert done.returncode and "Traceback" not in done.stderr, done.stderr
    return done.stderr
