"""Models that no other betters."""


def frontier(points):
    """Indices of the points (x, y) that no other point equals or betters in both, in order of x."""
    kept = []
    for at in sorted(range(len(points)), key=lambda at: points[at]):
        if not kept or points[at][1] < points[kept[-1]][1]:
            kept.append(at)
    return kept
