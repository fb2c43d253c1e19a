"""The examples of README.md and of docs/ are run as they stand, in order, and print what the pages say."""

import doctest
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from c.build import STRICT, build, c_compiler, cpp_compiler
from cli.programs import call
from sklearn.base import clone

from pymcboost import MCBoostClassifier, VectorTreeBoostClassifier

ROOT = Path(__file__).resolve().parents[2]
# Names of the pages from the project's folder on, without those that a build leaves behind.
DOCS = sorted(
    page.relative_to(ROOT).as_posix()
    for page in (ROOT / "docs").rglob("*.md")
    if "_build" not in page.parts
)
C_PROGRAM = ROOT / "examples" / "score.c"
PAGES = {
    "README.md": {"python", "console"},
    "docs/index.md": {"python"},
    "docs/tutorial-python.md": {"python"},
    "docs/tutorial-shell.md": {"console"},
    "docs/tutorial-c.md": {"console"},
    "docs/tutorial-detector.md": {"python", "console"},
    "docs/commandline.md": {"console"},
    "docs/workers.md": {"python"},
}
PAGES |= {page: {"python"} for page in DOCS if page.startswith("docs/guide/")}
del PAGES["docs/guide/index.md"]
PROGRAMS = {f"mcboost-{name}": name for name in ("train", "tune", "predict", "info", "convert")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data/ and examples/, and the programs on the PATH as the package under test has them."""
    folder = tmp_path_factory.mktemp("readme")
    for name in ("data", "examples"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "bin").mkdir()
    for name, module in PROGRAMS.items():
        script = folder / "bin" / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pymcboost.cli.{module} "$@"\n')
        script.chmod(0o755)
    others = {"python": f'"{sys.executable}" "$@"'}
    # Compiled in a tenth of the time: how fast the programs are is not looked at.
    slow = '"$@" -O0 -UMCB_SIMD'
    others |= {"cc": f"{c_compiler()} {slow}", "c++": f"{cpp_compiler()} {slow}"}
    for name, command in others.items():
        (folder / "bin" / name).write_text(f"#!/bin/sh\nexec {command}\n")
        (folder / "bin" / name).chmod(0o755)
    return folder


def blocks(page):
    """(kind, text) of the code on a page."""
    text = (ROOT / page).read_text()
    return re.findall(r"^```(python|console|c)\n(.*?)^```$", text, flags=re.M | re.S)


def lines(text):
    """Lines of code without indentation and empty lines."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def run(command, folder, stdin=None):
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path), LC_ALL="C")
    environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{environment['PATH']}"
    completed = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
    )
    assert completed.returncode == 0, (command, completed.stderr)
    return completed.stdout


def run_python(text, names, page):
    """Run a session and compare what it prints; the names that it leaves."""
    test = doctest.DocTestParser().get_doctest(text, names, page, page, 0)
    failures = []
    doctest.DocTestRunner().run(test, out=failures.append, clear_globs=False)
    assert not failures, "".join(failures)
    return test.globs


def run_console(text, folder, in_a_shell):
    """Run commands and compare what they print; our own programs run in this process, which starts them at once."""
    for step in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, expected = step.partition("\n")
        first, _, rest = command.partition(" | ")
        plain = first.removesuffix(" 2>&1").removesuffix(" 2>/dev/null")
        program, *words = shlex.split(plain)
        if program in PROGRAMS and not (in_a_shell or re.search(r"[|<>$&;*]", plain)):
            completed = call(PROGRAMS[program], *words, cwd=folder)
            assert completed.returncode == 0, (command, completed.stderr)
            printed = completed.stderr * first.endswith(" 2>&1") + completed.stdout
            assert (run(rest, folder, stdin=printed) if rest else printed) == expected, command
        else:
            assert run(command, folder) == expected, command


