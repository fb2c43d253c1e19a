"""Losses of vector trees that are written in NumPy, against the compiled ones."""

import numpy as np
from shared.measure import race

from bench.inspection import clouds
from bench.report import Report, benchmark

# At most this times the time of the compiled softmax.
SLOWER = 2


class NumPySoftmax:
    """The softmax loss as one would write it, in place where NumPy can."""

    shift_invariant = True

    def start(self, y, weight, n_classes):
        return np.zeros(n_classes)

    def link(self, scores):
        e = scores - scores.max(axis=1, keepdims=True)
        np.exp(e, out=e)
        e /= e.sum(axis=1, keepdims=True)
        return e

    def value(self, y, scores):
        return -np.log(self.link(scores)[np.arange(len(y)), y])

    def gradient_hessian(self, y, scores):
        p = self.link(scores)
        hessian = p * (1 - p)
        p[np.arange(len(y)), y] -= 1
        return p, hessian


@benchmark("custom-loss")
def bench_losses(options):
    """Vector trees with the softmax loss in NumPy against the compiled one, 3 to 100 classes."""
    from pymcboost import VectorTreeBoostClassifier

    rounds, m = options.rounds or options.size(3, 30), options.size(500, 20000)
    report = Report({"data": f"{m} rows of normal clouds, 64 features", "trees": f"{rounds} rounds", "threads": 1})
    for n_classes in options.size((3,), (3, 10, 100)):
        X, y = clouds(n_classes, m, 64)
        params = {"n_estimators": rounds, "random_state": 0, "calibrate": None, "n_jobs": 1}
        runs = {
            name: lambda loss=loss, X=X, y=y, params=params: VectorTreeBoostClassifier(loss=loss, **params).fit(X, y)
            for name, loss in (("compiled", "softmax"), ("NumPy", NumPySoftmax()))
        }
        found = race(runs, options.repeat)
        report.rows += [found[name].row(f"K={n_classes}, {name}", 1e3 / rounds, "ms/round") for name in found]
        ratio = found["NumPy"].best / found["compiled"].best
        report.target(f"K={n_classes}: time in NumPy / compiled", ratio, SLOWER, at_most=True)
    return report
