"""One model scored by many threads: ThreadSanitizer and Valgrind have nothing to say, and the bits are equal."""

import shutil
import subprocess
from pathlib import Path

import pytest
from c.build import STRICTEST, build, c_compiler

SOURCE = Path(__file__).resolve().parents[1] / "c" / "threads.c"
GOLDEN = sorted(Path(__file__).with_name("golden").glob("*.mcb"))
COMMAND = ["gcc", "-std=gnu99", "-O0", "-pthread", *STRICTEST]
SIMD = "-DMCB_SIMD"  # four times the work of the compiler


def kind(path):
    """The words of a golden file's name: a model of each is enough for the quick suite."""
    return path.stem.split("-")[1]


FIRST = list({kind(path): path for path in reversed(GOLDEN)}.values())


def check(command, files):
    for path in files:
        completed = subprocess.run([*command, str(path), "64"], capture_output=True, text=True)
        assert completed.returncode == 0, (
            f"{path.name}: {completed.returncode}\n{completed.stderr[-2000:]}"
        )


def sanitized(*more):
    compiler = c_compiler("-fsanitize=thread")
    program = build(SOURCE, [compiler, *COMMAND[1:], "-fsanitize=thread", *more])
    return ["setarch", "-R", str(program)]


def test_thread_sanitizer():
    assert len(FIRST) > 5
    check(sanitized(), FIRST)


@pytest.mark.slow
def test_thread_sanitizer_on_all_golden_files():
    check(sanitized(SIMD), GOLDEN)


@pytest.mark.slow
def test_thread_sanitizer_finds_a_race(tmp_path):
    """Scores that all threads share are one."""
    broken = tmp_path / "threads.c"
    its_own = "tasks[i].rows = rows;"
    text = SOURCE.read_text()
    assert its_own in text
    broken.write_text(
        text.replace(its_own, f"{its_own} tasks[i].scores = tasks[0].scores; if (i) continue;")
    )
    program = build(broken, [*COMMAND, SIMD, "-fsanitize=thread"])
    completed = subprocess.run(
        ["setarch", "-R", str(program), str(FIRST[0]), "8"], capture_output=True, text=True
    )
    assert "data race" in completed.stderr


@pytest.mark.slow
def test_valgrind(tmp_path):
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    program = build(SOURCE, [*COMMAND, SIMD])
    check(["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", str(program)], GOLDEN)
