"""Rows of files that do not fit in memory: read twice, in blocks, and kept in a cache from one training to the next."""

import glob
import io
import os
from fnmatch import fnmatch

from pymcboost.cli.console import UsageError, file_name, refuse_same, stream_number, table_kind
from pymcboost.cli.rows import (
    Rows,
    check_row_labels,
    check_values,
    choice,
    kind_of,
    labels_as,
    note_columns,
    note_rows,
    table_blocks,
    warn_of_merging,
)
from pymcboost.cli.workers import DIVIDED, RANK, check_beside
from pymcboost.threads import counted, in_words

MOST_ROWS = 2**31 - 1
# Rows of a table that are read at once.
TABLE_ROWS = 1 << 16
REMEDY = "name another cache, or remove it to begin anew"


def add_cache(group):
    """Add the option --cache."""
    group.add_argument(
        "--cache",
        metavar="file",
        type=file_name,
        help="train from this file, into which the training file is written first, where it is not there yet or does "
        "not fit: for more rows than memory. The training file may then be a pattern of parts, such as 'part-*.csv' "
        f"({DIVIDED})",
    )


def check_cache(parser, arguments, algorithm):
    """Refuse what is not for rows in a cache."""
    if not arguments.cache:
        return
    if not algorithm.workers:  # these take rows in blocks, too
        parser.error(f"--cache is for {DIVIDED}; {algorithm.name} trains in memory")
    given = {"-v": arguments.cross_validation, "--categorical-features": arguments.categorical_features}
    check_beside(parser, given, "--cache", "rows in memory")
    path = arguments.training_file
    special = os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
    if stream_number(path) is not None or special:
        parser.error("--cache reads the training file twice; name a file")
    if stream_number(arguments.cache) is not None:
        parser.error("--cache is read again and again; name a file")
    if _is_pattern(arguments.training_file) and not arguments.model_file:
        parser.error("a pattern of training files needs the name of a model file")
    if arguments.mpi and _is_pattern(arguments.training_file) and RANK not in arguments.training_file:
        parser.error(
            "--mpi cannot tell whose the files of a pattern are; give each process files of its own, with %r in their "
            "names for the number of the process"
        )


def _is_pattern(path):
    return glob.has_magic(path) and not os.path.exists(path)


def _takes_in(pattern, path):
    """Whether a file would be found by a pattern, were it there."""
    (folder, ours), (its_folder, its) = os.path.split(pattern), os.path.split(path)
    folders = map(os.path.realpath, glob.glob(folder) if glob.has_magic(folder) else [folder])
    shown = ours.startswith(".") or not its.startswith(".")
    return shown and fnmatch(its, ours) and os.path.realpath(its_folder) in folders


def parts_of(arguments):
    """The files of one format that the name of the training file stands for, in the order of their names."""
    path, form = arguments.training_file, arguments.format
    several = _is_pattern(path)
    found = sorted(glob.glob(path)) if several else [path]
    if not found:
        raise UsageError(f"no file is named as {path}")
    written = {"cache": arguments.cache, "model file": arguments.model_file, "checkpoint": arguments.checkpoint}
    for what, other in written.items():
        for part in found if other else ():
            refuse_same(other, what, {"training file": part})
        if other and stream_number(other) is None and several and _takes_in(path, other):
            raise UsageError(f"{path}: the {what} {other} would be one of these files; name one outside the pattern")
    for part in found if several else ():
        if os.path.isdir(part):
            raise UsageError(f"{path}: {part} is a folder; give a pattern of files alone")
        if table_kind(part, form) != table_kind(found[0], form):
            raise UsageError(
                f"{path}: {found[0]} and {part} have not one format; name files that have, or give --format"
            )
    return found


def take_first(arguments):
    """Let the checks of options look at the first file of a pattern; of several processes each has files of its own."""
    if arguments.cache and not arguments.mpi:
        arguments.first_file = parts_of(arguments)[0]


