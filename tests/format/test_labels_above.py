"""Labels above their thresholds in C are those of Python."""

import subprocess

import numpy as np
import pytest
from c.build import STRICT, build, c_compiler
from reference.scoring import random_rows, random_trees

from pymcboost.model.model import Model

PROGRAM = r"""
#include <stdio.h>
#include "mcb.h"
int main(int argc, char **argv) {
    static unsigned char bytes[1 << 20], given[64];
    static float row[64];
    static double scores[64];
    mcb_model m;
    FILE *model = fopen(argv[1], "rb"), *rows = fopen(argv[2], "rb");
    uint32_t k;
    (void)argc;
    if (mcb_open(&m, bytes, fread(bytes, 1, sizeof bytes, model)) != MCB_OK || m.link != MCB_LINK_SIGMOID) return 1;
    while (fread(row, sizeof *row, m.n_features, rows) == m.n_features) {
        mcb_scores(&m, row, scores);
        printf("%u", (unsigned)mcb_labels_above(&m, scores, given));
        for (k = 0; k < m.n_classes; k++) printf(" %u", given[k]);
        printf("\n");
    }
    return 0;
}
"""


@pytest.mark.parametrize("above", [None, [0.5, -0.25, 0.0, 1.0, -2.0]])
def test_labels_above_their_thresholds(tmp_path, above):
    trees = random_trees(9, 4, 5, mode="vector", seed=2)
    model = Model.from_ensemble(trees, range(5), link="sigmoid")
    X = random_rows(200, 4)
    if above is not None:
        model = model.with_thresholds(above)
        model = model.with_thresholds(model.raw_scores(X)[0])  # also scores that lie on them
    source = tmp_path / "labels.c"
    source.write_text(PROGRAM)
    program = build(source, [c_compiler(), "-std=c99", "-O0", *STRICT])
    model.save(tmp_path / "m.mcb")
    X.astype(np.float32).tofile(tmp_path / "rows")
    completed = subprocess.run(
        [program, tmp_path / "m.mcb", tmp_path / "rows"], capture_output=True, text=True, check=True
    )
    actual = np.array([line.split() for line in completed.stdout.splitlines()], dtype=int)
    expected = model.predict(X)
    np.testing.assert_array_equal(actual[:, 1:], expected)
    np.testing.assert_array_equal(actual[:, 0], expected.sum(axis=1))
    assert 0 < expected.mean() < 1 and (above is None or not expected[0].any())
