"""Li's long trainings: mnist10k, covtype-abc, poker-abc, with errors on a grid of rounds.

P. Li, Fast ABC-Boost for multi-class classification; Robust LogitBoost and adaptive base class (ABC) LogitBoost.
"""

import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

from shared import datasets, measure, peers
from shared.datasets import coded
from shared.tables import markdown_table, picture, published

from reproduce.experiment import compare, select, tell_verified
from reproduce.journal import Journal
from reproduce.longrun import Training, grid_up_to, wrong

KEY = ["method", "gap", "leaves", "min_leaf", "learning_rate", "rounds"]
COLUMNS = ["errors", "n_test", "n_train", "ended", "hours", "threads", "trained_by"]
# Further settings of a method: name to (method, least rows in a leaf).
VARIANTS = {"mart-leaf1": ("mart", 1)}
ORDER = [*peers.OURS, *VARIANTS, *peers.PEERS]


def mnist10k():
    """MNIST turned round: its 10,000 test images train, its 60,000 training images test."""
    X, y, X_test, y_test = datasets.load("mnist")
    return X_test, y_test, X, y


def plain_name(method):
    """The method of a variant."""
    return VARIANTS[method][0] if method in VARIANTS else method


def training_name(method, gap):
    return f"{method} gap={gap}" if gap else method


def new_estimator(run, method, gap, threads):
    """Estimator of one training, with warm_start."""
    if method == "lightgbm":
        shared = {"leaves": run.leaves, "learning_rate": run.learning_rate, "threads": threads}
        return peers.ResumableLightGBM(peers.Spec("lightgbm", **shared, more=dict(peers.LIGHTGBM_BARE)))
    return peers.ours(plain_name(method))(
        **{**peers.CLASS_TREES, "max_leaf_nodes": run.leaves}, n_estimators=1, learning_rate=run.learning_rate,
        min_samples_leaf=run.min_leaf(method), random_state=0, n_jobs=threads, warm_start=True,
        **({"gap": gap} if gap else {}),
    )  # fmt: skip


