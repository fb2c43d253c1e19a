"""Threads beyond those of this machine: the schedule of one vector tree, from pieces that one thread was timed in.

One thread is timed, in CPU seconds: each kernel of a round, and growing trees of several sizes. Two threads are timed
where they meet in the pool. The model then gives the pieces of a tree to any number of threads, in the order in which
the kernels do (`pool.h`, `vector_large_nodes.h`, `vector_small_nodes.h`). Memory is as fast as it was for one thread.
"""

import ctypes
import heapq
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from shared import measure
from shared.datasets import load_for_trees

from bench import limits
from bench.report import Report, benchmark

THREADS = (2, 8, 32, 64)
ROWS, MOST_ROWS = (100_000, 1_000_000), 10_000_000
# As in the kernels: rows of a piece of a pass, rows that one thread parts at a time, least rows of a share; pieces of a
# search for each thread; columns filled together; updates from which on all threads work on a node; nodes split ahead.
PASS_ROWS, PART, SHARE, PIECES, GROUP, WIDE, AHEAD = 1024, 8192, 16384, 4, 8, 120_000, 8
# The kernels of a round that are called from Python, beside the tree: what they do.
PASSES = {
    "gradient": "gradients and scores",
    "project": "directions",
    "quantise": "gradients to integers",
    "sum_of_squares": "mean square of the gradients",
    "leaf_sums": "mean of the gradients",
}
LEAF_VALUES = "leaf values"
ROUND = {*PASSES, "softmax_values", "grow"}
# Nanoseconds in which a line of the cache passes between distant cores of a server, where it takes longer than here.
FAR_LINE = 100.0
# Rounds of a training that is cited, and of the check of many rows by two threads.
DEFAULT_ROUNDS, FEW_ROUNDS = 300, 12
GROWN = ("rows drawn", "large nodes", "small nodes", "rows of the leaves")
# Of the time of a large node: what its rows are parted in and put in place in; the rest is its search.
PARTED, PLACED = 0.1, 0.3


