"""Defaults against defaults: ratios, ranks, and the short tables of benchmarks."""

import numpy as np
import pandas as pd
import pytest
from reproduce import headline, timings


@pytest.fixture
def tables():
    """Five methods on three sets; CatBoost has no result on the last one."""
    losses = pd.DataFrame(
        {name: [0.2, 0.4, 0.1] for name in headline.NAMES}, index=["car", "iris", "wine"]
    )
    losses["lightgbm"] *= [2, 4, 8]
    losses["catboost"] *= [1.5, 0.5, np.nan]
    wrong = 10 * losses
    return {
        "log_loss": losses,
        "error": wrong,
        "bytes": losses,
        "cpu": losses,
        "cpu-catboost": losses,
    }


def test_ratios_are_geometric_means_with_intervals(tables):
    ratio = headline.ratio_of(tables["log_loss"], "lightgbm")
    assert ratio.mean == pytest.approx(4) and ratio.n_sets == 3
    half = 4.3027 * np.log(2) / np.sqrt(3)
    assert ratio.high == pytest.approx(4 * np.exp(half), rel=1e-3)
    assert ratio.low * ratio.high == pytest.approx(16)
    assert headline.ratio_of(tables["log_loss"], "catboost").n_sets == 2


def test_pairs_of_methods(tables):
    words = headline.pair_values(tables, "catboost")
    assert words["sets"] == "2" and words["log-loss-ahead"] == "1" and words["error-ahead"] == "1"
    assert words["log-loss"] == "0.87" and words["size"] == "0.87"
    assert headline.pair_values(tables, "lightgbm")["log-loss-median"] == "4.00"


def test_ranks_are_of_sets_that_all_have(tables):
    words = headline.rank_values(tables, headline.RANKED)
    assert words["rank-sets"] == "2"
    assert words["rank-log-loss-catboost"] == "2.50" and words["rank-log-loss-lightgbm"] == "5.00"
    assert headline.rank_values(tables, headline.MOST)["rank-sets"] == "3"


@pytest.mark.parametrize(
    ("value", "words"), [(0.551, "0.55"), (1.04, "1.0"), (9.94, "9.9"), (9.96, "10"), (83.4, "83")]
)
def test_ratios_in_words(value, words):
    assert headline.short(value) == words


def test_small_fits_by_classes():
    rows = [
        {"what": f"{m} x 10, {K} classes: {who}", **options}
        for m, ratio in ((300, 4.0), (1000, 1.0))
        for K in (2, 10)
        for who, options in (("ours", {}), ("LightGBM", {"ours_times": ratio}))
    ]
    table = timings.small_fits_table({"bench-small-fits": {"rows": rows}})
    assert "| 2 classes | LightGBM | 2 | 2.0 | 1.0 | 4.0 |\n| 10 classes | LightGBM | 2 |" in table


def test_early_exits_have_a_row_for_each_set():
    exits = {"skipped_%": 20.0, "changed": 0, "of_rows": 100}
    rows = [
        {"what": "usps: certified, time", "best": 0.9, **exits},
        {"what": "usps: calibrated, time", "best": 0.4, **exits, "changed": 1},
    ]
    table = timings.early_table({"bench-early": {"rows": rows}})
    assert "| usps | 0.9 | 20% | 0.4 | 20% | 1.00% |" in table
