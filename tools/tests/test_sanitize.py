"""tools/sanitize.py without a build of the kernels: ThreadSanitizer with the OpenMP that stands in for gcc's."""

import shutil
import subprocess

import pytest
import sanitize

LOOPS = """
#include <omp.h>
#include <stdio.h>
long a[1000], total, shared;
int main(void) {
    for (int round = 0; round < 20; round++) {
#pragma omp parallel num_threads(4)
        {
#pragma omp for schedule(dynamic, 7)
            for (int i = 0; i < 1000; i++) a[i] += i;
#pragma omp for schedule(dynamic, 3) nowait
            for (int i = 3; i < 1000; i += 2) a[999 - i] += 1;
        }
#pragma omp parallel for schedule(static) num_threads(3)
        for (int i = 0; i < 1000; i++) {
            a[i] -= 1 + 0 * omp_get_num_threads();
            if (RACE) shared++;
        }
    }
    for (int i = 0; i < 1000; i++) total += a[i];
    printf("%ld\\n", total);
}
"""
TOTAL = 20 * (1000 * 999 // 2 + 499 - 1000)


@pytest.mark.parametrize("race", [0, 1])
def test_a_race_in_a_loop_is_found_and_nothing_else(race, tmp_path):
    if not shutil.which("gcc") or not shutil.which("setarch"):
        pytest.skip("gcc or setarch is not installed")
    sanitize.library("libtsan.so")
    openmp = sanitize.build_openmp(tmp_path)
    source = tmp_path / "loops.c"
    source.write_text(LOOPS)
    command = ["gcc", "-O1", "-fopenmp", "-fsanitize=thread", f"-DRACE={race}", source]
    command += ["-Wl,--no-as-needed", openmp, "-o", tmp_path / "loops"]
    subprocess.run(command, check=True)
    done = subprocess.run(
        ["setarch", "-R", tmp_path / "loops"], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == f"{TOTAL}\n", done.stderr
    assert ("WARNING: ThreadSanitizer: data race" in done.stderr) == bool(race)


def test_the_tests_that_it_lists_are_there():
    names = [word for words in sanitize.TESTS.values() for word in words if "/" in word]
    assert names
    assert all((sanitize.ROOT / name).exists() for name in names)