# -- model ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """Seconds of what threads cost each other.

    hand_over : until a thread that is awake takes its first piece
    wake : the same of a thread that sleeps
    lock : between two threads that take a lock, one after the other
    piece : to take a piece
    """

    hand_over: float = 0.0
    wake: float = 0.0
    lock: float = 0.0
    piece: float = 0.0


@dataclass(frozen=True)
class Tree:
    """The nodes of a tree that was grown further than its most leaves: where it ends, and what it could have split.

    rows : rows drawn for the tree, by node
    gain : 0 of nodes without a known split
    left, right : numbers of the children, -1 of nodes without a known split
    """

    rows: np.ndarray
    gain: np.ndarray
    left: np.ndarray
    right: np.ndarray
    most_leaves: int
    leaf_rows: np.ndarray = field(default_factory=lambda: np.ones(1))  # of the leaves that stay

    def scaled(self, factor):
        """The same tree on so many times the rows."""
        return replace(self, rows=self.rows * factor, leaf_rows=self.leaf_rows * factor)

    def order(self):
        """Splits in best-first order."""
        heap, split_nodes = [(-self.gain[0], 0, 0)], []
        number = 1
        while heap and len(split_nodes) < self.most_leaves - 1:
            _, _, node = heapq.heappop(heap)
            if self.left[node] < 0:
                continue
            split_nodes.append(node)
            for child in (self.left[node], self.right[node]):
                heapq.heappush(heap, (-self.gain[child], number, child))
                number += 1
        return split_nodes


@dataclass(frozen=True)
class Costs:
    """Seconds of one thread.

    passes : {kernel: a row}
    leaf_value, start, route : a row; start: rows are drawn and listed by leaves; route: of rows not drawn, a split
    large, small : a row of a node with many rows, or with few, which is split and whose children are searched
    split : what a split costs however few its rows are
    python : of a tree, between the kernels
    """

    passes: dict
    leaf_value: float = 0.0
    start: float = 0.0
    route: float = 0.0
    large: float = 0.0
    small: float = 0.0
    split: float = 0.0
    python: float = 0.0

    def of_rows(self, rows, drawn):
        """Seconds of the rows of a split."""
        return rows * (self.large if rows * drawn >= 4 * WIDE else self.small)


@dataclass(frozen=True)
class Shape:
    """Sizes of the data and of a search.

    rows, share : rows, and the share of them that is drawn for a tree
    drawn, sums : features drawn at a node; sums in the histograms of a group of columns
    merge : seconds in which a sum is added to another
    lanes : sums of a cell
    """

    rows: int
    share: float
    drawn: int
    sums: int = 0
    merge: float = 0.0
    lanes: int = 4

    @property
    def groups(self):
        """Groups of columns that are filled together."""
        return -(-self.drawn // GROUP)


def job(pieces, threads, pool, asleep=False):
    """Seconds until all pieces, of so many seconds each, are done.

    Threads come one after the other: those that are awake take their seats under a lock, others are woken.
    """
    seats = min(len(pieces), threads)
    if seats <= 1:
        return float(sum(pieces))
    first, each = (pool.wake, pool.hand_over) if asleep else (pool.hand_over, pool.lock)
    free = [0.0] + [first + k * each for k in range(seats - 1)]
    end = 0.0
    for piece in pieces:
        start = heapq.heappop(free)
        end = max(end, start + piece + pool.piece)
        heapq.heappush(free, start + piece + pool.piece)
    return end + pool.lock


def equal(total, n):
    """Pieces of the same length."""
    return [total / n] * n


def pieces_of(rows, size):
    """Number of pieces of so many rows."""
    return max(1, -(-int(rows) // size))


def is_large(tree, shape, node, leaves, threads):
    """Whether all threads work on a node together."""
    return tree.rows[node] * shape.drawn >= WIDE * (1 if leaves < 4 * threads else 4)


def search(rows, n_searches, seconds, scan, shape, threads, pool):
    """Seconds of the searches of one node, or of two children: shares of the rows of each group of columns."""
    groups = n_searches * shape.groups
    shares = min(-(-PIECES * threads // groups), int(rows / n_searches) // SHARE)
    if threads == 1 or shares < 2:
        return job(equal(seconds + scan, groups), threads, pool)
    filled = job(equal(seconds, groups * shares), threads, pool)
    # Shares are added up one after the other under the lock of their group; the last one is scanned.
    return max(filled, shares * shape.sums * shape.merge) + scan / groups


def large_split(tree, shape, costs, node, threads, pool):
    """Seconds of a node that all threads part and search together."""
    rows = tree.rows[node]
    seconds, n = costs.of_rows(rows, shape.drawn), pieces_of(rows, PART)
    parted = job(equal(PARTED * seconds, n), threads, pool)
    placed = job(equal(PLACED * seconds, n), threads, pool)
    of_search = (1 - PARTED - PLACED) * seconds
    return (
        parted
        + placed
        + search(rows, 2, of_search, scan=costs.split, shape=shape, threads=threads, pool=pool)
    )


class SmallNodes:
    """Threads that split nodes side by side until the next one is large, or the tree is complete."""

    def __init__(self, tree, shape, costs, threads, pool):
        self.tree, self.shape, self.costs, self.threads, self.pool = (
            tree,
            shape,
            costs,
            threads,
            pool,
        )
        self.open, self.offered, self.number, self.ahead = [], [], 0, 0
        self.taken, self.parted = set(), set()
        self.left = tree.most_leaves - 1
        self.in_vain = 0
        self.push_open(0)

    @property
    def leaves(self):
        """Leaves so far."""
        return self.tree.most_leaves - self.left

    def push_open(self, node):
        """A leaf of the tree."""
        if self.tree.left[node] >= 0:
            heapq.heappush(self.open, (-self.tree.gain[node], self.number, node))
        self.number += 1

    def searched(self, node):
        """The children of a node are known."""
        self.parted.add(node)
        self.ahead += 1
        self.in_vain += 1
        for child in (self.tree.left[node], self.tree.right[node]):
            if self.tree.left[child] >= 0:
                heapq.heappush(self.offered, (-self.tree.gain[child], child))

    def close(self):
        """Make splits of those whose turn it is; the node that comes next, or -1."""
        while self.left > 0 and self.open:
            node = self.open[0][2]
            if node not in self.parted:
                return node
            heapq.heappop(self.open)
            self.left -= 1
            self.ahead -= 1
            self.in_vain -= 1
            self.push_open(self.tree.left[node])
            self.push_open(self.tree.right[node])
        return -1

    def take(self):
        """A node to split, -1: wait, -2: leave."""
        node = self.close()
        if node < 0 or (node not in self.taken and self.large(node)):
            return -2
        if node in self.taken:
            node = self.take_ahead()
        if node >= 0:
            self.taken.add(node)
        return node

    def take_ahead(self):
        """The best node that may be split ahead of its turn, or -1."""
        if self.ahead >= min((self.left + 1) // 2, AHEAD * self.threads):
            return -1
        while self.offered and self.offered[0][1] in self.taken:
            heapq.heappop(self.offered)
        if not self.offered or self.large(self.offered[0][1]):
            return -1
        return self.offered[0][1]

    def large(self, node):
        """Whether all threads work on a node together."""
        return is_large(self.tree, self.shape, node, leaves=self.leaves, threads=self.threads)

    def run(self):
        """Seconds until all threads have left."""
        lock, end = 0.0, 0.0
        first = self.pool.hand_over - self.pool.lock
        events = [(first * (k > 0) + k * self.pool.lock, k, -1) for k in range(self.threads)]
        waiting = []
        while events:
            now, thread, before = heapq.heappop(events)
            now = lock = max(now, lock) + self.pool.lock
            if before >= 0:
                self.searched(before)
            node = self.take()
            if before >= 0 or node == -2:
                for other in waiting:
                    heapq.heappush(events, (now + self.pool.lock, other, -1))
                waiting = []
            if node == -2:
                end = max(end, now)
            elif node == -1:
                waiting.append(thread)
            else:
                seconds = self.costs.of_rows(self.tree.rows[node], self.shape.drawn)
                seconds += self.costs.split
                heapq.heappush(events, (now + seconds, thread, node))
        return end + self.pool.lock


def grow(tree, shape, costs, threads, pool):
    """{part: seconds} of growing a tree by so many threads."""
    m, drawn = shape.rows, tree.rows[0]
    start = job(equal(costs.start * m / 2, pieces_of(m, PART)), threads, pool, asleep=True)
    root = costs.of_rows(drawn, shape.drawn)
    start += job(equal(PLACED * root, pieces_of(m, PART)), threads, pool)
    large = search(
        drawn,
        1,
        (1 - PARTED - PLACED) * root,
        scan=costs.split / 2,
        shape=shape,
        threads=threads,
        pool=pool,
    )
    state, small = SmallNodes(tree, shape, costs, threads=threads, pool=pool), 0.0
    while (node := state.close()) >= 0:
        if is_large(tree, shape, node, leaves=state.leaves, threads=threads):
            large += large_split(tree, shape, costs, node=node, threads=threads, pool=pool)
            state.taken.add(node)
            state.searched(node)
        else:
            small += state.run()
    leaves = tree.leaf_rows / tree.leaf_rows.sum()
    lists = job(list(costs.start * m / 6 * leaves), threads, pool)
    lists += 2 * job(equal(costs.start * m / 6, threads), threads, pool)
    undrawn = (1 / shape.share - 1) * sum(tree.rows[node] for node in tree.order())
    lists += job(equal(costs.route * undrawn, threads), threads, pool)
    return {
        "rows drawn": start,
        "large nodes": large,
        "small nodes": small,
        "rows of the leaves": lists,
    }


def leaf_values(tree, shape, costs, threads, pool):
    """Seconds of the leaf vectors: large leaves are added up in parts, and the others by one thread each."""
    rows = tree.leaf_rows / tree.leaf_rows.sum() * shape.rows
    cost, parts = costs.leaf_value, (rows // PART).astype(int)
    parts[parts < 2] = 0
    if threads == 1 or not parts.any():
        return job((cost * rows).tolist(), threads, pool, asleep=True)
    large = np.repeat(cost * rows[parts > 0] / parts[parts > 0], parts[parts > 0])
    seconds = job(large.tolist(), threads, pool, asleep=True)
    return seconds + job((cost * rows * (parts == 0)).tolist(), threads, pool)


def schedule(tree, shape, costs, threads, pool):
    """{part: seconds} of one tree by so many threads."""
    seconds_of_part = {
        PASSES[name]: job(
            equal(cost * shape.rows, pieces_of(shape.rows, PASS_ROWS)), threads, pool, asleep=True
        )
        for name, cost in costs.passes.items()
    }
    seconds_of_part |= grow(tree, shape, costs, threads=threads, pool=pool)
    seconds_of_part[LEAF_VALUES] = leaf_values(tree, shape, costs, threads=threads, pool=pool)
    seconds_of_part["Python between kernels"] = costs.python
    return seconds_of_part


def mean_schedule(trees, shape, costs, threads, pool):
    """The mean of several trees."""
    schedules = [schedule(tree, shape, costs, threads=threads, pool=pool) for tree in trees]
    return {part: sum(one[part] for one in schedules) / len(schedules) for part in schedules[0]}


def fill_bytes(trees, shape):
    """Bytes that the searches of a tree read and write, if no cache keeps any: row numbers, codes and gradients."""
    gradient = 4 * shape.lanes
    row = 4 + 2 * gradient + shape.groups * (4 + gradient) + shape.drawn
    return row * sum(sum(t.rows[n] for n in t.order()) + t.rows[0] for t in trees) / len(trees)


# -- what one thread is timed in -----------------------------------------------------------------


def rows_of_covtype(n):
    """So many rows of covtype: all of them in random order, then again with noise in the columns of numbers."""
    X, codes, more, more_codes = load_for_trees("covtype")
    rng = np.random.default_rng(0)
    order = rng.permutation(len(codes) + len(more_codes))
    X = np.concatenate([X, more])[order].astype(np.float32)
    codes = np.concatenate([codes, more_codes])[order]
    place = np.arange(n) % len(codes)
    rows = X[place]
    numbers = np.flatnonzero([len(np.unique(X[:2000, f])) > 2 for f in range(X.shape[1])])
    noise = (
        0.05 * X[:, numbers].std(axis=0) * rng.standard_normal((max(n - len(X), 0), len(numbers)))
    )
    rows[len(X) :, numbers] += np.rint(noise).astype(np.float32)
    return rows, codes[place]


def cpu(function, *arguments, **options):
    """CPU seconds of this thread, and what the function returned."""
    start = time.thread_time()
    value = function(*arguments, **options)
    return time.thread_time() - start, value


@dataclass
class Recording:
    """CPU seconds of the kernels of each round, and what trees to keep were grown from."""

    keep: tuple = ()
    seconds: dict = field(default_factory=dict)
    rounds: list = field(default_factory=list)
    busier: list = field(default_factory=list)
    grown: list = field(default_factory=list)
    leaf_starts: list = field(default_factory=list)
    before: float = 0.0
    grower: tuple = ()

    def of(self, name, numbers=None):
        """Mean CPU seconds of a kernel in the rounds with these numbers, or in all."""
        last = np.array(self.seconds[name][-len(self.rounds) :])
        return float(np.mean(last if numbers is None else last[list(numbers)]))

    @property
    def python(self):
        """Median CPU seconds of a round outside its kernels."""
        kernels = [
            self.seconds[name][-len(self.rounds) :] for name in self.seconds if name in ROUND
        ]
        return float(np.median(np.array(self.rounds) - np.sum(kernels, axis=0)))


class Recorded:
    """Kernels that note what they take, while this is entered."""

    def __init__(self, recording):
        self.recording, self.originals = recording, []

    def replace(self, owner, name, function):
        self.originals.append((owner, name, getattr(owner, name)))
        setattr(owner, name, function)

    def timed(self, name, function):
        def call(*arguments, **options):
            seconds, value = cpu(function, *arguments, **options)
            self.recording.seconds.setdefault(name, []).append(seconds)
            return value

        return call

    def __enter__(self):
        from shared.internals import (
            VectorTreeBoost,
            aligned_zeros,
            bins,
            vector_loss,
            vector_trees,
        )

        recording, plain, next_round = self.recording, vector_trees.Grower, VectorTreeBoost.round

        class Grower(plain):
            def __init__(self, *how):
                recording.grower = how

            def grow(self, A, key, *bounds):
                number = len(recording.grown)
                recording.grown.append(None)
                if number in recording.keep:
                    copy = aligned_zeros(A.shape, A.dtype)
                    copy[:] = A
                    recording.grown[number] = copy, key, bounds
                seconds, value = cpu(super().grow, A, key, *bounds)
                recording.seconds.setdefault("grow", []).append(seconds)
                recording.leaf_starts.append(value[6])
                return value

        def one_round(booster):
            if not recording.rounds:
                recording.before = time.thread_time() - self.start
            start = time.process_time()
            seconds, value = cpu(next_round, booster)
            recording.rounds.append(seconds)
            # Of two threads, the other one has what this one has not.
            recording.busier.append(max(seconds, time.process_time() - start - seconds))
            return value

        for name in (*PASSES, "softmax_values"):
            self.replace(vector_loss, name, self.timed(name, getattr(vector_loss, name)))
        self.replace(bins, "bin_columns", self.timed("bin_columns", bins.bin_columns))
        self.replace(vector_trees, "Grower", Grower)
        self.replace(VectorTreeBoost, "round", one_round)
        self.start = time.thread_time()
        return self

    def __exit__(self, *_):
        for owner, name, original in reversed(self.originals):
            setattr(owner, name, original)


def fitted(X, y, rounds, threads=1, keep=()):
    """The `Recording` of a fit."""
    from pymcboost import VectorTreeBoostClassifier

    recording = Recording(keep)
    with Recorded(recording):
        VectorTreeBoostClassifier(
            n_estimators=rounds, calibrate=None, n_jobs=threads, random_state=0
        ).fit(X, y)
    return recording


def nodes_of(right, gain, leaf_start, share, most_leaves, kept_leaves):
    """`Tree` of splits in preorder, whose right children begin ``right`` splits later."""
    rows, gains, lefts, rights = [], [], [], []
    sizes, leaf = np.diff(leaf_start), iter(range(len(leaf_start) - 1))

    def add(first, count):
        node = len(rows)
        for column, value in ((rows, 0), (gains, 0.0), (lefts, -1), (rights, -1)):
            column.append(value)
        if not count:
            rows[node] = share * sizes[next(leaf)]
            return node
        n_left = int(right[first]) - 1
        gains[node], lefts[node] = float(gain[first]), add(first + 1, n_left)
        rights[node] = add(first + 1 + n_left, count - 1 - n_left)
        rows[node] = rows[lefts[node]] + rows[rights[node]]
        return node

    add(0, len(right))
    return Tree(
        *(np.array(column) for column in (rows, gains, lefts, rights)), most_leaves, kept_leaves
    )


def grown_as(recording, number, leaves, share, repeat):
    """Least CPU seconds of growing a kept tree with so many leaves and this share of the rows; and what it is."""
    from shared.internals import vector_trees

    how = list(recording.grower)
    how[4], how[10] = leaves, share
    grower, (A, key, bounds) = vector_trees.Grower(*how), recording.grown[number]
    bounds = (*bounds[:-1], 0.0)  # without pruning
    seconds = []
    for _ in range(repeat + 1):
        taken, tree = cpu(grower.grow, A, key, *bounds)
        seconds.append(taken)
    return min(seconds), tuple(np.array(tree[j]) for j in (3, 4, 6))


def grow_costs(recording, numbers, share, most_leaves, rows, drawn, repeat):
    """Seconds of a row and of a split by growing trees of several sizes and shares of the rows; and the whole trees."""
    from scipy.optimize import nnls

    sizes = sorted({1, 2, 4, 16, 64, most_leaves // 2, most_leaves})
    lines, seconds, trees = [], [], []
    for number in numbers:
        kept = np.diff(recording.leaf_starts[number]).astype(float)
        for part in (share, share / 2):
            _, how = grown_as(recording, number, 2 * most_leaves, share=part, repeat=0)
            tree = nodes_of(*how, part, most_leaves, kept)
            if part == share:
                trees.append(tree)
            order = tree.order()
            for leaves in sizes:
                taken, _ = grown_as(recording, number, leaves, share=part, repeat=repeat)
                searched = [0, *order[: max(leaves - 2, 0)]] if leaves > 1 else []
                n = tree.rows[searched]
                large = n * drawn >= 4 * WIDE
                splits = min(leaves - 1, len(order))
                undrawn = (1 / part - 1) * tree.rows[order[:splits]].sum()
                lines.append([rows, n[large].sum(), n[~large].sum(), undrawn, splits])
                seconds.append(taken)
    weight = 1 / np.array(seconds)
    costs, _ = nnls(np.array(lines) * weight[:, None], np.ones(len(lines)))
    off = np.array(lines) @ costs * weight - 1
    names = ("start", "large", "small", "route", "split")
    return dict(zip(names, costs.tolist(), strict=True)), trees, float(np.sqrt(np.mean(off**2)))


class Library:
    """The pool of threads, compiled for itself."""

    def __init__(self, folder):
        library = Path(folder, "pool.so")
        flags = [*limits.limit_flags(), "-pthread", "-shared", "-fPIC"]
        kernels = measure.ROOT / "pymcboost" / "_kernels"
        measure.compile_c(
            limits.FOLDER / "pool.c",
            library,
            [*flags, "-I", str(kernels)],
            libraries=["-lm"],
        )
        self.library = ctypes.CDLL(str(library))

    def nanoseconds(self, name, n, jobs):
        """Those of each of so many jobs."""
        starts = np.zeros(jobs)
        getattr(self.library, name)(
            ctypes.c_long(n), ctypes.c_long(jobs), starts.ctypes.data_as(ctypes.c_void_p)
        )
        return starts


# -- benchmark -----------------------------------------------------------------------------------


def pool_of(library, quick):
    """`Pool` as it is on this machine, beside other processes: of the jobs that were fastest."""

    def best(name, n, jobs, percent):
        return float(
            np.percentile(library.nanoseconds(name, n, jobs // (10 if quick else 1)), percent)
        )

    turns = 100
    line = best("pool_turns", turns, 400, 0) / (2 * turns)
    free_pool = Pool(
        hand_over=1e-9 * best("pool_meet", 0, 3000, 10),
        wake=1e-9 * best("pool_meet", 200_000, 400, 0),
        lock=1e-9 * 2 * max(line, FAR_LINE),
        piece=1e-9 * best("pool_empty", 1024, 1000, 10) / 1024,
    )
    return free_pool, 1e-9 * line, 1e-9 * best("pool_merge", 8192, 1000, 10) / 8192


def measured(X, y, rounds, repeat):
    """Trees by which a fit is described: (costs, trees, shape, recording, error of the fit to their times)."""
    keep = tuple(sorted({rounds // 4, rounds // 2, 3 * rounds // 4}))
    recording, m = fitted(X, y, rounds, keep=keep), len(y)
    data, _, lanes, _, leaves, *_ = recording.grower
    drawn, share = recording.grower[7], recording.grower[10]
    found, trees, error = grow_costs(
        recording, keep, share, most_leaves=leaves, rows=m, drawn=drawn, repeat=repeat
    )
    costs = Costs(
        {name: recording.of(name) / m for name in PASSES if name in recording.seconds},
        leaf_value=recording.of("softmax_values") / m,
        python=recording.python,
        **found,
    )
    shape = Shape(m, share, drawn, sums=int(GROUP * data.lane_cells.mean() * lanes), lanes=lanes)
    return costs, trees, shape, recording, error


def two_threads(X, y, rounds, repeat):
    """CPU seconds of a tree by one thread, those of the busier one of two, and the same of the best runs.

    On a busy machine one of two threads often works alone, so the mean is too much. Each tree is the same in all runs:
    the best of them have the work in equal parts, but threads that sleep take no CPU time, so that is too little.
    """
    runs = {n: [] for n in (1, 2)}
    for _ in range(repeat):
        for n, busy_times in runs.items():
            busy_times.append(fitted(X, y, rounds, threads=n).busier)
    one, two = (np.array(busy_times) for busy_times in runs.values())
    return tuple(float(np.mean(x)) for x in (one, two, one.min(axis=0), two.min(axis=0)))


@benchmark("span")
def bench_span(options):
    """One vector tree on up to 64 threads, as the sizes of its pieces and their times in one thread give it."""
    rounds = options.size(4, options.rounds or 40)
    report = Report({"data": "covtype", "rounds": rounds, "time": "CPU seconds of one thread"})
    with tempfile.TemporaryDirectory() as folder:
        pool, line, merge = pool_of(Library(folder), options.quick)
    for what, seconds in (
        ("hand-over to a thread that is awake", pool.hand_over),
        ("hand-over to a thread that sleeps", pool.wake),
        ("piece", pool.piece),
        ("line of the cache", line),
        ("sum of two shares", merge),
    ):
        report.add(what, seconds * 1e9, "ns")
    for rows in options.size((4000,), ROWS):
        X, y = rows_of_covtype(rows)
        costs, trees, shape, recording, error = measured(X, y, rounds, repeat=options.size(1, 2))
        shape = replace(shape, merge=merge)
        enter(report, rows, costs, trees=trees, shape=shape, pool=pool)
        check(report, rows, costs, trees=trees, shape=shape, recording=recording, error=error)
        of_check = rounds if rows <= min(ROWS) else min(rounds, FEW_ROUNDS)
        one, two, best_one, best_two = two_threads(X, y, of_check, repeat=options.repeat)
        found = {
            n: sum(mean_schedule(trees, shape, costs, threads=n, pool=pool).values())
            for n in (1, 2)
        }
        report.add(
            f"{rows:,} rows, two threads",
            one / two,
            one_thread=1e3 * one,
            busier_of_two=1e3 * two,
            best_runs=best_one / best_two,
            model=found[1] / found[2],
            repeats=options.repeat,
        )
    if not options.quick:
        more = MOST_ROWS // rows
        enter(
            report,
            MOST_ROWS,
            costs,
            trees=[tree.scaled(more) for tree in trees],
            shape=replace(shape, rows=MOST_ROWS),
            pool=pool,
        )
    return report


def enter(report, rows, costs, trees, shape, pool):
    """Rows of a report: each part, the tree, and the bytes of its searches."""
    parts = {n: mean_schedule(trees, shape, costs, threads=n, pool=pool) for n in (1, *THREADS)}
    whole = {n: sum(found.values()) for n, found in parts.items()}
    for part, seconds in parts[1].items():
        report.add(
            f"{rows:,} rows, {part}",
            1e3 * seconds,
            "ms",
            percent=100 * seconds / whole[1],
            **{f"threads_{n}": 1e3 * parts[n][part] for n in THREADS},
        )
    report.add(
        f"{rows:,} rows, tree",
        1e3 * whole[1],
        "ms",
        percent=100.0,
        **{f"threads_{n}": 1e3 * whole[n] for n in THREADS},
        **{f"speed_up_{n}": whole[1] / whole[n] for n in THREADS},
    )
    size = fill_bytes(trees, shape)
    seconds = sum(parts[64][part] for part in ("large nodes", "small nodes"))
    report.add(
        f"{rows:,} rows, bytes of searches", size / 1e6, "MB", gb_a_second_64=size / seconds / 1e9
    )


def check(report, rows, costs, trees, shape, recording, error):
    """What the pieces add up to against what was measured, and the parts that one thread does alone."""
    alone = mean_schedule(trees, shape, costs, threads=1, pool=Pool())
    grown = recording.of("grow", recording.keep)
    model = sum(alone[part] for part in GROWN)
    report.add(
        f"{rows:,} rows, growing, model against measured", model / grown, error_percent=100 * error
    )
    tree, before = float(np.mean(recording.rounds)), recording.before
    bins = recording.seconds["bin_columns"][0]
    first = recording.seconds["gradient"][0]
    serial = before - bins - first
    report.add(f"{rows:,} rows, before the first round", 1e3 * before, "ms", serial=1e3 * serial)
    whole = before + DEFAULT_ROUNDS * tree
    report.add(
        f"{rows:,} rows, tree measured",
        1e3 * tree,
        "ms",
        before_percent=100 * before / whole,
        serial_percent=100 * serial / whole,
    )
    if rows >= 1_000_000:
        report.target(
            f"{rows:,} rows: Python between kernels, of a tree",
            100 * costs.python / tree,
            2,
            at_most=True,
            unit="%",
        )
        report.target(
            f"{rows:,} rows: serial before the first of {DEFAULT_ROUNDS} rounds, of all",
            100 * serial / whole,
            2,
            at_most=True,
            unit="%",
        )