def read_cached(arguments, note, allows_missing, workers=None):
    """Rows and labels of the training file, from the cache; that is written first where it does not fit.

    Each of several workers has a cache of its own rows, with the columns and classes of all.
    """
    from pymcboost.data.cached import DamagedCache, opened

    parts, path = parts_of(arguments), arguments.cache
    if table_kind(parts[0], arguments.format):
        if workers is not None:
            raise UsageError("--mpi reads LIBSVM text")
        reader = _Table(parts, arguments, allows_missing)
    else:
        reader = _Text(parts, arguments, allows_missing, workers)
    found, why = _that_is_there(path, reader)
    if workers is not None:
        why = _why_of_all(workers, found, why)
    if why is None and found is not None:
        note(f"{path}: the rows of {_shown(parts)}")
        return _rows(*found, note, path, arguments.label)
    if why:
        note(f"{why}; it is written anew")
    del found
    _write(path, reader, note)
    if workers is not None:
        workers.check()
    try:
        found = opened(path)
    except DamagedCache as error:
        raise ValueError(f"{path} was changed since it was written, {error}; run the command again") from error
    return _rows(*found, note, path, arguments.label)


def _that_is_there(path, reader):
    """The cache if there is one that fits, or None; and why not, where one is there."""
    from pymcboost.data.cached import DamagedCache, is_cache, opened

    if not os.path.exists(path) or not os.path.getsize(path):
        return None, None
    if not is_cache(path):
        raise UsageError(f"cache {path} exists and is no cache; remove it first if you mean it")
    try:
        found = opened(path)
    except DamagedCache as error:
        return None, f"{path} is damaged, {error}"
    why = _unlike(found[2], reader, path)
    return (None, why) if why else (found, None)


def _why_of_all(workers, found, why):
    """Why this worker's cache is written anew, or None: all are where one is, or where they do not belong together."""
    own = None if found is None else [found[2][name] for name in ("base", "features", "classes")]
    every = workers.exchange((own, why))
    if all(its is None for its, _ in every):
        return why
    if all(its == every[0][0] for its, _ in every):
        return None
    others = next((words for _, words in every if words), "another process has no cache, or one of other rows")
    return why or others


def _rows(X, codes, notes, note, path, label):
    """What a training takes of a cache."""
    import numpy as np

    from pymcboost.data.cached import CachedRows
    from pymcboost.data.merging import merging

    y = np.array(notes["classes"])[codes]
    rows = Rows(X, y, notes["base"], notes["names"], notes["label"], chunks=CachedRows(X, y))
    note_rows(path, rows, note)
    if rows.names:
        note_columns(path, rows, label, note)
    if not merging(X):  # of which the training warns
        warn_of_merging(notes["merging"], rows.names, note)
    return rows


def _shown(parts):
    return parts[0] if len(parts) == 1 else f"{parts[0]} and {counted(len(parts) - 1, 'more file')}"


def _sources(parts, names=os.path.basename):
    """What tells of changed files without reading them."""
    return [[names(part), (found := os.stat(part)).st_size, found.st_mtime_ns] for part in parts]


def _unlike(notes, reader, path):
    """Why a cache does not fit the files or the options, None where it does; an error where it is of other files."""
    from pymcboost.data.cached import crc_of

    own, sources = [part[0] for part in notes["sources"]], _sources(reader.parts)
    if own != [part[0] for part in sources]:
        raise ValueError(f"{path} is the cache of other files ({_shown(own)}); {REMEDY}")
    if notes["options"] != reader.options:
        return f"{path} was written with other options of reading"
    if "merging" not in notes:
        return f"{path} was written by an older version"
    for part, was, now, crc in zip(reader.parts, notes["sources"], sources, notes["checksums"], strict=True):
        if was != now and (was[1] != now[1] or crc is None or crc_of(part) != crc):
            return f"{part} has changed since {path} was written"
    return None


