"""Li's trainings of thousands of trees: mnist10k, covtype-abc, poker-abc, poker25k-abc, errors on a grid of rounds.

P. Li, Fast ABC-Boost for multi-class classification; Robust LogitBoost and adaptive base class (ABC) LogitBoost.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import make_data
import numpy as np
from shared import datasets, peers
from shared.datasets import coded
from shared.tables import markdown_table, picture, published

from reproduce.experiment import Experiment, Results

# Rounds at which errors are counted, besides the last.
GRID = (
    10,
    25,
    50,
    100,
    150,
    200,
    300,
    400,
    500,
    600,
    800,
    1000,
    1250,
    1500,
    1750,
    2000,
    2500,
    3000,
    4000,
    5000,
)
SHOWN_FROM = 50
MOST_SHOWN = 9
LEAVES = 20
LEARNING_RATE = 0.1
ORDER = [*peers.OURS, *peers.PEERS]
PUBLISHED = published("abcboost")


def mnist10k():
    """MNIST turned round: its 10,000 test images train, its 60,000 training images test."""
    X, y, X_test, y_test = datasets.load("mnist")
    return X_test, y_test, X, y


def poker25k():
    """UCI's 25,010 training hands, and those of its test hands that can be had, with the features of Poker525k."""
    X, y, X_test, y_test = datasets.load("poker")
    return make_data.poker_features(X), y, make_data.poker_features(X_test), y_test


def least_rows(method):
    """Least rows in a leaf. Li does not say; mart comes to the published errors with 10, logitboost with 1."""
    return 10 if method.endswith("mart") else 1


def specification(unit):
    """What is fitted."""
    method = unit["method"]
    gap = int(unit["gap"])
    if method in peers.PEERS:
        more = peers.LIGHTGBM_BARE
    else:
        more = {"min_samples_leaf": int(unit["min_leaf"]), **({"gap": gap} if gap else {})}
    return peers.Spec(method, int(unit["rounds"]), LEAVES, learning_rate=LEARNING_RATE, more=more)


def curve_of_training(spec, parts):
    """One training: rounds, rows, seconds, and a curve of "rounds:wrong test rows" on the grid and at the end."""
    X, codes, X_test, truth = parts
    begin = time.perf_counter()
    model = peers.fit(spec, X, codes, n_classes=int(codes.max()) + 1)
    seconds = time.perf_counter() - begin
    counted = {*GRID, model.rounds}
    curve = {
        rounds: int(np.count_nonzero(predicted != truth))
        for rounds, predicted in enumerate(model.staged(X_test), 1)
        if rounds in counted
    }
    return {
        "rounds_fitted": model.rounds,
        "n_train": len(codes),
        "n_test": len(truth),
        "curve": " ".join(f"{rounds}:{errors}" for rounds, errors in curve.items()),
        "seconds": round(seconds, 2),
    }


def fit_long(data, unit):
    """One training of a unit."""
    return {**unit, **curve_of_training(specification(unit), coded(data()))}


