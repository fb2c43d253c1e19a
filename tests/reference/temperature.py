"""Slow twin of the temperature: the loss by its definition, and its least value by narrowing an interval."""

import math


def log_loss(scores, codes, weight, link, temperature):
    """Weighted mean of -log p of the right classes, where one row in n + 1 has a class at random."""
    total = 0.0
    share = 1 / (1 + sum(w > 0 for w in weight))
    for F, y, w in zip(scores, codes, weight, strict=True):
        z = [(2 if link == "softmax2" else 1) * f / temperature for f in F]
        top = max(z)
        log_p = [value - top - math.log(sum(math.exp(value - top) for value in z)) for value in z]
        total -= w * ((1 - share) * log_p[y] + share * sum(log_p) / len(log_p))
    return total / sum(weight)


def best_temperature(scores, codes, weight, link):
    """Golden sections of log T, from 2^-16 to 2^16: the loss has one minimum."""
    low = -16 * math.log(2)
    high = 16 * math.log(2)
    ratio = (math.sqrt(5) - 1) / 2
    while high - low > 1e-7:
        a = high - ratio * (high - low)
        b = low + ratio * (high - low)
        if log_loss(scores, codes, weight, link=link, temperature=math.exp(a)) <= log_loss(
            scores, codes, weight, link=link, temperature=math.exp(b)
        ):
            high = b
        else:
            low = a
    return math.exp((low + high) / 2)
