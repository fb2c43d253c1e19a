"""One model for every number of workers and threads, every division of the rows, in memory and in blocks."""

import itertools
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from divided import grid
from divided.threads import run

from pymcboost.comm import Alone

SIZES = (1, 2, 3, 4, 8)
THREADS = (1, 2)
WHERE = ("memory", "blocks")
NAMES = grid.estimators()
AXES = NAMES, SIZES, THREADS, grid.DIVISIONS, WHERE


def quick(case):
    """Whether a case is one of those in which any two values of two axes meet."""
    i, j, t, h, w = (axis.index(value) for axis, value in zip(AXES, case, strict=True))
    return h == (i + j) % 5 and t == (i // 2 + j) % 2 and w == (i + j // 2) % 2


CASES = list(itertools.product(*AXES))
SAMPLE = [case for case in CASES if quick(case)]


def test_any_two_values_meet_in_the_sample():
    assert len(SAMPLE) == len(NAMES) * len(SIZES)
    for a, b in itertools.combinations(range(len(AXES)), 2):
        assert {(case[a], case[b]) for case in SAMPLE} == set(itertools.product(AXES[a], AXES[b]))


@cache
def data():
    return grid.rows()


@cache
def expected(name):
    X, y, weight = data()
    return grid.checksum(
        name,
        X,
        y,
        weight=weight,
        part=grid.parts_of(y, 1, "even")[0],
        comm=Alone(),
        threads=1,
        where="memory",
    )


@pytest.mark.parametrize(
    ("name", "size", "threads", "how", "where"),
    [pytest.param(*case, marks=() if quick(case) else pytest.mark.slow) for case in CASES],
)
def test_one_model(name, size, threads, how, where):
    X, y, weight = data()
    parts = grid.parts_of(y, size, how)

    def task(workers):
        return grid.checksum(
            name,
            X,
            y,
            weight=weight,
            part=parts[workers.rank],
            comm=workers,
            threads=threads,
            where=where,
        )

    assert run(size, task) == [expected(name)] * size


@pytest.mark.slow
@pytest.mark.parametrize("how", grid.DIVISIONS)
@pytest.mark.parametrize("size", SIZES)
def test_one_model_of_processes(size, how):
    pytest.importorskip("mpi4py")
    mpiexec = Path(sys.executable).with_name("mpiexec")
    if not mpiexec.exists():
        pytest.skip("no mpiexec beside Python: pip install mpich")
    threads = str(1 + size % 2)
    where = WHERE[len(how) % 2]
    command = [str(mpiexec), "-n", str(size), sys.executable, grid.__file__, how, threads, where]
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    completed = subprocess.run(
        command, capture_output=True, text=True, timeout=900, env=environment
    )
    want = sorted(f"{name} {expected(name)}" for name in NAMES for _ in range(size))
    assert sorted(completed.stdout.splitlines()) == want, completed.stderr[-2000:]
