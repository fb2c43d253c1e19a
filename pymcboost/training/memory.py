"""Memory estimates: what a training needs besides its rows and their columns, part by part.

A booster lists its parts in `Booster.memory`, using the functions here. `refuse` is called once the columns exist,
before anything else is allocated. The model itself, which grows with the rounds, is not counted, except for leaves
with very many classes: see `leaves`.
"""

from dataclasses import dataclass, replace

import numpy as np

from pymcboost._kernels import vector_trees
from pymcboost._kernels.exact import is_wide
from pymcboost.data.rows import MANY_COLUMNS, layout
from pymcboost.data.stump_scans import NARROW_ROWS
from pymcboost.data.tree_data import POOL_BYTES, Grown, cell_words_of
from pymcboost.data.tree_layouts import LANES
from pymcboost.learners.left_out import MOST_ROWS
from pymcboost.losses.blocks import BLOCK_ROWS
from pymcboost.losses.pairwise import is_large
from pymcboost.losses.pairwise_log import PASS_ROWS
from pymcboost.losses.rows import row_layout
from pymcboost.threads import available_memory, in_words, share_of_memory

FEWER = "fewer rows, or fewer problems (classes, class subsets, columns of the code)"
LEAF_COPIES = 1.5
MODEL_COPIES = 3
NO_TABLES = "fewer classes, or VectorTreeBoostClassifier(), which has no such tables"


@dataclass(frozen=True)
class Part:
    """One item of memory: ``n_bytes`` for ``purpose``, ``passing`` more temporarily, and a remedy that needs less."""

    purpose: str
    n_bytes: float
    remedy: str
    passing: float = 0.0


def needed(parts):
    """Peak number of bytes: all parts, plus the largest temporary need."""
    return sum(part.n_bytes for part in parts) + max((part.passing for part in parts), default=0)


def earlier(part, parts):
    """Return a part whose temporary memory is freed before the other parts are allocated."""
    return replace(part, passing=max(0.0, part.passing - sum(other.n_bytes for other in parts)))


def refuse(booster):
    """Raise a MemoryError if the training does not fit, before anything is allocated. It says what helps."""
    parts = booster.memory()
    room = available_memory()
    if room is None:
        return
    room, free = share_of_memory(room, booster.workers.beside)
    if needed(parts) <= room:
        return
    data = booster.data
    largest = max(parts, key=lambda part: part.n_bytes + part.passing)
    size = largest.n_bytes + largest.passing
    raise MemoryError(
        f"{booster.name}: training on {data.n_rows} rows, {data.n_features} features and {data.n_classes} classes "
        f"needs about {in_words(needed(parts))}, {in_words(size)} of it for {largest.purpose}; {free}. "
        f"Use {largest.remedy}, or a machine with more memory"
    )


def width(n_columns):
    """Number of columns of a gradient in blocks, including padding."""
    lanes, blocks = layout(n_columns)
    return lanes * blocks