@pytest.mark.parametrize(("page", "kinds"), PAGES.items(), ids=PAGES)
def test_examples(page, kinds, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    found = [(kind, text) for kind, text in blocks(page) if kind != "c"]
    assert {kind for kind, _ in found} == kinds
    names = {}
    for kind, text in found:
        if kind == "python":
            names = run_python(text, names, page)
        else:
            run_console(text, folder, in_a_shell=page == "README.md")


@pytest.mark.parametrize(
    ("page", "source"),
    [
        ("README.md", C_PROGRAM),
        ("docs/tutorial-c.md", C_PROGRAM),
        ("docs/tutorial-detector.md", ROOT / "examples" / "detector" / "stream.c"),
    ],
)
def test_c_on_a_page_is_part_of_the_program(page, source):
    program, shown = (
        lines(source.read_text()),
        [text for kind, text in blocks(page) if kind == "c"],
    )
    assert shown
    for line in (line for text in shown for line in lines(text)):
        assert line in program, line


def test_every_page_with_code_is_run():
    pages = ["README.md", *DOCS]
    assert {page for page in pages if blocks(page)} == set(PAGES)


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


TEXTS = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    *DOCS,
]


def test_links_lead_somewhere():
    link = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
    links = [(page, target) for page in TEXTS for target in link.findall((ROOT / page).read_text())]
    assert len(links) > 100
    assert not [link for link in links if not (ROOT / link[0]).parent.joinpath(link[1]).exists()]


def test_the_example_in_python(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    runpy.run_path("examples/digits.py", run_name="__main__")
    assert capsys.readouterr().out.endswith("error: 1.1%\n")


def test_the_example_in_shell(folder):
    assert "Accuracy = 96.8889% (436/450) (classification)\n" in run(
        "sh examples/digits.sh", folder
    )


@pytest.fixture(
    scope="module", params=[(), pytest.param(("-fsanitize=address",), marks=pytest.mark.slow)]
)
def c_example(request):
    """The example in C, compiled with all warnings as errors; with a sanitizer, which takes the compiler longer."""
    options = request.param
    return build(C_PROGRAM, [c_compiler(*options), "-std=c99", "-O0", *STRICT, *options])


def c_prints(program, path):
    completed = subprocess.run(
        [program, path], capture_output=True, text=True, env=dict(os.environ, LC_ALL="C")
    )
    return completed.returncode, completed.stdout, completed.stderr


@pytest.mark.parametrize("labels", ["integers", "strings"])
@pytest.mark.parametrize(
    "estimator", [MCBoostClassifier(n_estimators=20), VectorTreeBoostClassifier(n_estimators=3)]
)
def test_c_example_with_more_classes(c_example, tmp_path, estimator, labels):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(520, 64)), np.arange(520) % 26
    X[:, 42] = y
    if labels == "strings":
        y = np.array([chr(ord("A") + code) * (1 + code) for code in range(26)])[y]
    model = clone(estimator).fit(X, y).model_
    model.save(tmp_path / "letters.mcb")
    row = np.zeros((1, 64))
    row[0, 42] = 9
    assert c_prints(c_example, tmp_path / "letters.mcb") == (
        0,
        f"class {model.predict(row)[0]}\n",
        "",
    )


def test_c_example_with_a_large_model(c_example, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 64)), rng.integers(0, 26, 3000)
    trees = VectorTreeBoostClassifier(
        n_estimators=120, max_leaf_nodes=100, random_state=0, calibrate=None
    )
    model = trees.fit(X, y).model_
    assert len(model.to_bytes()) > 1 << 20
    model.save(tmp_path / "large.mcb")
    assert c_prints(c_example, tmp_path / "large.mcb")[0] == 0


def test_c_example_says_what_is_wrong(c_example, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 16)), np.arange(60) % 3
    MCBoostClassifier(n_estimators=3).fit(X, y).save(tmp_path / "small.mcb")
    (tmp_path / "cut.mcb").write_bytes((tmp_path / "small.mcb").read_bytes()[:-1])
    (tmp_path / "empty.mcb").write_bytes(b"")
    for name, message in [
        ("small.mcb", "the model does not have 64 features"),
        (
            "cut.mcb",
            "the file's size is not the one in its header: it was cut short, or bytes were added",
        ),
        ("empty.mcb", "the file is shorter than the 64-byte header of a model file"),
        ("none.mcb", "No such file or directory"),
        ("", "Is a directory"),
    ]:
        path = tmp_path / name
        assert c_prints(c_example, path) == (1, "", f"{path}: {message}\n")
    completed = subprocess.run([c_example], capture_output=True, text=True, cwd=tmp_path)
    assert (completed.returncode, completed.stdout, completed.stderr) == (
        1,
        "",
        "usage: score MODEL.mcb\n",
    )
