"""Rows divided among the workers of Dask: our training against LightGBM's and XGBoost's own, with equal trees.

Every library trains as many trees of as many leaves, on one and on two workers of one thread each. Class-wise trees
draw neither rows nor features, as those of the others; else all keep their defaults. It needs dask, distributed,
lightgbm and xgboost in one environment.
"""

import hashlib
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from shared.datasets import load_pooled
from shared.peers import CLASS_TREES

from bench.process import run_process
from bench.report import Report, benchmark

DATA = "covtype"
LEAVES = 31
RATE = 0.1
WORKERS = (1, 2)
OURS = "ours, class-wise"
VECTORS = "ours, vector trees"  # one for all classes: as many trees are more rounds
PEERS = ("LightGBM", "XGBoost")


def estimator(how, client, rounds, n_classes):
    """An estimator of Dask with trees like those of the others."""
    if how == "LightGBM":
        import lightgbm.dask

        options = {"num_leaves": LEAVES, "learning_rate": RATE, "verbosity": -1}
        return lightgbm.dask.DaskLGBMClassifier(client=client, n_estimators=rounds, **options)
    if how == "XGBoost":
        import xgboost.dask

        options = {
            "max_leaves": LEAVES,
            "max_depth": 0,
            "grow_policy": "lossguide",
            "learning_rate": RATE,
        }
        classifier = xgboost.dask.DaskXGBClassifier(
            n_estimators=rounds, tree_method="hist", **options
        )
        classifier.client = client
        return classifier
    from pymcboost import dask

    options = {"max_leaf_nodes": LEAVES, "learning_rate": RATE, "random_state": 0, "client": client}
    if how == VECTORS:
        return dask.DaskVectorTreeBoostClassifier(
            n_estimators=rounds * n_classes, calibrate=None, **options
        )
    return dask.DaskLogitBoostClassifier(n_estimators=rounds, **{**CLASS_TREES, **options})


def bytes_of(how, model):
    """What tells models of a library apart."""
    if how == "LightGBM":
        return model.booster_.model_to_string().partition("\nparameters:")[0].encode()
    if how == "XGBoost":
        return bytes(model.get_booster().save_raw("json"))
    return model.model_.to_bytes()


def cpu_of_workers(client):
    """CPU seconds of the processes of all workers so far."""
    return sum(client.run(time.process_time).values())


def work(how, workers, rows, rounds, folder, spec):
    """One fit on that many workers; what it took. Labels of the rows left out go to a file there."""
    import dask.array
    from distributed import Client, LocalCluster, wait

    X, y = (part[:rows] for part in load_pooled(DATA))
    classes, y = np.unique(y, return_inverse=True)
    X = np.ascontiguousarray(X, dtype=np.float32)
    held = np.arange(len(y)) % 5 == 4
    size = -(-int((~held).sum()) // workers)
    cluster = LocalCluster(
        n_workers=workers, threads_per_worker=spec["threads"], dashboard_address=None
    )
    with cluster, Client(cluster) as client:
        parts = client.persist([dask.array.from_array(part[~held], chunks=size) for part in (y,)])
        parts = client.persist([dask.array.from_array(X[~held], chunks=(size, X.shape[1])), *parts])
        wait(parts)
        client.rebalance(parts)
        model = estimator(how, client, rounds, n_classes=len(classes))
        begin = time.perf_counter()
        cpu = cpu_of_workers(client)
        model.fit(*parts)
        measured = {"seconds": time.perf_counter() - begin, "cpu": cpu_of_workers(client) - cpu}
        if how == "XGBoost":
            labels = model.get_booster().inplace_predict(X[held]).argmax(axis=1)
        else:
            labels = model.to_local().predict(X[held])
        measured["error"] = float((labels != y[held]).mean())
        measured["sha256"] = hashlib.sha256(bytes_of(how, model)).hexdigest()
    np.save(Path(folder, f"{how}-{workers}.npy"), labels)
    return measured


@benchmark("dask")
def bench_dask(options):
    """Training on a LocalCluster against LightGBM's and XGBoost's own: seconds, errors, models of 1 and 2 workers."""
    import lightgbm
    import xgboost

    rows = (options.rows or [options.size(5000, 10**9)])[0]
    rounds = options.rounds or options.size(2, 20)
    report = Report(
        {
            "data": DATA,
            "rounds of a tree for each class": rounds,
            "leaves": LEAVES,
            "learning rate": RATE,
        }
    )
    report.parameters |= {"LightGBM": lightgbm.__version__, "XGBoost": xgboost.__version__}
    outcomes = {(how, workers): [] for how in (OURS, VECTORS, *PEERS) for workers in WORKERS}
    with tempfile.TemporaryDirectory(prefix="mcboost-dask-") as folder:
        for _ in range(options.repeat):
            for how, workers in outcomes:
                task = {
                    "how": how,
                    "workers": workers,
                    "rows": rows,
                    "rounds": rounds,
                    "folder": folder,
                }
                outcomes[how, workers].append(
                    run_process({**task, "spec": {"threads": 1}}, "bench.dask")
                )
        moved = {
            how: float(
                np.mean(
                    np.load(Path(folder, f"{how}-1.npy")) != np.load(Path(folder, f"{how}-2.npy"))
                )
            )
            for how in (OURS, VECTORS, *PEERS)
        }
    seconds = {key: min(one["seconds"] for one in runs) for key, runs in outcomes.items()}
    for (how, workers), runs in outcomes.items():
        more = {
            "cpu_s": round(min(one["cpu"] for one in runs), 2),
            "error_percent": round(100 * runs[0]["error"], 2),
        }
        report.add(
            f"{how}, {workers} worker{'s' * (workers > 1)}", seconds[how, workers], "s", **more
        )
    for how in (OURS, VECTORS, *PEERS):
        files = {one["sha256"] for workers in WORKERS for one in outcomes[how, workers]}
        report.add(
            f"{how}: models of 1 and 2 workers",
            len(files),
            "different",
            labels_moved_percent=100 * moved[how],
        )
    for how in PEERS:
        report.target(f"2 workers, {how} / {OURS}", seconds[how, 2] / seconds[OURS, 2], 1)
    files = {one["sha256"] for workers in WORKERS for one in outcomes[OURS, workers]}
    report.target(f"{OURS}: different models", len(files), 1, at_most=True, unit="")
    return report


if __name__ == "__main__":
    print(json.dumps(work(**json.loads(sys.argv[1]))))