@dataclass(frozen=True)
class LongRun:
    """One experiment of Li's.

    ``published`` holds the number of wrong test rows by method, for gap 1 where the method has one, at
    ``published_rounds`` (None: trained to the machine accuracy of the loss). ``within`` is the relative distance that
    is asked for, None where only the order of the methods is compared.
    """

    name: str
    title: str
    data: object
    rounds: int
    gaps: tuple
    published: dict
    published_rounds: int | None
    within: float | None = None
    peers: tuple = ()
    variants: tuple = ()
    notes: str = ""
    leaves: int = 20
    learning_rate: float = 0.1
    verifiable = True

    @staticmethod
    def min_leaf(method):
        """Least rows in a leaf. Li does not say; mart comes to the published errors with 10, logitboost with 1."""
        return VARIANTS[method][1] if method in VARIANTS else 10 if method.endswith("mart") else 1

    def trainings(self, options):
        """(method, gap) of this run, gap 0 for the methods without one."""
        methods = options.methods or [*self.published, *self.variants, *self.peers]
        gaps = options.gaps or self.gaps
        return [(method, gap) for method in methods for gap in (gaps if method.startswith("abc-") else (0,))]

    def setting(self, method, gap):
        """The key of a training, but for the rounds."""
        return {
            "method": method, "gap": gap, "leaves": self.leaves, "min_leaf": self.min_leaf(method),
            "learning_rate": self.learning_rate,
        }  # fmt: skip

    def journal(self, folder, **how):
        return Journal(Path(folder, f"{self.name}.csv"), KEY, COLUMNS, as_text=("trained_by",), **how)

    def of(self, frame, method, gap):
        """Rows of one training."""
        return select(frame, **self.setting(method, gap)) if len(frame) else frame

    def curve(self, frame, method, gap):
        """Wrong test rows of one training, {rounds: count}."""
        mine = self.of(frame, method, gap).sort_values("rounds")
        return dict(zip(mine["rounds"].tolist(), mine["errors"].tolist(), strict=True))

    def finished(self, frame, method, gap, rounds):
        """Whether a training has come to ``rounds``, or to its own end."""
        mine = self.of(frame, method, gap)
        return len(mine) > 0 and bool(((mine["rounds"] >= rounds) | (mine["ended"] > 0)).any())

    def run(self, options, make=new_estimator):
        """Train everything of one run; errors go to the journal at every round of the grid."""
        journal = self.journal(options.results, fresh=options.fresh)
        parts = None
        for method, gap in self.trainings(options):
            try:
                peers.require(plain_name(method))
            except peers.Absent as reason:
                print(f"{self.name}: {method} skipped, {reason} is absent", file=sys.stderr)
                continue
            if self.finished(journal.frame(), method, gap, options.rounds or self.rounds):
                continue
            parts = parts or coded(self.data())
            self.train(journal, method, gap, parts, options, make)
        journal.sort()
        frame = journal.frame()
        print(self.text(frame))
        if len(frame):
            self.plot(Path(options.results, f"{self.name}.png"), frame)

    def train(self, journal, method, gap, parts, options, make):
        """Train one method, from its checkpoint where there is one."""
        X, codes, X_test, truth = parts
        key, name = self.setting(method, gap), training_name(method, gap)
        grid = grid_up_to(options.rounds or self.rounds)
        path = Path(options.cache, "checkpoints", f"{self.name}-{name.replace(' ', '-')}.pickle")
        if options.fresh:
            path.unlink(missing_ok=True)
        identity = {"run": self.name, **key, "n_train": len(codes)}
        training = Training(lambda: make(self, method, gap, options.jobs), identity, path, measure.commit())
        if training.rounds:
            print(f"{self.name}: {name} goes on at {training.rounds} rounds", file=sys.stderr)
            lost = [g for g in grid if g < training.rounds and journal.missing([{**key, "rounds": g}])]
            if lost:
                print(f"  no errors are kept for {lost} rounds; delete {path} to have them again", file=sys.stderr)

        def look(training):
            row = {**key, "rounds": training.rounds}
            if training.rounds == 0 or not journal.missing([row]):
                return
            errors, hours = wrong(training.estimator, X_test, truth), training.seconds / 3600
            more = {"ended": int(training.ended), "hours": round(hours, 4), "threads": options.jobs}
            more |= {"trained_by": " ".join(training.commits), "seconds": round(training.seconds, 2)}
            journal.add({**row, "errors": errors, "n_test": len(truth), "n_train": len(codes), **more})
            print(
                f"{self.name}: {name}, {training.rounds} rounds: {errors} wrong, {hours:.2f} h of training",
                file=sys.stderr,
            )

        training.run(X, codes, grid, options.minutes, look)

    def verify(self, options, make=new_estimator):
        """Train the first rounds anew and compare with the result file; returns the number of differences."""
        frame = self.journal(options.results, keep=True).frame()
        checked = differing = 0
        parts = None
        for method, gap in settings_of(frame):
            if options.methods and method not in options.methods or options.gaps and gap and gap not in options.gaps:
                continue
            points, name = self.curve(frame, method, gap), f"{self.name}: {training_name(method, gap)}"
            grid = [rounds for rounds in points if rounds <= options.verify]
            if not grid:
                print(f"{name} has no row of at most {options.verify} rounds")
                continue
            parts = parts or coded(self.data())
            X, codes, X_test, truth = parts
            training = Training(lambda m=method, g=gap: make(self, m, g, options.jobs), {}, None)
            for rounds in grid:
                training.step(rounds, X, codes)
                now = wrong(training.estimator, X_test, truth)
                kept, found = {"errors": str(points[rounds])}, {"errors": str(now)}
                differing += compare(f"{name}, {rounds} rounds", kept, found, options.tolerance)
                checked += 1
        return tell_verified(self.name, checked, differing)

    def order_words(self, frame):
        """Whether the methods stand in the published order at the last rounds that all of them have."""
        curves = {}
        for method, gap in settings_of(frame):
            # The published counts are those of gap 1; where there are several gaps, the smallest stands for the method.
            if method in self.published and method not in curves:
                curves[method] = self.curve(frame, method, gap)
        shared = set.intersection(*map(set, curves.values())) if set(curves) == set(self.published) else ()
        if not shared:
            return ""
        at = max(shared)
        ours = sorted(curves, key=lambda method: curves[method][at])
        theirs = sorted(self.published, key=self.published.get)
        verdict = "as published" if ours == theirs else f"published: {' < '.join(theirs)}"
        return f"Order at {at} rounds, fewest errors first: {' < '.join(ours)} ({verdict})."

    def text(self, frame):
        """Table of one run in Markdown."""
        shown = [g for g in sorted(set(frame["rounds"])) if g >= 50]
        shown = shown if len(shown) <= 9 else [*shown[:: -(-len(shown) // 8)], shown[-1]]
        shown = list(dict.fromkeys(shown))
        when = f"at {self.published_rounds} rounds" if self.published_rounds else "at the end"
        head = ["method", "gap", f"published {when}", *(f"{g} rounds" for g in shown), "last", "hours"]
        if self.within is not None:
            head.append(f"last within {self.within:.0%}")
        lines = []
        for method, gap in settings_of(frame):
            points = self.curve(frame, method, gap)
            last = max(points)
            hours = select(frame, method=method, gap=gap)["hours"].max()
            published_ = self.published.get(method)
            line = [method, gap or "-", published_ or "-", *(points.get(g, "-") for g in shown)]
            line += [f"{points[last]} ({last} rounds)", f"{hours:.2f}"]
            if self.within is not None:
                over = self.finished(frame, method, gap, self.rounds)
                line.append(within_words(points[last], published_, self.within) if over else "not there yet")
            lines.append(line)
        commits = sorted({commit for commits in frame["trained_by"] for commit in commits.split()})
        trained = f"Trained by commit {', '.join(f'`{commit}`' for commit in commits)}."
        tail = " ".join(words for words in (self.notes, self.order_words(frame), trained) if words)
        return f"Wrong test rows.\n\n{markdown_table(head, lines)}\n\n{tail}"

    def plot(self, path, frame):
        """Test error against rounds."""
        colours = {name: f"C{i}" for i, name in enumerate((*self.published, *peers.PEERS))}
        styles, style_of = itertools.cycle(("-", "--", ":", "-.")), {}
        with picture(path, figsize=(6.5, 4.2)) as ((axis,),):
            for method, gap in settings_of(frame):
                points = self.curve(frame, method, gap)
                style = style_of.setdefault(gap, next(styles)) if gap else "-"
                percent = [100 * errors / frame["n_test"].iloc[0] for errors in points.values()]
                marker = "." if len(points) == 1 else None
                name, colour = training_name(method, gap), colours.get(method)
                axis.loglog(list(points), percent, style, color=colour, marker=marker, label=name)
            axis.set_xlabel("rounds")
            axis.set_ylabel("test error, percent")
            axis.set_title(self.title.partition(":")[0])
            axis.legend(fontsize=7)

    def markdown(self, folder):
        """The part of docs/reproduction.md, None where ``folder`` has no rows of it."""
        frame = self.journal(folder, keep=True).frame()
        return f"### {self.title}\n\n{self.text(frame)}" if len(frame) else None


def settings_of(frame):
    """(method, gap) that have rows, in the order of the tables."""
    found = set(zip(frame["method"], frame["gap"].tolist(), strict=True))
    return sorted(found, key=lambda pair: (ORDER.index(pair[0]), pair[1]))


def within_words(ours, theirs, within):
    """Verdict on one count."""
    if theirs is None:
        return "-"
    distance = ours / theirs - 1
    return f"{'yes' if abs(distance) <= within else 'better' if distance < 0 else 'NO'} ({distance:+.1%})"


PUBLISHED = published("abcboost")
EXPERIMENTS = (
    LongRun(
        "mnist10k",
        "Mnist10k (Table 2 of Li): 10,000 training and 60,000 test images, J = 20, nu = 0.1",
        mnist10k,
        2000,
        (1,),
        PUBLISHED["mnist10k"],
        None,
        within=0.03,
        variants=("mart-leaf1",),
        notes="The paper trains to the machine accuracy of the loss, at most 10,000 rounds. It does not give "
        "the least number of rows in a leaf: mart and abc-mart have 10 here, logitboost and abc-logitboost 1; "
        "mart-leaf1 is mart with 1.",
    ),
    LongRun(
        "covtype-abc",
        "Covertype290k: 290,506 training and 290,506 test rows, J = 20, nu = 0.1",
        lambda: datasets.load_for_trees("covtype"),
        1000,
        (10,),
        PUBLISHED["covtype-abc"],
        5000,
        peers=("lightgbm",),
        notes="The split is the one published with the ABC-Boost package.",
    ),
    LongRun(
        "poker-abc",
        "Poker525k: 525,010 training and 500,000 test hands, J = 20, nu = 0.1",
        lambda: datasets.load_for_trees(datasets.GENERATED),
        1000,
        (1, 10, 100),
        PUBLISHED["poker-abc"],
        5000,
        peers=("lightgbm",),
        notes="The hands are generated (tools/make_data.py), so counts are comparable, not equal.",
    ),
)
LONG = {run.name: run for run in EXPERIMENTS}