def _write(path, reader, note):
    """Read the files twice, and write the cache."""
    from pymcboost.data.cached import crc_of, write

    before, checksums = _sources(reader.parts), []
    reader.survey(note)
    if reader.n_rows > MOST_ROWS:
        raise ValueError(f"there are {reader.n_rows} rows, more than {MOST_ROWS}, the most that a training takes")
    note(
        f"{path}: {counted(reader.n_rows, 'row')}, {counted(reader.n_features, 'feature')}, held densely, "
        f"{in_words(4 * reader.n_rows * (reader.n_features + 1))}"
    )

    def fill(X, codes):
        at = reader.fill(X, codes)
        checksums[:] = map(crc_of, reader.parts) if reader.whole else [None]
        if at != len(X) or _sources(reader.parts) != before:
            raise ValueError(f"{_shown(reader.parts)} changed while the cache was written; run the command again")

    def notes():
        return {**reader.notes(), "options": reader.options, "sources": before, "checksums": checksums}

    write(path, reader.n_rows, reader.n_features, fill, notes)


def _wrong_labels(path, data, begin):
    """What `check_row_labels` refuses later, when it is known how many rows are before."""
    try:
        check_row_labels(path, data, begin)
    except ValueError:
        return path, data, begin
    return None


def _put(to, X):
    """Copy rows, dense or sparse, to zeros."""
    import numpy as np

    if hasattr(X, "indptr"):
        to[np.repeat(np.arange(len(to)), np.diff(X.indptr)), X.indices] = X.data
    else:
        to[...] = X


class _Reader:
    """Files of one format: `survey` counts, `fill` reads them a second time."""

    names = label = None
    merging = ()  # what `merging` finds in rows before they are rounded
    base, n_rows, n_features = 1, 0, 0
    whole = True  # not ranges, of which the workers would read the file as often as they are

    def __init__(self, parts, arguments, allows_missing):
        self.parts, self.arguments, self.allows_missing = parts, arguments, allows_missing
        self.options = [arguments.format, arguments.base, arguments.n_features, arguments.label, allows_missing]
        self.begin = 0  # rows of other workers before these, where all have one file

    def notes(self):
        """What the cache notes of the columns and classes."""
        columns = {"names": self.names, "label": self.label, "base": self.base}
        return {**columns, "classes": self.classes.tolist(), "merging": self.merging}

    def fill(self, X, codes):
        """Put the rows into arrays; how many there were."""
        at = 0
        for path, begin, data in self._again():
            check_values(path, Rows(data.X, None, self.base, self.names), self.allows_missing, begin)
            end = at + data.X.shape[0]
            if end <= len(X):
                codes[at:end] = self._codes(path, self._labels(data.y))
                _put(X[at:end], data.X)
            at = end
        return at

    def _codes(self, path, y):
        import numpy as np

        at = np.searchsorted(self.classes, y).clip(0, len(self.classes) - 1)
        if not (self.classes[at] == y).all():
            raise ValueError(f"{path} changed while the cache was written; run the command again")
        return at


