"""A program for mpiexec: run commands of mcboost-train one after the other, and print what all processes say.

mpiexec -n 2 python mpi_train.py '[["-q", "--mpi", "part-%r.svm", "m.mcb"], ...]'

A command that begins with "sparse" reads small files as it reads large ones.

The first process prints a list in JSON: for each command the statuses and the messages of all processes.
"""

import io
import json
import sys
from contextlib import redirect_stderr

from mpi4py import MPI

from pymcboost.cli.train import main
from pymcboost.data import svmlight

SMALL_DENSE = svmlight.SMALL_DENSE


def run(arguments):
    """Status and messages of one process."""
    messages = io.StringIO()
    sparse = arguments[0] == "sparse"
    arguments = arguments[sparse:]
    svmlight.SMALL_DENSE = 0 if sparse else SMALL_DENSE
    with redirect_stderr(messages):
        status = main(arguments)
    return status, messages.getvalue()


if __name__ == "__main__":
    workers = MPI.COMM_WORLD
    answers = [workers.gather(run(arguments)) for arguments in json.loads(sys.argv[1])]
    if workers.rank == 0:
        print(json.dumps([list(zip(*answer, strict=True)) for answer in answers]))
