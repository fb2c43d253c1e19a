"""Reading LIBSVM text, against scikit-learn."""

import gzip
import shutil
import tempfile
from pathlib import Path

import numpy as np
from shared.datasets import data_file
from shared.measure import race

from bench.report import Report, benchmark


@benchmark("svmlight")
def bench_svmlight(options):
    """Read the unpacked mnist.train, dense and CSR, one thread, against scikit-learn's load_svmlight_file."""
    from sklearn.datasets import load_svmlight_file

    from pymcboost import load_svmlight

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mnist.train.libsvm")
        with gzip.open(data_file("mnist.train.libsvm.gz")) as packed, open(path, "wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
        if options.quick:
            path.write_bytes(b"\n".join(path.read_bytes().split(b"\n", 6000)[:6000]) + b"\n")
        size = path.stat().st_size

        def sklearn(dtype):
            return load_svmlight_file(path, n_features=784, dtype=dtype)

        readers = {
            "ours dense": lambda: load_svmlight(path, n_features=784, layout="dense"),
            "ours csr": lambda: load_svmlight(path, n_features=784, layout="csr"),
            "sklearn csr": lambda: sklearn(np.float64),
            "sklearn csr float32": lambda: sklearn(np.float32),
            "sklearn dense float32": lambda: sklearn(np.float32)[0].toarray(),
            "plain read of the bytes": lambda: len(path.read_bytes()),
        }
        timings = race(readers, min(options.repeat, 3), warm_up=False)
    theirs, labels = timings["sklearn csr float32"].value
    dense = timings["ours dense"].value
    sparse = timings["ours csr"].value
    same = (sparse.X != theirs).nnz == 0 and np.array_equal(dense.X, theirs.toarray())
    same = bool(same and np.array_equal(dense.y, labels))
    report = Report(
        {"file": "mnist.train, unpacked", "bytes": size, "threads": 1, "same_values": same}
    )
    for name, timing in timings.items():
        more = {
            "MB_per_second": round(size / timing.best / 1e6),
            "grown_MB": round(timing.grown_MB),
        }
        report.rows.append(timing.row(name, **more))
    best = min(timings["sklearn csr"].best, timings["sklearn csr float32"].best)
    for layout in ("dense", "csr"):
        ratio = best / timings[f"ours {layout}"].best
        report.target(f"{layout}: time of scikit-learn's CSR (its faster dtype) / ours", ratio, 4)
    if not same:
        report.notes.append("VALUES DIFFER from scikit-learn's")
    return report
