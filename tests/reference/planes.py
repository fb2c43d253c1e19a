"""Certified early exits of linear machines, slowly: the basis, its shares and bounds, and rows."""

import numpy as np

WIDTH = 1024
MOST = 256
UP = 1 + 2.0**-20


def shortened(v):
    """Rounded to 29 significant bits, halves away from 0; 0 below 2^-700."""
    bits = np.asarray(v, dtype=np.float64).view(np.uint64)
    short = ((bits + np.uint64(0x800000)) & np.uint64(0xFFFFFFFFFF000000)).view(np.float64)
    return np.where(np.abs(v) < 2.0**-700, 0.0, short)


def eight(terms):
    """Sums along the last axis, in eight chains."""
    n = terms.shape[-1]
    s = np.zeros((*terms.shape[:-1], 8))
    for j in range(0, n, 8):
        s[..., : min(8, n - j)] += terms[..., j : j + 8]
    return ((s[..., 0] + s[..., 4]) + (s[..., 2] + s[..., 6])) + (
        (s[..., 1] + s[..., 5]) + (s[..., 3] + s[..., 7])
    )


def single(v):
    """Rounded to float32."""
    return np.asarray(v, dtype=np.float32).astype(np.float64)


class Planes:
    """What can be left out of the hyperplanes ``coef`` (K, d), with ``bias`` (K,), both float32."""

    def __init__(self, coef, bias):
        self.K, self.d = coef.shape
        self.w, self.bias = coef.astype(np.float64), bias.astype(np.float64)
        rows = [(*row.tolist(), b) for row, b in zip(coef, bias, strict=True)]
        self.twin = np.array([rows.index(row) for row in rows])
        largest = np.abs(coef).max(axis=0)
        self.unit = np.where(
            largest > 0, 2.0 ** np.floor(np.log2(np.maximum(largest, 2.0**-149))), 0.0
        )
        self.unit[(largest > 0) & (largest < 2.0**-126)] = 2.0**-149
        self.cls, parts = self.basis()
        if self.cls:
            self.shares(parts)
            self.bounds()

    def scaled(self, v):
        return np.where(self.unit > 0, v / np.where(self.unit > 0, self.unit, 1), 0.0)

    def sketch(self):
        v = self.scaled(self.w)
        if self.d >= WIDTH:
            place = np.arange(self.d) * 0x9E3779B1 & 0xFFFFFFFF
            sign, v, all_of = np.where(place >> 21 & 1, 1.0, -1.0), np.zeros((self.K, WIDTH)), v
            if self.d > WIDTH:
                for j in range(self.d):
                    v[:, place[j] >> 22] += sign[j] * all_of[:, j]
            else:
                v = all_of
        return shortened(v)

    def basis(self):
        """Classes of the basis, and the parts of all hyperplanes; none if they are not enough."""
        sketch = self.sketch()
        classes = []
        parts = []
        whole = None
        most = min(self.K - (self.K + 3) // 4, self.d, MOST)
        first = self.twin == np.arange(self.K)
        while True:
            rest = np.where(first, eight(single(sketch) ** 2), 0.0)
            whole = rest if whole is None else whole
            share = np.where(rest * 2.0**36 > whole, rest / np.where(whole > 0, whole, 1), 0.0)
            if not share.any():
                return classes, np.array(parts).T
            if len(classes) == most:
                return [], None
            p = int(share.argmax())
            way = single(sketch[p] / np.sqrt(rest[p]))
            part = shortened(eight(sketch * way))
            sketch = shortened(sketch - part[:, None] * way)
            sketch[p] = 0
            classes.append(p)
            parts.append(part)

    def shares(self, parts):
        n = len(self.cls)
        share = np.zeros((n, self.K))
        for i in reversed(range(n)):
            v = parts[:, i].copy()
            for j in range(i + 1, n):
                v -= share[j] * parts[self.cls[j], i]
            v /= parts[self.cls[i], i]
            share[i] = single(v)
        assert np.abs(share).max() < 1e12
        share[:, self.cls] = 0
        self.share = share

    def norm(self, v):
        v, total = single(self.scaled(v)), np.zeros(len(v))
        for j in range(0, self.d, 512):
            total += eight(v[:, j : j + 512] ** 2)
        return shortened((np.sqrt(total) + 1e-38) * UP)

    def bounds(self):
        left = self.w.copy()
        size = self.d + 300
        power = 2.0**-53
        for p, share in zip(self.cls, self.share, strict=True):
            left -= share[:, None] * self.w[p]
        while size > 1:
            size = (size + 1) // 2
            power = 2 * power
        rest = self.norm(left)
        whole = self.norm(self.w)
        sums = np.zeros(self.K)
        for p, share in zip(self.cls, self.share, strict=True):
            sums += np.abs(share) * whole[p]
        sums = shortened(sums * UP)
        bound = rest + (power * whole + (power * sums + sums * 2.0**-28))
        self.bound = single(bound * UP)
        tiny = np.float32(1e-37)
        self.slack = (np.abs(self.bias).astype(np.float32) / np.float32(2.0**43) + tiny).astype(
            np.float64
        )
        self.bound[self.cls] = self.slack[self.cls] = 0

    def early(self, row):
        """Class, hyperplanes evaluated and scores of a row."""
        row = np.asarray(row, dtype=np.float32).astype(np.float64)
        exact = self.bias + eight(self.w * row)
        if not self.cls or not np.isfinite(row).all():
            return (
                int(np.nan_to_num(exact).argmax()) if np.isfinite(row).all() else 0,
                self.K,
                exact,
            )
        length = shortened(np.sqrt(eight((self.unit * row) ** 2)) * UP)
        scores = self.bias.copy()
        product = eight(self.w[self.cls] * row)
        for share, v in zip(self.share, shortened(product), strict=True):
            scores += v * share
        scores[self.cls] = exact[self.cls]
        margin = self.bound * length + self.slack
        n = len(self.cls)
        best = (scores - margin).max()
        high = scores + margin
        able = (high >= best) & (self.twin == np.arange(self.K))
        for k in np.flatnonzero(able & (self.slack > 0)) if able.sum() > 1 else ():
            if high[k] >= best:
                scores[k], best, n = exact[k], max(best, exact[k]), n + 1
        scores = scores[self.twin]
        return int(scores.argmax()), n, scores