def chunks(data):
    """Number of row chunks that are summed separately."""
    return int((-(-np.diff(data.class_start) // BLOCK_ROWS)).sum())


def weights(data, n_columns, copies=1, passing=0, sorts=False):
    """Weights in blocks of columns; ``passing`` is the number of bytes per row of a chunk while they are computed.

    sorts : whether they are computed from scores that are first sorted by class, see `BinaryBooster.reads_scores`
    """
    m = data.n_rows
    size = copies * m * width(n_columns) * data.dtype.itemsize
    passing *= min(m, BLOCK_ROWS) * n_columns
    scores = 8 * m * n_columns * sorts
    return Part(
        f"the weights of {m} rows in {n_columns} columns",
        size,
        FEWER,
        passing=max(2 * scores, scores + passing),
    )


def pieces(data, copies, passing, later, sorts):
    """Weights of a pairwise loss for very many classes, whose scores are processed in pieces; see `weights`.

    ``later`` bytes are written in rounds.
    """
    rows = BLOCK_ROWS if copies == 1 else PASS_ROWS
    K = data.n_classes
    passing *= min(data.n_rows, rows) * K
    return replace(weights(data, K, copies), passing=passing if sorts else max(0, passing - later))


def tables(data, n_columns, kept=0.0, passing=0.0):
    """Arrays of float64 (K, n_columns): ``kept`` of them for the whole training, ``passing`` temporarily."""
    K = data.n_classes
    size = 8 * data.n_classes * n_columns
    return Part(
        f"tables of {K} x {n_columns} numbers", kept * size, NO_TABLES, passing=passing * size
    )


def sums(data, n_columns, partial=1):
    """Sums of the weights by class with partial sums (`losses.blocks.ColumnSums`), and the factors of an update."""
    padded = width(n_columns)
    at_once = padded
    if n_columns > MANY_COLUMNS:  # one block after the other
        at_once = layout(n_columns)[0]
    partial_sums = 16 * (at_once + (partial - 1) * padded) * chunks(data)
    size = partial_sums + 3 * data.n_classes * padded * data.dtype.itemsize
    return Part(
        f"sums of the weights of {data.n_classes} classes in {n_columns} columns", size, NO_TABLES
    )


def pairwise(data, loss, newton, sorts):
    """Pairwise loss in blocks (`losses.pairwise`), and the tables of its Newton steps; ``sorts``: see `weights`."""
    K = data.n_classes
    large = is_large(K)
    if loss == "log" and large and not data.exact:
        column_sums = sums(data, K)
        return [pieces(data, 2, 18, later=column_sums.n_bytes, sorts=sorts), column_sums]
    if loss == "log":
        return [
            weights(data, K, 2, passing=18, sorts=sorts),
            sums(data, K, 3),
            tables(data, K, 5, passing=11),
        ]
    if large:
        column_sums = sums(data, K)
        return [
            pieces(data, 1, 10, later=column_sums.n_bytes, sorts=sorts),
            column_sums,
            tables(data, K, 0, passing=2.1),
        ]
    return [
        weights(data, K, 1, passing=10, sorts=sorts),
        sums(data, K),
        tables(data, K, newton, passing=6.5),
    ]


def summed(data, n_columns):
    """Integer weights, and histograms of all columns with room for those of other workers: `data.SummedScan`."""
    size = 4 if data.total_rows <= NARROW_ROWS else 8
    bins = sum(int(store.bins.sum()) for store in data.stores)
    n_weights = data.n_rows * width(n_columns)
    n_bytes = size * (n_weights + bins * n_columns * (1 + (data.comm.size > 1)))
    purpose = f"integers of the weights and of {bins} bins in {n_columns} columns"
    return Part(purpose, n_bytes, "fewer rows, bins or classes")


def coded(data, n_columns, sorts, kept=0.0, passing=0.0):
    """Exponential loss of coded problems: `losses.CodedExp`; ``sorts``: see `weights`."""
    loss = tables(data, n_columns, 2.5 + kept, passing=6 + passing)
    return [
        weights(data, n_columns, 1, passing=40 if sorts else 16, sorts=sorts),
        sums(data, n_columns),
        loss,
    ]


def rows(data, scores=True, integers=True, curvature=False):
    """Scores, gradients and integers by row, and the curvature for losses in NumPy: `losses.rows`."""
    m = data.n_rows
    _, _, padded = row_layout(data.n_classes)
    size = m * padded * (4 + 8 * scores + 4 * integers + 4 * curvature)
    return Part(
        f"the scores and gradients of {m} rows and {data.n_classes} classes",
        size,
        "fewer rows or classes",
    )


def left_out(data):
    """Scores of left-out rows, for the temperature: `learners.left_out`."""
    m = min(data.n_rows, MOST_ROWS)
    return Part(f"scores of {m} rows that are left out", 8 * m * data.n_classes, "calibrate=None")


def narrow(data, max_leaves):
    """Single-precision scores, and the sums, steps and vectors of a tree's leaves: `losses.narrow`."""
    m = data.n_rows
    padded = 16 * (data.n_classes // 16 + 1)
    return Part(
        f"the scores of {m} rows and {data.n_classes} classes",
        4 * m * padded,
        FEWER,
        passing=max_leaves * padded * 56,
    )


def leaves(data, n_trees, max_leaves, scores):
    """Leaf vectors in arrays that grow by doubling. At the end, copies of the model replace the freed ``scores``."""
    size = 4 * n_trees * max_leaves * data.n_classes
    purpose = f"the leaves of {n_trees} trees for {data.n_classes} classes"
    most = max(LEAF_COPIES * size, MODEL_COPIES * size - scores.n_bytes)
    return Part(purpose, most, "max_leaf_entries=100 (more errors), fewer rounds or rows")


def directions(data, n_columns):
    """Gradients in ``n_columns`` directions, and their integers: `losses.rows.Directions`."""
    _, _, padded = row_layout(n_columns)
    m = data.n_rows
    size = 8 * padded * m
    return Part(f"the gradients of {m} rows in {n_columns} directions", size, "fewer rows")


def outputs(data, n_columns, n_bytes=1):
    """Outputs of weak learners on the rows."""
    m = data.n_rows
    size = n_bytes * n_columns * m
    return Part(f"the outputs of {n_columns} weak learners on {m} rows", size, FEWER)


def stumps(data, n_columns):
    """Best split of every feature for every column, and the outputs of the stumps: `learners.EdgeStumps`."""
    slots = sum(len(store.feature) for store in data.stores)
    best = 12 * slots * width(n_columns)
    return [
        Part(f"the best splits of {slots} features in {n_columns} columns", best, "fewer features"),
        outputs(data, n_columns),
    ]


def edges(data, n_columns, extra_columns=0, of_splits=0):
    """Edges of all splits in all columns: `learners.EveryStump`.

    In addition, ``extra_columns`` numbers for each possible split, and ``of_splits`` for each actual one: half of the
    possible ones if no values are missing.
    """
    n = 2 * sum(len(thresholds) for store in data.stores for thresholds in store.thresholds)
    share = 1 if any(store.has_missing for store in data.stores) else 0.5
    size = 8 * n * (width(n_columns) + extra_columns + share * of_splits)
    remedy = "a smaller max_bins, fewer features or fewer classes"
    return Part(f"the edges of {n} splits in {n_columns} columns", size, remedy, passing=10 * n)


def trees(data, n_trees, max_leaves, n_grown, counted):
    """Trees with one column each, and the histograms of those that grow together: `_kernels.classwise_trees.Grower`."""
    columns = data.columns
    m = data.n_rows
    cell_words = cell_words_of(counted)
    histogram = data.histogram_bytes(cell_words)
    kept = max_leaves if histogram * max_leaves <= POOL_BYTES else 1
    tiles = -(-columns.n_lanes // LANES) * LANES * m * columns.code_bytes
    words = [(len(levels) + 63) // 64 for levels in columns.levels.values()]
    sets = 8 * (2 * max_leaves * data.set_words + 2 * sum(words)) + 64 * 64 * data.set_words
    # The message, and room for those of other workers.
    sent = 2 * histogram * n_grown if data.comm.size > 1 else 0
    entries = 0 if columns.row_cell is None else 4 * len(columns.row_cell) + 8 * columns.n_sparse
    return [
        Part(
            f"{n_trees} trees on {m} rows",
            Grown.bytes_of(n_trees, max_leaves, m, data.set_words),
            FEWER,
        ),
        Part("the columns in tiles", tiles, "fewer features or rows"),
        Part(
            "the sparse entries by column", entries, "fewer features or rows", passing=2 * entries
        ),
        Part(
            "histograms and the rows of a tree",
            n_grown * (histogram * kept + m * (16 * cell_words + 4) + sets) + sent,
            "fewer leaves (max_leaf_nodes), bins (max_bins) or threads (n_jobs)",
        ),
    ]


def vectors(data, n_columns, max_leaves, n_drawn, n_threads):
    """Trees with vector leaves; splits are searched on ``n_columns`` columns: `_kernels.vector_trees.Grower`."""
    columns = data.columns
    is_dense = columns.row_cell is None
    m = data.n_rows
    lanes, blocks, _ = row_layout(n_columns)
    padded = lanes * blocks
    cells = vector_trees.GROUP * int(max(columns.lane_cells, default=0)) + 256
    number = 8 if is_wide(data.total_rows) else 4
    size = 16 * m + n_threads * cells * (number * lanes + 48) + max_leaves * padded * 40
    size += 32 * (4 + n_threads) * max_leaves
    if is_dense:
        size += columns.n_lanes * m // 8
        if n_drawn > vector_trees.GROUP:
            size += 4 * m * padded
        if n_threads > 1 and blocks == 1 and m >= vector_trees.SHARED_ROWS:
            size += vector_trees.SUMS * n_threads * cells * number * lanes
    else:
        size += 24 * len(columns.row_cell) + 16 * len(columns.column)
        if vector_trees.FEW * n_drawn <= len(columns.column):
            size += m * (4 + 4 * n_threads)
    words = [(len(levels) + 63) // 64 for levels in columns.levels.values()]
    size += 8 * (4 * max_leaves * max(words, default=0) + 32 * sum(words))
    if words and blocks > 1:
        size += 4 * n_threads * columns.most_level_cells(vector_trees.GROUP) * padded
    return Part("growing a tree", size, "fewer rows, classes, or leaves (max_leaf_nodes)")