class _Text(_Reader):
    """LIBSVM text; of several workers each reads files of its own, or a range of the bytes of one."""

    def __init__(self, parts, arguments, allows_missing, workers=None):
        super().__init__(parts, arguments, allows_missing)
        self.workers, self.lines = workers, None
        self.whole = workers is None or not arguments.divided
        if not self.whole:
            self.options += [workers.rank, workers.size]

    def _texts(self, path):
        """Bytes of whole lines, and how many are before them."""
        from pymcboost.comm import before
        from pymcboost.data.textblocks import LineRange, blocks_of, line_blocks

        if self.whole:
            yield from line_blocks(path)
            return
        with LineRange(path, self.workers.rank, self.workers.size) as stream:
            if self.lines is None:
                self.lines = before(self.workers, stream.count_lines())
            yield from blocks_of(stream, self.lines)

    def _blocks(self, n_features, base, sample=None):
        from pymcboost.data.svmlight import load_stream

        for path in self.parts:
            begin = self.begin
            for block, lines in self._texts(path):
                how = {"n_features": n_features, "base": base, "layout": "plain", "lines": lines, "sample": sample}
                data, width, _ = load_stream(io.BytesIO(block), path, len(block), **how)
                yield path, begin, data, width
                begin += data.X.shape[0]

    def survey(self, note):
        """Count rows and features, and collect the labels."""
        import numpy as np

        from pymcboost.comm import before
        from pymcboost.data.merging import merging
        from pymcboost.data.svmlines import LineSample
        from pymcboost.data.svmwords import MAX_INDEX

        base, wanted = self.arguments.base, self.arguments.n_features
        base = base if base == "auto" else int(base)
        labels, largest, self.base, wrong = np.empty(0, np.int64), 0, 1 if base == "auto" else base, None
        notices, sample = {}, LineSample()
        for path, begin, data, width in self._blocks(MAX_INDEX, base, sample):
            wrong = wrong or _wrong_labels(path, data, begin)
            labels = np.union1d(labels, data.y)
            largest = max(largest, width + data.base) if width else largest
            self.base = min(self.base, data.base)
            for notice in data.notices:
                notices.setdefault(kind_of(notice, path), notice)
            self.n_rows += data.X.shape[0]
        n_rows = self.n_rows
        every = [notices] if self.workers is None else self.workers.exchange(notices)
        for notice in {kind: notice for one in reversed(every) for kind, notice in one.items()}.values():
            note(notice)
        if self.workers is not None:
            n_rows = int(self.workers.sum(np.array([n_rows]))[0])
            self.begin = 0 if self.whole else before(self.workers, self.n_rows)
        if wrong:
            check_row_labels(wrong[0], wrong[1], wrong[2] + self.begin)
        if self.workers is not None:
            labels = np.unique(np.concatenate(self.workers.exchange(labels))).astype(np.int64)
            base, largest = self.workers.maximum(np.array([-self.base, largest]))
            self.base, largest = -int(base), int(largest)
        found = largest - self.base
        if not n_rows:
            raise ValueError(f"{_shown(self.parts)}: no row of data; expected rows like 1 3:0.5 7:2")
        if found <= 0 and wanted is None:
            raise ValueError(f"{_shown(self.parts)}: no row has a feature; give n_features if that is meant")
        if wanted is not None and found > wanted:
            note(f"{_shown(self.parts)}: features beyond n_features={wanted} dropped")
        self.n_features, self.classes = wanted or found, labels
        self.merging = merging(sample.rows(self.n_features, self.base)) if self.n_rows else ()

    def _again(self):
        return ((path, begin, data) for path, begin, data, _ in self._blocks(self.n_features, self.base))

    def _labels(self, y):
        return y


class _Table(_Reader):
    """CSV and Parquet."""

    def _blocks(self, wide=False):
        blocks = table_blocks(self.parts[0], self.arguments.format)
        for path in self.parts:
            begin, choose = 0, choice(self.names, self.arguments.label if self.label is None else self.label)
            for data in blocks(path, choose, None, wide, TABLE_ROWS // (1 + wide)):
                self.names, self.label = data.names, data.label
                yield path, begin, data
                begin += len(data.X)

    def survey(self, note):
        """Count rows, and collect the labels."""
        import numpy as np

        from pymcboost.data.merging import RowSample, merging

        labels, sample = set(), RowSample()
        for path, begin, data in self._blocks(wide=True):
            check_row_labels(path, data, begin, data.label)
            sample.take(data.X)
            labels.update(data.y.tolist())
            self.n_rows += len(data.X)
        self.merging = merging(sample.rows)
        try:
            found = labels_as(np.array(sorted(labels), dtype=object))
        except ValueError as error:
            raise ValueError(f"{_shown(self.parts)}: {error}") from None
        self.n_features, self.classes, self._text = len(self.names), np.unique(found), found.dtype.kind != "i"

    def _again(self):
        return self._blocks()

    def _labels(self, y):
        return labels_as(y, self._text)
