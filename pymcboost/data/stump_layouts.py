"""Layouts of binned and sorted columns for the search of decision stumps."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pymcboost._kernels import bins as _bins
from pymcboost._kernels import stump_histograms as _histograms
from pymcboost._kernels import stumps as _stumps
from pymcboost._kernels.aligned import aligned_zeros

# Columns share a byte only with at least this many rows, so that the time saved outweighs the summing.
BUNDLE_ROWS = 512


@dataclass(frozen=True)
class StumpLayout:
    """Some of the columns; slot s holds column ``feature[s]`` with the cuts ``thresholds[s]``."""

    feature: np.ndarray
    thresholds: list

    # Whether `search` needs the sums of the gradient's columns.
    needs_sums = True

    @property
    def n_entries(self):
        """Numbers read by one scan for one block of classes."""
        return self.codes.size

    @property
    def has_missing(self):
        """Whether any column has missing values."""
        return bool(np.any(self.missing))

    def search(self, gradient, sums, tie, scratch, result, n_threads):
        """Fill a `stumps.Target` with the results of all slots' splits for ``gradient`` (n_blocks, m, lanes)."""
        raise NotImplementedError

    def fill(self, rounded, sums, cell_rows, scratch, cells, n_threads):
        """Fill the histograms of all slots with an integer gradient, from rows ``cell_rows`` of ``cells`` on."""
        raise NotImplementedError

    @property
    def sees_missing(self):
        """Whether the column of each slot has missing values."""
        return self.missing > 0

    def side(self, slot, pos, nan_left, h):
        """Write the outputs of a split on the training rows, -1 on its left, into ``h`` (m,)."""
        raise NotImplementedError

    def sides(self, slots, codes, to, h, n_threads):
        """Write the outputs of several splits, encoded as 2 pos + nan_left, into the rows ``to`` of ``h`` (P, m)."""
        for slot, code, row in zip(slots, codes, to, strict=True):
            self.side(slot, code >> 1, bool(code & 1), h=h[row])