@dataclass(frozen=True)
class LongRun:
    """One data set of Li's.

    ``published_rounds`` are the rounds of the published errors, for gap 1 where the method has one; None where Li
    trains to the machine accuracy of the loss. ``within`` is the relative distance that is asked for, None where only
    the order of the methods is compared. ``others`` has the rounds of other libraries. Gaps are compared after
    ``gap_rounds``.
    """

    name: str
    title: str
    data: Callable
    rounds: int
    gaps: tuple
    published_rounds: int | None
    notes: str
    within: float | None = None
    others: dict = field(default_factory=dict)
    gap_rounds: int = 1000

    @property
    def published(self):
        """The published errors by method; without those that the paper does not print."""
        return {method: wrong for method, wrong in PUBLISHED[self.name].items() if wrong}

    def units(self, options, journal):
        """Trainings by method and gap, gap 0 for the methods without one."""
        others, _ = peers.available(self.others)
        units = []
        for method in options.methods or [*PUBLISHED[self.name], *others]:
            rounds = options.rounds or self.others.get(method, self.rounds)
            min_leaf = least_rows(method)
            gaps = (options.gaps or self.gaps) if method.startswith("abc-") else (0,)
            units += [
                {"method": method, "gap": gap, "min_leaf": min_leaf, "rounds": rounds}
                for gap in gaps
            ]
        yield 0, units, self.name

    def trainings(self, frame):
        """(row, its curve) of the training with most rounds of each method and gap, in the order of the tables."""
        best = {}
        for row in frame.sort_values("rounds").to_dict("records"):
            best[row["method"], row["gap"]] = row
        order = sorted(best, key=lambda pair: (ORDER.index(pair[0]), pair[1]))
        return [(best[key], curve_of(best[key])) for key in order]

    def page(self, frame):
        """Wrong rows at the end of every training beside the published ones; without those that were ended early."""
        lines = []
        for row, curve in self.trainings(frame):
            theirs = self.published.get(row["method"])
            last = max(curve)
            whole = row["rounds"] >= self.rounds and theirs and self.within is not None
            if self.within is not None and not whole:
                continue
            far = f"{100 * (curve[last] / theirs - 1):+.1f}%" if whole else "-"
            published = f"{theirs:,}" if theirs else "-"
            lines.append(
                [row["method"], row["gap"] or "-", published, f"{curve[last]:,}", f"{last:,}", far]
            )
        heads = ["method", "gap", "paper", "ours", "rounds", "distance"]
        if self.within is None:
            heads = heads[:-1]
            lines = [line[:-1] for line in lines]
        return markdown_table(heads, lines)

    def counts_by_gap(self, frame):
        """{method: {gap: wrong rows}} after the rounds at which gaps are compared; gap 0 for methods without one."""
        found = {}
        for row, curve in self.trainings(frame):
            if self.gap_rounds in curve and row["method"] not in peers.PEERS:
                found.setdefault(row["method"], {})[row["gap"]] = curve[self.gap_rounds]
        return found

    def gaps_page(self, frame):
        """Wrong rows by gap, and how far they are from those of gap 1; the methods without a gap come last."""
        found = self.counts_by_gap(frame)
        pairs = [(plain, f"abc-{plain}") for plain in ("mart", "logitboost")]
        gaps = sorted({gap for _, abc in pairs for gap in found.get(abc, ())})
        lines = [
            [gap, *(_beside_first(found.get(abc, {}), gap) for _, abc in pairs)] for gap in gaps
        ]
        plain_ones = [found[plain][0] if plain in found else None for plain, _ in pairs]
        cells = [f"{wrong:,}" if wrong else "-" for wrong in plain_ones]
        lines.append(["without ABC", *cells])
        return markdown_table(["gap", *(abc for _, abc in pairs)], lines)

    def order_words(self, trainings):
        """Whether the methods stand in the published order at the last rounds that all of them have."""
        curves = {}
        for row, curve in trainings:
            # The published counts are those of gap 1; where there are several gaps, the smallest stands for the method.
            if row["method"] in self.published:
                curves.setdefault(row["method"], curve)
        shared = (
            set.intersection(*map(set, curves.values()))
            if curves and set(curves) == set(self.published)
            else ()
        )
        if not shared:
            return ""
        last = max(shared)
        ours = sorted(curves, key=lambda method: curves[method][last])
        theirs = sorted(self.published, key=self.published.get)
        verdict = "as published" if ours == theirs else f"published: {' < '.join(theirs)}"
        return f"Order at {last} rounds, fewest errors first: {' < '.join(ours)} ({verdict})."

    def text(self, frame):
        """The table in Markdown."""
        trainings = self.trainings(frame)
        shown = sorted(
            {rounds for _, curve in trainings for rounds in curve if rounds >= SHOWN_FROM}
        )
        if len(shown) > MOST_SHOWN:
            step = -(-len(shown) // (MOST_SHOWN - 1))
            shown = list(dict.fromkeys([*shown[::step], shown[-1]]))
        when = f"at {self.published_rounds} rounds" if self.published_rounds else "at the end"
        head = [
            "method",
            "gap",
            f"published {when}",
            *(f"{rounds} rounds" for rounds in shown),
            "last",
            "hours",
        ]
        if self.within is not None:
            head.append(f"last within {self.within:.0%}")
        lines = []
        for row, curve in trainings:
            theirs = self.published.get(row["method"])
            last = max(curve)
            line = [
                row["method"],
                row["gap"] or "-",
                theirs or "-",
                *(curve.get(rounds, "-") for rounds in shown),
            ]
            line += [f"{curve[last]} ({last} rounds)", f"{row['seconds'] / 3600:.2f}"]
            if self.within is not None:
                # A shorter training has not come to the end that the paper counts at.
                line.append(
                    within_words(curve[last], theirs, self.within)
                    if row["rounds"] >= self.rounds
                    else "-"
                )
            lines.append(line)
        tail = f"{self.notes} {self.order_words(trainings)}".strip()
        return f"Wrong test rows.\n\n{markdown_table(head, lines)}\n\n{tail}"

    def values(self, frame):
        """What sentences say: the published errors, ours by gap at the last round and on the grid, and LightGBM's."""
        found = {
            "published": ", ".join(
                f"{method} {wrong:,}" for method, wrong in self.published.items()
            )
        }
        if self.within is not None:
            # The smallest gap comes first of a method's trainings.
            first = {}
            for row, curve in self.trainings(frame):
                first.setdefault(row["method"], curve[max(curve)])
            distances = [abs(first[method] / wrong - 1) for method, wrong in self.published.items()]
            found["worst"] = f"{100 * max(distances):.1f}"
        for method, counts in self.counts_by_gap(frame).items():
            found |= {
                f"{method}-gap-{gap}-over-1": f"{wrong / counts[1] - 1:+.1%}"
                for gap, wrong in counts.items()
                if gap and 1 in counts
            }
        for row, curve in self.trainings(frame):
            if row["method"] in peers.PEERS:
                found |= {
                    f"{row['method']}-{rounds}": f"{wrong:,}" for rounds, wrong in curve.items()
                }
            else:
                name = f"{row['method']}-gap-{row['gap']}" if row["gap"] else row["method"]
                found[name] = f"{curve[max(curve)]:,}"
                found |= {f"{name}-at-{rounds}": f"{wrong:,}" for rounds, wrong in curve.items()}
        return found

    def plot(self, path, frame):
        """Test error against rounds."""
        colours = {name: f"C{i}" for i, name in enumerate((*PUBLISHED[self.name], *peers.PEERS))}
        styles = itertools.cycle(("-", "--", ":", "-."))
        style_of = {}
        with picture(path, figsize=(6.5, 4.2)) as ((axis,),):
            for row, curve in self.trainings(frame):
                method, gap = row["method"], row["gap"]
                style = style_of.setdefault(gap, next(styles)) if gap else "-"
                percent = [100 * errors / row["n_test"] for errors in curve.values()]
                label = f"{method} gap={gap}" if gap else method
                axis.loglog(list(curve), percent, style, color=colours.get(method), label=label)
            axis.set_xlabel("rounds")
            axis.set_ylabel("test error, percent")
            axis.set_title(self.title.partition(":")[0])
            axis.legend(fontsize=7)

    def experiment(self):
        columns = "rounds_fitted n_train n_test curve"
        results = Results(
            self.name,
            "method gap min_leaf rounds",
            columns,
            fit=partial(fit_long, self.data),
            as_text="curve",
        )
        methods = (*PUBLISHED[self.name], *self.others)
        return Experiment(
            self.name,
            self.title,
            (results,),
            plan=self.units,
            text=self.text,
            plot=self.plot,
            methods=methods,
            values=self.values,
            pages={"": self.page, "gaps": self.gaps_page},
        )


def curve_of(row):
    """{rounds: wrong test rows} of a training."""
    points = (point.split(":") for point in str(row["curve"]).split())
    return {int(rounds): int(errors) for rounds, errors in points}


def _beside_first(counts, gap):
    """Wrong rows of a gap, and their distance from those of gap 1 in percent."""
    if gap not in counts:
        return "-"
    first = counts.get(1)
    return f"{counts[gap]:,}" + (f" ({counts[gap] / first - 1:+.1%})" if first and gap > 1 else "")


def within_words(ours, theirs, within):
    """Verdict on one count."""
    if theirs is None:
        return "-"
    distance = ours / theirs - 1
    return f"{'yes' if abs(distance) <= within else 'better' if distance < 0 else 'NO'} ({distance:+.1%})"


RUNS = (
    LongRun(
        "mnist10k", "Mnist10k (Table 2 of Li): 10,000 training and 60,000 test images, J = 20, nu = 0.1",
        mnist10k, rounds=2000, gaps=(1,), published_rounds=None, within=0.03, gap_rounds=500,
        notes="The paper trains to the machine accuracy of the loss, at most 10,000 rounds. It does not give "
        "the least number of rows in a leaf: mart and abc-mart have 10 here, logitboost and abc-logitboost 1. "
        "The published errors of the abc methods have gap 1.",
    ),
    LongRun(
        "covtype-abc", "Covertype290k: 290,506 training and 290,506 test rows, J = 20, nu = 0.1",
        partial(datasets.load_for_trees, "covtype"), rounds=1000, gaps=(10,), published_rounds=5000,
        others={"lightgbm": 1000},
        notes="The split is the one published with the ABC-Boost package.",
    ),
    LongRun(
        "poker-abc", "Poker525k: 525,010 training and 500,000 test hands, J = 20, nu = 0.1",
        partial(datasets.load_for_trees, datasets.GENERATED), rounds=1000, gaps=(1, 10, 100), published_rounds=5000,
        others={"lightgbm": 500},
        notes="The hands are generated (tools/make_data.py), so counts are comparable, not equal.",
    ),
    LongRun(
        "poker25k-abc", "Poker25k: UCI's 25,010 training hands, 99,999 of its test hands, J = 20, nu = 0.1",
        poker25k, rounds=1000, gaps=(1, 5, 10, 20, 50, 100, 500, 1000), published_rounds=None,
        notes="The paper does not have this size; its smallest has 275,010 training hands.",
    ),
)  # fmt: skip
EXPERIMENTS = tuple(run.experiment() for run in RUNS)
