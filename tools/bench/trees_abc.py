"""Inside the class-wise trees: the search for the base class, and the histogram of a root."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from shared import peers
from shared.internals import race_search, tree_of_one_split
from shared.measure import Timing, best_of
from shared.peers import Spec

from bench.process import Field, race_processes
from bench.report import Report, benchmark
from bench.trees import saved, shared_spec, thread_words

# At most this for a round with the search over growing all K (K - 1) trees.
SEARCH = 0.55
VARIANTS = {
    "abc-logitboost, no search": ("abc-logitboost", {"gap": 10**6}),
    "logitboost": ("logitboost", {}),
}


@benchmark("trees-abc")
def bench_abc(options):
    """A round of the exhaustive search for the base class, against growing all K(K-1) trees and against logitboost."""
    rounds = options.rounds or options.size(3, 20)
    report = Report(
        {
            "rounds": f"a round without search: the difference of fits with {rounds} and {2 * rounds} rounds, divided "
            f"by {rounds}; preparation and the first search drop out",
            "search": f"trainings of {2 * rounds} rounds, in each of which first all K(K-1) trees are grown, for "
            "nothing, and then the round is done: trees, losses, scores and the model; best of the trainings for every "
            "round, then the mean",
            "leaves": options.leaves,
        }
    )
    entrants = Field()
    for name in options.data or options.size(("optdigits",), ("optdigits", "pendigits", "letter")):
        with saved(name, options) as (folder, _, n_classes):
            for threads in options.threads:
                title = f"{name} (K = {n_classes}), {thread_words(threads)}"
                spec = Spec("abc-logitboost", **shared_spec(options, 2 * rounds, threads), more={"gap": 1})
                add_search(report, title, folder, spec, options.repeat)
                add_slopes(report, title, folder, spec, rounds, entrants, options.repeat)
    entrants.tell(report)
    return report


def add_search(report, title, folder, spec, repeat):
    """A round with the search against growing the trees alone."""
    X, codes = (np.load(Path(folder, f"{name}.npy")) for name in ("X", "codes"))
    words = peers.parameters(spec, int(codes.max()) + 1)
    search, halves, growing = race_search(peers.ours(spec.method), X, codes, repeat, **words)
    for what, found in (
        ("a round with the search (gap 1)", search),
        ("growing its K(K-1)/2 trees", halves),
        ("growing all K(K-1) trees on the same scores", growing),
    ):
        report.add(f"{title}: {what}", 1e3 * found.mean(), "ms")
    share = search.sum() / growing.sum()
    report.target(f"{title}: a round with the search / all K(K-1) trees alone", share, SEARCH, at_most=True)
    rest = search - halves
    report.add(f"{title}: the same, both with losses and scores", search.sum() / (growing + rest).sum())


def add_slopes(report, title, folder, spec, rounds, entrants, repeat):
    """A round without the search against one of logitboost, from fits of two lengths."""
    specs = {
        f"{variant}, {count} rounds": replace(spec, method=method, rounds=count, more=more)
        for variant, (method, more) in VARIANTS.items()
        for count in (rounds, 2 * rounds)
    }
    found = race_processes(folder, entrants.keep(specs), repeat, errors=False, failed=entrants.failed)
    report.rows += [outcome.row(f"{title}: {label}") for label, outcome in found.items()]
    slope = {}
    for variant in VARIANTS:
        both = [found.get(f"{variant}, {count} rounds") for count in (rounds, 2 * rounds)]
        if None not in both:
            slope[variant] = (both[1].best - both[0].best) / rounds
            report.add(f"{title}: a round of {variant}", 1e3 * slope[variant], "ms")
    if len(slope) == 2:
        plain, logit = slope.values()
        report.add(f"{title}: a round without search / logitboost's", plain / logit)


@benchmark("trees-histogram")
def bench_histogram(options):
    """A tree of one split (root histogram of all features, searched), one thread, against the updates it is made of."""
    m, d, K = options.size((10000, 16, 10), (60000, 64, 10))
    generator = np.random.default_rng(0)
    X = generator.standard_normal((m, d)).astype(np.float32)
    y = generator.integers(0, K, m)
    report = Report(
        {
            "rows": m,
            "features": d,
            "bins": 256,
            "pair": "one (row, feature)",
            "limit": "read-modify-write of a random row of a 256-row table in L1, as wide as a cell; measured in turn",
            "data_preparation": "not timed",
        }
    )
    # No kernel is called for its histogram alone: the time holds the gradients, the search through the bins and the
    # division of the rows as well.
    grow, width = tree_of_one_split(X, y, K), 8
    timing, limit = Timing(), float("inf")
    for _ in range(options.repeat):
        limit = min(limit, options.limits.rmw(width, repeat=2))
        timing.seconds.append(best_of(grow, 3).best)
    each = timing.best / (m * d) * 1e9
    more = {"ms_per_tree": round(timing.best * 1e3, 2), "row_limit_ns": round(limit, 3)}
    more["percent_of_limit"] = round(100 * limit / each, 1)
    report.rows.append(timing.row("class-wise trees, one split", 1e9 / (m * d), "ns/pair", **more))
    return report