@dataclass(frozen=True)
class Tiles(StumpLayout):
    """Bin codes in tiles of 4 bytes per row; a byte holds one or more columns (slots) in mixed radix.

    Attributes
    ----------
    codes : ndarray of uint8 (n_tiles, m, 4)
    byte_cells : ndarray of int32 (4 n_tiles,)
        Number of codes of every byte: the product of the bins of its slots.
    byte_ptr : ndarray of int32 (4 n_tiles + 1,)
        First slot of every byte.
    stride : ndarray of int32 (n_slots,)
        What the bin of a slot is multiplied by in the code of its byte.
    bins : ndarray of int32 (n_slots,)
        Bins of every slot, with the one of missing values.
    missing : ndarray of uint8 (n_slots,)
        0: no missing values; 1: they may be split from all others; 2: they may not, as too few rows are on one side.
    """

    codes: np.ndarray
    byte_cells: np.ndarray
    byte_ptr: np.ndarray
    stride: np.ndarray
    bins: np.ndarray
    missing: np.ndarray

    needs_sums = False

    @classmethod
    def of(cls, codes, features, all_bins, missing_code, thresholds_of, n_threads, total_rows):
        """Put these columns of ``codes`` (d, m) into tiles; ``total_rows`` counts the rows of all workers."""
        m = codes.shape[1]
        if total_rows >= BUNDLE_ROWS:
            byte_slots = _bundle(features, all_bins)
        else:
            byte_slots = [[f] for f in features]
        n_tiles = -(-len(byte_slots) // 4)
        byte_slots += [[]] * (4 * n_tiles - len(byte_slots))
        order = [f for slots in byte_slots for f in slots]
        bins = all_bins[order].astype(np.int32)
        byte_ptr = np.concatenate(([0], np.cumsum([len(slots) for slots in byte_slots])))
        byte_ptr = byte_ptr.astype(np.int32)
        stride = np.ones(len(order), dtype=np.int32)
        cells = np.ones(4 * n_tiles, dtype=np.int32)
        for byte in range(4 * n_tiles):
            for s in range(byte_ptr[byte], byte_ptr[byte + 1]):
                stride[s] = cells[byte]
                cells[byte] *= bins[s]
        tiles = aligned_zeros((n_tiles, m, 4), np.uint8)
        feature = np.array(order, dtype=np.int32)
        _bins.pack_tiles(codes, feature, stride, byte_ptr, tiles, n_threads)
        return cls(
            feature=feature,
            thresholds=[thresholds_of(f) for f in order],
            codes=tiles,
            byte_cells=cells,
            byte_ptr=byte_ptr,
            stride=stride,
            bins=bins,
            missing=missing_code[order],
        )

    @classmethod
    def of_entries(
        cls, bins, columns, all_bins, missing_code, thresholds, n_threads, n_rows, total_rows
    ):
        """Put the columns ``columns`` of `ListedBins` into tiles; the other arrays cover all columns."""
        codes = np.empty((len(columns), n_rows), dtype=np.uint8)
        place = np.full(len(bins.cuts), -1)
        codes[:] = bins.usual[columns, None]
        place[columns] = np.arange(len(columns))
        for f, rows, entry_bins in bins.entries:
            if place[f] >= 0:
                codes[place[f], rows] = entry_bins
        tiles = cls.of(
            codes,
            features=range(len(columns)),
            all_bins=all_bins[columns],
            missing_code=missing_code[columns],
            thresholds_of=lambda j: thresholds[columns[j]],
            n_threads=n_threads,
            total_rows=total_rows,
        )
        return replace(tiles, feature=bins.feature[columns[tiles.feature]].astype(np.int32))

    @cached_property
    def byte(self):
        """Byte of every slot."""
        return np.repeat(np.arange(len(self.byte_ptr) - 1, dtype=np.int32), np.diff(self.byte_ptr))

    def search(self, gradient, sums, tie, scratch, result, n_threads):
        """Search the splits by histograms of the bytes; see `StumpLayout.search`."""
        _stumps.search_tiles(
            gradient,
            self.codes,
            self.byte_cells,
            self.byte_ptr,
            self.stride,
            self.bins,
            self.missing,
            tie,
            scratch,
            result,
            n_threads,
        )

    def fill(self, rounded, sums, cell_rows, scratch, cells, n_threads):
        """Fill the histograms with an integer gradient; see `StumpLayout.fill`."""
        _histograms.fill_tiles(
            rounded,
            self.codes,
            self.byte_cells,
            self.byte_ptr,
            self.stride,
            self.bins,
            cell_rows,
            scratch,
            cells,
            n_threads,
        )

    def side(self, slot, pos, nan_left, h):
        """Write the outputs of a split; see `StumpLayout.side`."""
        byte = self.byte[slot]
        _stumps.side_tile(
            self.codes[byte // 4],
            byte % 4,
            self.stride[slot],
            self.bins[slot],
            pos,
            nan_left,
            self.missing[slot],
            h,
        )

    def sides(self, slots, codes, to, h, n_threads):
        """Write the outputs of several splits in parallel; see `StumpLayout.sides`."""
        _stumps.side_tiles(
            self.codes,
            self.byte,
            self.stride,
            self.bins,
            self.missing,
            slots,
            codes,
            to,
            h,
            n_threads,
        )


@dataclass(frozen=True)
class Lists(StumpLayout):
    """Skewed columns: only rows outside the most frequent bin, and their codes.

    Attributes
    ----------
    ptr : ndarray of int64 (n_slots + 1,)
        First entry of every slot in ``rows`` and ``codes``.
    rows : ndarray of int32
    codes : ndarray of uint8
    mode : ndarray of int32 (n_slots,)
        The most frequent bin.
    bins, missing
        See `Tiles`.
    """

    ptr: np.ndarray
    rows: np.ndarray
    codes: np.ndarray
    mode: np.ndarray
    bins: np.ndarray
    missing: np.ndarray

    @classmethod
    def of(cls, codes, features, mode, others, all_bins, missing_code, thresholds_of, n_threads):
        """List the ``others`` (d,) rows of these columns of ``codes`` (d, m); all arrays are by column."""
        ptr = np.concatenate(([0], np.cumsum(others[features]))).astype(np.int64)
        rows = aligned_zeros(ptr[-1], np.int32)
        listed = aligned_zeros(ptr[-1], np.uint8)
        _bins.list_others(codes, features, mode[features], ptr, rows, listed, n_threads)
        return cls(
            feature=features.astype(np.int32),
            thresholds=[thresholds_of(f) for f in features],
            ptr=ptr,
            rows=rows,
            codes=listed,
            mode=mode[features],
            bins=all_bins[features].astype(np.int32),
            missing=missing_code[features],
        )

    @classmethod
    def of_entries(cls, bins, columns, all_bins, missing_code, thresholds):
        """List the columns ``columns`` of `ListedBins`; the other arrays cover all columns."""
        place = np.full(len(bins.cuts), -1)
        place[columns] = np.arange(len(columns))
        rows_of_columns = [np.zeros(0, dtype=np.int32)] * len(columns)
        codes_of_columns = [np.zeros(0, dtype=np.uint8)] * len(columns)
        for f, rows, entry_bins in bins.entries:
            if place[f] >= 0:
                others = entry_bins != bins.usual[f]
                rows_of_columns[place[f]] = rows[others].astype(np.int32)
                codes_of_columns[place[f]] = entry_bins[others].astype(np.uint8)
        ptr = np.concatenate(([0], np.cumsum([len(rows) for rows in rows_of_columns])))
        return cls(
            feature=bins.feature[columns].astype(np.int32),
            thresholds=[thresholds[f] for f in columns],
            ptr=ptr.astype(np.int64),
            rows=np.concatenate(rows_of_columns),
            codes=np.concatenate(codes_of_columns),
            mode=bins.usual[columns],
            bins=all_bins[columns].astype(np.int32),
            missing=missing_code[columns],
        )

    def search(self, gradient, sums, tie, scratch, result, n_threads):
        """Search the splits by histograms of the listed rows; see `StumpLayout.search`."""
        _stumps.search_lists(
            gradient,
            sums,
            self.ptr,
            self.rows,
            self.codes,
            self.mode,
            self.bins,
            self.missing,
            tie,
            scratch,
            result,
            n_threads,
        )

    def fill(self, rounded, sums, cell_rows, scratch, cells, n_threads):
        """Fill the histograms with an integer gradient; see `StumpLayout.fill`."""
        _histograms.fill_lists(
            rounded,
            sums,
            self.ptr,
            self.rows,
            self.codes,
            self.mode,
            self.bins,
            cell_rows,
            scratch,
            cells,
            n_threads,
        )

    def side(self, slot, pos, nan_left, h):
        """Write the outputs of a split; see `StumpLayout.side`."""
        part = slice(self.ptr[slot], self.ptr[slot + 1])
        _stumps.side_list(
            self.rows[part],
            self.codes[part],
            self.mode[slot],
            self.bins[slot],
            pos,
            nan_left,
            self.missing[slot],
            h,
        )


@dataclass(frozen=True)
class Sorted(StumpLayout):
    """Sorted columns, dense or sparse; see `binning.SortedColumns`."""

    ptr: np.ndarray
    order: np.ndarray
    n_missing: np.ndarray
    default_at: np.ndarray
    split_missing: np.ndarray

    @property
    def n_entries(self):
        """Numbers read by one scan for one block of classes."""
        return self.order.size

    @property
    def has_missing(self):
        """Whether any column has missing values."""
        return bool(np.any(self.n_missing))

    @property
    def sees_missing(self):
        """Whether the column of each slot has missing values."""
        return self.n_missing > 0

    def search(self, gradient, sums, tie, scratch, result, n_threads):
        """Search the splits by a scan of the sorted entries; see `StumpLayout.search`."""
        _stumps.search_sorted(
            gradient,
            sums,
            self.ptr,
            self.order,
            self.n_missing,
            self.default_at,
            self.split_missing,
            tie,
            result,
            n_threads,
        )

    def side(self, slot, pos, nan_left, h):
        """Write the outputs of a split; see `StumpLayout.side`."""
        part = slice(self.ptr[slot], self.ptr[slot + 1])
        _stumps.side_sorted(
            self.order[part], self.n_missing[slot], self.default_at[slot], pos, nan_left, h
        )


def _bundle(features, n_bins):
    """Group columns so that the product of their bins is at most 256, largest columns first."""
    bundles = []
    n_cells = []
    n_full = 0  # the first bundles, which no column fits into
    for f in sorted(features, key=lambda f: (-n_bins[f], f)):
        size = int(n_bins[f])
        while n_full < len(bundles) and n_cells[n_full] * 2 > 256:
            n_full += 1
        for b in range(n_full, len(bundles)):
            if n_cells[b] * size <= 256:
                bundles[b].append(f)
                n_cells[b] *= size
                break
        else:
            bundles.append([f])
            n_cells.append(size)
    return bundles
